"""Differences between a Dify file's behaviour here and in Dify."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from operad.flows.formats.fields import (
    NOTHING,
    Declared,
    Owner,
    Remark,
    Table,
    Use,
    is_enabled,
    is_set,
    remarks_on,
    table,
    unless,
)
from operad.flows.formats.shapes import Fields, each_of, fields_of, text_of, texts_of
from operad.flows.formats.variable_types import VariableTypes
from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.integrations.dify.in_workflow import selectors_named
from operad.integrations.dify.nodes.flow import TRIGGERS
from operad.integrations.dify.nodes.models import TYPES_WITH_OPTIONS
from operad.integrations.dify.nodes.tools import plain_value, tool_type
from operad.integrations.dify.notes import is_note
from operad.integrations.dify.plugins import TOOLS
from operad.integrations.dify.typed_fields import (
    AROUND_TYPES,
    CONFIG_TYPES,
    EDGE_TYPES,
    FILE_TYPES,
    default_value_remarks,
    typed_fields,
    variable_remarks,
    with_types,
)
from operad.integrations.dify.write import DIFY_AGENT, EXTRA, Writer, kept, read_type, values_of
from operad.operators.nodes import NODE_TYPES
from operad.operators.nodes.models import SAMPLING
from operad.operators.variables import Selector, Text
from operad.runtime.policies.policy import ERROR_OUTPUTS

# Effect of each field of a Dify file.

_MODEL_OF_THE_RUN = "the model of the run is asked (--model, OPERAD_MODEL); to ask another, map this name under `models` in the services"


def _has_late_system_message(prompt: Any) -> bool:
    """Return True if a prompt has a system message that is not the first message."""
    roles = [each.get("role") for each in each_of(prompt)]
    return "system" in roles[1:]


def _ends_with_the_model(prompt: Any) -> bool:
    """Return True if a prompt ends with a message of the model, which the model is to continue."""
    messages = each_of(prompt)
    return bool(messages) and messages[-1].get("role") == "assistant"


def _has_unused_options(parameters: Any) -> bool:
    """Return True if a parameter of an extractor has options that its type does not use."""
    return any(each.get("options") and each.get("type") not in TYPES_WITH_OPTIONS for each in each_of(parameters))


def _has_settings(configurations: Any) -> bool:
    """Return True if a setting of a tool has a value."""
    return any(plain_value(given) not in (None, "") for given in fields_of(configurations).values())


def _has_limits(timeout: Any) -> bool:
    limits = fields_of(timeout)
    return any(is_set(limits.get(each)) for each in ("connect", "read", "write"))


ANY_NODE = table(
    honoured="type iteration_id loop_id retry_config error_strategy default_value",
    no_effect="title desc selected isInIteration isInLoop isIterationStart isLoopStart parentId width height position "
    "author provider_icon operad _*",
)
"""Fields of every node's `data`."""

_NO_FORM = "the model is asked for no such form; give the node a structured output, or ask for the form in the prompt"

_MODEL_FIELDS = table(
    honoured=" ".join(["model.name", *(f"model.completion_params.{each}" for each in SAMPLING)]),
    note={"model": _MODEL_OF_THE_RUN},
    no_effect="model.provider model.mode model.completion_params.*",
    lossy={
        "model.completion_params.response_format": (_NO_FORM, unless("text")),
        "model.completion_params.json_schema": _NO_FORM,
    },
)

_NO_MEMORY = table(
    lossy={"memory": "the model sees no earlier turns of the conversation; ask by an LLM node with memory before it"}
)

_NO_VISION = table(
    lossy={"vision": ("the model is shown no files; describe them by an LLM node before it", is_enabled)},
    no_effect="vision.enabled vision.configs",
)

_CONDITION = "comparison_operator value variable_selector sub_variable_condition".split()


def _conditions(path: str) -> Table:
    return table(
        honoured=" ".join(f"{path}.{each}" for each in _CONDITION),
        no_effect=" ".join(f"{path}.{each}" for each in ("id", "varType", "numberVarType", "key")),
    )


