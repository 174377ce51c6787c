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
from operad.runtime.policies.deadline import Deadline, within
from operad.runtime.policies.policy import Timeout
from operad.runtime.values.api_key import ApiKey
from operad.runtime.values.errors import ModelError, RequestError, describe
from operad.runtime.values.message import Value

if TYPE_CHECKING:
    import ssl

    from openai import APIError, AsyncOpenAI

T = TypeVar("T")

OPENAI_URL = "https://api.openai.com/v1"

MAX_SHOWN_MESSAGE = 500
"""Characters of an endpoint's own error message that an error of ours repeats."""

MIN_KEY = 6
"""Characters from which on a key is removed from messages; a shorter one may be any word."""

MOST_BYTES = 2**27
"""Bytes of an answer, unpacked, that are read; of one without end no more is kept."""

LONGEST_PAUSE = 120.0
"""Seconds that a call waits before it is sent again; where an endpoint asks for more, the call fails."""

_FIRST_PAUSE = 0.5
_LAST_PAUSE = 8.0
_BEGINNING = 2**16
"""Number of bytes kept of an answer, to describe it if it is not valid."""

_LOOPBACK = {"127.0.0.1", "localhost", "::1"}
_KEY_LIKE = re.compile(r"\bsk-[\w*.-]{6,}")


@cache
def _certificates(trust_env: bool) -> ssl.SSLContext:
    """Return the trusted certificates, read once per process: each reading takes 25 ms of CPU."""
    from openai import DefaultAsyncHttpxClient

    # openai's version decides whether that is httpx or httpx2.
    library, _, _ = DefaultAsyncHttpxClient.__mro__[1].__module__.partition(".")
    return import_module(library).create_ssl_context(trust_env=trust_env)


