"""The offer of a design: types, parameters and services by the target format and the configuration."""

import asyncio
import json
from itertools import pairwise

import pytest
import yaml

from operad.configs.generation import NOTHING, Designer
from operad.evaluators.dry_run import dry_run
from operad.flows.assemble import assemble
from operad.flows.formats.operad import OPERAD
from operad.flows.generation import prompts
from operad.flows.generation.draft import unread
from operad.flows.generation.drafting import params_of
from operad.flows.generation.offer import CHAT2WORKFLOW_OFFER, OfferedTool, offer_for, offer_of, read_offer
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.integrations.dify.format import DIFY
from operad.operators.nodes import CHAT2WORKFLOW_TYPES, NODE_TYPES
from operad.operators.services import Services
from operad.runtime import Job, Tool, events
from operad.runtime.testing import Say, ScriptedModel, ScriptedReasoner

NONE = NodeGraph()


def post_to_slack(channel: str, text: str, urgent: bool = False) -> str:
    """Post a message to a channel of Slack."""
    return f"{channel}: {text}"


def draft(offer):
    return prompts.shown(prompts.to_draft(["Sum up."], offer, prompts.Part("", "")))


# Types and parameters


@pytest.mark.parametrize("name", ["operad", "dify"])
def test_rich_formats_are_offered_requests_questions_and_optional_inputs(name):
    shown = draft(offer_for(name))
    assert all(f"\n{each}(" in shown for each in ("request", "human-input", "loop", "assigner"))
    assert "defaults: Makes inputs optional" in shown
    assert "\nfailure?, a parameter of every type: Retries" in shown
    assert "http-request(" not in shown


@pytest.mark.parametrize("name", ["chat2workflow", "coze"])
def test_other_formats_are_offered_the_types_of_the_benchmark_alone(name):
    assert offer_for(name, models=["small"]) is CHAT2WORKFLOW_OFFER
    assert list(CHAT2WORKFLOW_OFFER.types) == list(CHAT2WORKFLOW_TYPES)
    shown = draft(CHAT2WORKFLOW_OFFER)
    assert "defaults" not in shown
    assert "failure" not in shown
    assert "model_name" not in shown


def test_the_richest_prompt_keeps_the_budget():
    tools = {f"tool_{n}": OfferedTool("It does something. " * 20, {"text": "string"}) for n in range(200)}
    offer = offer_for(tools=tools, models=["small", "large"], knowledge=["handbook"])
    assert len(offer.services()) <= 2_420
    assert len(draft(offer)) / prompts.CHARACTERS_A_TOKEN <= prompts.DRAFT_TOKENS


def test_types_that_a_workflow_uses_are_offered_for_its_changes():
    node = NodeSpec("2", "loop", {"loop_count": 3, "failure": {"retries": 1}})
    offer = CHAT2WORKFLOW_OFFER.with_used(NodeGraph([node]))
    assert "loop" in offer.types
    assert offer.params == {"loop.failure"}


# Services


def test_services_are_offered_by_their_names():
    services = Services(tools=[Tool.of(post_to_slack)], models={"small": "gpt-small"})
    offer = asyncio.run(offer_of(services))
    assert offer.services() == (
        'Tools for nodes of type tool and agent:\n'
        '- post_to_slack {"channel": "string", "text": "string", "urgent": "boolean?"}: '
        "Post a message to a channel of Slack.\n"
        "Models for model_name: small"
    )  # fmt: skip
    assert "llm(model_name?, system: text, user: text)" in draft(offer)
    assert read_offer(offer.as_json()) == offer


def test_a_workflow_of_the_services_is_a_tool_with_its_inputs():
    nodes = [
        NodeSpec("1", "start", {"variables": [["q", "string"]]}),
        NodeSpec("2", "end", {"outputs": [["a", ["q", "1"]]]}),
    ]
    inner = assemble(NodeGraph(nodes, [Edge("1", "2")]), NODE_TYPES)
    offer = asyncio.run(offer_of(Services(workflows={"echo": inner})))
    assert offer.tools == {"echo": OfferedTool("A workflow.", {"q": "string"})}


