"""Named secrets: references to keys in texts, and places of texts that hold keys; and keys that a program gives.

A text names a secret as ``{{secret.SHOP_API_KEY}}``. Everything that is stored, shown or compared is the text with the
name; the value is filled in when a request is sent (`operad.operators.secrets`).
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from html import escape
from typing import Annotated, NamedTuple, cast
from urllib.parse import quote, quote_plus

from pydantic import BeforeValidator, SecretStr

HIDDEN = "[hidden]"
"""Replacement of secret values in texts."""

MIN_HIDDEN = 6
"""Minimum length, in characters, of a value that is removed from texts; a shorter one may equal a common word."""

_NAME = "[A-Za-z_][A-Za-z0-9_]{0,99}"
_FULL_NAME = re.compile(_NAME)
_REFERENCE = re.compile(r"\{\{\s*secret\.(" + _NAME + r")\s*\}\}")
_ANY_REFERENCE = re.compile(r"\{\{[^{}]*\}\}")


def _as_secret(key: object) -> object:
    return SecretStr(key) if isinstance(key, str) else key


ApiKey = Annotated[SecretStr | str, BeforeValidator(_as_secret)]
"""An API key, given as text or `SecretStr`, and stored as a `SecretStr`, which hides it in `repr` and logs."""


def key_text(key: SecretStr | str | None) -> str:
    """Return the text of a key; empty for None.

    >>> key_text(SecretStr("sk-1"))
    'sk-1'
    """
    return key.get_secret_value() if isinstance(key, SecretStr) else key or ""


class Secret(NamedTuple):
    """Reference to a secret.

    Example:
        print(Secret("SHOP_API_KEY").in_text)  # {{secret.SHOP_API_KEY}}
    """

    name: str

    @property
    def in_text(self) -> str:
        """Reference to the secret in a text."""
        return f"{{{{secret.{self.name}}}}}"


class SecretUse(NamedTuple):
    """Secret that a workflow or a tool server sends.

    Attributes:
        host: Host that it is sent to, as ``host`` or ``host:port``; empty for any host. For the environment of a
            command, the command.
    """

    secret: Secret
    host: str


def is_secret_name(name: str) -> bool:
    """Return True for a valid name of a secret: letters, digits and underscores of ASCII, as for variables."""
    return _FULL_NAME.fullmatch(name) is not None


def secret_name(*parts: str) -> str:
    """Return the name of a secret for a place, such as ``SEND_X_API_KEY`` for the header ``X-Api-Key`` of node send."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", "_".join(parts)).strip("_").upper()[:80] or "KEY"
    return name if not name[0].isdigit() else f"NODE_{name}"


def secrets_in(text: str) -> list[Secret]:
    """Return the secrets that a text names, in order."""
    return [Secret(match[1]) for match in _REFERENCE.finditer(text)] if "{{" in text else []


def fill_secrets(text: str, value_of: Callable[[Secret], str], other: Callable[[str], str] = str) -> str:
    """Return a text with its secrets replaced by their values.

    Args:
        other: Function that is applied to the parts between the secrets, before their values are there, so that the
            value of a variable cannot name a secret.
    """
    parts = _REFERENCE.split(text) if "{{" in text else [text]
    return "".join(value_of(Secret(part)) if number % 2 else other(part) for number, part in enumerate(parts))


def hide(text: str, values: Iterable[str]) -> str:
    """Return a text with secret values replaced by `HIDDEN`, also in Base64, in a URL, in JSON and in HTML."""
    for form in _forms(values):
        text = text.replace(form, HIDDEN)
    return text


def hide_in_bytes(data: bytes, values: Iterable[str]) -> bytes:
    """Return data with secret values replaced; see `hide`."""
    for form in _forms(values):
        data = data.replace(form.encode(), HIDDEN.encode())
    return data


def _forms(values: Iterable[str]) -> list[str]:
    """Return values and the forms in which they are sent, the longest first."""
    forms: set[str] = set()
    for value in values:
        if len(value) >= MIN_HIDDEN:
            written = (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], escape(value))
            forms |= {
                value,
                *_in_base64(value.encode()),
                quote(value),
                quote(value, safe=""),
                quote_plus(value),
                *written,
            }
    return sorted(forms, key=len, reverse=True)


