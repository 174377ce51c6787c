"""Leader: splits a job over its experts by asking a reasoner, and handles their verdicts."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn

from operad.runtime.agents.agent import Agent, Expert, Profile, check_kinds
from operad.runtime.agents.job_graph import JobGraph
from operad.runtime.events import JobSplit, emit
from operad.runtime.events.journal import once
from operad.runtime.graph.call import OperatorCall, ReasonerLike
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.policies.deadline import ended
from operad.runtime.policies.policy import Budget, causes, check_positive
from operad.runtime.reasoning.reasoner import Reasoner, ask
from operad.runtime.reasoning.task import Task
from operad.runtime.tools.connections import connections
from operad.runtime.tools.toolkit import Action, Toolkit
from operad.runtime.values.arguments import short_repr
from operad.runtime.values.errors import (
    AnswerError,
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
from operad.runtime.values.forks import ProcessLock
from operad.runtime.values.message import NO_USAGE, Job, SubJob, WorkflowMessage, WorkflowStatus
from operad.runtime.values.schema import AnswerSchema, object_schema
from operad.runtime.values.sync import run_sync
from operad.runtime.workflow.base_workflow import inside, run_nested, run_within
from operad.runtime.workflow.memory import DEFAULT_TOKENS
from operad.runtime.workflow.verdict import fault_in
from operad.runtime.workflow.workflow import BuiltinWorkflow, Workflow

# State of a job that a leader splits: its parts, their results and repetitions.

Given = tuple[tuple[str, str, dict[str, Any]], ...]
"""Input of a sub-job: id, text and outputs of each message."""

Done = dict[str, tuple[Given, WorkflowMessage]]
"""Input and message of finished sub-jobs, by id."""


@dataclass(slots=True, eq=False)
class JobState:
    """State of a job of a leader.

    Attributes:
        given: Messages of earlier experts.
        lesson: Lesson from an earlier attempt.
        graph: Split of the job.
        graphs: Splits of sub-jobs, by sub-job id.
        done: Input and message of each finished sub-job.
        kept: Sub-jobs that finished in an earlier execution; their messages are reused if their input is the same.
        blamed: Number of times that each sub-job was found at fault and repeated.
        again: Blamed sub-jobs that have not started again yet.
        lessons: Lessons for each sub-job.
        task: Task that executes the job, while it is in progress.
        ended: Reason for which the job was stopped; empty if it was not.
        forgotten: True if the state is removed when the job ends.
    """

    job: Job
    given: list[WorkflowMessage]
    lesson: str | None
    graph: JobGraph | None = None
    graphs: dict[str, JobGraph] = field(default_factory=dict[str, JobGraph])
    done: Done = field(default_factory=Done)
    kept: Done = field(default_factory=Done)
    blamed: Counter[str] = field(default_factory=Counter[str])
    again: set[str] = field(default_factory=set[str])
    lessons: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    task: asyncio.Task[WorkflowMessage] | None = None
    ended: str = ""
    forgotten: bool = False

    @property
    def running(self) -> bool:
        """True while a task executes the job."""
        task = self.task
        return task is not None and not task.get_loop().is_closed()

    def end(self, why: str) -> None:
        """Stop the job for a reason; can be called in any thread.

        Raises:
            InputError: The job has already ended.
        """
        task = self.task
        if task is None or not self.running:
            raise InputError(f"job {self.job.id!r} is not in progress; it has ended")
        self.ended = why
        task.get_loop().call_soon_threadsafe(task.cancel)

    def results(self) -> tuple[WorkflowMessage, ...]:
        """Return the messages of the finished sub-jobs."""
        return tuple(message for _, message in self.done.values())

    def done_by_then(self) -> str:
        """Return a sentence that lists the finished sub-jobs, for an error."""
        return f"Done by then: {shorten(list(self.done)) or 'nothing'}."

    def repeat_with_lesson(self, sub_job_id: str, lesson: str) -> None:
        """Have a sub-job run again with a lesson; if it is split, the tails among its parts."""
        if sub_job_id not in self.again:  # counted once, even if several sub-jobs blame it at the same time
            self.blamed[sub_job_id] += 1
            self.again.add(sub_job_id)
        for finished in (self.done, self.kept):
            finished.pop(sub_job_id, None)
        other_lessons = [other for other in self.lessons.get(sub_job_id, []) if other != lesson]
        self.lessons[sub_job_id] = [*other_lessons, lesson]
        if graph := self.graphs.get(sub_job_id):
            for tail in graph.tails:
                self.repeat_with_lesson(tail, lesson)
            parts = {part.id for part in graph.sub_jobs} - set(graph.tails)
            self.kept |= {part: self.done[part] for part in parts if part in self.done}


def failed_outcome(work: JobState, why: str, verdict: WorkflowMessage | None = None) -> WorkflowMessage:
    """Return the message of a job that failed: the verdict that ended it, with the messages of finished sub-jobs."""
    verdict = verdict or WorkflowMessage(status=WorkflowStatus.EXECUTION_ERROR)
    return verdict.model_copy(
        update={
            "evaluation": f"{why.rstrip('.')}. {work.done_by_then()}",
            "parts": work.results(),
            "usage": NO_USAGE,
        }
    )


def is_same(first: object, second: object) -> bool:
    """Return True if two values are equal; False if comparing them raises, as a user's outputs may."""
    try:
        return bool(first == second)
    except Exception:  # noqa: BLE001
        return False


