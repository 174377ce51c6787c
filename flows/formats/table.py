"""All formats, and which of them a file has."""

from __future__ import annotations

import re
from collections.abc import Mapping

from operad.flows.formats import comfyui
from operad.flows.formats.chat2workflow import CHAT2WORKFLOW
from operad.flows.formats.comfyui import Definitions
from operad.flows.formats.coze import COZE
from operad.flows.formats.dify import DIFY
from operad.flows.formats.format import Format
from operad.flows.formats.json_text import MAX_BYTES, read_json, read_text
from operad.flows.formats.mermaid import MERMAID
from operad.flows.formats.operad import OPERAD
from operad.flows.formats.worfbench import WORFBENCH
from operad.flows.node_graph import NodeGraph
from operad.operators.comfyui.reading import mapping_of
from operad.runtime.values.document import parse_document
from operad.runtime.values.errors import InputError, InvalidError, Issue, shorten


def formats(definitions: Definitions | None = None) -> Mapping[str, Format]:
    """The formats by name.

    Args:
        definitions: The classes of a ComfyUI server, by which its workflows are read, written and checked.
    """
    listed = (COZE, CHAT2WORKFLOW, *comfyui.formats(definitions or Definitions()), MERMAID, DIFY, OPERAD, WORFBENCH)
    return {each.name: each for each in listed}


FORMATS: Mapping[str, Format] = formats()
"""The formats by name, those that are told at a glance before others."""


COMFYUI_FORMATS = frozenset(each.name for each in comfyui.formats())
"""The formats of ComfyUI, whose nodes are the classes of a server."""


_EXPERTS = re.compile(r"^experts[ \t]*:", re.MULTILINE)


def find_format(data: bytes, known: Mapping[str, Format] = FORMATS) -> Format | None:
    """The format that a file has, by its content; None where it has none of these.

    Args:
        data: The file.
        known: The formats by name.
    """
    if len(data) > MAX_BYTES:
        return None
    return next((each for each in known.values() if each.is_it(data)), None)


def read(data: bytes, name: str, known: Mapping[str, Format] = FORMATS) -> tuple[Format, NodeGraph]:
    """The workflow of a file, and the format that it has.

    Args:
        data: The file.
        name: What to call the workflow.
        known: The formats by name.

    Raises:
        InvalidError: It has no format, or cannot be read; every issue is listed with its place.
    """
    found = find_format(data, known)
    return load_as(found, data, name, known)


def load_as(
    found: Format | None, data: bytes, name: str, known: Mapping[str, Format] = FORMATS
) -> tuple[Format, NodeGraph]:
    """As `read`, of a file whose format is known, or known to be none: to find it takes as long as to read the file."""
    if found is None:
        raise InvalidError(name, [_nothing(data, name, known)])
    try:
        return found, found.load(data, name)
    except InvalidError as error:
        issues = [Issue(each.code, each.message, each.where or name) for each in error.issues]
        raise InvalidError(name, issues) from error


def _nothing(data: bytes, name: str, known: Mapping[str, Format]) -> Issue:
    """Return the issue of a file without a format, with the nearest one."""
    if not data.strip():
        return Issue("format", "is empty", name)
    try:
        text = read_text(data, name)
        if _EXPERTS.search(text):
            return Issue("format", "configures experts; expected a workflow of typed nodes", name)
        if name.endswith((".yaml", ".yml")):
            keys = shorten(list(parse_document(text, name).data))
            return Issue(
                "format", f"is YAML, but has neither `experts` nor a workflow; it has: {keys or 'no keys'}", name
            )
        if text.lstrip()[:1] not in ("{", "["):
            return Issue("format", f"is of no format that is known: {', '.join(known)}", name)
        value = read_json(text, name)
    except InvalidError as error:
        return error.issues[0]
    except InputError:  # YAML of comments only
        return Issue("format", "is empty", name)
    keys = f"it has: {shorten(list(mapping_of(value))) or 'no keys'}" if isinstance(value, dict) else "it is a list"
    what = f"is JSON, but no workflow (nodes_info and edges; nodes and links; ids to class_type and inputs); {keys}"
    return Issue("format", what, name)
