"""Tables of reports and measurements, for terminals, Markdown and pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from operad.runtime.evaluation.comparison import AMOUNTS, Comparison, Difference
from operad.runtime.evaluation.measurement import Measurement, Share
from operad.runtime.evaluation.report import EvaluationReport
from operad.runtime.values.message import Usage
from operad.runtime.values.text import short_line

MOST_CASES = 50
"""Maximum number of cases in the table of those that did not pass."""

_LONGEST = 160
"""Maximum number of characters of a lesson or a problem in a table."""

Cell = str | int | float | None


class Table(NamedTuple):
    """Figures as a table; a float is a rate and is shown in percent, None as a dash."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]


def cell_text(cell: Cell) -> str:
    """Return the text of a cell."""
    if cell is None:
        return "-"
    return f"{100 * cell:.2f}" if isinstance(cell, float) else str(cell)


def report_tables(report: EvaluationReport, comparison: Comparison | None = None) -> list[Table]:
    """Return the tables of a report: totals, evaluators, operators, tags, cases that did not pass, and a comparison."""
    tables = [_totals(report), _evaluators(report), _operators(report), _tags(report), _failed(report)]
    tables += [] if comparison is None else [_cases_changed(comparison), _differences(comparison)]
    return [table for table in tables if table.rows]


def measurement_tables(measured: Measurement) -> list[Table]:
    """Return the tables of a measurement: its rates, and the cases with another verdict or blame than the label."""
    shares: list[tuple[str, Share]] = [
        ("accuracy", measured.accuracy),
        ("false rejections, of right results", measured.false_rejections),
        ("false acceptances, of wrong results", measured.false_acceptances),
        ("verdict and blame exact", measured.exact),
        ("blame precision", measured.blame_precision),
        ("blame recall", measured.blame_recall),
    ]
    wrong = [
        (
            case.name,
            "right" if case.right else f"wrong: {', '.join(case.at_fault) or 'blame not labelled'}",
            case.error
            or f"{'accepted' if case.accepted else 'rejected'}: {', '.join(case.blamed) or 'no operator blamed'}",
            short_line(case.reason, _LONGEST),
        )
        for case in measured.cases
        if not case.is_exact
    ]
    rates = Table("Evaluator (%)", ("", "rate", "count", "of"), [(name, s.rate, s.number, s.of) for name, s in shares])
    others = Table(f"{len(wrong)} other than the label", ("case", "label", "verdict", "reason"), wrong[:MOST_CASES])
    return [rates, others] if wrong else [rates]


def _totals(report: EvaluationReport) -> Table:
    summary = report.summary()
    seconds = summary["seconds"]
    rows: list[tuple[str, Cell]] = [
        ("passed (%)", report.pass_rate),
        ("runs", len(report.cases)),
        ("errors", summary["errors"]),
        ("rejected by the workflow, but right", summary["false_rejections"]),
        ("accepted by the workflow, but wrong", summary["false_acceptances"]),
        ("tokens", f"{report.usage.tokens:,}"),
        ("cost", _cost(report.usage)),
        ("cost of the evaluators", _cost(report.judging)),
        ("seconds, median and longest", f"{seconds['median']:.1f}, {seconds['longest']:.1f}"),
    ]
    return Table(report.workflow, ("", "value"), rows)


def _evaluators(report: EvaluationReport) -> Table:
    rows = [
        (
            each.name,
            each.passed / each.judged if each.judged else None,
            each.judged,
            None if each.score is None else f"{each.score:.3g}",
            each.errors,
            _cost(each.usage),
        )
        for each in report.evaluators
    ]
    return Table("Evaluators", ("evaluator", "accepted (%)", "judged", "mean score", "errors", "cost"), rows)


def _operators(report: EvaluationReport) -> Table:
    runs = len(report.cases)
    rows = [
        (
            f"{each.name} (evaluator)" if each.judges else each.name,
            each.runs,
            each.blamed,
            each.blamed / runs if runs else None,
            each.blamed_in_rounds,
            f"{each.usage.tokens:,}",
            _cost(each.usage),
            f"{each.seconds:.2f}",
            "; ".join(f"{short_line(lesson, _LONGEST)} ({count})" for lesson, count in each.lessons[:3]),
        )
        for each in report.operators
    ]
    columns = ("operator", "runs", "blamed", "of runs (%)", "blamed in rounds", "tokens", "cost", "seconds", "lessons")
    return Table("Operators", columns, rows)


def _tags(report: EvaluationReport) -> Table:
    rows = [(tag, passed / of, passed, of) for tag, (passed, of) in report.tags.items()]
    return Table("Tags", ("tag", "passed (%)", "passed", "runs"), rows)


def _failed(report: EvaluationReport) -> Table:
    failed = report.failed
    rows = [(case.key, short_line("; ".join(case.problems), 3 * _LONGEST)) for case in failed[:MOST_CASES]]
    more = f", the first {MOST_CASES}" if len(failed) > MOST_CASES else ""
    return Table(f"{len(failed)} did not pass{more}", ("run", "problems"), rows)


def _cases_changed(comparison: Comparison) -> Table:
    changes = {"better": comparison.better, "worse": comparison.worse}
    changes |= {"only in this report": comparison.added, "only in the earlier report": comparison.missing}
    rows = [
        (change, len(names), f"{', '.join(names[:MOST_CASES])}{', …' * (len(names) > MOST_CASES)}")
        for change, names in changes.items()
        if names
    ]
    return Table("Cases that changed", ("change", "cases", "names"), rows)


def _differences(comparison: Comparison) -> Table:
    rows = [
        (
            each.measure,
            each.cases,
            _amount(each, each.before),
            _amount(each, each.after),
            f"{each.change:+.3g}",
            "-" if each.low is None or each.high is None else f"{each.low:+.3g} to {each.high:+.3g}",
            "clear" if each.is_clear else "may be chance",
        )
        for each in comparison.differences
    ]
    columns = ("measure", "cases", "before", "after", "difference", "95% interval", "")
    return Table("Differences to the earlier report, case by case", columns, rows)


def _amount(difference: Difference, value: float) -> str:
    return f"{value:,.4g}" if difference.measure in AMOUNTS else f"{value:.3g}"


def _cost(usage: Usage) -> str:
    return usage.money() if usage.calls else "-"
