"""Faults of the values of a request, as HTTP and MCP report them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from operad.configs.faults import meant_key
from operad.runtime.values.near_names import near_name
from operad.runtime.values.validation import nearest_choice, requirement


def value_fault(fault: Any, schema: type[BaseModel] | None) -> str:
    """Return the text of a fault that pydantic found, with a near name for a misspelt field.

    Args:
        fault: The fault, whose ``loc`` is relative to the value.
        schema: Type of the value; None if it is not known.
    """
    path, kind = fault["loc"], fault["type"]
    if kind == "missing":
        given = [str(key) for key in fault["input"] or ()] if isinstance(fault["input"], dict) else []
        similar = (
            near_name(str(path[-1]), given) if path and schema and schema.model_config.get("extra") == "allow" else ""
        )
        return f"is missing; there is no field {similar!r} (did you mean {path[-1]!r}?)" if similar else "is missing"
    if kind == "extra_forbidden":
        meant = meant_key(fault, schema) if schema else ""
        return f"there is no such field{f' (did you mean {meant!r}?)' if meant else ''}"
    return requirement(fault) + nearest_choice(fault)
