"""Experts as tools of an MCP server, by streamable HTTP."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams, TextContent, Tool
from pydantic import Field, JsonValue, ValidationError

from operad.flows.check import OUTCOME
from operad.operators.nodes.flow import SYSTEM
from operad.operators.variables import VariableType
from operad.runtime import events
from operad.runtime.durable.process_ids import version_here
from operad.runtime.values.errors import did_you_mean
from operad.runtime.values.fault import finding_lines, verdict_text
from operad.runtime.values.typed_answers import describe_answer
from operad.runtime.values.valid_json import to_json, to_text
from operad.runtime.values.value import Value
from operad.server.api.conversation import answer_question
from operad.server.api.experts import Offer
from operad.server.api.faults import value_fault
from operad.server.api.runs import Runs
from operad.server.api.seen_runs import SeenRuns, caller_of
from operad.server.api.served_run import ServedRun
from operad.server.http.keys import Caller
from operad.server.http.problems import RefusedError, internal_error

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

ANSWER = "answer_question"
"""Name of the tool that answers questions of runs."""

MOST_SESSIONS = 100
"""Maximum number of MCP sessions at once."""


class ToolArguments(Value):
    """Arguments of an expert's tool."""

    goal: str = Field(default="", description="The task, in words.")
    context: str = Field(default="", description="Background information for the task.")
    inputs: dict[str, JsonValue] = Field(default_factory=dict, description="Named values for the task.")


class AnswerArguments(Value):
    """Arguments of the tool that answers questions."""

    run_id: str = Field(description="The run that asks.")
    question_id: str = Field(description="The id of its question.")
    answer: JsonValue = Field(description="The answer, in the form that the question asks for.")


