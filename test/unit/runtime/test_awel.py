"""Our AWEL runner on AWEL's own operators, row by row of what AWEL's default runner does wrong.

Where the documented rules don't differ from AWEL's, both runners must give the same: see
test_awel_contract.py and test_awel_differential.py.
"""

from __future__ import annotations

# pyright: reportUnusedExpression=false, reportIncompatibleMethodOverride=false
# AWEL's `>>` is a statement, and its streaming methods are declared as coroutines.
import asyncio
import inspect
import subprocess
import sys
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from typing import Any

import pytest
from amounts import amount

from operad.runtime.graph.awel import AwelRunner, build  # first: it imports dbgpt with care

from dbgpt.core.awel import (  # isort: skip
    DAG,
    BaseOperator,
    BranchJoinOperator,
    BranchOperator,
    DAGContext,
    JoinOperator,
    MapOperator,
    StreamifyAbsOperator,
    TriggerOperator,
    UnstreamifyAbsOperator,
    WorkflowRunner,
)
from dbgpt.core.awel.dag import base as dag_base  # isort: skip
from dbgpt.core.awel.operators import base as operators_base  # isort: skip
from dbgpt.core.awel.task import base as task_base, task_impl  # isort: skip

from operad.runtime.graph.schedule import Plan, Progress
from operad.runtime.values.errors import InvalidError, OperadError

RENDEZVOUS = 10.0
RUNNER = AwelRunner()


def Map(function: Callable[..., Any], name: str | None = None, **kwargs: Any) -> Any:  # noqa: N802
    return MapOperator(function, task_name=name, runner=RUNNER, **kwargs)


def Join(function: Callable[..., Any], name: str | None = None, **kwargs: Any) -> Any:  # noqa: N802
    return JoinOperator(function, task_name=name, runner=RUNNER, **kwargs)


def Trigger(**kwargs: Any) -> Any:  # noqa: N802
    return TriggerOperator(runner=RUNNER, **kwargs)


class Count(StreamifyAbsOperator[int, int]):
    """Streams 0 to n - 1."""

    async def streamify(self, input_value: int) -> AsyncIterator[int]:
        for number in range(input_value):
            await asyncio.sleep(0)
            yield number


class Collect(UnstreamifyAbsOperator[int, list[int]]):
    async def unstreamify(self, input_value: AsyncIterator[int]) -> list[int]:
        return [number async for number in input_value]


def texts(*values: Any) -> str:
    return "+".join(map(str, values))


async def call(end: Any, data: Any = 1) -> Any:
    return await asyncio.wait_for(end.call(data), RENDEZVOUS)


# Calls


async def test_several_roots_take_their_call_data_by_id() -> None:
    with DAG("roots"):
        end = Join(texts)
        Trigger(task_id="left") >> end
        Trigger(task_id="right") >> end

    context = await RUNNER.execute_workflow(end, {"left": {"data": 1}, "right": {"data": 2}})

    assert context.current_task_context.task_output.output == "1+2"


async def test_a_call_on_an_inner_node_runs_only_what_it_depends_on() -> None:
    ran: list[str] = []
    with DAG("inner"):
        source = Trigger()
        inner = source >> Map(lambda x: ran.append("inner"))
        inner >> Map(lambda x: ran.append("after"))
        source >> Map(lambda x: ran.append("beside"))

    await call(inner)

    assert ran == ["inner"]


# The table of spec/awel.md


async def test_a_chain_of_two_thousand_needs_no_recursion() -> None:
    with DAG("long"):
        end = Trigger()
        for _ in range(2000):
            end = end >> Map(lambda x: x + 1)

    assert await call(end, 0) == 2000


