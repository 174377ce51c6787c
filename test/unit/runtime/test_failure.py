"""Failure and cancellation: what an error names, what is stopped for it, and that nothing is left behind."""

from __future__ import annotations

import asyncio
import json
import pickle
import random
import socketserver
import threading
import time
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

import pytest
from fake_operators import Echo, chain

from operad.operators import Operator, OperatorConfig
from operad.runtime import (
    Action,
    Budget,
    Job,
    Limits,
    Map,
    Model,
    ModelError,
    MonoModelReasoner,
    OperadError,
    OperatorError,
    Policy,
    Retry,
    RunContext,
    Timeout,
    Tool,
    Workflow,
    WorkflowMessage,
    events,
)
from operad.runtime.models.messages import Message
from operad.runtime.testing import CallTools, Fail, Hang, Say, ScriptedModel, ScriptedReasoner, run_on_fake_clock

JOB = Job(goal="goal")
NOBODY = ScriptedReasoner([])
AT_ONCE = 10.0
"""Seconds that an end may take on a busy machine; 0.1 is promised on an idle one."""

RENDEZVOUS = 10.0


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def fail(error):
    def work():
        raise error

    return work


def side_by_side(engine, *operators, **options):
    workflow = engine(**options)
    for operator in operators:
        workflow.add_operator(operator)
    return workflow


async def soon():
    """Fail when the others are at work."""
    await asyncio.sleep(1)
    raise ValueError("wrong")


def fails(workflow, error: Any = OperatorError, reasoner: Any = NOBODY) -> Any:
    with pytest.raises(error) as raised:
        run_on_fake_clock(workflow.aexecute(JOB, reasoner))
    return raised.value


# What an error says


def test_an_error_names_workflow_operator_attempt_round_and_cause(engine):
    cause = ValueError("wrong")
    workflow = chain(engine, Echo("a"), Echo("b", fail(cause)), Echo("c"), name="w")
    error = fails(workflow)
    assert (error.workflow, error.operator_id, error.attempt, error.round) == ("w", "b", 1, 1)
    assert error.__cause__ is cause
    assert str(error) == "operator 'b' of workflow 'w' failed on attempt 1: ValueError: wrong"
    assert {name: message.scratchpad for name, message in error.finished.items()} == {"a": "a()"}


def test_causes_are_chained_through_nested_workflows_and_maps(engine):
    cause = ConnectionError("gone")
    items = Echo("items", lambda: WorkflowMessage(outputs={"xs": [1, 2]}))
    inner = chain(engine, Echo("deep", fail(cause)), name="inner")
    outer = chain(engine, items, Map("each", chain(engine, inner, name="body"), over="xs", concurrency=1), name="outer")
    link, chain_ = fails(outer), []
    while link is not None:
        chain_.append(link)
        link = link.__cause__
    assert [getattr(link, "operator_id", None) for link in chain_] == ["each", "", "inner", "deep", None]
    assert chain_[-1] is cause
    assert str(chain_[0]) == (
        "operator 'each' of workflow 'outer' failed on attempt 1: item each[0]: operator 'inner' of workflow "
        "'body' failed on attempt 1: operator 'deep' of workflow 'inner' failed on attempt 1: ConnectionError: gone"
    )


def test_an_error_names_the_siblings_that_were_stopped_for_it(engine):
    async def late():
        await asyncio.sleep(100)

    inner = side_by_side(engine, Echo("i", late), name="inner")
    heard = []
    workflow = side_by_side(engine, Echo("a", soon), Echo("b", late), inner, Echo("d"), listeners=[heard.append])
    error = fails(workflow)
    assert set(error.cancelled) == {"b", "inner"}
    assert "(stopped because of it: " in str(error)
    stopped = {"/".join(event.path) for event in heard if isinstance(event, events.OperatorCancelled)}
    assert stopped == {"b", "inner", "inner/i"}
    assert set(error.finished) == {"d"}


