"""Open tool sources of a run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from types import TracebackType

from operad.runtime.events import current_scope
from operad.runtime.tools.tool import Tool, ToolGroup, ToolSource
from operad.runtime.values.errors import ToolError

log = logging.getLogger(__name__)


def connections() -> Connections:
    """Return the connections of the current run, or new ones outside of runs. The last user to leave closes them.

    async with connections() as opened:
        tools = await opened.tools(toolkit.recommend(actions).tools)
    """
    scope = current_scope()
    return scope.run.connections if scope else Connections()


class Connections:
    """Open tool sources of a run. Sources are opened on first use, and closed when the last user leaves the context.

    Each source is opened and closed in a task of its own, so that any task of the run can be the first to use it. A
    source that could not be opened is opened again on the next use.

        async with Connections() as connections:
            tools = await connections.tools(toolkit.recommend(actions).tools)
    """

    def __init__(self) -> None:
        self._users = 0
        self._closing = asyncio.Event()
        self._opened: dict[str, asyncio.Future[ToolGroup]] = {}
        self._holders: dict[asyncio.Task[None], asyncio.Future[ToolGroup]] = {}

    async def __aenter__(self) -> Connections:
        self._users += 1
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._users -= 1
        if self._users:
            return
        self._closing.set()
        for holder, opened in self._holders.items():
            if not opened.done():
                holder.cancel()
        if self._holders:
            await asyncio.wait(self._holders)

    async def tools(self, recommended: Iterable[Tool | ToolSource]) -> tuple[Tool, ...]:
        """Open the recommended tool sources, and return the tools, with each source replaced by its tools.

        Args:
            recommended: Tools and sources that a toolkit recommends.

        Returns:
            Tools with different names, because a model identifies them by name.

        Raises:
            ToolError: A source cannot be opened, or different tools have the same name.
        """
        items = list(recommended)
        sources = [item for item in items if isinstance(item, ToolSource)]
        groups = dict(zip((s.id for s in sources), await asyncio.gather(*map(self._open, sources)), strict=True))
        by_name: dict[str, Tool] = {}
        for item in items:
            for tool in groups[item.id].tools if isinstance(item, ToolSource) else (item,):
                if by_name.setdefault(tool.name, tool).function != tool.function:
                    raise ToolError(
                        f"two tools are named {tool.name!r}, and a model could not tell them apart: "
                        "name one differently, or give its source a prefix"
                    )
        return tuple(by_name.values())

    async def _open(self, source: ToolSource) -> ToolGroup:
        """Return the tools of a source; open it on first use."""
        if self._closing.is_set():
            raise ToolError(f"tools {source.name!r} cannot be opened: the run they belong to has ended")
        opened = self._opened.get(source.id)
        if opened is None:
            opened = self._opened[source.id] = asyncio.get_running_loop().create_future()
            holder = asyncio.create_task(self._keep_open(source, opened))
            holder.add_done_callback(
                lambda _: opened.cancel()
            )  # for other tasks that wait, if the source was not opened
            self._holders[holder] = opened
        return await asyncio.shield(opened)

    async def _keep_open(self, source: ToolSource, opened: asyncio.Future[ToolGroup]) -> None:
        """Open a source, set its group or error as the result of `opened`, and close it when the run ends."""
        try:
            async with source.open() as group:
                opened.set_result(group)
                await self._closing.wait()
        except Exception as error:
            if opened.done():
                log.warning("tools %r were not closed cleanly", source.name, exc_info=error)
            else:
                del self._opened[source.id]
                opened.set_exception(error)
