"""Functions as operators: parameters are bound to what comes before, and what is returned becomes a message."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from pydantic import JsonValue
from pydantic_core import PydanticSerializationError, to_jsonable_python
from typing_extensions import TypeVar, is_typeddict

from operad.runtime.events import TokenStreamed, current_scope, emit
from operad.runtime.events.run_context import RunContext
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.edges import check_step
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.policies.policy import Policy
from operad.runtime.values.errors import InputError, Issue, OperadError, PortError, did_you_mean, shorten
from operad.runtime.values.fingerprint import fingerprint, name_of
from operad.runtime.values.ids import as_name, settled_id, slug
from operad.runtime.values.message import Job, WorkflowMessage
from operad.runtime.values.output import Output, name, shown
from operad.runtime.workflow.parameters import (
    Parameter,
    Special,
    as_value,
    bindings,
    item_in,
    parameters_of,
    without_partial,
)

if TYPE_CHECKING:
    from operad.runtime.workflow.run import Run

T = TypeVar("T", default=Any, covariant=True)

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Take(Generic[T]):
    """What a function returns to take a port, with its answer.

        @operator
        def triage(mail: str) -> Take[str]:
            return Take("refund" if "money" in mail else "question", mail)

    Attributes:
        port: The port: edges that leave from other ports are skipped.
        value: The answer, as any function returns it.
    """

    port: str
    value: T = None  # type: ignore[assignment]


class FunctionOperator(BaseOperator[T]):
    """A function as an operator of a workflow; `operator` makes one.

    Args:
        function: The function: sync, which runs in a thread, or async; a generator streams its text.
        id: The operator's id; by default the function's name.
        ports: The ports that the function may take, each by returning `Take`.
        policy: How the operator runs.

    Attributes:
        function: The function.
        policy: How it runs.

    Raises:
        InputError: It is not a function, or has parameters that cannot be bound by name.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        id: str = "",
        ports: Sequence[str] = (),
        policy: Policy | None = None,
        names: Mapping[str, Any] | None = None,
    ) -> None:
        if not callable(function) or isinstance(function, type):
            raise InputError(f"operator(…) expects a function, got {shown(function)}")
        check_step(function)
        if isinstance(ports, str) or not all(isinstance(cast("Any", port), str) and port for port in ports):
            raise InputError(
                f"operator(…): ports are a list of names, such as ['refund', 'question']; got {shown(ports)}"
            )
        plain = inspect.unwrap(without_partial(function))
        own_name = getattr(plain, "__name__", "") or type(function).__name__
        self.function = function
        self._ports = tuple(ports)
        self.takes_one_port = bool(ports)
        self.policy = policy
        self._instruction = (inspect.getdoc(plain) or "").partition("\n")[0] if plain is not type(function) else ""
        self._id = id or (own_name if own_name.isidentifier() else slug(own_name))
        self._settled = bool(id)
        self._bound: dict[tuple[str, ...], Mapping[str, str]] = {}
        self._signature = parameters_of(function, self._id)
        self._is_async = inspect.iscoroutinefunction(plain) or inspect.isasyncgenfunction(plain)
        self._streams = inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain)
        functools.update_wrapper(self, function, updated=())
        self._names = names
        with suppress(InputError):  # then it is resolved, or told, when the workflow is built
            _ = self._hints
        self._names = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, as in a test of it."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<operator {self._id!r}>"

    def get_id(self) -> str:
        """The operator's id."""
        return self._id

    @property
    def ports(self) -> Sequence[str]:
        """The ports that the function may take."""
        return self._ports

    @property
    def instruction(self) -> str:
        """The first line of the function's docstring."""
        return self._instruction

    def settle_id(self, taken: Collection[str]) -> None:
        """Make the id unique among those that are taken, unless it was chosen or is settled."""
        if not self._settled:
            self._id, self._settled = settled_id(self._id, taken), True

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return what tells the operator from others: the function's name and what it binds, not its code."""
        return {"type": name_of(type(self)), "function": fingerprint(self.function), "ports": list(self.ports)}

    def read_output(self, message: WorkflowMessage) -> T:
        """Return the value of one of its messages, as an instance of the function's return type."""
        return self._returns.read(message)

    def check(self, before: Mapping[str, BaseOperator]) -> list[Issue]:
        """Return what is wrong with the function's parameters, where these operators come before it."""
        try:
            free = self._free
            _ = self._returns
        except OperadError as error:
            return [Issue("parameter", str(error), self._id)]
        if not before:
            return []
        found, known = bindings(free, list(before)), [as_name(each) for each in before]
        self._warn_of_near_misses([each for each in free if each.name not in found], known)
        return [
            Issue(
                "parameter",
                f"parameter {parameter.name!r} is no operator before it{did_you_mean(parameter.name, known)}; "
                f"before it: {shorten(known)}. Other parameters are annotated with Job, Reasoner or RunContext",
                self._id,
            )
            for parameter in free
            if parameter.name not in found and parameter.default is inspect.Parameter.empty
        ]

    def _warn_of_near_misses(self, unbound: Iterable[Parameter], known: Sequence[str]) -> None:
        """Warn of parameters that keep their default where an operator has nearly their name."""
        for parameter in unbound:
            hint = did_you_mean(parameter.name, known)
            if hint and parameter.default is not inspect.Parameter.empty:
                said = "%r: parameter %r keeps its default: no operator before it has this id%s"
                _logger.warning(said, self._id, parameter.name, hint)

    async def run(self, call: OperatorCall) -> WorkflowMessage | str:
        """Call the function with its parameters bound, and return what it returns as a message.

        Raises:
            FaultError: What an operator before it said does not fit the parameter's type; that operator is blamed.
            InputError: A parameter has no value, or what the function returns has no JSON form.
            PortError: The function has ports, and takes none.
        """
        arguments = self._given(call.job, call.messages) if self._free else {}
        for parameter, special in self._special:
            if special == "context":
                arguments[parameter] = RunContext.current(call.lesson)
            else:
                arguments[parameter] = call.job if special == "job" else call.reasoner
        returned = await self._call(arguments)
        if isinstance(returned, str) and not self.ports:
            return returned
        message = self._message(returned)
        self._check_return(cast("Take[Any]", returned).value if isinstance(returned, Take) else returned, message)
        return message

    # Parameters

    @cached_property
    def _hints(self) -> Mapping[str, Any]:
        function = self.function
        plain = inspect.unwrap(without_partial(function))
        target = plain if inspect.isroutine(plain) else type(plain).__call__
        try:
            return get_type_hints(target, localns=dict(self._names or {}), include_extras=True)
        except NameError as error:
            raise InputError(
                f"an annotation of {self._id!r} cannot be resolved: {error}; define it before it runs"
            ) from error
        except TypeError as error:
            raise InputError(f"an annotation of {self._id!r} cannot be read: {error}") from error

    @cached_property
    def _parameters(self) -> Sequence[Parameter]:
        return [Parameter.of(each, self._hints.get(each.name, Any)) for each in self._signature]

    @cached_property
    def _free(self) -> Sequence[Parameter]:
        """The parameters that take what operators said."""
        return [parameter for parameter in self._parameters if not parameter.special]

    @cached_property
    def _special(self) -> Sequence[tuple[str, Special]]:
        """The other parameters, with what they ask for."""
        return [(parameter.name, parameter.special) for parameter in self._parameters if parameter.special]

    @cached_property
    def _returns(self) -> Output[Any]:
        """The type of the function's answers."""
        if self._streams:
            return Output(str, "")
        kind = self._hints.get("return", Any)
        if get_origin(kind) is Take:
            kind = (*get_args(kind), Any)[0]
        if kind in (Any, Take, WorkflowMessage) or isinstance(kind, TypeVar):  # pyright: ignore
            return Output(None, "")
        try:
            return Output(kind, "")
        except InputError as error:
            raise InputError(f"what it returns: {error}") from error

    def _given(self, job: Job, messages: Sequence[WorkflowMessage]) -> dict[str, Any]:
        """The values of the free parameters."""
        scope = current_scope()
        before = cast("Run", scope.run).build.before.get(scope.operator_id, ()) if scope else ()
        own = scope.operator_id if scope else self._id
        said: dict[str, WorkflowMessage] = {}
        for message in messages:
            meant = as_value(message, scope)
            if meant is not message or message.operator_id != own or message.operator_id in before:
                said.setdefault(message.operator_id, meant)
            else:
                break  # an earlier answer of its own, and the verdicts on it
        if not before:
            before = tuple(said)
        if not before:
            return self._from_job(job)
        if len(self._free) > 1 and (item := item_in(messages, scope)) is not None:
            return {each.name: each.value(item[each.name == "index"]) for each in self._free}
        bound = self._bound.get(before)
        if bound is None:
            bound = self._bound[before] = bindings(self._free, before)
        return {
            parameter.name: parameter.value(said.get(bound.get(parameter.name, "")))
            for parameter in self._free
            if parameter.default is inspect.Parameter.empty or bound.get(parameter.name) in said
        }

    def _from_job(self, job: Job) -> dict[str, Any]:
        """For an operator without others before it: the job's inputs by name, or its goal for a single parameter."""
        values: dict[str, Any] = {}
        for parameter in self._free:
            if parameter.name in job.inputs:
                given: Any = job.inputs[parameter.name]
            elif parameter.default is not inspect.Parameter.empty:
                continue
            elif len(self._free) == 1 and not job.inputs:
                given = job.goal
            elif parameter.optional:
                given = None
            else:
                hint = did_you_mean(parameter.name, job.inputs)
                raise InputError(
                    f"parameter {parameter.name!r} of {self._id!r} is no input of the job{hint}; "
                    f"its inputs: {shorten(list(job.inputs)) or 'none'}"
                )
            message = WorkflowMessage(scratchpad=given) if isinstance(given, str) else _message_of(given)
            try:
                values[parameter.name] = parameter.output.read(message)
            except ValueError as error:
                raise InputError(
                    f"input {parameter.name!r} of the job is no {name(parameter.output.type)}: {error}"
                ) from error
        return values

    # The call

    async def _call(self, arguments: dict[str, Any]) -> Any:
        if self._is_async and not self._streams:
            return await self.function(**arguments)
        if self._is_async:
            return "".join([_streamed(self._id, part) async for part in self.function(**arguments)])
        returned = await asyncio.to_thread(_in_thread, self.function, arguments)
        return await returned if inspect.isawaitable(returned) else returned

    def _check_return(self, value: Any, message: WorkflowMessage) -> None:
        """Refuse a value that is not of the type that the function is annotated with."""
        kind = self._returns.type
        if kind is None or (isinstance(kind, type) and not is_typeddict(kind) and isinstance(value, kind)):
            return
        try:
            self._returns.read(message)
        except ValueError as error:
            raise InputError(
                f"{self._id!r} is annotated to return {name(kind)}, and returned {shown(value)}: {error}"
            ) from error

    def _message(self, returned: Any) -> WorkflowMessage:
        ports: tuple[str, ...] | None = None
        if isinstance(returned, Take):
            take = cast("Take[Any]", returned)
            ports, returned = (take.port,), take.value
        if isinstance(returned, WorkflowMessage):
            message = returned if ports is None else returned.model_copy(update={"ports": ports})
        else:
            try:
                message = _message_of(returned, ports)
            except PydanticSerializationError as error:
                raise InputError(
                    f"{self._id!r} returned {shown(returned)}, which has no JSON form; return text, a pydantic model, "
                    "JSON values, Take(port, value) or a WorkflowMessage"
                ) from error
        if self.ports and message.ports is None:
            raise PortError(
                f"{self._id!r} took none of its ports; return Take({self.ports[0]!r}, …): {', '.join(self.ports)}"
            )
        return message


