"""Workflows, with both engines: editing, building, running, judging, streaming."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from amounts import amount

from operad import Map, operator
from operad.runtime.events import (
    ModelAnswered,
    RoundStarted,
    RunStarted,
    emit,
)
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.graph.schedule import Plan
from operad.runtime.policies.policy import Budget, Policy, Retry
from operad.runtime.reasoning.task import Task
from operad.runtime.values.errors import BudgetError, InputError, InvalidError, OperatorError, RunningLoopError
from operad.runtime.values.message import Job, Usage, WorkflowMessage, WorkflowStatus
from operad.runtime.workflow.workflow import BuiltinWorkflow, Workflow

RENDEZVOUS = 10.0
"""Seconds after which what should have met has not."""

JOB = Job(goal="goal", id="job")


class Namesake:
    """A reasoner that says who it is."""

    def __init__(self, name: str = "reasoner") -> None:
        self.name = name

    async def infer(self, task: Task) -> str:
        return self.name


REASONER = Namesake()


class Call:
    """What an operator was called with."""

    def __init__(self, reasoner: Any, job: Job, messages: Any, previous: Any, lesson: str | None) -> None:
        self.reasoner: Namesake = reasoner
        self.job = job
        self.messages: list[WorkflowMessage] = messages
        self.previous: list[WorkflowMessage] = previous
        self.lesson = lesson

    @property
    def texts(self) -> list[str]:
        return [message.scratchpad for message in self.messages]


class Say:
    """An operator that says its id and, in brackets, what it heard; or does what it is given to do."""

    def __init__(self, op_id: str, work: Callable[[Call], Awaitable[Any]] | None = None) -> None:
        self._id = op_id
        self._work = work
        self.calls: list[Call] = []

    def get_id(self) -> str:
        return self._id

    async def execute(
        self,
        reasoner: Any,
        job: Job,
        workflow_messages: list[WorkflowMessage] | None = None,
        previous_expert_outputs: list[WorkflowMessage] | None = None,
        lesson: str | None = None,
    ) -> WorkflowMessage | str:
        call = Call(reasoner, job, workflow_messages, previous_expert_outputs, lesson)
        self.calls.append(call)
        if self._work:
            return await self._work(call)
        return f"{self._id}({' '.join(call.texts)})" if call.texts else self._id


class Forgetful(Say):
    """Does not remember its calls."""

    async def execute(self, *args: Any, **kwargs: Any) -> WorkflowMessage | str:
        try:
            return await super().execute(*args, **kwargs)
        finally:
            self.calls.clear()


class Judge(Say):
    """An evaluator that gives these verdicts, one per round."""

    def __init__(self, *verdicts: WorkflowMessage) -> None:
        super().__init__("judge", self._judge)
        self._verdicts = list(verdicts)

    async def _judge(self, call: Call) -> WorkflowMessage:
        return self._verdicts[len(self.calls) - 1]


def fault(lesson: str = "", *blame: str) -> WorkflowMessage:
    return WorkflowMessage(status=WorkflowStatus.EXECUTION_ERROR, evaluation="bad", lesson=lesson, blame=blame)


PRAISE = WorkflowMessage(evaluation="good")


Make = Callable[..., Workflow]


@pytest.fixture
def new(engine: type[Workflow]) -> Make:
    """Makes a workflow of operators given as ``{id: ids before it}``, or as operators."""

    def make(
        shape: dict[str, Sequence[str]] | None = None, *operators: Say, judge: Say | None = None, **options: Any
    ) -> Workflow:
        workflow = engine(**options)
        known = {operator.get_id(): operator for operator in operators}
        for op_id, before in (shape or {}).items():
            operator = known.setdefault(op_id, Say(op_id))
            workflow.add_operator(operator, [known.setdefault(previous, Say(previous)) for previous in before])
        workflow.set_evaluator(judge)
        return workflow

    return make


def ids(operators: Sequence[Any]) -> list[str]:
    return [operator.get_id() for operator in operators]


async def run(workflow: Workflow, **options: Any) -> WorkflowMessage:
    return await asyncio.wait_for(workflow.aexecute(JOB, REASONER, **options), RENDEZVOUS)


# Shapes


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        pytest.param({"a": ""}, "a", id="one operator"),
        pytest.param({"a": "", "b": "a", "c": "b"}, "c(b(a))", id="chain"),
        pytest.param({"a": "", "b": "a", "c": "a", "d": "bc"}, "d(b(a) c(a))", id="diamond"),
        pytest.param({"a": "", "b": "a", "c": "a", "d": "cb"}, "d(c(a) b(a))", id="inputs in order of the edges"),
        pytest.param({"a": "", "b": "a", "c": "ab"}, "c(a b(a))", id="short cut"),
        pytest.param({"c": "ab", "b": "a", "a": ""}, "c(a b(a))", id="added backwards"),
        pytest.param({"a": "", "b": "", "c": "ab"}, "c(a b)", id="two roots"),
        pytest.param({"a": "", "b": "a", "c": "a"}, "b(a)\n\nc(a)", id="two tails"),
        pytest.param({"z": "", "a": ""}, "z\n\na", id="two islands"),
        pytest.param(
            {"a": "", "b": "a", "c": "b", "d": "a", "e": "d", "f": "e", "g": "cf"},
            "g(c(b(a)) f(e(d(a))))",
            id="two branches of different lengths",
        ),
    ],
)
async def test_an_operator_gets_the_messages_of_its_predecessors(new: Make, shape: dict[str, str], said: str) -> None:
    assert (await run(new(shape))).scratchpad == said


async def test_several_tails_are_joined_in_order_of_adding(new: Make) -> None:
    async def second(call: Call) -> WorkflowMessage:
        return WorkflowMessage(scratchpad="second", outputs={"x": 2})

    message = await run(new({"root": "", "p": ["root"], "q": ["root"]}, Say("q", second)))

    assert message.scratchpad == "p(root)\n\nsecond"
    assert message.status is WorkflowStatus.SUCCESS
    assert message.outputs == {"p": "p(root)", "q": {"x": 2}}
    assert [(part.operator_id, part.scratchpad) for part in message.parts] == [("p", "p(root)"), ("q", "second")]


async def test_tails_that_pass_the_same_message_on_stay_apart(new: Make) -> None:
    async def give(call: Call) -> WorkflowMessage:
        return WorkflowMessage(scratchpad="given", outputs={"n": 1})

    async def pass_on(call: Call) -> WorkflowMessage:
        return call.messages[0]

    message = await run(new({"a": "", "p": "a", "q": "a"}, Say("a", give), Say("p", pass_on), Say("q", pass_on)))

    assert message.outputs == {"p": {"n": 1}, "q": {"n": 1}}
    assert [part.operator_id for part in message.parts] == ["p", "q"]


async def test_the_worst_of_several_tails_decides_and_its_blame_is_kept(new: Make) -> None:
    async def fail(call: Call) -> WorkflowMessage:
        return fault("mend it", "a")

    message = await run(new({"a": "", "p": "a", "q": "a"}, Say("q", fail)))

    assert message.status is WorkflowStatus.EXECUTION_ERROR
    assert (message.lesson, message.blame) == ("mend it", ("a",))


async def test_a_message_is_stamped_with_operator_and_job(new: Make) -> None:
    message = await run(new({"a": ""}))

    assert (message.operator_id, message.job_id) == ("a", "job")


async def test_each_operator_gets_the_calls_job_reasoner_previous_outputs_and_lesson(new: Make) -> None:
    a, judge = Say("a"), Judge(PRAISE)
    earlier = [WorkflowMessage(scratchpad="earlier")]

    await run(new({"a": ""}, a, judge=judge), workflow_messages=earlier, lesson="be brief")

    for call in (*a.calls, *judge.calls):
        assert call.job is JOB
        assert call.reasoner is REASONER
        assert call.previous == earlier
        assert call.lesson == "be brief"
    assert a.calls[0].texts == []
    assert judge.calls[0].texts == ["a"]


async def test_the_reasoner_is_the_calls_and_not_the_builds(new: Make) -> None:
    async def ask(call: Call) -> str:
        return await call.reasoner.infer(None)  # type: ignore[arg-type]

    workflow = new({"a": ""}, Say("a", ask))

    said = [(await workflow.aexecute(JOB, Namesake(name))).scratchpad for name in ("first", "second")]

    assert said == ["first", "second"]


async def test_what_an_operator_does_to_its_lists_stays_with_it(new: Make) -> None:
    async def vandalise(call: Call) -> str:
        call.messages.clear()
        call.previous.append(WorkflowMessage(scratchpad="forged"))
        return "done"

    d, earlier = Say("d"), [WorkflowMessage(scratchpad="earlier")]
    vandals = [Say("b", vandalise), Say("c", vandalise)]

    message = await run(new({"a": "", "b": "a", "c": "a", "d": "abc"}, d, *vandals), workflow_messages=earlier)

    assert message.scratchpad == "d(a done done)"
    assert d.calls[0].previous == earlier
    assert [message.scratchpad for message in earlier] == ["earlier"]


# Editing


async def test_operators_are_found_by_id_and_listed_in_order_of_adding(new: Make) -> None:
    workflow = new({"b": "", "a": "b"})

    assert ids(workflow.get_operators()) == ["b", "a"]
    assert workflow.get_operator("a") is workflow.get_operators()[1]
    assert workflow.get_operator("nobody") is None


async def test_an_operator_may_be_put_before_others_that_come_later(engine: type[Workflow]) -> None:
    workflow, a, b, c = engine(), Say("a"), Say("b"), Say("c")

    workflow.add_operator(a, next_ops=[b, c])
    workflow.add_operator(c, previous_ops=[b])
    workflow.add_operator(b)

    assert (await run(workflow)).scratchpad == "c(a b(a))"


async def test_adding_an_operator_again_adds_edges(engine: type[Workflow]) -> None:
    workflow, a, b = engine(), Say("a"), Say("b")

    workflow.add_operator(a)
    workflow.add_operator(b)
    workflow.add_operator(b, previous_ops=[a])

    assert (await run(workflow)).scratchpad == "b(a)"


async def test_a_removed_operator_leaves_with_its_edges(new: Make) -> None:
    workflow = new({"a": "", "b": "a", "c": "ab"})
    await run(workflow)

    workflow.remove_operator(Say("b"))

    assert ids(workflow.get_operators()) == ["a", "c"]
    assert (await run(workflow)).scratchpad == "c(a)"


async def test_an_updated_operator_takes_the_place_of_the_old(new: Make) -> None:
    async def shout(call: Call) -> str:
        return "B!"

    workflow = new({"a": "", "b": "a", "c": "b"})
    await run(workflow)

    workflow.update_operator(Say("b", shout))

    assert ids(workflow.get_operators()) == ["a", "b", "c"]
    assert (await run(workflow)).scratchpad == "c(B!)"


async def test_assigned_max_rounds_and_name_count_from_the_next_run_on(new: Make) -> None:
    workflow = new({"a": ""}, judge=Judge(*[fault("again")] * 3))
    for rounds in (1, 2):
        workflow.max_rounds = rounds
        workflow.name = f"of {rounds} rounds"
        told = [event async for event in workflow.stream(JOB, REASONER, only=[RunStarted, RoundStarted])]
        assert [event.workflow for event in told if isinstance(event, RunStarted)] == [workflow.name]
        assert [event.round for event in told if isinstance(event, RoundStarted)] == [*range(1, rounds + 1)]


async def test_an_assigned_policy_counts_from_the_next_run_on(new: Make) -> None:
    failures: list[ValueError] = []

    async def work(call: Call) -> str:
        if not failures:
            return "a"
        raise failures.pop()

    workflow = new()
    workflow.add_operator(Say("a", work))
    assert (await run(workflow)).scratchpad == "a"
    workflow.policy = Policy(Retry(2, first_delay=0.001, on=ValueError))
    failures.append(ValueError("busy"))
    assert (await run(workflow)).scratchpad == "a"


async def test_an_assigned_budget_counts_from_the_next_run_on(new: Make) -> None:
    workflow = new()
    workflow.add_operator(Say("a", lambda call: asyncio.sleep(0.05, "a")))
    assert (await run(workflow)).scratchpad == "a"
    workflow.budget = Budget(seconds=0.001)
    with pytest.raises(BudgetError):
        await run(workflow)


async def test_functions_are_removed_and_updated_as_they_are_added(new: Make) -> None:
    def facts(job: Job) -> str:
        return "facts"

    def short(facts: str) -> str:
        return f"short {facts}"

    def check(text: str) -> str:
        return f"checked {text}"

    def changed() -> Callable[[Job], str]:
        def facts(job: Job) -> str:
            return "news"

        return facts

    workflow = new({})
    workflow.add_operator(facts)
    workflow.add_operator(short, [facts])
    workflow.add_operator(check, [short])
    workflow.remove_operator(check)
    assert (await run(workflow)).scratchpad == "short facts"
    replacement = changed()
    workflow.update_operator(replacement)
    assert (await run(workflow)).scratchpad == "short news"
    workflow.add_operator(check, [replacement])
    workflow.remove_operator("short")
    assert ids(workflow.get_operators()) == ["facts", "check"]
    assert (await run(workflow)).scratchpad == "checked news"
    for edit in (workflow.remove_operator, workflow.update_operator):
        with pytest.raises(InvalidError, match="is not in the workflow"):
            edit(short)
    with pytest.raises(InvalidError, match="did you mean 'facts'"):
        workflow.remove_operator("fatcs")
    with pytest.raises(InputError, match="expected an operator, a workflow or a function, got the text 'facts'"):
        workflow.update_operator("facts")  # type: ignore[arg-type]


async def test_the_evaluator_is_set_changed_and_taken_away(new: Make) -> None:
    workflow = new({"a": ""})

    said: list[str] = []
    for judge in (Judge(PRAISE), Judge(WorkflowMessage(evaluation="great")), None):
        workflow.set_evaluator(judge)
        said.append((await run(workflow)).evaluation)

    assert said == ["good", "great", ""]


async def test_an_edit_does_not_disturb_a_run_in_flight_and_the_next_run_sees_it(new: Make) -> None:
    started, release = asyncio.Event(), asyncio.Event()

    async def wait(call: Call) -> str:
        started.set()
        await release.wait()
        return "a"

    workflow = new({"a": "", "b": "a", "c": "b"}, Say("a", wait))
    running = asyncio.create_task(run(workflow))
    await started.wait()
    workflow.remove_operator(Say("b"))
    workflow.add_operator(Say("d"), previous_ops=[Say("a")])
    workflow.set_evaluator(Judge(PRAISE))
    release.set()

    assert (await running).scratchpad == "c(b(a))"
    assert (await run(workflow)).scratchpad == "c\n\nd(a)"


# Checking and building


def test_no_round_at_all_is_refused(engine: type[Workflow]) -> None:
    wrong: Any
    for wrong, code in ((0, "not-positive"), (1.5, "no-count"), ("3", "no-number"), (True, "no-number")):
        with pytest.raises(InvalidError, match=rf"\[{code}\] workflow 'w'.max_rounds: "):
            engine(max_rounds=wrong, name="w")


def _empty(workflow: Workflow) -> None:
    pass


def _cycle(workflow: Workflow) -> None:
    a, b, c = Say("a"), Say("b"), Say("c")
    workflow.add_operator(a, previous_ops=[c])
    workflow.add_operator(b, previous_ops=[a])
    workflow.add_operator(c, previous_ops=[b])


def _own_cycle(workflow: Workflow) -> None:
    a = Say("a")
    workflow.add_operator(a, previous_ops=[a])


def _doubles(workflow: Workflow) -> None:
    workflow.add_operator(Say("a"))
    workflow.add_operator(Say("a"))


def _double_judge(workflow: Workflow) -> None:
    workflow.add_operator(Say("judge"))
    workflow.set_evaluator(Judge())


def _unknown_before(workflow: Workflow) -> None:
    workflow.add_operator(Say("facts"))
    workflow.add_operator(Say("check"), previous_ops=[Say("fact")])


def _unknown_after(workflow: Workflow) -> None:
    workflow.add_operator(Say("a"), next_ops=[Say("b")])


def _everything(workflow: Workflow) -> None:
    _doubles(workflow)
    _unknown_before(workflow)
    _unknown_after(workflow)
    b, c = Say("b"), Say("c")
    workflow.add_operator(b, previous_ops=[c])
    workflow.add_operator(c, previous_ops=[b], next_ops=[Say("d")])


@pytest.mark.parametrize(
    ("edit", "issues"),
    [
        (_empty, [("no-operators", "")]),
        (_cycle, [("cycle", "")]),
        (_own_cycle, [("cycle", "")]),
        (_doubles, [("duplicate-id", "a")]),
        (_double_judge, [("duplicate-id", "judge")]),
        (_unknown_before, [("unknown-operator", "check")]),
        (_unknown_after, [("unknown-operator", "b")]),
        (
            _everything,
            [
                ("duplicate-id", "a"),
                ("unknown-operator", "check"),
                ("unknown-operator", "d"),
                ("cycle", ""),
            ],
        ),
    ],
)
async def test_all_that_is_wrong_is_said_at_once(
    engine: type[Workflow], edit: Callable[[Workflow], None], issues: list[tuple[str, str]]
) -> None:
    workflow = engine(name="broken")
    edit(workflow)

    with pytest.raises(InvalidError, match="'broken' cannot be built") as caught:
        await run(workflow)

    assert [(issue.code, issue.where) for issue in caught.value.issues] == issues


async def test_a_cycle_is_named_and_a_near_name_suggested(engine: type[Workflow]) -> None:
    workflow = engine()
    _cycle(workflow)
    _unknown_before(workflow)

    with pytest.raises(InvalidError) as caught:
        await run(workflow)

    text = str(caught.value)
    assert any(cycle in text for cycle in ("a → b → c → a", "b → c → a → b", "c → a → b → c"))
    assert "did you mean 'facts'?" in text


def test_it_is_built_once_whatever_number_of_threads_calls_first(
    engine: type[Workflow], new: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    builds: list[Plan] = []
    build = engine._build  # pyright: ignore[reportPrivateUsage]

    def count(workflow: Workflow, plan: Plan) -> Any:
        builds.append(plan)
        time.sleep(0.02)  # so that the others arrive meanwhile
        return build(workflow, plan)

    monkeypatch.setattr(engine, "_build", count)
    workflow = new({"a": "", "b": "a"})
    start = threading.Barrier(8)

    def first_call(_: int) -> str:
        start.wait()
        return workflow.execute(JOB, REASONER).scratchpad

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(first_call, range(8))) == ["b(a)"] * 8
    assert len(builds) == 1

    workflow.add_operator(Say("c"), previous_ops=[Say("b")])
    assert [workflow.execute(JOB, REASONER).scratchpad for _ in range(3)] == ["c(b(a))"] * 3
    assert len(builds) == 2


async def test_the_model_is_looked_for_only_where_an_operator_may_ask_it(new: Make) -> None:
    class Unconfigured(Namesake):
        looked = 0

        def check_model(self) -> None:
            self.looked += 1
            raise InputError("no model")

    class Asks(Say):
        asks_model = True

    reasoner = Unconfigured()
    inner, outer = new({"a": ""}), BuiltinWorkflow(name="outer")
    inner.name = "inner"
    outer.add_operator(inner)
    assert (await inner.aexecute(JOB, reasoner)).scratchpad == "a"
    assert reasoner.looked == 0
    assert (await outer.aexecute(JOB, reasoner)).scratchpad == "a"
    assert reasoner.looked == 1

    inner.update_operator(Asks("a"))  # the outer workflow keeps its build
    for workflow in (inner, outer):
        with pytest.raises(InputError, match="no model"):
            await workflow.aexecute(JOB, reasoner)


def test_a_broken_workflow_can_be_mended_and_run(new: Make) -> None:
    workflow = new()
    with pytest.raises(InvalidError):
        workflow.execute(JOB, REASONER)

    workflow.add_operator(Say("a"))

    assert workflow.execute(JOB, REASONER).scratchpad == "a"


# Failure and cancellation


async def test_an_answer_that_is_no_message_is_an_operator_error(new: Make) -> None:
    async def nonsense(call: Call) -> Any:
        return {"scratchpad": "?"}

    with pytest.raises(OperatorError, match="execute returned dict, not a WorkflowMessage or text"):
        await run(new({"a": ""}, Say("a", nonsense)))


@pytest.mark.parametrize("ending", ["failure", "cancellation"])
async def test_when_a_run_ends_early_no_operator_of_it_still_runs(new: Make, ending: str) -> None:
    running: set[str] = set()
    everyone = asyncio.Event()

    async def work(call: Call, name: str) -> str:
        running.add(name)
        try:
            if len(running) == 3:
                everyone.set()
            await everyone.wait()
            if ending == "failure" and name == "b":
                raise ValueError(name)
            await asyncio.sleep(60)
            return name
        finally:
            await asyncio.sleep(0)
            running.remove(name)

    operators = [Say(op_id, lambda call, op_id=op_id: work(call, op_id)) for op_id in "abc"]
    task = asyncio.create_task(run(new({"a": "", "b": "", "c": ""}, *operators)))
    await everyone.wait()
    if ending == "cancellation":
        task.cancel()
    with pytest.raises(OperatorError if ending == "failure" else asyncio.CancelledError):
        await task

    assert running == set()


@pytest.mark.parametrize("door", ["aexecute", "arun"])
@pytest.mark.parametrize("ending", ["success", "failure", "cancellation"])
def test_a_run_leaves_nothing_for_the_garbage_collector(new: Make, without_gc: None, ending: str, door: str) -> None:
    started = asyncio.Event()

    async def work(call: Call) -> str:
        if ending == "failure":
            raise ValueError
        if ending == "cancellation":
            started.set()
            await asyncio.sleep(60)
        return "done"

    workflow = new({"a": "", "b": "", "c": "ab"}, Forgetful("a"), Forgetful("b", work), Forgetful("c"))
    left: list[weakref.ref[Namesake]] = []

    async def many_runs() -> None:
        for _ in range(amount(30, 300)):
            reasoner = Namesake()
            left.append(weakref.ref(reasoner))
            task = asyncio.create_task(getattr(workflow, door)(JOB, reasoner))
            if ending == "cancellation":
                await started.wait()
                started.clear()
                task.cancel()
            with suppress(OperatorError, asyncio.CancelledError):
                await task
            del task, reasoner
            await asyncio.sleep(0)

    asyncio.run(many_runs())  # the test's own task may be of a kind that keeps errors

    assert sum(ref() is not None for ref in left) == 0


@pytest.mark.parametrize("door", ["start", "stream", "stream_text", "map"])
def test_a_failed_run_with_a_handle_or_a_stream_or_in_a_map_leaves_nothing_either(
    engine: type[Workflow], without_gc: None, door: str
) -> None:
    class Marker: ...

    left: list[weakref.ref[Marker]] = []

    async def fail(item: str) -> str:
        marker = Marker()
        left.append(weakref.ref(marker))
        raise ValueError(item)

    async def run(flow: Workflow) -> None:
        if door in ("start", "map"):
            await flow.start("x")
            return
        async for _ in flow.stream("x") if door == "stream" else flow.stream_text("x"):
            pass

    async def fifty_runs() -> None:
        flow = engine(Map(each=fail, over=lambda job: [job.goal]) if door == "map" else operator(fail))
        for _ in range(50):
            with suppress(OperatorError):
                await run(flow)
            await asyncio.sleep(0)

    asyncio.run(fifty_runs())

    assert len(left) == 50
    assert sum(ref() is not None for ref in left) == 0


# Doors


async def test_execute_where_a_loop_runs_names_the_way_out(engine: type[Workflow], new: Make) -> None:
    workflow = new({"a": ""})

    with pytest.raises(RunningLoopError, match=r"await flow\.aexecute"):
        workflow.execute(JOB, REASONER)


def test_an_operator_may_run_another_workflow_through_either_door(new: Make) -> None:
    inner = new({"x": "", "y": "x"})

    async def awaited(call: Call) -> str:
        return (await inner.aexecute(call.job, call.reasoner)).scratchpad

    async def threaded(call: Call) -> str:
        return (await asyncio.to_thread(inner.execute, call.job, call.reasoner)).scratchpad

    outer = new({"a": "", "b": "", "c": "ab"}, Say("a", awaited), Say("b", threaded))

    assert outer.execute(JOB, REASONER).scratchpad == "c(y(x) y(x))"


def test_calls_without_a_loop_share_one_in_the_background(new: Make) -> None:
    loops: set[int] = set()

    async def note(call: Call) -> str:
        loops.add(id(asyncio.get_running_loop()))
        return ""

    workflow = new({"a": ""}, Say("a", note))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: workflow.execute(JOB, REASONER), range(8)))

    assert len(loops) == 1


def test_the_first_calls_of_many_threads_start_one_background_loop() -> None:
    code = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
from operad.runtime.values.sync import run_sync
sys.setswitchinterval(1e-6)
start = threading.Barrier(8)
async def nothing(): pass
def call(_): start.wait(); run_sync(nothing, "")
with ThreadPoolExecutor(8) as pool: list(pool.map(call, range(8)))
print(sum(thread.name.startswith("operad-") for thread in threading.enumerate()))
"""
    assert _python(code).stdout == "1\n"


