"""Formats of ComfyUI workflows: saved by its page, run by its server, written as code, and carried by pictures."""

from operad.integrations.comfyui.formats.checking import check
from operad.integrations.comfyui.formats.code import dump_code, restored
from operad.integrations.comfyui.formats.definitions import (
    Definitions,
    InputDefinition,
    NodeDefinition,
    read_definitions,
)
from operad.integrations.comfyui.formats.flattening import executable
from operad.integrations.comfyui.formats.formats import (
    COMFYUI,
    COMFYUI_API,
    COMFYUI_CODE,
    COMFYUI_PICTURE,
    dump,
    dump_api,
    formats,
    load,
    losses,
)

__all__ = [
    "COMFYUI",
    "COMFYUI_API",
    "COMFYUI_CODE",
    "COMFYUI_PICTURE",
    "Definitions",
    "InputDefinition",
    "NodeDefinition",
    "check",
    "dump",
    "dump_api",
    "dump_code",
    "executable",
    "formats",
    "load",
    "losses",
    "read_definitions",
    "restored",
]
