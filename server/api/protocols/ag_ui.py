"""AG-UI, the protocol between agents and user interfaces: a run as a stream of its events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any
from urllib.parse import quote

from ag_ui import core
from ag_ui.core import RunAgentInput as Given
from starlette.requests import Request
from starlette.responses import Response

from operad.runtime.values.questions import Question
from operad.runtime.values.valid_json import to_json
from operad.server.api.conversation import not_text, request_in
from operad.server.api.experts import Offer
from operad.server.api.faults import read_body
from operad.server.api.protocols.answers import (
    APPROVAL,
    MAX_SESSION,
    asked_run,
    give_answers,
    payload_answer,
    public_id,
)
from operad.server.api.protocols.parts import (
    Called,
    Closed,
    Opened,
    Part,
    Returned,
    Written,
    call_asked_about,
    reply_parts,
)
from operad.server.api.seen_runs import SeenRuns
from operad.server.api.served_run import ServedRun
from operad.server.api.spoken import end_reply, note_on
from operad.server.http.problems import RefusedError, refuse_faults
from operad.server.http.streams import EventStream


async def reply(runs: SeenRuns, offer: Offer, request: Request) -> Response:
    """Return the stream of a run for an input of the protocol. The run ends if the client disconnects.

    Raises:
        RefusedError: The input cannot be used.
    """
    given = await read_body(Given, request)
    refuse_faults(_faults_of(given))
    try:
        run, wrong = await _run_for(runs, offer, given)
    except RefusedError as problem:
        if not given.resume and problem.status != 409:
            raise
        return EventStream(_refused(given, problem), runs.bounds.beat)  # as the protocol demands for answers
    return EventStream(_events(run, wrong, given), runs.bounds.beat, partial(end_reply, runs, run, False))


def _faults_of(given: Given) -> Iterator[tuple[str, str]]:
    """Yield the fields that experts do not support, with the reasons."""
    for name, value in (("threadId", given.thread_id), ("runId", given.run_id)):
        if not 0 < len(value) <= MAX_SESSION:
            yield name, f"has {len(value):,} characters; give 1 to {MAX_SESSION}"
    if given.tools:
        yield "tools", "experts have tools of their own and call none of yours; leave them out"
    for number, message in enumerate(given.messages):
        content = message.content if message.role in ("user", "tool") else None
        for place, part in enumerate(content if isinstance(content, list) else ()):
            if part.type != "text":
                yield not_text(f"messages[{number}].content[{place}]", part.type, "text", "parts")


async def _run_for(runs: SeenRuns, offer: Offer, given: Given) -> tuple[ServedRun, str]:
    """Return the run of an input: the run whose questions it answers, with the faults of the answers, or a new run."""
    if given.resume:
        return await _resumed(runs, given.resume)
    thread = quote(given.thread_id, safe="")  # a slash ends the owner in the id of a session
    session = runs.caller.session(thread)
    if waiting := [run for run in runs.listed() if run.job.session_id == session and run.questions]:
        ids = ", ".join(public_id(run, question) for run in waiting for question in run.questions)
        raise RefusedError(409, f"resume: the thread waits for answers to {ids}; give or cancel them", param="resume")
    context = [("system", f"{each.description}: {each.value}") for each in given.context or ()]
    turn = request_in([*context, *_texts(given)], "messages")
    job = offer.job(turn.goal, turn.context, {}, turn.turns, thread)
    return (await runs.begin(offer, job))[0], ""


def _texts(given: Given) -> Iterator[tuple[str, str]]:
    """Yield the roles and texts of the messages; thinking and activities are of the interface only."""
    for message in given.messages:
        if message.role in ("activity", "reasoning"):
            continue
        content: Any = message.content or ""
        yield message.role, content if isinstance(content, str) else "\n".join(part.text for part in content)


async def _resumed(runs: SeenRuns, entries: Sequence[core.ResumeEntry]) -> tuple[ServedRun, str]:
    """Return the run whose questions are answered, and the faults of the answers."""
    run, questions = await asked_run(runs, [entry.interrupt_id for entry in entries], "resume")
    if any(questions):
        if missing := [public_id(run, each) for each in run.questions if each not in questions]:
            text = f"resume: no answer for {', '.join(missing)}; answer or cancel all questions"
            raise RefusedError(400, text, param="resume")
        if any(entry.status == "cancelled" for entry in entries):
            await runs.cancel(run, "was cancelled, because its question was")
            return run, ""
    answers = [(each, payload_answer(each, entry.payload)) for entry, each in zip(entries, questions, strict=True)]
    return run, await give_answers(runs, run, answers)


async def _refused(given: Given, problem: RefusedError) -> AsyncGenerator[bytes, None]:
    yield _line(_started(given))
    yield _line(_failure(problem))


async def _events(run: ServedRun, wrong: str, given: Given) -> AsyncGenerator[bytes, None]:
    """Yield the events of a reply."""
    yield _line(_started(given, run))
    try:
        async with aclosing(reply_parts(run, wrong)) as parts:
            async for part in parts:
                for event in _events_of(part):
                    yield _line(event)
        yield _line(_finished(run, wrong, given))
    except RefusedError as problem:
        if run.state == "cancelled" and not run.timed_out:
            yield _line(_end(run, given, core.RunFinishedCancelledOutcome()))
        else:
            yield _line(_failure(problem, run))


_BEGIN: Mapping[str, Sequence[Any]] = {
    "text": (core.TextMessageStartEvent,),
    "thinking": (core.ReasoningStartEvent, core.ReasoningMessageStartEvent),
}
_PIECE: Mapping[str, Any] = {"text": core.TextMessageContentEvent, "thinking": core.ReasoningMessageContentEvent}
_END: Mapping[str, Sequence[Any]] = {
    "text": (core.TextMessageEndEvent,),
    "thinking": (core.ReasoningMessageEndEvent, core.ReasoningEndEvent),
}


def _events_of(part: Part) -> Iterator[core.BaseEvent]:
    match part:
        case Opened("step", name):
            yield core.StepStartedEvent(step_name=name)
        case Closed("step", name):
            yield core.StepFinishedEvent(step_name=name)
        case Opened(kind, message):
            yield from (event(message_id=message) for event in _BEGIN[kind])
        case Written(kind, message, text):
            yield _PIECE[kind](message_id=message, delta=text)
        case Closed(kind, message):
            yield from (event(message_id=message) for event in _END[kind])
        case Called(call, tool, arguments):
            yield core.ToolCallStartEvent(tool_call_id=call, tool_call_name=tool)
            yield core.ToolCallArgsEvent(tool_call_id=call, delta=to_json(dict(arguments)))
            yield core.ToolCallEndEvent(tool_call_id=call)
        case Returned(call, _, result):
            yield core.ToolCallResultEvent(message_id=f"{call}:result", tool_call_id=call, content=result, role="tool")


def _started(given: Given, run: ServedRun | None = None) -> core.RunStartedEvent:
    metadata = {"operad": {"run_id": run.id}} if run else None
    return core.RunStartedEvent(
        thread_id=given.thread_id,
        run_id=given.run_id,
        parent_run_id=given.parent_run_id,
        protocol_version=core.PROTOCOL_VERSION,
        metadata=metadata,
    )


def _failure(problem: RefusedError, run: ServedRun | None = None) -> core.RunErrorEvent:
    return core.RunErrorEvent(
        message=str(problem), code=problem.body["error"]["code"], usage=[_usage(run)] if run else None
    )


def _finished(run: ServedRun, wrong: str, given: Given) -> core.RunFinishedEvent:
    if questions := run.questions:
        return _end(
            run,
            given,
            core.RunFinishedInterruptOutcome(interrupts=[_interrupt(run, each, wrong) for each in questions]),
        )
    return _end(run, given, core.RunFinishedSuccessOutcome())


def _end(run: ServedRun, given: Given, outcome: Any) -> core.RunFinishedEvent:
    result = (run.message.outputs or run.text) if run.message else None
    return core.RunFinishedEvent(
        thread_id=given.thread_id,
        run_id=given.run_id,
        outcome=outcome,
        result=result,
        usage=[_usage(run)],
        metadata={"operad": note_on(run).model_dump(mode="json")},
    )


def _interrupt(run: ServedRun, question: Question, wrong: str) -> core.Interrupt:
    call = call_asked_about(run, question) if question.tool else ""
    is_boolean = (question.schema_ or {}).get("type") == "boolean"
    return core.Interrupt(
        id=public_id(run, question),
        reason="tool_call" if call else "confirmation" if is_boolean or question.tool else "input_required",
        message=f"{wrong}; try again\n\n{question.text}" if wrong else question.text,
        tool_call_id=call or None,
        response_schema=dict(APPROVAL) if question.tool else question.schema_,
    )


def _usage(run: ServedRun) -> core.TokenUsage:
    usage = run.usage
    return core.TokenUsage(
        input_tokens=usage.prompt_tokens, output_tokens=usage.completion_tokens, total_tokens=usage.tokens
    )


def _line(event: core.BaseEvent) -> bytes:
    return f"data: {to_json(event.model_dump(by_alias=True))}\n\n".encode()
