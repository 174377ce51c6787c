"""The stages of a design, each an operator: plan a workflow, build it, mend it.

`PlanWorkflow` → `BuildWorkflow` → `MendWorkflow`. The job's goal is the instruction; its inputs may hold ``workflow``,
the one that is there (`graph_json`), ``rounds``, what was asked for before, and ``example``, a workflow that was made
from like words. Each hands its workflow on in its outputs.

Where the request fits one prompt, the plan bears all parameters and the build asks nothing. Once there is a draft, a
finding goes to `MendWorkflow`, which works on the newest draft; plan and build do not run again.
A model that says nothing of use ends no run: the message says why under ``failure``.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from operad.flows.check import NodeType
from operad.flows.formats.json_text import read_json
from operad.flows.generation import prompts
from operad.flows.generation.draft import (
    GIVEN_BY_PLAN,
    drafted_graph,
    nodes_schema,
    variable_types,
    variables_before,
    with_kept,
    with_replaced,
)
from operad.flows.generation.drafting import params_schema
from operad.flows.generation.graph_json import to_json
from operad.flows.generation.mending import CONTESTABLE, MendWorkflow, contested_in, findings_in, nodes_in, settle
from operad.flows.generation.motifs import nearest
from operad.flows.generation.nodes_shown import whole
from operad.flows.generation.offer import Offer
from operad.flows.generation.plan import PlannedNode, draft_schema, faults_of, plan_schema, read_plan, with_base
from operad.flows.generation.stage import (
    EXAMPLE,
    MAX_TRIES,
    NOTES,
    OFFER,
    REVIEW,
    ROUNDS,
    TITLES,
    WORKFLOW,
    Asked,
    Stage,
    asked,
    keeps_to_schemas,
    task_of,
)
from operad.flows.node_graph import NodeGraph
from operad.flows.repair import repair
from operad.operators.nodes import NODE_TYPES
from operad.runtime.graph.call import OperatorCall
from operad.runtime.reasoning.reasoner import Reasoner, ask
from operad.runtime.values.errors import AnswerError, InvalidError, describe
from operad.runtime.values.message import Job, WorkflowMessage
from operad.runtime.values.schema import Schema, validate

__all__ = [
    "CONTESTABLE",
    "EXAMPLE",
    "MAX_TRIES",
    "NOTES",
    "OFFER",
    "REVIEW",
    "ROUNDS",
    "TITLES",
    "WORKFLOW",
    "Asked",
    "BuildWorkflow",
    "MendWorkflow",
    "PlanWorkflow",
    "asked",
    "contested_in",
    "findings_in",
    "keeps_to_schemas",
    "nodes_in",
    "read_tagged",
    "settle",
]


class PlanWorkflow(Stage):
    """Plans which nodes there are to be, with their parameters where one prompt holds all that this needs.

    Outputs:
        plan: The plan, as JSON of its schema; absent where there is none.
        notes: What the plan says that cannot be done, or was assumed.
        prompt: How many tokens the parts of the prompt take, roughly.
        failure: Why there is no plan.
    """

    asks_model = True

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Ask for a plan; one that cannot be is asked for again, with what is wrong with it."""
        base, rounds, contract, notes, titles = asked(call.job)
        offer = self._offer(call.job, base)
        given = _given_example(call.job)
        whole = prompts.to_draft(base, rounds, offer, given, notes, titles) if keeps_to_schemas(call.reasoner) else None
        apart = prompts.to_plan(base, rounds, contract, offer, notes, titles)
        why, told = "", dict[str, int]()
        for parts in filter(None, (whole, apart)):
            noted = bool(base.nodes and notes)
            schema = (
                draft_schema(base.by_id, noted=noted)
                if parts is whole
                else plan_schema(offer.types, list(base.by_id), noted=noted)
            )
            told = prompts.sizes(parts, schema)
            answer, why, unreadable = await self._planned(call, parts, schema, base, offer.types)
            if answer is not None:
                plan = read_plan(answer)
                return self._message(call.job, prompts.planned(plan), plan=answer, notes=list(plan.notes), prompt=told)
            if not unreadable:
                break
        return self._message(call.job, why, failure=why, prompt=told)

    async def _planned(
        self,
        call: OperatorCall,
        parts: Sequence[prompts.Part],
        schema: Schema,
        base: NodeGraph,
        types: Mapping[str, NodeType],
    ) -> tuple[dict[str, Any] | None, str, bool]:
        """A plan that can be carried out; or else why there is none, and whether no answer could be read."""
        lessons, why = [call.lesson] if call.lesson else [], ""
        for _ in range(MAX_TRIES):
            try:
                said = await ask(call.reasoner, task_of(call.job, parts, schema, lessons))
                answer = with_base(cast("dict[str, Any]", validate(schema, said)), base)
            except AnswerError as error:
                return None, describe(error), True
            plan = read_plan(answer)
            faults = faults_of(plan, base, types) or with_replaced(plan, base, types)[1]
            if not faults:
                return answer, "", False
            again, why = why, "the plan cannot be carried out:\n" + "\n".join(f"- {fault}" for fault in faults)
            if why == again:
                break
            lessons = [*([call.lesson] if call.lesson else []), why]
        return None, why, False


