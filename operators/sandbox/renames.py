"""Renaming of arguments of `main` and of keys of its result, in Python code.

The changed code is parsed and compared with the changed syntax tree. If they differ, or if the code uses the name in a
way that cannot be followed, the change is refused.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

from operad.runtime.values.errors import OperadError

_BY_HAND = "change the code with replace_text, and the declaration with set"


class RenameError(OperadError):
    """Code in which a name cannot be changed safely."""


def argument_renamed(code: str, old: str, new: str) -> str:
    """Return code in which an argument of `main` is renamed.

    Raises:
        RenameError: The code is invalid, has no such argument, or uses a name in a way that cannot be followed.
    """
    tree = _tree(code)
    if not new.isidentifier() or keyword.iskeyword(new):
        raise RenameError(f"{new!r} is not a name in Python; choose another")
    if old not in {argument.arg for argument in ast.walk(_main(tree).args) if isinstance(argument, ast.arg)}:
        raise RenameError(f"main has no argument {old!r}; {_BY_HAND}")
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name | ast.arg)]
    if new in map(_id, names) or {old, new} & set(_other_names(tree)):
        raise RenameError(f"the code uses {old!r} or {new!r} for something else, too; {_BY_HAND}")
    renamed = [node for node in names if _id(node) == old]
    candidates = [_replace_at(code, [(node.lineno, node.col_offset, old, new) for node in renamed])]
    candidates += [
        re.sub(rf"(?<![\w.]){re.escape(old)}(?!\w)", new, code)
    ]  # before 3.12, names in f-strings have no positions
    for node in renamed:
        if isinstance(node, ast.Name):
            node.id = new
        else:
            node.arg = new
    return _verified(candidates, tree)


def result_renamed(code: str, old: str, new: str) -> str:
    """Return code in which a key of the dict that `main` returns is renamed.

    Raises:
        RenameError: The code is invalid, or creates the dict in a way that cannot be followed.
    """
    tree = _tree(code)
    main = _main(tree)
    places: list[ast.Constant] = []
    for node in _keys(main):
        if node.value == new:
            raise RenameError(f"main returns {new!r} already; choose another name")
        if node.value == old and not any(node is each for each in places):
            places.append(node)
    if not places:
        raise RenameError(f"main does not return a dict with the literal key {old!r}; {_BY_HAND}")
    replacements: list[tuple[int, int, str, str]] = []
    for node in places:
        text = ast.get_source_segment(code, node) or ""
        if text not in (f"'{old}'", f'"{old}"'):
            raise RenameError(f"the code writes it as {text}; {_BY_HAND}")
        replacements.append((node.lineno, node.col_offset, text, f"{text[0]}{new}{text[0]}"))
    if any(sign in new for sign in "'\"\\\n\r"):
        raise RenameError(f"{new!r} cannot stand in quotes; choose another name")
    changed = _replace_at(code, replacements)
    for node in places:
        node.value = new
    return _verified([changed], tree)


def _tree(code: str) -> ast.Module:
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise RenameError(f"its code cannot be read: {error}") from error


def _main(tree: ast.Module) -> ast.FunctionDef | ast.AsyncFunctionDef:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == "main":
            return node
    raise RenameError("its code has no function main")


def _id(node: ast.Name | ast.arg) -> str:
    return node.id if isinstance(node, ast.Name) else node.arg


def _other_names(tree: ast.AST) -> Iterator[str]:
    """Yield the names in code that are not variables: keywords, functions, modules, globals and patterns."""
    for node in ast.walk(tree):
        match node:
            case ast.keyword(arg=str() as name) | ast.alias(asname=str() as name):
                yield name
            case ast.alias(name=name):
                yield name.partition(".")[0]
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                yield from names
            case ast.ExceptHandler(name=str() as name) | ast.MatchAs(name=str() as name):
                yield name
            case ast.MatchStar(name=str() as name) | ast.MatchMapping(rest=str() as name):
                yield name
            case _:
                pass


def _keys(main: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.Constant]:
    """Yield the keys of the dicts that a function returns, as dict displays or in variables."""
    own_nodes = list(_own_nodes(main))
    dicts: list[ast.expr | None] = [node.value for node in own_nodes if isinstance(node, ast.Return)]
    names = {value.id for value in dicts if isinstance(value, ast.Name)}
    for node in own_nodes:
        match node:
            case ast.Assign(targets=targets, value=value) if any(_is_named(each, names) for each in targets):
                dicts.append(value)
            case ast.AnnAssign(target=target, value=value) if _is_named(target, names):
                dicts.append(value)
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant() as key) if name in names:
                yield key
            case _:
                pass
    used = [node for node in ast.walk(main) if isinstance(node, ast.Name) and node.id in names]
    followed = [
        node.value for node in own_nodes if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant)
    ]
    followed += [value for value in dicts if value is not None]
    followed += [
        target
        for node in own_nodes
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]
    if any(not any(each is node for each in followed) for node in used):
        raise RenameError(f"main uses its result in a way that cannot be followed; {_BY_HAND}")
    for value in dicts:
        match value:
            case ast.Dict(keys=keys) if all(isinstance(key, ast.Constant) for key in keys):
                yield from (key for key in keys if isinstance(key, ast.Constant))
            case ast.Name(id=name) if name in names:
                pass
            case _:
                raise RenameError(f"main does not return a dict with literal keys; {_BY_HAND}")


def _is_named(node: ast.expr, names: set[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function, without those of functions inside it."""
    for inner in ast.iter_child_nodes(node):
        yield inner
        if not isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            yield from _own_nodes(inner)


def _replace_at(code: str, spots: Sequence[tuple[int, int, str, str]]) -> str:
    """Return code with texts replaced at positions: lines, counted from 1, and columns in bytes."""
    lines = code.encode().splitlines(keepends=True)  # as Python counts them: a carriage return ends one, too
    for line, column, old, new in sorted(spots, reverse=True):
        text = lines[line - 1]
        if text[column:].startswith(old.encode()):
            lines[line - 1] = text[:column] + new.encode() + text[column + len(old.encode()) :]
    return b"".join(lines).decode()


def _verified(candidates: Sequence[str], wanted_tree: ast.Module) -> str:
    """Return the first candidate whose syntax tree is the wanted one."""
    with suppress(ValueError, RecursionError, MemoryError):  # an integer with too many digits; nested too deep
        dumped = ast.dump(wanted_tree)
        for text in candidates:
            with suppress(SyntaxError):
                if ast.dump(ast.parse(text)) == dumped:
                    return text
    raise RenameError(f"the code uses it in a way that cannot be followed; {_BY_HAND}")
