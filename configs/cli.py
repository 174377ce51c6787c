"""The `operad` command."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import ExitStack, aclosing
from dataclasses import replace
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, TextIO, cast

import typer
from rich.console import Console

from operad.configs import evaluate
from operad.configs.ask import Asker, Lines
from operad.configs.edit_command import edit
from operad.configs.flow import find_graph, flow_expert, result_text
from operad.configs.formats_command import check, convert, show
from operad.configs.inputs import ask_inputs, job_of
from operad.configs.insights_command import insights
from operad.configs.loader import load
from operad.configs.nodes_command import nodes
from operad.configs.progress import Remarks, display_on, printable
from operad.configs.schema import ConfigSpec
from operad.configs.services import load_services, services_of_environment
from operad.operators import NodeGraph, Services
from operad.operators.nodes.flow import StartVariable
from operad.runtime import events
from operad.runtime.agent import Agent
from operad.runtime.errors import BudgetError, InputError, OperadError, OperatorError, describe, shorten
from operad.runtime.file import FileDescriptor
from operad.runtime.message import Job, WorkflowMessage, WorkflowStatus
from operad.runtime.reasoner import DualModelReasoner, MonoModelReasoner

EXIT_NOT_SUCCESS = 1
EXIT_BAD_INPUT = 2
EXIT_BY_SIGNAL = {signal.SIGINT: 130, signal.SIGTERM: 143}

GRACE = 0.5
"""Seconds that an interrupted run has to clean up: a thread may hang, a model be in mid-prompt."""

app = typer.Typer(
    help="Build, run, judge and improve workflows of LLM operators.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def _commands() -> None:  # pyright: ignore[reportUnusedFunction] - with it, a single command keeps its name
    pass


@app.command()
def run(
    config: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="A YAML file, or the name of one that comes with operad; or a workflow of typed nodes."
        ),
    ],
    job: Annotated[str, typer.Option(help="What is to be done, in words.")] = "",
    file: Annotated[list[Path] | None, typer.Option(help="A file it is about. May be given again.")] = None,
    input_: Annotated[
        list[str] | None,
        typer.Option("--input", help="A named value, NAME=VALUE; for a file, its path. May be given again."),
    ] = None,
    expert: Annotated[str | None, typer.Option(help="Which expert; by default the leader, or the only one.")] = None,
    model: Annotated[str | None, typer.Option(help="The model's name at its endpoint.")] = None,
    base_url: Annotated[str | None, typer.Option(help="An OpenAI-compatible endpoint, with /v1.")] = None,
    events_file: Annotated[
        Path | None, typer.Option("--events", help="Write every event to this file, as JSON lines.")
    ] = None,
    answer: Annotated[
        list[str] | None, typer.Option(help="The answer to a question that the run asks, ID=VALUE. May be given again.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where the nodes of a workflow write files; by default, a fresh folder.")
    ] = None,
    services_file: Annotated[
        Path | None, typer.Option("--services", help="What the nodes of a workflow reach outside: a YAML file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole message as JSON.")] = False,
) -> None:
    """Run the expert, or the leader of experts, that a YAML file configures; or a workflow of typed nodes.

    The result goes to stdout; progress, questions, the verdict and errors go to stderr. What the run
    asks is answered by --answer, or else by a line of stdin. Exit status: 0 SUCCESS,
    1 any other status, 2 bad input or an error, 130 interrupted, 143 terminated. With --json, an
    error that ends the run is printed as JSON, too, with what operators had said by then.

    A workflow is found by what is in the file: Operad's YAML, a Dify file, a Coze archive, Chat2Workflow's
    JSON, or a whole response with it.
    --file goes to its inputs of files, in order; what is missing is asked for at the terminal.
    """
    graph, lines = find_graph(config), Lines.of_stdin()
    files = tuple(map(FileDescriptor.of, file or ()))
    given = [_named_value("--input", "NAME", text) for text in input_ or ()]
    missing: list[StartVariable] = []
    if graph is None:
        _refuse(config, {"--out": out, "--services": services_file}, "says this itself, under `services`")
        configuration = load(config)
        able = configuration.agent(expert, model_name=model, base_url=base_url)
        goal = job or configuration.spec.app.desc or able.profile.description or able.profile.name
        described, services = Job(goal=goal, files=files, inputs=dict(given)), configuration.services
    else:
        _refuse(config, {"--expert": expert}, "is a workflow, and has no experts")
        services = _services(services_file, out)
        able = flow_expert(graph, services, model, base_url)
        described, missing = job_of(graph, Job(goal=job or graph.name, files=files), given, may_ask=lines.typed)
    answers = dict(_named_value("--answer", "ID", text) for text in answer or ())
    with ExitStack() as stack:
        written = stack.enter_context(_writable(events_file)) if events_file else None
        try:
            message = _run(_follow(able, described, missing, answers, written, lines))
        except (BudgetError, OperatorError) as error:
            if as_json:
                print(_error_json(error))
            raise
        finally:
            if services.made and not services.folder:
                _say(Console(stderr=True), f"files: {services.made}")
    print(_json(message) if as_json else _result(message, graph))
    raise typer.Exit(0 if message.status is WorkflowStatus.SUCCESS else EXIT_NOT_SUCCESS)


@app.command()
def schema() -> None:
    """Print the JSON Schema of configuration files, for editors."""
    print(json.dumps(ConfigSpec.model_json_schema(), indent=2))


app.command()(check)
app.command()(convert)
app.command()(show)
app.command()(edit)
app.command()(insights)
app.command()(nodes)
app.add_typer(evaluate.app, name="evaluate")


def main() -> None:
    """Run the command; every error becomes one message on stderr and an exit status."""
    if hasattr(sys.stdout, "reconfigure"):
        cast("TextIOWrapper", sys.stdout).reconfigure(errors="backslashreplace")  # models say what no encoding can
    try:
        app()
    except OperadError as error:
        print(f"operad: {_told(error)}", file=sys.stderr)
        sys.exit(EXIT_BAD_INPUT)
    except Exception as error:  # noqa: BLE001 - a fault of ours, said in one line like any other
        at = traceback.extract_tb(error.__traceback__)[-1]
        print(f"operad: {describe(error)} (not foreseen, at {at.filename}:{at.lineno})", file=sys.stderr)
        sys.exit(EXIT_BAD_INPUT)


def _run(work: Coroutine[Any, Any, WorkflowMessage]) -> WorkflowMessage:
    """Ctrl-C and SIGTERM cancel what runs; what does not heed it has `GRACE` seconds, then the process ends all the same."""
    received = signal.SIGINT

    def leave() -> None:
        show_cursor = "\x1b[?25h" if sys.stderr.isatty() else ""
        what = "interrupted" if received is signal.SIGINT else "terminated"
        print(f"{show_cursor}operad: {what}", file=sys.stderr, flush=True)
        os._exit(EXIT_BY_SIGNAL[received])

    async def main() -> WorkflowMessage:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()

        def interrupt(number: int, _: object) -> None:
            nonlocal received
            received = signal.Signals(number)
            timer = threading.Timer(GRACE, leave)
            timer.daemon = True
            timer.start()
            if task:
                loop.call_soon_threadsafe(task.cancel)  # all else ends with it, and in order

        before = {number: signal.signal(number, interrupt) for number in EXIT_BY_SIGNAL}
        try:
            return await work
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    try:
        return asyncio.run(main())
    except (KeyboardInterrupt, asyncio.CancelledError):
        leave()
        raise


async def _follow(
    agent: Agent,
    job: Job,
    missing: Sequence[StartVariable],
    answers: Mapping[str, str],
    written: TextIO | None,
    lines: Lines,
) -> WorkflowMessage:
    """Run the agent, show its events on stderr, ask for what is missing and what it asks, and return its message."""
    console = Console(stderr=True)
    job = await ask_inputs(job, missing, lines, partial(_say, console), partial(_prompt, console))
    if isinstance(agent.reasoner, MonoModelReasoner | DualModelReasoner):
        _say(console, f"model: {agent.reasoner.describe()}")
    if written:
        agent.workflow.add_listener(partial(_write, written))
    finished: events.RunFinished | None = None
    remarks = Remarks()
    with display_on(console) as display:
        asker = Asker(agent.workflow, answers, lines, console, display)
        async with asker.serving(), aclosing(agent.stream(job)) as stream:
            async for event in stream:
                display.show(event)
                remarks.apply(event)
                if isinstance(event, events.Interrupted):
                    asker.put(event)
                elif isinstance(event, events.OperatorFailed | events.OperatorCancelled):
                    asker.look()
                elif isinstance(event, events.RunFinished):
                    finished = event
    assert finished is not None  # noqa: S101 - a run that does not finish raises
    _sum_up(finished, remarks, console)
    if unasked := asker.never_asked():
        _say(console, f"nobody asked for --answer {', '.join(unasked)}")
    return finished.message


def _write(file: TextIO, event: events.Event) -> None:
    file.write(json.dumps(event.as_dict(), ensure_ascii=False, default=str) + "\n")


def _sum_up(finished: events.RunFinished, remarks: Remarks, console: Console) -> None:
    message, usage = finished.message, finished.message.usage
    rounds = f"{finished.rounds} round" + ("s" if finished.rounds > 1 else "")
    cost = f"{usage.calls} model calls, {usage.tokens:,} tokens" + (f", cost {usage.cost:.4g}" if usage.cost else "")
    _say(console, f"{message.status.value}  {rounds}, {finished.seconds:.1f} s, {cost}")
    if line := remarks.line():
        _say(console, line)
    if finished.rounds > 1 and message.status is not WorkflowStatus.SUCCESS:
        for line in message.evaluation.splitlines():
            _say(console, line)
    if message.lesson:
        _say(console, f"lesson: {message.lesson}")


def _say(console: Console, line: str) -> None:
    console.print(printable(line), markup=False, highlight=False, soft_wrap=True)


def _prompt(console: Console, text: str) -> None:
    console.print(text, end="", markup=False, highlight=False)


def _told(error: OperadError) -> str:
    """An error for people: on lines that a terminal only shows, with what had been done by then."""
    text = "\n".join(map(printable, str(error).splitlines()))
    finished = list(error.finished) if isinstance(error, BudgetError | OperatorError) else []
    if not finished:
        return text
    names = printable(shorten(finished))
    return f"{text}\n  finished by then: {names}; --events FILE.jsonl keeps what operators said"


def _result(message: WorkflowMessage, graph: NodeGraph | None) -> str:
    """The result for people: of a workflow of typed nodes the outputs, of others the text, as far as there are any."""
    outputs = result_text(message.outputs)
    return (message.scratchpad or outputs) if graph is None else (outputs or message.scratchpad)


def _json(message: WorkflowMessage) -> str:
    """The message as JSON; outputs that JSON has no form for appear as text."""
    return json.dumps(message.model_dump(mode="json", fallback=str), indent=2, ensure_ascii=False)


def _error_json(error: BudgetError | OperatorError) -> str:
    """An error as JSON, with the messages of the operators that had finished."""
    finished = {name: message.model_dump(mode="json", fallback=str) for name, message in error.finished.items()}
    return json.dumps({"error": str(error), "finished": finished}, indent=2, ensure_ascii=False)


def _named_value(option: str, what: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise InputError(f"{option} {text!r}: write {what}=VALUE")
    return name, value


def _refuse(file: str, options: Mapping[str, object], why: str) -> None:
    """Raises InputError if one of these options is given, which this file has no use for."""
    if given := [name for name, value in options.items() if value is not None]:
        raise InputError(f"{file} {why}; leave {' and '.join(given)} out")


def _services(file: Path | None, out: Path | None) -> Services:
    if out and out.exists() and not out.is_dir():
        raise InputError(f"--out {out}: is no folder")
    return load_services(file, out) if file else replace(services_of_environment(), folder=out)


def _writable(path: Path) -> TextIO:
    try:
        return path.open(
            "w", buffering=1, encoding="utf-8", errors="backslashreplace"
        )  # half a surrogate pair is valid JSON
    except OSError as error:
        raise InputError(f"--events {path}: cannot be written: {error.strerror or error}") from error
