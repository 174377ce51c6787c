"""Changes of a configuration's data: all of them or none, and nothing but what is asked for."""

from pathlib import Path

import pytest
from amounts import amount
from hypothesis import given, settings
from hypothesis import strategies as st

from operad.configs.expert_file import ExpertFile
from operad.configs.loader import load_text
from operad.configs.optimise.edits import (
    AddOperator,
    RemoveOperator,
    SetEvaluator,
    SetInstruction,
    SetMaxRounds,
    edited,
    outline,
)
from operad.runtime.values.errors import InputError, InvalidError

DESK = """
plugin: {workflow_platform: BUILTIN}
actions:
  - &look {name: look up, desc: Look it up.}
operators:
  - &triage
    instruction: Refund or complaint?
    ports: [refund, complaint]
  - &refund {instruction: Say what is paid., actions: [*look]}
  - &reply {instruction: Reply.}
experts:
  - profile: {name: Desk}
    workflow:
      - [{operator: *triage, port: refund}, *refund, *reply]
      - [{operator: *triage, port: complaint}, &soothe {instruction: Soothe.}, *reply]
    evaluator: {instruction: Is it kind?}
  - profile: {name: Other}
    workflow: [[*reply]]
"""
CHAIN = """
plugin: {workflow_platform: BUILTIN}
operators: [{name: a, instruction: A.}, {name: b, instruction: B.}, {name: c, instruction: C.}]
experts: [{profile: {name: Desk}, workflow: CHAINS}]
"""


def chains(text, *operations):
    file = edited(ExpertFile(text), "Desk", operations)
    load_text(file.text, "desk.yaml", Path())
    return [[item.name for item in chain] for chain in file.chains(0)]


def chained(written, *operations):
    return chains(CHAIN.replace("CHAINS", written), *operations)


def add(name="n", after="", before="", instruction="N."):
    return AddOperator(op="add_operator", name=name, instruction=instruction, after=after, before=before)


def remove(name):
    return RemoveOperator(op="remove_operator", operator=name)


def test_a_change_keeps_the_text_of_everything_else():
    text = DESK.replace("operators:", "operators:  # those that know").replace("Reply.", "Reply.  ")
    file = edited(ExpertFile(text), "Desk", [add("sign", after="reply"), add("check", before="refund")])
    assert file.text == (
        text.replace(
            "Reply.  }\n", "Reply.  }\n  - {name: sign, instruction: N.}\n  - {name: check, instruction: N.}\n"
        )
        .replace("*refund, *reply]", "check, *refund, *reply, sign]")
        .replace("Soothe.}, *reply]", "Soothe.}, *reply, sign]")
    )
    assert edited(file, "Desk", [remove("sign"), remove("check")]).text == text


def test_what_a_model_is_shown():
    shown = outline(ExpertFile(DESK), "Desk")
    ports = ["refund", "complaint"]
    triage = {"name": "triage", "instruction": "Refund or complaint?", "ports": ports, "after": []}
    assert shown["operators"][0] == triage
    assert shown["operators"][2]["after"] == ["refund", "soothe"]
    assert shown["operators"][1]["after"] == ["triage (port refund)"]
    assert (shown["evaluator"], shown["max_rounds"]) == ("Is it kind?", 3)


def test_a_model_is_shown_forms_lists_and_inputs():
    shown = outline(
        ExpertFile("""
operators:
  - &facts {instruction: List., output_schema: "{claims: [string]}"}
  - &check {instruction: Check., map: {over: facts.claims}, output: {ok: boolean}}
  - &write {instruction: Write., inputs: [facts]}
experts:
  - profile: {name: Desk}
    workflow: [[*facts, *check, *write]]
"""),
        "Desk",
    )
    facts, check, write = shown["operators"]
    assert facts["output_schema"] == "{claims: [string]}"
    assert (check["map"], check["output"]) == ({"over": "facts.claims"}, {"ok": "boolean"})
    assert write["after"] == ["check", "facts"]


