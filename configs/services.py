"""Services that the operators of a configuration use: tools, knowledge, models, and those of typed nodes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from operad.configs.capabilities import Capabilities, Trust, UntrustedError, is_trusted, pins_of
from operad.configs.faults import Faults
from operad.configs.flow import read_graph
from operad.configs.imports import LoadedModules, Modules, StandIns
from operad.configs.models import make_model, variable
from operad.configs.read_capabilities import graph_capabilities, is_inside, read_capabilities
from operad.configs.reading import name_tools
from operad.configs.schema import (
    ActionSpec,
    ConfigSpec,
    EmbeddingsSpec,
    KnowledgeSpec,
    LongTermMemorySpec,
    MakerSpec,
    McpToolSpec,
    ReadyToolSpec,
    SearchSpec,
    ServicesSpec,
    SkillSpec,
    ToolSpec,
)
from operad.flows.assemble import assemble
from operad.flows.formats.fields import LossyError, summary
from operad.operators import Services
from operad.operators.builtin_tools import current_time, web_reader, web_search, wikipedia
from operad.operators.mcp import McpTools, StdioServer
from operad.operators.nodes import NODE_TYPES
from operad.operators.sandbox.snippet import CodeLimits
from operad.operators.skills import Skill, as_skills, load_skills
from operad.operators.web.endpoints import ImageModel, SpeechModel
from operad.operators.web.fetch import PUBLIC_WEB
from operad.operators.web.search import DuckDuckGo, SearchProvider, SearxNG, SerpApi, Tavily
from operad.runtime.knowledge.insights import Insights
from operad.runtime.knowledge.knowledge import KnowledgeBase
from operad.runtime.models.model import Model
from operad.runtime.models.names import locate, locate_told
from operad.runtime.models.resolve import EMBEDDED
from operad.runtime.reasoning.reasoner import Reasoner
from operad.runtime.tools.tool import Tool
from operad.runtime.tools.toolkit import Action, Toolkit
from operad.runtime.values.document import Path_, read_document
from operad.runtime.values.errors import InputError, InvalidError, MissingExtraError, ToolError, did_you_mean
from operad.runtime.values.secret import Secret, secret_name
from operad.runtime.workflow.workflow import BuiltinWorkflow, Workflow

if TYPE_CHECKING:
    from operad.runtime.durable.memory import Memory
    from operad.runtime.knowledge.documents import Documents
    from operad.runtime.knowledge.embeddings import Embeddings


def said(spec: Any) -> dict[str, Any]:
    """Return the set values of a section, by the names of its fields."""
    return spec.model_dump(exclude_unset=True, exclude_none=True)


def _endpoint_of(spec: MakerSpec, faults: Faults, path: Path_) -> dict[str, Any] | None:
    """Return the arguments for a model, by the rules for `model`; None after reporting that its key is missing."""
    key = os.environ.get(spec.api_key_env) if spec.api_key_env else None
    if spec.api_key_env and not key:
        _report_key(spec.api_key_env, faults, path)
        return None
    try:
        located = locate_told(spec.name, spec.base_url, key or "", os.environ)
    except InputError as error:
        faults.report((*path, "name"), "value", str(error))
        return None
    if located.lacks_key and located.vendor:
        _report_key(located.vendor.keys[0], faults, path)
        return None
    return {
        **{name: value for name, value in said(spec).items() if name != "api_key_env"},
        "base_url": located.base_url,
        "api_key": located.key or None,
    }


def _report_key(name: str, faults: Faults, path: Path_) -> None:
    """Report that the environment variable of a key is not set."""
    message = f"the environment variable {variable(name)} is not set; it is to hold the key"
    faults.report((*path, "api_key_env"), "value", message)


class Toolbox:
    """Tools and actions of a file by name, and the graph of them.

    Args:
        modules: Source of the functions and classes that the file names.
        services: Web access for the tools that come with operad.

    Attributes:
        toolkit: The graph of the file's actions and tools.
    """

    def __init__(self, spec: ConfigSpec, folder: Path, faults: Faults, modules: Modules, services: Services) -> None:
        self._folder = folder
        self._modules = modules
        self._faults = faults
        self._services = services
        self._tools: dict[str, Tool | McpTools | None] = {}
        self._specs: dict[str, ToolSpec] = {}
        self._actions: dict[str, Action] = {}
        self.toolkit = Toolkit()
        for number, tool in enumerate(spec.tools):
            self._define_tool(tool, ("tools", number))
        for number, action in enumerate(spec.actions):
            self._define_action(action, ("actions", number))
        for number, chain in enumerate(spec.toolkit):
            actions = [self.action(ref, ("toolkit", number, i)) for i, ref in enumerate(chain)]
            self.toolkit.add_chain([action for action in actions if action])

    def tool(self, ref: str | ToolSpec, path: Path_) -> Tool | McpTools | None:
        """Return the tool that is named or defined at `path`; None after reporting a fault."""
        if not isinstance(ref, str):
            return self._define_tool(ref, path)
        if ref not in self._tools:
            hint = did_you_mean(ref, self._tools) or "; define it under `tools`, or write module.function"
            self._faults.report(path, "unknown-tool", f"no tool is called {ref!r}{hint}")
        return self._tools.get(ref)

    @property
    def tools(self) -> list[Tool | McpTools]:
        """All tools of the file."""
        return [tool for tool in self._tools.values() if tool is not None]

    def action(self, ref: str | ActionSpec, path: Path_) -> Action | None:
        """Return the action that is named or defined at `path`; None after reporting a fault."""
        if not isinstance(ref, str):
            return self._define_action(ref, path)
        if ref not in self._actions:
            hint = did_you_mean(ref, self._actions)
            self._faults.report(path, "unknown-action", f"no action is called {ref!r}{hint}")
        return self._actions.get(ref)

    def _define_tool(self, spec: ToolSpec, path: Path_) -> Tool | McpTools | None:
        if self._specs.setdefault(spec.name, spec) != spec:
            self._faults.report(path, "duplicate-name", f"another tool is called {spec.name!r} too")
        if spec.name not in self._tools:
            self._tools[spec.name] = None
            self._report_keys(spec, path)
            try:
                self._tools[spec.name] = self._load(spec)
            except ToolError as error:
                self._faults.report(path, "tool-module", str(error))
        return self._tools[spec.name]

    def _report_keys(self, spec: ToolSpec, path: Path_) -> None:
        """Report the keys that are written in the definition of an MCP server."""
        for field, name in spec.mcp_transport_config.keys() if isinstance(spec, McpToolSpec) else ():
            secret = Secret(secret_name(spec.name, name.strip("-=… ")))
            how = f"{{secret: {secret.name}}}" if field in ("env", "headers") else secret.in_text
            if field == "url":
                how = f"an entry of headers, {{X-Api-Key: {{secret: {secret.name}}}}}"
            self._faults.report(
                (*path, "mcp_transport_config", field),
                "literal-key",
                f"a key is written in {name!r}; write {how} in its place, and give its value by operad secrets set "
                f"{secret.name}, or as an environment variable",
            )

    def _load(self, spec: ToolSpec) -> Tool | McpTools:
        if isinstance(spec, McpToolSpec):
            server = spec.mcp_transport_config
            resolved = server.seen_from(self._folder) if isinstance(server, StdioServer) else server
            source = McpTools(
                name=spec.name,
                description=spec.desc,
                server=resolved,
                approve=spec.approve,
                sampling=spec.sampling,
                resources=spec.resources,
                prompts=spec.prompts,
            )
            return source.pinned_by(self._modules.pins)
        if isinstance(spec, ReadyToolSpec):
            return _ready_tool(spec, self._services)
        tool = self._modules.tool(spec)
        if spec.timeout:
            tool = tool.model_copy(update={"timeout": spec.timeout})
        return tool.model_copy(update={"approve": spec.approve}) if spec.approve else tool

    def _define_action(self, spec: ActionSpec, path: Path_) -> Action:
        if spec.name not in self._actions:
            found = [self.tool(ref, (*path, "tools", i)) for i, ref in enumerate(spec.tools)]
            action = Action(
                name=spec.name,
                description=spec.desc,
                tools=tuple(tool for tool in found if tool is not None),
                id=spec.name,
            )
            self._actions[spec.name] = action
            self.toolkit.add_action(action)
        return self._actions[spec.name]


def _ready_tool(spec: ReadyToolSpec, services: Services) -> Tool:
    """Return a tool that comes with operad."""
    tool = {
        "WEB_READER": lambda: web_reader(services),
        "WEB_SEARCH": lambda: web_search(services),
        "WIKIPEDIA": lambda: wikipedia(services),
        "TIME": current_time,
    }[spec.type]()
    return tool.model_copy(update={"name": spec.name, "approve": spec.approve})


_CODE = "knowledgebase"


def open_insights(said: bool | str | None, folder: Path, faults: Faults, modules: Modules) -> Insights | None:
    """Return the insights of the file that `env.insights` names; None without a file that may be opened."""
    setting = ("env", "insights")
    if not said:
        return None
    if said == ":memory:":
        faults.report(setting, "insights", "are kept in a file: name one, or leave `insights` out")
        return None
    file = f"{faults.stem}.insights.sqlite" if said is True else Path(said).expanduser()
    if not modules.opens(folder / file):
        return None
    try:
        return Insights(folder / file)
    except InputError as error:
        faults.report(setting, "insights", str(error))
        return None


def open_memory(spec: LongTermMemorySpec, folder: Path, faults: Faults, path: Path_, modules: Modules) -> Memory | None:
    """Return the long-term memory of an operator; None if it may not be opened, or after reporting a fault."""
    from operad.runtime.durable.memory import Memory  # not at import: it needs an extra

    name = (spec.store or "").removeprefix("$")
    place: str | Path | None = os.environ.get(name) if name != spec.store else None
    fault = f"the environment variable {variable(name)} is not set" if spec.store == f"${name}" and not place else ""
    if "://" in name:
        fault = "is a URL, which may hold a password: put it into an environment variable NAME, and write $NAME here"
    if fault:
        faults.report((*path, "store"), "value", fault)
        return None
    if place is None:
        place = folder / os.path.expanduser(spec.store or f"{faults.stem}.memory.sqlite")
        if not modules.opens(place):
            return None
        if not place.parent.is_dir():
            faults.report((*path, "store"), "value", f"there is no folder {str(place.parent)!r}")
            return None
    embeddings = _embeddings(spec.embeddings, faults, (*path, "embeddings")) if spec.embeddings else None
    try:
        return Memory(
            place, namespace=spec.namespace, embeddings=embeddings, max_age=spec.max_age, recalled=spec.recalled
        )
    except (InputError, MissingExtraError) as error:
        faults.report(path, "value", str(error))
        return None


def skills_in(
    specs: Sequence[SkillSpec], folder: Path, faults: Faults, path: Path_, modules: Modules
) -> tuple[Skill, ...]:
    """Return the skills of the folders that an operator names, without those that may not be opened or have faults."""
    found: list[Skill] = []
    for number, spec in enumerate(specs):
        place = (*path, number)
        at = folder / os.path.expanduser(spec.path)
        if spec.scripts and not is_inside(at, folder):
            faults.report(
                (*place, "scripts"), "skill", f"run only in the folder of the file, where {spec.path!r} is not"
            )
        elif modules.opens(at):
            try:
                loaded = load_skills(at, scripts=spec.scripts)
                found += loaded
                for skill in loaded:
                    if skill.scripts and skill.runnable and not modules.covers(skill.digest):
                        faults.report(
                            place, "skill", f"{skill.name} has changed while the file was read; load it again"
                        )
            except InvalidError as error:
                for issue in error.issues:
                    faults.report(place, "skill", f"{issue.where.replace(f'{folder}/', '')}: {issue.message}")
            except InputError as error:
                faults.report(place, "skill", str(error))
    try:
        return as_skills(found)
    except InputError as error:
        faults.report(path, "skill", str(error))
        return ()


def open_library(
    spec: KnowledgeSpec, folder: Path, faults: Faults, modules: Modules, at: Path_ = (_CODE,)
) -> Documents | None:
    """Return the knowledge base that a file names; None if it names none that may be opened, or after reporting a fault.

    Args:
        modules: What may be opened.
    """
    if not spec.model_fields_set:
        return None
    from operad.runtime.knowledge.documents import Documents  # not at import: only knowledge bases need it
    from operad.runtime.knowledge.folders import roots_of
    from operad.runtime.knowledge.passage_index import PassageIndex

    paths = [folder / os.path.expanduser(path) for path in spec.paths]
    index = folder / os.path.expanduser(spec.index) if spec.index else None
    embeddings = _embeddings(spec.embeddings, faults, (*at, "embeddings")) if spec.embeddings is not None else None
    is_usable = embeddings is not None or spec.embeddings is None
    if not all(map(modules.opens, [*paths, *([index] if index else [])])):
        return None
    for number, path in enumerate(paths):
        try:
            roots_of([path])
        except InputError as error:
            faults.report((*at, "paths", number), _CODE, str(error))
            is_usable = False
    if index and not index.parent.is_dir():
        faults.report((*at, "index"), _CODE, f"there is no folder {str(index.parent)!r}")
        is_usable = False
    elif index:
        try:
            PassageIndex(index).check()
        except InputError as error:
            faults.report((*at, "index"), _CODE, str(error))
            is_usable = False
    if not is_usable:
        return None
    try:
        return Documents(paths, index=index, passages=spec.passages, embeddings=embeddings)
    except (InputError, MissingExtraError) as error:
        faults.report((*at, "paths"), _CODE, str(error))
        return None


def _embeddings(spec: EmbeddingsSpec, faults: Faults, path: Path_) -> Embeddings | None:
    """Return the embedding model that a file names; None after reporting a fault."""
    from operad.runtime.models.embedding import EmbeddingModel  # not at import: only knowledge bases need it
    from operad.runtime.models.minilm import MiniLM

    if spec.name != EMBEDDED:
        arguments = _endpoint_of(spec, faults, path)
        return EmbeddingModel(**arguments) if arguments else None
    if spec.base_url is not None:
        faults.report((*path, "base_url"), _CODE, "the embedded model runs inside this process: it has no endpoint")
        return None
    try:
        return MiniLM()
    except MissingExtraError as error:
        faults.report(path, _CODE, str(error))
        return None


def services_of_environment(environ: Mapping[str, str] | None = None) -> Services:
    """Return the services configured by the environment: SerpApi by its key, and models for images and speech.

    Args:
        environ: Environment to read; by default `os.environ` at the time of the call.
    """
    environ = os.environ if environ is None else environ
    search_key = environ.get("SERPAPI_API_KEY")
    image_model, speech_model = environ.get("OPERAD_IMAGE_MODEL"), environ.get("OPERAD_SPEECH_MODEL")

    def endpoint(name: str) -> dict[str, Any]:
        located = locate(name, None, "", environ)
        return {"name": name, "base_url": located.base_url, "api_key": located.key or None}

    return Services(
        search=SerpApi(api_key=search_key) if search_key else None,
        images=ImageModel(**endpoint(image_model)) if image_model else None,
        speech=SpeechModel(**endpoint(speech_model)) if speech_model else None,
    )


def load_services(path: Path, out: Path | None, trust: Trust = False) -> Services:
    """Return the services of a file, completed by the environment.

    The file has the keys of a `services` section, and `tools`, `models` and `knowledge`.

    Args:
        out: Folder for files that nodes write, overriding the file.
        trust: Trust in what the file can do, as for `load`.

    Raises:
        InputError: The file does not exist or is not text.
        InvalidError: The file is not valid; every issue has its line and its path in the file.
        UntrustedError: The file needs trust; nothing of what it can do was done.
    """
    spec, faults, capabilities = _read(path)
    folder = capabilities.folder
    if out:
        spec = spec.model_copy(update={"folder": str(out.absolute())})
    trusted = is_trusted(trust, capabilities)
    modules = LoadedModules(capabilities, pins_of(trust, capabilities)) if trusted else StandIns(capabilities)
    outside = make_outside(spec, folder, faults, ())
    services = make_services(spec, outside, folder, faults, (), modules)
    if faults:
        raise faults.error()
    if not trusted:
        raise UntrustedError(capabilities)
    return services


def code_limits(path: Path) -> CodeLimits:
    """Return the limits of code that a file of services names, without doing anything that needs trust.

    Raises:
        InputError, InvalidError: As `load_services`.
    """
    return _code_limits(_read(path)[0])


def _code_limits(spec: ServicesSpec) -> CodeLimits:
    return replace(CodeLimits(**said(spec.code)), packages=tuple(spec.code.packages))


def capabilities_of_services(path: Path) -> Capabilities:
    """Return what a file of services can do, without doing it.

    Raises:
        InputError, InvalidError: As `load_services`.
    """
    return _read(path)[2]


def _read(path: Path) -> tuple[ServicesSpec, Faults, Capabilities]:
    """Return the content of a file of services, a collection for its faults, and what it can do."""
    document = read_document(path)
    faults = Faults(document, ServicesSpec)
    name_tools(document)
    try:
        spec = ServicesSpec.model_validate(document.data)
    except ValidationError as error:
        faults.report_validation((), error)
        raise faults.error() from error
    folder = path.expanduser().resolve().parent
    return spec, faults, read_capabilities(str(path), document.data, folder, spec)


def _models(spec: ServicesSpec, faults: Faults, path: Path_) -> dict[str, Model | Reasoner | str]:
    """Return the models of the section by name; those with faults are left out."""
    models: dict[str, Model | Reasoner | str] = {}
    for name, model_spec in spec.models.items():
        try:
            models[name] = make_model(model_spec)
        except InputError as error:
            faults.report((*path, "models", name), "value", str(error))
    return models


def make_outside(spec: ServicesSpec, folder: Path, faults: Faults, path: Path_) -> Services:
    """Return the external services of nodes and of built-in tools; unset values come from the environment."""
    services = replace(
        services_of_environment(),
        folder=folder / os.path.expanduser(spec.folder) if spec.folder else None,
        guard=replace(PUBLIC_WEB, **{**said(spec.http), "allowed_hosts": tuple(spec.http.allowed_hosts)}),
        code=_code_limits(spec),
    )
    if spec.search:
        services = replace(services, search=_search(spec.search, faults, (*path, "search")))
    if spec.images:
        arguments = _endpoint_of(spec.images, faults, (*path, "images"))
        services = replace(services, images=ImageModel(**arguments) if arguments else None)
    if spec.speech:
        arguments = _endpoint_of(spec.speech, faults, (*path, "speech"))
        services = replace(services, speech=SpeechModel(**arguments) if arguments else None)
    return services


def make_services(
    spec: ServicesSpec,
    outside: Services,
    folder: Path,
    faults: Faults,
    path: Path_,
    modules: Modules,
    *,
    tools: Sequence[Tool | McpTools] = (),
    knowledge: Mapping[str, KnowledgeBase] | None = None,
    platform: type[Workflow] = BuiltinWorkflow,
) -> Services:
    """Return the services of the section at `path`.

    Args:
        outside: Result of `make_outside` for the section.
        modules: Source of the functions that the section names.
        tools: Tools of the file outside of the section.
        knowledge: Knowledge bases outside of the section, by name.
        platform: Kind of workflow to build for `workflows`.
    """
    toolbox = Toolbox(ConfigSpec(), folder, faults, modules, outside)
    for number, definition in enumerate(spec.tools):
        toolbox.tool(definition, (*path, "tools", number))
    found = {
        name: open_library(definition, folder, faults, modules, (*path, "knowledge", name))
        for name, definition in spec.knowledge.items()
    }
    workflows: dict[str, Workflow] = {}
    services = replace(
        outside,
        tools=[*tools, *toolbox.tools],
        models=_models(spec, faults, path),
        knowledge={**(knowledge or {}), **{name: definition for name, definition in found.items() if definition}},
        workflows=workflows,
    )
    for name, file in spec.workflows.items():
        if not modules.opens(folder / os.path.expanduser(file)):
            workflows[name] = platform(name=name)
            continue
        workflow = _workflow(file, folder, services, spec, faults, (*path, "workflows", name), platform)
        workflows |= {name: workflow} if workflow else {}
    return services


def _workflow(
    file: str,
    folder: Path,
    services: Services,
    spec: ServicesSpec,
    faults: Faults,
    path: Path_,
    platform: type[Workflow],
) -> Workflow | None:
    """Return the workflow of a file, for sub-workflow nodes; None after reporting why it cannot be used."""
    try:
        place = folder / os.path.expanduser(file)
        graph = read_graph(place)
        found = graph_capabilities(file, place.parent, graph)
        if found and not place.resolve().is_relative_to(folder):  # one in the folder counts with the file that names it
            can = f"{file}: lies outside of this folder, and {'; '.join(found.lines)}"
            faults.report(path, "value", f"{can}; move it into the folder, where it is trusted with this file")
        for node in graph.nodes:
            inner = node.params.get("workflow") if node.type == "sub-workflow" else None
            if unknown := unknown_workflow(inner, services):
                faults.report(path, "unknown-workflow", f"{file}: {node.id}: {unknown}; it may run those before it")
        return assemble(graph, NODE_TYPES, services=services, platform=platform, lossy=spec.lossy)
    except LossyError as error:
        loss = f"{file}: loses {summary(error.losses)}; operad check {file} says how; `lossy: true` beside `workflows`"
        faults.report(path, "lossy", f"{loss} runs it anyway")
    except InvalidError as error:
        for issue in error.issues:
            faults.report(path, issue.code, ": ".join(filter(None, (file, issue.where, issue.message))))
    except InputError as error:
        faults.report(path, "value", str(error))
    return None


def unknown_workflow(name: object, services: Services) -> str:
    """Return the message on an unknown workflow, with the nearest known name; empty if it is known."""
    known = services.workflows
    if not isinstance(name, str) or name in known:
        return ""
    return f"no workflow is called {name!r}{did_you_mean(name, known)}; there are: {', '.join(known) or 'none'}"


def _search(spec: SearchSpec, faults: Faults, path: Path_) -> SearchProvider | None:
    """Return the search provider of the section; None after reporting that its address or key is missing."""
    address: dict[str, Any] = {"base_url": spec.base_url} if spec.base_url else {}
    if spec.type == "searxng":
        if spec.base_url is None:
            faults.report(path, "value", "a SearXNG server has no usual address: name it by `base_url`")
            return None
        return SearxNG(base_url=spec.base_url)
    if spec.type == "duckduckgo":
        return DuckDuckGo(**address)
    name = spec.api_key_env or ("TAVILY_API_KEY" if spec.type == "tavily" else "SERPAPI_API_KEY")
    key = os.environ.get(name)
    if not key:
        _report_key(name, faults, path)
        return None
    return (Tavily if spec.type == "tavily" else SerpApi)(api_key=key, **address)
