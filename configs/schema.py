"""Shape of a configuration file, after Chat2Graph's: one class per part, in `ConfigSpec`.

These declarations validate a file, and are printed as JSON Schema by ``operad schema``, so that editors complete it.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, cast

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
from operad.runtime.models.settings import StopTexts, ThinkingLevel
from operad.runtime.models.turn import Price
from operad.runtime.reasoning.reasoner import MAX_TURNS
from operad.runtime.reasoning.task import Example
from operad.runtime.values import errors
from operad.runtime.values.cron import cron_fault, zone_fault
from operad.runtime.values.errors import did_you_mean
from operad.runtime.values.ids import id_fault
from operad.runtime.values.secret import is_secret_name
from operad.runtime.values.webhooks import HOW_TO_NAME_IT, MAX_WAIT
from operad.runtime.workflow.memory import DEFAULT_TOKENS, LEAST_TOKENS

Amount = Annotated[float, Field(gt=0, allow_inf_nan=False)]

Seconds = Amount

Count = Annotated[int, Field(ge=1)]

OTHER_NAMES: Mapping[str, str] = {"desc": "description", "output_schema": "output"}
"""Keys that may be written in another way, too."""

_TITLES: Mapping[str, str] = {
    "ConfigSpec": "Configuration of experts",
    "ExpertReasonerSpec": "Reasoner of an expert",
    "FunctionSpec": "Function as an operator",
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
    """A part of a configuration file. An unknown key is an error; a known one without a value is as good as none.

    Attributes:
        needs_value: Optional keys that must not be left empty.
    """

    needs_value: ClassVar[frozenset[str]] = frozenset()

    # The whole file is validated by one model: the validators of its parts are built only where a part is read alone.
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _without_empty(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        known = {*cls.model_fields, *(field.alias for field in cls.model_fields.values()), *OTHER_NAMES.values()}
        pairs = cast("dict[str, Any]", data).items()
        given = {key: value for key, value in pairs if value is not None or key not in known or key in cls.needs_value}
        for name, other in OTHER_NAMES.items():
            if name in cls.model_fields and other in given:
                if name in given:
                    raise ValueError(f"{name!r} and {other!r} are the same key; give one of them")
                given[name] = given.pop(other)
        return given


def kind(value: Any) -> str:
    """Return the kind of a reference: a name, or a definition."""
    return "name" if isinstance(value, str) else "definition"


def named(value: Any) -> Any:
    """Return a name as a mapping with a name."""
    return {"name": value} if isinstance(value, str) else value


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


def _cache_kind(value: Any) -> str:
    return "definition" if isinstance(value, dict | CacheSpec) else "switch"


class RetrySpec(Spec):
    """Retries after an error, with growing delays."""

    attempts: Count = Field(default=3, description="Maximum number of attempts, including the first.")
    first_delay: Seconds = Field(default=1.0, description="Maximum delay before the second attempt, in seconds.")
    max_delay: Seconds = Field(default=60.0, description="Maximum delay before any attempt, in seconds.")
    on: list[ErrorName] | None = Field(
        default=None,
        min_length=1,
        description="Errors to retry; by default transient ones: no connection, 429, 5xx, timeouts.",
    )


def _attempts(value: Any) -> Any:
    if isinstance(value, str | bool):
        raise ValueError(f"must be a number of attempts, or a mapping, not {value!r}"[:120])
    return {"attempts": value} if isinstance(value, int) else value


RetryRef = Annotated[RetrySpec, BeforeValidator(_attempts, json_schema_input_type=Count | RetrySpec)]
"""Retries: a number of attempts, or a mapping."""


class TimeoutSpec(Spec):
    """Time limits of an attempt."""

    run: Seconds | None = Field(default=None, description="Maximum seconds of an attempt.")
    idle: Seconds | None = Field(default=None, description="Maximum seconds without a token, tool call or other event.")


def _seconds(value: Any) -> Any:
    if isinstance(value, str | bool):
        raise ValueError(f"must be a number of seconds, or a mapping with run and idle, not {value!r}"[:120])
    return {"run": value} if isinstance(value, int | float) else value


TimeoutRef = Annotated[TimeoutSpec, BeforeValidator(_seconds, json_schema_input_type=Seconds | TimeoutSpec)]
"""Time limits: seconds of an attempt, or a mapping."""


class CacheSpec(Spec):
    """Cache of messages: equal input is answered without a model call."""

    path: str | None = Field(
        default=None, min_length=1, description="SQLite file, relative to this file; by default in memory."
    )
    max_age: Seconds | None = Field(default=None, description="Lifetime of a message in seconds.")


CacheRef = Annotated[
    Annotated[bool, Tag("switch")] | Annotated[CacheSpec, Tag("definition")], Discriminator(_cache_kind)
]


class ReplacementSpec(Spec):
    """Message in place of a rejected result: a text, or outputs."""

    text: str | None = Field(default=None, description="The text.")
    outputs: dict[str, JsonValue] | None = Field(default=None, description="Named outputs.")

    @model_validator(mode="after")
    def _something(self) -> ReplacementSpec:
        if self.text is None and self.outputs is None:
            raise ValueError("a message has a text, outputs, or both")
        return self


def _reject_kind(value: Any) -> str:
    return "effect" if isinstance(value, str) else "message"


RejectRef = Annotated[
    Annotated[Literal["stop", "continue"], Tag("effect")] | Annotated[ReplacementSpec, Tag("message")],
    Discriminator(_reject_kind),
]
"""Effect of a rejected result."""


class BudgetSpec(Spec):
    """Budget of one run, with all runs nested in it."""

    tokens: Count | None = Field(default=None, description="Prompt and completion tokens.")
    calls: Count | None = Field(default=None, description="Model calls.")
    cost: Amount | None = Field(default=None, description="US dollars; the models need a known price.")
    seconds: Seconds | None = Field(
        default=None, description="Seconds from the start, without those of questions to a person."
    )


class ReasonerSpec(Spec):
    """Reasoner of the experts."""

    type: Literal["MONO", "DUAL"] = Field(
        default="MONO",
        description="MONO: one model thinks, calls tools and answers. DUAL: a thinker gives instructions, an actor carries them out.",
    )
    max_rounds: int = Field(
        default=MAX_TURNS,
        ge=1,
        description="Maximum number of turns of a task, in which the model calls tools or answers.",
    )


class LimitsSpec(Spec):
    """Limits of concurrent calls and of calls per minute."""

    concurrency: Count | None = Field(default=None, description="Maximum number at once.")
    requests_per_minute: Count | None = Field(default=None, description="Model calls started in any 60 seconds.")
    tokens_per_minute: Count | None = Field(default=None, description="Prompt and completion tokens in any 60 seconds.")


class ModelSpec(Spec):
    """Model: its name, or a mapping. By default, the model that the environment names."""

    name: str | None = Field(
        default=None,
        min_length=1,
        description="The model's name at its endpoint, or with its vendor: `mistral:…`; `embedded` for the model inside this process.",
    )
    base_url: str | None = Field(default=None, description="An OpenAI-compatible endpoint, with /v1.")
    api_key_env: str | None = Field(
        default=None, description="The environment variable that holds the key; by default that of the vendor."
    )
    temperature: float | None = Field(
        default=None, ge=0, description="Sampling temperature; 0 for the most likely answer."
    )
    thinking: ThinkingLevel | None = Field(default=None, description="Effort of reasoning before an answer.")
    top_p: float | None = Field(
        default=None, gt=0, le=1, description="Share of the probability from which tokens are sampled."
    )
    seed: int | None = Field(default=None, description="Seed of sampling.")
    stop: StopTexts | None = Field(default=None, description="Texts that end an answer, or one text.")
    max_tokens: int | None = Field(default=None, ge=1, description="Maximum number of tokens of an answer.")
    parameters: dict[str, JsonValue] | None = Field(
        default=None, description="Further fields of each request, sent unchanged."
    )
    tools: Literal["native", "constrained"] | None = Field(
        default=None,
        description="constrained: for endpoints without tool calls; the model chooses tools by JSON Schema. By default, what is known of the model, as for `structured` and `vision`.",
    )
    structured: bool | None = Field(
        default=None,
        description="false: for endpoints without JSON Schemas; the prompt describes the form of the answer.",
    )
    vision: bool | None = Field(default=None, description="true: the model accepts images; false: it is not shown any.")
    api: Literal["chat-completions", "responses"] | None = Field(
        default=None,
        description="The protocol; by default responses at OpenAI and Azure OpenAI, chat-completions elsewhere.",
    )
    timeout: Seconds | None = Field(default=None, description="Maximum seconds without data from the endpoint.")
    total_timeout: Seconds | None = Field(
        default=None, description="Maximum seconds of a call, including its retries; by default 600."
    )
    max_retries: int | None = Field(default=None, ge=0, description="Maximum number of retries of a refused call.")
    limits: LimitsSpec | None = Field(default=None, description="Limits of the endpoint.")
    price: Price | None = Field(
        default=None,
        description="US dollars per million tokens; by default from the price files.",
    )


ModelRef = Annotated[ModelSpec, BeforeValidator(named, json_schema_input_type=str | ModelSpec)]
"""A model, by its name or as a mapping."""


class MakerSpec(Spec):
    """A model that makes something other than text."""

    name: str = Field(min_length=1, description="The model's name at its endpoint, or with its vendor: `mistral:…`.")
    base_url: str | None = Field(default=None, description="An OpenAI-compatible endpoint, with /v1.")
    api_key_env: str | None = Field(
        default=None, description="The environment variable that holds the key; by default that of the vendor."
    )


class EmbeddingsSpec(MakerSpec):
    """A model that embeds passages and queries: its name, `embedded` for MiniLM inside this process, or a mapping."""


READY = {"WEB_READER": "web_reader", "WEB_SEARCH": "web_search", "WIKIPEDIA": "wikipedia", "TIME": "current_time"}
"""Names of the tools that come with operad, by their types."""

_READY = ", ".join(READY)  # errors list the tags


def _tool_kind(value: Any) -> str:
    if isinstance(value, str):
        return "name"
    given = cast("dict[str, Any]", value).get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return _READY if isinstance(given, str) and given in READY else str(given or "LOCAL_TOOL")


_APPROVE = "Ask a person before each call, and show the arguments: true, or the names of the people who may allow it."


class LocalToolSpec(Spec):
    """A tool that is a Python function, or a class whose instances can be called."""

    name: str = Field(description="Name of the function or class in the module.")
    type: Literal["LOCAL_TOOL"] = "LOCAL_TOOL"
    desc: str = Field(default="", description="Description for the model; by default the docstring.")
    module_path: str = Field(description="Module, as Python imports it; it may lie beside this file.")
    timeout: Seconds | None = Field(default=None, description="Maximum seconds of a call.")
    approve: bool | list[str] = Field(default=False, description=_APPROVE)


class McpToolSpec(Spec):
    """All tools of an MCP server."""

    name: str = Field(description="Name by which actions and operators refer to the tools.")
    type: Literal["MCP"]
    desc: str = Field(default="", description="Description.")
    mcp_transport_config: McpServer = Field(description="Transport, and address or command of the server.")
    approve: bool | list[str] = Field(default=False, description=_APPROVE)
    sampling: bool = Field(
        default=False, description="Let the server send prompts to the model that calls its tools, within the budget."
    )
    resources: bool = Field(
        default=False, description="Let the model list and read the server's resources: list_resources, read_resource."
    )
    prompts: bool = Field(default=False, description="Let the model read the server's prompts: get_prompt.")


class ReadyToolSpec(Spec):
    """A tool that comes with operad."""

    type: Literal["WEB_READER", "WEB_SEARCH", "WIKIPEDIA", "TIME"] = Field(
        description="web_reader(url), web_search(query, limit), wikipedia(query, language) or current_time(zone)."
    )
    name: str = Field(
        default="", description="By default web_reader, web_search, wikipedia or current_time, by its type."
    )
    approve: bool | list[str] = Field(default=False, description=_APPROVE)

    @model_validator(mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        own = READY.get(str(fields.get("type")))
        return {**fields, "name": own} if own and not fields.get("name") else cast("Any", value)


ToolSpec = LocalToolSpec | McpToolSpec | ReadyToolSpec


def _with_module(name: str) -> str:
    if not all(name.rpartition(".")):
        raise ValueError(f"{name!r} names no module: write module.function")
    return name


Dotted = Annotated[str, AfterValidator(_with_module), WithJsonSchema({"type": "string", "pattern": r"\."})]
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


_Tool = (
    Annotated[LocalToolSpec, Tag("LOCAL_TOOL")]
    | Annotated[McpToolSpec, Tag("MCP")]
    | Annotated[ReadyToolSpec, Tag(_READY)]
)

AnyTool = Annotated[
    Annotated[_Tool, Discriminator(_tool_kind)],
    BeforeValidator(_defined, json_schema_input_type=Dotted | LocalToolSpec | McpToolSpec | ReadyToolSpec),
]
"""A tool, or the function that it is of."""

ToolRef = Annotated[Annotated[str, Tag("name")] | _Tool, Discriminator(_tool_kind)]


class ActionSpec(Spec):
    """Named group of tools for one activity."""

    name: str = Field(description="Name by which operators refer to it.")
    desc: str = Field(default="", description="Description for the model.")
    tools: list[ToolRef] = Field(default=[], description="Tools of the action.")


ActionRef = Annotated[Annotated[str, Tag("name")] | Annotated[ActionSpec, Tag("definition")], Discriminator(kind)]


class KnowledgeSpec(Spec):
    """Knowledge base of the operators: folders and files, whose relevant passages are added to the tasks."""

    paths: list[Annotated[str, Field(min_length=1)]] = Field(
        default=[], description="Folders, including subfolders, and files; relative to this file."
    )
    index: str | None = Field(
        default=None,
        min_length=1,
        description="SQLite file of the index, relative to this file; by default in memory.",
    )
    passages: int = Field(default=5, ge=1, le=100, description="Maximum number of passages for a task.")
    embeddings: (
        Annotated[EmbeddingsSpec, BeforeValidator(named, json_schema_input_type=str | EmbeddingsSpec)] | None
    ) = Field(
        default=None,
        description="Embedding model for hybrid search; by default, full-text search only.",
    )


class LongTermMemorySpec(Spec):
    """Memory of an operator across runs: what fits the job is in the prompt, and the model may change it."""

    store: str | None = Field(
        default=None,
        min_length=1,
        description="SQLite file, as for durable runs, relative to this file, by default NAME.memory.sqlite beside it; "
        "or $NAME, the environment variable with the URL of a database.",
    )
    namespace: str = Field(
        min_length=1,
        max_length=300,
        description="Part of the store that the operator sees; {name} is replaced by an input of the job: user-{user}.",
    )
    embeddings: (
        Annotated[EmbeddingsSpec, BeforeValidator(named, json_schema_input_type=str | EmbeddingsSpec)] | None
    ) = Field(default=None, description="Embedding model for hybrid search; by default, full-text search only.")
    max_age: Seconds | None = Field(default=None, description="Seconds after which something is forgotten.")
    recalled: int = Field(default=5, ge=1, le=50, description="Maximum number of memories for a job.")


class SkillSpec(Spec):
    """Folder of a skill, or of several, in the Agent Skills format: its path, or a mapping."""

    path: str = Field(
        min_length=1,
        description="Folder with a file SKILL.md, or with subfolders that have one; relative to this file.",
    )
    scripts: bool = Field(
        default=False,
        description="true: Python scripts of the skills may run, in a limited process without network. The folder must "
        "then be in the folder of this file; this needs trust.",
    )


def _with_path(value: Any) -> Any:
    return {"path": value} if isinstance(value, str) else value


SkillRef = Annotated[SkillSpec, BeforeValidator(_with_path, json_schema_input_type=str | SkillSpec)]
"""Skills, by their folder or as a mapping."""


class SearchSpec(Spec):
    """Search engine for the web."""

    type: Literal["serpapi", "searxng", "tavily", "duckduckgo"] = Field(
        default="serpapi", description="The provider; duckduckgo needs no key."
    )
    api_key_env: str | None = Field(
        default=None,
        description="The environment variable that holds the key; by default SERPAPI_API_KEY or TAVILY_API_KEY.",
    )
    base_url: str | None = Field(default=None, pattern="^https?://", description="The address; searxng needs one.")


class ImagesSpec(MakerSpec):
    """Model that generates images."""

    size: str | None = Field(default=None, description="Width and height in pixels, such as 1024x1024.")


class SpeechSpec(MakerSpec):
    """Model that reads text aloud."""

    voice: str | None = Field(default=None, description="Name of the voice at the endpoint.")
    format: Literal["mp3", "opus", "aac", "flac", "wav", "pcm"] | None = Field(
        default=None, description="Audio format."
    )


class HttpSpec(Spec):
    """Addresses that nodes may reach, and limits of requests."""

    allowed_hosts: list[Annotated[str, Field(min_length=1)]] = Field(
        default=[],
        description="Hosts, as host or host:port, that may be reached at private addresses; all others only at public ones.",
    )
    timeout: Seconds | None = Field(default=None, description="Maximum seconds of a request.")
    max_bytes: Count | None = Field(default=None, description="Maximum size of a response, in bytes.")


class CodeSpec(Spec):
    """Limits of code nodes."""

    seconds: Seconds | None = Field(default=None, description="Maximum seconds of computing.")
    memory_bytes: Count | None = Field(default=None, description="Maximum memory in bytes.")
    packages: list[Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")]] = Field(
        default=[],
        description="Python packages that code may import, such as pandas. Such code runs in a limited process, which "
        "the kernel confines on Linux alone; naming packages needs trust.",
    )


class ServicesSpec(Spec):
    """Services of typed nodes: a section of a configuration, or a file of its own. Unset values come from the environment."""

    search: SearchSpec | None = None
    images: ImagesSpec | None = None
    speech: SpeechSpec | None = Field(
        default=None, description="Model that reads text aloud; without it, a simple local voice."
    )
    http: HttpSpec = HttpSpec()
    code: CodeSpec = CodeSpec()
    folder: str | None = Field(
        default=None,
        min_length=1,
        description="Folder for files that nodes write, relative to this file; by default a new temporary one.",
    )
    workflows: dict[str, Annotated[str, Field(min_length=1)]] = Field(
        default={},
        description="Workflow files for sub-workflow nodes, by name, relative to this file; each may run those before it.",
    )
    tools: list[AnyTool] = Field(default=[], description="Tools that nodes call by their names.")
    models: dict[str, ModelRef] = Field(
        default={},
        description="Models by the names that nodes use (`model_name`, the model of a Dify node); other nodes ask the "
        "model of the run.",
    )
    knowledge: dict[str, KnowledgeSpec] = Field(
        default={}, description="Knowledge bases for knowledge-retrieval nodes, by name."
    )
    lossy: bool = Field(
        default=False,
        description="true: run imported `workflows` although their results may differ from those on their platform.",
    )


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
    skills: list[SkillRef] = Field(
        default=[], description="Folders of skills: their descriptions are in the prompt, and a tool reads their files."
    )
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
    code_mode: bool = Field(
        default=False, description="true: the model calls the tools by Python code that it writes, in a sandbox."
    )
    memory: bool = Field(default=True, description="false: no earlier turns of a conversation.")
    long_term_memory: LongTermMemorySpec | None = None
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


def _cron(text: str) -> str:
    if fault := cron_fault(text):
        raise ValueError(fault)
    return text


def _zone(name: str) -> str:
    if fault := zone_fault(name):
        raise ValueError(fault)
    return name


def _place(text: str) -> str:
    part, _, field = text.partition(".")
    if part not in ("body", "query", "header") or (not field and part != "body"):
        raise ValueError(
            f"{text[:100]!r} names no part of a request; write body.PATH such as body.order.id, query.NAME, header.NAME, or body"
        )
    return text


def _secret(name: str) -> str:
    if name and not is_secret_name(name):
        raise ValueError(HOW_TO_NAME_IT)  # the text may be the secret itself
    return name


_GOAL = "Goal of the runs; by default the description of the file, or of the expert."


class ScheduleSpec(Spec):
    """Times at which `operad serve` starts a run."""

    cron: Annotated[str, AfterValidator(_cron)] = Field(
        description="Times, as a cron expression of five fields: minute, hour, day, month, weekday."
    )
    timezone: Annotated[str, AfterValidator(_zone)] = Field(
        default="UTC", description="Time zone of the times, such as Europe/Berlin."
    )
    job: str = Field(default="", description=_GOAL)
    inputs: dict[str, JsonValue] = Field(default={}, description="Inputs of the runs.")


class WebhookSpec(Spec):
    """Requests to `operad serve`, at /webhooks/NAME, each of which starts a run."""

    secret: Annotated[str, AfterValidator(_secret)] = Field(
        default="",
        description="Name of the secret with which senders sign requests, or that they send as a bearer token. Without it, "
        "the keys of the server hold.",
    )
    job: str = Field(default="", description=_GOAL)
    inputs: dict[str, Annotated[str, AfterValidator(_place)]] = Field(
        default={}, description="Inputs of the runs, each with its place in the request, such as body.order.id."
    )
    wait: float = Field(
        default=0, ge=0, le=MAX_WAIT, description="Seconds to wait for the result, which then is the response."
    )


class TriggersSpec(Spec):
    """Triggers of an expert or the leader."""

    schedule: ScheduleSpec | None = Field(default=None, description="Times at which `operad serve` starts a run.")
    webhook: WebhookSpec | None = Field(
        default=None, description="Requests to `operad serve` at /webhooks/NAME, each of which starts a run."
    )


class ExpertSpec(WorkflowLikeSpec, TriggersSpec):
    """Workflow with a profile, a model and a reasoner."""

    profile: ProfileSpec
    reasoner: ExpertReasonerSpec = ExpertReasonerSpec()
    model: ModelRef | None = None
    memory: MemorySpec | None = Field(default=None, description="Memory that replaces the `memory` of the file.")


class LeaderSpec(TriggersSpec):
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
