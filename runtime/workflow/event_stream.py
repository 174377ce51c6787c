"""Streams of a run, for callers with an event loop and for those without."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, cast

from typing_extensions import TypeVar

from operad.runtime.events import Event, current_scope
from operad.runtime.events.stream import Buffer
from operad.runtime.graph.call import answers_of
from operad.runtime.values.errors import (
    InputError,
    InvalidError,
    Issue,
    PausedError,
    RunningLoopError,
    did_you_mean,
    shorten,
)
from operad.runtime.values.json_like import JsonLike
from operad.runtime.values.map_item import without_index
from operad.runtime.values.message import WorkflowMessage
from operad.runtime.values.questions import Question
from operad.runtime.values.sync import end_sync, run_sync, running_loop
from operad.runtime.workflow.result import Result
from operad.runtime.workflow.run import Run
from operad.runtime.workflow.runs import LiveRun, in_loop

if TYPE_CHECKING:
    from typing import Self

Item = TypeVar("Item")
E = TypeVar("E", bound=Event)
T = TypeVar("T", default=Any, covariant=True)


class RunStream(AsyncGenerator[Item, None]):
    """Stream of a run's items, iterated by ``async for``, or by ``for`` without an event loop.

        async with flow.stream("two figs") as stream:
            async for event in stream:
                if isinstance(event, events.OperatorFinished):
                    break  # the end of the `async with` block stops the run

    Closing the stream stops the run; a durable run can be resumed. A `for` loop closes it when the loop is left. An
    ``async for`` loop that is left by ``break`` or an error does not: use ``async with``, or call `aclose`.
    """

    def __init__(self, items: AsyncGenerator[Item, None], run: StreamedRun) -> None:
        self._items = items
        self._run = run

    async def asend(self, value: None) -> Item:
        """Return the next item."""
        return await self._items.asend(value)

    async def athrow(self, typ: Any, val: BaseException | object = None, tb: TracebackType | None = None, /) -> Item:
        """Raise an error at the point where the stream waits."""
        return await self._items.athrow(typ, val, tb)

    async def aclose(self) -> None:
        """Close the stream, which stops the run unless it has ended.

        A task that waits for the next item meanwhile gets a `CancelledError`, as if the run was cancelled by `cancel`.
        """
        live = self._run.live
        if live is not None and getattr(self._items, "ag_running", False):
            await in_loop(live.loop, live.cancel())
        else:
            await self._items.aclose()

    def close(self) -> None:
        """Close the stream without an event loop, which stops the run unless it has ended.

        Raises:
            RunningLoopError: An event loop is running here: use ``await stream.aclose()``.
        """
        if running_loop() is not None:
            raise RunningLoopError("an event loop is running here, and waiting would block it: use `await aclose()`")
        end_sync(self.aclose)

    async def __aenter__(self) -> Self:
        """Return the stream, which is closed at the end of the ``async with`` block."""
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close the stream."""
        await self.aclose()

    def __enter__(self) -> Self:
        """Return the stream, which is closed at the end of the ``with`` block."""
        if running_loop() is not None:
            raise RunningLoopError("an event loop is running here: write `async with` instead of `with`")
        return self

    def __exit__(self, *error: object) -> None:
        """Close the stream."""
        self.close()

    def __iter__(self) -> Iterator[Item]:
        """Iterate without an event loop."""
        if running_loop() is not None:
            raise RunningLoopError("an event loop is running here: write `async for` instead of `for`")
        next_item = partial(anext, self._items, None)
        try:
            while (item := run_sync(next_item, "anext(…)")) is not None:
                yield item
        finally:  # also if the loop was left, and the garbage collector closes this generator
            end_sync(self._items.aclose)


@dataclass(slots=True)
class StreamedRun:
    """The run of a stream.

    Attributes:
        pauses: True if the stream raises `PausedError` when the run waits for a person.
        live: The run; None before it starts, and when it has ended.
        outcome: The run and its message; None until it ends with one.
    """

    pauses: bool = False
    live: LiveRun | None = None
    outcome: tuple[Run, WorkflowMessage] | None = None


