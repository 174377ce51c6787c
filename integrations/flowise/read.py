"""Reader of the workflow in a file of AgentFlow v2.

A loop of Flowise, a node that leads back to an earlier one, becomes a container around the nodes between both. An edge
that leaves these nodes ends the loop: an assigner writes where it leads to into the variable ``exit`` of the loop, and
an if-else after the loop goes there. Values that nodes read from a pass before, or after the loop, are variables of the
loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from operad.flows.check import CONVERSATION
from operad.flows.formats.fields import Remark
from operad.flows.formats.shapes import Fields, each_of, fields_of, json_or_text
from operad.flows.node_graph import Edge, NodeSpec
from operad.integrations.flowise.draft import Draft
from operad.integrations.flowise.flow_file import FlowFile
from operad.integrations.flowise.kinds import DECISIONS, HTTP, ITERATION, LOOP, START
from operad.integrations.flowise.names import Names, content
from operad.integrations.flowise.nodes import READERS
from operad.integrations.flowise.nodes.reading import Message, Reading
from operad.integrations.flowise.nodes.values import read_iteration
from operad.operators.node_params import readable, rewritten
from operad.operators.nodes import NODE_TYPES
from operad.operators.variables import Selector, Text
from operad.runtime.values.errors import InvalidError, Issue


def read_flow(file: FlowFile) -> Draft:
    """Return Operad's nodes and edges for those of a file.

    Raises:
        InvalidError: A loop of the file has no counterpart; every such loop is listed.
    """
    draft, names = Draft(), Names(file)
    starts = [node for node in file.nodes.values() if node.kind == START]
    past = not (starts and starts[0].inputs.get("startEphemeralMemory") is True)
    told: dict[str, tuple[bool, list[Message]]] = {}
    bodies = _loop_bodies(file)
    for node_id in file.order:
        node = file.nodes[node_id]
        history: list[tuple[str, Message]] = []
        before = file.before(node_id)
        for other, (restarts, messages) in told.items():
            if other in before:
                history = [*([] if restarts else history), *((other, each) for each in messages)]
        changed = _changed_since(file, history, node_id, bodies)
        reading = Reading(node, names, file, [each for _, each in history], past, changed)
        if node.kind in READERS:
            READERS[node.kind](reading)
        elif node.kind == ITERATION:
            read_iteration(reading, _item_result(file, draft, node_id))
        elif node.kind == LOOP:
            reading.update_state("loopUpdateState")
        elif node.kind != START:
            reading.add(node.kind, node.inputs)
        told[node_id] = reading.restarts, reading.told
        draft.groups.setdefault(node_id, [])
        for earlier, spec in zip([None, *reading.specs], reading.specs, strict=False):
            draft.add(node_id, spec, earlier.id if earlier else "")
        draft.remarks += reading.remarks
    _add_start(file, names, draft)
    _add_edges(file, draft)
    _add_answers(file, draft)
    _add_loops(file, names, draft)
    _reorder(file, draft)
    return draft


def _changed_since(
    file: FlowFile, history: list[tuple[str, Message]], node_id: str, bodies: list[set[str]]
) -> dict[str, str]:
    """Return the texts of messages that name a value of the flow's state that is set between them and a node.

    Of a loop, all nodes run between a message before it and one of its nodes.
    """
    changed: dict[str, str] = {}
    for teller, message in history:
        named = [each.variable.partition(".")[0] for each in Text(message.text).selectors if each.node == CONVERSATION]
        again = [body for body in bodies if node_id in body and teller not in body]
        between = file.before(node_id).union(*again) - file.before(teller)
        since = file.states_set(between) if named else ()
        if found := [name for name in named if name in since]:
            changed[message.text] = found[0]
    return changed


def _item_result(file: FlowFile, draft: Draft, node_id: str) -> Selector | None:
    """Return the variable that an item of an iteration comes to: the content of its last node."""
    found = [each for end in file.ends(node_id) if (each := content(file.nodes[end]))]
    if len(found) < 2:
        return found[0] if found else None
    result = NodeSpec(
        f"{node_id}_result", "variable-aggregator", {"variables": [list(each) for each in found]}, node_id
    )
    draft.add(node_id, result)
    return Selector("output", result.id)


def _add_start(file: FlowFile, names: Names, draft: Draft) -> None:
    """Add the start node with the inputs that other nodes read, and the state of the flow."""
    node = file.nodes.get(names.start)
    inputs = node.inputs if node else {}
    first: Fields = {}
    for each in each_of(json_or_text(state) if isinstance(state := inputs.get("startState"), str) else state):
        if isinstance(key := each.get("key"), str) and key:
            first[key] = each.get("value", "")
    states: Fields = {**first, **{name: "" for name in names.states if name not in first}}
    if states:
        variables = [[name, "any", value] for name, value in states.items()]
        draft.specs[CONVERSATION] = NodeSpec(CONVERSATION, CONVERSATION, {"variables": variables})
    if node is None:
        return
    if not names.is_form:
        names.input("sys.query")
    listed = [[name, kind] for name, kind in names.inputs.items()]
    start = draft.add(node.id, NodeSpec(node.id, "start", {"variables": listed}, node.parent))
    if states and inputs.get("startPersistState") is not True:  # every run begins with these values
        assignments = [[[name, CONVERSATION], "set", value] for name, value in states.items()]
        draft.add(node.id, NodeSpec(f"{node.id}_state", "assigner", {"assignments": assignments}, node.parent), start)
    kind = inputs.get("startInputType")
    if kind not in ("chatInput", "formInput"):
        says = f"{kind!r}: start the run by operad run or operad serve, with the message as sys.query"
        draft.remarks.append(Remark(node.id, node.label, "startInputType", says, True))


def _add_edges(file: FlowFile, draft: Draft) -> None:
    for source, target, port in file.links:
        if draft.groups[source] and draft.groups[target]:
            draft.edges.append(Edge(_exit(file, draft, source), _entry(file, draft, target), port))
    targets = {link.target for link in file.links}
    for node in file.nodes.values():
        if node.kind == ITERATION:
            start = draft.add(node.id, NodeSpec(f"{node.id}_start", "iteration-start", {}, node.id))
            inner = [each for each in file.nodes.values() if each.parent == node.id]
            draft.edges += [
                Edge(start, _entry(file, draft, each.id))
                for each in inner
                if each.id not in targets and draft.groups[each.id]
            ]
            if len(file.ends(node.id)) > 1:
                last = [draft.groups[end][-1] for end in file.ends(node.id) if content(file.nodes[end])]
                draft.edges += [Edge(each, f"{node.id}_result") for each in last]


def _entry(file: FlowFile, draft: Draft, node_id: str) -> str:
    """Return the id of the first of Operad's nodes for a node of the file."""
    return next(each for each in draft.groups[node_id] if draft.specs[each].parent == file.nodes[node_id].parent)


