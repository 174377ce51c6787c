"""Headers of pages: their content security policy, and protection from other sites."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class PageHeaders:
    """Middleware that adds the headers of pages to each response that lacks them, and forbids caches to keep it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the application."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name.lower() for name, _ in message["headers"]}
                own = [
                    (name.encode(), value.encode()) for name, value in {**HEADERS, "cache-control": "no-store"}.items()
                ]
                message["headers"] = [*message["headers"], *(header for header in own if header[0] not in present)]
            await send(message)

        await self._app(scope, receive, send_with_headers)


def content_policy(html: str) -> str:
    """Return the content security policy of a page: its own style and scripts, and requests to its own server only."""
    return (
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; connect-src 'self'; "
        f"img-src data:; script-src {_hashes(html, 'script')}; style-src {_hashes(html, 'style')}"
    )


def source_hash(text: str) -> str:
    """Return a script or a style as a source of a content security policy."""
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _hashes(html: str, element: str) -> str:
    texts = re.findall(rf"<{element}\b[^>]*>(.*?)</{element}>", html, re.DOTALL | re.IGNORECASE)
    return " ".join(map(source_hash, texts)) or "'none'"
