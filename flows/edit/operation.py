"""Base class of operations on a workflow, with checks and queries that operations share."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from operad.flows.catalogue import fields_for_generation
from operad.flows.check import CONVERSATION, OUTCOME, NodeType
from operad.flows.formats.shapes import Fields, fields_of, list_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators.node import Fault, NodeOperator, references_in
from operad.operators.node_params import Change, NodeParams, readable, rewritten
from operad.operators.variables import Selector
from operad.runtime.graph.graph import END
from operad.runtime.graph.schedule import reachable
from operad.runtime.values.errors import InvalidError, did_you_mean, shorten

Types = Mapping[str, NodeType]

NodeId = Annotated[str, Field(min_length=1)]
NewId = Annotated[str, Field(pattern=r"""^[^\s'"#{}.]([^'"#{}.]*[^\s'"#{}.])?$""", description="An id that is free.")]
Name = Annotated[str, Field(pattern=r"^[^\s#{}.]+$", description="Its name, without spaces and dots.")]
Port = Annotated[
    int | Literal["else"],
    Field(description='The port, counted from 0; "else" is that of an if-else node where no case holds.'),
]

BRANCHES: Mapping[str, str] = {"if-else": "cases", "question-classifier": "classes"}
"""Name of the parameter that lists the branches, by node type."""


def _with_op(schema: dict[str, Any]) -> None:
    schema["required"] = ["op", *schema.get("required", [])]


class Operation(BaseModel):
    """Change of a workflow, as a value; its fields are its JSON form."""

    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=True, json_schema_extra=_with_op)

    def faults(self, graph: NodeGraph, types: Types) -> Iterator[Fault]:
        """Yield the reasons why the operation cannot be applied to a workflow, each with its field; by default none."""
        return iter(())

    def apply(self, graph: NodeGraph, types: Types) -> NodeGraph:
        """Return the changed workflow; requires that there are no faults. Unchanged nodes stay the same objects."""
        raise NotImplementedError

    def apply_if_faulty(self, graph: NodeGraph) -> NodeGraph:
        """Return the workflow on which later operations are checked if this operation has faults."""
        return graph


# Faults


def undefined(graph: NodeGraph, where: str, node_id: str) -> Iterator[Fault]:
    """Yield a fault if there is no node with an id."""
    if node_id not in graph.by_id:
        known = shorten(list(dict.fromkeys(spec.id for spec in graph.nodes))) or "none"
        hint = did_you_mean(node_id, graph.by_id)
        yield Fault(where, f"there is no node {node_id!r}{hint}; there are: {known}", "undefined-node")


def taken(graph: NodeGraph, node_id: str, node_type: str) -> Iterator[Fault]:
    """Yield a fault if a new node of a type cannot have an id."""
    if node_id in graph.by_id:
        spec = graph.by_id[node_id]
        what = f"{node_id!r} is a node already ({spec.type}); {free_id(graph.by_id, spec.parent)!r} is free"
        yield Fault("id", what, "duplicate-id")
    elif node_id in (OUTCOME, END) or (node_id == CONVERSATION) != (node_type == CONVERSATION):
        what = f"the id {CONVERSATION!r} and the type {CONVERSATION!r} go together"
        yield Fault("id", what if CONVERSATION in (node_id, node_type) else f"{node_id!r} is taken", "duplicate-id")


def unknown_type(types: Types, node_type: str) -> Iterator[Fault]:
    """Yield a fault if a node type is unknown."""
    if node_type not in types:
        hint = did_you_mean(node_type, types) or f"; there are: {', '.join(types)}"
        yield Fault("type", f"{node_type!r} is not a node type{hint}", "unknown-type")


def unknown_params(types: Types, node_type: str, names: Collection[str], where: str = "params.") -> Iterator[Fault]:
    """Yield a fault for each parameter that a node type does not have."""
    known = list(types[node_type].params_type.model_fields) if node_type in types else []
    for name in names if node_type in types else ():
        if name not in known:
            has = ", ".join(fields_for_generation(types[node_type])) or "none"
            what = f"{node_type} has no parameter {name!r}{did_you_mean(name, known)}; it has: {has}"
            yield Fault(f"{where}{name}" if where.endswith(".") else where, what, "unknown-param")


def border(graph: NodeGraph, source: str, target: str) -> Iterator[Fault]:
    """Yield the reasons why no edge can lead from one node to another."""
    source_node, target_node = graph.by_id.get(source), graph.by_id.get(target)
    if source_node is None or target_node is None:
        yield from (*undefined(graph, "source", source), *undefined(graph, "target", target))
    elif source == target:
        yield Fault("target", f"{target!r} cannot lead to itself", "cycle")
    elif CONVERSATION in (source_node.type, target_node.type):
        yield Fault("", f"a node of type {CONVERSATION!r} has no edges; it is read without", "crosses-border")
    elif target_node.parent == source:
        what = f"what runs inside {source!r} begins by itself, at its start node; leave this edge out"
        yield Fault("target", what, "edge-to-own-start")
    elif source_node.parent != target_node.parent:
        where, inner = ("source", source_node) if source_node.parent else ("target", target_node)
        what = (
            f"{inner.id!r} runs inside {inner.parent!r}; an edge across that border begins or ends at {inner.parent!r}"
        )
        yield Fault(where, what, "crosses-border")


