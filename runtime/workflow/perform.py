"""Execution of one operator in a run, and its message."""

from __future__ import annotations

from collections.abc import Sequence

from operad.runtime.events import Scope
from operad.runtime.graph.build import Node
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.operator import Answer
from operad.runtime.policies.policy import NO_BUDGET
from operad.runtime.values.errors import PortError, did_you_mean
from operad.runtime.values.message import NO_USAGE, WorkflowMessage
from operad.runtime.workflow.attempts import run_with_policy
from operad.runtime.workflow.verdict import bearing


async def perform(node: Node, call: OperatorCall, scope: Scope) -> WorkflowMessage:
    """Run an operator with its policy, and return its message.

    Args:
        node: The operator.
        call: Its input.
        scope: Where it runs.

    Raises:
        BaseException: The error of the last attempt, where there is no fallback.
    """
    return completed(await run_with_policy(node, call, scope), node, call, scope)


def completed(said: Answer, node: Node, call: OperatorCall, scope: Scope) -> WorkflowMessage:
    """Return an operator's answer as its own message, with its usage.

    Args:
        said: The answer.
        node: The operator.
        call: Its input.
        scope: Its context in the run.

    Raises:
        TypeError: It is not a message, or an evaluator's is plain text.
        PortError: It takes a port that the operator does not have.
        BudgetError: The run has used more than its budget.
    """
    budget = scope.run.budget
    if isinstance(said, str):
        if node.judges:
            raise TypeError("an evaluator returns a message with a status, not text")
        if budget is not NO_BUDGET:
            scope.run.check_budget()
        return WorkflowMessage.of_text(said, scope.operator_id, call.job.id, scope.usage)
    if not isinstance(said, WorkflowMessage):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"execute returned {type(said).__name__}, not a WorkflowMessage or text")
    passed_on = bool(said.operator_id) and any(said is message for message in call.messages)
    if scope.usage is NO_USAGE and said.usage is not NO_USAGE and not passed_on:
        scope.charge(said.usage)  # it kept an account of its own
    if budget is not NO_BUDGET:
        scope.run.check_budget()  # it may have gone on after it was told
    if call.judged is not None:
        said = bearing(said, call.judged)
    elif passed_on and said.operator_id != scope.operator_id:
        said = said.model_copy(update={"ports": None})
    elif said.ports is not None:
        _check_ports(node, said.ports)
    return said.stamped(scope.operator_id, call.job.id, scope.usage)


def _check_ports(node: Node, taken: Sequence[str]) -> None:
    known = node.operator.ports or node.used_ports
    unknown = [port for port in taken if port not in known] if known else []
    if unknown:
        hint = did_you_mean(unknown[0], known)
        raise PortError(f"it takes port {unknown[0]!r}, which it does not have{hint}: {', '.join(sorted(known))}")
