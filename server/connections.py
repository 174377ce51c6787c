"""HTTP connections within limits: their number, and the time for a request to arrive.

uvicorn answers 503 to requests past its own limit, but an idle connection sends no request: without this module, a
thousand of them use up the descriptors of the process and lock out all clients.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 256
"""Maximum number of connections at once; lower if half of the process's file descriptors are fewer."""

BACKLOG = 64
"""Maximum number of connections waiting to be accepted; asyncio accepts as many before any can be refused."""

HEADER_SECONDS = 10.0
"""Maximum time for the head of a request to arrive, in seconds."""

BODY_SECONDS = 60.0
"""Maximum time for the body of a request to arrive after its head, in seconds."""

MOST_AHEAD = 2**16
"""Maximum number of bytes that a client may send before its last request is answered; beyond them it is disconnected."""

QUIET_SECONDS = 60.0
"""Seconds between log lines about connections that could not be accepted."""

_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_LATE = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"

_logger = logging.getLogger(__name__)


class BoundedHttp(H11Protocol):
    """Protocol of one connection within the limits, for `uvicorn.Config(http=BoundedHttp)`."""

    _state: Any = None
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - uvicorn's signature
        """Accept the connection; if there are too many, answer 503 and close it."""
        super().connection_made(transport)
        if len(self.connections) > most_connections():
            transport.write(_BUSY)
            transport.close()
        else:
            self._restart_deadline()

    def data_received(self, data: bytes) -> None:
        """Handle received data, and start the time limit for the next part of the request."""
        super().data_received(data)
        self._restart_deadline()
        self._read_ahead()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the time limit of the closed connection."""
        self._cancel_deadline()
        super().connection_lost(exc)

    def _read_ahead(self) -> None:
        """Read on after an early next request, at which uvicorn pauses: a paused connection does not see its client leave."""
        if self.conn.their_state is h11.DONE and self.flow.read_paused:
            if len(self.conn.trailing_data[0]) <= MOST_AHEAD:
                self.flow.resume_reading()
            else:
                self.transport.close()

    def _restart_deadline(self) -> None:
        """Start the time limit of the part of the request that comes next, if that has changed."""
        state = self.conn.their_state
        if state is self._state:
            return
        self._cancel_deadline()
        self._state = state
        if state in (h11.IDLE, h11.SEND_BODY):
            self._deadline = self.loop.call_later(
                HEADER_SECONDS if state is h11.IDLE else BODY_SECONDS, self._close_late
            )

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _close_late(self) -> None:
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):  # no response has started
            self.transport.write(_LATE)
        self.transport.close()


def most_connections() -> int:
    """Return the maximum number of connections of a server in this process."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return MOST_CONNECTIONS
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else min(MOST_CONNECTIONS, soft // 2)


def quiet_about_accept(loop: asyncio.AbstractEventLoop) -> None:
    """Make an event loop log connections that cannot be accepted once a minute, instead of 2,000 times a second."""
    logged = -QUIET_SECONDS

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        nonlocal logged
        if not str(context.get("message", "")).startswith("socket.accept()"):
            loop.default_exception_handler(context)
        elif time.monotonic() - logged >= QUIET_SECONDS:
            logged = time.monotonic()
            _logger.error("cannot accept connections: %s", context.get("exception"))

    loop.set_exception_handler(handle)
