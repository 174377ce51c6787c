"""One run of a workflow: its rounds, its results, its account."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from threading import Lock
from typing import cast

from msgspec.structs import replace

from operad.runtime import events
from operad.runtime.events import RunLog, Scope, StepJournal
from operad.runtime.graph.build import Build, Node
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.graph import END
from operad.runtime.graph.schedule import Progress, Skip, Taken
from operad.runtime.knowledge.run_insights import RunInsights
from operad.runtime.policies.deadline import Deadline, standing_still, within
from operad.runtime.policies.limits import Limiter, SharedLimits
from operad.runtime.policies.policy import NO_BUDGET, Timeout, causes
from operad.runtime.tools.connections import Connections
from operad.runtime.values.errors import BudgetError, OperadError, OperatorError, SkippedError, describe
from operad.runtime.values.message import NO_USAGE, Job, StepRecord, Usage, WorkflowMessage, WorkflowStatus
from operad.runtime.values.questions import Questions
from operad.runtime.workflow.perform import completed, perform
from operad.runtime.workflow.rounds import Rounds, at_fault
from operad.runtime.workflow.verdict import fault_in, joined, joined_tails, mendable, unknown, verdict_of

_logger = logging.getLogger(__name__)


class Run:
    """One call of a workflow.

    In each round every operator without a result runs once. A verdict of EXECUTION_ERROR clears
    the results of the blamed operators and of all that depends on them, or all results if no operator
    is blamed, and the next round begins with its lesson. An operator found at fault sees, after
    the messages of the operators before it, its own earlier messages, each with its verdict.

    An operator that raises, while rounds are left, is such a verdict, too: what does not depend on
    it goes on, and the round ends when all that has. If no round succeeds, the best one counts.

    Args:
        build: The workflow.
        call: Its input.
        log: Where its events go.
        outer: The operator that this run is inside of, if it is.
        prefix: The path of that operator.
        insights: Insights of earlier runs.

    Attributes:
        log: Where its events go.
        job: The job.
        insights: Insights of earlier runs, if any.
        outer: The operator that it is inside of.
        budget: Its budget.
        calls: Limiters of its model calls, the outermost first; without those of the runs around it.
        shared_limits: What keeps the limits of its calls together with other processes, if anything does: set for
            the outermost run, and taken from there by those inside it.
        usage: Its usage so far.
        build: The workflow.
        workflow: The workflow's name.
        journal: What keeps the messages of its operators, if anything does: set for the outermost run, and taken
            from the run around it by those that an operator around them has in it.
        finished: Where there is a budget, the messages of all operators that have finished, by path.
        questions: Open questions of this run and of those around it.
        connections: The tool sources that this run and those around it have open.
        active: How many of its operators are at work, or may start.
        idle: How many of those only wait: for a person, or for a run inside of them.
        on_paused: Function to call when no operator can continue until a person answers.
    """

    __slots__ = (
        "_by_error",
        "_call",
        "_cancelled",
        "_counting",
        "_deadlines",
        "_faults",
        "_feedback",
        "_lesson",
        "_live",
        "_lost",
        "_open",
        "_plan",
        "_prefix",
        "_progress",
        "_results",
        "_skipped",
        "_spending",
        "_state",
        "active",
        "budget",
        "build",
        "calls",
        "connections",
        "finished",
        "idle",
        "insights",
        "journal",
        "log",
        "on_paused",
        "outer",
        "questions",
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
        self.insights = insights or (cast("RunInsights | None", outer.run.insights) if outer else None)
        self.outer = outer
        self.questions: Questions = outer.run.questions if outer else Questions()
        self.connections: Connections = cast("Connections", outer.run.connections) if outer else Connections()
        self.active = 0
        self.idle = 0
        self.calls: tuple[Limiter, ...] = (build.calls,) if build.calls else ()
        self.shared_limits: SharedLimits | None = outer.run.shared_limits if outer else None
        self.journal: StepJournal | None = outer.run.journal if outer and outer.around else None
        self.on_paused: Callable[[], object] | None = None
        self.build = build
        self.budget = build.budget
        self.finished: dict[str, WorkflowMessage] | None = outer.run.finished if outer else None
        if self.finished is None and build.budget is not NO_BUDGET:
            self.finished = {}
        self.usage = NO_USAGE
        around = cast("Run | None", outer and outer.run)
        self._spending = around._spending if around else Lock()
        self._live: set[Run] = around._live if around else set()
        self._plan = build.plan
        self._call = call
        self._prefix = prefix
        self._state = Rounds(build.max_rounds, lessons=(call.lesson,) if call.lesson else ())
        self._lesson: str | None = None
        self._faults: dict[int, WorkflowMessage] = {}
        self._by_error = False
        self._results: list[WorkflowMessage | None] = [None] * len(build.plan.ids)
        self._counting: list[WorkflowMessage | None] = []
        self._skipped: dict[int, Skip] = {}
        self._lost: set[int] = set()
        self._open: set[int] = set()
        self._feedback: dict[int, tuple[WorkflowMessage, ...]] = {}
        self._progress = Progress(build.plan)
        self._cancelled: list[str] = []
        self._deadlines: list[Deadline] = []

    @property
    def job(self) -> Job:
        """The job."""
        return self._call.job

    @property
    def workflow(self) -> str:
        """The workflow's name."""
        return self.build.name

    async def execute(self) -> WorkflowMessage:
        """Run to the end.

        Returns:
            The verdict, or the tails' message where there is no evaluator.

        Raises:
            OperatorError: An operator raised; the others were cancelled and have ended.
            SkippedError: Every tail was skipped.
            BudgetError: It used more than its budget.
        """
        self._begin()
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
            if isinstance(error, OperatorError):
                error.cancelled, error.finished = tuple(self._cancelled), {**_items_in(error), **self._finished()}
            elif isinstance(error, BudgetError):
                ours = {"/".join((*self._prefix, node_id)): message for node_id, message in self._finished().items()}
                error.finished = {**ours, **error.finished, **(self.finished or {})}
            why = events.CANCELLED if isinstance(error, asyncio.CancelledError) else describe(error)
            self._say(events.RunFailed(error=why, seconds=now() - began, usage=self.usage))
            raise
        finally:
            self._end()
        if self._speaks:
            finished = events.RunFinished(message=message, seconds=now() - began, rounds=self.rounds)
            self._say(finished, round=self._state.best_round)
        return message

    def take_up(self, call: OperatorCall) -> None:
        """Before it is executed: be given something else, as when a run is gone on with."""
        self._call = call
        self._state = replace(self._state, lessons=(call.lesson,) if call.lesson else ())

    def recall(self, message: WorkflowMessage, rounds: int, messages: Mapping[str, WorkflowMessage]) -> None:
        """Restore the outcome of an earlier execution, instead of executing.

        Args:
            message: Its message.
            rounds: Number of rounds it had.
            messages: The last messages of its operators, by id.
        """
        self._state = replace(self._state, number=rounds)
        self._counting = [messages.get(node_id) for node_id in self._plan.ids]
        self._say(self._started())
        self._say(events.RunFinished(message=message, seconds=0.0, rounds=rounds))

    def _started(self) -> events.RunStarted:
        build, goal = self.build, self.job.goal
        return events.RunStarted(
            workflow=build.name,
            goal=goal,
            operators=build.before,
            judges=build.judges,
            instructions=build.instructions,
            engine=build.engine_name,
            ports=build.ports,
        )

    @property
    def rounds(self) -> int:
        """Number of rounds it has begun."""
        return self._state.number

    @property
    def messages(self) -> Mapping[str, WorkflowMessage]:
        """The messages of the operators that ran, by id: those of the round that counts."""
        said = zip(self._plan.ids, self._counting[: self.build.first_judge], strict=False)
        return {node_id: message for node_id, message in said if message is not None}

    @property
    def tails(self) -> tuple[str, ...]:
        """The ids of the operators that nothing follows."""
        return tuple(self._plan.ids[node] for node in self._plan.parents[self.build.first_judge])

    @property
    def waits(self) -> bool:
        """True if all that is at work in it, and in those inside it, waits for a person."""
        return self.questions.waits() and all(0 < run.active == run.idle for run in self._live)

    @property
    def _speaks(self) -> bool:
        """True if this run has listeners of its own."""
        return self.log.heard and (self.outer is None or self.log is not self.outer.run.log)

    def _say(self, event: events.Event, round: int = 0) -> None:
        """Notify the listeners of this run only."""
        if self._speaks:
            self.log.write(event, self._prefix, round=round, only_here=True)

    def _begin(self) -> None:
        self.active = len(self._progress.ready)
        self._live.add(self)
        if self._speaks:
            self._say(self._started())
        outer = self.outer
        if outer is not None:
            outer.waits_for += 1
            if outer.waits_for == 1:
                outer.run.idle += 1  # it waits for this run
            if not outer.run.log.heard:
                return
            build = self.build
            is_item = self._prefix[-1:] != (outer.operator_id,)
            entered = events.WorkflowEntered(
                workflow=build.name,
                operators=build.before,
                judges=build.judges,
                instructions=build.instructions,
                engine=build.engine_name,
                ports=build.ports,
                item=self._call.messages[0].outputs.get("item") if is_item and self._call.messages else None,
            )
            outer.run.log.write(entered, self._prefix, outer.operator_id, outer.round, outer.attempt)

    def _end(self) -> None:
        self._live.discard(self)
        self.on_paused = None
        if self.outer is not None:
            self.outer.waits_for -= 1
            if not self.outer.waits_for:
                self.outer.run.idle -= 1
            if self.questions.asked:  # once the operator around it had the time to start something else
                asyncio.get_running_loop().call_soon(self.root.look_whether_paused)

    @property
    def root(self) -> Run:
        """The outermost run; this one, where it is inside of no other."""
        run = self
        while run.outer is not None:
            run = cast("Run", run.outer.run)
        return run

    # What operators, reasoners and tools in it account for

    def spend(self, usage: Usage) -> None:
        """Add to the usage of the run."""
        with self._spending:
            self.usage = self.usage + usage

    def check_budget(self, *, by_next: bool = False) -> None:
        """See that the budget holds; `by_next`, that another model call may be made.

        Raises:
            BudgetError: It does not.
        """
        if exceeded := self.budget.exceeded(self.usage, by_next=by_next):
            raise self._over(exceeded)

    def _over(self, exceeded: str) -> BudgetError:
        return BudgetError(
            f"workflow {self.build.name!r} has used up its budget: {exceeded}; raise it, or ask for less", self.usage
        )

    @asynccontextmanager
    async def waiting(self, scope: Scope) -> AsyncGenerator[None, None]:
        """While one of its operators waits for a person, its time stands still and its place is free."""
        with standing_still([*scope.deadlines, *self._deadlines]):
            if scope.place:
                await scope.place.give()
            yield
            if scope.place:
                await scope.place.take()

    def look_whether_paused(self) -> None:
        """Say so if all that is at work in this run, and in those inside it, waits for a person."""
        if self.on_paused and self.waits:
            self.on_paused()

    # Rounds

    async def _in_time(self, seconds: float) -> WorkflowMessage:
        message = await within(Timeout(run=seconds), self._rounds(), self._deadlines)
        if isinstance(message, Deadline):
            raise self._over(f"{seconds:g} of {seconds:g} seconds")
        return message

    async def _rounds(self) -> WorkflowMessage:
        while True:
            self._state = self._state.begun()
            self._lesson = self._state.lesson
            self._cancelled.clear()
            self._faults.clear()
            self._by_error = False
            if self.log.heard:
                ids, first_judge = self._plan.ids, self.build.first_judge
                rerun = tuple([ids[node] for node in self._to_run() if node < first_judge])
                self._say_of_round(events.RoundStarted(operators=rerun))
            self.active = len(self._progress.ready)
            if self._plan.branches:
                self._note_skips()
                self._open = set(self._progress.ready)
            try:
                await self.build.engine(self._progress.ready, self._step)
                verdict = self._verdict()
            except (OperatorError, SkippedError) as error:
                if self._state.best is None:
                    raise
                return self._conclude(f"Round {self.rounds} failed: {describe(error)}")
            has_result = self._results[-1] is not None
            self._state = self._state.judged(verdict, has_result=has_result)
            if self._state.best is verdict:
                self._counting = self._results.copy()
            if self.log.heard:
                self._say_of_round(
                    events.RoundFinished(
                        status=verdict.status,
                        evaluation=verdict.evaluation,
                        lesson=verdict.lesson,
                        blame=tuple(verdict.blame),
                        score=verdict.score,
                        by_error=self._by_error and not has_result,
                        has_result=has_result,
                    )
                )
            if self._state.is_over:
                return self._conclude()
            self._learn(verdict)

    def _say_of_round(self, event: events.Event) -> None:
        self.log.write(event, self._prefix, round=self._state.number)

    def _verdict(self) -> WorkflowMessage:
        """Return the verdict on the round that has ended."""
        verdict = self._results[-1]
        if verdict is None and self._faults:
            return joined(list(self._faults.values()))
        if verdict is None:
            raise SkippedError(self._why_nothing())
        return verdict

    def _conclude(self, failed: str = "") -> WorkflowMessage:
        """The best round's verdict, which says so where no round succeeded."""
        message, best = cast("WorkflowMessage", self._state.best), self._state.best_round
        if message.usage is self.usage and message.status is WorkflowStatus.SUCCESS:
            return message
        update: dict[str, object] = {"usage": self.usage}
        if message.status is not WorkflowStatus.SUCCESS:
            none = f"None of {self.rounds} rounds succeeded; this is round {best}." if self.rounds > 1 else ""
            said = (message.evaluation, self._strangers(message), failed, none)
            update["evaluation"] = "\n".join(filter(None, said))
        return message.changed(**update)

    def _strangers(self, verdict: WorkflowMessage) -> str:
        """A line on an evaluator that blames unknown operators.

        A nested workflow may blame those around it, and an operator's own verdict what it did inside: a leader
        blames sub-jobs.
        """
        judged = self.build.graph.evaluators and verdict.status is WorkflowStatus.EXECUTION_ERROR and not self._prefix
        blames = verdict.blame if judged else ()
        strangers = unknown(blames, self._plan.ids[:-1])
        return f"The verdict blames an unknown operator: {strangers}." if strangers else ""

    def _to_run(self) -> list[int]:
        gone = self._skipped.keys() | self._lost
        return [node for node, result in enumerate(self._results) if result is None and node not in gone]

    def _finished(self) -> dict[str, WorkflowMessage]:
        return {
            node_id: message
            for node_id, message in zip(self._plan.ids, self._results, strict=True)
            if message is not None and node_id != END
        }

    def _learn(self, verdict: WorkflowMessage) -> None:
        """Make ready for another round."""
        plan, results = self._plan, self._results
        if strangers := unknown(verdict.blame, plan.ids[:-1]):
            self._say_of_round(events.BlameUnknown(blame=strangers))
            _logger.warning("workflow %r: %s is blamed, and no operator is called so", self.build.name, strangers)
        blamed = {self.build.numbers[each] for each in at_fault(verdict.blame, plan.ids[:-1])}
        for node in blamed:
            if node < self.build.first_judge and (result := results[node]) is not None:
                self._feedback[node] = (*self._feedback.get(node, ()), result, verdict)
        again = plan.descendants(blamed)
        for node in again:
            results[node] = None
            self._skipped.pop(node, None)
        self._lost = set()
        unfinished = set(self._to_run())
        self._lost = unfinished - plan.ancestors(again, among=unfinished)  # races that are over
        ran: dict[int, Taken] = {node: result.ports for node, result in enumerate(results) if result is not None}
        self._progress = Progress(plan, ran, [*self._skipped.values(), *(Skip(n, n, n) for n in self._lost)])

    # Steps

    async def _step(self, number: int) -> list[int] | None:
        if number == self.build.end:
            self._results[number] = self._end_message(number)
            return None
        node = self.build.nodes[number]
        node_id, round_ = self._plan.ids[number], self._state.number
        scope = Scope(run=self, path=(*self._prefix, node_id), operator_id=node_id, round=round_)
        events.enter(scope)
        log, began = self.log, 0.0
        if self.outer:
            self.outer.sign_of_life()
        if log.heard:
            if log.buffered:
                await log.room()
            log.write(events.OperatorStarted(), scope.path, node_id, round_, 1)
            began = log.now()
        try:
            call = self._call_for(number, node)
            if self.build.plain and self.journal is None:
                message = completed(await node.operator.run(call), node, call, scope)
            else:
                message = await self._perform(node, call, scope)
        except BaseException as error:
            self._note_failure(error, scope, log.now() - began)
            if isinstance(error, BudgetError) or not _is_failure(error):
                raise
            return self._set_aside(number, error, scope)
        if log.heard:
            finished = events.OperatorFinished(seconds=log.now() - began, message=message)
            log.write(finished, scope.path, node_id, round_, scope.attempt)
        if self.finished is not None:
            self.finished["/".join(scope.path)] = message
        return self._advance(number, message)

    def _perform(self, node: Node, call: OperatorCall, scope: Scope) -> Awaitable[WorkflowMessage]:
        """Run an operator, with its policy and the run's journal if there are any."""
        if self.journal is None:
            return perform(node, call, scope)
        scope.around = node.operator.runs_workflows is not None
        return self.journal.perform(node, call, scope)

    def _call_for(self, number: int, node: Node) -> OperatorCall:
        """Return the input of a node."""
        given, job = self._call, self._call.job
        if job.turns and not node.operator.memory:
            job = job.model_copy(update={"turns": ()})
        messages = tuple(self._inputs(number)) if self._plan.parents[number] else given.messages
        if reads := self.build.reads.get(number):
            messages += tuple(self._further_back(number, reads))
        if self._feedback:
            messages += self._feedback.get(number, ())
        transcript, judged = (self.transcript(), joined_tails(messages, given.job)) if node.judges else ((), None)
        return OperatorCall(
            given.reasoner,
            job,
            messages,
            given.previous,
            self._lesson,
            transcript,
            judged,
            self.insights,
            self.connections,
        )

    def _end_message(self, node: int) -> WorkflowMessage:
        """Return the message of the end node: the verdict, or that of the end operators."""
        messages = self._inputs(node)
        return joined(messages) if self.build.graph.evaluators else joined_tails(messages, self._call.job)

    def _inputs(self, node: int) -> list[WorkflowMessage]:
        """Return the messages of the nodes before a node, if the edges from them are taken."""
        results = self._results
        if not self._plan.branches:
            return [results[parent] for parent in self._plan.parents[node]]  # type: ignore[misc]
        return [message for parent in self._progress.inputs(node) if (message := results[parent]) is not None]

    def _further_back(self, node: int, reads: Sequence[str]) -> list[WorkflowMessage]:
        """Return the messages of operators that ran, and that a node reads without being next to them."""
        before = self._call.messages if self._plan.parents[node] else ()  # it has these already where it is the first
        given = {message.operator_id: message for message in before}
        numbers, results = self.build.numbers, self._results
        found = (results[numbers[read]] if read in numbers else given.get(read) for read in reads)
        return [message for message in found if message is not None]

    def _note_failure(self, error: BaseException, scope: Scope, seconds: float) -> None:
        if not _is_failure(error):
            self._cancelled.append("/".join(scope.path))
            scope.write(events.OperatorCancelled(seconds=seconds, usage=scope.usage))
            return
        scope.write(events.OperatorFailed(seconds=seconds, usage=scope.usage, error=describe(error)))

    def _set_aside(self, node: int, error: BaseException, scope: Scope) -> list[int] | None:
        """Stop the successors of a failed node; while rounds are left, other operators go on."""
        fault = fault_in(error)
        for_others = fault is not None and bool(fault.blame) and set(fault.blame).isdisjoint(self._plan.ids)
        if self.rounds >= self.build.max_rounds or not mendable(error) or (for_others and self.outer):
            raise OperatorError.of(self.build.name, scope.operator_id, scope.attempt, error, self.rounds) from error
        if self._matter({node}):
            self._faults[node] = verdict_of(error, scope.operator_id, self._call.job, self._plan.ids)
            self._by_error = self._by_error or fault is None
            _logger.info(
                "%r of workflow %r failed and runs again: %s", scope.operator_id, self.build.name, describe(error)
            )
        self.active -= 1
        self._open.discard(node)
        if not self._matter(self._open):
            return None
        if self.questions.asked:
            self.root.look_whether_paused()
        return []

    def _matter(self, nodes: set[int]) -> bool:
        """Return True if the end waits for one of these, directly or not; it does not for losers of a race."""
        if not self._plan.branches:
            return True
        gone = self._skipped.keys() | self._faults.keys()
        unfinished = {n for n, result in enumerate(self._results) if result is None and n not in gone}
        return not nodes.isdisjoint(self._plan.ancestors([self.build.end], among=unfinished))

    def _advance(self, node: int, message: WorkflowMessage) -> list[int] | None:
        """Note what a node said; return those that may start now, or None when the end is reached."""
        self._results[node] = message
        if self.outer:
            self.outer.sign_of_life()
        ready = self._progress.finish(node, message.ports)
        self.active += len(ready) - 1
        if self._plan.branches:
            self._note_skips()
            self._open.update(ready)
            self._open.discard(node)
            if self.build.end in self._skipped or (self._faults and not self._matter(self._open)):
                return None
        if self.questions.asked:
            self.root.look_whether_paused()
        if ready == [self.build.end]:
            self._results[-1] = self._end_message(self.build.end)
            return None
        return ready

    def transcript(self) -> tuple[StepRecord, ...]:
        """Return the records of the operators that have finished so far."""
        ids, parents, instructions = self._plan.ids, self._plan.parents, self.build.instructions
        return tuple(
            StepRecord(
                operator_id=ids[node],
                instruction=instructions.get(ids[node], ""),
                before=tuple(ids[parent] for parent in parents[node]),
                message=message,
            )
            for node, message in enumerate(self._results[: self.build.first_judge])
            if message is not None
        )

    # Skips

    def _note_skips(self) -> None:
        for skip in self._progress.skips():
            self._skipped[skip.node] = skip
            node_id = self._plan.ids[skip.node]
            if skip.node < self.build.first_judge:
                path = (*self._prefix, node_id)
                self.log.write(events.OperatorSkipped(reason=self._reason(skip)), path, node_id, self.rounds)

    def _reason(self, skip: Skip) -> str:
        router, ports = self._plan.ids[skip.parent], self._plan.ports.get((skip.parent, skip.child), ())
        message = self._results[skip.parent]
        took = ", ".join(message.ports or ()) if message else ""
        return f"{router!r} took {f'port {took!r}' if took else 'no port'}, not {' or '.join(map(repr, sorted(ports)))}"

    def _why_nothing(self) -> str:
        plan = self._plan
        tails = plan.parents[self.build.first_judge]  # those of the first that judges, or of the end
        reasons = [f"{plan.ids[tail]!r} because {self._reason(self._skipped[tail])}" for tail in tails]
        return (
            f"workflow {self.build.name!r} has no result: every tail was skipped, {'; '.join(reasons)}; "
            "add an operator for that case, or a tail that always runs"
        )


def _items_in(error: OperatorError) -> dict[str, WorkflowMessage]:
    """The items that were done of maps in which one failed."""
    links = [link for link in causes(error) if isinstance(link, OperadError) and not isinstance(link, OperatorError)]
    return {name: message for link in reversed(links) for name, message in link.finished.items()}


def _is_failure(error: BaseException) -> bool:
    """Return True if an operator raised it, also a CancelledError of its own; False for a cancellation."""
    if isinstance(error, asyncio.CancelledError):
        cancelling = getattr(asyncio.current_task(), "cancelling", None)  # since Python 3.11
        return cancelling is not None and not cancelling()
    return isinstance(error, Exception | SystemExit)
