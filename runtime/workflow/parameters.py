"""Parameters of functions as operators, and their binding to the answers of predecessors, or to the item of a map."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, is_dataclass
from types import UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel, RootModel
from typing_extensions import is_typeddict

from operad.runtime.events import Scope
from operad.runtime.events.run_context import RunContext
from operad.runtime.reasoning.reasoner import Reasoner
from operad.runtime.values.errors import FaultError, InputError, did_you_mean, shorten
from operad.runtime.values.ids import as_name
from operad.runtime.values.message import Job, WorkflowMessage
from operad.runtime.values.output import Output, field_names
from operad.runtime.values.output import name as name_of_type
from operad.runtime.values.round_trip import message_of

Special = Literal["job", "reasoner", "context"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """Parameter of a function that is used as an operator.

    Attributes:
        special: The kind of value that the annotation asks for (job, reasoner or run context); None for the answer of
            an operator.
        output: The type as which an answer is validated.
        optional: True if the parameter accepts None.
        default: The default; `inspect.Parameter.empty` without one.
        is_rest: True for ``**others``, which takes all answers that no other parameter takes.
    """

    name: str
    special: Special | None
    output: Output[Any]
    optional: bool
    default: Any
    is_rest: bool

    @classmethod
    def of(cls, parameter: inspect.Parameter, annotation: Any) -> Parameter:
        """Return a parameter with its resolved annotation.

        Raises:
            InputError: Answers cannot be validated as the annotated type, or ``**others`` is annotated as a special value.
        """
        special = _special_of(annotation)
        optional = type(None) in get_args(_bare(annotation)) if _is_union(annotation) else annotation is type(None)
        if annotation is BaseModel:
            raise InputError(f"parameter {parameter.name!r}: expected a subclass of BaseModel, got BaseModel itself")
        kind = None if special or annotation in (Any, WorkflowMessage) else annotation
        try:
            output: Output[Any] = Output(kind, "")
        except InputError as error:
            raise InputError(f"parameter {parameter.name!r}: {error}") from error
        if annotation is WorkflowMessage:
            output.type = WorkflowMessage
        is_rest = parameter.kind is parameter.VAR_KEYWORD
        if is_rest and special:
            raise InputError(
                f"parameter '**{parameter.name}' takes answers; take the {special} with a parameter of its own"
            )
        return cls(parameter.name, special, output, optional, parameter.default, is_rest)

    @property
    def required(self) -> bool:
        """True if an answer is required."""
        return self.default is inspect.Parameter.empty and not self.optional

    @property
    def may_be_job(self) -> bool:
        """True if the parameter is called ``job`` and has no annotation, as in ``lambda job: job.goal``."""
        return self.name == "job" and self.output.type is None and self.default is inspect.Parameter.empty

    @property
    def takes_fields(self) -> bool:
        """True if values are objects with named fields: pydantic models, dataclasses or typed dicts."""
        kind: Any = self.output.type
        fields = getattr(kind, "model_fields", {"root": None})  # the only field of a `RootModel`
        return is_dataclass(kind) or is_typeddict(kind) or "root" not in fields

    def hint(self, given: Any) -> str:
        """Return advice on the job of a parameter that takes fields, and was given a text; otherwise an empty text."""
        if not isinstance(given, str) or not self.takes_fields:
            return ""
        fields = ", ".join(f"{field!r}: …" for field in get_type_hints(self.output.type))
        return f"; write run({name_of_type(self.output.type)}(…)) or run({{{fields}}})"

    def misfit(self, source: str, given: Any) -> str:
        """Return an error text if no answer of a type can be a value of the parameter, otherwise an empty text.

        Args:
            source: The id of the operator to which the parameter is bound.
            given: The type of the operator's answers.
        """
        wants_number = any(self.output.type is number for number in (int, float, bool))
        is_model = isinstance(given, type) and issubclass(given, BaseModel) and not issubclass(given, RootModel)
        if not (wants_number and is_model) or _can_be_plain(cast("type[BaseModel]", given)):
            return ""
        wanted, gets = name_of_type(self.output.type), name_of_type(given)
        return (
            f"parameter {self.name!r} is annotated as {wanted}, and the answers of operator {source!r} are {gets}; "
            f"annotate it as {gets}"
        )

    def value(self, message: WorkflowMessage | None) -> Any:
        """Return the answer in a message; None if there is no message and the parameter is not required.

        Raises:
            InputError: The parameter is required, and there is no message.
            FaultError: The answer does not fit the annotation; the message's operator is blamed.
        """
        if message is None:
            if self.required:
                raise InputError(
                    f"parameter {self.name!r} has no value: that operator did not run; "
                    f"if it may be skipped, annotate the parameter as optional: {self.name}: … | None"
                )
            return None
        if self.output.type is WorkflowMessage:
            return message.own()
        if self.output.is_text and not message.outputs:
            return message.scratchpad
        try:
            return self.output.read(message)
        except ValueError as error:
            kind = name_of_type(self.output.type)
            raise FaultError(
                f"the answer of {message.operator_id!r} is not a valid {kind} for parameter {self.name!r}: {error}",
                lesson=f"Answer in the form of {kind}: {error}",
                blame=[message.operator_id],
            ) from error


def without_partial(function: Any) -> Any:
    """Return the function that a `functools.partial` binds, or the function itself."""
    while isinstance(function, functools.partial):
        function = cast("functools.partial[Any]", function).func
    return function


def parameters_of(function: Callable[..., Any], who: str) -> Sequence[inspect.Parameter]:
    """Return the parameters of a function, without those that a `functools.partial` binds.

    Args:
        who: The operator's id, for errors.

    Raises:
        InputError: The function has no signature, or a parameter that cannot be bound by name.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise InputError(f"operator {who!r} has no signature to read; wrap it in a function of your own") from error
    bound: Iterable[str] = function.keywords if isinstance(function, functools.partial) else ()
    if parameters and parameters[0].name == "self":
        raise InputError(
            f"operator {who!r}: parameter 'self' has no value; use the method of an object, undecorated: clerk.{who}"
        )
    for parameter in parameters:
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            raise InputError(
                f"operator {who!r}: parameter {str(parameter)!r} is {parameter.kind.description}; parameters are bound by "
                "name; wrap it in a function of your own, whose `**answers` are all answers by id"
            )
    return [parameter for parameter in parameters if parameter.name not in bound]


