"""Rules that mend slips in drafted ComfyUI workflows where only one correction is possible, without a model.

The changes of a rule are kept if the workflow then has fewer issues, and dropped otherwise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

from operad.flows.formats.shapes import fields_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.flows.repair.state import Repair
from operad.integrations.comfyui.formats import Definitions, InputDefinition, NodeDefinition, check
from operad.integrations.comfyui.formats.code import undefined_in
from operad.integrations.comfyui.formats.definitions import COMBO, accepts
from operad.runtime.graph.schedule import reachable
from operad.runtime.values.near_names import Hints

_CLASS_CUTOFF, _INPUT_CUTOFF, _OPTION_CUTOFF = 0.75, 0.6, 0.8
"""Minimum similarity, from 0 to 1, of a name to the class, input or option that replaces it."""

_FILE = re.compile(r"\.\w{1,12}$")
_UPLOAD = "upload"


def near_names(name: str, known: Collection[str], cutoff: float) -> list[str]:
    """Return the known names that a name may mean: the only one that differs in case and signs, or similar ones.

    Args:
        name: Unknown name.
        known: Known names.
        cutoff: Minimum similarity, from 0 to 1.
    """
    plain = [known_name for known_name in known if _normalized(known_name) == _normalized(name)]
    return plain if len(plain) == 1 else get_close_matches(name, known, 5, cutoff)


@dataclass
class Mended:
    """Workflow that rules are mending.

    Attributes:
        graph: The current workflow.
        definitions: The classes of the server.
        there: Classes of the existing workflow, which are not replaced even if the server lacks them.
        repairs: Repairs so far.
        hints: Limit of the search for near names.
    """

    graph: NodeGraph
    definitions: Definitions
    there: frozenset[str] = frozenset()
    repairs: list[Repair] = field(default_factory=list[Repair])
    hints: Hints = field(default_factory=Hints)

    def near(self, name: str, known: Collection[str], cutoff: float) -> list[str]:
        """Return `near_names`, or nothing once the comparisons allowed for a workflow are used up."""
        return near_names(name, known, cutoff) if self.hints.allow(name, known) else []


def mend(
    graph: NodeGraph,
    definitions: Definitions,
    base: NodeGraph = NodeGraph(),  # noqa: B008 - frozen
) -> tuple[NodeGraph, list[Repair]]:
    """Return the workflow after all rules, and their repairs.

    Args:
        graph: The workflow.
        definitions: The classes of the server.
        base: The existing workflow; nodes that equal its nodes are not changed.
    """
    mended = Mended(graph, definitions, frozenset(spec.type for spec in base.nodes))
    unchanged = _unchanged_nodes(graph, base)
    issues_before = len(check(graph, definitions))
    for rule in RULES:
        if not issues_before:
            break
        before, repairs = mended.graph, list(mended.repairs)
        changed = _with_unchanged(rule(mended), before, unchanged)
        if changed == before:
            continue
        issues_after = len(check(changed, definitions))
        # a class that becomes known may reveal further issues
        if issues_after < issues_before or rule is _unknown_classes:
            mended.graph, issues_before = changed, issues_after
        else:
            mended.repairs = repairs
    return mended.graph, [repair for repair in mended.repairs if repair.where not in unchanged]


def _unchanged_nodes(graph: NodeGraph, base: NodeGraph) -> frozenset[str]:
    """Return the ids of nodes with the same class, parameters and incoming links as in the base."""
    links_now, links_before = incoming(graph), incoming(base)
    return frozenset(
        spec.id
        for spec in graph.nodes
        if (old := base.by_id.get(spec.id)) is not None
        and signature(spec, links_now.get(spec.id, ())) == signature(old, links_before.get(spec.id, ()))
    )


def incoming(graph: NodeGraph) -> Mapping[str, list[Edge]]:
    """Return the links of a workflow by the ids of their targets."""
    found: dict[str, list[Edge]] = {}
    for edge in graph.edges:
        found.setdefault(edge.target, []).append(edge)
    return found


def signature(spec: NodeSpec, links: Sequence[Edge], ids: Mapping[str, str] | None = None) -> Any:
    """Return a key of a node's class, values and incoming links; `ids` replaces the ids of its sources."""
    sources = ((edge.input, edge.source if ids is None else ids.get(edge.source, ""), edge.port) for edge in links)
    return spec.type, json.dumps(spec.params, sort_keys=True, default=repr), tuple(sorted(sources))