MAX_OPEN_JOBS = 1_000
"""Maximum number of jobs which ended early that a leader remembers, so that they can be recovered."""


class Leader(Agent):
    """Agent that splits a job into a graph of sub-jobs for its experts (Chat2Graph, Leader).

        team = [Expert(Profile(name="Fact checker"), Workflow(facts))]
        leader = Leader(Profile(name="Editor"), team)
        print(leader)  # <Leader 'Editor'>

    Independent sub-jobs run concurrently. Each gets the results of the sub-jobs that it depends on. A job with an
    `assigned_expert_name` goes to that expert without a split. The leader handles the verdicts of experts as follows:

    - SUCCESS: the sub-jobs that depend on the sub-job may start.
    - EXECUTION_ERROR, after all rounds of the expert's workflow: the job ends with that verdict.
    - INPUT_DATA_ERROR: the predecessors that the verdict blames, or all predecessors, run again with its lesson, and
      so do all sub-jobs that depend on them. For a sub-job without predecessors, the job ends with that verdict.
    - JOB_TOO_COMPLICATED_ERROR: the sub-job is split, and its parts replace it.

    Args:
        profile: Name and description.
        experts: The team of the leader.
        reasoner: Reasoner that splits jobs, as for `Agent`.
        actions: Actions that help to split well.
        toolkit: The graph that recommends actions and tools; by default only these actions.
        max_splits: Maximum number of attempts to get a valid split.
        life_cycles: Maximum number of times that a sub-job runs, including the first time, if its result is found at
            fault.
        max_depth: Maximum number of levels of nested parts.
        budget: Budget of a whole job.
        memory: Maximum number of tokens of a conversation in a prompt.

    Raises:
        InvalidError: There are no experts, two experts have the same name, or a number is below 1.
        InputError: A value has another type.
    """

    def __init__(
        self,
        profile: Profile,
        experts: Sequence[Expert],
        reasoner: ReasonerLike = None,
        *,
        actions: Sequence[Action] = (),
        toolkit: Toolkit | None = None,
        max_splits: int = 3,
        life_cycles: int = 3,
        max_depth: int = 3,
        budget: Budget | None = None,
        memory: int = DEFAULT_TOKENS,
    ) -> None:
        if not isinstance(experts, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"Leader(…): experts: expected a list of Expert(…), got {short_repr(experts)}")
        check_kinds("Leader", (Profile, profile), *((Expert, expert) for expert in experts))
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
        profiles = [expert.profile for expert in experts]
        splitter = Splitter(profile.name, profiles, tuple(actions), toolkit or Toolkit.of(actions), max_splits)
        self._leader_operator = _LeaderOperator(
            {expert.profile.name: expert for expert in experts}, splitter, life_cycles, max_depth
        )
        workflow = BuiltinWorkflow(name=profile.name, budget=budget)
        workflow.add_operator(self._leader_operator)
        super().__init__(profile, workflow, reasoner, memory)

    @property
    def experts(self) -> tuple[Expert, ...]:
        """The team of the leader."""
        return tuple(self._leader_operator.experts.values())

    def check_model(self) -> None:
        """Raise InputError if no model is configured for the leader, or for an expert whose operators ask a model."""
        check: Callable[[], None] | None = getattr(self.reasoner, "check_model", None)
        if check:
            check()
        for expert in self.experts:
            expert.check_model()

    @property
    def open_jobs(self) -> tuple[str, ...]:
        """Ids of the jobs in progress, and of jobs that ended early and can be recovered."""
        return tuple(self._leader_operator.job_states)

    def job_graph(self, job_id: str, sub_job_id: str | None = None) -> JobGraph | None:
        """Return the split of an open job, or of one of its sub-jobs; None if there is no split.

        Raises:
            InputError: No open job has this id.
        """
        state = self._leader_operator.find(job_id)
        return state.graph if sub_job_id is None else state.graphs.get(sub_job_id)

    def stop(self, job_id: str, reason: str = "") -> None:
        """Stop a job, which `recover` can continue; can be called in any thread.

        The caller that waits for the job gets a message with EXECUTION_ERROR and the results of the finished parts.

        Raises:
            InputError: No job with this id is in progress.
        """
        self._leader_operator.find(job_id).end(f"The job was stopped{_with_reason(reason)}")

    def fail(self, job_id: str, reason: str = "") -> None:
        """Stop a job like `stop`, but forget its results, so that it cannot be recovered.

        Raises:
            InputError: No open job has this id.
        """
        state = self._leader_operator.find(job_id)
        state.forgotten = True
        if state.running:
            state.end(f"The job was failed{_with_reason(reason)}")
        else:
            self._leader_operator.job_states.pop(job_id, None)

    async def arecover(self, job_id: str, *, run_id: str | None = None) -> WorkflowMessage:
        """Continue a job that was stopped, was cancelled or failed; finished sub-jobs do not run again.

        Raises:
            InputError: No open job has this id, or the job is in progress.
            Exception: The errors of `aexecute`.
        """
        state = self._leader_operator.find(job_id)
        if state.running:
            raise InputError(_already_running(job_id))
        return await self.aexecute(state.job, state.given, state.lesson, run_id=run_id)

    def recover(self, job_id: str, *, run_id: str | None = None) -> WorkflowMessage:
        """Continue a job like `arecover`, and wait for it; for callers without an event loop."""
        return run_sync(partial(self.arecover, job_id, run_id=run_id), instead="leader.arecover(…)")


