"""Structure of a workflow at Coze: nesting, nodes without a place there, and ids."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count

from operad.flows.formats.coze.nodes.containers import STARTS
from operad.flows.formats.coze.translation import NO_NAMES, translated
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec

START_ID, END_ID = "100001", "900001"

COMMENT = "comment"
"""The type of a note on the canvas, which no run concerns."""


class Structure:
    """The structure of a workflow at Coze.

    Args:
        graph: The workflow.

    Attributes:
        graph: It with each id once.
        top: The nodes that stand in no other.
        children: The nodes inside of each other one.
        begins: By each node that can hold others, the one that only says where these begin, if there is one.
        ends: The ends, where there are several, which are one at Coze.
        placeless: The ids of nodes that Coze has no node for: `begins` and `ends`.
        ids: Coze's ids, by ours.
        merge: The id of what merges several ends.
    """

    def __init__(self, graph: NodeGraph) -> None:
        by_id = graph.by_id
        self.graph = graph = replace(graph, nodes=[spec for spec in graph.nodes if by_id[spec.id] is spec])
        holders = {spec.id for spec in graph.nodes if spec.type in STARTS and translated(spec, NO_NAMES) is not None}
        nested = [spec for spec in graph.nodes if _is_inside(graph, spec, holders)]
        self.children: dict[str, list[NodeSpec]] = {}
        for spec in nested:
            self.children.setdefault(spec.parent, []).append(spec)
        deep = {id(spec) for spec in nested}
        self.top = [spec for spec in graph.nodes if id(spec) not in deep]
        ends = [spec for spec in self.top if spec.type == "end" and translated(spec, NO_NAMES)]
        self.ends = ends if len({spec.id for spec in ends}) == len(ends) > 1 else []
        self.begins = {
            holder: next((spec for spec in self.children.get(holder, ()) if _only_begins(graph, spec)), None)
            for holder in holders
        }
        self.placeless = {spec.id for spec in (*self.ends, *filter(None, self.begins.values()))}
        self.ids, self.merge = self._numbered(ends)

    def _numbered(self, ends: Sequence[NodeSpec]) -> tuple[dict[str, str], str]:
        ids: dict[str, str] = {}
        if start := next((spec for spec in self.top if spec.type == "start"), None):
            ids[start.id] = START_ID
        if len(ends) == 1:
            ids.setdefault(ends[0].id, END_ID)
        written = list(self._in_order(self.top))
        own = [spec.id for spec in (*written, *self.graph.nodes)]  # those without a place there last
        for each in own:
            if re.fullmatch(r"[1-9][0-9]{4,15}", each) and each not in (START_ID, END_ID):
                ids.setdefault(each, each)
        taken = {*ids.values(), START_ID, END_ID}
        free = (str(number) for number in count(110001) if str(number) not in taken)
        for each in own:
            if each not in ids:
                ids[each] = next(free)
        return ids, next(free)

    def _in_order(self, specs: Sequence[NodeSpec]) -> Iterator[NodeSpec]:
        for spec in specs:
            if spec.id not in self.placeless:
                yield spec
            yield from self._in_order(self.children.get(spec.id, ()))

    def is_end(self, node_id: str) -> bool:
        """Return whether a node is one of several ends."""
        return any(spec.id == node_id for spec in self.ends)

    def leads_somewhere(self, edge: Edge) -> bool:
        """Return whether the target of an edge has a place at Coze."""
        return edge.target in self.ids and (edge.target not in self.placeless or self.is_end(edge.target))


def _is_inside(graph: NodeGraph, spec: NodeSpec, holders: set[str]) -> bool:
    """Return whether each node around a node can hold it, up to the workflow."""
    around: set[str] = {spec.id}
    parent = spec.parent
    while parent in holders and parent not in around:
        around.add(parent)
        parent = graph.by_id[parent].parent
    return bool(spec.parent) and not parent


def _only_begins(graph: NodeGraph, spec: NodeSpec) -> bool:
    """Return whether a node only marks the start inside another, so that Coze needs none for it."""
    around = graph.by_id.get(spec.parent)
    return (
        around is not None
        and spec.type == STARTS.get(around.type)
        and not spec.params
        and not any(edge.target == spec.id for edge in graph.edges)
        and not any(edge.source == spec.id and (edge.port or edge.extra) for edge in graph.edges)
    )
