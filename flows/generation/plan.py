"""A plan of a workflow: which nodes there are to be, of which types, and what follows what; no parameters yet."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal, NamedTuple, cast

from operad.flows.check import NodeType
from operad.flows.node_graph import NodeGraph
from operad.operators.variables import VariableType
from operad.runtime.values.errors import did_you_mean, shorten
from operad.runtime.values.schema import Schema

Change = Literal["keep", "update", "add"]

DECLARES = ("start", "code", "parameter-extractor")
"""The types whose nodes name their variables themselves, so that a plan names them."""

MOST_NODES = 60
"""The most nodes of a plan."""

_ID = re.compile(r"[\w-]{1,40}")
"""The id of a new node; those that are there may have others."""


class After(NamedTuple):
    """That a node follows another.

    Attributes:
        node: The id of the other.
        port: The port that the edge leaves from.
    """

    node: str
    port: int = 0


class Given(NamedTuple):
    """A variable that a node names itself."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """A node of a plan.

    Attributes:
        id: Its identity.
        type: The name of its type.
        change: Whether it stays as it is, is changed, or is new.
        does: What it does, in a line.
        inside: The iteration that it runs inside of; empty for none.
        after: What it follows; for one that is there already, nothing to leave its edges as they are.
        gives: The variables that it names, for the types of `DECLARES`.
    """

    id: str
    type: str
    change: Change = "add"
    does: str = ""
    inside: str = ""
    after: tuple[After, ...] = ()
    gives: tuple[Given, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan of a workflow.

    Attributes:
        nodes: The nodes that there are to be.
        drop: The ids of those that are to go.
        reasoning: Why.
    """

    nodes: tuple[PlannedNode, ...] = ()
    drop: tuple[str, ...] = ()
    reasoning: str = ""

    @property
    def open(self) -> list[str]:
        """The nodes that are to be written: those that are new, and those that are to change."""
        return [node.id for node in self.nodes if node.change != "keep"]


def plan_schema(types: Mapping[str, NodeType], there: Collection[str]) -> Schema:
    """The JSON Schema of a plan: reasons come first.

    Args:
        types: The node types by name.
        there: The ids of the nodes that are there.
    """
    text = {"type": "string"}
    kinds = [kind.value for kind in VariableType if kind not in (VariableType.ANY, VariableType.ARRAY)]
    node = {
        "id": {**text, "description": "A number that is free for a new node; for one that is there, its id."},
        "type": {"type": "string", "enum": list(types)},
        "change": {"type": "string", "enum": ["keep", "update", "add"] if there else ["add"]},
        "does": {**text, "description": "What it does, in one line."},
        "inside": {**text, "description": 'The id of the iteration that it runs inside of, or "".'},
        "after": {
            "type": "array",
            "description": "The nodes that it follows; for one that stays, [] leaves its edges as they are.",
            "items": _closed(
                {
                    "node": text,
                    "port": {"type": "integer", "description": "0, or that of the branch it stands on, from 0."},
                }
            ),
        },
        "gives": {
            "type": "array",
            "description": f"Of {', '.join(DECLARES)}: the variables that it names. Of others: [].",
            "items": _closed({"name": text, "type": {"type": "string", "enum": kinds}}),
        },
    }
    dropped = {"type": "string", "enum": list(there)} if there else text
    return _closed(
        {
            "reasoning": {**text, "description": "What is asked for, step by step, and which node does each step."},
            "nodes": {"type": "array", "items": _closed(node)},
            "drop": {"type": "array", "items": dropped, "description": "The nodes that are there and must go."},
        }
    )


