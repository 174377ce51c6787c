"""Breakpoints: nodes before which a run of the studio waits, and steps from node to node."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from msgspec.structs import replace

from operad.flows.check import CONVERSATION
from operad.flows.formats.shapes import fields_of
from operad.flows.node_graph import NodeGraph
from operad.operators.node import NodeOperator
from operad.runtime.events.interrupts import interrupt
from operad.runtime.graph.call import OperatorCall
from operad.runtime.values.errors import InputError
from operad.runtime.values.message import WorkflowMessage
from operad.runtime.workflow.workflow import Workflow
from operad.server.studio.runs.pin_routes import given_messages
from operad.server.studio.runs.uploads import Uploads

BREAKPOINT = "Breakpoint"
"""Title of the schema of a question that is a breakpoint; the page shows it with the values that the node reads."""

_SCHEMA = {
    "title": BREAKPOINT,
    "type": "object",
    "properties": {"go": {"enum": ["continue", "step"]}, "values": {"type": "object"}},
    "required": ["go"],
}
_NO_STOP = frozenset({CONVERSATION, "iteration-start", "loop-start"})


class Breakpoints:
    """Breakpoints of one run.

    Args:
        graph: The workflow.
        nodes: The nodes before which the run waits.
        step: True to wait before each node, until an answer says to continue.
        uploads: Store of files that answers give.
    """

    def __init__(self, graph: NodeGraph, nodes: Collection[str], uploads: Uploads, *, step: bool) -> None:
        self._graph = graph
        self._nodes = frozenset(nodes)
        self._uploads = uploads
        self._stepping = step

    def set_in(self, workflow: Workflow) -> None:
        """Let the nodes of a workflow, and those inside of its containers, wait."""
        for operator in workflow.get_operators():
            if isinstance(operator, NodeOperator) and operator.type not in _NO_STOP:
                operator.before = self._before
                if operator.body is not None:
                    self.set_in(operator.body)

    async def _before(self, node_id: str, call: OperatorCall) -> OperatorCall:
        """Wait if there is a breakpoint at a node; return its call, with the values that the answer gives."""
        if not self._stepping and node_id not in self._nodes:
            return call
        question = "The run waits before this node."
        while True:
            answer = fields_of(await interrupt(question, _SCHEMA))
            try:
                given = given_messages(self._graph, node_id, fields_of(answer.get("values")), self._uploads)
            except InputError as error:
                question = f"{error}. The run still waits before this node."
                continue
            self._stepping = answer.get("go") == "step"
            return replace(call, messages=_changed(call.messages, given))


def _changed(
    messages: tuple[WorkflowMessage, ...], given: Mapping[str, WorkflowMessage]
) -> tuple[WorkflowMessage, ...]:
    """Return messages with the outputs that are given in place of theirs."""
    known = {message.operator_id: message for message in messages}
    for node_id, message in given.items():
        before: dict[str, Any] = known[node_id].outputs if node_id in known else {}
        known[node_id] = known.get(node_id, message).model_copy(update={"outputs": {**before, **message.outputs}})
    return tuple(known.values())
