"""The stages of a design, each an operator: plan a workflow, build it, mend it.

`PlanWorkflow` → `BuildWorkflow` → `MendWorkflow`. The job's goal is the instruction; its inputs may hold ``workflow``,
the one that is there (`graph_json`), ``rounds``, what was asked for before, and ``example``, a workflow that was made
from like words. Each hands its workflow on in its outputs.
A model that says nothing of use ends no run: the message says why under ``failure``, and the evaluator makes a lesson of
it (Chat2Workflow, section 3.5, lets the same question be asked again without one).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from pydantic import JsonValue

from operad.flows.check import NodeType
from operad.flows.edit.batch import OPERATIONS, apply, read_operations
from operad.flows.edit.difference import difference
from operad.flows.formats.json_text import read_json
from operad.flows.generation import prompts
from operad.flows.generation.draft import GIVEN_BY_PLAN, drafted_graph, nodes_schema, variables_before, with_kept
from operad.flows.generation.drafting import params_schema
from operad.flows.generation.graph_json import from_json, to_json, workflow_of
from operad.flows.generation.motifs import nearest
from operad.flows.generation.plan import faults_of, plan_schema, read_plan
from operad.flows.node_graph import NodeGraph
from operad.flows.repair import Contract, Repaired, read_contract, repair, repair_graph
from operad.flows.repair.state import State
from operad.operators.nodes import CHAT2WORKFLOW_TYPES, NODE_TYPES
from operad.operators.operator import Operator
from operad.runtime.graph.call import OperatorCall
from operad.runtime.reasoning.reasoner import MonoModelReasoner, Reasoner, ask
from operad.runtime.reasoning.task import Task
from operad.runtime.values.errors import AnswerError, InvalidError, describe
from operad.runtime.values.message import Job, WorkflowMessage
from operad.runtime.values.schema import Schema, validate

WORKFLOW, ROUNDS, EXAMPLE = "workflow", "rounds", "example"
"""The inputs of the job."""

MAX_TRIES = 2
"""How often a stage asks at most, before it is for the evaluator to judge."""


OPERATIONS_SCHEMA: Schema = {
    "type": "object",
    "properties": {
        "reasoning": {"type": "string", "description": "What each finding comes from, and what mends it."},
        "operations": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"op": {"type": "string", "enum": list(OPERATIONS)}},
                "required": ["op"],
            },
        },
    },
    "required": ["reasoning", "operations"],
    "additionalProperties": False,
}
"""The form of an answer that mends; what each operation takes is said in words, which are shorter than its schema."""


class Asked(NamedTuple):
    """What the job asks for.

    Attributes:
        base: The workflow that is there; without nodes where there is none.
        rounds: What is asked for, the latest last.
        contract: What all rounds together state.
    """

    base: NodeGraph
    rounds: Sequence[str]
    contract: Contract


def asked(job: Job) -> Asked:
    """What a job asks for."""
    earlier = job.inputs.get(ROUNDS)
    rounds = [*(str(each) for each in (cast("list[Any]", earlier) if isinstance(earlier, list) else ())), job.goal]
    base = from_json(job.inputs.get(WORKFLOW) or {})
    return Asked(base, rounds, read_contract(rounds))


class _Stage(Operator):
    """What stages have in common: the node types, and asking within a budget."""

    types: Mapping[str, NodeType] = {name: NODE_TYPES[name] for name in CHAT2WORKFLOW_TYPES}

    def _types(self, base: NodeGraph) -> Mapping[str, NodeType]:
        """The types that may be used: those of Chat2Workflow, which other platforms have, too, and those that are there."""
        there = {spec.type: NODE_TYPES[spec.type] for spec in base.nodes if spec.type in NODE_TYPES}
        return {**self.types, **there}

    def _message(self, job: Job, text: str, **outputs: Any) -> WorkflowMessage:
        return WorkflowMessage(scratchpad=text, outputs=outputs, job_id=job.id, operator_id=self.get_id())


class PlanWorkflow(_Stage):
    """Plans which nodes there are to be.

    Outputs:
        plan: The plan, as JSON of its schema; absent where there is none.
        prompt: How many tokens the parts of the prompt take, roughly.
        failure: Why there is no plan.
    """

    asks_model = True

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Ask for a plan; one that cannot be is asked for again, with what is wrong with it."""
        base, rounds, contract = asked(call.job)
        types = self._types(base)
        parts = prompts.to_plan(base, rounds, contract, types)
        schema = plan_schema(types, list(base.by_id))
        lessons, why = [call.lesson] if call.lesson else [], ""
        for _ in range(MAX_TRIES):
            try:
                said = await ask(call.reasoner, _task(call.job, parts, schema, lessons))
                answer = cast("dict[str, Any]", validate(schema, said))
            except AnswerError as error:
                why = describe(error)
                break
            plan = read_plan(answer)
            faults = faults_of(plan, base, types)
            if not faults:
                return self._message(call.job, prompts.planned(plan), plan=answer, prompt=prompts.sizes(parts, schema))
            why = "the plan cannot be carried out:\n" + "\n".join(f"- {fault}" for fault in faults)
            lessons = [*([call.lesson] if call.lesson else []), why]
        return self._message(call.job, why, failure=why, prompt=prompts.sizes(parts, schema))