def test_of_many_that_were_stopped_the_text_names_the_first(engine):
    late = [Echo(f"late{n}", lambda: asyncio.sleep(100)) for n in range(20)]
    error = fails(side_by_side(engine, Echo("a", soon), *late))
    assert len(error.cancelled) == 20
    assert str(error).endswith(" and 12 more)")


def test_one_that_lost_a_race_in_an_earlier_round_was_not_stopped_for_an_error(engine):
    other = Echo("other", fail(ValueError("always")))
    workflow, fast, slow = engine(max_rounds=2), Echo("fast"), Echo("slow", lambda: asyncio.sleep(100))
    for operator in (fast, slow, other):
        workflow.add_operator(operator)
    workflow.add_operator(Echo("first"), [fast, slow], join="any")
    error = fails(workflow)
    assert (error.operator_id, error.round, error.cancelled) == ("other", 2, ())
    assert slow.calls == 1


def test_the_first_error_counts_and_later_ones_do_not_hide_it(engine, caplog):
    async def broken():
        try:
            await asyncio.sleep(100)
        finally:
            raise KeyError("in the clean-up")

    error = fails(side_by_side(engine, Echo("a", soon), Echo("b", broken)))
    assert str(error.__cause__) == "wrong"
    assert "never retrieved" not in caplog.text


def test_what_is_stopped_is_awaited_and_its_clean_up_runs(engine):
    cleaned = []

    async def tidy():
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(5)
            cleaned.append(asyncio.get_running_loop().time())

    inner = side_by_side(engine, Echo("i", tidy), name="inner")
    fails(side_by_side(engine, Echo("a", soon), Echo("b", tidy), inner))
    assert cleaned == [6, 6]


# An error is no answer


def test_nothing_after_a_failed_operator_runs(engine):
    after, other = Echo("after"), Echo("other")
    heard = []
    fails(chain(engine, Echo("a", fail(ValueError("secret fault"))), after, other, listeners=[heard.append]))
    assert (after.calls, other.calls) == (0, 0)
    assert not any(isinstance(event, events.OperatorFinished | events.RunFinished) for event in heard)


def test_the_text_of_a_model_error_is_no_answer(engine):
    with ScriptedModel([Fail(500, "Internal trouble")]) as scripted:
        first = Operator(OperatorConfig(id="first", instruction="Ask."))
        second = Operator(OperatorConfig(id="second", instruction="Ask again."))
        error = fails(chain(engine, first, second), reasoner=MonoModelReasoner(scripted.model))
    assert isinstance(error.__cause__, ModelError)
    assert len(scripted.requests) == 1


def test_an_item_that_failed_is_a_typed_value_in_the_list_and_no_text_of_the_map(engine):
    up = Echo("up", lambda: "SAID" if up.calls != 2 else fail(ValueError("secret fault"))())
    items = Echo("items", lambda: WorkflowMessage(outputs={"xs": ["p", "q", "r"]}))
    each = Map("each", up, over="xs", concurrency=1, on_error="keep")
    said = run_on_fake_clock(chain(engine, items, each).aexecute(JOB, NOBODY))
    assert [type(item).__name__ for item in said.outputs["items"]] == ["str", "ItemError", "str"]
    assert "secret fault" not in said.scratchpad


def test_a_failed_run_says_so_at_its_end_with_what_it_used(engine):
    heard = []
    fails(chain(engine, Echo("a"), Echo("b", fail(ValueError("wrong"))), listeners=[heard.append], name="w"))
    assert isinstance(heard[-1], events.RunFailed)
    assert heard[-1].error == "operator 'b' of workflow 'w' failed on attempt 1: ValueError: wrong"
    [failed] = [event for event in heard if isinstance(event, events.OperatorFailed)]
    assert (failed.path, failed.error) == (("b",), "ValueError: wrong")


# Cancelling: everything below ends, at once


def here() -> Any:
    """The operator's scope that this code runs in."""
    return events.current_scope()


