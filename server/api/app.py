"""The server as an ASGI application."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache, partial
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, Protocol
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.constants import REF_TEMPLATE
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse
from starlette.routing import Match, Mount, Route
from starlette.types import ASGIApp

from operad.configs.faults import real_path
from operad.runtime.durable.process_ids import version_here
from operad.runtime.values.errors import InputError
from operad.runtime.values.value import Value, requirement
from operad.server.api.chat import chat_routes
from operad.server.api.experts import Offer, find_offer
from operad.server.api.faults import value_fault
from operad.server.api.inbox import inbox_routes
from operad.server.api.plain import RUN_ID, PlainDoor, operation_id, refusals
from operad.server.api.responses import response_routes
from operad.server.api.runs import Runs, ending_error
from operad.server.api.schedules import Schedules
from operad.server.api.seen_runs import SeenRuns, caller_of
from operad.server.http.access import AccessLog, App
from operad.server.http.addresses import LOOPBACK
from operad.server.http.bounds import DEFAULT_BOUNDS, Bounds
from operad.server.http.guard import Authenticate, Guard
from operad.server.http.keys import Key
from operad.server.http.page_headers import HEADERS, PageHeaders, content_policy
from operad.server.http.problems import ErrorReply, RefusedError, error_reply, faults_error, internal_error, json_reply

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager


# The MCP server at `/mcp`, imported and started by its first request: the import takes as long as the rest of the server.

if find_spec("mcp") is None:  # a missing package is reported when the server starts, not by the first request
    raise ModuleNotFoundError("No module named 'mcp'", name="mcp")


class McpDoor:
    """An MCP server whose tools are the experts, as an ASGI application.

    The server works until `close`, in a task of its own, so that it can be closed before the connections are.
    """

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self.open()

    def open(self) -> None:
        """Let the next request start the server, also after `close`."""
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


# The pages: at `/`, the offered experts and a chat; at `/inbox`, open questions. They send requests to their own server only.


@cache
def page_reply(name: str) -> HTMLResponse:
    """Return a page, whose content policy allows only its own style and script; it needs no key."""
    text = (files("operad.server.api") / "bundle" / f"{name}.html").read_text(encoding="utf-8")
    headers = {**HEADERS, "cache-control": "no-cache", "content-security-policy": content_policy(text)}
    return HTMLResponse(text, headers=headers)


_ABOUT = """Experts of operad, as chat models of the OpenAI protocol under `/v1` (chat completions and responses), as runs under `/runs`, and as tools of \
an MCP server (streamable HTTP) under `/mcp`."""


_NO_LIFESPAN = """the application is mounted without its lifespan: unfinished runs resume and schedules fire only from now on, the first request, \
and runs in progress are cut off at the end of the process; pass it to the application around it: FastAPI(lifespan=served.lifespan)"""

_logger = logging.getLogger(__name__)


class Health(Value):
    """State of the server.

    Attributes:
        status: ``stuck`` if runs do not progress.
        stuck: Parts that are stuck: ``database``, ``writer`` or ``scheduler``; the log names the reasons.
    """

    status: Literal["ok", "ending", "stuck"]
    stuck: tuple[str, ...] = ()


class Pages(Protocol):
    """Further pages of a server."""

    @property
    def app(self) -> ASGIApp:
        """Application that answers their requests."""
        ...

    async def close(self) -> None:
        """End the streams of the connected browsers."""
        ...


class Serving:
    """Server of experts, as an ASGI application.

    Args:
        keys: Accepted keys, or their texts; empty to require no key.
        hosts: Hosts that requests may name; None for any.
        origins: Origins, other than its own, whose pages may use the server.
        authenticate: Function that finds the user of a request, instead of keys.
        pages: Function that returns the pages below `/view/`, given the runs; None for none.

    Attributes:
        runs: The runs.
        app: The application.
    """

    def __init__(
        self,
        offers: Mapping[str, Offer],
        *,
        keys: Sequence[Key | str] = (),
        hosts: Sequence[str] | None = LOOPBACK,
        bounds: Bounds = DEFAULT_BOUNDS,
        origins: Sequence[str] = (),
        authenticate: Authenticate | None = None,
        pages: Callable[[Runs], Pages] | None = None,
    ) -> None:
        if hosts is None and not keys and authenticate is None:
            raise InputError("a server for any host name needs keys, because any page and machine could use it")
        known = [Key.of(key, f"key-{n}") if isinstance(key, str) else key for n, key in enumerate(keys, 1)]
        self.runs = Runs(offers, bounds, redacts=bool(keys) or authenticate is not None)
        self._door = McpDoor(self.runs)
        self._pages = pages(self.runs) if pages else None
        self._starting: asyncio.Task[None] | None = None
        self._firing: asyncio.Task[None] | None = None
        self._has_ended = False
        api = FastAPI(
            title="operad",
            openapi_url=None,
            docs_url=None,
            redoc_url=None,
            lifespan=self.lifespan,
            generate_unique_id_function=operation_id,
        )
        routers = [
            PlainDoor(self.runs).router(),
            inbox_routes(self.runs),
            chat_routes(self.runs),
            response_routes(self.runs),
        ]
        self._routes = [route for router in routers for route in router.routes if isinstance(route, Route)]
        api.router.routes.extend(self._routes)  # `include_router` would build each route a second time
        self._routes += (others := _protocol_routes(self.runs))
        api.router.routes.extend(others)
        api.router.routes.append(Route("/mcp", self._door, include_in_schema=False))
        api.router.routes.append(Route("/", _show_page, include_in_schema=False))
        api.router.routes.append(Route("/inbox", _show_inbox, include_in_schema=False))
        if self._pages is not None:
            api.router.routes.append(Route("/view", _to_pages, include_in_schema=False))
            api.router.routes.append(Mount("/view", PageHeaders(self._pages.app)))
        self._add_health(api)
        api.add_exception_handler(RefusedError, _on_refused)
        api.add_exception_handler(HTTPException, self._on_http_error)
        api.add_exception_handler(RequestValidationError, _on_invalid_request)
        api.add_exception_handler(Exception, _on_internal_error)
        document = cache(partial(_document, api, with_keys=bool(keys)))

        async def describe(request: Request) -> Response:
            return json_reply(document(tuple(SeenRuns(self.runs, caller_of(request)).offers)))

        api.router.routes.append(Route("/openapi.json", describe, include_in_schema=False))
        signed = {f"/webhooks/{name}" for name, each in offers.items() if each.webhook and each.webhook.trigger.secret}
        self.app = AccessLog(_with_cors(Guard(api, known, hosts, bounds, origins, authenticate, signed), origins))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, as an ASGI application; the first one starts the server if its lifespan was not run."""
        if scope["type"] == "http" and (self._starting is None or not self._starting.done()):
            if self._starting is None:
                _logger.warning(_NO_LIFESPAN)
                self._starting = asyncio.ensure_future(self._start())
            starting = self._starting
            try:
                await asyncio.shield(starting)
            except Exception:
                _logger.exception("the server could not start; the next request tries again")
                if self._starting is starting:
                    self._starting = None
                refused = RefusedError(503, "the server could not start; its log says why; retry later", retry_after=5)
                await error_reply(refused)(scope, receive, send)
                return
        await self.app(scope, receive, send)

    async def drain(self, grace: float) -> None:
        """Start no more runs, wait `grace` seconds for running ones, stop the rest, and close the MCP sessions."""
        if self._firing is not None:
            self._firing.cancel()
        await self.runs.end(grace)
        await self._door.close()
        if self._pages is not None:
            await self._pages.close()

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncGenerator[None, None]:
        """Resume unfinished runs, fire schedules, and at the end stop the runs in progress; durable ones can be resumed.

        A server does this for an application that is not mounted. Starlette and FastAPI do not for a mounted one: give it
        to the application around it, ``FastAPI(lifespan=served.lifespan)``, or enter it in that application's own.
        """
        self._starting = asyncio.ensure_future(self._start())
        await self._starting
        try:
            yield
        finally:
            await self.drain(0)
            self._starting, self._has_ended = None, True

    async def _start(self) -> None:
        if self._has_ended:  # a server that is drained before it has started stays so
            self._door.open()
            self.runs.ending = False
        await self.runs.take_up()
        self.runs.start()
        self._firing = asyncio.ensure_future(Schedules(self.runs).fire_until_end())

    def _add_health(self, api: FastAPI) -> None:
        @api.get(
            "/healthz",
            response_model=Health,
            responses={503: {"description": "The server is shutting down, or stuck.", "model": Health}, **refusals()},
            tags=["server"],
        )
        async def health() -> Response:  # pyright: ignore[reportUnusedFunction]
            """Return the state of the server."""
            if self.runs.ending:
                return json_reply(Health(status="ending"), 503)
            stuck = await self.runs.stuck()
            return json_reply(Health(status="stuck" if stuck else "ok", stuck=stuck), 503 if stuck else 200)

    async def _on_http_error(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101
        request_line = f"{request.method} {request.url.path[:200]}"
        messages = {
            404: f"{request_line}: there is no such path; GET /openapi.json describes all",
            405: f"{request_line}: this path does not support this method; the header Allow lists those that it supports",
        }
        refused = RefusedError(error.status_code, messages.get(error.status_code, f"{request_line}: {error.detail}"))
        refused.headers.update(error.headers or {})
        matching = [route for route in self._routes if route.matches(request.scope)[0] is not Match.NONE]
        if error.status_code == 405 and matching:  # a single route names only its own methods
            refused.headers["Allow"] = ", ".join(sorted({name for route in matching for name in route.methods or ()}))
        return error_reply(refused)


def _with_cors(app: App, origins: Sequence[str]) -> App:
    """Return the application with CORS headers for these origins; without origins, the application itself."""
    if not origins:
        return app
    return CORSMiddleware(
        app,  # pyright: ignore[reportArgumentType] - starlette's types name dicts where any mapping will do
        allow_origins=origins,
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=["*"],
        expose_headers=["Location", "Mcp-Session-Id", "Retry-After", "x-should-retry"],
    )


async def _to_pages(request: Request) -> Response:
    return Response(status_code=307, headers={"Location": "view/"})  # relative, because a proxy may add a prefix


async def _show_page(request: Request) -> Response:
    return page_reply("chat")


async def _show_inbox(request: Request) -> Response:
    return page_reply("inbox")


def _document(api: FastAPI, names: Sequence[str], *, with_keys: bool) -> dict[str, Any]:
    """Return the OpenAPI document, which lists the names of the experts."""
    document = get_openapi(title="operad", version=version_here(), description=_ABOUT, routes=api.routes)
    schemas = document["components"]["schemas"]
    schemas.update(models_json_schema([(ErrorReply, "serialization")], ref_template=REF_TEMPLATE)[1]["$defs"])
    schemas["RunRequest"]["properties"]["expert"]["enum"] = list(names)
    schemas["ChatRequest"]["properties"]["model"]["enum"] = list(names)
    schemas["ResponseRequest"]["properties"]["model"]["enum"] = list(names)
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    for path, operations in document["paths"].items():
        for operation in operations.values():
            operation["responses"].pop("422", None)
            if with_keys and path != "/healthz":
                operation["security"] = [{"key": []}]
    if with_keys:
        document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    return document


async def _on_refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)  # noqa: S101 - registered for this type
    return error_reply(error)


