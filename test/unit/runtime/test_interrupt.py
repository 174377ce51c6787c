"""Interrupts: a run asks a person, waits without working, and goes on without doing anything twice."""

import asyncio
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import date
from time import sleep
from typing import Any, Literal

import pytest
from amounts import sample
from fake_operators import Echo, chain
from pydantic import BaseModel, field_validator
from typing_extensions import TypeAliasType

from operad.operators import Operator, OperatorConfig
from operad.runtime import (
    Action,
    Budget,
    BudgetError,
    BuiltinWorkflow,
    InputError,
    InvalidError,
    Job,
    Limits,
    Map,
    MonoModelReasoner,
    OperatorError,
    OperatorTimeoutError,
    PausedError,
    Policy,
    Result,
    Retry,
    RunContext,
    RunningLoopError,
    Timeout,
    Tool,
    Workflow,
    WorkflowMessage,
    WorkflowStatus,
    events,
    interrupt,
)
from operad.runtime.events.stream import CROWDED
from operad.runtime.testing import CallTools, Say, ScriptedModel, ScriptedReasoner, run_on_fake_clock
from operad.runtime.values.questions import Question, check_answers
from operad.runtime.workflow import map as items_of_maps

JOB = Job(goal="goal")
NOBODY = ScriptedReasoner([])
RENDEZVOUS = 10.0
YES_OR_NO = {"type": "boolean"}


def ask(op_id, question="Well?", schema=None):
    """An operator that asks and says what it was told."""

    async def work():
        return f"{op_id}: {await interrupt(question, schema)}"

    return Echo(op_id, work)


def side_by_side(engine, *operators, **options):
    workflow = engine(**options)
    for operator in operators:
        workflow.add_operator(operator)
    return workflow


def now():
    return asyncio.get_running_loop().time()


def on_fake_clock(main):
    """Run it; if it hangs, that is an error."""
    return run_on_fake_clock(asyncio.wait_for(main, 10_000))


async def paused(workflow, run_id="r"):
    """Run until it asks: what it asks."""
    with pytest.raises(PausedError) as raised:
        await workflow.aexecute(JOB, NOBODY, run_id=run_id)
    assert raised.value.run_id == run_id
    return [question.id for question in raised.value.questions]


async def still_paused(workflow, answers, run_id="r"):
    """Answer some: what is still asked."""
    with pytest.raises(PausedError) as raised:
        await workflow.aresume(run_id, answers)
    return [question.id for question in raised.value.questions]


def here() -> Any:
    """The operator's scope that this code runs in."""
    return events.current_scope()


async def streamed(workflow, answers, reasoner: Any = NOBODY, **options):
    """The events of a run in which a question is answered as soon as it is asked."""
    heard = []
    stream = workflow.stream(JOB, reasoner, run_id="r", **options)
    async for event in stream:
        heard.append(event)
        if isinstance(event, events.Interrupted):
            stream.answer({event.interrupt_id: answers[event.interrupt_id]})
    return heard


async def streamed_later(workflow, seconds, answer, reasoner: Any = NOBODY):
    """The text that a run ends with in which each question is answered so many seconds later."""
    last: Any = None
    stream = workflow.stream(JOB, reasoner, run_id="r")
    async for event in stream:
        last = event
        if isinstance(event, events.Interrupted):
            await asyncio.sleep(seconds)
            stream.answer({event.interrupt_id: answer})
    return last.message.scratchpad


# The three doors


async def test_a_stream_yields_the_question_and_goes_on_with_the_answer(engine):
    before, after = Echo("before"), Echo("after")
    workflow = chain(engine, before, ask("a", "Shall I?", YES_OR_NO), after)
    heard = await streamed(workflow, {"a": True})
    [asked] = [event for event in heard if isinstance(event, events.Interrupted)]
    assert (asked.interrupt_id, asked.question, asked.schema, asked.path) == ("a", "Shall I?", YES_OR_NO, ("a",))
    [resumed] = [event for event in heard if isinstance(event, events.Resumed)]
    assert resumed.interrupt_id == "a"
    assert heard[-1].message.scratchpad == "after(a: True)"
    assert (before.calls, after.calls) == (1, 1)


async def test_aexecute_raises_what_is_asked_and_aresume_goes_on(engine):
    before, after = Echo("before"), Echo("after")
    workflow = chain(engine, before, ask("a", "Shall I?", YES_OR_NO), after)
    with pytest.raises(PausedError, match="run 'r' waits for answers; give them to resume") as raised:
        await workflow.aexecute(JOB, NOBODY, run_id="r")
    [question] = raised.value.questions
    assert (question.id, question.text, question.schema_) == ("a", "Shall I?", YES_OR_NO)
    assert "a: Shall I?" in str(raised.value)
    assert list(workflow.questions("r")) == [question]
    assert (await workflow.aresume("r", {"a": True})).scratchpad == "after(a: True)"
    assert (before.calls, after.calls) == (1, 1)


def test_execute_raises_what_is_asked_and_resume_goes_on(engine):
    before = Echo("before")
    workflow = chain(engine, before, ask("a"), ask("b"))
    with pytest.raises(PausedError):
        workflow.execute(JOB, NOBODY, run_id="r")
    with pytest.raises(PausedError) as raised:
        workflow.resume("r", {"a": 1})
    assert [question.id for question in raised.value.questions] == ["b"]
    assert workflow.resume("r", {"b": 2}).scratchpad == "b: 2"
    assert before.calls == 1


async def test_a_stream_of_text_raises_what_is_asked_and_aresume_goes_on(engine):
    before, after = Echo("before"), Echo("after")
    workflow = chain(engine, before, ask("a", "Shall I?", YES_OR_NO), after)
    with pytest.raises(PausedError, match="run 'r' waits for answers") as raised:
        await anext(workflow.stream_text("figs", NOBODY, run_id="r"))
    assert [question.id for question in raised.value.questions] == ["a"]
    result = await workflow.aresume("r", {"a": True})
    assert result
    assert result.text == "after(a: True)"
    assert (before.calls, after.calls) == (1, 1)


def test_a_stream_of_text_without_an_event_loop_raises_what_is_asked_and_resume_goes_on(engine):
    workflow = chain(engine, ask("a"))
    with pytest.raises(PausedError):
        list(workflow.stream_text("figs", NOBODY, run_id="r"))
    result = workflow.resume("r", {"a": 1})
    assert result
    assert result.text == "a: 1"


