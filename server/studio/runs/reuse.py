"""Runs of a part of a workflow: one node alone, or a node and all after it, with the messages of the last run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
from operad.runtime.events import MessageKept, emit
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.values.errors import InputError, did_you_mean, shorten
from operad.runtime.values.message import WorkflowMessage
from operad.runtime.workflow.workflow import BuiltinWorkflow, Workflow


@dataclass
class LastRun:
    """Messages of the nodes of a workflow, of the last run of each.

    Attributes:
        graph: The workflow that ran.
        messages: The messages, by node.
        errors: The errors of the nodes that failed.
        inputs: Inputs of the last whole run.
        specs: The nodes as they were when they ran, by node.
        items: Per container, what its nodes were given of it in the last pass.
    """

    graph: NodeGraph
    messages: dict[str, WorkflowMessage] = field(default_factory=dict[str, WorkflowMessage])
    errors: dict[str, str] = field(default_factory=dict[str, str])
    inputs: dict[str, Any] = field(default_factory=dict[str, Any])
    specs: dict[str, Any] = field(default_factory=dict[str, Any])
    items: dict[str, WorkflowMessage] = field(default_factory=dict[str, WorkflowMessage])

    def note(self, node_id: str, message: WorkflowMessage) -> None:
        """Keep the message of a node."""
        self.messages[node_id] = message
        self.errors.pop(node_id, None)
        if node_id in self.graph.by_id:
            self.specs[node_id] = _content(self.graph, node_id)

    def is_current(self, graph: NodeGraph, node_id: str) -> bool:
        """Return True if a node ran as it stands now."""
        return node_id in self.messages and self.specs.get(node_id) == _content(graph, node_id)


def _content(graph: NodeGraph, node_id: str) -> tuple[Any, ...]:
    """The node, what runs inside it, and the edges that lead to it."""
    inside = [spec for spec in graph.nodes if _is_inside(graph, spec.id, node_id)]
    ids = {spec.id for spec in inside}
    own = [(spec.id, spec.type, repr(plain(spec.params)), spec.parent) for spec in inside]
    edges = [(each.source, each.port, each.target) for each in graph.edges if each.target in ids]
    return (*sorted(own), *sorted(edges))


def _is_inside(graph: NodeGraph, node_id: str, holder: str) -> bool:
    seen: set[str] = set()
    while node_id in graph.by_id and node_id not in seen:
        if node_id == holder:
            return True
        seen.add(node_id)
        node_id = graph.by_id[node_id].parent
    return False


class Replay(BaseOperator[Any]):
    """Gives the message that a node gave in an earlier run.

    Args:
        node_id: The node.
        message: Its message.
        lets_through: True to take no port, so that all that follows runs.
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
        return "Gives its message of the last run."

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Give the message."""
        emit(MessageKept())
        return self._message


def node_alone(graph: NodeGraph, node_id: str, last: LastRun | None, services: Services) -> Workflow:
    """Return the workflow that runs one node, with what it reads as it was in the last run.

    A node inside a container reads what the last pass gave it.

    Raises:
        InputError: There is no such node, or the last run has no value that it needs.
        InvalidError: Something is wrong with the workflow; every issue is listed.
    """
    node = _node(graph, node_id, services)
    _require_around(graph, node_id, node, last)
    workflow = BuiltinWorkflow(name=f"{graph.name}: {node_id}")
    known = {**last.messages, **_around(graph, node_id, last)} if last else {}
    wanted = [each for each in node.reads if each != node_id]
    missing = [each for each in wanted if each not in known and each != CONVERSATION and _must_be(graph, each, last)]
    if missing:
        raise InputError(
            f"node {node_id!r} reads {shorten(missing)}, without a value in the last run; run the whole workflow once"
        )
    before = [Replay(each, known.get(each, WorkflowMessage(operator_id=each)), only=True) for each in wanted]
    for each in before:
        workflow.add_operator(each, [])
    workflow.add_operator(node, before)
    return workflow


def _require_around(graph: NodeGraph, node_id: str, node: NodeOperator[Any], last: LastRun | None) -> None:
    """See that each variable of a container around a node, which the node reads, was kept in the last pass.

    Raises:
        InputError: It was not: a run keeps the item and the index of an iteration, and nothing of a loop.
    """
    for holder in _holders(graph, node_id):
        given = last.items[holder].outputs if last and holder in last.items else {}
        read = [each.selector.variable for each in node.references if each.selector.node == holder]
        missing = [repr(each) for each in dict.fromkeys(read) if each not in (given or {})]
        if not missing:
            continue
        what = f"node {node_id!r} reads {shorten(missing)} of the {graph.by_id[holder].type} {holder!r}"
        if graph.by_id[holder].type == "loop":
            raise InputError(f"{what}, which changes from pass to pass and is not kept; run {holder!r} alone instead")
        raise InputError(f"{what}, without a value in the last run; run the whole workflow once")


def _around(graph: NodeGraph, node_id: str, last: LastRun) -> dict[str, WorkflowMessage]:
    """Messages of the containers around a node to what runs inside, instead of those that they ended with."""
    return {each: last.items.get(each, WorkflowMessage(operator_id=each)) for each in _holders(graph, node_id)}


def _holders(graph: NodeGraph, node_id: str) -> list[str]:
    """The containers around a node, the innermost first."""
    found: list[str] = []
    while (holder := graph.by_id[node_id].parent) in graph.by_id and holder not in found:
        found.append(holder)
        node_id = holder
    return found


def _must_be(graph: NodeGraph, node_id: str, last: LastRun | None) -> bool:
    """True if there was no run at all that could have skipped a node."""
    return last is None or not last.messages or node_id not in last.graph.by_id or node_id in last.errors


def workflow_from(
    graph: NodeGraph, node_id: str, last: LastRun | None, services: Services
) -> tuple[Workflow, frozenset[str]]:
    """Return the workflow in which a node and all after it run, and the nodes whose messages are reused.

    A node that was changed since its last run runs again, with all after it.

    Raises:
        InputError: There is no such node, or there was no run.
        InvalidError: Something is wrong with the workflow; every issue is listed.
    """
    node = _node(graph, node_id, services)
    if holder := graph.by_id[node_id].parent:
        raise InputError(f"node {node_id!r} runs inside {holder!r}; begin at {holder!r}, or run the node alone")
    if last is None or not last.messages:
        raise InputError("there was no run of this workflow yet; run the whole workflow once")
    workflow = assemble(graph, NODE_TYPES, services=services, lossy=True)
    again = set(_after(graph, [node.get_id()]))
    changed = [each.id for each in graph.nodes if not each.parent and not last.is_current(graph, each.id)]
    again |= set(_after(graph, changed))
    reused = frozenset(each.id for each in graph.nodes if not each.parent and each.id not in again)
    for operator in list(workflow.get_operators()):
        node_id = operator.get_id()
        if isinstance(operator, BaseOperator) and node_id in reused:
            workflow.update_operator(Replay(node_id, last.messages[node_id], tuple(operator.ports), only=False))
    return workflow, reused


def _after(graph: NodeGraph, nodes: list[str]) -> Iterator[str]:
    """Nodes, and all that come after them."""
    seen, open_ = set(nodes), list(nodes)
    while open_:
        here = open_.pop()
        yield here
        new = {each.target for each in graph.edges if each.source == here} - seen
        seen |= new
        open_ += new


def _node(graph: NodeGraph, node_id: str, services: Services) -> NodeOperator[Any]:
    """The operator of a node, in a workflow that is sound."""
    spec = graph.by_id.get(node_id)
    if spec is None:
        raise InputError(f"there is no node {node_id!r}{did_you_mean(node_id, graph.by_id)}")
    workflow = assemble(graph, NODE_TYPES, services=services, lossy=True)
    for holder in reversed(_holders(graph, node_id)):
        around = workflow.get_operator(holder)
        if not isinstance(around, NodeOperator) or around.body is None:
            raise InputError(f"node {node_id!r}: {holder!r}, which it runs inside, cannot run")
        workflow = around.body
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
    return {str(each.selector): variables.get(each.selector) for each in references_in(kind.params_type, found)}