class Endpoint(Value):
    """A model at an endpoint.

    Attributes:
        name: The model's name at the endpoint.
        base_url: Where the endpoint is; the protocol's own path follows.
        api_key: The key, or None for endpoints that want none. Never shown.
        timeout: Seconds that the endpoint may be silent.
        total_timeout: Seconds that a call may take from its first request to the end of the answer, retries and
            the waits between them included.
        max_retries: Number of times that a call that was refused for the time being (429, 5xx, no connection)
            is tried again; each retry is a `ModelRetried` event.
    """

    model_config = ConfigDict(hide_input_in_errors=True)  # an address may hold a password

    name: str
    base_url: str = OPENAI_URL
    api_key: ApiKey | None = None
    timeout: float = Field(default=120.0, gt=0)
    total_timeout: float = Field(default=600.0, gt=0)
    max_retries: int = Field(default=2, ge=0)

    _indifferent: ClassVar[frozenset[str]] = frozenset({"api_key", "timeout", "total_timeout", "max_retries"})
    _protocol: ClassVar[str] = ""

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, without_login(self.base_url) if name == "base_url" else value

    def describe(self) -> str:
        """Return the model and its endpoint in one line, without secrets."""
        return f"{self.name} at {without_login(self.base_url)}"

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return the values that determine its answers, without key and login."""
        return super().fingerprint() | {"base_url": without_login(self.base_url)}

    def _client(self, base_url: str, key: str) -> AsyncOpenAI:
        """A client.

        Raises:
            ModelError: The address or the key cannot be used.
        """
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        if not _is_usable(base_url):
            raise ModelError(
                f"{self.describe()}: this address cannot be used; write it as http://HOST:PORT/v1, without a query, "
                "and signs such as / in a password as %2F"
            )
        if not (key.isascii() and key.isprintable()):
            raise ModelError(
                f"{self.describe()}: the API key holds signs that no key has, perhaps a line break; set it again"
            )
        address, login = apart(base_url)
        # A proxy that the environment names is not for this machine's own ports.
        trust_env = urlsplit(address).hostname not in _LOOPBACK
        http = DefaultAsyncHttpxClient(verify=_certificates(trust_env), trust_env=trust_env)
        client = AsyncOpenAI(
            base_url=address,
            api_key=key or "none",
            timeout=self.timeout,
            max_retries=0,  # `_asked` retries, and tells of it
            default_headers=login,
            http_client=http,
        )
        http.event_hooks = {
            "request": [partial(_only_at, client.base_url, self.describe())],
            "response": [partial(_bounded, self.describe())],
        }
        return client

    async def _in_time(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a call.

        Raises:
            ModelError: It takes longer than `total_timeout`.
        """
        done = await within(Timeout(run=self.total_timeout), work, [])
        if isinstance(done, Deadline):
            raise ModelError(
                f"{self.describe()} took longer than {self.total_timeout:g} s in all, and the call was stopped; "
                "raise total_timeout, or ask for less",
                transient=True,
            )
        return done

    async def _asked(
        self,
        ask: Callable[[], Awaitable[T]],
        key: str,
        call_id: str = "",
        heed: Callable[[ModelError], Awaitable[None]] | None = None,
    ) -> T:
        """Send a request, with retries after temporary refusals, and return the beginning of the answer.

        Args:
            ask: Function that sends the request.
            key: Key of the request, which is removed from errors.
            call_id: Id of the call, for events.
            heed: Called with each failure.

        Raises:
            ModelError: It was refused for good, or once too often.
        """
        from openai import APIError

        clock = asyncio.get_running_loop().time
        ends = clock() + self.total_timeout
        for retry in count(1):
            try:
                return await ask()
            except APIError as error:
                failure = self._failure(error, key)
                if heed is not None:
                    await heed(failure)
                delay = failure.retry_after or _pause(retry)
                again = failure.transient and _header(error, "x-should-retry") != "false"
                if not again or retry > self.max_retries or delay > LONGEST_PAUSE or clock() + delay >= ends:
                    raise failure from error
            emit(ModelRetried(call_id=call_id, model=self.name, error=str(failure), delay=delay, retry=retry))
            await asyncio.sleep(delay)
        raise AssertionError("unreachable")

    @contextmanager
    def _reading(self) -> Generator[None, None, None]:
        """Whatever in an answer is not what the protocol says is a `ModelError`: openai checks nothing."""
        try:
            yield
        except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise self._no_protocol(f"its answer cannot be read ({type(error).__name__})") from error

    def _no_protocol(self, what: str) -> ModelError:
        return ModelError(
            f"{self.describe()} does not speak the OpenAI {self._protocol} protocol: {what}; "
            "check the base URL, which usually ends in /v1"
        )

    def _broke_off(self, error: Exception, key: str) -> ModelError:
        from openai import APIError

        # Depending on its version, openai lets errors of its HTTP library through.
        if isinstance(error, APIError):
            _scrub(error, key)
        why = describe(error.__cause__ or error)
        return ModelError(f"{self.describe()} broke off its answer: {why}; try again", transient=True)

    def _failure(self, error: APIError, key: str) -> ModelError:
        """An error that says what to do; the key that was used stays out of it and of its cause."""
        from openai import APIConnectionError, APITimeoutError

        if isinstance(error.__cause__, ModelError):  # ours: the request would have gone elsewhere
            return ModelError(str(error.__cause__))
        _scrub(error, key)
        who, said = self.describe(), _said(error)
        if isinstance(error, APITimeoutError):
            return ModelError(
                f"{who} was silent for {self.timeout:g} s; raise the timeout, or ask for less", transient=True
            )
        if isinstance(error, APIConnectionError):
            why = error.__cause__ or error
            return ModelError(
                f"{who}: cannot connect ({why}); check that the address is right and the endpoint is running",
                transient=True,
            )
        status = cast("int | None", getattr(error, "status_code", None))
        body = _body(error)
        if body.get("type") == "exceed_context_size_error" or body.get("code") == "context_length_exceeded":
            return RequestError(f"{who}: the prompt has too many tokens: {said}; give it less, or use a larger model")
        if body.get("code") in _FILTERED:
            return RequestError(
                f"{who}: its content filter refuses the request: {said}; change the prompt or the filter"
            )
        if status == 401:
            fault = "refuses the API key" if self.api_key else "wants an API key, and none is given"
            return ModelError(f"{who} {fault} (401); set OPENAI_API_KEY, or the key of this endpoint")
        meanings = {
            403: "does not allow this with this API key",
            404: "has no such model or address; check the model's name, and the base URL, which usually ends in /v1",
            429: "has no room: too many calls at once, or no quota left; wait, or set limits",
        }
        if status is None:
            return ModelError(f"{who} failed: {said}")
        fault = meanings.get(status, "rejects the request" if status < 500 else "failed")
        no_quota = body.get("code") == "insufficient_quota"
        kind = RequestError if status < 500 and status not in meanings and status not in (408, 409) else ModelError
        return kind(
            f"{who} {fault} ({status}): {said}",
            transient=(status in (408, 409, 429) and not no_quota) or status >= 500,
            retry_after=_retry_after(error),
        )


def apart(url: str) -> tuple[str, dict[str, str]]:
    """An address without name and password, as HTTP libraries log it, and the header that those stand for (RFC 7617)."""
    parts = urlsplit(url)
    login, _, place = parts.netloc.rpartition("@")
    if not login:
        return url, {}
    name, _, password = login.partition(":")
    encoded = base64.b64encode(f"{unquote(name)}:{unquote(password)}".encode()).decode()
    return parts._replace(netloc=place).geturl(), {"Authorization": f"Basic {encoded}"}


