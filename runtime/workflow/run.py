"""One run of a workflow: its rounds, its results, its account."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cached_property
from threading import Lock
from typing import cast

from operad.runtime import events
from operad.runtime.events import RunLog, Scope, StepJournal
from operad.runtime.graph.build import Build, Node
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.graph import END
from operad.runtime.graph.schedule import Progress, Skip, Taken
from operad.runtime.knowledge.insights import RunInsights
from operad.runtime.policies.deadline import Deadline, standing_still, within
from operad.runtime.policies.limits import Limiter, SharedLimits
from operad.runtime.policies.policy import NO_BUDGET, Timeout, causes
from operad.runtime.tools.connections import connections
from operad.runtime.values.errors import BudgetError, OperadError, OperatorError, SkippedError, describe
from operad.runtime.values.message import NO_USAGE, StepRecord, Usage, WorkflowMessage, WorkflowStatus
from operad.runtime.values.questions import Questions
from operad.runtime.workflow.perform import completed, perform
from operad.runtime.workflow.rounds import Rounds, at_fault
from operad.runtime.workflow.verdict import fault_in, joined, joined_tails, mendable, unknown, verdict_of

_logger = logging.getLogger(__name__)


class Run:
    """One call of a workflow.

    In each round every operator without a result runs once. A verdict of EXECUTION_ERROR clears
    the results of the blamed operators and of all that depends on them, or all results if nobody
    is blamed, and the next round begins with its lesson. An operator found at fault sees, after
    the messages of the operators before it, its own earlier messages, each with its verdict.

    An operator that raises, while rounds are left, is such a verdict, too: what does not depend on
    it goes on, and the round ends when all that has. If no round succeeds, the best one counts.

    Args:
        build: The workflow.
        call: What it is given.
        log: Where its events go.
        outer: The operator that this run is inside of, if it is.
        prefix: The path of that operator.
        insights: What earlier runs tell it.

    Attributes:
        log: Where its events go.
        job: What is to be done.
        insights: What earlier runs tell it, if it was given that.
        outer: The operator that it is inside of.
        budget: What it may use.
        calls: What limits its calls of models, the outermost first; but not what limits the runs around it.
        shared_limits: What keeps the limits of its calls together with other processes, if anything does: set for
            the outermost run, and taken from there by those inside it.
        usage: What it has used.
        build: The workflow.
        workflow: The workflow's name.
        journal: What keeps the messages of its operators, if anything does: set for the outermost run, and taken
            from the run around it by those that an operator around them has in it.
        finished: Where there is a budget, the messages of all operators that have finished, by path.
        questions: What is asked, in this run and in those around it.
        active: How many of its operators are at work, or may start.
        idle: How many of those only wait: for a person, or for a run inside of them.
        on_paused: What to call when nothing in the run can go on until a person answers.
    """

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
        self.job = call.job
        self.insights = insights
        self.outer = outer
        self.questions: Questions = outer.run.questions if outer else Questions()
        self.active = 0
        self.idle = 0
        self.budget = build.budget
        self.calls: tuple[Limiter, ...] = (build.calls,) if build.calls else ()
        self.shared_limits: SharedLimits | None = outer.run.shared_limits if outer else None
        self.workflow = build.name
        self.journal: StepJournal | None = outer.run.journal if outer and outer.around else None
        self._live: set[Run] = set()
        self.on_paused: Callable[[], object] | None = None
        self.build = build
        self._plan = build.plan
        self._end_node = len(build.plan.ids) - 1
        self._judges_from = len(build.graph.operators)
        self._nodes = build.nodes
        self._plain = build.plain
        self._reads = build.reads
        self._call = call
        self._prefix = prefix
        self._state = Rounds(build.max_rounds, lessons=(call.lesson,) if call.lesson else ())
        self._lesson: str | None = None
        self._faults: dict[int, WorkflowMessage] = {}
        self._by_error = False
        self._best: WorkflowMessage | None = None
        self._results: list[WorkflowMessage | None] = [None] * len(build.plan.ids)
        self._counting: list[WorkflowMessage | None] = []
        self._recalled: Mapping[str, WorkflowMessage] | None = None
        self._skipped: dict[int, Skip] = {}
        self._lost: set[int] = set()
        self._open: set[int] = set()
        self._feedback: dict[int, tuple[WorkflowMessage, ...]] = {}
        self._progress = Progress(build.plan)
        self._cancelled: list[str] = []
        self._deadlines: list[Deadline] = []
        self.finished: dict[str, WorkflowMessage] | None = outer.run.finished if outer else None
        if self.finished is None and build.budget is not NO_BUDGET:
            self.finished = {}
        self.usage = NO_USAGE
        self._spending = Lock()

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
            async with connections():
                message = await self._in_time()
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
        finished = events.RunFinished(message=message, seconds=now() - began, rounds=self.rounds)
        self._say(finished, round=self._state.best_round)
        return message

    def take_up(self, call: OperatorCall) -> None:
        """Before it is executed: be given something else, as when a run is gone on with."""
        self.job, self._call = call.job, call
        self._state = replace(self._state, lessons=(call.lesson,) if call.lesson else ())

    def recall(self, message: WorkflowMessage, rounds: int, messages: Mapping[str, WorkflowMessage]) -> None:
        """Instead of being executed: say what came of it when it was.

        Args:
            message: Its message.
            rounds: How many rounds it had.
            messages: The last messages of its operators, by id.
        """
        self._state, self._recalled = replace(self._state, number=rounds), messages
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
        )

    @property
    def rounds(self) -> int:
        """How many rounds it has begun."""
        return self._state.number

    @property
    def messages(self) -> Mapping[str, WorkflowMessage]:
        """The messages of the operators that ran, by id: those of the round that counts."""
        if self._recalled is not None:
            return {key: self._recalled[key] for key in self.build.before if key in self._recalled}
        said = zip(self._plan.ids, self._counting[: self._judges_from], strict=False)
        return {node_id: message for node_id, message in said if message is not None}

    @property
    def tails(self) -> tuple[str, ...]:
        """The ids of the operators that nothing follows."""
        return tuple(self._plan.ids[node] for node in self._plan.parents[self._judges_from])

    @property
    def waits(self) -> bool:
        """Whether all that is at work in it, and in those inside it, waits for a person."""
        return self.questions.waits() and all(0 < run.active == run.idle for run in self._live)

    def _say(self, event: events.Event, round: int = 0) -> None:
        """Tell those who listen to this very run."""
        if self.outer is None or self.log is not self.outer.run.log:
            self.log.write(event, self._prefix, round=round, only_here=True)

    def _begin(self) -> None:
        self.active = len(self._progress.ready)
        self.root._live.add(self)
        self._say(self._started())
        outer = self.outer
        if outer is not None:
            outer.waits_for += 1
            if outer.waits_for == 1:
                outer.run.idle += 1  # it waits for this run
            build = self.build
            entered = events.WorkflowEntered(
                workflow=build.name,
                operators=build.before,
                judges=build.judges,
                instructions=build.instructions,
                engine=build.engine_name,
            )
            outer.run.log.write(entered, self._prefix, outer.operator_id, outer.round, outer.attempt)

    def _end(self) -> None:
        self.root._live.discard(self)
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
        """Add to what the run has used."""
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

    async def _in_time(self) -> WorkflowMessage:
        seconds = self.budget.seconds
        if seconds is None:
            return await self._rounds()
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
                ids = self._plan.ids
                rerun = tuple(ids[node] for node in self._to_run() if node < self._judges_from)
                self._say_of_round(events.RoundStarted(operators=rerun))
            self._note_skips()
            self.active = len(self._progress.ready)
            self._open = set(self._progress.ready)
            try:
                await self.build.engine(self._progress.ready, self._step)
                verdict = self._verdict()
            except (OperatorError, SkippedError) as error:
                if self._best is None:
                    raise
                return self._conclude(f"Round {self.rounds} failed: {describe(error)}")
            has_result = self._results[self._end_node] is not None
            self._note_verdict(verdict, has_result=has_result)
            self._say_of_round(
                events.RoundFinished(
                    status=verdict.status,
                    evaluation=verdict.evaluation,
                    lesson=verdict.lesson,
                    blame=verdict.blame,
                    score=verdict.score,
                    by_error=self._by_error and not has_result,
                    has_result=has_result,
                )
            )
            if self._state.is_over:
                return self._conclude()
            self._learn(verdict)

    def _say_of_round(self, event: events.Event) -> None:
        self.log.write(event, self._prefix, round=self.rounds)

    def _verdict(self) -> WorkflowMessage:
        """How the round that has ended is judged."""
        verdict = self._results[self._end_node]
        if verdict is None and self._faults:
            return joined(list(self._faults.values()))
        if verdict is None:
            raise SkippedError(self._why_nothing())
        return verdict

    def _note_verdict(self, verdict: WorkflowMessage, *, has_result: bool) -> None:
        """Take the state further; the messages of the best round are those that count."""
        self._state = self._state.judged(verdict, has_result=has_result)
        if self._state.best is verdict:
            self._best = verdict
            self._counting = self._results.copy()

    def _conclude(self, failed: str = "") -> WorkflowMessage:
        """The best round's verdict, which says so where no round succeeded."""
        assert self._best  # noqa: S101 - a run without it raises
        message, best = self._best, self._state.best_round
        update: dict[str, object] = {"usage": self.usage}
        if message.status is not WorkflowStatus.SUCCESS and self.rounds > 1:
            none = f"None of {self.rounds} rounds succeeded; this is round {best}."
            update["evaluation"] = "\n".join(filter(None, (message.evaluation, failed, none)))
        return message.model_copy(update=update)

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
            if node < self._judges_from and (result := results[node]) is not None:
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
        if number == self._end_node:
            self._results[number] = self._end_message(number)
            return None
        node = self._nodes[number]
        node_id = self._plan.ids[number]
        scope = Scope(run=self, path=(*self._prefix, node_id), operator_id=node_id, round=self.rounds)
        events.enter(scope)
        log, began = self.log, 0.0
        if self.outer:
            self.outer.sign_of_life()
        if log.heard:
            if log.buffered:
                await log.room()
            log.write(events.OperatorStarted(), scope.path, node_id, self.rounds, 1)
            began = log.now()
        try:
            call = self._call_for(number, node)
            if self._plain and self.journal is None:
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
            log.write(finished, scope.path, node_id, self.rounds, scope.attempt)
        if self.finished is not None:
            self.finished["/".join(scope.path)] = message
        return self._advance(number, message)

    def _perform(self, node: Node, call: OperatorCall, scope: Scope) -> Awaitable[WorkflowMessage]:
        """Run an operator where a policy, or whoever keeps the run, has a say."""
        if self.journal is None:
            return perform(node, call, scope)
        scope.around = node.operator.runs_workflows is not None
        return self.journal.perform(node, call, scope)

    def _call_for(self, number: int, node: Node) -> OperatorCall:
        """What a node is given."""
        given, job = self._call, self._call.job
        if job.turns and not node.operator.memory:
            job = job.model_copy(update={"turns": ()})
        if not node.judges:
            return OperatorCall(given.reasoner, job, self._messages(number), given.previous, self._lesson)
        inputs = self._inputs(number)
        wants_transcript = self.journal is not None or bool(node.policy.cache)
        return OperatorCall(
            given.reasoner,
            job,
            self._messages(number),
            given.previous,
            self._lesson,
            transcript=self.transcript() if wants_transcript else (),
            judged=joined_tails(inputs, given.job),
        )

    def _end_message(self, node: int) -> WorkflowMessage:
        """What the node at the end says: the verdict, or what the tails said."""
        messages = self._inputs(node)
        return joined(messages) if self.build.graph.evaluators else joined_tails(messages, self._call.job)

    def _inputs(self, node: int) -> list[WorkflowMessage]:
        """What the nodes before a node said, as far as the edges from them are taken."""
        results = self._results
        if not self._plan.branches:
            return [results[parent] for parent in self._plan.parents[node]]  # type: ignore[misc]
        return [message for parent in self._progress.inputs(node) if (message := results[parent]) is not None]

    def _messages(self, node: int) -> tuple[WorkflowMessage, ...]:
        """The messages that a node is given."""
        messages = tuple(self._inputs(node)) if self._plan.parents[node] else self._call.messages
        if self._reads and node in self._reads:
            messages += tuple(self._further_back(node))
        if self._feedback:
            messages += self._feedback.get(node, ())
        return messages

    def _further_back(self, node: int) -> list[WorkflowMessage]:
        """What the operators said that a node reads and that are not right before it, as far as they ran."""
        given: Mapping[str, WorkflowMessage] = self._given if self._plan.parents[node] else {}
        numbers, results = self.build.numbers, self._results
        found = (results[numbers[i]] if i in numbers else given.get(i) for i in self._reads[node])
        return [message for message in found if message is not None]

    @cached_property
    def _given(self) -> Mapping[str, WorkflowMessage]:
        """The messages that the workflow was given, by who said them."""
        return {message.operator_id: message for message in self._call.messages}

    def _note_failure(self, error: BaseException, scope: Scope, seconds: float) -> None:
        if not _is_failure(error):
            self._cancelled.append("/".join(scope.path))
            scope.write(events.OperatorCancelled(seconds=seconds, usage=scope.usage))
            return
        scope.write(events.OperatorFailed(seconds=seconds, usage=scope.usage, error=describe(error)))

    def _set_aside(self, node: int, error: BaseException, scope: Scope) -> list[int] | None:
        """Nothing follows from a node that failed; while rounds are left, what else runs goes on."""
        fault = fault_in(error)
        for_others = fault is not None and bool(fault.blame) and set(fault.blame).isdisjoint(self._plan.ids)
        if self.rounds >= self.build.max_rounds or not mendable(error) or (for_others and self.outer):
            raise OperatorError(self.build.name, scope.operator_id, scope.attempt, error, self.rounds) from error
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
        """Whether the end waits for one of these, directly or not; it does not for those that have lost a race."""
        if not self._plan.branches:
            return True
        gone = self._skipped.keys() | self._faults.keys()
        unfinished = {n for n, result in enumerate(self._results) if result is None and n not in gone}
        return not nodes.isdisjoint(self._plan.ancestors([self._end_node], among=unfinished))

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
            if self._end_node in self._skipped or (self._faults and not self._matter(self._open)):
                return None
        if self.questions.asked:
            self.root.look_whether_paused()
        return ready

    def transcript(self) -> tuple[StepRecord, ...]:
        """What operators have said, as it stands."""
        ids, parents = self._plan.ids, self._plan.parents
        return tuple(
            StepRecord(
                operator_id=ids[node],
                instruction=self._nodes[node].operator.instruction,
                before=tuple(ids[parent] for parent in parents[node]),
                message=message,
            )
            for node, message in enumerate(self._results[: self._judges_from])
            if message is not None
        )

    # Skips

    def _note_skips(self) -> None:
        for skip in self._progress.skips():
            self._skipped[skip.node] = skip
            node_id = self._plan.ids[skip.node]
            if skip.node < self._judges_from:
                path = (*self._prefix, node_id)
                self.log.write(events.OperatorSkipped(reason=self._reason(skip)), path, node_id, self.rounds)

    def _reason(self, skip: Skip) -> str:
        router, ports = self._plan.ids[skip.parent], self._plan.ports.get((skip.parent, skip.child), ())
        message = self._results[skip.parent]
        took = ", ".join(message.ports or ()) if message else ""
        return f"{router!r} took {f'port {took!r}' if took else 'no port'}, not {' or '.join(map(repr, sorted(ports)))}"

    def _why_nothing(self) -> str:
        plan = self._plan
        tails = plan.parents[self._judges_from]  # those of the first that judges, or of the end
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
    """Whether an operator raised it: not where it was cancelled, but where it says so though nobody did it."""
    if isinstance(error, asyncio.CancelledError):
        cancelling = getattr(asyncio.current_task(), "cancelling", None)  # since Python 3.11
        return cancelling is not None and not cancelling()
    return isinstance(error, Exception | SystemExit)
