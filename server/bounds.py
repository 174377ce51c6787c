"""What a server takes on, and no more."""

from __future__ import annotations

from pydantic import Field

from operad.runtime.values.message import Value


class Bounds(Value):
    """What a server takes on at most.

    Attributes:
        runs: Runs that have not ended, those that wait for a person included.
        seconds: How long a run may take, the time that it waits for a person included.
        body: Bytes of a request's body.
        body_seconds: How long a body may take to arrive.
        kept: Runs that have ended and can still be asked for.
        kept_seconds: How long they can.
        kept_bytes: How much they may hold together: jobs, events and results. The newest is kept whatever its size.
        events: Events of a run that can still be followed; older ones are dropped.
        event_bytes: Their size as JSON, in bytes.
        followers: Connections that follow runs.
        requests_a_minute: Requests of a key; of all together where there are no keys. None for any number.
        beat: Seconds of silence after which a stream says that it is alive.
        session_seconds: How long an MCP session may be idle: without a request, and without a stream that is open.
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