async def test_a_stream_of_text_goes_on_if_a_listener_has_the_question_answered_at_once(engine):
    answering = []

    def answer(event):
        if isinstance(event, events.Interrupted):
            answering.append(asyncio.ensure_future(workflow.answer("r", {event.interrupt_id: "Figs."})))

    workflow = chain(engine, ask("a"), listeners=[answer])
    assert "".join([piece async for piece in workflow.stream_text("figs", NOBODY, run_id="r")]) == "a: Figs."
    await asyncio.gather(*answering)
    with pytest.raises(InputError, match="no run with the id 'r'"):
        workflow.questions("r")


@pytest.mark.parametrize("turns", range(5))
async def test_a_run_that_ends_in_the_moment_before_it_would_be_paused_is_not_waited_for_forever(engine, turns):
    answering = []

    async def answer(asked):
        for _ in range(turns):
            await asyncio.sleep(0)
        await workflow.answer(asked.run_id, {asked.interrupt_id: "yes"})

    def listen(event):
        if isinstance(event, events.Interrupted):
            answering.append(asyncio.ensure_future(answer(event)))

    workflow = engine(ask("asks"), listeners=[listen])
    assert (await asyncio.wait_for(workflow.arun("goal"), RENDEZVOUS)).text == "asks: yes"


async def test_a_run_that_a_stream_of_text_left_paused_emits_any_number_of_events_after_the_answer(engine):
    def talk():
        for number in range(2 * CROWDED):
            events.emit(events.AnswerRejected(error="no", repair=number))
        return "talked"

    workflow = chain(engine, ask("a"), Echo("talks", talk), Echo("last"))
    with pytest.raises(PausedError):
        await anext(workflow.stream_text("figs", NOBODY, run_id="r"))
    result = await asyncio.wait_for(workflow.aresume("r", {"a": 1}), RENDEZVOUS)
    assert result
    assert result.text == "last(talked)"


async def test_closing_a_stream_of_text_ends_the_run_although_an_operator_asks(engine):
    before = asyncio.all_tasks()
    asked, wait = asyncio.Event(), asyncio.Event()
    workflow = side_by_side(
        engine,
        ask("a"),
        Echo("b", wait.wait),
        listeners=[lambda event: asked.set() if isinstance(event, events.Interrupted) else None],
    )
    stream = workflow.stream_text("figs", NOBODY, run_id="r")
    reading = asyncio.ensure_future(anext(stream))
    await asyncio.wait_for(asked.wait(), RENDEZVOUS)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert asyncio.all_tasks() == before
    with pytest.raises(InputError, match="no run with the id 'r'"):
        workflow.questions("r")


async def test_a_stream_of_text_raises_the_error_of_an_operator_beside_the_one_that_asks(engine):
    asked = asyncio.Event()

    async def fails():
        await asked.wait()
        raise ValueError("wrong")

    workflow = side_by_side(
        engine,
        ask("a"),
        Echo("b", fails),
        listeners=[lambda event: asked.set() if isinstance(event, events.Interrupted) else None],
    )
    with pytest.raises(OperatorError, match="wrong"):
        await asyncio.wait_for(anext(workflow.stream_text("figs", NOBODY)), RENDEZVOUS)


def test_a_fresh_id_is_found_in_the_error(engine):
    workflow = chain(engine, ask("a"))
    with pytest.raises(PausedError) as raised:
        workflow.execute(JOB, NOBODY)
    assert workflow.resume(raised.value.run_id, {"a": 1}).scratchpad == "a: 1"


async def test_resume_in_a_running_loop_says_what_to_await(engine):
    workflow = chain(engine, ask("a"))
    await paused(workflow)
    with pytest.raises(RunningLoopError, match="aresume"):
        workflow.resume("r", {"a": 1})
    assert (await workflow.aresume("r", {"a": 1})).scratchpad == "a: 1"


def test_another_event_loop_may_answer(engine):
    workflow = chain(engine, ask("a"))
    with pytest.raises(PausedError):
        workflow.execute(JOB, NOBODY, run_id="r")  # in the loop in the background
    assert asyncio.run(workflow.aresume("r", {"a": 1})).scratchpad == "a: 1"


async def test_a_stream_is_answered_by_another_task_while_its_consumer_waits(engine):
    workflow = chain(engine, ask("a"), Echo("b"))
    last: Any = None
    async for event in workflow.stream(JOB, NOBODY, run_id="r"):
        last = event
        if isinstance(event, events.Interrupted):
            asyncio.get_running_loop().call_later(0.01, lambda: asyncio.ensure_future(workflow.answer("r", True)))
    assert last.message.scratchpad == "b(a: True)"


async def test_a_run_whose_stream_has_a_consumer_is_not_resumed(engine):
    workflow = chain(engine, ask("a"))
    stream = workflow.stream(JOB, NOBODY, run_id="r")
    async for event in stream:
        if isinstance(event, events.Interrupted):
            with pytest.raises(InputError, match=r"the events of run 'r' have a consumer.*stream.answer\(answers\)"):
                await workflow.aresume("r", {"a": 1})
            assert [question.id for question in stream.questions] == ["a"]
            stream.answer(1)
    with pytest.raises(InputError, match="has not started, or has ended"):
        stream.answer(1)


def test_a_loop_without_an_event_loop_answers_the_stream(engine):
    workflow, last = chain(engine, ask("a"), ask("b"), Echo("c")), None
    stream = workflow.stream(JOB, NOBODY, run_id="r")
    with pytest.raises(InputError, match="has not started"):
        stream.answer(1)
    for event in stream:
        if isinstance(event, events.Interrupted):
            with pytest.raises(InvalidError, match="did you mean"):
                stream.answer({event.interrupt_id * 2: 1})
            stream.answer({event.interrupt_id: 1})
            sleep(0.05)  # the next question is asked meanwhile
        last = event
    assert isinstance(last, events.RunFinished)
    assert last.message.scratchpad == "c(b: 1)"


@pytest.mark.parametrize("only", [(), events.RunFinished])
def test_a_loop_without_an_event_loop_that_does_not_answer_ends_with_the_questions(engine, only):
    workflow = chain(engine, ask("a"), Echo("b"))
    with pytest.raises(PausedError) as raised:
        for _ in workflow.stream(JOB, NOBODY, run_id="r", only=only):
            pass
    assert [question.id for question in raised.value.questions] == ["a"]
    assert workflow.resume("r", {"a": 1}).text == "b(a: 1)"