def read_plan(said: Mapping[str, Any]) -> Plan:
    """The plan of an answer that fits its schema."""
    nodes = [cast("Mapping[str, Any]", each) for each in said.get("nodes", [])]
    return Plan(
        nodes=tuple(
            PlannedNode(
                id=str(each["id"]).strip(),
                type=each["type"],
                change=each["change"],
                does=each["does"],
                inside=str(each["inside"]).strip(),
                after=tuple(After(str(one["node"]).strip(), one["port"]) for one in each["after"]),
                gives=tuple(Given(one["name"].strip(), one["type"]) for one in each["gives"]),
            )
            for each in nodes[: MOST_NODES + 1]
        ),
        drop=tuple(map(str, said.get("drop", []))),
        reasoning=str(said.get("reasoning", "")),
    )


def faults_of(plan: Plan, base: NodeGraph, types: Mapping[str, NodeType]) -> list[str]:
    """What cannot be in a plan, in words that a model can act on.

    Args:
        plan: The plan.
        base: The workflow that is there; without nodes where there is none.
        types: The node types by name.
    """
    return list(_faults(plan, base, types))


def _faults(plan: Plan, base: NodeGraph, types: Mapping[str, NodeType]) -> Iterator[str]:
    ids = [node.id for node in plan.nodes]
    if not ids:
        yield "the plan has no nodes"
        return
    if len(ids) > MOST_NODES:
        yield f"the plan has more than {MOST_NODES} nodes; say more in fewer"
        return
    for node_id in dict.fromkeys(each for each in ids if ids.count(each) > 1):
        yield f"node {node_id!r} is planned twice; give each its own id"
    there = base.by_id
    for node in plan.nodes:
        yield from _node_faults(node, base, plan, types)
    for node_id in plan.drop:
        if node_id not in there:
            yield f"drop: there is no node {node_id!r}{did_you_mean(node_id, there)}"
        elif node_id in ids:
            yield f"drop: node {node_id!r} is planned as well; leave it out of one of the two"
    final = {**{each: spec.type for each, spec in there.items() if each not in plan.drop}}
    final |= {node.id: node.type for node in plan.nodes}
    yield from _missing_kinds(list(final.values()), types)
    try:
        TopologicalSorter({node.id: [each.node for each in node.after] for node in plan.nodes}).prepare()
    except CycleError as error:
        yield f"each of these follows the next, and so none can begin: {shorten(error.args[1], 10)}"


def _missing_kinds(kinds: Sequence[str], types: Mapping[str, NodeType]) -> Iterator[str]:
    if "start" not in kinds:
        yield "there is no node of type 'start'; it holds the inputs"
    if not any(kind in types and types[kind].ends for kind in kinds):
        yield "there is no node of type 'end'; it names the outputs"


def _node_faults(node: PlannedNode, base: NodeGraph, plan: Plan, types: Mapping[str, NodeType]) -> Iterator[str]:
    there = base.by_id
    known = {*(each for each in there if each not in plan.drop), *(each.id for each in plan.nodes)}
    if node.id not in there and not _ID.fullmatch(node.id):
        yield f"{node.id!r:.60} can be no id; take a number"
    if node.change == "add" and node.id in there and node.id not in plan.drop:
        yield f"node {node.id!r} is there already ({there[node.id].type}): plan it as keep or update, or take a free id"
    if node.change != "add" and node.id not in there:
        yield f"node {node.id!r} is not there, and so can only be planned as add{did_you_mean(node.id, there)}"
    elif node.change != "add" and there[node.id].type != node.type:
        yield (
            f"node {node.id!r} is of type {there[node.id].type!r}, not {node.type!r}; "
            "to have another type, drop it and add a new one"
        )
    if node.type not in types:
        yield f"node {node.id!r}: {node.type!r} is no node type{did_you_mean(node.type, types)}"
    for each in node.after:
        if each.node not in known:
            yield f"node {node.id!r} follows {each.node!r}, which is not there{did_you_mean(each.node, known)}"
    if node.inside and node.inside not in known:
        yield f"node {node.id!r} runs inside {node.inside!r}, which is not there{did_you_mean(node.inside, known)}"


def _closed(properties: Mapping[str, Schema]) -> Schema:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }
