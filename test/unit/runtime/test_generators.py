"""Generators as operators: a run that ends early closes them, and no further item is produced."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest
from bounded import LONGEST, bounded

from operad import Map, Operator, Policy, Timeout, Workflow, events, operator, tool
from operad.runtime.testing import CallTools, Say, ScriptedModel
from operad.runtime.values import function_threads
from operad.runtime.values.errors import OperatorError
from operad.runtime.values.function_threads import abandoned_functions


class Endless:
    """Generators without an end, sync and async, which the test ends if nothing else does."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.closed = threading.Semaphore(0)
        self.over = threading.Event()
        self.began: list[int] = []
        self.abandoned = Counter(abandoned_functions())

    def sync(self, job: Any) -> Iterator[str]:
        self.began.append(0)
        try:
            while not self.over.is_set():
                yield "x "
                self.begun.release()
        finally:
            if not self.over.is_set():
                self.closed.release()

    async def asynchronous(self, job: Any) -> AsyncIterator[str]:
        self.began.append(0)
        try:
            while not self.over.is_set():
                yield "x "
                self.begun.release()
                await asyncio.sleep(0)
        finally:
            if not self.over.is_set():
                self.closed.release()

    def check_closed(self) -> None:
        """Fail unless each generator that has begun is closed."""
        assert self.began, "no generator has begun"
        for _ in self.began:
            assert self.closed.acquire(timeout=LONGEST)
        end = time.monotonic() + LONGEST  # on a busy machine, a thread ends some time after its generator
        while given_up := Counter(abandoned_functions()) - self.abandoned:
            assert time.monotonic() < end, given_up
            threading.Event().wait(0.01)


@pytest.fixture
def endless(monkeypatch):
    monkeypatch.setattr(function_threads, "MOMENT", LONGEST)  # the machine may be busy
    generators = Endless()
    yield generators
    generators.over.set()


@pytest.fixture(params=["sync", "asynchronous"])
def generator(request, endless) -> Callable[..., Any]:
    return getattr(endless, request.param)


async def begun(endless: Endless) -> None:
    assert await asyncio.to_thread(endless.begun.acquire, timeout=LONGEST)


def leave_text(flow: Workflow[Any]) -> None:
    for _ in flow.stream_text("q"):
        break


def leave_events(flow: Workflow[Any]) -> None:
    for event in flow.stream("q"):
        if isinstance(event, events.TokenStreamed):
            break


async def leave_text_in_loop(flow: Workflow[Any]) -> None:
    async with flow.stream_text("q") as stream:
        async for _ in stream:
            break


async def leave_events_in_loop(flow: Workflow[Any]) -> None:
    async with flow.stream("q", only=events.TokenStreamed) as stream:
        async for _ in stream:
            break


@pytest.mark.parametrize("leave", [leave_text, leave_events])
def test_a_loop_over_a_stream_that_is_left_closes_the_generator(endless, generator, leave):
    bounded(lambda: leave(Workflow(operator(generator, id="g"))))
    endless.check_closed()


@pytest.mark.parametrize("leave", [leave_text_in_loop, leave_events_in_loop])
async def test_a_loop_over_a_stream_that_is_left_in_an_event_loop_closes_the_generator(endless, generator, leave):
    await asyncio.wait_for(leave(Workflow(operator(generator, id="g"))), LONGEST)
    await asyncio.to_thread(endless.check_closed)


def test_an_iterator_that_is_garbage_collected_closes_the_generator(endless, generator):
    iterator = iter(Workflow(operator(generator, id="g")).stream_text("q"))
    bounded(partial(next, iterator))
    del iterator
    gc.collect()
    endless.check_closed()


async def test_a_timeout_closes_the_generator(endless, generator):
    flow = Workflow(operator(generator, id="g", policy=Policy(timeout=Timeout(run=0.2))))
    with pytest.raises(OperatorError, match="operator 'g'"):
        await asyncio.wait_for(flow.arun("q"), LONGEST)
    await asyncio.to_thread(endless.check_closed)


