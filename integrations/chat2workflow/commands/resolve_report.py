"""The resolve rates as tables, JSON and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from operad.cli.tables import Plot, Report
from operad.integrations.chat2workflow.pass_rate import STEPS
from operad.integrations.chat2workflow.rates import Outcome, by_category, by_round, grouped
from operad.runtime.evaluation.tables import Cell, Table
from operad.runtime.values.message import NO_USAGE, Usage

_RUN_STEPS = ("2_1", "2_2", "2_3")
_NO_RESULT = ("no file", "no service", "no verdict")
"""Prefixes of the reasons why a test case has no result."""

Items = Sequence[Mapping[str, Any]]
Rates = Mapping[str, float | None]


def report_of(items: Items, settings: Mapping[str, Any]) -> Report:
    """Return the report on the results of test cases.

    The rates count test cases with a result; the others are counted separately. A model with several runs also has
    their mean.
    """
    outcomes = [
        Outcome(item["model"], item["run"], item["category"], item["round"], item["resolved"])
        for item in items
        if item["resolved"] is not None
    ]
    models = grouped(outcomes, lambda outcome: outcome.model)
    means = {
        f"{model}: mean of {count} runs": found
        for model, found in models.items()
        if (count := len({outcome.run for outcome in found})) > 1
    }
    named = {**grouped(outcomes, lambda outcome: outcome.run), **means}
    runs: dict[str, list[Mapping[str, Any]]] = {}
    for item in items:
        runs.setdefault(item["run"], []).append(item)
    domains, rounds = _domains(named), _rounds(named)
    counts = {run: _counts(found) for run, found in runs.items()}
    return Report(
        {"settings": dict(settings), "domains": domains, "rounds": rounds, "counts": counts},
        items,
        [
            _rates("Resolve rate, by domain, %", domains),
            _rates("Resolve rate, by round, %", rounds),
            _ends(counts),
            _costs(counts),
        ],
        [
            _plot("Resolve rate, by domain", "domain", _domains(models)),
            _plot("Resolve rate, by round", "round", _rounds(models), lines=True),
        ],
    )


def _domains(named: Mapping[str, Sequence[Outcome]]) -> dict[str, Rates]:
    return {name: by_category(found) for name, found in named.items()}


def _rounds(named: Mapping[str, Sequence[Outcome]]) -> dict[str, Rates]:
    return {name: {str(number): rate for number, rate in by_round(found).items()} for name, found in named.items()}


def _counts(items: Items) -> dict[str, Any]:
    steps = (*STEPS, *_RUN_STEPS)
    usage = sum((Usage.model_validate(each["usage"]) for each in items), NO_USAGE)
    return {
        "cases": len(items),
        "resolved": sum(item["resolved"] is True for item in items),
        "steps": {step: sum(each["step"] == step and each["resolved"] is False for each in items) for step in steps},
        "not_told": {
            why: sum(each["resolved"] is None and each["reason"].startswith(why) for each in items)
            for why in _NO_RESULT
        },
        "usage": usage.model_dump(mode="json", exclude={"seconds"}),
        "seconds": round(sum(each["seconds"] for each in items), 3),
    }


def _rates(title: str, rates: Mapping[str, Rates]) -> Table:
    names = list(dict.fromkeys(name for found in rates.values() for name in found))
    rows: list[list[Cell]] = [[name, *(found.get(column) for column in names)] for name, found in rates.items()]
    return Table(title, ["run", *names], rows)


def _ends(counts: Mapping[str, Any]) -> Table:
    rows: list[list[Cell]] = [
        [run, found["cases"], found["resolved"], *found["steps"].values(), *found["not_told"].values()]
        for run, found in counts.items()
    ]
    steps = [step.replace("_", ".") for step in (*STEPS, *_RUN_STEPS)]
    return Table("Where test cases end", ["run", "cases", "resolved", *steps, *_NO_RESULT], rows)


def _costs(counts: Mapping[str, Any]) -> Table:
    rows: list[list[Cell]] = []
    for run, found in counts.items():
        usage = Usage.model_validate(found["usage"])
        rows.append([run, usage.calls, usage.prompt_tokens, usage.completion_tokens, usage.money()])
    columns = ["run", "model calls", "tokens read", "tokens written", "cost"]
    return Table("What models were asked, the judge included", columns, rows)


def _plot(title: str, axis: str, rates: Mapping[str, Rates], *, lines: bool = False) -> Plot:
    places = list(dict.fromkeys(place for found in rates.values() for place in found))
    series = {name: [found.get(place) for place in places] for name, found in rates.items()}
    return Plot(title, axis, places, series, lines)
