"""Options and arguments that several commands share, and the values of NAME=VALUE options."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from operad.runtime.models.prices import read_prices
from operad.runtime.values.errors import InputError

WorkflowFile = Annotated[
    str,
    typer.Argument(
        metavar="FILE", help="A YAML file, the name of one that comes with operad, or a workflow of typed nodes."
    ),
]
ServedFiles = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE",
        help="Files to serve, as for operad run, or workflows in Python: module:name. All experts of a file are served.",
    ),
]
ExpertName = Annotated[
    str | None, typer.Option("--expert", help="Name of the expert; by default the leader, or the only one.")
]
ModelName = Annotated[str | None, typer.Option("--model", help="Name of the model at its endpoint.")]
BaseUrl = Annotated[str | None, typer.Option("--base-url", help="An OpenAI-compatible endpoint, with /v1.")]
ServicesFile = Annotated[
    Path | None, typer.Option("--services", help="YAML file of external services for the nodes of a workflow.")
]
EventsFile = Annotated[Path | None, typer.Option("--events", help="Write every event to this file, as JSON lines.")]
Answers = Annotated[
    list[str] | None, typer.Option("--answer", help="Answer to a question of the run, ID=VALUE. Repeatable.")
]
MessageAsJson = Annotated[bool, typer.Option("--json", help="Print the whole message as JSON.")]


def _use_prices(file: Path | None) -> Path | None:
    """Make all models of this process use the prices of a file, as if ``OPERAD_PRICES`` named it.

    Raises:
        InputError: The file does not exist or cannot be read.
        InvalidError: The file does not hold prices; every issue has its line.
    """
    if file is not None:
        read_prices(file)  # faults are reported before anything runs
        os.environ["OPERAD_PRICES"] = str(file.expanduser().absolute())
    return file


PricesFile = Annotated[
    Path | None,
    typer.Option(
        "--prices",
        metavar="FILE",
        callback=_use_prices,
        help="Price file (YAML). By default the file that OPERAD_PRICES names, or operad/prices.yaml in $XDG_CONFIG_HOME (~/.config); other models have their list prices.",
    ),
]
"""The option takes effect when it is parsed; commands ignore its value."""


def named_values(option: str, what: str, texts: Iterable[str] | None) -> list[tuple[str, str]]:
    """Return the values of an option in the form NAME=VALUE.

    Args:
        what: Word for the name in errors.

    Raises:
        InputError: A value has another form.
    """
    pairs: list[tuple[str, str]] = []
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise InputError(f"{option} {text!r}: write {what}=VALUE")
        pairs.append((name, value))
    return pairs


def refuse_repeated(option: str, named: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return the values by name.

    Raises:
        InputError: A name is given twice.
    """
    values: dict[str, str] = {}
    for name, value in named:
        if name in values:
            raise InputError(f"{option} {name}: is given twice; leave one out")
        values[name] = value
    return values
