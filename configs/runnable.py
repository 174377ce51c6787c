"""What a file makes that can run, and what it is made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from operad.configs.code import Trust
from operad.configs.flow import find_graph, flow_expert
from operad.configs.loader import load
from operad.configs.schema import DurableSpec
from operad.configs.services import load_services, services_of_environment
from operad.flows.node_graph import NodeGraph
from operad.operators.services import Services
from operad.runtime.agents.agent import Agent
from operad.runtime.models.endpoint import without_login
from operad.runtime.values.errors import InputError
from operad.runtime.values.message import Value

if TYPE_CHECKING:
    from operad.runtime.durable.rows import KeptRun
    from operad.runtime.durable.served import Served


class Source(Value):
    """What a command makes a run from; never a key.

    Attributes:
        file: The absolute path of a file, or the name of one that comes with operad.
        expert: Which of its experts; None for the leader, or the only one.
        model: The model's name; None for what the file or the environment says.
        base_url: The model's endpoint, likewise; without a login.
        services: The absolute path of a file of services.
        out: The absolute path of the folder where nodes write files.
        workers: Whether workers do its operators.
        files: Where files that its operators make are kept; None for beside the database.
        lossy: Whether an imported workflow may run though its results may be others than where it comes from.
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


def source_of(kept: KeptRun) -> Source:
    """What a kept run was made from.

    Raises:
        InputError: No command made it, or a later version did.
    """
    try:
        return Source.model_validate_json(kept.source)
    except ValidationError as error:
        raise InputError(
            f"run {kept.run_id!r} was not begun by a command that can go on with it; execute its workflow with "
            f"run_id={kept.run_id!r} again in the program that began it"
        ) from error


@dataclass(frozen=True, slots=True)
class Runnable:
    """What a command runs.

    Attributes:
        agent: Who does the job.
        goal: What is to be done, where nothing else is said.
        graph: The workflow of typed nodes; None where it is a configuration.
        services: What its nodes reach outside.
        name: What workers call it.
        team: All agents that its file makes.
        durable: Which of its finished runs are deleted.
    """

    agent: Agent
    goal: str
    graph: NodeGraph | None
    services: Services
    name: str
    team: Sequence[Agent]
    durable: DurableSpec | None = None

    def served(self) -> Served:
        """What workers have of it."""
        from operad.runtime.durable.served import Served  # not at import: it loads the database layer

        return Served(self.name, self.team)


def make(source: Source, trust: Trust = False) -> Runnable:
    """What a file makes.

    Args:
        source: The file, and what the command was given.
        trust: Whether the code that it names may run.

    Raises:
        UntrustedError: It names code that is not trusted.
        InputError: There is no such file, or an option was given that it has no use for.
        LossyError: It was imported, its results may be others here, and the source does not say that it may run.
        InvalidError: It cannot be used; every issue is listed.
    """
    graph = find_graph(source.file)
    model, base_url = source.model, source.base_url
    if source.workers and (model or base_url):
        raise InputError("workers have models of their own: say --model and --base-url to operad worker, not here")
    if graph is None:
        _refuse(
            source.file, {"--output": source.out, "--services": source.services}, "says this itself, under `services`"
        )
        configuration = load(source.file, trust=trust)
        able = configuration.agent(source.expert, model_name=model, base_url=base_url)
        _check_model(able, source)
        goal = configuration.spec.app.desc or able.profile.description or able.profile.name
        team = [configuration.expert(each.name, model_name=model, base_url=base_url) for each in configuration.profiles]
        durable = configuration.spec.durable
        return Runnable(able, goal, None, configuration.services, Path(source.file).stem, team, durable)
    _refuse(source.file, {"--expert": source.expert}, "is a workflow, and has no experts")
    services = _services(source.services, source.out)
    if not source.lossy and graph.is_imported:
        from operad.flows.formats.remarks import refuse_lossy  # not at import: workflows of ours need no formats

        refuse_lossy(graph, source.file)
    able = flow_expert(graph, services, model, base_url, lossy=True)
    _check_model(able, source)
    return Runnable(able, graph.name, graph, services, Path(source.file).stem, [able])


def _check_model(agent: Agent, source: Source) -> None:
    if not source.workers:  # whose models are their own
        agent.check_model()


def lasting(source: Source) -> Source:
    """The source as it is kept: its paths absolute, and without a login at the endpoint."""
    return source.model_copy(
        update={
            "file": _absolute(source.file),
            "base_url": source.base_url and without_login(source.base_url),
            "services": source.services and str(Path(source.services).expanduser().absolute()),
            "files": _absolute_place(source.files),
            "out": source.out and str(Path(source.out).absolute()),
        }
    )


def _absolute_place(files: str | None) -> str | None:
    return files if files is None or "://" in files else str(Path(files).expanduser().absolute())


def _absolute(file: str) -> str:
    path = Path(file).expanduser()
    return str(path.absolute()) if path.exists() else file  # which is the name of one that comes with operad


def _refuse(file: str, options: Mapping[str, object], why: str) -> None:
    """Raises InputError if one of these options is given, which this file has no use for."""
    if given := [name for name, value in options.items() if value is not None]:
        raise InputError(f"{file} {why}; leave {' and '.join(given)} out")


def _services(file: str | None, out: str | None) -> Services:
    folder = Path(out) if out is not None else None
    if folder and folder.exists() and not folder.is_dir():
        raise InputError(f"--output {folder}: is no folder")
    return load_services(Path(file), folder) if file is not None else replace(services_of_environment(), folder=folder)
