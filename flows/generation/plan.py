"""Plan of a workflow: its nodes with their order and parameters, as models answer it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, cast

from operad.flows.check import NodeType
from operad.flows.edit.operation import free_id
from operad.flows.formats.chat2workflow_slips import known_type
from operad.flows.formats.shapes import each_of, fields_of, list_of
from operad.flows.generation.cut_texts import still_cut, texts_at, with_whole_texts
from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.runtime.values.answer_json import candidates
from operad.runtime.values.errors import did_you_mean
from operad.runtime.values.json_schema import Schema

Change = Literal["keep", "update", "add"]

MOST_NODES = 100
"""Maximum number of nodes in a plan."""

_ID = re.compile(r"[\w-]{1,40}")
"""Pattern of ids of new nodes; existing nodes may have other ids."""

_TEXT: Schema = {"type": "string"}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_OBJECT: Schema = {"type": "object"}

_SAID = ("left_out", "neither", "unapproved", "samples")
"""Further fields of a plan, which are objects; the rules of the prompt describe them."""

PLAN_KEYS = ("nodes", "drop", "rename", "notes", "look", *_SAID)
"""Keys of which a plan has at least one."""


class After(NamedTuple):
    """Predecessor of a node.

    Attributes:
        node: Id of the predecessor.
        port: Port of the predecessor that the edge leaves.
    """

    node: str
    port: int = 0


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
        params: Parameters in drafted form; None if none are written.
        replace: Replacements in its texts.
    """

    id: str
    type: str
    change: Change = "add"
    purpose: str = ""
    inside: str = ""
    predecessors: tuple[After, ...] = ()
    params: Mapping[str, Any] | None = None
    replace: tuple[Replaced, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """Plan of a workflow, or of a change of one.

    Attributes:
        nodes: Nodes to keep, update or add.
        drop: Ids of the nodes to remove.
        rename: New names of variables, by ``id.variable``.
        notes: Notes for the user on assumptions and contradictions.
        outdated: Numbers, from 1, of earlier notes that no longer hold.
        left_out: What the request asks for and the workflow does not do, each with the reason.
        neither: Names of the request that are neither inputs nor outputs, each with what it is.
        unapproved: Ids of nodes that write elsewhere without asking a person, each with the reason.
        samples: Ids of nodes that ask another system, each with a sample of its answer.
    """

    nodes: tuple[PlannedNode, ...] = ()
    drop: tuple[str, ...] = ()
    rename: Mapping[str, str] = field(default_factory=dict[str, str])
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
    },
    "required": ["reasoning", "nodes"],
}
"""JSON Schema of the plan of a new workflow, in short, as endpoints count its tokens; rules have the rest."""

CHANGE: Schema = {"type": "object", "properties": {"nodes": {"type": "array"}}}
"""JSON Schema of the plan of a change, whose form stands in the rules, as that is shorter."""


