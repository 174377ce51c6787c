"""RunContext: the run that a function works in, as a parameter of operators and tools."""

from __future__ import annotations

import re
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, overload

from typing_extensions import TypeVar

from operad.runtime import events
from operad.runtime.events import interrupts, journal
from operad.runtime.policies.policy import causes
from operad.runtime.values.errors import InputError

if TYPE_CHECKING:
    from typing_extensions import TypeForm

T = TypeVar("T")
D = TypeVar("D", default=Any, covariant=True)

_START = "RunContext["
_MODULE = re.compile(r"\b(\w+\.)+")
_OPTIONAL = re.compile(r"None|NoneType|Any|object|[~+-]\w+|Optional\[.*\]")


class MissingDepsError(InputError):
    """A function or a tool takes `RunContext.deps`, and the run has none.

    Example:
        @operator
        def count(context: RunContext[list[str]]) -> int:
            return len(context.deps)

        try:
            Workflow(count).run("Count.")  # without deps=["a", "b"]
        except MissingDepsError as error:
            print(error)
    """

    @classmethod
    def of(cls, operator_id: str, deps_type: str) -> MissingDepsError:
        """Return the error of an operator, or outside of runs of a function, that requires deps of a type."""
        who = f"operator {operator_id!r}" if operator_id else "a function"
        return cls(
            f"{who} takes deps ({deps_type}), and this run has none: give them to run, arun, start, stream, chat or "
            "as_awel: flow.run(job, deps=…). They are not stored: a durable run that is resumed needs them again; "
            "commands, servers and workers have none"
        )


@dataclass(frozen=True, slots=True)
class RunContext(Generic[D]):
    """Context of a function in a run: annotate a parameter of an operator or a tool with this class to receive it.

        @operator
        async def publish(answer: str, context: RunContext) -> str:
            if await context.ask(f"Publish this? {answer}", bool):
                return await post(answer, key=context.idempotency_key)
            return "not published"

    The class is generic in the type of the deps, an object that the caller gives to the run: a parameter
    ``context: RunContext[Database]`` gets the database of ``flow.run(job, deps=database)`` as ``context.deps``.

    Attributes:
        run_id: Id of the run; empty outside of runs.
        operator_id: Id of the operator.
        round: The round of the workflow, counted from 1.
        attempt: The operator's attempt in that round, counted from 1.
        lesson: Lessons for the operator from the verdicts of earlier rounds, a line each; empty in the first round.
        idempotency_key: Key for side effects: the same each time the same work is repeated.
        deps: Object that the caller gave to the run; None if there is none. It is not stored.
    """

    run_id: str = ""
    operator_id: str = ""
    round: int = 1
    attempt: int = 1
    lesson: str = ""
    idempotency_key: str = ""
    deps: D = None  # type: ignore[assignment]

    @classmethod
    def current(cls, lesson: str | None = None, annotation: Any = None) -> RunContext[Any]:
        """Return the context of the operator in which the current code runs.

        Args:
            lesson: The operator's lesson.
            annotation: Annotation of the parameter that gets the context.

        Raises:
            MissingDepsError: The annotation names a type of deps, and the run has none.
        """
        scope = events.current_scope()
        deps: Any = scope.run.deps if scope else None
        if deps is None and (wanted := deps_in(annotation)):
            raise MissingDepsError.of(scope.operator_id if scope else "", wanted)
        if scope is None:
            return RunContext(lesson=lesson or "")
        return RunContext(
            run_id=scope.run.root.log.run_id,
            operator_id=scope.operator_id,
            round=scope.round,
            attempt=scope.attempt,
            lesson=lesson or "",
            idempotency_key=journal.idempotency_key(),
            deps=deps,
        )

    @overload
    def ask(self, question: str, schema: type[T], *, answer_by: Sequence[str] = ()) -> Coroutine[Any, Any, T]: ...
    @overload
    def ask(
        self, question: str, schema: str | Mapping[str, Any] | None = None, *, answer_by: Sequence[str] = ()
    ) -> Coroutine[Any, Any, Any]: ...
    @overload
    def ask(self, question: str, schema: TypeForm[T], *, answer_by: Sequence[str] = ()) -> Coroutine[Any, Any, T]: ...
    def ask(self, question: str, schema: Any = None, *, answer_by: Sequence[str] = ()) -> Coroutine[Any, Any, Any]:
        """Ask a person and wait for the answer; see `interrupt`.

        Args:
            question: The question.
            schema: Form of the answer: a type such as a pydantic model, of which the answer is an instance; a JSON
                Schema; or a word such as ``boolean``. None for any answer.
            answer_by: Names of the people who may answer; empty for anyone.

        Raises:
            InputError: No run is in progress, or the answer fits the JSON Schema of the type, but not the type itself.
        """
        return interrupts.interrupt(question, schema, answer_by=answer_by)

    def emit(self, event: events.Event) -> None:
        """Emit an event, such as ``events.Progress(done=1, total=3)``."""
        events.emit(event)


def lacks_deps(error: BaseException) -> bool:
    """Return True if a function lacked its deps, in the run of the error or in one inside it."""
    return any(isinstance(link, MissingDepsError) for link in causes(error))


def deps_in(annotation: Any) -> str:
    """Return the type of the deps in an annotation such as ``RunContext[Database]``; empty if deps are optional."""
    text = annotation if isinstance(annotation, str) else str(annotation)
    if _START not in text:
        return ""
    inner = next(_parts(text.partition(_START)[2], end="]"))
    named = _MODULE.sub("", re.sub(r"ForwardRef\('(.*?)'\)", r"\1", inner)).strip("'\"")
    return "" if any(_OPTIONAL.fullmatch(part.strip()) for part in _parts(named, end="|")) else named


def _parts(text: str, end: str) -> Iterator[str]:
    """Yield the parts of a type's text between the ends that stand in no brackets."""
    depth, start = 0, 0
    for at, char in enumerate(text):
        if char == end and not depth:
            yield text[start:at]
            start = at + 1
        depth += (char == "[") - (char == "]")
    yield text[start:]
