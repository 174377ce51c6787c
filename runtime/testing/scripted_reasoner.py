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


def _fitting(task: Task, answer: str) -> str:
    """The answer in the form that is asked for."""
    schema = parse_output_schema(task.output_schema)
    if schema is None:
        return answer
    try:
        return json.dumps(Form.of(schema).read(answer), ensure_ascii=False)
    except SchemaMismatch as mismatch:
        raise AnswerError(
            f"the script's answer {answer[:80]!r} to {task.instruction[:80]!r} does not fit its output_schema: {mismatch}"
        ) from mismatch


Answer = str | Mapping[str, Any] | BaseModel | Exception | Callable[[Task], "str | Awaitable[str]"]
"""Answer of a scripted reasoner: a text, a value that stands for its JSON, an error to raise, or a function of the task."""

Script = Answer | Sequence[Answer]
"""Answers in the order of the calls, or one for every call."""


class ScriptedReasoner:
    """A reasoner that answers from a script, and keeps the tasks it was given.

    An answer to a task with an `output_schema` must fit it, as that of a model must.

    As a context manager it raises `LeftoverStepsError` at the end when answers are left.

        reasoner = ScriptedReasoner(["first answer", "second answer"])
        reasoner = ScriptedReasoner({"List the claims.": "a, b", "Check them.": ["wrong", "right"]})
        reasoner = ScriptedReasoner(lambda task: task.job.goal.upper())

    Args:
        script: Answers in the order of the calls, or one answer for every call; either for all
            calls, or by the instruction of the operator that calls.

    Attributes:
        tasks: The tasks so far.
    """

    def __init__(self, script: Script | Mapping[str, Script]) -> None:
        self.tasks: list[Task] = []
        self._lock = threading.Lock()
        self._by_instruction = isinstance(script, Mapping)
        scripts = cast("Mapping[str, Script]", script if isinstance(script, Mapping) else {"": script})
        self._always: dict[str, Answer] = {}
        self._in_turn: dict[str, list[Answer]] = {}
        for instruction, part in scripts.items():
            if isinstance(part, str | Mapping | BaseModel | Exception) or callable(part):
                self._always[instruction] = part
            else:
                self._in_turn[instruction] = list(part)

    async def infer(self, task: Task) -> str:
        """The script's next answer; to a task with a form, as normalised JSON, as a model's answer is.

        Raises:
            UnexpectedStepError: The script holds none for this task.
            AnswerError: The answer does not fit the form that the task's `output_schema` asks for.
            InvalidError: The `output_schema` is a broken one.
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
        made = answer if isinstance(answer, str) else answer(task)
        return _fitting(task, made if isinstance(made, str) else await made)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        left = sum(map(len, self._in_turn.values()))
        if left and error is None:
            raise LeftoverStepsError(f"the reasoner was asked {len(self.tasks)} times; answers left: {left}")

    def _next(self, task: Task) -> Answer:
        instruction = task.instruction if self._by_instruction else ""
        if instruction in self._always:
            return self._always[instruction]
        if instruction not in self._in_turn:
            known = [*self._always, *self._in_turn]
            raise UnexpectedStepError(
                f"the script has no answers for {instruction!r}{did_you_mean(instruction, known)}"
            )
        if not self._in_turn[instruction]:
            whose = f" for {instruction!r}" if instruction else ""
            raise UnexpectedStepError(f"call {len(self.tasks)} of the reasoner is more than its script holds{whose}")
        return self._in_turn[instruction].pop(0)
