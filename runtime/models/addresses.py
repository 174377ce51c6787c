"""Addresses and messages of endpoints, as errors and logs show them: on one line, without keys and logins."""

from __future__ import annotations

import base64
import re
from html import unescape
from urllib.parse import unquote, urlsplit

from operad.runtime.values.text import short_line

MAX_SHOWN_MESSAGE = 500
"""Maximum length, in characters, of an endpoint's error message inside an error."""

MIN_KEY = 6
"""Minimum length, in characters, of a key that is removed from messages; a shorter key may equal a common word."""

_KEY_LIKE = re.compile(r"\bsk-[\w*.-]{6,}")


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


def page_title(text: str) -> str | None:
    """Return the title of a web page, empty if it has none; None if the text is not a web page."""
    if not re.match(r"<(!doctype\s+html|html|head|body)\b", text, re.IGNORECASE):
        return None
    title = re.search(r"<title[^>]{0,100}>([^<]{1,1000})", text, re.IGNORECASE)
    return one_line(unescape(title[1])) if title else ""


def described_page(text: str) -> str:
    """Return "a web page" with its title; empty if the text is not a web page."""
    title = page_title(text)
    return "" if title is None else f"a web page, {title!r}" if title else "a web page"


def is_loopback(url: str) -> bool:
    """Return True if an address is one of this machine's own."""
    return urlsplit(url).hostname in {"127.0.0.1", "localhost", "::1"}


def is_usable(url: str) -> bool:
    """Return True if requests can be sent to an address."""
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0 and not parts.query
    except ValueError:
        return False
