"""What is kept of a run, told as the events that it had.

Nobody who listened wrote them down. They follow from what is kept: when each operator began and ended, what came of
it, what was asked and answered, and the workflow. So does what is known of rounds, and of operators that others are
inside of, for nothing is kept of these themselves.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from dataclasses import replace as replaced
from typing import Any, cast

from msgspec.structs import replace
from pydantic import ValidationError

from operad.runtime import events
from operad.runtime.durable.codec import Outcome
from operad.runtime.durable.description import Description
from operad.runtime.durable.restart import ITEM, following
from operad.runtime.durable.rows import CANCELLED, FAILED, FINISHED, KeptQuestion, KeptRun
from operad.runtime.events import Event
from operad.runtime.events.journal import bare
from operad.runtime.values.errors import describe
from operad.runtime.values.message import NO_USAGE, Job, Usage, WorkflowMessage
from operad.runtime.workflow.rounds import Rounds, at_fault
from operad.runtime.workflow.verdict import fault_in, joined, joined_tails, verdict_of


@dataclass(frozen=True, slots=True)
class KeptStep:
    """What is kept of an operator's work in a run.

    Attributes:
        key: What it is known by in the run.
        outcome: What came of it; None while it is not finished.
        began: When it was begun, or, while nobody has, when it was put into a queue; seconds since the epoch.
        ended: When it was finished; 0 until then.
        waits: Whether nobody has begun it.
    """

    key: str
    outcome: Outcome | None
    began: float = 0.0
    ended: float = 0.0
    waits: bool = False

    @property
    def seconds(self) -> float:
        """How long it took; 0 while it is not finished."""
        return max(0.0, self.ended - self.began)


def history(
    kept: KeptRun,
    job: Job,
    result: tuple[WorkflowMessage, int] | None,
    steps: Sequence[KeptStep],
    questions: Sequence[KeptQuestion],
) -> list[Event]:
    """What is kept of a run, as events in the order of time.

    Args:
        kept: The run.
        job: What it was told to do.
        result: Its message, and how many rounds it had; None where it has not finished, or that cannot be read.
        steps: What is kept of its operators.
        questions: What it has asked.
    """
    told = _Told(kept, job)
    judges = tuple(told.top.judges)
    told.say(events.RunStarted(workflow=kept.workflow, goal=job.goal, operators=told.top.before, judges=judges))
    for at, what, is_beginning in _moments(steps, questions):
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


def _moments(
    steps: Sequence[KeptStep], questions: Sequence[KeptQuestion]
) -> Iterator[tuple[float, KeptStep | KeptQuestion, bool]]:
    """When what began and ended. Of what is noted of one moment, ends come before beginnings, for these follow from those."""
    began = {step.key: step.began for step in steps if not step.waits}
    moments: list[tuple[float, int, int, int, KeptStep | KeptQuestion]] = []
    for place, step in enumerate(steps):
        at_once = step.outcome is not None and step.ended <= step.began
        if not step.waits:
            moments.append((step.began, 1 if at_once else 2, place, 0, step))
        if step.outcome is not None:
            moments.append((max(step.began, step.ended), 1 if at_once else 0, place, 1, step))
    for place, question in enumerate(questions):
        asked = max(question.asked, began.get(question.step, 0.0))  # whoever had asked was begun anew
        moments.append((asked, 3, place, 0, question))
        if question.answer is not None:
            moments.append((max(asked, question.answered), 3, place, 1, question))
    for at, _, _, phase, what in sorted(moments, key=lambda moment: moment[:4]):
        yield at, what, not phase


@dataclass
class _Level:
    """A run of a workflow: the outermost, or one inside an operator.

    Attributes:
        path: That of the operator around it, with the item that it is for.
        about: The workflow.
        rounds: How far its rounds are.
        to_run: The operators that run in that.
        begun: All that began in it, evaluators as well.
        under_way: When those began that are not finished; of those that others are inside of, nothing is kept.
        around: Those that others are inside of, as far as they are under way.
        failed: What was raised in the round.
        verdicts: What its evaluators said.
        is_judged: Whether it has ended with a verdict.
        said: What each operator said last.
        verdict: How it was judged.
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
        """Its round."""
        return self.rounds.number

    @property
    def operators(self) -> Mapping[str, Any]:
        return self.about.get("operators", {})

    @property
    def judges(self) -> Mapping[str, Any]:
        return self.about.get("evaluators", {})

    @property
    def before(self) -> dict[str, tuple[str, ...]]:
        """Its operators, and per operator those before it."""
        return {name: tuple(what.get("after", ())) for name, what in self.operators.items()}

    def tails(self) -> list[WorkflowMessage]:
        """What those said whom nobody comes after."""
        before = {parent for parents in self.before.values() for parent in parents}
        last = [name for name in self.operators if name not in before] or list(self.said)
        return [self.said[name] for name in last if name in self.said]

    def operator(self, name: str) -> str:
        """The operator that is meant by its id, or by that with one of its items."""
        found = ITEM.fullmatch(name)
        return found[1] if found and name not in self.operators else name

    def again(self) -> tuple[str, ...]:
        """The operators that run in the next round: those at fault, and all that comes after them."""
        known = [*self.operators, *self.judges]
        gone = {*at_fault(self.verdict.blame if self.verdict else (), known), *self.failed}
        again = {each for name in gone for each in (name, *following(name, self.operators))}
        return tuple(name for name in self.operators if name in again)

    def message(self, job: Job) -> WorkflowMessage | None:
        """What it says, as far as it has said something."""
        if self.rounds.best is not None:
            return cast("WorkflowMessage", self.rounds.best)
        return joined_tails(tails, job) if (tails := self.tails()) else None


