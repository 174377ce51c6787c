"""The shape of a configuration file, after Chat2Graph's.

These declarations validate a file, and are printed as JSON Schema by ``operad schema``, so that
editors complete it.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    Tag,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import GenerateJsonSchema

from operad.operators.mcp import McpServer
from operad.operators.nodes import NODE_TYPES
from operad.runtime.graph.schedule import Join
from operad.runtime.models.turn import Price
from operad.runtime.reasoning.task import Example
from operad.runtime.values import errors
from operad.runtime.values.errors import did_you_mean
from operad.runtime.workflow.memory import DEFAULT_TOKENS, LEAST_TOKENS

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


def _known_error(name: str) -> str:
    if name not in ERRORS:
        raise ValueError(f"there is no error {name!r}{did_you_mean(name, ERRORS)}; known: {', '.join(sorted(ERRORS))}")
    return name


ErrorName = Annotated[str, AfterValidator(_known_error), WithJsonSchema({"enum": sorted(ERRORS)})]
Amount = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Seconds = Amount
Count = Annotated[int, Field(ge=1)]

NEEDS_NODES = {"iteration", "iteration-start", "loop", "loop-start", "loop-end", "conversation", "assigner"}
"""Node types that work only where all of their workflow is typed nodes."""

_JOIN = (
    "When it runs: all_done (the default), when all before it have ended or been skipped; all, only if all ran; "
    "any, as soon as the first ran."
)


SCHEMA_ID = "urn:operad:configuration"
"""The `$id` of the JSON Schema; a URN, as nothing is fetched from anywhere."""

OTHER_NAMES: Mapping[str, str] = {"desc": "description", "output_schema": "output"}
"""Keys that may be written in another way, too."""

_TITLES: Mapping[str, str] = {
    "ConfigSpec": "Configuration of experts",
    "ExpertReasonerSpec": "Reasoner of an expert",
    "LocalToolSpec": "Local tool",
    "McpToolSpec": "MCP tool",
    "SseServer": "SSE server",
    "StreamableHttpServer": "HTTP server",
    "TypedSpec": "Typed node",
    "WorkflowSpec": "Workflow inside",
}


def title(name: str) -> str:
    """Return the words for the class of a part.

    Example:
        >>> title("LeaderSpec"), title("WorkflowSpec")
        ('Leader', 'Workflow inside')
    """
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name.removesuffix("Spec"))
    return _TITLES.get(name) or words.capitalize()


class Spec(BaseModel):
    """A part of a configuration file. An unknown key is an error, an empty one is as good as none."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _without_empty(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        given = {key: value for key, value in cast("dict[str, Any]", data).items() if value is not None}
        for name, other in OTHER_NAMES.items():
            if name in cls.model_fields and other in given:
                if name in given:
                    raise ValueError(f"{name!r} and {other!r} are the same key; give one of them")
                given[name] = given.pop(other)
        return given


OPERATOR, WORKFLOW, NODE, STEP = "an operator", "a workflow", "a typed node", "an operator with a port"
"""What a mapping in a chain may be; pydantic puts these into the paths of faults."""

SEVERAL = "several"
"""What a list of evaluators is called in these paths."""


def _kind(value: Any) -> str:
    return "name" if isinstance(value, str) else "definition"


def _item_kind(value: Any) -> str:
    """Which of the things that a chain may hold this is: a name, or by its keys."""
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
    return NODE if isinstance(value, TypedSpec) or keys.get("type") is not None else OPERATOR


def _evaluator_kind(value: Any) -> str:
    return SEVERAL if isinstance(value, list) else _kind(value)


def _cache_kind(value: Any) -> str:
    return "definition" if isinstance(value, dict | CacheSpec) else "switch"


def _insights_kind(value: Any) -> str:
    return "switch" if isinstance(value, bool) else "definition"


def _tool_kind(value: Any) -> str:
    if isinstance(value, str):
        return "name"
    if isinstance(value, dict):
        return str(cast("dict[str, Any]", value).get("type", "LOCAL_TOOL"))
    return str(getattr(value, "type", "LOCAL_TOOL"))


