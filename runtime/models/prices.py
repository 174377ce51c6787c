"""Prices of models: those of the user's own file, and the list prices of genai-prices."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from operad.runtime.models.names import Located, Vendor, vendor_at
from operad.runtime.models.turn import Price
from operad.runtime.values.document import Document, Path_, parse_document
from operad.runtime.values.errors import InputError, InvalidError, Issue, did_you_mean
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.message import Usage

MAX_BYTES = 2**18
"""Maximum size of a file of prices, in bytes."""

MAX_PRICE = 1e9
"""Maximum price of a million tokens, in US dollars."""

Prices = Mapping[str, Mapping[str, Price]]
"""Prices by the host of the endpoint, in lower case, and the model's name there."""

_DATE = re.compile(r"-(\d{4}-\d{2}-\d{2}|\d{8})$")
_NEEDED = ("prompt", "completion")
_KEYS = (*_NEEDED, "cached", "cache_written")


@dataclass(frozen=True, slots=True)
class ListPrice:
    """List price of a model, with all that it depends on: the date, the size of the prompt, what was cached.

    Attributes:
        name: Name of the model at its vendor.
        provider: Id of the vendor in genai-prices.
    """

    name: str
    provider: str

    def of(self, usage: Usage) -> float:
        """Return the cost of a call, in US dollars.

        Raises:
            LookupError: The model has no list price.
        """
        counts = {
            "input_tokens": usage.prompt_tokens,
            "cache_read_tokens": usage.cached_tokens,
            "cache_write_tokens": usage.cache_written_tokens,
            "output_tokens": usage.completion_tokens,
            "output_reasoning_tokens": usage.reasoning_tokens,
        }
        try:
            return self._of(counts)
        except ValueError:  # parts that are larger than the whole: an endpoint may count anything
            return self._of({name: counts[name] for name in ("input_tokens", "output_tokens")})

    def _of(self, counts: Mapping[str, int]) -> float:
        import genai_prices

        tokens = genai_prices.Usage(**{name: count for name, count in counts.items() if count})
        return float(genai_prices.calc_price(tokens, self.name, provider_id=self.provider).total_price)

    def today(self) -> Price:
        """Return the prices of today, of a short prompt."""
        a_thousand = {"input_tokens": 1000}
        prompt = self._of(a_thousand)
        return Price(
            prompt=_rounded(prompt),
            completion=_rounded(self._of({"output_tokens": 1000})),
            cached=_rounded(self._of({**a_thousand, "cache_read_tokens": 1000})),
            cache_written=_rounded(self._of({**a_thousand, "cache_write_tokens": 1000})),
        )


def _rounded(of_a_thousand: float) -> float:
    return round(of_a_thousand * 1000, 6)


def list_price(located: Located) -> ListPrice | None:
    """Return the list price of a model at the own address of its vendor; None if there is none.

    The first call of a process imports the data, which takes 0.3 s of CPU.
    """
    vendor = located.vendor
    if vendor is None or not has_list_prices(located):
        return None
    price = ListPrice(located.name, vendor.prices)
    try:
        price.of(Usage(prompt_tokens=1))
    except LookupError:
        return None
    return price


def has_list_prices(located: Located) -> bool:
    """Return True if the models at an endpoint may have list prices; the same names elsewhere are other models."""
    vendor = located.vendor
    if vendor is None or not vendor.prices:
        return False
    return vendor_at(located.base_url) is vendor or located.base_url == vendor.base_url


def context_window(located: Located) -> int | None:
    """Return the number of tokens that a model takes, from the data of the list prices; None if it is unknown."""
    import genai_prices

    if not has_list_prices(located) or located.vendor is None:
        return None
    try:
        price = genai_prices.calc_price(genai_prices.Usage(), located.name, provider_id=located.vendor.prices)
    except LookupError:
        return None
    return price.model.context_window


def listed_models(vendor: Vendor) -> list[str]:
    """Return the names of a vendor's models with list prices, without those that it has ended."""
    from genai_prices.data_snapshot import get_snapshot

    models = (model for each in get_snapshot().providers if each.id == vendor.prices for model in each.models)
    return sorted(model.id for model in models if not model.deprecated)


def users_price(name: str, base_url: str, environ: Mapping[str, str]) -> Price | None:
    """Return the price of a model from the user's file; None if there is none.

    Prices are listed by the host of the endpoint, with or without port, and the name of the model. If a name with a
    date, such as ``gpt-4o-2024-08-06``, is not listed, the name without the date is looked up.

    Args:
        name: Name of the model at its endpoint.
        base_url: URL of the endpoint.
        environ: Environment variables that give the location of the user's file (`own_file`).

    Raises:
        InputError: The user's file cannot be read.
        InvalidError: The user's file is not a file of prices; every issue has its line.
    """
    users_file = own_file(environ)
    if users_file is None:
        return None
    try:
        parts = urlsplit(base_url)
        hosts = [parts.netloc.rpartition("@")[2].lower(), parts.hostname or ""]
    except ValueError:  # the first call reports the invalid URL
        return None
    try:
        table = read_prices(users_file)
    except InputError as error:
        raise InputError(f"{error}; OPERAD_PRICES names it" if environ.get("OPERAD_PRICES") else str(error)) from error
    for listed_name in (name, _DATE.sub("", name)):
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
    """Return the prices in a file: a mapping of hosts to models, and of these to prices.

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
        if key not in fields and key in _NEEDED:
            message = f"{key!r} is missing: the price of a million tokens in US dollars; 0 if they are free"
            yield Issue("missing-key", message, document.where(path))
        elif key in fields and (problem := _price_fault(fields[key])):
            yield Issue("value", problem, document.where((*path, key)))


def _price_fault(value: Any) -> str:
    """Return the fault of a price in US dollars; empty if it is valid."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"must be a number of US dollars, not {value!r:.80}"
    if not 0 <= value <= MAX_PRICE:
        return f"must be from 0 to {MAX_PRICE:,.0f} US dollars, not {value!r:.80}"
    return ""
