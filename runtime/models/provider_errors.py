"""Errors of vendors' clients, from those of pydantic-ai."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

from operad.runtime.models.addresses import MIN_KEY, one_line, without_key
from operad.runtime.values.errors import ModelError, PromptTooLongError, RequestError


class _Fault(NamedTuple):
    kind: type[ModelError]
    text: str
    remedy: str
    is_transient: bool = False


_FAULTS: Mapping[str, _Fault] = {
    "UserError": _Fault(RequestError, "cannot be asked this", "change the request, or use another model"),
    "ModelAuthenticationError": _Fault(
        ModelError, "refuses the API key, or does not allow this with it", "set {setup}, or the key of this address"
    ),
    "ModelNotFoundError": _Fault(ModelError, "has no such model or address", "check the model's name"),
    "ModelContextWindowExceededError": _Fault(
        PromptTooLongError, "has no room for so many tokens", "make the prompt shorter, or use a larger model"
    ),
    "ModelQuotaExceededError": _Fault(ModelError, "has no quota left", "add credit, or raise the quota"),
    "ModelRateLimitError": _Fault(ModelError, "gets too many calls at once", "wait, or set limits", True),
    "ModelTimeoutError": _Fault(
        ModelError, "was silent for {timeout:g} s", "increase the timeout, or request less", True
    ),
    "ModelUnavailableError": _Fault(ModelError, "is overloaded or down", "try again", True),
    "ModelServerError": _Fault(ModelError, "failed", "try again", True),
    "ModelRequestRejectedError": _Fault(RequestError, "rejects the request", "change the request"),
    "ModelConnectionError": _Fault(
        ModelError,
        "cannot be reached, or broke off its answer",
        "check the address and the network, or try again",
        True,
    ),
    "UnexpectedModelBehavior": _Fault(ModelError, "broke off its answer", "try again", True),
    "ModelHTTPError": _Fault(ModelError, "failed", "check the address"),
}
"""Faults by the names of pydantic-ai's errors, special ones first."""

_TOO_LARGE = _Fault(
    PromptTooLongError,
    "has no room for so large a request",
    "make the prompt shorter, or leave files out",
)


def failure_of(error: Exception, called: str, key: str, *, setup: str, timeout: float, page: str = "") -> ModelError:
    """Return the error to raise for another one, with a remedy and without the key.

    Args:
        error: The error.
        called: Name of the model, for the message.
        key: The key, which the vendor may repeat.
        setup: Environment variables with the vendor's key or credentials.
        timeout: Maximum time without data from the vendor, in seconds.
        page: Description of a web page that arrived in place of an answer; empty without one.
    """
    from pydantic_ai import exceptions

    causes = list(_causes(error))
    if ours := next((each for each in causes if isinstance(each, ModelError)), None):  # of `limit_size`
        return ModelError(str(ours))
    status = getattr(error, "status_code", None)
    code = f" ({status})" if status else ""
    if page and status is None:
        return ModelError(f"{called} answered with {page}; check the address")
    told = page or _message_of(causes[-1] if isinstance(error, exceptions.ModelConnectionError) else error)
    if isinstance(error, exceptions.ModelTimeoutError):
        told = ""  # each package says it in another way
    message = f": {without_key(told, key)}" if told else ""
    for name, fault in _FAULTS.items():
        if isinstance(error, getattr(exceptions, name)):
            if issubclass(fault.kind, RequestError) and isinstance(status, int) and status >= 500:
                fault = _FAULTS["ModelServerError"]
            elif status == 413:  # Anthropic's request_too_large, or the limit of a gateway
                fault = _TOO_LARGE
            text, remedy = fault.text.format(timeout=timeout), fault.remedy.format(setup=setup)
            text = "broke off its answer" if fault.is_transient and getattr(error, "in_stream", False) else text
            is_transient = fault.is_transient and getattr(error, "provider_retry_hint", None) is not False
            return fault.kind(
                f"{called} {text}; {remedy}{code}{message}",
                transient=is_transient,
                retry_after=getattr(error, "retry_after", None),
            )
    if type(error).__module__.partition(".")[0] in ("botocore", "google"):  # credentials of clouds
        return ModelError(f"{called} cannot be asked{message}; set {setup}")
    return ModelError(f"{called}: its answer cannot be read ({type(error).__name__}{message})")


def reveals(error: BaseException, key: str) -> bool:
    """Return True if an error or one of its causes repeats the key."""
    return len(key) >= MIN_KEY and any(key in repr((each, each.args, vars(each))) for each in _causes(error))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _message_of(error: BaseException) -> str:
    """Return the vendor's message inside an error, on one line."""
    body: Any = getattr(error, "body", None)
    if isinstance(body, list) and body:  # Google
        body = cast("list[Any]", body)[0]
    if isinstance(body, dict):
        body = cast("dict[str, Any]", body).get("error", cast("Any", body))
    said: object = cast("dict[str, Any]", body).get("message") if isinstance(body, dict) else cast("object", body)
    return one_line(said if isinstance(said, str) and said else str(getattr(error, "message", "") or error))
