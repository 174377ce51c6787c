"""Reader of untrusted JSON: fields are checked for their types."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast


def mapping_of(value: Any) -> Mapping[str, Any]:
    """Return the value if it is an object, otherwise an empty mapping."""
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def list_of(value: Any) -> Sequence[Any]:
    """Return the value if it is a list, otherwise an empty sequence."""
    return cast("Sequence[Any]", value) if isinstance(value, list) else ()


def parsed(text: str | bytes) -> Any:
    """Return the value of a JSON text in UTF-8; NaN and Infinity become None.

    Raises:
        ValueError: The text is not JSON, or is nested too deep.
    """
    try:
        return json.loads(text, parse_constant=lambda _: None)
    except UnicodeDecodeError as error:
        raise ValueError("it is not UTF-8") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON: {error.msg}") from error
    except RecursionError as error:
        raise ValueError("is not JSON that can be read: it is nested too deep") from error
