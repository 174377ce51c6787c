"""The formats of a ComfyUI workflow: of the page, of the server, code, and a picture with the first two in it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from io import BytesIO
from typing import Any

from operad.flows.formats.fields import Declared, Owner, Remark, Use
from operad.flows.formats.format import Format, foreign, without_instructions
from operad.flows.formats.json_text import read_json, read_text, write_json
from operad.flows.formats.kept_text import keep_text
from operad.flows.formats.shapes import fields_of, list_of
from operad.flows.node_graph import NodeGraph
from operad.integrations.comfyui.formats.api import dump_nodes, is_api, load_api
from operad.integrations.comfyui.formats.checking import check
from operad.integrations.comfyui.formats.code import dump_code, keep_code
from operad.integrations.comfyui.formats.definitions import Definitions
from operad.integrations.comfyui.formats.flattening import executable
from operad.integrations.comfyui.formats.parsing import load_code
from operad.integrations.comfyui.formats.pictures import (
    PROMPT,
    WORKFLOW,
    blank,
    carries,
    is_picture,
    texts_in,
    with_texts,
)
from operad.integrations.comfyui.formats.ui import dump_document, is_ui, load_ui, subgraphs
from operad.integrations.comfyui.formats.widgets import places, values_of
from operad.integrations.comfyui.formats.written import (
    BYPASSED,
    MUTED,
    NAME,
    group_fault,
    is_group,
    is_virtual,
    mode_of,
    node_of,
    ui_of,
)
from operad.runtime.values.errors import InvalidError, Issue

_CHOICE = re.compile(r"(?<!\\)\{[^{}|]*\|[^{}]*\}")
"""Alternatives in a prompt, of which the page sends one: ``{a|b}``."""

_PLACEHOLDER = re.compile(r"%(?:date(?::[^%]*)?|\w[^%.\n]*\.\w+)%")
"""Placeholder in a value that the page replaces by the date, or by the value of another node."""

_NOT_ASCII = re.compile(r"[^\x00-\x7f]")

_DESIGNER = "operad.integrations.comfyui.generation.generate:designer"

NO_DEFINITIONS = Definitions()
"""Definitions for use without a server: without classes."""

_JSON = ("{", "[", '"')
"""First characters of a text in JSON; any other text is code."""


def _read(data: bytes, name: str) -> NodeGraph:
    """Return the graph of a file in any of the forms."""
    return _read_picture(data, name) if is_picture(data) else _read_text(read_text(data, name), name)


def _read_picture(data: bytes, name: str) -> NodeGraph:
    """Return the graph of the workflow in a picture, or else of its prompt; `extra` says which, and why."""
    texts = texts_in(data, name)
    issues: list[Issue] = []
    for key, text in texts.items():
        try:
            if not text.lstrip().startswith(_JSON):
                message = "is text, not the JSON that ComfyUI saves; use a picture that ComfyUI saved"
                raise InvalidError(name, [Issue("format", message)])
            graph = _read_text(text, name)
        except InvalidError as error:
            issues += (replace(each, where=f"{key}, {each.where or name}") for each in error.issues)
            continue
        others = [each for each in texts if each != key]
        says = f"the picture's {key} is used" + (f", not its {others[0]}" if others else "")
        if issues:
            says += f", which cannot be read: {issues[0].message}"
        own = fields_of(graph.extra.get(NAME))
        return replace(graph, extra={**graph.extra, NAME: {**own, "picture": {"field": key, "says": says}}})
    raise InvalidError(name, issues)


def _read_text(text: str, name: str) -> NodeGraph:
    if not text.lstrip().startswith(_JSON):
        return load_code(text, name)
    document = read_json(text, name)
    if is_ui(document):
        return load_ui(document, name)
    if isinstance(document, dict) and not {"nodes", "links"} & document.keys():
        return load_api(fields_of(document), name)
    message = 'must be an object with lists "nodes" and "links", or of ids to {class_type, inputs}'
    raise InvalidError(name, [Issue("format", message, name)])


def dump(graph: NodeGraph, definitions: Definitions = NO_DEFINITIONS) -> bytes:
    """Return a graph as the page saves it; unchanged parts stay exactly as they were.

    Args:
        graph: The graph. Nodes that do not come from the page are laid out, and their ids become numbers.
        definitions: The node classes, by which such nodes get their slots and widgets.
    """
    return write_json(dump_document(graph, definitions))


def dump_api(graph: NodeGraph, definitions: Definitions = NO_DEFINITIONS) -> bytes:
    """Return a graph in the form that a server runs; `executable` describes the changes to a graph of the page.

    Raises:
        InvalidError: A subgraph contains itself, the expanded workflow is too large, or two nodes have the same id.
    """
    return write_json(dump_nodes(executable(graph, definitions)))


def _dump_picture(graph: NodeGraph, definitions: Definitions) -> bytes:
    """Return a PNG of a single pixel with a workflow in it."""
    return blank(_texts(graph, definitions))


def _texts(graph: NodeGraph, definitions: Definitions) -> dict[str, str]:
    """Return the texts of a picture with a workflow.

    They have the page's form (`WORKFLOW`) if the graph comes from the page or the classes are known, and the server's form
    (`PROMPT`) if that is complete.
    """
    texts: dict[str, str] = {}
    if definitions or _is_of_page(graph):
        texts[WORKFLOW] = json.dumps(dump_document(graph, definitions))
    if not texts or _has_prompt(graph, definitions):
        texts[PROMPT] = json.dumps(dump_nodes(executable(graph, definitions)))
    return texts


def _dump_over(graph: NodeGraph, picture: bytes, definitions: Definitions) -> bytes:
    """Return a picture with a workflow in it, whose texts keep what is unchanged; the same if it has just that workflow."""
    new = _texts(graph, definitions)
    try:
        before = _read(picture, graph.name) if carries(picture) else None
        if before == graph:
            return picture
        was = _texts(before, definitions) if before else {}
        old: Mapping[str, str] = texts_in(picture, graph.name) if before else {}
    except InvalidError:  # a broken workflow is replaced
        was, old = dict[str, str](), dict[str, str]()
    for key in new.keys() & was.keys() & old.keys():
        texts = (each[key].encode() for each in (old, was, new))
        kept = keep_text(*texts, read=lambda data: read_json(data.decode(), ""))
        new[key] = _NOT_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], kept.decode())
    return with_texts(picture, new, graph.name)


def _dump_over_code(graph: NodeGraph, old: bytes, definitions: Definitions) -> bytes:
    """Return the code of a changed graph; unchanged lines and comments stay as they are."""
    new = _dump_code(graph, definitions)
    try:
        before = _read(old, graph.name)
        made = keep_code(old.decode(), _dump_code(before, definitions).decode(), new.decode()).encode()
        return made if _read(made, graph.name) == _read(new, graph.name) else new
    except (InvalidError, SyntaxError, UnicodeDecodeError):
        return new


def _is_of_page(graph: NodeGraph) -> bool:
    return ui_of(graph) is not None or any(ui_of(spec) is not None for spec in graph.nodes)


def _has_prompt(graph: NodeGraph, definitions: Definitions) -> bool:
    """Return True if the server's form holds all that runs."""
    try:
        executable(graph, definitions)
    except InvalidError:
        return False
    return all(issue.code != "loss" for issue in _api_losses(graph, definitions))


