"""Requests of an MCP server while one of its tools is called: a question to a person, or a prompt to a model.

A question becomes one of the run's questions (`operad.runtime.events.interrupts`), so it may be answered days later. A
durable run that continues in another process calls the tool again; the server asks again, and gets the kept answer.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import urlsplit

from operad.runtime.events import current_scope
from operad.runtime.events.interrupts import interrupt
from operad.runtime.events.tool_calls import model_of_tool_call
from operad.runtime.models.messages import Message, Text
from operad.runtime.models.model import Model
from operad.runtime.models.settings import ModelSettings
from operad.runtime.values.errors import InvalidError, describe
from operad.runtime.values.text import cut

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from mcp.client import ClientRequestContext
    from mcp_types import (
        CreateMessageRequestParams,
        CreateMessageResult,
        ElicitRequestParams,
        ElicitResult,
        ErrorData,
        SamplingMessage,
    )

T = TypeVar("T")

REFUSALS = ("decline", "cancel")
"""Answers to a question of a server that give no data."""

MOST_QUESTION = 4_000
"""Maximum length of the text of a question, in characters."""

MOST_FORM = 64 * 2**10
"""Maximum length of the JSON Schema of a question, in characters."""

MOST_PROMPTS = 10
"""Maximum number of prompts of a server in one call of a tool."""

_INVALID_REQUEST = -32600
_INVALID_PARAMS = -32602


@dataclass(eq=False)
class _Call:
    """A tool call in progress.

    Attributes:
        shown: The call, for people.
        context: Context of the operator that calls, in which its requests are answered.
        requests: Requests that are being answered.
        prompts: Number of prompts so far.
    """

    shown: str
    context: Context
    requests: set[asyncio.Task[Any]] = field(default_factory=set["asyncio.Task[Any]"])
    prompts: int = 0


class _Refused(Exception):  # noqa: N818 - it is an answer to the server
    """A request is refused, with the reason as text."""


class ServerRequests:
    """Requests of a connected server, each of which belongs to a call of one of its tools.

    Args:
        server: The server's name.
        hidden: Function that hides the secrets that the server gets in a text.
    """

    def __init__(self, server: str, hidden: Callable[[str], str]) -> None:
        self._server = server
        self._hidden = hidden
        self._calls: list[_Call] = []
        self._current: ContextVar[_Call | None] = ContextVar("operad_mcp_call", default=None)

    @contextmanager
    def call(self, tool: str, arguments: Mapping[str, Any]) -> Generator[None, None, None]:
        """Register a tool call in this context manager; requests that are open at its end are cancelled."""
        shown = f"{tool}({json.dumps(dict(arguments), ensure_ascii=False, default=str)})"
        call = _Call(shown, copy_context())
        token = self._current.set(call)
        self._calls.append(call)
        try:
            yield
        finally:
            self._calls.remove(call)
            self._current.reset(token)
            for request in call.requests:
                request.cancel()

    async def elicit(self, _: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        """Ask a person, and return the answer."""
        return await self._answered(partial(self._ask, params))

    async def sample(
        self, _: ClientRequestContext, params: CreateMessageRequestParams
    ) -> CreateMessageResult | ErrorData:
        """Ask the model that calls the tool, and return its answer."""
        return await self._answered(partial(self._complete, params))

    async def _answered(self, answer: Callable[[_Call], Coroutine[Any, Any, T]]) -> T | ErrorData:
        """Answer a request in the context of its tool call; a refusal is told to the server."""
        from mcp_types import ErrorData

        try:
            call = self._requesting()
            # The context of the connection is that of the operator that opened it.
            request = call.context.copy().run(asyncio.ensure_future, answer(call))
            call.requests.add(request)
            try:
                return await request
            except asyncio.CancelledError:
                if call in self._calls:
                    raise
                return ErrorData(code=_INVALID_REQUEST, message="the call of the tool has ended")
            finally:
                call.requests.discard(request)
        except _Refused as refused:
            return ErrorData(code=_INVALID_REQUEST, message=str(refused))
        except InvalidError as error:
            return ErrorData(code=_INVALID_PARAMS, message=cut(str(error), MOST_QUESTION))
        except Exception as error:  # noqa: BLE001 - an error in a callback would end the connection
            return ErrorData(code=_INVALID_REQUEST, message=cut(self._hidden(describe(error)), MOST_QUESTION))

    def _requesting(self) -> _Call:
        """Return the call to which the current request belongs.

        HTTP answers a call in the call's own stream. Over stdin and stdout, the protocol before 2026 does not say which
        of several calls asks.
        """
        current = self._current.get()
        if current in self._calls:
            return current
        if len(self._calls) == 1:
            return self._calls[0]
        if not self._calls:
            raise _Refused("no tool is being called, so no person is asked")
        raise _Refused(
            f"{len(self._calls)} calls are in progress, and the request does not say to which it belongs; call the tools "
            "of this server one at a time"
        )

    async def _ask(self, params: ElicitRequestParams, call: _Call) -> ElicitResult:
        from mcp_types import ElicitResult

        if current_scope() is None:
            raise _Refused("no run is in progress, so no person can be asked")
        asks = f"The MCP server {self._server!r} asks, in the call {cut(call.shown, 1_000)}:"
        message = self._hidden(cut(params.message, MOST_QUESTION))
        if params.mode == "url":
            if urlsplit(params.url).scheme not in ("http", "https") or not params.url.isprintable():
                raise _Refused("the address of a question must begin with https:// or http://")
            opens = f"Open {self._hidden(params.url)} if you trust it, then answer accept; or answer decline or cancel."
            answer = await interrupt(f"{asks} {message}\n{opens}", {"enum": ["accept", *REFUSALS]})
            return ElicitResult(action=answer)
        question = f"{asks} {message} (Answer decline or cancel to give no data.)"
        answer = await interrupt(question, _form(params.requested_schema))
        if isinstance(answer, str):
            return ElicitResult(action=cast("Any", answer))
        return ElicitResult(action="accept", content=answer)

    async def _complete(self, params: CreateMessageRequestParams, call: _Call) -> CreateMessageResult:
        from mcp_types import CreateMessageResult, TextContent

        model = model_of_tool_call()
        if not isinstance(model, Model):
            raise _Refused("the tool is not called by a model, so no model can be asked")
        call.prompts += 1
        if call.prompts > MOST_PROMPTS:
            raise _Refused(f"a call of a tool may send at most {MOST_PROMPTS} prompts")
        messages = [Message.system(params.system_prompt)] if params.system_prompt else []
        for message in params.messages:
            messages.append(Message(role=message.role, parts=(Text(text=_text_of(message)),)))
        completion = await model.complete(
            messages,
            settings=ModelSettings(
                temperature=params.temperature, max_tokens=min(params.max_tokens, model.max_tokens or params.max_tokens)
            ),
        )
        text, reason = completion.text, "maxTokens" if completion.finish_reason == "length" else "endTurn"
        for stop in params.stop_sequences or ():
            if stop and stop in text:
                text, reason = text.partition(stop)[0], "stopSequence"
        return CreateMessageResult(
            role="assistant", content=TextContent(type="text", text=text), model=model.name, stop_reason=reason
        )


def _form(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of the answers: the object that the server wants, or a word that refuses it."""
    if len(json.dumps(schema)) > MOST_FORM:
        raise _Refused(f"the form of a question may have at most {MOST_FORM:,} characters")
    words = {"if": {"type": "string"}, "then": {"enum": list(REFUSALS)}}
    return {**schema, "type": ["object", "string"], **words}


def _text_of(message: SamplingMessage) -> str:
    """Return the text of a message for a model."""
    texts = [block.text if block.type == "text" else None for block in message.content_as_list]
    if None in texts:
        raise _Refused("prompts may hold text only")
    return "\n".join(text for text in texts if text is not None)
