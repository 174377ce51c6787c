"""The MCP server at `/mcp`, imported and started by its first request: the import takes as long as the rest of the server."""

from __future__ import annotations

import asyncio
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from starlette.requests import HTTPConnection

from operad.server.api.replies import error_reply
from operad.server.api.runs import Runs, ending_error
from operad.server.api.seen_runs import caller_of

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

if find_spec("mcp") is None:  # a missing package is reported when the server starts, not by the first request
    raise ModuleNotFoundError("No module named 'mcp'", name="mcp")


class McpDoor:
    """An MCP server whose tools are the experts, as an ASGI application.

    The server works until `close`, in a task of its own, so that it can be closed before the connections are.

    Args:
        runs: Runs of the server.
    """

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._starting = asyncio.Lock()
        self._closing = asyncio.Event()
        self._sessions: StreamableHTTPSessionManager | None = None
        self._task: asyncio.Task[None] | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request; after `close`, with 503."""
        async with self._starting:
            if self._sessions is None and not self._closing.is_set():
                self._sessions = await self._start()
        if self._sessions is None or self._closing.is_set():
            await error_reply(ending_error())(scope, receive, send)
        else:
            user = import_module("operad.server.api.mcp_tools").session_user(caller_of(HTTPConnection(scope)))
            await self._sessions.handle_request({**scope, "user": user}, receive, send)

    async def close(self) -> None:
        """End all sessions."""
        self._closing.set()
        if self._task:
            await self._task

    async def _start(self) -> StreamableHTTPSessionManager:
        tools = await asyncio.to_thread(import_module, "operad.server.api.mcp_tools")
        sessions, opened = tools.ExpertTools(self._runs).sessions(), asyncio.Event()
        self._task = asyncio.ensure_future(self._serve(sessions, opened))
        await opened.wait()
        return sessions

    async def _serve(self, sessions: StreamableHTTPSessionManager, opened: asyncio.Event) -> None:
        async with sessions.run():
            opened.set()
            await self._closing.wait()
