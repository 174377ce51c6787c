"""The judge of a design: what was asked for, the full static check, a dry run and, last, a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from operad.evaluators.dry_run import LONGEST, dry_run
from operad.evaluators.evaluator import Evaluator
from operad.evaluators.score_evaluator import lesson_of
from operad.flows.generation.designer import asked, nodes_in
from operad.flows.generation.graph_json import workflow_of
from operad.flows.generation.prompts import MOST_FINDINGS, concerned
from operad.flows.node_graph import NodeGraph
from operad.flows.repair import repair_graph
from operad.operators import OperatorConfig
from operad.runtime.graph.call import OperatorCall
from operad.runtime.values.message import Job, WorkflowMessage, WorkflowStatus

STAGES = ("none", "written", "checked", "run", "judged")
"""How far a design came; each is worth two of the ten points of its score."""


class DesignEvaluator(Evaluator):
    """Judges the workflow in an operator's outputs, stage by stage; a later one begins when nothing is found before it.

    First come the names that the instructions state and the full static check, then a dry run with made-up answers, and
    last the reasoner, if `judge` says so. What was found becomes the lesson of those who can mend it. The same findings
    twice are JOB_TOO_COMPLICATED_ERROR: another round would bring no more.

    Args:
        config: What it is; its instruction says what the reasoner judges by.
        judge: Whether the reasoner is asked at all.
        seconds: How long a dry run may take.
    """

    def __init__(self, config: OperatorConfig, *, judge: bool = True, seconds: float = LONGEST, **others: Any) -> None:
        super().__init__(config, **others)
        self._judge = judge
        self._seconds = seconds

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Judge the last message."""
        judged = (call.messages or [WorkflowMessage()])[-1]
        graph = workflow_of(judged.outputs)
        if graph is None:
            why = str(judged.outputs.get("failure") or "nothing was written")
            said = "; ".join(line.removeprefix("- ") for line in why.splitlines())
            return self._verdict(call.job, judged, 0, [f"there is no workflow: {said}"], ())
        base, _, contract = asked(call.job)
        known = set(repair_graph(base, contract, rules=()).lessons) if base.nodes else set[str]()
        issues = [each for each in repair_graph(graph, contract, rules=()).lessons if each not in known]
        if issues:
            return self._verdict(call.job, judged, 1, issues, self._whom(judged, graph, issues))
        done = await dry_run(graph, seconds=self._seconds)
        if done.issues:
            found = [f"[{each.code}] {each.where}: {each.message}" for each in done.issues]
            return self._verdict(call.job, judged, 2, found, self._whom(judged, graph, found))
        if not self._judge:
            return self._verdict(call.job, judged, 4, [], ())
        shown = WorkflowMessage(scratchpad=concerned(graph, list(graph.by_id)), operator_id=judged.operator_id)
        said = await super().run(OperatorCall(call.reasoner, call.job, (shown,), lesson=call.lesson))
        if said.status is WorkflowStatus.SUCCESS:
            return self._verdict(call.job, judged, 4, [], ())
        found = [
            f"[judged] {line.strip('- ')}" for line in (said.lesson or said.evaluation).splitlines() if line.strip()
        ]
        return self._verdict(call.job, judged, 3, found, said.blame or (judged.operator_id,))

    def _whom(self, judged: WorkflowMessage, graph: NodeGraph, findings: Sequence[str]) -> tuple[str, ...]:
        """Who can mend it: who wrote the workflow, or all, and so its plan, where it lies in nodes that must stay."""
        allowed = judged.outputs.get("allowed")
        named = nodes_in(findings, graph)
        may = {str(each) for each in cast("list[Any]", allowed)} if isinstance(allowed, list) else set(named)
        if named and may.isdisjoint(named):
            return ()
        return (judged.operator_id,)

    def _verdict(
        self, job: Job, judged: WorkflowMessage, stage: int, findings: Sequence[str], blame: Sequence[str]
    ) -> WorkflowMessage:
        score = 2.0 * stage + (2 / (1 + len(findings)) if findings else 2)
        return verdict_on(judged, job, self.get_id(), STAGES[stage], score, findings, blame)


def verdict_on(
    judged: WorkflowMessage,
    job: Job,
    evaluator_id: str,
    stage: str,
    score: float,
    findings: Sequence[str],
    blame: Sequence[str],
) -> WorkflowMessage:
    """The verdict on a design: SUCCESS without findings; with those that were to be mended before, the end of the rounds.

    Args:
        judged: The message with the design.
        job: What it was made for.
        evaluator_id: Who judges.
        stage: How far it came.
        score: How good it is, from 0 to 10.
        findings: What is wrong, each with a way out.
        blame: Who can mend it.
    """
    again = bool(findings) and list(findings[:MOST_FINDINGS]) == judged.outputs.get("asked")
    status = WorkflowStatus.JOB_TOO_COMPLICATED_ERROR if again else WorkflowStatus.EXECUTION_ERROR
    said = "the same is found again, so that another round would bring no more" if again else ""
    return WorkflowMessage(
        scratchpad=judged.scratchpad,
        status=status if findings else WorkflowStatus.SUCCESS,
        evaluation="\n".join(filter(None, [f"{stage}; {len(findings)} findings", said, *findings])),
        lesson=lesson_of(findings) if findings else "",
        blame=tuple(blame),
        score=score,
        outputs={"findings": list(findings), "stage": stage},
        job_id=job.id,
        operator_id=evaluator_id,
    )
