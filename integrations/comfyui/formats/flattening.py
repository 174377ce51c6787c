"""Conversion of a graph of ComfyUI's page to the graph that a server runs, with its subgraphs expanded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Any

from operad.flows.formats.shapes import fields_of, list_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.integrations.comfyui.formats.definitions import Definitions, accepts, type_of
from operad.integrations.comfyui.formats.ui import subgraphs
from operad.integrations.comfyui.formats.widgets import values_of, with_defaults
from operad.integrations.comfyui.formats.written import (
    BYPASSED,
    GETTER,
    INLET,
    MUTED,
    NAME,
    OUTLET,
    SETTER,
    id_text,
    is_virtual,
    link_parts,
    mode_of,
    named,
    node_of,
    slots,
    title_of,
    ui_of,
)
from operad.runtime.values.errors import InvalidError, Issue

MAX_BYTES = 64 * 2**20
"""Maximum size of a workflow whose subgraphs are expanded, in bytes of JSON."""

_NODE_OVERHEAD = 1000
"""Bytes that each node counts in addition to its JSON."""

MAX_LEVELS = 50
"""Maximum depth of subgraphs inside subgraphs."""


def executable(graph: NodeGraph, definitions: Definitions) -> NodeGraph:
    """Return the graph that a server runs; a graph without data of the page is returned unchanged.

    Nodes of subgraphs get ids ``outer:inner``. Parameters are values by name, in the order of the class, with defaults
    for required values that are not set. Notes and muted nodes are left out with their links. Links from reroutes,
    getters and bypassed nodes are replaced by links from their sources. Primitive nodes become values of the inputs they fill.

    Args:
        graph: The graph as the page saved it.
        definitions: The node classes of the server. Values of an unknown class keep the names that the file gives
            them, and are left out if it gives none.

    Raises:
        InvalidError: A subgraph contains itself, or the expanded workflow is too large or too deep.
    """
    if all(ui_of(node) is None and not is_virtual(node) for node in graph.nodes):
        return graph
    return _Flattening(graph, definitions).result()


@dataclass(frozen=True, eq=False)
class _GraphIndex:
    """Lookup tables of the graph, or of a subgraph, for all of its instances."""

    graph: NodeGraph

    @cached_property
    def into(self) -> Mapping[str, Mapping[str, Edge]]:
        """Edge that fills each input, by node id and name (outlet: slot); of several, the one that the slot names."""
        edges: dict[str, dict[str, Edge]] = {}
        for edge in self.graph.edges:
            if edge.target == OUTLET:
                edges.setdefault(OUTLET, {})[str(link_parts(ui_of(edge))[4])] = edge
            elif edge.input:
                filled = edges.setdefault(edge.target, {})
                if edge.input not in filled or self._is_named_by_slot(edge):
                    filled[edge.input] = edge
        return edges

    @cached_property
    def from_inlet(self) -> Mapping[int, Sequence[Edge]]:
        """Edges from each input of a subgraph, by slot, in the order in which the input lists its links."""
        edges: dict[int, list[Edge]] = {}
        for edge in self.graph.edges:
            if edge.source == INLET:
                edges.setdefault(edge.port, []).append(edge)
        for port, subgraph_input in enumerate(list_of(fields_of(ui_of(self.graph)).get("inputs"))):
            order = {
                id_text(link): position
                for position, link in enumerate(list_of(fields_of(subgraph_input).get("linkIds")))
            }
            edges.get(port, []).sort(key=lambda edge: order.get(id_text(link_parts(ui_of(edge))[0]), len(order)))
        return edges

    @cached_property
    def outer_inputs(self) -> Mapping[tuple[str, str], str]:
        """Input of the subgraph that fills an input inside of it, by the inner node's id and the inner input's name."""
        return {
            (edge.target, edge.input): name
            for name, port in self.ports.items()
            for edge in self.from_inlet.get(port, ())
        }

    @cached_property
    def ports(self) -> Mapping[str, int]:
        """Slots of the inputs of a subgraph, by name."""
        inputs = list_of(fields_of(ui_of(self.graph)).get("inputs"))
        return {named(each, port): port for port, each in reversed(list(enumerate(inputs)))}

    @cached_property
    def sizes(self) -> Mapping[str, tuple[int, int]]:
        """Number of ids written for each node and its links, and bytes of its JSON, by node id."""
        return {spec.id: (1 + len(self.into.get(spec.id, ())), _size(node_of(spec))) for spec in self.graph.nodes}

    @cached_property
    def setters(self) -> Mapping[str, NodeSpec]:
        """Setters by the names under which getters find them; of several, the first."""
        found = [spec for spec in self.graph.nodes if spec.type == SETTER]
        return {str(values_of(spec).get("name")): spec for spec in reversed(found)}

    @cached_property
    def first_of_type(self) -> Mapping[str, Mapping[str, str]]:
        """Names of the first input of each type of bypassed nodes, by node id and type."""
        return {
            spec.id: {
                type_of(each.get("type")): named(each, slot)
                for slot, each in reversed(list(enumerate(slots(spec, "inputs"))))
            }
            for spec in self.graph.nodes
            if mode_of(spec) == BYPASSED
        }

    def _is_named_by_slot(self, edge: Edge) -> bool:
        """Return True if the input slot that an edge leads to names that edge as its link."""
        link, _, _, _, slot, _ = link_parts(ui_of(edge))
        target = self.graph.by_id.get(edge.target)
        inputs = list_of(node_of(target).get("inputs")) if target and ui_of(edge) is not None else ()
        return 0 <= slot < len(inputs) and id_text(fields_of(inputs[slot]).get("link")) == id_text(link)


@dataclass(frozen=True, eq=False)
class _Instance:
    """The whole graph, or one use of a subgraph.

    Attributes:
        index: The graph, or the subgraph.
        prefix: The prefix of the ids of its nodes.
        outer: The instance that contains it; None for the whole graph.
        node: The node of `outer` that stands for the subgraph; None for the whole graph.
        values: The values that this node sets for inputs of the subgraph, by name.
        overrides: The values that it sets for nodes inside, by node id and input name.
    """

    index: _GraphIndex
    prefix: str = ""
    outer: _Instance | None = None
    node: NodeSpec | None = None
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    overrides: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])

    def into(self, node_id: str) -> Mapping[str, Edge]:
        """Return the edges that fill the inputs of a node, by name."""
        return self.index.into.get(node_id, {})


@dataclass(frozen=True)
class _Value:
    """Value of an input that no node fills."""

    value: Any


@dataclass(frozen=True)
class _Step:
    """Output that is one step closer to the origin of a link."""

    instance: _Instance
    source: str
    port: int


_Source = tuple[str, int]
"""Output of a node that runs: the node's id in the flat graph, and the port."""