def test_a_loop_without_an_event_loop_that_answers_one_of_two_questions_ends_with_the_other(engine):
    workflow = chain(engine)
    workflow.add_operator(ask("a"))
    workflow.add_operator(ask("b"))
    asked = []

    def consume(stream):
        for event in stream:
            if isinstance(event, events.Interrupted):
                asked.append(event.interrupt_id)
                if event.interrupt_id == "a":
                    stream.answer({"a": 1})

    with pytest.raises(PausedError) as raised:
        consume(workflow.stream(JOB, NOBODY, run_id="r"))
    assert asked == ["a", "b"]
    assert [question.id for question in raised.value.questions] == ["b"]
    assert workflow.resume("r", {"b": 2}).scratchpad == "a: 1\n\nb: 2"


def test_what_is_wrong_after_the_answer_is_raised_where_it_is_given(engine):
    def work():
        raise ValueError("wrong")

    workflow = chain(engine, ask("a"), Echo("b", work))
    with pytest.raises(PausedError):
        workflow.execute(JOB, NOBODY, run_id="r")
    with pytest.raises(OperatorError, match="wrong"):
        workflow.resume("r", {"a": 1})
    with pytest.raises(InputError, match="no run with the id"):
        workflow.resume("r", {"a": 1})


def test_an_event_loop_that_ends_ends_its_runs(engine):
    workflow = chain(engine, ask("a"))
    asyncio.run(paused(workflow))
    with pytest.raises(InputError, match="the run has ended, or its event loop was closed"):
        workflow.resume("r", {"a": 1})


# Answers


@pytest.mark.parametrize("wrong", ["yes", None, 1, [True]])
async def test_a_wrong_answer_is_a_typed_error_and_nothing_is_lost(engine, wrong):
    workflow = side_by_side(engine, ask("a", schema=YES_OR_NO), ask("b"))
    await paused(workflow)
    with pytest.raises(InvalidError) as raised:
        await workflow.aresume("r", {"a": wrong, "b": "fine"})
    assert [(issue.code, issue.where) for issue in raised.value.issues] == [("wrong-answer", "a")]
    assert {question.id for question in workflow.questions("r")} == {"a", "b"}
    message = await workflow.aresume("r", {"a": False, "b": "fine"})
    assert message.scratchpad == "a: False\n\nb: fine"


async def test_a_schema_may_be_given_as_an_example(engine):
    workflow = chain(engine, ask("a", schema="{name: string, age: integer}"))
    await paused(workflow)
    with pytest.raises(InvalidError) as raised:
        await workflow.aresume("r", {"a": {"name": "Ada", "age": "old"}})
    assert "age" in str(raised.value)
    assert "36" in (await workflow.aresume("r", {"a": {"name": "Ada", "age": 36}})).scratchpad


async def test_an_unknown_question_is_an_error_with_a_near_name(engine):
    workflow = chain(engine, ask("approval"))
    await paused(workflow)
    with pytest.raises(
        InvalidError, match=r"there is no open question with this id \(did you mean 'approval'\?\); open: approval"
    ):
        await workflow.aresume("r", {"aproval": 1})
    await workflow.aresume("r", {"approval": 1})


async def test_an_unknown_run_is_an_error_with_a_near_name(engine):
    workflow = chain(engine, ask("a"))
    await paused(workflow, "monday")
    for call in (
        lambda: workflow.aresume("mondai", {}),
        lambda: asyncio.to_thread(workflow.resume, "mondai", {}),
        lambda: asyncio.to_thread(workflow.questions, "mondai"),
    ):
        with pytest.raises(InputError, match=r"no run with the id 'mondai' is in progress \(did you mean 'monday'\?\)"):
            await call()
    await workflow.cancel("monday")


async def test_a_run_that_waits_keeps_its_id(engine):
    workflow = chain(engine, ask("a"))
    await paused(workflow)
    with pytest.raises(
        InputError, match=r"the run 'r' is paused and waits for answers: continue it with resume\('r', answers\)"
    ):
        await workflow.aexecute(JOB, NOBODY, run_id="r")
    await workflow.aresume("r", {"a": 1})
    assert await paused(workflow) == ["a"]  # it is free again
    await workflow.cancel("r")


async def test_an_id_may_be_used_again_at_once_when_its_run_has_ended(engine):
    asks = iter([False, True])

    async def work():
        return str(await interrupt("Well?")) if next(asks) else "said"

    workflow = chain(engine, Echo("a", work))
    assert (await workflow.start(JOB, NOBODY, run_id="r")).text == "said"
    again = workflow.start(JOB, NOBODY, run_id="r")
    with pytest.raises(PausedError):
        await again
    await workflow.answer("r", {"a": "Well."})
    assert (await again).text == "Well."


async def test_no_answer_at_all_leaves_it_waiting(engine):
    workflow = chain(engine, ask("a"))
    await paused(workflow)
    assert await asyncio.wait_for(still_paused(workflow, {}), RENDEZVOUS) == ["a"]
    await workflow.aresume("r", {"a": 1})


def test_outside_of_a_run_nobody_is_asked():
    with pytest.raises(InputError, match="no run is in progress here"):
        asyncio.run(interrupt("Well?"))


@pytest.mark.parametrize("schema", [{"type": "strnig"}, {"$ref": "#/$defs/no"}, '{"$ref": "#/$defs/no"}'], ids=str)
async def test_a_schema_that_cannot_be_used_is_an_error_of_the_operator(engine, schema):
    with pytest.raises(OperatorError) as raised:
        await asyncio.wait_for(chain(engine, ask("a", schema=schema)).aexecute(JOB, NOBODY), RENDEZVOUS)
    assert isinstance(raised.value.__cause__, InvalidError)


@pytest.mark.parametrize(
    ("words", "code"), [("In one sentence.", "no-form"), ("Boolean", "no-type"), ("yes or no", "no-form")]
)
async def test_a_schema_without_a_form_is_an_error_because_no_answer_could_be_checked(engine, words, code):
    with pytest.raises(OperatorError, match=rf"\[{code}\]") as raised:
        await chain(engine, ask("a", schema=words)).aexecute(JOB, NOBODY)
    assert isinstance(raised.value.__cause__, InvalidError)


Choice = TypeAliasType("Choice", Literal["yes", "no"])


