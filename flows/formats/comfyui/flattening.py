"""Graph of the page → graph of a server: subgraphs put in, values named, and nodes that do not run taken out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Any

from operad.flows.formats.comfyui.definitions import Definitions, accepts, type_of
from operad.flows.formats.comfyui.ui import subgraphs
from operad.flows.formats.comfyui.widgets import values_of, with_defaults
from operad.flows.formats.comfyui.written import (
    BYPASSED,
    INLET,
    MUTED,
    NAME,
    OUTLET,
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
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators.comfyui.reading import list_of, mapping_of
from operad.runtime.values.errors import InvalidError, Issue

MAX_BYTES = 64 * 2**20
"""The most that a workflow may hold, in bytes of JSON, once its subgraphs are put in."""

_NODE = 1000
"""As how many bytes a node counts besides what it says."""

MAX_LEVELS = 50
"""Maximum depth of subgraphs in subgraphs."""


def executable(graph: NodeGraph, definitions: Definitions) -> NodeGraph:
    """The graph that a server runs; one that has nothing of the page in it is returned as it is.

    Nodes of subgraphs have ids ``outer:inner``. Parameters are the values by name, in the order of the class, with
    defaults for values that are not set. Notes and muted nodes are left out, with the links that lead to them; reroutes and
    bypassed nodes give what they get; primitive nodes become values of what they lead to.

    Args:
        graph: The graph as the page saved it.
        definitions: The classes. Values of one that is not there keep their names where the file tells them, and are
            left out where it does not.

    Raises:
        InvalidError: A subgraph contains itself, or there is too much in the workflow once subgraphs are put in.
    """
    if all(ui_of(node) is None and not is_virtual(node) for node in graph.nodes):
        return graph
    return _Flattening(graph, definitions).result()


@dataclass(frozen=True, eq=False)
class _Part:
    """The graph, or a subgraph, whatever it is put in for."""

    graph: NodeGraph

    @cached_property
    def into(self) -> Mapping[str, Mapping[str, Edge]]:
        """The edge that fills each input, by node and name; of the outlet, by slot. The one that the input names wins."""
        found: dict[str, dict[str, Edge]] = {}
        for edge in self.graph.edges:
            if edge.target == OUTLET:
                found.setdefault(OUTLET, {})[str(link_parts(ui_of(edge))[4])] = edge
            elif edge.input:
                filled = found.setdefault(edge.target, {})
                if edge.input not in filled or self._is_named(edge):
                    filled[edge.input] = edge
        return found

    @cached_property
    def from_inlet(self) -> Mapping[int, Sequence[Edge]]:
        """The edges from each input of a subgraph, in the order in which the input lists its links."""
        found: dict[int, list[Edge]] = {}
        for edge in self.graph.edges:
            if edge.source == INLET:
                found.setdefault(edge.port, []).append(edge)
        for port, written in enumerate(list_of(mapping_of(ui_of(self.graph)).get("inputs"))):
            order = {id_text(link): place for place, link in enumerate(list_of(mapping_of(written).get("linkIds")))}
            found.get(port, []).sort(key=lambda edge: order.get(id_text(link_parts(ui_of(edge))[0]), len(order)))
        return found

    @cached_property
    def fed(self) -> Mapping[tuple[str, str], str]:
        """The input of a subgraph that fills an input within, by the node's id and the input's name."""
        return {
            (edge.target, edge.input): name
            for name, port in self.ports.items()
            for edge in self.from_inlet.get(port, ())
        }

    @cached_property
    def ports(self) -> Mapping[str, int]:
        """The inputs of a subgraph, by name."""
        inputs = list_of(mapping_of(ui_of(self.graph)).get("inputs"))
        return {named(each, port): port for port, each in reversed(list(enumerate(inputs)))}

    @cached_property
    def sizes(self) -> Mapping[str, tuple[int, int]]:
        """Of each node, how many ids it bears, and how many bytes of JSON it has."""
        return {spec.id: (1 + len(self.into.get(spec.id, ())), _size(node_of(spec))) for spec in self.graph.nodes}

    @cached_property
    def first_of_type(self) -> Mapping[str, Mapping[str, str]]:
        """Of each bypassed node, the first input of each type."""
        return {
            spec.id: {
                type_of(each.get("type")): named(each, slot)
                for slot, each in reversed(list(enumerate(slots(spec, "inputs"))))
            }
            for spec in self.graph.nodes
            if mode_of(spec) == BYPASSED
        }

    def _is_named(self, edge: Edge) -> bool:
        link, _, _, _, slot, _ = link_parts(ui_of(edge))
        target = self.graph.by_id.get(edge.target)
        inputs = list_of(node_of(target).get("inputs")) if target and ui_of(edge) is not None else ()
        return 0 <= slot < len(inputs) and id_text(mapping_of(inputs[slot]).get("link")) == id_text(link)


@dataclass(frozen=True, eq=False)
class _Level:
    """A part in its place.

    Attributes:
        part: What is in it.
        prefix: What stands before the ids in it.
        outer: The level that it stands in.
        instance: The node there that it stands for.
        values: What that node sets: of its inputs, by name.
        overrides: And of nodes within, by id and name.
    """

    part: _Part
    prefix: str = ""
    outer: _Level | None = None
    instance: NodeSpec | None = None
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    overrides: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])

    def into(self, node_id: str) -> Mapping[str, Edge]:
        """The edges that fill the inputs of a node, by name."""
        return self.part.into.get(node_id, {})


@dataclass(frozen=True)
class _Value:
    """Value of an input that no node fills."""

    value: Any


@dataclass(frozen=True)
class _Step:
    """An output one step back along a link."""

    level: _Level
    source: str
    port: int


_Source = tuple[str, int]
_Place = tuple[_Level, str, int]


class _Flattening:
    def __init__(self, graph: NodeGraph, definitions: Definitions) -> None:
        self._graph = graph
        self._definitions = definitions
        self._parts = {name: _Part(inner) for name, inner in subgraphs(graph).items()}
        self._nodes: list[NodeSpec] = []
        self._edges: list[Edge] = []
        self._levels: dict[tuple[_Level, str], _Level] = {}
        self._found: dict[_Place, _Source | _Value | None] = {}
        self._set: dict[tuple[_Level, str], dict[str, Any]] = {}
        self._widgets: dict[str, Sequence[str]] = {}
        self._room = MAX_BYTES

    def result(self) -> NodeGraph:
        self._check_parts()
        for level, spec in self._running(_Level(_Part(self._graph))):
            self._add(level, spec)
        return NodeGraph(self._nodes, self._edges, self._graph.name, instructions=self._graph.instructions)

    def _check_parts(self) -> None:
        """See that subgraphs stand in each other only so deep, and in no circle."""
        inside = {
            name: [spec.type for spec in part.graph.nodes if spec.type in self._parts]
            for name, part in self._parts.items()
        }
        depth: dict[str, int] = {}
        try:
            for name in TopologicalSorter(inside).static_order():
                depth[name] = 1 + max((depth[each] for each in inside[name]), default=0)
        except CycleError as error:
            names = " → ".join(self._parts[each].graph.name for each in error.args[1][::-1])
            raise self._refuse(
                "cycle", f"a subgraph contains itself: {names}; take it out of itself in ComfyUI", error.args[1][0]
            ) from error
        if max(depth.values(), default=0) > MAX_LEVELS:
            raise self._refuse("depth", f"subgraphs stand in subgraphs more than {MAX_LEVELS} deep")

    def _running(self, top: _Level) -> Iterator[tuple[_Level, NodeSpec]]:
        """The nodes that run, subgraphs put in, in the order of the file."""
        waiting = [(top, spec) for spec in reversed(top.part.graph.nodes)]
        while waiting:
            level, spec = waiting.pop()
            ids, size = level.part.sizes[spec.id]
            self._take(_NODE + size + ids * len(level.prefix))
            if mode_of(spec) in (MUTED, BYPASSED) or is_virtual(spec):
                continue
            if spec.type in self._parts:
                inner = self._inner(level, spec)
                waiting += [(inner, each) for each in reversed(inner.part.graph.nodes)]
            else:
                yield level, spec

    def _take(self, size: int) -> None:
        self._room -= size
        if self._room < 0:
            raise self._refuse("size", f"holds more than {MAX_BYTES:,} bytes once its subgraphs are put in")

    def _inner(self, level: _Level, spec: NodeSpec) -> _Level:
        """Return the node that stands for one of a subgraph."""
        if (level, spec.id) in self._levels:
            return self._levels[level, spec.id]
        part = self._parts[spec.type]
        values = dict(self._values(level, spec))
        overrides: dict[str, dict[str, Any]] = {}
        listed = list_of(node_of(spec).get("widgets_values"))
        proxies = list_of(mapping_of(node_of(spec).get("properties")).get("proxyWidgets"))
        for proxy, value in zip(proxies, listed, strict=False):
            match list_of(proxy):
                case ["-1", str() as name, *_]:
                    values.setdefault(name, value)
                case [inner_id, str() as name, *_]:
                    overrides.setdefault(id_text(inner_id), {})[name] = value
                    if shared := part.fed.get((id_text(inner_id), name)):  # it may feed others besides
                        values.setdefault(shared, value)
                case _:
                    pass
        widgets = self._promoted_widgets(spec.type)
        if not proxies and len(widgets) == len(listed):
            values = dict(zip(widgets, listed, strict=True)) | values
        values |= level.overrides.get(spec.id, {})
        inner = _Level(part, f"{level.prefix}{spec.id}:", level, spec, values, overrides)
        self._levels[level, spec.id] = inner
        return inner

    def _promoted_widgets(self, name: str) -> Sequence[str]:
        """The inputs of a subgraph that the node which stands for it shows as widgets, in the order of their values."""
        if name not in self._widgets:
            part = self._parts[name]
            ports = part.ports.items()
            fills = {each: part.from_inlet.get(port, ()) for each, port in sorted(ports, key=lambda port: port[1])}
            self._widgets[name] = [
                each for each, edges in fills.items() if any(self._is_widget(part, edge) for edge in edges)
            ]
        return self._widgets[name]

    def _is_widget(self, part: _Part, edge: Edge) -> bool:
        spec = part.graph.by_id.get(edge.target)
        if spec is None:
            return False
        if spec.type in self._parts:
            return edge.input in self._promoted_widgets(spec.type)
        return any(
            named(each, slot) == edge.input and each.get("widget") for slot, each in enumerate(slots(spec, "inputs"))
        )

    def _refuse(self, code: str, message: str, where: str = "") -> InvalidError:
        return InvalidError(self._graph.name, [Issue(code, message, where)])

    # Nodes

    def _values(self, level: _Level, spec: NodeSpec) -> dict[str, Any]:
        """The values of a node; one dictionary a node, made once."""
        if (level, spec.id) not in self._set:
            self._set[level, spec.id] = self._overridden(level, spec)
        return self._set[level, spec.id]

    def _overridden(self, level: _Level, spec: NodeSpec) -> dict[str, Any]:
        definition = self._definitions.get(spec.type)
        values = values_of(spec, definition)
        known = values.keys() | (definition.inputs.keys() if definition else ())
        return values | {name: value for name, value in level.overrides.get(spec.id, {}).items() if name in known}

    def _add(self, level: _Level, spec: NodeSpec) -> None:
        definition = self._definitions.get(spec.type)
        node_id = level.prefix + spec.id
        values = dict(self._values(level, spec))
        if ui_of(spec) is not None:
            values = with_defaults(values, definition)
        for name, edge in level.into(spec.id).items():
            match self._origin(level, edge.source, edge.port):
                case _Value(value):
                    self._take(_size(value))
                    values[name] = value
                case (source, port):
                    values.pop(name, None)
                    self._edges.append(Edge(source, node_id, port, name))
                case None:
                    pass
        extra = {NAME: {"api": {"_meta": {"title": title_of(spec)}}}}
        self._nodes.append(NodeSpec(node_id, spec.type, values, extra=extra if ui_of(spec) is not None else spec.extra))

    # Links

    def _origin(self, level: _Level, source: str, port: int) -> _Source | _Value | None:
        """The node that runs, or the value, that a link leads back to; None where it leads to nothing."""
        way: list[_Place] = []
        seen: set[_Place] = set()
        at: _Place | None = (level, source, port)
        found: _Source | _Value | None = None
        while at is not None and at not in seen:
            if at in self._found:
                found = self._found[at]
                break
            seen.add(at)
            way.append(at)
            step = self._step(*at)
            if isinstance(step, _Step):
                at = step.level, step.source, step.port
            else:
                found, at = step, None
        for each in way:
            self._found[each] = found
        return found

    def _step(self, level: _Level, source: str, port: int) -> _Step | _Source | _Value | None:
        if source == INLET and level.instance is not None and level.outer is not None:
            return self._outside(level, level.instance, level.outer, port)
        spec = level.part.graph.by_id.get(source)
        if spec is None or mode_of(spec) == MUTED:
            return None
        if mode_of(spec) == BYPASSED:
            return self._past(level, spec, port)
        if is_virtual(spec):
            return self._through(level, spec)
        if spec.type in self._parts:
            inner = self._inner(level, spec)
            edge = inner.into(OUTLET).get(str(port))
            return _Step(inner, edge.source, edge.port) if edge else None
        return level.prefix + source, port

    def _outside(self, level: _Level, instance: NodeSpec, outer: _Level, port: int) -> _Step | _Value | None:
        """Return the source of a subgraph's input: by name, as the node that it stands for may order them differently."""
        inputs = list_of(mapping_of(ui_of(level.part.graph)).get("inputs"))
        if not 0 <= port < len(inputs):
            return None
        name = named(inputs[port], port)
        edge = outer.into(instance.id).get(name)
        if edge is not None:
            return _Step(outer, edge.source, edge.port)
        return self._promoted(level, port, name)

    def _promoted(self, level: _Level, port: int, name: str) -> _Value | None:
        """Return the value of a subgraph's input: of the node that it stands for, or else of the first inside that it feeds."""
        if name in level.values:
            return _Value(level.values[name])
        for edge in level.part.from_inlet.get(port, ()):
            spec = level.part.graph.by_id.get(edge.target)
            values = self._values(level, spec) if spec else {}
            if edge.input in values:
                return _Value(values[edge.input])
            if spec is not None and spec.type in self._parts:
                inner = self._inner(level, spec)
                found = self._promoted(inner, inner.part.ports.get(edge.input, -1), edge.input)
                if found is not None:
                    return found
        return None

    def _past(self, level: _Level, spec: NodeSpec, port: int) -> _Step | None:
        """Return the input that a bypassed node passes on: at the same place if its type fits, or else the first that fits."""
        outputs, inputs = list_of(node_of(spec).get("outputs")), list_of(node_of(spec).get("inputs"))
        if not 0 <= port < len(outputs):
            return None
        kind = type_of(mapping_of(outputs[port]).get("type"))
        same = mapping_of(inputs[port] if port < len(inputs) else None)
        if same and accepts(type_of(same.get("type")), kind):
            name = named(same, port)
        else:
            name = level.part.first_of_type[spec.id].get(kind, "")
        edge = level.into(spec.id).get(name)
        return _Step(level, edge.source, edge.port) if edge else None

    def _through(self, level: _Level, spec: NodeSpec) -> _Step | _Value | None:
        edge = next(iter(level.into(spec.id).values()), None)
        if spec.type == "Reroute" and edge is not None:
            return _Step(level, edge.source, edge.port)
        values = list_of(node_of(spec).get("widgets_values"))
        return _Value(values[0]) if spec.type == "PrimitiveNode" and values else None


def _size(value: Any) -> int:
    return len(json.dumps(value))