class EventStream(RunStream[E], Generic[E, T]):
    """Events of a run that `Workflow.stream` starts, typed by the event types in ``only=``.

        stream = flow.stream("two figs")
        for event in stream:
            if isinstance(event, events.Interrupted):
                stream.answer({event.interrupt_id: True})
        print(stream.result.output)

    Args:
        start: Function that starts the run; see `run_events`.
        wanted: Function that returns True for the events to yield.
        make: Function that returns the result of a run that has ended, from the run and its message.
    """

    def __init__(
        self,
        start: Callable[..., LiveRun],
        wanted: Callable[[Event], bool],
        make: Callable[[Run, WorkflowMessage], Result[T]],
    ) -> None:
        run = StreamedRun()
        self._make = make
        super().__init__(cast("AsyncGenerator[E, None]", run_events(start, run, wanted)), run)

    def __iter__(self) -> Iterator[E]:
        """Iterate without an event loop.

        Raises:
            RunningLoopError: An event loop is running here: use ``async for``.
            PausedError: All remaining operators wait for a person, and the loop has not answered; the run can be
                continued by `Workflow.resume`.
        """
        self._run.pauses = True
        return super().__iter__()

    @property
    def result(self) -> Result[T]:
        """The result of the run, once all events were read.

        Raises:
            InputError: The run has not ended, or it ended with an error, which the stream has raised.
        """
        if self._run.outcome is None:
            raise InputError("the run of this stream has no result: read its events to their end first")
        return self._make(*self._run.outcome)

    @property
    def questions(self) -> Sequence[Question]:
        """Open questions of the run."""
        return self._run.live.run.questions.open() if self._run.live else ()

    def answer(self, answers: JsonLike) -> None:
        """Answer questions of the run, which continues; callable from any thread.

        Args:
            answers: Answers by question id; some questions may stay open. A value that is not a dict is the answer to
                the only open question.

        Raises:
            InputError: No question is open, or an answer names no question, and not exactly one is open.
            InvalidError: An answer does not fit its question's schema, or the question is unknown. No answer was
                accepted then.
        """
        live = self._run.live
        if live is None or live.task.done():
            raise InputError("the run of this stream has not started, or has ended: there is no question to answer")
        given = answers_of(answers, live.run.log.run_id, lambda: self.questions)
        if running_loop() is live.loop:
            live.answer_now(given)
        else:
            asyncio.run_coroutine_threadsafe(live.answer(given, {}), live.loop).result()


class TextStream(RunStream[str]):
    """Pieces of the answer of a run that `Workflow.stream_text` starts."""


async def run_events(
    start: Callable[..., LiveRun], streamed: StreamedRun, wanted: Callable[[Event], bool] = lambda _: True
) -> AsyncGenerator[Event, None]:
    """Start a run, and yield its events; the run is cancelled when the generator is closed.

    Args:
        start: Function that starts the run, called with a buffer for its events and ``streamed=``.
        streamed: Receives the run.
        wanted: Function that returns True for the events to yield; by default for all.

    Raises:
        PausedError: The stream pauses, and the run waits for a person; it stays paused.
        Exception: The error of the run.
    """
    buffer = Buffer(wanted)
    live = streamed.live = start(buffer, streamed=not streamed.pauses)
    end = _end_of(live, buffer)
    try:
        while True:
            while (event := await buffer.get()) is not None:
                yield event
            try:
                streamed.outcome = live.run, await end
                return
            except PausedError as paused:
                if live.run.waits and [*paused.questions] == [*live.run.questions.open()]:
                    raise
                buffer.reopen()  # the consumer has answered since
                end = _end_of(live, buffer)
    except PausedError:
        buffer.slows = False  # no consumer reads the events that follow the answers
        raise
    except BaseException:
        await live.cancel()
        await asyncio.wait([end])
        raise
    finally:  # as in `outcome_of`
        if live.task.done():
            streamed.live = None
        del live, end


def _end_of(live: LiveRun, buffer: Buffer) -> asyncio.Future[Any]:
    """Return a future that ends with the run, or with its next pause for a stream that pauses, and closes the buffer."""

    def close(end: asyncio.Future[Any]) -> None:
        if not end.cancelled():
            end.exception()  # retrieved, in case the consumer leaves before it is raised
        buffer.close()

    end = live.task if live.streamed else asyncio.ensure_future(live.outcome())
    end.add_done_callback(close)
    return end


def event_filter(only: Any, under: Any, id_of: Callable[[Any], str], known: Sequence[str]) -> Callable[[Event], bool]:
    """Return a function that returns True for the events that a caller wants; see `Workflow.stream`.

    Args:
        only: The types of events; empty for all.
        under: Prefix of the paths of the events.
        id_of: Function that returns the id of an operator in `under`.
        known: The ids of the workflow's operators and evaluators.

    Raises:
        InvalidError: `only` or `under` has another type, or names an unknown operator.
    """
    kinds: tuple[Any, ...] = tuple(cast("Sequence[Any]", only)) if isinstance(only, list | tuple | set) else (only,)
    steps: list[Any] = [*under] if isinstance(under, list | tuple) else [under]
    issues = [
        Issue("only", f"{kind!r} is not a type of event; use types such as events.OperatorFinished", "only")
        for kind in kinds
        if not (isinstance(kind, type) and issubclass(kind, Event))
    ]
    ids: list[str] = []
    for step in steps:
        try:
            ids += filter(None, step.split("/")) if isinstance(step, str) else [id_of(step)]
        except InputError as error:
            issues.append(Issue("under", str(error), "under"))
    if ids and current_scope() is None and without_index(ids[0]) not in known:
        hint = did_you_mean(ids[0], known)
        told = f"no operator has the id {ids[0]!r}{hint}; the workflow has: {shorten(known)}"
        issues.append(Issue("under", told, "under"))
    if issues:
        raise InvalidError("the filters of a stream", issues)
    wanted, path = kinds or (Event,), tuple(ids)
    return lambda event: isinstance(event, wanted) and event.path[: len(path)] == path
