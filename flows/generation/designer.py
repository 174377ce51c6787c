"""First stage of a design, an operator: plan a workflow with all parameters.

`PlanWorkflow` → `MendWorkflow`. The job's goal is the instruction. Its inputs may contain ``workflow``, the existing
workflow (`graph_json`), ``rounds``, the earlier instructions, and ``example``, a workflow made from a similar
instruction. Each stage passes its workflow on in its outputs.

Once there is a draft, findings go to `MendWorkflow`, which works on the newest draft; the plan is not made again.
A useless answer of a model does not end the run: the message gives the reason in its output ``failure``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, cast

from operad.flows.formats.shapes import fields_of, list_of
from operad.flows.generation import prompts
from operad.flows.generation.answers import ask_object, words_of
from operad.flows.generation.asking import so_far, to_ask, with_questions
from operad.flows.generation.draft import drafted_graph, plan_of
from operad.flows.generation.graph_json import to_json
from operad.flows.generation.mending import MendWorkflow
from operad.flows.generation.offer import Offer
from operad.flows.generation.plan import CHANGE, DRAFT, PLAN_KEYS, Plan, changes, parsed, read_plan
from operad.flows.generation.stage import (
    AGREED,
    ASKS,
    EXAMPLE,
    MAX_TRIES,
    SEEN,
    WORKFLOW,
    DesignRequest,
    Stage,
    request_of,
    task_of,
    texts_in,
)
from operad.runtime.graph.call import OperatorCall
from operad.runtime.reasoning.exchange import UnfitError, until_fit
from operad.runtime.values.errors import AnswerError, describe
from operad.runtime.values.json_schema import Schema
from operad.runtime.values.message import Job, WorkflowMessage
from operad.runtime.values.schema import AnswerSchema

__all__ = ["MendWorkflow", "PlanWorkflow"]


class PlanWorkflow(Stage):
    """Plans the nodes of a workflow, or of a change of one, with their parameters, in one call of a model.

    A job that asks for the plan alone gets one with questions to the person who asked. A plan that this person agreed
    to is carried out as it is.

    Outputs:
        plan: The plan, as JSON of its schema; absent if planning failed.
        workflow: The drafted workflow; absent if planning failed.
        told: Faults of the plan that the model was told and that remain.
        notes: Notes of the plan on assumptions and on requests that cannot be met.
        prompt: Estimated tokens of each part of the prompt; empty if no model was asked.
        left_out: What cannot be done, with the reasons, if there is no plan.
        failure: Reason why there is no plan; the words of a model that answers without one.
    """

    asks_model = True

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Ask the model for a plan; an answer without one is asked for once more."""
        if call.rejection is not None and WORKFLOW in call.rejection.answer.outputs:
            return call.rejection.answer  # findings are mended in the draft, also those of the plan
        seen = fields_of(call.job.inputs.get(SEEN))
        request = request_of(call.job)
        offer = self._offer(call.job, request.base)
        if call.job.inputs.get(AGREED) is True:
            return self._drafted(call.job, seen, request, offer, prompt={})
        return await self._plan(call, request, offer, seen)

    async def _plan(
        self, call: OperatorCall, request: DesignRequest, offer: Offer, seen: Mapping[str, Any]
    ) -> WorkflowMessage:
        """Ask the model for a plan that changes an earlier one, if there is one."""
        base, asks = request.base, call.job.inputs.get(ASKS) is True
        prompt = partial(_plan_prompt, request, offer, _example_part(call.job), asks, seen)
        parts, schema = prompt()
        look: list[str] = []
        sizes = prompts.sizes(parts, schema)
        plan: dict[str, Any] = {}
        read, failure = Plan(), ""

        async def answered(fault: str) -> dict[str, Any]:
            nonlocal parts, schema, look, sizes
            task = task_of(call.job, parts, AnswerSchema.unchecked(schema), [call.lesson, fault])
            answer = await ask_object(call.reasoner, task, PLAN_KEYS)
            if not base.nodes or look or not (look := texts_in(parsed(answer.get("look")))):
                return answer
            parts, schema = prompt(look)
            sizes = dict(Counter(sizes) + Counter(prompts.sizes(parts, schema)))
            return await answered(fault)

        async def attempt(fault: str) -> None:
            nonlocal plan, read
            answer = await answered(fault)
            if words := words_of(answer):
                raise UnfitError(f"the model answered without a plan, and said: {words}")
            plan = plan_of(answer, base, offer.types) | ({"questions": answer.get("questions")} if asks else {})
            read = read_plan(plan)
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
        if failure and not changes(read):
            said: dict[str, Any] = {"left_out": dict(read.left_out), "notes": list(read.notes), "prompt": sizes}
            return self._message(call.job, failure, failure=failure, **said)
        # a plan with faults that the model does not mend is carried out as far as possible; it was told of them
        return self._drafted(call.job, plan, request, offer, prompt=sizes)

    def _drafted(
        self, job: Job, answer: Mapping[str, Any], request: DesignRequest, offer: Offer, *, prompt: dict[str, int]
    ) -> WorkflowMessage:
        """Return the message with the workflow of a plan."""
        plan = read_plan(answer)
        return self._message(
            job,
            prompts.planned(plan),
            workflow=to_json(drafted_graph(plan, request.base, offer.types)),
            plan=dict(answer),
            told=list_of(answer.get("faults")),
            notes=list(plan.notes),
            prompt=prompt,
        )


def _plan_prompt(
    request: DesignRequest,
    offer: Offer,
    example: prompts.Part,
    asks: bool,
    seen: Mapping[str, Any],
    look: Collection[str] = (),
) -> tuple[Sequence[prompts.Part], Schema]:
    """Return the prompt for a plan, and the schema of the answer.

    Args:
        request: The request.
        offer: Node types, parameters and services that may be used.
        example: Part with a workflow made from another instruction.
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
    if asks:
        parts, schema = to_ask(parts), with_questions(schema)
    return [*parts, *([so_far(seen)] if seen else ())], schema


def _example_part(job: Job) -> prompts.Part:
    """Return the prompt part with the example workflow of the job; an empty part if it has none."""
    given: Any = job.inputs.get(EXAMPLE)
    if not isinstance(given, dict):
        return prompts.Part("", "")
    example = cast("dict[str, Any]", given)
    text = f"{example.get('says', '')}\n{example.get('workflow', '')}"
    return prompts.Part("An example, made for other words", text, data=True)
