"""Threads for sync functions of users: operators, tools, evaluators, knowledge bases.

A function may call `run` of a workflow, and wait for functions inside that run. Each level of nesting therefore has
places of its own: a function waits only for functions of deeper levels, never for one that waits for it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Generator
from concurrent.futures import CancelledError, Executor, Future
from contextlib import closing, contextmanager
from contextvars import Context, ContextVar, copy_context
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar, cast

from operad.runtime.values.base_errors import OperadError, describe, shorten
from operad.runtime.values.forks import after_fork

T = TypeVar("T")

_logger = logging.getLogger(__name__)

MOST_THREADS = 1_000
"""Maximum number of sync functions of users that run at once at one level of nesting; others wait for a thread."""

MOST_ABANDONED = 256
"""Maximum number of functions that may run on after they were given up; beyond it, no function starts."""

IDLE_SECONDS = 5.0
"""Seconds after which a thread without work ends."""

MOMENT = 0.1
"""Seconds that a generator has to end after its caller has given it up; afterwards it ends without a caller that waits."""


async def in_function_thread(who: str, function: Callable[..., T], *args: object) -> T:
    """Call a sync function of a user in a thread, with the current context variables.

    If the caller is cancelled, a thread cannot be stopped: the function is *given up*. A generator is closed at its
    next item, and a run that the function waits for is cancelled; otherwise the function runs on, a warning is logged,
    and its place is free for another function. These threads do not keep the process from exiting.

    Args:
        who: Name of the function in warnings and errors: ``operator 'facts'``.
        args: Its arguments.

    Raises:
        OperadError: Too many functions that were given up still run, or the system refuses another thread.
    """
    around = _current.get()
    call = FunctionCall(who, partial(function, *args), copy_context(), level=around.level + 1 if around else 0)
    done = asyncio.get_running_loop().run_in_executor(_threads, call)
    try:
        return cast("T", await asyncio.shield(done))
    except asyncio.CancelledError:
        if not done.done():
            if call.give_up() and call.ends_soon:
                await asyncio.wait([done], timeout=MOMENT)
            if not done.done():
                _threads.abandon(call)
            done.cancel()
        raise


class FunctionCall:
    """Call of a function in a thread.

    Args:
        who: Name of the function in warnings and errors.
        context: Context variables of the call.
        level: The level of nesting: the number of functions around this one that wait for its run.

    Attributes:
        who: Name of the function in warnings and errors.
        level: The level of nesting.
        result: Future of the return value.
        given_up: True once no caller waits for the function.
        ends_soon: True if the function ends at its next opportunity after it was given up.
    """

    def __init__(self, who: str, function: Callable[[], Any], context: Context, *, level: int) -> None:
        self.who = who
        self.level = level
        self.result: Future[Any] = Future()
        self.given_up = self.ends_soon = False
        self._function: Callable[[], Any] | None = function
        self._context = context
        self._changing = threading.Lock()
        self._cancel: list[Callable[[], object]] = []

    def __call__(self) -> None:
        """Call the function, and set the result."""
        function, self._function = self._function, None
        if function is None or not self.result.set_running_or_notify_cancel():
            return
        try:
            returned = self._context.run(self._enter, function)
        except BaseException as error:  # noqa: BLE001 - raised to the caller
            if self.given_up and not isinstance(error, CancelledError):
                _logger.info("%s was given up, and failed afterwards: %s", self.who, describe(error))
            self.result.set_exception(_storable(error))
        else:
            self.result.set_result(returned)
        finally:
            del self  # breaks the cycle result -> error -> traceback -> this frame -> self -> result

    def _enter(self, function: Callable[[], T]) -> T:
        _current.set(self)
        return function()

    def give_up(self) -> bool:
        """Give the function up, and cancel the run that it waits for; return False if it has not started."""
        if self.result.cancel():
            return False
        with self._changing:
            self.given_up = True
            cancel, self._cancel = self._cancel, []
        for each in cancel:
            self.ends_soon = True
            each()
        return True

    @contextmanager
    def waiting(self, cancel: Callable[[], object]) -> Generator[None, None, None]:
        """Call a function, which ends the wait in this block, if the call is given up; it may be already."""
        with self._changing:
            is_late = self.given_up
            if not is_late:
                self._cancel.append(cancel)
        if is_late:
            cancel()
        try:
            yield
        finally:
            with self._changing:
                if cancel in self._cancel:
                    self._cancel.remove(cancel)


_current: ContextVar[FunctionCall | None] = ContextVar("operad_function_call", default=None)
current_call: Callable[[], FunctionCall | None] = _current.get
"""Return the call of the function in whose thread the current code runs, or whose run it belongs to."""


def until_given_up(items: Generator[T, Any, Any]) -> Generator[T, None, None]:
    """Yield the items of a generator, which is closed at the end, or as soon as the function of this thread is given up."""
    call = _current.get()
    with closing(items):
        if call is not None:
            call.ends_soon = True
        for item in items:
            if call is not None and call.given_up:
                return
            yield item


def abandoned_functions() -> tuple[str, ...]:
    """Return the names of the functions that were given up and still run."""
    return _threads.abandoned()


class _FunctionThreads(Executor):
    """Daemon threads that are reused, and end after some idle seconds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[SimpleQueue[FunctionCall]] = []
        self._running: Counter[int] = Counter()
        self._waiting: defaultdict[int, deque[FunctionCall]] = defaultdict(deque)
        self._abandoned: dict[FunctionCall, None] = {}

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call a `FunctionCall` in a thread, as soon as its level has a place.

        Raises:
            OperadError: Too many functions that were given up still run, or the system refuses another thread.
        """
        call = cast("FunctionCall", fn)
        with self._lock:
            if len(self._abandoned) >= MOST_ABANDONED:
                raise OperadError(_too_many(call.who, self._names()))
            if self._running[call.level] < MOST_THREADS:
                self._begin(call)
            else:
                waiting = self._waiting[call.level]
                if not waiting:
                    _logger.warning(
                        "%s waits for a thread: %d sync functions run at once; limit the concurrency of operators, or "
                        "make functions that wait async",
                        call.who,
                        MOST_THREADS,
                    )
                waiting.append(call)
        return call.result

    def abandon(self, call: FunctionCall) -> None:
        """Give the place of a function that runs on to another function, and log a warning."""
        with self._lock:
            if call.result.done():
                return
            self._abandoned[call] = None
            number = len(self._abandoned)
            self._end(call)
        _logger.warning(
            "%s was given up, by a timeout or because its run was cancelled, but its function runs on in a thread, "
            "which cannot be stopped (%d such threads; the limit is %d): give what it waits for a timeout of its own, "
            "or make it an async function",
            call.who,
            number,
            MOST_ABANDONED,
        )

    def abandoned(self) -> tuple[str, ...]:
        """Return the names of the functions that were given up and still run."""
        with self._lock:
            return self._names()

    def _names(self) -> tuple[str, ...]:
        return tuple(call.who for call in self._abandoned)

    def _begin(self, call: FunctionCall) -> None:
        """Start a call in an idle or a new thread; called with the lock held."""
        if self._idle:
            self._idle.pop().put(call)
        else:
            thread = threading.Thread(target=self._serve, args=(call,), name="operad-function", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                raise OperadError(
                    f"{call.who}: the system refuses another thread, beside {threading.active_count()} of this process; "
                    "raise its limit (ulimit -u, or the limit of process ids of a container), limit the concurrency of "
                    "operators, or make functions that wait async"
                ) from error
        self._running[call.level] += 1

    def _end(self, call: FunctionCall) -> None:
        """Free the place of a call, and start the next one that waits for it; called with the lock held."""
        self._running[call.level] -= 1
        waiting = self._waiting[call.level]
        while waiting and self._running[call.level] < MOST_THREADS:
            following = waiting.popleft()
            if following.result.cancelled():
                continue
            try:
                self._begin(following)
            except OperadError as error:
                following.result.set_exception(error)

    def _serve(self, call: FunctionCall) -> None:
        """Perform calls until none has arrived for some seconds."""
        inbox: SimpleQueue[FunctionCall] = SimpleQueue()
        while True:
            call()
            with self._lock:
                if call in self._abandoned:  # another thread has its place
                    del self._abandoned[call]
                    return
                self._idle.append(inbox)
                self._end(call)
            del call  # an idle thread keeps no values of a user alive
            try:
                call = inbox.get(timeout=IDLE_SECONDS)
            except Empty:
                with self._lock:
                    if inbox in self._idle:
                        self._idle.remove(inbox)
                        return
                call = inbox.get()  # has been put meanwhile


_threads = _FunctionThreads()


@after_fork
def _renew() -> None:
    global _threads
    _threads = _FunctionThreads()


def _storable(error: BaseException) -> BaseException:
    """Return an error that a future can hold, which excludes StopIteration."""
    if not isinstance(error, StopIteration):
        return error
    told = RuntimeError("the function raised StopIteration")
    told.__cause__ = error
    return told


def _too_many(who: str, names: tuple[str, ...]) -> str:
    counted = [f"{name} ({number})" for name, number in Counter(names).most_common()]
    return (
        f"{who} cannot start: {len(names)} functions that were given up, by timeouts or cancelled runs, still run in "
        f"threads of this process: {shorten(counted)}; give what they wait for a timeout of its own, or make them async "
        "functions; until one of them ends, or the process is restarted, no sync function starts"
    )
