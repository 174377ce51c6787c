"""The three forms of a ComfyUI workflow: what the page saves, what a server runs, and code."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

from operad.flows.formats.comfyui.api import dump_nodes, is_api, load_api
from operad.flows.formats.comfyui.checking import check
from operad.flows.formats.comfyui.code import dump_code
from operad.flows.formats.comfyui.definitions import Definitions
from operad.flows.formats.comfyui.flattening import executable
from operad.flows.formats.comfyui.parsing import load_code
from operad.flows.formats.comfyui.ui import dump_document, is_ui, load_ui, subgraphs
from operad.flows.formats.comfyui.widgets import places, values_of
from operad.flows.formats.comfyui.written import (
    BYPASSED,
    MUTED,
    NAME,
    is_virtual,
    mode_of,
    node_of,
    title_of,
    ui_of,
)
from operad.flows.formats.format import Format, content_of, foreign, without_instructions
from operad.flows.formats.json_text import read_json, read_text, write_json
from operad.flows.node_graph import NodeGraph
from operad.operators.comfyui.reading import list_of, mapping_of
from operad.runtime.values.errors import InvalidError, Issue

_CHOICE = re.compile(r"(?<!\\)\{[^{}]*\|[^{}]*\}")
"""Parts of a prompt of which the page sends one."""

_PLACEHOLDER = re.compile(r"%(?:date(?::[^%]*)?|\w[^%.\n]*\.\w+)%")
"""Part of a value for which the page puts in the date, or the value of another node."""

NO_DEFINITIONS = Definitions()
"""Definitions without a server: none."""


def load(source: str | bytes | Path, name: str = "workflow") -> NodeGraph:
    """The graph of a file in any of the three forms.

    Raises:
        InvalidError: It is of none of them; every issue is listed.
    """
    text = read_text(content_of(source), name)
    if not text.lstrip().startswith(("{", "[", '"')):
        return load_code(text, name)
    data = read_json(text, name)
    if is_ui(data):
        return load_ui(data, name)
    if isinstance(data, dict) and not {"nodes", "links"} & data.keys():
        return load_api(mapping_of(data), name)
    what = 'must be an object with lists "nodes" and "links", or of ids to {class_type, inputs}'
    raise InvalidError(name, [Issue("format", what, name)])


def dump(graph: NodeGraph, definitions: Definitions = NO_DEFINITIONS) -> bytes:
    """A graph as the page saves it: exactly what it was, but for what was changed.

    Args:
        graph: The graph. Nodes that do not come from the page are laid out; their ids become numbers.
        definitions: The classes, by which these get their slots and widgets.
    """
    return write_json(dump_document(graph, definitions))


def dump_api(graph: NodeGraph, definitions: Definitions = NO_DEFINITIONS) -> bytes:
    """A graph as a server runs it; `executable` says what becomes of what the page saved.

    Raises:
        InvalidError: A subgraph contains itself, there are too many nodes, or two have one id.
    """
    return write_json(dump_nodes(executable(graph, definitions)))


def losses(graph: NodeGraph) -> list[Issue]:
    """Return the parts of a graph that the page's form cannot hold without definitions."""
    return [*_foreign(graph), *_misplaced(graph)]


def _api_losses(graph: NodeGraph, definitions: Definitions) -> list[Issue]:
    return [*_foreign(graph), *_looks(graph), *_unnamed(graph, definitions), *_left_out(graph), *_replaced(graph)]


def _code_losses(graph: NodeGraph, definitions: Definitions) -> list[Issue]:
    return [*_foreign(graph), *_looks(graph), *_unnamed(graph, definitions), *_unsaid(graph)]


def _foreign(graph: NodeGraph) -> Iterator[Issue]:
    """Yield the data of other platforms, and of workflows that come from elsewhere."""
    yield from foreign(graph, NAME)
    yield from without_instructions(graph)
    for spec in graph.nodes:
        if spec.parent:
            yield Issue("loss", f"that it runs inside {spec.parent!r}", spec.id)
        if not isinstance(spec.params, dict):
            yield Issue("loss", "its parameters, which are not an object", spec.id)
    for edge in graph.edges:
        if not edge.input and ui_of(edge) is None:
            yield Issue("loss", "the edge, as it fills no input", f"{edge.source} → {edge.target}")


def _misplaced(graph: NodeGraph) -> Iterator[Issue]:
    """Values that were changed and whose places the file does not tell."""
    for spec in graph.nodes:
        if ui_of(spec) is not None:
            where, before = places(spec), values_of(replace(spec, params={}))
            for name, value in mapping_of(spec.params).items():
                if name not in where and before.get(name) != value:
                    yield Issue("loss", f"the value of {name!r}, as the file does not tell its place", spec.id)


