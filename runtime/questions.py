"""The open questions of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import JsonValue

from operad.runtime.errors import InvalidError, Issue, did_you_mean
from operad.runtime.message import Value
from operad.runtime.schema import faults


class Question(Value):
    """What a run asks.

    Attributes:
        id: What the answer is given under: the path of who asks, with slashes; its second question
            ends in ``#2``, and so on.
        text: The question.
        schema_: The JSON Schema of the answer; None for any.
    """

    id: str
    text: str
    schema_: dict[str, Any] | None = None


class Questions:
    """The open questions of a run."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[Question, asyncio.Future[JsonValue]]] = {}

    def __bool__(self) -> bool:
        return bool(self._open)

    def ask(self, question: Question) -> asyncio.Future[JsonValue]:
        """Open a question; the future gets its answer."""
        future: asyncio.Future[JsonValue] = asyncio.get_running_loop().create_future()
        self._open[question.id] = question, future
        return future

    def withdraw(self, question_id: str) -> None:
        """Close a question, answered or not."""
        self._open.pop(question_id, None)

    def open(self) -> Sequence[Question]:
        """What is asked and not answered yet, in order of asking."""
        return [question for question, future in self._open.values() if not future.done()]

    def answer(self, answers: Mapping[str, JsonValue]) -> None:
        """Answer questions: all that are given, or none.

        Raises:
            InvalidError: An answer breaks its question's schema, or nobody asks what it answers.
        """
        asked = {question.id: question for question in self.open()}
        issues: list[Issue] = []
        for question_id, value in answers.items():
            question = asked.get(question_id)
            if question is None:
                hint = did_you_mean(question_id, asked)
                issues.append(Issue("unknown-question", f"nobody asks this{hint}; open: {_names(asked)}", question_id))
            elif question.schema_ is not None:
                issues += [Issue("wrong-answer", fault, question_id) for fault in faults(question.schema_, value)]
        if issues:
            raise InvalidError("the answers", issues)
        for question_id, value in answers.items():
            self._open[question_id][1].set_result(value)


def _names(asked: Mapping[str, Question]) -> str:
    return ", ".join(asked) or "none"
