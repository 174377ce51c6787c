"""A leader: it splits jobs over its experts, heeds their verdicts, and can be stopped and go on."""

import asyncio
import inspect
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import pytest
from loose_reasoner import LooseReasoner

from operad.evaluators import Evaluator
from operad.operators import Operator, OperatorConfig
from operad.runtime import (
    Action,
    Budget,
    BudgetError,
    BuiltinWorkflow,
    Expert,
    FaultError,
    InputError,
    InvalidError,
    Job,
    JobError,
    Leader,
    Map,
    MonoModelReasoner,
    OperatorError,
    PausedError,
    Policy,
    Profile,
    Retry,
    RunContext,
    RunningLoopError,
    Tool,
    Usage,
    WorkflowMessage,
    WorkflowStatus,
    events,
    interrupt,
)
from operad.runtime.agents.leader import MAX_OPEN_JOBS, MAX_TOLD
from operad.runtime.events import emit
from operad.runtime.policies.policy import causes
from operad.runtime.testing import Say, ScriptedModel, ScriptedReasoner, UnexpectedStepError, run_on_fake_clock

FINE = WorkflowMessage(evaluation="fine")
JOB = Job(goal="Write it.", id="J")
NOBODY = ScriptedReasoner([])
TOKENS = 10
"""What each call of an expert costs."""


def part(name, *needs, expert="X", **fields):
    own = {"id": name, "goal": f"do {name}", "context": "", "completion_criteria": "", "assigned_expert": expert}
    return {**own, "dependencies": list(needs), **fields}


def split(*parts):
    return json.dumps({"sub_jobs": list(parts)})


DIAMOND = split(part("a"), part("b", "a", expert="Y"), part("c", "a"), part("d", "b", "c", expert="Z"))
CHAIN = split(part("a"), part("b", "a"), part("c", "b"))
TWO = split(part("a"), part("b", "a"))
ALONE = split(part("a"))


def bad_data(*blame, lesson="better data", says="bad data"):
    return WorkflowMessage(status=WorkflowStatus.INPUT_DATA_ERROR, evaluation=says, lesson=lesson, blame=blame)


TOO_MUCH = WorkflowMessage(status=WorkflowStatus.JOB_TOO_COMPLICATED_ERROR, evaluation="too much", lesson="in two")
BOTCHED = WorkflowMessage(status=WorkflowStatus.EXECUTION_ERROR, evaluation="botched", lesson="no blots")


@dataclass(frozen=True)
class Call:
    """What an expert was given."""

    job: Job
    lesson: str | None
    given: dict
    number: int


class Do(Operator):
    """The only operator of an expert."""

    def __init__(self, team):
        super().__init__(OperatorConfig(instruction="Do it.", id="do"))
        self.team = team

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        number = 1 + sum(call.job.id == job.id for call in self.team.calls)
        given = {message.operator_id: message.scratchpad for message in previous_expert_outputs or ()}
        assert not workflow_messages
        call = Call(job, lesson, given, number)
        self.team.calls.append(call)
        emit(events.ModelAnswered(model="m", usage=Usage(calls=1, prompt_tokens=TOKENS)))
        said: Any = self.team.work.get(job.id, f"{job.id} {number}")
        if callable(said):
            said = said(call)
            said = await said if inspect.isawaitable(said) else said
        return WorkflowMessage(scratchpad=said) if isinstance(said, str) else said


class Judge(Evaluator):
    def __init__(self, team):
        super().__init__(OperatorConfig(instruction="Judge.", id="judge"))
        self.team = team

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        verdicts = self.team.verdicts.get(job.id, FINE)
        if isinstance(verdicts, WorkflowMessage):
            return verdicts
        return verdicts.pop(0) if verdicts else FINE


class Team:
    """Three experts, what they say by sub-job, how that is judged, and what they were given."""

    def __init__(
        self, splits=(), verdicts=None, work=None, rounds=1, reasoner: Callable[..., Any] = ScriptedReasoner, **options
    ):
        self.work, self.verdicts, self.calls = work or {}, verdicts or {}, []
        self.reasoner = reasoner(splits)
        self.experts = [self.expert(name, rounds) for name in "XYZ"]
        self.leader = Leader(Profile(name="Boss"), self.experts, self.reasoner, **options)
        self.heard = []
        self.leader.workflow.add_listener(self.heard.append)

    def expert(self, name, rounds):
        workflow = BuiltinWorkflow(max_rounds=rounds, name=name)
        workflow.add_operator(Do(self))
        workflow.set_evaluator(Judge(self))
        return Expert(Profile(name=name, description=f"does {name}"), workflow, ScriptedReasoner([]))

    @property
    def ran(self):
        return [call.job.id for call in self.calls]

    def of(self, sub_job):
        return [call for call in self.calls if call.job.id == sub_job]

    def of_kind(self, kind):
        return [event for event in self.heard if isinstance(event, kind)]

    @property
    def split_lessons(self):
        return [task.lesson for task in self.reasoner.tasks]


# Splitting, and who gets what


def test_a_diamond_runs_its_middle_at_once_and_each_gets_what_it_depends_on():
    seconds = {"a": 1, "b": 10, "c": 10, "d": 1}
    began = {}

    async def work(call):
        loop = asyncio.get_running_loop()
        began[call.job.id] = loop.time()
        await asyncio.sleep(seconds[call.job.id])
        return call.job.id.upper()

    team = Team([DIAMOND], work=dict.fromkeys("abcd", work))
    message = run_on_fake_clock(team.leader.aexecute(JOB))
    assert (message.scratchpad, message.status) == ("D", WorkflowStatus.SUCCESS)
    assert began == {"a": 0, "b": 1, "c": 1, "d": 11}
    assert {call.job.id: call.given for call in team.calls} == {
        "a": {}, "b": {"a": "A"}, "c": {"a": "A"}, "d": {"b": "B", "c": "C"},
    }  # fmt: skip
    assert all(call.lesson is None for call in team.calls)
    assert team.leader.open_jobs == ()


async def test_a_sub_job_bears_what_the_split_says_and_what_the_job_has():
    team = Team([split(part("a", goal="Look.", context="Here.", completion_criteria="Three finds."))])
    job = Job(goal="g", id="J", session_id="s", inputs={"n": 1})
    await team.leader.aexecute(job)
    [call] = team.calls
    assert call.job.model_dump(exclude={"files", "turns", "started_by"}) == {
        "id": "a", "goal": "Look.", "context": "Here.", "completion_criteria": "Three finds.", "session_id": "s",
        "inputs": {"n": 1}, "parent_id": "J", "dependencies": (), "assigned_expert_name": "X",
    }  # fmt: skip


async def test_a_leader_is_told_of_its_experts_and_what_it_may_do_and_of_earlier_results():
    def maps():
        """Find a map."""

    look = Action(name="look", description="around", tools=(Tool.of(maps),))
    team = Team([ALONE], actions=[look])
    await team.leader.aexecute(JOB, [WorkflowMessage(operator_id="crawler", scratchpad="pages")], "be brief")
    [task] = team.reasoner.tasks
    assert "- X: does X\n- Y: does Y\n- Z: does Z" in task.instruction
    assert task.output_schema.schema["properties"]["sub_jobs"]["items"]["properties"]["assigned_expert"] == {
        "type": "string", "enum": ["X", "Y", "Z"],
    }  # fmt: skip
    assert [action.name for action in task.actions] == ["look"]
    assert [tool.name for tool in task.tools] == ["maps"]
    assert (task.job, task.lesson) == (JOB, "be brief")
    assert [message.operator_id for message in task.previous_expert_outputs] == ["crawler"]
    [call] = team.calls
    assert (call.given, call.lesson) == ({"crawler": "pages"}, "be brief")


