"""Places of faults: operators, items of maps, and operators inside of others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import accumulate

from msgspec import Struct

from operad.runtime.values.fault import Fault, blamed_by
from operad.runtime.values.map_item import without_index
from operad.runtime.values.message import WorkflowMessage


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
