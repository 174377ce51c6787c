"""Short ways to the forms of answers, for tests with many of them."""

from typing import Any

from operad.runtime.values.schema import AnswerSchema


def parsed(text: str) -> dict[str, Any] | None:
    """Return the JSON Schema of a text."""
    return AnswerSchema.parse(text).schema


def validate(schema: dict[str, Any], text: str, *, repair: bool = True) -> Any:
    """Return the value of an answer that fits a JSON Schema."""
    return AnswerSchema.unchecked(schema).validate(text, repair=repair)


def faults(schema: dict[str, Any], value: Any) -> list[str]:
    """Return the violations of a JSON Schema by a value."""
    return AnswerSchema.unchecked(schema).faults(value)
