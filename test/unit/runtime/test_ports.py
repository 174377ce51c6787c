"""Ports and joins, with both engines: which way is taken, what is skipped, and what a join then does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import pytest
from loose_reasoner import LooseReasoner

from operad.operators import Operator, OperatorConfig
from operad.runtime.events import (
    Event,
    OperatorCancelled,
    OperatorFinished,
    OperatorSkipped,
    OperatorStarted,
    RoundStarted,
)
from operad.runtime.graph.edges import Port
from operad.runtime.testing import ScriptedReasoner
from operad.runtime.values.errors import AnswerError, InvalidError, OperatorError, PortError, SkippedError
from operad.runtime.values.message import Job, WorkflowMessage, WorkflowStatus
from operad.runtime.workflow.workflow import BuiltinWorkflow, Workflow

JOB = Job(goal="goal", id="job")
RENDEZVOUS = 10.0
Heard = list[WorkflowMessage]
Work = Callable[[Heard], Awaitable[Any]]


class Say:
    """An operator that says its id and, in brackets, what it heard, and takes ports, the same or others each time."""

    def __init__(self, op_id: str, takes: Any = None, *, ports: tuple[str, ...] = (), work: Work | None = None) -> None:
        self._id, self._work, self.ports = op_id, work, ports
        self._takes = takes if isinstance(takes, list) else [takes]
        self.heard: list[list[str]] = []

    def get_id(self) -> str:
        return self._id

    async def execute(
        self, reasoner: Any, job: Any, workflow_messages: Any = None, previous_expert_outputs: Any = None, lesson=None
    ) -> Any:
        texts = [message.scratchpad for message in workflow_messages]
        self.heard.append(texts)
        if self._work:
            return await self._work(workflow_messages)
        takes = self._takes[min(len(self.heard), len(self._takes)) - 1]
        text = f"{self._id}({' '.join(texts)})" if texts else self._id
        return WorkflowMessage(scratchpad=text, ports=tuple(takes.split()) if isinstance(takes, str) else takes)


class Judge(Say):
    """An evaluator that gives these verdicts, the last one from then on."""

    def __init__(self, *verdicts: WorkflowMessage) -> None:
        async def judge(heard: Heard) -> WorkflowMessage:
            return verdicts[min(len(self.heard), len(verdicts)) - 1]

        super().__init__("judge", work=judge)


PRAISE = WorkflowMessage(evaluation="good")


def fault(*blame: str) -> WorkflowMessage:
    return WorkflowMessage(status=WorkflowStatus.EXECUTION_ERROR, lesson="better", blame=blame)


New = Callable[..., Workflow]


@pytest.fixture
def new(engine: type[Workflow]) -> New:
    """Makes a workflow of ``{id: "parent other.port"}``."""

    def make(
        shape: Mapping[str, str],
        *operators: Any,
        takes: Mapping[str, Any] | None = None,
        joins: Mapping[str, Any] | None = None,
        judge: Judge | None = None,
        **options: Any,
    ) -> Workflow:
        workflow = engine(**options)
        known = {op_id: Say(op_id, (takes or {}).get(op_id)) for op_id in shape}
        known |= {operator.get_id(): operator for operator in operators}
        for op_id, before in shape.items():
            links = [
                Port(known[name], port) if port else known[name]
                for name, _, port in (link.partition(".") for link in before.split())
            ]
            workflow.add_operator(known[op_id], links, join=(joins or {}).get(op_id))
        workflow.set_evaluator(judge)
        return workflow

    return make


async def run(workflow: Workflow, reasoner: Any = None) -> WorkflowMessage:
    return await asyncio.wait_for(workflow.aexecute(JOB, reasoner), RENDEZVOUS)


async def error_of(workflow: Workflow, reasoner: Any = None) -> Exception:
    with pytest.raises(Exception) as caught:
        await run(workflow, reasoner)
    return caught.value


def of(kind: type[Event], events: list[Event]) -> list[str]:
    return [event.operator_id for event in events if isinstance(event, kind)]


BRANCH = {"r": "", "a": "r.yes", "b": "r.no"}
JOINED = {**BRANCH, "c": "a b"}
CHAINS = {"r": "", "a": "r.yes", "a2": "a", "a3": "a2", "b": "r.no", "b2": "b", "c": "a3 b2"}
DIAMOND = {"r": "", "a": "r.yes", "p": "a", "q": "a", "s": "p q", "b": "r.no", "c": "s b"}
NESTED = {"r": "", "s": "r.yes", "a": "s.yes", "b": "s.no", "c": "r.no", "d": "a b c"}
SIDE = {"r": "", "a": "r.yes", "b": "r"}


# Which way is taken


@pytest.mark.parametrize(
    ("shape", "takes", "joins", "said"),
    [
        pytest.param(BRANCH, {"r": "yes"}, {}, "a(r)", id="one branch of two is the result"),
        pytest.param(BRANCH, {"r": "yes no"}, {}, "a(r)\n\nb(r)", id="several ports taken"),
        pytest.param(BRANCH, {"r": None}, {}, "a(r)\n\nb(r)", id="a message that names no ports takes all"),
        pytest.param(JOINED, {"r": "yes"}, {}, "c(a(r))", id="branch and join"),
        pytest.param(JOINED, {"r": "no"}, {}, "c(b(r))", id="branch and join, the other way"),
        pytest.param(JOINED, {"r": None}, {}, "c(a(r) b(r))", id="both ways joined in order of the edges"),
        pytest.param(CHAINS, {"r": "no"}, {}, "c(b2(b(r)))", id="skipping spreads through a chain"),
        pytest.param(CHAINS, {"r": "yes"}, {}, "c(a3(a2(a(r))))", id="and through a shorter one"),
        pytest.param(DIAMOND, {"r": "no"}, {}, "c(b(r))", id="skipping spreads through a diamond"),
        pytest.param(DIAMOND, {"r": "yes"}, {}, "c(s(p(a(r)) q(a(r))))", id="a diamond beside a skipped branch"),
        pytest.param(NESTED, {"r": "yes", "s": "no"}, {}, "d(b(s(r)))", id="a router behind a router"),
        pytest.param(NESTED, {"r": "no", "s": "no"}, {}, "d(c(r))", id="a skipped router skips both its ways"),
        pytest.param(SIDE, {"r": ()}, {}, "b(r)", id="an edge without a port is taken in any case"),
        pytest.param(SIDE, {"r": "yes"}, {}, "a(r)\n\nb(r)", id="beside one with a port"),
        pytest.param({"r": "", "a": "r.x r.y"}, {"r": "y"}, {}, "a(r)", id="an edge from two ports takes either"),
        pytest.param({"r": "", "a": "r.x r.y"}, {"r": "x y"}, {}, "a(r)", id="and is one edge if both are taken"),
        pytest.param({"r": "", "a": "r.x r", "b": "r.y"}, {"r": "y"}, {}, "a(r)\n\nb(r)", id="with and without a port"),
        pytest.param({"r": "", "a": "r r.x", "b": "r.y"}, {"r": "y"}, {}, "a(r)\n\nb(r)", id="in either order"),
        pytest.param({"r": "", "a": "r"}, {"r": "x"}, {}, "a(r)", id="ports that no edge leaves from don't matter"),
        pytest.param({"r": "", "a": "r.x", "b": "a r"}, {"r": ()}, {}, "b(r)", id="a short cut past what is skipped"),
        pytest.param(JOINED, {"r": None}, {"c": "all"}, "c(a(r) b(r))", id="all, when all ran"),
        pytest.param(
            {**JOINED, "d": "c r"}, {"r": "yes"}, {"c": "all"}, "d(r)", id="all is skipped with one before it"
        ),
        pytest.param({**JOINED, "d": "c a"}, {"r": "yes"}, {"c": "all"}, "d(a(r))", id="and so is what follows it"),
        pytest.param(JOINED, {"r": "yes"}, {"c": "any"}, "c(a(r))", id="any, when one is skipped"),
        pytest.param(
            {**JOINED, "d": "c r"}, {"r": ()}, {"c": "any"}, "d(r)", id="any is skipped when all before it are"
        ),
        pytest.param({**JOINED, "d": "c r"}, {"r": ()}, {}, "d(r)", id="all_done is skipped when all before it are"),
        pytest.param({"a": "", "b": "a"}, {}, {"a": "all", "b": "any"}, "b(a)", id="joins of one or none"),
        pytest.param(
            {"r": "", "s": "", "a": "r.yes s.yes"}, {"r": "yes", "s": ()}, {}, "a(r)", id="two routers, one takes it"
        ),
        pytest.param(
            {"r": "", "s": "", "a": "r.yes s.yes", "b": "s"},
            {"r": "yes", "s": ()},
            {"a": "all"},
            "b(s)",
            id="two routers, and both must take it",
        ),
    ],
)
async def test_the_way_that_is_taken(
    new: New, shape: Mapping[str, str], takes: Mapping[str, Any], joins: Mapping[str, str], said: str
) -> None:
    assert (await run(new(shape, takes=takes, joins=joins))).scratchpad == said


async def test_of_several_tails_those_that_ran_are_joined(new: New) -> None:
    message = await run(new({"r": "", "a": "r.x", "b": "r.y", "c": "r.z"}, takes={"r": "x z"}))

    assert [part.operator_id for part in message.parts] == ["a", "c"]
    assert message.outputs == {"a": "a(r)", "c": "c(r)"}


async def test_one_tail_that_ran_is_the_result_itself(new: New) -> None:
    message = await run(new(BRANCH, takes={"r": "no"}))

    assert (message.operator_id, message.parts) == ("b", ())


async def test_an_evaluator_hears_the_tails_that_ran(new: New) -> None:
    judge = Judge(PRAISE)

    message = await run(new(BRANCH, takes={"r": "no"}, judge=judge))

    assert judge.heard == [["b(r)"]]
    assert (message.scratchpad, message.evaluation) == ("b(r)", "good")


async def test_an_operator_that_passes_a_message_on_takes_all_its_own_ports(new: New) -> None:
    async def pass_on(heard: Heard) -> WorkflowMessage:
        return heard[0]

    shape = {"r": "", "s": "r.yes", "a": "s.left", "b": "s.right"}

    message = await run(new(shape, Say("s", work=pass_on), takes={"r": "yes"}))

    assert [part.scratchpad for part in message.parts] == ["a(r)", "b(r)"]


async def test_so_does_the_first_operator_of_a_workflow_inside(new: New) -> None:
    async def pass_on(heard: Heard) -> WorkflowMessage:
        return heard[0]

    inner = new({"s": ""}, Say("s", work=pass_on), name="inner")
    shape = {"r": "", "inner": "r.yes", "a": "inner.left", "b": "inner.right"}

    message = await run(new(shape, inner, takes={"r": "yes"}))

    assert [part.scratchpad for part in message.parts] == ["a(r)", "b(r)"]


async def test_of_ten_thousand_operators_in_a_chain_all_are_skipped_without_recursion() -> None:
    router, workflow = Say("r", takes=()), BuiltinWorkflow()
    workflow.add_operator(router)
    workflow.add_operator(Say("0"), [Port(router, "x")])
    for n in range(1, 10_000):
        workflow.add_operator(Say(str(n)), [workflow.get_operator(str(n - 1)) or router])
    workflow.add_operator(Say("end"), [router])

    assert (await run(workflow)).scratchpad == "end(r)"


# When it can't be


async def test_a_workflow_of_which_every_tail_was_skipped_says_which_port_did_it(new: New) -> None:
    error = await error_of(new({"r": "", "a": "r.yes", "b": "a", "c": "b"}, takes={"r": ()}, name="w"))

    assert isinstance(error, SkippedError)
    assert str(error) == (
        "workflow 'w' has no result: every tail was skipped, 'c' because 'r' took no port, not 'yes'; "
        "add an operator for that case, or a tail that always runs"
    )


async def test_it_says_so_of_each_tail(new: New) -> None:
    shape = {"r": "", "go": "r.go", "s": "r", "a": "r.x", "b": "a", "c": "s.y s.z", "d": "go c"}

    error = await error_of(new(shape, takes={"r": "go", "s": ()}, joins={"d": "all"}))

    assert isinstance(error, SkippedError)
    assert "'b' because 'r' took port 'go', not 'x'" in str(error)
    assert "'d' because 's' took no port, not 'y' or 'z'" in str(error)


async def test_an_evaluator_is_skipped_with_all_that_it_would_judge(new: New) -> None:
    judge = Judge(PRAISE)

    error = await error_of(new({"r": "", "a": "r.x"}, takes={"r": ()}, judge=judge))

    assert isinstance(error, SkippedError)
    assert not judge.heard


@pytest.mark.parametrize("ports", [("yes", "no"), ()], ids=["declared", "of edges"])
async def test_a_port_that_an_operator_does_not_have_is_an_error_when_it_takes_it(
    new: New, ports: tuple[str, ...]
) -> None:
    error = await error_of(new(BRANCH, Say("r", takes="yess", ports=ports)))

    assert isinstance(error, OperatorError)
    assert error.operator_id == "r"
    assert isinstance(error.__cause__, PortError)
    assert "'yess'" in str(error)
    assert "did you mean 'yes'?" in str(error)


async def test_a_port_that_is_declared_needs_no_edge(new: New) -> None:
    message = await run(new(SIDE, Say("r", takes="no", ports=("yes", "no"))))

    assert message.scratchpad == "b(r)"


async def test_an_edge_from_a_port_that_is_not_declared_is_found_at_the_build(new: New) -> None:
    error = await error_of(new({"r": "", "a": "r.yess", "b": "r.no"}, Say("r", ports=("yes", "no"))))

    assert isinstance(error, InvalidError)
    assert [(issue.code, issue.where) for issue in error.issues] == [("unknown-port", "a")]
    assert "operator 'r' has no port 'yess' (did you mean 'yes'?); it has: yes, no" in str(error)


async def test_every_unknown_port_is_found_at_once(new: New) -> None:
    error = await error_of(new({"r": "", "a": "r.x r.y", "b": "r.z"}, Say("r", ports=("yes", "no"))))

    assert isinstance(error, InvalidError)
    assert [issue.where for issue in error.issues] == ["a", "a", "b"]


async def test_an_edge_from_a_port_of_a_stranger_is_an_edge_from_a_stranger(new: New) -> None:
    workflow = new({"a": ""})
    workflow.add_operator(Say("b"), [Port(Say("elsewhere"), "x")])

    error = await error_of(workflow)

    assert isinstance(error, InvalidError)
    assert [(issue.code, issue.where) for issue in error.issues] == [("unknown-operator", "b")]


# Joins that can never run


def router(op_id: str, *ports: str) -> Operator:
    return Operator(OperatorConfig(id=op_id, instruction=op_id, ports=ports))


@pytest.mark.parametrize(
    ("shape", "joins", "where"),
    [
        pytest.param(JOINED, {"c": "all"}, ["c"], id="all of two ways"),
        pytest.param(CHAINS, {"c": "all"}, ["c"], id="at the ends of chains"),
        pytest.param(JOINED, {"c": "all_done"}, [], id="all_done"),
        pytest.param(JOINED, {"c": "any"}, [], id="any"),
        pytest.param({**JOINED, "d": "c"}, {"c": "all", "d": "all"}, ["c"], id="named once, not with all after it"),
        pytest.param({**BRANCH, "c": "a r.yes"}, {"c": "all"}, [], id="the same way twice"),
        pytest.param({**BRANCH, "c": "a r.no"}, {"c": "all"}, ["c"], id="a way and the other port"),
        pytest.param({**BRANCH, "m": "a b", "c": "m a"}, {"c": "all"}, [], id="all of a join that runs either way"),
        pytest.param({**BRANCH, "m": "a b", "c": "m b"}, {"c": "all"}, [], id="and of the other way"),
        pytest.param({"r": "", "a": "r.yes r.no", "b": "r.no", "c": "a b"}, {"c": "all"}, [], id="ways that overlap"),
        pytest.param(
            {"r": "", "s": "r.yes", "a": "s.yes", "b": "r.no", "c": "a b"}, {"c": "all"}, ["c"], id="by way of another"
        ),
    ],
)
def test_a_join_that_can_never_run_is_found(
    new: New, shape: Mapping[str, str], joins: Mapping[str, str], where: list[str]
) -> None:
    routers = [router(op_id, "yes", "no") for op_id in "rs" if op_id in shape]

    issues = new(shape, *routers, joins=joins).graph().check()

    assert [(issue.code, issue.where) for issue in issues] == [("never-runs", node) for node in where]


async def test_it_is_found_when_the_workflow_is_built_and_says_what_to_do(new: New) -> None:
    error = await error_of(new(JOINED, router("r", "yes", "no"), joins={"c": "all"}))

    assert isinstance(error, InvalidError)
    assert "'r' would have to take different ports at once; use join='all_done' or 'any'" in str(error)


async def test_all_of_two_ways_is_fine_for_an_operator_that_may_take_both(new: New) -> None:
    workflow = new(JOINED, Say("r", takes="yes no", ports=("yes", "no")), joins={"c": "all"})

    assert (await run(workflow)).scratchpad == "c(a(r) b(r))"


# The first


def slow(op_id: str, until: asyncio.Event, left: list[str], *, clean_up: float = 0.0) -> Say:
    async def work(heard: Heard) -> str:
        try:
            await until.wait()
        finally:
            await asyncio.sleep(clean_up)
            left.append(op_id)
        return op_id

    return Say(op_id, work=work)


async def test_who_lost_is_cancelled_and_has_cleaned_up_before_the_run_returns(new: New) -> None:
    left: list[str] = []
    heard: list[Event] = []
    shape = {"a": "", "b": "", "after": "a", "c": "after b"}
    loser = slow("a", asyncio.Event(), left, clean_up=0.02)

    message = await run(new(shape, loser, joins={"c": "any"}, listeners=[heard.append]))

    assert message.scratchpad == "c(b)"
    assert left == ["a"]
    assert of(OperatorCancelled, heard) == ["a"]
    assert of(OperatorSkipped, heard) == []
    assert "after" not in of(OperatorStarted, heard)


async def test_who_lost_goes_on_as_long_as_the_run_does(new: New) -> None:
    won, left = asyncio.Event(), list[str]()
    loser = slow("a", won, left)

    async def last(heard: Heard) -> str:
        won.set()
        await asyncio.sleep(0.02)
        return f"d({heard[0].scratchpad})"

    last_one = Say("d", work=last)
    heard: list[Event] = []
    shape = {"a": "", "b": "", "c": "a b", "d": "c"}

    message = await run(new(shape, loser, last_one, joins={"c": "any"}, listeners=[heard.append]))

    assert message.scratchpad == "d(c(b))"
    assert sorted(of(OperatorFinished, heard)) == ["a", "b", "c", "d"]
    assert of(OperatorStarted, heard).count("c") == 1


async def test_an_operator_that_raises_before_a_race_is_won_fails_the_run(new: New) -> None:
    async def fail(heard: Heard) -> str:
        raise LookupError("nothing found")

    never, left = asyncio.Event(), list[str]()

    error = await error_of(
        new({"a": "", "b": "", "c": "a b"}, slow("a", never, left), Say("b", work=fail), joins={"c": "any"})
    )

    assert isinstance(error.__cause__, LookupError)
    assert left == ["a"]


async def test_who_fails_while_it_is_cancelled_for_having_lost_does_not_fail_the_run(new: New) -> None:
    async def grumble(heard: Heard) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            raise LookupError("not now")

    message = await run(new({"a": "", "b": "", "c": "a b"}, Say("a", work=grumble), joins={"c": "any"}))

    assert message.scratchpad == "c(b)"


async def test_nothing_starts_after_one_that_lost_and_would_not_stop(new: New) -> None:
    async def stubborn(heard: Heard) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done all the same"
        return ""

    after = Say("after")

    message = await run(
        new({"a": "", "b": "", "after": "a", "c": "after b"}, Say("a", work=stubborn), after, joins={"c": "any"})
    )

    assert message.scratchpad == "c(b)"
    assert not after.heard


async def test_any_waits_past_those_that_are_skipped(new: New) -> None:
    go, left = asyncio.Event(), list[str]()
    workflow = new({"r": "", "a": "r.x", "b": "", "c": "a b"}, slow("b", go, left), takes={"r": ()}, joins={"c": "any"})
    running = asyncio.ensure_future(run(workflow))
    await asyncio.sleep(0.01)
    assert not running.done()

    go.set()

    assert (await running).scratchpad == "c(b)"


async def test_what_still_runs_when_every_tail_has_been_skipped_is_cancelled(new: New) -> None:
    left: list[str] = []

    async def take_none(heard: Heard) -> WorkflowMessage:
        await asyncio.sleep(0.01)
        return WorkflowMessage(ports=())

    operators = Say("r", work=take_none), slow("slow", asyncio.Event(), left)

    error = await error_of(new({"r": "", "slow": "", "c": "r.x slow"}, *operators, joins={"c": "all"}))

    assert isinstance(error, SkippedError)
    assert left == ["slow"]


# Events


async def test_events_tell_what_was_skipped_and_why(new: New) -> None:
    heard: list[Event] = []

    await run(new(CHAINS, takes={"r": "no"}, listeners=[heard.append]))

    skips = [event for event in heard if isinstance(event, OperatorSkipped)]
    assert [(skip.path, skip.reason, skip.round) for skip in skips] == [
        (("a",), "'r' took port 'no', not 'yes'", 1),
        (("a2",), "'r' took port 'no', not 'yes'", 1),
        (("a3",), "'r' took port 'no', not 'yes'", 1),
    ]
    assert of(OperatorStarted, heard) == ["r", "b", "b2", "c"]


async def test_skipped_operators_inside_a_workflow_bear_its_path(new: New) -> None:
    heard: list[Event] = []
    inner = new({"r": "", "a": "r.yes", "b": "r"}, takes={"r": ()}, name="inner")
    outer = new({}, listeners=[heard.append])
    outer.add_operator(inner)

    await run(outer)

    assert [event.path for event in heard if isinstance(event, OperatorSkipped)] == [("inner", "a")]


# Rounds


async def test_a_router_that_is_blamed_may_go_another_way_in_the_next_round(new: New) -> None:
    heard: list[Event] = []
    judge = Judge(fault("r"), PRAISE)
    router, a, b = Say("r", takes=["yes", "no"]), Say("a"), Say("b")

    message = await run(new(JOINED, router, a, b, judge=judge, max_rounds=2, listeners=[heard.append]))

    assert message.scratchpad.startswith("c(b(")
    assert (len(a.heard), len(b.heard)) == (1, 1)
    assert [(event.operator_id, event.round) for event in heard if isinstance(event, OperatorSkipped)] == [
        ("b", 1),
        ("a", 2),
    ]


async def test_what_was_skipped_stays_skipped_while_its_router_is_kept(new: New) -> None:
    heard: list[Event] = []
    skipped, b = Say("a"), Say("b")
    shape = {**JOINED, "x": "a"}
    judge = Judge(fault("b"), PRAISE)

    await run(new(shape, skipped, b, takes={"r": "no"}, judge=judge, max_rounds=2, listeners=[heard.append]))

    assert (len(skipped.heard), len(b.heard)) == (0, 2)
    assert [event.operators for event in heard if isinstance(event, RoundStarted)][1] == ("b", "c")


async def test_blaming_what_was_skipped_does_not_make_it_run(new: New) -> None:
    skipped, taken = Say("a"), Say("b")

    message = await run(new(BRANCH, skipped, taken, takes={"r": "no"}, judge=Judge(fault("a"), PRAISE), max_rounds=2))

    assert (len(skipped.heard), len(taken.heard)) == (0, 1)
    assert message.evaluation == "good"


async def test_every_tail_may_be_skipped_in_a_later_round(new: New) -> None:
    message = await run(
        new(BRANCH, Say("r", takes=["yes", ()]), judge=Judge(fault("r"), PRAISE), max_rounds=2, name="w")
    )

    assert message.status is WorkflowStatus.EXECUTION_ERROR
    assert "'a' because 'r' took no port, not 'yes'; 'b' because 'r' took no port, not 'no'" in message.evaluation
    assert message.evaluation.endswith("None of 2 rounds succeeded; this is round 1.")


async def test_who_lost_a_race_does_not_run_in_a_later_round_that_is_not_about_it(new: New) -> None:
    heard: list[Event] = []
    loser = slow("a", asyncio.Event(), [])
    shape = {"a": "", "b": "", "c": "a b", "d": "c"}

    await run(
        new(shape, loser, joins={"c": "any"}, judge=Judge(fault("d"), PRAISE), max_rounds=2, listeners=[heard.append])
    )

    assert [event.operators for event in heard if isinstance(event, RoundStarted)][1] == ("d",)
    assert len(loser.heard) == 1


async def test_who_lost_a_race_runs_again_when_the_race_is_run_again_in_a_later_round(new: New) -> None:
    """The winner's way is not taken in round 3; who lost in round 1, and was out of it in round 2, takes its place."""
    loser = slow("a", lost := asyncio.Event(), [])
    shape = {"r": "", "b": "r.x", "a": "", "c": "a b", "d": "r"}

    async def judge(heard: Heard) -> WorkflowMessage:
        if len(verdicts) == 2:
            lost.set()
        return verdicts.pop(0)

    verdicts = [fault("d"), fault("r"), PRAISE]
    evaluator = Say("judge", work=judge)
    workflow = new(shape, Say("r", takes=["x", ()]), loser, joins={"c": "any"}, max_rounds=3)
    workflow.set_evaluator(evaluator)

    await run(workflow)

    assert evaluator.heard[0][0].startswith("c(b(r))")
    assert evaluator.heard[2][0].startswith("c(a)")


