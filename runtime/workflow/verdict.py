"""Verdicts, which end a round: from an evaluator, several evaluators, or an operator that raised."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from operad.runtime.graph.graph import END
from operad.runtime.policies.policy import causes
from operad.runtime.values.arguments import ArgumentError
from operad.runtime.values.errors import (
    AnswerError,
    BudgetError,
    FaultError,
    InputError,
    InvalidError,
    JobError,
    MissingExtraError,
    ModelError,
    OperadError,
    OperatorError,
    PausedError,
    RunningLoopError,
    describe,
    did_you_mean,
)
from operad.runtime.values.fault import Fault, blamed_by
from operad.runtime.values.message import Job, WorkflowMessage, WorkflowStatus
from operad.runtime.workflow.places import around, faults_of, place_of

LONGEST_LESSON = 2_000
"""Maximum number of characters of an error text in a lesson."""

_FINAL = (
    AnswerError,
    BudgetError,
    InputError,
    InvalidError,
    JobError,
    MissingExtraError,
    ModelError,
    PausedError,
    RunningLoopError,
)
"""Errors that a lesson cannot prevent: the same call would fail again, or has already been retried."""


def is_retryable(error: BaseException) -> bool:
    """Return True if the operator that raised may do better with a lesson."""
    first = _first(error)
    if isinstance(first, ArgumentError):  # often of a value made from the answer of a model
        return True
    return isinstance(first, Exception) and not isinstance(first, _FINAL)


def fault_in(error: BaseException) -> FaultError | None:
    """Return the `FaultError` at the origin of an error, also in nested workflows and maps; None if there is none."""
    first = _first(error)
    return first if isinstance(first, FaultError) else None


def verdict_of(error: BaseException, operator_id: str, job: Job, known: Collection[str]) -> WorkflowMessage:
    """Return an operator's error as a verdict, which blames that operator, or the operators that a `FaultError` names.

    A `FaultError` inside a nested workflow or a map may blame operators of this workflow. If it blames none of them, the
    nested workflow or the map is blamed.

    Args:
        known: Ids by which an error inside of the operator names operators of this workflow.
    """
    fault = fault_in(error)
    who = operator_id if fault else f"{operator_id} failed"
    said = describe(error)
    blame = () if fault is None else fault.blame
    if fault is not error:
        blame = tuple(place for place in blame if place_of(place, known))
    faults = tuple(each for each in fault.faults if each.place in blame) if fault else ()
    return WorkflowMessage(
        status=WorkflowStatus.EXECUTION_ERROR,
        evaluation=f"{who}: {said}",
        lesson=(fault.lesson if fault else "") or f"{who}: {said[:LONGEST_LESSON]}",
        faults=faults,
        blame=blame or (operator_id,),
        job_id=job.id,
        operator_id=operator_id,
    )


def _first(error: BaseException) -> BaseException:
    """Return the original error in a chain of errors of enclosing workflows and maps."""
    return next(
        (link for link in causes(error) if type(link) is not OperadError and not isinstance(link, OperatorError)), error
    )


def join_verdicts(verdicts: Sequence[WorkflowMessage]) -> WorkflowMessage:
    """Return one verdict for several verdicts.

    The worst status wins. Evaluations and lessons are joined, each with the id of its evaluator. The joined verdict
    blames the operators that verdicts of that status blame. If one of these blames no operator, the joined verdict
    blames none, because any operator may be at fault. The score is the lowest score.
    """
    if len(verdicts) == 1:
        return verdicts[0]
    worst = min(verdicts, key=lambda verdict: verdict.status.priority)
    deciding = [verdict for verdict in verdicts if verdict.status is worst.status]
    decisive = [verdict.blame for verdict in deciding]
    faults = tuple(fault for verdict in deciding for fault in faults_of(verdict)) if all(decisive) else ()
    scores = [verdict.score for verdict in verdicts if verdict.score is not None]
    return worst.model_copy(
        update={
            "evaluation": _with_sources([(verdict.operator_id, verdict.evaluation) for verdict in verdicts]),
            "lesson": _with_sources([(verdict.operator_id, verdict.lesson) for verdict in verdicts]),
            "faults": faults,
            "unsure": tuple(dict.fromkeys(each for verdict in verdicts for each in verdict.unsure)),
            "blame": tuple(dict.fromkeys(who for blame in decisive for who in blame)) if all(decisive) else (),
            "score": min(scores) if scores else None,
            "outputs": {name: value for verdict in verdicts for name, value in verdict.outputs.items()},
        }
    )


def rejection_of(message: WorkflowMessage, operator_id: str, of_this: Sequence[Fault]) -> WorkflowMessage:
    """Return the verdict of a nested workflow as one of the workflow around it.

    Args:
        of_this: Faults of operators of the workflow around it.
    """
    faults = tuple(of_this) or around(faults_of(message), operator_id)
    return message.changed(
        scratchpad="",
        outputs={},
        answer=None,
        parts=(),
        status=WorkflowStatus.EXECUTION_ERROR if of_this else message.status,
        evaluation=f"{operator_id}: {message.evaluation or message.status.value}",
        faults=faults,
        blame=blamed_by(faults) or (operator_id,),
    )


def by_origin(verdict: WorkflowMessage, own: Collection[str], given: Collection[str]) -> WorkflowMessage:
    """Return a verdict whose blame names earlier experts alone as one on the input, whatever its status says.

    Args:
        own: Ids of the operators of the workflow.
        given: Authors of the messages that the workflow was given.
    """
    if verdict.status is not WorkflowStatus.EXECUTION_ERROR or not given:
        return verdict
    blamed = [fault.place for fault in faults_of(verdict)]
    if not blamed or any(place_of(place, own) for place in blamed) or not any(place in given for place in blamed):
        return verdict
    return verdict.changed(status=WorkflowStatus.INPUT_DATA_ERROR)


def joined_tails(tails: Sequence[WorkflowMessage], job: Job) -> WorkflowMessage:
    """Return one message, with the worst status, for the messages of a workflow's tails; a single one is unchanged."""
    if len(tails) == 1:
        return tails[0]
    worst = min(tails, key=lambda message: message.status.priority)
    return WorkflowMessage(
        scratchpad="\n\n".join(message.scratchpad for message in tails),
        status=worst.status,
        evaluation=worst.evaluation,
        lesson=worst.lesson,
        faults=worst.faults,
        outputs={message.operator_id: message.value for message in tails},
        blame=worst.blame,
        job_id=job.id,
        operator_id=END,
        parts=tuple(tails),
    )


def with_inner(message: WorkflowMessage, inner: Sequence[WorkflowMessage]) -> WorkflowMessage:
    """Return a result with the worst status of the nested workflows and maps that it rests on.

    Their evaluations and lessons are joined, and these operators are blamed. A status at least as bad stays.

    Args:
        message: The result of a workflow without an evaluator.
    """
    worse = [each for each in inner if each.status.priority < message.status.priority]
    if not worse:
        return message
    return message.changed(
        status=min((each.status for each in worse), key=lambda status: status.priority),
        evaluation=_with_sources([(each.operator_id, each.evaluation or each.status.value) for each in worse]),
        lesson=_with_sources([(each.operator_id, each.lesson) for each in worse]),
        blame=tuple(each.operator_id for each in worse),
    )


def unknown_blame(blame: Sequence[str], known: Collection[str]) -> str:
    """Return blamed names that are unknown, with the nearest known names, as text; empty if there are none."""
    strangers = [f"{who!r}{did_you_mean(who, known)}" for who in blame if place_of(who, known) is None]
    return ", ".join(strangers)


def _with_sources(said: Sequence[tuple[str, str]]) -> str:
    return "\n".join(f"{who}: {text}" for who, text in said if text)
