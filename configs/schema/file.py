"""Schema of a configuration file: experts, leader and common settings; its JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag
from pydantic.json_schema import GenerateJsonSchema

from operad.configs.schema.base import OTHER_NAMES, Count, Seconds, Spec, title
from operad.configs.schema.models import ModelRef, ReasonerSpec
from operad.configs.schema.operators import (
    FUNCTION,
    NODE,
    OPERATOR,
    STEP,
    WORKFLOW,
    AnyOperator,
    BudgetSpec,
    FunctionSpec,
    OperatorSpec,
    StepSpec,
    TypedSpec,
    WorkflowLikeSpec,
    WorkflowSpec,
)
from operad.configs.schema.services import KnowledgeSpec, ServicesSpec
from operad.configs.schema.tools import ActionRef, ActionSpec, AnyTool
from operad.runtime.workflow.memory import DEFAULT_TOKENS, LEAST_TOKENS

SCHEMA_ID = "urn:operad:configuration"
"""The `$id` of the JSON Schema; a URN, as nothing is fetched from anywhere."""


def _insights_kind(value: Any) -> str:
    return "switch" if isinstance(value, bool) else "definition"


class AppSpec(Spec):
    """Description of the file."""

    name: str = Field(default="", description="What it is called.")
    desc: str = Field(default="", description="What it is for: the goal of a run that is given no other.")
    version: str = Field(default="", description="Which state of the file this is, for its readers.")


class PluginSpec(Spec):
    """Engine of the workflows."""

    workflow_platform: Literal["DBGPT", "BUILTIN"] | None = Field(
        default=None,
        description="The engine. DBGPT: DB-GPT's AWEL DAGs. BUILTIN: without dbgpt. By default DBGPT where dbgpt is "
        "installed, else BUILTIN.",
    )


InsightsRef = Annotated[
    Annotated[bool, Tag("switch")] | Annotated[Annotated[str, Field(min_length=1)], Tag("definition")],
    Discriminator(_insights_kind),
]


class ProfileSpec(Spec):
    """Profile of an expert."""

    name: str = Field(min_length=1, description="What it is called, and chosen by.")
    desc: str = Field(default="", description="What it can do, for the leader that gives out jobs.")


class ExpertReasonerSpec(Spec):
    """The names of an expert's reasoners, and what differs from the file's `reasoner`."""

    actor_name: str = Field(default="", description="A name that Chat2Graph's files give; it changes nothing.")
    thinker_name: str = Field(default="", description="Another such name.")
    type: Literal["MONO", "DUAL"] | None = Field(default=None, description="As in the file's `reasoner`.")
    max_rounds: int | None = Field(default=None, ge=1, description="As in the file's `reasoner`.")


class MemorySpec(Spec):
    """Budget of a conversation in a prompt."""

    tokens: int = Field(
        default=DEFAULT_TOKENS,
        ge=LEAST_TOKENS,
        description="Tokens of the newest turns, the summary of older ones, and the new message together.",
    )


class ExpertSpec(WorkflowLikeSpec):
    """A workflow of operators, and who thinks in it."""

    profile: ProfileSpec
    reasoner: ExpertReasonerSpec = ExpertReasonerSpec()
    model: ModelRef | None = None
    memory: MemorySpec | None = Field(default=None, description="Instead of the file's `memory`.")


class LeaderSpec(Spec):
    """Leader that splits jobs over the experts."""

    profile: ProfileSpec = ProfileSpec(name="Leader")
    actions: list[ActionRef] = Field(default=[], description="What it may do in order to split well.")
    reasoner: ExpertReasonerSpec = ExpertReasonerSpec()
    model: ModelRef | None = None
    memory: MemorySpec | None = Field(default=None, description="Instead of the file's `memory`.")
    max_splits: Count = Field(default=3, description="How often it is asked for a split that can be used.")
    life_cycles: Count = Field(
        default=3, description="How often a sub-job is done because others say that its result is at fault."
    )
    max_depth: Count = Field(default=3, description="How many levels of parts of parts there may be.")
    budget: BudgetSpec | None = Field(default=None, description="What a whole job may use.")


class DurableSpec(Spec):
    """Rule for deleting finished durable runs when another run of the same expert finishes."""

    max_age: Seconds | None = Field(default=None, description="Those of which nothing was noted for so many seconds.")
    max_runs: Count | None = Field(default=None, description="All but so many of the newest.")


class EnvSpec(Spec):
    """Insights of operators about their environment."""

    insights: InsightsRef | None = Field(
        default=None,
        description="Keep what runs learn, for later ones: in this SQLite file, seen from this file's folder; "
        "true: in NAME.insights.sqlite beside this file.",
    )


class ConfigSpec(Spec):
    """A configuration file."""

    app: AppSpec = AppSpec()
    plugin: PluginSpec = PluginSpec()
    model: ModelRef | None = None
    reasoner: ReasonerSpec = ReasonerSpec()
    tools: list[AnyTool] = Field(
        default=[], description="Functions, classes and MCP servers, for actions and operators."
    )
    actions: list[ActionSpec] = Field(default=[])
    toolkit: list[list[ActionRef]] = Field(
        default=[], description="Chains of actions: each is often followed by the next."
    )
    operators: list[AnyOperator] = Field(
        default=[], description="Operators, workflows inside and typed nodes, by name."
    )
    experts: list[ExpertSpec] = Field(default=[])
    leader: LeaderSpec | None = None
    knowledgebase: KnowledgeSpec = KnowledgeSpec()
    services: ServicesSpec = ServicesSpec()
    durable: DurableSpec = DurableSpec()
    memory: MemorySpec = MemorySpec()
    env: EnvSpec = EnvSpec()


class _WithoutTitlesOfKeys(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a configuration file, for editors."""
    schema = ConfigSpec.model_json_schema(schema_generator=_WithoutTitlesOfKeys)
    for name, part in {"ConfigSpec": schema, **schema["$defs"]}.items():
        part["title"] = title(name)
        keys = part.get("properties", {})
        keys |= {other: keys[key] for key, other in OTHER_NAMES.items() if key in keys}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_ID, **schema}


KINDS: Mapping[str, type[Spec]] = {
    OPERATOR: OperatorSpec,
    WORKFLOW: WorkflowSpec,
    NODE: TypedSpec,
    FUNCTION: FunctionSpec,
    STEP: StepSpec,
}
"""Schema of a mapping in a chain, by its word in paths."""
