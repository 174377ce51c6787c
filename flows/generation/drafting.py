"""The form in which a model drafts a node's parameters: as declared, but closed, and with the variables that there are.

A declaration's lists of fixed places (``[variable, node id]``, ``[[variable], operator, value]``) become objects with
named keys, and a variable of a node becomes a choice of ``id.variable``. So whole kinds of faults cannot be written, and
endpoints can keep to the schema to the letter.
"""

from __future__ import annotations

import re
import types as python_types
import typing
from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from pydantic.fields import FieldInfo

from operad.flows.catalogue import drafted_fields
from operad.flows.formats.shapes import is_selector
from operad.operators.conditions import OPERATORS, Condition
from operad.operators.node import NodeOperator
from operad.operators.variables import Selector, Text
from operad.runtime.values.output import is_class
from operad.runtime.values.schema import Schema

NodeType = type[NodeOperator[Any]]

NONE_TO_CHOOSE = "none"
"""The only choice where no variable is known: what is drafted with it is found by the check."""


def params_schema(node_type: NodeType, variables: Sequence[str], advanced: Collection[str] = ()) -> Schema:
    """Return the JSON Schema of drafted parameters.

    Args:
        node_type: The type of the node.
        variables: The variables that it may read, as ``id.variable``.
        advanced: Advanced parameters among them, as ``type.parameter``, or ``parameter`` for all types.
    """
    fields = drafted_fields(node_type, advanced)
    hints = get_type_hints(node_type.params_type, include_extras=True)
    return _closed({name: _described(_schema(hints[name], variables), field) for name, field in fields.items()})


def params_of(node_type: NodeType, drafted: Mapping[str, Any], nodes: Collection[str] = ()) -> dict[str, Any]:
    """Return parameters as they are declared, from drafted ones; others stay as they are, for the check to report.

    Args:
        node_type: The type of the node.
        drafted: The parameters that a model wrote.
        nodes: The ids of the workflow's nodes. Where a parameter takes a variable or a text, ``id.variable`` is a
            variable if it begins with one of them.
    """
    hints = get_type_hints(node_type.params_type, include_extras=True)
    fields = node_type.params_type.model_fields
    read = {name: _value(hints[name], value, nodes) if name in hints else value for name, value in drafted.items()}
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


def as_declared(value: Any) -> Any:
    """Return a variable ``id.variable``, or ``{{#id.variable#}}``, as ``[variable, id]``; other values as they are."""
    node, dot, variable = value.strip("{}# ").partition(".") if isinstance(value, str) else ("", "", "")
    return [variable, node] if dot else value


def _schema(annotation: Any, variables: Sequence[str]) -> Schema:
    kind, arguments = get_origin(annotation), get_args(annotation)
    if kind is Annotated:
        found = next((each for each in arguments[1:] if isinstance(each, FieldInfo)), None)
        return _described(_schema(arguments[0], variables), found)
    if annotation is Selector:
        return {"type": "string", "enum": list(variables) or [NONE_TO_CHOOSE]}
    if fields := places(annotation):
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


def places(annotation: Any, *, choices: bool = True) -> Mapping[str, Any]:
    """Return the places of a declared tuple by name; none for anything else.

    Args:
        annotation: The type of a parameter.
        choices: True to give the operator of a condition as a choice of those that there are.
    """
    declared: Any = annotation
    if not (isinstance(declared, type) and issubclass(declared, tuple) and hasattr(cast("Any", declared), "_fields")):
        return {}
    hints = get_type_hints(cast("Any", declared), include_extras=True)
    if (
        choices and annotation is Condition
    ):  # the schema can tell more than the declaration, which says it by the variable's type
        known = list(dict.fromkeys(each for listed in OPERATORS.values() for each in listed))
        hints["operator"] = Literal[tuple(known)]
    return hints


