"""Complete run on a ComfyUI server: upload of files, execution, and download of the results."""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from operad.flows.formats.shapes import fields_of, list_of
from operad.integrations.comfyui.prompt import Place, with_values
from operad.integrations.comfyui.server import ComfyUIError, ComfyUIServer, Output, parsed, short
from operad.runtime.events import Progress, emit
from operad.runtime.values.errors import FetchError, OperadError, describe
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.message import new_id

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection


# Run on a ComfyUI server: queued, followed to its end, and withdrawn if its caller is cancelled.

MAX_STEPS = 1_000_000
"""Maximum plausible number of steps of a node; larger numbers are ignored."""

_WITHDRAW_SECONDS = 5.0
"""Maximum time for withdrawing a run, in seconds."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
"""Shortest and longest interval, in seconds, between two checks if a run has ended."""

_FAILURES = 5
"""Maximum number of failed checks in a row."""

_ABSENCES = 3
"""Number of checks in a row without a trace of a run after which the run counts as lost."""

_logger = logging.getLogger(__name__)


async def run(server: ComfyUIServer, nodes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Run a workflow, and return the server's record of the run, which includes the outputs of each node.

    `Progress` events are emitted, in steps; a node without reported steps counts as one step. If the websocket breaks
    off, the server is polled instead. If the call is left early, for example by cancellation, the run is removed from
    the queue or interrupted.

    Args:
        server: The server.
        nodes: The workflow, in the form of the server's API.

    Raises:
        InvalidError: The server refuses the workflow.
        ComfyUIError: The run failed, was interrupted at the server, or got lost.
        FetchError: The server cannot be reached, or gives an unexpected answer.
        MissingExtraError: A package is not installed.
    """
    client_id = new_id()
    steps = _StepCounter(nodes)
    async with server.listen(client_id) as socket:
        try:
            prompt_id = await server.submit(nodes, client_id)
            if socket is not None:
                await _follow(server, socket, prompt_id, steps)
            record = await _wait_for_record(server, prompt_id)
        except BaseException:
            await _withdraw(server, client_id)
            raise
    _raise_if_failed(record)
    steps.finish_all()
    return record


def outputs_of(found: Mapping[str, Any]) -> tuple[list[Output], list[str]]:
    """Return the files and texts that a run made, from the server's record of the run."""
    files: list[Output] = []
    texts: list[str] = []
    for node_id, written in fields_of(found.get("outputs")).items():
        for name, values in fields_of(written).items():
            for value in list_of(values):
                if name == "text" and isinstance(value, str):
                    texts.append(value)
                elif (output := _output(node_id, fields_of(value))) is not None:
                    files.append(output)
    return list(dict.fromkeys(files)), texts


def _output(node_id: str, value: Mapping[str, Any]) -> Output | None:
    match value.get("filename"), value.get("subfolder", ""), value.get("type", "output"):
        case str() as filename, str() as subfolder, ("output" | "temp") as kind if filename:
            return Output(node_id, filename, subfolder, kind)
        case _:
            return None


class _StepCounter:
    """Counter of the steps of a run, which emits `Progress` events."""

    def __init__(self, nodes: Iterable[str]) -> None:
        self._steps: dict[str, tuple[int, int]] = dict.fromkeys(nodes, (0, 1))
        self._current: Any = None
        self._emitted: tuple[int, int] | None = None

    def take(self, kind: str, data: Mapping[str, Any]) -> bool:
        """Count the steps that a message reports; return True if the run has ended."""
        node: Any = data.get("node")
        match kind:
            case "execution_cached":
                for each in list_of(data.get("nodes")):
                    self._finish(each)
            case "executing":
                self._finish(self._current)
                self._current = node
            case "executed":
                self._finish(node)
            case "progress":
                self._set_step(node, data.get("value"), data.get("max"))
            case _:
                return kind == "execution_success"
        self._emit()
        return kind == "executing" and node is None

    def finish_all(self) -> None:
        for node_id in self._steps:
            self._finish(node_id)
        self._emit()

    def _finish(self, node: Any) -> None:
        if isinstance(node, str) and node in self._steps:
            total = self._steps[node][1]
            self._steps[node] = total, total

    def _set_step(self, node: Any, value: Any, total: Any) -> None:
        if not (isinstance(node, str) and node in self._steps):
            return
        if isinstance(value, int | float) and isinstance(total, int | float) and 1 <= total <= MAX_STEPS:
            step = 0 if math.isnan(value) else max(0, min(value, total))
            self._steps[node] = int(step), int(total)

    def _emit(self) -> None:
        counts = sum(done for done, _ in self._steps.values()), sum(total for _, total in self._steps.values())
        if counts != self._emitted:
            self._emitted = counts
            emit(Progress(done=counts[0], total=counts[1]))


