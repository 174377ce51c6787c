"""A leader: it splits a job over its experts, and heeds their verdicts."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any, NoReturn

from operad.runtime.agents.agent import Agent, Expert, Profile
from operad.runtime.agents.job_graph import JobGraph
from operad.runtime.agents.split import Splitter
from operad.runtime.events.journal import once
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.policies.deadline import ended
from operad.runtime.policies.policy import Budget, causes, check_positive
from operad.runtime.reasoning.reasoner import Reasoner
from operad.runtime.tools.toolkit import Action, Toolkit
from operad.runtime.values.errors import (
    BudgetError,
    FaultError,
    InputError,
    InvalidError,
    Issue,
    JobError,
    OperatorError,
    SkippedError,
    describe,
    did_you_mean,
    shorten,
)
from operad.runtime.values.message import NO_USAGE, Job, SubJob, WorkflowMessage, WorkflowStatus
from operad.runtime.values.sync import run_sync
from operad.runtime.workflow.memory import DEFAULT_TOKENS
from operad.runtime.workflow.verdict import fault_in
from operad.runtime.workflow.within import run_inside
from operad.runtime.workflow.workflow import BuiltinWorkflow, Workflow

MAX_OPEN_JOBS = 1_000
"""How many jobs that ended early a leader remembers, so that they can be recovered."""


class Leader(Agent):
    """Splits a job into a graph of sub-jobs over its experts and has them done (Chat2Graph, Leader).

        team = [Expert(Profile(name="Fact checker"), Workflow(facts), MonoModelReasoner())]
        leader = Leader(Profile(name="Editor"), team, MonoModelReasoner())
        print(leader)

    Sub-jobs that do not wait for each other are done at once; each gets the results of those that it
    depends on. A job whose `assigned_expert_name` is set goes to that expert unsplit. What an
    expert's verdict leads to:

    - SUCCESS: those that wait for it may begin.
    - EXECUTION_ERROR, after all rounds of the expert's workflow: the job ends with that verdict.
    - INPUT_DATA_ERROR: the sub-jobs that it blames, or all that it depends on, are done again with its
      lesson, and so is all that follows from them. At the beginning of the graph nobody is to
      blame, and the job ends with that verdict.
    - JOB_TOO_COMPLICATED_ERROR: the sub-job is split, and its parts take its place.

    Args:
        profile: How it presents itself.
        experts: Its team.
        reasoner: Who splits.
        actions: What may be done in order to split well.
        toolkit: The graph that recommends actions and tools; by default just these actions.
        max_splits: How often at most it is asked for a split that can be used.
        life_cycles: How often at most a sub-job is done because others say that its result is at fault,
            the first time included.
        max_depth: How many levels of parts of parts there may be.
        budget: What a whole job may use.
        memory: Tokens that a conversation may have in a prompt.

    Raises:
        InvalidError: There are no experts, or two of one name; a number is below 1.
    """

    def __init__(
        self,
        profile: Profile,
        experts: Sequence[Expert],
        reasoner: Reasoner,
        *,
        actions: Sequence[Action] = (),
        toolkit: Toolkit | None = None,
        max_splits: int = 3,
        life_cycles: int = 3,
        max_depth: int = 3,
        budget: Budget | None = None,
        memory: int = DEFAULT_TOKENS,
    ) -> None:
        counts = {"max_splits": max_splits, "life_cycles": life_cycles, "max_depth": max_depth}
        check_positive("Leader", tuple(counts), **counts)
        names = [expert.profile.name for expert in experts]
        issues = [] if experts else [Issue("no-experts", "give it at least one expert")]
        issues += [
            Issue("duplicate-name", f"{count} experts are called so", name)
            for name, count in Counter(names).items()
            if count > 1
        ]
        if issues:
            raise InvalidError(f"leader {profile.name!r}", issues)
        splitter = Splitter(
            profile.name,
            [expert.profile for expert in experts],
            tuple(actions),
            toolkit or Toolkit.of(actions),
            max_splits,
        )
        self._lead = _Lead({expert.profile.name: expert for expert in experts}, splitter, life_cycles, max_depth)
        workflow = BuiltinWorkflow(name=profile.name, budget=budget)
        workflow.add_operator(self._lead)
        super().__init__(profile, workflow, reasoner, memory)

    @property
    def experts(self) -> tuple[Expert, ...]:
        """Its team."""
        return tuple(self._lead.experts.values())

    def check_model(self) -> None:
        """Raises InputError if no model is configured for it, or for an expert whose operators ask one."""
        check: Callable[[], None] | None = getattr(self.reasoner, "check_model", None)
        if check:
            check()
        for expert in self.experts:
            expert.check_model()

    @property
    def open_jobs(self) -> tuple[str, ...]:
        """The ids of the jobs that are being done, or that ended early and can be recovered."""
        return tuple(self._lead.works)

    def job_graph(self, job_id: str, sub_job_id: str | None = None) -> JobGraph | None:
        """How an open job, or one of its sub-jobs, is split; None where it is not.

        Raises:
            InputError: There is no such open job.
        """
        work = self._lead.find(job_id)
        return work.graph if sub_job_id is None else work.graphs.get(sub_job_id)

    def stop(self, job_id: str, reason: str = "") -> None:
        """End a job; `recover` goes on with it. May be called from any thread.

        Whoever waits for it gets a message with EXECUTION_ERROR that says so, with what was done in its parts.

        Raises:
            InputError: No such job is being done.
        """
        self._lead.find(job_id).end(f"The job was stopped{_because(reason)}")

    def fail(self, job_id: str, reason: str = "") -> None:
        """End a job for good: as `stop`, but nothing of it is kept.

        Raises:
            InputError: There is no such open job.
        """
        work = self._lead.find(job_id)
        work.forgotten = True
        if work.running:
            work.end(f"The job was failed{_because(reason)}")
        else:
            self._lead.works.pop(job_id, None)

    async def arecover(self, job_id: str, *, run_id: str | None = None) -> WorkflowMessage:
        """Go on with a job that was stopped, cancelled, or ended with an error: what was done is not done again.

        Raises:
            InputError: There is no such job, or it is being done.
            Exception: As `aexecute`.
        """
        work = self._lead.find(job_id)
        if work.running:
            raise InputError(_being_done(job_id))
        return await self.aexecute(work.job, work.given, work.lesson, run_id=run_id)

    def recover(self, job_id: str, *, run_id: str | None = None) -> WorkflowMessage:
        """The same as `arecover`, for callers without an event loop."""
        return run_sync(partial(self.arecover, job_id, run_id=run_id), instead="Leader.arecover(…)")


_Given = tuple[tuple[str, str, dict[str, Any]], ...]
"""What a sub-job was given: who said it, the text and the outputs."""

_Done = dict[str, tuple[_Given, WorkflowMessage]]


@dataclass(slots=True, eq=False)
class _Work:
    """How far a job has come.

    Attributes:
        job: The job.
        given: What earlier experts produced.
        lesson: What to do better than last time.
        graph: How the job is split.
        graphs: How sub-jobs of it are split, by their ids.
        done: Per sub-job what it was given, and its message.
        kept: Of these, those that count when the sub-job is next asked for, if it is given the same.
        blamed: How often each sub-job was to be done again because it was found at fault.
        again: Those of them that have not begun yet.
        lessons: What each sub-job is to do better.
        task: What does it, while it is being done.
        ended: Why it was ended from outside.
        forgotten: Whether nothing is kept when it ends.
    """

    job: Job
    given: list[WorkflowMessage]
    lesson: str | None
    graph: JobGraph | None = None
    graphs: dict[str, JobGraph] = field(default_factory=dict[str, JobGraph])
    done: _Done = field(default_factory=_Done)
    kept: _Done = field(default_factory=_Done)
    blamed: Counter[str] = field(default_factory=Counter[str])
    again: set[str] = field(default_factory=set[str])
    lessons: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    task: asyncio.Task[WorkflowMessage] | None = None
    ended: str = ""
    forgotten: bool = False

    @property
    def running(self) -> bool:
        task = self.task
        return task is not None and not task.get_loop().is_closed()

    def end(self, why: str) -> None:
        task = self.task
        if task is None or not self.running:
            raise InputError(f"job {self.job.id!r} is not being done; it ended before")
        self.ended = why
        task.get_loop().call_soon_threadsafe(task.cancel)

    def results(self) -> tuple[WorkflowMessage, ...]:
        return tuple(message for _, message in self.done.values())

    def done_by_then(self) -> str:
        return f"Done by then: {shorten(list(self.done)) or 'nothing'}."

    def teach(self, sub_job_id: str, lesson: str) -> None:
        """Have a sub-job, or those of its parts whose results are its own, done again with a lesson."""
        if sub_job_id not in self.again:  # several may complain at once
            self.blamed[sub_job_id] += 1
            self.again.add(sub_job_id)
        for known in (self.done, self.kept):
            known.pop(sub_job_id, None)
        earlier = [known for known in self.lessons.get(sub_job_id, []) if known != lesson]
        self.lessons[sub_job_id] = [*earlier, lesson]
        if graph := self.graphs.get(sub_job_id):
            for tail in graph.tails:
                self.teach(tail, lesson)
            parts = {part.id for part in graph.sub_jobs} - set(graph.tails)
            self.kept |= {part: self.done[part] for part in parts if part in self.done}


class _Lead(BaseOperator[Any]):
    """The operator that a leader's workflow consists of."""

    def __init__(self, experts: Mapping[str, Expert], splitter: Splitter, life_cycles: int, max_depth: int) -> None:
        self.experts = experts
        self.splitter = splitter
        self.life_cycles = life_cycles
        self.max_depth = max_depth
        self.works: dict[str, _Work] = {}
        self._taking_up = Lock()

    asks_model = False  # before it splits; and experts have reasoners of their own

    @property
    def runs_workflows(self) -> Sequence[Workflow]:
        return [expert.workflow for expert in self.experts.values()]

    def get_id(self) -> str:
        return "leader"

    def find(self, job_id: str) -> _Work:
        work = self.works.get(job_id)
        if work is None:
            hint = did_you_mean(job_id, tuple(self.works))
            raise InputError(f"no open job has the id {job_id!r}{hint}; it ended, or never was")
        return work

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        given = [*call.previous, *call.messages]
        with self._taking_up:  # in another thread another loop may want the same
            work = self._take_up(call.job, given, call.lesson)
            task = work.task = asyncio.ensure_future(self._do(call.reasoner, work))
        done = False
        try:
            await ended(task)
            stopped = task.cancelled() and bool(work.ended)
            message = _outcome(work, work.ended) if stopped else self._result(task, work)
            done = message.status is WorkflowStatus.SUCCESS
            return message
        finally:
            if (done or work.forgotten) and self.works.get(_key(call.job)) is work:
                del self.works[_key(call.job)]
            work.task = None

    def _take_up(self, job: Job, given: list[WorkflowMessage], lesson: str | None) -> _Work:
        work = self.works.get(_key(job))
        same = work is not None and _same((work.job, work.given, work.lesson), (job, given, lesson))
        if work and work.running:
            if same:
                raise InputError(_being_done(job.id))
            return _Work(job, given, lesson)  # on other material, as for the items of a map; nobody else can name it
        if work is None or not same:
            work = _Work(job, given, lesson)
        work.kept = dict(work.done)
        work.ended = ""
        work.blamed.clear()
        work.again.clear()
        self.works.pop(_key(job), None)
        self.works[_key(job)] = work  # as the newest
        for other in [key for key, one in list(self.works.items()) if not one.running][:-MAX_OPEN_JOBS]:
            self.works.pop(other, None)
        return work

    async def _do(self, reasoner: Reasoner, work: _Work) -> WorkflowMessage:
        job, expert = work.job, work.job.assigned_expert_name
        if isinstance(job, SubJob) and expert not in self.experts:
            expert = None  # it names this leader, as an expert of another team
        if work.graph is None and expert is not None:
            self._require(expert)
            work.graph = JobGraph.alone(job, expert)
        if work.graph is None:
            work.graph = await self.split(reasoner, job, work.given, work.lesson)
        return await self.have_done(reasoner, work, job, work.graph, work.given, depth=1)

    async def have_done(
        self, reasoner: Reasoner, work: _Work, job: Job, graph: JobGraph, given: list[WorkflowMessage], depth: int
    ) -> WorkflowMessage:
        """Have the parts of a job, or of a sub-job, done."""
        parts = graph.sub_jobs
        name = job.id if isinstance(job, SubJob) else self.splitter.leader
        workflow = BuiltinWorkflow(len(parts) * (self.life_cycles - 1) + 1, name=name)
        assignments = {part.id: _Assignment(self, work, part, depth) for part in parts}
        for part in parts:
            workflow.add_operator(assignments[part.id], [assignments[other] for other in part.dependencies])
        return await run_inside(workflow, OperatorCall(reasoner, job, previous=tuple(given)))

    async def split(
        self, reasoner: Reasoner, job: Job, given: Sequence[WorkflowMessage], lesson: str | None
    ) -> JobGraph:
        """A split of the job, or of a sub-job; the one that is kept, where the run was interrupted after it."""

        async def work() -> WorkflowMessage:
            graph = await self.splitter.split(reasoner, job, given, lesson)
            return WorkflowMessage(outputs=graph.model_dump(mode="json"))

        return JobGraph.model_validate((await once("split", work)).outputs)

    def _require(self, expert: str) -> None:
        if expert not in self.experts:
            names = list(self.experts)
            raise InputError(
                f"leader {self.splitter.leader!r}: no expert is called {expert!r}{did_you_mean(expert, names)}; "
                f"there are: {', '.join(names)}"
            )

    def _result(self, task: asyncio.Task[WorkflowMessage], work: _Work) -> WorkflowMessage:
        try:
            return task.result()
        except OperatorError as error:
            failed = _job_error(error)
            if failed is None:
                raise
            if failed.verdict:
                return _outcome(work, str(failed), failed.verdict)
            text = f"{str(failed).rstrip('.')}. {work.done_by_then()}"
            raise JobError(text, operator_id=failed.operator_id) from failed.__cause__


