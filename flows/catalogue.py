"""Catalogue of node types, made from their declarations, for people and for models that generate workflows."""

from __future__ import annotations

import inspect
import json
from collections.abc import Collection, Iterable
from typing import Any

from pydantic import JsonValue
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from operad.operators.named_params import form, named
from operad.operators.node import ADVANCED, NodeOperator, summary
from operad.operators.variables import Accepts, VariableType

NodeType = type[NodeOperator[Any]]


def fields_for_generation(node_type: NodeType, advanced: Collection[str] = ()) -> dict[str, FieldInfo]:
    """Return the parameters that are shown to models which generate workflows.

    Args:
        node_type: The node type.
        advanced: The advanced parameters to include, as ``type.parameter``, or ``parameter`` for all types.
    """
    return {
        name: field
        for name, field in node_type.params_type.model_fields.items()
        if ADVANCED not in field.metadata or name in advanced or f"{node_type.type}.{name}" in advanced
    }


def card(node_type: NodeType, *, advanced: bool = False) -> str:
    """Return the description of a node type: purpose, parameters, outputs, ports and an example.

        print(card(NODE_TYPES["llm"]))

    Args:
        node_type: The node type.
        advanced: True to include advanced parameters and reports, which models that generate workflows are not shown.
    """
    lines = [f"{node_type.type}: {summary(node_type)}", *(f"  {line}" for line in _description(node_type))]
    declared = node_type.params_type.model_fields
    fields = {name: declared[name] for name in sorted(declared, key="failure".__eq__)}
    if not advanced:
        fields = fields_for_generation(node_type)
    lines += ["  params:" if fields else "  params: none"]
    for name, field in fields.items():
        default = "" if field.is_required() else f" (may be left out; {_default(field)})"
        written = f" Written {notation}." if (notation := form(field.rebuild_annotation())) else ""
        lines.append(f"    {name}: {field.description}{default}{_accepted_types(field.metadata)}{written}")
    lines += [f"  outputs: {outputs_text(node_type) if advanced else node_type.gives}"]
    lines += [f"  ports: {node_type.ports_text}"] if node_type.ports_text else []
    lines += [f"  example: {_example(node_type)}"] if node_type.example else []
    return "\n".join(lines)


def outputs_text(node_type: NodeType) -> str:
    """Return the description of the outputs and reports of a node type."""
    reports = ", ".join(f"{name} ({kind.value})" for name, kind in node_type.reports.items())
    return f"{node_type.gives}; how it was answered: {reports}" if reports else node_type.gives


def _example(node_type: NodeType) -> str:
    """Return the example on one line, with the names that parameters have in YAML files."""
    values = json.loads(json.dumps(node_type.example))
    return json.dumps(named(node_type.params_type, values), ensure_ascii=False)


def as_json(node_type: NodeType) -> dict[str, JsonValue]:
    """Return the description of a node type as JSON, with the JSON Schema of its parameters."""
    return {
        "type": node_type.type,
        "summary": summary(node_type),
        "description": inspect.cleandoc(node_type.__doc__ or ""),
        "params": params_schema(node_type),
        "outputs": outputs_text(node_type),
        "ports": node_type.ports_text,
        "example": json.loads(json.dumps(node_type.example)),
    }


def params_schema(node_type: NodeType) -> dict[str, JsonValue]:
    """Return the JSON Schema of a node type's parameters."""
    return node_type.params_type.model_json_schema()


def table(types: Iterable[NodeType]) -> str:
    """Return one line for each node type: its name and its summary."""
    rows = [(node_type.type, summary(node_type)) for node_type in types]
    width = max((len(name) for name, _ in rows), default=0)
    return "\n".join(f"{name:{width}}  {text}" for name, text in rows)


def _description(node_type: NodeType) -> list[str]:
    _, _, rest = inspect.cleandoc(node_type.__doc__ or "").partition("\n\n")
    return rest.splitlines()


def _default(field: Any) -> str:
    default = field.get_default(call_default_factory=True)
    return "" if default is PydanticUndefined else f"then {json.dumps(default, default=str)}"


def _accepted_types(metadata: Iterable[object]) -> str:
    accepts = next((each.types for each in metadata if isinstance(each, Accepts)), None)
    if accepts is None or {VariableType.FILE, VariableType.STRING} <= set(accepts):
        return ""
    names = [kind.value for kind in accepts if kind is not VariableType.ANY]
    return "" if len(names) > 8 else f" Accepts: {', '.join(names)}."
