"""What DB-GPT documents of AWEL holds when our runner is AWEL's default.

Every test runs with each runner as AWEL's default, ours and AWEL's own: what AWEL itself does not
do is no contract. Where the documented rules differ, a test at the end says so for both.
"""

from __future__ import annotations

# pyright: reportUnusedExpression=false, reportIncompatibleMethodOverride=false
# pyright: reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
# AWEL's `>>` is a statement, what it gives is not declared to be an operator, and AWEL's streaming
# methods are declared as coroutines.
import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from operator import attrgetter
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel

from operad.runtime.graph.awel import AwelRunner  # first: it imports dbgpt with care

from dbgpt.component import SystemApp  # isort: skip
from dbgpt.core import (  # isort: skip
    ChatPromptTemplate,
    HumanPromptTemplate,
    InMemoryStorage,
    MessagesPlaceholder,
    ModelOutput,
    ModelRequestContext,
)
from dbgpt.core.awel import (  # isort: skip
    DAG,
    BaseInputSource,
    BaseOperator,
    BranchJoinOperator,
    BranchOperator,
    DAGContext,
    DAGVar,
    DefaultWorkflowRunner,
    HttpTrigger,
    InputOperator,
    InputSource,
    IteratorTrigger,
    JoinOperator,
    MapOperator,
    SimpleCallDataInputSource,
    SimpleInputSource,
    StreamifyAbsOperator,
    TaskContext,
    TaskOutput,
    TaskState,
    TransformStreamAbsOperator,
    TriggerOperator,
    UnstreamifyAbsOperator,
    is_empty_data,
)
from dbgpt.core.awel.dag.base import DAGVariables, _DAGVariablesItem as Variable  # isort: skip
from dbgpt.core.awel.operators import base as operators_base  # isort: skip
from dbgpt.core.awel.task.base import SKIP_DATA  # isort: skip
from dbgpt.core.interface.operators.composer_operator import (  # isort: skip
    ChatComposerInput,
    ChatHistoryPromptComposerOperator,
)
from dbgpt.core.interface.operators.llm_operator import BaseLLM  # isort: skip
from dbgpt.core.interface.variables import (  # isort: skip
    StorageVariables,
    StorageVariablesProvider,
    VariablesIdentifier,
    VariablesPlaceHolder,
)

from operad.runtime.values.errors import OperadError

RUNNERS: dict[str, type[Any]] = {"ours": AwelRunner, "awel's": DefaultWorkflowRunner}


@pytest.fixture(params=RUNNERS)
def whose(request: pytest.FixtureRequest) -> str:
    """Whose runner is AWEL's default."""
    return request.param


@pytest.fixture(autouse=True)
def default_runner(whose: str) -> Iterator[Any]:
    before = operators_base.default_runner
    runner = RUNNERS[whose]()
    operators_base.initialize_runner(runner)
    yield runner
    operators_base.initialize_runner(before)  # pyright: ignore[reportArgumentType]


def Map(function: Callable[..., Any], name: str | None = None, **options: Any) -> Any:  # noqa: N802
    return MapOperator(function, task_name=name, **options)


def Join(function: Callable[..., Any], **options: Any) -> Any:  # noqa: N802
    return JoinOperator(function, **options)


def Branch(choices: Any) -> Any:  # noqa: N802
    return BranchOperator(choices)


class Count(StreamifyAbsOperator[int, int]):
    """Streams 0 to n - 1."""

    async def streamify(self, input_value: int) -> AsyncIterator[int]:
        for number in range(input_value):
            await asyncio.sleep(0)
            yield number


async def doubled(stream: AsyncIterator[int]) -> AsyncIterator[int]:
    async for number in stream:
        yield 2 * number


class Double(TransformStreamAbsOperator[int, int]):
    def transform_stream(self, input_value: AsyncIterator[int]) -> AsyncIterator[int]:
        return doubled(input_value)


class Collect(UnstreamifyAbsOperator[int, list[int]]):
    async def unstreamify(self, input_value: AsyncIterator[int]) -> list[int]:
        return [number async for number in input_value]


async def numbers(count: int) -> AsyncIterator[int]:
    for number in range(count):
        yield number


async def all_of(stream: Any) -> list[Any]:
    return [item async for item in stream]


def even(x: int) -> bool:
    return x % 2 == 0


def odd(x: int) -> bool:
    return x % 2 == 1


# Building and calling


async def test_operators_take_the_default_runner(default_runner: Any) -> None:
    with DAG("default"):
        node: Any = MapOperator(lambda x: x)

    assert node._runner is default_runner
    assert not node.dev_mode


async def test_a_chain_may_be_written_from_either_side_and_with_lists() -> None:
    with DAG("arrows"):
        source, a, b, end = TriggerOperator(), Map(lambda x: x + 1), Map(lambda x: x * 10), Join(lambda *x: x)
        a << source
        source >> b
        end << [a, b]
    with DAG("lists"):
        source2, a2, b2, end2 = TriggerOperator(), Map(lambda x: x + 1), Map(lambda x: x * 10), Join(lambda *x: x)
        source2 >> [a2, b2]
        [a2, b2] >> end2

    assert await end.call(1) == await end2.call(1) == (2, 10)