async def _on_invalid_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101
    schema = _body_type(request)
    faults = [(_place(fault, error.body), _fault_text(fault, schema)) for fault in error.errors()]
    if any(where == "body" for where, _ in faults):
        needed = [name for name, field in (schema.model_fields if schema else {}).items() if field.is_required()]
        fields = f" with {' and '.join(needed)}" if needed else ""
        faults.append(("body", f"send a JSON object{fields}, and the header Content-Type: application/json"))
    found = [each for each in dict.fromkeys(faults) if not any(where.startswith(f"{each[0]}.") for where, _ in faults)]
    return error_reply(faults_error(found))


def _body_type(request: Request) -> type[BaseModel] | None:
    """Return the type of the body of a request; None if the request takes no body."""
    field = getattr(request.scope.get("route"), "body_field", None)
    annotation = field.field_info.annotation if field else None
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _place(fault: Any, body: Any) -> str:
    """Return the place of a fault in a request, without the parts of the path that pydantic inserts."""
    part, *path = fault["loc"]
    if part == "body":
        path = () if fault["type"] == "json_invalid" else real_path(path, body)
    return ".".join(map(str, (part, *path)))


def _fault_text(fault: Any, schema: type[BaseModel] | None) -> str:
    path, kind = fault["loc"][1:], fault["type"]
    if kind == "extra_forbidden" and path == ("job",):
        return "give goal or job, not both"
    if kind == "json_invalid":
        return f"{requirement(fault)} (character {int(path[0]) + 1})"
    if kind == "string_pattern_mismatch" and fault["ctx"]["pattern"] == RUN_ID:
        return "takes letters, digits, _, - and ., and begins with a letter, a digit or _"
    return value_fault({**fault, "loc": path}, schema)


