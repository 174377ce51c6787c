"""Services of typed nodes, from a file's section and from environment variables."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from operad.configs.capabilities import Capabilities, Trust, UntrustedError, is_trusted, pins_of
from operad.configs.endpoints import endpoint_of, report_key, said
from operad.configs.faults import Faults
from operad.configs.flow import read_graph
from operad.configs.imports import LoadedModules, Modules, StandIns
from operad.configs.library import open_library
from operad.configs.models import make_model
from operad.configs.names import name_tools
from operad.configs.node_capabilities import graph_capabilities
from operad.configs.read_capabilities import read_capabilities
from operad.configs.schema import ConfigSpec, SearchSpec, ServicesSpec
from operad.configs.toolbox import Toolbox
from operad.flows.assemble import assemble
from operad.flows.formats.fields import LossyError, summary
from operad.operators import Services
from operad.operators.mcp import McpTools
from operad.operators.nodes import NODE_TYPES
from operad.operators.sandbox.snippet import CodeLimits
from operad.operators.web.endpoints import ImageModel, SpeechModel
from operad.operators.web.fetch import PUBLIC_WEB
from operad.operators.web.search import SearchProvider, SerpApi
from operad.operators.web.searches import DuckDuckGo, SearxNG, Tavily
from operad.runtime.knowledge.knowledge import KnowledgeBase
from operad.runtime.models.model import Model
from operad.runtime.models.names import locate
from operad.runtime.reasoning.reasoner import Reasoner
from operad.runtime.tools.tool import Tool
from operad.runtime.values.document import Path_, read_document
from operad.runtime.values.errors import InputError, InvalidError, did_you_mean
from operad.runtime.workflow.workflow import BuiltinWorkflow, Workflow


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
        path: The file.
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
    """Return the external services of nodes and of tools that come with operad; unset values come from the environment.

    Args:
        spec: The section.
        folder: Folder of the file.
        faults: Collected faults.
        path: Path of the section.
    """
    services = replace(
        services_of_environment(),
        folder=folder / os.path.expanduser(spec.folder) if spec.folder else None,
        guard=replace(PUBLIC_WEB, **{**said(spec.http), "allowed_hosts": tuple(spec.http.allowed_hosts)}),
        code=replace(CodeLimits(**said(spec.code)), packages=tuple(spec.code.packages)),
    )
    if spec.search:
        services = replace(services, search=_search(spec.search, faults, (*path, "search")))
    if spec.images:
        arguments = endpoint_of(spec.images, faults, (*path, "images"))
        services = replace(services, images=ImageModel(**arguments) if arguments else None)
    if spec.speech:
        arguments = endpoint_of(spec.speech, faults, (*path, "speech"))
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
        spec: The section.
        outside: Result of `make_outside` for the section.
        folder: Folder of the file.
        faults: Collected faults.
        path: Path of the section.
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
        report_key(name, faults, path)
        return None
    return (Tavily if spec.type == "tavily" else SerpApi)(api_key=key, **address)
