"""HTTP connections within limits: their number, the time for a request to arrive, and the time for its answer to be taken.

uvicorn answers 503 to requests past its own limit, but an idle connection sends no request, and one that takes no answer
keeps its place: without this module, a thousand of them use up the descriptors of the process and lock out all clients.
"""

from __future__ import annotations

import asyncio
import logging
import math
import socket
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from operad.server.http.access import log_connection
from operad.server.http.addresses import LOOPBACK_NETWORKS, address_group, is_in

MOST_CONNECTIONS = 256
"""Maximum number of connections at once; lower if half of the process's file descriptors are fewer."""

SPARE = 16
"""Number of connections past the maximum. They are answered 503, except that `HEALTH` is answered as ever."""

SPARE_SECONDS = 1.0
"""Maximum time for the head of a request to arrive on such a connection, in seconds."""

HEALTH = "/healthz"
"""Path that is answered however many connections there are."""

ADDRESS_PART = 1 / 4
"""Part of the connections that one address may have."""

SHARED_PART = 7 / 8
"""Part of the connections that a trusted proxy, or this machine, may have, where many clients share an address."""

GAVE_PLACE = "gave its place to another connection"

BACKLOG = 64
"""Maximum number of connections waiting to be accepted; asyncio accepts as many before any can be refused."""

HEADER_SECONDS = 10.0
"""Maximum time for the head of a request to arrive, in seconds."""

KEEP_ALIVE_SECONDS = 75
"""Time for which a connection without a request is kept after an answer, in seconds, unless others need its place. Clients
keep theirs for 5 to 60 s: a server that closes earlier may do so just as a client sends its next request, which fails."""

BODY_SECONDS = 60.0
"""Maximum time for the body of a request to arrive after its head, in seconds."""

SEND_SECONDS = 20.0
"""Time in which a client that does not take its answer at once has to take `SEND_BYTES` of it, in seconds."""

SEND_BYTES = 2**13
"""Minimum number of bytes of an answer that are taken in `SEND_SECONDS`, unless fewer are left."""

UNSENT_BYTES = 2**16
"""Number of bytes that the system keeps unsent per connection. It would keep megabytes, in which a client that stopped
reading goes unnoticed."""

PATIENCE = 1.0
"""Seconds that a connection may keep the server waiting although others need its place."""

MOST_AHEAD = 2**16
"""Maximum number of bytes that a client may send before its last request is answered; beyond them it is disconnected."""

QUIET_SECONDS = 60.0
"""Seconds between log lines about connections that could not be accepted."""

_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_LATE = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"

_logger = logging.getLogger(__name__)


def http_config(app: Any, *, proxies: Sequence[str] = (), **options: Any) -> uvicorn.Config:
    """Return the configuration of a server whose connections are within the limits.

    Args:
        app: The ASGI application.
        proxies: Addresses and networks of proxies, whose X-Forwarded-For names the client.
        options: Further options of `uvicorn.Config`.
    """
    mapped = [f"::ffff:{each}" for each in proxies if ":" not in each and "/" not in each]  # on a socket for both
    return uvicorn.Config(
        app,
        http=BoundedHttp,
        backlog=BACKLOG,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=[*proxies, *mapped],
        **options,
    )


