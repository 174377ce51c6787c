"""Inputs and outputs of a node in Coze's form, with their types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from operad.flows.formats.shapes import Fields
from operad.operators.variables import VariableType

T = VariableType


def coze_type(kind: VariableType) -> Fields:
    """Return Coze's form of a type."""
    if kind.item is not None:
        return {"type": "list", "items": {**coze_type(kind.item), "value": None}}
    return {"type": {T.NUMBER: "float", T.ANY: "object"}.get(kind, kind.value)}


def operad_type(given: Any) -> str:
    """Return Operad's name of a type in Coze's form.

    Raises:
        ValueError: The type is unknown.
    """
    name = given["type"]
    if name == "list":
        return T(operad_type(given["items"])).array.value if given.get("items") else T.ARRAY.value
    if name in ("integer", "float", "number"):
        return T.NUMBER.value
    if name in ("image", "audio", "video", "doc", "ppt", "excel", "txt", "zip", "svg", "voice", "code"):
        return T.FILE.value
    return T.STRING.value if name == "time" else T(name).value


def declared(outputs: Sequence[tuple[str, VariableType]]) -> Fields:
    """Return the outputs of a node in Coze's form."""
    return {name: {**coze_type(kind), "value": None} for name, kind in outputs}


def input_of(name: str, reference: Fields) -> Fields:
    """Return an input in Coze's form that takes a variable."""
    return {"name": name, "input": {"value": reference}}


def by_name(inputs: Any) -> dict[str, Any]:
    """Return the values of inputs by name."""
    return {each["name"]: each["input"].get("value") for each in cast("list[Any]", inputs or [])}


def literal(text: str, kind: str = "string") -> Fields:
    """Return a literal value in Coze's form."""
    return {"type": kind, "value": {"content": text, "type": "literal"}}
