"""Nodes of a workflow in prompts: in drafted form, whole, in short, or with long texts cut."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, cast

from operad.flows.catalogue import NodeType
from operad.flows.check import Checker
from operad.flows.edit.operation import node_of
from operad.flows.formats.shapes import fields_of
from operad.flows.generation.cut_texts import marked, texts_at, with_texts
from operad.flows.generation.drafting import drafted, short_values
from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.operators.variables import plain
from operad.runtime.values.words import similarity

DECLARING = frozenset({"start", "code", "parameter-extractor", "loop", "sub-workflow"})
"""Types whose parameters declare their outputs."""

SMALL, EACH = 900, 70
"""Number of characters of a workflow, and for each of its nodes, up to which a change shows it whole; of a larger one,
long texts are cut."""

UNGUIDED = 1.5
"""Factor of these numbers if no node has words in common with the request, so that any may be the one to change."""

NEAR = 3
"""Maximum number of nodes whose texts are cut last, because they have most words in common with the request."""

SHORTEST = 20
LENGTHS = (None, 1_200, 800, 500, 350, 240, 160, 120, 80, 60, 45, 30, SHORTEST)
"""Lengths to which long texts are cut, until the workflow is short enough."""


def whole(graph: NodeGraph, types: Mapping[str, NodeType], titles: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return a line for each node of a workflow, with all its parameters in drafted form.

        print(whole(graph, NODE_TYPES))

    Args:
        graph: The workflow.
        types: Node types by name.
        titles: Titles that people gave to nodes, by id.
    """
    return _lines(graph, types, titles, lambda spec: f": {compact(_drafted_params(spec, types))}")


def excerpt(
    graph: NodeGraph,
    types: Mapping[str, NodeType],
    titles: Mapping[str, str] = MappingProxyType({}),
    look: Collection[str] = (),
    known: Collection[str] = (),
    request: str = "",
    most: int | None = None,
) -> str:
    """Return a line for each node of a workflow, with its outputs; of a large workflow, long texts are cut.

    The texts of the nodes that have most words in common with the request are cut last.

    Args:
        graph: The workflow.
        types: Node types by name.
        titles: Titles that people gave to nodes, by id.
        look: Ids of nodes whose texts are not cut.
        known: Types whose outputs are described elsewhere.
        request: The change that the workflow is shown for.
        most: Maximum number of characters, beyond which all long texts are cut, down to `SHORTEST`; None for no limit.
    """
    outputs = Checker(graph, types).outputs

    def outputs_and_params(spec: NodeSpec, longest: int | None, look: Collection[str]) -> str:
        reports = types[spec.type].reports if spec.type in types else ()
        names = (
            []
            if spec.type in DECLARING or spec.type in known
            else [name for name in outputs.get(spec.id, ()) if name not in reports]
        )
        params: Any = plain(_drafted_params(spec, types))
        if spec.type in types and isinstance(params, dict):
            params = short_values(types[spec.type], cast("dict[str, Any]", params))
        shown: Any = (
            params if longest is None or spec.id in look else with_texts(params, partial(marked, longest=longest))
        )
        text = " ".join(f"{name}={compact(each)}" for name, each in fields_of(shown).items()) or shown
        return f"{' → ' * bool(names)}{', '.join(names)}{f': {text}' if text else ''}"

    def lines(longest: int | None, look: Collection[str] = ()) -> str:
        return _lines(graph, types, titles, lambda spec: outputs_and_params(spec, longest, look))

    near = _near(graph, titles, request)
    enough = max(SMALL, EACH * len(graph.nodes)) * (1 if near else UNGUIDED)
    tried = [(longest, whole) for whole in (near, near[:2], near[:1]) for longest in LENGTHS]
    longest, near = next((each for each in tried if len(lines(*each)) <= enough), tried[-1])
    shown = lines(longest, {*near, *look})
    shorter = iter(LENGTHS[1:])
    while most is not None and len(shown) > most and (longest := next(shorter, None)):
        shown = lines(longest)
    return shown


def _near(graph: NodeGraph, titles: Mapping[str, str], request: str) -> Sequence[str]:
    """Return the ids of the nodes with long texts whose words are most similar to those of a request."""
    scores = {
        spec.id: similarity(request, f"{titles.get(spec.id, '')} {compact(spec.params)}")
        for spec in graph.nodes
        if any(marked(text, SHORTEST) != text for _, text in texts_at(plain(spec.params)))
    }
    return sorted(filter(scores.__getitem__, scores), key=lambda node_id: -scores[node_id])[:NEAR]


def _lines(
    graph: NodeGraph, types: Mapping[str, NodeType], titles: Mapping[str, str], rest: Callable[[NodeSpec], str]
) -> str:
    """Return a line for each node: id, type, title, container, predecessors, and the rest."""
    predecessors: dict[str, list[str]] = {}
    branching = _branching(graph, types)
    for edge in graph.edges:
        source = f"{edge.source}:{edge.port}" if edge.source in branching else edge.source
        predecessors.setdefault(edge.target, []).append(source)
    lines: list[str] = []
    for spec in graph.nodes:
        title = f" {compact(titles[spec.id])}" if titles.get(spec.id) else ""
        inside = f" inside {spec.parent}" if spec.parent else ""
        after = f" after {', '.join(predecessors[spec.id])}" if spec.id in predecessors else ""
        lines.append(f"{spec.id} {spec.type}{title}{inside}{after}{rest(spec)}")
    return "\n".join(lines)


def _branching(graph: NodeGraph, types: Mapping[str, NodeType]) -> set[str]:
    """Return the ids of the nodes with several ports, at least as far as edges leave them."""
    used = {edge.source for edge in graph.edges if edge.port}
    return used | {spec.id for spec in graph.nodes if (node := node_of(spec, types)) and len(node.ports) > 1}


def _drafted_params(node: NodeSpec, types: Mapping[str, NodeType]) -> Any:
    """Return a node's parameters in drafted form; unchanged if its type is unknown."""
    params: Any = node.params
    return (
        drafted(types[node.type], fields_of(params)) if node.type in types and isinstance(params, Mapping) else params
    )


def compact(value: Any) -> str:
    """Return a value as JSON without whitespace."""
    return json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"), default=str)
