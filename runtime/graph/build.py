"""A workflow made ready to run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from operad.runtime.graph.engine import Step
from operad.runtime.graph.graph import WorkflowGraph
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.graph.schedule import Plan
from operad.runtime.policies.limits import Limiter
from operad.runtime.policies.policy import NO_BUDGET, NO_POLICY, Budget, Policy

Engine = Callable[[Iterable[int], Step], Awaitable[None]]
"""Runs nodes of the plan it was built from with a step: those given, then those that may start after them."""


@dataclass(frozen=True, slots=True)
class Node:
    """An operator or evaluator in a workflow that is ready to run.

    Attributes:
        operator: The operator.
        policy: How it runs.
        judges: Whether it is an evaluator.
        used_ports: The ports that edges leave from, for an operator that declares none.
        places: How many operators of its workflow may run at once.
    """

    operator: BaseOperator
    policy: Policy = NO_POLICY
    judges: bool = False
    used_ports: Collection[str] = ()
    places: Limiter | None = None


@dataclass(frozen=True)
class Build:
    """A workflow made ready to run. Runs share it; nothing in it changes.

    Attributes:
        name: The workflow's.
        graph: What it consists of.
        plan: The graph, with a node at the end that judges or joins.
        engine: What runs the plan.
        engine_name: What events call it.
        max_rounds: How often at most its operators run until the evaluator is content.
        budget: What a run may use.
        places: How many of its operators may run at once, over all its runs.
        calls: How often its operators may call models, over all its runs.
    """

    name: str
    graph: WorkflowGraph
    plan: Plan
    engine: Engine
    engine_name: str = ""
    max_rounds: int = 1
    budget: Budget = NO_BUDGET
    places: Limiter | None = None
    calls: Limiter | None = None

    @cached_property
    def nodes(self) -> Sequence[Node]:
        """The nodes of the plan, but for the one at the end."""
        operators, evaluators = self.graph.operators, self.graph.evaluators
        return [
            Node(
                operator,
                self.graph.policies.get(self.plan.ids[number], NO_POLICY),
                judges=number >= len(operators),
                used_ports=self.plan.ways.get(number, ()),
                places=self.places,
            )
            for number, operator in enumerate([*operators.values(), *evaluators])
        ]

    @cached_property
    def reads(self) -> Mapping[int, Sequence[str]]:
        """The operators whose messages a node asks for that are not right before it, where there are any."""
        reads: dict[int, Sequence[str]] = {}
        for node, operator in enumerate(self.graph.operators.values()):
            if further := [read for read in operator.reads if read not in self.graph.before[operator.get_id()]]:
                reads[node] = further
        return reads

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """The node of each operator."""
        return {node_id: node for node, node_id in enumerate(self.plan.ids)}

    @cached_property
    def plain(self) -> bool:
        """Whether no operator has a policy or waits for a place."""
        return not (self.places or any(node.policy for node in self.nodes))

    @cached_property
    def with_models(self) -> Sequence[BaseOperator]:
        """The operators that were given a model of their own."""
        return [node.operator for node in self.nodes if node.operator.has_model]

    @cached_property
    def before(self) -> Mapping[str, tuple[str, ...]]:
        """Per operator, those before it."""
        return {key: tuple(before) for key, before in self.graph.before.items()}

    @cached_property
    def judges(self) -> tuple[str, ...]:
        """The ids of what judges."""
        return tuple(evaluator.get_id() for evaluator in self.graph.evaluators)

    @cached_property
    def instructions(self) -> Mapping[str, str]:
        """What each is there for, of those that say so."""
        said = {node.operator.get_id(): node.operator.instruction for node in self.nodes}
        return {node_id: text for node_id, text in said.items() if text}
