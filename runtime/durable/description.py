"""Description of a workflow as a JSON value, and the differences between two descriptions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from operad.runtime.graph.graph import HasGraph
from operad.runtime.graph.operator import Adapted, BaseOperator
from operad.runtime.values.errors import InputError
from operad.runtime.values.fingerprint import fingerprint, lasting, name_of

_INDIFFERENT = ("knowledge_base", "recommended", "insights", "concurrency", "loop_count")
"""Attributes left out of descriptions: sources to look things up in, concurrency, numbers of rounds."""

Description = dict[str, Any]


def describe_workflow(workflow: HasGraph, around: tuple[HasGraph, ...] = ()) -> Description:
    """Describe the behaviour of a workflow: operators, their order, nested operators and evaluators.

    Time limits, numbers of rounds and models are left out: they may change while a run is interrupted.

    Args:
        workflow: The workflow.
        around: Enclosing workflows, which are not described again.
    """
    graph, around = workflow.graph(), (*around, workflow)
    operators = {
        key: {
            "after": {parent: sorted(ports) for parent, ports in graph.before.get(key, {}).items()},
            "join": graph.joins.get(key, "all_done"),
            "does": _does(operator),
            **_inside(operator, around),
        }
        for key, operator in graph.operators.items()
    }
    return {
        "operators": operators,
        "evaluators": {judge.get_id(): {"does": _does(judge)} for judge in graph.evaluators},
    }


def leaves(graph: Description) -> int:
    """Return the number of operators and evaluators; nested ones count, the operators that contain them do not."""
    inside = (leaves(what["inside"]) if "inside" in what else 1 for what in graph.get("operators", {}).values())
    return sum(inside) + len(graph.get("evaluators", {}))


def _inside(operator: BaseOperator, around: tuple[HasGraph, ...]) -> Description:
    bodies = [body for body in operator.runs_workflows or () if body not in around]
    described = [describe_workflow(body, around) for body in bodies]
    in_turn = {"in_turn": True} if operator.sequential else {}
    if len(bodies) < 2:
        return {"inside": described[0], **in_turn} if described else {}
    return {
        "inside": {"operators": {body.name: {"inside": each} for body, each in zip(bodies, described, strict=True)}}
    }


def _does(operator: BaseOperator) -> Any:
    """Return the attributes that determine an operator's answers, if it declares them; otherwise, its type."""
    own: object = operator.added if isinstance(operator, Adapted) else operator
    made: dict[str, Any] = {"type": name_of(type(own))}
    if operator.runs_workflows is not None:
        return made | {key: fingerprint(value) for key, value in operator.settings.items() if key not in _INDIFFERENT}
    with suppress(InputError):  # tools carry bindings that cannot be compared
        made |= operator.fingerprint()
    for key in _INDIFFERENT:
        made.pop(key, None)
    return json.loads(json.dumps(fingerprint(made)))


def changes(before: Mapping[str, Any], now: Mapping[str, Any], where: str = "") -> dict[str, list[str]]:
    """Return the differences between two workflows as sentences, by operator path."""
    found: dict[str, list[str]] = {}
    for part in ("operators", "evaluators"):
        old, new = before.get(part, {}), now.get(part, {})
        for key in [*old, *(key for key in new if key not in old)]:
            path = f"{where}{key}"
            if key not in new:
                found[path] = ["is gone"]
            elif key not in old:
                found[path] = ["is new"]
            else:
                if said := list(_differences(old[key], new[key])):
                    found[path] = said
                found |= changes(old[key].get("inside", {}), new[key].get("inside", {}), f"{path}/")
    return found


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    if old.get("after") != new.get("after"):
        yield f"comes after {_names(new.get('after'))}, and came after {_names(old.get('after'))}"
    if old.get("join") != new.get("join"):
        yield f"joins by {new.get('join')!r}, and joined by {old.get('join')!r}"
    for path in _differing(old.get("does"), new.get("does")):
        yield f"has another {'class' if path == 'type' else path}"


def _differing(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """Yield the paths at which two JSON values differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        one, other = cast("dict[str, Any]", old), cast("dict[str, Any]", new)
        for key in sorted({*one, *other}):
            if one.get(key) != other.get(key):
                yield from _differing(
                    one.get(key), other.get(key), f"{path}.{key}".removeprefix(".").removeprefix("config.")
                )
    elif old != new and not (isinstance(old, str) and isinstance(new, str) and lasting(old) == lasting(new)):
        yield path


def _names(after: Mapping[str, Sequence[str]] | None) -> str:
    """Return operators with the ports that lead to the next one, as text."""
    said = [f"{name} by port {' or '.join(ports)}" if ports else name for name, ports in (after or {}).items()]
    return ", ".join(said) or "nothing"
