"""Workflows inside workflows, with both engines."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from operad.operators import Operator
from operad.runtime.events import (
    Event,
    ModelAnswered,
    OperatorFinished,
    OperatorStarted,
    RoundStarted,
    RunFinished,
    RunStarted,
    WorkflowEntered,
    emit,
)
from operad.runtime.testing import ScriptedReasoner
from operad.runtime.values.errors import FaultError, InvalidError, OperatorError
from operad.runtime.values.message import Job, Usage, WorkflowMessage, WorkflowStatus
from operad.runtime.workflow.function import operator as step
from operad.runtime.workflow.map import Map
from operad.runtime.workflow.workflow import BuiltinWorkflow, DbgptWorkflow, Workflow

JOB = Job(goal="goal", id="job")
RENDEZVOUS = 10.0
Heard = list[WorkflowMessage]
Work = Callable[[Heard], Awaitable[Any]]


class Say:
    """An operator that says its id and, in brackets, what it heard; or does what it is given to do."""

    def __init__(self, op_id: str, work: Work | None = None) -> None:
        self._id, self._work = op_id, work
        self.heard: list[list[str]] = []
        self.lessons: list[str | None] = []
        self.previous: list[Heard] = []
        self.reasoners: list[Any] = []

    def get_id(self) -> str:
        return self._id

    async def execute(
        self, reasoner: Any, job: Any, workflow_messages: Any = None, previous_expert_outputs: Any = None, lesson=None
    ) -> Any:
        texts = [message.scratchpad for message in workflow_messages]
        self.heard.append(texts)
        self.lessons.append(lesson)
        self.previous.append(previous_expert_outputs)
        self.reasoners.append(reasoner)
        if self._work:
            return await self._work(workflow_messages)
        return f"{self._id}({' '.join(texts)})" if texts else self._id


class Judge(Say):
    """An evaluator that gives these verdicts, the last one from then on."""

    def __init__(self, *verdicts: WorkflowMessage) -> None:
        async def judge(heard: Heard) -> WorkflowMessage:
            return verdicts[min(len(self.heard), len(verdicts)) - 1]

        super().__init__("judge", judge)


PRAISE = WorkflowMessage(evaluation="good")


def fault(lesson: str, *blame: str) -> WorkflowMessage:
    return WorkflowMessage(status=WorkflowStatus.EXECUTION_ERROR, lesson=lesson, blame=blame)


def spending(op_id: str, calls: int, *, own_account: bool = False) -> Say:
    async def spend(heard: Heard) -> WorkflowMessage:
        if own_account:
            return WorkflowMessage(scratchpad=op_id, usage=Usage(calls=calls))
        emit(ModelAnswered(model="m", usage=Usage(calls=calls)))
        return WorkflowMessage(scratchpad=op_id)

    return Say(op_id, spend)


async def _first(heard: Heard) -> WorkflowMessage:
    return heard[0]


New = Callable[..., Workflow]


@pytest.fixture
def chain(engine: type[Workflow]) -> New:
    """Makes a workflow of operators one after another; a text stands for an operator that says it."""

    def make(name: str, *operators: Any, judge: Judge | None = None, **options: Any) -> Workflow:
        workflow = engine(name=name, **options)
        known = [Say(operator) if isinstance(operator, str) else operator for operator in operators]
        for previous, operator in zip([None, *known], known, strict=False):
            workflow.add_operator(operator, [previous] if previous else [])
        workflow.set_evaluator(judge)
        return workflow

    return make


async def run(workflow: Workflow, **options: Any) -> WorkflowMessage:
    return await asyncio.wait_for(workflow.aexecute(JOB, options.pop("reasoner", None), **options), RENDEZVOUS)


async def error_of(workflow: Workflow) -> Exception:
    with pytest.raises(Exception) as caught:
        await run(workflow)
    return caught.value


# Order


async def test_its_first_operators_hear_what_comes_before_it_and_the_others_only_each_other(chain: New) -> None:
    inner = chain("inner")
    first, other, last = Say("first"), Say("other"), Say("last")
    inner.add_operator(first)
    inner.add_operator(other)
    inner.add_operator(last, [first, other])
    a, b = Say("a"), Say("b")
    outer = chain("outer", a)
    outer.add_operator(b)
    outer.add_operator(inner, [b, a])

    await run(outer)

    assert (first.heard, other.heard) == ([["b", "a"]], [["b", "a"]])
    assert last.heard == [["first(b a)", "other(b a)"]]


async def test_several_tails_inside_are_one_message_outside(chain: New) -> None:
    inner = chain("inner", "x")
    inner.add_operator(Say("y"))
    last = Say("last")

    await run(chain("outer", inner, last))

    assert last.heard == [["x\n\ny"]]


async def test_workflows_of_both_engines_go_into_each_other() -> None:
    for outer, inner in ((BuiltinWorkflow(), DbgptWorkflow()), (DbgptWorkflow(), BuiltinWorkflow())):
        inner.add_operator(Say("a"))
        outer.add_operator(inner)
        assert (await run(outer)).scratchpad == "a"


async def test_reasoner_earlier_messages_and_lesson_reach_the_innermost(chain: New) -> None:
    inside, reasoner = Say("inside"), ScriptedReasoner([])
    second = Say("second")
    earlier = WorkflowMessage(scratchpad="earlier")
    outer = chain("outer", chain("middle", chain("inner", inside, second)))

    await run(outer, reasoner=reasoner, workflow_messages=[earlier], lesson="be brief")

    for operator in (inside, second):
        assert (operator.previous, operator.lessons) == ([[earlier]], ["be brief"])
        assert operator.reasoners == [reasoner]
    assert inside.heard == [[]]


async def test_its_operators_run_beside_those_outside(chain: New) -> None:
    here, there = asyncio.Event(), asyncio.Event()

    async def meet(heard: Heard) -> str:
        here.set()
        await there.wait()
        return "met"

    async def meet_too(heard: Heard) -> str:
        there.set()
        await here.wait()
        return "met too"

    outer = chain("outer", chain("inner", Say("meet", meet)))
    outer.add_operator(Say("too", meet_too))

    assert (await run(outer)).scratchpad == "met\n\nmet too"


# Rounds


async def test_it_has_an_evaluator_and_rounds_of_its_own(chain: New) -> None:
    worker, judge, outside = Say("worker"), Judge(fault("better", "worker"), PRAISE), Say("outside")

    await run(chain("outer", "a", chain("inner", worker, judge=judge, max_rounds=2), outside))

    assert worker.heard == [["a"], ["a"]]
    assert worker.lessons == [None, "better"]
    assert outside.lessons == [None]
    assert len(judge.heard) == 2


async def test_a_lesson_from_outside_comes_before_those_inside(chain: New) -> None:
    worker = Say("worker")
    inner = chain("inner", worker, judge=Judge(fault("inside", "worker"), PRAISE), max_rounds=2)

    await run(chain("outer", inner), lesson="outside")

    assert worker.lessons == ["outside", "outside\ninside"]


async def test_a_workflow_that_is_blamed_runs_again_with_the_lesson(chain: New) -> None:
    before, one, two = Say("before"), Say("one"), Say("two")
    judge = Judge(fault("again", "inner"), PRAISE)

    await run(chain("outer", before, chain("inner", one, two), judge=judge, max_rounds=2))

    assert (before.lessons, one.lessons, two.lessons) == ([None], [None, "again"], [None, "again"])
    assert (one.heard, two.heard) == ([["before"]] * 2, [["one(before)"]] * 2)


async def test_if_it_goes_on_when_rejected_its_verdict_goes_on_as_its_message(chain: New) -> None:
    async def look(heard: Heard) -> str:
        return f"{heard[0].status.value}: {heard[0].evaluation} of {heard[0].scratchpad}"

    unfit = WorkflowMessage(status=WorkflowStatus.INPUT_DATA_ERROR, evaluation="unfit")

    message = await run(
        chain("outer", chain("inner", "x", judge=Judge(unfit), on_reject="continue"), Say("look", look))
    )

    assert message.scratchpad == "INPUT_DATA_ERROR: unfit of x"


@pytest.mark.parametrize(
    ("on_reject", "text", "blame"), [("stop", "", ("outer/plan",)), ("continue", "pay(book(find))", ("outer",))]
)
async def test_a_run_without_an_evaluator_has_the_status_of_a_rejected_workflow_in_it(
    chain: New, on_reject: str, text: str, blame: tuple[str, ...]
) -> None:
    judge = Judge(
        WorkflowMessage(status=WorkflowStatus.EXECUTION_ERROR, evaluation="too late", lesson="Leave earlier.")
    )
    plan = chain("plan", "find", judge=judge, max_rounds=1, on_reject=on_reject)

    message = await run(chain("outermost", chain("outer", plan, "book", on_reject=on_reject), "pay"))

    assert message.scratchpad == text
    assert message.status is WorkflowStatus.EXECUTION_ERROR
    assert message.evaluation == "outer: plan: too late"
    assert message.lesson == ("outer: plan: Leave earlier." if text else "Leave earlier.")
    assert message.blame == blame


async def test_the_worst_of_several_rejected_workflows_counts(chain: New) -> None:
    late, sold = (
        WorkflowMessage(status=status, evaluation=status.value)
        for status in (WorkflowStatus.INPUT_DATA_ERROR, WorkflowStatus.EXECUTION_ERROR)
    )
    first, second = (
        chain(name, step, judge=Judge(verdict), max_rounds=1, on_reject="continue")
        for name, step, verdict in (("first", "a", late), ("second", "b", sold))
    )

    message = await run(chain("outer", first, "c", second, "d", max_rounds=3))

    assert (message.status, message.blame) == (WorkflowStatus.EXECUTION_ERROR, ("first", "second"))
    assert message.evaluation == "first: INPUT_DATA_ERROR\nsecond: EXECUTION_ERROR"


async def test_an_evaluator_outside_decides_and_no_round_is_added(chain: New) -> None:
    plan = chain("plan", find := Say("find"), judge=Judge(fault("Leave earlier.")), max_rounds=1, on_reject="continue")

    judged = await run(chain("outer", plan, "book", judge=Judge(PRAISE), max_rounds=3))
    await run(chain("outer", plan, "book", max_rounds=3))

    assert (judged.status, judged.evaluation) == (WorkflowStatus.SUCCESS, "good")
    assert len(find.heard) == 2


async def test_blame_inside_does_not_reach_operators_of_the_same_name_outside(chain: New) -> None:
    namesake = Say("worker")
    inner = chain("inner", Say("worker"), judge=Judge(fault("better", "worker"), PRAISE), max_rounds=2)

    await run(chain("outer", namesake, inner, max_rounds=3))

    assert len(namesake.heard) == 1


# Events and usage


async def test_events_bear_the_path_through_all_workflows(chain: New) -> None:
    events: list[Event] = []
    outer = chain("outer", "a", chain("middle", "b", chain("inner", "c")), listeners=[events.append])

    await run(outer)

    assert [event.path for event in events if isinstance(event, OperatorFinished)] == [
        ("a",),
        ("middle", "b"),
        ("middle", "inner", "c"),
        ("middle", "inner"),
        ("middle",),
    ]
    assert [(e.path, e.workflow, dict(e.operators)) for e in events if isinstance(e, WorkflowEntered)] == [
        (("middle",), "middle", {"b": (), "inner": ("b",)}),
        (("middle", "inner"), "inner", {"c": ()}),
    ]
    assert [event.path for event in events if isinstance(event, RoundStarted)] == [(), ("middle",), ("middle", "inner")]
    assert [event.seq for event in events] == [*range(1, len(events) + 1)]
    assert len([event for event in events if isinstance(event, RunStarted | RunFinished)]) == 2


async def test_rounds_inside_are_counted_inside(chain: New) -> None:
    events: list[Event] = []
    inner = chain("inner", "x", judge=Judge(fault("more", "x"), PRAISE), max_rounds=2)

    await run(chain("outer", inner, listeners=[events.append]))

    started = [(event.operator_id, event.round) for event in events if isinstance(event, OperatorStarted)]
    assert started == [("inner", 1), ("x", 1), ("judge", 1), ("x", 2), ("judge", 2)]


@pytest.mark.parametrize("own_account", [False, True])
async def test_usage_adds_up_through_all_workflows(chain: New, own_account: bool) -> None:
    events: list[Event] = []
    inner = chain("inner", spending("c", 100, own_account=own_account), spending("d", 1000, own_account=own_account))
    middle = chain("middle", spending("b", 10, own_account=own_account), inner)

    message = await run(
        chain("outer", spending("a", 1, own_account=own_account), middle, "last", listeners=[events.append])
    )

    assert message.usage.calls == 1111
    usages = {e.path[-1]: e.message.usage.calls for e in events if isinstance(e, OperatorFinished)}
    assert usages == {"a": 1, "b": 10, "c": 100, "d": 1000, "inner": 1100, "middle": 1110, "last": 0}


async def test_a_message_that_an_operator_passes_on_is_not_charged_again(chain: New) -> None:
    assert (await run(chain("outer", spending("a", 5), Say("pass", _first)))).usage.calls == 5


async def test_nor_one_that_the_first_operator_inside_passes_on(chain: New) -> None:
    assert (await run(chain("outer", spending("a", 5), chain("inner", Say("pass", _first))))).usage.calls == 5


# Errors and checks


async def test_an_error_inside_names_both_workflows(chain: New) -> None:
    async def fail(heard: Heard) -> str:
        raise LookupError("nothing found")

    error = await error_of(chain("outer", "a", chain("inner", "b", Say("c", fail))))

    assert isinstance(error, OperatorError)
    assert str(error) == (
        "operator 'inner' of workflow 'outer' failed on attempt 1: "
        "operator 'c' of workflow 'inner' failed on attempt 1: LookupError: nothing found"
    )
    assert isinstance(error.__cause__, OperatorError)
    assert isinstance(error.__cause__.__cause__, LookupError)
    assert list(error.finished) == ["a"]
    assert list(error.__cause__.finished) == ["b"]


async def test_what_is_wrong_inside_is_found_before_anything_runs(chain: New) -> None:
    first, b, c = Say("a"), Say("b"), Say("c")
    inner = chain("inner", b)
    inner.add_operator(c, [Say("missing")])
    outer = chain("outer", first, chain("middle", inner), chain("empty"))

    error = await error_of(outer)

    assert isinstance(error, InvalidError)
    assert [(issue.code, issue.where) for issue in error.issues] == [
        ("unknown-operator", "middle/inner/c"),
        ("no-operators", "empty"),
    ]
    assert not first.heard


async def test_a_workflow_in_itself_is_an_issue(chain: New) -> None:
    outer = chain("outer", "a")
    outer.add_operator(outer)

    error = await error_of(outer)

    assert isinstance(error, InvalidError)
    assert [(issue.code, issue.where) for issue in error.issues] == [("nested-in-itself", "outer")]


async def test_so_is_one_in_another_that_is_in_it(chain: New) -> None:
    outer, middle, inner = chain("outer", "a"), chain("middle", "b"), chain("inner", "c")
    outer.add_operator(middle)
    middle.add_operator(inner)
    inner.add_operator(outer)

    for workflow in (outer, middle, inner):
        error = await error_of(workflow)
        assert isinstance(error, InvalidError)
        assert {issue.code for issue in error.issues} == {"nested-in-itself"}


async def test_one_workflow_may_be_in_two_others(chain: New) -> None:
    shared = chain("shared", "x")

    assert (await run(chain("outer", chain("one", shared), chain("two", shared)))).scratchpad == "x(x)"


async def test_names_inside_are_apart_from_those_outside(chain: New) -> None:
    events: list[Event] = []
    inner = chain("a", "a", "b")

    message = await run(chain("a", inner, "b", listeners=[events.append]))

    assert message.scratchpad == "b(b(a))"
    assert [e.path for e in events if isinstance(e, OperatorFinished)] == [("a", "a"), ("a", "b"), ("a",), ("b",)]


async def test_a_workflow_inside_that_is_edited_between_runs_is_run_as_it_is_then(chain: New) -> None:
    b = Say("b")
    inner = chain("inner", b)
    outer = chain("outer", "a", inner)
    assert (await run(outer)).scratchpad == "b(a)"

    inner.add_operator(Say("c"), [b])

    assert (await run(outer)).scratchpad == "c(b(a))"


async def test_a_workflow_that_is_edited_while_it_runs_inside_goes_on_as_it_was(chain: New) -> None:
    inner = chain("inner")

    async def edit(heard: Heard) -> str:
        inner.add_operator(Say("late"), [first])
        return "edited"

    first = Say("first", edit)
    inner.add_operator(first)
    outer = chain("outer", inner)

    assert (await run(outer)).scratchpad == "edited"
    assert (await run(outer)).scratchpad == "late(edited)"


async def test_one_that_was_broken_by_an_edit_says_so_from_inside(chain: New) -> None:
    inner = chain("inner", "b")
    outer = chain("outer", inner)
    await run(outer)

    inner.add_operator(Say("c"), [Say("missing")])
    error = await error_of(outer)

    assert isinstance(error, OperatorError)
    assert isinstance(error.__cause__, InvalidError)


# Run by an operator


async def test_a_workflow_that_an_operator_runs_is_part_of_that_run(chain: New) -> None:
    events: list[Event] = []
    inner = chain("inner", "x", spending("y", 7))

    async def delegate(heard: Heard) -> WorkflowMessage:
        return await inner.aexecute(JOB, None)  # type: ignore[arg-type]

    message = await run(chain("outer", spending("a", 1), Say("delegate", delegate), listeners=[events.append]))

    assert (message.scratchpad, message.operator_id, message.usage.calls) == ("y", "delegate", 8)
    assert [event.path for event in events if isinstance(event, OperatorFinished)] == [
        ("a",),
        ("delegate", "x"),
        ("delegate", "y"),
        ("delegate",),
    ]
    assert len({event.run_id for event in events}) == 1
    assert len([event for event in events if isinstance(event, RunStarted)]) == 1


async def test_an_operator_may_run_several_at_once(chain: New) -> None:
    inner = chain("inner", spending("x", 2))

    async def delegate(heard: Heard) -> str:
        said = await asyncio.gather(*(inner.aexecute(JOB, None) for _ in range(3)))  # type: ignore[arg-type]
        return "+".join(message.scratchpad for message in said)

    message = await run(chain("outer", Say("delegate", delegate)))

    assert (message.scratchpad, message.usage.calls) == ("x+x+x", 6)


async def test_a_workflow_that_runs_itself_may_stop_by_itself(chain: New) -> None:
    depth = 0

    async def again(heard: Heard) -> str:
        nonlocal depth
        depth += 1
        return f"({(await workflow.aexecute(JOB, None)).scratchpad})" if depth < 4 else "."  # type: ignore[arg-type]

    workflow = chain("w", Say("again", again))

    assert (await run(workflow)).scratchpad == "(((.)))"


@pytest.mark.parametrize("way", ["arun", "run", "stream", "stream_text", "start"])
async def test_a_workflow_without_a_model_that_an_operator_runs_uses_the_model_of_that_run(
    way: str, monkeypatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")  # no answer comes from there
    expert = Workflow(Operator("You are the expert.", id="expert"))

    async def ask(job: Job) -> str:
        if way == "arun":
            return (await expert.arun(job.goal)).text
        if way == "run":
            return (await asyncio.to_thread(expert.run, job.goal)).text
        if way == "stream":
            return [event async for event in expert.stream(job.goal)][-1].message.scratchpad  # pyright: ignore
        if way == "stream_text":
            return "".join([piece async for piece in expert.stream_text(job.goal)])
        return (await expert.start(job.goal)).text

    result = await Workflow(ask).arun("why?", model=ScriptedReasoner(["scripted"]))
    assert result.text == "scripted"
    own = Workflow(Operator("You are the expert.", id="expert"), model=ScriptedReasoner(["its own"]))

    async def ask_its_own(job: Job) -> str:
        return (await own.arun(job.goal)).text

    assert (await Workflow(ask_its_own).arun("why?", model=ScriptedReasoner([]))).text == "its own"


def _said(m: Any) -> str:
    return json.dumps(m)


def _same(x: int) -> int:
    return x


def _two_tails() -> Any:
    return step(_same) >> [Operator("Say a.", id="a"), step(lambda: 7, id="b")]


def test_a_function_after_a_workflow_with_several_last_operators_gets_their_answers_by_id():
    flow = Workflow(step(lambda: 3, id="n") >> Workflow(_two_tails(), name="m") >> _said)
    assert json.loads(flow.run("x", model=ScriptedReasoner({"a": "A"})).text) == {"a": "A", "b": 7}


def test_the_answers_of_several_last_operators_are_found_however_deep_the_workflow_is():
    deep = Workflow(Workflow(_two_tails(), name="inner"), name="m")
    result = Workflow(step(lambda: 3, id="n") >> deep >> _said).run("x", model=ScriptedReasoner({"a": "A"}))
    assert json.loads(result.text) == {"a": "A", "b": 7} == result["m"]


def test_the_list_of_a_map_is_an_answer_among_several():
    body = step(lambda: [1, 2], id="n") >> [Map("each", _same), Operator("Say a.", id="a")]
    result = Workflow(Workflow(body, name="m") >> _said).run("x", model=ScriptedReasoner({"a": "A"}))
    assert json.loads(result.text) == {"each": [1, 2], "a": "A"} == result["m"]


def test_a_result_of_a_map_whose_body_has_several_last_operators_holds_their_answers_by_id():
    flow = Workflow(step(lambda: [1, 2], id="n") >> Map("m", each=_two_tails()) >> _said)
    result = flow.run("x", model=ScriptedReasoner({"a": "A"}))
    assert json.loads(result.text) == [{"a": "A", "b": 7}] * 2 == result["m"]


def test_a_function_in_a_blamed_workflow_gets_the_predecessor_and_not_the_verdict():
    heard: list[str] = []

    def shout(text: str) -> str:
        heard.append(text)
        return text.upper()

    def judge(inner: str) -> None:
        if len(heard) == 1:
            raise FaultError("bad", blame=["inner"])

    flow = Workflow(step(lambda: "word", id="source") >> Workflow(shout, name="inner"), evaluator=judge)
    assert flow.run("x").output == "WORD"
    assert heard == ["word"] * 2


def test_a_predecessor_with_the_id_of_the_workflow_is_no_earlier_message_of_it():
    def never(report: str) -> None:
        raise FaultError("bad", blame=["report"])

    report = Workflow(step(lambda: "r", id="report"), evaluator=never, max_rounds=1, name="inner", on_reject="continue")
    both = [step(lambda: "c", id="check"), report]

    def join(check: str, inner: str) -> str:
        return check + inner

    flow = Workflow(step(lambda: 1, id="n") >> Workflow(both >> step(join), name="check"))
    assert flow.run("x").output == "cr"
