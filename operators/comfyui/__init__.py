"""Runs of workflows on a ComfyUI server."""

from operad.operators.comfyui.server import ComfyUIError, ComfyUIServer

__all__ = ["ComfyUIError", "ComfyUIServer"]
