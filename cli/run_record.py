"""Record of a durable run, as printed by commands."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from operad.cli.columns import local_time
from operad.cli.durable import database_option, resume_command
from operad.cli.progress import used
from operad.configs.flow import result_text
from operad.configs.runnable import source_of
from operad.runtime.durable.database_names import display_name
from operad.runtime.durable.ledger import Ledger
from operad.runtime.durable.restart import origin_text
from operad.runtime.durable.tables import (
    ASKS,
    CANCELLED,
    FAILED,
    FINISHED,
    RUNNING,
    StoredQuestion,
    StoredRun,
    question_of,
)
from operad.runtime.durable.work_table import StoredStep
from operad.runtime.events.journal import bare
from operad.runtime.policies.policy import causes
from operad.runtime.values.errors import InputError, OperadError, describe
from operad.runtime.values.fault import finding_lines, reason_in, status_text, verdict_text
from operad.runtime.values.message import NO_USAGE, Job, Usage, WorkflowMessage, WorkflowStatus
from operad.runtime.values.questions import Question
from operad.runtime.values.text import short_line
from operad.runtime.values.typed_answers import describe_answer

LONGEST_SAID = 200
"""Maximum number of characters shown of an operator's output or of a job."""

MOST_OF_A_VERDICT = 2_000
"""Maximum number of characters shown of a verdict."""

INTERRUPTED = "interrupted"
"""State of unfinished runs without a driver."""

UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


@dataclass(frozen=True, slots=True)
class DisplayedRun:
    """A kept run, as displayed.

    Attributes:
        state: ``running``, ``interrupted``, ``asks``, ``finished``, ``failed`` or ``cancelled``.
        verdict: Status of its message, if it has finished.
        questions: Its open questions.
        age: Seconds since its start.
        idle: Seconds since its last update.
    """

    kept: StoredRun
    state: str
    verdict: str
    questions: Sequence[Question]
    age: float
    idle: float

    @property
    def state_text(self) -> str:
        """The state with the verdict: ``finished: rejected (EXECUTION_ERROR)``."""
        with suppress(ValueError):  # a database of another version
            return f"{self.state}: {status_text(WorkflowStatus(self.verdict))}" if self.verdict else self.state
        return f"{self.state}: {self.verdict}"

    @property
    def usage(self) -> Usage:
        """Usage and cost of the run."""
        return self.kept.used

    @property
    def progress(self) -> str:
        """Number of finished operators, and of all: ``?`` while items of maps and further rounds are unknown."""
        done, total = self.kept.done, self.kept.total
        if self.state == FINISHED:
            return f"{done}/{max(done, total)}"
        return f"{done}/{total if total > done else '?'}"

    def as_dict(self) -> dict[str, Any]:
        """Return the run as JSON values."""
        kept, usage = self.kept, self.usage
        return {
            "id": kept.run_id,
            "workflow": kept.workflow,
            "state": self.state,
            **({"status": self.verdict, "accepted": self.verdict == WorkflowStatus.SUCCESS} if self.verdict else {}),
            "done": kept.done,
            "total": max(kept.done, kept.total),
            "age": round(self.age, 3),
            "created": kept.created,
            "updated": kept.updated,
            "drives": kept.drives,
            "driver": kept.driver,
            **({"origin": json.loads(kept.origin)} if kept.origin else {}),
            "started_by": kept.started_by,
            "usage": {**usage.model_dump(mode="json"), "tokens": usage.tokens},
        }


def is_of_a_command(kept: StoredRun) -> bool:
    """Return True if a command started the run, so that a command can resume it."""
    with suppress(InputError):
        return bool(source_of(kept).file)
    return False


def answer_instructions(kept: StoredRun, question_id: str = "QUESTION") -> str:
    """Return instructions for answering a run in the program that started it."""
    answers = f"{{{question_id!r}: VALUE}}"
    return (
        f"in that program: ledger.answer({kept.run_id!r}, {answers}), then execute its workflow with "
        f"run_id={kept.run_id!r} again"
    )


def displayed_runs(ledger: Ledger, *chosen: StoredRun) -> list[DisplayedRun]:
    """Return kept runs with their displayed states."""
    alive, now = ledger.alive(), ledger.store.database.now()
    return [_displayed(ledger, kept, alive, now) for kept in chosen]


def _displayed(ledger: Ledger, kept: StoredRun, alive: Collection[str], now: float) -> DisplayedRun:
    state, verdict = kept.state, ""
    questions: Sequence[Question] = ()
    if state == FINISHED:
        verdict = kept.verdict
    elif state not in (FAILED, CANCELLED):
        questions = list(map(_question, ledger.questions(kept.run_id)))
        state = ASKS if questions else RUNNING if kept.driver in alive else INTERRUPTED
    driven = replace(kept, driver=kept.driver if kept.driver in alive else "")
    return DisplayedRun(driven, state, verdict, questions, max(0.0, now - kept.created), max(0.0, now - kept.updated))


