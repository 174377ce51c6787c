"""Complete run on a ComfyUI server: upload of files, execution, and download of the results."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from operad.integrations.comfyui.prompt import Place, with_values
from operad.integrations.comfyui.run import outputs_of, run
from operad.integrations.comfyui.server import ComfyUIError, ComfyUIServer
from operad.runtime.values.errors import FetchError
from operad.runtime.values.file import FileDescriptor

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
