"""Rules that give parameters their declared form: pairs, conditions, comparisons, aggregators; their meaning stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, cast

from operad.flows.edit.operation import free_id
from operad.flows.formats.shapes import list_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.flows.repair.references import as_selector
from operad.flows.repair.state import Proposal, State, params_of, with_each
from operad.flows.repair.walk import changed, fields_of, is_record, params_type_of
from operad.operators.conditions import fault_of, normal
from operad.operators.named_params import positional
from operad.operators.variables import Selector, Text, VariableType

T = VariableType


def pairs(state: State) -> Iterator[Proposal]:
    """Rewrite named values as ``[name, value]``: mappings as in YAML, and variables without a name of their own."""

    def to_pair(wanted: Any, given: Any) -> Any:
        match given:
            case [str() as variable, str() as node] if (
                is_record(wanted) and [*fields_of(wanted)] == ["name", "value"] and node in state.graph.by_id
            ):
                return [variable, [variable, node]]  # the variable keeps its name
            case _:
                return given

    def mend(node: NodeSpec) -> Any:
        params_type = params_type_of(node)
        return positional(params_type, changed(node, to_pair)) if params_type else node.params

    return with_each(state, mend, "named values are written [name, value]", "the format has them so")


def cases(state: State) -> Iterator[Proposal]:
    """Rewrite conditions whose variable has an attribute beside it or no node: ``[variable, node id]`` is meant."""

    def to_condition(given: Any, node: NodeSpec) -> Any:
        match given:
            case [[_, _] as selector, str() as attribute, str() as operator, value]:
                found = as_selector(selector, state.graph)
                return [[f"{found.variable}.{attribute}", found.node], operator, value] if found else given
            case [str() as variable, str() as operator, *value] if operator not in state.graph.by_id:
                name = variable.strip("{}# ")
                outputs_by_id = state.checker.outputs.items()
                holders = [each for each, outputs in outputs_by_id if name in outputs and each != node.id]
                return [[name, holders[0]], operator, *value] if len(holders) == 1 else cast("Any", given)
            case _:
                return given

    def mend(node: NodeSpec) -> Any:
        given = list_of(params_of(node).get("cases"))
        if node.type != "if-else" or not all(
            len(case) == 2 and isinstance(case[1], list) for case in map(list_of, given)
        ):
            return node.params
        mended = [[logic, [to_condition(each, node) for each in conditions]] for logic, conditions in given]
        return {**params_of(node), "cases": mended} if mended != given else node.params

    return with_each(state, mend, "cases are written [logic, [conditions]]", "the format has them so")


def comparisons(state: State) -> Iterator[Proposal]:
    """Replace comparisons of another type: ``=`` of a text, ``is`` of a number."""

    def mend(node: NodeSpec) -> Any:
        if node.type != "if-else" or state.known(node) is None:
            return node.params
        cases = [
            [logic, [_with_operator(state, condition) for condition in conditions]]
            for logic, conditions in list_of(node.params["cases"])
        ]
        return {**node.params, "cases": cases}

    why = "the variable's type has no other comparison that means it"
    return with_each(state, mend, "comparisons are those of the variables' types", why)


_TEXT_OPERATORS = {"=": "is", "≠": "is not", "equals": "is", "equal": "is", "not equals": "is not", "not in": "not contains",
                   "includes": "contains", "is empty": "empty", "is not empty": "not empty"}  # fmt: skip
_NUMBER_OPERATORS = {"is": "=", "is not": "≠", "equals": "=", "is empty": "empty", "is not empty": "not empty"}
_FILE_OPERATORS = {"not empty": "exists", "is not empty": "exists", "empty": "not exists", "is empty": "not exists"}


def _with_operator(state: State, condition: Any) -> Any:
    """Return a condition with the operator that the type of its variable has for the same comparison."""
    selector, operator, *value = condition
    kind = state.type_of(Selector(*selector))
    words = _NUMBER_OPERATORS if kind is T.NUMBER else _FILE_OPERATORS if kind is T.FILE else _TEXT_OPERATORS
    if kind is None or not fault_of(operator, value[0] if value else None, kind):
        return condition
    meant = words.get(normal(operator.strip().lower()))
    return [selector, meant, *value] if meant else condition


def aggregator_groups(state: State) -> Iterator[Proposal]:
    """Rewrite an aggregator with named groups as one list, or as one aggregator for each group that nodes read."""
    for node in state.graph.nodes:
        if node.type == "variable-aggregator" and (groups := _groups(node, state.graph)):
            read = _read_groups(node, groups, state.graph)
            has_long_group = any(len(group) > 1 for group in groups.values())
            several = len(groups) > 1 and (set(read.values()) & groups.keys() or has_long_group)
            written = groups if several else {"": [each for group in groups.values() for each in group]}
            graph = _as_aggregators(state.graph, node, written, read)
            what = "named groups are written as " + (f"{len(groups)} aggregators" if several else "one list")
            yield Proposal(node.id, what, "an aggregator has a list of variables, and one output", graph)


def _groups(node: NodeSpec, graph: NodeGraph) -> dict[str, list[Selector]]:
    """Return the variables by the name of their group; empty if there are no groups, or a variable names no node."""
    params = params_of(node)
    given = next((params[key] for key in ("variables", "groups", "group") if params.get(key)), None)
    groups: dict[str, list[Selector]] = {}
    has_groups = False
    for item in list_of(given):
        match item:
            case {"group_name": str() as name, "variables": [*inner]}:
                members = list_of(inner)
            case [str() as name, [[*_], *_] as inner]:
                members = cast("list[Any]", inner)
            case [str() as name, [_, _] as inner]:
                members = [cast("Any", inner)]
            case _:
                found = as_selector(item, graph)
                if not found:
                    return {}
                groups.setdefault("", []).append(found)
                continue
        selectors = [as_selector(member, graph) for member in members]
        if not all(selectors):
            return {}
        has_groups = True
        groups.setdefault(name, []).extend(selector for selector in selectors if selector)
    return groups if has_groups else {}


def _read_groups(node: NodeSpec, groups: Mapping[str, Any], graph: NodeGraph) -> dict[tuple[str, str], str]:
    """Return the group that each reader of the aggregator means, by the reader's name for the variable and by the variable."""
    read: dict[tuple[str, str], str] = {}

    def record(alias: str, variable: str) -> Selector:
        near = [close for said in (variable, alias) for close in get_close_matches(said, groups, n=1, cutoff=0.7)]
        read[alias, variable] = next((name for name in (variable, alias) if name in groups), next(iter(near), ""))
        return Selector(variable, node.id)

    for other in graph.nodes:
        _with_reads(other.params, node.id, record)
    return read


