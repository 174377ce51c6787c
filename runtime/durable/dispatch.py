"""Requests of this process to workers, and their outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from operad.runtime.durable.group_commit import GroupCommit
from operad.runtime.durable.outcome_waiter import Waiting
from operad.runtime.durable.rows import EndedWork
from operad.runtime.durable.store import Store
from operad.runtime.durable.threads import in_thread
from operad.runtime.durable.wakeups import wakeups

if TYPE_CHECKING:
    from dbos import DBOSClient


class Request(NamedTuple):
    """Request for an operator's work.

    Attributes:
        queue: Queue of the workers that can execute the operator.
        step_id: Id of the work among all runs.
        text: Input of the work.
        version: Version of the code that workers must have.
    """

    queue: str
    step_id: str
    text: str
    version: str


class Dispatch:
    """Requests of this process to workers, which are written in groups; another thread waits for all outcomes.

    The constructor may block.

    Args:
        store: The tables of runs.
        executor_id: Id of this process, with which workers wake it.
    """

    def __init__(self, store: Store, executor_id: str) -> None:
        dbos_process = import_module("operad.runtime.durable.dbos_process")  # imported here: dbos takes a second
        self._store = store
        self._enqueue = dbos_process.enqueue
        self._client: DBOSClient = store.database.with_retries(partial(dbos_process.client, store.database.url), 0.0)
        self._waiting = Waiting(store.dbos.ended_work, partial(wakeups, store.database, [executor_id]))
        self._requests = GroupCommit[Request, None](self._write, "operad-requests")

    def stop(self) -> None:
        """Stop waiting, and close the connections."""
        self._requests.close()
        self._waiting.stop()
        self._client.destroy()

    async def outcome_of(self, request: Request) -> EndedWork:
        """Have workers do an operator's work, and return it when it has ended.

        Raises:
            InputError: The request cannot be written.
        """
        with self._waiting.expecting(request.step_id) as outcome:
            await self._requests.put(request)
            return await outcome

    async def forget(self, step_id: str) -> None:
        """Delete the outcome of an operator, so that it can be requested again."""
        await in_thread(self._store.database.with_retries, partial(self._client.delete_workflows, [step_id]))

    def _write(self, requests: Sequence[Request]) -> Sequence[None]:
        """Write requests into their queues, and wake the workers of these queues."""
        with self._waiting.wakeups.sending({request.queue for request in requests}) as before_commit:
            self._store.database.with_retries(partial(self._enqueue, self._client, requests, before_commit))
        return [None] * len(requests)

    @property
    def waiting_seconds(self) -> float:
        """Seconds for which the oldest request has waited for its commit; 0 if no request waits."""
        return self._requests.waiting_seconds