class BuildWorkflow(_Stage):
    """Writes the parameters of the planned nodes.

    Outputs:
        workflow: The workflow that was drafted; absent where there is none.
        plan: The plan that it goes by.
        prompt: How many tokens the parts of the prompt take, roughly.
        failure: Why there is no workflow.
    """

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Ask for the parameters of all new and changed nodes at once."""
        answer = _latest(call.messages, "plan")
        if answer is None:
            before = call.messages[-1].outputs if call.messages else {}
            why = str(before.get("failure") or "there is no plan")
            return self._message(call.job, why, failure=why)
        base, _, contract = asked(call.job)
        types = self._types(base)
        plan = read_plan(answer)
        variables = variables_before(plan, base, types)
        kinds = list(dict.fromkeys(node.type for node in plan.nodes if node.change != "keep"))
        parts = prompts.to_build(plan, base, contract, types, variables, _example(call.job, kinds))
        by_id = {node.id: node for node in plan.nodes}
        schemas = {each: _open_schema(types[by_id[each].type], variables.get(each, [])) for each in plan.open}
        schemas = {each: schema for each, schema in schemas.items() if schema["properties"]}
        sizes = prompts.sizes(parts, nodes_schema(schemas) if schemas else None)
        try:
            params = await _nodes(call.reasoner, call.job, parts, schemas, call.lesson)
        except AnswerError as error:
            why = describe(error)
            return self._message(call.job, why, failure=why, plan=answer, prompt=sizes)
        whole = isinstance(params, NodeGraph)
        graph = with_kept(params, base, plan) if whole else drafted_graph(plan, params, base, types)
        return self._message(call.job, prompts.skeleton(graph), workflow=to_json(graph), plan=answer, prompt=sizes)


class MendWorkflow(_Stage):
    """Mends a workflow by rules, and, where a lesson says what is left, by operations that a model chooses.

    Nodes that the plan leaves as they are stay so; what makes a workflow worse is not kept.

    Outputs:
        workflow: The workflow; absent where there is none.
        plan: The plan that it goes by.
        allowed: The ids of the nodes that may be changed; absent where all may.
        repairs: What rules mended.
        operations: What the model changed, as it wrote it.
        asked: The findings that the model was asked to mend.
        prompt: How many tokens the parts of the prompt take, roughly.
        failure: Why there is no workflow.
    """

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Settle what was drafted, the first time; after that, have a model mend what the lesson says."""
        messages = call.messages
        drafted = next((each for each in reversed(messages) if each.operator_id != self.get_id()), None)
        graph = workflow_of(drafted.outputs) if drafted else None
        if drafted is None or graph is None:
            why = str(drafted.outputs.get("failure", "there is no workflow")) if drafted else "there is no workflow"
            return self._message(call.job, why, failure=why, asked=findings_in(call.lesson or ""))
        base, _, contract = asked(call.job)
        plan: dict[str, Any] = drafted.outputs.get("plan") or {}
        allowed = _allowed(base, graph, plan)
        drafted_as = drafted.outputs[WORKFLOW]
        own = next((each for each in reversed(messages) if each.operator_id == self.get_id()), None)
        before = workflow_of(own.outputs) if own and own.outputs.get("drafted") == drafted_as else None
        if before is None or not call.lesson:
            settled = settle(graph, base, contract, allowed)
            extra: dict[str, JsonValue] = {}
        else:
            newest = (
                own.lesson if own and findings_in(own.lesson) else call.lesson
            )  # those of earlier rounds are in `lesson`, too
            settled, extra = await self._mended(call.reasoner, call.job, before, base, contract, allowed, newest)
        assert settled.graph is not None  # noqa: S101 - a graph was given
        return self._message(
            call.job,
            prompts.skeleton(settled.graph),
            workflow=to_json(settled.graph),
            drafted=drafted_as,
            plan=plan,
            **({"allowed": sorted(allowed)} if allowed is not None else {}),
            repairs=[str(each) for each in settled.repairs],
            **extra,
        )

    async def _mended(
        self,
        reasoner: Reasoner,
        job: Job,
        before: NodeGraph,
        base: NodeGraph,
        contract: Contract,
        allowed: Collection[str] | None,
        lesson: str,
    ) -> tuple[Repaired, dict[str, JsonValue]]:
        """The workflow with what a model changed for the lesson; as it was where that made nothing better."""
        was = State(before, contract)
        findings = findings_in(lesson)[: prompts.MOST_FINDINGS]
        parts = prompts.to_mend(before, findings, nodes_in(findings, before))
        lessons: list[str] = []
        extra: dict[str, JsonValue] = {
            "asked": list[JsonValue](findings),
            "prompt": dict(prompts.sizes(parts, OPERATIONS_SCHEMA)),
        }
        for _ in range(MAX_TRIES):
            try:
                said = await ask(reasoner, _task(job, parts, OPERATIONS_SCHEMA, lessons))
                answer = cast("dict[str, Any]", validate(OPERATIONS_SCHEMA, said))
                operations = read_operations(answer["operations"])
                changed = apply(before, operations, self._types(before), allowed=allowed).graph
            except AnswerError as error:
                extra["refused"] = describe(error)
                break
            except InvalidError as error:
                lessons = [f"Nothing was changed, for the operations cannot be done:\n{error}"]
                extra["refused"] = str(error)
                continue
            settled = settle(changed, base, contract, allowed)
            if settled.graph and _is_better(State(settled.graph, contract), was):
                return settled, {**extra, "operations": answer}
            worse = "\n".join(f"- {each}" for each in settled.lessons[: prompts.MOST_FINDINGS])
            lessons = [f"Your operations were taken back, for they make it no better. With them:\n{worse}"]
            extra["refused"] = "the operations make it no better"
        return repair_graph(before, contract, rules=()), extra


