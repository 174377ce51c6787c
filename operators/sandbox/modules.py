"""Features of Python that the sandbox lacks and snippets use: some modules, and some syntax.

Missing modules are reimplemented in the Python of the sandbox (`given_modules.monty`), and run inside it. An import of
such a module is replaced by an assignment on the same line. `del a[b]`, `x.is_integer()`, `re.sub` with a function,
`strptime`, `compile`, and `print` to a stream are replaced by calls of functions there. Code for `exec` and `eval` is
checked first, so that syntax errors have the messages of CPython.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from functools import cache
from pathlib import Path
from typing import NamedTuple

GIVEN: Mapping[str, tuple[str, ...]] = {
    name: tuple(names.split())
    for name, names in {
        "ast": "literal_eval",
        "contextlib": "redirect_stderr redirect_stdout suppress",
        "heapq": "heapify heappop heappush nlargest nsmallest",
        "hmac": "compare_digest digest new",
        "html": "escape unescape",
        "io": "BytesIO StringIO",
        "logging": "CRITICAL DEBUG ERROR INFO WARNING basicConfig critical debug error exception getLogger info warning",
        "operator": "attrgetter itemgetter",
        "statistics": "fmean mean median mode pstdev pvariance stdev variance",
        "string": "ascii_letters ascii_lowercase ascii_uppercase capwords digits hexdigits octdigits printable "
        "punctuation whitespace",
        "textwrap": "dedent indent",
        "urllib.error": "HTTPError URLError",
        "urllib.parse": "parse_qs parse_qsl quote quote_plus unquote unquote_plus urlencode urljoin urlparse urlsplit "
        "urlunparse",
        "uuid": "uuid4",
    }.items()
}
"""Reimplemented modules, each with its names."""

NAMES = "_given_modules"
"""Name in the sandbox of the object that contains these modules."""

REPLACED = frozenset({("base64", "binascii")})
"""Names of modules of the sandbox that it lacks and that are given."""

_FUNCTIONS = frozenset({"callable", "compile"})
"""Built-in functions that the sandbox lacks."""

_CODE_RUNNERS = frozenset({"eval", "exec"})
"""Built-in functions that run code."""


class _Edit(NamedTuple):
    """Replacement of the text between two positions, each a line, counted from 1, and a column in bytes."""

    begin: tuple[int, int]
    end: tuple[int, int]
    text: str


@cache
def given_source() -> str:
    """Return the source of the modules, which needs the variable `_entities` with the entities of HTML."""
    return Path(__file__).with_name("given_modules.monty").read_text(encoding="utf-8")


def with_given(code: str, tree: ast.Module) -> str:
    """Return a snippet rewritten to use the reimplemented modules and functions; line numbers do not change.

    Args:
        tree: Syntax tree of the snippet.
    """
    nodes = list(_nodes(tree))
    own_names = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    own_names |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    own_names |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    uses_streams = any(name in GIVEN and name in ("io", "contextlib") for node in nodes for name in _imported(node))
    replaced = ({*_FUNCTIONS, "exec", "print", "sys"} if uses_streams else _FUNCTIONS) - own_names
    checked = _CODE_RUNNERS - own_names
    lines = [line.encode() for line in lines_of(code)]
    edits = [edit for node in nodes for edit in _node_edits(node, lines, replaced, checked)]
    for _, edit in sorted(enumerate(edits), key=lambda each: (each[1].begin, each[0]), reverse=True):
        (first, begin), (last, end) = edit.begin, edit.end
        edited = lines[first - 1][:begin] + edit.text.encode() + lines[last - 1][end:]
        lines[first - 1 : last] = [*edited.split(b"\n"), *[b""] * (last - first - edit.text.count("\n"))]
    return b"\n".join(lines).decode()


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a snippet, outer nodes first; before 3.12, nodes in f-strings have no positions."""
    pending = [tree]
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, ast.JoinedStr):
            pending.extend(ast.iter_child_nodes(node))


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []


def lines_of(code: str) -> list[str]:
    """Return the lines of code as Python counts them: a carriage return ends a line, too."""
    return re.split(r"\r\n?|\n", code)


