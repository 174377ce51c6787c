"""Evaluator: an operator whose message has a status, an evaluation, a lesson and blame."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from operad.evaluators.verdict_form import CRITERIA_START, INSTRUCTION, VerdictForm, VerdictReader, verdict_of
from operad.operators import Operator, OperatorConfig
from operad.operators.instruction import Instruction, InstructionFunction, TemplateInstruction, instruction_of
from operad.runtime.evaluation.cases import CasesLike
from operad.runtime.evaluation.measurement import Measurement
from operad.runtime.events import current_scope
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.operator import BaseOperator, HasGraph
from operad.runtime.knowledge.knowledge import KnowledgeBase
from operad.runtime.models.model import Model
from operad.runtime.policies.policy import Policy, Retry
from operad.runtime.reasoning.evidence import (
    evidence,
    evidence_alone,
    in_order,
    judge_again,
    length_of,
    prompt_budget,
    without_evidence,
)
from operad.runtime.reasoning.exchange import Exchange, Rejection
from operad.runtime.reasoning.prompt import LEAST_EVIDENCE, report_cut
from operad.runtime.reasoning.reasoner import MonoModelReasoner, Reasoner, reasoner_of
from operad.runtime.reasoning.task import Example, Task
from operad.runtime.tools.toolkit import Action, Toolkit, Tools
from operad.runtime.values.arguments import known_arguments
from operad.runtime.values.errors import AnswerError, InputError, Issue
from operad.runtime.values.message import WorkflowMessage, WorkflowStatus
from operad.runtime.values.schema import AnswerSchema
from operad.runtime.values.step_record import StepRecord
from operad.runtime.values.sync import run_sync
from operad.runtime.workflow.measure import AT_ONCE, measure
from operad.runtime.workflow.records import transcript

_logger = logging.getLogger(__name__)

LONG_TRANSCRIPT = 4_000
"""Length in characters of instructions and results from which a model is asked first without them."""

RESULT_FIRST = """

