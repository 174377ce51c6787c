"""Streams: typed events in order, filters, and consumers that are slow, stop reading or leave."""

import asyncio
import gc
import threading
import time
from typing import Any

import pytest
from fake_operators import Do, chain
from msgspec.structs import replace

from operad.operators import Operator
from operad.runtime import (
    AnswerError,
    InputError,
    InvalidError,
    Job,
    OperatorError,
    Policy,
    RunningLoopError,
    Usage,
    Workflow,
    events,
    interrupt,
)
from operad.runtime.events.stream import CROWDED, Buffer
from operad.runtime.testing import BreakOff, CallTools, Fail, Say, ScriptedModel, ScriptedReasoner, run_on_fake_clock

JOB = Job(goal="goal")
NOBODY = ScriptedReasoner([])
RENDEZVOUS = 10.0


def here() -> Any:
    """The operator's scope that this code runs in."""
    return events.current_scope()


def token(text):
    events.emit(events.TokenStreamed(text=text))


async def collect(workflow, **options):
    return [event async for event in workflow.stream(JOB, NOBODY, **options)]


def names(heard):
    return [type(event).__name__ for event in heard]


# Order


async def test_events_come_in_the_order_in_which_things_happen(engine):
    def work():
        token("one ")
        token("two")
        events.emit(events.ModelAnswered(model="m", usage=Usage(calls=1)))
        return "said"

    heard = await collect(chain(engine, Do("a", work), name="w"), run_id="r")
    assert names(heard) == [
        "RunStarted", "RoundStarted", "OperatorStarted", "TokenStreamed", "TokenStreamed", "ModelAnswered",
        "OperatorFinished", "RoundFinished", "RunFinished",
    ]  # fmt: skip
    assert heard[0].workflow == "w"
    assert heard[-1].message.scratchpad == "said"


async def test_each_event_says_run_path_round_attempt_number_and_time(engine):
    inner = chain(engine, Do("i", lambda: token("t") or "said"), name="inner")
    before = time.time()
    heard = await collect(chain(engine, Do("a"), inner, name="outer"), run_id="r")
    assert [event.seq for event in heard] == list(range(1, len(heard) + 1))
    assert {event.run_id for event in heard} == {"r"}
    times = [event.time for event in heard]
    assert times == sorted(times)
    assert before - 1 < times[0] <= times[-1] < time.time() + 1
    [said] = [event for event in heard if isinstance(event, events.TokenStreamed)]
    assert (said.path, said.operator_id, said.round, said.attempt) == (("inner", "i"), "i", 1, 1)
    assert [event.path for event in heard if isinstance(event, events.WorkflowEntered)] == [("inner",)]


def test_time_is_that_of_the_runs_clock(engine):
    async def main():
        workflow = chain(engine, Do("a", lambda: asyncio.sleep(3600, "slept")))
        return await collect(workflow)

    heard = run_on_fake_clock(main())
    assert heard[-1].time - heard[0].time == pytest.approx(3600)
    assert heard[-1].seconds == 3600


async def test_two_streams_at_once_are_two_runs(engine):
    workflow = chain(engine, Do("a", lambda: asyncio.sleep(0.001, "said")))
    first, second = await asyncio.gather(collect(workflow), collect(workflow))
    assert first[0].run_id != second[0].run_id
    for heard in (first, second):
        assert [event.seq for event in heard] == list(range(1, len(heard) + 1))


async def test_listeners_and_the_stream_hear_the_same(engine):
    heard = []
    assert await collect(chain(engine, Do("a"), listeners=[heard.append])) == heard


async def test_the_listeners_of_an_inner_workflow_hear_its_own_run(engine):
    heard = []
    inner = chain(engine, Do("i"), name="inner", listeners=[heard.append])
    outside = await collect(chain(engine, Do("a"), inner, name="outer"), run_id="r")
    assert names(heard) == [
        "RunStarted", "RoundStarted", "OperatorStarted", "OperatorFinished", "RoundFinished", "RunFinished",
    ]  # fmt: skip
    assert [event.seq for event in heard] == [1, 2, 3, 4, 5, 6]
    assert {event.path for event in heard} == {(), ("i",)}
    assert "r" not in {event.run_id for event in heard}
    assert names(outside).count("RunStarted") == 1


