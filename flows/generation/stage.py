"""Common parts of the stages of a design: the request, the offer, and the task for the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from operad.flows.formats.shapes import fields_of, list_of
from operad.flows.generation import prompts
from operad.flows.generation.graph_json import from_json
from operad.flows.generation.offer import Offer, read_offer
from operad.flows.node_graph import NodeGraph
from operad.operators.operator import Operator
from operad.runtime.reasoning.task import Task
from operad.runtime.values.message import Job, WorkflowMessage
from operad.runtime.values.schema import AnswerSchema

WORKFLOW, ROUNDS, NOTES, TITLES, EXAMPLE, OFFER, REVIEW, SECRETS = (
    "workflow", "rounds", "notes", "titles", "example", "offer", "review", "secrets",
)  # fmt: skip
"""Names of the job's inputs."""

ASKS, SEEN, AGREED = "asks", "seen", "agreed"
"""Inputs of a job that is planned first: True for the plan alone; the plan that a person has seen; True to build that."""

MAX_TRIES = 2
"""Maximum number of questions of a stage to the model; then the evaluator judges the result."""


class DesignRequest(NamedTuple):
    """Request of a job.

    Attributes:
        base: The existing workflow; without nodes if there is none.
        rounds: The instructions, the latest last.
        notes: Earlier notes to the user.
        titles: Titles that people gave to nodes, by id.
    """

    base: NodeGraph
    rounds: Sequence[str]
    notes: Sequence[str] = ()
    titles: Mapping[str, str] = MappingProxyType({})


def request_of(job: Job) -> DesignRequest:
    """Read the request of a job."""
    rounds = [*texts_in(job.inputs.get(ROUNDS)), job.goal]
    base = from_json(job.inputs.get(WORKFLOW) or {})
    titles = {node_id: str(title) for node_id, title in fields_of(job.inputs.get(TITLES)).items()}
    return DesignRequest(base, rounds, texts_in(job.inputs.get(NOTES)), titles)


class Stage(Operator):
    """Base class of the stages of a design."""

    def _offer(self, job: Job, graph: NodeGraph) -> Offer:
        """Return the offer of a job, with the node types and parameters that a workflow already uses."""
        return read_offer(job.inputs.get(OFFER)).with_used(graph)

    def _message(self, job: Job, text: str, **outputs: Any) -> WorkflowMessage:
        return WorkflowMessage(scratchpad=text, outputs=outputs, job_id=job.id, operator_id=self.get_id())


def task_of(job: Job, parts: Sequence[prompts.Part], schema: AnswerSchema, lessons: Sequence[str | None]) -> Task:
    """Return the task of a stage: rules and fixed parts as instruction, user's words as goal, the rest as context.

    Args:
        job: The job.
        parts: Parts of the prompt, the rules first.
        schema: Form of the answer.
        lessons: Lessons on earlier answers; empty ones and None are left out.
    """
    rules = parts[0]
    fixed = [part for part in parts[1:] if part.fixed]
    rest = [part for part in parts[1:] if not part.fixed]
    return Task(
        job=Job(goal=job.goal, context=prompts.shown(rest), id=job.id, session_id=job.session_id),
        instruction="\n\n".join(filter(None, [rules.text, prompts.shown(fixed)])),
        output_schema=schema,
        lesson="\n".join(filter(None, lessons)),
    )


def texts_in(value: Any) -> list[str]:
    """Return the items of a list as texts; empty for any other value."""
    return [str(item) for item in list_of(value)]
