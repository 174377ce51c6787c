"""Threads of sync functions: no function waits for a thread of one that waits for it; functions that were given up."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Callable

import pytest
from bounded import LONGEST, bounded

from operad import Job, Map, Operator, Policy, Timeout, Tool, Workflow, operator, tool
from operad.evaluators.score_evaluator import Assessment, ScoreEvaluator
from operad.operators import OperatorConfig
from operad.runtime.knowledge.knowledge import Knowledge
from operad.runtime.testing import CallTools, Say, ScriptedModel
from operad.runtime.values import function_threads
from operad.runtime.values.errors import OperadError, OperatorError, OperatorTimeoutError
from operad.runtime.values.function_threads import abandoned_functions


class Hanging:
    """A sync function that hangs until the test ends it."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.ending = threading.Event()
        self.threads: list[threading.Thread] = []

    def __call__(self, job: Job) -> str:
        self.threads.append(threading.current_thread())
        self.begun.release()
        self.ending.wait(LONGEST)
        return "ended"

    def end(self) -> None:
        """End all calls; a thread whose function was given up ends with it."""
        self.ending.set()
        for thread in self.threads:
            thread.join(LONGEST)


@pytest.fixture
def hanging(monkeypatch):
    monkeypatch.setattr(function_threads, "IDLE_SECONDS", 0.05)  # its threads are waited for
    function = Hanging()
    yield function
    function.end()


def given_up_since(before: tuple[str, ...]) -> list[str]:
    """Names of the functions that were given up since; those of other tests may end meanwhile."""
    return [*(Counter(abandoned_functions()) - Counter(before)).elements()]


def hung(hanging: Hanging, name: str = "hang") -> Workflow[str]:
    """Return a workflow whose function is given up by a timeout."""
    return Workflow(operator(hanging, id=name, policy=Policy(timeout=Timeout(run=0.05), fallback="given up")))


def quick(job: Job) -> str:
    return "quick"


def meeting(number: int, flow: Workflow[str] | None) -> Workflow[str]:
    """Return a workflow whose functions all wait for each other, and then each for its run of another workflow."""
    meet = threading.Barrier(number)

    def step(place: int) -> Callable[[Job], str]:
        def function(job: Job) -> str:
            meet.wait(LONGEST)
            return flow.run(f"{job.goal}.{place}").text if flow else f"{job.goal}.{place}"

        return operator(function, id=f"n{place}")

    return Workflow([step(place) for place in range(number)])


@pytest.mark.parametrize("number", [64, 200])
def test_any_number_of_functions_at_once_may_each_run_a_workflow_with_functions(number):
    inner = Workflow(operator(lambda job: job.goal, id="inner"))
    output = bounded(lambda: meeting(number, inner).run("go")).output
    assert output == {f"n{place}": f"go.{place}" for place in range(number)}


@pytest.mark.parametrize("number", [1, 5])
def test_functions_that_run_workflows_end_at_each_level_of_nesting_though_each_level_is_full(monkeypatch, number):
    monkeypatch.setattr(function_threads, "MOST_THREADS", number)
    deepest = Workflow(operator(lambda job: job.goal, id="deepest"))
    middle = Workflow(operator(lambda job: deepest.run(job.goal).text, id="middle"))
    upper = Workflow(operator(lambda job: middle.run(job.goal).text, id="upper"))
    outer = Workflow(Map(each=operator(lambda item: upper.run(item).text, id="outer"), over="items", concurrency=12))
    items = [str(each) for each in range(12)]
    assert bounded(lambda: outer.run({"items": items})).output == items


def test_a_function_that_runs_a_workflow_by_asyncio_run_or_a_stream_does_not_wait_for_its_own_thread(monkeypatch):
    monkeypatch.setattr(function_threads, "MOST_THREADS", 1)
    inner = Workflow(operator(lambda job: job.goal, id="inner"))
    ways = {
        "asyncio": lambda job: asyncio.run(inner.arun(job.goal)).text,
        "stream": lambda job: "".join(inner.stream_text(job.goal)),
    }
    flow = Workflow([operator(way, id=name) for name, way in ways.items()])
    assert bounded(lambda: flow.run("go")).output == {"asyncio": "go", "stream": "go"}


