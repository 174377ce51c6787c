"""Workflow files: detection, reading, and conversion to experts."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from operad.configs.foreign import refuse_foreign
from operad.configs.issues import in_file, located, placed
from operad.configs.models import make_model, override
from operad.configs.schema import ConfigSpec
from operad.flows import NodeGraph
from operad.flows.assemble import assemble
from operad.flows.node_graph import titles_of
from operad.operators import Services
from operad.operators.nodes import NODE_TYPES
from operad.operators.variables import as_text
from operad.runtime.agents.agent import Expert, Profile
from operad.runtime.reasoning.reasoner import MonoModelReasoner
from operad.runtime.values.errors import InputError, InvalidError
from operad.runtime.values.file import FileDescriptor

if TYPE_CHECKING:
    from operad.flows.formats.format import Format

MAX_BYTES = 16 * 2**20
"""Maximum size of a workflow file, in bytes."""

_EXPERTS = re.compile(rb"^[\"']?(experts|operators|leader)[\"']?[ \t]*:", re.MULTILINE)


def find_graph(path: str, services: Callable[[], Services | None] = lambda: None) -> NodeGraph | None:
    """Return the workflow in a file; None if the file holds something else, or does not exist.

    Args:
        path: The path of the file.
        services: Returns the services of its nodes, which may allow more, such as packages of code; called only for a workflow.

    Raises:
        InputError: The file is JSON without a workflow or a configuration, or its nodes do not run here.
        InvalidError: The workflow has faults; every issue has its place in the file.
    """
    try:
        file = Path(path).expanduser()
        if not file.is_file():
            if file.is_dir():
                refuse_foreign(file)
            return None
    except (OSError, RuntimeError, ValueError):  # too long for a path; no such user's home; a zero byte
        return None
    data = read_file(file)
    if is_configuration(data):
        return None
    from operad.flows.formats.table import find_format  # not at import: a configuration needs no formats

    if (guess := find_format(data)) is None and _json_of(data) is None:
        refuse_foreign(file)
        return None
    format_, graph = read_workflow(path, data, name=file.name, format_=guess)
    _check_runs(format_, file.name)
    if issues := list(in_file(format_.check(graph.runnable, services()), format_.lines(data))):
        raise located(f"{path} cannot be run", issues, path, titles_of(graph))
    return graph


def read_graph(path: Path) -> NodeGraph:
    """Return the workflow in a file.

    Raises:
        InputError: There is no such file, or its nodes do not run here.
        InvalidError: The file holds no workflow, or one that cannot be read.
    """
    from operad.flows.formats.table import read

    format_, graph = read(read_file(path), path.name)
    _check_runs(format_, path.name)
    return graph


def _check_runs(format_: Format, name: str) -> None:
    """Raise InputError if nodes of the format do not run here."""
    if not format_.runs:
        raise InputError(
            f"{name}: is a workflow of the format {format_.name}, whose nodes do not run here; "
            "operad check, convert and show take it"
        )


def read_workflow(
    file: str,
    data: bytes,
    known: Mapping[str, Format] | None = None,
    *,
    name: str | None = None,
    format_: Format | None = None,
) -> tuple[Format, NodeGraph]:
    """Return the format and the workflow of a file of typed nodes.

    Args:
        file: Path of the file, for errors.
        name: Name of a workflow that has none; by default that of the file without its suffix.
        format_: The format of the file; None to detect it.

    Raises:
        InvalidError: The file has no known format, or is broken; every issue has its place in the file.
    """
    from operad.flows.formats.table import FORMATS, find_format, load_as

    known = FORMATS if known is None else known
    name = name or called(file, known)
    if (guess := format_ or find_format(data, known)) is None:
        refuse_foreign(Path(file).expanduser())
    try:
        return load_as(guess, data, name, known)
    except InvalidError as error:
        raise located(f"{file} cannot be read", [placed(issue, name) for issue in error.issues], file) from error


def is_configuration(data: bytes) -> bool:
    """Return True if a file configures experts, by its keys."""
    if data.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] not in (b"{", b"["):
        return bool(_EXPERTS.search(data))
    value = _json_of(data)
    keys = cast("dict[str, Any]", value).keys() if isinstance(value, dict) else set[str]()
    if ConfigSpec.model_fields.keys().isdisjoint(keys):
        return False
    from operad.flows.formats.table import find_format

    return find_format(data) is None


def _json_of(data: bytes) -> Any:
    """Return the value of JSON text; None if the text is not JSON, for example YAML in braces."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def read_file(path: str | Path) -> bytes:
    """Return the content of a workflow file.

    Raises:
        InputError: The file does not exist, cannot be read, or is too large.
        InvalidError: It is a folder of another platform, which only `operad convert` reads.
    """
    if os.path.isdir(path):  # unlike Path.is_dir, it knows that a name which is too long names no folder
        refuse_foreign(Path(path))
    return FileDescriptor.of(path).read_bytes(MAX_BYTES)


def called(path: str, known: Mapping[str, Format]) -> str:
    """Return the name for a workflow without one: the name of the file without its suffix."""
    name = Path(path).name
    suffixes = [format_.suffix for format_ in known.values() if name.endswith(format_.suffix)]
    return name.removesuffix(max(suffixes, key=len, default=Path(path).suffix)) or "workflow"


def flow_expert(
    graph: NodeGraph, services: Services, model_name: str | None, base_url: str | None, *, lossy: bool = False
) -> Expert:
    """Return an expert that runs a workflow; without `model_name` and `base_url`, the environment names the model.

    Raises:
        InvalidError: The workflow has faults.
        LossyError: Its results may differ from those on the platform that it comes from, and `lossy` is False.
        InputError: No endpoint is known for the model.
    """
    workflow = assemble(graph, NODE_TYPES, services=services, lossy=lossy)
    spec = override(None, model_name, base_url)
    model = make_model(spec) if spec else None
    return Expert(Profile(name=graph.name), workflow, MonoModelReasoner(model))


def result_text(outputs: Mapping[str, Any]) -> str:
    """Return the outputs as text for people: a single output without its name, several with names, files as paths."""
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