class BoundedHttp(H11Protocol):
    """Protocol of one connection within the limits, for `uvicorn.Config(http=BoundedHttp)`.

    Attributes:
        address: Address that is counted for its client.
        spare: True if it is past the maximum.
        dropped: True if it was closed to make room, or for being slow.
        since: Time, on the event loop's clock, at which the current part of a request began.
    """

    address: str = ""
    spare: bool = False
    dropped: bool = False
    since: float = 0.0
    _part: Any = None
    _has_answered: bool = False
    _deadline: asyncio.TimerHandle | None = None
    _send_check: asyncio.TimerHandle | None = None
    _send_since: float = 0.0
    _unsent: int = 0
    _taken: int = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - uvicorn's signature
        """Accept the connection. If there are too many, drop one that gives its place, or answer 503."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(0)  # `pause_writing` is then called as soon as anything is left to send
        _notice_silence(transport.get_extra_info("socket"))
        self.address = address_group(self.client[0]) if self.client else ""
        if not self._make_room():
            self.spare, self.app = True, cast("Any", _only_health(self.app))
            spares = [each for each in self._others() if each.spare]
            if len(spares) >= SPARE:
                min(spares, key=lambda each: each.since).drop(GAVE_PLACE)
        self._restart_deadline()

    def data_received(self, data: bytes) -> None:
        """Handle received data, and start the time limit for the next part of the request."""
        super().data_received(data)
        self._restart_deadline()
        self._read_ahead()

    def on_response_complete(self) -> None:
        """Go on with the next request, and start its time limit; its first part may have arrived already."""
        super().on_response_complete()
        self._has_answered = True
        self._restart_deadline()

    def pause_writing(self) -> None:
        """Start the time limit for the client to take what is left to send; the application sends no more meanwhile."""
        super().pause_writing()
        self._unsent = self.transport.get_write_buffer_size()
        if self._send_check is None:
            self._send_since, self._taken = self.loop.time(), 0
            self._send_check = self.loop.call_later(SEND_SECONDS, self._check_taken)

    def resume_writing(self) -> None:
        """Count what the client has taken; the time limit goes on, because little at a time would begin it anew."""
        self._taken, self._unsent = self._taken + self._unsent, 0
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the time limits of the closed connection."""
        self._cancel_deadline()
        if self._send_check is not None:
            self._send_check.cancel()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer data that is not HTTP."""
        log_connection(self._client, msg.rstrip("."), 400)
        super().send_400_response(msg)

    def drop(self, why: str) -> None:
        """Close the connection at once, whatever is left to send."""
        self.dropped = True
        log_connection(self._client, why)
        self.transport.abort()

    @property
    def waits_since(self) -> float | None:
        """Time, on the event loop's clock, since which the server waits for the client; None if it does not."""
        if self.flow.write_paused:
            return self._send_since
        return self.since if self.conn.their_state in (h11.IDLE, h11.SEND_BODY) else None

    @property
    def asks_ahead(self) -> bool:
        """True if the client has sent more than the request that is answered, as one does that reads no answers."""
        return self.conn.their_state is h11.DONE and bool(self.conn.trailing_data[0])

    @property
    def _client(self) -> str:
        return self.client[0] if self.client else ""

    def _others(self) -> list[BoundedHttp]:
        """Return the other connections of the server that are not about to close."""
        all_ = (each for each in self.connections if isinstance(each, BoundedHttp))
        return [each for each in all_ if each is not self and not each.dropped]

    def _make_room(self) -> bool:
        """Return True if there is a place for the connection, if necessary after another one was dropped.

        That is the one that waits longest for its client, otherwise one whose client asks ahead: hundreds of them could
        keep the server busy with requests whose answers fit into the buffers of the system.
        """
        others, most = [each for each in self._others() if not each.spare], most_connections()
        same = [each for each in others if each.address == self.address]
        if len(same) >= self._most_of_address(most):
            crowd = same
        elif len(others) >= most:
            address, _ = Counter(each.address for each in others).most_common(1)[0]
            crowd = [each for each in others if each.address == address]
        else:
            return True
        waiting = [(since, id(each), each) for each in crowd if (since := each.waits_since) is not None]
        since, _, longest = min(waiting, default=(0.0, 0, None))
        if longest is None or self.loop.time() - since < PATIENCE:
            longest = next((each for each in crowd if each.asks_ahead), None)
        if longest is not None:
            longest.drop(GAVE_PLACE)
        return longest is not None

    def _most_of_address(self, most: int) -> int:
        """Return the maximum number of connections of this connection's address, given that of all addresses."""
        named = self.config.forwarded_allow_ips if self.config.proxy_headers else []
        trusted = named.split(",") if isinstance(named, str) else named
        shared = any(is_in(self._client, network) for network in (*LOOPBACK_NETWORKS, *trusted))
        return math.ceil(most * (SHARED_PART if shared else ADDRESS_PART))

    def _read_ahead(self) -> None:
        """Read on after an early next request, at which uvicorn pauses: a paused connection does not see its client leave."""
        if self.conn.their_state is h11.DONE and self.flow.read_paused:
            if len(self.conn.trailing_data[0]) <= MOST_AHEAD:
                self.flow.resume_reading()
            else:
                self.drop("sends requests without waiting for the answers")

    def _restart_deadline(self) -> None:
        """Start the time limit of the part of the request that comes next, if that has changed."""
        state = self.conn.their_state
        is_kept = self._has_answered and state is h11.IDLE and not self.conn.trailing_data[0]  # uvicorn closes it
        if (state, is_kept) == self._part:
            return
        self._cancel_deadline()
        self._part, self.since = (state, is_kept), self.loop.time()
        if state in (h11.IDLE, h11.SEND_BODY) and not is_kept:
            seconds = BODY_SECONDS if state is h11.SEND_BODY else SPARE_SECONDS if self.spare else HEADER_SECONDS
            self._deadline = self.loop.call_later(seconds, self._close_late)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _close_late(self) -> None:
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):  # no response has started
            log_connection(self._client, "sent no whole request in time", 503 if self.spare else 408)
            self.transport.write(_BUSY if self.spare else _LATE)
        self.transport.close()

    def _check_taken(self) -> None:
        """Drop the connection if the client took too little in the last `SEND_SECONDS`, also if it is about to close."""
        left = self.transport.get_write_buffer_size()
        taken, self._send_check = self._taken + self._unsent - left, None
        if left and taken < SEND_BYTES:
            self.drop(f"took {taken} bytes of its answers in {SEND_SECONDS:g} s")
        elif left:
            self._taken, self._unsent = 0, left
            self._send_check = self.loop.call_later(SEND_SECONDS, self._check_taken)


def _notice_silence(connection: socket.socket | None) -> None:
    """Let the system report clients that have vanished, and those that read no more, where it can."""
    if connection is None:
        return
    options = [
        (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
        (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 60),
        (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 15),
        (socket.IPPROTO_TCP, "TCP_KEEPCNT", 4),
        (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", int(2 * SEND_SECONDS * 1000)),
        (socket.IPPROTO_TCP, "TCP_NOTSENT_LOWAT", UNSENT_BYTES),
    ]
    for level, name, value in options:
        if (option := getattr(socket, name, None)) is not None:
            try:
                connection.setsockopt(level, option, value)
            except OSError:  # the client has gone already, or the connection is not TCP
                return


def _only_health(app: Any) -> Callable[..., Any]:
    """Return an application that answers `HEALTH` and nothing else, and closes each connection."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        async def send_and_close(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = [pair for pair in message.get("headers", []) if pair[0].lower() != b"connection"]
                message = {**message, "headers": [*headers, (b"connection", b"close")]}
            await send(message)

        if scope["type"] == "http" and scope["path"] == HEALTH:
            await app(scope, receive, send_and_close)
        else:
            log_connection((scope.get("client") or ("",))[0], "there are too many connections", 503)
            headers = [(b"retry-after", b"5"), (b"content-length", b"0")]
            await send_and_close({"type": "http.response.start", "status": 503, "headers": headers})
            await send({"type": "http.response.body", "body": b""})

    return answer


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
