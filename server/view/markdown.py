"""A run in short, as Markdown for a pull request or a ticket.

What models, documents and people say stands in code alone, where GitHub finds no markup, links, mentions or numbers of
issues.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from operad.runtime.observe.critical_path import critical_path
from operad.runtime.observe.trace import Graph, Span, Trace
from operad.runtime.values.message import NO_USAGE

MOST_ROWS = 100
MOST_IN_PICTURE = 100
MOST_LINES = 400
MOST_ROUNDS = 10
MOST_ERRORS = 10
MOST_OF_A_NAME = 80
MOST_OF_A_TEXT = 800

_HIDING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
_COLOURS = {
    "done": "fill:#e3f4e8,stroke:#1a7546,color:#1b1e23",
    "failed": "fill:#fcefee,stroke:#c02b22,color:#1b1e23",
    "other": "fill:#f6f6f4,stroke:#68707b,color:#1b1e23",
}


def markdown(trace: Trace) -> str:
    """Status, totals, operators, rounds, errors and graph of a run; some 60,000 characters at most."""
    root = trace.root
    if root is None:
        return "No run.\n"
    by_name = _operators(trace)
    critical = {trace.spans[number].name for number in critical_path(trace) if len(trace.spans[number].path) == 1}
    parts = [
        f"## {_code(trace.workflow)}: {_state(trace, root)}",
        _block(trace.goal),
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
    took = (trace.now if root.end is None else root.end) - root.start
    said = [_duration(took), _number(len(rounds), "round")]
    if root.usage.calls:
        said += [
            _number(root.usage.calls, "model call"),
            f"{root.usage.prompt_tokens:,} → {root.usage.completion_tokens:,} tokens",
            f"cost {root.usage.money()}",
        ]
    return " · ".join(said)


def _operators(trace: Trace) -> Mapping[str, Sequence[Span]]:
    """The spans of the run's own operators and evaluators, by their ids; of one that never ran there is none."""
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
            _code(name),
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
    if len(rounds) < 2 and all(span.details["status"] == "SUCCESS" and not span.details["lesson"] for span in judged):
        return
    yield "### Rounds"
    if len(rounds) > MOST_ROUNDS:
        yield f"The last {MOST_ROUNDS} of {len(rounds)}."
    for span in rounds[-MOST_ROUNDS:]:
        told = span.details
        score = "" if told.get("score") is None else f", score {told['score']:g}"
        verdict = f"{_word(told['status'])}{score}" if "status" in told else "no verdict"
        blamed = ", ".join(_code(name) for name in told.get("blame", ())[:20])
        yield f"**Round {span.round}**: {verdict}{f'; blamed: {blamed}' if blamed else ''}"
        for name in ("evaluation", "lesson"):
            if told.get(name):
                yield f"{name}:\n\n{_block(told[name])}"


def _errors(trace: Trace) -> Iterator[str]:
    """Yield the failed operators, innermost only, with their errors; the run's own error if no operator failed."""
    failed = [span for span in trace.spans if span.kind == "operator" and span.state == "failed"]
    around = {outer for span in failed for outer in _around(span.path)}
    innermost = [span for span in failed if span.path not in around]
    told = innermost or [span for span in trace.spans[:1] if "error" in span.details]
    if not told:
        return
    yield "### Errors"
    for span in told[:MOST_ERRORS]:
        where = " / ".join(map(_code, span.path)) or "the run"
        of = f", round {span.round}" if span.round > 1 else ""
        attempt = f", attempt {span.attempt}" if span.attempt > 1 else ""
        yield f"{where}{of}{attempt}:\n\n{_block(str(span.details.get('error', '')))}"
    if len(told) > MOST_ERRORS:
        yield f"… and {len(told) - MOST_ERRORS:,} more."


def _around(path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The paths of the operators around one; of an item of a map, that of the map."""
    for end in range(1, len(path)):
        yield path[:end]
        yield (*path[: end - 1], re.sub(r"\[\d+\]$", "", path[end - 1]))


def _picture(graph: Graph, by_name: Mapping[str, Sequence[Span]]) -> str:
    if not 0 < len(by_name) <= MOST_IN_PICTURE:
        return ""
    number = {name: at for at, name in enumerate(by_name)}
    ends = [name for name in graph.before if not any(name in before for before in graph.before.values())]
    edges = [
        (number[one], "-->", at) for name, at in number.items() for one in graph.before.get(name, ()) if one in number
    ]
    edges += [(number[one], "-.->", number[judge]) for judge in graph.judges for one in ends]
    lines = ["```mermaid", "flowchart TD"]
    for name, spans in by_name.items():
        state = spans[-1].state if spans else "other"
        look = "done" if state in ("cached", "kept") else state if state in _COLOURS else "other"
        lines.append(f'  n{number[name]}["{_label(name)}"]:::{look}')
    lines += [f"  n{one} {line} n{other}" for one, line, other in edges[:MOST_LINES]]
    lines += [f"  classDef {look} {colours}" for look, colours in _COLOURS.items()]
    return "\n".join([*lines, "```"])


# Texts


def _label(name: str) -> str:
    """A name as a label of a picture: of other characters than letters and digits, those that mean nothing there."""
    said = "".join(each if each.isalnum() or each in " -_.," else "·" for each in name)
    return _shortened(said, 40).strip() or "·"


def _code(said: str) -> str:
    """A text as code within a line, or in a cell of a table."""
    line = _shortened(_plain(" ".join(said.split())), MOST_OF_A_NAME).replace("|", "¦")
    if not line:
        return "`?`"
    ticks = "`" * (1 + _longest(line))
    return f"{ticks} {line} {ticks}" if "`" in line else f"{ticks}{line}{ticks}"


def _block(said: str) -> str:
    """A text as a block of code, with its lines."""
    if not said.strip():
        return ""
    text = _shortened(_plain("\n".join(said.splitlines())), MOST_OF_A_TEXT)
    fence = "`" * max(3, 1 + _longest(text))
    return f"{fence}text\n{text}\n{fence}"


def _plain(said: str) -> str:
    """Without what could hide something, or turn it around."""
    return _HIDING.sub("\ufffd", said.replace("\t", "    "))


def _longest(said: str) -> int:
    return max(map(len, re.findall("`+", said)), default=0)


def _shortened(said: str, most: int) -> str:
    return said if len(said) <= most else f"{said[: most - 1]}…"


def _word(status: object) -> str:
    return str(status).lower().replace("_", " ")


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"
