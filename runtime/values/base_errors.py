"""Base of all errors, issues, and the errors that values themselves raise; `errors` has the whole tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from operad.runtime.values.error_copies import copied, reduced


@dataclass(frozen=True, slots=True)
class Issue:
    """A fault found by a static check.

        issue = Issue("unknown-key", "there is no key 'modle' (did you mean 'model'?)", "expert.yaml:3")
        print(issue)

    Attributes:
        code: Kind of fault, in lower case with dashes: ``cycle``, ``unknown-key``.
        message: Description of the fault and its remedy.
        where: Location: an operator id, a file with its line, or a path inside a document.
    """

    code: str
    message: str
    where: str = ""

    def __str__(self) -> str:
        return f"[{self.code}] {self.where}: {self.message}" if self.where else f"[{self.code}] {self.message}"


class OperadError(Exception):
    """Base class of all errors that this package raises on purpose.

        try:
            Operator("Say.", output="nonsense")
        except OperadError as error:
            print(error)

    Args:
        message: Description: the fault, its place, its cause and its remedy.
        operator_id: The operator concerned, if any.
        attempt: Its attempt, counted from 1; 0 if no operator is concerned.

    Attributes:
        finished: Messages of the operators that had finished, by id or path, for errors of a run or a map.
    """

    def __init__(self, message: str, *, operator_id: str = "", attempt: int = 0) -> None:
        Exception.__init__(self, message)  # an error of another type may be a base, too: see `OperatorError.of`
        self.operator_id = operator_id
        self.attempt = attempt
        self.finished: Mapping[str, Any] = {}  # a `WorkflowMessage` each

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the error with its attributes and causes; parts that cannot be pickled become their descriptions."""
        return reduced(self, _described)

    def __copy__(self) -> OperadError:
        return copied(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> OperadError:
        return copied(self, memo)


class InvalidError(OperadError):
    """A workflow or a configuration is not valid; ``issues`` holds every fault found.

        try:
            Workflow().run("hello")
        except InvalidError as error:
            print(error.issues[0].code)  # no-operators

    Each issue has a ``code``, a ``message`` and its location, ``where``.
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

    The message names the file or value, and the remedy.
    """


class AnswerError(OperadError):
    """A model's answer was empty, or never fitted its schema.

    Example:
        with ScriptedModel([Say("")]) as silent:
            try:
                Workflow(Operator("Answer."), model=silent.model).run("hello")
            except OperatorError as error:
                print(isinstance(error.__cause__, AnswerError))  # True
    """


_MOST_OF_A_GROUP = 8
"""Maximum number of errors of a group that its description has."""


class OtherError(OperadError):
    """Description of an exception that is none of Operad's own and cannot be pickled, as a cause in another process."""


def _described(error: BaseException) -> OperadError:
    return (OperadError if isinstance(error, OperadError) else OtherError)(describe(error))


def describe(error: BaseException) -> str:
    """Return an error as text: Operad's errors by their message, other errors by type and message.

    A group, as `asyncio.TaskGroup` raises it, is described with the errors in it.
    """
    kind = type(error).__name__
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - `__str__` of a user's class may raise anything
        return f"{kind}, whose text cannot be read"
    if isinstance(error, OperadError):
        return text
    if isinstance(error, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", error).exceptions
        text += f": {'; '.join(map(describe, inner[:_MOST_OF_A_GROUP]))}"
    return f"{kind}: {text}" if text else kind


def shorten(names: Sequence[str], most: int = 8) -> str:
    """Return names joined by commas; if there are more than `most`, the first ones and the number of the others."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
