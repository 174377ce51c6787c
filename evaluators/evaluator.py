"""Evaluator: an operator whose message has a status, an evaluation, a lesson and blame."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from operad.operators import Operator, OperatorConfig
from operad.operators.instruction import Instruction, InstructionFunction, TemplateInstruction, instruction_of
from operad.runtime.evaluation.cases import CasesLike
from operad.runtime.evaluation.measurement import Measurement
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.graph import HasGraph
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.knowledge.knowledge import KnowledgeBase
from operad.runtime.models.model import Model
from operad.runtime.policies.policy import Policy, Retry
from operad.runtime.reasoning.reasoner import Reasoner, reasoner_of
from operad.runtime.reasoning.task import Example, Task
from operad.runtime.tools.toolkit import Action, Toolkit, Tools
from operad.runtime.values.arguments import known_arguments
from operad.runtime.values.errors import InputError, Issue
from operad.runtime.values.message import SubJob, WorkflowMessage, WorkflowStatus
from operad.runtime.values.schema import AnswerSchema
from operad.runtime.values.sync import run_sync
from operad.runtime.workflow.measure import AT_ONCE, measure
from operad.runtime.workflow.transcript import transcript

_STATUS_MEANINGS = {
    WorkflowStatus.EXECUTION_ERROR: "the result does not do the job, misses a criterion or contradicts itself",
    WorkflowStatus.INPUT_DATA_ERROR: "the fault lies in the result of an earlier expert, which is incomplete, malformed or "
    "wrong",
    WorkflowStatus.JOB_TOO_COMPLICATED_ERROR: "the job is too much for these operators: other attempts would not help, "
    "the job must be split",
    WorkflowStatus.SUCCESS: "the result does the job and meets all criteria",
}


class Evaluator(Operator):
    """Evaluator of the result of a workflow (Chat2Graph, Workflow module, section 2.3).

        evaluator = Evaluator("Every sentence rests on a checked claim.")
        workflow = Workflow(facts >> answer, evaluator=evaluator, max_rounds=3)

    This class asks the reasoner. An evaluator without a model is a subclass whose `execute` returns a message with the
    same fields: status, evaluation, lesson, blame, and optionally score; `transcript()` returns the messages of all
    operators.

    Args:
        instruction: The criteria, as text or a function, as for `Operator`, which may name every operator of the
            workflow; or an `OperatorConfig`.
        id: Id of the evaluator; further arguments are those of `Operator`, except ``output`` and ``ports``, as the
            answer is always a verdict.

    Raises:
        InputError: A value has another type, or an argument is unknown.
    """

    asks_model = True
    _fills = True

    @known_arguments
    def __init__(
        self,
        instruction: OperatorConfig | str | InstructionFunction,
        *,
        id: str = "",
        tools: Tools = (),
        actions: Sequence[Action] = (),
        examples: Sequence[Example] = (),
        model: Model | Reasoner | str | None = None,
        policy: Policy | None = None,
        retry: Retry | int | Literal[False] | None = None,
        memory: bool = True,
        toolkit: Toolkit | None = None,
        knowledge_base: KnowledgeBase | None = None,
    ) -> None:
        parts: dict[str, Any] = {"id": id, "tools": tools, "actions": actions, "examples": examples, "memory": memory}
        parts |= {"model": model, "policy": policy, "retry": retry, "toolkit": toolkit}
        super().__init__(instruction, knowledge_base=knowledge_base, **parts)

    def _instruction(self) -> Instruction:
        return instruction_of(self.config.instruction, self.config.written_by, self.get_id(), of_evaluator=True)

    def _messages_to_name(self, call: OperatorCall) -> Sequence[WorkflowMessage]:
        """Return the messages of the last operators, and those of all operators."""
        return [*call.messages, *(step.message for step in call.transcript or transcript())]

    def check_among(self, before: Mapping[str, BaseOperator], others: Collection[str]) -> list[Issue]:
        """Return the issues of the evaluator, whose criteria may name every operator of the workflow."""
        issues = self.check(before)
        if not self.names_operators:
            return issues
        instruction = self._instruction()
        if isinstance(instruction, TemplateInstruction):
            return [*issues, *instruction.check({**dict.fromkeys(others), **before}, ())]
        return [*issues, *instruction.check(before, others)]

    def check_model(self) -> None:
        """Check the evaluator's own model, if it has one.

        Raises:
            InputError: The model is not configured, or too small.
        """
        super().check_model()
        if self._own_reasoner is not None and type(self).asks_model:
            self.check_reasoner(self._own_reasoner)

    def check_reasoner(self, reasoner: Reasoner) -> None:
        """Check that the model of a reasoner can judge.

        Raises:
            InputError: The model is too small.
        """
        if not getattr(reasoner, "writes_prose", True):
            raise InputError(
                f"evaluator {self.get_id()!r}: the embedded model cannot judge results; name an endpoint's model for the "
                "run (--model, `model:`) or for the evaluator, or write the evaluator as a function"
            )

    def measure(
        self,
        cases: CasesLike,
        *,
        workflow: HasGraph | None = None,
        model: Model | Reasoner | str | None = None,
        max_concurrency: int = AT_ONCE,
        results: str | Path | None = None,
    ) -> Measurement:
        """Judge labelled cases, and return how often verdicts and blame are right; for callers without an event loop.

            measured = Evaluator("The answer is polite.").measure("labelled.jsonl", workflow=flow)
            print(measured.accuracy, measured.false_rejections, measured.blame_precision, measured.blame_recall)

        Arguments and errors are those of `ameasure`.

        Raises:
            RunningLoopError: An event loop is running here: await `ameasure` instead.
        """
        options: dict[str, Any] = {"workflow": workflow, "model": model}
        options |= {"max_concurrency": max_concurrency, "results": results}
        return run_sync(partial(self.ameasure, cases, **options), instead="evaluator.ameasure(…)")

    async def ameasure(
        self,
        cases: CasesLike,
        *,
        workflow: HasGraph | None = None,
        model: Model | Reasoner | str | None = None,
        max_concurrency: int = AT_ONCE,
        results: str | Path | None = None,
    ) -> Measurement:
        """Judge labelled cases, and return how often verdicts and blame are right.

        Args:
            cases: Cases with the answers of the operators (``steps``), ``accepted`` and ``blame``, or a file of these.
            workflow: The workflow whose operators they are; by default, the steps say which operators follow each other.
            model: Model of the evaluator, if it has none of its own.
            max_concurrency: Number of cases that are judged at the same time.
            results: File that keeps the verdicts; those in it that match are used again.

        Raises:
            InputError: The cases, or the file, cannot be read.
            InvalidError: Cases have no label or no steps, or have other operators than the workflow.
        """
        graph = None if workflow is None else workflow.graph()
        options: dict[str, Any] = {"max_concurrency": max_concurrency, "results": results}
        return await measure([self], cases, graph, reasoner_of(model), **options)

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Ask the reasoner for a verdict on the messages of the direct predecessors.

        In a run, the reasoner sees the purpose and the message of every operator and may blame any of them; outside of
        a run, it may blame the authors of `workflow_messages`. For wrong input it may blame the authors of
        `previous_expert_outputs`; without these, the status INPUT_DATA_ERROR is not offered. The status
        JOB_TOO_COMPLICATED_ERROR is offered for sub-jobs, which a leader can split.

        If an answer cannot be parsed, the reasoner is asked again, with the fault added to the lesson.

        Returns:
            The verdict; its scratchpad is the text that was judged, and its score is from 0 to 10.

        Raises:
            AnswerError: No answer can be parsed as a verdict.
            InputError: The model is too small.
        """
        self.check_reasoner(self.thinker(call.reasoner))
        judged, previous, steps = call.messages, call.previous, call.transcript or transcript()
        operators = [step.operator_id for step in steps] or [message.operator_id for message in judged]
        statuses = _statuses(has_previous=bool(previous), can_split=isinstance(call.job, SubJob))
        schema = verdict_schema([*operators, *(message.operator_id for message in previous)], statuses)
        # A model may say what is not offered: that the job is too much for the operators.
        accepted = {*statuses, WorkflowStatus.JOB_TOO_COMPLICATED_ERROR}
        status_schema = {"enum": [status.value for status in WorkflowStatus if status in accepted]}
        needed = {
            **schema,
            "properties": {**schema["properties"], "status": status_schema},
            "required": ["evaluation", "status"],
            "additionalProperties": True,
        }
        operator_id = self.get_id()

        def judging(task: Task) -> Task:
            """Return the task with the criteria in the instruction of a judge."""
            before, after = _around_criteria(statuses)
            filled = task.filled and task.filled.model_copy(
                update={"start": len(before) + task.filled.start if task.filled.start else 0, "shown": ()}
            )
            changes = {"instruction": f"{before}{task.instruction}{after}", "filled": filled, "transcript": steps}
            return task.model_copy(update={**changes, "output_schema": AnswerSchema.unchecked(schema)})

        verdict = await self._ask_until_read(
            call,
            AnswerSchema.unchecked(needed).validate,
            operator_id,
            "verdict",
            f"evaluator {operator_id!r}",
            judging,
        )
        return WorkflowMessage(
            scratchpad="\n\n".join(message.scratchpad for message in judged),
            status=WorkflowStatus(verdict["status"]),
            evaluation=verdict["evaluation"],
            lesson=verdict.get("lesson", ""),
            blame=tuple(verdict.get("blame", ())),
            score=verdict.get("score"),
            job_id=call.job.id,
            operator_id=operator_id,
        )


