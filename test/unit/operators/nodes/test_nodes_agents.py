"""Agents, questions to people, and models of a node's own."""

import pytest

from operad.flows.assemble import assemble
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators.nodes import NODE_TYPES
from operad.operators.services import Services
from operad.runtime import Job, Tool, events
from operad.runtime.testing import ScriptedReasoner

START = NodeSpec("1", "start", {"variables": [["q", "string"]]})


def flow(node, *, services=None, output="text"):
    end = NodeSpec("3", "end", {"outputs": [["out", [output, "2"]]]})
    ports = 2 if node.type == "human-input" else 1
    edges = [Edge("1", "2"), *(Edge("2", "3", port) for port in range(ports))]
    return assemble(NodeGraph([START, node, end], edges), NODE_TYPES, services=services)


async def test_a_node_asks_the_model_of_its_name():
    node = NodeSpec("2", "llm", {"system": "", "user": "{{#1.q#}}", "model_name": "small"})
    services = Services(models={"small": ScriptedReasoner("the small one")})
    said = await flow(node, services=services).aexecute(
        Job(goal="", inputs={"q": "Who?"}), ScriptedReasoner("the other")
    )
    assert said.outputs == {"out": "the small one"}


async def test_a_node_whose_model_nobody_has_asks_that_of_the_run():
    node = NodeSpec("2", "llm", {"system": "", "user": "{{#1.q#}}", "model_name": "large"})
    said = await flow(node).aexecute(Job(goal="", inputs={"q": "Who?"}), ScriptedReasoner("the other"))
    assert said.outputs == {"out": "the other"}


async def test_an_agent_is_given_its_tools_and_its_text():
    def weather(city: str) -> str:
        """The weather in a city."""
        return "sunny"

    def answer(task):
        return f"{task.instruction}|{task.job.goal}|{[tool.name for tool in task.tools]}"

    params = {"instruction": "Look it up.", "query": "{{#1.q#}}", "tools": ["weather"]}
    workflow = flow(NodeSpec("2", "agent", params), services=Services(tools=[Tool.of(weather)]))
    said = await workflow.aexecute(Job(goal="", inputs={"q": "In Rome?"}), ScriptedReasoner(answer))
    assert said.outputs == {"out": "Look it up.|In Rome?|['weather']"}


@pytest.mark.parametrize(("answer", "why"), [({"why": "too dear"}, "too dear"), ({}, "")])
async def test_a_person_is_asked_and_the_way_of_the_answer_is_taken(answer, why):
    params = {"question": "Send {{#1.q#}}?", "actions": [["yes", "Send"], ["no", "Leave"]], "inputs": ["why"]}
    workflow = flow(NodeSpec("2", "human-input", params), output="why")
    asked, outputs = [], {}
    stream = workflow.stream(Job(goal="", inputs={"q": "figs"}), ScriptedReasoner([]))
    async for event in stream:
        if isinstance(event, events.Interrupted):
            asked.append(event.question)
            stream.answer({event.interrupt_id: {"action": "no", **answer}})
        if isinstance(event, events.RunFinished):
            outputs = event.message.outputs
    assert asked == ["Send figs?"]
    assert outputs == {"out": why}


def test_a_node_whose_model_the_services_have_needs_none_of_the_run():
    params = {"instruction": "", "query": "x", "model_name": "small"}
    agent = NODE_TYPES["agent"]
    assert agent("1", params).asks_model is True
    assert agent("1", params, services=Services(models={"small": "any"})).asks_model is False
    assert agent("1", params, services=Services(models={"other": "any"})).asks_model is True
