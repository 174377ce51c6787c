"""RunContext: the run that a function works in, as a parameter of operators and tools."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from operad.runtime import events
from operad.runtime.events import interrupts, journal

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RunContext:
    """Context of a function in a run: annotate a parameter of an operator or a tool with this class to receive it.

        @operator
        async def publish(answer: str, context: RunContext) -> str:
            if await context.ask(f"Publish this? {answer}", "boolean"):
                return await post(answer, key=context.idempotency_key)
            return "not published"

    Attributes:
        run_id: Id of the run; empty outside of runs.
        operator_id: Id of the operator.
        round: The round of the workflow, counted from 1.
        attempt: The operator's attempt in that round, counted from 1.
        lesson: The evaluator's lesson from the last round; empty in the first round.
        idempotency_key: Key for side effects: the same each time the same work is repeated.
    """

    run_id: str = ""
    operator_id: str = ""
    round: int = 1
    attempt: int = 1
    lesson: str = ""
    idempotency_key: str = ""

    @classmethod
    def current(cls, lesson: str | None = None) -> RunContext:
        """Return the context of the operator in which the current code runs.

        Args:
            lesson: The operator's lesson.
        """
        scope = events.current_scope()
        if scope is None:
            return cls(lesson=lesson or "")
        return cls(
            run_id=scope.run.root.log.run_id,
            operator_id=scope.operator_id,
            round=scope.round,
            attempt=scope.attempt,
            lesson=lesson or "",
            idempotency_key=journal.idempotency_key(),
        )

    @overload
    def ask(self, question: str, schema: type[T]) -> Coroutine[Any, Any, T]: ...
    @overload
    def ask(self, question: str, schema: object = None) -> Coroutine[Any, Any, Any]: ...
    def ask(self, question: str, schema: Any = None) -> Coroutine[Any, Any, Any]:
        """Ask a person and wait for the answer; see `interrupt`.

        Args:
            question: The question.
            schema: Form of the answer: a type such as a pydantic model, of which the answer is an instance; a JSON
                Schema; or a word such as ``boolean``. None for any answer.

        Raises:
            InputError: No run is in progress, or the answer fits the JSON Schema of the type, but not the type itself.
        """
        return interrupts.interrupt(question, schema)

    def emit(self, event: events.Event) -> None:
        """Emit an event, such as ``events.Progress(done=1, total=3)``."""
        events.emit(event)
