"""Modules that a configuration names: found beside it, and not hidden by others."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any, TypeVar, cast

from operad.operators import NodeOperator, Operator
from operad.operators.nodes import NODE_TYPES
from operad.runtime.errors import describe, did_you_mean

OperatorT = TypeVar("OperatorT", bound=Operator)


def make_importable(folder: Path) -> None:
    """Let the modules beside a configuration be imported, now and while its experts run; others of the name win."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def shadowed(module_path: str, folder: Path) -> str:
    """What is wrong where another module is imported in the place of the one beside the file."""
    top = module_path.partition(".")[0]
    beside = next((path for path in (folder / top, folder / f"{top}.py") if path.exists()), None)
    loaded = getattr(sys.modules.get(top), "__file__", None)
    if beside is None or loaded is None or Path(loaded).resolve().is_relative_to(folder):
        return ""
    return f"module {top!r} beside this file is hidden by {loaded}, which has the same name; rename one"


def node_type(name: str) -> type[NodeOperator[Any]] | str:
    """The node type of that name or dotted path, or what is wrong with it."""
    if name in NODE_TYPES:
        return NODE_TYPES[name]
    if "." not in name:
        return f"there is no node type {name!r}{did_you_mean(name, NODE_TYPES)}; `operad nodes` lists them"
    return operator_class(name, cast("type[NodeOperator[Any]]", NodeOperator))


def operator_class(path: str, base: type[OperatorT]) -> type[OperatorT] | str:
    """The class of that dotted path, or what is wrong with it."""
    module_path, _, name = path.rpartition(".")
    if not module_path:
        return f"{path!r} has no module: write package.module.Class"
    try:
        module = importlib.import_module(module_path)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a user's module may raise anything
        return f"module {module_path!r} does not import: {describe(error)}"
    found = getattr(module, name, None)
    if found is None:
        return f"module {module_path!r} has no {name!r}{did_you_mean(name, vars(module))}"
    if not (isinstance(found, type) and issubclass(found, base)):
        return f"{path} is not a subclass of {base.__name__}"
    return found
