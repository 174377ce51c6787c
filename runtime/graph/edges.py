"""Edges between operators, as users write them: ``a >> [b, c] >> d`` and ``triage["refund"] >> refund``.

``>>`` does not change a workflow. It returns a `Chain`, which `Workflow(chain)` and `workflow.add(chain)` accept.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Generic, Protocol, TypeAlias, cast, overload

from pydantic import BaseModel
from typing_extensions import TypeVar

from operad.runtime.graph.chat2graph import Executable
from operad.runtime.values.arguments import short_repr
from operad.runtime.values.errors import InputError

T = TypeVar("T", default=Any, covariant=True)
U = TypeVar("U")

Function = Callable[..., Any]
"""Plain function that is used as an operator; see `operad.runtime.workflow.function`."""


@dataclass(frozen=True, slots=True)
class Take(Generic[T]):
    """Answer of a function, with the port that the function takes.

        @operator
        def triage(mail: str) -> Take[str]:
            return Take("refund" if "money" in mail else "question", mail)

    Attributes:
        port: The port; edges from other ports are skipped.
        value: The answer, of any type that a function may return.
    """

    port: str
    value: T = None  # type: ignore[assignment]


Answers: TypeAlias = (
    Callable[..., AsyncIterator[T]]
    | Callable[..., Iterator[T]]
    | Callable[..., Awaitable[Take[T]]]
    | Callable[..., Take[T]]
    | Callable[..., Awaitable[T]]
    | Callable[..., T]
)
"""Function, generic in the type of its answers; that of a generator is the text that it yields."""

Awaited: TypeAlias = "Step[T] | Callable[..., Awaitable[T]]"
"""Operator, workflow or asynchronous function, generic in the type of its answers.

It and `Plain` are in overloads of their own, because mypy infers no type of answers from a union of all.
"""

Plain: TypeAlias = Callable[..., T]
"""Function, generic in the type of its answers."""

Body: TypeAlias = "Awaited[T] | Executable | Plain[T]"
"""Something that runs for an input: an operator, a workflow or a function; generic in the type of its answers."""

Streaming: TypeAlias = "Callable[..., AsyncIterator[str] | Iterator[str]]"
"""Generator function, whose answer is the text that it yields."""


@dataclass(frozen=True, slots=True)
class AnswerPath:
    """Reference to a part of an operator's answer, such as ``facts.output.claims``, for a `Map`.

    Attributes:
        _path: The names of the fields that lead to the part; empty for the whole answer.
    """

    _operator: Any
    _path: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> AnswerPath:
        if name.startswith("__"):  # a special method that `copy`, for example, looks for
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> AnswerPath:
        return AnswerPath(self._operator, (*self._path, name))

    def __repr__(self) -> str:
        return ".".join((self._operator.get_id(), *self._path))


class AwelNode(Protocol):
    """Protocol of an AWEL operator, so that type checkers need no dbgpt."""

    @property
    def node_name(self) -> Any:
        """The operator's name in its DAG."""

    @property
    def call_stream(self) -> Any:
        """Method that runs the operator and its predecessors, and returns the output as a stream."""


class _OutputAttribute:
    """Descriptor of the attribute `output` of a step; a class of operators may define its own attribute `output`."""

    def __get__(self, step: Any, owner: type[Any]) -> AnswerPath:
        if step is None:
            raise AttributeError(f"{owner.__name__} has an attribute 'output' in its instances only")
        return AnswerPath(step)


After: TypeAlias = "Step[Any] | Executable | AwelNode | Function | Sequence[Any] | str"
"""A predecessor: an operator, a port, a function or an id; or a list of these."""


class Step(Generic[T]):
    """Base class of everything that ``>>`` connects; generic in the type of its answers.

    Attributes:
        output: Reference to the step's answer or a part of it: ``flow.map(check, over=facts.output.claims)``.
    """

    __slots__ = ()

    output = _OutputAttribute()

    @overload
    def __rshift__(self, after: Step[U]) -> Chain[U]: ...
    @overload
    def __rshift__(
        self, after: Executable | AwelNode | Sequence[Step[Any] | Executable | AwelNode | Function]
    ) -> Chain[Any]: ...
    @overload
    def __rshift__(self, after: Streaming) -> Chain[str]: ...
    @overload
    def __rshift__(self, after: Callable[..., Awaitable[U]]) -> Chain[U]: ...
    @overload
    def __rshift__(self, after: Callable[..., U]) -> Chain[U]: ...
    def __rshift__(self, after: Any) -> Chain[Any]:
        return chain_of(self).then(chain_of(after))

    def __rrshift__(
        self, before: Executable | Sequence[Step[Any] | Executable | AwelNode | Function] | Function
    ) -> Chain[T]:
        return chain_of(before).then(chain_of(self))

    def __getitem__(self, port: str) -> Port[T]:
        if not isinstance(port, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"a port is named by text, such as operator['refund']; got {short_repr(port)}")
        return Port(self, port)


