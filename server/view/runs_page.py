"""List of a database's runs, with a page for each."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.types import Receive, Scope, Send

from operad.runtime.durable.threads import in_thread
from operad.runtime.values.errors import OperadError
from operad.runtime.values.message import NO_USAGE, Usage
from operad.server.view.sources import LedgerSource, Source

if TYPE_CHECKING:
    from operad.runtime.durable.ledger import Ledger
    from operad.runtime.durable.tables import StoredRun
from operad.server.http.page_headers import content_policy
from operad.server.view.http import application, json_response
from operad.server.view.page import runs_page
from operad.server.view.run_page import RunPage

MOST_RUNS = 8
"""Maximum number of runs whose pages are kept up to date at once."""

MOST_LISTED = 1_000
"""Maximum number of runs in the list."""

MOST_OF_AN_ERROR = 300
"""Maximum number of characters of an error in the list."""


@dataclass(frozen=True, slots=True)
class _Followed:
    """A run whose page is kept up to date."""

    page: RunPage
    keeping: asyncio.Task[None]


class RunCatalog(Protocol):
    """Runs that a page lists, as the sender of a request may see them."""

    async def listed(self, request: HTTPConnection) -> Sequence[dict[str, Any]]:
        """Return the newest runs; see `listed_run`."""
        ...

    async def source(self, run_id: str, request: HTTPConnection) -> tuple[bool, Source]:
        """Return the source of a run, after True if it tells the sender everything.

        Raises:
            OperadError: No run has the id, or the sender may not see it.
        """
        ...


class RunsPage:
    """The runs of a catalog: a list, and a page for each, under ``runs/ID/``.

    Attributes:
        app: The application.
    """

    def __init__(self, catalog: RunCatalog, title: str) -> None:
        self._catalog = catalog
        self._title = title
        self._followed = OrderedDict[tuple[str, bool], _Followed]()
        self.app = application(
            Route("/", self._list), Route("/data/runs", self._runs), Mount("/runs/{run_id}", app=self._run)
        )

    async def keep_up(self) -> None:
        """Return at once: each run is followed as soon as its page is requested."""

    async def close(self) -> None:
        """Send the last changes to the connected browsers, and end their streams."""
        while self._followed:
            _, followed = self._followed.popitem()
            followed.keeping.cancel()
            await followed.page.close()

    async def _list(self, request: Request) -> Response:
        html = runs_page(self._title, await self._catalog.listed(request))
        return HTMLResponse(html, headers={"content-security-policy": content_policy(html)})

    async def _runs(self, request: Request) -> Response:
        return json_response(await self._catalog.listed(request))

    async def _run(self, scope: Scope, receive: Receive, send: Send) -> None:
        run_id = scope["path_params"]["run_id"]
        try:
            complete, source = await self._catalog.source(run_id, HTTPConnection(scope))
        except OperadError as error:
            raise HTTPException(404, str(error)) from error
        followed = self._followed.get((run_id, complete)) or self._follow(run_id, complete, source)
        self._followed.move_to_end((run_id, complete))
        await followed.page.app(scope, receive, send)

    def _follow(self, run_id: str, complete: bool, source: Source) -> _Followed:
        """Start to follow a run; drop the pages of idle runs if there are too many."""
        page, key = RunPage(source, run_id), (run_id, complete)
        self._followed[key] = _Followed(page, asyncio.ensure_future(page.keep_up()))
        idle = [other for other, followed in self._followed.items() if not followed.page.followed and other != key]
        for other in idle[: max(0, len(self._followed) - MOST_RUNS)]:
            self._followed.pop(other).keeping.cancel()
        return self._followed[key]


class LedgerCatalog:
    """The runs of a database, for everyone."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def listed(self, request: HTTPConnection) -> Sequence[dict[str, Any]]:
        """See `RunCatalog.listed`."""

        def look() -> list[dict[str, Any]]:
            alive = self._ledger.alive()
            return [listed_run(run, alive) for run in self._ledger.runs(MOST_LISTED)]

        return await in_thread(look)

    async def source(self, run_id: str, request: HTTPConnection) -> tuple[bool, Source]:
        """See `RunCatalog.source`."""
        return True, await in_thread(LedgerSource, self._ledger, run_id)


def listed_run(run: StoredRun, alive: Collection[str]) -> dict[str, Any]:
    """Return a run as the list shows it."""
    usage = Usage.model_validate_json(run.usage) if run.usage else NO_USAGE
    return {
        "id": run.run_id,
        "workflow": run.workflow,
        "state": "interrupted" if run.state == "running" and run.driver not in alive else run.state,
        "done": run.done,
        "total": max(run.done, run.total),
        "created": run.created,
        "seconds": max(0.0, run.updated - run.created),
        "usage": usage.model_dump(),
        "verdict": run.verdict,
        "error": run.error[:MOST_OF_AN_ERROR],
    }
