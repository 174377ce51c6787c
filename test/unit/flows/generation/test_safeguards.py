"""Safeguards of drafts: keys become named secrets, and a person approves what is written elsewhere."""

import asyncio
from dataclasses import replace

import pytest

from operad.configs.generation import Designer
from operad.evaluators.design import dry_run
from operad.flows.assemble import assemble
from operad.flows.check import check
from operad.flows.formats.table import FORMATS
from operad.flows.generation.offer import CHAT2WORKFLOW_OFFER, OfferedTool, offer_for, offer_of, read_offer
from operad.flows.generation.safeguards import with_approvals, with_named_keys
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators.nodes import NODE_TYPES
from operad.operators.services import Services
from operad.runtime import events
from operad.runtime.tools.tool import Tool
from operad.runtime.values.message import Job

START = NodeSpec("1", "start", {"variables": [["text", "string"], ["links", "array[string]"]]})
LLM = NodeSpec("2", "llm", {"system": "", "user": "{{#1.text#}}"})
POST = NodeSpec(
    "3",
    "request",
    {
        "url": "https://bob:{{secret.B}}@shop.example/orders?key={{secret.K}}",
        "method": "post",
        "body": ["json", [["", '{"text": "{{#2.text#}}"}']]],
    },
)
GET = NodeSpec("3", "request", {"url": "https://shop.example/orders"})
END = NodeSpec("5", "end", {"outputs": [["answer", ["body", "3"]], ["summary", ["text", "2"]]]})
LINE = [("1", "2"), ("2", "3"), ("3", "5")]
OFFER = offer_for(tools={"send": OfferedTool(writes=True), "search": OfferedTool()})
NONE = NodeGraph()


def graph_of(*nodes, edges=LINE):
    return NodeGraph(nodes, [Edge(*edge) for edge in edges], "w")


def edges_of(graph):
    return {(edge.source, edge.target, edge.port) for edge in graph.edges}


# Keys


@pytest.mark.parametrize(
    ("param", "value", "expected"),
    [
        ("authorization", ["bearer", "sk-1"], ["bearer", "{{secret.SHOP_KEY}}"]),
        ("headers", "X-Api-Key: abc\nAccept: text/plain", "X-Api-Key: {{secret.SHOP_KEY}}\nAccept: text/plain"),
        ("headers", "X-Shop: ghp_abcdefghij1234567890ABCD", "X-Shop: {{secret.GITHUB_KEY}}"),
        ("params", "api_key: abc", "api_key: {{secret.SHOP_KEY}}"),
        ("url", "https://api.shop.example/?token=abc", "https://api.shop.example/?token={{secret.SHOP_TOKEN}}"),
        ("body", ["json", [["", '{"api_key": "abc"}']]], ["json", [["", '{"api_key": "{{secret.SHOP_KEY}}"}']]]),
        ("body", ["raw-text", [["", "sk-live-abc123SECRET"]]], ["raw-text", [["", "{{secret.SHOP_KEY}}"]]]),
        ("body", ["form-data", [["password", "abc"]]], ["form-data", [["password", "{{secret.SHOP_PASSWORD}}"]]]),
    ],
)
def test_a_key_in_any_part_of_a_request_becomes_a_secret_and_the_check_is_green(param, value, expected):
    request = replace(GET, params={"url": "https://api.shop.example/", param: value})
    named, [line] = with_named_keys(graph_of(START, LLM, request, END), NONE)
    assert named.by_id["3"].params[param] == expected
    assert line.startswith(f"3: {param}: a key was written")
    assert check(named, NODE_TYPES) == []


def test_requests_without_keys_and_requests_of_the_existing_workflow_stay():
    old = replace(GET, params={**GET.params, "headers": "X-Api-Key: abc"})
    graph = graph_of(START, LLM, old, END)
    assert with_named_keys(graph, graph) == (graph, [])
    plain = graph_of(START, LLM, POST, END)
    assert with_named_keys(plain, NONE)[0] is plain


# Approvals


def test_a_person_is_asked_before_a_request_that_writes_and_shown_what_is_sent():
    draft = graph_of(START, LLM, POST, END)
    guarded, [note] = with_approvals(draft, NONE, {}, OFFER)
    assert guarded.by_id["approve-3"] == NodeSpec(
        "approve-3",
        "human-input",
        {
            "question": 'POST https://shop.example/orders?\n{"text": "{{#2.text#}}"}',
            "actions": [["approve", "Approve"], ["refuse", "Refuse"]],
        },
    )
    assert edges_of(guarded) == {
        ("1", "2", 0), ("2", "approve-3", 0), ("approve-3", "3", 0), ("3", "5", 0), ("approve-3", "5", 1),
    }  # fmt: skip
    assert note.startswith("node approve-3 asks a person before node 3 (POST https://shop.example/orders)")
    assert "say in the request that it may run without approval" in note
    assert check(guarded, NODE_TYPES) == FORMATS["operad"].check(guarded) == []
    assert asyncio.run(dry_run(guarded)).ended
    assert with_approvals(guarded, NONE, {}, OFFER) == (guarded, [note])