class _LeaderOperator(BaseOperator[Any]):
    """Single operator of a leader's workflow: it splits jobs and runs their parts."""

    def __init__(self, experts: Mapping[str, Expert], splitter: Splitter, life_cycles: int, max_depth: int) -> None:
        self.experts = experts
        self.splitter = splitter
        self.life_cycles = life_cycles
        self.max_depth = max_depth
        self.job_states: dict[str, JobState] = {}
        self._preparing = ProcessLock()
        # A job with an assigned expert needs no split, and experts may have their own reasoners.
        self.asks_model = None if all(expert.uses_model_of_run for expert in experts.values()) else False

    @property
    def runs_workflows(self) -> Sequence[Workflow]:
        return [expert.workflow for expert in self.experts.values()]

    def get_id(self) -> str:
        return "leader"

    def find(self, job_id: str) -> JobState:
        state = self.job_states.get(job_id)
        if state is None:
            hint = did_you_mean(job_id, tuple(self.job_states))
            raise InputError(f"no open job has the id {job_id!r}{hint}; the job has ended or does not exist")
        return state

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        given = [*call.previous, *call.messages]
        with self._preparing:  # another event loop, in another thread, may use the same leader
            state = self._prepare(call.job, given, call.lesson)
            task = state.task = asyncio.ensure_future(self._run_job(call.reasoner, state))
        done = False
        try:
            await ended(task)
            # A job that was stopped has this outcome whatever its experts raised meanwhile.
            stopped = bool(state.ended) and (task.cancelled() or task.exception() is not None)
            message = failed_outcome(state, state.ended) if stopped else self._result(task, state)
            done = message.status is WorkflowStatus.SUCCESS
            return message
        finally:
            if (done or state.forgotten) and self.job_states.get(_job_key(call.job)) is state:
                del self.job_states[_job_key(call.job)]
            state.task = None

    def _prepare(self, job: Job, given: list[WorkflowMessage], lesson: str | None) -> JobState:
        """Return the state with which a job starts: the state of the same job if it ended early, or a new one."""
        state = self.job_states.get(_job_key(job))
        same = state is not None and is_same((state.job, state.given, state.lesson), (job, given, lesson))
        if state and state.running:
            if same:
                raise InputError(_already_running(job.id))
            return JobState(job, given, lesson)  # the same job with other input, such as the items of a map
        if state is None or not same:
            state = JobState(job, given, lesson)
        state.kept = dict(state.done)
        state.ended = ""
        state.blamed.clear()
        state.again.clear()
        self.job_states.pop(_job_key(job), None)
        self.job_states[_job_key(job)] = state  # moved to the end, as the newest
        for key in [key for key, other in list(self.job_states.items()) if not other.running][:-MAX_OPEN_JOBS]:
            self.job_states.pop(key, None)
        return state

    async def _run_job(self, reasoner: Reasoner, state: JobState) -> WorkflowMessage:
        """Split a job if it has no assigned expert, and run its parts."""
        job, expert = state.job, state.job.assigned_expert_name
        if isinstance(job, SubJob) and expert not in self.experts:
            expert = None  # the assigned expert is this leader, as an expert of another team
        if state.graph is None and expert is not None:
            self._require(expert)
            state.graph = JobGraph.alone(job, expert)
        if state.graph is None:
            state.graph = await self.split(reasoner, job, state.given, state.lesson)
        return await self.run_parts(reasoner, state, job, state.graph, state.given, depth=1)

    async def run_parts(
        self, reasoner: Reasoner, state: JobState, job: Job, graph: JobGraph, given: list[WorkflowMessage], depth: int
    ) -> WorkflowMessage:
        """Run the parts of a job or of a sub-job as a workflow, and return its message."""
        parts = graph.sub_jobs
        name = job.id if isinstance(job, SubJob) else self.splitter.leader
        workflow = BuiltinWorkflow(max_rounds=len(parts) * (self.life_cycles - 1) + 1, name=name)
        assignments = {part.id: _Assignment(self, state, part, depth) for part in parts}
        for part in parts:
            workflow.add_operator(assignments[part.id], [assignments[other] for other in part.dependencies])
        return await run_nested(workflow, OperatorCall(reasoner, job, previous=tuple(given)))

    async def split(
        self, reasoner: Reasoner, job: Job, given: Sequence[WorkflowMessage], lesson: str | None
    ) -> JobGraph:
        """Return a split of the job or of a sub-job; in a resumed run, the stored split if there is one."""

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

    def _result(self, task: asyncio.Task[WorkflowMessage], state: JobState) -> WorkflowMessage:
        """Return the message of a job that ended, also if a verdict of an expert ended it; raise its other errors."""
        try:
            return task.result()
        except OperatorError as error:
            failed = _job_error(error)
            if failed is None:
                raise
            if failed.verdict:
                return failed_outcome(state, str(failed), failed.verdict)
            text = f"{str(failed).rstrip('.')}. {state.done_by_then()}"
            raise JobError(text, operator_id=failed.operator_id) from failed.__cause__


