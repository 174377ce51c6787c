"""Stages of a design, each an operator: plan a workflow, build it, mend it.

`PlanWorkflow` → `BuildWorkflow` → `MendWorkflow`. The job's goal is the instruction. Its inputs may contain
``workflow``, the existing workflow (`graph_json`), ``rounds``, the earlier instructions, and ``example``, a workflow
made from a similar instruction. Each stage passes its workflow on in its outputs.

If the request fits one prompt, the plan contains all parameters and the build asks no model. Once there is a draft,
findings go to `MendWorkflow`, which works on the newest draft; plan and build do not run again.
A useless answer of a model does not end the run: the message gives the reason in its output ``failure``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from typing import Any, NamedTuple, cast

from operad.flows.check import NodeType
from operad.flows.formats.chat2workflow import load
from operad.flows.formats.shapes import fields_of, list_of
from operad.flows.generation import prompts
from operad.flows.generation.answers import ask_object, words_of
from operad.flows.generation.asking import so_far, to_ask, with_questions
from operad.flows.generation.draft import (
    GIVEN_BY_PLAN,
    apply_replacements,
    drafted_graph,
    nodes_schema,
    variable_types,
    variables_before,
)
from operad.flows.generation.drafting import params_schema
from operad.flows.generation.graph_json import to_json
from operad.flows.generation.mending import MendWorkflow
from operad.flows.generation.nodes_shown import whole
from operad.flows.generation.offer import Offer
from operad.flows.generation.plan import (
    CHANGE,
    DRAFT,
    PLAN_KEYS,
    Plan,
    PlannedNode,
    changes,
    normal_plan,
    parsed,
    plan_schema,
    read_plan,
    unknown_neighbours,
)
from operad.flows.generation.stage import (
    AGREED,
    ASKS,
    EXAMPLE,
    MAX_TRIES,
    SEEN,
    DesignRequest,
    Stage,
    keeps_to_schemas,
    request_of,
    task_of,
    texts_in,
)
from operad.flows.node_graph import NodeGraph
from operad.operators.nodes import NODE_TYPES
from operad.runtime.graph.call import OperatorCall
from operad.runtime.reasoning.ask_again import UnfitError, until_fit
from operad.runtime.reasoning.reasoner import Reasoner
from operad.runtime.values.errors import AnswerError, describe
from operad.runtime.values.message import Job, WorkflowMessage
from operad.runtime.values.schema import AnswerSchema
from operad.runtime.values.schema_check import Schema

# Motifs: small example workflows, which show a model how nodes of the planned types are connected.

COMMON = frozenset({"start", "end", "llm"})
"""Types of most workflows, which do not count for the choice of a motif."""


@dataclass(frozen=True, slots=True)
class Motif:
    """Small example workflow.

    Attributes:
        name: Name of the motif.
        description: Description in one line.
        text: The workflow in Chat2Workflow's JSON, without whitespace.
    """

    name: str
    description: str
    text: str

    @property
    def graph(self) -> NodeGraph:
        """The workflow."""
        return load(self.text, self.name)

    @property
    def kinds(self) -> frozenset[str]:
        """Types of the nodes."""
        return frozenset(spec.type for spec in self.graph.nodes)


@cache
def motifs() -> tuple[Motif, ...]:
    """Return all motifs."""
    return tuple(_read())


def nearest(kinds: Collection[str]) -> Motif | None:
    """Return the motif with most of the given types and fewest others; None if none has a type outside of `COMMON`."""
    wanted = frozenset(kinds) - COMMON
    ranked = [(len(motif.kinds & wanted), -len(motif.kinds - COMMON - wanted), motif) for motif in motifs()]
    best = max(ranked, key=lambda rank: rank[:2], default=None)
    return best[2] if best is not None and best[0] else None


def _read() -> Iterator[Motif]:
    """Yield the motifs of ``motifs.json``."""
    listed: list[dict[str, Any]] = json.loads(
        (files("operad.flows.generation") / "motifs.json").read_text(encoding="utf-8")
    )
    for item in listed:
        text = json.dumps(item["workflow"], ensure_ascii=False, separators=(",", ":"))
        yield Motif(item["name"], item["says"], text)


__all__ = ["BuildWorkflow", "MendWorkflow", "PlanWorkflow"]


class PlanWorkflow(Stage):
    """Plans the nodes of a workflow, with their parameters if all that this needs fits one prompt.

    A job that asks for the plan alone gets one without parameters, with questions to the person who asked. A plan that
    this person agreed to is passed on as it is.

    Outputs:
        plan: The plan, as JSON of its schema; absent if planning failed.
        notes: Notes of the plan on assumptions and on requests that cannot be met.
        prompt: Estimated tokens of each part of the prompt.
        to_build: Estimated tokens of the prompt for the parameters, if the job asks for the plan alone.
        left_out: What cannot be done, with the reasons, if there is no plan.
        failure: Reason why there is no plan; the words of a model that answers without one.
    """

    asks_model = True

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Ask the model for a plan; an answer without one is asked for once more."""
        seen = fields_of(call.job.inputs.get(SEEN))
        if call.job.inputs.get(AGREED) is True:
            told, agreed = list_of(seen.get("faults")), read_plan(seen)
            notes = list(agreed.notes)
            return self._message(call.job, prompts.planned(agreed), plan=seen, told=told, notes=notes, prompt={})
        return await self._plan(call, seen)

    async def _plan(self, call: OperatorCall, seen: Mapping[str, Any]) -> WorkflowMessage:
        """Ask the model for a plan that changes an earlier one, if there is one."""
        request = request_of(call.job)
        base, asks = request.base, call.job.inputs.get(ASKS) is True
        offer = self._offer(call.job, base)
        one_call = keeps_to_schemas(call.reasoner) and not asks
        prompt = partial(_plan_prompt, request, offer, _job_example_part(call.job), one_call, asks, seen)
        parts, schema = prompt()
        look: list[str] = []
        sizes = prompts.sizes(parts, schema)
        plan: dict[str, Any] = {}
        read, failure = Plan(), ""

        async def answered(fault: str) -> dict[str, Any]:
            nonlocal parts, schema, look, sizes
            task = task_of(call.job, parts, AnswerSchema.unchecked(schema), [call.lesson, fault])
            answer = await ask_object(call.reasoner, task, PLAN_KEYS)
            if schema is not CHANGE or look or not (look := texts_in(parsed(answer.get("look")))):
                return answer
            parts, schema = prompt(look)
            sizes = dict(Counter(sizes) + Counter(prompts.sizes(parts, schema)))
            return await answered(fault)

        async def attempt(fault: str) -> None:
            nonlocal plan, read
            answer = await answered(fault)
            if words := words_of(answer):
                raise UnfitError(f"the model answered without a plan, and said: {words}")
            plan = normal_plan(answer, base, offer.types) | ({"questions": answer.get("questions")} if asks else {})
            read = read_plan(plan)
            plan["faults"] += [*unknown_neighbours(read, base), *apply_replacements(read, base, offer.types)[1]]
            if plan["faults"]:
                raise UnfitError("\n".join(plan["faults"]))
            if not (changes(read) or plan["notes"] or plan.get("left_out")):
                raise UnfitError("the plan changes nothing; where nothing can be done, say why in `left_out`")

        try:
            await until_fit(attempt, MAX_TRIES)
        except UnfitError as unfit:
            failure = str(unfit)
        except AnswerError as error:
            failure = describe(error)
        failure = failure or ("" if read.nodes or base.nodes else "the model planned no workflow")
        said: dict[str, Any] = {"notes": list(read.notes), "prompt": sizes}
        if failure and not changes(read):
            return self._message(call.job, failure, failure=failure, left_out=dict(read.left_out), **said)
        said |= {"to_build": sum(_to_build(call.job, plan, offer).sizes.values())} if asks else {}
        # a plan with faults that the model does not mend is carried out as far as possible; it was told of them
        return self._message(call.job, prompts.planned(read), plan=plan, told=plan["faults"], **said)