# Operators that choose


def chosen(**config: Any) -> dict[str, Any]:
    return {"id": "r", "instruction": "Which way?", "ports": ("yes", "no"), **config}


@pytest.mark.parametrize(
    ("answer", "config", "text", "outputs"),
    [
        pytest.param('{"port": "no"}', {}, "no", {}, id="JSON"),
        pytest.param("no", {}, "no", {}, id="one word"),
        pytest.param(" no\n", {}, "no", {}, id="one word with space around it"),
        pytest.param('Well:\n```json\n{"port": "no"}\n```', {}, "no", {}, id="JSON amid prose"),
        pytest.param(
            '{"answer": "Not today.", "port": "no"}', {"output_schema": "One sentence."}, "Not today.", {}, id="words"
        ),
        pytest.param(
            '{"why": "late", "port": "no"}',
            {"output_schema": "{why: string}"},
            '{"why": "late"}',
            {"why": "late"},
            id="an object",
        ),
        pytest.param(
            '{"answer": ["a", "b"], "port": "no"}',
            {"output_schema": "[string]"},
            '["a", "b"]',
            {"output": ["a", "b"]},
            id="a list",
        ),
    ],
)
async def test_an_operator_with_ports_takes_the_one_that_the_reasoner_chooses(
    new: New, answer: str, config: dict[str, Any], text: str, outputs: dict[str, Any]
) -> None:
    heard: list[Event] = []
    operator = Operator(OperatorConfig(**chosen(**config)))

    message = await run(new(BRANCH, operator, listeners=[heard.append]), LooseReasoner(answer))

    said = next(event.message for event in heard if isinstance(event, OperatorFinished))
    assert message.operator_id == "b"
    assert (said.ports, said.scratchpad, said.outputs) == (("no",), text, outputs)


