"""Context of the current code in a run, and events emitted from there.

Code inside an operator, a reasoner or a tool calls `emit(TokenStreamed(text="…"))`; its run, the operator's path,
the round, the attempt, the time and a sequence number are filled in. Outside a run `emit` does nothing, and in a run
without listeners it only adds up usage.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct
from pydantic import JsonValue

from operad.runtime.events.log import RunLog
from operad.runtime.events.trace import NO_INNER, NOTED, Trace
from operad.runtime.events.types import (
    Event,
    FellBack,
    Interrupted,
    ModelAnswered,
    ModelAsked,
    OperatorRetried,
    Resumed,
    ThinkingStreamed,
    TokenStreamed,
)
from operad.runtime.values.errors import InputError
from operad.runtime.values.message import NO_USAGE, Job, Usage, WorkflowMessage
from operad.runtime.values.step_record import StepRecord

if TYPE_CHECKING:
    from operad.runtime.policies.deadline import Deadline
    from operad.runtime.policies.limits import Limiter, Place, SharedLimits
    from operad.runtime.policies.policy import Budget
    from operad.runtime.values.questions import Question, Questions


class StepJournal(Protocol):
    """Journal of the outcomes of a run's operators; an operator with a kept message does not run again."""

    async def perform(self, node: Any, call: Any, scope: Scope) -> WorkflowMessage:
        """Return the kept message of an operator; if there is none, run the operator and keep its outcome.

        Raises:
            BaseException: The error of the operator, raised now or kept.
        """
        ...

    async def once(self, name: str, scope: Scope, work: Callable[[], Awaitable[WorkflowMessage]]) -> WorkflowMessage:
        """Return the kept message of a named part of an operator's work; if there is none, do the work and keep it."""
        ...

    async def parts(self, scope: Scope) -> Mapping[str, str]:
        """Return the parts of an operator's unfinished work that ended processes have kept, by name."""
        ...

    async def keep_part(self, scope: Scope, name: str, value: str) -> None:
        """Keep a part of an operator's work until the operator's outcome is kept."""
        ...

    async def asked_before(self, scope: Scope) -> Sequence[tuple[str, tuple[str, str, str]]]:
        """Return the ids and contents of the operator's kept questions; see `content_of`."""
        ...

    async def answer_to(self, question: Question, scope: Scope) -> tuple[JsonValue] | None:
        """Record a question; return the kept answer in a tuple, or None if the question is open."""
        ...

    async def keep_answer(self, question: Question, value: JsonValue, scope: Scope, by: str) -> JsonValue:
        """Keep an answer, and the name of the person who gave it; return the one that was kept first."""
        ...


class RunInProgress(Protocol):
    """A run, as seen by code inside it; see `operad.runtime.workflow.run.Run`."""

    build: Any
    budget: Budget
    connections: Any
    insights: Any
    log: RunLog
    outer: Scope | None
    deps: Any
    pinned: Mapping[str, WorkflowMessage] | None
    questions: Questions
    calls: tuple[Limiter, ...]
    shared_limits: SharedLimits | None
    journal: StepJournal | None
    usage: Usage
    finished: dict[str, WorkflowMessage] | None
    idle: int
    repeats: bool

    @property
    def job(self) -> Job:
        """The job."""
        ...

    @property
    def reasoner(self) -> object:
        """The reasoner of the run: a `Reasoner`."""
        ...

    @property
    def workflow(self) -> str:
        """The name of the workflow."""
        ...

    def transcript(self) -> tuple[StepRecord, ...]:
        """Return the records of the operators that have finished so far."""
        ...

    @property
    def root(self) -> RunInProgress:
        """The outermost run."""
        ...

    def spend(self, usage: Usage) -> None:
        """Add to the usage of the run."""
        ...

    def check_budget(self, *, by_next: bool = False) -> None:
        """Raise a `BudgetError` if the budget is exceeded, or with `by_next` if nothing is left for another call."""
        ...

    def waiting(self, scope: Scope) -> AbstractAsyncContextManager[None]:
        """Return a context manager for the time in which an operator of the run waits for a person."""
        ...

    def check_paused(self) -> None:
        """Report the run as paused if all operators in progress, also in nested runs, wait for a person."""
        ...


