"""The shape of a configuration file, after Chat2Graph's.

These declarations validate a file, and are printed as JSON Schema by ``operad schema``, so that
editors complete it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from operad.operators.mcp import McpServer
from operad.runtime.task import Example


class Spec(BaseModel):
    """A part of a configuration file. An unknown key is an error, an empty one is as good as none."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _without_empty(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        return {key: value for key, value in cast("dict[str, Any]", data).items() if value is not None}


def _kind(value: Any) -> str:
    return "name" if isinstance(value, str) else "definition"


def _tool_kind(value: Any) -> str:
    if isinstance(value, str):
        return "name"
    if isinstance(value, dict):
        return str(cast("dict[str, Any]", value).get("type", "LOCAL_TOOL"))
    return str(getattr(value, "type", "LOCAL_TOOL"))


class AppSpec(Spec):
    """What the file is about."""

    name: str = ""
    desc: str = ""
    version: str = ""


class PluginSpec(Spec):
    """What runs the workflows."""

    workflow_platform: Literal["DBGPT", "BUILTIN"] = Field(
        default="DBGPT", description="DBGPT: as DB-GPT AWEL DAGs. BUILTIN: without dbgpt."
    )


class ReasonerSpec(Spec):
    """How the experts think."""

    type: Literal["MONO", "DUAL"] = Field(
        default="MONO",
        description="MONO: one model thinks, calls tools and answers. DUAL: a thinker instructs, an actor acts.",
    )
    max_rounds: int = Field(default=8, ge=1, description="How many turns a task may take at most.")


class ModelSpec(Spec):
    """Which model to ask. Without this, what the environment names, or the embedded model."""

    name: str | None = Field(default=None, description="The model's name at its endpoint.")
    base_url: str | None = Field(default=None, description="An OpenAI-compatible endpoint, with /v1.")
    api_key_env: str = Field(default="OPENAI_API_KEY", description="The environment variable that holds the key.")
    temperature: float | None = Field(default=None, ge=0)
    max_tokens: int | None = Field(default=None, ge=1)
    tools: Literal["native", "constrained"] | None = Field(
        default=None, description="constrained: for endpoints without tool calls; tools are chosen by JSON Schema."
    )


class LocalToolSpec(Spec):
    """A tool that is a Python function, or a class whose instances can be called."""

    name: str = Field(description="The function's or class's name in the module.")
    type: Literal["LOCAL_TOOL"] = "LOCAL_TOOL"
    desc: str = Field(default="", description="What it does; by default its docstring.")
    module_path: str = Field(description="The module, as Python imports it. Its folder may be that of this file.")


class McpToolSpec(Spec):
    """All tools of an MCP server."""

    name: str
    type: Literal["MCP"]
    desc: str = ""
    mcp_transport_config: McpServer


ToolSpec = LocalToolSpec | McpToolSpec
AnyTool = Annotated[
    Annotated[LocalToolSpec, Tag("LOCAL_TOOL")] | Annotated[McpToolSpec, Tag("MCP")], Discriminator(_tool_kind)
]
ToolRef = Annotated[
    Annotated[str, Tag("name")] | Annotated[LocalToolSpec, Tag("LOCAL_TOOL")] | Annotated[McpToolSpec, Tag("MCP")],
    Discriminator(_tool_kind),
]


class ActionSpec(Spec):
    """Something an operator may do, and the tools for it."""

    name: str
    desc: str = ""
    tools: list[ToolRef] = []


ActionRef = Annotated[Annotated[str, Tag("name")] | Annotated[ActionSpec, Tag("definition")], Discriminator(_kind)]


class OperatorSpec(Spec):
    """An operator, or an evaluator."""

    name: str = Field(default="", description="Its id in the workflow; by default its anchor.")
    instruction: str = Field(description="Its role, aim and style.")
    examples: list[Example] = Field(default=[], description="Inputs with right answers.")
    output_schema: str = Field(default="", description="A JSON Schema, a YAML or JSON example, or words.")
    actions: list[ActionRef] = []
    tools: list[ToolRef] = Field(default=[], description="Tools that belong to no action.")
    threshold: float = Field(default=0.5, ge=0, le=1, description="What fits less is not recommended.")
    hops: int = Field(default=0, ge=0, description="How far from its own actions recommended ones may be.")
    class_: str = Field(
        default="", alias="class", description="A subclass of Operator, or of Evaluator, as package.module.Class."
    )
    params: dict[str, Any] = Field(default={}, description="Keyword arguments for that class.")


OperatorRef = Annotated[Annotated[str, Tag("name")] | Annotated[OperatorSpec, Tag("definition")], Discriminator(_kind)]


class ProfileSpec(Spec):
    """How an expert presents itself."""

    name: str
    desc: str = ""


class ExpertReasonerSpec(Spec):
    """The names of an expert's reasoners, and what differs from the file's `reasoner`."""

    actor_name: str = ""
    thinker_name: str = ""
    type: Literal["MONO", "DUAL"] | None = None
    max_rounds: int | None = Field(default=None, ge=1)


class ExpertSpec(Spec):
    """A workflow of operators, and who thinks in it."""

    profile: ProfileSpec
    reasoner: ExpertReasonerSpec = ExpertReasonerSpec()
    workflow: list[list[OperatorRef]] = Field(description="Chains: each operator comes after the one before it.")
    evaluator: OperatorRef | None = None
    max_rounds: int = Field(default=3, ge=1, description="How often the operators run until the evaluator is content.")
    model: ModelSpec | None = None


class LeaderSpec(Spec):
    """Who splits jobs over the experts."""

    profile: ProfileSpec | None = None
    actions: list[ActionRef] = []


class Nothing(Spec):
    """A part that has no keys yet."""


class ConfigSpec(Spec):
    """A configuration file."""

    app: AppSpec = AppSpec()
    plugin: PluginSpec = PluginSpec()
    model: ModelSpec | None = None
    reasoner: ReasonerSpec = ReasonerSpec()
    tools: list[AnyTool] = []
    actions: list[ActionSpec] = []
    toolkit: list[list[ActionRef]] = Field(
        default=[], description="Chains of actions: each is often followed by the next."
    )
    operators: list[OperatorSpec] = []
    experts: list[ExpertSpec] = []
    leader: LeaderSpec | None = None
    knowledgebase: Nothing = Nothing()
    memory: Nothing = Nothing()
    env: Nothing = Nothing()
