"""Verification of the answer to a task: a score from 0 to 1, and its reason."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

from pydantic import Field, JsonValue, StringConstraints, TypeAdapter, ValidationError, model_validator
from pydantic_core import SchemaError

from operad.configs.faults import Faults
from operad.configs.imports import Modules
from operad.configs.schema import Spec
from operad.evaluators import Evaluator
from operad.operators import OperatorConfig
from operad.runtime.values.document import Path_
from operad.runtime.values.errors import InvalidError, describe
from operad.runtime.values.json_schema import check_schema
from operad.runtime.values.schema import AnswerSchema, SchemaMismatch
from operad.runtime.values.text import shortened

MAX_PATTERN = 1_000
"""Maximum number of characters of a regular expression."""

MAX_REASON = 400
"""Maximum number of characters of a reason."""

_NUMBER = re.compile(r"-?\d[\d,]{0,99}(?:\.\d{1,100})?(?:[eE][+-]?\d{1,3})?")


class Verdict(NamedTuple):
    """Verdict on an answer.

    Attributes:
        score: Score from 0 to 1.
        reason: Reason for the score, for people and models.
    """

    score: float
    reason: str


Check = Callable[[str], Verdict]


class Verifier(NamedTuple):
    """Verifier of the answers to one task.

    Attributes:
        judge: Evaluator that judges the answer, by a model or in code; None for no judge.
        in_code: True if the judge is an instance of a user's class.
    """

    checks: Sequence[Check]
    judge: Evaluator | None = None
    in_code: bool = False


class VerifySpec(Spec):
    """Requirements on an answer. If there are several, the lowest score counts."""

    equals: JsonValue = Field(default=None, description="It is this text, spaces aside; or this JSON value.")
    contains: Annotated[str, Field(min_length=1)] | list[Annotated[str, Field(min_length=1)]] | None = Field(
        default=None, description="Text that it holds; of several, the share that it holds is the score."
    )
    matches: Annotated[str, Field(max_length=MAX_PATTERN)] | None = Field(
        default=None, description="A regular expression that is found in it, without look-around and back-references."
    )
    schema_: dict[str, Any] | str | None = Field(
        default=None, alias="schema", description="A JSON Schema, or an example, that it fits."
    )
    number: float | None = Field(default=None, allow_inf_nan=False, description="The last number in it is this one.")
    tolerance: float = Field(default=0.0, ge=0, allow_inf_nan=False, description="How far off the number may be.")
    judge: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="Criteria by which a model judges it, from 0 to 10."
    )
    class_: str | None = Field(
        default=None, alias="class", description="A subclass of Evaluator that judges it, as package.module.Class."
    )
    params: dict[str, Any] = Field(default={}, description="Keyword arguments for that class.")

    @model_validator(mode="after")
    def _check_keys(self) -> VerifySpec:
        given = self.model_fields_set
        if not given & {"equals", "contains", "matches", "schema_", "number", "judge", "class_"}:
            raise ValueError("say how an answer is verified: equals, contains, matches, schema, number, judge or class")
        if self.contains == []:
            raise ValueError("`contains` is empty; name a text, or remove the key")
        for key, needed in (("tolerance", "number"), ("params", "class_")):
            if key in given and needed not in given:
                raise ValueError(f"`{key}` goes with `{needed.rstrip('_')}`")
        return self


def make_verifier(spec: VerifySpec, modules: Modules, faults: Faults, path: Path_) -> Verifier:
    """Return the verifier for a specification; faults are reported and left out.

    Args:
        modules: Source of classes.
    """
    checks: list[Check] = []
    if spec.equals is not None:
        checks.append(lambda answer: _equals(spec.equals, answer))
    if spec.contains is not None:
        wanted = [spec.contains] if isinstance(spec.contains, str) else spec.contains
        checks.append(lambda answer: _contains(wanted, answer))
    if spec.matches is not None and (pattern := _pattern(spec.matches, faults, (*path, "matches"))):
        checks.append(lambda answer: _matches(pattern, spec.matches or "", answer))
    if spec.schema_ is not None and (schema := _schema(spec.schema_, faults, (*path, "schema"))) is not None:
        checks.append(lambda answer: _fits(schema, answer))
    if (number := spec.number) is not None:
        checks.append(lambda answer: _number(number, spec.tolerance, answer))
    return Verifier(checks, _evaluator(spec, modules, faults, path), in_code=bool(spec.class_))


def lowest(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict with the lowest score."""
    return min(verdicts, key=lambda verdict: verdict.score)


