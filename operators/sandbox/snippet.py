"""Parsed Python snippets: parameters of `main`, imports, and syntax errors."""

from __future__ import annotations

import ast
import re
import threading
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from operad.operators.sandbox.modules import (
    GIVEN,
    certain_imports,
    imported_modules,
    lacking,
    lines_of,
    used_names,
    with_given,
)
from operad.runtime.values.errors import OperadError, describe, did_you_mean, shorten

MODULES = tuple(
    "asyncio base64 binascii bisect collections copy csv dataclasses datetime decimal functools hashlib itertools "
    "json math os pathlib random re sys time tomllib typing unicodedata".split()
)
"""Modules of the sandbox; `os`, `pathlib` and `sys` have only functions without external effects."""

_SENDING = ("requests", "urllib")
"""Packages whose requests Operad sends for code that may import them; other code has no network."""

_CLIENTS = (*_SENDING, "aiohttp", "http", "httpx", "socket", "urllib3", "websockets")
"""Packages that send requests."""

MOST_CODE = 100_000
"""Maximum length of a snippet, in characters."""

DEEPEST = 1_000
"""Maximum depth of nested calls of a snippet."""

LONGEST_LINE = 160
"""Maximum length of a line in an error, in characters."""

_FENCE = re.compile(r"\A(\s*)```[^\n`]*\n(.*?)\n?[ \t]*```\s*\Z", re.DOTALL)
_PARSING = threading.Lock()