async def test_a_job_that_names_its_expert_is_not_split():
    team = Team()
    message = await team.leader.aexecute(JOB.model_copy(update={"assigned_expert_name": "Y"}))
    [call] = team.calls
    assert (call.job.goal, call.job.assigned_expert_name, call.job.parent_id) == ("Write it.", "Y", "J")
    assert (message.scratchpad, team.reasoner.tasks, team.of_kind(events.JobSplit)) == ("job 1", [], [])


async def test_a_job_for_an_unknown_expert_is_told_the_nearest_name():
    leader = Leader(Profile(name="Boss"), [Expert(Profile(name="Writer"), BuiltinWorkflow(), NOBODY)], NOBODY)
    with pytest.raises(OperatorError, match=r"no expert is called 'Riter' \(did you mean 'Writer'\?\); there are: Wri"):
        await leader.aexecute(Job(goal="g", assigned_expert_name="Riter"))


@pytest.mark.parametrize("assigned", [None, "X"])
@pytest.mark.parametrize("name", ["a", "job", "leader", "Boss", "do", "<end>"])
async def test_a_job_may_be_called_as_a_part_of_it_is(name, assigned):
    team = Team([TWO], verdicts={"b": [bad_data()]})
    message = await team.leader.aexecute(Job(goal="g", id=name, assigned_expert_name=assigned))
    assert message.status is WorkflowStatus.SUCCESS
    assert team.ran == (["job"] if assigned else ["a", "b", "a", "b"])


async def test_an_experts_own_operators_may_be_called_as_sub_jobs_are():
    team = Team([split(part("do"), part("judge", "do"))], verdicts={"judge": [bad_data("do")]})
    assert (await team.leader.aexecute(JOB)).status is WorkflowStatus.SUCCESS
    assert team.ran == ["do", "judge", "do", "judge"]


# Splits that cannot be used


async def test_a_leader_is_told_all_that_is_wrong_with_its_split_until_it_can_be_used():
    wrong = split(
        part("a", expert="Xx"), part("a"), part("b", "z", goal=" "), part("c", "d"), part("d", "c"), part("a/b")
    )
    team = Team([wrong, "I would rather not.", split(), DIAMOND], reasoner=LooseReasoner, max_splits=4)
    assert (await team.leader.aexecute(JOB, lesson="be brief")).status is WorkflowStatus.SUCCESS
    first, second, third, fourth = team.split_lessons
    assert first == "be brief"
    told = second.splitlines()
    assert told[:2] == ["be brief", "Your last split cannot be used:"]
    assert sorted(line.split("]")[0] for line in told[2:]) == [
        "- [cycle", "- [duplicate-id", "- [id", "- [no-goal", "- [unknown-dependency", "- [unknown-expert",
    ]  # fmt: skip
    assert "a: no expert is called 'Xx' (did you mean 'X'?); there are: X, Y, Z" in second
    assert "the answer holds no JSON" in third
    assert "[empty] there is no sub-job" in fourth
    assert "[duplicate-id]" not in fourth
    [shown] = team.reasoner.tasks[1].workflow_messages
    assert (shown.scratchpad, shown.operator_id) == (wrong, "your last split")
    assert len(team.of_kind(events.JobSplit)) == 1


async def test_a_leader_that_never_learns_ends_with_all_that_is_wrong():
    team = Team(split(part("a", expert="W"), part("b", "q")), reasoner=LooseReasoner, max_splits=2)
    with pytest.raises(OperatorError) as caught:
        await team.leader.aexecute(JOB)
    text = str(caught.value)
    assert "leader 'Boss' made no valid split of job 'J' in 2 tries; the last one:" in text
    assert "[unknown-expert] a: no expert is called 'W'" in text
    assert "[unknown-dependency] b: depends on 'q', which is not a sub-job" in text
    assert (len(team.reasoner.tasks), team.ran) == (2, [])
    assert team.leader.open_jobs == ("J",)


async def test_of_a_split_with_countless_faults_only_some_are_said():
    team = Team(split(part("a", *(f"n{number}" for number in range(5000)))), max_splits=2)
    with pytest.raises(OperatorError, match=f"and {5000 - MAX_TOLD} more"):
        await team.leader.aexecute(JOB)
    assert len(team.split_lessons[1]) < 10_000


async def test_a_split_of_countless_parts_is_refused_at_once():
    team = Team([split(*(part(f"p{number}") for number in range(2000))), ALONE])
    await team.leader.aexecute(JOB)
    assert "2000 sub-jobs are more than 64: split more coarsely" in team.split_lessons[1]
    assert len(team.split_lessons[1]) < 200


async def test_a_model_whose_answers_are_refused_is_asked_a_bounded_number_of_times():
    unknown = {"sub_jobs": [part("a", expert="Nobody")]}
    with ScriptedModel(lambda request: Say(json.dumps(unknown))) as endpoint:
        leader = Leader(Profile(name="Boss"), Team().experts, MonoModelReasoner(endpoint.model), max_splits=2)
        with pytest.raises(OperatorError, match="made no valid split of job 'J' in 2 tries") as caught:
            await leader.aexecute(JOB)
    assert "'Nobody' is not one of ['X', 'Y', 'Z']" in str(caught.value)
    assert len(endpoint.requests) == 2 * 3


async def test_what_a_split_costs_counts():
    with ScriptedModel([Say(ALONE)]) as endpoint:
        team = Team()
        message = await Leader(Profile(name="Boss"), team.experts, MonoModelReasoner(endpoint.model)).aexecute(JOB)
    assert message.usage.calls == 2
    assert message.usage.tokens > TOKENS


# Data errors


async def test_a_data_error_sends_back_exactly_the_one_at_fault_and_what_follows_from_it():
    wide = split(part("a"), part("b", "a"), part("c", "b"), part("d", "a"), part("e", "c", "d"))
    team = Team([wide], verdicts={"c": [bad_data("b", lesson="give dates")]})
    message = await team.leader.aexecute(JOB)
    assert message.scratchpad == "e 1"
    assert sorted(team.ran) == ["a", "b", "b", "c", "c", "d", "e"]
    again = team.of("b")[1]
    assert again.lesson == "give dates"
    assert again.given == {"a": "a 1"}
    assert team.of("c")[1].given == {"b": "b 2"}
    assert all(call.lesson is None for call in team.calls if call is not again)
    assert message.usage.tokens == TOKENS * 7


async def test_a_blamed_part_that_is_a_function_gets_the_job_again_and_not_its_earlier_result():
    lessons = []

    def find(text: str, context: RunContext) -> str:
        lessons.append(context.lesson)
        return text.upper()

    team = Team(verdicts={"b": [bad_data("a")]})
    one = Expert(Profile(name="X", description="finds"), BuiltinWorkflow(find), ScriptedReasoner([]))
    two = split(part("a"), part("b", "a", expert="Y"))
    leader = Leader(Profile(name="Boss"), [one, *team.experts[1:]], ScriptedReasoner([two]))
    assert (await leader.aexecute(JOB)).scratchpad == "b 2"
    assert lessons == ["", "better data"]
    assert [call.given for call in team.calls] == [{"a": "DO A"}] * 2


