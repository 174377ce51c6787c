"""Runs of a part of a workflow, one node or a node and its successors, with messages of the last run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from operad.flows.assemble import assemble
from operad.flows.check import CONVERSATION
from operad.flows.node_graph import NodeGraph
from operad.operators.node import NodeOperator
from operad.operators.node_params import readable, references_in
from operad.operators.nodes import NODE_TYPES
from operad.operators.services import Services
from operad.operators.variables import Variables, plain
from operad.runtime.events import Event, MessageKept, OperatorFailed, OperatorFinished, WorkflowEntered, emit
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.values.errors import InputError, did_you_mean, shorten
from operad.runtime.values.map_item import MapItem, without_index
from operad.runtime.values.message import WorkflowMessage
from operad.runtime.workflow.workflow import BuiltinWorkflow, Workflow


@dataclass
class RunValues:
    """Messages of the nodes of a workflow, each from the last run of the node.

    Attributes:
        graph: The workflow that ran.
        errors: The errors of the nodes that failed.
        specs: The contents of nodes when they last ran, by node.
        items: Values that each container gave to the nodes inside it in the last pass, by container.
    """

    graph: NodeGraph
    messages: dict[str, WorkflowMessage] = field(default_factory=dict[str, WorkflowMessage])
    errors: dict[str, str] = field(default_factory=dict[str, str])
    inputs: dict[str, Any] = field(default_factory=dict[str, Any])
    specs: dict[str, Any] = field(default_factory=dict[str, Any])
    items: dict[str, WorkflowMessage] = field(default_factory=dict[str, WorkflowMessage])

    def copy(self, graph: NodeGraph) -> RunValues:
        """Return a copy for a run of a part of a workflow, which replaces only the messages of that part."""
        parts = {name: dict(getattr(self, name)) for name in ("messages", "errors", "inputs", "specs", "items")}
        return RunValues(graph, **parts)

    def apply(self, event: Event, reused: Collection[str] = ()) -> None:
        """Store what an event says of a node.

        Args:
            reused: Nodes that only gave messages of an earlier run.
        """
        node_id = without_index(event.path[-1]) if event.path else ""
        if isinstance(event, OperatorFinished) and node_id in reused:
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
        for spec in graph.nodes:
            before = [edge.source for edge in graph.edges if edge.target == spec.id]
            ran = order.get(spec.id, -1)
            if not spec.parent and not (
                self.is_current(graph, spec.id) and all(order.get(each, -1) <= ran for each in before)
            ):
                yield spec.id

    def is_current(self, graph: NodeGraph, node_id: str) -> bool:
        """Return True if a node has run and has not changed since."""
        return node_id in self.messages and self.specs.get(node_id) == _node_content(graph, node_id)


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
        only: True to choose no port, so that all successors run.
    """

    asks_model = False

    def __init__(self, node_id: str, message: WorkflowMessage, ports: tuple[str, ...] = (), *, only: bool) -> None:
        self._id = node_id
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
            f"node {node_id!r} reads {shorten(missing)}, without a value in the last run; run the whole workflow once"
        )
    replays = [Replay(each, known.get(each, WorkflowMessage(operator_id=each)), only=True) for each in read]
    for each in replays:
        workflow.add_operator(each, [])
    workflow.add_operator(node, replays)
    return workflow


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
        raise InputError(f"{message}, without a value in the last run; run the whole workflow once")


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
    graph: NodeGraph, node_id: str, last: RunValues | None, services: Services
) -> tuple[Workflow, frozenset[str]]:
    """Return a workflow in which a node and all nodes after it run, and the nodes whose messages are reused.

    Nodes that have changed since they ran, or ran before a node before them, and all nodes after them, run again, too.

    Raises:
        InputError: The node does not exist, or there was no run.
        InvalidError: The workflow has faults; every issue is listed.
    """
    node = _operator_of(graph, node_id, services)
    if holder := graph.by_id[node_id].parent:
        raise InputError(f"node {node_id!r} runs inside {holder!r}; begin at {holder!r}, or run the node alone")
    if last is None or not last.messages:
        raise InputError("there was no run of this workflow yet; run the whole workflow once")
    workflow = assemble(graph, NODE_TYPES, services=services, lossy=True)
    rerun = set(_with_successors(graph, [node.get_id()]))
    rerun |= set(_with_successors(graph, list(last.outdated(graph))))
    reused = frozenset(spec.id for spec in graph.nodes if not spec.parent and spec.id not in rerun)
    for operator in list(workflow.get_operators()):
        node_id = operator.get_id()
        if isinstance(operator, BaseOperator) and node_id in reused:
            workflow.update_operator(Replay(node_id, last.messages[node_id], tuple(operator.ports), only=False))
    return workflow, reused


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
    """Return the values that a node read, by the names of the variables."""
    spec = graph.by_id.get(node_id)
    kind = NODE_TYPES.get(spec.type) if spec else None
    if spec is None or kind is None:
        return {}
    variables = Variables(message.model_copy(update={"operator_id": known}) for known, message in messages.items())
    found = readable(kind.params_type, spec.params)
    return {
        str(reference.selector): variables.get(reference.selector)
        for reference in references_in(kind.params_type, found)
    }