def _plan_prompt(
    request: DesignRequest,
    offer: Offer,
    example: prompts.Part,
    one_call: bool,
    asks: bool,
    seen: Mapping[str, Any],
    look: Collection[str] = (),
) -> tuple[Sequence[prompts.Part], Schema]:
    """Return the prompt for a plan, and the schema of the answer.

    Args:
        request: The request.
        offer: Node types, parameters and services that may be used.
        example: Part with a workflow made from another instruction.
        one_call: True to ask for the parameters, too, if the prompt fits one call.
        asks: True to ask for questions to the user.
        seen: Earlier plan that the answer changes; empty for none.
        look: Nodes and types to show in full.
    """
    base, rounds, notes, titles = request
    parts = (
        prompts.to_change(base, rounds, offer, notes, titles, look)
        if base.nodes
        else prompts.to_draft(rounds, offer, example)
    )
    schema: Schema = CHANGE if base.nodes else DRAFT
    if not (one_call and prompts.in_one_call(parts)):
        parts = prompts.to_plan(base, rounds, offer, notes, titles)
        schema = plan_schema(offer.types, list(base.by_id), noted=bool(base.nodes and notes))
    if asks:
        parts, schema = to_ask(parts), with_questions(schema)
    return [*parts, *([so_far(seen)] if seen else ())], schema


