"""Functions as evaluators: they return a verdict, or raise an error that becomes one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

from msgspec.structs import replace as changed
from pydantic import JsonValue

from operad.runtime.events import current_scope
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.values.errors import FaultError, InputError, Issue
from operad.runtime.values.message import WorkflowMessage, WorkflowStatus
from operad.runtime.values.output import shown
from operad.runtime.workflow.function import FunctionOperator
from operad.runtime.workflow.transcript import transcript
from operad.runtime.workflow.verdict import LONGEST_LESSON


class FunctionEvaluator(BaseOperator[Any]):
    """A function as an evaluator; ``Workflow(…, evaluator=function)`` makes one.

    Args:
        function: The function. Its parameters are bound as those of an operator after the last operators; they may also be named after
            any earlier operator.
    """

    def __init__(self, function: FunctionOperator[Any]) -> None:
        self.function = function
        self.policy = function.policy

    @property
    def added(self) -> FunctionOperator[Any]:
        """The function."""
        return self.function

    @property
    def instruction(self) -> str:
        """The first line of the function's docstring."""
        return self.function.instruction

    @property
    def reads_lesson(self) -> bool:
        """True if the function takes a `RunContext` or a `Reasoner`."""
        return self.function.reads_lesson

    def get_id(self) -> str:
        """Return the id of the function."""
        return self.function.get_id()

    def settle_id(self, taken: Collection[str]) -> None:
        """Make the id unique among those that are taken, unless it was chosen or is settled."""
        self.function.settle_id(taken)

    def check(self, before: Mapping[str, BaseOperator]) -> list[Issue]:
        """Return what is wrong with the function's parameters."""
        return self.function.check(before)

    def check_among(self, before: Mapping[str, BaseOperator], others: Collection[str]) -> list[Issue]:
        """Return the issues of `check`; parameters may be named after any operator of the workflow."""
        issues = self.function.check_among(before, others)
        if not issues or not before:
            return issues
        return self.function.check({**before, **dict.fromkeys((each for each in others if each not in before), self)})

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return what tells the function from others."""
        return self.function.fingerprint()

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Call the function, and return its verdict: SUCCESS for None, EXECUTION_ERROR for a `FaultError`.

        Raises:
            InputError: The function returns something else than None or a `WorkflowMessage`.
        """
        try:
            said = await self._returned(call)
        except FaultError as fault:
            return WorkflowMessage(
                status=WorkflowStatus.EXECUTION_ERROR,
                evaluation=str(fault),
                lesson=fault.lesson or str(fault)[:LONGEST_LESSON],
                blame=fault.blame,
            )
        if said is None:
            return WorkflowMessage()
        if isinstance(said, WorkflowMessage):
            return said
        raise InputError(
            f"evaluator {self.get_id()!r} returned {shown(said)}; return None if the result is right, raise "
            "FaultError(…, lesson='…') if it is wrong, or return a WorkflowMessage with a status"
        )

    async def _returned(self, call: OperatorCall) -> Any:
        """Call the function, also with the answers of the earlier operators that its parameters name."""
        scope = current_scope()
        operators: Collection[str] = cast("Any", scope.run).build.graph.operators if scope else ()
        before = list(dict.fromkeys(m.operator_id for m in call.messages if m.operator_id in operators))
        further = self.function.further(before, operators) if before else ()
        if not further:
            return await self.function.returned(call)
        messages = [step.message for step in transcript() if step.operator_id in further]
        return await self.function.returned(changed(call, messages=(*messages, *call.messages)), (*before, *further))
