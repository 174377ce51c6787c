"""The catalogue of node types, from their declarations: for people, and word for word for models that make workflows."""

from __future__ import annotations

import inspect
import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from pydantic import JsonValue
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from operad.operators.named_params import form, named
from operad.operators.node import ADVANCED, NodeOperator, summary
from operad.operators.variables import Accepts, VariableType

NodeType = type[NodeOperator[Any]]


def drafted_fields(node_type: NodeType, advanced: Collection[str] = ()) -> dict[str, FieldInfo]:
    """Return the parameters that models are told of when they generate workflows.

    Args:
        node_type: The type.
        advanced: Advanced parameters among them, as ``type.parameter``, or ``parameter`` for all types.
    """
    return {
        name: each
        for name, each in node_type.params_type.model_fields.items()
        if ADVANCED not in each.metadata or name in advanced or f"{node_type.type}.{name}" in advanced
    }


def card(node_type: NodeType, *, advanced: bool = False) -> str:
    """Describe a type in words: its work, its parameters, its outputs, its ports and an example.

        print(card(NODE_TYPES["llm"]))

    Args:
        node_type: The type.
        advanced: Whether parameters are shown that models who make workflows are not told of.
    """
    lines = [f"{node_type.type}: {summary(node_type)}", *(f"  {line}" for line in _more(node_type))]
    every = node_type.params_type.model_fields
    fields = {name: every[name] for name in sorted(every, key="failure".__eq__)}
    if not advanced:
        fields = drafted_fields(node_type)
    lines += ["  params:" if fields else "  params: none"]
    for name, field in fields.items():
        default = "" if field.is_required() else f" (may be left out; {_default(field)})"
        written = f" Written {said}." if (said := form(field.rebuild_annotation())) else ""
        lines.append(f"    {name}: {field.description}{default}{_accepted(field.metadata)}{written}")
    lines += [f"  outputs: {node_type.gives}"]
    lines += [f"  ports: {node_type.ways}"] if node_type.ways else []
    lines += [f"  example: {_example(node_type)}"] if node_type.example else []
    return "\n".join(lines)


def _example(node_type: NodeType) -> str:
    """The example as it stands in a file of YAML, on one line."""
    values = json.loads(json.dumps(node_type.example))
    return json.dumps(named(node_type.params_type, values), ensure_ascii=False)


def as_json(node_type: NodeType) -> dict[str, JsonValue]:
    """A type as JSON: what `card` says, and the JSON Schema of its parameters."""
    return {
        "type": node_type.type,
        "summary": summary(node_type),
        "description": inspect.cleandoc(node_type.__doc__ or ""),
        "params": params_schema(node_type),
        "outputs": node_type.gives,
        "ports": node_type.ways,
        "example": json.loads(json.dumps(node_type.example)),
    }


def params_schema(node_type: NodeType) -> dict[str, JsonValue]:
    """The JSON Schema of a type's parameters."""
    return node_type.params_type.model_json_schema()


def table(types: Iterable[NodeType]) -> str:
    """A line for each type."""
    rows = [(node_type.type, summary(node_type)) for node_type in types]
    width = max((len(name) for name, _ in rows), default=0)
    return "\n".join(f"{name:{width}}  {text}" for name, text in rows)


def _more(node_type: NodeType) -> list[str]:
    _, _, rest = inspect.cleandoc(node_type.__doc__ or "").partition("\n\n")
    return rest.splitlines()


def _default(field: Any) -> str:
    default = field.get_default(call_default_factory=True)
    return "" if default is PydanticUndefined else f"then {json.dumps(default, default=str)}"


def _accepted(metadata: Iterable[object]) -> str:
    accepts = next((each.types for each in metadata if isinstance(each, Accepts)), None)
    if accepts is None or {VariableType.FILE, VariableType.STRING} <= set(accepts):
        return ""
    names = [kind.value for kind in accepts if kind is not VariableType.ANY]
    return "" if len(names) > 8 else f" Accepts: {', '.join(names)}."


def known(types: Mapping[str, NodeType]) -> str:
    """All types in words, with an empty line between."""
    return "\n\n".join(card(node_type) for node_type in types.values())
