"""The `operad` command: a table of its commands, each imported when it is run."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping, Sequence
from enum import Enum
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, Any, NamedTuple, cast

import typer
from typer.core import TyperCommand, TyperGroup

from operad.runtime.errors import BudgetError, OperadError, OperatorError, describe, shorten

EXIT_BAD_INPUT = 2


class Entry(NamedTuple):
    """A command in the help of ``operad``.

    Attributes:
        name: The word on the command line.
        module: The module that holds the command, below ``operad.configs``.
        attribute: The function of the command, or the Typer app of a group of commands.
        help: The first line of the docstring of the command.
    """

    name: str
    module: str
    attribute: str
    help: str

    def load(self) -> Any:
        """Import the command."""
        found: Any = getattr(import_module(f"operad.configs.{self.module}"), self.attribute)
        if isinstance(found, typer.Typer):
            group: Any = typer.main.get_command(found)
            group.name = self.name
            return group
        alone = typer.Typer(add_completion=False)
        alone.command(self.name)(found)
        return typer.main.get_command(alone)


COMMANDS: Mapping[str, Sequence[Entry]] = {
    "Run": (
        Entry("run", "run_command", "run", "Run the expert or the workflow that a file describes."),
        Entry("runs", "runs_command", "app", "List, show, resume, cancel and delete durable runs."),
        Entry("worker", "worker_command", "worker", "Execute operators for runs that were started with --workers."),
        Entry("workers", "worker_command", "workers", "List workers and drivers of runs, with their current step."),
    ),
    "Make": (
        Entry("generate", "generate_command", "generate", "Generate a workflow from an instruction, or change one."),
        Entry("edit", "edit_command", "edit", "Apply edit operations to a workflow."),
        Entry("repair", "repair_command", "repair_command", "Repair a workflow that a model wrote."),
        Entry("optimise", "optimise.command", "optimise", "Search for a better workflow of an expert."),
        Entry("convert", "formats_command", "convert", "Write a workflow in another format."),
    ),
    "Inspect": (
        Entry("check", "formats_command", "check", "List the issues of workflows and expert configurations."),
        Entry("show", "formats_command", "show", "Draw the graph of a workflow as a picture or a Mermaid flowchart."),
        Entry("nodes", "nodes_command", "nodes", "List the node types of workflows, or describe one."),
        Entry("schema", "schema_command", "schema", "Print the JSON Schema of expert configurations, for editors."),
        Entry("report", "report_command", "report", "Write a report of a run as an HTML page or as Markdown."),
        Entry("view", "view_command", "view", "Show a run in the browser, live or from its stored events."),
        Entry("insights", "insights_command", "insights", "List the insights in a file, or remove some of them."),
    ),
    "Serve": (
        Entry("serve", "serve.command", "serve", "Serve experts over HTTP: OpenAI chat API, MCP tools, run API."),
    ),
    "Evaluate": (
        Entry(
            "evaluate", "evaluate", "app", "Score workflows with the metrics of WorFBench, ComfyFlow, Chat2Workflow."
        ),
    ),
}
"""The commands by the groups of the help."""

_ENTRIES = {entry.name: entry for entries in COMMANDS.values() for entry in entries}


class _Commands(TyperGroup):
    """Group whose commands are imported when they are run; the help needs only the table."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for panel, entries in COMMANDS.items():
            for entry in entries:
                self.add_command(TyperCommand(entry.name, help=entry.help, rich_help_panel=panel))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and _ENTRIES[command.name or ""].load(), rest


class Level(str, Enum):
    """Least severity of what is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


app = typer.Typer(
    help="Build, run, evaluate and optimize LLM workflows.",
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"operad {version('operad')}")
        raise typer.Exit


@app.callback()
def _options(  # pyright: ignore[reportUnusedFunction] - Typer calls it
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Print the version and exit.")
    ] = False,
    log_level: Annotated[
        Level | None,
        typer.Option(case_sensitive=False, help="Write log records of this level and above to stderr."),
    ] = None,
    log_json: Annotated[
        bool, typer.Option("--log-json", help="Write the log as JSON lines; the default level is then info.")
    ] = False,
) -> None:
    if log_level is not None or log_json:
        from operad.configs.logs import set_up

        set_up((log_level or Level.INFO).name, as_json=log_json)


def main() -> None:
    """Run the command; every error becomes one message on stderr and an exit status."""
    if hasattr(sys.stdout, "reconfigure"):
        cast("TextIOWrapper", sys.stdout).reconfigure(errors="backslashreplace")  # models say what no encoding can
    try:
        app(prog_name="operad")
    except OperadError as error:
        print(f"operad: {_told(error)}", file=sys.stderr)
        sys.exit(EXIT_BAD_INPUT)
    except Exception as error:  # noqa: BLE001 - a fault of this program, printed in one line like other errors
        at = traceback.extract_tb(error.__traceback__)[-1]
        print(
            f"operad: internal error: {describe(error)} (at {at.filename}:{at.lineno}); please report it",
            file=sys.stderr,
        )
        sys.exit(EXIT_BAD_INPUT)


def _told(error: OperadError) -> str:
    """Return the error without control characters, with the operators that had finished."""
    from operad.configs.progress import printable

    text = "\n".join(map(printable, str(error).splitlines()))
    finished = list(error.finished) if isinstance(error, BudgetError | OperatorError) else []
    if not finished:
        return text
    names = printable(shorten(finished))
    return f"{text}\n  finished by then: {names}; --events FILE.jsonl keeps what operators said"
