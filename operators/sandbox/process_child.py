"""Program of the limited process of a snippet: reads a task from stdin, and answers on stdout.

Parent and child exchange lines of JSON: the parent sends the task; the child answers `{"ready": true}` when the
packages are loaded, then sends requests `{"fetch": …}`, each answered by a line on stdin, and at last the result. The
parent ends the process at its time limit.
"""

from __future__ import annotations

import base64
import importlib
import io
import json
import os
import resource
import runpy
import sys
import sysconfig
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, cast

MOST_WRITTEN = 64 * 2**20
"""Maximum size of a file that a snippet writes in its folder, in bytes."""

MOST_FILES = 256
"""Maximum number of open files of a snippet."""

DEEPEST = 1_000
"""Maximum depth of nested calls."""

_FORBIDDEN_EVENTS = (
    "socket.",
    "subprocess.",
    "os.system",
    "os.exec",
    "os.fork",
    "os.posix_spawn",
    "os.kill",
    "os.startfile",
    "pty.",
    "ctypes.",
    "sys.addaudithook",
    "webbrowser.",
    "ftplib.",
    "smtplib.",
)
"""Forbidden operations of a snippet, by prefixes of Python's audit events."""

_FILE_EVENTS = ("open", "os.", "shutil.", "glob.", "pathlib.", "sqlite3.", "tempfile.")


def main() -> None:
    """Run the snippet of the task."""
    output = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    input_lines = os.fdopen(os.dup(0), encoding="utf-8")
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    task = json.loads(input_lines.readline())
    _isolate_network()
    for limit, maximum in (
        (resource.RLIMIT_FSIZE, MOST_WRITTEN),
        (resource.RLIMIT_NOFILE, MOST_FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (maximum, maximum))
    sys.setrecursionlimit(DEEPEST)
    for name in task["packages"]:
        with suppress(ImportError):  # the import of the snippet raises the error, with its line
            importlib.import_module(name)
    if {"requests", "urllib"} & set(task["packages"]):
        _guard_requests(input_lines, output)
    _limit_memory(task["memory_bytes"])
    call = _call(task)
    sys.addaudithook(_Guard())
    output.write(json.dumps({"ready": True}) + "\n")
    seconds = int(task["seconds"]) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (_seconds_used() + seconds, _seconds_used() + seconds + 1))
    result = call()
    output.write(json.dumps(result))
    output.flush()
    os._exit(0)  # does not wait for threads and finalizers of the snippet


def _call(task: Mapping[str, Any]) -> Callable[[], dict[str, Any]]:
    """Return a function that calls the snippet's main, after loading the engine."""
    code, arguments = task["code"], task["arguments"]
    if task["language"] == "javascript":
        call = runpy.run_path(str(Path(__file__).with_name("javascript_driver.py")))["call_javascript"]
        return lambda: call(code, arguments, task["memory_bytes"])
    call = runpy.run_path(str(Path(__file__).with_name("driver.py")))["call_main"]
    return lambda: call(code, json.loads(arguments), task["by_position"], awaited=task["awaited"])


def _seconds_used() -> int:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return int(used.ru_utime + used.ru_stime)


def _limit_memory(additional: int) -> None:
    """Limit the address space to its current size plus `most` bytes."""
    with suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        used = pages * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (used + additional, used + additional))


def _isolate_network() -> None:
    """Move the process into an empty network namespace, if the system permits it."""
    with suppress(Exception):
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        new_network, new_user = 0x40000000, 0x10000000
        if libc.unshare(new_network) != 0:
            libc.unshare(new_user | new_network)


