"""Reader of the workflow in a file of AgentFlow v2."""

from __future__ import annotations

from typing import Any

from operad.flows.check import CONVERSATION
from operad.flows.formats.fields import Remark
from operad.flows.formats.shapes import Fields, each_of, json_or_text
from operad.flows.node_graph import Edge, NodeSpec
from operad.integrations.flowise.draft import Draft
from operad.integrations.flowise.flow_file import FlowFile
from operad.integrations.flowise.kinds import DECISIONS, HTTP, ITERATION, LOOP, START
from operad.integrations.flowise.loops import add_loops, loop_bodies
from operad.integrations.flowise.names import Names, content
from operad.integrations.flowise.nodes import READERS
from operad.integrations.flowise.nodes.reading import Message, Reading
from operad.integrations.flowise.nodes.values import read_iteration
from operad.operators.variables import Selector, Text


def read_flow(file: FlowFile) -> Draft:
    """Return Operad's nodes and edges for those of a file.

    Raises:
        InvalidError: A loop of the file has no counterpart; every such loop is listed.
    """
    draft, names = Draft(), Names(file)
    starts = [node for node in file.nodes.values() if node.kind == START]
    past = not (starts and starts[0].inputs.get("startEphemeralMemory") is True)
    told: dict[str, tuple[bool, list[Message]]] = {}
    bodies = loop_bodies(file)
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
    add_loops(file, names, draft)
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