def _looks(graph: NodeGraph) -> Iterator[Issue]:
    if ui_of(graph) is not None or any(ui_of(spec) is not None for spec in graph.nodes):
        yield Issue("loss", "places, sizes, colours, groups and what else the page says besides what is run")


def _unnamed(graph: NodeGraph, definitions: Definitions) -> Iterator[Issue]:
    for spec in graph.nodes:
        written = list_of(node_of(spec).get("widgets_values"))
        if written and not places(spec, definitions.get(spec.type)):
            yield Issue("loss", "its values, as the file does not tell their names; give definitions", spec.id)


def _left_out(graph: NodeGraph) -> Iterator[Issue]:
    for spec in graph.nodes:
        if is_virtual(spec) or mode_of(spec) in (MUTED, BYPASSED):
            yield Issue("loss", f"the node ({spec.type}), which no server runs", spec.id)


def _replaced(graph: NodeGraph) -> Iterator[Issue]:
    """Yield the values that the page replaces when it queues a workflow, and that are sent as they are here."""
    for part in (graph, *subgraphs(graph).values()):
        for spec in part.nodes:
            values = () if is_virtual(spec) else list_of(node_of(spec).get("widgets_values"))
            for value in (each for each in values if isinstance(each, str)):
                if found := _CHOICE.search(value):
                    what = "as it is; ComfyUI's page sends one of its parts, chosen at random: write the part that you mean"
                    yield Issue("loss", f"{found[0]} is sent {what}", spec.id)
                if found := _PLACEHOLDER.search(value):
                    what = "as it is; ComfyUI's page replaces it by a date or a value: write the value"
                    yield Issue("loss", f"{found[0]} is sent {what}", spec.id)


def _unsaid(graph: NodeGraph) -> Iterator[Issue]:
    """Yield the data of the server's form that code does not hold."""
    for node_id, count in Counter(spec.id for spec in graph.nodes).items():
        if count > 1:
            yield Issue("loss", "all nodes of this id but the first", node_id)
    for spec in graph.nodes:
        said: Any = mapping_of(mapping_of(spec.extra.get(NAME)).get("api"))
        if said and said != {"_meta": {"title": title_of(spec)}}:
            yield Issue("loss", f"what stands besides class and inputs: {', '.join(said)}", spec.id)
    for edge in graph.edges:
        undefined = "undefined" in mapping_of(edge.extra.get(NAME))
        if (edge.source not in graph.by_id and not undefined) or edge.target not in graph.by_id:
            yield Issue("loss", "the edge, as one end is missing", f"{edge.source} → {edge.target}")


def _is_ui(content: bytes) -> bool:
    return is_ui(_json_of(content))


def _is_api(content: bytes) -> bool:
    return is_api(_json_of(content))


def _begins_with_a_call(content: bytes) -> bool:
    """Return whether the first line besides comments may hold a call, as it does in code."""
    lines = (line.strip() for line in BytesIO(content))
    first = next((line for line in lines if line and not line.startswith(b"#")), b"")
    return b"(" in first or first.endswith(b"\\")


def _is_code(content: bytes) -> bool:
    if content.lstrip()[:1] in (b"{", b"[") or not _begins_with_a_call(content):  # Python's parser takes 1 s for 1 MB
        return False
    try:
        load_code(read_text(content, ""))
    except InvalidError:
        return False
    return True


def _json_of(content: bytes) -> Any:
    if content.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] != b"{":
        return None
    try:
        return read_json(read_text(content, ""), "")
    except InvalidError:
        return None


def _dump_code(graph: NodeGraph, definitions: Definitions) -> bytes:
    return dump_code(graph, definitions).encode()


def formats(definitions: Definitions = NO_DEFINITIONS) -> tuple[Format, Format, Format]:
    """The three forms, as they are read and written where these classes are known: page, server, code."""
    known = {"definitions": definitions}
    checked = partial(check, **known)
    server = (partial(dump_api, **known), partial(_api_losses, **known), checked)
    code = (partial(_dump_code, **known), partial(_code_losses, **known), checked)
    return (
        Format("comfyui", ".comfyui.json", _is_ui, load, partial(dump, **known), losses, checked, runs=False),
        Format("comfyui-api", ".comfyui.api.json", _is_api, load, *server, runs=False),
        Format("comfyui-code", ".comfyui.py", _is_code, load, *code, runs=False),
    )


def read_definitions(text: str, name: str = "definitions") -> Definitions:
    """The classes that a server tells of at ``/object_info``.

    Args:
        text: The JSON that it answers.
        name: What errors call it.

    Raises:
        InvalidError: It is not JSON, or tells of no class.
    """
    found = Definitions.of(read_json(text, name))
    if not found:
        raise InvalidError(
            name,
            [
                *found.issues[:20],
                Issue("format", "tells of no class; give what a server answers at /object_info", name),
            ],
        )
    return found


COMFYUI, COMFYUI_API, COMFYUI_CODE = formats()
