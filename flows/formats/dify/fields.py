"""What becomes of each field of a Dify file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from operad.flows.formats.fields import NOTHING, Table, is_enabled, table, unless
from operad.flows.formats.shapes import each_of, fields_of

_MODEL_OF_THE_RUN = "the model of the run is asked, with its own parameters: --model, OPERAD_MODEL"


def _retries(value: Any) -> bool:
    retry = fields_of(value)
    return True in (retry.get("retry_enabled"), retry.get("enabled")) and retry.get("max_retries") != 0


def _sub_conditions(value: Any) -> bool:
    match each_of(fields_of(value).get("conditions")):
        case [] | [{"key": "type", "comparison_operator": "in"}]:
            return False
        case _:
            return True


def _passes_nothing(vision: Any) -> bool:
    """Whether pictures are shown to the model that no variable names."""
    return is_enabled(vision) and not fields_of(fields_of(vision).get("configs")).get("variable_selector")


def _joined(prompt: Any) -> bool:
    """Whether several messages of a prompt have one role."""
    roles = [each.get("role") for each in each_of(prompt)]
    return roles.count("system") > 1 or roles.count("user") > 1


def _has_limits(timeout: Any) -> bool:
    return any(isinstance(each, int | float) and each > 0 for each in fields_of(timeout).values())


ANY_NODE = table(
    honoured="type iteration_id loop_id",
    no_effect="title desc selected isInIteration isInLoop isIterationStart isLoopStart parentId width height position "
    "author provider_icon operad default_value _*",
    lossy={
        "retry_config": ("nothing is tried again; the first failure ends the run", _retries),
        "error_strategy": ("an error ends the run; no default value is taken, and no fail branch", unless("none")),
    },
)
"""The fields of every node's `data`."""

_ASKS = table(
    note={"model": _MODEL_OF_THE_RUN},
    no_effect="model.provider model.name model.mode model.completion_params.*",
    lossy={
        "memory": "the model sees no earlier turns of the conversation, and no query template",
        "model.completion_params.response_format": ("the model is asked for no such form", unless("text")),
        "model.completion_params.json_schema": "the model is asked for no such form",
        "model.completion_params.stop": "the answer is not cut off there",
    },
)

_UNSEEN = table(
    lossy={"vision": ("the model is shown no files", is_enabled)}, no_effect="vision.enabled vision.configs"
)

_CONDITION = "comparison_operator value variable_selector".split()


def _conditions(path: str) -> Table:
    return table(
        honoured=" ".join(f"{path}.{each}" for each in _CONDITION),
        no_effect=" ".join(f"{path}.{each}" for each in ("id", "varType", "numberVarType", "key")),
        lossy={
            f"{path}.sub_variable_condition": ("only the kinds of files are compared, with `in`", _sub_conditions),
        },
    )


_ARGUMENTS = table(honoured="variables.variable variables.value_selector", no_effect="variables.value_type")

