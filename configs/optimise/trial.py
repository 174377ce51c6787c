"""Trials of a workflow on tasks: answers, scores and usage."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2
from statistics import fmean

from pydantic import Field

from operad.configs.flow import result_text
from operad.configs.optimise.tasks import Case
from operad.configs.optimise.verify import Verdict, lowest
from operad.evaluators import Evaluator
from operad.runtime.evaluation.results import Uses
from operad.runtime.events import Event, RunFailed, RunFinished
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.policies.policy import Budget, causes
from operad.runtime.reasoning.reasoner import Reasoner
from operad.runtime.values.concurrently import concurrently
from operad.runtime.values.errors import AnswerError, BudgetError, ModelError, OperadError, PausedError, describe
from operad.runtime.values.message import NO_USAGE, Job, Usage, WorkflowMessage, WorkflowStatus, new_id
from operad.runtime.values.text import shortened
from operad.runtime.values.value import Value
from operad.runtime.workflow.workflow import BuiltinWorkflow, Workflow

MAX_KEPT = 2_000
"""Maximum number of stored characters of an answer, or of the reason for its score."""

MAX_LESSONS = 3
"""Maximum number of lessons that are stored for an operator of a run."""

MAX_LESSON = 400
"""Maximum number of stored characters of a lesson."""

HIGHEST = 10
"""Highest score of an evaluator."""


class Result(Value):
    """Result of a task.

    Attributes:
        score: Score from 0 to 1.
        reason: Reason for the score.
        answer: Answer of the workflow, shortened; empty if it failed.
        blamed: Lessons for the operators that the workflow's own evaluator blamed, by id.
    """

    score: float
    reason: str = ""
    answer: str = ""
    tokens: int = 0
    blamed: dict[str, tuple[str, ...]] = Field(default_factory=dict)


REJECTED = 0.5
"""Factor of the score of an answer that the workflow's own evaluator rejects: the better the answer, the worse that is."""

FREE = 1.25
"""Tokens that cost no score, as a multiple of those of the unchanged workflow."""

DOUBLED = 0.05
"""Loss of score each time that the tokens are doubled from there on."""


def value(results: Mapping[str, Result], reference: Mapping[str, Result]) -> float:
    """Return the value of a workflow from 0 to 1: the mean score of its results, less the cost of additional tokens.

    Args:
        results: Results of the workflow, by task.
        reference: Results of the unchanged workflow, by task; additional tokens are those on the tasks of both.
    """
    both = results.keys() & reference.keys()
    tokens = sum(results[task].tokens for task in both), sum(reference[task].tokens for task in both)
    return max(0.0, fmean(result.score for result in results.values()) - cost_of(*tokens))


def cost_of(tokens: int, reference: int) -> float:
    """Return the loss of score for more tokens than those of the unchanged workflow."""
    return DOUBLED * max(0.0, log2(tokens / (FREE * reference))) if tokens and reference else 0.0


class Account:
    """Total usage of a search's runs; a listener of their workflows.

    Args:
        usage: Usage so far.

    Attributes:
        step: Usage of the runs of the current step.
    """

    def __init__(self, budget: Budget, usage: Usage) -> None:
        self.usage = usage
        self.step = NO_USAGE
        self._budget = budget

    def __call__(self, event: Event) -> None:
        """Add the usage of a run that has ended, successfully or not."""
        if isinstance(event, RunFinished | RunFailed):
            self.add(event.message.usage if isinstance(event, RunFinished) else event.usage)

    def add(self, used: Usage) -> None:
        """Add the usage of runs."""
        self.usage = self.usage + used
        self.step = self.step + used

    def check(self) -> None:
        """Check that the budget allows another run.

        Raises:
            BudgetError: The budget is used up.
        """
        if used := self._budget.exceeded(self.usage, by_next=True):
            raise BudgetError(f"the search has used {used}", self.usage)


