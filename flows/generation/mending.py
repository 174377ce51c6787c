"""Stage that mends a draft: by rules, and by changes that a model makes for the findings."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, cast

from pydantic import JsonValue

from operad.flows.edit.difference import Difference, difference
from operad.flows.edit.order import edges_in_order, in_order
from operad.flows.formats.shapes import each_of, fields_of, pairs_of
from operad.flows.generation import prompts
from operad.flows.generation.answers import ask_object
from operad.flows.generation.draft import drafted_graph, grouped, plan_of, with_failing_requests
from operad.flows.generation.graph_json import to_json, workflow_of
from operad.flows.generation.plan import PLAN_KEYS, parsed, read_plan, reasons_of, with_said
from operad.flows.generation.safeguards import with_approvals, with_named_keys
from operad.flows.generation.stage import MAX_TRIES, WORKFLOW, Stage, request_of, task_of, texts_in
from operad.flows.node_graph import NodeGraph
from operad.flows.repair import FORMAT, Repaired, repair_graph
from operad.flows.repair.state import State
from operad.operators.nodes import NODE_TYPES
from operad.runtime.graph.call import OperatorCall
from operad.runtime.reasoning.exchange import UnfitError, until_fit
from operad.runtime.values.errors import AnswerError, describe, shorten
from operad.runtime.values.json_schema import Schema
from operad.runtime.values.message import WorkflowMessage
from operad.runtime.values.schema import AnswerSchema
from operad.runtime.values.text import fence

DRAFTED = "drafted"
"""Output with the first draft of a mended workflow."""

GENERATED = {name: rule for name, rule in FORMAT.graph.items() if name not in ("isolated", "unknown-names", "cycles")}
"""Rules for drafts. Excluded are those that remove what the model wrote: isolated nodes, names in templates and edges
of cycles. The model is asked about these."""

TIDY = ("order", "selection")
"""Rules that change only how a workflow is written, so that users are not told of their repairs."""

MEND: Schema = {"type": "object", "properties": {"nodes": {"type": "array"}, "wrong": {"type": "object"}}}
"""JSON Schema of a mending answer: the plan of a change, or reasons against findings; the rules describe it."""


class MendWorkflow(Stage):
    """Mends a workflow by rules and, if findings remain, by changes of a model, in the form of a plan.

    The stage works on the newest draft. Nodes that neither the plan nor a finding names are not changed, and changes
    that do not improve the workflow are dropped. The model may contest a finding, which then causes no change.

    Outputs:
        workflow: The workflow; absent if there is none.
        plan: The plan of the workflow.
        notes: Notes on assumptions and on requests that cannot be met; also those of the review of the same workflow.
        dropped_notes: Notes that the review of the same workflow found wrong.
        allowed: Ids of the nodes that may be changed; absent if all may.
        repairs: Repairs by rules.
        changes: Answer of the model with its changes.
        asked: Findings that the model was asked to mend.
        told: Findings that the model was asked to mend in all rounds so far.
        contested: Findings that the model has contested so far, each with its reason.
        unchanged: True if the workflow equals that of the previous round.
        best: Best draft of the previous rounds, with its score and findings; absent in the first round.
        prompt: Estimated tokens of each part of the prompt.
        failure: Reason why there is no workflow.
    """

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Repair a new draft by rules; in later rounds, ask a model to mend the findings."""
        messages = call.messages
        drafted = next((message for message in messages if DRAFTED not in message.outputs), None)
        graph = workflow_of(drafted.outputs) if drafted else None
        if drafted is None or graph is None:
            outputs = dict(drafted.outputs) if drafted else {}
            failure = str(outputs.setdefault("failure", "there is no workflow"))
            return self._message(call.job, failure, **{**outputs, "prompt": {}})
        base = request_of(call.job).base
        plan: dict[str, Any] = drafted.outputs.get("plan") or {}
        allowed = _allowed(base, graph, plan)
        drafted_as = drafted.outputs[WORKFLOW]
        verdict = call.rejection.verdict if call.rejection else None  # its outputs include those of this operator
        newest_message = verdict if verdict and verdict.outputs.get(DRAFTED) == drafted_as else None
        newest_graph = workflow_of(newest_message.outputs) if newest_message else None
        extra: dict[str, JsonValue] = {}
        later: Mapping[str, Any] = {}
        noted = drafted
        if newest_message is None or newest_graph is None or not call.lesson:
            repaired = repair_draft(graph, base, allowed)
            repairs = list(map(str, repaired.repairs))
            extra["told"] = drafted.outputs.get("told", [])
        else:
            findings = texts_in(newest_message.outputs.get("findings")) or findings_in(call.lesson) or [call.lesson]
            shown_before = set(texts_in(newest_message.outputs.get("told")))
            findings.sort(key=lambda finding: finding in shown_before)  # findings that the model has not seen are first
            repaired, extra, later = await self._ask_changes(
                call, newest_graph, base, allowed, findings, contested_in(newest_message)
            )
            made = [*texts_in(newest_message.outputs.get("repairs")), *map(str, repaired.repairs)]
            repairs = list(dict.fromkeys(made))
            plan = with_said(fields_of(newest_message.outputs.get("plan")), later)
            extra["unchanged"] = repaired.graph == newest_graph
            noted = newest_message if extra["unchanged"] else drafted  # a review of the same workflow still holds
            told = dict.fromkeys([*texts_in(newest_message.outputs.get("told")), *texts_in(extra["asked"])])
            extra["told"] = list[JsonValue](told)
            extra["best"] = _best_draft(newest_message)
        assert repaired.graph is not None  # noqa: S101 - a graph was given
        mended, keys = with_named_keys(repaired.graph, base)
        offer = self._offer(call.job, mended)
        mended, safeguards = with_approvals(mended, base, read_plan(plan).unapproved, offer)
        notes = [*texts_in(noted.outputs.get("notes")), *texts_in(later.get("notes")), *safeguards]
        return self._message(
            call.job,
            prompts.excerpt(mended, offer.types),
            workflow=to_json(mended),
            drafted=drafted_as,
            plan=plan,
            notes=list(dict.fromkeys(notes)),
            dropped_notes=noted.outputs.get("dropped_notes", []),
            **({"allowed": sorted(allowed)} if allowed is not None else {}),
            repairs=[*repairs, *keys],
            **extra,
        )

    async def _ask_changes(
        self,
        call: OperatorCall,
        before: NodeGraph,
        base: NodeGraph,
        allowed: AbstractSet[str] | None,
        found: Sequence[str],
        contested: Sequence[tuple[str, str]],
    ) -> tuple[Repaired, dict[str, JsonValue], Mapping[str, Any]]:
        """Return the workflow with a model's changes, further outputs, and the plan of the changes.

        The workflow is unchanged if the changes improve nothing.
        """
        offer = self._offer(call.job, before)
        findings = list(found[: prompts.MOST_FINDINGS])
        named_ids = nodes_in(findings, before)
        to_change = nodes_in(list(map(essence_of, findings)), before)  # not the nodes that are only proposed
        allowed = None if allowed is None else {*allowed, *to_change, *(before.by_id.keys() - base.by_id.keys())}
        parts = prompts.to_mend(before, findings, named_ids, offer, allowed=allowed, titles=request_of(call.job).titles)
        extra: dict[str, JsonValue] = {
            "asked": list[JsonValue](findings),
            "prompt": dict(prompts.sizes(parts, MEND)),
        }
        answer: dict[str, Any] = {}
        plan: dict[str, Any] = {}

        async def attempt(fault: str) -> Repaired | None:
            """Return the workflow with the changes of an answer; None for an answer without changes."""
            nonlocal answer, contested, plan
            task = task_of(call.job, parts, AnswerSchema.unchecked(MEND), [fault])
            answer = await ask_object(call.reasoner, task, (*PLAN_KEYS, "wrong"))
            contested = list(dict.fromkeys([*contested, *_contested(answer, findings)]))
            plan = plan_of(answer, before, offer.types)
            read = read_plan(plan)
            said = f"Nothing was changed. Your answer:\n{fence(prompts.compact(answer))}"
            changed = drafted_graph(read, before, offer.types)
            if changed == before and not plan["faults"]:
                return None
            if faults := [*plan["faults"], *_forbidden(difference(before, changed), allowed)]:
                extra["refused"] = "; ".join(faults)
                raise UnfitError(f"{said}\nIts faults:\n{prompts.listed(faults)}")
            repaired = repair_draft(changed, base, allowed)
            if repaired.graph and _is_better(State(repaired.graph), State(before), findings):
                return repaired
            extra["refused"] = "the changes make it no better"
            remaining = prompts.listed(repaired.lessons[: prompts.MOST_FINDINGS])
            raise UnfitError(f"{said}\nIt does not improve the workflow. Findings with it:\n{remaining}")

        repaired = None
        try:
            repaired = await until_fit(attempt, MAX_TRIES)
        except AnswerError as error:
            extra["refused"] = describe(error)
        except UnfitError:
            pass  # `extra` says why
        extra["contested"] = [list(pair) for pair in contested]
        if repaired is None:
            return repair_graph(before, rules={}), extra, plan
        return repaired, {**extra, "changes": answer}, plan


