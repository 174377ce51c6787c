"""Answers that models really give: odd in form, refusals, impossible steps, lost names. What each comes to, in how many calls."""

from __future__ import annotations

import json
from typing import Any

import pytest

from operad.configs.generation import NOTHING, Designer
from operad.flows.edit.batch import read_operations
from operad.flows.edit.paths import steps_of, with_value
from operad.flows.formats.operad import OPERAD
from operad.flows.generation.drafting import params_of
from operad.flows.generation.nodes_shown import whole
from operad.flows.generation.offer import offer_for
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators.nodes import NODE_TYPES
from operad.runtime.testing import Refuse, Say, ScriptedModel

SUM_UP = "The user gives a text (variable text). Sum it up in three sentences (variable summary)."


def node(id: Any, type: str, after: Any = (), **params: Any) -> dict[str, Any]:
    return {"id": id, "type": type, "after": list(after) if isinstance(after, tuple) else after, "params": params}


TEXT = {"name": "text", "type": "string"}
START = node("1", "start", variables=[TEXT])
LLM = node("2", "llm", ("1",), system="", user="Sum up in three sentences:\n{{#1.text#}}")
END = node("3", "end", ("2",), outputs=[{"name": "summary", "value": "2.text"}])
MAIL = node("4", "email-send", ("2",), to="a@example.org", body="{{#2.text#}}")
AFTER_MAIL = {**END, "after": ["4"]}


