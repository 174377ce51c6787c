"""Access control: keys, hosts and origins, the size of bodies, requests and wrong keys per minute."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Collection, MutableMapping, Sequence
from typing import Any

from operad.runtime.values.errors import InputError
from operad.runtime.values.valid_json import to_json
from operad.server.http.access import App, Message, Receive, Scope, Send
from operad.server.http.addresses import address_group
from operad.server.http.bounds import Bounds
from operad.server.http.keys import Caller, Key, User, find_key
from operad.server.http.problems import RefusedError

OPEN = frozenset({"/", "/healthz", "/inbox"})
"""Paths that need no key, because their content is not secret. Where the host application signs users in, only /healthz is open."""

Authenticate = Callable[[Scope], Awaitable[User]]
"""Function that returns the user of a request, or raises `RefusedError`."""

WRONG_KEYS = 20
"""Maximum number of wrong keys that an address may send in a minute; further ones are answered 429."""

_MINUTE = 60.0

_MOST_COUNTED = 10_000
"""Maximum number of clients that are counted at once; if there are more, all are counted anew."""

_DROP_FACTOR = 16
"""Multiple of the maximum size of a body up to which a larger body is read and dropped."""


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
        keys: Accepted keys; empty to require no key. A request has its
            `Caller` as `caller` in its state.
        hosts: Hosts that a request may name; None for any. A foreign page whose name resolves to this server
            names its own host.
        bounds: Limits on the size of bodies and the number of requests.
        origins: Origins, other than its own, whose pages may send requests.
        authenticate: Function that finds the user of a request, instead of keys; None for keys.
        signed: Paths whose requests the application checks itself, by a signature.
    """

    def __init__(
        self,
        app: App,
        keys: Sequence[Key],
        hosts: Sequence[str] | None,
        bounds: Bounds,
        origins: Sequence[str] = (),
        authenticate: Authenticate | None = None,
        signed: Collection[str] = (),
    ) -> None:
        self._app = app
        self._signed = signed
        self._keys = keys
        self._hosts = hosts
        self._bounds = bounds
        self._origins = frozenset(origins)
        self._authenticate = authenticate
        self._open = OPEN if authenticate is None else frozenset({"/healthz"})
        self._requests = _PerMinute(bounds.requests_a_minute)
        self._wrong_keys = _PerMinute(WRONG_KEYS)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Pass a request to the application, or refuse it."""
        if scope["type"] != "http":
            if scope["type"] != "websocket":
                await self._app(scope, receive, send)
            return
        scope.setdefault("state", {})["caller"] = Caller()
        headers = [(name.lower(), value) for name, value in scope["headers"]]
        try:
            self._check_host_and_origin(headers)
            path = _path_below_mount(scope)
            if path not in self._open:
                if path in self._signed:
                    user = None
                elif self._authenticate is not None:
                    user = await self._authenticate(scope)
                else:
                    user = self._check_key(headers, address_group((scope.get("client") or ("",))[0]))
                scope["state"]["caller"] = Caller(user)
                if seconds_left := self._requests.count(user.name if user else ""):
                    most = self._bounds.requests_a_minute
                    raise RefusedError(
                        429,
                        f"the maximum is {most} requests a minute; retry in {seconds_left} s",
                        retry_after=seconds_left,
                    )
            body = await self._read_body(receive)
        except RefusedError as problem:
            await _refuse(problem, send)
            return
        if body is None:
            return
        await self._app(scope, _receive_again(body, receive), send)

    def _check_host_and_origin(self, headers: Sequence[tuple[bytes, bytes]]) -> None:
        host = _single_header(headers, b"host").decode("latin-1").lower()
        if self._hosts is not None and _without_port(host) not in self._hosts:
            raise RefusedError(
                403,
                f"Host: {host[:200]!r} is not one of {', '.join(self._hosts)}; without keys or auth=, the server accepts "
                "only these names, so that pages of other names cannot use it",
                param="Host",
            )
        origins = [value.decode("latin-1").lower() for name, value in headers if name == b"origin"]
        for origin in origins:
            if origin.partition("://")[2] != host and origin not in self._origins:
                raise RefusedError(
                    403,
                    f"Origin: {origin[:200]!r}: pages of other origins may not use this server; "
                    "call it from a program, or have the page's own server call it; --cors-origin, or origins=, allows an "
                    "origin. A proxy has to pass on the header Host",
                    param="Origin",
                )

    def _check_key(self, headers: Sequence[tuple[bytes, bytes]], address: str) -> Key | None:
        """Return the request's key, or None if no key is required; refuse a wrong key."""
        if not self._keys:
            return None
        kind, _, given = _single_header(headers, b"authorization").partition(b" ")
        key = find_key(self._keys, given.strip())
        if kind.lower() != b"bearer" or key is None:
            if given and (seconds_left := self._wrong_keys.count(address)):
                raise RefusedError(
                    429,
                    f"the maximum is {WRONG_KEYS} wrong keys a minute; retry in {seconds_left} s",
                    retry_after=seconds_left,
                )
            fault = "is not one of this server's" if given else "is missing"
            raise RefusedError(401, f"the key {fault}; send it as: Authorization: Bearer KEY", param="Authorization")
        return key

    async def _read_body(self, receive: Receive) -> bytes | None:
        """Return the whole body; None if the client has disconnected."""
        try:
            return await asyncio.wait_for(_read_all(receive, self._bounds.body), self._bounds.body_seconds)
        except TimeoutError:
            raise RefusedError(
                408, f"the body did not arrive within {self._bounds.body_seconds:g} s; send it again"
            ) from None


