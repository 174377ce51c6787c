"""Texts in pictures that ComfyUI saved: ``workflow``, the form of the page, and ``prompt``, the form of the server.

A PNG holds each in a chunk, ``tEXt``, ``zTXt`` or ``iTXt`` (PNG, third edition, 11.3.3), an animated one in ``comf``. A WebP holds them in the fields
of its EXIF data, as ``workflow:{…}`` and ``prompt:{…}``. Pixels are neither decoded nor changed.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from operad.flows.formats.json_text import MAX_BYTES
from operad.runtime.values.errors import InvalidError, Issue

WORKFLOW, PROMPT = "workflow", "prompt"
"""Names of the texts, in the order in which ComfyUI's page looks for them."""

MAX_CHUNKS = 20_000
"""Maximum number of chunks of a picture; an encoder makes one for several kilobytes of pixels."""

_PNG = b"\x89PNG\r\n\x1a\n"
_TEXT_CHUNKS = (b"tEXt", b"zTXt", b"iTXt", b"comf")  # ComfyUI writes comf into animations (APNG)
_ASCII = 2
"""Type of a text among the types of EXIF fields."""


class _Chunk(NamedTuple):
    """Part of a picture: its type, its content, its first byte, and what is wrong with it; empty if nothing is."""

    type: bytes
    content: bytes
    start: int
    fault: str


def is_png(data: bytes) -> bool:
    """Return True for a file that begins as a PNG."""
    return data.startswith(_PNG)


def is_picture(data: bytes) -> bool:
    """Return True for a file that begins as a PNG or a WebP."""
    return is_png(data) or (data[:4] == b"RIFF" and data[8:12] == b"WEBP")


def carries(data: bytes) -> bool:
    """Return True for a picture with a workflow or a prompt, which may be broken."""
    return is_picture(data) and any(True for _ in _named_chunks(data))


def texts_in(data: bytes, name: str) -> Mapping[str, str]:
    """Return the texts of a picture by name, `WORKFLOW` before `PROMPT`.

    Args:
        data: The picture.
        name: The name of the file, for errors.

    Raises:
        InvalidError: There is no such text, or one is broken, too large or there twice; every issue has its place.
    """
    if len(data) > MAX_BYTES:
        raise InvalidError(name, [Issue("size", f"has {len(data):,} bytes; the maximum is {MAX_BYTES:,}", name)])
    found: dict[str, str] = {}
    issues: list[Issue] = []
    for key, chunk in _named_chunks(data):
        where = f"{key}, byte {chunk.start}"
        try:
            if key in found:
                raise _Broken("is there twice; remove one")
            if chunk.fault:
                raise _Broken(chunk.fault)
            found[key] = _text_of(chunk) if is_png(data) else _decoded(chunk.content)
        except _TooLarge:
            issues.append(Issue("size", f"has more than {MAX_BYTES:,} bytes, unpacked", where))
        except _Broken as error:
            issues.append(Issue("format", str(error), where))
    if not found and not issues:
        message = "is a picture without a workflow; use one that ComfyUI saved, or the file of the workflow"
        issues.append(Issue("format", message, name))
    if issues:
        raise InvalidError(name, issues)
    return {key: found[key] for key in (WORKFLOW, PROMPT) if key in found}


def with_texts(picture: bytes, texts: Mapping[str, str], name: str) -> bytes:
    """Return a PNG with these texts in the place of its own; all its other parts stay.

    Args:
        picture: The PNG.
        texts: The texts by name, in ASCII.
        name: The name of the file, for errors.

    Raises:
        InvalidError: The file is not a PNG, or is cut off.
    """
    if not is_png(picture):
        kind = "a WebP, which is only read" if is_picture(picture) else "not a PNG"
        raise InvalidError(name, [Issue("format", f"is {kind}; a workflow is written into a PNG", name)])
    chunks = list(_png_chunks(picture))
    if fault := next((Issue("format", each.fault, f"byte {each.start}") for each in chunks if each.fault), None):
        raise InvalidError(name, [fault])
    if [chunks[0].type, chunks[-1].type] != [b"IHDR", b"IEND"]:
        raise InvalidError(
            name, [Issue("format", "is not a whole PNG: it must begin with IHDR and end with IEND", name)]
        )
    own = {chunk.start for _, chunk in _named_chunks(picture)}
    header, *others = (_png_chunk(each.type, each.content) for each in chunks if each.start not in own)
    new = (_png_chunk(b"tEXt", f"{key}\0{text}".encode("ascii")) for key, text in texts.items())
    return b"".join([_PNG, header, *new, *others])