async def test_a_ladder_of_a_thousand_diamonds_runs_each_node_once() -> None:
    ran = Counter[int]()

    def count(stage: int, value: int) -> int:
        ran[stage] += 1
        return value + 1

    with DAG("ladder"):
        end = Trigger()
        for stage in range(1000):
            join = Join(lambda a, b: max(a, b))
            end >> Map(lambda x, stage=stage: count(stage, x)) >> join
            end >> Map(lambda x: x) >> join
            end = join

    assert await asyncio.wait_for(end.call(0), 30) == 1000
    assert set(ran.values()) == {1}


@pytest.mark.parametrize("size", [20_000])
async def test_our_own_dag_of_a_chain_of_twenty_thousand_runs(size: int) -> None:
    plan = Plan({str(n): [str(n - 1)] if n else [] for n in range(size)})
    progress = Progress(plan)
    ran: list[int] = []

    async def step(node: int) -> list[int]:
        ran.append(node)
        return progress.finish(node)

    await build(plan)(progress.ready, step)

    assert ran == list(range(size))


async def test_when_a_node_raises_its_siblings_are_cancelled_and_awaited_and_the_error_is_unchanged() -> None:
    error = LookupError("mine")
    started, ended = asyncio.Event(), False

    async def fail(_: int) -> None:
        await started.wait()
        raise error

    async def wait(_: int) -> None:
        nonlocal ended
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            ended = True

    with DAG("fails"):
        source, end = Trigger(), Join(texts)
        source >> Map(fail) >> end
        source >> Map(wait) >> end

    with pytest.raises(LookupError) as caught:
        await call(end)
    assert caught.value is error
    assert ended


class LetGo:
    """Something that a run holds."""


@pytest.mark.parametrize("ending", ["success", "failure", "cancellation"])
def test_calls_leave_nothing_behind(without_gc: None, ending: str) -> None:
    async def work(thing: LetGo) -> None:
        if ending == "failure":
            raise ValueError
        if ending == "cancellation":
            await asyncio.sleep(60)

    with DAG("leaks") as dag:
        source, end = Trigger(), Join(lambda *_: None)
        source >> Map(work) >> end
        source >> Map(lambda x: x) >> end
    left: list[weakref.ref[LetGo]] = []

    async def calls() -> None:
        for _ in range(amount(100, 1000)):
            thing = LetGo()
            left.append(weakref.ref(thing))
            task = asyncio.create_task(end.call(thing))
            if ending == "cancellation":
                for _ in range(3):
                    await asyncio.sleep(0)
                task.cancel()
            with suppress(ValueError, asyncio.CancelledError):
                await task
            del task, thing
            await asyncio.sleep(0)

    asyncio.run(calls())  # the test's own task may be of a kind that keeps errors

    assert sum(ref() is not None for ref in left) == 0
    assert dag._event_loop_task_id_to_ctx == {}


def test_eight_threads_with_loops_of_their_own_share_one_dag() -> None:
    async def pause(x: str) -> str:
        await asyncio.sleep(0)
        return x

    with DAG("threads"):
        source, end = Trigger(), Join(texts)
        for _ in range(3):
            source >> Map(pause) >> end

    def fifty_calls(thread: int) -> int:
        async def calls() -> int:
            names = [f"{thread}.{number}" for number in range(50)]
            said = await asyncio.gather(*(end.call(name) for name in names))
            return sum(text == texts(name, name, name) for text, name in zip(said, names, strict=True))

        return asyncio.run(asyncio.wait_for(calls(), 30))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            right = sum(pool.map(fifty_calls, range(8)))
    finally:
        sys.setswitchinterval(interval)

    assert right == 400


async def test_a_cycle_is_an_error_that_names_the_nodes_before_anything_runs() -> None:
    ran: list[int] = []
    with DAG("cycle"):
        source, a, b, end = Trigger(), Join(texts, "a"), Map(ran.append, "b"), Map(ran.append, "end")
        source >> a >> b >> end
        b >> a

    with pytest.raises(InvalidError, match=r"\[cycle\].*('a' → 'b' → 'a'|'b' → 'a' → 'b')"):
        await call(end)
    assert ran == []