You see the results and the evidence first. If everything is right and verified, give the verdict. Otherwise say in \
`evaluation` and `unsure` what is wrong or not verified, and leave `faults` empty: you will see the work of each operator \
next."""
"""Addition to the instruction of a judge who is asked first without the transcript."""

TRANSCRIPT_NEXT = "This is the work of each operator. Judge again with all of it in view, and give a whole verdict."


class Evaluator(Operator):
    """Evaluator of the result of a workflow (Chat2Graph, Workflow module, section 2.3).

        evaluator = Evaluator("Every sentence rests on a checked claim.")
        workflow = Workflow(facts >> answer, evaluator=evaluator, max_rounds=3)

    This class asks the reasoner. An evaluator without a model is a subclass whose `execute` returns a message with the
    same fields: status, evaluation, faults (or lesson and blame), and optionally unsure and score; `transcript()` returns the messages of all
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

        In a run, the reasoner sees the work of every operator and may find any of them at fault, also those inside of
        others; outside of a run, the authors of `workflow_messages`. It may find the authors of
        `previous_expert_outputs` at fault, too.

        If an answer cannot be parsed, the reasoner is asked again, with the fault added to the lesson. It is asked once
        about a verdict that contradicts itself: a SUCCESS with faults, an EXECUTION_ERROR without, or an unknown
        operator. In a later round, a model goes on in the conversation of its last verdict.

        Returns:
            The verdict; its scratchpad is the text that was judged, and its score is from 0 to 10.

        Raises:
            AnswerError: No answer can be parsed as a verdict.
            InputError: The model is too small.
        """
        thinker = self.thinker(call.reasoner)
        self.check_reasoner(thinker)
        steps, last = in_order(call.transcript or transcript()), call.rejection
        if not isinstance(thinker, MonoModelReasoner):
            verdict = await self._ask_verdict(call, steps, steps, last)
        elif last is None:
            verdict = await self._ask_in_stages(call, steps, thinker)
        elif last.exchange is None or last.answer.status is WorkflowStatus.SUCCESS:  # perhaps without the transcript
            verdict = await self._ask_verdict(call, steps, steps, last.model_copy(update={"exchange": None}))
        else:
            known = judge_again(steps, last.exchange, _room(thinker, last.exchange))
            report_cut(known)
            verdict = await self._ask_verdict(call, steps, steps, last, known.operators)
        scope = current_scope()
        if scope and scope.trace and not scope.run.repeats:
            scope.trace.exchange = None  # no later round goes on with it
        if verdict.unsure:
            _logger.warning("evaluator %r could not verify: %s", self.get_id(), "; ".join(verdict.unsure))
        return verdict

    async def _ask_in_stages(
        self, call: OperatorCall, steps: Sequence[StepRecord], thinker: MonoModelReasoner
    ) -> WorkflowMessage:
        """Return a verdict: on the results and the evidence alone if the transcript is long and all is right.

        Otherwise, the transcript follows in the same conversation.
        """
        judged = {message.operator_id for message in call.messages}
        if length_of(steps, judged) <= LONG_TRANSCRIPT:
            return await self._ask_verdict(call, steps, steps)
        verdict = await self._ask_verdict(call, steps, evidence_alone(steps, judged), is_first=True)
        if verdict.status is WorkflowStatus.SUCCESS and not verdict.unsure:
            return verdict
        scope = current_scope()
        exchange: Exchange | None = scope.trace.exchange if scope and scope.trace else None
        if exchange is None:
            return await self._ask_verdict(call, steps, steps)
        known = evidence(without_evidence(steps), call.messages, _room(thinker, exchange))
        report_cut(known)
        followup = f"{TRANSCRIPT_NEXT}\n\n## Operators\n{known.operators}"
        return await self._ask_verdict(call, steps, steps, Rejection(answer=verdict, exchange=exchange), followup)

    async def _ask_verdict(
        self,
        call: OperatorCall,
        steps: Sequence[StepRecord],
        shown: Sequence[StepRecord],
        rejection: Rejection | None = None,
        followup: str = "",
        *,
        is_first: bool = False,
    ) -> WorkflowMessage:
        """Ask for a verdict.

        Args:
            call: Input of the evaluator.
            steps: Records of the operators, which may be at fault.
            shown: Records that the prompt shows.
            rejection: Last verdict.
            followup: What is said in the conversation of the last verdict.
            is_first: True if the transcript may follow.
        """
        operator_id = self.get_id()
        form = VerdictForm.of(steps, call.messages, call.previous)
        reader = VerdictReader(form, objects=not is_first)

        def judging(task: Task) -> Task:
            """Return the task with the criteria in the instruction of a judge."""
            start = len(INSTRUCTION) + task.filled.start if task.filled and task.filled.start else CRITERIA_START
            return task.model_copy(
                update={
                    "instruction": f"{INSTRUCTION}{task.instruction}{RESULT_FIRST if is_first else ''}",
                    "filled": task.filled and task.filled.model_copy(update={"start": start, "shown": ()}),
                    "transcript": tuple(shown),
                    "output_schema": AnswerSchema.unchecked(form.schema),
                    "rejection": rejection,
                    "followup": followup,
                    "goes_on": is_first,
                }
            )

        try:
            said = await self._ask_until_read(
                call, reader.read, operator_id, "verdict", f"evaluator {operator_id!r}", judging
            )
        except AnswerError:
            if reader.disputed is None:
                raise
            said = reader.disputed
        text = "\n\n".join(message.scratchpad for message in call.messages)
        return verdict_of(said, form, scratchpad=text, job_id=call.job.id, operator_id=operator_id)


def _room(reasoner: MonoModelReasoner, exchange: Exchange) -> int:
    """Return how many characters fit into the window of a model beside a conversation."""
    budget = prompt_budget(reasoner.model.profile.context)
    return max(budget - sum(len(message.text) for message in exchange.messages), int(budget * LEAST_EVIDENCE))
