"""Images and documents that models take as they are, recognised by their first bytes."""

from __future__ import annotations

from operad.runtime.values.base_errors import InputError
from operad.runtime.values.file import FileDescriptor

IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Image types that models accept."""

PDF = "application/pdf"
"""Type of the documents that models accept."""

MAX_IMAGE_BYTES = 10 * 2**20
"""Maximum size of an image or a document for a model, in bytes."""


def image_type(data: bytes) -> str:
    """Return the MIME type of an image, one of `IMAGE_TYPES`, by its first bytes; empty for other data."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if data.startswith(b"RIFF") and data[8:12] == b"WEBP" else ""


def media_type_of(data: bytes) -> str:
    """Return the MIME type of an image or a PDF document by its first bytes; empty for other data."""
    return PDF if data.startswith(b"%PDF-") else image_type(data)


def read_for_model(file: FileDescriptor) -> tuple[bytes, str]:
    """Return the image or the PDF document in a file, and its MIME type.

    Raises:
        InputError: The file cannot be read, is larger than `MAX_IMAGE_BYTES`, or is not of a supported type.
    """
    data = file.read_bytes(MAX_IMAGE_BYTES)
    if not (mime_type := media_type_of(data)):
        wanted = (
            "a PDF document" if file.mime_type == PDF else "an image of a supported type; convert it to PNG or JPEG"
        )
        raise InputError(f"{file.path}: is not {wanted}")
    return data, mime_type