class AppSpec(Spec):
    """What the file is about."""

    name: str = Field(default="", description="What it is called.")
    desc: str = Field(default="", description="What it is for: the goal of a run that is given no other.")
    version: str = Field(default="", description="Which state of the file this is, for its readers.")


class PluginSpec(Spec):
    """What runs the workflows."""

    workflow_platform: Literal["DBGPT", "BUILTIN"] | None = Field(
        default=None,
        description="The engine. DBGPT: DB-GPT's AWEL DAGs. BUILTIN: without dbgpt. By default DBGPT where dbgpt is "
        "installed, else BUILTIN.",
    )


class ReasonerSpec(Spec):
    """How the experts think."""

    type: Literal["MONO", "DUAL"] = Field(
        default="MONO",
        description="MONO: one model thinks, calls tools and answers. DUAL: a thinker instructs, an actor acts.",
    )
    max_rounds: int = Field(default=8, ge=1, description="How many turns a task may take at most.")


class LimitsSpec(Spec):
    """What may be done at once and in a minute."""

    concurrency: Count | None = Field(default=None, description="How many at once.")
    requests_per_minute: Count | None = Field(default=None, description="Calls of models begun in any 60 seconds.")
    tokens_per_minute: Count | None = Field(default=None, description="Tokens read and written in any 60 seconds.")


class ModelSpec(Spec):
    """Which model to ask: its name, or a mapping. Without this, the model that the environment names."""

    name: str | None = Field(
        default=None, description="The model's name at its endpoint; `embedded` for the model inside this process."
    )
    base_url: str | None = Field(default=None, description="An OpenAI-compatible endpoint, with /v1.")
    api_key_env: str = Field(default="OPENAI_API_KEY", description="The environment variable that holds the key.")
    temperature: float | None = Field(default=None, ge=0, description="How much chance is in what it says.")
    max_tokens: int | None = Field(default=None, ge=1, description="How many tokens an answer may have at most.")
    tools: Literal["native", "constrained"] | None = Field(
        default=None, description="constrained: for endpoints without tool calls; tools are chosen by JSON Schema."
    )
    vision: bool | None = Field(default=None, description="Whether it can be shown images.")
    timeout: Seconds | None = Field(default=None, description="Seconds that the endpoint may be silent.")
    total_timeout: Seconds | None = Field(
        default=None, description="Seconds that a call may take in all, its retries included; by default 600."
    )
    max_retries: int | None = Field(default=None, ge=0, description="How often a refused call is tried again.")
    limits: LimitsSpec | None = Field(default=None, description="What the endpoint lets one do.")
    price: Price | None = Field(
        default=None,
        description="What a million tokens cost, read and written, in US dollars; by default as in the files of prices.",
    )