def _is_better(now: State, was: State) -> bool:
    """Whether a change is worth keeping: less is wrong, or it changes what only a run or a judge can find fault with."""
    clean = now.standing == was.standing == (0, 0, 0, 0)
    return now.standing.betters(was.standing) or (clean and now.graph != was.graph)


def settle(graph: NodeGraph, base: NodeGraph, contract: Contract, allowed: Collection[str] | None) -> Repaired:
    """A workflow mended by rules; nodes that may not be changed stay as they are.

    Args:
        graph: The workflow.
        base: The workflow that was there before.
        contract: What the instructions state.
        allowed: The ids of the nodes that may be changed; None for all.
    """
    mended = repair_graph(graph, contract)
    if allowed is None or mended.graph is None:
        return mended
    changes = difference(graph, mended.graph)
    touched = {each.id for each in changes.removed} | {each.node for each in changes.changed}
    forbidden = {each for each in touched if each in base.by_id and each not in allowed}
    if not forbidden:
        return mended
    as_they_were = [graph.by_id[spec.id] if spec.id in forbidden else spec for spec in mended.graph.nodes]
    rest = replace(mended.graph, nodes=as_they_were)
    if forbidden <= rest.by_id.keys() and State(rest, contract).standing.betters(State(graph, contract).standing):
        repairs = [each for each in mended.repairs if each.where not in forbidden]
        return replace(repair_graph(rest, contract, rules=()), repairs=repairs)
    return repair_graph(graph, contract, rules=())


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


