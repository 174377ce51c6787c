"""Errors of Operad, a tree below `OperadError`.

OperadError                 operator_id, attempt; the cause is chained
├── InvalidError            a workflow or configuration is not valid: .issues holds all faults
├── InputError              a file or a value that a run cannot work with; ArgumentError; MissingDepsError
├── OperatorError           an operator raised while a workflow ran
├── OperatorTimeoutError    an attempt of an operator took longer than its policy allows
├── FaultError              an operator blames an operator and gives a lesson
├── PortError               an operator took a port that it does not have
├── SkippedError            all end operators of a workflow were skipped
├── JobError                a leader's expert cannot do its part of a job
├── BudgetError             a run used more than its budget
├── PausedError             a run waits for a person's answers
├── ModelError              a model's endpoint failed: unreachable, refused, broken
│   └── RequestError        the endpoint rejects this request
│       └── PromptTooLongError   it has too many tokens
├── FetchError              a web address could not be fetched, or is not allowed
├── AnswerError             a model's answers never fit its schema
├── MaxTurnsError           a model used all turns of an operator without an answer
├── ToolError               a tool could not be created or called
├── MissingExtraError       an optional dependency is not installed
└── RunningLoopError        a synchronous method was called inside a running event loop
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

from operad.runtime.values import base_errors
from operad.runtime.values.base_errors import (
    AnswerError,
    InputError,
    InvalidError,
    Issue,
    OperadError,
    describe,
    shorten,
)
from operad.runtime.values.error_copies import combined
from operad.runtime.values.fault import Fault
from operad.runtime.values.message import Usage, WorkflowMessage
from operad.runtime.values.near_names import did_you_mean
from operad.runtime.values.questions import Question

__all__ = [
    "AnswerError",
    "Blamable",
    "Blame",
    "BudgetError",
    "FaultError",
    "FetchError",
    "HasId",
    "InputError",
    "InvalidError",
    "Issue",
    "JobError",
    "MaxTurnsError",
    "MissingExtraError",
    "ModelError",
    "OperadError",
    "OperatorError",
    "OperatorTimeoutError",
    "PausedError",
    "PortError",
    "PromptTooLongError",
    "RequestError",
    "RunningLoopError",
    "SkippedError",
    "ToolError",
    "describe",
    "did_you_mean",
    "internal_cause",
    "internal_text",
    "shorten",
]


class HasId(Protocol):
    """Object with an operator id."""

    def get_id(self) -> str:
        """Return the id."""
        ...


Blamable = str | HasId | Callable[..., Any]
"""Operator at fault: its id, the operator itself, or the function from which it was created."""


Blame = Sequence[Blamable] | Blamable
"""Operators at fault, or one."""


def ids_of_blamed(blame: Blame) -> tuple[str, ...]:
    """Return the ids of the blamed operators; the id of a function is its name.

    Raises:
        InputError: A blamed object is not a `Blamable`.
    """
    several = cast("Sequence[Any]", blame if isinstance(blame, list | tuple) else (blame,))
    return tuple(map(_id_of, several))


def _id_of(blamed: Any) -> str:
    if isinstance(blamed, str):
        return blamed
    if not isinstance(blamed, type):
        get_id = getattr(blamed, "get_id", None)
        if callable(get_id):
            return str(get_id())
        name = getattr(blamed, "__name__", None)
        if callable(blamed) and isinstance(name, str):
            return name
    raise InputError(
        f"FaultError(blame=…) expects operators, functions or ids; got {blamed!r:.100} ({type(blamed).__name__})"
    )


class OperatorError(OperadError):
    """An operator raised an error, which is the ``__cause__``.

        @operator
        def parse(job: Job) -> int:
            return int(job.goal)

        try:
            Workflow(parse).run("no number")
        except ValueError as error:  # also an OperatorError
            print(isinstance(error, OperatorError), error)

    The error is also an instance of the original error's type: ``except ValueError`` catches it if the operator raised
    a ValueError. Attributes of the original error can be read from it.

    Attributes:
        workflow: Name of the operator's workflow.
        round: Round of the workflow, counted from 1.
        cancelled: Paths of the operators that were stopped because of the error.
        finished: Messages of the operators that had finished, by id; those of the items of a failed map, by the map's
            id and the item's index.
    """

    def __init__(
        self, workflow: str, operator_id: str, attempt: int, cause: BaseException, round: int = 1, title: str = ""
    ) -> None:
        self.workflow = workflow
        self.round = round
        self.cancelled: tuple[str, ...] = ()
        of_round = f" of round {round}" if round > 1 else ""
        who = f"{title} ({operator_id})" if title else repr(operator_id)
        super().__init__(
            f"operator {who} of workflow {workflow!r} failed on attempt {attempt}{of_round}: {describe(cause)}",
            operator_id=operator_id,
            attempt=attempt,
        )

    @classmethod
    def of(
        cls, workflow: str, operator_id: str, attempt: int, cause: BaseException, round: int = 1, title: str = ""
    ) -> OperatorError:
        """Return the error for an exception of an operator; it is an instance of that exception's type, too."""
        original = cause
        while isinstance(original, OperatorError) and original.__cause__ is not None:
            original = original.__cause__
        kind = type(original)
        can_be_both = issubclass(kind, Exception) and not issubclass(kind, _NOT_COMBINED)
        return (combined(cls, kind) if can_be_both else cls)(workflow, operator_id, attempt, cause, round, title)

    def __str__(self) -> str:
        text = Exception.__str__(self)
        return f"{text} (stopped because of it: {shorten(self.cancelled)})" if self.cancelled else text