def _node_edits(node: ast.AST, lines: list[bytes], replaced: Set[str], checked: Set[str]) -> Iterator[_Edit]:
    """Yield the edits of a node's source, without those of nodes inside it."""
    match node:
        case ast.Import() | ast.ImportFrom():
            parts = list(_from_import(node) if isinstance(node, ast.ImportFrom) else _plain_import(node))
            if any(NAMES in part for part in parts):
                yield _Edit(_start(node), _end(node), "; ".join(parts))
        case ast.Name(id=name, ctx=ast.Load()) if name in replaced and name != "sys":
            yield _Edit(_start(node), _end(node), f"{NAMES}.{name}")
        case ast.Attribute(value=ast.Name(id=module), attr=name) if _is_of_module(module, name, replaced):
            yield _Edit(_start(node), _end(node), f"{NAMES}.{name}")
        case ast.Call(func=ast.Attribute() as called):
            yield from _call_edits(node, called, lines)
        case ast.Call(func=ast.Name(id=name), args=[source, *_]) if name in checked:
            if not isinstance(source, ast.Starred):
                yield _Edit(_start(source), _start(source), f"{NAMES}.checked(")
                yield _Edit(_end(source), _end(source), f", {name!r})")
        case ast.Delete(targets=targets) if all(isinstance(each, ast.Subscript | ast.Name) for each in targets):
            yield _Edit(_start(node), _end(node), "; ".join(map(_deletion, targets)))
        case _:
            pass


def _is_of_module(module: str, name: str, replaced: Set[str]) -> bool:
    streams = module == "sys" and name in ("stdout", "stderr")
    return (module, name) in REPLACED or (streams and "sys" in replaced)


def _call_edits(node: ast.Call, called: ast.Attribute, lines: list[bytes]) -> Iterator[_Edit]:
    """Yield the edits that replace calls of some methods by calls of functions."""
    dot = _dot(called, lines)
    if dot is None:
        return
    if called.attr == "is_integer" and not node.args:
        yield _Edit(_start(node), _start(node), f"{NAMES}.is_integer(")
        yield _Edit(dot, _end(node), ")")
    elif called.attr == "strptime" and node.args and (paren := _paren(called, lines)):
        yield _Edit(_start(node), _start(node), f"{NAMES}.strptime(")
        yield _Edit(dot, paren, ", ")
    elif called.attr == "sub" and node.args:
        number = int(isinstance(called.value, ast.Name) and called.value.id == "re" and len(node.args) > 1)
        paren = _paren(called, lines)
        if paren and not isinstance(node.args[number], ast.Constant | ast.JoinedStr):
            yield _Edit(_start(node), _start(node), f"{NAMES}.sub(")
            yield _Edit(dot, paren, ", ")


def _paren(called: ast.Attribute, lines: list[bytes]) -> tuple[int, int] | None:
    """Return the position after the parenthesis that opens the arguments; None if it is on another line."""
    line, column = _end(called)
    place = lines[line - 1].find(b"(", column)
    return (line, place + 1) if place >= 0 else None


def _dot(called: ast.Attribute, lines: list[bytes]) -> tuple[int, int] | None:
    """Return the position of the dot before the name of a method; None if it is on another line."""
    line, column = _end(called)
    before = lines[line - 1][: column - len(called.attr)].rstrip()
    return (line, len(before) - 1) if before.endswith(b".") else None


def _deletion(target: ast.expr) -> str:
    """Return the statement that replaces the deletion of an item or a variable."""
    if not isinstance(target, ast.Subscript):
        return f"{ast.unparse(target)} = None"
    key = target.slice
    if isinstance(key, ast.Slice):
        parts = ", ".join(ast.unparse(each) if each else "None" for each in (key.lower, key.upper, key.step))
        return f"{NAMES}.delete({ast.unparse(target.value)}, slice({parts}))"
    return f"{NAMES}.delete({ast.unparse(target.value)}, {ast.unparse(key)})"


def _start(node: ast.expr | ast.stmt) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: ast.expr | ast.stmt) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or 0


