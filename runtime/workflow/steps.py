"""Execution of the operators of a round."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Coroutine, Mapping
from functools import partial
from typing import Any

from operad.runtime import events
from operad.runtime.events import RunInProgress, Scope
from operad.runtime.events.trace import NO_INNER
from operad.runtime.graph.build import Build, Node
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.operator import started
from operad.runtime.reasoning.exchange import Rejection
from operad.runtime.values.errors import BudgetError, OperatorError, SkippedError, describe
from operad.runtime.values.message import Job, WorkflowMessage, WorkflowStatus
from operad.runtime.workflow.attempts import completed, perform
from operad.runtime.workflow.kept import Done, InnerRun, same_answer
from operad.runtime.workflow.node_states import NodeStates
from operad.runtime.workflow.places import faults_of, place_of
from operad.runtime.workflow.verdict import (
    fault_in,
    is_retryable,
    join_verdicts,
    joined_tails,
    rejection_of,
    verdict_of,
)

_logger = logging.getLogger(__name__)

_STARTED = events.OperatorStarted()
_KEPT = events.OperatorKept()


class Steps(NodeStates):
    """Execution of the nodes of a run, round by round.

    In each round, every node without a message runs once, unless it keeps that of the last round. While rounds are left,
    the error of an operator counts as a verdict: operators that do not depend on it continue, and the round ends when
    they have ended.

    Args:
        run: The run; only its log and outer scope are stored.
        call: The input of the run.
        prefix: The path of the operator that contains the run.

    Attributes:
        active: Number of operators that are running or about to start.
        cancelled: Paths of the operators that were cancelled in this round.
        by_error: True if an error other than a `FaultError` counts as a verdict in this round.
        is_final: True if the verdict of this round is that of a nested workflow, which has no round left.
    """

    __slots__ = (
        "_faults",
        "_log",
        "_open",
        "_outer",
        "_prefix",
        "_repeats",
        "_round",
        "active",
        "by_error",
        "cancelled",
        "is_final",
    )

    def __init__(self, run: RunInProgress, build: Build, call: OperatorCall, prefix: tuple[str, ...]) -> None:
        super().__init__(build, call)
        self._log = run.log
        self._outer = run.outer
        self._prefix = prefix
        self._repeats = run.repeats
        self._round = 0
        self._open: set[int] = set()
        self._faults: dict[int, WorkflowMessage] = {}
        self.by_error = self.is_final = False
        self.cancelled: list[str] = []
        self.active = len(self._progress.ready)

    # Rounds

    async def run_round(self, run: RunInProgress, number: int) -> WorkflowMessage:
        """Run the operators and evaluators that have no message, and return the verdict on the round.

        Args:
            run: The run. It is an argument, not an attribute, so that the run and its steps form no reference cycle.

        Raises:
            OperatorError: An operator failed; the others were cancelled and have ended.
            SkippedError: Every tail was skipped.
        """
        self._round = number
        self.cancelled.clear()
        self._faults.clear()
        self._changed.clear()
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

    # One step

    def _step(self, run: RunInProgress, number: int) -> Coroutine[Any, Any, list[int] | None]:
        """Return the coroutine that runs a node; its result is the nodes that may start now, or None when the round ends."""
        if number >= self._build.first_evaluator or self._earlier:
            return self._step_of_round(run, number)
        return self._run(run, number, self._build.nodes[number])

    async def _step_of_round(self, run: RunInProgress, number: int) -> list[int] | None:
        """Run an evaluator, the end node, or a node that may keep its earlier message."""
        if number == self._build.end:
            self.results[number] = self._end_message(number)
            return None
        node = self._build.nodes[number]
        if node.is_evaluator and self._is_rejected(number):
            return self._end_rejected()
        if (kept := self._kept(number, node)) is not None:
            return self._advance_kept(run, number, node, kept)
        return await self._run(run, number, node, self._earlier_inside(number))

    def _scope(self, run: RunInProgress, number: int) -> Scope:
        node_id = self._plan.ids[number]
        path = (*self._prefix, node_id)
        return Scope(run=run, path=path, operator_id=node_id, round=self._round, heard=self._log.heard)

    async def _run(
        self, run: RunInProgress, number: int, node: Node, earlier: Mapping[str, InnerRun] = NO_INNER
    ) -> list[int] | None:
        """Run an operator; return the nodes that may start now, or None when the round ends.

        Args:
            earlier: Outcomes of the workflows inside the operator in the last round.
        """
        scope = self._scope(run, number)
        events.enter(scope)
        if earlier:
            scope.earlier = earlier
        if self._outer:
            self._outer.sign_of_life()
        log, began = self._log, 0.0
        if log.heard:
            if log.buffered:
                await log.room()
            log.write(_STARTED, scope.path, scope.operator_id, scope.round, 1)
            began = log.now()
        try:
            call = self._call_for(run, number, node)
            if self._build.plain and run.journal is None:
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
            log.write(finished, scope.path, scope.operator_id, scope.round, scope.attempt)
        if node.stops and message.status is not WorkflowStatus.SUCCESS:
            return self._record_rejection(number, message, scope)
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
        messages = self._received(number)
        if self._repeats:
            self._inputs[number] = messages
        if node.is_evaluator:
            return self._call_to_judge(number, job, messages, run.deps)
        lesson, rejection = given.lesson, None
        if self._repairs:
            lesson = self._lesson(number)
            rejection = self._rejection(number, messages)
        return OperatorCall(given.reasoner, job, messages, given.previous, lesson, (), None, run.deps, rejection)

    def _call_to_judge(
        self, number: int, job: Job, messages: tuple[WorkflowMessage, ...], deps: object
    ) -> OperatorCall:
        """Return the input of an evaluator. What the workflow was given counts as messages of earlier experts."""
        given, earlier = self._call, self._earlier.get(number)
        around = [message for message in given.messages if message.over is None]
        rejection = earlier and Rejection(
            answer=earlier.message, faults=earlier.message.faults, exchange=earlier.trace and earlier.trace.exchange
        )
        return OperatorCall(
            given.reasoner,
            job,
            messages,
            (*given.previous, *around),
            self._lesson(number),
            tuple(self.records()),
            joined_tails(messages, given.job),
            deps,
            rejection,
        )

    def _advance_kept(self, run: RunInProgress, number: int, node: Node, kept: Done) -> list[int] | None:
        """Store the earlier message of a node that does not run again; return the nodes that may start now."""
        scope = self._scope(run, number)
        scope.write(_KEPT)
        scope.trace, self._inputs[number] = kept.trace, kept.inputs
        if node.stops and kept.message.status is not WorkflowStatus.SUCCESS:
            return self._record_rejection(number, kept.message, scope)
        return self._advance(number, kept.message, scope)

    def _end_rejected(self) -> None:
        """End the round with the verdicts that there are."""
        self.active -= 1
        verdicts = self.results[self._build.first_evaluator : -1]
        self.results[-1] = join_verdicts([verdict for verdict in verdicts if verdict is not None])

    def _advance(self, node: int, message: WorkflowMessage, scope: Scope) -> list[int] | None:
        """Store the message of a node; return the nodes that may start now, or None when the round ends."""
        run, outer = scope.run, self._outer
        self.results[node], self._traces[node] = message, scope.trace
        if self._round > 1 and node < self._build.first_evaluator:
            earlier = self._earlier.get(node)
            if earlier is None or not same_answer(earlier.message, message):
                self._changed.add(node)
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
        blame = fault.blame if fault else ()
        for_others = bool(blame) and not any(place_of(who, self._plan.ids) for who in blame)
        is_hopeless = fault is None and not self._build.nodes[node].operator.reads_lesson
        is_final = is_hopeless or not is_retryable(error) or (for_others and self._outer)
        if self._round >= self._build.max_rounds or is_final:
            raise OperatorError.of(name, scope.operator_id, scope.attempt, error, self._round) from error
        if self._affects_end({node}):
            self._faults[node] = verdict_of(error, scope.operator_id, self._call.job, self._plan.ids)
            self.by_error = self.by_error or fault is None
            _logger.info("%r of workflow %r failed and runs again: %s", scope.operator_id, name, describe(error))
        return self._after_fault(node, scope)

    def _after_fault(self, node: int, scope: Scope) -> list[int] | None:
        """Return no nodes after a node whose successors do not run, or None when the round ends."""
        self.active -= 1
        self._open.discard(node)
        if not self._affects_end(self._open):
            return None
        if scope.run.questions.asked:
            scope.run.root.check_paused()
        return []

    def _record_rejection(self, node: int, message: WorkflowMessage, scope: Scope) -> list[int] | None:
        """Turn the verdict of a nested workflow into one of this workflow; what depends on it does not run.

        It is repaired in the next round if it blames operators of this workflow; otherwise no round can help.
        """
        self.results[node], self._traces[node] = message, scope.trace
        if scope.run.finished is not None:
            scope.run.finished["/".join(scope.path)] = message
        known = self._plan.ids[: self._build.first_evaluator]
        of_this = [fault for fault in faults_of(message) if place_of(fault.place, known)]
        self._faults[node] = rejection_of(message, scope.operator_id, of_this)
        self.is_final = self.is_final or not of_this
        return self._after_fault(node, scope)

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
