"""Page of a run over HTTP, bound to this machine, behind a token in its address.

`data/picture` returns the run as the page draws it, `data/changes` streams its changes, `data/details` returns details
on demand; `data/answer` and `data/cancel` take a person's input.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Protocol
from urllib.parse import urlsplit

from operad.runtime.observe.metrics import Metrics
from operad.runtime.values.errors import InputError, MissingExtraError
from operad.runtime.values.pip import pip_install
from operad.runtime.workflow.workflow import Workflow
from operad.server.http.page_headers import PageHeaders
from operad.server.view.sources import LiveSource

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Mount
    from starlette.types import ASGIApp, Receive, Scope, Send

    from operad.server.http.connections import http_config, quiet_about_accept
    from operad.server.view.http import refusal
    from operad.server.view.run_page import RunPage
    from operad.server.view.runs_page import RunsPage
except ImportError as error:
    raise MissingExtraError(f"the page needs the extra `page`: {pip_install('page')}") from error

__all__ = ["HOST", "PageServer", "RunPage", "RunsPage", "Site", "live_page", "show"]

HOST = "127.0.0.1"
_OWN_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})
_CLOSING_SECONDS = 3.0
"""Maximum time to wait for the end of the server's thread, in seconds."""


class Site(Protocol):
    """A site that is served under a token."""

    @property
    def app(self) -> Starlette:
        """Application that answers its requests."""
        ...

    async def keep_up(self) -> None:
        """Work in the background while the site is served, until cancelled."""
        ...

    async def close(self) -> None:
        """Send the last changes to the connected browsers, and end their streams."""
        ...


class PageServer:
    """Server of a site, in a thread of its own, independent of runs; a context manager.

    Args:
        port: Port; 0 for any free port.

    Attributes:
        url: Address of the page, with its token, which allows reading, answering and cancelling the run.

    Raises:
        InputError: The port is not available.
    """

    def __init__(self, site: Site, port: int = 0) -> None:
        self._site = site
        self._listening = _listen(port)
        self._token = secrets.token_urlsafe(24)
        self._thread = threading.Thread(target=self._serve, name="operad-page", daemon=True)
        self._server: _Server | None = None
        self._ending = False
        self.url = f"http://{HOST}:{self._listening.getsockname()[1]}/{self._token}/"

    def __enter__(self) -> PageServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Send the last changes to the connected browsers, and stop the server."""
        self._ending = True
        if self._server:
            self._server.should_exit = True
        self._thread.join(_CLOSING_SECONDS)
        self._listening.close()

    def _serve(self) -> None:
        asyncio.run(self._serve_site())

    async def _serve_site(self) -> None:
        site = self._site
        quiet_about_accept(asyncio.get_running_loop())
        guarded = _Guard(Starlette(routes=[Mount(f"/{self._token}", app=site.app)]), self._token)
        self._server = _Server(guarded, site)
        self._server.should_exit = self._ending
        keeping = asyncio.ensure_future(site.keep_up())
        try:
            await self._server.serve([self._listening])
        finally:
            keeping.cancel()


class _Server(uvicorn.Server):
    """Server that ends the site's streams before it waits for connections to close."""

    def __init__(self, app: ASGIApp, site: Site) -> None:
        super().__init__(
            http_config(app, loop="asyncio", lifespan="off", log_level="critical", timeout_graceful_shutdown=1)
        )
        self._site = site

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._site.close()
        await super().shutdown(sockets)


def live_page(workflow: Workflow, source: LiveSource, titles: Mapping[str, str] | None = None) -> RunPage:
    """Return the page of a workflow's runs; with metrics, if their extra is installed."""
    try:
        metrics = Metrics()
    except MissingExtraError:
        return RunPage(source, workflow.name, titles=titles)
    workflow.add_listener(metrics)
    return RunPage(source, workflow.name, metrics.registry, titles)


@contextmanager
def show(workflow: Workflow, port: int = 0) -> Generator[str, None, None]:
    """Show the runs of a workflow on a page inside this context manager; later runs replace earlier ones.

        with show(workflow) as url:
            print(url)
            workflow.execute(job, reasoner)

    Args:
        port: Port of the page on this machine; 0 for any free port.

    Yields:
        The page's address.

    Raises:
        InputError: The port is not available.
    """
    source = LiveSource(workflow)
    try:
        with PageServer(live_page(workflow, source), port) as server:
            yield server.url
    finally:
        source.close()


class _Guard:
    """Middleware that rejects requests without the token, and requests from pages of other sites.

    Args:
        token: First part of the path.
    """

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._answer = PageHeaders(self._check)
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._answer(scope, receive, send)

    async def _check(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (self._refusal(Request(scope)) or self._app)(scope, receive, send)

    def _refusal(self, request: Request) -> Response | None:
        hosts = request.headers.getlist("host")
        if (
            len(hosts) != 1 or _hostname(hosts[0]) not in _OWN_HOSTS
        ):  # another site's name that resolves to this machine
            return refusal(403, "this page is for this machine alone: open it as 127.0.0.1 or localhost")
        given = request.scope["path"].removeprefix("/").partition("/")[0]
        if not secrets.compare_digest(given.encode("utf-8", "replace"), self._token):
            gone = "the server was restarted, or the address lacks its token: open the address that it printed"
            return refusal(404, gone, request)
        origin = request.headers.get("origin")
        if request.method == "POST":
            if origin is not None and origin != f"http://{hosts[0]}":
                return refusal(403, "another site may not do this")
            if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
                return refusal(415, "send it as application/json")
        return None


def _hostname(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _listen(port: int) -> socket.socket:
    listening = socket.socket()
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise InputError(
            f"cannot bind port {port}: {error.strerror or error}; choose another, or 0 for any free port"
        ) from error
    return listening
