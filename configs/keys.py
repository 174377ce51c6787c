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


def _keys(opening: str, harmless: str) -> Keys:
    return Keys(frozenset(opening.split()), frozenset(harmless.split()))


_POLICY = "retry timeout fallback cache"
_WORKFLOW = "workflow evaluator max_rounds on_reject policy limits budget"
_SERVER = "timeout call_timeout transport_type"

KEYS: Mapping[str, Keys] = {
    "ConfigSpec": _keys(
        "",
        "app plugin model reasoner tools actions toolkit operators experts leader knowledgebase services durable memory "
        "env",
    ),
    "AppSpec": _keys("", "name desc version"),
    "PluginSpec": _keys("", "workflow_platform"),
    "ModelSpec": _keys(
        "name base_url api_key_env",
        "thinking temperature top_p seed stop max_tokens parameters tools structured vision timeout total_timeout "
        "max_retries limits price api",
    ),
    "LimitsSpec": _keys("", "concurrency requests_per_minute tokens_per_minute"),
    "Price": _keys("", "prompt completion cached cache_written"),
    "ReasonerSpec": _keys("", "type max_rounds"),
    "ReadyToolSpec": _keys("type", "name approve"),
    "McpToolSpec": _keys("mcp_transport_config sampling", "name type desc approve resources prompts"),
    "StreamableHttpServer": _keys("url headers oauth", _SERVER),
    "SseServer": _keys("url headers oauth", _SERVER),
    "StdioServer": _keys("command args env cwd", _SERVER),
    "LocalToolSpec": _keys("name module_path", "type desc timeout approve"),
    "ActionSpec": _keys("", "name desc tools"),
    "FunctionSpec": _keys("function", f"{_POLICY} name inputs ports join map"),
    "RetrySpec": _keys("", "attempts first_delay max_delay on"),
    "TimeoutSpec": _keys("", "run idle"),
    "ReplacementSpec": _keys("", "text outputs"),
    "FallbackSpec": _keys("", "operator model text outputs port"),
    "CacheSpec": _keys("path", "max_age"),
    "MapSpec": _keys("", "over concurrency on_error"),
    "TypedSpec": _keys("type params", f"{_POLICY} name join"),
    "WorkflowSpec": _keys("", f"{_POLICY.replace(' cache', '')} {_WORKFLOW} name inputs join map"),
    "OperatorSpec": _keys(
        "class_ params written_by",
        f"{_POLICY} name instruction model examples output_schema inputs actions tools threshold hops ports join map "
        "knowledge memory max_turns check",
    ),
    "CheckSpec": _keys("function", ""),
    "Example": _keys("", "input output"),
    "PolicySpec": _keys("", _POLICY),
    "BudgetSpec": _keys("", "tokens calls cost seconds"),
    "ExpertSpec": _keys("", f"{_WORKFLOW} profile reasoner model memory"),
    "StepSpec": _keys("", "operator port"),
    "ProfileSpec": _keys("", "name desc"),
    "ExpertReasonerSpec": _keys("", "actor_name thinker_name type max_rounds"),
    "MemorySpec": _keys("", "tokens"),
    "LeaderSpec": _keys("", "profile actions reasoner model memory max_splits life_cycles max_depth budget"),
    "KnowledgeSpec": _keys("paths index", "passages embeddings"),
    "EmbeddingsSpec": _keys("name base_url api_key_env", ""),
    "ServicesSpec": _keys("folder workflows", "search images speech http code tools models knowledge lossy"),
    "SearchSpec": _keys("type api_key_env base_url", ""),
    "ImagesSpec": _keys("name base_url api_key_env", "size"),
    "SpeechSpec": _keys("name base_url api_key_env", "voice format"),
    "HttpSpec": _keys("allowed_hosts", "timeout max_bytes"),
    "CodeSpec": _keys("packages", "seconds memory_bytes"),
    "DurableSpec": _keys("max_age max_runs", ""),
    "EnvSpec": _keys("insights", ""),
    "TasksSpec": _keys("", "tasks"),
    "TaskSpec": _keys("files", "id job context inputs verify"),
    "VerifySpec": _keys("class_ params", "equals contains matches schema_ number tolerance judge"),
}
"""Keys of files of experts, services and tasks, by the class of their part."""

CLASS_KEYS = _keys(
    "server workflow folder gold object_info key subtask model",
    "threshold max_bytes timeout seconds beta mode judge similarity output examples ports retry memory max_turns check "
    "temperature thinking settings",
)
"""Parameters (`params`) of classes of Operad."""

_ASKING = "model_name sampling failure"

NODE_KEYS: Mapping[str, Keys] = {
    "start": _keys("defaults", "failure variables variables.name variables.type"),
    "end": _keys("", "failure outputs outputs.name outputs.value"),
    "llm": _keys(
        "",
        f"{_ASKING} system user messages messages.role messages.text messages.jinja variables variables.name "
        "variables.value memory memory.turns memory.query context files output_schema separate_thoughts",
    ),
    "question-classifier": _keys("", f"{_ASKING} query_variable_selector classes instruction class_ids"),
    "code": _keys(
        "code", "failure language variables variables.name variables.value outputs outputs.name outputs.type"
    ),
    "document-extractor": _keys("", "failure variable_selector"),
    "http-request": _keys("url", "failure"),
    "if-else": _keys("", "failure cases cases.conditions cases.logic"),
    "list-operator": _keys("", "failure variable operator then"),
    "parameter-extractor": _keys(
        "",
        f"{_ASKING} query parameters parameters.description parameters.name parameters.type instruction optional "
        "options on_mismatch",
    ),
    "template-transform": _keys("", "failure variables variables.name variables.value template"),
    "variable-aggregator": _keys("", "failure variables groups groups.name groups.variables"),
    "iteration": _keys("", "failure iterator_selector output_selector concurrency flatten_output on_error"),
    "iteration-start": _keys("", "failure"),
    "tts": _keys("", "failure text"),
    "text2image": _keys("", "failure prompt"),
    "mermaid-converter": _keys("", "failure mermaid_code"),
    "markdown-exporter": _keys("", "failure target_type md_text"),
    "google-search": _keys("query", "failure"),
    "echarts": _keys("", "failure chart_type chart_title data x_axisORcategories"),
    "answer": _keys("", "failure answer"),
    "conversation": _keys("", "failure variables variables.name variables.type variables.value"),
    "assigner": _keys("", "failure assignments assignments.variable assignments.operation assignments.value"),
    "loop": _keys(
        "",
        "failure loop_count variables variables.name variables.type variables.value logic break_conditions "
        "break_conditions.variable break_conditions.operator break_conditions.value",
    ),
    "loop-start": _keys("", "failure"),
    "loop-end": _keys("", "failure"),
    "knowledge-retrieval": _keys("", "failure query knowledge"),
    "agent": _keys("", f"{_ASKING} instruction query tools strategy rounds memory memory.turns memory.query"),
    "human-input": _keys("", "failure question actions actions.id actions.title inputs"),
    "request": _keys(
        "url headers params body body.parts authorization.key authorization.secret secret_hosts",
        "failure method body.type authorization authorization.type authorization.header timeout",
    ),
    "tool": _keys("", "failure tool arguments"),
    "sub-workflow": _keys("", "failure workflow inputs inputs.name inputs.value outputs outputs.name outputs.type"),
    "comfyui": _keys("server token_env", "failure workflow inputs headers timeout"),
}
"""Keys of typed nodes, in every format, by their type."""
