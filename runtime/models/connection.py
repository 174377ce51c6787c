"""Connection of a model: its client, and its limits, by event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from operad.runtime.events import current_scope
from operad.runtime.policies.deadline import standing_still
from operad.runtime.policies.limits import Limiter, SharedLimits
from operad.runtime.values.errors import ModelError

if TYPE_CHECKING:
    from openai import AsyncOpenAI


@dataclass(frozen=True, slots=True)
class Connection:
    """Client of a model in one event loop, with its limits."""

    client: AsyncOpenAI
    limiter: Limiter | None
    guard: AsyncGenerator[None, None]


class Connections(WeakKeyDictionary[asyncio.AbstractEventLoop, Connection]):
    """Connections by event loop; which are open makes no model another one."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Connections)


def shared_limits() -> SharedLimits | None:
    """Return the limits shared with other processes, if the run around the call has them."""
    scope = current_scope()
    return scope.run.shared_limits if scope else None


async def hold_off(limiter: Limiter | None, failure: ModelError) -> None:
    """Let other calls wait, too, for as long as the endpoint asks this one to wait."""
    if limiter and failure.retry_after:
        limiter.hold_off(failure.retry_after)
        if shared := shared_limits():
            await shared.hold_off(limiter, failure.retry_after)


async def spend(limiters: Sequence[Limiter], tokens: int) -> None:
    """Count tokens, here and for other processes; an answer is not lost because that takes long."""
    for limiter in limiters:
        limiter.spent(tokens)
    if (scope := current_scope()) and (shared := scope.run.shared_limits):
        with standing_still(scope.deadlines):
            for limiter in limiters:
                await shared.spent(limiter, tokens)
