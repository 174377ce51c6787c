"""This process's part in dbos, which allows one database per process.

Each operator whose message is kept is one workflow of dbos, under the id of its run and its key in it. What comes of
it, an error too, is that workflow's result. It is one function for all: whoever drives or works says what it does.
"""

# dbos's own types are partly unknown, and what it offers for recovery is private (test_durable_dbos.py holds it to each).
# pyright: reportPrivateUsage=false, reportUnknownMemberType=false

from __future__ import annotations

import logging
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from dbos import DBOS, DBOSClient, SetWorkflowID
from dbos._dbos import _get_dbos_instance, _get_or_create_dbos_registry
from dbos._error import DBOSInitializationError
from dbos._sys_db import SystemDatabase
from sqlalchemy import URL, BigInteger, cast, event, func

from operad.runtime.durable.database import IDLE
from operad.runtime.durable.places import SQLITE, shown
from operad.runtime.durable.serializer import JsonSerializer, refuse_pickles
from operad.runtime.values.errors import InputError

OPERATOR = "operad.operator"
"""What dbos calls the work of an operator."""

POLL = 0.05
"""Seconds between two looks of a worker for work."""

_UNIXEPOCH_KNOWS_SUBSEC = (3, 42)
"""The version of SQLite since which ``unixepoch('subsec')`` is a time; before, it is NULL."""

Perform = Callable[[str, str], str]
"""Does an operator's work, in a thread of dbos: from its id and the text that describes it to that of what came of it."""


class DbosProcess:
    """A launched dbos. Use `launch`: there is one in a process.

    Attributes:
        url: Its database.
        executor_id: What this process is called in it.
    """

    def __init__(self, url: URL, executor_id: str, perform: Perform, version: str) -> None:
        self.url = url
        self.executor_id = executor_id
        self.perform = perform
        self.version = version

    def start(self, step_id: str) -> Any:
        """Begin an operator's work in this process; or find who does, or did.

        Returns:
            A handle of dbos; `begun_here` says whether it began.
        """
        with SetWorkflowID(step_id):
            return DBOS.start_workflow(_operator, str(time.time()))  # dbos notes the second alone, in SQLite

    def stop(self, seconds: int = 0) -> None:
        """Take no more work, wait so many seconds for what is under way, and end.

        Another thread that is at it already is waited for: after this, nothing is taken from queues.
        """
        global _here
        with _launching:
            if _here is not self:
                return
            _here = None
            DBOS.destroy(workflow_completion_timeout_sec=seconds)


def begun_here(handle: Any) -> bool:
    """Whether the work was begun in this process by who got this handle."""
    return hasattr(handle, "future")


class LostError(Exception):
    """The work belongs to another process by now, and what came of it here counts for nothing."""


def _wait_for_no_other(workflow_id: str, *_: object, **__: object) -> NoReturn:
    """In the place of dbos's own waiting, which holds a thread, and the end of the process, until that one is done."""
    raise LostError(workflow_id)


_here: DbosProcess | None = None
_launching = threading.Lock()


def launch(
    url: URL,
    executor_id: str,
    perform: Perform,
    *,
    version: str,
    queues: Sequence[str] = (),
    concurrency: int = 1,
) -> DbosProcess:
    """Launch dbos in this process.

    Args:
        url: The database.
        executor_id: An id that no other process has.
        perform: What does operators' work.
        version: Of the code; work of another is left to others.
        queues: What to take work from.
        concurrency: How much work of a queue to do at once.

    Raises:
        InputError: This process runs dbos already, for itself or with another database.
    """
    global _here
    with _launching:
        if _here is not None:
            raise InputError(
                f"this process keeps runs in {shown(_here.url)} already, and dbos serves one database per process; "
                f"use that one, or another process for {shown(url)}"
            )
        if _is_in_use():
            raise InputError(
                "this program runs dbos for itself, and dbos serves one application per process; keep runs from a "
                "process of their own (operad run --durable), or have workers do the work (DurableWorkflow(url, workers=…))"
            )
        refuse_pickles()
        _quiet()
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
        _quiet()
        DBOS.listen_queues([])
        registry = _get_or_create_dbos_registry()
        registry.internal_queue_map.clear()
        for queue in queues:
            registry._register_internal_queue(queue, worker_concurrency=concurrency, polling_interval_sec=POLL)
        try:
            DBOS.launch()
        except Exception:
            with suppress(Exception):
                DBOS.destroy()
            raise
        tables = _get_dbos_instance()._sys_db
        tables.await_workflow_result = _wait_for_no_other
        _count_milliseconds(tables)
        _here = DbosProcess(url, executor_id, perform, version)
        return _here


def here() -> DbosProcess | None:
    """The dbos that was launched in this process for runs."""
    return _here


def client(url: URL) -> DBOSClient:
    """What looks into dbos's tables and puts work into queues, without doing any; makes the tables where there are none."""
    refuse_pickles()
    _quiet()
    made = DBOSClient(
        system_database_url=url.render_as_string(hide_password=False),
        serializer=JsonSerializer(),
        application_name="operad",
        sys_db_idle_transaction_timeout_sec=IDLE,
        lazy=True,
    )
    tables = made._sys_db
    try:
        if url.get_backend_name() == SQLITE:
            event.listen(tables.engine, "connect", _know_unixepoch)
        _count_milliseconds(tables)
        try:
            tables.verify_migrations()  # so that who only looks waits for nobody who writes
        except DBOSInitializationError:
            tables.run_migrations()
    except Exception:
        made.destroy()
        raise
    weakref.finalize(made, tables.destroy).atexit = False  # connections of a client that was dropped without `destroy`
    return made


def give_back(client: DBOSClient, step_id: str, begun_by: Sequence[str], queue: str) -> bool:
    """Put work that these processes had begun back into its queue; False where another has begun it since."""
    return client._sys_db.reenqueue_for_recovery(step_id, list(begun_by), queue)


def _count_milliseconds(tables: SystemDatabase) -> None:
    """Have times in SQLite noted to the millisecond, by the clock of the `Store`; dbos counts whole seconds."""
    if tables.engine.dialect.name == SQLITE:
        now = cast((func.julianday("now") - 2440587.5) * 86_400_000, BigInteger)
        tables._now_ms_sql = lambda: now


class _Connection(sqlite3.Connection):
    """A connection to an SQLite file on which dbos can ask for the time."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _know_unixepoch(self)


def _know_unixepoch(connection: sqlite3.Connection, *_: object) -> None:
    """Define ``unixepoch('subsec')``, which dbos writes into its tables on Python 3.12 and later, where SQLite lacks it.

    The tables hold the expression as the default of columns, so every connection that inserts needs the function: also
    on an earlier Python, when a later one made the file.
    """
    if sqlite3.sqlite_version_info < _UNIXEPOCH_KNOWS_SUBSEC:
        connection.create_function("unixepoch", 1, _unixepoch)


def _unixepoch(given: object) -> float | None:
    return time.time() if given == "subsec" else None


def _is_in_use() -> bool:
    from dbos import _dbos

    return _dbos._dbos_global_instance is not None


def _quiet() -> None:
    """Have dbos tell `logging` what it does, like any library."""
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
        raise _LeftError
    return process.perform(step_id, request)


class _LeftError(BaseException):
    """The process is on its way out; nothing is to be recorded."""
