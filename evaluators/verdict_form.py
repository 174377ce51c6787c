"""Verdicts of models: what a model is asked for, and how its answer is read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from operad.runtime.reasoning.message_text import is_of_map
from operad.runtime.values.fault import Fault, blamed_by, lesson_of
from operad.runtime.values.map_item import MapItem
from operad.runtime.values.message import WorkflowMessage, WorkflowStatus
from operad.runtime.values.schema import AnswerSchema, SchemaMismatch
from operad.runtime.values.step_record import StepRecord
from operad.runtime.values.verdict_text import NOT_VERIFIED

INSTRUCTION = """\
Judge what the operators produced for the job.

1. Take what the job demands and each criterion in turn. Compare every name, number, date and quotation of the result with \
its source (job, inputs, files, tool results, passages), recompute every sum and count, and look for what is missing. What \
an operator says of its own work proves nothing. In `evaluation`, say briefly what is wrong, and why.
2. For each wrong point, walk the operators in order and name the first whose result is wrong in it although what it \
received (the job, and the results after which it ran) was right, even if its instruction does not mention the point; of \
an operator that consists of others, name one of these. In `wrong`, quote its words, or say what it left out; in `right`, \
what they must be; in `lesson`, what to do differently.
- At fault too: an operator that had to check for this point and found nothing.
- Not at fault: an operator that passed a fault on; an error that is no longer in the result; a breached instruction that \
no criterion mentions and that makes the result no worse.
- If you cannot tell where a fault began, name the likeliest operator with `sure` false.
3. In `unsure`, list what a criterion requires and you cannot verify, because you are not shown what it rests on. This is \
not a fault, and must not pass in silence. If you are shown the source, a statement that it does not support is wrong.
4. Choose `status` by where the first wrong result is:
- EXECUTION_ERROR: of an operator here.
- INPUT_DATA_ERROR: of an earlier expert, named in `faults`; or the job contradicts itself or lacks what the result needs, \
so that no result can be right (`faults` empty).
- JOB_TOO_COMPLICATED_ERROR: no operator here could do it, whatever it is told.
- SUCCESS: nothing is wrong (`faults` empty).
5. In `score`, rate from 0 to 10 how far the result does the job.

Criteria:
"""
"""Instruction of a judge, the same for every workflow; the criteria follow."""

CRITERIA_START = INSTRUCTION.index("Criteria:")

_ITEM_RULE = "Index of the map's item at fault, from 0; null if it is not a single item, or no map."

_INDEX = re.compile(r"\[\d+\]")


@dataclass(frozen=True, slots=True)
class VerdictForm:
    """Form of the verdicts on a run.

    Attributes:
        operators: Places of the operators that may be at fault, with ``[]`` for the index of an item.
        earlier: Ids of the earlier experts.
        maps: Ids of the maps, of which an item alone may be at fault.
    """

    operators: tuple[str, ...] = ()
    earlier: tuple[str, ...] = ()
    maps: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, steps: Iterable[StepRecord], judged: Iterable[WorkflowMessage], earlier: Iterable[WorkflowMessage]
    ) -> VerdictForm:
        """Return the form for the operators of a run; outside of a run, for the authors of the judged messages."""
        ran = [step for step in steps if not step.skipped]
        places = [_INDEX.sub("[]", step.operator_id) for step in ran] or [each.operator_id for each in judged]
        maps = {step.operator_id for step in ran if is_of_map(step.message)}
        maps |= {place.partition("[]")[0] for place in places if "[]" in place}
        known = [place for place in places if place and not place.endswith("[]")]
        experts = [each.operator_id for each in earlier if each.operator_id]
        return cls(tuple(dict.fromkeys(known)), tuple(dict.fromkeys(experts)), frozenset(maps))

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of a verdict."""
        return self._schema([*dict.fromkeys([*self.operators, *self.earlier])])

    def _schema(self, places: Sequence[str] | None) -> dict[str, Any]:
        """Return the schema of a verdict that may name some places, or any if they are None."""
        operator: dict[str, Any] = {"type": "string", **({"enum": list(places)} if places else {})}
        text = {"type": "string"}
        fields: dict[str, Any] = {"wrong": text, "right": text, "operator": operator}
        if self.maps:
            fields["item"] = {"type": ["integer", "null"], "description": _ITEM_RULE}
        fields |= {"sure": {"type": "boolean"}, "lesson": text}
        faults: dict[str, Any] = {"type": "array", "items": _closed(fields)}
        if places is not None and not places:
            faults["maxItems"] = 0
        properties: dict[str, Any] = {
            "evaluation": text,
            "faults": faults,
            "unsure": {"type": "array", "items": text},
            "status": {"type": "string", "enum": [status.value for status in WorkflowStatus]},
            "score": {"type": "integer", "minimum": 0, "maximum": 10},
        }
        return _closed(properties)

    def accepted(self, *, any_operator: bool) -> AnswerSchema:
        """Return the form of the answers that are read: less is required, `blame` and `lesson` may replace `faults`.

        Args:
            any_operator: True if an answer may name operators that do not exist.
        """
        places = None if any_operator else [*dict.fromkeys([*self.operators, *self.earlier])]
        schema = self._schema(places)
        fault = schema["properties"]["faults"]["items"]
        operator = fault["properties"]["operator"]
        faults = {**schema["properties"]["faults"], "items": {**fault, **_open("operator")}}
        blame = {"type": "array", "items": operator, **({"maxItems": 0} if places == [] else {})}
        properties = {**schema["properties"], "faults": faults, "blame": blame, "lesson": {"type": "string"}}
        return AnswerSchema.unchecked({**schema, "properties": properties, **_open("evaluation", "status")})

    def faults_in(self, said: Mapping[str, Any]) -> tuple[Fault, ...]:
        """Return the faults in an answer."""
        return tuple(self._fault(each) for each in cast("list[dict[str, Any]]", said.get("faults", [])))

    def _fault(self, said: Mapping[str, Any]) -> Fault:
        operator, item = cast("str", said["operator"]), cast("int | None", said.get("item"))
        if "[]" in operator:  # of an operator inside of a map's items
            map_id, _, inner = operator.partition("[]")
            operator = map_id if item is None or "[]" in inner else f"{map_id}[{item}]{inner}"
            item = item if operator == map_id else None
        elif written := MapItem.parse(operator):
            operator, item = written.map_id, written.index
        texts = {name: cast("str", said.get(name) or "").strip() for name in ("wrong", "right", "lesson")}
        item = item if operator in self.maps and item is not None and item >= 0 else None
        return Fault(operator=operator, item=item, sure=said.get("sure") is not False, **texts)

    def objection(self, said: Mapping[str, Any]) -> str:
        """Return what contradicts itself in an answer, and how to answer instead; empty if nothing does."""
        faults = self.faults_in(said)
        named = ", ".join(blamed_by(fault for fault in faults if fault.sure))
        status = WorkflowStatus(said["status"])
        if status is WorkflowStatus.SUCCESS and named:
            return (
                f"`status` is SUCCESS, but `faults` names {named}. If the result is wrong, choose `status` by where the "
                "fault began; if it is right, leave `faults` empty"
            )
        if status is WorkflowStatus.EXECUTION_ERROR and not faults and "blame" not in said:
            return (
                "`status` is EXECUTION_ERROR, but `faults` is empty. Walk the operators from the first to the last, and "
                "name the first whose result is wrong although what it received was right, with `sure` false if you "
                "cannot tell; if nothing is wrong with the result, choose SUCCESS"
            )
        here = {fault.operator for fault in faults} - {*self.earlier}
        if (
            status is WorkflowStatus.INPUT_DATA_ERROR
            and faults
            and len(here) == len({each.operator for each in faults})
        ):
            return (
                f"`status` is INPUT_DATA_ERROR, but `faults` names {named or ', '.join(sorted(here))} and not an earlier expert. "
                "If the fault began with an operator here, choose EXECUTION_ERROR; if it lies in the job, leave `faults` "
                "empty"
            )
        return ""


