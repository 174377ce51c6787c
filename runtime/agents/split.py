"""Splitting of jobs: the request to the reasoner, and the parsing of its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from operad.runtime.agents.agent import Profile
from operad.runtime.agents.job_graph import JobGraph
from operad.runtime.events import JobSplit, emit
from operad.runtime.reasoning.reasoner import Reasoner, ask
from operad.runtime.reasoning.task import Task
from operad.runtime.tools.connections import connections
from operad.runtime.tools.toolkit import Action, Toolkit
from operad.runtime.values.errors import AnswerError, InputError, Issue
from operad.runtime.values.message import Job, WorkflowMessage
from operad.runtime.values.schema import AnswerSchema, object_schema

MAX_TOLD = 50
"""Maximum number of issues of a split that are listed."""


@dataclass(frozen=True, slots=True)
class Splitter:
    """Request for splits of jobs, which is repeated until a split is valid.

    Attributes:
        leader: Name of the leader, for errors.
        actions: Actions that help to split well.
        toolkit: The graph that recommends actions and tools.
        max_splits: Maximum number of attempts.
    """

    leader: str
    experts: Sequence[Profile]
    actions: tuple[Action, ...]
    toolkit: Toolkit
    max_splits: int

    async def split(
        self, reasoner: Reasoner, job: Job, given: Sequence[WorkflowMessage], lesson: str | None
    ) -> JobGraph:
        """Ask a reasoner for a split, and return it.

        Args:
            given: Messages of earlier experts.

        Raises:
            AnswerError: None of `max_splits` answers is valid; the issues of the last one are listed.
            InputError: The model is too small to write a valid split.
        """
        if not getattr(reasoner, "writes_prose", True):
            raise InputError(
                f"leader {self.leader!r}: the embedded model cannot split jobs; set OPENAI_API_KEY, or name an endpoint "
                "(--base-url, `model:`), or give the job to an expert (--expert, Job(assigned_expert_name=…))"
            )
        names = [expert.name for expert in self.experts]
        recommended = self.toolkit.recommend(self.actions)
        issues: list[Issue] = []
        async with connections() as opened:
            task = Task(
                job=job,
                instruction=split_instruction(self.experts),
                output_schema=AnswerSchema.unchecked(split_schema(names)),
                actions=recommended.actions,
                tools=await opened.tools(recommended.tools),
                previous_expert_outputs=tuple(given),
                lesson=lesson or "",
                files=job.files,
            )
            for _ in range(self.max_splits):
                answer = ""
                try:
                    answer = await ask(reasoner, task)
                    graph = JobGraph.of(SPLIT.validate(answer), job, [message.operator_id for message in given])
                except AnswerError as error:
                    issues = [Issue("form", str(error))]
                else:
                    issues = graph.check(job, names)
                    if not issues:
                        emit(JobSplit(sub_jobs=graph.sub_jobs))
                        return graph
                task = _with_issues(task, answer, issues, lesson)
        raise AnswerError(
            "\n  ".join(
                [
                    f"leader {self.leader!r} made no valid split of job {job.id!r} in {self.max_splits} tries; "
                    "the last one:",
                    *_issue_lines(issues),
                ]
            )
        )


def _with_issues(task: Task, answer: str, issues: Sequence[Issue], lesson: str | None) -> Task:
    """Return the task of the next attempt: with the last answer, and its issues as a lesson."""
    told = "\n".join(["Your last split cannot be used:", *(f"- {issue}" for issue in _issue_lines(issues))])
    split = WorkflowMessage(scratchpad=answer, operator_id="your last split")
    return task.model_copy(update={"workflow_messages": (split,), "lesson": "\n".join(filter(None, (lesson, told)))})


def _issue_lines(issues: Sequence[Issue]) -> list[str]:
    """Return issues as texts, at most `MAX_TOLD` and the number of the rest."""
    more = [f"and {len(issues) - MAX_TOLD} more"] if len(issues) > MAX_TOLD else []
    return [*map(str, issues[:MAX_TOLD]), *more]


def split_schema(experts: Sequence[str] = ()) -> dict[str, Any]:
    """Return the JSON Schema of a split, which allows only the given names of experts, or any name by default."""
    text = {"type": "string"}
    expert = {"type": "string", "enum": list(experts)} if experts else text
    part = {
        "id": {"type": "string", "description": "Short unique name, one word."},
        "goal": {"type": "string", "description": "Task of the part."},
        "context": {
            "type": "string",
            "description": "Everything else of the job that the expert needs to know; empty if nothing.",
        },
        "completion_criteria": {"type": "string", "description": "Properties that the result must have."},
        "dependencies": {
            "type": "array",
            "items": text,
            "description": "Ids of the parts whose results the part needs.",
        },
        "assigned_expert": expert,
    }
    return object_schema({"sub_jobs": {"type": "array", "items": object_schema(part)}})


SPLIT = AnswerSchema.unchecked(split_schema())
"""Form of a split that may name any expert."""


def split_instruction(experts: Sequence[Profile]) -> str:
    """Return the instruction to split a job among experts."""
    team = "\n".join(f"- {expert.name}: {expert.description or 'no description'}" for expert in experts)
    return (
        "You lead a team of experts. Split the job into parts (sub-jobs) and assign each part to one expert; an expert may get "
        "several parts. Use as few parts as possible: a single one if one expert can do the whole job. A part starts "
        "when all parts that it depends on are finished, and its expert gets their results, each with the id of its "
        "part. Parts that do not depend on each other run at the same time. An expert does not see the job, only "
        "the goal, the context and the completion criteria of its part, those results, and the job's inputs and files, "
        "if there are any. The results of the parts on which no other part depends are the result of the job.\n\n"
        f"The experts:\n{team}"
    )
