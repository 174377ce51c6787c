"""Python processes that are forked from one with all modules imported: they start in 15 ms instead of a second.

    server = ForkServer()
    process = server.begin([sys.executable, "-c", "print(1)"], stdout=subprocess.PIPE, text=True)
    done = server.run([sys.executable, "-W", "error", "script.py", "argument"], cwd=folder, input="typed")

`begin` returns a `subprocess.Popen`, a child of the caller, with pipes, a status and signals. The process has the
requested environment, folder, arguments and streams, its own ``__main__``, and ends as any Python process: threads are
joined, `atexit` functions called, streams flushed. Tests of properties that only a new interpreter has (the time of
imports, a closed stderr, variables such as PYTHONHASHSEED) need a real process, and so does every test of the entry point.

Programs that start processes by themselves, such as a shell or a client of MCP, find the commands ``python`` and
``operad`` in the folder `ForkServer.commands`. Each passes its streams to a process that the server forks, waits for its
end, and ends it with itself.

The server is one process with one thread, because a fork of a process with threads may hang. It forks twice, and the
intermediate process ends at once, so that the new one becomes a child of the caller, which is its subreaper at that
moment. Only Linux has subreapers; elsewhere processes are started.
"""

from __future__ import annotations

import atexit
import ctypes
import faulthandler
import gc
import importlib
import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import types
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

IMPORTED = (
    "operad.server.api.app",
    "operad.runtime.graph.awel",
    "operad.runtime.durable.delivery",
    "operad.runtime.durable.worker",
    "operad.runtime.testing",
    "operad.server.view.server",
    "httpx",
    "mcp.server.mcpserver",
    "jinja2",
    "jsonschema",
    "networkx",
    "openai.resources.chat.completions",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite",
    "truststore",
    "typer._adapters",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.h11_impl",
)
"""Modules that take time to import; missing ones are left out."""

OPERAD_COMMAND = (sys.executable, "-c", "from operad.cli.entry import main; main()")
"""The command `operad`; its arguments follow."""

_COMMAND = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    server.connect({address!r})
    request = {{"command": [*{words!r}, *sys.argv[1:]], "cwd": os.getcwd(), "env": dict(os.environ)}}
    socket.send_fds(server, [json.dumps(request).encode()], [0, 1, 2])
    sys.exit(int(server.recv(100)))