def plan(*nodes: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {"reasoning": "", "nodes": list(nodes), **others}


WHOLE = plan(START, LLM, END)
NO_MAIL = {"nodes": [{"id": "3", "after": ["2"]}], "drop": ["4"]}


def answered(request, *answers, base=NOTHING):
    """Return the design of a request for Operad's format, and the number of calls; the last answer is given again."""
    given = [each if isinstance(each, str | Say | Refuse) else json.dumps(each) for each in answers]
    steps = [Say(each) if isinstance(each, str) else each for each in given]
    asked: list[Any] = []

    def step(asking):
        asked.append(asking)
        return steps[min(len(asked), len(steps)) - 1]

    with ScriptedModel(step) as scripted:
        return Designer(scripted.model, offer=offer_for("operad")).design(request, base), len(asked)


@pytest.mark.parametrize(
    "answer",
    [
        plan(node("a", "start", variables=[TEXT]), node("sum", "llm", ("a",), system="", user="{{#a.text#}}"),
             node("z", "end", ("sum",), outputs=[{"name": "summary", "value": "sum.text"}])),
        plan(*({**each, "type": name} for each, name in zip((START, LLM, END), ("Start", "LLM", "End"), strict=True))),
        plan(*({**each, "after": ",".join(each["after"])} for each in (START, LLM, END))),
        plan(*({**each, "params": json.dumps(each["params"])} for each in (START, LLM, END))),
        plan(*({**each, "id": int(each["id"]), "after": [int(one) for one in each["after"]]}
               for each in (START, LLM, END))),
        {"nodes": WHOLE["nodes"]},
        {"nodes": {each["id"]: {key: each[key] for key in each if key != "id"} for each in (START, LLM, END)}},
        {"plan": WHOLE},
        WHOLE["nodes"],
        {"nodes": [{**each, **each["params"], "params": None} for each in (START, LLM, END)]},
        plan(*({**each, "after": [{"node": one} for one in each["after"]]} for each in (START, LLM, END))),
        plan(START, {**LLM, "params": {"user": "{{#1.text#}}", "tone": None}}, END),
        f"Here you are:\n```json\n{json.dumps(WHOLE)}\n```\nI hope that this helps.",
    ],
    ids=["words as ids", "types in capitals", "after as text", "params as text", "numbers as ids", "no reasoning",
         "nodes by id", "a plan in an object", "nodes alone", "parameters beside", "edges as objects", "no system",
         "amid prose"],
)  # fmt: skip
def test_an_answer_of_one_reading_is_a_workflow_in_one_call(answer):
    made, calls = answered(SUM_UP, answer)
    assert (made.accepted, calls, len(made.graph.nodes)) == (True, 1, 3)


@pytest.mark.parametrize(
    ("answer", "calls", "words"),
    [
        ("I'm sorry, but I can't help with that.", 2, "I'm sorry, but I can't help with that."),
        (Refuse("I can't assist with this."), 2, "I can't assist with this."),
        ("", 2, "said: nothing"),
        (Say('{"reasoning": "", "nodes": [{"id": "1", "ty', finish_reason="length"), 2, "raise max_tokens"),
        (plan(left_out={"sum it up": "no model is here"}), 1, "planned no workflow"),
    ],
    ids=["a refusal in words", "a refusal", "nothing", "always cut off", "impossible"],
)
def test_an_answer_without_a_workflow_ends_with_the_words_of_the_model(answer, calls, words):
    made, asked = answered(SUM_UP, answer)
    assert (made.made, made.accepted, asked) == (False, False, calls)
    assert words in made.findings[0]


@pytest.mark.parametrize(
    ("answer", "code", "place"),
    [
        (plan(START, LLM, MAIL, AFTER_MAIL), "unknown-type", "4"),
        (plan(START, LLM, LLM, END), "plan", "4"),
        (plan(START, {**LLM, "after": ["1", "4"]}, node("4", "llm", ("2",), system="", user="{{#2.text#}}"),
              node("3", "end", ("4",), outputs=[{"name": "summary", "value": "4.text"}])), "cycle", ""),
    ],
    ids=["a type that is none", "an id twice", "a cycle"],
)  # fmt: skip
def test_a_stubborn_fault_ends_after_two_calls_with_the_best_workflow(answer, code, place):
    made, calls = answered(SUM_UP, answer)
    assert (made.made, made.accepted, calls) == (True, False, 2)
    assert f"[{code}] {place}" in made.findings[0]


def test_a_type_that_is_none_is_mended_by_a_change():
    made, calls = answered(SUM_UP, plan(START, LLM, MAIL, AFTER_MAIL), NO_MAIL)
    assert (made.accepted, calls) == (True, 2)
    assert [spec.type for spec in made.graph.nodes] == ["start", "llm", "end"]


@pytest.mark.parametrize(
    ("request_", "missing"),
    [
        (SUM_UP[:-1] + ", and translate the summary into French (variable french).", ["french"]),
        ("I type a text (variable text) and a language (variable language). Sum it up (variable summary).", ["language"]),
        ("Input: a text (variable text). Sum it up (variable summary). Draw it (variable picture). In French (variable "
         "french).", ["picture", "french"]),
        ("Der Nutzer gibt einen Text (Variable text). Fasse ihn zusammen (Variable summary), auch kurz (Variable kurz).",
         ["kurz"]),
        ("用户输入文本（变量 text），输出摘要（变量：summary）和标题（变量名为 title）。", ["title"]),
    ],
    ids=["and also", "I type", "sentences alone", "German", "Chinese"],
)  # fmt: skip
def test_a_variable_that_is_asked_for_and_lost_is_found_whatever_the_sentence(request_, missing):
    made, calls = answered(request_, WHOLE)
    assert (made.made, made.accepted, calls) == (True, False, 2)
    assert [finding.partition(":")[0] for finding in made.findings] == [f"[variable] {name}" for name in missing]


def test_a_variable_that_a_change_was_asked_for_and_lost_is_found():
    base = answered(SUM_UP, WHOLE)[0].graph
    made, calls = answered(
        "Also translate it into French (variable french).", plan({"id": "2", "params": {"system": "Brief."}}), base=base
    )
    assert (made.accepted, calls) == (False, 2)
    assert made.findings[0].startswith("[variable] french: ")


def test_words_in_backquotes_of_an_ordinary_sentence_are_names():
    said = "The marketing team pastes a `brief`, and we get three taglines in `taglines`."
    variables = [{"name": "brief", "type": "string"}]
    nodes = [
        node("1", "start", variables=variables),
        node("2", "llm", ("1",), system="", user="Three taglines for:\n{{#1.brief#}}"),
        node("3", "end", ("2",), outputs=[{"name": "taglines", "value": "2.text"}]),
    ]
    made, calls = answered(said, plan(*nodes))
    assert (made.accepted, calls, made.findings) == (True, 1, [])


def test_what_was_made_is_written_and_read_as_the_same_workflow():
    made, _ = answered(SUM_UP, WHOLE)
    assert OPERAD.load(OPERAD.dump(made.graph), "sum").by_id == made.graph.by_id


# Slips in parameters and operations that have one meaning


def test_a_choice_is_read_in_any_case_and_a_type_by_a_word_of_another_language():
    assert params_of(NODE_TYPES["request"], {"method": "POST"}) == {"method": "post"}
    declared = params_of(
        NODE_TYPES["start"], {"variables": [{"name": "a", "type": "str"}, {"name": "b", "type": "Text"}]}
    )
    assert declared == {"variables": [["a", "string"], ["b", "string"]]}


def test_a_variable_is_read_from_an_object_with_the_id_of_its_node():
    outputs = [{"name": "a", "value": {"node_id": 3, "variable": "text"}}]
    assert params_of(NODE_TYPES["end"], {"outputs": outputs}) == {"outputs": [["a", ["text", "3"]]]}


def test_an_operation_may_give_the_id_of_a_node_as_a_number():
    [operation] = read_operations([{"op": "remove_node", "node": 3}])
    assert operation.model_dump()["node"] == "3"


def test_a_path_may_give_the_place_in_a_list_after_a_dot():
    assert with_value({"outputs": [{"value": 1}]}, steps_of("outputs.0.value"), 2) == {"outputs": [{"value": 2}]}


def test_the_port_of_a_node_with_several_ports_is_shown_also_if_it_is_the_first():
    ask = {"question": "Send?", "actions": [["yes", "Send"], ["no", "Leave it"]]}
    nodes = [NodeSpec("1", "human-input", ask), NodeSpec("2", "end", {"outputs": []})]
    shown = whole(NodeGraph(nodes, [Edge("1", "2")]), NODE_TYPES)
    assert "2 end after 1:0: " in shown
