"""Dify's workflow files: the DSL, YAML, of versions 0.1 to 0.5; written as 0.4.0.

What a file says beyond what would be written anyway is kept in ``extra["dify"]`` as a difference (see `overlay`), and
put back when it is written: what is loaded and dumped says the same values. Where a node was changed in between, the
change holds. The normal form of a file is: the same values, keys in alphabetical order, lists and mappings as blocks,
aliases replaced by what they stand for.

What a workflow says that a file has no place for, and that reading the file would not give back, stands in the node's
data under ``operad``: ``id`` for an id with a hyphen or a dot, ``params`` for what is written otherwise there (``null``
for ``and``, a quoted id in a reference), each with what it was made of, so that a change made in Dify holds. What it was
made from stands under ``operad`` in the file's root, as ``instructions``. The variables of a conversation are a node of ours, the first one. What comes from outside of the graph (``sys.query``,
``env.KEY``) is an input of the start node of that name, where something reads it.
"""

from __future__ import annotations

import re
from pathlib import Path

from operad.flows.formats.dify.losses import losses_of
from operad.flows.formats.dify.plugins import Model, Plugins, Tool
from operad.flows.formats.dify.read import app_name, line_of_nodes, read, whole
from operad.flows.formats.dify.settled import settled
from operad.flows.formats.dify.write import kept, values_of
from operad.flows.formats.format import Format, content_of
from operad.flows.formats.shapes import fields_of
from operad.flows.formats.yaml_over import merged
from operad.flows.formats.yaml_text import read_yaml, write_yaml
from operad.flows.node_graph import NodeGraph
from operad.runtime.values.errors import InvalidError, Issue

BENCHMARK = Plugins()
"""The plugins and models of Chat2Workflow's platform."""

_KIND = re.compile(rb"""^["\s{,]*kind["']?\s*:\s*["']?(app|graph)\b""", re.MULTILINE)
_MODE = re.compile(
    rb"""^["\s{,]*mode["']?\s*:\s*["']?(workflow|advanced-chat|chat|completion|agent-chat)\b""", re.MULTILINE
)
_NODES = re.compile(rb"^nodes[ \t]*:", re.MULTILINE)
"""Key of the nodes in Operad's YAML, whose texts may quote a Dify file; Dify has it in bare graphs only."""

_WORKFLOW = re.compile(rb"""^["\s{,]*(workflow|graph|graph_config|model_config)["']?\s*:""", re.MULTILINE)
_BARE = tuple(
    re.compile(rb"""(^|[\s{,\[-])["']?%s["']?\s*:""" % key, re.MULTILINE)
    for key in (rb"nodes", rb"edges", rb"data", rb"source", rb"target")
)
"""Keys of a graph without an app around it."""


def is_it(data: bytes) -> bool:
    """Return whether a file looks like one of Dify's."""
    if not _NODES.search(data) and _WORKFLOW.search(data) and (_KIND.search(data) or _MODE.search(data)):
        return True
    return all(key.search(data) for key in _BARE) and not _OTHERS.search(data)


_OTHERS = re.compile(
    rb"""^operad\b|["']?(schema_version|params?|last_node_id|class_type|source_node)["']?\s*:""", re.MULTILINE
)
"""Keys of the nodes of other formats: ours, Chat2Workflow's, ComfyUI's, Coze's."""


def load(source: str | bytes | Path, name: str = "", plugins: Plugins = BENCHMARK) -> NodeGraph:
    """Read a file.

    Args:
        source: The content, as text or bytes; or the path of a file.
        name: What to call the workflow; where empty, what the file calls it.
        plugins: The plugins that stand behind node types.

    Raises:
        InvalidError: It is not of the form; every issue is listed, with its line.
    """
    return read(read_yaml(content_of(source), name or "the file"), name, plugins)


def dump(graph: NodeGraph, plugins: Plugins = BENCHMARK) -> bytes:
    """Write a file.

    Args:
        graph: The workflow.
        plugins: The plugins and models that are to stand behind node types.
    """
    return write_yaml(values_of(graph, plugins))


def dump_over(graph: NodeGraph, old: bytes) -> bytes:
    """Write a workflow over the file that it was read from.

    Args:
        graph: The workflow after its change.
        old: The file. Nodes stay where they stand on the canvas, and new ones stand behind those that they follow.
            What is the same keeps its text to the letter, with the comments before it.

    Returns:
        The file; in the normal form, where the old text cannot be kept.
    """
    now = values_of(graph, BENCHMARK)
    try:
        values = read_yaml(old, "the file")
        of_old = whole(values.value)["workflow"]["graph"]
        was = write_yaml(values_of(read(values, graph.name, BENCHMARK), BENCHMARK)).decode()
        text = old.decode()
    except (InvalidError, UnicodeDecodeError):
        return write_yaml(now)
    of_now = now["workflow"]["graph"]
    nodes = settled(of_now["nodes"], of_now["edges"], of_old["nodes"])
    now = {**now, "workflow": {**now["workflow"], "graph": {**of_now, "nodes": nodes}}}
    fresh = write_yaml(now)
    made = (merged(text, was, fresh.decode(), fresh.decode()) or "").encode()
    try:
        return made if made and read_yaml(made, "the file").value == read_yaml(fresh, "the file").value else fresh
    except InvalidError:
        return fresh


def losses(graph: NodeGraph, plugins: Plugins = BENCHMARK) -> list[Issue]:
    """Return the parts of a workflow that a file cannot hold, or Dify cannot run; each with its node.

    Args:
        graph: The workflow.
        plugins: The plugins and models that are to stand behind node types.
    """
    return list(losses_of(graph, plugins))


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
    """The line of each node by its id, counted from 1.

    Raises:
        InvalidError: As `load`.
    """
    return line_of_nodes(read_yaml(data, "the file"))


def _load(data: bytes, name: str) -> NodeGraph:
    text = read_yaml(data, "the file")
    return read(text, "" if app_name(text) else name, BENCHMARK)


DIFY = Format("dify", ".dify.yml", is_it, _load, dump, losses, lines=node_lines, dump_over=dump_over)
"""Dify's workflow files."""

__all__ = [
    "BENCHMARK",
    "DIFY",
    "Model",
    "Plugins",
    "Tool",
    "dump",
    "dump_over",
    "is_it",
    "load",
    "losses",
    "node_lines",
    "titles",
]
