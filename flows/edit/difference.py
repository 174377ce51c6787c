"""Differences between two workflows, as values and as lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from operad.flows.edit.paths import Step, path_of
from operad.flows.formats.shapes import is_selector
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators.named_params import named
from operad.operators.nodes import NODE_TYPES
from operad.operators.variables import MAX_SHOWN_VALUE, plain, shown

AROUND = 20
"""Characters that are shown on each side of what is another in a long text."""


@dataclass(frozen=True, slots=True)
class ParamChange:
    """A part of a node's parameters that is another.

    Attributes:
        node: The id of the node.
        path: Which part.
        old: What it was, in a list; an empty list where it was not there.
        new: What it is, likewise.
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
        return f"~ node {self.node} {sign}{self.path}: {shown(value[0])}"


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference between two workflows; the order of nodes and edges, and the `extra` of formats, do not count.

    A node with another type, or inside of another node, is a removed and an added one. As text, a line for each.

    Attributes:
        added: The nodes that are new.
        removed: The nodes that are gone.
        changed: What is another in the parameters of the others.
        edges_added: The edges that are new.
        edges_removed: The edges that are gone.
    """

    added: Sequence[NodeSpec] = ()
    removed: Sequence[NodeSpec] = ()
    changed: Sequence[ParamChange] = ()
    edges_added: Sequence[Edge] = ()
    edges_removed: Sequence[Edge] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed or self.edges_added or self.edges_removed)

    def __str__(self) -> str:
        return "\n".join(
            [
                *(f"- {_node(spec)}" for spec in self.removed),
                *(f"+ {_node(spec)}" for spec in self.added),
                *map(str, self.changed),
                *(f"- {_edge(edge)}" for edge in self.edges_removed),
                *(f"+ {_edge(edge)}" for edge in self.edges_added),
            ]
        )

    @property
    def status(self) -> Mapping[str, str]:
        """Marks of nodes that were added or changed, for `operad.flows.flowchart.write`."""
        return {change.node: "changed" for change in self.changed} | {spec.id: "added" for spec in self.added}

    def as_dict(self) -> dict[str, Any]:
        """It as JSON."""
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
        }


def difference(before: NodeGraph, after: NodeGraph) -> Difference:
    """Return the difference between two workflows.

        print(difference(NodeGraph(), graph))

    Args:
        before: The one.
        after: The other.
    """
    old, new = before.by_id, after.by_id
    same = {
        node_id
        for node_id, spec in old.items()
        if node_id in new and (spec.type, spec.parent) == (new[node_id].type, new[node_id].parent)
    }
    kept = {id(spec) for spec in (*(old[each] for each in same), *(new[each] for each in same))}
    there, now = ({id(spec) for spec in graph.nodes} for graph in (before, after))
    return Difference(
        added=[spec for spec in after.nodes if id(spec) not in kept | there],
        removed=[spec for spec in before.nodes if id(spec) not in kept | now],
        changed=[
            ParamChange(spec.id, path_of(steps), was, is_)
            for spec in after.nodes
            if spec.id in same and new[spec.id] is spec and old[spec.id] is not spec
            for steps, was, is_ in _changes(_with_names(old[spec.id]), _with_names(spec), ())
        ],
        edges_added=_more(after.edges, before.edges),
        edges_removed=_more(before.edges, after.edges),
    )


def _with_names(spec: NodeSpec) -> Any:
    """The parameters of a node with names in place of positions, where its type is known."""
    return named(NODE_TYPES[spec.type].params_type, spec.params) if spec.type in NODE_TYPES else spec.params


def _more(edges: Sequence[Edge], others: Sequence[Edge]) -> list[Edge]:
    """The edges that the others do not have, or not as often."""
    counts: dict[tuple[str, int, str, str], int] = {}
    for edge in others:
        counts[_key(edge)] = counts.get(_key(edge), 0) + 1
    more: list[Edge] = []
    for edge in edges:
        counts[_key(edge)] = counts.get(_key(edge), 0) - 1
        if counts[_key(edge)] < 0:
            more.append(edge)
    return more


def _key(edge: Edge) -> tuple[str, int, str, str]:
    return edge.source, edge.port, edge.target, edge.input


_Found = tuple[tuple[Step, ...], tuple[Any, ...], tuple[Any, ...]]


def _changes(old: Any, new: Any, path: tuple[Step, ...]) -> Iterator[_Found]:
    """The parts that are others: the path, and what was and is there, as far as it was and is."""
    if old is new:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        ours, theirs = cast("Mapping[str, Any]", old), cast("Mapping[str, Any]", new)
        for key in dict.fromkeys([*ours, *theirs]):
            if key in ours and key in theirs:
                yield from _changes(ours[key], theirs[key], (*path, key))
            else:
                yield (
                    (*path, key),
                    tuple([ours[key]] if key in ours else []),
                    tuple([theirs[key]] if key in theirs else []),
                )
    elif isinstance(old, list) and isinstance(new, list) and not is_selector(old) and not is_selector(new):
        yield from _in_list(cast("list[Any]", old), cast("list[Any]", new), path)
    elif not _same(cast("object", old), cast("object", new)):
        yield path or ("",), (old,), (new,)


def _same(old: object, new: object) -> bool:
    return type(old) is type(new) and old == new


def _in_list(old: list[Any], new: list[Any], path: tuple[Step, ...]) -> Iterator[_Found]:
    """Yield the changes of a list: its items between the common beginning and end, if only one list has any there."""
    least = min(len(old), len(new))
    begin = next((n for n in range(least) if old[n] != new[n]), least)
    end = next((n for n in range(least - begin) if old[-1 - n] != new[-1 - n]), least - begin)
    gone, come = old[begin : len(old) - end], new[begin : len(new) - end]
    if len(gone) == len(come):
        for number, (one, other) in enumerate(zip(gone, come, strict=True), begin):
            yield from _changes(one, other, (*path, number))
    elif gone and come:
        yield path, (old,), (new,)
    else:
        yield from (((*path, begin + number), (item,), ()) for number, item in enumerate(gone))
        yield from (((*path, begin + number), (), (item,)) for number, item in enumerate(come))


# As lines


def _node(spec: NodeSpec) -> str:
    inside = f" inside {spec.parent}" if spec.parent else ""
    params = f": {shown(_with_names(spec))}" if spec.params else ""
    return f"node {spec.id} ({spec.type}){inside}{params}"


def _edge(edge: Edge) -> str:
    port = f" port {edge.port}" if edge.port else ""
    return f"edge {edge.source}{port} → {edge.target}{f' {edge.input}' if edge.input else ''}"


def _node_json(spec: NodeSpec) -> dict[str, Any]:
    return {"id": spec.id, "type": spec.type, "params": plain(spec.params), "inside": spec.parent}


def side_by_side(old: Any, new: Any) -> tuple[str, str]:
    """Return two values as they are shown side by side: of long texts, the parts that differ and a little around them."""
    if not (isinstance(old, str) and isinstance(new, str)) or max(len(old), len(new)) <= MAX_SHOWN_VALUE:
        return shown(old), shown(new)
    least = min(len(old), len(new))
    begin = next((n for n in range(least) if old[n] != new[n]), least)
    end = next((n for n in range(least - begin) if old[-1 - n] != new[-1 - n]), least - begin)
    first, last = max(begin - AROUND, 0), max(end - AROUND, 0)

    def part(text: str) -> str:
        return f"{'…' if first else ''}{text[first : len(text) - last]}{'…' if last else ''}"

    return shown(part(old)), shown(part(new))