@dataclass(frozen=True, slots=True)
class Bench:
    """Common settings for trials of workflows.

    Attributes:
        judge: Reasoner that judges answers, if a task requires it.
        account: Account of the usage.
        at_once: Number of tasks at once.
    """

    reasoner: Reasoner
    judge: Reasoner
    account: Account
    at_once: int

    async def try_out(self, workflow: Workflow, cases: Sequence[Case]) -> dict[str, Result]:
        """Run a workflow on tasks, and verify its answers.

        A task on which the workflow fails has the score 0, with the error as reason.

        Returns:
            The results by the tasks' ids, in the order of the tasks.

        Raises:
            BudgetError: The budget does not suffice for all tasks; the remaining runs were stopped.
            ModelError: The model cannot be asked at all.
            OperadError: A verifier that is a user's code has failed.
        """
        workflow.add_listener(self.account)
        uses: dict[str, Uses] = {}
        workflow.add_listener(lambda event: uses.setdefault(event.run_id, Uses()).apply(event))
        slots = asyncio.Semaphore(self.at_once)
        model_errors: list[ModelError] = []

        async def try_case(case: Case) -> Result:
            async with slots:
                self.account.check()
                run_id = new_id()
                try:
                    message = await _run_without_questions(workflow, case.job, self.reasoner, run_id)
                except OperadError as error:
                    if (model_error := _model_error(error)) is not None:
                        model_errors.append(model_error)
                        if model_error.transient:
                            raise model_error from error
                    return Result(score=0.0, reason=shortened(f"it failed: {describe(error)}", MAX_KEPT))
                answer = message.scratchpad or result_text(message.outputs)
                verdict = _after_own_verdict(await self._verdict(case, message, answer), message)
                used = uses.pop(run_id, Uses()).uses()
                return Result(
                    score=verdict.score,
                    reason=shortened(verdict.reason, MAX_KEPT),
                    answer=shortened(answer, MAX_KEPT),
                    tokens=message.usage.tokens,
                    blamed={name: _shortest(use.lessons) for name, use in used.items() if use.blamed},
                )

        results = await concurrently([try_case(case) for case in cases])
        if len(model_errors) == len(cases):
            raise model_errors[0]  # the model failed on every task: not a fault of the workflow
        return {case.id: result for case, result in zip(cases, results, strict=True)}

    async def _verdict(self, case: Case, message: WorkflowMessage, answer: str) -> Verdict:
        verdicts = [check(answer) for check in case.verifier.checks]
        if case.verifier.judge is not None and all(verdict.score for verdict in verdicts):
            try:
                verdicts.append(await self._judge_answer(case.verifier.judge, case.job, message))
            except OperadError as error:
                if (model_error := _model_error(error)) is not None:
                    raise model_error from error
                if case.verifier.in_code or not any(isinstance(link, AnswerError) for link in causes(error)):
                    raise OperadError(f"the verifier of task {case.id!r} failed: {describe(error)}") from error
                verdicts.append(Verdict(0.0, f"no verdict: {describe(error)}"))
        return lowest(verdicts)

    async def _judge_answer(self, judge: Evaluator, job: Job, message: WorkflowMessage) -> Verdict:
        workflow = BuiltinWorkflow(name="verifier", listeners=[self.account])
        workflow.add_operator(_GivenAnswer(message))
        workflow.set_evaluator(judge)
        verdict = await workflow.aexecute(job, self.judge)
        if verdict.score is None:
            return Verdict(float(verdict.status is WorkflowStatus.SUCCESS), verdict.evaluation)
        return Verdict(min(max(verdict.score / HIGHEST, 0.0), 1.0), verdict.evaluation)


def _after_own_verdict(verdict: Verdict, message: WorkflowMessage) -> Verdict:
    """Return the verdict on an answer, whose score is lower if the workflow itself rejects the answer."""
    if message.status is WorkflowStatus.SUCCESS or not verdict.score:
        return verdict
    told = f"{verdict.reason}; but the evaluator of the workflow rejects it: {message.evaluation}"
    return Verdict(verdict.score * REJECTED, told)


def _shortest(lessons: Sequence[str]) -> tuple[str, ...]:
    return tuple(shortened(lesson, MAX_LESSON) for lesson in lessons[:MAX_LESSONS])


async def _run_without_questions(workflow: Workflow, job: Job, reasoner: Reasoner, run_id: str) -> WorkflowMessage:
    try:
        return await workflow.aexecute(job, reasoner, run_id=run_id)
    except PausedError as error:
        await workflow.cancel(run_id)
        questions = "; ".join(question.text for question in error.questions)
        raise OperadError(f"it asks a question, which cannot be answered in a search: {questions}") from error


class _GivenAnswer(BaseOperator[str]):
    """Operator that returns a given answer, for the judge."""

    def __init__(self, message: WorkflowMessage) -> None:
        self._message = WorkflowMessage(scratchpad=message.scratchpad, outputs=message.outputs)

    def get_id(self) -> str:
        return "answer"

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        return self._message


def _model_error(error: BaseException) -> ModelError | None:
    """Return the model's error among the causes of an error; None if there is none."""
    return next((link for link in causes(error) if isinstance(link, ModelError)), None)
