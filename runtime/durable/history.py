"""Events of a run, derived from its kept outcomes for runs whose events were not recorded.

The sources are: when each operator began and ended, its outcome, questions and answers, and the workflow. Rounds, and
operators that contain other operators, are not kept themselves; their events follow from the same sources.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast

from msgspec.structs import replace
from pydantic import ValidationError

from operad.runtime import events
from operad.runtime.durable.codec import Outcome
from operad.runtime.durable.description import Description
from operad.runtime.durable.restart import ITEM, following
from operad.runtime.durable.rows import CANCELLED, FAILED, FINISHED, KeptQuestion, KeptRun
from operad.runtime.durable.steps import KeptStep, moments
from operad.runtime.events import Event
from operad.runtime.events.journal import bare
from operad.runtime.values.errors import describe
from operad.runtime.values.message import NO_USAGE, Job, Usage, WorkflowMessage
from operad.runtime.workflow.rounds import Rounds, at_fault
from operad.runtime.workflow.verdict import fault_in, joined, joined_tails, verdict_of


def history(
    kept: KeptRun,
    job: Job,
    result: tuple[WorkflowMessage, int] | None,
    steps: Sequence[KeptStep],
    questions: Sequence[KeptQuestion],
) -> list[Event]:
    """Return the events of a run in the order of time, derived from its kept records.

    Args:
        kept: The run.
        job: Job of the run.
        result: Its message and number of rounds; None if it has not finished or the message cannot be read.
        steps: Records of its operators.
        questions: Questions that it has asked.
    """
    told = _Told(kept, job)
    judges = tuple(told.top.judges)
    told.say(
        events.RunStarted(
            workflow=kept.workflow, goal=job.goal, operators=told.top.before, judges=judges, ports=told.top.ports
        )
    )
    for at, what, is_beginning in moments(steps, questions):
        told.at = max(told.at, at)
        if isinstance(what, KeptQuestion):
            told.asked(what) if is_beginning else told.answered(what)
        elif is_beginning:
            told.begun(what)
        else:
            told.ended(what, what.outcome or Outcome())
    if kept.state in (FINISHED, FAILED, CANCELLED):
        told.at = max(told.at, kept.updated)
        told.over(result)
    return told.events


@dataclass
class _Level:
    """Execution of one workflow: the outermost, or one nested in an operator.

    Attributes:
        path: Path of the operator around it, with the item of a map.
        about: Description of the workflow.
        rounds: State of its rounds.
        to_run: Operators that run in the current round.
        begun: Operators and evaluators that have begun in the current round.
        under_way: Start times of unfinished operators; operators that contain others have no records.
        around: Unfinished operators that contain others.
        failed: Errors raised in the current round.
        verdicts: Verdicts of its evaluators.
        is_judged: True if it has ended with a verdict.
        said: Last message of each operator.
        verdict: Its verdict, if any.
    """

    path: tuple[str, ...]
    about: Description
    rounds: Rounds = field(default_factory=Rounds)
    to_run: tuple[str, ...] = ()
    begun: set[str] = field(default_factory=set[str])
    under_way: dict[str, float] = field(default_factory=dict[str, float])
    around: dict[str, _Around] = field(default_factory=dict[str, "_Around"])
    failed: dict[str, BaseException] = field(default_factory=dict[str, BaseException])
    verdicts: dict[str, WorkflowMessage] = field(default_factory=dict[str, WorkflowMessage])
    is_judged: bool = False
    said: dict[str, WorkflowMessage] = field(default_factory=dict[str, WorkflowMessage])
    verdict: WorkflowMessage | None = None

    @property
    def round(self) -> int:
        """Number of the current round."""
        return self.rounds.number

    @property
    def operators(self) -> Mapping[str, Any]:
        return self.about.get("operators", {})

    @property
    def judges(self) -> Mapping[str, Any]:
        return self.about.get("evaluators", {})

    @property
    def before(self) -> dict[str, tuple[str, ...]]:
        """Operators, and for each the operators before it."""
        return {name: tuple(what.get("after", ())) for name, what in self.operators.items()}

    @property
    def ports(self) -> dict[str, dict[str, tuple[str, ...]]]:
        """Per operator, the ports that edges to it leave from, by the operator before it."""
        after = {name: what.get("after", {}) for name, what in self.operators.items()}
        named = {
            name: {parent: tuple(ports) for parent, ports in before.items() if ports} for name, before in after.items()
        }
        return {name: ports for name, ports in named.items() if ports}

    def tails(self) -> list[WorkflowMessage]:
        """Messages of the operators without successors."""
        before = {parent for parents in self.before.values() for parent in parents}
        last = [name for name in self.operators if name not in before] or list(self.said)
        return [self.said[name] for name in last if name in self.said]

    def operator(self, name: str) -> str:
        """Return the operator with this id; an index of a map's item is ignored."""
        found = ITEM.fullmatch(name)
        return found[1] if found and name not in self.operators else name

    def again(self) -> tuple[str, ...]:
        """Operators of the next round: those at fault, and all operators after them."""
        known = [*self.operators, *self.judges]
        gone = {*at_fault(self.verdict.blame if self.verdict else (), known), *self.failed}
        again = {each for name in gone for each in (name, *following(name, self.operators))}
        return tuple(name for name in self.operators if name in again)

    def message(self, job: Job) -> WorkflowMessage | None:
        """Return its message, or None before its first message."""
        if self.rounds.best is not None:
            return cast("WorkflowMessage", self.rounds.best)
        return joined_tails(tails, job) if (tails := self.tails()) else None


