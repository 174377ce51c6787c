"""Events of a run, derived from its kept outcomes for runs whose events were not recorded.

The sources are the start, the end and the outcome of each operator, questions and answers, and the workflow. Rounds,
and operators that contain other operators, have no records; their events are derived from the same sources. Events of
an operator's work, such as `ModelAnswered`, have the time of its end, because their own times are unknown. An operator
that contains others ends when a later event implies its end.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from msgspec.structs import replace
from pydantic import ValidationError

from operad.runtime import events
from operad.runtime.durable.history_levels import Container, Level
from operad.runtime.durable.outcome import Outcome
from operad.runtime.durable.rows import CANCELLED, FAILED, FINISHED, StoredQuestion, StoredRun
from operad.runtime.durable.step_timeline import StoredStep, moments
from operad.runtime.events import Event
from operad.runtime.events.journal import bare
from operad.runtime.values.errors import describe
from operad.runtime.values.message import NO_USAGE, Job, Usage, WorkflowMessage
from operad.runtime.workflow.rounds import finished
from operad.runtime.workflow.verdict import fault_in, join_verdicts, joined_tails, verdict_of


def history(
    kept: StoredRun,
    job: Job,
    result: tuple[WorkflowMessage, int] | None,
    steps: Sequence[StoredStep],
    questions: Sequence[StoredQuestion],
) -> list[Event]:
    """Return the events of a run in the order of time, derived from its stored records.

    Args:
        kept: The run.
        job: Job of the run.
        result: The run's message and number of rounds; None if the run has not finished or its message cannot be read.
        steps: Records of the run's operators.
        questions: Questions that the run has asked.
    """
    derived = _Derivation(kept, job)
    top = derived.top
    derived.append(
        events.RunStarted(
            workflow=kept.workflow, goal=job.goal, operators=top.before, judges=tuple(top.judges), ports=top.ports
        )
    )
    for at, record, is_beginning in moments(steps, questions):
        derived.at = max(derived.at, at)
        if isinstance(record, StoredQuestion):
            derived.asked(record) if is_beginning else derived.answered(record)
        elif is_beginning:
            derived.begun(record)
        else:
            derived.ended(record, record.outcome or Outcome())
    if kept.state in (FINISHED, FAILED, CANCELLED):
        derived.at = max(derived.at, kept.updated)
        derived.over(result)
    return derived.events


class _Derivation:
    """Derivation of the events of a run: the events so far, and the state of the run at this point.

    Attributes:
        events: The events.
        at: Time of the next event; it never decreases.
        top: Execution of the outermost workflow.
    """

    def __init__(self, kept: StoredRun, job: Job) -> None:
        self.events: list[Event] = []
        self.at = kept.created
        self.top = Level((), json.loads(kept.graph))
        self._kept = kept
        self._job = job

    def append(
        self, event: Event, path: tuple[str, ...] = (), operator: str = "", round: int = 0, attempt: int = 0
    ) -> None:
        """Append an event with the current time."""
        stamps = {"path": path, "operator_id": operator, "round": round, "attempt": attempt, "time": self.at}
        self.events.append(replace(event, run_id=self._kept.run_id, seq=len(self.events) + 1, **stamps))

    # Operators with stored records

    def begun(self, step: StoredStep) -> None:
        """Start an operator, and the operators around it that have not started."""
        innermost = self._levels_of(step.key)[-1]
        if "//" not in step.key:
            self._begin(*innermost)

    def ended(self, step: StoredStep, outcome: Outcome) -> None:
        """End an operator, or one of its parts."""
        levels, is_part = self._levels_of(step.key), "//" in step.key
        level, name, number = levels[-1]
        path, attempt = (*level.path, name), 1
        for event in outcome.events:
            self.append(event, path, name, number, attempt)
            if isinstance(event, events.EvidenceCut):
                level.cut += event.operators
            attempt += isinstance(event, events.OperatorRetried)
        for outer, operator, _ in levels if is_part else levels[:-1]:
            outer.around[outer.operator(operator)].usage += outcome.usage
        if is_part:
            return
        if outcome.message is None:
            error = outcome.error or ValueError("no record of this operator is kept")
            self._fail(level, name, error, attempt, usage=outcome.usage, seconds=step.seconds)
        else:
            self._finish(level, name, outcome.message, attempt, seconds=step.seconds)

    def _levels_of(self, key: str) -> list[tuple[Level, str, int]]:
        """Return workflow, operator and round of each level of a key, the outermost first; start levels if needed."""
        operator, _, part = key.partition("//")
        steps, (names, rounds) = operator.split("/"), bare(operator)
        levels = [(self.top, names[0], rounds[0])]
        self._go_to_round(self.top, rounds[0])
        for depth, (name, number) in enumerate(zip(names[1:], rounds[1:], strict=True), 1):
            level = self._enter_workflow(*levels[-1], "/".join(steps[:depth]), name)
            self._go_to_round(level, number)
            levels.append((level, name, number))
        if part:
            self._begin_container(*levels[-1])
        return levels

    def _begin_container(self, level: Level, name: str, round: int) -> Container:
        """Return an operator that contains others; start it if it has not started."""
        if (name := level.operator(name)) not in level.around:
            self._begin(level, name, round)
            level.around[name] = Container()
        return level.around[name]

    def _enter_workflow(self, level: Level, name: str, round: int, key: str, first: str) -> Level:
        """Return the execution of a workflow inside an operator; start it if it has not started.

        Args:
            level: The workflow that contains the operator.
            name: The operator, with the index of a map's item.
            round: Round of the operator.
            key: Key of the execution.
            first: An operator of the nested workflow.
        """
        container = self._begin_container(level, name, round)
        if key not in container.inside:
            operator = level.operator(name)
            attempt = int(key.rpartition("~")[2]) if "~" in key.rpartition("/")[2] else 1
            if attempt > container.attempt:
                error = container.error() or ValueError("no record of this operator is kept")
                retried = events.OperatorRetried(error=describe(error), delay=0.0)
                self.append(retried, (*level.path, operator), operator, round, container.attempt)
                container.attempt = attempt
            inside = container.inside[key] = Level(
                (*level.path, name), level.operators.get(operator, {}).get("inside", {})
            )
            if inside.operator(first) not in (*inside.operators, *inside.judges):
                inside.about = {}  # a leader created the workflow
            if (earlier := level.inside.get(name)) is not None:
                inside.goes_on_from(earlier, level.rounds, name)
            level.inside[name] = inside
            entered = events.WorkflowEntered(
                workflow=operator, operators=inside.before, judges=tuple(inside.judges), ports=inside.ports
            )
            self.append(entered, inside.path, operator, round, attempt)
        return container.inside[key]

    # Events of operators without stored records

    def _begin(self, level: Level, name: str, round: int) -> None:
        before = [*level.around] if name in level.judges else level.before.get(name, ())
        for operator in before:
            self._end_container(level, operator)
        level.begun.add(name)
        level.start_times[name] = self.at
        self.append(events.OperatorStarted(), (*level.path, name), name, round, 1)

    def _finish(self, level: Level, name: str, message: WorkflowMessage, attempt: int = 1, *, seconds: float) -> None:
        level.start_times.pop(name, None)
        finished = events.OperatorFinished(seconds=seconds, message=message)
        self.append(finished, (*level.path, name), name, level.rounds.number, attempt)
        if name not in level.judges:
            level.messages[name] = message
            return
        level.verdicts[name] = message
        if level.verdicts.keys() == level.judges.keys():
            self._finish_round(level, join_verdicts([level.verdicts[judge] for judge in level.judges]))

    def _fail(
        self, level: Level, name: str, error: BaseException, attempt: int = 1, *, usage: Usage, seconds: float
    ) -> None:
        level.start_times.pop(name, None)
        level.messages.pop(name, None)
        level.failed[name] = error
        failed = events.OperatorFailed(seconds=seconds, usage=usage, error=describe(error))
        self.append(failed, (*level.path, name), name, level.rounds.number, attempt)

    def _end_container(self, level: Level, name: str, *, failed: bool = False) -> None:
        """End an operator that contains others, if it is unfinished, because a later event implies its end.

        Args:
            level: The workflow.
            name: The operator.
            failed: True if the operator failed with an error raised inside it.
        """
        container = level.around.pop(name, None)
        if container is None:
            return
        seconds = self.at - level.start_times.get(name, self.at)
        for inside in container.inside.values():
            self._end_round(inside)
        if failed and (error := container.error()) is not None:
            self._fail(level, name, error, container.attempt, usage=container.usage, seconds=seconds)
            return
        for inside in level.runs(name):
            if inside not in container.inside.values():
                self.append(events.OperatorKept(), inside.path, name, level.rounds.number, container.attempt)
        messages = [message for inside in level.runs(name) if (message := inside.message(self._job)) is not None]
        message = joined_tails(messages, self._job) if messages else WorkflowMessage()
        message = message.stamped(name, self._job.id, container.usage)
        self._finish(level, name, message, container.attempt, seconds=seconds)

    # Rounds

    def _go_to_round(self, level: Level, round: int) -> None:
        """Start a round of a workflow, after ending the round before it."""
        if round <= level.rounds.number:
            return
        if level.rounds.number:
            self._end_round(level, failed=True)
        again = level.again() or tuple(level.operators)
        level.rounds = replace(level.rounds, number=round)
        level.to_run, level.is_judged = again, False
        level.begun.clear()
        level.failed.clear()
        level.verdicts.clear()
        level.cut.clear()
        self.append(events.RoundStarted(operators=again), level.path, round=round)

    def _end_round(self, level: Level, *, failed: bool = False) -> None:
        """End the current round: by its verdict, by an error, or because all its operators have finished."""
        for name in list(level.around):
            self._end_container(level, name, failed=failed)
        if level.is_judged:
            return
        if level.failed and failed:
            known = [*level.operators, *level.judges]
            faults = [verdict_of(error, name, self._job, known) for name, error in level.failed.items()]
            self._finish_round(
                level, join_verdicts(faults), by_error=any(fault_in(error) is None for error in level.failed.values())
            )
        elif not (level.failed or level.judges) and (tails := level.tails()):
            self._finish_round(level, joined_tails(tails, self._job))
        elif not level.failed and (verdicts := [*level.verdicts.values()] or [level.verdict]) and verdicts[0]:
            # A verdict of an evaluator in code, after which no model was asked; or the last one, as nothing changed.
            self._finish_round(level, join_verdicts([verdict for verdict in verdicts if verdict]))

    def _finish_round(self, level: Level, verdict: WorkflowMessage, *, by_error: bool = False) -> None:
        """End the current round with a verdict; operators that have not started were skipped."""
        level.is_judged = True
        level.verdict = verdict
        before = {name: parents for name, parents in level.before.items() if name in level.messages}
        known = [*level.operators, *level.judges]
        level.rounds = level.rounds.judged(verdict, known, before, has_result=not level.failed, cut=level.cut)
        for name in level.to_run if not level.failed else ():
            if name not in level.begun:
                kept = name in level.messages
                unstarted = events.OperatorKept() if kept else events.OperatorSkipped(reason="no edge to it was taken")
                self.append(unstarted, (*level.path, name), name, level.rounds.number, int(kept))
        judged = finished(verdict, level.rounds, by_error=by_error, has_result=not level.failed)
        self.append(judged, level.path, round=level.rounds.number)

    # Questions

    def asked(self, question: StoredQuestion) -> None:
        """Record that a question was asked."""
        asked = events.Interrupted(interrupt_id=question.id, question=question.text, schema=_schema(question))
        self._append_question_event(question, asked)

    def answered(self, question: StoredQuestion) -> None:
        """Record that a question was answered."""
        seconds = max(0.0, question.answered - question.asked)
        self._append_question_event(question, events.Resumed(interrupt_id=question.id, seconds=seconds))

    def _append_question_event(self, question: StoredQuestion, event: Event) -> None:
        names, rounds = bare(question.step.partition("//")[0])
        self.append(event, tuple(names), names[-1], rounds[-1], 1)

    # The end

    def over(self, result: tuple[WorkflowMessage, int] | None) -> None:
        """End the run."""
        kept = self._kept
        seconds = max(0.0, self.at - kept.created)
        if kept.state == FINISHED and result is not None:
            self._end_round(self.top)
            self._cancel(self.top)
            message, rounds = result
            finished = events.RunFinished(message=message, seconds=seconds, rounds=rounds)
            self.append(finished, round=self.top.rounds.best_round or rounds)
            return
        self._cancel(self.top, bare(kept.failed)[0] if kept.failed else ())
        error = kept.error or (events.CANCELLED if kept.state == CANCELLED else "its result cannot be read")
        self.append(events.RunFailed(error=error, seconds=seconds, usage=_usage(kept)))

    def _cancel(self, level: Level, failed: Sequence[str] = ()) -> None:
        """Cancel unfinished operators; operators that contain the failed operator fail instead.

        Args:
            level: The workflow.
            failed: Path of the failed operator, relative to the workflow; empty for none.
        """
        for name, began in list(level.start_times.items()):
            container = level.around.pop(name, Container())
            is_failed = bool(failed) and level.operator(failed[0]) == name
            for inside in container.inside.values():
                self._cancel(inside, failed[1:] if is_failed and inside.path[-1] == failed[0] else ())
            seconds, error = self.at - began, container.error() if is_failed else None
            if error is not None:
                self._fail(level, name, error, container.attempt, usage=container.usage, seconds=seconds)
                continue
            cancelled = events.OperatorCancelled(seconds=seconds, usage=container.usage)
            self.append(cancelled, (*level.path, name), name, level.rounds.number, container.attempt)
        level.start_times.clear()


def _schema(question: StoredQuestion) -> Mapping[str, Any] | None:
    """Return the JSON Schema of a question's answer; None if there is none or it cannot be read."""
    with suppress(ValueError, RecursionError):  # another program wrote it
        schema = json.loads(question.schema) if question.schema else None
        return cast("Mapping[str, Any]", schema) if isinstance(schema, dict) else None
    return None


def _usage(kept: StoredRun) -> Usage:
    with suppress(ValidationError):
        return Usage.model_validate_json(kept.usage)
    return NO_USAGE
