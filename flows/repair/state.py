"""State of a repair: the workflow, its standing, repairs and proposals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from operad.flows.check import Checker, lookup
from operad.flows.formats.chat2workflow import CHAT2WORKFLOW
from operad.flows.formats.shapes import fields_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.flows.repair.spelling import loose
from operad.operators.node import NodeOperator
from operad.operators.nodes import NODE_TYPES
from operad.operators.variables import Selector, VariableType
from operad.runtime.values.errors import Issue

Check = Callable[[NodeGraph], list[Issue]]
"""Function that returns the issues of a workflow in its format."""

UNTIDY = ("order", "not-selected")
"""Codes of issues of notation only, which do not affect how a workflow runs."""

HIDING = ("not-before", "undefined-node", "crosses-border", "outside-body", "reference", "misshapen-reference")
"""Codes of issues that hide others. They count twice, so fixing one is an improvement even if it reveals another."""


class Repair(NamedTuple):
    """A repair that was made.

    Attributes:
        rule: Name of the rule.
        where: The node, the edge or the part of the response.
        what: Description of the change.
        why: Reason why no other correction is possible.
    """

    rule: str
    where: str
    what: str
    why: str

    def __str__(self) -> str:
        return f"[{self.rule}] {self.where}{': ' if self.where else ''}{self.what} ({self.why})"


class Standing(NamedTuple):
    """Distance of a workflow from a correct one; a repair increases none of the first three counts.

    Attributes:
        mismatches: Number of differences from a goal of the caller, by a measure other than `standing_of`; otherwise 0.
        unreadable_nodes: Number of nodes that cannot be read, which hides their other issues.
        issues: Number of other static issues. Issues of `HIDING` codes count twice, and so do misspelt references
            count, which the static check takes for plain text.
        notation_issues: Number of issues of `UNTIDY` codes.
    """

    mismatches: int
    unreadable_nodes: int
    issues: int
    notation_issues: int

    def improves_on(self, other: Standing) -> bool:
        """Return whether the workflow improved. With fewer unread nodes it may have more faults, hidden before."""
        return self.mismatches <= other.mismatches and self[1:3] <= other[1:3] and self < other


def standing_of(state: State) -> Standing:
    """Return the standing of a workflow by its static check."""
    # An issue that hides others counts twice, because its repair may reveal one and is still an improvement; otherwise,
    # no repair of it would be made.
    untidy = sum(issue.code in UNTIDY for issue in state.issues)
    hiding = sum(issue.code in HIDING for issue in state.issues)
    unread = len(state.graph.nodes) - len(state.checker.nodes)
    return Standing(0, unread, len(state.issues) - untidy + hiding + loose(state.graph), untidy)


@dataclass(frozen=True)
class State:
    """A workflow under repair.

    Attributes:
        graph: The workflow.
        check: Function that returns the issues of a workflow in its format.
        measure: Function that returns the standing of a state.
    """

    graph: NodeGraph
    check: Check = CHAT2WORKFLOW.check
    measure: Callable[[State], Standing] = standing_of

    @cached_property
    def checker(self) -> Checker:
        """Static check of the workflow."""
        return Checker(self.graph, NODE_TYPES)

    @cached_property
    def issues(self) -> list[Issue]:
        """All issues of the workflow, by the check of its format."""
        return self.check(self.graph)

    @cached_property
    def standing(self) -> Standing:
        """Distance of the workflow from a correct one."""
        return self.measure(self)

    @cached_property
    def _uses_of_ids(self) -> Counter[str]:
        return Counter(node.id for node in self.graph.nodes)

    def known(self, node: NodeSpec) -> NodeOperator[Any] | None:
        """Return the operator that the check built from a node; None if it cannot be read or its id is not unique."""
        return self.checker.nodes.get(node.id) if self._uses_of_ids[node.id] == 1 else None

    def type_of(self, selector: Selector) -> VariableType | None:
        """Return the type of a variable; None if no node has the variable."""
        for outputs in (self.checker.outputs, self.checker.inner):
            kind = lookup(outputs.get(selector.node, {}), selector.variable)
            if kind is not None:
                return kind
        return None


class Proposal(NamedTuple):
    """A proposed repair; the engine makes it if it improves the `Standing` of the workflow.

    Attributes:
        where: See `Repair`.
        what: See `Repair`.
        why: See `Repair`.
        graph: The workflow after the repair.
    """

    where: str
    what: str
    why: str
    graph: NodeGraph


Mending = Callable[[State], Iterator[Proposal]]
"""Rule on workflows: yields alternative proposals, each of which changes the given workflow; the likeliest first."""


def params_of(node: NodeSpec) -> dict[str, Any]:
    """Return a node's parameters; an empty object if they are not an object."""
    return fields_of(node.params)


def with_params(graph: NodeGraph, node: NodeSpec, params: Any) -> NodeGraph:
    """Return the workflow with other parameters for a node."""
    return replace(graph, nodes=[replace(other, params=params) if other is node else other for other in graph.nodes])


def with_each(state: State, mend: Callable[[NodeSpec], Any], what: str, why: str) -> Iterator[Proposal]:
    """Yield a proposal for each node whose parameters a function changes."""
    for node in state.graph.nodes:
        mended = mend(node)
        if mended != node.params:
            yield Proposal(node.id, what, why, with_params(state.graph, node, mended))


def with_edges(graph: NodeGraph, edges: list[Edge]) -> NodeGraph:
    """Return the workflow with these edges, without duplicates."""
    kept: dict[tuple[str, int, str, str], Edge] = {}
    for edge in edges:
        kept.setdefault((edge.source, edge.port, edge.target, edge.input), edge)
    return replace(graph, edges=list(kept.values()))


def without(graph: NodeGraph, node_id: str) -> NodeGraph:
    """Return the workflow without a node and its edges."""
    return replace(
        graph,
        nodes=[node for node in graph.nodes if node.id != node_id],
        edges=[edge for edge in graph.edges if node_id not in (edge.source, edge.target)],
    )


def arrow(edge: Edge) -> str:
    """Return the notation of an edge in issues: ``source → target``."""
    return f"{edge.source} → {edge.target}"
