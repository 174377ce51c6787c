"""Access control: keys, hosts and origins, the size of bodies, requests per minute."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from ipaddress import ip_address
from typing import Any

from operad.runtime.values.errors import InputError
from operad.runtime.values.valid_json import to_json
from operad.server.bounds import Bounds
from operad.server.problems import RefusedError

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

SHORTEST_KEY = 16
"""Characters of the shortest key."""

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
"""The names of this machine."""

OPEN = frozenset({"/", "/healthz"})
"""Paths that need no key, because their content is not secret."""

_MINUTE = 60.0

_DROPPED = 16
"""Multiple of its allowed size up to which a body is read to its end."""


def is_loopback(host: str) -> bool:
    """Return True if only this machine reaches a host."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_keys(texts: Sequence[str], where: str) -> tuple[str, ...]:
    """Keys, one a text; empty ones and those that begin with a # are none.

    Raises:
        InputError: One is too short, or cannot be sent.
    """
    keys = [text.strip() for text in texts]
    keys = [key for key in keys if key and not key.startswith("#")]
    for number, key in enumerate(keys, 1):
        if len(key) < SHORTEST_KEY or not re.fullmatch(r"[!-~]+", key):
            raise InputError(
                f"{where}: key {number} has to be {SHORTEST_KEY} or more visible ASCII characters without spaces; "
                "make one: python -c 'import secrets; print(secrets.token_urlsafe())'"
            )
    return tuple(keys)


def read_origins(texts: Sequence[str], where: str) -> tuple[str, ...]:
    """Return origins of pages, in the form that browsers send.

    Raises:
        InputError: A text is not an origin.
    """
    for text in texts:
        if not re.fullmatch(r"https?://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:\d{1,5})?", text):
            raise InputError(
                f"{where} {text!r}: expected an origin in lower case, without a path, such as https://app.example.com or "
                "http://localhost:3000"
            )
    return tuple(texts)


class Guard:
    """Middleware that admits permitted requests only.

    Args:
        app: The application.
        keys: Accepted keys; empty to require no key.
        hosts: Hosts that a request may name; None for any. A foreign page whose name resolves to this server
            names its own host.
        bounds: Limits on the size of bodies and the number of requests.
        origins: Origins, other than its own, whose pages may send requests.
    """

    def __init__(
        self,
        app: App,
        keys: Sequence[str],
        hosts: Sequence[str] | None,
        bounds: Bounds,
        origins: Sequence[str] = (),
    ) -> None:
        self._app = app
        self._digests = [_digest(key.encode()) for key in keys]
        self._hosts = hosts
        self._bounds = bounds
        self._origins = frozenset(origins)
        self._requests: defaultdict[bytes, list[float]] = defaultdict(lambda: [0.0, 0.0])

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Let a request in, or refuse it."""
        if scope["type"] != "http":
            if scope["type"] != "websocket":
                await self._app(scope, receive, send)
            return
        headers = [(name.lower(), value) for name, value in scope["headers"]]
        try:
            self._check_whence(headers)
            if scope["path"] not in OPEN:
                self._count(self._key(headers))
            body = await self._body(receive)
        except RefusedError as problem:
            await _refuse(problem, send)
            return
        if body is None:
            return
        await self._app(scope, _replayed(body, receive), send)

    def _check_whence(self, headers: Sequence[tuple[bytes, bytes]]) -> None:
        host = _one(headers, b"host").decode("latin-1").lower()
        if self._hosts is not None and _name(host) not in self._hosts:
            raise RefusedError(
                403,
                f"Host: {host[:200]!r} is none of {', '.join(self._hosts)}; this server answers under these names alone, "
                "so that no page of another name can use it",
                param="Host",
            )
        origins = [value.decode("latin-1").lower() for name, value in headers if name == b"origin"]
        for origin in origins:
            if origin.partition("://")[2] != host and origin not in self._origins:
                raise RefusedError(
                    403,
                    f"Origin: {origin[:200]!r}: pages of other origins may not use this server; "
                    "ask from a program, or have the page's own server ask; --cors-origin allows an origin",
                    param="Origin",
                )

    def _key(self, headers: Sequence[tuple[bytes, bytes]]) -> bytes:
        """The digest of the key that was given; that of nothing, where none is asked for."""
        if not self._digests:
            return b""
        kind, _, given = _one(headers, b"authorization").partition(b" ")
        digest = _digest(given.strip())
        found = [hmac.compare_digest(digest, known) for known in self._digests]  # each, whatever the others say
        if kind.lower() != b"bearer" or not any(found):
            what = "is not one of this server's" if given else "is missing"
            raise RefusedError(401, f"the key {what}; send it as: Authorization: Bearer KEY", param="Authorization")
        return digest

    def _count(self, key: bytes) -> None:
        most = self._bounds.requests_a_minute
        if most is None:
            return
        began_and_count, now = self._requests[key], time.monotonic()
        if not began_and_count[1] or now - began_and_count[0] >= _MINUTE:
            began_and_count[:] = [now, 0]
        if began_and_count[1] >= most:
            left = int(_MINUTE - (now - began_and_count[0])) + 1
            raise RefusedError(429, f"{most} requests a minute are answered; come again in {left} s", retry_after=left)
        began_and_count[1] += 1

    async def _body(self, receive: Receive) -> bytes | None:
        """The whole body; None where the client has gone."""
        try:
            return await asyncio.wait_for(_read(receive, self._bounds.body), self._bounds.body_seconds)
        except asyncio.TimeoutError:
            raise RefusedError(
                408, f"the body did not arrive within {self._bounds.body_seconds:g} s; send it again"
            ) from None


async def _read(receive: Receive, most: int) -> bytes | None:
    """A body; of one that is too large the rest is read and dropped, or its sender would not hear why it is refused."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        part: bytes = message.get("body", b"")
        size += len(part)
        if size <= most:
            parts.append(part)
        if size > _DROPPED * most or not message.get("more_body", False):
            break
    if size > most:
        raise RefusedError(413, f"the body has more than the {most:,} bytes that are taken; send less")
    return b"".join(parts)


def _replayed(body: bytes, receive: Receive) -> Receive:
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return left.pop() if left else await receive()

    return replay


async def _refuse(problem: RefusedError, send: Send) -> None:
    body = to_json(problem.body).encode()
    headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), "Connection": "close"}
    pairs = [(name.lower().encode(), value.encode()) for name, value in (headers | problem.headers).items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})


def _one(headers: Sequence[tuple[bytes, bytes]], wanted: bytes) -> bytes:
    """A header's value; empty where it is not there, or there more than once."""
    values = [value for name, value in headers if name == wanted]
    return values[0] if len(values) == 1 else b""


def _name(host: str) -> str:
    """A host without its port."""
    found = re.fullmatch(r"(\[[0-9a-f:.]+\]|[^:\[\]]+)(:\d+)?", host)
    return found[1] if found else ""


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
