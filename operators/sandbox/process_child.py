"""Program of the limited process of a snippet: reads a task from stdin, and answers on stdout.

Parent and child exchange lines of JSON: the parent sends the task; the child answers `{"ready": true}` when the
packages are loaded (or with an error, if the kernel does not confine it), then sends requests `{"fetch": …}`, each
answered by a line on stdin, and at last the result. The parent ends the process at its time limit.

The kernel confines the process (`operad.runtime.barrier`) before a package is imported. An audit hook is the second line,
with clearer errors for mistakes. It does not replace the barrier: native code of packages raises no audit events, and a path that
leads over a link is not followed.
"""

from __future__ import annotations

import base64
import importlib
import importlib.util
import io
import json
import os
import resource
import runpy
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

sys.path.append(str(Path(__file__).parents[3]))  # finds an Operad that is not installed, after everything else

from operad.runtime.barrier import confine, limit

MOST_WRITTEN = 64 * 2**20
"""Maximum size of a file that a snippet writes in its folder, in bytes."""

DEEPEST = 1_000
"""Maximum depth of nested calls."""

_FORBIDDEN_EVENTS = (
    *("socket.", "subprocess.", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.kill", "os.startfile", "pty."),
    *("ctypes.", "sys.addaudithook", "gc.", "webbrowser.", "ftplib.", "smtplib."),
)
"""Forbidden operations of a snippet, by prefixes of Python's audit events."""

_FILE_EVENTS = ("open", "os.", "shutil.", "glob.", "pathlib.", "sqlite3.", "tempfile.")

_READ_EVENTS = ("open", "os.listdir", "os.scandir", "os.walk", "os.fwalk", "glob.glob", "pathlib.Path.glob")


def main() -> None:
    """Run the snippet of the task."""
    output = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    input_lines = os.fdopen(os.dup(0), encoding="utf-8")
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)
    task = json.loads(input_lines.readline())
    call = _call(task)
    places = _places(task["packages"])
    try:
        limit(file_bytes=MOST_WRITTEN)
        confine(read=places, write=[os.getcwd()])
    except (OSError, RuntimeError) as error:
        output.write(f"{error}\n")
        return
    sys.setrecursionlimit(DEEPEST)
    for name in task["packages"]:
        with suppress(ImportError):  # the import of the snippet raises the error, with its line
            importlib.import_module(name)
    if {"requests", "urllib"} & set(task["packages"]):
        _guard_requests(input_lines, output)
    _limit_memory(task["memory_bytes"])
    sys.addaudithook(_audit_hook(places))
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


def _places(packages: Sequence[str]) -> list[str]:
    """Return the folders and files of packages, of which those in development are outside of Python's own folders."""
    places: list[str] = []
    for name in packages:
        with suppress(ImportError, ValueError):
            spec = importlib.util.find_spec(name)
            if spec and spec.has_location and spec.origin:  # unlike a folder without __init__.py
                places += spec.submodule_search_locations or [spec.origin]
    return places


def _seconds_used() -> int:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return int(used.ru_utime + used.ru_stime)


def _limit_memory(additional: int) -> None:
    """Limit the address space to its current size plus `additional` bytes."""
    with suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        used = pages * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (used + additional, used + additional))


def _audit_hook(places: Sequence[str]) -> Callable[[str, tuple[Any, ...]], None]:  # noqa: C901 - see below
    """Return the hook that refuses forbidden operations and files.

    Args:
        places: Folders and files that may be read, beside those of Python.
    """
    folder = os.getcwd()
    read = {*sysconfig.get_paths().values(), sys.prefix, sys.base_prefix, *filter(None, sys.path), *places}
    read |= {"/usr/share/zoneinfo", "/etc/localtime", "/dev/urandom", "/proc/cpuinfo", "/proc/self/statm"}

    # A snippet reaches the frame of a refusal by its traceback, and with it globals, builtins and variables. Therefore
    # all that the hook uses is the default of a parameter that cannot be changed. The hook itself, of which no variable
    # knows, could be found only by the functions of `gc`, which it refuses.
    def refuse(  # noqa: C901 - a function of the hook could be reached and changed
        event: str,
        arguments: tuple[Any, ...],
        *,
        forbidden: tuple[str, ...] = _FORBIDDEN_EVENTS,
        of_files: tuple[str, ...] = _FILE_EVENTS,
        of_reading: tuple[str, ...] = _READ_EVENTS,
        readable: tuple[str, ...] = tuple(f"{each}/" for path in read for each in (path, os.path.realpath(path))),
        writable: tuple[str, ...] = (f"{folder}/", f"{os.environ.get('HOME', folder)}/", "/dev/null/"),
        writing: int = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND,
        getcwd: Any = os.getcwd,
        fspath: Any = os.fspath,
        isinstance: Any = isinstance,
        refusal: Any = PermissionError,
        no_path: Any = TypeError,
        str: Any = str,
        bytes: Any = bytes,
        int: Any = int,
    ) -> None:
        if event.startswith(forbidden) and event != "socket.__new__":  # the loop of asyncio has a pair of sockets
            raise refusal(f"a snippet may not use {event}")
        if not event.startswith(of_files):
            return
        for path in arguments[:2] if event in ("os.rename", "os.link", "os.symlink") else arguments[:1]:
            try:
                path = fspath(path)
            except no_path:  # a descriptor, or an event about something else
                continue
            name = bytes.decode(path, "utf-8", "replace") if isinstance(path, bytes) else path
            parts: list[Any] = []
            for part in str.split(name if str.startswith(name, "/") else f"{getcwd()}/{name}", "/"):
                if part == "..":
                    parts = parts[:-1]
                elif part not in ("", "."):
                    parts.append(part)
            place = f"/{'/'.join(parts)}/"
            if place.startswith(writable):
                continue
            flags = arguments[2] if event == "open" else 0
            if event not in of_reading or (isinstance(flags, int) and flags & writing):
                raise refusal("a snippet writes in its own folder alone")
            if not place.startswith(readable):
                raise refusal("a snippet reads files of its own folder alone")

    return refuse


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