class CodeError(OperadError):
    """A snippet that cannot be run, failed, reached a limit, or returned no dict.

    Attributes:
        line: Line of the fault in the snippet, counted from 1; 0 if unknown.
    """

    def __init__(self, message: str, *, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class CodeLimits:
    """Limits of a snippet.

    Attributes:
        seconds: Maximum computing time, in seconds.
        memory_bytes: Maximum memory, including the arguments, in bytes.
        output_chars: Maximum length of the return value as JSON, in characters.
        packages: Packages that snippets may import, such as ``pandas``. A snippet that imports one runs in a limited
            process (`operad.operators.sandbox.process`) instead of the sandbox.
    """

    seconds: float = 10.0
    memory_bytes: int = 128_000_000
    output_chars: int = 4_000_000
    packages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters of `main`.

    Attributes:
        names: Names of all parameters, in order.
        required: Names of the parameters without a default.
        any: True if `main` takes any further arguments, by ``**``.
    """

    names: tuple[str, ...]
    required: tuple[str, ...]
    any: bool

    def mismatches(self, given: Iterable[str]) -> list[str]:
        """Return the faults of a call with arguments of these names, one sentence each; empty if they fit."""
        given = list(given)
        missing = [name for name in self.required if name not in given]
        surplus = [] if self.any else [name for name in given if name not in self.names]
        takes = f"main takes {shorten(self.names)}" if self.names else "main takes nothing"
        return [
            *(f"main needs {name!r}, which is not given{did_you_mean(name, surplus)}" for name in missing),
            *(f"{name!r} is given, but {takes}{did_you_mean(name, self.names)}" for name in surplus),
        ]


@dataclass(frozen=True, slots=True)
class Snippet:
    """A parsed snippet.

    Attributes:
        code: Code for the sandbox, without a fence, rewritten to use the modules of `modules.GIVEN`.
        parameters: Parameters of `main`.
        by_position: Names of the positional-only parameters.
        awaited: True if `main` is async.
        lacking: Imports that the sandbox lacks, each with its line.
        certain_imports: Imports from modules of the sandbox that run in every call, each with its line.
        used_names: Attributes of modules of the sandbox that the snippet reads, each with its module and its line.
        imported: Names of the modules that the snippet imports.
        source: Original code, without a fence, for engines that have all modules.
    """

    code: str
    parameters: Parameters
    by_position: tuple[str, ...]
    awaited: bool
    lacking: tuple[tuple[str, int], ...]
    certain_imports: tuple[tuple[str, int], ...]
    used_names: tuple[tuple[str, str, int], ...]
    imported: tuple[str, ...]
    source: str

    def of_packages(self, packages: Iterable[str]) -> list[str]:
        """Return the given packages that the snippet imports."""
        return [name for name in packages if name in self.imported]


@lru_cache(maxsize=256)  # a workflow may run the same snippet repeatedly
def read(code: str) -> Snippet:
    """Parse a snippet.

    Raises:
        CodeError: The snippet is too long, is not valid Python, or has no `main`.
    """
    if problem := too_long(code):
        raise CodeError(problem)
    if fenced := _FENCE.match(code):
        code = f"{fenced[1]}\n{fenced[2]}"  # keeps the line numbers
    tree = _parse(code)
    main = None
    for node in _outside_functions(tree):
        match node:
            case ast.FunctionDef(name="main") | ast.AsyncFunctionDef(name="main"):
                main = node
            case _:
                pass
    if main is None:
        other_names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        hint = f"; it has {shorten(other_names)}" if other_names else ""
        raise CodeError(f"the snippet has no main{hint}; define `def main(a, b):` that returns a dict{_hint(code)}")
    return Snippet(
        code=with_given(code, tree),
        parameters=_parameters(main.args),
        by_position=tuple(argument.arg for argument in main.args.posonlyargs),
        awaited=isinstance(main, ast.AsyncFunctionDef),
        lacking=tuple(lacking(tree, (*MODULES, "__future__"))),
        certain_imports=tuple(certain_imports([*tree.body, *main.body], MODULES)),
        used_names=tuple(each for each in used_names(tree) if each[0] in MODULES or each[0] in GIVEN),
        imported=tuple(imported_modules(tree)),
        source=code,
    )


def _parse(code: str) -> ast.Module:
    """Return the syntax tree of a snippet."""
    try:
        with _PARSING, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # harmless ones, such as of the escape "\d"
            return ast.parse(code)
    except SyntaxError as error:
        line = error.lineno or 0
        source = (lines_of(code)[line - 1 : line] or [""])[0]
        raise CodeError(
            f"SyntaxError at line {line}, column {error.offset or 0}, `{short(source.strip(), LONGEST_LINE)}`: "
            f"{error.msg}{_hint(source)}",
            line=line,
        ) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise CodeError(f"the snippet is not valid Python: {short(describe(error), LONGEST_LINE)}") from error


def syntax_error(source: str, filename: str, mode: Literal["exec", "eval"]) -> str:
    """Return CPython's message for code with a syntax error; empty for valid code, and for very long code."""
    if len(source) > MOST_CODE or len(filename) > LONGEST_LINE:
        return ""
    try:
        with _PARSING, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(source.lstrip(" \t") if mode == "eval" else source, filename, mode)
    except SyntaxError as error:
        return str(error)
    except (ValueError, RecursionError, MemoryError):
        pass
    return ""


def _hint(source: str) -> str:
    """Return a hint on a common mistake of models in text that is not Python."""
    if "{{#" in source:
        return "; a reference {{#…#}} is not Python: declare a variable, and let main take it"
    if "\\n" in source and "\n" not in source.strip():
        return "; write a line break where a line ends, not \\n"
    return ""


def _outside_functions(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes that run when the snippet is loaded, also those inside an ``if`` or a ``try``."""
    pending: list[ast.AST] = list(reversed(tree.body))
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.expr):
            pending.extend(reversed(list(ast.iter_child_nodes(node))))


def _parameters(arguments: ast.arguments) -> Parameters:
    plain = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    by_name = [argument.arg for argument in arguments.kwonlyargs]
    required = plain[: len(plain) - len(arguments.defaults)]
    required += [name for name, default in zip(by_name, arguments.kw_defaults, strict=True) if default is None]
    return Parameters((*plain, *by_name), tuple(required), arguments.kwarg is not None)


def lacks(what: str) -> str:
    """Return the message for an import or a name that the sandbox lacks: what to do about it.

    Args:
        what: ``import a``, ``from a import b``, ``a`` or ``a.b``.
    """
    *_, name = what.split()[:2]
    module = name.partition(".")[0]
    known = (*MODULES, *GIVEN)
    near = did_you_mean(name, known) if module not in (*known, *_CLIENTS) else ""
    given = next((each for each in GIVEN if f"{name}.".startswith(f"{each}.")), None)
    has = f"; of {given} it has {', '.join(GIVEN[given])}" if given else ""
    is_client = module in _CLIENTS and given is None
    package = _SENDING[0] if is_client and module not in _SENDING else module
    allow = f"allow {package} by `code: {{packages: [{package}]}}` in a services file (--services FILE --trust)"
    if is_client:
        allow = f"make the request by a request node, or {allow}"
    return f"the sandbox lacks it{near}{has}; {allow}"


def too_long(code: str) -> str:
    """Return the message for a snippet with more than `MOST_CODE` characters; empty for a shorter one."""
    if len(code) <= MOST_CODE:
        return ""
    return f"the snippet has {len(code):,} characters, more than the maximum of {MOST_CODE:,} for a snippet"


def failed(code: str, line: int, text: str) -> CodeError:
    """Return the error for a snippet that failed, with its line, which is 0 if it is unknown."""
    lines = lines_of(code)
    place = f" at line {line}, `{short(lines[line - 1].strip(), LONGEST_LINE)}`" if line else ""
    return CodeError(f"the snippet failed{place}: {text}", line=line)


def short(text: str, most: int) -> str:
    """Return a text; if it is longer than `most` characters, its beginning and its length."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"
