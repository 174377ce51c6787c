"""Execution of untrusted JavaScript snippets on QuickJS, in a limited process: `function main({a, b})`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from operad.operators.sandbox.code import USUAL, dict_of, failure, json_of
from operad.operators.sandbox.process import run_in_process
from operad.operators.sandbox.snippet import CodeError, CodeLimits, too_long
from operad.runtime.values.errors import Issue, MissingExtraError
from operad.runtime.values.pip import pip_install
from operad.runtime.values.text import whole

_MAIN = re.compile(r"\bfunction\s*\*?\s*main\b|\bmain\s*=")


def check_javascript(code: str) -> list[Issue]:
    """Return the issues of a snippet that can be found without running it: its size, and a missing `main`."""
    if problem := too_long(code):
        return [Issue("code", problem)]
    if whole(code) != code:
        return [Issue("code", "the snippet has half of a surrogate pair, which cannot be encoded; remove it")]
    if not _MAIN.search(code):
        return [Issue("code", "the snippet has no main; define `function main({a, b}) {…}` that returns an object")]
    return []


async def call_javascript(code: str, arguments: Mapping[str, Any], limits: CodeLimits = USUAL) -> dict[str, Any]:
    """Run the `main` of a snippet, which receives the arguments as one object; an async `main` is awaited.

    The engine is QuickJS (the extra `javascript`), without files, network, timers and modules, in a process of its
    own, which is killed at its limits.

    Args:
        arguments: Arguments of `main`: JSON values by name.

    Returns:
        The object that `main` returned.

    Raises:
        CodeError: The snippet failed, reached a limit, or did not return an object.
        InputError: The arguments are not JSON values.
        MissingExtraError: QuickJS is not installed.
        OperadError: This system cannot limit a process.
    """
    if issues := check_javascript(code):
        raise CodeError(issues[0].message)
    if find_spec("quickjs") is None:
        raise MissingExtraError(f"JavaScript in code nodes needs QuickJS: {pip_install('javascript')}")
    task = {"language": "javascript", "code": code, "arguments": json_of(arguments), "packages": ["quickjs"]}
    result = await run_in_process(task, limits)
    if "error" in result:
        raise failure(code, result)
    return dict_of(result.get("text"), str(result.get("kind")), limits)
