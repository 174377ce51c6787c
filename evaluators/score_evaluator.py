"""A score as an evaluator: it measures a workflow that operators wrote, and its findings are the lesson."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from operad.evaluators.evaluator import Evaluator
from operad.operators import OperatorConfig
from operad.runtime.graph.call import OperatorCall
from operad.runtime.reasoning.reasoner import Reasoner
from operad.runtime.values.errors import InputError
from operad.runtime.values.message import Job, WorkflowMessage, WorkflowStatus

MOST_IN_A_LESSON = 8
"""Number of findings a lesson tells at once: models do worse with more."""


@dataclass(frozen=True, slots=True)
class Assessment:
    """Assessment of a workflow.

    Attributes:
        score: From 0 to 1.
        findings: Its faults, the worst first, each naming its node and a remedy.
        figures: All measured values, by name, as JSON values.
    """

    score: float
    findings: Sequence[str] = ()
    figures: Mapping[str, Any] = field(default_factory=dict[str, Any])


class ScoreEvaluator(Evaluator):
    """Measures the workflow of the operators before it, without a model.

    A subclass implements `assess`. The message is SUCCESS from the threshold on; below it, it is EXECUTION_ERROR, its
    lesson lists the findings, and the writers of the workflow are blamed. Its score is ten times the measured one, as
    those of other evaluators go from 0 to 10; the measured values are in its outputs under the evaluator's id.

    Args:
        config: Configuration of the evaluator; its instruction describes the measure.
        threshold: The least score that is SUCCESS, from 0 to 1.

    Raises:
        InputError: The threshold is not a number from 0 to 1.
    """

    def __init__(self, config: OperatorConfig, *, threshold: float, **others: Any) -> None:
        if not 0 <= threshold <= 1:
            raise InputError(f"{config.id}: threshold must be from 0 to 1, not {threshold}")
        super().__init__(config, **others)
        self.threshold = threshold

    def assess(self, text: str, job: Job) -> Assessment:
        """Measure a workflow; called in a thread.

        Args:
            text: Text of the operators, in any form.
            job: Their job.
        """
        raise NotImplementedError(f"{type(self).__name__}.assess: say how the workflow is measured")

    async def measure(self, text: str, job: Job, reasoner: Reasoner) -> Assessment:
        """Measure a workflow by `assess`, in a thread. Override this to await or to ask a reasoner.

        Args:
            text: Text of the operators, in any form.
            job: Their job.
            reasoner: Reasoner of the run.
        """
        return await asyncio.to_thread(self.assess, text, job)

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Measure what `workflow_messages` say."""
        judged = call.messages
        text = "\n\n".join(message.scratchpad for message in judged)
        found = await self.measure(text, call.job, call.reasoner)
        met = found.score >= self.threshold
        said = f"{self.get_id()}: {found.score:.3f}, {'at least' if met else 'below'} {self.threshold:g}"
        return WorkflowMessage(
            scratchpad=text,
            status=WorkflowStatus.SUCCESS if met else WorkflowStatus.EXECUTION_ERROR,
            evaluation="\n".join([said, *found.findings]),
            lesson="" if met else lesson_of(found.findings),
            blame=() if met else tuple(message.operator_id for message in judged if message.operator_id),
            score=10 * found.score,
            outputs={self.get_id(): dict(found.figures)},
            job_id=call.job.id,
            operator_id=self.get_id(),
        )


def lesson_of(findings: Sequence[str]) -> str:
    """The findings as a lesson, no more of them than a model can heed."""
    told = [f"- {finding}" for finding in findings[:MOST_IN_A_LESSON]]
    if len(findings) > MOST_IN_A_LESSON:
        told.append(f"- and {len(findings) - MOST_IN_A_LESSON} more, after these")
    return "\n".join(["The workflow is not right yet. Mend this, and leave the rest as it is:", *told])
