"""Static search for uses of variables in code and templates."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

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


class PartRead(NamedTuple):
    """Part of a variable, or of the items of a list, that code or a template reads.

    Attributes:
        line: Line, from 1.
        as_attribute: True for an attribute, ``name.part``; False for a key.
    """

    name: str
    part: str
    of_item: bool
    line: int
    as_attribute: bool = False


def parts_read(code: str) -> list[PartRead]:
    """Return the parts of the arguments of `main` that it reads, and those of their items; of invalid code, none.

    Arguments and items that `main` also assigns are left out, and so are parts that it mentions in a condition or
    inside `try`, as it may then do without them.
    """
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    main = next((node for node in tree.body if isinstance(node, ast.FunctionDef) and _is_main(node)), None)
    if main is None:
        return []
    walked = list(ast.walk(main))
    stored = [node.id for node in walked if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    names = {argument.arg: (argument.arg, False) for argument in main.args.args if argument.arg not in stored}
    for node in walked:
        match node:
            case (
                ast.For(target=ast.Name(id=item), iter=ast.Name(id=name))
                | ast.comprehension(target=ast.Name(id=item), iter=ast.Name(id=name))
            ) if name in names and stored.count(item) == 1:
                names[item] = (name, True)
            case _:
                pass
    optional = {name for node in walked for part in _conditional(node) for name in _mentioned(part)}
    found = [read for node in walked for read in _part_read(node, names)]
    return [read for read in found if read.part not in optional]


def _part_read(node: ast.AST, names: Mapping[str, tuple[str, bool]]) -> Iterator[PartRead]:
    """Yield the part that a node reads of one of some variables."""
    match node:
        case ast.Subscript(value=value, slice=ast.Constant(value=str(part)), ctx=ast.Load()):
            as_attribute = False
        case ast.Attribute(value=value, attr=part) if not hasattr(dict, part):
            as_attribute = True
        case ast.Call(func=ast.Attribute(value=value, attr="get"), args=[ast.Constant(value=str(part))], keywords=[]):
            as_attribute = False
        case _:
            return
    match value:
        case ast.Name(id=name) if name in names:
            yield PartRead(names[name][0], part, names[name][1], value.lineno, as_attribute)
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=int())) if name in names:
            yield PartRead(names[name][0], part, True, value.lineno, as_attribute)
        case _:
            pass


def _conditional(node: ast.AST) -> Sequence[ast.AST]:
    """Return the parts of a node that are conditions, or may fail."""
    match node:
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            return [test]
        case ast.BoolOp(values=parts) | ast.comprehension(ifs=parts) | ast.Try(body=parts):
            return parts
        case _:
            return []


def _mentioned(node: ast.AST) -> Iterator[str]:
    """Yield the texts and the names of attributes in a node."""
    for each in ast.walk(node):
        match each:
            case ast.Constant(value=str(name)) | ast.Attribute(attr=name):
                yield name
            case _:
                pass


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
