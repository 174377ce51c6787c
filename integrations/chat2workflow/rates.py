"""Rates by domain and by round, as in the tables of the Chat2Workflow paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from operad.integrations.chat2workflow.dataset import CATEGORIES

AVERAGE = "Average"
"""Name of the rate over all domains."""


class Outcome(NamedTuple):
    """Outcome of a response, or of a test case.

    Attributes:
        model: Model of the response.
        run: Run of that model.
        category: Domain of the task.
        round: Round of the task.
        good: True if the response passed, or the test case was resolved.
    """

    model: str
    run: str
    category: str
    round: int
    good: bool


def rate(outcomes: Sequence[Outcome]) -> float | None:
    """Return the share of good outcomes, from 0 to 1, as the mean over runs; None without outcomes."""
    by_run: dict[str, list[bool]] = {}
    for outcome in outcomes:
        by_run.setdefault(outcome.run, []).append(outcome.good)
    rates = [sum(goods) / len(goods) for goods in by_run.values()]
    return sum(rates) / len(rates) if rates else None


def by_category(outcomes: Sequence[Outcome]) -> dict[str, float | None]:
    """Return the rate of each domain, in the order of the paper's tables, other domains last, and of all."""
    names = [*CATEGORIES, *sorted({outcome.category for outcome in outcomes} - set(CATEGORIES))]
    return {name: rate([outcome for outcome in outcomes if outcome.category == name]) for name in names} | {
        AVERAGE: rate(outcomes)
    }


def by_round(outcomes: Sequence[Outcome]) -> dict[int, float | None]:
    """Return the rate of each round."""
    rounds = sorted({outcome.round for outcome in outcomes})
    return {number: rate([outcome for outcome in outcomes if outcome.round == number]) for number in rounds}


def grouped(outcomes: Sequence[Outcome], name: Callable[[Outcome], str]) -> Mapping[str, Sequence[Outcome]]:
    """Return the outcomes grouped by a name, such as the model or the run, in the order of first occurrence."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(name(outcome), []).append(outcome)
    return groups