def _is_better(after: State, before: State, findings: Sequence[str]) -> bool:
    """Return whether a change improves a workflow; for findings beyond the static check, not getting worse suffices."""
    if after.standing.improves_on(before.standing):
        return True
    beyond_check = any(finding.startswith(CONTESTABLE) for finding in findings)
    return beyond_check and after.standing == before.standing and after.graph != before.graph


UNCHANGED = "[unchanged] workflow: nothing of the planned change is left; make it, or contest this with the reason"

LOST = ("[variable]", "[unchanged]")
"""Prefixes of findings about what was asked for and is lost; a contest leaves the workflow incomplete."""

CONTESTABLE = ("[name]", *LOST, "[plan]", "[judged]", "[dry-run]")
"""Prefixes of findings that may be mistaken: names of the request, slips of the plan, findings of the judge, and those of
dry runs."""


def _contested(answer: Mapping[str, Any], findings: Sequence[str]) -> list[tuple[str, str]]:
    """Return the findings that an answer contests, each with the reason, without issues of the static check."""
    given = parsed(answer.get("wrong"))
    listed = {str(each.get("finding")): each.get("reason") for each in each_of(given)}  # another form of the same
    return [
        (findings[int(number) - 1], reason or "no reason")
        for number, reason in reasons_of(listed or given).items()
        if number.isdecimal() and 0 < int(number) <= len(findings) and findings[int(number) - 1].startswith(CONTESTABLE)
    ]