def misfits(parameters: Sequence[Parameter], bound: Mapping[str, str], types: Mapping[str, Any]) -> list[str]:
    """Return the error texts of parameters whose operators' answers can never be their values.

    Args:
        types: The types of the operators' answers, by id; None if unknown.
    """
    pairs = [(each, bound[each.name]) for each in parameters if each.name in bound]
    others = [each for each in parameters if each.is_rest]
    pairs += [(each, source) for each in others for source in types if source not in bound.values()]
    special = {each.name for each in parameters if each.special}
    clashes = [same_name(source, parameter) for parameter, source in pairs if parameter.is_rest and source in special]
    return [text for parameter, source in pairs if (text := parameter.misfit(source, types[source]))] + clashes


def same_name(parameter: str, others: Parameter) -> str:
    """Return the error text of a parameter with the name of an answer or input that goes to ``**others``."""
    return f"parameter {parameter!r} has the name of an answer or input for '**{others.name}'; rename the parameter"


def _can_be_plain(model: type[BaseModel]) -> bool:
    """Return True if an object of the model may be read as a plain value, such as the value of a field ``output``."""
    fields = model.model_fields.values()
    written = {*model.model_fields, *(field.serialization_alias or field.alias for field in fields)}
    decorators = model.__pydantic_decorators__
    return "output" in written or bool(decorators.model_serializers) or model.model_config.get("extra") == "allow"


