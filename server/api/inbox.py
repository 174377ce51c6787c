"""Inbox: the open questions of all runs, and the page on which people answer them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from operad.runtime import events
from operad.runtime.values.errors import InputError
from operad.runtime.values.questions import Question
from operad.runtime.values.value import Value
from operad.server.api.plain import operation_id, refusals
from operad.server.api.runs import Runs
from operad.server.api.seen_runs import SeenRuns, caller_of
from operad.server.api.served_run import ServedRun
from operad.server.http.keys import Caller, may_answer
from operad.server.http.problems import json_reply

_MOST_RUNS = 500
"""Maximum number of runs whose questions are listed."""


class InboxQuestion(Value):
    """An open question."""

    run: str = Field(description="Id of the run; POST /runs/{run}/answers/{id} answers.")
    id: str = Field(description="Id of the question in the run.")
    expert: str
    goal: str = Field(description="Goal of the run.")
    operator: str = Field(description="Path of the operator that asks.")
    text: str
    form: dict[str, Any] | None = Field(description="The JSON Schema of the answer; null for any.")
    asked: datetime | None = Field(description="Time of the question; null if it is not known any more.")
    answer_by: list[str] = Field(description="Names of the people who may answer; empty for anyone.")
    may_answer: bool = Field(description="True if the sender of this request may answer.")


class Inbox(Value):
    """Open questions, the oldest first."""

    questions: list[InboxQuestion]


def inbox_routes(runs: Runs) -> APIRouter:
    """Return the route that lists the open questions."""
    router = APIRouter(tags=["runs"], generate_unique_id_function=operation_id)

    @router.get("/questions", response_model=Inbox, responses=refusals())
    async def list_questions(  # pyright: ignore[reportUnusedFunction]
        request: Request,
        expert: Annotated[str, Query(description="Only questions of this expert.")] = "",
        mine: Annotated[bool, Query(description="Only questions that the sender may answer.")] = False,
    ) -> Response:
        """List the open questions of all runs, the oldest first."""
        caller = caller_of(request)
        seen = SeenRuns(runs, caller)
        found = [each for run in await _asking(runs, seen) for each in await _questions_of(run, caller)]
        wanted = [each for each in found if (each.may_answer or not mine) and expert in ("", each.expert)]
        never = datetime.fromtimestamp(0, UTC)
        return json_reply(Inbox(questions=sorted(wanted, key=lambda each: each.asked or never)))

    return router


async def _asking(runs: Runs, seen: SeenRuns) -> Sequence[ServedRun]:
    """Return the runs with open questions that a caller may see: those of this server, and others of its database."""
    here = {run.id: run for run in seen.listed() if run.questions}
    for run_id in await runs.asking(_MOST_RUNS):
        if run_id not in here and (run := await seen.look(run_id)):
            here[run_id] = run
    return list(here.values())


async def _questions_of(run: ServedRun, caller: Caller) -> Sequence[InboxQuestion]:
    asked = {
        each.event.interrupt_id: each.event.time
        for each in run.log.entries
        if isinstance(each.event, events.Interrupted)
    }
    questions: Sequence[Question] = run.questions
    if run.offer.ledger is not None:
        with suppress(InputError):  # deleted meanwhile
            stored = await asyncio.to_thread(run.offer.ledger.questions, run.id)
            asked = {each.id: each.asked for each in stored}
            questions = questions or await asyncio.to_thread(run.offer.ledger.open_questions, run.id)
    return [
        InboxQuestion(
            run=run.id,
            id=each.id,
            expert=run.offer.name,
            goal=run.job.goal,
            operator=re.sub(r"#\d+$", "", each.id),
            text=each.text,
            form=each.schema_,
            asked=datetime.fromtimestamp(asked[each.id], UTC) if each.id in asked else None,
            answer_by=list(each.answer_by),
            may_answer=may_answer(caller.name, each.answer_by),
        )
        for each in questions
    ]