def caught_up(seen: DisplayedRun, steps: Sequence[StoredStep]) -> DisplayedRun:
    """Return a run with the progress and usage of its operators, if they are ahead of the run's own record.

    The record of a run is written every few seconds; a process that was killed may not have written the last values.
    """
    outcomes = [(step.key, step.outcome) for step in steps if step.outcome is not None]
    done = len({tuple(bare(key)[0]) for key, outcome in outcomes if outcome.error is None})
    usage = sum((outcome.usage for _, outcome in outcomes), NO_USAGE)
    known = seen.usage
    if (usage.calls, usage.tokens) <= (known.calls, known.tokens):
        usage = known
    kept = replace(seen.kept, done=max(done, seen.kept.done), usage=usage.model_dump_json())
    return replace(seen, kept=kept)


def _question(kept: StoredQuestion) -> Question:
    """Return a stored question; if it cannot be read, its text contains the reason."""
    try:
        return question_of(kept)
    except InputError as error:
        return Question(id=kept.id, text=f"{kept.text} ({error})")


def row(seen: DisplayedRun) -> tuple[str, ...]:
    """Return the cells of a run in the list of runs."""
    kept, usage = seen.kept, seen.usage
    cost = usage.money() if usage.calls else ""
    return (kept.run_id, kept.workflow, seen.state_text, seen.progress, ago(seen.age), f"{usage.tokens:,}", cost)


def ago(seconds: float) -> str:
    """Return a duration for people, in the largest unit of which it has at least two."""
    for unit in "dhm":
        if seconds >= 2 * UNIT_SECONDS[unit]:
            return f"{seconds / UNIT_SECONDS[unit]:.0f} {'min' if unit == 'm' else unit}"
    return f"{seconds:.0f} s"


def _job_facts(ledger: Ledger, seen: DisplayedRun) -> Iterator[tuple[str, str]]:
    job = _job_or_error(ledger, seen)
    if isinstance(job, str):
        yield "job", job
        return
    yield "job", short_line(job.goal, LONGEST_SAID)
    for name, value in job.inputs.items():
        yield "input", short_line(f"{name}={value}", LONGEST_SAID)
    for file in job.files:
        yield "file", str(file.path)


def _job_or_error(ledger: Ledger, seen: DisplayedRun) -> Job | str:
    try:
        return ledger.job(seen.kept.run_id)
    except OperadError as error:
        return f"cannot be read: {error}"


def facts(ledger: Ledger, seen: DisplayedRun, db: str | None) -> list[tuple[str, str]]:
    """Return the facts about a run, as names and values."""
    kept = seen.kept
    drives = "driven once" if kept.drives == 1 else f"driven {kept.drives} times"
    facts = [
        ("run", kept.run_id),
        ("workflow", kept.workflow),
        *([("origin", origin)] if (origin := origin_text(kept)) else []),
        ("state", f"{seen.state_text}, {seen.progress} done, {drives}"),
        *([("driver", kept.driver)] if kept.driver else []),
        *([("started by", kept.started_by)] if kept.started_by else []),
        *_job_facts(ledger, seen),
        ("source", _source_text(kept)),
        ("started", f"{local_time(kept.created)}, {ago(seen.age)} ago; last update {ago(seen.idle)} ago"),
        ("used", used(seen.usage)),
        ("kept in", display_name(ledger.url)),
    ]
    result = _result_or_error(ledger, kept)
    return [*facts, *_result_facts(result)] if result else facts


def _result_facts(result: WorkflowMessage | str) -> Iterator[tuple[str, str]]:
    """Yield the result, and what its verdict found."""
    if isinstance(result, str):
        yield "result", result
        return
    yield "result", short_line(result.scratchpad or result_text(result.outputs), LONGEST_SAID)
    if result.evaluation:
        reason = reason_in(result.evaluation, result.unsure)
        yield "verdict", short_line(verdict_text(result.status, reason), MOST_OF_A_VERDICT)
    for line in finding_lines(result.faults, result.blame if result.rejected else (), result.unsure, {}):
        yield "", line


def _result_or_error(ledger: Ledger, kept: StoredRun) -> WorkflowMessage | str | None:
    try:
        return ledger.result(kept.run_id)
    except OperadError as error:
        return f"cannot be read: {error}"


def _source_text(kept: StoredRun) -> str:
    try:
        source = source_of(kept).model_dump(exclude_defaults=True)
    except InputError:
        return "a program, not a command"
    return ", ".join([source.pop("file"), *(f"{name} {value}" for name, value in source.items())])


