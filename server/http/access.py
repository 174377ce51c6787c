"""Access log: a line per request, also of those that are refused, with the name of the key and never the key."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

from operad.server.http.keys import Caller

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_MOST_PATH = 300
"""Maximum number of characters of a path in a line."""

_logger = logging.getLogger("operad.access")


class AccessLog:
    """Middleware that logs each request at its end, at INFO, to the logger ``operad.access``.

    A line has the client's address, the name of its user or key, the method, the path without its query, the status, the
    duration, and the id of the run. The status is 499 if the client disconnected before there was one.

    Args:
        app: The application. It sets the `Caller` as ``caller`` in the state of the request.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the application, and log it once it has ended."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status, gone = time.monotonic(), 499, False

        async def receive_and_note() -> Message:
            nonlocal gone
            message = await receive()
            gone = gone or message["type"] == "http.disconnect"
            return message

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start" and not gone:
                status = message["status"]
            await send(message)

        scope.setdefault("state", {})
        try:
            await self._app(scope, receive_and_note, send_and_note)
        except Exception:
            status = 500 if status == 499 and not gone else status
            raise
        finally:
            log_access(scope, status, time.monotonic() - began)


def log_access(scope: Scope, status: int, seconds: float) -> None:
    """Log a request: from the address that its scope names, with the key and the run of its state."""
    if not _logger.isEnabledFor(logging.INFO):
        return
    state: MutableMapping[str, Any] = scope.get("state") or {}
    caller: Caller | None = state.get("caller")
    client: Sequence[Any] = scope.get("client") or ("",)
    path = bytes(scope.get("raw_path") or b"").decode("ascii", "backslashreplace")
    _log(
        {
            "address": _address(client[0]),
            "key": (caller and caller.name) or None,
            "method": scope["method"],
            "path": path[:_MOST_PATH] if path.startswith("/") else "-",  # others may hold a name and a password
            "status": status,
            "seconds": round(seconds, 3),
            "run_id": (caller and caller.run_id) or None,
        }
    )


def log_connection(address: str, what: str, status: int | None = None) -> None:
    """Log what happened to a connection outside of requests."""
    if _logger.isEnabledFor(logging.INFO):
        _log({"address": _address(address), "status": status, "note": what})


def _log(fields: dict[str, Any]) -> None:
    shown = {name: value for name, value in fields.items() if value is not None}
    texts = {"seconds": "{:.3f} s", "run_id": "run {}"}
    line = " ".join(
        texts.get(name, "{}").format("-" if value is None else value)
        for name, value in fields.items()
        if name in shown or name == "key"
    )
    _logger.info("%s", line, extra={"fields": shown})


def _address(text: str) -> str:
    """Return an address as text; a proxy may have passed on anything."""
    return "".join(each if each.isascii() and each.isprintable() and each != " " else "?" for each in text[:64]) or "-"
