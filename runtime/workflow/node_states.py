"""States of the nodes of a run: messages, traces, and what later rounds keep or repair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from operad.runtime.events.trace import NO_INNER, Trace
from operad.runtime.graph.build import Build, Node
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.graph import END
from operad.runtime.graph.schedule import Progress, Repeat, Skip, Taken
from operad.runtime.reasoning.exchange import Rejection
from operad.runtime.values.fault import Fault, lesson_of
from operad.runtime.values.message import WorkflowMessage, WorkflowStatus
from operad.runtime.values.step_record import StepRecord
from operad.runtime.workflow.kept import Done, InnerRun
from operad.runtime.workflow.places import NO_REPAIRS, Repairs, repairs_of
from operad.runtime.workflow.records import records_of
from operad.runtime.workflow.verdict import join_verdicts, joined_tails


class NodeStates:
    """States of the nodes of a run; `Steps` executes the nodes.

    A node has a message once it has run. `repair` prepares a later round: the nodes at fault run again, each with its
    rejected answer; a node that depends on them runs again if what it receives has changed, and otherwise keeps its
    message.

    Args:
        call: The input of the run.

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
        if len(messages) == 1:
            return messages[0]
        return join_verdicts(messages) if self._build.graph.evaluators else joined_tails(messages, self._call.job)

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
