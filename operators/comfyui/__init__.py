"""Workflows of image, video and sound models, run on a ComfyUI server."""

from operad.operators.comfyui.operator import ComfyUI
from operad.operators.comfyui.server import ComfyUIError, read_object_info

__all__ = ["ComfyUI", "ComfyUIError", "read_object_info"]