@pytest.mark.parametrize("door", ["execute", "run"])
def test_an_error_through_the_synchronous_door_leaves_nothing_behind(new: Make, without_gc: None, door: str) -> None:
    async def fail(call: Call) -> str:
        if call.lesson:
            return ""
        raise ValueError

    workflow = new({"a": ""}, Forgetful("a", fail))
    left: list[weakref.ref[Namesake]] = []
    for _ in range(50):
        reasoner = Namesake()
        left.append(weakref.ref(reasoner))
        with suppress(OperatorError):
            getattr(workflow, door)(JOB, reasoner)
        del reasoner
    workflow.execute(JOB, REASONER, lesson="so that the background loop lets go of the last one")

    assert sum(ref() is not None for ref in left) == 0


def test_eight_threads_with_loops_of_their_own_share_one_workflow(new: Make) -> None:
    async def tag(call: Call) -> str:
        await asyncio.sleep(0)
        return f"{call.job.goal}:{await call.reasoner.infer(None)}"  # type: ignore[arg-type]

    def shape(a: str) -> Say:
        return Say(a, tag)

    workflow = new({"a": "", "b": "a", "c": "a", "d": "bc"}, *map(shape, "abc"))

    def fifty_calls(thread: int) -> list[str]:
        async def calls() -> list[str]:
            names = [f"{thread}.{call}" for call in range(50)]
            runs = (workflow.aexecute(Job(goal=name), Namesake(name)) for name in names)
            return [message.scratchpad for message in await asyncio.gather(*runs)]

        return asyncio.run(asyncio.wait_for(calls(), 30))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            said = [text for texts in pool.map(fifty_calls, range(8)) for text in texts]
    finally:
        sys.setswitchinterval(interval)

    expected = [f"d({name}:{name} {name}:{name})" for name in (f"{t}.{c}" for t in range(8) for c in range(50))]
    assert Counter(map(str.__eq__, said, expected)) == {True: 400}