@pytest.mark.parametrize(
    ("answer", "config"),
    [
        ("perhaps", {}),
        ('{"port": "perhaps"}', {}),
        ("{}", {}),
        ('{"port": ["yes", "no"]}', {}),
        ('{"why": true, "port": "no"}', {"output_schema": "{why: string}"}),
        ('{"port": "no"}', {"output_schema": "{why: string}"}),
        ("no", {"output_schema": "{why: string}"}),
        ('{"port": "no"}', {"output_schema": "[string]"}),
        ("no", {"output_schema": "[string]"}),
        ('{"port": "no"}', {"output_schema": "One sentence."}),
    ],
)
async def test_a_wrong_choice_is_an_answer_error(new: New, answer: str, config: dict[str, Any]) -> None:
    operator = Operator(OperatorConfig(**chosen(**config)))

    error = await error_of(new(BRANCH, operator), LooseReasoner(answer))

    assert isinstance(error, OperatorError)
    assert isinstance(error.__cause__, AnswerError)


@pytest.mark.parametrize("output_schema", ["", "One sentence.", "{why: string}", "[string]"])
async def test_the_task_asks_for_a_port(output_schema: str) -> None:
    reasoner = ScriptedReasoner('{"port": "no", "why": "", "answer": []}')
    operator = Operator(OperatorConfig(**chosen(output_schema=output_schema)))

    with suppress(AnswerError):  # no answer fits them all
        await operator.execute(reasoner, JOB)

    schema = reasoner.tasks[0].output_schema.schema or {}
    assert schema["properties"]["port"]["enum"] == ["yes", "no"]
    assert "port" in schema["required"]
    assert ("why" in schema["properties"]) == ("why" in output_schema)