def _bare(annotation: Any) -> Any:
    """Return an annotation without `Annotated`."""
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _is_union(annotation: Any) -> bool:
    return get_origin(_bare(annotation)) in (Union, UnionType)


def _special_of(annotation: Any) -> Special | None:
    kinds = get_args(_bare(annotation)) if _is_union(annotation) else (_bare(annotation),)
    for kind in kinds:
        if kind is Reasoner:
            return "reasoner"
        if kind is RunContext or get_origin(kind) is RunContext:
            return "context"
        if isinstance(kind, type) and issubclass(kind, Job):
            return "job"
    return None


def bindings(free: Sequence[Parameter], before: Sequence[str]) -> dict[str, str]:
    """Return the id of the operator to which each parameter is bound, by parameter name.

    Args:
        free: The parameters that take answers.
        before: The ids of the operator's predecessors.
    """
    ids = ids_by_name(before)
    bound = {parameter.name: ids[parameter.name] for parameter in free if parameter.name in ids}
    required = [parameter for parameter in free if parameter.default is inspect.Parameter.empty] or list(free)
    if not bound and len(required) == 1 and len(before) == 1:
        return {required[0].name: before[0]}
    return bound


def ids_by_name(ids: Sequence[str]) -> dict[str, str]:
    """Return ids by the names of parameters that are bound to them; of ``x-y`` and ``x_y``, the second by ``x_y``."""
    return {as_name(each): each for each in reversed(ids)} | {each: each for each in ids}


def unknown_beside_item(free: Sequence[Parameter], before: Iterable[str]) -> list[str]:
    """Return the faults of required parameters of a map's body that get neither a value by name nor the item.

    By name, a parameter gets the index or the answer of an operator. The item goes to the parameter ``item``, or to the
    first one with an unknown name.

    Args:
        free: The parameters that take answers.
        before: The ids of the operators before the map.
    """
    if not free:
        return ["the item of the map needs a parameter with a name, such as `item`"]
    known = ["index", *map(as_name, before)]
    takes_item = _taking_item(free, known)
    return [
        f"parameter {parameter.name!r} is neither the index nor an operator before the map"
        f"{did_you_mean(parameter.name, known)}, and the item goes to {takes_item!r}; known: {shorten(known)}"
        for parameter in free
        if parameter.name not in (*known, takes_item) and parameter.default is inspect.Parameter.empty
    ]


def values_for_item(
    free: Sequence[Parameter],
    item: WorkflowMessage,
    messages: Sequence[WorkflowMessage],
    others: Parameter | None = None,
) -> dict[str, Any]:
    """Return the values of the parameters of a map's body; see `unknown_beside_item`.

    Args:
        free: The parameters that take answers.
        item: The message with which the map passes the item.
        messages: The messages that the body gets: the item, and the messages of the operators before the map.
        others: The parameter that takes the other answers; None without one.

    Raises:
        InputError: A required parameter has no value.
    """
    if len(free) == 1 and others is None:
        return {free[0].name: free[0].value(item)}
    before = answers_by_id(messages)
    before.pop(item.operator_id, None)
    if faults := unknown_beside_item(free, before):
        raise InputError("; ".join(faults))
    ids = ids_by_name(list(before))
    named = {"index": item.changed(answer="index")} | {each: before[source] for each, source in ids.items()}
    named[_taking_item(free, named)] = item
    values = {parameter.name: parameter.value(named[parameter.name]) for parameter in free if parameter.name in named}
    if others is not None:
        values |= values_of_others(others, before, [ids.get(parameter.name) for parameter in free])
    return values


def values_of_others(
    others: Parameter, answers: Mapping[str, WorkflowMessage], bound: Collection[str | None]
) -> dict[str, Any]:
    """Return the values for ``**others``, by id: the answers of all operators to which no parameter is bound."""
    return {each: others.value(answer) for each, answer in answers.items() if each not in bound}


