"""Leader: splits a job over its experts, and handles their verdicts."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import Any, NoReturn

from operad.runtime.agents.agent import Agent, Expert, Profile
from operad.runtime.agents.job_graph import JobGraph
from operad.runtime.agents.job_state import JobState, failed_outcome, is_same
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
)
from operad.runtime.values.message import NO_USAGE, Job, SubJob, WorkflowMessage, WorkflowStatus
from operad.runtime.values.sync import run_sync
from operad.runtime.workflow.memory import DEFAULT_TOKENS
from operad.runtime.workflow.verdict import fault_in
from operad.runtime.workflow.within import run_inside
from operad.runtime.workflow.workflow import BuiltinWorkflow, Workflow

MAX_OPEN_JOBS = 1_000
"""Number of jobs that ended early a leader remembers, so that they can be recovered."""


class Leader(Agent):
    """Splits a job into a graph of sub-jobs for its experts (Chat2Graph, Leader).

        team = [Expert(Profile(name="Fact checker"), Workflow(facts), MonoModelReasoner())]
        leader = Leader(Profile(name="Editor"), team, MonoModelReasoner())
        print(leader)

    Independent sub-jobs run concurrently; each gets the results of those that it
    depends on. A job whose `assigned_expert_name` is set goes to that expert unsplit. The leader handles
    verdicts of experts as follows:

    - SUCCESS: the sub-jobs that wait for it may begin.
    - EXECUTION_ERROR, after all rounds of the expert's workflow: the job ends with that verdict.
    - INPUT_DATA_ERROR: the sub-jobs that it blames, or all that it depends on, are done again with its
      lesson, and so are all that depend on them. For a sub-job without predecessors, the job ends with that verdict.
    - JOB_TOO_COMPLICATED_ERROR: the sub-job is split, and its parts take its place.

    Args:
        profile: Name and description.
        experts: Its team.
        reasoner: Reasoner for splitting.
        actions: Actions that help to split well.
        toolkit: The graph that recommends actions and tools; by default just these actions.
        max_splits: Maximum number of tries for a valid split.
        life_cycles: Maximum number of times that a sub-job is done because its result is found at fault,
            the first time included.
        max_depth: Maximum number of levels of nested parts.
        budget: Budget of a whole job.
        memory: Tokens that a conversation may have in a prompt.

    Raises:
        InvalidError: There are no experts, or two with one name; a number is below 1.
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
            Issue("duplicate-name", f"{count} experts have this name", name)
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
        """Raise InputError if no model is configured for it, or for an expert whose operators ask one."""
        check: Callable[[], None] | None = getattr(self.reasoner, "check_model", None)
        if check:
            check()
        for expert in self.experts:
            expert.check_model()

    @property
    def open_jobs(self) -> tuple[str, ...]:
        """Ids of the jobs in progress, and of those that ended early and can be recovered."""
        return tuple(self._lead.works)

    def job_graph(self, job_id: str, sub_job_id: str | None = None) -> JobGraph | None:
        """Return the split of an open job, or of one of its sub-jobs; None if it is not split.

        Raises:
            InputError: There is no such open job.
        """
        work = self._lead.find(job_id)
        return work.graph if sub_job_id is None else work.graphs.get(sub_job_id)

    def stop(self, job_id: str, reason: str = "") -> None:
        """End a job, which `recover` can continue; callable from any thread.

        Its caller gets a message with EXECUTION_ERROR and the results of its parts so far.

        Raises:
            InputError: No such job is in progress.
        """
        self._lead.find(job_id).end(f"The job was stopped{_because(reason)}")

    def fail(self, job_id: str, reason: str = "") -> None:
        """End a job for good: as `stop`, without keeping its results.

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
        """Continue a job that was stopped, cancelled, or ended with an error; finished sub-jobs are not done again.

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


