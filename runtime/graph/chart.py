"""Mermaid flowchart of a workflow."""

from __future__ import annotations

from operad.runtime.graph.operator import OperatorGraph
from operad.runtime.values.mermaid import Flowchart


def chart(graph: OperatorGraph) -> str:
    """Return the Mermaid code of a workflow: ids of operators, ports of edges, and evaluators with dashed edges.

    Args:
        graph: The graph, which may have issues.
    """
    flowchart = Flowchart()
    draw(graph, flowchart)
    return flowchart.code()


def draw(
    graph: OperatorGraph,
    flowchart: Flowchart,
    place: tuple[object, ...] = (),
    around: frozenset[int] = frozenset(),
) -> None:
    """Draw a workflow in a flowchart; a workflow inside an operator is drawn in a frame.

    Args:
        graph: The graph, which may have issues.
        place: Place of the workflow among those in the flowchart.
        around: The Python `id` of each workflow around this one, so that a workflow that contains itself is drawn once.
    """
    parents = {parent for before in graph.before.values() for parent in before}
    for key in dict.fromkeys([*graph.before, *parents]):
        operator = graph.operators.get(key)
        workflows = (operator and operator.runs_workflows) or ()
        inner_workflows = [workflow for workflow in workflows if id(workflow) not in around]
        if not inner_workflows:
            flowchart.node((*place, key), key)
            continue
        flowchart.begin_frame((*place, key), key)
        for number, inner in enumerate(inner_workflows):
            draw(inner.graph(), flowchart, (*place, key, number), around | {id(inner)})
        flowchart.end_frame()
    for key, before in graph.before.items():
        for parent, ports in before.items():
            flowchart.edge((*place, parent), (*place, key), ", ".join(sorted(ports)))
    tails = [key for key in graph.before if key not in parents]
    for number, evaluator in enumerate(graph.evaluators):
        judge = (*place, number)
        flowchart.node(judge, evaluator.get_id(), "round")
        for tail in tails:
            flowchart.edge((*place, tail), judge, dotted=True)
