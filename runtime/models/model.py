"""Model client for endpoints that speak the OpenAI chat-completions protocol."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast
from urllib.parse import urlsplit

from pydantic import Field, JsonValue, PrivateAttr

from operad.runtime.events import ModelAnswered, ModelAsked, ModelFailed, TokenStreamed, current_scope, emit, heard
from operad.runtime.models.endpoint import (
    OPENAI_URL,
    Endpoint,
    beginning,
    one_line,
    page_title,
    without_key,
    without_login,
)
from operad.runtime.models.turn import (
    ChatMessage,
    Completion,
    Price,
    ToolCall,
    Turn,
    as_function,
    shown_messages,
)
from operad.runtime.policies.deadline import paused_deadlines
from operad.runtime.policies.limits import Limiter, Limits
from operad.runtime.tools.tool import Tool
from operad.runtime.values.api_key import key_text
from operad.runtime.values.errors import InputError, ModelError, RequestError, describe, did_you_mean
from operad.runtime.values.message import Usage, new_id
from operad.runtime.values.text import whole

if TYPE_CHECKING:
    from typing_extensions import Self
from operad.runtime.models.connection import Connection, Connections, hold_off, shared_limits, spend

DEFAULT_MODEL = "gpt-4.1-mini"
"""Name of the model that is used if a key or an endpoint is given, but no model name."""

EMBEDDED = "embedded"
"""Name of the model that runs inside this process."""

MOST_CHARACTERS = 2**21
"""Maximum length of an answer in characters, including the arguments of tool calls; reading stops beyond it."""

MOST_CALLS = 128
"""Maximum number of tool calls in one turn."""


class Model(Endpoint):
    """Client of a chat model at an endpoint.

        model = Model(name="gpt-5-mini", temperature=0, limits=Limits(concurrency=8))
        workflow = Workflow(facts >> answer, model=model)

    A model is a value: it may be copied, compared and shared by any number of runs, threads and event loops.
    Connections are opened on first use, in one pool per event loop, and belong to the model that opened them, not to
    its copies. They are closed when `asyncio.run` ends, or by `aclose`.

    Attributes:
        name: Name of the model at the endpoint.
        base_url: URL of the endpoint, without ``/chat/completions``.
        api_key: API key; None for endpoints without keys. Never shown.
        temperature: Sampling temperature; 0 selects the most likely token. None for the endpoint's default.
        max_tokens: Maximum number of tokens of an answer; None for the endpoint's default.
        timeout: Maximum time without data from the endpoint, in seconds.
        total_timeout: Maximum duration of a call in seconds, from the first request to the end of the answer, including
            retries and the waits between them, but not the wait for `limits`.
        max_retries: Maximum number of retries of a call after a temporary failure (429, 5xx, no connection); each retry
            emits a `ModelRetried` event.
        tools: How tools are offered: ``native`` by the protocol's tool calls, or ``constrained`` by a JSON Schema of
            the answer, for endpoints without tool calls.
        structured: True if the endpoint enforces a JSON Schema given as ``response_format``.
        prose: True if free text of the model is usable; very small models invent half of it.
        vision: True if the model accepts images; it then receives the images among a task's files.
        limits: Rate limits, shared by all models with the same name, key, endpoint and limits in this process. In
            durable runs, limits per minute are shared by all processes.
        parameters: Further fields of each request, such as ``top_p`` and ``stop``, sent unchanged.
        price: Price of tokens, for `Usage.cost` and budgets with a cost; None if unknown. `resolve_model` sets it if
            the price is known.
    """

    name: str = Field(default=DEFAULT_MODEL, kw_only=False)
    temperature: float | None = Field(default=None, ge=0)
    max_tokens: int | None = Field(default=None, ge=1)
    tools: Literal["native", "constrained"] = "native"
    structured: bool = True
    prose: bool = True
    vision: bool = False
    limits: Limits | None = None
    parameters: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    price: Price | None = None

    _indifferent: ClassVar[frozenset[str]] = Endpoint._indifferent | {"limits", "price"}
    _protocol: ClassVar[str] = "chat-completions"
    _connections: Connections = PrivateAttr(default_factory=lambda: Connections())

    def __hash__(self) -> int:
        return hash((self.name, self.base_url))  # not all fields: `parameters` is a dict

    def __copy__(self) -> Self:
        copied = super().__copy__()
        copied._connections = Connections()
        return copied

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return self.__copy__()

    async def complete(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[Tool] = (),
        tool_choice: Literal["auto", "none"] = "auto",
        response_format: Mapping[str, Any] | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
    ) -> Completion:
        """Return the model's next turn in a conversation.

        Emits `ModelAsked`, `ModelRetried` before each retry, `TokenStreamed` for each piece of text, and
        `ModelAnswered` or `ModelFailed` at the end.

        Args:
            messages: The conversation so far.
            tools: Tools that the model may call.
            tool_choice: ``none`` forbids calls in this turn; the tools are still described.
            response_format: The protocol's ``response_format``, as `schema.response_format` makes it.
            temperature: Temperature in place of the model's.
            max_tokens: Maximum number of tokens in place of the model's.

        Raises:
            ModelError: The endpoint cannot be reached, refuses the call, breaks off, or exceeds a limit.
            RequestError: The endpoint rejects the request, its content filter stops the answer, or the model refuses to
                answer.
        """
        request: dict[str, Any] = {"messages": whole(messages)}
        if self.parameters:
            request["extra_body"] = dict(self.parameters)
        if tools:
            request |= {"tools": [as_function(tool) for tool in tools], "tool_choice": tool_choice}
        if response_format is not None:
            request["response_format"] = dict(response_format)
        if (temperature := self.temperature if temperature is None else temperature) is not None:
            request["temperature"] = temperature
        if (max_tokens := max_tokens or self.max_tokens) is not None:
            # OpenAI's newer models reject `max_tokens`; most other endpoints know only that field.
            newer = urlsplit(self.base_url).hostname == urlsplit(OPENAI_URL).hostname
            request["max_completion_tokens" if newer else "max_tokens"] = max_tokens

        connection = await self._connection()
        async with self._admitted(connection.limiter) as limiters:
            call_id = new_id() if heard() else ""
            if call_id:
                names = tuple(tool.name for tool in tools)
                emit(ModelAsked(call_id=call_id, model=self.name, messages=shown_messages(messages), tools=names))
            try:
                completion, refusal = await self._within_total_timeout(self._request_turn(connection, request, call_id))
            except Exception as error:
                emit(ModelFailed(call_id=call_id, model=self.name, error=describe(error)))
                raise
            await spend(limiters, completion.usage.tokens)
        calls = tuple({"name": call.name, "arguments": call.arguments} for call in completion.tool_calls)
        emit(
            ModelAnswered(
                model=self.name,
                usage=completion.usage,
                call_id=call_id,
                text=completion.text,
                tool_calls=calls,
                finish_reason=completion.finish_reason,
            )
        )
        if completion.finish_reason == "content_filter":
            raise RequestError(
                f"{self.describe()}: its content filter stopped the answer after {len(completion.text):,} characters; "
                "change the prompt or the filter"
            )
        if refusal and not completion.text:
            raise RequestError(
                f"{self.describe()}: the model refuses to answer: {one_line(refusal)}; change the prompt"
            )
        return completion

    async def _request_turn(
        self, connection: Connection, request: dict[str, Any], call_id: str
    ) -> tuple[Completion, str]:
        """Return the completion of a streamed turn, and the text with which the model refuses to answer, if it does.

        Raises:
            ModelError: The endpoint cannot be reached, refuses the call, breaks off, or exceeds a limit.
        """
        clock = asyncio.get_running_loop().time
        start = clock()
        turn = Turn()
        async with aclosing(self._chunks(connection, request, call_id)) as chunks:
            async for chunk in chunks:
                with self._checked_protocol():
                    text = turn.add(chunk)
                if turn.characters > MOST_CHARACTERS:
                    raise ModelError(
                        f"the answer of {self.describe()} is longer than {MOST_CHARACTERS:,} characters, which is the limit; "
                        "set max_tokens"
                    )
                if len(turn.calls) > MOST_CALLS:
                    raise ModelError(f"{self.describe()} calls more than the maximum of {MOST_CALLS} tools in one turn")
                if text:
                    emit(TokenStreamed(text=text))
        if text := turn.end():
            emit(TokenStreamed(text=text))
        with self._checked_protocol():
            return self._completion_of(turn, clock() - start), turn.refusal

    @asynccontextmanager
    async def _admitted(self, own_limiter: Limiter | None) -> AsyncGenerator[list[Limiter], None]:
        """Wait until the limits of the enclosing workflows and of the endpoint admit the call; yield their limiters.

        The time limits of the operator are paused during the wait.

        Raises:
            BudgetError: The budget of an enclosing run is used up.
            InputError: An enclosing run has a budget with a cost, and the price of this model is unknown.
        """
        scopes = list(scope.outwards()) if (scope := current_scope()) else []
        limiters = [limiter for scope in reversed(scopes) for limiter in scope.run.calls]
        if own_limiter:
            limiters.append(own_limiter)
        shared = shared_limits()
        async with AsyncExitStack() as admitted:
            with paused_deadlines(scopes[0].deadlines if scopes and limiters else ()):
                for limiter in limiters:
                    await admitted.enter_async_context(limiter.admitted())
                    if shared:
                        await shared.admit(limiter)
            for scope in scopes:
                if self.price is None and scope.run.budget.cost is not None:
                    raise InputError(
                        f"{self.describe()} has no price, so a budget of money cannot be kept; "
                        "give it one: Model(price=Price(prompt=…, completion=…)), `price` in a configuration, or a file "
                        "of prices (--prices FILE, OPERAD_PRICES)"
                    )
                scope.run.check_budget(by_next=True)
            yield limiters

    def check(self) -> None:
        """Check that this machine can run the model; a model at an endpoint always passes.

        Raises:
            MissingExtraError: A package that the model needs is not installed.
            InputError: A file that the model needs does not exist.
        """

    async def aclose(self) -> None:
        """Close the connections of the running event loop. The model can be used again."""
        connection = self._connections.get(asyncio.get_running_loop())
        if connection is not None:
            await connection.guard.aclose()

    async def _endpoint(self) -> tuple[str, str]:
        """Return base URL and key. A model that is served on demand overrides this."""
        return self.base_url, key_text(self.api_key)

    async def _connection(self) -> Connection:
        """Return the connection of the running event loop; open it on first use."""
        base_url, key = await self._endpoint()
        loop = asyncio.get_running_loop()
        connection = self._connections.get(loop)
        if connection is None:
            client = self._client(base_url, key)
            key_digest = hashlib.sha256(key.encode()).hexdigest()
            limiter = Limiter.of(f"{self.name} {base_url} {key_digest}", self.limits) if self.limits else None
            connection = self._connections[loop] = Connection(client, limiter, self._connections.hold(client))
            await anext(connection.guard)
        return connection

    async def _chunks(self, connection: Connection, request: dict[str, Any], call_id: str) -> AsyncGenerator[Any, None]:
        """Yield the chunks of the answer as they arrive; all faults of the endpoint become `ModelError`."""
        from openai import AsyncStream

        client = connection.client
        body = {**request, "model": self.name, "stream": True, "stream_options": {"include_usage": True}}
        # Not client.chat.completions, which creates objects of openai's types: that costs more than the rest of a call.
        ask = partial(
            client.post,
            "/chat/completions",
            cast_to=object,
            body=body,
            stream=True,
            stream_cls=AsyncStream[object],
        )
        stream = await self._send(ask, client.api_key, call_id, partial(hold_off, connection.limiter))
        try:
            heard = False
            async with stream:
                async for chunk in stream:
                    heard = True
                    yield chunk
            if not heard:
                raise self._no_stream_error(without_key(beginning(stream.response), client.api_key))
        except ModelError:
            raise
        except (ValueError, RecursionError) as error:
            raise self._protocol_error("it sent something that is not JSON") from error
        except Exception as error:
            raise self._broken_off_error(error, client.api_key) from error

    def _no_stream_error(self, text: str) -> ModelError:
        """Return the error for an answer that is not a stream of events."""
        title = page_title(text)
        if title is not None:
            return self._protocol_error(f"it answered with a web page{f', {title!r}' if title else ''}")
        if not text.startswith("{"):
            return self._protocol_error("its answer holds no choices")
        if re.search(r'"choices"\s*:', text):
            return ModelError(
                f"{self.describe()} answered with plain JSON instead of a stream of events; "
                'the endpoint must take `"stream": true`'
            )
        return self._protocol_error(f"it answered with plain JSON: {one_line(text)}")

    def _completion_of(self, turn: Turn, seconds: float) -> Completion:
        """Return the completion of a received turn.

        Raises:
            ModelError: The answer has no choices, or ended without a finish reason.
        """
        if not turn.began:
            raise self._protocol_error("its answer holds no choices")
        if not turn.finish_reason:
            raise ModelError(
                f"{self.describe()} broke off its answer after {len(turn.text):,} characters; try again",
                transient=True,
            )
        usage = Usage(
            calls=1,
            prompt_tokens=turn.prompt_tokens,
            completion_tokens=turn.completion_tokens,
            seconds=seconds,
            cost=self.price.of(turn.prompt_tokens, turn.completion_tokens) if self.price else 0.0,
            unpriced=0 if self.price else 1,
        )
        calls = tuple(
            ToolCall(
                id=call.id or f"call_{number}", name=whole(call.name), arguments=whole("".join(call.argument_parts))
            )
            for number, call in enumerate(sorted(turn.calls, key=lambda call: call.index))
        )
        return Completion(text=turn.text, tool_calls=calls, usage=usage, finish_reason=turn.finish_reason)


_NO_MODEL = (
    "no model is configured: set OPENAI_API_KEY, or OPENAI_BASE_URL and OPERAD_MODEL, in the environment; "
    "or use --model and --base-url; or write `model: {name: …, base_url: …}` in the YAML. "
    "The embedded model needs no key, but can only pick from given choices: OPERAD_MODEL=embedded, "
    '--model embedded, `model: embedded`, or MonoModelReasoner("embedded")'
)

_NO_MODEL_IN_PYTHON = (
    "no model is configured: give one, as model=Model(name=…, base_url=…) in Workflow(…) or run(…); or set "
    "OPENAI_API_KEY, or OPENAI_BASE_URL and OPERAD_MODEL, in the environment"
)


class NoModelError(InputError):
    """No model is configured.

    Attributes:
        in_python: Message for callers in Python, who can give a model to a workflow or a run.
    """

    in_python = _NO_MODEL_IN_PYTHON


def is_embedded(name: str) -> bool:
    """Return True if the name denotes a model inside this process: ``embedded``, or the path of a ``.gguf`` file."""
    return name == EMBEDDED or name.endswith(".gguf")


def resolve_model(
    name: str | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Model:
    """Return the model that options and environment variables select.

        model = resolve_model("gpt-5", api_key="sk-…")
        print(model.describe())

    An option takes precedence over its variable. With a key or a base URL, the model is the one called `name` at that
    endpoint, by default `DEFAULT_MODEL` at OpenAI. The name ``embedded``, or the path of a ``.gguf`` file, selects a
    model inside this process, and the variables for endpoint and key are ignored.

    The price comes from `prices.known_price`: from the user's file of prices, or from the table of this package.

    Args:
        name: Name of the model; by default the value of ``OPERAD_MODEL``.
        base_url: URL of the endpoint; by default the value of ``OPENAI_BASE_URL``.
        api_key: API key; by default the value of ``OPENAI_API_KEY``.
        environ: Environment variables; by default `os.environ`.

    Raises:
        InputError: No model is configured; a model at an endpoint is named without endpoint and key; a model inside
            this process is named together with an endpoint; or the file of prices cannot be read.
        InvalidError: The file of prices is invalid.
    """
    from operad.runtime.models.embedded import EmbeddedModel
    from operad.runtime.models.prices import known_price

    environ = os.environ if environ is None else environ
    name = name or environ.get("OPERAD_MODEL")
    if name and is_embedded(name):
        if base_url:
            raise InputError(
                f"model {name!r} runs inside this process, and {without_login(base_url)} is named as its endpoint; "
                "name a model of that endpoint, or leave the endpoint out"
            )
        return cast("Model", EmbeddedModel() if name == EMBEDDED else EmbeddedModel.of(name))
    base_url = base_url or environ.get("OPENAI_BASE_URL")
    api_key = api_key or environ.get("OPENAI_API_KEY")
    if not (name or base_url or api_key):
        raise NoModelError(_NO_MODEL)
    if not (base_url or api_key):
        raise InputError(
            f"model {name!r}{did_you_mean(name or '', [EMBEDDED])}: no endpoint is configured; set OPENAI_API_KEY, or "
            "OPENAI_BASE_URL for an endpoint of your own"
        )
    name, base_url = name or DEFAULT_MODEL, base_url or OPENAI_URL
    return Model(
        name=name,
        base_url=base_url,
        api_key=api_key or None,
        price=known_price(name, base_url, environ),
    )
