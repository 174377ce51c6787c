"""Hooks of HTTP clients of models: where requests may go, and how large an answer may be."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from operad.runtime.models.addresses import without_login
from operad.runtime.values.errors import ModelError

MOST_BYTES = 2**27
"""Maximum size of an answer in bytes, uncompressed; reading stops beyond it."""

_BEGINNING = 2**16
"""Number of bytes kept from the beginning of an answer, to describe an invalid one."""


async def remove_headers(names: Sequence[str], request: Any) -> None:
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
    await remove_headers(names, request)
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