class Approval(BaseModel):
    approve: bool
    until: date | None = None

    @field_validator("until")
    @classmethod
    def _check_until(cls, until):
        if until is not None and until.year < 2000:
            raise ValueError("too early")
        return until


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize(
    ("kind", "answer", "value"),
    [
        (Approval, {"approve": True, "until": "2026-01-02"}, Approval(approve=True, until=date(2026, 1, 2))),
        (list[date], ["2026-01-02"], [date(2026, 1, 2)]),
        (Literal["yes", "no"], "no", "no"),
        (Choice, "no", "no"),
        (Approval | None, None, None),
        (bool, False, False),
        (str, "well", "well"),
    ],
    ids=str,
)
async def test_an_answer_is_an_instance_of_the_type_that_is_asked_for(kind, answer, value, durable, tmp_path):
    got = []

    async def order(context: RunContext) -> str:
        got.append(await context.ask("Well?", kind))
        return "done"

    flow = BuiltinWorkflow(order, durable=tmp_path / "runs.db" if durable else None)
    with pytest.raises(PausedError):
        await flow.arun("x", run_id="r")
    with pytest.raises(InvalidError, match="wrong-answer"):
        await flow.aresume("r", {"order": {"approve": "perhaps"}})
    await flow.aresume("r", {"order": answer})
    assert got == [value]


async def test_an_answer_that_only_the_type_refuses_is_an_error_of_the_operator():
    async def order(context: RunContext) -> str:
        return str(await context.ask("Well?", Approval))

    flow = BuiltinWorkflow(order)
    with pytest.raises(PausedError):
        await flow.arun("x", run_id="r")
    with pytest.raises(OperatorError, match=r"the answer to 'Well\?' is not a valid Approval: until: .*too early"):
        await flow.aresume("r", {"order": {"approve": True, "until": "1999-01-01"}})


@pytest.mark.parametrize("word", ["bool", "boolean"])
async def test_a_word_is_a_type(engine, word):
    workflow = chain(engine, ask("a", schema=word))
    with pytest.raises(PausedError):
        await workflow.aexecute(JOB, NOBODY, run_id="r")
    with pytest.raises(InvalidError, match="is not of type 'boolean'"):
        await workflow.aresume("r", {"a": "no"})
    assert (await workflow.aresume("r", {"a": True})).scratchpad == "a: True"


async def test_a_run_that_fails_while_it_is_paused_keeps_its_error_for_whoever_resumes_it(engine):
    async def work():
        async def fail():
            await asyncio.sleep(0.01)
            raise ValueError("disk full")

        await asyncio.gather(interrupt("Well?"), fail())

    heard = []
    workflow = chain(engine, Echo("a", work), listeners=[heard.append])
    with pytest.raises(PausedError):
        await workflow.aexecute(JOB, NOBODY, run_id="r")
    while not any(isinstance(event, events.RunFailed) for event in heard):
        await asyncio.sleep(0.001)
    with pytest.raises(OperatorError, match="disk full"):
        await workflow.aresume("r", {"a": 1})
    with pytest.raises(InputError, match="no run with the id 'r'"):
        await workflow.aresume("r", {"a": 1})


async def test_an_operator_may_cancel_its_own_run(engine):
    async def work():
        await workflow.cancel("r")
        await asyncio.sleep(60)

    workflow = chain(engine, Echo("a", work))
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(workflow.aexecute(JOB, NOBODY, run_id="r"), RENDEZVOUS)


# Nothing runs twice


async def test_the_operator_goes_on_where_it_stood(engine):
    done = []

    async def work():
        done.append("before")
        first = await interrupt("First?")
        done.append("between")
        second = await interrupt("Second?")
        done.append("after")
        return f"{first} {second}"

    first, a, last = Echo("first"), Echo("a", work), Echo("last")
    workflow = chain(engine, first, a, last)
    assert await paused(workflow) == ["a"]
    assert await still_paused(workflow, {"a": 1}) == ["a#2"]
    assert (await workflow.aresume("r", {"a#2": 2})).scratchpad == "last(1 2)"
    assert done == ["before", "between", "after"]
    assert (first.calls, a.calls, last.calls) == (1, 1, 1)


async def test_what_does_not_depend_on_the_answer_goes_on_meanwhile(engine):
    a, other, after = ask("a"), Echo("other"), Echo("after")
    workflow = side_by_side(engine, a, other)
    workflow.add_operator(after, [other])
    workflow.add_operator(Echo("last"), [a, after])
    await paused(workflow)
    assert (other.calls, after.calls) == (1, 1)
    assert (await workflow.aresume("r", {"a": 1})).scratchpad == "last(a: 1 after(other()))"
    assert (a.calls, other.calls, after.calls) == (1, 1, 1)


async def test_the_next_round_asks_again_and_no_earlier(engine):
    blame = WorkflowMessage(status=WorkflowStatus.EXECUTION_ERROR, blame=("a",), lesson="Again.")
    judge = Echo("judge", lambda: blame if judge.calls == 1 else WorkflowMessage())
    other = Echo("other")
    workflow = side_by_side(engine, ask("a"), other, max_rounds=2)
    workflow.set_evaluator(judge)
    await paused(workflow)
    assert await still_paused(workflow, {"a": 1}) == ["a"]
    assert (await workflow.aresume("r", {"a": 2})).scratchpad == "a: 2\n\nother()"
    assert (other.calls, judge.calls) == (1, 2)


# When it is paused


def test_it_is_paused_only_when_nothing_else_can_go_on(engine):
    a, slow = ask("a"), Echo("slow", lambda: asyncio.sleep(50, "slow"))
    after = Echo("after", lambda: asyncio.sleep(50, "after"))
    workflow = side_by_side(engine, a, slow)
    workflow.add_operator(after, [slow])

    async def main():
        await paused(workflow)
        assert now() == 100
        await workflow.aresume("r", {"a": 1})

    on_fake_clock(main())


def test_a_retry_that_waits_can_go_on(engine, monkeypatch):
    monkeypatch.setattr("random.uniform", lambda low, high: high)

    def work():
        if b.calls == 1:
            raise ConnectionError("gone")
        return "b"

    b = Echo("b", work)
    workflow = side_by_side(engine, ask("a"), b, policy=Policy(retry=Retry(2, first_delay=7)))

    async def main():
        await paused(workflow)
        assert now() == 7
        assert (await workflow.aresume("r", {"a": 1})).scratchpad == "a: 1\n\nb"

    on_fake_clock(main())


def test_one_operator_may_ask_several_things_at_once(engine):
    async def work():
        return " ".join(await asyncio.gather(*(interrupt(f"{n}?") for n in range(3))))

    workflow = chain(engine, Echo("a", work))

    async def main():
        assert await paused(workflow) == ["a", "a#2", "a#3"]
        assert await still_paused(workflow, {"a#2": "y"}) == ["a", "a#3"]
        return (await workflow.aresume("r", {"a": "x", "a#3": "z"})).scratchpad

    assert on_fake_clock(main()) == "x y z"


