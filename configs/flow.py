"""Workflow files: found by what they hold, and made into experts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from operad.configs.models import make_model
from operad.configs.schema import ConfigSpec, ModelSpec
from operad.operators import NodeGraph, Services
from operad.operators.assemble import assemble
from operad.operators.formats import chat2workflow
from operad.operators.nodes import NODE_TYPES
from operad.operators.variables import as_text
from operad.runtime.agent import Expert, Profile
from operad.runtime.document import MAX_BYTES
from operad.runtime.errors import InputError, shorten
from operad.runtime.file import FileDescriptor
from operad.runtime.reasoner import MonoModelReasoner

_KEYS = {"nodes_info", "edges"}


def find_graph(path: str) -> NodeGraph | None:
    """The workflow that a file holds; None where it holds something else, or where there is no file.

    Raises:
        InputError: It is JSON that holds neither a workflow nor a configuration, or no text.
        InvalidError: It holds a workflow that cannot be read.
    """
    try:
        file = Path(path).expanduser()
        if not file.is_file():
            return None
    except (OSError, RuntimeError, ValueError):  # too long for a path; no such user's home; a zero byte
        return None
    text = FileDescriptor.of(file).read_text(MAX_BYTES)
    return chat2workflow.load(text, file.name) if _is_workflow(text, path) else None


def read_graph(path: Path) -> NodeGraph:
    """The workflow of a file.

    Raises:
        InputError: There is no such file, or it is no text.
        InvalidError: It holds no workflow, or one that cannot be read.
    """
    file = FileDescriptor.of(path)
    return chat2workflow.load(file.read_text(MAX_BYTES), file.name)


def _is_workflow(text: str, path: str) -> bool:
    """Whether a file holds a workflow: its JSON, or a response with the tags of one."""
    if not text.lstrip().startswith(("{", "[")):
        return "<workflow>" in text and not re.search(r"^experts\s*:", text, re.MULTILINE)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):  # broken, or YAML in braces
        return '"nodes_info"' in text
    keys = list(cast("Mapping[str, Any]", data)) if isinstance(data, dict) else []
    if _KEYS.intersection(keys):
        return True
    if ConfigSpec.model_fields.keys() & keys:
        return False
    raise InputError(
        f"{path}: is JSON, but neither a workflow (nodes_info, edges) nor a configuration (experts, operators, …); "
        f"it has: {shorten(keys) or 'no keys'}"
    )


def flow_expert(graph: NodeGraph, services: Services, model_name: str | None, base_url: str | None) -> Expert:
    """The expert that runs a workflow; without a name and an endpoint, with the model that the environment names.

    Raises:
        InvalidError: Something is wrong with the workflow.
        InputError: No endpoint is known for the model.
    """
    workflow = assemble(graph, NODE_TYPES, services=services)
    options = {key: value for key, value in (("name", model_name), ("base_url", base_url)) if value}
    model = make_model(ModelSpec().model_copy(update=options)) if options else None
    return Expert(Profile(name=graph.name), workflow, MonoModelReasoner(model))


def result_text(outputs: Mapping[str, Any]) -> str:
    """Results for people: one by itself, several by name; files as their paths."""
    if len(outputs) == 1:
        return _shown(next(iter(outputs.values())))
    texts = {name: _shown(value) for name, value in outputs.items()}
    named = [f"{name}:\n{text}" if "\n" in text else f"{name}: {text}" for name, text in texts.items()]
    return ("\n\n" if any("\n" in text for text in texts.values()) else "\n").join(named)


def _shown(value: Any) -> str:
    if isinstance(value, FileDescriptor):
        return str(value.path)
    if isinstance(value, list | tuple):
        items = cast("Sequence[Any]", value)
        if items and all(isinstance(item, FileDescriptor) for item in items):
            return "\n".join(map(_shown, items))
    return as_text(value)