def _picture_losses(graph: NodeGraph, definitions: Definitions) -> Iterator[Issue]:
    if not (definitions or _is_of_page(graph)):
        yield from _api_losses(graph, definitions)
        return
    yield from _page_losses(graph)
    if not _has_prompt(graph, definitions):
        yield Issue("note", "the prompt that a server runs, which is not complete; the picture has the page's workflow")


def _picture_remarks(graph: NodeGraph) -> Iterator[Remark]:
    if picture := fields_of(fields_of(graph.extra.get(NAME)).get("picture")):
        yield Owner().remark(str(picture.get("field")), Declared(Use.NOTE, str(picture.get("says"))))


def _page_losses(graph: NodeGraph) -> Iterator[Issue]:
    """Yield the parts of a graph that the page's form cannot hold without definitions."""
    yield from _foreign_losses(graph)
    yield from _misplaced_values(graph)


def _api_losses(graph: NodeGraph, definitions: Definitions) -> Iterator[Issue]:
    yield from _foreign_losses(graph)
    if _is_of_page(graph):
        yield Issue("note", "places, sizes, colours, groups and what else the page says besides what is run")
    yield from _node_losses(graph, definitions)
    yield from _values_replaced_by_page(graph)


def _code_losses(graph: NodeGraph, definitions: Definitions) -> Iterator[Issue]:
    yield from _api_losses(graph, definitions)
    yield from _server_data_losses(graph)