def _plain_import(node: ast.Import) -> Iterator[str]:
    """Yield the statements that replace ``import a, b``."""
    for alias in node.names:
        if alias.name not in GIVEN:
            yield f"import {alias.name}" + (f" as {alias.asname}" if alias.asname else "")
        elif alias.asname:
            yield f"{alias.asname} = {NAMES}.{alias.name}"
        else:
            name = alias.name.partition(".")[0]
            yield f"{name} = {NAMES}.{name}"


def _from_import(node: ast.ImportFrom) -> Iterator[str]:
    """Yield the statements that replace ``from a import b, c``."""
    module = node.module or ""
    for alias in node.names:
        named = f" as {alias.asname}" if alias.asname else ""
        if not node.level and (alias.name in GIVEN.get(module, ()) or f"{module}.{alias.name}" in GIVEN):
            yield f"{alias.asname or alias.name} = {NAMES}.{module}.{alias.name}"
        else:
            yield f"from {'.' * node.level}{module} import {alias.name}{named}"


def lacking(tree: ast.Module, modules: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    """Yield the imports of a snippet that the sandbox lacks, each with its line.

    Args:
        modules: The modules of the sandbox itself.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported = [(alias.name, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            inside = any(name.startswith(module) for name in GIVEN)
            imported = [(module, f"{module}.{alias.name}" if inside else module) for alias in node.names]
        else:
            continue
        available = {*GIVEN, *(f"{module}.{name}" for module, names in GIVEN.items() for name in names)}
        for module, name in dict.fromkeys(imported):
            if name not in available and module.partition(".")[0] not in modules:
                yield name, node.lineno


def used_names(tree: ast.Module) -> Iterator[tuple[str, str, int]]:
    """Yield the attributes of imported modules that a snippet reads, each with its module and its line.

    Modules whose name the snippet also assigns are left out, and so are attributes that may not be read: in `try`,
    `except`, `if` and annotations.
    """
    walked = list(ast.walk(tree))
    modules = {
        alias.asname or alias.name: alias.name
        for node in walked
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.asname or "." not in alias.name
    }
    unsure = {id(each) for node in walked for part in _perhaps_read(node) for each in ast.walk(part)}
    stored = {node.id for node in walked if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    stored |= {node.arg for node in walked if isinstance(node, ast.arg)}
    for node in walked:
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute, ctx=ast.Load()):
                if name in modules and name not in stored and id(node) not in unsure:
                    yield modules[name], attribute, node.lineno
            case _:
                pass


def _perhaps_read(node: ast.AST) -> list[ast.AST]:
    """Return the parts of a node that may not run, or whose failure the snippet may handle."""
    match node:
        case ast.Try(body=body, handlers=handlers):
            return [*body, *(each.type for each in handlers if each.type)]
        case ast.If(body=body, orelse=orelse):
            return [*body, *orelse]
        case ast.IfExp(body=body, orelse=orelse):
            return [body, orelse]
        case ast.arg(annotation=annotation) | ast.AnnAssign(annotation=annotation) if annotation:
            return [annotation]
        case ast.FunctionDef(returns=returns) | ast.AsyncFunctionDef(returns=returns) if returns:
            return [returns]
        case _:
            return []


def imported_modules(tree: ast.Module) -> Iterator[str]:
    """Yield the names of the modules that a snippet imports, without the modules inside them."""
    for node in ast.walk(tree):
        yield from (name.partition(".")[0] for name in _imported(node))


def certain_imports(body: Iterable[ast.stmt], modules: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    """Yield the imports from modules, and of modules inside them, that certainly run, each with its line.

    Imports inside other statements, such as `if` and `try`, may not run, or may handle their failure; they are left
    out.

    Args:
        body: Statements that run one after another.
    """
    for node in body:
        if isinstance(node, ast.Import):
            names = [(alias.name, f"import {alias.name}") for alias in node.names if "." in alias.name]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [(node.module, f"from {node.module} import {alias.name}") for alias in node.names]
        else:
            continue
        for module, statement in names:
            if module.partition(".")[0] in modules and not statement.endswith("*"):
                yield statement, node.lineno