class _Assignment(BaseOperator[Any]):
    """A sub-job as an operator: its expert does it."""

    def __init__(self, lead: _Lead, work: _Work, part: SubJob, depth: int) -> None:
        self._lead = lead
        self._work = work
        self._part = part
        self._depth = depth

    @property
    def runs_workflows(self) -> Sequence[Workflow]:
        return ()

    @property
    def instruction(self) -> str:
        return self._part.goal

    def get_id(self) -> str:
        return self._part.id

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        work, part = self._work, self._part
        needed = [m for m in call.messages if m.operator_id in part.dependencies]
        earlier = [m for m in call.messages if m.operator_id not in part.dependencies]
        given = [*call.previous, *needed]
        seen = tuple((m.operator_id, m.scratchpad, m.outputs) for m in given)
        work.again.discard(part.id)
        kept = work.kept.pop(part.id, None)
        if kept is not None and _same(kept[0], seen):
            return kept[1].model_copy(update={"usage": NO_USAGE})
        if graph := work.graphs.get(part.id):
            message = await self._by_parts(call.reasoner, graph, given)
        else:
            message = await self._by_expert(call.reasoner, given, earlier)
        work.done[part.id] = (seen, message.stamped(part.id, call.job.id, message.usage))
        return message

    async def _by_expert(
        self, reasoner: Reasoner, given: list[WorkflowMessage], earlier: list[WorkflowMessage]
    ) -> WorkflowMessage:
        work, part = self._work, self._part
        expert = self._lead.experts[part.assigned_expert_name or ""]
        lessons = [*([work.lesson] if work.lesson else []), *work.lessons.get(part.id, [])]
        try:
            verdict = await run_inside(
                expert.workflow,
                OperatorCall(expert.reasoner, part, tuple(earlier), tuple(given), "\n".join(lessons) or None),
            )
        except (InvalidError, OperatorError, SkippedError) as error:
            fault = fault_in(error)
            if fault and not {message.operator_id for message in given}.isdisjoint(fault.blame):
                self._blame_input(_input_error(fault), given)
            raise JobError(
                f"expert {expert.profile.name!r} failed at sub-job {part.id!r}: {describe(error)}", operator_id=part.id
            ) from error
        if verdict.status is WorkflowStatus.SUCCESS:
            return verdict
        if verdict.status is WorkflowStatus.INPUT_DATA_ERROR:
            self._blame_input(verdict, given)
        if verdict.status is WorkflowStatus.EXECUTION_ERROR:
            raise self._error(verdict, [part.id])
        if self._depth >= self._lead.max_depth:
            raise self._error(verdict, [part.id], f"; parts of parts go {self._lead.max_depth} levels deep at most")
        why = "\n".join(filter(None, (verdict.evaluation, verdict.lesson)))
        try:
            graph = work.graphs[part.id] = await self._lead.split(reasoner, part, given, why)
        except BudgetError:
            raise
        except Exception as error:
            text = f"sub-job {part.id!r} is too complicated, and could not be split: {describe(error)}"
            raise JobError(text, operator_id=part.id) from error
        work.lessons.update((tail, work.lessons[part.id]) for tail in graph.tails if part.id in work.lessons)
        return await self._by_parts(reasoner, graph, given)

    async def _by_parts(self, reasoner: Reasoner, graph: JobGraph, given: list[WorkflowMessage]) -> WorkflowMessage:
        try:
            return await self._lead.have_done(reasoner, self._work, self._part, graph, given, self._depth + 1)
        except OperatorError as error:
            failed = _job_error(error)
            if failed is None:
                raise
            verdict, inside = failed.verdict, {part.id for part in graph.sub_jobs}
            if verdict and verdict.status is WorkflowStatus.INPUT_DATA_ERROR and inside.isdisjoint(verdict.blame):
                self._blame_input(verdict, given)
            raise failed from failed.__cause__

    def _blame_input(self, verdict: WorkflowMessage, given: Iterable[WorkflowMessage]) -> NoReturn:
        """Have those before it do better; where the fault came from further out, leave it to those out there."""
        work, needs = self._work, self._part.dependencies
        outside = {message.operator_id for message in given} - set(needs)
        blamed = [who for who in verdict.blame if who in needs]
        if not blamed and outside.isdisjoint(verdict.blame):
            blamed = list(needs)
        if not blamed:
            raise self._error(verdict, [who for who in verdict.blame if who in outside])
        why = verdict.evaluation or "its input is at fault"
        lesson = verdict.lesson or why
        for who in blamed:
            if who not in work.again and work.blamed[who] + 1 >= self._lead.life_cycles:
                raise self._error(verdict, [who], f"; {who!r} has used its {self._lead.life_cycles} life cycles")
            work.teach(who, lesson)
        raise FaultError(why, lesson=lesson, blame=blamed)

    def _error(self, verdict: WorkflowMessage, blame: Sequence[str], also: str = "") -> JobError:
        part = self._part
        return JobError(
            f"expert {part.assigned_expert_name!r} cannot do sub-job {part.id!r}: "
            f"{verdict.evaluation or verdict.status.value}{also}",
            operator_id=part.id,
            verdict=verdict.model_copy(update={"blame": tuple(blame)}),
        )


