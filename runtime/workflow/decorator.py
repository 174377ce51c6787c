"""Decorator that turns a function into an operator."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Literal, TypedDict, overload

from typing_extensions import TypeVar, Unpack

from operad.runtime.graph.edges import Take
from operad.runtime.policies.policy import Policy, Retry, policy_of
from operad.runtime.values.arguments import refuse_unknown
from operad.runtime.workflow.function import FunctionOperator, P, T

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
