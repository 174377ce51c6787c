"""Places of the nodes of a changed file: those that were there stay, and a new one stands behind those before it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from operad.flows.formats.dify.layout import GAP, HEIGHT, WIDTH
from operad.flows.formats.shapes import Fields, fields_of

_PLACE = ("position", "positionAbsolute", "width", "height")
_FAR = 1e9


class _Box(NamedTuple):
    """A node on the canvas, in pixels from the top left of what it stands in."""

    x: float
    y: float
    width: float
    height: float


def settled(nodes: Iterable[Fields], edges: Iterable[Fields], old: Iterable[Fields]) -> list[Fields]:
    """Return the nodes of a changed file, in their order, each that was there where it stood.

    Args:
        nodes: The nodes, laid out as if they were all new.
        edges: Their edges.
        old: The nodes of the file before the change.
    """
    found = {str(node.get("id")): node for node in nodes}
    was = {str(node.get("id")): node for node in old}
    before: dict[str, list[str]] = {}
    for edge in edges:
        before.setdefault(str(edge.get("target")), []).append(str(edge.get("source")))
    levels: dict[str, dict[str, _Box]] = {}
    for name, node in found.items():
        if name in was and _holder(was[name]) == _holder(node):
            found[name] = {**node, **{key: was[name][key] for key in _PLACE if key in was[name]}}
            levels.setdefault(_holder(node), {})[name] = _box(found[name])
    new = [name for name, node in found.items() if name not in levels.get(_holder(node), {})]
    for name in sorted(new, key=lambda name: _box(found[name]).x):
        level = levels.get(_holder(found[name]), {})
        if level:  # beside nodes that stay; a level of new nodes alone is as it was laid out
            level[name] = _free(
                _box(found[name]), [level[each] for each in before.get(name, ()) if each in level], level.values()
            )
            found[name] = {**found[name], "position": {"x": level[name].x, "y": level[name].y}}
    for holder in {_holder(found[name]) for name in new} & found.keys():
        found[holder] = _holding(found[holder], levels.get(holder, {}).values())
    for name in new:
        found[name] = {**found[name], "positionAbsolute": _absolute(name, found)}
    return list(found.values())


def _holder(node: Fields) -> str:
    return str(node.get("parentId") or "")


def _free(box: _Box, earlier: list[_Box], taken: Iterable[_Box]) -> _Box:
    """The box behind earlier ones, as far down as it needs to be free of others."""
    if earlier:
        x = max(each.x + each.width for each in earlier) + GAP
        box = box._replace(x=x, y=earlier[0].y)
    for other in sorted(taken, key=lambda other: other.y):
        beside = other.x < box.x + box.width and box.x < other.x + other.width
        if beside and other.y < box.y + box.height and box.y < other.y + other.height:
            box = box._replace(y=other.y + other.height + GAP)
    return box


def _holding(node: Fields, inside: Iterable[_Box]) -> Fields:
    """The node, as large as what stands in it needs it to be."""
    own = _box(node)
    width = max([own.width, *(each.x + each.width + GAP for each in inside)])
    height = max([own.height, *(each.y + each.height + GAP for each in inside)])
    return {**node, "width": width, "height": height}


def _absolute(name: str, nodes: dict[str, Fields]) -> Fields:
    """The position of a node from the top left of all."""
    x: float = 0
    y: float = 0
    seen: set[str] = set()
    while name in nodes and name not in seen:
        seen.add(name)
        box = _box(nodes[name])
        x, y = x + box.x, y + box.y
        name = _holder(nodes[name])
    return {"x": x, "y": y}


def _box(node: Fields) -> _Box:
    at = fields_of(node.get("position"))
    return _Box(
        _number(at.get("x")),
        _number(at.get("y")),
        _number(node.get("width"), WIDTH),
        _number(node.get("height"), HEIGHT),
    )


def _number(value: Any, otherwise: float = 0.0) -> float:
    """A number that a file says; another where it says none."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _FAR  # no NaN either
    return value if known else otherwise
