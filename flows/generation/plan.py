"""A plan of a workflow: its nodes, their types and order, and, where a model wrote them at once, their parameters."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal, NamedTuple, cast, get_args

from operad.flows.check import NodeType
from operad.flows.formats.shapes import each_of, fields_of
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


_TEXT: Schema = {"type": "string"}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_NUMBERS: Schema = {"type": "array", "items": {"type": "integer"}}
_OBJECT: Schema = {"type": "object"}


class After(NamedTuple):
    """Predecessor of a node.

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


class Replaced(NamedTuple):
    """A small change of a long text of a node that is there.

    Attributes:
        param: The parameter, or the path to the text in it.
        old: The words that change; they occur once.
        new: The words in their place.
    """

    param: str
    old: str
    new: str


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
        params: Its parameters in drafted form; None where they are still to be written.
        replace: Small changes of its texts.
    """

    id: str
    type: str
    change: Change = "add"
    does: str = ""
    inside: str = ""
    after: tuple[After, ...] = ()
    gives: tuple[Given, ...] = ()
    params: Mapping[str, Any] | None = None
    replace: tuple[Replaced, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan of a workflow.

    Attributes:
        nodes: The nodes that there are to be.
        drop: The ids of those that are to go.
        reasoning: Why.
        notes: What cannot be done or was assumed, for the user.
        outdated: The numbers, from 1, of earlier notes that no longer hold.
    """

    nodes: tuple[PlannedNode, ...] = ()
    drop: tuple[str, ...] = ()
    reasoning: str = ""
    notes: tuple[str, ...] = ()
    outdated: tuple[int, ...] = ()

    @property
    def open(self) -> list[str]:
        """The nodes that are to be written: those that are new, and those that are to change."""
        return [node.id for node in self.nodes if node.change != "keep"]


def plan_schema(types: Mapping[str, NodeType], there: Collection[str], *, noted: bool = False) -> Schema:
    """Return the JSON Schema of a plan without parameters: reasons come first; what is left out is empty.

    Args:
        types: The node types by name.
        there: The ids of the nodes that are there.
        noted: Whether there are earlier notes.
    """
    kinds = [kind.value for kind in VariableType if kind not in (VariableType.ANY, VariableType.ARRAY)]
    given = _closed({"name": _TEXT, "type": {"type": "string", "enum": kinds}})
    node: dict[str, Schema] = {
        "id": {**_TEXT, "description": "A free number; for a node that is there, its id."},
        "type": {"type": "string", "enum": list(types)},
        "change": {"type": "string", "enum": ["keep", "update", "add"] if there else ["add"]},
        "does": {**_TEXT, "description": "One line."},
        "inside": _TEXT,
        "after": _TEXTS,
        "gives": {
            "type": "array",
            "description": f"Variables that it declares, of {', '.join(DECLARES)} only.",
            "items": given,
        },
    }
    needed = ["id", "type", *(["change"] if there else ["after"])]
    dropped = {"type": "string", "enum": list(there)} if there else _TEXT
    properties: dict[str, Schema] = {
        "reasoning": {**_TEXT, "description": "Short: the steps asked for, and the node for each."},
        "nodes": {"type": "array", "items": _closed(node, needed)},
        "drop": {"type": "array", "items": dropped},
        "notes": _TEXTS,
        **({"outdated": _NUMBERS} if noted else {}),
    }
    return _closed(properties, ["reasoning", "nodes"])


def draft_schema(there: Collection[str], *, noted: bool = False) -> Schema:
    """Return the JSON Schema of a plan with parameters, as short as may be: an endpoint counts its tokens.

    Args:
        there: The ids of the nodes that are there.
        noted: Whether there are earlier notes.
    """
    node: dict[str, Schema] = {"id": _TEXT, "type": _TEXT, "inside": _TEXT, "after": _TEXTS, "params": _OBJECT}
    if there:
        node["replace"] = _list_of({"param": _TEXT, "old": _TEXT, "new": _TEXT}, ["param", "old", "new"])
    return {
        "type": "object",
        "properties": {
            "reasoning": {**_TEXT, "description": "In short"},
            "nodes": _list_of(node, ["id"] if there else ["id", "type", "after"]),
            "drop": _TEXTS,
            "notes": _TEXTS,
            **({"outdated": _NUMBERS} if noted else {}),
        },
        "required": ["reasoning", "nodes"],
    }


def with_base(said: Mapping[str, Any], base: NodeGraph) -> dict[str, Any]:
    """Return a plan as it was written, with what it may leave out: types of nodes that are there, and changes.

    Args:
        said: An answer that fits its schema.
        base: The workflow that is there.
    """
    nodes = [cast("Mapping[str, Any]", each) for each in said["nodes"]]
    return {**said, "nodes": [_with_base(each, base) for each in nodes]}