async def test_answers_that_come_at_the_same_time_are_all_heard(engine):
    workflow = side_by_side(engine, ask("a"), ask("b"))
    await paused(workflow)
    resumed = [workflow.aresume("r", {"a": 1}), workflow.aresume("r", {"b": 2})]
    said = await asyncio.wait_for(asyncio.gather(*resumed, return_exceptions=True), RENDEZVOUS)
    assert "a: 1\n\nb: 2" in {getattr(message, "scratchpad", None) for message in said}
    assert all(isinstance(message, Result | PausedError) for message in said)


# In maps, nested workflows and tools


def items(*values):
    return Echo("items", lambda: WorkflowMessage(outputs={"xs": list(values)}))


def each(engine, **options):
    async def work(messages):
        return f"{messages[0].scratchpad}: {await interrupt(messages[0].scratchpad)}"

    return Map("each", chain(engine, Echo("up"), ask("q"), name="body"), over="xs", **options)


def test_every_item_of_a_map_may_ask(engine):
    workflow = chain(engine, items("p", "q", "r"), each(engine))

    async def main():
        assert {*await paused(workflow)} == {"each[0]/q", "each[1]/q", "each[2]/q"}  # items run at the same time
        assert {*await still_paused(workflow, {"each[1]/q": "two"})} == {"each[0]/q", "each[2]/q"}
        message = await workflow.aresume("r", {"each[0]/q": "one", "each[2]/q": "three"})
        return message.outputs["items"]

    assert on_fake_clock(main()) == ["q: one", "q: two", "q: three"]


def test_the_items_of_a_map_ask_one_after_another_where_they_run_so(engine):
    workflow = chain(engine, items("p", "q"), each(engine, concurrency=1))

    async def main():
        assert await paused(workflow) == ["each[0]/q"]
        assert await still_paused(workflow, {"each[0]/q": 1}) == ["each[1]/q"]
        return (await workflow.aresume("r", {"each[1]/q": 2})).outputs["items"]

    assert on_fake_clock(main()) == ["q: 1", "q: 2"]


@pytest.mark.parametrize("on_error", ["fail", "keep"])
def test_a_map_is_paused_when_its_other_items_have_ended(engine, on_error):
    async def work(messages):
        if messages[0].scratchpad == "asks":
            return await interrupt("Well?")
        await asyncio.sleep(5)
        if messages[0].scratchpad == "fails":
            raise ValueError("wrong")
        return "worked"

    values = ["asks", "works"] if on_error == "fail" else ["asks", "fails"]
    workflow = chain(engine, items(*values), Map("each", Echo("up", work), over="xs", on_error=on_error))

    async def main():
        assert await asyncio.wait_for(paused(workflow), 100) == ["each[0]/up"]
        assert now() == 5
        return (await workflow.aresume("r", {"each[0]/up": "yes"})).outputs["items"][0]

    assert on_fake_clock(main()) == "yes"


@pytest.mark.parametrize("turn", [items_of_maps.LONGEST_TURN, -1])  # -1: the loop has a turn after each item
def test_a_map_with_items_left_is_not_paused(engine, monkeypatch, turn):
    monkeypatch.setattr(items_of_maps, "LONGEST_TURN", turn)

    async def work(messages):
        if messages[0].scratchpad == "asks":
            return await interrupt("Well?")
        await asyncio.sleep(5)
        return "worked"

    workflow = chain(engine, items("asks", "b", "c", "d"), Map("each", Echo("up", work), over="xs", concurrency=2))

    async def main():
        await asyncio.wait_for(paused(workflow), 100)
        assert now() == 15
        await workflow.aresume("r", {"each[0]/up": "yes"})

    on_fake_clock(main())


def test_a_map_that_waits_for_its_next_item_is_not_paused_by_an_item_that_asks(engine):
    async def slow_items(job):
        yield "asks"
        await asyncio.sleep(5)
        yield "b"

    async def work(messages):
        return await interrupt("Well?") if messages[0].scratchpad == "asks" else "worked"

    workflow = chain(engine, Map("each", Echo("up", work), over=slow_items, concurrency=2))

    async def main():
        await asyncio.wait_for(paused(workflow), 100)
        assert now() == 5
        await workflow.aresume("r", {"each[0]/up": "yes"})

    on_fake_clock(main())


def test_nested_workflows_ask_through_those_around_them(engine):
    inner = chain(engine, Echo("x"), ask("y"), name="inner")
    middle = chain(engine, inner, name="middle")
    other = side_by_side(engine, ask("z"), name="other")
    first = Echo("first")
    workflow = chain(engine, first, middle)
    workflow.add_operator(other, [first])

    async def main():
        assert set(await paused(workflow)) == {"middle/inner/y", "other/z"}
        assert await still_paused(workflow, {"other/z": 1}) == ["middle/inner/y"]
        return (await workflow.aresume("r", {"middle/inner/y": 2})).scratchpad

    assert on_fake_clock(main()) == "y: 2\n\nz: 1"
    assert first.calls == 1


def test_a_workflow_called_twice_at_once_asks_twice(engine):
    inner = chain(engine, ask("y"), name="inner")

    async def work():
        said = await asyncio.gather(*(inner.aexecute(JOB, NOBODY) for _ in range(2)))
        return " ".join(message.scratchpad for message in said)

    workflow = chain(engine, Echo("a", work))

    async def main():
        asked = await asyncio.wait_for(paused(workflow), 100)
        assert len(set(asked)) == 2
        return (await workflow.aresume("r", dict(zip(asked, (1, 2), strict=True)))).scratchpad

    assert on_fake_clock(main()) == "y: 1 y: 2"


def test_an_operator_may_ask_while_a_workflow_inside_it_asks(engine):
    inner = chain(engine, ask("y"), name="inner")

    async def work():
        message, answer = await asyncio.gather(inner.aexecute(JOB, NOBODY), interrupt("And you?"))
        return f"{message.scratchpad} {answer}"

    workflow = chain(engine, Echo("a", work))

    async def main():
        asked = await asyncio.wait_for(paused(workflow), 100)
        if len(asked) < 2:  # the other question may come a moment later
            await asyncio.sleep(1)
        return (await workflow.aresume("r", {"a": 2, "a/y": 1})).scratchpad

    assert on_fake_clock(main()) == "y: 1 2"


