"""State of a repair: the workflow, its standing, and the repairs that were made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

from operad.flows.check import Checker, lookup
from operad.flows.formats.chat2workflow import CHAT2WORKFLOW
from operad.flows.formats.shapes import fields_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.flows.repair.contract import Contract
from operad.flows.repair.spelling import loose
from operad.operators.node import NodeOperator
from operad.operators.nodes import NODE_TYPES
from operad.operators.variables import Selector, VariableType
from operad.runtime.values.errors import Issue

Check = Callable[[NodeGraph], list[Issue]]
Level = Literal["text", "shape", "meaning", "aligned"]
UNTIDY = ("order", "not-selected")
"""Faults of how a workflow is written down, and not of what it is."""


HIDING = ("not-before", "undefined-node", "crosses-border", "outside-body", "reference", "misshapen-reference")
"""Faults that are found in the place of others: they count double, so that mending one is worth it if another shows."""


class Repair(NamedTuple):
    """Something that was mended.

    Attributes:
        rule: The name of the rule.
        where: The node, the edge or the part of the response.
        what: What it was, and what it is now.
        why: What makes this the only thing that can be meant.
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
        apart: How many names of inputs and outputs are not those that the instruction states.
        unread: How many nodes cannot be read, which hides what else is wrong with them.
        faults: How many other static faults there are; those of `HIDING` kinds count double, and
            references that are spelt otherwise and taken for plain text count, too.
        untidy: How many faults of `UNTIDY` kinds there are, and twice the documents that no text is made of: a node
            that makes one may be of a type that is not selected yet.
    """

    apart: int
    unread: int
    faults: int
    untidy: int

    def betters(self, other: Standing) -> bool:
        """Return whether something is better than before, and nothing worse except faults that were hidden before."""
        return self.apart <= other.apart and self[1:3] <= other[1:3] and self < other


@dataclass(frozen=True)
class State:
    """A workflow under repair.

    Attributes:
        graph: The workflow.
        contract: What the instructions state.
        check: What is wrong with a workflow of its format.
    """

    graph: NodeGraph
    contract: Contract = field(default_factory=Contract)
    check: Check = CHAT2WORKFLOW.check

    @cached_property
    def checker(self) -> Checker:
        """The static check of it."""
        return Checker(self.graph, NODE_TYPES)

    @cached_property
    def issues(self) -> list[Issue]:
        """All that is wrong with it."""
        return self.check(self.graph)

    @cached_property
    def standing(self) -> Standing:
        """Distance from a correct workflow."""
        issues = self.issues
        untidy = sum(issue.code in UNTIDY for issue in issues)
        hiding = sum(issue.code in HIDING for issue in issues)
        unread = len(self.graph.nodes) - len(self.checker.nodes)
        faults = len(issues) - untidy + hiding + loose(self.graph)
        raw = sum(1 for _ in self.contract.raw_documents(self.graph))
        return Standing(self.contract.apart(self.graph), unread, faults, untidy + 2 * raw)

    @cached_property
    def _times(self) -> Counter[str]:
        return Counter(node.id for node in self.graph.nodes)

    def known(self, node: NodeSpec) -> NodeOperator[Any] | None:
        """A node as the check reads it; None where it cannot be read, or another has its id."""
        return self.checker.nodes.get(node.id) if self._times[node.id] == 1 else None

    def type_of(self, selector: Selector) -> VariableType | None:
        """The type of a variable; None where there is none such."""
        for known in (self.checker.outputs, self.checker.inner):
            kind = lookup(known.get(selector.node, {}), selector.variable)
            if kind is not None:
                return kind
        return None


class Proposal(NamedTuple):
    """A repair that may be made; it is made if what comes of it stands better.

    Attributes:
        where: As of a `Repair`.
        what: As of a `Repair`.
        why: As of a `Repair`.
        graph: The workflow with it.
    """

    where: str
    what: str
    why: str
    graph: NodeGraph


Mending = Callable[[State], Iterator[Proposal]]
"""Rule on workflows: yields repairs, each by itself, the likeliest first."""


def params_of(node: NodeSpec) -> dict[str, Any]:
    """Return a node's parameters; an empty object where they are something else."""
    return fields_of(node.params)


def with_params(graph: NodeGraph, node: NodeSpec, params: Any) -> NodeGraph:
    """The workflow with other parameters of a node."""
    return replace(graph, nodes=[replace(each, params=params) if each is node else each for each in graph.nodes])


def with_edges(graph: NodeGraph, edges: list[Edge]) -> NodeGraph:
    """The workflow with these edges, each once."""
    kept: dict[tuple[str, int, str, str], Edge] = {}
    for edge in edges:
        kept.setdefault((edge.source, edge.port, edge.target, edge.input), edge)
    return replace(graph, edges=list(kept.values()))


def without(graph: NodeGraph, node_id: str) -> NodeGraph:
    """The workflow without a node and its edges."""
    return replace(
        graph,
        nodes=[node for node in graph.nodes if node.id != node_id],
        edges=[edge for edge in graph.edges if node_id not in (edge.source, edge.target)],
    )


def arrow(edge: Edge) -> str:
    """An edge as issues name it."""
    return f"{edge.source} → {edge.target}"
