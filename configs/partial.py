"""Valid part of a faulty file, so that the rest of its faults is reported as well."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, cast

from pydantic import ValidationError

from operad.configs.faults import meant_key, real_path
from operad.configs.schema import ConfigSpec
from operad.runtime.values.document import Path_

_PASSES = 3
"""Maximum number of passes that remove faults: removing some may reveal others."""

_NEEDED = {"name", "function", "type", "class", "ports", "operator", "inputs", "over", "params", "workflow"}
"""Keys that other parts of a file depend on: without their values, these parts would seem faulty, too."""


def sound_part(data: Mapping[str, Any], error: ValidationError) -> tuple[ConfigSpec, list[Path_]] | None:
    """Return the content of a file without its faulty values, and the paths of these values.

    Args:
        data: The content.
        error: Validation errors of the content.

    Returns:
        None if the rest of the file depends on a faulty value.
    """
    rest, changed = copy.deepcopy(data), list[Path_]()
    for _ in range(_PASSES):
        for problem in error.errors():
            path = real_path(problem["loc"], rest)
            mapping: Any = _value_at(rest, path[:-1])
            if len(path) < 2 or not isinstance(mapping, dict):
                return None
            if not _remove_fault(cast("dict[str, Any]", mapping), str(path[-1]), problem):
                return None
            changed.append(path)
        try:
            return ConfigSpec.model_validate(rest), changed
        except ValidationError as remaining:
            error = remaining
    return None


def _remove_fault(mapping: dict[str, Any], key: str, problem: Any) -> bool:
    """Remove a faulty value, rename a misspelt key, or fill in a missing instruction.

    Returns:
        False if other parts of the file depend on the key.
    """
    if problem["type"] == "missing":
        mapping.setdefault(key, "-")
        return key == "instruction"
    if problem["type"] == "extra_forbidden":
        value, meant = mapping.pop(key, None), meant_key(problem)
        if meant:
            mapping.setdefault(meant, value)
        return meant not in _NEEDED
    mapping.pop(key, None)
    return key not in _NEEDED


def _value_at(data: Any, path: Path_) -> Any:
    """Return the value at a path; None if there is none."""
    for part in path:
        if isinstance(data, dict):
            data = cast("dict[Any, Any]", data).get(part)
        elif isinstance(data, list) and isinstance(part, int):
            data = cast("list[Any]", data)[part]
        else:
            return None
    return data
