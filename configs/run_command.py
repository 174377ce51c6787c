"""What `operad run` and `operad runs resume` have in common: what runs, made from a file, and what is printed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn, TextIO

import typer
from rich.console import Console

from operad.configs.ask import Lines
from operad.configs.durable import Kept, Source
from operad.configs.flow import find_graph, flow_expert, result_text
from operad.configs.follow import follow, run_to_end, say
from operad.configs.loader import load
from operad.configs.services import load_services, services_of_environment
from operad.configs.telemetry import listened
from operad.configs.view_command import page_of
from operad.operators import NodeGraph, Services
from operad.operators.nodes.flow import StartVariable
from operad.runtime.agent import Agent
from operad.runtime.durable.served import Served
from operad.runtime.endpoint import without_login
from operad.runtime.errors import BudgetError, InputError, OperatorError
from operad.runtime.message import Job, WorkflowMessage, WorkflowStatus

EXIT_NOT_SUCCESS = 1


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
    """

    agent: Agent
    goal: str
    graph: NodeGraph | None
    services: Services
    name: str
    team: Sequence[Agent]

    def served(self) -> Served:
        """What workers have of it."""
        return Served(self.name, self.team)


def make(source: Source) -> Runnable:
    """What a file makes.

    Raises:
        InputError: There is no such file, or an option was given that it has no use for.
        InvalidError: It cannot be used; every issue is listed.
    """
    graph = find_graph(source.file)
    model, base_url = source.model, source.base_url
    if source.workers and (model or base_url):
        raise InputError("workers have models of their own: say --model and --base-url to operad worker, not here")
    if graph is None:
        _refuse(source.file, {"--out": source.out, "--services": source.services}, "says this itself, under `services`")
        configuration = load(source.file)
        able = configuration.agent(source.expert, model_name=model, base_url=base_url)
        goal = configuration.spec.app.desc or able.profile.description or able.profile.name
        team = [configuration.expert(each.name, model_name=model, base_url=base_url) for each in configuration.profiles]
        return Runnable(able, goal, None, configuration.services, Path(source.file).stem, team)
    _refuse(source.file, {"--expert": source.expert}, "is a workflow, and has no experts")
    services = _services(source.services, source.out)
    able = flow_expert(graph, services, model, base_url)
    return Runnable(able, graph.name, graph, services, Path(source.file).stem, [able])


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


def carry_out(
    runnable: Runnable,
    job: Job,
    missing: Sequence[StartVariable],
    answers: Mapping[str, str],
    events_file: Path | None,
    lines: Lines,
    *,
    as_json: bool,
    kept: Kept | None = None,
    trace: str | None = None,
    view_port: int | None = None,
) -> NoReturn:
    """Run it, print what comes of it to stdout and all else to stderr, and leave with an exit status.

    Args:
        runnable: What runs.
        job: What is to be done.
        missing: Inputs that are asked for at the terminal.
        answers: Answers to what it asks, by the questions' ids.
        events_file: Where its events are written.
        lines: Where other answers come from.
        as_json: Whether the whole message, or what an error leaves, is printed as JSON.
        kept: How it is kept.
        trace: Where its spans go.
        view_port: Where a page shows it; None for no page.
    """
    services = runnable.services
    with ExitStack() as stack:
        written = stack.enter_context(_writable(events_file)) if events_file else None
        page = None if view_port is None else stack.enter_context(page_of(runnable.agent.workflow, view_port))
        try:
            work = follow(runnable.agent, job, missing, answers, written, lines, kept, page)
            message = run_to_end(listened(runnable.agent.workflow, trace, work), kept)
        except (BudgetError, OperatorError) as error:
            if as_json:
                print(_error_json(error))
            raise
        finally:
            if services.made and not services.folder:
                say(Console(stderr=True), f"files: {services.made}")
        deliver(message, typed=runnable.graph is not None, as_json=as_json)


def deliver(message: WorkflowMessage, *, typed: bool, as_json: bool) -> NoReturn:
    """Print a result, and leave with its exit status.

    Args:
        message: The result.
        typed: Whether a workflow of typed nodes made it.
        as_json: Whether the whole of it is printed, as JSON.
    """
    print(message_json(message) if as_json else _result(message, typed=typed))
    raise typer.Exit(0 if message.status is WorkflowStatus.SUCCESS else EXIT_NOT_SUCCESS)


def named_values(option: str, what: str, texts: Iterable[str] | None) -> list[tuple[str, str]]:
    """What was given as NAME=VALUE.

    Args:
        option: The option's name.
        what: What it calls the name.
        texts: What was given.

    Raises:
        InputError: One is not written so.
    """
    return [_named_value(option, what, text) for text in texts or ()]


def _named_value(option: str, what: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise InputError(f"{option} {text!r}: write {what}=VALUE")
    return name, value


def message_json(message: WorkflowMessage) -> str:
    """The message as JSON; outputs that JSON has no form for appear as text."""
    return json.dumps(message.model_dump(mode="json", fallback=str), indent=2, ensure_ascii=False)


def _result(message: WorkflowMessage, *, typed: bool) -> str:
    """The result for people: of a workflow of typed nodes the outputs, of others the text, as far as there are any."""
    outputs = result_text(message.outputs)
    return (outputs or message.scratchpad) if typed else (message.scratchpad or outputs)


def _error_json(error: BudgetError | OperatorError) -> str:
    """An error as JSON, with the messages of the operators that had finished."""
    finished = {name: message.model_dump(mode="json", fallback=str) for name, message in error.finished.items()}
    return json.dumps({"error": str(error), "finished": finished}, indent=2, ensure_ascii=False)


def _refuse(file: str, options: Mapping[str, object], why: str) -> None:
    """Raises InputError if one of these options is given, which this file has no use for."""
    if given := [name for name, value in options.items() if value is not None]:
        raise InputError(f"{file} {why}; leave {' and '.join(given)} out")


def _services(file: str | None, out: str | None) -> Services:
    folder = Path(out) if out is not None else None
    if folder and folder.exists() and not folder.is_dir():
        raise InputError(f"--out {folder}: is no folder")
    return load_services(Path(file), folder) if file is not None else replace(services_of_environment(), folder=folder)


def _writable(path: Path) -> TextIO:
    try:
        return path.open(
            "w", buffering=1, encoding="utf-8", errors="backslashreplace"
        )  # half a surrogate pair is valid JSON
    except OSError as error:
        raise InputError(f"--events {path}: cannot be written: {error.strerror or error}") from error
