"""Operators, workflows and their policies in a configuration file."""

from __future__ import annotations

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

from operad.configs.schema.base import Count, Spec, kind
from operad.configs.schema.limits import BudgetSpec, CacheRef, RejectRef, RetryRef, TimeoutRef
from operad.configs.schema.models import LimitsSpec, ModelRef
from operad.configs.schema.tools import ActionRef, Dotted, ToolRef
from operad.operators.nodes import NODE_TYPES
from operad.runtime.graph.schedule import Join
from operad.runtime.reasoning.task import Example
from operad.runtime.values.ids import id_fault


def _without_slash(operator_id: str) -> str:
    if fault := id_fault(operator_id):
        raise ValueError(fault)
    return operator_id


OperatorId = Annotated[str, AfterValidator(_without_slash)]

NEEDS_NODES = {"iteration", "iteration-start", "loop", "loop-start", "loop-end", "conversation", "assigner"}
"""Node types that work only where all of their workflow is typed nodes."""

_JOIN = (
    "Start of an operator with several predecessors: all_done (default), when all have ended or were skipped; all, only "
    "if all ran; any, as soon as the first ran."
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


class FallbackSpec(Spec):
    """Replacement of an operator after its last attempt failed: an operator, a model, or a message."""

    operator: OperatorRef | None = Field(default=None, description="Other operator, with its own policy.")
    model: ModelRef | None = Field(
        default=None, description="The same operator, with this model; without `base_url`, at the same endpoint."
    )
    text: str | None = Field(default=None, description="A message with this text.")
    outputs: dict[str, JsonValue] | None = Field(default=None, description="A message with these outputs.")
    port: str | None = Field(default=None, min_length=1, description="Port that this message chooses.")

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
        default=None, description="Cache of messages: true for memory, a mapping for a file, false for none."
    )


class MapSpec(Spec):
    """Map: the operator runs once for each item of a list."""

    over: str | None = Field(
        default=None,
        min_length=1,
        description="List: operator.output, such as facts.claims; or the name of an output of a predecessor, or of an "
        "input of the job; by default the only list.",
    )
    concurrency: Count = Field(default=8, description="Maximum number of items at once.")
    on_error: Literal["fail", "skip", "keep"] = Field(
        default="fail",
        description="Effect of a failed item. fail: the map fails. skip: the item is left out. keep: an error takes its place.",
    )


def _some_words(criterion: str) -> str:
    if not criterion.strip():
        raise ValueError("is empty: say what the answer must be like, or remove the key")
    return criterion


class CheckSpec(Spec):
    """Function that checks the answers of an operator."""

    function: Dotted = Field(
        description="Function, as module.function. It is given the answer, and returns the fault as text or raises it as "
        "ValueError; without a fault it returns nothing."
    )


CheckRef = Annotated[
    Annotated[str, AfterValidator(_some_words), Tag("name")] | Annotated[CheckSpec, Tag("definition")],
    Discriminator(kind),
]
"""Check of an answer: a criterion in words, or a function."""


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
    "Operators of the same workflow whose messages it receives, in this order; it runs after them. Messages of other "
    "predecessors come last."
)


class OperatorSpec(PolicySpec):
    """An operator, or an evaluator."""

    name: OperatorId = Field(default="", description="Id in the workflow; by default the anchor.")
    instruction: str = Field(description="Role, task and style for the model, with names of values in braces.")
    written_by: Dotted | None = Field(
        default=None,
        description="Function that returns the instruction, as module.function; its parameters are bound like those of an "
        "operator with `function`.",
    )
    model: ModelRef | None = Field(
        default=None,
        description="Model of this operator. A mapping without `name` and `base_url` changes settings of the expert's model, "
        "such as {temperature: 0}; without `base_url`, it is asked at the expert's endpoint.",
    )
    examples: list[Example] = Field(default=[], description="Example inputs with their answers.")
    output_schema: Form = Field(
        default="",
        description="Form of the answer, such as {claims: [string]}; a JSON Schema; or a description in words.",
    )
    inputs: Inputs = Field(default=[], description=_INPUTS)
    actions: list[ActionRef] = Field(default=[])
    tools: list[ToolRef] = Field(default=[], description="Tools besides those of the actions.")
    threshold: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Minimum score of edges of `toolkit` along which actions and tools are recommended.",
    )
    hops: int = Field(
        default=0,
        ge=0,
        description="Maximum distance of recommended actions from its own, in steps of the chains in `toolkit`.",
    )
    ports: list[Annotated[str, Field(min_length=1)]] = Field(
        default=[], description="Ports, of which the operator chooses one; a chain names the port that it follows."
    )
    join: Join | None = Field(default=None, description=_JOIN)
    map: MapSpec | None = None
    knowledge: bool = Field(default=True, description="false: no passages of the `knowledgebase` of the file.")
    memory: bool = Field(default=True, description="false: no earlier turns of a conversation.")
    max_turns: Count | None = Field(
        default=None, description="Maximum number of turns, in which the model calls tools or answers; by default 50."
    )
    check: CheckRef | None = Field(
        default=None,
        description="Check of each answer: a criterion in words, which its model decides, or a function. The model corrects a "
        "fault in the same conversation, at most twice.",
    )
    class_: str = Field(
        default="", alias="class", description="Subclass of Operator or Evaluator, as package.module.Class."
    )
    params: dict[str, Any] = Field(default={}, description="Keyword arguments of the class.")

    @model_validator(mode="before")
    @classmethod
    def _described(cls, value: Any) -> Any:
        fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        if not fields.get("written_by") or "instruction" in fields:
            return cast("Any", value)
        return {**fields, "instruction": f"(Text of the function {fields['written_by']}.)"}

    @model_validator(mode="after")
    def _ports_or_map(self) -> OperatorSpec:
        if self.ports and self.map:
            raise ValueError("an operator with `map` has no ports; remove `ports` or `map`")
        return self


