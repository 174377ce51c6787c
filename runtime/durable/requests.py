"""Requests for work in other processes, written together when they are ready together."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import NamedTuple

from operad.runtime.durable.replay import THREADS


class Request(NamedTuple):
    """Request for an operator's work.

    Attributes:
        queue: Queue of the workers that can do it.
        step_id: Id of the work among all runs.
        text: Input of the work.
        version: Version of the code that can do it.
    """

    queue: str
    step_id: str
    text: str
    version: str


class Requests:
    """Requests on their way into the database (group commit).

    A request is written at once if no other one is being written. All that come meanwhile are written in the next
    transaction, so no request waits for others to come.

    Args:
        write: Function that writes requests in one transaction. It may block.
    """

    def __init__(self, write: Callable[[Sequence[Request]], None]) -> None:
        self._write = write
        self._lock = threading.Lock()
        self._ready: list[tuple[Request, Future[None]]] = []
        self._is_writing = False

    async def put(self, request: Request) -> None:
        """Write a request.

        Raises:
            Exception: This request cannot be written.
        """
        written = Future[None]()
        with self._lock:
            self._ready.append((request, written))
            begins, self._is_writing = not self._is_writing, True
        if begins:
            THREADS.submit(self._write_all)
        await asyncio.wrap_future(written)

    def _write_all(self) -> None:
        while True:
            with self._lock:
                these, self._ready = self._ready, []
                self._is_writing = bool(these)
            if not these:
                return
            self._write_these([each for each in these if each[1].set_running_or_notify_cancel()])

    def _write_these(self, these: Sequence[tuple[Request, Future[None]]]) -> None:
        try:
            self._write([request for request, _ in these])
        except BaseException as error:  # noqa: BLE001 - whoever made the request is told
            if len(these) > 1:  # one that cannot be written does not concern the others
                for each in these:
                    self._write_these([each])
                return
            for _, written in these:
                written.set_exception(error)
            return
        for _, written in these:
            written.set_result(None)