@pytest.mark.parametrize("task_id", [None, "mine"])
async def test_an_operator_runs_without_a_dag(task_id: str | None) -> None:
    assert await MapOperator(lambda x: x + 1, task_id=task_id).call(1) == 2


def test_one_dag_may_be_called_from_one_event_loop_after_another() -> None:
    with DAG("loops"):
        end = TriggerOperator() >> Map(lambda x: f"hello {x}")

    assert [asyncio.run(end.call(name)) for name in ("world", "AWEL")] == ["hello world", "hello AWEL"]


async def test_executing_a_workflow_gives_the_context_of_its_end(default_runner: Any) -> None:
    node = InputOperator(SimpleInputSource("hello"), task_id="alone")

    context = await default_runner.execute_workflow(node)

    task = context.current_task_context
    assert (task.task_id, task.current_state, task.task_output.output) == ("alone", TaskState.SUCCESS, "hello")


async def test_one_dag_serves_many_calls_at_once() -> None:
    async def note(x: int) -> int:
        await source.current_dag_context.save_to_share_data("x", x)
        await asyncio.sleep(0.001 * (x % 3))
        return x

    async def compare(x: int) -> tuple[int, int]:
        await asyncio.sleep(0)
        return x, await source.current_dag_context.get_from_share_data("x")

    with DAG("shared") as dag:
        source, join = Map(note), BranchJoinOperator(task_name="join")
        branch = Branch({even: "even", odd: "odd"})
        source >> branch >> Map(lambda x: x, "even") >> join
        branch >> Map(lambda x: -x, "odd") >> join
        end = join >> Map(compare)

    said = await asyncio.gather(*(end.call(x) for x in range(30)))

    assert said == [(x if even(x) else -x, x) for x in range(30)]
    assert dag._event_loop_task_id_to_ctx == {}


async def test_one_dag_serves_many_streaming_calls_at_once() -> None:
    with DAG("shared streams") as dag:
        end = TriggerOperator() >> Count() >> Double()

    async def consume(count: int) -> list[int]:
        try:
            return await all_of(await end.call_stream(count))
        finally:
            await dag._after_dag_end(end.current_event_loop_task_id)

    assert await asyncio.gather(*map(consume, range(20))) == [list(range(0, 2 * n, 2)) for n in range(20)]
    assert dag._event_loop_task_id_to_ctx == {}


async def test_a_node_without_a_system_app_gets_the_current_one_when_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    with DAG("system app"):
        node = Map(lambda _: node.system_app)
    app = SystemApp()
    monkeypatch.setattr(DAGVar, "_system_app", app)

    assert await node.call(1) is app


# Join


async def test_a_join_combines_its_parents() -> None:
    async def slowly(*values: int) -> int:
        await asyncio.sleep(0)
        return sum(values)

    with DAG("joins"):
        source, plus, slow_plus = TriggerOperator(), Join(lambda x, y: x + y), Join(slowly)
        for key in ("t1", "t2"):
            source >> Map(lambda x, key=key: x[key]) >> plus
        plus >> slow_plus
        source >> Map(lambda _: 100) >> slow_plus

    assert await slow_plus.call({"t1": 5, "t2": 8}) == 113


async def test_a_join_of_input_operators_needs_no_call_data() -> None:
    with DAG("joins inputs"):
        end = Join(lambda x, y, z: x + y + z)
        for number in range(3):
            InputOperator(InputSource.from_data(number)) >> end

    assert await end.call() == 3


async def test_a_join_of_streams_combines_the_streams_themselves() -> None:
    async def pairs(a: AsyncIterator[int], b: AsyncIterator[int]) -> AsyncIterator[tuple[int, int]]:
        async for x in a:
            yield x, await anext(b)

    with DAG("joins streams"):
        source, end = TriggerOperator(), Join(pairs)
        source >> Count() >> end
        source >> Count() >> Double() >> end

    assert await all_of(await end.call_stream(3)) == [(0, 0), (1, 2), (2, 4)]


# Branch and branch join


def by_parity() -> Any:
    return Branch({even: "even", odd: "odd"})


def branching(make_branch: Callable[[], Any] = by_parity, **options: Any) -> Any:
    """trigger >> branch >> even and odd >> the first that ran, or what the options say."""
    with DAG("branching"):
        branch, end = make_branch(), BranchJoinOperator(**options)
        TriggerOperator() >> branch
        branch >> Map(lambda x: f"{x} is even", "even") >> end
        branch >> Map(lambda x: f"{x} is odd", "odd") >> end
    return end


async def both(end: Any) -> list[Any]:
    return [await end.call(x) for x in (5, 6)]


class ByMethod(BranchOperator[int, int]):
    async def branches(self) -> Any:
        return {even: "even", odd: "odd"}


class ByNameFunction(BranchOperator[int, int]):
    async def branches(self) -> Any:
        async def other(x: int) -> str:
            await asyncio.sleep(0)
            return "odd" if x % 2 == 0 else "even"

        return {lambda _: True: lambda x: "even" if x % 2 == 0 else "odd", lambda _: False: other}


