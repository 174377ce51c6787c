"""Values as text for models."""

from __future__ import annotations

import json
from collections.abc import Collection
from contextlib import suppress
from typing import Any, cast

from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from operad.runtime.values.blob import blob_parts


def as_text(value: Any) -> str:
    """Return a value, such as the result of a tool, as text for a model: text as it is, other values as JSON.

    Blobs, alone or in a list with texts, are described by type and size.
    """
    if isinstance(value, str):
        return value
    if parts := blob_parts(value):
        return "\n".join(map(str, parts))
    try:
        return json.dumps(value, ensure_ascii=False, default=plain)
    except TypeError:  # a key that is not text, such as a date
        return json.dumps(plain(value), ensure_ascii=False, default=str)


def plain(value: Any) -> Any:
    """Return a pydantic model, a dataclass, a date and the like as plain values; other objects as `str`."""
    with suppress(ValueError):  # a circle, or a faulty serializer
        try:
            return to_jsonable_python(value, by_alias=True, fallback=str)
        except UnicodeDecodeError:
            return _described(TypeAdapter(Any).dump_python(value, by_alias=True, warnings=False))
    return str(value)


def _described(value: Any) -> Any:
    """Return plain values with a description in place of bytes that are not text."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in cast("dict[Any, Any]", value).items()}
    if isinstance(value, (bytes, bytearray)):
        return f"<{len(value):,} bytes that are not text>"
    return [plain(each) for each in cast("Collection[Any]", value)] if isinstance(value, Collection) else str(value)
