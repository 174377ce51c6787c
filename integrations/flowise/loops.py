"""Loops: in Flowise a node that leads back to an earlier one, here a container around the nodes between both.

An edge that leaves these nodes ends the loop: an assigner writes where it leads to into the variable ``exit`` of the
loop, and an if-else after the loop goes there. Values that nodes read from a pass before, or after the loop, are
variables of the loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from operad.flows.formats.shapes import fields_of, json_or_text
from operad.flows.node_graph import Edge, NodeSpec
from operad.integrations.flowise.draft import Draft
from operad.integrations.flowise.flow_file import FlowFile
from operad.integrations.flowise.kinds import DECISIONS, LOOP, START
from operad.integrations.flowise.names import Names
from operad.integrations.flowise.nodes.reading import Reading
from operad.operators.node_params import readable, rewritten
from operad.operators.nodes import NODE_TYPES
from operad.operators.variables import Selector
from operad.runtime.values.errors import InvalidError, Issue


def add_loops(file: FlowFile, names: Names, draft: Draft) -> None:
    """Put the nodes of each loop of a file into a container.

    Raises:
        InvalidError: A loop has no counterpart; every such loop is listed.
    """
    loops = _loops(file)
    regions = {target: _region(file, target, ids) for target, ids in loops.items()}
    issues = [
        Issue("loop", why, ids[0]) for target, ids in loops.items() for why in _obstacles(file, target, ids, regions)
    ]
    if issues:
        raise InvalidError("the flow", issues)
    for target, ids in loops.items():
        _Loop(file, names, draft, target, ids[0], regions[target]).add()


def _loops(file: FlowFile) -> dict[str, list[str]]:
    """Return the ids of the loops that lead back to a node, by its id; to that after the start, instead of to it."""
    loops: dict[str, list[str]] = {}
    for node in file.nodes.values():
        if node.kind == LOOP:
            target = str(node.inputs.get("loopBackToNode") or "").split("-")[0]
            after = [link.target for link in file.links if link.source == target]
            is_start = target in file.nodes and file.nodes[target].kind == START
            loops.setdefault(after[0] if is_start and len(after) == 1 else target, []).append(node.id)
    return loops


def loop_bodies(file: FlowFile) -> list[set[str]]:
    """Return the ids of the nodes that each loop runs again."""
    return [_region(file, target, ids) for target, ids in _loops(file).items()]


def _region(file: FlowFile, target: str, loops: list[str]) -> set[str]:
    """Return the ids of the nodes that a loop runs again."""
    if target not in file.nodes:
        return set()
    before = set[str]().union(*(file.before(each) for each in loops))
    return {target, *loops} | (file.after(target) & before)


def _count(file: FlowFile, loop: str) -> int:
    given = json_or_text(str(file.nodes[loop].inputs.get("maxLoopCount") or 5))
    return min(max(int(given), 1), 1000) if isinstance(given, int | float) else 5


def _obstacles(file: FlowFile, target: str, loops: list[str], regions: dict[str, set[str]]) -> Iterator[str]:
    """Yield the reasons why a loop has no counterpart here."""
    loop, region = loops[0], regions[target]
    if target not in file.nodes or file.nodes[target].kind == START:
        why = "is not there" if target not in file.nodes else "is the start of several nodes"
        yield f"leads back to {target!r}, which {why}; choose a node after the start in Loop Back To"
    elif any(target not in file.before(each) for each in loops):
        yield f"leads back to {target!r}, which does not lead to it; let it lead back to a node before it"
    elif file.nodes[loop].parent:
        yield "stands inside an iteration, where no loop can be; put the nodes of the loop into a flow of its own"
    else:
        if len({_count(file, each) for each in loops}) > 1:
            yield f"another loop leads back to {target!r} with another maxLoopCount; give both the same"
        for other, inner in regions.items():
            if other != target and inner & region:
                yield f"has nodes in common with the loop back to {other!r}; put one of them into a flow of its own"
        for link in file.links:
            if link.target in region - {target} and link.source not in region:
                yield f"{link.source!r} leads into it past its beginning; let it lead to {target!r}"
            if link.source in region and link.target not in region and file.nodes[link.source].kind not in DECISIONS:
                yield (
                    f"{link.target!r} would run in every pass, beside the loop; let a condition lead to it when the loop is over"
                )


class _Loop:
    """One loop, which is put into a container."""

    def __init__(self, file: FlowFile, names: Names, draft: Draft, target: str, loop: str, region: set[str]) -> None:
        self._file, self._names, self._draft = file, names, draft
        self._target, self._id, self._region = target, loop, region
        self._owners = dict(draft.owners)
        self._inside = {
            each for each, owner in self._owners.items() if owner in region and not draft.specs[each].parent
        }
        self._kept: dict[Selector, str] = {}

    def add(self) -> None:
        """Add the container with its body, and what follows it."""
        draft, loop = self._draft, self._id
        reading = Reading(self._file.nodes[loop], self._names, self._file)
        count = _count(self._file, loop)
        default = f"Loop completed after reaching maximum iteration count of {count}."
        fallback = reading.text("fallbackMessage") or default
        entry = self._draft.groups[self._target][0]
        exits = list(
            dict.fromkeys(e.target for e in draft.edges if e.source in self._inside and e.target not in self._inside)
        )
        for node_id, spec in list(draft.specs.items()):
            if node_id in self._inside:
                draft.specs[node_id] = replace(spec, parent=loop)
        edges = [
            replace(e, target=loop) if e.source not in self._inside and e.target == entry else e for e in draft.edges
        ]
        leaving = [e for e in edges if e.source in self._inside and e.target not in self._inside]
        draft.edges = [e for e in edges if e not in leaving]
        draft.add(loop, NodeSpec(f"{loop}_start", "loop-start", {}, loop))
        draft.edges.append(Edge(f"{loop}_start", entry))
        for number, target in enumerate(exits):
            assignments = [[["exit", loop], "set", target]]
            node_id = draft.add(loop, NodeSpec(f"{loop}_exit{number}", "assigner", {"assignments": assignments}, loop))
            draft.edges += [replace(e, target=node_id) for e in leaving if e.target == target]
        if exits:
            draft.add(loop, NodeSpec(f"{loop}_end", "loop-end", {}, loop))
            draft.edges += [Edge(f"{loop}_exit{number}", f"{loop}_end") for number in range(len(exits))]
        self._rewrite({f"{loop}_answer": NodeSpec(f"{loop}_answer", "answer", {"answer": fallback})})
        variables: list[list[Any]] = [["exit", "string", ""]] if exits else []
        variables += [[name, "any", None] for name in self._kept.values()]
        draft.add(loop, NodeSpec(loop, "loop", {"loop_count": count, "variables": variables}))
        answer = draft.specs.pop(f"{loop}_answer")
        if exits:
            cases = [[None, [[["exit", loop], "is", each]]] for each in exits]
            after = draft.add(loop, NodeSpec(f"{loop}_exits", "if-else", {"cases": cases}), loop)
            draft.edges += [Edge(after, each, number) for number, each in enumerate(exits)]
            draft.add(loop, answer, after, len(exits))
        else:
            draft.add(loop, answer, loop)
        if any(spec.parent == loop and "memory" in fields_of(spec.params) for spec in draft.specs.values()):
            reading.remark(
                "loopBackToNode", "models in the loop see the messages of their pass, not those of earlier passes"
            )
            draft.remarks += reading.remarks[-1:]

    def _rewrite(self, added: dict[str, NodeSpec]) -> None:
        """Replace references to other passes by variables of the loop, and add the assigners that keep their values."""
        self._draft.specs |= added
        for node_id, spec in list(self._draft.specs.items()):
            if spec.type in NODE_TYPES:
                params_type = NODE_TYPES[spec.type].params_type

                def change(selector: Selector, reader: str = node_id) -> Selector:
                    return self._changed(selector, reader)

                params = rewritten(readable(params_type, spec.params), spec.params, change)
                self._draft.specs[node_id] = replace(spec, params=params)
        for number, (selector, name) in enumerate(self._kept.items()):
            leaving = [e for e in self._draft.edges if e.source == selector.node]
            for port in sorted({e.port for e in leaving}) or [0]:
                kept = NodeSpec(
                    f"{self._id}_kept{number}" + (f"_{port}" if port else ""),
                    "assigner",
                    {"assignments": [[[name, self._id], "set", list(selector)]]},
                    self._id,
                )
                self._draft.edges = [
                    replace(e, source=kept.id, port=0) if e.source == selector.node and e.port == port else e
                    for e in self._draft.edges
                ]
                self._draft.add(self._id, kept, selector.node, port)

    def _changed(self, selector: Selector, reader: str) -> Selector:
        """Return the variable that a node reads instead of one of a node in the loop, if it has none of this pass."""
        if selector.node not in self._inside or (reader in self._inside and self._is_before(selector.node, reader)):
            return selector
        head, _, rest = selector.variable.partition(".")
        name = self._kept.setdefault(Selector(head, selector.node), f"{selector.node}_{head}")
        return Selector(f"{name}.{rest}" if rest else name, self._id)

    def _is_before(self, node_id: str, reader: str) -> bool:
        owner, other = self._owners[node_id], self._owners[reader]
        if owner == other:
            group = self._draft.groups[owner]
            return group.index(node_id) < group.index(reader)
        return owner in self._file.before(other)