_CHANGING = re.compile(
    r"\s*(?:; (?:there are|it has)\b|\(did you mean |; did you mean |\(on port |it has: ).*", re.DOTALL
)
"""Pattern of the end of a finding that depends on other nodes: what there is instead, and the branch of a dry run."""


def essence_of(finding: str) -> str:
    """Return a finding without what depends on other nodes, by which a finding is known in later rounds."""
    return " ".join(_CHANGING.sub("", finding).split())


def contested_in(message: WorkflowMessage) -> list[tuple[str, str]]:
    """Return the findings that a model contests, each with the reason."""
    return [(str(finding), str(reason)) for finding, reason in pairs_of(message.outputs.get("contested"))]


def _best_draft(verdict: WorkflowMessage) -> JsonValue:
    """Return the draft with the highest score up to a verdict, the last of several; None if none has a score."""
    before = cast("dict[str, JsonValue] | None", verdict.outputs.get("best"))
    score = verdict.score
    if score is None or (before and cast("float", before["score"]) > score):
        return before
    return {
        "workflow": verdict.outputs[WORKFLOW],
        "score": score,
        "findings": list[JsonValue](texts_in(verdict.outputs.get("findings"))),
    }


def repair_draft(graph: NodeGraph, base: NodeGraph, allowed: Collection[str] | None) -> Repaired:
    """Repair a workflow by rules, without changes of other nodes than allowed, and put nodes after their containers.

    New requests end a run on a status of 400 or more, unless a node reads the status.

    Args:
        graph: The workflow.
        base: The workflow before the change.
        allowed: Ids of the nodes that may be changed; None for all.
    """
    placed = in_order(base, graph, NODE_TYPES) if base.nodes else graph
    mended = _repaired(with_failing_requests(placed, base), base, allowed)
    assert mended.graph is not None  # noqa: S101 - a graph was given
    ordered = grouped(mended.graph) if grouped(base) is base else mended.graph
    as_good = ordered == mended.graph or State(ordered).standing == State(mended.graph).standing
    return replace(mended, graph=edges_in_order(graph, ordered if as_good else mended.graph))


