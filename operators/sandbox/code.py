"""Execution of untrusted Python snippets: `def main(a, b)` that returns a dict.

Python runs in a sandbox (`operad.operators.sandbox.monty`). A snippet that imports one of `CodeLimits.packages` runs in
a limited process instead (`operad.operators.sandbox.process`).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, cast

from operad.operators.sandbox import monty
from operad.operators.sandbox.modules import lines_of
from operad.operators.sandbox.process import Send, run_in_process, task_of
from operad.operators.sandbox.snippet import (
    MODULES,
    MOST_CODE,
    CodeError,
    CodeLimits,
    Parameters,
    Snippet,
    failed,
    lacks,
    read,
    short,
)
from operad.runtime.values.answer_json import without_half_escapes
from operad.runtime.values.errors import InputError, Issue
from operad.runtime.values.text import whole

USUAL = CodeLimits()
"""Default limits of a snippet."""

__all__ = [
    "MODULES",
    "MOST_CODE",
    "USUAL",
    "CodeError",
    "CodeLimits",
    "Parameters",
    "call_code",
    "check_code",
    "parameters_of",
    "run_code",
]


def parameters_of(code: str) -> Parameters:
    """Return the parameters of the function `main` of a snippet.

    Raises:
        CodeError: The snippet is not valid Python, or has no `main`.
    """
    return read(code).parameters


def check_code(code: str, limits: CodeLimits = USUAL) -> list[Issue]:
    """Return the issues of a snippet that can be found without running it.

    Args:
        code: The snippet, which may be in a Markdown fence.
        limits: Limits with the packages that the snippet may import.

    Returns:
        Issues for a syntax error, a missing `main`, modules that the sandbox lacks, unsupported Python, and names that a
        module of the sandbox lacks, if they are not inside another statement, such as `if` or `try`.
    """
    try:
        snippet = read(code)
    except CodeError as error:
        return [Issue("code", str(error), _location(error.line))]
    if snippet.of_packages(limits.packages):
        return []
    lacking = [*((f"import {name}", line) for name, line in snippet.lacking), *monty.failing_imports(snippet)]
    issues = [
        Issue("import", f"{what}: {lacks(what)}", _location(line))
        for what, line in sorted(dict.fromkeys(lacking), key=lambda each: each[1])
    ]
    if unknown := monty.unsupported(snippet):
        issues.append(Issue("code", unknown[0], _location(unknown[1])))
    return issues


def run_code(code: str, arguments: Mapping[str, Any], limits: CodeLimits = USUAL) -> dict[str, Any]:
    """Run the `main` of a snippet in the sandbox.

    The call releases the GIL while it waits, so that an event loop is not blocked if the call is made by
    `asyncio.to_thread`. A thread whose caller was cancelled ends with the snippet, or at its time limit. At most as
    many snippets run concurrently as there are processors; others wait.

    Args:
        code: The snippet, which may be in a Markdown fence.
        arguments: Arguments of `main`, by name: JSON values; tuples become lists.

    Returns:
        The return value of `main`.

    Raises:
        CodeError: The snippet cannot be run, takes other arguments, failed, reached a limit, or did not return a dict
            of JSON values.
        InputError: The arguments have no JSON form, or do not fit into the sandbox's memory.
    """
    snippet, text = _prepare(code, arguments)
    return dict_of(*monty.run(snippet, text, limits), limits)


async def call_code(
    code: str, arguments: Mapping[str, Any], limits: CodeLimits = USUAL, send: Send | None = None
) -> dict[str, Any]:
    """Run the `main` of a snippet: in the sandbox, or in a limited process if it imports one of `limits.packages`.

    Args:
        code: The snippet, which may be in a Markdown fence.
        arguments: Arguments of `main`, by name: JSON values; tuples become lists.
        limits: Limits of the snippet, and the packages that it may import.
        send: Function that sends the requests of the snippet through the guard; None refuses them.

    Returns:
        The return value of `main`.

    Raises:
        CodeError: As for `run_code`.
        InputError: As for `run_code`.
        OperadError: The snippet imports a package, and this system cannot limit a process.
    """
    packages = read(code).of_packages(limits.packages)
    if not packages:
        return await asyncio.to_thread(run_code, code, arguments, limits)
    snippet, text = _prepare(code, arguments)
    result = await run_in_process(task_of(snippet, text, packages), limits, send)
    if "error" in result:
        raise failure(snippet.source, result)
    return dict_of(result.get("text"), str(result.get("kind")), limits)


def _prepare(code: str, arguments: Mapping[str, Any]) -> tuple[Snippet, str]:
    """Return the parsed snippet, and its arguments as JSON, after checking that they fit."""
    snippet = read(code)
    if mismatches := snippet.parameters.mismatches(arguments):
        raise CodeError("; ".join(mismatches))
    return snippet, json_of(arguments)


def failure(code: str, result: Mapping[str, Any]) -> CodeError:
    """Return the error for a snippet that failed in a limited process, from the result of the process."""
    line = result.get("line")
    line = line if type(line) is int and 0 < line <= len(lines_of(code)) else 0
    text = whole(short(str(result["error"]), 500))
    return failed(
        code, line, f"main returned a value that JSON cannot represent: {text}" if result.get("returned") else text
    )


def dict_of(text: str | None, kind: str, limits: CodeLimits) -> dict[str, Any]:
    """Return the dict that `main` returned, from its JSON text and the type that the sandbox reports."""
    if text is None and kind:
        raise CodeError(f'main returned {_with_article(kind)}, not a dict; return one, such as {{"result": …}}')
    if not isinstance(text, str):
        raise CodeError("the snippet prevented the sandbox from reading the result of main")
    if len(text) > limits.output_chars:
        raise CodeError(
            f"main returned {len(text):,} characters of JSON, more than the {limits.output_chars:,} "
            "of the limit output_chars; return less"
        )
    try:
        value = json.loads(without_half_escapes(text))
    except (ValueError, RecursionError) as error:
        raise CodeError(f"main returned a dict that cannot be read, perhaps nested too deeply: {error}") from error
    if not isinstance(value, dict):
        raise CodeError("the snippet prevented the sandbox from reading the result of main")
    return cast("dict[str, Any]", value)


def json_of(arguments: Mapping[str, Any]) -> str:
    """Return arguments as JSON text.

    Raises:
        InputError: The arguments have no JSON form.
    """
    try:
        text = json.dumps(dict(arguments), allow_nan=False, ensure_ascii=False)
        text.encode()  # raises for lone surrogates
        return text
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"a snippet's arguments have to be JSON, and these are not: {error}") from error


def _with_article(kind: str) -> str:
    if kind in ("NoneType", "null", "undefined"):
        return kind.removesuffix("Type")
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def _location(line: int) -> str:
    return f"line {line}" if line else ""