class _Assignment(BaseOperator[Any]):
    """Operator that runs a sub-job: by its expert or, after a split, by its parts."""

    def __init__(self, leader_operator: _LeaderOperator, state: JobState, part: SubJob, depth: int) -> None:
        self._leader_operator = leader_operator
        self._state = state
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
        state, part = self._state, self._part
        given = [*call.previous, *call.messages]
        signature = tuple((m.operator_id, m.scratchpad, m.outputs) for m in given)
        state.again.discard(part.id)
        kept = state.kept.pop(part.id, None)
        if kept is not None and is_same(kept[0], signature):
            return kept[1].model_copy(update={"usage": NO_USAGE})
        if graph := state.graphs.get(part.id):
            message = await self._run_parts(call.reasoner, graph, given)
        else:
            message = await self._run_expert(call.reasoner, given)
        state.done[part.id] = (signature, message.stamped(part.id, call.job.id, message.usage))
        return message

    async def _run_expert(self, reasoner: Reasoner, given: list[WorkflowMessage]) -> WorkflowMessage:
        """Have the assigned expert do the sub-job, and handle its verdict."""
        state, part = self._state, self._part
        expert = self._leader_operator.experts[part.assigned_expert_name or ""]
        lessons = [*([state.lesson] if state.lesson else []), *state.lessons.get(part.id, [])]
        thinks, lesson = expert.reasoner_in(reasoner), "\n".join(lessons) or None
        call = OperatorCall(thinks, part, previous=tuple(given), lesson=lesson)
        try:
            verdict = await run_within(expert.workflow, inside(), call).execute()
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
        if self._depth >= self._leader_operator.max_depth:
            raise self._error(
                verdict, [part.id], f"; parts of parts go {self._leader_operator.max_depth} levels deep at most"
            )
        split_lesson = "\n".join(filter(None, (verdict.evaluation, verdict.lesson)))
        try:
            graph = state.graphs[part.id] = await self._leader_operator.split(reasoner, part, given, split_lesson)
        except BudgetError:
            raise
        except Exception as error:
            text = f"sub-job {part.id!r} is too complicated, and could not be split: {describe(error)}"
            raise JobError(text, operator_id=part.id) from error
        state.lessons.update((tail, state.lessons[part.id]) for tail in graph.tails if part.id in state.lessons)
        return await self._run_parts(reasoner, graph, given)

    async def _run_parts(self, reasoner: Reasoner, graph: JobGraph, given: list[WorkflowMessage]) -> WorkflowMessage:
        """Run the parts of the sub-job; a fault in the input of the sub-job blames its predecessors."""
        leader, depth = self._leader_operator, self._depth + 1
        try:
            return await leader.run_parts(reasoner, self._state, self._part, graph, given, depth)
        except OperatorError as error:
            failed = _job_error(error)
            if failed is None:
                raise
            verdict, inside = failed.verdict, {part.id for part in graph.sub_jobs}
            if verdict and verdict.status is WorkflowStatus.INPUT_DATA_ERROR and inside.isdisjoint(verdict.blame):
                self._blame_input(verdict, given)
            raise failed from failed.__cause__

    def _blame_input(self, verdict: WorkflowMessage, given: Iterable[WorkflowMessage]) -> NoReturn:
        """Repeat the predecessors that a verdict blames, or all, by raising a FaultError; a JobError ends the job."""
        state, predecessors = self._state, self._part.dependencies
        life_cycles = self._leader_operator.life_cycles
        outside = {message.operator_id for message in given} - set(predecessors)
        blamed = [name for name in verdict.blame if name in predecessors]
        if not blamed and outside.isdisjoint(verdict.blame):
            blamed = list(predecessors)
        if not blamed:
            raise self._error(verdict, [name for name in verdict.blame if name in outside])
        evaluation = verdict.evaluation or "its input is at fault"
        lesson = verdict.lesson or evaluation
        for name in blamed:
            if name not in state.again and state.blamed[name] + 1 >= life_cycles:
                raise self._error(verdict, [name], f"; {name!r} has used its {life_cycles} life cycles")
            state.repeat_with_lesson(name, lesson)
        raise FaultError(
            evaluation, lesson=lesson, blame=blamed, faults=[each for each in verdict.faults if each.place in blamed]
        )

    def _error(self, verdict: WorkflowMessage, blame: Sequence[str], also: str = "") -> JobError:
        part = self._part
        return JobError(
            f"expert {part.assigned_expert_name!r} cannot do sub-job {part.id!r}: "
            f"{verdict.evaluation or verdict.status.value}{also}",
            operator_id=part.id,
            verdict=verdict.model_copy(update={"blame": tuple(blame)}),
        )


