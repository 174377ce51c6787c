"""HTML of messages for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from operad.runtime.values.verdict_text import finding_lines, status_text

if TYPE_CHECKING:
    from operad.runtime.values.message import Usage, WorkflowMessage

MOST_SHOWN = 20_000
"""Maximum length of a displayed text, in characters."""


def message_html(message: WorkflowMessage) -> str:
    """Return a message with all its fields as HTML; texts of operators and models are escaped."""
    fields = [
        ("text", message.scratchpad),
        *(
            (f"output {name}", value if isinstance(value, str) else repr(value))
            for name, value in message.outputs.items()
        ),
        ("evaluation", message.evaluation),
        ("lesson", "" if message.faults else message.lesson),
        ("faults", "\n".join(finding_lines(message.faults, message.blame, message.unsure, {}))),
        ("score", "" if message.score is None else f"{message.score:g}"),
    ]
    rows = "".join(f"<tr><th>{escape(label)}</th><td>{folded(text)}</td></tr>" for label, text in fields if text)
    parts = "".join(
        f"<details><summary>{escape(part.operator_id or 'part')}</summary>{message_html(part)}</details>"
        for part in message.parts
    )
    operator = f" · {escape(message.operator_id)}" if message.operator_id else ""
    head = f"<p><b>{status_text(message.status)}</b>{operator}{used(message.usage)}</p>"
    return f"<div>{head}<table><tbody>{rows}</tbody></table>{parts}</div>"


def used(usage: Usage) -> str:
    """Return calls, tokens and cost as text to append to a name; empty if no model was called."""
    if not usage.calls:
        return ""
    return f" · {usage.calls:,} model call{'s' * (usage.calls != 1)}, {usage.tokens:,} tokens, cost {usage.money()}"


def folded(text: str) -> str:
    """Return a text as HTML: in full if it is one short line, otherwise its first line, with the whole text folded."""
    first, _, rest = text.strip().partition("\n")
    if not rest and len(first) <= 120:
        return escape(first)
    return f"<details><summary>{escape(first[:120])}…</summary><pre>{shown(text)}</pre></details>"


def shown(text: str) -> str:
    """Return a text as HTML, cut to `MOST_SHOWN` characters."""
    more = len(text) - MOST_SHOWN
    return escape(text if more <= 0 else f"{text[:MOST_SHOWN]}… and {more:,} more characters")
