"""Mapping of a node type to Dify, and the context in which a node is written or read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from operad.flows.formats.shapes import Fields, list_of
from operad.integrations.dify.names import Names
from operad.operators.variables import Selector, VariableType

T = VariableType


@dataclass(frozen=True)
class NodeContext:
    """Context of writing or reading a node.

    Attributes:
        id: Dify's id of the node.
        names: The translation of references.
        type_of: Function that returns the type of a variable.
        start_id: Dify's id of the start node inside the container; empty for other nodes.
    """

    id: str
    names: Names
    type_of: Callable[[Selector], VariableType]
    start_id: str = ""

    def kind(self, selector: Any) -> str:
        """Return Dify's name for the type of a variable; ``string`` if the type is unknown."""
        match selector:
            case [str() as variable, str() as node]:
                kind = self.type_of(Selector(variable, node))
                return {T.ANY: T.STRING, T.ARRAY: T.ARRAY_STRING}.get(kind, kind).value
            case _:
                return "string"

    def uuid(self, *parts: object) -> str:
        """Return an id for a part of the node, always the same for the same part."""
        return str(uuid5(NAMESPACE_URL, "/".join(map(str, ("operad:dify", self.id, *parts)))))


@dataclass(frozen=True)
class NodeMapping:
    """Mapping of a node type.

    Attributes:
        title: The title of new nodes.
        write: Function that turns parameters into Dify's data.
        read: Function that turns Dify's data into parameters.
        type: Dify's name of the type; empty if it is the same.
    """

    title: str
    write: Callable[[Fields, NodeContext], Fields]
    read: Callable[[Fields, NodeContext], Fields]
    type: str = ""


def convert_fields(fields: Fields, **conversions: Callable[[Any], Any]) -> Fields:
    """Return those of the named fields that exist, each converted by its function."""
    return {key: convert(fields[key]) for key, convert in conversions.items() if key in fields}


def unchanged(value: Any) -> Any:
    """Return a value unchanged; a conversion for `convert_fields`."""
    return value


def reference(selector: Any) -> str:
    """Return the reference in a text for ``[id, variable, part…]``; empty for other values."""
    parts = [part for part in list_of(selector) if isinstance(part, str)]
    return "{{#" + ".".join(parts) + "#}}" if len(parts) > 1 else ""
