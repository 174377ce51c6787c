"""Drafted form of parameters, in which models read and write them.

Declared tuples, written as lists (``[variable, node id]``, ``[[variable], operator, value]``), become objects with
named keys, and a variable becomes ``id.variable``.
"""

from __future__ import annotations

import re
import types as python_types
from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from operad.flows.formats.shapes import fields_of, is_selector, json_or_text
from operad.operators.conditions import OPERATORS, Condition
from operad.operators.named_params import is_pair, is_tuple
from operad.operators.node import NodeOperator
from operad.operators.variables import Selector, Text, VariableType

NodeType = type[NodeOperator[Any]]


def params_of(node_type: NodeType, drafted: Mapping[str, Any], nodes: Collection[str] = ()) -> dict[str, Any]:
    """Return drafted parameters in declared form; values of another form are kept for the check to report.

    Args:
        node_type: The type of the node.
        drafted: Parameters that a model wrote.
        nodes: Ids of the workflow's nodes. If a parameter takes a variable or a text, ``id.variable`` is a variable
            if it begins with one of these ids.
    """
    hints = get_type_hints(node_type.params_type)
    fields = node_type.params_type.model_fields
    drafted = {_known_name(name, fields, drafted): value for name, value in drafted.items()}
    declared = {
        name: _declared_value(hints[name], value, nodes) if name in hints else value for name, value in drafted.items()
    }
    return {name: value for name, value in declared.items() if value is not None or name not in fields
            or fields[name].is_required()}  # fmt: skip


def _known_name(name: str, fields: Collection[str], given: Collection[str]) -> str:
    """Return the parameter that a name means which has more words, such as ``loop_variables`` for ``variables``."""
    longer = [each for each in fields if f"_{each}_" in f"_{name}_" and each not in given]
    return longer[0] if name not in fields and len(longer) == 1 else name


