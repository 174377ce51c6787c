"""Runs of a part of a workflow, one node or a node and its successors, with messages of the last run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, cast

from operad.flows.assemble import assemble
from operad.flows.check import CONVERSATION
from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.operators.node import NodeOperator
from operad.operators.node_params import readable, references_in
from operad.operators.nodes import NODE_TYPES
from operad.operators.services import Services
from operad.operators.variables import Selector, Variables, plain
from operad.runtime.events import Event, MessageKept, OperatorFailed, OperatorFinished, WorkflowEntered, emit
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.values.errors import InputError, did_you_mean, shorten
from operad.runtime.values.map_item import MapItem, without_index
from operad.runtime.values.message import NO_USAGE, Job, WorkflowMessage
from operad.runtime.workflow.workflow import BuiltinWorkflow, Workflow
from operad.server.studio.experts.graph import EVALUATOR, EXPERT, LEADER, OPERATOR

_NO_STEPS = (EXPERT, LEADER, EVALUATOR)
"""Types of the parts of experts that do not run as steps of a workflow."""


@dataclass
class RunValues:
    """Messages of the nodes of a workflow, each from the last run of the node.

    Attributes:
        graph: The workflow that ran.
        errors: The errors of the nodes that failed.
        specs: The contents of nodes when they last ran, by node.
        items: Values that each container gave to the nodes inside it in the last pass, by container.
        job: For experts: the job of the last run.
    """

    graph: NodeGraph
    messages: dict[str, WorkflowMessage] = field(default_factory=dict[str, WorkflowMessage])
    errors: dict[str, str] = field(default_factory=dict[str, str])
    inputs: dict[str, Any] = field(default_factory=dict[str, Any])
    specs: dict[str, Any] = field(default_factory=dict[str, Any])
    items: dict[str, WorkflowMessage] = field(default_factory=dict[str, WorkflowMessage])
    job: Job | None = None

    def copy(self, graph: NodeGraph) -> RunValues:
        """Return a copy for a run of a part of a workflow, which replaces only the messages of that part."""
        parts = {name: dict(getattr(self, name)) for name in ("messages", "errors", "inputs", "specs", "items")}
        return RunValues(graph, **parts, job=self.job)

    def apply(self, event: Event, reused: Collection[str] = ()) -> None:
        """Store what an event says of a node.

        Args:
            reused: Nodes that only gave messages of an earlier run.
        """
        node_id = without_index(event.path[-1]) if event.path else ""
        if isinstance(event, OperatorFinished) and node_id in reused and event.round <= 1:
            self.messages.setdefault(node_id, event.message)
        elif isinstance(event, OperatorFinished) and node_id:
            self.messages.pop(node_id, None)  # the messages stand in the order in which they came
            self.messages[node_id] = event.message
            self.errors.pop(node_id, None)
            if node_id in self.graph.by_id:
                self.specs[node_id] = _node_content(self.graph, node_id)
        elif isinstance(event, OperatorFailed) and node_id:
            self.errors[node_id] = event.error
        elif isinstance(event, WorkflowEntered) and event.item is not None:
            item = MapItem.parse(event.path[-1])
            outputs = {"item": event.item, "index": item.index if item else 0}
            self.items[node_id] = WorkflowMessage(outputs=outputs, operator_id=node_id)

    @property
    def has_results(self) -> bool:
        """True if a node other than a start node has finished."""
        kinds = {spec.id: spec.type for spec in self.graph.nodes}
        return any(kinds.get(node_id) != "start" for node_id in self.messages)

    def outdated(self, graph: NodeGraph) -> Iterator[str]:
        """Yield the nodes outside of containers that have changed since they ran, or ran before a node before them."""
        order = {node_id: place for place, node_id in enumerate(self.messages)}
        for spec in steps_of(graph):
            before = [edge.source for edge in graph.edges if edge.target == spec.id]
            ran = order.get(spec.id, -1)
            if not (self.is_current(graph, spec.id) and all(order.get(each, -1) <= ran for each in before)):
                yield spec.id

    def is_current(self, graph: NodeGraph, node_id: str) -> bool:
        """Return True if a node has run and has not changed since."""
        return node_id in self.messages and self.specs.get(node_id) == _node_content(graph, node_id)


def steps_of(graph: NodeGraph) -> list[NodeSpec]:
    """Return the nodes outside of containers; of experts, the operators."""
    experts = {spec.id for spec in graph.nodes if spec.type == EXPERT}
    return [spec for spec in graph.nodes if spec.type not in _NO_STEPS and (not spec.parent or spec.parent in experts)]


def _node_content(graph: NodeGraph, node_id: str) -> tuple[Any, ...]:
    """Return the content of a node and of the nodes inside it, with the edges that lead to them, for comparison."""
    inside = [spec for spec in graph.nodes if node_id in (spec.id, *graph.around(spec.id))]
    ids = {spec.id for spec in inside}
    own = [(spec.id, spec.type, repr(plain(spec.params)), spec.parent) for spec in inside]
    edges = [(edge.source, edge.port, edge.target) for edge in graph.edges if edge.target in ids]
    return (*sorted(own), *sorted(edges))


class Replay(BaseOperator[Any]):
    """Operator that returns a node's message of an earlier run.

    Args:
        message: The message; None if the node gave none, in whose place an empty one is returned.
        only: True to choose no port, so that all successors run.
    """

    asks_model = False

    def __init__(
        self, node_id: str, message: WorkflowMessage | None, ports: tuple[str, ...] = (), *, only: bool
    ) -> None:
        self._id = node_id
        self._is_kept = message is not None
        message = (message or WorkflowMessage(operator_id=node_id)).changed(usage=NO_USAGE)  # it costs nothing again
        self._message = message.model_copy(update={"ports": None}) if only else message
        self._ports = () if only else ports

    def get_id(self) -> str:
        """Return the node's id."""
        return self._id

    @property
    def ports(self) -> tuple[str, ...]:
        """The ports of the node."""
        return self._ports

    @property
    def instruction(self) -> str:
        """Origin of the message."""
        return "Returns its message of the last run."

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Return the message."""
        if self._is_kept:
            emit(MessageKept())
        return self._message


def node_alone(graph: NodeGraph, node_id: str, last: RunValues | None, services: Services) -> Workflow:
    """Return a workflow that runs one node, with the values that it reads from the last run.

    A node inside a container reads the values of the container's last pass.

    Raises:
        InputError: The node does not exist, or the last run lacks a value that it reads.
        InvalidError: The workflow has faults; every issue is listed.
    """
    node = _operator_of(graph, node_id, services)
    _check_container_values(graph, node_id, node, last)
    workflow = BuiltinWorkflow(name=f"{graph.name}: {node_id}")
    known = {**last.messages, **_container_messages(graph, node_id, last)} if last else {}
    read = [each for each in node.reads if each != node_id]
    missing = [
        each for each in read if each not in known and each != CONVERSATION and _was_not_skipped(graph, each, last)
    ]
    if missing:
        raise InputError(
            f"node {node_id!r} reads {shorten(missing)}, without a value in the last run; run the whole workflow once, or give or pin it"
        )
    replays = [Replay(each, known.get(each), only=True) for each in read]
    for each in replays:
        workflow.add_operator(each, [])
    workflow.add_operator(node, replays)
    return workflow


def give(workflow: Workflow, graph: NodeGraph, messages: Mapping[str, WorkflowMessage | None]) -> None:
    """Let nodes give messages, or None for an empty one, in place of running, also inside of containers."""
    for node_id, message in messages.items():
        level: Workflow | None = workflow
        for container in reversed(graph.around(node_id)):
            holder = level.get_operator(container) if level else None
            level = holder.body if isinstance(holder, NodeOperator) else None  # a pinned container does not run
        operator = level.get_operator(node_id) if level else None
        if level and isinstance(operator, BaseOperator):
            level.update_operator(Replay(node_id, message, tuple(operator.ports), only=False))


def with_given(
    graph: NodeGraph, node_id: str, last: RunValues | None, messages: Mapping[str, WorkflowMessage]
) -> RunValues:
    """Return the values of the last run with other messages, for a run of one node.

    Of a container around the node, a message replaces what the container gives to the nodes inside it.
    """
    known = last.copy(last.graph) if last else RunValues(NodeGraph())
    for each, message in messages.items():
        place = known.items if each in graph.around(node_id) else known.messages
        before = place[each].outputs if each in place else {}
        place[each] = message.model_copy(update={"outputs": {**before, **message.outputs}})
    return known


def _check_container_values(graph: NodeGraph, node_id: str, node: NodeOperator[Any], last: RunValues | None) -> None:
    """Check that the last pass stored the variables that a node reads from the containers around it."""
    for container in graph.around(node_id):
        stored = last.items[container].outputs if last and container in last.items else {}
        read = [each.selector.variable for each in node.references if each.selector.node == container]
        missing = [repr(each) for each in dict.fromkeys(read) if each not in (stored or {})]
        if not missing:
            continue
        message = f"node {node_id!r} reads {shorten(missing)} of the {graph.by_id[container].type} {container!r}"
        if graph.by_id[container].type == "loop":
            raise InputError(
                f"{message}, which changes from pass to pass and is not kept; run {container!r} alone instead"
            )
        raise InputError(f"{message}, without a value in the last run; run the whole workflow once, or give it")


def _container_messages(graph: NodeGraph, node_id: str, last: RunValues) -> dict[str, WorkflowMessage]:
    """Return the messages of the containers around a node for the nodes inside, not their final messages."""
    return {
        container: last.items.get(container, WorkflowMessage(operator_id=container))
        for container in graph.around(node_id)
    }


def _was_not_skipped(graph: NodeGraph, node_id: str, last: RunValues | None) -> bool:
    """Return True if the last run did not skip a node: there was no run, it lacked the node, or the node failed."""
    return last is None or not last.messages or node_id not in last.graph.by_id or node_id in last.errors


def workflow_from(
    graph: NodeGraph,
    node_id: str,
    last: RunValues | None,
    services: Services,
    pinned: Mapping[str, WorkflowMessage] = MappingProxyType({}),
) -> tuple[Workflow, frozenset[str]]:
    """Return a workflow in which a node and all nodes after it run, and the nodes whose messages are reused.

    Nodes that have changed since they ran, or ran before a node before them, and all nodes after them, run again, too.
    Pinned nodes give their values; nodes that only lead to pinned ones need no value.

    Raises:
        InputError: The node does not exist, or there was no run.
        InvalidError: The workflow has faults; every issue is listed.
    """
    node = _operator_of(graph, node_id, services)
    if holder := graph.by_id[node_id].parent:
        raise InputError(f"node {node_id!r} runs inside {holder!r}; begin at {holder!r}, or run the node alone")
    others = {each: message for each, message in pinned.items() if each != node_id}
    outer = [spec.id for spec in graph.nodes if not spec.parent]
    rerun = set(_with_successors(graph, [node.get_id()])) - others.keys()
    if last is None or not last.messages:
        before = {edge.source for edge in graph.edges if edge.target in rerun}
        read = {each for inner in rerun for each in _operator_of(graph, inner, services).reads}
        if missing := [each for each in outer if each in before | read and each not in rerun and each not in others]:
            raise InputError(f"{shorten(missing)}: without a value; pin one, or run the whole workflow once")
    else:
        given = {graph.around(each)[-1] if graph.around(each) else each for each in _other_values(others, last)}
        outdated = {each for each in last.outdated(graph) if each not in others} | given
        rerun |= set(_with_successors(graph, sorted(outdated))) - others.keys()
    known = {**(last.messages if last else {}), **others}
    reused = frozenset(each for each in outer if each not in rerun)
    workflow = assemble(graph, NODE_TYPES, services=services, lossy=True)
    give(workflow, graph, {**others, **{each: known.get(each) for each in reused}})
    return workflow, reused


def _other_values(messages: Mapping[str, WorkflowMessage], last: RunValues) -> Iterator[str]:
    """Yield the nodes whose values are others than in the last run."""
    for node_id, message in messages.items():
        before = last.messages.get(node_id)
        if before is None or (before.outputs, before.ports) != (message.outputs, message.ports):
            yield node_id


class ReplayedOperator(Replay):
    """Operator of an expert that returns its message of an earlier run first, and runs in later rounds.

    Args:
        operator: The operator, which evaluators see.
    """

    def __init__(self, operator: BaseOperator[Any], message: WorkflowMessage, *, only: bool) -> None:
        super().__init__(operator.get_id(), message, tuple(operator.ports), only=only)
        self._operator = operator
        self._has_replayed = False
        self.gives_items = operator.gives_items
        self.asks_model = operator.asks_model

    @property
    def instruction(self) -> str:
        """Purpose of the operator."""
        return self._operator.instruction

    @property
    def answer_type(self) -> Any:
        """Type of the operator's answers."""
        return self._operator.answer_type

    @property
    def has_tools(self) -> bool:
        """True if the operator has tools."""
        return self._operator.has_tools

    def read_output(self, message: WorkflowMessage) -> Any:
        """Return the answer in a message of the operator."""
        return self._operator.read_output(message)

    async def run(self, call: OperatorCall) -> Any:
        """Return the message; later, the answer of the operator."""
        if self._has_replayed:
            return await self._operator.run(call)
        self._has_replayed = True
        return await super().run(call)


