"""Judge of a design: the static check, names that the request states, a dry run and, last, a model."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, cast

from operad.evaluators.dry_run import LONGEST, DryRun, dry_run
from operad.evaluators.evaluator import Evaluator
from operad.evaluators.score_evaluator import lesson_of
from operad.flows.edit.difference import difference
from operad.flows.formats.shapes import fields_of
from operad.flows.generation.graph_json import workflow_of
from operad.flows.generation.mending import CONTESTABLE, LOST, UNCHANGED, contested_in, essence_of
from operad.flows.generation.names import missing_names
from operad.flows.generation.offer import Offer, read_offer
from operad.flows.generation.plan import changes, read_plan
from operad.flows.generation.prompts import MOST_FINDINGS, shown, to_judge
from operad.flows.generation.stage import OFFER, REVIEW, request_of, texts_in
from operad.flows.node_graph import NodeGraph
from operad.flows.repair import repair_graph
from operad.operators import OperatorConfig
from operad.operators.nodes import NODE_TYPES
from operad.runtime.graph.call import OperatorCall
from operad.runtime.reasoning.reasoner import ask_until_read
from operad.runtime.reasoning.task import Task
from operad.runtime.values.json_schema import Schema
from operad.runtime.values.message import Job, WorkflowMessage, WorkflowStatus
from operad.runtime.values.schema import AnswerSchema, object_schema
from operad.runtime.values.words import similarity

STAGES = ("none", "written", "checked", "run", "accepted")
"""Stages of a design; each is worth two of the ten points of its score."""

STATIC, TRIED, REVIEWED = "static check", "dry run", "review"
"""Checks of a design: of its structure and the names in the request, by a run without models, and by a model."""

ALIKE = 0.75
"""Minimum similarity, from 0 to 1, of two findings of a model that count as the same."""

ORDER = "[order]"
"""Prefix of findings about nodes listed before nodes that they read, which does not affect the run."""


class DesignEvaluator(Evaluator):
    """Judges the workflow in an operator's outputs, stage by stage, as long as nothing is found.

    The stages are the full static check, a dry run with made-up
    answers, and a review by the reasoner. The findings become the lesson of the operator that wrote the workflow. A
    finding that this operator contests becomes a warning, unless it comes from the static check. If all findings were
    reported before, or there is no workflow, the verdict is JOB_TOO_COMPLICATED_ERROR, as further rounds would change
    nothing.

    Args:
        config: Configuration of the evaluator; its instruction states the criteria of the review.
        judge: True to review every workflow, False for none; None to review if the job asks for it, or if a finding
            was contested.
        seconds: Time limit of a dry run.
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
            failure = str(judged.outputs.get("failure") or "nothing was written")
            reason = f"there is no workflow: {_line(failure)}"
            verdict = verdict_on(judged, call.job, self.get_id(), "none", 0.5, [reason], (), True)
            said = {key: judged.outputs.get(key, []) for key in ("notes", "left_out")}
            return verdict.model_copy(update={"outputs": {**verdict.outputs, **said}})
        assessment = await self._assess(call, judged, graph)
        return self._verdict(call, judged, assessment)

    async def _assess(self, call: OperatorCall, judged: WorkflowMessage, graph: NodeGraph) -> _Assessment:
        """Return the findings of the first stage that has any."""
        base, *_ = request_of(call.job)
        contested = contested_in(judged)
        notes = texts_in(judged.outputs.get("notes"))
        known_issues = set(map(essence_of, repair_graph(base, rules={}).lessons)) if base.nodes else set[str]()
        issues = [each for each in repair_graph(graph, rules={}).lessons if essence_of(each) not in known_issues]
        # nodes of an existing workflow that are out of order in its file stay there
        if any(lesson.startswith(ORDER) for lesson in known_issues):
            issues = [issue for issue in issues if not issue.startswith(ORDER)]
        offer = _offer(call.job)
        known_issues |= set(map(essence_of, offer.faults(base)))
        issues += [fault for fault in offer.faults(graph) if essence_of(fault) not in known_issues]
        plan = fields_of(judged.outputs.get("plan"))
        read = read_plan(plan)
        known = {*offer.types, *offer.tools, *offer.models, *offer.knowledge, *base.by_id, *graph.by_id}
        issues += missing_names(call.job.goal, graph, base, NODE_TYPES, read, known)
        if base.nodes and changes(read) and not difference(base, graph):
            issues.append(UNCHANGED)
        if not judged.outputs.get("changes"):
            issues += texts_in(plan.get("faults"))
        if remaining := _uncontested(issues, contested):
            return _Assessment(1, remaining, notes)
        dry = await dry_run(graph, seconds=self._seconds, open_ends=True)
        not_tried = [*dry.not_tried, *([dry.skipped_reason] if dry.skipped_reason else [])]
        checks = (STATIC,) if dry.skipped_reason else (STATIC, TRIED)
        run_issues = _run_findings(dry)
        if run_issues and base.nodes:  # a node that the change left alone may have failed before
            changed = difference(base, graph)
            touched = {each.id for each in changed.added} | {each.node for each in changed.changed}
            known_issues = set(
                map(essence_of, _run_findings(await dry_run(base, seconds=self._seconds, open_ends=True)))
            )
            run_issues = [
                finding
                for finding, issue in zip(run_issues, dry.issues, strict=True)
                if issue.where in touched or essence_of(finding) not in known_issues
            ]
        if remaining := _uncontested(run_issues, contested):
            return _Assessment(2, remaining, notes, not_tried, checks=checks)
        asked_before, dropped = texts_in(judged.outputs.get("asked")), texts_in(judged.outputs.get("dropped_notes"))
        if not (self._needs_review(call.job, contested) if self._judge is None else self._judge):
            return _Assessment(4, [], notes, not_tried, checks=checks)
        if judged.outputs.get("unchanged") and any(finding.startswith("[judged]") for finding in asked_before):
            # the workflow is unchanged, so a new review would find the same
            remaining = _uncontested(asked_before, contested)
        else:
            review = await self._review(call, graph, notes, contested, read.outdated, not_tried)
            dropped = review.dropped_notes
            notes = [note for note in dict.fromkeys([*notes, *review.notes]) if note not in dropped]
            remaining = _uncontested(review.findings, contested)
        return _Assessment(3 if remaining else 4, remaining, notes, not_tried, dropped, (*checks, REVIEWED))

    def _needs_review(self, job: Job, contested: Sequence[tuple[str, str]]) -> bool:
        """Return whether a job asks for a review, or a finding was contested."""
        return job.inputs.get(REVIEW) is True or any(not each.startswith(LOST) for each, _ in contested)

    async def _review(
        self,
        call: OperatorCall,
        graph: NodeGraph,
        notes: Sequence[str],
        contested: Sequence[tuple[str, str]],
        outdated: Collection[int],
        not_tried: Sequence[str],
    ) -> _Review:
        """Return the findings of the reasoner, its notes for the user, and the notes that it found wrong."""
        base, rounds, earlier_notes, titles = request_of(call.job)
        shown_notes = [*(note for number, note in enumerate(earlier_notes, 1) if number not in outdated), *notes]
        parts = to_judge(
            graph,
            base,
            rounds,
            _offer(call.job).with_used(graph),
            criteria=self.config.instruction,
            notes=shown_notes,
            titles=titles,
            contested=[f"{finding}: {reason}" for finding, reason in contested],
            not_tried=not_tried,
        )
        form = _form(graph, has_notes=bool(shown_notes))
        task = Task(
            job=Job(goal=call.job.goal, context=shown(parts[1:]), id=call.job.id, session_id=call.job.session_id),
            instruction=parts[0].text,
            output_schema=form,
        )
        answer = await ask_until_read(
            self.thinker(call.reasoner),
            task,
            form.validate,
            who=f"evaluator {self.get_id()!r}",
            wanted="verdict",
            operator_id=self.get_id(),
        )
        review_findings = [
            f"[judged] {finding['node'] or 'workflow'}: {_line(finding['problem'])} Correction: {_line(finding['change'])}"
            for finding in answer["findings"]
        ]
        return _Review(
            list(dict.fromkeys(review_findings)),
            [_line(note) for note in answer.get("notes", ()) if _line(note)],
            [note for number, note in enumerate(shown_notes, 1) if number in answer.get("outdated", ())],
        )

    def _verdict(self, call: OperatorCall, judged: WorkflowMessage, assessment: _Assessment) -> WorkflowMessage:
        """Return the verdict on the findings, with the best earlier draft if further rounds are useless."""
        stage, findings = assessment.stage, list(dict.fromkeys(map(_line, assessment.findings)))
        left_out = dict(read_plan(fields_of(judged.outputs.get("plan"))).left_out)
        left_out |= {f: why for f, why in contested_in(judged) if f.startswith(LOST)}
        score = 2.0 * stage + (2 / (1 + len(findings)) if findings else 2)
        told_before = texts_in(judged.outputs.get("told"))
        is_over = bool(findings) and all(
            any(_is_same_finding(finding, other) for other in told_before) for finding in findings
        )
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
        if left_out and not findings:
            said = f"left out: {', '.join(left_out)}"
            verdict = verdict.model_copy(
                update={"status": WorkflowStatus.JOB_TOO_COMPLICATED_ERROR, "evaluation": said}
            )
        warnings = [
            f"contested: {_line(finding)} (it was left as it is: {why})"
            for finding, why in contested_in(judged)
            if finding not in left_out
        ]
        user_outputs = {
            "left_out": left_out,
            "notes": list(assessment.notes),
            "dropped_notes": list(assessment.dropped_notes),
            "warnings": warnings,
            "not_tried": list(assessment.not_tried),
            "checks": list(assessment.checks),
        }
        outputs: dict[str, Any] = {**verdict.outputs, **user_outputs}
        best: Any = judged.outputs.get("best")
        if is_over and isinstance(best, dict) and cast("Any", best["score"]) > score:
            outputs |= {"workflow": best["workflow"], "findings": best["findings"]}
        return verdict.model_copy(update={"outputs": outputs})


