"""Endpoints of OpenAI's protocol: connections, retries, and errors."""

from __future__ import annotations

import asyncio
import base64
import json
import math
import random
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from html import unescape
from importlib import import_module
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast
from urllib.parse import unquote, urlsplit

from pydantic import ConfigDict, Field, JsonValue

from operad.runtime.events import ModelRetried, emit
from operad.runtime.models.turn import ProtocolError
from operad.runtime.policies.deadline import Deadline, within
from operad.runtime.policies.policy import Timeout
from operad.runtime.values.api_key import ApiKey
from operad.runtime.values.errors import ModelError, RequestError, describe
from operad.runtime.values.text import short_line
from operad.runtime.values.value import Value

if TYPE_CHECKING:
    import ssl

    from openai import APIError, AsyncOpenAI

T = TypeVar("T")

OPENAI_URL = "https://api.openai.com/v1"

MAX_SHOWN_MESSAGE = 500
"""Maximum length, in characters, of an endpoint's error message inside an error."""

MIN_KEY = 6
"""Minimum length, in characters, of a key that is removed from messages; a shorter key may equal a common word."""

MOST_BYTES = 2**27
"""Maximum size of an answer in bytes, uncompressed; reading stops beyond it."""

LONGEST_PAUSE = 120.0
"""Maximum wait before a retry, in seconds; if an endpoint asks for a longer one, the call fails."""

_FIRST_RETRY_DELAY = 0.5
"""Maximum wait before the first retry, in seconds; doubled for each further retry."""
_MAX_RETRY_DELAY = 8.0
"""Maximum wait before any retry, in seconds, if the endpoint asks for none."""
_BEGINNING = 2**16
"""Number of bytes kept from the beginning of an answer, to describe an invalid one."""

_LOOPBACK = {"127.0.0.1", "localhost", "::1"}
_KEY_LIKE = re.compile(r"\bsk-[\w*.-]{6,}")


@cache
def _certificates(trust_env: bool) -> ssl.SSLContext:
    """Return the trusted certificates. They are read once per process, because that takes 25 ms of CPU."""
    from openai import DefaultAsyncHttpxClient

    # The library is httpx or httpx2, depending on the version of openai.
    library, _, _ = DefaultAsyncHttpxClient.__mro__[1].__module__.partition(".")
    return import_module(library).create_ssl_context(trust_env=trust_env)