def drafted(node_type: NodeType, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return declared parameters in drafted form, in which models read and change them.

    Args:
        node_type: The type of the node.
        params: Parameters in declared form.
    """
    hints = get_type_hints(node_type.params_type)
    return {name: _drafted_value(hints[name], value) if name in hints else value for name, value in params.items()}


def as_declared(value: Any) -> Any:
    """Return a variable as ``[variable, id]``; other values unchanged.

    A variable is ``id.variable``, ``{{#id.variable#}}`` or ``{"node_id": id, "variable": variable}``.
    """
    fields = fields_of(value)
    if set(fields) == {"node_id", "variable"}:
        return [fields["variable"], str(fields["node_id"])]
    node, dot, variable = value.strip("{}# ").partition(".") if isinstance(value, str) else ("", "", "")
    return [variable, node] if dot else value


def places(annotation: Any) -> Mapping[str, Any]:
    """Return the types of a named tuple's fields by name; empty for other types."""
    if not is_tuple(annotation):
        return {}
    hints = get_type_hints(annotation)
    # the declaration leaves the operator open, as it depends on the type of the variable
    if annotation is Condition:
        known = list(dict.fromkeys(item for listed in OPERATORS.values() for item in listed))
        hints["operator"] = Literal[tuple(known)]
    return hints


def _declared_value(annotation: Any, value: Any, nodes: Collection[str]) -> Any:
    """Return a drafted value in the form of its declared type."""
    kind, arguments = get_origin(annotation), get_args(annotation)
    if annotation is Selector:
        return as_declared(value)
    if isinstance(value, str) and (choices := _choices(annotation)):
        return _choice(value, choices)
    if (fields := places(annotation)) and isinstance(value, Mapping):
        return _declared_record(annotation, fields, cast("Mapping[str, Any]", value), nodes)
    if kind in (Union, python_types.UnionType):
        if _takes_variables_and_values(arguments) and not _is_variable(value, nodes):
            return value
        return next(
            (_declared_value(argument, value, nodes) for argument in arguments if _fits(argument, value)), value
        )
    if kind in (list, Sequence) and isinstance(value, Mapping):
        value = _records(arguments[0], cast("Mapping[str, Any]", value))
    if isinstance(value, list) and arguments:
        return [_declared_value(arguments[0], each, nodes) for each in cast("list[Any]", value)]
    if isinstance(value, Mapping) and len(arguments) > 1:
        return {
            key: _declared_value(arguments[1], each, nodes) for key, each in cast("Mapping[str, Any]", value).items()
        }
    return cast("Any", value)


def _choices(annotation: Any) -> Sequence[str]:
    """Return the texts of which a parameter takes one; empty for other types."""
    if get_origin(annotation) is Literal:
        return [each for each in get_args(annotation) if isinstance(each, str)]
    return [each.value for each in annotation] if isinstance(annotation, type) and issubclass(annotation, Enum) else []


def _choice(text: str, choices: Sequence[str]) -> str:
    """Return the choice that a text names, in another case or by a word for its type; otherwise the text."""
    by_name = {choice.casefold(): choice for choice in choices}
    if VariableType.STRING.value in choices:
        by_name = _TYPE_WORDS | by_name
    return by_name.get(text.strip().casefold(), text)


_TYPE_WORDS = {
    "str": "string",
    "text": "string",
    "int": "number",
    "integer": "number",
    "float": "number",
    "bool": "boolean",
    "dict": "object",
}
"""Words of other languages for types of variables."""


def _declared_record(
    annotation: Any, fields: Mapping[str, Any], given: Mapping[str, Any], nodes: Collection[str]
) -> Any:
    """Return the list that a named tuple is written as; a mapping without a required field is kept for the check."""
    optional = {*annotation._field_defaults, *(name for name, hint in fields.items() if type(None) in get_args(hint))}
    if not given.keys() >= fields.keys() - optional:
        return given
    value, kind = given.get("value"), given.get("type") if "type" in fields else None
    if isinstance(value, str) and kind not in (None, "string"):  # the value of a number or a list, written as a text
        given = {**given, "value": json_or_text(value)}
    defaults, names = annotation._field_defaults, list(fields)
    while names and names[-1] in defaults and given.get(names[-1]) is None:
        names.pop()
    return [_declared_value(fields[name], given.get(name, defaults.get(name)), nodes) for name in names]


def short_values(node_type: NodeType, drafted: Mapping[str, Any]) -> dict[str, Any]:
    """Return drafted parameters in short, as `params_of` reads them: pairs as a mapping by name, nothing that is empty."""
    hints = get_type_hints(node_type.params_type)
    return {
        name: _short_value(hints.get(name), value) for name, value in drafted.items() if value not in (None, "", [], {})
    }


def _short_value(annotation: Any, value: Any) -> Any:
    """Return a list of pairs as a mapping by name, and records without the fields that hold nothing."""
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in cast("list[Any]", value)):
        return cast("Any", value)
    records = [
        {key: _short_value(None, each) for key, each in fields_of(record).items() if each is not None}
        for record in cast("list[Any]", value)
    ]
    names = [str(record.get("name")) for record in records]
    item = next(iter(get_args(annotation)), None)
    key = item._fields[1] if item is not None and is_pair(item) else ""
    is_mapping = key and len({*names}) == len(names) and {*names} != {"name", key}
    is_mapping = is_mapping and all(record.keys() == {"name", key} for record in records)
    return {name: record[key] for name, record in zip(names, records, strict=True)} if is_mapping else records


def _records(item: Any, named: Mapping[str, Any]) -> Any:
    """Return the list that a mapping stands for, as in Operad's YAML: names with a value each, or one record."""
    fields = list(places(item))
    if not is_pair(item):
        return named
    return [named] if set(named) == set(fields) else [dict(zip(fields, pair, strict=True)) for pair in named.items()]


def _takes_variables_and_values(arguments: Sequence[Any]) -> bool:
    return Selector in arguments and any(argument not in (Selector, type(None)) for argument in arguments)


def _is_variable(value: Any, nodes: Collection[str]) -> bool:
    """Return whether a value is a single variable: ``{{#2.text#}}``, or ``2.text`` if there is a node 2."""
    if not isinstance(value, str):
        return is_selector(value)
    if _REFERENCE.fullmatch(value.strip()):
        return True
    return bool(_DOTTED.fullmatch(value)) and any(value.startswith(f"{node}.") for node in nodes)


_REFERENCE = re.compile(r"\{\{#[^#{}\s.]+\.[^#{}]+#\}\}")
_DOTTED = re.compile(r"[\w-]+\.[^\W\d][\w.-]*")


def _drafted_value(annotation: Any, value: Any) -> Any:
    """Return a declared value in drafted form."""
    kind, arguments = get_origin(annotation), get_args(annotation)
    if annotation is Selector:
        return f"{value[1]}.{value[0]}" if is_selector(value) else value
    if (fields := places(annotation)) and isinstance(value, list | tuple):
        given = cast("Sequence[Any]", value)
        names = list(fields)
        if len(given) > len(names):
            return given
        if annotation is Condition:
            given = [*given, *[None] * (len(names) - len(given))]
        return {name: _drafted_value(fields[name], each) for name, each in zip(names, given, strict=False)}
    if kind in (Union, python_types.UnionType):
        return _drafted_union(arguments, value)
    if isinstance(value, list | tuple) and arguments:
        return [_drafted_value(arguments[0], each) for each in cast("Sequence[Any]", value)]
    if isinstance(value, Mapping) and len(arguments) > 1:
        return {key: _drafted_value(arguments[1], each) for key, each in cast("Mapping[str, Any]", value).items()}
    return cast("Any", value)


def _drafted_union(arguments: Sequence[Any], value: Any) -> Any:
    """Return a value of a union in drafted form."""
    if Selector in arguments and is_selector(value):
        variable = _drafted_value(Selector, value)
        return f"{{{{#{variable}#}}}}" if _takes_variables_and_values(arguments) else variable
    tuples = [argument for argument in arguments if places(argument) and argument is not Selector]
    return _drafted_value(tuples[0], value) if tuples and isinstance(value, list | tuple) else value


def _fits(annotation: Any, value: Any) -> bool:
    """Return whether the form of a drafted value fits one type of a union."""
    if places(annotation):
        return isinstance(value, Mapping if annotation is not Selector else str)
    if get_origin(annotation) in (list, Sequence, tuple):
        return isinstance(value, list)
    return isinstance(value, annotation if isinstance(annotation, type) and annotation is not Text else str)