def _input_error(fault: FaultError) -> WorkflowMessage:
    """Return a verdict for a fault that an expert's operator found in its input."""
    status = WorkflowStatus.INPUT_DATA_ERROR
    return WorkflowMessage(
        status=status, evaluation=str(fault), lesson=fault.lesson, faults=fault.faults, blame=fault.blame
    )


def _job_error(error: BaseException) -> JobError | None:
    """Return the `JobError` in the chain of causes of an error, if there is one."""
    return next((link for link in causes(error) if isinstance(link, JobError)), None)


def _job_key(job: Job) -> str:
    """Return the key of a job among open jobs; for a sub-job it includes the parent's id, to be unique."""
    return f"{job.parent_id}/{job.id}" if isinstance(job, SubJob) else job.id


def _already_running(job_id: str) -> str:
    return f"job {job_id!r} is in progress; wait for it, or stop it first"


def _with_reason(reason: str) -> str:
    return f": {reason}" if reason else ""


MAX_TOLD = 50
"""Maximum number of issues of a split that are listed."""


@dataclass(frozen=True, slots=True)
class Splitter:
    """Request for splits of jobs, which is repeated until a split is valid.

    Attributes:
        leader: Name of the leader, for errors.
        actions: Actions that help to split well.
        toolkit: The graph that recommends actions and tools.
        max_splits: Maximum number of attempts.
    """

    leader: str
    experts: Sequence[Profile]
    actions: tuple[Action, ...]
    toolkit: Toolkit
    max_splits: int

    async def split(
        self, reasoner: Reasoner, job: Job, given: Sequence[WorkflowMessage], lesson: str | None
    ) -> JobGraph:
        """Ask a reasoner for a split, and return it.

        Args:
            given: Messages of earlier experts.

        Raises:
            AnswerError: None of `max_splits` answers is valid; the issues of the last one are listed.
            InputError: The model is too small to write a valid split.
        """
        if not getattr(reasoner, "writes_prose", True):
            raise InputError(
                f"leader {self.leader!r}: the embedded model cannot split jobs; set OPENAI_API_KEY, or name an endpoint "
                "(--base-url, `model:`), or give the job to an expert (--expert, Job(assigned_expert_name=…))"
            )
        names = [expert.name for expert in self.experts]
        recommended = self.toolkit.recommend(self.actions)
        issues: list[Issue] = []
        async with connections() as opened:
            task = Task(
                job=job,
                instruction=split_instruction(self.experts),
                output_schema=AnswerSchema.unchecked(split_schema(names)),
                actions=recommended.actions,
                tools=await opened.tools(recommended.tools),
                previous_expert_outputs=tuple(given),
                lesson=lesson or "",
                files=job.files,
            )
            for _ in range(self.max_splits):
                answer = ""
                try:
                    answer = await ask(reasoner, task)
                    graph = JobGraph.of(_SPLIT.validate(answer), job, [message.operator_id for message in given])
                except AnswerError as error:
                    issues = [Issue("form", str(error))]
                else:
                    issues = graph.check(job, names)
                    if not issues:
                        emit(JobSplit(sub_jobs=graph.sub_jobs))
                        return graph
                task = _with_issues(task, answer, issues, lesson)
        raise AnswerError(
            "\n  ".join(
                [
                    f"leader {self.leader!r} made no valid split of job {job.id!r} in {self.max_splits} tries; "
                    "the last one:",
                    *_issue_lines(issues),
                ]
            )
        )


