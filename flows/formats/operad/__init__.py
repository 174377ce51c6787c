"""Operad's own YAML of a workflow of typed nodes, for people to read and write.

    workflow: translate
    instructions: [Translate a text.]   # what it was made from, round by round
    nodes:
      1: {type: start, variables: [[text, string]]}
      2:
        type: if-else
        after: 1
        cases: [[null, [[[text, '1'], empty]]]]
      3:
        type: iteration
        after: {2: else}                # port else of 2; {2: 0} is its case 0
        iterator_selector: [text, '1']
        output_selector: [text, 3-2]
        nodes:                          # what runs inside
          3-1: {type: iteration-start}
          3-2: {type: llm, after: 3-1, system: '', user: 'Translate: {{#3.item#}}'}
      4: {type: end, after: [2, 3], outputs: [[translation, [output, '3']]]}

A node is ``id: {type, after, …its parameters…, nodes, extra}``. ``after`` is what comes before it: an id, ``{id: port}``,
``{from: id, port: …, input: …, extra: …}``, or a list of these. Where parameters are no mapping, or have one of these
names, they stand under ``params``.

What a workflow can be and no person would write has a place, too: ``nodes`` as a list of nodes with an ``id``, where
one is there twice; ``inside``, the node that one runs inside of, where it does not stand right below; ``edges``, those
to nodes that are not there, each with ``to``; ``order``, the places that the edges had, where they were not in the order
of the nodes that they lead to (leave it out for that order; it is not heeded where it does not fit).

``load(dump(graph)) == graph`` for every graph whose values are JSON's: that is the normal form. Ids need no quotes where
they are keys or in ``after``; in parameters, ``'3'`` is a text and ``3`` a number.
"""

from __future__ import annotations

import re

from operad.flows.formats.format import Format
from operad.flows.formats.operad.plain import is_plain
from operad.flows.formats.operad.read import Reader, document_of
from operad.flows.formats.operad.write import dump
from operad.flows.node_graph import NodeGraph
from operad.runtime.values.document import MAX_BYTES
from operad.runtime.values.errors import Issue


def load(data: bytes, name: str = "workflow") -> NodeGraph:
    """Read a workflow.

    Args:
        data: The YAML.
        name: What to call it where it does not say.

    Raises:
        InvalidError: It is not of that form; every issue is listed with its line.
    """
    return Reader(document_of(data, name)).graph(name)


def node_lines(data: bytes, name: str = "workflow") -> dict[str, int]:
    """The line of each node of a workflow by its id, counted from 1; for the issues that a check finds.

    Raises:
        InvalidError: As `load`.
    """
    reader = Reader(document_of(data, name))
    reader.graph(name)
    return reader.lines


def is_it(data: bytes) -> bool:
    """Whether it begins as these files do."""
    keys = re.findall(rb"^[\"']?(workflow|nodes)[\"']?[ \t]*:", data[:MAX_BYTES], re.MULTILINE)
    return b"nodes" in keys and not re.search(
        rb"^(schema_version|kind|version|app)[ \t]*:", data[:MAX_BYTES], re.MULTILINE
    )


def losses(graph: NodeGraph) -> list[Issue]:
    """What is not held exactly: values that are none of JSON's."""
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


OPERAD = Format("operad", ".operad.yaml", is_it, load, dump, losses, lines=node_lines)
"""Operad's own YAML of typed nodes."""

__all__ = ["OPERAD", "dump", "is_it", "load", "losses", "node_lines"]