def _exit(file: FlowFile, draft: Draft, node_id: str) -> str:
    """Return the id of the last of Operad's nodes for a node of the file."""
    return next(
        each for each in reversed(draft.groups[node_id]) if draft.specs[each].parent == file.nodes[node_id].parent
    )


def _add_answers(file: FlowFile, draft: Draft) -> None:
    """Add the answer after each last node: the content of the node that ran last is the result in Flowise."""
    for end in file.ends(""):
        node = file.nodes[end]
        if node.kind in (LOOP, *DECISIONS) or any(draft.specs[each].type == "answer" for each in draft.groups[end]):
            continue
        found = content(node)
        text = found.in_text if found and node.kind != HTTP else " "
        draft.add(end, NodeSpec(f"{end}_answer", "answer", {"answer": text}), _exit(file, draft, end))
    for one, other in several_ends(file):
        says = (
            f"ends beside {other!r}: the answer here consists of both, in Flowise it is that of the node that ran last"
        )
        draft.remarks.append(Remark(one, file.nodes[one].label, "edges", says, True))
    draft.remarks += list(_join_remarks(file))


def several_ends(file: FlowFile) -> list[tuple[str, str]]:
    """Return pairs of last nodes that can both run, each node once."""
    starts = [node.id for node in file.nodes.values() if node.kind == START]
    needs: dict[str, dict[str, set[int]]] = {end: {} for end in file.ends("")}
    for node in file.nodes.values() if starts else ():
        links = [link for link in file.links if link.source == node.id and node.kind in DECISIONS]
        free = file.after(starts[0], links)
        for end in needs.keys() - free if links else ():
            own = {each.port: [link for link in links if link.port != each.port] for each in links}
            needs[end][node.id] = {port for port, cut in own.items() if end in file.after(starts[0], cut)}
    found: list[tuple[str, str]] = []
    ends = list(needs)
    for number, one in enumerate(ends):
        for other in ends[number + 1 :]:
            apart = any(not ports & needs[other].get(decision, ports) for decision, ports in needs[one].items())
            if not apart and not any(one in pair for pair in found):
                found.append((one, other))
    return found


def _join_remarks(file: FlowFile) -> list[Remark]:
    """Return the remarks on nodes that Flowise may never run, as it waits for a node of each of several conditions."""
    found: list[Remark] = []
    for node in file.nodes.values():
        sources = [link.source for link in file.links if link.target == node.id]
        groups = {_condition_before(file, each) or f"{each} itself" for each in sources}
        if len(groups) > 1 and any(each in file.nodes for each in groups):
            says = "runs when one of the nodes before it ran; Flowise waits for one after each condition, and for all others"
            found.append(Remark(node.id, node.label, "edges", says, True))
    return found


def _condition_before(file: FlowFile, node_id: str) -> str:
    """Return the nearest decision at or before a node, as Flowise looks for it: along the first edge of each node."""
    seen: set[str] = set()
    while node_id not in seen:
        if file.nodes[node_id].kind in DECISIONS:
            return node_id
        seen.add(node_id)
        node_id = next((link.source for link in file.links if link.target == node_id), node_id)
    return ""


def _reorder(file: FlowFile, draft: Draft) -> None:
    """Put the nodes into the order of the file, the state of the flow and the start node first."""
    order = {node_id: number for number, node_id in enumerate(file.nodes)}
    owners = draft.owners
    position = {each: number for number, each in enumerate(draft.specs)}

    def key(spec: NodeSpec) -> tuple[Any, ...]:
        owner = owners.get(spec.id, "")
        kind = file.nodes[owner].kind if owner else START
        return (spec.id != CONVERSATION, kind != START, order.get(owner, -1), position[spec.id])

    draft.specs = {spec.id: spec for spec in sorted(draft.specs.values(), key=key)}


def _add_loops(file: FlowFile, names: Names, draft: Draft) -> None:
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


def _loop_bodies(file: FlowFile) -> list[set[str]]:
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
