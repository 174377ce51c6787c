"""Operators, workflows and their policies in a configuration file."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    JsonValue,
    Tag,
    WithJsonSchema,
    model_validator,
)

from operad.configs.schema.base import Amount, Count, Seconds, Spec, kind
from operad.configs.schema.models import LimitsSpec, ModelRef
from operad.configs.schema.tools import ActionRef, Dotted, ToolRef
from operad.operators.nodes import NODE_TYPES
from operad.runtime.graph.schedule import Join
from operad.runtime.reasoning.task import Example
from operad.runtime.values import errors
from operad.runtime.values.errors import did_you_mean
from operad.runtime.values.ids import id_fault

_ALWAYS_FINAL = {"BudgetError", "MissingExtraError", "PausedError", "RunningLoopError"}

ERRORS: Mapping[str, type[Exception]] = {
    **{
        name: kind
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.OperadError) and name not in _ALWAYS_FINAL
    },
    **{
        name: getattr(builtins, name)
        for name in ("ConnectionError", "Exception", "OSError", "RuntimeError", "TimeoutError", "ValueError")
    },
}
"""The errors that `retry.on` may name."""


def _without_slash(operator_id: str) -> str:
    if fault := id_fault(operator_id):
        raise ValueError(fault)
    return operator_id


def _known_error(name: str) -> str:
    if name not in ERRORS:
        raise ValueError(f"there is no error {name!r}{did_you_mean(name, ERRORS)}; known: {', '.join(sorted(ERRORS))}")
    return name


OperatorId = Annotated[str, AfterValidator(_without_slash)]

ErrorName = Annotated[str, AfterValidator(_known_error), WithJsonSchema({"enum": sorted(ERRORS)})]

NEEDS_NODES = {"iteration", "iteration-start", "loop", "loop-start", "loop-end", "conversation", "assigner"}
"""Node types that work only where all of their workflow is typed nodes."""

_JOIN = (
    "When it runs: all_done (the default), when all before it have ended or been skipped; all, only if all ran; "
    "any, as soon as the first ran."
)

OPERATOR, WORKFLOW, NODE, STEP = "an operator", "a workflow", "a typed node", "an operator with a port"

FUNCTION = "a function"
"""Kinds of mappings in a chain; pydantic puts these into the paths of faults."""

SEVERAL = "several"
"""Name of a list of evaluators in these paths."""


def _item_kind(value: Any) -> str:
    """Return the kind of a chain's element: a name, or a kind determined by its keys."""
    if isinstance(value, str):
        return "name"
    if isinstance(value, StepSpec) or (isinstance(value, dict) and {"operator", "port"} & value.keys()):
        return STEP
    return _operator_kind(value)


def _operator_kind(value: Any) -> str:
    if isinstance(value, str):
        return "name"
    keys = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    if isinstance(value, WorkflowSpec) or "workflow" in keys:
        return WORKFLOW
    if isinstance(value, FunctionSpec) or "function" in keys:
        return FUNCTION
    return NODE if isinstance(value, TypedSpec) or keys.get("type") is not None else OPERATOR


def _evaluator_kind(value: Any) -> str:
    found = _operator_kind(value)
    return found if found in ("name", FUNCTION) else OPERATOR


def _evaluators_kind(value: Any) -> str:
    return SEVERAL if isinstance(value, list) else _evaluator_kind(value)


def _cache_kind(value: Any) -> str:
    return "definition" if isinstance(value, dict | CacheSpec) else "switch"


class RetrySpec(Spec):
    """Try again after an error, after waits that grow."""

    attempts: Count = Field(default=3, description="How many in all.")
    first_delay: Seconds = Field(default=1.0, description="Seconds before the second attempt, at most.")
    max_delay: Seconds = Field(default=60.0, description="Seconds before any attempt, at most.")
    on: list[ErrorName] | None = Field(
        default=None,
        min_length=1,
        description="After which errors; by default those that pass by themselves: no connection, 429, 5xx, timeouts.",
    )


def _attempts(value: Any) -> Any:
    if isinstance(value, str | bool):
        raise ValueError(f"must be a number of attempts, or a mapping, not {value!r}"[:120])
    return {"attempts": value} if isinstance(value, int) else value


RetryRef = Annotated[RetrySpec, BeforeValidator(_attempts, json_schema_input_type=Count | RetrySpec)]
"""Retries: a number of attempts, or a mapping."""


class TimeoutSpec(Spec):
    """Time limits of an attempt."""

    run: Seconds | None = Field(default=None, description="Seconds from its start to its end.")
    idle: Seconds | None = Field(default=None, description="Seconds without a sign of life: a token, a call of a tool.")


def _seconds(value: Any) -> Any:
    if isinstance(value, str | bool):
        raise ValueError(f"must be a number of seconds, or a mapping with run and idle, not {value!r}"[:120])
    return {"run": value} if isinstance(value, int | float) else value


TimeoutRef = Annotated[TimeoutSpec, BeforeValidator(_seconds, json_schema_input_type=Seconds | TimeoutSpec)]
"""Time limits: seconds of an attempt, or a mapping."""


