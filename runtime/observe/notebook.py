"""Notebook displays: the picture of a workflow, the progress of a run, a message."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from importlib import import_module
from time import monotonic
from typing import Any

from operad.runtime.events import Event, Listener, RunFailed, RunFinished, RunStarted
from operad.runtime.observe.trace import Span, Trace, structural
from operad.runtime.values.message import folded, shown, used

SECONDS_BETWEEN = 0.2
"""Minimum time between two updates of a display, in seconds."""

MOST_ROWS = 300
"""Maximum number of operators in a table."""

_SIGNS: Mapping[str, str] = {
    "waiting": "○",
    "running": "◐",
    "asking": "?",
    "done": "✓",
    "cached": "✓",
    "kept": "✓",
    "skipped": "–",
    "failed": "✗",
    "stopped": "■",
}


def picture(code: str) -> dict[str, str]:
    """Return a flowchart for a notebook.

    Args:
        code: Mermaid code of the flowchart.

    Returns:
        Representations by media type: Markdown with the code, and SVG if the extra ``mermaid`` is installed.
    """
    bundle = {"text/markdown": f"```mermaid\n{code}```\n"}
    with suppress(Exception):  # without the extra, or if the chart is too large, the notebook shows the code
        draw: Any = import_module("mermaid_render").mermaid_to_svg
        bundle["image/svg+xml"] = draw(code).decode()
    return bundle


def progress_in_notebook() -> tuple[Listener, ...]:
    """Return a listener that shows a run's progress below its cell; empty outside of notebooks."""
    ipython: Any = sys.modules.get("IPython")
    return (_Progress(),) if ipython and hasattr(ipython.get_ipython(), "kernel") else ()


class _Progress:
    """Listener that updates a table of the run's operators below the cell."""

    def __init__(self) -> None:
        self._trace = Trace()
        self._handle: Any = None
        self._shown = 0.0

    def __call__(self, event: Event) -> None:
        self._trace.apply(event)
        last = isinstance(event, RunFinished | RunFailed)
        if last or isinstance(event, RunStarted) or monotonic() - self._shown >= SECONDS_BETWEEN:
            display: Any = import_module("IPython.display")
            html = display.HTML(progress_html(self._trace))
            if self._handle is None:
                self._handle = display.display(html, display_id=True)
            else:
                self._handle.update(html)
            self._shown = monotonic()


def progress_html(trace: Trace) -> str:
    """Return the progress of a run as HTML: a table with a row for each operator, with its message if it has ended."""
    root = trace.root
    if root is None:
        return ""
    rows = _rows(trace)
    end = trace.now if root.end is None else root.end
    rounds = sum(span.kind == "round" and span.parent == root.id for span in trace.spans)
    head = (
        f"<b>{escape(trace.workflow)}</b> {_verdict(root)} · {rounds} round{'s' * (rounds != 1)} · "
        f"{end - root.start:.1f} s{used(root.usage)}"
    )
    table = "".join(row.html() for row in rows[:MOST_ROWS])
    more = f"<p>… and {len(rows) - MOST_ROWS:,} more operators</p>" if len(rows) > MOST_ROWS else ""
    error = f"<pre>{shown(str(root.details['error']))}</pre>" if "error" in root.details else ""
    return (
        f"<div><p>{head}</p>{error}<table><thead><tr><th></th><th>operator</th><th>state</th><th>runs</th>"
        f"<th>seconds</th><th>tokens</th><th>says</th></tr></thead><tbody>{table}</tbody></table>{more}</div>"
    )


@dataclass(frozen=True, slots=True)
class _Row:
    """Row of an operator in the table, for all its executions.

    Attributes:
        path: Path of the operator, without indices of items.
        runs: Spans of the operator, one per execution.
        asks: True if the operator waits for a person.
    """

    path: tuple[str, ...]
    runs: Sequence[Span]
    asks: bool

    def html(self) -> str:
        """Return the row as HTML."""
        state = self._state()
        usage = sum(span.usage.tokens for span in self.runs)
        indent = "&nbsp;" * 4 * (len(self.path) - 1)
        cells = (
            f"<span aria-hidden='true'>{_SIGNS[state]}</span>",
            f"{indent}{escape(self.path[-1])}",
            f"{state}{self._progress()}",
            str(len(self.runs) or ""),
            f"{sum(span.seconds for span in self.runs):.1f}" if self.runs else "",
            f"{usage:,}" if usage else "",
            self._text(),
        )
        return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"

    def _state(self) -> str:
        if self.asks:
            return "asking"
        if any(span.end is None for span in self.runs):
            return "running"
        return self.runs[-1].state if self.runs else "waiting"

    def _progress(self) -> str:
        done = self.runs[-1].details.get("progress") if self.runs else None
        return f" {done[0]}/{done[1]}" if done else ""

    def _text(self) -> str:
        details = self.runs[-1].details if self.runs else {}
        message: Mapping[str, Any] = details.get("message") or {}
        return folded(str(details.get("error") or details.get("reason") or message.get("scratchpad") or ""))


def _rows(trace: Trace) -> list[_Row]:
    """Return the rows of all operators; the operators of a nested workflow follow the operator that runs it."""
    runs: dict[tuple[str, ...], list[Span]] = {}
    asking: set[tuple[str, ...]] = set()
    for span in trace.spans:
        if span.kind == "operator":
            runs.setdefault(structural(span.path), []).append(span)
        elif span.kind == "question" and span.end is None:
            asking.add(structural(span.path))
    rows: list[_Row] = []

    def add(place: tuple[str, ...]) -> None:
        graph = trace.graphs.get(place)
        for name in (*graph.before, *graph.judges) if graph else ():
            path = (*place, name)
            rows.append(_Row(path, runs.get(path, ()), path in asking))
            add(path)

    add(())
    return rows


def _verdict(root: Span) -> str:
    message: Mapping[str, Any] = root.details.get("message") or {}
    return escape(str(message.get("status") or root.state))
