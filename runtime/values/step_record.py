"""Records of the operators of a run, for evaluators."""

from __future__ import annotations

from operad.runtime.values.message import WorkflowMessage
from operad.runtime.values.value import Record


class ToolUse(Record):
    """Call of a tool, with its result.

        use = ToolUse(tool="search", arguments='{"claim": "The moon has air."}', result="It has none.")
        print(use)  # search({"claim": "The moon has air."}): It has none.

    Attributes:
        tool: Name of the tool.
        arguments: Arguments as JSON text.
        result: Result or error, as the model was shown it.
        failed: True if the call failed.
    """

    tool: str
    arguments: str = ""
    result: str = ""
    failed: bool = False

    def __str__(self) -> str:
        return f"{self.tool}({self.arguments}){' failed' * self.failed}: {self.result}"


class StepRecord(Record):
    """Record of an operator in a run.

        class Short(Evaluator):
            async def run(self, call: OperatorCall) -> WorkflowMessage:
                long: list[StepRecord] = [step for step in transcript() if len(step.message.scratchpad) > 500]
                if not long:
                    return WorkflowMessage(evaluation="short enough")
                blame = [step.operator_id for step in long]
                return WorkflowMessage(status=WorkflowStatus.EXECUTION_ERROR, lesson="Be brief.", blame=blame)

        Workflow(facts >> answer, evaluator=Short("Brief texts."), max_rounds=2).run("hello")

    Attributes:
        operator_id: The operator; for an operator inside of a nested workflow or a map, its place: ``draft/body``,
            ``sums[3]``.
        instruction: Purpose of the operator; empty if it declares none.
        before: Ids of the direct predecessors.
        message: Message of the operator.
        tool_calls: Tool calls of the operator's last attempt, in the order in which they ended; None for an operator
            without tools.
        calls_missing: Why calls are missing in `tool_calls`; empty if all are there.
        passages: Source and text of the passages that the operator retrieved, best first.
        skipped: Why the operator did not run; empty if it ran.
        changed: True if the message has changed since the verdict of the last round.
    """

    operator_id: str
    instruction: str = ""
    before: tuple[str, ...] = ()
    message: WorkflowMessage = WorkflowMessage()
    tool_calls: tuple[ToolUse, ...] | None = None
    calls_missing: str = ""
    passages: tuple[tuple[str, str], ...] = ()
    skipped: str = ""
    changed: bool = False

    def own(self) -> StepRecord:
        """Return a record whose message the reader may change."""
        message = self.message.own()
        return self if message is self.message else self.model_copy(update={"message": message})
