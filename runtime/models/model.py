"""Models: what they are, where they are, what every call of one goes through, and what a client of a vendor must do."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary, finalize, ref

from pydantic import Field, JsonValue, PrivateAttr, TypeAdapter

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
from operad.runtime.events.journal import numbered, part_of_work
from operad.runtime.models.addresses import is_loopback, one_line
from operad.runtime.models.chat_completions import ChatCompletions
from operad.runtime.models.endpoint import Endpoint
from operad.runtime.models.messages import Message, shown_messages
from operad.runtime.models.names import Located
from operad.runtime.models.profiles import OVERRIDDEN, Profile, profile_of
from operad.runtime.models.providers import Provider
from operad.runtime.models.responses import Responses
from operad.runtime.models.settings import NO_SETTINGS, ModelSettings, StopTexts, ThinkingLevel
from operad.runtime.models.turn import Completion, Delta, Price, ToolChoice
from operad.runtime.policies.deadline import paused_deadlines
from operad.runtime.policies.limits import Limiter, Limits, SharedLimits
from operad.runtime.tools.tool import Tool
from operad.runtime.values.errors import InputError, ModelError, RequestError, describe, internal_text
from operad.runtime.values.message import new_id
from operad.runtime.values.schema import AnswerSchema

if TYPE_CHECKING:
    from typing import Self

    from operad.runtime.models.names import Located
    from operad.runtime.models.prices import ListPrice
    from operad.runtime.models.turn import Price


M = TypeVar("M")

_TURN = TypeAdapter(Completion)


Api = Literal["chat-completions", "responses"]
"""Protocol of an endpoint."""


class ChatModel(Protocol):
    """A client of a model, for one event loop.

    Limits, budgets, prices, retries, timeouts and events are not its business: `Model` sees to them for every client.
    """

    def stream(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] = (),
        tool_choice: ToolChoice = "auto",
        output: AnswerSchema | None = None,
        settings: ModelSettings = NO_SETTINGS,
    ) -> AsyncGenerator[Delta | Completion, None]:
        """Yield pieces of the next turn as they arrive, and its completion at the end. Closing it ends the request.

        Args:
            messages: The conversation so far. Results stand in the message after their calls.
            tools: Tools that the model may call.
            tool_choice: ``none`` forbids calls in this turn; the tools are still described.
            output: Form of the answer, an object, which the vendor is to enforce; None for text.
            settings: Settings of the call.

        Raises:
            ModelError: The model cannot be reached, fails, or breaks off; `transient` if the same call may succeed later.
            RequestError: The vendor rejects this request.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


@dataclass(frozen=True, slots=True)
class Connection(Generic[M]):
    """Client of a model in one event loop.

    Attributes:
        model: The model, settled.
        located: Its endpoint.
        guard: Generator that closes the client.
        own_price: Price that the model or the user's file gives; None if there is none.
        listed: Search for the list price, in a thread; None without one.
    """

    model: M
    located: Located
    chat: ChatModel
    limiter: Limiter | None
    guard: AsyncGenerator[None, None]
    own_price: Price | None
    listed: asyncio.Task[ListPrice | None] | None

    async def price(self) -> Price | ListPrice | None:
        """Return the price of the model; None if it is unknown."""
        return self.own_price if self.listed is None else await asyncio.shield(self.listed)