class VerdictReader:
    """Reader of the answers to one request for a verdict, which objects once to a verdict that contradicts itself.

    Args:
        objects: False to accept contradictions.

    Attributes:
        disputed: The verdict to which it has objected; None if there is none.
    """

    def __init__(self, form: VerdictForm, *, objects: bool = True) -> None:
        self._form = form
        self._objects = objects
        self.disputed: dict[str, Any] | None = None

    def read(self, text: str) -> dict[str, Any]:
        """Return the verdict in an answer.

        Raises:
            SchemaMismatch: The answer cannot be read as a verdict.
            ValueError: The first verdict that contradicts itself.
        """
        try:
            said = cast("dict[str, Any]", self._form.accepted(any_operator=False).validate(text))
            objection = self._form.objection(said)
        except SchemaMismatch as mismatch:
            said = cast("dict[str, Any]", self._form.accepted(any_operator=True).validate(text))
            objection = str(mismatch)  # the name of an operator
        if objection and self._objects and self.disputed is None:
            self.disputed = said
            raise ValueError(objection)
        return said


def verdict_of(said: Mapping[str, Any], form: VerdictForm, **fields: Any) -> WorkflowMessage:
    """Return an answer as the message of an evaluator.

    Args:
        fields: Further fields of the message.
    """
    status, faults = WorkflowStatus(said["status"]), form.faults_in(said)
    unsure = [each.strip() for each in cast("list[str]", said.get("unsure", [])) if each.strip()]
    if status is WorkflowStatus.SUCCESS:
        unsure += [": ".join(filter(None, [fault.place, fault.wrong or fault.advice])) for fault in faults]
        faults = ()
    evaluation = cast("str", said["evaluation"])
    doubts = NOT_VERIFIED + "; ".join(unsure) if unsure else ""
    return WorkflowMessage(
        status=status,
        evaluation="\n".join(filter(None, [evaluation, doubts])),
        faults=faults,
        blame=blamed_by(faults) or tuple(said.get("blame", ())),
        lesson=lesson_of(faults) or said.get("lesson", ""),
        unsure=tuple(unsure),
        score=said.get("score"),
        **fields,
    )


def _closed(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def _open(*required: str) -> dict[str, Any]:
    """Return the part of an object's schema that requires these properties and allows others."""
    return {"required": list(required), "additionalProperties": True}
