"""The judge of a design: the static check, names that seem to be asked for, a dry run and, last, a model."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

from operad.evaluators.dry_run import LONGEST, dry_run
from operad.evaluators.evaluator import Evaluator
from operad.evaluators.score_evaluator import lesson_of
from operad.flows.formats.shapes import fields_of
from operad.flows.generation.designer import CONTESTABLE, OFFER, REVIEW, asked, contested_in
from operad.flows.generation.graph_json import workflow_of
from operad.flows.generation.offer import Offer, read_offer
from operad.flows.generation.plan import read_plan
from operad.flows.generation.prompts import MOST_FINDINGS, shown, to_judge
from operad.flows.node_graph import NodeGraph
from operad.flows.repair import repair_graph
from operad.flows.repair.hints import hints_on
from operad.operators import OperatorConfig
from operad.runtime.graph.call import OperatorCall
from operad.runtime.knowledge.similarity import similarity
from operad.runtime.reasoning.reasoner import ask_until_read
from operad.runtime.reasoning.task import Task
from operad.runtime.values.message import Job, WorkflowMessage, WorkflowStatus
from operad.runtime.values.schema import Schema, validate

STAGES = ("none", "written", "checked", "run", "accepted")
"""Stages of a design; each is worth two of the ten points of its score."""

ALIKE = 0.75
"""Similarity, from 0 to 1, from which two findings of a model count as the same."""


ORDER = "[order]"
"""Prefix of findings on nodes that are listed before those that they read; it says nothing of how they run."""


class DesignEvaluator(Evaluator):
    """Judges the workflow in an operator's outputs, stage by stage; a later one begins when nothing is found before it.

    First come the full static check and the names that the instructions seem to state, then a dry run with made-up
    answers, and last a review by the reasoner. What was found goes to the operator that wrote the workflow.
    A finding that it contests becomes a warning, unless the check found it. Where only findings are left that were
    told before, or no workflow was made, the verdict is JOB_TOO_COMPLICATED_ERROR: another round would bring no more.

    Args:
        config: What it is; its instruction says what the reasoner judges by.
        judge: True for a review of every workflow, False for none; None for a review where the job asks for one, or
            a finding was contested.
        seconds: How long a dry run may take.
    """

    def __init__(
        self, config: OperatorConfig, *, judge: bool | None = None, seconds: float = LONGEST, **others: Any
    ) -> None:
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
            return verdict_on(judged, call.job, self.get_id(), "none", 0.5, [f"there is no workflow: {said}"], (), True)
        found = await self._found(call, judged, graph)
        return self._verdict(call, judged, found)

    async def _found(self, call: OperatorCall, judged: WorkflowMessage, graph: NodeGraph) -> _Found:
        base, rounds, *_ = asked(call.job)
        contested = contested_in(judged)
        notes = _texts(judged, "notes")
        known = set(repair_graph(base, rules=()).lessons) if base.nodes else set[str]()
        issues = [each for each in repair_graph(graph, rules=()).lessons if each not in known]
        if any(each.startswith(ORDER) for each in known):  # the order of nodes in the file is left as it is
            issues = [each for each in issues if not each.startswith(ORDER)]
        offer = _offer(call.job)
        known |= set(offer.faults(base))
        issues += [each for each in offer.faults(graph) if each not in known]
        issues += hints_on(rounds, graph, base)
        if left := _uncontested(issues, contested):
            return _Found(1, left, notes)
        done = await dry_run(graph, seconds=self._seconds)
        stopped = [f"[{each.code}] {each.where}: {each.message}" for each in done.issues]
        if left := _uncontested(stopped, contested):
            return _Found(2, left, notes, done.untaken)
        asked_before = _texts(judged, "asked")
        if not (self._reviews(call.job, contested) if self._judge is None else self._judge):
            return _Found(4, [], notes, done.untaken)
        if judged.outputs.get("unchanged") and any(each.startswith("[judged]") for each in asked_before):
            left = _uncontested(asked_before, contested)  # of the same workflow: asking again would bring no more
        else:
            outdated = read_plan(plan).outdated if (plan := fields_of(judged.outputs.get("plan"))) else ()
            left, said = await self._judged(call, graph, notes, contested, outdated)
            notes = list(dict.fromkeys([*notes, *said]))
            left = _uncontested(left, contested)
        return _Found(3 if left else 4, left, notes, done.untaken)

    def _reviews(self, job: Job, contested: Sequence[tuple[str, str]]) -> bool:
        """Return True if a job asks for a review, or a finding was contested."""
        return bool(contested) or job.inputs.get(REVIEW) is True

    async def _judged(
        self,
        call: OperatorCall,
        graph: NodeGraph,
        notes: Sequence[str],
        contested: Sequence[tuple[str, str]],
        outdated: Collection[int],
    ) -> tuple[list[str], list[str]]:
        """Return the findings of the reasoner, and its notes for the user."""
        base, rounds, _, before, titles = asked(call.job)
        parts = to_judge(
            graph,
            base,
            rounds,
            _offer(call.job).with_used(graph),
            criteria=self.config.instruction,
            notes=[*(each for number, each in enumerate(before, 1) if number not in outdated), *notes],
            titles=titles,
            contested=[f"{finding}: {reason}" for finding, reason in contested],
        )
        schema = _schema(graph)
        task = Task(
            job=Job(goal=call.job.goal, context=shown(parts[1:]), id=call.job.id, session_id=call.job.session_id),
            instruction=parts[0].text,
            output_schema=json.dumps(schema, ensure_ascii=False),
        )
        said = await ask_until_read(
            self.thinker(call.reasoner),
            task,
            partial(validate, schema),
            who=f"evaluator {self.get_id()!r}",
            wanted="verdict",
            operator_id=self.get_id(),
        )
        found = [
            f"[judged] {each['node'] or 'workflow'}: {_line(each['problem'])}; {_line(each['change'])}".rstrip("; ")
            for each in said["findings"]
        ]
        return list(dict.fromkeys(found)), [_line(each) for each in said.get("notes", ()) if _line(each)]

    def _verdict(self, call: OperatorCall, judged: WorkflowMessage, found: _Found) -> WorkflowMessage:
        stage, findings = found.stage, list(dict.fromkeys(map(_line, found.findings)))
        score = 2.0 * stage + (2 / (1 + len(findings)) if findings else 2)
        before = _texts(judged, "told")
        is_over = bool(findings) and all(any(_same(each, other) for other in before) for each in findings)
        verdict = verdict_on(
            judged,
            call.job,
            self.get_id(),
            STAGES[stage],
            score,
            findings,
            (judged.operator_id,) if findings else (),
            is_over,
        )
        warnings = [
            f"contested: {_line(finding)} (it was left as it is: {why})" for finding, why in contested_in(judged)
        ]
        told = {"notes": list(found.notes), "warnings": warnings, "untaken": list(found.untaken)}
        outputs: dict[str, Any] = {**verdict.outputs, **told}
        best: Any = judged.outputs.get("best")
        if is_over and isinstance(best, dict) and cast("Any", best["score"]) > score:
            outputs |= {"workflow": best["workflow"], "findings": best["findings"]}
        return verdict.model_copy(update={"outputs": outputs})


def _offer(job: Job) -> Offer:
    return read_offer(job.inputs.get(OFFER))


class _Found(NamedTuple):
    """Findings of a model.

    Attributes:
        stage: Stage that the workflow reached: an index of `STAGES`.
        findings: Faults.
        notes: Assumptions, and requests that cannot be met, for the user.
        untaken: Branches that no dry run took, each with the reason.
    """

    stage: int
    findings: Sequence[str]
    notes: Sequence[str]
    untaken: Sequence[str] = ()


def _schema(graph: NodeGraph) -> Schema:
    """The form of the judge's answer."""
    text: Schema = {"type": "string"}
    finding: Schema = {
        "type": "object",
        "properties": {
            "node": {"type": "string", "enum": [*graph.by_id, ""]},
            "problem": text,
            "change": text,
        },
        "required": ["node", "problem", "change"],
        "additionalProperties": False,
    }
    properties: dict[str, Schema] = {
        "evaluation": {**text, "description": "Short: each thing asked for, and whether it is done."},
        "findings": {"type": "array", "items": finding},
        "notes": {"type": "array", "items": text},
    }
    return {
        "type": "object",
        "properties": properties,
        "required": ["evaluation", "findings"],
        "additionalProperties": False,
    }