class Connections(WeakKeyDictionary[asyncio.AbstractEventLoop, Connection[Any]]):
    """Connections by event loop. All instances are equal, so that models with different open connections are equal."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Connections)

    def hold(self, chat: ChatModel) -> AsyncGenerator[None, None]:
        """Return an asynchronous generator that closes `chat` at its end; `asyncio.run` ends such generators.

        The client is also closed if the model is garbage-collected before the event loop ends.
        """
        return _close_at_end(chat, ref(self))


async def _close_at_end(chat: ChatModel, connections: ref[Connections]) -> AsyncGenerator[None, None]:
    """Wait until the generator is closed, then close the client and forget its connection."""
    loop, owner = asyncio.get_running_loop(), connections()
    assert owner is not None  # noqa: S101 - it asks for this
    finalizer = finalize(owner, _close_soon, loop, chat)  # holds a reference to the client
    finalizer.atexit = False
    del owner
    try:
        yield
    finally:
        finalizer.detach()
        owner = connections()
        if owner is not None and (current := owner.get(loop)) and current.chat is chat:  # not a later one
            del owner[loop]
        await chat.aclose()


def _close_soon(loop: asyncio.AbstractEventLoop, chat: ChatModel) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(lambda: asyncio.ensure_future(chat.aclose()))


def shared_limits() -> SharedLimits | None:
    """Return the limits shared with other processes of the current run; None if there are none."""
    scope = current_scope()
    return scope.run.shared_limits if scope else None


async def hold_off(limiter: Limiter | None, failure: ModelError) -> None:
    """Make all calls wait if the endpoint asked a failed call to wait."""
    if limiter and failure.retry_after:
        limiter.hold_off(failure.retry_after)
        if shared := shared_limits():
            await shared.hold_off(limiter, failure.retry_after)


async def spend(limiters: Sequence[Limiter], tokens: int) -> None:
    """Count tokens in this process and for other processes; time limits of the operator are paused meanwhile."""
    for limiter in limiters:
        limiter.spent(tokens)
    if (scope := current_scope()) and (shared := scope.run.shared_limits):
        with paused_deadlines(scope.deadlines):
            for limiter in limiters:
                await shared.spent(limiter, tokens)


_logger = logging.getLogger(__name__)

DEFAULT_MODEL = "gpt-5.6-luna"
"""Name of the model that is used if a key or an endpoint is given, but no model name."""


SET_PRICE = (
    "Model(price=Price(prompt=…, completion=…)), `price` of the model in a configuration, or a file of prices (--prices "
    "FILE, OPERAD_PRICES)"
)
"""Ways to give a model its price."""

MOST_CHARACTERS = 2**21
"""Maximum length of an answer in characters, including the arguments of tool calls; reading stops beyond it."""

MOST_CALLS = 128
"""Maximum number of tool calls in one turn."""


class Model(Endpoint):
    """Client of a chat model at an endpoint.

        model = Model(name="gpt-5.6-luna", temperature=0, limits=Limits(concurrency=8))
        workflow = Workflow(facts >> answer, model=model)

    A model is a value: it may be copied, compared and shared by any number of runs, threads and event loops.
    Connections are opened on first use, in one pool per event loop, and belong to the model that opened them, not to
    its copies. They are closed when `asyncio.run` ends, or by `aclose`.

    Attributes:
        name: Name of the model at the endpoint, or with the prefix of a vendor: ``mistral:mistral-large-latest``.
        base_url: URL of the endpoint, without ``/chat/completions``; None for that of the vendor, or of the environment.
        api_key: API key; None for that of the environment, at the address that it is for. Never shown.
        thinking: Effort of reasoning before an answer: ``off``, ``low``, ``medium`` or ``high``. None for the model's
            default, as for the following settings.
        temperature: Sampling temperature; 0 selects the most likely token.
        top_p: Share of the probability from which tokens are sampled.
        seed: Seed of sampling.
        stop: Texts that end the answer; a single text is one of them.
        max_tokens: Maximum number of tokens of an answer, including those of reasoning.
        timeout: Maximum time without data from the endpoint, in seconds.
        total_timeout: Maximum duration of a call in seconds, from the first request to the end of the answer, including
            retries and the waits between them, but not the wait for `limits`.
        max_retries: Maximum number of retries of a call after a temporary failure (429, 5xx, no connection); each retry
            emits a `ModelRetried` event.
        tools: How tools are offered: ``native`` by the protocol's tool calls, or ``constrained`` by a JSON Schema of
            the answer, for endpoints without tool calls. None for the way that `profile` knows, as for the next two.
        structured: True if the endpoint enforces a JSON Schema of the answer.
        prose: True if free text of the model is usable; very small models invent half of it.
        vision: True if the model accepts images: it receives the images among a task's files.
        limits: Rate limits, shared by all models with the same name, key, endpoint and limits in this process. In
            durable runs, limits per minute are shared by all processes.
        parameters: Further fields of each request, sent unchanged.
        price: Price of tokens, for `Usage.cost` and budgets with a cost; None for that of the user's file of prices, or the
            list price: see `find_price`.
        api: Protocol of the endpoint: ``chat-completions``, or ``responses``, which OpenAI's reasoning models need for
            tools. None for ``responses`` at OpenAI and Azure OpenAI, and ``chat-completions`` elsewhere.
    """

    name: str = Field(default=DEFAULT_MODEL, kw_only=False)
    thinking: ThinkingLevel | None = None
    temperature: float | None = Field(default=None, ge=0)
    top_p: float | None = Field(default=None, gt=0, le=1)
    seed: int | None = None
    stop: StopTexts = ()
    max_tokens: int | None = Field(default=None, ge=1)
    tools: Literal["native", "constrained"] | None = None
    structured: bool | None = None
    prose: bool = True
    vision: bool | None = None
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

    @property
    def profile(self) -> Profile:
        """Abilities of the model: those of its name, unless the model says otherwise."""
        try:
            located = self.located()
        except InputError:  # a call or a check reports it
            known = Profile()
        else:
            known = profile_of(located.name, located.vendor.prefix if located.vendor else "")
        return known.overridden(**{name: getattr(self, name) for name in OVERRIDDEN})

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return the values that determine the model's answers, without key and login; see `Endpoint.fingerprint`."""
        profile = self.profile
        return super().fingerprint() | {name: getattr(profile, name) for name in OVERRIDDEN}

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
            InputError: The conversation holds other values than messages, or an endpoint or a key is missing.
        """
        if not all(isinstance(each, Message) for each in messages):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(
                f"{type(self).__name__}.complete(…) takes messages, such as [Message.user('…')]; got {messages!r:.200}"
            )
        connection = await self._connection()
        return await connection.model._complete(connection, messages, tools, tool_choice, output, settings)

    async def _complete(
        self,
        connection: Connection[Any],
        messages: Sequence[Message],
        tools: Sequence[Tool],
        tool_choice: ToolChoice,
        output: AnswerSchema | None,
        settings: ModelSettings,
    ) -> Completion:
        """Return the model's next turn; see `complete`. This model is settled.

        In a durable run, a turn that an ended process received is not requested again.
        """
        call_id = new_id() if heard() else ""

        def emit_asked() -> None:
            if call_id:
                names = tuple(tool.name for tool in tools)
                shown, provider = shown_messages(messages), connection.located.provider
                emit(ModelAsked(call_id=call_id, model=self.name, messages=shown, tools=names, provider=provider))

        part = await part_of_work(partial(self._name_of_turn, messages, tools, tool_choice, output, settings), _TURN)
        completion = part.value
        if completion is None:
            async with self._admitted(connection) as limiters:
                emit_asked()
                accepted, dropped = self.profile.accepted(settings.over(self.settings))
                ask = partial(
                    connection.chat.stream,
                    messages,
                    tools=tools,
                    tool_choice=tool_choice,
                    output=output,
                    settings=accepted,
                )
                try:
                    completion = await self._within_total_timeout(self._request_turn(connection, ask, call_id))
                except Exception as error:
                    text, internal = describe(error), internal_text(error)
                    emit(ModelFailed(call_id=call_id, model=self.name, error=text, internal=internal))
                    raise
                await spend(limiters, completion.usage.tokens)
            completion = replace(completion, dropped=(*dropped, *completion.dropped))
            await part.keep(completion)
        with part.told():
            if part.value is not None:
                emit_asked()
                if completion.text:
                    emit(TokenStreamed(text=completion.text))
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
            raise RequestError(
                f"{self.describe()}: the model refuses to answer: {refusal}; change the prompt", refusal=refusal
            )
        return completion

    def _name_of_turn(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        tool_choice: ToolChoice,
        output: AnswerSchema | None,
        settings: ModelSettings,
    ) -> str:
        """Return the name of a turn as a part of an operator's work: a digest of the model and of all that it is given."""
        described = [(tool.name, tool.description, tool.parameters) for tool in tools]
        asked = output.asked.text if output else ""
        given = [self.name, described, tool_choice, asked, settings.model_dump(mode="json")]
        digest = hashlib.sha256(json.dumps(given, sort_keys=True, default=str).encode(errors="replace"))
        for message in messages:
            digest.update(message.model_dump_json().encode(errors="replace"))
        return numbered(f"turn:{digest.hexdigest()[:32]}")

    async def _request_turn(
        self, connection: Connection[Any], ask: Callable[[], AsyncGenerator[Delta | Completion, None]], call_id: str
    ) -> Completion:
        """Return the completion of a streamed turn. A failure before its first piece is retried."""
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
        seconds, price = clock() - start, await connection.price()
        cost = {"cost": price.of(piece.usage) if price else 0.0, "unpriced": 0 if price else 1}
        usage = piece.usage.model_copy(update={"calls": 1, "seconds": seconds, **cost})
        return replace(piece, usage=usage)

    @asynccontextmanager
    async def _admitted(self, connection: Connection[Any]) -> AsyncGenerator[list[Limiter], None]:
        """Wait until the limits of the enclosing workflows and of the endpoint admit the call; yield their limiters.

        The time limits of the operator are paused during the wait.

        Raises:
            BudgetError: The budget of an enclosing run is used up.
            InputError: An enclosing run has a budget with a cost, and the price of this model is unknown.
        """
        scopes = list(scope.outwards()) if (scope := current_scope()) else []
        limiters = [limiter for scope in reversed(scopes) for limiter in scope.run.calls]
        if connection.limiter:
            limiters.append(connection.limiter)
        shared = shared_limits()
        async with AsyncExitStack() as admitted:
            with paused_deadlines(scopes[0].deadlines if scopes and limiters else ()):
                for limiter in limiters:
                    await admitted.enter_async_context(limiter.admitted())
                    if shared:
                        await shared.admit(limiter)
            for scope in scopes:
                if scope.run.budget.cost is not None and await connection.price() is None:
                    raise InputError(
                        f"{self.describe()} has no price, so a budget of money cannot be kept; give it one: {SET_PRICE}"
                    )
                scope.run.check_budget(by_next=True)
            yield limiters

    def check(self) -> None:
        """Check, without a call, that the model can be asked: its endpoint is known, and the key that it needs is set.

        Raises:
            MissingExtraError: A package that the model needs is not installed.
            InputError: The prefix of the name is unknown, a key is missing, or a file that the model needs does not exist.
        """
        self.settled()

    async def aclose(self) -> None:
        """Close the connections of the running event loop. The model can be used again."""
        connection = self._connections.get(asyncio.get_running_loop())
        if connection is not None:
            await connection.guard.aclose()

    async def _endpoint(self) -> Located:
        """Return the endpoint. A model that is served on demand overrides this."""
        return self.located()

    def _open(self, located: Located) -> ChatModel:
        """Return a new client of this settled model. A model of another protocol overrides this."""
        if located.protocol == "native" and located.vendor is not None:
            address = "" if located.base_url == located.vendor.base_url else located.base_url
            return Provider(self, located.vendor.prefix, located.name, address, located.key)
        client = Responses if self._protocol == "responses" else ChatCompletions
        return client(self, self._client())

    @property
    def _protocol(self) -> Api:
        return self.api or assumed_api(self.base_url or "")

    def _advice(self, status: int, code: str, message: str) -> str:
        return _advice_on(self._protocol, status, code, message)

    async def _connection(self) -> Connection[Self]:
        """Return the connection of the running event loop to the endpoint; open it on first use."""
        located = await self._endpoint()
        loop = asyncio.get_running_loop()
        connection = self._connections.get(loop)
        if connection is None or connection.located != located:  # the environment may name another endpoint or key
            model: Model = self.settled(located)
            price = self._price_here(located)
            chat = model._open(located)
            key_digest = hashlib.sha256(located.key.encode()).hexdigest()
            limiter = Limiter.of(f"{model.name} {model.base_url} {key_digest}", self.limits) if self.limits else None
            guard = self._connections.hold(chat)
            listed = None
            if price is None and located.vendor:  # searched while the model works on its first answer
                listed = loop.create_task(asyncio.to_thread(_listed_price, located, self.describe()))
            elif price is None and located.key and not is_loopback(located.base_url):  # a gateway, which takes a key
                _say_unpriced(self.describe())
            connection = self._connections[loop] = Connection(model, located, chat, limiter, guard, price, listed)
            await anext(connection.guard)
        return connection

    def _price_here(self, located: Located) -> Price | None:
        """Return the price that the model or the user's file of prices gives; None if there is none.

        Raises:
            InputError: The user's file of prices cannot be read.
        """
        from operad.runtime.models.prices import users_price  # not at import: most models are given no prices

        return self.price or users_price(located.name, located.base_url, os.environ)

    def find_price(self) -> Price | ListPrice | None:
        """Return the price of the model: its own, that of the user's file, or the list price; None if it is unknown.

        Raises:
            InputError: As for `located`; or the user's file of prices cannot be read.
        """
        from operad.runtime.models.prices import list_price

        located = self.located()
        return self._price_here(located) or list_price(located)


