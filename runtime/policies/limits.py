"""Rate limits of an endpoint, shared by all runs, threads and event loops of the process."""

from __future__ import annotations

import asyncio
import math
import threading
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, fields
from typing import Protocol
from weakref import WeakValueDictionary

from operad.runtime.values.errors import InvalidError, Issue
from operad.runtime.values.forks import ProcessLock, after_fork

WINDOW = 60.0
"""Seconds over which requests and tokens are counted."""

LONGEST_HOLD_OFF = 600.0
"""Maximum number of seconds of a wait that an endpoint asks for; after that, a call is tried again."""

_LOOP_CHECK_SECONDS = 1.0
"""Interval, in seconds, at which a call that waits for one of another event loop checks if that loop was closed."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Rate limits of an endpoint; None means no limit.

        limits = Limits(concurrency=8, requests_per_minute=60)
        workflow = Workflow(facts >> answer, limits=limits)

    Attributes:
        concurrency: Maximum number of concurrent calls.
        requests_per_minute: Maximum number of calls begun in any 60 seconds.
        tokens_per_minute: Maximum number of tokens read and written in any 60 seconds. They are known only
            afterwards, so the calls in progress when the limit is reached exceed it.

    Raises:
        InvalidError: A limit is less than 1.
    """

    concurrency: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None

    def __post_init__(self) -> None:
        limits = {limit.name: getattr(self, limit.name) for limit in fields(self)}
        issues = [
            Issue(
                "limits", f"must be a whole number of at least 1, or None for no limit, not {value!r}", f"Limits.{name}"
            )
            for name, value in limits.items()
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1)
        ]
        if issues:
            raise InvalidError("limits", issues)

    @property
    def a_minute(self) -> bool:
        """True if there is a limit per minute."""
        return self.requests_per_minute is not None or self.tokens_per_minute is not None


class Limiter:
    """Admission of calls in the order of their arrival, as `Limits` allow.

    A limiter serves any number of threads and event loops, whose clocks must be the same, as those of `asyncio` are.
    A cancelled call gives up its place at once, a call whose event loop is closed within a second.

    Args:
        name: Name of the endpoint or the workflow that the limits belong to.
        everywhere: True if the name means the same in every process, as the address of an endpoint does.
    """

    def __init__(self, limits: Limits, name: str = "", *, everywhere: bool = False) -> None:
        self.limits = limits
        self.name = name
        self.everywhere = everywhere
        # Reentrant: the garbage collector may end a call in the same thread while the lock is held.
        self._lock = threading.RLock()
        self._queue: OrderedDict[_Call, None] = OrderedDict()
        self._inside: set[_Call] = set()
        self._begun: deque[float] = deque()
        self._spent: deque[tuple[float, int]] = deque()
        self._tokens = 0
        self._held_until = -math.inf
        after_fork(self._renew)

    def _renew(self) -> None:
        """Forget the calls in progress, which are those of the parent, and its lock."""
        self._lock = threading.RLock()
        self._queue.clear()
        self._inside.clear()

    @staticmethod
    def of(endpoint: str, limits: Limits) -> Limiter:
        """Return the process's only limiter for these limits at this endpoint.

        A limiter remembers the calls of the last minute while it is referenced; the newest limiters are always kept.

        Args:
            endpoint: The endpoint's address and, if it has separate limits for each key or model, key and model.
        """
        with _limiters_lock:
            limiter = _limiters.get((endpoint, limits))
            if limiter is None:
                limiter = _limiters[endpoint, limits] = Limiter(limits, endpoint, everywhere=True)
                _newest.append(limiter)
            return limiter

    @asynccontextmanager
    async def admitted(self) -> AsyncGenerator[None, None]:
        """Wait for admission; the body of the block is the call."""
        loop = asyncio.get_running_loop()
        with self._lock:
            last = next(reversed(self._queue), None)
            call = _Call(loop, behind_others=last is not None and (last.behind_others or last.loop is not loop))
            self._queue[call] = None
        try:
            while (opens := self._try_to_admit(call)) is not None:
                await call.until(opens)
            yield
        finally:
            with self._lock:
                self._queue.pop(call, None)
                self._inside.discard(call)
                self._admit_next()

    def spent(self, tokens: int) -> None:
        """Count used tokens. Call it in the event loop of the call that used them."""
        if tokens > 0 and self.limits.tokens_per_minute is not None:
            with self._lock:
                self._spent.append((asyncio.get_running_loop().time(), tokens))
                self._tokens += tokens

    def hold_off(self, seconds: float) -> None:
        """Admit no call for a number of seconds, at most `LONGEST_HOLD_OFF`, because the endpoint sent Retry-After."""
        if seconds > 0:
            with self._lock:
                until = asyncio.get_running_loop().time() + min(seconds, LONGEST_HOLD_OFF)
                self._held_until = max(self._held_until, until)

    def _try_to_admit(self, call: _Call) -> float | None:
        """Admit the call and return None, or return the time to try again; infinity to wait until the call is woken."""
        with self._lock:
            if call in self._inside:
                return None
            now = call.loop.time()
            opens = self._admission_time(call, now)
            if opens > now:
                return opens
            self._admit(call, now)
            self._admit_next()
            return None

    def _admit(self, call: _Call, now: float) -> None:
        del self._queue[call]
        self._inside.add(call)
        if self.limits.requests_per_minute is not None:
            self._begun.append(now)

    def _admission_time(self, call: _Call, now: float) -> float:
        """Return the time when the call may be admitted or must look again: `now` or earlier to admit it at once."""
        self._drop_expired(now)
        if next(iter(self._queue), None) is not call:
            return now + _LOOP_CHECK_SECONDS if call.behind_others else math.inf
        limits = self.limits
        if limits.concurrency is not None and len(self._inside) >= limits.concurrency:
            return now + _LOOP_CHECK_SECONDS if any(other.loop is not call.loop for other in self._inside) else math.inf
        opens = self._held_until
        if limits.requests_per_minute is not None and len(self._begun) >= limits.requests_per_minute:
            opens = max(opens, self._begun[0] + WINDOW)
        if limits.tokens_per_minute is not None and self._tokens >= limits.tokens_per_minute:
            opens = max(opens, self._spent[0][0] + WINDOW)
        return opens

    def _drop_expired(self, now: float) -> None:
        """Drop entries older than a minute, and calls whose event loop was closed."""
        while self._begun and self._begun[0] + WINDOW <= now:
            self._begun.popleft()
        while self._spent and self._spent[0][0] + WINDOW <= now:
            self._tokens -= self._spent.popleft()[1]
        self._inside.difference_update([call for call in list(self._inside) if call.loop.is_closed()])
        while (first := next(iter(self._queue), None)) and first.loop.is_closed():
            self._queue.pop(first, None)

    def _admit_next(self) -> None:
        """Admit and wake all queued calls for which there is room; one at a time would cost a loop turn for each.

        The call after them is woken, too, if the time of its admission is known: it waits for that time itself.
        """
        while first := next(iter(self._queue), None):
            if first.loop.is_closed():
                self._queue.pop(first, None)
                continue
            now = first.loop.time()
            opens = self._admission_time(first, now)
            if opens <= now:
                self._admit(first, now)
            try:
                if opens < math.inf:
                    first.call()
            except RuntimeError:  # the event loop has just been closed
                self._queue.pop(first, None)
                self._inside.discard(first)
            else:
                if opens > now:
                    return


