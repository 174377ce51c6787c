"""The command starts with little: a table of its commands, each imported when it is run; completion; internal errors."""

import gc
import json
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from operad.cli import main as cli

NAMES = [name for commands in cli.COMMANDS.values() for name in commands]
COMMAND = "from operad.cli.entry import main; main()"
EXPERT = """
operators:
  - &writer {instruction: Write a haiku.}
experts:
  - profile: {name: poet}
    workflow: [[*writer]]
"""
HEAVY = (
    "dbgpt fastapi fsspec httpx jinja2 jsonschema litellm matplotlib mcp networkx numpy onnxruntime openai opentelemetry "
    "pandas pgqueuer psycopg pydantic_monty scipy sqlalchemy starlette tokenizers typst uvicorn xllamacpp"
).split()
UNUSED = [
    "rich", "urllib.request", "operad.flows.formats.table", "operad.runtime.durable.ledger",
    "operad.operators.media.documents", "operad.operators.sandbox.monty",
    "operad.runtime.knowledge.documents", "operad.runtime.knowledge.passage_index",
    *(f"operad.operators.nodes.{name}" for name in ("containers", "files", "flow", "models", "sources", "values")),
]  # fmt: skip
"""What an expert without typed nodes and documents does not need."""
LIGHT = [*HEAVY, "asyncio", "msgspec", "operad.cli.run", "operad.operators", "operad.runtime.values.message"]


def imported(arguments, folder, environment=None):
    """What a command prints, and the modules that it has imported when it ends."""
    code = "import atexit, json, sys; atexit.register(lambda: print(json.dumps(list(sys.modules)), file=sys.stderr))\n"
    done = subprocess.run(
        [sys.executable, "-c", code + COMMAND, *arguments], env=environment, cwd=folder, capture_output=True, text=True,
        check=True, timeout=60,
    )  # fmt: skip
    return done.stdout, set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize("name", NAMES)
def test_the_table_has_the_first_line_of_each_command(name):
    [line] = [commands[name][1] for commands in cli.COMMANDS.values() if name in commands]
    assert cli.load(name).help.splitlines()[0] == line


def test_the_help_has_every_command_in_its_panel():
    text = CliRunner().invoke(cli.app, ["--help"], terminal_width=200).output
    panels, words = {}, []
    for line in text.splitlines():
        if line.startswith("╭─ "):
            words = panels.setdefault(line.split()[1], [])
        elif line.startswith("│ ") and line[2] != " ":
            words.append(line.split()[1])
    assert {panel: panels[panel] for panel in cli.COMMANDS} == {
        panel: list(commands) for panel, commands in cli.COMMANDS.items()
    }


def test_the_page_of_the_command_line_has_every_command_in_its_group():
    page = Path(__file__).parents[3].joinpath("docs/command_line.md").read_text(encoding="utf-8")
    group, groups = "", {}
    for named, command in re.findall(r"^\| (\w*) ?\| `operad (\w+)` \|", page, re.MULTILINE):
        group = named or group
        groups.setdefault(group, []).append(command)
    assert groups == {group: list(commands) for group, commands in cli.COMMANDS.items()}


@pytest.mark.parametrize(
    ("arguments", "unwanted"),
    [
        (["--help"], LIGHT),
        (["--version"], LIGHT),
        (["check", "expert.yaml"], [*HEAVY, *UNUSED]),
    ],
    ids=" ".join,
)
def test_what_is_heavy_is_not_imported_by(arguments, unwanted, tmp_path):
    (tmp_path / "expert.yaml").write_text(EXPERT)
    out, modules = imported(arguments, tmp_path)
    assert out == f"operad {version('operad')}\n" if arguments == ["--version"] else out
    assert sorted(modules.intersection(unwanted)) == []


def test_a_server_imports_mcp_when_a_client_of_mcp_comes():
    code = "import sys, operad.server.api.app; sys.exit('mcp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_what_imports_have_made_is_not_looked_through_for_garbage(tmp_path):
    (tmp_path / "expert.yaml").write_text(EXPERT)
    code = (
        "import atexit, gc, json; limits = []; gc.callbacks.append(lambda *_: limits.append(gc.get_threshold()[0]))\n"
        "atexit.register(lambda: print(json.dumps([limits, gc.get_threshold()[0], gc.get_freeze_count()])))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code + COMMAND, "check", "expert.yaml"], cwd=tmp_path, capture_output=True, text=True,
        check=True, timeout=60,
    )  # fmt: skip
    limits, last, frozen = json.loads(done.stdout.splitlines()[-1])
    assert (150_000 in limits, last) == (False, 50_000)
    assert frozen > 30_000


def test_a_program_that_imports_a_command_keeps_its_own_garbage_collection():
    threshold, frozen = gc.get_threshold(), gc.get_freeze_count()
    cli.load("check")
    assert gc.get_threshold() == threshold
    assert gc.get_freeze_count() <= frozen  # those of a fork are frozen, and some of them may go


def test_of_the_node_types_those_are_imported_that_a_file_uses(tmp_path):
    node = "{name: greeting, type: template-transform, params: {variables: [], template: Hello}}"
    (tmp_path / "expert.yaml").write_text(EXPERT.replace("{instruction: Write a haiku.}", node))
    _, modules = imported(["check", "expert.yaml"], tmp_path)
    package = "operad.operators.nodes."
    assert {name.removeprefix(package) for name in modules if name.startswith(package)} == {"values", "flow"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_a_script_that_completes(shell, tmp_path, forked):
    environment = {**os.environ, "_OPERAD_COMPLETE": f"source_{shell}"}
    done = forked.run([sys.executable, "-c", COMMAND], env=environment, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"_OPERAD_COMPLETE=complete_{shell}" in done.stdout


def completing(line):
    """The environment in which bash asks what completes a line."""
    cursor = str(line.count(" "))
    return {**os.environ, "_OPERAD_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": cursor}


def test_names_of_commands_are_completed_without_importing_them(tmp_path):
    names, modules = imported([], tmp_path, completing("operad "))
    assert names.split() == NAMES
    assert sorted(modules.intersection(LIGHT)) == []


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("operad ru", ["run", "runs"]),
        ("operad runs ", ["list", "questions", "show", "resume", "to-case", "cancel", "delete"]),
        ("operad check --js", ["--json"]),
        ("operad evaluate wo", ["worf"]),
    ],
)
def test_subcommands_and_options_are_completed(line, names, tmp_path, forked):
    assert forked.run([sys.executable, "-c", COMMAND], env=completing(line), cwd=tmp_path).stdout.split() == names


def test_an_error_that_nobody_foresaw_is_one_line_with_its_place(monkeypatch, capsys):
    def broken(name):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(cli, "load", broken)
    monkeypatch.setattr(sys, "argv", ["operad", "check", "x.yaml"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    line = broken.__code__.co_firstlineno + 1
    told = f"operad: internal error: ZeroDivisionError: division by zero (at {__file__}:{line}); please report it\n"
    assert (end.value.code, capsys.readouterr().err) == (2, told)
