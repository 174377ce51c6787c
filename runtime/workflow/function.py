"""Functions as operators: parameters are bound to earlier answers, and the return value becomes a message."""

from __future__ import annotations

import functools
import inspect
import logging
import sys
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import closing, suppress
from functools import cached_property
from typing import Any, Generic, Literal, TypedDict, cast, get_args, get_origin, get_type_hints, overload

from pydantic import BaseModel, JsonValue
from typing_extensions import ParamSpec, TypeVar, Unpack

from operad.runtime.events import TokenStreamed, current_scope, emit
from operad.runtime.events.run_context import RunContext, deps_in
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.edges import Take, check_step
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.policies.policy import Policy, Retry, policy_of
from operad.runtime.reasoning.reasoner import Reasoner
from operad.runtime.values.arguments import refuse_unknown, short_repr
from operad.runtime.values.errors import InputError, Issue, OperadError, PortError, did_you_mean, shorten
from operad.runtime.values.fingerprint import fingerprint, name_of
from operad.runtime.values.function_threads import in_function_thread, until_given_up
from operad.runtime.values.ids import as_name, checked_id, slug
from operad.runtime.values.message import Job, WorkflowMessage
from operad.runtime.values.output import Output, field_names
from operad.runtime.values.round_trip import message_of
from operad.runtime.workflow.parameters import (
    Parameter,
    Special,
    answers_by_id,
    bindings,
    item_in,
    misfits,
    parameters_of,
    same_name,
    unknown_beside_item,
    values_for_item,
    values_from_job,
    values_of_others,
    without_partial,
)

T = TypeVar("T", default=Any, covariant=True)
P = ParamSpec("P", default=...)
R = TypeVar("R", default=Any, covariant=True)

_logger = logging.getLogger(__name__)


