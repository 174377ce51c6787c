"""Sandbox for Python snippets: the interpreter `pydantic-monty`, in a separate process.

The sandbox has no files, network, environment variables and third-party packages. Only texts go in and out: code, JSON,
and messages about wrong syntax, so that no object is shared with a snippet. Output of `print` is discarded, `sleep`
returns at once, and the clock is in UTC.
"""

from __future__ import annotations

import os
import re
import threading
from functools import cache
from html.entities import html5
from typing import TYPE_CHECKING, NoReturn, cast

from operad.operators.sandbox.modules import GIVEN, NAMES, REPLACED, given_source, lines_of
from operad.operators.sandbox.snippet import (
    DEEPEST,
    CodeError,
    CodeLimits,
    Snippet,
    failed,
    lacks,
    short,
    syntax_error,
    too_long,
)
from operad.runtime.values.errors import InputError, OperadError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from pydantic_monty import Frame, Monty, MontyError, MontySession, ResourceLimits

_LONGEST_TEXT = 500

_MOST_CHECKS = 20
"""Maximum number of syntax checks of a snippet; after that, it gets no messages of CPython."""

_MOST_IMPORTS = 200
"""Maximum number of imported names of a snippet that are checked before it runs."""

_UNSUPPORTED_FORMAT = re.compile(
    r"ValueError: Unknown format code '.' for object of type '(dict|list|tuple|set|bytes|NoneType)'"
)
_NON_TEXT_KEY = re.compile(r"KeyError|-?[\d.]+|None|True|False|[(\[].*", re.DOTALL)
"""Messages of KeyError whose key is probably not a text: the sandbox prints texts without quotes."""

_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '([^']+)'")

_pool_lock = threading.Lock()


def unsupported(snippet: Snippet) -> tuple[str, int] | None:
    """Return the message and line of the first unsupported feature of Python in a snippet; None if there is none."""
    from pydantic_monty import MontyError, MontySyntaxError

    with _session(CodeLimits()) as session:
        try:
            session.feed_run("raise KeyboardInterrupt\n" + snippet.code)  # everything is parsed, but nothing runs
        except MontyError as error:
            if isinstance(error, MontySyntaxError) or _error_type(error) == "NotImplementedError":
                lines = [frame.line - 1 for frame in _frames(error)]
                return _message(error), lines[-1] if lines else 0
    return None


def failing_imports(snippet: Snippet) -> list[tuple[str, int]]:
    """Return those of the first `_MOST_IMPORTS` names of modules that the sandbox lacks, each with its line.

    The names are those of certain imports, ``from a import b``, and attributes of modules, ``a.b``.
    """
    from pydantic_monty import MontyError

    used = [each for each in snippet.used_names if each[0] not in GIVEN and each[:2] not in REPLACED]
    imports = [
        *((statement, statement, line) for statement, line in snippet.certain_imports),
        *((f"{module}.{name}", f"from {module} import {name}", line) for module, name, line in used),
    ][:_MOST_IMPORTS]
    missing = [
        (f"{module}.{name}", line)
        for module, name, line in snippet.used_names
        if module in GIVEN and name not in GIVEN[module] and f"{module}.{name}" not in GIVEN
    ]
    if not imports:
        return missing
    code = "".join(
        f"try:\n    {statement} as _imported\nexcept Exception:\n    _failing.append({number})\n"
        for number, (_, statement, _) in enumerate(imports)
    )
    with _session(CodeLimits()) as session:
        try:
            failing = cast("list[int]", session.feed_run(f"_failing = []\n{code}_failing"))
        except MontyError:  # unsupported Python
            return []
    return [*missing, *((imports[number][0], imports[number][2]) for number in failing)]


def run(snippet: Snippet, arguments: str, limits: CodeLimits) -> tuple[str | None, str]:
    """Run a snippet in the sandbox.

    Args:
        arguments: Arguments of `main`, by name, as JSON.

    Returns:
        The return value of `main` as JSON, or None if it is not a dict; and the name of its type.

    Raises:
        CodeError: The snippet failed, or reached a limit.
        InputError: The arguments do not fit into the sandbox's memory.
    """
    from pydantic_monty import MontyError

    with _session(limits) as session:
        try:
            session.feed_run(_READ_ARGUMENTS, inputs={"_text": arguments, "_names": list(snippet.by_position)})
        except MontyError as error:
            raise InputError(
                f"the arguments, {len(arguments):,} characters of JSON, do not fit into a sandbox of "
                f"{limits.memory_bytes:,} bytes ({_message(error)}); give less, or raise memory_bytes"
            ) from error
        if NAMES in snippet.code:
            session.feed_run(given_source(), inputs={"_entities": html5})
        call = _CALL.format("await " if snippet.awaited else "")
        try:
            returned = session.feed_run(
                f"{snippet.code}\n{call}", print_callback=_discard, external_lookup={"_syntax_error": _SyntaxChecks()}
            )
        except MontyError as error:
            _raise_code_error(error, snippet.source, limits)
    text, kind = cast("list[object]", returned) if isinstance(returned, list) else (None, None)
    if not isinstance(kind, str) or not isinstance(text, str | None):
        return None, ""
    return text, kind


