"""Summary of a run, as Markdown for a pull request or a ticket.

Text of models, documents and people appears only in code spans and blocks, where GitHub interprets no markup, links,
mentions or issue numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from operad.runtime.observe.critical_path import critical_path
from operad.runtime.observe.trace import Graph, Span, Trace, answer_text
from operad.runtime.values.fault import Fault, changed_lines, finding_lines, reason_in
from operad.runtime.values.map_item import without_index
from operad.runtime.values.mermaid import Flowchart
from operad.runtime.values.message import NO_USAGE, Usage
from operad.runtime.values.text import shortened
from operad.server.view.picture import goal_of, inputs_line

MOST_ROWS = 100
MOST_IN_PICTURE = 100
MOST_LINES = 400
MOST_ROUNDS = 10
MOST_ERRORS = 10
MOST_OF_A_NAME = 80
MOST_OF_A_TEXT = 800
MOST_OF_CHANGES = 2_000
MOST_NAMES = 20

_INVISIBLE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
_COLOURS = {
    "done": "fill:#e3f4e8,stroke:#1a7546,color:#1b1e23",
    "failed": "fill:#fcefee,stroke:#c02b22,color:#1b1e23",
    "other": "fill:#f6f6f4,stroke:#68707b,color:#1b1e23",
}
_STYLES: Mapping[str, str] = {"done": "done", "cached": "done", "kept": "done", "failed": "failed"}


def markdown(trace: Trace) -> str:
    """Return status, totals, operators, rounds, errors and graph of a run, at most about 100,000 characters."""
    root = trace.root
    if root is None:
        return "No run.\n"
    by_name = _operators(trace)
    critical = {trace.spans[number].name for number in critical_path(trace) if len(trace.spans[number].path) == 1}
    parts = [
        f"## {code(trace.workflow)}: {_state(trace, root)}",
        _block(goal_of(trace)),
        _block(inputs_line(trace)),
        _totals(trace, root),
        "\n".join(_table(by_name, critical)),
        *_rounds(trace, root),
        *_errors(trace),
        _picture(trace.graphs.get((), Graph("", {})), by_name),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _state(trace: Trace, root: Span) -> str:
    return root.state if trace.ended else "unfinished, the file ends before the run does"


def _totals(trace: Trace, root: Span) -> str:
    rounds = trace.within(root, "round")
    seconds = (trace.now if root.end is None else root.end) - root.start
    parts = [_duration(seconds), _counted(len(rounds), "round")]
    if root.usage.calls:
        parts += [
            _counted(root.usage.calls, "model call"),
            _tokens(root.usage),
            f"cost {root.usage.money()}",
        ]
    return " · ".join(parts)


def _operators(trace: Trace) -> Mapping[str, Sequence[Span]]:
    """Return the spans of the run's own operators and evaluators, by their ids; empty for those that never ran."""
    graph = trace.graphs.get((), Graph("", {}))
    spans: dict[str, list[Span]] = {name: [] for name in (*graph.before, *graph.judges)}
    for span in trace.spans:
        if span.kind == "operator" and len(span.path) == 1:
            spans.setdefault(span.name, []).append(span)
    return spans


def _table(by_name: Mapping[str, Sequence[Span]], critical: set[str]) -> Iterator[str]:
    yield "| operator | state | runs | time | tokens | cost | critical path |"
    yield "|---|---|---:|---:|---:|---:|:---:|"
    for name, spans in [*by_name.items()][:MOST_ROWS]:
        usage = sum((span.usage for span in spans), NO_USAGE)
        ran = [span for span in spans if span.state != "skipped"]
        cells = [
            code(name),
            spans[-1].state if spans else "did not run",
            str(len(ran)) if ran else "",
            _duration(sum(span.seconds for span in ran)) if ran else "",
            f"{usage.tokens:,}" if usage.calls else "",
            usage.money() if usage.calls else "",
            "◆" if name in critical else "",
        ]
        yield f"| {' | '.join(cells)} |"
    if len(by_name) > MOST_ROWS:
        yield f"\n… and {len(by_name) - MOST_ROWS:,} more operators."


def _rounds(trace: Trace, root: Span) -> Iterator[str]:
    rounds = trace.within(root, "round")
    judged = [span for span in rounds if "status" in span.details]
    if len(rounds) < 2 and all(_is_plain_success(span.details) for span in judged):
        return
    yield "### Rounds"
    if len(rounds) > MOST_ROUNDS:
        yield f"The last {MOST_ROUNDS} of {len(rounds)}."
    for place, span in [*enumerate(rounds)][-MOST_ROUNDS:]:
        yield from _round(span)
        if place and (changes := list(_changes(trace, rounds[place - 1], span))):
            yield "changed:\n\n" + _block("\n".join(changes), MOST_OF_CHANGES)


def _is_plain_success(details: Mapping[str, Any]) -> bool:
    return details["status"] == "SUCCESS" and not details["lesson"] and not details.get("unsure")


