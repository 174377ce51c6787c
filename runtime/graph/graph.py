"""Graph of a workflow, and its validation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError
from typing import Protocol

from operad.runtime.graph.operator import BaseOperator
from operad.runtime.graph.schedule import Join, Plan, Ports
from operad.runtime.policies.policy import Policy
from operad.runtime.values.errors import InvalidError, Issue, did_you_mean
from operad.runtime.values.message import WorkflowMessage

END = "<end>"
"""Id of the node that ends a workflow: it joins the verdicts, or the messages of end operators without evaluators."""


class HasGraph(Protocol):
    """A workflow, as seen by code that needs its graph only.

    Attributes:
        name: What it is called.
    """

    name: str

    def graph(self) -> WorkflowGraph:
        """Return it as it stands, frozen."""
        ...


def read_outside(operators: Sequence[BaseOperator]) -> Sequence[str]:
    """The ids of operators whose messages these ask for and that are not among them."""
    inside = {operator.get_id() for operator in operators}
    return tuple(dict.fromkeys(read for each in operators for read in each.reads if read not in inside))


def asks_model(operators: Iterable[BaseOperator]) -> bool:
    """Return True if one of these, or of the workflows that they run, is known to ask the reasoner of the run."""
    open_, seen = [*operators], set[int]()
    while open_:
        operator = open_.pop()
        if operator.asks_model:
            return True
        for inner in () if operator.asks_model is False else operator.runs_workflows or ():
            if id(inner) not in seen:
                seen.add(id(inner))
                graph = inner.graph()
                open_ += [*graph.operators.values(), *graph.evaluators]
    return False


@dataclass(frozen=True, slots=True)
class WorkflowGraph:
    """The operators of a workflow and their order, frozen.

        graph: WorkflowGraph = flow.graph()
        print(graph.before["answer"])  # {'check': None}

    Attributes:
        operators: The operators by id, in order of adding.
        before: Per operator those before it, in order, each with the ports that the edge leaves
            from; with none, the edge is taken whenever that operator ran.
        joins: How operators join those before them, where it is not ``all_done``.
        policies: Policies of operators that have one.
        evaluators: Evaluators of the result.
        doubles: Ids under which a second operator was added.
    """

    operators: Mapping[str, BaseOperator]
    before: Mapping[str, Mapping[str, Ports]]
    joins: Mapping[str, Join] = field(default_factory=dict[str, Join])
    policies: Mapping[str, Policy] = field(default_factory=dict[str, Policy])
    evaluators: tuple[BaseOperator, ...] = ()
    doubles: tuple[str, ...] = ()

    def plan(self, name: str) -> Plan:
        """The graph as a plan: the operators, after their tails the evaluators, and one node at the end.

        Args:
            name: What to call the workflow in an error.

        Raises:
            InvalidError: It cannot run; every issue that `check` finds is listed.
        """
        issues = self.check()
        if issues:
            raise InvalidError(f"workflow {name!r} cannot be built", issues)
        has_children = {parent for parents in self.before.values() for parent in parents}
        tails = [node_id for node_id in self.before if node_id not in has_children]
        judges = [evaluator.get_id() for evaluator in self.evaluators]
        return Plan({**self.before, **dict.fromkeys(judges, tails), END: judges or tails}, self.joins, self._ports())

    def check(self) -> list[Issue]:
        """All that is wrong with it: no operators, duplicate and unknown ids, unknown ports, cycles, joins that
        can never run, and what its operators find themselves.
        """
        issues = [] if self.operators else [Issue("no-operators", "add at least one operator")]
        issues += [
            Issue(
                "duplicate-id",
                "two different operators have this id; give each its own (a workflow's is its name)",
                node_id,
            )
            for node_id in self.doubles
        ]
        taken = {*self.operators, END}
        for judge in (evaluator.get_id() for evaluator in self.evaluators):
            if judge in taken:
                issues.append(Issue("duplicate-id", "an evaluator has the id of an operator, or of another", judge))
            taken.add(judge)
        if END in self.operators:
            issues.append(Issue("duplicate-id", "an operator has the id of what ends the workflow", END))
        missing = [(node_id, p) for node_id, parents in self.before.items() for p in parents if p not in self.operators]
        issues += [
            Issue(
                "unknown-operator",
                f"operator {parent!r} comes before it but was never added{did_you_mean(parent, self.operators)}",
                node_id,
            )
            for node_id, parent in missing
        ]
        issues += [
            Issue("unknown-operator", "comes after other operators but was never added", node_id)
            for node_id in self.before
            if node_id not in self.operators
        ]
        apart = self.before.keys() - self.doubles  # the edges of two with one id cannot be told apart
        known = {each: [p for p in parents if p in apart] for each, parents in self.before.items() if each in apart}
        try:
            order = Plan(known)
        except CycleError as error:
            along = " → ".join(error.args[1])
            issues.append(Issue("cycle", f"the operators wait for each other: {along}; remove one of these edges"))
        else:
            if not issues and self._ports():
                issues += self._unknown_ports() or self._impossible(order)
            issues += self._found_by_operators()
            return issues or self._read_too_early(order)
        return issues + self._found_by_operators()

    def _read_too_early(self, plan: Plan) -> list[Issue]:
        number = {node_id: node for node, node_id in enumerate(plan.ids)}
        everything = range(len(plan.ids))
        return [
            Issue("read-too-early", f"reads what {read!r} said, which does not come before it", node_id)
            for node_id, operator in self.operators.items()
            if (reads := [read for read in operator.reads if read in number])
            for before in [plan.ancestors([number[node_id]], among=everything) - {number[node_id]}]
            for read in reads
            if number[read] not in before
        ]

    def _ports(self) -> dict[tuple[str, str], Ports]:
        return {
            (parent, key): ports for key, parents in self.before.items() for parent, ports in parents.items() if ports
        }

    def _unknown_ports(self) -> list[Issue]:
        issues: list[Issue] = []
        for (parent, node_id), ports in self._ports().items():
            known = self.operators[parent].ports
            declares = bool(known) or self.operators[parent].takes_one_port
            issues += [
                Issue(
                    "unknown-port",
                    f"operator {parent!r} has no port {port!r}{did_you_mean(port, known)}; "
                    f"it has: {', '.join(known) or 'none'}",
                    node_id,
                )
                for port in sorted(ports)
                if declares and port not in known
            ]
        return issues

    def _impossible(self, plan: Plan) -> list[Issue]:
        """Operators that no choice of ports ever lets run, where operators say that they take exactly one."""
        issues: list[Issue] = []
        needs: list[dict[str, Ports] | None] = [None] * len(plan.ids)  # per node: the ports that others must take
        ports = self._ports()
        for node in _in_order(plan):
            node_id = plan.ids[node]
            ways: list[dict[str, Ports]] = []
            for parent in plan.parents[node]:
                parent_id = plan.ids[parent]
                before = needs[parent]
                leaves = ports.get((parent_id, node_id))
                if before is not None and leaves and self.operators[parent_id].takes_one_port:
                    before = _both(before, {parent_id: leaves})
                if before is not None:
                    ways.append(before)
            if self.joins.get(node_id) == "all" and plan.parents[node]:
                needs[node] = {} if len(ways) == len(plan.parents[node]) else None
                for way in ways:
                    needs[node] = _both(needs[node] or {}, way) if needs[node] is not None else None
            else:
                needs[node] = _either(ways) if ways or plan.parents[node] else {}
            if needs[node] is None and all(needs[parent] is not None for parent in plan.parents[node]):
                routers = sorted({router for way in ways for router in way})
                issues.append(
                    Issue(
                        "never-runs",
                        f"it waits for all before it, but {' and '.join(map(repr, routers))} would have to take "
                        "different ports at once; use join='all_done' or 'any'",
                        node_id,
                    )
                )
        return issues

    def _not_after(self, node_id: str) -> list[str]:
        """The other operators that may come before an operator without a cycle."""
        after = {node_id}
        while found := {key for key, parents in self.before.items() if not after.isdisjoint(parents)} - after:
            after |= found
        return [key for key in self.operators if key not in after]

    def _found_by_operators(self) -> list[Issue]:
        issues: list[Issue] = []
        for node_id, operator in self.operators.items():
            if node_id in self.doubles:
                continue
            before = self.before.get(node_id, {})
            known = {key: self.operators[key] for key in before if key in self.operators}
            found = operator.check(known) and operator.check_among(known, self._not_after(node_id))
            if not found:  # a workflow inside itself, for one, has issues and cannot tell what it reads
                further = {key: self.operators[key] for key in operator.reads if key in self.operators.keys() - known}
                found = operator.check({**known, **further}) if further else []
            issues += found
        followed = {parent for parents in self.before.values() for parent in parents}
        tails = {key: operator for key, operator in self.operators.items() if key not in followed}
        for evaluator in self.evaluators:
            issues += evaluator.check_among(tails, self.operators)
        issues += [
            Issue(
                "fallback-port",
                "its fallback takes no port, and so would take all; give a message with ports=(…,)",
                node_id,
            )
            for node_id, policy in self.policies.items()
            if node_id in self.operators
            and self.operators[node_id].takes_one_port
            and self.operators[node_id].ports
            and (
                isinstance(policy.fallback, str)
                or (isinstance(policy.fallback, WorkflowMessage) and policy.fallback.ports is None)
            )
        ]
        everybody = {**self.operators, **{evaluator.get_id(): evaluator for evaluator in self.evaluators}}
        for node_id, policy in self.policies.items():
            operator = everybody.get(node_id)
            if policy.cache and operator is not None and not operator.has_fingerprint:
                issues.append(
                    Issue(
                        "no-fingerprint",
                        "its messages are to be cached, but nothing tells it from others: "
                        "give it a method fingerprint(), or Policy(cache=False)",
                        node_id,
                    )
                )
        return issues


def _in_order(plan: Plan) -> list[int]:
    waits, order = list(plan.waits), list(plan.roots)
    for node in order:
        for child in plan.children[node]:
            waits[child] -= 1
            if not waits[child]:
                order.append(child)
    return order


def _both(one: Mapping[str, Ports], other: Mapping[str, Ports]) -> dict[str, Ports] | None:
    """Return the ports that must be taken for both; None if they exclude each other."""
    merged = dict(one)
    for router, ports in other.items():
        merged[router] = merged[router] & ports if router in merged else ports
        if not merged[router]:
            return None
    return merged


def _either(ways: Sequence[Mapping[str, Ports]]) -> dict[str, Ports] | None:
    """Return the ports that must be taken on every path; None if there is no path."""
    if not ways:
        return None
    common = set(ways[0]).intersection(*ways[1:])
    return {router: frozenset[str]().union(*(way[router] for way in ways)) for router in common}
