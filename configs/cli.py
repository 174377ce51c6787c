"""The `operad` command."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, TextIO, cast

import typer
from rich.console import Console

from operad.configs import evaluate
from operad.configs.ask import Lines
from operad.configs.edit_command import edit
from operad.configs.flow import find_graph, flow_expert, result_text
from operad.configs.follow import follow, run_to_end, say
from operad.configs.formats_command import check, convert, show
from operad.configs.generate_command import generate
from operad.configs.inputs import job_of
from operad.configs.insights_command import insights
from operad.configs.loader import load
from operad.configs.nodes_command import nodes
from operad.configs.optimise.command import optimise
from operad.configs.progress import printable
from operad.configs.repair_command import repair_command
from operad.configs.schema import ConfigSpec
from operad.configs.services import load_services, services_of_environment
from operad.operators import NodeGraph, Services
from operad.operators.nodes.flow import StartVariable
from operad.runtime.errors import BudgetError, InputError, OperadError, OperatorError, describe, shorten
from operad.runtime.file import FileDescriptor
from operad.runtime.message import Job, WorkflowMessage, WorkflowStatus

EXIT_NOT_SUCCESS = 1
EXIT_BAD_INPUT = 2

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
            message = run_to_end(follow(able, described, missing, answers, written, lines))
        except (BudgetError, OperatorError) as error:
            if as_json:
                print(_error_json(error))
            raise
        finally:
            if services.made and not services.folder:
                say(Console(stderr=True), f"files: {services.made}")
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
app.command()(generate)
app.command()(insights)
app.command()(nodes)
app.command("repair")(repair_command)
app.command()(optimise)
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
