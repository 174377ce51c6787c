"""Translation of ids and references between Operad and Dify.

Dify's ids consist of letters, digits and underscores. In other ids, other characters become underscores; the start node
inside a container gets the id of the container with ``start`` at the end. Dify's references are
``[id, variable, part…]`` and ``{{#id.variable#}}``. A value from outside of the graph, such as ``sys.query`` or
``env.KEY``, is in Operad an input of the start node with that name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from operad.flows.node_graph import NodeSpec
from operad.operators.variables import Selector, Text, VariableType
from operad.runtime.values.secret import Secret, fill_secrets

T = VariableType

STARTS = ("iteration-start", "loop-start")
"""Types of the start nodes inside containers."""

OUTSIDE = ("sys", "env")
"""First parts of the names of values from outside of the graph."""

_VALID = re.compile(r"[a-zA-Z0-9_]{1,50}")
_PART = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,29}")
_SYSTEM_TYPES = {"files": T.ARRAY_FILE, "dialogue_count": T.NUMBER, "timestamp": T.NUMBER}
_RENAMED = {("loop", "rounds"): "loop_round", ("human-input", "action"): "__action_id"}
"""Dify's names of variables that differ, by node type and Operad's name."""


def dify_ids(nodes: Sequence[NodeSpec], fixed: Mapping[str, str]) -> dict[str, str]:
    """Return Dify's ids of nodes by Operad's.

    Args:
        nodes: The nodes.
        fixed: The ids of Dify that are known already, by Operad's.
    """
    found = dict(fixed)
    found |= {node.id: node.id for node in nodes if node.id not in found and _VALID.fullmatch(node.id)}
    taken = set(found.values())
    numbers: dict[str, int] = {}
    for node in nodes:
        if node.id in found:
            continue
        is_start = node.type in STARTS and node.parent in found
        wanted = f"{found[node.parent]}start" if is_start else re.sub(r"[^a-zA-Z0-9_]", "_", node.id)[:40] or "_"
        name = wanted
        while name in taken:
            numbers[wanted] = numbers.get(wanted, 1) + 1
            name = f"{wanted}_{numbers[wanted]}"
        taken.add(name)
        found[node.id] = name
    return found


def fits_text(variable: str) -> bool:
    """Return True if a text of Dify can refer to a variable of that name."""
    return all(_PART.fullmatch(part) for part in variable.split("."))


class Names:
    """Translation of references between Dify and Operad.

    Args:
        ids: Dify's ids by Operad's.
        types: The types of the nodes, by Operad's ids.
        secrets: The names of the environment variables that are secrets.

    Attributes:
        outside: The values from outside of the graph that the references read so far name, in order.
        of_start: The variables of the start node that they name, in order.
    """

    def __init__(self, ids: Mapping[str, str], types: Mapping[str, str], secrets: Collection[str] = ()) -> None:
        self._dify_ids = ids
        self._secrets = secrets
        self._operad_ids = {dify_id: operad_id for operad_id, dify_id in ids.items()}
        self._types = types
        self._start = next((node_id for node_id, kind in types.items() if kind == "start"), "")
        self.outside: dict[str, None] = {}
        self.of_start: dict[str, None] = {}

    # From Dify

    def read(self, selector: Any) -> Any:
        """Return ``[variable, id]`` for Dify's ``[id, variable, part…]``; other values unchanged."""
        if not _are_texts(selector) or len(cast("list[str]", selector)) < 2:
            return selector
        node, *path = cast("list[str]", selector)
        return list(self._read(node, ".".join(path)))

    def read_text(self, text: Any) -> Any:
        """Return a text with Operad's references; other values unchanged."""
        return Text(text).renamed(self._read_reference) if isinstance(text, str) else text

    def read_request_text(self, text: Any) -> Any:
        """Return a text of a request with Operad's references, also to secrets; other values unchanged."""
        return Text(text).renamed(self._read_in_request) if isinstance(text, str) else text

    def _read_in_request(self, selector: Selector) -> str:
        if selector.node == "env" and "env" not in self._operad_ids and selector.variable in self._secrets:
            return Secret(selector.variable).in_text
        return self._read_reference(selector)

    def read_id(self, node: str) -> str:
        """Return Operad's id of a node."""
        return self._operad_ids.get(node, node)

    def _read_reference(self, selector: Selector) -> str:
        return Selector(*self._read(selector.node, selector.variable)).in_text

    def _read(self, node: str, variable: str) -> tuple[str, str]:
        """Return Operad's variable and node id; values from outside of the graph become inputs of the start node."""
        operad_id = self.read_id(node)
        if self._start and operad_id == self._start and variable.startswith("sys."):  # as in older files
            node, variable = "sys", variable.removeprefix("sys.")
        if node in OUTSIDE and self._start and node not in self._operad_ids:
            name = f"{node}.{variable}"
            self.outside[name] = None
            return name, self._start
        if operad_id == self._start:
            self.of_start[variable.partition(".")[0]] = None
        kind = self._types.get(operad_id, "")
        for (node_type, name), dify_name in _RENAMED.items():
            if kind == node_type and variable == dify_name:
                return name, operad_id
        return variable, operad_id

    # To Dify

    def write(self, selector: Any) -> Any:
        """Return ``[id, variable, part…]`` for Operad's ``[variable, id]``; other values unchanged."""
        if not _are_texts(selector) or len(cast("list[str]", selector)) != 2:
            return selector
        variable, node = cast("list[str]", selector)
        node, variable = self._write(node, variable)
        return [node, *variable.split(".")]

    def write_text(self, text: Any) -> Any:
        """Return a text with Dify's references; other values unchanged."""
        return Text(text).renamed(self._write_reference) if isinstance(text, str) else text

    def write_request_text(self, text: Any) -> Any:
        """Return a text of a request with Dify's references, also to secrets; other values unchanged."""
        if not isinstance(text, str):
            return text
        return fill_secrets(text, lambda secret: Selector(secret.name, "env").in_text, self.write_text)

    def write_id(self, node: str) -> str:
        """Return Dify's id of a node."""
        return self._dify_ids.get(node, node)

    def _write_reference(self, selector: Selector) -> str:
        node, variable = self._write(selector.node, selector.variable)
        return Selector(variable, node).in_text

    def _write(self, node: str, variable: str) -> tuple[str, str]:
        """Return Dify's node id and variable; the inverse of `_read`."""
        outside, _, name = variable.partition(".")
        if node == self._start and outside in OUTSIDE and name:
            return outside, name
        return self.write_id(node), _RENAMED.get((self._types.get(node, ""), variable), variable)


def outside_type(name: str) -> str:
    """Return the type of a value from outside of the graph."""
    return _SYSTEM_TYPES.get(name.partition(".")[2], T.STRING).value


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in cast("list[Any]", value))
