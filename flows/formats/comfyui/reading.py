"""Parsed JSON, of which nothing need be what it should."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast


def mapping_of(value: Any) -> Mapping[str, Any]:
    """The value if it is an object, or else an empty one."""
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def list_of(value: Any) -> Sequence[Any]:
    """The value if it is a list, or else an empty one."""
    return cast("Sequence[Any]", value) if isinstance(value, list) else ()
