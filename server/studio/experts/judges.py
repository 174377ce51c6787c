"""Evaluators of an expert in a YAML file: their names, and minimal changes of the text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from operad.flows.edit.paths import Step
from operad.flows.formats.shapes import fields_of, list_of
from operad.runtime.values.errors import InputError
from operad.server.studio.experts.chains import named
from operad.server.studio.experts.yaml_items import Part, part_at, scalar, with_item, with_part, without_item

FIELD = "evaluator"


def judges_of(data: Mapping[str, Any], number: int) -> list[str]:
    """Return the names of an expert's evaluators, in order; evaluators that are defined in place have names, too.

    Args:
        data: Data of the file, with names.
        number: Index of the expert.
    """
    value = fields_of(list_of(data["experts"])[number]).get(FIELD)
    evaluators: list[Any] = list_of(value) if isinstance(value, list) else [] if value is None else [value]
    return [str(fields_of(evaluator).get("name") or evaluator) for evaluator in evaluators]


def judges_in(value: Any) -> list[str]:
    """Return the names of evaluators in a form's value: a list of names, one name, or nothing.

    Raises:
        InputError: The value has another form.
    """
    names: list[Any] = list_of(value) if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(name, str) and name.strip() for name in names) or len(set(names)) < len(names):
        raise InputError(f"{FIELD}: expected names of operators, each once, got {names!r:.60}")
    return names


def with_judges(text: str, number: int, names: Sequence[str], made: Mapping[str, str] | None = None) -> str:
    """Return the text of a file with other evaluators for an expert; evaluators that stay are not touched.

    Args:
        text: The text.
        number: Index of the expert.
        names: Names of the new evaluators; empty for none.
        made: Evaluators defined in place, as YAML by name; others are written as names.
    """
    path: tuple[Step, ...] = ("experts", number)
    field_path = (*path, FIELD)
    before = judges_of(named(text), number)
    yaml_of = {name: scalar(name) for name in names} | dict(made or {})
    field = part_at(text, field_path)
    if list(names) == before:
        return text
    if field is None:
        return _with_field(text, path, _field_yaml(names, yaml_of))
    if not names:
        return _without_field(text, path)
    if field.kind == "list":
        return _with_changed_list(text, field_path, before, names, yaml_of)
    in_lines = field.kind == "map" and not field.flow
    if before[0] not in names:
        return (
            _with_field(_without_field(text, path), path, _field_yaml(names, yaml_of))
            if in_lines
            else with_part(text, field_path, _field_yaml(names, yaml_of))
        )
    if in_lines:
        return _with_changed_list(_as_list_item(text, field), field_path, before, names, yaml_of)
    kept = text[field.begin : field.end]
    return with_part(text, field_path, f"[{', '.join(kept if name == before[0] else yaml_of[name] for name in names)}]")


def _as_list_item(text: str, judge: Part) -> str:
    """Return the text in which an evaluator that spans lines becomes the only item of a list, with its anchor."""
    first = judge.keys[0]
    margin = "\n" + " " * first.column
    lines = re.sub(r"\n(?=[^\n])", "\n  ", text[first.begin : judge.end])
    anchor = f"&{judge.anchor}" if judge.anchor else ""
    before = text[judge.begin : first.begin].removeprefix(anchor)
    head = text[: judge.begin].rstrip(" ") if anchor else text[: judge.begin]
    return f"{head}{before}- {anchor}{f'{margin}  ' if anchor else ''}{lines}{text[judge.end :]}"


def _field_yaml(names: Sequence[str], yaml_of: Mapping[str, str]) -> str:
    return yaml_of[names[0]] if len(names) == 1 else f"[{', '.join(yaml_of[name] for name in names)}]"


def _with_field(text: str, path: Sequence[Step], written: str) -> str:
    """Return the text with the field after the chains of the expert."""
    holder = part_at(text, path)
    keys = [key.text for key in holder.keys] if holder else []
    return with_item(text, path, keys.index("workflow") + 1, f"{FIELD}: {written}")


def _without_field(text: str, path: Sequence[Step]) -> str:
    holder = part_at(text, path)
    keys = [key.text for key in holder.keys] if holder else []
    return without_item(text, path, keys.index(FIELD))


def _with_changed_list(
    text: str, field_path: Sequence[Step], before: Sequence[str], names: Sequence[str], yaml_of: Mapping[str, str]
) -> str:
    for kind, begin, end, first, last in reversed(SequenceMatcher(None, before, names, False).get_opcodes()):
        if kind == "equal":
            continue
        for index in range(last - 1, first - 1, -1):  # additions first, so that the list is never empty
            text = with_item(text, field_path, end, yaml_of[names[index]])
        for index in range(end - 1, begin - 1, -1):
            text = without_item(text, field_path, index)
    return text
