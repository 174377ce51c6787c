"""Runs as plain HTTP: start, follow, answer, end, result."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from typing import Annotated, Any, cast

from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.routing import APIRoute
from pydantic import AliasChoices, ConfigDict, Field, JsonValue

from operad.flows.check import OUTCOME
from operad.runtime.values.fault import Fault
from operad.runtime.values.message import Usage, WorkflowStatus
from operad.runtime.values.valid_json import to_json
from operad.runtime.values.value import Value
from operad.server.api.experts import Offer, find_offer, leads
from operad.server.api.runs import Runs
from operad.server.api.seen_runs import MOST_LISTED, SeenRuns, caller_of
from operad.server.api.served_run import ServedRun, State
from operad.server.api.triggers import Starter
from operad.server.api.webhooks import METHODS as WEBHOOK_METHODS
from operad.server.api.webhooks import delivered_run_id, webhook_inputs, webhook_response
from operad.server.http.keys import owner_of
from operad.server.http.problems import RefusedError, json_reply
from operad.server.http.streams import EventStream

RUN_ID = r"^[A-Za-z0-9_][A-Za-z0-9_.\-]{0,99}$"

RunId = Annotated[str, Path(description="The run's id.", min_length=1, max_length=100, pattern=RUN_ID)]


class RunRequest(Value):
    """Request to start a run."""

    model_config = ConfigDict(
        hide_input_in_errors=True,
        json_schema_extra={"anyOf": [{"required": ["goal"]}, {"required": ["inputs"]}]},
    )

    expert: str = Field(description="Name of the expert; GET /experts lists them.")
    goal: str = Field(
        default="",
        validation_alias=AliasChoices("goal", "job"),
        description="The task, in words; may be left out where inputs are given. The key `job` is accepted, too.",
    )
    context: str = Field(default="", description="Background information for the task.")
    inputs: dict[str, JsonValue] = Field(
        default_factory=dict, description="Named values for the task. Inputs that are files are rejected."
    )
    answers: dict[str, JsonValue] = Field(
        default_factory=dict, description="Answers to questions that the run may ask, by the questions' ids."
    )
    id: str | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        pattern=RUN_ID,
        description="Id of the run; by default a new one. A request with the id of an existing run returns that run.",
    )


class Answer(Value):
    """Answer to a question of a run."""

    answer: JsonValue = Field(description="The answer; it must match the question's schema.")


class QuestionView(Value):
    """A question of a run."""

    id: str = Field(description="Id of the question, for POST /runs/{run_id}/answers/{question_id}.")
    text: str
    form: dict[str, Any] | None = Field(description="The JSON Schema of the answer; null for any.")


class RunSummary(Value):
    """A run in a list; GET /runs/{run_id} shows it with its goal and its result."""

    id: str
    expert: str
    state: State = Field(description="asks: the run waits for an answer to a question.")
    created: datetime
    user: str = Field(description="The user or key that began the run; empty if the server requires none.")
    started_by: str = Field(
        description="The trigger that began the run: `webhook`, or `schedule` and its time; or empty."
    )
    accepted: bool | None = Field(
        description="False if an evaluator rejected the result; null until there is one. True without an evaluator."
    )
    status: WorkflowStatus | None = Field(description="Status of the result, once there is one: SUCCESS if accepted.")


class RunView(RunSummary):
    """State of a run."""

    goal: str
    result: str = Field(description="The text of its result.")
    outputs: dict[str, Any] = Field(description="The named values of the result; files as paths on the server.")
    evaluation: str
    lesson: str
    faults: list[Fault] = Field(description="What an evaluator found to be wrong, with the operators at fault.")
    unsure: list[str] = Field(description="Statements that an evaluator could not verify.")
    score: float | None
    usage: Usage = Field(description="Usage of the model calls so far.")
    error: str = Field(description="Why there is no result.")
    questions: list[QuestionView]
    unused_answers: list[str] = Field(
        description="The ids of `answers` that no question of the run used, once it has ended."
    )


class RunList(Value):
    """Runs, the newest first."""

    runs: list[RunSummary]


class ExpertView(Value):
    """An expert."""

    name: str
    description: str
    leader: bool = Field(description="True if the expert splits jobs over other experts.")
    operators: list[str] = Field(description="Ids of the expert's operators.")
    inputs: dict[str, str] | None = Field(description="The inputs with their types; null if any inputs are accepted.")
    defaults: dict[str, JsonValue] = Field(description="Default values of optional inputs.")
    opening: str = Field(description="The first message of a conversation, shown before users write; empty for none.")
    questions: list[str] = Field(description="Questions that users may begin a conversation with.")


class ExpertList(Value):
    """The offered experts."""

    experts: list[ExpertView]


EVENTS: dict[str, Any] = {
    "text/event-stream": {
        "schema": {
            "description": "Fields of each event.",
            "type": "object",
            "required": ["data"],
            "properties": {"id": {"type": "string"}, "event": {"type": "string"}, "data": {"type": "string"}},
        }
    }
}


_ERROR: dict[str, Any] = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorReply"}}}
"""A reference, as FastAPI would build the schema of a model anew for each status of each path."""


def operation_id(route: APIRoute) -> str:
    """Return the operation id of a route in the OpenAPI document: the name of its function."""
    return route.name


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the error responses of a path for the OpenAPI document, including those common to all paths."""
    descriptions = {
        400: "The request has faults; the message lists them with their places.",
        401: "The key is missing or not valid.",
        403: "The request names another host, or comes from a page of another origin.",
        404: "Not found; the message suggests similar names.",
        408: "The body did not arrive in time.",
        409: "The request conflicts with the state of the run.",
        413: "The body is too large.",
        429: "Too many requests or runs; Retry-After says when to retry.",
        502: "The run failed.",
        503: "The server is shutting down.",
        504: "The run exceeded its time limit.",
    }
    return {
        status: {"description": descriptions[status], "content": _ERROR}
        for status in sorted({400, 401, 403, 408, 413, 429, *statuses})
    }


