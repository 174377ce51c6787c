"""Prices of models: a table in this package, overridden by the user's own file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from operad.runtime.models.price import Price
from operad.runtime.values.document import Document, Path_, parse_document
from operad.runtime.values.errors import InputError, InvalidError, Issue, did_you_mean
from operad.runtime.values.file import FileDescriptor

MAX_BYTES = 2**18
"""Maximum size of a file of prices, in bytes."""

MAX_PRICE = 1e9
"""Maximum price of a million tokens, in US dollars."""

Prices = Mapping[str, Mapping[str, Price]]
"""Prices by the host of the endpoint, in lower case, and the model's name there."""

_SHIPPED = Path(__file__).with_name("prices.yaml")
_DATE = re.compile(r"-(\d{4}-\d{2}-\d{2}|\d{8})$")
_KEYS = ("prompt", "completion")


def users_price(name: str, base_url: str, environ: Mapping[str, str]) -> Price | None:
    """Return the price of a model from the user's file or the table of this package; None if it is unknown.

    Prices are listed by the host of the endpoint, with or without port, and the name of the model. If a name with a
    date, such as ``gpt-4o-2024-08-06``, is not listed, the name without the date is looked up.

    Args:
        name: Name of the model.
        base_url: URL of the endpoint.
        environ: Environment variables that give the location of the user's file (`own_file`).

    Raises:
        InputError: The user's file cannot be read.
        InvalidError: The user's file is not a file of prices; every issue has its line.
    """
    try:
        parts = urlsplit(base_url)
    except ValueError:  # the first call reports the invalid URL
        return None
    hosts = [parts.netloc.rpartition("@")[2].lower(), parts.hostname or ""]
    users_file = own_file(environ)
    try:
        tables = [read_prices(users_file), _shipped()] if users_file else [_shipped()]
    except InputError as error:
        raise InputError(f"{error}; OPERAD_PRICES names it" if environ.get("OPERAD_PRICES") else str(error)) from error
    for listed_name in (name, _DATE.sub("", name)):
        for table in tables:
            for host in hosts:
                if price := table.get(host, {}).get(listed_name):
                    return price
    return None


def own_file(environ: Mapping[str, str]) -> Path | None:
    """Return the path of the user's file of prices; None if there is none.

    The path is the value of ``OPERAD_PRICES``, or else ``operad/prices.yaml`` in ``$XDG_CONFIG_HOME``, by default
    ``~/.config``, if that file exists.
    """
    if path := environ.get("OPERAD_PRICES"):
        return Path(path)
    folder = config_folder(environ)
    file = folder and folder / "prices.yaml"
    return file if file and os.path.exists(file) else None  # False without permission, too


def config_folder(environ: Mapping[str, str]) -> Path | None:
    """Return the user's configuration folder for operad; None if the environment has no home directory."""
    base, home = Path(environ.get("XDG_CONFIG_HOME", "")), environ.get("HOME")
    if base.is_absolute():
        return base / "operad"
    return Path(home) / ".config" / "operad" if home else None


def read_prices(path: str | Path) -> Prices:
    """Return the prices in a file of the same form as ``prices.yaml`` in this folder.

    Raises:
        InputError: The file does not exist, is too large, empty or not text.
        InvalidError: The file is not a file of prices; every issue has its line.
    """
    document = parse_document(FileDescriptor.of(path).read_text(MAX_BYTES), str(path))
    if issues := list(_issues(document)):
        raise InvalidError(f"{path}: these prices cannot be used", issues)
    hosts = cast("Mapping[str, Mapping[str, Mapping[str, float]]]", document.data)
    return {
        host.lower(): {name: Price.model_validate(price) for name, price in models.items()}
        for host, models in hosts.items()
    }


@cache
def _shipped() -> Prices:
    return read_prices(_SHIPPED)


def _issues(document: Document) -> Iterator[Issue]:
    """Yield the faults of a file of prices."""
    for host, models in document.data.items():
        if problem := _host_fault(host, models):
            yield Issue("host", problem, document.where((host,)))
        elif not isinstance(models, dict):
            yield Issue("value", "must be a mapping of models to their prices", document.where((host,)))
        else:
            for name, price in cast("dict[str, Any]", models).items():
                yield from _issues_of_price(document, (host, name), price)


def _host_fault(host: str, models: Any) -> str:
    """Return the fault of an entry's host name; empty if it is valid."""
    if isinstance(models, dict) and set(_KEYS) & cast("dict[str, Any]", models).keys():
        return "write a model below the host of its endpoint, such as api.openai.com"
    if "/" in host or "@" in host:  # the part before an @ may be a password
        return "write the host alone, such as api.openai.com or gpu-1:8000, without https:// and a path"
    return "" if host.strip() else "the name of the host is empty"


def _issues_of_price(document: Document, path: Path_, price: Any) -> Iterator[Issue]:
    """Yield the faults of the entry for a model."""
    if not isinstance(price, dict):
        yield Issue("value", "must be a mapping: {prompt: …, completion: …}", document.where(path))
        return
    fields = cast("dict[str, Any]", price)
    for key in (key for key in fields if key not in _KEYS):
        message = f"unknown key{did_you_mean(key, _KEYS)}; known: {', '.join(_KEYS)}"
        yield Issue("unknown-key", message, document.where((*path, key)))
    for key in _KEYS:
        if key not in fields:
            message = f"{key!r} is missing: the price of a million tokens in US dollars; 0 if they are free"
            yield Issue("missing-key", message, document.where(path))
        elif problem := _price_fault(fields[key]):
            yield Issue("value", problem, document.where((*path, key)))


def _price_fault(value: Any) -> str:
    """Return the fault of a price in US dollars; empty if it is valid."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"must be a number of US dollars, not {value!r:.80}"
    if not 0 <= value <= MAX_PRICE:
        return f"must be from 0 to {MAX_PRICE:,.0f} US dollars, not {value!r:.80}"
    return ""