def _example(job: Job, kinds: Collection[str]) -> prompts.Part:
    """One workflow to go by: the one that the job brings along, or else the motif of the planned types."""
    given: Any = job.inputs.get(EXAMPLE)
    if isinstance(given, dict):
        said = cast("dict[str, Any]", given)
        text = f"{said.get('says', '')}\n{said.get('workflow', '')}"
        return prompts.Part("An example, made for other words", text, data=True)
    motif = nearest(kinds)
    return prompts.Part(f"An example: {motif.says}", motif.text) if motif else prompts.Part("", "")


def _allowed(base: NodeGraph, graph: NodeGraph, plan: Mapping[str, Any]) -> set[str] | None:
    """The nodes that may be changed: those that are new, and those that the plan changes; None for all."""
    if not base.nodes:
        return None
    new = {each for each in graph.by_id if each not in base.by_id}
    return new | set(read_plan(plan).open if plan else ()) | set(read_plan(plan).drop if plan else ())


def _open_schema(node_type: NodeType, variables: Sequence[str]) -> Schema:
    """The schema of a node's parameters, without what its plan says already."""
    schema = params_schema(node_type, variables)
    given = GIVEN_BY_PLAN.get(node_type.type)
    properties = {name: part for name, part in schema["properties"].items() if name != given}
    return {**schema, "properties": properties, "required": list(properties)}


async def _nodes(
    reasoner: Reasoner, job: Job, parts: Sequence[prompts.Part], schemas: Mapping[str, Schema], lesson: str | None
) -> Mapping[str, Mapping[str, Any]] | NodeGraph:
    """The parameters of nodes by their ids; or the whole workflow, where a model wrote that."""
    if not schemas:
        return {}
    schema = nodes_schema(schemas)
    lessons = [lesson] if lesson else []
    if keeps_to_schemas(reasoner):
        answer = validate(schema, await ask(reasoner, _task(job, parts, schema, lessons)))
        return cast("dict[str, dict[str, Any]]", answer["nodes"])
    told = [
        *parts,
        prompts.Part(prompts.FORM, f"{prompts.TEXT_FORM}\n{json.dumps(schema['properties']['nodes'])}"),
    ]
    said = await ask(reasoner, _task(job, told, None, lessons))
    return read_tagged(said)


def read_tagged(said: str) -> Mapping[str, Mapping[str, Any]] | NodeGraph:
    """What a model wrote between tags: parameters of nodes by their ids, or a whole response of Chat2Workflow's form.

    Raises:
        AnswerError: It is neither.
    """
    if "<workflow>" in said:
        mended = repair(said)
        if mended.graph is not None:
            return mended.graph
        raise AnswerError("the workflow between the tags cannot be read: " + "; ".join(mended.lessons[:3]))
    inner = said.partition("<nodes>")[2].partition("</nodes>")[0] or said
    try:
        value = read_json(inner.strip(), "nodes")
    except InvalidError:
        value = validate({"type": "object", "additionalProperties": {"type": "object"}}, inner)
    if not isinstance(value, dict) or not all(
        isinstance(each, dict) for each in cast("dict[str, Any]", value).values()
    ):
        raise AnswerError("the answer holds no parameters of nodes: between <nodes> tags an object is wanted")
    return cast("dict[str, dict[str, Any]]", value)


def keeps_to_schemas(reasoner: Reasoner) -> bool:
    """Whether a reasoner's endpoint keeps to a JSON Schema, as far as that can be told."""
    return reasoner.model.structured if isinstance(reasoner, MonoModelReasoner) else True


def _latest(messages: Sequence[WorkflowMessage] | None, key: str) -> dict[str, Any] | None:
    """The latest output of that name that is an object."""
    for message in reversed(messages or ()):
        value = message.outputs.get(key)
        if isinstance(value, dict):
            return cast("dict[str, Any]", value)
    return None


def _task(job: Job, parts: Sequence[prompts.Part], schema: Schema | None, lessons: Sequence[str]) -> Task:
    """What is asked: the rules as its instruction, the user's words as its goal, all else as its context."""
    rules, rest = parts[0], parts[1:]
    return Task(
        job=Job(goal=job.goal, context=prompts.shown(rest), id=job.id, session_id=job.session_id),
        instruction=rules.text,
        output_schema=json.dumps(schema, ensure_ascii=False) if schema else "",
        lesson="\n".join(lessons),
    )
