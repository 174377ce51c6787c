"""This process's instance of dbos, which allows one database per process.

Workers take work from its queues. Each operator that they execute is one dbos workflow, whose id consists of the run's
id and the operator's key in the run. Its result is the operator's outcome, a message or an error.
"""

# dbos's types are partly unknown, and some functions are private (see dbos_details.py).
# pyright: reportPrivateUsage=false, reportUnknownMemberType=false

from __future__ import annotations

import logging
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, NoReturn

from dbos import DBOS, DBOSClient, _dbos, _queue
from dbos._error import DBOSInitializationError
from dbos._sys_db import SystemDatabase
from sqlalchemy import URL, BigInteger, cast, event, func

from operad.runtime.durable.database import IDLE, ping_by_looking
from operad.runtime.durable.database_names import SQLITE, display_name
from operad.runtime.durable.dbos_details import check_details
from operad.runtime.durable.dispatch import Request
from operad.runtime.durable.fork_guard import guard_forks
from operad.runtime.durable.serializer import JsonSerializer, refuse_pickles
from operad.runtime.durable.wakeups import BeforeCommit
from operad.runtime.durable.work_signal import SAFETY_POLL, WorkSignal
from operad.runtime.values.errors import InputError
from operad.runtime.values.forks import after_fork, leave_to_parent

OPERATOR = "operad.operator"
"""Name of the dbos workflow that executes an operator."""

_SQLITE_WITH_SUBSEC = (3, 42)
"""First version of SQLite in which ``unixepoch('subsec')`` returns a time; earlier ones return NULL."""

Perform = Callable[[str, str], str]
"""Function that executes an operator in a thread of dbos: (step id, request text) → outcome text."""


class Queues(NamedTuple):
    """Queues from which a process takes work.

    Attributes:
        names: Names of the queues.
        concurrency: Maximum number of operators of a queue at once.
        recorded: Function that is called with the id of each step whose outcome was recorded, in a thread of dbos.
        listening: Function that returns True while wake-ups arrive, so that `DbosProcess.wake` is called for new work.
    """

    names: Sequence[str]
    concurrency: int
    recorded: Callable[[str], None]
    listening: Callable[[], bool]


class DbosProcess:
    """Instance of dbos in this process, created by `launch`; a process can have only one.

    Attributes:
        url: The database.
        executor_id: Id of this process in the database.
    """

    def __init__(self, url: URL, executor_id: str, perform: Perform, version: str, queues: Queues) -> None:
        self.url = url
        self.executor_id = executor_id
        self.version = version
        self._perform = perform
        self._queues = queues
        places = queues.concurrency if len(queues.names) == 1 else 0  # with several, that of an operator is unknown
        self._signals = {name: WorkSignal(queues.listening, places) for name in queues.names}
        self._takers: list[threading.Thread] = []
        self._finished = threading.local()

    def take_from(self, queues: Sequence[Any]) -> None:
        """Start to take work from queues of dbos, each in a thread that `wake` can wake."""
        for queue in queues:
            take = partial(_queue.queue_worker_thread, self._signals[queue.name], _dbos._get_dbos_instance(), queue)
            self._takers.append(threading.Thread(target=take, name=f"queue-worker-{queue.name}", daemon=True))
            self._takers[-1].start()

    def wake(self, queue: str = "") -> None:
        """Look for work now in a queue, or in all queues if no name is given."""
        for signal in [self._signals[queue]] if queue else self._signals.values():
            signal.wake()

    def perform(self, step_id: str, request: str) -> str:
        """Execute an operator, and return its outcome; called in a thread of dbos, which then records the outcome."""
        for signal in self._signals.values():
            signal.begin()
        try:
            outcome = self._perform(step_id, request)
        except BaseException:
            self._free_places()
            raise
        self._finished.step_id = step_id
        return outcome

    def returned(self, *_: object) -> None:
        """Report a recorded outcome; called when a thread of dbos returns its connection after a transaction.

        The first transaction of the thread after an operator's work is the one that recorded the outcome.
        """
        step_id = self._finished.__dict__.pop("step_id", None)
        if step_id is not None:
            self._queues.recorded(step_id)
            self._free_places()

    def _free_places(self) -> None:
        """Tell all queues that an operator has ended."""
        for signal in self._signals.values():
            signal.leave()

    def stop(self, seconds: int = 0) -> None:
        """Stop taking work, wait up to this many seconds for work in progress, and stop dbos.

        If another thread is already stopping dbos, wait for it. When the method returns, no more work is taken.
        """
        global _here
        with _launching:
            if _here is not self:
                return
            _here = None
            for signal in self._signals.values():
                signal.set()
            for taker in self._takers:
                taker.join()
            DBOS.destroy(workflow_completion_timeout_sec=seconds)


