"""Evaluation of a workflow on cases, by functions and by evaluators that judge the finished runs."""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

from pydantic_core import to_json, to_jsonable_python
from typing_extensions import TypedDict

from operad.runtime.evaluation.cases import Case, CasesLike, Dataset
from operad.runtime.evaluation.checks import equals
from operad.runtime.evaluation.report import EvaluationReport
from operad.runtime.evaluation.results import (
    EvaluatorResult,
    OperatorUse,
    ReportCase,
    Uses,
    process_concurrently,
    stored_results,
)
from operad.runtime.events import Event, current_scope
from operad.runtime.graph.call import ReasonerLike
from operad.runtime.graph.chat2graph import Executable
from operad.runtime.graph.edges import Function, is_executable
from operad.runtime.graph.graph import WorkflowGraph
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.models.model import Model
from operad.runtime.policies.policy import check_positive
from operad.runtime.reasoning.reasoner import Reasoner, SoleReasoner
from operad.runtime.testing.scripted_model import ScriptedModel
from operad.runtime.values.arguments import refuse_unknown, short_repr
from operad.runtime.values.errors import (
    FaultError,
    InputError,
    InvalidError,
    Issue,
    OperadError,
    PausedError,
    describe,
    did_you_mean,
    shorten,
)
from operad.runtime.values.fault import Fault
from operad.runtime.values.function_threads import in_function_thread
from operad.runtime.values.ids import as_name
from operad.runtime.values.message import NO_USAGE, Usage, WorkflowMessage, WorkflowStatus, new_id
from operad.runtime.values.step_record import StepRecord
from operad.runtime.values.text import whole
from operad.runtime.workflow.recorded import recorded_workflow
from operad.runtime.workflow.result import Result
from operad.runtime.workflow.runs import RunStore
from operad.runtime.workflow.verdict import faults_of

Evaluators = Executable | Function | Sequence[Executable | Function] | None
"""Evaluators of an evaluation: functions, and evaluators of workflows; None for `equals`."""

ReportProgress = Callable[[int, int, ReportCase], object]
"""Function that is called after each run, with the number of finished runs, the number of all, and the result."""

AT_ONCE = 8
"""Default number of cases that run at the same time."""

CHECKS = "checks"
"""Name of the result of a case's own checks."""

_logger = logging.getLogger(__name__)

_NAMES = ("output", "expected", "inputs", "metadata", "result", "job")
"""Names of the parameters of an evaluator in code that do not stand for operators."""

_MOST_OF_AN_ERROR = 2_000


class RunCase(Protocol):
    """Function that runs a case with a reasoner, and calls a listener with the events of the run."""

    async def __call__(
        self, case: Case, run_id: str, listener: Callable[[Event], object], reasoner: Reasoner
    ) -> tuple[Result[Any], Sequence[StepRecord]]:
        """Return the result of the run, and the records of its operators."""
        ...


@dataclass(frozen=True, slots=True)
class Subject:
    """Workflow that is evaluated.

    Attributes:
        cancel: Function that cancels a run, which waits for a person.
        reasoner: Reasoner of the runs, and of the evaluators that have no model of their own.
        store: Database of its runs; None if they are not stored.
    """

    name: str
    graph: WorkflowGraph
    run: RunCase
    cancel: Callable[[str], Awaitable[object]]
    reasoner: Reasoner
    store: RunStore | None


class EvaluationOptions(TypedDict, total=False):
    """Options of an evaluation, for `Workflow.evaluate` and `aevaluate`.

        from operad.evaluation import Case

        options: EvaluationOptions = {"repeat": 2, "max_concurrency": 4}
        print(flow.evaluate([Case("moon", job="Is this so?", expected="no")], **options).pass_rate)

    Attributes:
        repeat: Number of runs of each case; 1 by default.
        max_concurrency: Maximum number of runs at the same time; 8 by default.
        model: Model of the runs, and of evaluators without one; by default the workflow's `model`.
        scripted: True to answer with the scripts of the cases; no operator asks a model.
        deps: Object for functions and tools; see `RunOptions`.
        results: File that keeps the results, as JSON lines; those in it that match are used again.
        run_id: For a durable workflow: id of the evaluation, with which the ids of its runs begin.
        progress: Function that is called after each run, with the number of finished runs, the number of all, and the
            `ReportCase`.
    """

    repeat: int
    max_concurrency: int
    model: ReasonerLike
    scripted: bool
    deps: object
    results: str | Path | None
    run_id: str | None
    progress: ReportProgress | None


