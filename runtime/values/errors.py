"""One tree of errors.

OperadError                 operator_id, attempt; the cause is chained
├── InvalidError            what was given is wrong: .issues, all found at once
├── InputError              a file or a value that a run cannot work with
├── OperatorError           an operator raised while a workflow ran
├── OperatorTimeoutError    an attempt of an operator took longer than its policy allows
├── FaultError              an operator says who is at fault, and what to do better
├── PortError               an operator took a port that it does not have
├── SkippedError            every way to the end of a workflow was skipped
├── JobError                a leader's expert cannot do its part of a job
├── BudgetError             a run used more than its budget
├── PausedError             a run waits for a person's answers
├── ModelError              a model's endpoint failed: unreachable, refused, broken
│   └── RequestError        it works, and does not take this one request: too long, not allowed
├── FetchError              an address of the web could not be fetched, or may not be
├── AnswerError             a model answered, but never as its schema asks
├── ToolError               a tool could not be made or called as asked
├── MissingExtraError       an optional dependency is not installed
└── RunningLoopError        a synchronous door was used inside a running event loop
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from operad.runtime.values.message import Usage, WorkflowMessage
    from operad.runtime.values.questions import Question


@dataclass(frozen=True, slots=True)
class Issue:
    """One fault found by a static check.

    Attributes:
        code: What kind of fault, in lower case with dashes: ``cycle``, ``unknown-key``.
        message: What is wrong and what to do.
        where: Where: an operator id, a file with its line, or a path inside a document.
    """

    code: str
    message: str
    where: str = ""

    def __str__(self) -> str:
        return f"[{self.code}] {self.where}: {self.message}" if self.where else f"[{self.code}] {self.message}"


class OperadError(Exception):
    """The base of every error this package raises on purpose.

        try:
            Operator("Say.", output="nonsense")
        except OperadError as error:
            print(error)

    Args:
        message: What happened, where, why, and what to do.
        operator_id: The operator concerned, if one is.
        attempt: Its attempt, counted from 1; 0 when no operator is concerned.

    Attributes:
        finished: The messages of what had finished before, by id or path, where a run or a map was at work.
    """

    def __init__(self, message: str, *, operator_id: str = "", attempt: int = 0) -> None:
        super().__init__(message)
        self.operator_id = operator_id
        self.attempt = attempt
        self.finished: Mapping[str, WorkflowMessage] = {}


class InvalidError(OperadError):
    """A workflow or a configuration that cannot be used; ``issues`` holds every fault found.

        try:
            Workflow().run("hello")
        except InvalidError as error:
            print(error.issues[0].code)  # no-operators

    Each issue has a ``code``, a ``message`` and its place, ``where``.
    """

    def __init__(self, subject: str, issues: Sequence[Issue]) -> None:
        self.issues = tuple(issues)
        count = f"{len(issues)} issue" + ("s" if len(issues) != 1 else "")
        super().__init__("\n  ".join([f"{subject}: {count}", *map(str, issues)]))


class InputError(OperadError):
    """A file or a value that a run cannot work with.

        try:
            FileDescriptor.of("no-such-file.txt")
        except InputError as error:
            print(error)

    The message says which one, and what to do.
    """


class OperatorError(OperadError):
    """An operator raised. The original error is the ``__cause__``.

    Attributes:
        workflow: The name of the workflow that it belongs to.
        round: The round of the workflow, counted from 1.
        cancelled: The paths of the operators that were stopped for it.
        finished: The messages of the operators that had finished, by id; and those of the items of a map that
            failed, by its id and their place.
    """

    def __init__(self, workflow: str, operator_id: str, attempt: int, cause: BaseException, round: int = 1) -> None:
        self.workflow = workflow
        self.round = round
        self.cancelled: tuple[str, ...] = ()
        of_round = f" of round {round}" if round > 1 else ""
        super().__init__(
            f"operator {operator_id!r} of workflow {workflow!r} failed on attempt {attempt}{of_round}: "
            f"{describe(cause)}",
            operator_id=operator_id,
            attempt=attempt,
        )

    def __str__(self) -> str:
        text = super().__str__()
        return f"{text} (stopped for it: {shorten(self.cancelled)})" if self.cancelled else text


class OperatorTimeoutError(OperadError, TimeoutError):
    """An attempt of an operator ran, or was silent, longer than its `Timeout` allows."""


class FaultError(OperadError):
    """What an operator raises that finds a fault in what it was given, or in what it made.

        @operator
        def newest(facts: Claims) -> str:
            if not facts.claims:
                raise FaultError("there is no claim", lesson="List one claim at least.", blame=["facts"])
            return facts.claims[-1]

    Where the workflow has rounds left, the blamed operators and all that depends on them run again
    with the lesson.

    Args:
        message: What is wrong.
        lesson: What to do better; by default the message.
        blame: The ids of the operators at fault; by default the one that raises.
    """

    def __init__(self, message: str, *, lesson: str = "", blame: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.lesson = lesson
        self.blame = (blame,) if isinstance(blame, str) else tuple(blame)


class PortError(OperadError):
    """An operator took a port that it does not have, and that no edge leaves from."""


class SkippedError(OperadError):
    """Every tail of a workflow was skipped, so that it has no result; the message names the ports that did it."""


class JobError(OperadError):
    """An expert cannot do a part of a job, and nothing that its leader may still try would help.

    Attributes:
        verdict: How the part was judged; None where the expert failed with an error, which is the cause.
    """

    def __init__(self, message: str, *, operator_id: str, verdict: WorkflowMessage | None = None) -> None:
        super().__init__(message, operator_id=operator_id)
        self.verdict = verdict


class BudgetError(OperadError):
    """A run used more than its `Budget`.

    Attributes:
        usage: What it used.
        finished: The messages of the operators that had finished, by id; those inside another
            operator by their path, with slashes.
    """

    def __init__(self, message: str, usage: Usage) -> None:
        super().__init__(message)
        self.usage = usage


class PausedError(OperadError):
    """A run waits for a person's answers, and nothing else in it can go on.

        @operator
        async def order(job: Job, context: RunContext) -> str:
            return "ordered" if await context.ask(f"Order {job.goal}?", "boolean") else "left"

        shop = Workflow(order)
        try:
            shop.run("two figs")
        except PausedError as paused:
            message = shop.resume(paused.run_id, {question.id: True for question in paused.questions})

    Attributes:
        run_id: The run, which goes on with ``workflow.resume(run_id, answers)``.
        questions: What it asks.
    """

    def __init__(self, run_id: str, questions: Sequence[Question]) -> None:
        self.run_id = run_id
        self.questions = tuple(questions)
        asked = "\n  ".join(f"{question.id}: {question.text}" for question in questions)
        super().__init__(f"run {run_id!r} waits for answers; give them to resume(run_id, {{id: answer}}):\n  {asked}")


class ModelError(OperadError):
    """A model's endpoint could not be reached, refused the call, or broke off.

    Attributes:
        transient: Whether the same call may well succeed a little later.
        retry_after: Seconds that the endpoint asks to wait first, if it does.
    """

    def __init__(self, message: str, *, transient: bool = False, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.transient = transient
        self.retry_after = retry_after


class RequestError(ModelError):
    """A model's endpoint works, and does not take this one request: it is too long, say, or asks what it will not do."""