async def test_a_cancelled_task_that_awaits_a_run_closes_the_generator(endless, generator):
    task = asyncio.ensure_future(Workflow(operator(generator, id="g")).arun("q"))
    await begun(endless)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.to_thread(endless.check_closed)


async def test_a_handle_that_is_cancelled_closes_the_generator(endless, generator):
    handle = Workflow(operator(generator, id="g")).start("q")
    await begun(endless)
    await handle.cancel()
    await asyncio.to_thread(endless.check_closed)


async def test_the_failure_of_another_operator_closes_the_generator(endless, generator):
    async def fail(job: Any) -> str:
        await begun(endless)
        raise ValueError("no")

    with pytest.raises(ValueError, match="operator 'fail'"):
        await asyncio.wait_for(Workflow([operator(generator, id="g"), fail]).arun("q"), LONGEST)
    await asyncio.to_thread(endless.check_closed)


async def test_the_generators_of_a_map_are_closed(endless, generator):
    handle = Workflow(Map(each=operator(generator, id="g"), over="items", concurrency=3)).start(
        {"items": ["a", "b", "c"]}
    )
    for _ in range(3):
        await begun(endless)
    await handle.cancel()
    await asyncio.to_thread(endless.check_closed)


async def test_the_generator_of_a_nested_workflow_is_closed(endless, generator):
    handle = Workflow(Workflow(operator(generator, id="g"), name="inner")).start("q")
    await begun(endless)
    await handle.cancel()
    await asyncio.to_thread(endless.check_closed)


@pytest.mark.parametrize("way", ["run", "stream_text"])
async def test_the_generator_of_a_run_that_a_sync_function_waits_for_is_closed(endless, generator, way):
    inner = Workflow(operator(generator, id="g"), name="inner")

    def outer(job: Any) -> str:
        return inner.run("q").text if way == "run" else "".join(inner.stream_text("q"))

    handle = Workflow(outer).start("q")
    await begun(endless)
    await handle.cancel()
    await asyncio.to_thread(endless.check_closed)


async def test_a_generator_that_passes_on_the_stream_of_another_workflow_ends_both(endless, generator):
    inner = Workflow(operator(generator, id="g"), name="inner")

    def outer(job: Any) -> Iterator[str]:
        yield from inner.stream_text("q")

    handle = Workflow(outer).start("q")
    await begun(endless)
    await handle.cancel()
    await asyncio.to_thread(endless.check_closed)


def test_a_generator_that_yields_something_else_than_text_is_closed_at_once():
    log: list[str] = []

    def mixed(job: Any) -> Iterator[Any]:
        try:
            yield "a"
            yield 1
        finally:
            log.append("closed")

    with pytest.raises(OperatorError, match="'mixed' yields 1") as raised:
        bounded(lambda: Workflow(mixed).run("q"))
    assert (log, raised.type) == (["closed"], type(raised.value))  # the error is alive, with its traceback


# Tools


def told_by(used: Any) -> str:
    """Return what a model is told by a tool."""

    def script(request: Any) -> Any:
        last = request["messages"][-1]
        return Say(str(last["content"])) if last["role"] == "tool" else CallTools([(used.name, {})])

    with ScriptedModel(script) as scripted:
        return Workflow(Operator("Call.", tools=[used]), model=scripted.model).run("go").text


def test_a_tool_may_be_a_generator_sync_or_async_and_returns_its_items():
    @tool
    def squares():
        """List squares."""
        yield from (1, 4)

    @tool
    async def cubes():
        """List cubes."""
        yield 1
        yield 8

    assert (told_by(squares), told_by(cubes)) == ("[1, 4]", "[1, 8]")


def test_a_generator_as_a_tool_is_closed_at_its_timeout():
    closed = Future[bool]()

    def numbers():
        """Count for ever."""
        thread = threading.get_ident()
        try:
            while True:
                yield 1
                threading.Event().wait(0.001)
        finally:
            closed.set_result(threading.get_ident() == thread)

    assert told_by(tool(timeout=0.1)(numbers)) == "ToolError: tool 'numbers' ran longer than 0.1 s and was stopped"
    assert closed.result(LONGEST)
