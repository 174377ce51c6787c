"""The form in which a model drafts a node's parameters: as declared, but closed, and with the variables that there are.

A declaration's lists of fixed places (``[variable, node id]``, ``[[variable], operator, value]``) become objects with
named keys, and a variable of a node becomes a choice of ``id.variable``. So whole kinds of faults cannot be written, and
endpoints can keep to the schema to the letter.
"""

from __future__ import annotations

import re
import types as python_types
import typing
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from pydantic.fields import FieldInfo

from operad.flows.formats.shapes import is_selector
from operad.operators.conditions import OPERATORS, Condition
from operad.operators.node import NodeOperator
from operad.operators.variables import Selector, Text
from operad.runtime.values.schema import Schema

NodeType = type[NodeOperator[Any]]

NONE_TO_CHOOSE = "none"
"""The only choice where no variable is known: what is drafted with it is found by the check."""


def params_schema(node_type: NodeType, variables: Sequence[str]) -> Schema:
    """The JSON Schema of drafted parameters.

    Args:
        node_type: The type of the node.
        variables: The variables that it may read, as ``id.variable``.
    """
    fields = node_type.params_type.model_fields
    hints = get_type_hints(node_type.params_type, include_extras=True)
    return _closed({name: _described(_schema(hints[name], variables), field) for name, field in fields.items()})


def params_of(node_type: NodeType, drafted: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as they are declared, from drafted ones; what does not fit is left as it is, for the check to tell.

    Args:
        node_type: The type of the node.
        drafted: What a model wrote.
    """
    hints = get_type_hints(node_type.params_type, include_extras=True)
    fields = node_type.params_type.model_fields
    read = {name: _value(hints[name], value) if name in hints else value for name, value in drafted.items()}
    return {name: value for name, value in read.items() if value is not None or name not in fields
            or fields[name].is_required()}  # fmt: skip


def drafted(node_type: NodeType, params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as they would have been drafted, for a model to see and to change.

    Args:
        node_type: The type of the node.
        params: Its parameters as they are declared.
    """
    hints = get_type_hints(node_type.params_type, include_extras=True)
    return {name: _draft(hints[name], value) if name in hints else value for name, value in params.items()}


def _schema(annotation: Any, variables: Sequence[str]) -> Schema:
    kind, arguments = get_origin(annotation), get_args(annotation)
    if kind is Annotated:
        found = next((each for each in arguments[1:] if isinstance(each, FieldInfo)), None)
        return _described(_schema(arguments[0], variables), found)
    if annotation is Selector:
        return {"type": "string", "enum": list(variables) or [NONE_TO_CHOOSE]}
    if fields := _places(annotation):
        return _closed({name: _schema(hint, variables) for name, hint in fields.items()})
    if kind in (Union, python_types.UnionType):
        return {"anyOf": [_schema(each, variables) for each in arguments]}
    if kind is Literal:
        return {"type": "string", "enum": list(arguments)}
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return {"type": "string", "enum": [each.value for each in annotation]}
    if kind in (list, Sequence, tuple, typing.Sequence):
        inner = arguments[0] if arguments else Any
        return {"type": "array", "items": _schema(inner, variables)}
    return {**_SIMPLE.get(annotation, {})}  # nothing is said of what may be any JSON


_SIMPLE: Mapping[Any, Schema] = {
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    Text: {"type": "string"},
    str: {"type": "string"},
}


def _places(annotation: Any) -> Mapping[str, Any]:
    """The places of a declared tuple by name; none for anything else."""
    declared: Any = annotation
    if not (isinstance(declared, type) and issubclass(declared, tuple) and hasattr(cast("Any", declared), "_fields")):
        return {}
    hints = get_type_hints(cast("Any", declared), include_extras=True)
    if annotation is Condition:  # the schema can tell more than the declaration, which says it by the variable's type
        known = list(dict.fromkeys(each for listed in OPERATORS.values() for each in listed))
        hints["operator"] = Literal[tuple(known)]
    return hints


def _value(annotation: Any, value: Any) -> Any:
    kind, arguments = get_origin(annotation), get_args(annotation)
    if kind is Annotated:
        return _value(arguments[0], value)
    if annotation is Selector:
        node, dot, variable = value.rpartition(".") if isinstance(value, str) else ("", "", "")
        return [variable, node] if dot else value
    if (fields := _places(annotation)) and isinstance(value, Mapping):
        given = cast("Mapping[str, Any]", value)
        listed = [_value(hint, given.get(name)) for name, hint in fields.items()]
        return listed[:-1] if annotation is Condition and listed[-1] is None else listed
    if kind in (Union, python_types.UnionType):
        return next((_value(each, value) for each in arguments if _fits(each, value)), value)
    if isinstance(value, list) and arguments:
        return [_value(arguments[0], each) for each in cast("list[Any]", value)]
    return cast("Any", value)


def _draft(annotation: Any, value: Any) -> Any:
    kind, arguments = get_origin(annotation), get_args(annotation)
    if kind is Annotated:
        return _draft(arguments[0], value)
    if annotation is Selector:
        return f"{value[1]}.{value[0]}" if is_selector(value) else value
    if (fields := _places(annotation)) and isinstance(value, list | tuple):
        places = cast("Sequence[Any]", value)
        given = [*places, *[None] * (len(fields) - len(places))]
        return {name: _draft(hint, each) for (name, hint), each in zip(fields.items(), given, strict=False)}
    if kind in (Union, python_types.UnionType):
        return _draft(Selector, value) if Selector in arguments and is_selector(value) else value
    if isinstance(value, list | tuple) and arguments:
        return [_draft(arguments[0], each) for each in cast("Sequence[Any]", value)]
    return cast("Any", value)


def _fits(annotation: Any, value: Any) -> bool:
    """Whether a value looks as if it were of one branch of a union."""
    plain = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    if _places(plain):
        return isinstance(value, Mapping if plain is not Selector else str)
    if get_origin(plain) in (list, Sequence, tuple):
        return isinstance(value, list)
    return isinstance(value, plain) if isinstance(plain, type) and plain is not Text else isinstance(value, str)


def _described(schema: Schema, field: FieldInfo | None) -> Schema:
    said = _FORM.sub("", field.description or "").lstrip("; ") if field is not None else ""
    return {**schema, "description": said} if said else schema


_FORM = re.compile(r"[:,]?\s*\[+(?:variable|name|description|null)\b.*?(?=;|\.$|$)")
"""The form that a declaration describes, which is not that of drafts."""


def _closed(properties: Mapping[str, Schema]) -> Schema:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }
