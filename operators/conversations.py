"""Conversations: variables that are kept between the runs of a session."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from threading import Lock
from typing import Any

MAX_SESSIONS = 1_000
"""Maximum number of sessions with kept variables. A job without a session id is a session of its own, and nothing tells
that a session has ended, so a server would otherwise keep the variables of all runs."""


class Conversations:
    """Variables of conversations, in memory, by session and name.

    At most `MAX_SESSIONS` sessions are kept; the least recently used ones are removed.
    """

    def __init__(self) -> None:
        self._values: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._lock = Lock()

    def get(self, session_id: str) -> Mapping[str, Any]:
        """Return the kept variables of a session."""
        with self._lock:
            if session_id not in self._values:
                return {}
            self._values.move_to_end(session_id)
            return dict(self._values[session_id])

    def keep(self, session_id: str, values: Mapping[str, Any]) -> None:
        """Store values for the next run of a session; other variables of the session are unchanged."""
        with self._lock:
            self._values.setdefault(session_id, {}).update(values)
            self._values.move_to_end(session_id)
            if len(self._values) > MAX_SESSIONS:
                self._values.popitem(last=False)