class FetchError(OperadError):
    """An address of the web could not be fetched, or may not be.

    Attributes:
        transient: Whether the same request may well succeed a little later.
    """

    def __init__(self, message: str, *, transient: bool = False) -> None:
        super().__init__(message)
        self.transient = transient


class AnswerError(OperadError):
    """A model said nothing, or never answered as its schema asks."""


class ToolError(OperadError):
    """A tool that cannot be made from a function, or that was called with wrong arguments."""


class MissingExtraError(OperadError):
    """A feature whose optional dependency is not installed; the message says what to install."""


class RunningLoopError(OperadError):
    """A synchronous method was called where an event loop is already running."""


def describe(error: BaseException) -> str:
    """The error in one line: our own errors by their text, others with their type in front."""
    if isinstance(error, OperadError):
        return str(error)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``" (did you mean 'x'?)"`` for the nearest known name, or an empty string."""
    nearest = near_name(name, known)
    return f" (did you mean {nearest!r}?)" if nearest else ""


def near_name(name: str, known: Iterable[str]) -> str:
    """Return the nearest known name, or an empty string."""
    return next(iter(get_close_matches(name, list(known), n=1, cutoff=0.6)), "")


MOST_COMPARED = 200_000
"""With how many names others are compared, in one check, to find near ones; each takes some 10 microseconds."""

_LONGEST_NAME = 200
"""The longest name, in characters, that near ones are looked for."""


class Hints:
    """Near names, for as many as one check may cost."""

    def __init__(self) -> None:
        self._left = MOST_COMPARED

    def near(self, name: str, known: Collection[str]) -> str:
        """What `did_you_mean` says, or an empty string where that would cost too much by now."""
        if len(known) > self._left or len(name) > _LONGEST_NAME:
            return ""
        self._left -= len(known)
        return did_you_mean(name, known)


def shorten(names: Sequence[str], most: int = 8) -> str:
    """The names with commas; of many the first, and how many more."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