def _statuses(*, has_previous: bool, can_split: bool) -> list[WorkflowStatus]:
    """Return the statuses that somebody can act on: an earlier expert on wrong input, a leader on too large a job."""
    useless = set[WorkflowStatus]()
    useless |= set() if has_previous else {WorkflowStatus.INPUT_DATA_ERROR}
    useless |= set() if can_split else {WorkflowStatus.JOB_TOO_COMPLICATED_ERROR}
    return [status for status in WorkflowStatus if status not in useless]


def verdict_schema(operator_ids: Iterable[str], statuses: Iterable[WorkflowStatus]) -> dict[str, Any]:
    """Return the JSON Schema of a verdict with one of some statuses that may blame some operators."""
    to_blame = sorted({operator_id for operator_id in operator_ids if operator_id})
    blame: dict[str, Any] = {"type": "array", "items": {"type": "string"}}
    if to_blame:
        blame["items"]["enum"] = to_blame
    else:
        blame["maxItems"] = 0
    properties: dict[str, Any] = {
        "evaluation": {"type": "string"},
        "status": {"type": "string", "enum": [status.value for status in statuses]},
        "lesson": {"type": "string"},
        "blame": blame,
        "score": {"type": "integer", "minimum": 0, "maximum": 10},
    }
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _around_criteria(statuses: Sequence[WorkflowStatus]) -> tuple[str, str]:
    """Return the texts before and after the criteria in the instruction for a verdict with one of some statuses."""
    blame_hint = " For INPUT_DATA_ERROR, blame earlier experts." * (WorkflowStatus.INPUT_DATA_ERROR in statuses)
    attempt_hint = "\nEXECUTION_ERROR applies only if another attempt can help." * (len(statuses) > 2)
    meanings = "\n".join(f"- {status.value}: {_STATUS_MEANINGS[status]}" for status in statuses)
    return "Judge what the operators produced for the job, by these criteria:\n", (
        "\n\nIn `evaluation`, say what is right and what is wrong. In `status`, choose the first of these that applies:\n"
        f"{meanings}{attempt_hint}\n\n"
        "In `lesson`, tell the operators at fault what to do differently. In `blame`, list the ids of the operators with "
        "which the fault began, also if their instruction did not mention the criterion; these, and all that come after "
        "them, run again with the lesson. Leave out operators that only passed the fault on; leave `blame` empty if you "
        f"cannot tell.{blame_hint} On SUCCESS, leave `lesson` and `blame` empty. In `score`, rate by a whole number from "
        "0 to 10 how far the result does the job and meets the criteria."
    )
