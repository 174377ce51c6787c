"""Verdicts, which end a round: from an evaluator, several evaluators, or an operator that raised; and places of faults.

A place is an operator, an item of a map, or an operator inside of another.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate

from msgspec import Struct

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
from operad.runtime.values.map_item import without_index
from operad.runtime.values.message import Job, WorkflowMessage, WorkflowStatus

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


class Place(Struct, frozen=True):
    """Place of a fault, as seen from one workflow.

        place_of(Fault(operator="sums[3]/check"), ["facts", "sums"])  # Place("sums", "sums[3]", "check")

    Attributes:
        operator: Id of the operator of the workflow that is, or contains, the operator at fault.
        step: The operator as a step of a path, with the index of a map's item.
        inside: Place in the workflow that the operator runs; empty if that workflow is at fault as a whole.
    """

    operator: str
    step: str
    inside: str = ""

    @property
    def is_inside(self) -> bool:
        """True if the fault is inside the operator: in an item of a map, or in an operator of a nested workflow."""
        return bool(self.inside) or self.step != self.operator


def place_of(place: str, known: Collection[str]) -> Place | None:
    """Return a place in a workflow with these operators; None if none of them is meant.

    Ids may contain slashes, so the longest id that fits counts.
    """
    for step in reversed([*accumulate(place.split("/"), "{}/{}".format)]):
        for operator in (step, without_index(step)):
            if operator in known:
                return Place(operator, step, place[len(step) + 1 :])
    return None


def faults_of(verdict: WorkflowMessage) -> tuple[Fault, ...]:
    """Return the faults that a verdict names, and one for each operator that it blames without naming a fault.

    The lesson of such a fault is that of the verdict, or else its evaluation, so that an operator is told what is wrong.
    """
    named = blamed_by(verdict.faults)
    unnamed = [place for place in verdict.blame if not any(place_of(fault, (place,)) for fault in named)]
    lesson = verdict.lesson or verdict.evaluation
    return (*verdict.faults, *(Fault(operator=place, lesson=lesson) for place in unnamed))


class Repairs(Struct, frozen=True):
    """Faults to repair that concern one operator.

    Attributes:
        own: Faults of the operator itself.
        inner: Faults inside the operator, by the step of a path, as seen from the workflow that the operator runs.
    """

    own: tuple[Fault, ...] = ()
    inner: Mapping[str, tuple[Fault, ...]] = {}

    def inside(self, step: str) -> tuple[Fault, ...]:
        """Return the faults in a workflow inside the operator; those of the operator itself are of the whole of it."""
        return (
            *(fault.model_copy(update={"operator": "", "item": None}) for fault in self.own),
            *self.inner.get(step, ()),
        )

    def among(self, steps: Collection[str]) -> Repairs:
        """Return the same with the faults inside other steps than these as faults of the operator itself."""
        elsewhere = [fault for step, faults in self.inner.items() if step not in steps for fault in faults]
        return Repairs((*self.own, *elsewhere), self.inner) if elsewhere else self


NO_REPAIRS = Repairs()
"""No faults to repair."""


def repairs_of(faults: Iterable[Fault], numbers: Mapping[str, int]) -> dict[int, Repairs]:
    """Return the faults to repair by the number of the operator; faults elsewhere are left out."""
    repairs: dict[int, Repairs] = {}
    for fault in faults:
        place = place_of(fault.place, numbers)
        if place is None:
            continue
        node = numbers[place.operator]
        known = repairs.get(node, NO_REPAIRS)
        if place.is_inside:
            inner = fault.model_copy(update={"operator": place.inside, "item": None})
            within = {**known.inner, place.step: (*known.inner.get(place.step, ()), inner)}
            repairs[node] = Repairs(known.own, within)
        else:
            repairs[node] = Repairs((*known.own, fault), known.inner)
    return repairs


def around(faults: Iterable[Fault], step: str) -> tuple[Fault, ...]:
    """Return faults inside of an operator, as seen from the workflow of that operator."""
    return tuple(
        fault.model_copy(update={"operator": f"{step}/{fault.place}".removesuffix("/"), "item": None})
        for fault in faults
    )
