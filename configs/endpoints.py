"""Endpoints of models in a file, and their keys from the environment."""

from __future__ import annotations

import os
from typing import Any

from operad.configs.faults import Faults
from operad.configs.models import variable
from operad.configs.schema import MakerSpec
from operad.runtime.models.names import locate_told
from operad.runtime.values.document import Path_
from operad.runtime.values.errors import InputError


def said(spec: Any) -> dict[str, Any]:
    """Return the set values of a section, by the names of its fields."""
    return spec.model_dump(exclude_unset=True, exclude_none=True)


def endpoint_of(spec: MakerSpec, faults: Faults, path: Path_) -> dict[str, Any] | None:
    """Return the arguments for a model, by the rules for `model`; None after reporting that its key is missing."""
    key = os.environ.get(spec.api_key_env) if spec.api_key_env else None
    if spec.api_key_env and not key:
        report_key(spec.api_key_env, faults, path)
        return None
    try:
        located = locate_told(spec.name, spec.base_url, key or "", os.environ)
    except InputError as error:
        faults.report((*path, "name"), "value", str(error))
        return None
    if located.lacks_key and located.vendor:
        report_key(located.vendor.keys[0], faults, path)
        return None
    return {
        **{name: value for name, value in said(spec).items() if name != "api_key_env"},
        "base_url": located.base_url,
        "api_key": located.key or None,
    }


def report_key(name: str, faults: Faults, path: Path_) -> None:
    """Report that the environment variable of a key is not set."""
    message = f"the environment variable {variable(name)} is not set; it is to hold the key"
    faults.report((*path, "api_key_env"), "value", message)
