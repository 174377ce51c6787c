"""Positions of the nodes of a changed file: old nodes stay, new ones go to the right of their predecessors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from operad.flows.formats.shapes import Fields, fields_of
from operad.integrations.dify.layout import GAP, HEIGHT, WIDTH

_PLACE_KEYS = ("position", "positionAbsolute", "width", "height")
_FAR = 1e9


class _Box(NamedTuple):
    """Position and size of a node, in pixels from the top left of its container."""

    x: float
    y: float
    width: float
    height: float


def keep_positions(nodes: Iterable[Fields], edges: Iterable[Fields], old: Iterable[Fields]) -> list[Fields]:
    """Return the nodes of a changed file in their order; nodes of the old file keep their positions.

    Args:
        nodes: The nodes, laid out as if all were new.
        edges: The edges.
        old: The nodes of the file before the change.
    """
    placed = {str(node.get("id")): node for node in nodes}
    old_nodes = {str(node.get("id")): node for node in old}
    predecessors: dict[str, list[str]] = {}
    for edge in edges:
        predecessors.setdefault(str(edge.get("target")), []).append(str(edge.get("source")))
    boxes_by_level: dict[str, dict[str, _Box]] = {}
    for node_id, node in placed.items():
        if node_id in old_nodes and _container_id(old_nodes[node_id]) == _container_id(node):
            placed[node_id] = {
                **node,
                **{key: old_nodes[node_id][key] for key in _PLACE_KEYS if key in old_nodes[node_id]},
            }
            boxes_by_level.setdefault(_container_id(node), {})[node_id] = _box(placed[node_id])
    new_ids = [
        node_id for node_id, node in placed.items() if node_id not in boxes_by_level.get(_container_id(node), {})
    ]
    for node_id in sorted(new_ids, key=lambda node_id: _box(placed[node_id]).x):
        boxes = boxes_by_level.get(_container_id(placed[node_id]), {})
        if boxes:  # a level with old nodes; on a level of new nodes only, the layout stays
            boxes[node_id] = _free_box(
                _box(placed[node_id]),
                [boxes[each] for each in predecessors.get(node_id, ()) if each in boxes],
                boxes.values(),
            )
            placed[node_id] = {**placed[node_id], "position": {"x": boxes[node_id].x, "y": boxes[node_id].y}}
    for container_id in {_container_id(placed[node_id]) for node_id in new_ids} & placed.keys():
        placed[container_id] = _enlarged(placed[container_id], boxes_by_level.get(container_id, {}).values())
    for node_id in new_ids:
        placed[node_id] = {**placed[node_id], "positionAbsolute": _absolute_position(node_id, placed)}
    return list(placed.values())


def _container_id(node: Fields) -> str:
    return str(node.get("parentId") or "")


def _free_box(box: _Box, predecessors: list[_Box], taken: Iterable[_Box]) -> _Box:
    """Return the box to the right of its predecessors, moved down until it overlaps no other box."""
    if predecessors:
        x = max(each.x + each.width for each in predecessors) + GAP
        box = box._replace(x=x, y=predecessors[0].y)
    for other in sorted(taken, key=lambda other: other.y):
        overlaps_x = other.x < box.x + box.width and box.x < other.x + other.width
        if overlaps_x and other.y < box.y + box.height and box.y < other.y + other.height:
            box = box._replace(y=other.y + other.height + GAP)
    return box


def _enlarged(node: Fields, inside: Iterable[_Box]) -> Fields:
    """Return a container, enlarged for the nodes inside it."""
    box = _box(node)
    width = max([box.width, *(each.x + each.width + GAP for each in inside)])
    height = max([box.height, *(each.y + each.height + GAP for each in inside)])
    return {**node, "width": width, "height": height}


def _absolute_position(node_id: str, nodes: dict[str, Fields]) -> Fields:
    """Return the position of a node on the canvas."""
    x: float = 0
    y: float = 0
    visited: set[str] = set()
    while node_id in nodes and node_id not in visited:
        visited.add(node_id)
        box = _box(nodes[node_id])
        x, y = x + box.x, y + box.y
        node_id = _container_id(nodes[node_id])
    return {"x": x, "y": y}


def _box(node: Fields) -> _Box:
    at = fields_of(node.get("position"))
    return _Box(
        _number(at.get("x")),
        _number(at.get("y")),
        _number(node.get("width"), WIDTH),
        _number(node.get("height"), HEIGHT),
    )


def _number(value: Any, default: float = 0.0) -> float:
    """Return a number of a file; the default for any other value."""
    is_valid = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _FAR  # no NaN either
    return value if is_valid else default