@dataclass
class _Around:
    """An operator that contains other operators.

    Attributes:
        inside: Executions of the workflows in it, by key.
        usage: Their usage.
        attempt: The attempt they belong to.
    """

    inside: dict[str, _Level] = field(default_factory=dict[str, "_Level"])
    usage: Usage = NO_USAGE
    attempt: int = 1

    def runs(self) -> list[_Level]:
        """Return the executions of its last attempt, in the order of a map's items."""
        last = {inside.path[-1]: inside for inside in self.inside.values()}
        return sorted(
            last.values(), key=lambda inside: int(found[2]) if (found := ITEM.fullmatch(inside.path[-1])) else 0
        )

    def error(self) -> BaseException | None:
        """Return the last error raised inside it, if any."""
        return next((error for inside in reversed(self.inside.values()) for error in inside.failed.values()), None)


class _Told:
    """Events derived so far, and the state of the run at this point.

    Attributes:
        events: The events.
        at: Time of the next event; it never decreases.
        top: The outermost workflow.
    """

    def __init__(self, kept: KeptRun, job: Job) -> None:
        self.events: list[Event] = []
        self.at = kept.created
        self.top = _Level((), json.loads(kept.graph))
        self._kept = kept
        self._job = job

    def say(
        self, event: Event, path: tuple[str, ...] = (), operator: str = "", round: int = 0, attempt: int = 0
    ) -> None:
        """Append an event with the current time."""
        stamps = {"path": path, "operator_id": operator, "round": round, "attempt": attempt, "time": self.at}
        self.events.append(replace(event, run_id=self._kept.run_id, seq=len(self.events) + 1, **stamps))

    # Operators with kept records

    def begun(self, step: KeptStep) -> None:
        """Begin an operator, and the operators around it that have not begun."""
        place = self._places(step.key)[-1]
        if "//" not in step.key:
            self._begin(*place)

    def ended(self, step: KeptStep, outcome: Outcome) -> None:
        """End an operator, or one of its parts."""
        places, is_part = self._places(step.key), "//" in step.key
        level, name, number = places[-1]
        path, attempt = (*level.path, name), 1
        for event in outcome.events:
            self.say(event, path, name, number, attempt)
            attempt += isinstance(event, events.OperatorRetried)
        for outer, operator, _ in places if is_part else places[:-1]:
            outer.around[outer.operator(operator)].usage += outcome.usage
        if is_part:
            return
        if outcome.message is None:
            error = outcome.error or ValueError("no record of this operator is kept")
            self._fail(level, name, error, attempt, usage=outcome.usage, seconds=step.seconds)
        else:
            self._finish(level, name, outcome.message, attempt, seconds=step.seconds)

    def _places(self, key: str) -> list[tuple[_Level, str, int]]:
        """Return workflow, operator and round of each level of a key, the outermost first."""
        operator, _, part = key.partition("//")
        steps, (names, rounds) = operator.split("/"), bare(operator)
        places = [(self.top, names[0], rounds[0])]
        self._go_to_round(self.top, rounds[0])
        for place, (name, number) in enumerate(zip(names[1:], rounds[1:], strict=True), 1):
            level = self._enter(*places[-1], "/".join(steps[:place]), name)
            self._go_to_round(level, number)
            places.append((level, name, number))
        if part:
            self._begin_around(*places[-1])
        return places

    def _begin_around(self, level: _Level, name: str, round: int) -> _Around:
        """Return an operator that contains others; begin it if it has not begun."""
        if (name := level.operator(name)) not in level.around:
            self._begin(level, name, round)
            level.around[name] = _Around()
        return level.around[name]

    def _enter(self, level: _Level, name: str, round: int, key: str, first: str) -> _Level:
        """Return the execution of a workflow inside an operator; begin it with the operator `first` if it has not begun."""
        around = self._begin_around(level, name, round)
        if key not in around.inside:
            operator = level.operator(name)
            attempt = int(key.rpartition("~")[2]) if "~" in key.rpartition("/")[2] else 1
            if attempt > around.attempt:
                error = around.error() or ValueError("no record of this operator is kept")
                retried = events.OperatorRetried(error=describe(error), delay=0.0)
                self.say(retried, (*level.path, operator), operator, round, around.attempt)
                around.attempt = attempt
            inside = around.inside[key] = _Level(
                (*level.path, name), level.operators.get(operator, {}).get("inside", {})
            )
            if inside.operator(first) not in (*inside.operators, *inside.judges):
                inside.about = {}  # a leader created the workflow
            entered = events.WorkflowEntered(
                workflow=operator, operators=inside.before, judges=tuple(inside.judges), ports=inside.ports
            )
            self.say(entered, inside.path, operator, round, attempt)
        return around.inside[key]

    # Events of operators without kept records

    def _begin(self, level: _Level, name: str, round: int) -> None:
        before = [*level.around] if name in level.judges else level.before.get(name, ())
        for operator in before:
            self._leave(level, operator)
        level.begun.add(name)
        level.under_way[name] = self.at
        self.say(events.OperatorStarted(), (*level.path, name), name, round, 1)

    def _finish(self, level: _Level, name: str, message: WorkflowMessage, attempt: int = 1, *, seconds: float) -> None:
        level.under_way.pop(name, None)
        finished = events.OperatorFinished(seconds=seconds, message=message)
        self.say(finished, (*level.path, name), name, level.round, attempt)
        if name not in level.judges:
            level.said[name] = message
            return
        level.verdicts[name] = message
        if level.verdicts.keys() == level.judges.keys():
            self._judge(level, joined([level.verdicts[judge] for judge in level.judges]))

    def _fail(
        self, level: _Level, name: str, error: BaseException, attempt: int = 1, *, usage: Usage, seconds: float
    ) -> None:
        level.under_way.pop(name, None)
        level.said.pop(name, None)
        level.failed[name] = error
        failed = events.OperatorFailed(seconds=seconds, usage=usage, error=describe(error))
        self.say(failed, (*level.path, name), name, level.round, attempt)

    def _leave(self, level: _Level, name: str, *, failed: bool = False) -> None:
        """End an operator that contains others, if it is under way, because a later event implies its end.

        Args:
            level: The workflow.
            name: The operator.
            failed: True if it ended with an error raised inside it.
        """
        around = level.around.pop(name, None)
        if around is None:
            return
        seconds = self.at - level.under_way.get(name, self.at)
        for inside in around.inside.values():
            self._close(inside)
        if failed and (error := around.error()) is not None:
            self._fail(level, name, error, around.attempt, usage=around.usage, seconds=seconds)
            return
        said = [message for inside in around.runs() if (message := inside.message(self._job)) is not None]
        message = joined_tails(said, self._job) if said else WorkflowMessage()
        self._finish(level, name, message.stamped(name, self._job.id, around.usage), around.attempt, seconds=seconds)

    # Rounds

    def _go_to_round(self, level: _Level, round: int) -> None:
        if round <= level.round:
            return
        again = tuple(level.operators)
        if level.round:
            self._close(level, failed=True)
            again = level.again()
        level.rounds = replace(level.rounds, number=round)
        level.to_run, level.is_judged = again, False
        level.begun.clear()
        level.failed.clear()
        level.verdicts.clear()
        self.say(events.RoundStarted(operators=again), level.path, round=round)

    def _close(self, level: _Level, *, failed: bool = False) -> None:
        """End a round: by its verdict, by an error, or because all its operators have finished."""
        for name in list(level.around):
            self._leave(level, name, failed=failed)
        if level.is_judged:
            return
        if level.failed and failed:
            known = [*level.operators, *level.judges]
            faults = [verdict_of(error, name, self._job, known) for name, error in level.failed.items()]
            self._judge(level, joined(faults), by_error=any(fault_in(error) is None for error in level.failed.values()))
        elif not (level.failed or level.judges) and (tails := level.tails()):
            self._judge(level, joined_tails(tails, self._job))

    def _judge(self, level: _Level, verdict: WorkflowMessage, *, by_error: bool = False) -> None:
        level.is_judged = True
        level.verdict = verdict
        level.rounds = level.rounds.judged(verdict, has_result=not level.failed)
        for name in level.to_run if not level.failed else ():
            if name not in level.begun:
                skipped = events.OperatorSkipped(reason="the way to it was not taken")
                self.say(skipped, (*level.path, name), name, level.round)
        judged = events.RoundFinished(
            status=verdict.status,
            evaluation=verdict.evaluation,
            lesson=verdict.lesson,
            blame=tuple(verdict.blame),
            score=verdict.score,
            by_error=by_error,
            has_result=not level.failed,
        )
        self.say(judged, level.path, round=level.round)

    # Questions

    def asked(self, question: KeptQuestion) -> None:
        """Record that a question was asked."""
        asked = events.Interrupted(interrupt_id=question.id, question=question.text, schema=_schema(question))
        self._say_where(question, asked)

    def answered(self, question: KeptQuestion) -> None:
        """Record that a question was answered."""
        seconds = max(0.0, question.answered - question.asked)
        self._say_where(question, events.Resumed(interrupt_id=question.id, seconds=seconds))

    def _say_where(self, question: KeptQuestion, event: Event) -> None:
        names, rounds = bare(question.step.partition("//")[0])
        self.say(event, tuple(names), names[-1], rounds[-1], 1)

    # The end

    def over(self, result: tuple[WorkflowMessage, int] | None) -> None:
        """End the run."""
        kept = self._kept
        seconds = max(0.0, self.at - kept.created)
        if kept.state == FINISHED and result is not None:
            self._close(self.top)
            self._cancel(self.top)
            message, rounds = result
            finished = events.RunFinished(message=message, seconds=seconds, rounds=rounds)
            self.say(finished, round=self.top.rounds.best_round or rounds)
            return
        self._cancel(self.top, bare(kept.failed)[0] if kept.failed else ())
        error = kept.error or (events.CANCELLED if kept.state == CANCELLED else "its result cannot be read")
        self.say(events.RunFailed(error=error, seconds=seconds, usage=_usage(kept)))

    def _cancel(self, level: _Level, failed: Sequence[str] = ()) -> None:
        """Cancel operators that are under way; those around the failed operator fail instead."""
        for name, began in list(level.under_way.items()):
            around = level.around.pop(name, _Around())
            is_failed = bool(failed) and level.operator(failed[0]) == name
            for inside in around.inside.values():
                self._cancel(inside, failed[1:] if is_failed and inside.path[-1] == failed[0] else ())
            seconds, error = self.at - began, around.error() if is_failed else None
            if error is not None:
                self._fail(level, name, error, around.attempt, usage=around.usage, seconds=seconds)
                continue
            cancelled = events.OperatorCancelled(seconds=seconds, usage=around.usage)
            self.say(cancelled, (*level.path, name), name, level.round, around.attempt)
        level.under_way.clear()


def _schema(question: KeptQuestion) -> Mapping[str, Any] | None:
    with suppress(ValueError, RecursionError):  # not written by Operad
        schema = json.loads(question.schema) if question.schema else None
        return cast("Mapping[str, Any]", schema) if isinstance(schema, dict) else None
    return None


def _usage(kept: KeptRun) -> Usage:
    with suppress(ValidationError):
        return Usage.model_validate_json(kept.usage)
    return NO_USAGE