async def test_a_stream_inside_an_operator_can_be_answered_there(engine):
    inner = chain(engine, ask("y"), name="inner")

    async def work():
        return await streamed_later(inner, 0, 1)

    message = await asyncio.wait_for(chain(engine, Echo("a", work)).aexecute(JOB, NOBODY), RENDEZVOUS)
    assert message.scratchpad == "y: 1"


def consult(**options):
    async def consult(who: str) -> str:
        """Consult somebody."""
        return f"{who} says {await interrupt(f'What does {who} say?')}"

    return Tool.of(consult, **options)


def model_operator(tool):
    action = Action(name="consult", tools=(tool,))
    return Operator(OperatorConfig(id="ask", instruction="Ask.", actions=[action]))


async def test_a_tool_may_ask_and_no_model_is_asked_twice(engine):
    with ScriptedModel([CallTools([("consult", {"who": "Ada"})]), Say("So it is.")]) as scripted:
        workflow = chain(engine, Echo("before"), model_operator(consult()))
        heard = await streamed(workflow, {"ask": "yes"}, MonoModelReasoner(scripted.model))
    assert heard[-1].message.scratchpad == "So it is."
    assert len(scripted.requests) == 2
    assert scripted.requests[1]["messages"][-1]["content"] == "Ada says yes"
    assert [event.result for event in heard if isinstance(event, events.ToolReturned)] == ["Ada says yes"]


async def test_tools_called_at_once_may_all_ask(engine):
    calls = CallTools([("consult", {"who": "Ada"}), ("consult", {"who": "Tom"})])
    with ScriptedModel([calls, Say("So it is.")]) as scripted:
        reasoner = MonoModelReasoner(scripted.model)
        workflow = chain(engine, model_operator(consult()))
        with pytest.raises(PausedError) as raised:
            await asyncio.wait_for(workflow.aexecute(JOB, reasoner, run_id="r"), RENDEZVOUS)
        answers = {question.id: question.text[-10:] for question in raised.value.questions}
        while len(answers) < 2:  # the second question may come a moment later
            await asyncio.sleep(0.001)
            answers = {question.id: question.text[-10:] for question in workflow.questions("r")}
        assert len(scripted.requests) == 1
        message = await asyncio.wait_for(workflow.aresume("r", answers), RENDEZVOUS)
    assert message.scratchpad == "So it is."
    results = [said["content"] for said in scripted.requests[1]["messages"][-2:]]
    assert results == ["Ada says s Ada say?", "Tom says s Tom say?"]


def test_the_time_of_a_tool_stands_still_while_it_asks():
    async def main():
        with ScriptedModel([CallTools([("consult", {"who": "Ada"})]), Say("So it is.")]) as scripted:
            workflow = chain(BuiltinWorkflow, model_operator(consult(timeout=10)))
            said = await streamed_later(workflow, 1000, "yes", MonoModelReasoner(scripted.model))
        assert scripted.requests[1]["messages"][-1]["content"] == "Ada says yes"
        return said

    assert on_fake_clock(main()) == "So it is."


# Time, places, budgets, retries


@pytest.mark.parametrize("timeout", [Timeout(run=10), Timeout(idle=10), Timeout(run=10, idle=10)])
def test_the_wait_does_not_count_against_timeouts_here_and_around(engine, timeout):
    async def work():
        await asyncio.sleep(6)
        answer = await interrupt("Well?")
        await asyncio.sleep(3)
        return answer

    policy = Policy(timeout=timeout)
    inner = chain(engine, Echo("y", work), name="inner", policy=policy)
    workflow = chain(engine, inner, policy=policy)

    async def main():
        await paused(workflow)
        await asyncio.sleep(3600)
        return (await workflow.aresume("r", {"inner/y": "yes"})).scratchpad, now()

    assert on_fake_clock(main()) == ("yes", 3609)


def test_after_the_wait_the_clock_runs_on_from_where_it_stood(engine):
    async def work():
        await asyncio.sleep(6)
        await interrupt("Well?")
        await asyncio.sleep(5)

    workflow = chain(engine, Echo("a", work), policy=Policy(timeout=Timeout(run=10)))

    async def main():
        await paused(workflow)
        await asyncio.sleep(3600)
        with pytest.raises(OperatorError) as raised:
            await workflow.aresume("r", {"a": "yes"})
        assert isinstance(raised.value.__cause__, OperatorTimeoutError)
        return now()

    assert on_fake_clock(main()) == 3610


def test_the_place_is_free_while_a_person_is_asked(engine):
    other = Echo("other")
    workflow = side_by_side(engine, ask("a"), ask("b"), other, limits=Limits(concurrency=1))

    async def main():
        assert await paused(workflow) == ["a", "b"]
        assert other.calls == 1
        assert await still_paused(workflow, {"a": 1}) == ["b"]
        second = asyncio.ensure_future(workflow.aexecute(JOB, NOBODY, run_id="second"))
        with pytest.raises(PausedError):
            await second
        await workflow.cancel("second")
        return (await workflow.aresume("r", {"b": 2})).scratchpad

    assert on_fake_clock(main()) == "a: 1\n\nb: 2\n\nother()"


def test_an_operator_that_asks_several_things_takes_one_place_again(engine):
    async def work():
        return " ".join(await asyncio.gather(interrupt("One?"), interrupt("Two?")))

    workflow = chain(engine, Echo("a", work), limits=Limits(concurrency=1))

    assert on_fake_clock(streamed_later(workflow, 1, "yes")) == "yes yes"


def test_with_the_answer_it_waits_for_a_place_again(engine):
    running = []

    async def busy():
        running.append("busy")
        await asyncio.sleep(50)
        running.remove("busy")
        return "busy"

    async def work():
        await interrupt("Well?")
        assert running == []
        return "alone"

    workflow = side_by_side(engine, Echo("a", work), limits=Limits(concurrency=1))
    workflow.add_operator(Echo("busy", busy))

    async def main():
        return await streamed_later(workflow, 1, "yes"), now()

    assert on_fake_clock(main()) == ("alone\n\nbusy", 50)


def test_a_second_attempt_asks_again(engine):
    async def work():
        answer = await interrupt("Well?")
        if answer == "wrong":
            raise ConnectionError("gone")
        return answer

    a = Echo("a", work)
    before = Echo("before")
    workflow = chain(engine, before, a, policy=Policy(retry=Retry(2)))

    async def main():
        assert await paused(workflow) == ["a"]
        assert await still_paused(workflow, {"a": "wrong"}) == ["a#2"]
        return (await workflow.aresume("r", {"a#2": "right"})).scratchpad

    assert on_fake_clock(main()) == "right"
    assert (before.calls, a.calls) == (1, 2)


