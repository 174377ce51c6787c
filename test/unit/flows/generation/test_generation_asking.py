"""Plans that are shown before a workflow is built: questions, answers and estimated costs."""

import json

import pytest

from operad.configs.generation import Designer
from operad.flows.generation.asking import MOST_QUESTIONS, Question, plan_for_people
from operad.flows.node_graph import NodeGraph
from operad.operators.nodes import NODE_TYPES
from operad.runtime.models.turn import Price
from operad.runtime.testing import Say, ScriptedModel
from operad.runtime.values.errors import InputError
from operad.runtime.values.message import Usage

REQUEST = "Sum up a paper (variable paper). Output the summary (variable summary)."


def node(id, type, after, inside="", **params):
    return {"id": id, "type": type, "does": "", "after": after, "inside": inside, "params": params}


def plan(user):
    return {
        "nodes": [
            node("1", "start", [], variables=[{"name": "paper", "type": "string"}]),
            node("2", "llm", ["1"], system="", user=user),
            node("3", "end", ["2"], outputs=[{"name": "summary", "value": "2.text"}]),
        ],
        "questions": [{"question": "In which language?", "default": "that of the paper"}],
    }


PLAN, FRENCH = plan("Sum up {{#1.paper#}}"), plan("In French: {{#1.paper#}}")


@pytest.fixture
def designing():
    """Designs with a model of known price that gives these answers, in order: the result, and the requests."""

    def designing(work, *answers):
        with ScriptedModel([Say(json.dumps(answer)) for answer in answers]) as endpoint:
            designer = Designer(endpoint.model.model_copy(update={"price": Price(prompt=2, completion=10)}))
            return work(designer), [
                "\n".join(each["content"] for each in said["messages"]) for said in endpoint.requests
            ]

    return designing


def read(nodes, base=NodeGraph(name="none"), price=None, **more):  # noqa: B008
    answer = {"reasoning": "", "nodes": nodes, **more}
    return plan_for_people(answer, REQUEST, base, NODE_TYPES, "the model", price)


def test_an_agreed_plan_is_built_without_a_further_call(designing):
    def work(designer):
        plan = designer.plan(REQUEST)
        return plan, designer.design(REQUEST, plan=plan)

    (plan, design), asked = designing(work, PLAN)
    assert (plan.inputs, plan.outputs) == ({"paper": "string"}, {"summary": "string"})
    assert [each.text for each in plan.questions] == ["In which language?"]
    assert (design.accepted, len(asked)) == (True, 1)
    assert design.graph.instructions == (f"{REQUEST}\nIn which language? that of the paper",)


def test_a_plan_answered_otherwise_is_drafted_anew_with_the_answers_and_the_plan(designing):
    def work(designer):
        return designer.design(REQUEST, plan=designer.plan(REQUEST).answered(" French "))

    design, asked = designing(work, PLAN, FRENCH)
    assert (design.accepted, len(asked)) == (True, 2)
    assert design.graph.instructions == (f"{REQUEST}\nIn which language? French",)
    assert "### The plan so far: keep its ids" in asked[1]
    assert "In which language? French" in asked[1]


def test_a_plan_of_another_workflow_is_refused(designing):
    def work(designer):
        plan = designer.plan(REQUEST)
        design = designer.design(REQUEST, plan=plan)
        for refused in (designer.design, designer.plan):
            with pytest.raises(InputError, match="the plan is of another workflow; plan the change of this one"):
                refused(REQUEST, design.graph, plan)

    assert len(designing(work, PLAN)[1]) == 1


def test_more_answers_than_questions_are_refused():
    with pytest.raises(InputError, match="the plan has 0 questions, but 1 answers were given"):
        read([node("1", "start", [])]).answered("French")


def test_a_question_that_the_request_answers_is_not_asked_again_and_five_are_enough():
    questions = [{"question": f"Is it {number}?", "default": "yes"} for number in range(9)]
    plan = plan_for_people(
        {"reasoning": "", "nodes": [], "questions": [*questions, {"default": "no"}]},
        "Sum up.\nIs it 1? no", NodeGraph(name="none"), NODE_TYPES, "", None,
    )  # fmt: skip
    assert [each.text for each in plan.questions] == ["Is it 0?", "Is it 2?", "Is it 3?", "Is it 4?", "Is it 5?"]
    assert len(plan.questions) == MOST_QUESTIONS


def test_a_question_without_a_default_needs_no_answer():
    plan = read([node("1", "start", [])], questions=["In which language?"])
    assert (plan.questions, plan.decisions) == ((Question("In which language?", ""),), [])
    assert plan.answered("French").decisions == ["In which language? French"]


def test_a_question_marks_no_variables():
    plan = read([node("1", "start", [])], questions=[{"question": "Is the `tone` formal?", "default": "`yes`"}])
    assert plan.decisions == ["Is the tone formal? yes"]


def test_keys_in_the_request_and_in_answers_become_secrets(designing):
    key = "sk-proj-" + "a1B2" * 12

    def work(designer):
        plan = designer.plan(f"{REQUEST} The key is {key}.")
        return designer.design(REQUEST, plan=plan.answered(f"with the key {key}"))

    design, asked = designing(work, PLAN, FRENCH)
    assert design.made
    assert key not in "".join([*asked, *design.graph.instructions])


def test_costs_count_rounds_of_containers_and_calls_of_agents():
    nodes = [
        node("1", "start", []),
        node("2", "iteration", ["1"]),
        node("2-1", "llm", [], inside="2"),
        node("3", "agent", ["2"]),
        node("4", "tts", ["3"]),
        node("5", "llm", ["4"]),
        node("6", "end", ["5"]),
    ]
    cost = read(nodes, price=Price(prompt=1, completion=2)).cost
    assert cost is not None
    assert cost.calls == {"llm": 6, "agent": 5}
    assert cost.run.cost == pytest.approx(
        11 * Price(prompt=1, completion=2).of(Usage(prompt_tokens=1000, completion_tokens=300))
    )
    assert cost.lines[0].startswith(
        "a run: about 0.0176 USD (about 11,000 tokens read, 3,300 written; calls: 6 of llm, 5 of agent; "
    )


def test_without_calls_there_is_no_cost_and_without_a_price_no_amount():
    free = read([node("1", "start", []), node("2", "code", ["1"])]).cost
    assert free is not None
    assert free.lines == [
        "a run: about 0 USD (about 0 tokens read, 0 written; no node calls a model)",
    ]
    unknown = read([node("1", "start", []), node("2", "llm", ["1"])]).cost
    assert unknown is not None
    assert [line.partition(" (")[0] for line in unknown.lines] == ["a run: no price known for the model"]