def blank(texts: Mapping[str, str]) -> bytes:
    """Return a PNG of one transparent pixel with these texts."""
    header = struct.pack(">IIBBBBB", 1, 1, 8, 6, 0, 0, 0)  # 1 × 1, 8 bits, RGBA
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(bytes(5))), (b"IEND", b""))
    return with_texts(_PNG + b"".join(_png_chunk(*each) for each in chunks), texts, "blank")


class _Broken(Exception):  # noqa: N818
    """A text cannot be read, for this reason."""


class _TooLarge(Exception):  # noqa: N818
    """A text is too large once it is unpacked."""


def _named_chunks(data: bytes) -> Iterator[tuple[str, _Chunk]]:
    """Yield the parts with a workflow or a prompt, with their names."""
    if not is_png(data):
        yield from _webp_fields(data)
        return
    for chunk in _png_chunks(data):
        if chunk.type in _TEXT_CHUNKS:
            key = chunk.content[:80].partition(b"\0")[0].decode("latin-1")
            if key in (WORKFLOW, PROMPT):
                yield key, chunk


# PNG


def _png_chunks(data: bytes) -> Iterator[_Chunk]:
    """Yield the chunks of a PNG up to its end, or to the first one that is cut off."""
    at = len(_PNG)
    for _ in range(MAX_CHUNKS):
        size = int.from_bytes(data[at : at + 4], "big")
        kind, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        end = at + 12 + size
        if end > len(data):
            yield _Chunk(kind, content, at, "is cut off; save the picture again")
            return
        crc = int.from_bytes(data[end - 4 : end], "big")
        fault = "" if crc == zlib.crc32(kind + content) else "is damaged: its checksum (CRC) is another one"
        yield _Chunk(kind, content, at, fault)
        at = end
        if kind == b"IEND":
            return
    yield _Chunk(b"", b"", at, f"has more than {MAX_CHUNKS:,} chunks")


def _png_chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _text_of(chunk: _Chunk) -> str:
    """Return the text of a chunk; raise `_Broken` or `_TooLarge`."""
    _, _, rest = chunk.content.partition(b"\0")
    if chunk.type in (b"tEXt", b"comf"):
        return _decoded(rest)
    packed, method = True, rest[:1]
    if chunk.type == b"iTXt":
        packed, method = rest[:1] == b"\1", rest[1:2]
        rest = b"\0" + b"\0".join(rest[2:].split(b"\0", 2)[2:])  # without the language and the translated name
    if not packed:
        return _decoded(rest[1:])
    if method != b"\0":
        raise _Broken("is packed by an unknown method; PNG knows only deflate")
    return _decoded(_unpacked(rest[1:]))


def _unpacked(content: bytes) -> bytes:
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(content, MAX_BYTES + 1)
    except zlib.error as error:
        raise _Broken(f"cannot be unpacked: {error}") from error
    if len(text) > MAX_BYTES:
        raise _TooLarge
    if not unpacking.eof:
        raise _Broken("cannot be unpacked: it is cut off")
    return text


def _decoded(content: bytes) -> str:
    """Return a text: as UTF-8, which ComfyUI's page reads, or else as Latin-1, which PNG prescribes."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content.decode("latin-1")


# WebP


def _webp_fields(data: bytes) -> Iterator[tuple[str, _Chunk]]:
    """Yield the EXIF fields of a WebP with a workflow or a prompt, with their names; the content is without the name."""
    at = 12
    for _ in range(MAX_CHUNKS):
        if len(data) < at + 8:
            return
        size = int.from_bytes(data[at + 4 : at + 8], "little")
        if data[at : at + 4] == b"EXIF":
            yield from _exif_texts(data[at + 8 : at + 8 + size], at + 8)
        at += 8 + size + size % 2


def _exif_texts(content: bytes, start: int) -> Iterator[tuple[str, _Chunk]]:
    """Yield the texts of the first directory of EXIF data; fields that do not fit into the data are cut off."""
    exif = content.removeprefix(b"Exif\0\0")
    start += len(content) - len(exif)
    order = {b"II": "<", b"MM": ">"}.get(exif[:2])
    if order is None or len(exif) < 8:
        return
    (directory,) = struct.unpack_from(f"{order}I", exif, 4)
    if directory + 2 > len(exif):
        return
    (count,) = struct.unpack_from(f"{order}H", exif, directory)
    for number in range(min(count, (len(exif) - directory - 2) // 12)):
        _, kind, size, place = struct.unpack_from(f"{order}HHII", exif, directory + 2 + 12 * number)
        key, colon, _ = exif[place : place + min(size, 10)].partition(b":")
        name = key.decode("latin-1").lower()
        if kind == _ASCII and colon and name in (WORKFLOW, PROMPT):
            fault = "is cut off; save the picture again" if place + size > len(exif) else ""
            value = exif[place + len(key) + 1 : place + size].rstrip(b"\0")
            yield name, _Chunk(b"EXIF", value, start + place, fault)
