"""Endpoints of OpenAI's protocols: connections, retries, errors, limits of their answers, and streams of events."""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from pydantic import ConfigDict, Field, JsonValue, PrivateAttr, SecretStr, field_validator

from operad.runtime.events import ModelRetried, emit
from operad.runtime.models.addresses import (
    described_page,
    is_loopback,
    is_usable,
    one_line,
    split_login,
    without_key,
    without_login,
)
from operad.runtime.models.chat_stream import ProtocolError
from operad.runtime.models.names import OPENAI, Located, key_fault, locate, vendor_at
from operad.runtime.policies.deadline import Deadline, within
from operad.runtime.policies.policy import Timeout
from operad.runtime.values.errors import InputError, ModelError, PromptTooLongError, RequestError, describe
from operad.runtime.values.secret import ApiKey, key_text
from operad.runtime.values.value import Value

if TYPE_CHECKING:
    import ssl
    from typing import Self

    from openai import APIError, AsyncOpenAI, AsyncStream


FILTER_CODES = ("content_filter", "content_policy_violation")
"""Error codes of endpoints for requests that a content filter refuses."""

_TOO_LONG = re.compile(
    r"(context|prompt|input) (length|size|window)|(prompt|input|request|messages?) (is |are )?too (long|large)"
    r"|exceed\w*.{0,40}token|token.{0,40}(exceed|too large|too many)|too many .{0,20}tokens"
    r"|tokens? .{0,30}must be <=|exceed\w* .{0,30}(context|prompt|input)|超长",
    re.IGNORECASE,
)
"""Messages of servers without a code for it: vLLM, DeepSeek, OpenRouter, Moonshot, Together, LM Studio, Qwen, xAI, Zhipu."""


def is_too_long(error: Mapping[str, Any], message: str, status: int | None = None) -> bool:
    """Return True if an endpoint refuses a request for the number of its tokens: by its code, or else its message."""
    code = error.get("code")
    is_said = error.get("type") == "exceed_context_size_error" or code == "context_length_exceeded"
    may_be = status in (None, 400, 413, 422) and code != "rate_limit_exceeded"  # which counts tokens, too
    return is_said or (may_be and bool(_TOO_LONG.search(message)))


# Time that an endpoint asks to wait before the next request.


def retry_after(error: APIError) -> float | None:
    """Return the wait in seconds that the headers of an endpoint ask for; None without a usable header.

    ``Retry-After`` is defined in RFC 9110, section 10.2.3; ``retry-after-ms``, in milliseconds, is OpenAI's.
    """
    waits = (_number(header(error, "retry-after-ms")) / 1000, _seconds_until(header(error, "retry-after")))
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


def header(error: APIError, name: str) -> str:
    """Return a header of the answer that is an error; empty if it has none."""
    headers: Any = getattr(getattr(error, "response", None), "headers", {})
    return str(headers.get(name, ""))


T = TypeVar("T")

OPENAI_URL = OPENAI.base_url


LONGEST_PAUSE = 120.0
"""Maximum wait before a retry, in seconds; if an endpoint asks for a longer one, the call fails."""

_FIRST_RETRY_DELAY = 0.5
"""Maximum wait before the first retry, in seconds; doubled for each further retry."""
_MAX_RETRY_DELAY = 8.0
"""Maximum wait before any retry, in seconds, if the endpoint asks for none."""


@cache
def _certificates(trust_env: bool) -> ssl.SSLContext:
    """Return the trusted certificates. They are read once per process, because that takes 25 ms of CPU."""
    from openai import DefaultAsyncHttpxClient

    # The library is httpx or httpx2, depending on the version of openai.
    library, _, _ = DefaultAsyncHttpxClient.__mro__[1].__module__.partition(".")
    return import_module(library).create_ssl_context(trust_env=trust_env)


def http_options(address: str) -> dict[str, Any]:
    """Return the options of an HTTP client for an address. Proxies are not used for this machine's own ports."""
    trust_env = not is_loopback(address)
    return {"verify": _certificates(trust_env), "trust_env": trust_env}


