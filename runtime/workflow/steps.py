"""Execution of the operators of a round, and the states of their nodes, which later rounds keep or repair."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any

from operad.runtime import events
from operad.runtime.events import RunInProgress, Scope
from operad.runtime.events.context import NO_INNER, Trace
from operad.runtime.graph.build import Build, Node
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.graph import END, ids_inside
from operad.runtime.graph.operator import started
from operad.runtime.graph.schedule import Progress, Repeat, Skip, Taken
from operad.runtime.reasoning.exchange import Rejection
from operad.runtime.values.errors import BudgetError, OperatorError, SkippedError, describe, internal_text
from operad.runtime.values.fault import Fault, blamed_by, lesson_of
from operad.runtime.values.map_item import without_index
from operad.runtime.values.message import NO_USAGE, Job, WorkflowMessage, WorkflowStatus
from operad.runtime.values.step_record import StepRecord
from operad.runtime.workflow.attempts import completed, perform
from operad.runtime.workflow.records import Done, InnerRun, records_of, same_answer
from operad.runtime.workflow.verdict import (
    NO_REPAIRS,
    Repairs,
    around,
    fault_in,
    faults_of,
    is_retryable,
    join_verdicts,
    joined_tails,
    place_of,
    rejection_of,
    repairs_of,
    verdict_of,
)


class NodeStates:
    """States of the nodes of a run; `Steps` executes the nodes.

    A node has a message once it has run. `repair` prepares a later round: the nodes at fault run again, each with its
    rejected answer; a node that depends on them runs again if what it receives has changed, and otherwise keeps its
    message.

    Attributes:
        results: The message of each node, by number; None for a node that has not run yet or runs again.
    """

    __slots__ = (
        "_build",
        "_call",
        "_changed",
        "_earlier",
        "_holds_values",
        "_inputs",
        "_lessons",
        "_lost",
        "_plan",
        "_progress",
        "_repairs",
        "_skipped",
        "_traces",
        "_verdict",
        "results",
    )

    def __init__(self, build: Build, call: OperatorCall) -> None:
        self._build = build
        self._plan = build.plan
        self._call = call
        self._holds_values = call.holds_values  # looked up once per message instead of once per reader
        self.results: list[WorkflowMessage | None] = [None] * len(build.plan.ids)
        self._progress = Progress(build.plan)
        self._skipped: dict[int, Skip] = {}
        self._traces: list[Trace | None] = [None] * len(self.results)
        self._inputs: list[Sequence[WorkflowMessage] | None] = [None] * len(self.results)
        self._lost: AbstractSet[int] = frozenset()
        self._earlier: dict[int, Done] = {}
        self._repairs: dict[int, Repairs] = {}
        self._verdict: WorkflowMessage | None = None
        self._changed: set[int] = set()
        self._lessons: dict[int, tuple[str, ...]] = {}

    def set_input(self, call: OperatorCall) -> None:
        """Replace the input of a run that has not begun."""
        self._call, self._holds_values = call, call.holds_values

    def repair(self, faults: Sequence[Fault]) -> None:
        """Prepare the next round: the operators at fault run again, and those after them if their input changes."""
        plan, results = self._plan, self.results
        self._verdict = verdict.changed(scratchpad="", parts=()) if (verdict := results[-1]) else None
        self._repairs = {
            node: repairs.among(trace.inner if (trace := self._traces[node]) else ())
            for node, repairs in repairs_of(faults, self._build.numbers).items()
        }
        for node, repairs in self._repairs.items():
            if lesson := lesson_of(repairs.own):
                self._lessons[node] = (*(told for told in self._lessons.get(node, ()) if told != lesson), lesson)
        ran: dict[int, Taken] = {node: result.ports for node, result in enumerate(results) if result is not None}
        repeat = Repeat.of(plan, self._repairs, ran, self._skipped.values())
        self._earlier = {
            node: Done(result, self._inputs[node], self._traces[node])
            for node in repeat.again
            if (result := results[node]) is not None
        }
        for node in repeat.again:
            results[node] = None
            self._skipped.pop(node, None)
        self._lost, self._progress = repeat.lost, repeat.progress

    def outcome(self, message: WorkflowMessage) -> InnerRun:
        """Return the outcome of the run, from which a later run can go on."""
        done = {
            node: Done(result, self._inputs[node], self._traces[node])
            for node, result in enumerate(self.results)
            if result is not None
        }
        return InnerRun(self._build, self._call, message, done, dict(self._skipped), dict(self._lessons))

    def restore(self, earlier: InnerRun) -> None:
        """Start from the outcome of an earlier run."""
        for node, done in earlier.done.items():
            self.results[node], self._inputs[node], self._traces[node] = done.message, done.inputs, done.trace
        self._skipped, self._lessons = dict(earlier.skipped), dict(earlier.lessons)
        self._holds_values = True

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
            record for record in self.records() if record.operator_id in self._build.numbers and not record.skipped
        )

    def records(self) -> Sequence[StepRecord]:
        """Return the records of all operators, also of skipped ones and of those inside of others, in order."""
        reasons = {node: self._reason(skip) for node, skip in self._skipped.items()}
        end = self._build.first_evaluator
        done = {
            node: Done(result, None, self._traces[node])
            for node, result in enumerate(self.results[:end])
            if result is not None
        }
        return records_of(self._build, done, reasons, self._changed)

    def cut(self) -> Sequence[str]:
        """Return the operators of which an evaluator of this round was shown a part only, in the order of the graph."""
        traces = [trace for trace in self._traces[self._build.first_evaluator :] if trace is not None]
        return list(dict.fromkeys(operator for trace in traces for operator in trace.cut))

    def due(self) -> tuple[str, ...]:
        """Return the ids of the operators that may run in the next round."""
        ids, first_evaluator = self._plan.ids, self._build.first_evaluator
        return tuple([ids[node] for node in self._without_message() if node < first_evaluator])

    def _without_message(self) -> list[int]:
        """Return the nodes that have not finished and were not skipped."""
        gone = self._skipped.keys() | self._lost
        return [node for node, result in enumerate(self.results) if result is None and node not in gone]

    # What a node receives

    def _received(self, node: int) -> tuple[WorkflowMessage, ...]:
        """Return the messages that a node receives."""
        messages = self._inputs_from_parents(node) if self._plan.parents[node] else self._call.messages
        if reads := self._build.reads.get(node):
            messages += tuple(self._messages_read(node, reads))
        return messages

    def _inputs_from_parents(self, node: int) -> tuple[WorkflowMessage, ...]:
        """Return the messages of a node's parents whose edges to the node are taken; all of these parents have one.

        An evaluator that waits for others gets the messages of operators alone.
        """
        parents = self._progress.inputs(node) if self._plan.branches else self._plan.parents[node]
        if node >= self._build.first_evaluator and node < self._build.end:
            parents = [parent for parent in parents if parent < self._build.first_evaluator]
        messages: list[Any] = [self.results[parent] for parent in parents]
        return tuple(messages)

    def _messages_read(self, node: int, reads: Sequence[str]) -> list[WorkflowMessage]:
        """Return the messages that a node reads from operators that are not its parents, or from the run's input."""
        before = self._call.messages if self._plan.parents[node] else ()  # a node without parents has the input already
        given = {message.operator_id: message for message in before}
        numbers, results = self._build.numbers, self.results
        messages = (results[numbers[read]] if read in numbers else given.get(read) for read in reads)
        return [message for message in messages if message is not None]

    def _handed(self, node: int) -> dict[str, StepRecord]:
        """Return the records of the operators that have handed over to a node, each after what it was given, by id."""
        handed = dict[str, StepRecord]()
        given = self._call
        if not (self._plan.parents[node] or given.judged):  # handed over to the operator that contains the workflow
            handed |= {step.operator_id: step for step in given.transcript}
        for parent in self._build.hands_over.get(node, ()):
            result = self.results[parent]
            if result is None or parent not in self._progress.inputs(node):
                continue
            handed |= self._handed(parent)
            for message in self._received(parent):
                handed.setdefault(message.operator_id, StepRecord(operator_id=message.operator_id, message=message))
            record = records_of(self._build, {parent: Done(result, None, self._traces[parent])}, {})[0]
            handed[record.operator_id] = record
        return handed

    def _lesson(self, node: int) -> str | None:
        """Return the lessons that a node has got so far, after those of the whole run; each line once, where it is newest."""
        own, given = self._lessons.get(node, ()), self._call.lesson
        if own and given:
            # A workflow at fault as a whole passes its lesson on, and each of its operators has it as its own, too.
            told = {line for lesson in own for line in lesson.splitlines()}
            given = "\n".join(line for line in given.splitlines() if line not in told)
        return "\n".join(filter(None, (given, *own))) or None

    def _rejection(self, node: int, received: Sequence[WorkflowMessage]) -> Rejection | None:
        """Return the rejected answer of a node; without its conversation if the node receives something else now."""
        repairs, earlier = self._repairs.get(node), self._earlier.get(node)
        if repairs is None or earlier is None or not repairs.own:
            return None
        exchange = earlier.trace.exchange if earlier.trace and earlier.received(received) else None
        return Rejection(answer=earlier.message, faults=repairs.own, exchange=exchange, verdict=self._verdict)

    # What a later round keeps

    def _kept(self, number: int, node: Node) -> Done | None:
        """Return the earlier outcome of a node that would do the same again; None if it runs."""
        earlier = self._earlier.get(number)
        if earlier is None or number in self._repairs:
            return None
        if node.is_evaluator:  # it sees all operators; one in code may depend on more
            return earlier if node.operator.asks_model and not self._changed else None
        return earlier if earlier.received(self._received(number)) else None

    def _earlier_inside(self, number: int) -> Mapping[str, InnerRun]:
        """Return the earlier outcomes of the workflows inside a node, with the faults to repair in each."""
        earlier = self._earlier.get(number)
        if earlier is None or earlier.trace is None:
            return NO_INNER
        repairs = self._repairs.get(number, NO_REPAIRS)
        return {step: inner.with_faults(repairs.inside(step)) for step, inner in earlier.trace.inner.items()}

    # The end of a round

    def _end_message(self, node: int) -> WorkflowMessage:
        """Return the message of the end node: the joined verdicts, or the joined messages of the tails."""
        messages = self._inputs_from_parents(node)
        if self._build.graph.evaluators:
            return join_verdicts(messages)
        return joined_tails([*map(self._seen_from_here, messages)], self._call.job)

    def _blamable_from(self, node: int) -> set[str]:
        """Return the ids by which a fault inside a node names operators of this workflow.

        These are the node and those before it, without ids that operators inside of the node have, too.
        """
        before = self._plan.ancestors([node], among=range(self._build.end))
        return {self._plan.ids[each] for each in before} - ids_inside(self._build.nodes[node].operator)

    def _seen_from_here(self, message: WorkflowMessage) -> WorkflowMessage:
        """Return the message of a last operator; faults inside of a nested workflow have their places in this one."""
        if message.status is not WorkflowStatus.EXECUTION_ERROR:
            return message
        node = self._build.numbers[message.operator_id]
        operator = self._build.nodes[node].operator
        if operator.added not in (operator.runs_workflows or ()):  # no nested workflow; a leader names its parts
            return message
        known = self._blamable_from(node)
        faults = tuple(
            each
            for fault in faults_of(message)
            for each in ((fault,) if place_of(fault.place, known) else around((fault,), message.operator_id))
        )
        return message.changed(faults=faults, blame=blamed_by(faults)) if faults else message

    def _is_rejected(self, node: int) -> bool:
        """Return True if an evaluator for which this one waits has rejected the result."""
        first = self._build.first_evaluator
        verdicts = [self.results[parent] for parent in self._plan.parents[node] if parent >= first]
        return any(verdict is not None and verdict.status is not WorkflowStatus.SUCCESS for verdict in verdicts)

    def _reason(self, skip: Skip) -> str:
        """Return the reason for a skip: the ports that an operator took instead of those of the edge."""
        router, ports = self._plan.ids[skip.parent], self._plan.ports.get((skip.parent, skip.child), ())
        message = self.results[skip.parent]
        took = ", ".join(message.ports or ()) if message else ""
        return f"{router!r} took {f'port {took!r}' if took else 'no port'}, not {' or '.join(map(repr, sorted(ports)))}"


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
            if self._build.plain and run.journal is None and not run.pinned:
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
        """Run an operator, with its policy and the run's journal if there are any; a pinned one gives its message."""
        if scope.run.pinned and (message := scope.run.pinned.get("/".join(map(without_index, scope.path)))):
            return _pinned(message, call, scope)
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
        handed = tuple(self._handed(number).values()) if given.transcript or number in self._build.hands_over else ()
        return OperatorCall(given.reasoner, job, messages, given.previous, lesson, handed, None, run.deps, rejection)

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
        error_text, internal = describe(error), internal_text(error)
        scope.write(events.OperatorFailed(seconds=seconds, usage=scope.usage, error=error_text, internal=internal))

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
            title = self._build.nodes[node].operator.title
            raise OperatorError.of(name, scope.operator_id, scope.attempt, error, self._round, title) from error
        if self._affects_end({node}):
            self._faults[node] = verdict_of(error, scope.operator_id, self._call.job, self._blamable_from(node))
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
        known = self._blamable_from(node)
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
        task = asyncio.current_task()
        return task is not None and not task.cancelling()
    return isinstance(error, Exception | SystemExit)


async def _pinned(message: WorkflowMessage, call: OperatorCall, scope: Scope) -> WorkflowMessage:
    """Return the message that an operator gives in place of running, which costs nothing."""
    scope.write(events.MessageKept())
    return message.stamped(scope.operator_id, call.job.id, NO_USAGE)