_NOT_COMBINED = (OperadError, StopIteration, StopAsyncIteration)
"""Types that `OperatorError` is not combined with: errors of Operad, and exceptions that Python uses as signals."""


def internal_cause(error: BaseException) -> BaseException | None:
    """Return the exception at the origin of an error that is none of Operad's own; None if there is none.

        print(internal_cause(KeyError("user")), internal_cause(InputError("there is no user")))  # 'user' None

    An error of Operad that describes its cause in words of its own, instead of repeating them, has none.
    """
    seen: list[BaseException] = []
    while isinstance(error, OperadError) and not isinstance(error, base_errors.OtherError):
        cause, repeats = error.__cause__, isinstance(error, OperatorError | JobError) or type(error) is OperadError
        if cause is None or cause in seen or not (repeats or isinstance(cause, OperadError)):
            return None
        seen.append(error := cause)
    return error


def internal_text(error: BaseException) -> str:
    """Return the description of the `internal_cause` of an error; empty if there is none, or it has no text.

        print(internal_text(KeyError("user")))  # KeyError: 'user'

    The text is for the people who run the program, as it may name addresses, paths or keys.
    """
    cause = internal_cause(error)
    text = "" if cause is None else describe(cause)
    return text if text != type(cause).__name__ else ""


class OperatorTimeoutError(OperadError, TimeoutError):
    """An attempt of an operator ran, or was silent, longer than its `Timeout` allows.

    Example:
        @operator(policy=Policy(timeout=Timeout(run=0.01)))
        async def slow(job: Job) -> str:
            await asyncio.sleep(1)
            return "done"

        try:
            Workflow(slow).run("hello")
        except OperatorError as error:
            print(isinstance(error.__cause__, OperatorTimeoutError))  # True
    """


class FaultError(OperadError):
    """An operator found a fault in its input or in its own result.

        @operator
        def newest(facts: Claims) -> str:
            if not facts.claims:
                raise FaultError("there is no claim", lesson="List one claim at least.", blame=["facts"])
            return facts.claims[-1]

    If the workflow has rounds left, the blamed operators, and all operators that depend on them, run again
    with the lesson.

    Args:
        message: The fault.
        lesson: Advice for the blamed operators; by default the message.
        blame: Operators at fault: ids, operators or functions; by default those of `faults`, or the operator that raises.
        faults: Faults with the wrong text and the right one, each of one operator.

    Attributes:
        blame: The ids of the operators at fault.

    Raises:
        InputError: Something else is blamed.
    """

    def __init__(self, message: str, *, lesson: str = "", blame: Blame = (), faults: Sequence[Fault] = ()) -> None:
        super().__init__(message)
        self.lesson = lesson
        self.blame = ids_of_blamed(blame) or tuple(fault.place for fault in faults)
        self.faults = tuple(faults)


class PortError(OperadError):
    """An operator took a port that it does not have, and from which no edge leaves.

    Example:
        @operator(ports=["short", "long"])
        def measure(job: Job) -> Take:
            return Take("medium")

        try:
            Workflow([measure["short"] >> facts, measure["long"] >> check]).run("hello")
        except OperatorError as error:
            print(isinstance(error.__cause__, PortError))  # True
    """


class SkippedError(OperadError):
    """All end operators of a workflow were skipped, so it has no result; the message names the ports responsible.

    Example:
        @operator(ports=["spam", "mail"])
        def sort(job: Job) -> Take:
            return Take("spam")

        try:
            Workflow(sort["mail"] >> answer).run("win a prize")
        except SkippedError as error:
            print(error)
    """