class _PerMinute:
    """Counts of what clients do in a minute that begins with the first time.

    Args:
        most: Maximum number of times a minute; None for no limit.
    """

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._counts: dict[str, tuple[float, int]] = {}

    def count(self, client: str) -> int:
        """Count one more time of a client, and return 0; or return the seconds to wait, if that is too often."""
        if self._most is None:
            return 0
        now = time.monotonic()
        began, times = self._counts.get(client, (now, 0))
        if now - began >= _MINUTE:
            began, times = now, 0
        if times >= self._most:
            return int(_MINUTE - (now - began)) + 1
        if len(self._counts) >= _MOST_COUNTED:
            self._counts.clear()
        self._counts[client] = (began, times + 1)
        return 0


async def _read_all(receive: Receive, most: int) -> bytes | None:
    """Return a body. The rest of a too large one is read and dropped, so that its sender receives the error."""
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
        if size > _DROP_FACTOR * most or not message.get("more_body", False):
            break
    if size > most:
        raise RefusedError(413, f"the body is larger than the maximum of {most:,} bytes; send less")
    return b"".join(parts)


def _receive_again(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that first gives a body that was read already."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return pending.pop() if pending else await receive()

    return replay


async def _refuse(problem: RefusedError, send: Send) -> None:
    body = to_json(problem.body).encode()
    headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), "Connection": "close"}
    pairs = [(name.lower().encode(), value.encode()) for name, value in (headers | problem.headers).items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})


def _path_below_mount(scope: Scope) -> str:
    """Return the path of a request below the place where the application is mounted."""
    path: str = scope["path"]
    below = path.removeprefix(scope.get("root_path") or "")
    return below if below.startswith("/") else path


def _single_header(headers: Sequence[tuple[bytes, bytes]], wanted: bytes) -> bytes:
    """Return the value of a header; empty if it is missing or given more than once."""
    values = [value for name, value in headers if name == wanted]
    return values[0] if len(values) == 1 else b""


def _without_port(host: str) -> str:
    """Return a host without its port; empty if it is not valid."""
    found = re.fullmatch(r"(\[[0-9a-f:.]+\]|[^:\[\]]+)(:\d+)?", host)
    return found[1] if found else ""
