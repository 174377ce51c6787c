"""The `operad` command."""

from __future__ import annotations

import sys
import traceback
from io import TextIOWrapper
from typing import cast

import typer

from operad.configs import evaluate, runs_command
from operad.configs.edit_command import edit
from operad.configs.formats_command import check, convert, show
from operad.configs.generate_command import generate
from operad.configs.insights_command import insights
from operad.configs.logs import LogJson, LogLevel, set_up
from operad.configs.nodes_command import nodes
from operad.configs.optimise.command import optimise
from operad.configs.progress import printable
from operad.configs.repair_command import repair_command
from operad.configs.report_command import report
from operad.configs.run_command import run
from operad.configs.schema_command import schema
from operad.configs.serve.command import serve
from operad.configs.view_command import view
from operad.configs.worker_command import worker, workers
from operad.runtime.errors import BudgetError, OperadError, OperatorError, describe, shorten

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


app.command()(run)
app.command()(schema)
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
