"""Base class of evaluators that measure a workflow; the findings become the lesson."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from operad.evaluators.evaluator import Evaluator
from operad.operators import OperatorConfig
from operad.runtime.graph.call import OperatorCall
from operad.runtime.reasoning.reasoner import Reasoner
from operad.runtime.values.errors import InputError
from operad.runtime.values.function_threads import in_function_thread
from operad.runtime.values.message import Job, WorkflowMessage, WorkflowStatus

MOST_IN_A_LESSON = 8
"""Maximum number of findings in a lesson, as models do worse with more."""


@dataclass(frozen=True, slots=True)
class Assessment:
    """Assessment of a workflow.

    Attributes:
        score: Score from 0 to 1.
        findings: Faults of the workflow, the worst first, each with its node and a remedy.
        figures: Measured values by name, as JSON values.
    """

    score: float
    findings: Sequence[str] = ()
    figures: Mapping[str, Any] = field(default_factory=dict[str, Any])


class ScoreEvaluator(Evaluator):
    """Measures the workflow that the preceding operators wrote, without a model.

    A subclass implements `assess`. If the score reaches the threshold, the verdict is SUCCESS; otherwise it is
    EXECUTION_ERROR, its lesson lists the findings, and it blames the operators that wrote the workflow. The score of
    the verdict is ten times the measured one, as scores of verdicts are from 0 to 10. Its outputs contain the measured
    values under the evaluator's id.

    Args:
        config: Configuration of the evaluator; its instruction describes the measure.
        threshold: Minimum score for SUCCESS, from 0 to 1.

    Raises:
        InputError: The threshold is not a number from 0 to 1.
    """

    def __init__(self, config: OperatorConfig, *, threshold: float, **others: Any) -> None:
        if not isinstance(threshold, int | float) or not 0 <= threshold <= 1:  # pyright: ignore[reportUnnecessaryIsInstance] - in YAML, anything
            raise InputError(f"{config.id}: threshold must be a number from 0 to 1, not {threshold!r}")
        super().__init__(config, **others)
        self.threshold = threshold

    def assess(self, text: str, job: Job) -> Assessment:
        """Measure a workflow; called in a thread.

        Args:
            text: Text of the operators, in any form.
            job: Job of the operators.
        """
        raise NotImplementedError(f"{type(self).__name__}.assess: say how the workflow is measured")

    async def aassess(self, text: str, job: Job, reasoner: Reasoner) -> Assessment:
        """Measure a workflow by `assess`, in a thread. Override this to await or to ask a reasoner.

        Args:
            text: Text of the operators, in any form.
            job: Job of the operators.
        """
        return await in_function_thread(f"evaluator {self.get_id()!r}", self.assess, text, job)

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Measure the texts of the direct predecessors and return the verdict."""
        judged = call.messages
        text = "\n\n".join(message.scratchpad for message in judged)
        assessment = await self.aassess(text, call.job, call.reasoner)
        is_success = assessment.score >= self.threshold
        summary = f"{self.get_id()}: {assessment.score:.3f}, {'at least' if is_success else 'below'} {self.threshold:g}"
        return WorkflowMessage(
            scratchpad=text,
            status=WorkflowStatus.SUCCESS if is_success else WorkflowStatus.EXECUTION_ERROR,
            evaluation="\n".join([summary, *assessment.findings]),
            lesson="" if is_success else lesson_of(assessment.findings),
            blame=() if is_success else tuple(message.operator_id for message in judged if message.operator_id),
            score=10 * assessment.score,
            outputs={self.get_id(): dict(assessment.figures)},
            job_id=call.job.id,
            operator_id=self.get_id(),
        )


def lesson_of(findings: Sequence[str]) -> str:
    """Return the findings as a lesson, at most `MOST_IN_A_LESSON` of them."""
    lines = [f"- {finding}" for finding in findings[:MOST_IN_A_LESSON]]
    if len(findings) > MOST_IN_A_LESSON:
        lines.append(f"- and {len(findings) - MOST_IN_A_LESSON} more, after these")
    return "\n".join(["The workflow has faults. Correct them, and leave the rest as it is:", *lines])
