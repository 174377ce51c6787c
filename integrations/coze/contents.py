"""Nodes and edges in a workflow's file, with those inside containers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from operad.flows.formats.plain import plain
from operad.flows.formats.shapes import Fields
from operad.integrations.coze.translation import is_readable_container
from operad.runtime.values.document import Document, Path_
from operad.runtime.values.errors import InvalidError, Issue


@dataclass(frozen=True, slots=True)
class Listed:
    """Node of a file.

    Attributes:
        node: The fields of the node, as JSON values.
        parent: The id of the container that it is in; empty for none.
        holds: True for a container whose nodes Operad reads.
    """

    node: Fields
    parent: str
    holds: bool

    @property
    def id(self) -> str:
        """Id of the node."""
        return str(self.node["id"])


class Link(NamedTuple):
    """Edge of a file.

    Attributes:
        source: The id of the node that the edge leaves.
        target: The id of the node that the edge leads to.
        port: The name of the source's port; None if the edge names none.
        parent: The id of the container that lists the edge; empty for none.
    """

    source: str
    target: str
    port: Any
    parent: str


class Contents:
    """Nodes and edges of a workflow's file, with those inside containers.

    Args:
        document: The file.
        name: The name of the file, for errors.

    Attributes:
        nodes: The nodes, each container before the nodes inside it.
        links: The edges.

    Raises:
        InvalidError: Nodes or edges are malformed; every issue is listed with its line.
    """

    def __init__(self, document: Document, name: str) -> None:
        self._document = document
        self._issues: list[Issue] = []
        self.nodes: list[Listed] = []
        self.links: list[Link] = []
        self._read_level(document.data, "", ())
        if self._issues:
            raise InvalidError(name, self._issues)

    def _read_level(self, given: Mapping[str, Any], parent: str, path: Path_) -> None:
        """Read the nodes and edges of a level, and those of the containers in it."""
        for index, edge in enumerate(self._list(given, "edges", path)):
            match edge:
                case {"source_node": str() | int() as source, "target_node": str() | int() as target, **more}:
                    self.links.append(Link(str(source), str(target), more.get("source_port"), parent))
                case _:
                    self._report("misshapen-edge", "must have a source_node and a target_node", (*path, "edges", index))
        for index, node in enumerate(self._list(given, "nodes", path)):
            node_path = (*path, "nodes", index)
            match node:
                case {"id": str() | int(), "type": str()}:
                    fields = cast("Fields", plain(node))
                    listed = Listed(fields, parent, is_readable_container(fields))
                    self.nodes.append(listed)
                    if listed.holds:
                        self._read_level(cast("Fields", node), listed.id, node_path)
                case _:
                    self._report("misshapen-node", "must have an id and a type", node_path)

    def _list(self, given: Mapping[str, Any], key: str, path: Path_) -> list[Any]:
        value = given.get(key)
        if isinstance(value, list):
            return cast("list[Any]", value)
        if value is not None or key == "nodes":
            self._report("format", f"{key}: must be a list", (*path, key))
        return []

    def _report(self, code: str, message: str, path: Path_) -> None:
        self._issues.append(Issue(code, message, self._document.where(path)))