async def evaluate(
    subject: Subject, cases: CasesLike, evaluators: Evaluators, options: EvaluationOptions
) -> EvaluationReport:
    """Run a workflow on cases, and return the report; see `Workflow.aevaluate`."""
    refuse_unknown("evaluate(…)", options, tuple(EvaluationOptions.__annotations__))
    repeat, max_concurrency = options.get("repeat", 1), options.get("max_concurrency", AT_ONCE)
    results, run_id, progress = options.get("results"), options.get("run_id"), options.get("progress")
    if current_scope() is not None:
        raise InputError(f"workflow {subject.name!r}: an operator cannot evaluate a workflow; do it outside of runs")
    check_positive("evaluate", ("repeat", "max_concurrency"), repeat=repeat, max_concurrency=max_concurrency)
    if results is not None and subject.store is not None:
        raise InputError(
            f"workflow {subject.name!r} is durable, so its database keeps the results: leave results=… out, and give "
            "run_id=… to continue the evaluation"
        )
    dataset, scripted = Dataset.of(cases), options.get("scripted", False)
    judges = [
        Judge(each, subject) if is_executable(each) else Scorer(each, subject.graph)
        for each in _listed(evaluators, dataset)
    ]
    _check(judges, subject, dataset)
    for told in _unjudged(judges, subject, dataset):
        _logger.warning("%s", told)
    runs = {f"{case.name}#{number}": (case, number) for case in dataset for number in range(1, repeat + 1)}
    hashes = {key: sha256(to_json(case.as_dict())).hexdigest()[:16] for key, (case, _) in runs.items()}
    settings = {
        "workflow": subject.name,
        "fingerprint": _fingerprint(subject.graph),
        "evaluators": [judge.name for judge in judges],
    }
    evaluation = run_id or new_id()[:8]
    done: dict[str, ReportCase] = {}
    with stored_results(None if results is None else Path(results), settings, hashes, "results") as (kept, store):
        for key, line in kept.items():
            result = ReportCase.model_validate(line["result"])
            if not result.error:  # a run that failed is tried again
                done[key] = result

        async def process(key: str) -> None:
            case, number = runs[key]
            result = await _run_case(subject, case, number, f"{evaluation}.{_slug(key)}", judges, scripted=scripted)
            done[key] = result
            store({"key": key, "result": result.model_dump(mode="json", fallback=str)})
            if progress is not None:
                progress(len(done), len(runs), result)

        await process_concurrently([key for key in runs if key not in done], process, max_concurrency)
    return EvaluationReport(workflow=subject.name, cases=tuple(done[key] for key in runs))


def _listed(evaluators: Evaluators, dataset: Dataset) -> Sequence[Any]:
    if evaluators is None:
        return [equals] if any("expected" in case.model_fields_set for case in dataset) else []
    listed = [*cast("Sequence[Any]", evaluators)] if isinstance(evaluators, list | tuple) else [evaluators]
    for each in listed:
        if isinstance(each, type) or not (is_executable(each) or callable(each)):
            raise InputError(f"evaluators: expected functions and evaluators; got {short_repr(each)}")
    return listed


