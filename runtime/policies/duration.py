"""Durations: numbers of seconds, or `datetime.timedelta`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

Duration = float | timedelta
"""A number of seconds, or a `datetime.timedelta`."""


def in_seconds(duration: Any) -> Any:
    """Return a timedelta as a number of seconds; other values are returned unchanged.

    Example:
        >>> in_seconds(timedelta(minutes=2))
        120.0
    """
    return duration.total_seconds() if isinstance(duration, timedelta) else duration
