"""Mermaid flowchart of a workflow."""

from __future__ import annotations

from collections.abc import Iterator

from operad.runtime.graph.operator import OperatorGraph
from operad.runtime.values.text import short_line

MAX_LABEL = 60
"""Maximum number of characters of a label."""


def chart(graph: OperatorGraph) -> str:
    """Return the Mermaid code of a workflow: ids of operators, ports of edges, and evaluators with dashed edges.

    Args:
        graph: The graph, which may have issues.
    """
    return "\n".join(["flowchart TD", *chart_lines(graph)]) + "\n"


def label(text: str) -> str:
    """Return a text as a quoted Mermaid label: on one line, shortened, and with special characters escaped."""
    line = short_line(text, MAX_LABEL)
    safe = "".join(char if char.isalnum() or char in " -_.,:/…" else f"#{ord(char)};" for char in line)
    return f'"{safe or " "}"'


def chart_lines(
    graph: OperatorGraph, prefix: str = "", indent: str = "  ", around: frozenset[int] = frozenset()
) -> Iterator[str]:
    """Yield the lines of a workflow's nodes and edges; a workflow inside an operator becomes a subgraph.

    Args:
        graph: The graph, which may have issues.
        prefix: Prefix of the names of nodes, so that several workflows can be in one chart.
        indent: Text before each line.
        around: The Python `id` of each workflow around this one, so that a workflow that contains itself is drawn once.
    """
    parents = {parent for before in graph.before.values() for parent in before}
    names = {key: f"{prefix}n{number}" for number, key in enumerate(dict.fromkeys([*graph.before, *parents]))}
    for key, name in names.items():
        operator = graph.operators.get(key)
        workflows = (operator and operator.runs_workflows) or ()
        inner_workflows = [workflow for workflow in workflows if id(workflow) not in around]
        if not inner_workflows:
            yield f"{indent}{name}[{label(key)}]"
            continue
        yield f"{indent}subgraph {name} [{label(key)}]"
        for number, inner in enumerate(inner_workflows):
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