def test_names_that_no_service_has_are_faults():
    offer = offer_for(tools={"slack": OfferedTool("", {"text": "string"})}, models=["small"])
    nodes = [
        NodeSpec("2", "tool", {"tool": "slak", "arguments": {}}),
        NodeSpec("3", "tool", {"tool": "slack", "arguments": {"txt": "figs"}}),
        NodeSpec("4", "llm", {"system": "", "user": "Hi", "model_name": "large"}),
        NodeSpec("5", "knowledge-retrieval", {"query": ["q", "1"], "knowledge": "handbook"}),
    ]
    assert list(offer.faults(NodeGraph(nodes))) == [
        "[unknown-service] 2: no tool is called 'slak' (did you mean 'slack'?); there are: slack",
        "[unknown-service] 3: no argument of 'slack' is called 'txt' (did you mean 'text'?); there are: text",
        "[unknown-service] 4: no model is called 'large'; there are: small",
        "[unknown-service] 5: no knowledge base is called 'handbook'; there are: none",
    ]


# Designs


def node(id, type, after, **params):
    return {"id": id, "type": type, "after": after, "params": params}


PLAN = {
    "reasoning": "",
    "nodes": [
        node(
            "1",
            "start",
            [],
            variables=[{"name": "text", "type": "string"}, {"name": "language", "type": "string"}],
            defaults={"language": "English"},
        ),
        node("2", "llm", ["1"], system="", user="Sum up in {{#1.language#}}: {{#1.text#}}", model_name="small"),
        node(
            "3",
            "human-input",
            ["2"],
            question="Post?\n{{#2.text#}}",
            actions=[{"id": "y", "title": "Yes"}, {"id": "n", "title": "No"}],
        ),
        node("4", "tool", ["3:0"], tool="post_to_slack", arguments={"channel": "all.hands", "text": "2.text"}),
        node("5", "end", ["4"], outputs=[{"name": "said", "value": "4.text"}]),
        node("6", "end", ["3:1"], outputs=[{"name": "said", "value": "2.text"}]),
    ],
}
CONTENT = {"evaluation": "", "findings": []}


@pytest.fixture
def designed():
    """A design with a scripted plan and configured services."""

    def designed(plan, services, base=NOTHING):
        def answer(request):
            form = request["response_format"]["json_schema"]["schema"]["properties"]
            return Say(json.dumps(plan if "nodes" in form else CONTENT))

        with ScriptedModel(answer) as scripted:
            designer = Designer(scripted.model, offer=asyncio.run(offer_of(services)))
            return designer.design("Sum a text (variable text) up, have me approve it, post it (variable said).", base)

    return designed


def services():
    return Services(tools=[Tool.of(post_to_slack)], models={"small": ScriptedReasoner("The sum.")})


def test_approval_tool_model_and_optional_input_are_designed_and_kept_in_files(designed):
    made = designed(PLAN, services())
    assert made.findings == []
    assert made.accepted
    assert made.graph.by_id["4"].params["arguments"] == {"channel": "all.hands", "text": ["text", "2"]}
    for each in (OPERAD, DIFY):
        again = each.load(each.dump(made.graph), "made")
        assert again.by_id["1"].params["defaults"] == {"language": "English"}
        assert again.by_id["2"].params["model_name"] == "small"
    inputs = yaml.safe_load(DIFY.dump(made.graph))["workflow"]["graph"]["nodes"][0]["data"]["variables"]
    assert [(each["variable"], each["required"]) for each in inputs] == [("text", True), ("language", False)]


def test_a_node_in_the_middle_adds_no_line_about_the_order_of_edges(designed):
    nodes = [
        NodeSpec("1", "start", {"variables": [["text", "string"]]}),
        NodeSpec("2", "llm", {"system": "", "user": "Sum up: {{#1.text#}}"}),
        NodeSpec("3", "llm", {"system": "", "user": "Translate: {{#2.text#}}"}),
        NodeSpec("4", "end", {"outputs": [["said", ["text", "3"]]]}),
    ]
    base = NodeGraph(nodes, [Edge(one.id, other.id) for one, other in pairwise(nodes)])
    plan = {
        "reasoning": "",
        "nodes": [
            {**node("5", "human-input", ["2"], question="Right?", inputs=["why"]), "change": "add"},
            {"id": "3", "type": "llm", "change": "keep", "after": ["5"]},
        ],
    }
    made = designed(plan, services(), base)
    assert made.changes.edges_added
    assert b"order:" not in OPERAD.dump(made.graph)


