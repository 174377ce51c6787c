"""Runnable agents of a file, and the serializable source of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from operad.configs.capabilities import Trust
from operad.configs.python_reference import is_reference
from operad.configs.schema import DurableSpec
from operad.configs.workflow_file import OpenWorkflow, open_workflow
from operad.flows.node_graph import NodeGraph
from operad.operators.services import Services
from operad.runtime.agents.agent import Agent, Expert
from operad.runtime.models.addresses import without_login
from operad.runtime.values.errors import InputError
from operad.runtime.values.value import Value

if TYPE_CHECKING:
    from operad.runtime.durable.shared_agents import Served
    from operad.runtime.durable.tables import StoredRun


class Source(Value):
    """Source of a command's run; it never contains a key.

    Attributes:
        file: The absolute path of a file, the name of one that comes with operad, or ``module:name`` of a workflow in Python.
        expert: Name of the expert; None for the leader, or the only expert.
        model: Name of the model; None for that of the file or the environment.
        base_url: The model's endpoint, likewise; without a login.
        services: The absolute path of a file of services.
        out: The absolute path of the folder for files that nodes write.
        workers: True if workers execute its operators.
        files: Store for files that its operators create; None for a folder beside the database.
        lossy: True if an imported workflow may run although its results may differ from its platform's.
    """

    file: str
    expert: str | None = None
    model: str | None = None
    base_url: str | None = None
    services: str | None = None
    out: str | None = None
    workers: bool = False
    files: str | None = None
    lossy: bool = False


def source_of(kept: StoredRun) -> Source:
    """Return the source of a kept run.

    Raises:
        InputError: The run was not started by a command, or by a command of a later version.
    """
    try:
        return Source.model_validate_json(kept.source)
    except ValidationError as error:
        raise InputError(
            f"run {kept.run_id!r} was not started by a command, so no command can resume it; run its workflow with "
            f"run_id={kept.run_id!r} again in the program that started it"
        ) from error


@dataclass(frozen=True, slots=True)
class Runnable:
    """Agent and services for a command.

    Attributes:
        goal: Default goal of a job.
        graph: The workflow of typed nodes; None for a configuration.
        services: Services of the nodes.
        name: Name by which workers find the agents.
        durable: Rule for deleting finished runs of the agent; None to keep them.
    """

    agent: Agent
    goal: str
    graph: NodeGraph | None
    services: Services
    name: str
    team: Sequence[Agent]
    durable: DurableSpec | None = None

    def served(self) -> Served:
        """Return the agents that workers serve."""
        from operad.runtime.durable.shared_agents import Served  # not at import: it loads the database layer

        return Served(self.name, self.team)


def make(source: Source, trust: Trust = False, *, asks_model: bool = True) -> Runnable:
    """Return the runnable of a source.

    Args:
        source: The file, and the command's options.
        trust: True if the file may do what it can.
        asks_model: False if its runs ask no model, so that none need be configured.

    Raises:
        UntrustedError: The file needs trust.
        InputError: The file does not exist, or an option does not apply to it.
        LossyError: The workflow was imported, its results may differ here, and the source does not allow that.
        InvalidError: The file is not valid; every issue is listed.
    """
    model, base_url = source.model, source.base_url
    if source.workers and (model or base_url):
        raise InputError("workers have models of their own: say --model and --base-url to operad worker, not here")
    found = opened(source, trust)
    agent = found.agent(model_name=model, base_url=base_url)
    if asks_model and not source.workers:  # workers configure models themselves
        agent.check_model()
    name = source.file if found.reference else Path(source.file).stem
    if found.configuration is None:
        return Runnable(agent, agent.profile.name, found.graph, found.services, name, [agent])
    spec = found.configuration.spec
    goal = spec.app.desc or agent.profile.description or agent.profile.name
    team = [each for each in found.agents(model, base_url) if isinstance(each, Expert)]
    return Runnable(agent, goal, None, found.services, name, team, spec.durable)


def opened(source: Source, trust: Trust = False) -> OpenWorkflow:
    """Return the file of a source, opened with the command's options; errors are those of `make`."""
    services, folder = source.services, source.out
    if is_reference(source.file):
        unfit = {"--expert": source.expert, "--services": services, "--output": folder}
        if given := [option for option, value in unfit.items() if value is not None]:
            raise InputError(
                f"{source.file}: is a workflow in Python, which takes no {' and no '.join(given)}; leave it out"
            )
        return OpenWorkflow(None, None, Services(), reference=source.file)
    return open_workflow(source.file, source.expert, services=services, folder=folder, trust=trust, lossy=source.lossy)


def lasting(source: Source) -> Source:
    """Return the source as it is stored: with absolute paths, and without a login in the endpoint."""
    return source.model_copy(
        update={
            "file": _absolute(source.file),
            "base_url": source.base_url and without_login(source.base_url),
            "services": source.services and str(Path(source.services).expanduser().absolute()),
            "files": _absolute_store(source.files),
            "out": source.out and str(Path(source.out).absolute()),
        }
    )


def _absolute_store(files: str | None) -> str | None:
    return files if files is None or "://" in files else str(Path(files).expanduser().absolute())


def _absolute(file: str) -> str:
    path = Path(file).expanduser()
    return str(path.absolute()) if path.exists() else file  # or the name of a configuration that comes with operad