def test_refused_the_workflow_ends_with_what_exists():
    end = NodeSpec("5", "end", {"outputs": [["answer", ["body", "3"]], ["text", ["text", "1"]]]})
    delete = replace(POST, params={"url": "https://shop.example/", "method": "delete"})
    draft = graph_of(START, delete, end, edges=[("1", "3"), ("3", "5")])
    workflow = assemble(with_approvals(draft, NONE, {}, OFFER)[0], NODE_TYPES)

    async def refuse():
        stream = workflow.stream(Job(goal="", inputs={"text": "Olives.", "links": ["x"]}))
        async for event in stream:
            if isinstance(event, events.Interrupted):
                assert event.question == "DELETE https://shop.example/?"
                stream.answer({event.interrupt_id: {"action": "refuse"}})
            if isinstance(event, events.RunFinished) and not event.path:
                return event.message.outputs
        return None

    assert asyncio.run(refuse()) == {"answer": None, "text": "Olives."}


@pytest.mark.parametrize("method", ["get", "head", "options"])
def test_requests_that_read_ask_nobody(method):
    draft = graph_of(START, LLM, replace(GET, params={**GET.params, "method": method}), END)
    assert with_approvals(draft, NONE, {}, OFFER) == (draft, [])


def test_a_reason_of_the_plan_takes_the_place_of_the_approval():
    draft = graph_of(START, LLM, POST, END)
    assert with_approvals(draft, NONE, {"3": "the request says so"}, OFFER) == (
        draft,
        ["node 3 (POST https://shop.example/orders) runs without approval: the request says so"],
    )


def test_a_format_without_questions_gets_a_note():
    draft = graph_of(START, LLM, POST, END)
    guarded, [note] = with_approvals(draft, NONE, {}, CHAT2WORKFLOW_OFFER)
    assert guarded is draft
    assert note == (
        "node 3 (POST https://shop.example/orders) runs without approval: this format has no node that asks a person"
    )


@pytest.mark.parametrize(
    ("node", "question"),
    [
        (NodeSpec("3", "tool", {"tool": "send", "arguments": {"to": ["text", "1"]}}), "send?\nto: {{#1.text#}}"),
        (NodeSpec("3", "agent", {"instruction": "", "query": "Go.", "tools": ["search", "send"]}), "send?\nGo."),
        (NodeSpec("3", "tool", {"tool": "search", "arguments": {}}), None),
        (NodeSpec("3", "agent", {"instruction": "", "query": "Go.", "tools": ["search"]}), None),
    ],
)
def test_tools_that_write_need_an_approval_and_tools_that_read_none(node, question):
    guarded, _ = with_approvals(graph_of(START, LLM, node, END), NONE, {}, OFFER)
    asking = guarded.by_id.get("approve-3")
    assert (asking and asking.params["question"]) == question


def test_a_container_is_approved_once_for_all_that_it_sends():
    inside = [NodeSpec("4-1", "iteration-start", {}, "4")]
    inside += [
        NodeSpec("4-2", "request", {"url": "https://a.example/{{#4.item#}}", "method": "delete"}, "4"),
        NodeSpec("4-3", "request", {"url": "https://b.example/", "method": "put"}, "4"),
    ]
    loop = NodeSpec("4", "iteration", {"iterator_selector": ["links", "1"], "output_selector": ["body", "4-3"]})
    end = NodeSpec("5", "end", {"outputs": [["answers", ["output", "4"]]]})
    draft = graph_of(START, loop, *inside, end, edges=[("1", "4"), ("4-1", "4-2"), ("4-2", "4-3"), ("4", "5")])
    guarded, notes = with_approvals(draft, NONE, {}, OFFER)
    assert [spec.id for spec in guarded.nodes if spec.type == "human-input"] == ["approve-4"]
    assert guarded.by_id["approve-4"].params["question"] == "DELETE https://a.example/…?\nPUT https://b.example/?"
    assert len(notes) == 2
    assert FORMATS["operad"].check(guarded) == []


def test_each_of_two_writes_in_a_row_is_approved():
    draft = graph_of(
        START, LLM, POST, replace(POST, id="4"), END, edges=[("1", "2"), ("2", "3"), ("3", "4"), ("4", "5")]
    )
    guarded, _ = with_approvals(draft, NONE, {}, OFFER)
    assert {"approve-3", "approve-4"} <= guarded.by_id.keys()