def limiters(limits: Limits, name: str) -> tuple[Limiter | None, Limiter | None]:
    """Return the limiters of concurrent operators and of model calls of a workflow; None where it has no limit."""
    places = Limiter(Limits(concurrency=limits.concurrency)) if limits.concurrency else None
    if not limits.a_minute:
        return places, None
    rates = Limits(requests_per_minute=limits.requests_per_minute, tokens_per_minute=limits.tokens_per_minute)
    return places, Limiter(rates, f"workflow {name}")


class SharedLimits(Protocol):
    """Limits per minute of a limiter, enforced across several processes. Concurrency is limited in each process."""

    async def admit(self, limiter: Limiter) -> None:
        """Wait until all processes together permit a call that the limiter has admitted."""
        ...

    async def spent(self, limiter: Limiter, tokens: int) -> None:
        """Count tokens for all processes."""
        ...

    async def hold_off(self, limiter: Limiter, seconds: float) -> None:
        """Admit no call in any process for this many seconds."""
        ...


class Place:
    """A place granted by a limiter, which can be released and taken again."""

    def __init__(self, limiter: Limiter) -> None:
        self.limiter = limiter
        self._held: AsyncExitStack | None = None
        self._taking = asyncio.Lock()

    async def take(self) -> None:
        """Wait for the place, unless it is held already."""
        async with self._taking:
            if self._held is None:
                held = AsyncExitStack()
                await held.enter_async_context(self.limiter.admitted())
                self._held = held

    async def give(self) -> None:
        """Release the place, if it is held."""
        held, self._held = self._held, None
        if held is not None:
            await held.aclose()


_limiters_lock = ProcessLock()
# Keeps the newest limiters alive, so that a model created anew for each job still counts the calls of the last minute.
_newest: deque[Limiter] = deque(maxlen=64)
_limiters: WeakValueDictionary[tuple[str, Limits], Limiter] = WeakValueDictionary()


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """A call that waits for admission, or has been admitted."""

    loop: asyncio.AbstractEventLoop
    behind_others: bool
    """True if calls of other event loops are queued before it."""
    called: asyncio.Event = field(default_factory=asyncio.Event)

    def call(self) -> None:
        """Wake the waiting call, from any thread.

        Raises:
            RuntimeError: The event loop of the call is closed.
        """
        self.loop.call_soon_threadsafe(self.called.set)

    async def until(self, when: float) -> None:
        """Wait until the call is woken, or until a time of its event loop's clock."""
        self.called.clear()
        timer = self.loop.call_at(when, self.called.set) if when < math.inf else None
        try:
            await self.called.wait()
        finally:
            if timer:
                timer.cancel()
