"""Parameters of typed nodes: their declaration, the variables that they name, and their faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Self, Union, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError, model_validator

from operad.operators.variables import (
    ADVANCED,
    WITHOUT_FILES,
    Accepts,
    Selector,
    Text,
    Values,
    VariableType,
    selectors_in,
    short_json,
)
from operad.runtime.policies.policy import ErrorValues, Policy, Retry
from operad.runtime.values.errors import did_you_mean
from operad.runtime.values.secret import HIDDEN
from operad.runtime.values.value import nearest_choice, requirement

DONE, FAILED = "done", "failed"
"""Ports of a node whose failures take a branch of their own."""


class Failure(BaseModel):
    """Behaviour of a node that fails, which is read into the node's `Policy`; see `policy`.

    Attributes:
        retries: Attempts after the first one.
        wait: The longest wait before a retry, in seconds.
        then: The consequence of the last failure: the run ends; the edges of port 1 are taken; or `values` are the
            outputs, and the run goes on.
        values: Outputs by name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    retries: int = Field(default=0, ge=0, le=100)
    wait: float = Field(default=1.0, ge=0, le=3600)
    then: Literal["end", "branch", "values"] = "end"
    values: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])

    @model_validator(mode="after")
    def _check_values(self) -> Self:
        if self.values and not self.goes_on:
            raise ValueError(
                '`values` are the outputs only if the run goes on: write "then": "values", or leave them out'
            )
        return self

    @property
    def goes_on(self) -> bool:
        """True if the run continues after the last failure."""
        return self.then != "end"

    @property
    def policy(self) -> Policy:
        """Retries after every error, and the fallback; values that were not given are unset."""
        wait = max(self.wait, 0.001)
        retry = Retry(self.retries + 1, wait, wait, on=Exception) if self.retries else False
        fallback = ErrorValues(self.values, FAILED if self.then == "branch" else None) if self.goes_on else False
        given = self.model_fields_set
        return Policy(retry=retry if "retries" in given else None, fallback=fallback if "then" in given else None)


