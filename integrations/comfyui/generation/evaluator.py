"""Judge of designs for ComfyUI: violations of a server's classes, and unused nodes. No model is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from operad.evaluators.design import verdict_on
from operad.evaluators.evaluator import Evaluator
from operad.integrations.comfyui.generation.designer import KnowsClasses
from operad.integrations.comfyui.generation.findings import findings
from operad.runtime.graph.call import OperatorCall
from operad.runtime.values.errors import AnswerError
from operad.runtime.values.message import Job, WorkflowMessage, WorkflowStatus

STAGES = ("none", "written", "read")
"""Stages of a design: no code, partly readable code, code that is read and checked as a whole."""


class ComfyDesignEvaluator(Evaluator, KnowsClasses):
    """Judges the code in an operator's outputs by the classes of a server.

    Findings are unreadable lines, undefined variables, unknown classes, inputs and options, missing required inputs,
    cycles, a missing output node, and parts without an output node. Issues of the existing workflow and files that the
    server does not have are not findings. The findings become the lesson for the next round; if a round has the same
    findings as the one before, the verdict is JOB_TOO_COMPLICATED_ERROR, as further rounds would change nothing.
    """

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Judge the last message; the reasoner is not asked."""
        judged = (call.messages or [WorkflowMessage()])[-1]
        request = self.request_of(call.job)
        try:
            draft = self.drafted(judged.outputs, request.base.graph)
        except AnswerError as error:
            return self._verdict(call.job, judged, 0, [f"there is no workflow: {error}"], ())
        if draft is None:
            failure = str(judged.outputs.get("failure") or "nothing was written")
            return self._verdict(call.job, judged, 0, [f"there is no workflow: {failure}"], ())
        found = await asyncio.to_thread(findings, draft, request.known)
        return self._verdict(call.job, judged, 1 if draft.unread else 2, found, (judged.operator_id,) if found else ())

    def _verdict(
        self, job: Job, judged: WorkflowMessage, stage: int, found: Sequence[str], blame: Sequence[str]
    ) -> WorkflowMessage:
        """Return the verdict on a design that reached a stage, with its score from 0 to 10."""
        score = 4.0 * stage + 2 / (1 + len(found)) if stage else 0.0
        verdict = verdict_on(judged, job, self.get_id(), STAGES[stage], score, found, blame, None if stage else True)
        said = {key: judged.outputs[key] for key in ("notes", "left_out") if key in judged.outputs}
        left_out = said.get("left_out") and not found
        status = WorkflowStatus.JOB_TOO_COMPLICATED_ERROR if left_out else verdict.status
        return verdict.model_copy(update={"status": status, "outputs": {**verdict.outputs, **said}})
