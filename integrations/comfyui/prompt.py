"""Workflows in ComfyUI's API form, ``{id: {class_type, inputs}}``: their faults, and values for inputs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from operad.flows.formats.shapes import fields_of, list_of
from operad.runtime.values.errors import Issue, did_you_mean, shorten
from operad.runtime.values.file import FileDescriptor

Place = tuple[str, str]
"""An input of a node: id of the node and name of the input."""

VALUE_KEY = "__value__"
"""Key of an object around a list value; a bare list would be a link."""


def issues_of(nodes: Mapping[str, Any]) -> Iterator[Issue]:
    """Yield the faults of a workflow that can be found without the node classes of a server."""
    if isinstance(nodes.get("nodes"), list):
        problem = "is as the page saves it; export it for the API in ComfyUI, or by operad convert --to comfyui-api"
        yield Issue("format", problem)
        return
    if not nodes:
        yield Issue("no-nodes", "is empty: give the nodes as {id: {class_type, inputs}}")
    for node_id, written in nodes.items():
        yield from node_issues(node_id, written)
        for name, value in fields_of(fields_of(written).get("inputs")).items():
            source = value[0] if is_link(value) else node_id
            if source not in nodes:
                yield Issue(
                    "dangling-edge", f"{name}: there is no node {source!r}{did_you_mean(source, nodes)}", node_id
                )


def node_issues(node_id: str, written: Any) -> Iterator[Issue]:
    """Yield the faults in the form of a node."""
    node = fields_of(written)
    if not isinstance(node.get("class_type"), str) or not node["class_type"]:
        hint = did_you_mean("class_type", node)
        yield Issue("misshapen-node", f"must be an object with class_type and inputs{hint}", node_id)
    if not isinstance(node.get("inputs", {}), dict):
        yield Issue("misshapen-node", "inputs: must be an object of names to values and links", node_id)
    for name, value in fields_of(node.get("inputs")).items():
        if isinstance(value, list) and not is_link(value):
            problem = f'{name}: must be a link [id, slot]; write a list that is a value as {{"{VALUE_KEY}": [...]}}'
            yield Issue("misshapen-link", problem, node_id)


def is_link(value: Any) -> bool:
    """Return True if the value of an input is a link, ``[id, slot]``."""
    match value:
        case [str(), bool()]:
            return False
        case [str(), int()]:
            return True
        case [str(), float() as slot]:
            return slot.is_integer()
        case _:
            return False


def unknown_place(nodes: Mapping[str, Any], place: str) -> Issue | None:
    """Return the issue of a place ``node.input`` that the workflow does not have; None if it has the input."""
    inputs = {node_id: list(fields_of(fields_of(node).get("inputs"))) for node_id, node in nodes.items()}
    node_id, _, name = place.partition(".")
    if node_id not in inputs:
        hint = did_you_mean(place, [f"{each}.{known}" for each in inputs for known in inputs[each]])
        known_nodes = shorten([f"{each} ({fields_of(node).get('class_type')})" for each, node in nodes.items()])
        return Issue("unknown-node", f"there is no node {node_id!r}{hint}; there are: {known_nodes}", place)
    if name not in inputs[node_id]:
        kind, known = fields_of(nodes[node_id]).get("class_type"), inputs[node_id]
        problem = f"{name!r} is not an input of {kind}{did_you_mean(name, known)}; it has: {shorten(known) or 'none'}"
        return Issue("unknown-input", problem, place)
    return None


def assign_values(
    nodes: Mapping[str, Any], given: Mapping[str, Any], files: Sequence[FileDescriptor] = ()
) -> tuple[dict[Place, Any], list[Issue]]:
    """Return the values by node and input, and the issues of values that do not fit.

    Args:
        nodes: The workflow.
        given: Values by ``node.input``.
        files: Files that a value may name.
    """
    values: dict[Place, Any] = {}
    issues: list[Issue] = []
    for place, value in given.items():
        node_id, _, name = place.partition(".")
        if issue := unknown_place(nodes, place):
            issues.append(issue)
        elif not isinstance(value, FileDescriptor) and not _is_json(value):
            issues.append(Issue("wrong-value", f"must be a file or JSON, not {type(value).__name__}", place))
        elif len(named := [file for file in files if file.name == value]) > 1:
            issues.append(Issue("ambiguous-file", f"the job has {len(named)} files of the name {value!r}", place))
        else:
            values[node_id, name] = named[0] if named else value
    return values, issues


def with_values(nodes: Mapping[str, Any], values: Mapping[Place, Any]) -> dict[str, Any]:
    """Return a workflow in which inputs, also those with links, are replaced by values."""
    changed = {node_id: {**node, "inputs": dict(fields_of(node.get("inputs")))} for node_id, node in nodes.items()}
    for (node_id, name), value in values.items():
        changed[node_id]["inputs"][name] = {VALUE_KEY: list_of(value)} if isinstance(value, list) else value
    return changed


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True
