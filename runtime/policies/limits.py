"""Limits on the calls to an endpoint, kept by all runs, threads and event loops of the process together."""

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

WINDOW = 60.0
"""Seconds over which requests and tokens are counted."""

LONGEST_HOLD_OFF = 600.0
"""Seconds that an endpoint can have its callers wait at most; then one of them asks again."""

_OTHER_LOOPS = 1.0
"""Seconds after which one that waits for a call of another event loop looks whether that was closed."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What an endpoint lets one do; None is no limit.

        limits = Limits(concurrency=8, requests_per_minute=60)
        workflow = Workflow(facts >> answer, limits=limits)

    Attributes:
        concurrency: Calls at once.
        requests_per_minute: Calls begun in any 60 seconds.
        tokens_per_minute: Tokens read and written in any 60 seconds. They are known only
            afterwards, so the calls that are under way when the limit is reached exceed it.

    Raises:
        InvalidError: A limit is less than 1.
    """

    concurrency: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None

    def __post_init__(self) -> None:
        given = {limit.name: getattr(self, limit.name) for limit in fields(self)}
        issues = [
            Issue("limits", f"must be at least 1, or None for no limit, not {value!r}", f"Limits.{name}")
            for name, value in given.items()
            if value is not None and value < 1
        ]
        if issues:
            raise InvalidError("limits", issues)

    @property
    def a_minute(self) -> bool:
        """Whether any of them is one of so many a minute."""
        return self.requests_per_minute is not None or self.tokens_per_minute is not None


class Limiter:
    """Lets calls in one after another, in the order in which they come, as `Limits` allow.

    It serves any number of threads and event loops, whose clocks are taken to be one, as
    `asyncio`'s are. A call that is cancelled gives up its place. So does one whose event loop is
    closed, a second later at most.

    Args:
        limits: What is allowed.
        name: Whose limits they are: an endpoint, or a workflow.
        everywhere: Whether that name means the same to every process, as the address of an endpoint does.
    """

    def __init__(self, limits: Limits, name: str = "", *, everywhere: bool = False) -> None:
        self.limits = limits
        self.name = name
        self.everywhere = everywhere
        # The garbage collector may end a call in the middle of a block under this lock, in the same thread.
        self._lock = threading.RLock()
        self._queue: OrderedDict[_Call, None] = OrderedDict()
        self._inside: set[_Call] = set()
        self._begun: deque[float] = deque()
        self._spent: deque[tuple[float, int]] = deque()
        self._tokens = 0
        self._held_until = -math.inf

    @staticmethod
    def of(endpoint: str, limits: Limits) -> Limiter:
        """The process's one limiter for these limits at this endpoint.

        It remembers the last minute for as long as somebody holds it, and the newest few longer.

        Args:
            endpoint: The endpoint's address and, where it counts for each key or model, those too.
            limits: What the endpoint allows.
        """
        with _making:
            limiter = _limiters.get((endpoint, limits))
            if limiter is None:
                limiter = _limiters[endpoint, limits] = Limiter(limits, endpoint, everywhere=True)
                _newest.append(limiter)
            return limiter

    @asynccontextmanager
    async def admitted(self) -> AsyncGenerator[None, None]:
        """Wait for one's turn; the block within is the call."""
        loop = asyncio.get_running_loop()
        with self._lock:
            last = next(reversed(self._queue), None)
            call = _Call(loop, behind_others=last is not None and (last.behind_others or last.loop is not loop))
            self._queue[call] = None
        try:
            while (opens := self._enter(call)) is not None:
                await call.until(opens)
            yield
        finally:
            with self._lock:
                self._queue.pop(call, None)
                self._inside.discard(call)
                self._call_next()

    def spent(self, tokens: int) -> None:
        """Count tokens, from the coroutine that spent them."""
        if tokens > 0 and self.limits.tokens_per_minute is not None:
            with self._lock:
                self._spent.append((asyncio.get_running_loop().time(), tokens))
                self._tokens += tokens

    def hold_off(self, seconds: float) -> None:
        """Let nobody in for so many seconds, at most `LONGEST_HOLD_OFF`: the endpoint said Retry-After."""
        if seconds > 0:
            with self._lock:
                until = asyncio.get_running_loop().time() + min(seconds, LONGEST_HOLD_OFF)
                self._held_until = max(self._held_until, until)

    def _enter(self, call: _Call) -> float | None:
        """Let the call in, unless it is in already, or say when to try again; infinity is when it is called."""
        with self._lock:
            if call in self._inside:
                return None
            now = call.loop.time()
            opens = self._opens(call, now)
            if opens > now:
                return opens
            self._let_in(call, now)
            self._call_next()
            return None

    def _let_in(self, call: _Call, now: float) -> None:
        del self._queue[call]
        self._inside.add(call)
        if self.limits.requests_per_minute is not None:
            self._begun.append(now)

    def _opens(self, call: _Call, now: float) -> float:
        self._forget(now)
        if next(iter(self._queue), None) is not call:
            return now + _OTHER_LOOPS if call.behind_others else math.inf
        limits = self.limits
        if limits.concurrency is not None and len(self._inside) >= limits.concurrency:
            return now + _OTHER_LOOPS if any(other.loop is not call.loop for other in self._inside) else math.inf
        opens = self._held_until
        if limits.requests_per_minute is not None and len(self._begun) >= limits.requests_per_minute:
            opens = max(opens, self._begun[0] + WINDOW)
        if limits.tokens_per_minute is not None and self._tokens >= limits.tokens_per_minute:
            opens = max(opens, self._spent[0][0] + WINDOW)
        return opens

    def _forget(self, now: float) -> None:
        """Drop what is older than a minute, and calls whose event loop was closed."""
        while self._begun and self._begun[0] + WINDOW <= now:
            self._begun.popleft()
        while self._spent and self._spent[0][0] + WINDOW <= now:
            self._tokens -= self._spent.popleft()[1]
        self._inside.difference_update([call for call in list(self._inside) if call.loop.is_closed()])
        while (first := next(iter(self._queue), None)) and first.loop.is_closed():
            self._queue.pop(first, None)

    def _call_next(self) -> None:
        """Let in and call those for whom there is room: one at a time would take a busy event loop a turn for each.

        The next is called, too, if it can know when there will be: it waits for that from now on.
        """
        while first := next(iter(self._queue), None):
            if first.loop.is_closed():
                self._queue.pop(first, None)
                continue
            now = first.loop.time()
            opens = self._opens(first, now)
            if opens <= now:
                self._let_in(first, now)
            try:
                if opens < math.inf:
                    first.call()
            except RuntimeError:  # its loop has just been closed
                self._queue.pop(first, None)
                self._inside.discard(first)
            else:
                if opens > now:
                    return


