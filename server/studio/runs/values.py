"""Values of a run as JSON for the browser; files, and embedded pictures and sounds, get addresses."""

from __future__ import annotations

import asyncio
import base64
import binascii
import mimetypes
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, Response

from operad.operators.variables import plain
from operad.runtime.values.file import FileDescriptor

MAX_TEXT = 400_000
"""Maximum number of characters of a text sent to the browser."""

MOST_ITEMS = 2_000
"""Maximum number of items of a list sent to the browser."""

MOST_FILES = 2_000
"""Maximum number of files of a run that can be fetched."""

SHOWN_INLINE = ("image/", "audio/", "video/")
"""Prefixes of types that a browser displays; other files are downloaded."""

_KINDS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF87a", "image/gif"), (b"GIF89a", "image/gif"),
    (b"ID3", "audio/mpeg"), (b"\xff\xfb", "audio/mpeg"), (b"\xff\xf3", "audio/mpeg"), (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"), (b"<svg", "image/svg+xml"),
)  # fmt: skip
"""Types by their first bytes."""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"

_DATA = re.compile(r"data:[\w.+-]+/[\w.+-]+;base64,([A-Za-z0-9+/]{16,}={0,2})")
_BASE64 = re.compile(r"[A-Za-z0-9+/]{64,}={0,2}")


class Embedded(NamedTuple):
    """Picture or sound that is embedded in a text as base64."""

    name: str
    mime_type: str
    data: bytes

    @property
    def size(self) -> int:
        """Size in bytes."""
        return len(self.data)


async def file_response(found: FileDescriptor | Embedded) -> Response:
    """Return a file to a browser, without scripts.

    Raises:
        HTTPException: The file is gone.
    """
    headers = {"content-security-policy": _POLICY}
    if isinstance(found, Embedded):
        return Response(found.data, media_type=found.mime_type, headers=headers)
    if not await asyncio.to_thread(found.path.is_file):
        raise HTTPException(404, "there is no such file, or it is gone")
    return FileResponse(
        found.path,
        media_type=found.mime_type if is_inline(found) else "application/octet-stream",
        filename=found.name,
        content_disposition_type="inline" if is_inline(found) else "attachment",
        headers=headers,
    )


class Files:
    """Files among the values of a run, each with an address.

    Args:
        address: Prefix of the addresses.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._files: list[FileDescriptor | Embedded] = []

    def __getitem__(self, number: int) -> FileDescriptor | Embedded | None:
        return self._files[number] if 0 <= number < len(self._files) else None

    def shown(self, value: Any) -> Any:
        """Return a value as JSON; a file is ``{"file": {name, type, size, url}}``."""
        if isinstance(value, FileDescriptor):
            return {"file": self._file_json(value)}
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Mapping):
            fields = cast("Mapping[Any, Any]", value)
            return {str(key): self.shown(item) for key, item in list(fields.items())[:MOST_ITEMS]}
        if isinstance(value, list | tuple):
            return [self.shown(item) for item in cast("Sequence[Any]", value)[:MOST_ITEMS]]
        return plain(value)

    def _text(self, text: str) -> Any:
        """Return a text; an embedded picture or sound becomes a file, or, within a longer text, its address."""
        data_url = _DATA.fullmatch(text.strip())
        compact = "".join(text.split()) if data_url or _BASE64.match(text.lstrip()) else ""
        found = _embedded(data_url[1]) if data_url else _embedded(compact) if _BASE64.fullmatch(compact) else None
        if found is not None:
            return {"file": self._file_json(found)}
        text = _DATA.sub(self._replaced_by_address, text)
        excess = len(text) - MAX_TEXT
        return text if excess <= 0 else f"{text[:MAX_TEXT]}… ({excess:,} more characters)"

    def _replaced_by_address(self, data_url: re.Match[str]) -> str:
        found = _embedded(data_url[1])
        return (found and self._file_json(found)["url"]) or data_url[0]

    @classmethod
    def has_file(cls, value: Any) -> bool:
        """Return True if a value is a file, or has one in it."""
        if isinstance(value, Mapping):
            return any(map(cls.has_file, cast("Mapping[Any, Any]", value).values()))
        if isinstance(value, list | tuple):
            return any(map(cls.has_file, cast("Sequence[Any]", value)))
        return isinstance(value, FileDescriptor)

    def _file_json(self, file: FileDescriptor | Embedded) -> dict[str, Any]:
        if file not in self._files:
            if len(self._files) >= MOST_FILES:
                return {"name": file.name, "type": file.mime_type, "size": file.size, "url": None}
            self._files.append(file)
        url = f"{self._address}{self._files.index(file)}"
        return {"name": file.name, "type": file.mime_type, "size": file.size, "url": url}


def _embedded(text: str) -> Embedded | None:
    """Return a picture or sound in base64; None for other data, whatever its declared type."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    kind = next((kind for first, kind in _KINDS if data.startswith(first)), "")
    if data[:4] == b"RIFF":
        kind = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(data[8:12], "")
    return Embedded(f"{kind.partition('/')[0]}.{_SUFFIXES[kind]}", kind, data) if kind else None


_SUFFIXES = {
    "image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp", "image/svg+xml": "svg",
    "audio/mpeg": "mp3", "audio/ogg": "ogg", "audio/flac": "flac", "audio/wav": "wav",
}  # fmt: skip


def is_inline(file: FileDescriptor | Embedded) -> bool:
    """Return True if a browser may display a file."""
    if isinstance(file, Embedded):
        return True
    guessed = mimetypes.guess_type(file.name)[0] or file.mime_type
    return guessed == file.mime_type and file.mime_type.startswith(SHOWN_INLINE)
