"""The answer of a run in a conversation: whole, or piece by piece."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from pydantic import BaseModel, ConfigDict

from operad.runtime import events
from operad.runtime.values.errors import AnswerError
from operad.runtime.values.fault import Fault
from operad.runtime.values.valid_json import to_json
from operad.server.api.conversation import question_text
from operad.server.api.event_log import Entry
from operad.server.api.seen_runs import SeenRuns
from operad.server.api.served_run import ServedRun
from operad.server.problems import RefusedError

GONE = "was cancelled, because the client disconnected"


class RunNote(BaseModel):
    """Extension of the protocol: the run, the verdict on its result, and its questions."""

    model_config = ConfigDict(extra="forbid")

    run_id: str
    state: str
    accepted: bool | None
    status: str | None
    evaluation: str
    lesson: str
    faults: list[Fault]
    unsure: list[str]
    questions: list[str]


def note_on(run: ServedRun) -> RunNote:
    """Return the note on a run."""
    message = run.message
    return RunNote(
        run_id=run.id,
        state=run.shown_state,
        accepted=message.accepted if message else None,
        status=message.status.value if message else None,
        evaluation=message.evaluation if message else "",
        lesson=message.lesson if message else "",
        faults=list(message.faults) if message else [],
        unsure=list(message.unsure) if message else [],
        questions=[question.id for question in run.questions],
    )


def answer_of(run: ServedRun, wrong: str = "") -> str:
    """Return the answer of an ended run, or its question.

    Args:
        wrong: Fault of the last answer to the question; empty for none.

    Raises:
        RefusedError: The run has no result.
    """
    if questions := run.questions:
        return question_text(run, questions[0], wrong)
    if run.message is not None:
        return run.text
    raise RefusedError(
        504 if run.timed_out else 502, f"run {run.id!r} {'failed: ' if run.state == 'failed' else ''}{run.error}"
    )


async def stream_answer(run: ServedRun, wrong: str) -> AsyncGenerator[str | bytes, None]:
    """Yield the text of `said_by` in pieces as it is written; and, as bytes, comments on progress that clients skip.

    Raises:
        RefusedError: The run has no result, or its result differs from the text sent so far.
    """
    live = run.offer.answer_stream()
    number = run.streamed
    if not wrong and not (run.questions and number == run.log.last):
        async with aclosing(run.log.follow(number)) as entries:
            async for entry in entries:
                if piece := live.next(entry.event):
                    yield piece
                if comment := _comment(entry):
                    yield comment
                number = entry.number
                if run.questions and number == run.log.last:
                    run.streamed = number
                    live.end_turn()
                    break
    try:
        for piece in live.rest(answer_of(run, wrong)):
            yield piece
    except AnswerError as error:
        raise RefusedError(502, str(error)) from error


async def end_reply(runs: SeenRuns, run: ServedRun, forgets: bool, complete: bool) -> None:
    """End the run of a reply: cancel it if the client disconnected before the end, and delete it if `forgets`."""
    if not complete:
        await runs.cancel(run, GONE)
    if forgets and not run.questions:
        await runs.forget(run)


def _comment(entry: Entry) -> bytes:
    """Return a comment on an event, for clients that show progress."""
    event = entry.event
    if isinstance(
        event, events.OperatorStarted | events.OperatorFinished | events.OperatorRetried | events.ModelRetried
    ):
        return f": {to_json([entry.name, '/'.join(event.path)])}\n\n".encode()
    return b""
