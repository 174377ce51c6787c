"""The page of a run over HTTP: bound to this machine, behind a token in its address.

`data/picture` is the run as the page draws it, `data/changes` a stream of what changes in it, `data/details` what is
shown when asked; `data/answer` and `data/cancel` take what a person says.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import re
import secrets
import socket
import threading
from base64 import b64encode
from collections import OrderedDict
from collections.abc import AsyncGenerator, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from html import escape
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, cast
from urllib.parse import urlsplit

from operad.runtime.durable.drive import in_thread
from operad.runtime.events import Event, RunStarted
from operad.runtime.observe.metrics import Metrics, exposition
from operad.runtime.observe.trace import Trace
from operad.runtime.values.errors import InputError, MissingExtraError, OperadError, describe
from operad.runtime.values.valid_json import to_json
from operad.runtime.workflow.workflow import Workflow
from operad.server.view.page import page
from operad.server.view.picture import details, picture
from operad.server.view.sources import LedgerSource, LiveSource, Source

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
    from starlette.routing import Mount, Route
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from operad.server.connections import BACKLOG, BoundedHttp, quiet_about_accept
except ImportError as error:
    raise MissingExtraError("the page needs the extra `page`: pip install 'operad[page]'") from error

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from operad.runtime.durable.ledger import Ledger

HOST = "127.0.0.1"
PACE = 0.2
"""Seconds between looks at a run, and between messages to a browser."""

KEEP_ALIVE = 10.0
"""Seconds without a message, after which a browser gets a sign of life."""

MOST_STREAMS = 32
"""Browsers that follow a run at once."""

MOST_RUNS = 8
"""Runs of a database that are kept up with at once."""

MOST_LISTED = 1_000
"""Runs of a database that are listed."""

MAX_BODY = 2**20
"""The longest answer, in bytes."""

_HERE = frozenset({"127.0.0.1", "localhost", "::1"})
_SCRIPT = re.compile(r"<script\b[^>]*>(.*?)</script>", re.DOTALL | re.IGNORECASE)
_HEADERS = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
_LEAVING = 3.0


class Site(Protocol):
    """What is served under a token."""

    @property
    def app(self) -> Starlette:
        """What answers."""
        ...

    async def keep_up(self) -> None:
        """What is to be done meanwhile, until it is cancelled."""
        ...

    async def close(self) -> None:
        """Tell those who follow the last, and let them go."""
        ...


class RunPage:
    """The page of one run, or of one run after another.

    Args:
        source: Where its events come from.
        title: The page's title.
        metrics: What Prometheus is told at `metrics`; None for nothing.

    Attributes:
        app: What answers.
    """

    def __init__(self, source: Source, title: str, metrics: CollectorRegistry | None = None) -> None:
        self._source = source
        self._registry = metrics
        self._trace = Trace()
        self._fault = ""
        self._streams = 0
        self._closing = asyncio.Event()
        self._html = page(title)
        self._policy = _policy(self._html)
        self.app = _app(
            Route("/", self._page),
            Route("/data/picture", self._picture),
            Route("/data/changes", self._changes),
            Route("/data/details", self._details),
            Route("/data/answer", self._answer, methods=["POST"]),
            Route("/data/cancel", self._cancel, methods=["POST"]),
            Route("/metrics", self._metrics),
        )

    @property
    def followed(self) -> bool:
        """Whether a browser follows it."""
        return self._streams > 0

    # The run

    async def keep_up(self) -> None:
        """Take in what happens, until it is cancelled."""
        while True:
            more = await self._look()
            await asyncio.sleep(0 if more else PACE)

    async def close(self) -> None:
        """Tell those who follow the last, and let them go."""
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._look(), PACE)
        self._closing.set()

    async def _look(self) -> bool:
        happened: Sequence[Event] = ()
        with self._noting_faults():
            happened = await self._source.news()
        for event in happened:
            with self._noting_faults():
                self._take_in(event)
        return bool(happened)

    @contextmanager
    def _noting_faults(self) -> Generator[None, None, None]:
        """What one event breaks must not hide the others."""
        try:
            yield
        except Exception as error:  # noqa: BLE001
            self._fault = f"not all can be shown: {describe(error)[:300]}"

    def _take_in(self, event: Event) -> None:
        trace = self._trace
        if trace.run_id and event.run_id != trace.run_id and not isinstance(event, RunStarted):
            return  # of a run beside the one that is shown
        trace.apply(event)

    @property
    def _note(self) -> str:
        return self._fault or self._source.note(ended=self._trace.ended)

    def _told(self, since: int = 0) -> dict[str, Any]:
        """What the page gets: the picture, or what changed in it since a version.

        Beside what `picture` says there are ``note``, what people should know; and ``can``, what they can do:
        ``answer``, ``cancel``.
        """
        return {
            **picture(self._trace, since),
            "note": self._note,
            "can": ["answer", "cancel"] if self._source.control else [],
        }

    # What it answers

    async def _page(self, request: Request) -> Response:
        return HTMLResponse(self._html, headers={"content-security-policy": self._policy})

    async def _picture(self, request: Request) -> Response:
        return _json(self._told(_number(request.query_params.get("since", "0"))))

    async def _changes(self, request: Request) -> Response:
        if self._streams >= MOST_STREAMS:
            raise HTTPException(503, f"{MOST_STREAMS} browsers follow this run already; close one")
        since = _number(request.headers.get("last-event-id") or request.query_params.get("since", "0"))
        return StreamingResponse(self._messages(since), media_type="text/event-stream")

    async def _messages(self, since: int) -> AsyncGenerator[str, None]:
        self._streams += 1
        try:
            said, last = None, monotonic()
            while True:
                closing, now = self._closing.is_set(), (self._trace.version, self._note)
                if now != said:
                    told = self._told(since)
                    yield f"id: {told['version']}\ndata: {to_json(told)}\n\n"
                    since, said, last = told["version"], now, monotonic()
                elif monotonic() - last > KEEP_ALIVE:
                    yield ": \n\n"
                    last = monotonic()
                if closing:
                    return
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._closing.wait(), PACE)
        finally:
            self._streams -= 1

    async def _details(self, request: Request) -> Response:
        spans = self._trace.spans
        wanted = request.query_params.get("span")
        if wanted is None:
            return StreamingResponse(_all_details(self._trace), media_type="application/json")
        number = _number(wanted)
        if number >= len(spans):
            raise HTTPException(404, f"there is no span {number}; there are {len(spans)}")
        return _json(details(self._trace, number))

    async def _answer(self, request: Request) -> Response:
        control = self._source.control
        said = await _body(request)
        if control is None:
            raise InputError("a file of events takes no answers; answer where the run goes on")
        if not isinstance(said.get("interrupt_id"), str) or "value" not in said:
            raise HTTPException(400, 'say {"interrupt_id": the question\'s id, "value": the answer}')
        await control.answer(self._trace.run_id, said["interrupt_id"], said["value"])
        return _json({})

    async def _cancel(self, request: Request) -> Response:
        control = self._source.control
        await _body(request)
        if control is None:
            raise InputError("a file of events is no run that could be cancelled")
        if self._trace.ended or not self._trace.run_id:
            raise InputError("no run is going on")
        await control.cancel(self._trace.run_id)
        return _json({})

    async def _metrics(self, request: Request) -> Response:
        if self._registry is None:
            raise HTTPException(404, "metrics are of runs that go on here, and need the extra `tracing`")
        body, kind = exposition(self._registry)
        return Response(body, headers={"content-type": kind})


@dataclass(frozen=True, slots=True)
class _Followed:
    """A run of a database that is kept up with."""

    page: RunPage
    keeping: asyncio.Task[None]


class RunsPage:
    """The runs of a database: a list, and a page for each, under ``runs/ID/``.

    Args:
        ledger: The database.
        title: What it is called.

    Attributes:
        app: What answers.
    """

    def __init__(self, ledger: Ledger, title: str) -> None:
        self._ledger = ledger
        self._title = title
        self._followed = OrderedDict[str, _Followed]()
        self.app = _app(Route("/", self._list), Route("/data/runs", self._runs), Mount("/runs/{run_id}", app=self._run))

    async def keep_up(self) -> None:
        """Nothing: each run is kept up with once somebody wants to see it."""

    async def close(self) -> None:
        """Tell those who follow a run the last, and let them go."""
        for each in self._followed.values():
            each.keeping.cancel()
            await each.page.close()

    async def _list(self, request: Request) -> Response:
        rows = "\n".join(map(_row, await self._listed()))
        html = _LIST.format(title=escape(self._title), rows=rows or "<tr><td>no runs yet</td></tr>")
        return HTMLResponse(html, headers={"content-security-policy": _policy(html)})

    async def _runs(self, request: Request) -> Response:
        return _json(await self._listed())

    async def _listed(self) -> Sequence[dict[str, Any]]:
        def look() -> list[dict[str, Any]]:
            alive = self._ledger.alive()
            return [
                {
                    "id": run.run_id,
                    "workflow": run.workflow,
                    "state": "interrupted" if run.state == "running" and run.driver not in alive else run.state,
                    "done": run.done,
                    "total": max(run.done, run.total),
                    "created": run.created,
                }
                for run in self._ledger.runs(MOST_LISTED)
            ]

        return await in_thread(look)

    async def _run(self, scope: Scope, receive: Receive, send: Send) -> None:
        run_id = scope["path_params"]["run_id"]
        followed = self._followed.get(run_id) or await self._follow(run_id)
        self._followed.move_to_end(run_id)
        await followed.page.app(scope, receive, send)

    async def _follow(self, run_id: str) -> _Followed:
        try:
            source = await in_thread(LedgerSource, self._ledger, run_id)
        except InputError as error:
            raise HTTPException(404, str(error)) from error
        if run_id not in self._followed:  # two may have asked at once
            shown = RunPage(source, run_id)
            self._followed[run_id] = _Followed(shown, asyncio.ensure_future(shown.keep_up()))
            idle = [name for name, each in self._followed.items() if not each.page.followed and name != run_id]
            for name in idle[: max(0, len(self._followed) - MOST_RUNS)]:
                self._followed.pop(name).keeping.cancel()
        return self._followed[run_id]


class PageServer:
    """Serves a site from a thread of its own, so that no run holds it up; a context manager.

    Args:
        site: What is served.
        port: Where; 0 for any that is free.

    Attributes:
        url: The address of the page, with its token: whoever has it sees the run, answers and cancels it.

    Raises:
        InputError: The port cannot be had.
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
        """Tell those who follow the last, and end."""
        self._ending = True
        if self._server:
            self._server.should_exit = True
        self._thread.join(_LEAVING)
        self._listening.close()

    def _serve(self) -> None:
        asyncio.run(self._work())

    async def _work(self) -> None:
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
    """Lets those who follow go, before it waits for them to have gone."""

    def __init__(self, app: ASGIApp, site: Site) -> None:
        config = uvicorn.Config(
            app,
            http=BoundedHttp,
            backlog=BACKLOG,
            ws="none",
            loop="asyncio",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=4 * MOST_STREAMS,
            timeout_graceful_shutdown=1,
        )
        super().__init__(config)
        self._site = site

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._site.close()
        await super().shutdown(sockets)


