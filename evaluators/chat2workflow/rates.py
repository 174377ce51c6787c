"""Rates as the tables of the Chat2Workflow paper have them: by model, by domain, by round."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from operad.evaluators.chat2workflow.dataset import CATEGORIES

AVERAGE = "Average"
"""The rate of all, whatever their domain."""


class Outcome(NamedTuple):
    """Outcome of a response, or of a test case.

    Attributes:
        model: Model of the response.
        run: Run of that model.
        category: The domain.
        round: The round.
        good: True if it passed or was resolved.
    """

    model: str
    run: str
    category: str
    round: int
    good: bool


def rate(outcomes: Sequence[Outcome]) -> float | None:
    """The share of what came out well, from 0 to 1: of each run, and of the runs the mean. None of nothing."""
    by_run: dict[str, list[bool]] = {}
    for each in outcomes:
        by_run.setdefault(each.run, []).append(each.good)
    rates = [sum(goods) / len(goods) for goods in by_run.values()]
    return sum(rates) / len(rates) if rates else None


def by_category(outcomes: Sequence[Outcome]) -> dict[str, float | None]:
    """The rates of the domains, in the order of the paper's tables and with others behind, and the average of all."""
    names = [*CATEGORIES, *sorted({each.category for each in outcomes} - set(CATEGORIES))]
    return {name: rate([each for each in outcomes if each.category == name]) for name in names} | {
        AVERAGE: rate(outcomes)
    }


def by_round(outcomes: Sequence[Outcome]) -> dict[int, float | None]:
    """The rates of the rounds."""
    rounds = sorted({each.round for each in outcomes})
    return {number: rate([each for each in outcomes if each.round == number]) for number in rounds}


def grouped(outcomes: Sequence[Outcome], name: Callable[[Outcome], str]) -> Mapping[str, Sequence[Outcome]]:
    """The outcomes by model, or by run, in the order in which these occur."""
    groups: dict[str, list[Outcome]] = {}
    for each in outcomes:
        groups.setdefault(name(each), []).append(each)
    return groups