@dataclass(frozen=True, slots=True)
class Port(Step[T]):
    """Port of an operator. An edge from the port is taken when the operator's message chooses the port.

        workflow = Workflow([triage["refund"] >> refund, triage["question"] >> answer])
        workflow.add_operator(refund, previous_ops=[Port(triage, "refund")])

    Attributes:
        operator: The operator.
        name: The port's name.
    """

    operator: Any
    name: str

    def __getitem__(self, port: str) -> Port[T]:
        raise InputError(
            f"a port has no ports of its own: write operator[{port!r}], not operator[{self.name!r}][{port!r}]"
        )


@dataclass(frozen=True, slots=True)
class Chain(Step[T]):
    """Operators and the edges between them.

    Attributes:
        steps: The operators, workflows and plain functions, in the order in which they were written.
        edges: Pairs of a predecessor, which is an operator or a port, and its successor.
        heads: The steps at which an edge to the chain ends.
        tails: The steps or ports at which an edge from the chain starts.
    """

    steps: tuple[Any, ...]
    edges: tuple[tuple[Any, Any], ...]
    heads: tuple[Any, ...]
    tails: tuple[Any, ...]

    def then(self, after: Chain[U]) -> Chain[U]:
        """Return a chain of both chains, with an edge from every tail of this one to every head of the other."""
        between = tuple(product(self.tails, after.heads))
        return Chain(self.steps + after.steps, self.edges + between + after.edges, self.heads, after.tails)

    def __getitem__(self, port: str) -> Port[T]:
        raise InputError(f"a port belongs to one operator: write a >> b[{port!r}], not (a >> b)[{port!r}]")


def chain_of(value: object) -> Chain[Any]:
    """Return an operand of ``>>`` as a chain.

    Args:
        value: An operator, a workflow, a port, a plain function, a chain, or a list of these.

    Raises:
        InputError: The value is none of these.
    """
    if isinstance(value, Chain):
        return cast("Chain[Any]", value)
    if isinstance(value, Port):
        port = cast("Port[Any]", value)
        return Chain((port.operator,), (), (port.operator,), (port,))
    if isinstance(value, list | tuple):
        return _parallel(cast("Sequence[object]", value))
    check_step(value)
    return Chain((value,), (), (value,), (value,))


def check_step(value: object) -> None:
    """Check that an object can be a step: an operator, a workflow or a function.

    Raises:
        InputError: The object is none of these.
    """
    expected = "expected an operator, a workflow or a function"
    if isinstance(value, str):
        raise InputError(
            f"{expected}, got the text {value!r}; an operator that was added before is named in workflow.add(…, after=[{value!r}])"
        )
    if isinstance(value, type):
        raise InputError(f"{expected}, got the class {value.__name__}; give an instance: {value.__name__}(…)")
    if is_executable(value) or is_awel(value):
        return
    if isinstance(value, BaseModel) and callable(value):
        raise InputError(
            f"{expected}, got the tool {getattr(value, 'name', '')!r}; tools are given to an operator: tools=[…]"
        )
    if not callable(value):
        raise InputError(f"{expected}, or a list of these; got {short_repr(value)}")


def predecessors(after: object) -> Sequence[Any]:
    """Return the predecessors in the argument ``after``: a list unchanged, a single predecessor in a list.

    Raises:
        InputError: The argument is not an operator, port, function, id or list.
    """
    if isinstance(after, list | tuple):
        return cast("Sequence[Any]", after)
    if isinstance(after, str | Port) or callable(after) or is_executable(after) or is_awel(after):
        return [after]
    raise InputError(f"after: expected an operator, a function, an id, or a list of these; got {short_repr(after)}")


def is_executable(value: object) -> bool:
    """Return True if a value is an operator or a workflow, rather than a function."""
    has_methods = callable(getattr(value, "get_id", None)) and callable(getattr(value, "execute", None))
    return has_methods and not isinstance(value, type)


def is_awel(value: object) -> bool:
    """Return True if a value is an AWEL operator, without importing dbgpt."""
    module = sys.modules.get("dbgpt.core.awel.operators.base")
    return module is not None and isinstance(value, module.BaseOperator)


def _parallel(values: Iterable[object]) -> Chain[Any]:
    """Return a chain of the values with no edges between them."""
    chains = [chain_of(value) for value in values]
    if not chains:
        raise InputError("expected operators in the list, and it is empty")
    steps = tuple(step for chain in chains for step in chain.steps)
    edges = tuple(edge for chain in chains for edge in chain.edges)
    heads = tuple(head for chain in chains for head in chain.heads)
    tails = tuple(tail for chain in chains for tail in chain.tails)
    return Chain(steps, edges, heads, tails)
