"""Generation of workflows from instructions: the designer, and its result."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from operad.configs.capabilities import Trust
from operad.configs.loader import load
from operad.evaluators.unknown import UnknownValues
from operad.flows.edit.difference import Difference, difference
from operad.flows.formats.shapes import fields_of, texts_of
from operad.flows.generation.asking import WorkflowPlan, plan_for_people
from operad.flows.generation.designer import PlanWorkflow
from operad.flows.generation.draft import unread
from operad.flows.generation.graph_json import to_json, with_originals, workflow_of
from operad.flows.generation.names import inputs_and_outputs
from operad.flows.generation.nodes_shown import whole
from operad.flows.generation.offer import Offer, offer_for
from operad.flows.generation.plan import Plan, read_plan
from operad.flows.generation.prompts import planned
from operad.flows.generation.stage import (
    AGREED,
    ASKS,
    EXAMPLE,
    NOTES,
    OFFER,
    REVIEW,
    ROUNDS,
    SECRETS,
    SEEN,
    TITLES,
    WORKFLOW,
    texts_in,
)
from operad.flows.generation.store import nearest_example
from operad.flows.node_graph import NodeGraph, titles_of
from operad.flows.secrets import secrets_of
from operad.operators.nodes import NODE_TYPES
from operad.runtime.agents.agent import Expert
from operad.runtime.events import Event
from operad.runtime.models.model import Model
from operad.runtime.values.errors import BudgetError, InputError, OperatorError, describe
from operad.runtime.values.keys_in_text import name_keys
from operad.runtime.values.message import Job, WorkflowMessage, WorkflowStatus
from operad.runtime.values.sync import run_sync
from operad.runtime.workflow.workflow import Workflow

DESIGNER = "designer"
"""Name of the designer's configuration, which comes with operad."""

LEFT_OUT = "left out:"
"""Beginning of notes on what was asked for and is not done."""

NOTHING = NodeGraph(name="workflow")
"""An empty workflow, the base of a new one."""


class DesignResult:
    """Result of an instruction, as the final message of a designer tells it."""

    message: WorkflowMessage

    @property
    def findings(self) -> list[str]:
        """Remaining findings."""
        return texts_in(self.message.outputs.get("findings"))

    @property
    def notes(self) -> list[str]:
        """Notes of this round: assumptions, contradictions, and requests that cannot be met."""
        return texts_in(self.message.outputs.get("notes"))

    @property
    def left_out(self) -> list[str]:
        """Requests that are not met, each with the reason; a design that leaves something out is not accepted."""
        return reasons_in(self.message.outputs.get("left_out"))


def reasons_in(value: Any) -> list[str]:
    """Return the items of an object in words, each with its reason if it has one."""
    return [f"{what}: {why}" if why else what for what, why in fields_of(value).items()]


