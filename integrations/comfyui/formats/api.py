"""The form that a ComfyUI server runs: ``{id: {class_type, inputs, _meta}}``, where an input is a value or a link ``[id, slot]``.

Normal form: the inputs of a node are its values, then its links. A list that is a value is written
``{"__value__": [...]}``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from operad.flows.formats.shapes import fields_of, list_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.integrations.comfyui.formats.written import NAME, title_of, titled
from operad.integrations.comfyui.prompt import VALUE_KEY, node_issues
from operad.runtime.values.errors import InvalidError, Issue

_READ_KEYS = {"class_type", "inputs"}


def is_api(data: Any) -> bool:
    """Return True if parsed JSON has this form."""
    nodes = fields_of(data).values()
    return bool(nodes) and all("class_type" in fields_of(node) for node in nodes)


def load_api(data: Mapping[str, Any], name: str) -> NodeGraph:
    """Return the graph of parsed JSON.

    Raises:
        InvalidError: The JSON does not have this form; every issue is listed.
    """
    issues = [issue for node_id, node in data.items() for issue in node_issues(node_id, node)]
    if issues:
        raise InvalidError(name, issues)
    nodes: list[NodeSpec] = []
    edges: list[Edge] = []
    for node_id, node in data.items():
        inputs = fields_of(node.get("inputs"))
        links = {key: list_of(value) for key, value in inputs.items() if isinstance(value, list)}
        params = {key: _unwrapped(value) for key, value in inputs.items() if key not in links}
        other_data = {key: value for key, value in node.items() if key not in _READ_KEYS}
        nodes.append(titled(NodeSpec(node_id, node["class_type"], params, extra={NAME: {"api": other_data}})))
        edges += [Edge(link[0], node_id, int(link[1]), key) for key, link in links.items()]
    return NodeGraph(nodes, edges, name)


def dump_nodes(graph: NodeGraph) -> dict[str, Any]:
    """Return an executable graph as parsed JSON.

    Raises:
        InvalidError: Two nodes have the same id.
    """
    duplicates = [node_id for node_id, count in Counter(node.id for node in graph.nodes).items() if count > 1]
    if duplicates:
        raise InvalidError(
            graph.name,
            [Issue("duplicate-id", "several nodes have this id; each needs its own id", each) for each in duplicates],
        )
    document: dict[str, Any] = {}
    for node in graph.nodes:
        inputs = {key: _wrapped(value) for key, value in fields_of(node.params).items()}
        other_data = fields_of(node.extra.get(NAME)).get("api")
        meta = fields_of(other_data) if isinstance(other_data, dict) else {"_meta": {"title": title_of(node)}}
        document[node.id] = {"class_type": node.type, "inputs": inputs, **meta}
    for edge in graph.edges:
        if edge.target in document and edge.input:
            document[edge.target]["inputs"][edge.input] = [edge.source, edge.port]
    return document


def _unwrapped(value: Any) -> Any:
    inner = fields_of(value).get(VALUE_KEY)
    return list_of(inner) if isinstance(inner, list) and len(fields_of(value)) == 1 else value


def _wrapped(value: Any) -> Any:
    return {VALUE_KEY: list_of(value)} if isinstance(value, list) else value
