"""What went wrong with a request: one shape for all doors, the one that clients of the OpenAI protocol read."""

from __future__ import annotations

from typing import Any

from operad.runtime.values.errors import OperadError
from operad.runtime.values.message import Value

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
    502: "run_failed",
    503: "ending",
    504: "run_timeout",
}


class ErrorBody(Value):
    """What is wrong, where, and what to do.

    Attributes:
        message: All of it, in words.
        type: Whose fault it is.
        param: The field that it concerns.
        code: The kind of fault.
    """

    message: str
    type: str
    param: str | None = None
    code: str


class ErrorReply(Value):
    """An error.

    Attributes:
        error: What is wrong.
    """

    error: ErrorBody


class RefusedError(OperadError):
    """A request that is not done.

    Args:
        status: The HTTP status.
        message: What is wrong, where, and what to do.
        param: The field of the request that it concerns.
        retry_after: Seconds after which it may be worth another try.

    Attributes:
        status: The HTTP status.
        headers: What to say beside it.
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
        if status in (502, 504):  # a client that tried again by itself would pay for another run
            self.headers["x-should-retry"] = "false"

    @property
    def body(self) -> dict[str, Any]:
        """It as JSON."""
        kind = {401: "authentication_error", 429: "rate_limit_error"}.get(self.status, "invalid_request_error")
        error = ErrorBody(
            message=str(self),
            type=kind if self.status < 500 else "server_error",
            param=self._param,
            code=CODES.get(self.status, "error"),
        )
        return ErrorReply(error=error).model_dump()
