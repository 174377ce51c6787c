"""The model client: any endpoint that speaks the OpenAI chat-completions protocol."""

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
    page_title,
    shown,
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
    sendable,
    shown_messages,
)
from operad.runtime.policies.deadline import standing_still
from operad.runtime.policies.limits import Limiter, Limits
from operad.runtime.tools.tool import Tool
from operad.runtime.values.api_key import key_text
from operad.runtime.values.errors import InputError, ModelError, RequestError, describe, did_you_mean
from operad.runtime.values.message import Usage, new_id

if TYPE_CHECKING:
    from typing_extensions import Self
from operad.runtime.models.connection import Connection, Connections, hold_off, shared_limits, spend

DEFAULT_MODEL = "gpt-4.1-mini"
"""The model that is asked where a key or an endpoint is named, but no model."""

EMBEDDED = "embedded"
"""The name of the model inside this process."""

MOST_CHARACTERS = 2**21
"""Characters of an answer, with what it says to tools; of one without end, no more is read."""

MOST_CALLS = 128
"""Maximum number of tools one turn may call."""


class Model(Endpoint):
    """A client of a chat endpoint.

        model = Model(name="gpt-5-mini", temperature=0, limits=Limits(concurrency=8))
        workflow = Workflow(facts >> answer, model=model)

    A value: it may be copied, compared and shared by any number of runs, threads and event loops.
    Connections are opened on first use, one pool per event loop, and belong to the model that
    opened them, not to its copies. They close when `asyncio.run` ends, or by `aclose`.

    Attributes:
        name: The model's name at the endpoint.
        base_url: Where the endpoint is; ``/chat/completions`` follows.
        api_key: The key, or None for endpoints that want none. Never shown.
        temperature: From 0 (always the likeliest word) up; None leaves it to the endpoint.
        max_tokens: The most tokens an answer may have; None leaves it to the endpoint.
        timeout: Seconds that the endpoint may be silent.
        total_timeout: Seconds that a call may take from its first request to the end of the answer, retries and
            the waits between them included; the wait for `limits` is not.
        max_retries: Number of times that a call that was refused for the time being (429, 5xx, no connection)
            is tried again; each retry is a `ModelRetried` event.
        tools: How tools are offered: ``native``, by the protocol, or ``constrained``, where the
            endpoint knows no tool calls but keeps to a JSON Schema.
        structured: True if the endpoint keeps to a JSON Schema given as ``response_format``.
        prose: True if its free text is usable; a very small model invents half of it.
        vision: True if it can be shown images; if so, it sees those among a task's files.
        limits: Limits of the endpoint; shared by all models of this name and key at this endpoint
            that have the same limits, in all runs and threads of the process together; in kept runs, those a
            minute are kept by all processes together.
        parameters: Fields of each request beyond these, such as ``top_p`` and ``stop``, sent as they are.
        price: Price of its tokens, for `Usage.cost` and budgets of money; None if unknown. `resolve_model`
            fills it in where it is known.
    """

    name: str = DEFAULT_MODEL
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
        return hash((self.name, self.base_url))  # not of all fields: parameters are a dict

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
        """Ask for the next turn of a conversation.

        Emits `ModelAsked`, `ModelRetried` before the request is sent again, `TokenStreamed` as text arrives, and
        `ModelAnswered` or `ModelFailed` at the end.

        Args:
            messages: The conversation so far.
            tools: Tools that the model may call.
            tool_choice: ``none`` forbids calls in this turn; the tools are still described.
            response_format: The protocol's ``response_format``, as `schema.response_format` makes it.
            temperature: Instead of the model's own.
            max_tokens: Instead of the model's own.

        Raises:
            ModelError: The endpoint cannot be reached, refuses the call, breaks off, or finds no end.
            RequestError: It does not take this request; its content filter stops the answer; or the model refuses it.
        """
        request: dict[str, Any] = {"messages": sendable(messages)}
        if self.parameters:
            request["extra_body"] = dict(self.parameters)
        if tools:
            request |= {"tools": [as_function(tool) for tool in tools], "tool_choice": tool_choice}
        if response_format is not None:
            request["response_format"] = dict(response_format)
        if (temperature := self.temperature if temperature is None else temperature) is not None:
            request["temperature"] = temperature
        if (max_tokens := max_tokens or self.max_tokens) is not None:
            # OpenAI's newer models refuse the old name; most other endpoints know only that one.
            newer = urlsplit(self.base_url).hostname == urlsplit(OPENAI_URL).hostname
            request["max_completion_tokens" if newer else "max_tokens"] = max_tokens

        connection = await self._connection()
        async with self._admitted(connection.limiter) as limiters:
            call_id = new_id() if heard() else ""
            if call_id:
                names = tuple(tool.name for tool in tools)
                emit(ModelAsked(call_id=call_id, model=self.name, messages=shown_messages(messages), tools=names))
            try:
                completion, refusal = await self._in_time(self._turn(connection, request, call_id))
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
            raise RequestError(f"{self.describe()}: the model refuses to answer: {shown(refusal)}; change the prompt")
        return completion

    async def _turn(self, connection: Connection, request: dict[str, Any], call_id: str) -> tuple[Completion, str]:
        """One turn, as it streams, and what the model says where it refuses to answer.

        Raises:
            ModelError: The endpoint cannot be reached, refuses the call, breaks off, or finds no end.
        """
        clock = asyncio.get_running_loop().time
        began = clock()
        turn = Turn()
        async with aclosing(self._chunks(connection, request, call_id)) as chunks:
            async for chunk in chunks:
                with self._reading():
                    text = turn.add(chunk)
                if turn.characters > MOST_CHARACTERS:
                    raise ModelError(
                        f"the answer of {self.describe()} is longer than {MOST_CHARACTERS:,} characters, which is the limit; "
                        "set max_tokens"
                    )
                if len(turn.calls) > MOST_CALLS:
                    raise ModelError(f"{self.describe()} calls more than the {MOST_CALLS} tools that one turn may call")
                if text:
                    emit(TokenStreamed(text=text))
        with self._reading():
            return self._completed(turn, clock() - began), turn.refusal

    @asynccontextmanager
    async def _admitted(self, own: Limiter | None) -> AsyncGenerator[list[Limiter], None]:
        """Wait until the endpoint's limits, and those of the workflows around the call, let it in.

        The operator's own time limit stands still meanwhile, as the wait is not its fault.

        Raises:
            BudgetError: A run around the call has nothing left for it.
            InputError: Such a run has a budget of money, and this model no price.
        """
        scopes = list(scope.outwards()) if (scope := current_scope()) else []
        limiters = [limiter for scope in reversed(scopes) for limiter in scope.run.calls]
        if own:
            limiters.append(own)
        shared = shared_limits()
        async with AsyncExitStack() as admitted:
            with standing_still(scopes[0].deadlines if scopes and limiters else ()):
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
        """Check that this machine can run the model; one at an endpoint needs nothing here.

        Raises:
            MissingExtraError: A package that it needs is not installed.
            InputError: A file that it needs does not exist.
        """

    async def aclose(self) -> None:
        """Close the connections of the event loop this is called in. The model can be used again."""
        connection = self._connections.get(asyncio.get_running_loop())
        if connection is not None:
            await connection.guard.aclose()

    async def _endpoint(self) -> tuple[str, str]:
        """Address and key. A model that is served on demand overrides this."""
        return self.base_url, key_text(self.api_key)

    async def _connection(self) -> Connection:
        base_url, key = await self._endpoint()
        loop = asyncio.get_running_loop()
        connection = self._connections.get(loop)
        if connection is None:
            client = self._client(base_url, key)
            whose = hashlib.sha256(key.encode()).hexdigest()
            limiter = Limiter.of(f"{self.name} {base_url} {whose}", self.limits) if self.limits else None
            connection = self._connections[loop] = Connection(client, limiter, self._connections.hold(client))
            await anext(connection.guard)
        return connection

    async def _chunks(self, connection: Connection, request: dict[str, Any], call_id: str) -> AsyncGenerator[Any, None]:
        """The answer as it streams; whatever the endpoint does wrong is a `ModelError`."""
        from openai import AsyncStream

        client = connection.client
        everything = {**request, "model": self.name, "stream": True, "stream_options": {"include_usage": True}}
        # Not client.chat.completions: to make objects of openai's types costs more than all else in a call.
        ask = partial(
            client.post,
            "/chat/completions",
            cast_to=object,
            body=everything,
            stream=True,
            stream_cls=AsyncStream[object],
        )
        stream = await self._asked(ask, client.api_key, call_id, partial(hold_off, connection.limiter))
        try:
            heard = False
            async with stream:
                async for chunk in stream:
                    heard = True
                    yield chunk
            if not heard:
                raise self._no_stream(without_key(beginning(stream.response), client.api_key))
        except ModelError:
            raise
        except (ValueError, RecursionError) as error:
            raise self._no_protocol("it sent something that is not JSON") from error
        except Exception as error:
            raise self._broke_off(error, client.api_key) from error

    def _no_stream(self, said: str) -> ModelError:
        """Return the error for an answer without events."""
        title = page_title(said)
        if title is not None:
            return self._no_protocol(f"it answered with a web page{f', {title!r}' if title else ''}")
        if not said.startswith("{"):
            return self._no_protocol("its answer holds no choices")
        if re.search(r'"choices"\s*:', said):
            return ModelError(
                f"{self.describe()} answered with plain JSON instead of a stream of events; "
                'the endpoint must take `"stream": true`'
            )
        return self._no_protocol(f"it answered with plain JSON: {shown(said)}")

    def _completed(self, turn: Turn, seconds: float) -> Completion:
        if not turn.began:
            raise self._no_protocol("its answer holds no choices")
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
            ToolCall(id=call.id or f"call_{index}", name=call.name, arguments=call.arguments)
            for index, call in sorted(turn.calls.items())
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
        in_python: The message for callers in Python, who can give a model to the workflow and its runs.
    """

    in_python = _NO_MODEL_IN_PYTHON


def is_embedded(name: str) -> bool:
    """Return True if the name is that of a model inside this process: ``embedded``, or the path of a ``.gguf`` file."""
    return name == EMBEDDED or name.endswith(".gguf")


def resolve_model(
    name: str | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Model:
    """The model that options and environment ask for; `Model.describe` says which it is.

        model = resolve_model("gpt-5", api_key="sk-…")
        print(model.describe())

    An option wins over its variable. With a key or a base URL it is the model called `name` there
    (by default `DEFAULT_MODEL` at OpenAI). The name ``embedded``, or the path of a ``.gguf`` file,
    is a model inside this process, whatever the environment says of endpoints and keys.

    Its price is what `prices.known_price` says: that of the user's file of prices, or of the table of this package.

    Args:
        name: The model's name; otherwise ``OPERAD_MODEL``.
        base_url: The endpoint; otherwise ``OPENAI_BASE_URL``.
        api_key: The key; otherwise ``OPENAI_API_KEY``.
        environ: Read instead of `os.environ`, which is read when this is called.

    Raises:
        InputError: No model is configured; a model of an endpoint is named, but neither endpoint nor key; the
            embedded model is named, and an endpoint as well; or the file of prices cannot be read.
        InvalidError: The file of prices is none.
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
