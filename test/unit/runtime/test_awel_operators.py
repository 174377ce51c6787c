"""AWEL operators in workflows of both engines, and workflows in AWEL DAGs."""

# pyright: basic, reportUnusedExpression=false, reportIncompatibleMethodOverride=false, reportArgumentType=false
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip("dbgpt")

from operad import InvalidError, Job, Operator, RunContext, Workflow, WorkflowMessage, events, operator
from operad.runtime.graph.awel import AwelRunner
from operad.runtime.testing import Say, ScriptedModel
from operad.runtime.values.errors import InputError, OperatorError
from operad.runtime.workflow.awel import AwelOperator

from dbgpt.core.awel import (  # isort: skip
    DAG,
    BranchJoinOperator,
    BranchOperator,
    InputOperator,
    InputSource,
    JoinOperator,
    MapOperator,
    ReduceStreamOperator,
    StreamifyAbsOperator,
    TransformStreamAbsOperator,
    UnstreamifyAbsOperator,
)


class Words(StreamifyAbsOperator[str, str]):
    async def streamify(self, input_value: str) -> AsyncIterator[str]:
        for word in input_value.split():
            yield word


class Loud(TransformStreamAbsOperator[str, str]):
    async def transform_stream(self, input_value: AsyncIterator[str]) -> AsyncIterator[str]:
        async for word in input_value:
            yield word.upper()


class Count(UnstreamifyAbsOperator[str, int]):
    async def unstreamify(self, input_value: AsyncIterator[str]) -> int:
        return len([word async for word in input_value])


def shout(text: str) -> str:
    return text.upper()


@operator
def start(job: Job) -> str:
    return job.goal


def test_an_awel_operator_is_added_like_any_other(engine: type[Workflow]) -> None:
    flow = engine(start)
    node = MapOperator(shout)
    flow.add(node, after=["start"])
    flow.add(lambda shout: f"{shout}!", after=[node])
    result = flow.run("hello")
    assert result.text == "HELLO!"
    assert (result["shout"], result[node]) == ("HELLO", "HELLO")


def test_edges_lead_to_awel_operators_and_from_those_that_are_wrapped(engine: type[Workflow]) -> None:
    length = AwelOperator(MapOperator(len), id="length")
    assert engine(start >> MapOperator(shout) >> length >> MapOperator(lambda n: n + 1)).run("abc").output == 4
    assert engine([MapOperator(shout)] >> start).run("abc").text == "abc"


def test_the_first_one_gets_the_goal_or_the_inputs(engine: type[Workflow]) -> None:
    assert engine(MapOperator(shout)).run("abc").output == "ABC"
    assert engine(MapOperator(lambda given: given["a"])).run({"a": "x"}).output == "x"


def test_values_of_every_type_pass_between_them(engine: type[Workflow]) -> None:
    flow = engine(start >> MapOperator(lambda text: {"n": len(text)}) >> MapOperator(lambda found: [found["n"]] * 2))
    assert flow.run("abc").output == [3, 3]


def test_a_join_gets_the_answers_in_order(engine: type[Workflow]) -> None:
    join = JoinOperator(lambda one, two: f"{one}-{two}")
    flow = engine(start >> [MapOperator(shout), MapOperator(len)] >> AwelOperator(join))
    assert flow.run("abc").output == "ABC-3"


@pytest.mark.parametrize(("goal", "said"), [("abc", "short: ABC"), ("abcdef", "long: 6")])
def test_a_branch_takes_the_way_to_the_operator_that_it_names(engine: type[Workflow], goal: str, said: str) -> None:
    branch = BranchOperator({(lambda text: len(text) < 5): "short", (lambda text: len(text) >= 5): "long"})
    flow = engine(start >> branch)
    flow.add(MapOperator(lambda text: f"short: {text.upper()}", task_name="short"), after=[branch])
    flow.add(MapOperator(lambda text: f"long: {len(text)}", task_name="long"), after=[branch])
    flow.add(BranchJoinOperator(lambda short, long: short or long, task_name="end"), after=["short", "long"])
    result = flow.run(goal)
    assert result.output == said
    assert ("short" in result, "long" in result) == (said.startswith("short"), said.startswith("long"))


def test_an_edge_from_a_branch_has_its_port_also_if_the_list_names_the_operator_after_it_first() -> None:
    branch = BranchOperator({(lambda text: True): "short", (lambda text: False): "long"})
    short, long = operator(lambda: "short", id="short"), operator(lambda: "long", id="long")
    end = operator(lambda: "end", id="end")
    flow = Workflow([[short, long] >> end, start >> branch, [branch] >> short, [branch] >> long])
    assert [step in flow.run("abc") for step in ("short", "long")] == [True, False]


def test_streams_pass_between_awel_operators_and_are_lists_for_others(engine: type[Workflow]) -> None:
    stream = AwelOperator(Words(), id="words")

    def joined(words: list[str]) -> str:
        return "+".join(words)

    add = ReduceStreamOperator(lambda one, two: f"{one}{two}", task_name="add")
    flow = engine(start >> stream >> [AwelOperator(Loud()) >> AwelOperator(Count(), id="count"), joined])
    flow.add(add, after=[stream])
    flow.add(MapOperator(shout, task_name="each"), after=[stream])
    result = flow.run("a b c")
    assert (result["count"], result["joined"], result["add"], result["each"]) == (3, "a+b+c", "abc", ["A", "B", "C"])


