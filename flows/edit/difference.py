"""Differences between two workflows, as values and as lines of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from operad.flows.edit.paths import Step, path_of
from operad.flows.formats.shapes import is_selector
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec, StickyNote
from operad.operators.named_params import named
from operad.operators.nodes import NODE_TYPES
from operad.operators.variables import MAX_SHOWN_VALUE, plain, short_json

T = TypeVar("T")

AROUND = 20
"""Number of characters to show on each side of a difference in a long text."""


@dataclass(frozen=True, slots=True)
class ParamChange:
    """Change of a node's title, or of a value in its parameters.

    Attributes:
        node: Id of the node.
        path: Path of the value.
        old: The old value as the only item; empty if the value is new.
        new: The new value as the only item; empty if the value was removed.
    """

    node: str
    path: str
    old: tuple[Any, ...]
    new: tuple[Any, ...]

    def __str__(self) -> str:
        if self.old and self.new:
            old, new = side_by_side(self.old[0], self.new[0])
            return f"~ node {self.node} {self.path}: {old} → {new}"
        sign, value = ("+", self.new) if self.new else ("-", self.old)
        return f"~ node {self.node} {sign}{self.path}: {short_json(value[0])}"


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference between two workflows; the order of nodes and edges, and the `extra` of formats, do not count.

    A node that changed its type or its container counts as removed and added. As text, each change is a line.

    Attributes:
        added: Nodes that are new.
        removed: Nodes that were removed.
        changed: Changes in the titles and parameters of the other nodes.
        edges_added: Edges that are new.
        edges_removed: Edges that were removed.
        notes: Lines about sticky notes that are new, changed or removed.
    """

    added: Sequence[NodeSpec] = ()
    removed: Sequence[NodeSpec] = ()
    changed: Sequence[ParamChange] = ()
    edges_added: Sequence[Edge] = ()
    edges_removed: Sequence[Edge] = ()
    notes: Sequence[str] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed or self.edges_added or self.edges_removed or self.notes)

    def __str__(self) -> str:
        return "\n".join(
            [
                *(f"- {_node(spec)}" for spec in self.removed),
                *(f"+ {_node(spec)}" for spec in self.added),
                *map(str, self.changed),
                *(f"- {_edge(edge)}" for edge in self.edges_removed),
                *(f"+ {_edge(edge)}" for edge in self.edges_added),
                *self.notes,
            ]
        )

    @property
    def status(self) -> Mapping[str, str]:
        """Marks of nodes that were added or changed, for `operad.flows.node_graph.flowchart`."""
        return {change.node: "changed" for change in self.changed} | {spec.id: "added" for spec in self.added}

    def as_dict(self) -> dict[str, Any]:
        """Return the difference as JSON."""
        return {
            "added": [_node_json(spec) for spec in self.added],
            "removed": [_node_json(spec) for spec in self.removed],
            "changed": [
                {
                    "node": change.node,
                    "path": change.path,
                    **({"old": plain(change.old[0])} if change.old else {}),
                    **({"new": plain(change.new[0])} if change.new else {}),
                }
                for change in self.changed
            ],
            "edges_added": [[edge.source, edge.port, edge.target] for edge in self.edges_added],
            "edges_removed": [[edge.source, edge.port, edge.target] for edge in self.edges_removed],
            "notes": list(self.notes),
        }


def difference(before: NodeGraph, after: NodeGraph) -> Difference:
    """Return the difference between two workflows.

        print(difference(NodeGraph(), graph))

    Args:
        before: The workflow before the change.
        after: The workflow after the change.
    """
    old, new = before.by_id, after.by_id
    same = {
        node_id
        for node_id, spec in old.items()
        if node_id in new and (spec.type, spec.parent) == (new[node_id].type, new[node_id].parent)
    }
    compared = {id(spec) for spec in (*(old[node_id] for node_id in same), *(new[node_id] for node_id in same))}
    before_ids, after_ids = ({id(spec) for spec in graph.nodes} for graph in (before, after))
    return Difference(
        added=[spec for spec in after.nodes if id(spec) not in compared | before_ids],
        removed=[spec for spec in before.nodes if id(spec) not in compared | after_ids],
        changed=[
            ParamChange(spec.id, path_of(steps), old_value, new_value)
            for spec in after.nodes
            if spec.id in same and new[spec.id] is spec and old[spec.id] is not spec
            for steps, old_value, new_value in _node_changes(old[spec.id], spec)
        ],
        edges_added=surplus(after.edges, before.edges, _key),
        edges_removed=surplus(before.edges, after.edges, _key),
        notes=tuple(_note_changes(before, after)),
    )


def _note_changes(before: NodeGraph, after: NodeGraph) -> Iterator[str]:
    """Yield a line for each sticky note that differs."""
    old, new = ({note.id: note for note in graph.sticky_notes} for graph in (before, after))
    for note_id in dict.fromkeys([*old, *new]):
        if old.get(note_id) != new.get(note_id):
            sign = "~" if note_id in old and note_id in new else "+" if note_id in new else "-"
            note: StickyNote = new.get(note_id) or old[note_id]
            yield f"{sign} sticky note {note_id}: {short_json(note.text)}"