class Endpoint(socketserver.ThreadingTCPServer):
    """An endpoint that says one word and then nothing more, and sees when it is hung up on."""

    daemon_threads = True

    def __init__(self):
        self.asked, self.hung_up = threading.Event(), threading.Event()
        super().__init__(("127.0.0.1", 0), _Answer)
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        self.model = Model(name="m", base_url=f"http://127.0.0.1:{self.server_address[1]}/v1", max_retries=0)


class _Answer(socketserver.StreamRequestHandler):
    server: Any

    def handle(self):
        while self.rfile.readline().strip():
            pass
        chunk = {"choices": [{"index": 0, "delta": {"content": "well "}, "finish_reason": None}]}
        data = f"data: {json.dumps(chunk)}\n\n".encode()
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.server.asked.set()
        with suppress(ConnectionError):
            while self.rfile.read1():
                pass
        self.server.hung_up.set()


async def happens(event):
    """Wait for what happens in a thread, without one of one's own."""
    while not event.is_set():
        await asyncio.sleep(0.001)


async def by_the_task(workflow, reasoner, at_work):
    """Cancel `aexecute`; the seconds that it took."""
    running = asyncio.ensure_future(workflow.aexecute(JOB, reasoner))
    await asyncio.wait_for(at_work(), RENDEZVOUS)
    began = time.perf_counter()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    return time.perf_counter() - began


async def by_the_stream(workflow, reasoner, at_work):
    """Close the stream; the seconds that it took."""
    stream = workflow.stream(JOB, reasoner)

    async def consume():
        async for _ in stream:
            pass

    consumer = asyncio.ensure_future(consume())
    await asyncio.wait_for(at_work(), RENDEZVOUS)
    began = time.perf_counter()
    consumer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await consumer
    await stream.aclose()
    return time.perf_counter() - began


TURNS = 20
"""Turns of the loop in which a stream of openai, read to its end, closes its generators: one within the other, in two each."""


async def by_leaving_the_stream(workflow, reasoner, at_work):
    """Leave the loop over the stream; the seconds that it took."""
    stream = workflow.stream(JOB, reasoner)
    await anext(stream)
    await asyncio.wait_for(at_work(), RENDEZVOUS)
    began = time.perf_counter()
    await stream.aclose()
    return time.perf_counter() - began


async def by_the_id(workflow, reasoner, at_work):
    """Cancel the run by its id; the seconds that it took."""
    running = asyncio.ensure_future(workflow.aexecute(JOB, reasoner, run_id="r"))
    await asyncio.wait_for(at_work(), RENDEZVOUS)
    began = time.perf_counter()
    await workflow.cancel("r")
    seconds = time.perf_counter() - began
    with pytest.raises(asyncio.CancelledError):
        await running
    return seconds


@pytest.fixture(params=[by_the_task, by_the_stream, by_leaving_the_stream, by_the_id], ids=lambda by: by.__name__)
def cancel(request):
    """Has a workflow run, cancels it when it is at work, and sees that it ends at once and leaves no task behind."""

    async def cancel(workflow, at_work, reasoner=NOBODY):
        before = asyncio.all_tasks()
        seconds = await request.param(workflow, reasoner, at_work)
        for _ in range(TURNS):
            await asyncio.sleep(0)
        assert asyncio.all_tasks() - before == set()
        assert seconds < AT_ONCE

    return cancel


def asks(tools=()):
    actions = [Action(name="act", tools=tools)] if tools else []
    return Operator(OperatorConfig(id="ask", instruction="Ask.", actions=actions))


async def test_cancelling_hangs_up_on_a_model_in_mid_answer(engine, cancel):
    with Endpoint() as there:
        await cancel(chain(engine, asks()), lambda: happens(there.asked), MonoModelReasoner(there.model))
        await asyncio.wait_for(happens(there.hung_up), AT_ONCE)
        await there.model.aclose()
        there.shutdown()


async def test_cancelling_leaves_a_model_that_says_nothing(engine, cancel):
    with ScriptedModel([Hang()]) as scripted:

        async def asked():
            while not scripted.requests:
                await asyncio.sleep(0.001)

        model = scripted.model
        await cancel(chain(engine, asks()), asked, MonoModelReasoner(model))
        await model.aclose()


