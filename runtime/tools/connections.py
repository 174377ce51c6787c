"""The tool sources that a run has open."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from types import TracebackType
from typing import cast

from operad.runtime.events import current_scope
from operad.runtime.tools.tool import Tool, ToolGroup, ToolSource
from operad.runtime.values.errors import ToolError

log = logging.getLogger(__name__)


def connections() -> Connections:
    """Return the connections of the current run, or new ones outside of runs; the last one to leave them closes them.

    async with connections() as opened:
        tools = await opened.tools(toolkit.recommend(actions).tools)
    """
    scope = current_scope()
    return cast("Connections", scope.run.connections) if scope else Connections()


class Connections:
    """Opens each tool source when it is first needed, and closes all when the last one that has entered them leaves.

    Every source is entered and left in a task of its own, so that any task of the run may be the
    first to need it. One that could not be opened is tried again by the next that needs it.

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
        """The recommended tools, those of sources in the place of the sources, which are open from now on.

        Args:
            recommended: Recommendations of a toolkit.

        Returns:
            Tools with different names, for that is what a model tells them apart by.

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
        if self._closing.is_set():
            raise ToolError(f"tools {source.name!r} cannot be opened: the run they belong to has ended")
        opened = self._opened.get(source.id)
        if opened is None:
            opened = self._opened[source.id] = asyncio.get_running_loop().create_future()
            holder = asyncio.create_task(self._hold(source, opened))
            holder.add_done_callback(lambda _: opened.cancel())  # others that wait: it will not open
            self._holders[holder] = opened
        return await asyncio.shield(opened)

    async def _hold(self, source: ToolSource, opened: asyncio.Future[ToolGroup]) -> None:
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
