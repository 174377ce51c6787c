"""Edges as users write them, and operators given by id."""

import pytest
from fake_operators import Do, Echo

from operad import InputError, Operator, Workflow, operator
from operad.runtime import BuiltinWorkflow, InvalidError, Map
from operad.runtime.values import near_names


def first(text: str) -> str:
    return f"first({text})"


@operator
def a(text: str) -> str:
    return f"a({text})"


@operator
def b(a: str) -> str:
    return f"b({a})"


@operator
def c(a: str) -> str:
    return f"c({a})"


@operator
def d(b: str, c: str) -> str:
    return f"d({b}, {c})"


def edges(workflow):
    return {key: list(before) for key, before in workflow.graph().before.items()}


def test_operators_follow_one_another_side_by_side_and_join():
    assert edges(Workflow(a >> [b, c] >> d)) == {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}
    assert edges(Workflow([a, b] >> c)) == {"a": [], "b": [], "c": ["a", "b"]}
    assert edges(Workflow([a >> b, c] >> d)) == {"a": [], "b": ["a"], "c": [], "d": ["b", "c"]}
    assert edges(Workflow(a >> (b >> c))) == {"a": [], "b": ["a"], "c": ["b"]}
    assert edges(Workflow([a, b])) == {"a": [], "b": []}
    assert edges(Workflow(a)) == {"a": []}


def test_a_chain_is_a_value_and_writing_it_changes_nothing():
    chain = a >> b
    longer = chain >> c
    assert edges(Workflow(chain)) == {"a": [], "b": ["a"]}
    assert edges(Workflow(longer)) == {"a": [], "b": ["a"], "c": ["b"]}


def test_plain_functions_stand_between_operators():
    assert edges(Workflow(a >> first >> b)) == {"a": [], "first": ["a"], "b": ["first"]}
    assert edges(Workflow(first >> b)) == {"first": [], "b": ["first"]}
    assert Workflow(first >> a).run("x").output == "a(first(x))"


def test_a_diamond_runs():
    assert Workflow(a >> [b, c] >> d).run("x").output == "d(b(a(x)), c(a(x)))"


def test_edges_leave_from_ports():
    triage = Operator("Which?", id="triage", ports=["refund", "question"])
    flow = Workflow([triage["refund"] >> b, triage["question"] >> c] >> d)
    assert flow.graph().before["b"] == {"triage": frozenset({"refund"})}
    assert flow.graph().before["c"] == {"triage": frozenset({"question"})}
    assert edges(Workflow(a >> triage["refund"] >> b)) == {"a": [], "triage": ["a"], "b": ["triage"]}
    both = Workflow(triage["refund"] >> b)
    both.add(b, after=[triage["question"]])
    assert both.graph().before["b"] == {"triage": frozenset({"refund", "question"})}


def test_a_workflow_and_a_map_have_edges_too():
    inner = Workflow(b, name="inner")
    assert edges(Workflow(a >> inner >> Map("each", c))) == {"a": [], "inner": ["a"], "each": ["inner"]}


def test_operators_are_named_by_id_also_before_they_are_added():
    flow = BuiltinWorkflow()
    flow.add_operator(Echo("end"), previous_ops=["start", "other"])
    flow.add_operator(Do("start"), next_ops=["other"])
    flow.add_operator(Echo("other"))
    assert flow.run("x").text == "end(start other(start))"
    flow.add(Echo("last"), after=["end"])
    assert flow.run("x").text == "last(end(start other(start)))"


def test_an_unknown_id_is_an_issue_with_near_names():
    flow = Workflow(a)
    flow.add(b, after=["aa"])
    flow.add(c, after=["bb"])
    with pytest.raises(InvalidError, match=r"operator 'bb' comes before it but was never added \(did you mean 'b'\?\)"):
        flow.built()


def test_near_names_of_many_unknown_ids_are_looked_for_in_bounded_work(monkeypatch):
    compared = []
    monkeypatch.setattr(near_names, "near_name", lambda name, known: compared.append(len(known)) or "")
    flow = BuiltinWorkflow()
    for number in range(2_000):
        flow.add_operator(Do(f"step{number}"), previous_ops=[f"stop{number}"])
    assert sum(issue.code == "unknown-operator" for issue in flow.graph().check()) == 2_000
    assert 0 < sum(compared) <= near_names.MOST_COMPARED


def test_a_chain_is_added_after_others():
    flow = Workflow(a)
    flow.add(b >> c, after=["a"])
    flow.add([Do("x"), Do("y")], after=[c])
    assert edges(flow) == {"a": [], "b": ["a"], "c": ["b"], "x": ["c"], "y": ["c"]}


def test_operators_without_an_id_are_named_by_their_instruction_and_get_a_number_where_it_is_taken():
    one, other, chosen = (
        Operator("Check each claim."),
        Operator("Check each claim!"),
        Operator("X", id="check_each_claim_3"),
    )
    flow = Workflow([one, chosen] >> other)
    assert edges(flow) == {
        "check_each_claim": [],
        "check_each_claim_3": [],
        "check_each_claim_2": ["check_each_claim", "check_each_claim_3"],
    }
    flow.add(Operator("Check each claim."))
    assert [step.get_id() for step in flow.get_operators()][-1] == "check_each_claim_4"
    assert Operator("列出文本的主张。").get_id() == "列出文本的主张"
    assert Operator("— !").get_id() == "operator"


def test_automatic_ids_follow_the_order_of_the_list_also_if_an_edge_names_a_later_operator():
    early, late, start = Operator("Check."), Operator("Check."), Operator("Start.")
    assert edges(Workflow([early, start >> late >> early])) == {"check": ["check_2"], "start": [], "check_2": ["start"]}


def test_an_id_stays_once_an_operator_is_in_a_workflow():
    one, other = Operator("Check."), Operator("Check.")
    Workflow(other)
    with pytest.raises(InvalidError, match="two different operators have this id"):
        Workflow([one, other]).built()
    assert (one.get_id(), other.get_id()) == ("check", "check")


def test_a_wrong_edge_adds_nothing():
    flow = BuiltinWorkflow(a)
    with pytest.raises(InputError, match="got 42"):
        flow.add_operator(b, previous_ops=["a", 42])  # type: ignore[list-item]
    assert edges(flow) == {"a": []}


def test_after_takes_a_single_predecessor_as_well_as_a_list():
    for given in (a, "a", [a], ("a",)):
        flow = BuiltinWorkflow(a)
        flow.add(b, after=given)
        assert edges(flow) == {"a": [], "b": ["a"]}
    flow = BuiltinWorkflow(first)
    flow.add(b >> c, after=first)
    flow.add(Operator("Refund.", id="refund"), after=a["refund"])
    assert edges(flow) == {"first": [], "b": ["first"], "c": ["b"], "refund": ["a"]}


def test_a_map_takes_a_single_predecessor_as_well_as_a_list():
    for given in (a, "a", [a]):
        flow = BuiltinWorkflow(a)
        flow.map(b, over="items", after=given)
        assert edges(flow) == {"a": [], "b": ["a"]}
