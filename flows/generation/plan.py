"""Plan of a workflow: its nodes, their types and order, and optionally their parameters."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal, NamedTuple, cast, get_args

from operad.flows.check import NodeType
from operad.flows.formats.shapes import each_of, fields_of, list_of
from operad.flows.node_graph import NodeGraph
from operad.operators.variables import VariableType
from operad.runtime.values.errors import did_you_mean, shorten
from operad.runtime.values.schema_check import Schema

Change = Literal["keep", "update", "add"]

DECLARES: Mapping[str, str] = {
    "start": "variables",
    "code": "outputs",
    "parameter-extractor": "parameters",
    "loop": "variables",
    "sub-workflow": "outputs",
}
"""Types whose nodes declare their own variables, which a plan therefore names, each with the parameter for them."""

MOST_NODES = 60
"""Maximum number of nodes in a plan."""

_ID = re.compile(r"[\w-]{1,40}")
"""Pattern of ids of new nodes; existing nodes may have other ids."""

_TEXT: Schema = {"type": "string"}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_NUMBERS: Schema = {"type": "array", "items": {"type": "integer"}}
_OBJECT: Schema = {"type": "object"}

_SAID: Mapping[str, Schema] = dict.fromkeys(("left_out", "neither", "unapproved", "samples"), _OBJECT)
"""What a plan says beside its nodes, as objects; the rules of the prompt describe them."""


class After(NamedTuple):
    """Predecessor of a node.

    Attributes:
        node: Id of the predecessor.
        port: Port of the predecessor that the edge leaves.
    """

    node: str
    port: int = 0


class Given(NamedTuple):
    """Variable that a node declares, with its type."""

    name: str
    type: str


class Replaced(NamedTuple):
    """Replacement of words in a long text of an existing node.

    Attributes:
        param: Parameter, or path to the text in it.
        old: Words to replace, which occur once.
        new: New words.
    """

    param: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """Node of a plan.

    Attributes:
        id: Id of the node.
        type: Node type.
        change: ``keep`` to leave the node as it is, ``update`` to change it, ``add`` for a new node.
        purpose: Purpose of the node in one line.
        inside: Id of the container of the node, such as an iteration; empty for none.
        predecessors: Direct predecessors; empty for an existing node to keep its edges.
        declares: Variables that the node declares, for the types of `DECLARES`.
        params: Parameters in drafted form; None if they are not written yet.
        replace: Replacements in its texts.
    """

    id: str
    type: str
    change: Change = "add"
    purpose: str = ""
    inside: str = ""
    predecessors: tuple[After, ...] = ()
    declares: tuple[Given, ...] = ()
    params: Mapping[str, Any] | None = None
    replace: tuple[Replaced, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """Plan of a workflow, or of a change of one.

    Attributes:
        nodes: Nodes to keep, update or add.
        drop: Ids of the nodes to remove.
        reasoning: Reasons of the plan.
        notes: Notes for the user on assumptions and contradictions.
        outdated: Numbers, from 1, of earlier notes that no longer hold.
        left_out: What the request asks for and the workflow does not do, each with the reason.
        neither: Names of the request that are neither inputs nor outputs, each with what it is.
        unapproved: Ids of nodes that write elsewhere without asking a person, each with the reason.
        samples: Ids of nodes that ask another system, each with a sample of its answer.
    """

    nodes: tuple[PlannedNode, ...] = ()
    drop: tuple[str, ...] = ()
    reasoning: str = ""
    notes: tuple[str, ...] = ()
    outdated: tuple[int, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    neither: Mapping[str, str] = field(default_factory=dict[str, str])
    unapproved: Mapping[str, str] = field(default_factory=dict[str, str])
    samples: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def to_write(self) -> list[str]:
        """Ids of the nodes to write: new nodes, and nodes to update."""
        return [node.id for node in self.nodes if node.change != "keep"]


def plan_schema(types: Mapping[str, NodeType], there: Collection[str], *, noted: bool = False) -> Schema:
    """Return the JSON Schema of a plan without parameters; reasoning comes first, and fields may be left out.

    Args:
        types: Node types by name.
        there: Ids of the existing nodes.
        noted: True if there are earlier notes.
    """
    kinds = [kind.value for kind in VariableType if kind not in (VariableType.ANY, VariableType.ARRAY)]
    variable = object_schema({"name": _TEXT, "type": {"type": "string", "enum": kinds}})
    node: dict[str, Schema] = {
        "id": {**_TEXT, "description": "A free number; for an existing node, its id."},
        "type": {"type": "string", "enum": list(types)},
        "change": {"type": "string", "enum": ["keep", "update", "add"] if there else ["add"]},
        "does": {**_TEXT, "description": "One line."},
        "inside": _TEXT,
        "after": _TEXTS,
        "gives": {
            "type": "array",
            "description": f"Variables that it declares, of {', '.join(DECLARES)} only.",
            "items": variable,
        },
    }
    required = ["id", "type", *(["change"] if there else ["after"])]
    drop_id = {"type": "string", "enum": list(there)} if there else _TEXT
    properties: dict[str, Schema] = {
        "reasoning": {**_TEXT, "description": "Short: the steps asked for, and the node for each."},
        "nodes": {"type": "array", "items": object_schema(node, required)},
        "drop": {"type": "array", "items": drop_id},
        "notes": _TEXTS,
        **_SAID,
        **({"outdated": _NUMBERS} if noted else {}),
    }
    return object_schema(properties, ["reasoning", "nodes"])


DRAFT: Schema = {
    "type": "object",
    "properties": {
        "reasoning": {**_TEXT, "description": "In short"},
        "nodes": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"id": _TEXT, "type": _TEXT, "inside": _TEXT, "after": _TEXTS, "params": _OBJECT},
                "required": ["id", "type", "after"],
            },
        },
        "drop": _TEXTS,
    },
    "required": ["reasoning", "nodes"],
    "additionalProperties": True,
}
"""JSON Schema of a plan of a new workflow with parameters, in short, as endpoints count its tokens; rules have the rest."""

CHANGE: Schema = {
    "type": "object",
    "properties": {"nodes": {"type": "array"}, "drop": {"type": "array"}},
    "additionalProperties": True,
}
"""JSON Schema of a plan of a change with parameters, whose form stands in the rules, as that is shorter."""


def with_base(answer: Mapping[str, Any], base: NodeGraph) -> dict[str, Any]:
    """Return the JSON of a plan with what it may leave out: types and changes of nodes, and the contents of dropped ones.

    Args:
        answer: Answer of a model that fits the schema of a plan.
        base: The existing workflow.
    """
    nodes = [cast("Mapping[str, Any]", node) for node in answer.get("nodes", ())]
    planned = {str(node["id"]).strip() for node in nodes}
    dropped = [str(each).strip() for each in answer.get("drop", ())]
    contents = [
        spec.id
        for spec in base.nodes
        if spec.id not in planned
        and not {spec.id}.intersection(dropped)
        and {*base.around(spec.id)}.intersection(dropped)
    ]
    return {
        **answer,
        "nodes": [_node_with_base(node, base) for node in nodes],
        **({"drop": [*dropped, *contents]} if contents else {}),
    }


def _node_with_base(node: Mapping[str, Any], base: NodeGraph) -> dict[str, Any]:
    """Return the JSON of a planned node with its type and its change."""
    existing = base.by_id.get(str(node["id"]).strip())
    written = "params" in node or bool(node.get("replace"))
    change = "add" if existing is None else "update" if written else "keep"
    stated_change = node.get("change")
    return {
        **node,
        "type": node.get("type") or (existing.type if existing is not None else ""),
        "change": stated_change if stated_change in get_args(Change) else change,
    }


def read_plan(answer: Mapping[str, Any]) -> Plan:
    """Return the plan in a model's answer that fits the schema of a plan."""
    nodes = [cast("Mapping[str, Any]", node) for node in answer.get("nodes", [])]
    ports = {str(node["id"]).strip(): _named_ports(node) for node in nodes}
    return Plan(
        nodes=tuple(_read_node(node, ports) for node in nodes[: MOST_NODES + 1]),
        drop=tuple(map(str, answer.get("drop", []))),
        reasoning=str(answer.get("reasoning", "")),
        notes=tuple(line for note in answer.get("notes", []) if (line := " ".join(str(note).split()))),
        outdated=tuple(int(number) for number in answer.get("outdated", [])),
        left_out=_reasons(answer.get("left_out")),
        neither=_reasons(answer.get("neither")),
        unapproved=_reasons(answer.get("unapproved")),
        samples=fields_of(answer.get("samples")),
    )


