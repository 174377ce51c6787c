"""All formats by name, and detection of the format of a file."""

from __future__ import annotations

import re
from collections.abc import Mapping

from operad.flows.formats.chat2workflow import CHAT2WORKFLOW
from operad.flows.formats.format import Format
from operad.flows.formats.json_text import MAX_BYTES, read_json, read_text
from operad.flows.formats.mermaid import MERMAID
from operad.flows.formats.operad import OPERAD
from operad.flows.formats.shapes import fields_of
from operad.flows.node_graph import NodeGraph
from operad.operators.integration import integrations, named
from operad.runtime.values.document import parse_document
from operad.runtime.values.errors import InputError, InvalidError, Issue, shorten


def formats(server: str | None = None) -> Mapping[str, Format]:
    """Return the formats by name, in the order of detection: those of all installed integrations, and ours.

    Args:
        server: Address of a server, or a file with its answer, for formats whose node types are the classes of a server.

    Raises:
        OperadError: The file cannot be read, or the server cannot be reached.
    """
    found = [named(home) for each in integrations() for home in each.formats.values()]
    listed: list[Format] = [*found, CHAT2WORKFLOW, MERMAID, OPERAD]
    return {each.name: each.of_server(server) if server and each.of_server else each for each in listed}


FORMATS: Mapping[str, Format] = formats()
"""Formats by name."""


_PICTURES = (b"\x89PNG\r\n", b"RIFF", b"\xff\xd8\xff", b"GIF8")
"""First bytes of pictures: PNG, WebP, JPEG, GIF."""

_EXPERTS = re.compile(r"^experts[ \t]*:", re.MULTILINE)


def find_format(data: bytes, known: Mapping[str, Format] = FORMATS) -> Format | None:
    """Return the format of a file, detected by its content; None if it has none of these formats.

    Args:
        data: The file.
        known: The formats by name.
    """
    if len(data) > MAX_BYTES:
        return None
    # ours is known by its keys; other forms are loose, and the words of a prompt or code may look like them
    ours_first = sorted(known.values(), key=lambda each: each is not OPERAD)
    return next((each for each in ours_first if each.is_it(data)), None)


def read(data: bytes, name: str, known: Mapping[str, Format] = FORMATS) -> tuple[Format, NodeGraph]:
    """Return the format of a file and its workflow.

    Args:
        data: The file.
        name: The name of the workflow.
        known: The formats by name.

    Raises:
        InvalidError: The format is unknown, or the file cannot be read; every issue is listed with its place.
    """
    found = find_format(data, known)
    return load_as(found, data, name, known)


def load_as(
    found: Format | None, data: bytes, name: str, known: Mapping[str, Format] = FORMATS
) -> tuple[Format, NodeGraph]:
    """Return the same as `read` for a file whose format was detected before: detection takes as long as reading.

    Args:
        found: The format of the file; None if no format was detected.
        data: The file.
        name: The name of the workflow.
        known: The formats by name.

    Raises:
        InvalidError: The format is unknown, or the file cannot be read; every issue is listed with its place.
    """
    if found is None:
        raise InvalidError(name, [_unknown_format(data, name, known)])
    try:
        return found, found.load(data, name)
    except InvalidError as error:
        issues = [Issue(each.code, each.message, each.where or name) for each in error.issues]
        raise InvalidError(name, issues) from error


def _unknown_format(data: bytes, name: str, known: Mapping[str, Format]) -> Issue:
    """Return the issue of a file of unknown format: empty, of experts, or neither JSON nor YAML of a known format."""
    if not data.strip():
        return Issue("format", "is empty", name)
    if data.startswith(_PICTURES):
        return Issue("format", "is a picture in which no workflow is stored; give the file of the workflow", name)
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
            return Issue("format", f"has an unknown format; known formats: {', '.join(known)}", name)
        value = read_json(text, name)
    except InvalidError as error:
        return error.issues[0]
    except InputError:  # YAML of comments only
        return Issue("format", "is empty", name)
    keys = f"it has: {shorten(list(fields_of(value))) or 'no keys'}" if isinstance(value, dict) else "it is a list"
    message = f"is JSON, but no workflow (nodes_info and edges; nodes and links; ids to class_type and inputs); {keys}"
    return Issue("format", message, name)
