"""Rules that give parameters their declared form: pairs, conditions, comparisons; their meaning stays the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from operad.flows.formats.shapes import list_of
from operad.flows.node_graph import NodeSpec
from operad.flows.repair.references import as_selector
from operad.flows.repair.state import Proposal, State, params_of, with_each
from operad.flows.repair.walk import changed, fields_of, is_record, params_type_of
from operad.operators.conditions import fault_of, normal
from operad.operators.named_params import positional
from operad.operators.variables import Selector, VariableType

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