def _listed_price(located: Located, description: str) -> ListPrice | None:
    """Return the list price of a model; say once that it has none, if it is not one of the user's own servers."""
    from operad.runtime.models.prices import list_price

    price = list_price(located)
    if price is None and located.vendor and (located.vendor.needs_key or located.vendor.prices):
        _say_unpriced(description)
    return price


@cache
def _say_unpriced(description: str) -> None:
    _logger.warning(
        "%s: its price is unknown, so its calls do not count in costs; give it one: %s", description, SET_PRICE
    )


_RESPONSES_HOSTS = re.compile(
    r"([\w-]+\.)?api\.openai\.com|[\w.-]+\.(openai\.azure|cognitiveservices\.azure|services\.ai\.azure)\.(com|us|cn)",
    re.IGNORECASE,
)
_ASKS_FOR_RESPONSES = re.compile(r"/responses\b|\bresponses (api|endpoint)\b", re.IGNORECASE)
_ASKS_FOR_CHAT = re.compile(r"chat[/ _.-]?completions|\bresponses (api|endpoint)\b", re.IGNORECASE)
_UNKNOWN_MODEL = re.compile("model_not_found|DeploymentNotFound", re.IGNORECASE)


def assumed_api(base_url: str) -> Api:
    """Return the protocol of an endpoint by its address: responses at OpenAI and Azure OpenAI, otherwise chat completions.

    Azure has addresses of a single deployment, too, which speak chat completions alone.
    """
    try:
        parts = urlsplit(base_url)
        has_responses = _RESPONSES_HOSTS.fullmatch(parts.hostname or "") and "/deployments/" not in parts.path
    except ValueError:  # an invalid address, which the client reports
        has_responses = False
    return "responses" if has_responses else "chat-completions"


