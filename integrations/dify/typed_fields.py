"""Types of the fields of Dify's files: numbers and booleans, which files may write as texts, texts, lists and mappings.

They are read as Dify's own models read them, pydantic's lax mode: ``'1000'`` is 1000, ``3.0`` is 3, ``'true'`` is true.
A value that Dify refuses is left out of the parameters, and `operad check` names it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import StrictFloat, TypeAdapter

from operad.flows.formats.fields import (
    REFUSED,
    Declared,
    Owner,
    Remark,
    Table,
    Use,
    name_of_type,
    read_as,
    read_typed,
    typed,
)
from operad.flows.formats.shapes import Fields, each_of, fields_of, json_or_text, list_of

_MAPPING = dict[Any, Any]
_MAPPINGS = list[_MAPPING]
_TEXTS = list[str]
_SELECTORS = list[_TEXTS]
_VALUE_FORM = Literal["variable", "constant"]
_LOGIC = Literal["and", "or"]
_MODEL = {
    "model": _MAPPING,
    "model.completion_params": _MAPPING,
    **{f"model.{name}": str for name in ("name", "provider", "mode")},
}
_MEMORY = {
    "memory": _MAPPING | None,
    "memory.role_prefix": _MAPPING | None,
    "memory.window": _MAPPING,
    "memory.window.enabled": bool,
    "memory.window.size": int | None,
    "memory.query_prompt_template": str | None,
}
_ANY_NODE = {
    "title": str,
    "desc": str | None,
    "iteration_id": str | None,
    "loop_id": str | None,
    "error_strategy": Literal["fail-branch", "default-value", "none"] | None,
    "default_value": _MAPPINGS | None,
    "default_value.key": str,
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
        "variables.hide": bool,
        "variables.label": str,
        "variables.max_length": int | None,
        **{f"variables.{name}": _TEXTS | None for name in ("options", *_ALLOWED)},
    },
    "trigger-webhook": dict.fromkeys(("headers", "params", "body"), _MAPPINGS),
    "trigger-schedule": {"visual_config": _MAPPING | None},
    "end": {"outputs": _MAPPINGS},
    "code": {"variables": _MAPPINGS, "outputs": _MAPPING, "outputs.*.children": _MAPPING | None},
    "template-transform": {"variables": _MAPPINGS},
    "if-else": {
        "logical_operator": _LOGIC | None,
        "conditions": _MAPPINGS | None,
        "cases": _MAPPINGS | None,
        "cases.case_id": str,
        "cases.logical_operator": _LOGIC,
        "cases.conditions": _MAPPINGS,
    },
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
    "question-classifier": {
        **_MEMORY,
        **_VISION,
        **_MODEL,
        "classes": _MAPPINGS,
        "classes.label": str,
        "instruction": str | None,
    },
    "parameter-extractor": {
        **_MEMORY,
        **_VISION,
        **_MODEL,
        "parameters": _MAPPINGS,
        "parameters.required": bool,
        "parameters.options": list[Any] | None,
        "instruction": str | None,
        "reasoning_mode": Literal["function_call", "prompt", ""] | None,
    },
    "list-operator": {
        **dict.fromkeys(_LIST_OPERATIONS, _MAPPING),
        **{f"{name}.enabled": bool for name in _LIST_OPERATIONS},
        "filter_by.conditions": _MAPPINGS,
        "filter_by.conditions.key": str,
        "filter_by.conditions.comparison_operator": str,
        "filter_by.conditions.value": str | _TEXTS | bool,
        "order_by.key": str,
        "order_by.value": Literal["asc", "desc"],
        "extract_by.serial": str,
        "limit.size": int,
    },
    "variable-aggregator": {
        "output_type": str,
        "variables": _SELECTORS,
        "advanced_settings": _MAPPING | None,
        "advanced_settings.group_enabled": bool,
        "advanced_settings.groups": _MAPPINGS,
        "advanced_settings.groups.output_type": str,
        "advanced_settings.groups.variables": _SELECTORS,
    },
    "assigner": {
        "version": str,
        "items": _MAPPINGS,
        "items.input_type": _VALUE_FORM,
        "assigned_variable_selector": _TEXTS,
        "input_variable_selector": _TEXTS,
    },
    "iteration": {"start_node_id": str, "is_parallel": bool, "parallel_nums": int, "flatten_output": bool},
    "loop": {
        "start_node_id": str,
        "loop_count": int,
        "logical_operator": _LOGIC,
        "break_conditions": _MAPPINGS,
        "loop_variables": _MAPPINGS,
        "loop_variables.value_type": _VALUE_FORM,
    },
    "http-request": {
        "authorization": _MAPPING,
        "authorization.config": _MAPPING | None,
        "authorization.config.header": str,
        "headers": str,
        "params": str,
        "body": _MAPPING | None,
        "body.type": str,
        "body.data": _MAPPINGS | str | None,
        "body.data.type": Literal["text", "file"],
        "timeout": _MAPPING | None,
        **{f"timeout.{name}": int | None for name in ("connect", "read", "write")},
        "ssl_verify": bool | None,
    },
    "tool": {
        "tool_configurations": _MAPPING,
        "tool_parameters": _MAPPING,
        **{f"provider_{name}": str for name in ("id", "name", "type")},
        "tool_label": str,
    },
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
        **{f"agent_strategy_{name}": str for name in ("name", "label", "provider_name")},
    },
    "knowledge-retrieval": {
        **_VISION,
        "dataset_ids": _TEXTS,
        "retrieval_mode": str,
        "multiple_retrieval_config": _MAPPING | None,
        "single_retrieval_config": _MAPPING | None,
    },
}
"""Types of the fields that are read, by the type of the node in Dify and the path of the field."""

_OF_THE_PAGE = ("retriever_resource", "speech_to_text", "suggested_questions_after_answer", "text_to_speech")

_VARIABLES = ("workflow.conversation_variables", "workflow.environment_variables")

_SHOWN = frozenset(
    "title desc label description hide id start_node_id tool_label provider_id provider_name provider_type agent_strategy_label "
    "agent_strategy_provider_name model.name model.provider model.mode app.name selector sourceHandle".split()
)
"""Ends of the paths of fields that do not change a run here, so that a value which Dify refuses is only a note."""


def _typed(kinds: Mapping[str, Any]) -> Table:
    """Return the declarations of fields by their paths, with their types."""
    shown = {path: kind for path, kind in kinds.items() if not _SHOWN.isdisjoint(_ends(path))}
    return typed({path: kind for path, kind in kinds.items() if path not in shown}) | typed(shown, Use.NOTE)


def _ends(path: str) -> Iterator[str]:
    """Yield the last step of a path, and its last two."""
    steps = path.split(".")
    yield from (".".join(steps[-count:]) for count in (1, 2))


FILE_TYPES = typed({"version": str | None}, Use.NOTE) | _typed(
    {
        "app.name": str,
        "dependencies": _MAPPINGS | None,
        **dict.fromkeys(_VARIABLES, _MAPPINGS | None),
        **{f"{path}.{name}": str for path in _VARIABLES for name in ("id", "name", "description")},
        **{f"{path}.selector": _TEXTS for path in _VARIABLES},
        "workflow.rag_pipeline_variables": list[Any] | None,
        "workflow.features": _MAPPING | None,
        "workflow.features.suggested_questions": _TEXTS | None,
        **{f"workflow.features.{name}": _MAPPING | None for name in ("file_upload", *_OF_THE_PAGE)},
    }
)
"""Types of the fields of a file around its nodes; null is as good as absent."""

_POINTS = ("position", "positionAbsolute")

AROUND_TYPES = typed({"parentId": str | None}) | typed(
    {
        "position": _MAPPING,
        "positionAbsolute": _MAPPING | None,
        **{f"{point}.{axis}": StrictFloat for point in _POINTS for axis in "xy"},
        **dict.fromkeys(("width", "height", "zIndex"), StrictFloat | None),
    },
    Use.NOTE,
)
"""Types of the fields around a node's data; positions and sizes matter to Dify's page only."""

EDGE_TYPES = _typed({"id": str, "sourceHandle": str})
"""Types of the fields of an edge; one without texts as source and target is refused."""

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

_TABLES: Mapping[str, Table] = {kind: _typed({**_ANY_NODE, **kinds}) for kind, kinds in _KINDS.items()}
_OTHERS = _typed(_ANY_NODE)


def typed_fields(kind: object) -> Table:
    """Return the declarations of the typed fields of a node type of Dify."""
    kind = {"variable-assigner": "variable-aggregator", "request": "http-request"}.get(str(kind), kind)
    return _TABLES.get(str(kind), _OTHERS)


def with_types(data: Fields) -> Fields:
    """Return the data of a node with its fields as their types, without those that Dify refuses."""
    read = read_typed(data, typed_fields(data.get("type")))
    if "default_value" in read:
        read["default_value"] = [_typed_value(each, "type") for each in each_of(read["default_value"])]
    return read


# Values of variables and default values, each beside the name of its type.

_VALUES: Mapping[str, Any] = {
    "string": str,
    "secret": str,
    "number": int | float,
    "integer": int,
    "float": float,
    "boolean": bool,
    "object": _MAPPING,
    "array[string]": _TEXTS,
    "array[number]": list[int | float],
    "array[boolean]": list[bool],
    "array[object]": _MAPPINGS,
    "array[any]": list[Any],
    "array[file]": list[Any],
}
_READERS = {kind: TypeAdapter(each) for kind, each in _VALUES.items()}
_NUMBERS = ("number", "integer", "float")


def with_variable_types(workflow: Fields) -> Fields:
    """Return the workflow of a file with its variables as Dify reads them, without the values that it refuses."""
    read = fields_of(read_typed({"workflow": workflow}, FILE_TYPES)["workflow"])
    for path in _VARIABLES:
        name = path.partition(".")[2]
        if name in read:
            read[name] = [_typed_value(each, "value_type") for each in each_of(read[name])]
    return read


def _typed_value(item: Fields, kind_key: str) -> Fields:
    kind, value = item.get(kind_key), item.get("value")
    if not isinstance(kind, str) or kind not in _READERS:
        return {key: each for key, each in item.items() if key != kind_key}
    if kind_key == "type" and isinstance(value, str) and kind != "string":
        value = json_or_text(value)  # default values are JSON
    read = REFUSED if kind in _NUMBERS and isinstance(value, str) else read_as(value, _READERS[kind])
    others = {key: each for key, each in item.items() if key != "value"}
    return others if read is REFUSED else {**others, "value": read}


def variable_remarks(workflow: Fields) -> Iterator[Remark]:
    """Yield a remark on each variable whose type Dify does not have, or whose value is of another type."""
    for path in _VARIABLES:
        yield from _value_remarks(fields_of(workflow).get(path.partition(".")[2]), "value_type", path, Owner())


def default_value_remarks(data: Fields, owner: Owner) -> Iterator[Remark]:
    """Yield a remark on each default value of a node that Dify refuses."""
    yield from _value_remarks(data.get("default_value"), "type", "default_value", owner)


def _value_remarks(items: Any, kind_key: str, path: str, owner: Owner) -> Iterator[Remark]:
    for number, item in enumerate(list_of(items)):
        if isinstance(item, dict):
            read = _typed_value(fields_of(item), kind_key)
            kind = read.get(kind_key)
            missing = "value" if kind else kind_key
            wanted = name_of_type(_VALUES[kind]) if kind else f"one of {', '.join(_VALUES)}"
            if missing not in read:
                says = f"must be {wanted}; it is not read"
                yield owner.remark(f"{path}[{number}].{missing}", Declared(Use.LOSSY, says))