class TypedSpec(PolicySpec):
    """A typed node as an operator; `operad nodes` lists the types."""

    name: str = Field(default="", description="Id, by which other nodes read its variables; by default the anchor.")
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
    ] = Field(description="Name of a node type, or a subclass of NodeOperator as package.module.Class.")
    params: dict[str, Any] = Field(
        default={}, description="Parameters; variables as [variable, name], in texts as {{#name.variable#}}."
    )
    join: Join | None = Field(default=None, description=_JOIN)


class FunctionSpec(PolicySpec):
    """A function as an operator: its parameters are bound by the names of the operators before it."""

    name: OperatorId = Field(
        default="", description="Id in the workflow; by default the anchor, or the name of the function."
    )
    function: Dotted = Field(description="Function, as module.function; the module may lie beside this file.")
    inputs: Inputs = Field(default=[], description=_INPUTS)
    ports: list[Annotated[str, Field(min_length=1)]] = Field(
        default=[], description="Ports, of which the function chooses one by returning Take(port, value)."
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


def _some_evaluator(value: Any) -> Any:
    if value is None or value == []:
        raise ValueError("is left empty, so that nothing judges the result; name an evaluator, or remove the key")
    return value


class WorkflowLikeSpec(Spec):
    """Operators in their order, and what holds for all of them."""

    needs_value: ClassVar[frozenset[str]] = frozenset({"evaluator"})

    workflow: list[list[ChainItem]] = Field(
        description="Chains of operators; each operator runs after the one before it."
    )
    evaluator: Annotated[EvaluatorRefs | None, BeforeValidator(_some_evaluator)] = Field(
        default=None, description="Evaluator of the result, or a list of several."
    )
    max_rounds: int = Field(default=3, ge=1, description="Maximum number of rounds.")
    on_reject: RejectRef = Field(
        default="stop",
        description="Effect of a result that no round could repair, on the workflow around: `stop`, `continue`, or a "
        "message in its place.",
    )
    policy: PolicySpec = Field(default=PolicySpec(), description="Default policy of its operators.")
    limits: LimitsSpec | None = Field(
        default=None, description="Limits of concurrent operators, and of model calls and tokens per minute."
    )
    budget: BudgetSpec | None = Field(default=None, description="Budget of one run.")


class WorkflowSpec(WorkflowLikeSpec, GuardSpec):
    """Nested workflow: a workflow as an operator of another."""

    name: OperatorId = Field(default="", description="Id in the outer workflow; by default the anchor.")
    inputs: Inputs = Field(default=[], description=_INPUTS)
    join: Join | None = Field(default=None, description=_JOIN)
    map: MapSpec | None = None


def _port(value: Any) -> Any:
    return str(value) if type(value) is int else value


class StepSpec(Spec):
    """Operator in a chain, and the port that the chain follows."""

    operator: AnyOperatorRef = Field(description="The operator.")
    port: Annotated[str, Field(min_length=1), BeforeValidator(_port, json_schema_input_type=str | int)] = Field(
        description="Port that the chain follows: its name; for a typed node, its number or `else`."
    )


WorkflowLikeSpec.model_rebuild()  # its chains hold workflows and steps, which are defined after it
