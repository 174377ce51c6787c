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

    name: str = Field(default="", description="Name.")
    desc: str = Field(default="", description="Description; the goal of a run without `--job`.")
    version: str = Field(default="", description="Version of the file, for its readers.")


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

    name: str = Field(min_length=1, description="Name, by which `--expert` and the leader choose it.")
    desc: str = Field(default="", description="Abilities, for the leader that assigns jobs.")


class ExpertReasonerSpec(Spec):
    """Settings that differ from the `reasoner` of the file."""

    actor_name: str = Field(default="", description="Name in files of Chat2Graph; without effect.")
    thinker_name: str = Field(default="", description="Name in files of Chat2Graph; without effect.")
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
    """Workflow with a profile, a model and a reasoner."""

    profile: ProfileSpec
    reasoner: ExpertReasonerSpec = ExpertReasonerSpec()
    model: ModelRef | None = None
    memory: MemorySpec | None = Field(default=None, description="Memory that replaces the `memory` of the file.")


class LeaderSpec(Spec):
    """Leader that splits jobs over the experts."""

    profile: ProfileSpec = ProfileSpec(name="Leader")
    actions: list[ActionRef] = Field(default=[], description="Actions whose tools the leader may call to split a job.")
    reasoner: ExpertReasonerSpec = ExpertReasonerSpec()
    model: ModelRef | None = None
    memory: MemorySpec | None = Field(default=None, description="Memory that replaces the `memory` of the file.")
    max_splits: Count = Field(default=3, description="Maximum number of attempts at a valid split.")
    life_cycles: Count = Field(
        default=3, description="Maximum number of executions of a part whose result was found wrong."
    )
    max_depth: Count = Field(default=3, description="Maximum number of levels of nested parts.")
    budget: BudgetSpec | None = Field(default=None, description="Budget of a whole job.")


class DurableSpec(Spec):
    """Rule for deleting finished durable runs when another run of the same expert finishes."""

    max_age: Seconds | None = Field(
        default=None, description="Runs without activity for this number of seconds are deleted."
    )
    max_runs: Count | None = Field(default=None, description="Number of the newest runs to keep.")


class EnvSpec(Spec):
    """Insights: lessons of earlier runs."""

    insights: InsightsRef | None = Field(
        default=None,
        description="SQLite file, relative to this file, that stores lessons of runs for later runs; true: "
        "NAME.insights.sqlite beside this file.",
    )


class ConfigSpec(Spec):
    """A configuration file."""

    app: AppSpec = AppSpec()
    plugin: PluginSpec = PluginSpec()
    model: ModelRef | None = None
    reasoner: ReasonerSpec = ReasonerSpec()
    tools: list[AnyTool] = Field(
        default=[], description="Tools for actions and operators: functions, classes and MCP servers."
    )
    actions: list[ActionSpec] = Field(default=[])
    toolkit: list[list[ActionRef]] = Field(
        default=[], description="Chains of actions, each of which is often followed by the next."
    )
    operators: list[AnyOperator] = Field(default=[], description="Operators, nested workflows and typed nodes.")
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
