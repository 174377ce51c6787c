"""JSON and texts that every reader takes, whatever is in them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, cast

from pydantic import BaseModel


def to_json(value: object) -> str:
    """A value as JSON on one line, in ASCII, for models say what no encoding can.

    Numbers that JSON lacks are null; what else it has no form for is said as Python does.
    """
    try:
        return _dumped(value)
    except (TypeError, ValueError):  # a number that JSON lacks, or a key that is none of its own
        return _dumped(_valid(value))


def to_text(said: str) -> str:
    """A text that can be encoded: half surrogate pairs, which models may say, are told as escapes."""
    return said.encode(errors="backslashreplace").decode()


def _dumped(value: object) -> str:
    return json.dumps(value, allow_nan=False, default=_plain, separators=(",", ":"))


def _plain(value: object) -> Any:
    return _valid(value.model_dump(mode="json", fallback=str)) if isinstance(value, BaseModel) else str(value)


def _valid(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key if key is None or isinstance(key, str | int) else str(key): _valid(each)
            for key, each in cast("dict[Any, Any]", value).items()
        }
    if isinstance(value, list | tuple):
        return [_valid(each) for each in cast("Sequence[Any]", value)]
    return None if isinstance(value, float) and not math.isfinite(value) else value
