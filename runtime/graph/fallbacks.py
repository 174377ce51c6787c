"""Fallbacks of operators, which can follow each other, and their issues."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

from operad.runtime.graph.edges import is_executable
from operad.runtime.graph.operator import BaseOperator, as_operator
from operad.runtime.policies.policy import Policy
from operad.runtime.values.errors import Issue
from operad.runtime.values.message import WorkflowMessage


def with_fallbacks(operators: Iterable[BaseOperator], policies: Iterable[Policy]) -> list[BaseOperator]:
    """Return operators, and the operators that policies and the policies of these fallbacks fall back to."""
    found, to_visit = [*operators], [*policies]
    for policy in to_visit:
        if is_executable(policy.fallback):
            fallback = as_operator(policy.fallback)
            found.append(fallback)
            to_visit += [fallback.policy] if fallback.policy else []
    return found


def fallback_issues(operators: Mapping[str, BaseOperator], policies: Mapping[str, Policy]) -> list[Issue]:
    """Return the issues of the fallbacks in the policies of a workflow.

    Args:
        operators: The operators of the workflow, by id.
        policies: The policies of the operators and evaluators, by id.
    """
    issues: list[Issue] = []
    cycles: dict[int, str] = {}  # by fallback; the operators of a workflow may share one
    for node_id, policy in policies.items():
        fallback, operator = policy.fallback, operators.get(node_id)
        if is_executable(fallback) and id(fallback) not in cycles:
            cycle = cycles[id(fallback)] = _cycle(as_operator(fallback))
            if cycle:
                message = f"the fallbacks could follow each other without end: {cycle}; remove one of them"
                issues.append(Issue("fallback-cycle", message, node_id))
        if operator is not None and operator.takes_one_port and operator.ports and not cycles.get(id(fallback)):
            last = _last(policy)
            if isinstance(last, str) or (isinstance(last, WorkflowMessage) and last.ports is None):
                message = "the fallback has no port, so every branch would run; set ports=('…',)"
                issues.append(Issue("fallback-port", message, node_id))
    return issues


def _last(policy: Policy) -> object:
    """Return the last of the fallbacks that follow each other; None if it is an operator."""
    fallback: object = policy.fallback
    while is_executable(fallback):
        own = as_operator(fallback).policy
        fallback = None if own is None else own.fallback
    return fallback


def _cycle(fallback: BaseOperator) -> str:
    """Return a description of a cycle of fallbacks to which a fallback leads; empty if there is none."""
    reached: dict[int, BaseOperator] = {}
    sorter: TopologicalSorter[int] = TopologicalSorter()
    to_visit = [fallback]
    while to_visit:
        operator = to_visit.pop()
        if id(operator.added) not in reached:
            reached[id(operator.added)] = operator
            following = _following(operator)
            sorter.add(id(operator.added), *(id(each.added) for each in following))
            to_visit += following
    try:
        sorter.prepare()
    except CycleError as error:
        return " → ".join(reached[key].get_id() for key in reversed(error.args[1]))
    return ""


def _following(fallback: BaseOperator) -> list[BaseOperator]:
    """Return the fallbacks of a fallback and of all operators in the workflows that it runs."""
    policies, to_visit, seen = [fallback.policy], [fallback], set[int]()
    while to_visit:
        for workflow in to_visit.pop().runs_workflows or ():
            if id(workflow) not in seen:
                seen.add(id(workflow))
                graph = workflow.graph()
                policies += graph.policies.values()
                to_visit += [*graph.operators.values(), *graph.evaluators]
    return [as_operator(policy.fallback) for policy in policies if policy and is_executable(policy.fallback)]