class FunctionOperator(BaseOperator[T], Generic[T, P, R]):
    """Operator that calls a function; `operator` creates it.

        def count(job: Job) -> str:
            return str(len(job.goal.split()))

        print(Workflow(FunctionOperator(count, id="words")).run("three short words").text)  # 3

    Args:
        function: The function. A sync function runs in a thread; a generator, sync or async, streams its text.
        id: The operator's id; by default the function's name.
        ports: The ports that the function may take by returning `Take`.
        policy: Policy of the operator.
        inline: True if a sync function runs on the event loop; see `operator`.
        names: Local names where the function is defined, to resolve annotations that are text.

    Attributes:
        function: The function.
        policy: Policy of the operator.
        inline: True if a sync function runs on the event loop.

    Raises:
        InputError: `function` is not a function, or has parameters that cannot be bound by name.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        id: str = "",
        ports: Sequence[str] = (),
        policy: Policy | None = None,
        inline: bool = False,
        names: Mapping[str, Any] | None = None,
    ) -> None:
        if not callable(function) or isinstance(function, type):
            raise InputError(f"operator(…) expects a function, got {short_repr(function)}")
        check_step(function)
        if isinstance(ports, str) or not all(isinstance(cast("Any", port), str) and port for port in ports):
            raise InputError(
                f"operator(…): ports are a list of names, such as ['refund', 'question']; got {short_repr(ports)}"
            )
        plain = inspect.unwrap(without_partial(function))
        own_name = getattr(plain, "__name__", "") or type(function).__name__
        self.function = function
        self._ports = tuple(ports)
        self.takes_one_port = bool(ports)
        self.policy = policy
        self._instruction = (inspect.getdoc(plain) or "").partition("\n")[0] if plain is not type(function) else ""
        self._id = checked_id(id) or (own_name if own_name.isidentifier() else slug(own_name))
        self._settled = bool(id)
        self._bound: dict[Sequence[str], Mapping[str, str]] = {}
        self._text_bound: dict[Sequence[str], str] = {}
        self._signature = parameters_of(function, self._id)
        self._is_async = inspect.iscoroutinefunction(plain) or inspect.isasyncgenfunction(plain)
        self._streams = inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain)
        self._awaited = self._is_async and not self._streams
        self.inline = inline
        functools.update_wrapper(self, function, updated=())
        self._names = names
        with suppress(InputError):  # resolved again, or reported, when the workflow is built
            _ = self._hints
        self._names = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself, for example in a test."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<operator {self._id!r}>"

    def get_id(self) -> str:
        """Return the operator's id."""
        return self._id

    @property
    def ports(self) -> Sequence[str]:
        """The ports that the function may take."""
        return self._ports

    @property
    def instruction(self) -> str:
        """The first line of the function's docstring."""
        return self._instruction

    @property
    def reads_lesson(self) -> bool:
        """True if the function takes a `RunContext` or a `Reasoner`; another one would only do the same again."""
        return any(special != "job" for _, special in self._special)

    @cached_property
    def deps_type(self) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Name of the type of the deps that a parameter requires, as `RunContext[Database]` does."""
        with suppress(OperadError):  # `check` reports it
            return next(
                filter(None, (deps_in(self._hints[each]) for each, kind in self._special if kind == "context")), ""
            )
        return ""

    def inputs_read(self, is_first: bool) -> Collection[str] | None:
        """Return the names of the parameters that take inputs of the job; None if a parameter takes all inputs."""
        takes_all = any(parameter.special == "job" for parameter in self._parameters)
        if not is_first:
            return None if takes_all else ()
        takes_all = takes_all or self._others is not None or any(each.may_be_job for each in self._free)
        fields: Collection[str] | None = ()
        if len(self._free) == 1 and self._free[0].takes_fields:
            fields = field_names(self._free[0].output.type)
        return None if takes_all or fields is None else [*(parameter.name for parameter in self._free), *fields]

    def streams_answer(self, reasoner: Reasoner) -> bool:
        """Return True for a generator, whose text is the answer."""
        return self._streams and not self._ports

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return the fingerprint of the function, made of its name and bound values but not its code, and the ports."""
        return {"type": name_of(type(self)), "function": fingerprint(self.function), "ports": list(self.ports)}

    @property
    def answer_type(self) -> Any:
        """The annotated return type of the function; None if unknown."""
        with suppress(OperadError):  # `check` reports it
            return self._returns.type

    def read_output(self, message: WorkflowMessage) -> T:
        """Return the answer in a message of the operator, as an instance of the function's return type."""
        return self._returns.read(message)

    def check(self, before: Mapping[str, BaseOperator]) -> list[Issue]:
        """Return the issues of the function's parameters, given the predecessors by id."""
        return self.check_among(before, ())

    def check_among(self, before: Mapping[str, BaseOperator], others: Collection[str]) -> list[Issue]:
        """Return the issues of `check`; for a parameter named after one of `others`, the issue is the missing edge."""
        try:
            free = self._free
            _ = self._returns
        except OperadError as error:
            return [Issue("parameter", str(error), self._id)]
        if not before:
            return []
        bound, known = bindings(free, list(before)), [as_name(operator_id) for operator_id in before]
        other_names = {as_name(operator_id): operator_id for operator_id in others}
        types = {operator_id: operator.answer_type for operator_id, operator in before.items()}
        unbound = [parameter for parameter in free if parameter.name not in bound]
        issues = [Issue("parameter", misfit, self._id) for misfit in misfits(self._parameters, bound, types)] + [
            Issue("parameter", self._unbound(parameter.name, known, other_names.get(parameter.name)), self._id)
            for parameter in unbound
            if parameter.default is inspect.Parameter.empty
        ]
        if not issues:  # with issues, callers may check again, with more operators before it
            self._warn_of_near_misses(unbound, known)
        return issues

    def check_inside(self, before: Mapping[str, BaseOperator], *, of_map: bool) -> list[Issue]:
        """Return the issues of the function as the body of a map with these predecessors."""
        with suppress(OperadError):  # `check` reports it
            if of_map and (self._free or self._others):
                return [Issue("parameter", text, self._id) for text in unknown_beside_item(self._free, before)]
        return []

    def further(self, before: Collection[str], others: Collection[str]) -> list[str]:
        """Return the ids in `others` that are named by parameters which no predecessor in `before` is bound to."""
        bound = bindings(self._free, list(before))
        wanted = {parameter.name for parameter in self._free if parameter.name not in bound}
        return [operator_id for operator_id in others if operator_id not in before and as_name(operator_id) in wanted]

    def _unbound(self, parameter: str, known: Sequence[str], source: str | None) -> str:
        if source is not None:
            own = as_name(self._id)
            return (
                f"parameter {parameter!r}: operator {source!r} has no edge to {self._id!r}; add the edge: "
                f"[… >> {own}, {parameter} >> {own}]; in YAML, the chain [{source}, {self._id}]"
            )
        item = ". The first operators of a map's body get the item: return it there" if parameter == "item" else ""
        return (
            f"parameter {parameter!r} is not an operator before it{did_you_mean(parameter, known)}; "
            f"before it: {shorten(known)}. Other parameters are annotated with Job, Reasoner or RunContext{item}"
        )

    def _warn_of_near_misses(self, unbound: Iterable[Parameter], known: Sequence[str]) -> None:
        """Log a warning for each parameter that keeps its default although an operator has a similar name."""
        for parameter in unbound:
            hint = did_you_mean(parameter.name, known)
            if hint and parameter.default is not inspect.Parameter.empty:
                said = "%r: parameter %r keeps its default: no operator before it has this id%s"
                _logger.warning(said, self._id, parameter.name, hint)

    async def run(self, call: OperatorCall) -> WorkflowMessage | str:
        """Call the function with its parameters bound, and return its value as a message.

        Raises:
            FaultError: The answer of a predecessor does not fit the parameter's type; the predecessor is blamed.
            InputError: A parameter has no value, or the return value has no JSON form.
            PortError: The function has ports, and takes none.
        """
        returned = await self.returned(call)
        if isinstance(returned, str) and not self._ports and self._returns.type in (str, None):
            return returned
        if inspect.iscoroutine(returned):
            returned.close()
            raise InputError(f"{self._id!r} returned the coroutine {returned.__name__}: an `await` is missing")
        return self._message(returned)

    def returned(self, call: OperatorCall, before: Sequence[str] | None = None) -> Awaitable[Any]:
        """Return an awaitable that calls the function with its parameters bound, and returns its value unchanged.

        Args:
            call: Input of the operator.
            before: Ids of the operators whose answers the function gets; by default those of the predecessors.
        """
        arguments = self._given(call.job, call.messages, before) if self._free or self._others else {}
        for parameter, special in self._special:
            if parameter in arguments and (others := self._others):
                raise InputError(same_name(parameter, others))
            if special == "context":
                arguments[parameter] = RunContext.current(call.lesson, self._hints[parameter])
            else:
                arguments[parameter] = call.job.own() if special == "job" else call.reasoner
        return self.function(**arguments) if self._awaited else self._call(arguments)

    # Parameters

    @cached_property
    def _hints(self) -> Mapping[str, Any]:
        function = self.function
        plain = inspect.unwrap(without_partial(function))
        target = plain if inspect.isroutine(plain) else type(plain).__call__
        try:
            return get_type_hints(target, localns=dict(self._names or {}), include_extras=True)
        except NameError as error:
            told = f"an annotation of {self._id!r} cannot be resolved: {error}; define it before it runs"
            raise InputError(told) from error
        except TypeError as error:
            raise InputError(f"an annotation of {self._id!r} cannot be read: {error}") from error

    @cached_property
    def _parameters(self) -> Sequence[Parameter]:
        return [Parameter.of(each, self._hints.get(each.name, Any)) for each in self._signature]

    @cached_property
    def _free(self) -> Sequence[Parameter]:
        """Parameters that take answers of operators or inputs of the job."""
        return [parameter for parameter in self._parameters if not parameter.special and not parameter.is_rest]

    @cached_property
    def _others(self) -> Parameter | None:
        """Parameter ``**others``, which takes all other answers or inputs by their names; None without one."""
        return next((parameter for parameter in self._parameters if parameter.is_rest), None)

    @cached_property
    def _special(self) -> Sequence[tuple[str, Special]]:
        """Names and kinds of the parameters that take the job, the reasoner or the run context."""
        return [(parameter.name, parameter.special) for parameter in self._parameters if parameter.special]

    @cached_property
    def _returns(self) -> Output[Any]:
        """The type of the function's answers."""
        if self._streams:
            return Output(str, "")
        kind = self._hints.get("return", Any)
        if get_origin(kind) is Take:
            kind = (*get_args(kind), Any)[0]
        if kind in (Any, Take, WorkflowMessage, BaseModel) or isinstance(kind, TypeVar):  # pyright: ignore
            return Output(None, "")
        try:
            return Output(kind, "")
        except InputError as error:
            raise InputError(f"the return annotation: {error}") from error

    @cached_property
    def schema(self) -> Mapping[str, Any] | None:
        """The JSON Schema of the function's answers; None if their type is not declared, or is text."""
        try:
            return self._returns.written_schema()
        except InputError:  # `check` reports it
            return None

    def _given(
        self, job: Job, messages: Sequence[WorkflowMessage], after: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """Return the values of the free parameters, by name."""
        scope = current_scope()
        run: Any = scope.run if scope else None  # a `Run`; not cast, because a cast would cost time
        before: Sequence[str] = after or (run.build.before.get(scope.operator_id, ()) if scope else ())
        if (
            len(messages) == 1
            and (text := self._text_bound.get(before)) is not None
            and not (message := messages[0]).outputs
            and message.operator_id in before
        ):
            return {text: message.scratchpad}  # a shortcut for the common case of one text
        if not before and (item := item_in(messages, scope)) is not None:
            return values_for_item(self._free, item, messages, self._others)
        answers = answers_by_id(messages)
        if not before:
            before = tuple(answers)
        if not before:
            return values_from_job(self._free, job, self._id, self._others)
        bound = self._bound.get(before)
        if bound is None:
            bound = self._bound[before] = bindings(self._free, before)
            if len(self._free) == len(before) == len(bound) == 1 and self._free[0].output.is_text:
                self._text_bound[before] = self._free[0].name
        given = {
            parameter.name: parameter.value(answers.get(bound.get(parameter.name, "")))
            for parameter in self._free
            if parameter.default is inspect.Parameter.empty or bound.get(parameter.name) in answers
        }
        if (others := self._others) is not None:
            given |= values_of_others(others, answers, bound.values())
        return given

    # The call

    async def _call(self, arguments: Mapping[str, Any]) -> Any:
        if self._is_async:
            parts = self.function(**arguments)
            try:
                return "".join([_streamed(self._id, part) async for part in parts])
            finally:
                if inspect.isasyncgen(parts):  # its own `finally` does not wait for the garbage collector
                    await parts.aclose()
        if self.inline:
            returned = _called(self.function, arguments)
        else:
            returned = await in_function_thread(f"operator {self._id!r}", _called, self.function, arguments)
        return returned if isinstance(returned, str) or not inspect.isawaitable(returned) else await returned

    def _message(self, returned: Any) -> WorkflowMessage:
        ports: tuple[str, ...] | None = None
        if isinstance(returned, Take):
            take = cast("Take[Any]", returned)
            ports, returned = (take.port,), take.value
        if isinstance(returned, WorkflowMessage):
            message = returned.own()  # the function may change what it returned
        else:
            message = message_of(returned, self._returns, repr(self._id))
        if ports is not None:
            message = message.changed(ports=ports)
        if self.ports and message.ports is None:
            raise PortError(
                f"{self._id!r} chose none of its ports; return Take({self.ports[0]!r}, …): {', '.join(self.ports)}"
            )
        return message


def _called(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Call a sync function, and return its value; of a generator, the whole text, which is streamed."""
    returned = function(**arguments)
    if not isinstance(returned, str) and inspect.isgenerator(returned):
        who = getattr(function, "__name__", "operator")
        with closing(until_given_up(returned)) as parts:  # an error of `_streamed` would keep it open
            return "".join(_streamed(who, part) for part in parts)
    return returned


def _streamed(who: str, part: Any) -> str:
    if not isinstance(part, str):
        raise InputError(f"{who!r} yields {short_repr(part)}; a generator yields text, which is streamed")
    emit(TokenStreamed(text=part))
    return part


Generated = TypeVar("Generated", bound=AsyncIterator[str] | Iterator[str], default=Any)


class OperatorOptions(TypedDict, total=False):
    """Options of `operator`."""

    id: str
    ports: Sequence[str]
    policy: Policy | None
    retry: Retry | int | Literal[False] | None
    inline: bool


class _Decorator:
    """Decorator returned by `operator(id=…)`, with an overload for each type of function."""

    def __init__(self, options: OperatorOptions) -> None:
        self._options = options

    @overload
    def __call__(self, function: Callable[P, Generated]) -> FunctionOperator[str, P, Generated]: ...
    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, Take[T]]]
    ) -> FunctionOperator[T, P, Coroutine[Any, Any, Take[T]]]: ...
    @overload
    def __call__(self, function: Callable[P, Take[T]]) -> FunctionOperator[T, P, Take[T]]: ...
    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, T]]
    ) -> FunctionOperator[T, P, Coroutine[Any, Any, T]]: ...
    @overload
    def __call__(self, function: Callable[P, T]) -> FunctionOperator[T, P, T]: ...
    def __call__(self, function: Callable[..., Any]) -> FunctionOperator[Any, ..., Any]:
        return _of_function(function, defining_names(sys._getframe(1)), **self._options)  # pyright: ignore[reportPrivateUsage]


@overload
def operator(
    function: Callable[P, Generated], /, **options: Unpack[OperatorOptions]
) -> FunctionOperator[str, P, Generated]: ...


@overload
def operator(
    function: Callable[P, Coroutine[Any, Any, Take[T]]], /, **options: Unpack[OperatorOptions]
) -> FunctionOperator[T, P, Coroutine[Any, Any, Take[T]]]: ...


@overload
def operator(
    function: Callable[P, Take[T]], /, **options: Unpack[OperatorOptions]
) -> FunctionOperator[T, P, Take[T]]: ...


@overload
def operator(
    function: Callable[P, Coroutine[Any, Any, T]], /, **options: Unpack[OperatorOptions]
) -> FunctionOperator[T, P, Coroutine[Any, Any, T]]: ...


@overload
def operator(function: Callable[P, T], /, **options: Unpack[OperatorOptions]) -> FunctionOperator[T, P, T]: ...


@overload
def operator(**options: Unpack[OperatorOptions]) -> _Decorator: ...


def operator(
    function: Callable[..., Any] | None = None,
    /,
    *,
    id: str = "",
    ports: Sequence[str] = (),
    policy: Policy | None = None,
    retry: Retry | int | Literal[False] | None = None,
    inline: bool = False,
    **unknown: object,
) -> Any:
    r"""Return an operator made of a function.

        @operator
        def bullets(facts: Claims) -> str:  # the parameter is the answer of the operator 'facts'
            return "\n".join(f"- {claim}" for claim in facts.claims)

    Parameters annotated with `Job`, `Reasoner` or `RunContext` get these objects. Every other parameter gets the answer
    of the predecessor whose id is the parameter's name; the answer is validated as the annotated type. With a single
    such parameter and a single predecessor, the name does not matter. An operator without predecessors gets the job's
    inputs by name, or the job's goal. A name without a match is reported as an issue before the run.

    The function returns text, a pydantic model or JSON values, `Take(port, value)`, or a `WorkflowMessage`. A
    generator streams its text. A sync function runs in a thread, an async function on the event loop.

    Args:
        function: The function.
        id: The operator's id; by default the function's name.
        ports: The ports that the function may take.
        policy: Policy of the operator.
        retry: Short for ``policy=Policy(retry=…)``: a `Retry`, or the number of attempts.
        inline: True if a sync function runs on the event loop instead of in a thread. The overhead is a sixth of that
            of a thread. Use it for functions that take less than a millisecond: no other operator runs meanwhile, a
            timeout cannot stop the function, and the function cannot call `Workflow.run`.
        unknown: Other arguments, which are errors.

    Raises:
        InputError: `function` is not a function, has parameters that cannot be bound by name, or an argument is
            unknown.
    """
    if unknown:
        refuse_unknown("@operator(…)", unknown, tuple(OperatorOptions.__annotations__))
    options: OperatorOptions = {"id": id, "ports": ports, "policy": policy, "retry": retry, "inline": inline}
    if function is None:
        return _Decorator(options)
    return _of_function(function, defining_names(sys._getframe(1)), **options)  # pyright: ignore[reportPrivateUsage]


def _of_function(
    function: Callable[..., Any],
    names: Mapping[str, Any] | None,
    *,
    retry: Retry | int | Literal[False] | None = None,
    **options: Any,
) -> FunctionOperator[Any, ..., Any]:
    made = FunctionOperator(function, **options, names=names)
    made.policy = policy_of(made.policy, retry, made.get_id())
    return made


def defining_names(frame: Any) -> Mapping[str, Any] | None:
    """Return the local names of a frame, to resolve annotations that are text; None for the top level of a module."""
    return None if frame.f_locals is frame.f_globals else dict(frame.f_locals)
