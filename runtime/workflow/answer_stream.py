"""Stream of the text of a run's answer, as far as it is certain to be the answer."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

from operad.runtime.events import Event, RunFinished, TokenStreamed
from operad.runtime.reasoning.reasoner import Reasoner
from operad.runtime.values.errors import AnswerError
from operad.runtime.values.message import WorkflowMessage
from operad.runtime.workflow.workflow import Workflow

_PIECE = re.compile(r"\S*\s*", re.DOTALL)


def answering_operator(workflow: Workflow[Any], reasoner: Reasoner) -> str | None:
    """Return the id of the operator whose streamed text is the answer; None if the answer is known only at the end.

    The operator is the only tail of the workflow, its streamed text is certain to be its answer, and no evaluator can
    ask for another round.
    """
    graph = workflow.graph()
    parents = {parent for before in graph.before.values() for parent in before}
    tails = [key for key in graph.operators if key not in parents]
    if len(tails) != 1 or (graph.evaluators and workflow.max_rounds > 1):
        return None
    return tails[0] if graph.operators[tails[0]].streams_answer(reasoner) else None


class AnswerStream:
    """Pieces of an operator's text as the model writes it; a piece that was returned is never revoked.

    Args:
        operator: The id of the operator; None if all text comes at the end.
    """

    def __init__(self, operator: str | None) -> None:
        self._path = () if operator is None else (operator,)
        self._attempt = (0, 0)
        self._sent: list[str] = []
        self._to_repeat: str | None = ""  # the text that the attempt has to repeat; None after it has differed
        self._repeated = 0

    def next(self, event: Event | None) -> str:
        """Return the new text in an event; empty if there is none.

        The text of another attempt is returned only as far as it continues the text that was returned before.
        """
        if not isinstance(event, TokenStreamed) or event.path != self._path:
            return ""
        if self._attempt != (attempt := (event.round, event.attempt)):
            self._attempt, self._to_repeat, self._repeated = attempt, "".join(self._sent), 0
        if self._to_repeat is None:
            return ""
        repeated = self._to_repeat[self._repeated : self._repeated + len(event.text)]
        if not event.text.startswith(repeated):
            self._to_repeat = None
            return ""
        self._repeated += len(repeated)
        piece = event.text[len(repeated) :]
        self._sent.append(piece)
        return piece

    def rest(self, text: str) -> Iterator[str]:
        """Yield the part of the whole text that was not returned yet, in pieces.

        Raises:
            AnswerError: The text does not begin with the text that was returned.
        """
        sent = "".join(self._sent)
        if not text.startswith(sent):
            raise AnswerError(
                "the operator began anew after a part of its answer was sent, and said something else; ask again"
            )
        yield from filter(None, _PIECE.findall(text[len(sent) :]))


async def pieces(
    workflow: Workflow[Any], reasoner: Reasoner, events: AsyncGenerator[Event, None]
) -> AsyncGenerator[str, None]:
    """Yield the text of a run's answer in pieces, while the model writes if the text is certain to be the answer.

    Args:
        workflow: The workflow that runs.
        reasoner: The reasoner of the run.
        events: The events of the run, the last of which has its message. The generator is closed at the end.
    """
    live = AnswerStream(answering_operator(workflow, reasoner))
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
