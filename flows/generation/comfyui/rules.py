"""Slips in drafted workflows of ComfyUI that can mean one thing only, mended without a model.

What a rule does is kept if less is found afterwards, and taken back otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

from operad.flows.formats.comfyui import Definitions, InputDefinition, NodeDefinition, check
from operad.flows.formats.comfyui.definitions import COMBO, accepts
from operad.flows.formats.comfyui.written import NAME
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.flows.repair.state import Repair
from operad.operators.comfyui.reading import mapping_of
from operad.runtime.values.errors import MOST_COMPARED

_CLASS, _INPUT, _OPTION = 0.75, 0.6, 0.8
"""Minimum similarity, from 0 to 1, of names that are taken for one another."""

_LONGEST = 200
"""The longest name that near ones are looked for, in characters."""

_FILE = re.compile(r"\.\w{1,12}$")
_UPLOAD = "upload"


def near_names(name: str, known: Sequence[str], cutoff: float) -> list[str]:
    """The names that one may mean, the nearest first: the one that differs in capitals and signs only, or near ones.

    Args:
        name: The name that there is not.
        known: Those that there are.
        cutoff: How alike they must be, from 0 to 1.
    """
    if len(name) > _LONGEST:
        return []
    plain = [each for each in known if _plain(each) == _plain(name)]
    return plain if len(plain) == 1 else get_close_matches(name, known, 5, cutoff)


@dataclass
class Mended:
    """A workflow that rules work on.

    Attributes:
        graph: The workflow as it is now.
        definitions: The classes.
        there: The classes of the workflow that was there, which are right whatever the server says.
        repairs: What was mended.
    """

    graph: NodeGraph
    definitions: Definitions
    there: frozenset[str] = frozenset()
    repairs: list[Repair] = field(default_factory=list[Repair])
    _left: int = MOST_COMPARED

    def near(self, name: str, known: Iterable[str], cutoff: float) -> list[str]:
        """As `near_names`, for as many as one workflow may cost."""
        known = list(known)
        if len(known) > self._left:
            return []
        self._left -= len(known)
        return near_names(name, known, cutoff)


def mend(
    graph: NodeGraph,
    definitions: Definitions,
    base: NodeGraph = NodeGraph(),  # noqa: B008 - frozen
) -> tuple[NodeGraph, list[Repair]]:
    """A workflow as rules leave it, and what they mended.

    Args:
        graph: The workflow.
        definitions: The classes.
        base: The workflow that was there: what is the same as in it stays so.
    """
    mended = Mended(graph, definitions, frozenset(spec.type for spec in base.nodes))
    kept = _kept(graph, base)
    found = len(check(graph, definitions))
    for rule in RULES:
        if not found:
            break
        before, repairs = mended.graph, list(mended.repairs)
        mended.graph = _with_kept(rule(mended), before, kept)
        now = len(check(mended.graph, definitions)) if mended.graph is not before else found
        if mended.graph is not before and now >= found and rule is not _classes:  # an unknown class hides what it lacks
            mended.graph, mended.repairs = before, repairs
        else:
            found = now
    return mended.graph, [each for each in mended.repairs if each.where not in kept]


def _kept(graph: NodeGraph, base: NodeGraph) -> frozenset[str]:
    """The nodes that are as they were."""

    def links(each: NodeGraph) -> Mapping[str, list[tuple[str, int, str]]]:
        found: dict[str, list[tuple[str, int, str]]] = {}
        for edge in each.edges:
            found.setdefault(edge.target, []).append((edge.source, edge.port, edge.input))
        return {node_id: sorted(listed) for node_id, listed in found.items()}

    now, before, was = links(graph), links(base), base.by_id
    return frozenset(
        spec.id
        for spec in graph.nodes
        if (old := was.get(spec.id)) is not None
        and (old.type, old.params, before.get(spec.id)) == (spec.type, spec.params, now.get(spec.id))
    )


def _with_kept(graph: NodeGraph, before: NodeGraph, kept: frozenset[str]) -> NodeGraph:
    """Return a rule's result without its changes to nodes that must stay as they were."""
    if graph is before or not kept:
        return graph
    was = before.by_id
    nodes = [was[spec.id] if spec.id in kept else spec for spec in graph.nodes]
    edges = [edge for edge in before.edges if edge.target in kept]
    return replace(graph, nodes=nodes, edges=[*edges, *(edge for edge in graph.edges if edge.target not in kept)])


# Rules


def _later(mended: Mended) -> NodeGraph:
    """A variable that is assigned in a later line: lines are put in order."""
    graph, edges = mended.graph, list(mended.graph.edges)
    for place, edge in enumerate(edges):
        if _undefined(edge) and edge.source in graph.by_id and edge.source not in _after(edges, edge.target):
            edges[place] = replace(edge, extra={})
            mended.repairs.append(Repair("order", edge.target, f"{edge.input}: {_undefined(edge)}", "assigned later"))
    return _with_edges(graph, edges)