async def test_a_data_error_goes_two_levels_up_when_the_one_at_fault_complains_itself():
    team = Team(
        [CHAIN],
        verdicts={"c": [bad_data("b", lesson="give dates")], "b": [FINE, bad_data("a", lesson="give data")]},
    )
    assert (await team.leader.aexecute(JOB)).scratchpad == "c 2"
    assert team.ran == ["a", "b", "c", "b", "a", "b", "c"]
    assert [call.lesson for call in team.of("a")] == [None, "give data"]
    assert [call.lesson for call in team.of("b")] == [None, "give dates", "give dates"]
    assert [call.lesson for call in team.of("c")] == [None, None]


async def test_lessons_pile_up_without_doubles_newest_last():
    lessons = ["dates", "names", "dates"]
    team = Team([TWO], verdicts={"b": [bad_data("a", lesson=lesson) for lesson in lessons]}, life_cycles=4)
    await team.leader.aexecute(JOB, lesson="be brief")
    assert [call.lesson for call in team.of("a")] == [
        "be brief", "be brief\ndates", "be brief\ndates\nnames", "be brief\nnames\ndates",
    ]  # fmt: skip
    assert {call.lesson for call in team.of("b")} == {"be brief"}


@pytest.mark.parametrize(
    ("blame", "again"),
    [(("b",), "b"), (("c",), "c"), ((), "bc"), (("do",), "bc"), (("nobody",), "bc"), (("a",), "bc"), (("b", "z"), "b")],
)
async def test_those_are_done_again_that_are_blamed_or_all_before_where_nobody_is(blame, again):
    team = Team([DIAMOND], verdicts={"d": [bad_data(*blame)]})
    await team.leader.aexecute(JOB)
    assert sorted(team.ran) == sorted(["a", "b", "c", "d", *again, "d"])
    assert sorted(call.job.id for call in team.calls if call.lesson) == list(again)


async def test_two_that_complain_of_the_same_in_one_round_cost_it_one_life():
    both = split(part("a"), part("b", "a"), part("c", "a"))
    verdicts = {"b": [bad_data(lesson="dates")], "c": [bad_data(lesson="names"), bad_data(lesson="places")]}
    team = Team([both], verdicts=verdicts, life_cycles=3)
    assert (await team.leader.aexecute(JOB)).status is WorkflowStatus.SUCCESS
    first, second, third = [(call.lesson or "").splitlines() for call in team.of("a")]
    assert (first, set(second), set(third)) == ([], {"dates", "names"}, {"dates", "names", "places"})
    assert third[-1] == "places"  # the newest last; the first two were said at once


async def test_wrong_data_with_nobody_to_blame_goes_to_the_caller():
    team = Team([CHAIN], verdicts={"a": bad_data(says="no data at all")})
    message = await team.leader.aexecute(JOB)
    assert message.status is WorkflowStatus.INPUT_DATA_ERROR
    assert message.evaluation == "expert 'X' cannot do sub-job 'a': no data at all. Done by then: nothing."
    assert (message.lesson, message.blame, message.operator_id) == ("better data", (), "leader")
    assert team.ran == ["a"]


async def test_wrong_data_from_earlier_experts_is_blamed_on_them():
    team = Team([CHAIN], verdicts={"b": bad_data("crawler")})
    message = await team.leader.aexecute(JOB, [WorkflowMessage(operator_id="crawler", scratchpad="pages")])
    assert (message.status, message.blame) == (WorkflowStatus.INPUT_DATA_ERROR, ("crawler",))
    assert team.ran == ["a", "b"]
    assert [(done.operator_id, done.scratchpad) for done in message.parts] == [("a", "a 1")]


async def test_one_that_never_learns_has_a_bounded_number_of_lives():
    team = Team([TWO], verdicts={"b": bad_data(lesson="dates")}, life_cycles=3)
    message = await team.leader.aexecute(JOB)
    assert (message.status, message.blame) == (WorkflowStatus.INPUT_DATA_ERROR, ("a",))
    assert "expert 'X' cannot do sub-job 'b': bad data; 'a' has used its 3 life cycles" in message.evaluation
    assert (len(team.of("a")), len(team.of("b"))) == (3, 3)


async def test_with_one_life_nothing_is_done_again():
    team = Team([TWO], verdicts={"b": bad_data()}, life_cycles=1)
    message = await team.leader.aexecute(JOB)
    assert (message.status, team.ran) == (WorkflowStatus.INPUT_DATA_ERROR, ["a", "b"])


async def test_all_lives_of_all_sub_jobs_may_be_used_before_it_succeeds():
    verdicts = {"c": [bad_data()] * 2, "b": [FINE, bad_data(), FINE, bad_data(), FINE], "d": [bad_data("c")] * 2}
    chain = split(part("a"), part("b", "a"), part("c", "b"), part("d", "c"))
    team = Team([chain], verdicts=verdicts)
    assert (await team.leader.aexecute(JOB)).status is WorkflowStatus.SUCCESS
    assert {name: len(team.of(name)) for name in "abcd"} == {"a": 3, "b": 6, "c": 5, "d": 3}  # `b`: once as suspected


async def test_a_verdict_without_words_still_says_something():
    silent = WorkflowMessage(status=WorkflowStatus.INPUT_DATA_ERROR)
    team = Team([TWO], verdicts={"b": [silent]})
    await team.leader.aexecute(JOB)
    assert team.of("a")[1].lesson == "its input is at fault"


def test_what_does_not_depend_on_a_complaint_goes_on_meanwhile():
    async def slow(call):
        await asyncio.sleep(60)
        return "slow"

    wide = split(part("a"), part("b", "a"), part("slow"), part("end", "b", "slow"))
    team = Team([wide], verdicts={"b": [bad_data("a")]}, work={"slow": slow})
    run_on_fake_clock(team.leader.aexecute(JOB))
    assert sorted(team.ran) == ["a", "a", "b", "b", "end", "slow"]


# Splits of splits

HALVES = split(part("1"), part("2", "1"))


async def test_a_job_that_is_too_complicated_is_split_and_results_flow_in_and_out():
    team = Team([CHAIN, HALVES], verdicts={"b": TOO_MUCH})
    message = await team.leader.aexecute(JOB)
    assert message.scratchpad == "c 1"
    assert {call.job.id: call.given for call in team.calls} == {
        "a": {}, "b": {"a": "a 1"}, "b.1": {"a": "a 1"}, "b.2": {"a": "a 1", "b.1": "b.1 1"}, "c": {"b": "b.2 1"},
    }  # fmt: skip
    task = team.reasoner.tasks[1]
    assert (task.job.id, task.lesson) == ("b", "too much\nin two")
    assert [message.operator_id for message in task.previous_expert_outputs] == ["a"]
    assert [job.id for event in team.of_kind(events.JobSplit) for job in event.sub_jobs] == [
        "a",
        "b",
        "c",
        "b.1",
        "b.2",
    ]
    assert [job.parent_id for job in team.of_kind(events.JobSplit)[1].sub_jobs] == ["J", "J"]
    assert team.of_kind(events.JobSplit)[1].path == ("leader", "b")
    assert message.usage.tokens == TOKENS * 5


