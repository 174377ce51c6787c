"""Static reading of what a file can do: its parts are looked at; nothing is run, sent, opened or created.

The functions of `READERS` read the parts of files of experts and services whose keys can open capabilities, those of
`NODE_READERS` typed nodes; see `operad.configs.keys`.
"""

from __future__ import annotations

import inspect
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError

from operad.configs.capabilities import Capabilities, Capability, Trust, UntrustedError, capabilities_of, is_trusted
from operad.configs.flow import read_graph
from operad.configs.keys import CLASS_KEYS, KEYS, NO_KEYS, NODE_KEYS, Keys
from operad.configs.models import with_defaults
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
    LongTermMemorySpec,
    MakerSpec,
    McpToolSpec,
    ModelSpec,
    OperatorSpec,
    ReadyToolSpec,
    ScheduleSpec,
    SearchSpec,
    ServicesSpec,
    SkillSpec,
    SpeechSpec,
    TypedSpec,
    WebhookSpec,
)
from operad.configs.static_code import Module, Reader, imports_of, is_own, is_stdlib
from operad.flows.node_graph import NodeGraph
from operad.operators.integration import integrations, named
from operad.operators.mcp import StdioServer
from operad.operators.named_params import positional
from operad.operators.node import NodeOperator
from operad.operators.nodes import NODE_TYPES
from operad.operators.operator import Operator
from operad.operators.skills import load_skills
from operad.operators.web.search import DuckDuckGo, SerpApi, Tavily
from operad.runtime.barrier import missing
from operad.runtime.models.addresses import without_login
from operad.runtime.models.names import OPENAI, is_paired, locate, named_vendor
from operad.runtime.models.resolve import EMBEDDED
from operad.runtime.values.errors import InputError, OperadError
from operad.runtime.values.secret import SecretUse

if TYPE_CHECKING:
    from operad.operators.nodes.flow import StartParams
    from operad.operators.nodes.http import RequestParams


MAX_FILES = 1_000
"""Maximum number of Python files that a configuration may import from its folder."""


_ENTRIES = ("__main__.py", "index.js", "package.json")
"""Files that interpreters run, or read for what to run, if a folder is named in place of a script."""


class Named(NamedTuple):
    """A class or function that a file names.

    Attributes:
        module: Dotted name of the module.
        name: Name of the class or function in the module.
    """

    module: str
    name: str


def code_in(
    file: str, folder: Path, parts: Iterable[Named | StdioServer]
) -> tuple[Sequence[Capability], Mapping[str, Module]]:
    """Return the capabilities of classes, functions and commands, and the modules in the folder that they need.

    Args:
        file: The file, as the user named it.

    Raises:
        InputError: The file names code in more than `MAX_FILES` files.
    """
    named: dict[Named, None] = {}
    found: list[Capability] = []
    for part in parts:
        if isinstance(part, StdioServer):
            found.append(_command(part, folder))
        else:
            named[part] = None
    reader = Reader(folder)
    modules = _with_imports(reader, [each.module for each in named], file)
    digests = {name: _sha256(module.data or b"") for name, module in modules.items()}
    places: set[str] = set()
    for module, name in named:
        definition = reader.module(module)
        if isinstance(definition, str):  # a fault of the file, which is reported before trust is asked for
            found.append(Capability("code", name, f"module {module}"))
            continue
        place = _description(definition, folder)
        places.add(place)
        found.append(Capability("code", name, place, _sha256(definition.data or b"")))
    for name, module in modules.items():
        place = _description(module, folder)
        if module.data is not None and place not in places:
            found.append(Capability("imports", "", place, digests[name]))
    return found, modules


def _with_imports(reader: Reader, names: Sequence[str], file: str) -> dict[str, Module]:
    """Return the named modules that are beside the file, with the modules there that they import, recursively."""
    found: dict[str, Module] = {}
    pending = list(names)
    seen: set[str] = set()
    while pending:
        name = pending.pop()
        if not name or name in seen or is_stdlib(name) or is_own(name):
            continue
        seen.add(name)
        module = reader.module(name)
        if isinstance(module, str) or not module.is_beside:
            continue
        found[name] = module
        if len(found) > MAX_FILES:
            raise InputError(f"{file}: the code that it names has more than {MAX_FILES:,} files beside it")
        pending.append(name.rpartition(".")[0])
        pending += imports_of(reader, name)
    return dict(sorted(found.items()))