def _outcome(work: _Work, why: str, verdict: WorkflowMessage | None = None) -> WorkflowMessage:
    """What becomes of a job that is not done: the verdict that ended it, and all that was done."""
    verdict = verdict or WorkflowMessage(status=WorkflowStatus.EXECUTION_ERROR)
    return verdict.model_copy(
        update={
            "evaluation": f"{why.rstrip('.')}. {work.done_by_then()}",
            "parts": work.results(),
            "usage": NO_USAGE,
        }
    )


def _input_error(fault: FaultError) -> WorkflowMessage:
    """What an operator of an expert finds wrong with others' results, as its evaluator would say it."""
    status = WorkflowStatus.INPUT_DATA_ERROR
    return WorkflowMessage(status=status, evaluation=str(fault), lesson=fault.lesson, blame=fault.blame)


def _job_error(error: BaseException) -> JobError | None:
    return next((link for link in causes(error) if isinstance(link, JobError)), None)


def _same(one: object, other: object) -> bool:
    """Whether they are equal; not where an output of somebody's own cannot be compared."""
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001
        return False


def _key(job: Job) -> str:
    """What a job is known by; a sub-job's own id is not unique among jobs."""
    return f"{job.parent_id}/{job.id}" if isinstance(job, SubJob) else job.id


def _being_done(job_id: str) -> str:
    return f"job {job_id!r} is being done; wait for it, or stop it first"


def _because(reason: str) -> str:
    return f": {reason}" if reason else ""
