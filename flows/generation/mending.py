"""The stage that mends: by rules, and by operations that a model chooses for what was found."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from pydantic import JsonValue

from operad.flows.edit.batch import OPERATIONS, apply, read_operations
from operad.flows.edit.difference import difference
from operad.flows.edit.order import edges_in_order
from operad.flows.generation import prompts
from operad.flows.generation.draft import (
    grouped,
)
from operad.flows.generation.graph_json import to_json, workflow_of
from operad.flows.generation.operations import declared_operations
from operad.flows.generation.plan import read_plan
from operad.flows.generation.stage import (
    MAX_TRIES,
    WORKFLOW,
    Stage,
    asked,
    items_in,
    task_of,
    texts_in,
)
from operad.flows.node_graph import NodeGraph
from operad.flows.repair import PROFILES, Repaired, repair_graph
from operad.flows.repair.state import State
from operad.runtime.graph.call import OperatorCall
from operad.runtime.reasoning.reasoner import ask
from operad.runtime.values.errors import AnswerError, InvalidError, describe
from operad.runtime.values.message import WorkflowMessage
from operad.runtime.values.schema import Schema, validate

DRAFTED = "drafted"
"""The output that tells what a mended workflow was at first."""

GENERATED = PROFILES["format"] - {"isolated"}
"""The rules for drafts: none that goes by the names which instructions seem to state, none that takes away a node for
being unconnected: the model is asked."""

TIDY = ("order", "selection")
"""Rules that change only the order in which nodes are written: nothing that a user has to be told."""

OPERATIONS_SCHEMA: Schema = {
    "type": "object",
    "properties": {
        "reasoning": {"type": "string", "description": "Short: the cause of each finding, and its correction."},
        "operations": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"op": {"type": "string", "enum": list(OPERATIONS)}},
                "required": ["op"],
            },
        },
        "wrong": {
            "type": "array",
            "description": "Findings that are mistaken.",
            "items": {
                "type": "object",
                "properties": {"finding": {"type": "integer"}, "reason": {"type": "string"}},
                "required": ["finding", "reason"],
            },
        },
    },
    "required": ["reasoning", "operations"],
    "additionalProperties": False,
}
"""The form of an answer that mends; what each operation takes is said in words, which are shorter than its schema."""


class MendWorkflow(Stage):
    """Mends a workflow by rules, and, where findings are left, by operations that a model chooses.

    It works on the newest draft. Nodes that neither the plan nor a finding names stay as they are; what makes a
    workflow worse is not kept. The model may contest a finding: then nothing is changed for it.

    Outputs:
        workflow: The workflow; absent where there is none.
        plan: The plan that it goes by.
        notes: What cannot be done, or was assumed.
        allowed: The ids of the nodes that may be changed; absent where all may.
        repairs: What rules mended.
        operations: What the model changed, as it wrote it.
        asked: The findings that the model was asked to mend.
        told: The findings that it was asked to mend in all rounds so far.
        contested: The findings that the model contests, so far, each with its reason.
        unchanged: Whether the workflow is the one of the round before.
        best: The best draft of the rounds before, with its score and findings; absent in the first round.
        prompt: How many tokens the parts of the prompt take, roughly.
        failure: Why there is no workflow.
    """

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Settle what was drafted, the first time; after that, have a model mend what was found."""
        messages = call.messages
        drafted = next((each for each in messages if DRAFTED not in each.outputs), None)
        graph = workflow_of(drafted.outputs) if drafted else None
        if drafted is None or graph is None:
            why = str(drafted.outputs.get("failure", "there is no workflow")) if drafted else "there is no workflow"
            return self._message(call.job, why, failure=why)
        base = asked(call.job).base
        plan: dict[str, Any] = drafted.outputs.get("plan") or {}
        allowed = _allowed(base, graph, plan)
        drafted_as = drafted.outputs[WORKFLOW]
        own = [each for each in messages if each.outputs.get(DRAFTED) == drafted_as]  # with the verdicts on them
        newest = own[-1] if own else None
        before = workflow_of(newest.outputs) if newest else None
        extra: dict[str, JsonValue] = {}
        if newest is None or before is None or not call.lesson:
            settled = settle(graph, base, allowed)
            repairs = [str(each) for each in settled.repairs]
        else:
            found = _findings(newest) or findings_in(call.lesson) or [call.lesson]
            settled, extra = await self._mended(call, before, base, allowed, found, _pairs(newest))
            repairs = list(dict.fromkeys([*_texts(newest, "repairs"), *map(str, settled.repairs)]))
            extra["unchanged"] = settled.graph == before
            extra["told"] = list[JsonValue](dict.fromkeys([*_texts(newest, "told"), *texts_in(extra["asked"])]))
            extra["best"] = _best(own)
        assert settled.graph is not None  # noqa: S101 - a graph was given
        return self._message(
            call.job,
            prompts.skeleton(settled.graph, self._offer(call.job, settled.graph).types),
            workflow=to_json(settled.graph),
            drafted=drafted_as,
            plan=plan,
            notes=drafted.outputs.get("notes", []),
            **({"allowed": sorted(allowed)} if allowed is not None else {}),
            repairs=repairs,
            **extra,
        )

    async def _mended(
        self,
        call: OperatorCall,
        before: NodeGraph,
        base: NodeGraph,
        allowed: Collection[str] | None,
        found: Sequence[str],
        contested: Sequence[tuple[str, str]],
    ) -> tuple[Repaired, dict[str, JsonValue]]:
        """The workflow with what a model changed for the findings; as it was where that made nothing better."""
        offer = self._offer(call.job, before)
        types = offer.types
        findings = list(found[: prompts.MOST_FINDINGS])
        named = nodes_in(findings, before)
        allowed = None if allowed is None else {*allowed, *named}
        parts = prompts.to_mend(before, findings, named, offer, titles=asked(call.job).titles)
        lessons: list[str] = []
        extra: dict[str, JsonValue] = {
            "asked": list[JsonValue](findings),
            "prompt": dict(prompts.sizes(parts, OPERATIONS_SCHEMA)),
        }
        for _ in range(MAX_TRIES):
            try:
                said = await ask(call.reasoner, task_of(call.job, parts, OPERATIONS_SCHEMA, lessons))
                answer = cast("dict[str, Any]", validate(OPERATIONS_SCHEMA, said))
                contested = list(dict.fromkeys([*contested, *_wrong(answer, findings)]))
                if not answer["operations"]:
                    break
                operations = read_operations(
                    cast("list[JsonValue]", declared_operations(answer["operations"], before, types))
                )
                changed = apply(before, operations, types, allowed=allowed).graph
            except AnswerError as error:
                extra["refused"] = describe(error)
                break
            except InvalidError as error:
                lessons = [f"Nothing was changed, for the operations cannot be done:\n{error}"]
                extra["refused"] = str(error)
                continue
            settled = settle(changed, base, allowed)
            if settled.graph and _is_better(State(settled.graph), State(before), findings):
                return settled, {**extra, "operations": answer, "contested": [list(each) for each in contested]}
            worse = "\n".join(f"- {each}" for each in settled.lessons[: prompts.MOST_FINDINGS])
            lessons = [f"Your operations were taken back, for they make it no better. With them:\n{worse}"]
            extra["refused"] = "the operations make it no better"
        return repair_graph(before, rules=()), {**extra, "contested": [list(each) for each in contested]}


