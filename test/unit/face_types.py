# pyright: strict, reportUnusedFunction=false
"""Types of the public face, as a type checker sees them: `make check` checks this file, and nothing runs it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal, assert_type

from pydantic import BaseModel

from operad import (
    Action,
    Evaluator,
    FaultError,
    ItemError,
    Job,
    Map,
    Operator,
    OperatorConfig,
    Result,
    RunContext,
    RunHandle,
    Take,
    Tool,
    Workflow,
    WorkflowMessage,
    events,
    operator,
    tool,
)
from operad.runtime import BuiltinWorkflow, Chat, FunctionOperator
from operad.runtime.workflow.event_stream import EventStream


class Claims(BaseModel):
    claims: list[str]


@tool
def search(claim: str) -> str:
    """Look a claim up."""
    return "The moon has no atmosphere to speak of."


@tool(approve=True)
async def delete(path: str, context: RunContext) -> None: ...


facts = Operator("List", id="facts", output=Claims)
names = Operator("List", output=list[str])
check = Operator("Check", tools=[search, len, delete])
kind = Operator("Say", output=Literal["a", "b"])
either = Operator("Say", output=Claims | int)
loose = Operator("Say", output="{claims: [string]}")
answer = Operator("Write")
assert_type(facts, Operator[Claims])
assert_type(names, Operator[list[str]])
assert_type(check, Operator[str])
assert_type(answer, Operator[str])
assert_type(kind, Operator[Literal["a", "b"]])
assert_type(either, Operator[Claims | int])
assert_type(loose, Operator[Any])
assert_type(Operator("Say", output={"type": "string"}), Operator[Any])
assert_type(Workflow(either).run("x").output, Claims | int)


@operator
def bullets(facts: Claims) -> str:
    return "\n".join(f"- {claim}" for claim in facts.claims)


@operator
async def late(facts: Claims) -> int:
    return 1


@operator(ports=["a"])
def triage(job: Job) -> Take[Claims]:
    return Take("a", Claims(claims=[]))


@operator
def words(facts: Claims) -> Iterator[str]:
    yield "a"


@operator
async def later_words(facts: Claims) -> AsyncIterator[str]:
    yield "a"


def plain(x: Claims) -> int:
    return 2


async def later(x: Claims) -> list[int]:
    return [2]


def yielding(x: Claims) -> Iterator[str]:
    yield "a"


async def taking(x: Claims) -> Take[int]:
    return Take("a", 2)


of_text: FunctionOperator[str] = bullets
of_number: FunctionOperator[int] = late
of_claims: FunctionOperator[Claims] = triage
streaming: FunctionOperator[str] = words
streaming = later_words
named = operator(plain, id="named")
assert_type(Workflow(facts >> named).run("x").output, int)
assert_type(bullets(Claims(claims=[])), str)  # calls of an operator have the types of its function
assert_type(triage(Job("x")), Take[Claims])

flow = Workflow(facts >> [check, bullets] >> answer, evaluator=Evaluator("Good."), max_rounds=3)
assert_type(flow, Workflow[str])
assert_type(Workflow(facts).run("x").output, Claims)
assert_type(Workflow(names).run("x").output, list[str])
assert_type(Workflow([facts, names] >> late).run("x").output, int)
assert_type(Workflow(facts >> plain).run("x").output, int)
assert_type(Workflow(facts >> later).run("x").output, list[int])
assert_type(Workflow(facts >> [plain, check]).run("x").output, Any)
assert_type(Workflow([facts, check]).run("x").output, Any)
assert_type(Workflow(triage["a"] >> answer).run("q").output, str)
assert_type(BuiltinWorkflow(facts >> check).run("x").output, str)
assert_type(Workflow(3), Workflow[Any])
assert_type(Workflow(plain), Workflow[int])
assert_type(Workflow(later), Workflow[list[int]])
assert_type(Workflow(yielding), Workflow[str])
assert_type(Workflow(taking), Workflow[int])
assert_type(Workflow(facts >> yielding), Workflow[str])

growing = Workflow(names)
counted = growing.add(plain, after=[names])
growing.add(answer, after=counted)
growing.add(answer, after=plain)
growing.add(answer, after="plain")
growing.add(answer, after=triage["a"])
growing.map(check, over="items", after=names)
assert_type(growing.run("x")[counted], int)  # `output` keeps the type of what the workflow was made of
assert_type(growing.run("x")[plain], int)
assert_type(growing.run("x")[later], list[int])
empty = Workflow()
empty.add(names)
assert_type(empty.run("x").output, Any)

docs: list[str] = []
numbers: dict[str, int] = {}
inputs: dict[str, list[str]] = {"docs": docs}
Workflow(facts).run({"docs": docs, "numbers": numbers, "pair": ("a", 1)})
Workflow(facts).run(inputs)
Workflow(facts).stream(inputs)
assert_type(flow.stream("x"), EventStream[events.Event, str])
assert_type(flow.stream("x", only=events.OperatorFinished), EventStream[events.OperatorFinished, str])
for event in flow.stream("x", only=[events.OperatorFinished, events.OperatorFailed]):
    assert_type(event, events.OperatorFinished | events.OperatorFailed)
Workflow(facts).chat().send(Job("x", inputs=inputs))
Workflow(facts).resume("x", inputs)
Workflow(facts).resume("x", True)

result = flow.run("x")
assert_type(result, Result[str])
assert_type(result.output, str)
assert_type(result[facts], Claims)
assert_type(result[late], int)
assert_type(result["facts"], Any)
assert_type(flow.chat(store="chats.db", memory=8_000), Chat[str])
assert_type(flow.chat("user-42").send("x").output, str)


async def handles() -> None:
    run = flow.start("x")
    await flow.start(inputs).answer(inputs)
    await flow.aresume("x", {"question": docs})
    assert_type(run, RunHandle[str])
    assert_type(await run, Result[str])
    assert_type(await flow.arun({"a": 1}), Result[str])
    assert_type(await flow.chat("user-42").asend("x"), Result[str])


faults = FaultError("x", blame=[facts, plain, "check"]), FaultError("x", blame=facts), FaultError("x", blame=late)
as_lists = WorkflowMessage(blame=["facts"]), Action(name="look up", tools=[search, len])


class Label(Operator):
    """An operator as before the public face."""


label = Label(OperatorConfig(instruction="Write the label.", tools=[search, len]))
assert_type(Workflow(label).run("x").output, Any)


async def _answers_to_questions(context: RunContext) -> None:
    assert_type(await context.ask("Sure?", bool), bool)
    assert_type(await context.ask("Sure?", list[str]), list[str])
    assert_type(await context.ask("Sure?", "boolean"), Any)
    assert_type(await context.ask("Sure?"), Any)
    assert_type(await context.ask("Sure?", Literal["yes", "no"]), Literal["yes", "no"])
    assert_type(await context.ask("Sure?", bool | None), bool | None)


each_plain, each_late, each_facts = Map("each", plain), Map(each=later), Map(each=facts, over="words")
assert_type(each_plain, Map[int])
assert_type(each_late, Map[list[int]])
assert_type(each_facts, Map[Claims])
assert_type(Map(each=Workflow(facts), on_error="skip"), Map[Claims])
assert_type(Map(each=facts, on_error="keep"), Map[Claims | ItemError])
assert_type(Map(each=words), Map[str])
assert_type(growing.map(yielding, over="items"), Map[Any])
assert_type(Workflow(names >> each_facts).run("x").output, list[Claims])
assert_type(result[each_facts], list[Claims])
assert_type(growing.map(facts, over="items"), Map[Claims])
assert_type(growing.map(later, over="items", on_error="keep", concurrency=2), Map[list[int] | ItemError])
assert_type(search("air"), str)  # calls of a tool have the types of its function
assert_type(Tool.of(plain)(Claims(claims=[])), int)
untyped: list[Tool] = [search, delete]


async def _deps(context: RunContext[Claims], without: RunContext) -> None:
    assert_type(context.deps, Claims)
    assert_type(without.deps, Any)
    assert_type(RunContext(deps=1).deps, int)
    await flow.arun("x", deps=facts)