def _with_unchanged(graph: NodeGraph, before: NodeGraph, unchanged: frozenset[str]) -> NodeGraph:
    old_nodes = before.by_id
    nodes = [old_nodes[spec.id] if spec.id in unchanged else spec for spec in graph.nodes]
    edges = [edge for edge in before.edges if edge.target in unchanged]
    return replace(graph, nodes=nodes, edges=[*edges, *(edge for edge in graph.edges if edge.target not in unchanged)])


# Rules


def _assigned_later(mended: Mended) -> NodeGraph:
    """Accept variables that a later line assigns, as the lines are put in order afterwards."""
    graph, edges = mended.graph, list(mended.graph.edges)
    for place, edge in enumerate(edges):
        if undefined_in(edge) and edge.source in graph.by_id and edge.source not in _successors(edges, edge.target):
            edges[place] = replace(edge, extra={})
            mended.repairs.append(Repair("order", edge.target, f"{edge.input}: {undefined_in(edge)}", "assigned later"))
    return replace(graph, edges=edges)


def _unknown_classes(mended: Mended) -> NodeGraph:
    """Replace classes that the server does not have by the similar class that has most of the given inputs."""
    graph = mended.graph
    given = {spec.id: [*fields_of(spec.params)] for spec in graph.nodes}
    for edge in graph.edges:
        given.get(edge.target, []).append(edge.input)
    nodes = list(graph.nodes)
    similar: dict[str, list[str]] = {}
    for index, spec in enumerate(nodes):
        if spec.type in mended.definitions.classes or spec.type in mended.there:
            continue
        if spec.type not in similar:
            similar[spec.type] = mended.near(spec.type, mended.definitions.classes, _CLASS_CUTOFF)

        def fits(name: str, names: Sequence[str] = given[spec.id]) -> int:
            return sum(mended.definitions.classes[name].input(input_name) is not None for input_name in names)

        if similar[spec.type]:
            name = max(similar[spec.type], key=fits)  # the first of equally fitting ones, which is the most similar
            nodes[index] = replace(spec, type=name)
            mended.repairs.append(Repair("class", spec.id, f"{spec.type} → {name}", "the nearest that fits"))
    return replace(graph, nodes=nodes)


def _wrong_outputs(mended: Mended) -> NodeGraph:
    """Redirect links from a wrong output of a node to its only output of the right type."""
    graph, edges = mended.graph, list(mended.graph.edges)
    for index, edge, input_definition, outputs in _links(mended):
        matching = [port for port, kind in enumerate(outputs) if accepts(input_definition.type, kind)]
        if edge.port not in matching and len(matching) == 1:
            edges[index] = replace(edge, port=matching[0])
            what = f"{edge.input}: output {edge.port} → {matching[0]}"
            mended.repairs.append(Repair("output", edge.target, what, f"the only one of type {input_definition.type}"))
    return replace(graph, edges=edges)


