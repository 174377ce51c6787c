"""Static reading of what a file can do: its parts are looked at; nothing is run, sent, opened or created.

The functions of `READERS` read the parts whose keys can open capabilities; see `operad.configs.keys`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel

from operad.configs.capabilities import Capabilities, Capability
from operad.configs.code import Named
from operad.configs.flow import read_graph
from operad.configs.keys import KEYS
from operad.configs.models import with_defaults
from operad.configs.node_capabilities import graph_parts, node_parts
from operad.configs.parts import (
    WEB,
    Part,
    Place,
    class_parts,
    parts_capabilities,
    sending,
    sending_secret,
    shown_host,
    unclassified,
)
from operad.configs.schema import (
    CacheSpec,
    CheckSpec,
    CodeSpec,
    ConfigSpec,
    DurableSpec,
    EmbeddingsSpec,
    EnvSpec,
    FunctionSpec,
    HttpSpec,
    ImagesSpec,
    KnowledgeSpec,
    LocalToolSpec,
    MakerSpec,
    McpToolSpec,
    ModelSpec,
    OperatorSpec,
    ReadyToolSpec,
    SearchSpec,
    ServicesSpec,
    SpeechSpec,
    TypedSpec,
)
from operad.flows.node_graph import NodeGraph
from operad.operators.mcp import StdioServer
from operad.operators.web.search import SerpApi
from operad.operators.web.searches import DuckDuckGo, Tavily
from operad.runtime.barrier import missing
from operad.runtime.models.resolve import EMBEDDED
from operad.runtime.values.errors import OperadError

_SEARCH_KEYS = {"serpapi": "SERPAPI_API_KEY", "tavily": "TAVILY_API_KEY"}
_SEARCH_URLS = {
    "serpapi": str(SerpApi.model_fields["base_url"].default),
    "tavily": str(Tavily.model_fields["base_url"].default),
    "duckduckgo": str(DuckDuckGo.model_fields["base_url"].default),
}
"""Search services, and the keys that the environment pairs with them."""


def read_capabilities(
    file: str,
    says: object,
    folder: Path,
    spec: BaseModel,
    environ: Mapping[str, str] | None = None,
) -> Capabilities:
    """Return what a file can do.

    Args:
        file: The file, as the user named it.
        says: Content of the file, as plain values.
        folder: Folder of the file.
        spec: The parsed file, or the valid parts of it.
        environ: Environment variables, which pair endpoints with keys; by default `os.environ`.

    Raises:
        InputError: The file names code in more than `code.MAX_FILES` files.
    """
    folder = folder.resolve()
    place = Place(folder, os.environ if environ is None else environ, stem=Path(file).stem)
    services = spec.services if isinstance(spec, ConfigSpec) else spec
    workflows = services.workflows.values() if isinstance(services, ServicesSpec) else ()
    return parts_capabilities(file, [says, [_graph_in(each, place) for each in workflows]], folder, _parts(spec, place))


# Parts of files of experts and services


def _parts(spec: object, place: Place) -> Iterator[Part]:
    """Yield the parts at any depth of a file."""
    if isinstance(spec, BaseModel):
        yield from unclassified(spec, type(spec).__name__, KEYS)
        for kind, reader in READERS.items():
            if isinstance(spec, kind):
                yield from reader(spec, place)
                if kind in _READ_WHOLE:
                    return
        for key in type(spec).model_fields:
            if key != "params":
                yield from _parts(getattr(spec, key), place)
    elif isinstance(spec, dict | list):
        items = cast("list[object] | dict[str, object]", spec)
        for item in items.values() if isinstance(items, dict) else items:
            yield from _parts(item, place)


def _config(spec: ConfigSpec, place: Place) -> Iterator[Part]:
    models = [expert.model or spec.model for expert in spec.experts]
    of_file = replace(place, names=[expert.profile.name for expert in spec.experts])
    endpoints = {each and (each.base_url, each.api_key_env): each for each in [spec.model, *models]}
    in_operators = replace(of_file, outer=list(endpoints.values()))
    for expert, model in zip(spec.experts, models, strict=True):
        yield from _parts(expert.model, of_file)
        yield from _parts(expert.model_copy(update={"model": None}), replace(of_file, outer=[model]))
    for key in type(spec).model_fields:
        if key != "experts":
            yield from _parts(getattr(spec, key), in_operators if key == "operators" else of_file)


def _model(spec: ModelSpec, place: Place) -> Iterator[Part]:
    for outer in place.outer:
        whole = with_defaults(spec, outer)
        # Also beside the name of an embedded model, which a command may replace by that of a model at this endpoint.
        yield from place.sends("your prompts", whole.name, whole.base_url, whole.api_key_env)
    yield from place.weights(spec.name or "")


def _maker(spec: MakerSpec, place: Place) -> Iterator[Part]:
    what: Mapping[type[MakerSpec], str] = {
        ImagesSpec: "descriptions of images",
        SpeechSpec: "texts to read aloud",
        EmbeddingsSpec: "the texts of your documents",
    }
    if not (isinstance(spec, EmbeddingsSpec) and spec.name == EMBEDDED):
        yield from place.sends(what.get(type(spec), "your prompts"), spec.name, spec.base_url, spec.api_key_env)


def _knowledge(spec: KnowledgeSpec, place: Place) -> Iterator[Part]:
    for path in spec.paths:
        yield from place.outside("reads", path, "knowledge")
    if spec.index:
        yield from place.sqlite(spec.index, "index of knowledge")


def _search(spec: SearchSpec, place: Place) -> Iterator[Part]:
    usual, usual_key = _SEARCH_URLS.get(spec.type), _SEARCH_KEYS.get(spec.type)
    url, key = spec.base_url or usual or "", (spec.api_key_env or usual_key) if usual_key else None
    if url.rstrip("/") != (usual or "").rstrip("/") or key != usual_key:
        yield sending("searches", url, key or "")
    yield WEB


def _services(spec: ServicesSpec, place: Place) -> Iterator[Part]:
    if spec.folder:
        yield from place.outside("writes", spec.folder, "files of nodes")
    for file in spec.workflows.values():
        yield from _workflow_file(file, spec, place)


def _graph_in(file: str, place: Place) -> NodeGraph | None:
    """Return the workflow in a file of the folder; None for other files, and after faults, which are reported later."""
    if list(place.outside("reads", file, "")):
        return None
    try:
        return read_graph(place.folder / os.path.expanduser(file))
    except OperadError:
        return None


def _workflow_file(file: str, spec: ServicesSpec, place: Place) -> Iterator[Part]:
    """Yield the parts of a workflow file that a file names; one outside of the folder is read only with trust."""
    yield from place.outside("reads", file, "workflow")
    graph = _graph_in(file, place)
    if graph is None:
        return
    yield from graph_parts(graph, place)
    for node in graph.nodes:
        if node.type == "code" and spec.code.packages:
            digest = sha256(repr(node.params).encode("utf-8", "replace")).hexdigest()
            yield Capability("code", f"node {node.id}", file, digest)


def _code(spec: CodeSpec, place: Place) -> Iterator[Part]:
    if spec.packages:
        unconfined = ", which this system cannot confine," if missing() else ""
        yield Capability("packages", f"code of nodes{unconfined}", ", ".join(sorted(spec.packages)))


def _http(spec: HttpSpec, place: Place) -> Iterator[Part]:
    for host in spec.allowed_hosts:
        yield Capability("reaches", where=host)


def _env(spec: EnvSpec, place: Place) -> Iterator[Part]:
    if spec.insights:
        file = f"{place.stem}.insights.sqlite" if spec.insights is True else spec.insights
        yield from place.sqlite(file, "insights")


def _cache(spec: CacheSpec, place: Place) -> Iterator[Part]:
    if spec.path:
        yield from place.sqlite(spec.path, "cache")


def _durable(spec: DurableSpec, place: Place) -> Iterator[Part]:
    if spec.max_age is not None or spec.max_runs is not None:
        yield Capability("deletes", ", ".join(sorted(place.names)))


def _mcp(spec: McpToolSpec, place: Place) -> Iterator[Part]:
    server = spec.mcp_transport_config
    yield from map(sending_secret, server.secret_uses)
    if spec.sampling:
        yield Capability("samples", shown_host(server.url) if not isinstance(server, StdioServer) else spec.name)
    if isinstance(server, StdioServer):
        yield server
        return
    headers = f", with the headers {', '.join(sorted(server.headers))}" if server.headers else ""
    headers += ", with your login" if server.oauth else ""
    covered = sha256(server.model_dump_json().encode("utf-8", "replace")).hexdigest()
    yield Capability("mcp", headers, shown_host(server.url), covered)


def _ready(spec: ReadyToolSpec, place: Place) -> Iterator[Part]:
    if spec.type != "TIME":
        yield WEB


def _local(spec: LocalToolSpec, place: Place) -> Iterator[Part]:
    yield Named(spec.module_path, spec.name)


def _function(spec: FunctionSpec | CheckSpec, place: Place) -> Iterator[Part]:
    yield _named(spec.function)


def _named(function: str) -> Named:
    # Unlike its classes, operad's functions do all that the program does, such as running a file with trust=True.
    module, _, name = function.rpartition(".")
    return Named(module, name)


def _operator(spec: OperatorSpec, place: Place) -> Iterator[Part]:
    if spec.written_by:
        yield _named(spec.written_by)
    if spec.class_:
        yield from class_parts(spec.class_, spec.params, place)


def _typed(spec: TypedSpec, place: Place) -> Iterator[Part]:
    yield from node_parts(spec.type, spec.params, spec.name, place)


READERS: Mapping[type[BaseModel], Callable[[Any, Place], Iterator[Part]]] = {
    ConfigSpec: _config,
    ModelSpec: _model,
    MakerSpec: _maker,
    KnowledgeSpec: _knowledge,
    SearchSpec: _search,
    ServicesSpec: _services,
    CodeSpec: _code,
    HttpSpec: _http,
    EnvSpec: _env,
    CacheSpec: _cache,
    DurableSpec: _durable,
    McpToolSpec: _mcp,
    ReadyToolSpec: _ready,
    LocalToolSpec: _local,
    FunctionSpec: _function,
    CheckSpec: _function,
    OperatorSpec: _operator,
    TypedSpec: _typed,
}
"""Functions that read the capabilities of a part of a file, by its class."""

_READ_WHOLE = (ConfigSpec, ModelSpec, McpToolSpec)
"""Parts whose readers also read what is inside of them."""