class Endpoint(Value):
    """A model at an endpoint.

    Attributes:
        name: Name of the model at the endpoint, or with the prefix of a vendor: see `locate`.
        base_url: URL of the endpoint, without the protocol's path; None for the vendor's, or for that in the environment.
        api_key: API key; None for that of the environment, at the address that it is for. Never shown.
        timeout: Maximum time without data from the endpoint, in seconds.
        total_timeout: Maximum duration of a call in seconds, from the first request to the end of the answer, including
            retries and the waits between them.
        max_retries: Maximum number of retries of a call after a temporary failure (429, 5xx, no connection); each retry
            emits a `ModelRetried` event.
    """

    model_config = ConfigDict(hide_input_in_errors=True)  # the URL may contain a password

    name: str = Field(kw_only=False)
    base_url: str | None = None
    api_key: ApiKey | None = None
    timeout: float = Field(default=120.0, gt=0)
    total_timeout: float = Field(default=600.0, gt=0)
    max_retries: int = Field(default=2, ge=0)

    _positional: ClassVar[str] = "name"
    _indifferent: ClassVar[frozenset[str]] = frozenset({"api_key", "timeout", "total_timeout", "max_retries"})

    @field_validator("name")
    @classmethod
    def _is_named(cls, name: str) -> str:
        if not name.strip():
            raise ValueError("is empty; write the name of a model, such as 'mistral:mistral-large-latest'")
        return name

    _settled_at: Located | None = PrivateAttr(default=None)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, without_login(value) if name == "base_url" and value else value

    def located(self) -> Located:
        """Return the endpoint that the name, the address and the environment select at this moment.

        Raises:
            InputError: The prefix of the name is unknown, or the environment lacks the address of its vendor.
        """
        key, place = key_text(self.api_key), self._settled_at
        if place and (place.name, place.base_url) == (self.name, self.base_url):  # settled: the name lost its prefix
            return replace(place, key=key)
        return locate(self.name, self.base_url, key, os.environ)

    @property
    def _protocol(self) -> str:
        """Name of the protocol, for errors."""
        return ""

    def describe(self) -> str:
        """Return the names of model and endpoint on one line, without secrets."""
        try:
            located = self.located()
        except InputError:  # a call or a check reports it
            return self.name
        return f"{located.name} at {without_login(located.base_url)}"

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return the values that determine the model's answers, without key and login.

        Raises:
            InputError: As for `located`.
        """
        located = self.located()
        return super().fingerprint() | {"name": located.name, "base_url": without_login(located.base_url)}

    def settled(self, located: Located | None = None) -> Self:
        """Return the same model with the name, address and key of an endpoint; by default, of that at this moment.

        Raises:
            InputError: As for `located`; or the vendor needs a key and the environment has none.
        """
        located = located or self.located()
        if located.lacks_key and located.vendor:
            raise InputError(
                f"{self.describe()}: no API key is set; set {' or '.join(located.vendor.keys)}, or give the model its "
                "api_key"
            )
        key = SecretStr(located.key) if located.key else None
        settled = self.model_copy(update={"name": located.name, "base_url": located.base_url, "api_key": key})
        settled._settled_at = located
        return settled

    @property
    def address(self) -> str:
        """URL of the endpoint of a settled model."""
        return self.base_url or ""

    def _client(self) -> AsyncOpenAI:
        """Return a new client for the endpoint of a settled model.

        Raises:
            ModelError: The URL or the key cannot be used.
        """
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        base_url, key = self.address, key_text(self.api_key)
        self.check_address(base_url)
        self.check_key(key)
        address, login = split_login(base_url)
        unsent = [] if key or login else ["Authorization"]
        if vendor_at(address) is not OPENAI:  # the client takes them from the environment, whatever the address
            unsent += ["OpenAI-Organization", "OpenAI-Project"]
        http = DefaultAsyncHttpxClient(**http_options(address))
        client = AsyncOpenAI(
            base_url=address,
            api_key=key or "none",  # it wants one; `_remove_headers` keeps it from being sent
            timeout=self.timeout,
            max_retries=0,  # `_send` retries, and emits events
            default_headers=login,
            http_client=http,
        )
        http.event_hooks = {
            "request": [partial(_remove_headers, unsent), partial(refuse_other_origin, self.describe())],
            "response": [partial(limit_size, self.describe())],
        }
        return client

    def check_address(self, base_url: str) -> None:
        """Raise ModelError for a URL that cannot be used."""
        if not is_usable(base_url):
            raise ModelError(
                f"{self.describe()}: this address cannot be used; write it as http://HOST:PORT/v1, without a query, "
                "and signs such as / in a password as %2F"
            )

    def check_key(self, key: str) -> None:
        """Raise ModelError for a key that cannot be sent."""
        if not (key.isascii() and key.isprintable()):
            raise ModelError(
                f"{self.describe()}: the API key contains invalid characters, perhaps a line break; set it again"
            )

    async def _within_total_timeout(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of a coroutine that makes a call."""
        done = await within(Timeout(run=self.total_timeout), work, [])
        if isinstance(done, Deadline):
            raise ModelError(
                f"{self.describe()} took longer than {self.total_timeout:g} s in all, and the call was stopped; "
                "increase total_timeout, or request less",
                transient=True,
            )
        return done

    async def _send(self, ask: Callable[[], Awaitable[T]], key: str) -> T:
        """Send a request, with retries after temporary failures, and return what `ask` returns.

        Args:
            key: API key of the request, which is removed from errors.

        Raises:
            ModelError: The failure is permanent, or the retries are used up.
        """
        return await self._retried(partial(self.asked, ask, key))

    async def asked(self, ask: Callable[[], Awaitable[T]], key: str) -> T:
        """Send a request once, and return what `ask` returns.

        Raises:
            ModelError: It failed.
        """
        from openai import APIError

        try:
            return await ask()
        except APIError as error:
            raise self._error_for(error, key) from error

    async def _retried(
        self,
        ask: Callable[[], Awaitable[T]],
        call_id: str = "",
        heed: Callable[[ModelError], Awaitable[None]] | None = None,
    ) -> T:
        """Return what `ask` returns, with retries after temporary failures.

        Args:
            ask: Function that sends a request.
            heed: Function to await with each failure, before a retry.

        Raises:
            ModelError: The failure is permanent, or the retries are used up.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + self.total_timeout
        for retry in count(1):
            try:
                return await ask()
            except ModelError as failure:
                if heed is not None:
                    await heed(failure)
                delay = failure.retry_after or _retry_delay(retry)
                is_last = retry > self.max_retries or delay > LONGEST_PAUSE or clock() + delay >= deadline
                if not failure.transient or is_last:
                    raise
                message = str(failure)
            emit(ModelRetried(call_id=call_id, model=self.name, error=message, delay=delay, retry=retry))
            await asyncio.sleep(delay)
        raise AssertionError("unreachable")

    @contextmanager
    def checked_protocol(self) -> Generator[None, None, None]:
        """Raise ModelError for an answer inside this block that breaks the protocol: openai does not check answers."""
        try:
            yield
        except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            problem = f"its answer cannot be read ({type(error).__name__})"
            raise self.protocol_error(str(error) if isinstance(error, ProtocolError) else problem) from error

    def protocol_error(self, problem: str) -> ModelError:
        """Return the error for an answer that breaks the protocol."""
        return ModelError(
            f"{self.describe()} does not speak the OpenAI {self._protocol} protocol: {problem}; "
            "check the base URL, which usually ends in /v1"
        )

    def broken_off_error(self, error: Exception, key: str) -> ModelError:
        """Return the error for an answer that ended early; the key is removed from both."""
        from openai import APIError

        # Depending on its version, openai raises errors of its HTTP library, too.
        if isinstance(error, APIError):
            _remove_key(error, key)
        reason = describe(error.__cause__ or error)
        return ModelError(f"{self.describe()} broke off its answer: {reason}; try again", transient=True)

    def too_long_error(self, message: str) -> PromptTooLongError:
        """Return the error for a prompt with too many tokens."""
        return PromptTooLongError(
            f"{self.describe()}: the prompt has too many tokens: {message}; give it less, or use a larger model"
        )

    def _error_for(self, error: APIError, key: str) -> ModelError:
        """Return the error to raise for an error of openai, with a remedy; the key is removed from both."""
        from openai import APIConnectionError, APITimeoutError

        if isinstance(error.__cause__, ModelError):  # of `refuse_other_origin`: a redirect to another origin
            return ModelError(str(error.__cause__))
        _remove_key(error, key)
        model, message = self.describe(), message_of(error)
        if isinstance(error, APITimeoutError):
            return self.silence_error()
        if isinstance(error, APIConnectionError):
            reason = error.__cause__ or error
            return ModelError(
                f"{model}: cannot connect ({reason}); check that the address is right and the endpoint is running",
                transient=True,
            )
        return self.refusal(
            cast("int | None", getattr(error, "status_code", None)),
            _error_body(error),
            message,
            may_retry=header(error, "x-should-retry") != "false",
            wait=retry_after(error),
        )

    def silence_error(self) -> ModelError:
        """Return the error for an endpoint that sent nothing during `timeout`."""
        return ModelError(
            f"{self.describe()} was silent for {self.timeout:g} s; increase the timeout, or request less",
            transient=True,
        )

    def refusal(
        self,
        status: int | None,
        body: Mapping[str, Any],
        message: str,
        *,
        may_retry: bool = True,
        wait: float | None = None,
    ) -> ModelError:
        """Return the error for a request that the endpoint answered with an error, with a remedy.

        Args:
            status: HTTP status of the answer; None if it is unknown.
            body: The error, as the endpoint sent it, with its `type` and `code`.
            message: Its message, without secrets.
            may_retry: False if the endpoint forbids retries.
            wait: Time before a retry that the endpoint asks for, in seconds; None if it asks for none.
        """
        model = self.describe()
        if is_too_long(body, message, status):
            return self.too_long_error(message)
        if body.get("code") in FILTER_CODES:
            return RequestError(
                f"{model}: its content filter refuses the request: {message}; change the prompt or the filter"
            )
        if status == 401:
            return ModelError(f"{model} {key_fault(self.located(), message, os.environ)}")
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
        is_temporary = (status in (408, 409, 429) and not no_quota) or status >= 500
        advice = self._advice(status, str(body.get("code") or ""), message)
        return kind(
            f"{model} {fault} ({status}): {message}{advice and f'; {advice}'}",
            transient=is_temporary and may_retry,
            retry_after=wait,
        )

    def _advice(self, status: int, code: str, message: str) -> str:
        """Return advice on an error of the endpoint, by its status, code and message; empty if no setting avoids it."""
        return ""


def _retry_delay(retry: int) -> float:
    """Return the number of seconds before a retry: doubled for each retry, and reduced at random by up to a quarter."""
    maximum = min(_FIRST_RETRY_DELAY * 2 ** min(retry - 1, 64), _MAX_RETRY_DELAY)
    return maximum * random.uniform(0.75, 1)  # noqa: S311 - jitter, not a secret


def _error_body(error: APIError) -> Mapping[str, Any]:
    body: Any = error.body
    return cast("Mapping[str, Any]", body) if isinstance(body, Mapping) else {}


def message_of(error: APIError) -> str:
    """Return the endpoint's error message, or else the text of its answer; for a web page, its title."""
    body: Any = error.body
    if isinstance(body, str) and body:
        return described_page(body) or one_line(body)
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


