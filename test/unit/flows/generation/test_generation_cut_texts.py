"""Texts that prompts show cut: answers that repeat them keep them whole, and no mark of a cut reaches a workflow."""

import pytest

from operad.flows.generation.cut_texts import marked, still_cut, with_whole_texts
from operad.flows.generation.draft import drafted_graph
from operad.flows.generation.plan import normal_plan, read_plan
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators.nodes import NODE_TYPES

BILLING = "Billing: invoices, payments and refunds of customers"
LONG = "Answer the question of the customer in a friendly tone: {{#1.question#}}. Sign with the name of the shop."
BASE = NodeGraph(
    [
        NodeSpec("1", "start", {"variables": [["question", "string"], ["style", "string"]], "defaults": {"style": "short"}}),
        NodeSpec("2", "question-classifier", {"input": ["question", "1"], "classes": [BILLING, "Other"]}),
        NodeSpec("3", "llm", {"system": "", "user": LONG}),
    ],
    [Edge("1", "2"), Edge("2", "3")],
)  # fmt: skip


def planned(*nodes):
    return normal_plan({"nodes": list(nodes)}, BASE, NODE_TYPES)


def made(plan):
    return {spec.id: spec.params for spec in drafted_graph(read_plan(plan), BASE, NODE_TYPES).nodes}


def test_a_cut_text_names_the_variables_that_its_rest_reads():
    assert marked(LONG, 30) == "Answer the question of the cus[… cut: {{#1.question#}}]"
    assert marked(LONG, 80) == f"{LONG[:80]}[… cut]"
    assert marked(BILLING, len(BILLING) - 3) == BILLING


def test_a_cut_text_in_an_answer_is_the_whole_one():
    plan = planned({"id": "2", "params": {"classes": [f"{BILLING[:20]}[… cut]", "Delivery", "Other"]}})
    assert plan["faults"] == []
    assert made(plan)["2"]["classes"] == [BILLING, "Delivery", "Other"]


def test_words_after_the_mark_follow_the_whole_text():
    plan = planned({"id": "3", "params": {"user": f"{marked(LONG, 30)} Use French."}})
    assert made(plan)["3"]["user"] == f"{LONG} Use French."


def test_a_cut_text_that_is_to_be_replaced_is_replaced_whole():
    plan = planned({"id": "3", "replace": [{"param": "user", "old": marked(LONG, 30), "new": "Hi {{#1.question#}}"}]})
    assert plan["faults"] == []
    assert made(plan)["3"]["user"] == "Hi {{#1.question#}}"


@pytest.mark.parametrize("text", ["Answer briefly[… cut]", "[… cut]", "Reply: [… cut: {{#1.question#}}]"])
def test_a_mark_without_its_text_is_a_fault_of_the_plan(text):
    [fault] = planned({"id": "3", "params": {"user": text}})["faults"]
    assert fault.startswith("[plan] 3: ")


def test_a_beginning_that_two_texts_share_stays_cut():
    assert with_whole_texts(["Say[… cut]"], ["Say yes", "Say no"]) == ["Say[… cut]"]
    assert [*still_cut(["Say[… cut]", "Say yes"], ["Say yes", "Say no"])] == ["Say[… cut]"]


def test_a_mark_that_the_workflow_itself_has_is_text():
    assert [*still_cut("a [… cut] b", ["a [… cut] b"])] == []


def test_a_default_beside_a_variable_makes_an_input_optional_and_others_keep_theirs():
    variables = [
        {"name": "question", "type": "string"},
        {"name": "style", "type": "string"},
        {"name": "language", "type": "string", "default": "English"},
        {"name": "city", "type": "string", "required": False},
    ]
    start = made(planned({"id": "1", "params": {"variables": variables}}))["1"]
    assert start["variables"] == [[each["name"], "string"] for each in variables]
    assert start["defaults"] == {"style": "short", "language": "English", "city": None}
