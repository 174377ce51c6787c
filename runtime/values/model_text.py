"""Values as text for models."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, cast

from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from operad.runtime.values.blob import Blob, Blobs, is_mixed


def as_text(value: Any) -> str:
    """Return a value as text for a model: text as it is, other values as JSON; see `told`."""
    return told(value)[0]


def told(value: Any) -> tuple[str, Blobs]:
    """Return a value, such as the result of a tool, as text for a model, and the blobs in it.

    Texts are as they are, other values JSON. Blobs are described by type and size; texts and blobs in a list are told one
    below the other.
    """
    blobs = Blobs()
    if isinstance(value, str):
        return value, blobs
    if isinstance(value, Blob) or is_mixed(value):
        parts: Sequence[str | Blob] = [value] if isinstance(value, Blob) else value
        blobs += [part for part in parts if isinstance(part, Blob)]
        return "\n".join(map(str, parts)), blobs
    try:
        return json.dumps(value, ensure_ascii=False, default=partial(plain, blobs=blobs)), blobs
    except TypeError:  # a key that is not text, such as a date
        blobs.clear()
        return json.dumps(plain(value, blobs), ensure_ascii=False, default=str), blobs


def with_note(note: str, result: Any) -> str | list[str | Blob]:
    """Return the result of a tool with a note for the model above it, and the blobs in it below."""
    text, blobs = told(result)
    return [f"{note}\n{text}", *blobs] if blobs else f"{note}\n{text}"


def plain(value: Any, blobs: Blobs | None = None) -> Any:
    """Return a pydantic model, a dataclass, a date and the like as plain values; other objects as `str`.

    Args:
        blobs: List to which blobs in the value are added, which are described then; None for their bytes.
    """
    found = None if blobs is None else Blobs()
    with suppress(ValueError):  # a circle, or a faulty serializer
        try:
            made = to_jsonable_python(value, by_alias=True, fallback=str, context=cast("Any", found))
        except UnicodeDecodeError:
            made = _described(TypeAdapter(Any).dump_python(value, by_alias=True, warnings=False))
        if blobs is not None:
            blobs += found or ()
        return made
    return str(value)


def _described(value: Any) -> Any:
    """Return plain values with a description in place of bytes that are not text."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in cast("dict[Any, Any]", value).items()}
    if isinstance(value, (bytes, bytearray)):
        return f"<{len(value):,} bytes that are not text>"
    return [plain(each) for each in cast("Collection[Any]", value)] if isinstance(value, Collection) else str(value)