MOST_BYTES = 2**27
"""Maximum size of an answer in bytes, uncompressed; reading stops beyond it."""

_BEGINNING = 2**16
"""Number of bytes kept from the beginning of an answer, to describe an invalid one."""


async def _remove_headers(names: Sequence[str], request: Any) -> None:
    """Remove headers from a request."""
    for name in names:
        request.headers.pop(name, None)


async def refuse_other_origin(model: str, request: Any) -> None:
    """Refuse a redirect to another origin than the endpoint's, because it would carry the key and the prompt there.

    The origin is kept in the ``extensions`` of the request, which those that follow redirects take over.

    Raises:
        ModelError: A redirect leads to another origin.
    """
    url = request.url
    origin = (url.scheme, url.host, url.port)
    if request.extensions.setdefault("operad_origin", origin) != origin:
        target = without_login(str(url.copy_with(path="/", query=None, fragment=None))).rstrip("/")
        raise ModelError(
            f"{model} redirects to {target}, and neither the prompt nor the key is sent to another origin; "
            "if that is where the endpoint is, write its address as the base URL"
        )


async def replace_headers(names: Sequence[str], headers: Mapping[str, str], request: Any) -> None:
    """Remove headers from a request, and set others."""
    await _remove_headers(names, request)
    request.headers.update(headers)