class Rest:
    """Work that has begun, and that is cleaned up when it is cancelled, which may take some seconds."""

    def __init__(self, cleaning=0.0):
        self.began, self.cleaned, self.cleaning = asyncio.Event(), 0, cleaning

    async def __call__(self):
        self.began.set()
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(self.cleaning)
            self.cleaned += 1


@pytest.mark.parametrize("timeout", [None, 50])
async def test_cancelling_ends_an_async_tool(engine, cancel, timeout):
    work = Rest()

    async def rest() -> None:
        """Rest."""
        await work()

    with ScriptedModel([CallTools([("rest", {})])]) as scripted:
        model = scripted.model
        await cancel(chain(engine, asks([Tool.of(rest, timeout=timeout)])), work.began.wait, MonoModelReasoner(model))
        await model.aclose()
    assert work.cleaned == 1


@pytest.mark.parametrize("timeout", [None, 50])
async def test_cancelling_does_not_wait_for_the_thread_of_a_sync_tool(engine, cancel, timeout):
    began, release = threading.Event(), threading.Event()

    def rest() -> str:
        """Rest."""
        began.set()
        release.wait(RENDEZVOUS)
        return "rested"

    try:
        with ScriptedModel([CallTools([("rest", {})])]) as scripted:
            model, tool = scripted.model, Tool.of(rest, timeout=timeout)
            await cancel(chain(engine, asks([tool])), lambda: happens(began), MonoModelReasoner(model))
            await model.aclose()
        assert not release.is_set()
    finally:
        release.set()


async def test_cancelling_ends_maps_and_the_workflows_in_them(engine, cancel):
    running, cleaned, all_run = set(), set(), asyncio.Event()

    async def rest():
        path = "/".join(here().path)
        running.add(path)
        if len(running) == 6:
            all_run.set()
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(0.001)
            cleaned.add(path)

    inner = side_by_side(engine, Echo("x", rest), Echo("y", rest), name="inner")
    items = Echo("items", lambda: WorkflowMessage(outputs={"xs": [1, 2, 3]}))
    policy = Policy(retry=Retry(3), timeout=Timeout(run=50), fallback="sorry")
    each = Map("each", chain(engine, inner, name="body", policy=policy), over="xs")
    workflow = chain(engine, items, each, policy=policy, budget=Budget(seconds=50), limits=Limits(concurrency=2))
    await cancel(workflow, all_run.wait)
    assert cleaned == running == {f"each[{n}]/inner/{name}" for n in range(3) for name in "xy"}


async def test_cancelling_ends_a_retry_that_waits(engine, cancel, monkeypatch):
    monkeypatch.setattr(random, "uniform", lambda low, high: high)
    failed = asyncio.Event()

    def work():
        failed.set()
        raise ConnectionError("gone")

    a = Echo("a", work)

    async def at_work():
        await failed.wait()
        await asyncio.sleep(0.01)

    await cancel(chain(engine, a, policy=Policy(retry=Retry(9, first_delay=1000))), at_work)
    assert a.calls == 1


async def test_cancelling_ends_what_waits_for_a_place(engine, cancel):
    rest = Rest()
    workflow = side_by_side(engine, Echo("a", rest), Echo("b", rest), Echo("c", rest), limits=Limits(concurrency=1))
    await cancel(workflow, rest.began.wait)
    quick = asyncio.ensure_future(workflow.aexecute(JOB, NOBODY))  # nothing holds the place any more
    rest.began.clear()
    await asyncio.wait_for(rest.began.wait(), RENDEZVOUS)
    quick.cancel()
    await asyncio.wait([quick])


async def test_cancelling_ends_what_waits_for_an_endpoints_limits(engine, cancel):
    with ScriptedModel([Say("first")]) as scripted:
        model = scripted.model.model_copy(update={"limits": Limits(requests_per_minute=1)})
        await model.complete([Message.user("hello")])
        await cancel(chain(engine, asks()), lambda: asyncio.sleep(0.05), MonoModelReasoner(model))
        await model.aclose()


