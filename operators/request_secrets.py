"""Secrets of requests: filling them in, keeping them out of responses and errors, and finding keys that are written."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast

from operad.operators.node import NodeCall
from operad.operators.secrets import FindSecret, secret_value
from operad.operators.variables import Selector, Text
from operad.operators.web.fetch import Fetched
from operad.runtime.values.secret import (
    Secret,
    change_keys_in_json,
    change_keys_in_lines,
    change_keys_in_url,
    fill_secrets,
    hide,
    hide_in_bytes,
    holds_key,
)


class Filling:
    """Variables and secrets of one request.

    Args:
        find: Function that returns the values of secrets.
    """

    def __init__(self, call: NodeCall, find: FindSecret) -> None:
        self._call = call
        self._find = find
        self._values: dict[Secret, str] = {}

    @property
    def values(self) -> tuple[str, ...]:
        """The values of the secrets that were filled in."""
        return tuple(self._values.values())

    def get(self, selector: Selector) -> Any:
        """Return the value of a variable; None if its node did not run."""
        return self._call.get(selector)

    def text(self, template: Text) -> str:
        """Return a text with its variables and secrets replaced by their values; a variable's value names no secret."""
        return fill_secrets(template, self._value, lambda part: self._call.text(Text(part)))

    def _value(self, secret: Secret) -> str:
        if secret not in self._values:
            self._values[secret] = secret_value(secret, self._find)
        return self._values[secret]


def shows_secret(error: Exception, values: Sequence[str]) -> bool:
    """Return True if an error, as a traceback shows it with its causes, contains the value of a secret."""
    text = "".join(traceback.format_exception(error)) if values else ""
    return hide(text, values) != text


def without_secrets(fetched: Fetched, values: Sequence[str]) -> Fetched:
    """Return a response without the values of secrets, which a server may repeat."""
    if not values:
        return fetched
    headers = {name: hide(value, values) for name, value in fetched.headers.items()}
    return replace(fetched, headers=headers, body=hide_in_bytes(fetched.body, values), url=hide(fetched.url, values))


_LITERAL_HOST = re.compile(r"\s*https?://([^/?#@{}\\\s]+)(?=[/?#]|\s*$)", re.IGNORECASE)


def literal_host(url: str) -> str:
    """Return the host of a URL in which no variable decides on the host, in lower case; empty for others.

    print(literal_host("https://shop.example/{{#1.path#}}"))  # shop.example
    print(literal_host("https://shop.example{{#1.path#}}"))  # an empty line
    """
    match = _LITERAL_HOST.match(url)
    return match[1].lower() if match else ""


ChangeKeyAt = Callable[[str, str, str], str]
"""Function that takes a parameter, the name of a field in it that holds a key, and the value of the field; it returns the
value to write instead."""


def change_keys(params: Mapping[str, Any], change: ChangeKeyAt) -> dict[str, Any]:
    """Return the parameters of a request, in lists, with the values that hold keys changed.

    Keys are looked for where they usually stand: in the authorization, and in headers, parameters of the query and fields
    of the body with the name of a key, such as ``X-Api-Key`` or ``access_token``; see `holds_key`.
    """
    changed = dict(params)
    match params.get("authorization"):
        case [kind, str() as key, *more]:
            changed["authorization"] = [kind, change("authorization", str([*more, "Authorization"][0]), key), *more]
        case _:
            pass
    for name in ("headers", "params"):
        if isinstance(text := params.get(name), str):
            changed[name] = change_keys_in_lines(text, partial(change, name))
    if isinstance(url := params.get("url"), str):
        changed["url"] = change_keys_in_url(url, partial(change, "url"))
    match params.get("body"):
        case [kind, list()]:
            parts = cast("list[Any]", params["body"][1])
            changed["body"] = [kind, [_changed_part(part, change) for part in parts]]
        case _:
            pass
    return changed


def _changed_part(part: Any, change: ChangeKeyAt) -> Any:
    """Return a part of a body with the values that hold keys changed."""
    match part:
        case ["", str() as value]:
            return ["", change_keys_in_json(value, partial(change, "body"))]
        case [str() as name, str() as value] if holds_key(name, of_body=True):
            return [name, change("body", name, value)]
        case _:
            return part


class KeyField(NamedTuple):
    """Field of a request that holds a key.

    Attributes:
        where: The parameter.
    """

    where: str
    name: str
    value: str


def key_fields(params: Mapping[str, Any]) -> list[KeyField]:
    """Return the fields of a request that hold keys."""
    found: list[KeyField] = []

    def note(where: str, name: str, value: str) -> str:
        found.append(KeyField(where, name, value))
        return value

    change_keys(params, note)
    return found