def _check(judges: Sequence[Scorer | Judge], subject: Subject, dataset: Dataset) -> None:
    """Raise InvalidError, with all issues of the evaluators, if there are any."""
    names = [*(judge.name for judge in judges), *([CHECKS] if any(case.checks for case in dataset) else [])]
    issues = [issue for judge in judges for issue in judge.issues()]
    known = subject.graph.operators
    issues += [
        Issue("undefined-node", f"pinned: there is no operator {place!r}{did_you_mean(place, known)}", case.name)
        for case in dataset
        for place in case.pinned
        if place.partition("/")[0] not in known
    ]
    issues += [
        Issue("duplicate-id", "several evaluators have this name; each needs its own", name)
        for name in dict.fromkeys(names)
        if names.count(name) > 1
    ]
    if issues:
        raise InvalidError(f"workflow {subject.name!r} cannot be evaluated", issues)


def _unjudged(judges: Sequence[Scorer | Judge], subject: Subject, dataset: Dataset) -> Iterator[str]:
    """Yield what is given in cases and compared with nothing, and cases that pass because they run."""
    expecting = sum("expected" in case.model_fields_set for case in dataset)
    if expecting and judges and not any(isinstance(each, Scorer) and each.compares for each in judges):
        yield f"the expected output of {expecting} of {len(dataset)} cases is not compared; the evaluator `equals` compares it"
    bare = [case.name for case in dataset if not (case.checks or "expected" in case.model_fields_set)]
    if bare and not judges and not subject.graph.evaluators:
        yield f"nothing judges {shorten(bare)}; each passes if it runs: give it `expected` or `checks`, or give evaluators"


async def _run_case(
    subject: Subject, case: Case, number: int, run_id: str, judges: Sequence[Scorer | Judge], *, scripted: bool
) -> ReportCase:
    """Return the result of one run of a case; an error of the run, or of an evaluator, is a part of the result."""
    uses, loop = Uses(), asyncio.get_running_loop()
    began = loop.time()
    fields: dict[str, Any] = {"name": case.name, "repeat": number, "tags": case.tags, "run_id": run_id}
    fields["expected"] = case.expected
    try:
        if subject.store is not None:
            with suppress(InputError):  # most runs did not fail before
                await asyncio.to_thread(subject.store.retry, run_id)
        async with _recorded_answers(case.script) if scripted else nullcontext(subject.reasoner) as reasoner:
            result, records = await subject.run(case, run_id, uses.apply, reasoner)
        if subject.store is not None and not uses.heard:  # the run had finished before
            for event in await asyncio.to_thread(subject.store.events, run_id):
                uses.apply(event)
    except PausedError as paused:
        await subject.cancel(run_id)
        asked = "; ".join(question.text for question in paused.questions)
        fields["error"] = f"it asks a person, which an evaluation cannot answer: {asked}"
    except Exception as error:  # noqa: BLE001 - a failing case must not lose the others
        fields["error"] = whole(describe(error)[:_MOST_OF_AN_ERROR])
    else:
        fields |= {"status": result.status, "rounds": result.rounds, "usage": result.usage}
        fields["output"] = _json_of(result)
        run = _FinishedRun(case, result, _of_best_round(records, result), run_id)
        fields["evaluators"] = (*[await judge.judge(run) for judge in judges], *_checked(case, result))
    seconds = loop.time() - began
    found = uses.uses()
    if fields.get("error"):
        fields["usage"] = _usage_of_failed(found)
    return ReportCase(**fields, seconds=seconds, operators=found)


def _checked(case: Case, result: Result[Any]) -> Sequence[EvaluatorResult]:
    """Return the result of the case's own checks; none if it has none."""
    if not case.checks:
        return ()
    output = _json_of(result)
    found = [(why, fault) for why, fault in (each.fault(output, result.messages) for each in case.checks) if why]
    faults = tuple(fault for _, fault in found if fault)
    return [EvaluatorResult(name=CHECKS, passed=not found, reason="; ".join(why for why, _ in found), faults=faults)]


class _FinishedRun(NamedTuple):
    """Finished run of a case, as evaluators see it."""

    case: Case
    result: Result[Any]
    records: Sequence[StepRecord]
    run_id: str