def _equals(expected: JsonValue, answer: str) -> Verdict:
    if isinstance(expected, str):
        same = answer.split() == expected.split()
    else:
        try:
            same = _comparable(_ANY.validate(answer, repair=False)) == _comparable(expected)
        except SchemaMismatch:
            same = False
    return _verdict(same, f"it is to be {_quoted(expected)}")


def _comparable(value: Any) -> Any:
    """Return a value that compares as in JSON: true is not 1, and 1.0 is 1."""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, list):
        return [_comparable(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: _comparable(item) for key, item in cast("dict[str, Any]", value).items()}
    return (value,)


def _contains(expected: Sequence[str], answer: str) -> Verdict:
    missing = [text for text in expected if text not in answer]
    score = (len(expected) - len(missing)) / len(expected)
    return Verdict(score, f"it lacks {', '.join(map(_quoted, missing))}"[:MAX_REASON] if missing else "right")


def _matches(pattern: TypeAdapter[str], written: str, answer: str) -> Verdict:
    try:
        pattern.validate_python(answer.encode("utf-8", "replace").decode())
    except ValidationError:
        return _verdict(False, f"nothing in it matches {_quoted(written)}")
    return Verdict(1.0, "right")


_ANY = AnswerSchema.unchecked({})


def _fits(schema: AnswerSchema, answer: str) -> Verdict:
    try:
        schema.validate(answer, repair=False)
    except SchemaMismatch as mismatch:
        return _verdict(False, f"it does not fit its schema: {mismatch}")
    return Verdict(1.0, "right")


def _number(expected: float, tolerance: float, answer: str) -> Verdict:
    found = _NUMBER.findall(answer)
    if not found:
        return Verdict(0.0, f"it is to be {expected:g}, and holds no number")
    last_number = float(found[-1].replace(",", ""))
    near = math.isclose(last_number, expected, rel_tol=1e-9, abs_tol=tolerance)
    within = f", or up to {tolerance:g} off" if tolerance else ""
    return _verdict(near, f"it is to be {expected:g}{within}; its last number is {last_number:g}")


def _verdict(right: bool, reason: str) -> Verdict:
    return Verdict(1.0, "right") if right else Verdict(0.0, reason[:MAX_REASON])


def _quoted(value: JsonValue) -> str:
    return shortened(json.dumps(value, ensure_ascii=False), MAX_REASON // 2)


def _pattern(written: str, faults: Faults, path: Path_) -> TypeAdapter[str] | None:
    """Return a compiled pattern of Rust's regex engine, whose run time is linear in the text; None after a fault."""
    try:
        return TypeAdapter(Annotated[str, StringConstraints(pattern=written)])
    except SchemaError as error:
        why = str(error).splitlines()[-1].strip().removeprefix("error: ")
        faults.report(path, "pattern", f"is not a supported regular expression: {why}")
        return None


def _schema(written: dict[str, Any] | str, faults: Faults, path: Path_) -> AnswerSchema | None:
    try:
        if isinstance(written, dict):
            check_schema(written)
            return AnswerSchema.unchecked(written)
        form = AnswerSchema.parse(written)
    except InvalidError as error:
        for issue in error.issues:
            faults.report(path, issue.code, issue.message)
        return None
    if form.schema is None:
        faults.report(path, "value", "is neither a JSON Schema nor an example in braces")
        return None
    return form


def _evaluator(spec: VerifySpec, modules: Modules, faults: Faults, path: Path_) -> Evaluator | None:
    if spec.class_ is None and spec.judge is None:
        return None
    config = OperatorConfig(id="verifier", instruction=spec.judge or f"Judge as {spec.class_} does.")
    if spec.class_ is None:
        return Evaluator(config)
    evaluator_class = modules.operator_class(spec.class_, Evaluator)
    if isinstance(evaluator_class, str):
        faults.report((*path, "class"), "class", evaluator_class)
        return None
    if not modules.makes(spec.class_, spec.params, Path.cwd()):
        return None
    try:
        return evaluator_class(config, **spec.params)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a user's class may raise anything
        faults.report((*path, "params"), "params", f"{spec.class_} cannot be made with these: {describe(error)}")
        return None
