"""Delivery of the ids of work to workers, by pgqueuer; the only module that uses it.

The queue delivers each id at least once, and again if the worker is silent for too long. It decides nothing: requests,
claims and outcomes are rows of `WorkTable`. Another queue needs the same three things: `set_up`, `enqueue`, `Deliveries`.
"""

from __future__ import annotations

import asyncio
import enum
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, closing, suppress
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

import psycopg
from pgqueuer import Queries, QueueManager, RetryRequested
from pgqueuer.adapters.persistence.qb import QueryBuilderEnvironment, QueryQueueBuilder, QuerySchedulerBuilder
from pgqueuer.domain.settings import DBSettings, Durability
from pgqueuer.models import Channel, Job, JobId, QueueEntrypoint, QueueManagerId
from pgqueuer.ports.driver import NotifyCallback
from pgqueuer.queries import EntrypointExecutionParameter, SyncQueries
from psycopg.rows import dict_row

from operad.runtime.durable.database import Database, first_line
from operad.runtime.durable.notifications import Listener
from operad.runtime.values.forks import after_fork, leave_to_parent

_SETTINGS = DBSettings(
    prefix="",
    db_schema=None,
    channel=Channel("operad_queue_changes"),
    function="operad_queue_changed",
    trigger="operad_queue_changed",
    queue_table="operad_queue",
    queue_table_log="operad_queue_log",
    statistics_table="operad_queue_statistics",
    schedules_table="operad_queue_schedules",
    queue_status_type="operad_queue_status",
    durability=Durability.balanced,
    widen_id=True,
)
"""Names of the tables. All settings are given, because pgqueuer takes missing ones from the environment."""

_MOST_AT_ONCE = 20
"""Maximum number of ids that are taken from the queue in one statement."""

_NEVER = timedelta(days=10_000)

_PAUSE = 0.5
"""Seconds between two attempts to reach the database."""


class Delivered(enum.Enum):
    """Answer of a worker to a delivered id."""

    DONE = enum.auto()
    """The id needs no further delivery."""
    AGAIN = enum.auto()
    """The id is delivered to any worker now."""
    TAKEN = enum.auto()
    """The queue is left as it is: another worker has the id, or it is delivered again after the usual silence."""


Handle = Callable[[str], Awaitable[Delivered]]
"""Function that handles a delivered id; it never raises."""


def set_up(database: Database) -> None:
    """Create the tables of the queue, or bring those of an earlier version of pgqueuer up to date. May block."""
    with closing(asyncio.SelectorEventLoop()) as loop:  # psycopg needs this one, also on Windows
        loop.run_until_complete(_set_up(database))


async def _set_up(database: Database) -> None:
    async with aclosing(_Driver(database)) as driver:
        queries = Queries(driver, *_builders())
        try:
            await QueueManager(queries).verify_structure()  # only reads, so that a user without other rights may do it
        except RuntimeError:
            await queries.upgrade()


def enqueue(connection: Any, items: Sequence[tuple[str, str]]) -> None:
    """Put ids into queues, within the transaction of a connection.

    Args:
        connection: Connection of SQLAlchemy.
    """
    queues, ids = [queue for queue, _ in items], [id_.encode() for _, id_ in items]
    SyncQueries(_Transaction(connection), QueryQueueBuilder(_SETTINGS)).enqueue(queues, [*ids], [0] * len(ids))


class Deliveries:
    """Delivery of the ids in some queues to this process.

    Args:
        places: Maximum number of ids of a queue that are handled at once.
        silence: Seconds without a sign of life after which the queue delivers ids to another process.
        handle: Function that handles an id, in the event loop of `run`.
    """

    def __init__(self, database: Database, queues: Sequence[str], places: int, silence: float, handle: Handle) -> None:
        self._silence = timedelta(seconds=silence)
        self._drivers = [_Driver(database) for _ in queues]
        self._managers: list[QueueManager] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_stopped = False
        for queue, driver in zip(queues, self._drivers, strict=True):
            jobs = _Jobs(driver, queue, places, silence)
            manager = QueueManager(jobs, _SETTINGS.channel)
            manager.entrypoint(queue, accepts_context=False)(partial(_deliver, jobs, handle))
            self._managers.append(manager)

    async def run(self) -> None:
        """Deliver ids until `stop` is called, and all handled ids are answered.

        It needs an event loop that nothing else blocks, because it also sends the signs of life.
        """
        self._loop = asyncio.get_running_loop()
        if self._is_stopped:
            return
        look = self._silence / 8  # a notification may be lost
        signs = self._silence / 2  # twice the time between two signs of life
        async with AsyncExitStack() as stack:
            for driver in self._drivers:
                await stack.enter_async_context(aclosing(driver))
            await asyncio.gather(
                *(manager.run(look, batch_size=1, heartbeat_timeout=signs) for manager in self._managers)
            )

    def stop(self) -> None:
        """Deliver no more ids; can be called in any thread."""
        self._is_stopped = True
        if self._loop is not None:
            with suppress(RuntimeError):  # it has ended
                for manager in self._managers:
                    self._loop.call_soon_threadsafe(manager.shutdown.set)


async def _deliver(jobs: _Jobs, handle: Handle, job: Job) -> None:
    answer = await handle((job.payload or b"").decode(errors="replace"))
    if answer is Delivered.AGAIN:
        raise RetryRequested(reason="the worker stops")
    if answer is Delivered.TAKEN:
        jobs.taken.add(job.id)


