"""Execution of snippets with packages that the user allows, by this Python, in a limited process.

The process has an empty folder, no environment variables, limits of time and memory, and no network except requests
that go through the guard. These limits contain mistakes; the process runs with the user's rights, and is not a sandbox
against malicious code. Therefore only the user can allow packages.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from operad.operators.sandbox.snippet import CodeError, CodeLimits, Snippet
from operad.operators.web.fetch import Fetched
from operad.runtime.values.errors import OperadError

START_SECONDS = 60.0
"""Maximum time for starting a process and loading its packages, in seconds."""

MOST_FETCHES = 100
"""Maximum number of requests of a snippet."""

Send = Callable[[str, str, Mapping[str, str], bytes | None], Awaitable[Fetched]]
"""Function that sends a request (method, URL, headers, body) through the guard."""


def task_of(snippet: Snippet, arguments: str, packages: Sequence[str] = ()) -> dict[str, Any]:
    """Return the task for a process: a snippet of Python, the arguments of `main` as JSON, and its packages."""
    return {
        "language": "python",
        "code": snippet.source,
        "arguments": arguments,
        "by_position": list(snippet.by_position),
        "awaited": snippet.awaited,
        "packages": list(packages),
    }


async def run_in_process(task: Mapping[str, Any], limits: CodeLimits, send: Send | None = None) -> dict[str, Any]:
    """Run a snippet in a limited process, and return the result of `driver.call_main`.

    Args:
        task: The task, as returned by `task_of`.
        limits: Limits of the snippet; the time for loading packages does not count.
        send: Function that sends the requests of the snippet; None refuses them.

    Raises:
        CodeError: The snippet reached a limit, or its process ended early.
        OperadError: This system cannot limit a process.
    """
    if sys.platform == "win32":
        raise OperadError("code in a limited process needs Linux or macOS: Windows cannot limit a process this way")
    task = {**task, "seconds": limits.seconds, "memory_bytes": limits.memory_bytes}
    with TemporaryDirectory(prefix="operad-", ignore_cleanup_errors=True) as folder:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-B", "-X", "utf8", str(Path(__file__).with_name("process_child.py"))),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=folder,
            env={"HOME": folder, "TMPDIR": folder, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            start_new_session=True,
            limit=6 * limits.output_chars + 2**20,  # JSON escapes a character by at most six
        )
        try:
            result = await _exchange(process, task, limits, send)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if result is None:
        status = process.returncode or 0
        ended = signal.Signals(-status).name if status < 0 else f"status {status}"
        reason = (
            f"it ran longer than {limits.seconds:g} s, the limit seconds; let it do less"
            if ended == "SIGXCPU"
            else f"its process ended with {ended}, perhaps for want of memory ({limits.memory_bytes:,} bytes)"
        )
        raise CodeError(f"the snippet failed: {reason}")
    return result


async def _exchange(
    process: asyncio.subprocess.Process, task: Mapping[str, Any], limits: CodeLimits, send: Send | None
) -> dict[str, Any] | None:
    """Send the task, serve the snippet's requests, and return its result; None if the process ended early."""
    stdin, stdout = cast("asyncio.StreamWriter", process.stdin), cast("asyncio.StreamReader", process.stdout)
    seconds, fetches = START_SECONDS, 0
    answer: Mapping[str, Any] = task
    while True:
        try:
            with suppress(ConnectionError):
                stdin.write(json.dumps(answer).encode() + b"\n")
                await stdin.drain()
            line = await asyncio.wait_for(stdout.readline(), seconds)
            if seconds == START_SECONDS and line.startswith(b'{"ready"'):
                seconds = limits.seconds
                line = await asyncio.wait_for(stdout.readline(), seconds)
            message = cast("dict[str, Any]", json.loads(line)) if line else None
        except asyncio.TimeoutError as error:
            reason = f"it ran longer than {seconds:g} s, the limit seconds; let it do less"
            raise CodeError(f"the snippet failed: TimeoutError: {reason}") from error
        except ValueError as error:
            raise CodeError("main returned more than the limit output_chars; return less") from error
        if message is None or "fetch" not in message:
            return message
        fetches += 1
        answer = await _answer_request(message["fetch"], send if fetches <= MOST_FETCHES else None)


async def _answer_request(request: Mapping[str, Any], send: Send | None) -> dict[str, Any]:
    """Send a request of the snippet, and return the answer for the child process."""
    if send is None:
        return {"error": f"a snippet may ask for {MOST_FETCHES} addresses, through the address guard alone"}
    try:
        body = None if request["body"] is None else base64.b64decode(request["body"], validate=True)
        headers = {str(name): str(value) for name, value in request["headers"].items()}
        response = await send(str(request["method"]), str(request["url"]), headers, body)
    except (OperadError, binascii.Error, KeyError, AttributeError, TypeError) as error:
        return {"error": str(error)}
    body = base64.b64encode(response.body).decode("ascii")
    return {"status": response.status, "url": response.url, "headers": dict(response.headers), "body": body}