def _of_best_round(records: Sequence[StepRecord], result: Result[Any]) -> Sequence[StepRecord]:
    """Return the records with the messages of the best round; a run that had finished before has the messages only."""
    kept, best = {record.operator_id: record for record in records}, result.messages
    for key, message in best.items():
        record = kept.get(key, StepRecord(operator_id=key))
        kept[key] = record.model_copy(update={"message": message, "skipped": "", "changed": False})
    return [record for key, record in kept.items() if key in best or record.skipped or key not in result.steps]


def _json_of(result: Result[Any]) -> Any:
    try:
        return whole(to_jsonable_python(result.output, fallback=str))
    except Exception:  # noqa: BLE001 - an answer that does not fit its type is shown as its text
        return whole(result.text)


def _usage_of_failed(uses: Mapping[str, OperatorUse]) -> Usage:
    return sum((use.usage for name, use in uses.items() if "/" not in name), NO_USAGE)


@dataclass(frozen=True, slots=True)
class Scorer:
    """Function that scores runs: it returns True, False or a number, or raises `FaultError`; None accepts the run.

    Attributes:
        graph: Graph of the workflow, whose operators its parameters may name.
    """

    function: Callable[..., Any]
    graph: WorkflowGraph

    @property
    def name(self) -> str:
        """Name of the function."""
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    @property
    def _parameters(self) -> Sequence[inspect.Parameter]:
        return [*inspect.signature(self.function).parameters.values()]

    @property
    def compares(self) -> bool:
        """True if the function is given the expected output."""
        return any(each.name == "expected" for each in self._parameters)

    def issues(self) -> list[Issue]:
        """Return the issues of parameters that have no value."""
        operators = {as_name(each) for each in self.graph.operators}
        try:
            parameters = self._parameters
        except ValueError as error:
            return [Issue("parameter", f"its parameters cannot be read: {error}", self.name)]
        return [
            Issue(
                "parameter",
                f"parameter {each.name!r} is unknown{did_you_mean(each.name, [*_NAMES, *operators])}; parameters are "
                f"{', '.join(_NAMES)}, or operators of the workflow: {shorten(sorted(operators))}",
                self.name,
            )
            for each in parameters
            if each.default is each.empty
            and each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
            and (each.name not in (*_NAMES, *operators) or each.kind is each.POSITIONAL_ONLY)
        ]

    async def judge(self, run: _FinishedRun) -> EvaluatorResult:
        """Return the result of the function for a finished run; without an expected output, none if it needs one."""
        by_name = {each.name: each for each in self._parameters}
        needs = by_name.get("expected")
        if needs is not None and needs.default is needs.empty and "expected" not in run.case.model_fields_set:
            return EvaluatorResult(name=self.name, reason="does not apply: the case has no expected output")
        try:
            given = {name: self._value(name, run.case, run.result) for name in by_name if self._is_given(name)}
            call = partial(self.function, **given)
            is_async = inspect.iscoroutinefunction(inspect.unwrap(self.function))
            said = await (call() if is_async else in_function_thread(f"evaluator {self.name!r}", call))
            said = await said if inspect.isawaitable(said) else said
        except FaultError as fault:
            return EvaluatorResult(name=self.name, passed=False, reason=str(fault), faults=_faults_of(fault))
        except Exception as error:  # noqa: BLE001 - an evaluator of a user may raise anything
            return EvaluatorResult(name=self.name, error=describe(error)[:_MOST_OF_AN_ERROR])
        return self._read(said)

    def _is_given(self, name: str) -> bool:
        return name in _NAMES or name in map(as_name, self.graph.operators)

    def _value(self, name: str, case: Case, result: Result[Any]) -> Any:
        match name:
            case "output":
                return result.output
            case "expected":
                return case.expected
            case "inputs":
                return case.job.own().inputs or case.job.goal
            case "metadata":
                return case.metadata
            case "result":
                return result
            case "job":
                return case.job
            case _:
                operator_id = next(each for each in self.graph.operators if as_name(each) == name)
                return None if operator_id not in result.messages else result[operator_id]

    def _read(self, said: Any) -> EvaluatorResult:
        if isinstance(said, WorkflowMessage):
            return result_of(self.name, said)
        if said is None or isinstance(said, bool):
            return EvaluatorResult(name=self.name, passed=said is not False)
        if isinstance(said, int | float) and said == said and abs(said) != float("inf"):
            return EvaluatorResult(name=self.name, score=float(said))
        told = f"returned {short_repr(said)}; return True, False, a number or None, or raise FaultError(…)"
        return EvaluatorResult(name=self.name, error=told)


