"""Errors of requests, in the form of the OpenAI protocol for all interfaces."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from starlette.responses import Response

from operad.runtime.values.errors import OperadError
from operad.runtime.values.message import new_id
from operad.runtime.values.valid_json import to_json
from operad.runtime.values.value import Value

CODES = {
    400: "invalid_request",
    401: "invalid_api_key",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "request_timeout",
    409: "conflict",
    413: "request_too_large",
    429: "too_many_requests",
    500: "internal_error",
    501: "not_installed",
    502: "run_failed",
    503: "ending",
    504: "run_timeout",
}

_logger = logging.getLogger(__name__)

MOST_FAULTS = 20
"""Maximum number of faults of one request that are named."""


class ErrorBody(Value):
    """Description of an error.

    Attributes:
        message: The error, its place and how to fix it.
        type: Responsible side: the client or the server.
        param: Field of the request that it concerns.
    """

    message: str
    type: str
    param: str | None = None
    code: str


class ErrorReply(Value):
    """Body of an error response."""

    error: ErrorBody


class RefusedError(OperadError):
    """A request that is refused.

    Args:
        message: The error, its place and how to fix it.
        param: Field of the request that it concerns.
        retry_after: Seconds after which a retry may succeed.

    Attributes:
        headers: Headers of the response.
    """

    def __init__(self, status: int, message: str, *, param: str | None = None, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self._param = param
        self.headers: dict[str, str] = {}
        if retry_after is not None:
            self.headers["Retry-After"] = str(retry_after)
        if status == 401:
            self.headers["WWW-Authenticate"] = "Bearer"
        if status in (500, 502, 504):  # an automatic retry of the client would pay for another run
            self.headers["x-should-retry"] = "false"

    @property
    def body(self) -> dict[str, Any]:
        """The error as JSON values."""
        kind = {401: "authentication_error", 429: "rate_limit_error"}.get(self.status, "invalid_request_error")
        error = ErrorBody(
            message=str(self),
            type=kind if self.status < 500 else "server_error",
            param=self._param,
            code=CODES.get(self.status, "error"),
        )
        return ErrorReply(error=error).model_dump()


def refuse_faults(faults: Iterable[tuple[str, str]]) -> None:
    """Refuse a request that has faults, given as fields and reasons.

    Raises:
        RefusedError: There is a fault; all are named.
    """
    if found := list(dict.fromkeys(faults)):
        raise faults_error(found)


def faults_error(faults: Sequence[tuple[str, str]]) -> RefusedError:
    """Return the error of a request with faults, given as fields and reasons."""
    lines = [f"{where}: {reason}" for where, reason in faults[:MOST_FAULTS]]
    if len(faults) > 1:
        lines.insert(0, f"the request: {len(faults)} issues")
    if len(faults) > MOST_FAULTS:
        lines.append(f"and {len(faults) - MOST_FAULTS} more")
    return RefusedError(400, "\n  ".join(lines), param=faults[0][0])


def internal_error(error: Exception) -> RefusedError:
    """Return what a client is told of an unexpected error outside of runs; the log has its text, under the same id."""
    error_id = new_id()
    _logger.error("error %s", error_id, exc_info=error)
    kind = type(error).__name__
    return RefusedError(500, f"{kind}: internal error, described in the log of the server under error {error_id}")


def json_reply(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a value as a JSON response."""
    return Response(to_json(value), status, headers, "application/json")


def error_reply(problem: RefusedError) -> Response:
    """Return an error as a JSON response."""
    return json_reply(problem.body, problem.status, problem.headers)