def test_the_seconds_of_a_budget_stand_still_while_all_wait_for_a_person(engine):
    async def work():
        await asyncio.sleep(6)
        answer = await interrupt("Well?")
        await asyncio.sleep(3)
        return answer

    inner = chain(engine, Echo("a", work), name="inner", budget=Budget(seconds=10))
    workflow = chain(engine, inner, budget=Budget(seconds=10))

    async def main():
        await paused(workflow)
        await asyncio.sleep(3600)
        return (await workflow.aresume("r", {"inner/a": "yes"})).scratchpad

    assert on_fake_clock(main()) == "yes"


def test_the_seconds_of_a_budget_run_on_after_the_answer(engine):
    async def work():
        await asyncio.sleep(6)
        await interrupt("Well?")
        await asyncio.sleep(5)

    workflow = chain(engine, Echo("a", work), budget=Budget(seconds=10))

    async def main():
        await paused(workflow)
        with pytest.raises(BudgetError, match="10 of 10 seconds"):
            await workflow.aresume("r", {"a": "yes"})

    on_fake_clock(main())


def test_the_seconds_of_a_budget_stand_still_while_a_person_is_asked_though_others_work(engine):
    workflow = side_by_side(
        engine, ask("a"), Echo("slow", lambda: asyncio.sleep(50, "slow")), budget=Budget(seconds=10)
    )

    async def main():
        with pytest.raises(PausedError):
            await workflow.aexecute(JOB, NOBODY, run_id="r")
        assert asyncio.get_running_loop().time() == 50
        assert await workflow.aresume("r", {"a": "yes"}) is not None

    on_fake_clock(main())


async def test_an_answer_is_taken_once_and_the_run_goes_on_though_nobody_waits_for_it(engine):
    heard = []
    workflow = side_by_side(engine, ask("a"), listeners=[heard.append])
    await paused(workflow)
    with pytest.raises(InvalidError, match="did you mean 'a'"):
        await workflow.answer("r", {"aa": "no"})
    await workflow.answer("r", {"a": "yes"})
    with pytest.raises(InvalidError, match="there is no open question with this id"):
        await workflow.answer("r", {"a": "no"})
    while not isinstance(heard[-1], events.RunFinished):
        await asyncio.sleep(0)
    assert heard[-1].message.scratchpad == "a: yes"
    for _ in range(5):
        await asyncio.sleep(0)
    with pytest.raises(InputError, match="no run with the id 'r' is in progress"):
        workflow.questions("r")


# Ends


async def test_a_run_that_waits_can_be_cancelled(engine):
    cleaned = []

    async def work():
        try:
            await interrupt("Well?")
        finally:
            await asyncio.sleep(0.01)
            cleaned.append("a")

    before = asyncio.all_tasks()
    workflow = side_by_side(engine, Echo("a", work), side_by_side(engine, Echo("b", work), name="inner"))
    await paused(workflow)
    await workflow.cancel("r")
    assert cleaned == ["a", "a"]
    assert asyncio.all_tasks() == before
    with pytest.raises(InputError):
        workflow.questions("r")


async def test_a_run_that_is_cancelled_in_the_very_moment_it_finishes_gives_its_id_free(engine):
    finished_before = False
    running = None
    for turns in range(60):  # of the event loop, until it is cancelled: before, in and after its last one
        workflow = side_by_side(engine, Echo("a"))
        running = asyncio.ensure_future(workflow.aexecute(JOB, NOBODY, run_id="r"))
        for _ in range(turns):
            await asyncio.sleep(0)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        for _ in range(5):
            await asyncio.sleep(0)
        with pytest.raises(InputError, match="no run with the id 'r' is in progress"):
            workflow.questions("r")
        finished_before = not running.cancelled()
    assert finished_before  # the last one


async def test_a_run_that_waits_can_be_cancelled_though_others_hold_all_places(engine):
    began = asyncio.Event()

    async def work():
        if here().run.log.run_id == "asks":
            return await interrupt("Well?")
        began.set()
        return await asyncio.sleep(100, "busy")

    workflow = chain(engine, Echo("a", work), limits=Limits(concurrency=1))
    await paused(workflow, "asks")
    busy = asyncio.ensure_future(workflow.aexecute(JOB, NOBODY, run_id="busy"))
    await began.wait()
    cancelling = asyncio.ensure_future(workflow.cancel("asks"))
    done, _ = await asyncio.wait([cancelling], timeout=RENDEZVOUS)
    busy.cancel()
    await asyncio.wait([busy, cancelling])
    assert done


async def test_closing_the_stream_while_a_person_is_asked_ends_the_run(engine):
    before, stream = asyncio.all_tasks(), chain(engine, Echo("first"), ask("a")).stream(JOB, NOBODY, run_id="r")
    async for event in stream:
        if isinstance(event, events.Interrupted):
            break
    await stream.aclose()
    assert asyncio.all_tasks() == before


async def test_who_waits_for_the_rest_may_be_cancelled_and_the_run_with_it(engine):
    workflow = chain(engine, ask("a"), Echo("b", lambda: asyncio.sleep(100)))
    await paused(workflow)
    before = asyncio.all_tasks()
    waiting = asyncio.ensure_future(workflow.aresume("r", {"a": 1}))
    await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not (asyncio.all_tasks() - before)
    with pytest.raises(InputError):
        workflow.questions("r")


async def test_an_error_elsewhere_ends_a_run_that_asks(engine):
    async def soon():
        await asyncio.sleep(0.01)
        raise ValueError("wrong")

    heard = []
    workflow = side_by_side(engine, ask("a"), Echo("b", soon), listeners=[heard.append])
    with pytest.raises(OperatorError, match="wrong") as raised:
        await asyncio.wait_for(workflow.aexecute(JOB, NOBODY), RENDEZVOUS)
    assert raised.value.cancelled == ("a",)
    assert not any(isinstance(event, events.Resumed) for event in heard)


def test_many_runs_wait_at_once_each_for_its_own_answer(engine):
    workflow = chain(engine, ask("a"))

    def whole(n):
        with pytest.raises(PausedError):
            workflow.execute(JOB, NOBODY, run_id=f"r{n}")
        waiting.wait()
        return workflow.resume(f"r{n}", {"a": n}).scratchpad

    waiting = threading.Barrier(8, timeout=RENDEZVOUS)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(whole, range(8))) == [f"a: {n}" for n in range(8)]