_ARGUMENTS = table(honoured="variables.variable variables.value_selector", no_effect="variables.value_type")

_NODES: Mapping[str, Table] = {
    "trigger-webhook": table(
        honoured="method content_type headers params body status_code response_body",
        no_effect="variables webhook_id webhook_url webhook_debug_url async_mode timeout",
    ),
    "trigger-schedule": table(
        honoured="mode frequency cron_expression visual_config timezone",
        no_effect="variables config",
    ),
    "trigger-plugin": table(
        honoured="",
        no_effect="variables config output_schema provider_type provider_name event_label event_node_version "
        "event_description event_parameters event_configurations parameters_schema plugin_unique_identifier "
        "subscription_id provider_id plugin_id paramSchemas params title_i18n meta",
        note={"event_name": "Operad does not receive the events of plugins; run it with the event as inputs"},
    ),
    "start": table(
        honoured="variables.variable variables.type variables.required variables.default",
        no_effect="variables.label variables.max_length variables.hint variables.placeholder variables.unit "
        "variables.hide variables.json_schema variables.allowed_file_types variables.allowed_file_extensions "
        "variables.allowed_file_upload_methods",
        note={
            "variables.options": "any value is taken",
        },
    ),
    "end": table(honoured="outputs.variable outputs.value_selector", no_effect="outputs.value_type"),
    "answer": table(honoured="answer", no_effect="variables"),
    "if-else": _conditions("cases.conditions")
    | _conditions("conditions")
    | table(honoured="cases.case_id cases.logical_operator logical_operator", no_effect="cases.id"),
    "llm": _MODEL_FIELDS
    | table(
        honoured="context.enabled context.variable_selector prompt_template.text prompt_template.role "
        "prompt_template.jinja2_text prompt_template.edition_type vision.enabled vision.configs.variable_selector "
        "prompt_config.jinja2_variables.variable prompt_config.jinja2_variables.value_selector memory.query_prompt_template memory.window.enabled memory.window.size "
        "structured_output.schema structured_output_enabled structured_output_switch_on reasoning_format",
        no_effect="variables prompt_template.id prompt_config.jinja2_variables.value_type structured_output.enabled",
        note={
            "prompt_template": ("system messages become one, the first message", _has_late_system_message),
            "vision.configs.detail": ("pictures are shown as they are", unless("high")),
            "memory.role_prefix": "earlier turns are messages of their own",
        },
        lossy={
            "prompt_template": (
                "an empty message of the user follows the last one; end the prompt with a message of the user",
                _ends_with_the_model,
            )
        },
    ),
    "question-classifier": _MODEL_FIELDS
    | _NO_MEMORY
    | _NO_VISION
    | table(
        honoured="query_variable_selector classes.id classes.name instruction instructions",
        no_effect="topics classes.label",
    ),
    "parameter-extractor": _MODEL_FIELDS
    | _NO_MEMORY
    | _NO_VISION
    | table(
        honoured="query parameters.name parameters.type parameters.description parameters.required parameters.options "
        "instruction",
        no_effect="variables",
        note={
            "reasoning_mode": ("the model answers as JSON of a schema", unless("prompt")),
            "parameters": ("only parameters of type string or select have options", _has_unused_options),
        },
    ),
    "code": _ARGUMENTS
    | table(
        honoured="code outputs.*.type",
        no_effect="outputs.*.children",
        note={"dependencies": "no packages are installed; code imports a part of the standard library"},
        refused={"code_language": ("only Python and JavaScript run", unless("python3", "python", "javascript"))},
    ),
    "template-transform": _ARGUMENTS | table(honoured="template"),
    "list-operator": table(honoured="variable filter_by extract_by order_by limit", no_effect="var_type item_var_type"),
    "variable-aggregator": table(
        honoured="variables advanced_settings.group_enabled advanced_settings.groups.group_name "
        "advanced_settings.groups.variables",
        no_effect="output_type advanced_settings.groups.output_type advanced_settings.groups.groupId",
    ),
    "assigner": table(
        honoured="items.variable_selector items.operation items.value items.input_type assigned_variable_selector "
        "input_variable_selector write_mode",
        no_effect="items.write_mode version",
    ),
    "iteration": table(
        honoured="iterator_selector output_selector is_parallel parallel_nums error_handle_mode start_node_id "
        "flatten_output",
        no_effect="output_type iterator_input_type",
    ),
    "iteration-start": NOTHING,
    "loop": _conditions("break_conditions")
    | table(
        honoured="loop_count logical_operator start_node_id loop_variables.label loop_variables.value "
        "loop_variables.value_type loop_variables.var_type",
        no_effect="loop_variables.id outputs",
        lossy={
            "error_handle_mode": (
                "an error ends the run; give the nodes inside a default value or a fail branch",
                unless("terminated"),
            )
        },
    ),
    "loop-start": NOTHING,
    "loop-end": NOTHING,
    "document-extractor": table(honoured="variable_selector", no_effect="is_array_file"),
    "http-request": table(
        honoured="url method headers params authorization.type authorization.config.type authorization.config.api_key "
        "authorization.config.header body.type body.data.key body.data.type body.data.value body.data.file "
        "timeout.connect timeout.read timeout.write",
        no_effect="variables body.data.id timeout.max_connect_timeout timeout.max_read_timeout "
        "timeout.max_write_timeout",
        note={"timeout": ("all of it may take as long as connecting, reading and writing together", _has_limits)},
        lossy={
            "ssl_verify": (
                "certificates are verified; name a certificate of your own by SSL_CERT_FILE",
                lambda value: value is False,
            )
        },
    ),
    "agent": table(
        honoured="agent_strategy_name agent_parameters.instruction agent_parameters.query agent_parameters.tools "
        "agent_parameters.maximum_iterations memory",
        no_effect="agent_strategy_provider_name agent_strategy_label plugin_unique_identifier output_schema "
        "tool_node_version meta agent_parameters.*",
        note={
            "agent_parameters.model": _MODEL_OF_THE_RUN,
            "memory": "earlier turns of the conversation are messages of their own",
        },
    ),
    "human-input": table(
        honoured="form_content inputs.output_variable_name inputs.name user_actions.id user_actions.title",
        no_effect="delivery_methods user_actions.button_style timeout_unit inputs.id inputs.label inputs.required "
        "inputs.option_source inputs.options inputs.number_limits inputs.allowed_file_types "
        "inputs.allowed_file_extensions inputs.allowed_file_upload_methods",
        note={
            "timeout": "the question waits until it is answered, and the way of the timeout is never taken",
            **dict.fromkeys(
                ("inputs.default", "inputs.placeholder"), "the field is empty until the person fills it in"
            ),
        },
        lossy={"inputs.type": ("the person is asked for a text", unless("paragraph", "text-input", "text_input"))},
    ),
    "knowledge-retrieval": table(
        honoured="query_variable_selector dataset_ids",
        no_effect="metadata_filtering_conditions metadata_model_config",
        note={
            "retrieval_mode": "the knowledge base that you name decides how passages are found",
            "multiple_retrieval_config": "the knowledge base that you name decides how passages are found",
            "single_retrieval_config": "the knowledge base that you name decides how passages are found",
        },
        lossy={
            "metadata_filtering_mode": (
                "all documents are searched; give the filtered ones a knowledge base of their own",
                unless("disabled"),
            ),
            "query_attachment_selector": "only the text is searched for; describe the files by an LLM node before it",
            "vision": ("the model is shown no files; describe them by an LLM node before it", is_enabled),
        },
    ),
    "tool": table(
        honoured="tool_name tool_parameters",
        no_effect="provider_id provider_name provider_type provider_show_name tool_label tool_description "
        "tool_node_version plugin_id plugin_unique_identifier paramSchemas params output_schema "
        "is_team_authorization credential_id credential_type",
        lossy={
            "tool_configurations": (
                "the tool that you name is called without these settings; make them part of the tool",
                _has_settings,
            )
        },
    ),
}
NODES: Mapping[str, Table] = {**_NODES, "request": _NODES["http-request"]}
"""Fields of the `data` of each node type that runs here, in addition to `ANY_NODE`; `check` reports other types."""


