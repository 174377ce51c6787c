"""Paths into parameters, such as ``system``, ``classes[1]``, ``arguments.city`` and ``arguments["a.b"]``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from operad.flows.formats.shapes import list_of
from operad.operators.variables import short_json
from operad.runtime.values.errors import did_you_mean, shorten

Step = str | int

MOST_STEPS = 20
"""Maximum number of steps in a path."""

_STEP = re.compile(r"""(?P<dot>\.|^)(?P<key>[^.\[\]"]+)|\[(?P<place>[0-9]{1,9})\]|\[(?P<quoted>"(?:[^"\\]|\\.)*")\]""")


class PathError(ValueError):
    """A text that is not a path, or a path to a value that does not exist."""


def steps_of(path: str) -> list[Step]:
    """Return the keys and indexes of a path.

    Raises:
        PathError: The text is not a path.
    """
    steps: list[Step] = []
    end = 0
    while end < len(path):
        found = _STEP.match(path, end)
        if found is None or (found["dot"] == "" and end):
            break
        end = found.end()
        if found["place"] is not None:
            steps.append(int(found["place"]))
        else:
            steps.append(found["key"] if found["key"] is not None else _unquoted(found["quoted"]))
    if len(steps) > MOST_STEPS:
        raise PathError(f"the path has {len(steps)} steps; the maximum is {MOST_STEPS}")
    if end < len(path) or not steps or isinstance(steps[0], int):
        raise PathError(f"{path!r} is not a path; write it as cases[0][1] or arguments.city")
    return steps


def _unquoted(text: str) -> str:
    try:
        return str(json.loads(text))
    except ValueError as error:
        raise PathError(f"{text} is not a JSON string") from error


def path_of(steps: Sequence[Step]) -> str:
    """Return the path of keys and indexes as text."""
    parts = [
        f"[{step}]"
        if isinstance(step, int)
        else f".{step}"
        if re.fullmatch(r'[^.\[\]"]+', step)
        else f"[{json.dumps(step, ensure_ascii=False)}]"
        for step in steps
    ]
    return "".join(parts).removeprefix(".")


def value_at(value: Any, steps: Sequence[Step]) -> Any:
    """Return the value at a path.

    Raises:
        PathError: There is no value at the path.
    """
    for number, step in enumerate(steps):
        value = _child(value, step, steps[:number])
    return value


def with_value(value: Any, steps: Sequence[Step], new: Any, done: int = 0) -> Any:
    """Return a value in which the value at a path is replaced; values beside the path stay the same objects.

    A new key is added to a mapping, and an index right after the last item appends to a list.

    Raises:
        PathError: A step before the last one does not exist, or an index is further beyond the list.
    """
    if done == len(steps):
        return new
    step, before = _step_in(value, steps[done]), steps[:done]
    last = done == len(steps) - 1
    if isinstance(step, int):
        items = list_of(list(cast("Sequence[Any]", value)) if isinstance(value, tuple) else value)
        if last and step == len(items) and isinstance(value, list | tuple):
            return [*items, new]
        child = _child(value, step, before)
        return [*items[:step], with_value(child, steps, new, done + 1), *items[step + 1 :]]
    if last and isinstance(value, Mapping):
        return {**cast("Mapping[str, Any]", value), step: new}
    child = _child(value, step, before)
    return {**value, step: with_value(child, steps, new, done + 1)}


def _step_in(value: Any, step: Step) -> Step:
    """Return the index that a step such as the 0 of ``outputs.0.value`` is in a list; otherwise the step."""
    is_index = isinstance(value, list | tuple) and isinstance(step, str) and re.fullmatch("[0-9]{1,9}", step)
    return int(step) if is_index else step


def _child(value: Any, step: Step, before: Sequence[Step]) -> Any:
    """Return the value at the next step of a path.

    Raises:
        PathError: There is no such value.
    """
    parent = path_of(before) or "params"
    step = _step_in(value, step)
    if isinstance(step, int):
        if not isinstance(value, list | tuple):
            raise PathError(f"{parent} is not a list: {short_json(value)}")
        items = cast("Sequence[Any]", value)
        if step >= len(items):
            count = "1 item" if len(items) == 1 else f"{len(items)} items"
            raise PathError(f"{parent} has {count}, so {path_of([*before, step])} is not there; places count from 0")
        return items[step]
    if not isinstance(value, Mapping):
        raise PathError(f"{parent} has no names in it: {short_json(value)}")
    fields = cast("Mapping[str, Any]", value)
    if step not in fields:
        known = shorten(list(map(str, fields)))
        raise PathError(
            f"{path_of([*before, step])} is not there{did_you_mean(step, fields)}; {parent} has: {known or 'nothing'}"
        )
    return fields[step]