# Rounds


async def test_the_verdict_bears_what_it_judged_unless_it_says_otherwise(new: Make) -> None:
    async def give(call: Call) -> WorkflowMessage:
        return WorkflowMessage(scratchpad="text", outputs={"x": 1, "y": 1})

    judge = Judge(WorkflowMessage(evaluation="fine", outputs={"y": 2}))

    message = await run(new({"a": ""}, Say("a", give), judge=judge))

    assert (message.scratchpad, message.outputs, message.operator_id) == ("text", {"x": 1, "y": 2}, "judge")


async def test_the_evaluator_sees_all_tails_in_order_of_adding(new: Make) -> None:
    judge = Judge(PRAISE)

    message = await run(new({"r": "", "q": "r", "p": "r"}, judge=judge))

    assert judge.calls[0].texts == ["q(r)", "p(r)"]
    assert message.scratchpad == "q(r)\n\np(r)"
    assert [part.operator_id for part in message.parts] == ["q", "p"]


async def test_one_run_learns_nothing_from_another(new: Make) -> None:
    a, judge = Say("a"), Judge(fault("one", "a"), PRAISE, PRAISE)
    workflow = new({"a": ""}, a, judge=judge, max_rounds=2)

    await run(workflow)
    await run(workflow)

    assert [(call.lesson, len(call.messages)) for call in a.calls] == [(None, 0), ("one", 0), (None, 0)]