_SETTINGS = {
    re.compile(
        "response_format|json_schema"
    ): "if this endpoint has no JSON Schemas, set the model's `structured` to False",
    re.compile("tools|tool[_ ]choice"): "if this endpoint has no tool calls, set the model's `tools` to 'constrained'",
}
"""Setting of the model that avoids a field of a request, by the words of an endpoint that rejects the field."""


def _advice_on(api: Api, status: int, code: str, message: str) -> str:
    """Return advice on an error that a setting of the model avoids; empty for other errors.

    Args:
        api: The protocol of the request.
        status: HTTP status of the answer.
        code: Error code of the endpoint; may be empty.
        message: Error message of the endpoint.
    """
    if status in (403, 429) or status >= 500 or _UNKNOWN_MODEL.search(code):
        return ""
    if api == "chat-completions" and _ASKS_FOR_RESPONSES.search(message):
        return "the model needs the responses protocol: set its `api` to 'responses', as in Model(…, api=\"responses\")"
    if api == "responses" and (status in (404, 405) or _ASKS_FOR_CHAT.search(message)):
        return (
            "if this endpoint or model does not have the responses protocol, set the model's `api` to "
            "'chat-completions', as in Model(…, api=\"chat-completions\")"
        )
    return next((advice for words, advice in _SETTINGS.items() if words.search(message)), "")
