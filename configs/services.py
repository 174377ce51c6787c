"""What typed nodes reach outside, from what a file says of it and from the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import SecretStr, ValidationError

from operad.configs.faults import Faults
from operad.configs.flow import read_graph
from operad.configs.models import variable
from operad.configs.schema import MakerSpec, SearchSpec, ServicesSpec
from operad.flows.assemble import assemble
from operad.flows.formats.fields import LossyError, summary
from operad.operators import Services
from operad.operators.mcp import McpTools
from operad.operators.node import Fault
from operad.operators.nodes import NODE_TYPES
from operad.operators.sandbox.code import CodeLimits
from operad.operators.web.endpoints import ImageModel, SpeechModel
from operad.operators.web.fetch import PUBLIC_WEB
from operad.operators.web.search import SerpApi
from operad.runtime.knowledge.knowledge import KnowledgeBase
from operad.runtime.models.endpoint import OPENAI_URL
from operad.runtime.tools.tool import Tool
from operad.runtime.values.document import Path_, read_document
from operad.runtime.values.errors import InputError, InvalidError, did_you_mean
from operad.runtime.workflow.workflow import BuiltinWorkflow, Workflow


def services_of_environment(environ: Mapping[str, str] | None = None) -> Services:
    """What the environment names: a key for SerpApi, and models that draw and speak.

    Args:
        environ: Read instead of `os.environ`, which is read when this is called.
    """
    environ = os.environ if environ is None else environ
    search_key = environ.get("SERPAPI_API_KEY")
    key = environ.get("OPENAI_API_KEY")
    endpoint: dict[str, Any] = {
        "base_url": environ.get("OPENAI_BASE_URL") or OPENAI_URL,
        "api_key": SecretStr(key) if key else None,
    }
    draws, speaks = environ.get("OPERAD_IMAGE_MODEL"), environ.get("OPERAD_SPEECH_MODEL")
    return Services(
        search=SerpApi(api_key=SecretStr(search_key)) if search_key else None,
        images=ImageModel(name=draws, **endpoint) if draws else None,
        speech=SpeechModel(name=speaks, **endpoint) if speaks else None,
    )


def load_services(path: Path, out: Path | None) -> Services:
    """What a file says that holds the keys of a configuration's `services` section; the environment completes it.

    Args:
        path: The file.
        out: Where nodes write files, whatever the file says.

    Raises:
        InputError: There is no such file, or it is not text.
        InvalidError: It cannot be used; every issue has its line and its path in the file.
    """
    document = read_document(path)
    faults = Faults(document, ServicesSpec)
    try:
        spec = ServicesSpec.model_validate(document.data)
    except ValidationError as error:
        faults.report_validation((), error)
        raise faults.error() from error
    if out:
        spec = spec.model_copy(update={"folder": str(out.absolute())})
    services = make_services(spec, path.expanduser().resolve().parent, faults, ())
    if faults:
        raise faults.error()
    return services


def make_services(
    spec: ServicesSpec,
    folder: Path,
    faults: Faults,
    path: Path_,
    *,
    tools: Sequence[Tool | McpTools] = (),
    knowledge: Mapping[str, KnowledgeBase] | None = None,
    platform: type[Workflow] = BuiltinWorkflow,
) -> Services:
    """What the section at `path` says; what it does not say, the environment does.

    Args:
        spec: The section.
        folder: Where the file lies.
        faults: What is wrong with it.
        path: Where the section stands.
        tools: The file's tools.
        knowledge: Its knowledge bases, by name.
        platform: The kind of workflow that `workflows` become.
    """
    workflows: dict[str, Workflow] = {}
    services = replace(
        services_of_environment(),
        folder=folder / os.path.expanduser(spec.folder) if spec.folder else None,
        guard=replace(PUBLIC_WEB, **{**_said(spec.http), "allowed_hosts": tuple(spec.http.allowed_hosts)}),
        code=CodeLimits(**_said(spec.code)),
        tools=tools,
        knowledge=knowledge or {},
        workflows=workflows,
    )
    if spec.search:
        services = replace(services, search=_search(spec.search, faults, (*path, "search")))
    if spec.images:
        made = endpoint_of(spec.images, faults, (*path, "images"))
        services = replace(services, images=ImageModel(**made) if made else None)
    if spec.speech:
        made = endpoint_of(spec.speech, faults, (*path, "speech"))
        services = replace(services, speech=SpeechModel(**made) if made else None)
    for name, file in spec.workflows.items():
        found = _workflow(file, folder, services, spec, faults, (*path, "workflows", name), platform)
        workflows |= {name: found} if found else {}
    return services


def _workflow(
    file: str,
    folder: Path,
    services: Services,
    spec: ServicesSpec,
    faults: Faults,
    at: Path_,
    platform: type[Workflow],
) -> Workflow | None:
    """The workflow of a file that a sub-workflow node may run; None where it cannot be used."""
    try:
        graph = read_graph(folder / os.path.expanduser(file))
        for node in graph.nodes:
            inner = node.params.get("workflow") if node.type == "sub-workflow" else None
            if unknown := unknown_workflow(inner, services):
                faults.report(at, "unknown-workflow", f"{file}: {node.id}: {unknown}; it may run those before it")
        return assemble(graph, NODE_TYPES, services=services, platform=platform, lossy=spec.lossy)
    except LossyError as error:
        what = f"{file}: loses {summary(error.losses)}; operad check {file} says how; `lossy: true` beside `workflows`"
        faults.report(at, "lossy", f"{what} runs it all the same")
    except InvalidError as error:
        for issue in error.issues:
            faults.report(at, issue.code, ": ".join(filter(None, (file, issue.where, issue.message))))
    except InputError as error:
        faults.report(at, "value", str(error))
    return None


def unknown_workflow(name: object, services: Services) -> str:
    """That there is no workflow of this name, and which was meant; empty where there is."""
    known = services.workflows
    if not isinstance(name, str) or name in known:
        return ""
    return f"no workflow is called {name!r}{did_you_mean(name, known)}; there are: {', '.join(known) or 'none'}"


def param_path(fault: Fault) -> Path_:
    """Where a fault of a typed node's parameters stands, seen from the node."""
    steps = re.findall(r"\[(\d+)\]|([^.\[\]]+)", fault.where)
    return ("params", *(int(number) if number else name for number, name in steps))


def _said(spec: Any) -> dict[str, Any]:
    """What a section says, by the names of what it sets."""
    return spec.model_dump(exclude_unset=True, exclude_none=True)


def _search(spec: SearchSpec, faults: Faults, path: Path_) -> SerpApi | None:
    key = os.environ.get(spec.api_key_env)
    if not key:
        _report_key(spec.api_key_env, faults, path)
        return None
    return SerpApi(api_key=SecretStr(key))


def endpoint_of(spec: MakerSpec, faults: Faults, path: Path_) -> dict[str, Any] | None:
    """What a model is made of; the same rules as for a `model`."""
    key = os.environ.get(spec.api_key_env)
    base_url = spec.base_url or os.environ.get("OPENAI_BASE_URL")
    if key is None and ("api_key_env" in spec.model_fields_set or not base_url):
        _report_key(spec.api_key_env, faults, path)
        return None
    return {
        **{name: value for name, value in _said(spec).items() if name != "api_key_env"},
        "base_url": base_url or OPENAI_URL,
        "api_key": SecretStr(key) if key else None,
    }


def _report_key(name: str, faults: Faults, path: Path_) -> None:
    message = f"the environment variable {variable(name)} is not set; it is to hold the key"
    faults.report((*path, "api_key_env"), "value", message)