def _offer(job: Job) -> Offer:
    return read_offer(job.inputs.get(OFFER))


class _Assessment(NamedTuple):
    """Result of all stages.

    Attributes:
        stage: Stage that the workflow reached, as an index of `STAGES`.
        findings: Findings of the stage that failed.
        notes: Notes for the user on assumptions and on requests that cannot be met.
        not_tried: Branches and nodes that no dry run tried, each with the reason.
        dropped_notes: Notes that the reasoner found wrong.
        checks: Names of the checks that were made.
    """

    stage: int
    findings: Sequence[str]
    notes: Sequence[str]
    not_tried: Sequence[str] = ()
    dropped_notes: Sequence[str] = ()
    checks: Sequence[str] = (STATIC,)


class _Review(NamedTuple):
    """Answer of the reasoner to a review: findings, notes for the user, and shown notes that do not hold."""

    findings: Sequence[str]
    notes: Sequence[str]
    dropped_notes: Sequence[str]


def _form(graph: NodeGraph, *, has_notes: bool) -> AnswerSchema:
    """Return the form of the review of a workflow."""
    text: Schema = {"type": "string"}
    node = {"type": "string", "enum": [*graph.by_id, ""]}
    finding = object_schema({"node": node, "problem": text, "change": text})
    properties: dict[str, Schema] = {
        "evaluation": {**text, "description": "Short: each thing asked for, and whether it is done."},
        "findings": {"type": "array", "items": finding},
        "notes": {"type": "array", "items": text},
        **({"outdated": {"type": "array", "items": {"type": "integer"}}} if has_notes else {}),
    }
    return AnswerSchema.unchecked({**object_schema(properties), "required": ["evaluation", "findings"]})