async def test_the_false_cycle_that_awel_makes_of_a_double_edge_is_named_too() -> None:
    with DAG("double"):
        a, b = Map(lambda x: x, "a"), Map(lambda x: x, "b")
        b << a
        b << a

    with pytest.raises(InvalidError, match="cycle"):
        await call(b)


# Streams


async def test_consumers_of_one_stream_may_read_at_different_speeds() -> None:
    second_is_done = asyncio.Event()

    class Slow(Collect):
        async def unstreamify(self, input_value: AsyncIterator[int]) -> list[int]:
            first = await anext(input_value)
            await second_is_done.wait()
            return [first, *[number async for number in input_value]]

    class Quick(Collect):
        async def unstreamify(self, input_value: AsyncIterator[int]) -> list[int]:
            numbers = [number async for number in input_value]
            second_is_done.set()
            return numbers

    with DAG("speeds"):
        stream, end = Count(runner=RUNNER), Join(lambda *lists: lists)
        Trigger() >> stream
        stream >> Slow(runner=RUNNER) >> end
        stream >> Quick(runner=RUNNER) >> end

    assert await call(end, 5) == ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4])


async def test_an_error_in_a_stream_reaches_every_consumer() -> None:
    class Breaks(StreamifyAbsOperator[int, int]):
        async def streamify(self, input_value: int) -> AsyncIterator[int]:
            yield 0
            raise ValueError("torn")

    seen: list[str] = []

    class Watch(Collect):
        async def unstreamify(self, input_value: AsyncIterator[int]) -> list[int]:
            try:
                return await super().unstreamify(input_value)
            except ValueError as error:
                seen.append(str(error))
                return []

    with DAG("torn"):
        stream, end = Breaks(runner=RUNNER), Join(lambda *_: None)
        Trigger() >> stream
        stream >> Watch(runner=RUNNER) >> end
        stream >> Watch(runner=RUNNER) >> end

    await call(end)

    assert seen == ["torn", "torn"]


async def test_call_stream_on_a_plain_value_gives_it_as_the_only_item() -> None:
    with DAG("plain"):
        end = Trigger() >> Map(lambda x: x + 1)

    assert [item async for item in await end.call_stream(3)] == [4]


async def test_a_streaming_node_finds_its_context_while_the_caller_consumes() -> None:
    class Shares(StreamifyAbsOperator[int, int]):
        async def streamify(self, input_value: int) -> AsyncIterator[int]:
            yield input_value
            yield await self.current_dag_context.get_from_share_data("more")

    async def save(x: int) -> int:
        await first.current_dag_context.save_to_share_data("more", x + 1)
        return x

    with DAG("context"):
        first = Map(save)
        end = Trigger() >> first >> Shares(runner=RUNNER)

    assert [number async for number in await end.call_stream(3)] == [3, 4]


async def test_a_failed_streaming_call_raises_the_error_and_can_be_ended_as_awel_does() -> None:
    async def fail(_: int) -> None:
        raise LookupError("mine")

    with DAG("fails") as dag:
        end = Trigger() >> Map(fail) >> Count(runner=RUNNER)

    with pytest.raises(LookupError, match="mine"):
        await end.call_stream(3)
    await dag._after_dag_end(end.current_event_loop_task_id)  # AWEL's triggers do so in a `finally`

    assert dag._event_loop_task_id_to_ctx == {}


# Branches and skips


def branching(choose: str, join: Callable[..., Any] | None = None, **kwargs: Any) -> Any:
    """trigger >> branch >> left and right >> join, of which the branch chooses those in `choose`."""
    with DAG("branching"):
        left, right = Map(lambda x: f"left {x}", "left"), Map(lambda x: f"right {x}", "right")
        branch = BranchOperator(
            {lambda _: "l" in choose: "left", lambda _: "r" in choose: "right"}, task_name="branch", runner=RUNNER
        )
        end = join(runner=RUNNER) if join else Join(lambda *values: values, "join", **kwargs)
        Trigger() >> branch
        branch >> left >> end
        branch >> right >> end
    return end