def _with_base(node: Mapping[str, Any], base: NodeGraph) -> dict[str, Any]:
    was = base.by_id.get(str(node["id"]).strip())
    written = "params" in node or bool(node.get("replace"))
    change = "add" if was is None else "update" if written else "keep"
    said = node.get("change")
    return {
        **node,
        "type": node.get("type") or (was.type if was is not None else ""),
        "change": said if said in get_args(Change) else change,
    }


def read_plan(said: Mapping[str, Any]) -> Plan:
    """The plan of an answer that fits its schema."""
    nodes = [cast("Mapping[str, Any]", each) for each in said.get("nodes", [])]
    ids = {str(each["id"]).strip() for each in nodes}
    return Plan(
        nodes=tuple(_planned(each, ids) for each in nodes[: MOST_NODES + 1]),
        drop=tuple(map(str, said.get("drop", []))),
        reasoning=str(said.get("reasoning", "")),
        notes=tuple(line for each in said.get("notes", []) if (line := " ".join(str(each).split()))),
        outdated=tuple(int(each) for each in said.get("outdated", [])),
    )


def _planned(said: Mapping[str, Any], ids: Collection[str]) -> PlannedNode:
    params = said.get("params")
    gives = tuple(
        Given(str(one["name"]).strip(), str(one["type"]))
        for one in each_of(said.get("gives"))
        if {"name", "type"} <= one.keys()
    )
    return PlannedNode(
        id=str(said["id"]).strip(),
        type=said["type"],
        change=said.get("change", "add"),
        does=str(said.get("does", "")),
        inside=str(said.get("inside", "")).strip(),
        after=tuple(_after(str(one).strip(), ids) for one in said.get("after", ())),
        gives=gives or _declared(said["type"], params),
        params=params,
        replace=tuple(Replaced(one["param"], one["old"], one["new"]) for one in said.get("replace", ())),
    )


def _after(said: str, ids: Collection[str]) -> After:
    """``4``, or ``4:1`` for port 1 of node 4."""
    node, colon, port = said.rpartition(":")
    return After(node, int(port)) if colon and said not in ids and re.fullmatch(r"[0-9]{1,3}", port) else After(said)


def _declared(node_type: str, params: Any) -> tuple[Given, ...]:
    """The variables that the parameters of a node declare."""
    key = {"start": "variables", "code": "outputs", "parameter-extractor": "parameters"}.get(node_type, "")
    listed = each_of(fields_of(params).get(key))
    return tuple(
        Given(str(each["name"]).strip(), str(each["type"])) for each in listed if {"name", "type"} <= each.keys()
    )


def faults_of(plan: Plan, base: NodeGraph, types: Mapping[str, NodeType]) -> list[str]:
    """Return the faults of a plan, in words that a model can act on.

    Args:
        plan: The plan.
        base: The workflow that is there; without nodes where there is none.
        types: The node types by name.
    """
    return list(_faults(plan, base, types))


def _faults(plan: Plan, base: NodeGraph, types: Mapping[str, NodeType]) -> Iterator[str]:
    ids = [node.id for node in plan.nodes]
    if not (plan.open or plan.drop or any(node.after for node in plan.nodes)):
        yield from _idle(plan, base)
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


def _idle(plan: Plan, base: NodeGraph) -> Iterator[str]:
    """The fault of a plan that changes nothing, unless it says why."""
    if not base.nodes:
        yield "the plan has no nodes"
    elif not plan.notes:
        yield "the plan changes nothing; where nothing can be changed, say why in `notes`"


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
        yield f"node {node.id!r}: {node.type!r} is not a node type{did_you_mean(node.type, types)}"
    if node.replace and node.change != "update":
        yield f"node {node.id!r}: only an update can `replace` words"
    for each in node.after:
        if each.node not in known:
            yield f"node {node.id!r} follows {each.node!r}, which is not there{did_you_mean(each.node, known)}"
    if node.inside and node.inside not in known:
        yield f"node {node.id!r} runs inside {node.inside!r}, which is not there{did_you_mean(node.inside, known)}"


def _list_of(properties: Mapping[str, Schema], required: Collection[str]) -> Schema:
    return {
        "type": "array",
        "items": {"type": "object", "properties": dict(properties), "required": list(required)},
    }


def _closed(properties: Mapping[str, Schema], required: Collection[str] | None = None) -> Schema:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties if required is None else required),
        "additionalProperties": False,
    }