"""
"""The program of a command in `ForkServer.commands`."""

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)
_LONGEST_REQUEST = 2**18


class ForkServer:
    """Server that forks processes on request; see the module.

    Attributes:
        commands: The folder of the commands ``python`` and ``operad``.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control = None
        self.commands = Path(sys.executable).parent
        if sys.platform == "linux":
            self._folder = tempfile.TemporaryDirectory(prefix="operad-forks-")
            self.commands, address = Path(self._folder.name), f"{self._folder.name}/socket"
            for name, words in {"python": OPERAD_COMMAND[:1], "operad": OPERAD_COMMAND}.items():
                file = self.commands / name
                file.write_text(_COMMAND.format(python=sys.executable, address=address, words=words), encoding="utf-8")
                file.chmod(0o700)
            self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._control.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LONGEST_REQUEST)
            command = [sys.executable, __file__, str(theirs.fileno()), address]
            self._server = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
            theirs.close()
            assert self._control.recv(100), "the server ended before it was ready"

    def begin(self, command: Sequence[Any], **options: Any) -> subprocess.Popen[Any]:
        """Do the same as `subprocess.Popen`, for ``[sys.executable, "-W", filter, "-c" and code or a file, *arguments]``."""
        command = [str(part) for part in command]
        assert command[0] == sys.executable, command
        if self._control is None:
            return subprocess.Popen(command, **options)
        return _Forked(self, command, **options)

    def run(
        self, command: Sequence[Any], *, input: str | None = None, timeout: float = 240.0, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Do the same as `subprocess.run` with captured texts; without `input`, stdin is empty."""
        options.setdefault("stdin", subprocess.DEVNULL if input is None else subprocess.PIPE)
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with self.begin(command, **pipes, **options) as process:
            try:
                out, err = process.communicate(input, timeout)
            except BaseException:
                process.kill()
                raise
        return subprocess.CompletedProcess(list(command), process.returncode, out, err)

    def fork(self, request: dict[str, Any], streams: Sequence[int]) -> int:
        """Fork a new child of this process and return its process id."""
        assert self._control is not None
        with self._lock:
            _be_subreaper(True)
            try:
                socket.send_fds(self._control, [json.dumps(request).encode()], streams)
                pid = int(self._control.recv(100))
                self._control.recv(100)  # the intermediate process has ended
            finally:
                _be_subreaper(False)
        return pid

    def close(self) -> None:
        """End the server; forked processes continue."""
        if self._control is not None:
            self._control.close()
            self._server.wait()
            self._folder.cleanup()


class _Forked(subprocess.Popen[Any]):
    """`subprocess.Popen` whose child is forked by the server."""

    def __init__(self, server: ForkServer, command: list[str], **options: Any) -> None:
        self._fork_server = server
        super().__init__(command, **options)

    def _execute_child(self, *args: Any) -> None:
        command, (cwd, env), pipes = args[0], args[5:7], args[10:16]
        request = {"command": command, "cwd": str(cwd or Path.cwd()), "env": dict(os.environ if env is None else env)}
        theirs = pipes[0], pipes[3], pipes[5]  # stdin, stdout, stderr
        self.pid = self._fork_server.fork(request, [own if fd == -1 else fd for own, fd in enumerate(theirs)])
        self._child_created = True
        self._close_pipe_fds(*pipes)  # pyright: ignore[reportAttributeAccessIssue]


def _be_subreaper(on: bool) -> None:
    ctypes.CDLL(None).prctl(_SUBREAPER, int(on), 0, 0, 0)


# The server


def _serve(control: socket.socket, commands: socket.socket) -> dict[str, Any]:
    """Answer requests; in each forked process, return its request."""
    control.send(b"ready")
    while True:
        asking, data, fds = _next_request(control, commands)
        if not (intermediate := os.fork()):
            break
        os.waitpid(intermediate, 0)
        for fd in fds:
            os.close(fd)
        control.send(b"ended") if asking is control else asking.close()
    if pid := os.fork():
        if asking is control:
            control.send(str(pid).encode())
        os._exit(0)
    if asking is not control and (pid := os.fork()):
        _wait(pid, asking, fds)
    for stream, fd in enumerate(fds):
        os.dup2(fd, stream)
    for fd in (*fds, *(each.detach() for each in {control, commands, asking})):
        os.close(fd)
    return json.loads(data)


def _next_request(control: socket.socket, commands: socket.socket) -> tuple[socket.socket, bytes, list[int]]:
    """Wait for a request; return where its answer goes, its content and its streams."""
    asking = control if control in select.select([control, commands], [], [])[0] else commands.accept()[0]
    data, fds, *_ = socket.recv_fds(asking, _LONGEST_REQUEST, 3)
    if not data and asking is control:
        sys.exit()
    return asking, data, fds


def _wait(pid: int, command: socket.socket, fds: Sequence[int]) -> None:
    """Wait for the end of a process and send its status to its command; end the process with its command."""
    for fd in (0, 1, 2, *fds):
        os.close(fd)
    ended = os.pidfd_open(pid)
    if ended not in select.select([ended, command], [], [])[0]:
        os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with suppress(OSError):
        command.send(str(status).encode())
    os._exit(0)


def _become(request: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Adopt the folder, environment, streams and arguments of a request; return its code and the namespace of it."""
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    for number, name, errors in ((1, "stdout", "strict"), (2, "stderr", "backslashreplace")):
        buffer = open(number, "wb", 0 if unbuffered else -1, closefd=False)  # noqa: SIM115
        lines = number == 2 or os.isatty(number)
        stream = io.TextIOWrapper(buffer, "utf-8", errors, line_buffering=lines, write_through=unbuffered)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    words = request["command"][1:]
    while words[0] in ("-W", "-X"):
        option, value, *words = words
        if (option, value) == ("-X", "faulthandler"):
            faulthandler.enable()
        elif option == "-W":
            action, _, _, module = (*value.split(":"), "", "", "")[:4]
            warnings.filterwarnings(action, module=module and rf"{module}\Z")  # pyright: ignore[reportArgumentType]
    if words[0] == "-c":
        code, first, file = words[1], "", "<string>"
        sys.argv = ["-c", *words[2:]]
    else:
        file, first = words[0], str(Path(words[0]).absolute().parent)
        code = Path(file).read_text(encoding="utf-8")
        sys.argv = words
    added = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
    sys.path[:] = [first, *added, *sys.path[1:]]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__file__ = file
    return compile(code, file, "exec"), vars(main)


def _run(code: Any, names: dict[str, Any]) -> None:
    """Run code and end as Python does, but without freeing the modules imported before the fork.

    Freeing them object by object would copy the shared memory, and take a tenth of a second.
    """
    status = 0
    try:
        exec(code, names)  # noqa: S102
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if status and not isinstance(ended.code, int):
            print(ended.code, file=sys.stderr)
    except Exception as error:  # noqa: BLE001
        inside = error.__traceback__ and error.__traceback__.tb_next
        sys.excepthook(type(error), error.with_traceback(inside), inside)
        status = 1
    threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue]
    atexit._run_exitfuncs()
    names.clear()  # causes warnings about open files
    gc.collect()
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.flush()
    os._exit(status)


def _prepare() -> None:
    """Import the modules, and check that none of them started a thread."""
    gc.disable()  # a fifth of that time
    for name in IMPORTED:
        with suppress(ImportError):
            importlib.import_module(name)
    importlib.import_module("operad.cli.main").load_all()
    importlib.import_module("operad.configs.schema").ConfigSpec.model_rebuild()
    threads = os.listdir("/proc/self/task")
    assert len(threads) == 1, f"a fork is safe with one thread, and there are {len(threads)}"
    gc.enable()
    gc.collect()
    gc.freeze()  # so that the memory stays shared


if __name__ == "__main__":
    _prepare()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as commands:
        commands.bind(sys.argv[2])
        commands.listen(100)
        request = _serve(socket.socket(fileno=int(sys.argv[1])), commands)
    _run(*_become(request))