def normal_plan(answer: Mapping[str, Any], base: NodeGraph, types: Mapping[str, NodeType]) -> dict[str, Any]:
    """Return the JSON of a plan in its normal form, from an answer of any form that has one reading.

    Read are nodes by id or in a list, ids that are numbers, predecessors and ids to drop as one text, parameters as
    text, types in another case or by another name, a single note, and the fields that an answer may leave out.
    What has no reading is listed under ``faults``, each as a finding.

    Args:
        answer: The answer of a model.
        base: The existing workflow.
        types: Node types by name.
    """
    faults: list[str] = []
    given = parsed(answer.get("nodes"))
    by_id = [{"id": key, **fields_of(each)} for key, each in fields_of(given).items()]
    listed = by_id or each_of(given)
    if len(listed) > MOST_NODES:
        faults.append(f"[plan] workflow: the plan has {len(listed):,} nodes, of which {MOST_NODES} are read")
    drop = _ids(answer.get("drop"))
    faults += [f"[plan] {each}: is to be dropped, and there is no such node" for each in drop if each not in base.by_id]
    planned = {str(each.get("id")) for each in listed}
    contents = [each.id for each in base.nodes if not {*base.around(each.id)}.isdisjoint(drop)]
    drop += [each for each in contents if each not in (*drop, *planned)]
    there = {node_id: spec for node_id, spec in base.by_id.items() if node_id not in drop}
    nodes: dict[str, dict[str, Any]] = {}
    for each in listed[:MOST_NODES]:
        node = _normal_node(each, there, types)
        said, before = node["id"], there.get(node["id"])
        whole = [text for _, text in texts_at(before.params)] if before is not None else []
        node = with_whole_texts(node, whole)
        faults += [
            f"[plan] {said}: holds the mark of a cut, {text[-80:]!r}; write the text whole, or look at the node first"
            for text in still_cut([node.get("params"), node.get("replace")], whole)
        ]
        is_new = before is not None and (node["type"] != before.type or each.get("change") == "add")
        taken = (
            f"is there already ({before.type})" if is_new and before else "is planned twice" if said in nodes else ""
        )
        if taken or (before is None and not _ID.fullmatch(said)):
            new_id = free_id({*base.by_id, *nodes, *(str(other.get("id")) for other in listed)})
            node |= {"id": new_id, "change": "add"}
            why = taken or "can be no id"
            faults.append(
                f"[plan] {new_id}: {said!r:.60} {why}, so this node is {new_id!r} now; give each a free number"
            )
        if node["type"]:
            nodes[node["id"]] = node
        else:
            faults.append(f"[plan] {node['id']}: a new node needs a type")
    reasons = {key: reasons_of(answer.get(key)) for key in _SAID if key != "samples" and answer.get(key)}
    samples = fields_of(parsed(answer.get("samples")))
    return {
        "nodes": list(nodes.values()),
        "drop": [each for each in drop if each in base.by_id],
        **({"rename": renamed} if (renamed := reasons_of(answer.get("rename"))) else {}),
        "notes": texts_of(answer.get("notes")),
        "outdated": [int(each) for each in _ids(answer.get("outdated")) if each.isdecimal()],
        **reasons,
        **({"samples": samples} if samples else {}),
        "faults": faults,
    }


def _normal_node(
    node: Mapping[str, Any], there: Mapping[str, NodeSpec], types: Mapping[str, NodeType]
) -> dict[str, Any]:
    """Return the JSON of a planned node in its normal form, with its type and its change."""
    node_id = "".join(texts_of(node.get("id", node.get("name"))))
    existing = there.get(node_id)
    said = str(node.get("type") or (existing.type if existing is not None else "")).strip()
    known = known_type(said) if said not in types else said
    params = parsed(node.get("params"))
    if params is None and known in types:  # parameters beside the other fields of a node
        params = {name: node[name] for name in types[known].params_type.model_fields if name in node} or None
    if isinstance(params, dict) and known == "start":
        params = _with_defaults(fields_of(params), existing)
    if isinstance(params, dict) and existing is None:
        params = {name: value for name, value in fields_of(params).items() if value is not None}
    replaced = parsed(node.get("replace"))
    replacements = each_of([replaced] if isinstance(replaced, dict) else replaced) if existing is not None else []
    written = isinstance(params, dict) or replacements or node.get("change") == "update"
    normal: dict[str, Any] = {
        **node,
        "id": node_id,
        "type": known if known in types else said,
        "change": "add" if existing is None else "update" if written else "keep",
        "inside": str(node.get("inside") or "").strip(),
        "after": _ids(node.get("after")),
        "params": params if isinstance(params, dict) else None,
        "replace": [{key: str(each.get(key, "")) for key in ("param", "old", "new")} for each in replacements],
    }
    return {key: value for key, value in normal.items() if value is not None}


def _with_defaults(params: Mapping[str, Any], existing: NodeSpec | None) -> dict[str, Any]:
    """Return the parameters of a start with the defaults that stand beside its variables: inputs that are not required."""
    stated = {
        str(each["name"]): each.get("default")
        for each in each_of(params.get("variables"))
        if "name" in each and (each.get("default") is not None or each.get("required") is False)
    }
    before = fields_of(existing.params).get("defaults") if existing is not None else None
    return {**params, **({"defaults": {**fields_of(params.get("defaults", before)), **stated}} if stated else {})}