async def run_with(
    code: str,
    functions: Mapping[str, Callable[..., Awaitable[object]]],
    printed: Callable[[str], None],
    limits: CodeLimits | None = None,
) -> object:
    """Run code that calls functions of this process, in a sandbox of its own, and return the value of its last expression.

    Args:
        code: The code, in which top-level ``await`` is allowed.
        functions: Functions by name; the time in which they run does not count.
        printed: Function that receives what the code prints.

    Raises:
        CodeError: The code failed, or reached a limit.
    """
    from pydantic_monty import AsyncMonty, MontyError

    limits = limits or CodeLimits()
    if too_much := too_long(code):
        raise CodeError(too_much)
    async with (
        AsyncMonty(max_processes=1) as pool,
        pool.checkout(limits=_resources(limits), os_policy={"sleep": "zero"}) as session,
    ):
        try:
            return await session.feed_run(
                code, external_lookup=dict(functions), print_callback=lambda _, text: printed(text)
            )
        except MontyError as error:
            _raise_code_error(error, code, limits)


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


def _raise_code_error(error: MontyError, code: str, limits: CodeLimits) -> NoReturn:
    """Raise the CodeError for an error of the sandbox, with its line in the snippet."""
    from pydantic_monty import MontyCrashedError

    frames = _frames(error)  # includes frames of code run by `exec`, and of the modules in `GIVEN`
    numbers = [frame.line for frame in frames if frame.filename == frames[0].filename]
    most = len(lines_of(code))
    lines_inside = [number for number in numbers if number <= most]
    line = lines_inside[-1] if lines_inside else 0
    text = _message(error)
    if isinstance(error, MontyCrashedError):
        text = (
            f"it ran longer than {limits.seconds:g} s, the limit seconds; let it do less"
            if error.timed_out
            else f"it crashed the sandbox, without harm to anything else: {text}"
        )
    elif text.startswith("TimeoutError: feed time limit exceeded"):
        text = f"TimeoutError: it ran longer than {limits.seconds:g} s, the limit seconds; let it do less"
    elif text.startswith(("MemoryError: memory limit", "MemoryError: the worker exceeded")):
        text = (
            f"MemoryError: it wanted more than {limits.memory_bytes:,} bytes, the limit memory_bytes; let it hold less"
        )
    elif text.startswith("RecursionError: maximum recursion"):
        text = f"RecursionError: calls or values are nested deeper than {DEEPEST:,}, the limit of the sandbox"
    elif numbers and not lines_inside:
        text = f"main returned a value that JSON cannot represent: {text}"
    elif missing := _NO_MODULE.search(text):
        text = f"{text}: {lacks(missing[1])}"
    raise failed(code, line, text) from error


def _message(error: MontyError) -> str:
    """Return type and message of an error, as CPython would write them, cut to `_LONGEST_TEXT` characters."""
    text = str(error)
    kind = _error_type(error)
    if kind == "JSONDecodeError":
        text = text.removeprefix("json.")
    elif kind == "KeyError" and not _NON_TEXT_KEY.fullmatch(key := text.removeprefix("KeyError: ")):
        text = f"KeyError: {key!r}"  # CPython quotes texts
    if format_error := _UNSUPPORTED_FORMAT.fullmatch(text):
        text = f"TypeError: unsupported format string passed to {format_error[1]}.__format__"
    if kind == "NotImplementedError":
        text = text.replace("The monty syntax parser does not yet support", "the sandbox does not support")
    elif kind == "SyntaxError":
        text = f"SyntaxError: {text}"
    return short(text, _LONGEST_TEXT)


def _error_type(error: MontyError) -> str:
    return type(error.exception()).__name__


def _frames(error: MontyError) -> list[Frame]:
    from pydantic_monty import MontyRuntimeError, MontySyntaxError

    return error.traceback() if isinstance(error, MontyRuntimeError | MontySyntaxError) else []


class _SyntaxChecks:
    """Function for snippets that returns CPython's message for code with wrong syntax, at most `_MOST_CHECKS` times."""

    def __init__(self) -> None:
        self._checks_left = _MOST_CHECKS

    def __call__(self, source: object, filename: object, mode: object) -> str:
        self._checks_left -= 1
        if self._checks_left < 0 or not (
            isinstance(source, str) and isinstance(filename, str) and mode in ("exec", "eval")
        ):
            return ""
        return syntax_error(source, filename, mode)


def _discard(stream: str, text: str) -> None:
    """Discard the output of a snippet."""


def _session(limits: CodeLimits) -> MontySession:
    """Return a new sandbox with these limits."""
    with _pool_lock:
        pool, process = _pool()
    if process != os.getpid():
        raise OperadError(
            "a process forked from one that ran snippets cannot run any; start it with the method 'spawn', "
            "or fork before the first snippet"
        )
    return pool.checkout(
        limits=_resources(limits),
        os_policy={"sleep": "zero"},
    )


def _resources(limits: CodeLimits) -> ResourceLimits:
    return {
        "max_feed_duration_secs": limits.seconds,
        "max_memory": limits.memory_bytes,
        "max_recursion_depth": DEEPEST,
    }


@cache
def _pool() -> tuple[Monty, int]:
    """Return the pool of sandbox processes, which are reused and end with this process, and the id of this process."""
    from pydantic_monty import Monty

    return Monty().__enter__(), os.getpid()