async def test_parts_are_split_until_a_depth_and_no_further():
    verdicts = dict.fromkeys(["a", "a.a", "a.a.a"], TOO_MUCH)
    team = Team(ALONE, verdicts=verdicts, max_depth=3)
    message = await team.leader.aexecute(JOB)
    assert team.ran == ["a", "a.a", "a.a.a"]
    assert (message.status, message.blame) == (WorkflowStatus.JOB_TOO_COMPLICATED_ERROR, ("a.a.a",))
    assert "'a.a.a': too much; parts of parts go 3 levels deep at most. Done by then: nothing." in message.evaluation
    assert (await Team(ALONE, verdicts=verdicts, max_depth=4).leader.aexecute(JOB)).status is WorkflowStatus.SUCCESS


async def test_the_first_of_the_parts_with_nobody_to_blame_complains_of_what_came_from_outside():
    team = Team([CHAIN, HALVES], verdicts={"b": [TOO_MUCH], "b.1": [bad_data(lesson="dates")]})
    assert (await team.leader.aexecute(JOB)).status is WorkflowStatus.SUCCESS
    assert team.ran == ["a", "b", "b.1", "a", "b.1", "b.2", "c"]


async def test_a_part_that_complains_of_another_stays_among_the_parts():
    team = Team([CHAIN, HALVES], verdicts={"b": [TOO_MUCH], "b.2": [bad_data("b.1")]})
    assert (await team.leader.aexecute(JOB)).status is WorkflowStatus.SUCCESS
    assert team.ran == ["a", "b", "b.1", "b.2", "b.1", "b.2", "c"]


async def test_a_part_that_never_learns_is_not_the_fault_of_those_outside():
    team = Team([CHAIN, HALVES], verdicts={"b": [TOO_MUCH], "b.2": bad_data("b.1")}, life_cycles=2)
    message = await team.leader.aexecute(JOB)
    assert (message.status, message.blame) == (WorkflowStatus.INPUT_DATA_ERROR, ("b.1",))
    assert "'b.1' has used its 2 life cycles" in message.evaluation
    assert team.ran == ["a", "b", "b.1", "b.2", "b.1", "b.2"]


async def test_a_complaint_crosses_as_many_borders_as_it_takes():
    verdicts = {"b": [TOO_MUCH], "b.2": [TOO_MUCH], "b.2.2": [bad_data("a", lesson="dates")]}
    team = Team([CHAIN, HALVES, HALVES], verdicts=verdicts)
    assert (await team.leader.aexecute(JOB)).status is WorkflowStatus.SUCCESS
    assert [call.lesson for call in team.of("a")] == [None, "dates"]
    inside = ["b.1", "b.2.1", "b.2.2"]
    assert team.ran == ["a", "b", "b.1", "b.2", "b.2.1", "b.2.2", "a", *inside, "c"]


async def test_of_a_split_sub_job_only_the_tails_are_done_again_and_the_others_are_kept():
    three = split(part("1"), part("2", "1"), part("3", "1"))
    team = Team([CHAIN, three], verdicts={"b": [TOO_MUCH], "c": [bad_data("b", lesson="dates")]})
    message = await team.leader.aexecute(JOB)
    assert message.status is WorkflowStatus.SUCCESS
    assert team.ran == ["a", "b", "b.1", "b.2", "b.3", "c", "b.2", "b.3", "c"]
    assert [(call.job.id, call.lesson) for call in team.calls if call.lesson] == [("b.2", "dates"), ("b.3", "dates")]
    assert message.usage.tokens == TOKENS * 9


async def test_a_complaint_of_a_split_of_a_split_reaches_the_tail_of_the_tail():
    verdicts = {"b": [TOO_MUCH], "b.2": [TOO_MUCH], "c": [bad_data("b", lesson="dates")]}
    team = Team([CHAIN, HALVES, HALVES], verdicts=verdicts)
    await team.leader.aexecute(JOB)
    assert team.ran == ["a", "b", "b.1", "b.2", "b.2.1", "b.2.2", "c", "b.2.2", "c"]
    assert team.calls[-2].lesson == "dates"


async def test_a_tail_that_is_done_again_may_complain_of_a_part_that_was_kept():
    verdicts = {"b": [TOO_MUCH], "c": [bad_data("b")], "b.2": [FINE, bad_data("b.1", lesson="more")]}
    team = Team([CHAIN, HALVES], verdicts=verdicts)
    assert (await team.leader.aexecute(JOB)).status is WorkflowStatus.SUCCESS
    assert team.ran == ["a", "b", "b.1", "b.2", "c", "b.2", "b.1", "b.2", "c"]


async def test_lessons_of_a_sub_job_that_is_split_later_go_to_its_tails():
    team = Team([TWO, HALVES], verdicts={"a": [FINE, TOO_MUCH], "b": [bad_data("a", lesson="dates")]})
    assert (await team.leader.aexecute(JOB)).status is WorkflowStatus.SUCCESS
    assert team.ran == ["a", "b", "a", "a.1", "a.2", "b"]
    assert [team.of(name)[0].lesson for name in ("a.1", "a.2")] == [None, "dates"]


async def test_a_split_of_a_part_that_cannot_be_used_says_what_was_done_by_then():
    team = Team([CHAIN, *["no"] * 3], verdicts={"b": TOO_MUCH})
    with pytest.raises(OperatorError) as caught:
        await team.leader.aexecute(JOB)
    assert "made no valid split of job 'b' in 3 tries" in str(caught.value)
    assert str(caught.value).endswith("Done by then: a.")
    assert isinstance(caught.value.__cause__, JobError)
    assert caught.value.__cause__.operator_id == "b"


async def test_a_part_whose_split_raises_is_not_tried_again():
    team = Team([CHAIN, ConnectionError("no line"), HALVES], verdicts={"b": [TOO_MUCH, TOO_MUCH]})
    with pytest.raises(
        OperatorError, match=r"sub-job 'b' is too complicated, and could not be split: ConnectionError:"
    ):
        await team.leader.aexecute(JOB)
    assert team.ran == ["a", "b"]
    assert (await team.leader.arecover("J")).status is WorkflowStatus.SUCCESS
    assert team.ran == ["a", "b", "b", "b.1", "b.2", "c"]


# Errors


async def test_an_expert_that_fails_is_named_with_the_sub_job_the_operator_and_what_was_done():
    broken = [True]

    def work(call):
        if broken:
            raise ValueError("no ink")
        return "written"

    team = Team([CHAIN], work={"b": work})
    with pytest.raises(OperatorError) as caught:
        await team.leader.aexecute(JOB)
    assert str(caught.value) == (
        "operator 'leader' of workflow 'Boss' failed on attempt 1: expert 'X' failed at sub-job 'b': operator 'do' of "
        "workflow 'X' failed on attempt 1: ValueError: no ink. Done by then: a."
    )
    error = caught.value.__cause__
    assert isinstance(error, JobError)
    assert (error.operator_id, error.verdict) == ("b", None)
    assert isinstance(error.__cause__, OperatorError)
    broken.clear()
    message = await team.leader.arecover("J")
    assert message.scratchpad == "c 1"
    assert team.ran == ["a", "b", "b", "c"]
    assert message.usage.tokens == TOKENS * 2


async def test_an_expert_that_fails_in_a_part_of_a_part_is_named_all_the_same():
    def work(call):
        raise ValueError("no ink")

    team = Team([CHAIN, HALVES], verdicts={"b": TOO_MUCH}, work={"b.2": work})
    with pytest.raises(OperatorError, match=r"expert 'X' failed at sub-job 'b\.2': .*no ink\. Done by then: a, b\.1\."):
        await team.leader.aexecute(JOB)