async def test_cancelling_waits_for_the_clean_up(engine, cancel):
    rest, policy = Rest(0.05), Policy(timeout=Timeout(run=50))
    inner = side_by_side(engine, Echo("i", rest), name="inner", policy=policy)
    await cancel(side_by_side(engine, inner, Echo("b", rest), policy=policy), rest.began.wait)
    assert rest.cleaned == 2


async def test_an_error_in_a_clean_up_is_not_left_lying_about(engine, cancel, caplog):
    began = asyncio.Event()

    async def broken():
        began.set()
        try:
            await asyncio.sleep(100)
        finally:
            raise KeyError("in the clean-up")

    inner = side_by_side(engine, Echo("i", broken), name="inner", policy=Policy(timeout=Timeout(run=50)))
    await cancel(side_by_side(engine, inner, Echo("b", broken)), began.wait)
    await asyncio.sleep(0)
    assert "never retrieved" not in caplog.text


async def test_a_cancelled_run_says_so_at_its_end(engine, cancel):
    rest, heard = Rest(), []
    await cancel(chain(engine, Echo("a", rest), listeners=[heard.append]), rest.began.wait)
    assert [type(event) for event in heard[-2:]] == [events.OperatorCancelled, events.RunFailed]


def test_a_run_of_another_event_loop_has_ended_when_it_is_cancelled(engine):
    began, cleaned = threading.Event(), []

    async def rest():
        began.set()
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(0.05)
            cleaned.append("rest")

    workflow, ends = chain(engine, Echo("a", rest)), []

    def execute():
        try:
            workflow.execute(JOB, NOBODY, run_id="r")
        except BaseException as error:  # noqa: BLE001 - of whatever kind
            ends.append(type(error).__name__)

    thread = threading.Thread(target=execute)
    thread.start()
    assert began.wait(RENDEZVOUS)
    asyncio.run(workflow.cancel("r"))
    assert cleaned == ["rest"]
    thread.join(RENDEZVOUS)
    assert ends == ["CancelledError"]


async def test_cancelling_what_does_not_run_is_an_error_with_a_near_name(engine):
    rest = Rest()
    workflow = chain(engine, Echo("a", rest))
    running = asyncio.ensure_future(workflow.aexecute(JOB, NOBODY, run_id="monday"))
    await rest.began.wait()
    with pytest.raises(OperadError, match=r"no run with the id 'mondai' is in progress \(did you mean 'monday'\?\)"):
        await workflow.cancel("mondai")
    running.cancel()
    await asyncio.wait([running])


async def test_an_operator_that_says_it_was_cancelled_though_nobody_did_it_has_failed(engine):
    def work():
        raise asyncio.CancelledError("mine")

    workflow = engine()
    workflow.add_operator(Echo("a", work))
    with pytest.raises(OperatorError, match="operator 'a' of workflow 'workflow' failed"):
        await workflow.aexecute(JOB, NOBODY)


@pytest.mark.parametrize("kind", [CancelledError, UnspeakableError])
def test_an_error_that_a_function_raises_is_one_of_its_operator_whatever_its_kind(kind):
    async def work() -> str:
        raise kind

    with pytest.raises(OperatorError) as failed:
        Workflow(work, name="w").run("x")
    assert (failed.value.operator_id, type(failed.value.__cause__)) == ("work", kind)
    assert type(pickle.loads(pickle.dumps(failed.value))) is type(failed.value)  # noqa: S301


def test_a_call_without_a_loop_says_that_its_run_was_cancelled():
    async def stopping(context: RunContext) -> None:
        cancelling = asyncio.ensure_future(flow.cancel(context.run_id))
        await asyncio.sleep(3600)
        await cancelling

    flow = Workflow(stopping)
    with pytest.raises(CancelledError, match="the run was cancelled by another call, or its ledger was closed"):
        flow.run("x", run_id="r")
