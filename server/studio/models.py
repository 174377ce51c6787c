"""Models that runs and nodes can use, with their prices, for the studio's choices."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from operad.operators.services import Services
from operad.runtime.models.listed import Listed, is_configured, listed, models_of
from operad.runtime.models.model import Model
from operad.runtime.models.names import VENDORS
from operad.runtime.models.resolve import resolve_model
from operad.runtime.reasoning.reasoner import Reasoner
from operad.runtime.values.errors import OperadError


def models_json(model: Model | None, services: Services) -> dict[str, Any]:
    """Return the models for the choices of a page.

    Args:
        model: Model of runs; None for that of the environment.

    Returns:
        ``selected``, the model of runs; ``listed``, the models of the vendors whose keys the environment has; and
        ``named``, the models of the services by the names that nodes use.
    """
    vendors = [vendor for vendor in VENDORS if is_configured(vendor, os.environ)]
    return {
        "selected": _entry(model),
        "listed": [_json(each) for vendor in vendors for each in models_of(vendor)],
        "named": [{**(_of_service(each) or {"price": None}), "name": name} for name, each in services.models.items()],
    }


def _entry(model: Model | str | None) -> dict[str, Any] | None:
    try:
        return _json(listed(model if isinstance(model, Model) else resolve_model(model)))
    except OperadError:
        return None


def _of_service(model: Model | Reasoner | str) -> dict[str, Any] | None:
    return _entry(model) if isinstance(model, Model | str) else None


def _json(model: Listed) -> dict[str, Any]:
    price = model.price
    prices: Mapping[str, float] | None = price and {"prompt": price.prompt, "completion": price.completion}
    return {"name": model.name, "price": prices}
