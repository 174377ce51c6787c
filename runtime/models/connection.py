"""Connection of a model: its client, and its limits, by event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakKeyDictionary, finalize, ref

from operad.runtime.events import current_scope
from operad.runtime.policies.deadline import paused_deadlines
from operad.runtime.policies.limits import Limiter, SharedLimits
from operad.runtime.values.errors import ModelError

if TYPE_CHECKING:
    from operad.runtime.models.chat_model import ChatModel
    from operad.runtime.models.names import Located
    from operad.runtime.models.prices import ListPrice
    from operad.runtime.models.turn import Price


M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class Connection(Generic[M]):
    """Client of a model in one event loop.

    Attributes:
        model: The model, settled.
        located: Its endpoint.
        limiter: Its limits.
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
