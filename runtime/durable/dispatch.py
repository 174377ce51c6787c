"""Requests of this process to workers, and the wait for their outcomes."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module

from operad.runtime.durable.group_commit import GroupCommit
from operad.runtime.durable.notifications import Listener, channel_of
from operad.runtime.durable.store import Store
from operad.runtime.durable.work_table import Request

_logger = logging.getLogger(__name__)

SAFETY_LOOK, LOOK = 2.0, 0.2
"""Seconds between two looks at all outcomes: while notifications arrive, in case one was lost, and while they do not."""


class Waiting:
    """Thread that reads the outcomes for which this process waits, in one query, when it is notified.

    Args:
        ended: Function that returns the outcomes of the ended work among the work with some ids.
        listen: Function that returns the listener for the ids of ended work, given the function to call with each.
    """

    def __init__(
        self,
        ended: Callable[[Sequence[str]], Mapping[str, str | None]],
        listen: Callable[[Callable[[str], None]], Listener],
    ) -> None:
        self._read = ended
        self._waits: dict[str, asyncio.Future[str | None]] = {}
        self._heard: set[str] = set()
        self._changing = threading.Lock()
        self._wake = threading.Event()
        self._is_stopped = False
        self._listener = listen(self._hear)
        threading.Thread(target=self._run, name="operad-waiting", daemon=True).start()

    def stop(self) -> None:
        """Stop the thread."""
        self._is_stopped = True
        self._wake.set()
        self._listener.stop()

    @contextmanager
    def expecting(
        self, work_id: str, *, perhaps_ended: bool = False
    ) -> Generator[asyncio.Future[str | None], None, None]:
        """Wait for the outcome of work, within a context.

        Args:
            perhaps_ended: True if the work may have ended before the context is entered.

        Returns:
            A future of the outcome; None for work that was cancelled.
        """
        future: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._waits[work_id] = future
        if perhaps_ended:
            self._hear(work_id)
        elif len(self._waits) == 1:  # the thread waits without a limit
            self._wake.set()
        try:
            yield future
        finally:
            self._waits.pop(work_id, None)

    def _hear(self, work_id: str) -> None:
        """Note that work, or any work if the text is empty, may have ended; can be called in any thread."""
        with self._changing:
            self._heard.update([work_id] if work_id else list(self._waits))
        self._wake.set()

    def _run(self) -> None:
        looked = time.monotonic()
        while not self._is_stopped:
            pause = SAFETY_LOOK if self._listener.listening else LOOK
            if self._waits:
                self._wake.wait(max(0.0, looked + pause - time.monotonic()))
            else:
                self._wake.wait()
                looked = time.monotonic()
            self._wake.clear()
            with self._changing:
                heard, self._heard = self._heard, set()
            if is_due := time.monotonic() - looked >= pause:
                looked = time.monotonic()
            if ids := list(self._waits) if is_due else [each for each in heard if each in self._waits]:
                self._look(ids)

    def _look(self, ids: Sequence[str]) -> None:
        """Read outcomes, and resolve their futures."""
        try:
            found = self._read(ids)
        except Exception as error:  # noqa: BLE001 - callers would wait forever if this thread ended
            _logger.warning("cannot read outcomes of workers, will try again: %s", type(error).__name__)
            time.sleep(LOOK)
            with self._changing:
                self._heard.update(ids)
            self._wake.set()
            return
        for work_id, outcome in found.items():
            if (future := self._waits.get(work_id)) is None:
                continue
            try:
                future.get_loop().call_soon_threadsafe(_set_result, future, outcome)
            except RuntimeError:  # the event loop of the caller is closed
                self._waits.pop(work_id, None)


def _set_result(future: asyncio.Future[str | None], outcome: str | None) -> None:
    if not future.done():
        future.set_result(outcome)


class Dispatch:
    """Requests of this process to workers, which are written in groups; another thread waits for all outcomes.

    The constructor may block.

    Attributes:
        channel: Channel on which this process is notified of outcomes.

    Raises:
        InputError: The database cannot be reached or used.
    """

    def __init__(self, store: Store, executor_id: str) -> None:
        delivery = import_module("operad.runtime.durable.delivery")  # imported here: it takes half a second
        delivery.set_up(store.database)
        self.channel = channel_of(executor_id)
        self._store = store
        self._enqueue = delivery.enqueue
        self._waiting = Waiting(store.work.ended, partial(Listener, store.database, self.channel))
        self._requests = GroupCommit[Request, str](self._write, "operad-requests")

    def stop(self) -> None:
        """Stop waiting."""
        self._requests.close()
        self._waiting.stop()

    async def outcome_of(self, request: Request) -> str | None:
        """Have workers do an operator's work, and return its outcome when it has ended; None if it was cancelled.

        Raises:
            InputError: The request cannot be written.
        """
        with self._waiting.expecting(request.id) as outcome:
            known = await self._requests.put(request)
            if known == request.id:
                return await outcome
        with self._waiting.expecting(known, perhaps_ended=True) as outcome:  # it was requested before
            return await outcome

    def _write(self, requests: Sequence[Request]) -> Sequence[str]:
        return self._store.work.request(requests, self._enqueue)

    @property
    def waiting_seconds(self) -> float:
        """Seconds for which the oldest request has waited for its commit; 0 if no request waits."""
        return self._requests.waiting_seconds
