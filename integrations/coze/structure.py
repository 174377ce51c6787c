"""Structure of a workflow at Coze: nesting, ids, and nodes that Coze does not need."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import count

from operad.flows.formats.shapes import fields_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.integrations.coze.constants import CONVERSATION, constants_of
from operad.integrations.coze.nodes.containers import STARTS
from operad.integrations.coze.translation import NO_NAMES, translate

START_ID, END_ID = "100001", "900001"

COMMENT = "comment"
"""Type of a comment on the canvas, which does not run."""


class Structure:
    """The structure of a workflow at Coze.

    Args:
        graph: The workflow.
        kept_ids: Ids that are those at Coze, whatever their form; by default, ids of the form that Coze gives.

    Attributes:
        graph: The workflow, with each id once.
        top: The nodes outside of all containers.
        children: The nodes inside each container, by its id.
        plain_starts: For each container, its start node if Coze has no node for it, or None.
        ends: The ends if there are several, which become one at Coze; otherwise empty.
        constants: Coze's inputs for the variables of the conversation, by name.
        without_coze_node: The ids of nodes that Coze has no node for: those of `plain_starts`, `ends` and `constants`.
        ids: Coze's ids by Operad's.
        merge: Coze's id of the variable_merge before the single end.
    """

    def __init__(self, graph: NodeGraph, kept_ids: Collection[str] = ()) -> None:
        by_id = graph.by_id
        self._kept_ids = kept_ids
        self.graph = graph = replace(graph, nodes=[spec for spec in graph.nodes if by_id[spec.id] is spec])
        holders = {spec.id for spec in graph.nodes if spec.type in STARTS and translate(spec, NO_NAMES) is not None}
        nested = [spec for spec in graph.nodes if _is_nested(graph, spec, holders)]
        self.children: dict[str, list[NodeSpec]] = {}
        for spec in nested:
            self.children.setdefault(spec.parent, []).append(spec)
        nested_objects = {id(spec) for spec in nested}
        self.top = [spec for spec in graph.nodes if id(spec) not in nested_objects]
        ends = [spec for spec in self.top if spec.type == "end" and translate(spec, NO_NAMES)]
        self.ends = ends if len({spec.id for spec in ends}) == len(ends) > 1 else []
        self.plain_starts = {
            holder: next((spec for spec in self.children.get(holder, ()) if _is_plain_start(graph, spec)), None)
            for holder in holders
        }
        self.constants = constants_of(graph.nodes)
        self.without_coze_node = {spec.id for spec in (*self.ends, *filter(None, self.plain_starts.values()))}
        self.without_coze_node |= {CONVERSATION} if self.constants else set()
        self.ids, self.merge = self._numbered(ends)

    def _numbered(self, ends: Sequence[NodeSpec]) -> tuple[dict[str, str], str]:
        """Return Coze's ids by Operad's, and the id for a variable_merge; Operad's ids that Coze accepts stay."""
        ids = {spec.id: spec.id for spec in self.graph.nodes if spec.id in self._kept_ids}
        if start := next((spec for spec in self.top if spec.type == "start"), None):
            ids.setdefault(start.id, START_ID)
        if len(ends := [*ends, *(spec for spec in self.top if _is_end_in_words(spec))]) == 1:
            ids.setdefault(ends[0].id, END_ID)
        written = list(self._in_order(self.top))
        node_ids = [spec.id for spec in (*written, *self.graph.nodes)]  # nodes without a place at Coze come last
        for node_id in node_ids:
            if re.fullmatch(r"[1-9][0-9]{4,15}", node_id) and node_id not in (START_ID, END_ID):
                ids.setdefault(node_id, node_id)
        taken = {*ids.values(), START_ID, END_ID}
        new_ids = (str(number) for number in count(110001) if str(number) not in taken)
        for node_id in node_ids:
            if node_id not in ids:
                ids[node_id] = next(new_ids)
        return ids, next(new_ids)

    def _in_order(self, specs: Sequence[NodeSpec]) -> Iterator[NodeSpec]:
        """Yield the nodes that Coze has, each container before the nodes inside it."""
        for spec in specs:
            if spec.id not in self.without_coze_node:
                yield spec
            yield from self._in_order(self.children.get(spec.id, ()))

    def is_end(self, node_id: str) -> bool:
        """Return True if a node is one of several ends."""
        return any(spec.id == node_id for spec in self.ends)

    def leads_somewhere(self, edge: Edge) -> bool:
        """Return True if the target of an edge has a place at Coze."""
        return edge.target in self.ids and (edge.target not in self.without_coze_node or self.is_end(edge.target))


def _is_end_in_words(spec: NodeSpec) -> bool:
    return spec.type == "answer" and fields_of(spec.extra.get("coze")).get("type") == "end"


def _is_nested(graph: NodeGraph, spec: NodeSpec, holders: set[str]) -> bool:
    """Return True if a node is inside containers that all can hold nodes at Coze."""
    seen: set[str] = {spec.id}
    parent = spec.parent
    while parent in holders and parent not in seen:
        seen.add(parent)
        parent = graph.by_id[parent].parent
    return bool(spec.parent) and not parent


def _is_plain_start(graph: NodeGraph, spec: NodeSpec) -> bool:
    """Return True for a start node inside a container that has no other data, so that Coze needs no node for it."""
    container = graph.by_id.get(spec.parent)
    return (
        container is not None
        and spec.type == STARTS.get(container.type)
        and not spec.params
        and not any(edge.target == spec.id for edge in graph.edges)
        and not any(edge.source == spec.id and (edge.port or edge.extra) for edge in graph.edges)
    )
