"""Nodes for control flow: start, end, answer, if-else."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, cast

from pydantic import Field, JsonValue

from operad.operators.conditions import Case, condition_fault
from operad.operators.node import ADVANCED, Fault, NodeCall, NodeError, NodeOperator, NodeParams, NodeResult, TypeOf
from operad.operators.variables import (
    Accepts,
    Selector,
    Text,
    Values,
    VariableType,
    as_text,
    fits,
    short_json,
    type_of,
)
from operad.runtime.values.cron import cron_fault, zone_fault
from operad.runtime.values.errors import InputError, OperadError, did_you_mean
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.message import Job
from operad.runtime.values.secret import is_secret_name
from operad.runtime.values.text import whole
from operad.runtime.values.valid_json import repeated_keys
from operad.runtime.values.webhooks import HOW_TO_NAME_IT, MAX_WAIT

T = VariableType


class StartVariable(NamedTuple):
    """An input of the workflow."""

    name: Annotated[str, Field(min_length=1, description="Its name.")]
    type: Annotated[VariableType, Field(description="Its type.")]


class WebhookInput(NamedTuple):
    """Place of an input in the request of a webhook."""

    name: Annotated[str, Field(min_length=1, description="The input.")]
    part: Annotated[Literal["header", "query", "body"], Field(description="The part of the request.")]
    field: Annotated[str, Field(description="Its name there; in a body of JSON, also a path such as order.items.0.id.")]


class Trigger(NamedTuple):
    """Start of the workflow by something other than a person."""

    kind: Annotated[
        Literal["webhook", "schedule", "event"],
        Field(
            description="A request to `operad serve`; a schedule of `operad serve`; or an event, which Operad does not receive."
        ),
    ]
    method: Annotated[
        Literal["get", "post", "put", "patch", "delete", "head"], Field(description="The method of the request.")
    ] = "get"
    content_type: Annotated[str, Field(description="The media type of its body.")] = "application/json"
    inputs: Annotated[list[WebhookInput], Field(description="The places of the inputs.")] = []
    status: Annotated[int, Field(ge=200, le=599, description="The status of the response.")] = 200
    response: Annotated[str, Field(description="The body of the response: JSON, or a message.")] = ""
    secret: Annotated[
        str,
        Field(description="Name of the secret with which senders sign requests, or that they send as a bearer token."),
    ] = ""
    wait: Annotated[
        float, Field(ge=0, le=MAX_WAIT, description="Seconds to wait for the result, which then is the response.")
    ] = 0
    cron: Annotated[str, Field(description="The times of a schedule, as a cron expression.")] = ""
    timezone: Annotated[str, Field(description="The time zone of a schedule.")] = "UTC"

    def faults(self) -> Iterator[tuple[str, str]]:
        """Yield the fields whose values cannot be used, each with the reason."""
        if self.kind == "schedule":
            if fault := cron_fault(self.cron) if self.cron else "is missing; write one, such as '0 7 * * mon-fri'":
                yield "cron", fault
            if fault := zone_fault(self.timezone):
                yield "timezone", fault
        elif self.cron:
            yield "cron", f"is of a schedule, and the kind is {self.kind}"
        if self.secret and not is_secret_name(self.secret):
            yield "secret", HOW_TO_NAME_IT  # the text may be the secret itself


WEBHOOK_RAW = "_webhook_raw"
"""Input with the whole request of a webhook."""


class StartParams(NodeParams):
    """Inputs of a workflow."""

    variables: list[StartVariable] = Field(
        description="The inputs; types are string, number, boolean, file, array[file]."
    )
    defaults: Annotated[dict[str, JsonValue], ADVANCED] = Field(
        default_factory=dict[str, JsonValue],
        description="Makes inputs optional: by name, the value where none is given; null for none.",
    )
    trigger: Annotated[Trigger | None, ADVANCED] = Field(
        default=None,
        description="What starts the workflow, other than a person: `operad serve` fires schedules and takes webhooks.",
    )


class Start(NodeOperator[StartParams]):
    """Begins the workflow: holds what the user gives."""

    type = "start"
    params_type = StartParams
    holds_inputs = True
    hint = "Input types: string, number, boolean, file, array[file]."
    gives = "each input, by its name"
    example = {"variables": [["paper", "file"], ["language", "string"]]}

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """Return the types of the inputs."""
        return {variable.name: variable.type for variable in self.params.variables}

    def faults(self, type_of: TypeOf) -> Iterator[Fault]:
        """Yield faults: duplicate names, and defaults of a wrong type or without an input."""
        kinds = {variable.name: variable.type for variable in self.params.variables}
        yield from duplicate_faults("variables", [variable.name for variable in self.params.variables])
        trigger = self.params.trigger
        for field, fault in trigger.faults() if trigger else ():
            yield Fault(f"trigger.{field}", fault)
        for name, _, _ in trigger.inputs if trigger else ():
            if name not in kinds:
                yield Fault("trigger.inputs", f"there is no input {name!r}{did_you_mean(name, kinds)}")
        for name in kinds if trigger and trigger.kind == "schedule" else ():
            if not is_optional(name, Job(""), self.params.defaults):
                yield Fault("variables", f"a schedule gives no value for {name!r}; give it one in `defaults`")
        for name, value in self.params.defaults.items():
            if name not in kinds:
                yield Fault("defaults", f"there is no input {name!r}{did_you_mean(name, kinds)}")
                continue
            try:
                _ = None if kinds[name].is_file else read_value(value, kinds[name])
            except InputError as error:
                yield Fault("defaults", f"{name!r}: {error}", "wrong-type")

    def check_job(self, job: Job) -> None:
        """Check the inputs and files of a job."""
        read_inputs(self.params.variables, job, self.params.defaults)

    async def compute(self, call: NodeCall) -> Values:
        """Return the values of the inputs, from the job's inputs and files."""
        return read_inputs(self.params.variables, call.job, self.params.defaults)