class _Lead(BaseOperator[Any]):
    """The operator of a leader's workflow."""

    def __init__(self, experts: Mapping[str, Expert], splitter: Splitter, life_cycles: int, max_depth: int) -> None:
        self.experts = experts
        self.splitter = splitter
        self.life_cycles = life_cycles
        self.max_depth = max_depth
        self.works: dict[str, JobState] = {}
        self._taking_up = Lock()

    asks_model = False  # to be called before splitting; experts have reasoners of their own

    @property
    def runs_workflows(self) -> Sequence[Workflow]:
        return [expert.workflow for expert in self.experts.values()]

    def get_id(self) -> str:
        return "leader"

    def find(self, job_id: str) -> JobState:
        work = self.works.get(job_id)
        if work is None:
            hint = did_you_mean(job_id, tuple(self.works))
            raise InputError(f"no open job has the id {job_id!r}{hint}; it ended, or never was")
        return work

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        given = [*call.previous, *call.messages]
        with self._taking_up:  # another event loop, in another thread, may use the same leader
            work = self._take_up(call.job, given, call.lesson)
            task = work.task = asyncio.ensure_future(self._do(call.reasoner, work))
        done = False
        try:
            await ended(task)
            # whatever its experts raised while it was being ended
            stopped = bool(work.ended) and (task.cancelled() or task.exception() is not None)
            message = failed_outcome(work, work.ended) if stopped else self._result(task, work)
            done = message.status is WorkflowStatus.SUCCESS
            return message
        finally:
            if (done or work.forgotten) and self.works.get(_key(call.job)) is work:
                del self.works[_key(call.job)]
            work.task = None

    def _take_up(self, job: Job, given: list[WorkflowMessage], lesson: str | None) -> JobState:
        work = self.works.get(_key(job))
        same = work is not None and is_same((work.job, work.given, work.lesson), (job, given, lesson))
        if work and work.running:
            if same:
                raise InputError(_being_done(job.id))
            return JobState(job, given, lesson)  # the same job with other input, such as the items of a map
        if work is None or not same:
            work = JobState(job, given, lesson)
        work.kept = dict(work.done)
        work.ended = ""
        work.blamed.clear()
        work.again.clear()
        self.works.pop(_key(job), None)
        self.works[_key(job)] = work  # move it to the end
        for other in [key for key, one in list(self.works.items()) if not one.running][:-MAX_OPEN_JOBS]:
            self.works.pop(other, None)
        return work

    async def _do(self, reasoner: Reasoner, work: JobState) -> WorkflowMessage:
        job, expert = work.job, work.job.assigned_expert_name
        if isinstance(job, SubJob) and expert not in self.experts:
            expert = None  # the assigned expert is this leader, as an expert of another team
        if work.graph is None and expert is not None:
            self._require(expert)
            work.graph = JobGraph.alone(job, expert)
        if work.graph is None:
            work.graph = await self.split(reasoner, job, work.given, work.lesson)
        return await self.have_done(reasoner, work, job, work.graph, work.given, depth=1)

    async def have_done(
        self, reasoner: Reasoner, work: JobState, job: Job, graph: JobGraph, given: list[WorkflowMessage], depth: int
    ) -> WorkflowMessage:
        """Do the parts of a job, or of a sub-job."""
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
        """Return a split of the job, or of a sub-job; the kept one, if the run was interrupted after it."""

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

    def _result(self, task: asyncio.Task[WorkflowMessage], work: JobState) -> WorkflowMessage:
        try:
            return task.result()
        except OperatorError as error:
            failed = _job_error(error)
            if failed is None:
                raise
            if failed.verdict:
                return failed_outcome(work, str(failed), failed.verdict)
            text = f"{str(failed).rstrip('.')}. {work.done_by_then()}"
            raise JobError(text, operator_id=failed.operator_id) from failed.__cause__


class _Assignment(BaseOperator[Any]):
    """A sub-job as an operator, executed by its expert."""

    def __init__(self, lead: _Lead, work: JobState, part: SubJob, depth: int) -> None:
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
        if kept is not None and is_same(kept[0], seen):
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
        """Repeat the sub-jobs before it; if the fault came from further out, leave it to the outer leader."""
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


def _input_error(fault: FaultError) -> WorkflowMessage:
    """Return a fault that an expert's operator found in others' results, in the form of a verdict."""
    status = WorkflowStatus.INPUT_DATA_ERROR
    return WorkflowMessage(status=status, evaluation=str(fault), lesson=fault.lesson, blame=fault.blame)


def _job_error(error: BaseException) -> JobError | None:
    return next((link for link in causes(error) if isinstance(link, JobError)), None)


def _key(job: Job) -> str:
    """Return the key of a job; a sub-job's own id is not unique among jobs."""
    return f"{job.parent_id}/{job.id}" if isinstance(job, SubJob) else job.id


def _being_done(job_id: str) -> str:
    return f"job {job_id!r} is being done; wait for it, or stop it first"


def _because(reason: str) -> str:
    return f": {reason}" if reason else ""
