"""Restart of a run from an operator: the paths concerned, and the kept outcomes to forget."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import unquote

from operad.runtime.durable.description import Description, changes
from operad.runtime.durable.rows import KeptRun
from operad.runtime.events.journal import bare
from operad.runtime.values.errors import InputError, did_you_mean, shorten

NO_GRAPH = (ValueError, TypeError, AttributeError, LookupError, RecursionError)
"""Errors raised for a text that does not describe a workflow."""

ITEM = re.compile(r"(.+)\[(\d+)(:?)\]", re.DOTALL)
"""Name of an operator with the index of an item; a colon includes all later items."""


def merged(before: Description, now: Description) -> Description:
    """Return the union of two workflows: an operator comes after all its predecessors in either."""
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
    """Return the paths of an operator, first, and of all that depend on it or on the operators around it.

    Args:
        graph: The workflow, or two of them `merged`.
        operator: The operator's path, as in a run's keys.
        known: The present workflow, which must have the operator.

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
                f"no operator has the path {prefix + name!r}{did_you_mean(name, names)}; there are: {shorten(names, 20)}"
            )
        if not is_last and "inside" not in operators[name]:
            raise InputError(f"{prefix + name!r} has no addressable operators inside; restart from the whole operator")
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
    """Return all operators after an operator, in their order."""
    after = {name}
    while more := {each for each, what in operators.items() if after & what["after"].keys()} - after:
        after |= more
    return [each for each in operators if each in after and each != name]


def is_again(key: str, again: Sequence[str], round: int) -> bool:
    """Return True if the outcome kept under a key is to be forgotten.

    Args:
        key: The key.
        again: Paths to run again, beginning with that of the restarted operator.
        round: First round to repeat, of the outermost workflow. Further rounds of nested workflows follow from the
            operator's new message.
    """
    names, rounds = bare(key)
    if rounds[0] != round:
        return rounds[0] > round
    around = again[0].split("/")[:-1]
    inside = (depth for depth in range(1, len(around) + 1) if all(map(_is_named, names, around[:depth])))
    return any(at > 1 for depth in inside for at in rounds[depth : depth + 1]) or is_under("/".join(names), again)


def failed_beside(key: str, failed: str) -> bool:
    """Return True if a failed operator stands beside the one at which its run failed, or beside one around it.

    Such a failure had no effect: the run ended in the same round.
    """
    *around, (_, at) = _levels(key)
    beside = _levels(failed)
    return around == beside[: len(around)] and len(beside) > len(around) and beside[len(around)][1] == at


def _levels(key: str) -> list[tuple[str, int]]:
    """Return the operators of a key without their items, each with its round."""
    names, rounds = bare(key)
    items = map(ITEM.fullmatch, names)
    return [(item[1] if item else name, at) for name, item, at in zip(names, items, rounds, strict=True)]


def place_of(key: str) -> tuple[str, int]:
    """Return the path of a key, and its round in the outermost workflow."""
    names, rounds = bare(key)
    return "/".join(names), rounds[0]


def is_under(path: str, paths: Sequence[str]) -> bool:
    """Return True if a path equals one of the paths or lies inside it; items of a map lie inside the map."""
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


def stray_changes(changed: Collection[str], again: Sequence[str]) -> list[str]:
    """Return the changed paths that are not run again."""
    return [path for path in changed if not is_under(path, again)]


def refuse_changed(kept: KeptRun, graph: Description) -> None:
    """Raise InputError if a run began with another workflow than the present one."""
    try:
        began_with: Description = json.loads(kept.graph)
        changed = changes(began_with, graph)
        first = next((path for path in changed if _covers(path, changed, began_with, graph)), "")
    except NO_GRAPH as error:
        raise unreadable(kept) from error
    if not changed:
        return
    said = "\n  ".join(f"{path} {'; '.join(what)}" for path, what in changed.items())
    anew = f", or restart it from the changed operator: --restart-from {first}" if first else ""
    raise InputError(
        f"run {kept.run_id!r} began with another workflow:\n  {said}\n"
        f"undo the change, or begin a run with another id{anew}"
    )


def _covers(operator: str, changed: Collection[str], before: Description, now: Description) -> bool:
    """Return True if everything that changed runs again when this operator does."""
    with suppress(InputError):  # the operator is gone
        return not stray_changes(changed, descendants(merged(before, now), operator, now))
    return False


def unreadable(kept: KeptRun) -> InputError:
    """Return the error of a run whose records are damaged."""
    return InputError(f"run {kept.run_id!r}: its records cannot be read; were they written by another program?")