def _reasons(value: Any) -> Mapping[str, str]:
    """Return the reasons of an object, each in one line."""
    return {str(key).strip(): " ".join(str(reason).split()) for key, reason in fields_of(value).items()}


def _named_ports(node: Mapping[str, Any]) -> Mapping[str, int]:
    """Return the ports that the parameters of a node name, such as its classes, in lower case."""
    params = fields_of(node.get("params"))
    if node.get("type") == "question-classifier":
        return {
            name.strip().lower(): port
            for port, name in enumerate(list_of(params.get("classes")))
            if isinstance(name, str)
        }
    count = len(list_of(params.get("cases"))) if node.get("type") == "if-else" else 0
    return {**({"true": 0} if count == 1 else {}), "false": count, "else": count} if count else {}


def _read_node(node: Mapping[str, Any], ports: Mapping[str, Mapping[str, int]]) -> PlannedNode:
    """Return a planned node from its JSON."""
    params = node.get("params")
    gives = tuple(
        Given(str(item["name"]).strip(), str(item["type"]))
        for item in each_of(node.get("gives"))
        if {"name", "type"} <= item.keys()
    )
    return PlannedNode(
        id=str(node["id"]).strip(),
        type=node["type"],
        change=node.get("change", "add"),
        purpose=str(node.get("does", "")),
        inside=str(node.get("inside", "")).strip(),
        predecessors=tuple(_read_predecessor(str(item).strip(), ports) for item in node.get("after", ())),
        declares=gives or _declared_variables(node["type"], params),
        params=params,
        replace=tuple(Replaced(item["param"], item["old"], item["new"]) for item in node.get("replace", ())),
    )


