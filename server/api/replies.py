"""Responses: JSON that is always valid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from operad.runtime.values.valid_json import to_json
from operad.server.problems import RefusedError


def json_reply(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a value as a JSON response."""
    return Response(to_json(value), status, headers, "application/json")


def error_reply(problem: RefusedError) -> Response:
    """Return an error as a JSON response."""
    return json_reply(problem.body, problem.status, problem.headers)
