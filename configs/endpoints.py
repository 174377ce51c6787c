"""Endpoints of models in a file, and their keys from the environment."""

from __future__ import annotations

import os
from typing import Any

from operad.configs.faults import Faults
from operad.configs.models import variable
from operad.configs.schema import MakerSpec
from operad.runtime.models.endpoint import OPENAI_URL
from operad.runtime.values.document import Path_


def said(spec: Any) -> dict[str, Any]:
    """Return the set values of a section, by the names of its fields."""
    return spec.model_dump(exclude_unset=True, exclude_none=True)


def endpoint_of(spec: MakerSpec, faults: Faults, path: Path_) -> dict[str, Any] | None:
    """Return the arguments for a model, by the rules for `model`; None after reporting that its key is missing."""
    key = os.environ.get(spec.api_key_env)
    base_url = spec.base_url or os.environ.get("OPENAI_BASE_URL")
    if key is None and ("api_key_env" in spec.model_fields_set or not base_url):
        report_key(spec.api_key_env, faults, path)
        return None
    return {
        **{name: value for name, value in said(spec).items() if name != "api_key_env"},
        "base_url": base_url or OPENAI_URL,
        "api_key": key or None,
    }


def report_key(name: str, faults: Faults, path: Path_) -> None:
    """Report that the environment variable of a key is not set."""
    message = f"the environment variable {variable(name)} is not set; it is to hold the key"
    faults.report((*path, "api_key_env"), "value", message)