class LostError(Exception):
    """Error of work that belongs to another process now; its outcome in this process is discarded."""


def _refuse_to_wait(workflow_id: str, *_: object, **__: object) -> NoReturn:
    """Raise `LostError`; replaces a function of dbos whose wait would block a thread and the exit of the process."""
    raise LostError(workflow_id)


def _never_latest(*_: object, **__: object) -> bool:
    """Return False; replaces a query of dbos before each poll of a queue.

    The query is for work without a version, and all work of Operad has a version.
    """
    return False


_here: DbosProcess | None = None
_launching = threading.Lock()


@after_fork
def _renew() -> None:
    """Leave dbos to the parent; a child of a worker is none, and `launch` refuses to make it one."""
    global _here, _launching
    leave_to_parent(_here)
    _here, _launching = None, threading.Lock()


def launch(url: URL, executor_id: str, perform: Perform, *, version: str, queues: Queues) -> DbosProcess:
    """Launch dbos in this process.

    Args:
        url: The database.
        executor_id: Id that no other process has.
        perform: Function that executes operators.
        version: Version of the code; work of other versions is left to other processes.
        queues: Queues to take work from.

    Raises:
        InputError: This process already runs dbos, for the program itself or with another database; or functions of the
            installed dbos differ from those that are used here.
    """
    global _here
    with _launching:
        if _here is not None:
            raise InputError(
                f"this process is a worker of {display_name(_here.url)} already, and dbos serves one database per process; "
                f"start another process for {display_name(url)}"
            )
        if _is_in_use():
            raise InputError(
                "this program runs dbos for itself, or was forked from a worker, and dbos serves one application per "
                "process; start the worker in a process of its own: operad worker FILE --db …"
            )
        check_details()
        refuse_pickles()
        _silence()
        options: dict[str, Any] = {"connect_args": {"factory": _Connection}} if url.get_backend_name() == SQLITE else {}
        DBOS(
            config={
                "name": "operad",
                "system_database_url": url.render_as_string(hide_password=False),
                "serializer": JsonSerializer(),
                "executor_id": executor_id,
                "application_version": version,
                "use_listen_notify": False,
                "sys_db_idle_transaction_timeout_sec": IDLE,
                "log_level": "ERROR",
                "db_engine_kwargs": options,
            }
        )
        _silence()
        DBOS.listen_queues([])
        registry = _dbos._get_or_create_dbos_registry()
        registry.internal_queue_map.clear()
        registered = [
            registry._register_internal_queue(
                name, worker_concurrency=queues.concurrency, polling_interval_sec=SAFETY_POLL
            )
            for name in queues.names
        ]
        registry.internal_queue_map.clear()  # dbos would start its own threads for the queues, which cannot be woken
        try:
            DBOS.launch()
        except Exception:
            with suppress(Exception):
                DBOS.destroy()
            raise
        launched = _dbos._get_dbos_instance()
        # Stop the threads of dbos for new queues, schedules and delays, which are not used and poll every second.
        for stop in (*launched.background_thread_stop_events, launched._background_jobs_stop_event):
            stop.set()
        tables = launched._sys_db
        tables.await_workflow_result = _refuse_to_wait
        tables._is_latest_version = _never_latest
        _record_milliseconds(tables)
        ping_by_looking(tables.engine)
        guard_forks(tables.engine)
        _here = DbosProcess(url, executor_id, perform, version, queues)
        event.listen(tables.engine, "checkin", _here.returned)
        _here.take_from(registered)
        return _here