async def test_an_error_stops_the_others_and_leaves_no_task_behind():
    begun, stopped = {"a": asyncio.Event(), "c": asyncio.Event()}, []

    async def slow(call):
        begun[call.job.id].set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            stopped.append(call.job.id)
            raise

    async def fails(call):
        for each in begun.values():
            await each.wait()
        raise ValueError("no ink")

    team = Team([split(part("a"), part("b"), part("c"))], work={"a": slow, "b": fails, "c": slow})
    before = asyncio.all_tasks()
    with pytest.raises(OperatorError, match="no ink"):
        await team.leader.aexecute(JOB)
    assert sorted(stopped) == ["a", "c"]
    assert asyncio.all_tasks() == before


async def test_an_expert_whose_workflow_cannot_be_built_is_named():
    empty = Expert(Profile(name="Empty"), BuiltinWorkflow(name="hollow"), NOBODY)
    leader = Leader(Profile(name="Boss"), [empty], ScriptedReasoner([split(part("a", expert="Empty"))]))
    with pytest.raises(OperatorError, match="expert 'Empty' failed at sub-job 'a': workflow 'hollow' cannot be built"):
        await leader.aexecute(JOB)


async def test_work_that_stays_botched_ends_the_job_with_what_was_done():
    team = Team([CHAIN], verdicts={"b": BOTCHED}, rounds=2)
    message = await team.leader.aexecute(JOB)
    assert (message.status, message.lesson, message.blame) == (WorkflowStatus.EXECUTION_ERROR, "no blots", ("b",))
    assert message.evaluation.startswith("expert 'X' cannot do sub-job 'b': botched\nNone of 2 rounds succeeded")
    assert message.evaluation.endswith("Done by then: a.")
    assert message.scratchpad.startswith("b ")
    assert [(done.operator_id, done.scratchpad) for done in message.parts] == [("a", "a 1")]
    assert team.ran == ["a", "b", "b"]
    assert message.usage.tokens == TOKENS * 3
    assert message.operator_id == "leader"


async def test_a_job_with_a_budget_ends_when_it_is_used_up_and_can_go_on():
    team = Team([CHAIN], budget=Budget(tokens=2 * TOKENS))
    with pytest.raises(BudgetError, match=r"workflow 'Boss' has used up its budget") as caught:
        await team.leader.aexecute(JOB)
    assert {"leader/a", "leader/a/do"} <= caught.value.finished.keys()
    assert team.leader.open_jobs == ("J",)
    assert (await team.leader.arecover("J")).scratchpad == "c 2"
    assert team.ran == ["a", "b", "c", "c"]  # the third call was one too many


async def test_an_experts_own_budget_ends_the_job():
    team = Team([TWO], verdicts={"b": bad_data()})
    team.experts[0].workflow.budget = Budget(tokens=TOKENS - 1)
    with pytest.raises(BudgetError, match="workflow 'X' has used up its budget"):
        await team.leader.aexecute(JOB)


@pytest.mark.parametrize("option", ["max_splits", "life_cycles", "max_depth"])
@pytest.mark.parametrize("number", [0, -1, "3", True])
def test_numbers_below_1_are_refused(option, number):
    with pytest.raises(InvalidError, match=rf"Leader\.{option}"):
        Team(**{option: number})


def test_a_leader_needs_experts_of_different_names():
    with pytest.raises(InvalidError, match=r"leader 'Boss': 1 issue\n.*no-experts.*give it at least one expert"):
        Leader(Profile(name="Boss"), [], NOBODY)
    twins = [Expert(Profile(name=name), BuiltinWorkflow(), NOBODY) for name in ("B", "A", "B", "A", "C")]
    with pytest.raises(InvalidError) as caught:
        Leader(Profile(name="Boss"), twins, NOBODY)
    assert [(issue.code, issue.where) for issue in caught.value.issues] == [
        ("duplicate-name", "B"), ("duplicate-name", "A"),
    ]  # fmt: skip


# Stop, fail, recover


class Gate:
    """Work that says that it has begun and waits to be let through, the first time."""

    def __init__(self):
        self.begun, self.open = asyncio.Event(), asyncio.Event()

    async def __call__(self, call):
        self.begun.set()
        await self.open.wait()
        return f"{call.job.id} {call.number}"


async def test_a_job_that_is_stopped_tells_what_was_done_and_goes_on_with_the_rest():
    gate = Gate()
    team = Team([CHAIN], work={"b": gate})
    running = asyncio.ensure_future(team.leader.aexecute(JOB))
    await gate.begun.wait()
    assert team.leader.open_jobs == ("J",)
    graph = team.leader.job_graph("J")
    assert graph
    assert graph.tails == ("c",)
    assert team.leader.job_graph("J", "b") is None
    team.leader.stop("J", "lunch")
    message = await running
    assert message.status is WorkflowStatus.EXECUTION_ERROR
    assert message.evaluation == "The job was stopped: lunch. Done by then: a."
    assert [(done.operator_id, done.scratchpad) for done in message.parts] == [("a", "a 1")]
    assert message.usage.tokens == TOKENS * 2
    gate.open.set()
    message = await team.leader.arecover("J")
    assert (message.scratchpad, message.usage.tokens) == ("c 1", TOKENS * 2)
    assert team.ran == ["a", "b", "b", "c"]
    assert len(team.reasoner.tasks) == 1
    assert team.leader.open_jobs == ()


async def test_a_job_that_is_done_again_as_it_was_given_goes_on_and_otherwise_begins_anew():
    gate = Gate()
    team = Team([TWO, TWO], work={"b": gate})
    for _ in range(2):
        running = asyncio.ensure_future(team.leader.aexecute(JOB))
        await gate.begun.wait()
        gate.begun.clear()
        team.leader.stop("J")
        await running
    assert team.ran == ["a", "b", "b"]
    gate.open.set()
    message = await team.leader.aexecute(JOB, [WorkflowMessage(operator_id="crawler", scratchpad="pages")])
    assert message.scratchpad == "b 3"
    assert team.ran == ["a", "b", "b", "a", "b"]
    assert len(team.reasoner.tasks) == 2


def in_parallel(ran, *places):
    """The names, where each two from these places on may have begun in either order."""
    names = list(ran)
    for place in places:
        names[place : place + 2] = sorted(names[place : place + 2])
    return names


async def test_one_that_was_found_at_fault_is_done_again_though_its_job_was_stopped_first():
    gate = Gate()
    team = Team([split(part("a"), part("b", "a"), part("c", "a"))], verdicts={"b": [bad_data(lesson="dates")]})
    team.work["a"] = lambda call: gate(call) if call.number == 2 else f"a {call.number}"
    running = asyncio.ensure_future(team.leader.aexecute(JOB))
    await gate.begun.wait()
    team.leader.stop("J")
    message = await running
    assert [done.operator_id for done in message.parts] == ["c"]
    message = await team.leader.arecover("J")
    assert in_parallel(team.ran, 1, 5) == ["a", "b", "c", "a", "a", "b", "c"]
    assert [call.lesson for call in team.of("a")] == [None, "dates", "dates"]
    assert message.scratchpad == "b 2\n\nc 2"


