"""Snippets of code of others: `def main(a, b)` that returns a dict; what can be seen of them, and running them.

Python runs in a sandbox (`operad.operators.sandbox.monty`). A snippet that imports a package which the user named in
`CodeLimits.packages` runs in a limited process instead (`operad.operators.sandbox.process`).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, cast

from operad.operators.sandbox import monty
from operad.operators.sandbox.process import Send, run_in_process, task_of
from operad.operators.sandbox.snippet import (
    LONGEST_LINE,
    MODULES,
    MOST_CODE,
    CodeError,
    CodeLimits,
    Parameters,
    Snippet,
    read,
    short,
)
from operad.runtime.values.errors import InputError, Issue

USUAL = CodeLimits()
"""The limits of a snippet where none are given."""

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
    """Parameters of the `main` of a snippet.

    Raises:
        CodeError: It is not valid Python, or has no `main`.
    """
    return read(code).parameters


def check_code(code: str, limits: CodeLimits = USUAL) -> list[Issue]:
    """Find what is wrong with a snippet without running it.

    Args:
        code: The snippet, perhaps between Markdown's fences.
        limits: Names the packages that it may import.

    Returns:
        Wrong syntax, a missing `main`, each module that is missing, and Python that the sandbox does not know.
    """
    try:
        snippet = read(code)
    except CodeError as error:
        return [Issue("code", str(error), _where(error.line))]
    if snippet.of_packages(limits.packages):
        return []
    issues = [
        Issue("import", f"import {name}: the sandbox lacks it; it has {monty.HAS}", _where(line))
        for name, line in snippet.lacking
    ]
    if unknown := monty.unsupported(snippet):
        issues.append(Issue("code", unknown[0], _where(unknown[1])))
    return issues


def run_code(code: str, arguments: Mapping[str, Any], limits: CodeLimits = USUAL) -> dict[str, Any]:
    """Run a snippet's `main` in the sandbox.

    It waits for the sandbox without holding the interpreter's lock, so that `asyncio.to_thread`
    keeps a loop free; a thread whose caller is gone ends when the snippet does, or at its
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
        InputError: The arguments have no JSON form, or are larger than the sandbox's memory.
    """
    snippet, text = _prepared(code, arguments)
    return dict_of(*monty.run(snippet, text, limits), limits)


async def call_code(
    code: str, arguments: Mapping[str, Any], limits: CodeLimits = USUAL, send: Send | None = None
) -> dict[str, Any]:
    """Run a snippet's `main`: in the sandbox, or in a limited process where it imports one of `limits.packages`.

    Args:
        code: The snippet, perhaps between Markdown's fences.
        arguments: What `main` gets, by name: values that JSON has, and tuples as lists.
        limits: How much it may use, and which packages.
        send: Sends requests of the package `requests` through the address guard; None refuses them.

    Returns:
        What `main` returned.

    Raises:
        CodeError: As `run_code` says.
        InputError: As `run_code` says.
        OperadError: The snippet imports a package, and this system cannot limit a process.
    """
    packages = read(code).of_packages(limits.packages)
    if not packages:
        return await asyncio.to_thread(run_code, code, arguments, limits)
    snippet, text = _prepared(code, arguments)
    said = await run_in_process(task_of(snippet, text, packages), limits, send)
    if "error" in said:
        raise failure(snippet.source, said)
    return dict_of(said.get("text"), str(said.get("kind")), limits)


def _prepared(code: str, arguments: Mapping[str, Any]) -> tuple[Snippet, str]:
    """The snippet, and its arguments as JSON."""
    snippet = read(code)
    if mismatches := snippet.parameters.mismatches(arguments):
        raise CodeError("; ".join(mismatches))
    return snippet, json_of(arguments)


def failure(code: str, said: Mapping[str, Any]) -> CodeError:
    """The error that a snippet failed with outside of the sandbox."""
    lines = code.split("\n")
    line = said.get("line")
    line = line if isinstance(line, int) and 0 < line <= len(lines) else 0
    text = short(str(said["error"]), 500)
    if said.get("returned"):
        text = f"main returned what JSON does not have: {text}"
    at = f" at line {line}, `{short(lines[line - 1].strip(), LONGEST_LINE)}`" if line else ""
    return CodeError(f"the snippet failed{at}: {text}", line=line)


def dict_of(text: str | None, kind: str, limits: CodeLimits) -> dict[str, Any]:
    """The dict that `main` returned, from what the sandbox said of it."""
    if text is None and kind:
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


def json_of(arguments: Mapping[str, Any]) -> str:
    """Arguments as JSON.

    Raises:
        InputError: They have no JSON form.
    """
    try:
        text = json.dumps(dict(arguments), allow_nan=False, ensure_ascii=False)
        text.encode()  # half a character, as broken files have it, gets no further
        return text
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"a snippet's arguments have to be JSON, and these are not: {error}") from error


def _a(kind: str) -> str:
    return "None" if kind == "NoneType" else f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def _where(line: int) -> str:
    return f"line {line}" if line else ""
