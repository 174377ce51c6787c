"""Format of Dify: workflow files in its DSL, YAML, of versions 0.1 to 0.6; written as version 0.4.0.

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
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any, NamedTuple

from operad.flows.check import CONVERSATION
from operad.flows.formats.format import Format, Greeting, foreign
from operad.flows.formats.kept_text import keep_text
from operad.flows.formats.overlay import apply_difference
from operad.flows.formats.shapes import Fields, fields_of, list_of, texts_of
from operad.flows.formats.yaml_text import read_yaml, write_yaml
from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.integrations.dify.apps import app_of_graph
from operad.integrations.dify.layout import GAP, HEIGHT, WIDTH
from operad.integrations.dify.names import OUTSIDE, fits_text
from operad.integrations.dify.nodes import MAPPED
from operad.integrations.dify.nodes.flow import INPUTS
from operad.integrations.dify.notes import is_note, note_losses
from operad.integrations.dify.plugins import model_named
from operad.integrations.dify.read import as_app, as_bare, line_of_nodes, read
from operad.integrations.dify.remarks import remarks_of
from operad.integrations.dify.write import EXTRA, Writer, kept, plain, values_of
from operad.operators.conditions import LENGTHS, Condition
from operad.operators.node import NodeOperator
from operad.operators.nodes import NODE_TYPES
from operad.operators.nodes.containers import LoopParams
from operad.operators.nodes.extractor import ExtractorParams
from operad.operators.nodes.flow import IfElseParams, StartParams
from operad.operators.nodes.values import AssignerParams, CodeParams
from operad.operators.variables import Selector, Text, VariableType
from operad.runtime.values.errors import InvalidError, Issue

# Parts of a workflow that a Dify file cannot hold or Dify cannot run.

T = VariableType


def losses_of(graph: NodeGraph) -> Iterator[Issue]:
    """Yield the parts of a workflow that a file cannot hold."""
    for spec in graph.nodes:
        yield from (Issue("loss", message, spec.id) for message in _node_losses(spec))
    for edge in graph.edges:
        where = f"{edge.source} → {edge.target}"
        if edge.input:
            yield Issue("loss", f"that the edge fills the input {edge.input!r} is left out", where)
    if (config := kept(graph.extra).get("config")) and _app_values(graph) is None:
        yield Issue(
            "loss",
            f"the app is written with the mode advanced-chat, as its mode {fields_of(config).get('mode')!r} has no place "
            "for what was changed: it has a start, a model or an agent, and an answer; other settings of it are left out",
            "app",
        )
    yield from note_losses(graph.sticky_notes)
    yield from foreign(graph, EXTRA)


def models_named(graph: NodeGraph) -> Iterator[Issue]:
    """Yield the models that a file names for nodes that name none, since Dify requires one."""
    for spec in graph.nodes:
        if kept(spec.extra) or fields_of(spec.params).get("model_name"):
            continue
        if named := model_named(spec.type):
            yield Issue(
                "note", f"the file names the model {named}, as the node names none; choose another one there", spec.id
            )


def _app_values(graph: NodeGraph) -> Fields | None:
    """Return the values of an app that has a configuration instead of a graph; None if it cannot hold the workflow."""
    config = fields_of(kept(graph.extra).get("config"))
    if not config:
        return None
    values = app_of_graph(values_of(graph), config)
    try:
        again = read(read_yaml(write_yaml(values), graph.name), graph.name)
    except InvalidError:
        return None
    return values if _what_runs(again) == _what_runs(graph) else None


def _what_runs(graph: NodeGraph) -> Any:
    """Return what determines a run, with defaults, and without inputs from outside, which follow from what nodes read."""
    nodes: list[Any] = []
    for spec in graph.nodes:
        node_type = NODE_TYPES.get(spec.type)
        with suppress(InvalidError):
            spec = replace(spec, params=node_type(spec.id, spec.params).params.model_dump()) if node_type else spec
        params = fields_of(plain(spec.params))
        if spec.type == "start":
            inputs = [each for each in list_of(params.get("variables")) if not _is_outside(each)]
            params = {**params, "variables": inputs}
        nodes.append((spec.id, spec.type, spec.parent, params))
    return nodes, [(edge.source, edge.target, edge.port) for edge in graph.edges]


def _is_outside(declared: Any) -> bool:
    return any(isinstance(name, str) and name.partition(".")[0] in OUTSIDE for name in list_of(declared)[:1])


def _node_losses(spec: NodeSpec) -> Iterator[str]:
    if spec.type not in MAPPED and spec.type != CONVERSATION:
        if not kept(spec.extra):
            yield f"Dify has no node of type {spec.type!r}; it is written with that name, and cannot run there"
        return
    node_type = NODE_TYPES.get(spec.type)
    try:
        node = node_type(spec.id, spec.params) if node_type else None
    except InvalidError:
        return
    if node is not None:
        yield from _name_losses(node)
        yield from _param_losses(node.params)


def _name_losses(node: NodeOperator[Any]) -> Iterator[str]:
    for selector in dict.fromkeys(each for text in node.texts for each in text.selectors):
        if not fits_text(selector.variable):
            yield (
                f"{selector.variable!r} cannot be named in a text there: names are at most 30 letters, digits and "
                "underscores of ASCII"
            )


def _param_losses(params: Any) -> Iterator[str]:
    match params:
        case StartParams():
            yield from _input_losses(params)
        case CodeParams():
            for output in params.outputs:
                if output.type.is_file or output.type in (T.ANY, T.ARRAY):
                    yield f"the output {output.name!r} is {output.type.value}, which code does not give there"
        case ExtractorParams() if any(parameter.type is T.OBJECT for parameter in params.parameters):
            yield "a parameter is an object, which is not read out of texts there"
        case AssignerParams():
            yield from _assignment_losses(params)
        case LoopParams():
            yield from _condition_losses(params.break_conditions)
            if params.lists or params.collected:
                yield "lists, collected: a loop goes through no lists there, and gives only its variables"
        case IfElseParams():
            yield from _condition_losses([each for case in params.cases for each in case.conditions])
        case _:
            pass


def _condition_losses(conditions: Sequence[Condition]) -> Iterator[str]:
    for each in conditions:
        if each.operator in LENGTHS:
            yield f"{each.variable}: there is no comparison {each.operator!r} there"


def _input_losses(params: StartParams) -> Iterator[str]:
    for name, kind in params.variables:
        if kind.value not in INPUTS and name.partition(".")[0] not in OUTSIDE:
            yield f"the input {name!r} is {kind.value}, and becomes a text there"


def _assignment_losses(params: AssignerParams) -> Iterator[str]:
    for number, (_, operation, value) in enumerate(params.assignments):
        if operation in ("append", "extend") and not isinstance(value, Selector):
            yield f"assignments[{number}]: {operation} takes a variable there, and not a value itself"
        elif isinstance(value, Text) and value.selectors:
            yield f"assignments[{number}]: what a text names is not put in there"


# Positions of the nodes of a changed file: old nodes stay, new ones go to the right of their predecessors.

_PLACE_KEYS = ("position", "positionAbsolute", "width", "height")
_FAR = 1e9


class _Box(NamedTuple):
    """Position and size of a node, in pixels from the top left of its container."""

    x: float
    y: float
    width: float
    height: float


def keep_positions(nodes: Iterable[Fields], edges: Iterable[Fields], old: Iterable[Fields]) -> list[Fields]:
    """Return the nodes of a changed file in their order; nodes of the old file keep their positions.

    Args:
        nodes: The nodes, laid out as if all were new.
        edges: The edges.
        old: The nodes of the file before the change.
    """
    listed = list(nodes)
    placed = {str(node.get("id")): node for node in listed if not is_note(node)}
    notes = {at: node for at, node in enumerate(listed) if is_note(node)}
    old_nodes = {str(node.get("id")): node for node in old}
    predecessors: dict[str, list[str]] = {}
    for edge in edges:
        predecessors.setdefault(str(edge.get("target")), []).append(str(edge.get("source")))
    boxes_by_level: dict[str, dict[str, _Box]] = {}
    for node_id, node in placed.items():
        if node_id in old_nodes and _container_id(old_nodes[node_id]) == _container_id(node):
            placed[node_id] = {
                **node,
                **{key: old_nodes[node_id][key] for key in _PLACE_KEYS if key in old_nodes[node_id]},
            }
            boxes_by_level.setdefault(_container_id(node), {})[node_id] = _box(placed[node_id])
    new_ids = [
        node_id for node_id, node in placed.items() if node_id not in boxes_by_level.get(_container_id(node), {})
    ]
    for node_id in sorted(new_ids, key=lambda node_id: _box(placed[node_id]).x):
        boxes = boxes_by_level.get(_container_id(placed[node_id]), {})
        if boxes:  # a level with old nodes; on a level of new nodes only, the layout stays
            boxes[node_id] = _free_box(
                _box(placed[node_id]),
                [boxes[each] for each in predecessors.get(node_id, ()) if each in boxes],
                boxes.values(),
            )
            placed[node_id] = {**placed[node_id], "position": {"x": boxes[node_id].x, "y": boxes[node_id].y}}
    for container_id in {_container_id(placed[node_id]) for node_id in new_ids} & placed.keys():
        placed[container_id] = _enlarged(placed[container_id], boxes_by_level.get(container_id, {}).values())
    for node_id in new_ids:
        placed[node_id] = {**placed[node_id], "positionAbsolute": _absolute_position(node_id, placed)}
    kept = list(placed.values())
    for at, note in notes.items():
        kept.insert(at, note)
    return kept


def keep_titles(nodes: Iterable[Fields], old: Iterable[Fields], renamed: Collection[str]) -> list[Fields]:
    """Return the nodes of a changed file; those of the old file keep their titles, and new ones get titles of their own.

    Args:
        nodes: The nodes, with default titles that are numbered by type as if all were new.
        old: The nodes of the file before the change.
        renamed: Ids of nodes that have been given another title since.
    """
    data_by_id = {str(node.get("id")): fields_of(node.get("data")) for node in old}
    taken = {str(data.get("title")) for data in data_by_id.values()}
    titled: list[Fields] = []
    for node in nodes:
        data, old_data = fields_of(node.get("data")), data_by_id.get(str(node.get("id")), {})
        title = str(data.get("title", ""))
        if node.get("id") in renamed:
            pass
        elif "title" in old_data and old_data.get("type") == data.get("type"):
            title = old_data["title"]
        elif title and title in taken:
            stem = re.sub(r" \d+$", "", title)
            title = next(name for number in count(2) if (name := f"{stem} {number}") not in taken)
        taken.add(str(title))
        titled.append({**node, "data": {**data, "title": title}} if title != data.get("title", "") else node)
    return titled


def _container_id(node: Fields) -> str:
    return str(node.get("parentId") or "")


def _free_box(box: _Box, predecessors: list[_Box], taken: Iterable[_Box]) -> _Box:
    """Return the box to the right of its predecessors, moved down until it overlaps no other box."""
    if predecessors:
        x = max(each.x + each.width for each in predecessors) + GAP
        box = box._replace(x=x, y=predecessors[0].y)
    for other in sorted(taken, key=lambda other: other.y):
        overlaps_x = other.x < box.x + box.width and box.x < other.x + other.width
        if overlaps_x and other.y < box.y + box.height and box.y < other.y + other.height:
            box = box._replace(y=other.y + other.height + GAP)
    return box


def _enlarged(node: Fields, inside: Iterable[_Box]) -> Fields:
    """Return a container, enlarged for the nodes inside it."""
    box = _box(node)
    width = max([box.width, *(each.x + each.width + GAP for each in inside)])
    height = max([box.height, *(each.y + each.height + GAP for each in inside)])
    return {**node, "width": width, "height": height}


def _absolute_position(node_id: str, nodes: dict[str, Fields]) -> Fields:
    """Return the position of a node on the canvas."""
    x: float = 0
    y: float = 0
    visited: set[str] = set()
    while node_id in nodes and node_id not in visited:
        visited.add(node_id)
        box = _box(nodes[node_id])
        x, y = x + box.x, y + box.y
        node_id = _container_id(nodes[node_id])
    return {"x": x, "y": y}


def _box(node: Fields) -> _Box:
    at = fields_of(node.get("position"))
    return _Box(
        _number(at.get("x")),
        _number(at.get("y")),
        _number(node.get("width"), WIDTH),
        _number(node.get("height"), HEIGHT),
    )


def _number(value: Any, default: float = 0.0) -> float:
    """Return a number of a file; the default for any other value."""
    is_valid = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _FAR  # no NaN either
    return value if is_valid else default


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
    rb"""^operad\b(?![ \t]*:)|["']?\b(schema_version|param|nodes_info|last_node_id|class_type|source_node)["']?\s*:"""
    rb"""|\bmodel["']?\s*:\s*\{?\s*(?:[\w"']+\s*:[^\n{},]*[\n,]\s*)*["']?params["']?\s*:"""
    rb"""|["'](inputParams|inputAnchors|[a-zA-Z]+Agentflow)["']""",
    re.MULTILINE,
)
"""Keys in files of other formats: Operad's, Chat2Workflow's, ComfyUI's, Coze's, Flowise's."""