def wrong_port(graph: NodeGraph, types: Types, source: str, port: int | Literal["else"]) -> Iterator[Fault]:
    """Yield a fault if a node does not have a port."""
    spec = graph.by_id.get(source)
    if spec is None:
        return
    if port == "else" and spec.type != "if-else":
        what = f"only if-else has a port else, and {source!r} is of type {spec.type!r}; give a number, or leave it out"
        yield Fault("port", what, "port-out-of-range")
        return
    node = node_of(spec, types)
    number = port_number(graph, source, port)
    if node is not None and not 0 <= number < (len(node.ports) or 1):
        ports = f"0 to {len(node.ports) - 1}: {shorten(list(node.ports))}" if node.ports else "only port 0"
        yield Fault("port", f"{source!r} ({spec.type}) has no port {number}; it has {ports}", "port-out-of-range")


def unsure_edge(graph: NodeGraph, source: str, target: str, port: int | Literal["else"] | None) -> Iterator[Fault]:
    """Yield a fault if there is no edge between two nodes, or if several could be meant."""
    missing = [*undefined(graph, "source", source), *undefined(graph, "target", target)]
    # edges of a broken workflow may name missing nodes; these edges can be removed, too
    any_port = [edge for edge in graph.edges if (edge.source, edge.target) == (source, target)]
    found = edges_between(graph, source, target, port)
    if not any_port and missing:
        yield from missing
    elif not found:
        ports = ", ".join(str(edge.port) for edge in any_port)
        others = [edge.target for edge in graph.edges if edge.source == source]
        targets = shorten(others) if others else "nowhere"
        what = f"; it is from port {ports}" if any_port else f"; {source!r} leads to: {targets}"
        from_port = "" if port is None or not any_port else f" from port {port}"
        yield Fault(
            "port" if any_port else "target", f"no edge leads from {source!r} to {target!r}{from_port}{what}", "no-edge"
        )
    elif len({edge.port for edge in found}) > 1:
        ports = ", ".join(str(edge.port) for edge in found)
        yield Fault(
            "port", f"{len(found)} edges lead from {source!r} to {target!r}; say which port: {ports}", "no-edge"
        )


# Queries


def edges_between(graph: NodeGraph, source: str, target: str, port: int | Literal["else"] | None) -> list[Edge]:
    """Return the edges between two nodes, from one port, or from any if it is None."""
    number = None if port is None else port_number(graph, source, port)
    return [
        edge for edge in graph.edges if (edge.source, edge.target) == (source, target) and number in (None, edge.port)
    ]


def port_number(graph: NodeGraph, source: str, port: int | Literal["else"]) -> int:
    """Return the number of a port; ``else`` is the port after the cases."""
    return port if isinstance(port, int) else branches(graph.by_id[source])


def branches(spec: NodeSpec) -> int:
    """Return the number of branches of a node."""
    return len(list_of(fields_of(spec.params).get(BRANCHES.get(spec.type, ""))))


def inside_of(graph: NodeGraph, node_id: str) -> set[str]:
    """Return the ids of the nodes inside a node, at any depth."""
    return reachable([node_id], lambda outer: [spec.id for spec in graph.nodes if spec.parent == outer]) - {node_id}


def free_id(taken: Collection[str], parent: str = "") -> str:
    """Return the lowest number that is not a taken id, as an id; inside a container, after its id and a hyphen."""
    ids = (f"{parent}-{number}" if parent else str(number) for number in count(1))
    return next(each for each in ids if each not in taken)


# Changes


def with_params(graph: NodeGraph, node_id: str, params: Fields) -> NodeGraph:
    """Return the workflow with other parameters of a node; if its number of cases changes, edges from ELSE move."""
    old = graph.by_id[node_id]
    new = replace(old, params=params)
    nodes: Sequence[NodeSpec] = [new if spec is old else spec for spec in graph.nodes]
    old_count, new_count = branches(old), branches(new)
    if old.type != "if-else" or old_count == new_count:
        return replace(graph, nodes=nodes)
    edges = [
        replace(edge, port=new_count) if edge.source == node_id and edge.port == old_count else edge
        for edge in graph.edges
    ]
    return replace(graph, nodes=nodes, edges=edges)


# References of nodes to variables


def node_of(spec: NodeSpec, types: Types) -> NodeOperator[Any] | None:
    """Return the operator of a node; None if its type is unknown or its parameters are not valid."""
    try:
        return types[spec.type](spec.id, spec.params) if spec.type in types else None
    except InvalidError:
        return None


def reads(graph: NodeGraph, spec: NodeSpec, types: Types) -> list[str]:
    """Return the ids of the nodes that a node reads, as far as its parameters are valid, without nodes inside it."""
    read = dict.fromkeys(selector.node for selector in variables_read(spec, types))
    return [node_id for node_id in read if node_id != spec.id and spec.id not in graph.around(node_id)]


def variables_read(spec: NodeSpec, types: Types) -> list[Selector]:
    """Return the variables that a node reads, as far as its parameters are valid; those of a result are among them."""
    params_type = types[spec.type].params_type if spec.type in types else NodeParams
    return [reference.selector for reference in references_in(params_type, readable(params_type, spec.params))]


def following(graph: NodeGraph, types: Types, change: Change) -> NodeGraph:
    """Return the workflow with every variable that its nodes read replaced by the result of a function.

    Nodes without a replaced variable stay the same objects. Nodes of unknown types and parameters that are not valid
    are not changed.
    """
    nodes = [_changed(spec, types, change) for spec in graph.nodes]
    return replace(graph, nodes=nodes)


def _changed(spec: NodeSpec, types: Types, change: Change) -> NodeSpec:
    """Return a node with its variables replaced; the same object if none is."""
    if spec.type not in types:
        return spec
    params = rewritten(readable(types[spec.type].params_type, spec.params), spec.params, change)
    return spec if params is spec.params else replace(spec, params=params)