def view(run: ServedRun) -> dict[str, Any]:
    """Return the current state of a run as JSON values."""
    message = run.message
    run_view = RunView.model_construct(
        **dict(_summary(run)),
        goal=run.job.goal,
        result=run.text,
        outputs=dict(message.outputs) if message else {},
        evaluation=message.evaluation if message else "",
        lesson=message.lesson if message else "",
        faults=list(message.faults) if message else [],
        unsure=list(message.unsure) if message else [],
        score=message.score if message else None,
        usage=run.usage,
        error="" if message else run.error,
        questions=[QuestionView(id=q.id, text=q.text, form=q.schema_) for q in run.questions],
        unused_answers=run.unused_answers,
    )
    return run_view.model_dump(mode="json", fallback=str, warnings=False)


def _summary(run: ServedRun) -> RunSummary:
    return RunSummary(
        id=run.id,
        expert=run.offer.name,
        state=run.shown_state,
        created=datetime.fromtimestamp(run.began, UTC),
        user=owner_of(run.job.session_id),
        started_by=run.job.started_by,
        accepted=run.message.accepted if run.message else None,
        status=run.message.status if run.message else None,
    )


def _expert_view(offer: Offer) -> ExpertView:
    start = offer.start
    return ExpertView(
        name=offer.name,
        description=offer.description,
        leader=leads(offer),
        operators=[name for each in offer.agent.workflow.get_operators() if (name := each.get_id()) != OUTCOME],
        inputs={name: kind.value for name, kind in start.variables} if start else None,
        defaults=start.defaults if start else {},
        opening=offer.greeting.text,
        questions=list(offer.greeting.questions),
    )


_OF_WEBHOOK = ("id", "state", "result", "outputs", "error")
"""Fields of a run in the response of a webhook that waits; of an unfinished run, the first two."""


