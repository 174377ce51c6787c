"""Workflows behind a host application: an ASGI application of the APIs and pages of `operad serve`.

The host application may authenticate users, instead of keys.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import JsonValue
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request

from operad.configs.python_reference import agent_named, agent_of
from operad.configs.runnable import Source
from operad.runtime.durable.restart import Restart
from operad.runtime.durable.threads import in_thread
from operad.runtime.events import Event, OperatorFinished
from operad.runtime.values.arguments import short_repr
from operad.runtime.values.errors import InputError
from operad.server.api.app import Serving
from operad.server.api.experts import Offer, by_name, python_offer
from operad.server.api.redaction import Redaction
from operad.server.api.runs import Runs
from operad.server.api.seen_runs import SeenRuns, caller_of
from operad.server.api.served_run import ServedRun
from operad.server.http.addresses import LOOPBACK
from operad.server.http.bounds import DEFAULT_BOUNDS, Bounds
from operad.server.http.guard import read_origins
from operad.server.http.keys import Key, User, read_keys
from operad.server.http.problems import RefusedError, internal_error
from operad.server.view.runs_page import MOST_LISTED, RunsPage, listed_run
from operad.server.view.sources import LedgerSource
from operad.server.view.sources import Source as RunSource

if TYPE_CHECKING:
    from operad.runtime.durable.ledger import Ledger


Auth = Callable[[Any], "str | User | Awaitable[str | User | None] | None"]
"""Function of the host application that gets a request, a `starlette.requests.Request`, and returns the name of its user,
or a `User` with limits; or None, or raises an `HTTPException`, to refuse the request. It may be a coroutine function."""


def asgi(
    flow: Any,
    *,
    auth: Auth | None = None,
    keys: Sequence[Key | str] = (),
    db: str | Path | None = None,
    origins: Sequence[str] = (),
    bounds: Bounds = DEFAULT_BOUNDS,
) -> Serving:
    """Return an ASGI application that serves workflows, to run by itself or to mount into FastAPI or Starlette.

        served = asgi(flow, auth=lambda request: request.session.get("user"))
        app = FastAPI(lifespan=served.lifespan)
        app.mount("/ai", served)

    It has the APIs of `operad serve`, its chat page at ``/``, and its run page at ``/view/``.

    Args:
        flow: A workflow, an expert, an operator or a function, or its reference such as ``"expert:flow"``; or several.
        auth: Function of the host application that returns the user of a request; see `Auth`.
        keys: Accepted keys, instead of `auth`. Without both, only requests for this machine's own names are answered.
        db: Database of the runs; None for that of each workflow (``durable=``), or memory.
        origins: Origins, other than the application's own, whose pages may use it.
        bounds: Limits on runs and requests.

    Returns:
        The application; `lifespan` is its lifespan, which a mounted application does not get by itself.

    Raises:
        InputError: A value cannot be served, two have the same name, or an argument is not valid.
    """
    if auth is not None and keys:
        raise InputError("auth and keys are both given; give one of them")
    flows = list(cast("Iterable[Any]", flow)) if isinstance(flow, list | tuple) else [flow]
    offers = by_name([_offer(each) for each in flows])
    if db is not None:
        offers = {name: _kept_in(offer, db) for name, offer in offers.items()}
    return serving(
        offers,
        keys=[key for each in keys for key in ([each] if isinstance(each, Key) else read_keys([each], "keys"))],
        hosts=None if auth or keys else LOOPBACK,
        bounds=bounds,
        origins=read_origins(origins, "origins"),
        authenticate=partial(_authenticated, auth) if auth else None,
    )


def serving(offers: Mapping[str, Offer], **options: Any) -> Serving:
    """Return a server of experts with the run page; arguments are those of `Serving`.

    Raises:
        InputError: Runs of the experts are kept in different databases.
    """
    if len({offer.ledger.url for offer in offers.values() if offer.ledger}) > 1:
        raise InputError(
            "the runs of these workflows are kept in different databases; give one for all of them with db"
        )
    return Serving(offers, pages=lambda runs: RunsPage(ServedRuns(runs), "runs"), **options)


def _offer(flow: Any) -> Offer:
    if isinstance(flow, str):
        return python_offer(agent_named(flow), Source(file=flow))
    agent = agent_of(flow)
    return python_offer(agent, Source(file=agent.profile.name))


def _kept_in(offer: Offer, db: str | Path) -> Offer:
    from operad.runtime.durable.ledger import Ledger  # not at import: other runs need no database

    source: JsonValue = offer.source.model_dump(exclude_defaults=True) if ":" in offer.source.file else None
    return offer.kept_in(Ledger(db, source=source))


class ServedRuns:
    """Catalog of a server's runs for the run page, as the sender of a request may see them."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    async def listed(self, request: HTTPConnection) -> Sequence[dict[str, Any]]:
        """See `RunCatalog.listed`."""
        seen = SeenRuns(self._runs, caller_of(request))
        here = {run.id: _listed_here(run) for run in seen.listed()}
        stored = [run for run in await self._runs.stored(MOST_LISTED) if run.run_id not in here]
        if seen.caller.limited:
            stored = [run for run in stored if await seen.look(run.run_id)]
        alive = await self._runs.alive() if stored else ()
        elsewhere = [listed_run(run, alive) for run in stored]
        return sorted([*here.values(), *elsewhere], key=lambda run: -run["created"])[:MOST_LISTED]

    async def source(self, run_id: str, request: HTTPConnection) -> tuple[bool, RunSource]:
        """See `RunCatalog.source`; only callers who may see all runs are shown the texts of internal errors."""
        caller = caller_of(request)
        run = await SeenRuns(self._runs, caller).find(run_id)
        return not caller.limited, ServedSource(self._runs, run, redacts=caller.limited)