# Filters


async def test_only_the_wanted_kinds_are_yielded(engine):
    work = lambda: token("t") or "said"  # noqa: E731
    heard = await collect(chain(engine, Do("a", work), Do("b", work)), only=[events.TokenStreamed, events.RunFinished])
    assert names(heard) == ["TokenStreamed", "TokenStreamed", "RunFinished"]
    assert [event.seq for event in heard] == sorted(event.seq for event in heard)


async def test_only_what_happens_under_a_path_is_yielded(engine):
    inner = chain(engine, Do("x"), Do("y"), name="inner")
    workflow = chain(engine, Do("a"), inner, Do("inner2"))
    heard = await collect(workflow, under=["inner"])
    assert {event.path for event in heard} == {("inner",), ("inner", "x"), ("inner", "y")}
    heard = await collect(workflow, under=("inner", "x"))
    assert names(heard) == ["OperatorStarted", "OperatorFinished"]
    with pytest.raises(
        InvalidError, match=r"no operator has the id 'iner' \(did you mean 'inner'\?\); the workflow has: "
    ):
        await collect(workflow, under="iner/x")


# Ends


async def test_an_error_comes_after_the_last_event(engine):
    def work():
        raise ValueError("wrong")

    heard = []

    async def consume():
        async for event in chain(engine, Do("a", work)).stream(JOB, NOBODY):
            heard.append(event)

    with pytest.raises(OperatorError, match="wrong"):
        await consume()
    assert names(heard)[-2:] == ["OperatorFailed", "RunFailed"]


async def test_a_workflow_that_cannot_be_built_is_an_error_before_any_event(engine):
    with pytest.raises(InvalidError):
        await anext(engine().stream(JOB, NOBODY))


async def test_a_consumer_that_closes_the_stream_ends_the_run(engine):
    cleaned = []

    async def work():
        token("t")
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(0.01)
            cleaned.append("a")

    before = asyncio.all_tasks()
    stream = chain(engine, Do("a", work)).stream(JOB, NOBODY)
    async for event in stream:
        if isinstance(event, events.TokenStreamed):
            break
    await stream.aclose()
    assert cleaned == ["a"]
    assert asyncio.all_tasks() == before


async def test_a_consumer_that_just_leaves_ends_the_run(engine):
    ended = asyncio.Event()

    async def work():
        token("t")
        try:
            await asyncio.sleep(100)
        finally:
            ended.set()

    async for event in chain(engine, Do("a", work)).stream(JOB, NOBODY):
        if isinstance(event, events.TokenStreamed):
            break
    gc.collect()
    await asyncio.wait_for(ended.wait(), RENDEZVOUS)


async def test_the_end_of_an_async_with_block_ends_the_run_at_once_though_the_stream_is_still_held(engine):
    cleaned = []

    async def work():
        token("t")
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(0.01)
            cleaned.append("a")

    async with chain(engine, Do("a", work)).stream(JOB, NOBODY) as stream:
        async for event in stream:
            if isinstance(event, events.TokenStreamed):
                break
    assert cleaned == ["a"]
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_closing_a_stream_while_another_task_waits_for_the_next_event_ends_the_run(engine):
    began, ended = asyncio.Event(), asyncio.Event()

    async def work():
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def read():
        async for _ in stream:
            pass

    workflow = chain(engine, Do("a", work))
    stream = workflow.stream(JOB, NOBODY, run_id="r")
    reading = asyncio.ensure_future(read())
    await began.wait()
    await stream.aclose()
    await asyncio.wait([reading], timeout=30)
    assert (ended.is_set(), reading.cancelled()) == (True, True)
    with pytest.raises(InputError, match="no run with the id 'r' is in progress"):
        await workflow.cancel("r")


async def in_another_loop(work):
    """The outcome of a coroutine in the event loop of another thread."""
    return await asyncio.to_thread(lambda: asyncio.run(asyncio.wait_for(work(), 30)))


