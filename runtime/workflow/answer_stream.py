"""Stream of the text of a run's answer, as far as no other answer can replace it."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from itertools import islice
from typing import Any, NamedTuple

from operad.runtime.events import (
    Event,
    FellBack,
    ModelAsked,
    OperatorRetried,
    OperatorSkipped,
    RunFinished,
    TokenStreamed,
    ToolCalled,
)
from operad.runtime.policies.policy import NO_POLICY
from operad.runtime.reasoning.reasoner import Reasoner
from operad.runtime.values.errors import AnswerError
from operad.runtime.values.message import WorkflowMessage
from operad.runtime.workflow.base_workflow import BaseWorkflow, Within
from operad.runtime.workflow.function import FunctionOperator

_PIECE = re.compile(r"\S*\s*", re.DOTALL)


_BETWEEN_TURNS = "\n\n"


MAX_WRITERS = 1_000
"""Maximum number of operators of which one gives the answer; if there are more, all text comes at the end."""


class Writer(NamedTuple):
    """Operator that may give the answer.

    Attributes:
        streams: True if its text is returned while it is written.
        ends_at_model: True if the text of a model that it asks is not certain to be its answer.
    """

    path: tuple[str, ...]
    streams: bool = False
    ends_at_model: bool = False


class _Around(NamedTuple):
    """Place of a nested workflow.

    Attributes:
        path: Path of the operator that runs it.
        workflows: The workflows around it.
        is_replaceable: True if a fallback or another round may replace its text.
    """

    path: tuple[str, ...] = ()
    workflows: tuple[BaseWorkflow[Any], ...] = ()
    is_replaceable: bool = False


def _writers(workflow: BaseWorkflow[Any], reasoner: Reasoner, around: _Around) -> Iterator[Writer]:
    """Yield the operators of which one gives the answer of a workflow."""
    graph = workflow.graph()
    is_circle = workflow in around.workflows  # the run reports it
    if is_circle or not graph.ends_once or (graph.evaluators and workflow.max_rounds > 1):
        yield Writer(around.path)
        return
    for tail in graph.tails:
        operator, path = graph.operators[tail], (*around.path, tail)
        has_fallback = graph.policies.get(tail, NO_POLICY).fallback not in (None, False)
        is_replaceable = around.is_replaceable or has_fallback or workflow.max_rounds > 1
        if isinstance(operator, Within):
            inside = _Around(path, (*around.workflows, workflow), is_replaceable)
            yield from _writers(operator.body, operator.body.model or reasoner, inside)
        else:
            is_function = isinstance(operator, FunctionOperator)
            streams = operator.streams_answer(reasoner) and not (is_replaceable and (is_function or around.workflows))
            yield Writer(path, streams, is_function)


class AnswerStream:
    """Pieces of the answer of a run as they are written; a piece that was returned is never revoked.

    Text that a model writes before it calls tools is returned as a paragraph before the answer.

    Args:
        writers: Operators of which one gives the answer; none if all text comes at the end.
    """

    def __init__(self, writers: Sequence[Writer] = ()) -> None:
        self._writers = writers
        self._writer = writers[0] if len(writers) == 1 else None  # otherwise the first of them that begins
        self._sent: list[str] = []
        self._attempt = (0, 0)
        self._to_repeat: str | None = ""  # the text that the attempt has to repeat; None after it has differed
        self._length = 0  # of the attempt's text so far
        self._turn = 0  # where the text of the current turn begins in it
        self._turn_begins = False
        self._blank = ""  # white space at the beginning of a turn: nothing else may follow in it

    @classmethod
    def of(cls, workflow: BaseWorkflow[Any], reasoner: Reasoner) -> AnswerStream:
        """Return the stream of a workflow's answer.

        Text is streamed if exactly one tail of the workflow, or of a nested workflow at that place, runs, such as one
        of those on different ports of an operator; that tail streams its answer; and no evaluator can ask for another
        round. The text of a generator, and text inside a nested workflow, is streamed only if no fallback and no other
        round can replace it.
        """
        writers = tuple(islice(_writers(workflow, reasoner, _Around()), MAX_WRITERS + 1))
        return cls(writers if len(writers) <= MAX_WRITERS else ())

    @property
    def is_live(self) -> bool:
        """True if text is returned while it is written."""
        return any(writer.streams for writer in self._writers)

    def next(self, event: Event | None) -> str:
        """Return the new text in an event; empty if there is none.

        The text of another attempt is returned only as far as it continues the text that was returned before.
        """
        if event is None:
            return ""
        if self._writer is None and not isinstance(event, OperatorSkipped):
            self._writer = next((each for each in self._writers if each.path == event.path[: len(each.path)]), None)
        writer = self._writer
        if writer is None or not writer.streams:
            return ""
        if isinstance(event, OperatorRetried | FellBack) and event.path == writer.path[: len(event.path)]:
            self._attempt = (0, 0)  # the operator or a workflow around it begins anew
            if not self._sent and len(self._writers) > 1:
                self._writer = None  # another one may be taken
        if event.path != writer.path:
            return ""
        if isinstance(event, ModelAsked | ToolCalled):
            if writer.ends_at_model:
                self._writer = writer._replace(streams=False)
            else:
                self.end_turn()
        return self._added(event) if isinstance(event, TokenStreamed) else ""

    def end_turn(self) -> None:
        """End the current turn: its text is not the answer, and the text of the next turn is a new paragraph."""
        self._turn_begins, self._blank = True, ""

    def _added(self, event: TokenStreamed) -> str:
        if self._attempt != (attempt := (event.round, event.attempt)):
            self._attempt, self._to_repeat, self._length = attempt, "".join(self._sent), 0
        if self._to_repeat is None:
            return ""
        text = event.text
        if self._turn_begins:
            text = self._blank + text
            if not text.strip():
                self._blank = text
                return ""
            between = _BETWEEN_TURNS if self._length else ""
            self._turn, self._turn_begins = self._length + len(between), False
            text = between + text
        repeated = self._to_repeat[self._length : self._length + len(text)]
        if not text.startswith(repeated):
            self._to_repeat = None
            return ""
        self._length += len(text)
        piece = text[len(repeated) :]
        self._sent.append(piece)
        return piece

    def rest(self, text: str) -> Iterator[str]:
        """Yield the part of the whole answer that was not returned yet, in pieces.

        Raises:
            AnswerError: The answer does not continue the text that was returned.
        """
        sent = "".join(self._sent)
        if self._to_repeat is not None and self._turn_begins and self._length:
            text = sent[: self._length] + _BETWEEN_TURNS + text
        elif self._to_repeat is not None:
            text = sent[: self._turn] + text
        if not text.startswith(sent):
            raise AnswerError(
                "the operator began anew after a part of its answer was sent, and said something else; ask again"
            )
        yield from filter(None, _PIECE.findall(text[len(sent) :]))


async def pieces(
    workflow: BaseWorkflow[Any], reasoner: Reasoner, events: AsyncGenerator[Event, None]
) -> AsyncGenerator[str, None]:
    """Yield the text of a run's answer in pieces, while the model writes if no other answer can replace the text.

    Args:
        events: The events of the run, the last of which has its message. The generator is closed at the end.
    """
    live = AnswerStream.of(workflow, reasoner)
    last: Event | None = None
    async with aclosing(events):
        async for event in events:
            last = event
            if piece := live.next(event):
                yield piece
    if isinstance(last, RunFinished):
        for piece in live.rest(answer_text(last.message)):
            yield piece


def answer_text(message: WorkflowMessage) -> str:
    """Return the text of an answer; if it has only outputs, the only output if that is a text, or all as JSON."""
    outputs = list(message.outputs.values())
    if message.scratchpad or not outputs:
        return message.scratchpad
    only = outputs[0] if len(outputs) == 1 else None
    return only if isinstance(only, str) else json.dumps(message.outputs, ensure_ascii=False, default=str)
