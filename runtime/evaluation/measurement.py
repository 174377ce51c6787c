"""Measurement of an evaluator on labelled cases: how often its verdicts and its blame are right."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from operad.runtime.evaluation.cases import Case
from operad.runtime.values.map_item import without_index
from operad.runtime.values.message import NO_USAGE, Usage
from operad.runtime.values.value import Value


class Share(NamedTuple):
    """Number of cases, or of operators, of all that count.

    Attributes:
        number: The number.
        of: The number of all.
    """

    number: int
    of: int

    @property
    def rate(self) -> float | None:
        """The share, from 0 to 1; None if nothing counts."""
        return self.number / self.of if self.of else None

    def __str__(self) -> str:
        return f"{self.number} of {self.of}"


class JudgedCase(Value):
    """Verdict of an evaluator on a labelled case.

    Attributes:
        name: Name of the case.
        right: True if the result of the case is right, by its label.
        at_fault: Ids of the operators at fault, by the label.
        accepted: True if the evaluator accepted the result; None if it failed.
        blamed: Ids of the operators that it blamed.
        reason: Reason for the verdict.
        error: Error of the evaluator; empty if there was none.
        usage: Usage of its model calls.
    """

    name: str
    right: bool
    at_fault: tuple[str, ...] = ()
    accepted: bool | None = None
    blamed: tuple[str, ...] = ()
    reason: str = ""
    error: str = ""
    usage: Usage = NO_USAGE

    @property
    def is_exact(self) -> bool:
        """True if the verdict and the blame are those of the label; without labelled blame, if the verdict is."""
        return self.accepted is self.right and (
            not self.at_fault or self.hits() == _ids(self.blamed) == _ids(self.at_fault)
        )

    def hits(self) -> Collection[str]:
        """Return the ids of the operators at fault that were blamed."""
        return _ids(self.blamed) & _ids(self.at_fault)


class Measurement(Value):
    """Measurement of an evaluator.

        measured: Measurement = Evaluator("The answer is polite.").measure("labelled.jsonl", workflow=flow)
        print(measured.accuracy, measured.false_rejections, measured.blame_recall.rate)

    A verdict without an answer counts as wrong. Items of maps count as the map.

    Attributes:
        cases: The verdicts, in the order of the cases.
    """

    cases: tuple[JudgedCase, ...]

    @property
    def accuracy(self) -> Share:
        """Cases whose result the evaluator accepted or rejected as the label says."""
        return _share(case.accepted is case.right for case in self.cases)

    @property
    def false_rejections(self) -> Share:
        """Right results that were rejected."""
        return _share(case.accepted is False for case in self.cases if case.right)

    @property
    def false_acceptances(self) -> Share:
        """Wrong results that were accepted."""
        return _share(case.accepted is True for case in self.cases if not case.right)

    @property
    def exact(self) -> Share:
        """Cases with the right verdict and exactly the right blame."""
        return _share(case.is_exact for case in self.cases)

    @property
    def blame_precision(self) -> Share:
        """Blamed operators that are at fault, of all blamed ones, in cases that are right or have labelled blame."""
        judged = [case for case in self.cases if case.right or case.at_fault]
        return Share(sum(len(case.hits()) for case in judged), sum(len(_ids(case.blamed)) for case in judged))

    @property
    def blame_recall(self) -> Share:
        """Operators at fault that were blamed, of all at fault."""
        return Share(sum(len(case.hits()) for case in self.cases), sum(len(_ids(case.at_fault)) for case in self.cases))

    @property
    def errors(self) -> int:
        """Number of cases on which the evaluator failed."""
        return sum(bool(case.error) for case in self.cases)

    @property
    def usage(self) -> Usage:
        """Usage of the evaluator."""
        return sum((case.usage for case in self.cases), NO_USAGE)

    def summary(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        names = "accuracy", "false_rejections", "false_acceptances", "exact", "blame_precision", "blame_recall"
        shares: dict[str, Share] = {name: getattr(self, name) for name in names}
        figures = {name: {"count": each.number, "of": each.of, "rate": each.rate} for name, each in shares.items()}
        return {"cases": len(self.cases), **figures, "errors": self.errors, "usage": self.usage.model_dump(mode="json")}


def labelled(case: Case, **verdict: Any) -> JudgedCase:
    """Return the verdict on a case with its label."""
    return JudgedCase(name=case.name, right=bool(case.accepted), at_fault=case.blame, **verdict)


def _share(chosen: Iterable[bool]) -> Share:
    each = list(chosen)
    return Share(sum(each), len(each))


def _ids(places: Iterable[str]) -> set[str]:
    """Return the ids of operators without the items of maps."""
    return {"/".join(map(without_index, place.split("/"))) for place in places}
