"""Run files of Flowise with a model that repeats its prompt, a tool, documents, another flow and a person who answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dify_echo import BASE
from dify_runs import Model

from operad.flows.assemble import assemble
from operad.flows.check import check
from operad.flows.formats.remarks import remarks_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.integrations.flowise.format import load
from operad.operators.nodes import NODE_TYPES
from operad.operators.services import Services
from operad.operators.web.fetch import Guard
from operad.runtime import Job, events
from operad.runtime.knowledge.knowledge import Knowledge, Passage
from operad.runtime.testing import ScriptedReasoner
from operad.runtime.values.errors import OperadError, describe
from operad.runtime.values.message import Turn


class Books:
    """Documents with two passages for any query."""

    def retrieve(self, query: str) -> Knowledge:
        """Return the passages."""
        return Knowledge(passages=(Passage(text=f"On {query}.", source="a.md"), Passage(text="More.", source="b.md")))


def weather(city: str, days: int = 1) -> str:
    """Return the weather."""
    return f"{city}: sun for {days}"


ECHO = NodeGraph(
    [
        NodeSpec("1", "start", {"variables": [["sys.query", "string"]]}),
        NodeSpec("2", "answer", {"answer": "echo {{#1.sys.query#}}"}),
    ],
    [Edge("1", "2")],
)


async def run_flowise(text: bytes, outcome: Mapping[str, Any], base: str = "") -> Mapping[str, Any]:
    """Return the outputs of a file for the inputs, earlier turns and answers of a person in its outcome.

    Args:
        text: The file.
        outcome: The recorded outcome.
        base: The address of the echo server.
    """
    services = Services(
        guard=Guard(allowed_hosts=(base.removeprefix("http://"),)),
        tools=[weather],
        knowledge={"books": Books()},
        workflows={"5f2c": assemble(ECHO, NODE_TYPES)},
    )
    workflow = assemble(load(text, "case"), NODE_TYPES, services=services, lossy="differs" in outcome)
    inputs = {name: base if value == BASE else value for name, value in outcome.get("inputs", {}).items()}
    turns: Sequence[Any] = [Turn(role=role, text=said) for role, said in outcome.get("turns", ())]
    job = Job(goal="", inputs=inputs, turns=tuple(turns))
    outputs: Mapping[str, Any] = {}
    stream = workflow.stream(job, ScriptedReasoner(Model(outcome.get("pick", 0)).answer))
    async for event in stream:
        if isinstance(event, events.Interrupted):
            stream.answer({event.interrupt_id: outcome["person"]})
        if isinstance(event, events.RunFinished):
            outputs = event.message.outputs
    return outputs


def told(text: bytes) -> tuple[str, str]:
    """Return why a file cannot run, and what runs differently, as `operad check` says it."""
    try:
        graph = load(text, "case")
    except OperadError as error:
        return describe(error), ""
    issues = check(graph, NODE_TYPES)
    return "; ".join(map(str, issues)), "; ".join(str(each.issue) for each in remarks_of(graph) if each.lossy)