class NodeParams(BaseModel):
    """The parameters of a node type; each field has a description that a model can work from.

    Example:
        class Params(NodeParams):
            text: Annotated[Text, Field(description="Text to count.")]
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    failure: Annotated[Failure | None, ADVANCED] = Field(
        default=None,
        description='Retries, and what happens after the last failure: {"retries": 2, "wait": 1, "then": "branch"}; '
        '"end" ends the run, "branch" takes port 1, "values" gives the outputs in "values". error_message and '
        "error_type say why.",
    )


class Reference(NamedTuple):
    """Reference of a node's parameter to a variable.

    Attributes:
        where: Path of the parameter.
        accepts: Permitted types of the variable.
    """

    where: str
    selector: Selector
    accepts: Sequence[VariableType]


class Fault(NamedTuple):
    """Fault of a node.

    Attributes:
        where: Path of the parameter.
        what: Description of the fault, and its remedy.
    """

    where: str
    what: str
    code: str = "param"


Change = Callable[[Selector], Selector]
"""Function that returns the replacement of a variable."""


def rewritten(read: Any, written: Any, change: Change) -> Any:
    """Return parameters as written, with variables replaced.

    Args:
        read: The validated parameters, as `readable` returns them.
        written: The parameters as they are written.
        change: Function that replaces each variable.

    Returns:
        The same object if there is no change.
    """
    match read, written:
        case Selector(), [_, _]:
            new = change(read)
            return written if new == read else [new.variable, new.node]
        case Selector(), Mapping():
            new = change(read)
            given = cast("Mapping[str, Any]", written)
            return given if new == read else {**given, **new._asdict()}
        case Text(), str():
            text = Text(written).reselected(change)
            return written if text == written else text
        case (list() | tuple(), list() | tuple()):  # the last fields of a tuple may be omitted
            known, raws = cast("Sequence[Any]", read), cast("Sequence[Any]", written)
            inner = [rewritten(item, raw, change) for item, raw in zip(known, raws, strict=False)]
            is_unchanged = all(new is raw for new, raw in zip(inner, raws, strict=False))
            return raws if is_unchanged else [*inner, *raws[len(inner) :]]
        case _, Mapping() if isinstance(read, Mapping) or hasattr(read, "_asdict"):
            fields = cast("Mapping[str, Any]", read if isinstance(read, Mapping) else read._asdict())
            given = cast("Mapping[str, Any]", written)
            changed = {key: rewritten(fields.get(key), raw, change) for key, raw in given.items()}
            return given if all(changed[key] is raw for key, raw in given.items()) else changed
        case _:
            return written


def references_in(params_type: type[NodeParams], values: Values) -> Iterator[Reference]:
    """Yield the references of parameters to variables.

    Args:
        values: Parameters to search, by name.
    """
    for name, value in values.items():
        accepts = next(
            (each.types for each in params_type.model_fields[name].metadata if isinstance(each, Accepts)), None
        )
        for where, selector, in_text in selectors_in(value, name):
            yield Reference(where, selector, accepts or (WITHOUT_FILES if in_text else tuple(VariableType)))


def readable(params_type: type[NodeParams], params: Any) -> dict[str, Any]:
    """Return the valid parameters by name; parameters that are invalid by themselves are left out."""
    if not isinstance(params, Mapping):
        return {}
    given = cast("Values", params)
    values: dict[str, Any] = {}
    for name, field in params_type.model_fields.items():
        if name in given:
            with suppress(ValidationError, UnicodeEncodeError):
                values[name] = TypeAdapter[Any](field.rebuild_annotation()).validate_python(given[name])
    return values


def advanced(params_type: type[NodeParams], params: Any) -> Iterator[str]:
    """Yield the names of the advanced parameters that are given.

    Args:
        params: The given parameters, a mapping; other values have no names.
    """
    for name in cast("Mapping[str, Any]", params) if isinstance(params, Mapping) else ():
        if (field := params_type.model_fields.get(name)) is not None and ADVANCED in field.metadata:
            yield name


def param_faults(error: ValidationError, params_type: type[BaseModel]) -> list[Fault]:
    """Return the faults of parameters, with the nearest known names."""
    faults: list[Fault] = []
    seen: set[tuple[Any, ...]] = set()
    for fault in error.errors(include_url=False):
        loc = tuple(step for step in fault["loc"] if not (isinstance(step, str) and _is_branch(step)))
        if (loc, fault["type"] == "missing") in seen:
            continue  # the same value, compared with another branch of a union
        seen.add((loc, fault["type"] == "missing"))
        path = _path(loc)
        if fault["type"] == "extra_forbidden":
            known = _names_at(params_type, loc[:-1])
            kind, hint = "parameter" if len(loc) < 2 else "field", did_you_mean(str(fault["loc"][-1]), known)
            if hint and len(loc) < 2:  # the rarely used ones are only listed if nothing is near
                known = [key for key in known if ADVANCED not in params_type.model_fields[key].metadata]
            message = f"is not a {kind}{hint}; there are: {', '.join(known) or 'none'}"
            faults.append(Fault(path, message, "unknown-param"))
        elif fault["type"] in ("missing", "missing_argument"):
            faults.append(Fault(path, "is missing", "missing-param"))
        elif fault["msg"].endswith("an instance of Selector"):
            faults.append(Fault(path, f"must be a variable, id.variable, such as 3.text, not {_input(fault)}"))
        elif _is_tuple_type(fault) and (names := _names_at(params_type, loc)):
            form = f"[{', '.join(names)}], or an object with these keys"
            faults.append(Fault(path, f"must be {form}, not {_input(fault)}"))
        elif fault["type"] == "string_too_short" and not fault["input"]:
            faults.append(Fault(path, "is empty"))
        else:
            message = f"{_lower(requirement(fault))}, not {_input(fault)}{nearest_choice(fault)}"
            faults.append(Fault(path, message))
    return faults


def _input(fault: Any) -> str:
    """Return the value of a fault as shortened JSON; that of an authorization, which may be a key, is hidden."""
    return HIDDEN if fault["loc"][:1] == ("authorization",) else short_json(fault["input"])


def _is_tuple_type(fault: Mapping[str, Any]) -> bool:
    """Return True if a value is not a named tuple, or has too many items for one."""
    return fault["type"] == "named_tuple_type" or fault.get("ctx", {}).get("field_type") == "NamedTuple"


def _names_at(params_type: type[BaseModel], loc: Sequence[Any]) -> list[str]:
    """Return the names of the fields of the model or the named tuple at a location; empty if there is none."""
    hint: Any = params_type
    for step in loc:
        fields = _fields(hint)
        if fields and isinstance(step, int):
            step = [*fields][step] if step < len(fields) else ""
        inner = get_args(_bare(hint))
        hint = fields.get(step) if fields else inner[-1] if inner else None
    return list(_fields(hint))


def _fields(hint: Any) -> Mapping[str, Any]:
    """Return the types of the fields of a model or a named tuple by name; empty for another type."""
    bare: Any = _bare(hint)
    if not isinstance(bare, type):
        return {}
    if issubclass(bare, BaseModel):
        return {name: field.annotation for name, field in bare.model_fields.items()}
    named_tuple = cast("Any", bare)
    return get_type_hints(named_tuple) if issubclass(bare, tuple) and hasattr(named_tuple, "_fields") else {}


def _bare(hint: Any) -> Any:
    """Return a type without annotations; of a union, the first type that has parts."""
    if get_origin(hint) is Annotated:
        return _bare(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return next((bare for bare in map(_bare, get_args(hint)) if get_args(bare) or _fields(bare)), None)
    return hint


def _is_branch(step: str) -> bool:
    """Return True if a step of a pydantic location is a branch of a union rather than a key."""
    return "[" in step or step in ("str", "Text", "call", "function-after", "Selector")


def _path(loc: Sequence[Any]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in loc).lstrip(".")


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