class CacheSpec(Spec):
    """Cache of messages, so that equal work is done once."""

    path: str | None = Field(
        default=None, min_length=1, description="An SQLite file, seen from this file's folder; by default, in memory."
    )
    max_age: Seconds | None = Field(default=None, description="Seconds after which a message is forgotten.")


CacheRef = Annotated[
    Annotated[bool, Tag("switch")] | Annotated[CacheSpec, Tag("definition")], Discriminator(_cache_kind)
]


class FallbackSpec(Spec):
    """Replacement of an operator after its last attempt failed: an operator, a model, or a message."""

    operator: OperatorRef | None = Field(default=None, description="Another operator, with its own policy.")
    model: ModelRef | None = Field(
        default=None, description="The same operator, with this model; without `base_url`, at the same endpoint."
    )
    text: str | None = Field(default=None, description="A message with this text.")
    outputs: dict[str, JsonValue] | None = Field(default=None, description="A message with these outputs.")
    port: str | None = Field(default=None, min_length=1, description="The port that this message takes.")

    @model_validator(mode="after")
    def _one_thing(self) -> FallbackSpec:
        is_message = not self.model_fields_set.isdisjoint({"text", "outputs", "port"})
        if (self.operator is not None) + (self.model is not None) + is_message != 1:
            raise ValueError("a fallback is one of: an operator, a model, a message (text, outputs, port)")
        return self


class GuardSpec(Spec):
    """Handling of slow and failed attempts."""

    retry: RetryRef | None = None
    timeout: TimeoutRef | None = None
    fallback: FallbackSpec | None = None


class PolicySpec(GuardSpec):
    """Default policy of operators."""

    cache: CacheRef | None = Field(
        default=None, description="Keep what is said: true, in memory; a mapping, in a file; false, not at all."
    )


class MapSpec(Spec):
    """Run it once for each item of a list."""

    over: str | None = Field(
        default=None,
        min_length=1,
        description="The list: operator.output, such as facts.claims; or the name of an output before it or of an input "
        "of the job; by default the only list.",
    )
    concurrency: Count = Field(default=8, description="How many items at once.")
    on_error: Literal["fail", "skip", "keep"] = Field(
        default="fail", description="fail: all of it fails. skip: leave the item out. keep: an error in its place."
    )


def _is_form(value: Any) -> Any:
    if not isinstance(value, str | dict | list):
        raise ValueError(f"must be text, a mapping or a list, not {value!r}")
    if value == {}:
        raise ValueError(
            "has no fields; name them, such as {claims: [string]}, or remove the key for an answer in text"
        )
    return cast("Any", value)


Form = Annotated[
    Any, AfterValidator(_is_form), WithJsonSchema({"anyOf": [{"type": kind} for kind in ("string", "object", "array")]})
]
"""The form of an answer, as text or as plain values."""

Inputs = list[Annotated[str, Field(min_length=1)]]
"""Names of operators."""

_INPUTS = (
    "Operators of the same workflow whose messages it gets, in this order; it runs after them. Others that stand "
    "before it in a chain follow."
)


class OperatorSpec(PolicySpec):
    """An operator, or an evaluator."""

    name: OperatorId = Field(default="", description="Its id in the workflow; by default its anchor.")
    instruction: str = Field(description="Its role, aim and style.")
    model: ModelRef | None = Field(
        default=None,
        description="Its own model. A mapping without `name` and `base_url` changes settings of the expert's model, "
        "such as {temperature: 0}; without `base_url`, it is asked at the expert's endpoint.",
    )
    examples: list[Example] = Field(default=[], description="Inputs with right answers.")
    output_schema: Form = Field(
        default="",
        description="The form of its answer, such as {claims: [string]}; a JSON Schema; or a description in words.",
    )
    inputs: Inputs = Field(default=[], description=_INPUTS)
    actions: list[ActionRef] = Field(default=[])
    tools: list[ToolRef] = Field(default=[], description="Tools that belong to no action.")
    threshold: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Lowest score of the edges of `toolkit` along which actions and tools are recommended.",
    )
    hops: int = Field(
        default=0,
        ge=0,
        description="How many steps of the chains in `toolkit` recommended actions may be away from its own.",
    )
    ports: list[Annotated[str, Field(min_length=1)]] = Field(
        default=[], description="The ways on from it, of which it takes one; a chain names the one that it follows."
    )
    join: Join | None = Field(default=None, description=_JOIN)
    map: MapSpec | None = None
    knowledge: bool = Field(default=True, description="false: it gets nothing from the file's `knowledgebase`.")
    memory: bool = Field(default=True, description="false: in a conversation it does not see the earlier turns.")
    class_: str = Field(
        default="", alias="class", description="A subclass of Operator, or of Evaluator, as package.module.Class."
    )
    params: dict[str, Any] = Field(default={}, description="Keyword arguments for that class.")

    @model_validator(mode="after")
    def _ports_or_map(self) -> OperatorSpec:
        if self.ports and self.map:
            raise ValueError("an operator with `map` has no ports; remove `ports` or `map`")
        return self


