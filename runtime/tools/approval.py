"""Approval: a person is asked before a tool runs."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, cast

from pydantic import StrictBool, StrictStr

from operad.runtime.events import Scope, current_scope
from operad.runtime.events.interrupts import asked_before, interrupt
from operad.runtime.events.run_context import RunContext
from operad.runtime.tools.signature import is_context
from operad.runtime.values.arguments import short_repr
from operad.runtime.values.errors import InputError, InvalidError, ToolError, did_you_mean, shorten
from operad.runtime.values.json_schema import APPROVAL, Schema, check_schema
from operad.runtime.values.questions import approved_call

Approve = StrictBool | list[StrictStr] | Callable[..., bool | Awaitable[bool]]
"""True to ask a person before each call of a tool; the names of the people who may allow it; or a function that takes arguments of the call by name, and the
`RunContext` if a parameter is annotated with it, and returns True if a person is to be asked."""

ANSWERS = ("yes", "no", "always")
"""The answers in one word; ``always`` allows all calls of the tool in the rest of the run."""

REFUSAL = "no: "
"""Beginning of an answer that refuses a call and gives the reason."""


async def approve(
    tool: str,
    parameters: Schema,
    arguments: Mapping[str, Any],
    *,
    pin: str = "",
    note: str = "",
    answer_by: Sequence[str] = (),
) -> Mapping[str, Any]:
    """Ask a person to allow a call of a tool, and return the arguments of the call when the person does.

    Args:
        parameters: JSON Schema of the tool's arguments.
        arguments: Arguments of the call, which are shown to the person.
        pin: Hash of what a server says of the tool; an answer for another one does not apply.
        note: Text before the question.
        answer_by: Names of the people who may allow it; empty for anyone.

    Returns:
        The same arguments, or those that the person gives in their place.

    Raises:
        InputError: No run is in progress.
        ToolError: The person refuses.
    """
    scope = current_scope()
    if scope is None:
        raise InputError(
            f"tool {tool!r} asks a person before it runs, and no run is in progress here; call it in an operator"
        )
    allowed = scope.run.questions.allowed
    if (tool, pin) in allowed:
        return arguments
    if pin and not note and await _has_changed(scope, tool, pin):
        note = f"The description or the arguments of {tool} have changed since you were last asked."
    arguments_text = json.dumps(dict(arguments), ensure_ascii=False, default=str)
    before = f"{note}\n" if note else ""
    question = (
        f"{before}Allow the tool {tool} with {arguments_text}? "
        "Answer yes, no, no: REASON, always (for the rest of this run), or other arguments as an object."
    )
    form = _form(tool, parameters, json.loads(arguments_text), pin)
    answer = await interrupt(question, form, answer_by=answer_by)
    if isinstance(answer, dict):
        return cast("dict[str, Any]", answer)
    if answer == "always":
        allowed.add((tool, pin))
    elif answer != "yes":
        reason = answer.removeprefix("no").removeprefix(":").strip()
        raise ToolError(f"a person did not allow {tool} with {arguments_text}{': ' if reason else ''}{reason}")
    return arguments


async def _has_changed(scope: Scope, tool: str, pin: str) -> bool:
    """Return True if a tool was allowed in this run, or asked about before a restart, with another pin."""
    if any(name == tool and other != pin for name, other in scope.run.questions.allowed):
        return True
    forms: list[Schema] = [json.loads(form) for _, (_, form, _) in await asked_before(scope) if form]
    return any(approved_call(form)[0] == tool and form[APPROVAL].get("pin", pin) != pin for form in forms)


def _form(tool: str, parameters: Schema, arguments: Mapping[str, Any], pin: str) -> Schema:
    """Return the JSON Schema of the answers: a word, a refusal with a reason, or other arguments as an object."""
    shared = {key: parameters[key] for key in ("$defs", "definitions") if key in parameters}
    form: Schema = {
        **shared,  # references begin at the root of the schema
        "if": {"type": "object"},
        "then": {key: value for key, value in parameters.items() if key not in shared},
        "else": {"if": {"type": "string", "pattern": f"^{REFUSAL}"}, "else": {"enum": list(ANSWERS)}},
        APPROVAL: {"tool": tool, "arguments": arguments, **({"pin": pin} if pin else {})},
    }
    try:
        check_schema(form)
    except InvalidError:  # the schema of a server's tool may have other references; the call checks the arguments
        return {**form, "then": {}}
    return form


def check_condition(tool: str, condition: Approve, known: Collection[str]) -> None:
    """Check that the parameters of a condition for approval are arguments of the tool.

    Raises:
        ToolError: A parameter is none of them, or cannot be given by name.
    """
    if isinstance(condition, bool | list):
        return
    try:
        parameters = inspect.signature(condition).parameters.values()
    except (TypeError, ValueError) as error:
        raise ToolError(f"tool {tool!r}: approve: {short_repr(condition)} has no signature to read") from error
    for parameter in parameters:
        is_known = parameter.name in known or is_context(parameter.annotation)
        is_left_out = parameter.kind is parameter.VAR_KEYWORD or parameter.default is not parameter.empty
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL) or not (is_known or is_left_out):
            raise ToolError(
                f"tool {tool!r}: approve: parameter {str(parameter)!r} of the condition is not an argument of the tool"
                f"{did_you_mean(parameter.name, known)}; known: {shorten(list(known)) or 'none'}"
            )


def people(condition: Approve) -> Sequence[str]:
    """Return the names of the people who may allow a call; empty for anyone."""
    return cast("list[str]", condition) if isinstance(condition, list) else ()


async def is_needed(condition: Approve, arguments: Mapping[str, Any]) -> bool:
    """Return True if a call with these arguments needs the approval of a person."""
    if isinstance(condition, bool | list):
        return bool(cast("bool | list[str]", condition))
    given = dict(arguments)
    parameters = inspect.signature(condition).parameters
    if all(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters.values()):
        given = {name: value for name, value in arguments.items() if name in parameters}
    for parameter in parameters.values():
        is_required = parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
        if is_context(parameter.annotation):
            given[parameter.name] = RunContext.current(annotation=parameter.annotation)
        elif is_required and parameter.name not in given:
            return True  # the call leaves the argument out, and its value is unknown
    needed = condition(**given)
    return bool(await needed if inspect.isawaitable(needed) else needed)
