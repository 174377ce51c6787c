"""A generator ends with its run: at its next item, in its own thread, with its `finally`."""

import asyncio
import gc
import threading
from contextlib import suppress

import pytest
from left_behind import check_nothing_left

from operad import Budget, Job, Map, Operator, Policy, Timeout, Workflow, operator, tool
from operad.runtime.events import TokenStreamed
from operad.runtime.testing import CallTools, Say, ScriptedModel
from operad.runtime.values.errors import BudgetError, OperatorError, OperatorTimeoutError


class Endless:
    """An endless generator, sync or async, that notes its end and the thread of it."""

    def __init__(self, *, is_async: bool) -> None:
        self.closed: list[bool] = []
        self.operator = operator(self._async_words if is_async else self._words, id="words")
        self.flow = Workflow(self.operator)

    def _words(self, job: Job):
        thread = threading.get_ident()
        try:
            while True:
                yield "word "
        finally:
            self.closed.append(thread == threading.get_ident())

    async def _async_words(self, job: Job):
        thread = threading.get_ident()
        try:
            while True:
                yield "word "
                await asyncio.sleep(0)
        finally:
            self.closed.append(thread == threading.get_ident())

    def check_closed(self, number: int = 1) -> None:
        check_nothing_left()
        assert self.closed == [True] * number


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def endless(request):
    return Endless(is_async=request.param)


@pytest.mark.parametrize("of", ["stream_text", "stream"])
def test_it_has_ended_when_a_for_loop_is_left(endless, of):
    for item in getattr(endless.flow, of)("go"):
        if isinstance(item, str | TokenStreamed):
            break
    gc.collect()
    endless.check_closed()


def test_it_ends_when_a_with_block_is_left_by_an_error(endless):
    with suppress(ZeroDivisionError), endless.flow.stream_text("go") as stream:
        for _ in stream:
            raise ZeroDivisionError
    endless.check_closed()


def test_it_ends_when_the_iterator_is_garbage_also_in_the_thread_of_an_event_loop(endless):
    async def collect() -> None:
        gc.collect()

    pieces = iter(endless.flow.stream_text("go"))
    next(pieces)
    circle = [pieces]
    circle.append(circle)
    del pieces, circle
    asyncio.run(collect())
    endless.check_closed()


async def test_it_ends_when_an_async_for_loop_is_left(endless):
    async with endless.flow.stream_text("go") as stream:
        async for _ in stream:
            break
    await asyncio.to_thread(endless.check_closed)


async def test_it_ends_when_an_async_stream_is_forgotten(endless):
    async for _ in endless.flow.stream_text("go"):
        break
    gc.collect()
    await asyncio.to_thread(endless.check_closed)


async def test_it_ends_when_the_task_of_the_run_is_cancelled(endless):
    begins, loop = asyncio.Event(), asyncio.get_running_loop()
    flow = Workflow(endless.operator, listeners=[lambda _: loop.call_soon_threadsafe(begins.set)])
    task = asyncio.ensure_future(flow.arun("go"))
    await begins.wait()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.to_thread(check_nothing_left)
    assert set(endless.closed) <= {True}


async def test_it_ends_when_its_handle_cancels_the_run(endless):
    handle = endless.flow.start("go")
    async for _ in handle:
        break
    await handle.cancel()
    await asyncio.to_thread(check_nothing_left)
    assert set(endless.closed) <= {True}


def test_it_ends_at_its_timeout(endless):
    flow = Workflow(endless.operator, policy=Policy(timeout=Timeout(run=0.2)))
    with pytest.raises(OperatorError) as raised:
        flow.run("go")
    assert isinstance(raised.value.__cause__, OperatorTimeoutError)
    endless.check_closed()


def test_it_ends_when_an_operator_beside_it_fails(endless):
    begins = threading.Event()

    def fail(job: Job) -> str:
        begins.wait(20)
        raise ValueError("no")

    flow = Workflow(
        [endless.operator, operator(fail)], listeners=[lambda e: "Token" in type(e).__name__ and begins.set()]
    )
    with pytest.raises(ValueError, match="no"):
        flow.run("go")
    endless.check_closed()


def test_it_ends_in_each_item_of_a_map_and_in_nested_workflows(endless):
    nested = Workflow(endless.flow, name="outer")
    flow = Workflow(Map("each", nested, over="numbers", concurrency=3), budget=Budget(seconds=0.3))
    with pytest.raises(BudgetError):
        flow.run({"numbers": [1, 2, 3]})
    endless.check_closed(3)


def test_it_ends_with_the_function_that_streams_its_workflow(endless):
    def outer(job: Job) -> str:
        return "".join(endless.flow.stream_text(job.goal))

    with pytest.raises(OperatorError):
        Workflow(operator(outer, policy=Policy(timeout=Timeout(run=0.2)))).run("go")
    endless.check_closed()


def test_a_part_that_is_no_text_closes_an_async_generator():
    closed = []

    async def numbers(job: Job):
        try:
            yield 1
            yield 2
        finally:
            closed.append(True)

    with pytest.raises(OperatorError, match="'numbers' yields 1"):
        Workflow(operator(numbers)).run("go")
    assert closed == [True]


def test_a_generator_that_ends_by_itself_is_read_to_its_end():
    def words(job: Job):
        yield "a "
        yield "b"

    flow = Workflow(operator(words))
    assert (flow.run("go").text, [*flow.stream_text("go")]) == ("a b", ["a ", "b"])


# Tools


def answer_of(*tools, timeout=None):
    """Return what a model is told by a tool."""

    def script(request):
        last = request["messages"][-1]
        return Say(str(last["content"])) if last["role"] == "tool" else CallTools([(tools[0].name, {})])

    with ScriptedModel(script) as scripted:
        return Workflow(Operator("Call.", tools=tools), model=scripted.model).run("go").text


def test_a_tool_may_be_a_generator_sync_or_async_and_returns_its_items():
    @tool
    def squares():
        "List squares."
        yield from (1, 4)

    @tool
    async def cubes():
        "List cubes."
        yield 1
        yield 8

    assert (answer_of(squares), answer_of(cubes)) == ("[1, 4]", "[1, 8]")


def test_a_generator_as_a_tool_ends_at_its_timeout():
    closed = []

    def numbers():
        "Count for ever."
        try:
            while True:
                yield 1
                threading.Event().wait(0.001)
        finally:
            closed.append(True)

    assert answer_of(tool(timeout=0.1)(numbers)) == "ToolError: tool 'numbers' ran longer than 0.1 s and was stopped"
    check_nothing_left()
    assert closed == [True]
