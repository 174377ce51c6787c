"""Integrations: what packages add for other platforms, found through entry points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from operad.runtime.values.errors import InputError

GROUP = "operad.integrations"
"""Group of the entry points, each of which names an `Integration`."""


def _none() -> dict[str, str]:
    return {}


@dataclass(frozen=True, kw_only=True, slots=True)
class Integration:
    """Platform that a package adds; classes, values and functions are named ``module:name``, and imported when used.

        # my_package/__init__.py
        INTEGRATION = Integration(name="flows", formats={"flows": "my_package.format:FLOWS"})

        # pyproject.toml
        [project.entry-points."operad.integrations"]
        flows = "my_package:INTEGRATION"

    Attributes:
        node_types: Classes of node types (`NodeOperator`), by the names of the types.
        capabilities: What the parameters of a node type can do (`operad.configs.read_capabilities.NodeCapabilities`), by
            the names of the types; a file with nodes of another type needs trust.
        formats: Formats of files (`Format`), by their names.
        commands: Functions with Typer's annotations, by the names of the commands below ``operad evaluate``.
        advice: What to do about nodes of the platform that do not run here, by their types.
        rehearsed: Functions that replace those of `Services.outside` of the same name in dry runs.
    """

    name: str
    node_types: Mapping[str, str] = field(default_factory=_none)
    capabilities: Mapping[str, str] = field(default_factory=_none)
    formats: Mapping[str, str] = field(default_factory=_none)
    commands: Mapping[str, str] = field(default_factory=_none)
    advice: Mapping[str, str] = field(default_factory=_none)
    rehearsed: Mapping[str, str] = field(default_factory=_none)


@cache
def integrations() -> Sequence[Integration]:
    """Return the integrations of all installed packages, by the names of their entry points.

    Raises:
        InputError: An entry point cannot be imported, or names no `Integration`.
    """
    return [_integration(each) for each in sorted(entry_points(group=GROUP), key=lambda each: each.name)]


def _integration(entry: Any) -> Integration:
    where = f"entry point {entry.name} = {entry.value} of the package {entry.dist.name if entry.dist else 'unknown'}"
    try:
        found = entry.load()
    except Exception as error:
        raise InputError(f"{where}: {type(error).__name__}: {error}; mend or uninstall the package") from error
    if not isinstance(found, Integration):
        raise InputError(f"{where}: names something other than an Integration; mend or uninstall the package")
    return found


def named(home: str) -> Any:
    """Return what ``module:name`` names; the module is imported."""
    module, _, name = home.partition(":")
    return getattr(import_module(module), name)
