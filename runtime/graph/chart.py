"""A workflow as a Mermaid flowchart, to look at."""

from __future__ import annotations

from collections.abc import Iterator

from operad.runtime.graph.graph import WorkflowGraph

MAX_LABEL = 60
"""Number of characters of a text a chart shows."""


def chart(graph: WorkflowGraph) -> str:
    """Return the operators of a workflow by their ids, with the ports of its edges and, dashed, its evaluators.

    Args:
        graph: The workflow; nothing in it need be right.

    Returns:
        Mermaid's code.
    """
    return "\n".join(["flowchart TD", *chart_lines(graph)]) + "\n"


def label(text: str) -> str:
    """A text in quotes that stands for nothing but itself in Mermaid, on one line and shortened."""
    text = " ".join(text.split())
    text = text if len(text) <= MAX_LABEL else text[: MAX_LABEL - 1] + "…"
    safe = "".join(each if each.isalnum() or each in " -_.,:/…" else f"#{ord(each)};" for each in text)
    return f'"{safe or " "}"'


def chart_lines(
    graph: WorkflowGraph, prefix: str = "", indent: str = "  ", around: frozenset[int] = frozenset()
) -> Iterator[str]:
    """Yield the nodes and the edges of a workflow; a workflow inside of it stands in a frame.

    Args:
        graph: The workflow; nothing in it need be right.
        prefix: Text before the name of each node, so that several workflows can be in one chart.
        indent: Text before each line.
        around: The `id` of each workflow whose frame the lines stand in; one that contains itself is drawn once.
    """
    parents = {parent for before in graph.before.values() for parent in before}
    names = {key: f"{prefix}n{number}" for number, key in enumerate(dict.fromkeys([*graph.before, *parents]))}
    for key, name in names.items():
        operator = graph.operators.get(key)
        inside = [each for each in ((operator and operator.runs_workflows) or ()) if id(each) not in around]
        if not inside:
            yield f"{indent}{name}[{label(key)}]"
            continue
        yield f"{indent}subgraph {name} [{label(key)}]"
        for number, inner in enumerate(inside):
            yield from chart_lines(inner.graph(), f"{name}w{number}", f"{indent}  ", around | {id(inner)})
        yield f"{indent}end"
    for key, before in graph.before.items():
        for parent, ports in before.items():
            arrow = f"-->|{label(', '.join(sorted(ports)))}|" if ports else "-->"
            yield f"{indent}{names[parent]} {arrow} {names[key]}"
    tails = [key for key in graph.before if key not in parents]
    for number, evaluator in enumerate(graph.evaluators):
        yield f"{indent}{prefix}e{number}([{label(evaluator.get_id())}])"
        yield from (f"{indent}{names[tail]} -.-> {prefix}e{number}" for tail in tails)