def _read(data: bytes, name: str) -> NodeGraph:
    return read(read_yaml(data, name), name)


def _write(graph: NodeGraph) -> bytes:
    return write_yaml(_app_values(graph) or values_of(graph))


def dump_over(graph: NodeGraph, old: bytes) -> bytes:
    """Return the file of a changed workflow that keeps the text of the file from which it was read.

    Args:
        graph: The changed workflow.
        old: The file from which it was read. Nodes keep their positions on the canvas, and new nodes are placed to the
            right of their predecessors. Unchanged values keep their exact text and the comments before them.

    Returns:
        The file; in the normal form if the old text cannot be kept.
    """
    new_values = _app_values(graph)
    try:
        old_values = read_yaml(old, "the file")
        before = read(old_values, graph.name)
        was = _app_values(before) or as_bare(values_of(before), old_values.value)
        if new_values is None:
            named = {spec.id: spec.title for spec in before.nodes}
            renamed = {dify for id_, dify in Writer(graph).ids.items() if graph.by_id[id_].title != named.get(id_, "")}
            old_nodes = as_app(old_values.value)["workflow"]["graph"]["nodes"]
            new_values = _kept_on_canvas(values_of(graph), old_nodes, renamed)
            bare = as_bare(new_values, old_values.value)
            is_whole = _what_runs(read(read_yaml(write_yaml(bare), graph.name), graph.name)) == _what_runs(graph)
            new_values = bare if is_whole else new_values
    except InvalidError:
        return write_yaml(new_values or values_of(graph))
    return keep_text(old, write_yaml(was), write_yaml(new_values), lambda data: read_yaml(data, "the file").value)


def _kept_on_canvas(values: Fields, old: Iterable[Fields], renamed: Collection[str]) -> Fields:
    """Return the values of a changed file, whose nodes keep the titles and the positions that they had."""
    graph = values["workflow"]["graph"]
    nodes = keep_positions(keep_titles(graph["nodes"], old, renamed), graph["edges"], old)
    return {**values, "workflow": {**values["workflow"], "graph": {**graph, "nodes": nodes}}}


def greeting(graph: NodeGraph) -> Greeting:
    """Return the opening statement and the suggested questions of an app."""
    if EXTRA not in graph.extra:
        return Greeting()
    said = fields_of(apply_difference(Writer(graph).rest, kept(graph.extra).get("rest"))["workflow"].get("features"))
    text = said.get("opening_statement")
    questions = tuple(each for each in texts_of(said.get("suggested_questions")) if each.strip())
    return Greeting(text.strip() if isinstance(text, str) else "", questions)


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
    greeting=greeting,
    models=models_named,
    keeps_notes=True,
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
]
