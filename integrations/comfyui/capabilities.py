"""Capabilities of nodes of the type `comfyui`, and a stand-in for their server in dry runs."""

from __future__ import annotations

from collections.abc import Iterator

from operad.configs.capabilities import Capability
from operad.configs.keys import keys
from operad.configs.read_capabilities import NodeCapabilities, Part, Place, sending, shown_host
from operad.evaluators.dry_run_services import PNG
from operad.integrations.comfyui.node import ComfyUIParams
from operad.integrations.comfyui.server import ComfyUIServer
from operad.integrations.comfyui.work import ComfyUIWork, Made


def _read(params: ComfyUIParams, id: str, place: Place) -> Iterator[Part]:
    if params.token_env:
        yield sending(f"inputs of node {id}", params.server, params.token_env)
    yield Capability("requests", where=shown_host(params.server))


CAPABILITIES = NodeCapabilities(keys("server token_env", "failure workflow inputs headers timeout"), _read)


async def made_up(server: ComfyUIServer, work: ComfyUIWork) -> Made:
    """Return one picture, without a server."""
    return [work.write("made", ".png", PNG)], []