def test_texts_of_a_stream_are_streamed_as_they_come(engine: type[Workflow]) -> None:
    heard = [event.text for event in engine(Words()).stream("a b c", only=events.TokenStreamed)]
    assert heard == ["a", "b", "c"]


def test_a_whole_dag_is_one_operator(engine: type[Workflow]) -> None:
    with DAG("whole"):
        end = Count()
        InputOperator(InputSource.from_callable()) >> Words() >> Loud() >> end
    assert engine(start >> AwelOperator(end)).run("a b c").output == 3


def test_what_an_awel_operator_raises_is_the_cause(engine: type[Workflow]) -> None:
    def fail(text: str) -> str:
        raise ValueError(f"no {text}")

    with pytest.raises(OperatorError, match="no abc") as caught:
        engine(start >> MapOperator(fail)).run("abc")
    assert type(caught.value.__cause__) is ValueError


def test_wrong_uses_are_told() -> None:
    with pytest.raises(InputError, match=r"AwelOperator\(…\) expects an AWEL operator, got str"):
        AwelOperator("x")
    with pytest.raises(InvalidError, match="takes one input, and 2 operators come before it; use a JoinOperator"):
        Workflow([MapOperator(shout), MapOperator(len)] >> AwelOperator(MapOperator(len))).built()


# Workflows in DAGs


def call(node, data):
    return asyncio.run(node.call(data))


def test_a_workflow_is_an_awel_operator(engine: type[Workflow]) -> None:
    flow = engine(start >> (lambda start: f"<{start}>"), name="frame")
    with DAG("frames"):
        end = MapOperator(len, runner=AwelRunner())
        MapOperator(shout) >> flow.as_awel() >> end
    assert call(end, "abc") == 5


def test_its_name_and_its_inputs_are_those_of_awel(engine: type[Workflow]) -> None:
    @operator
    def both(one: str, two: int) -> str:
        return f"{one}{two}"

    with DAG("inputs"):
        node = engine(both, name="pair").as_awel()
        entry = InputOperator(InputSource.from_callable())
        entry >> MapOperator(shout, task_name="one") >> node
        entry >> MapOperator(len, task_name="two") >> node
    assert node.node_name == "pair"
    assert call(node, "abc") == "ABC3"


@pytest.mark.parametrize("given", [{"n": 1}, {"n": 1, "unread": 2}])
def test_a_workflow_alone_takes_what_it_is_called_with(engine: type[Workflow], given: dict[str, int]) -> None:
    @operator
    def read(n: int) -> int:
        return n + 1

    with DAG("alone"):
        node = engine(read).as_awel()
    assert call(node, given) == 2


@pytest.mark.parametrize("stream", [False, True])
def test_a_workflow_in_a_dag_gets_deps(engine: type[Workflow], stream: bool) -> None:
    @operator
    def greet(job: Job, context: RunContext[str]) -> str:
        return f"{job.goal} {context.deps}"

    async def words(node: Any) -> str:
        return "".join([piece async for piece in await node.call_stream("hello")])

    with DAG("deps"):
        node = engine(greet).as_awel(stream=stream, deps="Ada")
    assert (asyncio.run(words(node)) if stream else call(node, "hello")) == "hello Ada"


def test_a_workflow_gives_a_stream_of_its_text(engine: type[Workflow]) -> None:
    with ScriptedModel([Say("one two three")]) as model, DAG("streams"):
        end = Loud(runner=AwelRunner())
        engine(Operator("Count.")).as_awel(stream=True, model=model.model) >> end

        async def pieces() -> list[str]:
            return [piece async for piece in await end.call_stream("count")]

        assert asyncio.run(pieces()) == ["ONE ", "TWO ", "THREE"]


def test_an_answer_without_a_text_is_streamed_as_its_outputs(engine: type[Workflow]) -> None:
    @operator
    def counted(job: Job) -> WorkflowMessage:
        return WorkflowMessage(outputs={"text": "one two"})

    with DAG("outputs"):
        end = Loud(runner=AwelRunner())
        engine(counted).as_awel(stream=True) >> end

        async def pieces() -> list[str]:
            return [piece async for piece in await end.call_stream("count")]

        assert asyncio.run(pieces()) == ["ONE ", "TWO"]


def test_a_stream_before_a_workflow_is_a_list() -> None:
    @operator
    def count(job: Job) -> str:
        return job.goal

    with DAG("list"):
        node = Workflow(count).as_awel()
        Words() >> node
    assert call(node, "a b") == '["a", "b"]'


def test_without_dbgpt_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "operad.runtime.workflow.awel", None)
    with pytest.raises(Exception, match=r"as_awel\(\) needs dbgpt .*pip install --no-deps"):
        Workflow(start).as_awel()