def live_page(workflow: Workflow, source: LiveSource) -> RunPage:
    """The page of a workflow's runs; with metrics, where the extra for them is installed."""
    try:
        metrics = Metrics()
    except MissingExtraError:
        return RunPage(source, workflow.name)
    workflow.add_listener(metrics)
    return RunPage(source, workflow.name, metrics.registry)


@contextmanager
def show(workflow: Workflow, port: int = 0) -> Generator[str, None, None]:
    """Show the runs of a workflow on a page, while this lasts; those that begin from now on, the last one of them.

        with show(workflow) as url:
            print(url)
            workflow.execute(job, reasoner)

    Args:
        workflow: The workflow.
        port: Where the page is served, on this machine; 0 for any port that is free.

    Yields:
        The page's address.

    Raises:
        InputError: The port cannot be had.
    """
    source = LiveSource(workflow)
    try:
        with PageServer(live_page(workflow, source), port) as server:
            yield server.url
    finally:
        source.close()


class _Guard:
    """Lets nobody through who does not know the token, and no page of another site.

    Args:
        app: What is guarded.
        token: The first part of the path.
    """

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                named = {name.lower() for name, _ in message["headers"]}
                added = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
                message["headers"] = [*message["headers"], *(each for each in added if each[0] not in named)]
            await send(message)

        refused = self._refused(Request(scope))
        await (refused or self._app)(scope, receive, answer)

    def _refused(self, request: Request) -> Response | None:
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or _hostname(hosts[0]) not in _HERE:  # a name of another site, made to lead here
            return _refusal(403, "this page is for this machine alone: open it as 127.0.0.1 or localhost")
        given = request.scope["path"].removeprefix("/").partition("/")[0]
        if not secrets.compare_digest(given.encode("utf-8", "replace"), self._token):
            return _refusal(404, "there is nothing here: the address lacks its token, or is that of an earlier page")
        origin = request.headers.get("origin")
        if request.method == "POST":
            if origin is not None and origin != f"http://{hosts[0]}":
                return _refusal(403, "another site may not do this")
            if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
                return _refusal(415, "send it as application/json")
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
            f"port {port} cannot be had: {error.strerror or error}; name another, or 0 for any that is free"
        ) from error
    return listening