async def test_followers_of_one_that_says_the_same_again_are_kept_when_a_job_goes_on():
    gate = Gate()
    team = Team([split(part("a"), part("b", "a"), part("c", "a"))], verdicts={"b": [bad_data(lesson="dates")]})
    team.work["a"] = lambda call: gate(call) if call.number == 2 else "the same"
    running = asyncio.ensure_future(team.leader.aexecute(JOB))
    await gate.begun.wait()
    team.leader.stop("J")
    await running
    await team.leader.arecover("J")
    assert in_parallel(team.ran, 1) == ["a", "b", "c", "a", "a", "b"]


async def test_the_tails_of_a_split_are_done_again_though_all_was_done_before_it_went_on():
    gate = Gate()
    team = Team([CHAIN, HALVES], verdicts={"b": [TOO_MUCH], "c": [bad_data("b", lesson="dates")]}, work={"c": gate})
    running = asyncio.ensure_future(team.leader.aexecute(JOB))
    await gate.begun.wait()
    graph = team.leader.job_graph("J", "b")
    assert graph
    assert graph.tails == ("b.2",)
    team.leader.stop("J")
    await running
    gate.open.set()
    message = await team.leader.arecover("J")
    assert message.status is WorkflowStatus.SUCCESS
    assert team.ran == ["a", "b", "b.1", "b.2", "c", "c", "b.2", "c"]
    assert team.of("b.2")[1].lesson == "dates"
    assert message.usage.tokens == TOKENS * 3


async def test_a_job_that_goes_on_does_not_do_parts_of_parts_again():
    gate = Gate()
    team = Team([CHAIN, HALVES], verdicts={"b": [TOO_MUCH]}, work={"b.2": gate})
    running = asyncio.ensure_future(team.leader.aexecute(JOB))
    await gate.begun.wait()
    team.leader.stop("J")
    assert (await running).evaluation == "The job was stopped. Done by then: a, b.1."
    gate.open.set()
    assert (await team.leader.arecover("J")).scratchpad == "c 1"
    assert team.ran == ["a", "b", "b.1", "b.2", "b.2", "c"]


async def test_outputs_that_cannot_be_compared_do_not_keep_a_job_from_going_on():
    class Odd:
        def __eq__(self, other):
            raise ValueError("compare element by element")

        def __hash__(self):
            return 0

    gate = Gate()
    team = Team([CHAIN], work={"c": gate})
    team.work["a"] = lambda call: WorkflowMessage(scratchpad="a", outputs={"table": Odd()})
    given = [WorkflowMessage(operator_id="crawler", outputs={"table": Odd()})]
    running = asyncio.ensure_future(team.leader.aexecute(JOB, given))
    await gate.begun.wait()
    team.leader.stop("J")
    await running
    gate.open.set()
    await team.leader.arecover("J")
    assert team.ran == ["a", "b", "c", "c"]


@pytest.mark.parametrize("ends", ["stop", "fail"])
async def test_a_job_may_be_ended_twice(ends):
    gate = Gate()
    team = Team([ALONE], work={"a": gate})
    running = asyncio.ensure_future(team.leader.aexecute(JOB))
    await gate.begun.wait()
    getattr(team.leader, ends)("J", "first")
    getattr(team.leader, ends)("J", "second")
    assert "second. Done by then: nothing." in (await running).evaluation
    with pytest.raises(InputError, match=r"job 'J' is not in progress|no open job has the id 'J'"):
        team.leader.stop("J")


async def test_nothing_is_kept_of_a_job_that_was_failed():
    gate = Gate()
    team = Team([TWO, ALONE], work={"b": gate})
    running = asyncio.ensure_future(team.leader.aexecute(JOB))
    await gate.begun.wait()
    team.leader.fail("J", "too dear")
    assert (await running).evaluation == "The job was failed: too dear. Done by then: a."
    assert team.leader.open_jobs == ()
    with pytest.raises(InputError):
        await team.leader.arecover("J")
    assert (await team.leader.aexecute(JOB)).scratchpad == "a 2"


async def test_a_job_that_ended_early_can_be_failed_later():
    team = Team([ALONE], verdicts={"a": BOTCHED})
    await team.leader.aexecute(JOB)
    assert team.leader.open_jobs == ("J",)
    team.leader.fail("J")
    assert team.leader.open_jobs == ()


async def test_nothing_is_kept_of_a_job_that_was_failed_while_its_expert_failed():
    def work(call):
        team.leader.fail("J")
        raise ValueError("no ink")

    team = Team([ALONE])
    team.work["a"] = work
    assert (await team.leader.aexecute(JOB)).evaluation == "The job was failed. Done by then: nothing."
    assert team.leader.open_jobs == ()


@pytest.mark.parametrize("call", ["stop", "fail", "job_graph"])
async def test_an_unknown_job_is_told_the_nearest_id(call):
    team = Team([ALONE], verdicts={"a": BOTCHED})
    await team.leader.aexecute(Job(goal="g", id="report-1"))
    with pytest.raises(InputError, match=r"no open job has the id 'report-2' \(did you mean 'report-1'\?\)"):
        getattr(team.leader, call)("report-2")
    with pytest.raises(InputError, match=r"no open job has the id 'report-2' \(did you mean 'report-1'\?\)"):
        await team.leader.arecover("report-2")


async def test_a_job_that_is_being_done_can_be_neither_recovered_nor_begun_again():
    gate = Gate()
    team = Team([ALONE], work={"a": gate})
    running = asyncio.ensure_future(team.leader.aexecute(JOB))
    await gate.begun.wait()
    with pytest.raises(InputError, match="job 'J' is in progress; wait for it, or stop it first"):
        await team.leader.arecover("J")
    with pytest.raises(OperatorError, match="job 'J' is in progress; wait for it, or stop it first"):
        await team.leader.aexecute(JOB)
    gate.open.set()
    assert (await running).scratchpad == "a 1"


async def test_a_job_is_stopped_by_an_operator_inside_it():
    async def work(call):
        team.leader.stop("J", "I am done for")
        await asyncio.sleep(3600)

    team = Team([CHAIN])
    team.work["b"] = work
    assert (await team.leader.aexecute(JOB)).evaluation == "The job was stopped: I am done for. Done by then: a."


def test_a_job_is_stopped_and_goes_on_from_another_thread():
    begun, let_through = threading.Event(), threading.Event()

    async def work(call):
        begun.set()
        while not let_through.is_set():
            await asyncio.sleep(0.001)
        return "through"

    team = Team([TWO], work={"b": work})
    messages = []
    thread = threading.Thread(target=lambda: messages.append(team.leader.execute(JOB)))
    thread.start()
    assert begun.wait(60)
    team.leader.stop("J", "from outside")
    thread.join(60)
    assert messages[0].evaluation == "The job was stopped: from outside. Done by then: a."
    let_through.set()
    assert team.leader.recover("J").scratchpad == "through"
    assert team.ran == ["a", "b", "b"]


@pytest.mark.parametrize("how", ["workflow", "task", "stream"])
async def test_a_run_that_was_cancelled_goes_on(how):
    gate = Gate()
    team = Team([CHAIN], work={"b": gate})

    async def consume():
        async for _ in team.leader.stream(JOB, run_id="R"):
            pass

    execute = consume() if how == "stream" else team.leader.aexecute(JOB, run_id="R")
    running = asyncio.ensure_future(execute)
    await gate.begun.wait()
    if how == "workflow":
        await team.leader.workflow.cancel("R")
    else:
        running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    gate.open.set()
    assert team.leader.open_jobs == ("J",)
    assert (await team.leader.arecover("J", run_id="R")).scratchpad == "c 1"
    assert team.ran == ["a", "b", "b", "c"]


