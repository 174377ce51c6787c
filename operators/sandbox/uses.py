"""Static search for uses of variables in code and templates."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_ITERATING = {"zip", "enumerate", "sorted", "reversed", "list", "tuple", "set", "len", "sum", "any", "all"}
"""Functions that iterate over each of their arguments."""


def walked_through(code: str) -> frozenset[str]:
    """Return the arguments of `main` that it iterates over, so that a number as value would be an error.

    Arguments that `main` also assigns, or whose type it checks, are left out. For invalid code, the result is empty.
    """
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    main = next((node for node in tree.body if _is_main(node)), None)
    if main is None:
        return frozenset()
    excluded = {node.id for node in ast.walk(main) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    excluded |= {
        name for node in ast.walk(main) if _is_call(node, {"isinstance", "type", "hasattr"}) for name in _names(node)
    }
    return frozenset(name for node in ast.walk(main) for name in _iterated_names(node)) - excluded


def _is_main(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == "main"


def _iterated_names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.For | ast.comprehension) and isinstance(node.iter, ast.Name):
        yield node.iter.id
    elif _is_call(node, _ITERATING):
        yield from _names(node)


def _is_call(node: ast.AST, names: set[str]) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call):
        yield from (argument.id for argument in node.args if isinstance(argument, ast.Name))