def _run_findings(dry: DryRun) -> list[str]:
    """Return the issues of a dry run as findings."""
    return [f"[{issue.code}] {issue.where}: {issue.message}" for issue in dry.issues]


def _uncontested(findings: Sequence[str], contested: Sequence[tuple[str, str]]) -> list[str]:
    """Return the findings except contested ones that may be mistaken."""
    return [
        finding
        for finding in findings
        if not (finding.startswith(CONTESTABLE) and any(_is_same_finding(finding, other) for other, _ in contested))
    ]


def _is_same_finding(first: str, second: str) -> bool:
    """Return whether two findings are the same; findings of a model about the same node need only be similar."""
    first, second = essence_of(first), essence_of(second)
    if first == second:
        return True
    places = first.partition(":")[0], second.partition(":")[0]
    return first.startswith("[judged]") and places[0] == places[1] and similarity(first, second) >= ALIKE


def _line(text: Any) -> str:
    """Return a text in one line."""
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
    """Return the verdict on a design: SUCCESS without findings, JOB_TOO_COMPLICATED_ERROR if no round can help.

    Args:
        stage: Name of the stage that the design reached.
        score: Score from 0 to 10.
        findings: Findings, each with a remedy.
        blame: Ids of the operators that can mend the findings.
        is_over: True if further rounds are useless; None to decide by whether the findings equal those that the
            operator was asked to mend.
    """
    is_final = list(findings[:MOST_FINDINGS]) == judged.outputs.get("asked") if is_over is None else is_over
    status = WorkflowStatus.JOB_TOO_COMPLICATED_ERROR if is_final else WorkflowStatus.EXECUTION_ERROR
    summary = f"{stage}; {len(findings)} finding{'' if len(findings) == 1 else 's'}"
    explanation = "the same findings again; further rounds would change nothing" if is_final and stage != "none" else ""
    return WorkflowMessage(
        scratchpad=judged.scratchpad,
        status=status if findings else WorkflowStatus.SUCCESS,
        evaluation="\n".join(filter(None, [summary, explanation, *(findings if stage == "none" else ())])),
        lesson=lesson_of(findings) if findings else "",
        blame=tuple(blame),
        score=score,
        outputs={"findings": list(findings), "stage": stage},
        job_id=job.id,
        operator_id=evaluator_id,
    )