AROUND = AROUND_TYPES | table(
    honoured="id data",
    no_effect="type selected sourcePosition targetPosition extent draggable dragging selectable deletable connectable focusable hidden resizing measured style className _*",
)
"""Fields around a node's `data`: positions and sizes on the canvas."""

EDGE = EDGE_TYPES | table(
    honoured="source target",
    no_effect="targetHandle type data zIndex selected animated hidden style className label markerEnd _*",
)

_OF_THE_PAGE = "has no effect on a result and is dropped"

FILE = table(
    honoured="workflow.features.opening_statement workflow.features.suggested_questions app.mode app.name "
    "workflow.graph.nodes workflow.graph.edges workflow.conversation_variables.name "
    "workflow.conversation_variables.value_type workflow.conversation_variables.value",
    no_effect="app.* kind version dependencies operad workflow.graph.viewport workflow.conversation_variables.id "
    "workflow.conversation_variables.description workflow.conversation_variables.selector "
    "workflow.features.file_upload workflow.features.retriever_resource",
    note={
        "workflow.environment_variables": "those that nodes read are inputs of the run, which may be given otherwise: "
        "--input env.NAME=VALUE; secrets and keys of requests are named secrets: operad secrets set NAME",
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
"""Fields of a file around its nodes."""


CONFIG = table(
    honoured=" ".join(
        [
            "model_config.model.name",
            *(f"model_config.model.completion_params.{each}" for each in SAMPLING),
            "model_config.pre_prompt model_config.prompt_type model_config.chat_prompt_config "
            "model_config.completion_prompt_config model_config.user_input_form model_config.opening_statement "
            "model_config.suggested_questions model_config.agent_mode.enabled model_config.agent_mode.strategy "
            "model_config.agent_mode.max_iteration model_config.agent_mode.tools.tool_name "
            "model_config.agent_mode.tools.enabled model_config.file_upload",
        ]
    ),
    no_effect="model_config.model.provider model_config.model.mode model_config.model.completion_params.* "
    "model_config.agent_mode.tools.* model_config.agent_mode.clear_history_tool_response "
    "model_config.dataset_configs model_config.dataset_query_variable model_config.retriever_resource "
    "model_config.external_data_tools model_config.sensitive_word_avoidance model_config.model_id "
    "model_config.provider model_config.configs model_config.id model_config.app_id model_config.created_by "
    "model_config.created_at model_config.updated_by model_config.updated_at",
    note={
        "model_config.model": _MODEL_OF_THE_RUN,
        "model_config.suggested_questions_after_answer": (_OF_THE_PAGE, is_enabled),
        "model_config.speech_to_text": (_OF_THE_PAGE, is_enabled),
        "model_config.text_to_speech": (_OF_THE_PAGE, is_enabled),
        "model_config.more_like_this": ("no other answers are offered; run it again", is_enabled),
        "model_config.agent_mode.prompt": "the agent has a prompt of Operad's for its tools",
    },
    lossy={
        "model_config.agent_mode.tools.tool_parameters": (
            "the tool that you name is called without these settings; make them part of the tool",
            _has_settings,
        ),
        "model_config.annotation_reply": ("every question is answered anew", is_enabled),
    },
)
"""Fields of an app that has a configuration instead of a graph; those that it cannot run with are refused."""


def remarks_of(graph: NodeGraph) -> Iterator[Remark]:
    """Yield the remarks on a workflow that was read from a Dify file; none for any other."""
    if any(EXTRA in each.extra for each in (graph, *graph.nodes, *graph.edges)):
        operad_ids = {dify_id: operad_id for operad_id, dify_id in Writer(graph).ids.items()}
        standing = graph.runnable.left_out
        others = {spec.id for spec in graph.nodes if spec.type in TRIGGERS}
        for node_id in sorted(standing):
            says = _OTHER_TRIGGER if node_id in others else _NO_PATH
            yield Owner(node_id).remark("edges", Declared(Use.NOTE, says))
        if config := fields_of(fields_of(kept(graph.extra).get("config")).get("root")):
            given = {"model_config": config.get("model_config")}
            yield from remarks_on(given, CONFIG_TYPES, Owner(), None)
            yield from remarks_on(given, CONFIG, Owner())
            return
        remarks = remarks_on_values(values_of(graph), operad_ids)
        yield from (remark for remark in remarks if remark.node not in standing - others)
        read = {each for spec in graph.nodes for each in selectors_named(spec.params)}
        kinds = VariableTypes(graph)
        for spec in graph.nodes:
            if spec.id not in standing and spec.type != "answer":
                yield from _file_remarks(spec, kinds)
            goes_on = fields_of(fields_of(spec.params).get("failure")).get("then", "end") != "end"
            if goes_on and Selector(_ERROR_TYPE, spec.id) in read:
                yield Owner(spec.id).remark(_ERROR_TYPE, Declared(Use.NOTE, _OTHER_NAMES))


def _file_remarks(spec: NodeSpec, kinds: VariableTypes) -> Iterator[Remark]:
    """Yield a note for each file that a text of a node names."""
    named = dict.fromkeys(each for text in _texts_in(spec.params) for each in Text(text).selectors)
    for selector in named:
        if kinds.of(selector).is_file:
            yield Owner(spec.id).remark(str(selector), Declared(Use.NOTE, _FILE_IN_TEXT))


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        holder = cast("Mapping[str, Any] | list[Any]", value)
        for each in holder.values() if isinstance(holder, Mapping) else holder:
            yield from _texts_in(each)


_FILE_IN_TEXT = (
    "is a file, and empty in a text; an LLM node shows it to the model, and its name and url are parts of it"
)


_WITH_FILES = ("multipart/form-data", "application/octet-stream")
_NO_FILES = "`operad serve` takes no files in a body and refuses such requests; run it by operad run --file"


_ERROR_TYPE = ERROR_OUTPUTS[1]
_OTHER_TRIGGER = "another node starts the run; a trigger beside it is kept, and does not start one"
_NO_PATH = "no path leads to this node from the start, and it does not run"
_OTHER_NAMES = "is the name of Operad's error, such as CodeError or FetchError, not Dify's; compare error_message"


def remarks_on_values(root: Fields, ours: Mapping[str, str] | None = None) -> Iterator[Remark]:
    """Yield the remarks on the values of a file.

    Args:
        root: The values.
        ours: Operad's ids of nodes by those of the file; only ids that differ.
    """
    ours = ours or {}
    graph = fields_of(fields_of(root.get("workflow")).get("graph"))
    nodes = [node for node in each_of(graph.get("nodes")) if not is_note(node)]
    yield from remarks_on(root, FILE_TYPES, Owner(), None)
    yield from remarks_on(root, FILE, Owner())
    yield from variable_remarks(fields_of(root.get("workflow")))
    plugins = _plugins(root)
    for node in nodes:
        yield from _node_remarks(node, ours, plugins)
    for edge in each_of(graph.get("edges")):
        target = text_of(edge.get("target"))
        yield from remarks_on(edge, EDGE, Owner(ours.get(target, target), "its edge"), Use.NOTE)


def _node_remarks(node: Fields, operad_ids: Mapping[str, str], plugins: Sequence[str]) -> Iterator[Remark]:
    data = fields_of(node.get("data"))
    owner = _owner(node, operad_ids)
    named = text_of(data.get("type"))
    kind = named if named in TRIGGERS else read_type(data)
    yield from remarks_on(node, AROUND, owner, Use.NOTE)
    yield from remarks_on(data, typed_fields(data.get("type")), owner, None)
    yield from default_value_remarks(data, owner)
    if kind == "trigger-webhook" and data.get("content_type") in _WITH_FILES:
        yield owner.remark("content_type", Declared(Use.NOTE, _NO_FILES))
    data = with_types(data)  # without the fields that are named already
    if kind in TOOLS:
        yield from _tool_remarks(data, owner)
    elif kind in NODES:  # the check reports other types, which do not run
        yield from remarks_on(data, ANY_NODE | NODES[kind], owner)
        yield from _needed_tools(data, owner)
        yield from _needed_knowledge(data, owner)
    elif kind not in _WITHOUT_FIELDS and (plugin := _plugin_of(data) or _named_like(kind, plugins)):
        yield owner.remark("type", Declared(Use.NOTE, f"is a node type of the plugin {plugin!r}"))


def _plugin_of(data: Fields) -> str:
    """Return the name of the plugin that a node or a tool names; empty for none."""
    named = next((data[key] for key in _PLUGIN_KEYS if isinstance(data.get(key), str) and data[key]), "")
    return named.partition("@")[0]


def _named_like(kind: str, plugins: Sequence[str]) -> str:
    """Return the plugin whose name is a part of a node type; empty for none, and for several."""
    plain = kind.replace("_", "-")
    named = [each for each in plugins if each.partition(":")[0].rpartition("/")[2].replace("_", "-") in plain]
    return named[0] if len(named) == 1 else ""


def _plugins(root: Fields) -> list[str]:
    """Return the plugins that a file depends on."""
    values = [value for each in each_of(root.get("dependencies")) for value in fields_of(each.get("value")).values()]
    return [value.partition("@")[0] for value in values if isinstance(value, str) and "/" in value]


def _needed_tools(data: Fields, owner: Owner) -> Iterator[Remark]:
    """Yield a note for each tool that a node calls, with its plugin: the services have to provide it."""
    of_agent = each_of(plain_value(fields_of(data.get("agent_parameters")).get("tools")))
    for tool in [data] if data.get("type") == "tool" else of_agent:
        plugin = _plugin_of(tool)
        if name := text_of(tool.get("tool_name") or ""):
            says = f"a tool of {plugin!r} at Dify; " if plugin not in ("", name) else ""
            yield owner.remark(
                f"tool {name!r}", Declared(Use.NOTE, f"{says}provide a tool of this name under `tools` in the services")
            )


def _needed_knowledge(data: Fields, owner: Owner) -> Iterator[Remark]:
    """Yield a note with the name of the knowledge base that a node searches: the services have to provide it."""
    if data.get("type") == "knowledge-retrieval" and (ids := texts_of(data.get("dataset_ids"))):
        says = f"provide a knowledge base with the name {','.join(ids)!r} under `knowledge` in the services"
        yield owner.remark("dataset_ids", Declared(Use.NOTE, says))


_WITHOUT_FIELDS = (*NODE_TYPES, DIFY_AGENT, "datasource", "datasource-empty", "knowledge-index", "loop-end")
_PLUGIN_KEYS = ("plugin_unique_identifier", "plugin_id", "provider_id", "provider_name", "provider")


def _tool_remarks(data: Fields, owner: Owner) -> Iterator[Remark]:
    """Yield the remarks on a tool that does the work of a node type of Operad."""
    tool = TOOLS[tool_type(data)]
    settings = {key: plain_value(each) for key, each in fields_of(data.get("tool_configurations")).items()}
    is_default = all(value in (None, "") or tool.settings.get(key) == value for key, value in settings.items())
    known = {**data, "tool_configurations": {} if is_default else settings}
    yield from remarks_on(known, ANY_NODE | NODES["tool"], owner)
    for name, given in fields_of(data.get("tool_parameters")).items():
        if name not in tool.parameters and plain_value(given) not in (None, ""):
            yield owner.remark(f"tool_parameters.{name}", Declared(Use.LOSSY, "is not passed on"))


def _owner(node: Fields, operad_ids: Mapping[str, str]) -> Owner:
    node_id = text_of(node.get("id"))
    title = fields_of(node.get("data")).get("title")
    return Owner(operad_ids.get(node_id, node_id), title if isinstance(title, str) else "")
