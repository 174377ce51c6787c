"""Workflows in Python that commands and servers name: ``module:name``, or objects."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from operad.configs.models import make_model, override
from operad.configs.static_code import MAX_SOURCE
from operad.flows import NodeGraph
from operad.runtime.agents.agent import Agent, Profile
from operad.runtime.reasoning.reasoner import MonoModelReasoner
from operad.runtime.values.arguments import short_repr
from operad.runtime.values.errors import InputError, OperadError, describe, did_you_mean, shorten
from operad.runtime.workflow.workflow import Workflow

_REFERENCE = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)?")
_MAKES_FLOW = re.compile(r"\w*(Workflow|Expert|Leader|Agent)|load_workflow")
"""Names of the classes and functions that make what can be served."""
_MOST_NEAR = 1_000


def is_reference(text: str) -> bool:
    """Return True if a text is ``module:name``, and no file has this name."""
    return _REFERENCE.fullmatch(text) is not None and not Path(text).exists()


def named_object(reference: str, what: str = "") -> Any:
    """Import the module of a reference, also from the current folder, and return the object that the reference names.

    Args:
        reference: A text such as ``expert:flow``.
        what: Option that gives the reference, for errors.

    Raises:
        InputError: The module cannot be imported, or has no such object; with similar names.
    """
    module_name, _, name = reference.partition(":")
    where = f"{what} {reference}" if what else reference
    if module_name.endswith(".py"):
        raise InputError(
            f"{where}: write the name of the module, without .py: {module_name.removesuffix('.py')}:{name}"
        )
    if "" not in sys.path:  # it stays, because functions may import their neighbours when they run
        sys.path.insert(0, "")
    try:
        module = import_module(module_name)
    except (Exception, SystemExit) as error:
        near = did_you_mean(module_name, [path.stem for path in Path().glob("*.py")][:_MOST_NEAR])
        raise InputError(f"{where}: the module {module_name!r} cannot be imported{near}: {describe(error)}") from error
    found = getattr(module, name, None) if name else None
    if found is None:
        there = _served_in(module) or [each for each in vars(module) if not each.startswith("_")]
        missing = f"has no {name!r}{did_you_mean(name, vars(module))}" if name else "holds several objects; name one"
        raise InputError(f"{where}: the module {module_name!r} {missing}; there are: {shorten(there) or 'none'}")
    return found


def agent_named(reference: str, model_name: str | None = None, base_url: str | None = None) -> Agent:
    """Return the agent that a reference names, with the model of the command, if it names one.

    Raises:
        InputError: The module cannot be imported, or the object cannot be served.
    """
    agent = agent_of(named_object(reference), reference.partition(":")[2], reference)
    if spec := override(None, model_name, base_url):
        return Agent(agent.profile, agent.workflow, MonoModelReasoner(make_model(spec)), agent.memory)
    return agent


def agent_of(value: object, name: str = "", where: str = "") -> Agent:
    """Return the agent of a workflow, an agent, a function or an operator.

    Args:
        name: Name of the agent, if the object has none of its own.
        where: Name of the value in errors.

    Raises:
        InputError: The value is none of these, or its workflow cannot be built.
    """
    if isinstance(value, Agent):
        return value
    where = where or short_repr(value)
    if isinstance(value, NodeGraph):
        raise InputError(f"{where}: is a graph of nodes; load it as a workflow: load_workflow(FILE)")
    try:
        is_flow = isinstance(value, Workflow)
        flow = cast("Workflow[Any]", value) if is_flow else Workflow([cast("Any", value)], name=name or _name_of(value))
    except (OperadError, TypeError) as error:
        raise InputError(
            f"{where}: cannot be served; expected a Workflow, an Expert, an operator or a function: {describe(error)}"
        ) from error
    named = name if flow.name == "workflow" and name else flow.name
    summary = (
        (inspect.getdoc(cast("object", value)) or "").partition("\n")[0]
        if inspect.isroutine(cast("object", value))
        else ""
    )
    return Agent(Profile(name=named, description=summary), flow)


def reference_hint(file: Path) -> str:
    """Return how a Python file is named as a workflow, with the workflows that its source makes; it is not run."""
    parts = [*file.parent.parts, file.stem]
    module = ".".join(parts) if all(part.isidentifier() for part in parts) else file.stem
    names = list(_made_in(file))
    return " or ".join(f"{module}:{name}" for name in names[:5]) or f"{module}:NAME, with the name of its workflow"


def _made_in(file: Path) -> Iterator[str]:
    """Yield the names to which a module assigns workflows, as far as its source says."""
    try:
        tree = ast.parse(file.read_bytes()[:MAX_SOURCE])
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if isinstance(call := getattr(node, "value", None), ast.Call):
            function = call.func.value if isinstance(call.func, ast.Subscript) else call.func
            made_by = getattr(function, "attr", None) or getattr(function, "id", "")
            if _MAKES_FLOW.fullmatch(made_by):
                yield from (target.id for target in targets if isinstance(target, ast.Name))


def _served_in(module: ModuleType) -> list[str]:
    return [name for name, value in vars(module).items() if isinstance(value, Workflow | Agent) and name[0] != "_"]


def _name_of(value: Any) -> str:
    return getattr(value, "__name__", None) or (value.get_id() if hasattr(value, "get_id") else "workflow")
