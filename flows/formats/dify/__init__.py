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
from dataclasses import replace

from operad.flows.formats.dify.losses import losses_of
from operad.flows.formats.dify.plugins import Model, Plugins, Tool
from operad.flows.formats.dify.read import line_of_nodes, read
from operad.flows.formats.dify.write import values_of
from operad.flows.formats.format import Format
from operad.flows.formats.yaml_text import read_yaml, write_yaml
from operad.flows.node_graph import NodeGraph
from operad.runtime.values.errors import Issue

BENCHMARK = Plugins()
"""The plugins and models of Chat2Workflow's platform."""

_KIND = re.compile(rb"""^["\s{,]*kind["']?\s*:\s*["']?app\b""", re.MULTILINE)
_NODES = re.compile(rb"^nodes[ \t]*:", re.MULTILINE)
"""Where Operad's YAML, whose texts may quote a file of Dify's, has its nodes, and Dify has none."""

_WORKFLOW = re.compile(rb"""^["\s{,]*workflow["']?\s*:""", re.MULTILINE)


def is_it(data: bytes) -> bool:
    """Whether a file looks like one of Dify's."""
    return bool(_KIND.search(data) and _WORKFLOW.search(data)) and not _NODES.search(data)


def load(data: bytes, name: str = "", plugins: Plugins = BENCHMARK) -> NodeGraph:
    """Read a file.

    Args:
        data: The file.
        name: What to call the workflow; where empty, what the file calls it.
        plugins: The plugins that stand behind node types.

    Raises:
        InvalidError: It is not of the form; every issue is listed, with its line.
    """
    return read(read_yaml(data, name or "the file"), name, plugins)


def dump(graph: NodeGraph, plugins: Plugins = BENCHMARK) -> bytes:
    """Write a file.

    Args:
        graph: The workflow.
        plugins: The plugins and models that are to stand behind node types.
    """
    return write_yaml(values_of(graph, plugins))


def losses(graph: NodeGraph, plugins: Plugins = BENCHMARK) -> list[Issue]:
    """What of a workflow a file cannot hold, or Dify cannot run; each with its node.

    Args:
        graph: The workflow.
        plugins: The plugins and models that are to stand behind node types.
    """
    return list(losses_of(graph, plugins))


def node_lines(data: bytes) -> dict[str, int]:
    """The line of each node by its id, counted from 1.

    Raises:
        InvalidError: As `load`.
    """
    return line_of_nodes(read_yaml(data, "the file"))


def _load(data: bytes, name: str) -> NodeGraph:
    graph = load(data)
    return graph if graph.name != "workflow" else replace(graph, name=name)


DIFY = Format("dify", ".dify.yml", is_it, _load, dump, losses, lines=node_lines)
"""Dify's workflow files."""

__all__ = ["BENCHMARK", "DIFY", "Model", "Plugins", "Tool", "dump", "is_it", "load", "losses", "node_lines"]