@dataclass(frozen=True)
class Design(DesignResult):
    """Result of an instruction.

    Attributes:
        graph: The best generated workflow; the existing one if none was generated.
        base: The existing workflow; without nodes if there was none.
        message: The expert's final message.
        error: Error that ended the run; None if it finished.
    """

    graph: NodeGraph
    base: NodeGraph
    message: WorkflowMessage
    error: BudgetError | OperatorError | None = None

    @property
    def made(self) -> bool:
        """True if a workflow was generated or changed."""
        return self.graph is not self.base

    @property
    def accepted(self) -> bool:
        """True if a workflow was generated or changed, and the designer found nothing left to correct."""
        return self.made and self.message.status is WorkflowStatus.SUCCESS

    @property
    def _plan(self) -> Plan:
        return read_plan(fields_of(self.message.outputs.get("plan")))

    @property
    def still_left_out(self) -> list[str]:
        """Earlier requests that the workflow still does not meet, from the notes in its file, each with the reason."""
        notes = [note for note in self.base.notes if note not in self.dropped_notes]
        return [note.removeprefix(LEFT_OUT).strip() for note in notes if note.startswith(LEFT_OUT)]

    @property
    def neither(self) -> list[str]:
        """Names in the request that are neither inputs nor outputs, each with what the model took it for."""
        return [f"{name}: {what}" for name, what in self._plan.neither.items()]

    @property
    def gone(self) -> list[str]:
        """Inputs and outputs that the workflow had before and has no longer."""
        return [name for name in inputs_and_outputs(self.base) if name not in inputs_and_outputs(self.graph)]

    @property
    def dropped_notes(self) -> list[str]:
        """Earlier notes that no longer hold and are removed from the workflow."""
        numbers = self._plan.outdated
        found_wrong = texts_in(self.message.outputs.get("dropped_notes"))
        return [note for number, note in enumerate(self.base.notes, 1) if number in numbers or note in found_wrong]

    @property
    def warnings(self) -> list[str]:
        """Findings that the model contests; the workflow was not changed for them."""
        return texts_in(self.message.outputs.get("warnings"))

    @property
    def not_tried(self) -> list[str]:
        """Branches and nodes that no dry run tried, each with the reason."""
        return texts_in(self.message.outputs.get("not_tried"))

    @property
    def samples(self) -> Mapping[str, Any]:
        """Samples of what other systems answer to nodes, by node id, with which dry runs try the workflow."""
        return self.graph.samples

    @property
    def unread(self) -> list[str]:
        """New or changed nodes whose results are not read, one line each."""
        touched = self.changes.status
        return [
            f"{node.id} ({node.type}): nothing reads its result" for node in unread(self.graph) if node.id in touched
        ]

    @property
    def plan(self) -> Sequence[str]:
        """Plan: a line for each node that is new, changed or reconnected."""
        return planned(self._plan).splitlines()

    @property
    def repairs(self) -> Sequence[str]:
        """Automatic repairs of the last round."""
        return texts_in(self.message.outputs.get("repairs"))

    @cached_property
    def changes(self) -> Difference:
        """Difference from the existing workflow."""
        return difference(self.base, self.graph)


