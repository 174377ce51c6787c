"""Workflows of ComfyUI from words: code is drafted by the classes of a server, and mended by rules first."""