async def test_a_handle_is_awaited_and_cancelled_from_another_event_loop(engine):
    async def hang():
        await asyncio.Event().wait()

    async def outcome():
        return await finishing

    finishing = chain(engine, Do("a", lambda: asyncio.sleep(0, "done"))).start(JOB, NOBODY)
    hanging = chain(engine, Do("a", hang)).start(JOB, NOBODY)
    result = await in_another_loop(outcome)
    await in_another_loop(hanging.cancel)
    assert (result.run_id, hanging.done) == (finishing.run_id, True)

    async def read():
        async for _ in finishing:
            pass

    with pytest.raises(InputError, match="was started in another event loop: read its events there"):
        await in_another_loop(read)


async def test_a_handle_is_answered_from_another_thread(engine):
    said = []

    async def ask():
        said.append(await interrupt("Go on?", "boolean"))
        return "done"

    run = chain(engine, Do("a", ask)).start(JOB, NOBODY)
    async for event in run:
        if isinstance(event, events.Interrupted):
            await asyncio.to_thread(run.answer, True)
    assert said == [True]


async def test_an_error_of_a_run_whose_consumer_has_left_is_not_left_lying_about(engine, caplog):
    async def work():
        token("t")
        try:
            await asyncio.sleep(100)
        finally:
            raise ValueError("in the clean-up")

    stream = chain(engine, Do("a", work)).stream(JOB, NOBODY)
    async for event in stream:
        if isinstance(event, events.TokenStreamed):
            break
    await stream.aclose()
    del stream
    gc.collect()
    assert "never retrieved" not in caplog.text


async def test_a_stream_that_is_never_begun_runs_nothing(engine):
    a = Do("a")
    stream = chain(engine, a).stream(JOB, NOBODY)
    await asyncio.sleep(0)
    await stream.aclose()
    assert a.calls == 0


async def test_filters_that_name_nothing_are_errors(engine):
    workflow = chain(engine, Do("a"))
    for wrong in ({"only": ["OperatorFinished"]}, {"only": int}, {"under": ["each", 0]}):
        with pytest.raises(InvalidError):
            await anext(workflow.stream(JOB, NOBODY, **wrong))


async def test_a_filter_may_be_one_type_and_a_path_with_slashes(engine):
    outer = chain(engine, chain(engine, Do("a"), name="inner"))
    seen = [event async for event in outer.stream(JOB, NOBODY, only=events.OperatorFinished, under="inner/a")]
    assert [event.path for event in seen] == [("inner", "a")]


async def test_a_filter_may_be_an_operator_itself(engine):
    a, b = Do("a"), Do("b")
    heard = await collect(chain(engine, a, b), only=events.OperatorFinished, under=b)
    assert [event.path for event in heard] == [("b",)]


def test_a_listener_that_would_have_to_be_awaited_is_an_error(engine):
    async def listen(event):
        pass

    with pytest.raises(InvalidError, match="called, and not awaited"):
        engine(listeners=[listen])


# Slow consumers


async def test_a_consumer_that_sleeps_keeps_all_text_in_a_bounded_buffer(engine, monkeypatch):
    sizes, count = [], 100_000

    class Watched(Buffer):
        def put(self, event):
            super().put(event)
            sizes.append(len(self._entries))

    monkeypatch.setattr("operad.runtime.workflow.event_stream.Buffer", Watched)

    def work():
        for n in range(count):
            token(f"{n} ")
        return "said"

    text = []
    async for event in chain(engine, Do("a", work)).stream(JOB, NOBODY):
        if isinstance(event, events.TokenStreamed):
            text.append(event.text)
    assert "".join(text) == "".join(f"{n} " for n in range(count))
    assert max(sizes) <= CROWDED + 10


async def settled(count):
    """Wait until something that is counted, and waits for no clock, gets no further; how far it got."""
    same, reached = 0, -1
    while same < 100:
        same, reached = (same + 1, reached) if count() == reached else (0, count())
        await asyncio.sleep(0)
    return reached


