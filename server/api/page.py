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
    """Return the page, whose content policy allows only its own style and script; it needs no key."""
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
    element = re.search(rf"<{part}>(.*?)</{part}>", text, re.DOTALL)
    assert element is not None  # noqa: S101 - the page has both elements
    return f"sha256-{base64.b64encode(hashlib.sha256(element[1].encode()).digest()).decode()}"