def _is_better(now: State, was: State, findings: Sequence[str]) -> bool:
    """Return whether a change is kept: fewer findings, or as many where the finding is one that only a model can see."""
    if now.standing.betters(was.standing):
        return True
    unseen = any(each.startswith(CONTESTABLE) for each in findings)
    return unseen and now.standing == was.standing and now.graph != was.graph


CONTESTABLE = ("[input]", "[output]", "[judged]", "[dry-run]")
"""Prefixes of findings that may be mistaken: hints, the judge's, and those of a run with made-up answers."""


def _wrong(answer: Mapping[str, Any], findings: Sequence[str]) -> list[tuple[str, str]]:
    """The findings that an answer contests, each with the reason; what the check finds cannot be contested."""
    said = [cast("Mapping[str, Any]", each) for each in answer.get("wrong", ())]
    pairs = [(int(each["finding"]), " ".join(str(each["reason"]).split())) for each in said]
    return [
        (findings[number - 1], reason)
        for number, reason in pairs
        if 0 < number <= len(findings) and findings[number - 1].startswith(CONTESTABLE)
    ]


def _pairs(message: WorkflowMessage) -> list[tuple[str, str]]:
    """The contested findings of a message."""
    return [(str(each[0]), str(each[1])) for each in items_in(message.outputs.get("contested")) if len(each) == 2]