def without_login(url: str) -> str:
    """The address without name, password and query; in a broken one, all before its last @ may be a password."""
    scheme, slashes, rest = url.partition("://")
    return f"{scheme if slashes else ''}{slashes}{re.split('[?#]', (rest or scheme).rpartition('@')[2])[0]}"


def without_key(text: str, key: str) -> str:
    """The text without the key, and without what looks like one."""
    return _KEY_LIKE.sub("[key]", text.replace(key, "[key]") if len(key) >= MIN_KEY else text)


def shown(message: str) -> str:
    """An endpoint's own message as an error of ours repeats it: on one line, and not too long."""
    text = " ".join(message.split())
    return text if len(text) <= MAX_SHOWN_MESSAGE else text[:MAX_SHOWN_MESSAGE] + "…"


_FILTERED = ("content_filter", "content_policy_violation")
"""Codes of errors by which endpoints say that a content filter refuses a request."""


def _pause(retry: int) -> float:
    """Seconds before a retry: twice as many each time, the last quarter by chance."""
    most = min(_FIRST_PAUSE * 2 ** min(retry - 1, 64), _LAST_PAUSE)
    return most * random.uniform(0.75, 1)  # noqa: S311 - jitter, not a secret


async def _only_at(home: Any, who: str, request: Any) -> None:
    """Refuse a request to another origin than the endpoint's, for it bears the key and the prompt.

    Raises:
        ModelError: A redirect leads there.
    """
    url = request.url
    if (url.scheme, url.host, url.port) != (home.scheme, home.host, home.port):
        origin = without_login(str(url.copy_with(path="/", query=None, fragment=None))).rstrip("/")
        raise ModelError(
            f"{who} redirects to {origin}, and neither the prompt nor the key is sent to another origin; "
            "if that is where the endpoint is, write its address as the base URL"
        )


async def _bounded(who: str, response: Any) -> None:
    """Have an answer end with an error where it goes on for too long, be it of errors, without lines, or packed.

    Its beginning is kept in the response's ``extensions``, for `beginning`.
    """
    whole = response.aiter_bytes
    kept = response.extensions["operad"] = bytearray()

    async def aiter_bytes(chunk_size: int | None = None) -> AsyncGenerator[bytes, None]:
        size = 0
        async for part in whole(chunk_size):
            size += len(part)
            if len(kept) < _BEGINNING:
                kept.extend(part[: _BEGINNING - len(kept)])
            if size > MOST_BYTES:
                raise ModelError(f"{who} sends more than the {MOST_BYTES:,} bytes that an answer may have")
            yield part

    response.aiter_bytes = aiter_bytes


def beginning(response: Any) -> str:
    """The beginning of an answer that has been read, as text."""
    return bytes(response.extensions.get("operad", b"")).decode("utf-8", "replace").strip()


def page_title(text: str) -> str | None:
    """Return the title of a web page, empty if it has none; None if the text is not a web page."""
    if not re.match(r"<(!doctype\s+html|html|head|body)\b", text, re.IGNORECASE):
        return None
    title = re.search(r"<title[^>]{0,100}>([^<]{1,1000})", text, re.IGNORECASE)
    return shown(unescape(title[1])) if title else ""


def _is_usable(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0 and not parts.query
    except ValueError:
        return False


def _retry_after(error: APIError) -> float | None:
    """Seconds that an endpoint asks to wait, from its headers (RFC 9110, section 10.2.3; milliseconds are OpenAI's)."""
    given, milliseconds = _header(error, "retry-after"), _header(error, "retry-after-ms")
    try:
        seconds = float(milliseconds) / 1000 if milliseconds else float(given)
    except ValueError:
        from email.utils import parsedate_to_datetime

        try:
            seconds = parsedate_to_datetime(given).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return seconds if 0 < seconds < math.inf else None


def _body(error: APIError) -> Mapping[str, Any]:
    body: Any = error.body
    return cast("Mapping[str, Any]", body) if isinstance(body, Mapping) else {}


def _header(error: APIError, name: str) -> str:
    headers: Any = getattr(getattr(error, "response", None), "headers", {})
    return str(headers.get(name, ""))


def _said(error: APIError) -> str:
    """Return the endpoint's message, or else the text of its answer; of a web page, the title."""
    body: Any = error.body
    if isinstance(body, str) and body:
        title = page_title(body)
        return shown(body) if title is None else f"a web page, {title!r}" if title else "a web page"
    if said := _body(error).get("message"):
        return shown(str(said))
    return shown(json.dumps(body, ensure_ascii=False)) if body else shown(error.message)


def _scrub(error: APIError, key: str) -> None:
    """Remove the key from an error whose endpoint repeats it, for tracebacks show causes too."""

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
