"""Limits of a server."""

from __future__ import annotations

from pydantic import Field

from operad.runtime.values.value import Value


class Bounds(Value):
    """Limits of a server.

    Attributes:
        runs: Maximum number of runs that have not ended, including those that wait for a person.
        seconds: Maximum duration of a run, including the time that it waits for a person.
        body: Maximum size of a request's body, in bytes.
        body_seconds: Maximum time for a body to arrive.
        kept: Maximum number of ended runs that can still be requested.
        kept_seconds: Time for which ended runs can be requested.
        kept_bytes: Maximum total size of the jobs, events and results of ended runs. The newest is kept in any case.
        events: Maximum number of a run's events that can be followed; older ones are dropped.
        event_bytes: Maximum size of these events as JSON, in bytes.
        followers: Maximum number of connections that follow runs.
        requests_a_minute: Maximum number of requests per key, or of all together without keys. None for no limit.
        beat: Seconds between the comments that keep a stream's connection alive.
        session_seconds: Maximum idle time of an MCP session: without a request, and without an open stream.
    """

    runs: int = Field(default=16, ge=1)
    seconds: float = Field(default=3600.0, gt=0)
    body: int = Field(default=4 * 2**20, ge=1)
    body_seconds: float = Field(default=30.0, gt=0)
    kept: int = Field(default=200, ge=0)
    kept_seconds: float = Field(default=3600.0, ge=0)
    kept_bytes: int = Field(default=2**27, ge=0)
    events: int = Field(default=2_000, ge=1)
    event_bytes: int = Field(default=2**20, ge=1)
    followers: int = Field(default=100, ge=1)
    requests_a_minute: int | None = Field(default=None, ge=1)
    beat: float = Field(default=15.0, gt=0)
    session_seconds: float = Field(default=300.0, gt=0)


DEFAULT_BOUNDS = Bounds()
