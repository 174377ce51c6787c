"""Run workflows of Coze with a model that repeats its prompt, a server that repeats requests, and a person."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from dify_echo import BASE, echo_server
from dify_runs import Model
from pydantic import JsonValue

from operad.flows.assemble import assemble
from operad.flows.check import check
from operad.flows.formats.remarks import remarks_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators.nodes import NODE_TYPES
from operad.operators.services import Services
from operad.operators.web.fetch import Guard
from operad.runtime import Job, events
from operad.runtime.knowledge.knowledge import Knowledge, Passage
from operad.runtime.testing import ScriptedReasoner
from operad.runtime.values.errors import Issue

OTHER = "7420000000000000001"
"""Id of a workflow that others call; it puts `a: ` before its input."""

_OTHER = NodeGraph(
    [
        NodeSpec("1", "start", {"variables": [["a", "string"]]}),
        NodeSpec("2", "template-transform", {"variables": [["a", ["a", "1"]]], "template": "a: {{ a }}"}),
        NodeSpec("3", "end", {"outputs": [["output", ["output", "2"]]]}),
    ],
    [Edge("1", "2"), Edge("2", "3")],
)


class Books:
    """Documents with one passage for any query."""

    def retrieve(self, query: str) -> Knowledge:
        """Return the passage."""
        return Knowledge(passages=(Passage(text=f"On {query}.", source="a.md"),))


def weather(a: str = "", city: str = "", days: int = 1) -> dict[str, JsonValue]:
    """Return the weather of a place."""
    sun = "sun" if days == 1 else f"{days} days of sun"
    return {"data": f"{sun} over {a or city}", "output": f"{sun} over {a or city}"}


def outputs_of(graph: NodeGraph, outcome: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the outputs of a run with the inputs, the class and the answers of an outcome."""
    with echo_server() if BASE in outcome["inputs"].values() else nullcontext("http://127.0.0.1") as base:
        guard = Guard(allowed_hosts=(base.removeprefix("http://"),))
        services = Services(
            guard=guard, workflows={OTHER: assemble(_OTHER, NODE_TYPES)}, tools=[weather], knowledge={"1": Books()}
        )
        inputs = {name: base if value == BASE else value for name, value in outcome["inputs"].items()}

        async def answered() -> Mapping[str, Any]:
            model = ScriptedReasoner(outcome.get("said") or Model(outcome.get("pick", 0)).answer)
            run = assemble(graph, NODE_TYPES, services=services).start(Job(goal="", inputs=inputs), model)
            async for event in run:
                if isinstance(event, events.Interrupted):
                    run.answer({event.interrupt_id: outcome["answers"]})
            return (await run).message.outputs

        return asyncio.run(answered())


def told(graph: NodeGraph) -> tuple[Sequence[Issue], Sequence[Issue]]:
    """Return why a workflow cannot run, and what runs differently."""
    refusals = [issue for issue in check(graph, NODE_TYPES) if issue.code == "unknown-type"]
    return refusals, [each.issue for each in remarks_of(graph) if each.lossy]
