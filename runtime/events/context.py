"""Where in a run the current code is, and what it says there.

Whoever runs inside an operator, a reasoner or a tool says `emit(TokenStreamed(text="…"))`; the run that
it belongs to, the operator's path, the round, the attempt, the time and a sequence number are
filled in from where the call is made. Outside a run `emit` does nothing, and in a run that nobody
listens to it only keeps the account of usage.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct
from pydantic import JsonValue

from operad.runtime.events.log import RunLog
from operad.runtime.events.types import Event, Interrupted, ModelAnswered, ModelAsked, Resumed, TokenStreamed
from operad.runtime.values.message import NO_USAGE, Job, StepRecord, Usage, WorkflowMessage

if TYPE_CHECKING:
    from operad.runtime.policies.deadline import Deadline
    from operad.runtime.policies.limits import Limiter, Place, SharedLimits
    from operad.runtime.policies.policy import Budget
    from operad.runtime.values.questions import Question, Questions


class StepJournal(Protocol):
    """Keeps what comes of the operators of a run, so that none whose message is kept runs again."""

    async def perform(self, node: Any, call: Any, scope: Scope) -> WorkflowMessage:
        """The kept message; where there is none, have the work done and keep what comes of it.

        Raises:
            BaseException: What the operator raised, now or then.
        """
        ...

    async def once(self, name: str, scope: Scope, work: Callable[[], Awaitable[WorkflowMessage]]) -> WorkflowMessage:
        """The same for a part of an operator's work that has a name of its own in it."""
        ...

    async def answer_to(self, question: Question, scope: Scope) -> tuple[JsonValue] | None:
        """Note that it is asked; return the answer, if one is kept already."""
        ...

    async def keep_answer(self, question_id: str, value: JsonValue, scope: Scope) -> None:
        """Keep an answer."""
        ...


class RunInProgress(Protocol):
    """A run, as those who work in it see it."""

    log: RunLog
    job: Job
    outer: Scope | None
    questions: Questions
    budget: Budget
    calls: tuple[Limiter, ...]
    shared_limits: SharedLimits | None
    journal: StepJournal | None
    usage: Usage
    workflow: str
    finished: dict[str, WorkflowMessage] | None
    idle: int

    @property
    def insights(self) -> object | None:
        """What it remembers of earlier runs: a `RunInsights`."""
        ...

    def transcript(self) -> tuple[StepRecord, ...]:
        """What operators have said, as it stands."""
        ...

    @property
    def root(self) -> RunInProgress:
        """The outermost run."""
        ...

    def spend(self, usage: Usage) -> None:
        """Add to what it has used."""
        ...

    def check_budget(self, *, by_next: bool = False) -> None:
        """Raise a `BudgetError` if its budget is exceeded, or would be by another model call."""
        ...

    def waiting(self, scope: Scope) -> AbstractAsyncContextManager[None]:
        """While one of its operators waits for a person."""
        ...

    def look_whether_paused(self) -> None:
        """See whether all of it waits for a person."""
        ...


class Scope(Struct, kw_only=True, eq=False):
    """Where in a run the current code is.

    Attributes:
        run: The run of the workflow whose operator it is.
        path: The operator's path, as in events.
        operator_id: The operator.
        round: The round.
        attempt: The operator's attempt in that round.
        usage: What it used so far, all attempts and all inside it included.
        deadlines: What limits the time of the attempt, and of tools that it calls.
        place: Its place among the operators that may run at once.
        waits_for: How many workflows run inside it, and questions are open.
        questions: How many questions it has asked.
        around: Whether it does nothing but run workflows, in places of their own.
        kept: The events that are kept with its message; None where no message is.
        key: What it is known by in its run, where the operators around it are in another process.
    """

    run: RunInProgress
    path: tuple[str, ...]
    operator_id: str
    round: int
    attempt: int = 1
    usage: Usage = NO_USAGE
    deadlines: list[Deadline] = []
    place: Place | None = None
    waits_for: int = 0
    questions: int = 0
    around: bool = False
    kept: list[Event] | None = None
    key: str = ""

    def outwards(self) -> Generator[Scope, None, None]:
        """This scope, that of the operator around its workflow, and so on."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.run.outer

    def sign_of_life(self) -> None:
        """Something happens here: whoever waits for that, here or further out, waits anew."""
        for scope in self.outwards():
            for deadline in scope.deadlines:
                deadline.sign_of_life()

    def write(self, event: Event) -> None:
        """Write an event that happened here."""
        if self.kept is not None and not isinstance(event, TokenStreamed | ModelAsked | Interrupted | Resumed):
            self.kept.append(event)
        self.run.log.write(event, self.path, self.operator_id, self.round, self.attempt)

    def charge(self, usage: Usage) -> None:
        """Add to the account of this operator, of its run, and of those around it.

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
"""Makes a scope the current one in this context."""


def current_scope() -> Scope | None:
    """The operator run that the current code is part of, or None outside of runs."""
    return _scope.get()


def heard() -> bool:
    """Whether anybody hears what is said where this is called; else an event that is costly to make need not be."""
    scope = _scope.get()
    return scope is not None and (scope.run.log.heard or scope.kept is not None)


def emit(event: Event) -> None:
    """Say that `event` happened in the operator that the current code runs in.

    Raises:
        BudgetError: It is a `ModelAnswered`, and the run's budget is exceeded by it.
    """
    scope = _scope.get()
    if scope is None:
        return
    scope.sign_of_life()
    scope.write(event)
    if isinstance(event, ModelAnswered):
        scope.charge(event.usage)
