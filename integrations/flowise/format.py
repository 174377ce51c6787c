"""Format of Flowise: the JSON that it exports for an AgentFlow v2.

A node of Flowise becomes one node of Operad with its id, and where it does more, others before and behind it, whose ids
begin with its own: code that computes a text, an assigner that updates the state of the flow, the answer after a last
node. The file is kept in ``extra["flowise"]``; `_write` puts changes into it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from operad.flows.formats.format import Format, foreign, without_instructions
from operad.flows.formats.json_text import read_text, write_json
from operad.flows.formats.shapes import Fields, fields_of, json_or_text, list_of
from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.integrations.flowise.draft import with_secrets
from operad.integrations.flowise.flow_file import FlowFile, is_it, read_file
from operad.integrations.flowise.nodes import WRITERS
from operad.integrations.flowise.notes import read_notes
from operad.integrations.flowise.read import read_flow
from operad.integrations.flowise.remarks import remarks_of, same
from operad.integrations.flowise.write import NAME, Writer, title_in
from operad.runtime.values.errors import InvalidError, Issue


def _read(data: bytes, name: str) -> NodeGraph:
    file = read_file(data, name)
    try:
        draft, secrets = with_secrets(read_flow(file))
    except InvalidError as error:
        raise InvalidError(name, error.issues) from error
    extra: Fields = {"file": file.root} | ({"secrets": secrets} if secrets else {})
    nodes = [
        replace(spec, title=title_in(node)) if (node := file.nodes.get(spec.id)) else spec
        for spec in draft.specs.values()
    ]
    return NodeGraph(nodes, draft.edges, name, {NAME: extra}, sticky_notes=read_notes(file.root["nodes"]))


def _write(graph: NodeGraph) -> bytes:
    return write_json(Writer(graph).root)


_ID = re.compile(r'"id"\s*:\s*("(?:[^"\\]|\\.)*")')


def node_lines(data: bytes) -> dict[str, int]:
    """Return the line of each node by its id, from 1: the line of the first key ``"id"`` with that value."""
    lines: dict[str, int] = {}
    for number, line in enumerate(read_text(data, NAME).splitlines(), 1):
        for found in _ID.finditer(line):
            lines.setdefault(str(json_or_text(found[1])), number)
    return lines


# Parts of a workflow that a file cannot hold, or that Flowise does otherwise.

_ALIKE = {("end", "answer"), ("http-request", "request"), ("assigner", "code"), ("template-transform", "code"),
          ("variable-aggregator", "code")}  # fmt: skip
"""Types that are written as a node of another type with the same result."""


def losses_of(graph: NodeGraph) -> Iterator[Issue]:
    """Yield the parts of a workflow that a file does not hold: what reading the written file does not give back."""
    writer = Writer(graph)
    try:
        again = read_flow(FlowFile(writer.root))
    except InvalidError as error:
        yield from (Issue("loss", issue.message, issue.where) for issue in error.issues)
        return
    with_secrets(again)
    for spec in graph.nodes:
        if same(spec, writer.before.specs.get(spec.id)):
            continue  # it stands in the file; what it has of other nodes follows them
        yield from (Issue("loss", says, spec.id) for says in _node_losses(spec, again.specs.get(spec.id)))
    pairs = {(edge.source, edge.target, edge.port) for edge in again.edges}
    for edge in graph.edges:
        ends = graph.by_id.get(edge.source), graph.by_id.get(edge.target)
        known = all(end and end.id in again.specs for end in ends)
        plain = not any(
            end and f"{end.id}_{tail}" in again.specs
            for end in ends
            for tail in ("state", "items", "content", "data", "answer")
        )
        if edge not in writer.before.edges and known and plain and (edge.source, edge.target, edge.port) not in pairs:
            yield Issue("loss", "the edge", f"{edge.source} → {edge.target}")
    yield from without_instructions(graph)
    yield from foreign(graph, NAME)


def _node_losses(spec: NodeSpec, written: NodeSpec | None) -> Iterator[str]:
    if written is None:
        if spec.type not in ("iteration-start", "loop-start", "conversation"):
            kind = WRITERS.get(spec.type, ("",))[0]
            yield f"{spec.type!r}: " + ("its place" if kind else "Flowise has no such node; the node is left out")
        return
    if (spec.type, written.type) in _ALIKE:
        return
    if spec.type != written.type:
        yield f"{spec.type!r} is written as {written.type!r}"
        return
    params, others = fields_of(spec.params), fields_of(written.params)
    names = [
        key
        for key in {**params, **others}
        if params.get(key) != others.get(key) and (params.get(key) or others.get(key))
    ]
    if spec.type == "code" and params.get("language") == "javascript" and len(list_of(params.get("outputs"))) == 1:
        return
    if names:
        yield f"Flowise has no field for {', '.join(names)}, or not for all of it"


FLOWISE = Format(
    name=NAME,
    suffix=".flowise.json",
    is_it=is_it,
    reader=_read,
    writer=_write,
    lost=losses_of,
    lines=node_lines,
    remarks=remarks_of,
    keeps_notes=True,
)
"""Format of the files of AgentFlow v2."""

load, dump, losses = FLOWISE.load, FLOWISE.dump, FLOWISE.losses
