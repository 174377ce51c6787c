"""Rules on the notation of references: selectors, and references in texts."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

from operad.flows.formats.shapes import list_of
from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.flows.repair.spelling import with_named_inputs, with_references
from operad.flows.repair.state import Proposal, State, params_of, with_params
from operad.flows.repair.walk import changed
from operad.operators.variables import Selector, Text

_DOTTED_REFERENCE = re.compile(r"\s*(?:\{\{\s*)?#?\s*['\"]?([\w-]+)['\"]?\s*\.\s*([\w.]+)\s*#?\s*(?:\}\})?\s*")


_BARE_REFERENCE = re.compile(r"\{\{#\s*['\"]?([^\W\d]\w*)['\"]?\s*#\}\}")


def selectors_in_texts(state: State) -> Iterator[Proposal]:
    """Replace a selector in place of a text by the reference ``{{#id.variable#}}``."""

    def to_text(wanted: Any, given: Any) -> Any:
        if wanted is not Text or isinstance(given, str):
            return given
        match given:
            case _ if selector := as_selector(given, state.graph):
                return selector.in_text
            case [str(), [*_] as inner] if selector := as_selector(
                inner, state.graph
            ):  # a pair of a name and a selector
                return selector.in_text
            case _:
                return given

    for node in state.graph.nodes:
        mended = changed(node, to_text)
        if mended != node.params:
            what = "a selector in a text is written {{#id.variable#}}"
            yield Proposal(node.id, what, "a text names variables so", with_params(state.graph, node, mended))


def references(state: State) -> Iterator[Proposal]:
    """Correct references in texts, such as ``{{3.text}}``, ``{{#3.text}}``, ``{#3.text#}`` and ``{{#text.3#}}``."""
    for node in state.graph.nodes:
        mended = with_references(state.graph, node)
        if mended != node.params:
            why = "there is a node with that id"
            yield Proposal(
                node.id, "references are spelt {{#id.variable#}}", why, with_params(state.graph, node, mended)
            )


def as_selector(given: Any, graph: NodeGraph) -> Selector | None:
    """Return the variable that a value names in any notation; None if it names no node of the workflow."""
    match given:
        case [str() | int(), str() | int()]:
            first, second = map(str, list_of(given))
            return _selector_of_pair(first, second, graph.by_id)
        case [str() as first, str() as second, str() as part]:
            found = _selector_of_pair(first, second, graph.by_id)
            return Selector(f"{found.variable}.{part}", found.node) if found else None
        case [inner] if isinstance(inner, list | str):
            return as_selector(inner, graph)
        case str() if (found := _DOTTED_REFERENCE.fullmatch(given)) and found[1] in graph.by_id:
            return Selector(found[2], found[1])
        case _:
            return None


def _selector_of_pair(first: str, second: str, ids: Collection[str]) -> Selector | None:
    """Return the selector of a variable and its node, which may be given in either order."""
    if second in ids:
        return Selector(first, second)
    return Selector(second, first) if first in ids else None


def bare_references(state: State) -> Iterator[Proposal]:
    """Add the node to references such as ``{{#text#}}``, if a single node before has the variable."""
    for node in state.graph.nodes:
        if node.type == "template-transform":
            yield from _bare_in_template(state, node)
            continue

        def change(wanted: Any, given: Any, node: NodeSpec = node) -> Any:
            if wanted is not Text or not isinstance(given, str):
                return given
            return _BARE_REFERENCE.sub(lambda found: _with_node(state, node, found), given)

        mended = changed(node, change)
        if mended != node.params:
            why = "no other node before it, or right before it, has a variable of that name"
            yield Proposal(node.id, "references name the node, too", why, with_params(state.graph, node, mended))


def named_inputs(state: State) -> Iterator[Proposal]:
    """Replace ``{{name}}`` in texts by a reference, if it is the name of an input that no node reads."""
    named = with_named_inputs(state.graph)
    mended = [node.id for node, before in zip(named.nodes, state.graph.nodes, strict=True) if node != before]
    if mended:
        yield Proposal(", ".join(mended), "{{name}} reads the input", "nothing else reads the input", named)


def _bare_in_template(state: State, node: NodeSpec) -> Iterator[Proposal]:
    """Yield the proposal to write ``{{#name#}}`` in a template as ``{{ name }}`` if the template declares the name."""
    params = params_of(node)
    template = params.get("template")
    if not isinstance(template, str) or not isinstance(params.get("variables"), list):
        return
    names = {item[0] for item in map(list_of, list_of(params["variables"])) if item and isinstance(item[0], str)}
    mended = _BARE_REFERENCE.sub(lambda found: f"{{{{ {found[1]} }}}}" if found[1] in names else found[0], template)
    if mended != template:
        why = "it is a variable of the template"
        graph = with_params(state.graph, node, {**params, "template": mended})
        yield Proposal(node.id, "template: {{#name#}} is {{ name }}", why, graph)


def _with_node(state: State, node: NodeSpec, found: re.Match[str]) -> str:
    """Return a bare reference with the id of its node, if one preceding or directly preceding node has the variable."""
    name = found[1]
    holders = [
        node_id
        for node_id, outputs in state.checker.outputs.items()
        if name in outputs and state.checker.comes_before(node_id, node.id)
    ]
    if len(holders) != 1:
        direct_predecessors = {edge.source for edge in state.graph.edges if edge.target == node.id}
        holders = [node_id for node_id in holders if node_id in direct_predecessors]
    return Selector(name, holders[0]).in_text if len(holders) == 1 else found[0]