def _repaired(graph: NodeGraph, base: NodeGraph, allowed: Collection[str] | None) -> Repaired:
    """Return a workflow after the rules, without repairs of nodes that must not change."""
    # nodes of an existing workflow keep their order
    rules = {name: rule for name, rule in GENERATED.items() if name != "order" or not base.nodes}
    mended = repair_graph(graph, rules=rules)
    mended = replace(mended, repairs=[repair for repair in mended.repairs if repair.rule not in TIDY])
    if allowed is None or mended.graph is None:
        return mended
    changes = difference(graph, mended.graph)
    changed_ids = {removed.id for removed in changes.removed} | {change.node for change in changes.changed}
    forbidden = {node_id for node_id in changed_ids if node_id in base.by_id and node_id not in allowed}
    if not forbidden:
        return mended
    restored_nodes = [graph.by_id[spec.id] if spec.id in forbidden else spec for spec in mended.graph.nodes]
    restored = replace(mended.graph, nodes=restored_nodes)
    if forbidden <= restored.by_id.keys() and State(restored).standing.improves_on(State(graph).standing):
        repairs = [repair for repair in mended.repairs if repair.where not in forbidden]
        return replace(repair_graph(restored, rules={}), repairs=repairs)
    return repair_graph(graph, rules={})


def _forbidden(made: Difference, allowed: Collection[str] | None) -> list[str]:
    """Return a fault for each node of a workflow that is changed and may not be; an edge needs one end that may be."""
    if allowed is None:
        return []
    mine = {*allowed, *(spec.id for spec in made.added)}
    edges = [
        edge.source for edge in (*made.edges_added, *made.edges_removed) if mine.isdisjoint((edge.source, edge.target))
    ]
    touched = [*(spec.id for spec in made.removed), *(change.node for change in made.changed), *edges]
    may = shorten(sorted(allowed)) or "none"
    return [
        f"[plan] {node_id}: may not be changed here; these may: {may}"
        for node_id in dict.fromkeys(touched)
        if node_id not in mine
    ]


def findings_in(lesson: str) -> list[str]:
    """Return the findings in a lesson: its lines that begin with a dash."""
    return [line[2:].strip() for line in lesson.splitlines() if line.startswith("- ")]


def nodes_in(findings: Sequence[str], graph: NodeGraph) -> list[str]:
    """Return the ids of nodes that findings name: as their place, in quotes, as node 2, or as 2.text.

    Findings about names of the request also name the start and end nodes.
    """
    ids = sorted(graph.by_id, key=len, reverse=True)
    found: dict[str, None] = {}
    for finding in findings:
        where = finding.partition("]")[2].partition(":")[0].strip()
        for end in where.split(" → "):
            if end in graph.by_id:
                found[end] = None
        for node_id in ids:
            each = re.escape(node_id)
            if re.search(rf"'{each}'|\bnode {each}(?![\w-])|(?<![\w.-]){each}\.[^\W\d]", finding):
                found[node_id] = None
    ends = [spec.id for spec in graph.nodes if spec.type in ("start", "end")]
    about_ends = any(finding.startswith(("[name]", "[variable]")) for finding in findings)
    return list(dict.fromkeys([*found, *(ends if about_ends else ())]))


def _allowed(base: NodeGraph, graph: NodeGraph, plan: Mapping[str, Any]) -> set[str] | None:
    """Return the ids of nodes that may be changed: new nodes, and nodes that the plan changes; None for all."""
    if not base.nodes:
        return None
    new_ids = {node_id for node_id in graph.by_id if node_id not in base.by_id}
    planned = read_plan(plan)
    return new_ids | set(planned.to_write) | set(planned.drop)