async def test_tokens_of_operators_side_by_side_are_joined_each_to_its_own(engine):
    done = []

    async def work():
        name = here().operator_id
        for n in range(2 * CROWDED):
            token(f"{name}{n} ")
            if not n % 100:
                await asyncio.sleep(0)
        done.append(name)
        return "said"

    workflow = engine()
    for name in "ab":
        workflow.add_operator(Do(name, work))

    stream = workflow.stream(JOB, NOBODY)
    heard = [await anext(stream)]
    while len(done) < 2:
        await asyncio.sleep(0)
    heard += [event async for event in stream]
    for name in "ab":
        said = "".join(e.text for e in heard if isinstance(e, events.TokenStreamed) and e.path == (name,))
        assert said == "".join(f"{name}{n} " for n in range(2 * CROWDED))
    assert len(heard) < 2 * CROWDED
    numbers = [event.seq for event in heard]
    assert numbers == sorted(numbers)


async def test_the_cost_of_a_token_does_not_grow_with_the_text_that_waits(monkeypatch):
    buffer, text, copies = Buffer(), "x" * 200, []

    def copying(event, **changes):
        copies.append(event)
        return replace(event, **changes)

    monkeypatch.setattr("operad.runtime.events.stream.replace", copying)
    for _ in range(10_000):
        buffer.put(events.TokenStreamed(text=text))
    assert not copies  # a token that copied the text before it would make it quadratic
    waiting = 0
    while waiting < 10_000 * len(text):
        event = await buffer.get()
        assert isinstance(event, events.TokenStreamed)
        waiting += len(event.text)
    assert waiting == 10_000 * len(text)


def test_tokens_are_not_joined_over_what_happened_between_them(engine):
    def work():
        for _ in range(CROWDED):
            token("x")
        token("I call. ")
        events.emit(events.ToolCalled(call_id="c", tool="t", arguments={}))
        token("It said so.")
        return "said"

    heard = asyncio.run(collect(chain(engine, Do("a", work))))
    called = names(heard).index("ToolCalled")
    before = "".join(event.text for event in heard[:called] if isinstance(event, events.TokenStreamed))
    after = "".join(event.text for event in heard[called:] if isinstance(event, events.TokenStreamed))
    assert (before, after) == ("x" * CROWDED + "I call. ", "It said so.")


async def test_of_progress_the_newest_is_kept(engine):
    def work():
        for n in range(5 * CROWDED):
            events.emit(events.Progress(done=n + 1, total=5 * CROWDED))
        return "said"

    heard = await collect(chain(engine, Do("a", work)), only=[events.Progress])
    assert len(heard) <= CROWDED + 1
    assert heard[-1].done == 5 * CROWDED


async def test_a_consumer_that_stops_reading_keeps_operators_from_starting(engine):
    workflow, many = engine(), [Do(f"a{n}") for n in range(5_000)]
    for operator in many:
        workflow.add_operator(operator)
    stream = workflow.stream(JOB, NOBODY)
    await anext(stream)
    started = await settled(lambda: sum(operator.calls for operator in many))
    assert 0 < started <= CROWDED
    await asyncio.sleep(0.05)
    assert sum(operator.calls for operator in many) == started
    await stream.aclose()
    assert sum(operator.calls for operator in many) == started


async def test_a_consumer_that_reads_on_gets_everything(engine):
    workflow, count = engine(), 1_500
    many = [Do(f"a{n}") for n in range(count)]
    for operator in many:
        workflow.add_operator(operator)
    stream = workflow.stream(JOB, NOBODY)
    heard = [await anext(stream)]
    await settled(lambda: sum(operator.calls for operator in many))
    heard += [event async for event in stream]
    assert [event.seq for event in heard] == list(range(1, 2 * count + 5))


async def test_a_filter_takes_in_only_what_is_wanted_and_slows_nothing_down(engine):
    workflow, many = engine(), [Do(f"a{n}") for n in range(2_000)]
    for operator in many:
        workflow.add_operator(operator)
    stream = workflow.stream(JOB, NOBODY, only=[events.RunStarted, events.RunFinished])
    await anext(stream)
    while sum(operator.calls for operator in many) < len(many):
        await asyncio.sleep(0.01)
    assert names([event async for event in stream]) == ["RunFinished"]


