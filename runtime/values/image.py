"""Images by their first bytes, and as what models are shown."""

from __future__ import annotations

from base64 import b64encode

from operad.runtime.values.errors import InputError
from operad.runtime.values.file import FileDescriptor

IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""The types of image that models are shown."""

MAX_IMAGE_BYTES = 10 * 2**20
"""The largest image that a model is shown, in bytes."""


def image_type(data: bytes) -> str:
    """Which of `IMAGE_TYPES` this is; empty where it is none of them."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if data.startswith(b"RIFF") and data[8:12] == b"WEBP" else ""


def data_url(file: FileDescriptor) -> str:
    """The image in a file as a ``data:`` URL.

    Raises:
        InputError: It cannot be read, is larger than `MAX_IMAGE_BYTES`, or is no such image.
    """
    try:
        with file.path.open("rb") as stream:
            data = stream.read(MAX_IMAGE_BYTES + 1)
    except OSError as error:
        raise InputError(f"{file.path}: cannot be read: {error.strerror or error}") from error
    if len(data) > MAX_IMAGE_BYTES:
        raise InputError(f"{file.path}: is larger than the {MAX_IMAGE_BYTES:,} bytes that a model is shown; shrink it")
    if not (mime_type := image_type(data)):
        raise InputError(f"{file.path}: is no image that models are shown; convert it to PNG or JPEG")
    return f"data:{mime_type};base64,{b64encode(data).decode()}"
