"""Waiting for outcomes that other processes produce."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager

from operad.runtime.durable.rows import EndedWork
from operad.runtime.durable.wakeups import Heard, Wakeups

_logger = logging.getLogger(__name__)

SHORTEST_LOOK, LONGEST_LOOK = 0.02, 0.2
"""Shortest and longest seconds between two polls without wake-ups; the more outcomes arrive, the shorter."""

SAFETY_LOOK = 2.0
"""Seconds between two polls of all outcomes while wake-ups arrive, in case a wake-up was lost."""


class Waiting:
    """Thread that reads all outcomes for which this process waits, in one query, when it is woken.

    Args:
        ended: Function that returns the ended work among the steps with some ids.
        listen: Function that returns the wake-ups of this process, given the function to call for each wake-up.

    Attributes:
        wakeups: Wake-ups of this process.
    """

    def __init__(
        self, ended: Callable[[Sequence[str]], Sequence[EndedWork]], listen: Callable[[Heard], Wakeups]
    ) -> None:
        self._read = ended
        self._waits: dict[str, asyncio.Future[EndedWork]] = {}
        self._announced: set[str] = set()
        self._changing = threading.Lock()
        self._wake = threading.Event()
        self._stopped = threading.Event()
        self.wakeups = listen(self._hear)
        threading.Thread(target=self._run, name="operad-waiting", daemon=True).start()

    def stop(self) -> None:
        """Stop the thread."""
        self._stopped.set()
        self._wake.set()
        self.wakeups.stop()

    @contextmanager
    def expecting(self, step_id: str) -> Generator[asyncio.Future[EndedWork], None, None]:
        """Wait for the outcome of a step, within a context that is entered before the step can end.

        Returns:
            A future of the step's ended work.
        """
        future: asyncio.Future[EndedWork] = asyncio.get_running_loop().create_future()
        self._waits[step_id] = future
        self._wake.set()
        try:
            yield future
        finally:
            self._waits.pop(step_id, None)

    def _hear(self, _: str, step_id: str) -> None:
        """Note that a step, or any step if the text is empty, may have ended; can be called in any thread."""
        with self._changing:
            self._announced.update([step_id] if step_id else list(self._waits))
        self._wake.set()

    def _run(self) -> None:
        early, pause, looked = set[str](), SHORTEST_LOOK, -math.inf
        while not self._stopped.is_set():
            self._wake.clear()
            if not self._waits:
                self._wake.wait()
                continue
            with self._changing:
                announced, self._announced = self._announced, set()
            early = (early | announced) & set(self._waits)
            listening = self.wakeups.listening
            everything = not listening or time.monotonic() - looked >= SAFETY_LOOK
            if everything:
                looked = time.monotonic()
            ended = self._ended(set(self._waits) if everything else early)
            early -= ended
            pause = SHORTEST_LOOK if ended or announced else min(LONGEST_LOOK, pause * 1.3)
            if not listening:
                self._stopped.wait(pause)
            elif early and pause < LONGEST_LOOK:  # announced, but not yet in the database
                self._wake.wait(pause)
            else:
                early.clear()
                self._wake.wait(max(0.0, looked + SAFETY_LOOK - time.monotonic()))

    def _ended(self, steps: Collection[str]) -> set[str]:
        """Read the outcomes of steps, resolve their futures, and return the ids of the steps that have ended."""
        if not steps:
            return set()
        try:
            found = self._read(list(steps))
        except Exception as error:  # noqa: BLE001 - callers would wait forever if this thread ended
            _logger.warning("cannot read outcomes of workers, will try again: %s", type(error).__name__)
            self._stopped.wait(LONGEST_LOOK)
            return set()
        for work in found:
            if (future := self._waits.get(work.step_id)) is None:
                continue
            try:
                future.get_loop().call_soon_threadsafe(_set_result, future, work)
            except RuntimeError:  # the event loop of the caller is closed
                self._waits.pop(work.step_id, None)
        return {work.step_id for work in found}


def _set_result(future: asyncio.Future[EndedWork], work: EndedWork) -> None:
    if not future.done():
        future.set_result(work)