class JobError(OperadError):
    """An expert cannot do a part of a job, and its leader has no other way to try.

        try:
            raise JobError("no expert could check the figures", operator_id="figures")
        except JobError as error:
            print(error.operator_id, error.verdict)

    Attributes:
        verdict: Verdict on the part; None if the expert failed with an error, which is the cause.
    """

    def __init__(self, message: str, *, operator_id: str, verdict: WorkflowMessage | None = None) -> None:
        super().__init__(message, operator_id=operator_id)
        self.verdict = verdict


class BudgetError(OperadError):
    """A run used more than its `Budget`.

        try:
            Workflow(facts, budget=Budget(tokens=1)).run("The moon is made of cheese.")
        except BudgetError as error:
            print(error.usage.tokens, list(error.finished))

    Attributes:
        usage: Its usage.
        finished: Messages of the operators that had finished, by id; nested operators
            by their path, with slashes.
    """

    def __init__(self, message: str, usage: Usage) -> None:
        super().__init__(message)
        self.usage = usage


class PausedError(OperadError):
    """A run waits for a person's answers, and no other operator can proceed.

        @operator
        async def order(job: Job, context: RunContext) -> str:
            return "ordered" if await context.ask(f"Order {job.goal}?", bool) else "left"

        shop = Workflow(order)
        try:
            shop.run("two figs")
        except PausedError as paused:
            message = shop.resume(paused.run_id, {question.id: True for question in paused.questions})

    Attributes:
        run_id: Id of the run, which resumes with ``workflow.resume(run_id, answers)``.
        questions: Its open questions.
    """

    def __init__(self, run_id: str, questions: Sequence[Question]) -> None:
        self.run_id = run_id
        self.questions = tuple(questions)
        listed = "\n  ".join(f"{question.id}: {question.text}" for question in questions)
        super().__init__(f"run {run_id!r} waits for answers; give them to resume(run_id, {{id: answer}}):\n  {listed}")


class ModelError(OperadError):
    """A model's endpoint could not be reached, refused the call, or broke off.

        nowhere = Model(name="any", base_url="http://127.0.0.1:9/v1", max_retries=0)
        try:
            Workflow(facts, model=nowhere).run("hello")
        except OperatorError as error:
            print(isinstance(error.__cause__, ModelError))  # True

    Attributes:
        transient: True if the same call may succeed a little later.
        retry_after: Seconds to wait before a retry, if the endpoint requests it.
    """

    def __init__(self, message: str, *, transient: bool = False, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.transient = transient
        self.retry_after = retry_after


class RequestError(ModelError):
    """A model's endpoint works, but rejects this request, for example because it is not allowed.

    Attributes:
        refusal: Words with which the model itself refuses to answer; empty for other reasons.
    """

    def __init__(
        self, message: str, *, transient: bool = False, retry_after: float | None = None, refusal: str = ""
    ) -> None:
        super().__init__(message, transient=transient, retry_after=retry_after)
        self.refusal = refusal


class PromptTooLongError(RequestError):
    """The prompt has more tokens than the model takes."""


class FetchError(OperadError):
    """A web address could not be fetched, or is not allowed.

    Attributes:
        transient: True if the same request may succeed a little later.
    """

    def __init__(self, message: str, *, transient: bool = False) -> None:
        super().__init__(message)
        self.transient = transient


class MaxTurnsError(OperadError):
    """A model used all its turns for tool calls, and gave no answer.

    Example:
        again = CallTools({"look": {}})
        with ScriptedModel([again, again]) as endless:
            try:
                Workflow(Operator("Look.", tools=[look], max_turns=2), model=endless.model).run("hello")
            except OperatorError as error:
                print(error.__cause__.turns)  # 2
    """

    def __init__(self, message: str, turns: int, tool_calls: Mapping[str, int]) -> None:
        super().__init__(message)
        self.turns = turns
        self.tool_calls = tool_calls


class ToolError(OperadError):
    """A tool cannot be created from a function, or was called with wrong arguments.

    Example:
        try:
            Operator("Check.", tools=["search"])
        except ToolError as error:
            print(error)
    """


class MissingExtraError(OperadError):
    """A feature needs an optional dependency that is not installed; the message names the package.

    Example:
        try:
            flow.as_awel()
        except MissingExtraError as error:
            print(error)  # names the package and the command that installs it
    """


class RunningLoopError(OperadError):
    """A synchronous method was called where an event loop is already running.

    Example:
        async def main() -> None:
            try:
                flow.run("hello")
            except RunningLoopError:
                print((await flow.arun("hello")).text)

        asyncio.run(main())
    """
