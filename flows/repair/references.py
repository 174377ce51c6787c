"""References to variables as the format writes them: selectors and texts, however a model spelt them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, cast

from operad.flows.formats.shapes import fields_of, list_of
from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.flows.repair.spelling import with_references
from operad.flows.repair.state import Proposal, State, params_of, with_params
from operad.flows.repair.walk import changed
from operad.operators.variables import Selector, Text

_DOTTED = re.compile(r"\s*(?:\{\{\s*)?#?\s*['\"]?([\w-]+)['\"]?\s*\.\s*([\w.]+)\s*#?\s*(?:\}\})?\s*")


_BARE = re.compile(r"\{\{#\s*['\"]?([^\W\d]\w*)['\"]?\s*#\}\}")


def by_node(
    state: State, change: Callable[[NodeGraph], Callable[[Any, Any], Any]], what: str, why: str
) -> Iterator[Proposal]:
    """A proposal for each node whose parameters come out otherwise."""
    on = change(state.graph)
    for node in state.graph.nodes:
        mended = changed(node, on)
        if mended != node.params:
            yield Proposal(node.id, what, why, with_params(state.graph, node, mended))


def selectors_in_texts(state: State) -> Iterator[Proposal]:
    """Selectors where a text is needed: the text that names the variable."""

    def change(graph: NodeGraph) -> Callable[[Any, Any], Any]:
        def to_text(wanted: Any, given: Any) -> Any:
            if wanted is not Text or isinstance(given, str) or given is None:
                return given
            if selector := as_selector(given, graph):
                return selector.in_text
            match given:
                case [str(), inner] if selector := as_selector(inner, graph):  # a name of its own before it
                    return selector.in_text
                case [[*_], *_]:
                    found = [as_selector(each, graph) for each in cast("list[Any]", given)]
                    return "\n".join(each.in_text for each in found if each) if all(found) else given
                case _:
                    return given

        return to_text

    yield from by_node(state, change, "a selector in a text is written {{#id.variable#}}", "a text names variables so")


def references(state: State) -> Iterator[Proposal]:
    """References in texts that are spelt otherwise: ``{{3.text}}``, ``{{#3.text}}``, ``{#3.text#}``, ``{{#text.3#}}``."""
    for node in state.graph.nodes:
        mended = with_references(state.graph, node)
        if mended != node.params:
            why = "there is a node with that id"
            yield Proposal(
                node.id, "references are spelt {{#id.variable#}}", why, with_params(state.graph, node, mended)
            )


def selectors(state: State) -> Iterator[Proposal]:
    """Selectors in other forms: reversed, as a text, as an object, too deep, with numbers."""

    def change(graph: NodeGraph) -> Callable[[Any, Any], Any]:
        def to_selector(wanted: Any, given: Any) -> Any:
            if wanted is not Selector:
                return given
            found = as_selector(given, graph)
            return list(found) if found and list(found) != given else given

        return to_selector

    yield from by_node(state, change, "a selector is written [variable, node id]", "there is a node with that id")


def as_selector(given: Any, graph: NodeGraph) -> Selector | None:
    """The variable that a value means; None where it names no node."""
    match given:
        case [str() | int(), str() | int()]:
            one, two = map(str, list_of(given))
            return _of_two(one, two, graph.by_id)
        case [str() as one, str() as two, str() as part]:
            found = _of_two(one, two, graph.by_id)
            return Selector(f"{found.variable}.{part}", found.node) if found else None
        case [inner] if isinstance(inner, list | str | dict):
            return as_selector(inner, graph)
        case str() if (found := _DOTTED.fullmatch(given)) and found[1] in graph.by_id:
            return Selector(found[2], found[1])
        case {**known}:
            return _of_object(fields_of(known), graph)
        case _:
            return None


def _of_two(one: str, two: str, ids: Collection[str]) -> Selector | None:
    """A variable and its node, in whichever order."""
    if two in ids:
        return Selector(one, two)
    return Selector(two, one) if one in ids else None


def _of_object(known: Mapping[str, Any], graph: NodeGraph) -> Selector | None:
    if isinstance(known.get("value_selector"), list):
        return as_selector(known["value_selector"], graph)
    node = next((known[key] for key in ("node", "node_id", "id", "source", "nodeId") if key in known), None)
    keys = ("variable", "name", "var", "output", "key", "variable_name")
    variable = next((known[key] for key in keys if key in known), None)
    if isinstance(node, str | int) and str(node) in graph.by_id and isinstance(variable, str) and variable:
        return Selector(variable, str(node))
    return None


def bare_references(state: State) -> Iterator[Proposal]:
    """References without a node, ``{{#text#}}``: of the only node before that has such a variable, or the one right before."""
    for node in state.graph.nodes:
        if node.type == "template-transform":
            yield from _bare_in_template(state, node)
            continue

        def change(wanted: Any, given: Any, node: NodeSpec = node) -> Any:
            if wanted is not Text or not isinstance(given, str):
                return given
            return _BARE.sub(lambda found: _held(state, node, found), given)

        mended = changed(node, change)
        if mended != node.params:
            why = "no other node before it, or right before it, has a variable of that name"
            yield Proposal(node.id, "references name the node, too", why, with_params(state.graph, node, mended))


def _bare_in_template(state: State, node: NodeSpec) -> Iterator[Proposal]:
    params = params_of(node)
    template = params.get("template")
    if not isinstance(template, str) or not isinstance(params.get("variables"), list):
        return
    names = {each[0] for each in map(list_of, list_of(params["variables"])) if each and isinstance(each[0], str)}
    mended = _BARE.sub(lambda found: f"{{{{ {found[1]} }}}}" if found[1] in names else found[0], template)
    if mended != template:
        why = "it is a variable of the template"
        graph = with_params(state.graph, node, {**params, "template": mended})
        yield Proposal(node.id, "template: {{#name#}} is {{ name }}", why, graph)


def _held(state: State, node: NodeSpec, found: re.Match[str]) -> str:
    name = found[1]
    before = [
        other
        for other, outputs in state.checker.outputs.items()
        if name in outputs and state.checker.comes_before(other, node.id)
    ]
    if len(before) != 1:
        last = {edge.source for edge in state.graph.edges if edge.target == node.id}
        before = [other for other in before if other in last]
    return Selector(name, before[0]).in_text if len(before) == 1 else found[0]
