"""Execution of snippets with packages that the user allows, by this Python, in a limited process.

The process has an empty folder, no environment variables, limits of time, memory and files, and no network except
requests that this process sends through the guard. On Linux, the kernel confines it (`operad.runtime.barrier`); where
`operad.runtime.barrier.missing` names parts, these limits only contain mistakes. Packages are native code of the user's
installation, so only the user can allow them in any case.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import stat
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, cast
from uuid import uuid4

from operad.operators.sandbox.snippet import CodeError, CodeLimits, Snippet
from operad.operators.web.fetch import Fetched
from operad.runtime.values.errors import OperadError

# Scratch folder of a limited process, whose content is hostile: its size, and its removal.

MOST_BYTES = 256 * 2**20
"""Maximum size of a scratch folder, in bytes."""

MOST_ENTRIES = 4_096
"""Maximum number of files and folders in a scratch folder."""


def excess(folder: Path, process: int) -> str:
    """Return a description of what exceeds the limits of a scratch folder; empty if nothing does.

    Files that the process deleted, but keeps open, count as well.

    Args:
        process: Id of the process that writes in it.
    """
    used, entries = 0, 0
    pending = [str(folder)]
    try:
        while pending:
            with suppress(FileNotFoundError), os.scandir(pending.pop()) as content:
                for entry in content:
                    entries += 1
                    used += _bytes_of(entry.stat(follow_symlinks=False))
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    if entries > MOST_ENTRIES:
                        return f"more than {MOST_ENTRIES:,} files"
        with suppress(FileNotFoundError, ProcessLookupError):
            for name in os.listdir(f"/proc/{process}/fd") if sys.platform == "linux" else ():
                with suppress(FileNotFoundError):
                    status = os.stat(f"/proc/{process}/fd/{name}")
                    used += _bytes_of(status) if stat.S_ISREG(status.st_mode) and not status.st_nlink else 0
    except OSError as error:  # a path of more than 4,096 characters, or a folder that hides its content
        return f"files that cannot be counted ({error.strerror})"
    return f"more than {MOST_BYTES:,} bytes" if used > MOST_BYTES else ""


def _bytes_of(status: os.stat_result) -> int:
    return 512 * getattr(status, "st_blocks", 0)


def remove(folder: Path) -> None:
    """Remove a scratch folder, after its process ended.

    The folders in it can be nested deeper than Python's stack and than the longest path. Therefore each step moves the
    content of a folder up, so that no path has more than three parts.
    """
    with suppress(OSError):  # a result is kept although a leftover of its temporary folder remains
        while inner := _remove_files(folder):
            for each in inner:
                for nested in _remove_files(each):
                    nested.rename(folder / uuid4().hex)
                each.rmdir()
        folder.rmdir()


def _remove_files(folder: Path) -> list[Path]:
    """Remove the files of a folder, and return the folders in it."""
    folder.chmod(0o700)
    folders: list[Path] = []
    with os.scandir(folder) as content:
        for entry in content:
            if entry.is_dir(follow_symlinks=False):
                folders.append(Path(entry.path))
            else:
                os.unlink(entry.path)
    return folders


START_SECONDS = 60.0
"""Maximum time for starting a process and loading its packages, in seconds."""

WATCH_SECONDS = 0.2
"""Time between two checks of the files that a process writes, in seconds."""

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
    folder = Path(mkdtemp(prefix="operad-"))
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-B", "-X", "utf8", str(Path(__file__).with_name("process_child.py"))),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=folder,
            env={"HOME": str(folder), "TMPDIR": str(folder), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            start_new_session=True,
            limit=6 * limits.output_chars + 2**20,  # JSON escapes a character by at most six
        )
        watch = asyncio.create_task(_end_at_excess(process.pid, folder))
        try:
            result = await _exchange(process, task, limits, send)
            exceeded = watch.result() if watch.done() else ""
        finally:
            watch.cancel()
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    finally:
        await asyncio.to_thread(remove, folder)
    if result is None:
        status = process.returncode or 0
        ended = signal.Signals(-status).name if status < 0 else f"status {status}"
        if exceeded:
            reason = f"it wrote {exceeded} in its folder; let it write less"
        elif ended == "SIGXCPU":
            reason = _too_long(limits.seconds)
        else:
            reason = f"its process ended with {ended}, perhaps for want of memory ({limits.memory_bytes:,} bytes)"
        raise CodeError(f"the snippet failed: {reason}")
    return result


async def _end_at_excess(process: int, folder: Path) -> str:
    """Kill a process when its folder exceeds the limits, and return what exceeds them."""
    while True:
        await asyncio.sleep(WATCH_SECONDS)
        if exceeded := await asyncio.to_thread(excess, folder, process):
            with suppress(ProcessLookupError):
                os.killpg(process, signal.SIGKILL)
            return exceeded


async def _exchange(
    process: asyncio.subprocess.Process, task: Mapping[str, Any], limits: CodeLimits, send: Send | None
) -> dict[str, Any] | None:
    """Send the task, serve the snippet's requests, and return its result; None if the process ended early.

    The time of the snippet excludes the time that its requests take here.
    """
    answer: Mapping[str, Any] = task
    most = seconds = START_SECONDS
    fetches = 0
    while True:
        started = time.monotonic()
        try:
            line = await asyncio.wait_for(_ask(process, answer), seconds)
            if answer is task and line.startswith(b'{"ready"'):
                most = seconds = limits.seconds
                started = time.monotonic()
                line = await asyncio.wait_for(cast("asyncio.StreamReader", process.stdout).readline(), seconds)
            elif answer is task and line:
                raise OperadError(f"this system cannot confine the process of code: {line.decode(errors='replace')}")
            message = json.loads(line) if line else None
        except TimeoutError as error:
            raise CodeError(f"the snippet failed: TimeoutError: {_too_long(most)}") from error
        except ValueError as error:
            raise CodeError("main returned more than the limit output_chars; return less") from error
        except RecursionError:
            message = ()
        if not isinstance(message, dict | None):
            raise CodeError("the snippet prevented the sandbox from reading the result of main")
        result = cast("dict[str, Any] | None", message)
        if result is None or "fetch" not in result:
            return result
        seconds -= time.monotonic() - started
        fetches += 1
        answer = await _answer_request(result["fetch"], send if fetches <= MOST_FETCHES else None)


async def _ask(process: asyncio.subprocess.Process, message: Mapping[str, Any]) -> bytes:
    """Send a line to the process, and return the next line of it."""
    stdin, stdout = cast("asyncio.StreamWriter", process.stdin), cast("asyncio.StreamReader", process.stdout)
    with suppress(ConnectionError):
        stdin.write(json.dumps(message).encode() + b"\n")
        await stdin.drain()
    return await stdout.readline()


def _too_long(seconds: float) -> str:
    return f"it ran longer than {seconds:g} s, the limit seconds; let it do less"


async def _answer_request(request: Mapping[str, Any], send: Send | None) -> dict[str, Any]:
    """Send a request of the snippet, and return the answer for the child process."""
    if send is None:
        return {"error": f"a snippet may ask for {MOST_FETCHES} addresses, through the address guard alone"}
    try:
        body = None if request["body"] is None else base64.b64decode(request["body"], validate=True)
        headers = {str(name): str(value) for name, value in request["headers"].items()}
        response = await send(str(request["method"]), str(request["url"]), headers, body)
    except (OperadError, ValueError, KeyError, AttributeError, TypeError) as error:
        return {"error": str(error)}
    body = base64.b64encode(response.body).decode("ascii")
    return {"status": response.status, "url": response.url, "headers": dict(response.headers), "body": body}
