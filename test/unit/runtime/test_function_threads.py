"""Threads of sync functions: no run waits for itself, and functions that were given up take nobody's thread."""

import asyncio
import logging
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from left_behind import check_nothing_left

from operad import Budget, Job, Map, Operator, Policy, Timeout, Workflow, operator, tool
from operad.evaluators.score_evaluator import Assessment, ScoreEvaluator
from operad.operators import OperatorConfig
from operad.runtime.knowledge.knowledge import Knowledge
from operad.runtime.testing import CallTools, Say, ScriptedModel
from operad.runtime.values import function_threads
from operad.runtime.values.errors import OperadError, OperatorError, OperatorTimeoutError
from operad.runtime.values.function_threads import MOST_THREADS, abandoned_functions

LONGEST = 60.0


@pytest.fixture(autouse=True)
def nothing_left():
    yield
    check_nothing_left()


def ended(work):
    """Return the value of a function, or fail if it does not end."""
    done: list = []
    thread = threading.Thread(target=lambda: done.append(work()), daemon=True)
    thread.start()
    thread.join(LONGEST)
    assert done, "the run waits for ever"
    return done[0]


def echo() -> Workflow:
    return Workflow(operator(lambda number: number, id="echo"), name="echo")


@pytest.mark.parametrize("width", [1, 64, 640])
def test_sync_functions_that_run_a_workflow_at_the_same_time_all_end(width):
    inner, meet = echo(), threading.Barrier(width)

    def step(number: int) -> str:
        meet.wait(LONGEST)  # every function has its thread before one of them runs the workflow
        return inner.run({"number": number}).text

    flow = Workflow(Map("each", operator(step), over="numbers", concurrency=width))
    assert ended(lambda: flow.run({"numbers": [*range(width)]}).output) == [str(number) for number in range(width)]


def test_a_level_has_places_of_its_own_though_all_places_around_it_are_taken(monkeypatch):
    monkeypatch.setattr(function_threads, "MOST_THREADS", 3)
    lock, now, most = threading.Lock(), Counter(), Counter()

    def level(depth: int):
        inner = Workflow(operator(level(depth - 1), id=f"d{depth - 1}"), name=f"w{depth}") if depth else None

        def work(job: Job) -> str:
            with lock:
                now[depth] += 1
                most[depth] = max(most[depth], now[depth])
            try:
                return inner.run(job.goal).text if inner else job.goal
            finally:
                with lock:
                    now[depth] -= 1

        return work

    outer = Workflow([operator(level(2), id=f"n{number}") for number in range(40)])
    assert len(ended(lambda: outer.run("go").output)) == 40
    assert set(most) == {0, 1, 2}
    assert max(most.values()) <= 3


def test_functions_that_wait_for_a_place_are_told_of_in_the_log_and_begin_in_their_order(monkeypatch, caplog):
    monkeypatch.setattr(function_threads, "MOST_THREADS", 1)
    begun: list[int] = []

    def step(number: int) -> int:
        begun.append(number)
        return number

    flow = Workflow(Map("each", operator(step), over="numbers", concurrency=5))
    with caplog.at_level(logging.WARNING, "operad.runtime.values.function_threads"):
        assert ended(lambda: flow.run({"numbers": [*range(5)]}).output) == [*range(5)]
    assert begun == [*range(5)]
    assert "operator 'step' waits for a thread: 1 sync functions run at once" in caplog.text


def test_functions_may_run_workflows_in_threads_and_event_loops_of_their_own():
    inner, width = echo(), 70
    meet = threading.Barrier(width)

    def in_thread(number: int) -> str:
        meet.wait(LONGEST)
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(lambda: inner.run({"number": number}).text).result()

    def in_loop(number: int) -> str:
        meet.wait(LONGEST)
        return asyncio.run(inner.arun({"number": number})).text

    for step in (in_thread, in_loop):
        flow = Workflow(Map("each", operator(step), over="numbers", concurrency=width))
        assert len(ended(lambda flow=flow: flow.run({"numbers": [*range(width)]}).output)) == width


def test_tools_that_are_called_at_once_and_run_a_workflow_all_end():
    width = 70
    meet = threading.Barrier(width)

    def script(request):
        if not request.get("tools"):
            return Say("inner")
        asked = request["messages"][-1]["role"] != "tool"
        return CallTools([("ask", {"x": str(number)}) for number in range(width)]) if asked else Say("done")

    with ScriptedModel(script) as scripted:
        inner = Workflow(Operator("Say."), model=scripted.model)

        @tool
        def ask(x: str) -> str:
            "Ask."
            meet.wait(LONGEST)
            return inner.run(x).text

        assert ended(lambda: Workflow(Operator("Call.", tools=[ask]), model=scripted.model).run("go").text) == "done"


def test_knowledge_bases_and_scores_that_wait_for_each_other_get_threads():
    width = 40  # more than the threads of asyncio.to_thread
    meet, meet_too = threading.Barrier(width), threading.Barrier(width)

    class Base:
        def retrieve(self, query: str) -> Knowledge:
            meet.wait(LONGEST)
            return Knowledge()

    class Score(ScoreEvaluator):
        def assess(self, text: str, job: Job) -> Assessment:
            meet_too.wait(LONGEST)
            return Assessment(1.0, "fine")

    def flow(number: int) -> Workflow:
        asking = Operator("Answer.", id=f"ask{number}", knowledge_base=Base())
        one = Workflow(asking, name=f"flow{number}", model=scripted.model)
        one.set_evaluator(Score(OperatorConfig(instruction="Measure.", id="score"), threshold=0.5))
        return one

    with ScriptedModel(lambda _: Say("yes")) as scripted:
        flows = Workflow([flow(number) for number in range(width)])
        assert len(ended(lambda: flows.run("go").output)) == width