@pytest.mark.parametrize("ports", [("yes", "yes"), ("",), (" ",)], ids=["twice", "no name", "blank"])
def test_ports_need_names_each_its_own(ports: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="ports must have distinct, non-empty names"):
        OperatorConfig(instruction="x", ports=ports)


async def test_a_workflow_inside_takes_the_ports_of_the_message_that_comes_of_it(new: New) -> None:
    inner = new({"x": "", "r": "x"}, takes={"r": "no"}, name="inner")
    outer = new({})
    a, b = Say("a"), Say("b")
    outer.add_operator(inner)
    outer.add_operator(a, [Port(inner, "yes")])
    outer.add_operator(b, [Port(inner, "no")])

    assert (await run(outer)).scratchpad == "b(r(x))"


async def test_an_edge_from_a_port_of_an_operator_that_declares_none_and_takes_one_is_found_at_the_build() -> None:
    plain = Operator(OperatorConfig(id="triage", instruction="Decide."))
    workflow = BuiltinWorkflow()
    workflow.add_operator(plain)
    workflow.add_operator(Operator(OperatorConfig(id="a", instruction="Do.")), [Port(plain, "refund")])

    with pytest.raises(InvalidError, match=r"\[unknown-port\] a: operator 'triage' has no port 'refund'; it has: none"):
        await run(workflow)