_Output = tuple[_Instance, str, int]
"""Output of any node: its instance, the node's id in it, and the port."""


class _Flattening:
    """Expansion of one graph."""

    def __init__(self, graph: NodeGraph, definitions: Definitions) -> None:
        self._graph = graph
        self._definitions = definitions
        self._subgraphs = {name: _GraphIndex(inner) for name, inner in subgraphs(graph).items()}
        self._nodes: list[NodeSpec] = []
        self._edges: list[Edge] = []
        self._instances: dict[tuple[_Instance, str], _Instance] = {}
        self._origins: dict[_Output, _Source | _Value | None] = {}
        self._node_values: dict[tuple[_Instance, str], dict[str, Any]] = {}
        self._widget_inputs: dict[str, Sequence[str]] = {}
        self._bytes_left = MAX_BYTES

    def result(self) -> NodeGraph:
        self._check_nesting()
        for instance, spec in self._running_nodes(_Instance(_GraphIndex(self._graph))):
            self._add_node(instance, spec)
        graph = self._graph
        return NodeGraph(self._nodes, self._edges, graph.name, instructions=graph.instructions, notes=graph.notes)

    def _check_nesting(self) -> None:
        """Raise InvalidError if a subgraph contains itself, or if subgraphs are nested too deep."""
        inner_ids = {
            name: [spec.type for spec in index.graph.nodes if spec.type in self._subgraphs]
            for name, index in self._subgraphs.items()
        }
        depth: dict[str, int] = {}
        try:
            for name in TopologicalSorter(inner_ids).static_order():
                depth[name] = 1 + max((depth[each] for each in inner_ids[name]), default=0)
        except CycleError as error:
            names = " → ".join(self._subgraphs[each].graph.name for each in error.args[1][::-1])
            raise self._error(
                "cycle", f"a subgraph contains itself: {names}; take it out of itself in ComfyUI", error.args[1][0]
            ) from error
        if max(depth.values(), default=0) > MAX_LEVELS:
            raise self._error("depth", f"subgraphs stand in subgraphs more than {MAX_LEVELS} deep")

    def _running_nodes(self, top: _Instance) -> Iterator[tuple[_Instance, NodeSpec]]:
        """Yield the nodes that run with their instances, subgraphs expanded, in the order of the file."""
        stack = [(top, spec) for spec in reversed(top.index.graph.nodes)]
        while stack:
            instance, spec = stack.pop()
            id_count, size = instance.index.sizes[spec.id]
            self._count_bytes(_NODE_OVERHEAD + size + id_count * len(instance.prefix))
            if mode_of(spec) in (MUTED, BYPASSED) or is_virtual(spec):
                continue
            if spec.type in self._subgraphs:
                inner = self._instance_of(instance, spec)
                stack += [(inner, each) for each in reversed(inner.index.graph.nodes)]
            else:
                yield instance, spec

    def _count_bytes(self, size: int) -> None:
        """Raise InvalidError if these bytes make the expanded workflow too large."""
        self._bytes_left -= size
        if self._bytes_left < 0:
            raise self._error("size", f"holds more than {MAX_BYTES:,} bytes once its subgraphs are put in")

    def _instance_of(self, instance: _Instance, spec: NodeSpec) -> _Instance:
        """Return the instance of a subgraph that a node stands for."""
        if (instance, spec.id) in self._instances:
            return self._instances[instance, spec.id]
        index = self._subgraphs[spec.type]
        values = dict(self._values(instance, spec))
        overrides: dict[str, dict[str, Any]] = {}
        widget_values = list_of(node_of(spec).get("widgets_values"))
        proxies = list_of(fields_of(node_of(spec).get("properties")).get("proxyWidgets"))
        for proxy, value in zip(proxies, widget_values, strict=False):
            match list_of(proxy):
                case ["-1", str() as name, *_]:
                    values.setdefault(name, value)
                case [inner_id, str() as name, *_]:
                    overrides.setdefault(id_text(inner_id), {})[name] = value
                    if outer_input := index.outer_inputs.get((id_text(inner_id), name)):
                        values.setdefault(outer_input, value)
                case _:
                    pass
        widgets = self._promoted_widgets(spec.type)
        if not proxies and len(widgets) == len(widget_values):
            values = dict(zip(widgets, widget_values, strict=True)) | values
        values |= instance.overrides.get(spec.id, {})
        inner = _Instance(index, f"{instance.prefix}{spec.id}:", instance, spec, values, overrides)
        self._instances[instance, spec.id] = inner
        return inner

    def _promoted_widgets(self, subgraph_id: str) -> Sequence[str]:
        """Return the inputs of a subgraph that the node for it shows as widgets, in the order of their values."""
        if subgraph_id not in self._widget_inputs:
            index = self._subgraphs[subgraph_id]
            ports = index.ports.items()
            edges_by_input = {
                name: index.from_inlet.get(port, ()) for name, port in sorted(ports, key=lambda port: port[1])
            }
            self._widget_inputs[subgraph_id] = [
                name for name, edges in edges_by_input.items() if any(self._is_widget(index, edge) for edge in edges)
            ]
        return self._widget_inputs[subgraph_id]

    def _is_widget(self, index: _GraphIndex, edge: Edge) -> bool:
        """Return True if an edge fills an input that has a widget on its node."""
        spec = index.graph.by_id.get(edge.target)
        if spec is None:
            return False
        if spec.type in self._subgraphs:
            return edge.input in self._promoted_widgets(spec.type)
        return any(
            named(each, slot) == edge.input and each.get("widget") for slot, each in enumerate(slots(spec, "inputs"))
        )

    def _error(self, code: str, message: str, where: str = "") -> InvalidError:
        return InvalidError(self._graph.name, [Issue(code, message, where)])

    # Nodes

    def _values(self, instance: _Instance, spec: NodeSpec) -> dict[str, Any]:
        """Return the values of a node by name; computed once for each node."""
        if (instance, spec.id) not in self._node_values:
            self._node_values[instance, spec.id] = self._compute_values(instance, spec)
        return self._node_values[instance, spec.id]

    def _compute_values(self, instance: _Instance, spec: NodeSpec) -> dict[str, Any]:
        definition = self._definitions.get(spec.type)
        values = values_of(spec, definition)
        known = values.keys() | (definition.inputs.keys() if definition else ())
        return values | {name: value for name, value in instance.overrides.get(spec.id, {}).items() if name in known}

    def _add_node(self, instance: _Instance, spec: NodeSpec) -> None:
        definition = self._definitions.get(spec.type)
        node_id = instance.prefix + spec.id
        values = dict(self._values(instance, spec))
        if ui_of(spec) is not None:
            values = with_defaults(values, definition)
        for name, edge in instance.into(spec.id).items():
            match self._origin(instance, edge.source, edge.port):
                case _Value(value):
                    self._count_bytes(_size(value))
                    values[name] = value
                case (source, port):
                    values.pop(name, None)
                    self._edges.append(Edge(source, node_id, port, name))
                case None:
                    pass
        extra = {NAME: {"api": {"_meta": {"title": title_of(spec)}}}}
        self._nodes.append(NodeSpec(node_id, spec.type, values, extra=extra if ui_of(spec) is not None else spec.extra))

    # Links

    def _origin(self, instance: _Instance, source: str, port: int) -> _Source | _Value | None:
        """Return the output of a running node, or the value, that a link begins at; None if it leads to nothing."""
        path: list[_Output] = []
        seen: set[_Output] = set()
        current: _Output | None = (instance, source, port)
        origin: _Source | _Value | None = None
        while current is not None and current not in seen:
            if current in self._origins:
                origin = self._origins[current]
                break
            seen.add(current)
            path.append(current)
            step = self._step_back(*current)
            if isinstance(step, _Step):
                current = step.instance, step.source, step.port
            else:
                origin, current = step, None
        for output in path:
            self._origins[output] = origin
        return origin

    def _step_back(self, instance: _Instance, source: str, port: int) -> _Step | _Source | _Value | None:
        """Return the next output on the way to the origin of a link, or the origin itself."""
        if source == INLET and instance.node is not None and instance.outer is not None:
            return self._outside_source(instance, instance.node, instance.outer, port)
        spec = instance.index.graph.by_id.get(source)
        if spec is None or mode_of(spec) == MUTED:
            return None
        if mode_of(spec) == BYPASSED:
            return self._bypassed_source(instance, spec, port)
        if is_virtual(spec):
            return self._virtual_source(instance, spec)
        if spec.type in self._subgraphs:
            inner = self._instance_of(instance, spec)
            edge = inner.into(OUTLET).get(str(port))
            return _Step(inner, edge.source, edge.port) if edge else None
        return instance.prefix + source, port

    def _outside_source(
        self, instance: _Instance, node: NodeSpec, outer: _Instance, port: int
    ) -> _Step | _Value | None:
        """Return the source of a subgraph's input, by name, because its node may have another order of inputs."""
        inputs = list_of(fields_of(ui_of(instance.index.graph)).get("inputs"))
        if not 0 <= port < len(inputs):
            return None
        name = named(inputs[port], port)
        edge = outer.into(node.id).get(name)
        if edge is not None:
            return _Step(outer, edge.source, edge.port)
        return self._promoted_value(instance, port, name)

    def _promoted_value(self, instance: _Instance, port: int, name: str) -> _Value | None:
        """Return the value of a subgraph's input: from the subgraph's node, or from an inner input that it fills."""
        if name in instance.values:
            return _Value(instance.values[name])
        for edge in instance.index.from_inlet.get(port, ()):
            spec = instance.index.graph.by_id.get(edge.target)
            values = self._values(instance, spec) if spec else {}
            if edge.input in values:
                return _Value(values[edge.input])
            if spec is not None and spec.type in self._subgraphs:
                inner = self._instance_of(instance, spec)
                found = self._promoted_value(inner, inner.index.ports.get(edge.input, -1), edge.input)
                if found is not None:
                    return found
        return None

    def _bypassed_source(self, instance: _Instance, spec: NodeSpec, port: int) -> _Step | None:
        """Return the source that a bypassed node passes on: that of the same slot, or of the first input that fits."""
        outputs, inputs = list_of(node_of(spec).get("outputs")), list_of(node_of(spec).get("inputs"))
        if not 0 <= port < len(outputs):
            return None
        output_type = type_of(fields_of(outputs[port]).get("type"))
        same_slot = fields_of(inputs[port] if port < len(inputs) else None)
        if same_slot and accepts(type_of(same_slot.get("type")), output_type):
            name = named(same_slot, port)
        else:
            name = instance.index.first_of_type[spec.id].get(output_type, "")
        edge = instance.into(spec.id).get(name)
        return _Step(instance, edge.source, edge.port) if edge else None

    def _virtual_source(self, instance: _Instance, spec: NodeSpec) -> _Step | _Value | None:
        """Return the source of a reroute, a setter or a getter, or the value of a primitive; None for other nodes."""
        values = values_of(spec)
        if spec.type == GETTER:
            spec = instance.index.setters.get(str(values.get("name")), spec)
        edge = next(iter(instance.into(spec.id).values()), None)
        if spec.type in ("Reroute", SETTER) and edge is not None:
            return _Step(instance, edge.source, edge.port)
        return _Value(values["value"]) if spec.type == "PrimitiveNode" and "value" in values else None


def _size(value: Any) -> int:
    return len(json.dumps(value))
