"""The `operad` command: the table of its commands, each imported when it is run."""

from __future__ import annotations

import errno
import json
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from enum import StrEnum
from functools import cache
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, Any, NoReturn, cast

import typer
from typer.core import TyperCommand, TyperGroup

import operad
from operad.cli.process import StdoutError, imports_done, put
from operad.runtime.values.base_errors import InvalidError, OperadError, describe, shorten
from operad.runtime.values.text import printable

EXIT_BAD_INPUT = 2


COMMANDS = {
    "Run": {
        "run": (
            "run:run",
            "Run an expert or a leader of experts from a YAML file, or a workflow of typed nodes.",
        ),
        "chat": ("chat:chat", "Chat with an expert at the terminal; it remembers the conversation."),
        "chats": ("chat:chats", "List kept conversations, or remove some of them."),
        "runs": ("runs:app", "List, show, resume, cancel and delete durable runs."),
        "worker": (
            "worker:worker",
            "Execute the operators of runs that were started with --workers, on any machine.",
        ),
        "workers": (
            "worker:workers",
            "List the processes that drive runs or execute operators, with their current step.",
        ),
        "postgres": (
            "postgres:postgres",
            "Run a PostgreSQL server for this machine, to try durable runs and workers, and print its URL.",
        ),
    },
    "Make": {
        "init": (
            "init:init",
            "Write a small expert to begin with: expert.yaml, and expert.py, which runs it from Python.",
        ),
        "generate": (
            "generate:generate",
            "Generate a workflow of typed nodes from an instruction, or change one; with --to expert, a YAML file of an expert.",
        ),
        "studio": (
            "studio:studio",
            "Draw workflows, change them by words and run them, in the browser.",
        ),
        "edit": ("edit:edit", "Apply edit operations to a workflow: all of them, or none."),
        "repair": (
            "repair:repair_command",
            "Repair a workflow that a model wrote: its JSON, form, references and edges.",
        ),
        "optimise": (
            "optimise:optimise",
            "Search for a better workflow of an expert: a model proposes changes, tasks score them.",
        ),
        "convert": (
            "formats:convert",
            "Write a workflow in another format; an existing output file is replaced as a whole, unless --into names it.",
        ),
    },
    "Inspect": {
        "check": (
            "formats:check",
            "Print every issue of workflows of any format and of YAML files of experts; nothing is run.",
        ),
        "show": (
            "formats:show",
            "Draw a workflow, or the workflows of experts with their evaluators and their leader.",
        ),
        "models": (
            "models:app",
            "List the models of the environment with what each can, its price and its context; test one.",
        ),
        "nodes": ("nodes:nodes", "List the node types of workflows, or describe one TYPE."),
        "schema": ("schema:schema", "Print the JSON Schema of the YAML files of experts, for editors."),
        "report": (
            "report:report",
            "Write a report of a run: a self-contained page (.html), or a summary in Markdown (.md).",
        ),
        "view": (
            "view:view",
            "Show a run in the browser, from its events file or from a database; live while it runs.",
        ),
        "trust": (
            "trust:trust",
            "Trust files in what they can do, so that operad run does not ask again; --list and --revoke manage the list.",
        ),
        "secrets": (
            "secrets:app",
            "List, set and delete the secrets that requests and MCP servers get; values are never shown.",
        ),
        "insights": ("insights:insights", "List the insights in a file, or remove some of them."),
        "docs": (
            "docs:docs",
            "Print a page of the documentation, or list the pages; a word lists the sections about it, or those that contain it.",
        ),
    },
    "Serve": {
        "serve": (
            "serve:serve",
            "Serve experts as OpenAI chat models (/v1), MCP tools (/mcp) and a run API (/runs).",
        ),
        "key": ("key:key", "Make a key for operad serve: its entry goes to stdout, the key itself to stderr."),
    },
    "Evaluate": {
        "evaluate": (
            "evaluate.commands:app",
            "Evaluate experts on cases, measure evaluators, and score workflows with the metrics of papers.",
        ),
    },
}
"""The commands by panels of the help: module below ``operad.cli`` and name in it, and the first line of the docstring.
A command is imported when it is run."""


class _Command(TyperCommand):
    """Command whose error suggests ``--job`` if a job is given without that option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            message: Any = getattr(error, "message", "")
            if message.startswith("Got unexpected extra argument") and any(
                param.name == "job" for param in self.params
            ):
                cast("Any", error).message = f'{message}; write the job in quotes after --job: --job "…"'
            raise


class _Commands(TyperGroup):
    """Group of the commands in `COMMANDS`; the help needs no imports of commands."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for panel, commands in COMMANDS.items():
            for name, (_, line) in commands.items():
                self.add_command(TyperCommand(name, help=line, rich_help_panel=panel))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and load(command.name or ""), rest


