"""Format of Operad: YAML of typed nodes for people to read and write.

    workflow: translate
    instructions: [Translate a text.]   # the instructions it was generated from, round by round
    notes: [Only plain text.]           # what it does not fulfil, and assumptions
    samples: {5: {temp: 21}}            # what other systems answer to nodes, for dry runs and tests; runs ignore them
    sticky_notes:                       # notes on the canvas, in Markdown; runs ignore them
      1: {text: Mind the **opening hours**., color: blue, at: [0, -160], size: [240, 120]}
    nodes:
      1: {type: start, variables: {text: string}}
      2:
        type: if-else
        title: Anything to do?
        after: 1
        cases: [{conditions: [{variable: 1.text, operator: empty}]}]
      3:
        type: iteration
        after: {2: else}                # port else of 2; {2: 0} is its case 0
        iterator_selector: 1.text
        output_selector: 3-2.text
        nodes:                          # the nodes inside
          3-1: {type: iteration-start}
          3-2: {type: llm, after: 3-1, system: '', user: 'Translate: {{#3.item#}}'}
      4: {type: end, after: [2, 3], outputs: {translation: 3.output}}

A node is ``id: {type, title, after, …parameters…, nodes, extra}``. ``after`` names the predecessors: an id, ``{id: port}``,
``{from: id, port: …, input: …, extra: …}``, or a list of these. Parameters are written under ``params`` if they are not
a mapping, or if one has the name of another key of a node.

Every graph can be written, even an invalid one. ``nodes`` is a list of nodes with an ``id`` if an id occurs twice.
``inside`` names the container of a node that is not written right below it. ``edges`` lists the edges to missing nodes,
each with ``to``. ``order`` lists the numbers of the edges if they are not in the order of their targets; it may be left
out, and is ignored if it does not fit.

Parameters are written with names, and variables as ``id.variable`` (`operad.operators.named_params`); the lists of
Chat2Workflow, ``[[text, string]]`` and ``[text, '1']``, can be read, too.

``load(dump(graph)) == graph`` holds for every graph of JSON values. Ids need no quotes as keys and in ``after``; in
parameters, ``'3'`` is a text and ``3`` a number.
"""

from __future__ import annotations

import re

from operad.flows.formats.format import Format
from operad.flows.formats.operad.read import Reader, document_of
from operad.flows.formats.operad.write import dump
from operad.flows.formats.plain import is_plain
from operad.flows.node_graph import NodeGraph
from operad.runtime.values.document import MAX_BYTES
from operad.runtime.values.errors import Issue


def _read(data: bytes, name: str) -> NodeGraph:
    return Reader(document_of(data, name)).graph(name)


def node_lines(data: bytes, name: str = "workflow") -> dict[str, int]:
    """Return the line of each node of a workflow by its id, from 1.

    Raises:
        InvalidError: The content is not such a file.
    """
    reader = Reader(document_of(data, name))
    reader.graph(name)
    return reader.lines


def is_it(data: bytes) -> bool:
    """Return True if a file has the keys of such a file, no key of another format, and no list of tasks as its nodes."""
    keys = re.findall(rb"^[\"']?(workflow|nodes)[\"']?[ \t]*:", data[:MAX_BYTES], re.MULTILINE)
    return (
        b"nodes" in keys
        and not re.search(
            rb"^(schema_version|kind|version|app|viewport)[ \t]*:"
            rb"|^edges[ \t]*:[ \t]*\r?\n(?:[ \t-][^\n]*\n){0,9}?[ \t-][^\n]*\bsource[\"']?[ \t]*:"  # ours lead `from` and `to`
            rb"|^nodes[ \t]*:[ \t]*(?:\r?\n[ \t]*\d+[:.)][ \t]*)?[^\s{\[#]",
            data[:MAX_BYTES],
            re.MULTILINE,
        )
    )


def _losses(graph: NodeGraph) -> list[Issue]:
    """Return the values that are not kept exactly: those that JSON does not have."""
    of_workflow = [("what is extra of the workflow", "", graph.extra), ("a sample of an answer", "", graph.samples)]
    of_workflow += [("extra of a sticky note", "", note.extra) for note in graph.sticky_notes]
    of_nodes = [
        (subject, node.id, value)
        for node in graph.nodes
        for subject, value in (("parameters", node.params), ("extra", node.extra))
    ]
    of_edges = [("extra", f"{edge.source} → {edge.target}", edge.extra) for edge in graph.edges]
    return [
        Issue("loss", f"{subject}: there are values that are none of JSON's; they are written as texts or lists", where)
        for subject, where, value in (*of_workflow, *of_nodes, *of_edges)
        if not is_plain(value)
    ]


OPERAD = Format("operad", ".operad.yaml", is_it, _read, dump, _losses, lines=node_lines, keeps_notes=True)
"""Format of Operad's own YAML of typed nodes."""

load, losses = OPERAD.load, OPERAD.losses

__all__ = ["OPERAD", "dump", "is_it", "load", "losses", "node_lines"]
