"""A reasoner that follows a script."""

from __future__ import annotations

import inspect
import json
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from operad.runtime.events import current_scope
from operad.runtime.reasoning.conversation import Form
from operad.runtime.reasoning.task import Task
from operad.runtime.testing.scripted_model import (
    LeftoverStepsError,
    UnexpectedStepError,
)
from operad.runtime.values.errors import AnswerError, did_you_mean, shorten
from operad.runtime.values.json_like import JsonLike, as_json
from operad.runtime.values.schema import SchemaMismatch

if TYPE_CHECKING:
    from typing import Self


def _validated(task: Task, answer: str) -> str:
    """Return an answer as normalized JSON that fits the task's schema; without a schema, unchanged.

    As a model's, an answer that does not fit counts if the check of the task parses it.
    """
    if task.output_schema.schema is None:
        return answer
    try:
        return Form(task.output_schema).read(answer)
    except SchemaMismatch as mismatch:
        parsed = _parsed(task, answer)
        if parsed is not None:
            return parsed
        raise AnswerError(
            f"the script's answer {answer[:80]!r} to {task.instruction[:80]!r} does not fit its output_schema: {mismatch}"
        ) from mismatch


def _parsed(task: Task, answer: str) -> str | None:
    """Return the object or list as which the check of a task parses an answer, as JSON; None if it does not."""
    try:
        value = task.check(answer) if task.check else None
    except Exception:  # noqa: BLE001 - a user's check may raise anything for an answer that does not fit
        return None
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else None


Answer = JsonLike | Exception | Callable[[Task], "JsonLike | Exception | Awaitable[JsonLike | Exception]"]
"""Answer of a scripted reasoner: a text, another value, which is converted to JSON, an error to raise, or a function of
a task that returns one of these."""

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
            instruction or the id of the operator that asks.

    Attributes:
        tasks: The tasks so far.
    """

    def __init__(self, script: Script | Mapping[str, Script]) -> None:
        self.tasks: list[Task] = []
        self._lock = threading.Lock()
        self._by_name = isinstance(script, Mapping)
        scripts = cast("Mapping[str, Script]", script if isinstance(script, Mapping) else {"": script})
        self._constant: dict[str, Answer] = {}
        self._in_sequence: dict[str, list[Answer]] = {}
        for name, part in scripts.items():
            if isinstance(part, Sequence) and not isinstance(part, str):
                self._in_sequence[name] = list(cast("Sequence[Answer]", part))
            else:
                self._constant[name] = cast("Answer", part)

    async def infer(self, task: Task) -> str:
        """Return the next answer of the script; for a task with an `output_schema`, as normalized JSON.

        Raises:
            UnexpectedStepError: The script has no answer for this task.
            AnswerError: The answer does not fit the task's `output_schema`.
        """
        with self._lock:
            self.tasks.append(task)
            answer: Any = self._next(task)
        if callable(answer):
            answer = answer(task)
            answer = await answer if inspect.isawaitable(answer) else answer
        if isinstance(answer, Exception):
            raise answer
        return _validated(task, answer if isinstance(answer, str) else json.dumps(as_json(answer), ensure_ascii=False))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        left = {name: len(answers) for name, answers in self._in_sequence.items() if answers}
        if left and error is None:
            whose = f", of {shorten(list(map(repr, left)))}" if self._by_name else ""
            told = f"the reasoner was asked {len(self.tasks)} times; answers left: {sum(left.values())}{whose}"
            raise LeftoverStepsError(told)

    def _next(self, task: Task) -> Answer:
        """Return the next answer for a task, or raise UnexpectedStepError."""
        known, scope = [*self._constant, *self._in_sequence], current_scope()
        names = [task.instruction, *([scope.operator_id] if scope else [])] if self._by_name else [""]
        name = next((each for each in names if each in known), None)
        if name is None:
            asked = " or ".join(map(repr, names))
            raise UnexpectedStepError(
                f"the script has no answers for {asked}{did_you_mean(names[-1], known)}; it has: {shorten(known)}"
            )
        if name in self._constant:
            return self._constant[name]
        if not self._in_sequence[name]:
            whose = f" for {name!r}" if name else ""
            raise UnexpectedStepError(f"call {len(self.tasks)} of the reasoner is more than its script holds{whose}")
        return self._in_sequence[name].pop(0)