def _uncontested(findings: Sequence[str], contested: Sequence[tuple[str, str]]) -> list[str]:
    """The findings without those that are contested and may be mistaken."""
    return [
        each
        for each in findings
        if not (each.startswith(CONTESTABLE) and any(_same(each, other) for other, _ in contested))
    ]


def _same(one: str, other: str) -> bool:
    """Return whether two findings are the same; those of a model may use other words."""
    one, other = _line(one), _line(other)
    if one == other:
        return True
    heads = one.partition(":")[0], other.partition(":")[0]
    return one.startswith("[judged]") and heads[0] == heads[1] and similarity(one, other) >= ALIKE


def _texts(message: WorkflowMessage, key: str) -> list[str]:
    value: Any = message.outputs.get(key)
    return [str(each) for each in cast("list[Any]", value)] if isinstance(value, list) else []


def _line(text: Any) -> str:
    return " ".join(str(text).split())


def verdict_on(
    judged: WorkflowMessage,
    job: Job,
    evaluator_id: str,
    stage: str,
    score: float,
    findings: Sequence[str],
    blame: Sequence[str],
    is_over: bool | None = None,
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
        is_over: Whether another round would bring no more; None if that is so where the findings are those that were
            to be mended.
    """
    again = list(findings[:MOST_FINDINGS]) == judged.outputs.get("asked") if is_over is None else is_over
    status = WorkflowStatus.JOB_TOO_COMPLICATED_ERROR if again else WorkflowStatus.EXECUTION_ERROR
    told = f"{stage}; {len(findings)} finding{'' if len(findings) == 1 else 's'}"
    said = "the same is found again, so that another round would bring no more" if again and stage != "none" else ""
    return WorkflowMessage(
        scratchpad=judged.scratchpad,
        status=status if findings else WorkflowStatus.SUCCESS,
        evaluation="\n".join(filter(None, [told, said, *(findings if stage == "none" else ())])),
        lesson=lesson_of(findings) if findings else "",
        blame=tuple(blame),
        score=score,
        outputs={"findings": list(findings), "stage": stage},
        job_id=job.id,
        operator_id=evaluator_id,
    )
