"""Workflows of image, video and sound models, run on a ComfyUI server."""

from operad.flows.comfyui.operator import ComfyUI
from operad.flows.comfyui.server import ComfyUIError, read_object_info

__all__ = ["ComfyUI", "ComfyUIError", "read_object_info"]