class _Decorator:
    """What `operator(id=…)` makes: the decorator, typed for each kind of function."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options

    @overload
    def __call__(self, function: Callable[..., AsyncIterator[str] | Iterator[str]]) -> FunctionOperator[str]: ...
    @overload
    def __call__(self, function: Callable[..., Awaitable[Take[T]]]) -> FunctionOperator[T]: ...
    @overload
    def __call__(self, function: Callable[..., Take[T]]) -> FunctionOperator[T]: ...
    @overload
    def __call__(self, function: Callable[..., Awaitable[T]]) -> FunctionOperator[T]: ...
    @overload
    def __call__(self, function: Callable[..., T]) -> FunctionOperator[T]: ...
    def __call__(self, function: Callable[..., Any]) -> FunctionOperator[Any]:
        return FunctionOperator(function, **self._options, names=_names(sys._getframe(1)))  # pyright: ignore[reportPrivateUsage]


@overload
def operator(function: Callable[..., AsyncIterator[str] | Iterator[str]], /) -> FunctionOperator[str]: ...
@overload
def operator(function: Callable[..., Awaitable[Take[T]]], /) -> FunctionOperator[T]: ...
@overload
def operator(function: Callable[..., Take[T]], /) -> FunctionOperator[T]: ...
@overload
def operator(function: Callable[..., Awaitable[T]], /) -> FunctionOperator[T]: ...
@overload
def operator(function: Callable[..., T], /) -> FunctionOperator[T]: ...
@overload
def operator(*, id: str = "", ports: Sequence[str] = (), policy: Policy | None = None) -> _Decorator: ...
def operator(
    function: Callable[..., Any] | None = None,
    /,
    *,
    id: str = "",
    ports: Sequence[str] = (),
    policy: Policy | None = None,
) -> Any:
    r"""Make an operator of a function.

        @operator
        def bullets(facts: Claims) -> str:  # the parameter is the answer of the operator 'facts'
            return "\n".join(f"- {claim}" for claim in facts.claims)

    Parameters are bound by their annotation (`Job`, `Reasoner`, `RunContext`), else by the id of an operator before
    it, whose answer is validated into the annotated type. A single such parameter takes the answer of the only
    operator before it, whatever its name. An operator without others before it gets the job's inputs by name, or the
    job's goal. A name that fits nothing is an issue before anything runs.

    The function returns text, a pydantic model or JSON values, `Take(port, value)`, or a `WorkflowMessage`. A
    generator streams its text. A sync function runs in a thread, an async one on the event loop.

    Args:
        function: The function.
        id: The operator's id; by default the function's name.
        ports: The ports that the function may take.
        policy: How the operator runs.

    Raises:
        InputError: It is not a function, or has parameters that cannot be bound by name.
    """
    if function is None:
        return _Decorator({"id": id, "ports": ports, "policy": policy})
    names = _names(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]
    return FunctionOperator(function, id=id, ports=ports, policy=policy, names=names)


def _names(frame: Any) -> Mapping[str, Any] | None:
    """The local names where a function is defined, for annotations that are text; None at the top of a module."""
    return None if frame.f_locals is frame.f_globals else dict(frame.f_locals)


def _in_thread(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Call a sync function; a generator is run to its end, and what it yields is streamed."""
    try:
        returned = function(**arguments)
        if inspect.isgenerator(returned):
            return "".join(_streamed(getattr(function, "__name__", "operator"), part) for part in returned)
    except StopIteration as error:  # which no future can hold
        raise RuntimeError("the function raised StopIteration") from error
    return returned


def _streamed(who: str, part: Any) -> str:
    if not isinstance(part, str):
        raise InputError(f"{who!r} yields {shown(part)}; a generator yields text, which is streamed")
    emit(TokenStreamed(text=part))
    return part


def _message_of(value: Any, ports: tuple[str, ...] | None = None) -> WorkflowMessage:
    """A value as a message: text as it is, an object by its fields, any other value as the output ``output``."""
    if isinstance(value, str):
        return WorkflowMessage(scratchpad=value, ports=ports)
    plain = to_jsonable_python(value, by_alias=True)
    if isinstance(plain, str):  # an Enum, a date
        return WorkflowMessage(scratchpad=plain, outputs={"output": plain}, ports=ports)
    text = "" if plain is None else json.dumps(plain, ensure_ascii=False)
    outputs = cast("dict[str, Any]", plain) if isinstance(plain, dict) else {"output": plain}
    return WorkflowMessage(scratchpad=text, outputs=outputs, ports=ports)
