"""Models: what they are, where they are, and what every call of one goes through."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

from pydantic import Field, JsonValue, PrivateAttr

from operad.runtime.events import (
    ModelAnswered,
    ModelAsked,
    ModelFailed,
    SettingsDropped,
    ThinkingStreamed,
    TokenStreamed,
    current_scope,
    emit,
    heard,
)
from operad.runtime.models.api import Api, advice_on, assumed_api
from operad.runtime.models.chat_completions import ChatCompletions
from operad.runtime.models.chat_model import ChatModel, Completion, Delta, ToolChoice
from operad.runtime.models.connection import Connection, Connections, hold_off, shared_limits, spend
from operad.runtime.models.endpoint import OPENAI_URL, Endpoint, one_line, without_login
from operad.runtime.models.messages import Message, shown_messages
from operad.runtime.models.price import Price
from operad.runtime.models.providers import VENDORS, Provider
from operad.runtime.models.responses import Responses
from operad.runtime.models.settings import NO_SETTINGS, ModelSettings, ThinkingLevel
from operad.runtime.policies.deadline import paused_deadlines
from operad.runtime.policies.limits import Limiter, Limits
from operad.runtime.tools.tool import Tool
from operad.runtime.values.api_key import key_text
from operad.runtime.values.errors import InputError, ModelError, RequestError, describe, did_you_mean
from operad.runtime.values.message import new_id
from operad.runtime.values.schema import AnswerSchema

if TYPE_CHECKING:
    from typing_extensions import Self

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
        thinking: Effort of reasoning before an answer: ``off``, ``low``, ``medium`` or ``high``. None for the model's
            default, as for the following settings.
        temperature: Sampling temperature; 0 selects the most likely token.
        top_p: Share of the probability from which tokens are sampled.
        seed: Seed of sampling.
        stop: Texts that end the answer.
        max_tokens: Maximum number of tokens of an answer, including those of reasoning.
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
        parameters: Further fields of each request, sent unchanged.
        price: Price of tokens, for `Usage.cost` and budgets with a cost; None if unknown. `resolve_model` sets it if
            the price is known.
        api: Protocol of the endpoint: ``chat-completions``, or ``responses``, which OpenAI's reasoning models need for
            tools. None for ``responses`` at OpenAI and Azure OpenAI, and ``chat-completions`` elsewhere.
    """

    name: str = Field(default=DEFAULT_MODEL, kw_only=False)
    thinking: ThinkingLevel | None = None
    temperature: float | None = Field(default=None, ge=0)
    top_p: float | None = Field(default=None, gt=0, le=1)
    seed: int | None = None
    stop: tuple[str, ...] = ()
    max_tokens: int | None = Field(default=None, ge=1)
    tools: Literal["native", "constrained"] = "native"
    structured: bool = True
    prose: bool = True
    vision: bool = False
    limits: Limits | None = None
    parameters: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    price: Price | None = None
    api: Api | None = None

    _indifferent: ClassVar[frozenset[str]] = Endpoint._indifferent | {"limits", "price", "api"}
    _connections: Connections = PrivateAttr(default_factory=lambda: Connections())

    def __hash__(self) -> int:
        return hash((self.name, self.base_url))  # not all fields: `parameters` is a dict

    def __copy__(self) -> Self:
        copied = super().__copy__()
        copied._connections = Connections()
        return copied

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return self.__copy__()

    @property
    def settings(self) -> ModelSettings:
        """Settings of each call, unless the call gives others."""
        return ModelSettings(**{name: getattr(self, name) for name in ModelSettings.model_fields})

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] = (),
        tool_choice: ToolChoice = "auto",
        output: AnswerSchema | None = None,
        settings: ModelSettings = NO_SETTINGS,
    ) -> Completion:
        """Return the model's next turn in a conversation.

        Emits `ModelAsked`, `ModelRetried` before each retry, `TokenStreamed` and `ThinkingStreamed` for each piece,
        `SettingsDropped` if the model does not take a setting, and `ModelAnswered` or `ModelFailed` at the end.

        Args:
            messages: The conversation so far.
            tools: Tools that the model may call.
            tool_choice: ``none`` forbids calls in this turn; the tools are still described.
            output: Form of the answer that the endpoint is to enforce, an object; None for text.
            settings: Settings in place of the model's.

        Raises:
            ModelError: The endpoint cannot be reached, refuses the call, breaks off, or exceeds a limit.
            RequestError: The endpoint rejects the request, its content filter stops the answer, or the model refuses to
                answer.
        """
        connection = await self._connection()
        async with self._admitted(connection.limiter) as limiters:
            call_id = new_id() if heard() else ""
            if call_id:
                names = tuple(tool.name for tool in tools)
                emit(ModelAsked(call_id=call_id, model=self.name, messages=shown_messages(messages), tools=names))
            ask = partial(
                connection.chat.stream,
                messages,
                tools=tools,
                tool_choice=tool_choice,
                output=output,
                settings=settings.over(self.settings),
            )
            try:
                completion = await self._within_total_timeout(self._request_turn(connection, ask, call_id))
            except Exception as error:
                emit(ModelFailed(call_id=call_id, model=self.name, error=describe(error)))
                raise
            await spend(limiters, completion.usage.tokens)
        if completion.dropped:
            emit(SettingsDropped(model=self.name, settings=completion.dropped))
        calls = tuple({"name": call.name, "arguments": call.arguments} for call in completion.tool_calls)
        emit(
            ModelAnswered(
                model=self.name,
                usage=completion.usage,
                call_id=call_id,
                text=completion.text,
                tool_calls=calls,
                finish_reason=completion.finish_reason,
                thinking=completion.message.thinking,
            )
        )
        if completion.finish_reason == "filter":
            raise RequestError(
                f"{self.describe()}: its content filter stopped the answer after {len(completion.text):,} characters; "
                "change the prompt or the filter"
            )
        if completion.finish_reason == "refusal":
            refusal = completion.detail or one_line(completion.text)
            raise RequestError(f"{self.describe()}: the model refuses to answer: {refusal}; change the prompt")
        return completion

    async def _request_turn(
        self, connection: Connection, ask: Callable[[], AsyncGenerator[Delta | Completion, None]], call_id: str
    ) -> Completion:
        """Return the completion of a streamed turn. A failure before its first piece is retried.

        Raises:
            ModelError: The endpoint cannot be reached, refuses the call, breaks off, or exceeds a limit.
        """
        clock = asyncio.get_running_loop().time
        start = clock()
        characters = 0
        async with AsyncExitStack() as stack:

            async def begin() -> tuple[AsyncGenerator[Delta | Completion, None], Delta | Completion]:
                stream = ask()
                try:
                    return stream, await anext(stream)
                except BaseException:
                    await stream.aclose()
                    raise

            stream, piece = await self._retried(begin, call_id, partial(hold_off, connection.limiter))
            stack.push_async_callback(stream.aclose)
            while isinstance(piece, Delta):
                characters += len(piece.text)
                if characters > MOST_CHARACTERS:
                    raise ModelError(
                        f"the answer of {self.describe()} is longer than {MOST_CHARACTERS:,} characters, which is the limit; "
                        "set max_tokens"
                    )
                if piece.text and piece.kind != "call":
                    emit((TokenStreamed if piece.kind == "text" else ThinkingStreamed)(text=piece.text))
                piece = await anext(stream)
        if len(piece.tool_calls) > MOST_CALLS:
            raise ModelError(f"{self.describe()} calls more than the maximum of {MOST_CALLS} tools in one turn")
        usage = piece.usage.model_copy(
            update={
                "calls": 1,
                "seconds": clock() - start,
                "cost": self.price.of(piece.usage) if self.price else 0.0,
                "unpriced": 0 if self.price else 1,
            }
        )
        return replace(piece, usage=usage)

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

    def _open(self, base_url: str, key: str) -> ChatModel:
        """Return a new client of the model. A model of another protocol overrides this."""
        vendor, _, name = self.name.partition(":")
        if vendor in VENDORS and name:
            return Provider(self, vendor, name, "" if base_url == OPENAI_URL else base_url, key)
        client = Responses if self._protocol == "responses" else ChatCompletions
        return client(self, self._client(base_url, key))

    @property
    def _protocol(self) -> Api:
        return self.api or assumed_api(self.base_url or "")

    def _advice(self, status: int, code: str, message: str) -> str:
        return advice_on(self._protocol, status, code, message)

    async def _connection(self) -> Connection:
        """Return the connection of the running event loop; open it on first use."""
        base_url, key = await self._endpoint()
        loop = asyncio.get_running_loop()
        connection = self._connections.get(loop)
        if connection is None:
            # The client outlives this model for a moment, so it must not hold it.
            chat = self.model_copy()._open(base_url, key)
            key_digest = hashlib.sha256(key.encode()).hexdigest()
            limiter = Limiter.of(f"{self.name} {base_url} {key_digest}", self.limits) if self.limits else None
            connection = self._connections[loop] = Connection(chat, limiter, self._connections.hold(chat))
            await anext(connection.guard)
        return connection


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