@dataclass(frozen=True, slots=True)
class Judge:
    """Evaluator that judges a finished run."""

    evaluator: BaseOperator | Any
    subject: Subject

    @property
    def name(self) -> str:
        """Id of the evaluator."""
        return str(self.evaluator.get_id())

    def issues(self) -> list[Issue]:
        """Return the issues of an evaluator with the id of an operator."""
        taken = self.name in self.subject.graph.operators
        return [Issue("duplicate-id", "an operator of the workflow has this id", self.name)] if taken else []

    async def judge(self, run: _FinishedRun) -> EvaluatorResult:
        """Return the verdict on a finished run."""
        flow = recorded_workflow(run.records, [self.evaluator], self.subject.graph, name=self.subject.name)
        if self.subject.store is not None:
            flow.keep_in(self.subject.store)
        try:
            run_id = f"{run.run_id}.{_slug(self.name)}"[:100]
            verdict = await flow.aexecute(run.case.job, self.subject.reasoner, run_id=run_id)
        except Exception as error:  # noqa: BLE001 - an evaluator of a user may raise anything
            return EvaluatorResult(name=self.name, error=describe(error)[:_MOST_OF_AN_ERROR])
        return result_of(self.name, verdict)


def result_of(name: str, verdict: WorkflowMessage) -> EvaluatorResult:
    """Return the verdict of an evaluator as its result."""
    return EvaluatorResult(
        name=name,
        passed=verdict.status is WorkflowStatus.SUCCESS,
        score=verdict.score,
        reason=verdict.evaluation,
        faults=faults_of(verdict),
        usage=verdict.usage,
    )


def _faults_of(fault: FaultError) -> tuple[Fault, ...]:
    return fault.faults or tuple(Fault(operator=who, lesson=fault.lesson) for who in fault.blame)


def _fingerprint(graph: WorkflowGraph) -> str:
    """Return a hash of the operators that an evaluation's results depend on: ids, edges, instructions and settings."""
    described = [[key, [*graph.before.get(key, {})], _described(each)] for key, each in graph.operators.items()]
    judges = [_described(each) for each in graph.evaluators]
    return sha256(to_json([described, judges], fallback=str)).hexdigest()[:16]


def _described(operator: BaseOperator) -> Any:
    try:
        return operator.fingerprint() if operator.has_fingerprint else operator.instruction
    except OperadError:
        return operator.instruction


def _slug(key: str) -> str:
    """Return the part of a run's id for a run of a case: readable, and different for different keys."""
    readable = re.sub(r"[^A-Za-z0-9]+", "-", key).strip("-")[:40]
    return readable if readable == key else f"{readable}-{sha256(key.encode()).hexdigest()[:6]}"


class _RecordedReasoner(SoleReasoner):
    """Reasoner that all operators use, also nodes with settings of their own."""

    def with_model(self, model: Model) -> _RecordedReasoner:
        """Return the same reasoner: its answers are recorded."""
        return self


@asynccontextmanager
async def _recorded_answers(script: Sequence[Mapping[str, Any]]) -> AsyncGenerator[_RecordedReasoner]:
    """Yield a reasoner that answers from the script of a case.

    Raises:
        LeftoverStepsError: At the end: answers are left, as the workflow asks less often than it did then.
        UnexpectedStepError: At the end: the workflow asked more often.
    """
    async with ScriptedModel(script) as endpoint:
        yield _RecordedReasoner(endpoint.model)
