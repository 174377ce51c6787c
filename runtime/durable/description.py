"""Descriptions of workflows: what changed since a run started, and what runs again after a restart."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast
from urllib.parse import unquote

from operad.runtime.durable.tables import StoredRun
from operad.runtime.events.journal import bare
from operad.runtime.graph.operator import Adapted, BaseOperator, HasGraph
from operad.runtime.graph.schedule import children_of, reachable
from operad.runtime.values.errors import InputError, did_you_mean, shorten
from operad.runtime.values.fingerprint import fingerprint, name_of, stable_name
from operad.runtime.values.map_item import MapItem, without_index
from operad.runtime.values.message import Job

_IGNORED_ATTRIBUTES = ("knowledge_base", "long_term_memory", "recommended", "insights", "concurrency", "loop_count")
"""Attributes that are left out of descriptions: knowledge sources and memories, concurrency, numbers of rounds."""

Description = dict[str, Any]
"""Description of a workflow as a JSON value."""


def describe_workflow(workflow: HasGraph, around: tuple[HasGraph, ...] = ()) -> Description:
    """Return a description of a workflow's behaviour: operators, their order, nested operators and evaluators.

    Time limits, numbers of rounds and models are left out, because they may change while a run is interrupted.

    Args:
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


# Resume and restart

NO_GRAPH = (ValueError, TypeError, AttributeError, LookupError, RecursionError)
"""Errors raised for a text that does not describe a workflow."""

_LATER = ":]"
"""End of a path for an item of a map and all later items, such as ``each[2:]``."""


def merged(before: Description, now: Description) -> Description:
    """Return the union of two workflows: an operator has its predecessors in both."""
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
    """Return the path of an operator, and the paths of all that depend on it or on operators that contain it.

    Args:
        graph: The workflow, or the union of two workflows: see `merged`.
        operator: The operator's path, as in a run's keys.
        known: The current workflow, which must have the operator.

    Raises:
        InputError: The current workflow has no such operator.
    """
    steps = operator.split("/")
    others: list[str] = []
    prefix = ""
    for depth, step in enumerate(steps):
        operators, judges = known["operators"], known["evaluators"]
        name = unquote(step)
        item = MapItem.parse(name) if name not in operators else None
        if item and "inside" in operators.get(item.map_id, {}):
            name = item.map_id
        is_last = depth == len(steps) - 1
        if name not in operators and not (is_last and name in judges):
            names = [*operators, *judges]
            raise InputError(
                f"no operator has the path {prefix + name!r}{did_you_mean(name, names)}; there are: {shorten(names, 20)}"
            )
        if not is_last and "inside" not in operators[name]:
            raise InputError(f"{prefix + name!r} has no addressable operators inside; restart from the whole operator")
        all_operators: Mapping[str, Any] = graph["operators"]
        others += [f"{prefix}{each}" for each in following([name], all_operators)]
        if name in operators:
            others += [f"{prefix}{judge}" for judge in graph["evaluators"]]
            if item is not None and all_operators[name].get("in_turn"):
                others.append(f"{prefix}{name}[{item.index + 1}{_LATER}")
        prefix += name if item is None else str(item)
        if not is_last:
            prefix += "/"
            graph, known = all_operators[name]["inside"], operators[name]["inside"]
    return [prefix, *others]


def following(names: Collection[str], operators: Mapping[str, Any]) -> Sequence[str]:
    """Return the ids of all other operators that depend on some operators, in the order of the workflow."""
    children = children_of({each: what["after"] for each, what in operators.items()})
    descendants = reachable(names, lambda each: children.get(each, ())) - {*names}
    return [each for each in operators if each in descendants]


def is_again(key: str, again: Sequence[str], round: int) -> bool:
    """Return True if the outcome with a key is to be deleted, because its operator runs again.

    Args:
        again: Paths to run again; the first is the path of the restarted operator.
        round: First round of the outermost workflow to repeat. In nested workflows that contain the restarted operator,
            all rounds after the first are deleted, because they follow from the operator's new message.
    """
    names, rounds = bare(key)
    if rounds[0] != round:
        return rounds[0] > round
    containers = again[0].split("/")[:-1]
    inside = (depth for depth in range(1, len(containers) + 1) if all(map(_matches, names, containers[:depth])))
    later_round = any(number > 1 for depth in inside for number in rounds[depth : depth + 1])
    return later_round or is_under("/".join(names), again)