@pytest.mark.parametrize(("choose", "first"), [("lr", "left 1"), ("l", "left 1"), ("r", "right 1")])
async def test_awels_first_that_ran_join_gets_only_those_that_ran(choose: str, first: str) -> None:
    assert await call(branching(choose, BranchJoinOperator)) == first


async def test_a_call_whose_end_was_skipped_is_an_error_that_says_why() -> None:
    with pytest.raises(OperadError, match=r"'join' was skipped: branch 'branch' did not choose 'left'"):
        await call(branching(""))


async def test_a_node_that_cannot_be_skipped_runs_without_its_parents() -> None:
    assert await call(branching("", can_skip_in_branch=False)) == (None, None)


async def test_what_follows_a_skipped_node_is_skipped_until_a_join_with_one_that_ran() -> None:
    ran: list[str] = []

    def note(name: str) -> Any:
        return Map(lambda x: ran.append(name) or name, name)

    with DAG("skips"):
        branch = BranchOperator({lambda _: False: "a", lambda _: True: "b"}, runner=RUNNER)
        end = Join(lambda *values: values)
        Trigger() >> branch
        branch >> note("a") >> note("after a") >> note("long after a") >> end
        branch >> note("b") >> end

    assert await call(end) == (None, "b")
    assert ran == ["b"]


async def test_a_join_of_a_skipped_parent_and_a_stream_may_give_the_stream() -> None:
    with DAG("skipped stream"):
        branch = BranchOperator({lambda _: False: "a", lambda _: True: "b"}, runner=RUNNER)
        end = Join(lambda skipped, stream: stream)
        Trigger() >> branch
        branch >> Map(lambda x: x, "a") >> end
        branch >> Count(task_name="b", runner=RUNNER) >> end

    assert [number async for number in await end.call_stream(3)] == [0, 1, 2]


# Context, hooks, sub-DAGs


async def test_siblings_that_run_together_each_have_their_own_current_task() -> None:
    meeting = asyncio.Event()
    missing = 3

    class Who(MapOperator[int, str]):
        async def map(self, input_value: int) -> str:
            nonlocal missing
            missing -= 1
            if not missing:
                meeting.set()
            await meeting.wait()
            return self.current_dag_context.current_task_context.task_id

    with DAG("who"):
        source, end = Trigger(), Join(texts)
        for name in "abc":
            source >> Who(task_id=name, runner=RUNNER) >> end

    assert await call(end) == "a+b+c"


@pytest.mark.parametrize("fails", [False, True])
async def test_hooks_run_before_and_after_whatever_the_end(fails: bool) -> None:
    story: list[str] = []

    class Hooked(MapOperator[int, int]):
        async def before_dag_run(self) -> None:
            story.append("before")

        async def after_dag_end(self, event_loop_task_id: int) -> None:
            story.append("after")
            if fails:
                raise RuntimeError("the hook failed too")

        async def map(self, input_value: int) -> int:
            story.append("run")
            if fails:
                raise LookupError("first")
            return input_value

    with DAG("hooks"):
        end = Trigger() >> Hooked(runner=RUNNER)

    with pytest.raises(LookupError, match="first") if fails else nullcontext():
        await call(end)
    assert story == ["before", "run", "after"]


async def test_a_dag_called_again_with_the_same_context_remembers_its_outputs() -> None:
    ran: list[int] = []
    with DAG("inner") as inner:
        inner_end = Trigger() >> Map(lambda x: ran.append(x) or x + 1)

    async def twice(x: int) -> list[int]:
        context = outer.current_dag_context
        return [await inner_end.call(x, dag_ctx=context), await inner_end.call(x + 50, dag_ctx=context)]

    with DAG("outer"):
        outer = Map(twice)
        end = Trigger() >> outer

    assert await call(end, 1) == [2, 2]
    assert ran == [1]
    assert inner._event_loop_task_id_to_ctx == {}