def client(url: URL) -> DBOSClient:
    """Return a client of dbos, which reads tables and enqueues work; missing tables are created."""
    check_details()
    refuse_pickles()
    _silence()
    new_client = DBOSClient(
        system_database_url=url.render_as_string(hide_password=False),
        serializer=JsonSerializer(),
        application_name="operad",
        sys_db_idle_transaction_timeout_sec=IDLE,
        lazy=True,
    )
    tables = new_client._sys_db
    try:
        if url.get_backend_name() == SQLITE:
            event.listen(tables.engine, "connect", _define_unixepoch)
        _record_milliseconds(tables)
        ping_by_looking(tables.engine)
        guard_forks(tables.engine)
        try:
            tables.verify_migrations()  # only reads, so that it does not wait for writers
        except DBOSInitializationError:
            tables.run_migrations()
    except Exception:
        new_client.destroy()
        raise
    # Close the connections of a client that is garbage-collected without `destroy`.
    weakref.finalize(new_client, tables.destroy).atexit = False
    return new_client


def enqueue(client: DBOSClient, requests: Sequence[Request], before_commit: BeforeCommit) -> None:
    """Put requests into their queues in one transaction; requests that are already queued or done do not change."""
    with client._sys_db.engine.begin() as connection:
        for queue, step_id, text, version in requests:
            client.enqueue_in_transaction(
                connection,
                {"workflow_name": OPERATOR, "queue_name": queue, "workflow_id": step_id, "app_version": version},
                text,
            )
        before_commit(connection)


def give_back(client: DBOSClient, step_id: str, begun_by: str, queue: str) -> bool:
    """Put work started by a process back into its queue; return False if another process has started it since."""
    return client._sys_db.reenqueue_for_recovery(step_id, [begun_by], queue)


def _record_milliseconds(tables: SystemDatabase) -> None:
    """Make dbos record times in SQLite in milliseconds, by the clock of `Store`, instead of whole seconds."""
    if tables.engine.dialect.name == SQLITE:
        now = cast((func.julianday("now") - 2440587.5) * 86_400_000, BigInteger)
        tables._now_ms_sql = lambda: now


class _Connection(sqlite3.Connection):
    """Connection to an SQLite file that defines the time function dbos needs."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _define_unixepoch(self)


def _define_unixepoch(connection: sqlite3.Connection, *_: object) -> None:
    """Define ``unixepoch('subsec')`` if this SQLite lacks it.

    On Python 3.12 and later, dbos creates tables with this expression as a column default. Every connection that
    inserts rows needs the function then, also on an earlier Python.
    """
    if sqlite3.sqlite_version_info < _SQLITE_WITH_SUBSEC:
        connection.create_function("unixepoch", 1, _unixepoch)


def _unixepoch(given: object) -> float | None:
    return time.time() if given == "subsec" else None


def _is_in_use() -> bool:
    return _dbos._dbos_global_instance is not None


def _silence() -> None:
    """Send the messages of dbos to `logging`, like those of any library."""
    log = logging.getLogger("dbos")
    log.handlers.clear()
    log.addHandler(logging.NullHandler())
    log.propagate = True
    log.setLevel(logging.ERROR)


@DBOS.workflow(name=OPERATOR)
def _operator(request: str) -> str:
    process = _here
    step_id = DBOS.workflow_id
    if process is None or step_id is None:
        raise _ExitingError
    return process.perform(step_id, request)


class _ExitingError(BaseException):
    """Error that ends work while the process exits, so that dbos records no outcome."""
