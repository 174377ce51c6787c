"""Requests and responses of the run page: JSON and errors."""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Mapping
from html import escape
from typing import Any, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route

from operad.runtime.values.errors import OperadError
from operad.runtime.values.valid_json import to_json
from operad.server.http.problems import RefusedError, internal_error

MAX_BODY = 2**20
"""Maximum size of a request's body, in bytes."""


ErrorHandler = Callable[[Request, Exception], Awaitable[Response]]


def application(*routes: Route | Mount, handlers: Mapping[type[Exception], ErrorHandler] | None = None) -> Starlette:
    """Return an application of these routes, whose errors are JSON.

    Args:
        handlers: Answers to errors of further types.
    """
    defaults: dict[Any, ErrorHandler] = {HTTPException: _http_error, OperadError: _conflict, Exception: _internal_error}
    return Starlette(routes=list(routes), exception_handlers=defaults | dict(handlers or {}))


async def _http_error(request: Request, error: Exception) -> Response:
    http_error = cast("HTTPException", error)
    return refusal(http_error.status_code, http_error.detail, request)


async def _conflict(request: Request, error: Exception) -> Response:
    return refusal(error.status if isinstance(error, RefusedError) else 409, str(error))


async def _internal_error(request: Request, error: Exception) -> Response:
    return refusal(500, str(internal_error(error)))


def refusal(status: int, text: str, request: Request | None = None) -> Response:
    """Return an error as JSON, or as a page if a browser opens the address.

    Args:
        request: The request; None for JSON in any case.
    """
    if request is not None and "text/html" in request.headers.get("accept", ""):
        page = f'<!doctype html>\n<html lang="en"><title>Operad</title><p>{escape(text)}</p></html>\n'
        return HTMLResponse(page, status, {"content-security-policy": "default-src 'none'"})
    return JSONResponse({"error": text}, status)


async def json_body(request: Request, most: int = MAX_BODY) -> dict[str, Any]:
    """Return the JSON object in a request's body.

    Args:
        most: Maximum size of the body, in bytes.

    Raises:
        HTTPException: The body is too large, or is not a JSON object with finite numbers.
    """
    received = bytearray()
    async for chunk in request.stream():
        received += chunk
        if len(received) > most:
            raise HTTPException(413, f"that is more than {most // 2**20} MiB")
    try:
        value: Any = json.loads(received or b"{}", parse_constant=_reject_constant, parse_float=_finite_float)
        if not isinstance(value, dict):
            raise ValueError("expected a JSON object")
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"the request's JSON is not valid: {str(error)[:200]}") from error
    return cast("dict[str, Any]", value)


def _reject_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _finite_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is too large")
    return number


def whole_number(text: str) -> int:
    """Return the whole number in a parameter of the address.

    Raises:
        HTTPException: The text is not a whole number.
    """
    if not (text.isdecimal() and text.isascii() and len(text) <= 15):
        raise HTTPException(400, f"{text[:40]!r} is not a whole number")
    return int(text)


def json_response(value: object) -> Response:
    """Return a value as a JSON response."""
    return Response(to_json(value), media_type="application/json")