class PlainDoor:
    """Runs as plain HTTP."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    def router(self) -> APIRouter:
        """Return the routes."""
        router = APIRouter(tags=["runs"], generate_unique_id_function=operation_id)
        as_view: dict[str, Any] = {"response_model": RunView}
        begin_responses = {
            200: {"description": "The run existed already.", "model": RunView},
            **refusals(404, 409, 503),
        }
        router.get("/experts", response_model=ExpertList, responses=refusals())(self.list_experts)
        router.post("/runs", status_code=202, responses=begin_responses, **as_view)(self.begin_run)
        router.add_api_route(
            "/webhooks/{expert}", self.receive_webhook, methods=WEBHOOK_METHODS, include_in_schema=False
        )
        router.get("/runs", response_model=RunList, responses=refusals())(self.list_runs)
        router.get("/runs/{run_id}", responses=refusals(404, 409), **as_view)(self.show_run)
        router.delete("/runs/{run_id}", status_code=204, responses=refusals(404, 409))(self.forget_run)
        router.post("/runs/{run_id}/cancel", responses=refusals(404, 409), **as_view)(self.cancel_run)
        router.post("/runs/{run_id}/answers/{question_id:path}", responses=refusals(404, 409), **as_view)(
            self.answer_run
        )
        router.get(
            "/runs/{run_id}/events",
            status_code=200,
            response_class=Response,
            responses={
                200: {
                    "description": "The events of the run. Each has its number as `id`, its type as `event`, and its content as JSON "
                    "in `data`; the last is `ended`.",
                    "content": EVENTS,
                },
                204: {"description": "The run has ended, without events after that number."},
                **refusals(404, 409),
            },
        )(self.follow_run)
        return router

    async def list_experts(self, request: Request) -> Response:
        """List the experts."""
        offers = self._seen_by(request).offers
        return json_reply(ExpertList(experts=[_expert_view(offer) for offer in offers.values()]))

    async def begin_run(
        self,
        request: Request,
        body: RunRequest,
        idempotency_key: Annotated[
            str | None,
            Header(description="The same as `id` in the body.", min_length=1, max_length=100, pattern=RUN_ID),
        ] = None,
    ) -> Response:
        """Start a run. It continues without followers."""
        if body.id is not None and idempotency_key is not None and body.id != idempotency_key:
            raise RefusedError(409, "the body's id and Idempotency-Key differ; give one of them", param="id")
        if not body.model_fields_set & {"goal", "inputs"}:
            raise RefusedError(400, "goal: is missing; give the task, or inputs", param="goal")
        runs = self._seen_by(request)
        offer = find_offer(runs.offers, body.expert, "expert")
        job = offer.job(body.goal, body.context, body.inputs)
        run, begun = await runs.begin(offer, job, body.id or idempotency_key, body.answers)
        await run.stored()  # other servers know the run from then on
        location = f"runs/{run.id}"  # relative, because a proxy may add a prefix
        return json_reply(view(run), 202 if begun else 200, {"Location": location})

    async def receive_webhook(self, request: Request, expert: str) -> Response:
        """Start a run of an expert that a webhook starts, and respond with its id, or as the expert says."""
        runs = self._seen_by(request)
        offer = find_offer(runs.offers, expert, "expert")
        headers, body = dict(request.headers), await request.body()
        run_id = await delivered_run_id(offer, headers, body)
        inputs = webhook_inputs(offer, request.method, headers, dict(request.query_params), body)
        starter = cast("Starter", offer.webhook)
        job = offer.job(starter.goal, "", inputs, started_by="webhook")
        run = await runs.find_started(run_id) if run_id else None
        begun = run is None
        if run is None:
            run, _ = await runs.begin(offer, job, run_id, {})
        await run.stored()  # a sender that got its response need not send again
        location = {"Location": f"../runs/{run.id}"}
        if seconds := starter.trigger.wait:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(run.pause_or_end(), seconds)
            shown = view(run)
            names = _OF_WEBHOOK if run.ended is not None else _OF_WEBHOOK[:2]
            return json_reply({name: shown[name] for name in names}, 202 if run.ended is None else 200, location)
        status, reply = webhook_response(offer, run, begun=begun)
        return json_reply(reply, status, location)

    async def list_runs(
        self,
        request: Request,
        limit: Annotated[int, Query(description="Maximum number of runs.", ge=1, le=MOST_LISTED)] = 100,
    ) -> Response:
        """List the newest runs, without their goals and results; with a database, also those of other servers."""
        return json_reply(RunList(runs=[_summary(run) for run in await self._seen_by(request).newest(limit)]))

    async def show_run(self, request: Request, run_id: RunId) -> Response:
        """Return the state of a run, with its result once there is one."""
        return json_reply(view(await self._seen_by(request).find(run_id)))

    async def follow_run(
        self,
        request: Request,
        run_id: RunId,
        last_event_id: Annotated[
            int, Header(description="Number of the last received event; 0 for none.", ge=0, le=2**53)
        ] = 0,
    ) -> Response:
        """Follow a run: events after a number, then new events as they happen, as server-sent events."""
        run = await self._seen_by(request).find(run_id)
        if run.ended is not None and 0 < run.log.last <= last_event_id:
            return Response(status_code=204)
        following = self._runs.following()
        following.__enter__()  # until the stream ends, whether or not its generator has begun

        async def stop(complete: bool) -> None:
            following.__exit__(None, None, None)

        return EventStream(_event_lines(run, last_event_id), self._runs.bounds.beat, stop)

    async def answer_run(
        self,
        request: Request,
        run_id: RunId,
        question_id: Annotated[str, Path(description="Id of the question, with # written as %23.", min_length=1)],
        answer: Answer,
    ) -> Response:
        """Answer a question of a run."""
        runs = self._seen_by(request)
        run = await runs.find(run_id)
        await runs.answer(run, question_id, answer.answer)
        return json_reply(view(run))

    async def cancel_run(self, request: Request, run_id: RunId) -> Response:
        """Cancel a run. A run that has ended stays as it is."""
        runs = self._seen_by(request)
        run = await runs.find(run_id)
        await runs.cancel(run)
        return json_reply(view(run))

    async def forget_run(self, request: Request, run_id: RunId) -> Response:
        """Cancel a run, and delete it with everything stored of it."""
        runs = self._seen_by(request)
        await runs.forget(await runs.find(run_id))
        return Response(status_code=204)

    def _seen_by(self, request: Request) -> SeenRuns:
        return SeenRuns(self._runs, caller_of(request))


async def _event_lines(run: ServedRun, after: int) -> AsyncGenerator[bytes, None]:
    """Yield the events of a run after a number, as server-sent events."""
    yield b": following\n\n"
    async with aclosing(run.log.follow(after)) as entries:
        async for entry in entries:
            yield b"id: %d\nevent: %s\ndata: %s\n\n" % (entry.number, entry.name.encode(), entry.data)
    ended = to_json({"id": run.id, "state": run.state})
    yield f"id: {run.log.last}\nevent: ended\ndata: {ended}\n\n".encode()
