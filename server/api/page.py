"""The page at `/`: the offered experts, and a chat. It sends requests to its own server only."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files

from starlette.responses import HTMLResponse

_HEADERS = {
    "Cache-Control": "no-cache",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def page_reply() -> HTMLResponse:
    """The page. Its policy lets its own style and script work, and nothing else; it says nothing that needs a key."""
    text = (files("operad.server.api") / "page.html").read_text(encoding="utf-8")
    return HTMLResponse(text, headers={**_HEADERS, "Content-Security-Policy": _policy(text)})


@cache
def _policy(text: str) -> str:
    style, script = (_hash(text, part) for part in ("style", "script"))
    return (
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; connect-src 'self'; "
        f"style-src '{style}'; script-src '{script}'"
    )


def _hash(text: str, part: str) -> str:
    inside = re.search(rf"<{part}>(.*?)</{part}>", text, re.DOTALL)
    assert inside is not None  # noqa: S101 - the page is ours
    return f"sha256-{base64.b64encode(hashlib.sha256(inside[1].encode()).digest()).decode()}"
