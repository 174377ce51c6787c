"""The evaluators of an expert in a YAML file, by their names, and changes of them that touch nothing else in the text."""

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
    """Return the names of an expert's evaluators, in order; those that are written in place have names, too.

    Args:
        data: Data of the file, with names.
        number: Place of the expert.
    """
    said = fields_of(list_of(data["experts"])[number]).get(FIELD)
    judges: list[Any] = list_of(said) if isinstance(said, list) else [] if said is None else [said]
    return [str(fields_of(each).get("name") or each) for each in judges]


def judges_in(value: Any) -> list[str]:
    """Return the names of evaluators that a form gives: a list of names, one name, or nothing.

    Raises:
        InputError: The value has another form.
    """
    names: list[Any] = list_of(value) if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(each, str) and each.strip() for each in names) or len(set(names)) < len(names):
        raise InputError(f"{FIELD}: expected names of operators, each once, got {names!r:.60}")
    return names


def with_judges(text: str, number: int, names: Sequence[str], made: Mapping[str, str] | None = None) -> str:
    """Return the text of a file in which an expert has other evaluators; those that stay are not touched.

    Args:
        text: The text.
        number: Place of the expert.
        names: Names of its evaluators; none for an expert without one.
        made: New evaluators as YAML, by their names; others stand by their names.
    """
    path: tuple[Step, ...] = ("experts", number)
    place = (*path, FIELD)
    before = judges_of(named(text), number)
    said = {each: scalar(each) for each in names} | dict(made or {})
    judges = part_at(text, place)
    if list(names) == before:
        return text
    if judges is None:
        return _with_field(text, path, _listed(names, said))
    if not names:
        return _without_field(text, path)
    if judges.kind == "list":
        return _in_list(text, place, before, names, said)
    in_lines = judges.kind == "map" and not judges.flow
    if before[0] not in names:
        return (
            _with_field(_without_field(text, path), path, _listed(names, said))
            if in_lines
            else with_part(text, place, _listed(names, said))
        )
    if in_lines:
        return _in_list(_as_item(text, judges), place, before, names, said)
    own = text[judges.begin : judges.end]
    return with_part(text, place, f"[{', '.join(own if each == before[0] else said[each] for each in names)}]")


def _as_item(text: str, judge: Part) -> str:
    """The text with an evaluator in lines as the only item of a list; its anchor goes with it."""
    first = judge.keys[0]
    margin = "\n" + " " * first.column
    lines = re.sub(r"\n(?=[^\n])", "\n  ", text[first.begin : judge.end])
    anchor = f"&{judge.anchor}" if judge.anchor else ""
    before = text[judge.begin : first.begin].removeprefix(anchor)
    head = text[: judge.begin].rstrip(" ") if anchor else text[: judge.begin]
    return f"{head}{before}- {anchor}{f'{margin}  ' if anchor else ''}{lines}{text[judge.end :]}"


def _listed(names: Sequence[str], said: Mapping[str, str]) -> str:
    return said[names[0]] if len(names) == 1 else f"[{', '.join(said[each] for each in names)}]"


def _with_field(text: str, path: Sequence[Step], written: str) -> str:
    """The text with the field behind the chains of the expert."""
    holder = part_at(text, path)
    keys = [key.text for key in holder.keys] if holder else []
    return with_item(text, path, keys.index("workflow") + 1, f"{FIELD}: {written}")


def _without_field(text: str, path: Sequence[Step]) -> str:
    holder = part_at(text, path)
    keys = [key.text for key in holder.keys] if holder else []
    return without_item(text, path, keys.index(FIELD))


def _in_list(
    text: str, place: Sequence[Step], before: Sequence[str], names: Sequence[str], said: Mapping[str, str]
) -> str:
    for kind, begin, end, first, last in reversed(SequenceMatcher(None, before, names, False).get_opcodes()):
        if kind == "equal":
            continue
        for at in range(last - 1, first - 1, -1):  # first those that are new, so that the list is never empty
            text = with_item(text, place, end, said[names[at]])
        for at in range(end - 1, begin - 1, -1):
            text = without_item(text, place, at)
    return text
