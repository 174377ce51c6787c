"""Workflow files in Python: one function for all formats that run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from operad.configs.capabilities import Trust
from operad.configs.flow import find_graph, flow_expert
from operad.configs.loader import Configuration, load
from operad.configs.read_capabilities import require_trust
from operad.configs.services import code_limits, load_services, services_of_environment
from operad.flows.node_graph import NodeGraph
from operad.operators.services import Services
from operad.runtime.agents.agent import Agent
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
    found = open_workflow(str(path), expert, services=services, trust=trust, lossy=lossy)
    if found.configuration is None:
        workflow = found.agent().workflow
        workflow.model = model
        return workflow
    agent = found.agent(model_name=model) if isinstance(model, str) else found.agent(model=model)
    workflow = agent.workflow
    named = found.configuration.names_reasoner(agent.profile.name)
    workflow.model = agent.reasoner if model is not None or named else None
    workflow.memory = agent.memory
    return workflow


@dataclass(frozen=True, slots=True)
class OpenWorkflow:
    """A workflow file that can run: experts, or a workflow of typed nodes.

    Attributes:
        expert: Name of the chosen expert; None for the leader, or the only expert.
        reference: The workflow in Python, as ``module:name``; empty for a file.
    """

    configuration: Configuration | None
    graph: NodeGraph | None
    services: Services
    expert: str | None = None
    reference: str = ""

    def agent(
        self,
        *,
        model: Model | Reasoner | None = None,
        model_name: str | None = None,
        base_url: str | None = None,
    ) -> Agent:
        """Return the chosen agent; arguments and errors are those of `Configuration.expert`."""
        if self.reference:
            from operad.configs.python_reference import agent_named

            return agent_named(self.reference, model_name, base_url)
        if self.configuration is not None:
            return self.configuration.agent(self.expert, model=model, model_name=model_name, base_url=base_url)
        assert self.graph is not None  # noqa: S101 - one of the two is there
        return flow_expert(self.graph, self.services, model_name, base_url, lossy=True)

    def agents(self, model_name: str | None = None, base_url: str | None = None) -> list[Agent]:
        """Return all agents: the leader first, then the experts; or the only agent of a workflow of typed nodes."""
        found = self.configuration
        if found is None:
            return [self.agent(model_name=model_name, base_url=base_url)]
        leaders = [found.leader(model_name=model_name, base_url=base_url)] if found.spec.leader else []
        experts = [found.expert(each.name, model_name=model_name, base_url=base_url) for each in found.profiles]
        return [*leaders, *experts]


def open_workflow(
    file: str,
    expert: str | None = None,
    *,
    services: Services | str | Path | None = None,
    folder: str | None = None,
    trust: Trust = False,
    lossy: bool = False,
) -> OpenWorkflow:
    """Open a workflow file of any kind that can run.

    Args:
        file: The path of the file; or the name of a configuration that comes with Operad.
        services: Services of a workflow of typed nodes, or the path of a services file.
        folder: Folder for files that nodes of a workflow write.
        trust: As for `load_workflow`.
        lossy: As for `load_workflow`.

    Raises:
        InputError, InvalidError, UntrustedError, LossyError: As `load_workflow`.
    """
    graph = find_graph(file, lambda: _checking_services(services))
    if graph is None:
        if Path(file).suffix == ".py" and Path(file).is_file():
            from operad.configs.python_reference import reference_hint  # not at import: other files need none

            raise InputError(
                f"{file}: is a Python file; name the workflow in it: {reference_hint(Path(file))}; or run the file with: "
                f"python {file}"
            )
        configuration = load(file, trust=trust)
        if folder is not None:
            raise InputError(
                f"--output: {file} configures experts; write `services: {{folder: {folder}}}` in it instead"
            )
        if services is not None:
            raise InputError(f"{file} configures experts; write `services: …` in it instead")
        return OpenWorkflow(configuration, None, configuration.services, expert)
    if expert is not None:
        raise InputError(f"{file} is a workflow, and has no experts; leave the expert {expert!r} out")
    require_trust(file, graph, trust)
    if not isinstance(services, Services):
        services = _services(services, folder, trust)
    if not lossy and graph.is_imported:
        from operad.flows.formats.remarks import refuse_lossy  # not at import: workflows of ours need no formats

        refuse_lossy(graph, file)
    return OpenWorkflow(None, graph, services)


def _checking_services(services: Services | str | Path | None) -> Services | None:
    """Return the services that a workflow is checked with: of a services file, only the limits of code."""
    if isinstance(services, Services) or services is None:
        return services
    return Services(code=code_limits(Path(services)))


def _services(file: str | Path | None, folder_name: str | None, trust: Trust) -> Services:
    folder = Path(folder_name) if folder_name is not None else None
    if folder and folder.exists() and not folder.is_dir():
        raise InputError(f"--output {folder}: is not a folder")
    if file is None:
        return replace(services_of_environment(), folder=folder)
    return load_services(Path(file), folder, trust)
