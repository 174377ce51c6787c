"""One run of a workflow: its rounds, its account of usage, and its events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from threading import Lock
from typing import Any, cast

from msgspec.structs import replace

from operad.runtime import events
from operad.runtime.events import RunLog, Scope, StepJournal
from operad.runtime.graph.build import Build
from operad.runtime.graph.call import OperatorCall
from operad.runtime.knowledge.run_insights import RunInsights
from operad.runtime.policies.deadline import Deadline, paused_deadlines, within
from operad.runtime.policies.limits import Limiter, SharedLimits
from operad.runtime.policies.policy import NO_BUDGET, Timeout, causes
from operad.runtime.reasoning.reasoner import Reasoner
from operad.runtime.tools.connections import Connections
from operad.runtime.values.errors import BudgetError, OperadError, OperatorError, SkippedError, describe, internal_text
from operad.runtime.values.message import NO_USAGE, Job, Usage, WorkflowMessage, WorkflowStatus
from operad.runtime.values.questions import Questions
from operad.runtime.values.step_record import StepRecord
from operad.runtime.workflow.records import InnerRun
from operad.runtime.workflow.rounds import Rounds, finished
from operad.runtime.workflow.steps import Steps
from operad.runtime.workflow.verdict import by_origin, unknown_blame, with_inner

_logger = logging.getLogger(__name__)


class Run:
    """Run of a workflow.

    Operators run in rounds; `Steps` executes the operators of a round. After a verdict of EXECUTION_ERROR, the next round
    repairs the faults that `Rounds` chooses. If no round succeeds, the best round is the result. A run inside an operator
    that runs again goes on from its earlier outcome, if what it receives has not changed.

    Args:
        outer: The operator that contains the run; None for an outermost run.
        prefix: The path of that operator.
        insights: Insights of earlier runs.

    Attributes:
        job: The job.
        insights: Insights of earlier runs, if any.
        outer: The operator that contains the run; None for an outermost run.
        budget: The budget of the run.
        deps: Object that the caller gave to this run, otherwise that of the run that contains it.
        pinned: Messages that operators of the outermost run give in place of running, by the path of their ids.
        calls: The workflow's own limiter of model calls, if any; limiters of enclosing runs are not included.
        shared_limits: Limits of model calls that the run shares with other processes, if any. They are set for the
            outermost run, and nested runs use the same.
        usage: Usage of the run so far.
        workflow: The workflow's name.
        journal: Journal that stores the messages of operators of a durable run. It is set for the outermost run;
            nested runs use it if the operator that contains them only runs workflows.
        finished: The messages of all operators that have finished, by path; None without a budget.
        questions: Questions of this run and of the runs that contain it.
        connections: The connections to tool sources that this run and the runs that contain it have open.
        idle: Number of running operators that only wait, for a person or for a nested run.
        on_paused: Function to call when no operator can continue until a person answers.
        live: The `LiveRun` of an outermost run that is in progress.
        repeats: True if operators may run again in another round of this run or of one around it.
        is_traced: True if an evaluator of this run or of one around it sees the operators of this run.
    """

    __slots__ = (
        "_best_messages",
        "_call",
        "_deadlines",
        "_in_progress",
        "_plan",
        "_prefix",
        "_spending",
        "_state",
        "_steps",
        "budget",
        "build",
        "calls",
        "connections",
        "deps",
        "finished",
        "idle",
        "insights",
        "is_traced",
        "journal",
        "live",
        "log",
        "on_paused",
        "outer",
        "pinned",
        "questions",
        "repeats",
        "shared_limits",
        "usage",
    )

    def __init__(
        self,
        build: Build,
        call: OperatorCall,
        log: RunLog,
        *,
        outer: Scope | None = None,
        prefix: tuple[str, ...] = (),
        insights: RunInsights | None = None,
    ) -> None:
        self.log = log
        self.outer = outer
        self.idle = 0
        self.calls: tuple[Limiter, ...] = (build.calls,) if build.calls else ()
        self.on_paused: Callable[[], object] | None = None
        self.live: object | None = None
        self.build = build
        self.budget = build.budget
        self.usage = NO_USAGE
        if outer is None:
            self.insights = insights
            self.questions = Questions()
            self.connections = Connections()
            self.shared_limits: SharedLimits | None = None
            self.journal: StepJournal | None = None
            self.finished: dict[str, WorkflowMessage] | None = None
            self.repeats, self.is_traced = build.repeats, bool(build.graph.evaluators)
            self._spending = Lock()
            self._in_progress: set[Run] = set()
        else:
            around: Any = outer.run
            self.insights = insights or around.insights
            self.questions = around.questions
            self.connections = around.connections
            self.shared_limits = around.shared_limits
            self.journal = around.journal if outer.runs_workflows else None
            self.finished = around.finished
            self.repeats = build.repeats or around.repeats
            self.is_traced = bool(build.graph.evaluators) or around.is_traced
            self._spending = around._spending
            self._in_progress = around._in_progress
        if self.finished is None and build.budget is not NO_BUDGET:
            self.finished = {}
        self.deps = call.deps if call.deps is not None or outer is None else outer.run.deps
        self.pinned = call.pinned if outer is None else outer.run.pinned
        self._plan = build.plan
        self._call = call
        self._prefix = prefix
        self._state = Rounds(build.max_rounds)
        self._steps = Steps(self, build, call, prefix)
        self._best_messages: list[WorkflowMessage | None] = []
        self._deadlines: list[Deadline] = []

    @property
    def job(self) -> Job:
        """The job."""
        return self._call.job

    @property
    def reasoner(self) -> Reasoner:
        """The reasoner of the run."""
        return self._call.reasoner

    @property
    def workflow(self) -> str:
        """The workflow's name."""
        return self.build.name

    async def execute(self) -> WorkflowMessage:
        """Execute the run and return its message.

        Returns:
            The verdict or, without an evaluator, the message of the tails.

        Raises:
            OperatorError: An operator failed; the others were cancelled and have ended.
            SkippedError: Every tail was skipped.
            BudgetError: The run used more than its budget.
        """
        earlier = self._earlier()
        if earlier is not None and not earlier.faults:
            return self._keep(earlier)
        self._begin()
        if earlier is not None:
            self._steps.restore(earlier)
            self._steps.repair(earlier.repairs())
        now = self.log.now
        began = now()
        try:
            rounds = self._rounds() if self.budget.seconds is None else self._in_time(self.budget.seconds)
            if self.outer is None:
                async with self.connections:
                    message = await rounds
            else:
                message = await rounds
        except BaseException as error:
            done = self._steps.finished()
            if isinstance(error, OperatorError):
                error.cancelled = tuple(self._steps.cancelled)
                error.finished = {**_items_in(error), **done}
            elif isinstance(error, BudgetError):
                ours = {"/".join((*self._prefix, node_id)): message for node_id, message in done.items()}
                error.finished = {**ours, **error.finished, **(self.finished or {})}
            why = events.CANCELLED if isinstance(error, asyncio.CancelledError) else describe(error)
            internal = "" if why is events.CANCELLED else internal_text(error)
            self._write(events.RunFailed(error=why, seconds=now() - began, usage=self.usage, internal=internal))
            raise
        finally:
            self._end()
        if self.log.heard:
            finished = events.RunFinished(message=message, seconds=now() - began, rounds=self.rounds)
            self._write(finished, round=self._state.best_round)
        if self.outer is not None and (self.repeats or self.is_traced) and self._state.best_round == self.rounds:
            self.outer.traced().inner[self._prefix[-1]] = self._steps.outcome(message)
        return message

    def _earlier(self) -> InnerRun | None:
        """Return the outcome of this run in the last round of the run around it, if this run would do the same."""
        earlier: InnerRun | None = self.outer.earlier.get(self._prefix[-1]) if self.outer else None
        return earlier if earlier is not None and earlier.fits(self.build, self._call) else None

    def _keep(self, earlier: InnerRun) -> WorkflowMessage:
        """Return the message of an earlier run that did the same, without running again."""
        outer = self.outer
        assert outer is not None  # noqa: S101 - only runs inside operators have an earlier outcome
        outer.run.log.write(events.OperatorKept(), self._prefix, outer.operator_id, outer.round, outer.attempt)
        outer.traced().inner[self._prefix[-1]] = earlier
        return earlier.message

    def set_input(self, call: OperatorCall) -> None:
        """Replace the input of a run that has not begun: a stored run is resumed with its stored input."""
        self._call = call
        self._steps.set_input(call)

    def restore(self, message: WorkflowMessage, rounds: int, messages: Mapping[str, WorkflowMessage]) -> None:
        """Restore the outcome of an earlier execution instead of executing the run.

        Args:
            rounds: Number of rounds that the run had.
            messages: The last messages of the run's operators, by id.
        """
        self._state = replace(self._state, number=rounds)
        self._best_messages = [messages.get(node_id) for node_id in self._plan.ids]
        self._write(self._started)
        self._write(events.RunFinished(message=message, seconds=0.0, rounds=rounds))

    def replace_deps(self, deps: object) -> None:
        """Replace the deps of the run, and of runs inside it that have the same: what starts from now on gets them."""
        before = self.deps
        for run in [*self._in_progress]:
            if run.deps is before:
                run.deps = deps

    @property
    def rounds(self) -> int:
        """Number of rounds that have begun."""
        return self._state.number

    @property
    def messages(self) -> Mapping[str, WorkflowMessage]:
        """Messages of the best round, by operator id; operators that did not run are left out."""
        nodes = zip(self._plan.ids, self._best_messages[: self.build.first_evaluator], strict=False)
        return {node_id: message for node_id, message in nodes if message is not None}

    @property
    def tails(self) -> tuple[str, ...]:
        """Ids of the operators without successors."""
        return tuple(self._plan.ids[node] for node in self._plan.parents[self.build.first_evaluator])

    @property
    def waits(self) -> bool:
        """True if all running operators of the outermost run and of its nested runs wait for a person."""
        return self.questions.waits() and all(0 < run._steps.active == run.idle for run in self._in_progress)

    def _write(self, event: events.Event, round: int = 0) -> None:
        """Write an event for the listeners of this run only, not for those of the runs that contain it."""
        if self.outer is None or self.log is not self.outer.run.log:
            self.log.write(event, self._prefix, round=round, only_here=True)

    @property
    def _started(self) -> events.RunStarted:
        job = self.job
        return events.RunStarted(goal=job.goal, inputs=job.inputs, started_by=job.started_by, **self.build.event_fields)

    def _begin(self) -> None:
        """Write the first event of the run; a run inside an operator marks that operator as waiting."""
        self._in_progress.add(self)
        if self.log.heard:
            self._write(self._started)
        outer = self.outer
        if outer is not None:
            outer.begin_waiting()
            if not outer.run.log.heard:
                return
            is_item = self._prefix[-1:] != (outer.operator_id,)
            item = self._call.messages[0].outputs.get("item") if is_item and self._call.messages else None
            entered = events.WorkflowEntered(item=item, **self.build.event_fields)
            outer.run.log.write(entered, self._prefix, outer.operator_id, outer.round, outer.attempt)

    def _end(self) -> None:
        """Undo `_begin`; the outer operator no longer waits for this run."""
        self._in_progress.discard(self)
        self.on_paused = None
        if self.outer is not None:
            self.outer.end_waiting()
            if self.questions.asked:  # checked later, when the outer operator had the time to start another step
                asyncio.get_running_loop().call_soon(self.root.check_paused)

    @property
    def root(self) -> Run:
        """The outermost of the runs that contain this run, or this run itself."""
        run = self
        while run.outer is not None:
            run = cast("Run", run.outer.run)
        return run

    # Usage, budget and pauses, for the code inside operators

    def spend(self, usage: Usage) -> None:
        """Add to the usage of the run."""
        with self._spending:
            self.usage = self.usage + usage

    def check_budget(self, *, by_next: bool = False) -> None:
        """Check that the budget is not exceeded; with `by_next`, that another model call would not exceed it.

        Raises:
            BudgetError: The budget is, or would be, exceeded.
        """
        if exceeded := self.budget.exceeded(self.usage, by_next=by_next):
            raise self._over(exceeded)

    def _over(self, exceeded: str) -> BudgetError:
        return BudgetError(
            f"workflow {self.build.name!r} has used up its budget: {exceeded}; increase the budget", self.usage
        )

    @asynccontextmanager
    async def waiting(self, scope: Scope) -> AsyncGenerator[None, None]:
        """Stop the time limits of an operator that waits for a person, and free its place for another operator."""
        with paused_deadlines([*scope.deadlines, *self._deadlines]):
            if scope.place:
                await scope.place.give()
            yield
            if scope.place:
                await scope.place.take()

    def check_paused(self) -> None:
        """Call `on_paused` if all running operators of the run and its nested runs wait for a person."""
        if self.on_paused and self.waits:
            self.on_paused()

    # Rounds

    async def _in_time(self, seconds: float) -> WorkflowMessage:
        """Execute the rounds within a time limit, or raise BudgetError."""
        message = await within(Timeout(run=seconds), self._rounds(), self._deadlines)
        if isinstance(message, Deadline):
            raise self._over(f"{seconds:g} of {seconds:g} seconds")
        return message

    async def _rounds(self) -> WorkflowMessage:
        """Execute rounds until one succeeds or no further round is possible; return the best verdict."""
        steps = self._steps
        while True:
            self._state = self._state.begun()
            if self.log.heard:
                self._say_of_round(events.RoundStarted(operators=steps.due()))
            try:
                verdict = await steps.run_round(self, self._state.number)
            except (OperatorError, SkippedError) as error:
                if self._state.best is None:
                    raise
                return self._conclude(f"Round {self.rounds} failed: {describe(error)}")
            known, given = self._plan.ids[:-1], {message.operator_id for message in self._given()}
            verdict = by_origin(verdict, known, given)
            has_result = steps.results[-1] is not None
            records = () if verdict.status is WorkflowStatus.SUCCESS else steps.records()
            self._state = self._state.judged(
                verdict,
                known,
                {record.operator_id: record.before for record in records if not record.skipped},
                has_result=has_result,
                is_final=steps.is_final,
                cut=steps.cut(),
            )
            if self._state.best is verdict:
                self._best_messages = steps.results.copy()
            if self.log.heard:
                by_error = steps.by_error and not has_result
                self._say_of_round(finished(verdict, self._state, by_error=by_error, has_result=has_result))
            if self._state.is_over:
                return self._conclude()
            if strangers := unknown_blame(verdict.blame, [*known, *given]):
                self._say_of_round(events.BlameUnknown(blame=strangers))
                _logger.warning(
                    "workflow %r: the evaluator blamed %s, but no operator has this id", self.build.name, strangers
                )
            steps.repair(self._state.repairs)

    def _given(self) -> Sequence[WorkflowMessage]:
        """Return the messages that the workflow was given: those of earlier experts, and of operators around it."""
        return (*self._call.previous, *self._call.messages)

    def _say_of_round(self, event: events.Event) -> None:
        self.log.write(event, self._prefix, round=self._state.number)

    def _conclude(self, failed: str = "") -> WorkflowMessage:
        """Return the best round's verdict; its evaluation says if no round succeeded or a nested workflow did not.

        Args:
            failed: Error text of a round that failed, if that ended the run.
        """
        message: Any = self._state.best
        if message.status is not WorkflowStatus.SUCCESS and self.build.on_reject is not None:
            return self._fall_back(self.build.on_reject, message)
        if unjudged := self.build.unjudged:
            inner = (self._best_messages[node] for node in unjudged)
            message = with_inner(message, [each for each in inner if each is not None])
        if message.status is WorkflowStatus.SUCCESS:
            return message if message.usage is self.usage else message.changed(usage=self.usage)
        # A nested workflow may blame operators outside of it, and an operator's own verdict its parts, as a leader does.
        by_evaluator = self.build.graph.evaluators and message.status is WorkflowStatus.EXECUTION_ERROR
        strangers = unknown_blame(message.blame, self._plan.ids[:-1]) if by_evaluator and not self._prefix else ""
        notes = (
            f"The verdict blames an unknown operator: {strangers}." if strangers else "",
            failed,
            f"None of {self.rounds} rounds succeeded; this is round {self._state.best_round}." * (self.rounds > 1),
        )
        return message.changed(usage=self.usage, evaluation="\n".join(filter(None, (message.evaluation, *notes))))

    def _fall_back(self, value: WorkflowMessage, verdict: WorkflowMessage) -> WorkflowMessage:
        """Return the message in place of a rejected result, with the verdict as its evaluation."""
        self._say_of_round(events.FellBack(error=f"rejected: {verdict.evaluation}", to="its value"))
        said = f"The result was rejected, and a fixed value is used instead: {verdict.evaluation}"
        return value.own().stamped(verdict.operator_id, self.job.id, self.usage).changed(evaluation=said)

    def transcript(self) -> tuple[StepRecord, ...]:
        """Return the records of the operators that have finished so far."""
        return self._steps.transcript()

    def records(self) -> Sequence[StepRecord]:
        """Return the records of all operators, also of skipped ones and of those inside of others."""
        return self._steps.records()


def _items_in(error: OperatorError) -> dict[str, WorkflowMessage]:
    """Return the finished items of the maps in which an item failed."""
    links = [link for link in causes(error) if isinstance(link, OperadError) and not isinstance(link, OperatorError)]
    return {name: message for link in reversed(links) for name, message in link.finished.items()}