async def _follow(server: ComfyUIServer, socket: ClientConnection, prompt_id: str, steps: _StepCounter) -> None:
    """Read messages of the websocket until the run has ended, or the connection is closed."""
    from websockets.exceptions import WebSocketException

    try:
        async for received in socket:
            message = _read(received if isinstance(received, bytes) else server.hidden(received))
            data = fields_of(message.get("data"))
            if data.get("prompt_id", prompt_id) != prompt_id:
                continue
            kind = str(message.get("type"))
            _raise_failure(kind, data)
            if steps.take(kind, data):
                return
    except (OSError, WebSocketException) as error:
        _logger.warning("the websocket of a ComfyUI run broke off; its history is asked instead: %s", describe(error))


def _read(data: str | bytes) -> Mapping[str, Any]:
    """Return a parsed message; an empty mapping for an image and for invalid data."""
    if isinstance(data, bytes):
        return {}
    try:
        return fields_of(parsed(data))
    except ValueError:
        return {}


async def _wait_for_record(server: ComfyUIServer, prompt_id: str) -> Mapping[str, Any]:
    """Poll the server until a run has ended, and return its record.

    Raises:
        ComfyUIError: The server does not know the run any more.
        FetchError: The server cannot be reached repeatedly, or gives an unexpected answer.
    """
    failures = absences = 0
    pause = _FIRST_PAUSE
    while True:
        try:
            record = await server.history(prompt_id)
            if record is not None:
                return record
            absences = 0 if await server.has_queued(prompt_id) else absences + 1
            failures = 0
        except FetchError as error:
            failures += 1
            if not error.transient or failures >= _FAILURES:
                raise
        if absences >= _ABSENCES:
            raise ComfyUIError(
                f"ComfyUI server {server.url} no longer knows the run {prompt_id[:100]}; the server may have been "
                "restarted, or its queue and history cleared: run the workflow again"
            )
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _raise_if_failed(record: Mapping[str, Any]) -> None:
    """Raise ComfyUIError if the record of a run reports an error."""
    status = fields_of(record.get("status"))
    if status.get("status_str") != "error":
        return
    for each in list_of(status.get("messages")):
        match list_of(each):
            case [str() as kind, data]:
                _raise_failure(kind, fields_of(data))
            case _:
                pass
    raise ComfyUIError("the run failed on the ComfyUI server, which does not say why; see its log")


def _raise_failure(kind: str, data: Mapping[str, Any]) -> None:
    """Raise ComfyUIError if a message reports an error or an interruption."""
    node = f"node {short(data.get('node_id'))!r} ({short(data.get('node_type'))})"
    if kind == "execution_error":
        reason = ": ".join(filter(None, (short(data.get("exception_type")), short(data.get("exception_message")))))
        raise ComfyUIError(f"{node} failed on the ComfyUI server: {reason or 'it does not say why; see its log'}")
    if kind == "execution_interrupted":
        raise ComfyUIError(f"somebody interrupted the run on the ComfyUI server, at {node}")


