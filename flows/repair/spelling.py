"""Misspelt references in texts, and their correction to ``{{#id.variable#}}``."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import Any

from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.flows.repair.walk import changed, declared, selectors_of
from operad.operators.variables import Selector, Text

CONTAINERS = {"iteration": "iteration-start", "loop": "loop-start"}
"""Types of containers, each with the type of its start node."""

STARTS = tuple(CONTAINERS.values())
_LOOSE = re.compile(r"\{\{\s*#?\s*(['\"]?)([\w-]+)\1\s*\.\s*([\w.]+)\s*#?\s*\}\}|\{#\s*([\w-]+)\.([\w.]+)\s*#\}")
_NAME = re.compile(r"\{\{\s*([^\W\d]\w*)\s*\}\}")
_ITEM = re.compile(r"\{\{\s*#?\s*(item|index|current_item|element)((?:\.\w+)*)\s*#?\s*\}\}")


def is_container(graph: NodeGraph, node_id: str) -> bool:
    """Return whether a node is a container, in which other nodes can run."""
    return node_id in graph.by_id and graph.by_id[node_id].type in CONTAINERS


def with_references(graph: NodeGraph, node: NodeSpec) -> Any:
    """Return a node's parameters with references such as ``{{3.text}}`` or ``{{#text.3#}}`` spelt ``{{#3.text#}}``."""
    return changed(node, partial(_respell, graph))


def with_items(graph: NodeGraph, node: NodeSpec) -> Any:
    """Return a node's parameters with ``{{item}}`` and ``{{#item#}}`` replaced by the item of its container."""
    container = next((node_id for node_id in graph.around(node.id) if is_container(graph, node_id)), "")
    return changed(node, partial(_with_container, container)) if container else node.params


def with_named_inputs(graph: NodeGraph) -> NodeGraph:
    """Return the workflow with ``{{name}}`` in texts spelt ``{{#1.name#}}`` if it is an input that no node reads."""
    selectors = [selector for node in graph.nodes for selector in selectors_of(node)]
    read = {(selector.node, selector.variable.partition(".")[0]) for selector in selectors}
    unread = {
        name: Selector(name, start.id).in_text
        for start in graph.nodes
        if start.type == "start"
        for name in declared(start.params, "variables")
        if (start.id, name) not in read
    }
    if not unread:
        return graph

    def spell(wanted: Any, given: Any) -> Any:
        if wanted is not Text or not isinstance(given, str):
            return given
        return _NAME.sub(lambda found: unread.get(found[1], found[0]), given)

    return replace(graph, nodes=[replace(node, params=changed(node, spell)) for node in graph.nodes])


def loose(graph: NodeGraph) -> int:
    """Return the number of nodes with misspelt references, some of which the static check takes for plain text."""
    return sum(
        with_references(graph, node) != node.params
        or with_items(graph, node) != node.params
        or named.params != node.params
        for node, named in zip(graph.nodes, with_named_inputs(graph).nodes, strict=True)
    )


def _respell(graph: NodeGraph, wanted: Any, given: Any) -> Any:
    if wanted is not Text or not isinstance(given, str) or "{" not in given:
        return given
    return _LOOSE.sub(partial(_corrected, graph), given)


def _corrected(graph: NodeGraph, found: re.Match[str]) -> str:
    """Return a misspelt reference as ``{{#id.variable#}}``; unchanged if it names no node of the workflow."""
    node, variable = (found[2], found[3]) if found[2] else (found[4], found[5])
    if node in graph.by_id:
        return found[0] if Text(found[0]).selectors else Selector(variable, node).in_text
    return Selector(node, variable).in_text if variable in graph.by_id else found[0]


def _with_container(container: str, wanted: Any, given: Any) -> Any:
    """Return a selector or a text in which a bare ``item`` or ``index`` names its container."""
    if wanted is Selector and given in (["item"], ["index"], "item", "index"):
        return [given if isinstance(given, str) else given[0], container]
    if wanted is not Text or not isinstance(given, str):
        return given
    return _ITEM.sub(
        lambda found: f"{{{{#{container}.{'index' if found[1] == 'index' else 'item'}{found[2]}#}}}}", given
    )