class BuildWorkflow(Stage):
    """Writes the parameters of planned nodes that the plan does not contain.

    Outputs:
        workflow: The drafted workflow; absent if drafting failed.
        plan: The plan of the workflow.
        notes: Notes of the plan on assumptions and on requests that cannot be met.
        prompt: Estimated tokens of each part of the prompt; empty if no model was asked.
        failure: Reason why there is no workflow.
    """

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Ask the model, in one call, for the parameters of all new and changed nodes that have none yet."""
        answer = _latest_object(call.messages, "plan")
        if answer is None:
            outputs = dict(call.messages[-1].outputs) if call.messages else {}
            failure = str(outputs.setdefault("failure", "there is no plan"))
            return self._message(call.job, failure, **{**outputs, "prompt": {}})
        base = request_of(call.job).base
        offer = self._offer(call.job, base)
        plan, types = read_plan(answer), offer.types
        parts, schemas, sizes = _to_build(call.job, answer, offer)
        try:
            params = await _ask_params(call.reasoner, call.job, parts, schemas, call.lesson)
        except AnswerError as error:
            failure = describe(error)
            return self._message(call.job, failure, failure=failure, plan=answer, prompt=sizes)
        graph = drafted_graph(plan, params, base, types)
        return self._message(
            call.job,
            prompts.skeleton(graph, types),
            workflow=to_json(graph),
            plan=answer,
            told=list(call.messages[-1].outputs.get("told", ())),
            notes=list(plan.notes),
            prompt=sizes,
        )


class _Build(NamedTuple):
    """Prompt for the parameters that a plan does not contain.

    Attributes:
        parts: The parts; none if no parameters are missing.
        schemas: Schema of the missing parameters, by node id.
        sizes: Estimated tokens of each part.
    """

    parts: Sequence[prompts.Part]
    schemas: Mapping[str, Schema]
    sizes: dict[str, int]


def _to_build(job: Job, answer: Mapping[str, Any], offer: Offer) -> _Build:
    """Return the prompt for the parameters that a plan does not contain."""
    base, rounds, *_ = request_of(job)
    types, plan = offer.types, read_plan(answer)
    by_id = {node.id: node for node in plan.nodes}
    variables = variables_before(plan, base, types)
    unwritten = [
        each
        for each in plan.to_write
        if by_id[each].params is None and not by_id[each].replace and by_id[each].type in types
    ]
    schemas = _missing_schemas([by_id[node_id] for node_id in unwritten], types, variables, offer)
    if not schemas:
        return _Build((), {}, {})
    kinds = list(dict.fromkeys(by_id[node_id].type for node_id in schemas))
    parts = prompts.to_build(
        plan,
        base,
        offer,
        variables,
        _job_example_part(job) if base.nodes else _example_part(job, kinds),
        kinds=variable_types(plan, base, types),
        ids=list(schemas),
        rounds=rounds,
    )
    return _Build(parts, schemas, prompts.sizes(parts, nodes_schema(schemas)))


def _job_example_part(job: Job) -> prompts.Part:
    """Return the prompt part with the example workflow of the job; an empty part if it has none."""
    given: Any = job.inputs.get(EXAMPLE)
    if not isinstance(given, dict):
        return prompts.Part("", "")
    example = cast("dict[str, Any]", given)
    text = f"{example.get('says', '')}\n{example.get('workflow', '')}"
    return prompts.Part("An example, made for other words", text, data=True)


def _example_part(job: Job, kinds: Collection[str]) -> prompts.Part:
    """Return the prompt part with an example: that of the job, or else the motif nearest to the planned types."""
    if (given := _job_example_part(job)).text:
        return given
    motif = nearest(kinds)
    return prompts.Part(f"An example: {motif.description}", whole(motif.graph, NODE_TYPES)) if motif else given


def _missing_schemas(
    nodes: Sequence[PlannedNode],
    types: Mapping[str, NodeType],
    variables: Mapping[str, Sequence[str]],
    offer: Offer,
) -> dict[str, Schema]:
    """Return the schemas of missing parameters by node id; empty if only advanced parameters are missing."""
    advanced = frozenset(param for param in offer.params if "." in param)
    basic = {node.id: _missing_schema(node, types, variables.get(node.id, []), frozenset()) for node in nodes}
    if not any(schema["properties"] for schema in basic.values()):
        return {}
    schemas = {node.id: _missing_schema(node, types, variables.get(node.id, []), advanced) for node in nodes}
    return {each: schema for each, schema in schemas.items() if schema["properties"]}


def _missing_schema(
    node: PlannedNode, types: Mapping[str, NodeType], variables: Sequence[str], advanced: Collection[str]
) -> Schema:
    """Return the schema of a node's parameters without the one that its plan states."""
    node_type = types[node.type]
    schema = params_schema(node_type, variables, advanced)
    stated = GIVEN_BY_PLAN.get(node.type) if node.declares or node.type == "start" else None
    properties = {name: part for name, part in schema["properties"].items() if name != stated}
    optional = {name for name, field in node_type.params_type.model_fields.items() if not field.is_required()}
    return {**schema, "properties": properties, "required": [name for name in properties if name not in optional]}