class Scope(Struct, kw_only=True, eq=False):
    """Context of an operator in a run.

    Attributes:
        attempt: The operator's attempt in that round.
        usage: Usage of the operator so far, including all attempts and nested operators.
        finish_reason: Reason for the end of its latest answer of a model, in the endpoint's words.
        deadlines: Running time limits of the attempt and of the tools that it calls.
        place: Place of the operator among those that may run concurrently.
        waits_for: Number of workflows that run inside the operator, plus its open questions.
        works: Number of concurrent parts of the operator that work meanwhile; see `at_work`.
        asked: Ids of the questions that the operator has asked.
        asked_before: Task that reads the questions of earlier processes; None before the first question.
        parts: Number of parts of the operator's work so far, by attempt and name; see `numbered`.
        runs_workflows: True if the operator only runs workflows, whose operators take places of their own.
        trace: Trace of the attempt; None without anything to note.
        earlier: Outcomes of the workflows inside the operator in the last round, by the last step of their paths.
        kept: Events to be kept with the operator's message; None if no message is kept.
        heard: True if events have listeners or are kept; if not, events that are costly to create can be omitted.
        key: Key of the operator in the run, if the enclosing operators are in another process.
        around: Ids of the enclosing operators, if they are in another process.
    """

    run: RunInProgress
    path: tuple[str, ...]
    operator_id: str
    round: int
    attempt: int = 1
    usage: Usage = NO_USAGE
    finish_reason: str = ""
    deadlines: list[Deadline] = []
    place: Place | None = None
    waits_for: int = 0
    works: int = 0
    asked: frozenset[str] = frozenset()
    asked_before: asyncio.Task[Any] | None = None
    parts: dict[tuple[int, str], int] = {}
    runs_workflows: bool = False
    trace: Trace | None = None
    earlier: Mapping[str, Any] = NO_INNER
    kept: list[Event] | None = None
    heard: bool = False
    key: str = ""
    around: tuple[str, ...] = ()

    def begin_waiting(self) -> None:
        """Count another nested run or open question that the operator waits for."""
        self.waits_for += 1
        if self.waits_for == 1 and not self.works:
            self.run.idle += 1

    def end_waiting(self) -> None:
        """Undo `begin_waiting`."""
        self.waits_for -= 1
        if not (self.waits_for or self.works):
            self.run.idle -= 1

    @contextmanager
    def at_work(self) -> Generator[None, None, None]:
        """Count the operator as working in the block, although runs inside it may wait for a person."""
        self.works += 1
        if self.works == 1 and self.waits_for:
            self.run.idle -= 1
        try:
            yield
        finally:
            self.works -= 1
            if not self.works and self.waits_for:
                self.run.idle += 1
                if self.run.questions.asked:  # checked later, when the operator had the time to start a run
                    asyncio.get_running_loop().call_soon(self.run.root.check_paused)

    def outwards(self) -> Generator[Scope, None, None]:
        """Yield this scope, then the scopes of the enclosing operators, innermost first."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.run.outer

    def is_inside(self, operator_id: str) -> bool:
        """Return True if an operator is this one, or contains it, also in another process."""
        scope: Scope | None = self
        while scope is not None:
            if operator_id == scope.operator_id or operator_id in scope.around:
                return True
            scope = scope.run.outer
        return False

    def sign_of_life(self) -> None:
        """Restart the idle timers of this scope and the enclosing ones."""
        scope: Scope | None = self
        while scope is not None:  # not `outwards`, which is several times slower; every operator calls this
            for deadline in scope.deadlines:
                deadline.sign_of_life()
            scope = scope.run.outer

    def write(self, event: Event) -> None:
        """Write an event of this scope."""
        if self.kept is not None and not isinstance(
            event, TokenStreamed | ThinkingStreamed | ModelAsked | Interrupted | Resumed
        ):
            self.kept.append(event)
        if isinstance(event, OperatorRetried | FellBack):
            self.trace = None
        elif isinstance(event, NOTED):
            self.traced().note(event)
        self.run.log.write(event, self.path, self.operator_id, self.round, self.attempt)

    def traced(self) -> Trace:
        """Return the trace of the attempt, which is created if it is not there."""
        if self.trace is None:
            self.trace = Trace()
        return self.trace

    def charge(self, usage: Usage) -> None:
        """Add usage to this operator, the enclosing operators, and their runs.

        Raises:
            BudgetError: A run's budget is exceeded.
        """
        for scope in self.outwards():
            scope.usage = scope.usage + usage
            scope.run.spend(usage)
        for scope in self.outwards():
            scope.run.check_budget()


_scope: ContextVar[Scope | None] = ContextVar("operad_scope", default=None)
enter = _scope.set
"""Make a scope the current one in this context."""
current_scope: Callable[[], Scope | None] = _scope.get
"""Return the scope of the operator in which the current code runs; None outside of runs."""


def heard() -> bool:
    """Return True if events of the current code have listeners; if not, costly events can be omitted."""
    scope = _scope.get()
    return scope is not None and scope.heard


def emit(event: Event) -> None:
    """Emit an event of the operator in which the current code runs.

    Raises:
        BudgetError: The event is a `ModelAnswered` whose usage exceeds the budget of the run.
        InputError: The object is not an event.
    """
    if not isinstance(event, Event):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"emit(…): expected an event, such as events.Progress(done=1, total=3); got {event!r:.100}")
    scope = _scope.get()
    if scope is None:
        return
    scope.sign_of_life()
    scope.write(event)
    if isinstance(event, ModelAnswered):
        scope.finish_reason = event.finish_reason
        scope.charge(event.usage)
