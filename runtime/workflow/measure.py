"""Measurement of evaluators on labelled cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from operad.runtime.evaluation.cases import MOST_ISSUES, Case, CasesLike, Dataset
from operad.runtime.evaluation.measurement import JudgedCase, Measurement, labelled
from operad.runtime.evaluation.results import process_concurrently, stored_results
from operad.runtime.graph.chat2graph import Executable
from operad.runtime.graph.edges import Function
from operad.runtime.graph.operator import OperatorGraph
from operad.runtime.policies.policy import check_positive
from operad.runtime.reasoning.reasoner import Reasoner
from operad.runtime.values.errors import InvalidError, Issue, describe
from operad.runtime.values.message import WorkflowStatus
from operad.runtime.workflow.recorded import graph_issues, recorded_workflow

AT_ONCE = 8
"""Default number of cases that are judged at the same time."""

MeasureProgress = Callable[[int, int, JudgedCase], object]
"""Function that is called after each verdict, with the number of verdicts, the number of cases, and the verdict."""


async def measure(
    evaluators: Sequence[Executable | Function],
    cases: CasesLike,
    graph: OperatorGraph | None,
    reasoner: Reasoner,
    *,
    max_concurrency: int = AT_ONCE,
    results: str | Path | None = None,
    progress: MeasureProgress | None = None,
) -> Measurement:
    """Let evaluators judge the recorded operators of labelled cases, and compare the verdicts with the labels.

    Args:
        evaluators: The evaluators; of several ones, the joined verdict counts.
        cases: Cases with ``steps``, ``accepted`` and ``blame``.
        graph: Graph of the workflow; None if the steps of the cases say which operators follow each other.
        reasoner: Reasoner of evaluators without a model of their own.
        max_concurrency: Number of cases that are judged at the same time.
        results: File that keeps the verdicts; those in it that match are used again.
        progress: Function that is called after each verdict.

    Raises:
        InputError: The cases, or the file, cannot be read.
        InvalidError: Cases have no label or no steps, or have other operators than the workflow.
    """
    check_positive("measure", ("max_concurrency",), max_concurrency=max_concurrency)
    dataset = Dataset.of(cases)
    issues = [issue for case in dataset for issue in _issues(case, graph)]
    if issues:
        more = f" (the first {MOST_ISSUES} of {len(issues)})" if len(issues) > MOST_ISSUES else ""
        raise InvalidError(f"labelled cases{more}", issues[:MOST_ISSUES])
    by_name = {case.name: case for case in dataset}
    hashes = {name: sha256(to_json(case.as_dict())).hexdigest()[:16] for name, case in by_name.items()}
    settings = {"measured": [_described(each) for each in evaluators]}
    done: dict[str, JudgedCase] = {}
    with stored_results(None if results is None else Path(results), settings, hashes, "results") as (kept, store):
        found = [JudgedCase.model_validate(line["result"]) for line in kept.values()]
        done |= {each.name: each for each in found if not each.error}

        async def process(name: str) -> None:
            judged = done[name] = await _judge(evaluators, by_name[name], graph, reasoner)
            store({"key": name, "result": judged.model_dump(mode="json")})
            if progress is not None:
                progress(len(done), len(by_name), judged)

        await process_concurrently([name for name in by_name if name not in done], process, max_concurrency)
    return Measurement(cases=tuple(done[name] for name in by_name))


def _issues(case: Case, graph: OperatorGraph | None) -> list[Issue]:
    issues = graph_issues(case.name, case.steps, graph)
    if case.accepted is None:
        issues.append(Issue("label", "has no label; write accepted: true if its result is right, or false", case.name))
    if case.accepted and case.blame:
        issues.append(Issue("label", "blames operators, but accepts the result", case.name))
    return issues


async def _judge(
    evaluators: Sequence[Executable | Function], case: Case, graph: OperatorGraph | None, reasoner: Reasoner
) -> JudgedCase:
    try:
        verdict = await recorded_workflow(case.steps, evaluators, graph).aexecute(case.job, reasoner)
    except Exception as error:  # noqa: BLE001 - a failing case must not lose the others
        return labelled(case, error=describe(error)[:2_000])
    accepted = verdict.status is WorkflowStatus.SUCCESS
    blamed = tuple(verdict.blame)
    return labelled(case, accepted=accepted, blamed=blamed, reason=verdict.evaluation, usage=verdict.usage)


def _described(evaluator: Any) -> str:
    """Return a text that is equal for evaluators that judge alike."""
    described = evaluator.fingerprint() if hasattr(evaluator, "fingerprint") else getattr(evaluator, "__name__", "")
    return sha256(to_json(described, fallback=str)).hexdigest()[:16]