async def _withdraw(server: ComfyUIServer, client_id: str) -> None:
    """Remove a run from the server, or log a warning if that fails; cancellation is delayed meanwhile."""
    import anyio

    try:
        with anyio.fail_after(_WITHDRAW_SECONDS, shield=True):
            await server.withdraw(client_id)
    except (OperadError, TimeoutError) as error:
        _logger.warning("a run may still be in progress on ComfyUI server %s: %s", server.url, describe(error))


MAX_FILES = 1_000
"""Maximum number of output files of a run."""

MAX_BYTES = 512 * 2**20
"""Default for the maximum total size of the output files of a run, in bytes."""

_SUFFIX = re.compile(r"\.\w{1,10}", re.ASCII)


@dataclass(frozen=True)
class ComfyUIWork:
    """A workflow to run.

    Attributes:
        nodes: The workflow, in the form of the server's API.
        values: Values of inputs; files are uploaded first.
        write: Function that writes a file, given its stem, suffix and content.
        who: Name of the operator, for errors.
        timeout: Maximum duration in seconds, including the wait in the server's queue.
        max_bytes: Maximum total size of the output files.
    """

    nodes: Mapping[str, Any]
    values: Mapping[Place, Any]
    write: Callable[[str, str, bytes], FileDescriptor]
    who: str
    timeout: float
    max_bytes: int = MAX_BYTES


Made = tuple[list[FileDescriptor], list[str]]
"""Files and texts that a run made."""

RunComfyUI = Callable[[ComfyUIServer, ComfyUIWork], Awaitable[Made]]
"""Function that runs a workflow on a server."""


@contextmanager
def time_limit(server: ComfyUIServer, who: str, seconds: float) -> Generator[None]:
    """Limit the time of a run inside this context manager.

    Raises:
        ComfyUIError: The run took longer; it was withdrawn from the server.
    """
    import anyio

    try:
        with anyio.fail_after(seconds):
            yield
    except TimeoutError as error:
        raise ComfyUIError(
            f"{who}: the run on {server.url} took longer than its `timeout` of {seconds:g} s, and was withdrawn there"
        ) from error


async def run_comfyui(server: ComfyUIServer, work: ComfyUIWork) -> Made:
    """Run a workflow on a server, and fetch its output files.

    Raises:
        InvalidError: The server refuses the workflow.
        ComfyUIError: The run failed, was interrupted at the server, got lost, took too long or made too many files.
        FetchError: The server cannot be reached, or gives an unexpected answer.
        InputError: A file cannot be read or written.
        MissingExtraError: A package is not installed.
    """
    with time_limit(server, work.who, work.timeout):
        values = {
            place: await server.upload(value) if isinstance(value, FileDescriptor) else value
            for place, value in work.values.items()
        }
        outputs, texts = outputs_of(await run(server, with_values(work.nodes, values)))
        if len(outputs) > MAX_FILES:
            raise ComfyUIError(
                f"{work.who}: the run made {len(outputs):,} files, more than the maximum of {MAX_FILES:,}"
            )
        files: list[FileDescriptor] = []
        room = work.max_bytes
        for output in outputs:
            try:
                data = await server.view(output, room, work.timeout)
            except FetchError as error:
                location = f"; they are in {files[0].path.parent}" if files else ""
                raise FetchError(
                    f"{work.who}: file {output.filename[:200]!r} of node {output.node[:100]!r} cannot be fetched: {error}; "
                    f"{len(files)} of {len(outputs)} files were, and `max_bytes` allows {work.max_bytes:,} bytes in all"
                    f"{location}",
                    transient=error.transient,
                ) from error
            room -= len(data)
            files.append(await asyncio.to_thread(work.write, *_safe(output.filename), data))
    return files, texts


def _safe(filename: str) -> tuple[str, str]:
    """Return stem and suffix of a file name from a server, without folders; an unsafe suffix becomes ``.bin``."""
    path = PurePosixPath(filename.replace("\\", "/").replace("\0", "_"))
    if _SUFFIX.fullmatch(path.suffix):
        return path.stem, path.suffix
    return path.name, ".bin"