async def _ask_params(
    reasoner: Reasoner, job: Job, parts: Sequence[prompts.Part], schemas: Mapping[str, Schema], lesson: str | None
) -> Mapping[str, Mapping[str, Any]]:
    """Ask a model for the parameters of nodes, by id; the check finds what does not fit their schemas.

    Raises:
        AnswerError: The model answers without parameters, or the answer was cut off.
    """
    if not schemas:
        return {}
    form = AnswerSchema.unchecked(nodes_schema(schemas))

    async def attempt(fault: str) -> Mapping[str, Mapping[str, Any]]:
        answer = await ask_object(reasoner, task_of(job, parts, form, [lesson, fault]), ("nodes", *schemas))
        if words := words_of(answer):
            raise UnfitError(f"the model answered without parameters of nodes, and said: {words}")
        nodes = parsed(answer.get("nodes", answer))  # models leave `nodes` out, and answer the object in it
        written = {node_id: parsed(params) for node_id, params in fields_of(nodes).items() if node_id in schemas}
        if not written or not all(isinstance(params, dict) for params in written.values()):
            raise UnfitError("`nodes` must be an object with the parameters of each node, an object, by its id")
        return cast("dict[str, dict[str, Any]]", written)

    try:
        return await until_fit(attempt, MAX_TRIES)
    except UnfitError as unfit:
        raise AnswerError(str(unfit)) from None


def _latest_object(messages: Sequence[WorkflowMessage] | None, key: str) -> dict[str, Any] | None:
    """Return the latest output with a name that is an object; None if there is none."""
    for message in reversed(messages or ()):
        value = message.outputs.get(key)
        if isinstance(value, dict):
            return cast("dict[str, Any]", value)
    return None