class Designer:
    """Generator of workflows of typed nodes, which also changes them by instructions (Chat2Workflow, section 2.2).

        design = Designer().design("Sum up a paper (variable paper). Output the summary (variable summary).")
        more = Designer().design("Also translate it into French (variable french).", design.graph)

    Args:
        model: The model; None for that of the configuration or the environment.
        config: The configuration of the expert: a YAML file, or the name of one that comes with operad.
        model_name: Name of the model at its endpoint, instead of the configuration's.
        base_url: An endpoint, instead of the configuration's.
        store: Folder of workflows with their instructions; the one with the most similar instruction serves as example.
        trust: True if the configuration may do what it can; see `load`.
        offer: The node types, parameters and services that workflows may use, of `offer_for` or `offer_of`; by default
            those of Operad's own format, without services.
        review: True to have the model review each workflow, by a call of its own.

    Raises:
        InputError: The configuration does not exist.
        InvalidError: The configuration is not valid; every issue is listed.
    """

    def __init__(
        self,
        model: Model | None = None,
        *,
        config: str | Path = DESIGNER,
        model_name: str | None = None,
        base_url: str | None = None,
        store: Path | None = None,
        trust: Trust = False,
        offer: Offer | None = None,
        review: bool = False,
    ) -> None:
        self._store = store
        self._review = review
        self._offer = offer_for() if offer is None else offer
        self.expert: Expert = load(config, trust=trust).expert(model=model, model_name=model_name, base_url=base_url)

    def job(self, instruction: str, base: NodeGraph = NOTHING) -> Job:
        """Return an instruction as a job of the expert, with the names of secrets in place of keys; see `name_keys`.

        Args:
            base: The existing workflow, with the instructions that it was generated from.

        Raises:
            InputError: The instruction is empty, or the folder of example workflows does not exist.
        """
        if not instruction.strip():
            raise InputError(
                "the instruction is empty: say what the workflow is given, what it does, and what it outputs"
            )
        goal, secrets = name_keys(instruction.strip())
        inputs: dict[str, JsonValue] = {OFFER: self._offer.as_json()}
        inputs |= {SECRETS: list[JsonValue](secrets)} if secrets else {}
        inputs |= {REVIEW: True} if self._review else {}
        if base.nodes:
            inputs |= {WORKFLOW: to_json(base), ROUNDS: _without_keys(base.instructions)}
            inputs |= {NOTES: list[JsonValue](base.notes)} if base.notes else {}
            inputs |= {TITLES: dict[str, JsonValue](titles)} if (titles := titles_of(base)) else {}
        if self._store and (example := nearest_example(self._store, goal)):
            inputs[EXAMPLE] = {
                "says": name_keys(example.instructions).text,
                "workflow": whole(example.graph, NODE_TYPES),
            }
        return Job(goal=goal, inputs=inputs)

    def job_of_plan(self, instruction: str, base: NodeGraph = NOTHING, seen: WorkflowPlan | None = None) -> Job:
        """Return an instruction as a job of the `planner`; see `aplan`."""
        job, plan = self.job(instruction, base), {SEEN: _answer(seen, base)} if seen else {}
        return job.model_copy(update={"inputs": {**job.inputs, **plan, ASKS: True}})

    def job_with_plan(self, instruction: str, base: NodeGraph, plan: WorkflowPlan) -> Job:
        """Return an instruction, with the decisions on its plan, as a job of the expert; see `adesign`."""
        job = self.job("\n".join([instruction.strip(), *plan.decisions]), base)
        inputs = {**job.inputs, SEEN: _answer(plan, base), AGREED: not plan.decided_otherwise}
        return job.model_copy(update={"inputs": inputs})

    @cached_property
    def planner(self) -> Expert:
        """Expert that only plans: the first stage of `expert`.

        Raises:
            InputError: The expert has no operator of the class `PlanWorkflow`.
        """
        stages = self.expert.workflow.graph().operators.values()
        stage = next((each for each in stages if isinstance(each, PlanWorkflow)), None)
        if stage is None:
            raise InputError("this designer has no operator of the class PlanWorkflow, so it cannot show a plan first")
        given = self.expert.workflow
        workflow = Workflow(stage, name="plan", policy=given.policy, budget=given.budget)
        return Expert(self.expert.profile, workflow, self.expert.reasoner)

    def plan(self, instruction: str, base: NodeGraph = NOTHING, seen: WorkflowPlan | None = None) -> WorkflowPlan:
        """Plan a workflow or a change, and wait for the plan; for callers without an event loop. See `aplan`.

        Raises:
            RunningLoopError: An event loop is running here: await `aplan` instead.
        """
        return run_sync(lambda: self.aplan(instruction, base, seen), instead="designer.aplan(…)")

    async def aplan(
        self, instruction: str, base: NodeGraph = NOTHING, seen: WorkflowPlan | None = None
    ) -> WorkflowPlan:
        """Plan a workflow or a change without building it: steps, questions and estimated costs.

        Args:
            base: The existing workflow.
            seen: An earlier plan, to be changed as the last lines of the instruction say.

        Raises:
            InputError: The instruction is empty, or `seen` is a plan of another workflow.
            ModelError: The endpoint failed.
        """
        job = self.job_of_plan(instruction, base, seen)
        message = await self.planner.aexecute(job)
        return await asyncio.to_thread(self.plan_in, message, job, base)

    def plan_in(self, message: WorkflowMessage, job: Job, base: NodeGraph) -> WorkflowPlan:
        """Return the plan in the final message of the `planner`.

        Args:
            base: The existing workflow.
        """
        answer = fields_of(message.outputs.get("plan"))
        if not answer:
            outputs = message.outputs
            failure = str(outputs.get("failure") or "there is no plan")
            left_out = {what: str(why) for what, why in fields_of(outputs.get("left_out")).items()}
            return WorkflowPlan(left_out=left_out, notes=texts_of(outputs.get("notes")), failure=failure, base=base)
        model = getattr(self.expert.reasoner, "model", None)
        return plan_for_people(
            answer,
            job.goal,
            base,
            self._offer.with_used(base).types,
            model.describe() if isinstance(model, Model) else "several models",
            model.find_price() if isinstance(model, Model) else None,
        )

    def design(self, instruction: str, base: NodeGraph = NOTHING, plan: WorkflowPlan | None = None) -> Design:
        """Generate or change a workflow, and wait for it; for callers without an event loop. See `adesign`.

        Raises:
            RunningLoopError: An event loop is running here: await `adesign` instead.
        """
        return run_sync(lambda: self.adesign(instruction, base, plan), instead="designer.adesign(…)")

    async def adesign(self, instruction: str, base: NodeGraph = NOTHING, plan: WorkflowPlan | None = None) -> Design:
        """Generate or change a workflow: nodes that the instruction does not concern stay identical.

        Args:
            base: The existing workflow.
            plan: A plan of the instruction, of `aplan`. It is built without planning again, unless it was answered
                otherwise than it assumes; the workflow keeps its questions and answers with the instruction.

        Raises:
            InputError: The instruction is empty, or the plan is of another workflow.
            ModelError: The endpoint failed before any workflow was generated.
        """
        job = self.job(instruction, base) if plan is None else self.job_with_plan(instruction, base, plan)
        try:
            message = await self.expert.aexecute(job)
        except (BudgetError, OperatorError) as error:
            return self.best_so_far(error, job, base)
        return self.result(message, job, base)

    def stream(self, instruction: str, base: NodeGraph = NOTHING) -> AsyncGenerator[Event, None]:
        """Stream the events of a run of `adesign`; `Designer.result` turns the message of the last event into a design."""
        return self.expert.stream(self.job(instruction, base))

    def graph_of(self, message: WorkflowMessage, job: Job, base: NodeGraph) -> NodeGraph | None:
        """Return the workflow in a message of the expert, without samples that no dry run uses; None if it holds none."""
        graph = workflow_of(message.outputs)
        if graph is None:
            return None
        unused = UnknownValues(graph).unused_samples()
        samples = {node: answer for node, answer in graph.samples.items() if node not in unused}
        return with_originals(replace(graph, samples=samples), base)

    def result(self, message: WorkflowMessage, job: Job, base: NodeGraph) -> Design:
        """Return the design in the expert's final message.

        Args:
            base: The existing workflow.
        """
        graph = self.graph_of(message, job, base)
        notes = _notes_on_secrets(job, graph, base)
        if notes:
            notes += texts_in(message.outputs.get("notes"))
            message = message.model_copy(update={"outputs": {**message.outputs, "notes": notes}})
        if graph is None:
            return Design(base, base, message)
        design = Design(graph, base, message)
        kept = [note for note in base.notes if note not in design.dropped_notes]
        left_out = [f"{LEFT_OUT} {what}" for what in design.left_out]  # later changes must not forget it
        notes = tuple(dict.fromkeys([*kept, *design.notes, *left_out]))
        instructions = (*map(str, _without_keys(base.instructions)), job.goal)
        return replace(design, graph=replace(graph, instructions=instructions, notes=notes))

    def best_so_far(self, error: BudgetError | OperatorError, job: Job, base: NodeGraph) -> Design:
        """Return the latest design that was generated before a run failed.

        Raises:
            BudgetError, OperatorError: No workflow had been generated; the error itself is raised.
        """
        for message in reversed(list(error.finished.values())):
            if self.graph_of(message, job, base) is not None:
                failed = message.model_copy(
                    update={
                        "status": WorkflowStatus.EXECUTION_ERROR,
                        "evaluation": f"the run broke off: {describe(error)}",
                    }
                )
                return replace(self.result(failed, job, base), error=error)
        raise error


def notes_on_keys(job: Job) -> list[str]:
    """Return a note for each secret that stands in place of a key in the request of a job."""
    names = texts_in(job.inputs.get(SECRETS))
    return [f"a key in the request was not stored; give it by: operad secrets set {name}" for name in names]


def _notes_on_secrets(job: Job, graph: NodeGraph | None, base: NodeGraph) -> list[str]:
    """Return a note for each secret in place of a key in the request, and for each other new one that requests send."""
    known = {*texts_in(job.inputs.get(SECRETS)), *(secret.name for secret in secrets_of(base))}
    sent = [secret.name for secret in secrets_of(graph) if secret.name not in known] if graph is not None else []
    return [
        *notes_on_keys(job),
        *(f"the workflow sends the secret {name}; give it by: operad secrets set {name}" for name in sent),
    ]


def _without_keys(instructions: Sequence[str]) -> list[JsonValue]:
    """Return instructions with the names of secrets in place of keys."""
    return [name_keys(instruction).text for instruction in instructions]


def _answer(plan: WorkflowPlan, base: NodeGraph) -> dict[str, Any]:
    """Return a plan of a workflow as JSON."""
    if plan.base != base:
        raise InputError("the plan is of another workflow; plan the change of this one")
    return dict(plan.answer)