def part_of_expert(
    workflow: Workflow, graph: NodeGraph, node_id: str, last: RunValues | None, *, alone: bool
) -> frozenset[str]:
    """Make the workflow of an expert run an operator or evaluator alone, or from it on; return the reused operators.

    Args:
        workflow: The workflow, which is changed.
        graph: The parts of the expert.

    Raises:
        InputError: The part does not exist, or the last run lacks a message that it needs.
    """
    spec = graph.by_id.get(node_id)
    if spec is None or spec.type in (EXPERT, LEADER):
        raise InputError(f"there is no operator {node_id!r}{did_you_mean(node_id, graph.by_id)}")
    if last is None or not last.messages:
        raise InputError("there was no run of this expert yet; run the whole once")
    steps = {each.id for each in steps_of(graph)}
    if alone:
        needed = steps if spec.type == EVALUATOR else set(_predecessors(graph, node_id))
        for operator_id in steps - needed - {node_id}:
            workflow.remove_operator(operator_id)
        judges = [each for each in workflow.graph().evaluators if each.get_id() == node_id]
        workflow.set_evaluator(judges[0] if judges else None)
        workflow.max_rounds = 1
        reused = needed
    else:
        reused = steps - set(_with_successors(graph, [node_id, *last.outdated(graph)]))
    for operator_id in reused:
        operator: Any = workflow.get_operator(operator_id)
        message = last.messages.get(operator_id)
        if message is None and alone:
            if _was_not_skipped(graph, operator_id, last):
                raise InputError(
                    f"{node_id!r} needs {operator_id!r}, without a value in the last run; run the whole once"
                )
            workflow.remove_operator(operator_id)
        elif message is not None:
            workflow.update_operator(ReplayedOperator(operator, message, only=alone and spec.type != EVALUATOR))
    return frozenset(reused)


