"""Report of an evaluation: scores by evaluator and by operator, rates, costs and durations."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from statistics import fmean, median
from typing import Any, ClassVar

from pydantic import Field, ValidationError

from operad.runtime.evaluation.comparison import AMOUNTS, Comparison, Measures, compared
from operad.runtime.evaluation.results import EvaluatorResult, ReportCase
from operad.runtime.values.errors import InputError
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.message import NO_USAGE, Usage
from operad.runtime.values.value import Value

MAX_BYTES = 256 * 2**20
"""Maximum size of a report, in bytes."""

PASSED = "passed"
"""Name of the measure that is 1 for a run that passed."""

_MOST_SHOWN = 20
"""Maximum number of failed cases in the message of `assert_passed`."""


class EvaluatorSummary(Value):
    """Results of an evaluator over all cases.

    Attributes:
        name: Name of the evaluator.
        judged: Number of runs that it accepted or rejected.
        passed: Number of runs that it accepted.
        score: Mean of its scores; None without any.
        errors: Number of runs on which it failed.
        usage: Usage of its model calls.
    """

    name: str
    judged: int
    passed: int
    score: float | None
    errors: int
    usage: Usage


class OperatorSummary(Value):
    """Work of an operator over all cases.

    Attributes:
        name: Id of the operator.
        runs: Number of times that it ran.
        blamed: Number of runs in which an evaluator of the evaluation blamed it.
        blamed_in_rounds: Number of rounds in which the workflow's own evaluators blamed it.
        lessons: The lessons for it, with their numbers, the most frequent first.
        usage: Usage of its model calls.
        seconds: Median of its time in a run.
        judges: True for an evaluator of the workflow.
    """

    name: str
    runs: int
    blamed: int
    blamed_in_rounds: int
    lessons: tuple[tuple[str, int], ...]
    usage: Usage
    seconds: float
    judges: bool


class EvaluationReport(Value):
    """Report of an evaluation.

        report: EvaluationReport = flow.evaluate("cases.jsonl", evaluators=[equals])
        print(report.pass_rate, [(each.name, each.blamed) for each in report.operators])
        report.assert_passed()

    Attributes:
        workflow: Name of the workflow.
        cases: Results of the cases, in the order of the data set.
    """

    workflow: str = Field(kw_only=False)
    cases: tuple[ReportCase, ...] = ()

    _positional: ClassVar[str] = "workflow"

    @property
    def passed(self) -> int:
        """Number of runs that passed."""
        return sum(case.passed for case in self.cases)

    @property
    def pass_rate(self) -> float:
        """Share of the runs that passed, from 0 to 1."""
        return self.passed / len(self.cases) if self.cases else 0.0

    @property
    def failed(self) -> tuple[ReportCase, ...]:
        """The runs that did not pass."""
        return tuple(case for case in self.cases if not case.passed)

    @property
    def usage(self) -> Usage:
        """Usage of all runs, without the evaluators of the evaluation."""
        return _sum(case.usage for case in self.cases)

    @property
    def judging(self) -> Usage:
        """Usage of the evaluators of the evaluation."""
        return _sum(result.usage for case in self.cases for result in case.evaluators)

    @cached_property
    def evaluators(self) -> tuple[EvaluatorSummary, ...]:
        """Results of each evaluator."""
        by_name: dict[str, list[EvaluatorResult]] = {}
        for case in self.cases:
            for result in case.evaluators:
                by_name.setdefault(result.name, []).append(result)
        return tuple(_evaluator_summary(name, results) for name, results in by_name.items())

    @cached_property
    def operators(self) -> tuple[OperatorSummary, ...]:
        """Work of each operator, and how often it was blamed, in the order of the workflow."""
        names = dict.fromkeys(name for case in self.cases for name in case.operators)
        blamed: Counter[str] = Counter()
        lessons: dict[str, Counter[str]] = {}
        for case in self.cases:
            faults = [fault for result in case.evaluators for fault in result.faults]
            blamed.update({fault.operator for fault in faults})
            for fault in faults:
                lessons.setdefault(fault.operator, Counter())[fault.advice] += 1
        return tuple(
            self._operator_summary(name, blamed[name], lessons.get(name, Counter()))
            for name in dict.fromkeys([*names, *blamed])
        )

    def _operator_summary(self, name: str, blamed: int, lessons: Counter[str]) -> OperatorSummary:
        uses = [case.operators[name] for case in self.cases if name in case.operators]
        given = lessons + Counter(lesson for use in uses for lesson in use.lessons)
        given.pop("", None)
        return OperatorSummary(
            name=name,
            runs=sum(use.runs for use in uses),
            blamed=blamed,
            blamed_in_rounds=sum(use.blamed for use in uses),
            lessons=tuple(given.most_common()),
            usage=_sum(use.usage for use in uses),
            seconds=median([use.seconds for use in uses if use.runs] or [0.0]),
            judges=any(use.judges for use in uses),
        )

    @cached_property
    def tags(self) -> Mapping[str, tuple[int, int]]:
        """Number of runs that passed, and of all runs, by tag."""
        names = dict.fromkeys(tag for case in self.cases for tag in case.tags)
        tagged = {tag: [case.passed for case in self.cases if tag in case.tags] for tag in names}
        return {tag: (sum(passed), len(passed)) for tag, passed in tagged.items()}

    def assert_passed(self) -> None:
        """Raise AssertionError, with the faults of each case that did not pass, unless all cases passed.

        Raises:
            AssertionError: Cases did not pass.
        """
        if not (failed := self.failed):
            return
        lines = [f"{self.workflow}: {len(failed)} of {len(self.cases)} cases did not pass"]
        for case in failed[:_MOST_SHOWN]:
            lines += [case.key if case.repeat > 1 else case.name, *(f"  {line}" for line in case.problems)]
        if len(failed) > _MOST_SHOWN:
            lines.append(f"… and {len(failed) - _MOST_SHOWN} more")
        raise AssertionError("\n".join(lines))

    def compare(self, before: EvaluationReport) -> Comparison:
        """Return the comparison with an earlier report, case by case."""
        return compared(before.measures(), self.measures(), PASSED)

    def measures(self) -> Measures:
        """Return the means of the measures of each case: passed, scores, tokens, cost and seconds."""
        found: dict[str, dict[str, list[float]]] = {}
        for case in self.cases:
            for name, value in _measured(case):
                found.setdefault(name, {}).setdefault(case.name, []).append(value)
        return {name: {case: fmean(values) for case, values in by_case.items()} for name, by_case in found.items()}

    def summary(self) -> dict[str, Any]:
        """Return the figures of the report as JSON values."""
        seconds = [case.seconds for case in self.cases]
        return {
            "workflow": self.workflow,
            "runs": len(self.cases),
            "passed": self.passed,
            "pass_rate": self.pass_rate,
            "errors": sum(bool(case.error) for case in self.cases),
            "false_rejections": sum(case.false_rejection for case in self.cases),
            "false_acceptances": sum(case.false_acceptance for case in self.cases),
            "usage": self.usage.model_dump(mode="json"),
            "judging": self.judging.model_dump(mode="json"),
            "seconds": {"median": median(seconds or [0.0]), "longest": max(seconds, default=0.0)},
            "evaluators": [each.model_dump(mode="json") for each in self.evaluators],
            "operators": [each.model_dump(mode="json") for each in self.operators],
            "tags": {tag: {"passed": passed, "runs": runs} for tag, (passed, runs) in self.tags.items()},
        }

    def save(self, path: str | Path) -> None:
        """Write the report as JSON, which `load` reads."""
        Path(path).write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> EvaluationReport:
        """Read a report: what `save` or ``operad evaluate cases --json`` wrote, or the results of an evaluation.

        Raises:
            InputError: The file does not exist, is too large, or holds something else.
        """
        text = FileDescriptor.of(path).read_text(MAX_BYTES)
        try:
            head, _, rest = text.partition("\n")
            if head.startswith('{"evaluation":'):
                lines: Sequence[dict[str, Any]] = [json.loads(line) for line in rest.splitlines() if line.strip()]
                latest = {line["key"]: line["result"] for line in lines}
                return cls.model_validate(
                    {"workflow": json.loads(head)["evaluation"]["workflow"], "cases": list(latest.values())}
                )
            found: Any = json.loads(text)
            if "summary" in found:  # as the command prints it
                found = {"workflow": found["summary"]["workflow"], "cases": found["items"]}
            return cls.model_validate({name: found[name] for name in ("workflow", "cases")})
        except (ValueError, KeyError, TypeError, RecursionError, ValidationError) as error:
            raise InputError(f"{path}: cannot be read as a report of an evaluation: {str(error)[:300]}") from error


def _measured(case: ReportCase) -> Iterable[tuple[str, float]]:
    yield PASSED, float(case.passed)
    for result in case.evaluators:
        if result.score is not None:
            yield f"{result.name} (score)", result.score
        elif result.passed is not None:
            yield result.name, float(result.passed)
    amounts = (float(case.usage.tokens), case.usage.known_cost, case.seconds)
    yield from ((name, amount) for name, amount in zip(AMOUNTS, amounts, strict=True) if amount is not None)


def _evaluator_summary(name: str, results: Sequence[EvaluatorResult]) -> EvaluatorSummary:
    scores = [result.score for result in results if result.score is not None]
    return EvaluatorSummary(
        name=name,
        judged=sum(result.passed is not None for result in results),
        passed=sum(result.passed is True for result in results),
        score=fmean(scores) if scores else None,
        errors=sum(bool(result.error) for result in results),
        usage=_sum(result.usage for result in results),
    )


def _sum(usages: Iterable[Usage]) -> Usage:
    return sum(usages, NO_USAGE)