def _listed_here(run: ServedRun) -> dict[str, Any]:
    """Return a run as the list shows it; see `listed_run`."""
    paths = (e.event.path for e in run.log.after(0) if isinstance(e.event, OperatorFinished))
    done = len({path for path in paths if len(path) == 1})
    return {
        "id": run.id,
        "workflow": run.offer.name,
        "state": run.shown_state,
        "done": done,
        "total": max(done, len(run.offer.agent.workflow.get_operators())),
        "created": run.began,
        "seconds": run.seconds or max(0.0, time.time() - run.began),
        "usage": run.usage.model_dump(),
        "verdict": run.message.status.value if run.message else "",
        "error": "" if run.message else run.error,
    }


class ServedSource:
    """A run of a server: its events from memory or the database, answers and cancellations through the server."""

    def __init__(self, runs: Runs, run: ServedRun, *, redacts: bool) -> None:
        self._runs = runs
        self._run_id = run.id
        self._redaction = Redaction(run.id, redacts=redacts)
        self._log = run.log if run.offer.ledger is None else None
        self._last = 0
        self._missed = False
        self._ledger: Ledger | None = run.offer.ledger
        self._stored: LedgerSource | None = None

    def note(self, *, ended: bool) -> str:
        """Return a remark if events are missing, or if no process drives the run."""
        if self._missed:
            return "the first events of this run are no longer in memory; keep runs in a database to see them"
        return self._stored.note(ended=ended) if self._stored else ""

    @property
    def control(self) -> ServedSource:
        """The server."""
        return self

    async def news(self) -> Sequence[Event]:
        """Return the events since the last call."""
        return [self._redaction.event(event) for event in await self._events()]

    async def _events(self) -> Sequence[Event]:
        if self._ledger is not None:
            if self._stored is None:
                try:
                    self._stored = await in_thread(LedgerSource, self._ledger, self._run_id, _RESUMES)
                except InputError:  # the run has just begun
                    return ()
            return await self._stored.news()
        entries = self._log.after(self._last) if self._log else ()
        self._missed |= any(entry.event is None for entry in entries)
        self._last = entries[-1].number if entries else self._last
        return [entry.original for entry in entries if entry.original is not None]

    async def answer(self, run_id: str, question_id: str, value: JsonValue, by: str) -> None:
        """Answer a question of the run.

        Raises:
            RefusedError: The question does not exist, or the answer does not fit.
        """
        await self._runs.answer(await self._runs.find(self._run_id), question_id, value, by)

    @property
    def restart(self) -> Callable[[Restart], Awaitable[str]] | None:
        """Function that continues a copy of the run; None for a run in memory."""
        return self._restart if self._ledger is not None else None

    async def _restart(self, restart: Restart) -> str:
        return (await self._runs.restart(await self._runs.find(self._run_id), restart)).id

    async def cancel(self, run_id: str) -> None:
        """Cancel the run."""
        await self._runs.cancel(await self._runs.find(self._run_id))


_RESUMES = "a server of its workflow resumes it"

_LONGEST_NAME = 200


async def _authenticated(auth: Auth, scope: Any) -> User:
    """Return the user of a request.

    Raises:
        RefusedError: The host application refuses the request; with its status and headers, such as a redirection to its login.
            Or the function returned something else than a user.
    """
    request: HTTPConnection = Request(scope)
    try:
        found: Any = auth(request) if _is_async(auth) else await run_in_threadpool(auth, request)
        if inspect.isawaitable(found):
            found = await found
    except HTTPException as error:
        refused = RefusedError(error.status_code, str(error.detail))
        refused.headers = dict(error.headers or {})
        raise refused from error
    if found is None:
        refused = RefusedError(401, "no user is signed in; sign in first, in the application that serves this")
        refused.headers.pop("WWW-Authenticate")  # which names keys
        raise refused
    user = User(found) if isinstance(found, str) else found
    if not isinstance(user, User) or not 0 < len(user.name) <= _LONGEST_NAME or not user.name.isprintable():
        wanted = f"the name of a user, of 1 to {_LONGEST_NAME} printable characters, a User, or None"
        raise internal_error(InputError(f"auth: expected {wanted}; got {short_repr(found)}"))
    return user


def _is_async(auth: Auth) -> bool:
    return inspect.iscoroutinefunction(auth) or inspect.iscoroutinefunction(getattr(auth, "__call__", None))  # noqa: B004
