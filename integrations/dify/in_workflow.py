"""Parameters of nodes that depend on the rest of a Dify file: environment variables, variables of the conversation, readers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from operad.flows.formats.shapes import Fields, each_of, fields_of, is_selector, json_or_text, list_of, pairs_of
from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.operators.variables import Selector, Text


def in_workflow(graph: NodeGraph, workflow: Fields, conversation_nodes: Sequence[NodeSpec]) -> NodeGraph:
    """Return the nodes of a file with the parameters that the rest of the file determines.

    Args:
        graph: The nodes, each read by itself.
        workflow: The workflow of the file.
        conversation_nodes: The node with the variables of the conversation, if there are any.
    """
    return _with_objects(_without_unread_class_ids(_with_environment(graph, workflow)), conversation_nodes)


def _with_environment(graph: NodeGraph, workflow: Fields) -> NodeGraph:
    """Give the inputs for environment variables their types and values, but not those of secrets, which runs would store."""
    variables = {
        f"env.{variable['name']}": variable
        for variable in each_of(workflow.get("environment_variables"))
        if isinstance(variable.get("name"), str)
    }
    specs = [_with_defaults(spec, variables) if spec.type == "start" else spec for spec in graph.nodes]
    return replace(graph, nodes=specs)


def _with_defaults(spec: NodeSpec, environment: Mapping[str, Fields]) -> NodeSpec:
    params = fields_of(spec.params)
    inputs = list_of(params.get("variables"))
    names = [name if isinstance(name, str) else "" for name in ([*list_of(each), ""][0] for each in inputs)]
    found = {name: environment[name] for name in names if name in environment}
    if not found:
        return spec
    all_types = {name: read_value_type(each.get("value_type")) for name, each in found.items()}
    types = {name: kind for name, kind in all_types.items() if kind in _ENVIRONMENT_TYPES}
    typed = [[name, types[name]] if name in types else each for name, each in zip(names, inputs, strict=True)]
    readable = {name: each for name, each in found.items() if "value" in each and each.get("value_type") != "secret"}
    defaults = {name: each["value"] for name, each in readable.items()}
    with_defaults = {"defaults": {**fields_of(params.get("defaults")), **defaults}} if defaults else {}
    return replace(spec, params={**params, "variables": typed, **with_defaults})


_ENVIRONMENT_TYPES = (
    "number",
    "boolean",
    "object",
    "array[string]",
    "array[number]",
    "array[object]",
    "array[boolean]",
)
"""Types of environment variables other than texts."""


def read_value_type(kind: Any) -> Any:
    """Return the type of a variable of the environment or the conversation; Dify may name a number by its kind."""
    return "number" if kind in ("integer", "float") else kind


def _without_unread_class_ids(graph: NodeGraph) -> NodeGraph:
    """Remove the ids of the classes of classifiers, unless a node reads the id of the chosen class."""
    read = {
        (selector.node, selector.variable.partition(".")[0])
        for spec in graph.nodes
        for selector in selectors_named(spec.params)
    }

    def params_of(spec: NodeSpec) -> Any:
        if spec.type == "question-classifier" and (spec.id, "class_id") not in read:
            return {name: value for name, value in fields_of(spec.params).items() if name != "class_ids"}
        return spec.params

    return replace(graph, nodes=[replace(spec, params=params_of(spec)) for spec in graph.nodes])


def _with_objects(graph: NodeGraph, conversation_nodes: Sequence[NodeSpec]) -> NodeGraph:
    """Read the JSON of constants that assigners set variables of the type object to."""
    holders = [*conversation_nodes, *(spec for spec in graph.nodes if spec.type == "loop")]
    objects = {
        (variable[0], holder.id)
        for holder in holders
        for variable in pairs_of(fields_of(holder.params).get("variables"), 3)
        if isinstance(variable[0], str) and variable[1] == "object"
    }

    def read_value(assignment: Any) -> Any:
        match assignment:
            case [[str() as name, str() as node_id] as target, "set", str() as text] if (name, node_id) in objects:
                return [target, "set", json_or_text(text)]
            case _:
                return assignment

    specs = [
        replace(spec, params={**params, "assignments": [read_value(each) for each in list_of(params["assignments"])]})
        if spec.type == "assigner" and "assignments" in (params := fields_of(spec.params))
        else spec
        for spec in graph.nodes
    ]
    return replace(graph, nodes=specs)


def selectors_named(value: Any) -> Iterator[Selector]:
    """Yield the variables that parameters name as ``[variable, id]`` or in texts, at any depth."""
    if isinstance(value, str):
        yield from Text(value).selectors
    elif is_selector(value):
        yield Selector(*value)
    elif isinstance(value, list | dict):
        holder = cast("Mapping[str, Any] | list[Any]", value)
        for each in holder.values() if isinstance(holder, Mapping) else holder:
            yield from selectors_named(each)
