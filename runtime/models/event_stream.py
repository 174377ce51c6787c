"""Streams of events that endpoints of OpenAI's protocols answer with."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from operad.runtime.models.addresses import described_page, one_line, without_key
from operad.runtime.models.endpoint import Endpoint, is_too_long
from operad.runtime.models.http_hooks import beginning
from operad.runtime.values.errors import ModelError, RequestError

if TYPE_CHECKING:
    from openai import AsyncOpenAI, AsyncStream


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
