"""Responses whose work ends when the client disconnects: server-sent events, and answers that take long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

Ended = Callable[[bool], Awaitable[object]]
"""Function that ends the work of a response; called once, with False if the client disconnected before the end."""


async def _nothing_to_end(complete: bool) -> None:
    pass


class EventStream(Response):
    """Server-sent events, with comments that keep the connection alive.

    `ended` and the source do not depend on each other: a generator that has not started does not run its `finally`,
    and code inside it may swallow a cancellation.

    Args:
        parts: Source of the events, each part one or more whole events. It is closed at the end.
        beat: Seconds between comments.
        ended: Function to call at the end, whenever that is: before the first part, between parts, or after the last.
    """

    media_type = "text/event-stream"

    def __init__(self, parts: AsyncGenerator[bytes, None], beat: float, ended: Ended = _nothing_to_end) -> None:
        super().__init__(headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._parts = parts
        self._beat = beat
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events until the source ends or the client disconnects."""
        gone = asyncio.ensure_future(_until_gone(receive))
        writing = asyncio.ensure_future(self._write(send))
        try:
            both = {writing, gone}
            while not (await asyncio.wait(both, timeout=self._beat, return_when=asyncio.FIRST_COMPLETED))[0]:
                await send({"type": "http.response.body", "body": b": waiting\n\n", "more_body": True})
        finally:
            try:
                await self._ended(_succeeded(writing))
            finally:
                await _cancel(writing, gone)
                await self._parts.aclose()
        if not writing.cancelled() and (error := writing.exception()) and not isinstance(error, OSError):
            raise error

    async def _write(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for part in self._parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def reply_after(
    work: Coroutine[Any, Any, object], request: Request, make: Callable[[], Response], ended: Ended = _nothing_to_end
) -> Response:
    """Return a response that takes long, or an empty one if the client disconnects, which cancels the work.

    Args:
        work: Work to do before the response.
        make: Function that returns the response once the work is done.
        ended: Function to call at the end.
    """
    working, gone = asyncio.ensure_future(work), asyncio.ensure_future(_until_gone(request.receive))
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            return Response(status_code=204)
        working.result()
        return make()
    finally:
        try:
            await ended(_succeeded(working))
        finally:
            await _cancel(working, gone)


def _succeeded(work: asyncio.Future[Any]) -> bool:
    return work.done() and not work.cancelled() and work.exception() is None


async def _cancel(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
