"""Mapping of node types to Dify: the node's side of the file, and a pair of functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from operad.flows.formats.dify.names import Names
from operad.flows.formats.dify.plugins import Plugins
from operad.flows.formats.shapes import Fields, list_of
from operad.operators.variables import Selector, VariableType

T = VariableType


@dataclass(frozen=True)
class Side:
    """Context of writing or reading a node.

    Attributes:
        id: Its id there.
        names: References.
        type_of: The type of a variable.
        plugins: What stands behind node types.
        begins: The id there of what begins the nodes inside of it.
    """

    id: str
    names: Names
    type_of: Callable[[Selector], VariableType]
    plugins: Plugins
    begins: str = ""

    def kind(self, selector: Any) -> str:
        """The type of a variable, as it is called there; that of texts where nothing is known."""
        match selector:
            case [str() as variable, str() as node]:
                kind = self.type_of(Selector(variable, node))
                return {T.ANY: T.STRING, T.ARRAY: T.ARRAY_STRING}.get(kind, kind).value
            case _:
                return "string"

    def uuid(self, *parts: object) -> str:
        """An id for a part of the node: always the same for it."""
        return str(uuid5(NAMESPACE_URL, "/".join(map(str, ("operad:dify", self.id, *parts)))))


@dataclass(frozen=True)
class Mapped:
    """Mapping of a node type.

    Attributes:
        title: What people see.
        write: Makes data of parameters.
        read: Makes parameters of data.
        type: What it is called there.
    """

    title: str
    write: Callable[[Fields, Side], Fields]
    read: Callable[[Fields, Side], Fields]
    type: str = ""


def picked(fields: Fields, **ways: Callable[[Any], Any]) -> Fields:
    """Return the existing fields among these, each converted."""
    return {key: way(fields[key]) for key, way in ways.items() if key in fields}


def same(value: Any) -> Any:
    """A value as it is, for `picked`."""
    return value


def reference(selector: Any) -> str:
    """``[id, variable, part…]`` as a text names it; empty for other values."""
    parts = [part for part in list_of(selector) if isinstance(part, str)]
    return "{{#" + ".".join(parts) + "#}}" if len(parts) > 1 else ""
