"""Small workflows that several tests need."""

from typing import Any

from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.runtime import BuiltinWorkflow

GREET = NodeGraph(
    [
        NodeSpec("1", "start", {"variables": [["name", "string"]]}),
        NodeSpec("2", "llm", {"system": "", "user": "Greet {{#1.name#}}."}),
        NodeSpec("3", "end", {"outputs": [["text", ["text", "2"]]]}),
    ],
    [Edge("1", "2"), Edge("2", "3")],
    "greet",
)


def echo(*variables: list[str]) -> dict[str, Any]:
    """Return a workflow of Chat2Workflow that gives what it is given."""
    return {
        "nodes_info": [
            {"id": "1", "type": "start", "param": {"variables": variables}},
            {"id": "2", "type": "end", "param": {"outputs": [[name, [name, "1"]] for name, _ in variables]}},
        ],
        "edges": [["1", 0, "2"]],
    }


def flow(*operators: Any, name: str = "workflow", evaluators: Any = (), **options: Any) -> Any:
    """Return a workflow of operators one after another."""
    workflow, before = BuiltinWorkflow(name=name, **options), None
    for operator in operators:
        workflow.add_operator(operator, [before] if before else None)
        before = operator
    for evaluator in evaluators:
        workflow.add_evaluator(evaluator)
    return workflow
