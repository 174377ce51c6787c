"""The search for better instructions of a workflow in Python."""

import json

import pytest

from operad import Evaluator, FaultError, InputError, InvalidError, Job, Operator, Workflow, operator
from operad.configs.optimise import aoptimise, optimise
from operad.evaluation import Case, contains
from operad.testing import ScriptedReasoner

HINTS = ("Dear", "grams")
CASES = [Case("flour", job="flour", expected=list(HINTS)), Case("bran", job="bran", expected=list(HINTS))]


def clerk(**settings):
    return Workflow(Operator("Read.", id="read") >> Operator("Answer.", id="answer"), name="clerk", **settings)


def change(name, instruction, op="set_instruction"):
    return {"op": op, "operator": name, "instruction": instruction}


class Model(ScriptedReasoner):
    """Answers with the hints in an operator's instruction; proposes what it is told to, and keeps what it is shown."""

    def __init__(self, *proposals, verdict=None):
        self.shown, self.lessons, left = [], [], list(proposals)

        def reply(task):
            if task.instruction.startswith("You improve"):
                self.shown.append(task.job.inputs)
                self.lessons.append(task.lesson)
                return json.dumps({"reasoning": "so", "operations": left.pop(0)})
            if task.instruction.startswith("Judge"):
                return json.dumps(verdict)
            return " ".join(hint for hint in HINTS if hint in task.instruction) or "Yes."

        super().__init__(reply)


def polite(output):
    if "Dear" not in output:
        raise FaultError("no greeting", lesson="Begin with Dear.", blame=["answer"])


async def test_instructions_are_changed_until_all_cases_pass():
    flow = clerk()
    model = Model([change("answer", "Answer. Begin with Dear.")], [change("answer", "Answer. Dear, in grams.")])
    found = await aoptimise(flow, CASES, [contains, polite], reasoner=model)
    assert [each.score for each in found.candidates] == [0.0, 0.0, 1.0]
    assert found.best.instructions == {"answer": "Answer. Dear, in grams."}
    assert (found.stopped, found.improved) == ("nothing is left to be improved", True)
    assert (await found.workflow.arun("x", model)).text == "Dear grams"
    assert flow.graph().operators["answer"].instruction == "Answer."


async def test_the_proposing_model_sees_failures_and_the_operators_blamed_most():
    model = Model([change("answer", "Answer. Dear, in grams.")])
    await aoptimise(clerk(), CASES, [contains, polite], reasoner=model, rounds=1)
    [shown] = model.shown
    assert [each["name"] for each in shown["workflow"]["operators"]] == ["read", "answer"]
    assert shown["blamed"] == [{"operator": "answer", "runs": 2, "lessons": ["Begin with Dear."]}]
    assert [(each["job"], each["answer"], each["score"]) for each in shown["failures"]] == [
        ("flour", "Yes.", 0),
        ("bran", "Yes.", 0),
    ]


async def test_a_proposal_that_cannot_be_used_is_asked_for_again_with_the_reason():
    model = Model(
        [change("nobody", "Answer.")],
        [change("answer", "Answer.")],
        [change("answer", "Answer. Dear, in grams.")],
    )
    found = await aoptimise(clerk(), CASES, contains, reasoner=model, rounds=1)
    assert found.best.score == 1.0
    assert "one of the operators read, answer" in model.lessons[1]
    assert "that was tried before" in model.lessons[2]


async def test_after_three_useless_proposals_the_next_step_begins():
    told = []
    model = Model(*[[change("answer", "")]] * 3, [change("answer", "Answer. Dear, in grams.")])
    found = await aoptimise(clerk(), CASES, contains, reasoner=model, rounds=2, tell=told.append)
    assert [number for number, _ in found.refused] == [0]
    assert found.best.score == 1.0
    assert "no proposal could be used" in told[1]


async def test_right_answers_that_the_workflow_rejects_count_half():
    verdict = {"evaluation": "No.", "status": "EXECUTION_ERROR", "lesson": "Rhyme.", "blame": ["read"], "score": 1}
    flow = clerk(evaluator=Evaluator("It rhymes.", id="judge"), max_rounds=1)
    model = Model([change("read", "Read and rhyme.")], verdict=verdict)
    found = await aoptimise(flow, CASES, lambda output: True, reasoner=model, rounds=1)
    assert found.baseline.score == 0.5
    assert model.shown[0]["blamed"] == [{"operator": "read", "runs": 2, "lessons": ["Rhyme."]}]


async def test_numbers_of_functions_count():
    found = await aoptimise(clerk(), CASES, lambda output: 0.25, reasoner=Model([change("read", "Look.")]), rounds=1)
    assert [each.score for each in found.candidates] == [0.25, 0.25]
    assert not found.improved


def test_a_workflow_without_instructions_cannot_be_changed():
    @operator
    def shout(job: Job) -> str:
        return job.goal.upper()

    with pytest.raises(InputError, match="no operator has an instruction"):
        optimise(Workflow(shout), CASES)


async def test_a_model_that_fails_on_every_case_ends_the_search():
    with pytest.raises(InputError, match="every case failed"):
        await aoptimise(clerk(), CASES, contains, reasoner=ScriptedReasoner(lambda task: ValueError("offline")))


def test_a_copy_with_other_operators_leaves_the_workflow_as_it_is():
    first = Operator("Say one.", id="say")
    flow = Workflow(first, name="words")
    flow.run("x", ScriptedReasoner("one"))
    changed = flow.with_operators([first.with_instruction("Say two.")])
    assert (flow.graph().operators["say"].instruction, changed.graph().operators["say"].instruction) == (
        "Say one.",
        "Say two.",
    )
    asked = ScriptedReasoner(lambda task: task.instruction)
    assert (changed.run("x", asked).text, flow.run("x", asked).text, changed.name) == ("Say two.", "Say one.", "words")
    with pytest.raises(InvalidError, match="nothing to update"):
        flow.with_operators([Operator("Say.", id="other")])


async def test_a_variant_that_fails_on_every_case_is_worth_nothing_and_the_search_goes_on():
    model = Model([change("answer", "Answer {figs}.")], [change("answer", "Answer. Dear, in grams.")])
    found = await aoptimise(clerk(), CASES, contains, reasoner=model, rounds=2)
    assert [each.score for each in found.candidates] == [0.0, 0.0, 1.0]