def _app(*routes: Route | Mount) -> Starlette:
    return Starlette(
        routes=list(routes),
        exception_handlers={HTTPException: _http_error, OperadError: _conflict, Exception: _fault},
    )


async def _http_error(request: Request, error: Exception) -> Response:
    wrong = cast("HTTPException", error)
    return _refusal(wrong.status_code, wrong.detail)


async def _conflict(request: Request, error: Exception) -> Response:
    return _refusal(409, str(error))


async def _fault(request: Request, error: Exception) -> Response:
    return _refusal(500, describe(error))


def _refusal(status: int, text: str) -> Response:
    return JSONResponse({"error": text}, status)


def _policy(html: str) -> str:
    """What the page may do: run its own scripts, and speak to this server."""
    hashes = [
        f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in _SCRIPT.findall(html)
    ]
    scripts = " ".join(hashes) or "'none'"
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


async def _body(request: Request) -> dict[str, Any]:
    received = bytearray()
    async for chunk in request.stream():
        received += chunk
        if len(received) > MAX_BODY:
            raise HTTPException(413, f"that is more than {MAX_BODY // 2**20} MiB")
    try:
        said: Any = json.loads(received or b"{}", parse_constant=_no_number, parse_float=_finite)
        if not isinstance(said, dict):
            raise ValueError("it is no object")
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"what was sent is no JSON that can be used: {str(error)[:200]}") from error
    return cast("dict[str, Any]", said)


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is too large")
    return number


