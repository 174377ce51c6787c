"""Functions as evaluators: they return a verdict, or raise an error that becomes one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from msgspec.structs import replace as changed
from pydantic import JsonValue

from operad.runtime.events import current_scope
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.values.arguments import short_repr
from operad.runtime.values.errors import FaultError, InputError, Issue
from operad.runtime.values.message import WorkflowMessage, WorkflowStatus
from operad.runtime.workflow.function import FunctionOperator
from operad.runtime.workflow.records import transcript
from operad.runtime.workflow.verdict import LONGEST_LESSON


class FunctionEvaluator(BaseOperator[Any]):
    """Evaluator that calls a function; ``Workflow(…, evaluator=function)`` creates it.

    Args:
        function: The function. Its parameters are bound like those of an operator after the last operators; they may
            also have the names of earlier operators.
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

    @property
    def deps_type(self) -> str:
        """Name of the type of the deps that a parameter of the function requires."""
        return self.function.deps_type

    def inputs_read(self, is_first: bool) -> Collection[str] | None:
        """Return None if the function takes the job, whose inputs it may read; otherwise an empty list."""
        return self.function.inputs_read(is_first=False)

    def get_id(self) -> str:
        """Return the id of the function."""
        return self.function.get_id()

    def settle_id(self, is_taken: Callable[[str], bool]) -> None:
        """Make the id different from the ids that are taken, unless the user chose it or it is already unique."""
        self.function.settle_id(is_taken)

    def check(self, before: Mapping[str, BaseOperator]) -> list[Issue]:
        """Return the issues of the function's parameters."""
        return self.function.check(before)

    def check_among(self, before: Mapping[str, BaseOperator], others: Collection[str]) -> list[Issue]:
        """Return the issues of the function's parameters, which may have the name of any operator of the workflow."""
        issues = self.function.check_among(before, others)
        if not issues or not before:
            return issues
        earlier = dict.fromkeys((operator_id for operator_id in others if operator_id not in before), self)
        return self.function.check({**before, **earlier})

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return the fingerprint of the function."""
        return self.function.fingerprint()

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Call the function, and return its verdict: SUCCESS for None, EXECUTION_ERROR for a `FaultError`.

        Raises:
            InputError: The function returns a value other than None or a `WorkflowMessage`.
        """
        try:
            returned = await self.returned(call)
        except FaultError as fault:
            return WorkflowMessage(
                status=WorkflowStatus.EXECUTION_ERROR,
                evaluation=str(fault),
                lesson=fault.lesson or str(fault)[:LONGEST_LESSON],
                faults=fault.faults,
                blame=fault.blame,
            )
        if returned is None:
            return WorkflowMessage()
        if isinstance(returned, WorkflowMessage):
            return returned
        raise InputError(
            f"evaluator {self.get_id()!r} returned {short_repr(returned)}; return None if the result is right, raise "
            "FaultError(…, lesson='…') if it is wrong, or return a WorkflowMessage with a status"
        )

    async def returned(self, call: OperatorCall) -> Any:
        """Call the function with the answers of the last operators and of earlier ones that its parameters name."""
        scope = current_scope()
        operators: Collection[str] = scope.run.build.graph.operators if scope else ()
        before = list(dict.fromkeys(m.operator_id for m in call.messages if m.operator_id in operators))
        further = self.function.further(before, operators) if before else ()
        if not further:
            return await self.function.returned(call)
        messages = [step.message for step in transcript() if step.operator_id in further]
        return await self.function.returned(changed(call, messages=(*messages, *call.messages)), (*before, *further))