def texts_of(value: Any) -> list[str]:
    """Return the texts of a list, each in one line; a text or a number that stands alone is the only one."""
    given = list_of(value) if isinstance(value, list) else [] if value is None else [value]
    whole = (int(each) if isinstance(each, float) and each.is_integer() else each for each in given)
    return [line for each in whole if (line := " ".join(str(each).split()))]


def _ids(value: Any) -> list[str]:
    """Return the ids of a list, or of a text that separates them by commas; of an object, its node and port."""
    listed = value.split(",") if isinstance(value, str) else list_of(value) if isinstance(value, list) else [value]
    return texts_of(
        [_port_of(fields_of(each)) if isinstance(each, dict) else each for each in listed if each is not None]
    )


def _port_of(end: Mapping[str, Any]) -> str:
    """Return the end of an edge that is written as an object as ``node:port``."""
    node = next((end[key] for key in ("node", "id", "source") if key in end), "")
    return f"{node}:{end['port']}" if end.get("port") else str(node)


def parsed(value: Any) -> Any:
    """Return a value; of a text, the JSON that it holds."""
    return next(candidates(value, repair=True), None) if isinstance(value, str) else value


def read_plan(answer: Mapping[str, Any]) -> Plan:
    """Return the plan in a model's answer that fits the schema of a plan."""
    nodes = [cast("Mapping[str, Any]", node) for node in answer.get("nodes", [])]
    ports = {str(node["id"]).strip(): _named_ports(node) for node in nodes}
    return Plan(
        nodes=tuple(_read_node(node, ports) for node in nodes),
        drop=tuple(map(str, answer.get("drop", []))),
        rename=reasons_of(answer.get("rename")),
        notes=tuple(line for note in answer.get("notes", []) if (line := " ".join(str(note).split()))),
        outdated=tuple(int(number) for number in answer.get("outdated", [])),
        left_out=reasons_of(answer.get("left_out")),
        neither=reasons_of(answer.get("neither")),
        unapproved=reasons_of(answer.get("unapproved")),
        samples=fields_of(answer.get("samples")),
    )


def with_said(plan: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON of a plan with the notes and reasons of a later one, which mends its workflow."""
    said = {key: {**fields_of(plan.get(key)), **fields_of(later[key])} for key in _SAID if later.get(key)}
    return {**plan, **said, "notes": list(dict.fromkeys([*plan.get("notes", []), *later.get("notes", [])]))}


def reasons_of(value: Any) -> dict[str, str]:
    """Return reasons by what they are about, each in one line, from an object, a list without reasons, or a text."""
    value = parsed(value) if isinstance(value, str) and value.lstrip().startswith(("{", "[")) else value
    reasons = fields_of(value) if isinstance(value, dict) else dict.fromkeys(texts_of(value), "")
    return {str(key).strip(): " ".join(str(reason).split()) for key, reason in reasons.items()}


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
    return PlannedNode(
        id=str(node["id"]).strip(),
        type=node["type"],
        change=node.get("change", "add"),
        purpose=str(node.get("does", "")),
        inside=str(node.get("inside", "")).strip(),
        predecessors=tuple(_read_predecessor(str(item).strip(), ports) for item in node.get("after", ())),
        params=node.get("params"),
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


def unknown_neighbours(plan: Plan, base: NodeGraph) -> list[str]:
    """Return a finding for each node that a plan names as a predecessor or container, and that is not there."""
    known = [*(each for each in base.by_id if each not in plan.drop), *(node.id for node in plan.nodes)]
    faults: list[str] = []
    for node in plan.nodes:
        for name in [each.node for each in node.predecessors if each.node not in known]:
            source = name.rpartition(":")[0]
            hint = f"; name a port by its number, as in '{source}:0'" if source in known else did_you_mean(name, known)
            faults.append(f"[plan] {node.id}: follows {name!r:.60}, which is not there{hint}")
        if node.inside and node.inside not in known:
            hint = did_you_mean(node.inside, known)
            faults.append(f"[plan] {node.id}: runs inside {node.inside!r:.60}, which is not there{hint}")
    return faults


def changes(plan: Plan) -> bool:
    """Return whether a plan changes anything."""
    return bool(plan.to_write or plan.drop or plan.rename or any(node.predecessors for node in plan.nodes))
