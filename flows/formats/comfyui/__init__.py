"""Formats of ComfyUI workflows: saved by its page, run by its server, and written as code."""

from operad.flows.formats.comfyui.checking import check
from operad.flows.formats.comfyui.code import dump_code, restored
from operad.flows.formats.comfyui.definitions import Definitions, InputDefinition, NodeDefinition
from operad.flows.formats.comfyui.flattening import executable
from operad.flows.formats.comfyui.formats import (
    COMFYUI,
    COMFYUI_API,
    COMFYUI_CODE,
    dump,
    dump_api,
    formats,
    load,
    losses,
    read_definitions,
)

__all__ = [
    "COMFYUI",
    "COMFYUI_API",
    "COMFYUI_CODE",
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
