"""A reasoner that follows a script."""

from __future__ import annotations

import json
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel

from operad.runtime.reasoning.conversation import Form
from operad.runtime.reasoning.task import Task
from operad.runtime.testing.scripted_model import (
    LeftoverStepsError,
    UnexpectedStepError,
)
from operad.runtime.values.errors import AnswerError, did_you_mean
from operad.runtime.values.schema import SchemaMismatch, parse_output_schema

if TYPE_CHECKING:
    from typing_extensions import Self


def _validated(task: Task, answer: str) -> str:
    """Return an answer as normalized JSON that fits the task's schema; without a schema, unchanged.

    Raises:
        AnswerError: The answer does not fit the schema.
    """
    schema = parse_output_schema(task.output_schema)
    if schema is None:
        return answer
    try:
        return Form.of(schema).read(answer)
    except SchemaMismatch as mismatch:
        raise AnswerError(
            f"the script's answer {answer[:80]!r} to {task.instruction[:80]!r} does not fit its output_schema: {mismatch}"
        ) from mismatch


Answer = str | Mapping[str, Any] | BaseModel | Exception | Callable[[Task], "str | Awaitable[str]"]
"""Answer of a scripted reasoner: a text, a value to convert to JSON, an error to raise, or a function of a task."""

Script = Answer | Sequence[Answer]
"""Answers in the order of the calls, or one answer for every call."""


class ScriptedReasoner:
    """Reasoner that answers from a script, and records its tasks.

    An answer to a task with an `output_schema` must fit the schema, as the answer of a model must.

    As a context manager, the reasoner raises `LeftoverStepsError` at the end if answers are left.

        reasoner = ScriptedReasoner(["first answer", "second answer"])
        reasoner = ScriptedReasoner({"List the claims.": "a, b", "Check them.": ["wrong", "right"]})
        reasoner = ScriptedReasoner(lambda task: task.job.goal.upper())

    Args:
        script: Answers in the order of the calls, or one answer for every call. Alternatively, a dict of these by the
            instruction of the operator that asks.

    Attributes:
        tasks: The tasks so far.
    """

    def __init__(self, script: Script | Mapping[str, Script]) -> None:
        self.tasks: list[Task] = []
        self._lock = threading.Lock()
        self._by_instruction = isinstance(script, Mapping)
        scripts = cast("Mapping[str, Script]", script if isinstance(script, Mapping) else {"": script})
        self._constant: dict[str, Answer] = {}
        self._in_sequence: dict[str, list[Answer]] = {}
        for instruction, part in scripts.items():
            if isinstance(part, str | Mapping | BaseModel | Exception) or callable(part):
                self._constant[instruction] = part
            else:
                self._in_sequence[instruction] = list(part)

    async def infer(self, task: Task) -> str:
        """Return the next answer of the script; for a task with an `output_schema`, as normalized JSON.

        Raises:
            UnexpectedStepError: The script has no answer for this task.
            AnswerError: The answer does not fit the task's `output_schema`.
            InvalidError: The `output_schema` is not valid.
        """
        with self._lock:
            self.tasks.append(task)
            answer = self._next(task)
        if isinstance(answer, BaseModel):
            answer = answer.model_dump_json()
        elif isinstance(answer, Mapping):
            answer = json.dumps(answer, ensure_ascii=False)
        if isinstance(answer, Exception):
            raise answer
        text = answer if isinstance(answer, str) else answer(task)
        return _validated(task, text if isinstance(text, str) else await text)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        left = sum(map(len, self._in_sequence.values()))
        if left and error is None:
            raise LeftoverStepsError(f"the reasoner was asked {len(self.tasks)} times; answers left: {left}")

    def _next(self, task: Task) -> Answer:
        """Return the next answer for a task, or raise UnexpectedStepError."""
        instruction = task.instruction if self._by_instruction else ""
        if instruction in self._constant:
            return self._constant[instruction]
        if instruction not in self._in_sequence:
            known = [*self._constant, *self._in_sequence]
            raise UnexpectedStepError(
                f"the script has no answers for {instruction!r}{did_you_mean(instruction, known)}"
            )
        if not self._in_sequence[instruction]:
            whose = f" for {instruction!r}" if instruction else ""
            raise UnexpectedStepError(f"call {len(self.tasks)} of the reasoner is more than its script holds{whose}")
        return self._in_sequence[instruction].pop(0)
