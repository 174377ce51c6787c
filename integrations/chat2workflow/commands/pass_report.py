"""The pass rates as tables, JSON and pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from operad.cli.tables import Plot, Report
from operad.integrations.chat2workflow.pass_rate import STEPS
from operad.integrations.chat2workflow.rates import Outcome, by_category, by_round, grouped, rate
from operad.runtime.evaluation.tables import Cell, Table

Items = Sequence[Mapping[str, Any]]
Rates = Callable[[Sequence[Outcome]], Mapping[Any, float | None]]

_RATES: Mapping[str, tuple[str, Callable[[Mapping[str, Any]], bool]]] = {
    "passed": ("Pass rate, steps 1 to 4", lambda item: item["passed"]),
    "format": ("Pass rate, repaired without contracts", lambda item: item.get("passed_without_contract", False)),
    "sound": ("Sound", lambda item: item["sound"]),
    "judged": ("Pass rate with the judge", lambda item: item.get("consistent", False)),
}
"""Rates by their names in JSON: the displayed name, and the counted field."""


def report_of(items: Items, settings: Mapping[str, Any]) -> Report:
    """Return the report on the results of responses.

    Args:
        items: The results.
        settings: Settings of the evaluation; without a judge or repairs, there are no rates of these.
    """
    left_out = {"judged": not settings["judge"], "format": not settings.get("repair")}
    shown = [name for name in _RATES if not left_out.get(name)]
    outcomes = {name: _outcomes(items, _RATES[name][1]) for name in shown}
    return Report(
        {
            "settings": dict(settings),
            "runs": _figures(items, outcomes, "run"),
            "models": _figures(items, outcomes, "model"),
        },
        items,
        [
            _steps(items),
            *(_table(f"{_RATES[name][0]}, by domain, %", outcomes[name], by_category) for name in shown),
            *(_table(f"{_RATES[name][0]}, by round, %", outcomes[name], by_round) for name in shown),
        ],
        [
            *(_plot(f"{_RATES[name][0]}, by round", "round", outcomes[name], by_round, lines=True) for name in shown),
            *(_plot(f"{_RATES[name][0]}, by domain", "domain", outcomes[name], by_category) for name in shown),
        ],
    )


def _outcomes(items: Items, good: Callable[[Mapping[str, Any]], bool]) -> list[Outcome]:
    return [Outcome(item["model"], item["run"], item["category"], item["round"], good(item)) for item in items]


def _key_of(by: str) -> Callable[[Outcome], str]:
    return lambda outcome: outcome.run if by == "run" else outcome.model


def _figures(items: Items, outcomes: Mapping[str, Sequence[Outcome]], by: str) -> dict[str, Any]:
    """Return all rates of each run or model; the rates by domain end with their average."""
    figures: dict[str, Any] = {}
    for name in dict.fromkeys(item[by] for item in items):
        own_outcomes = {rated: grouped(each, _key_of(by))[name] for rated, each in outcomes.items()}
        found = [item for item in items if item[by] == name]
        figures[name] = {
            "responses": len(found),
            "fail_steps": _fail_steps(found),
            **{rated: rate(each) for rated, each in own_outcomes.items()},
            "by_category": {rated: by_category(each) for rated, each in own_outcomes.items()},
            "by_round": {
                rated: {str(round_number): value for round_number, value in by_round(each).items()}
                for rated, each in own_outcomes.items()
            },
        }
    return figures


def _fail_steps(items: Items) -> dict[str, int]:
    counts = Counter(item["fail_step"] for item in items)
    return {step: counts[step] for step in STEPS}


def _steps(items: Items) -> Table:
    rows: list[list[Cell]] = []
    for name in dict.fromkeys(item["run"] for item in items):
        found = [item for item in items if item["run"] == name]
        both = sum(item["passed"] and item["sound"] for item in found)
        passed, sound = sum(item["passed"] for item in found), sum(item["sound"] for item in found)
        rows.append([name, len(found), *_fail_steps(found).values(), passed, sound, both])
    columns = ["run", "responses", *(f"fail {step}" for step in STEPS), "passed", "sound", "passed and sound"]
    return Table("Responses by the first step that they fail", columns, rows)


def _table(title: str, outcomes: Sequence[Outcome], rates: Rates) -> Table:
    """Return a table with a row for each run, and for each model with several runs a row with their mean."""
    names = list(rates(outcomes))
    rows: list[list[Cell]] = []
    for model, of_model in grouped(outcomes, _key_of("model")).items():
        runs = grouped(of_model, _key_of("run"))
        rows += [[run, *map(rates(run_outcomes).get, names)] for run, run_outcomes in runs.items()]
        if len(runs) > 1:
            rows.append([f"{model}: mean of {len(runs)} runs", *map(rates(of_model).get, names)])
    models = grouped(outcomes, _key_of("model"))
    if len(models) > 1:
        each_of = [rates(run_outcomes) for run_outcomes in models.values()]
        rows.append(
            [
                f"mean of {len(models)} models",
                *(_mean([run_outcomes.get(name) for run_outcomes in each_of]) for name in names),
            ]
        )
    return Table(title, ["run", *map(str, names)], rows)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _plot(title: str, axis: str, outcomes: Sequence[Outcome], rates: Rates, *, lines: bool = False) -> Plot:
    names = list(rates(outcomes))
    series = {
        model: [rates(model_outcomes).get(name) for name in names]
        for model, model_outcomes in grouped(outcomes, _key_of("model")).items()
    }
    return Plot(title, axis, [str(name) for name in names], series, lines)
