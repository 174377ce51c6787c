"""Report of an evaluation as a self-contained page, and as Markdown."""

from __future__ import annotations

import html
import json

from operad.runtime.evaluation.comparison import Comparison
from operad.runtime.evaluation.report import EvaluationReport
from operad.runtime.evaluation.results import ReportCase, fault_line
from operad.runtime.evaluation.tables import Cell, Table, cell_text, report_tables
from operad.runtime.values.text import shortened
from operad.server.view.markdown import code
from operad.server.view.page import fill

MOST_CASES = 2_000
"""Maximum number of runs whose details a page contains."""

MOST_OF_A_TEXT = 20_000
"""Maximum number of characters of a text in a page."""

MOST_OF_A_CELL = 500
"""Maximum number of characters of a cell in Markdown."""


def page(report: EvaluationReport, comparison: Comparison | None = None) -> str:
    """Return a report as a page that needs no other file, server or script.

        Path("report.html").write_text(page(report), encoding="utf-8")

    Args:
        comparison: Comparison with an earlier report; None for none.
    """
    head, *tables = report_tables(report, comparison)
    cases = [*report.failed, *(case for case in report.cases if case.passed)]
    more = f"<p class=soft>… and {len(cases) - MOST_CASES:,} more</p>" if len(cases) > MOST_CASES else ""
    body = "\n".join(
        [
            f"<p><span class=rate>{100 * report.pass_rate:.0f}%</span> of {len(report.cases):,} runs passed</p>",
            _table(head),
            *(f"<h2>{_text(table.title)}</h2>{_table(table)}" for table in tables),
            "<h2>Runs</h2>",
            *map(_case, cases[:MOST_CASES]),
            more,
        ]
    )
    return fill("evaluation", title=_text(report.workflow), body=body)


def markdown(report: EvaluationReport, comparison: Comparison | None = None) -> str:
    """Return a report as Markdown; texts of models and of cases are code, in which nothing is interpreted."""
    parts = [f"## {code(report.workflow)}: {report.passed} of {len(report.cases)} passed"]
    for table in report_tables(report, comparison):
        parts.append(f"### {code(table.title) if table.title == report.workflow else table.title}")
        lines = [f"| {' | '.join(table.columns)} |", f"|{'---|' * len(table.columns)}"]
        lines += [f"| {' | '.join(map(_markdown_cell, row))} |" for row in table.rows]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _markdown_cell(cell: Cell) -> str:
    return code(cell, MOST_OF_A_CELL) if isinstance(cell, str) and cell else cell_text(cell)


def _table(table: Table) -> str:
    head = "".join(f"<th>{_text(column)}</th>" for column in table.columns)
    rows = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in table.rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _cell(cell: Cell) -> str:
    return f"<td>{_text(cell)}</td>" if isinstance(cell, str) else f"<td class=number>{_text(cell_text(cell))}</td>"


def _case(case: ReportCase) -> str:
    entries = [("problem", line) for line in case.problems]
    entries += [("output", _shown(case.output)), ("expected", _shown(case.expected))]
    for result in case.evaluators:
        verdict = {True: "accepted", False: "rejected", None: "measured"}[result.passed]
        score = "" if result.score is None else f", {result.score:g}"
        faults = "\n".join(map(fault_line, result.faults))
        entries.append((result.name, f"{verdict}{score}. {result.reason or result.error}\n{faults}".strip()))
    entries += [
        (f"{name}: lessons in the run", "\n".join(use.lessons)) for name, use in case.operators.items() if use.lessons
    ]
    entries.append(("run", f"{case.run_id}; rounds: {case.rounds}; {case.seconds:.1f} s; cost {case.usage.money()}"))
    listed = "".join(f"<dt>{_text(name)}</dt><dd>{_text(text)}</dd>" for name, text in entries if text)
    kind = "passed" if case.passed else "failed"
    return f"<details class={kind}><summary>{_text(case.key)}: {kind}</summary><dl>{listed}</dl></details>"


def _shown(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1, default=str)


def _text(text: str) -> str:
    return html.escape("".join(map(_visible, shortened(text, MOST_OF_A_TEXT))))


def _visible(character: str) -> str:
    """Return a character; one that is invisible, or changes the direction of text, as its number."""
    return character if character.isprintable() or character in "\n\t" else f"[U+{ord(character):04X}]"
