"""What the end of a run says of its rounds."""

import pytest

from operad.cli.rounds import repetition_lines
from operad.evaluators import Evaluator
from operad.operators import Operator, OperatorConfig
from operad.runtime import BuiltinWorkflow, FaultError, Job, MonoModelReasoner, WorkflowMessage, WorkflowStatus, events
from operad.runtime.observe.trace import Trace


class Work(Operator):
    """Works through a list: in the first run through all of it, then through one item."""

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        if self.get_id() == "list":
            events.emit(events.Progress(done=1, total=1 if lesson else 10))
        if self.get_id() == "fail" and not lesson:
            raise FaultError("no dates", lesson="Give dates.", blame=["fail"])
        return WorkflowMessage(scratchpad=f"text, {lesson}")


class Judge(Evaluator):
    """Blames, round by round, whom a test names."""

    def __init__(self, *rounds):
        super().__init__(OperatorConfig(instruction="Judge.", id="judge"))
        self.rounds = list(rounds)

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        blame = self.rounds.pop(0) if self.rounds else ()
        if not blame:
            return WorkflowMessage(evaluation="right")
        status = WorkflowStatus.EXECUTION_ERROR
        return WorkflowMessage(status=status, evaluation="two are wrong.", lesson="Better.", blame=blame)


async def told(*names, judge=None, max_rounds=4):
    workflow, before = BuiltinWorkflow(max_rounds=max_rounds), None
    for name in names:
        operator = Work(OperatorConfig(instruction="Work.", id=name))
        workflow.add_operator(operator, [before] if before else [])
        before = operator
    if judge:
        workflow.set_evaluator(judge)
    trace = Trace()
    async for event in workflow.stream(Job(goal="g"), MonoModelReasoner()):
        trace.apply(event)
    return list(repetition_lines(trace))


async def test_a_run_of_one_round_has_nothing_to_tell():
    assert await told("a", "b") == []
    assert await told("a", "b", judge=Judge()) == []


async def test_what_ran_again_and_what_was_reused_is_told():
    assert await told("a", "b", "c", judge=Judge(["b"])) == [
        "In round 1 the evaluator (judge) found a fault: two are wrong.",
        "In round 2 only b and c ran again; a was reused.",
    ]


async def test_an_operator_that_did_part_of_its_list_again_says_how_much():
    lines = await told("a", "b", "list", judge=Judge(["list"]))
    assert lines[1] == "In round 2 only list (for 1 of 10 items) ran again; a and b were reused."


def test_an_operator_that_kept_its_answer_is_neither_run_again_nor_reused():
    rejected = {"status": WorkflowStatus.EXECUTION_ERROR, "evaluation": "wrong", "lesson": "", "blame": ("b",)}
    trace = Trace.of((
        events.RunStarted(workflow="w", goal="g", operators={"a": (), "b": ("a",), "c": ("b",)}),
        events.RoundStarted(operators=("a", "b", "c"), round=1),
        events.RoundFinished(round=1, **rejected),
        events.RoundStarted(operators=("b", "c"), round=2),
        events.OperatorKept(path=("c",), operator_id="c", round=2),
    ))  # fmt: skip
    again = "only b ran again; c kept its answer: the input did not change; a was reused"
    assert repetition_lines(trace)[1] == f"In round 2 {again}."


def test_the_items_of_a_map_that_kept_their_answers_are_not_counted_as_run_again():
    rejected = {"status": WorkflowStatus.EXECUTION_ERROR, "evaluation": "wrong", "lesson": "", "blame": ("list[1]",)}
    trace = Trace.of((
        events.RunStarted(workflow="w", goal="g", operators={"a": (), "list": ("a",)}),
        events.RoundStarted(operators=("a", "list"), round=1),
        events.OperatorStarted(path=("list",), operator_id="list", round=1),
        events.Progress(path=("list",), operator_id="list", round=1, done=3, total=3),
        events.RoundFinished(round=1, **rejected),
        events.RoundStarted(operators=("list",), round=2),
        events.OperatorStarted(path=("list",), operator_id="list", round=2),
        *(events.OperatorKept(path=(f"list[{item}]",), operator_id="list", round=2) for item in (0, 2)),
        events.Progress(path=("list",), operator_id="list", round=2, done=3, total=3),
    ))  # fmt: skip
    assert repetition_lines(trace)[1] == "In round 2 only list (for 1 of 3 items) ran again; a was reused."


async def test_where_all_ran_again_nothing_was_reused():
    lines = await told("a", "b", judge=Judge(["a"]))
    assert lines[1] == "In round 2 all operators ran again: a and b."


async def test_of_several_rounds_the_last_is_told():
    assert await told("a", "b", judge=Judge(["a"], ["b"])) == [
        "In round 2 the evaluator (judge) found a fault: two are wrong.",
        "In round 3 only b ran again; a was reused.",
    ]


async def test_a_fault_that_an_operator_reports_is_not_the_evaluators():
    lines = await told("a", "fail", judge=Judge())
    assert lines == [
        "In round 1 an operator reported a fault: fail: no dates.",
        "In round 2 only fail ran again; a was reused.",
    ]


@pytest.mark.usefixtures("nothing_configured")
async def test_operators_in_code_run_without_a_model():
    assert await told("a") == []