# Listeners and threads


async def test_what_threads_say_arrives_numbered_and_whole(engine):
    count = 200

    async def work():
        async def thread(name):
            await asyncio.to_thread(lambda: [token(f"{name}{n} ") for n in range(count)])

        await asyncio.gather(*map(thread, "abcd"))
        return "said"

    heard = await collect(chain(engine, Do("a", work)))
    assert [event.seq for event in heard] == list(range(1, len(heard) + 1))
    said = [event for event in heard if isinstance(event, events.TokenStreamed)]
    assert all(event.path == ("a",) for event in said)
    for name in "abcd":
        assert [e.text for e in said if e.text.startswith(name)] == [f"{name}{n} " for n in range(count)]


async def test_a_thread_wakes_a_consumer_that_waits(engine):
    release = threading.Event()

    def speak():
        token("from a thread")
        assert release.wait(RENDEZVOUS)

    async def work():
        await asyncio.to_thread(speak)
        return "said"

    async for event in chain(engine, Do("a", work)).stream(JOB, NOBODY):
        if isinstance(event, events.TokenStreamed):
            release.set()  # it was yielded while the thread was still at it
    assert release.is_set()


async def test_a_thread_that_speaks_after_the_end_harms_nobody(engine, caplog):
    began, release, spoken = threading.Event(), threading.Event(), threading.Event()

    def late():
        began.set()
        release.wait(RENDEZVOUS)
        token("too late")
        spoken.set()

    async def work():
        await asyncio.to_thread(late)
        return "said"

    stream = chain(engine, Do("a", work)).stream(JOB, NOBODY)
    await anext(stream)
    while not began.is_set():
        await asyncio.sleep(0.001)
    await stream.aclose()
    release.set()
    while not spoken.is_set():
        await asyncio.sleep(0.001)
    assert caplog.text == ""


def shout(said: str) -> str:
    return said.upper()


def test_without_an_event_loop_a_stream_is_iterated_as_it_is_and_leaving_it_cancels_the_run():
    started = threading.Event()
    ended = threading.Event()

    async def wait(said: str) -> str:
        started.set()
        try:
            await asyncio.sleep(RENDEZVOUS)
        finally:
            ended.set()
        return said

    quick = Workflow([shout])
    kinds = [events.OperatorFinished, events.RunFinished]
    assert [type(event) for event in quick.stream("go", only=kinds)] == kinds
    for event in Workflow([wait]).stream("go"):
        if isinstance(event, events.OperatorStarted):
            assert started.wait(RENDEZVOUS)
            break
    assert ended.wait(RENDEZVOUS)


@pytest.mark.parametrize("by_with", [True, False], ids=["with", "close"])
def test_without_an_event_loop_a_stream_is_closed_by_with_or_close(by_with):
    ended = []

    async def wait(said: str) -> str:
        token("t")
        try:
            await asyncio.sleep(RENDEZVOUS)
        finally:
            ended.append(said)
        return said

    stream = Workflow([wait]).stream("go", only=events.TokenStreamed)
    if by_with:
        with stream:
            iterator = iter(stream)
            next(iterator)
    else:
        iterator = iter(stream)
        next(iterator)
        stream.close()
    assert ended == ["go"]
    assert list(iterator) == []
    stream.close()


async def test_with_an_event_loop_it_says_how_to_iterate_and_to_close():
    stream = Workflow([shout]).stream("go")
    with pytest.raises(RunningLoopError, match="write `async for` instead of `for`"):
        list(stream)
    with pytest.raises(RunningLoopError, match="write `async with` instead of `with`"), stream:
        pass
    with pytest.raises(RunningLoopError, match=r"use `await aclose\(\)`"):
        stream.close()


def test_what_is_no_filter_is_refused_at_the_call():
    with pytest.raises(InvalidError, match="42 is not a type of event"):
        Workflow([shout]).stream("go", only=42)  # type: ignore[arg-type]


# The text of the answer


OUTLINE = Operator("Outline the text.", id="outline")
WRITE = Operator("Write the text.", id="write")