def _description(module: Module, folder: Path) -> str:
    if module.path is None or not module.is_beside:
        return f"installed module {module.name}"
    return module.path.relative_to(folder).as_posix()


def _command(server: StdioServer, folder: Path) -> Capability:
    """Return the capability for a command line, with its folder and the names of its variables, of which some, such as
    LD_PRELOAD, run code.
    """
    cwd = f", in {server.cwd}" if server.cwd else ""
    variables = f", with {', '.join(server.env)}" if server.env else ""
    covered = json.dumps([server.model_dump(mode="json"), _script_digests(server, folder)], sort_keys=True)
    return Capability("command", f"{server.where}{cwd}{variables}", "", _sha256(covered.encode("utf-8", "replace")))


def _script_digests(server: StdioServer, folder: Path) -> dict[str, str]:
    """Return the digests of files beside the configuration that a command or its variables name, such as a script."""
    found: dict[str, str] = {}
    for name in _names_of_files(server):
        try:
            path = folder / (server.cwd or "") / name
            if path.resolve().is_relative_to(folder) and path.is_file():
                with path.open("rb") as file:
                    found[name] = _file_sha256(file)
        except (OSError, RuntimeError, ValueError):  # not a valid file name; a circle of links
            continue
    return found


def _names_of_files(server: StdioServer) -> Iterator[str]:
    """Yield what may be the name of a file: each argument and variable, the parts of those that hold several, such as
    ``--require=./a.js``, ``./a.so:./b.so`` or ``open('./a.py')``, the entry of a folder, and the file of a module that
    Python runs by ``-m``.
    """
    texts = (server.command, *server.args, *server.env.values())
    for text in texts:
        for name in (text, *filter(None, re.split(r"""[\s:;,='"`()&|<>]+""", text))):
            yield name
            yield from (f"{name}/{entry}" for entry in _ENTRIES)
    for option, following in pairwise([*server.args, ""]):
        if named := re.fullmatch(r"-[A-Za-z]*?m(.*)", option):  # -m x, -mx, -Bm x
            module = (named[1] or following).replace(".", "/")
            yield from (f"{module}{rest}" for rest in (".py", "/__main__.py"))


def _file_sha256(file: Any) -> str:
    digest = sha256()
    while chunk := file.read(2**20):
        digest.update(chunk)
    return digest.hexdigest()


def _sha256(data: bytes) -> str:
    return sha256(data).hexdigest()


Part = Capability | Named | StdioServer
"""A capability, or a class, function or command whose capability depends on files in the folder."""

WEB = Capability("requests", where="addresses of the public web")

MAX_PARTS = 20_000
"""Maximum number of parts of a file that can do something; each operator counts once for each endpoint around it."""

_BESIDE_SQLITE = ("", "-wal", "-shm", "-journal")
"""Ends of the names of the files that SQLite writes."""