def _read_predecessor(text: str, ports: Mapping[str, Mapping[str, int]]) -> After:
    """Return the predecessor that ``4`` names, or ``4:1`` and ``4:else`` for a port of node 4."""
    node, colon, name = text.rpartition(":")
    if not colon or text in ports:
        return After(text)
    if re.fullmatch(r"[0-9]{1,3}", name):
        return After(node, int(name))
    port = ports.get(node, {}).get(name.strip().lower())
    return After(text) if port is None else After(node, port)


def _declared_variables(node_type: str, params: Any) -> tuple[Given, ...]:
    """Return the variables that the parameters of a node declare."""
    listed = each_of(fields_of(params).get(DECLARES.get(node_type, "")))
    return tuple(
        Given(str(item["name"]).strip(), str(item["type"])) for item in listed if {"name", "type"} <= item.keys()
    )


def nodes_before(plan: Plan, base: NodeGraph, ids: Collection[str]) -> list[str]:
    """Return the ids of the existing nodes that directly precede some nodes, planned or as they are."""
    planned_ids = [predecessor.node for node in plan.nodes if node.id in ids for predecessor in node.predecessors]
    existing_ids = [edge.source for edge in base.edges if edge.target in ids]
    return [node_id for node_id in dict.fromkeys([*planned_ids, *existing_ids]) if node_id not in ids]


def faults_of(plan: Plan, base: NodeGraph, types: Mapping[str, NodeType]) -> list[str]:
    """Return the faults of a plan as instructions for a model.

    Args:
        plan: The plan.
        base: The existing workflow; without nodes if there is none.
        types: Node types by name.
    """
    return list(_faults(plan, base, types))


