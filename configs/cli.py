"""The `operad` command."""

from __future__ import annotations

import json
import sys
import traceback
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, cast

import typer

from operad.configs import evaluate, runs_command
from operad.configs.ask import Lines
from operad.configs.durable import Database, Files, Kept, Source, new_run_id, open_ledger
from operad.configs.edit_command import edit
from operad.configs.formats_command import check, convert, show
from operad.configs.generate_command import generate
from operad.configs.inputs import job_of
from operad.configs.insights_command import insights
from operad.configs.logs import LogJson, LogLevel, set_up
from operad.configs.nodes_command import nodes
from operad.configs.optimise.command import optimise
from operad.configs.prices import PricesFile
from operad.configs.progress import printable
from operad.configs.repair_command import repair_command
from operad.configs.report_command import report
from operad.configs.run_command import carry_out, lasting, make, named_values
from operad.configs.runs_command import RestartFrom, Round, check_restart, restart
from operad.configs.schema import ConfigSpec
from operad.configs.serve.command import serve
from operad.configs.telemetry import Traced
from operad.configs.view_command import View, ViewPort, port_of, view
from operad.configs.worker_command import worker, workers
from operad.operators.nodes.flow import StartVariable
from operad.runtime.errors import BudgetError, OperadError, OperatorError, describe, shorten
from operad.runtime.file import FileDescriptor
from operad.runtime.message import Job

EXIT_BAD_INPUT = 2

app = typer.Typer(
    help="Build, run, judge and improve workflows of LLM operators.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def _commands(log_level: LogLevel = None, log_json: LogJson = False) -> None:  # pyright: ignore[reportUnusedFunction] - with it, a single command keeps its name
    set_up(log_level, as_json=log_json)


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
    prices: PricesFile = None,
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
    durable: Annotated[
        bool, typer.Option("--durable", help="Keep the run in a database, so that it goes on after a crash.")
    ] = False,
    db: Database = None,
    run_id: Annotated[
        str | None,
        typer.Option(help="The kept run's id, by default a fresh one. One that was begun goes on where it was."),
    ] = None,
    restart_from: RestartFrom = None,
    round_: Round = 1,
    workers_: Annotated[
        bool, typer.Option("--workers", help="Have the operators done by workers: operad worker FILE, on any machines.")
    ] = False,
    files: Files = None,
    trace: Traced = None,
    view_: View = False,
    view_port: ViewPort = None,
) -> None:
    """Run the expert, or the leader of experts, that a YAML file configures; or a workflow of typed nodes.

    The result goes to stdout; progress, questions, the verdict and errors go to stderr. What the run
    asks is answered by --answer, or else by a line of stdin. Exit status: 0 SUCCESS,
    1 any other status, 2 bad input or an error, 130 interrupted, 143 terminated. With --json, an
    error that ends the run is printed as JSON, too, with what operators had said by then.

    --db, --run-id, --restart-from, --workers and --files imply --durable: what operators say is kept, and the same command with
    --run-id, or operad runs resume, goes on where a crash, Ctrl-C or an open question left the run.

    --view shows the run on a page in the browser, too, which can answer what it asks, and cancel it; at a terminal the
    page stays after the run, until Ctrl-C.

    A workflow is found by what is in the file: Operad's YAML, a Dify file, a Coze archive, Chat2Workflow's
    JSON, or a whole response with it.
    --file goes to its inputs of files, in order; what is missing is asked for at the terminal.
    """
    source = Source(
        file=config,
        expert=expert,
        model=model,
        base_url=base_url,
        services=None if services_file is None else str(services_file),
        out=None if out is None else str(out),
        workers=workers_,
        files=files,
    )
    check_restart(restart_from, round_, run_id)
    runnable, lines = make(source), Lines.of_stdin()
    described = Job(goal=job or runnable.goal, files=tuple(map(FileDescriptor.of, file or ())))
    given, missing = named_values("--input", "NAME", input_), list[StartVariable]()
    if runnable.graph is None:
        described = described.model_copy(update={"inputs": dict(given)})
    else:
        described, missing = job_of(runnable.graph, described, given, may_ask=lines.typed)
    answers = dict(named_values("--answer", "ID", answer))
    kept: Kept | None = None
    if durable or workers_ or any(given is not None for given in (db, run_id, files)):
        served = runnable.served() if workers_ else None
        ledger = open_ledger(db, lasting(source), workers=served, files=files)
        run_id = new_run_id(runnable.agent.workflow.name) if run_id is None else run_id
        kept = Kept(ledger, run_id, db, lasting(source).base_url)
        if restart_from is not None:
            restart(kept.ledger, kept.run_id, restart_from, round_, runnable.agent)
    port = port_of(view_, view_port)
    carry_out(
        runnable,
        described,
        missing,
        answers,
        events_file,
        lines,
        as_json=as_json,
        kept=kept,
        trace=trace,
        view_port=port,
    )


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
app.command()(report)
app.command()(optimise)
app.add_typer(runs_command.app, name="runs")
app.command()(serve)
app.command()(view)
app.command()(worker)
app.command()(workers)
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
