"""The catalogue of node types for the palette and the forms of the studio."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, cast

from operad.flows.catalogue import fields_for_generation, params_schema
from operad.flows.check import NodeType
from operad.flows.node_graph import name_of_type
from operad.operators.conditions import OPERATORS, operators_of
from operad.operators.node import summary
from operad.operators.nodes import NODE_TYPES
from operad.operators.variables import Accepts

FAMILIES: Mapping[str, str] = {
    "start": "Flow", "end": "Flow", "answer": "Flow", "if-else": "Logic", "question-classifier": "Logic",
    "llm": "Models", "agent": "Models", "parameter-extractor": "Models",
    "code": "Data", "template-transform": "Data", "variable-aggregator": "Data", "list-operator": "Data",
    "assigner": "Data", "conversation": "Data", "document-extractor": "Files", "markdown-exporter": "Files",
    "mermaid-converter": "Files", "echarts": "Files", "tts": "Files", "text2image": "Files",
    "iteration": "Containers", "iteration-start": "Containers", "loop": "Containers", "loop-start": "Containers",
    "loop-end": "Containers", "sub-workflow": "Containers", "http-request": "Tools", "request": "Tools",
    "comfyui": "Tools", "google-search": "Tools", "knowledge-retrieval": "Tools", "tool": "Tools", "human-input": "People",
}  # fmt: skip
"""Family of each node type in the palette; the family of other types is Others."""

_RESULTS = frozenset({"output_selector"})
"""Parameters that name a variable of a node inside the container."""

_MODEL = "model_name"

_TEMPLATES = frozenset({"code", "template"})
_PROMPTS = frozenset({"system", "user", "instruction", "query", "answer", "prompt"})


@cache
def catalogue() -> tuple[dict[str, Any], ...]:
    """Return all node types, with the JSON Schema of their parameters.

    Fields have hints for their editors: ``x-editor`` is ``prompt`` for a text with variables, ``code`` for a program,
    ``template`` for Jinja, ``variable`` for a variable of another node, ``model`` for the name of a model; ``x-advanced`` marks a field that is rarely set.
    ``x-types`` are the types that a variable may have, and ``x-inside`` marks one of a node inside the container.
    ``x-operators`` of a condition lists its operators by the type of the variable.
    """
    return tuple(_entry(name, node_type) for name, node_type in NODE_TYPES.items())


def _entry(name: str, node_type: NodeType) -> dict[str, Any]:
    return {
        "type": name,
        "title": name_of_type(name),
        "family": FAMILIES.get(name, "Others"),
        "summary": summary(node_type),
        "schema": _schema_with_hints(node_type),
        "container": bool(node_type.body_starts_with),
        "body_start": node_type.body_starts_with or None,
        "example": json.loads(json.dumps(node_type.example)),
    }


def _schema_with_hints(node_type: NodeType) -> dict[str, Any]:
    schema = cast("dict[str, Any]", params_schema(node_type))
    shown = fields_for_generation(node_type)
    for name, part in cast("dict[str, dict[str, Any]]", schema.get("properties", {})).items():
        if editor := _editor(node_type, name, part):
            part["x-editor"] = editor
        field = node_type.params_type.model_fields[name]
        if types := next((each.types for each in field.metadata if isinstance(each, Accepts)), ()):
            part["x-types"] = [kind.value for kind in types]
        if name in _RESULTS:
            part["x-inside"] = True
        if name not in shown and name != _MODEL:
            part["x-advanced"] = True
    condition = cast("dict[str, dict[str, Any]]", schema.get("$defs", {})).get("Condition")
    if condition is not None:
        condition["x-operators"] = {kind.value: operators_of(kind) for kind in OPERATORS}
    return schema


def _editor(node_type: NodeType, name: str, part: Mapping[str, Any]) -> str:
    kind = node_type.params_type.model_fields[name].annotation
    if name == _MODEL:
        return "model"
    if part.get("$ref") == "#/$defs/Selector":
        return "variable"
    if name in _TEMPLATES and _is_text(part):
        return name
    takes_variables = getattr(kind, "__name__", "") == "Text" or "Text" in str(kind)
    return "prompt" if _is_text(part) and (takes_variables or name in _PROMPTS) else ""


def _is_text(part: Mapping[str, Any]) -> bool:
    return part.get("type") == "string" or any(
        option.get("type") == "string" for option in cast("list[dict[str, Any]]", part.get("anyOf", []))
    )