def _unknown_inputs(mended: Mended) -> NodeGraph:
    """Rename inputs that a class does not have to the similar free input that takes the link or value."""
    graph, edges, nodes = mended.graph, list(mended.graph.edges), list(mended.graph.nodes)
    linked: dict[str, list[tuple[int, Edge]]] = {}
    for index, edge in enumerate(edges):
        linked.setdefault(edge.target, []).append((index, edge))
    for index, spec in enumerate(nodes):
        definition = mended.definitions.get(spec.type)
        if definition is None:
            continue
        links = linked.get(spec.id, [])
        params = dict(fields_of(spec.params))
        given = {*params, *(edge.input for _, edge in links)}
        for link_index, edge in links:
            if definition.input(edge.input) is None:
                free = [each for each in definition.inputs.values() if each.name not in given]
                free = [each for each in free if _takes(mended, each, edge)]
                if name := _meant_input(mended, edge.input, free):
                    edges[link_index] = replace(edge, input=name)
                    given.add(name)
                    mended.repairs.append(
                        Repair("input", spec.id, f"{edge.input} → {name}", "the nearest that is free")
                    )
        unknown = [name for name in params if definition.input(name) is None and name != _UPLOAD]
        for old in unknown:
            free = [candidate for candidate in definition.widgets if candidate.name not in given]
            if name := _meant_input(mended, old, free):
                params = {name if key == old else key: value for key, value in params.items()}
                given.add(name)
                mended.repairs.append(Repair("input", spec.id, f"{old} → {name}", "the nearest that is free"))
        if params != spec.params:
            nodes[index] = replace(spec, params=params)
    return replace(graph, nodes=nodes, edges=edges)


def _unknown_options(mended: Mended) -> NodeGraph:
    """Replace values that are not among the options of an input by the similar option."""

    def corrected(spec: NodeSpec, each: InputDefinition, value: Any) -> Any:
        options = [option for option in each.options if isinstance(option, str)]
        if each.type != COMBO or each.upload or not isinstance(value, str) or value in options or not options:
            return value
        same_digits = [each for each in options if digits(each) == digits(value)]  # v4.5 is not a misspelling of v4.0
        near = mended.near(value, same_digits, 1.0 if _FILE.search(value) else _OPTION_CUTOFF)
        if near:
            what = f"{each.name}: {value[:80]!r} → {near[0][:80]!r}"
            mended.repairs.append(Repair("option", spec.id, what, "the nearest option"))
        return near[0] if near else value

    def values(spec: NodeSpec, definition: NodeDefinition) -> Mapping[str, Any]:
        inputs = definition.inputs
        return {
            name: corrected(spec, inputs[name], value) if name in inputs else value
            for name, value in fields_of(spec.params).items()
        }

    return _with_values(mended, values)


def _missing_values(mended: Mended) -> NodeGraph:
    """Set missing required values to the initial value of ComfyUI's page."""
    linked = {(edge.target, edge.input) for edge in mended.graph.edges}

    def values(spec: NodeSpec, definition: NodeDefinition) -> Mapping[str, Any]:
        given = fields_of(spec.params)
        params = dict(given)
        for widget in definition.widgets:
            if widget.required and widget.name not in params and (spec.id, widget.name) not in linked:
                if widget.initial is None or widget.is_dynamic or (widget.type == "STRING" and widget.default is None):
                    continue  # an empty text would hide that the text is missing
                params[widget.name] = widget.initial
                what = f"{widget.name} = {str(widget.initial)[:80]!r}"
                mended.repairs.append(Repair("default", spec.id, what, "required, and not given"))
        if len(params) == len(given):
            return given
        own = {widget.name: params[widget.name] for widget in definition.widgets if widget.name in params}
        return {**own, **params}  # in the order of ComfyUI's page

    return _with_values(mended, values)


def _missing_links(mended: Mended) -> NodeGraph:
    """Fill a required link that is missing or unassigned with the only output that fits."""
    graph = mended.graph
    edges = list(graph.edges)
    for spec in graph.nodes:
        definition = mended.definitions.get(spec.type)
        for each in definition.inputs.values() if definition else ():
            present = [index for index, edge in enumerate(edges) if (edge.target, edge.input) == (spec.id, each.name)]
            undefined = [index for index in present if edges[index].source not in graph.by_id]
            is_given = present or each.name in fields_of(spec.params)
            missing = each.required and not each.is_widget and not is_given
            if each.is_dynamic or "*" in each.type or not (missing or undefined):
                continue
            candidates = _fitting_outputs(mended, edges, spec, each)
            if len(candidates) == 1:
                source, port = candidates[0]
                edges = [edge for index, edge in enumerate(edges) if index not in undefined]
                edges.append(Edge(source, spec.id, port, each.name))
                what = f"{each.name}: output {port} of node {source}"
                mended.repairs.append(Repair("link", spec.id, what, f"the only one of type {each.type}"))
    return replace(graph, edges=edges)


