"""The catalogue of node types, from their declarations: for people, and word for word for models that make workflows."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import JsonValue
from pydantic_core import PydanticUndefined

from operad.operators.node import NodeOperator, summary
from operad.operators.variables import Accepts, VariableType

NodeType = type[NodeOperator[Any]]


def card(node_type: NodeType) -> str:
    """A type in words: what it does, its parameters, its outputs, its ports and an example."""
    lines = [f"{node_type.type}: {summary(node_type)}", *(f"  {line}" for line in _more(node_type))]
    fields = node_type.params_type.model_fields
    lines += ["  params:" if fields else "  params: none"]
    for name, field in fields.items():
        default = "" if field.is_required() else f" (may be left out; {_default(field)})"
        lines.append(f"    {name}: {field.description}{default}{_accepted(field.metadata)}")
    lines += [f"  outputs: {node_type.gives}"]
    lines += [f"  ports: {node_type.ways}"] if node_type.ways else []
    lines += [f"  example: {json.dumps(node_type.example, ensure_ascii=False)}"] if node_type.example else []
    return "\n".join(lines)


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