class _Guard:
    """Audit hook that refuses forbidden operations and files; a second line of defence rather than a sandbox."""

    def __init__(self) -> None:
        paths = {*sysconfig.get_paths().values(), sys.prefix, sys.base_prefix, *filter(None, sys.path)}
        self._read = tuple(os.path.realpath(each) + os.sep for each in paths)
        self._read += (
            "/usr/share/zoneinfo/",
            "/etc/localtime",
            "/dev/null",
            "/dev/urandom",
            "/proc/self/",
            "/proc/cpuinfo",
        )
        self._writable = (os.path.realpath(os.curdir) + os.sep, os.devnull)
        self._is_checking = False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event.startswith(_FORBIDDEN_EVENTS):
            raise PermissionError(f"a snippet may not use {event}")
        if self._is_checking or not event.startswith(_FILE_EVENTS) or not arguments:
            return
        self._is_checking = True
        try:
            for path in arguments[:2] if event in {"os.rename", "os.link", "os.symlink"} else arguments[:1]:
                if isinstance(path, str | bytes | os.PathLike):
                    self._check(event, os.path.realpath(os.fsdecode(cast("str", path))), arguments)
        finally:
            self._is_checking = False

    def _check(self, event: str, path: str, arguments: tuple[Any, ...]) -> None:
        """Raise PermissionError if a file operation is not permitted for a path."""
        if (path + os.sep).startswith(self._writable) or path == os.devnull:
            return
        flags = arguments[2] if event == "open" and len(arguments) > 2 and isinstance(arguments[2], int) else 0
        reads = event in {"open", "os.listdir", "os.scandir", "os.walk", "glob.glob", "os.fwalk", "pathlib.Path.glob"}
        if not reads or flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND):
            raise PermissionError("a snippet writes in its own folder alone")
        if not (path + os.sep).startswith(self._read):
            raise PermissionError("a snippet reads files of its own folder alone")


def _guard_requests(input_lines: IO[str], output: IO[str]) -> None:
    """Make `requests` and `urllib.request` send through the parent, which applies the guard."""

    def fetch(method: str, url: str, headers: Any, body: Any) -> dict[str, Any]:
        body = body.read() if hasattr(body, "read") else body
        body = body.encode() if isinstance(body, str) else body
        request_data = {
            "method": method,
            "url": url,
            "headers": {str(name): _text(value) for name, value in headers},
            "body": None if body is None else base64.b64encode(body).decode("ascii"),
        }
        output.write(json.dumps({"fetch": request_data}) + "\n")
        answer = json.loads(input_lines.readline())
        return answer if "error" in answer else {**answer, "body": io.BytesIO(base64.b64decode(answer["body"]))}

    _guard_urllib(fetch)
    if "requests" not in sys.modules:
        return
    requests: Any = sys.modules["requests"]

    def send(self: Any, request: Any, **_options: Any) -> Any:
        answer = fetch(request.method, request.url, request.headers.items(), request.body)
        if "error" in answer:
            raise requests.exceptions.ConnectionError(answer["error"], request=request)
        response = requests.Response()
        response.status_code = answer["status"]
        response.url = answer["url"]
        response.headers = requests.structures.CaseInsensitiveDict(answer["headers"])
        response.encoding = requests.utils.get_encoding_from_headers(response.headers)
        response.raw = answer["body"]
        response.request = request
        return response

    requests.adapters.HTTPAdapter.send = send


def _guard_urllib(fetch: Callable[[str, str, Any, Any], dict[str, Any]]) -> None:
    """Make `urllib.request` send through `fetch`."""
    import email.message
    import urllib.error
    import urllib.request
    import urllib.response

    def answered(req: urllib.request.Request) -> Any:
        answer = fetch(req.get_method(), req.full_url, req.header_items(), req.data)
        if "error" in answer:
            raise urllib.error.URLError(answer["error"])
        headers = email.message.Message()
        for name, value in answer["headers"].items():
            headers[name] = value
        response: Any = urllib.response.addinfourl(answer["body"], headers, answer["url"], answer["status"])
        response.msg = ""
        return response

    class Plain(urllib.request.HTTPHandler):
        def http_open(self, req: urllib.request.Request) -> Any:
            return answered(req)

    class Secure(urllib.request.HTTPSHandler):
        def https_open(self, req: urllib.request.Request) -> Any:
            return answered(req)

    urllib.request.install_opener(urllib.request.build_opener(Plain, Secure))


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


if __name__ == "__main__":
    main()