def _predecessors(graph: NodeGraph, node_id: str) -> Iterator[str]:
    """Yield all nodes before a node."""
    seen, pending = {node_id}, [node_id]
    while pending:
        current = pending.pop()
        new = {edge.source for edge in graph.edges if edge.target == current} - seen
        yield from new
        seen |= new
        pending += new


def _with_successors(graph: NodeGraph, nodes: list[str]) -> Iterator[str]:
    """Yield nodes and all nodes after them."""
    seen, pending = set(nodes), list(nodes)
    while pending:
        current = pending.pop()
        yield current
        new = {edge.target for edge in graph.edges if edge.source == current} - seen
        seen |= new
        pending += new


def _operator_of(graph: NodeGraph, node_id: str, services: Services) -> NodeOperator[Any]:
    """Return the operator of a node; raise InputError if it does not exist or cannot run by itself."""
    spec = graph.by_id.get(node_id)
    if spec is None:
        raise InputError(f"there is no node {node_id!r}{did_you_mean(node_id, graph.by_id)}")
    workflow = assemble(graph, NODE_TYPES, services=services, lossy=True)
    for container in reversed(graph.around(node_id)):
        container_operator = workflow.get_operator(container)
        if not isinstance(container_operator, NodeOperator) or container_operator.body is None:
            raise InputError(f"node {node_id!r}: {container!r}, which it runs inside, cannot run")
        workflow = container_operator.body
    found = workflow.get_operator(node_id)
    if not isinstance(found, NodeOperator):
        raise InputError(f"node {node_id!r} cannot run by itself")
    return cast("NodeOperator[Any]", found)


def read_values(graph: NodeGraph, node_id: str, messages: Mapping[str, WorkflowMessage]) -> dict[str, Any]:
    """Return the values that a node read, by the names of the variables; of an operator, the results before it."""
    spec = graph.by_id.get(node_id)
    if spec is not None and spec.type == OPERATOR:
        before = dict.fromkeys(edge.source for edge in graph.edges if edge.target == node_id)
        return {each: messages[each].outputs or messages[each].scratchpad for each in before if each in messages}
    variables = Variables(message.model_copy(update={"operator_id": known}) for known, message in messages.items())
    return {str(selector): variables.get(selector) for selector in selectors_of(graph, node_id)}


def selectors_of(graph: NodeGraph, node_id: str) -> list[Selector]:
    """Return the variables that a node reads; those of a container are not those that nodes inside it read."""
    spec = graph.by_id.get(node_id)
    kind = NODE_TYPES.get(spec.type) if spec else None
    if spec is None or kind is None:
        return []
    found = references_in(kind.params_type, readable(kind.params_type, spec.params))
    return list(dict.fromkeys(reference.selector for reference in found))