async def slowly_odd(x: int) -> bool:
    await asyncio.sleep(0)
    return odd(x)


@pytest.mark.parametrize(
    "make",
    [
        by_parity,
        lambda: Branch({even: "even", slowly_odd: "odd"}),
        ByMethod,
        ByNameFunction,
    ],
    ids=["functions", "a coroutine function", "the method", "functions that give the name"],
)
async def test_a_branch_runs_what_it_chooses_by(make: Callable[[], Any]) -> None:
    assert await both(branching(make)) == ["5 is odd", "6 is even"]


async def test_a_branch_may_choose_several_and_what_it_does_not_name_always_runs() -> None:
    ran: list[str] = []

    def note(name: str) -> Any:
        return Map(lambda x: ran.append(name) or x, name)

    with DAG("branch"):
        end = Join(lambda *_: None)
        branch = Branch({lambda x: x > 1: "a", lambda x: x > 2: "b", lambda x: x > 3: "c"})
        TriggerOperator() >> branch
        for name in "abcd":
            branch >> note(name) >> end

    await end.call(3)

    assert sorted(ran) == ["a", "b", "d"]


async def test_a_branch_hands_its_own_input_on() -> None:
    with DAG("branch"):
        branch = Branch({lambda x: x["n"] > 0: "next"})
        end = TriggerOperator() >> branch >> Map(lambda x: x, "next")
    data = {"n": 1}

    assert await end.call(data) is data


async def test_a_branch_of_a_branch_skips_whole_paths() -> None:
    with DAG("branches"):
        outer, inner = by_parity(), Branch({lambda x: x > 9: "big"})
        end: Any = BranchJoinOperator()
        TriggerOperator() >> outer >> Map(lambda x: x, "even") >> inner >> Map(lambda x: f"big {x}", "big") >> end
        inner >> Map(lambda x: f"any {x}", "any") >> end
        outer >> Map(lambda x: f"odd {x}", "odd") >> end

    assert [await end.call(x) for x in (7, 8, 10)] == ["odd 7", "any 8", "big 10"]


async def test_a_join_shared_by_both_arms_runs_with_the_one_that_was_chosen() -> None:
    with DAG("shared join"):
        source, end = TriggerOperator(), Join(lambda a, b: a or b)
        branch = by_parity()
        source >> branch >> Map(lambda _: 888, "even") >> end
        branch >> Map(lambda _: 999, "odd") >> end

    assert await both(end) == [999, 888]


async def test_a_branch_join_that_none_of_its_parents_reached_says_so() -> None:
    end = branching(lambda: Branch({lambda _: False: "even", lambda x: x < 0: "odd"}))

    with pytest.raises(ValueError, match="All inputs are empty"):
        await end.call(1)


async def test_a_branch_join_may_be_skipped_when_it_says_so() -> None:
    with DAG("branch"):
        outer, end = by_parity(), BranchJoinOperator()
        inner: Any = BranchJoinOperator(can_skip_in_branch=True)
        TriggerOperator() >> outer >> Map(str, "even") >> inner >> end
        outer >> Map(lambda x: f"odd {x}", "odd") >> end

    assert await both(end) == ["odd 5", "6"]


async def test_a_failing_condition_reaches_the_caller() -> None:
    def fail(_: int) -> bool:
        raise LookupError("cannot say")

    class Fails(BranchOperator[int, int]):
        async def branches(self) -> Any:
            return fail(0)

    with DAG("branch"):
        end = TriggerOperator() >> Fails() >> Map(str, "next")

    with pytest.raises(LookupError, match="cannot say"):
        await end.call(1)


# Triggers


async def test_a_trigger_hands_the_call_data_on_and_needs_some() -> None:
    with DAG("trigger"):
        end = TriggerOperator() >> Map(lambda x: x)

    assert [await end.call(data) for data in ({"a": 1}, None, 0)] == [{"a": 1}, None, 0]
    with pytest.raises(ValueError, match="No call data"):
        await end.call()


def iterating(data: Any, *nodes: Any, **options: Any) -> Any:
    with DAG("iterates"):
        trigger: Any = IteratorTrigger(data, show_progress=False, **options)
        end = trigger
        for make in nodes:
            end = end >> make()
    return trigger


def squares() -> Any:
    return Map(lambda x: x * x)


@pytest.mark.parametrize("parallel", [1, 3])
@pytest.mark.parametrize(
    ("data", "pairs"),
    [
        (lambda: 2, [(2, 4)]),
        (lambda: [0, 1, 2, 3], [(0, 0), (1, 1), (2, 4), (3, 9)]),
        (lambda: numbers(3), [(0, 0), (1, 1), (2, 4)]),
        (lambda: InputSource.from_iterable([2, 3]), [(2, 4), (3, 9)]),
        (lambda: InputSource.from_data(5), [(5, 25)]),
    ],
    ids=["one value", "a list", "an async iterator", "an iterable source", "a source"],
)
async def test_an_iterator_trigger_calls_the_dag_for_each_of(
    data: Callable[[], Any], pairs: list[tuple[int, int]], parallel: int
) -> None:
    trigger = iterating(data(), squares)

    assert await trigger.trigger(parallel_num=parallel) == pairs
    assert trigger.dag._event_loop_task_id_to_ctx == {}


