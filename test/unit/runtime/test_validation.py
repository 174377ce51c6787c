"""Faults that pydantic finds, in the words of Operad's errors."""

from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, Field, TypeAdapter, ValidationError

from operad.runtime.values.value import nearest_choice, requirement


class Colour(Enum):
    RED = "red"
    GREEN = "green"


class Point(BaseModel):
    x: int


def refuse(value: int) -> int:
    raise ValueError("it is odd")


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (int, "three", "must be a whole number"),
        (int, 2.5, "must be a whole number"),
        (int, None, "must be a whole number"),
        (float, "soon", "must be a number"),
        (float, [], "must be a number"),
        (bool, "maybe", "must be true or false"),
        (bool, None, "must be true or false"),
        (str, 3, "must be text"),
        (list[int], "a", "must be a list"),
        (dict[str, int], "a", "must be a mapping of keys to values"),
        (Point, "a", "must be a mapping of keys to values"),
        (Annotated[int, Field(gt=0)], 0, "must be more than 0"),
        (Annotated[int, Field(ge=1)], 0, "must be at least 1"),
        (Annotated[float, Field(lt=1)], 1, "must be less than 1"),
        (Annotated[float, Field(le=1)], 3, "must be at most 1"),
        (Literal["any", "all"], "al", "must be 'any' or 'all' (did you mean 'all'?)"),
        (Literal["any", "all"], 3, "must be 'any' or 'all'"),
        (Colour, "gren", "must be 'red' or 'green' (did you mean 'green'?)"),
        (Annotated[int, AfterValidator(refuse)], 1, "it is odd"),
        (Annotated[str, Field(min_length=2)], "a", "must have at least 2 characters"),
        (Annotated[str, Field(max_length=1)], "ab", "must have at most 1 character"),
        (Annotated[list[int], Field(min_length=1)], [], "must not be empty"),
        (Annotated[str, Field(pattern="^a$")], "b", "must match the pattern ^a$"),
    ],
)
def test_a_fault_is_told_by_what_the_value_must_be(kind: Any, value: Any, text: str) -> None:
    with pytest.raises(ValidationError) as raised:
        TypeAdapter(kind).validate_python(value)
    [fault] = raised.value.errors()
    assert requirement(fault) + nearest_choice(fault) == text
