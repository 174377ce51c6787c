"""Signatures of node types for models that write workflows: one line for each type, from its declaration."""

from __future__ import annotations

import re
import types as python_types
import typing
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic.fields import FieldInfo

from operad.flows.catalogue import NodeType, fields_for_generation
from operad.operators.conditions import OPERATORS, Condition
from operad.operators.named_params import is_pair, is_tuple
from operad.operators.node import ADVANCED, summary
from operad.operators.variables import Selector, Text, VariableType

NOTATION = "Node types: name(parameters) → outputs; ports. Hints"
"""Title of a list of signatures."""

EVERYWHERE = "failure"
"""Parameter that every type has."""

SHARED = (EVERYWHERE, "model_name")
"""Advanced parameters of several types, which are described once, after all types."""

OUTSIDE = frozenset({"request", "tool"})
"""Types that reach other systems, whose plans say what they may change there and how these answer."""

SERVED = frozenset({"tool", "agent", "knowledge-retrieval", "sub-workflow"})
"""Types that name configured services."""

ONLY_NAMED = frozenset({"list-operator", "echarts", *SERVED, *OUTSIDE, "loop", "assigner"})
"""Types of which the list for changes has the name only, as few changes add them, and they need rules of their own."""

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
    shown = [types[name] for name in dict.fromkeys(names) if name in plannable(types)]
    return "\n".join([*(signature(node_type, params) for node_type in shown), *shared_params(shown, params)])


def signature(node_type: NodeType, params: Collection[str] = ()) -> str:
    """Return a node type in one line: its parameters with their types, outputs, ports, and its hint.

    Args:
        node_type: The type.
        params: Advanced parameters to show, as ``type.parameter``.
    """
    fields = {name: each for name, each in fields_for_generation(node_type, params).items() if name != EVERYWHERE}
    outputs = "" if node_type.gives.startswith("nothing") else f" → {node_type.gives}"
    ports = f"; {node_type.ports_text}" if node_type.ports_text else ""
    hint = _hint(node_type)
    advanced = [
        f"{name}: {field.description}"
        for name, field in fields.items()
        if ADVANCED in field.metadata
        and name not in SHARED
        and not re.search(rf"\b{name}\b", hint)  # unless the hint describes the parameter
    ]
    notes = " ".join(filter(None, [hint, *advanced]))
    return f"{node_type.type}({_params(node_type, fields)}){outputs}{ports}" + (f". {notes}" if notes else "")


def names_of(types: Mapping[str, NodeType], used: Collection[str] = ()) -> str:
    """Return the types that a change may add, in a few lines, with their parameters; of `ONLY_NAMED`, the names.

    Args:
        types: Node types by name.
        used: Types whose parameters the workflow shows.
    """
    lines = {
        name: _without_hints(types[name], is_used=name in used)
        for name in plannable(types)
        if name not in ("start", "end")
    }
    others = [name for name in lines if name in ONLY_NAMED]
    by_output: dict[str, list[str]] = {}
    for shown, _, output in (lines[name].partition(" → ") for name in lines if name not in others):
        by_output.setdefault(output, []).append(shown)
    brief = [", ".join(shown) + f" → {output}" * bool(output) for output, shown in by_output.items()]
    return "\n".join([*brief, ", ".join([*others, f"{EVERYWHERE} {{retries, wait, then: end|branch}} of any"])])


def _without_hints(node_type: NodeType, *, is_used: bool) -> str:
    """Return a node type with its required parameters and optional lists, and its output if there is one.

    A type that is used has only its optional parameters that are lists or choices.
    """
    given = _OUTPUT_DETAILS.sub("", node_type.gives).split()
    output = f" → {given[0]}" if len(given) in (1, 2) and given[0] != "nothing" else ""
    inside = _INSIDE.search(node_type.gives)
    hints = get_type_hints(node_type.params_type, include_extras=True)
    fields = fields_for_generation(node_type)
    required = [name for name, field in fields.items() if field.is_required()]
    kinds = {name: _type_name(hints[name]) for name in fields if name not in required}
    optional = [name for name, kind in kinds.items() if kind.startswith("[") or (is_used and "|" in kind)]
    names = [*required * (not is_used), *optional * (node_type.type != "code")]
    params = _params(node_type, {name: fields[name] for name in names}, brief=True)
    shown = "; ".join(filter(None, [params, f"inside: {inside[1]}" if inside and not is_used else ""]))
    return f"{node_type.type}{f'({shown})' if shown else ''}{output}"


_INSIDE = re.compile(r"; inside only: (\w+)")
"""Pattern of the variable of a container for the nodes inside, in the description of its outputs."""

