"""A workflow as a JSON value, and what differs between two of them."""

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
"""What an operator looks up, how often and how much of it at once, rather than what it is."""

Description = dict[str, Any]


def describe_workflow(workflow: HasGraph, around: tuple[HasGraph, ...] = ()) -> Description:
    """What a workflow does: its operators, their order, those inside them, and who judges.

    Not how long, how often and with which model: that may change while a run is interrupted.

    Args:
        workflow: The workflow.
        around: Those that it is inside of, which are not described again.
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
    """How many operators and evaluators a workflow has, those inside of others counted once, and not these others."""
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
    """What makes an operator answer as it does, as far as it says so; else its type."""
    own: object = operator.added if isinstance(operator, Adapted) else operator
    made: dict[str, Any] = {"type": name_of(type(own))}
    if operator.runs_workflows is not None:
        return made | {key: fingerprint(value) for key, value in operator.settings.items() if key not in _INDIFFERENT}
    with suppress(InputError):  # a tool binds something that nothing is known of
        made |= operator.fingerprint()
    for key in _INDIFFERENT:
        made.pop(key, None)
    return json.loads(json.dumps(fingerprint(made)))


def changes(before: Mapping[str, Any], now: Mapping[str, Any], where: str = "") -> dict[str, list[str]]:
    """What differs between two workflows: by the path of the operator, in words."""
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
    """Where two JSON values differ."""
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
    """Operators, each with the ports that lead on from it."""
    said = [f"{name} by port {' or '.join(ports)}" if ports else name for name, ports in (after or {}).items()]
    return ", ".join(said) or "nothing"
