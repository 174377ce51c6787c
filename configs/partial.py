"""The sound part of a file with faults, so that the rest of its faults is found at once."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, cast

from pydantic import ValidationError

from operad.configs.faults import meant_key, real_path
from operad.configs.schema import ConfigSpec
from operad.runtime.values.document import Path_

_ROUNDS = 3
"""Number of times that faults are taken out; taking out one may show another."""

_NEEDED = {"name", "function", "type", "class", "ports", "operator", "inputs", "over", "params", "workflow"}
"""Keys that other parts of a file depend on: without their values, these would seem wrong, too."""


def sound_part(data: Mapping[str, Any], error: ValidationError) -> tuple[ConfigSpec, list[Path_]] | None:
    """Return the content of a file without the values that are wrong, and the paths of these.

    Args:
        data: The content.
        error: Faults of its shape.

    Returns:
        None where the rest of the file depends on a value that is wrong.
    """
    rest, changed = copy.deepcopy(data), list[Path_]()
    for _ in range(_ROUNDS):
        for problem in error.errors():
            path = real_path(problem["loc"], rest)
            holder: Any = _at(rest, path[:-1])
            if len(path) < 2 or not isinstance(holder, dict):
                return None
            if not _take_out(cast("dict[str, Any]", holder), str(path[-1]), problem):
                return None
            changed.append(path)
        try:
            return ConfigSpec.model_validate(rest), changed
        except ValidationError as left:
            error = left
    return None


def _take_out(holder: dict[str, Any], key: str, problem: Any) -> bool:
    """Remove a wrong value, rename a misspelt key, or fill in an instruction; False where that may not be."""
    if problem["type"] == "missing":
        holder.setdefault(key, "-")
        return key == "instruction"
    if problem["type"] == "extra_forbidden":
        value, meant = holder.pop(key, None), meant_key(problem)
        if meant:
            holder.setdefault(meant, value)
        return meant not in _NEEDED
    holder.pop(key, None)
    return key not in _NEEDED


def _at(data: Any, path: Path_) -> Any:
    for part in path:
        if isinstance(data, dict):
            data = cast("dict[Any, Any]", data).get(part)
        elif isinstance(data, list) and isinstance(part, int):
            data = cast("list[Any]", data)[part]
        else:
            return None
    return data