@pytest.mark.parametrize(("number", "most"), [(64, 1_000), (32, 8)])
def test_any_number_of_tools_at_once_may_each_run_a_workflow_with_tools(monkeypatch, number, most):
    monkeypatch.setattr(function_threads, "MOST_THREADS", most)

    def script(request):
        if request["messages"][-1]["role"] == "tool":
            return Say("done")
        if request["messages"][-1]["content"].find("inner") < 0:
            return CallTools([("ask", {"x": f"inner {place}"}) for place in range(number)])
        return CallTools([("count", {"x": "inner"})])

    asked = []
    with ScriptedModel(script) as served:

        @tool
        def count(x: str) -> int:
            """Count."""
            return len(x)

        inner = Workflow(Operator("Inner.", tools=[count]), model=served.model)

        @tool
        def ask(x: str) -> str:
            """Ask."""
            asked.append(inner.run(x).text)
            return asked[-1]

        outer = Workflow(Operator("Outer.", tools=[ask]), model=served.model)
        assert bounded(lambda: outer.run("q")).text == "done"
    assert asked == ["done"] * number


async def test_functions_beyond_the_limit_wait_for_a_thread_and_a_warning_names_the_first(monkeypatch, caplog, hanging):
    monkeypatch.setattr(function_threads, "MOST_THREADS", 2)
    handle = Workflow([operator(hanging, id=f"n{place}") for place in range(5)]).start("q")
    for _ in range(2):
        assert await asyncio.to_thread(hanging.begun.acquire, timeout=LONGEST)
    while not caplog.records:  # the third function is submitted in one of the next turns
        await asyncio.sleep(0)
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["operator 'n2' waits for a thread"]
    assert len(hanging.threads) == 2
    hanging.ending.set()
    assert len((await asyncio.wait_for(handle, LONGEST)).output) == 5


async def test_a_cancelled_function_that_waits_for_a_thread_never_starts(monkeypatch, hanging, caplog):
    monkeypatch.setattr(function_threads, "MOST_THREADS", 1)
    before = abandoned_functions()
    first = Workflow(operator(hanging, id="first")).start("q")
    assert await asyncio.to_thread(hanging.begun.acquire, timeout=LONGEST)
    second = Workflow(operator(hanging, id="second")).start("q")
    while not caplog.records:
        await asyncio.sleep(0)
    await second.cancel()
    assert given_up_since(before) == []
    hanging.ending.set()
    assert (await asyncio.wait_for(first, LONGEST)).text == "ended"
    assert len(hanging.threads) == 1


def test_a_function_that_a_timeout_gave_up_frees_its_place_and_is_counted_until_it_ends(monkeypatch, caplog, hanging):
    monkeypatch.setattr(function_threads, "MOST_THREADS", 1)
    before = abandoned_functions()
    assert bounded(lambda: hung(hanging).run("q")).text == "given up"
    assert given_up_since(before) == ["operator 'hang'"]
    assert (
        "operator 'hang' was given up, by a timeout or because its run was cancelled, but its function" in caplog.text
    )
    assert bounded(lambda: Workflow(quick).run("q")).text == "quick"
    hanging.end()
    assert given_up_since(before) == []


async def test_a_function_of_a_cancelled_run_frees_its_place_and_is_counted_until_it_ends(monkeypatch, caplog, hanging):
    monkeypatch.setattr(function_threads, "MOST_THREADS", 1)
    before = abandoned_functions()
    handle = Workflow(operator(hanging, id="hang")).start("q")
    assert await asyncio.to_thread(hanging.begun.acquire, timeout=LONGEST)
    await handle.cancel()
    assert given_up_since(before) == ["operator 'hang'"]
    assert "operator 'hang' was given up" in caplog.text
    assert (await asyncio.wait_for(Workflow(quick).arun("q"), LONGEST)).text == "quick"
    await asyncio.to_thread(hanging.end)
    assert given_up_since(before) == []


def test_a_tool_that_its_timeout_gave_up_is_counted_by_its_name(hanging):
    before = abandoned_functions()

    def wait(x: str) -> str:
        """Wait."""
        return hanging(Job(goal=x))

    def script(request):
        return Say("done") if request["messages"][-1]["role"] == "tool" else CallTools([("wait", {"x": "1"})])

    with ScriptedModel(script) as served:
        flow = Workflow(Operator("Ask.", tools=[Tool.of(wait, timeout=0.05)]), model=served.model)
        assert bounded(lambda: flow.run("q")).text == "done"
    assert given_up_since(before) == ["tool 'wait'"]
    hanging.end()
    assert given_up_since(before) == []


