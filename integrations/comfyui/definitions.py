"""Node classes of a ComfyUI server."""

from __future__ import annotations

import asyncio
from functools import cache

from operad.integrations.comfyui.formats.definitions import Definitions, read_definitions
from operad.integrations.comfyui.server import ComfyUIServer
from operad.runtime.values.file import FileDescriptor


async def definitions_of(server: ComfyUIServer) -> Definitions:
    """Return the node classes of a server.

    Raises:
        FetchError: The server cannot be reached, or its answer has no node classes.
    """
    definitions = Definitions.of(await server.object_info())
    if not definitions:
        raise server.unlike("/object_info", "it names no node class")
    return definitions


async def read_object_info(url: str) -> Definitions:
    """Return the node classes of the server at an address.

    Raises:
        InputError: The URL is not an address.
        FetchError: The server cannot be reached, or its answer has no node classes.
        MissingExtraError: httpx is not installed.
    """
    return await definitions_of(ComfyUIServer(url))


@cache
def definitions_from(source: str) -> Definitions:
    """Return the node classes of a server, given its address or a file with its answer; read once in a process.

    Raises:
        InputError: The file does not exist or cannot be read.
        InvalidError: The file holds no class.
        FetchError: The server cannot be reached, or its answer has another form.
    """
    if source.startswith(("http://", "https://")):
        return asyncio.run(read_object_info(source))
    return read_definitions(FileDescriptor.of(source).read_text(), source)