_OUTPUT_DETAILS = re.compile(r"; inside.*| \((?!(?:array\[\w+\]|object)\))[^()]*\)|: .*")
"""Pattern of details in descriptions of outputs, except the types of lists and objects."""


def _params(node_type: NodeType, fields: Mapping[str, FieldInfo], *, brief: bool = False) -> str:
    """Return the parameters with their types; ? marks optional ones. In brief, named values are mappings."""
    hints = get_type_hints(node_type.params_type, include_extras=True)
    return ", ".join(
        _with_type(name if field.is_required() else f"{name}?", _type_name(hints[name], brief=brief), brief=brief)
        for name, field in fields.items()
    )


def plannable(types: Mapping[str, NodeType]) -> list[str]:
    """Return the names of the types that models plan: all except those that begin the body of a container."""
    starts = {node_type.body_starts_with for node_type in types.values()}
    return [name for name in types if name not in starts]


def _hint(node_type: NodeType) -> str:
    """Return the hint of a node type, by default its summary; for if-else, the operators of conditions."""
    if node_type.type == "if-else":
        return "".join(_signatures_operators_by_type())
    return summary(node_type) if node_type.hint is None else node_type.hint


def _signatures_operators_by_type() -> Iterator[str]:
    """Yield the operators of conditions by the type of the variable, and last those of all types."""
    kinds = (VariableType.STRING, VariableType.NUMBER, VariableType.BOOLEAN, VariableType.ARRAY_STRING)
    common = [operator for operator in OPERATORS[kinds[0]] if all(operator in OPERATORS[kind] for kind in kinds)]
    yield "Operators: "
    for kind in kinds:
        specific = [operator for operator in OPERATORS[kind] if operator not in common]
        yield f"{kind.value.partition('[')[0]}: {', '.join(specific)}; "
    yield f"all: {', '.join(common)}"


def _with_type(name: str, kind: str, *, brief: bool = False) -> str:
    """Return a name with its type; in brief, without those that are texts, and variables that are called so."""
    is_plain = brief and (kind == "text" or (kind == "var" and re.search("variable$|selector$", name)))
    return name if is_plain or not kind else f"{name}: {kind}"


def _type_name(annotation: Any, *, brief: bool = False) -> str:
    """Return the type of a parameter in short; empty for a plain text."""
    name = partial(_type_name, brief=brief)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return name(arguments[0])
    if annotation in SHORT:
        return SHORT[annotation]
    if is_tuple(annotation):
        return f"{{{', '.join(_fields_in_short(annotation, brief=brief))}}}"
    if origin in (Union, python_types.UnionType):
        if len(_without_none(arguments)) == 1:
            return name(_without_none(arguments)[0])
        names = dict.fromkeys(name(argument) or "text" for argument in _without_none(arguments))
        return "|".join(each for each in names if each != "var" or "text" not in names)  # a text can be a variable
    if origin is Literal:
        return "|".join(map(str, arguments))
    if origin in (list, Sequence, typing.Sequence):
        if brief and is_pair(arguments[0]):
            _, value = arguments[0]._fields
            return f"{{name: {name(get_type_hints(arguments[0])[value]) or value}}}"
        return f"[{name(arguments[0]) or 'text'}]"
    if origin in (dict, Mapping, typing.Mapping):
        return "{name: value}"
    return ""


def _fields_in_short(annotation: Any, *, brief: bool) -> Iterator[str]:
    """Yield the fields of a named tuple with their types; in brief, without advanced ones, and with some operators."""
    for name, hint in get_type_hints(annotation, include_extras=True).items():
        if brief and (annotation, name) == (Condition, "operator"):
            yield f"operator: {_SOME_OPERATORS}"
        elif not (brief and ADVANCED in get_args(hint)):
            optional = name in annotation._field_defaults
            kind = "" if brief and optional else _type_name(hint, brief=brief)
            yield _with_type(f"{name}?" if optional else name, kind, brief=brief)


_SOME_OPERATORS = "is|contains|empty|≥…"
"""Operators of conditions in the list of types for changes, as examples."""


def _without_none(kinds: Sequence[Any]) -> Sequence[Any]:
    return [kind for kind in kinds if kind is not type(None)]


def shared_params(shown: Sequence[NodeType], params: Collection[str]) -> Iterator[str]:
    """Yield a line for each parameter of `SHARED` that the shown types have."""
    for name in SHARED:
        types_with_param = [
            node_type
            for node_type in shown
            if name in node_type.params_type.model_fields and {name, f"{node_type.type}.{name}"} & set(params)
        ]
        if types_with_param:
            owners = "every type" if name in params else ", ".join(node_type.type for node_type in types_with_param)
            yield f"{name}?, a parameter of {owners}: {types_with_param[0].params_type.model_fields[name].description}"
