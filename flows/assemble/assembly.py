"""A workflow of typed nodes, as it is written → a workflow that runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import Any

from operad.flows.check import CONVERSATION, OUTCOME, Checker, NodeType, refuse
from operad.flows.node_graph import NodeGraph
from operad.operators.node import NodeOperator
from operad.operators.services import Services
from operad.operators.variables import DIFY, Selector, Values, Variables
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

        workflow = assemble(graph, NODE_TYPES)
        outputs = workflow.execute(Job("", inputs={"topic": "tea"}), reasoner).outputs

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
        self._assigners: dict[Selector, list[str]] = {}  # those whose values others see
        self._keepers: dict[Selector, list[str]] = {}  # those whose values last from one run to the next
        for spec in graph.nodes:
            for target in checker.nodes[spec.id].assigns:
                around = self._around(spec.id) if target.node == CONVERSATION else [spec.id]
                seen = [spec.id, *takewhile(lambda each: graph.by_id[each].type == "loop", around[1:])]
                for known, assigners in ((self._assigners, seen), (self._keepers, around)):
                    there = known.setdefault(target, [])
                    there += [each for each in assigners if each not in there]

    def level(self, parent: str) -> Workflow:
        """Return the workflow that runs inside a node, or the whole."""
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
        holds = bool(read.body_starts_with)
        carried = [target for target, assigners in self._keepers.items() if node_id in assigners] if holds else []
        assigned = {
            selector: earlier
            for selector in [*(reference.selector for reference in read.references), *carried]
            if (earlier := self._assigned_before(node_id, selector))
        }
        body = self.level(node_id) if holds else None
        return type(read)(
            node_id,
            read.params,
            services=self._services,
            body=body,
            assigned=assigned,
            carried=carried,
            writing=DIFY if "dify" in self._graph.extra else None,
        )

    def _around(self, node_id: str) -> list[str]:
        """A node, and those that it runs inside of, outwards."""
        around: list[str] = []
        while node_id:
            around.append(node_id)
            node_id = self._graph.by_id[node_id].parent
        return around

    def _assigned_before(self, node_id: str, selector: Selector) -> list[str]:
        """The nodes that may have assigned a variable anew by the time that a node reads it, the last one last."""
        return [
            each
            for around in reversed(self._around(node_id))
            for each in self._all_assigners(selector, self._graph.by_id[around].parent)
            if self._checker.comes_before(each, around)
        ]

    def _all_assigners(
        self, selector: Selector, level: str, among: Mapping[Selector, Sequence[str]] | None = None
    ) -> list[str]:
        """The nodes of a level that may assign a variable anew, in order."""
        assigners = (self._assigners if among is None else among).get(selector, ())
        there = (each for each in assigners if self._graph.by_id[each].parent == level)
        return sorted(there, key=self._checker.count_before)

    def _speakers(self, parent: str) -> list[str]:
        """The nodes of a level that answer, and those with answers inside, in the order in which they do."""
        found = {
            each
            for spec in self._graph.nodes
            if self._checker.nodes[spec.id].answers
            for each in self._around(spec.id)
            if self._graph.by_id[each].parent == parent
        }
        return sorted(found, key=self._checker.count_before)

    def _of_body(self, parent: str, nodes: Mapping[str, NodeOperator[Any]]) -> _Outcome:
        """Return the results of a pass of the body that the node around it names, and the variables that it assigned."""
        holder = self._checker.nodes[parent]
        results = [selector for _, selector in holder.results]
        known = self._assigners if holder.sequential else self._keepers
        assigned = {
            target: there
            for target in known
            if target.node in (parent, CONVERSATION) and (there := self._all_assigners(target, parent, known))
        }
        speakers = self._speakers(parent)
        reads = [selector.node for selector in results] + [each for group in assigned.values() for each in group]
        breaks = [node_id for node_id, node in nodes.items() if node.type == "loop-end"]

        def gather(job: Job, messages: Sequence[WorkflowMessage]) -> Values:
            variables = Variables(messages, assigned)
            ran = {message.operator_id for message in messages}
            return {
                "results": [variables.get(selector) for selector in results],
                "assigned": {
                    target.variable if target.node == parent else str(target): variables.get(target)
                    for target, assigners in assigned.items()
                    if ran.intersection(assigners)
                },
                "ended": any(node_id in ran for node_id in breaks),
            }

        return _Outcome([*reads, *breaks], gather, speakers)

    def _of_all(self, nodes: Mapping[str, NodeOperator[Any]]) -> _Outcome:
        """Return the outputs of the end nodes, and keep the variables that were assigned."""
        ends = [node_id for node_id, node in nodes.items() if node.ends and not node.answers]
        assigned = {
            target: self._all_assigners(target, "", self._keepers)
            for target in self._keepers
            if target.node == CONVERSATION
        }
        speakers = self._speakers("")
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
            answers = [answer for each in speakers if each in said for answer in _answers_of(said[each])]
            outputs = {name: value for end in ends if end in said for name, value in said[end].outputs.items()}
            return {**outputs, "answer": "".join(answers)} if answers else outputs

        return _Outcome([*ends, *(each for group in assigned.values() for each in group)], gather, speakers)


def _answers_of(message: WorkflowMessage) -> list[str]:
    """The answers in a message: its own, or those of what ran inside of it, in order."""
    if message.parts:
        return [answer for part in message.parts for answer in _answers_of(part)]
    answer = message.outputs.get("answer")
    return [answer] if isinstance(answer, str) else []


class _Outcome(BaseOperator[Any]):
    """Gathers, at the end, what nodes made.

    Args:
        reads: The nodes whose messages it needs.
        gather: Makes the outputs.
        speakers: The nodes that answer, or have answers inside, in order; their messages are its parts inside a node.
    """

    def __init__(
        self,
        reads: Sequence[str],
        gather: Callable[[Job, Sequence[WorkflowMessage]], Values],
        speakers: Sequence[str] = (),
    ) -> None:
        self._reads = tuple(dict.fromkeys([*reads, *speakers]))
        self._gather = gather
        self._speakers = speakers

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
        outputs = dict(self._gather(call.job, messages))
        said = {message.operator_id: message for message in messages}
        inside = "results" in outputs
        return WorkflowMessage(
            scratchpad=outputs["answer"] if self._speakers and "answer" in outputs else "\n\n".join(texts),
            outputs=outputs,
            status=worst.status,
            parts=tuple(said[each] for each in self._speakers if each in said) if inside else (),
            job_id=call.job.id,
            operator_id=OUTCOME,
        )
