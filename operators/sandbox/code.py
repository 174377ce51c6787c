"""Python snippets of others, run in a sandbox: `def main(a, b)` that returns a dict.

The sandbox is `pydantic-monty`: an interpreter of its own in a process of its own, without files,
network, environment and foreign packages. What goes in and out is JSON text, so that no value of
one side is ever an object of the other. What a snippet prints is dropped; it sleeps no time at all;
its clock is in UTC.
"""

from __future__ import annotations

import ast
import json
import os
import re
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from html.entities import html5
from typing import TYPE_CHECKING, Any, NoReturn, cast

from operad.operators.sandbox.modules import GIVEN, NAMES, SOURCE, lacking, with_given
from operad.runtime.values.errors import InputError, Issue, OperadError, describe, did_you_mean, shorten

if TYPE_CHECKING:
    from pydantic_monty import Frame, Monty, MontyError, MontySession

MODULES = tuple(
    "asyncio base64 binascii bisect collections copy csv dataclasses datetime decimal functools hashlib itertools "
    "json math os pathlib random re sys time tomllib typing unicodedata".split()
)
"""What a snippet may import; of `os`, `pathlib` and `sys` only what touches nothing outside."""

_HAS = ", ".join((*MODULES, *GIVEN))

MOST_CODE = 100_000
"""Characters of the longest snippet."""

_DEEPEST = 1_000
_LONGEST_TEXT = 500
_LONGEST_LINE = 160

_FENCE = re.compile(r"\A(\s*)```[^\n`]*\n(.*?)\n?[ \t]*```\s*\Z", re.DOTALL)
_PARSING = threading.Lock()
_STARTING = threading.Lock()


