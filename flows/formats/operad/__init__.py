"""Operad's own YAML of a workflow of typed nodes, for people to read and write.

    workflow: translate
    instructions: [Translate a text.]   # what it was made from, round by round
    notes: [Only plain text.]           # what it does not do of that, and what was assumed
    nodes:
      1: {type: start, variables: {text: string}}
      2:
        type: if-else
        after: 1
        cases: [{conditions: [{variable: 1.text, operator: empty}]}]
      3:
        type: iteration
        after: {2: else}                # port else of 2; {2: 0} is its case 0
        iterator_selector: 1.text
        output_selector: 3-2.text
        nodes:                          # what runs inside
          3-1: {type: iteration-start}
          3-2: {type: llm, after: 3-1, system: '', user: 'Translate: {{#3.item#}}'}
      4: {type: end, after: [2, 3], outputs: {translation: 3.output}}

A node is ``id: {type, after, …its parameters…, nodes, extra}``. ``after`` is what comes before it: an id, ``{id: port}``,
``{from: id, port: …, input: …, extra: …}``, or a list of these. Where parameters are not a mapping, or have one of these
names, they stand under ``params``.

What a workflow can be and no person would write has a place, too: ``nodes`` as a list of nodes with an ``id``, where
one is there twice; ``inside``, the node that one runs inside of, where it does not stand right below; ``edges``, those
to nodes that are not there, each with ``to``; ``order``, the places that the edges had, where they were not in the order
of the nodes that they lead to (leave it out for that order; it is not heeded where it does not fit).

Parameters are written with names, and variables as ``id.variable`` (`operad.operators.named_params`); the lists of
Chat2Workflow, ``[[text, string]]`` and ``[text, '1']``, are read as well.

``load(dump(graph)) == graph`` for every graph whose values are JSON's: that is the normal form. Ids need no quotes where
they are keys or in ``after``; in parameters, ``'3'`` is a text and ``3`` a number.
"""

from __future__ import annotations

import re
from pathlib import Path

from operad.flows.formats.format import Format, content_of
from operad.flows.formats.operad.plain import is_plain
from operad.flows.formats.operad.read import Reader, document_of
from operad.flows.formats.operad.write import dump
from operad.flows.formats.yaml_over import merged
from operad.flows.node_graph import NodeGraph
from operad.runtime.values.document import MAX_BYTES
from operad.runtime.values.errors import InvalidError, Issue


def load(source: str | bytes | Path, name: str = "workflow") -> NodeGraph:
    """Read a workflow.

    Args:
        source: The content, as text or bytes; or the path of a file.
        name: What to call it where it does not say.

    Raises:
        InvalidError: It is not of that form; every issue is listed with its line.
    """
    return Reader(document_of(content_of(source), name)).graph(name)


def node_lines(data: bytes, name: str = "workflow") -> dict[str, int]:
    """The line of each node of a workflow by its id, counted from 1; for the issues that a check finds.

    Raises:
        InvalidError: As `load`.
    """
    reader = Reader(document_of(data, name))
    reader.graph(name)
    return reader.lines


def is_it(data: bytes) -> bool:
    """Return whether a file begins as these files do."""
    keys = re.findall(rb"^[\"']?(workflow|nodes)[\"']?[ \t]*:", data[:MAX_BYTES], re.MULTILINE)
    return b"nodes" in keys and not re.search(
        rb"^(schema_version|kind|version|app)[ \t]*:", data[:MAX_BYTES], re.MULTILINE
    )


def losses(graph: NodeGraph) -> list[Issue]:
    """Return the values that are not held exactly: those that JSON does not have."""
    of_workflow = [("what is extra of the workflow", "", graph.extra)]
    of_nodes = [
        (what, node.id, value)
        for node in graph.nodes
        for what, value in (("parameters", node.params), ("extra", node.extra))
    ]
    of_edges = [("extra", f"{edge.source} → {edge.target}", edge.extra) for edge in graph.edges]
    return [
        Issue("loss", f"{what}: there are values that are none of JSON's; they are written as texts or lists", where)
        for what, where, value in (*of_workflow, *of_nodes, *of_edges)
        if not is_plain(value)
    ]


def dump_over(graph: NodeGraph, old: bytes) -> bytes:
    """Write a workflow over the file that it was read from.

    Args:
        graph: The workflow after its change.
        old: The file. Nodes and fields that are the same keep their text to the letter, with the comments before
            them; comments on an entry that is gone go with it.

    Returns:
        The file; as `dump` writes it, where the old text cannot be kept.

    Raises:
        InvalidError: Values in it are nested deeper than such a file can be.
    """
    fresh = dump(graph)
    try:
        was = dump(load(old, graph.name), on_one_line=False)
        now = dump(graph, on_one_line=False)
        text = merged(old.decode("utf-8"), was.decode(), now.decode(), fresh.decode())
        kept = text is not None and load(text.encode(), graph.name) == load(fresh, graph.name)
    except (InvalidError, UnicodeDecodeError):
        return fresh
    return text.encode() if text is not None and kept else fresh


OPERAD = Format("operad", ".operad.yaml", is_it, load, dump, losses, lines=node_lines, dump_over=dump_over)
"""Operad's own YAML of typed nodes."""

__all__ = ["OPERAD", "dump", "dump_over", "is_it", "load", "losses", "node_lines"]
