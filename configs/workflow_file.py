"""Workflow files in Python: one function for all formats that run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from operad.configs.capabilities import Trust
from operad.configs.flow import find_graph
from operad.configs.loader import load
from operad.configs.read_capabilities import require_trust
from operad.configs.services import load_services, services_of_environment
from operad.flows.assemble import assemble
from operad.flows.node_graph import NodeGraph
from operad.operators.nodes import NODE_TYPES
from operad.operators.services import Services
from operad.runtime.models.model import Model
from operad.runtime.reasoning.reasoner import Reasoner
from operad.runtime.values.arguments import short_repr
from operad.runtime.values.errors import InputError
from operad.runtime.workflow.workflow import Workflow


def load_workflow(
    path: str | Path,
    *,
    expert: str | None = None,
    model: Model | Reasoner | str | None = None,
    services: Services | str | Path | None = None,
    trust: Trust = False,
    lossy: bool = False,
) -> Workflow[Any]:
    """Load a workflow from a file: experts in YAML, a node workflow, or a file of Dify, Coze or Chat2Workflow.

        flow = load_workflow("expert.yaml", model="gpt-5.6")
        print(flow.run("My name is Ada.").text)

    Args:
        path: The file; or the name of a configuration that comes with Operad, such as ``designer``.
        expert: Name of an expert in a file of experts; by default its leader, or its only expert.
        model: Model of the runs: a model, its name, or a reasoner; by default that of the file, or the one that
            environment variables name.
        services: Services of a node workflow, or the path of a services file. A file of experts names its own.
        trust: True if the file may do what it can; or a function that decides for its `Capabilities`, as for `load`.
        lossy: True to accept an imported workflow whose results may differ from those of its platform.

    Returns:
        The workflow, with the file's model; its `memory` is that of the file, for `Workflow.chat`.

    Raises:
        InputError: The file or the expert does not exist, or an argument does not apply to the file.
        InvalidError: The file is not valid; every issue has its place in the file.
        UntrustedError: The file needs trust; nothing of what it can do was done.
        LossyError: The results may differ from those of the platform, and `lossy` is False.
    """
    if not isinstance(path, str | Path):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"load_workflow(…): expected the path of a file, got {short_repr(path)}")
    if not isinstance(expert, str | None):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"load_workflow(…): expert: expected a name, got {short_repr(expert)}")
    if Path(path).suffix == ".py":
        raise InputError(f"{path}: is a Python file, not a workflow file: import the workflow from it")
    graph = find_graph(str(path))
    if graph is not None:
        return _node_workflow(graph, str(path), expert, model, services, trust, lossy)
    if services is not None:
        raise InputError(f"{path} configures experts; write `services: …` in it instead of the argument services")
    configuration = load(path, trust=trust)
    if isinstance(model, str):
        agent = configuration.agent(expert, model_name=model)
    else:
        agent = configuration.agent(expert, model=model)
    workflow = agent.workflow
    workflow.model = agent.reasoner if model is not None or configuration.names_reasoner(agent.profile.name) else None
    workflow.memory = agent.memory
    return workflow


def _node_workflow(
    graph: NodeGraph,
    path: str,
    expert: str | None,
    model: Model | Reasoner | str | None,
    services: Services | str | Path | None,
    trust: Trust,
    lossy: bool,
) -> Workflow[Any]:
    if expert is not None:
        raise InputError(f"{path} is a node workflow, and has no experts; leave expert={expert!r} out")
    require_trust(path, graph, trust)
    if services is None:
        services = services_of_environment()
    elif not isinstance(services, Services):
        services = load_services(Path(services), None, trust)
    workflow = assemble(graph, NODE_TYPES, services=services, lossy=lossy)
    workflow.model = model
    return workflow