ASK = NodeSpec("4", "human-input", {"question": "Send?", "actions": [["yes", "Yes"], ["no", "No"]]})
TALK = NodeSpec("4", "human-input", {"question": "Send?", "inputs": ["word"]})
IF = NodeSpec("6", "if-else", {"cases": [["and", [[["word", "4"], "is", "yes"]]]]})
NO = NodeSpec("7", "end", {"outputs": []})


@pytest.mark.parametrize(
    ("nodes", "edges"),
    [
        ([ASK], [("1", "2"), ("2", "4"), ("4", "3"), ("3", "5"), ("4", "7", 1)]),
        ([ASK], [("1", "2"), ("2", "4"), ("4", "3"), ("3", "5")]),
        ([TALK, IF], [("1", "2"), ("2", "4"), ("4", "6"), ("6", "3"), ("3", "5"), ("6", "7", 1)]),
    ],
)
def test_a_question_of_the_model_that_can_be_refused_is_enough(nodes, edges):
    draft = graph_of(START, LLM, *nodes, POST, END, NO, edges=edges)
    assert with_approvals(draft, NONE, {}, OFFER) == (draft, [])


@pytest.mark.parametrize(
    ("nodes", "edges"),
    [
        ([ASK], [("1", "2"), ("2", "4"), ("4", "3"), ("4", "3", 1), ("3", "5")]),
        ([ASK], [("1", "2"), ("2", "4"), ("2", "3"), ("4", "5"), ("3", "5")]),
        ([TALK], [("1", "2"), ("2", "4"), ("4", "3"), ("3", "5")]),
    ],
)
def test_a_question_that_cannot_be_refused_or_stands_beside_is_not_enough(nodes, edges):
    draft = graph_of(START, LLM, *nodes, POST, END, edges=edges)
    assert "approve-3" in with_approvals(draft, NONE, {}, OFFER)[0].by_id


def test_what_an_existing_workflow_writes_without_approval_stays_and_a_new_place_is_asked_about():
    base = graph_of(START, LLM, POST, END)
    assert with_approvals(base, base, {}, OFFER) == (base, [])
    other = replace(POST, params={**POST.params, "url": "https://other.example/"})
    guarded, _ = with_approvals(graph_of(START, LLM, other, END), base, {}, OFFER)
    assert "approve-3" in guarded.by_id


def test_an_edit_updates_drops_and_removes_the_approval_only_as_asked():
    base, _ = with_approvals(graph_of(START, LLM, POST, END), NONE, {}, OFFER)
    changed = replace(POST, params={**POST.params, "body": ["raw-text", [["", "{{#1.text#}}"]]]})
    updated, notes = with_approvals(
        replace(base, nodes=[changed if spec is POST else spec for spec in base.nodes]), base, {}, OFFER
    )
    assert updated.by_id["approve-3"].params["question"] == "POST https://shop.example/orders?\n{{#1.text#}}"
    assert notes == []

    without = graph_of(START, LLM, POST, END)
    assert with_approvals(without, base, {"3": "you asked for it"}, OFFER)[0] is without
    again, [note] = with_approvals(without, base, {}, OFFER)
    assert edges_of(again) == edges_of(base)
    assert "node approve-3 asks a person" in note

    end = NodeSpec("5", "end", {"outputs": [["summary", ["text", "2"]]]})
    idle = graph_of(
        START, LLM, base.by_id["approve-3"], end, edges=[("1", "2"), ("2", "approve-3"), ("approve-3", "5", 1)]
    )
    assert edges_of(with_approvals(idle, base, {}, OFFER)[0]) == {("1", "2", 0), ("2", "5", 0)}


def test_the_offer_knows_which_tools_write():
    def look() -> str:
        """Look."""
        return ""

    tools = [
        Tool.of(look, name="write"),
        Tool.of(look, name="asks", approve=True),
        Tool.of(look, name="read").model_copy(update={"read_only": True}),
    ]
    offer = asyncio.run(offer_of(Services(tools=tools)))
    assert {name: tool.writes for name, tool in offer.tools.items()} == {"write": True, "asks": False, "read": False}
    assert read_offer(offer.as_json()) == offer


# The whole way


def test_a_key_in_the_request_is_seen_by_nobody_and_the_notes_say_how_to_give_it():
    designer = Designer()
    request = "Ask https://api.weather.example with the key sk-live-abc123SECRET (variable weather)."
    job = designer.job(request, NodeGraph([START, END], instructions=["Use token=ghp_abcdefghij1234567890ABCD"]))
    assert job.goal == "Ask https://api.weather.example with the key {{secret.WEATHER_KEY}} (variable weather)."
    assert "abc123SECRET" not in job.model_dump_json()
    assert "ghp_" not in job.model_dump_json()
