"""Notifications of PostgreSQL, with which processes wake each other after changes of the database.

A notification is only a hint, because the work and its outcomes are in the database. A process that misses one finds
them with its next look, a few seconds later.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable

from operad.runtime.durable.database import Database, first_line

_logger = logging.getLogger(__name__)

AGAIN = 1.0
"""Seconds between two attempts to listen after a failure, and between two checks of the connection."""


def channel_of(executor_id: str) -> str:
    """Return the channel of a process: a valid name of PostgreSQL."""
    return f"operad_{hashlib.sha256(executor_id.encode()).hexdigest()[:24]}"


class Listener:
    """Thread that receives the notifications on a channel over a connection of its own; it reconnects after failures.

    Args:
        heard: Function that is called in the thread with the text of each notification. When listening starts or ends,
            it is called with an empty text, because notifications may have been missed.

    Attributes:
        listening: True while notifications arrive.
    """

    def __init__(self, database: Database, channel: str, heard: Callable[[str], None]) -> None:
        self.listening = False
        self._database = database
        self._channel = channel
        self._heard = heard
        self._stopped = threading.Event()
        self._warned = False
        threading.Thread(target=self._run, name="operad-notifications", daemon=True).start()

    def stop(self) -> None:
        """Stop listening."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._listen()
            except Exception as error:  # noqa: BLE001 - without notifications, processes look more often
                self._set_listening(listening=False)
                if not (self._warned or self._stopped.is_set()):
                    self._warned = True
                    _logger.warning("no notifications, looking more often until they arrive: %s", first_line(error))
            self._stopped.wait(AGAIN)

    def _listen(self) -> None:
        """Listen until stopped.

        Raises:
            Exception: Listening is not possible, or no longer possible.
        """
        with self._database.connection_of_its_own() as connection:
            connection.execute(f"LISTEN {self._channel}")
            # Test whether notifications arrive: a connection pooler may accept LISTEN, and pass on nothing.
            self._database.notify(self._channel, "")
            while not self._stopped.is_set():
                for notification in connection.notifies(timeout=AGAIN):
                    self._set_listening(listening=True)
                    if notification.payload:
                        self._heard(notification.payload)
                if not self.listening:
                    raise ConnectionError("notifications do not arrive; is there a connection pooler in between?")

    def _set_listening(self, *, listening: bool) -> None:
        """Set `listening`; after a change, call `heard`, because notifications may have been missed."""
        if listening != self.listening:
            self.listening = listening
            self._heard("")
        if listening:
            self._warned = False
