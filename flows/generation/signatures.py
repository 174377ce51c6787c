"""Signatures of node types for models: one line for each type, from its declaration."""

from __future__ import annotations

import re
import types as python_types
import typing
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic.fields import FieldInfo

from operad.flows.catalogue import NodeType, fields_for_generation
from operad.flows.generation.drafting import places
from operad.flows.generation.plan import DECLARES
from operad.operators.conditions import OPERATORS
from operad.operators.node import ADVANCED, summary
from operad.operators.variables import Selector, Text, VariableType

NOTATION = "Node types: name(parameters) → outputs; ports. Hints"
"""Title of a list of signatures."""

EVERYWHERE = "failure"
"""Parameter that every type has, which is described once, after all signatures."""

SHORT: Mapping[Any, str] = {Selector: "var", Text: "text", bool: "bool", int: "number", float: "number"}
"""Names of types in signatures; other types, such as plain texts, have no name."""


def signatures(types: Mapping[str, NodeType], names: Iterable[str], params: Collection[str] = ()) -> str:
    """Return the signatures of node types in the given order, each once.

        print(signatures(NODE_TYPES, ["llm", "end"]))

    Args:
        types: Node types by name.
        names: Names of the types to show; unknown names and the starts of containers are ignored.
        params: Advanced parameters to show, as ``type.parameter``, or ``parameter`` for all types.
    """
    inner = inner_types(types)
    shown = [types[name] for name in dict.fromkeys(names) if name in types and name not in inner]
    lines = [signature(node_type, params) for node_type in shown]
    if shown and EVERYWHERE in params:
        field = shown[0].params_type.model_fields[EVERYWHERE]
        lines.append(f"Every type also has {EVERYWHERE}?: {field.description}")
    return "\n".join(lines)


def signature(node_type: NodeType, params: Collection[str] = ()) -> str:
    """Return a node type in one line: its parameters with their types, outputs, ports, and its hint.

    Args:
        node_type: The type.
        params: Advanced parameters to show, as ``type.parameter``.
    """
    fields = {name: each for name, each in fields_for_generation(node_type, params).items() if name != EVERYWHERE}
    shown_params = _params(node_type, fields)
    outputs = "" if node_type.gives.startswith("nothing") else f" → {node_type.gives}"
    ports = f"; {node_type.ports_text}" if node_type.ports_text else ""
    hint = _hint(node_type)
    advanced = [
        f"{name}: {field.description}"
        for name, field in fields.items()
        if ADVANCED in field.metadata and not re.search(rf"\b{name}\b", hint)  # unless the hint describes the parameter
    ]
    notes = " ".join(filter(None, [hint, *advanced]))
    return f"{node_type.type}({shown_params}){outputs}{ports}" + (f". {notes}" if notes else "")


def short(node_type: NodeType) -> str:
    """Return a node type in short: outputs and ports, and for types that declare their outputs the parameters.

    Args:
        node_type: The type.
    """
    shown_params = f"({_params(node_type, fields_for_generation(node_type))})" if node_type.type in DECLARES else ""
    outputs = "" if node_type.gives.startswith("nothing") else f" → {_OUTPUT_DETAILS.sub('', node_type.gives)}"
    ports = f"; {node_type.ports_text}" if node_type.ports_text else ""
    return f"{node_type.type}{shown_params}{outputs}{ports}"


_OUTPUT_DETAILS = re.compile(r"; inside.*| \((?!(?:array\[\w+\]|object)\))[^()]*\)|: .*")
"""Pattern of details in descriptions of outputs, except the types of lists and objects."""


def _params(node_type: NodeType, fields: Mapping[str, FieldInfo]) -> str:
    """Return the parameters with their types; ? marks optional ones."""
    hints = get_type_hints(node_type.params_type, include_extras=True)
    return ", ".join(
        _with_type(name if field.is_required() else f"{name}?", _type_name(hints[name]))
        for name, field in fields.items()
    )


def inner_types(types: Mapping[str, NodeType]) -> set[str]:
    """Return the types that begin the body of a container, which models do not plan."""
    return {node_type.body_starts_with for node_type in types.values()} - {""}


def _hint(node_type: NodeType) -> str:
    """Return the hint of a node type, by default its summary; for if-else, the operators of conditions."""
    if node_type.type == "if-else":
        return "".join(_operators_by_type())
    return summary(node_type) if node_type.hint is None else node_type.hint


def _operators_by_type() -> Iterator[str]:
    """Yield the operators of conditions by the type of the variable, and last those of all types."""
    kinds = (VariableType.STRING, VariableType.NUMBER, VariableType.BOOLEAN, VariableType.ARRAY_STRING)
    common = [operator for operator in OPERATORS[kinds[0]] if all(operator in OPERATORS[kind] for kind in kinds)]
    yield "Operators: "
    for kind in kinds:
        specific = [operator for operator in OPERATORS[kind] if operator not in common]
        yield f"{kind.value.partition('[')[0]}: {', '.join(specific)}; "
    yield f"all: {', '.join(common)}"


def _with_type(name: str, kind: str) -> str:
    return f"{name}: {kind}" if kind else name


def _type_name(annotation: Any) -> str:
    """Return the type of a parameter in short; empty for a plain text."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type_name(arguments[0])
    if annotation in SHORT:
        return SHORT[annotation]
    if fields := places(annotation, choices=False):
        optional = annotation._field_defaults
        return (
            "{"
            + ", ".join(_with_type(f"{n}?" if n in optional else n, _type_name(each)) for n, each in fields.items())
            + "}"
        )
    if origin in (Union, python_types.UnionType):
        if len(_without_none(arguments)) == 1:
            return _type_name(_without_none(arguments)[0])
        return "|".join(dict.fromkeys(_type_name(argument) or "text" for argument in _without_none(arguments)))
    if origin is Literal:
        return "|".join(map(str, arguments))
    if origin in (list, Sequence, typing.Sequence):
        return f"[{_type_name(arguments[0]) or 'text'}]"
    if origin in (dict, Mapping, typing.Mapping):
        return "{name: value}"
    return ""


def _without_none(kinds: Sequence[Any]) -> Sequence[Any]:
    return [kind for kind in kinds if kind is not type(None)]