async def limit_size(model: str, response: Any) -> None:
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


async def asked_stream(
    endpoint: Endpoint, client: AsyncOpenAI, path: str, body: Mapping[str, Any]
) -> AsyncStream[object]:
    """Send a request once, and return the stream of its answer.

    Raises:
        ModelError: The request failed.
    """
    from openai import AsyncStream

    # Not the methods of `client`, which create objects of openai's types: that costs more than the rest of a call.
    ask = partial(client.post, path, cast_to=object, body=body, stream=True, stream_cls=AsyncStream[object])
    return await endpoint.asked(ask, client.api_key)


async def events_of(
    endpoint: Endpoint, client: AsyncOpenAI, stream: AsyncStream[object], content: str
) -> AsyncGenerator[Any, None]:
    """Yield the events of an answer, parsed, as they arrive. Closing the generator ends the request.

    Args:
        stream: The stream, which is closed at the end.
        content: Field of an answer that has the content, for errors.

    Raises:
        ModelError: The answer breaks off, or is not a stream of JSON.
    """
    try:
        is_empty = True
        async with stream:
            async for event in stream:
                is_empty = False
                yield event
        if is_empty:
            raise _no_stream_error(endpoint, beginning(stream.response), content, client.api_key)
    except ModelError:
        raise
    except (ValueError, RecursionError) as error:
        raise endpoint.protocol_error("it sent something that is not JSON") from error
    except Exception as error:
        failure = endpoint.broken_off_error(error, client.api_key)  # removes the key
        sent: Any = getattr(error, "body", None)  # of an error that the endpoint sent as an event
        if sent is not None:
            failure = failure_of(endpoint, sent, client.api_key)
        raise failure from error


