"""Node list-operator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, cast

from pydantic import Field

from operad.operators.conditions import ConditionError, compare, fault_of
from operad.operators.node import ADVANCED, Fault, NodeCall, NodeError, NodeOperator, NodeParams, TypeOf
from operad.operators.nodes.flow import items_of
from operad.operators.variables import (
    ARRAYS,
    FILE_PARTS,
    Accepts,
    Selector,
    Text,
    Values,
    VariableType,
    file_parts,
    short_json,
)
from operad.runtime.values.errors import did_you_mean
from operad.runtime.values.file import FileDescriptor

T = VariableType


class ListOperatorParams(NodeParams):
    """Operations on a list."""

    variable: Annotated[Selector, Accepts(ARRAYS)] = Field(description="The list.")
    operator: list[Text | int | float | list[str]] = Field(
        min_length=1,
        max_length=4,
        description='["extract_by", n] takes the n-th, from 1; ["limit", n] the first n; ["order_by", "asc" or "desc"]; '
        '["filter_by", comparison, value]: numbers and strings as in if-else, boolean is and is not, file in and not in '
        "(document, image, audio, video).",
    )
    then: Annotated[list[list[Text | int | float | list[str]]], ADVANCED] = Field(
        default_factory=list[list[Text | int | float | list[str]]],
        description='Operations after the first one, each like operator. ["all"] changes nothing. Files are ordered and '
        'filtered by the part that is named last, ["order_by", "asc", "size"].',
    )


_OPERATIONS = ("extract_by", "limit", "order_by", "filter_by", "all")


class ListOperator(NodeOperator[ListOperatorParams]):
    """Takes, orders or filters the items of a list."""

    type = "list-operator"
    params_type = ListOperatorParams
    hint = 'operator: ["extract_by", n from 1], ["limit", n], ["order_by", "asc" or "desc"], or ["filter_by", comparison, value]; files are filtered by in or not in document, image, audio, video.'
    gives = "result (a list like the one given), first_record and last_record (items of it)"
    example = {"variable": ["attachments", "1"], "operator": ["filter_by", "in", "image"]}

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """Return the types of the resulting list, and of its first and last item."""
        kind = type_of(self.params.variable)
        item = kind.item or T.ANY
        return {"result": kind.array, "first_record": item, "last_record": item}

    def faults(self, type_of: TypeOf) -> Iterator[Fault]:
        """Yield the faults of the operations."""
        yield from self._operation_faults("operator", self.params.operator, type_of)
        for number, operation in enumerate(self.params.then):
            yield from self._operation_faults(f"then[{number}]", operation, type_of)

    def _operation_faults(self, where: str, operation: Sequence[Any], type_of: TypeOf) -> Iterator[Fault]:
        """Yield the faults of an operation."""
        name, *rest = operation or [""]
        if name not in _OPERATIONS:
            known = ", ".join(_OPERATIONS[:-1])
            yield Fault(
                where, f"{name!r} is not an operation{did_you_mean(str(name), _OPERATIONS)}; there are: {known}"
            )
        elif name != "all" and not rest:
            yield Fault(where, f"{name} needs a value after it")
        elif name in ("extract_by", "limit"):
            by_name = isinstance(rest[0], Text) and "{{#" in rest[0]
            least = _least(name)
            number = _whole_number(rest[0])
            if not by_name and (len(rest) > 1 or number is None or number < least):
                yield Fault(where, f"{name} needs a whole number from {least}, not {short_json(rest)}")
        elif name == "order_by":
            if rest[0] not in ("asc", "desc") or (len(rest) > 1 and rest[1] not in FILE_PARTS):
                yield Fault(where, f"order_by needs asc or desc, not {short_json(rest)}")
        elif name == "filter_by":
            yield from self._filter_faults(where, rest, type_of)

    def _filter_faults(self, where: str, comparison: Sequence[Any], type_of: TypeOf) -> Iterator[Fault]:
        """Yield the faults of the comparison of a filter."""
        operator, value, part = [*comparison, None, None][:3]
        kind = type_of(self.params.variable).item or T.ANY
        if part is not None and part not in FILE_PARTS:
            yield Fault(where, f"{short_json(part)} is not a property of a file; there are: {', '.join(FILE_PARTS)}")
            return
        if kind is T.FILE:
            kind = FILE_PARTS[str(part)] if part else T.STRING
        if fault := fault_of(str(operator), value, kind):
            yield Fault(where, fault)

    async def compute(self, call: NodeCall) -> Values:
        """Apply the operations in order."""
        items = list(items_of(self, call, self.params.variable))
        for operation in (self.params.operator, *self.params.then):
            items = self._apply(items, operation, call)
        return {
            "result": items,
            "first_record": items[0] if items else None,
            "last_record": items[-1] if items else None,
        }

    def _apply(self, items: list[Any], operation: Sequence[Any], call: NodeCall) -> list[Any]:
        """Return a list after an operation."""
        name, first, *rest = [*operation, None] if len(operation) == 1 else operation
        match name:
            case "all":
                return items
            case "order_by":
                part = str(rest[0]) if rest else "name"
                return _ordered(items, self.get_id(), part, descending=first == "desc")
            case "filter_by":
                expected = cast("str | list[str] | None", rest[0] if rest else None)
                expected = call.text(expected) if isinstance(expected, Text) else expected
                expected = str(expected) if isinstance(expected, int | float) else expected
                part = str(rest[1]) if len(rest) > 1 else ""
                return [item for item in items if self._passes(_property_of(item, part), str(first), expected)]
            case _:
                number = _whole_number(call.text(first) if isinstance(first, Text) else first)
                least = _least(name)
                if number is None or number < least:
                    problem = f"{name} by {short_json(first)} is not a number from {least}"
                    raise NodeError(f"{self._who}: {problem}")
                if name == "limit":
                    return items[:number]
                if not items:
                    return []
                if number > len(items):
                    raise NodeError(
                        f"{self._who}: extract_by {number}, and "
                        f"{str(self.params.variable)!r} has {len(items)} item{'s' if len(items) > 1 else ''}"
                    )
                return [items[number - 1]]

    def _passes(self, item: Any, operator: str, expected: str | list[str] | None) -> bool:
        try:
            return compare(item, operator, expected)
        except ConditionError as error:
            raise ConditionError(f"{self._who}: {error}") from error


def _least(operation: object) -> int:
    """Return the least number that an operation takes: items count from 1, and a list may have none."""
    return 1 if operation == "extract_by" else 0


def _whole_number(value: Any) -> int | None:
    if isinstance(value, str) and value.strip().isdigit():
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _property_of(item: Any, part: str) -> Any:
    return file_parts(item)[part] if part and isinstance(item, FileDescriptor) else item


def _ordered(items: list[Any], node_id: str, part: str, *, descending: bool) -> list[Any]:
    """Return a list sorted by its items, files by one of their properties."""
    keys = [_property_of(item, part) for item in items]
    try:
        order = sorted(range(len(items)), key=keys.__getitem__, reverse=descending)
    except TypeError as error:
        raise NodeError(
            f"node {node_id!r} (list-operator): {short_json(items)} cannot be put in order: {error}"
        ) from error
    return [items[place] for place in order]
