"""Conditions on variables, by their type, for if-else, list-operator and loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, cast

from pydantic import BeforeValidator, Field

from operad.operators.variables import (
    ADVANCED,
    ARRAYS,
    Selector,
    Text,
    Variables,
    VariableType,
    as_text,
    file_parts,
    file_type,
    short_json,
    type_of,
)
from operad.runtime.values.errors import OperadError, did_you_mean
from operad.runtime.values.file import FileDescriptor

T = VariableType


class ConditionError(OperadError):
    """A condition that a value cannot be compared by."""


def _as_written(value: object) -> object:
    return as_text(value) if isinstance(value, bool | int | float) else value


class FileCondition(NamedTuple):
    """A comparison of a property of files."""

    part: Annotated[
        Literal["type", "name", "size", "extension", "mime_type", "transfer_method", "url", "related_id"],
        Field(description="The property."),
    ]
    operator: Annotated[str, Field(description="How to compare it.")]
    value: Annotated[
        str | list[str] | None,
        BeforeValidator(_as_written),
        Field(description="What to compare with; a list for in and not in."),
    ] = None


class FileConditions(NamedTuple):
    """Comparisons of the files of a list, as in Dify: of some file; those with a `not` of every file."""

    logic: Annotated[Literal["and", "or"], Field(description="Whether all must hold (and) or one of them (or).")]
    conditions: Annotated[list[FileCondition], Field(description="The comparisons.")]

    def holds(self, files: Sequence[FileDescriptor]) -> bool:
        """Return True if the comparisons hold for a list of files.

        Raises:
            ConditionError: A property does not support its comparison.
        """
        return (any if self.logic == "or" else all)(_holds_of(condition, files) for condition in self.conditions)


def _holds_of(condition: FileCondition, files: Sequence[FileDescriptor]) -> bool:
    part, operator, expected = condition
    values = [file_parts(file)[part] for file in files]
    if part == "extension":
        values = [_dotted(value) for value in values]
        expected = [_dotted(each) for each in expected] if isinstance(expected, list) else _dotted(expected)
    quantifier = all if "not" in operator else any
    return quantifier(compare(value, operator, expected) for value in values)


def _dotted(extension: Any) -> Any:
    is_bare = isinstance(extension, str) and extension and not extension.startswith(".")
    return f".{extension}" if is_bare else extension


class Condition(NamedTuple):
    """A comparison of a variable with a value."""

    variable: Annotated[Selector, Field(description="The variable.")]
    operator: Annotated[str, Field(description="How to compare; which there are depends on the variable's type.")]
    value: Annotated[
        Text | list[str] | None,
        BeforeValidator(_as_written),
        Field(description="What to compare with, as a string; none for empty, exists and such."),
    ] = None
    files: Annotated[
        FileConditions | None,
        ADVANCED,
        Field(description="Comparisons of the files of a list, instead of a value."),
    ] = None


class Case(NamedTuple):
    """Conditions that hold together."""

    logic: Annotated[
        Literal["and", "or"] | None, Field(description="Whether all must hold (and, null) or one of them (or).")
    ]
    conditions: Annotated[
        list[Condition], Field(description="The conditions. Without conditions, `and` is always true and `or` never.")
    ]

    def holds(self, variables: Variables) -> bool:
        """Return True if the conditions hold, all or one of them depending on `logic`.

        Raises:
            ConditionError: A value does not support the comparison.
        """
        quantifier = any if self.logic == "or" else all
        return quantifier(holds(condition, variables) for condition in self.conditions)


_WITHOUT_VALUE = {"empty", "not empty", "exists", "not exists"}

_STRING = ("contains", "not contains", "start with", "end with", "is", "is not", "in", "not in", "empty", "not empty")
_NUMBER = ("=", "≠", ">", "<", "≥", "≤", "empty", "not empty")

OPERATORS: Mapping[VariableType, Sequence[str]] = {
    T.STRING: _STRING,
    T.NUMBER: _NUMBER,
    T.BOOLEAN: ("is", "is not", "empty", "not empty"),
    T.OBJECT: ("is", "is not", "empty", "not empty"),
    T.FILE: ("exists", "not exists"),
    **dict.fromkeys(ARRAYS, ("contains", "not contains", "empty", "not empty")),
    T.ARRAY_FILE: ("contains", "not contains", "all of", "empty", "not empty"),
}
"""Comparisons of each type, as in Chat2Workflow. The ``type`` of a file is a string with ``in`` and ``not in``."""

LENGTHS = ("length >", "length ≥", "length <", "length ≤")
"""Comparisons of the number of characters of a text or of items of a list, as in Coze; a missing value has none."""

_SPELLINGS = {
    "‹": "<",
    "›": ">",
    "<=": "≤",
    ">=": "≥",
    "!=": "≠",
    "<>": "≠",
    "==": "=",
    "not is": "is not",
    "starts with": "start with",
    "ends with": "end with",
    "null": "not exists",
    "not null": "exists",
}
"""Other spellings of comparisons."""


def normal(operator: str) -> str:
    """Return the usual spelling of a comparison."""
    return _SPELLINGS.get(operator, operator)


def operators_of(kind: VariableType) -> list[str]:
    """Return the comparisons of a type, with ``exists`` and ``not exists``, as any value may be missing."""
    known = OPERATORS.get(kind) or sorted({each for operators in OPERATORS.values() for each in operators})
    lengths = LENGTHS if kind in (T.STRING, T.ANY, *ARRAYS) else ()
    return list(dict.fromkeys((*known, *lengths, *OPERATORS[T.FILE])))


def fault_of(operator: str, value: Any, kind: VariableType) -> str:
    """Return the reason for which variables of a type do not support an operator; empty if they do."""
    operator = normal(operator)
    known = operators_of(kind)
    if operator not in known:
        of_type = "" if kind is T.ANY else f" of a {kind.value}"
        return (
            f"{operator!r} is not a comparison{of_type}{did_you_mean(operator, known)}; there are: {', '.join(known)}"
        )
    if operator in _WITHOUT_VALUE:
        return ""
    if value is None:
        return f"{operator!r} needs a value to compare with"
    if (kind is T.NUMBER or operator in LENGTHS) and "{{#" not in str(value) and as_number(value) is None:
        return f"{short_json(value)} is not a number, which {operator!r} needs here"
    return ""


def condition_fault(condition: Condition, kind: VariableType) -> str:
    """Return the reason for which a variable of a type does not support a condition; empty if it does."""
    if condition.files is None:
        return fault_of(condition.operator, condition.value, kind)
    if kind not in (T.ARRAY_FILE, T.ARRAY, T.ANY):
        return f"the variable is {kind.value}, and only a list of files has conditions on files"
    faults = (
        (each.part, fault_of(each.operator, each.value, T.NUMBER if each.part == "size" else T.STRING))
        for each in condition.files.conditions
    )
    return next((f"{part} of the files: {fault}" for part, fault in faults if fault), "")


def holds(condition: Condition, variables: Variables) -> bool:
    """Return True if a condition holds.

    Raises:
        ConditionError: The value of the variable does not support the comparison.
    """
    expected = condition.value
    operator = normal(condition.operator)
    if isinstance(expected, Text):
        expected = variables.compared(variables.text(expected), operator)
    try:
        if condition.files is not None:
            value = variables.get(condition.variable)
            files: Sequence[Any] = cast("Sequence[Any]", value) if isinstance(value, list | tuple) else ()
            return condition.files.holds([file for file in files if isinstance(file, FileDescriptor)])
        return compare(variables.compared(variables.get(condition.variable), operator), operator, expected)
    except ConditionError as error:
        raise ConditionError(f"variable {str(condition.variable)!r}: {error}") from error


def compare(value: Any, operator: str, expected: str | list[str] | None) -> bool:
    """Return True if a comparison of a value holds.

    None, 0, false, and empty texts, lists and objects are empty. For an empty value, ``contains``, ``start with``,
    ``end with`` and ``in`` are false, and ``not contains`` and ``not in`` are true. None does not exist; all other
    comparisons of None are false, even ``is not``.

    Args:
        operator: The comparison; see `OPERATORS`.
        expected: The value to compare with; numbers and booleans are written as text.

    Raises:
        ConditionError: The values do not support the comparison.
    """
    operator = normal(operator)
    match operator:
        case "empty":
            return not value
        case "not empty":
            return bool(value)
        case "exists":
            return value is not None
        case "not exists":
            return value is None
        case "not contains" | "not in" if not value:
            return True
        case _ if operator in LENGTHS and isinstance(value, str | list | tuple | None):
            return _compare_number(len(cast("Sequence[Any]", value or ())), operator.removeprefix("length "), expected)
        case _ if value is None or (not value and operator in ("contains", "start with", "end with", "in")):
            return False
        case _:
            return _compare_by_type(value, operator, expected)


def _compare_by_type(value: Any, operator: str, expected: str | list[str] | None) -> bool:
    """Return True if a comparison holds for a value other than None, by the type of the value."""
    if isinstance(value, bool):
        return _compare_boolean(value, operator, expected)
    if operator in _NUMBER_COMPARISONS or isinstance(value, int | float):
        return _compare_number(value, operator, expected)
    if isinstance(value, FileDescriptor):
        value = file_type(value)
    if isinstance(value, str):
        return _compare_text(value, operator, expected)
    if isinstance(value, list | tuple):
        return _compare_array(cast("Sequence[Any]", value), operator, expected)
    if operator in ("is", "is not"):
        return (as_text(value) == expected) is (operator == "is")
    raise _unsupported(value, operator, expected)


def _compare_boolean(value: bool, operator: str, expected: str | list[str] | None) -> bool:
    expected_boolean = {"true": True, "1": True, "false": False, "0": False}.get(str(expected).strip().lower())
    if expected_boolean is None or operator not in ("is", "is not", "=", "≠"):
        raise _unsupported(value, operator, expected)
    return (value is expected_boolean) is (operator in ("is", "="))


def _compare_number(value: Any, operator: str, expected: str | list[str] | None) -> bool:
    left, right = as_number(value), as_number(expected)
    compare_numbers = _NUMBER_COMPARISONS.get({"is": "=", "is not": "≠"}.get(operator, operator))
    if left is None or right is None or compare_numbers is None:
        raise _unsupported(value, operator, expected)
    return compare_numbers(left, right)


def _compare_text(value: str, operator: str, expected: str | list[str] | None) -> bool:
    if expected is None:
        raise _unsupported(value, operator, expected)
    if operator in ("in", "not in"):
        return (value in expected) is (operator == "in")
    text = expected if isinstance(expected, str) else ""
    match operator:
        case "contains":
            return text in value
        case "not contains":
            return text not in value
        case "start with":
            return value.startswith(text)
        case "end with":
            return value.endswith(text)
        case "is":
            return value == text
        case "is not":
            return value != text
        case _:
            raise _unsupported(value, operator, expected)


def _compare_array(values: Sequence[Any], operator: str, expected: str | list[str] | None) -> bool:
    if expected is None:
        raise _unsupported(values, operator, expected)
    expected_texts = [expected] if isinstance(expected, str) else expected
    texts = [file_type(value) if isinstance(value, FileDescriptor) else as_text(value) for value in values]
    match operator:
        case "contains":
            return any(text in texts for text in expected_texts)
        case "not contains":
            return not any(text in texts for text in expected_texts)
        case "all of":
            return bool(texts) and all(text in expected_texts for text in texts)
        case _:
            raise _unsupported(values, operator, expected)


_NUMBER_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "=": lambda left, right: left == right,
    "≠": lambda left, right: left != right,
    ">": lambda left, right: left > right,
    "<": lambda left, right: left < right,
    "≥": lambda left, right: left >= right,
    "≤": lambda left, right: left <= right,
}


def as_number(value: Any) -> float | None:
    """Return a number, which may be written as text; None for other values."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _unsupported(value: Any, operator: str, expected: Any) -> ConditionError:
    return ConditionError(
        f"{short_json(value)} ({type_of(value)}) cannot be compared by {operator!r} with {short_json(expected)}"
    )
