"""Checks of a case: what must hold for the output of a run, or for the answer of one of its operators.

`equals` and `contains` are checks as evaluators in code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, cast

from pydantic import BeforeValidator, Field, JsonValue, model_serializer, model_validator

from operad.runtime.values.errors import FaultError, did_you_mean
from operad.runtime.values.fault import Fault
from operad.runtime.values.json_like import as_json
from operad.runtime.values.message import WorkflowMessage
from operad.runtime.values.text import short_line
from operad.runtime.values.value import Value


class Check(Value):
    """Condition of a case: an output equals a value, or contains a text.

        check = Check(of="letter.text", contains="Dear Ada")

    Attributes:
        of: Id of an operator, or ``operator.output`` for one of its outputs; empty for the output of the run.
        equals: The right value.
        contains: A text, or a list of texts, all of which the output contains.
    """

    of: Annotated[str, Field(max_length=300)] = ""
    equals: Annotated[JsonValue, BeforeValidator(as_json)] = None
    contains: Annotated[JsonValue, BeforeValidator(as_json)] = None

    @model_validator(mode="after")
    def _check_condition(self) -> Check:
        if len({"equals", "contains"} & self.model_fields_set) != 1:
            raise ValueError("a check has either equals or contains")
        return self

    @model_serializer
    def _as_written(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("of", "equals", "contains") if name in self.model_fields_set}

    def fault(self, output: Any, messages: Mapping[str, WorkflowMessage]) -> tuple[str, Fault | None]:
        """Return the reason why a run does not meet the condition, with the fault of the operator; empty if it does."""
        operator, missing = "", ""
        if self.of:
            operator, output, missing = _output_of(self.of, messages)
        try:
            if not missing:
                (equals if "equals" in self.model_fields_set else contains)(
                    output, self.equals if "equals" in self.model_fields_set else self.contains
                )
        except FaultError as fault:
            missing = str(fault)
        if not missing:
            return "", None
        return f"{self.of or 'the output'}: {missing}", Fault(operator=operator, lesson=missing) if operator else None


def _output_of(place: str, messages: Mapping[str, WorkflowMessage]) -> tuple[str, Any, str]:
    """Return the operator of a place, its output, and the reason why there is none."""
    operator, _, name = (place, "", "") if place in messages else place.rpartition(".")
    message = messages.get(operator)
    if message is None:
        return operator or place, None, f"did not run{did_you_mean(operator or place, messages)}"
    outputs = message.outputs or {"text": message.scratchpad}
    if not name:
        return operator, outputs["text"] if outputs.keys() == {"text"} else outputs, ""
    if name not in outputs:
        return operator, None, f"there is no such output{did_you_mean(name, outputs)}"
    return operator, outputs[name], ""


_LONGEST = 200


def equals(output: Any, expected: Any) -> None:
    """Accept the output if it equals the expected one; of texts, spaces at both ends do not count.

        report = flow.evaluate(cases, evaluators=[equals])

    Raises:
        FaultError: The output is another one.
    """
    found, wanted = as_json(output), as_json(expected)
    if isinstance(found, str) and isinstance(wanted, str):
        found, wanted = found.strip(), wanted.strip()
    if found != wanted or (isinstance(found, bool) is not isinstance(wanted, bool)):
        raise FaultError(f"expected {_shown(wanted)}, got {_shown(found)}")


def contains(output: Any, expected: Any) -> None:
    """Accept the output if its text contains the expected text; of a list, all of its texts.

        report = flow.evaluate(cases, evaluators=[contains])

    Raises:
        FaultError: The output lacks a text.
    """
    found = output if isinstance(output, str) else str(as_json(output))
    wanted = cast("list[Any]", expected) if isinstance(expected, list) else [expected]
    missing = [each for each in wanted if str(each) not in found]
    if missing:
        raise FaultError(f"lacks {', '.join(map(_shown, missing))}: {_shown(found)}")


def _shown(value: Any) -> str:
    return short_line(repr(value), _LONGEST)