def _classes(mended: Mended) -> NodeGraph:
    """A class that the server does not have: the near one that has the inputs that are given."""
    graph = mended.graph
    given = {spec.id: [*mapping_of(spec.params)] for spec in graph.nodes}
    for edge in graph.edges:
        given.get(edge.target, []).append(edge.input)
    nodes = list(graph.nodes)
    meant: dict[str, list[str]] = {}
    for place, spec in enumerate(nodes):
        if spec.type in mended.definitions.classes or spec.type in mended.there:
            continue
        if spec.type not in meant:
            meant[spec.type] = mended.near(spec.type, mended.definitions.classes, _CLASS)

        def fits(name: str, names: Sequence[str] = given[spec.id]) -> int:
            return sum(mended.definitions.classes[name].input(each) is not None for each in names)

        if meant[spec.type]:
            name = max(meant[spec.type], key=fits)  # of several, the nearest of those that fit as well
            nodes[place] = replace(spec, type=name)
            mended.repairs.append(Repair("class", spec.id, f"{spec.type} → {name}", "the nearest that fits"))
    return replace(graph, nodes=nodes) if nodes != list(graph.nodes) else graph


def _ports(mended: Mended) -> NodeGraph:
    """A link from the wrong output of a node that has one right output."""
    graph, edges = mended.graph, list(mended.graph.edges)
    for place, edge, fills, gives in _links(mended):
        right = [port for port, kind in enumerate(gives) if accepts(fills.type, kind)]
        if edge.port not in right and len(right) == 1:
            edges[place] = replace(edge, port=right[0])
            what = f"{edge.input}: output {edge.port} → {right[0]}"
            mended.repairs.append(Repair("output", edge.target, what, f"the only one of type {fills.type}"))
    return _with_edges(graph, edges)


def _inputs(mended: Mended) -> NodeGraph:
    """An input that a class does not have: the near one that is free and takes what is given."""
    graph, edges, nodes = mended.graph, list(mended.graph.edges), list(mended.graph.nodes)
    linked: dict[str, list[tuple[int, Edge]]] = {}
    for place, edge in enumerate(edges):
        linked.setdefault(edge.target, []).append((place, edge))
    for place, spec in enumerate(nodes):
        definition = mended.definitions.get(spec.type)
        if definition is None:
            continue
        links = linked.get(spec.id, [])
        params = dict(mapping_of(spec.params))
        given = {*params, *(edge.input for _, edge in links)}
        for number, edge in links:
            if definition.input(edge.input) is None:
                free = [each for each in definition.inputs.values() if each.name not in given]
                free = [each for each in free if _takes(mended, each, edge)]
                if name := _one(mended, edge.input, free):
                    edges[number] = replace(edge, input=name)
                    given.add(name)
                    mended.repairs.append(
                        Repair("input", spec.id, f"{edge.input} → {name}", "the nearest that is free")
                    )
        wrong = [name for name in params if definition.input(name) is None and name != _UPLOAD]
        for old in wrong:
            free = [each for each in definition.widgets if each.name not in given]
            if name := _one(mended, old, free):
                params = {name if key == old else key: value for key, value in params.items()}
                given.add(name)
                mended.repairs.append(Repair("input", spec.id, f"{old} → {name}", "the nearest that is free"))
        if params != spec.params:
            nodes[place] = replace(spec, params=params)
    return _with_edges(replace(graph, nodes=nodes) if nodes != list(graph.nodes) else graph, edges)


def _options(mended: Mended) -> NodeGraph:
    """A value that is none of the options: the near one."""

    def right(spec: NodeSpec, each: InputDefinition, value: Any) -> Any:
        options = [option for option in each.options if isinstance(option, str)]
        if each.type != COMBO or each.upload or not isinstance(value, str) or value in options or not options:
            return value
        same = [each for each in options if digits(each) == digits(value)]  # v4.5 is not a slip of v4.0
        near = mended.near(value, same, 1.0 if _FILE.search(value) else _OPTION)
        if near:
            what = f"{each.name}: {value[:80]!r} → {near[0][:80]!r}"
            mended.repairs.append(Repair("option", spec.id, what, "the nearest option"))
        return near[0] if near else value

    def values(spec: NodeSpec, definition: NodeDefinition) -> Mapping[str, Any]:
        inputs = definition.inputs
        return {
            name: right(spec, inputs[name], value) if name in inputs else value
            for name, value in mapping_of(spec.params).items()
        }

    return _with_values(mended, values)


def _defaults(mended: Mended) -> NodeGraph:
    """A value that is required and was not given: what the page would set it to at first."""
    linked = {(edge.target, edge.input) for edge in mended.graph.edges}

    def values(spec: NodeSpec, definition: NodeDefinition) -> Mapping[str, Any]:
        given = mapping_of(spec.params)
        params = dict(given)
        for each in definition.widgets:
            if each.required and each.name not in params and (spec.id, each.name) not in linked:
                if each.initial is None or each.is_dynamic or (each.type == "STRING" and each.default is None):
                    continue  # an empty text would hide that what it is to say is missing
                params[each.name] = each.initial
                what = f"{each.name} = {str(each.initial)[:80]!r}"
                mended.repairs.append(Repair("default", spec.id, what, "required, and not given"))
        if len(params) == len(given):
            return given
        own = {each.name: params[each.name] for each in definition.widgets if each.name in params}
        return {**own, **params}  # in the order of the page

    return _with_values(mended, values)


