"""Results of tools as text for models."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import to_jsonable_python


def as_text(result: Any) -> str:
    """Return a result of a tool as text for a model: text as it is, other values as JSON."""
    if isinstance(result, str):
        return result
    try:
        return json.dumps(result, ensure_ascii=False, default=_plain)
    except TypeError:  # a key that is not text, such as a date
        return json.dumps(_plain(result), ensure_ascii=False, default=str)


def _plain(value: Any) -> Any:
    """Return a pydantic model, a dataclass, a date and the like as plain values; other objects as `str`."""
    try:
        return to_jsonable_python(value, by_alias=True, fallback=str)
    except ValueError:  # bytes that are not text
        return f"<{len(value):,} bytes that are not text>" if isinstance(value, bytes) else str(value)