def values_from_job(free: Sequence[Parameter], job: Job, who: str, others: Parameter | None) -> dict[str, Any]:
    """Return the values for an operator without predecessors: job inputs by name, or the goal for one parameter.

    A parameter ``job`` without an annotation gets the job itself, unless there is an input with this name.

    Args:
        free: The parameters that take answers.
        who: The operator's id, for errors.
        others: The parameter that takes the other inputs; None without one.

    Raises:
        InputError: A required parameter has no value, or an input does not fit the annotated type.
    """
    values: dict[str, Any] = {}
    for parameter in free:
        if parameter.name in job.inputs:
            given: Any = job.inputs[parameter.name]
            # the only parameter has the name of a field of its type: the job may be the object or the field
            if (
                len(free) == 1
                and parameter.takes_fields
                and parameter.name in (field_names(parameter.output.type) or ())
            ):
                given = _field_or_all(parameter, given, job.inputs)
        elif parameter.may_be_job:
            values[parameter.name] = job.own()
            continue
        elif parameter.default is not inspect.Parameter.empty:
            continue
        elif len(free) == 1 and not job.inputs and (job.goal or not parameter.optional):
            given = job.goal
        elif parameter.optional:
            given = None
        elif len(free) == 1 and parameter.takes_fields and not did_you_mean(parameter.name, job.inputs):
            given = job.inputs
        else:
            hint = did_you_mean(parameter.name, job.inputs)
            told = f"parameter {parameter.name!r} of {who!r} is not an input of the job{hint}; its inputs: "
            raise InputError(told + (shorten(list(job.inputs)) or "none"))
        values[parameter.name] = _input(parameter, parameter.name, given)
    if others is not None:
        values |= {each: _input(others, each, given) for each, given in job.inputs.items() if each not in values}
    return values


def _field_or_all(parameter: Parameter, field: Any, inputs: Mapping[str, Any]) -> Any:
    """Return all inputs if they, and not the input that has the parameter's name, fit the parameter's type."""
    for given in (field, inputs):
        with suppress(InputError):
            _input(parameter, parameter.name, given)
            return given
    return field


def _input(parameter: Parameter, of: str, given: Any) -> Any:
    """Return an input of the job, or its goal, as a value of a parameter."""
    message = WorkflowMessage(scratchpad=given) if isinstance(given, str) else message_of(given)
    try:
        return parameter.output.read(message)
    except ValueError as error:
        told = f"input {of!r} of the job is not a valid {name_of_type(parameter.output.type)}: {error}"
        raise InputError(told + parameter.hint(given)) from error


def _taking_item(free: Sequence[Parameter], known: Collection[str]) -> str:
    """Return the name of the parameter that takes the item; a single parameter takes it whatever its name."""
    names = [parameter.name for parameter in free]
    if "item" in names or len(names) == 1:
        return "item" if "item" in names else names[0]
    return next((name for name in names if name not in known), "")


def answers_by_id(messages: Sequence[WorkflowMessage]) -> dict[str, WorkflowMessage]:
    """Return the messages of predecessors by id; of several with one id, the first."""
    answers: dict[str, WorkflowMessage] = {}
    for message in messages:
        answers.setdefault(message.operator_id, message)
    return answers


def item_in(messages: Sequence[WorkflowMessage], scope: Scope | None) -> WorkflowMessage | None:
    """Return the message with which the map around this workflow passes its item; None if there is no such map."""
    return next((message for message in messages if _is_item_around(message, scope)), None)


def is_item(message: WorkflowMessage) -> bool:
    """Return True for a message with which a map passes an item to its body."""
    return message.over is not None


def _is_item_around(message: WorkflowMessage, scope: Scope | None) -> bool:
    """Return True if a message passes an item of a map that contains the current scope."""
    return is_item(message) and scope is not None and scope.is_inside(message.operator_id)
