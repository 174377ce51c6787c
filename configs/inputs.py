"""Inputs of a workflow file, from options or asked for at the terminal."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress

from pydantic import JsonValue

from operad.flows import NodeGraph
from operad.operators import VariableType
from operad.operators.nodes.flow import StartParams, StartVariable, is_optional, read_inputs, read_value
from operad.runtime.values.errors import InputError
from operad.runtime.values.message import Job

T = VariableType
_EXAMPLES = {
    T.OBJECT: """'{"key":"value"}'""",
    T.ARRAY: "'[1,2]'",
    T.ARRAY_STRING: """'["a","b"]'""",
    T.ARRAY_NUMBER: "'[1,2]'",
    T.ARRAY_BOOLEAN: "'[true,false]'",
    T.ARRAY_OBJECT: """'[{"key":"value"}]'""",
}
"""Values of inputs that are JSON, as they are written at the command line."""

Say = Callable[[str], None]
NextLine = Callable[[], Awaitable[str | None]]


def expert_inputs(given: Iterable[tuple[str, str]]) -> dict[str, JsonValue]:
    """Return inputs of an expert, which declares no types: lists and objects in JSON as such, other values as text."""
    return {name: _json_or_text(value) for name, value in given}


def looks_like_json(text: str) -> bool:
    """Return True if a text begins as a list or an object in JSON."""
    return text.lstrip().startswith(("[", "{"))


def _json_or_text(text: str) -> JsonValue:
    if looks_like_json(text):
        with suppress(ValueError, RecursionError):
            return json.loads(text)
    return text


def start_params(graph: NodeGraph) -> StartParams:
    """Return the inputs of a valid workflow, with their defaults."""
    start = next(node for node in graph.nodes if node.type == "start" and not node.parent)
    return StartParams.model_validate(start.params)


def text_input(start: StartParams) -> str | None:
    """Return the name of the only input, or the only one without a default, if it is a text that a goal can fill."""
    inputs = [each for each in start.variables if each.name not in start.defaults] or start.variables
    return inputs[0].name if [kind for _, kind in inputs] == [T.STRING] else None


def job_of(
    graph: NodeGraph,
    job: Job,
    given: Iterable[tuple[str, str]],
    *,
    may_ask: bool,
    option: str = "--input",
    file: str = "",
) -> tuple[Job, list[StartVariable]]:
    """Return the job with the given inputs, and the variables that have no value yet.

    Args:
        graph: The workflow, which is valid.
        job: The job, with files that are not assigned to a variable.
        given: Names and values as typed; the name of a list of files may occur several times.
        may_ask: True if missing inputs can be asked for.
        option: The command's option for inputs.
        file: The file of the workflow, for errors; by default, its name.

    Raises:
        InputError: Inputs are invalid, or missing and cannot be asked for; all are named.
    """
    start = start_params(graph)
    variables = start.variables
    kinds = {variable.name: variable.type for variable in variables}
    faults: list[str] = []
    inputs: dict[str, JsonValue] = {}
    for name, value in given:
        files_so_far = inputs.get(name)
        if kinds.get(name) is T.ARRAY_FILE:
            inputs[name] = [*(files_so_far if isinstance(files_so_far, list) else []), *([value] if value else [])]
        elif name in inputs:
            faults.append(f"input {name!r} is given twice")
        else:
            inputs[name] = value
    missing = [
        each
        for each in _missing_variables(variables, inputs, len(job.files))
        if not is_optional(each.name, job, start.defaults)
    ]
    unasked = [] if may_ask else missing
    try:
        checked = _with_inputs(job, {**inputs, **dict.fromkeys((each.name for each in missing), None)})
        read_inputs(variables, checked, start.defaults)
    except InputError as error:
        faults.append(str(error).removeprefix("the workflow's inputs: "))
    faults += [_missing_message(unasked, option)] if unasked else []
    if faults:
        raise InputError(f"{file or graph.name}: " + "; ".join(faults))
    return _with_inputs(job, inputs), missing


async def ask_inputs(
    job: Job, missing: Sequence[StartVariable], next_line: NextLine, say: Say, prompt: Say, option: str = "--input"
) -> Job:
    """Ask for missing inputs at the terminal, and return the job with them; an empty line leaves an input out.

    Args:
        missing: The variables without a value.
        next_line: Function that returns the next line that is typed; None if the terminal was closed.
        say: Function that prints a line.
        prompt: Function that prints a prompt.
        option: The command's option for inputs.

    Raises:
        InputError: The terminal was closed.
    """
    inputs = dict(job.inputs)
    for number, variable in enumerate(missing):
        name, kind = variable
        files = kind is T.ARRAY_FILE
        values: list[JsonValue] = []
        say(f"{name} ({kind.value}; {'a path a line, then an empty line' if files else 'an empty line for none'})")
        while True:
            prompt("> ")
            line = await next_line()
            if line is None:
                say("")
                raise InputError(_missing_message(missing[number:], option))
            if not line.strip():
                break
            try:
                read_value(line.strip() if kind is not T.STRING else line, kind)
            except InputError as error:
                say(f"{error}; try again")
                continue
            values.append(line.strip() if kind is not T.STRING else line)
            if not files:
                break
        inputs[name] = (values if files else values[0]) if values else None
    return _with_inputs(job, inputs)


def _missing_variables(variables: Sequence[StartVariable], given: Iterable[str], files: int) -> list[StartVariable]:
    """Return the variables without a value, after files without a name are assigned to file variables in order."""
    missing: list[StartVariable] = []
    for variable in variables:
        if variable.name in given:
            continue
        if variable.type.is_file and files:
            files = 0 if variable.type is T.ARRAY_FILE else files - 1
        else:
            missing.append(variable)
    return missing


def _missing_message(missing: Sequence[StartVariable], option: str) -> str:
    named = ", ".join(f"{name!r} ({kind.value})" for name, kind in missing)
    options = " ".join(f"{option} {name}={_example(kind)}" for name, kind in missing)
    subject = "input is" if len(missing) == 1 else "inputs are"
    return f"{len(missing)} {subject} missing: {named}; write {options}, with nothing after the = for none"


def _example(kind: VariableType) -> str:
    """Return a value of an input as it is written at the command line."""
    if kind.is_file:
        return "PATH"
    return _EXAMPLES.get(kind, kind.value.upper())


def _with_inputs(job: Job, inputs: dict[str, JsonValue]) -> Job:
    return job.model_copy(update={"inputs": inputs})
