"""Build: a workflow that is ready to run, and the choice of its engine: the built-in one, or AWEL of dbgpt."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any, Literal

from pydantic import JsonValue

from operad.runtime.graph.engine import Engine, run_graph
from operad.runtime.graph.graph import WorkflowGraph, with_fallbacks
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.graph.schedule import Plan
from operad.runtime.policies.limits import Limiter
from operad.runtime.policies.policy import NO_BUDGET, NO_POLICY, Budget, Policy
from operad.runtime.values.errors import Issue, MissingExtraError
from operad.runtime.values.message import WorkflowMessage

EngineName = Literal["dbgpt", "builtin"]


@dataclass(frozen=True, slots=True)
class Node:
    """An operator or evaluator in a workflow that is ready to run.

    Attributes:
        has_tools: True if the operator offers tools to a model.
        used_ports: Ports of the operator that edges of the workflow use.
        places: Limiter of the number of operators of the workflow that run at once; None for no limit.
        stops: True if nothing that depends on the operator runs after a verdict other than SUCCESS.
    """

    operator: BaseOperator
    policy: Policy = NO_POLICY
    is_evaluator: bool = False
    has_tools: bool = False
    used_ports: Collection[str] = ()
    places: Limiter | None = None
    stops: bool = False


def ports_of_edges(before: Mapping[str, Mapping[str, Collection[str]]]) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the ports of the edges to each operator, by predecessor; edges without ports are left out."""
    named = {
        key: {parent: tuple(sorted(ports)) for parent, ports in parents.items() if ports}
        for key, parents in before.items()
    }
    return {key: ports for key, ports in named.items() if ports}