def _with_reads(value: Any, node_id: str, change: Callable[[str, str], Selector], alias: str = "") -> Any:
    """Return a value with each variable of a node that it names replaced.

    Args:
        value: Parameters, or a part of them.
        node_id: Id of the node.
        change: Function of the name that the value gives to the variable, which may be empty, and of the variable.
        alias: The name that the value stands beside.
    """
    match value:
        case [str() as variable, str() as node] if node == node_id:
            return list(change(alias, variable))
        case [str() as name, [*inner]]:
            return [name, _with_reads(cast("Any", inner), node_id, change, name)]
        case [*items]:
            return [_with_reads(item, node_id, change) for item in items]
        case {**fields}:
            return {key: _with_reads(item, node_id, change) for key, item in cast("dict[str, Any]", fields).items()}
        case str():
            return Text(value).reselected(lambda read: change("", read.variable) if read.node == node_id else read)
        case _:
            return value


def _as_aggregators(
    graph: NodeGraph, node: NodeSpec, groups: Mapping[str, list[Selector]], read: Mapping[tuple[str, str], str]
) -> NodeGraph:
    """Return the workflow with an aggregator for each group, and each reader redirected to that of its group or the first."""
    taken, ids = set(graph.by_id), dict[str, str]()
    for name in groups:
        ids[name] = node.id if not ids else free_id(taken, node.parent)
        taken.add(ids[name])
    aggregators = [
        replace(node, id=ids[name], params={"variables": [list(member) for member in dict.fromkeys(members)]})
        for name, members in groups.items()
    ]
    nodes = [new for other in graph.nodes for new in (aggregators if other is node else [other])]
    edges: list[Edge] = []
    for edge in graph.edges:
        edges.append(edge)
        if edge.target == node.id:
            edges += [replace(edge, target=aggregator.id) for aggregator in aggregators[1:]]
        elif edge.source == node.id:
            edges += [replace(edge, source=aggregator.id) for aggregator in aggregators[1:]]

    def redirect(alias: str, variable: str) -> Selector:
        group = read.get((alias, variable))
        return Selector(variable, node.id) if group is None else Selector("output", ids.get(group, node.id))

    nodes = [replace(other, params=_with_reads(other.params, node.id, redirect)) for other in nodes]
    return replace(graph, nodes=nodes, edges=edges)
