"""Models and limits, from what a configuration file says of them."""

from __future__ import annotations

import os
import re
from typing import Any

from operad.configs.faults import Faults
from operad.configs.schema import LimitsSpec, ModelSpec
from operad.runtime.models.embedded import ABILITIES, EmbeddedModel
from operad.runtime.models.model import Model, is_embedded, resolve_model
from operad.runtime.policies.limits import Limits
from operad.runtime.reasoning.reasoner import DualModelReasoner, MonoModelReasoner, Reasoner
from operad.runtime.values.document import Path_
from operad.runtime.values.errors import InputError, OperadError


def make_model(spec: ModelSpec) -> Model:
    """The model that a file asks for; what it does not say, the environment does.

    Raises:
        InputError: The variable that it names for the key is not set, or no endpoint is known.
    """
    key = os.environ.get(spec.api_key_env)
    if key is None and "api_key_env" in spec.model_fields_set:
        raise InputError(
            f"the environment variable {variable(spec.api_key_env)} is not set; `model.api_key_env` names it for the key"
        )
    given: dict[str, Any] = {
        "temperature": spec.temperature,
        "max_tokens": spec.max_tokens,
        "tools": spec.tools,
        "structured": spec.structured,
        "vision": spec.vision,
        "timeout": spec.timeout,
        "total_timeout": spec.total_timeout,
        "max_retries": spec.max_retries,
        "limits": make_limits(spec.limits),
        "price": spec.price,
    }
    given = {name: value for name, value in given.items() if value is not None}
    return resolve_model(spec.name, spec.base_url, key).model_copy(update=given)


def model_of(spec: ModelSpec, path: Path_, faults: Faults) -> Model | None:
    """The model that a file asks for at a path; None, and a fault there, if its key is missing or no endpoint is known."""
    try:
        return make_model(spec)
    except InputError as error:
        faults.report(path, "value", str(error))
        return None


def chosen(spec: ModelSpec | None, name: str | None, base_url: str | None) -> ModelSpec | None:
    """The model of a file, with a name and an endpoint from the command line in the place of the file's.

    An endpoint takes the place of the embedded model, and the embedded model that of an endpoint.
    """
    if not (name or base_url):
        return spec
    spec = spec or ModelSpec()
    update: dict[str, Any] = {}
    if name:
        update["name"] = name
        if is_embedded(name):
            update["base_url"] = None
    elif spec.name and is_embedded(spec.name):
        update["name"] = None
    if base_url:
        update["base_url"] = base_url
    return spec.model_copy(update=update)


def model_line(reasoner: Reasoner) -> str:
    """The model of a reasoner in one line, the embedded one with what it can do; empty where none is configured."""
    if not isinstance(reasoner, MonoModelReasoner | DualModelReasoner):
        return ""
    try:
        line = f"model: {reasoner.describe()}"
    except OperadError:  # no operator asks a model, or the run would not have begun
        return ""
    models = [reasoner.model] if isinstance(reasoner, MonoModelReasoner) else [reasoner.actor, reasoner.thinker]
    small = any(isinstance(model, EmbeddedModel) and model.weights is None for model in models)
    return f"{line}; {ABILITIES}" if small else line


def make_limits(spec: LimitsSpec | None) -> Limits | None:
    """The limits that a file sets."""
    return Limits(**spec.model_dump()) if spec else None


def completed(spec: ModelSpec, other: ModelSpec | None) -> ModelSpec:
    """The model of `spec`; where it names neither a model nor an endpoint, the other one with its settings."""
    if other is None or spec.name is not None or spec.base_url is not None:
        return at_the_same_endpoint(spec, other)
    return other.model_copy(update={name: getattr(spec, name) for name in spec.model_fields_set})


def at_the_same_endpoint(spec: ModelSpec, other: ModelSpec | None) -> ModelSpec:
    """The model of `spec`; where it names no endpoint and runs at one, at that of the other one."""
    if other is None or spec.base_url is not None or (spec.name and is_embedded(spec.name)):
        return spec
    fields = {"base_url", "api_key_env"} & other.model_fields_set - spec.model_fields_set
    return spec.model_copy(update={name: getattr(other, name) for name in fields})


def variable(name: str) -> str:
    """The name of an environment variable, as an error shows it: not what may be the key itself, put there by mistake."""
    return name if re.fullmatch(r"[A-Z][A-Z0-9_]*", name) else "that is named here (a name is wanted, not the key)"