class CodeError(OperadError):
    """A snippet that cannot be run, failed, reached a limit, or returned no dict.

    Attributes:
        line: The line of the snippet at fault, from 1; 0 where none is known.
    """

    def __init__(self, message: str, *, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class CodeLimits:
    """How much a snippet may use.

    Attributes:
        seconds: Of computing.
        memory_bytes: Of memory, its arguments included.
        output_chars: Of what it returns, as JSON.
    """

    seconds: float = 10.0
    memory_bytes: int = 128_000_000
    output_chars: int = 4_000_000


@dataclass(frozen=True, slots=True)
class Parameters:
    """What `main` takes.

    Attributes:
        names: All that it names, in order.
        required: Those without a default.
        any: Whether it takes others too, by ``**``.
    """

    names: tuple[str, ...]
    required: tuple[str, ...]
    any: bool

    def mismatches(self, given: Iterable[str]) -> list[str]:
        """What is wrong with arguments of these names, a sentence each; nothing where they fit."""
        given = list(given)
        missing = [name for name in self.required if name not in given]
        surplus = [] if self.any else [name for name in given if name not in self.names]
        takes = f"main takes {shorten(self.names)}" if self.names else "main takes nothing"
        return [
            *(f"main needs {name!r}, which is not given{did_you_mean(name, surplus)}" for name in missing),
            *(f"{name!r} is given, but {takes}{did_you_mean(name, self.names)}" for name in surplus),
        ]


@dataclass(frozen=True, slots=True)
class _Snippet:
    """A snippet that was read.

    Attributes:
        code: Its text, without a fence around it.
        parameters: What `main` takes.
        by_position: Those that can be given by position only.
        awaited: Whether `main` is async.
        lacking: What it imports and the sandbox lacks, each with its line.
    """

    code: str
    parameters: Parameters
    by_position: tuple[str, ...]
    awaited: bool
    lacking: tuple[tuple[str, int], ...]


def parameters_of(code: str) -> Parameters:
    """What the `main` of a snippet takes.

    Raises:
        CodeError: It is no Python, or has no `main`.
    """
    return _read(code).parameters


def check_code(code: str) -> list[Issue]:
    """What can be seen of a snippet without running it.

    Returns:
        Wrong syntax, a missing `main`, each module that the sandbox lacks, and Python that the
        sandbox does not know.
    """
    from pydantic_monty import MontyError, MontySyntaxError

    try:
        snippet = _read(code)
    except CodeError as error:
        return [Issue("code", str(error), _where(error.line))]
    issues = [
        Issue("import", f"import {name}: the sandbox lacks it; it has {_HAS}", _where(line))
        for name, line in snippet.lacking
    ]
    with _session(CodeLimits()) as session:
        try:
            session.feed_run("raise KeyboardInterrupt\n" + snippet.code)  # all of it is parsed, and nothing runs
        except MontyError as error:
            if isinstance(error, MontySyntaxError) or _kind(error) == "NotImplementedError":
                lines = [frame.line - 1 for frame in _frames(error)]
                issues.append(Issue("code", _text(error), _where(lines[-1] if lines else 0)))
    return issues


def run_code(code: str, arguments: Mapping[str, Any], limits: CodeLimits = CodeLimits()) -> dict[str, Any]:
    """Run a snippet's `main` in the sandbox.

    It waits for the sandbox without holding the interpreter's lock, so that `asyncio.to_thread`
    keeps a loop free; a thread that nobody waits for any more ends when the snippet does, or at its
    limit. As many snippets run at once as there are processors; others wait.

    Args:
        code: The snippet, perhaps between Markdown's fences.
        arguments: What `main` gets, by name: values that JSON has, and tuples as lists.
        limits: How much it may use.

    Returns:
        What `main` returned.

    Raises:
        CodeError: The snippet cannot be run, takes other arguments, failed, reached a limit, or
            returned something else than a dict of values that JSON has.
        InputError: The arguments are no JSON, or larger than the sandbox's memory.
    """
    from pydantic_monty import MontyError

    snippet = _read(code)
    if mismatches := snippet.parameters.mismatches(arguments):
        raise CodeError("; ".join(mismatches))
    text = _json_of(arguments)
    with _session(limits) as session:
        try:
            session.feed_run(_READ_ARGUMENTS, inputs={"_text": text, "_names": list(snippet.by_position)})
        except MontyError as error:
            raise InputError(
                f"the arguments, {len(text):,} characters of JSON, do not fit into a sandbox of "
                f"{limits.memory_bytes:,} bytes ({_text(error)}); give less, or raise memory_bytes"
            ) from error
        if NAMES in snippet.code:
            session.feed_run(SOURCE, inputs={"_entities": html5})
        call = _CALL.format("await " if snippet.awaited else "")
        try:
            returned = session.feed_run(f"{snippet.code}\n{call}", print_callback=_drop)
        except MontyError as error:
            _explain(error, snippet.code, limits)
    return _dict_of(returned, limits)


_READ_ARGUMENTS = """\
import json as _json
_named = _json.loads(_text)
_placed = [_named.pop(_name) for _name in _names if _name in _named]
"""

_CALL = """\
_returned = {}main(*_placed, **_named)
import json as _json
[_json.dumps(_returned, allow_nan=False) if isinstance(_returned, dict) else None, type(_returned).__name__]
"""


def _dict_of(returned: object, limits: CodeLimits) -> dict[str, Any]:
    """The dict that `main` returned, from what the sandbox said of it."""
    text, kind = cast("list[object]", returned) if isinstance(returned, list) else (None, None)
    if text is None and isinstance(kind, str) and kind:
        raise CodeError(f'main returned {_a(kind)}, not a dict; return one, such as {{"result": …}}')
    if not isinstance(text, str):
        raise CodeError("the snippet kept the sandbox from saying what main returned")
    if len(text) > limits.output_chars:
        raise CodeError(
            f"main returned {len(text):,} characters of JSON, more than the {limits.output_chars:,} "
            "of the limit output_chars; return less"
        )
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CodeError(f"main returned a dict that cannot be read, perhaps nested too deeply: {error}") from error
    if not isinstance(value, dict):
        raise CodeError("the snippet kept the sandbox from saying what main returned")
    return cast("dict[str, Any]", value)


def _json_of(arguments: Mapping[str, Any]) -> str:
    try:
        text = json.dumps(dict(arguments), allow_nan=False, ensure_ascii=False)
        text.encode()  # half a character, as broken files have it, gets no further
        return text
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"a snippet's arguments have to be JSON, and these are not: {error}") from error


def _explain(error: MontyError, code: str, limits: CodeLimits) -> NoReturn:
    """Say what went wrong in the sandbox, and where in the snippet."""
    from pydantic_monty import MontyCrashedError

    lines = code.split("\n")
    frames = _frames(error)  # some are of what `exec` runs, or of modules that are given
    numbers = [frame.line for frame in frames if frame.filename == frames[0].filename]
    inside = [number for number in numbers if number <= len(lines)]
    line = inside[-1] if inside else 0
    text = _text(error)
    if isinstance(error, MontyCrashedError):
        text = (
            f"it ran longer than {limits.seconds:g} s, the limit seconds; let it do less"
            if error.timed_out
            else f"it broke the sandbox down, which nothing else is harmed by: {text}"
        )
    elif text.startswith("TimeoutError: feed time limit exceeded"):
        text = f"TimeoutError: it ran longer than {limits.seconds:g} s, the limit seconds; let it do less"
    elif text.startswith(("MemoryError: memory limit", "MemoryError: the worker exceeded")):
        text = (
            f"MemoryError: it wanted more than {limits.memory_bytes:,} bytes, the limit memory_bytes; let it hold less"
        )
    elif text.startswith("RecursionError: maximum recursion"):
        text = f"RecursionError: calls or values are nested deeper than {_DEEPEST:,}, the limit of the sandbox"
    elif numbers and not inside:
        text = f"main returned what JSON does not have: {text}"
    elif "ModuleNotFoundError" in text:
        text = f"{text}; the sandbox has {_HAS}"
    at = f" at line {line}, `{_shorten(lines[line - 1].strip(), _LONGEST_LINE)}`" if line else ""
    raise CodeError(f"the snippet failed{at}: {text}", line=line) from error