@cache
def load(name: str) -> Any:
    """Import a command or a group of commands."""
    module, _, attribute = next(commands[name][0] for commands in COMMANDS.values() if name in commands).partition(":")
    found = getattr(import_module(f"operad.cli.{module}"), attribute)
    imports_done()
    if not isinstance(found, typer.Typer):
        found, function = typer.Typer(add_completion=False), found
        found.command(name, cls=_Command)(function)
    return typer.main.get_command(found)


def load_all() -> Any:
    """Return the whole command with all of its commands imported, for the documentation and its tests."""
    root: Any = typer.main.get_command(app)
    for name in root.commands:
        root.commands[name] = load(name)
    return root


class Level(StrEnum):
    """Minimum severity of log records."""

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
        from operad.cli.logs import set_up

        set_up((log_level or Level.INFO).name, as_json=log_json)


def main() -> None:
    """Run the command; every error becomes one message on stderr and an exit status."""
    try:
        try:
            _run_command()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        sys.exit(1)
    except StdoutError as error:
        print(f"operad: stdout cannot be written: {error.strerror}", file=sys.stderr)
        sys.exit(EXIT_BAD_INPUT)


def _run_command() -> None:
    if hasattr(sys.stdout, "reconfigure"):
        cast("TextIOWrapper", sys.stdout).reconfigure(
            errors="backslashreplace"
        )  # models may write characters that the encoding lacks
    try:
        app(prog_name="operad")
    except OperadError as error:
        if "--json" in sys.argv:
            put(_error_json(error))
        print(f"operad: {_error_text(error)}", file=sys.stderr)
        sys.exit(EXIT_BAD_INPUT)
    except (StdoutError, BrokenPipeError):
        raise
    except OSError as error:
        if not _has_folder():
            print("operad: the current folder does not exist any more; change to another one", file=sys.stderr)
            sys.exit(EXIT_BAD_INPUT)
        if error.errno != errno.ENAMETOOLONG:
            _exit_with_internal_error(error)
        print(f"operad: {printable(str(error.filename)[:80])}…: the name of the file is too long", file=sys.stderr)
        sys.exit(EXIT_BAD_INPUT)
    except Exception as error:  # noqa: BLE001 - a fault of this program, printed in one line like other errors
        _exit_with_internal_error(error)


def _has_folder() -> bool:
    """Return True if the current folder exists."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def _exit_with_internal_error(error: Exception) -> NoReturn:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    print(
        f"operad: internal error: {describe(error)} (at {frame.filename}:{frame.lineno}); please report it",
        file=sys.stderr,
    )
    sys.exit(EXIT_BAD_INPUT)


def _error_json(error: OperadError) -> str:
    """Return the error as JSON, with its issues, or with the messages of the operators that had finished."""
    found: dict[str, Any] = {"error": str(error)}
    if isinstance(error, InvalidError):
        from operad.configs.issues import issue_dicts

        found = {"error": str(error).partition("\n")[0], "issues": issue_dicts(error)}
    if error.finished:
        found["finished"] = {key: each.model_dump(mode="json", fallback=str) for key, each in error.finished.items()}
    return json.dumps(found, indent=2, ensure_ascii=False)


def _error_text(error: OperadError) -> str:
    """Return the text of an error without control characters, with the operators that had finished."""
    if isinstance(error, InvalidError):
        from operad.configs.issues import error_lines

        return "\n".join(error_lines(error))
    text = "\n".join(map(printable, [*str(error).splitlines(), *_raised_at(error)]))
    if not error.finished:
        return text
    names = printable(shorten(list(error.finished)))
    return f"{text}\n  finished by then: {names}; --events FILE.jsonl keeps what operators said"


def _raised_at(error: OperadError) -> Iterator[str]:
    """Yield the line of the user's code that raised the original error, if it was the user's code."""
    from operad.runtime.policies.policy import causes

    first = next((cause for cause in causes(error) if not isinstance(cause, OperadError)), None)
    if first is None:
        return
    ours = [*operad.__path__, *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))]
    frames = traceback.extract_tb(first.__traceback__)
    theirs = [each for each in frames if not each.filename.startswith((*ours, "<"))]
    if theirs:
        at = theirs[-1]
        yield f"  raised at {os.path.relpath(at.filename)}:{at.lineno}, in {at.name}: {at.line}"
