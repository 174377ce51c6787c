"""Runs of a workflow for the items of a map."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Literal

from pydantic import BaseModel

from operad.runtime.events import Progress, Scope, emit
from operad.runtime.events.run_context import lacks_deps
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.engine import LONGEST_TURN
from operad.runtime.policies.policy import causes
from operad.runtime.values.arguments import short_repr
from operad.runtime.values.concurrently import concurrently
from operad.runtime.values.errors import BudgetError, InputError, OperadError, OperatorError, describe
from operad.runtime.values.map_item import MapItem
from operad.runtime.values.message import WorkflowMessage, WorkflowStatus
from operad.runtime.values.value import Value
from operad.runtime.workflow.base_workflow import BaseWorkflow, inner_call, inside, run_within

OnError = Literal["fail", "skip", "keep"]


class ItemError(Value):
    """Value in the place of the result of an item that failed.

        each = Map("each", check, over="facts.claims", on_error="keep")  # an item that fails becomes an ItemError
        print(ItemError(index=2, error="timed out", kind="TimeoutError"))

    Attributes:
        index: The item's index in the list, counted from 0.
        error: Text of the error.
        kind: Name of the type of the original error, such as ``TimeoutError``.
    """

    index: int
    error: str
    kind: str


Outcome = WorkflowMessage | ItemError

Keep = Callable[[OperatorCall, WorkflowMessage], WorkflowMessage]
"""Function that returns the message to store for a call and its message."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Outcomes of a workflow for several calls.

    Attributes:
        said: The stored messages and `ItemError`s, in the order of the calls.
        worst: The message with the worst status; if that is not SUCCESS, its evaluation names the call.
        count: Number of calls.
    """

    said: list[Outcome]
    worst: WorkflowMessage
    count: int


class Calls:
    """Queue of the calls for items. A call is created when a worker takes it.

    Args:
        items: The items.
        call_for: Function that returns the call for an item and its index.
        name: Name of the map in errors.
    """

    def __init__(
        self, items: Iterable[Any] | AsyncIterable[Any], call_for: Callable[[Any, int], OperatorCall], name: str
    ) -> None:
        self.total = len(items) if isinstance(items, Sequence) else None
        self.count = 0
        self._call_for = call_for
        self._turn = asyncio.Lock()
        self._items: Iterator[Any] = iter(())
        self._later: AsyncIterator[Any] | None = None
        if isinstance(items, AsyncIterable):
            self._later = aiter(items)
        elif _is_whole(items):
            told = f"over: the function returned {short_repr(items)}; it must return a list, or generate the items"
            raise InputError(f"map {name!r}: {told}")
        else:
            self._items = iter(items)

    def take(self) -> tuple[int, OperatorCall] | None:
        """Return the next call and its index; None if no item is left, or if the items come later."""
        return self._taken(next(self._items, _NO_ITEM))

    async def take_later(self, scope: Scope) -> tuple[int, OperatorCall] | None:
        """Wait for the next item of an asynchronous iterable, and return its call and index; None if none is left."""
        if self._later is None:
            return None
        with scope.at_work():
            async with self._turn:
                return self._taken(await anext(self._later, _NO_ITEM))

    def _taken(self, item: Any) -> tuple[int, OperatorCall] | None:
        if item is _NO_ITEM:
            return None
        index, self.count = self.count, self.count + 1
        return index, self._call_for(item, index)

    async def close(self) -> None:
        """Close the generator of the items, if there is one."""
        for generator in (self._items, self._later):
            if (close := getattr(generator, "aclose", None) or getattr(generator, "close", None)) is not None:
                closing = close()
                if closing is not None:
                    await closing


_NO_ITEM = object()


async def for_each(
    body: BaseWorkflow,
    calls: Sequence[OperatorCall] | Calls,
    name: str,
    *,
    concurrency: int,
    on_error: OnError,
    keep: Keep | None = lambda _, message: message,
) -> Outcomes:
    """Run a workflow once per call, inside the current operator.

    Args:
        body: The workflow.
        calls: Input of each run.
        name: Name of the operator in errors and paths.
        concurrency: Maximum number of runs at once.
        on_error: Effect of a failing run, as for a `Map`.
        keep: Function that returns the message to store for a run; by default, the message of the run. With None,
            nothing is stored for a run that has ended.

    Raises:
        OperadError: A run failed, and `on_error` is ``fail``; the other runs were cancelled and have ended.
    """
    scope = inside()
    source = calls if isinstance(calls, Calls) else Calls(calls, lambda call, _: call, name)
    said: dict[int, Outcome] = {}
    worst = _Worst()
    done = 0
    turn_ends = perf_counter() + LONGEST_TURN

    async def work() -> None:
        nonlocal done, turn_ends
        while (taken := source.take() or await source.take_later(scope)) is not None:
            index, call = taken
            try:
                run = run_within(body, scope, inner_call(body, call), MapItem(name, index))
                if keep is None:  # what is kept of the run around it would grow with each item
                    run.repeats = run.is_traced = False
                    run.finished = None if run.finished is None else {}
                message = await run.execute()
                worst.add(index, message)
                outcome = keep(call, message) if keep else None
            except BudgetError:
                raise
            except Exception as error:
                if on_error == "fail" or lacks_deps(error):
                    raise _failure(error, index, name, said) from error
                outcome = _item_error(error, index) if on_error == "keep" else None
            if outcome is not None:
                said[index] = outcome
            done += 1
            if scope.heard:
                emit(Progress(done=done, total=source.count if source.total is None else source.total))
            if perf_counter() > turn_ends:  # runs that never suspend would block the event loop
                with scope.at_work():
                    await asyncio.sleep(0)
                turn_ends = perf_counter() + LONGEST_TURN

    workers = concurrency if source.total is None else min(concurrency, source.total)
    try:
        await concurrently(work() for _ in range(workers))
    finally:
        await source.close()
    return Outcomes([said[index] for index in sorted(said)], worst.told(name, source.count), source.count)


class _Worst:
    """The message with the worst status of those added, the first one where several have it."""

    __slots__ = ("_index", "_message", "_unsuccessful")

    def __init__(self) -> None:
        self._message, self._index, self._unsuccessful = WorkflowMessage(), -1, 0

    def add(self, index: int, message: WorkflowMessage) -> None:
        """Take the message of an item into account."""
        status, worst = message.status, self._message.status
        self._unsuccessful += status is not WorkflowStatus.SUCCESS
        is_earlier = status is worst and index < self._index
        if self._index < 0 or is_earlier or status.priority < worst.priority:
            self._message, self._index = message, index

    def told(self, name: str, count: int) -> WorkflowMessage:
        """Return the message; if its status is not SUCCESS, its evaluation tells how many of the items have another."""
        if not self._unsuccessful:
            return self._message
        said = f"{MapItem(name, self._index)}: {self._message.evaluation or self._message.status.value}"
        return self._message.changed(evaluation=f"{self._unsuccessful} of {count} items did not succeed. {said}")


def _item_error(error: Exception, index: int) -> ItemError:
    first = next(link for link in causes(error) if not isinstance(link, OperatorError))
    return ItemError(index=index, error=describe(error), kind=type(first).__name__)


def _failure(error: Exception, index: int, name: str, said: Mapping[int, Outcome]) -> OperadError:
    """Return the error of a map, with the messages of the items that have finished."""
    failed = OperadError(f"item {MapItem(name, index)}: {describe(error)}")
    done = {index: outcome for index, outcome in said.items() if isinstance(outcome, WorkflowMessage)}
    failed.finished = {str(MapItem(name, index)): done[index] for index in sorted(done)}
    return failed


def _is_whole(value: object) -> bool:
    """Return True for a value that a user's function returned by mistake: a text, a mapping, a model or a single value."""
    is_model = getattr(type(value), "__iter__", None) is BaseModel.__iter__  # which yields the fields
    is_single = isinstance(value, str | bytes | bytearray | memoryview | Mapping) or not isinstance(value, Iterable)
    return is_model or is_single