def test_a_job_whose_event_loop_is_gone_goes_on_in_another():
    gates = []

    async def work(call):
        gates.append(call)
        if len(gates) == 1:
            await asyncio.sleep(3600)
        return "through"

    team = Team([TWO], work={"b": work})
    loop = asyncio.new_event_loop()
    task = loop.create_task(team.leader.aexecute(JOB))
    while not gates:
        loop.run_until_complete(asyncio.sleep(0))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.close()
    assert asyncio.run(team.leader.arecover("J")).scratchpad == "through"
    assert team.ran == ["a", "b", "b"]


async def test_a_split_that_was_stopped_is_asked_for_anew():
    begun = asyncio.Event()

    async def think(task):
        begun.set()
        await asyncio.sleep(3600)

    team = Team([think, ALONE])
    running = asyncio.ensure_future(team.leader.aexecute(JOB))
    await begun.wait()
    assert team.leader.job_graph("J") is None
    team.leader.stop("J")
    assert (await running).evaluation == "The job was stopped. Done by then: nothing."
    assert (await team.leader.arecover("J")).scratchpad == "a 1"


async def test_lives_begin_anew_when_a_job_goes_on():
    team = Team([TWO], verdicts={"b": [bad_data()] * 3}, life_cycles=2)
    assert (await team.leader.aexecute(JOB)).status is WorkflowStatus.INPUT_DATA_ERROR
    assert team.ran == ["a", "b", "a", "b"]
    assert (await team.leader.arecover("J")).status is WorkflowStatus.SUCCESS
    assert team.ran == ["a", "b", "a", "b", "b", "a", "b"]


async def test_of_the_jobs_that_ended_early_the_newest_are_remembered(monkeypatch):
    monkeypatch.setattr("operad.runtime.agents.leader.MAX_OPEN_JOBS", 2)
    assert MAX_OPEN_JOBS > 2
    team = Team(ALONE, verdicts={"a": BOTCHED})
    for name in ("1", "2", "3", "1", "4"):
        await team.leader.aexecute(Job(goal="g", id=name))
    assert team.leader.open_jobs == ("1", "4")


async def test_a_retry_of_the_leader_goes_on_where_it_was():
    def work(call):
        if call.number == 1:
            raise ConnectionError("busy")
        return "written"

    team = Team([CHAIN], work={"b": work})
    outer = BuiltinWorkflow(name="outer")
    retry = Policy(retry=Retry(attempts=2, first_delay=0.001, on=(JobError, OperatorError)))
    outer.add_operator(team.leader.workflow, policy=retry)
    assert (await outer.aexecute(JOB, team.reasoner)).scratchpad == "c 1"
    assert team.ran == ["a", "b", "b", "c"]


# Questions


async def test_a_question_inside_an_expert_is_answered_at_the_leaders_workflow():
    async def work(call):
        return f"{await interrupt('Which ink?', 'string')} ink"

    team = Team([DIAMOND], work={"b": work})
    with pytest.raises(PausedError) as caught:
        await team.leader.aexecute(JOB, run_id="R")
    [question] = caught.value.questions
    assert (question.id, question.text) == ("leader/b/do", "Which ink?")
    assert sorted(team.ran) == ["a", "b", "c"]
    message = await team.leader.workflow.aresume("R", {"leader/b/do": "blue"})
    assert message
    assert message.scratchpad == "d 1"
    assert team.of("d")[0].given == {"b": "blue ink", "c": "c 1"}


async def test_a_job_that_waits_for_an_answer_can_be_stopped():
    async def work(call):
        return await interrupt("Which ink?") if call.number == 1 else "no ink"

    team = Team([TWO], work={"b": work})
    with pytest.raises(PausedError):
        await team.leader.aexecute(JOB, run_id="R")
    with pytest.raises(InputError, match="is in progress"):
        await team.leader.arecover("J")
    team.leader.stop("J")
    while team.leader.workflow.questions("R"):
        await asyncio.sleep(0)
    message = await team.leader.workflow.aresume("R", {})
    assert message
    assert message.evaluation == "The job was stopped. Done by then: a."
    assert (await team.leader.arecover("J")).scratchpad == "no ink"


# Events


async def test_events_have_the_path_of_leader_sub_job_and_operator():
    team = Team([TWO, HALVES], verdicts={"b": [TOO_MUCH]})
    await team.leader.aexecute(JOB)
    assert ["/".join(event.path) for event in team.of_kind(events.OperatorFinished)] == [
        "leader/a/do", "leader/a/judge", "leader/a", "leader/b/do", "leader/b/judge", "leader/b/b.1/do",
        "leader/b/b.1/judge", "leader/b/b.1", "leader/b/b.2/do", "leader/b/b.2/judge", "leader/b/b.2", "leader/b", "leader",
    ]  # fmt: skip
    assert [event.as_dict()["sub_jobs"][0]["id"] for event in team.of_kind(events.JobSplit)] == ["a", "b.1"]
    json.dumps([event.as_dict() for event in team.heard])


async def test_rounds_tell_what_is_done_again():
    team = Team([DIAMOND], verdicts={"d": [bad_data("b")]})
    await team.leader.aexecute(JOB)
    rounds = [event for event in team.of_kind(events.RoundStarted) if event.path == ("leader",)]
    assert [event.operators for event in rounds] == [("a", "b", "c", "d"), ("b", "d")]


# The leader's workflow is a workflow


async def test_a_leader_has_an_evaluator_of_its_own():
    class Strict(Evaluator):
        async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
            [said] = workflow_messages or []
            return BOTCHED if said.scratchpad == "b 1" else FINE

    team = Team([TWO, TWO])
    team.leader.workflow.set_evaluator(Strict(OperatorConfig(instruction="Judge.", id="strict")))
    message = await team.leader.aexecute(JOB)
    assert (message.status, message.scratchpad) == (WorkflowStatus.SUCCESS, "b 2")
    assert (team.ran, team.split_lessons) == (["a", "b"] * 2, ["", "no blots"])


async def test_a_leader_with_rounds_splits_anew_with_the_lesson():
    class Strict(Evaluator):
        async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
            [said] = workflow_messages or []
            return BOTCHED if said.scratchpad == "b 1" else FINE

    team = Team([TWO, ALONE])
    workflow = BuiltinWorkflow(max_rounds=2, name="rounds")
    workflow.add_operator(team.leader.workflow)
    workflow.set_evaluator(Strict(OperatorConfig(instruction="Judge.", id="strict")))
    message = await workflow.aexecute(JOB, team.reasoner)
    assert (message.status, message.scratchpad) == (WorkflowStatus.SUCCESS, "a 2")
    assert team.split_lessons == ["", "no blots"]
    assert team.of("a")[1].lesson == "no blots"
    assert team.leader.open_jobs == ()


async def test_a_leader_is_an_operator_of_another_workflow():
    class Gather:
        def get_id(self):
            return "gather"

        async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
            return "pages"

    team = Team([])
    other = ScriptedReasoner([TWO])
    outer = BuiltinWorkflow(name="outer")
    gather = Gather()
    outer.add_operator(gather)
    outer.add_operator(team.leader.workflow, [gather])
    assert (await outer.aexecute(JOB, other)).scratchpad == "b 1"
    assert team.of("a")[0].given == {"gather": "pages"}
    assert team.of("b")[0].given == {"gather": "pages", "a": "a 1"}
    assert len(other.tasks) == 1
    paths = ["/".join(event.path) for event in team.of_kind(events.OperatorFinished)]
    assert paths[0] == "leader/a/do"


