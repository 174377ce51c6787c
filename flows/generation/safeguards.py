"""Safeguards of drafts: named secrets in place of keys, and a person's approval before a node writes elsewhere."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from operad.flows.edit.nodes import RemoveNode
from operad.flows.edit.operation import variables_read
from operad.flows.edit.order import edges_in_order
from operad.flows.formats.shapes import fields_of, is_selector, list_of, text_of
from operad.flows.generation.cut_texts import with_texts
from operad.flows.generation.offer import Offer
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators.nodes import NODE_TYPES
from operad.operators.request_secrets import change_keys, literal_host
from operad.operators.variables import Selector
from operad.runtime.graph.schedule import reachable
from operad.runtime.values.keys_in_text import KeyNames, name_keys
from operad.runtime.values.secret import Secret, fill_secrets, with_literal_key


def with_named_keys(graph: NodeGraph, base: NodeGraph) -> tuple[NodeGraph, list[str]]:
    """Return a draft with named secrets in place of keys that are written in its requests, and a line for each.

    Args:
        graph: The draft, with parameters in lists.
        base: The existing workflow, whose nodes stay as they are.
    """
    lines: list[str] = []
    names = KeyNames()

    def named(spec: NodeSpec) -> NodeSpec:
        params = fields_of(spec.params)
        host = literal_host(text_of(params.get("url")))

        def change(where: str, field: str, value: str) -> str:
            def name(key: str) -> str:
                secret = Secret(names.name(key, host, field))
                lines.append(f"{spec.id}: {where}: a key was written in {field!r}; it is the secret {secret.name} now")
                return secret.in_text

            return with_literal_key(value, name)

        def rest(where: str, value: str) -> str:
            """Return a text without keys that stand in no field with the name of a key."""
            text, found = name_keys(value, host, names)
            lines.extend(f"{spec.id}: {where}: a key was written; it is the secret {name} now" for name in found)
            return text

        changed = change_keys(params, change)
        return replace(spec, params={key: with_texts(value, partial(rest, key)) for key, value in changed.items()})

    nodes = [
        named(spec) if spec.type == "request" and spec != base.by_id.get(spec.id) else spec for spec in graph.nodes
    ]
    return (replace(graph, nodes=nodes), lines) if lines else (graph, [])


# Approval: a person is asked before a node writes elsewhere; if the person refuses, the workflow goes on to its ends.

ASKING = "human-input"
"""Type of the nodes that ask a person."""

READING = ("get", "head", "options")
"""Methods of requests that change nothing."""


def with_approvals(
    graph: NodeGraph, base: NodeGraph, unapproved: Mapping[str, str], offer: Offer
) -> tuple[NodeGraph, list[str]]:
    """Return a draft in which a person approves what new and changed nodes write elsewhere, and notes for the user.

    Nodes after a question that can be refused, and nodes that write to the same place in the existing workflow without
    a question, are left as they are. A node in a container is approved once, before the outermost container.

    Args:
        graph: The draft, with parameters in lists.
        base: The existing workflow.
        unapproved: Ids of nodes that need no approval, each with the reason.
        offer: The node types and tools that the workflow may use.
    """
    notes: list[str] = []
    drafted = graph.by_id
    graph = _without_idle(graph, base)
    for spec in graph.nodes:
        writes, before = written_by(spec, offer), base.by_id.get(spec.id)
        was_free = before and written_by(before, offer) == writes and not _is_approved(spec.id, base, offer)
        if not writes or was_free:
            continue
        named = f"node {spec.id} ({writes})"
        target = _outermost(spec.id, graph)
        if _is_approved(spec.id, graph, offer):
            graph = _with_current_question(target, graph, base, offer)
        elif spec.id in unapproved:
            notes.append(f"{named} runs without approval: {unapproved[spec.id]}")
        elif ASKING not in offer.types:
            notes.append(f"{named} runs without approval: this format has no node that asks a person")
        else:
            graph = _with_approval(target, graph, offer)
        approval = _approval_of(target)
        if approval in graph.by_id and (approval not in base.by_id or approval not in drafted):
            notes.append(
                f"node {approval} asks a person before {named}, which writes to another system; to leave it out, say "
                "in the request that it may run without approval"
            )
    return graph, notes


def written_by(spec: NodeSpec, offer: Offer) -> str:
    """Return where a node writes, such as ``POST https://shop.example/orders`` or names of tools; empty if nowhere.

    Args:
        spec: The node, with parameters in lists.
        offer: The tools that the workflow may use.
    """
    params = fields_of(spec.params)
    if spec.type == "request":
        method, url = str(params.get("method") or "get"), _shown(params.get("url")).partition("?")[0]
        return "" if method.lower() in READING else f"{method.upper()} {_LOGIN.sub('', url)}"
    tools = {"tool": [params.get("tool")], "agent": list_of(params.get("tools"))}.get(spec.type, [])
    return ", ".join(name for name in map(str, tools) if name in offer.tools and offer.tools[name].writes)


_LOGIN = re.compile(r"(?<=://)[^/\s]*@")
_REFERENCE = re.compile(r"\{\{#[^#{}]+#\}\}")


def _shown(value: Any) -> str:
    """Return a value of a parameter as a text in which a variable is a reference, and a secret its name."""
    text = Selector(*map(str, value)).in_text if is_selector(value) else str(value)
    return fill_secrets(text, lambda secret: secret.name)


def _question(target: str, graph: NodeGraph, offer: Offer) -> str:
    """Return the question before a node: what it does and sends; before a container, no variables inside are known."""
    inside = [f"{written_by(spec, offer)}?" for spec in graph.nodes if target in graph.around(spec.id)]
    if written := [each for each in inside if each != "?"]:
        return "\n".join(_REFERENCE.sub("…", each) for each in dict.fromkeys(written))
    spec = graph.by_id[target]
    params = fields_of(spec.params)
    sent = [("", params.get(name, "")) for name in ("params", "query")]
    sent += [
        (str(part[0]), part[1]) for part in list_of([*list_of(params.get("body")), None, None][1]) if len(part) > 1
    ]
    sent += fields_of(params.get("arguments")).items() if spec.type == "tool" else []
    texts = [(name, _shown(value)) for name, value in sent if spec.type == "tool" or not is_selector(value)]  # no files
    return "\n".join(
        [f"{written_by(spec, offer)}?", *(f"{name}: {text}" if name else text for name, text in texts if text)]
    )


def _outermost(node_id: str, graph: NodeGraph) -> str:
    """Return the outermost container around a node, or the node."""
    return [node_id, *graph.around(node_id)][-1]


def _approval_of(node_id: str) -> str:
    """Return the id of the question before a node, which counts for this node alone."""
    return f"approve-{node_id}"


def _without_idle(graph: NodeGraph, base: NodeGraph) -> NodeGraph:
    """Return the draft without the questions before nodes that are removed."""
    for spec in base.nodes:
        idle = _approval_of(spec.id) if spec.id not in graph.by_id else ""
        if idle in graph.by_id and not any(edge.source == idle and edge.port == 0 for edge in graph.edges):
            graph = RemoveNode(node=idle).apply(graph, NODE_TYPES)
    return graph


def _with_current_question(target: str, graph: NodeGraph, base: NodeGraph, offer: Offer) -> NodeGraph:
    """Return the draft with the question before a node brought up to date, unless a person has written another one."""
    asking = graph.by_id.get(_approval_of(target))
    if asking is None or asking.type != ASKING:
        return graph
    asked = fields_of(base.by_id[asking.id].params).get("question") if asking.id in base.by_id else None
    if asked is not None and (target not in base.by_id or asked != _question(target, base, offer)):
        return graph
    new = replace(asking, params={**fields_of(asking.params), "question": _question(target, graph, offer)})
    return graph if new == asking else replace(graph, nodes=[new if each is asking else each for each in graph.nodes])


def _with_approval(target: str, graph: NodeGraph, offer: Offer) -> NodeGraph:
    """Return the draft with a question before a node outside of containers; refused, it leads to the ends after it."""
    approval = _approval_of(target)
    if approval in graph.by_id or not any(edge.target == target for edge in graph.edges):
        return graph
    question = _question(target, graph, offer)
    params = {"question": question, "actions": [["approve", "Approve"], ["refuse", "Refuse"]]}
    place = [each.id for each in graph.nodes].index(target)
    nodes = [*graph.nodes[:place], NodeSpec(approval, ASKING, params), *graph.nodes[place:]]
    edges = [replace(edge, target=approval) if edge.target == target else edge for edge in graph.edges]
    after = _after([target], graph) - {target}
    ends = [
        each.id for each in graph.nodes if each.id in after and each.type in NODE_TYPES and NODE_TYPES[each.type].ends
    ]
    edges += [Edge(approval, target), *(Edge(approval, end, 1) for end in ends)]
    return edges_in_order(graph, replace(graph, nodes=nodes, edges=edges))


def _after(ids: Collection[str], graph: NodeGraph, without: Collection[str] = ()) -> set[str]:
    """Return the nodes that follow some nodes, these included, on paths that others do not interrupt."""
    return reachable(
        [node_id for node_id in ids if node_id not in without],
        lambda source: [e.target for e in graph.edges if e.source == source and e.target not in without],
    )


def _is_approved(node_id: str, graph: NodeGraph, offer: Offer) -> bool:
    """Return whether a question that can be refused stands before a node, or a container around it, on every path."""
    writing = {each.id for each in graph.nodes if written_by(each, offer)}
    writing |= {outer for each in writing for outer in graph.around(each)}
    asking = {each.id for each in graph.nodes if each.type == ASKING}
    others = {_approval_of(each) for each in graph.by_id if each != _outermost(node_id, graph)}
    questions = {each.id for each in graph.nodes if _can_refuse(each, graph, asking, writing)} - others
    return any(
        level not in _after(_first(graph.by_id[level].parent, graph), graph, questions)
        for level in (node_id, *graph.around(node_id))
    )


def _first(parent: str, graph: NodeGraph) -> list[str]:
    """Return the nodes in a container that no edge leads to."""
    targets = {edge.target for edge in graph.edges}
    return [spec.id for spec in graph.nodes if spec.parent == parent and spec.id not in targets]


def _can_refuse(spec: NodeSpec, graph: NodeGraph, asking: Collection[str], writing: Collection[str]) -> bool:
    """Return whether an answer of a person at a node, or a branch on such an answer, leads to no node that writes."""
    params = fields_of(spec.params)
    if spec.type == "if-else":
        read = variables_read(spec, NODE_TYPES)
        ports = len(list_of(params.get("cases"))) + 1 if any(each.node in asking for each in read) else 0
    else:
        ports = len(list_of(params.get("actions"))) if spec.type == ASKING else 0
    followers = [
        [edge.target for edge in graph.edges if edge.source == spec.id and edge.port == port] for port in range(ports)
    ]
    return any(_after(targets, graph).isdisjoint(writing) for targets in followers)
