"""References in texts that are spelt otherwise than ``{{#id.variable#}}``, and what they are when spelt so."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.flows.repair.walk import changed
from operad.operators.variables import Selector, Text

CONTAINERS = ("iteration", "loop")
_LOOSE = re.compile(r"\{\{\s*#?\s*(['\"]?)([\w-]+)\1\s*\.\s*([\w.]+)\s*#?\s*\}\}|\{#\s*([\w-]+)\.([\w.]+)\s*#\}")
_ITEM = re.compile(r"\{\{\s*#?\s*(item|index|current_item|element)((?:\.\w+)*)\s*#?\s*\}\}")


def around(graph: NodeGraph, node_id: str) -> list[str]:
    """The nodes that one runs inside of, outwards."""
    found: list[str] = []
    node = graph.by_id.get(node_id)
    while node and node.parent in graph.by_id and node.parent not in found:
        found.append(node.parent)
        node = graph.by_id[node.parent]
    return found


def is_container(graph: NodeGraph, node_id: str) -> bool:
    """Return whether others can run inside a node."""
    return node_id in graph.by_id and graph.by_id[node_id].type in CONTAINERS


def with_references(graph: NodeGraph, node: NodeSpec) -> Any:
    """A node's parameters, where ``{{3.text}}``, ``{{#3.text}}``, ``{#3.text#}`` and ``{{#text.3#}}`` are ``{{#3.text#}}``."""
    return changed(node, partial(_respelt, graph))


def with_items(graph: NodeGraph, node: NodeSpec) -> Any:
    """The parameters of a node inside a container, where ``{{item}}`` and ``{{#item#}}`` are its item."""
    outer = next((each for each in around(graph, node.id) if is_container(graph, each)), "")
    return changed(node, partial(_of_item, outer)) if outer else node.params


def loose(graph: NodeGraph) -> int:
    """In how many nodes references are spelt otherwise: the static check takes some of these for plain text."""
    return sum(
        with_references(graph, node) != node.params or with_items(graph, node) != node.params for node in graph.nodes
    )


def _respelt(graph: NodeGraph, wanted: Any, given: Any) -> Any:
    if wanted is not Text or not isinstance(given, str) or "{" not in given:
        return given
    return _LOOSE.sub(partial(_spelt, graph), given)


def _spelt(graph: NodeGraph, found: re.Match[str]) -> str:
    node, variable = (found[2], found[3]) if found[2] else (found[4], found[5])
    if node in graph.by_id:
        return found[0] if Text(found[0]).selectors else Selector(variable, node).in_text
    return Selector(node, variable).in_text if variable in graph.by_id else found[0]


def _of_item(outer: str, wanted: Any, given: Any) -> Any:
    if wanted is Selector and given in (["item"], ["index"], "item", "index"):
        return [given if isinstance(given, str) else given[0], outer]
    if wanted is not Text or not isinstance(given, str):
        return given
    return _ITEM.sub(lambda found: f"{{{{#{outer}.{'index' if found[1] == 'index' else 'item'}{found[2]}#}}}}", given)
