"""Judge of designs for ComfyUI: violations of a server's classes, and unused nodes. No model is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from operad.evaluators.design import verdict_on
from operad.evaluators.evaluator import Evaluator
from operad.flows.generation.comfyui.designer import KnowsClasses
from operad.flows.generation.comfyui.findings import findings
from operad.runtime.graph.call import OperatorCall
from operad.runtime.values.errors import AnswerError
from operad.runtime.values.message import Job, WorkflowMessage

STAGES = ("none", "written", "read")
"""Stages of a design: no code, partly readable code, code that is read and checked as a whole."""


class ComfyDesignEvaluator(Evaluator, KnowsClasses):
    """Judges the code in an operator's outputs by the classes of a server.

    Found are lines that cannot be read, undefined variables, classes, inputs and options that there are not, required
    inputs that are missing, cycles, no output node, and parts that hang together with none. What was wrong before
    anything was changed is not found, and neither are files that the server does not have. What was found becomes the
    lesson of who mends; the same findings twice are JOB_TOO_COMPLICATED_ERROR: another round would bring no more.
    """

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Judge the last message; the reasoner is not asked."""
        judged = (call.messages or [WorkflowMessage()])[-1]
        asked = self.asked(call.job)
        try:
            draft = self.drafted(judged.outputs, asked.base.graph)
        except AnswerError as error:
            return self._verdict(call.job, judged, 0, [f"there is no workflow: {error}"], ())
        if draft is None:
            why = str(judged.outputs.get("failure") or "nothing was written")
            return self._verdict(call.job, judged, 0, [f"there is no workflow: {why}"], ())
        found = await asyncio.to_thread(findings, draft, asked.known)
        return self._verdict(call.job, judged, 1 if draft.unread else 2, found, (judged.operator_id,) if found else ())

    def _verdict(
        self, job: Job, judged: WorkflowMessage, stage: int, found: Sequence[str], blame: Sequence[str]
    ) -> WorkflowMessage:
        score = 4.0 * stage + 2 / (1 + len(found)) if stage else 0.0
        return verdict_on(judged, job, self.get_id(), STAGES[stage], score, found, blame)
