"""Operations on nodes and their parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field, JsonValue

from operad.flows.edit.operation import (
    NewId,
    NodeId,
    Operation,
    Types,
    inside_of,
    taken,
    undefined,
    unknown_params,
    unknown_type,
    with_params,
)
from operad.flows.edit.paths import PathError, Step, path_of, steps_of, value_at, with_value
from operad.flows.formats.shapes import Fields, fields_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators.named_params import listed_path
from operad.operators.node import Fault
from operad.operators.variables import shown
from operad.runtime.values.errors import shorten


class AddNode(Operation):
    """Adds a node; edges are added by `connect`."""

    op: Literal["add_node"] = "add_node"
    id: NewId
    type: str = Field(description="The type of the node.")
    params: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue], description="Its parameters.")
    inside: str | None = Field(
        default=None,
        description='The node that it runs inside of, "" for none; by default what the id says: 5-2 is inside of 5.',
    )

    def faults(self, graph: NodeGraph, types: Types) -> Iterator[Fault]:
        """An id that is taken, a type or parameters that there are not, a node that nothing can run inside of."""
        yield from taken(graph, self.id, self.type)
        yield from unknown_type(types, self.type)
        yield from unknown_params(types, self.type, self.params)
        holder = self._holder(graph)
        if not holder:
            return
        yield from undefined(graph, "inside", holder)
        spec = graph.by_id.get(holder)
        if spec and spec.type in types and not types[spec.type].body_starts_with:
            able = shorten([name for name, each in types.items() if each.body_starts_with])
            what = f"nothing can run inside {holder!r}, which is of type {spec.type!r}; these can hold nodes: {able}"
            yield Fault("inside", what, "crosses-border")

    def done(self, graph: NodeGraph, types: Types) -> NodeGraph:
        """With the node as the last one."""
        return self.anyway(graph)

    def anyway(self, graph: NodeGraph) -> NodeGraph:
        """With the node, unless one has its id."""
        if self.id in graph.by_id:
            return graph
        return replace(graph, nodes=[*graph.nodes, NodeSpec(self.id, self.type, self.params, self._holder(graph))])

    def _holder(self, graph: NodeGraph) -> str:
        if self.inside is not None:
            return self.inside
        holder = self.id.rpartition("-")[0]
        return holder if holder in graph.by_id else ""


class RemoveNode(Operation):
    """Removes a node, what runs inside of it, and its edges."""

    op: Literal["remove_node"] = "remove_node"
    node: NodeId
    edges: Literal["rewire", "cut"] = Field(
        default="rewire", description="Whether what came before it leads to what came after it, or its edges just go."
    )

    def faults(self, graph: NodeGraph, types: Types) -> Iterator[Fault]:
        """A node that is not there."""
        yield from undefined(graph, "node", self.node)

    def done(self, graph: NodeGraph, types: Types) -> NodeGraph:
        """Without it; of several nodes with the id, only the first goes."""
        gone = graph.by_id[self.node]
        nodes = [spec for spec in graph.nodes if spec is not gone]
        if any(spec.id == self.node for spec in nodes):
            return replace(graph, nodes=nodes)
        inside = inside_of(graph, self.node)
        nodes = [spec for spec in nodes if spec.id not in inside]
        ends = inside | {self.node}
        leading = [edge for edge in graph.edges if edge.target == self.node and edge.source not in ends]
        edges: list[Edge] = []
        there = {(edge.source, edge.port, edge.target) for edge in graph.edges}
        for edge in graph.edges:
            if edge.source not in ends and edge.target not in ends:
                edges.append(edge)
            elif edge.source == self.node and edge.target not in ends and self.edges == "rewire":
                joined = [replace(each, target=edge.target) for each in leading if each.source != edge.target]
                edges += [each for each in joined if (each.source, each.port, each.target) not in there]
                there |= {(each.source, each.port, each.target) for each in joined}
        return replace(graph, nodes=nodes, edges=edges)


class SetParam(Operation):
    """Gives a parameter, or a part of one, a value."""

    op: Literal["set"] = "set"
    node: NodeId
    path: str = Field(
        min_length=1,
        description="Which: system, outputs.summary, cases[0].conditions[0].value; the place behind the last item adds one.",
    )
    value: JsonValue = Field(description="Its new value.")

    def faults(self, graph: NodeGraph, types: Types) -> Iterator[Fault]:
        """A node that is not there, or a path that leads nowhere."""
        missing = list(undefined(graph, "node", self.node))
        yield from missing
        if not missing:
            try:
                name = str(steps_of(self.path)[0])
                wrong = list(unknown_params(types, graph.by_id[self.node].type, [name], "path"))
                yield from wrong
                if not wrong:
                    self._params(graph, types)
            except PathError as error:
                yield Fault("path", f"node {self.node!r}: {error}", "no-path")

    def done(self, graph: NodeGraph, types: Types) -> NodeGraph:
        """With the value."""
        return with_params(graph, self.node, self._params(graph, types))

    def _params(self, graph: NodeGraph, types: Types) -> Fields:
        spec = graph.by_id[self.node]
        return with_value(spec.params, _steps(spec, self.path, types), self.value)


class ReplaceText(Operation):
    """Replaces a part of a text among the parameters."""

    op: Literal["replace_text"] = "replace_text"
    node: NodeId
    path: str = Field(min_length=1, description="Which text: user, classes[0].")
    old: str = Field(min_length=1, description="What stands there exactly once, letter by letter.")
    new: str = Field(description="What is to stand there.")

    def faults(self, graph: NodeGraph, types: Types) -> Iterator[Fault]:
        """A text that is not there, or in which the part is not there exactly once."""
        missing = list(undefined(graph, "node", self.node))
        yield from missing
        if missing:
            return
        try:
            text = self._text(graph, types)
        except PathError as error:
            yield Fault("path", f"node {self.node!r}: {error}", "no-path")
            return
        count = text.count(self.old) if isinstance(text, str) else 0
        where = f"{path_of(steps_of(self.path))} of {self.node!r}"
        if not isinstance(text, str):
            yield Fault("path", f"{where} is not a text: {shown(text)}; use set", "no-path")
        elif count == 0:
            yield Fault("old", f"{shown(self.old)} does not stand in {where}, which is: {shown(text)}", "no-text")
        elif count > 1:
            what = f"{shown(self.old)} stands {count} times in {where}; give more of the text around it"
            yield Fault("old", what, "no-text")

    def done(self, graph: NodeGraph, types: Types) -> NodeGraph:
        """With the new part."""
        spec = graph.by_id[self.node]
        text = self._text(graph, types).replace(self.old, self.new)
        return with_params(graph, self.node, with_value(fields_of(spec.params), _steps(spec, self.path, types), text))

    def _text(self, graph: NodeGraph, types: Types) -> Any:
        spec = graph.by_id[self.node]
        return value_at(spec.params, _steps(spec, self.path, types))


def _steps(spec: NodeSpec, path: str, types: Types) -> list[Step]:
    """The keys and places of a path, which may name the places of lists."""
    steps = steps_of(path)
    return listed_path(types[spec.type].params_type, spec.params, steps) if spec.type in types else steps