# Many at once, and doors


async def test_many_jobs_are_done_at_once():
    team = Team(DIAMOND, verdicts={"d": [bad_data("b")]})
    jobs = [Job(goal="g", id=f"J{number}") for number in range(50)]
    messages = await asyncio.gather(*map(team.leader.aexecute, jobs))
    assert {message.status for message in messages} == {WorkflowStatus.SUCCESS}
    assert [message.job_id for message in messages] == [job.id for job in jobs]
    assert len(team.ran) == 50 * 4 + 2
    assert team.leader.open_jobs == ()


def test_jobs_in_several_event_loops_do_not_meet():
    team = Team(DIAMOND, work={"a": lambda call: asyncio.sleep(0.001, "A")})
    results = []

    async def many(loop):
        jobs = [Job(goal="g", id=f"{loop}-{number}") for number in range(20)]
        stopped = [team.leader.aexecute(job) for job in jobs]
        results.extend(await asyncio.gather(*stopped))

    threads = [threading.Thread(target=asyncio.run, args=(many(loop),)) for loop in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [message.status for message in results] == [WorkflowStatus.SUCCESS] * 80
    assert team.leader.open_jobs == ()


def test_of_several_event_loops_that_want_the_same_job_one_gets_it():
    begun = threading.Barrier(4)

    async def slow(call):
        await asyncio.sleep(0.05)
        return "A"

    team = Team(ALONE, work={"a": slow})
    results = []

    async def one():
        begun.wait(60)
        results.extend(await asyncio.gather(team.leader.aexecute(JOB), return_exceptions=True))

    threads = [threading.Thread(target=asyncio.run, args=(one(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    done = [result for result in results if isinstance(result, WorkflowMessage)]
    assert len(results) == 4
    assert len(done) == len(team.ran)
    assert all("is in progress" in str(result) for result in results if result not in done)


def test_callers_without_an_event_loop_have_a_door():
    team = Team([TWO])
    assert team.leader.execute(JOB).scratchpad == "b 1"
    assert team.experts[0].execute(Job(goal="g", id="own")).scratchpad == "own 1"


async def test_the_door_is_shut_where_an_event_loop_runs():
    team = Team()
    with pytest.raises(RunningLoopError, match=r"use `await leader\.aexecute\(…\)`"):
        team.leader.execute(JOB)
    with pytest.raises(RunningLoopError, match=r"use `await leader\.arecover\(…\)`"):
        team.leader.recover("J")
    with pytest.raises(RunningLoopError, match=r"use `await expert\.aexecute\(…\)`"):
        team.experts[0].execute(JOB)


def test_a_leader_knows_its_team():
    team = Team()
    assert team.leader.experts == tuple(team.experts)
    assert team.leader.profile == Profile(name="Boss")


async def test_an_experts_workflow_that_ends_in_a_script_error_is_no_verdict():
    workflow = BuiltinWorkflow(name="W")
    workflow.add_operator(Operator(OperatorConfig(instruction="Do.", id="do")))
    expert = Expert(Profile(name="W"), workflow, ScriptedReasoner([]))
    leader = Leader(Profile(name="Boss"), [expert], ScriptedReasoner([split(part("a", expert="W"))]))
    with pytest.raises(OperatorError) as caught:
        await leader.aexecute(JOB)
    assert isinstance(causes(caught.value)[-1], UnexpectedStepError)


@pytest.mark.parametrize("concurrency", [1, 2])
async def test_a_map_over_a_leader_leads_for_each_item(concurrency):
    team = Team(work={"a": lambda call: asyncio.sleep(0, str(call.given))})
    each = BuiltinWorkflow(name="outer")
    each.add_operator(Map("each", team.leader.workflow, over="things", concurrency=concurrency))
    job = Job(goal="g", inputs={"things": ["figs", "dates"]})
    message = await each.aexecute(job, ScriptedReasoner(ALONE))
    assert message.outputs["items"] == ["{'each': 'figs'}", "{'each': 'dates'}"]


async def test_a_leader_may_be_an_expert_of_another_team():
    inner = Team([split(part("x"), part("y", "x", expert="Y"))] * 2)
    expert = Expert(Profile(name="Crew", description="does much"), inner.leader.workflow, inner.leader.reasoner)
    outer_split = split(part("a", expert="Crew"), part("b", expert="Crew"))
    leader = Leader(Profile(name="Boss"), [expert], ScriptedReasoner([outer_split]))
    message = await leader.aexecute(JOB)
    assert sorted(part.operator_id for part in message.parts) == ["a", "b"]
    assert sorted(call.job.id for call in inner.calls) == ["a.x", "a.y", "b.x", "b.y"]
    assert {call.job.parent_id for call in inner.calls} == {"J"}
    assert inner.leader.open_jobs == ()


async def test_a_model_that_is_too_small_to_lead_is_not_asked():
    class Small(ScriptedReasoner):
        writes_prose = False

    leader = Leader(Profile(name="Boss"), Team().experts, reasoner := Small([]))
    with pytest.raises(OperatorError, match="leader 'Boss': the embedded model cannot split jobs; set OPENAI_API_KEY"):
        await leader.aexecute(JOB)
    assert reasoner.tasks == []
    assert (await leader.aexecute(Job(goal="g", assigned_expert_name="X"))).status is WorkflowStatus.SUCCESS


async def test_an_experts_operator_may_blame_whoever_produced_its_input():
    def write(task):
        if "dated" not in task.previous_expert_outputs[0].scratchpad:
            raise FaultError("no dates", lesson="Give dates.", blame=["a"])
        return "text"

    def expert(name, answer):
        workflow = BuiltinWorkflow(max_rounds=3, name=name)
        workflow.add_operator(Operator(OperatorConfig(instruction=name, id="do")))
        return Expert(Profile(name=name), workflow, ScriptedReasoner(answer))

    team = [expert("X", lambda task: "dated" if task.lesson else "bare"), expert("Y", write)]
    parts = split(part("a", expert="X"), part("b", "a", expert="Y"))
    message = await Leader(Profile(name="Boss"), team, ScriptedReasoner([parts])).aexecute(JOB)
    assert (message.status, message.scratchpad) == (WorkflowStatus.SUCCESS, "text")
    asked = [task.lesson for task in cast("ScriptedReasoner", team[0].reasoner).tasks]
    assert asked == ["", "Give dates."]
    assert len(cast("ScriptedReasoner", team[1].reasoner).tasks) == 2


@pytest.mark.parametrize("given", [False, True])
def test_an_expert_uses_its_own_reasoner_or_else_the_model_of_its_workflow_also_in_a_team(given):
    of_workflow, own = ScriptedReasoner(lambda task: "of the workflow"), ScriptedReasoner(lambda task: "own")
    workflow = BuiltinWorkflow(Operator("Answer."), model=of_workflow)
    expert = Expert(Profile(name="X"), workflow, own if given else None)
    leader = Leader(Profile(name="Boss"), [expert], ScriptedReasoner([split(part("a"))]))
    told = [expert.execute("x").scratchpad, expert.chat().send("x").text, leader.execute("x").scratchpad]
    assert told == ["own" if given else "of the workflow"] * 3
