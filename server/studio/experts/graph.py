"""YAML files of experts as graphs: operators, their evaluators, and the leader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from operad.configs.loader import Configuration, preview_text
from operad.configs.names import name_functions, name_operators, places
from operad.configs.schema import LeaderSpec, OperatorSpec, WorkflowLikeSpec
from operad.flows.edit.paths import Step
from operad.flows.formats.shapes import list_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators.variables import plain
from operad.runtime.graph.graph import WorkflowGraph
from operad.runtime.values.document import Document, parse_document
from operad.runtime.values.errors import InputError, did_you_mean
from operad.server.studio.experts.chains import Item, chains_of
from operad.server.studio.experts.judges import judges_of

OPERATOR, EVALUATOR, EXPERT, LEADER = "operator", "evaluator", "expert", "leader"

_NOT_SHOWN = frozenset({"workflow", "evaluator", "name"})
_WAYS = "The ways on from it, of which it takes one; a chain names the one that it follows."
_OF_EXPERT = ("max_rounds", "model", "reasoner", "memory", "limits", "budget", "policy")


class Part(NamedTuple):
    """A node, and the place in the file of what it is.

    Attributes:
        spec: The node.
        path: The place; None where an edit has no place.
        expert: Place of the expert that it belongs to.
        name: Name in its expert.
    """

    spec: NodeSpec
    path: tuple[Step, ...] | None
    expert: int = -1
    name: str = ""


def graph_of(data: bytes, path: Path) -> NodeGraph:
    """Return the operators of all experts, with the edges between them; evaluators come after the tails.

    Raises:
        InvalidError: The file is not valid; every issue is listed.
    """
    configuration, parts, edges = read_parts(data, path)
    name = configuration.spec.app.name or path.stem
    return NodeGraph([each.spec for each in parts], edges, name=name)


def read_parts(data: bytes, path: Path) -> tuple[Configuration, list[Part], list[Edge]]:
    """Return a file of experts, its parts, and the edges between them."""
    text = data.decode("utf-8-sig", "replace")
    configuration = preview_text(text, path.name, path.parent)
    parts: list[Part] = []
    edges: list[Edge] = []
    found = _places(text, path.name)
    raw = parse_document(text, path.name)
    name_operators(raw)
    name_functions(raw)
    graphs = {name: workflow.graph() for name, workflow in configuration.workflows.items()}
    taken = Counter([LEADER, *graphs, *(key for graph in graphs.values() for key in _keys(graph))])
    lead = configuration.spec.leader
    if lead:
        parts.append(Part(NodeSpec(LEADER, LEADER, _fields_of_leader(lead)), ("leader",)))
    for number, expert in enumerate(configuration.spec.experts):
        name = expert.profile.name
        fields = _fields_of_expert(expert, expert.profile) | _links(raw, number)
        parts.append(Part(NodeSpec(name, EXPERT, fields), ("experts", number), number, name))
        edges += [Edge(LEADER, name)] if lead else []
        inner, between = _of_expert(configuration, number, taken, found)
        parts += inner
        edges += between
    return configuration, parts, edges


def _keys(graph: WorkflowGraph) -> list[str]:
    return [*graph.operators, *(evaluator.get_id() for evaluator in graph.evaluators)]


def _of_expert(
    configuration: Configuration,
    number: int,
    taken: Mapping[str, int],
    found: Mapping[str, tuple[tuple[Step, ...], dict[str, Any]]],
) -> tuple[list[Part], list[Edge]]:
    name = configuration.spec.experts[number].profile.name
    graph = configuration.workflows[name].graph()
    ids = {key: key if taken[key] == 1 else f"{name}/{key}" for key in _keys(graph)}
    parts: list[Part] = []
    edges: list[Edge] = []
    for key in graph.operators:
        path, fields = found.get(key, (None, dict[str, Any]()))
        parts.append(Part(NodeSpec(ids[key], OPERATOR, fields, name), path, number, key))
        for earlier, ports in graph.before[key].items():
            declared = list(graph.operators[earlier].ports) if earlier in graph.operators else []
            numbers = [declared.index(port) for port in ports if port in declared] or [0]
            edges += [Edge(ids[earlier], ids[key], number) for number in numbers]
    followed = {earlier for before in graph.before.values() for earlier in before}
    for evaluator in graph.evaluators:
        key = evaluator.get_id()
        path, fields = found.get(key, (None, dict[str, Any]()))
        parts.append(Part(NodeSpec(ids[key], EVALUATOR, fields, name), path, number, key))
        edges += [Edge(ids[tail], ids[key]) for tail in graph.operators if tail not in followed]
    return parts, edges


def _places(text: str, name: str) -> dict[str, tuple[tuple[Step, ...], dict[str, Any]]]:
    """The place and the fields of each operator, by its name."""
    document = parse_document(text, name)
    name_operators(document)
    name_functions(document)
    found: dict[str, tuple[tuple[Step, ...], dict[str, Any]]] = {}
    for _, path, value in places(document.data):
        if isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            shown = {key: _shown(each) for key, each in fields.items() if key not in _NOT_SHOWN}
            found.setdefault(str(fields.get("name")), (tuple(path), shown))
    return found


def _shown(value: Any) -> Any:
    """A field for the form: actions and tools by their names."""
    if isinstance(value, list):
        return [_shown(each) for each in cast("list[Any]", value)]
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        if "name" in fields and ("tools" in fields or "module_path" in fields or "mcp_transport_config" in fields):
            return str(fields["name"])
    return plain(value)


def _fields_of_expert(expert: WorkflowLikeSpec, profile: Any) -> dict[str, Any]:
    said = expert.model_dump(mode="json", exclude_unset=True, by_alias=True)
    kept = {name: said[name] for name in _OF_EXPERT if name in said}
    return {"profile": profile.model_dump(mode="json"), "max_rounds": expert.max_rounds, **kept}


def _fields_of_leader(lead: LeaderSpec) -> dict[str, Any]:
    said = lead.model_dump(mode="json", exclude_unset=True, by_alias=True)
    return {name: value for name, value in said.items() if name != "actions"}


def _links(document: Document, number: int) -> dict[str, Any]:
    """The chains of an expert by the names of operators, and its evaluators by theirs."""
    chains = [[_link(item) for item in chain] for chain in chains_of(document.data, number)]
    judges = judges_of(document.data, number)
    return {"workflow": chains, **({"evaluator": judges} if judges else {})}


def _link(item: Item) -> Any:
    return item.name if item.port is None else {"operator": item.name, "port": item.port}


def _mappings(data: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    return [each for each in list_of(data.get(key)) if isinstance(each, dict)]


def schemas(data: bytes, path: Path) -> dict[str, dict[str, Any]]:
    """Return the JSON Schemas of the fields that a form can set, by the type of node.

    Args:
        data: The file, whose tools, actions and operators can be chosen.
        path: Its place.
    """
    document = parse_document(data.decode("utf-8-sig", "replace"), path.name)
    name_operators(document)
    name_functions(document)
    said = OperatorSpec.model_json_schema()
    whole = said if "properties" in said else said["$defs"]["OperatorSpec"]  # where it refers to itself
    plain_types = {"string", "number", "integer", "boolean"}
    fields = {
        name: dict(part) | ({"x-editor": "prompt"} if name == "instruction" else {"x-advanced": True})
        for name, part in whole["properties"].items()
        if part.get("type") in plain_types and name not in _NOT_SHOWN
    }
    for key in ("tools", "actions"):
        if known := [str(each["name"]) for each in _mappings(document.data, key) if "name" in each]:
            fields[key] = {"type": "array", "items": {"enum": known}, "default": []}
    ways = {"type": "string", "default": "other"}
    fields["ports"] = {"type": "array", "items": ways, "default": [], "x-advanced": True, "description": _WAYS}
    operator = {"type": "object", "properties": fields, "required": ["instruction"]}
    rounds = {"type": "integer", "minimum": 1, "title": "Max rounds"}
    profile = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "desc": {"type": "string", "title": "Description", "x-editor": "prompt"},
        },
    }
    steps = {"title": "Operator", "enum": _steps(document)}
    chain = {"type": "array", "items": steps, "title": "Chain", "default": steps["enum"][:1]}
    linked: dict[str, Any] = {"workflow": {"type": "array", "items": chain, "title": "Chains"}}
    if judges := _judges(document):
        judge = {"title": "Evaluator", "enum": judges}
        linked["evaluator"] = {"type": "array", "items": judge, "title": "Evaluators", "default": []}
    expert = {
        "type": "object",
        "properties": {"profile": profile, **linked, "max_rounds": rounds},
        "required": ["profile", "workflow", "max_rounds"],
    }
    return {OPERATOR: operator, EVALUATOR: operator, EXPERT: expert, LEADER: _of_leader(profile)}


def _of_leader(profile: Mapping[str, Any]) -> dict[str, Any]:
    counts = {
        name: {"type": "integer", "minimum": 1, "default": field.default, "description": field.description}
        for name, field in LeaderSpec.model_fields.items()
        if name in ("max_splits", "life_cycles", "max_depth")
    }
    return {"type": "object", "properties": {"profile": profile, **counts}, "required": ["profile"]}


def _judges(document: Document) -> list[str]:
    """The operators that can be evaluators: those in no chain first, and those that are written in place."""
    experts = range(len(list_of(document.data["experts"])))
    judges = [name for number in experts for name in judges_of(document.data, number)]
    steps = {item.name for number in experts for chain in chains_of(document.data, number) for item in chain}
    defined = [str(each["name"]) for each in _mappings(document.data, "operators")]
    free = sorted((name for name in defined if name not in judges), key=lambda name: name in steps)
    return [*dict.fromkeys([*free, *judges])]


def _steps(document: Document) -> list[Any]:
    """The operators of a file, and each of their ports."""
    steps: list[Any] = []
    for what, _, value in places(document.data):
        if isinstance(value, dict) and what != EVALUATOR:
            fields = cast("dict[str, Any]", value)
            name = str(fields["name"])
            ports = [{"operator": name, "port": port} for port in ports_of(fields)]
            steps += [each for each in (name, *ports) if each not in steps]
    return steps


def ports_of(params: Mapping[str, Any]) -> Iterator[str]:
    """Yield the ports of an operator."""
    for each in list_of(params.get("ports")):
        yield str(each)


def connectable(graph: NodeGraph, source: str) -> dict[str, str | None]:
    """Return for each other part why no edge can lead there from an operator; None where one can.

    Raises:
        InputError: There is no such operator.
    """
    spec = graph.by_id.get(source)
    if spec is None or spec.type != OPERATOR:
        raise InputError(f"there is no operator {source!r}{did_you_mean(source, graph.by_id)}")
    before = _before(graph, source)
    reasons: dict[str, str | None] = {}
    for other in graph.nodes:
        if other.type == EVALUATOR:
            reasons[other.id] = f"{other.id!r} judges what comes last; it needs no edge"
        elif other.type != OPERATOR:
            reasons[other.id] = f"{other.id!r} is not an operator; edges lead between operators"
        elif other.parent != spec.parent:
            reasons[other.id] = f"{other.id!r} belongs to {other.parent!r}; edges stay within one expert"
        elif other.id in before:
            reasons[other.id] = f"{other.id!r} leads to {source!r} already; this edge would close a cycle"
        elif other.id != source:
            reasons[other.id] = None
    return reasons


def _before(graph: NodeGraph, node_id: str) -> set[str]:
    """The nodes from which edges lead to a node."""
    found, open_ = set[str](), [node_id]
    while open_:
        here = open_.pop()
        new = {each.source for each in graph.edges if each.target == here} - found
        found |= new
        open_ += new
    return found