async def test_usage_adds_up_over_operators_evaluator_and_rounds(new: Make) -> None:
    async def spend(call: Call) -> str:
        emit(ModelAnswered(model="m", usage=Usage(calls=1, prompt_tokens=10, completion_tokens=1, seconds=0.5)))
        emit(ModelAnswered(model="m", usage=Usage(calls=1, prompt_tokens=5)))
        return "spent"

    class Expensive(Judge):
        async def execute(self, *args: Any, **kwargs: Any) -> WorkflowMessage | str:
            emit(ModelAnswered(model="m", usage=Usage(calls=1, completion_tokens=100)))
            return await super().execute(*args, **kwargs)

    judge, b = Expensive(fault("more", "a"), PRAISE), Say("b")
    workflow = new({"a": "", "b": "a"}, Say("a", spend), b, judge=judge, max_rounds=2)

    message = await run(workflow)

    assert message.usage == Usage(calls=6, prompt_tokens=30, completion_tokens=202, seconds=1.0)
    assert b.calls[0].messages[0].usage == Usage(calls=2, prompt_tokens=15, completion_tokens=1, seconds=0.5)


# What importing costs


def _python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)


# ---------------------------------------------------------------- what should not happen, but does


@pytest.mark.parametrize("leaving", [SystemExit(0), SystemExit("so long")])
def test_an_operator_that_exits_fails_like_any_other_and_later_calls_go_on(new: Make, leaving: SystemExit) -> None:
    async def leave(_: Call) -> str:
        raise leaving

    workflow = new()
    workflow.add_operator(Say("a", leave))
    with pytest.raises(OperatorError) as caught:
        workflow.execute(JOB, REASONER)
    assert caught.value.__cause__ is leaving
    workflow.update_operator(Say("a"))
    assert workflow.execute(JOB, REASONER).scratchpad == "a"


