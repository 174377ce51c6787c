"""New files: empty, from an example, or imported."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath
from typing import Any

from operad.configs.flow import MAX_BYTES, called, is_configuration
from operad.flows.formats.operad import OPERAD
from operad.flows.formats.table import FORMATS, find_format
from operad.flows.formats.yaml_text import serialized, value_node
from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.runtime.values.errors import InputError, did_you_mean
from operad.server.studio.files.folder import Folder
from operad.server.studio.requests import optional_text, text

SUFFIX = ".yaml"

_EXPERT = """\
operators:
  - name: answer
    instruction: Do what the job asks for.
experts:
  - profile: {name: Expert}
    workflow:
      - [answer]
"""


def new_file(folder: Folder, fields: Mapping[str, Any]) -> str:
    """Write a new file in a folder, and return its name.

    Args:
        fields: Fields of the request: ``new``, which is ``empty``, ``experts``, ``example`` or ``import``; and ``path``,
            ``name`` and ``base64`` as needed.

    Raises:
        InputError: The request is not valid, or the file cannot be written.
    """
    match text(fields, "new"):
        case "empty":
            name = optional_text(fields, "path") or f"workflow{SUFFIX}"
            graph = NodeGraph((NodeSpec("1", "start", {"variables": []}),), name=called(name, FORMATS))
            return folder.write_new(_with_suffix(name), OPERAD.dump(graph))
        case "experts":
            name = _with_suffix(optional_text(fields, "path") or f"experts{SUFFIX}")
            app = serialized(value_node({"app": {"name": called(name, FORMATS)}}))
            return folder.write_new(name, f"{app[1:-2]}\n{_EXPERT}".encode())
        case "example":
            example = text(fields, "name")
            known = _examples()
            if example not in known:
                raise InputError(f"there is no example {example!r}{did_you_mean(example, known)}")
            name = optional_text(fields, "path") or f"{example}{SUFFIX}"
            return folder.write_new(_with_suffix(name), known[example])
        case "import":
            return _import_file(folder, fields)
        case other:
            raise InputError(f"new: {other[:40]!r} is not one of empty, experts, example, import")


def is_new_expert(data: bytes) -> bool:
    """Return True if a file of experts is as new."""
    return data.endswith(_EXPERT.encode())


def _import_file(folder: Folder, body: Mapping[str, Any]) -> str:
    name = PurePosixPath(text(body, "name").replace("\\", "/")).name
    data = decoded(text(body, "base64"), name)
    if not is_configuration(data) and find_format(data) is None:
        raise InputError(
            f"{name}: is not a workflow of a known format: Operad YAML, Dify, Coze, Chat2Workflow, ComfyUI, or experts in YAML"
        )
    return folder.write_new(optional_text(body, "path") or name, data)


def decoded(text: str, name: str) -> bytes:
    """Return the content of a file that a browser sends as base64.

    Raises:
        InputError: The text is not base64, or the content is too large.
    """
    if len(text) > MAX_BYTES * 4 // 3 + 4:
        raise InputError(f"{name}: is larger than {MAX_BYTES // 2**20} MiB")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InputError(f"{name}: the content is not base64: {error}") from error


def _with_suffix(name: str) -> str:
    return name if name.endswith((".yaml", ".yml")) else f"{name}{SUFFIX}"


def examples() -> list[dict[str, str]]:
    """Return the names and titles of the examples."""
    return [{"name": name, "title": _title(data, name)} for name, data in _examples().items()]


@cache
def _examples() -> Mapping[str, bytes]:
    folder = files("operad.server.studio") / "examples"
    if not folder.is_dir():
        return {}
    found = sorted((file for file in folder.iterdir() if file.name.endswith(SUFFIX)), key=lambda file: file.name)
    return {file.name.removesuffix(SUFFIX): file.read_bytes() for file in found}


def _title(data: bytes, name: str) -> str:
    first = data.decode().partition("\n")[0]
    return first.removeprefix("#").strip() if first.startswith("#") else name.replace("_", " ").capitalize()