RULES: Sequence[Callable[[Mended], NodeGraph]] = (
    _assigned_later,
    _unknown_classes,
    _unknown_inputs,
    _wrong_outputs,
    _unknown_options,
    _missing_values,
    _missing_links,
)
"""Rules in their order: classes determine the inputs, which determine missing values and links."""


def _fitting_outputs(
    mended: Mended, edges: Sequence[Edge], spec: NodeSpec, input_definition: InputDefinition
) -> list[tuple[str, int]]:
    """Return the outputs (node id, port) that an input can take, of nodes that do not come after its node."""
    successors = _successors(edges, spec.id)
    found: list[tuple[str, int]] = []
    for other in mended.graph.nodes:
        definition = mended.definitions.get(other.type)
        if other.id not in successors and definition is not None:
            kinds = enumerate(definition.outputs)
            found += [
                (other.id, port) for port, kind in kinds if "*" not in kind and accepts(input_definition.type, kind)
            ]
    return found


def _links(mended: Mended) -> Iterator[tuple[int, Edge, InputDefinition, Sequence[str]]]:
    """Yield the links between known classes with their index, the input at their target, and the source's outputs."""
    for index, edge in enumerate(mended.graph.edges):
        source, target = mended.graph.by_id.get(edge.source), mended.graph.by_id.get(edge.target)
        source_class = mended.definitions.get(source.type) if source else None
        target_class = mended.definitions.get(target.type) if target else None
        input_definition = target_class.inputs.get(edge.input) if target_class else None
        if source_class and input_definition and not input_definition.is_dynamic:
            yield index, edge, input_definition, source_class.outputs


def _takes(mended: Mended, input_definition: InputDefinition, edge: Edge) -> bool:
    """Return whether an input takes a link, by the outputs of its source."""
    source = mended.graph.by_id.get(edge.source)
    definition = mended.definitions.get(source.type) if source else None
    if definition is None:
        return not input_definition.is_widget
    return any(accepts(input_definition.type, kind) for kind in definition.outputs)


def _meant_input(mended: Mended, name: str, free: Sequence[InputDefinition]) -> str:
    """Return the free input that a name means: the most similar, or the only required one; empty if there is none."""
    near = mended.near(name, [definition.name for definition in free], _INPUT_CUTOFF)
    required = [definition.name for definition in free if definition.required]
    return near[0] if near else required[0] if len(required) == 1 else ""


def _with_values(mended: Mended, values: Callable[[NodeSpec, NodeDefinition], Mapping[str, Any]]) -> NodeGraph:
    """Return the workflow with the parameters that a function returns for each node of a known class."""
    nodes = [
        replace(spec, params=made)
        if (definition := mended.definitions.get(spec.type)) and (made := values(spec, definition)) != spec.params
        else spec
        for spec in mended.graph.nodes
    ]
    return replace(mended.graph, nodes=nodes)


def _successors(edges: Iterable[Edge], node_id: str) -> set[str]:
    """Return a node and all its direct and indirect successors."""
    targets: dict[str, list[str]] = {}
    for edge in edges:
        targets.setdefault(edge.source, []).append(edge.target)
    return reachable([node_id], lambda each: targets.get(each, ()))


def digits(name: str) -> list[str]:
    """Return the digits of a name; similar names with other digits are not misspellings of each other."""
    return [sign for sign in name if sign.isdigit()]


def _normalized(name: str) -> str:
    """Return a name without signs and case."""
    return "".join(filter(str.isalnum, name)).casefold()
