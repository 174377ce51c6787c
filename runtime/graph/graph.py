"""Graph of a workflow, its validation, and the fallbacks of its operators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import combinations
from typing import TYPE_CHECKING

from operad.runtime.graph.edges import is_executable
from operad.runtime.graph.operator import BaseOperator, as_operator
from operad.runtime.graph.schedule import Join, Plan, Ports, children_of, reachable
from operad.runtime.policies.policy import Policy
from operad.runtime.values.errors import InvalidError, Issue, did_you_mean
from operad.runtime.values.message import WorkflowMessage
from operad.runtime.values.near_names import Hints

if TYPE_CHECKING:
    from networkx import DiGraph

END = "<end>"
"""Id of the node that ends a workflow: it joins the verdicts, or the messages of end operators without evaluators."""


def read_outside(operators: Sequence[BaseOperator]) -> Sequence[str]:
    """Return the ids that the operators list in `BaseOperator.reads` and that belong to none of these operators."""
    inside = {operator.get_id() for operator in operators}
    return tuple(dict.fromkeys(read for operator in operators for read in operator.reads if read not in inside))


def asking(operators: Iterable[BaseOperator]) -> Iterator[BaseOperator]:
    """Yield the operators that are known to ask the reasoner of the run, also those in workflows that operators run.

    Workflows with a model of their own are left out.
    """
    to_visit, seen = [*operators], set[int]()
    while to_visit:
        operator = to_visit.pop()
        if operator.asks_model:
            yield operator
        for inner in () if operator.asks_model is False else operator.runs_workflows or ():
            if id(inner) not in seen and inner.model is None:
                seen.add(id(inner))
                graph = inner.graph()
                to_visit += [*graph.operators.values(), *graph.evaluators]


def ids_inside(operator: BaseOperator) -> set[str]:
    """Return the ids of all operators in the workflows that an operator runs."""
    ids, to_visit, seen = set[str](), [operator], set[int]()
    while to_visit:
        for inner in to_visit.pop().runs_workflows or ():
            if id(inner) not in seen:
                seen.add(id(inner))
                operators = inner.graph().operators
                ids |= operators.keys()
                to_visit += operators.values()
    return ids


@dataclass(frozen=True, slots=True)
class WorkflowGraph:
    """Frozen graph of a workflow: its operators, edges and evaluators.

        graph: WorkflowGraph = flow.graph()
        print(graph.before["answer"])  # {'check': None}

    Attributes:
        operators: The operators by id, in the order in which they were added.
        before: Predecessors of each operator, by id and in order, with the ports of the edge. An edge without ports
            is taken whenever the predecessor ran.
        joins: Joins of operators whose join is not ``all_done``, by id.
        policies: Policies of operators that have one, by id.
        evaluators: Evaluators of the result.
        duplicate_ids: Ids under which a second operator was added.
    """

    operators: Mapping[str, BaseOperator]
    before: Mapping[str, Mapping[str, Ports]]
    joins: Mapping[str, Join] = field(default_factory=dict[str, Join])
    policies: Mapping[str, Policy] = field(default_factory=dict[str, Policy])
    evaluators: tuple[BaseOperator, ...] = ()
    duplicate_ids: tuple[str, ...] = ()

    def get_graph(self) -> DiGraph[str]:
        """Return a networkx graph: each id with its ``operator``, and each edge with its ``ports``."""
        from networkx import DiGraph  # not at import: only readers of graphs need it

        graph: DiGraph[str] = DiGraph()
        graph.add_nodes_from((key, {"operator": operator}) for key, operator in self.operators.items())
        for key, before in self.before.items():
            graph.add_edges_from((parent, key, {"ports": ports}) for parent, ports in before.items())
        return graph

    @property
    def tails(self) -> Sequence[str]:
        """Ids of the operators without successors, in the order in which they were added."""
        has_successors = {parent for parents in self.before.values() for parent in parents}
        return [operator_id for operator_id in self.operators if operator_id not in has_successors]

    @property
    def gives_items(self) -> bool:
        """True if the only operator without successors is a map, whose answer is a list."""
        return [self.operators[tail].gives_items for tail in self.tails] == [True]

    def plan(self, name: str) -> Plan:
        """Return the plan of the graph: the operators, the evaluators after the tails, and the node `END`.

        Evaluators that ask a model come after those in code, which cost nothing.

        Args:
            name: The workflow's name, for the error.

        Raises:
            InvalidError: `check` finds issues; the error lists all of them.
        """
        issues, plan = self._checked()
        if issues or plan is None:
            raise InvalidError(f"workflow {name!r} cannot be built", issues)
        return plan

    def check(self) -> list[Issue]:
        """Return all issues of the graph.

        Issues are: no operators, duplicate and unknown ids, unknown ports, cycles, operators that can never run,
        messages that are read before they exist, and the issues that operators and evaluators report themselves.
        """
        return self._checked()[0]

    def _checked(self) -> tuple[list[Issue], Plan | None]:
        """Return all issues of the graph, and its plan if there are none."""
        issues = [] if self.operators else [Issue("no-operators", "add at least one operator")]
        issues += [
            Issue(
                "duplicate-id",
                "two different operators have this id; each needs its own id (that of a workflow is its name)",
                node_id,
            )
            for node_id in self.duplicate_ids
        ]
        taken = {*self.operators, END}
        for evaluator_id in (evaluator.get_id() for evaluator in self.evaluators):
            if evaluator_id in taken:
                other = "an operator" if evaluator_id in self.operators else "another evaluator"
                message = f"an evaluator has the id of {other}: {evaluator_id!r}"
                issues.append(Issue("duplicate-id", message, evaluator_id))
            taken.add(evaluator_id)
        if END in self.operators:
            issues.append(Issue("duplicate-id", "this id is reserved for the end of the workflow", END))
        hints = Hints()
        missing = [(node_id, p) for node_id, parents in self.before.items() for p in parents if p not in self.operators]
        issues += [
            Issue(
                "unknown-operator",
                f"operator {parent!r} comes before it but was never added{hints.near(parent, self.operators)}",
                node_id,
            )
            for node_id, parent in missing
        ]
        issues += [
            Issue("unknown-operator", "comes after other operators but was never added", node_id)
            for node_id in self.before
            if node_id not in self.operators
        ]
        try:
            plan = None if issues else self._plan()
            if issues:
                # Operators with the same id are left out: it is unknown which of them an edge belongs to.
                known = {key: before for key, before in self.before.items() if key not in self.duplicate_ids}
                Plan({key: [parent for parent in before if parent in known] for key, before in known.items()})
        except CycleError as error:
            along = " → ".join(error.args[1])
            issues.append(Issue("cycle", f"the operators wait for each other: {along}; remove one of these edges"))
            return issues + self._operator_issues(), None
        if plan is not None and plan.ports:
            issues += self._unknown_port_issues() or self._never_run_issues(plan)
        issues += self._operator_issues()
        if plan is not None and not issues:
            issues = self._read_too_early_issues(plan)
        return issues, plan

    def _plan(self) -> Plan:
        tails, evaluators = self.tails, [evaluator.get_id() for evaluator in self.evaluators]
        in_code = [evaluator.get_id() for evaluator in self.evaluators if not evaluator.asks_model]
        judges = {key: tails if key in in_code else [*tails, *in_code] for key in evaluators}
        before = {**self.before, **judges, END: evaluators or tails}
        return Plan(before, self.joins, self._ports())

    def _read_too_early_issues(self, plan: Plan) -> list[Issue]:
        """Return an issue for each operator that reads the message of one that does not come before it."""
        number = {node_id: node for node, node_id in enumerate(plan.ids)}
        all_nodes = range(len(plan.ids))
        return [
            Issue(
                "read-too-early",
                f"reads the message of {read!r}, which is not one of its predecessors; add an edge",
                node_id,
            )
            for node_id, operator in self.operators.items()
            if (reads := [read for read in operator.reads if read in self.operators])
            for ancestors in [plan.ancestors([number[node_id]], among=all_nodes) - {number[node_id]}]
            for read in reads
            if number[read] not in ancestors
        ]

    def _ports(self) -> dict[tuple[str, str], Ports]:
        """Return the ports of edges that have any, by the ids of parent and child."""
        return {
            (parent, child): ports
            for child, parents in self.before.items()
            for parent, ports in parents.items()
            if ports
        }

    def _unknown_port_issues(self) -> list[Issue]:
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

    @property
    def ends_once(self) -> bool:
        """True if exactly one operator without successors runs: there is one, or they are on different ports."""
        tails = set(self.tails)
        if len(tails) < 2:
            return len(tails) == 1
        try:
            plan = self._plan()
        except (CycleError, KeyError):  # the run reports it
            return False
        needed = [
            ports for node, ports, _ in self._required_ports(plan) if plan.ids[node] in tails and ports is not None
        ]
        return not any(_ports_for_both(*both) is not None for both in combinations(needed, 2))

    def _required_ports(self, plan: Plan) -> Iterator[tuple[int, dict[str, Ports] | None, list[dict[str, Ports]]]]:
        """Yield each node with the ports, by operator, of which each operator must take one for the node to run.

        The ports are None if the node can never run. The third value is the ports of each edge that can be taken. Only
        operators that take exactly one port (`takes_one_port`) exclude anything.
        """
        required: list[dict[str, Ports] | None] = [None] * len(plan.ids)
        ports = self._ports()
        for node in _topological_order(plan):
            node_id = plan.ids[node]
            paths: list[dict[str, Ports]] = []
            for parent in plan.parents[node]:
                parent_id = plan.ids[parent]
                path = required[parent]
                edge_ports = ports.get((parent_id, node_id))
                if path is not None and edge_ports and self.operators[parent_id].takes_one_port:
                    path = _ports_for_both(path, {parent_id: edge_ports})
                if path is not None:
                    paths.append(path)
            if self.joins.get(node_id) == "all" and plan.parents[node]:
                required[node] = {} if len(paths) == len(plan.parents[node]) else None
                for path in paths:
                    required[node] = _ports_for_both(required[node] or {}, path) if required[node] is not None else None
            else:
                required[node] = _ports_for_any(paths) if paths or plan.parents[node] else {}
            yield node, required[node], paths

    def _never_run_issues(self, plan: Plan) -> list[Issue]:
        """Return an issue for each operator that runs under no choice of ports."""
        issues: list[Issue] = []
        never: set[int] = set()
        for node, required, paths in self._required_ports(plan):
            if required is not None:
                continue
            if never.isdisjoint(plan.parents[node]):
                routers = sorted({router for path in paths for router in path})
                issues.append(
                    Issue(
                        "never-runs",
                        f"it waits for all its predecessors, but {' and '.join(map(repr, routers))} would have to take "
                        "different ports at once; use join='all_done' or 'any'",
                        plan.ids[node],
                    )
                )
            never.add(node)
        return issues

    def _operator_issues(self) -> list[Issue]:
        """Return the issues that operators and evaluators report, and those of their fallbacks and caches."""
        issues: list[Issue] = []
        children = children_of(self.before)
        for node_id, operator in self.operators.items():
            if node_id in self.duplicate_ids:
                continue
            before = self.before.get(node_id, {})
            known = {key: self.operators[key] for key in before if key in self.operators}
            found = operator.check(known)
            checks_others = type(operator).check_among is not BaseOperator.check_among
            if checks_others and (found or operator.names_operators):  # checks once more
                descendants = reachable([node_id], lambda each: children.get(each, ()))  # edges from them close cycles
                found = operator.check_among(known, [key for key in self.operators if key not in descendants])
            # `reads` is asked only without issues: for example, a workflow inside itself cannot list what it reads.
            if not found:
                further = {key: self.operators[key] for key in operator.reads if key in self.operators.keys() - known}
                found = operator.check({**known, **further}) if further else []
            issues += found
        tails = {key: self.operators[key] for key in self.tails}
        for evaluator in self.evaluators:
            issues += evaluator.check_among(tails, self.operators)
        issues += fallback_issues(self.operators, self.policies)
        nodes = {**self.operators, **{evaluator.get_id(): evaluator for evaluator in self.evaluators}}
        for node_id, policy in self.policies.items():
            operator = nodes.get(node_id)
            issues += [] if operator is None else operator.check_policy(policy)
            if policy.cache and operator is not None and not operator.has_fingerprint:
                issues.append(
                    Issue(
                        "no-fingerprint",
                        "its messages are to be cached, but it has no fingerprint; "
                        "define fingerprint(), or set Policy(cache=False)",
                        node_id,
                    )
                )
        return issues


def _topological_order(plan: Plan) -> list[int]:
    """Return the nodes of a plan, each after all its parents."""
    waits, order = list(plan.parent_counts), list(plan.roots)
    for node in order:
        for child in plan.children[node]:
            waits[child] -= 1
            if not waits[child]:
                order.append(child)
    return order


def _ports_for_both(first: Mapping[str, Ports], second: Mapping[str, Ports]) -> dict[str, Ports] | None:
    """Return the ports that meet both requirements, by operator; None if the requirements exclude each other."""
    merged = dict(first)
    for router, ports in second.items():
        merged[router] = merged[router] & ports if router in merged else ports
        if not merged[router]:
            return None
    return merged


def _ports_for_any(paths: Sequence[Mapping[str, Ports]]) -> dict[str, Ports] | None:
    """Return the ports that are required whichever path is taken, by operator; None if there is no path."""
    if not paths:
        return None
    common = set(paths[0]).intersection(*paths[1:])
    return {router: frozenset[str]().union(*(path[router] for path in paths)) for router in common}


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