def _only(mended: Mended) -> NodeGraph:
    """Fill a required link that is missing or unassigned with the only output that fits."""
    graph = mended.graph
    edges = list(graph.edges)
    for spec in graph.nodes:
        definition = mended.definitions.get(spec.type)
        for each in definition.inputs.values() if definition else ():
            there = [place for place, edge in enumerate(edges) if (edge.target, edge.input) == (spec.id, each.name)]
            undefined = [place for place in there if edges[place].source not in graph.by_id]
            missing = each.required and not each.is_widget and not there and each.name not in mapping_of(spec.params)
            if each.is_dynamic or "*" in each.type or not (missing or undefined):
                continue
            found = _fitting(mended, edges, spec, each)
            if len(found) == 1:
                source, port = found[0]
                edges = [edge for place, edge in enumerate(edges) if place not in undefined]
                edges.append(Edge(source, spec.id, port, each.name))
                what = f"{each.name}: output {port} of node {source}"
                mended.repairs.append(Repair("link", spec.id, what, f"the only one of type {each.type}"))
    return _with_edges(graph, edges)


RULES: Sequence[Callable[[Mended], NodeGraph]] = (_later, _classes, _inputs, _ports, _options, _defaults, _only)
"""The rules in their order: a class says which inputs there are, and these which values and links are missing."""


def _fitting(mended: Mended, edges: Sequence[Edge], spec: NodeSpec, fills: InputDefinition) -> list[tuple[str, int]]:
    """The outputs that an input can take, of nodes that do not come after its own."""
    after = _after(edges, spec.id)
    found: list[tuple[str, int]] = []
    for other in mended.graph.nodes:
        definition = mended.definitions.get(other.type)
        if other.id not in after and definition is not None:
            kinds = enumerate(definition.outputs)
            found += [(other.id, port) for port, kind in kinds if "*" not in kind and accepts(fills.type, kind)]
    return found


def _links(mended: Mended) -> Iterator[tuple[int, Edge, InputDefinition, Sequence[str]]]:
    """The links between known classes, with what they fill and what their sources give."""
    for place, edge in enumerate(mended.graph.edges):
        source, target = mended.graph.by_id.get(edge.source), mended.graph.by_id.get(edge.target)
        gives = mended.definitions.get(source.type) if source else None
        takes = mended.definitions.get(target.type) if target else None
        fills = takes.inputs.get(edge.input) if takes else None
        if gives and fills and not fills.is_dynamic:
            yield place, edge, fills, gives.outputs


def _takes(mended: Mended, fills: InputDefinition, edge: Edge) -> bool:
    source = mended.graph.by_id.get(edge.source)
    definition = mended.definitions.get(source.type) if source else None
    if definition is None:
        return not fills.is_widget
    return any(accepts(fills.type, kind) for kind in definition.outputs)


def _one(mended: Mended, name: str, free: Sequence[InputDefinition]) -> str:
    """The input that a name means: the nearest, or the only one that is required and free."""
    near = mended.near(name, [each.name for each in free], _INPUT)
    required = [each.name for each in free if each.required]
    return near[0] if near else required[0] if len(required) == 1 else ""


def _with_values(mended: Mended, values: Callable[[NodeSpec, NodeDefinition], Mapping[str, Any]]) -> NodeGraph:
    nodes = [
        replace(spec, params=made)
        if (definition := mended.definitions.get(spec.type)) and (made := values(spec, definition)) != spec.params
        else spec
        for spec in mended.graph.nodes
    ]
    return replace(mended.graph, nodes=nodes) if nodes != list(mended.graph.nodes) else mended.graph


def _with_edges(graph: NodeGraph, edges: Sequence[Edge]) -> NodeGraph:
    return replace(graph, edges=edges) if list(edges) != list(graph.edges) else graph


def _undefined(edge: Edge) -> str:
    return str(mapping_of(edge.extra.get(NAME)).get("undefined") or "")


def _after(edges: Iterable[Edge], node_id: str) -> set[str]:
    """A node, and all that a way leads to from it."""
    following: dict[str, list[str]] = {}
    for edge in edges:
        following.setdefault(edge.source, []).append(edge.target)
    open_, seen = [node_id], {node_id}
    while open_:
        new = [each for each in following.get(open_.pop(), ()) if each not in seen]
        seen.update(new)
        open_ += new
    return seen


def digits(name: str) -> list[str]:
    """The digits of a name: where these differ, it is another one, however near."""
    return [sign for sign in name if sign.isdigit()]


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name)).casefold()