NODES: Mapping[str, Table] = {
    "start": table(
        honoured="variables.variable variables.type",
        no_effect="variables.label variables.max_length variables.hint variables.placeholder variables.unit "
        "variables.hide variables.json_schema variables.allowed_file_types variables.allowed_file_extensions "
        "variables.allowed_file_upload_methods",
        note={
            "variables.required": ("the run asks for every input; an empty one is given as such", lambda v: v is False),
            "variables.default": "the run asks for the input",
            "variables.options": "any value is taken",
        },
    ),
    "end": table(honoured="outputs.variable outputs.value_selector", no_effect="outputs.value_type"),
    "answer": table(honoured="answer", no_effect="variables"),
    "if-else": _conditions("cases.conditions")
    | _conditions("conditions")
    | table(honoured="cases.case_id cases.logical_operator logical_operator", no_effect="cases.id"),
    "llm": _ASKS
    | table(
        honoured="context.enabled context.variable_selector prompt_template.text vision.enabled "
        "vision.configs.variable_selector",
        no_effect="variables prompt_config.jinja2_variables prompt_template.id structured_output",
        note={
            "prompt_template": ("messages of one role become one message", _joined),
            "vision.configs.detail": ("pictures are shown as they are", unless("high")),
        },
        refused={
            "prompt_template.edition_type": ("prompts are not Jinja templates", unless("basic")),
            "prompt_template.jinja2_text": "prompts are not Jinja templates",
        },
        lossy={
            "prompt_template.role": (
                "a turn of the model becomes a part of the user's text",
                lambda v: v == "assistant",
            ),
            "vision": ("the model is shown no files, as no variable with files is named", _passes_nothing),
            "structured_output_enabled": "the model answers in words, and there is no structured_output",
            "structured_output_switch_on": "the model answers in words, and there is no structured_output",
            "reasoning_format": ("thoughts stay in the text", unless("tagged")),
        },
    ),
    "question-classifier": _ASKS
    | _UNSEEN
    | table(
        honoured="query_variable_selector classes.id classes.name instruction instructions",
        no_effect="topics classes.label",
    ),
    "parameter-extractor": _ASKS
    | _UNSEEN
    | table(
        honoured="query parameters.name parameters.type parameters.description instruction",
        no_effect="variables",
        note={"reasoning_mode": ("the model answers as JSON of a schema", unless("prompt"))},
        lossy={
            "parameters.required": ("the model must always give a value", lambda value: value is False),
            "parameters.options": "the model may give any text",
        },
    ),
    "code": _ARGUMENTS
    | table(
        honoured="code outputs.*.type",
        no_effect="outputs.*.children",
        note={"dependencies": "no packages are installed; code imports a part of the standard library"},
        refused={"code_language": ("only Python runs", unless("python3", "python"))},
    ),
    "template-transform": _ARGUMENTS | table(honoured="template"),
    "list-operator": table(honoured="variable filter_by extract_by order_by limit", no_effect="var_type item_var_type"),
    "variable-aggregator": table(
        honoured="variables",
        no_effect="output_type",
        refused={"advanced_settings": ("one group only", lambda v: fields_of(v).get("group_enabled") is True)},
    ),
    "assigner": table(
        honoured="items.variable_selector items.operation items.value items.input_type assigned_variable_selector "
        "input_variable_selector write_mode",
        no_effect="items.write_mode version",
    ),
    "iteration": table(
        honoured="iterator_selector output_selector is_parallel parallel_nums error_handle_mode start_node_id",
        no_effect="output_type iterator_input_type",
        refused={"flatten_output": ("lists of lists become one list", lambda value: value is False)},
    ),
    "iteration-start": NOTHING,
    "loop": _conditions("break_conditions")
    | table(
        honoured="loop_count logical_operator start_node_id loop_variables.label loop_variables.value "
        "loop_variables.value_type loop_variables.var_type",
        no_effect="loop_variables.id outputs",
        lossy={"error_handle_mode": ("an error ends the run", unless("terminated"))},
    ),
    "loop-start": NOTHING,
    "loop-end": NOTHING,
    "document-extractor": table(honoured="variable_selector", no_effect="is_array_file"),
    "http-request": table(
        honoured="url",
        no_effect="variables",
        note={"timeout": ("the time limits of this machine hold", _has_limits)},
        refused={
            "method": ("only GET", lambda value: str(value).lower() != "get"),
            "authorization": ("none is sent", lambda value: fields_of(value).get("type", "no-auth") != "no-auth"),
            "headers": "none are sent",
            "params": "none are sent",
            "body": ("none is sent", lambda value: fields_of(value).get("type", "none") != "none"),
        },
        lossy={"ssl_verify": ("certificates are verified", lambda value: value is False)},
    ),
    "knowledge-retrieval": table(
        honoured="query_variable_selector",
        no_effect="metadata_filtering_conditions metadata_model_config",
        note={
            "dataset_ids": "the knowledge base that you give this name is searched",
            "retrieval_mode": "the knowledge base that you name decides how passages are found",
            "multiple_retrieval_config": "the knowledge base that you name decides how passages are found",
            "single_retrieval_config": "the knowledge base that you name decides how passages are found",
        },
        lossy={
            "metadata_filtering_mode": ("all documents are searched", unless("disabled")),
            "query_attachment_selector": "only the text is searched for",
            "vision": ("the model is shown no files", is_enabled),
        },
    ),
    "tool": table(
        honoured="tool_name tool_parameters",
        no_effect="provider_id provider_name provider_type provider_show_name tool_label tool_description "
        "tool_node_version plugin_id plugin_unique_identifier paramSchemas params output_schema "
        "is_team_authorization credential_id credential_type",
        lossy={"tool_configurations": "the tool that you name is called without these settings"},
    ),
}
"""The fields of the `data` of each node type that runs here, beside those of every node; of others, `check` says that they
do not run."""


AROUND = table(
    honoured="id parentId data",
    no_effect="type position positionAbsolute selected sourcePosition targetPosition width height zIndex extent "
    "draggable dragging selectable deletable connectable focusable hidden resizing measured style className _*",
)
"""The fields around a node's `data`: places and sizes on the canvas."""

EDGE = table(
    honoured="source sourceHandle target",
    no_effect="id targetHandle type data zIndex selected animated hidden style className label markerEnd _*",
)

_OF_THE_PAGE = "has no effect on a result, and is not there"

FILE = table(
    honoured="app.mode app.name workflow.graph.nodes workflow.graph.edges workflow.conversation_variables.name "
    "workflow.conversation_variables.value_type workflow.conversation_variables.value",
    no_effect="app.* kind version dependencies operad workflow.graph.viewport workflow.conversation_variables.id "
    "workflow.conversation_variables.description workflow.conversation_variables.selector "
    "workflow.features.file_upload workflow.features.retriever_resource",
    note={
        "workflow.environment_variables": "those that nodes read are inputs of the run: --input env.NAME=VALUE",
        "workflow.features.opening_statement": _OF_THE_PAGE,
        "workflow.features.suggested_questions": _OF_THE_PAGE,
        "workflow.features.suggested_questions_after_answer": (_OF_THE_PAGE, is_enabled),
        "workflow.features.speech_to_text": (_OF_THE_PAGE, is_enabled),
        "workflow.features.text_to_speech": (_OF_THE_PAGE, is_enabled),
    },
    lossy={
        "workflow.features.sensitive_word_avoidance": ("no word is held back", is_enabled),
        "workflow.features.annotation_reply": ("every question is answered anew", is_enabled),
        "workflow.rag_pipeline_variables": "there are no such variables",
    },
)
"""The fields of a file around its nodes."""
