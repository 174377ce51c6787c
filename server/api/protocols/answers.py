"""Questions of runs in protocols that name them by one id, and the answers that come back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import JsonValue

from operad.runtime.values.questions import Question
from operad.server.api.conversation import answer_question
from operad.server.api.seen_runs import SeenRuns
from operad.server.api.served_run import ServedRun
from operad.server.http.problems import RefusedError

MAX_SESSION = 200
"""Maximum length of the id of a conversation that a client gives, in characters."""

APPROVAL: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "reason": {"type": "string", "description": "Reason of a refusal, which the model is told."},
        "editedArgs": {"type": "object", "description": "Arguments of the call in place of the model's."},
    },
    "required": ["approved"],
}
"""JSON Schema of the answer to the question whether a tool may be called, as AG-UI recommends it."""


def public_id(run: ServedRun, question: Question) -> str:
    """Return the id of a question outside of its run."""
    return f"{run.id}:{question.id}"


async def asked_run(
    runs: SeenRuns, question_ids: Sequence[str], param: str
) -> tuple[ServedRun, Sequence[Question | None]]:
    """Return the run of questions, given by their `public_id`, and the questions; None for one that is answered.

    Raises:
        RefusedError: The run is not known, or never asked one of the questions; or there are several runs.
    """
    run_ids = {each.partition(":")[0] for each in question_ids}
    if len(run_ids) > 1 or len(set(question_ids)) < len(question_ids):
        raise RefusedError(
            400,
            f"{param}: answer each question once, and those of one run at a time, not of {len(run_ids)}",
            param=param,
        )
    run = await runs.find(run_ids.pop())
    questions = {public_id(run, each): each for each in run.questions}
    for each in question_ids:
        if each not in questions and each.partition(":")[2] not in run.asked:
            known = ", ".join(questions) or "none"
            raise RefusedError(404, f"{param}: no question has the id {each[:200]!r}; open: {known}", param=param)
    return run, [questions.get(each) for each in question_ids]


async def give_answers(runs: SeenRuns, run: ServedRun, answers: Iterable[tuple[Question | None, JsonValue]]) -> str:
    """Answer questions of a run, as far as they are open; a text is read as in a chat.

    Returns:
        The faults of the answers; empty if all were accepted.
    """
    faults: list[str] = []
    for question, answer in answers:
        try:
            if question is not None and isinstance(answer, str):
                faults.append(await answer_question(runs, run, question, answer))
            elif question is not None:
                await runs.answer(run, question.id, answer)
        except RefusedError as error:
            if error.status != 400:
                raise
            faults.append(str(error))
    return "; ".join(filter(None, faults))


def approval(approved: bool, reason: str = "", arguments: dict[str, Any] | None = None) -> JsonValue:
    """Return the answer to the question whether a tool may be called.

    Args:
        arguments: Arguments to call it with instead; None for those of the model.
    """
    if approved:
        return "yes" if arguments is None else arguments
    return f"no: {reason}" if reason else "no"


def payload_answer(question: Question | None, payload: JsonValue) -> JsonValue:
    """Return the answer in a value; for a tool, an answer of the form `APPROVAL` or one that the question names."""
    if question is None or question.tool is None or not isinstance(payload, dict):
        return payload
    allowed, reason, arguments = payload.get("approved"), payload.get("reason"), payload.get("editedArgs")
    if not isinstance(allowed, bool):
        return payload
    return approval(allowed, str(reason or ""), arguments if isinstance(arguments, dict) else None)
