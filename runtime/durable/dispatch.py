"""Requests of this process to workers, and their outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module

from operad.runtime.durable.group_commit import GroupCommit
from operad.runtime.durable.notifications import Listener, channel_of
from operad.runtime.durable.outcome_waiter import Waiting
from operad.runtime.durable.store import Store
from operad.runtime.durable.work_table import Request


class Dispatch:
    """Requests of this process to workers, which are written in groups; another thread waits for all outcomes.

    The constructor may block.

    Args:
        store: The tables of runs.

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
