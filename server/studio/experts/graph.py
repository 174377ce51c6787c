"""YAML files of experts as graphs: operators, their evaluators, and the leader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from operad.configs.build import NOT_AS_EVALUATOR
from operad.configs.expert_file import EVALUATOR, ExpertFile
from operad.configs.loader import Configuration, preview_text
from operad.configs.reading import places
from operad.configs.schema import LeaderSpec, OperatorSpec, WorkflowLikeSpec
from operad.flows.edit.paths import Step
from operad.flows.formats.shapes import list_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators.variables import plain
from operad.runtime.graph.graph import WorkflowGraph
from operad.runtime.values.errors import InputError, did_you_mean

OPERATOR, EXPERT, LEADER = "operator", "expert", "leader"

_NOT_SHOWN = frozenset({"workflow", "evaluator", "name"})
_PORTS_TEXT = "Ports of the operator, of which it chooses one; a chain names the port that it follows."
_CHAINS_TEXT = "Chains of operators; each operator runs after the one before it."
_CRITERIA_TEXT = "Criteria that the result must meet."
_ROUNDS_TEXT = "Maximum number of rounds; in each, the operators that the evaluator blames run again."
_EXPERT_FIELDS = ("max_rounds", "on_reject", "model", "reasoner", "memory", "limits", "budget", "policy")


class Part(NamedTuple):
    """A node, and the path of its definition in the file.

    Attributes:
        path: Path of the definition; None if it cannot be edited.
        expert: Index of its expert; -1 for the leader.
    """

    spec: NodeSpec
    path: tuple[Step, ...] | None
    expert: int = -1
    name: str = ""


def graph_of(data: bytes, path: Path) -> NodeGraph:
    """Return the operators of all experts with their edges; evaluators follow the last operators.

    Raises:
        InvalidError: The file is not valid; every issue is listed.
    """
    configuration, parts, edges = read_parts(file_of(data, path), path)
    name = configuration.spec.app.name or path.stem
    return NodeGraph([part.spec for part in parts], edges, name=name)


def goal_of(data: bytes, path: Path) -> str:
    """Return the default job of a file of experts: its description."""
    return preview_text(file_of(data, path).text, path.name, path.parent).spec.app.desc


def file_of(data: bytes, path: Path) -> ExpertFile:
    """Return a file of experts, given its content."""
    return ExpertFile(data.decode("utf-8-sig", "replace"), path.name)


def read_parts(file: ExpertFile, path: Path) -> tuple[Configuration, list[Part], list[Edge]]:
    """Return the configuration of a file of experts, its parts, and the edges between them."""
    configuration = preview_text(file.text, path.name, path.parent)
    parts: list[Part] = []
    edges: list[Edge] = []
    definitions = {
        name: (place, {key: _form_value(field) for key, field in fields.items() if key not in _NOT_SHOWN})
        for name, (place, fields) in file.definitions().items()
    }
    graphs = {name: workflow.graph() for name, workflow in configuration.workflows.items()}
    id_counts = Counter([LEADER, *graphs, *(key for graph in graphs.values() for key in _operator_ids(graph))])
    leader = configuration.spec.leader
    if leader:
        parts.append(Part(NodeSpec(LEADER, LEADER, _fields_of_leader(leader)), ("leader",)))
    for number, expert in enumerate(configuration.spec.experts):
        name = expert.profile.name
        fields = _fields_of_expert(expert, expert.profile) | _linked_fields(file, number)
        parts.append(Part(NodeSpec(name, EXPERT, fields, title=name), ("experts", number), number, name))
        edges += [Edge(LEADER, name)] if leader else []
        inner, between = _parts_of_expert(configuration, number, id_counts, definitions)
        parts += inner
        edges += between
    return configuration, parts, edges


def _operator_ids(graph: WorkflowGraph) -> list[str]:
    return [*graph.operators, *(evaluator.get_id() for evaluator in graph.evaluators)]


def _parts_of_expert(
    configuration: Configuration,
    number: int,
    id_counts: Mapping[str, int],
    definitions: Mapping[str, tuple[tuple[Step, ...], dict[str, Any]]],
) -> tuple[list[Part], list[Edge]]:
    name = configuration.spec.experts[number].profile.name
    graph = configuration.workflows[name].graph()
    ids = {key: key if id_counts[key] == 1 else f"{name}/{key}" for key in _operator_ids(graph)}
    parts: list[Part] = []
    edges: list[Edge] = []
    for key in graph.operators:
        path, fields = definitions.get(key, (None, dict[str, Any]()))
        parts.append(Part(NodeSpec(ids[key], OPERATOR, fields, name, title=key), path, number, key))
        for predecessor, ports in graph.before[key].items():
            declared = list(graph.operators[predecessor].ports) if predecessor in graph.operators else []
            numbers = [declared.index(port) for port in ports if port in declared] or [0]
            edges += [Edge(ids[predecessor], ids[key], number) for number in numbers]
    followed = {predecessor for before in graph.before.values() for predecessor in before}
    for evaluator in graph.evaluators:
        key = evaluator.get_id()
        path, fields = definitions.get(key, (None, dict[str, Any]()))
        parts.append(Part(NodeSpec(ids[key], EVALUATOR, fields, name, title=key), path, number, key))
        edges += [Edge(ids[tail], ids[key]) for tail in graph.operators if tail not in followed]
    return parts, edges


def _form_value(value: Any) -> Any:
    """Return a field for the form; actions and tools are replaced by their names."""
    if isinstance(value, list):
        return [_form_value(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        if "name" in fields and ("tools" in fields or "module_path" in fields or "mcp_transport_config" in fields):
            return str(fields["name"])
    return plain(value)


def _fields_of_expert(expert: WorkflowLikeSpec, profile: Any) -> dict[str, Any]:
    values = expert.model_dump(mode="json", exclude_unset=True, by_alias=True)
    kept = {name: values[name] for name in _EXPERT_FIELDS if name in values}
    return {"profile": profile.model_dump(mode="json"), "max_rounds": expert.max_rounds, **kept}


def _fields_of_leader(leader: LeaderSpec) -> dict[str, Any]:
    values = leader.model_dump(mode="json", exclude_unset=True, by_alias=True)
    return {name: value for name, value in values.items() if name != "actions"}


def _linked_fields(file: ExpertFile, number: int) -> dict[str, Any]:
    """Return the chains and evaluators of an expert, with operators by name."""
    chains = [
        [item.name if item.port is None else {"operator": item.name, "port": item.port} for item in chain]
        for chain in file.chains(number)
    ]
    judges = file.evaluators(number)
    return {"workflow": chains, **({"evaluator": judges} if judges else {})}


def _mappings(data: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    return [item for item in list_of(data.get(key)) if isinstance(item, dict)]


def schemas(data: bytes, path: Path) -> dict[str, dict[str, Any]]:
    """Return the JSON Schemas of the fields that a form can set, by the type of node.

    Args:
        data: Content of the file, whose tools, actions and operators can be chosen.
    """
    file = file_of(data, path)
    schema = OperatorSpec.model_json_schema()
    operator_schema = (
        schema if "properties" in schema else schema["$defs"]["OperatorSpec"]
    )  # if the schema refers to itself
    plain_types = {"string", "number", "integer", "boolean"}
    fields = {
        name: dict(part) | ({"x-editor": "prompt"} if name == "instruction" else {"x-advanced": True})
        for name, part in operator_schema["properties"].items()
        if part.get("type") in plain_types and name not in _NOT_SHOWN
    }
    for key in ("tools", "actions"):
        if known := [str(item["name"]) for item in _mappings(file.data, key) if "name" in item]:
            fields[key] = {"type": "array", "items": {"enum": known}, "default": []}
    not_judging = {*NOT_AS_EVALUATOR, "output_schema"}
    criteria = {**fields["instruction"], "title": "Criteria", "description": _CRITERIA_TEXT}
    evaluator = {
        "type": "object",
        "properties": {name: part for name, part in fields.items() if name not in not_judging}
        | {"instruction": criteria},
        "required": ["instruction"],
    }
    fields["check"] = {"x-editor": "check", "description": operator_schema["properties"]["check"]["description"]}
    port = {"type": "string", "default": "other"}
    fields["ports"] = {"type": "array", "items": port, "default": [], "x-advanced": True, "description": _PORTS_TEXT}
    operator = {"type": "object", "properties": fields, "required": ["instruction"]}
    rounds = {"type": "integer", "minimum": 1, "title": "Max rounds", "description": _ROUNDS_TEXT}
    profile = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "desc": {"type": "string", "title": "Description", "x-editor": "prompt"},
        },
    }
    steps = {"title": "Operator", "enum": _step_choices(file)}
    chain = {"type": "array", "items": steps, "title": "Chain", "default": steps["enum"][:1]}
    links: dict[str, Any] = {
        "workflow": {"type": "array", "items": chain, "title": "Chains", "description": _CHAINS_TEXT}
    }
    if judges := _evaluator_choices(file):
        judge = {"title": "Evaluator", "enum": judges}
        links["evaluator"] = {
            "type": "array",
            "items": judge,
            "title": "Evaluators",
            "default": [],
            "uniqueItems": True,
        }
    expert = {
        "type": "object",
        "properties": {"profile": profile, **links, "max_rounds": rounds},
        "required": ["profile", "workflow", "max_rounds"],
    }
    return {OPERATOR: operator, EVALUATOR: evaluator, EXPERT: expert, LEADER: _leader_schema(profile)}


def _leader_schema(profile: Mapping[str, Any]) -> dict[str, Any]:
    counts = {
        name: {"type": "integer", "minimum": 1, "default": field.default, "description": field.description}
        for name, field in LeaderSpec.model_fields.items()
        if name in ("max_splits", "life_cycles", "max_depth")
    }
    return {"type": "object", "properties": {"profile": profile, **counts}, "required": ["profile"]}


def _evaluator_choices(file: ExpertFile) -> list[str]:
    """Return the operators that can be evaluators: those in no chain, then the evaluators."""
    experts = range(len(list_of(file.data["experts"])))
    judges = [name for number in experts for name in file.evaluators(number)]
    steps = {item.name for number in experts for chain in file.chains(number) for item in chain}
    defined = [operator for operator in _mappings(file.data, "operators") if "output_schema" not in operator]
    free = [name for operator in defined if (name := str(operator["name"])) not in steps and name not in judges]
    return list(dict.fromkeys([*free, *judges]))


def _step_choices(file: ExpertFile) -> list[Any]:
    """Return the operators of a file, and each of their ports."""
    steps: list[Any] = []
    for kind, _, value in places(file.data):
        if isinstance(value, dict) and kind != EVALUATOR:
            fields = cast("dict[str, Any]", value)
            name = str(fields["name"])
            ports = [{"operator": name, "port": port} for port in ports_of(fields)]
            steps += [choice for choice in (name, *ports) if choice not in steps]
    return steps


def ports_of(params: Mapping[str, Any]) -> Iterator[str]:
    """Yield the ports of an operator."""
    for port in list_of(params.get("ports")):
        yield str(port)


def connectable(graph: NodeGraph, source: str) -> dict[str, str | None]:
    """Return for each other part the reason why an edge from an operator cannot lead to it; None if it can.

    Raises:
        InputError: The operator does not exist.
    """
    spec = graph.by_id.get(source)
    if spec is None or spec.type != OPERATOR:
        raise InputError(f"there is no operator {source!r}{did_you_mean(source, graph.by_id)}")
    before = _predecessors(graph, source)
    reasons: dict[str, str | None] = {}
    for other in graph.nodes:
        if other.type == EVALUATOR:
            reasons[other.id] = f"{other.id!r} is an evaluator, which judges the last operators; it needs no edge"
        elif other.type != OPERATOR:
            reasons[other.id] = f"{other.id!r} is not an operator; edges lead between operators"
        elif other.parent != spec.parent:
            reasons[other.id] = f"{other.id!r} belongs to {other.parent!r}; edges stay within one expert"
        elif other.id in before:
            reasons[other.id] = f"{other.id!r} leads to {source!r} already; this edge would close a cycle"
        elif other.id != source:
            reasons[other.id] = None
    return reasons


def _predecessors(graph: NodeGraph, node_id: str) -> set[str]:
    """Return the nodes from which a node can be reached."""
    found, pending = set[str](), [node_id]
    while pending:
        current = pending.pop()
        new = {edge.source for edge in graph.edges if edge.target == current} - found
        found |= new
        pending += new
    return found