def test_a_value_without_an_id_answers_the_only_open_question():
    workflow = chain(BuiltinWorkflow, ask("a", schema=YES_OR_NO))
    with pytest.raises(PausedError):
        workflow.run("goal", NOBODY, run_id="r")
    message = workflow.resume("r", True)
    assert message is not None
    assert message.text == "a: True"


def test_a_value_without_an_id_is_refused_where_several_questions_are_open():
    workflow = side_by_side(BuiltinWorkflow, ask("a"), ask("b"))
    with pytest.raises(PausedError):
        workflow.run("goal", NOBODY, run_id="r")
    with pytest.raises(InputError) as raised:
        workflow.resume("r", True)
    assert str(raised.value) == (
        "run 'r': the answer True names no question, and it asks 'a', 'b'; answers are a dict by the ids of the "
        "questions: {'a': …, 'b': …}"
    )
    message = workflow.resume("r", {"a": ("x", 1), "b": None})
    assert message is not None
    assert message.text == "a: ['x', 1]\n\nb: None"


async def test_a_handle_takes_the_answer_to_its_only_question():
    run = chain(BuiltinWorkflow, ask("a", schema=YES_OR_NO)).start("goal", NOBODY)
    async for event in run:
        if isinstance(event, events.Interrupted):
            await run.answer(False)
    assert (await run).text == "a: False"


async def test_a_reader_of_a_run_that_is_cancelled_by_its_handle_goes_on():
    async def wait(job: Job) -> str:
        await asyncio.sleep(1000)
        return ""

    run = BuiltinWorkflow(wait).start("x")
    seen = []
    async for event in run:
        seen.append(type(event).__name__)
        if isinstance(event, events.OperatorStarted):
            await run.cancel()
    assert "RunFailed" in seen
    assert repr(run) == f"<RunHandle {run.run_id!r}: cancelled>"


ABANDONED = """
import asyncio, gc, sys, threading, time
from operad import Job, PausedError, RunContext, Workflow

released = threading.Event()

async def order(job: Job, context: RunContext) -> str:
    try:
        return str(await context.ask("ok?", "boolean"))
    finally:
        await asyncio.sleep(0)
        print("lock released", flush=True)
        released.set()

def start() -> None:
    try:
        Workflow(order, engine=sys.argv[1]).run("figs", run_id="a")
    except PausedError:
        pass

async def start_in_loop() -> None:
    try:
        await Workflow(order, engine=sys.argv[1]).start("figs")
    except PausedError:
        pass
    gc.collect()
    end = time.monotonic() + 60
    while not released.is_set() and time.monotonic() < end:
        await asyncio.sleep(0.001)
    print("end", flush=True)

if sys.argv[2] == "run":
    start()
    gc.collect()
    released.wait(60)
    print("end", flush=True)
else:
    asyncio.run(start_in_loop())
"""


@pytest.mark.parametrize(
    ("engine", "way"), sample([("builtin", "run"), ("dbgpt", "start"), ("builtin", "start"), ("dbgpt", "run")], 3)
)
def test_a_paused_run_whose_workflow_is_gone_is_cancelled(engine, way, forked):
    done = forked.run([sys.executable, "-c", ABANDONED, engine, way])
    assert (done.stdout, done.stderr) == ("lock released\nend\n", "")


async def test_a_finished_run_does_not_remove_a_newer_one_with_its_id(engine):
    workflow = chain(engine, ask("a"))
    first = workflow.start(JOB, NOBODY, run_id="r")
    with pytest.raises(PausedError):
        await first
    await first.answer(1)
    assert (await first).text == "a: 1"
    second = workflow.start(JOB, NOBODY, run_id="r")
    with pytest.raises(PausedError):
        await second
    assert (await first).text == "a: 1"
    assert [question.id for question in workflow.questions("r")] == ["a"]
    await workflow.cancel("r")


async def test_a_question_that_is_not_awaited_is_no_answer():
    async def decide(context: RunContext) -> str:
        return "paid" if context.ask("Pay?", "boolean") else "not paid"

    def tell(context: RunContext) -> str:
        return f"the answer: {context.ask('Which?')}"

    for function in (decide, tell):
        with pytest.raises(OperatorError, match=r"write `await context.ask\(…\)`"):
            await Workflow(function).arun("figs")


async def test_a_question_may_be_asked_in_a_task_of_its_own():
    async def both(context: RunContext) -> str:
        first, second = asyncio.create_task(context.ask("a?")), context.ask("b?")
        return f"{await first} {await second}"

    flow = Workflow(both)
    with pytest.raises(PausedError):
        await flow.arun("figs", run_id="r")
    with pytest.raises(PausedError):
        await flow.aresume("r", {"both": 1})
    assert (await flow.aresume("r", {"both#2": 2})).text == "1 2"


async def test_a_handle_is_answered_with_and_without_await_and_awaited_after_a_reader_has_left(engine):
    run = chain(engine, ask("a"), ask("b"), Echo("c")).start(JOB, NOBODY)
    reader = aiter(run)
    async for event in reader:
        if isinstance(event, events.Interrupted):
            break
    run.answer({"a": 1})
    waiting = asyncio.ensure_future(_awaited(run))
    await asyncio.sleep(0.01)
    assert not waiting.done()  # the reader may still answer
    await reader.aclose()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    with pytest.raises(PausedError):
        await asyncio.wait_for(waiting, RENDEZVOUS)
    await run.answer(2)
    assert (await run).text == "c(b: 2)"


@pytest.mark.parametrize("read", [False, True])
async def test_a_run_ends_when_the_wait_for_its_handle_is_cancelled(engine, read):
    async def work():
        await asyncio.sleep(60)

    run = chain(engine, Echo("a", work)).start(JOB, NOBODY)
    reader = aiter(run)
    if read:
        await anext(reader)
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(_awaited(run), 0.05)
    assert run.done


async def _awaited(run):
    return await run


@pytest.mark.parametrize(
    ("fields", "value", "hint"),
    [
        (["action"], "yes", """'yes' is not of type 'object'; write {"action": "yes"}"""),
        (["action"], "no", "'no' is not of type 'object'$"),
        (["action", "why"], "yes", "'yes' is not of type 'object'$"),
    ],
)
def test_the_value_of_an_only_field_is_refused_with_the_object_to_write(fields, value, hint):
    properties = {name: {"type": "string", "enum": ["yes"]} for name in fields}
    form = {"type": "object", "properties": properties, "required": fields}
    question = Question(id="a", text="Go on?", schema_=form)
    with pytest.raises(InvalidError, match=hint):
        check_answers({"a": value}, [question])