@dataclass(frozen=True)
class Build:
    """Immutable workflow that is ready to run, shared by all its runs.

    Attributes:
        graph: Its operators, evaluators and edges.
        plan: Plan of the graph, with the end node after the evaluators or, without evaluators, after the tails.
        engine: Engine that runs the plan.
        max_rounds: Maximum number of rounds until the evaluator accepts the result.
        places: Limiter of operators that run at once, in all runs together.
        calls: Limiter of model calls of the operators, in all runs together.
        on_reject: Message in place of a result that no round could repair; None to leave the result as it is.
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
    on_reject: WorkflowMessage | None = None

    @cached_property
    def repeats(self) -> bool:
        """True if operators may run again in another round: after a verdict, or a `FaultError` of an operator in code."""
        in_code = any(node.operator.asks_model is not True for node in self.nodes)
        return self.max_rounds > 1 and bool(self.graph.evaluators or in_code)

    @cached_property
    def nodes(self) -> Sequence[Node]:
        """The nodes of the plan except the end node."""
        operators, evaluators = self.graph.operators, self.graph.evaluators
        return [
            Node(
                operator,
                self.graph.policies.get(self.plan.ids[number], NO_POLICY),
                is_evaluator=number >= len(operators),
                has_tools=operator.has_tools,
                used_ports=self.plan.used_ports.get(number, ()),
                places=self.places,
                stops=operator.stops and any(child < len(operators) for child in self.plan.children[number]),
            )
            for number, operator in enumerate([*operators.values(), *evaluators])
        ]

    @cached_property
    def first_evaluator(self) -> int:
        """Number of the first node after the operators: an evaluator or the end node."""
        return len(self.graph.operators)

    @cached_property
    def end(self) -> int:
        """Number of the end node, which joins the verdicts or, without evaluators, the messages of the tails."""
        return len(self.plan.ids) - 1

    @cached_property
    def reads(self) -> Mapping[int, Sequence[str]]:
        """Ids of operators that a node reads and that are not its direct predecessors, by node; empty ones left out."""
        reads: dict[int, Sequence[str]] = {}
        for node, operator in enumerate(self.graph.operators.values()):
            if further := [read for read in operator.reads if read not in self.graph.before[operator.get_id()]]:
                reads[node] = further
        return reads

    @cached_property
    def hands_over(self) -> Mapping[int, Sequence[int]]:
        """Predecessors that hand over to a node: those with a model that choose the port of the edge; empty ones left out."""
        handing = dict[int, list[int]]()
        for parent, child in self.plan.ports:
            if self.nodes[parent].operator.asks_model or self.nodes[parent].operator.has_model:
                handing.setdefault(child, []).append(parent)
        return handing

    @cached_property
    def unjudged(self) -> Sequence[int]:
        """The nodes that run workflows of their own, if no evaluator judges the whole."""
        return () if self.graph.evaluators else [n for n, node in enumerate(self.nodes) if node.operator.runs_workflows]

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """Numbers of the nodes, by id."""
        return {node_id: node for node, node_id in enumerate(self.plan.ids)}

    @cached_property
    def plain(self) -> bool:
        """True if no operator has a policy and the number of concurrent operators is not limited."""
        return not (self.places or self.graph.policies)

    @cached_property
    def may_ask(self) -> Sequence[BaseOperator]:
        """Operators that ask the reasoner of the run, or run workflows whose operators may ask it."""
        candidates = [node.operator for node in self.nodes if node.operator.asks_model is not False]
        return [operator for operator in candidates if operator.asks_model or operator.runs_workflows]

    @cached_property
    def with_models(self) -> Sequence[BaseOperator]:
        """Operators and evaluators that have a model of their own."""
        return [node.operator for node in self.nodes if node.operator.has_model]

    @cached_property
    def containers(self) -> Sequence[BaseOperator]:
        """Operators, evaluators and fallbacks that consist of workflows, which may be edited after this build."""
        return [operator for operator in self._with_fallbacks if operator.runs_workflows]

    @cached_property
    def taking_deps(self) -> BaseOperator | None:
        """The first operator, evaluator or fallback that requires deps, if any; those in other workflows are left out."""
        return next((operator for operator in self._with_fallbacks if operator.deps_type), None)

    @cached_property
    def sending_secrets(self) -> Sequence[BaseOperator]:
        """Operators, evaluators and fallbacks that send secrets; those in other workflows are left out."""
        return [operator for operator in self._with_fallbacks if operator.secret_uses]

    @cached_property
    def _with_fallbacks(self) -> Sequence[BaseOperator]:
        return with_fallbacks((node.operator for node in self.nodes), self.graph.policies.values())

    def inputs_read(self, is_first: bool = True) -> Set[str] | None:
        """Return the names of the inputs of the job that the operators read; None if one of them may read any input.

        Args:
            is_first: False if operators of workflows around this one come before it.
        """
        if is_first not in self._inputs_read:  # operators that run no workflows are asked once
            others = [node.operator for node in self.nodes if not node.operator.runs_workflows]
            has_fallbacks = len(self._with_fallbacks) > len(self.nodes)  # which may read other inputs
            self._inputs_read[is_first] = None if has_fallbacks else self._read_by(others, is_first)
        read = self._inputs_read[is_first]
        inside = None if read is None else self._read_by(self.containers, is_first)
        return None if read is None or inside is None else read | inside

    @cached_property
    def _inputs_read(self) -> dict[bool, Set[str] | None]:
        return {}

    def _read_by(self, operators: Iterable[BaseOperator], is_first: bool) -> Set[str] | None:
        """Return the names of the inputs that some of the operators read; None if one of them may read any input."""
        before = self.graph.before
        read = [each.inputs_read(is_first and not before.get(each.get_id(), True)) for each in operators]
        return None if None in read else frozenset(name for names in read for name in names or ())

    def check_inputs(self, inputs: Mapping[str, JsonValue], outside: Collection[str] = ()) -> list[Issue]:
        """Return the issues of names in instructions; see `BaseOperator.check_inputs`.

        Args:
            inputs: The inputs of the job.
            outside: Names that the first operators may use: of operators before the workflow, and of a map's item.
        """
        return [
            issue for operator, before in self._naming for issue in operator.check_inputs(inputs, before or outside)
        ]

    @cached_property
    def _naming(self) -> Sequence[tuple[BaseOperator, Collection[str]]]:
        """Operators, evaluators and fallbacks with names in their instructions, and those that run workflows."""
        graph = self.graph
        all_before = {**self.before, **{judge: tuple(graph.operators) for judge in self.evaluators}}
        return [
            (each, all_before.get(node.operator.get_id(), ()))
            for node in self.nodes
            for each in with_fallbacks([node.operator], [graph.policies.get(node.operator.get_id(), NO_POLICY)])
            if each.names_operators or each.runs_workflows
        ]

    @cached_property
    def before(self) -> Mapping[str, tuple[str, ...]]:
        """Ids of the direct predecessors of each operator."""
        return {key: tuple(before) for key, before in self.graph.before.items()}

    @cached_property
    def ports(self) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
        """Ports of the edges to each operator, by predecessor; edges without ports are left out."""
        return ports_of_edges(self.graph.before)

    @cached_property
    def event_fields(self) -> Mapping[str, Any]:
        """Fields of the events `RunStarted` and `WorkflowEntered` that describe the workflow."""
        return {
            "workflow": self.name,
            "operators": self.before,
            "judges": self.evaluators,
            "instructions": self.instructions,
            "engine": self.engine_name,
            "ports": self.ports,
        }

    @cached_property
    def evaluators(self) -> tuple[str, ...]:
        """Ids of the evaluators."""
        return tuple(evaluator.get_id() for evaluator in self.graph.evaluators)

    @cached_property
    def instructions(self) -> Mapping[str, str]:
        """Instructions of operators and evaluators that have one, by id."""
        instructions = {node.operator.get_id(): node.operator.instruction for node in self.nodes}
        return {node_id: text for node_id, text in instructions.items() if text}


_AWEL_IMPORTS = ("dbgpt", "cloudpickle", "cachetools")
"""Modules that ``import dbgpt.core.awel`` needs in addition to operad's own dependencies."""

INSTALL_AWEL = "pip install --no-deps 'dbgpt>=0.8.2,<0.9' cloudpickle cachetools"
"""Command that installs the AWEL engine on any Python. dbgpt's own pins cannot be installed on Python 3.12 and later."""


def awel_is_installed() -> bool:
    """Return True if the AWEL engine can be imported, without importing it."""
    return all(find_spec(name) is not None for name in _AWEL_IMPORTS)


def engine_for(plan: Plan, name: EngineName, workflow: str) -> Engine:
    """Return the engine with this name for a plan.

    Args:
        workflow: The workflow's name, for the error.

    Raises:
        MissingExtraError: The engine is ``dbgpt``, and dbgpt is not installed.
    """
    if name == "builtin":
        return run_graph
    try:
        from operad.runtime.graph import awel
    except ImportError as error:
        raise MissingExtraError(
            f"workflow {workflow!r}: the AWEL engine needs dbgpt ({error}): {INSTALL_AWEL}; "
            "Workflow and BuiltinWorkflow run without it"
        ) from error
    return awel.build(plan)