async def _on_internal_error(request: Request, error: Exception) -> Response:
    return error_reply(internal_error(error))


_PROTOCOLS = {"ag-ui": ("ag_ui", "ag-ui"), "vercel-ai": ("vercel_ai", "serve"), "a2a": ("a2a", "a2a")}
"""Module and extra of each protocol, whose requests name an expert by ``POST /PROTOCOL/NAME``."""

_CARD = "/.well-known/agent-card.json"


def _protocol_routes(runs: Runs) -> list[Route]:
    """Return the routes of the protocols of front ends and agents; each module is imported by its first request."""
    served: list[tuple[str, str, Any]] = [
        *(("POST", f"/{protocol}/{{name:path}}", partial(_reply, runs, protocol)) for protocol in _PROTOCOLS),
        *(("GET", path, partial(_card, runs)) for path in (_CARD, f"/a2a/{{name:path}}{_CARD}")),
    ]
    return [Route(path, work, methods=[method], include_in_schema=False) for method, path, work in served]


async def _card(runs: Runs, request: Request) -> Response:
    """Return the card of an expert; at the root of the server, that of its only expert."""
    seen = SeenRuns(runs, caller_of(request))
    name = request.path_params.get("name")
    if name is None and len(seen.offers) != 1:
        cards = ", ".join(f"/a2a/{quote(each)}{_CARD}" for each in seen.offers)
        raise RefusedError(404, f"{_CARD}: there are {len(seen.offers)} experts, with a card each: {cards}")
    offer = find_offer(seen.offers, next(iter(seen.offers)) if name is None else name, "name")
    return (await _protocol_module("a2a")).card_reply(seen, offer, request)


async def _reply(runs: Runs, protocol: str, request: Request) -> Response:
    seen = SeenRuns(runs, caller_of(request))
    offer = find_offer(seen.offers, request.path_params["name"], "name")
    return await (await _protocol_module(protocol)).reply(seen, offer, request)


async def _protocol_module(protocol: str) -> Any:
    """Return the module of a protocol.

    Raises:
        RefusedError: Its extra is not installed.
    """
    name, extra = _PROTOCOLS[protocol]
    try:
        return await asyncio.to_thread(import_module, f"operad.server.api.protocols.{name}")
    except ModuleNotFoundError as error:
        raise RefusedError(501, f"this needs {error.name}: install the extra {extra!r} on the server") from error