def _round(span: Span) -> Iterator[str]:
    """Yield the verdict on a round, what it found, and what the round cost."""
    details, usage = span.details, span.usage
    score = "" if details.get("score") is None else f", score {details['score']:g}"
    verdict = f"{_status_word(details['status'])}{score}" if "status" in details else "no verdict"
    kept = ", ".join(code(name) for name in details.get("kept", ())[:MOST_NAMES])
    facts = [
        verdict,
        *([f"{_tokens(usage)}, cost {usage.money()}"] if usage.calls else []),
        *([f"kept, as the input did not change: {kept}"] if kept else []),
    ]
    yield f"**Round {span.round}**: {' · '.join(facts)}"
    faults = [Fault.model_validate(fault) for fault in details.get("faults", ())]
    found = finding_lines(faults, details.get("blame", ()), details.get("unsure", ()), details.get("repairs", {}))
    texts = {
        "evaluation": reason_in(details.get("evaluation", ""), details.get("unsure", ())),
        "findings": "\n".join(found),
        "lesson": "" if faults else details.get("lesson", ""),
    }
    for name, text in texts.items():
        if text:
            yield f"{name}:\n\n{_block(text, MOST_OF_CHANGES if name == 'findings' else MOST_OF_A_TEXT)}"


def _changes(trace: Trace, before: Span, after: Span) -> Iterator[str]:
    """Yield the differences between the answers of blamed operators in two rounds."""
    paths = [tuple(place.split("/")) for place in before.details.get("blame", ())[:MOST_NAMES]]
    wanted = {*paths, *((*path[:-1], without_index(path[-1])) for path in paths)}
    answers: dict[tuple[str, ...], dict[int, Mapping[str, Any]]] = {}
    for span in trace.spans:
        if span.path in wanted and span.kind == "operator" and "message" in span.details:
            ran_in = _round_around(trace, span, before, after)
            if ran_in is not None:
                answers.setdefault(span.path, {})[ran_in.id] = span.details["message"]
    for path in paths:
        own = answers.get(path) or answers.get((*path[:-1], without_index(path[-1])), {})
        if before.id in own and after.id in own:
            yield f"{'/'.join(path)}:"
            lines = changed_lines(answer_text(own[before.id], path), answer_text(own[after.id], path))
            yield from lines or ["(the same answer again)"]


def _round_around(trace: Trace, span: Span, *rounds: Span) -> Span | None:
    """Return the round, of these, in which an operator ran."""
    while span.parent is not None:
        span = trace.spans[span.parent]
        if span in rounds:
            return span
    return None


def _errors(trace: Trace) -> Iterator[str]:
    """Yield the failed operators, innermost only, with their errors; the run's own error if no operator failed."""
    failed = [span for span in trace.spans if span.kind == "operator" and span.state == "failed"]
    enclosing = {outer for span in failed for outer in _enclosing_paths(span.path)}
    innermost = [span for span in failed if span.path not in enclosing]
    shown = innermost or [span for span in trace.spans[:1] if "error" in span.details]
    if not shown:
        return
    yield "### Errors"
    for span in shown[:MOST_ERRORS]:
        place = " / ".join(map(code, span.path)) or "the run"
        round_text = f", round {span.round}" if span.round > 1 else ""
        attempt_text = f", attempt {span.attempt}" if span.attempt > 1 else ""
        yield f"{place}{round_text}{attempt_text}:\n\n{_block(str(span.details.get('error', '')))}"
    if len(shown) > MOST_ERRORS:
        yield f"… and {len(shown) - MOST_ERRORS:,} more."


def _enclosing_paths(path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the paths of the operators around an operator; for an item of a map, also the path of the map."""
    for end in range(1, len(path)):
        yield path[:end]
        yield (*path[: end - 1], without_index(path[end - 1]))


def _picture(graph: Graph, by_name: Mapping[str, Sequence[Span]]) -> str:
    if not 0 < len(by_name) <= MOST_IN_PICTURE:
        return ""
    chart = Flowchart()
    for name in by_name:
        chart.node(name, name)
    edges = [(before, name, False) for name in by_name for before in graph.before.get(name, ()) if before in by_name]
    tails = [name for name in graph.before if not any(name in before for before in graph.before.values())]
    edges += [(tail, judge, True) for judge in graph.judges for tail in tails]
    for before, name, dotted in edges[:MOST_LINES]:
        chart.edge(before, name, dotted=dotted)
    styles = {name: _STYLES.get(spans[-1].state, "other") if spans else "other" for name, spans in by_name.items()}
    for style, colours in _COLOURS.items():
        chart.style(style, colours, [name for name, each in styles.items() if each == style])
    return f"```mermaid\n{chart.code()}```"


# Texts


def code(text: str, most: int = MOST_OF_A_NAME) -> str:
    """Return the first characters of a text as inline code, also for a cell of a table."""
    line = _visible(shortened(" ".join(text.split()), most)).replace("|", "¦")
    if not line:
        return "`?`"
    ticks = "`" * (1 + _longest_backticks(line))
    return f"{ticks} {line} {ticks}" if "`" in line else f"{ticks}{line}{ticks}"


def _block(text: str, most: int = MOST_OF_A_TEXT) -> str:
    """Return a text as a code block, with its lines."""
    if not text.strip():
        return ""
    head = shortened("\n".join(text.splitlines()), most)
    shown = shortened(_visible(head), most)  # tabs become blanks
    fence = "`" * max(3, 1 + _longest_backticks(shown))
    return f"{fence}text\n{shown}\n{fence}"


def _visible(text: str) -> str:
    """Return a text with invisible characters and those that change the text direction replaced."""
    return _INVISIBLE.sub("\ufffd", text.replace("\t", "    "))


def _longest_backticks(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def _status_word(status: object) -> str:
    return "accepted" if status == "SUCCESS" else f"rejected ({str(status).lower().replace('_', ' ')})"


def _tokens(usage: Usage) -> str:
    cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
    return f"{usage.prompt_tokens:,}{cached} → {usage.completion_tokens:,} tokens"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"
