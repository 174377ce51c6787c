"""Transcript of a run: the messages of its operators, for evaluators."""

from __future__ import annotations

from operad.runtime.events import current_scope
from operad.runtime.values.message import StepRecord


def transcript() -> tuple[StepRecord, ...]:
    """Return the records of the current run's operators, in order of adding.

        class Short(Evaluator):
            async def run(self, call: OperatorCall) -> WorkflowMessage:
                total = sum(len(step.message.scratchpad) for step in transcript())
                return WorkflowMessage(evaluation=f"{total} characters", score=min(total / 1000, 1.0))

        print(Workflow(facts >> answer, evaluator=Short("Brief texts.")).run("hello").text)

    An evaluator that knows what every operator said, and not the last ones alone, can tell which one is
    at fault. Operators that did not run, or run again, are left out. Empty outside of a run.
    """
    scope = current_scope()
    return scope.run.transcript() if scope else ()
