"""Search for better instructions of the operators of a workflow in Python, scored by an evaluation on cases."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from operad.configs.optimise.edits import SetInstruction
from operad.configs.optimise.proposals import (
    MAX_FAILURES,
    MAX_FAULT,
    Proposal,
    attempts,
    blamed,
    cut,
    proposal_schema,
    propose,
)
from operad.configs.optimise.tree import Tree, back_up, select
from operad.configs.optimise.trial import REJECTED, Account, cost_of
from operad.operators import Operator
from operad.runtime.evaluation.cases import CasesLike, Dataset
from operad.runtime.evaluation.report import EvaluationReport
from operad.runtime.evaluation.results import ReportCase
from operad.runtime.policies.policy import Budget, check_positive
from operad.runtime.reasoning.reasoner import Reasoner, reasoner_of
from operad.runtime.values.errors import AnswerError, BudgetError, InputError, InvalidError
from operad.runtime.values.message import NO_USAGE, Usage, WorkflowStatus
from operad.runtime.workflow.evaluate import AT_ONCE, Evaluators
from operad.runtime.workflow.workflow import Workflow

FLOW_ROUNDS = 10
"""Default number of changes to try."""

TRIES = 3
"""Maximum number of tries for a valid proposal."""

_SCHEMA = proposal_schema([SetInstruction])


@dataclass(frozen=True, slots=True)
class FlowCandidate:
    """A variant of the workflow that was tried.

    Attributes:
        parent: Number of the candidate that was changed; None for the workflow as it is.
        instructions: Instructions that differ from those of the workflow as it is, by operator.
        operations: The change.
        reasoning: The model's reason for the change.
        score: Its value, from 0 to 1.
    """

    number: int
    parent: int | None
    instructions: Mapping[str, str]
    operations: Sequence[SetInstruction]
    reasoning: str
    report: EvaluationReport
    score: float


@dataclass(frozen=True, slots=True)
class OptimisedFlow:
    """Result of a search.

    Attributes:
        workflow: The best variant, which can be run.
        candidates: The candidates, in the order in which they were tried; the first is the workflow as it is.
        stopped: Reason for the end.
        refused: Reasons for which proposals could not be used, by the number of the candidate to be changed.
    """

    workflow: Workflow
    candidates: tuple[FlowCandidate, ...]
    stopped: str
    usage: Usage
    refused: Sequence[tuple[int, str]] = field(default=())

    @property
    def best(self) -> FlowCandidate:
        """The best candidate; of equal ones, the oldest."""
        return max(self.candidates, key=lambda each: (each.score, -each.number))

    @property
    def baseline(self) -> FlowCandidate:
        """The workflow as it is."""
        return self.candidates[0]

    @property
    def improved(self) -> bool:
        """True if a variant is better than the workflow as it is."""
        return self.best.number != 0


async def aoptimise_flow(
    flow: Workflow,
    cases: CasesLike,
    evaluators: Evaluators = None,
    *,
    rounds: int = FLOW_ROUNDS,
    budget: int | None = None,
    seed: int = 0,
    max_concurrency: int = AT_ONCE,
    reasoner: Reasoner | None = None,
    proposer: Reasoner | None = None,
    tell: Callable[[str], None] | None = None,
) -> OptimisedFlow:
    """Search for better instructions of a workflow's operators, by changes that a model proposes and cases that score them.

    The value of a variant is the mean over its runs: 1 if the evaluators accept the run, 0 if one rejects it or the run
    fails, half for a right result that the workflow's own evaluators reject, times the numbers from 0 to 1 that
    functions return; less the cost of additional tokens, as for an expert.

    Args:
        flow: The workflow, which stays as it is.
        evaluators: Evaluators, as for `Workflow.evaluate`.
        rounds: Number of changes to try.
        budget: Maximum number of tokens; None for no limit.
        seed: Seed of random choices.
        max_concurrency: Maximum number of runs at the same time.
        reasoner: Reasoner of the workflow; by default its own.
        proposer: Reasoner that proposes changes; by default that of the workflow.
        tell: Called with a line for each step.

    Raises:
        InputError: The workflow has no operator with an instruction, or the budget does not suffice for its evaluation.
        InvalidError: Cases, evaluators or numbers are not valid.
    """
    check_positive(
        "optimise",
        ("rounds", "budget", "max_concurrency"),
        rounds=rounds,
        budget=budget,
        max_concurrency=max_concurrency,
    )
    search = _FlowSearch(
        flow,
        Dataset.of(cases),
        evaluators,
        max_concurrency,
        reasoner,
        proposer,
        Account(Budget(tokens=budget), NO_USAGE),
    )
    return await search.run(rounds, seed, tell or (lambda _: None))


class _FlowSearch:
    """A search in progress."""

    def __init__(
        self,
        flow: Workflow,
        cases: Dataset,
        evaluators: Evaluators,
        max_concurrency: int,
        reasoner: Reasoner | None,
        proposer: Reasoner | None,
        account: Account,
    ) -> None:
        self._flow, self._cases, self._evaluators, self._at_once = flow, cases, evaluators, max_concurrency
        self._reasoner = reasoner or flow.model or reasoner_of(None)
        self._proposer = proposer or self._reasoner
        self._account = account
        self._operators = {
            key: each
            for key, each in flow.graph().operators.items()
            if isinstance(each, Operator) and each.config.written_by is None
        }
        if not self._operators:
            raise InputError(f"workflow {flow.name!r}: no operator has an instruction as text, which could be changed")
        self._candidates: list[FlowCandidate] = []
        self._refused: list[tuple[int, str]] = []

    async def run(self, rounds: int, seed: int, tell: Callable[[str], None]) -> OptimisedFlow:
        first = await self._tried(None, {}, (), "")
        self._candidates.append(first)
        tell(f"the workflow as it is: {first.score:.3f}")
        tree, stopped = Tree.of(first.score), f"{rounds} rounds are done"
        for number in range(1, rounds + 1):
            if any(_mean(each.report) >= 1 for each in self._candidates):
                stopped = "nothing is left to be improved"
                break
            parent = self._candidates[select(tree, seed=seed)]
            try:
                found = await self._changed(parent)
            except BudgetError as error:
                stopped = str(error)
                break
            if found is None:
                tree = back_up(tree, parent.number, made=False)
                tell(f"step {number}, from {parent.number}: no proposal could be used: {self._refused[-1][1]}")
                continue
            tree = tree.grown(parent.number, found.score)
            self._candidates.append(found)
            changed = ", ".join(operation.operator for operation in found.operations)
            tell(
                f"step {number}, from {parent.number}: {changed}: {found.score:.3f} ({found.score - parent.score:+.3f})"
            )
        result = OptimisedFlow(self._flow, tuple(self._candidates), stopped, self._account.usage, tuple(self._refused))
        return OptimisedFlow(
            self._variant(result.best.instructions), result.candidates, stopped, result.usage, result.refused
        )

    async def _changed(self, parent: FlowCandidate) -> FlowCandidate | None:
        """Return a new candidate; None if no proposal could be used."""
        shown, lessons = self._shown(parent), list[str]()
        known = [each.instructions for each in self._candidates]
        for _ in range(TRIES):
            self._account.check()
            try:
                proposal = await propose(shown, self._proposer, self._account, lessons, _SCHEMA)
                operations = self._checked(proposal)
                changes = {**parent.instructions, **{each.operator: each.instruction for each in operations}}
                as_it_is = self._operators
                instructions = {key: text for key, text in changes.items() if text != as_it_is[key].instruction}
                if instructions in known:
                    raise InputError("that was tried before; propose something else")
                self._variant(instructions).built()  # names in braces must be known
            except (AnswerError, InputError, InvalidError) as error:
                lessons.append(cut(str(error), MAX_FAULT))
                continue
            return await self._tried(parent.number, instructions, operations, proposal.reasoning)
        self._refused.append((parent.number, lessons[-1]))
        return None

    def _checked(self, proposal: Proposal) -> tuple[SetInstruction, ...]:
        """Return the operations of a proposal."""
        operations = tuple(each for each in proposal.operations if isinstance(each, SetInstruction))
        if len(operations) < len(proposal.operations):
            raise InputError("only set_instruction is possible here")
        for operation in operations:
            if operation.operator not in self._operators or not operation.instruction.strip():
                raise InputError(
                    f"set_instruction {operation.operator}: needs an instruction, and one of the operators "
                    f"{', '.join(self._operators)}"
                )
        return operations

    def _variant(self, instructions: Mapping[str, str]) -> Workflow:
        return self._flow.with_operators(
            self._operators[key].with_instruction(text) for key, text in instructions.items()
        )

    async def _tried(
        self, parent: int | None, instructions: Mapping[str, str], operations: Sequence[SetInstruction], reasoning: str
    ) -> FlowCandidate:
        """Return a candidate with the report of its evaluation."""
        self._account.check()
        report = await self._variant(instructions).aevaluate(
            self._cases, self._evaluators, max_concurrency=self._at_once, model=self._reasoner
        )
        self._account.add(report.usage + report.judging)
        if parent is None and all(case.error for case in report.cases):
            raise InputError(f"every case failed, the first with: {report.cases[0].error}")
        reference = self._candidates[0].report.usage.tokens if self._candidates else 0
        score = max(0.0, _mean(report) - cost_of(report.usage.tokens, reference))
        return FlowCandidate(len(self._candidates), parent, instructions, operations, reasoning, report, score)

    def _shown(self, parent: FlowCandidate) -> dict[str, Any]:
        """Return the workflow, its failures and its lessons, as shown to the proposing model."""
        graph = self._flow.graph()
        operators = [
            {"name": key, "instruction": parent.instructions.get(key, each.instruction), "after": [*graph.before[key]]}
            for key, each in graph.operators.items()
        ]
        tried = [(each.operations, each.score) for each in self._candidates if each.parent == parent.number]
        refused = [why for number, why in self._refused if number == parent.number]
        return {
            "workflow": {"operators": operators, "evaluator": "\n".join(each.instruction for each in graph.evaluators)},
            "score": round(parent.score, 3),
            "failures": [_failure(case, self._cases) for case in _worst(parent.report)],
            "blamed": blamed(map(_lessons, parent.report.cases)),
            "tried before": attempts(parent.score, tried, refused),
        }


def _mean(report: EvaluationReport) -> float:
    return sum(map(_value, report.cases)) / len(report.cases)


def _value(case: ReportCase) -> float:
    """Return the value of a run, from 0 to 1."""
    if case.error or case.right is False or any(each.error for each in case.evaluators):
        return 0.0
    accepted = case.status is WorkflowStatus.SUCCESS
    value = 1.0 if accepted else REJECTED if case.right else 0.0
    for result in case.evaluators:
        if result.passed is None and result.score is not None:
            value *= min(1.0, max(0.0, result.score))
    return value


def _worst(report: EvaluationReport) -> list[ReportCase]:
    return sorted((case for case in report.cases if _value(case) < 1), key=_value)[:MAX_FAILURES]


def _failure(case: ReportCase, cases: Dataset) -> dict[str, Any]:
    job = next(each.job for each in cases if each.name == case.name)
    return {
        "job": cut(job.goal),
        **({"inputs": cut(json.dumps(job.inputs, ensure_ascii=False))} if job.inputs else {}),
        "answer": cut(case.output if isinstance(case.output, str) else json.dumps(case.output, ensure_ascii=False)),
        "score": _value(case),
        "reason": cut("\n".join(case.problems)),
    }


def _lessons(case: ReportCase) -> Mapping[str, Sequence[str]]:
    """Return the lessons for the operators that were blamed in a run, by id."""
    found: dict[str, list[str]] = {
        name: [*use.lessons] for name, use in case.operators.items() if use.blamed and "/" not in name
    }
    for result in case.evaluators:
        for fault in result.faults:
            found.setdefault(fault.operator, []).append(fault.advice or result.reason)
    return found
