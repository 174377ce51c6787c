"""Format of Coze: the archive ``Workflow-<name>-draft.zip`` with ``MANIFEST.yml`` and ``workflow/<name>-draft.yaml``.

The form of an archive is known from Coze's own documentation, from Chat2Workflow's converter and from archives that
others have published. The bytes are those of Go's ``archive/zip`` without dates, which Coze accepts.

``load(dump(graph))`` is the graph in this normal form:

- references in texts are ``{{#id.variable#}}``, and the logic of an if-else case with at most one condition is null;
- the nodes inside a container follow it, its start node first; edges inside a container come after the edges outside;
- Coze allows one end: several ends become one after a variable_merge with a group for each output, and are read back
  as several, last in the list, with edges in the order of the archive;
- the last class of a question-classifier is also taken if no class fits (Coze's port ``default``).

Data that Coze has no place for (Operad's ids, parameters without a field at Coze, the separate ends) is kept after the
word ``operad`` in the description of the node. It is read as long as the node is not edited in Coze. The description of
the workflow keeps its name, instructions and notes in the same way. Fields of an archive that are not parameters of
Operad are kept in ``extra`` and written back, even if the parameters of the node were changed. `losses` lists the parts
of a workflow that Coze does not run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from operad.flows.formats.format import Format, foreign, without_instructions
from operad.flows.formats.shapes import fields_of, pairs_of
from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.integrations.coze.archive import MAX_ARCHIVE, MAX_FILES, keep_texts, packed, unpacked
from operad.integrations.coze.canvas import is_canvas, read_canvas, write_canvas
from operad.integrations.coze.constants import CONVERSATION, global_name
from operad.integrations.coze.names import is_mixed
from operad.integrations.coze.nodes.conditions import nearest_operator
from operad.integrations.coze.notes import NAME, archived_data, data_to_keep, kept_node
from operad.integrations.coze.read import Reader
from operad.integrations.coze.remarks import remarks_of
from operad.integrations.coze.translation import translate, write_node
from operad.integrations.coze.write import Writer
from operad.operators.conditions import normal
from operad.operators.nodes import NODE_TYPES
from operad.operators.nodes.flow import IfElseParams
from operad.operators.variables import selectors_in
from operad.runtime.values.errors import InvalidError, Issue

# Parts of a workflow that Coze does not run or has no place for.


def losses_of(graph: NodeGraph) -> Iterator[Issue]:
    """Yield the parts of a workflow that Coze does not run or has no place for, each with the id of its node."""
    writer = Writer(graph)
    by_id = graph.by_id
    for spec in graph.nodes:
        if by_id[spec.id] is not spec:
            yield Issue("loss", "a second node with this id", spec.id)
            continue
        yield from (Issue("loss", message, spec.id) for message in _node_losses(spec, writer))
    for edge in graph.edges:
        where = f"{edge.source} → {edge.target}"
        ends = by_id.get(edge.source), by_id.get(edge.target)
        if not (ends[0] and ends[1] and ends[0].parent == ends[1].parent):
            yield Issue("loss", "an edge that leads nowhere, or across the border of a node", where)
        elif edge.input:
            yield Issue("loss", f"the name of the input that the edge fills: {edge.input}", where)
    yield from foreign(graph, NAME)


def _node_losses(spec: NodeSpec, writer: Writer) -> Iterator[str]:
    if spec.id in writer.structure.without_coze_node:
        yield from (
            _variable_losses(spec, writer) if writer.structure.is_end(spec.id) else _constant_losses(spec, writer)
        )
        return
    written = write_node(spec, writer.names)
    if kept_node(archived_data(spec), spec, writer.names):
        return
    kept = data_to_keep(spec, written, writer.names)
    if translate(spec, writer.names) is None:
        yield f"Coze has no {spec.type!r} with these parameters; it is written as a plugin that it cannot run"
    else:
        if kept:
            names = ", ".join([*fields_of(kept.get("params")), *kept.get("without", ())])
            yield f"Coze has no field for {names}, or not for all of it; it is kept in the description"
        yield from _variable_losses(spec, writer)
        yield from _condition_losses(spec, writer)
    params = fields_of(spec.params)
    if written.type == "text" and re.search(r"\{%|\{#|\{\{[^{}]*[|(]", str(params.get("template"))):
        yield "template: Coze only puts variables in, and knows nothing else of Jinja"
    for name, text in params.items() if written.type == "plugin" else ():
        if isinstance(text, str) and is_mixed(text):
            yield f"{name}: Coze takes a text or a variable for a plugin, not both; make it in a template before"
    if spec.parent and spec not in writer.structure.children.get(spec.parent, ()):
        yield f"that it runs inside {spec.parent!r}"


def _constant_losses(spec: NodeSpec, writer: Writer) -> Iterator[str]:
    """Yield the first values of variables of the user, the app and the system, which Coze keeps elsewhere."""
    for name, _, value in pairs_of(fields_of(spec.params).get("variables"), 3) if spec.id == CONVERSATION else ():
        if value and global_name(writer.structure.constants[name]):
            yield f"the first value of {name}, which Coze keeps elsewhere"


def _condition_losses(spec: NodeSpec, writer: Writer) -> Iterator[str]:
    """Yield the operators of conditions that Coze lacks, with those that are written."""
    for case in IfElseParams.model_validate(spec.params).cases if spec.type == "if-else" else ():
        for each in case.conditions:
            if (nearest := nearest_operator(each, writer.names)) != normal(each.operator):
                yield f"{each.variable}: Coze has no {each.operator!r} here; {nearest!r} is written"


def _variable_losses(spec: NodeSpec, writer: Writer) -> Iterator[str]:
    """Yield the variables that a node reads and Coze lacks: names of classes, which have numbers there, and reports."""
    params = NODE_TYPES[spec.type].params_type.model_validate(spec.params)
    by_id = writer.structure.graph.by_id
    selectors = (
        selector for name in type(params).model_fields for _, selector, _ in selectors_in(getattr(params, name))
    )
    for selector in dict.fromkeys(selectors):
        source, name = by_id.get(selector.node), selector.variable.partition(".")[0]
        if source and source.type in NODE_TYPES and name in NODE_TYPES[source.type].reports:
            yield f"{selector}: nodes of this type have no {name} at Coze; do without it"
        elif source and source.type == "question-classifier" and name == "class_name":
            yield (
                f"{selector}: Coze gives the number of the class as classificationId, and not its name; "
                "branch on the ports of the question-classifier instead"
            )


def _read(data: bytes, name: str) -> NodeGraph:
    return Reader(unpacked(data, name), name).graph


def _write(graph: NodeGraph) -> bytes:
    writer = Writer(graph)
    return packed(writer.name, writer.flow, writer.about, writer.others)


def _dump_over(graph: NodeGraph, old: bytes) -> bytes:
    """Return the archive of a changed workflow; files in it keep the text of what is unchanged."""
    new, name = _write(graph), graph.name
    try:
        made = keep_texts(old, _write(_read(old, name)), new)
        return made if _read(made, name) == _read(new, name) else new
    except InvalidError:  # the old file is not such archive
        return new


def is_it(data: bytes) -> bool:
    """Return True if a file is an archive with a ``MANIFEST.yml``."""
    return data[:4] == b"PK\x03\x04" and b"MANIFEST.yml" in data[:MAX_ARCHIVE]


COZE = Format(NAME, ".coze.zip", is_it, _read, _write, losses_of, dump_over=_dump_over, remarks=remarks_of)
"""Format of the archives of Coze."""


def _canvas_losses(graph: NodeGraph) -> Iterator[Issue]:
    yield from losses_of(graph)
    yield from without_instructions(graph)


COZE_CANVAS = Format("coze-canvas", ".coze.json", is_canvas, read_canvas, write_canvas, _canvas_losses)
"""Format of the canvas of Coze Studio; `COZE` has the remarks on both forms."""

load, dump, losses = COZE.load, COZE.dump, COZE.losses

__all__ = ["COZE", "COZE_CANVAS", "MAX_ARCHIVE", "MAX_FILES", "dump", "is_it", "load", "losses"]
