"""Workflows of image, video and sound models, run on a ComfyUI server."""

from operad.flows.comfyui.definitions import read_object_info
from operad.flows.comfyui.operator import ComfyUI
from operad.operators.comfyui.server import ComfyUIError

__all__ = ["ComfyUI", "ComfyUIError", "read_object_info"]
