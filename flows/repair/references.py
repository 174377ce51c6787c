"""Rules on the notation of references: selectors, and references in texts."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import partial
from typing import Any

from operad.flows.formats.shapes import list_of
from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.flows.repair.spelling import with_named_inputs, with_references
from operad.flows.repair.state import Proposal, State, params_of, with_each
from operad.flows.repair.walk import changed, declared
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

    what = "a selector in a text is written {{#id.variable#}}"
    return with_each(state, partial(changed, change=to_text), what, "a text names variables so")


def references(state: State) -> Iterator[Proposal]:
    """Correct references in texts, such as ``{{3.text}}``, ``{{#3.text}}``, ``{#3.text#}`` and ``{{#text.3#}}``."""
    what = "references are spelt {{#id.variable#}}"
    return with_each(state, partial(with_references, state.graph), what, "there is a node with that id")


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

    def mend(node: NodeSpec) -> Any:
        def change(wanted: Any, given: Any) -> Any:
            if wanted is not Text or not isinstance(given, str):
                return given
            return _BARE_REFERENCE.sub(partial(_with_node, state, node), given)

        return node.params if node.type == "template-transform" else changed(node, change)

    why = "no other node before it, or right before it, has a variable of that name"
    yield from with_each(state, mend, "references name the node, too", why)
    yield from with_each(
        state, _bare_in_template, "template: {{#name#}} is {{ name }}", "it is a variable of the template"
    )


def named_inputs(state: State) -> Iterator[Proposal]:
    """Replace ``{{name}}`` in texts by a reference, if it is the name of an input that no node reads."""
    named = with_named_inputs(state.graph)
    mended = [node.id for node, before in zip(named.nodes, state.graph.nodes, strict=True) if node != before]
    if mended:
        yield Proposal(", ".join(mended), "{{name}} reads the input", "nothing else reads the input", named)


def _bare_in_template(node: NodeSpec) -> Any:
    """Return a template's parameters with ``{{#name#}}`` written ``{{ name }}`` if the template declares the name."""
    template = params_of(node).get("template")
    if node.type != "template-transform" or not isinstance(template, str):
        return node.params
    names = declared(node.params, "variables")
    mended = _BARE_REFERENCE.sub(lambda found: f"{{{{ {found[1]} }}}}" if found[1] in names else found[0], template)
    return {**params_of(node), "template": mended}


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
