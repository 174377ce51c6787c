"""Parts of a reply as front ends show it: text, thinking, steps and tool calls; one fold of events for all protocols."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from typing import Any, Literal, NamedTuple

from operad.flows.check import OUTCOME
from operad.runtime import events
from operad.runtime.values.questions import Question
from operad.server.api.served_run import ServedRun
from operad.server.api.spoken import stream_answer

Kind = Literal["text", "thinking", "step"]


class Opened(NamedTuple):
    """The beginning of a text, of a piece of thinking, or of a step.

    Attributes:
        id: Id, unique in the run; of a step the path of its operator.
    """

    kind: Kind
    id: str


class Written(NamedTuple):
    """A piece of an open text or thinking."""

    kind: Kind
    id: str
    text: str


class Closed(NamedTuple):
    """The end of an open part."""

    kind: Kind
    id: str


class Called(NamedTuple):
    """A call of a tool."""

    id: str
    tool: str
    arguments: Mapping[str, Any]


class Returned(NamedTuple):
    """The result of a tool, or its error."""

    id: str
    tool: str
    result: str
    failed: bool


Part = Opened | Written | Closed | Called | Returned


async def reply_parts(run: ServedRun, wrong: str) -> AsyncGenerator[Part, None]:
    """Yield the parts of a reply until the run asks or ends; every part that is opened is closed.

    Args:
        wrong: Fault of the last answer to a question; empty for none.

    Raises:
        RefusedError: The run has no result.
    """
    open_parts = _OpenParts(run.id)
    async with aclosing(stream_answer(run, wrong, asks=False)) as said:
        async for text, event in said:
            for part in open_parts.next(text, event):
                yield part
    for part in open_parts.close_all():
        yield part


_REST = ("",)
"""Path of the text after the last event."""


class _OpenParts:
    """Fold of the events of a run into parts."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._open: dict[tuple[Kind, tuple[str, ...]], str] = {}
        self._seq = 0

    def next(self, text: str, event: events.Event | None) -> Iterator[Part]:
        """Yield the parts of an event and of the new text of the answer in it."""
        path = event.path if event else next((path for kind, path in self._open if kind == "text"), _REST)
        if event:
            self._seq = event.seq
        if text:
            yield from self._end("thinking", path)  # clients take parts of a message one after another
            yield from self._write("text", path, text)
        match event:
            case events.OperatorStarted() if path[-1] != OUTCOME:
                yield from self._start("step", path)
            case events.OperatorFinished() | events.OperatorFailed() | events.OperatorCancelled():
                yield from self.close_all(path)
            case events.ThinkingStreamed():
                yield from self._write("thinking", path, event.text)
            case events.TokenStreamed() | events.ModelAnswered():
                yield from self._end("thinking", path)
            case events.ToolCalled():
                yield from self._end("thinking", path)
                yield from self._end("text", path)
                yield Called(call_id(event), event.tool, event.arguments)
            case events.ToolReturned():
                yield Returned(call_id(event), event.tool, event.result, event.failed)
            case _:
                pass

    def close_all(self, path: tuple[str, ...] = ()) -> Iterator[Part]:
        """Yield the ends of the open parts of an operator and of those inside it; of all without a path."""
        for kind, inner in [key for key in reversed(self._open) if key[1][: len(path)] == path]:
            yield from self._end(kind, inner)

    def _write(self, kind: Kind, path: tuple[str, ...], text: str) -> Iterator[Part]:
        if (kind, path) not in self._open:
            yield from self._start(kind, path)
            text = text.lstrip("\n")  # the part is a paragraph of its own
        if text:
            yield Written(kind, self._open[kind, path], text)

    def _start(self, kind: Kind, path: tuple[str, ...]) -> Iterator[Part]:
        if (kind, path) not in self._open:  # a step that is tried again goes on
            name = "/".join(path) if kind == "step" else f"{self._run_id}-{self._seq}-{kind}"
            self._open[kind, path] = name
            yield Opened(kind, name)

    def _end(self, kind: Kind, path: tuple[str, ...]) -> Iterator[Part]:
        if (name := self._open.pop((kind, path), None)) is not None:
            yield Closed(kind, name)


def call_id(event: events.ToolCalled | events.ToolReturned) -> str:
    """Return an id of a tool call that is unique among all runs; the models of several operators may give the same."""
    return f"{event.run_id}:{'/'.join(event.path)}:{event.round}.{event.attempt}:{event.call_id}"


def arguments_of(run: ServedRun, call: str) -> Mapping[str, Any]:
    """Return the arguments of a reported tool call, given its `call_id`."""
    calls = (event for event in run.log.events() if isinstance(event, events.ToolCalled))
    return next((event.arguments for event in calls if call_id(event) == call), dict[str, Any]())


def call_asked_about(run: ServedRun, question: Question) -> str:
    """Return the id of the tool call that a question asks to allow, as `call_id` gives it; empty if it was not reported."""
    call = ""
    for event in run.log.events():
        if isinstance(event, events.ToolCalled) and (event.tool, dict(event.arguments)) == (
            question.tool,
            dict(question.arguments),
        ):
            call = call_id(event) if "/".join(event.path) == question.id.partition("#")[0] else call
        elif isinstance(event, events.Interrupted) and event.interrupt_id == question.id:
            return call
    return ""