class Endpoint(Value):
    """A model at an endpoint.

    Attributes:
        name: Name of the model at the endpoint.
        base_url: URL of the endpoint, without the protocol's path.
        api_key: API key; None for endpoints without keys. Never shown.
        timeout: Maximum time without data from the endpoint, in seconds.
        total_timeout: Maximum duration of a call in seconds, from the first request to the end of the answer, including
            retries and the waits between them.
        max_retries: Maximum number of retries of a call after a temporary failure (429, 5xx, no connection); each retry
            emits a `ModelRetried` event.
    """

    model_config = ConfigDict(hide_input_in_errors=True)  # the URL may contain a password

    name: str = Field(kw_only=False)
    base_url: str = OPENAI_URL
    api_key: ApiKey | None = None
    timeout: float = Field(default=120.0, gt=0)
    total_timeout: float = Field(default=600.0, gt=0)
    max_retries: int = Field(default=2, ge=0)

    _positional: ClassVar[str] = "name"
    _indifferent: ClassVar[frozenset[str]] = frozenset({"api_key", "timeout", "total_timeout", "max_retries"})
    _protocol: ClassVar[str] = ""

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, without_login(self.base_url) if name == "base_url" else value

    def describe(self) -> str:
        """Return the names of model and endpoint on one line, without secrets."""
        return f"{self.name} at {without_login(self.base_url)}"

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return the values that determine the model's answers, without key and login."""
        return super().fingerprint() | {"base_url": without_login(self.base_url)}

    def _client(self, base_url: str, key: str) -> AsyncOpenAI:
        """Return a new client for the endpoint.

        Raises:
            ModelError: The URL or the key cannot be used.
        """
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        if not _is_usable(base_url):
            raise ModelError(
                f"{self.describe()}: this address cannot be used; write it as http://HOST:PORT/v1, without a query, "
                "and signs such as / in a password as %2F"
            )
        if not (key.isascii() and key.isprintable()):
            raise ModelError(
                f"{self.describe()}: the API key contains invalid characters, perhaps a line break; set it again"
            )
        address, login = split_login(base_url)
        # Proxies from the environment are not used for this machine's own ports.
        trust_env = urlsplit(address).hostname not in _LOOPBACK
        http = DefaultAsyncHttpxClient(verify=_certificates(trust_env), trust_env=trust_env)
        client = AsyncOpenAI(
            base_url=address,
            api_key=key or "none",
            timeout=self.timeout,
            max_retries=0,  # `_send` retries, and emits events
            default_headers=login,
            http_client=http,
        )
        http.event_hooks = {
            "request": [partial(_refuse_other_origin, client.base_url, self.describe())],
            "response": [partial(_limit_size, self.describe())],
        }
        return client

    async def _within_total_timeout(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of a coroutine that makes a call.

        Raises:
            ModelError: The call takes longer than `total_timeout`.
        """
        done = await within(Timeout(run=self.total_timeout), work, [])
        if isinstance(done, Deadline):
            raise ModelError(
                f"{self.describe()} took longer than {self.total_timeout:g} s in all, and the call was stopped; "
                "increase total_timeout, or request less",
                transient=True,
            )
        return done

    async def _send(
        self,
        ask: Callable[[], Awaitable[T]],
        key: str,
        call_id: str = "",
        heed: Callable[[ModelError], Awaitable[None]] | None = None,
    ) -> T:
        """Send a request, with retries after temporary failures, and return what `ask` returns.

        Args:
            ask: Function that sends the request.
            key: API key of the request, which is removed from errors.
            call_id: Id of the call, for events.
            heed: Function to await with each failure, before a retry.

        Raises:
            ModelError: The failure is permanent, or the retries are used up.
        """
        from openai import APIError

        clock = asyncio.get_running_loop().time
        deadline = clock() + self.total_timeout
        for retry in count(1):
            try:
                return await ask()
            except APIError as error:
                failure = self._error_for(error, key)
                if heed is not None:
                    await heed(failure)
                delay = failure.retry_after or _retry_delay(retry)
                again = failure.transient and _header(error, "x-should-retry") != "false"
                if not again or retry > self.max_retries or delay > LONGEST_PAUSE or clock() + delay >= deadline:
                    raise failure from error
            emit(ModelRetried(call_id=call_id, model=self.name, error=str(failure), delay=delay, retry=retry))
            await asyncio.sleep(delay)
        raise AssertionError("unreachable")

    @contextmanager
    def _checked_protocol(self) -> Generator[None, None, None]:
        """Raise ModelError for an answer inside this block that breaks the protocol: openai does not check answers."""
        try:
            yield
        except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            problem = f"its answer cannot be read ({type(error).__name__})"
            raise self._protocol_error(str(error) if isinstance(error, ProtocolError) else problem) from error

    def _protocol_error(self, problem: str) -> ModelError:
        return ModelError(
            f"{self.describe()} does not speak the OpenAI {self._protocol} protocol: {problem}; "
            "check the base URL, which usually ends in /v1"
        )

    def _broken_off_error(self, error: Exception, key: str) -> ModelError:
        from openai import APIError

        # Depending on its version, openai raises errors of its HTTP library, too.
        if isinstance(error, APIError):
            _remove_key(error, key)
        reason = describe(error.__cause__ or error)
        return ModelError(f"{self.describe()} broke off its answer: {reason}; try again", transient=True)

    def _error_for(self, error: APIError, key: str) -> ModelError:
        """Return the error to raise for an error of openai, with a remedy; the key is removed from both."""
        from openai import APIConnectionError, APITimeoutError

        if isinstance(error.__cause__, ModelError):  # of `_refuse_other_origin`: a redirect to another origin
            return ModelError(str(error.__cause__))
        _remove_key(error, key)
        model, message = self.describe(), _message_of(error)
        if isinstance(error, APITimeoutError):
            return ModelError(
                f"{model} was silent for {self.timeout:g} s; increase the timeout, or request less", transient=True
            )
        if isinstance(error, APIConnectionError):
            reason = error.__cause__ or error
            return ModelError(
                f"{model}: cannot connect ({reason}); check that the address is right and the endpoint is running",
                transient=True,
            )
        status = cast("int | None", getattr(error, "status_code", None))
        body = _error_body(error)
        if body.get("type") == "exceed_context_size_error" or body.get("code") == "context_length_exceeded":
            return RequestError(
                f"{model}: the prompt has too many tokens: {message}; give it less, or use a larger model"
            )
        if body.get("code") in _FILTER_CODES:
            return RequestError(
                f"{model}: its content filter refuses the request: {message}; change the prompt or the filter"
            )
        if status == 401:
            fault = "refuses the API key" if self.api_key else "requires an API key, but none is set"
            return ModelError(f"{model} {fault} (401); set OPENAI_API_KEY, or the key of this endpoint")
        meanings = {
            403: "does not allow this with this API key",
            404: "has no such model or address; check the model's name, and the base URL, which usually ends in /v1",
            429: "has no room: too many calls at once, or no quota left; wait, or set limits",
        }
        if status is None:
            return ModelError(f"{model} failed: {message}")
        fault = meanings.get(status, "rejects the request" if status < 500 else "failed")
        no_quota = body.get("code") == "insufficient_quota"
        kind = RequestError if status < 500 and status not in meanings and status not in (408, 409) else ModelError
        return kind(
            f"{model} {fault} ({status}): {message}{_advice(message) if kind is RequestError else ''}",
            transient=(status in (408, 409, 429) and not no_quota) or status >= 500,
            retry_after=_retry_after(error),
        )


def split_login(url: str) -> tuple[str, dict[str, str]]:
    """Return a URL without name and password, which HTTP libraries would log, and the header for them (RFC 7617)."""
    parts = urlsplit(url)
    login, _, host = parts.netloc.rpartition("@")
    if not login:
        return url, {}
    name, _, password = login.partition(":")
    encoded = base64.b64encode(f"{unquote(name)}:{unquote(password)}".encode()).decode()
    return parts._replace(netloc=host).geturl(), {"Authorization": f"Basic {encoded}"}


_HOST = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(:[0-9]*)?")
"""A host with its port."""


def without_login(url: str) -> str:
    """Return a URL without name, password and query.

    The host is the one that HTTP libraries connect to. If that cannot be one, everything before the last @ is removed,
    which may be a password with a slash. If an @ follows a valid host, the path is left out for the same reason.

        print(without_login("https://ada:secret@models.example/v1?key=k"))  # https://models.example/v1
    """
    scheme, slashes, rest = url.partition("://")
    start, named = (f"{scheme}{slashes}", rest) if rest else ("", scheme)
    authority = re.split("[/?#]", named, maxsplit=1)[0]
    host, more = authority.rpartition("@")[2], named[len(authority) :]
    if not _HOST.fullmatch(host):
        host, more = "", named.rpartition("@")[2]
    return f"{start}{host}{'' if '@' in more else re.split('[?#]', more)[0]}"


def without_key(text: str, key: str) -> str:
    """Return the text with the key, and all that looks like one, replaced by ``[key]``."""
    return _KEY_LIKE.sub("[key]", text.replace(key, "[key]") if len(key) >= MIN_KEY else text)


def one_line(message: str) -> str:
    """Return an endpoint's message on one line, cut to `MAX_SHOWN_MESSAGE` characters."""
    return short_line(message, MAX_SHOWN_MESSAGE)


_ADVICE = {
    re.compile(
        "response_format|json_schema"
    ): "if this endpoint has no JSON Schemas, set the model's `structured` to False",
    re.compile("tools|tool[_ ]choice"): "if this endpoint has no tool calls, set the model's `tools` to 'constrained'",
}
"""Setting of the model that avoids a field of a request, by the words of an endpoint that rejects the field."""


def _advice(message: str) -> str:
    """Return advice on the rejection of a request; empty if no setting avoids it."""
    return next((f"; {advice}" for words, advice in _ADVICE.items() if words.search(message)), "")


_FILTER_CODES = ("content_filter", "content_policy_violation")
"""Error codes of endpoints for requests that a content filter refuses."""


def _retry_delay(retry: int) -> float:
    """Return the number of seconds before a retry: doubled for each retry, and reduced at random by up to a quarter."""
    maximum = min(_FIRST_RETRY_DELAY * 2 ** min(retry - 1, 64), _MAX_RETRY_DELAY)
    return maximum * random.uniform(0.75, 1)  # noqa: S311 - jitter, not a secret


async def _refuse_other_origin(base_url: Any, model: str, request: Any) -> None:
    """Refuse a request to another origin than the endpoint's, because it would carry the key and the prompt there.

    Raises:
        ModelError: A redirect leads to another origin.
    """
    url = request.url
    if (url.scheme, url.host, url.port) != (base_url.scheme, base_url.host, base_url.port):
        origin = without_login(str(url.copy_with(path="/", query=None, fragment=None))).rstrip("/")
        raise ModelError(
            f"{model} redirects to {origin}, and neither the prompt nor the key is sent to another origin; "
            "if that is where the endpoint is, write its address as the base URL"
        )


async def _limit_size(model: str, response: Any) -> None:
    """Limit the size of a response, uncompressed, to `MOST_BYTES`; reading beyond it raises ModelError.

    The beginning of the response is kept in its ``extensions``, for `beginning`.
    """
    aiter_unlimited = response.aiter_bytes
    beginning_bytes = response.extensions["operad"] = bytearray()

    async def aiter_bytes(chunk_size: int | None = None) -> AsyncGenerator[bytes, None]:
        size = 0
        async for part in aiter_unlimited(chunk_size):
            size += len(part)
            if len(beginning_bytes) < _BEGINNING:
                beginning_bytes.extend(part[: _BEGINNING - len(beginning_bytes)])
            if size > MOST_BYTES:
                raise ModelError(f"the answer of {model} is larger than the maximum of {MOST_BYTES:,} bytes")
            yield part

    response.aiter_bytes = aiter_bytes


def beginning(response: Any) -> str:
    """Return the beginning of a response that has been read, as text."""
    return bytes(response.extensions.get("operad", b"")).decode("utf-8", "replace").strip()


def page_title(text: str) -> str | None:
    """Return the title of a web page, empty if it has none; None if the text is not a web page."""
    if not re.match(r"<(!doctype\s+html|html|head|body)\b", text, re.IGNORECASE):
        return None
    title = re.search(r"<title[^>]{0,100}>([^<]{1,1000})", text, re.IGNORECASE)
    return one_line(unescape(title[1])) if title else ""


def _is_usable(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0 and not parts.query
    except ValueError:
        return False


def _retry_after(error: APIError) -> float | None:
    """Return the wait in seconds that the headers of an endpoint ask for; None without a usable header.

    ``Retry-After`` is defined in RFC 9110, section 10.2.3; ``retry-after-ms``, in milliseconds, is OpenAI's.
    """
    waits = (_number(_header(error, "retry-after-ms")) / 1000, _seconds_until(_header(error, "retry-after")))
    return next((seconds for seconds in waits if 0 < seconds < math.inf), None)


def _number(text: str) -> float:
    """Return the number in a text; NaN if there is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def _seconds_until(text: str) -> float:
    """Return the number of seconds in a text, or until the date in it; NaN if there is neither."""
    from email.utils import parsedate_to_datetime

    try:
        return float(text)
    except ValueError:
        try:
            return parsedate_to_datetime(text).timestamp() - time.time()
        except (ValueError, OverflowError):
            return math.nan


def _error_body(error: APIError) -> Mapping[str, Any]:
    body: Any = error.body
    return cast("Mapping[str, Any]", body) if isinstance(body, Mapping) else {}


def _header(error: APIError, name: str) -> str:
    headers: Any = getattr(getattr(error, "response", None), "headers", {})
    return str(headers.get(name, ""))


def _message_of(error: APIError) -> str:
    """Return the endpoint's error message, or else the text of its answer; for a web page, its title."""
    body: Any = error.body
    if isinstance(body, str) and body:
        title = page_title(body)
        return one_line(body) if title is None else f"a web page, {title!r}" if title else "a web page"
    if message := _error_body(error).get("message"):
        return one_line(str(message))
    return one_line(json.dumps(body, ensure_ascii=False)) if body else one_line(error.message)


def _remove_key(error: APIError, key: str) -> None:
    """Remove the key from an error that repeats it, because tracebacks show the cause, too."""

    def clean(value: Any) -> Any:
        if isinstance(value, str):
            return without_key(value, key)
        if isinstance(value, Mapping):
            return {name: clean(item) for name, item in cast("Mapping[str, Any]", value).items()}
        if isinstance(value, list):
            return [clean(item) for item in cast("list[Any]", value)]
        return value

    for name in ("message", "body", "code", "param", "type"):
        setattr(error, name, clean(getattr(error, name)))
    error.args = tuple(map(clean, error.args))
