"""Rounds: who is blamed runs again with all that depends on it, and nothing else ever runs twice."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from amounts import examples
from hypothesis import given
from hypothesis import strategies as st

from operad.runtime import (
    AnswerError,
    Budget,
    BudgetError,
    BuiltinWorkflow,
    Cache,
    DbgptWorkflow,
    FaultError,
    InputError,
    InvalidError,
    Issue,
    Job,
    Map,
    MissingExtraError,
    ModelError,
    OperadError,
    OperatorError,
    OperatorTimeoutError,
    PausedError,
    Policy,
    Port,
    PortError,
    Retry,
    RunningLoopError,
    Timeout,
    Usage,
    WorkflowMessage,
    WorkflowStatus,
    events,
    interrupt,
    transcript,
)
from operad.runtime.testing import ScriptedReasoner, run_on_fake_clock
from operad.runtime.workflow.verdict import join_verdicts

JOB = Job(goal="goal", id="job")
NOBODY = ScriptedReasoner([])
ENGINES = [BuiltinWorkflow, DbgptWorkflow]
ERROR = WorkflowStatus.EXECUTION_ERROR
INPUT = WorkflowStatus.INPUT_DATA_ERROR
TOO_MUCH = WorkflowStatus.JOB_TOO_COMPLICATED_ERROR
SUCCESS = WorkflowStatus.SUCCESS


@dataclass(frozen=True)
class Call:
    """How often an operator has been called, this time included, and with what."""

    number: int
    messages: list[WorkflowMessage]
    lesson: str | None
    job: Job = JOB


class Do:
    """An operator that says its id and how often it was called; or does what it is given to do with its `Call`."""

    def __init__(self, op_id, work=None):
        self._id = op_id
        self._work = work
        self.calls: list[Call] = []
        self.instruction = ""

    def get_id(self):
        return self._id

    @property
    def lessons(self):
        return [call.lesson for call in self.calls]

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        call = Call(len(self.calls) + 1, workflow_messages or [], lesson, job)
        self.calls.append(call)
        if self._work is None:
            return f"{self._id}{call.number}"
        said = self._work(call)
        return await said if inspect.isawaitable(said) else said


def fault(*blame, lesson="Do better.", status=ERROR, score=None):
    return WorkflowMessage(status=status, evaluation="bad", lesson=lesson, blame=blame, score=score)


PRAISE = WorkflowMessage(evaluation="good")


def judge(*verdicts, id="judge"):
    """Says these in turn; an error is raised."""

    def work(call):
        said = verdicts[call.number - 1]
        if isinstance(said, Exception):
            raise said
        return said

    return Do(id, work)


def failing(op_id, *errors):
    """Raises these in turn, and then says what any other says."""

    def work(call):
        if call.number <= len(errors):
            raise errors[call.number - 1]
        return f"{op_id}{call.number}"

    return Do(op_id, work)


def stable_name(op_id, seconds):
    async def work(call):
        await asyncio.sleep(seconds)
        return f"{op_id}{call.number}"

    return Do(op_id, work)


async def for_ever(call):
    await asyncio.Event().wait()


class World:
    """A workflow, given as ``{id: ids before it}``, with its operators and what was heard of its runs."""

    def __init__(self, engine, shape, *operators, judges=(), any_of=(), **options):
        self.heard: list[Any] = []
        self.workflow = engine(listeners=[self.heard.append], **options)
        known = {operator.get_id(): operator for operator in operators}
        self.of = {op_id: known.get(op_id) or Do(op_id) for op_id in shape}
        for op_id, before in shape.items():
            join = "any" if op_id in any_of else None
            self.workflow.add_operator(self.of[op_id], [self.of[previous] for previous in before], join=join)
        for evaluator in judges:
            self.workflow.add_evaluator(evaluator)

    def run(self, **options):
        return run_on_fake_clock(self.workflow.aexecute(JOB, NOBODY, **options))

    def fails(self, error: Any = OperatorError) -> Any:
        with pytest.raises(error) as raised:
            self.run()
        return raised.value

    @property
    def counts(self):
        return {op_id: len(operator.calls) for op_id, operator in self.of.items() if operator.calls}

    def said(self, kind) -> list[Any]:
        return [event for event in self.heard if isinstance(event, kind)]


def after(graph, nodes):
    """The nodes, and all that depends on them."""
    found = set(nodes)
    for node, before in graph.items():
        if found & set(before):
            found.add(node)
    return found


def repaired(graph, verdicts):
    """For each verdict, the nodes at fault and the suspected ones: all if nobody is blamed; predecessors of those that
    are blamed in one more round, as far back as they were repaired in vain.
    """
    times: dict[Any, int] = {}
    for blamed in verdicts:
        times = {node: times.get(node, 0) + 1 for node in blamed}
        found = set(blamed) or set(graph)
        for node in blamed:
            behind = {node}
            for _ in range(times[node] - 1):
                behind = {parent for each in behind for parent in graph[each]}
                found |= behind
        yield found


CHAIN = {"a": "", "b": "a", "c": "b"}
DIAMOND = {"a": "", "b": "a", "c": "a", "d": "bc"}
SIX = {"a": "", "b": "a", "c": "b", "d": "c", "e": "a", "f": "de"}


# Blame


@pytest.mark.parametrize(
    ("blame", "again"),
    [
        pytest.param("a", "abcdef", id="the head"),
        pytest.param("c", "cdf", id="one in the middle"),
        pytest.param("f", "f", id="the tail"),
        pytest.param("ce", "cdef", id="two"),
        pytest.param("", "abcdef", id="nobody"),
    ],
)
def test_the_blamed_and_all_that_depends_on_them_run_again_and_nothing_else_does(engine, blame, again):
    judging = judge(fault(*blame), PRAISE)
    world = World(engine, SIX, judges=[judging], max_rounds=9)

    message = world.run()

    assert (message.status, message.scratchpad) == (SUCCESS, "f2")
    assert world.counts == {op_id: 2 if op_id in again else 1 for op_id in SIX}
    assert len(judging.calls) == 2
    assert [e.operators for e in world.said(events.RoundStarted)] == [tuple(SIX), tuple(again)]


def test_who_is_blamed_in_vain_is_repaired_with_its_predecessors_and_then_with_theirs(engine):
    judging = judge(*[fault("f")] * 4, PRAISE)
    world = World(engine, SIX, judges=[judging], max_rounds=9)

    assert world.run().scratchpad == "f5"

    assert [e.operators for e in world.said(events.RoundStarted)][1:] == [
        ("f",), ("d", "e", "f"), tuple("abcdef"), tuple("abcdef")
    ]  # fmt: skip
    again = "an operator after it was at fault again"
    assert [e.repairs for e in world.said(events.RoundFinished)] == [
        {}, dict.fromkeys("de", again), dict.fromkeys("deac", again), dict.fromkeys("deacb", again), {}
    ]  # fmt: skip


@st.composite
def graphs(draw, most=9):
    """``{number: numbers before it}``."""
    size = draw(st.integers(1, most))
    return {n: sorted(draw(st.sets(st.integers(0, n - 1), max_size=3))) if n else [] for n in range(size)}


def napping(graph, naps, **work):
    """Operators that sleep, and then do what is said of them."""

    def of(node):
        async def do(call):
            await asyncio.sleep(naps[node % len(naps)])
            return work["then"](node, call) or f"{node}@{call.number}"

        return Do(str(node), do)

    return [of(node) for node in graph]


def world_of(engine, graph, naps, judges=(), **options):
    then = options.pop("then", lambda node, call: None)
    shape = {str(node): [str(previous) for previous in before] for node, before in graph.items()}
    return World(engine, shape, *napping(graph, naps, then=then), judges=judges, **options)


NAPS = st.lists(st.integers(0, 3), min_size=1, max_size=5)


@examples(25, 60)
@given(graphs(), st.data(), NAPS)
def test_in_each_round_the_blamed_the_suspected_and_their_descendants_run_with_their_own_lessons(graph, data, naps):
    some = st.sets(st.sampled_from(sorted(graph)), max_size=3)
    once, blame = data.draw(some), data.draw(st.lists(some, min_size=1, max_size=2))
    blame = data.draw(st.permutations([*blame, *[once] * data.draw(st.integers(0, 2))]))  # some blame is repeated
    first = [*repaired(graph, blame)]
    for engine in ENGINES:
        faults = [fault(*map(str, sorted(blamed)), lesson=f"{n}") for n, blamed in enumerate(blame)]
        world = world_of(engine, graph, naps, [judge(*faults, PRAISE)], max_rounds=len(blame) + 2)

        assert world.run().status is SUCCESS

        again = [after(graph, nodes) for nodes in first]
        ran = [set(map(int, event.operators)) for event in world.said(events.RoundStarted)]
        assert ran == [set(graph), *again]
        assert world.counts == {str(node): 1 + sum(node in nodes for nodes in again) for node in graph}
        for node in graph:
            told: list[str] = []
            lessons: list[str | None] = [None]
            for number, nodes in enumerate(first):
                told += [f"{number}"] if node in nodes else []
                lessons += ["\n".join(told) or None] if node in again[number] else []
            assert world.of[str(node)].lessons == lessons


@examples(25, 60)
@given(graphs(), st.data(), st.integers(1, 3), NAPS)
def test_of_operators_that_fail_at_first_each_is_tried_again_and_nothing_that_succeeded_is(graph, data, times, naps):
    broken = data.draw(st.sets(st.sampled_from(sorted(graph)), min_size=1, max_size=3))

    def then(node, call):
        if node in broken and call.number <= times:
            raise ValueError(f"{node} failed")

    for engine in ENGINES:
        world = world_of(engine, graph, naps, max_rounds=len(broken) * times + 1, then=then)

        world.run()

        assert world.counts == {str(node): times + 1 if node in broken else 1 for node in graph}
        assert all(event.blame for event in world.said(events.RoundFinished)[:-1])


@examples(25, 60)
@given(graphs(), st.data(), st.integers(1, 3), NAPS)
def test_an_operator_that_blames_an_earlier_one_makes_it_and_its_successors_run_again(graph, data, times, naps):
    finds = data.draw(st.sampled_from(sorted(graph)))
    ancestors = [node for node in graph if finds in after(graph, {node})]
    blamed = data.draw(st.sampled_from(ancestors))

    def then(node, call):
        if node == finds and call.number <= times:
            raise FaultError("wrong", blame=[str(blamed)])

    for engine in ENGINES:
        world = world_of(engine, graph, naps, max_rounds=times + 1, then=then)

        world.run()

        beyond = after(graph, {finds}) - {finds}
        first = (
            repaired(graph, [{blamed}] * times) if blamed != finds else [{finds}] * times
        )  # what fails has no answer
        again = [after(graph, nodes) - beyond for nodes in first]
        assert world.counts == {str(node): 1 + sum(node in nodes for nodes in again) for node in graph}


def test_if_only_unknown_ids_are_blamed_all_operators_run_again_and_an_event_says_so(engine, caplog):
    world = World(engine, {"facts": "", "check": ["facts"]}, judges=[judge(fault("fcats", "x"), PRAISE)], max_rounds=2)

    assert world.run().status is SUCCESS

    assert world.counts == {"facts": 2, "check": 2}
    [unknown] = world.said(events.BlameUnknown)
    assert (unknown.blame, unknown.round, unknown.path) == ("'fcats' (did you mean 'facts'?), 'x'", 1, ())
    assert f"workflow 'workflow': the evaluator blamed {unknown.blame}, but no operator has this id" in caplog.text


def test_an_unknown_id_blamed_beside_a_known_one_is_reported_and_has_no_effect(engine):
    world = World(engine, CHAIN, judges=[judge(fault("nobody", "b"), PRAISE)], max_rounds=2)

    world.run()

    assert world.counts == {"a": 1, "b": 2, "c": 2}
    assert [event.blame for event in world.said(events.BlameUnknown)] == ["'nobody'"]
    assert [event.blame for event in world.said(events.RoundFinished)] == [("nobody", "b"), ()]


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_result_without_success_tells_that_an_unknown_operator_is_blamed(engine, rounds):
    fcats = fault("fcats")
    world = World(engine, {"facts": "", "check": ["facts"]}, judges=[judge(fcats, fcats)], max_rounds=rounds)
    told = world.run().evaluation.splitlines()
    assert "The verdict blames an unknown operator: 'fcats' (did you mean 'facts'?)." in told


def test_blame_in_a_verdict_that_ends_the_run_is_ignored(engine):
    world = World(engine, {"a": ""}, judges=[judge(fault("earlier expert", status=INPUT))], max_rounds=3)
    assert world.run().blame == ("earlier expert",)
    assert not world.said(events.BlameUnknown)


# Operators that raise


def test_while_rounds_are_left_an_error_is_a_verdict_and_what_does_not_depend_on_it_goes_on(engine):
    broken, slow = failing("broken", ValueError("the list is empty")), stable_name("slow", 100)
    shape = {"root": "", "broken": ["root"], "slow": ["root"], "slower": ["slow"], "end": ["broken", "slower"]}
    world = World(engine, shape, broken, slow, max_rounds=2)

    message = world.run()

    assert (message.status, message.scratchpad) == (SUCCESS, "end1")
    assert world.counts == {"root": 1, "broken": 2, "slow": 1, "slower": 1, "end": 1}
    assert broken.lessons == [None, "broken failed: ValueError: the list is empty"]
    assert not world.said(events.OperatorCancelled)
    first, last = world.said(events.RoundFinished)
    assert (first.status, first.blame, first.round) == (ERROR, ("broken",), 1)
    assert first.evaluation == first.lesson == "broken failed: ValueError: the list is empty"
    assert (last.status, last.lesson, last.round) == (SUCCESS, "", 2)
    assert [event.operators for event in world.said(events.RoundStarted)][1:] == [("broken", "end")]


def test_of_a_long_error_the_lesson_tells_the_beginning(engine):
    world = World(engine, {"a": ""}, failing("a", ValueError("x" * 100_000)), max_rounds=2)
    world.run()
    lesson = world.of["a"].lessons[1] or ""
    assert lesson.startswith("a failed: ValueError: xxx")
    assert len(lesson) < 2_100


def test_several_that_fail_in_one_round_are_all_tried_again_each_with_its_own_error(engine):
    async def later(call):
        await asyncio.sleep(1)
        if call.number == 1:
            raise KeyError("no c")
        return "c"

    world = World(engine, DIAMOND, failing("b", ValueError("no b")), Do("c", later), max_rounds=2)
    assert world.run().scratchpad == "d1"
    assert world.counts == {"a": 1, "b": 2, "c": 2, "d": 1}
    assert world.of["b"].lessons == [None, "b failed: ValueError: no b"]
    assert world.of["c"].lessons == [None, "c failed: KeyError: 'no c'"]
    first = world.said(events.RoundFinished)[0]
    assert first.blame == ("b", "c")
    assert first.lesson == "b: b failed: ValueError: no b\nc: c failed: KeyError: 'no c'"


@pytest.mark.parametrize(
    ("error", "lesson"),
    [
        (FaultError("no dates", lesson="Give dates.", blame=["a"]), "Give dates."),
        (FaultError("no dates", blame=["a"]), "c: no dates"),
    ],
)
def test_an_operator_may_find_fault_with_another_one(engine, error, lesson):
    world = World(engine, CHAIN, failing("c", error), max_rounds=2)

    world.run()

    assert world.counts == {"a": 2, "b": 2, "c": 2}
    assert [world.of[op_id].lessons for op_id in "abc"] == [[None, lesson], [None, None], [None, None]]
    assert [[m.scratchpad for m in call.messages] for call in world.of["b"].calls] == [["a1"], ["a2"]]


def test_one_name_to_blame_may_stand_without_a_list():
    assert FaultError("no dates", blame="facts").blame == ("facts",)
    assert WorkflowMessage.model_validate({"blame": "facts"}).blame == ("facts",)


def test_a_fault_error_without_blame_blames_the_operator_that_raises_it(engine):
    world = World(engine, CHAIN, failing("b", FaultError("odd", lesson="Be even.")), max_rounds=2)
    world.run()
    assert world.counts == {"a": 1, "b": 2, "c": 1}
    assert world.of["b"].lessons == [None, "Be even."]


def test_an_operator_that_blames_a_sibling_runs_again_as_well(engine):
    world = World(engine, DIAMOND, failing("b", FaultError("c is odd", blame=["c"])), max_rounds=2)
    world.run()
    assert world.counts == {"a": 1, "b": 2, "c": 2, "d": 1}


FINAL = [
    AnswerError("no answer"),
    BudgetError("spent", Usage()),
    InputError("no file"),
    InvalidError("it", [Issue("x", "y")]),
    MissingExtraError("pip install"),
    ModelError("down"),
    PausedError("run", []),
    RunningLoopError("loop"),
    SystemExit(3),
    asyncio.CancelledError(),
]
PLACES = ["alone", "in a workflow", "in a map", "as the fallback"]
ENDS = [(place, error) for place in PLACES for error in FINAL if isinstance(error, Exception) or place in PLACES[:2]]


@pytest.mark.parametrize(("place", "error"), ENDS, ids=lambda part: part if isinstance(part, str) else repr(part))
def test_an_error_that_no_lesson_can_fix_ends_the_run_at_once(engine, place, error):
    def work(call):
        raise error

    broken, sibling = Do("broken", work), stable_name("sibling", 100)
    world = World(engine, {"root": "", "sibling": ["root"]}, sibling, max_rounds=5)
    operator: Any = broken
    policy = None
    if place == "in a workflow":
        operator = World(engine, {"broken": ""}, broken, name="inner").workflow
    elif place == "in a map":
        operator = Map("each", World(engine, {"broken": ""}, broken).workflow, over="xs")
    elif place == "as the fallback":
        operator, policy = failing("first", *[ValueError("first")] * 9), Policy(fallback=broken)
    world.workflow.add_operator(operator, [world.of["root"]], policy=policy)

    job = Job(goal="goal", inputs={"xs": [1]})
    expected = BudgetError if isinstance(error, BudgetError) else OperatorError
    with pytest.raises(expected) as raised:
        run_on_fake_clock(world.workflow.aexecute(job, NOBODY))

    assert world.counts == {"root": 1, "sibling": 1}
    assert len(broken.calls) == 1
    assert list(raised.value.finished) == ["root"]
    assert [event.operator_id for event in world.said(events.OperatorCancelled)] == ["sibling"]
    assert [event.round for event in world.said(events.RoundStarted) if not event.path] == [1]


@pytest.mark.parametrize(
    "error", [ValueError(), OperadError("plain"), PortError("p"), OperatorTimeoutError("t"), FaultError("f")], ids=repr
)
def test_an_error_that_a_lesson_may_fix_starts_another_round_wherever_it_happens(engine, error):
    inner = failing("inner", error)
    world = World(engine, {"a": ""}, failing("a", error), max_rounds=2)
    world.workflow.add_operator(World(engine, {"inner": ""}, inner, name="wf").workflow)
    world.run()
    assert (world.counts, len(inner.calls)) == ({"a": 2}, 2)


def test_retries_come_first_and_the_lesson_when_they_are_used_up(engine):
    a = failing("a", *[ConnectionError("gone")] * 5)
    workflow = engine(max_rounds=2)
    workflow.add_operator(a, policy=Policy(retry=Retry(attempts=3)))
    assert run_on_fake_clock(workflow.aexecute(JOB, NOBODY)).scratchpad == "a6"
    assert a.lessons == [None] * 3 + ["a failed: ConnectionError: gone"] * 3


def test_a_fallback_stands_in_and_no_round_is_spent(engine):
    world = World(engine, {}, max_rounds=2)
    world.workflow.add_operator(failing("a", ValueError("x")), policy=Policy(fallback="instead"))
    assert world.run().scratchpad == "instead"
    assert len(world.said(events.RoundStarted)) == 1


def test_an_operator_that_timed_out_gets_the_timeout_as_its_lesson(engine):
    async def work(call):
        await asyncio.sleep(0 if call.lesson else 100)
        return call.lesson

    workflow = engine(max_rounds=2)
    workflow.add_operator(Do("a", work), policy=Policy(timeout=Timeout(run=5)))
    said = run_on_fake_clock(workflow.aexecute(JOB, NOBODY)).scratchpad
    assert said.startswith("a failed: operator 'a' ran longer than 5 s")


def test_usage_includes_that_of_failed_operators(engine):
    def work(call):
        events.emit(events.ModelAnswered(model="m", usage=Usage(calls=1, prompt_tokens=10)))
        if call.number == 1:
            raise ValueError
        return "done"

    assert World(engine, {"a": ""}, Do("a", work), max_rounds=2).run().usage == Usage(calls=2, prompt_tokens=20)


def test_an_error_in_the_last_round_names_the_round_and_keeps_what_was_done(engine):
    world = World(engine, {"a": "", "b": "", "c": "b"}, failing("b", *[ValueError("no")] * 9), max_rounds=3)
    error = world.fails()
    assert str(error) == "operator 'b' of workflow 'workflow' failed on attempt 1 of round 3: ValueError: no"
    assert (error.round, list(error.finished)) == (3, ["a"])
    assert world.counts == {"a": 1, "b": 3}
    assert isinstance(world.heard[-1], events.RunFailed)


# The best round


def test_an_error_after_a_round_that_was_judged_returns_that_one_and_says_so(engine):
    b = Do("b", lambda call: "fine" if call.number == 1 else failing("b", ValueError("no")).execute(None, JOB))
    world = World(engine, {"a": "", "b": "a"}, b, judges=[judge(fault("b", score=2.0))], max_rounds=2)

    message = world.run()

    assert (message.status, message.scratchpad, message.lesson, message.score) == (ERROR, "fine", "Do better.", 2.0)
    assert message.evaluation == (
        "bad\nRound 2 failed: operator 'b' of workflow 'workflow' failed on attempt 1 of round 2: ValueError: no\n"
        "None of 2 rounds succeeded; this is round 1."
    )
    finished = world.heard[-1]
    assert (finished.round, finished.rounds, finished.message) == (1, 2, message)
    assert len(world.said(events.RoundFinished)) == 1


def test_an_error_that_no_lesson_can_fix_in_a_later_round_returns_the_best_round_at_once(engine):
    a = Do("a", lambda call: "fine" if call.number == 1 else failing("a", ModelError("down")).execute(None, JOB))
    world = World(engine, {"a": ""}, a, judges=[judge(fault("a"))], max_rounds=9)
    message = world.run()
    assert (message.scratchpad, len(a.calls)) == ("fine", 2)
    assert "Round 2 failed: operator 'a'" in message.evaluation


@pytest.mark.parametrize(
    ("verdicts", "best"),
    [
        pytest.param([(ERROR, 5), (ERROR, 7), (ERROR, 6)], 2, id="the highest score"),
        pytest.param([(ERROR, 7), (ERROR, 7), (ERROR, 6)], 2, id="of equal ones the later"),
        pytest.param([(ERROR, None), (ERROR, None), (ERROR, None)], 3, id="without scores the last"),
        pytest.param([(ERROR, -1), (ERROR, None), (ERROR, None)], 1, id="a score beats none"),
        pytest.param([(ERROR, 9), (ERROR, 8), (INPUT, 1)], 3, id="status before score"),
        pytest.param([(ERROR, 9), (ERROR, 8), (TOO_MUCH, None)], 3, id="status before score, whichever it is"),
    ],
)
def test_if_no_round_succeeds_the_best_one_counts(engine, verdicts, best):
    judging = judge(*(fault("a", status=status, score=score) for status, score in verdicts))
    world = World(engine, {"a": ""}, judges=[judging], max_rounds=3)

    message = world.run()

    assert (message.scratchpad, message.score) == (f"a{best}", verdicts[best - 1][1])
    assert message.evaluation == f"bad\nNone of 3 rounds succeeded; this is round {best}."
    assert (world.heard[-1].round, world.heard[-1].rounds) == (best, 3)
    assert [event.score for event in world.said(events.RoundFinished)] == [score for _, score in verdicts]


@pytest.mark.parametrize("score", [float("nan"), float("inf")])
def test_a_score_that_is_not_a_number_is_an_error_of_the_evaluator(engine, score):
    judging = Do("judge", lambda call: WorkflowMessage(score=7.0 if call.lesson else score))
    message = World(engine, {"a": ""}, judges=[judging], max_rounds=2).run()
    assert (message.score, message.scratchpad) == (7.0, "a1")
    assert "finite number" in (judging.lessons[1] or "")


def test_a_single_round_that_is_bad_is_returned_as_it_is(engine):
    assert World(engine, {"a": ""}, judges=[judge(fault())], max_rounds=1).run().evaluation == "bad"


def test_with_an_evaluator_there_are_three_rounds_unless_their_number_is_said(engine):
    judging = judge(*[fault()] * 3)
    assert (
        World(engine, {"a": ""}, judges=[judging])
        .run()
        .evaluation.endswith("None of 3 rounds succeeded; this is round 3.")
    )
    assert len(judging.calls) == 3


def test_a_tail_may_return_a_verdict_if_there_is_no_evaluator(engine):
    tail = Do("b", lambda call: fault("a") if call.number == 1 else "fine")
    world = World(engine, {"a": "", "b": "a"}, tail, max_rounds=3)
    assert world.run().scratchpad == "fine"
    assert world.counts == {"a": 2, "b": 2}


# Evaluators that raise


def test_an_evaluator_that_raises_runs_again_alone(engine):
    judging = judge(ValueError("no idea"), PRAISE)
    world = World(engine, DIAMOND, judges=[judging], max_rounds=2)
    message = world.run()
    assert (message.evaluation, message.scratchpad) == ("good", "d1")
    assert world.counts == {"a": 1, "b": 1, "c": 1, "d": 1}
    assert judging.lessons == [None, "judge failed: ValueError: no idea"]
    assert [call.messages[0].scratchpad for call in judging.calls] == ["d1", "d1"]


def test_an_evaluator_that_returns_text_is_told_so(engine):
    judging = judge("fine", PRAISE)
    assert World(engine, {"a": ""}, judges=[judging], max_rounds=2).run().evaluation == "good"
    assert "an evaluator returns a message with a status, not text" in (judging.lessons[1] or "")


def test_an_evaluator_that_always_raises_is_asked_no_more_than_there_are_rounds(engine):
    judging = judge(*[ValueError("no idea")] * 9)
    world = World(engine, CHAIN, judges=[judging], max_rounds=4)
    error = world.fails()
    assert (error.operator_id, error.round, len(judging.calls)) == ("judge", 4, 4)
    assert set(world.counts.values()) == {1}
    assert list(error.finished) == ["a", "b", "c"]


def test_of_an_evaluator_that_judged_once_and_then_always_raises_the_one_verdict_counts(engine):
    judging = judge(fault("c", score=3.0), *[ValueError("no idea")] * 9)
    world = World(engine, CHAIN, judges=[judging], max_rounds=4)
    message = world.run()
    assert (message.status, message.score, message.scratchpad) == (ERROR, 3.0, "c1")
    assert world.counts == {"a": 1, "b": 1, "c": 2}
    assert message.evaluation.endswith("None of 4 rounds succeeded; this is round 1.")


def test_an_evaluator_may_find_fault_by_raising(engine):
    world = World(engine, CHAIN, judges=[judge(FaultError("odd", blame=["b"]), PRAISE)], max_rounds=2)
    assert world.run().evaluation == "good"
    assert world.counts == {"a": 1, "b": 2, "c": 2}


# Several evaluators


def test_evaluators_judge_at_once(engine):
    met = Counter[str]()

    def meeting(op_id, other):
        async def work(call):
            met[op_id] += 1
            while not met[other]:
                await asyncio.sleep(1)
            return PRAISE

        return Do(op_id, work)

    assert World(engine, {"a": ""}, judges=[meeting("x", "y"), meeting("y", "x")]).run().status is SUCCESS


@pytest.mark.parametrize(
    ("statuses", "counts"),
    [
        ((SUCCESS, SUCCESS), SUCCESS),
        ((SUCCESS, TOO_MUCH), TOO_MUCH),
        ((INPUT, TOO_MUCH), INPUT),
        ((TOO_MUCH, INPUT, SUCCESS), INPUT),
        ((SUCCESS, INPUT, ERROR), ERROR),
    ],
)
def test_of_several_statuses_the_first_in_priority_counts(engine, statuses, counts):
    judges = [judge(WorkflowMessage(status=status), id=f"judge{n}") for n, status in enumerate(statuses)]
    assert World(engine, {"a": ""}, judges=judges).run().status is counts


def test_verdicts_are_merged_with_the_id_of_each_evaluator(engine):
    x = judge(fault("a", lesson="Shorter.", score=4.0), WorkflowMessage(evaluation="short", outputs={"n": 1}), id="x")
    y = judge(fault("b", "a", lesson="Kinder.", score=7.0), WorkflowMessage(outputs={"m": 2}), id="y")
    z = judge(PRAISE, PRAISE, id="z")
    world = World(engine, DIAMOND, judges=[x, y, z], max_rounds=2)

    message = world.run()

    first = world.said(events.RoundFinished)[0]
    assert first.evaluation == "x: bad\ny: bad\nz: good"
    assert first.lesson == "x: Shorter.\ny: Kinder."
    assert (first.status, first.blame, first.score) == (ERROR, ("a", "b"), 4.0)
    assert (message.evaluation, message.outputs, message.scratchpad) == ("x: short\nz: good", {"n": 1, "m": 2}, "d2")
    assert [len(j.calls) for j in (x, y, z)] == [2, 2, 2]


def test_of_several_evaluators_only_the_one_that_raised_judges_again(engine):
    x, y = judge(ValueError("no idea"), PRAISE, id="x"), judge(PRAISE, id="y")
    world = World(engine, {"a": ""}, judges=[x, y], max_rounds=2)
    assert world.run().evaluation == "x: good\ny: good"
    assert (len(x.calls), len(y.calls), world.counts) == (2, 1, {"a": 1})


def test_verdicts_of_other_evaluators_are_kept_when_one_raises(engine):
    x, y = judge(ValueError("no idea"), PRAISE, PRAISE, id="x"), judge(fault("a"), PRAISE, id="y")
    world = World(engine, {"a": "", "b": "a"}, judges=[x, y], max_rounds=3)
    assert world.run().status is SUCCESS
    assert [event.blame for event in world.said(events.RoundFinished)] == [("x",), ("a",), ()]
    assert world.counts == {"a": 2, "b": 2}


@pytest.mark.parametrize("ids", [("a",), ("x", "x"), ("<end>",)])
def test_each_evaluator_needs_an_id_of_its_own(engine, ids):
    world = World(engine, {"a": ""}, judges=[judge(PRAISE, id=op_id) for op_id in ids])
    error = world.fails(InvalidError)
    assert [(issue.code, issue.where) for issue in error.issues] == [("duplicate-id", ids[-1])]
    assert not world.counts


def test_setting_an_evaluator_replaces_all_of_them(engine):
    world = World(engine, {"a": ""}, judges=[judge(fault(), id="x"), judge(fault(), id="y")])
    world.workflow.set_evaluator(judge(PRAISE, id="z"))
    assert world.run().operator_id == "z"
    world.workflow.set_evaluator(None)
    assert world.run().operator_id == "a"


def test_one_evaluator_has_one_policy_and_another_its_own(engine):
    x, y = judge(ConnectionError(), PRAISE, id="x"), judge(PRAISE, id="y")
    workflow = engine()
    workflow.add_operator(Do("a"))
    workflow.add_evaluator(x, policy=Policy(retry=Retry(attempts=2)))
    workflow.add_evaluator(y)
    assert run_on_fake_clock(workflow.aexecute(JOB, NOBODY)).status is SUCCESS
    assert (len(x.calls), len(y.calls)) == (2, 1)


scores = st.none() | st.floats(-10, 10)
verdicts = st.builds(
    lambda who, status, blame, score: fault(*blame, status=status, score=score).stamped(who, "job", Usage()),
    st.sampled_from("xyz"),
    st.sampled_from(list(WorkflowStatus)),
    st.lists(st.sampled_from("abc"), max_size=2, unique=True),
    scores,
)


@examples(80, 300)
@given(st.lists(verdicts, min_size=1, max_size=4))
def test_a_merged_verdict_has_the_worst_status_and_only_ids_that_were_blamed(several):
    whole = join_verdicts(several)
    assert whole.status.priority == min(verdict.status.priority for verdict in several)
    decisive = [set(verdict.blame) for verdict in several if verdict.status is whole.status]
    assert set(whole.blame) == (set().union(*decisive) if all(decisive) else set())
    assert len(set(whole.blame)) == len(whole.blame)
    measured = [verdict.score for verdict in several if verdict.score is not None]
    assert whole.score == (min(measured) if measured else None)
    assert all(verdict.evaluation in whole.evaluation for verdict in several)


# Races, ports


RACE = {"root": "", "fast": ["root"], "slow": ["root"], "first": ["fast", "slow"], "other": ["root"]}
RACE["end"] = ["first", "other"]


@pytest.mark.parametrize(
    ("broken", "again"),
    [
        ("other", {"other": 2, "end": 1}),
        ("first", {"first": 2, "slow": 2, "end": 1}),
        ("end", {"end": 2}),
        ("judge", {"end": 1}),
    ],
)
def test_one_that_lost_a_race_and_never_ends_holds_up_no_round(engine, broken, again):
    async def late(call):
        await asyncio.sleep(5)
        if call.number == 1:
            raise ValueError("late")
        return f"{broken}2"

    slow = Do("slow", for_ever)
    judging = Do("judge", late) if broken == "judge" else judge(PRAISE)
    if broken == "judge":
        judging = judge(ValueError("late"), PRAISE)
    world = World(engine, RACE, slow, Do(broken, late), judges=[judging], any_of=["first"], max_rounds=2)

    message = world.run()

    assert message.status is SUCCESS
    assert world.counts == {**dict.fromkeys(RACE, 1), **again}
    assert {event.operator_id for event in world.said(events.OperatorCancelled)} == {"slow"}


def test_an_operator_that_fails_in_a_race_leaves_the_result_to_the_others(engine):
    world = World(
        engine, RACE, failing("fast", ValueError("x")), stable_name("slow", 9), judges=[judge(PRAISE)], any_of=["first"],
        max_rounds=2,
    )  # fmt: skip
    assert world.run().status is SUCCESS
    assert world.counts == dict.fromkeys(RACE, 1)
    assert len(world.said(events.RoundStarted)) == 1


def test_if_all_fail_in_a_race_all_are_tried_again(engine):
    world = World(
        engine, RACE, failing("fast", ValueError("x")), failing("slow", ValueError("y")), any_of=["first"], max_rounds=2
    )
    world.run()
    assert world.counts == {"root": 1, "fast": 2, "slow": 2, "first": 1, "other": 1, "end": 1}


@pytest.mark.slow
@examples(50, 150)
@given(graphs(12), st.data(), st.lists(st.integers(0, 9), min_size=1, max_size=7))
def test_in_races_as_well_only_blamed_operators_and_their_successors_run_twice(graph, data, naps):
    broken = data.draw(st.sets(st.sampled_from(sorted(graph)), max_size=3))
    any_of = {str(node) for node in data.draw(st.sets(st.sampled_from(sorted(graph)))) if len(graph[node]) > 1}

    def then(node, call):
        if node in broken and not call.lesson:
            raise ValueError(f"{node} failed")

    for engine in ENGINES:
        judging = judge(*[PRAISE] * 9)
        world = world_of(engine, graph, naps, [judging], any_of=any_of, max_rounds=len(graph) + 1, then=then)

        assert world.run().status is SUCCESS

        done = Counter(event.operator_id for event in world.said(events.OperatorFinished))
        assert all(done[str(node)] <= 1 for node in graph.keys() - after(graph, broken))
        assert done["judge"] == 1
        stopped = {event.operator_id for event in world.said(events.OperatorCancelled)}
        assert not stopped or any_of


@pytest.mark.parametrize("with_fault", [False, True])
def test_one_that_raises_when_it_is_stopped_after_a_race_is_not_to_blame(engine, with_fault):
    async def clumsy(call):
        try:
            await for_ever(call)
        finally:
            raise ValueError("I was not finished")

    other = failing("other", ValueError("x")) if with_fault else Do("other")
    world = World(engine, RACE, Do("slow", clumsy), other, any_of=["first"], max_rounds=3)
    assert world.run().status is SUCCESS
    assert world.counts == {**dict.fromkeys(RACE, 1), "other": 1 + with_fault}
    assert [event.blame for event in world.said(events.RoundFinished)] == ([("other",)] if with_fault else []) + [()]


def test_one_that_fails_when_its_race_is_over_is_not_to_blame(engine):
    async def late(call):
        await asyncio.sleep(3)
        raise ValueError("late")

    world = World(engine, RACE, Do("slow", late), stable_name("other", 9), any_of=["first"], max_rounds=2)
    assert world.run().status is SUCCESS
    assert world.counts == dict.fromkeys(RACE, 1)


@pytest.mark.parametrize("broken", ["router", "yes", "end"])
def test_what_was_skipped_stays_skipped_when_another_one_fails(engine, broken):
    heard = []
    operators = {op_id: Do(op_id) for op_id in ("router", "yes", "no", "side", "end")}
    operators["router"] = Do("router", lambda call: WorkflowMessage(scratchpad="router", ports=("yes",)))
    work = operators[broken]

    def at_first(call):
        if call.number == 1:
            raise ValueError("x")
        return WorkflowMessage(ports=("yes",)) if broken == "router" else "done"

    operators[broken] = work = Do(broken, at_first)
    router, yes, no, side, end = operators.values()
    workflow = engine(max_rounds=2, listeners=[heard.append])
    workflow.add_operator(router)
    workflow.add_operator(yes, [Port(router, "yes")])
    workflow.add_operator(no, [Port(router, "no")])
    workflow.add_operator(side)
    workflow.add_operator(end, [yes, no, side])
    message = run_on_fake_clock(workflow.aexecute(JOB, NOBODY))
    assert message.operator_id == "end"
    counts = {op_id: len(operator.calls) for op_id, operator in operators.items()}
    assert counts == {"router": 1, "yes": 1, "no": 0, "side": 1, "end": 1, broken: 2}
    assert len(work.calls) == 2


def test_a_tail_that_was_skipped_hides_no_fault_in_another(engine):
    router = Do("router", lambda call: WorkflowMessage(ports=("yes",)))
    workflow, yes = engine(max_rounds=2), failing("yes", ValueError("x"))
    workflow.add_operator(router)
    workflow.add_operator(yes, [Port(router, "yes")])
    workflow.add_operator(Do("no"), [Port(router, "no")])
    workflow.add_evaluator(judge(PRAISE))
    assert run_on_fake_clock(workflow.aexecute(JOB, NOBODY)).scratchpad == "yes2"
    assert (len(router.calls), len(yes.calls)) == (1, 2)


# Inside other workflows, and maps


def test_a_fault_inside_is_mended_inside_as_long_as_rounds_are_left_there(engine):
    inner = World(engine, CHAIN, failing("b", ValueError("x")), name="inner", max_rounds=2)
    outer = World(engine, {"before": ""}, max_rounds=2)
    outer.workflow.add_operator(inner.workflow, [outer.of["before"]])
    assert outer.run().scratchpad == "c1"
    assert (inner.counts, outer.counts) == ({"a": 1, "b": 2, "c": 1}, {"before": 1})
    assert [(e.path, e.round) for e in outer.said(events.RoundFinished)] == [(("inner",), 1), (("inner",), 2), ((), 1)]


def test_a_fault_that_was_not_mended_inside_blames_the_workflow_as_a_whole(engine):
    inner = World(engine, CHAIN, failing("b", ValueError("x")), name="inner")
    outer = World(engine, {"before": "", "beside": ["before"]}, max_rounds=2)
    outer.workflow.add_operator(inner.workflow, [outer.of["before"]])
    outer.run()
    assert (inner.counts, outer.counts) == ({"a": 2, "b": 2, "c": 1}, {"before": 1, "beside": 1})
    lesson = "inner failed: operator 'b' of workflow 'inner' failed on attempt 1: ValueError: x"
    assert inner.of["a"].lessons == [None, lesson]


@pytest.mark.parametrize("place", ["in a workflow", "in a map"])
def test_a_lesson_from_inside_is_heard_in_the_next_round_outside(engine, place):
    b = failing("b", FaultError("odd", lesson="Be even.", blame=["a"]))
    inner = World(engine, {"a": "", "b": "a"}, b, name="inner").workflow
    operator = inner if place == "in a workflow" else Map("each", inner, over="xs")
    outer = World(engine, {}, max_rounds=2)
    outer.workflow.add_operator(operator)
    run_on_fake_clock(outer.workflow.aexecute(Job(goal="", inputs={"xs": [1]}), NOBODY))
    assert b.lessons == [None, "Be even."]
    verdicts = [event for event in outer.said(events.RoundFinished) if not event.path]
    assert [event.blame for event in verdicts] == [(operator.get_id(),), ()]
    assert not outer.said(events.BlameUnknown)


def test_of_a_map_with_rounds_in_its_body_only_the_item_at_fault_runs_again(engine):
    ran = Counter[Any]()

    def work(call):
        item = call.messages[0].outputs["item"]
        ran[item] += 1
        if item == "y" and not call.lesson:
            raise ValueError("y is odd")
        return item

    body = World(engine, {"one": ""}, Do("one", work), name="body", max_rounds=2).workflow
    outer = World(engine, {}, max_rounds=2)
    outer.workflow.add_operator(Map("each", body, over="xs"))
    message = run_on_fake_clock(outer.workflow.aexecute(Job(goal="", inputs={"xs": ["x", "y", "z"]}), NOBODY))
    assert message.outputs["items"] == ["x", "y", "z"]
    assert ran == {"x": 1, "y": 2, "z": 1}


def test_a_map_that_fails_as_a_whole_finds_its_list_again(engine):
    ran = Counter[Any]()

    def work(call):
        ran[call.messages[0].outputs["item"]] += 1
        if not call.lesson:
            raise ValueError("no")
        return call.lesson

    items = Do("items", lambda call: WorkflowMessage(outputs={"xs": [1]}))
    outer = World(engine, {"items": ""}, items, max_rounds=2)
    outer.workflow.add_operator(Map("each", Do("one", work), over="xs"), [items])
    assert "item each[0]" in outer.run().scratchpad
    assert (ran, len(items.calls)) == ({1: 2}, 1)


# People


async def ask(call):
    return await interrupt("Go on?")


def test_a_question_stays_open_while_another_one_fails_and_nobody_is_asked_twice(engine):
    async def main():
        world = World(engine, {"ask": "", "broken": "", "end": ["ask", "broken"]}, Do("ask", ask), broken, max_rounds=2)
        with pytest.raises(PausedError) as paused:
            await world.workflow.aexecute(JOB, NOBODY, run_id="run")
        assert [question.id for question in paused.value.questions] == ["ask"]
        assert len(broken.calls) == 1
        message = await world.workflow.aresume("run", {"ask": "yes"})
        assert message is not None
        assert message.scratchpad == "end1"
        assert world.counts == {"ask": 1, "broken": 2, "end": 1}

    broken = failing("broken", ValueError("x"))
    run_on_fake_clock(main())


def test_one_that_asks_although_its_race_is_over_pauses_nothing(engine):
    slow, other = Do("slow", ask), failing("other", ValueError("x"))

    async def later(call):
        await asyncio.sleep(5)
        return "end"

    world = World(engine, RACE, slow, other, Do("end", later), any_of=["first"], max_rounds=2)
    assert world.run().scratchpad == "end"
    assert len(other.calls) == 2


def test_a_run_inside_that_is_about_to_begin_a_round_does_not_wait_for_anybody(engine):
    done = []

    async def work(call):
        if call.number == 1:
            raise ValueError("x")
        await asyncio.sleep(5)
        done.append("worked")
        return ""

    inner = World(engine, {"worker": ""}, Do("worker", work), name="inner", max_rounds=2).workflow
    outer = World(engine, {"ask": ""}, Do("ask", ask))
    outer.workflow.add_operator(inner)

    async def main():
        with pytest.raises(PausedError):
            await outer.workflow.aexecute(JOB, NOBODY, run_id="run")
        assert done == ["worked"]
        await outer.workflow.aresume("run", {"ask": "yes"})

    run_on_fake_clock(main())


# Ends


def test_a_run_that_is_cancelled_in_a_later_round_ends_there(engine):
    async def main():
        task = asyncio.ensure_future(world.workflow.aexecute(JOB, NOBODY))
        await asyncio.sleep(5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def work(call):
        if call.number == 1:
            raise ValueError("x")
        await asyncio.sleep(100)

    world = World(engine, {"a": "", "b": ""}, Do("a", work), max_rounds=3)
    run_on_fake_clock(main())
    assert world.counts == {"a": 2, "b": 1}
    assert [(event.operator_id, event.round) for event in world.said(events.OperatorCancelled)] == [("a", 2)]
    assert isinstance(world.heard[-1], events.RunFailed)


def spend(call):
    events.emit(events.ModelAnswered(model="m", usage=Usage(calls=1, prompt_tokens=10)))
    return f"spent{call.number}"


def test_a_budget_is_for_all_rounds(engine):
    spender = Do("spender", spend)
    world = World(
        engine, {"once": "", "spender": ""}, spender, judges=[judge(*[fault("spender")] * 9)], max_rounds=9,
        budget=Budget(tokens=35),
    )  # fmt: skip
    error = world.fails(BudgetError)
    assert (error.usage.tokens, len(spender.calls)) == (40, 4)
    assert error.finished["spender"].scratchpad == "spent3"


def test_seconds_of_a_budget_are_for_all_rounds_too(engine):
    world = World(
        engine, {"a": ""}, stable_name("a", 4), judges=[judge(*[fault()] * 9)], max_rounds=9, budget=Budget(seconds=10)
    )
    assert "10 of 10 seconds" in str(world.fails(BudgetError))
    assert len(world.of["a"].calls) == 3


def test_events_of_rounds_are_in_order(engine):
    b = failing("b", ValueError("x"))
    world = World(engine, CHAIN, b, judges=[judge(fault("nobody", "c", score=1.0), PRAISE)], max_rounds=3)

    world.run()

    told = [
        (type(e).__name__, e.operator_id, e.round) for e in world.heard if not isinstance(e, events.OperatorStarted)
    ]
    assert told == [
        ("RunStarted", "", 0),
        ("RoundStarted", "", 1),
        ("OperatorFinished", "a", 1),
        ("OperatorFailed", "b", 1),
        ("RoundFinished", "", 1),
        ("RoundStarted", "", 2),
        ("OperatorFinished", "b", 2),
        ("OperatorFinished", "c", 2),
        ("OperatorFinished", "judge", 2),
        ("RoundFinished", "", 2),
        ("BlameUnknown", "", 2),
        ("RoundStarted", "", 3),
        ("OperatorFinished", "c", 3),
        ("OperatorFinished", "judge", 3),
        ("RoundFinished", "", 3),
        ("RunFinished", "", 3),
    ]
    assert [event.seq for event in world.heard] == list(range(1, len(world.heard) + 1))


def test_lessons_add_up_newest_last_and_each_once_and_without_one_the_evaluation_is_told(engine):
    lessons = ["one", "two", "one", "", "three"]
    judging = judge(*(fault("a", lesson=lesson) for lesson in lessons), PRAISE)
    world = World(engine, {"a": ""}, judges=[judging], max_rounds=9)
    world.run(lesson="zero")
    assert world.of["a"].lessons == [
        "zero", "zero\none", "zero\none\ntwo", "zero\ntwo\none", "zero\ntwo\none\nbad",
        "zero\ntwo\none\nbad\nthree",
    ]  # fmt: skip


# The transcript


def seen():
    return {step.operator_id: (step.instruction, step.before, step.message.scratchpad) for step in transcript()}


def test_outside_of_a_run_there_is_no_trail():
    assert transcript() == ()


def test_an_evaluator_sees_the_messages_of_all_operators_in_each_round(engine):
    trails = []

    def work(call):
        trails.append(seen())
        return fault("b") if call.number == 1 else PRAISE

    world = World(engine, CHAIN, judges=[Do("judge", work)], max_rounds=2)
    world.of["a"].instruction = "List them."
    world.run()
    assert list(trails[0]) == ["a", "b", "c"]
    assert trails == [
        {"a": ("List them.", (), "a1"), "b": ("", ("a",), "b1"), "c": ("", ("b",), "c1")},
        {"a": ("List them.", (), "a1"), "b": ("", ("a",), "b2"), "c": ("", ("b",), "c2")},
    ]


def test_evaluators_are_no_part_of_the_trail(engine):
    trails = []

    async def late(call):
        await asyncio.sleep(5)
        trails.append(list(seen()))
        return PRAISE

    World(engine, {"a": ""}, judges=[judge(PRAISE, id="x"), Do("y", late)]).run()
    assert trails == [["a"]]


def test_the_transcript_holds_the_messages_so_far(engine):
    trails = []
    world = World(
        engine, {**CHAIN, "slow": ""}, Do("b", lambda call: trails.append(list(seen())) or "b"), stable_name("slow", 9),
        judges=[Do("judge", lambda call: trails.append(list(seen())) or PRAISE)],
    )  # fmt: skip
    world.run()
    assert trails == [["a"], ["a", "b", "c", "slow"]]


def test_failed_and_skipped_operators_are_not_in_the_transcript(engine):
    trails = []

    async def late(call):
        await asyncio.sleep(5)
        trails.append(list(seen()))
        return ""

    router = Do("router", lambda call: WorkflowMessage(ports=()))
    workflow = engine(max_rounds=2)
    workflow.add_operator(router)
    workflow.add_operator(Do("no"), [Port(router, "no")])
    workflow.add_operator(failing("broken", ValueError("x")))
    workflow.add_operator(Do("late", late))
    run_on_fake_clock(workflow.aexecute(JOB, NOBODY))
    assert trails == [["router"]]


@pytest.mark.parametrize(("second", "judged"), [("a fact", 1), ("no fact", 2)])
def test_a_verdict_from_a_cache_is_one_on_the_same_trail(engine, second, judged):
    class Kept(Do):
        def fingerprint(self):
            return {"id": self.get_id()}

    class Thinks(ScriptedReasoner):
        def fingerprint(self):
            return {}

    judging, cache = Kept("judge", lambda call: PRAISE), Cache()
    for fact in ("a fact", second):
        workflow, facts, letter = (
            engine(),
            Do("facts", lambda call, fact=fact: fact),
            Do("letter", lambda call: "letter"),
        )
        workflow.add_operator(facts)
        workflow.add_operator(letter, [facts])
        workflow.add_evaluator(judging, policy=Policy(cache=cache))
        run_on_fake_clock(workflow.aexecute(JOB, Thinks([])))
    assert len(judging.calls) == judged


def test_inside_another_workflow_the_trail_is_of_the_run_inside(engine):
    trails = []
    inner = World(
        engine, {"a": ""}, name="inner", judges=[Do("judge", lambda call: trails.append(seen()) or PRAISE)]
    ).workflow
    outer = World(engine, {"x": ""}, judges=[Do("judge", lambda call: trails.append(seen()) or PRAISE)])
    outer.workflow.add_operator(inner, [outer.of["x"]])
    outer.run()
    assert trails == [
        {"a": ("", (), "a1")},
        {"x": ("", (), "x1"), "inner": ("A workflow of a.", ("x",), "a1")},
    ]


# Faults that come from inside


def around(engine, inner, *before, kind=None):
    """`inner`, in a workflow of its own or as the body of a map, after operators `a` and `b` of the outer one."""
    body = engine(name="inner", max_rounds=2)
    body.add_operator(inner)
    if kind is Map:
        return Map("inner", body, over="things")
    return body


@pytest.mark.parametrize("kind", [None, Map])
async def test_an_operator_of_a_nested_workflow_may_blame_one_of_the_outer_workflow(engine, kind):
    def things(call):
        return WorkflowMessage(scratchpad=f"figs {call.number}", outputs={"things": ["figs"]})

    a, b = Do("a", things), Do("b", things)
    inner = failing("check", FaultError("no dates", lesson="Give dates.", blame=["a"]))
    heard: list[Any] = []
    workflow = engine(max_rounds=3, listeners=[heard.append])
    workflow.add_operator(a)
    workflow.add_operator(b, [a])
    workflow.add_operator(around(engine, inner, kind=kind), [b])
    await workflow.aexecute(JOB, None)
    assert a.lessons == [None, "Give dates."]
    assert (len(b.calls), len(inner.calls)) == (2, 2)  # those inside were not asked again before
    assert not [event for event in heard if isinstance(event, events.BlameUnknown)]


async def test_an_id_unknown_to_the_outer_workflow_makes_it_blame_the_nested_workflow(engine):
    inner = failing("check", FaultError("odd", lesson="Be even.", blame=["nobody"]))
    outer = engine(max_rounds=2)
    outer.add_operator(Do("a"))
    outer.add_operator(around(engine, inner))
    await outer.aexecute(JOB, None)
    assert inner.lessons == [None, "Be even."]
    assert len(outer.get_operator("a").calls) == 1


@pytest.mark.parametrize("kind", [None, Map])
async def test_an_id_of_the_nested_workflow_is_not_taken_for_the_same_id_around_it(engine, kind):
    a = Do("a", lambda call: WorkflowMessage(scratchpad="figs", outputs={"things": ["figs"]}))
    inner = failing("a", FaultError("odd", lesson="Be even.", blame=["a"]))
    outer = engine(max_rounds=2)
    outer.add_operator(a)
    outer.add_operator(around(engine, inner, kind=kind), [a])
    await outer.aexecute(JOB, None)
    assert (a.lessons, inner.lessons) == ([None], [None, "Be even."])


@pytest.mark.parametrize("blamed", ["a", "c"])
async def test_after_a_rejected_nested_workflow_nothing_runs_whomever_its_verdict_names(engine, blamed):
    inner = engine(name="inner", max_rounds=1)
    inner.add_operator(Do("a"))
    inner.set_evaluator(judge(fault(blamed)))
    behind = [Do("a"), Do("c")]
    outer = engine(max_rounds=3)
    outer.add_operator(inner)
    for each in behind:
        outer.add_operator(each, [inner])
    message = await outer.aexecute(JOB, None)
    assert (message.status, message.blame) == (WorkflowStatus.EXECUTION_ERROR, (f"inner/{blamed}",))
    assert [each.calls for each in behind] == [[], []]


@pytest.mark.parametrize("beside", [False, True])
async def test_faults_inside_of_a_nested_workflow_at_the_end_have_their_places(engine, beside):
    first, inner, heard = Do("x"), engine(name="inner", max_rounds=1), []
    inner.add_operator(Do("a"))
    inner.add_operator(Do("b"), ["a"])
    inner.set_evaluator(judge(fault("a"), PRAISE))
    outer = engine(max_rounds=2, listeners=[heard.append])
    outer.add_operator(first)
    outer.add_operator(inner, [first])
    if beside:
        outer.add_operator(Do("y"))
    message = await outer.aexecute(JOB, None)
    rounds = [event for event in heard if isinstance(event, events.RoundFinished) and not event.path]
    assert [event.blame for event in rounds] == [("inner/a",), ()]
    assert (message.status, len(first.calls)) == (SUCCESS, 1)


async def test_a_round_says_whether_an_error_ended_it_or_a_judgement(engine):
    for first, by_error in ((ValueError("gone"), True), (FaultError("odd"), False), (fault("a"), False)):
        judges = [judge(first, PRAISE)] if isinstance(first, WorkflowMessage) else []
        operator = Do("a") if judges else failing("a", first)
        world = World(engine, {"a": []}, operator, judges=judges, max_rounds=2)
        await world.workflow.aexecute(JOB, None)
        said = [event.by_error for event in world.heard if isinstance(event, events.RoundFinished)]
        assert said == [by_error, False]