async def test_what_the_outer_call_skipped_stays_skipped_in_an_inner_call() -> None:
    async def again(x: Any) -> Any:
        return x, await join.call(1, dag_ctx=last.current_dag_context)

    with DAG("skips"):
        branch = BranchOperator({lambda _: False: "a", lambda _: True: "b"}, runner=RUNNER)
        skipped, join = Map(lambda x: x, "a"), Join(lambda *values: values)
        first, last = Join(lambda *values: values), Map(again)
        Trigger() >> branch
        other = Map(lambda x: x, "b")
        branch >> skipped >> first
        branch >> other >> first
        skipped >> join
        other >> join
        first >> last

    assert await call(last, 1) == ((None, 1), (None, 1))


# Contract: the private names of dbgpt that awel.py uses


@pytest.mark.parametrize(
    ("owner", "names"),
    [
        (operators_base, ["CURRENT_DAG_CONTEXT", "initialize_runner"]),
        (WorkflowRunner, ["execute_workflow"]),
        (BaseOperator, ["_run", "_do_run", "call", "call_stream", "can_skip_in_branch"]),
        (dag_base.DAGNode, ["before_dag_run", "after_dag_end", "upstream", "downstream", "set_node_id", "node_name"]),
        (dag_base.DAGVar, ["get_current_system_app"]),
        (dag_base.DAGVariables, ["merge"]),
        (JoinOperator, ["_return_first_non_empty"]),
        (task_base, ["SKIP_DATA"]),
        (task_impl, ["DefaultInputContext", "DefaultTaskContext", "SimpleTaskOutput", "SimpleStreamTaskOutput"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_dbgpt_still_has(owner: Any, names: list[str]) -> None:
    missing = [name for name in names if not hasattr(owner, name)]

    assert not missing, f"dbgpt's {owner.__name__} has lost {missing}, which runtime/graph/awel.py uses"


def test_dbgpts_dag_node_and_context_still_keep_what_we_read() -> None:
    with DAG("contract") as dag:
        node = Map(lambda x: x)
    context = DAGContext({}, {}, event_loop_task_id=7)
    kept = {
        "DAG": (dag, ["node_map", "_event_loop_task_id_to_ctx", "_default_dag_variables"]),
        "DAGNode": (node, ["_node_id"]),
        "JoinOperator": (Join(texts, task_id="join"), ["combine_function"]),
        "DAGContext": (
            context,
            ["_node_to_outputs", "_share_data", "_share_data_lock", "_event_loop_task_id", "_dag_variables"],
        ),
    }

    missing = {owner: [name for name in names if not hasattr(it, name)] for owner, (it, names) in kept.items()}

    assert not any(missing.values()), f"dbgpt has lost {missing}, which runtime/graph/awel.py uses"


def test_a_node_made_with_a_dag_is_in_it() -> None:
    with DAG("outer"):
        pass
    dag = DAG("given")

    node = Map(lambda x: x, dag=dag, task_id="id")

    assert dag.node_map == {"id": node}


def test_a_runner_is_called_as_dbgpt_calls_it() -> None:
    ours = inspect.signature(AwelRunner.execute_workflow).parameters
    theirs = inspect.signature(WorkflowRunner.execute_workflow).parameters

    assert list(ours) == list(theirs)


# Importing


def test_importing_leaves_stdout_and_the_random_state_alone_even_in_ci() -> None:
    code = """
import logging, random
random.seed(7)
before, handlers = random.getstate(), list(logging.getLogger().handlers)
import operad.runtime.graph.awel
assert random.getstate() == before, "importing changed the random state"
assert logging.getLogger().handlers == handlers, "importing changed the root logger"
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env={"CI": "1", "PATH": ""}, capture_output=True, text=True, timeout=60
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
