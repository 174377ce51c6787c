"""The simplified workflow of Chat2Workflow (section 2.2): ``{"nodes_info": [{id, type, param}], "edges": [[source, port, target]]}``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from operad.operators.check import Checker, NodeType
from operad.operators.node import NodeOperator
from operad.operators.node_graph import Edge, NodeGraph, NodeSpec
from operad.runtime.errors import InvalidError, Issue, did_you_mean

_NODE_KEYS = {"id", "type", "param"}


def load(text: str, name: str = "workflow") -> NodeGraph:
    """Read a workflow.

    Args:
        text: The JSON; or a whole response, from which the part between ``<workflow>`` tags is taken.
        name: What to call it.

    Raises:
        InvalidError: It is not of that form; every issue is listed, that of broken JSON with line and column.
    """
    if "<workflow>" in text:
        text = text.partition("<workflow>")[2].partition("</workflow>")[0]
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InvalidError(name, [Issue("format", f"is no JSON: {error.msg}", where)]) from error
    except (ValueError, RecursionError) as error:
        raise InvalidError(name, [Issue("format", f"is no JSON: {error}")]) from error
    issues = list(_misshapen(data))
    if issues:
        raise InvalidError(name, issues)
    nodes = [
        NodeSpec(id=node["id"], type=node["type"], params=node.get("param") or {}, parent=parent_of(node["id"]))
        for node in data["nodes_info"]
    ]
    edges = [Edge(source=edge[0], port=edge[1], target=edge[2]) for edge in data["edges"]]
    return NodeGraph(nodes=nodes, edges=edges, name=name)


def parent_of(node_id: str) -> str:
    """The node that one runs inside of: what stands before the last hyphen of its id; empty without one."""
    return node_id.rpartition("-")[0]


def issues_of(graph: NodeGraph, types: Mapping[str, NodeType]) -> list[Issue]:
    """All that is wrong with a workflow of this format: what the full static check finds, and wrong order.

    Args:
        graph: The workflow.
        types: The node types by name.
    """
    checker = Checker(graph, types)
    return [*checker.issues, *_order_issues(graph, checker.nodes)]


def _order_issues(graph: NodeGraph, nodes: Mapping[str, NodeOperator[Any]]) -> Iterator[Issue]:
    """Nodes that stand after one that refers to them; only an iteration's ``output_selector`` may point forward."""
    place = {node_id: number for number, node_id in reversed(list(enumerate(node.id for node in graph.nodes)))}
    for node_id, node in nodes.items():
        for other in dict.fromkeys(reference.selector.node for reference in node.references):
            if place.get(other, -1) > place[node_id]:
                yield Issue("order", f"refers to {other!r}, which stands after it in the list", node_id)


def _misshapen(data: Any) -> Iterator[Issue]:
    if not isinstance(data, Mapping):
        yield Issue("format", 'must be an object with "nodes_info" and "edges"')
        return
    root = cast("Mapping[str, Any]", data)
    for key in ("nodes_info", "edges"):
        if not isinstance(root.get(key), list):
            what = "must be a list" if key in root else f"is missing{did_you_mean(key, root)}"
            yield Issue("format", what, key)
    for number, node in enumerate(_list(root.get("nodes_info"))):
        yield from _misshapen_node(node, f"nodes_info[{number}]")
    for number, edge in enumerate(_list(root.get("edges"))):
        if not _is_edge(edge):
            yield Issue(
                "misshapen-edge", f"must be [source, port, target], not {json.dumps(edge)[:80]}", f"edges[{number}]"
            )


def _misshapen_node(node: Any, where: str) -> Iterator[Issue]:
    if not isinstance(node, Mapping):
        yield Issue("misshapen-node", "must be an object with id, type and param", where)
        return
    fields = cast("Mapping[str, Any]", node)
    for key in ("id", "type"):
        if not isinstance(fields.get(key), str) or not fields[key]:
            what = "must be a text" if key in fields else f"is missing{did_you_mean(key, fields)}"
            yield Issue("misshapen-node", f"{key}: {what}", where)
    if not isinstance(fields.get("param", {}), Mapping | None):
        yield Issue("misshapen-node", "param: must be an object", where)
    for key in fields.keys() - _NODE_KEYS:
        yield Issue("misshapen-node", f"{key}: is no key of a node{did_you_mean(key, _NODE_KEYS)}", where)


def _is_edge(edge: Any) -> bool:
    match edge:
        case [str(), bool(), str()]:
            return False
        case [str(), int(), str()]:
            return True
        case _:
            return False


def _list(value: Any) -> Sequence[Any]:
    return cast("Sequence[Any]", value) if isinstance(value, list) else []
