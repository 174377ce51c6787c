"""Description of a workflow as a JSON value, and the differences between two descriptions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from operad.runtime.graph.operator import Adapted, BaseOperator, HasGraph
from operad.runtime.values.errors import InputError
from operad.runtime.values.fingerprint import fingerprint, name_of, stable_name

_IGNORED_ATTRIBUTES = ("knowledge_base", "recommended", "insights", "concurrency", "loop_count")
"""Attributes that are left out of descriptions: knowledge sources, concurrency, numbers of rounds."""

Description = dict[str, Any]
"""Description of a workflow as a JSON value."""


def describe_workflow(workflow: HasGraph, around: tuple[HasGraph, ...] = ()) -> Description:
    """Return a description of a workflow's behaviour: operators, their order, nested operators and evaluators.

    Time limits, numbers of rounds and models are left out, because they may change while a run is interrupted.

    Args:
        workflow: The workflow.
        around: Workflows that contain this one, which are not described again.
    """
    graph, around = workflow.graph(), (*around, workflow)
    operators = {
        key: {
            "after": {parent: sorted(ports) for parent, ports in graph.before.get(key, {}).items()},
            "join": graph.joins.get(key, "all_done"),
            "does": _behaviour(operator),
            **_nested(operator, around),
        }
        for key, operator in graph.operators.items()
    }
    return {
        "operators": operators,
        "evaluators": {judge.get_id(): {"does": _behaviour(judge)} for judge in graph.evaluators},
    }


def leaves(graph: Description) -> int:
    """Return the number of operators and evaluators, including nested ones, but not operators that contain others."""
    operators = graph.get("operators", {}).values()
    counts = (leaves(described["inside"]) if "inside" in described else 1 for described in operators)
    return sum(counts) + len(graph.get("evaluators", {}))


def _nested(operator: BaseOperator, around: tuple[HasGraph, ...]) -> Description:
    """Return the part of an operator's description for the workflows that it runs; empty if it runs none."""
    bodies = [body for body in operator.runs_workflows or () if body not in around]
    described = [describe_workflow(body, around) for body in bodies]
    in_turn = {"in_turn": True} if operator.sequential else {}
    if len(bodies) < 2:
        return {"inside": described[0], **in_turn} if described else {}
    return {
        "inside": {"operators": {body.name: {"inside": each} for body, each in zip(bodies, described, strict=True)}}
    }


def _behaviour(operator: BaseOperator) -> Any:
    """Return an operator's type and, if it declares them, the attributes that determine its answers."""
    own: object = operator.added if isinstance(operator, Adapted) else operator
    attributes: dict[str, Any] = {"type": name_of(type(own))}
    if operator.runs_workflows is not None:
        settings = {key: value for key, value in operator.settings.items() if key not in _IGNORED_ATTRIBUTES}
        return attributes | {key: fingerprint(value) for key, value in settings.items()}
    with suppress(InputError):  # the operator has no fingerprint, for example because of tools that cannot be compared
        attributes |= operator.fingerprint()
    for key in _IGNORED_ATTRIBUTES:
        attributes.pop(key, None)
    return json.loads(json.dumps(fingerprint(attributes)))


def changes(before: Mapping[str, Any], now: Mapping[str, Any], where: str = "") -> dict[str, list[str]]:
    """Return the differences between two descriptions as texts, by operator path.

    Args:
        before: The earlier description.
        now: The later description.
        where: Prefix of the paths.
    """
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
                if differences := list(_differences(old[key], new[key])):
                    found[path] = differences
                found |= changes(old[key].get("inside", {}), new[key].get("inside", {}), f"{path}/")
    return found


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """Yield the differences between two descriptions of an operator as texts."""
    if old.get("after") != new.get("after"):
        yield f"comes after {_names_and_ports(new.get('after'))}, and came after {_names_and_ports(old.get('after'))}"
    if old.get("join") != new.get("join"):
        yield f"joins by {new.get('join')!r}, and joined by {old.get('join')!r}"
    for path in _differing_paths(old.get("does"), new.get("does")):
        yield f"has another {'class' if path == 'type' else path}"


def _differing_paths(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """Yield the paths at which two JSON values differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        one, other = cast("dict[str, Any]", old), cast("dict[str, Any]", new)
        for key in sorted({*one, *other}):
            if one.get(key) != other.get(key):
                yield from _differing_paths(
                    one.get(key), other.get(key), f"{path}.{key}".removeprefix(".").removeprefix("config.")
                )
    elif old != new and not (isinstance(old, str) and isinstance(new, str) and stable_name(old) == stable_name(new)):
        yield path


def _names_and_ports(after: Mapping[str, Sequence[str]] | None) -> str:
    """Return an operator's predecessors and the ports of their edges as text."""
    texts = [f"{name} by port {' or '.join(ports)}" if ports else name for name, ports in (after or {}).items()]
    return ", ".join(texts) or "nothing"