# Functions that were given up


@pytest.fixture
def stuck():
    """Function that hangs until the end of the test."""
    free = threading.Event()

    def hang(job: Job) -> str:
        free.wait(LONGEST)
        return "late"

    yield hang
    free.set()


def given_up(function, name: str = "hang", **options) -> str:
    timed = Policy(timeout=Timeout(run=0.01), **options)
    return Workflow(operator(function, id=name, policy=timed)).run("go").text


def test_a_function_that_was_given_up_is_counted_until_it_ends_and_a_warning_names_it(stuck, caplog):
    with caplog.at_level(logging.WARNING, "operad.runtime.values.function_threads"):
        assert given_up(stuck, fallback="given up") == "given up"
    assert abandoned_functions() == ("operator 'hang'",)
    assert caplog.messages == [
        "operator 'hang' was given up, by a timeout or because its run was cancelled, but its function runs on in a "
        "thread, which cannot be stopped (1 such threads; the limit is 256): give what it waits for a timeout of its own, "
        "or make it an async function"
    ]


def test_functions_that_were_given_up_take_no_places_of_others(stuck, monkeypatch):
    monkeypatch.setattr(function_threads, "MOST_THREADS", 2)
    for _ in range(6):
        assert given_up(stuck, fallback="given up") == "given up"
    assert ended(lambda: Workflow(operator(lambda job: "quick", id="quick")).run("go").text) == "quick"


def test_too_many_functions_that_were_given_up_are_an_error_with_their_names_until_they_end(monkeypatch):
    monkeypatch.setattr(function_threads, "MOST_ABANDONED", 3)
    free = threading.Event()

    def hang(job: Job) -> str:
        free.wait(LONGEST)
        return "late"

    quick = Workflow(operator(lambda job: "quick", id="quick"))
    for name in ("a", "b", "a"):
        given_up(hang, name, fallback="")
    with pytest.raises(OperatorError) as raised:
        quick.run("go")
    assert type(raised.value.__cause__) is OperadError
    assert str(raised.value.__cause__) == (
        "operator 'quick' cannot start: 3 functions that were given up, by timeouts or cancelled runs, still run in "
        "threads of this process: operator 'a' (2), operator 'b' (1); give what they wait for a timeout of its own, or "
        "make them async functions; until one of them ends, or the process is restarted, no sync function starts"
    )
    free.set()
    check_nothing_left()
    assert quick.run("go").text == "quick"


def test_a_function_that_was_given_up_ends_with_the_run_that_it_waits_for():
    async def wait(job: Job) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ends.append("inner")

    ends: list[str] = []
    inner = Workflow(operator(wait), name="inner")

    def outer(job: Job) -> str:
        try:
            return inner.run("go").text
        finally:
            ends.append("outer")

    with pytest.raises(OperatorError) as raised:
        Workflow(operator(outer, policy=Policy(timeout=Timeout(run=0.2)))).run("go")
    assert isinstance(raised.value.__cause__, OperatorTimeoutError)
    check_nothing_left()
    assert ends == ["inner", "outer"]


def test_a_function_that_was_given_up_starts_no_other_run():
    begun, begins, given = [], threading.Event(), threading.Event()
    inner = Workflow(operator(lambda job: begun.append(job.goal) or job.goal, id="inner"), name="inner")

    def outer(job: Job) -> str:
        begins.set()
        given.wait(LONGEST)
        return inner.run("late").text

    with pytest.raises(OperatorError):
        Workflow(operator(outer, policy=Policy(timeout=Timeout(run=0.2)))).run("go")
    assert begins.is_set()
    given.set()
    check_nothing_left()
    assert begun == []


def test_a_call_that_waits_for_a_place_is_cancelled_with_its_run(monkeypatch):
    monkeypatch.setattr(function_threads, "MOST_THREADS", 1)
    busy, free, begun = threading.Event(), threading.Event(), []

    def first(job: Job) -> str:
        busy.set()
        free.wait(LONGEST)
        return "first"

    holder = ThreadPoolExecutor(1)
    one = holder.submit(lambda: Workflow(operator(first)).run("go").text)
    busy.wait(LONGEST)
    queued = Workflow(operator(lambda job: begun.append(1) or "", id="queued"), budget=Budget(seconds=0.05))
    with pytest.raises(OperadError, match="has used up its budget"):
        queued.run("go")
    free.set()
    assert one.result(LONGEST) == "first"
    holder.shutdown()
    check_nothing_left()
    assert begun == []


def test_a_function_that_hangs_does_not_keep_the_process_from_its_end(forked):
    code = """
import threading
from operad import Job, Policy, Timeout, Workflow, operator

def hang(job: Job) -> str:
    threading.Event().wait()
    return ""

print(Workflow(operator(hang, policy=Policy(timeout=Timeout(run=0.05), fallback="given up"))).run("go").text)
"""
    done = forked.run([sys.executable, "-c", code], timeout=LONGEST)
    assert (done.returncode, done.stdout) == (0, "given up\n")


def test_idle_threads_are_used_again():
    names = {Workflow(operator(lambda job: str(threading.get_ident()), id="who")).run("go").text for _ in range(20)}
    assert len(names) < 20
    assert MOST_THREADS == 1_000