@dataclass(frozen=True, slots=True)
class Place:
    """Surroundings of a part, on which its capabilities depend.

    Attributes:
        folder: The folder of the file, resolved.
        environ: The environment variables, which pair endpoints with keys.
        outer: The models around the part, of which a model without an endpoint takes its endpoint and its key.
        stem: Name of the file without its suffix.
        names: Names of the experts in the file.
    """

    folder: Path
    environ: Mapping[str, str]
    outer: Sequence[ModelSpec | None] = (None,)
    stem: str = ""
    names: Sequence[str] = ()

    def outside(self, kind: Any, text: str, what: str, base: Path | None = None) -> Iterator[Capability]:
        """Yield the capability for a path, if it leads out of the folder, also by links."""
        try:
            path = Path(base or self.folder, os.path.expanduser(text)).resolve()
        except (OSError, RuntimeError, ValueError):  # a circle of links; a zero byte: reported as a fault of the file
            yield Capability(kind, what, text)
            return
        if not path.is_relative_to(self.folder):
            yield Capability(kind, what, str(path))

    def sqlite(self, text: str, what: str) -> Iterator[Capability]:
        """Yield the capability for an SQLite file that leads out of the folder, or has links beside it that do."""
        found = [each for end in _BESIDE_SQLITE for each in self.outside("writes", text + end, what)]
        yield from found[:1]

    def weights(self, name: str) -> Iterator[Capability]:
        """Yield the capability to read the weights of a model inside this process, whose path is its name."""
        if name.endswith(".gguf"):
            yield from self.outside("reads", name, "weights of a model", Path.cwd())

    def sends(self, what: str, name: str | None, base_url: str | None, key: str | None) -> Iterator[Capability]:
        """Yield the capability to send something to an endpoint, unless the environment names it with this key.

        Args:
            what: What is sent, such as ``your prompts``.
            name: Name of the model; its prefix may name a vendor. None for the model of the environment.
            base_url: Address of the endpoint; None for that of the vendor or of the environment.
            key: The environment variable of the key; None for that of the vendor.
        """
        try:
            located = locate(name or "", base_url, "", self.environ)
        except InputError:  # reported as a fault of the file
            return
        address, vendor = located.base_url, located.vendor
        own = [OPENAI, named_vendor(self.environ.get("OPERAD_MODEL", ""), self.environ.get(OPENAI.moved_by))]
        for each in own:
            if each and is_paired(each, address, self.environ) and (key is None or key in each.keys):
                return
        if key is None:  # that of `locate_told`
            keys = vendor.keys if vendor and (vendor.needs_key or not base_url) else OPENAI.keys
            key = keys[0] if keys else ""
        yield sending(what, address, key)


def sending(what: str, url: str, key: str = "") -> Capability:
    """Return the capability to send something to an address.

    Args:
        what: What is sent, such as ``your prompts``.
        key: Name of an environment variable or of a secret that is sent, too.
    """
    if key:  # a key itself, put there by mistake, is not shown
        name = f"${key}" if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", key) else "a key"
        what = f"{name} and {what}"
    return Capability("sends", what, shown_host(url), sha256(f"{key} {url}".encode("utf-8", "replace")).hexdigest())


def sending_secret(use: SecretUse, digest: str = "") -> Capability:
    """Return the capability to send a secret; the digest is of the request that sends it."""
    return Capability("sends", f"${use.secret.name}", use.host or "any address", digest)


def shown_host(url: str) -> str:
    """Return the host of an address for display, with its port, and its path unless that is usual; without login."""
    try:
        parts = urlsplit(without_login(url))
        host = parts.netloc
    except ValueError:
        return url
    path = "" if parts.path.rstrip("/") in ("", "/v1") else parts.path.rstrip("/")
    return f"{host}{path}" if host else url


def unclassified(spec: BaseModel, name: str, known: Mapping[str, Keys]) -> Iterator[Capability]:
    """Yield the capabilities of keys that are missing in `operad.configs.keys`."""
    classified = known.get(name, NO_KEYS)
    for key in sorted(spec.model_fields_set - classified.opening - classified.harmless):
        yield Capability("sets", f"{key} of {name}")


def parts_capabilities(file: str, says: object, folder: Path, parts: Iterable[Part]) -> Capabilities:
    """Return what a file with these parts can do; arguments are those of `read_capabilities`.

    Raises:
        InputError: The file has more than `MAX_PARTS` parts, or names code in more than `MAX_FILES` files.
    """
    every = list(islice(parts, MAX_PARTS + 1))
    if len(every) > MAX_PARTS:
        raise InputError(
            f"{file}: can do more than {MAX_PARTS:,} things outside of its folder; divide it into several files"
        )
    found = [part for part in every if isinstance(part, Capability)]
    named = [part for part in every if not isinstance(part, Capability)]
    code, modules = code_in(file, folder, named)
    return capabilities_of(file, folder, [*found, *code], modules, says)


def parameters_of(kind: type) -> Collection[str]:
    """Return the names of the parameters with which a class is made, without those of its bases."""
    return inspect.signature(kind.__init__).parameters if "__init__" in vars(kind) and kind is not object else ()


