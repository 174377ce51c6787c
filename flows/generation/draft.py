"""A plan and the parameters of its nodes → a workflow. Nodes that the plan keeps are the very same."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from operad.flows.check import Checker, NodeType
from operad.flows.edit.nodes import ReplaceText
from operad.flows.edit.order import edges_in_order
from operad.flows.formats.shapes import fields_of
from operad.flows.generation.drafting import params_of
from operad.flows.generation.plan import DECLARES, After, Plan, PlannedNode
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators.node import references_in
from operad.operators.node_params import readable
from operad.operators.nodes import NODE_TYPES
from operad.operators.variables import VariableType
from operad.runtime.values.errors import InvalidError
from operad.runtime.values.schema import Schema

GIVEN_BY_PLAN: Mapping[str, str] = {"start": "variables", "code": "outputs"}
"""The parameter of a type that says what its plan says already: the variables that it names, with their types."""


def variables_before(plan: Plan, base: NodeGraph, types: Mapping[str, NodeType]) -> Mapping[str, list[str]]:
    """The variables that each planned node may read, as ``id.variable``: of all that it follows, however far back.

    Args:
        plan: The plan.
        base: The workflow that is there.
        types: The node types by name.
    """
    checker = Checker(base, types)
    gives: dict[str, list[str]] = {each: list(checker.outputs.get(each, {})) for each in base.by_id}
    for node in plan.nodes:
        if node.change != "keep":
            gives[node.id] = _gives(node, types)
    follows = _follows(plan, base)
    parents = {spec.id: spec.parent for spec in base.nodes}
    parents |= {node.id: node.inside for node in plan.nodes if node.inside or node.change == "add"}
    inner = {node.id: ["item", "index"] for node in plan.nodes if node.type == "iteration"}
    inner |= {each: list(checker.inner.get(each, ())) or inner.get(each, []) for each in base.by_id}
    read: dict[str, list[str]] = {}
    for node in plan.nodes:
        open_, seen = [node.id], {node.id}
        variables: list[str] = []
        while open_:
            here = open_.pop(0)
            around = parents.get(here, "")
            if around:
                variables += [f"{around}.{name}" for name in inner.get(around, [])]
            for earlier in [*follows.get(here, []), *([around] if around else [])]:
                if earlier not in seen:
                    seen.add(earlier)
                    open_.append(earlier)
                    variables += [f"{earlier}.{name}" for name in gives.get(earlier, []) if earlier != around]
        if node.type == "iteration":  # whose result is that of a node inside
            inside = [each.id for each in plan.nodes if each.inside == node.id]
            inside += [spec.id for spec in base.nodes if spec.parent == node.id and spec.id not in plan.drop]
            variables += [f"{each}.{name}" for each in dict.fromkeys(inside) for name in gives.get(each, [])]
        read[node.id] = list(dict.fromkeys(variables))
    return read


def variable_types(plan: Plan, base: NodeGraph, types: Mapping[str, NodeType]) -> Mapping[str, str]:
    """The types of variables that planned nodes may read, by ``id.variable``, as far as they are known.

    Args:
        plan: The plan.
        base: The workflow that is there.
        types: The node types by name.
    """
    checker = Checker(base, types)
    kinds = {f"{node}.{name}": kind for node, outputs in checker.outputs.items() for name, kind in outputs.items()}
    known = {name: kind.value for name, kind in kinds.items()}
    for node in plan.nodes:
        if node.change == "keep":
            continue
        if node.type in DECLARES:
            known |= {f"{node.id}.{each.name}": each.type for each in node.gives}
        else:
            known |= {f"{node.id}.{name}": kind.value for name, kind in _outputs(node, types).items()}
    return {name: kind for name, kind in known.items() if kind != VariableType.ANY.value}


def unread(graph: NodeGraph, types: Mapping[str, NodeType] = NODE_TYPES) -> list[NodeSpec]:
    """The nodes that give something which no node reads: work for nothing, as far as the workflow tells.

    Args:
        graph: The workflow.
        types: The node types by name.
    """
    checker = Checker(graph, types)
    read = {
        each.selector.node
        for spec in graph.nodes
        if spec.type in types
        for each in references_in(types[spec.type].params_type, readable(types[spec.type].params_type, spec.params))
    }
    return [
        spec
        for spec in graph.nodes
        if spec.id not in read
        and spec.type in types
        and spec.type != "start"
        and not types[spec.type].ways
        and not types[spec.type].ends
        and not _acts(spec)
        and checker.outputs.get(spec.id)
    ]


def _acts(spec: NodeSpec) -> bool:
    """Return whether a node may be there for its effect outside of the workflow, and not for its result."""
    return spec.type in ("tool", "agent") or (
        spec.type == "request" and fields_of(spec.params).get("method", "get") != "get"
    )


def nodes_schema(schemas: Mapping[str, Schema]) -> Schema:
    """The JSON Schema of an answer with the parameters of nodes: reasons come first.

    Args:
        schemas: That of the parameters of each node, by its id.
    """
    nodes: Schema = {
        "type": "object",
        "properties": dict(schemas),
        "required": [each for each, schema in schemas.items() if schema.get("required")],
        "additionalProperties": False,
    }
    reasoning = {"type": "string", "description": "What each node must do with what it reads, before it is written."}
    return {
        "type": "object",
        "properties": {"reasoning": reasoning, "nodes": nodes},
        "required": ["reasoning", "nodes"],
        "additionalProperties": False,
    }


def drafted_graph(
    plan: Plan, params: Mapping[str, Mapping[str, Any]], base: NodeGraph, types: Mapping[str, NodeType]
) -> NodeGraph:
    """The workflow that a plan and what was drafted for it come to; it need not be right.

    Args:
        plan: The plan, without faults.
        params: The drafted parameters of its new and changed nodes, by id.
        base: The workflow that is there.
        types: The node types by name.
    """
    planned = {node.id: node for node in plan.nodes}
    ids = {*planned, *base.by_id}
    base, _ = with_replaced(plan, base, types)
    kept = [_node(planned.get(spec.id), params, spec, types, ids) for spec in base.nodes if spec.id not in plan.drop]
    there = {spec.id for spec in kept}
    new = [_node(node, params, None, types, ids) for node in plan.nodes if node.id not in there]
    graph = NodeGraph([*kept, *_starts([*kept, *new]), *new])
    nodes = (grouped(graph) if grouped(base) is base else graph).nodes
    made = with_data_edges(NodeGraph(nodes, _edges(plan, base, nodes), base.name, base.extra), types)
    return edges_in_order(base, made)


def grouped(graph: NodeGraph) -> NodeGraph:
    """The workflow with each node right behind the one that it runs inside of, and its own inner nodes behind it.

    Args:
        graph: The workflow; the order is kept otherwise.
    """
    inside: dict[str, list[NodeSpec]] = {}
    for spec in graph.nodes:
        inside.setdefault(spec.parent if spec.parent in graph.by_id else "", []).append(spec)
    nodes: list[NodeSpec] = []
    open_ = [*reversed(inside.get("", []))]
    while open_:
        spec = open_.pop()
        nodes.append(spec)
        open_ += reversed(inside.pop(spec.id, []))
    same = len(nodes) != len(graph.nodes) or all(one is other for one, other in zip(nodes, graph.nodes, strict=True))
    return graph if same else replace(graph, nodes=nodes)  # those inside each other in a ring are left to the check


def with_kept(graph: NodeGraph, base: NodeGraph, plan: Plan) -> NodeGraph:
    """A workflow that a model wrote as a whole, with the nodes that its plan leaves as they are.

    Args:
        graph: What the model wrote.
        base: The workflow that is there.
        plan: The plan.
    """
    kept = {spec.id: spec for spec in base.nodes if spec.id not in (*plan.open, *plan.drop)}
    left_out = [spec for spec in kept.values() if spec.id not in graph.by_id]
    nodes = [*(kept.get(spec.id, spec) for spec in graph.nodes), *left_out]
    ids, lost = {spec.id for spec in nodes}, {spec.id for spec in left_out}
    edges = [edge for edge in base.edges if {edge.source, edge.target} <= ids and {edge.source, edge.target} & lost]
    return NodeGraph(nodes, [*graph.edges, *edges], base.name, base.extra)


def with_data_edges(graph: NodeGraph, types: Mapping[str, NodeType]) -> NodeGraph:
    """The workflow with an edge from each node to those that read it, where no way leads there and none leads back.

    Args:
        graph: The workflow.
        types: The node types by name.
    """
    edges = list(graph.edges)
    for spec in graph.nodes:
        for source in _read_by(spec, graph, types):
            if not _leads(edges, source, spec.id) and not _leads(edges, spec.id, source):
                edges.append(Edge(source, spec.id))
    return graph if len(edges) == len(graph.edges) else replace(graph, edges=edges)


def _gives(node: PlannedNode, types: Mapping[str, NodeType]) -> list[str]:
    if node.type in DECLARES:
        return [each.name for each in node.gives]
    return list(_outputs(node, types))


def _outputs(node: PlannedNode, types: Mapping[str, NodeType]) -> Mapping[str, VariableType]:
    declared = types[node.type]
    try:
        return declared(node.id, declared.example).outputs(lambda _: VariableType.ANY)
    except InvalidError:  # a type whose example is not whole
        return {}


def _read_by(spec: NodeSpec, graph: NodeGraph, types: Mapping[str, NodeType]) -> Iterator[str]:
    """Yield the nodes of its level that a node reads, as far as no ports lead on from them."""
    if spec.type not in types:
        return
    params_type = types[spec.type].params_type
    for reference in references_in(params_type, readable(params_type, spec.params)):
        source = graph.by_id.get(reference.selector.node)
        ways = source is not None and source.type in types and types[source.type].ways
        if source is not None and source.parent == spec.parent and not ways:
            yield source.id


def _leads(edges: Sequence[Edge], source: str, target: str) -> bool:
    open_, seen = [source], {source}
    while open_:
        here = open_.pop()
        if here == target:
            return True
        for edge in edges:
            if edge.source == here and edge.target not in seen:
                seen.add(edge.target)
                open_.append(edge.target)
    return False


def _follows(plan: Plan, base: NodeGraph) -> Mapping[str, list[str]]:
    """Return the direct predecessors of each node, as planned, or as they are."""
    follows: dict[str, list[str]] = {}
    for edge in base.edges:
        follows.setdefault(edge.target, []).append(edge.source)
    for node in plan.nodes:
        if node.after or node.change == "add":
            follows[node.id] = [each.node for each in node.after]
    return follows


def _node(
    planned: PlannedNode | None,
    params: Mapping[str, Mapping[str, Any]],
    spec: NodeSpec | None,
    types: Mapping[str, NodeType],
    ids: Collection[str],
) -> NodeSpec:
    if planned is None or (planned.change == "keep" and spec is not None):
        assert spec is not None  # noqa: S101 - a node is planned, or there
        return spec
    said = params_of(types[planned.type], {**(planned.params or {}), **params.get(planned.id, {})}, ids)
    declares = [[each.name, each.type] for each in planned.gives]
    if declares and (key := GIVEN_BY_PLAN.get(planned.type)) and key not in said:
        said[key] = declares
    if spec is not None:
        return spec if said == spec.params or not said else replace(spec, params={**fields_of(spec.params), **said})
    return NodeSpec(planned.id, planned.type, said, planned.inside)


def with_replaced(plan: Plan, base: NodeGraph, types: Mapping[str, NodeType]) -> tuple[NodeGraph, list[str]]:
    """The workflow that is there with the small changes of a plan, and those that cannot be done, in words.

    Args:
        plan: The plan.
        base: The workflow that is there.
        types: The node types by name.
    """
    faults: list[str] = []
    for node in plan.nodes:
        for each in node.replace if node.id in base.by_id else ():
            if not each.old or not each.param:
                faults.append(f"node {node.id!r}, replace: `param` and `old` must say something")
                continue
            operation = ReplaceText(node=node.id, path=each.param, old=each.old, new=each.new)
            found = list(operation.faults(base, types))
            faults += [f"node {node.id!r}, replace: {fault.what}" for fault in found]
            base = base if found else operation.done(base, types)
    return base, faults


def _starts(nodes: Sequence[NodeSpec]) -> Iterator[NodeSpec]:
    """Yield the starts of iterations that were planned without one."""
    for node in nodes:
        if node.type == "iteration" and not any(
            each.parent == node.id and each.type == "iteration-start" for each in nodes
        ):
            yield NodeSpec(f"{node.id}-1" if f"{node.id}-1" not in {each.id for each in nodes} else f"{node.id}-0",
                           "iteration-start", {}, node.id)  # fmt: skip


def _edges(plan: Plan, base: NodeGraph, nodes: Sequence[NodeSpec]) -> list[Edge]:
    by_id = {node.id: node for node in nodes}
    led_anew = {node.id: node.after for node in plan.nodes if node.after or node.change == "add"}
    edges: list[Edge] = [
        edge
        for edge in base.edges
        if edge.source in by_id
        and edge.target in by_id
        and (edge.target not in led_anew or After(edge.source, edge.port) in led_anew[edge.target])
    ]
    there = {(edge.source, edge.target, edge.port) for edge in edges}
    for target, after in led_anew.items():
        new = (each for each in dict.fromkeys(after) if (each.node, target, each.port) not in there)
        edges += [Edge(each.node, target, each.port) for each in new]
    for node in nodes:
        begins = next((each for each in nodes if each.parent == node.id and each.type == "iteration-start"), None)
        inside = [each for each in nodes if each.parent == node.id and each is not begins]
        heads = [each for each in inside if not any(edge.target == each.id for edge in edges)]
        edges += [Edge(begins.id, each.id) for each in heads if begins is not None]
    return edges
