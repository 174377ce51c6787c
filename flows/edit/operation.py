"""Operation on a workflow: the base class, and the parts that operations share."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from operad.flows.catalogue import drafted_fields
from operad.flows.check import CONVERSATION, OUTCOME, NodeType
from operad.flows.edit.references import node_of
from operad.flows.formats.shapes import Fields, fields_of, list_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators.node import Fault
from operad.runtime.graph.graph import END
from operad.runtime.values.errors import did_you_mean, shorten

Types = Mapping[str, NodeType]

NodeId = Annotated[str, Field(min_length=1)]
NewId = Annotated[str, Field(pattern=r"""^[^\s'"#{}.]([^'"#{}.]*[^\s'"#{}.])?$""", description="An id that is free.")]
Name = Annotated[str, Field(pattern=r"^[^\s#{}.]+$", description="Its name, without spaces and dots.")]
Port = Annotated[
    int | Literal["else"],
    Field(description='The port, counted from 0; "else" is that of an if-else node where no case holds.'),
]

BRANCHES: Mapping[str, str] = {"if-else": "cases", "question-classifier": "classes"}
"""The parameter that lists the branches of a type."""


def _with_op(schema: dict[str, Any]) -> None:
    schema["required"] = ["op", *schema.get("required", [])]


class Operation(BaseModel):
    """A change of a workflow: a value, whose fields are its JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_extra=_with_op)

    def faults(self, graph: NodeGraph, types: Types) -> Iterator[Fault]:
        """Return the reasons why it cannot be applied to a workflow, each with the field concerned."""
        raise NotImplementedError

    def done(self, graph: NodeGraph, types: Types) -> NodeGraph:
        """The workflow with the change, where there are no faults; what it does not touch are the same objects."""
        raise NotImplementedError

    def anyway(self, graph: NodeGraph) -> NodeGraph:
        """Return the workflow by which later operations are judged if this one cannot be applied."""
        return graph


# What can be wrong


def undefined(graph: NodeGraph, where: str, node_id: str) -> Iterator[Fault]:
    """A node that is not there."""
    if node_id not in graph.by_id:
        known = shorten(list(dict.fromkeys(spec.id for spec in graph.nodes))) or "none"
        hint = did_you_mean(node_id, graph.by_id)
        yield Fault(where, f"there is no node {node_id!r}{hint}; there are: {known}", "undefined-node")


def taken(graph: NodeGraph, node_id: str, node_type: str) -> Iterator[Fault]:
    """An id that a new node cannot have."""
    if node_id in graph.by_id:
        spec = graph.by_id[node_id]
        what = f"{node_id!r} is a node already ({spec.type}); {free_id(graph, spec.parent)!r} is free"
        yield Fault("id", what, "duplicate-id")
    elif node_id in (OUTCOME, END) or (node_id == CONVERSATION) != (node_type == CONVERSATION):
        what = f"the id {CONVERSATION!r} and the type {CONVERSATION!r} go together"
        yield Fault("id", what if CONVERSATION in (node_id, node_type) else f"{node_id!r} is taken", "duplicate-id")


def unknown_type(types: Types, node_type: str) -> Iterator[Fault]:
    """A type that there is not."""
    if node_type not in types:
        hint = did_you_mean(node_type, types) or f"; there are: {', '.join(types)}"
        yield Fault("type", f"{node_type!r} is not a node type{hint}", "unknown-type")


def unknown_params(types: Types, node_type: str, names: Collection[str], where: str = "params.") -> Iterator[Fault]:
    """Parameters that a type does not have."""
    known = list(types[node_type].params_type.model_fields) if node_type in types else []
    for name in names if node_type in types else ():
        if name not in known:
            has = ", ".join(drafted_fields(types[node_type])) or "none"
            what = f"{node_type} has no parameter {name!r}{did_you_mean(name, known)}; it has: {has}"
            yield Fault(f"{where}{name}" if where.endswith(".") else where, what, "unknown-param")


def border(graph: NodeGraph, source: str, target: str) -> Iterator[Fault]:
    """Yield the reasons why no edge can lead from one node to another."""
    one, other = graph.by_id.get(source), graph.by_id.get(target)
    if one is None or other is None:
        yield from (*undefined(graph, "source", source), *undefined(graph, "target", target))
    elif source == target:
        yield Fault("target", f"{target!r} cannot lead to itself", "cycle")
    elif CONVERSATION in (one.type, other.type):
        yield Fault("", f"a node of type {CONVERSATION!r} has no edges; it is read without", "crosses-border")
    elif other.parent == source:
        what = f"what runs inside {source!r} begins by itself, at its start node; leave this edge out"
        yield Fault("target", what, "edge-to-own-start")
    elif one.parent != other.parent:
        where, inner = ("source", one) if one.parent else ("target", other)
        what = (
            f"{inner.id!r} runs inside {inner.parent!r}; an edge across that border begins or ends at {inner.parent!r}"
        )
        yield Fault(where, what, "crosses-border")


def wrong_port(graph: NodeGraph, types: Types, source: str, port: int | Literal["else"]) -> Iterator[Fault]:
    """A port that a node does not have."""
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
    # Edges of a broken workflow may name nodes that are not there; these can be taken away, too.
    known = [edge for edge in graph.edges if (edge.source, edge.target) == (source, target)]
    found = edges_between(graph, source, target, port)
    if not known and missing:
        yield from missing
    elif not found:
        ports = ", ".join(str(edge.port) for edge in known)
        others = [edge.target for edge in graph.edges if edge.source == source]
        leads = shorten(others) if others else "nowhere"
        what = f"; it is from port {ports}" if known else f"; {source!r} leads to: {leads}"
        of = "" if port is None or not known else f" from port {port}"
        yield Fault("port" if known else "target", f"no edge leads from {source!r} to {target!r}{of}{what}", "no-edge")
    elif len({edge.port for edge in found}) > 1:
        ports = ", ".join(str(edge.port) for edge in found)
        yield Fault(
            "port", f"{len(found)} edges lead from {source!r} to {target!r}; say which port: {ports}", "no-edge"
        )


# What is there


def edges_between(graph: NodeGraph, source: str, target: str, port: int | Literal["else"] | None) -> list[Edge]:
    """The edges between two nodes, from one port or from any."""
    number = None if port is None else port_number(graph, source, port)
    return [
        edge for edge in graph.edges if (edge.source, edge.target) == (source, target) and number in (None, edge.port)
    ]


def port_number(graph: NodeGraph, source: str, port: int | Literal["else"]) -> int:
    """The number of a port."""
    return port if isinstance(port, int) else branches(graph.by_id[source])


def branches(spec: NodeSpec) -> int:
    """Return the number of branches of a node."""
    return len(list_of(fields_of(spec.params).get(BRANCHES.get(spec.type, ""))))


def inside_of(graph: NodeGraph, node_id: str) -> set[str]:
    """The nodes inside of one, however deep."""
    found: set[str] = set()
    open_ = [node_id]
    while open_:
        here = open_.pop()
        new = {spec.id for spec in graph.nodes if spec.parent == here} - found - {node_id}
        found |= new
        open_ += new
    return found


def before(graph: NodeGraph, node_id: str) -> set[str]:
    """The nodes from which a way leads to one."""
    found: set[str] = set()
    open_ = [node_id]
    while open_:
        here = open_.pop()
        new = {edge.source for edge in graph.edges if edge.target == here} - found
        found |= new
        open_ += new
    return found


def free_id(graph: NodeGraph, parent: str = "") -> str:
    """The number behind the largest one that is an id, of the workflow or inside a node."""
    begin = f"{parent}-" if parent else ""
    rests = [node_id.removeprefix(begin) for node_id in graph.by_id if node_id.startswith(begin)]
    return f"{begin}{max((int(rest) for rest in rests if rest.isdecimal() and len(rest) < 16), default=0) + 1}"


# What takes its place


def with_params(graph: NodeGraph, node_id: str, params: Fields) -> NodeGraph:
    """The workflow with other parameters of a node; edges from ELSE follow it, where cases come or go."""
    old = graph.by_id[node_id]
    new = replace(old, params=params)
    nodes: Sequence[NodeSpec] = [new if spec is old else spec for spec in graph.nodes]
    was, now = branches(old), branches(new)
    if old.type != "if-else" or was == now:
        return replace(graph, nodes=nodes)
    edges = [replace(edge, port=now) if edge.source == node_id and edge.port == was else edge for edge in graph.edges]
    return replace(graph, nodes=nodes, edges=edges)
