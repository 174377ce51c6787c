"""Classification of all keys of files: those that can open a capability, and harmless ones.

A key that is in neither column needs trust, and fails a test. docs/security.md lists the keys of the first column.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Keys(NamedTuple):
    """Keys of a part of a file.

    Attributes:
        opening: Keys from which capabilities are read.
        harmless: Keys without an effect outside of the folder, and those of parts with keys of their own.
    """

    opening: frozenset[str]
    harmless: frozenset[str]

    def __contains__(self, key: object) -> bool:
        return key in self.opening or key in self.harmless


NO_KEYS = Keys(frozenset(), frozenset())


def keys(opening: str, harmless: str) -> Keys:
    """Return keys from two texts of names, separated by spaces."""
    return Keys(frozenset(opening.split()), frozenset(harmless.split()))


_POLICY = "retry timeout fallback cache"
_WORKFLOW = "workflow evaluator max_rounds on_reject policy limits budget"
_SERVER = "timeout call_timeout transport_type"

KEYS: Mapping[str, Keys] = {
    "ConfigSpec": keys(
        "",
        "app plugin model reasoner tools actions toolkit operators experts leader knowledgebase services durable memory "
        "env",
    ),
    "AppSpec": keys("", "name desc version"),
    "PluginSpec": keys("", "workflow_platform"),
    "ModelSpec": keys(
        "name base_url api_key_env",
        "thinking temperature top_p seed stop max_tokens parameters tools structured vision timeout total_timeout "
        "max_retries limits price api",
    ),
    "LimitsSpec": keys("", "concurrency requests_per_minute tokens_per_minute"),
    "Price": keys("", "prompt completion cached cache_written"),
    "ReasonerSpec": keys("", "type max_rounds"),
    "ReadyToolSpec": keys("type", "name approve"),
    "McpToolSpec": keys("mcp_transport_config sampling", "name type desc approve resources prompts"),
    "StreamableHttpServer": keys("url headers oauth", _SERVER),
    "SseServer": keys("url headers oauth", _SERVER),
    "StdioServer": keys("command args env cwd", _SERVER),
    "LocalToolSpec": keys("name module_path", "type desc timeout approve"),
    "ActionSpec": keys("", "name desc tools"),
    "FunctionSpec": keys("function", f"{_POLICY} name inputs ports join map"),
    "RetrySpec": keys("", "attempts first_delay max_delay on"),
    "TimeoutSpec": keys("", "run idle"),
    "ReplacementSpec": keys("", "text outputs"),
    "FallbackSpec": keys("", "operator model text outputs port"),
    "CacheSpec": keys("path", "max_age"),
    "MapSpec": keys("", "over concurrency on_error"),
    "TypedSpec": keys("type params", f"{_POLICY} name join"),
    "WorkflowSpec": keys("", f"{_POLICY.replace(' cache', '')} {_WORKFLOW} name inputs join map"),
    "OperatorSpec": keys(
        "class_ params written_by",
        f"{_POLICY} name instruction model examples output_schema inputs actions tools skills threshold hops ports join map "
        "knowledge code_mode memory long_term_memory max_turns check",
    ),
    "CheckSpec": keys("function", ""),
    "Example": keys("", "input output"),
    "PolicySpec": keys("", _POLICY),
    "BudgetSpec": keys("", "tokens calls cost seconds"),
    "ExpertSpec": keys("", f"{_WORKFLOW} profile reasoner model memory schedule webhook"),
    "ScheduleSpec": keys("cron", "timezone job inputs"),
    "WebhookSpec": keys("secret", "inputs job wait"),
    "StepSpec": keys("", "operator port"),
    "ProfileSpec": keys("", "name desc"),
    "ExpertReasonerSpec": keys("", "actor_name thinker_name type max_rounds"),
    "MemorySpec": keys("", "tokens"),
    "LeaderSpec": keys(
        "", "profile actions reasoner model memory max_splits life_cycles max_depth budget schedule webhook"
    ),
    "KnowledgeSpec": keys("paths index", "passages embeddings"),
    "EmbeddingsSpec": keys("name base_url api_key_env", ""),
    "ServicesSpec": keys("folder workflows", "search images speech http code tools models knowledge lossy"),
    "LongTermMemorySpec": keys("store", "namespace embeddings max_age recalled"),
    "SkillSpec": keys("path scripts", ""),
    "SearchSpec": keys("type api_key_env base_url", ""),
    "ImagesSpec": keys("name base_url api_key_env", "size"),
    "SpeechSpec": keys("name base_url api_key_env", "voice format"),
    "HttpSpec": keys("allowed_hosts", "timeout max_bytes"),
    "CodeSpec": keys("packages", "seconds memory_bytes"),
    "DurableSpec": keys("max_age max_runs", ""),
    "EnvSpec": keys("insights", ""),
    "TasksSpec": keys("", "tasks"),
    "TaskSpec": keys("files", "id job context inputs verify"),
    "VerifySpec": keys("class_ params", "equals contains matches schema_ number tolerance judge"),
}
"""Keys of files of experts, services and tasks, by the class of their part."""

CLASS_KEYS = keys(
    "server secret workflow folder gold object_info key subtask model",
    "threshold max_bytes timeout seconds beta mode judge similarity output examples ports retry memory max_turns check "
    "temperature thinking settings skills code_mode long_term_memory",
)
"""Parameters (`params`) of classes of Operad."""

_ASKING = "model_name sampling failure"

NODE_KEYS: Mapping[str, Keys] = {
    "start": keys(
        "defaults trigger",
        "failure variables variables.name variables.type trigger.kind trigger.method trigger.content_type trigger.inputs trigger.status "
        "trigger.response trigger.secret trigger.wait trigger.cron trigger.timezone",
    ),
    "end": keys("", "failure outputs outputs.name outputs.value"),
    "llm": keys(
        "",
        f"{_ASKING} system user messages messages.role messages.text messages.jinja variables variables.name "
        "variables.value memory memory.turns memory.query memory.messages context files output_schema separate_thoughts",
    ),
    "question-classifier": keys("", f"{_ASKING} query_variable_selector classes instruction class_ids"),
    "code": keys("code", "failure language variables variables.name variables.value outputs outputs.name outputs.type"),
    "document-extractor": keys("", "failure variable_selector"),
    "http-request": keys("url", "failure"),
    "if-else": keys("", "failure cases cases.conditions cases.logic"),
    "list-operator": keys("", "failure variable operator then"),
    "parameter-extractor": keys(
        "",
        f"{_ASKING} query parameters parameters.description parameters.name parameters.type instruction optional "
        "options on_mismatch",
    ),
    "template-transform": keys("", "failure variables variables.name variables.value template"),
    "variable-aggregator": keys("", "failure variables groups groups.name groups.variables"),
    "iteration": keys("", "failure iterator_selector output_selector concurrency flatten_output on_error"),
    "iteration-start": keys("", "failure"),
    "tts": keys("", "failure text"),
    "text2image": keys("", "failure prompt"),
    "mermaid-converter": keys("", "failure mermaid_code"),
    "markdown-exporter": keys("", "failure target_type md_text"),
    "google-search": keys("query", "failure"),
    "echarts": keys("", "failure chart_type chart_title data x_axisORcategories"),
    "answer": keys("", "failure answer"),
    "conversation": keys("", "failure variables variables.name variables.type variables.value"),
    "assigner": keys("", "failure assignments assignments.variable assignments.operation assignments.value"),
    "loop": keys(
        "",
        "failure loop_count variables variables.name variables.type variables.value logic break_conditions "
        "break_conditions.variable break_conditions.files break_conditions.operator break_conditions.value "
        "lists lists.name lists.value collected collected.name collected.value",
    ),
    "loop-start": keys("", "failure"),
    "loop-end": keys("", "failure"),
    "knowledge-retrieval": keys("", "failure query knowledge"),
    "agent": keys(
        "",
        f"{_ASKING} instruction query tools strategy rounds memory memory.turns memory.query memory.messages",
    ),
    "human-input": keys("", "failure question actions actions.id actions.title inputs answer_by"),
    "request": keys(
        "url headers params body body.parts authorization.key authorization.secret secret_hosts",
        "failure method body.type authorization authorization.type authorization.header timeout",
    ),
    "tool": keys("", "failure tool arguments"),
    "sub-workflow": keys("", "failure workflow inputs inputs.name inputs.value outputs outputs.name outputs.type"),
}
"""Keys of typed nodes, in every format, by their type."""