class TypedSpec(PolicySpec):
    """A typed node as an operator; `operad nodes` lists the types."""

    name: str = Field(default="", description="Its id, by which others name its variables; by default its anchor.")
    type: Annotated[
        str,
        WithJsonSchema(
            {
                "anyOf": [
                    {"enum": [name for name in NODE_TYPES if name not in NEEDS_NODES]},
                    {"type": "string", "pattern": r"\."},
                ]
            }
        ),
    ] = Field(description="A type's name, or a subclass of NodeOperator as package.module.Class.")
    params: dict[str, Any] = Field(
        default={}, description="Its parameters; variables as [variable, name], in texts as {{#name.variable#}}."
    )
    join: Join | None = Field(default=None, description=_JOIN)


class FunctionSpec(PolicySpec):
    """A function as an operator: its parameters are bound by the names of the operators before it."""

    name: OperatorId = Field(
        default="", description="Its id in the workflow; by default its anchor, or the function's name."
    )
    function: Dotted = Field(description="The function, as module.function; the module may lie beside this file.")
    inputs: Inputs = Field(default=[], description=_INPUTS)
    ports: list[Annotated[str, Field(min_length=1)]] = Field(
        default=[], description="The ways on from it, of which it takes one by returning Take(port, value)."
    )
    join: Join | None = Field(default=None, description=_JOIN)
    map: MapSpec | None = None


OperatorRef = Annotated[Annotated[str, Tag("name")] | Annotated[OperatorSpec, Tag("definition")], Discriminator(kind)]

_Definition = (
    Annotated[OperatorSpec, Tag(OPERATOR)]
    | Annotated["WorkflowSpec", Tag(WORKFLOW)]
    | Annotated[TypedSpec, Tag(NODE)]
    | Annotated[FunctionSpec, Tag(FUNCTION)]
)

AnyOperator = Annotated[_Definition, Discriminator(_operator_kind)]

AnyOperatorRef = Annotated[Annotated[str, Tag("name")] | _Definition, Discriminator(_operator_kind)]

ChainItem = Annotated[
    Annotated[str, Tag("name")] | _Definition | Annotated["StepSpec", Tag(STEP)], Discriminator(_item_kind)
]

_Evaluator = (
    Annotated[str, Tag("name")] | Annotated[OperatorSpec, Tag(OPERATOR)] | Annotated[FunctionSpec, Tag(FUNCTION)]
)

EvaluatorRef = Annotated[_Evaluator, Discriminator(_evaluator_kind)]

EvaluatorRefs = Annotated[_Evaluator | Annotated[list[EvaluatorRef], Tag(SEVERAL)], Discriminator(_evaluators_kind)]


class BudgetSpec(Spec):
    """Budget of one run, with all runs nested in it."""

    tokens: Count | None = Field(default=None, description="Tokens read and written.")
    calls: Count | None = Field(default=None, description="Calls of models.")
    cost: Amount | None = Field(default=None, description="US dollars; the models need a known price.")
    seconds: Seconds | None = Field(default=None, description="From its start, waiting for a person not counted.")


def _some_evaluator(value: Any) -> Any:
    if value is None or value == []:
        raise ValueError("is left empty, so that nothing judges the result; name an evaluator, or remove the key")
    return value


class WorkflowLikeSpec(Spec):
    """Operators in their order, and what holds for all of them."""

    needs_value: ClassVar[frozenset[str]] = frozenset({"evaluator"})

    workflow: list[list[ChainItem]] = Field(description="Chains: each operator comes after the one before it.")
    evaluator: Annotated[EvaluatorRefs | None, BeforeValidator(_some_evaluator)] = Field(
        default=None, description="What judges the result; a list, if several do."
    )
    max_rounds: int = Field(default=3, ge=1, description="How often the operators run until the evaluator is content.")
    policy: PolicySpec = Field(default=PolicySpec(), description="How its operators run, where they say nothing else.")
    limits: LimitsSpec | None = Field(
        default=None, description="How many operators at once; calls and tokens a minute."
    )
    budget: BudgetSpec | None = Field(default=None, description="What one run may use.")


class WorkflowSpec(WorkflowLikeSpec, GuardSpec):
    """A workflow as an operator of another."""

    name: OperatorId = Field(default="", description="Its id in the workflow around it; by default its anchor.")
    inputs: Inputs = Field(default=[], description=_INPUTS)
    join: Join | None = Field(default=None, description=_JOIN)
    map: MapSpec | None = None


def _port(value: Any) -> Any:
    return str(value) if type(value) is int else value


class StepSpec(Spec):
    """An operator in a chain, and the port from which the chain goes on to the next."""

    operator: AnyOperatorRef = Field(description="Which one.")
    port: Annotated[str, Field(min_length=1), BeforeValidator(_port, json_schema_input_type=str | int)] = Field(
        description="The port that must be taken for the chain to go on: its name; of a typed node, its number or else."
    )


WorkflowLikeSpec.model_rebuild()  # its chains hold workflows and steps, which are defined after it