class ExpertTools:
    """The experts as tools of an MCP server.

    Args:
        runs: Runs of the server.
    """

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._names = _tool_names(runs.offers)

    def sessions(self) -> StreamableHTTPSessionManager:
        """Return the sessions of a server with these tools."""
        server: Server[Any] = Server(
            "operad", version=version_here(), on_list_tools=self._list_tools, on_call_tool=self._call_tool
        )
        bounds = self._runs.bounds
        return StreamableHTTPSessionManager(
            server,
            max_sessions=MOST_SESSIONS,
            max_request_body_size=bounds.body,
            session_idle_timeout=bounds.session_seconds,
        )

    async def _list_tools(
        self, context: ServerRequestContext[Any], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        tools = [
            Tool(name=name, description=offer.description or offer.name, input_schema=_input_schema(offer))
            for name, offer in self._names_for(self._seen_in(context)).items()
        ]
        answering = Tool(
            name=ANSWER,
            description="Answer a question that another tool of this server asked instead of giving its result.",
            input_schema=AnswerArguments.model_json_schema(),
        )
        return ListToolsResult(tools=[*tools, answering])

    async def _call_tool(self, context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        try:
            run = await self._start_or_answer(self._seen_in(context), params.name, params.arguments or {})
        except RefusedError as problem:
            return _tool_result(str(problem), failed=True)
        except Exception as error:  # noqa: BLE001 - the package would send its text
            return _tool_result(str(internal_error(error)), failed=True)
        completed = False
        try:
            await self._report_progress(context, run)
            completed = True
        finally:
            if not completed:
                await self._runs.cancel(run, "was cancelled, because the caller of the tool has disconnected")
        return _result(run)

    def _seen_in(self, context: ServerRequestContext[Any]) -> SeenRuns:
        """Return the runs that the sender of the HTTP request of a message may see."""
        assert context.request is not None  # noqa: S101 - every message arrives by HTTP
        return SeenRuns(self._runs, caller_of(context.request))

    def _names_for(self, runs: SeenRuns) -> dict[str, Offer]:
        """Return the offers that are tools for a caller; their names do not depend on the caller."""
        return {name: offer for name, offer in self._names.items() if offer.name in runs.offers}

    async def _start_or_answer(self, runs: SeenRuns, name: str, arguments: Mapping[str, Any]) -> ServedRun:
        """Return the run of a call: a new run of an expert, or the run whose question the call answers."""
        names = self._names_for(runs)
        try:
            if name == ANSWER:
                given = AnswerArguments.model_validate(arguments)
                return await self._answer(runs, given)
            if name not in names:
                hint = did_you_mean(name[:200], names)
                raise RefusedError(404, f"no tool is called {name[:200]!r}{hint}; there are: {', '.join(names)}")
            offer, validated = names[name], ToolArguments.model_validate(arguments)
            if offer.start is None and "goal" not in arguments:
                raise RefusedError(400, f"the arguments of {name!r}: goal: is missing; give the task")
        except ValidationError as error:
            schema = AnswerArguments if name == ANSWER else ToolArguments
            faults = [f"{'.'.join(map(str, each['loc']))}: {value_fault(each, schema)}" for each in error.errors()]
            raise RefusedError(400, f"the arguments of {name!r}: {'; '.join(faults)}") from error
        run, _ = await runs.begin(offer, offer.job(validated.goal, validated.context, validated.inputs))
        return run

    async def _answer(self, runs: SeenRuns, given: AnswerArguments) -> ServedRun:
        """Answer a question of a run, and return the run; a text is read as in a chat."""
        run = await runs.find(given.run_id)
        question = next((each for each in run.questions if each.id == given.question_id), None)
        if question is None or not isinstance(given.answer, str):
            await runs.answer(run, given.question_id, given.answer)
        elif wrong := await answer_question(runs, run, question, given.answer):
            raise RefusedError(400, f"{wrong}; it was asked: {question.text}; answer again")
        return run

    async def _report_progress(self, context: ServerRequestContext[Any], run: ServedRun) -> None:
        """Report the progress of a run to the client, until it asks a question or has ended."""
        steps = 0
        async with aclosing(run.log.follow()) as entries:
            if run.questions:
                return
            async for entry in entries:
                event = entry.event
                if isinstance(event, events.OperatorStarted | events.OperatorFinished) and event.path[-1] != OUTCOME:
                    steps += 1
                    verb = "runs" if isinstance(event, events.OperatorStarted) else "has finished"
                    await context.session.report_progress(steps, None, f"{'/'.join(event.path)} {verb}")
                if run.questions:
                    return


def session_user(caller: Caller) -> AuthenticatedUser:
    """Return the user to whom an MCP session of a caller belongs: for other keys, there is no such session."""
    return AuthenticatedUser(AccessToken(token="", client_id=caller.name, scopes=[]))


def _input_schema(offer: Offer) -> dict[str, Any]:
    """Return the JSON Schema of a tool's arguments, with the inputs of a workflow of typed nodes."""
    schema = ToolArguments.model_json_schema()
    start = offer.start
    if start is None:
        return {**schema, "required": ["goal"]}
    kinds = {name: kind for name, kind in start.variables if name not in SYSTEM}
    needed = [name for name in kinds if name not in start.defaults]
    schema["properties"]["inputs"] |= {
        "properties": {name: _value_schema(kind) for name, kind in kinds.items()},
        "required": needed,
        "additionalProperties": False,
    }
    if offer.text_input is not None:
        schema["properties"]["goal"]["description"] += f" It is the input {offer.text_input!r} if no inputs are given."
        return {**schema, "required": [] if offer.text_input in start.defaults else ["goal"]}
    reads_goal = any(name == "sys.query" for name, _ in start.variables)
    return {**schema, "required": [*(["goal"] if reads_goal else []), *(["inputs"] if needed else [])]}


def _value_schema(kind: VariableType) -> dict[str, Any]:
    if kind.is_file:
        return {"type": "null", "description": "A file, which cannot be given here."}
    schema = kind.json_schema()
    return {"anyOf": [schema, {"type": "null"}]} if schema else {}


def _tool_names(offers: Mapping[str, Offer]) -> dict[str, Offer]:
    """Return the offers by unique names that are valid for tools."""
    offers_by_tool: dict[str, Offer] = {}
    for name, offer in offers.items():
        base_name = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:56] or "expert"
        number, tool_name = 1, base_name
        while tool_name in offers_by_tool or tool_name == ANSWER:
            number += 1
            tool_name = f"{base_name}_{number}"
        offers_by_tool[tool_name] = offer
    return offers_by_tool


def _result(run: ServedRun) -> CallToolResult:
    if questions := run.questions:
        questions_text = "\n".join(f"{q.id}: {q.text} ({describe_answer(q.schema_) or 'in words'})" for q in questions)
        return _tool_result(f"Run {run.id} waits for answers; give them to the tool {ANSWER}:\n{questions_text}")
    message = run.message
    if message is None:
        return _tool_result(f"Run {run.id} {'failed: ' if run.state == 'failed' else ''}{run.error}", failed=True)
    if message.accepted:
        fields = json.loads(to_json(dict(message.outputs))) or None
        return _tool_result(run.text).model_copy(update={"structured_content": fields})
    verdict = f"The result was {verdict_text(message.status, message.evaluation)}"
    found = finding_lines(message.faults, message.blame, message.unsure, {})
    verdict = "\n".join(filter(None, (verdict, *found, "" if message.faults else message.lesson)))
    return _tool_result(f"{run.text}\n\n{verdict}", failed=True)


def _tool_result(text: str, *, failed: bool = False) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=to_text(text))], is_error=failed)
