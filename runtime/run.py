"""One run of a workflow: its rounds, its results, its events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import perf_counter

from operad.runtime import events
from operad.runtime.connections import connections
from operad.runtime.engine import Step
from operad.runtime.errors import OperatorError, describe
from operad.runtime.events import RunLog, Scope
from operad.runtime.graph import END, WorkflowGraph
from operad.runtime.message import NO_USAGE, Job, Usage, WorkflowMessage, WorkflowStatus
from operad.runtime.reasoner import Reasoner
from operad.runtime.schedule import Plan

Engine = Callable[[Step], Awaitable[None]]
"""Runs every node of the plan it was built from with the step given."""


@dataclass(frozen=True, slots=True)
class Build:
    """A workflow made ready to run. Runs share it; nothing in it changes."""

    name: str
    graph: WorkflowGraph
    plan: Plan
    engine: Engine


class Run:
    """One call of a workflow.

    In each round every operator without a result runs once. A verdict of EXECUTION_ERROR clears
    the results of the blamed operators and of all that depends on them, or all results if nobody
    is blamed, and the next round begins with its lesson. An operator found at fault sees, after
    the messages of the operators before it, its own earlier messages, each with its verdict.
    """

    def __init__(
        self,
        build: Build,
        job: Job,
        reasoner: Reasoner,
        previous: list[WorkflowMessage],
        lesson: str | None,
        log: RunLog,
        max_rounds: int,
    ) -> None:
        self._build = build
        self._job = job
        self._reasoner = reasoner
        self._previous = previous
        self._lessons = [lesson] if lesson else []
        self._log = log
        self._max_rounds = max_rounds
        self._round = 0
        self._usage = NO_USAGE
        self._results: list[WorkflowMessage | None] = [None] * len(build.plan.ids)
        self._feedback: dict[int, tuple[WorkflowMessage, ...]] = {}
        graph = build.graph
        self._executables = [*graph.operators.values(), graph.evaluator]

    async def execute(self) -> WorkflowMessage:
        """Run to the end.

        Returns:
            The verdict, or the tails' message where there is no evaluator.

        Raises:
            OperatorError: An operator raised; the others were cancelled and have ended.
        """
        started = perf_counter()
        plan, graph = self._build.plan, self._build.graph
        self._log.write(
            events.RunStarted(
                workflow=self._build.name,
                goal=self._job.goal,
                operators={key: tuple(before) for key, before in graph.before.items()},
            )
        )
        try:
            async with connections():
                message = await self._rounds(plan)
        except BaseException as error:
            self._log.write(
                events.RunFailed(error=describe(error), seconds=perf_counter() - started, usage=self._usage)
            )
            raise
        self._log.write(events.RunFinished(message=message, seconds=perf_counter() - started, rounds=self._round))
        return message

    async def _rounds(self, plan: Plan) -> WorkflowMessage:
        end = len(plan.ids) - 1
        while True:
            self._round += 1
            if self._log.heard:
                rerun = tuple(plan.ids[n] for n, result in enumerate(self._results) if result is None and n != end)
                self._log.write(events.RoundStarted(operators=rerun), round=self._round)
            await self._build.engine(self._step)
            verdict = self._results[end]
            assert verdict is not None  # noqa: S101 - the engine has run every node
            self._log.write(
                events.RoundFinished(
                    status=verdict.status, evaluation=verdict.evaluation, lesson=verdict.lesson, blame=verdict.blame
                ),
                round=self._round,
            )
            if verdict.status is not WorkflowStatus.EXECUTION_ERROR or self._round >= self._max_rounds:
                return verdict.model_copy(update={"usage": self._usage})
            self._learn(verdict, plan, end)

    def _learn(self, verdict: WorkflowMessage, plan: Plan, end: int) -> None:
        if verdict.lesson and verdict.lesson not in self._lessons:
            self._lessons.append(verdict.lesson)
        blamed = {node for node in range(end) if plan.ids[node] in verdict.blame} or set(range(end))
        for node in blamed:
            if (result := self._results[node]) is not None:
                self._feedback[node] = (*self._feedback.get(node, ()), result, verdict)
        for node in plan.descendants(blamed):
            self._results[node] = None

    async def _step(self, node: int) -> None:
        if self._results[node] is not None:
            return
        plan = self._build.plan
        messages: list[WorkflowMessage] = [self._results[parent] for parent in plan.parents[node]]  # type: ignore[misc]
        executable = self._executables[node]
        if executable is None:
            self._results[node] = _join(messages, self._job)
            return
        node_id = plan.ids[node]
        is_evaluator = executable is self._build.graph.evaluator
        inputs = [*messages, *self._feedback.get(node, ())]
        scope = Scope(self._log, node_id, self._round)
        events.enter(scope)
        heard = self._log.heard
        if heard:
            events.emit(events.OperatorStarted())
        started = perf_counter()
        usage = NO_USAGE
        try:
            said = await executable.execute(
                self._reasoner,
                self._job,
                workflow_messages=inputs,
                previous_expert_outputs=list(self._previous),
                lesson="\n".join(self._lessons) or None,
            )
            if is_evaluator and isinstance(said, str):
                raise TypeError("an evaluator returns a message with a status, not text")
            message = _complete(said, node_id, self._job, scope.usage, messages)
            usage = message.usage
        except (Exception, SystemExit) as error:
            usage = scope.usage
            events.emit(events.OperatorFailed(seconds=perf_counter() - started, usage=usage, error=describe(error)))
            raise OperatorError(self._build.name, node_id, self._round, error) from error
        except BaseException:
            usage = scope.usage
            events.emit(events.OperatorCancelled(seconds=perf_counter() - started, usage=usage))
            raise
        finally:
            if usage is not NO_USAGE:
                self._usage = self._usage + usage
        if is_evaluator:
            message = _with_judged(message, _join(messages, self._job))
        self._results[node] = message
        if heard:
            events.emit(events.OperatorFinished(seconds=perf_counter() - started, message=message))


def _complete(
    said: WorkflowMessage | str, operator_id: str, job: Job, spent: Usage, received: list[WorkflowMessage]
) -> WorkflowMessage:
    """What the operator said, as a message of its own that bears what it cost."""
    if isinstance(said, str):
        return WorkflowMessage(scratchpad=said, operator_id=operator_id, job_id=job.id, usage=spent)
    if not isinstance(said, WorkflowMessage):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"execute returned {type(said).__name__}, not a WorkflowMessage or text")
    if said.usage is not NO_USAGE and not any(said is message for message in received):
        spent = said.usage + spent  # of a workflow within, for one
    if said.operator_id == operator_id and said.job_id == job.id and said.usage is spent:
        return said
    return said.model_copy(update={"operator_id": operator_id, "job_id": job.id, "usage": spent})


def _join(tails: list[WorkflowMessage], job: Job) -> WorkflowMessage:
    if len(tails) == 1:
        return tails[0]
    worst = min(tails, key=lambda message: message.status.priority)
    return WorkflowMessage(
        scratchpad="\n\n".join(message.scratchpad for message in tails),
        status=worst.status,
        evaluation=worst.evaluation,
        lesson=worst.lesson,
        outputs={message.operator_id: message.outputs for message in tails},
        blame=worst.blame,
        job_id=job.id,
        operator_id=END,
        parts=tuple(tails),
    )


def _with_judged(verdict: WorkflowMessage, judged: WorkflowMessage) -> WorkflowMessage:
    """The verdict, with the text and the outputs that it judged."""
    return verdict.model_copy(
        update={
            "scratchpad": verdict.scratchpad or judged.scratchpad,
            "outputs": {**judged.outputs, **verdict.outputs},
            "parts": judged.parts,
        }
    )