def _value(annotation: Any, value: Any, nodes: Collection[str]) -> Any:
    kind, arguments = get_origin(annotation), get_args(annotation)
    if kind is Annotated:
        return _value(arguments[0], value, nodes)
    if annotation is Selector:
        return as_declared(value)
    if (fields := places(annotation)) and isinstance(value, Mapping):
        given = cast("Mapping[str, Any]", value)
        listed = [_value(hint, given.get(name), nodes) for name, hint in fields.items()]
        while listed and listed[-1] is None and _may_be_left_out(annotation, len(listed) - 1):
            listed.pop()
        return listed
    if kind in (Union, python_types.UnionType):
        if _takes_more(arguments) and not _is_variable(value, nodes):
            return value
        return next((_value(each, value, nodes) for each in arguments if _fits(each, value)), value)
    if isinstance(value, list) and arguments:
        return [_value(arguments[0], each, nodes) for each in cast("list[Any]", value)]
    if isinstance(value, Mapping) and len(arguments) > 1:
        return {key: _value(arguments[1], each, nodes) for key, each in cast("Mapping[str, Any]", value).items()}
    return cast("Any", value)


def _may_be_left_out(annotation: Any, place: int) -> bool:
    """Return whether a place of a declared tuple has a default."""
    return annotation._fields[place] in annotation._field_defaults


def _takes_more(arguments: Sequence[Any]) -> bool:
    """Return whether a union takes variables, and texts or values as well."""
    return Selector in arguments and any(each not in (Selector, type(None)) for each in arguments)


def _is_variable(value: Any, nodes: Collection[str]) -> bool:
    """Return whether a text is nothing but a variable: ``{{#2.text#}}``, or ``2.text`` where there is a node 2."""
    if not isinstance(value, str):
        return is_selector(value)
    if _ONE_VARIABLE.fullmatch(value.strip()):
        return True
    return bool(_BARE.fullmatch(value)) and any(value.startswith(f"{node}.") for node in nodes)


_ONE_VARIABLE = re.compile(r"\{\{#[^#{}\s.]+\.[^#{}]+#\}\}")
_BARE = re.compile(r"[\w-]+\.[^\W\d][\w.-]*")


def _plain(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _draft(annotation: Any, value: Any) -> Any:
    kind, arguments = get_origin(annotation), get_args(annotation)
    if kind is Annotated:
        return _draft(arguments[0], value)
    if annotation is Selector:
        return f"{value[1]}.{value[0]}" if is_selector(value) else value
    if (fields := places(annotation)) and isinstance(value, list | tuple):
        given = cast("Sequence[Any]", value)
        names = list(fields)
        if annotation is Condition:
            given = [*given, *[None] * (len(names) - len(given))]
        return {name: _draft(fields[name], each) for name, each in zip(names, given, strict=False)}
    if kind in (Union, python_types.UnionType):
        return _drafted_union(arguments, value)
    if isinstance(value, list | tuple) and arguments:
        return [_draft(arguments[0], each) for each in cast("Sequence[Any]", value)]
    if isinstance(value, Mapping) and len(arguments) > 1:
        return {key: _draft(arguments[1], each) for key, each in cast("Mapping[str, Any]", value).items()}
    return cast("Any", value)


def _drafted_union(arguments: Sequence[Any], value: Any) -> Any:
    if Selector in arguments and is_selector(value):
        variable = _draft(Selector, value)
        return f"{{{{#{variable}#}}}}" if _takes_more(arguments) else variable
    tuples = [each for each in arguments if places(each) and each is not Selector]
    return _draft(tuples[0], value) if tuples and isinstance(value, list | tuple) else value


def _fits(annotation: Any, value: Any) -> bool:
    """Return whether a value looks as if it were of one branch of a union."""
    plain = _plain(annotation)
    if places(plain):
        return isinstance(value, Mapping if plain is not Selector else str)
    if get_origin(plain) in (list, Sequence, tuple):
        return isinstance(value, list)
    return isinstance(value, plain) if is_class(plain) and plain is not Text else isinstance(value, str)


def _described(schema: Schema, field: FieldInfo | None) -> Schema:
    said = field.description if field is not None else ""
    return {**schema, "description": said} if said else schema


def _closed(properties: Mapping[str, Schema]) -> Schema:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }
