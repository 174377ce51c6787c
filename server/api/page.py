"""The page at `/`: the offered experts, and a chat. It sends requests to its own server only."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from starlette.responses import HTMLResponse

from operad.server.page_headers import HEADERS, content_policy


@cache
def page_reply() -> HTMLResponse:
    """Return the page, whose content policy allows only its own style and script; it needs no key."""
    text = (files("operad.server.api") / "page.html").read_text(encoding="utf-8")
    headers = {**HEADERS, "cache-control": "no-cache", "content-security-policy": content_policy(text)}
    return HTMLResponse(text, headers=headers)
