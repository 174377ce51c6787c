"""Assembly of a graph of typed nodes into a workflow: one operator per node, one workflow per container."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from operad.flows.check import CONVERSATION, OUTCOME, Checker, NodeType, raise_issues
from operad.flows.node_graph import NodeGraph, titles_of
from operad.flows.secrets import file_secrets
from operad.operators.integration import integrations, named
from operad.operators.node import NodeOperator
from operad.operators.services import Services
from operad.operators.variables import Selector, Values, Variables
from operad.runtime.events import current_scope
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
    """Return a graph of typed nodes as a workflow that can run.

        workflow = assemble(graph, NODE_TYPES)
        outputs = workflow.execute(Job("", inputs={"topic": "tea"}), reasoner).outputs

    The outputs of its message are those of all end nodes that ran, by name.

    Args:
        graph: The workflow.
        types: The node types by name.
        services: The external services of the nodes.
        platform: The class of the workflow.
        policy: The policy of every node, also of those inside containers.
        lossy: True to run an imported workflow whose results may differ from those on its own platform.

    Raises:
        InvalidError: The workflow is invalid; every issue that `check` finds is listed.
        LossyError: The workflow was imported, and its results may differ here; every loss is listed.
    """
    graph = graph.runnable
    checker = Checker(graph, types, services)
    raise_issues(f"workflow {graph.name!r}", checker.issues)
    if not lossy and graph.is_imported:
        from operad.flows.formats.remarks import refuse_lossy  # here, because only imported workflows need the formats

        refuse_lossy(graph, f"workflow {graph.name!r}")
    return _Assembly(graph, checker, services or Services(), partial(platform, policy=policy)).level("")


class _Assembly:
    """Builds the workflow of a graph, and the workflows inside its containers."""

    def __init__(
        self, graph: NodeGraph, checker: Checker, services: Services, platform: Callable[..., Workflow]
    ) -> None:
        self._graph = graph
        self._checker = checker
        self._titles = titles_of(graph)
        self._services = services
        self._platform = platform
        self._writing = next(
            (named(each.writing) for each in integrations() if each.writing and each.name in graph.extra), None
        )
        self._file_secrets = file_secrets(graph)
        # By variable, the nodes that assign it; for variables of the conversation also the containers around them, which
        # pass the new value on to later nodes.
        self._assigners: dict[Selector, list[str]] = {}
        for spec in graph.nodes:
            for target in checker.nodes[spec.id].assigns:
                around = graph.around(spec.id) if target.node == CONVERSATION else []
                listed = self._assigners.setdefault(target, [])
                listed += [node_id for node_id in (spec.id, *around) if node_id not in listed]

    def level(self, parent: str) -> Workflow:
        """Return the workflow that runs inside a container; for an empty id, the whole workflow."""
        graph = self._graph.inside(parent)
        nodes = {spec.id: self._build_node(spec.id) for spec in graph.nodes}
        predecessors: dict[str, list[NodeOperator[Any] | Port]] = {node_id: [] for node_id in nodes}
        for edge in graph.edges:
            source = nodes[edge.source]
            predecessors[edge.target].append(Port(source, source.ports[edge.port]) if source.ports else source)
        start_type = self._checker.nodes[parent].body_starts_with if parent else "start"
        start = next(spec.id for spec in graph.nodes if spec.type == start_type)
        if CONVERSATION in nodes:
            predecessors[start].append(nodes[CONVERSATION])
        workflow = self._platform(name=parent or graph.name)
        for node_id, node in nodes.items():
            workflow.add_operator(node, predecessors[node_id])
        not_last = {edge.source for edge in graph.edges} | {CONVERSATION}
        tails = [node for node_id, node in nodes.items() if node_id not in not_last]
        outcome = self._body_outcome(parent, nodes) if parent else self._workflow_outcome(nodes)
        # Inside a container, and in workflows of other platforms, a level may end without a result if every tail is skipped:
        # there the outcome also follows the start node.
        always_ends = bool(parent) or self._writing is not None
        workflow.add_operator(outcome, [*tails, nodes[start]] if always_ends and nodes[start] not in tails else tails)
        return workflow

    def _build_node(self, node_id: str) -> NodeOperator[Any]:
        """Return a node that can run, with the workflow inside it if it is a container."""
        checked = self._checker.nodes[node_id]
        is_container = bool(checked.body_starts_with)
        carried = [target for target, assigners in self._assigners.items() if is_container and node_id in assigners]
        assigned = {
            selector: earlier
            for selector in [*(reference.selector for reference in checked.references), *carried]
            if (earlier := self._assigned_before(node_id, selector))
        }
        body = self.level(node_id) if is_container else None
        node = type(checked)(
            node_id,
            checked.params,
            services=self._services,
            body=body,
            assigned=assigned,
            carried=carried,
            writing=self._writing,
        )
        node.title = self._titles.get(node_id, "")
        if self._file_secrets:
            node.file_secrets = self._file_secrets
        return node

    def _assigned_before(self, node_id: str, selector: Selector) -> list[str]:
        """Return the nodes that may have assigned a variable before a node reads it, the latest last."""
        return [
            assigner
            for ancestor in (*reversed(self._graph.around(node_id)), node_id)
            for assigner in self._all_assigners(selector, self._graph.by_id[ancestor].parent)
            if self._checker.comes_before(assigner, ancestor)
        ]

    def _all_assigners(self, selector: Selector, level: str) -> list[str]:
        """Return the nodes of a level that may assign a variable, in the order of execution."""
        assigners = self._assigners.get(selector, ())
        on_level = (assigner for assigner in assigners if self._graph.by_id[assigner].parent == level)
        return sorted(on_level, key=self._checker.count_before)

    def _answering_nodes(self, parent: str) -> list[str]:
        """Return the nodes of a level that answer or contain nodes that do, in the order of execution."""
        found = {
            ancestor
            for spec in self._graph.nodes
            if self._checker.nodes[spec.id].answers
            for ancestor in (spec.id, *self._graph.around(spec.id))
            if self._graph.by_id[ancestor].parent == parent
        }
        return sorted(found, key=self._checker.count_before)

    def _body_outcome(self, parent: str, nodes: Mapping[str, NodeOperator[Any]]) -> _Outcome:
        """Return the last operator of a container, which gathers the results and the variables assigned in a pass."""
        container = self._checker.nodes[parent]
        results = [selector for _, selector in container.results]
        assigned = {
            target: node_ids
            for target in self._assigners
            if target.node in (parent, CONVERSATION) and (node_ids := self._all_assigners(target, parent))
        }
        answering = self._answering_nodes(parent)
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

        return _Outcome([*reads, *breaks], gather, answering)

    def _workflow_outcome(self, nodes: Mapping[str, NodeOperator[Any]]) -> _Outcome:
        """Return the last operator of the workflow, which gathers the outputs and keeps conversation variables."""
        ends = [node_id for node_id, node in nodes.items() if node.ends and not node.answers]
        assigned = {
            target: self._all_assigners(target, "") for target in self._assigners if target.node == CONVERSATION
        }
        answering = self._answering_nodes("")
        conversations = self._services.conversations

        def gather(job: Job, messages: Sequence[WorkflowMessage]) -> Values:
            messages_by_id = {message.operator_id: message for message in messages}
            scope = current_scope()
            if scope is not None and scope.run.journal is not None:  # assigners may have run in another process
                variables = Variables(messages, assigned)
                conversations.keep(
                    job.session_id,
                    {
                        target.variable: variables.get(target)
                        for target, assigners in assigned.items()
                        if messages_by_id.keys() & assigners
                    },
                )
            answers = [
                answer for each in answering if each in messages_by_id for answer in _answers_of(messages_by_id[each])
            ]
            outputs = {
                name: value
                for end in ends
                if end in messages_by_id
                for name, value in messages_by_id[end].outputs.items()
            }
            return {**outputs, "answer": "".join(answers)} if answers else outputs

        return _Outcome([*ends, *(each for group in assigned.values() for each in group)], gather, answering)


def _answers_of(message: WorkflowMessage) -> list[str]:
    """Return the answers in a message, in order: its own, or those of the nodes that ran inside the container."""
    if message.parts:
        return [answer for part in message.parts for answer in _answers_of(part)]
    answer = message.outputs.get("answer")
    return [answer] if isinstance(answer, str) else []


class _Outcome(BaseOperator[Any]):
    """Last operator of a level, which gathers the results.

    Args:
        reads: The ids of the nodes whose messages are needed.
        gather: Function that makes the outputs from the job and these messages.
        answering: The ids of the nodes that answer or contain nodes that do, in order. Inside a container, their
            messages become parts of the message.
    """

    def __init__(
        self,
        reads: Sequence[str],
        gather: Callable[[Job, Sequence[WorkflowMessage]], Values],
        answering: Sequence[str] = (),
    ) -> None:
        self._reads = tuple(dict.fromkeys([*reads, *answering]))
        self._gather = gather
        self._answering_nodes = answering

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
        messages_by_id = {message.operator_id: message for message in messages}
        is_container = "results" in outputs
        return WorkflowMessage(
            scratchpad=outputs["answer"] if self._answering_nodes and "answer" in outputs else "\n\n".join(texts),
            outputs=outputs,
            status=worst.status,
            parts=tuple(messages_by_id[each] for each in self._answering_nodes if each in messages_by_id)
            if is_container
            else (),
            job_id=call.job.id,
            operator_id=OUTCOME,
        )
