"""Parsed JSON, of which nothing need be what it should."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast


def mapping_of(value: Any) -> Mapping[str, Any]:
    """The value if it is an object, or else an empty one."""
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def list_of(value: Any) -> Sequence[Any]:
    """The value if it is a list, or else an empty one."""
    return cast("Sequence[Any]", value) if isinstance(value, list) else ()


def parsed(text: str | bytes) -> Any:
    """The value of a JSON text in UTF-8; NaN and Infinity are None.

    Raises:
        ValueError: It is not JSON, or is nested too deep; the error says which.
    """
    try:
        return json.loads(text, parse_constant=lambda _: None)
    except UnicodeDecodeError as error:
        raise ValueError("it is not UTF-8") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON: {error.msg}") from error
    except RecursionError as error:
        raise ValueError("is not JSON that can be read: it is nested too deep") from error
