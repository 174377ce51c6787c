"""The nodes and the edges that a workflow's file lists, at every level of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from operad.flows.formats.coze.translation import holds_others
from operad.flows.formats.shapes import Fields
from operad.runtime.values.document import Document, Path_
from operad.runtime.values.errors import InvalidError, Issue


@dataclass(frozen=True, slots=True)
class Listed:
    """A node as a file has it.

    Attributes:
        node: The node, of values of JSON.
        parent: The id of the node that it stands in; empty for none.
        holds: Whether it holds others in a way that we read.
    """

    node: Fields
    parent: str
    holds: bool

    @property
    def id(self) -> str:
        """Its id."""
        return str(self.node["id"])


class Link(NamedTuple):
    """An edge as a file has it.

    Attributes:
        source: The id of the node that it leaves.
        target: The id of the node that it leads to.
        port: The name of the port that it leaves by; None where it has none.
        parent: The id of the node whose edges list it; empty for none.
    """

    source: str
    target: str
    port: Any
    parent: str


class Contents:
    """Content of a file.

    Args:
        document: The file.
        name: What errors call it.

    Attributes:
        nodes: Its nodes, each before those inside of it.
        links: Its edges.

    Raises:
        InvalidError: Nodes or edges are not of the form; every issue is listed with its line.
    """

    def __init__(self, document: Document, name: str) -> None:
        self._document = document
        self._issues: list[Issue] = []
        self.nodes: list[Listed] = []
        self.links: list[Link] = []
        self._level(document.data, "", ())
        if self._issues:
            raise InvalidError(name, self._issues)

    def _level(self, given: Mapping[str, Any], parent: str, path: Path_) -> None:
        for number, edge in enumerate(self._list(given, "edges", path)):
            match edge:
                case {"source_node": str() | int() as source, "target_node": str() | int() as target, **more}:
                    self.links.append(Link(str(source), str(target), more.get("source_port"), parent))
                case _:
                    self._report(
                        "misshapen-edge", "must have a source_node and a target_node", (*path, "edges", number)
                    )
        for number, node in enumerate(self._list(given, "nodes", path)):
            at = (*path, "nodes", number)
            match node:
                case {"id": str() | int(), "type": str()}:
                    fields = cast("Fields", plain(node))
                    listed = Listed(fields, parent, holds_others(fields))
                    self.nodes.append(listed)
                    if listed.holds:
                        self._level(cast("Fields", node), listed.id, at)
                case _:
                    self._report("misshapen-node", "must have an id and a type", at)

    def _list(self, given: Mapping[str, Any], key: str, path: Path_) -> list[Any]:
        value = given.get(key)
        if isinstance(value, list):
            return cast("list[Any]", value)
        if value is not None or key == "nodes":
            self._report("format", f"{key}: must be a list", (*path, key))
        return []

    def _report(self, code: str, message: str, path: Path_) -> None:
        self._issues.append(Issue(code, message, self._document.where(path)))


def plain(value: Any) -> Any:
    """A value of YAML as one of JSON."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list):
        return [plain(item) for item in cast("list[Any]", value)]
    return value if isinstance(value, str | int | float | None) else str(value)
