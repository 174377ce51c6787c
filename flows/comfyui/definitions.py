"""Node classes of a ComfyUI server."""

from __future__ import annotations

from operad.flows.formats.comfyui.definitions import Definitions
from operad.operators.comfyui.server import ComfyUIServer


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
