"""Engines that run a workflow: the built-in one, and dbgpt's AWEL if it is installed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Literal

from operad.runtime.graph.build import Engine
from operad.runtime.graph.engine import run_graph
from operad.runtime.graph.schedule import Plan
from operad.runtime.values.errors import MissingExtraError

EngineName = Literal["dbgpt", "builtin"]

_AWEL_IMPORTS = ("dbgpt", "cloudpickle", "cachetools")
"""Modules that ``import dbgpt.core.awel`` needs in addition to operad's own dependencies."""

INSTALL_AWEL = "pip install --no-deps 'dbgpt>=0.8.2,<0.9' cloudpickle cachetools"
"""Command that installs the AWEL engine on any Python. dbgpt's own pins cannot be installed on Python 3.12 and later."""


def awel_is_installed() -> bool:
    """Return True if the AWEL engine can be imported, without importing it."""
    return all(find_spec(name) is not None for name in _AWEL_IMPORTS)


def engine_for(plan: Plan, name: EngineName, workflow: str) -> Engine:
    """Return the engine with this name for a plan.

    Args:
        workflow: The workflow's name, for the error.

    Raises:
        MissingExtraError: The engine is ``dbgpt``, and dbgpt is not installed.
    """
    if name == "builtin":
        return run_graph
    try:
        from operad.runtime.graph import awel
    except ImportError as error:
        raise MissingExtraError(
            f"workflow {workflow!r}: the AWEL engine needs dbgpt ({error}): {INSTALL_AWEL}; "
            "Workflow and BuiltinWorkflow run without it"
        ) from error
    return awel.build(plan)
