"""Context of the current code in a run, events emitted from there, and the trace of an operator that they leave.

Code inside an operator, a reasoner or a tool calls `emit(TokenStreamed(text="…"))`; its run, the operator's path,
the round, the attempt, the time and a sequence number are filled in. Outside a run `emit` does nothing, and in a run
without listeners it only adds up usage.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct
from pydantic import JsonValue

from operad.runtime.events.log import RunLog
from operad.runtime.events.types import (
    CacheHit,
    Event,
    EvidenceCut,
    FellBack,
    Interrupted,
    KnowledgeRetrieved,
    ModelAnswered,
    ModelAsked,
    OperatorRetried,
    Resumed,
    ThinkingStreamed,
    TokenStreamed,
    ToolCalled,
    ToolReturned,
)
from operad.runtime.values.errors import InputError
from operad.runtime.values.message import NO_USAGE, Job, Usage, WorkflowMessage
from operad.runtime.values.step_record import StepRecord, ToolUse

if TYPE_CHECKING:
    from operad.runtime.policies.deadline import Deadline
    from operad.runtime.policies.limits import Limiter, Place, SharedLimits
    from operad.runtime.policies.policy import Budget
    from operad.runtime.values.questions import Question, Questions


MOST_CALLS = 100
"""Maximum number of tool calls of an operator that are kept."""

MORE_CALLS = f"only the first {MOST_CALLS} are kept"

CACHED = "the result is from the cache"


class Trace:
    """Trace of an attempt of an operator.

        trace = Trace()
        trace.note(ToolCalled(call_id="1", tool="search", arguments={"claim": "The moon has air."}))
        trace.note(ToolReturned(call_id="1", tool="search", result="It has none.", failed=False, seconds=0.1))
        print(*trace.calls)  # search({"claim": "The moon has air."}): It has none.

    Attributes:
        calls: Tool calls of the operator, in the order in which they ended; the first `MOST_CALLS`.
        calls_missing: Why calls are missing; empty if all are there.
        passages: Source and text of the passages that the operator retrieved.
        cut: For an evaluator: ids of the operators of which it was shown a part only.
        exchange: Conversation with the model that gave the answer, an `Exchange`; None if it is not kept.
        inner: Outcomes of the workflows that ran inside the operator, by the last step of their paths.
    """

    __slots__ = ("_arguments", "calls", "calls_missing", "cut", "exchange", "inner", "passages")

    def __init__(self) -> None:
        self.calls: list[ToolUse] = []
        self.calls_missing = ""
        self.passages: tuple[tuple[str, str], ...] = ()
        self.cut: tuple[str, ...] = ()
        self.exchange: Any = None
        self.inner: dict[str, Any] = {}
        self._arguments: dict[str, str] = {}

    def note(self, event: Event) -> None:
        """Note what an event of the operator tells."""
        if isinstance(event, ToolCalled):
            self._arguments[event.call_id] = json.dumps(event.arguments, ensure_ascii=False, default=str)
        elif isinstance(event, ToolReturned):
            arguments = self._arguments.pop(event.call_id, "")
            if len(self.calls) == MOST_CALLS:
                self.calls_missing = MORE_CALLS
                return
            use = ToolUse(tool=event.tool, arguments=arguments, result=event.result, failed=event.failed)
            self.calls.append(use)
        elif isinstance(event, KnowledgeRetrieved):
            self.passages += tuple(zip(event.sources, event.texts, strict=False))
        elif isinstance(event, EvidenceCut):
            self.cut = tuple(event.operators)
        elif isinstance(event, CacheHit):
            self.calls_missing = CACHED


_NOTED = (ToolCalled, ToolReturned, KnowledgeRetrieved, EvidenceCut, CacheHit)
"""Events that a trace notes."""

NO_INNER: Mapping[str, Any] = {}
"""No outcomes of workflows inside an operator."""


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
        elif isinstance(event, _NOTED):
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