def _step_state(step: StoredStep, seen: DisplayedRun) -> str:
    if step.outcome is None:
        return "waiting" if step.waits else "running" if seen.kept.driver else INTERRUPTED
    return "failed" if step.outcome.error is not None else "done"


def step_row(step: StoredStep, seen: DisplayedRun) -> tuple[str, ...]:
    """Return the cells of an operator in the record of a run."""
    outcome = step.outcome
    if outcome is None:
        return (step.key, _step_state(step, seen), "", "", "", "")
    output = describe(outcome.error) if outcome.error is not None else ""
    if outcome.message is not None:
        message = outcome.message
        output = message.scratchpad or (
            json.dumps(message.outputs, default=str, ensure_ascii=False) if message.outputs else ""
        )
    usage = outcome.usage
    tokens, cost = f"{usage.tokens:,}" if usage.tokens else "", usage.money() if usage.calls else ""
    return (step.key, _step_state(step, seen), f"{step.seconds:.1f}", tokens, cost, short_line(output, LONGEST_SAID))


def errors(seen: DisplayedRun, steps: Sequence[StoredStep]) -> Iterator[str]:
    """Yield the errors of a run and of its operators, one line each."""
    for step in steps:
        if step.outcome is not None and step.outcome.error is not None:
            first, *others = causes(step.outcome.error)
            yield ""
            yield f"{step.key} failed: {describe(first)}"
            yield from (f"  caused by: {describe(cause)}" for cause in others)
    if seen.kept.error:
        yield ""
        yield f"the run failed: {seen.kept.error}"


def asked(seen: DisplayedRun, db: str | None) -> Iterator[str]:
    """Yield the open questions of a run, and the command that answers each."""
    for question in seen.questions:
        form = f" ({wanted})" if (wanted := describe_answer(question.schema_)) else ""
        yield ""
        yield f"{question.id} asks: {question.text}{form}"
        yield f"  answer it: {_answer_command(seen, question, db) if is_of_a_command(seen.kept) else answer_instructions(seen.kept, question.id)}"


def _answer_command(seen: DisplayedRun, question: Question, db: str | None) -> str:
    return f"{_resume_command(seen.kept, db)} --answer {shlex.quote(question.id)}=…"


def _resume_command(kept: StoredRun, db: str | None) -> str:
    with suppress(InputError):  # the run was started by a program
        return resume_command(kept.run_id, db, source_of(kept).base_url)
    return resume_command(kept.run_id, db)


def next_step(seen: DisplayedRun, db: str | None) -> str:
    """Return how to continue a run, or to end it."""
    kept, resume = seen.kept, _resume_command(seen.kept, db)
    if kept.driver:
        return f"{kept.driver} drives it; operad runs cancel {shlex.quote(kept.run_id)}{database_option(db)} ends it"
    if kept.source in ("", "null") and seen.state == FINISHED:
        return f"for its result: run its workflow with run_id={kept.run_id!r} in the program that started it"
    if kept.source in ("", "null"):
        return f"to resume: run its workflow with run_id={kept.run_id!r} in the program that started it"
    return {
        FINISHED: f"for its result: {resume}; to run a copy from an operator on: {resume} --restart-from OPERATOR",
        FAILED: f"to run the failed operators again: {resume}",
        ASKS: f"to answer and resume: {_answer_command(seen, seen.questions[0], db)}" if seen.questions else "",
    }.get(seen.state, f"to resume: {resume}")


def details(ledger: Ledger, seen: DisplayedRun, steps: Sequence[StoredStep]) -> dict[str, Any]:
    """Return the record of a run as JSON."""
    kept = seen.kept
    job = _job_or_error(ledger, seen)
    message = _result_or_error(ledger, kept)
    return {
        **seen.as_dict(),
        "source": _parsed_json(kept.source),
        "job": job if isinstance(job, str) else job.model_dump(mode="json", fallback=str),
        "error": kept.error,
        "questions": [
            {"id": question.id, "text": question.text, "schema": question.schema_} for question in seen.questions
        ],
        "operators": [_step_dict(step, seen) for step in steps],
        "result": message.model_dump(mode="json", fallback=str) if isinstance(message, WorkflowMessage) else message,
    }


def _parsed_json(text: str) -> Any:
    with suppress(ValueError, RecursionError):  # not written by a command
        return json.loads(text)
    return None


def _step_dict(step: StoredStep, seen: DisplayedRun) -> dict[str, Any]:
    outcome = step.outcome
    values: dict[str, Any] = {"key": step.key, "state": _step_state(step, seen), "seconds": step.seconds}
    if outcome is None:
        return values
    values["usage"] = outcome.usage.model_dump(mode="json")
    if outcome.message is not None:
        values["message"] = outcome.message.model_dump(mode="json", fallback=str)
    if outcome.error is not None:
        values["error"] = [describe(cause) for cause in causes(outcome.error)]
    return values