def contested_in(message: WorkflowMessage) -> list[tuple[str, str]]:
    """The findings that a model contests, each with the reason."""
    return _pairs(message)


def _texts(message: WorkflowMessage, key: str) -> list[str]:
    return texts_in(message.outputs.get(key))


def _findings(verdict: WorkflowMessage) -> list[str]:
    return _texts(verdict, "findings")


def _best(own: Sequence[WorkflowMessage]) -> JsonValue:
    """The best draft so far: the one with the highest score, of several the last."""
    scored = [each for each in own if each.score is not None and workflow_of(each.outputs) is not None]
    if not scored:
        return None
    best = max(enumerate(scored), key=lambda pair: (pair[1].score or 0.0, pair[0]))[1]
    return {"workflow": best.outputs[WORKFLOW], "score": best.score, "findings": list[JsonValue](_findings(best))}


def settle(graph: NodeGraph, base: NodeGraph, allowed: Collection[str] | None) -> Repaired:
    """A workflow mended by rules; nodes that may not be changed stay as they are, and those inside another follow it.

    Args:
        graph: The workflow.
        base: The workflow that was there before.
        allowed: The ids of the nodes that may be changed; None for all.
    """
    mended = _settled(graph, base, allowed)
    assert mended.graph is not None  # noqa: S101 - a graph was given
    tidy = grouped(mended.graph) if grouped(base) is base else mended.graph
    as_good = tidy == mended.graph or State(tidy).standing == State(mended.graph).standing
    return replace(mended, graph=edges_in_order(graph, tidy if as_good else mended.graph))


def _settled(graph: NodeGraph, base: NodeGraph, allowed: Collection[str] | None) -> Repaired:
    is_unordered = base.nodes and any(issue.code == "order" for issue in State(base).issues)
    mended = repair_graph(graph, rules=GENERATED - {"order"} if is_unordered else GENERATED)
    mended = replace(mended, repairs=[each for each in mended.repairs if each.rule not in TIDY])
    if allowed is None or mended.graph is None:
        return mended
    changes = difference(graph, mended.graph)
    touched = {each.id for each in changes.removed} | {each.node for each in changes.changed}
    forbidden = {each for each in touched if each in base.by_id and each not in allowed}
    if not forbidden:
        return mended
    as_they_were = [graph.by_id[spec.id] if spec.id in forbidden else spec for spec in mended.graph.nodes]
    rest = replace(mended.graph, nodes=as_they_were)
    if forbidden <= rest.by_id.keys() and State(rest).standing.betters(State(graph).standing):
        repairs = [each for each in mended.repairs if each.where not in forbidden]
        return replace(repair_graph(rest, rules=()), repairs=repairs)
    return repair_graph(graph, rules=())


def findings_in(lesson: str) -> list[str]:
    """The findings of a lesson, which has them in lines with a dash."""
    return [line[2:].strip() for line in lesson.splitlines() if line.startswith("- ")]


def nodes_in(findings: Sequence[str], graph: NodeGraph) -> list[str]:
    """The nodes that findings name: as the place that each is about, or in quotes."""
    ids = sorted(graph.by_id, key=len, reverse=True)
    found: dict[str, None] = {}
    for finding in findings:
        where = finding.partition("]")[2].partition(":")[0].strip()
        for end in where.split(" → "):
            if end in graph.by_id:
                found[end] = None
        for node_id in ids:
            if repr(node_id) in finding:
                found[node_id] = None
    ends = [spec.id for spec in graph.nodes if spec.type in ("start", "end")]
    return [
        *found,
        *(each for each in ends if each not in found and any("[input]" in f or "[output]" in f for f in findings)),
    ]


def _allowed(base: NodeGraph, graph: NodeGraph, plan: Mapping[str, Any]) -> set[str] | None:
    """The nodes that may be changed: those that are new, and those that the plan changes; None for all."""
    if not base.nodes:
        return None
    new = {each for each in graph.by_id if each not in base.by_id}
    return new | set(read_plan(plan).open if plan else ()) | set(read_plan(plan).drop if plan else ())
