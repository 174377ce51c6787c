"""Models and limits from a configuration file."""

from __future__ import annotations

import os
import re
from typing import Any

from operad.configs.faults import Faults
from operad.configs.schema import LimitsSpec, ModelSpec
from operad.runtime.models.embedded import ABILITIES, EmbeddedModel
from operad.runtime.models.model import Model
from operad.runtime.models.names import OPENAI, named_vendor
from operad.runtime.models.resolve import is_embedded, resolve_model
from operad.runtime.policies.limits import Limits
from operad.runtime.reasoning.reasoner import DualModelReasoner, MonoModelReasoner, Reasoner
from operad.runtime.values.document import Path_
from operad.runtime.values.errors import InputError, OperadError


def make_model(spec: ModelSpec) -> Model:
    """Return the model that the configuration names; unset fields come from the environment.

    Raises:
        InputError: The environment variable that `api_key_env` names is not set, no endpoint is known, or the embedded
            model is given a protocol.
    """
    key = os.environ.get(spec.api_key_env) if spec.api_key_env else None
    if not key and spec.api_key_env:  # an empty one would be replaced by that of the environment
        raise InputError(
            f"the environment variable {variable(spec.api_key_env)} is not set; `model.api_key_env` names it for the key"
        )
    settings: dict[str, Any] = {
        "thinking": spec.thinking,
        "temperature": spec.temperature,
        "top_p": spec.top_p,
        "seed": spec.seed,
        "stop": spec.stop,
        "max_tokens": spec.max_tokens,
        "parameters": spec.parameters,
        "tools": spec.tools,
        "structured": spec.structured,
        "vision": spec.vision,
        "api": spec.api,
        "timeout": spec.timeout,
        "total_timeout": spec.total_timeout,
        "max_retries": spec.max_retries,
        "limits": make_limits(spec.limits),
        "price": spec.price,
    }
    settings = {name: value for name, value in settings.items() if value is not None}
    model = resolve_model(spec.name, spec.base_url, key)
    if spec.api and isinstance(model, EmbeddedModel):
        raise InputError("the embedded model runs inside this process: it has no protocol; remove `model.api`")
    return model.model_copy(update=settings)


def model_of(spec: ModelSpec, path: Path_, faults: Faults) -> Model | None:
    """Return the model configured at `path`; None after reporting that its key or endpoint is missing."""
    try:
        return make_model(spec)
    except InputError as error:
        faults.report(path, "value", str(error))
        return None


def override(spec: ModelSpec | None, name: str | None, base_url: str | None) -> ModelSpec | None:
    """Return the model configuration of a file, overridden by a name and an endpoint from the command line.

    A given endpoint replaces the embedded model, and a name that says where its model is replaces an endpoint.
    """
    if not (name or base_url):
        return spec
    spec = spec or ModelSpec()
    update: dict[str, Any] = {}
    if name:
        update["name"] = name
        if names_endpoint(name):
            update |= {"base_url": None, "api_key_env": None, "api": None}
    elif spec.name and is_embedded(spec.name):
        update["name"] = None
    if base_url:
        update["base_url"] = base_url
    return spec.model_copy(update=update)


def names_endpoint(name: str, endpoint: str | None = None) -> bool:
    """Return True if a name says where its model is: in this process, or at the vendor of its prefix.

    Args:
        endpoint: The endpoint that the model has otherwise.
    """
    return is_embedded(name) or named_vendor(name, endpoint or os.environ.get(OPENAI.moved_by)) is not None


def model_line(reasoner: Reasoner) -> str:
    """Return a line that names the model of a reasoner, with the abilities of a small one; empty if it has none."""
    if not isinstance(reasoner, MonoModelReasoner | DualModelReasoner):
        return ""
    try:
        line = f"model: {reasoner.describe()}"
    except OperadError:  # without a configured model, a run starts only if no operator asks one
        return ""
    models = [reasoner.model] if isinstance(reasoner, MonoModelReasoner) else [reasoner.actor, reasoner.thinker]
    is_embedded_model = any(isinstance(model, EmbeddedModel) and model.weights is None for model in models)
    return f"{line}; {ABILITIES}" if is_embedded_model else line


def make_limits(spec: LimitsSpec | None) -> Limits | None:
    """Return the limits that a file sets; None if it sets none."""
    return Limits(**spec.model_dump()) if spec else None


def with_defaults(spec: ModelSpec, other: ModelSpec | None) -> ModelSpec:
    """Return `spec`; if it names neither a model nor an endpoint, `other` overridden by the settings of `spec`."""
    if other is None or spec.name is not None or spec.base_url is not None:
        return _at_the_same_endpoint(spec, other)
    return other.model_copy(update={name: getattr(spec, name) for name in spec.model_fields_set})


def _at_the_same_endpoint(spec: ModelSpec, other: ModelSpec | None) -> ModelSpec:
    """Return `spec`; if neither its name nor its address names an endpoint, with the endpoint of `other`."""
    if other is None or spec.base_url is not None or (spec.name and names_endpoint(spec.name, other.base_url)):
        return spec
    fields = {"base_url", "api_key_env"} & other.model_fields_set - spec.model_fields_set
    return spec.model_copy(update={name: getattr(other, name) for name in fields})


def variable(name: str) -> str:
    """Return the name of an environment variable for an error, unless it looks like a key put there by mistake."""
    return (
        name
        if re.fullmatch(r"[A-Z][A-Z0-9_]*", name)
        else "that is named here (expected the name of a variable, not the key)"
    )
