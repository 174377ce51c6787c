"""Connections of an engine around a fork: those of the parent stay its own, and the child opens new ones."""

from __future__ import annotations

import logging
import threading
from typing import Any

from operad.runtime.durable.database_names import SQLITE, sqlalchemy
from operad.runtime.values.forks import after_fork, around_fork, leave_to_parent

_logger = logging.getLogger(__name__)

FORK_SECONDS = 5.0
"""Maximum seconds that a fork waits for transactions in progress."""


def guard_forks(engine: Any) -> None:
    """Keep the connections of an engine of SQLAlchemy from the children of this process, and the child's from the parent.

    A child may not even close a connection of its parent: on a server, that would end the session of the parent; in an
    SQLite file, the child would believe to hold the locks of the parent. A fork therefore waits for the transactions of
    an SQLite file, and closes its connections, which the parent opens again. The child of a process with connections
    to a server leaves them open and unused.
    """
    _Guard(engine)  # its listeners belong to the engine


class _Guard:
    """Connections of an engine that are in use, and whether more may be."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._moving = threading.Condition(threading.Lock())
        self._in_use: set[Any] = set()
        self._is_held = False
        listen = sqlalchemy().event.listen
        listen(engine, "do_connect", self._connect)
        listen(engine, "checkout", self._take)
        listen(engine, "checkin", self._give)
        if engine.dialect.name == SQLITE:
            around_fork(self._hold, self._release)
        after_fork(self._renew)

    def _connect(self, dialect: Any, record: Any, args: Any, options: Any) -> Any:
        self._take(None, record)
        try:
            return dialect.connect(*args, **options)
        except BaseException:
            self._give(None, record)
            raise

    def _take(self, _: Any, record: Any, *__: Any) -> None:
        with self._moving:
            self._in_use.add(record)

    def _give(self, _: Any, record: Any) -> None:
        with self._moving:
            self._in_use.discard(record)
            self._moving.notify_all()

    def _hold(self) -> None:
        self._is_held = self._moving.acquire(timeout=FORK_SECONDS)
        if not self._is_held:
            return
        if not self._moving.wait_for(lambda: not self._in_use, FORK_SECONDS):
            _logger.warning(
                "%s: this process forks in the middle of a transaction; the child should use another file, or be "
                "started with the method 'spawn'",
                self._engine.url.database,
            )
        self._engine.dispose()

    def _release(self) -> None:
        if self._is_held:
            self._is_held = False
            self._moving.release()

    def _renew(self) -> None:
        """Begin anew in a child, with connections of its own."""
        self._moving = threading.Condition(threading.Lock())
        self._in_use = set()
        leave_to_parent(self._engine.pool)
        self._engine.dispose(close=False)