def _in_base64(value: bytes) -> Iterator[str]:
    """Yield a value in Base64: alone, and the characters that it alone determines within longer data, such as ``name:value``."""
    yield base64.b64encode(value).decode()
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + value)
        first, last = -(-before * 8 // 6), (before + len(value)) * 8 // 6
        yield encoded[first:last].decode()
        yield base64.urlsafe_b64encode(bytes(before) + value)[first:last].decode()


def missing_text(names: Iterable[str]) -> str:
    """Return the message on secrets without a value, and the remedy."""
    listed = list(names)
    one = len(listed) == 1
    return (
        f"no value is set for the secret{'' if one else 's'} {', '.join(listed)}; set "
        f"{'it' if one else 'each'} by operad secrets set {listed[0] if one else 'NAME'}, or as an environment variable"
    )


# Places of keys

_KEY_NAME = re.compile(
    r"(api|access|secret|private|subscription|auth|app|functions|master|client|signing|admin|account|service|license)"
    r"keys?$|token$|secret$|passw(or)?d$|passphrase$|pwd$|authorization$|credentials?$|jwt$|bearer$"
)
_NO_KEY_NAME = re.compile(
    r"(page|next|continuation|sync|cancel|start|end|begin|stop|eos|bos|pad|mask|cursor|reset|skip)token$"
)
_FIELD_NAME = re.compile(r"key$|auth$|cookie$|signature$|sig$|sessionid$")
_NO_FIELD_NAME = re.compile(
    r"(idempotency|public|partition|sort|cache|primary|foreign|routing|order|group|shard|object|websocket)key$"
)
_SCHEME = re.compile(r"(?i)(bearer|basic|token|apikey|digest)\s+")
_BEARER = re.compile(r"(?i)\s*bearer\s+\S")
_BEFORE_REFERENCE = re.compile(r"[^\s\0]+[:=]\s*(?=\0)")
_LITERAL_PART = re.compile(r"[\w.+/=~-]{16,}")


def holds_key(name: str, *, of_body: bool = False) -> bool:
    """Return True if a field of that name holds a key: ``Authorization``, ``X-Api-Key``, ``access_token``, ``key``.

        print(holds_key("X-Api-Key"), holds_key("Idempotency-Key"))  # True False

    Args:
        name: Name of a header, a parameter of a query or a field of a body.
        of_body: True for a field of a body, where names such as ``key`` and ``signature`` are usual for other values.
    """
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    if _KEY_NAME.search(plain):
        return _NO_KEY_NAME.search(plain) is None
    return not of_body and _FIELD_NAME.search(plain) is not None and _NO_FIELD_NAME.search(plain) is None


def literal_key(value: str) -> str:
    """Return the key that is written in the value of a field that holds one; empty if it is all variables and secrets.

        print(literal_key("Bearer sk-12345678"))  # sk-12345678
        print(literal_key("Bearer {{secret.SHOP_API_KEY}}"))  # an empty line

    Args:
        value: The value, in which ``{{…}}`` refers to variables and secrets.
    """
    text = _SCHEME.sub("", value.strip(), count=1) if _SCHEME.match(value.strip()) else value.strip()
    rest = _ANY_REFERENCE.sub("\0", text)
    if rest == text:
        return text
    # beside a reference may stand a name (``name:{{…}}``, ``session={{…}}``), but no long text
    parts = _LITERAL_PART.findall(_BEFORE_REFERENCE.sub("", rest))
    return max(parts, key=len, default="")


def without_keys(value: object) -> object:
    """Return a JSON value with the texts of fields that hold keys replaced by `HIDDEN`."""
    if isinstance(value, Mapping):
        return {
            name: HIDDEN if isinstance(item, str) and holds_key(str(name)) and literal_key(item) else without_keys(item)
            for name, item in cast("Mapping[str, object]", value).items()
        }
    return [without_keys(item) for item in cast("list[object]", value)] if isinstance(value, list) else value


def with_literal_key(value: str, change: Callable[[str], str]) -> str:
    """Return the value of a field with the key that is written in it replaced; see `literal_key`."""
    key = literal_key(value)
    return value.replace(key, change(key), 1) if key else value


# Texts of requests

ChangeKey = Callable[[str, str], str]
"""Function that takes the name of a field that holds a key, and its value, and returns the value to write instead."""


def change_keys_in_lines(text: str, change: ChangeKey) -> str:
    """Return a text of ``name: value`` lines with the values that hold keys changed; see `ChangeKey`."""

    def changed(line: str) -> str:
        name, colon, value = line.partition(":")
        is_key = holds_key(name) or _BEARER.match(value) is not None
        return f"{name}{colon}{change(name.strip(), value)}" if colon and is_key else line

    return "".join(map(changed, text.splitlines(keepends=True)))


_QUERY_FIELD = re.compile(r"([?&;])([^=&;#{}?]+)=((?:\{\{[^{}]*\}\}|[^&;#])*)")
_LOGIN = re.compile(r"(?<=://)((?:\{\{[^{}]*\}\}|[^/?#@\s])+)(?=@)")


def change_keys_in_url(url: str, change: ChangeKey) -> str:
    """Return a URL with the values of its query, and the login before its host, that hold keys changed."""

    def changed(match: re.Match[str]) -> str:
        return f"{match[1]}{match[2]}={change(match[2], match[3])}" if holds_key(match[2]) else match[0]

    return _QUERY_FIELD.sub(changed, _LOGIN.sub(lambda match: change("login", match[0]), url))


_JSON_FIELD = re.compile(r"""(["'])([\w$. -]{1,100})\1(\s*:\s*)(["'])((?:\\.|(?!\4)[^\\])*)\4""", re.DOTALL)


def change_keys_in_json(text: str, change: ChangeKey) -> str:
    """Return JSON, which may be a template or broken, with the values of its fields that hold keys changed."""

    def changed(match: re.Match[str]) -> str:
        mark, name, colon, other, value = match.groups()
        is_key = holds_key(name, of_body=True)
        return f"{mark}{name}{mark}{colon}{other}{change(name, value)}{other}" if is_key else match[0]

    return _JSON_FIELD.sub(changed, text)