def test_the_text_of_the_last_operator_is_yielded_as_the_model_writes_it():
    with ScriptedModel([Say("one, two"), Say("Figs are sweet.")]) as scripted:
        pieces = list(Workflow(OUTLINE >> WRITE).stream_text("figs", model=scripted.model))
    assert "".join(pieces) == "Figs are sweet."
    assert len(pieces) > 1


async def test_the_text_is_yielded_in_an_event_loop_too_and_of_an_answer_that_is_no_text_at_the_end():
    with ScriptedModel([Say("[1, 2]")]) as scripted:
        numbers = Workflow(Operator("List numbers.", output=list[int]))
        assert "".join([piece async for piece in numbers.stream_text("x", scripted.model)]) == "[1, 2]"


def price(thing: str) -> str:
    """Return the price of a thing."""
    return "2 euros"


def agent(**options):
    return Workflow(Operator("Answer the user.", id="agent", tools=[price], **options))


def streamed(workflow, *steps, when=list):
    with ScriptedModel(steps) as scripted:
        return when(workflow.stream_text("figs?", model=scripted.model))


LOOK = CallTools({"price": {"thing": "figs"}})


def test_the_text_of_an_operator_with_tools_is_yielded_as_the_model_writes_it():
    pieces = streamed(agent(), LOOK, Say("Figs cost 2 euros."))
    assert "".join(pieces) == "Figs cost 2 euros."
    assert len(pieces) > 1


def test_text_before_tool_calls_is_a_paragraph_before_the_answer():
    first, second = CallTools(LOOK.calls, text="I look."), CallTools(LOOK.calls, text="\n\n")
    workflow = agent()
    assert "".join(streamed(workflow, first, second, first, Say("2 euros."))) == "I look.\n\nI look.\n\n2 euros."
    with ScriptedModel([first, Say("2 euros.")]) as scripted:
        assert workflow.run("figs?", model=scripted.model).text == "2 euros."


def test_an_operator_with_tools_that_begins_anew_repeats_what_was_yielded():
    first = CallTools(LOOK.calls, text="I look.")
    steps = (first, BreakOff(5, "2 euros."), first, Say("2 euros."))
    assert "".join(streamed(agent(retry=2), *steps)) == "I look.\n\n2 euros."
    with pytest.raises(AnswerError, match="began anew"):
        streamed(agent(retry=2), first, BreakOff(5, "2 euros."), first, Say("No price."))


def test_a_fallback_may_follow_text_before_tool_calls():
    workflow = agent(policy=Policy(fallback="Ask tomorrow."))
    first = CallTools(LOOK.calls, text="I look.")
    assert "".join(streamed(workflow, first, Fail(400))) == "I look.\n\nAsk tomorrow."


def test_choices_of_tools_by_a_schema_are_not_yielded():
    with ScriptedModel(
        [Say('{"tool": "price"}'), Say('{"thing": "figs"}'), Say('{"tool": "answer"}'), Say("2 euros.")]
    ) as scripted:
        model = scripted.model.model_copy(update={"tools": "constrained"})
        assert "".join(agent().stream_text("figs?", model=model)) == "2 euros."


# Result


def test_a_stream_that_was_read_to_its_end_has_the_result(engine):
    async def ask() -> int:
        return 1 + await interrupt("How many?", int)

    stream = engine(ask).stream(JOB, only=events.Interrupted)
    with pytest.raises(InputError, match="read its events to their end"):
        _ = stream.result
    for event in stream:
        stream.answer({event.interrupt_id: 2})
    assert (stream.result.output, stream.result.accepted, stream.result.rounds) == (3, True, 1)


async def test_a_stream_that_was_left_or_failed_has_no_result(engine):
    def fail() -> str:
        raise ValueError("no")

    left, failed = engine(lambda: "a").stream(JOB), engine(fail).stream(JOB)
    async with left:
        await anext(left)
    with pytest.raises(OperatorError):
        _ = [event async for event in failed]
    for stream in (left, failed):
        with pytest.raises(InputError):
            _ = stream.result
