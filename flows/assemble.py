"""A workflow of typed nodes, as it is written → a workflow that runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from operad.flows.check import CONVERSATION, OUTCOME, Checker, NodeType, refuse
from operad.flows.node_graph import NodeGraph
from operad.operators.node import NodeOperator
from operad.operators.services import Services
from operad.operators.variables import Selector, Values, Variables
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.edges import Port
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.policies.policy import NO_POLICY, Policy
from operad.runtime.values.message import Job, WorkflowMessage
from operad.runtime.workflow.workflow import BuiltinWorkflow, Workflow


def assemble(
    graph: NodeGraph,
    types: Mapping[str, NodeType],
    *,
    services: Services | None = None,
    platform: type[Workflow] = BuiltinWorkflow,
    policy: Policy = NO_POLICY,
    lossy: bool = False,
) -> Workflow:
    """Make a workflow of typed nodes that can run.

    Its message's outputs are those of all end nodes that ran, by name.

    Args:
        graph: The workflow as it is written.
        types: The node types by name.
        services: What its nodes reach outside.
        platform: The kind of workflow to make.
        policy: How its nodes run, those inside others included.
        lossy: Whether a workflow that was imported may run though its results may be others than where it comes from.

    Raises:
        InvalidError: Something is wrong with it; every issue that `check` finds is listed.
        LossyError: It was imported, and its results may be others here; every loss is listed.
    """
    checker = Checker(graph, types)
    refuse(f"workflow {graph.name!r}", checker.issues)
    if not lossy and graph.is_imported:
        from operad.flows.formats.remarks import refuse_lossy  # not at import: workflows of ours need no formats

        refuse_lossy(graph, f"workflow {graph.name!r}")
    return _Assembly(graph, checker, services or Services(), partial(platform, policy=policy)).level("")


class _Assembly:
    def __init__(
        self, graph: NodeGraph, checker: Checker, services: Services, platform: Callable[..., Workflow]
    ) -> None:
        self._graph = graph
        self._checker = checker
        self._services = services
        self._platform = platform
        self._assigners: dict[Selector, list[str]] = {}
        for spec in graph.nodes:
            for target in checker.nodes[spec.id].assigns:
                self._assigners.setdefault(target, []).append(spec.id)

    def level(self, parent: str) -> Workflow:
        """What runs inside a node, or the whole."""
        graph = self._graph.inside(parent)
        nodes = {spec.id: self._node(spec.id) for spec in graph.nodes}
        before: dict[str, list[NodeOperator[Any] | Port]] = {node_id: [] for node_id in nodes}
        for edge in graph.edges:
            source = nodes[edge.source]
            before[edge.target].append(Port(source, source.ports[edge.port]) if source.ports else source)
        begins = self._checker.nodes[parent].body_starts_with if parent else "start"
        start = next(spec.id for spec in graph.nodes if spec.type == begins)
        if CONVERSATION in nodes:
            before[start].append(nodes[CONVERSATION])
        workflow = self._platform(name=parent or graph.name)
        for node_id, node in nodes.items():
            workflow.add_operator(node, before[node_id])
        left = {edge.source for edge in graph.edges} | {CONVERSATION}
        tails = [node for node_id, node in nodes.items() if node_id not in left]
        outcome = self._of_body(parent, nodes) if parent else self._of_all(nodes)
        # Inside a node it always runs, whichever way was taken: an item may well come to nothing.
        workflow.add_operator(outcome, [*tails, nodes[start]] if parent and nodes[start] not in tails else tails)
        return workflow

    def _node(self, node_id: str) -> NodeOperator[Any]:
        read = self._checker.nodes[node_id]
        assigned = {
            reference.selector: earlier
            for reference in read.references
            if (earlier := self._assigned_before(node_id, reference.selector))
        }
        body = self.level(node_id) if read.body_starts_with else None
        return type(read)(node_id, read.params, services=self._services, body=body, assigned=assigned)

    def _assigned_before(self, node_id: str, selector: Selector) -> list[str]:
        """The nodes that may have assigned a variable anew by the time that a node reads it, the last one last."""
        around: list[str] = []
        while node_id:
            around.append(node_id)
            node_id = self._graph.by_id[node_id].parent
        assigners = self._all_assigners(selector)
        return [each for each in assigners if any(self._checker.comes_before(each, node) for node in around)]

    def _all_assigners(self, selector: Selector) -> list[str]:
        return sorted(self._assigners.get(selector, ()), key=self._checker.count_before)

    def _of_body(self, parent: str, nodes: Mapping[str, NodeOperator[Any]]) -> _Outcome:
        """What a pass of the body came to: the results that the node around it names, and what it assigned."""
        holder = self._checker.nodes[parent]
        results = [selector for _, selector in holder.results]
        assigned = {target: self._all_assigners(target) for target in self._assigners if target.node == parent}
        reads = [selector.node for selector in results] + [each for group in assigned.values() for each in group]
        breaks = [node_id for node_id, node in nodes.items() if node.type == "loop-end"]

        def gather(job: Job, messages: Sequence[WorkflowMessage]) -> Values:
            variables = Variables(messages, assigned)
            ran = {message.operator_id for message in messages}
            return {
                "results": [variables.get(selector) for selector in results],
                "assigned": {
                    target.variable: variables.get(target)
                    for target, assigners in assigned.items()
                    if ran.intersection(assigners)
                },
                "ended": any(node_id in ran for node_id in breaks),
            }

        return _Outcome([*reads, *breaks], gather)

    def _of_all(self, nodes: Mapping[str, NodeOperator[Any]]) -> _Outcome:
        """What the workflow came to: the outputs of its end nodes; and what it assigned is kept."""
        ends = [node_id for node_id, node in nodes.items() if node.ends]
        assigned = {target: self._all_assigners(target) for target in self._assigners if target.node == CONVERSATION}
        conversations = self._services.conversations

        def gather(job: Job, messages: Sequence[WorkflowMessage]) -> Values:
            said = {message.operator_id: message for message in messages}
            if assigned:
                variables = Variables(messages, assigned)
                conversations.keep(
                    job.session_id,
                    {
                        target.variable: variables.get(target)
                        for target, assigners in assigned.items()
                        if said.keys() & assigners
                    },
                )
            return {name: value for end in ends if end in said for name, value in said[end].outputs.items()}

        return _Outcome([*ends, *(each for group in assigned.values() for each in group)], gather)


class _Outcome(BaseOperator[Any]):
    """Gathers, at the end, what nodes made."""

    def __init__(self, reads: Sequence[str], gather: Callable[[Job, Sequence[WorkflowMessage]], Values]) -> None:
        self._reads = tuple(dict.fromkeys(reads))
        self._gather = gather

    def get_id(self) -> str:
        return OUTCOME

    @property
    def instruction(self) -> str:
        return "Gathers the results."

    @property
    def reads(self) -> Sequence[str]:
        return self._reads

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        messages = call.messages
        texts = [message.scratchpad for message in messages if message.scratchpad]
        worst = min(messages, key=lambda message: message.status.priority, default=WorkflowMessage())
        return WorkflowMessage(
            scratchpad="\n\n".join(texts),
            outputs=dict(self._gather(call.job, messages)),
            status=worst.status,
            job_id=call.job.id,
            operator_id=OUTCOME,
        )
