"""Execution of the operators of a round."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any

from operad.runtime import events
from operad.runtime.events import RunInProgress, Scope
from operad.runtime.events.trace import Trace
from operad.runtime.graph.build import Build, Node
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.graph import END
from operad.runtime.graph.operator import started
from operad.runtime.graph.schedule import Progress, Repeat, Skip, Taken
from operad.runtime.values.errors import BudgetError, OperatorError, SkippedError, describe
from operad.runtime.values.message import WorkflowMessage
from operad.runtime.values.step_record import StepRecord
from operad.runtime.workflow.attempts import completed, perform
from operad.runtime.workflow.rounds import at_fault
from operad.runtime.workflow.verdict import fault_in, is_retryable, join_verdicts, joined_tails, verdict_of

_logger = logging.getLogger(__name__)

_STARTED = events.OperatorStarted()


class Steps:
    """Execution of the nodes of a run, and the messages of its operators.

    In each round, every operator without a message runs once. An operator that was found at fault gets, after the
    messages of its predecessors, its own earlier messages, each followed by the verdict on it. While rounds are left,
    the error of an operator counts as a verdict: operators that do not depend on it continue, and the round ends when
    they have ended.

    Args:
        run: The run; only its log and outer scope are stored.
        build: The workflow.
        call: The input of the run.
        prefix: The path of the operator that contains the run.

    Attributes:
        results: The message of each node, by number; None for a node that has not run yet or runs again.
        active: Number of operators that are running or about to start.
        cancelled: Paths of the operators that were cancelled in this round.
        by_error: True if an error other than a `FaultError` counts as a verdict in this round.
    """

    __slots__ = (
        "_build",
        "_call",
        "_faults",
        "_feedback",
        "_holds_values",
        "_log",
        "_lost",
        "_open",
        "_outer",
        "_plan",
        "_prefix",
        "_progress",
        "_round",
        "_skipped",
        "_traces",
        "active",
        "by_error",
        "cancelled",
        "results",
    )

    def __init__(self, run: RunInProgress, build: Build, call: OperatorCall, prefix: tuple[str, ...]) -> None:
        self._log = run.log
        self._outer = run.outer
        self._build = build
        self._plan = build.plan
        self._prefix = prefix
        self._call = call
        self._holds_values = call.holds_values  # looked up once per message instead of once per reader
        self._round = 0
        self.results: list[WorkflowMessage | None] = [None] * len(build.plan.ids)
        self._progress = Progress(build.plan)
        self._skipped: dict[int, Skip] = {}
        self._traces: list[Trace | None] = [None] * len(self.results)
        self._lost: AbstractSet[int] = frozenset()
        self._feedback: dict[int, tuple[WorkflowMessage, ...]] = {}
        self._open: set[int] = set()
        self._faults: dict[int, WorkflowMessage] = {}
        self.by_error = False
        self.cancelled: list[str] = []
        self.active = len(self._progress.ready)

    # Rounds

    def due(self) -> tuple[str, ...]:
        """Return the ids of the operators that run in the next round, unless they are skipped."""
        ids, first_evaluator = self._plan.ids, self._build.first_evaluator
        return tuple([ids[node] for node in self._without_message() if node < first_evaluator])

    async def run_round(self, run: RunInProgress, call: OperatorCall, number: int) -> WorkflowMessage:
        """Run the operators and evaluators that have no message, and return the verdict on the round.

        Args:
            run: The run. It is an argument, not an attribute, so that the run and its steps form no reference cycle.
            call: Input of the run, with the lessons of the rounds so far.
            number: Number of the round.

        Raises:
            OperatorError: An operator failed; the others were cancelled and have ended.
            SkippedError: Every tail was skipped.
        """
        self._call, self._round = call, number
        self.cancelled.clear()
        self._faults.clear()
        self.by_error = False
        ready = self._progress.ready
        self.active = len(ready)
        if self._plan.branches:
            self._note_skips()
            self._open = set(ready)
        await self._build.engine(ready, partial(self._step, run))
        verdict = self.results[-1]
        if verdict is not None:
            return verdict
        if self._faults:
            return join_verdicts(list(self._faults.values()))
        raise SkippedError(self._no_result_message())

    def repeat(self, verdict: WorkflowMessage) -> None:
        """Prepare the next round: clear the messages of the blamed operators and of all that depend on them.

        Without a known blamed operator, the messages of all operators are cleared.
        """
        plan, results = self._plan, self.results
        blamed = {self._build.numbers[node_id] for node_id in at_fault(verdict.blame, plan.ids[:-1])}
        for node in blamed:
            if node < self._build.first_evaluator and (result := results[node]) is not None:
                self._feedback[node] = (*self._feedback.get(node, ()), result, verdict)
        ran: dict[int, Taken] = {node: result.ports for node, result in enumerate(results) if result is not None}
        repeat = Repeat.of(plan, blamed, ran, self._skipped.values())
        for node in repeat.again:
            results[node] = None
            self._skipped.pop(node, None)
        self._lost, self._progress = repeat.lost, repeat.progress

    def finished(self) -> dict[str, WorkflowMessage]:
        """Return the messages of the operators and evaluators that have finished, by id."""
        return {
            node_id: message
            for node_id, message in zip(self._plan.ids, self.results, strict=True)
            if message is not None and node_id != END
        }

    def transcript(self) -> tuple[StepRecord, ...]:
        """Return the records of the operators that have finished."""
        return tuple(
            self._record(node, message)
            for node, message in enumerate(self.results[: self._build.first_evaluator])
            if message is not None
        )

    def _record(self, node: int, message: WorkflowMessage) -> StepRecord:
        ids, trace, has_tools = self._plan.ids, self._traces[node], self._build.nodes[node].has_tools
        return StepRecord(
            operator_id=ids[node],
            instruction=self._build.instructions.get(ids[node], ""),
            before=tuple(ids[parent] for parent in self._plan.parents[node]),
            message=message,
            tool_calls=tuple(trace.calls) if trace and trace.calls else () if has_tools else None,
            calls_missing=trace.calls_missing if trace else "",
            passages=trace.passages if trace else (),
        )

    def _without_message(self) -> list[int]:
        """Return the nodes that have not finished and were not skipped."""
        gone = self._skipped.keys() | self._lost
        return [node for node, result in enumerate(self.results) if result is None and node not in gone]

    # One step

    async def _step(self, run: RunInProgress, number: int) -> list[int] | None:
        """Run a node; return the nodes that may start now, or None when the end node has its message."""
        build = self._build
        if number == build.end:
            self.results[number] = self._end_message(number)
            return None
        node = build.nodes[number]
        node_id, round_ = self._plan.ids[number], self._round
        log, began = self._log, 0.0
        path = (*self._prefix, node_id)
        scope = Scope(run=run, path=path, operator_id=node_id, round=round_, heard=log.heard)
        events.enter(scope)
        if self._outer:
            self._outer.sign_of_life()
        if log.heard:
            if log.buffered:
                await log.room()
            log.write(_STARTED, path, node_id, round_, 1)
            began = log.now()
        try:
            call = self._call_for(run, number, node)
            if build.plain and run.journal is None:
                said = await (started(node.operator, call) if self._holds_values else node.operator.run(call))
                message = completed(said, node, call, scope)
            else:
                message = await self._perform(node, call, scope)
        except BaseException as error:
            self._write_failure(error, scope, log.now() - began)
            if isinstance(error, BudgetError) or not _is_failure(error):
                raise
            return self._record_fault(number, error, scope)
        if log.heard:
            finished = events.OperatorFinished(seconds=log.now() - began, message=message.own())
            log.write(finished, path, node_id, round_, scope.attempt)
        return self._advance(number, message, scope)

    def _perform(self, node: Node, call: OperatorCall, scope: Scope) -> Awaitable[WorkflowMessage]:
        """Run an operator, with its policy and the run's journal if there are any."""
        journal = scope.run.journal
        if journal is None:
            return perform(node, call, scope)
        scope.runs_workflows = node.operator.runs_workflows is not None
        return journal.perform(node, call, scope)

    def _call_for(self, run: RunInProgress, number: int, node: Node) -> OperatorCall:
        """Return the input of a node."""
        given, job = self._call, self._call.job
        if job.turns and not node.operator.memory:
            job = job.model_copy(update={"turns": ()})
        messages = self._inputs(number) if self._plan.parents[number] else given.messages
        if reads := self._build.reads.get(number):
            messages += tuple(self._messages_read(number, reads))
        if self._feedback:
            messages += self._feedback.get(number, ())
        transcript, judged = (self.transcript(), joined_tails(messages, given.job)) if node.is_evaluator else ((), None)
        return OperatorCall(given.reasoner, job, messages, given.previous, given.lesson, transcript, judged, run.deps)

    def _inputs(self, node: int) -> tuple[WorkflowMessage, ...]:
        """Return the messages of a node's parents whose edges to the node are taken; all of these parents have one."""
        parents = self._progress.inputs(node) if self._plan.branches else self._plan.parents[node]
        messages: list[Any] = [self.results[parent] for parent in parents]
        return tuple(messages)

    def _messages_read(self, node: int, reads: Sequence[str]) -> list[WorkflowMessage]:
        """Return the messages that a node reads from operators that are not its parents, or from the run's input."""
        before = self._call.messages if self._plan.parents[node] else ()  # a node without parents has the input already
        given = {message.operator_id: message for message in before}
        numbers, results = self._build.numbers, self.results
        messages = (results[numbers[read]] if read in numbers else given.get(read) for read in reads)
        return [message for message in messages if message is not None]

    def _end_message(self, node: int) -> WorkflowMessage:
        """Return the message of the end node: the joined verdicts, or the joined messages of the tails."""
        messages = self._inputs(node)
        if len(messages) == 1:
            return messages[0]
        return join_verdicts(messages) if self._build.graph.evaluators else joined_tails(messages, self._call.job)

    def _advance(self, node: int, message: WorkflowMessage, scope: Scope) -> list[int] | None:
        """Store the message of a node; return the nodes that may start now, or None when the round ends."""
        run, outer = scope.run, self._outer
        self.results[node], self._traces[node] = message, scope.trace
        if message.holds_values:
            self._holds_values = True
        if run.finished is not None:
            run.finished["/".join(scope.path)] = message
        if outer:
            outer.sign_of_life()
        ready = self._progress.finish(node, message.ports)
        self.active += len(ready) - 1
        end = self._build.end
        if self._plan.branches:
            self._note_skips()
            self._open.update(ready)
            self._open.discard(node)
            if end in self._skipped or (self._faults and not self._affects_end(self._open)):
                return None
        if run.questions.asked:
            run.root.check_paused()
        if ready == [end]:
            self.results[-1] = self._end_message(end)
            return None
        return ready

    # Failures

    def _write_failure(self, error: BaseException, scope: Scope, seconds: float) -> None:
        """Write the event of an operator that failed or was cancelled."""
        if not _is_failure(error):
            self.cancelled.append("/".join(scope.path))
            scope.write(events.OperatorCancelled(seconds=seconds, usage=scope.usage))
            return
        scope.write(events.OperatorFailed(seconds=seconds, usage=scope.usage, error=describe(error)))

    def _record_fault(self, node: int, error: BaseException, scope: Scope) -> list[int] | None:
        """Turn the error of a node into a verdict; operators that do not depend on the node continue.

        Returns:
            No nodes, or None when the round ends.

        Raises:
            OperatorError: The run fails: no rounds are left, a lesson would not help against the error, or the error
                blames operators outside this nested workflow.
        """
        name, fault = self._build.name, fault_in(error)
        for_others = fault is not None and bool(fault.blame) and set(fault.blame).isdisjoint(self._plan.ids)
        is_hopeless = fault is None and not self._build.nodes[node].operator.reads_lesson
        is_final = is_hopeless or not is_retryable(error) or (for_others and self._outer)
        if self._round >= self._build.max_rounds or is_final:
            raise OperatorError.of(name, scope.operator_id, scope.attempt, error, self._round) from error
        if self._affects_end({node}):
            self._faults[node] = verdict_of(error, scope.operator_id, self._call.job, self._plan.ids)
            self.by_error = self.by_error or fault is None
            _logger.info("%r of workflow %r failed and runs again: %s", scope.operator_id, name, describe(error))
        self.active -= 1
        self._open.discard(node)
        if not self._affects_end(self._open):
            return None
        if scope.run.questions.asked:
            scope.run.root.check_paused()
        return []

    def _affects_end(self, nodes: set[int]) -> bool:
        """Return True if the end node depends on one of the nodes; it does not depend on losers of an ``any`` join."""
        if not self._plan.branches:
            return True
        gone = self._skipped.keys() | self._faults.keys()
        unfinished = {n for n, result in enumerate(self.results) if result is None and n not in gone}
        return not nodes.isdisjoint(self._plan.ancestors([self._build.end], among=unfinished))

    # Skips

    def _note_skips(self) -> None:
        """Record the nodes that were skipped since the last call, and write their events."""
        for skip in self._progress.skips():
            self._skipped[skip.node] = skip
            node_id = self._plan.ids[skip.node]
            if skip.node < self._build.first_evaluator:
                path = (*self._prefix, node_id)
                self._log.write(events.OperatorSkipped(reason=self._reason(skip)), path, node_id, self._round)

    def _reason(self, skip: Skip) -> str:
        """Return the reason for a skip: the ports that an operator took instead of those of the edge."""
        router, ports = self._plan.ids[skip.parent], self._plan.ports.get((skip.parent, skip.child), ())
        message = self.results[skip.parent]
        took = ", ".join(message.ports or ()) if message else ""
        return f"{router!r} took {f'port {took!r}' if took else 'no port'}, not {' or '.join(map(repr, sorted(ports)))}"

    def _no_result_message(self) -> str:
        """Return the error text for a round in which every tail was skipped."""
        plan = self._plan
        tails = plan.parents[self._build.first_evaluator]  # the parents of the first evaluator, or of the end node
        names = ["the result" if plan.ids[tail].startswith("<") else repr(plan.ids[tail]) for tail in tails]
        reasons = [
            f"{name} because {self._reason(self._skipped[tail])}" for name, tail in zip(names, tails, strict=True)
        ]
        return (
            f"workflow {self._build.name!r} has no result: every tail was skipped, {'; '.join(reasons)}; "
            "add an operator for that case, or a tail that always runs"
        )


def _is_failure(error: BaseException) -> bool:
    """Return True if an operator raised the error; False if the operator was cancelled.

    A CancelledError without a cancellation of the current task is an error that the operator raised.
    """
    if isinstance(error, asyncio.CancelledError):
        cancelling = getattr(asyncio.current_task(), "cancelling", None)  # since Python 3.11
        return cancelling is not None and not cancelling()
    return isinstance(error, Exception | SystemExit)