def failed_beside(key: str, failed: str) -> bool:
    """Return True if an operator failed in the same workflow and round as the operator at which the run failed.

    The operator may also be a sibling of an operator that contains that one. Its failure had no effect, because the
    run ended in the same round.
    """
    *containers, (_, number) = _operators_of(key)
    path, depth = _operators_of(failed), len(containers)
    return containers == path[:depth] and len(path) > depth and path[depth][1] == number


def _operators_of(key: str) -> list[tuple[str, int]]:
    """Return the ids in a key, without indices of items, each with its round."""
    names, rounds = bare(key)
    return [*zip(map(without_index, names), rounds, strict=True)]


def place_of(key: str) -> tuple[str, int]:
    """Return the path of a key, and its round in the outermost workflow."""
    names, rounds = bare(key)
    return "/".join(names), rounds[0]


def is_under(path: str, paths: Sequence[str]) -> bool:
    """Return True if a path equals one of the paths or lies inside it; items of a map lie inside the map."""
    steps = path.split("/")
    for other in paths:
        names = other.split("/")
        if len(names) <= len(steps) and all(map(_matches, steps, names)):
            return True
    return False


def _matches(step: str, name: str) -> bool:
    """Return True if a step of a path has a name, or is an item of the map with this name."""
    item = MapItem.parse(step)
    if step == name or item is None:
        return step == name
    if name.endswith(_LATER) and (first := MapItem.parse(name.removesuffix(_LATER) + "]")):
        return item.map_id == first.map_id and item.index >= first.index
    return item.map_id == name


def stray_changes(changed: Collection[str], again: Sequence[str]) -> list[str]:
    """Return the changed paths that do not run again."""
    return [path for path in changed if not is_under(path, again)]


def refuse_changed(kept: StoredRun, graph: Description) -> None:
    """Raise InputError if the workflow with which a run started differs from the current one."""
    try:
        before: Description = json.loads(kept.graph)
        changed = changes(before, graph)
        first = next((path for path in changed if _covers(path, changed, before, graph)), "")
    except NO_GRAPH as error:
        raise unreadable(kept) from error
    if not changed:
        return
    listed = "\n  ".join(f"{path} {'; '.join(differences)}" for path, differences in changed.items())
    restart = f", or restart it from the changed operator: --restart-from {first}" if first else ""
    raise InputError(
        f"run {kept.run_id!r} began with another workflow:\n  {listed}\n"
        f"undo the change, or begin a run with another id{restart}"
    )


def _covers(operator: str, changed: Collection[str], before: Description, now: Description) -> bool:
    """Return True if all changed operators run again when this operator does."""
    with suppress(InputError):  # the operator was removed
        return not stray_changes(changed, descendants(merged(before, now), operator, now))
    return False


def unreadable(kept: StoredRun) -> InputError:
    """Return the error of a run whose records are damaged."""
    return InputError(f"run {kept.run_id!r}: its records cannot be read; were they written by another program?")


def paths_again(kept: StoredRun, now: Description, operator: str) -> Sequence[str]:
    """Return the paths that run again when a run is restarted from an operator, which comes first.

    Args:
        now: The current workflow.

    Raises:
        InputError: The operator is unknown, or parts of the workflow that do not depend on it were changed.
    """
    try:
        before: Description = json.loads(kept.graph)
        again = descendants(merged(before, now), operator, now)
        stray = stray_changes(changes(before, now), again)
    except InputError as error:
        raise InputError(f"run {kept.run_id!r}: {error}") from error
    except NO_GRAPH as error:
        raise unreadable(kept) from error
    if stray:
        raise InputError(
            f"run {kept.run_id!r}: {shorten(stray)} changed, too, but does not depend on {operator!r}; "
            "restart from there, or begin a run with another id"
        )
    return again


def refuse_other_job(run_id: str, kept: Job, given: Job) -> None:
    """Raise InputError if a stored run has another job."""
    if different := [name for name in ("goal", "context", "inputs", "files") if _differs(kept, given, name)]:
        *most, last = different
        names = f"{', '.join(most)} and {last}" if most else last
        differ = "differs" if not most and last not in ("inputs", "files") else "differ"
        raise InputError(
            f"run {run_id!r} has another job: its {names} {differ}; to run this job, give another run id; to "
            "get the result of that run or to resume it, give the same job"
        )


def _differs(kept: Job, given: Job, name: str) -> bool:
    """Return True if two jobs differ in a field; files are compared by name and size."""
    old, new = getattr(kept, name), getattr(given, name)
    if name == "files":
        return [(file.name, file.size) for file in old] != [(file.name, file.size) for file in new]
    return bool(old != new)
