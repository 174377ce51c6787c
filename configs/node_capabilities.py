"""Capabilities of typed nodes and of workflows of them, beside those of their services."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from pydantic import ValidationError

from operad.configs.capabilities import Capabilities, Capability, Trust, UntrustedError, is_trusted
from operad.configs.code import Named
from operad.configs.keys import NODE_KEYS, Keys
from operad.configs.parts import (
    WEB,
    Part,
    Place,
    parts_capabilities,
    sending_secret,
    shown_host,
    unclassified,
)
from operad.configs.static_code import Reader, is_own
from operad.flows.node_graph import NodeGraph
from operad.operators.integration import integrations, named
from operad.operators.named_params import positional
from operad.operators.node import NodeOperator
from operad.operators.nodes import NODE_TYPES

if TYPE_CHECKING:
    from operad.operators.nodes.flow import StartParams
    from operad.operators.nodes.http import RequestParams


def _nothing(params: Any, id: str, place: Place) -> Iterator[Part]:
    """Yield nothing, for a node type that can do nothing outside of its file's folder."""
    return iter(())


class NodeCapabilities(NamedTuple):
    """Capabilities of the parameters of a node type.

    Attributes:
        keys: Its parameters; the others of a file need trust.
        read: Function that yields what a node can do, given its parameters, its id, and its surroundings.
    """

    keys: Keys
    read: Callable[[Any, str, Place], Iterator[Part]] = _nothing


def node_capabilities(type_name: str) -> NodeCapabilities | None:
    """Return what the parameters of a node type can do; None if its integration does not tell."""
    if type_name in NODE_KEYS:
        return NodeCapabilities(NODE_KEYS[type_name], NODE_READERS.get(type_name, _nothing))
    return next(
        (named(each.capabilities[type_name]) for each in integrations() if type_name in each.capabilities), None
    )


def graph_capabilities(
    file: str, folder: Path, graph: NodeGraph, environ: Mapping[str, str] | None = None
) -> Capabilities:
    """Return what a workflow of typed nodes can do, beside what its services allow.

    Args:
        file: The file, as the user named it.
        folder: Folder of the file.
        graph: The workflow.
        environ: Environment variables; by default `os.environ`.
    """
    place = Place(folder.resolve(), os.environ if environ is None else environ)
    return parts_capabilities(file, None, place.folder, graph_parts(graph, place))


def require_trust(file: str, graph: NodeGraph, trust: Trust) -> None:
    """Raise UntrustedError if a workflow of typed nodes needs trust, and is not trusted."""
    found = graph_capabilities(file, Path(file).expanduser().parent, graph)
    if not is_trusted(trust, found):
        raise UntrustedError(found)


def graph_parts(graph: NodeGraph, place: Place) -> Iterator[Part]:
    """Yield the parts of the nodes of a workflow."""
    for node in graph.nodes:
        yield from node_parts(node.type, node.params, node.id, place)


def node_parts(type_name: str, given: object, id: str, place: Place) -> Iterator[Part]:
    """Yield the parts of a typed node, whose parameters need not be valid."""
    module, _, name = type_name.rpartition(".")
    node_type: Any = NODE_TYPES.get(type_name)
    if node_type is None and is_own(module):
        node_type = Reader(place.folder).look_up(module, name).value
    elif node_type is None and module:
        yield Named(module, name)
    if not (isinstance(node_type, type) and issubclass(node_type, NodeOperator)):
        return
    node_type = cast("type[NodeOperator[Any]]", node_type)
    kind = node_type.params_type
    try:
        params = kind.model_validate(positional(kind, given))
    except (ValidationError, UnicodeEncodeError):  # reported as a fault of the file
        return
    known = node_capabilities(node_type.type)
    if known is None:
        yield Capability("sets", f"parameters of {node_type.type}")
        return
    yield from unclassified(params, node_type.type, {node_type.type: known.keys})
    yield from known.read(params, id, place)


def _start(params: StartParams, id: str, place: Place) -> Iterator[Part]:
    kinds = {variable.name: variable.type for variable in params.variables}
    for name, value in params.defaults.items():
        for path in cast("list[object]", value) if isinstance(value, list) else [value]:
            path = cast("dict[str, object]", path).get("path") if isinstance(path, dict) else path
            if name in kinds and kinds[name].is_file and isinstance(path, str) and path:
                yield from place.outside("reads", path, f"default of the input {name}", Path.cwd())


def _request(params: RequestParams, id: str, place: Place) -> Iterator[Part]:
    from operad.operators.nodes.http import Request  # imported for files with requests alone

    # With the user's key, another path, method or body does something else.
    covered = sha256(json.dumps(params.model_dump(), default=str).encode()).hexdigest()
    for use in Request("request", params).secret_uses:
        yield sending_secret(use, covered)
    # The host is known if the address begins with it; a variable may be any address of the public web.
    literal = re.match(r"https?://[^/?#{}\s]+(?=[/?#]|$)", str(params.url))
    yield Capability("requests", where=shown_host(literal[0])) if literal else WEB


def _any_address(params: object, id: str, place: Place) -> Iterator[Part]:
    yield WEB


NODE_READERS: Mapping[str, Callable[[Any, str, Place], Iterator[Part]]] = {
    "start": _start,
    "http-request": _any_address,
    "request": _request,
    "google-search": _any_address,
    "code": _any_address,
}
"""Functions that read the capabilities of a typed node from its parameters, by its type."""
