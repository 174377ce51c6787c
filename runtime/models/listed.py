"""Models as the list shows them: what each can, its price and its context."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from operad.runtime.models.model import Model
from operad.runtime.models.names import Located, Vendor
from operad.runtime.models.prices import ListPrice, context_window, list_price, listed_models
from operad.runtime.models.profiles import Profile, profile_of
from operad.runtime.models.turn import Price

_NO_CHAT = ("transcribe", "realtime", "-tts", "-image", "nano-banana", "-live", "embedding", "audio", "robotics")
"""Parts of names of models that do not chat in text."""

_ELSEWHERE = {"google": ("claude-", "-maas"), "google-cloud": ("claude-",)}
"""Parts of names, by vendor, of models that its list prices name but that are not asked under its prefix."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A model in the list.

    Attributes:
        name: Name with the prefix of its vendor, as Operad takes it.
        profile: What it can.
        context: Maximum number of tokens; None if it is unknown.
        price: Price of today; None if it is unknown.
    """

    name: str
    profile: Profile
    context: int | None
    price: Price | None

    def as_json(self) -> dict[str, Any]:
        """Return the model as JSON values; prices are US dollars per million tokens."""
        can = {name: value for name, value in asdict(self.profile).items() if name != "context"}
        return {"name": self.name, **can, "context": self.context, "price": self.price and self.price.model_dump()}


def is_configured(vendor: Vendor, environ: Mapping[str, str]) -> bool:
    """Return True if the environment has the key of a vendor, or an address of it."""
    return bool(vendor.key(environ) or environ.get(vendor.moved_by))


def models_of(vendor: Vendor) -> Iterator[Listed]:
    """Yield the models of a vendor whose prices and abilities are known."""
    for name in listed_models(vendor) if vendor.prices else ():
        if any(part in name for part in (*_NO_CHAT, *_ELSEWHERE.get(vendor.prefix, ()))):
            continue
        profile = profile_of(name, vendor.prefix)
        located = Located(name, vendor.base_url, vendor=vendor)
        is_known = profile != Profile(off=profile.off)  # a row for all models of a vendor says no more than that
        if is_known and (price := list_price(located)):
            yield Listed(f"{vendor.prefix}:{name}", profile, profile.context or context_window(located), price.today())


def listed(model: Model) -> Listed:
    """Return a model as an item of the list, under the name that describes it."""
    profile = model.profile
    price = model.find_price()
    today = price.today() if isinstance(price, ListPrice) else price
    located = model.located()
    return Listed(model.describe(), profile, profile.context or context_window(located), today)