def _with_issues(task: Task, answer: str, issues: Sequence[Issue], lesson: str | None) -> Task:
    """Return the task of the next attempt: with the last answer, and its issues as a lesson."""
    told = "\n".join(["Your last split cannot be used:", *(f"- {issue}" for issue in _issue_lines(issues))])
    split = WorkflowMessage(scratchpad=answer, operator_id="your last split")
    return task.model_copy(update={"workflow_messages": (split,), "lesson": "\n".join(filter(None, (lesson, told)))})


def _issue_lines(issues: Sequence[Issue]) -> list[str]:
    """Return issues as texts, at most `MAX_TOLD` and the number of the rest."""
    more = [f"and {len(issues) - MAX_TOLD} more"] if len(issues) > MAX_TOLD else []
    return [*map(str, issues[:MAX_TOLD]), *more]


def split_schema(experts: Sequence[str] = ()) -> dict[str, Any]:
    """Return the JSON Schema of a split, which allows only the given names of experts, or any name by default."""
    text = {"type": "string"}
    expert = {"type": "string", "enum": list(experts)} if experts else text
    part = {
        "id": {"type": "string", "description": "Short unique name, one word."},
        "goal": {"type": "string", "description": "Task of the part."},
        "context": {
            "type": "string",
            "description": "Everything else of the job that the expert needs to know; empty if nothing.",
        },
        "completion_criteria": {"type": "string", "description": "Properties that the result must have."},
        "dependencies": {
            "type": "array",
            "items": text,
            "description": "Ids of the parts whose results the part needs.",
        },
        "assigned_expert": expert,
    }
    return object_schema({"sub_jobs": {"type": "array", "items": object_schema(part)}})


_SPLIT = AnswerSchema.unchecked(split_schema())
"""Form of a split that may name any expert."""


def split_instruction(experts: Sequence[Profile]) -> str:
    """Return the instruction to split a job among experts."""
    team = "\n".join(f"- {expert.name}: {expert.description or 'no description'}" for expert in experts)
    return (
        "You lead a team of experts. Split the job into parts (sub-jobs) and assign each part to one expert; an expert may get "
        "several parts. Use as few parts as possible: a single one if one expert can do the whole job. A part starts "
        "when all parts that it depends on are finished, and its expert gets their results, each with the id of its "
        "part. Parts that do not depend on each other run at the same time. An expert does not see the job, only "
        "the goal, the context and the completion criteria of its part, those results, and the job's inputs and files, "
        "if there are any. The results of the parts on which no other part depends are the result of the job.\n\n"
        f"The experts:\n{team}"
    )