class BuildWorkflow(Stage):
    """Writes the parameters of planned nodes that their plan does not say.

    Outputs:
        workflow: The workflow that was drafted; absent where there is none.
        plan: The plan that it goes by.
        notes: What the plan says that cannot be done, or was assumed.
        prompt: How many tokens the parts of the prompt take, roughly; empty where nothing was asked.
        failure: Why there is no workflow.
    """

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Ask for the parameters of all new and changed nodes that have none yet, at once."""
        answer = _latest(call.messages, "plan")
        if answer is None:
            before = call.messages[-1].outputs if call.messages else {}
            why = str(before.get("failure") or "there is no plan")
            return self._message(call.job, why, failure=why)
        base, rounds, contract, *_ = asked(call.job)
        offer = self._offer(call.job, base)
        types = offer.types
        plan = read_plan(answer)
        by_id = {node.id: node for node in plan.nodes}
        variables = variables_before(plan, base, types)
        left = [each for each in plan.open if by_id[each].params is None and not by_id[each].replace]
        schemas = _open_schemas([by_id[each] for each in left], types, variables, offer)
        parts: Sequence[prompts.Part] = ()
        if schemas:
            kinds = list(dict.fromkeys(by_id[each].type for each in schemas))
            parts = prompts.to_build(
                plan,
                base,
                contract,
                offer,
                variables,
                _example(call.job, kinds),
                kinds=variable_types(plan, base, types),
                ids=list(schemas),
                rounds=rounds,
            )
        sizes = prompts.sizes(parts, nodes_schema(schemas)) if schemas else {}
        try:
            params = await _nodes(call.reasoner, call.job, parts, schemas, call.lesson)
        except AnswerError as error:
            why = describe(error)
            return self._message(call.job, why, failure=why, plan=answer, prompt=sizes)
        written = isinstance(params, NodeGraph)
        graph = with_kept(params, base, plan) if written else drafted_graph(plan, params, base, types)
        return self._message(
            call.job,
            prompts.skeleton(graph, types),
            workflow=to_json(graph),
            plan=answer,
            notes=list(plan.notes),
            prompt=sizes,
        )


def _given_example(job: Job) -> prompts.Part:
    """The workflow to go by that the job brings along; an empty part where it brings none."""
    given: Any = job.inputs.get(EXAMPLE)
    if not isinstance(given, dict):
        return prompts.Part("", "")
    said = cast("dict[str, Any]", given)
    text = f"{said.get('says', '')}\n{said.get('workflow', '')}"
    return prompts.Part("An example, made for other words", text, data=True)


def _example(job: Job, kinds: Collection[str]) -> prompts.Part:
    """One workflow to go by: the one that the job brings along, or else the motif of the planned types."""
    if (given := _given_example(job)).text:
        return given
    motif = nearest(kinds)
    return prompts.Part(f"An example: {motif.says}", whole(motif.graph, NODE_TYPES)) if motif else given


def _open_schemas(
    nodes: Sequence[PlannedNode],
    types: Mapping[str, NodeType],
    variables: Mapping[str, Sequence[str]],
    offer: Offer,
) -> dict[str, Schema]:
    """Return the schemas of the parameters that nodes lack, by id; without any that must be said, none are asked for."""
    own = frozenset(each for each in offer.params if "." in each)
    plain = {each.id: _open_schema(each, types, variables.get(each.id, []), frozenset()) for each in nodes}
    if not any(schema["properties"] for schema in plain.values()):
        return {}
    schemas = {each.id: _open_schema(each, types, variables.get(each.id, []), own) for each in nodes}
    return {each: schema for each, schema in schemas.items() if schema["properties"]}


def _open_schema(
    node: PlannedNode, types: Mapping[str, NodeType], variables: Sequence[str], advanced: Collection[str]
) -> Schema:
    """The schema of a node's parameters, without what its plan says already."""
    node_type = types[node.type]
    schema = params_schema(node_type, variables, advanced)
    given = GIVEN_BY_PLAN.get(node.type) if node.gives or node.type == "start" else None
    properties = {name: part for name, part in schema["properties"].items() if name != given}
    optional = {name for name, field in node_type.params_type.model_fields.items() if not field.is_required()}
    return {**schema, "properties": properties, "required": [name for name in properties if name not in optional]}


async def _nodes(
    reasoner: Reasoner, job: Job, parts: Sequence[prompts.Part], schemas: Mapping[str, Schema], lesson: str | None
) -> Mapping[str, Mapping[str, Any]] | NodeGraph:
    """The parameters of nodes by their ids; or the whole workflow, where a model wrote that."""
    if not schemas:
        return {}
    schema = nodes_schema(schemas)
    lessons = [lesson] if lesson else []
    if keeps_to_schemas(reasoner):
        answer = validate(schema, await ask(reasoner, task_of(job, parts, schema, lessons)))
        return cast("dict[str, dict[str, Any]]", answer["nodes"])
    told = [
        *parts,
        prompts.Part(prompts.FORM, f"{prompts.TEXT_FORM}\n{json.dumps(schema['properties']['nodes'])}"),
    ]
    said = await ask(reasoner, task_of(job, told, None, lessons))
    return read_tagged(said)


def read_tagged(said: str) -> Mapping[str, Mapping[str, Any]] | NodeGraph:
    """Read a model's answer between tags: parameters of nodes by id, or a whole response of Chat2Workflow's form.

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


def _latest(messages: Sequence[WorkflowMessage] | None, key: str) -> dict[str, Any] | None:
    """The latest output of that name that is an object."""
    for message in reversed(messages or ()):
        value = message.outputs.get(key)
        if isinstance(value, dict):
            return cast("dict[str, Any]", value)
    return None
