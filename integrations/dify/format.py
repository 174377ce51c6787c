"""Format of Dify: workflow files in its DSL, YAML, of versions 0.1 to 0.5; written as version 0.4.0.

Values of a file that Operad would not write by itself are kept in ``extra["dify"]`` as a difference (see `overlay`) and
put back when the workflow is written, so that a file that is loaded and dumped keeps its values. A node that was
changed in between keeps the change. The normal form of a file has the same values, with keys in alphabetical order,
lists and mappings as blocks, and aliases replaced by their values.

Data of a workflow that a file has no place for is kept in the data of its node under ``operad``: ``id`` for an id with
a hyphen or a dot, ``params`` for parameters that reading the file would not give back (``null`` for ``and``, a quoted
id in a reference). Parameters are kept as differences, so that changes made in Dify win. The instructions and notes of
the workflow are kept under ``operad`` in the root of the file.

The variables of a conversation become a node, the first one. Values from outside of the graph (``sys.query``,
``env.KEY``) become inputs of the start node with the same name, if a node reads them.
"""

from __future__ import annotations

import re

from operad.flows.formats.format import Format
from operad.flows.formats.shapes import fields_of
from operad.flows.formats.yaml_over import keep_text
from operad.flows.formats.yaml_text import read_yaml, write_yaml
from operad.flows.node_graph import NodeGraph
from operad.integrations.dify.losses import losses_of
from operad.integrations.dify.node_positions import keep_positions
from operad.integrations.dify.read import as_app, line_of_nodes, read
from operad.integrations.dify.remarks import remarks_of
from operad.integrations.dify.write import kept, values_of
from operad.runtime.values.errors import InvalidError

_KIND = re.compile(rb"""^[" \t{,]*kind["']?\s*:\s*["']?(app|graph)\b""", re.MULTILINE)
_MODE = re.compile(
    rb"""^[" \t{,]*mode["']?\s*:\s*["']?(workflow|advanced-chat|chat|completion|agent-chat)\b""", re.MULTILINE
)
_NODES = re.compile(rb"^nodes[ \t]*:", re.MULTILINE)
"""Key of the nodes in Operad's YAML, whose texts may quote a Dify file; Dify has it in bare graphs only."""

_WORKFLOW = re.compile(rb"""^[" \t{,]*(workflow|graph|graph_config|model_config)["']?\s*:""", re.MULTILINE)
_BARE_GRAPH_KEYS = tuple(
    re.compile(rb"""(^|[\s{,\[-])["']?%s["']?\s*:""" % key, re.MULTILINE)
    for key in (rb"nodes", rb"edges", rb"data", rb"source", rb"target")
)
"""Keys of a graph without an app around it."""


def is_it(data: bytes) -> bool:
    """Return True if a file looks like a file of Dify."""
    if not _NODES.search(data) and _WORKFLOW.search(data) and (_KIND.search(data) or _MODE.search(data)):
        return True
    return all(key.search(data) for key in _BARE_GRAPH_KEYS) and not _KEYS_OF_OTHERS.search(data)


_KEYS_OF_OTHERS = re.compile(
    rb"""^operad\b|["']?(schema_version|params?|last_node_id|class_type|source_node)["']?\s*:""", re.MULTILINE
)
"""Keys in files of other formats: Operad's, Chat2Workflow's, ComfyUI's, Coze's."""


def _read(data: bytes, name: str) -> NodeGraph:
    return read(read_yaml(data, name), name)


def _write(graph: NodeGraph) -> bytes:
    return write_yaml(values_of(graph))


def dump_over(graph: NodeGraph, old: bytes) -> bytes:
    """Return the file of a changed workflow that keeps the text of the file from which it was read.

    Args:
        graph: The changed workflow.
        old: The file from which it was read. Nodes keep their positions on the canvas, and new nodes are placed to the
            right of their predecessors. Unchanged values keep their exact text and the comments before them.

    Returns:
        The file; in the normal form if the old text cannot be kept.
    """
    new_values = values_of(graph)
    try:
        old_values = read_yaml(old, "the file")
        old_text = write_yaml(values_of(read(old_values, graph.name)))
        old_graph = as_app(old_values.value)["workflow"]["graph"]
    except InvalidError:
        return write_yaml(new_values)
    new_graph = new_values["workflow"]["graph"]
    nodes = keep_positions(new_graph["nodes"], new_graph["edges"], old_graph["nodes"])
    new_values = {**new_values, "workflow": {**new_values["workflow"], "graph": {**new_graph, "nodes": nodes}}}
    fresh = write_yaml(new_values)
    return keep_text(old, old_text, fresh, fresh, lambda data: read_yaml(data, "the file").value)


def titles(graph: NodeGraph) -> dict[str, str]:
    """Return the titles that people gave to nodes in Dify, by their ids, in a line of at most 80 characters each.

    Args:
        graph: The workflow, of a file of Dify's.
    """
    found: dict[str, str] = {}
    for spec in graph.nodes:
        data = fields_of(fields_of(kept(spec.extra).get("data")).get("at"))
        title = " ".join(str(fields_of(data.get("title")).get("is") or "").split())
        if title and title != spec.id:
            found[spec.id] = title[:80]
    return found


def node_lines(data: bytes) -> dict[str, int]:
    """Return the line of each node by its id, from 1.

    Raises:
        InvalidError: The content is not a Dify workflow.
    """
    return line_of_nodes(read_yaml(data, "the file"))


DIFY = Format(
    name="dify",
    suffix=".dify.yml",
    is_it=is_it,
    reader=_read,
    writer=_write,
    lost=losses_of,
    lines=node_lines,
    dump_over=dump_over,
    remarks=remarks_of,
    titles=titles,
)
"""Format of Dify's workflow files."""

load, dump, losses = DIFY.load, DIFY.dump, DIFY.losses

__all__ = [
    "DIFY",
    "dump",
    "dump_over",
    "is_it",
    "load",
    "losses",
    "node_lines",
    "titles",
]
