"""Features of Python that the sandbox lacks and snippets use: some modules, and some syntax.

The modules are written once more in the Python that the sandbox knows (`given_modules.monty`), and run inside of it. An
import of one becomes an assignment on the same line. So do `del a[b]`, `x.is_integer()`, `re.sub` with a function,
`strptime`, `compile`, and `print` to a stream become calls of functions there. Code for `exec` and `eval` is checked
there first, so that wrong syntax has the words of CPython.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Set
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
"""The modules, and what each has."""

NAMES = "_given_modules"
"""Name of all of them in the sandbox."""

_FUNCTIONS = frozenset({"callable", "compile"})
"""Built-in functions that the sandbox lacks."""

_RUNNING = frozenset({"eval", "exec"})
"""Built-in functions that run code."""


class _Edit(NamedTuple):
    """Text in the place of that between two places, each a line from 1 and a column in bytes."""

    begin: tuple[int, int]
    end: tuple[int, int]
    text: str


@cache
def given_source() -> str:
    """The modules, as the sandbox gets them where a snippet needs one; it reads `_entities`, those of HTML, by name."""
    return Path(__file__).with_name("given_modules.monty").read_text(encoding="utf-8")


def with_given(code: str, tree: ast.Module) -> str:
    """A snippet that uses these modules and functions; each line keeps its number.

    Args:
        code: The snippet.
        tree: What it reads as.
    """
    nodes = list(_nodes(tree))
    own = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    own |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    own |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    streams = any(name in GIVEN and name in ("io", "contextlib") for node in nodes for name in _imported(node))
    replaced = ({*_FUNCTIONS, "exec", "print", "sys"} if streams else _FUNCTIONS) - own
    checked = _RUNNING - own
    lines = [line.encode() for line in re.split(r"\r\n?|\n", code)]  # as Python counts them
    edits = [edit for node in nodes for edit in _edits(node, lines, replaced, checked)]
    for _, edit in sorted(enumerate(edits), key=lambda each: (each[1].begin, each[0]), reverse=True):
        (first, begin), (last, end) = edit.begin, edit.end
        made = lines[first - 1][:begin] + edit.text.encode() + lines[last - 1][end:]
        lines[first - 1 : last] = [*made.split(b"\n"), *[b""] * (last - first - edit.text.count("\n"))]
    return b"\n".join(lines).decode()


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a snippet, outer ones first; those in f-strings have no places before Python 3.12."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.JoinedStr):
            waiting.extend(ast.iter_child_nodes(node))


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []


def _edits(node: ast.AST, lines: list[bytes], replaced: Set[str], checked: Set[str]) -> Iterator[_Edit]:
    """Yield the edits of a node's source, without those of nodes inside it."""
    match node:
        case ast.Import() | ast.ImportFrom():
            parts = list(_from(node) if isinstance(node, ast.ImportFrom) else _plain(node))
            if any(NAMES in part for part in parts):
                yield _Edit(_begin(node), _end(node), "; ".join(parts))
        case ast.Name(id=name, ctx=ast.Load()) if name in replaced and name != "sys":
            yield _Edit(_begin(node), _end(node), f"{NAMES}.{name}")
        case ast.Attribute(value=ast.Name(id=module), attr=name) if _is_of_module(module, name, replaced):
            yield _Edit(_begin(node), _end(node), f"{NAMES}.{name}")
        case ast.Call(func=ast.Attribute() as called):
            yield from _calls(node, called, lines)
        case ast.Call(func=ast.Name(id=name), args=[source, *_]) if name in checked:
            if not isinstance(source, ast.Starred):
                yield _Edit(_begin(source), _begin(source), f"{NAMES}.checked(")
                yield _Edit(_end(source), _end(source), f", {name!r})")
        case ast.Delete(targets=targets) if all(isinstance(each, ast.Subscript | ast.Name) for each in targets):
            yield _Edit(_begin(node), _end(node), "; ".join(map(_deleted, targets)))
        case _:
            pass


def _is_of_module(module: str, name: str, replaced: Set[str]) -> bool:
    streams = module == "sys" and name in ("stdout", "stderr")
    return (module, name) == ("base64", "binascii") or (streams and "sys" in replaced)


def _calls(node: ast.Call, called: ast.Attribute, lines: list[bytes]) -> Iterator[_Edit]:
    """Calls of methods that become calls of functions."""
    dot = _dot(called, lines)
    if dot is None:
        return
    if called.attr == "is_integer" and not node.args:
        yield _Edit(_begin(node), _begin(node), f"{NAMES}.is_integer(")
        yield _Edit(dot, _end(node), ")")
    elif called.attr == "strptime" and node.args and (paren := _paren(called, lines)):
        yield _Edit(_begin(node), _begin(node), f"{NAMES}.strptime(")
        yield _Edit(dot, paren, ", ")
    elif called.attr == "sub" and node.args:
        number = int(isinstance(called.value, ast.Name) and called.value.id == "re" and len(node.args) > 1)
        paren = _paren(called, lines)
        if paren and not isinstance(node.args[number], ast.Constant | ast.JoinedStr):
            yield _Edit(_begin(node), _begin(node), f"{NAMES}.sub(")
            yield _Edit(dot, paren, ", ")


def _paren(called: ast.Attribute, lines: list[bytes]) -> tuple[int, int] | None:
    """The place behind the bracket that opens the arguments; None where it stands on another line."""
    line, column = _end(called)
    place = lines[line - 1].find(b"(", column)
    return (line, place + 1) if place >= 0 else None


def _dot(called: ast.Attribute, lines: list[bytes]) -> tuple[int, int] | None:
    """The place of the dot before the name of a method; None where it stands on another line."""
    line, column = _end(called)
    before = lines[line - 1][: column - len(called.attr)].rstrip()
    return (line, len(before) - 1) if before.endswith(b".") else None


def _deleted(target: ast.expr) -> str:
    if not isinstance(target, ast.Subscript):
        return f"{ast.unparse(target)} = None"
    key = target.slice
    if isinstance(key, ast.Slice):
        parts = ", ".join(ast.unparse(each) if each else "None" for each in (key.lower, key.upper, key.step))
        return f"{NAMES}.delete({ast.unparse(target.value)}, slice({parts}))"
    return f"{NAMES}.delete({ast.unparse(target.value)}, {ast.unparse(key)})"


def _begin(node: ast.expr | ast.stmt) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: ast.expr | ast.stmt) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or 0


def _plain(node: ast.Import) -> Iterator[str]:
    for alias in node.names:
        if alias.name not in GIVEN:
            yield f"import {alias.name}" + (f" as {alias.asname}" if alias.asname else "")
        elif alias.asname:
            yield f"{alias.asname} = {NAMES}.{alias.name}"
        else:
            name = alias.name.partition(".")[0]
            yield f"{name} = {NAMES}.{name}"


def _from(node: ast.ImportFrom) -> Iterator[str]:
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
        tree: The snippet.
        modules: The modules of the sandbox itself.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            named = [(alias.name, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            inside = any(name.startswith(module) for name in GIVEN)
            named = [(module, f"{module}.{alias.name}" if inside else module) for alias in node.names]
        else:
            continue
        had = {*GIVEN, *(f"{module}.{name}" for module, names in GIVEN.items() for name in names)}
        for module, name in dict.fromkeys(named):
            if name not in had and module.partition(".")[0] not in modules:
                yield name, node.lineno