def duplicate_faults(where: str, names: Sequence[str]) -> Iterator[Fault]:
    """Yield a fault for each name that occurs more than once."""
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            yield Fault(where, f"{name!r} is there {names.count(name)} times")


def items_of(node: NodeOperator[Any], call: NodeCall, selector: Selector) -> Sequence[Any]:
    """Return the items of a variable with a list; none if it has no value.

    Raises:
        NodeError: The value is not a list.
    """
    value = call.get(selector)
    if isinstance(value, list | tuple | None):
        return cast("Sequence[Any]", value or ())
    problem = f"variable {str(selector)!r} is {type_of(value)}, and a list is needed: {short_json(value)}"
    raise NodeError(f"node {node.get_id()!r} ({node.type}): {problem}")


def _system_inputs(job: Job) -> dict[str, Any]:
    """Return the inputs that every job provides: ``sys.query`` and the other system variables of Dify; the earlier turns as a text."""
    return {
        **({"sys.query": job.goal} if job.goal else {}),
        "sys.files": [],
        "sys.conversation_id": job.session_id,
        "sys.dialogue_count": 1 + sum(turn.role == "user" for turn in job.turns),  # counts from 1, as in Dify 1.x
        "sys.user_id": "",
        "sys.app_id": "",
        "sys.workflow_id": "",
        "sys.workflow_run_id": job.id,
        "sys.timestamp": int(time.time()),
        "sys.time": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "sys.history": "\n".join(
            f"{'Human' if each.role == 'user' else 'Assistant'}: {each.text}" for each in job.turns
        ),
    }


SYSTEM = ("sys.query", *_system_inputs(Job("")))
"""Inputs that may be given to any workflow; otherwise, the job provides them."""


def is_optional(name: str, job: Job, defaults: Mapping[str, JsonValue]) -> bool:
    """Return True if an input is optional: it has a default, or the job provides it."""
    return name in defaults or name in _system_inputs(job)


def read_inputs(
    variables: Sequence[StartVariable], job: Job, defaults: Mapping[str, JsonValue] | None = None
) -> dict[str, Any]:
    """Return the values of a workflow's inputs: the job's inputs by name, and its files in order of the file inputs.

    The value of an input is None if it is given as null, or as an empty text for another type than text.

    Args:
        variables: The inputs.
        job: The job.
        defaults: Default values, by name of the input.

    Raises:
        InputError: Inputs are missing, unknown, or of a wrong type; the message names all of them.
    """
    names = [variable.name for variable in variables]
    faults = [
        f"there is no input {name!r}{did_you_mean(name, names)}; there are: {', '.join(names) or 'none'}"
        for name in job.inputs
        if name not in names and name not in SYSTEM
    ]
    files = list(job.files)
    known = _system_inputs(job) if any(name.startswith("sys.") for name in names) else {}
    values: dict[str, Any] = {}
    for name, kind in variables:
        try:
            if name in job.inputs:
                values[name] = read_value(job.inputs[name], kind)
            elif kind is T.ARRAY_FILE and files:
                values[name], files = files, []
            elif kind is T.FILE and files:
                values[name] = files.pop(0)
            elif name in known:
                values[name] = known[name]
            elif defaults and name in defaults:
                values[name] = read_value(defaults[name], kind)
            else:
                faults.append(f"input {name!r} ({kind.value}) is missing; give it, or null for none")
        except InputError as error:
            faults.append(f"input {name!r}: {error}")
    if files:
        faults.append(f"no input takes the file {files[0].name}; inputs are: {', '.join(names) or 'none'}")
    if faults:
        raise InputError("the workflow's inputs: " + "; ".join(faults))
    return values