def _faults(plan: Plan, base: NodeGraph, types: Mapping[str, NodeType]) -> Iterator[str]:
    """Yield the faults of a plan."""
    ids = [node.id for node in plan.nodes]
    if not (plan.to_write or plan.drop or any(node.predecessors for node in plan.nodes)):
        yield from _no_change_faults(plan, base)
        return
    if len(ids) > MOST_NODES:
        yield f"the plan has more than {MOST_NODES} nodes; say more in fewer"
        return
    for node_id in dict.fromkeys(duplicate for duplicate in ids if ids.count(duplicate) > 1):
        yield f"node {node_id!r} is planned twice; each node needs its own id"
    existing = base.by_id
    for node in plan.nodes:
        yield from _node_faults(node, base, plan, types)
    for node_id in plan.drop:
        if node_id not in existing:
            yield f"drop: there is no node {node_id!r}{did_you_mean(node_id, existing)}"
        elif node_id in ids:
            yield f"drop: node {node_id!r} is planned as well; leave it out of one of the two"
    types_by_id = {**{each: spec.type for each, spec in existing.items() if each not in plan.drop}}
    types_by_id |= {node.id: node.type for node in plan.nodes}
    yield from _missing_type_faults(list(types_by_id.values()), types)
    try:
        TopologicalSorter(
            {node.id: [predecessor.node for predecessor in node.predecessors] for node in plan.nodes}
        ).prepare()
    except CycleError as error:
        yield f"each of these follows the next, and so none can begin: {shorten(error.args[1], 10)}"


def _no_change_faults(plan: Plan, base: NodeGraph) -> Iterator[str]:
    """Yield a fault of a plan that changes nothing, unless its notes give a reason."""
    if not base.nodes:
        yield "the plan has no nodes"
    elif not plan.notes:
        yield "the plan changes nothing; where nothing can be changed, say why in `notes`"


def _missing_type_faults(kinds: Sequence[str], types: Mapping[str, NodeType]) -> Iterator[str]:
    """Yield a fault if no node begins or none ends the workflow."""
    if "start" not in kinds:
        yield "there is no node of type 'start'; it holds the inputs"
    if not any(kind in types and types[kind].ends for kind in kinds):
        yield "there is no node of type 'end'; it names the outputs"


def _node_faults(node: PlannedNode, base: NodeGraph, plan: Plan, types: Mapping[str, NodeType]) -> Iterator[str]:
    """Yield the faults of a planned node."""
    existing = base.by_id
    known = {*(node_id for node_id in existing if node_id not in plan.drop), *(planned.id for planned in plan.nodes)}
    if node.id not in existing and not _ID.fullmatch(node.id):
        yield f"{node.id!r:.60} can be no id; take a number"
    if node.change == "add" and node.id in existing and node.id not in plan.drop:
        yield (
            f"node {node.id!r} is there already ({existing[node.id].type}): "
            "plan it as keep or update, or take a free id"
        )
    if node.change != "add" and node.id not in existing:
        yield f"node {node.id!r} is not there, and so can only be planned as add{did_you_mean(node.id, existing)}"
    elif node.change != "add" and existing[node.id].type != node.type:
        yield (
            f"node {node.id!r} is of type {existing[node.id].type!r}, not {node.type!r}; "
            "to have another type, drop it and add a new one"
        )
    if node.type not in types:
        yield f"node {node.id!r}: {node.type!r} is not a node type{did_you_mean(node.type.lower(), types)}"
    if node.replace and node.change != "update":
        yield f"node {node.id!r}: only an update can `replace` words"
    for name in (predecessor.node for predecessor in node.predecessors if predecessor.node not in known):
        source = name.rpartition(":")[0]
        hint = f"; name a port by its number, as in '{source}:0'" if source in known else did_you_mean(name, known)
        yield f"node {node.id!r} follows {name!r}, which is not there{hint}"
    if node.inside and node.inside not in known:
        yield f"node {node.id!r} runs inside {node.inside!r}, which is not there{did_you_mean(node.inside, known)}"


def object_schema(properties: Mapping[str, Schema], required: Collection[str] | None = None) -> Schema:
    """Return the schema of an object without other properties; None requires all properties."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties if required is None else required),
        "additionalProperties": False,
    }
