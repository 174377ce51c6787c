"""The answer of a run in a conversation: whole, or piece by piece."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from pydantic import BaseModel, ConfigDict

from operad.runtime import events
from operad.runtime.values.errors import AnswerError
from operad.runtime.values.fault import Fault
from operad.runtime.values.schema import AnswerSchema
from operad.runtime.values.valid_json import to_json
from operad.server.api.answer_form import check_answer
from operad.server.api.conversation import question_text
from operad.server.api.seen_runs import SeenRuns
from operad.server.api.served_run import ServedRun
from operad.server.http.problems import RefusedError

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


def answer_of(run: ServedRun, wrong: str = "", form: AnswerSchema | None = None) -> str:
    """Return the answer of an ended run, or its question.

    Args:
        wrong: Fault of the last answer to the question; empty for none.
        form: Form that the client asks for; None for any.

    Raises:
        RefusedError: The run has no result, or its text does not fit the form.
    """
    if questions := run.questions:
        return question_text(run, questions[0], wrong)
    if run.message is not None:
        check_answer(run, form)
        return run.text
    raise RefusedError(
        504 if run.timed_out else 502, f"run {run.id!r} {'failed: ' if run.state == 'failed' else ''}{run.error}"
    )


async def stream_answer(
    run: ServedRun, wrong: str, form: AnswerSchema | None = None, *, asks: bool = True
) -> AsyncGenerator[tuple[str, events.Event | None], None]:
    """Yield the events of a run until it asks or ends, each with the new text of the answer in it; then the rest.

    Args:
        wrong: Fault of the last answer to the question; empty for none.
        form: Form that the client asks for; None for any.
        asks: False to leave out the text of a question, for protocols that have questions of their own.

    Yields:
        A piece of the answer, which may be empty; and the event, None for the rest of the answer after the last event.

    Raises:
        RefusedError: The run has no result, it does not fit the form, or it differs from the text sent so far.
    """
    live = run.offer.answer_stream()
    number = run.streamed
    if not wrong and not (run.questions and number == run.log.last):
        async with aclosing(run.log.follow(number)) as entries:
            async for entry in entries:
                yield live.next(entry.event), entry.event
                number = entry.number
                if run.questions and number == run.log.last:
                    run.streamed = number
                    live.end_turn()
                    break
    if run.questions and not asks:
        return
    try:
        for piece in live.rest(answer_of(run, wrong, form)):
            yield piece, None
    except AnswerError as error:
        raise RefusedError(502, str(error)) from error


async def end_reply(runs: SeenRuns, run: ServedRun, forgets: bool, complete: bool) -> None:
    """End the run of a reply: cancel it if the client disconnected before the end, and delete it if `forgets`."""
    if not complete:
        await runs.cancel(run, GONE)
    if forgets and not run.questions:
        await runs.forget(run)


def sent_as(text: str, event: events.Event | None, chunk: Callable[[str], bytes]) -> bytes:
    """Return what the OpenAI protocols send for an event: a chunk of text, a comment on progress, or nothing."""
    if text:
        return chunk(text)
    if isinstance(
        event, events.OperatorStarted | events.OperatorFinished | events.OperatorRetried | events.ModelRetried
    ):
        return f": {to_json([type(event).__name__, '/'.join(event.path)])}\n\n".encode()
    return b""