def read_value(given: JsonValue, kind: VariableType) -> Any:
    """Return the value of an input of some type, which may be written as text; a file is given by its path.

    Raises:
        InputError: The value is not of that type, or is JSON with a duplicate key.
    """
    if given is None or (given == "" and kind is not T.STRING):
        return None
    if kind is T.FILE:
        return _file(given)
    if kind is T.ARRAY_FILE:
        return [_file(path) for path in (given if isinstance(given, list) else [given])]
    value: Any = given
    why = ""
    if kind is T.STRING:
        value = whole(as_text(given))
    elif kind is T.BOOLEAN and isinstance(given, str):
        value = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}.get(
            given.lower(), given
        )
    elif isinstance(given, str):
        is_text = kind is T.ARRAY_STRING and not given.lstrip().startswith("[")  # not a list with a missing bracket
        value = _json_or(given, [whole(given)] if is_text else given)
        why = ", which is not JSON" if value is given and given.lstrip()[:1] in ("[", "{") else ""
    if not fits(value, kind):
        raise InputError(f"expected {kind.value}, got {short_json(given)}{why or _unfit_item(value, kind)}")
    return value


def _unfit_item(value: Any, kind: VariableType) -> str:
    """Return the first item of a list that has not the type of the list's items, as the end of a message."""
    if kind.item is None or not isinstance(value, list):
        return ""
    items = enumerate(cast("list[Any]", value))
    return next((f"; its item [{i}] is of type {type_of(each)}" for i, each in items if not fits(each, kind.item)), "")


def _json_or(text: str, otherwise: Any) -> Any:
    """Return the value of a JSON text, or `otherwise` if the text is not JSON."""
    try:
        value = whole(json.loads(text))
    except (ValueError, RecursionError):
        return otherwise
    if repeated := next(repeated_keys(text), None):
        key, line, column = repeated
        raise InputError(f"the key {key[:80]!r} stands twice in one object (line {line}, column {column})")
    return value


def _file(value: JsonValue) -> FileDescriptor:
    if isinstance(value, Mapping) and isinstance(path := value.get("path"), str):
        return FileDescriptor.of(Path(path))
    if not isinstance(value, str):
        raise InputError(f"{short_json(value)} is not the path of a file")
    return FileDescriptor.of(Path(value))


class Output(NamedTuple):
    """A result of the workflow."""

    name: Annotated[str, Field(min_length=1, description="Its name.")]
    value: Annotated[Selector, Field(description="The variable that it is.")]


class EndParams(NodeParams):
    """Outputs of a workflow."""

    outputs: list[Output] = Field(description="The results.")


class End(NodeOperator[EndParams]):
    """Ends the workflow, or one branch of it: names the results."""

    type = "end"
    params_type = EndParams
    hint = ""
    gives = "nothing to other nodes; its outputs are results of the workflow"
    example = {"outputs": [["summary", ["text", "3"]]]}
    ends = True

    def faults(self, type_of: TypeOf) -> Iterator[Fault]:
        """Yield faults: duplicate names."""
        yield from duplicate_faults("outputs", [output.name for output in self.params.outputs])

    async def compute(self, call: NodeCall) -> Values:
        """Return the results, by name."""
        return {output.name: call.get(output.value) for output in self.params.outputs}


class AnswerParams(NodeParams):
    """Answer to the user."""

    answer: Annotated[Text, Accepts(tuple(T))] = Field(
        description="The answer; variables as {{#id.variable#}}, a file as a Markdown link."
    )


class Answer(NodeOperator[AnswerParams]):
    """Shows a text to the user, as a result of the workflow.

    Several answers, inside iterations and loops too, are one result, one after another.
    """

    type = "answer"
    params_type = AnswerParams
    gives = "answer (string), which is a result of the workflow, too"
    example = {"answer": "Here you are: {{#3.text#}}"}
    ends = True
    answers = True

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """Return the type of the answer."""
        return {"answer": T.STRING}

    async def compute(self, call: NodeCall) -> NodeResult:
        """Return the text with the values of its variables."""
        text = call.variables.text(self.params.answer, answer=True)
        return NodeResult({"answer": text}, text=text)


ELSE = "else"


class IfElseParams(NodeParams):
    """Choice of a port."""

    cases: list[Case] = Field(
        min_length=1,
        description="The cases in order.",
    )


class IfElse(NodeOperator[IfElseParams]):
    """Follows the branch of the first case whose conditions hold, otherwise the else branch."""

    type = "if-else"
    params_type = IfElseParams
    ports_text = "port i is case i, counted from 0; the one after the last is ELSE"
    example = {"cases": [[None, [[["language", "1"], "is", "French"]]]]}

    @property
    def ports(self) -> Sequence[str]:
        """Numbers of the cases, and ``else``."""
        return [*map(str, range(len(self.params.cases))), ELSE]

    def faults(self, type_of: TypeOf) -> Iterator[Fault]:
        """Yield faults: comparisons that the types of the variables do not support."""
        for number, case in enumerate(self.params.cases):
            for place, condition in enumerate(case.conditions):
                if fault := condition_fault(condition, type_of(condition.variable)):
                    yield Fault(f"cases[{number}][1][{place}]", fault)

    async def compute(self, call: NodeCall) -> NodeResult:
        """Take the port of the first case that holds."""
        for number, case in enumerate(self.params.cases):
            try:
                if case.holds(call.variables):
                    return NodeResult({}, port=str(number), text=f"case {number}")
            except OperadError as error:
                raise type(error)(f"case {number}: {error}") from error
        return NodeResult({}, port=ELSE, text=ELSE)
