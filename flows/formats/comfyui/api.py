"""The form that a ComfyUI server runs: ``{id: {class_type, inputs, _meta}}``, where an input is a value or a link ``[id, slot]``.

Normal form: of each node, its values, then its links. A list that is a value is written ``{"__value__": [...]}``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from operad.flows.formats.comfyui.written import NAME, title_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators.comfyui.reading import list_of, mapping_of
from operad.runtime.values.errors import InvalidError, Issue, did_you_mean

_VALUE = "__value__"
_KEYS = {"class_type", "inputs"}


def is_api(data: Any) -> bool:
    """Return whether parsed JSON is of this form."""
    nodes = mapping_of(data).values()
    return bool(nodes) and all("class_type" in mapping_of(node) for node in nodes)


def load_api(data: Mapping[str, Any], name: str) -> NodeGraph:
    """The graph of parsed JSON.

    Raises:
        InvalidError: It is not of this form; every issue is listed.
    """
    issues = [issue for node_id, node in data.items() for issue in _misshapen(node_id, node)]
    if issues:
        raise InvalidError(name, issues)
    nodes: list[NodeSpec] = []
    edges: list[Edge] = []
    for node_id, node in data.items():
        inputs = mapping_of(node.get("inputs"))
        links = {key: list_of(value) for key, value in inputs.items() if isinstance(value, list)}
        params = {key: _unwrapped(value) for key, value in inputs.items() if key not in links}
        said = {key: value for key, value in node.items() if key not in _KEYS}
        nodes.append(NodeSpec(node_id, node["class_type"], params, extra={NAME: {"api": said}}))
        edges += [Edge(link[0], node_id, int(link[1]), key) for key, link in links.items()]
    return NodeGraph(nodes, edges, name)


def dump_nodes(graph: NodeGraph) -> dict[str, Any]:
    """A graph that can run as it stands, as parsed JSON.

    Raises:
        InvalidError: Two nodes have one id.
    """
    twice = [node_id for node_id, count in Counter(node.id for node in graph.nodes).items() if count > 1]
    if twice:
        raise InvalidError(
            graph.name, [Issue("duplicate-id", "several nodes have this id; give each its own", each) for each in twice]
        )
    found: dict[str, Any] = {}
    for node in graph.nodes:
        inputs = {key: _wrapped(value) for key, value in mapping_of(node.params).items()}
        said = mapping_of(node.extra.get(NAME)).get("api")
        meta = mapping_of(said) if isinstance(said, dict) else {"_meta": {"title": title_of(node)}}
        found[node.id] = {"class_type": node.type, "inputs": inputs, **meta}
    for edge in graph.edges:
        if edge.target in found and edge.input:
            found[edge.target]["inputs"][edge.input] = [edge.source, edge.port]
    return found


def _misshapen(node_id: str, written: Any) -> Iterator[Issue]:
    if not isinstance(written, dict):
        yield Issue("misshapen-node", "must be an object with class_type and inputs", node_id)
        return
    node = mapping_of(written)
    if not isinstance(node.get("class_type"), str) or not node["class_type"]:
        what = "must be a text" if "class_type" in node else f"is missing{did_you_mean('class_type', node)}"
        yield Issue("misshapen-node", f"class_type: {what}", node_id)
    if not isinstance(node.get("inputs", {}), dict):
        yield Issue("misshapen-node", "inputs: must be an object of names to values and links", node_id)
    for key, value in mapping_of(node.get("inputs")).items():
        if isinstance(value, list) and not _is_link(list_of(value)):
            yield Issue(
                "misshapen-link",
                f'{key}: must be a link [id as text, slot]; a list that is a value is written {{"{_VALUE}": [...]}}',
                node_id,
            )


def _is_link(value: Any) -> bool:
    match value:
        case [str(), bool()]:
            return False
        case [str(), int()]:
            return True
        case [str(), float() as slot]:
            return slot.is_integer()
        case _:
            return False


def _unwrapped(value: Any) -> Any:
    inner = mapping_of(value).get(_VALUE)
    return list_of(inner) if isinstance(inner, list) and len(mapping_of(value)) == 1 else value


def _wrapped(value: Any) -> Any:
    return {_VALUE: list_of(value)} if isinstance(value, list) else value
