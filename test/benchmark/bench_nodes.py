"""Measure the overhead of typed nodes, and of an iteration compared with its ideal.

    python test/benchmark/bench_nodes.py

The first table shows microseconds per node in chains of 100 nodes of a type, the best of five runs after a warm-up, and
the ratio to a chain of 100 operators that do nothing. The second is an iteration over 1,000 items, ten at once, whose
body waits 10 ms: the ideal is one second. A hand-written loop is measured for comparison.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Mapping
from time import perf_counter
from typing import Any

from operad.flows.assemble import assemble
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators.node import NodeCall, NodeOperator, NodeParams, TypeOf
from operad.operators.nodes import NODE_TYPES
from operad.operators.variables import Values, VariableType
from operad.runtime import Job, WorkflowMessage
from operad.runtime.workflow.workflow import BuiltinWorkflow, Workflow

NODES, RUNS = 100, 5
ITEMS, CONCURRENCY, WAIT = 1_000, 10, 0.01
INPUTS: Mapping[str, Any] = {"text": "some words", "number": 3, "words": ["b", "a", "c"]}

CHEAP: Mapping[str, Mapping[str, Any]] = {
    "if-else": {"cases": [["and", [[["text", "s"], "contains", "word"], [["number", "s"], ">", "2"]]]]},
    "list-operator": {"variable": ["words", "s"], "operator": ["order_by", "asc"]},
    "variable-aggregator": {"variables": [["text", "s"]]},
    "answer": {"answer": "It says {{#s.text#}}, {{#s.number#}} times."},
    "template-transform": {
        "variables": [["words", ["words", "s"]]],
        "template": "{% for word in words %}- {{ word }}\n{% endfor %}",
    },
    "code": {
        "variables": [["words", ["words", "s"]]],
        "outputs": [["count", "number"]],
        "code": "def main(words):\n    return {'count': len(words)}",
    },
}


class Nothing:
    """An operator that does nothing."""

    def __init__(self, id: str) -> None:
        self._id = id

    def get_id(self) -> str:
        return self._id

    async def execute(self, *_: Any, **__: Any) -> WorkflowMessage:
        return WorkflowMessage()


class Wait(NodeOperator[NodeParams]):
    """Waits 10 ms."""

    type = "wait"

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        return {"done": VariableType.BOOLEAN}

    async def compute(self, call: NodeCall) -> Values:
        await asyncio.sleep(WAIT)
        return {"done": True}


def chain_of(kind: str) -> Workflow:
    """Return a chain of nodes of a type, between start and end."""
    start = NodeSpec(
        "s", "start", {"variables": [["text", "string"], ["number", "number"], ["words", "array[string]"]]}
    )
    nodes = [NodeSpec(f"n{n}", kind, CHEAP[kind]) for n in range(NODES)]
    end = NodeSpec("e", "end", {"outputs": [["text", ["text", "s"]]]})
    ids = [node.id for node in (start, *nodes, end)]
    edges = [Edge(source, target) for source, target in itertools.pairwise(ids)]
    return assemble(NodeGraph((start, *nodes, end), edges), NODE_TYPES)


def chain_of_nothing() -> Workflow:
    """Return a chain of operators that do nothing."""
    workflow = BuiltinWorkflow()
    operators = [Nothing(str(n)) for n in range(NODES)]
    for operator, before in zip(operators, [None, *operators], strict=False):
        workflow.add_operator(operator, [before] if before else None)
    return workflow


def iteration() -> Workflow:
    """Return an iteration whose body waits."""
    nodes = (
        NodeSpec("s", "start", {"variables": [["words", "array[string]"]]}),
        NodeSpec(
            "i",
            "iteration",
            {"iterator_selector": ["words", "s"], "output_selector": ["done", "i-2"], "concurrency": CONCURRENCY},
        ),
        NodeSpec("i-1", "iteration-start", parent="i"),
        NodeSpec("i-2", "wait", parent="i"),
        NodeSpec("e", "end", {"outputs": [["done", ["output", "i"]]]}),
    )
    return assemble(
        NodeGraph(nodes, (Edge("s", "i"), Edge("i-1", "i-2"), Edge("i", "e"))), {**NODE_TYPES, "wait": Wait}
    )


async def seconds(workflow: Workflow, inputs: Mapping[str, Any]) -> float:
    """Return the minimum seconds of several runs."""
    best = float("inf")
    for _ in range(RUNS + 1):
        began = perf_counter()
        await workflow.aexecute(Job(goal="bench", inputs=dict(inputs)), None)  # type: ignore[arg-type]
        best = min(best, perf_counter() - began)
    return best


async def by_hand(turns: Iterator[int]) -> None:
    """Wait for each item in a hand-written loop."""
    for _ in turns:
        await asyncio.sleep(WAIT)


async def main() -> None:
    """Print the tables."""
    nothing = await seconds(chain_of_nothing(), {}) / NODES
    print(f"{'an operator that does nothing':30} {nothing * 1e6:8.1f} µs")
    for kind in CHEAP:
        cost = await seconds(chain_of(kind), INPUTS) / NODES
        print(f"{kind:30} {cost * 1e6:8.1f} µs {cost / nothing:8.1f}x")
    ideal = ITEMS * WAIT / CONCURRENCY
    began = perf_counter()
    turns = iter(range(ITEMS))
    await asyncio.gather(*(by_hand(turns) for _ in range(CONCURRENCY)))
    loop = perf_counter() - began
    took = await seconds(iteration(), {"words": ["word"] * ITEMS})
    what = f"iteration, {ITEMS:,} items, {CONCURRENCY} at once, {WAIT * 1e3:g} ms each"
    print(f"{what}: {took:.3f} s, ideal {ideal:.3f} s, {took / ideal:.2f}x; a loop by hand {loop / ideal:.2f}x")


if __name__ == "__main__":
    asyncio.run(main())