def _text(error: MontyError) -> str:
    """The error's kind and text, in bounds."""
    text = str(error)
    kind = _kind(error)
    if kind == "NotImplementedError":
        text = text.replace("The monty syntax parser does not yet support", "the sandbox does not support")
    elif kind == "SyntaxError":
        text = f"SyntaxError: {text}"
    return _shorten(text, _LONGEST_TEXT)


def _kind(error: MontyError) -> str:
    return type(error.exception()).__name__


def _frames(error: MontyError) -> list[Frame]:
    from pydantic_monty import MontyRuntimeError, MontySyntaxError

    return error.traceback() if isinstance(error, MontyRuntimeError | MontySyntaxError) else []


def _shorten(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"


def _a(kind: str) -> str:
    return "None" if kind == "NoneType" else f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def _where(line: int) -> str:
    return f"line {line}" if line else ""


def _drop(stream: str, text: str) -> None:
    """Take what a snippet prints."""


@lru_cache(maxsize=256)  # a workflow runs the same snippet again and again
def _read(code: str) -> _Snippet:
    """Read a snippet.

    Raises:
        CodeError: It is too long, no Python, or has no `main`.
    """
    if len(code) > MOST_CODE:
        raise CodeError(f"the snippet has {len(code):,} characters, more than {MOST_CODE:,}; that is no snippet")
    if fenced := _FENCE.match(code):
        code = f"{fenced[1]}\n{fenced[2]}"  # the lines keep their numbers
    tree = _parse(code)
    main = None
    for node in _outside_functions(tree):
        match node:
            case ast.FunctionDef(name="main") | ast.AsyncFunctionDef(name="main"):
                main = node
            case _:
                pass
    if main is None:
        others = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        has = f"; it has {shorten(others)}" if others else ""
        raise CodeError(f"the snippet has no main{has}; define `def main(a, b):` that returns a dict{_hint(code)}")
    return _Snippet(
        code=with_given(code, tree),
        parameters=_parameters(main.args),
        by_position=tuple(argument.arg for argument in main.args.posonlyargs),
        awaited=isinstance(main, ast.AsyncFunctionDef),
        lacking=tuple(lacking(tree, (*MODULES, "__future__"))),
    )


def _parse(code: str) -> ast.Module:
    try:
        with _PARSING, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of others' code: escapes such as "\d", which do no harm
            return ast.parse(code)
    except SyntaxError as error:
        line = error.lineno or 0
        source = (code.split("\n")[line - 1 : line] or [""])[0]
        raise CodeError(
            f"SyntaxError at line {line}, column {error.offset or 0}, `{_shorten(source.strip(), _LONGEST_LINE)}`: "
            f"{error.msg}{_hint(source)}",
            line=line,
        ) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise CodeError(
            f"the snippet is no Python that can be read: {_shorten(describe(error), _LONGEST_LINE)}"
        ) from error


def _hint(source: str) -> str:
    """What models often mean by what is no Python."""
    if "{{#" in source:
        return "; a reference {{#…#}} is no Python: declare a variable, and let main take it"
    if "\\n" in source and "\n" not in source.strip():
        return "; write a line break where a line ends, not \\n"
    return ""


def _outside_functions(tree: ast.Module) -> Iterator[ast.AST]:
    """The statements that run when the snippet is loaded, also those inside an ``if`` or a ``try``."""
    waiting: list[ast.AST] = list(reversed(tree.body))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.expr):
            waiting.extend(reversed(list(ast.iter_child_nodes(node))))


def _parameters(arguments: ast.arguments) -> Parameters:
    plain = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    by_name = [argument.arg for argument in arguments.kwonlyargs]
    required = plain[: len(plain) - len(arguments.defaults)]
    required += [name for name, default in zip(by_name, arguments.kw_defaults, strict=True) if default is None]
    return Parameters((*plain, *by_name), tuple(required), arguments.kwarg is not None)


def _session(limits: CodeLimits) -> MontySession:
    """A fresh sandbox."""
    with _STARTING:
        pool, process = _pool()
    if process != os.getpid():
        raise OperadError(
            "a process forked from one that ran snippets cannot run any; start it with the method 'spawn', "
            "or fork before the first snippet"
        )
    return pool.checkout(
        limits={
            "max_feed_duration_secs": limits.seconds,
            "max_memory": limits.memory_bytes,
            "max_recursion_depth": _DEEPEST,
        },
        os_policy={"sleep": "zero"},
    )


@cache
def _pool() -> tuple[Monty, int]:
    """The sandboxes' processes, of which a few stay for the next snippet, and whose they are.

    They end with this process.
    """
    from pydantic_monty import Monty

    return Monty().__enter__(), os.getpid()
