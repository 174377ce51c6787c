"""Write `docs/reference/` from the declarations.

make reference                                  # into docs/reference
python docs/make/reference.py FOLDER            # into another folder
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import architecture
import compatibility
import imported
import node_types
import yaml_keys
from architecture import LAYERS, ROOT
from issue_codes import codes
from meanings import ERRORS, MEANINGS

from operad.cli.main import load_all
from operad.runtime.values.errors import OperadError

NOTE = "<!-- Written by docs/make/reference.py from {}. -->"


# Errors and the codes of issues


def errors() -> str:
    """Return `errors.md`.

    Raises:
        ValueError: An error or a code has no words of its own in `meanings`, or there is no such one.
    """
    kinds = {kind.__name__: kind for kind in _errors()}
    described = [code for group in MEANINGS.values() for code in group]
    for what, there, told in (("errors", set(kinds), set(ERRORS)), ("codes", codes(), set(described))):
        if there != told:
            raise ValueError(
                f"docs/make/meanings.py, {what}: add {sorted(there - told)}, remove {sorted(told - there)}"
            )
    lines = [
        "# Errors and issue codes",
        "",
        NOTE.format("the docstrings of the errors, and docs/make/meanings.py"),
        "",
        "All errors that Operad raises deliberately are subclasses of `OperadError`. The message states the problem, the",
        "place, the reason and the fix. Commands print it on stderr and exit with status 2. The effects of an error on a run",
        "are described in [errors and cancellation](../failure.md).",
        "",
        "## Errors",
        "",
        "| error | base class, besides `OperadError` | raised when | fix |",
        "|---|---|---|---|",
    ]
    for name, kind in kinds.items():
        base = "" if OperadError in (kind, kind.__mro__[1]) else f"`{kind.__mro__[1].__name__}`"
        lines.append(f"| `{name}` | {base} | {_first(kind.__doc__)} | {ERRORS[name]} |")
    lines += [
        "",
        "A static check reports all issues in one `InvalidError`. Its `issues` are `Issue(code, message, where)`: a code for",
        "programs, a message with the problem and the fix, and the place. `operad check` prints one issue per line.",
        "",
    ]
    for group, meanings in MEANINGS.items():
        lines += [f"## {group}", "", "| code | meaning | example of a fix |", "|---|---|---|"]
        rows = [f"| `{code}` | {meaning} | {mend} |" for code, (meaning, mend) in meanings.items()]
        lines += [*rows, ""]
    return "\n".join(lines)


def _errors() -> Iterator[type[OperadError]]:
    """Yield all error classes, base classes first."""
    for layer in LAYERS:
        package = import_module(f"operad.{layer}")
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            import_module(module.name)
    waiting: list[type[OperadError]] = [OperadError]
    while waiting:
        kind = waiting.pop(0)
        yield kind
        waiting = [*sorted(kind.__subclasses__(), key=lambda each: each.__name__), *waiting]


# The command


def command() -> str:
    """Return `cli.md`."""
    head = [
        "# Command line",
        "",
        NOTE.format("the command itself"),
        "",
        "This page contains the help texts of all commands, as printed by `operad COMMAND --help`. The exit status is 0, or",
        "2 for bad input or an error, unless the command states otherwise. Options may be given in any position; `--no-…`",
        "disables an option, where listed.",
        "",
    ]
    root = load_all()
    return "\n".join([*head, *_commands("operad", root)])


def _commands(path: str, node: Any) -> Iterator[str]:
    if node.help and path != "operad":
        yield f"## {path}\n"
        yield from (f"{paragraph}\n" for paragraph in inspect.cleandoc(node.help).split("\n\n"))
        arguments = [each for each in node.params if each.param_type_name == "argument"]
        options = [each for each in node.params if each.param_type_name == "option" and "--help" not in each.opts]
        if node.params:
            yield "| argument, option | meaning | default |\n|---|---|---|"
        for each in (*arguments, *options):
            names = " ".join(f"`{name}`" for name in (*each.opts, *each.secondary_opts))
            several = "…" if each.nargs == -1 else ""
            name = f"`{each.metavar or each.name.upper()}{several}`" if each in arguments else names
            default = "required" if each.required else _default(each.default)
            yield f"| {name} | {' '.join((each.help or '').split())} | {default} |"
        yield ""
    for name, inner in sorted(getattr(node, "commands", {}).items()):
        yield from _commands(f"{path} {name}", inner)


def _default(value: Any) -> str:
    return "" if value in (None, False, "", ()) or callable(value) else f"`{value}`"


# The architecture


def packages() -> str:
    """Return `architecture.md`."""
    found = architecture.modules()
    lines = [
        "# Architecture",
        "",
        NOTE.format("the packages themselves"),
        "",
        "A job goes through a workflow like this:",
        "",
        "```mermaid",
        *_PICTURE.splitlines(),
        "```",
        "",
        "With a database, the schedule stores each message with the events of its operator, and a resumed run reads them; with",
        "workers, it puts the operator into a queue. Everything that shows a run (terminal, run page, reports, traces) is made",
        "from its events by `runtime/observe/trace.py`.",
        "",
        "Operad has eight layers. Each imports only those below it, each package only packages above it in the table, and no files",
        "import each other in a circle. `make check` and `make test` check this; `python docs/make/architecture.py` prints it.",
        "",
        "| layer | purpose |",
        "|---|---|",
        *(
            f"| `{layer}` | {import_module(f'operad.{layer}').__doc__.splitlines()[0]} |"
            for layer in architecture.LAYERS
        ),
        "",
        "Packages, and their imports within the same layer:",
        "",
        *architecture.table(found, sizes=False),  # sizes would change the page with every line of code
        "",
    ]
    return "\n".join(lines)


_PICTURE = """\
flowchart LR
  job([job]) --> workflow["workflow: operators and edges"]
  workflow --> schedule["schedule: whose predecessors are done?"]
  schedule --> operator["operator: builds a task"]
  operator --> reasoner["reasoner: asks the model, calls tools"]
  reasoner --> message([message])
  message -- to its successors --> schedule
  message -- of the last operators --> evaluator["evaluator: accepts, or names faults"]
  evaluator -- accepted --> result([result])
  evaluator -- "faults: the next round" --> schedule"""


def _first(text: str | None) -> str:
    return " ".join(inspect.cleandoc(text or "").partition("\n\n")[0].split()).replace("|", "\\|")


PAGES: Mapping[str, Callable[[], str]] = {
    "architecture.md": packages,
    "cli.md": command,
    "compatibility.md": compatibility.page,
    "errors.md": errors,
    "imports.md": imported.page,
    "nodes.md": node_types.page,
    "yaml.md": yaml_keys.page,
}


def main(folder: Path) -> None:
    """Write all pages into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        (folder / name).write_text(page().rstrip("\n") + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "reference")