async def test_an_iterator_trigger_cancels_a_call_that_takes_too_long() -> None:
    cancelled = False

    async def wait(_: int) -> None:
        nonlocal cancelled
        try:
            await asyncio.sleep(60)
        finally:
            cancelled = True

    with pytest.raises(RuntimeError) as caught:
        await iterating([1], lambda: Map(wait), timeout=0.01).trigger()
    assert isinstance(caught.value.__cause__, (TimeoutError, asyncio.TimeoutError))
    assert cancelled


class Question(BaseModel):
    text: str
    stream: bool = False


@pytest.fixture
def routes(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A router without a server: FastAPI's own is not installed, and AWEL needs only these names of it."""
    background = pytest.importorskip("starlette.background")
    responses = pytest.importorskip("starlette.responses")
    fastapi, fastapi_responses = ModuleType("fastapi"), ModuleType("fastapi.responses")
    fastapi.BackgroundTasks = background.BackgroundTasks
    fastapi_responses.StreamingResponse = responses.StreamingResponse
    monkeypatch.setitem(sys.modules, "fastapi", fastapi)
    monkeypatch.setitem(sys.modules, "fastapi.responses", fastapi_responses)

    class Routes(dict[str, Any]):
        def api_route(self, path: str, **_: Any) -> Callable[[Any], None]:
            return lambda function: self.update({path: function})

    return Routes()


async def test_an_http_trigger_answers_a_request(routes: Any) -> None:
    with DAG("http") as dag:
        trigger = HttpTrigger("/ask", methods="POST", request_body=Question)
        trigger >> Map(lambda body: body.text.upper())
    trigger.mount_to_router(routes)

    assert await routes["/ask"](Question(text="why")) == "WHY"
    assert dag._event_loop_task_id_to_ctx == {}


async def test_an_http_trigger_streams_an_answer_and_then_ends_the_dag(routes: Any) -> None:
    with DAG("http") as dag:
        trigger = HttpTrigger(
            "/ask", methods="POST", request_body=Question, streaming_predict_func=attrgetter("stream")
        )
        trigger >> Map(lambda body: len(body.text)) >> Count() >> Map(lambda x: f"{x};")
    trigger.mount_to_router(routes)

    response = await routes["/ask"](Question(text="why", stream=True))
    body = await all_of(response.body_iterator)
    await response.background()

    assert body == ["0;", "1;", "2;"]
    assert dag._event_loop_task_id_to_ctx == {}


# Streams


async def test_call_stream_gives_the_items_as_they_are_made() -> None:
    made: list[int] = []

    class Makes(Count):
        async def streamify(self, input_value: int) -> AsyncIterator[int]:
            for number in range(input_value):
                made.append(number)
                yield number

    with DAG("stream"):
        end = TriggerOperator() >> Makes() >> Double()

    seen = [(item, list(made)) async for item in await end.call_stream(3)]

    assert seen == [(0, [0]), (2, [0, 1]), (4, [0, 1, 2])]


async def test_a_stream_may_start_at_the_root_with_the_call_data() -> None:
    with DAG("stream"):
        end = Count()

    assert await all_of(await end.call_stream(3)) == [0, 1, 2]


async def test_an_error_within_a_stream_reaches_who_consumes_it() -> None:
    class Breaks(Count):
        async def streamify(self, input_value: int) -> AsyncIterator[int]:
            yield 0
            raise LookupError("torn")

    with DAG("torn"):
        breaks = Breaks()
        collects = breaks >> Collect()

    stream = await breaks.call_stream(1)
    assert await anext(stream) == 0
    with pytest.raises(LookupError, match="torn"):
        await anext(stream)
    with pytest.raises(LookupError, match="torn"):
        await collects.call(1)


async def test_a_node_knows_whether_the_call_is_streaming() -> None:
    with DAG("streaming"):
        node = Map(lambda _: node.current_dag_context.streaming_call)

    assert await node.call(1) is False
    assert await all_of(await node.call_stream(1)) == [True]


# Inputs


class OwnSource(BaseInputSource):
    def _read_data(self, task_ctx: TaskContext[Any]) -> str:
        return f"read for {task_ctx.task_id}"


class Exclaim(InputOperator[str]):
    async def map(self, input_data: str) -> str:
        return f"{input_data}!"


@pytest.mark.parametrize(
    ("make", "data", "value"),
    [
        (lambda: InputOperator(SimpleInputSource("hello")), (), "hello"),
        (lambda: InputOperator(InputSource.from_data([1, 2])), (), [1, 2]),
        (lambda: InputOperator(InputSource.from_callable()), (7,), 7),
        (lambda: InputOperator(SimpleCallDataInputSource()), (8,), 8),
        (lambda: InputOperator(OwnSource(), task_id="me"), (), "read for me"),
        (lambda: Exclaim(SimpleInputSource("hello")), (), "hello!"),
        (lambda: InputOperator.dummy_input("dummy"), (), "dummy"),
    ],
    ids=["a value", "a list", "call data", "call data, by class", "one's own source", "a map", "a dummy"],
)
async def test_an_input_operator_reads(make: Callable[[], Any], data: tuple[Any, ...], value: Any) -> None:
    with DAG("input"):
        end = make() >> Map(lambda x: x)

    assert await end.call(*data) == value


@pytest.mark.parametrize(
    "source",
    [
        lambda: SimpleInputSource(numbers(3)),
        lambda: SimpleInputSource(iter([0, 1, 2])),
        lambda: SimpleInputSource([0, 1, 2], streaming=True),
        lambda: InputSource.from_iterable(range(3)),
        lambda: InputSource.from_iterable(numbers(3)),
    ],
    ids=["an async iterator", "an iterator", "a list that shall be one", "an iterable", "an async iterable"],
)
async def test_an_input_operator_streams(source: Callable[[], Any]) -> None:
    with DAG("input"):
        end = InputOperator(source()) >> Double()

    assert await all_of(await end.call_stream()) == [0, 2, 4]


# Variables


class Says(MapOperator[str, str]):
    """Says what its variable is."""

    def __init__(self, variable: Any, **options: Any) -> None:
        super().__init__(**options)
        self._variable = variable

    async def map(self, input_value: str) -> str:
        return f"{input_value} {self._variable!r}"


def provided(values: dict[str, Any], category: Any = "common") -> StorageVariablesProvider:
    provider = StorageVariablesProvider()
    for key, value in values.items():
        identifier = VariablesIdentifier.from_str_identifier(key)
        provider.save(StorageVariables.from_identifier(identifier, value, type(value).__name__, category=category))
    return provider


def variables(**values: Any) -> DAGVariables:
    return DAGVariables(items=[Variable(key, "v", "", value, value_type="str") for key, value in values.items()])


async def test_a_placeholder_that_nobody_provides_is_an_error_or_its_default() -> None:
    with DAG("variables"):
        lost = Says(VariablesPlaceHolder("variable", "${lost:v@global}"), variables_provider=provided({}))
        kept = Says(VariablesPlaceHolder("variable", "${lost:v@global}", "kept"), variables_provider=provided({}))

    with pytest.raises(ValueError, match="not found"):
        await lost.call("is")
    assert await kept.call("is") == "is 'kept'"


def saying(provider: StorageVariablesProvider | None = None, **options: Any) -> Any:
    with DAG("variables", **options):
        return Says(VariablesPlaceHolder("variable", "${key:v@global}"), variables_provider=provider or provided({}))


async def test_the_calls_variables_go_before_the_dags_and_these_before_what_is_provided() -> None:
    provider = provided({"${key:v@global}": "provided"})

    assert await saying(provider).call("is") == "is 'provided'"
    assert await saying(provider, default_dag_variables=variables(key="the DAG's")).call("is") == 'is "the DAG\'s"'
    node = saying(provider, default_dag_variables=variables(key="the DAG's"))
    assert await node.call("is", dag_variables=variables(key="the call's")) == 'is "the call\'s"'


async def test_streaming_calls_take_variables_too() -> None:
    said = await saying().call_stream("is", dag_variables=variables(key="streamed"))

    assert await all_of(said) == ["is 'streamed'"]


async def test_nodes_that_run_together_resolve_the_same_variables() -> None:
    provider = provided({"${other:v@global}": "found"})

    def says(key: str) -> Any:
        return Says(VariablesPlaceHolder("variable", f"${{{key}:v@global}}"), variables_provider=provider)

    with DAG("variables", default_dag_variables=variables(a="${other:v@global}", b="plain")):
        source, end = TriggerOperator(variables_provider=provider), Join(lambda *x: x)
        for key in "abab":
            source >> says(key) >> end

    assert await end.call("is") == ("is 'found'", "is 'plain'") * 2


# The context of a call


async def test_nodes_share_data_across_the_call() -> None:
    async def save(x: int) -> int:
        context = first.current_dag_context
        await context.save_to_share_data("key", x)
        await context.save_task_share_data("first", "key", x + 1)
        return x

    async def read(_: int) -> list[Any]:
        context = last.current_dag_context
        of_task = await context.get_task_share_data("first", "key")
        return [
            await context.get_from_share_data("key"),
            await of_task,  # AWEL hands out its own coroutine unawaited
            await context.get_from_share_data("nobody's"),
        ]

    with DAG("shares"):
        first, last = Map(save), Map(read)
        end = TriggerOperator() >> first >> Map(lambda x: x) >> last

    assert [await end.call(1), await end.call(5)] == [[1, 2, None], [5, 6, None]]


async def test_a_node_reads_what_an_earlier_one_gave_by_its_name() -> None:
    def read(_: int) -> list[Any]:
        context = last.current_dag_context
        for name, complaint in (("stranger", "not in DAG"), ("last", "not exists")):
            with pytest.raises(ValueError, match=complaint):
                context.get_task_output(name)
        return [context.get_task_output(name).output for name in ("first", "second")]

    with DAG("names"):
        last = Map(read, "last")
        end = TriggerOperator() >> Map(lambda x: x + 1, "first") >> Map(lambda x: x * 10, "second") >> last

    assert await end.call(1) == [2, 20]


async def test_a_node_knows_its_own_task() -> None:
    class Knows(MapOperator[int, Any]):
        async def map(self, input_value: int) -> Any:
            task = self.current_dag_context.current_task_context
            parents = [(parent.task_id, parent.task_output.output) for parent in task.task_input.parent_outputs]
            return task.task_id, task.current_state, task.call_data, parents

    with DAG("knows"):
        root, after = Knows(task_id="root"), Knows(task_id="after")
        root >> after

    first = ("root", TaskState.RUNNING, {"data": 1}, [])
    assert await after.call(1) == ("after", TaskState.RUNNING, None, [("root", first)])


async def test_an_operator_of_ones_own_works_on_the_context_it_is_given() -> None:
    class Own(BaseOperator[int]):
        async def _do_run(self, dag_ctx: DAGContext) -> TaskOutput[int]:
            task = dag_ctx.current_task_context
            output: Any = await task.task_input.parent_outputs[0].task_output.map(lambda x: x + 1)
            task.set_task_output(output)
            task.update_metadata("seen", True)
            return output

    def read(x: int) -> Any:
        task = end.current_dag_context.current_task_context
        return x, task.task_input.parent_outputs[0].metadata

    with DAG("own"):
        end = Map(read)
        TriggerOperator() >> Own() >> end

    assert await end.call(1) == (2, {"seen": True})


async def test_a_blocking_function_runs_in_a_thread_beside_the_loop() -> None:
    here = threading.get_ident()
    ticked = threading.Event()

    def block(x: int, *, plus: int) -> tuple[int, bool]:
        assert ticked.wait(60), "the event loop stood still"
        return x + plus, threading.get_ident() != here

    class Blocks(MapOperator[int, Any]):
        async def map(self, input_value: int) -> Any:
            asyncio.get_running_loop().call_later(0.001, ticked.set)
            return await self.blocking_func_to_async(block, input_value, plus=1)

    with DAG("blocks"):
        end = TriggerOperator() >> Blocks()

    assert await end.call(1) == (2, True)


# Hooks


class Hooked(MapOperator[int, int]):
    def __init__(self, story: list[Any], **options: Any) -> None:
        super().__init__(**options)
        self.story = story

    async def before_dag_run(self) -> None:
        self.story.append(f"before {self.node_id}")

    async def after_dag_end(self, event_loop_task_id: int) -> None:
        self.story.append(f"after {self.node_id}")
        self.ended_with = event_loop_task_id

    async def map(self, input_value: int) -> int:
        self.story.append(f"run {self.node_id}")
        return input_value


async def test_hooks_run_before_all_that_is_called_and_after_the_whole_dag() -> None:
    story: list[str] = []
    with DAG("hooks"):
        called = Hooked(story, task_id="a") >> Hooked(story, task_id="b")
        called >> Hooked(story, task_id="beyond")

    await called.call(1)

    assert sorted(story[:2]) == ["before a", "before b"]
    assert story[2:4] == ["run a", "run b"]
    assert sorted(story[4:]) == ["after a", "after b", "after beyond"]
    assert called.ended_with == id(asyncio.current_task())


async def test_hooks_of_skipped_nodes_run_too() -> None:
    story: list[str] = []
    with DAG("hooks"):
        branch, end = Branch({lambda _: False: "a", lambda _: True: "b"}), BranchJoinOperator()
        TriggerOperator() >> branch >> Hooked(story, task_id="a", task_name="a") >> end
        branch >> Hooked(story, task_id="b", task_name="b") >> end

    await end.call(1)

    assert "run a" not in story
    assert {"before a", "before b", "run b", "after a", "after b"} <= set(story)


async def test_the_hooks_after_a_streaming_call_wait_until_the_stream_is_done_with() -> None:
    story: list[str] = []
    with DAG("hooks") as dag:
        end = Hooked(story, task_id="a") >> Count()

    async for item in await end.call_stream(2):
        story.append(str(item))
    await dag._after_dag_end(end.current_event_loop_task_id)

    assert story == ["before a", "run a", "0", "1", "after a"]


async def test_the_hooks_after_a_call_read_its_context() -> None:
    class Remembers(MapOperator[int, int]):
        async def map(self, input_value: int) -> int:
            await self.current_dag_context.save_to_share_data("key", input_value)
            return input_value + 1

        async def after_dag_end(self, event_loop_task_id: int) -> None:
            context = self.current_dag_context
            read.append((await context.get_from_share_data("key"), context.get_task_output("me").output))

    read: list[tuple[int, int]] = []
    with DAG("hooks") as dag:
        end = TriggerOperator() >> Remembers(task_name="me")

    await end.call(1)
    await all_of(await end.call_stream(5))
    await dag._after_dag_end(end.current_event_loop_task_id)

    assert read == [(1, 2), (5, 6)]


@pytest.mark.parametrize("hook", ["before_dag_run", "after_dag_end"])
async def test_an_error_in_a_hook_reaches_the_caller(hook: str) -> None:
    async def fail(*_: Any) -> None:
        raise LookupError(hook)

    with DAG("hooks"):
        end: Any = type("Fails", (Hooked,), {hook: fail})([])

    with pytest.raises(LookupError, match=hook):
        await end.call(1)


async def test_an_error_in_a_hook_does_not_keep_the_others_from_running() -> None:
    class Fails(Hooked):
        async def after_dag_end(self, event_loop_task_id: int) -> None:
            raise LookupError("mine")

    story: list[str] = []
    with DAG("hooks"):
        end = Hooked(story, task_id="a") >> Fails(story, task_id="b") >> Hooked(story, task_id="c")

    with pytest.raises(LookupError, match="mine"):
        await end.call(1)

    assert story[-2:] == ["after a", "after c"]


# Sub-DAGs


class Composer(MapOperator[Any, Any]):
    """Calls a DAG of its own with its context, as DB-GPT's own composers do."""

    def __init__(self, inner: DAG, **options: Any) -> None:
        super().__init__(**options)
        self.inner = inner

    async def map(self, input_value: Any) -> Any:
        end: Any = self.inner.leaf_nodes[0]
        return await end.call(input_value, dag_ctx=self.current_dag_context)

    async def after_dag_end(self, event_loop_task_id: int) -> None:
        await self.inner._after_dag_end(event_loop_task_id)


class StreamComposer(Composer):
    streaming_operator = True

    async def _do_run(self, dag_ctx: DAGContext) -> TaskOutput[Any]:
        end: Any = self.inner.leaf_nodes[0]
        task = dag_ctx.current_task_context
        stream = await end.call_stream(task.task_input.parent_outputs[0].task_output.output, dag_ctx=dag_ctx)
        output = await InputSource.from_iterable(stream).read(task)
        task.set_task_output(output)
        return output


async def test_a_dag_within_a_dag_shares_data_and_ends_with_it() -> None:
    story: list[Any] = []

    async def save(x: int) -> int:
        await saves.current_dag_context.save_to_share_data("outer", x)
        return x + 1

    async def inside(x: int) -> int:
        context = reads.current_dag_context
        story.append(("inside", await context.get_from_share_data("outer")))
        await context.save_to_share_data("inner", x)
        return x * 10

    async def after(x: int) -> Any:
        return x, await last.current_dag_context.get_from_share_data("inner")

    with DAG("inner") as inner:
        reads = Map(inside)
        TriggerOperator() >> reads >> Hooked(story, task_id="hooked")
    with DAG("outer") as outer:
        saves, last = Map(save), Map(after)
        end = saves >> Composer(inner) >> Hooked(story, task_id="outside") >> last

    assert await end.call(1) == (20, 2)
    assert story[:5] == ["before outside", "before hooked", ("inside", 1), "run hooked", "run outside"]
    assert sorted(story[5:]) == ["after hooked", "after outside"]
    assert inner._event_loop_task_id_to_ctx == outer._event_loop_task_id_to_ctx == {}


async def test_dags_nest() -> None:
    with DAG("innermost") as innermost:
        TriggerOperator() >> Map(lambda x: x + 1)
    with DAG("inner") as inner:
        TriggerOperator() >> Composer(innermost) >> Map(lambda x: x * 10)
    with DAG("outer"):
        end = TriggerOperator() >> Composer(inner) >> Map(lambda x: -x)

    assert [await end.call(1), await end.call(2)] == [-20, -30]
    assert innermost._event_loop_task_id_to_ctx == inner._event_loop_task_id_to_ctx == {}


async def test_a_dag_within_a_dag_may_stream() -> None:
    with DAG("inner") as inner:
        TriggerOperator() >> Count() >> Double()
    with DAG("outer") as outer:
        end = TriggerOperator() >> StreamComposer(inner) >> Map(lambda x: x + 1)

    assert await all_of(await end.call_stream(3)) == [1, 3, 5]
    await outer._after_dag_end(end.current_event_loop_task_id)
    assert inner._event_loop_task_id_to_ctx == outer._event_loop_task_id_to_ctx == {}


async def test_an_inner_dag_takes_its_own_default_variables() -> None:
    with DAG("inner", default_dag_variables=variables(key="inner")) as inner:
        Says(VariablesPlaceHolder("variable", "${key:v@global}"), variables_provider=provided({}))
    with DAG("outer"):
        end = TriggerOperator() >> Composer(inner)

    assert await end.call("is", dag_variables=variables(key="outer")) == "is 'inner'"


async def test_an_error_within_an_inner_dag_reaches_the_outer_caller() -> None:
    def fail(_: int) -> None:
        raise LookupError("inside")

    with DAG("inner") as inner:
        TriggerOperator() >> Map(fail)
    with DAG("outer"):
        end = TriggerOperator() >> Composer(inner)

    with pytest.raises(LookupError, match="inside"):
        await end.call(1)


async def test_dbgpts_own_chat_history_composer_remembers_the_conversation() -> None:
    storage, messages = InMemoryStorage(), InMemoryStorage()
    prompt = ChatPromptTemplate(
        messages=[MessagesPlaceholder(variable_name="chat_history"), HumanPromptTemplate.from_template("{user_input}")],
        input_variables=["chat_history", "user_input"],
    )

    async def answer(request: Any) -> list[str]:
        answer = ModelOutput.build(f"answer {len(request.messages)}")
        await composer.current_dag_context.save_to_share_data(BaseLLM.SHARE_DATA_KEY_MODEL_OUTPUT, answer)
        return [message.content for message in request.messages]

    with DAG("chat"):
        composer = ChatHistoryPromptComposerOperator(
            prompt, keep_end_rounds=5, storage=storage, message_storage=messages
        )
        end = TriggerOperator() >> composer >> Map(answer)

    async def ask(text: str) -> list[str]:
        context = ModelRequestContext(conv_uid="conversation", stream=False)
        return await end.call(ChatComposerInput({"user_input": text}, {"model": "m"}, context))

    assert [await ask("one"), await ask("two")] == [["one"], ["one", "answer 1", "two"]]


async def test_a_dag_called_without_the_context_is_a_call_of_its_own() -> None:
    async def fresh(x: int) -> list[int]:
        return [await inner_end.call(x), await inner_end.call(x + 1)]

    with DAG("inner") as inner:
        inner_end = TriggerOperator() >> Map(lambda x: x * 10)
    with DAG("outer"):
        end = TriggerOperator() >> Map(fresh)

    assert await end.call(1) == [10, 20]
    assert inner._event_loop_task_id_to_ctx == {}


# Documented differences: what each runner does


async def test_a_join_gets_for_a_skipped_parent_none_from_ours_and_a_sentinel_from_awels(whose: str) -> None:
    said = await both(branching(combine_function=lambda *values: values))

    nothing = {"ours": None, "awel's": SKIP_DATA}[whose]
    assert said == [(nothing, "5 is odd"), ("6 is even", nothing)]


async def test_the_combine_function_of_dbgpts_tutorial_must_ask_for_none_instead(whose: str) -> None:
    """Its tutorial asks `is_empty_data`, which None is not; `is None` is true only with ours."""

    def tutorial(x: Any, y: Any) -> Any:
        return x if not is_empty_data(x) else y

    def either(x: Any, y: Any) -> Any:
        return y if x is None or is_empty_data(x) else x

    assert await both(branching(combine_function=tutorial)) == [
        {"ours": None, "awel's": "5 is odd"}[whose],
        "6 is even",
    ]
    assert await both(branching(combine_function=either)) == ["5 is odd", "6 is even"]


async def test_a_skipped_end_is_an_error_from_ours_and_a_sentinel_from_awels(whose: str) -> None:
    with DAG("branch"):
        end = TriggerOperator() >> Branch({even: "even"}) >> Map(str, "even")

    if whose == "ours":
        with pytest.raises(OperadError, match="the end node 'even' was skipped"):
            await end.call(1)
    else:
        assert await end.call(1) is SKIP_DATA


async def test_siblings_that_call_one_dag_with_their_context_run_it_once_with_ours_and_fail_with_awels(
    whose: str,
) -> None:
    ran: list[int] = []

    async def work(x: int) -> int:
        ran.append(x)
        await asyncio.sleep(0.001)
        return x * 10

    with DAG("inner"):
        inner_end = TriggerOperator() >> Map(work) >> Map(lambda x: x + 1)

    def calls(plus: int) -> Any:
        async def call(x: int) -> int:
            return await inner_end.call(x + plus, dag_ctx=node.current_dag_context)

        node = Map(call)
        return node

    with DAG("outer"):
        source, end = TriggerOperator(), Join(lambda *x: x)
        for plus in range(3):
            source >> calls(plus) >> end

    if whose == "ours":
        assert await end.call(1) == (11, 11, 11)
    else:
        with pytest.raises(RuntimeError, match="task context not set"):
            await end.call(1)
    assert ran == [1]


async def test_a_stream_with_two_consumers_reaches_both_with_ours_and_the_first_with_awels(whose: str) -> None:
    with DAG("two"):
        stream, end = Count(), Join(lambda *x: x)
        stream >> Collect() >> end
        stream >> Collect() >> end

    assert await end.call(2) == {"ours": ([0, 1], [0, 1]), "awel's": ([0, 1], [])}[whose]


async def test_independent_nodes_run_together_with_ours_and_one_after_another_with_awels(whose: str) -> None:
    story: list[str] = []

    def work(name: str) -> Any:
        async def step(_: int) -> None:
            story.append(f"{name} starts")
            await asyncio.sleep(0.001)
            story.append(f"{name} ends")

        return Map(step)

    with DAG("together"):
        source, end = TriggerOperator(), Join(lambda *_: None)
        for name in "ab":
            source >> work(name) >> end

    await end.call(1)

    starts_first = {"ours": ["a starts", "b starts"], "awel's": ["a starts", "a ends"]}
    assert story[:2] == starts_first[whose]


async def test_after_a_failed_call_ours_runs_the_hooks_and_forgets_it_and_awels_does_neither(whose: str) -> None:
    story: list[str] = []

    def fail(_: int) -> None:
        raise LookupError

    with DAG("fails") as dag:
        end = Hooked(story, task_id="a") >> Map(fail)

    with suppress(LookupError):
        await end.call(1)

    assert story == ["before a", "run a", *(["after a"] if whose == "ours" else [])]
    assert len(dag._event_loop_task_id_to_ctx) == {"ours": 0, "awel's": 1}[whose]
