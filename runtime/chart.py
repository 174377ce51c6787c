"""A workflow as a Mermaid flowchart, to look at."""

from __future__ import annotations

from collections.abc import Iterator

from operad.runtime.graph import WorkflowGraph

MAX_LABEL = 60
"""How many characters of a text a chart shows."""


def chart(graph: WorkflowGraph) -> str:
    """The operators of a workflow by their ids, with the ports of its edges and, dashed, what judges.

    Args:
        graph: The workflow; nothing in it need be right.

    Returns:
        Mermaid's code.
    """
    return "\n".join(["flowchart TD", *(f"  {line}" for line in _lines(graph))]) + "\n"


def label(text: str) -> str:
    """A text in quotes that stands for nothing but itself in Mermaid, on one line and shortened."""
    text = " ".join(text.split())
    text = text if len(text) <= MAX_LABEL else text[: MAX_LABEL - 1] + "…"
    safe = "".join(each if each.isalnum() or each in " -_.,:/…" else f"#{ord(each)};" for each in text)
    return f'"{safe or " "}"'


def _lines(graph: WorkflowGraph) -> Iterator[str]:
    parents = {parent for before in graph.before.values() for parent in before}
    names = {key: f"n{number}" for number, key in enumerate(dict.fromkeys([*graph.before, *parents]))}
    for key, name in names.items():
        yield f"{name}[{label(key)}]"
    for key, before in graph.before.items():
        for parent, ports in before.items():
            arrow = f"-->|{label(', '.join(sorted(ports)))}|" if ports else "-->"
            yield f"{names[parent]} {arrow} {names[key]}"
    tails = [key for key in graph.before if key not in parents]
    for number, evaluator in enumerate(graph.evaluators):
        yield f"e{number}([{label(evaluator.get_id())}])"
        yield from (f"{names[tail]} -.-> e{number}" for tail in tails)
