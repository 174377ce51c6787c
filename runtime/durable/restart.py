"""From where on a run is to be done anew: which paths that concerns, and which of what is kept."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from operad.runtime.durable.description import Description
from operad.runtime.events.journal import bare
from operad.runtime.values.errors import InputError, did_you_mean, shorten

ITEM = re.compile(r"(.+)\[(\d+)(:?)\]", re.DOTALL)
"""The name of an operator with one of its items; a colon says that later ones are meant as well."""


def merged(before: Description, now: Description) -> Description:
    """Two workflows as one, in which an operator comes after all that it came after in either."""
    operators: dict[str, Any] = {}
    for key in [*before["operators"], *now["operators"]]:
        old: Mapping[str, Any] = before["operators"].get(key, {})
        new: Mapping[str, Any] = now["operators"].get(key, {})
        insides = [each["inside"] for each in (old, new) if "inside" in each]
        operators[key] = {
            "after": {**old.get("after", {}), **new.get("after", {})},
            "in_turn": old.get("in_turn") or new.get("in_turn"),
            **({"inside": merged(insides[0], insides[-1])} if insides else {}),
        }
    return {"operators": operators, "evaluators": {**before["evaluators"], **now["evaluators"]}}


def descendants(graph: Description, operator: str, known: Description) -> Sequence[str]:
    """The paths of an operator, first, and of all that depends on it: those after it, and after the operators around it.

    Args:
        graph: The workflow, or two of them `merged`.
        operator: The operator's path, as in a run's keys.
        known: The workflow as it is now, in which the operator must be.

    Raises:
        InputError: There is no such operator.
    """
    steps = operator.split("/")
    others: list[str] = []
    prefix = ""
    for place, step in enumerate(steps):
        operators, judges = known["operators"], known["evaluators"]
        name, item = unquote(step), None
        if name not in operators and (found := ITEM.fullmatch(name)) and "inside" in operators.get(found[1], {}):
            name, item = found[1], int(found[2])
        is_last = place == len(steps) - 1
        if name not in operators and not (is_last and name in judges):
            names = [*operators, *judges]
            raise InputError(
                f"no operator is called {prefix + name!r}{did_you_mean(name, names)}; there are: {shorten(names, 20)}"
            )
        if not is_last and "inside" not in operators[name]:
            raise InputError(
                f"{prefix + name!r} has no operators inside that could be named; restart from it as a whole"
            )
        all_operators: Mapping[str, Any] = graph["operators"]
        others += [f"{prefix}{each}" for each in following(name, all_operators)]
        if name in operators:
            others += [f"{prefix}{judge}" for judge in graph["evaluators"]]
            if item is not None and all_operators[name].get("in_turn"):
                others.append(f"{prefix}{name}[{item + 1}:]")
        prefix += name if item is None else f"{name}[{item}]"
        if not is_last:
            prefix += "/"
            graph, known = all_operators[name]["inside"], operators[name]["inside"]
    return [prefix, *others]


def following(name: str, operators: Mapping[str, Any]) -> Sequence[str]:
    """All that comes after an operator, in their order."""
    after = {name}
    while more := {each for each, what in operators.items() if after & what["after"].keys()} - after:
        after |= more
    return [each for each in operators if each in after and each != name]


def is_again(key: str, again: Sequence[str], round: int) -> bool:
    """Whether what is kept under a key is to be done anew.

    Args:
        key: The key.
        again: The paths of what is to be done anew, first that of the operator that it begins with.
        round: From which round of the outermost workflow on. Of a workflow around the operator, further rounds follow
            from what it says.
    """
    names, rounds = bare(key)
    if rounds[0] != round:
        return rounds[0] > round
    around = again[0].split("/")[:-1]
    inside = (depth for depth in range(1, len(around) + 1) if all(map(_is_named, names, around[:depth])))
    return any(at > 1 for depth in inside for at in rounds[depth : depth + 1]) or is_under("/".join(names), again)


def failed_beside(key: str, failed: str) -> bool:
    """Whether an operator that failed stands beside the one that its run failed at, or beside one around that.

    Then nobody heeded its failure: the run ended in that very round.
    """
    *around, (_, at) = _levels(key)
    beside = _levels(failed)
    return around == beside[: len(around)] and len(beside) > len(around) and beside[len(around)][1] == at


def _levels(key: str) -> list[tuple[str, int]]:
    """The operators of a key without their items, each with its round."""
    names, rounds = bare(key)
    items = map(ITEM.fullmatch, names)
    return [(item[1] if item else name, at) for name, item, at in zip(names, items, rounds, strict=True)]


def place_of(key: str) -> tuple[str, int]:
    """The path of a key, and its round in the outermost workflow."""
    names, rounds = bare(key)
    return "/".join(names), rounds[0]


def is_under(path: str, paths: Sequence[str]) -> bool:
    """Whether a path is one of these or inside of one; those of a map's items are inside of the map."""
    steps = path.split("/")
    for wanted in paths:
        named = wanted.split("/")
        if len(named) <= len(steps) and all(map(_is_named, steps, named)):
            return True
    return False


def _is_named(step: str, name: str) -> bool:
    item, wanted = ITEM.fullmatch(step), ITEM.fullmatch(name)
    if step == name or item is None:
        return step == name
    if wanted is not None and wanted[3]:
        return item[1] == wanted[1] and int(item[2]) >= int(wanted[2])
    return item[1] == name
