"""Dependencies of a run: an object that the caller gives, and that functions and tools receive."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from operad import (
    Expert,
    InvalidError,
    Job,
    Map,
    Operator,
    OperatorError,
    PausedError,
    RunContext,
    events,
    operator,
    tool,
)
from operad.runtime import BuiltinWorkflow, Cache, Policy, Profile, Retry
from operad.runtime.durable import Ledger
from operad.runtime.events.run_context import MissingDepsError
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.testing import CallTools, Say, ScriptedModel, ScriptedReasoner


@dataclass
class Session:
    user: str
    seen: list[str] = field(default_factory=list)


@operator
def greet(job: Job, context: RunContext[Session]) -> str:
    return f"hello {context.deps.user}"


@tool
def look_up(order: str, context: RunContext[Session]) -> str:
    """Look an order up."""
    return f"{order} of {context.deps.user}"


@operator
async def nested(context: RunContext[Session]) -> str:
    flow = BuiltinWorkflow(greet, name="inner")
    return f"{(await flow.arun('x')).text}, {(await flow.arun('x', deps=Session('Bob'))).text}"


def per_item(item: str, context: RunContext[Session]) -> str:
    return f"{item} {context.deps.user}"


ADA = Session("Ada")


@pytest.mark.parametrize(
    ("flow", "text"),
    [
        (BuiltinWorkflow(greet), "hello Ada"),
        (BuiltinWorkflow(BuiltinWorkflow(greet, name="inner")), "hello Ada"),
        (BuiltinWorkflow(nested), "hello Ada, hello Bob"),
        (BuiltinWorkflow(Map(each=per_item, over=lambda job: ["a", "b"])), "a Ada\n\nb Ada"),
    ],
)
def test_functions_get_the_deps_also_in_nested_workflows_and_maps(flow, text):
    assert flow.run("x", deps=ADA).text == text


def test_the_chat_of_an_expert_passes_deps_on():
    expert = Expert(Profile(name="Greeter"), BuiltinWorkflow(greet))
    assert expert.chat(deps=ADA).send("x").text == "hello Ada"


@pytest.mark.parametrize("on_error", ["skip", "keep"])
def test_a_map_without_deps_fails_whatever_its_errors_are_to_do(on_error):
    async def nested(item: str) -> str:
        return (await BuiltinWorkflow(greet).arun(item)).text

    flow = BuiltinWorkflow(Map(each=nested, over=lambda job: ["a"], on_error=on_error))
    with pytest.raises(OperatorError, match="this run has none"):
        flow.run("x")


def test_an_evaluator_gets_the_deps():
    def judge(greet: str, context: RunContext[Session]) -> None:
        context.deps.seen.append(greet)

    session = Session("Ada")
    BuiltinWorkflow(greet, evaluator=judge).run("x", deps=session)
    assert session.seen == ["hello Ada"]


def test_an_operator_class_gets_the_deps_in_its_call():
    class Greeter(Operator):
        async def run(self, call):
            return call.deps.user

    assert BuiltinWorkflow(BuiltinWorkflow(Greeter("Greet."), name="inner")).run("x", deps=ADA).text == "Ada"


def _calling(request):
    is_called = request["messages"][-1]["role"] == "tool"
    return Say(request["messages"][-1]["content"]) if is_called else CallTools({"look_up": {"order": "A1"}})


async def test_tools_get_the_deps_in_every_way_to_run():
    with ScriptedModel(_calling) as scripted:
        flow = BuiltinWorkflow(Operator("Answer.", tools=[look_up]), model=scripted.model)
        chat = flow.chat(deps=ADA)
        texts = [
            (await flow.arun("x", deps=ADA)).text,
            (await flow.start("x", deps=ADA)).text,
            [event async for event in flow.stream("x", deps=ADA, only=events.RunFinished)][-1].message.text,
            "".join([piece async for piece in flow.stream_text("x", deps=ADA)]),
            (await chat.asend("x")).text,
            "".join([piece async for piece in chat.stream("x")]),
        ]
    assert texts == ["A1 of Ada"] * 6


def _with_fallback(step):
    flow = BuiltinWorkflow()
    flow.add(step, policy=Policy(fallback="sorry"))
    return flow


@pytest.mark.parametrize(
    ("flow", "who"),
    [
        (BuiltinWorkflow(greet), "greet"),
        (BuiltinWorkflow(BuiltinWorkflow(BuiltinWorkflow(greet, name="inner"), name="outer")), "greet"),
        (BuiltinWorkflow(Map(each=per_item, over=lambda job: ["a"])), "per_item"),
        (BuiltinWorkflow(Operator("Answer.", tools=[look_up], model=ScriptedReasoner(["."]))), "answer"),
        (BuiltinWorkflow(operator(lambda text: text, id="strip"), evaluator=greet), "greet"),
        (_with_fallback(greet), "greet"),
    ],
)
def test_a_run_without_the_deps_that_an_annotation_requires_does_not_start(flow, who):
    heard = []
    flow.add_listener(heard.append)
    with pytest.raises(MissingDepsError) as failed:
        flow.run("x")
    told = f"operator {who!r} takes deps (Session), and this run has none: give them to run, arun, start, stream, chat"
    assert str(failed.value).startswith(told)
    assert heard == []


class _Counted(BaseOperator[str]):
    asked = 0

    def get_id(self) -> str:
        return "counted"

    async def run(self, call):
        return "done"

    @property
    def deps_type(self) -> str:
        self.asked += 1
        return ""

    def inputs_read(self, is_first):
        self.asked += 1
        return ["x"]


def test_the_checks_before_a_run_ask_each_operator_once_per_build():
    outer, nested = _Counted(), _Counted()
    inner = BuiltinWorkflow(nested, name="inner")
    flow = BuiltinWorkflow([outer, inner])
    for _ in range(3):
        flow.run({"x": 1})
    assert (outer.asked, nested.asked) == (2, 2)
    inner.add(greet, after="counted")
    with pytest.raises(MissingDepsError, match="greet"):
        flow.run({"x": 1, "y": 2})
    inner.add(operator(lambda text: text, id="last"), after="missing")
    with pytest.raises(OperatorError, match="inner"):  # of the nested workflow, which an edit broke
        flow.run({"x": 1, "y": 2})


@pytest.mark.parametrize(
    "annotation",
    [
        RunContext,
        RunContext[Session | None],
        "RunContext[Session | None]",
        "RunContext",
        RunContext[None],
        RunContext[Any],
        RunContext[object],
        RunContext[TypeVar("T")],
    ],
)
def test_deps_are_optional_if_the_annotation_says_so(annotation):
    def user(context) -> str:
        return repr(context.deps)

    user.__annotations__["context"] = annotation
    assert BuiltinWorkflow(user).run("x").text == "None"


@pytest.mark.parametrize(
    "annotation", ["RunContext[Session]", "RunContext[Session] | None", RunContext[Session] | None]
)
async def test_the_model_does_not_see_a_context_with_deps(annotation):
    def user(name: str, context) -> str: ...

    user.__annotations__["context"] = annotation
    made = tool(user)
    assert list(made.parameters["properties"]) == ["name"]
    with pytest.raises(MissingDepsError):
        await made.call({"name": "x"})


def test_a_cached_answer_is_not_given_to_a_run_with_other_deps(tmp_path):
    flow = BuiltinWorkflow(greet, policy=Policy(cache=Cache(tmp_path)))
    assert [flow.run("x", deps=Session(user)).text for user in ("Ada", "Bob")] == ["hello Ada", "hello Bob"]


@pytest.mark.parametrize("answer", [True, False])
def test_a_durable_run_needs_its_deps_again_and_uses_no_answer_until_then(tmp_path, answer):
    @operator
    async def confirm(greet: str, context: RunContext[Session]) -> str:
        return f"{greet}: {await context.ask('Sure?', bool)} {context.deps.user}"

    def run(step):
        ledger = Ledger(tmp_path / "runs.db")
        try:
            return step(BuiltinWorkflow(greet >> confirm, durable=ledger))
        finally:
            ledger.close()

    with pytest.raises(PausedError):
        run(lambda flow: flow.run("x", run_id="r", deps=ADA))
    with pytest.raises(MissingDepsError, match="a durable run that is resumed needs them again"):
        run(lambda flow: flow.resume("r", True))
    resumed = run(lambda flow: flow.resume("r", answer, deps=Session("Bob")))
    assert resumed.text == f"hello Ada: {answer} Bob"


def test_a_test_calls_a_function_with_a_context_of_its_own():
    assert look_up("A1", RunContext(deps=ADA)) == "A1 of Ada"


def test_deps_of_resume_replace_those_of_a_run_in_progress_for_what_starts_from_then_on():
    @operator
    async def first(job: Job, context: RunContext[str]) -> str:
        await context.ask("Go on?")
        return context.deps

    @operator
    def second(first: str, context: RunContext[str]) -> str:
        return f"{first} {context.deps}"

    inner = BuiltinWorkflow(first >> second, name="inner")
    flow = BuiltinWorkflow(inner)
    with pytest.raises(PausedError):
        flow.run("x", run_id="1", deps="old")
    assert flow.resume("1", "yes", deps="new").text == "old new"


def test_a_further_attempt_of_a_nested_workflow_gets_the_deps_that_resume_gave():
    seen: list[str] = []

    async def ask(job: Job, context: RunContext[str]) -> str:
        if not seen:
            await context.ask("Go on?")
        return "asked"

    def fails_once(ask: str, context: RunContext[str]) -> str:
        seen.append(context.deps)
        if len(seen) == 1:
            raise ValueError("once")
        return context.deps

    inner = BuiltinWorkflow(operator(ask) >> fails_once, name="inner")
    flow = BuiltinWorkflow()
    flow.add(inner, policy=Policy(retry=Retry(2, on=(Exception,))))
    with pytest.raises(PausedError):
        flow.run("x", run_id="1", deps="old")
    assert flow.resume("1", "yes", deps="new").text == "new"
    assert seen == ["new", "new"]


def test_a_refused_answer_replaces_no_deps():
    async def order(job: Job, context: RunContext[str]) -> str:
        await context.ask("Go on?", "boolean")
        return "asked"

    def of(order: str, context: RunContext[str]) -> str:
        return context.deps

    flow = BuiltinWorkflow(operator(order) >> of)
    with pytest.raises(PausedError):
        flow.run("x", run_id="1", deps="old")
    with pytest.raises(InvalidError):
        flow.resume("1", "perhaps", deps="new")
    assert flow.resume("1", True).text == "old"


@pytest.mark.parametrize("annotation", [RunContext[Callable[[str], None]], "RunContext[dict[str, None]]"])
def test_none_inside_a_type_of_deps_does_not_make_them_optional(annotation):
    def count(context) -> int:
        return 1

    count.__annotations__["context"] = annotation
    with pytest.raises(MissingDepsError, match=r"takes deps \((Callable\[\[str\], None\]|dict\[str, None\])\)"):
        BuiltinWorkflow(count).run("x")


def test_a_fallback_does_not_hide_missing_deps_nor_does_a_tool_that_runs_a_workflow():
    async def greeting(name: str) -> str:
        return (await BuiltinWorkflow(greet).arun(name)).text

    with pytest.raises(OperatorError, match="this run has none"):
        _with_fallback(greeting).run({"name": "x"})

    with ScriptedModel([CallTools({"greeting": {"name": "Ada"}})]) as scripted:
        asking = BuiltinWorkflow(Operator("Greet.", tools=[greeting]), model=scripted.model)
        with pytest.raises(OperatorError, match="this run has none"):
            asking.run("x")


def test_a_durable_run_whose_operator_runs_a_workflow_that_lacks_deps_goes_on_with_them(tmp_path):
    async def nested(job: Job) -> str:
        return (await BuiltinWorkflow(greet).arun(job)).text

    with Ledger(tmp_path / "runs.db") as ledger:
        flow = BuiltinWorkflow(operator(nested, id="nested"), durable=ledger)
        with pytest.raises(OperatorError, match="this run has none"):
            flow.run("x", run_id="1")
        assert flow.run("x", run_id="1", deps=ADA).text == "hello Ada"


@pytest.mark.parametrize("place", ["operator", "workflow", "nested", "second"])
async def test_missing_deps_of_a_fallback_are_an_error_before_anything_runs(place: str):
    ran: list[str] = []

    @operator
    def fails(job: Job) -> str:
        ran.append("fails")
        raise ValueError("no")

    @operator(policy=Policy(fallback=greet))
    def also_fails(job: Job) -> str:
        raise ValueError("no")

    falls_back = Policy(fallback=also_fails if place == "second" else greet)
    failing = operator(fails.function, id="fails", policy=None if place == "workflow" else falls_back)
    flow = BuiltinWorkflow(failing, policy=falls_back if place == "workflow" else None)
    with pytest.raises(MissingDepsError, match="operator 'greet' takes deps"):
        await (BuiltinWorkflow(flow) if place == "nested" else flow).arun("a")
    assert not ran
    assert (await flow.arun("a", deps=Session("Ada"))).text == "hello Ada"