async def test_what_was_designed_runs_with_its_services(designed):
    made = await asyncio.to_thread(designed, PLAN, services())
    workflow = assemble(made.graph, NODE_TYPES, services=services())
    run = workflow.start(Job(goal="", inputs={"text": "figs"}), ScriptedReasoner([]))
    async for event in run:
        if isinstance(event, events.Interrupted):
            await run.answer({event.interrupt_id: {"action": "y"}})
    assert (await run).message.outputs == {"said": "all.hands: The sum."}


def test_a_node_with_an_effect_outside_is_not_told_to_be_unread():
    nodes = [
        NodeSpec("1", "start", {"variables": [["q", "string"]]}),
        NodeSpec("2", "request", {"url": ["q", "1"], "method": "post"}),
        NodeSpec("3", "request", {"url": ["q", "1"]}),
        NodeSpec("4", "tool", {"tool": "post_to_slack", "arguments": {}}),
        NodeSpec("5", "end", {"outputs": [["q", ["q", "1"]]]}),
    ]
    graph = NodeGraph(nodes, [Edge(one.id, other.id) for one, other in pairwise(nodes)])
    assert [spec.id for spec in unread(graph)] == ["3"]


def test_what_is_the_same_for_all_jobs_stands_before_the_job():
    asked = []

    def answer(request):
        asked.append([str(each["content"]) for each in request["messages"]])
        return Say("no")

    with ScriptedModel(answer) as scripted:
        Designer(scripted.model).design("Sum up a text (variable text).")
    instruction, job = asked[0]
    assert "\nhuman-input(" in instruction
    assert "Sum up a text" in job
    assert "human-input" not in job


def test_a_tool_that_is_not_configured_is_a_finding(designed):
    plan = json.loads(json.dumps(PLAN).replace('"post_to_slack"', '"post_to_teams"'))
    made = designed(plan, services())
    assert not made.accepted
    assert made.findings == [
        "[unknown-service] 4: no tool is called 'post_to_teams' (did you mean 'post_to_slack'?); there are: post_to_slack"
    ]


# Parameters that take variables or texts


@pytest.mark.parametrize(
    ("written", "declared"),
    [
        ("1.link", ["link", "1"]),
        ("{{#1.link#}}", ["link", "1"]),
        ("https://example.org/v1.0/{{#1.id#}}", "https://example.org/v1.0/{{#1.id#}}"),
        ("example.org", "example.org"),
        ("1.5", "1.5"),
    ],
)
def test_a_variable_is_told_from_a_text(written, declared):
    assert params_of(NODE_TYPES["request"], {"url": written}, ["1", "2"]) == {"url": declared}


def test_a_body_is_written_as_declared():
    drafted = {"type": "json", "parts": [{"name": "", "value": '{"a.b": "{{#2.text#}}"}'}]}
    made = params_of(NODE_TYPES["request"], {"url": "1.link", "body": drafted}, ["1", "2"])
    assert made["body"] == ["json", [["", '{"a.b": "{{#2.text#}}"}']]]


# The dry run


async def test_the_dry_run_answers_questions_and_calls_no_tool_and_no_address():
    nodes = [
        NodeSpec("1", "start", {"variables": [["q", "string"]]}),
        NodeSpec("2", "human-input", {"question": "Send?", "actions": [["y", "Yes"], ["n", "No"]]}),
        NodeSpec("3", "tool", {"tool": "post_to_slack", "arguments": {"text": ["q", "1"]}}),
        NodeSpec("4", "request", {"url": "https://example.org/", "method": "post"}),
        NodeSpec("5", "knowledge-retrieval", {"query": ["text", "3"], "knowledge": "handbook"}),
        NodeSpec("6", "end", {"outputs": [["out", ["body", "4"]]]}),
    ]
    edges = [*(Edge(one.id, other.id) for one, other in pairwise(nodes)), Edge("2", "6", 1)]
    graph = OPERAD.load(OPERAD.dump(NodeGraph(nodes, edges)), "made")
    done = await dry_run(graph)
    assert done.issues == ()