def test_an_operator_that_interrupts_does_not_stop_the_loop_that_others_share(new: Make) -> None:
    async def interrupt(_: Call) -> str:
        raise KeyboardInterrupt

    workflow = new()
    workflow.add_operator(Say("a", interrupt))
    with pytest.raises(KeyboardInterrupt):
        workflow.execute(JOB, REASONER)
    workflow.update_operator(Say("a"))
    assert workflow.execute(JOB, REASONER).scratchpad == "a"


def test_adding_an_operator_asks_no_other_operator_for_its_id():
    asked: list[str] = []

    class Named(BaseOperator[str]):
        def __init__(self, name: str) -> None:
            self._name = name

        def get_id(self) -> str:
            asked.append(self._name)
            return self._name

    first, second = Named("first"), Named("second")
    workflow = BuiltinWorkflow()
    workflow.add_operator(first)
    asked.clear()
    workflow.add_operator(second)
    assert set(asked) == {"second"}


def test_an_operator_is_asked_whether_its_id_is_taken_by_another_one():
    taken_ids: list[dict[str, bool]] = []

    class Asking(BaseOperator[str]):
        def get_id(self) -> str:
            return "asking"

        def settle_id(self, is_taken: Callable[[str], bool]) -> None:
            taken_ids.append({name: is_taken(name) for name in ("asking", "later", "free")})

    asking = Asking()
    workflow = BuiltinWorkflow(evaluator=Asking())
    workflow.add_operator(asking, next_ops=["later"])
    workflow.add_operator(asking)
    assert taken_ids[-1] == {"asking": True, "later": True, "free": False}


def test_a_run_is_cancelled_though_its_only_operator_suppresses_that():
    class Stubborn(BaseOperator[str]):
        def get_id(self) -> str:
            return "stubborn"

        async def execute(self, *_: Any, **__: Any) -> str:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            return "done"

    async def main() -> None:
        workflow = BuiltinWorkflow()
        workflow.add_operator(Stubborn())
        run = asyncio.ensure_future(workflow.arun("wait", model=REASONER))
        for _ in range(10):
            await asyncio.sleep(0)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    asyncio.run(main())