def failure_of(endpoint: Endpoint, sent: object, key: str) -> ModelError:
    """Return the error for an answer that the endpoint ended with an error, by its `code` and `message`.

    Args:
        sent: The error, as the endpoint sent it: an object, or its message alone.
        key: API key of the request, which is removed.
    """
    error = cast("Mapping[str, Any]", sent if isinstance(sent, Mapping) else {"message": sent})
    model, code = endpoint.describe(), str(error.get("code") or "")
    message = one_line(without_key(str(error.get("message") or code), key))
    if is_too_long(error, message):
        return endpoint.too_long_error(message)
    if "policy" in code or "content_filter" in code:
        return RequestError(
            f"{model}: its content filter stopped the answer: {message}; change the prompt or the filter"
        )
    if _FAULT_OF_REQUEST.search(code):
        return RequestError(f"{model} rejects the request: {message}")
    if code == "insufficient_quota":
        return ModelError(f"{model} has no quota left: {message}")
    return ModelError(f"{model} broke off its answer: {message}; try again", transient=True)


_FAULT_OF_REQUEST = re.compile("invalid|image|unsupported")
"""Codes of errors for which the request is at fault."""


def _no_stream_error(endpoint: Endpoint, sent: str, content: str, key: str) -> ModelError:
    """Return the error for an answer that is not a stream of events."""
    with suppress(ValueError, RecursionError, LookupError, TypeError):
        if (error := json.loads(sent)["error"])["message"]:  # LM Studio sends a text, if the address lacks /v1
            return failure_of(endpoint, error, key)
    text = without_key(sent, key)
    if page := described_page(text):
        return endpoint.protocol_error(f"it answered with {page}")
    if not text.startswith("{"):
        return endpoint.protocol_error(f"its answer holds no {content}")
    if re.search(rf'"{content}"\s*:', text):
        return ModelError(
            f"{endpoint.describe()} answered with plain JSON instead of a stream of events; "
            'the endpoint must take `"stream": true`'
        )
    return endpoint.protocol_error(f"it answered with plain JSON: {one_line(text)}")
