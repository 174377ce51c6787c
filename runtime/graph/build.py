"""A workflow made ready to run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from operad.runtime.graph.engine import Step
from operad.runtime.graph.graph import WorkflowGraph
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.graph.schedule import Plan
from operad.runtime.policies.limits import Limiter
from operad.runtime.policies.policy import NO_BUDGET, NO_POLICY, Budget, Policy

Engine = Callable[[Iterable[int], Step], Awaitable[None]]
"""Engine: runs nodes of its plan with a step, beginning with the given ones."""


@dataclass(frozen=True, slots=True)
class Node:
    """An operator or evaluator in a workflow that is ready to run.

    Attributes:
        operator: The operator.
        policy: Its policy.
        judges: True if it is an evaluator.
        used_ports: The ports that edges leave from, for an operator that declares none.
        places: Maximum number of operators of its workflow that run at once.
    """

    operator: BaseOperator
    policy: Policy = NO_POLICY
    judges: bool = False
    used_ports: Collection[str] = ()
    places: Limiter | None = None


@dataclass(frozen=True)
class Build:
    """A workflow ready to run. It is immutable, and shared by all runs.

    Attributes:
        name: The workflow's name.
        graph: Its operators, evaluators and edges.
        plan: The graph, with a node at the end that judges or joins.
        engine: Engine that runs the plan.
        engine_name: Name of the engine in events.
        max_rounds: Maximum number of rounds until the evaluator accepts the result.
        budget: Budget of a run.
        places: Limit on operators that run at once, over all its runs.
        calls: Limit on model calls of its operators, over all its runs.
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
    def first_judge(self) -> int:
        """The first node after the operators: an evaluator, or the end."""
        return len(self.graph.operators)

    @cached_property
    def end(self) -> int:
        """The node at the end, which judges or joins."""
        return len(self.plan.ids) - 1

    @cached_property
    def reads(self) -> Mapping[int, Sequence[str]]:
        """The operators whose messages a node asks for that are not right before it, where there are any."""
        reads: dict[int, Sequence[str]] = {}
        for node, operator in enumerate(self.graph.operators.values()):
            if further := [read for read in operator.reads if read not in self.graph.before[operator.get_id()]]:
                reads[node] = further
        return reads

    @cached_property
    def unjudged(self) -> Sequence[int]:
        """The nodes that run workflows of their own, if no evaluator judges the whole."""
        return () if self.graph.evaluators else [n for n, node in enumerate(self.nodes) if node.operator.runs_workflows]

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """The node of each operator."""
        return {node_id: node for node, node_id in enumerate(self.plan.ids)}

    @cached_property
    def plain(self) -> bool:
        """True if no operator has a policy or waits for a place."""
        return not (self.places or any(node.policy for node in self.nodes))

    @cached_property
    def may_ask(self) -> Sequence[BaseOperator]:
        """The operators that ask the reasoner of the run, or run workflows whose operators may ask it."""
        found = [node.operator for node in self.nodes if node.operator.asks_model is not False]
        return [operator for operator in found if operator.asks_model or operator.runs_workflows]

    @cached_property
    def with_models(self) -> Sequence[BaseOperator]:
        """The operators that were given a model of their own."""
        return [node.operator for node in self.nodes if node.operator.has_model]

    @cached_property
    def before(self) -> Mapping[str, tuple[str, ...]]:
        """Per operator, those before it."""
        return {key: tuple(before) for key, before in self.graph.before.items()}

    @cached_property
    def ports(self) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
        """Per operator, the ports that edges to it leave from, by the operator before it."""
        named = {
            key: {parent: tuple(sorted(ports)) for parent, ports in before.items() if ports}
            for key, before in self.graph.before.items()
        }
        return {key: ports for key, ports in named.items() if ports}

    @cached_property
    def event_fields(self) -> Mapping[str, Any]:
        """The fields of the events `RunStarted` and `WorkflowEntered` that describe the workflow."""
        return {
            "workflow": self.name,
            "operators": self.before,
            "judges": self.judges,
            "instructions": self.instructions,
            "engine": self.engine_name,
            "ports": self.ports,
        }

    @cached_property
    def judges(self) -> tuple[str, ...]:
        """The ids of what judges."""
        return tuple(evaluator.get_id() for evaluator in self.graph.evaluators)

    @cached_property
    def instructions(self) -> Mapping[str, str]:
        """Purposes of operators and evaluators, by id, if declared."""
        said = {node.operator.get_id(): node.operator.instruction for node in self.nodes}
        return {node_id: text for node_id, text in said.items() if text}
