"""Types of the fields of Dify's files: numbers and booleans, which files may write as texts, lists and mappings.

They are read as Dify's own models read them, pydantic's lax mode: ``'1000'`` is 1000, ``3.0`` is 3, ``'true'`` is true.
A value that Dify refuses is left out of the parameters, and `operad check` names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from operad.flows.formats.fields import Table, read_typed, typed
from operad.flows.formats.shapes import Fields

_MAPPING = dict[Any, Any]
_MAPPINGS = list[_MAPPING]
_TEXTS = list[str]
_SELECTORS = list[_TEXTS]
_MODEL = {"model": _MAPPING, "model.completion_params": _MAPPING}
_MEMORY = {
    "memory": _MAPPING | None,
    "memory.role_prefix": _MAPPING | None,
    "memory.window": _MAPPING,
    "memory.window.enabled": bool,
    "memory.window.size": int | None,
}
_RETRY = {
    "default_value": _MAPPINGS | None,
    "retry_config": _MAPPING,
    "retry_config.retry_enabled": bool,
    "retry_config.enabled": bool,
    "retry_config.max_retries": int,
    "retry_config.retry_interval": int,
}
_VISION = {
    "vision": _MAPPING,
    "vision.enabled": bool,
    "vision.configs": _MAPPING | None,
    "vision.configs.variable_selector": _TEXTS,
}

_ALLOWED = ("allowed_file_types", "allowed_file_extensions", "allowed_file_upload_methods")
_LIST_OPERATIONS = ("filter_by", "order_by", "limit", "extract_by")

_KINDS: Mapping[str, Mapping[str, object]] = {
    "start": {
        "variables": _MAPPINGS,
        "variables.required": bool,
        **{f"variables.{name}": _TEXTS | None for name in ("options", *_ALLOWED)},
    },
    "trigger-webhook": dict.fromkeys(("headers", "params", "body"), _MAPPINGS),
    "trigger-schedule": {"visual_config": _MAPPING | None},
    "end": {"outputs": _MAPPINGS},
    "code": {"variables": _MAPPINGS, "outputs": _MAPPING},
    "template-transform": {"variables": _MAPPINGS},
    "if-else": {"conditions": _MAPPINGS | None, "cases": _MAPPINGS | None, "cases.conditions": _MAPPINGS},
    "llm": {
        **_MEMORY,
        **_VISION,
        **_MODEL,
        "prompt_template": _MAPPINGS | _MAPPING,
        "prompt_config": _MAPPING | None,
        "prompt_config.jinja2_variables": _MAPPINGS | None,
        "context": _MAPPING,
        "context.enabled": bool,
        "context.variable_selector": _TEXTS | None,
        "structured_output": _MAPPING | None,
        "structured_output_enabled": bool,
        "structured_output_switch_on": bool | None,
    },
    "question-classifier": {**_MEMORY, **_VISION, **_MODEL, "classes": _MAPPINGS},
    "parameter-extractor": {
        **_MEMORY,
        **_VISION,
        **_MODEL,
        "parameters": _MAPPINGS,
        "parameters.required": bool,
        "parameters.options": list[Any] | None,
    },
    "list-operator": {
        **dict.fromkeys(_LIST_OPERATIONS, _MAPPING),
        **{f"{name}.enabled": bool for name in _LIST_OPERATIONS},
        "filter_by.conditions": _MAPPINGS,
        "limit.size": int,
    },
    "variable-aggregator": {
        "variables": _SELECTORS,
        "advanced_settings": _MAPPING | None,
        "advanced_settings.group_enabled": bool,
        "advanced_settings.groups": _MAPPINGS,
        "advanced_settings.groups.variables": _SELECTORS,
    },
    "assigner": {"items": _MAPPINGS, "assigned_variable_selector": _TEXTS, "input_variable_selector": _TEXTS},
    "iteration": {"is_parallel": bool, "parallel_nums": int, "flatten_output": bool},
    "loop": {"loop_count": int, "break_conditions": _MAPPINGS, "loop_variables": _MAPPINGS},
    "http-request": {
        "authorization": _MAPPING,
        "authorization.config": _MAPPING | None,
        "body": _MAPPING | None,
        "body.data": _MAPPINGS | str | None,
        "timeout": _MAPPING | None,
        **{f"timeout.{name}": int | None for name in ("connect", "read", "write")},
        "ssl_verify": bool | None,
    },
    "tool": {"tool_configurations": _MAPPING, "tool_parameters": _MAPPING},
    "human-input": {"inputs": _MAPPINGS, "user_actions": _MAPPINGS},
    "agent": {
        **_MEMORY,
        "agent_parameters": _MAPPING,
        "agent_parameters.tools": _MAPPING | _MAPPINGS,
        **dict.fromkeys(("agent_parameters.instruction", "agent_parameters.query"), _MAPPING | str),
        "agent_parameters.maximum_iterations": _MAPPING | int,
        "agent_parameters.tools.value": _MAPPINGS,
        "agent_parameters.model": _MAPPING,
        "agent_parameters.model.value": _MAPPING,
        "agent_parameters.model.value.completion_params": _MAPPING,
        "agent_parameters.maximum_iterations.value": int | None,
    },
    "knowledge-retrieval": {
        **_VISION,
        "dataset_ids": _TEXTS,
        "multiple_retrieval_config": _MAPPING | None,
        "single_retrieval_config": _MAPPING | None,
    },
}
"""Types of the fields that are read, by the type of the node in Dify and the path of the field."""

_OF_THE_PAGE = ("retriever_resource", "speech_to_text", "suggested_questions_after_answer", "text_to_speech")

FILE_TYPES = typed(
    {
        "dependencies": _MAPPINGS | None,
        "workflow.conversation_variables": _MAPPINGS | None,
        "workflow.environment_variables": _MAPPINGS | None,
        "workflow.rag_pipeline_variables": list[Any] | None,
        "workflow.features": _MAPPING | None,
        "workflow.features.suggested_questions": _TEXTS | None,
        **{f"workflow.features.{name}": _MAPPING | None for name in ("file_upload", *_OF_THE_PAGE)},
    }
)
"""Types of the fields of a file around its nodes; null is as good as absent."""

_SETTINGS = (
    "agent_mode file_upload dataset_configs chat_prompt_config completion_prompt_config sensitive_word_avoidance"
)

CONFIG_TYPES = typed(
    {
        "model_config.model": _MAPPING,
        "model_config.model.completion_params": _MAPPING | None,
        **{f"model_config.{name}": _MAPPING | None for name in (*_SETTINGS.split(), *_OF_THE_PAGE)},
        "model_config.agent_mode.tools": _MAPPINGS | None,
        "model_config.agent_mode.tools.tool_parameters": _MAPPING | None,
        "model_config.dataset_configs.datasets": _MAPPING | None,
        "model_config.dataset_configs.datasets.datasets": _MAPPINGS | None,
        "model_config.chat_prompt_config.prompt": _MAPPINGS | None,
        "model_config.completion_prompt_config.prompt": _MAPPING | None,
        "model_config.user_input_form": _MAPPINGS | None,
        "model_config.suggested_questions": _TEXTS | None,
    }
)
"""Types of the fields of an app that has a configuration instead of a graph."""

_TABLES: Mapping[str, Table] = {kind: typed({**_RETRY, **kinds}) for kind, kinds in _KINDS.items()}
_OTHERS = typed(_RETRY)


def typed_fields(kind: object) -> Table:
    """Return the declarations of the typed fields of a node type of Dify."""
    kind = {"variable-assigner": "variable-aggregator", "request": "http-request"}.get(str(kind), kind)
    return _TABLES.get(str(kind), _OTHERS)


def with_types(data: Fields) -> Fields:
    """Return the data of a node with its fields as their types, without those that Dify refuses."""
    return read_typed(data, typed_fields(data.get("type")))