def class_parts(dotted: str, params: Mapping[str, Any], place: Place, base: Path | None = None) -> Iterator[Part]:
    """Yield the parts of a class with parameters: those of a user are code; those of operad may be given files.

    Paths among the parameters are relative to `base`; by default, those that the class declares are relative to the
    folder of the file.
    """
    module, _, name = dotted.rpartition(".")
    if not is_own(module):
        yield from [Named(module, name)] if module else []
        return
    found = Reader(place.folder).look_up(module, name).value
    if isinstance(found, type) and issubclass(found, Operator):
        for key, value in params.items():
            if key == "server":
                yield sending("inputs and files of your jobs", str(value), str(params.get("secret") or ""))
            elif key == "model":
                yield from place.weights(str(value))
                yield from place.sends("your prompts", str(value), None, None)
            elif key in CLASS_KEYS.opening and key != "secret":  # which the server gets
                given = value
                if key in ("key", "subtask"):
                    given = cast("dict[str, object]", value).get("dataset") if isinstance(value, dict) else None
                elif key == "gold" and isinstance(value, str):  # a path, or the text of a workflow
                    given = None if "\n" in value.strip() else value.strip()
                kind = "writes" if key == "folder" else "reads"
                relative_to = base or (None if key in found.paths else Path.cwd())
                yield from place.outside(kind, str(given), f"{key} of {name}", relative_to) if given is not None else ()
            elif key not in CLASS_KEYS and any(key in parameters_of(base) for base in found.__mro__):
                yield Capability("sets", f"{key} of {name}")  # other keys are faults


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
    if params.trigger is not None and params.trigger.kind == "schedule":
        yield _scheduled(params.trigger.cron, params.trigger.timezone)
    elif params.trigger is not None and params.trigger.kind == "webhook":
        yield _BY_REQUEST


def _scheduled(cron: str, timezone: str) -> Capability:
    return Capability("starts", f"at {cron} ({timezone})")


_BY_REQUEST = Capability("starts", "by requests to its webhook")


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
        spec: The parsed file, or the valid parts of it.
        environ: Environment variables, which pair endpoints with keys; by default `os.environ`.

    Raises:
        InputError: The file names code in more than `MAX_FILES` files.
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


def _memory(spec: LongTermMemorySpec, place: Place) -> Iterator[Part]:
    if spec.store and spec.store.startswith("$"):
        yield Capability("sends", "what operators remember", f"the database in {spec.store}")
    else:
        yield from place.sqlite(spec.store or f"{place.stem}.memory.sqlite", "long-term memory")


def is_inside(path: Path, folder: Path) -> bool:
    """Return True if a path is in a folder, also by its links."""
    try:
        return path.resolve().is_relative_to(folder)
    except (OSError, RuntimeError, ValueError):  # a circle of links; a zero byte: reported as a fault of the file
        return False


def _skills(spec: SkillSpec, place: Place) -> Iterator[Part]:
    yield from place.outside("reads", spec.path, "skills")
    at = place.folder / os.path.expanduser(spec.path)
    if not spec.scripts or not is_inside(at, place.folder):
        return
    try:
        skills = load_skills(at, scripts=True)
    except OperadError:  # reported as a fault of the file
        return
    for skill in skills:
        where = Path(skill.folder).relative_to(place.folder).as_posix()
        unconfined = ", which this system cannot confine" if missing() else ""
        for script in skill.runnable:
            yield Capability("code", f"script of a skill{unconfined}", f"{where}/{script}", skill.digest)


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


def _schedule(spec: ScheduleSpec, place: Place) -> Iterator[Part]:
    yield _scheduled(spec.cron, spec.timezone)


def _webhook(spec: WebhookSpec, place: Place) -> Iterator[Part]:
    yield _BY_REQUEST


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
    LongTermMemorySpec: _memory,
    SkillSpec: _skills,
    SearchSpec: _search,
    ServicesSpec: _services,
    CodeSpec: _code,
    HttpSpec: _http,
    EnvSpec: _env,
    CacheSpec: _cache,
    ScheduleSpec: _schedule,
    WebhookSpec: _webhook,
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