def test_at_the_limit_of_functions_that_were_given_up_no_function_starts_and_the_error_names_them(monkeypatch, hanging):
    monkeypatch.setattr(function_threads, "MOST_ABANDONED", len(abandoned_functions()) + 2)
    for _ in range(2):
        bounded(lambda: hung(hanging).run("q"))
    with pytest.raises(OperatorError) as raised:
        bounded(lambda: Workflow(quick).run("q"))
    assert "operator 'quick' cannot start" in str(raised.value)
    assert "operator 'hang' (2)" in str(raised.value)
    assert isinstance(raised.value.__cause__, OperadError)
    hanging.end()
    assert bounded(lambda: Workflow(quick).run("q")).text == "quick"


async def test_the_run_that_a_function_waits_for_is_cancelled_when_the_function_is_given_up(monkeypatch, caplog):
    monkeypatch.setattr(function_threads, "MOMENT", LONGEST)  # the machine may be busy
    begun, ended = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    before = abandoned_functions()

    async def inner(job: Job) -> str:
        loop.call_soon_threadsafe(begun.set)
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    flow = Workflow(inner)
    handle = Workflow(operator(lambda job: flow.run("q").text, id="outer")).start("q")
    await asyncio.wait_for(begun.wait(), LONGEST)
    await handle.cancel()
    assert await asyncio.to_thread(ended.wait, LONGEST)
    assert given_up_since(before) == []
    assert "given up" not in caplog.text


async def test_a_run_that_a_function_begins_after_it_was_given_up_is_cancelled(hanging):
    ran = []
    flow = Workflow(operator(lambda job: ran.append(job.goal), id="inner"))
    raised = []

    def outer(job: Job) -> str:
        hanging(job)
        try:
            return flow.run("q").text
        except BaseException as error:
            raised.append(type(error).__name__)
            raise

    handle = Workflow(outer).start("q")
    assert await asyncio.to_thread(hanging.begun.acquire, timeout=LONGEST)
    await handle.cancel()
    await asyncio.to_thread(hanging.end)
    assert (raised, ran) == (["CancelledError"], [])


def test_functions_that_hang_do_not_keep_the_interpreter_from_exiting(forked):
    code = """
import threading
from operad import Policy, Timeout, Workflow, operator
def hang(job):
    threading.Event().wait()
flow = Workflow(operator(hang, policy=Policy(timeout=Timeout(run=0.05), fallback="given up")))
print(flow.run("q").text)
"""
    done = forked.run([sys.executable, "-c", code], timeout=LONGEST)
    assert (done.returncode, done.stdout) == (0, "given up\n")
    assert "operator 'hang' was given up" in done.stderr


def test_a_function_that_raises_stop_iteration_fails_its_operator():
    def empty(job: Job) -> str:
        return next(iter([]))

    with pytest.raises(OperatorError, match=r"operator 'empty' .* the function raised StopIteration") as raised:
        bounded(lambda: Workflow(empty).run("q"))
    assert raised.value.__cause__ is not None
    assert isinstance(raised.value.__cause__.__cause__, StopIteration)


def test_a_timeout_of_a_function_is_an_error_of_its_operator(hanging):
    flow = Workflow(operator(hanging, id="hang", policy=Policy(timeout=Timeout(run=0.05))))
    with pytest.raises(OperatorError) as raised:
        bounded(lambda: flow.run("q"))
    assert isinstance(raised.value.__cause__, OperatorTimeoutError)


def test_searches_of_knowledge_bases_and_scores_that_wait_for_each_other_have_threads():
    number = 40  # more than the threads of asyncio.to_thread
    searching, measuring = threading.Barrier(number), threading.Barrier(number)

    class Base:
        def retrieve(self, query: str) -> Knowledge:
            searching.wait(LONGEST)
            return Knowledge()

    class Score(ScoreEvaluator):
        def assess(self, text: str, job: Job) -> Assessment:
            measuring.wait(LONGEST)
            return Assessment(1.0)

    def flow(index: int) -> Workflow:
        one = Workflow(Operator("Answer.", id="ask", knowledge_base=Base()), name=f"flow{index}")
        one.set_evaluator(Score(OperatorConfig(instruction="Measure.", id="score"), threshold=0.5))
        return one

    with ScriptedModel(lambda _: Say("yes")) as scripted:
        flows = Workflow([flow(index) for index in range(number)], model=scripted.model)
        assert len(bounded(lambda: flows.run("go").output)) == number
