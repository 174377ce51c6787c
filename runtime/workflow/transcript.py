"""Transcript of a run: the messages of its operators, for evaluators."""

from __future__ import annotations

from operad.runtime.events import current_scope
from operad.runtime.values.step_record import StepRecord


def transcript() -> tuple[StepRecord, ...]:
    """Return the records of the current run's operators, in the order in which the operators were added.

        class Short(Evaluator):
            async def run(self, call: OperatorCall) -> WorkflowMessage:
                total = sum(len(step.message.scratchpad) for step in transcript())
                return WorkflowMessage(evaluation=f"{total} characters", score=min(total / 1000, 1.0))

        print(Workflow(facts >> answer, evaluator=Short("Brief texts.")).run("hello").text)

    With the messages of all operators, not only of the last ones, an evaluator can tell which operator is at fault.
    Operators that did not run, or that run again, are left out. Outside of a run, the transcript is empty.
    """
    scope = current_scope()
    return tuple([step.own() for step in scope.run.transcript()]) if scope else ()
