"""Operations on nodes and their parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, Literal

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
from operad.operators.variables import short_json
from operad.runtime.values.errors import shorten

Title = Annotated[str, Field(max_length=200, pattern=r"^[^\r\n]*$", description='Its title, in one line; "" for none.')]


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
    title: Title = ""

    def faults(self, graph: NodeGraph, types: Types) -> Iterator[Fault]:
        """Yield faults: a taken id, an unknown type or parameter, a node that cannot contain others."""
        yield from taken(graph, self.id, self.type)
        yield from unknown_type(types, self.type)
        yield from unknown_params(types, self.type, self.params)
        container = self._container(graph)
        if not container:
            return
        yield from undefined(graph, "inside", container)
        spec = graph.by_id.get(container)
        if spec and spec.type in types and not types[spec.type].body_starts_with:
            containers = shorten([name for name, each in types.items() if each.body_starts_with])
            what = (
                f"nothing can run inside {container!r}, which is of type {spec.type!r}; "
                f"these can hold nodes: {containers}"
            )
            yield Fault("inside", what, "crosses-border")

    def apply(self, graph: NodeGraph, types: Types) -> NodeGraph:
        """Return the workflow with the new node as the last node."""
        return self.apply_if_faulty(graph)

    def apply_if_faulty(self, graph: NodeGraph) -> NodeGraph:
        """Return the workflow with the new node, unless its id is taken."""
        if self.id in graph.by_id:
            return graph
        made = NodeSpec(self.id, self.type, self.params, self._container(graph), title=self.title.strip())
        return replace(graph, nodes=[*graph.nodes, made])

    def _container(self, graph: NodeGraph) -> str:
        """Return the id of the container of the new node; empty if it has none."""
        if self.inside is not None:
            return self.inside
        prefix = self.id.rpartition("-")[0]
        return prefix if prefix in graph.by_id else ""


class RemoveNode(Operation):
    """Removes a node, what runs inside of it, and its edges."""

    op: Literal["remove_node"] = "remove_node"
    node: NodeId
    edges: Literal["rewire", "cut"] = Field(
        default="rewire", description="Whether what came before it leads to what came after it, or its edges just go."
    )

    def faults(self, graph: NodeGraph, types: Types) -> Iterator[Fault]:
        """Yield a fault if the node does not exist."""
        yield from undefined(graph, "node", self.node)

    def apply(self, graph: NodeGraph, types: Types) -> NodeGraph:
        """Return the workflow without the node; of several nodes with the id, only the first is removed."""
        removed = graph.by_id[self.node]
        nodes = [spec for spec in graph.nodes if spec is not removed]
        if any(spec.id == self.node for spec in nodes):
            return replace(graph, nodes=nodes)
        inside = inside_of(graph, self.node)
        nodes = [spec for spec in nodes if spec.id not in inside]
        removed_ids = inside | {self.node}
        incoming = [edge for edge in graph.edges if edge.target == self.node and edge.source not in removed_ids]
        edges: list[Edge] = []
        existing = {(edge.source, edge.port, edge.target) for edge in graph.edges}
        for edge in graph.edges:
            if edge.source not in removed_ids and edge.target not in removed_ids:
                edges.append(edge)
            elif edge.source == self.node and edge.target not in removed_ids and self.edges == "rewire":
                joined = [
                    replace(incoming_edge, target=edge.target)
                    for incoming_edge in incoming
                    if incoming_edge.source != edge.target
                ]
                edges += [
                    new_edge for new_edge in joined if (new_edge.source, new_edge.port, new_edge.target) not in existing
                ]
                existing |= {(new_edge.source, new_edge.port, new_edge.target) for new_edge in joined}
        samples = {node: answer for node, answer in graph.samples.items() if node not in removed_ids}
        return replace(graph, nodes=nodes, edges=edges, samples=samples)


class SetParam(Operation):
    """Gives a parameter, or a part of one, a value; null removes a parameter that the type does not have."""

    op: Literal["set"] = "set"
    node: NodeId
    path: str = Field(
        min_length=1,
        description="Which: system, outputs.summary, cases[0].conditions[0].value; the place behind the last item adds one.",
    )
    value: JsonValue = Field(description="Its new value.")

    def faults(self, graph: NodeGraph, types: Types) -> Iterator[Fault]:
        """Yield faults: a missing node, or a path that does not exist."""
        missing = list(undefined(graph, "node", self.node))
        yield from missing
        if not missing:
            try:
                if self._removes(graph.by_id[self.node], types):
                    return
                name = str(steps_of(self.path)[0])
                param_faults = list(unknown_params(types, graph.by_id[self.node].type, [name], "path"))
                yield from param_faults
                if not param_faults:
                    self._params(graph, types)
            except PathError as error:
                yield Fault("path", f"node {self.node!r}: {error}", "no-path")

    def apply(self, graph: NodeGraph, types: Types) -> NodeGraph:
        """Return the workflow with the value."""
        return with_params(graph, self.node, self._params(graph, types))

    def _params(self, graph: NodeGraph, types: Types) -> Fields:
        spec = graph.by_id[self.node]
        if self._removes(spec, types):
            return {name: value for name, value in fields_of(spec.params).items() if name != self.path}
        return with_value(spec.params, _steps(spec, self.path, types), self.value)

    def _removes(self, spec: NodeSpec, types: Types) -> bool:
        """Return whether the operation removes a parameter that the type of its node does not have."""
        is_unknown = spec.type in types and self.path not in types[spec.type].params_type.model_fields
        return self.value is None and is_unknown and self.path in fields_of(spec.params)


class RenameNode(Operation):
    """Gives a node another title, which people see in place of its type; its id stays."""

    op: Literal["rename_node"] = "rename_node"
    node: NodeId
    title: Title

    def faults(self, graph: NodeGraph, types: Types) -> Iterator[Fault]:
        """Yield a fault if the node does not exist."""
        yield from undefined(graph, "node", self.node)

    def apply(self, graph: NodeGraph, types: Types) -> NodeGraph:
        """Return the workflow with the title."""
        old = graph.by_id[self.node]
        new = replace(old, title=self.title.strip())
        return replace(graph, nodes=[new if spec is old else spec for spec in graph.nodes])


class ReplaceText(Operation):
    """Replaces a part of a text among the parameters."""

    op: Literal["replace_text"] = "replace_text"
    node: NodeId
    path: str = Field(min_length=1, description="Which text: user, classes[0].")
    old: str = Field(min_length=1, description="What stands there exactly once, letter by letter.")
    new: str = Field(description="What is to stand there.")

    def faults(self, graph: NodeGraph, types: Types) -> Iterator[Fault]:
        """Yield faults: a missing node or text, or a text that does not contain the old part exactly once."""
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
            yield Fault("path", f"{where} is not a text: {short_json(text)}; use set", "no-path")
        elif count == 0:
            yield Fault(
                "old", f"{short_json(self.old)} does not stand in {where}, which is: {short_json(text)}", "no-text"
            )
        elif count > 1:
            what = f"{short_json(self.old)} stands {count} times in {where}; give more of the text around it"
            yield Fault("old", what, "no-text")

    def apply(self, graph: NodeGraph, types: Types) -> NodeGraph:
        """Return the workflow with the new part of the text."""
        spec = graph.by_id[self.node]
        text = self._text(graph, types).replace(self.old, self.new)
        return with_params(graph, self.node, with_value(fields_of(spec.params), _steps(spec, self.path, types), text))

    def _text(self, graph: NodeGraph, types: Types) -> Any:
        spec = graph.by_id[self.node]
        return value_at(spec.params, _steps(spec, self.path, types))


def _steps(spec: NodeSpec, path: str, types: Types) -> list[Step]:
    """Return the keys and indexes of a path; names of list items become indexes."""
    steps = steps_of(path)
    return listed_path(types[spec.type].params_type, spec.params, steps) if spec.type in types else steps