def _foreign_losses(graph: NodeGraph) -> Iterator[Issue]:
    """Yield the data of other platforms, and the parts of other workflows that ComfyUI does not have."""
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


def _misplaced_values(graph: NodeGraph) -> Iterator[Issue]:
    """Yield the changed values whose place in the list of values is unknown."""
    for spec in graph.nodes:
        if ui_of(spec) is not None:
            known_places, before = places(spec), values_of(replace(spec, params={}))
            for name, value in fields_of(spec.params).items():
                if name not in known_places and before.get(name) != value:
                    yield Issue("loss", f"the value of {name!r}, as the file does not tell its place", spec.id)


def _node_losses(graph: NodeGraph, definitions: Definitions) -> Iterator[Issue]:
    """Yield the nodes that no server runs, and those whose values have no names."""
    for spec in graph.nodes:
        written = list_of(node_of(spec).get("widgets_values"))
        if is_virtual(spec) or mode_of(spec) in (MUTED, BYPASSED):
            yield Issue("note", f"the node ({spec.type}), which no server runs", spec.id)
        elif is_group(spec):
            yield Issue("loss", f"what it does: {group_fault(spec)}", spec.id)
        elif written and not places(spec, definitions.get(spec.type)):
            yield Issue(
                "loss",
                "its values, as the file does not tell their names; give the classes of the server with --object-info",
                spec.id,
            )


def _values_replaced_by_page(graph: NodeGraph) -> Iterator[Issue]:
    """Yield the values that the page replaces before it sends a workflow, and that Operad sends unchanged."""
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


def _server_data_losses(graph: NodeGraph) -> Iterator[Issue]:
    """Yield the data of the server's form that code cannot hold."""
    for node_id, count in Counter(spec.id for spec in graph.nodes).items():
        if count > 1:
            yield Issue("loss", "all nodes of this id but the first", node_id)
    for edge in graph.edges:
        undefined = "undefined" in fields_of(edge.extra.get(NAME))
        if (edge.source not in graph.by_id and not undefined) or edge.target not in graph.by_id:
            yield Issue("loss", "the edge, as one end is missing", f"{edge.source} → {edge.target}")


def _is_ui(content: bytes) -> bool:
    return is_ui(_json_of(content))


def _is_api(content: bytes) -> bool:
    return is_api(_json_of(content))


def _begins_with_a_call(content: bytes) -> bool:
    """Return True if the first line that is not a comment may contain a call, as in code."""
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
    return dump_code(executable(graph, definitions), definitions).encode()


def formats(definitions: Definitions = NO_DEFINITIONS) -> tuple[Format, Format, Format, Format]:
    """Return the formats of the page, the server, code and pictures, which read and write with these node classes."""
    known = {"definitions": definitions}

    def of_server(position: int) -> Callable[[str], Format]:
        def with_classes(source: str) -> Format:
            from operad.integrations.comfyui.definitions import definitions_from  # not at import: it imports the client

            return formats(definitions_from(source))[position]

        return with_classes

    checked = partial(check, **known)
    server = (partial(dump_api, **known), partial(_api_losses, **known), checked)
    code = (partial(_dump_code, **known), partial(_code_losses, **known), checked)
    return (
        Format(
            "comfyui",
            ".comfyui.json",
            _is_ui,
            _read,
            partial(dump, **known),
            _page_losses,
            checked,
            runs=False,
            of_server=of_server(0),
            designer=_DESIGNER,
        ),
        Format(
            "comfyui-api",
            ".comfyui.api.json",
            _is_api,
            _read,
            *server,
            runs=False,
            of_server=of_server(1),
            designer=_DESIGNER,
        ),
        Format(
            "comfyui-code",
            ".comfyui.py",
            _is_code,
            _read,
            *code,
            runs=False,
            dump_over=partial(_dump_over_code, **known),
            of_server=of_server(2),
            designer=_DESIGNER,
        ),
        Format(
            "comfyui-picture",
            ".comfyui.png",
            carries,
            _read,
            partial(_dump_picture, **known),
            partial(_picture_losses, **known),
            checked,
            runs=False,
            dump_over=partial(_dump_over, **known),
            remarks=_picture_remarks,
            of_server=of_server(3),
            designer=_DESIGNER,
        ),
    )


COMFYUI, COMFYUI_API, COMFYUI_CODE, COMFYUI_PICTURE = formats()

load, losses = COMFYUI.load, COMFYUI.losses
