"""Maps, in workflows of both engines: a workflow for each item of a list."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import BaseModel

from operad.operators import Operator, OperatorConfig
from operad.runtime.events import (
    Event,
    ModelAnswered,
    OperatorFinished,
    Progress,
    RunFinished,
    current_scope,
    emit,
)
from operad.runtime.policies.policy import Budget, Policy
from operad.runtime.testing import Say, ScriptedModel, ScriptedReasoner
from operad.runtime.values.errors import BudgetError, FaultError, InputError, InvalidError, OperadError, OperatorError
from operad.runtime.values.message import Job, Usage, WorkflowMessage, WorkflowStatus
from operad.runtime.workflow.function import operator
from operad.runtime.workflow.map import ItemError, Map
from operad.runtime.workflow.workflow import BuiltinWorkflow, Workflow

RENDEZVOUS = 10.0
Heard = list[WorkflowMessage]
Work = Callable[[Heard], Awaitable[Any]]


class Do:
    """An operator that does what it is given to do, and keeps what it was given."""

    def __init__(self, op_id: str, work: Work) -> None:
        self._id, self._work = op_id, work
        self.heard: list[Heard] = []
        self.lessons: list[str | None] = []
        self.previous: list[Heard] = []

    def get_id(self) -> str:
        return self._id

    async def execute(
        self, reasoner: Any, job: Any, workflow_messages: Any = None, previous_expert_outputs: Any = None, lesson=None
    ) -> Any:
        self.heard.append(workflow_messages)
        self.lessons.append(lesson)
        self.previous.append(previous_expert_outputs)
        return await self._work(workflow_messages)


class Judge(Do):
    """An evaluator that gives these verdicts, the last one from then on."""

    def __init__(self, *verdicts: WorkflowMessage) -> None:
        async def judge(heard: Heard) -> WorkflowMessage:
            return verdicts[min(len(self.heard), len(verdicts)) - 1]

        super().__init__("judge", judge)


PRAISE = WorkflowMessage(evaluation="good")


def fault(lesson: str, *blame: str) -> WorkflowMessage:
    return WorkflowMessage(status=WorkflowStatus.EXECUTION_ERROR, lesson=lesson, blame=blame)


def giving(op_id: str = "source", **outputs: Any) -> Do:
    async def give(heard: Heard) -> WorkflowMessage:
        return WorkflowMessage(scratchpad=op_id, outputs=outputs)

    return Do(op_id, give)


async def _up(heard: Heard) -> str:
    return heard[0].scratchpad.upper()


def up(op_id: str = "up") -> Do:
    return Do(op_id, _up)


def raising(at: str, error: Exception) -> Do:
    async def work(heard: Heard) -> str:
        if heard[0].scratchpad == at:
            raise error
        return heard[0].scratchpad.upper()

    return Do("up", work)


New = Callable[..., Workflow]


@pytest.fixture
def chain(engine: type[Workflow]) -> New:
    """Makes a workflow of operators one after another."""

    def make(*steps: Any, judge: Judge | None = None, **options: Any) -> Workflow:
        workflow = engine(**options)
        for previous, step in zip([None, *steps], steps, strict=False):
            workflow.add_operator(step, [previous] if previous else [])
        workflow.set_evaluator(judge)
        return workflow

    return make


async def run(workflow: Workflow, reasoner: Any = None, lesson: str | None = None, **inputs: Any) -> WorkflowMessage:
    job = Job(goal="goal", id="job", inputs=inputs)
    return await asyncio.wait_for(workflow.aexecute(job, reasoner, lesson=lesson), RENDEZVOUS)


async def error_of(workflow: Workflow, **inputs: Any) -> Exception:
    with pytest.raises(Exception) as caught:
        await run(workflow, **inputs)
    return caught.value


async def items_of(workflow: Workflow, **inputs: Any) -> list[Any]:
    return (await run(workflow, **inputs)).outputs["items"]


# Items


async def test_each_item_goes_through_the_body_and_their_order_is_kept(chain: New) -> None:
    async def the_later_the_faster(heard: Heard) -> str:
        await asyncio.sleep(0.01 * (3 - heard[0].outputs["index"]))
        return heard[0].scratchpad.upper()

    message = await run(
        chain(giving(claims=["a", "b", "c"]), Map("each", Do("up", the_later_the_faster), over="claims"))
    )

    assert message.outputs == {"items": ["A", "B", "C"]}
    assert message.scratchpad == "A\n\nB\n\nC"
    assert [part.scratchpad for part in message.parts] == ["A", "B", "C"]
    assert message.operator_id == "each"


@pytest.mark.parametrize(("concurrency", "items"), [(1, 4), (2, 6), (8, 3), (3, 20)])
async def test_no_more_items_than_that_are_worked_on_at_once(chain: New, concurrency: int, items: int) -> None:
    now = most = 0

    async def work(heard: Heard) -> str:
        nonlocal now, most
        now += 1
        most = max(most, now)
        for _ in range(3):
            await asyncio.sleep(0)
        now -= 1
        return "done"

    await run(chain(Map("each", Do("work", work), over="xs", concurrency=concurrency)), xs=[*range(items)])

    assert most == min(concurrency, items)


async def test_a_free_place_is_taken_by_the_next_item_at_once(chain: New) -> None:
    go = asyncio.Event()
    rest: list[int] = []

    async def work(heard: Heard) -> str:
        if (index := heard[0].outputs["index"]) == 0:
            await go.wait()
        else:
            rest.append(index)
            if index == 5:
                go.set()
        return "done"

    await run(chain(Map("each", Do("work", work), over="xs", concurrency=2)), xs=[0] * 6)

    assert rest == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("item", "text"),
    [
        ("plain text", "plain text"),
        ({"who": "Zoë", "n": 1}, '{"who": "Zoë", "n": 1}'),
        (7, "7"),
        (2.5, "2.5"),
        (None, "null"),
        (True, "true"),
        (["a", ["b"]], '["a", ["b"]]'),
    ],
)
async def test_the_body_gets_the_item_as_text_and_as_a_value(chain: New, item: Any, text: str) -> None:
    first = up()

    await run(chain(giving(xs=["before", item]), Map("each", first, over="xs")))

    message, _ = next(heard for heard in first.heard if heard[0].outputs["index"] == 1)
    assert (message.scratchpad, message.outputs) == (text, {"item": item, "index": 1})
    assert (message.operator_id, message.job_id) == ("each", "job")


async def test_an_item_that_is_no_json_is_written_as_text(chain: New) -> None:
    first = up()

    await run(chain(giving(xs=[{"path": ValueError("x")}]), Map("each", first, over="xs")))

    assert first.heard[0][0].scratchpad == '{"path": "x"}'


@pytest.mark.parametrize(
    ("said", "item"),
    [
        ("text", "text"),
        (WorkflowMessage(scratchpad="text", outputs={"output": [1]}, answer="output"), [1]),
        (WorkflowMessage(scratchpad="text", outputs={"output": None}, answer="output"), None),
        (WorkflowMessage(scratchpad="text", outputs={"output": 1}), {"output": 1}),
        (WorkflowMessage(scratchpad="text", outputs={"a": 1, "b": 2}), {"a": 1, "b": 2}),
        (WorkflowMessage(scratchpad="text", outputs={"output": 1, "b": 2}), {"output": 1, "b": 2}),
        (WorkflowMessage(), ""),
    ],
    ids=["text", "an answer", "no answer", "output", "outputs", "output among others", "nothing"],
)
async def test_what_the_body_made_of_it_is_the_item(chain: New, said: Any, item: Any) -> None:
    async def say(heard: Heard) -> Any:
        return said

    assert await items_of(chain(Map("each", Do("say", say), over="xs")), xs=["x"]) == [item]


async def test_an_empty_list_makes_an_empty_list(chain: New) -> None:
    events: list[Event] = []
    body = up()

    message = await run(chain(Map("each", body, over="xs"), listeners=[events.append]), xs=[])

    assert (message.outputs, message.scratchpad, message.parts) == ({"items": []}, "", ())
    assert not body.heard
    assert not [event for event in events if isinstance(event, Progress)]


async def test_an_operator_of_ours_works_as_a_body(chain: New) -> None:
    each = Map(
        "each", Operator(OperatorConfig(id="shout", instruction="Shout.", output_schema="{loud: string}")), over="xs"
    )
    reasoner = ScriptedReasoner(lambda task: json.dumps({"loud": task.workflow_messages[0].scratchpad.upper()}))

    message = await run(chain(each), reasoner, xs=["a", "b"])

    assert message.outputs["items"] == [{"loud": "A"}, {"loud": "B"}]


# Which list


async def test_the_only_list_before_it_needs_no_name(chain: New) -> None:
    assert await items_of(chain(giving(n=1, claims=["a"], text="x"), Map("each", up()))) == ["A"]


async def test_a_tuple_is_a_list_too(chain: New) -> None:
    assert await items_of(chain(giving(claims=("a", "b")), Map("each", up()))) == ["A", "B"]
    assert await items_of(chain(giving(claims=("a", "b")), Map("each", up(), over="claims"))) == ["A", "B"]


async def test_an_output_goes_before_an_input_of_the_same_name(chain: New) -> None:
    assert await items_of(chain(giving(xs=["output"]), Map("each", up(), over="xs")), xs=["input"]) == ["OUTPUT"]


async def test_of_two_outputs_of_the_same_name_the_first_counts(engine: type[Workflow]) -> None:
    workflow = engine()
    one, two = giving("one", xs=["1"]), giving("two", xs=["2"])
    workflow.add_operator(one)
    workflow.add_operator(two)
    workflow.add_operator(Map("each", up(), over="xs"), [two, one])

    assert await items_of(workflow) == ["2"]


@pytest.mark.parametrize(
    ("outputs", "over", "said"),
    [
        ({"a": [1], "b": [2]}, None, "needs one list among the outputs before it, and there are 2: a, b; say over=…"),
        ({"a": 1}, None, "needs one list among the outputs before it, and there is none; say over=…"),
        (
            {"claims": [1]},
            "claim",
            "no operator before it has an output 'claim', and the job no such input (did you mean",
        ),
        ({}, "claims", "there are: none"),
        ({"claims": "a, b"}, "claims", "'claims' is not a list but str; a map needs a list"),
        ({"claims": {"a": 1}}, "claims", "'claims' is not a list but dict; a map needs a list"),
        ({"claims": None}, "claims", "'claims' is not a list but NoneType; a map needs a list"),
    ],
    ids=["two lists", "no list", "misspelt", "nothing there", "text", "a mapping", "null"],
)
async def test_without_a_list_there_is_an_error_that_says_what_there_is(
    chain: New, outputs: dict[str, Any], over: str | None, said: str
) -> None:
    error = await error_of(chain(giving(**outputs), Map("each", up(), over=over)))

    assert isinstance(error, OperatorError)
    assert isinstance(error.__cause__, InputError)
    assert "map 'each'" in str(error)
    assert said in str(error)


async def test_a_list_that_changes_meanwhile_does_not_matter(chain: New) -> None:
    items = ["a", "b", "c"]

    async def work(heard: Heard) -> str:
        items.clear()
        return heard[0].scratchpad

    assert await items_of(chain(giving(xs=items), Map("each", Do("work", work), concurrency=1))) == ["a", "b", "c"]


def declared(output_schema: str) -> Operator:
    return Operator(OperatorConfig(id="source", instruction="x", output_schema=output_schema))


@pytest.mark.parametrize(
    ("output_schema", "over", "codes"),
    [
        ("{claims: [string]}", "claims", []),
        ("{claims: string}", "claims", ["not-a-list"]),
        ("{claims: {a: string}}", "claims", ["not-a-list"]),
        ("{claims: string}", "others", []),
        ("{claims: string}", None, []),
        ("{claims: [string]}", "source.claims", []),
        ("{claims: [string]}", "source.claim", ["unknown-output"]),
        ("{claims: [string]}", "source.claims.first", ["unknown-output"]),
        ("{claims: {a: [string]}}", "source.claims.a", []),
        ("{claims: {a: [string]}}", "source.claims.b", ["unknown-output"]),
        ("{claims: {a: [string]}}", "source.claims", ["not-a-list"]),
        ('{"type": "object", "properties": {"claims": {}}}', "source.claim", []),
        ("In words.", "source.claim", []),
        ("[string]", "source.output", []),
        ("In words.", "claims", []),
        ("[string]", "claims", []),
        ("", "claims", []),
    ],
)
def test_a_check_finds_that_what_is_declared_is_no_list(
    chain: New, output_schema: str, over: str | None, codes: list[str]
) -> None:
    issues = chain(declared(output_schema), Map("each", up(), over=over)).graph().check()

    assert [(issue.code, issue.where) for issue in issues] == [(code, "each") for code in codes]


class Facts(BaseModel):
    claims: list[str]
    note: str = ""


def test_a_check_finds_that_an_answer_has_no_such_list_before_the_model_is_asked(chain: New) -> None:
    @operator
    def told(job: Job) -> Facts:
        return Facts(claims=[])

    asked: Operator[Facts] = Operator("List.", id="asked", output=Facts)
    for source in (asked, told):
        for over, message in [
            ("claim", f"{source.get_id()!r} has no 'claim' (did you mean 'claims'?); it has: claims, note"),
            ("note", f"'{source.get_id()}.note' is declared as string, and a map needs a list"),
        ]:
            [issue] = chain(source, Map("each", up(), over=f"{source.get_id()}.{over}")).graph().check()
            assert issue.message == message
        assert chain(source, Map("each", up(), over=source.output.claims)).graph().check() == []


async def test_the_list_may_be_the_whole_answer_of_an_operator(engine: type[Workflow]) -> None:
    @operator
    def split(job: Job) -> list[str]:
        return job.goal.split()

    flow = engine(split >> Map("each", up(), over="split"))
    assert (await flow.arun("a b")).output == ["A", "B"]
    later = engine(split)
    later.map(up(), split.output, id="each")
    assert (await later.arun("a b")).output == ["A", "B"]
    assert (await engine(split >> Map("each", up(), over=split)).arun("a b")).output == ["A", "B"]

    @operator
    def text(job: Job) -> int:
        return 1

    with pytest.raises(OperatorError, match="map 'each': 'text' is not a list but int; a map needs a list"):
        await engine(text >> Map("each", up(), over="text")).arun("a b")


def test_a_check_of_what_is_declared_goes_by_the_operator_whose_output_counts(engine: type[Workflow]) -> None:
    workflow = engine()
    one = Operator(OperatorConfig(id="one", instruction="x", output_schema="{claims: [string]}"))
    two = Operator(OperatorConfig(id="two", instruction="x", output_schema="{claims: string}"))
    workflow.add_operator(one)
    workflow.add_operator(two)
    workflow.add_operator(Map("each", up(), over="claims"), [one, two])

    assert workflow.graph().check() == []


def test_what_is_wrong_with_the_body_is_wrong_with_the_map(chain: New, engine: type[Workflow]) -> None:
    a, b = up("a"), up("b")
    body = engine(name="body")
    body.add_operator(a, [b])

    issues = chain(Map("each", body, over="xs"), Map("empty", engine(), over="xs")).graph().check()

    assert [(issue.code, issue.where) for issue in issues] == [
        ("unknown-operator", "each/a"),
        ("no-operators", "empty"),
    ]


def test_a_map_whose_body_contains_it_is_an_issue(engine: type[Workflow]) -> None:
    body = engine(name="body")
    each = Map("each", body, over="xs")
    body.add_operator(each)

    issues = body.graph().check()

    assert [issue.code for issue in issues] == ["nested-in-itself"]


@pytest.mark.parametrize("concurrency", [0, -1])
def test_a_map_needs_a_place_at_least(concurrency: int) -> None:
    with pytest.raises(InvalidError, match="not-positive"):
        Map("each", up(), concurrency=concurrency)


def test_a_word_for_what_happens_on_an_error_that_is_misspelt_is_refused() -> None:
    with pytest.raises(InvalidError, match="did you mean 'keep'"):
        Map("each", up(), on_error="kepp")  # type: ignore[arg-type]


# Errors


async def test_an_item_that_fails_fails_the_map_and_says_which(chain: New) -> None:
    cause = ValueError("bad b")

    error = await error_of(chain(Map("each", raising("b", cause), over="xs"), name="w"), xs=["a", "b", "c"])

    assert str(error) == (
        "operator 'each' of workflow 'w' failed on attempt 1: item each[1]: "
        "operator 'up' of workflow 'up' failed on attempt 1: ValueError: bad b"
    )
    links: list[BaseException] = [error]
    while links[-1].__cause__:
        links.append(links[-1].__cause__)
    assert links[-1] is cause


async def test_then_the_others_are_cancelled_and_have_cleaned_up(chain: New) -> None:
    left: list[str] = []
    started = asyncio.Event()

    async def work(heard: Heard) -> str:
        item = heard[0].scratchpad
        if item == "bad":
            await started.wait()
            raise ValueError(item)
        try:
            started.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            left.append(item)
        return item

    body = Do("work", work)
    error = await error_of(chain(Map("each", body, over="xs", concurrency=3)), xs=["a", "bad", "c", "never", "begun"])

    assert "item each[1]" in str(error)
    assert sorted(left) == ["a", "c"]
    assert len(body.heard) == 3


async def test_an_item_that_fails_may_be_left_out(chain: New) -> None:
    message = await run(chain(Map("each", raising("b", ValueError()), over="xs", on_error="skip")), xs=["a", "b", "c"])

    assert message.outputs == {"items": ["A", "C"]}
    assert (message.scratchpad, len(message.parts)) == ("A\n\nC", 2)


async def test_or_an_error_kept_in_its_place(chain: New) -> None:
    error = ValueError("bad b")

    message = await run(chain(Map("each", raising("b", error), over="xs", on_error="keep")), xs=["a", "b", "c"])

    first, kept, last = message.outputs["items"]
    assert (first, last) == ("A", "C")
    assert isinstance(kept, ItemError)
    assert kept.index == 1
    assert "ValueError: bad b" in kept.error
    assert kept.error not in message.scratchpad  # an error is no answer
    assert len(message.parts) == 2


async def test_the_kind_of_a_kept_error_is_that_of_the_original_also_from_a_map_in_the_map(chain: New) -> None:
    inner = Map("inner", raising("b", ValueError("bad b")), over="item")
    message = await run(chain(Map("each", inner, over="xs", on_error="keep")), xs=[["a"], ["b"]])
    assert [each.kind for each in message.outputs["items"] if isinstance(each, ItemError)] == ["ValueError"]


@pytest.mark.parametrize("on_error", ["fail", "skip", "keep"])
async def test_a_budget_that_is_used_up_ends_the_run_in_any_case(chain: New, on_error: Any) -> None:
    async def spend(heard: Heard) -> str:
        emit(ModelAnswered(model="m", usage=Usage(calls=1)))
        return "done"

    each = Map("each", Do("spend", spend), over="xs", on_error=on_error)

    error = await error_of(chain(each, budget=Budget(calls=2)), xs=[1, 2, 3, 4])

    assert isinstance(error, BudgetError)


@pytest.mark.parametrize("on_error", ["fail", "skip", "keep"])
async def test_a_map_that_is_cancelled_leaves_nothing_behind(chain: New, on_error: Any) -> None:
    left: list[str] = []
    begun = asyncio.Event()

    async def work(heard: Heard) -> str:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            left.append(heard[0].scratchpad)
        return ""

    workflow = chain(Map("each", Do("work", work), over="xs", concurrency=2, on_error=on_error))
    running = asyncio.ensure_future(run(workflow, xs=["a", "b", "c"]))
    await begun.wait()
    await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert sorted(left) == ["a", "b"]


# Bodies


async def test_each_item_has_rounds_of_its_own(chain: New) -> None:
    class Strict(Do):
        def __init__(self) -> None:
            async def judge(heard: Heard) -> WorkflowMessage:
                return PRAISE if heard[0].scratchpad in ("good", "better") else fault("be good", "work")

            super().__init__("judge", judge)

    async def work(heard: Heard) -> str:
        return "better" if worker.lessons[-1] else heard[0].scratchpad

    worker = Do("work", work)
    body = chain(worker, judge=Strict(), max_rounds=2, name="body")

    message = await run(chain(Map("each", body, over="xs")), xs=["good", "bad"])

    assert message.outputs["items"] == ["good", "better"]
    assert sorted(map(str, worker.lessons)) == ["None", "None", "be good"]
    assert [part.evaluation for part in message.parts] == ["good", "good"]


async def test_what_earlier_experts_said_and_the_lesson_reach_the_body(chain: New) -> None:
    body = up()
    earlier = WorkflowMessage(scratchpad="earlier")
    job = Job(goal="goal", inputs={"xs": ["a"]})

    await chain(Map("each", body, over="xs")).aexecute(job, None, [earlier], "be brief")  # type: ignore[arg-type]

    assert (body.previous, body.lessons) == ([[earlier]], ["be brief"])


async def test_a_map_in_a_map(chain: New) -> None:
    events: list[Event] = []
    rows = Map("rows", Map("cells", up(), over="item"), over="xs")

    items = await items_of(chain(rows, listeners=[events.append]), xs=[["a", "b"], ["c"], []])

    assert items == [["A", "B"], ["C"], []]
    assert {event.path for event in events if isinstance(event, OperatorFinished)} == {
        ("rows",),
        *((f"rows[{n}]", "cells") for n in range(3)),
        ("rows[0]", "cells[0]", "up"),
        ("rows[0]", "cells[1]", "up"),
        ("rows[1]", "cells[0]", "up"),
    }


# Rounds of the workflow around it


async def blamed_twice(chain: New, over: str | None, judge: Judge, **inputs: Any) -> tuple[WorkflowMessage, Do]:
    body = up()
    operators = [giving(claims=["a", "b"])] if not inputs else []
    return await run(chain(*operators, Map("each", body, over=over), judge=judge, max_rounds=3), **inputs), body


async def test_a_map_that_is_blamed_runs_over_the_same_list_again(chain: New) -> None:
    message, body = await blamed_twice(chain, None, Judge(fault("better", "each"), fault("more", "each"), PRAISE))

    assert message.outputs["items"] == ["A", "B"]
    assert body.lessons == [None] * 2 + ["better"] * 2 + ["better\nmore"] * 2


async def test_a_function_in_a_blamed_map_gets_the_item_and_not_the_verdict(chain: New) -> None:
    seen: list[tuple[str, int]] = []

    def improve(judge: str, index: int) -> str:
        seen.append((judge, index))
        return judge.upper()

    judge = Judge(fault("better", "each"), PRAISE)
    await run(chain(Map("each", improve, over="items", concurrency=1), judge=judge, max_rounds=2), items=["a", "b"])

    assert seen == [("a", 0), ("b", 1)] * 2


async def test_its_own_earlier_items_are_no_list_before_it(chain: New) -> None:
    message, body = await blamed_twice(chain, "items", Judge(fault("better", "each"), PRAISE), items=["a"])

    assert message.outputs["items"] == ["A"]
    assert [heard[0].scratchpad for heard in body.heard] == ["a", "a"]


async def test_nor_are_those_of_the_workflow_that_it_is_in(chain: New) -> None:
    body = up()
    inner = chain(Map("each", body), name="inner")

    judge = Judge(fault("better", "inner"), PRAISE)
    message = await run(chain(giving(claims=["a"]), inner, judge=judge, max_rounds=2))

    assert message.outputs["items"] == ["A"]
    assert body.lessons == [None, "better"]


# Events and usage


async def test_a_map_tells_how_many_items_are_done(chain: New) -> None:
    events: list[Event] = []

    each = Map("each", raising("b", ValueError()), over="xs", on_error="keep", concurrency=2)
    await run(chain(each, listeners=[events.append]), xs=["a", "b", "c"])

    progress = [event for event in events if isinstance(event, Progress)]
    assert [(event.done, event.total, event.path) for event in progress] == [(n, 3, ("each",)) for n in (1, 2, 3)]


@pytest.mark.parametrize("own_account", [False, True])
async def test_the_usage_of_all_items_adds_up(chain: New, own_account: bool) -> None:
    events: list[Event] = []

    async def spend(heard: Heard) -> WorkflowMessage:
        usage = Usage(calls=1, prompt_tokens=heard[0].outputs["item"])
        if own_account:
            return WorkflowMessage(scratchpad="done", usage=usage)
        emit(ModelAnswered(model="m", usage=usage))
        return WorkflowMessage(scratchpad="done")

    message = await run(
        chain(Map("each", chain(Do("spend", spend), up()), over="xs"), listeners=[events.append]), xs=[1, 20, 300]
    )

    assert (message.usage.calls, message.usage.prompt_tokens) == (3, 321)
    assert [part.usage.prompt_tokens for part in message.parts] == [1, 20, 300]
    each = next(e for e in events if isinstance(e, OperatorFinished) and e.operator_id == "each")
    assert each.message.usage.prompt_tokens == 321
    assert next(e for e in events if isinstance(e, RunFinished)).message.usage.prompt_tokens == 321


async def test_the_usage_of_items_that_failed_counts_too(chain: New) -> None:
    async def spend(heard: Heard) -> str:
        emit(ModelAnswered(model="m", usage=Usage(calls=1)))
        raise ValueError

    message = await run(chain(Map("each", Do("spend", spend), over="xs", on_error="skip")), xs=[1, 2])

    assert message.usage.calls == 2


async def test_several_runs_share_one_map(chain: New) -> None:
    workflow = chain(Map("each", up(), over="xs"))

    said: Sequence[list[Any]] = await asyncio.gather(*(items_of(workflow, xs=[f"a{n}", f"b{n}"]) for n in range(5)))

    assert said == [[f"A{n}", f"B{n}"] for n in range(5)]


def test_an_item_that_fails_loses_nothing_of_what_others_had_said() -> None:
    class Check:
        def get_id(self) -> str:
            return "check"

        async def execute(self, reasoner: Any, job: Job, workflow_messages: Any = None, *_: Any, **__: Any) -> str:
            item = workflow_messages[0].outputs["item"]
            if item == "three":
                raise ValueError("no")
            return f"{item} is well"

    workflow = BuiltinWorkflow()
    workflow.add_operator(Map("each", Check(), over="words", concurrency=1))
    with pytest.raises(OperatorError) as caught:
        workflow.execute(Job(goal="", inputs={"words": ["one", "two", "three"]}), None)  # type: ignore[arg-type]
    said = {name: message.scratchpad for name, message in caught.value.finished.items()}
    assert said == {"each[0]": "one is well", "each[1]": "two is well"}


# Maps of the public face


class Claims(BaseModel):
    claims: list[str]


class Order(BaseModel):
    item: str
    amount: int


@dataclass
class Delivery:
    order: Order
    day: date


@operator
def facts(job: Job) -> Claims:
    return Claims(claims=job.goal.split())


def shout(claim: str) -> str:
    return claim.upper()


@pytest.mark.parametrize("over", ["facts.claims", facts.output.claims, facts.output["claims"]])
def test_a_workflow_maps_over_the_answer_of_an_operator_of_its(engine: type[Workflow], over: Any) -> None:
    flow = engine(facts)
    each = flow.map(shout, over=over)

    def count(shout: list[str]) -> int:
        return len(shout)

    flow.add(count, after=[each])
    result = flow.run("a b")
    assert (result.output, result["shout"], result[each]) == (2, ["A", "B"], ["A", "B"])


def test_the_operator_of_a_list_may_be_further_back(engine: type[Workflow]) -> None:
    def between(facts: Claims) -> str:
        return "between"

    assert engine(facts >> between >> Map(over="facts.claims", each=shout)).run("a b").output == ["A", "B"]


def test_maps_of_the_same_operator_get_ids_of_their_own() -> None:
    flow = BuiltinWorkflow(facts)
    assert [flow.map(shout, over="facts.claims").get_id() for _ in range(2)] == ["shout", "shout_2"]


@pytest.mark.parametrize(
    ("over", "error"),
    [
        ("fact.claims", "reads the message of 'fact', which is not an operator (did you mean 'facts'?)"),
        ("untyped.claim", "map 'shout': 'untyped' has no 'claim' (did you mean 'claims'?); there are: claims"),
        ("untyped.claims.x", "map 'shout': 'untyped.claims' has no 'x'; there are: none"),
        ("facts.claim", "'facts' has no 'claim' (did you mean 'claims'?); it has: claims"),
        ("facts.claims.x", "'facts.claims' has no 'x'"),
    ],
)
def test_a_list_that_is_not_there_is_told_with_near_names(over: str, error: str) -> None:
    @operator
    def untyped(facts: Claims) -> dict[str, Any]:
        return {"claims": facts.claims}

    with pytest.raises(OperadError) as caught:
        BuiltinWorkflow(facts >> untyped >> Map(over=over, each=shout)).run("a b")
    assert error in str(caught.value)


def test_the_body_sees_what_the_map_sees_after_the_item(engine: type[Workflow]) -> None:
    seen: list[list[str]] = []

    async def look(heard: Heard) -> str:
        seen.append([message.operator_id for message in heard])
        return heard[0].scratchpad

    engine(facts >> Map("each", Do("look", look), over="claims")).run("a")
    assert seen == [["each", "facts"]]


def test_a_function_of_a_map_takes_the_item_its_place_and_answers_before_the_map_by_name(
    engine: type[Workflow],
) -> None:
    def place(claim: str, index: int, facts: Claims) -> str:
        return f"{claim} is {index + 1} of {len(facts.claims)}"

    assert engine(facts >> Map(over="facts.claims", each=place)).run("a b").output == ["a is 1 of 2", "b is 2 of 2"]


def test_a_model_after_a_map_sees_each_item_with_its_result(engine: type[Workflow]) -> None:
    asked: list[str] = []

    def answer(request: dict[str, Any]) -> Say:
        asked.append(request["messages"][-1]["content"])
        return Say("done")

    with ScriptedModel(answer) as model:
        flow = engine(facts >> Map(over="facts.claims", each=shout) >> Operator("Sum up."), model=model.model)
        flow.run("a b")
    assert "Item: a\nResult: A\n\nItem: b\nResult: B" in asked[0]


def test_a_model_sees_an_item_that_is_a_pydantic_model_or_a_dataclass_as_json(engine: type[Workflow]) -> None:
    def orders(job: Job) -> Iterator[Order | Delivery]:
        yield Order(item="figs", amount=2)
        yield Delivery(Order(item="dates", amount=1), date(2026, 11, 26))

    asked: list[str] = []

    def answer(request: dict[str, Any]) -> Say:
        asked.append(request["messages"][-1]["content"])
        return Say("done")

    each = Map("each", Operator("Check.", id="check"), over=orders, concurrency=1)
    with ScriptedModel(answer) as model:
        engine(each >> Operator("Sum up."), model=model.model).run("today")
    shown = ('{"item": "figs", "amount": 2}', '{"order": {"item": "dates", "amount": 1}, "day": "2026-11-26"}')
    assert [text in request for text, request in zip(shown, asked, strict=False)] == [True, True]
    assert "".join(f"Item: {text}\nResult: done\n\n" for text in shown).strip() in asked[2]


def test_a_durable_map_keeps_items_that_are_pydantic_models_or_dataclasses(tmp_path: Path) -> None:
    def orders(job: Job) -> Iterator[Delivery]:
        yield Delivery(Order(item="dates", amount=1), date(2026, 11, 26))

    def label(delivery: Delivery) -> str:
        return f"{delivery.order.amount} {delivery.order.item}, {delivery.day:%d.%m.}"

    for _ in range(2):  # the second run reads what the first one kept
        flow = Workflow(Map("each", label, over=orders), durable=tmp_path / "runs.db")
        result = flow.run("today", run_id="r")
        assert result.output == ["1 dates, 26.11."]
        [part] = result.message.parts
        assert part.item == {"order": {"item": "dates", "amount": 1}, "day": "2026-11-26"}


def test_a_model_in_a_body_sees_the_item_and_what_else_the_map_sees_but_not_the_list(engine: type[Workflow]) -> None:
    asked: list[str] = []

    def answer(request: dict[str, Any]) -> Say:
        asked.append(request["messages"][-1]["content"])
        return Say("done")

    @operator
    def read(job: Job) -> dict[str, Any]:
        return {"topic": "moons", "claims": job.goal.split()}

    with ScriptedModel(answer) as model:
        flow = engine([read, facts] >> Map("each", Operator("Check."), over="claims"), model=model.model)
        flow.run("air")
    assert asked == [
        "## Job\nair\n\n## Results of earlier operators\n### Item to work on, from read.claims\n```\nair\n```\n\n"
        '### Result of read\n```\n{\n "topic": "moons"\n}\n```'
    ]


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (
            lambda: Map("each"),
            "Map(…): expected exactly one operator for the items: Map(over='facts.claims', each=check)",
        ),
        (lambda: Map("each", shout, each=shout), "Map(…): expected exactly one operator for the items"),
        (lambda: Map(over=cast("str", 42), each=shout), "got 42 (int)"),
        (lambda: Map(cast("str", shout), over="x"), "Map(…): id: expected a text, got the function shout"),
    ],
)
def test_a_wrong_map_says_what_is_expected(wrong: Callable[[], Any], error: str) -> None:
    with pytest.raises(InputError) as caught:
        wrong()
    assert error in str(caught.value)


def test_the_items_can_come_from_an_async_generator(engine):
    async def words(job: Job):
        for word in job.goal.split():
            await asyncio.sleep(0)
            yield word

    assert engine(Map(over=words, each=shout, concurrency=2)).run("one two three").output == ["ONE", "TWO", "THREE"]


def test_a_generator_is_asked_for_an_item_when_there_is_room_for_it():
    begun: list[int] = []
    most: list[int] = []

    def numbers(job: Job):
        for number in range(20):
            begun.append(number)
            yield number

    async def work(heard: Heard) -> str:
        await asyncio.sleep(0)
        most.append(len(begun) - len(most))
        return "done"

    Workflow(Map("each", Do("work", work), over=numbers, concurrency=3, collect=False)).run("numbers")
    assert (len(begun), max(most)) == (20, 3)


def test_a_map_that_collects_nothing_keeps_the_number_of_items_and_the_failed_ones():
    def read(item: str) -> int:
        return int(item)

    each = Map("each", read, over=lambda job: ["1", "two", "3"], on_error="keep", collect=False)
    message = Workflow(each).run("numbers").message
    assert (message.scratchpad, message.parts, message.outputs["count"]) == ("3 items", (), 3)
    assert [(failed.index, failed.kind) for failed in message.outputs["items"]] == [(1, "ValueError")]


def shown(workflow: Workflow, job: Any) -> list[str]:
    """The prompts of the operators."""
    with ScriptedModel(lambda request: Say("done")) as model:
        workflow.run(job, model.model)
        return [request["messages"][-1]["content"] for request in model.requests]


def test_an_item_hides_only_the_list_that_the_map_reads(engine):
    def find(job: Job) -> WorkflowMessage:
        return WorkflowMessage(outputs={"words": ["en", "fr"], "names": ["en", "fr"]})

    inputs = {"languages": ["en", "fr"], "urgent": ["en", "de"]}
    [english, _] = shown(engine(Map("each", Operator("Translate."), over="languages")), inputs)
    assert '"urgent"' in english
    assert '"languages"' not in english
    found = engine(operator(find) >> Map("each", Operator("Translate."), over="find.words"))
    for prompt in shown(found, inputs):
        assert all(f'"{name}"' in prompt for name in ("names", "languages", "urgent"))
        assert '"words"' not in prompt
    for prompt in shown(engine(Map("each", Operator("Translate."), over=lambda job: ["en", "fr"])), inputs):
        assert all(f'"{name}"' in prompt for name in inputs)


def test_items_of_a_map_in_a_map_hide_the_lists_of_both(engine):
    inner = Workflow(Map("inner", Operator("Translate.")), name="body")
    inputs = {"rows": [["a", "b"]], "others": [["a", "b"]]}
    for prompt in shown(engine(Map("outer", inner, over="rows")), inputs):
        assert "Item to work on, from outer.item" in prompt
        assert '"others"' in prompt
        assert '"rows"' not in prompt
        assert '"item"' not in prompt


class Place(BaseModel):
    item: str
    index: int


def test_an_operator_of_the_body_with_the_id_of_the_map_may_have_the_outputs_of_an_item(engine):
    def each(text: str) -> Place:
        return Place(item=text, index=7)

    def check(each: Place) -> str:
        return f"{each.item} at {each.index}"

    body = Workflow(each >> operator(check), name="body")
    assert engine(Map("each", body, over=lambda job: ["a"])).run("x").output == ["a at 7"]


@pytest.mark.parametrize("collect", [True, False])
def test_with_a_budget_a_map_that_collects_nothing_keeps_the_messages_of_running_items_only(collect):
    def count(item: str) -> str:
        return item

    async def spend(item: str) -> str:
        scope = current_scope()
        assert scope
        if item == "499":
            scope.charge(Usage(calls=2))
        return item

    body = Workflow(count >> operator(spend), name="body")
    each = Map("each", body, over=lambda job: map(str, range(500)), concurrency=1, collect=collect)
    with pytest.raises(BudgetError) as caught:
        Workflow(each, budget=Budget(calls=1)).run("numbers")
    assert len(caught.value.finished) == (999 if collect else 1)
    assert "each[499]/count" in caught.value.finished


def test_a_map_that_collects_nothing_has_the_worst_status():
    async def judge(heard: Heard) -> WorkflowMessage:
        worse = heard[0].scratchpad == "2"
        return WorkflowMessage(status=WorkflowStatus.INPUT_DATA_ERROR if worse else WorkflowStatus.SUCCESS)

    each = Map("each", Do("judge", judge), over=lambda job: range(4), collect=False)
    assert Workflow(each).run("numbers").message.status is WorkflowStatus.INPUT_DATA_ERROR


def words_of_at_most_three_letters(**options: Any) -> Workflow:
    def short(item: str) -> None:
        if len(item) > 3:
            raise FaultError("too long")

    body = Workflow(operator(lambda item: item, id="item"), evaluator=short, **options)
    flow = Workflow(each := Map("each", body, over="words"))
    flow.add(operator(lambda each: "".join(each), id="join"), after=[each])
    return flow


WORDS = {"words": ["one", "three", "two", "seven"]}


def test_items_that_an_evaluator_rejects_are_counted_and_the_first_of_the_worst_is_named():
    result = words_of_at_most_three_letters(on_reject="continue").run(WORDS)
    assert (result.text, result.status) == ("onethreetwoseven", WorkflowStatus.EXECUTION_ERROR)
    assert result.evaluation.startswith("each: 2 of 4 items did not succeed. each[1]: too long\n")


def test_the_result_of_a_map_with_a_rejected_item_is_not_used():
    result = words_of_at_most_three_letters().run(WORDS)
    assert (result.text, result.status) == ("", WorkflowStatus.EXECUTION_ERROR)
    assert "join" not in result
    assert result.message.blame == ("each",)
    assert result.evaluation.startswith("each: 2 of 4 items did not succeed. each[1]: too long\n")


def test_a_rejected_item_may_have_a_value_in_its_place():
    result = words_of_at_most_three_letters(on_reject=WorkflowMessage(scratchpad="...")).run(WORDS)
    assert (result.output, result.status) == ("one...two...", WorkflowStatus.SUCCESS)


def test_the_progress_of_a_generator_counts_the_items_that_have_begun():
    heard: list[Event] = []
    each = Map("each", shout, over=lambda job: iter(["a", "b"]), concurrency=1)
    Workflow(each, listeners=[heard.append]).run("letters")
    assert [(e.done, e.total) for e in heard if isinstance(e, Progress)] == [(1, 1), (2, 2)]


async def test_a_map_whose_bodies_never_suspend_can_be_cancelled():
    taken: list[int] = []

    def numbers(job: Job):
        for number in range(1_000_000):
            taken.append(number)
            yield number

    async def work(heard: Heard) -> str:
        return "done"

    run = asyncio.create_task(Workflow(Map("each", Do("work", work), over=numbers, collect=False)).arun("numbers"))
    while not taken:
        await asyncio.sleep(0)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert len(taken) < 1_000_000


def test_a_generator_is_closed_when_an_item_fails():
    closed: list[str] = []

    async def words(job: Job):
        try:
            while True:
                yield "word"
        finally:
            closed.append("closed")

    def fail(item: str) -> str:
        raise ValueError("no")

    with pytest.raises(OperatorError, match=r"item each\[\d+\]"):
        Workflow(Map("each", fail, over=words)).run("words")
    assert closed == ["closed"]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (3, r"3 \(int\)"),
        ("words", r"'words' \(str\)"),
        ({"a": 1}, r"{'a': 1}"),
        (bytearray(b"ab"), "bytearray"),
        (Usage(), "Usage"),
    ],
)
def test_a_function_that_returns_no_items_is_an_error(value, said):
    with pytest.raises(
        OperatorError, match=rf"map 'each': over: the function returned {said}.*; it must return a list"
    ):
        Workflow(Map("each", shout, over=lambda job: value)).run("words")


def test_a_model_with_an_iterator_of_its_own_is_a_list_of_items():
    class Basket(BaseModel):
        fruit: list[str]

        def __iter__(self) -> Iterator[str]:  # pyright: ignore[reportIncompatibleMethodOverride]
            return iter(self.fruit)

    flow = Workflow(Map("each", shout, over=lambda job: Basket(fruit=["fig"])))
    assert flow.run("words").output == ["FIG"]


@operator
def topic(job: Job) -> str:
    return "fruit"


@operator
def words(job: Job) -> list[str]:
    return ["fig", "date"]


async def test_a_parameter_of_a_map_body_that_is_no_name_is_an_issue_beside_the_item():
    def tag(word: str, topik: str) -> str:
        return f"{word} is about {topik}"

    with pytest.raises(InvalidError) as raised:
        await Workflow([topic, words] >> Map("tags", tag, over="words")).arun("x")
    [issue] = raised.value.issues
    assert (issue.code, issue.where) == ("parameter", "tags/tag")
    assert issue.message == (
        "parameter 'topik' is neither the index nor an operator before the map (did you mean 'topic'?), and the item "
        "goes to 'word'; known: index, topic, words"
    )


async def test_the_parameter_item_takes_the_item_and_a_default_stays():
    def tag(index: int, topic: str, item: str, sep: str = ": ") -> str:
        return f"{index}{sep}{item}{sep}{topic}"

    result = await Workflow([topic, words] >> Map("tags", tag, over="words")).arun("x")
    assert result.output == ["0: fig: fruit", "1: date: fruit"]


async def test_a_map_over_an_input_refuses_a_second_unknown_parameter_when_it_runs():
    def tag(word: str, idx: int) -> str:
        return f"{idx}. {word}"

    with pytest.raises(OperatorError, match="'idx' is neither the index nor an operator before the map"):
        await Workflow(Map("tags", tag, over="words")).arun({"words": ["a"]})


class Loud(BaseModel):
    text: str


@pytest.mark.parametrize(("items", "on_error"), [([], "fail"), (["x"], "skip"), (["a", "x"], "skip"), (["x"], "keep")])
@pytest.mark.parametrize("is_nested", [False, True])
def test_a_function_gets_the_list_of_a_map_also_if_it_is_empty_or_all_items_failed(items, on_error, is_nested):
    def shout(item: str) -> Loud:
        if item == "x":
            raise ValueError(item)
        return Loud(text=item.upper())

    def count(each: list[Loud | ItemError]) -> str:
        return f"{len(each)} of {type(each).__name__}"

    def untyped(each) -> str:
        return f"{len(each)} of {type(each).__name__}"

    each = Map("each", shout, over="items", on_error=on_error)
    first = BuiltinWorkflow(each, name="each") if is_nested else each
    number = len([item for item in items if item != "x" or on_error == "keep"])
    for function in (count, untyped):
        assert BuiltinWorkflow(first >> function).run({"items": items}).output == f"{number} of list"


def test_an_operator_with_an_output_of_that_name_is_no_map():
    @operator
    def empty() -> dict[str, list[str]]:
        return {"items": []}

    def show(empty) -> str:
        return repr(empty)

    assert BuiltinWorkflow(empty >> show).run("x").output == "{'items': []}"


@pytest.mark.parametrize("name", ["", "other"])
def test_the_answer_of_a_nested_workflow_that_ends_in_a_map_is_its_list(name):
    def shout(item: str) -> Loud:
        return Loud(text=item.upper())

    inner = BuiltinWorkflow(Map(name, shout, over="items"), name="inner")

    def last(inner: list[Loud]) -> str:
        return inner[-1].text

    result = BuiltinWorkflow(inner >> last).run({"items": ["a", "b"]})
    assert (result[inner], result.output) == ([Loud(text="A"), Loud(text="B")], "B")


def test_a_chain_is_the_body_of_a_map_and_its_last_operator_names_the_map():
    def shout(word: str) -> str:
        return word.upper()

    def exclaim(shout: str) -> str:
        return f"{shout}!"

    each = Map(each=operator(shout) >> exclaim, over="words")
    assert each.get_id() == "exclaim"
    assert Workflow(each).run({"words": ["a", "b"]}).output == ["A!", "B!"]


def test_an_argument_that_is_given_twice_is_named():
    with pytest.raises(InputError, match=r"Map\(…\) got 'id' twice: by position and by name; .* are id, body"):
        Map("each", id="x")  # pyright: ignore[reportCallIssue]


def test_a_function_after_a_map_in_a_map_gets_lists_of_lists():
    def shout(cell: str) -> str:
        return cell.upper()

    def joined(rows: list[list[str]]) -> str:
        return "/".join("".join(row) for row in rows)

    rows = Map("rows", Map("cells", shout, over="item"), over="table")
    assert Workflow(rows >> joined).run({"table": [["a", "b"], ["c"], []]}).text == "AB/C/"


def _fails(x: int) -> int:
    raise ValueError("no")


@pytest.mark.parametrize(
    ("fallback", "output"),
    [
        ("sorry", "sorry"),
        (WorkflowMessage(outputs={"items": [0, 0]}), [0, 0]),
        (WorkflowMessage(outputs={"items": "none"}), "none"),
        (WorkflowMessage(outputs={"total": 0}), {"total": 0}),
        (operator(lambda: [7], id="seven"), [7]),
    ],
)
def test_the_answer_of_a_map_that_used_its_fallback_is_that_of_the_fallback(fallback: Any, output: Any) -> None:
    flow = Workflow(operator(lambda: [1, 2], id="numbers"))
    flow.add(Map("m", each=_fails), after="numbers", policy=Policy(fallback=fallback))
    assert flow.run("x").output == output


def test_a_map_in_a_map_may_use_its_fallback() -> None:
    def repr_of(x: list[str]) -> str:
        return repr(x)

    inner = Workflow(name="inner")
    inner.add(Map("m", each=_fails), policy=Policy(fallback="sorry"))
    rows = operator(lambda: [[1], [2]], id="rows")
    assert Workflow(rows >> Map("each", each=inner)).run("x").output == ["sorry", "sorry"]
    assert Workflow(rows >> Map("each", each=inner) >> repr_of).run("x").text == "['sorry', 'sorry']"


@pytest.mark.parametrize("is_added", [True, False])
def test_a_map_over_an_operator_follows_that_operator_which_runs_once(is_added: bool) -> None:
    runs = list[int]()

    @operator
    def numbers() -> list[int]:
        runs.append(1)
        return [1, 2]

    def ten_times(item: int) -> int:
        return item * 10

    flow = Workflow(numbers) if is_added else Workflow()
    made = flow.map(ten_times, over=numbers, id="each")
    assert flow.graph().before == {"numbers": {}, "each": {"numbers": frozenset()}}
    assert (made.reads, flow.run("go").output, runs) == (("numbers",), [10, 20], [1])


def test_a_map_over_a_function_of_the_workflow_follows_it_and_another_function_makes_the_items() -> None:
    def numbers() -> list[int]:
        return [1, 2]

    def ten_times(item: int) -> int:
        return item * 10

    flow = Workflow(numbers)
    flow.map(ten_times, over=numbers, id="each")
    assert flow.graph().before["each"] == {"numbers": frozenset()}
    assert Workflow(Map("each", each=ten_times, over=lambda job: [3])).run("go").output == [30]


def test_a_map_over_another_map_follows_it() -> None:
    def numbers() -> list[int]:
        return [1, 2]

    def ten_times(item: int) -> int:
        return item * 10

    flow = Workflow(numbers)
    first = flow.map(ten_times, over="numbers", id="first")
    flow.map(ten_times, over=first, id="second")
    assert flow.graph().before["second"] == {"first": frozenset()}
    assert flow.run("go").output == [100, 200]
