"""Workflow of a plan; nodes that the plan keeps stay the same objects."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from operad.flows.check import Checker, NodeType
from operad.flows.edit.nodes import ReplaceText, SetParam
from operad.flows.edit.operation import Operation, reads, variables_read
from operad.flows.edit.order import edges_in_order
from operad.flows.edit.paths import PathError, Step, path_of, steps_of, value_at
from operad.flows.edit.variables import RenameVariable
from operad.flows.formats.shapes import fields_of
from operad.flows.generation.cut_texts import texts_at
from operad.flows.generation.drafting import params_of
from operad.flows.generation.plan import (
    After,
    Plan,
    PlannedNode,
    Replaced,
    normal_plan,
    read_plan,
    unknown_neighbours,
)
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators.nodes import NODE_TYPES
from operad.operators.nodes.flow import IfElse
from operad.runtime.graph.schedule import reachable
from operad.runtime.values.errors import InvalidError


def unread(graph: NodeGraph, types: Mapping[str, NodeType] = NODE_TYPES) -> list[NodeSpec]:
    """Return the nodes with outputs that no node reads, without those that may act outside of the workflow.

    Args:
        graph: The workflow.
        types: Node types by name.
    """
    checker = Checker(graph, types)
    read = {selector.node for spec in graph.nodes for selector in variables_read(spec, types)}
    return [
        spec
        for spec in graph.nodes
        if spec.id not in read
        and spec.type in types
        and spec.type != "start"
        and not types[spec.type].ports_text
        and not types[spec.type].ends
        and not _has_effect(spec)
        and not (spec.id in checker.nodes and checker.nodes[spec.id].assigns)
        and checker.outputs.get(spec.id)
    ]


def with_failing_requests(graph: NodeGraph, base: NodeGraph, types: Mapping[str, NodeType] = NODE_TYPES) -> NodeGraph:
    """Return the workflow with new requests that end a run on a status of 400 or more, unless a node reads the status.

    Args:
        graph: The workflow.
        base: The existing workflow, whose nodes stay as they are.
        types: Node types by name.
    """
    selectors = (selector for spec in graph.nodes for selector in variables_read(spec, types))
    read = {selector.node for selector in selectors if selector.variable == "status_code"}

    def failing(spec: NodeSpec) -> NodeSpec:
        params = fields_of(spec.params)
        if spec.type != "request" or spec.id in read or spec.id in base.by_id or params.get("failure"):
            return spec
        return replace(spec, params={**params, "failure": {"then": "end"}})

    nodes = [failing(spec) for spec in graph.nodes]
    return graph if nodes == list(graph.nodes) else replace(graph, nodes=nodes)


def _has_effect(spec: NodeSpec) -> bool:
    """Return whether a node may have an effect outside of the workflow, such as a call of a tool."""
    return spec.type in ("tool", "agent") or (
        spec.type == "request" and fields_of(spec.params).get("method", "get") != "get"
    )


def plan_of(answer: Mapping[str, Any], base: NodeGraph, types: Mapping[str, NodeType]) -> dict[str, Any]:
    """Return the JSON of a plan in its normal form, as `normal_plan` does, with all its faults.

    Args:
        answer: The answer of a model.
        base: The existing workflow.
        types: Node types by name.
    """
    plan = normal_plan(answer, base, types)
    read = read_plan(plan)
    plan["faults"] += [*unknown_neighbours(read, base), *apply_replacements(read, base, types)[1]]
    return plan


def drafted_graph(plan: Plan, base: NodeGraph, types: Mapping[str, NodeType]) -> NodeGraph:
    """Return the workflow of a plan, which may have issues.

    Args:
        plan: The plan; what its faults concern is left out.
        base: The existing workflow.
        types: Node types by name.
    """
    planned = {node.id: node for node in plan.nodes}
    ids = {*planned, *base.by_id}
    base, _ = apply_replacements(plan, base, types)
    kept = [_drafted_node(planned.get(spec.id), spec, types, ids) for spec in base.nodes if spec.id not in plan.drop]
    kept_ids = {spec.id for spec in kept}
    new = [_drafted_node(node, None, types, ids) for node in plan.nodes if node.id not in kept_ids]
    graph = NodeGraph([*kept, *_missing_starts([*kept, *new], types), *new])
    nodes = (grouped(graph) if grouped(base) is base else graph).nodes
    samples = {**base.samples, **plan.samples}
    drafted = NodeGraph(
        nodes, _edges(plan, base, nodes, types), base.name, base.extra, samples=samples, sticky_notes=base.sticky_notes
    )
    return edges_in_order(base, with_data_edges(drafted, types))


def grouped(graph: NodeGraph) -> NodeGraph:
    """Return the workflow with the nodes inside a container right after it in the list.

    Args:
        graph: The workflow; nodes otherwise keep their order.
    """
    inside: dict[str, list[NodeSpec]] = {}
    for spec in graph.nodes:
        inside.setdefault(spec.parent if spec.parent in graph.by_id else "", []).append(spec)
    nodes: list[NodeSpec] = []
    to_visit = [*reversed(inside.get("", []))]
    while to_visit:
        spec = to_visit.pop()
        nodes.append(spec)
        to_visit += reversed(inside.pop(spec.id, []))
    is_unchanged = len(nodes) != len(graph.nodes) or all(
        node is before for node, before in zip(nodes, graph.nodes, strict=True)
    )
    return graph if is_unchanged else replace(graph, nodes=nodes)  # if containers form a cycle, the check reports it


def with_data_edges(graph: NodeGraph, types: Mapping[str, NodeType]) -> NodeGraph:
    """Return the workflow with an edge from each node to each of its readers that no path connects with it.

    Args:
        graph: The workflow.
        types: Node types by name.
    """
    edges = list(graph.edges)
    for spec in graph.nodes:
        for source in _sources_read(spec, graph, types):
            if not _has_path(edges, source, spec.id) and not _has_path(edges, spec.id, source):
                edges.append(Edge(source, spec.id))
    return graph if len(edges) == len(graph.edges) else replace(graph, edges=edges)


def _sources_read(spec: NodeSpec, graph: NodeGraph, types: Mapping[str, NodeType]) -> Iterator[str]:
    """Yield the nodes in the same container that a node reads, without nodes that choose a port."""
    for source in filter(None, map(graph.by_id.get, reads(graph, spec, types))):
        if source.parent == spec.parent and not (source.type in types and types[source.type].ports_text):
            yield source.id


def _has_path(edges: Sequence[Edge], source: str, target: str) -> bool:
    return target in reachable([source], lambda node_id: [edge.target for edge in edges if edge.source == node_id])


def _drafted_node(
    planned: PlannedNode | None,
    existing: NodeSpec | None,
    types: Mapping[str, NodeType],
    ids: Collection[str],
) -> NodeSpec:
    """Return the node of a plan with its parameters in declared form, or the existing node if it is kept."""
    if planned is None or (planned.change == "keep" and existing is not None):
        assert existing is not None  # noqa: S101 - a node is planned or exists
        return existing
    drafted = dict(planned.params or {})
    # the check finds a type that is unknown
    written = params_of(types[planned.type], drafted, ids) if planned.type in types else drafted
    params = {**fields_of(existing.params), **written} if existing is not None else written
    if planned.type == "llm" and "user" in params:
        params.setdefault("system", "")  # which models often leave out where it is empty
    if existing is None:
        return NodeSpec(planned.id, planned.type, params, planned.inside)
    params = {name: value for name, value in params.items() if drafted.get(name, value) is not None}
    return existing if params == existing.params else replace(existing, params=params)


def apply_replacements(plan: Plan, base: NodeGraph, types: Mapping[str, NodeType]) -> tuple[NodeGraph, list[str]]:
    """Return the existing workflow with the renamed variables and replaced texts of a plan, and the faults of these.

    Args:
        plan: The plan.
        base: The existing workflow.
        types: Node types by name.
    """
    faults: list[str] = []

    def done(operation: Operation | None, node_id: str, what: str) -> NodeGraph:
        found = [fault.what for fault in operation.faults(base, types)] if operation else ["`old` is empty"]
        faults.extend(f"[plan] {node_id}: {what}: {fault}" for fault in found)
        return operation.apply(base, types) if operation and not found else base

    for variable, new in plan.rename.items():
        node_id, _, old = variable.strip("{}# ").partition(".")
        try:
            operation = RenameVariable(node=node_id, old=old, new=new)
        except ValidationError:
            faults.append(f'[plan] {node_id}: `rename` has {{"1.old": "new"}}, not {variable!r:.60}: {new!r:.60}')
        else:
            base = done(operation, node_id, f"{old!r} was not renamed")
    for node in plan.nodes:
        for replacement in node.replace if node.id in base.by_id else ():
            base = done(_operation(replacement, base.by_id[node.id]), node.id, "the text was not replaced")
    return base, faults


def _operation(replaced: Replaced, node: NodeSpec) -> Operation | None:
    """Return the operation of a replacement: in the only text that has the old words, or at the end of a text; or None.

    A path may lead to a list or an object, such as ``parameters``, whose texts are then searched; an empty path, to all
    parameters.
    """
    path = replaced.param.removeprefix("params.").removeprefix("params") or "params"
    steps: list[Step] = []
    holder: Any = None
    with suppress(PathError):  # the faults of the operation say so
        steps = [] if path == "params" else steps_of(path)
        holder = value_at(fields_of(node.params), steps)
    if isinstance(holder, str) and not replaced.old:
        gap = "" if not holder or holder[-1].isspace() or replaced.new[:1].isspace() else "\n"
        return SetParam(node=node.id, path=path, value=f"{holder}{gap}{replaced.new}")
    places = [place for place, text in texts_at(holder, steps) if replaced.old and replaced.old in text]
    path = path_of(places[0]) if len(places) == 1 else path
    return ReplaceText(node=node.id, path=path, old=replaced.old, new=replaced.new) if replaced.old else None


def _missing_starts(nodes: Sequence[NodeSpec], types: Mapping[str, NodeType]) -> Iterator[NodeSpec]:
    ids = {node.id for node in nodes}
    for node in nodes:
        if (start := _start_type(node, types)) and not _start_of(node, nodes, types):
            yield NodeSpec(f"{node.id}-1" if f"{node.id}-1" not in ids else f"{node.id}-0", start, {}, node.id)


def _start_type(node: NodeSpec, types: Mapping[str, NodeType]) -> str:
    """Return the type of the first node inside a node; empty if no nodes run inside it."""
    return types[node.type].body_starts_with if node.type in types else ""


def _start_of(node: NodeSpec, nodes: Sequence[NodeSpec], types: Mapping[str, NodeType]) -> NodeSpec | None:
    start = _start_type(node, types)
    return next((other for other in nodes if start and other.parent == node.id and other.type == start), None)


def _edges(plan: Plan, base: NodeGraph, nodes: Sequence[NodeSpec], types: Mapping[str, NodeType]) -> list[Edge]:
    """Return the planned edges, the existing edges that the plan keeps, and edges from the starts of containers."""
    by_id = {node.id: node for node in nodes}
    planned_predecessors = {
        node.id: node.predecessors for node in plan.nodes if node.predecessors or node.change == "add"
    }
    edges: list[Edge] = []
    for edge in base.edges:
        if edge.source not in by_id or edge.target not in by_id:
            continue
        if edge.target not in planned_predecessors:
            edges += _at_its_branch(edge, base.by_id[edge.source], by_id[edge.source], types)
        elif After(edge.source, edge.port) in planned_predecessors[edge.target]:
            edges.append(edge)
    kept_edges = {(edge.source, edge.target, edge.port) for edge in edges}
    for target, after in planned_predecessors.items():
        new = (
            predecessor
            for predecessor in dict.fromkeys(after)
            if (predecessor.node, target, predecessor.port) not in kept_edges
        )
        edges += [Edge(predecessor.node, target, predecessor.port) for predecessor in new]
    for node in nodes:
        start = _start_of(node, nodes, types)
        inside = [other for other in nodes if other.parent == node.id and other is not start]
        first_nodes = [inner for inner in inside if not any(edge.target == inner.id for edge in edges)]
        edges += [Edge(start.id, first_node.id) for first_node in first_nodes if start is not None]
    return edges


def _at_its_branch(edge: Edge, before: NodeSpec, after: NodeSpec, types: Mapping[str, NodeType]) -> Iterator[Edge]:
    """Yield an edge that the plan does not mention, from the port that its branch now has; nothing if that is gone.

    A branch that is written anew in its place is the same branch.
    """
    old, new = ([], []) if before.params == after.params else (_branches(before, types), _branches(after, types))
    if edge.port >= len(old) or not new:
        yield edge
    elif old[edge.port] in new:
        yield replace(edge, port=new.index(old[edge.port]))
    elif edge.port < len(new) and new[edge.port] not in old:
        yield edge


def _branches(spec: NodeSpec, types: Mapping[str, NodeType]) -> list[str]:
    """Return a text for each port of a node: the conditions of a case, otherwise its name; empty if it is not valid."""
    try:
        node = types[spec.type](spec.id, spec.params)
    except (InvalidError, KeyError):  # which the check reports
        return []
    cases = [repr(case) for case in node.params.cases] if isinstance(node, IfElse) else []
    return [*cases, *list(node.ports)[len(cases) :]]
