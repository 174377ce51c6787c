"""Responses: JSON that is always valid, and streams that end when the client disconnects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from operad.runtime.values.valid_json import to_json
from operad.server.problems import RefusedError


def json_reply(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a value as a JSON response."""
    return Response(to_json(value), status, headers, "application/json")


def error_reply(problem: RefusedError) -> Response:
    """Return an error as a JSON response."""
    return json_reply(problem.body, problem.status, problem.headers)


class EventStream(Response):
    """Server-sent events, whose source is closed when the client disconnects.

    Args:
        parts: Source of the events.
        closed: Function to call when the source is closed.
    """

    media_type = "text/event-stream"

    def __init__(self, parts: AsyncGenerator[bytes, None], closed: Callable[[], object] = lambda: None) -> None:
        super().__init__(headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._parts = parts
        self._closed = closed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events until the source ends or the client disconnects."""
        writing = asyncio.ensure_future(self._write(send))
        gone = asyncio.ensure_future(until_gone(receive))
        try:
            await asyncio.wait({writing, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (writing, gone):
                task.cancel()
            outcomes = await asyncio.gather(writing, gone, return_exceptions=True)
            try:
                await self._parts.aclose()
            finally:
                self._closed()
        if isinstance(outcomes[0], Exception) and not isinstance(outcomes[0], OSError):
            raise outcomes[0]

    async def _write(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for part in self._parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def until_gone(receive: Receive) -> None:
    """Wait until the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def while_connected(request: Request, work: Any) -> bool:
    """Await work while the client is connected.

    Returns:
        True if the work is done; False if the client disconnected, and the work was cancelled.
    """
    working = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(until_gone(request.receive))
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        return working.done()
    finally:
        for task in (working, gone):
            if not task.done():
                task.cancel()
        await asyncio.gather(working, gone, return_exceptions=True)