class SharedLimits(Protocol):
    """Keeps the limits a minute of limiters over several processes; what they let in at once is for each to keep."""

    async def admit(self, limiter: Limiter) -> None:
        """For a call that the limiter has let in: wait until those of all processes together let it in, too."""
        ...

    async def spent(self, limiter: Limiter, tokens: int) -> None:
        """Count tokens for all processes."""
        ...

    async def hold_off(self, limiter: Limiter, seconds: float) -> None:
        """Let nobody in for so many seconds, in any process."""
        ...


class Place:
    """A place among those that a limiter lets in, which can be given away for a while.

    Args:
        limiter: What lets in.
    """

    def __init__(self, limiter: Limiter) -> None:
        self.limiter = limiter
        self._held: AsyncExitStack | None = None
        self._taking = asyncio.Lock()

    async def take(self) -> None:
        """Wait for it, if it is not taken already."""
        async with self._taking:
            if self._held is None:
                held = AsyncExitStack()
                await held.enter_async_context(self.limiter.admitted())
                self._held = held

    async def give(self) -> None:
        """Let another have it, if it was taken."""
        held, self._held = self._held, None
        if held is not None:
            await held.aclose()


_making = threading.Lock()
_newest: deque[Limiter] = deque(maxlen=64)  # models that are made anew for each job find their last minute
_limiters: WeakValueDictionary[tuple[str, Limits], Limiter] = WeakValueDictionary()


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    loop: asyncio.AbstractEventLoop
    behind_others: bool
    """Whether calls of other event loops came before it."""
    called: asyncio.Event = field(default_factory=asyncio.Event)

    def call(self) -> None:
        """Wake it, from any thread.

        Raises:
            RuntimeError: Its event loop is closed.
        """
        self.loop.call_soon_threadsafe(self.called.set)

    async def until(self, when: float) -> None:
        """Wait until it is called, or until that time of its loop."""
        self.called.clear()
        timer = self.loop.call_at(when, self.called.set) if when < math.inf else None
        try:
            await self.called.wait()
        finally:
            if timer:
                timer.cancel()