def _number(text: str) -> int:
    if not (text.isdecimal() and text.isascii() and len(text) <= 15):
        raise HTTPException(400, f"{text[:40]!r} is no whole number")
    return int(text)


def _json(value: object) -> Response:
    return Response(to_json(value), media_type="application/json")


def _all_details(trace: Trace) -> Iterator[str]:
    """`details` as JSON, span by span: all of it at once may be large."""
    before = "{"
    for span in list(trace.spans):
        if span.details:
            yield f'{before}"{span.id}":{to_json(span.details)}'
            before = ","
    yield "{}" if before == "{" else "}"


def _row(run: dict[str, Any]) -> str:
    begun = ""
    with suppress(ValueError, OverflowError, OSError):  # no time that there is
        begun = f"{datetime.fromtimestamp(run['created']).astimezone():%Y-%m-%d %H:%M:%S}"
    cells = [run["workflow"], run["state"], f"{run['done']}/{run['total']}", begun]
    name = escape(run["id"])
    return f'<tr><td><a href="runs/{name}/">{name}</a>' + "".join(f"<td>{escape(str(cell))}" for cell in cells)


_LIST = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="refresh" content="5">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; font: 15px system-ui, sans-serif }}
body {{ margin: 2rem }} td, th {{ padding: .2rem 1.2rem .2rem 0; text-align: left }}
</style>
<h1>{title}</h1>
<table>
<tr><th>run<th>workflow<th>state<th>done<th>begun
{rows}
</table>
</html>
"""