@pytest.mark.parametrize(
    ("before", "operation", "after"),
    [
        ("[[a, b, c]]", add(after="a"), [["a", "n", "b", "c"]]),
        ("[[a, b, c]]", add(after="c"), [["a", "b", "c", "n"]]),
        ("[[a, b, c]]", add(before="a"), [["n", "a", "b", "c"]]),
        ("[[a, b, c]]", add(before="c"), [["a", "b", "n", "c"]]),
        ("[[a, c], [b, c]]", add(before="c"), [["a", "n", "c"], ["b", "n", "c"]]),
        ("[[a, b], [a, c]]", add(after="a"), [["a", "n", "b"], ["a", "n", "c"]]),
        ("[[a, b], [a, c]]", add(after="a", before="b"), [["a", "n", "b"], ["a", "c"]]),
        ("[[a, b, c]]", add(after="a", before="c"), [["a", "b", "c"], ["a", "n", "c"]]),
        ("[[a, b, c]]", remove("b"), [["a", "c"]]),
        ("[[a, b, c]]", remove("a"), [["b", "c"]]),
        ("[[a, b], [c, b]]", remove("b"), [["a"], ["c"]]),
        ("[[a, b], [b, c]]", remove("b"), [["a", "c"]]),
        ("[[a, b, c], [a, c]]", remove("b"), [["a", "c"]]),
    ],
)
def test_operators_come_and_go(before, operation, after):
    assert chained(before, operation) == after


def test_what_nothing_names_any_more_is_gone_and_what_others_use_stays():
    file = edited(ExpertFile(DESK), "Desk", [remove("reply")])
    assert [each["name"] for each in file.data["operators"]] == ["triage", "refund", "reply"]
    text = CHAIN.replace("CHAINS", "[[a, b]]")
    assert edited(ExpertFile(text), "Desk", [add(after="a"), remove("n")]).text == text


def test_instructions_evaluators_and_rounds_are_set():
    data = edited(
        ExpertFile(DESK),
        "Desk",
        [
            SetInstruction(op="set_instruction", operator="soothe", instruction="Soothe.\nBe short."),
            SetEvaluator(op="set_evaluator", instruction="Is it short?"),
            SetMaxRounds(op="set_max_rounds", rounds=2),
        ],
    )
    shown = outline(data, "Desk")
    assert shown["operators"][3]["instruction"] == "Soothe.\nBe short."
    assert (shown["evaluator"], shown["max_rounds"]) == ("Is it short?", 2)
    without = edited(data, "Desk", [SetEvaluator(op="set_evaluator", instruction="")])
    assert outline(without, "Desk")["evaluator"] == ""


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (remove("repyl"), "did you mean 'reply'"),
        (remove("triage"), "it chooses which way to go on"),
        (add(after="triage"), "name in `before`"),
        (add(after="nobody"), "no operator of the workflow is called 'nobody'"),
        (add(), "say which operator it comes after"),
        (add("reply", after="refund"), "already"),
        (add(after="reply", instruction=" "), "the instruction is empty"),
        (SetInstruction(op="set_instruction", operator="x", instruction="y"), "there are: triage, refund"),
        (SetInstruction(op="set_instruction", operator="reply", instruction=""), "the instruction is empty"),
        (SetMaxRounds(op="set_max_rounds", rounds=0), "rounds are 1 to 10"),
    ],
)
def test_what_cannot_be_done_is_said(operation, message):
    with pytest.raises(InputError, match="operation 2") as error:
        edited(ExpertFile(DESK), "Desk", [add("first", after="reply"), operation])
    assert message in str(error.value)


def test_it_does_not_grow_without_end():
    data = ExpertFile(CHAIN.replace("CHAINS", "[[a]]"))
    with pytest.raises(InputError, match="20 operators already"):
        edited(data, "Desk", [add(f"n{number}", after="a") for number in range(25)])