def _named(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


ModelRef = Annotated[ModelSpec, BeforeValidator(_named, json_schema_input_type=str | ModelSpec)]
"""A model, by its name or as a mapping."""


_APPROVE = "Ask a person before each call, and show the arguments."


class LocalToolSpec(Spec):
    """A tool that is a Python function, or a class whose instances can be called."""

    name: str = Field(description="The function's or class's name in the module.")
    type: Literal["LOCAL_TOOL"] = "LOCAL_TOOL"
    desc: str = Field(default="", description="What it does; by default its docstring.")
    module_path: str = Field(description="The module, as Python imports it. Its folder may be that of this file.")
    timeout: Seconds | None = Field(default=None, description="Seconds that a call may take.")
    approve: bool = Field(default=False, description=_APPROVE)


class McpToolSpec(Spec):
    """All tools of an MCP server."""

    name: str = Field(description="What actions call these tools by.")
    type: Literal["MCP"]
    desc: str = Field(default="", description="What they are for.")
    mcp_transport_config: McpServer = Field(description="How the server is reached.")
    approve: bool = Field(default=False, description=_APPROVE)


ToolSpec = LocalToolSpec | McpToolSpec
Dotted = Annotated[str, Field(pattern=r"\.")]
"""A function or class, as module.name."""


def dotted_tool(name: str) -> dict[str, str]:
    """Return the local tool that a dotted name such as ``my_module.search`` stands for.

    Raises:
        ValueError: It names no module.
    """
    module, _, function = name.rpartition(".")
    if not (module and function):
        raise ValueError(f"{name!r} names no tool: define it by name and module_path, or write module.function")
    return {"name": function, "module_path": module}


def _defined(value: Any) -> Any:
    return dotted_tool(value) if isinstance(value, str) else value


_Tool = Annotated[
    Annotated[LocalToolSpec, Tag("LOCAL_TOOL")] | Annotated[McpToolSpec, Tag("MCP")], Discriminator(_tool_kind)
]
AnyTool = Annotated[_Tool, BeforeValidator(_defined, json_schema_input_type=Dotted | LocalToolSpec | McpToolSpec)]
"""A tool, or the function that it is of."""

ToolRef = Annotated[
    Annotated[str, Tag("name")] | Annotated[LocalToolSpec, Tag("LOCAL_TOOL")] | Annotated[McpToolSpec, Tag("MCP")],
    Discriminator(_tool_kind),
]


class ActionSpec(Spec):
    """Something an operator may do, and the tools for it."""

    name: str = Field(description="What operators call it by.")
    desc: str = Field(default="", description="What it does, for the model that chooses.")
    tools: list[ToolRef] = Field(default=[], description="What it is done with.")


ActionRef = Annotated[Annotated[str, Tag("name")] | Annotated[ActionSpec, Tag("definition")], Discriminator(_kind)]


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
    return {"attempts": value} if isinstance(value, int) and not isinstance(value, bool) else value


RetryRef = Annotated[RetrySpec, BeforeValidator(_attempts, json_schema_input_type=Count | RetrySpec)]
"""When to try again: a number of attempts, or a mapping."""


class TimeoutSpec(Spec):
    """How long an attempt may take."""

    run: Seconds | None = Field(default=None, description="Seconds from its start to its end.")
    idle: Seconds | None = Field(default=None, description="Seconds without a sign of life: a token, a call of a tool.")


class CacheSpec(Spec):
    """Where messages are kept, so that the same work is not done twice."""

    path: str | None = Field(
        default=None, min_length=1, description="An SQLite file, seen from this file's folder; by default, in memory."
    )
    max_age: Seconds | None = Field(default=None, description="Seconds after which a message is forgotten.")


CacheRef = Annotated[
    Annotated[bool, Tag("switch")] | Annotated[CacheSpec, Tag("definition")], Discriminator(_cache_kind)
]


InsightsRef = Annotated[
    Annotated[bool, Tag("switch")] | Annotated[Annotated[str, Field(min_length=1)], Tag("definition")],
    Discriminator(_insights_kind),
]


class FallbackSpec(Spec):
    """What takes an operator's place when its last attempt failed: an operator, a model, or a message."""

    operator: OperatorRef | None = Field(default=None, description="Another operator; it runs once.")
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
    """What happens when something takes too long or fails."""

    retry: RetryRef | None = None
    timeout: TimeoutSpec | None = None
    fallback: FallbackSpec | None = None


class PolicySpec(GuardSpec):
    """How operators run that say nothing else themselves."""

    cache: CacheRef | None = Field(
        default=None, description="Keep what is said: true, in memory; a mapping, in a file; false, not at all."
    )


class MapSpec(Spec):
    """Run it once for each item of a list."""

    over: str | None = Field(
        default=None,
        min_length=1,
        description="The output before it, or the job's input, that holds the list; by default the only list.",
    )
    concurrency: Count = Field(default=8, description="How many items at once.")
    on_error: Literal["fail", "skip", "keep"] = Field(
        default="fail", description="fail: all of it fails. skip: leave the item out. keep: an error in its place."
    )


def _is_form(value: Any) -> Any:
    if not isinstance(value, str | dict | list):
        raise ValueError(f"must be text, a mapping or a list, not {value!r}")
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

    name: str = Field(default="", description="Its id in the workflow; by default its anchor.")
    instruction: str = Field(description="Its role, aim and style.")
    examples: list[Example] = Field(default=[], description="Inputs with right answers.")
    output_schema: Form = Field(
        default="",
        description="The form of its answer, such as {claims: [string]}; a JSON Schema; or a description in words.",
    )
    inputs: Inputs = Field(default=[], description=_INPUTS)
    actions: list[ActionRef] = []
    tools: list[ToolRef] = Field(default=[], description="Tools that belong to no action.")
    threshold: float = Field(default=0.5, ge=0, le=1, description="What fits less is not recommended.")
    hops: int = Field(default=0, ge=0, description="How far from its own actions recommended ones may be.")
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
            raise ValueError("what runs for each item of a list takes no port: `ports` or `map`, not both")
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


OperatorRef = Annotated[Annotated[str, Tag("name")] | Annotated[OperatorSpec, Tag("definition")], Discriminator(_kind)]
AnyOperator = Annotated[
    Annotated[OperatorSpec, Tag(OPERATOR)] | Annotated["WorkflowSpec", Tag(WORKFLOW)] | Annotated[TypedSpec, Tag(NODE)],
    Discriminator(_operator_kind),
]
AnyOperatorRef = Annotated[
    Annotated[str, Tag("name")]
    | Annotated[OperatorSpec, Tag(OPERATOR)]
    | Annotated["WorkflowSpec", Tag(WORKFLOW)]
    | Annotated[TypedSpec, Tag(NODE)],
    Discriminator(_operator_kind),
]
ChainItem = Annotated[
    Annotated[str, Tag("name")]
    | Annotated[OperatorSpec, Tag(OPERATOR)]
    | Annotated[TypedSpec, Tag(NODE)]
    | Annotated["WorkflowSpec", Tag(WORKFLOW)]
    | Annotated["StepSpec", Tag(STEP)],
    Discriminator(_item_kind),
]


EvaluatorRefs = Annotated[
    Annotated[str, Tag("name")]
    | Annotated[OperatorSpec, Tag("definition")]
    | Annotated[list[OperatorRef], Tag(SEVERAL)],
    Discriminator(_evaluator_kind),
]


class BudgetSpec(Spec):
    """What one run may use, all that runs inside it included."""

    tokens: Count | None = Field(default=None, description="Tokens read and written.")
    calls: Count | None = Field(default=None, description="Calls of models.")
    cost: Amount | None = Field(default=None, description="US dollars; the models need a known price.")
    seconds: Seconds | None = Field(default=None, description="From its start, waiting for a person not counted.")


class WorkflowLikeSpec(Spec):
    """Operators in their order, and what holds for all of them."""

    workflow: list[list[ChainItem]] = Field(description="Chains: each operator comes after the one before it.")
    evaluator: EvaluatorRefs | None = Field(default=None, description="What judges the result; a list, if several do.")
    max_rounds: int = Field(default=3, ge=1, description="How often the operators run until the evaluator is content.")
    policy: PolicySpec = Field(default=PolicySpec(), description="How its operators run, where they say nothing else.")
    limits: LimitsSpec | None = Field(
        default=None, description="How many operators at once; calls and tokens a minute."
    )
    budget: BudgetSpec | None = Field(default=None, description="What one run may use.")


class WorkflowSpec(WorkflowLikeSpec, GuardSpec):
    """A workflow as an operator of another."""

    name: str = Field(default="", description="Its id in the workflow around it; by default its anchor.")
    inputs: Inputs = Field(default=[], description=_INPUTS)
    join: Join | None = Field(default=None, description=_JOIN)
    map: MapSpec | None = None


class StepSpec(Spec):
    """An operator in a chain, and the port from which the chain goes on to the next."""

    operator: AnyOperatorRef = Field(description="Which one.")
    port: str = Field(min_length=1, description="The port that must be taken for the chain to go on.")


class ProfileSpec(Spec):
    """How an expert presents itself."""

    name: str = Field(description="What it is called, and chosen by.")
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
    """Who splits jobs over the experts."""

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


class MakerSpec(Spec):
    """A model that makes something other than text."""

    name: str = Field(min_length=1, description="The model's name at its endpoint.")
    base_url: str | None = Field(default=None, description="An OpenAI-compatible endpoint, with /v1.")
    api_key_env: str = Field(default="OPENAI_API_KEY", description="The environment variable that holds the key.")


class EmbeddingsSpec(MakerSpec):
    """A model that embeds passages and queries: its name, `embedded` for MiniLM inside this process, or a mapping."""


class KnowledgeSpec(Spec):
    """What the operators may look up: folders and files, whose passages that fit a job go into the tasks."""

    paths: list[Annotated[str, Field(min_length=1)]] = Field(
        default=[], description="Folders, with all that is in them, and files; seen from this file's folder."
    )
    index: str | None = Field(
        default=None,
        min_length=1,
        description="An SQLite file that keeps the index, seen from this file's folder; by default, in memory.",
    )
    passages: int = Field(default=5, ge=1, le=100, description="How many passages a task gets at most.")
    embeddings: (
        Annotated[EmbeddingsSpec, BeforeValidator(_named, json_schema_input_type=str | EmbeddingsSpec)] | None
    ) = Field(
        default=None,
        description="A model that embeds passages and queries, for hybrid search; by default, full text alone.",
    )


class SearchSpec(Spec):
    """Who searches the web."""

    type: Literal["serpapi"] = "serpapi"
    api_key_env: str = Field(default="SERPAPI_API_KEY", description="The environment variable that holds the key.")


class ImagesSpec(MakerSpec):
    """A model that draws."""

    size: str | None = Field(default=None, description="Width and height in pixels, as 1024x1024.")


class SpeechSpec(MakerSpec):
    """A model that reads aloud."""

    voice: str | None = Field(default=None, description="Who speaks, as the endpoint names them.")
    format: Literal["mp3", "opus", "aac", "flac", "wav", "pcm"] | None = Field(
        default=None, description="Of the sound."
    )


class HttpSpec(Spec):
    """Which addresses nodes may fetch, and what that may cost."""

    allowed_hosts: list[Annotated[str, Field(min_length=1)]] = Field(
        default=[], description="host or host:port; these may be reached wherever they are, others at public addresses."
    )
    timeout: Seconds | None = Field(default=None, description="Seconds for all of it.")
    max_bytes: Count | None = Field(default=None, description="The largest body, in bytes.")


class CodeSpec(Spec):
    """What a code node may use."""

    seconds: Seconds | None = Field(default=None, description="Seconds of computing.")
    memory_bytes: Count | None = Field(default=None, description="Bytes of memory.")


class ServicesSpec(Spec):
    """What typed nodes reach outside of their workflow; what is not said here, the environment says."""

    search: SearchSpec | None = None
    images: ImagesSpec | None = None
    speech: SpeechSpec | None = Field(default=None, description="Without it, a simple voice of this machine.")
    http: HttpSpec = HttpSpec()
    code: CodeSpec = CodeSpec()
    folder: str | None = Field(
        default=None, min_length=1, description="Where nodes write files, seen from this file's folder; or a fresh one."
    )
    workflows: dict[str, Annotated[str, Field(min_length=1)]] = Field(
        default={},
        description="Workflow files that sub-workflow nodes may run, by name, seen from this file's folder; each may "
        "run those before it.",
    )
    lossy: bool = Field(
        default=False,
        description="Run `workflows` that were imported, though their results may be others than where they come from.",
    )


class DurableSpec(Spec):
    """Which finished durable runs are deleted when another run of the same expert finishes."""

    max_age: Seconds | None = Field(default=None, description="Those of which nothing was noted for so many seconds.")
    max_runs: Count | None = Field(default=None, description="All but so many of the newest.")


class EnvSpec(Spec):
    """What operators know of the world around them."""

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
    actions: list[ActionSpec] = []
    toolkit: list[list[ActionRef]] = Field(
        default=[], description="Chains of actions: each is often followed by the next."
    )
    operators: list[AnyOperator] = Field(
        default=[], description="Operators, workflows inside and typed nodes, by name."
    )
    experts: list[ExpertSpec] = []
    leader: LeaderSpec | None = None
    knowledgebase: KnowledgeSpec = KnowledgeSpec()
    services: ServicesSpec = ServicesSpec()
    durable: DurableSpec = DurableSpec()
    memory: MemorySpec = MemorySpec()
    env: EnvSpec = EnvSpec()


KINDS: Mapping[str, type[Spec]] = {OPERATOR: OperatorSpec, WORKFLOW: WorkflowSpec, NODE: TypedSpec, STEP: StepSpec}
"""What a mapping in a chain may be, by its word in paths."""


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