@dataclass
class _Around:
    """An operator that others are inside of.

    Attributes:
        inside: The runs of workflows in it, by their keys.
        usage: What these have used.
        attempt: The attempt that they are of.
    """

    inside: dict[str, _Level] = field(default_factory=dict[str, "_Level"])
    usage: Usage = NO_USAGE
    attempt: int = 1

    def runs(self) -> list[_Level]:
        """Those of its last attempt, in the order of its items."""
        last = {inside.path[-1]: inside for inside in self.inside.values()}
        return sorted(
            last.values(), key=lambda inside: int(found[2]) if (found := ITEM.fullmatch(inside.path[-1])) else 0
        )

    def error(self) -> BaseException | None:
        """What was raised inside it, last."""
        return next((error for inside in reversed(self.inside.values()) for error in inside.failed.values()), None)


class _Told:
    """What has been told so far, and how far the run was then.

    Attributes:
        events: What has been told.
        at: The moment that it is about; it never goes back.
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
        """Tell an event of this moment."""
        stamps = {"path": path, "operator_id": operator, "round": round, "attempt": attempt, "time": self.at}
        self.events.append(replace(event, run_id=self._kept.run_id, seq=len(self.events) + 1, **stamps))

    # Operators of which something is kept

    def begun(self, step: KeptStep) -> None:
        """An operator began, and with it those around it that had not."""
        place = self._places(step.key)[-1]
        if "//" not in step.key:
            self._begin(*place)

    def ended(self, step: KeptStep, outcome: Outcome) -> None:
        """An operator, or a part of one, ended."""
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
            error = outcome.error or ValueError("nothing is kept of it")
            self._fail(level, name, error, attempt, usage=outcome.usage, seconds=step.seconds)
        else:
            self._finish(level, name, outcome.message, attempt, seconds=step.seconds)

    def _places(self, key: str) -> list[tuple[_Level, str, int]]:
        """A workflow, the operator in it and its round: those around what a key says, and last that itself."""
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
        """An operator that others are inside of; it begins, if it has not."""
        if (name := level.operator(name)) not in level.around:
            self._begin(level, name, round)
            level.around[name] = _Around()
        return level.around[name]

    def _enter(self, level: _Level, name: str, round: int, key: str, first: str) -> _Level:
        """The run of a workflow inside an operator; it begins, if it has not, with the operator `first`."""
        around = self._begin_around(level, name, round)
        if key not in around.inside:
            operator = level.operator(name)
            attempt = int(key.rpartition("~")[2]) if "~" in key.rpartition("/")[2] else 1
            if attempt > around.attempt:
                error = around.error() or ValueError("nothing is kept of it")
                retried = events.OperatorRetried(error=describe(error), delay=0.0)
                self.say(retried, (*level.path, operator), operator, round, around.attempt)
                around.attempt = attempt
            inside = around.inside[key] = _Level(
                (*level.path, name), level.operators.get(operator, {}).get("inside", {})
            )
            if inside.operator(first) not in (*inside.operators, *inside.judges):
                inside.about = {}  # it was made by a leader
            entered = events.WorkflowEntered(workflow=operator, operators=inside.before, judges=tuple(inside.judges))
            self.say(entered, inside.path, operator, round, attempt)
        return around.inside[key]

    # What follows for those of which nothing is kept

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
        """An operator that others are inside of has ended, if it was under way: something follows from it.

        Args:
            level: The workflow.
            name: The operator.
            failed: Whether it has ended with what was raised inside it.
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
        level.rounds = replaced(level.rounds, number=round)
        level.to_run, level.is_judged = again, False
        level.begun.clear()
        level.failed.clear()
        level.verdicts.clear()
        self.say(events.RoundStarted(operators=again), level.path, round=round)

    def _close(self, level: _Level, *, failed: bool = False) -> None:
        """A round has ended: by who judges it, or by an error, or because all in it have said something."""
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
            blame=verdict.blame,
            score=verdict.score,
            by_error=by_error,
            has_result=not level.failed,
        )
        self.say(judged, level.path, round=level.round)

    # Questions

    def asked(self, question: KeptQuestion) -> None:
        """A person is asked."""
        asked = events.Interrupted(interrupt_id=question.id, question=question.text, schema=_schema(question))
        self._say_where(question, asked)

    def answered(self, question: KeptQuestion) -> None:
        """A person has answered."""
        seconds = max(0.0, question.answered - question.asked)
        self._say_where(question, events.Resumed(interrupt_id=question.id, seconds=seconds))

    def _say_where(self, question: KeptQuestion, event: Event) -> None:
        names, rounds = bare(question.step.partition("//")[0])
        self.say(event, tuple(names), names[-1], rounds[-1], 1)

    # The end

    def over(self, result: tuple[WorkflowMessage, int] | None) -> None:
        """The run has ended."""
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
        error = kept.error or (events.CANCELLED if kept.state == CANCELLED else "what came of it cannot be read")
        self.say(events.RunFailed(error=error, seconds=seconds, usage=_usage(kept)))

    def _cancel(self, level: _Level, failed: Sequence[str] = ()) -> None:
        """What was under way was stopped; but what is around that at which the run failed has failed."""
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
    with suppress(ValueError, RecursionError):  # none of ours
        schema = json.loads(question.schema) if question.schema else None
        return cast("Mapping[str, Any]", schema) if isinstance(schema, dict) else None
    return None


def _usage(kept: KeptRun) -> Usage:
    with suppress(ValidationError):
        return Usage.model_validate_json(kept.usage)
    return NO_USAGE