@pytest.mark.parametrize("name", ["../x", "a b", "a: {b", "", "x" * 41, "*a", "é", "n\n", "{{#a.b#}}"])
def test_a_name_is_a_plain_one(name):
    with pytest.raises(ValueError, match="is not a valid name"):
        add(name, after="a")


@pytest.mark.parametrize("text", ["x" * 4_001, "\ud800", "a\0b"])
def test_an_instruction_is_a_text_of_bounded_length(text):
    with pytest.raises(ValueError):
        add(instruction=text, after="a")


def test_a_typed_node_and_a_workflow_stay_as_they_are():
    text = """
    plugin: {workflow_platform: BUILTIN}
    operators:
      - &begin {type: start, params: {variables: [[question, string]]}}
      - &inner {name: inner, workflow: [[{name: one, instruction: One.}]]}
    experts: [{profile: {name: Desk}, workflow: [[*begin, *inner]]}]
    """
    shown = outline(ExpertFile(text), "Desk")
    assert "typed node: start" in shown["operators"][0]["instruction"]
    assert "a workflow" in shown["operators"][1]["instruction"]
    for name in ("begin", "inner"):
        with pytest.raises(InputError, match="stays as it is"):
            edited(ExpertFile(text), "Desk", [SetInstruction(op="set_instruction", operator=name, instruction="x")])


FUNCTIONS = """
plugin: {workflow_platform: BUILTIN}
operators:
  - &label {function: labels.label}
experts:
  - profile: {name: Desk}
    workflow: [[*label, {name: reply, instruction: Reply.}]]
    evaluator: EVALUATOR
"""


@pytest.mark.parametrize(
    ("evaluator", "shown"),
    [
        ("{function: checks.polite}", "(a function: checks.polite)"),
        ("[{function: checks.polite}, {instruction: Kind?}]", "(a function: checks.polite)\nKind?"),
        ("*label", "(a function: labels.label)"),
    ],
)
def test_functions_are_shown_by_their_names_and_stay_as_they_are(evaluator, shown):
    data = ExpertFile(FUNCTIONS.replace("EVALUATOR", evaluator))
    told = outline(data, "Desk")
    assert told["operators"][0] == {"name": "label", "instruction": "(a function: labels.label)", "after": []}
    assert told["evaluator"] == shown
    with pytest.raises(InputError, match="stays as it is"):
        edited(data, "Desk", [SetInstruction(op="set_instruction", operator="label", instruction="x")])


def test_another_evaluator_takes_the_place_of_a_function():
    data = ExpertFile(FUNCTIONS.replace("EVALUATOR", "{function: checks.polite}"))
    changed = edited(data, "Desk", [SetEvaluator(op="set_evaluator", instruction="Kind?")])
    assert outline(changed, "Desk")["evaluator"] == "Kind?"


def faults_of(text):
    try:
        load_text(text, "desk.yaml", Path())
    except InvalidError as error:
        return {issue.code for issue in error.issues}
    return set()


names = st.sampled_from(["triage", "refund", "reply", "soothe", "n1", "n2", "nobody", ""])
words = st.text(max_size=30).filter(lambda text: "\0" not in text and text.isprintable())
operations = st.one_of(
    st.builds(add, st.sampled_from(["n1", "n2", "n3"]), names, names, words),
    st.builds(remove, names),
    st.builds(SetInstruction, op=st.just("set_instruction"), operator=names, instruction=words),
    st.builds(SetEvaluator, op=st.just("set_evaluator"), instruction=words),
    st.builds(SetMaxRounds, op=st.just("set_max_rounds"), rounds=st.integers(-1, 12)),
)


@settings(max_examples=amount(15, 150))
@given(st.lists(operations, max_size=6))
def test_whatever_is_done_names_only_what_there_is(wanted):
    file = ExpertFile(DESK)
    for operation in wanted:
        try:
            file = edited(file, "Desk", [operation])
        except InputError:
            continue
        assert not {"unknown-operator", "duplicate-name", "duplicate-id", "yaml"} & faults_of(file.text)