class _Jobs(Queries):
    """Queries of pgqueuer for a queue, with what its manager cannot be told otherwise.

    Attributes:
        taken: Ids of jobs of which nothing is recorded when they end here, because another worker may have them now.
    """

    def __init__(self, driver: _Driver, queue: str, places: int, silence: float) -> None:
        super().__init__(driver, *_builders())
        self.taken = set[JobId]()
        self._queue = queue
        self._places = places
        self._silence = silence
        self._looked = self._well_since = -math.inf

    async def dequeue(
        self,
        batch_size: int,
        entrypoints: dict[QueueEntrypoint, EntrypointExecutionParameter],
        queue_manager_id: QueueManagerId,
        global_concurrency_limit: int | None,
        heartbeat_timeout: timedelta,
    ) -> list[Job]:
        """Take as many jobs as there are free places; the manager itself needs two places at least.

        After an outage of the database or a pause of this process, all workers look silent until they had time for a
        sign of life. Their jobs are taken only after this process has looked regularly for as long.
        """
        now = time.monotonic()
        if now - self._looked > self._silence / 2:
            self._well_since = now
        silence = timedelta(seconds=self._silence) if now - self._well_since > self._silence else _NEVER
        most = min(self._places, _MOST_AT_ONCE)
        jobs = await super().dequeue(most, entrypoints, queue_manager_id, self._places, silence)
        self._looked = time.monotonic()
        return jobs

    # The manager asks these to find jobs that are due later, and jobs whose notification it has dropped. There are none of
    # the former; the latter it takes before it waits, because it looks again after each job that it took.

    async def eligible_queued_work(self, entrypoints: list[QueueEntrypoint]) -> int:
        """Return 0."""
        return 0

    async def queued_work(self, entrypoints: list[QueueEntrypoint]) -> int:
        """Return 0."""
        return 0

    async def next_deferred_eta(self, entrypoints: list[QueueEntrypoint]) -> timedelta | None:
        """Return None."""
        return None

    async def log_jobs(self, job_status: list[Any]) -> None:
        """Record the ends of jobs, except of those in `taken`."""
        ended = [each for each in job_status if each[0].id not in self.taken]
        self.taken.difference_update(each[0].id for each in job_status)
        if ended:
            await super().log_jobs(ended)

    async def aggregate_logs(self) -> None:
        """Delete the log, which is not read, instead of making statistics of it."""
        await self.clear_queue_log(self._queue)


class _Driver:
    """Driver of pgqueuer over one connection, which it opens again when the server has closed it."""

    def __init__(self, database: Database) -> None:
        self.shutdown = asyncio.Event()
        self.tm: Any = None  # for tasks of a driver, of which there are none
        self._database = database
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._connecting = asyncio.Lock()
        self._listener: Listener | None = None
        after_fork(self._leave)

    def _leave(self) -> None:
        """Leave the connection to the parent, in a child of this process."""
        leave_to_parent(self._connection)
        self._connection = None

    async def fetch(self, query: str, *args: object) -> list[dict[str, object]]:
        """Execute a statement as soon as the database can be reached, and return its rows."""
        while True:
            try:
                cursor = psycopg.AsyncRawCursor(await self._connected(), row_factory=dict_row)
                await cursor.execute(query.encode(), args or None, prepare=bool(args))
                return await cursor.fetchall() if cursor.description else []
            except psycopg.OperationalError as error:
                self._database.log_wait(f"waiting for the database: {first_line(error)}")
                await asyncio.sleep(_PAUSE)

    async def _connected(self) -> psycopg.AsyncConnection[Any]:
        async with self._connecting:
            if self._connection is None or self._connection.closed:
                engine = self._database.engine
                _, options = engine.dialect.create_connect_args(engine.url)
                self._connection = await psycopg.AsyncConnection.connect(**options, autocommit=True)
                # If the server crashes, it may forget that jobs were taken or done, and delivers them again.
                await self._connection.execute("SET synchronous_commit = off")
            return self._connection

    async def execute(self, query: str, *args: object) -> str:
        """Execute a statement."""
        await self.fetch(query, *args)
        return ""

    async def notify(self, channel: str, payload: str) -> None:
        """Send a notification."""
        await self.fetch("SELECT pg_notify($1, $2)", channel, payload)

    async def add_listener(self, channel: str, callback: NotifyCallback) -> None:
        """Call a function for each notification on a channel."""
        loop = asyncio.get_running_loop()

        def heard(text: str) -> None:
            if text:  # without a text, notifications may be missing; the manager looks often enough by itself
                with suppress(RuntimeError):  # the loop has ended
                    loop.call_soon_threadsafe(callback, text)

        self._listener = Listener(self._database, channel, heard)

    async def __aenter__(self) -> _Driver:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._listener is not None:
            self._listener.stop()

    async def aclose(self) -> None:
        """Close the connection; the manager still uses it after the context."""
        if self._connection is not None:
            await self._connection.close()


class _Transaction(NamedTuple):
    """Driver of pgqueuer within a transaction of SQLAlchemy."""

    connection: Any

    def fetch(self, query: str, *args: object) -> list[dict[str, object]]:
        """Execute a statement, and return its rows."""
        cursor = psycopg.RawCursor(self.connection.connection.driver_connection, row_factory=dict_row)
        return cursor.execute(query.encode(), args).fetchall()


def _builders() -> tuple[QueryBuilderEnvironment, QueryQueueBuilder, QuerySchedulerBuilder]:
    """Return the builders of statements on the tables that are named in the settings."""
    return QueryBuilderEnvironment(_SETTINGS), QueryQueueBuilder(_SETTINGS), QuerySchedulerBuilder(_SETTINGS)
