"""Conversations: variables that are kept between the runs of a session."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import Any


class Conversations:
    """Variables of conversations, in memory, by session and name."""

    def __init__(self) -> None:
        self._values: dict[str, dict[str, Any]] = {}
        self._lock = Lock()

    def get(self, session_id: str) -> Mapping[str, Any]:
        """Return the kept variables of a session."""
        with self._lock:
            return dict(self._values.get(session_id, {}))

    def keep(self, session_id: str, values: Mapping[str, Any]) -> None:
        """Store values for the next run of a session; other variables of the session are unchanged."""
        with self._lock:
            self._values.setdefault(session_id, {}).update(values)
