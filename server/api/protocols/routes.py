"""Routes of the protocols of front ends and agents; each module is imported by its first request."""

from __future__ import annotations

import asyncio
from functools import partial
from importlib import import_module
from typing import Any
from urllib.parse import quote

from fastapi import Request, Response
from starlette.routing import Route

from operad.server.api.experts import find_offer
from operad.server.api.runs import Runs
from operad.server.api.seen_runs import SeenRuns, caller_of
from operad.server.http.problems import RefusedError

PROTOCOLS = {"ag-ui": ("ag_ui", "ag-ui"), "vercel-ai": ("vercel_ai", "serve"), "a2a": ("a2a", "a2a")}
"""Module and extra of each protocol, whose requests name an expert by ``POST /PROTOCOL/NAME``."""

_CARD = "/.well-known/agent-card.json"


def protocol_routes(runs: Runs) -> list[Route]:
    """Return the routes."""
    served: list[tuple[str, str, Any]] = [
        *(("POST", f"/{protocol}/{{name:path}}", partial(_reply, runs, protocol)) for protocol in PROTOCOLS),
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
    return (await protocol_module("a2a")).card_reply(seen, offer, request)


async def _reply(runs: Runs, protocol: str, request: Request) -> Response:
    seen = SeenRuns(runs, caller_of(request))
    offer = find_offer(seen.offers, request.path_params["name"], "name")
    return await (await protocol_module(protocol)).reply(seen, offer, request)


async def protocol_module(protocol: str) -> Any:
    """Return the module of a protocol.

    Raises:
        RefusedError: Its extra is not installed.
    """
    name, extra = PROTOCOLS[protocol]
    try:
        return await asyncio.to_thread(import_module, f"operad.server.api.protocols.{name}")
    except ModuleNotFoundError as error:
        raise RefusedError(501, f"this needs {error.name}: install the extra {extra!r} on the server") from error