def _node_changes(old: NodeSpec, new: NodeSpec) -> Iterator[_Change]:
    """Yield the changes of a node's title and of its parameters."""
    if old.title != new.title:
        yield ("title",), (old.title,) if old.title else (), (new.title,) if new.title else ()
    yield from _changes(_with_names(old), _with_names(new), ())


def _with_names(spec: NodeSpec) -> Any:
    """Return a node's parameters with names instead of positions if its type is known."""
    return named(NODE_TYPES[spec.type].params_type, spec.params) if spec.type in NODE_TYPES else spec.params


def surplus(items: Sequence[T], others: Sequence[T], key: Callable[[T], Hashable]) -> list[T]:
    """Return the items that occur more often than among the others; items with the same key are the same."""
    counts = Counter(map(key, others))
    more: list[T] = []
    for item in items:
        counts[key(item)] -= 1
        if counts[key(item)] < 0:
            more.append(item)
    return more


def _key(edge: Edge) -> tuple[str, int, str, str]:
    return edge.source, edge.port, edge.target, edge.input


_Change = tuple[tuple[Step, ...], tuple[Any, ...], tuple[Any, ...]]


def _changes(old: Any, new: Any, path: tuple[Step, ...]) -> Iterator[_Change]:
    """Yield the path of each value that differs, with the old and the new value, each as a tuple of at most one."""
    if old is new:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        old_fields, new_fields = cast("Mapping[str, Any]", old), cast("Mapping[str, Any]", new)
        for key in dict.fromkeys([*old_fields, *new_fields]):
            if key in old_fields and key in new_fields:
                yield from _changes(old_fields[key], new_fields[key], (*path, key))
            else:
                yield (
                    (*path, key),
                    tuple([old_fields[key]] if key in old_fields else []),
                    tuple([new_fields[key]] if key in new_fields else []),
                )
    elif isinstance(old, list) and isinstance(new, list) and not is_selector(old) and not is_selector(new):
        yield from _changes_in_list(cast("list[Any]", old), cast("list[Any]", new), path)
    elif not _same(cast("object", old), cast("object", new)):
        yield path or ("",), (old,), (new,)


def _same(old: object, new: object) -> bool:
    """Return whether two values are equal and of the same type, as 1 and true are not."""
    return type(old) is type(new) and old == new


def _changes_in_list(old: list[Any], new: list[Any], path: tuple[Step, ...]) -> Iterator[_Change]:
    """Yield the changes of a list between the common beginning and end of both lists."""
    begin, end = _in_common(old, new)
    removed, added = old[begin : len(old) - end], new[begin : len(new) - end]
    if len(removed) == len(added):
        for number, (old_item, new_item) in enumerate(zip(removed, added, strict=True), begin):
            yield from _changes(old_item, new_item, (*path, number))
    elif removed and added:
        yield path, (old,), (new,)
    else:
        yield from (((*path, begin + number), (item,), ()) for number, item in enumerate(removed))
        yield from (((*path, begin + number), (), (item,)) for number, item in enumerate(added))


def _in_common(old: Sequence[Any], new: Sequence[Any]) -> tuple[int, int]:
    """Return the number of equal items at the beginning and at the end of two lists or texts."""
    shorter = min(len(old), len(new))
    begin = next((n for n in range(shorter) if old[n] != new[n]), shorter)
    end = next((n for n in range(shorter - begin) if old[-1 - n] != new[-1 - n]), shorter - begin)
    return begin, end


# Text and JSON


def _node(spec: NodeSpec) -> str:
    inside = f" inside {spec.parent}" if spec.parent else ""
    params = f": {short_json(_with_names(spec))}" if spec.params else ""
    title = f" {short_json(spec.title)}" if spec.title else ""
    return f"node {spec.id} ({spec.type}){title}{inside}{params}"


def _edge(edge: Edge) -> str:
    port = f" port {edge.port}" if edge.port else ""
    return f"edge {edge.source}{port} → {edge.target}{f' {edge.input}' if edge.input else ''}"


def _node_json(spec: NodeSpec) -> dict[str, Any]:
    title = {"title": spec.title} if spec.title else {}
    return {"id": spec.id, "type": spec.type, **title, "params": plain(spec.params), "inside": spec.parent}


def side_by_side(old: Any, new: Any) -> tuple[str, str]:
    """Return two values as text to show side by side; long texts are cut to the parts that differ."""
    if not (isinstance(old, str) and isinstance(new, str)) or max(len(old), len(new)) <= MAX_SHOWN_VALUE:
        return short_json(old), short_json(new)
    begin, end = _in_common(old, new)
    first, last = max(begin - AROUND, 0), max(end - AROUND, 0)

    def part(text: str) -> str:
        return f"{'…' if first else ''}{text[first : len(text) - last]}{'…' if last else ''}"

    return short_json(part(old)), short_json(part(new))
