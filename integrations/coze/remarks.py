"""Differences between an archive's behaviour here and at Coze."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from operad.flows.formats.fields import Declared, Owner, Remark, Table, Use, remarks_on, table, unless
from operad.flows.formats.shapes import Fields, each_of, fields_of, list_of
from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.integrations.coze.constants import CONVERSATION, assigned_in, constants_of, global_name
from operad.integrations.coze.nodes.containers import MOST_PASSES
from operad.integrations.coze.nodes.plugins import plugin_of
from operad.integrations.coze.notes import archived_data
from operad.integrations.coze.translation import MISREAD
from operad.operators.nodes import NODE_TYPES

# Effect of each field of a node in an archive of Coze.

_MODEL_OF_THE_RUN = "the model of the run is asked, with its own parameters: --model, OPERAD_MODEL"


def _has_items(value: Any) -> bool:
    """Return True if there is a list with an item at any depth: a tool, a workflow or a dataset."""
    return bool(list_of(value)) or any(map(_has_items, fields_of(value).values()))


def _in_words(given: Any) -> bool:
    return str(given) == "useAnswerContent"


AROUND = table(
    honoured="type parameters nodes edges",
    no_effect="title icon description position canvas_position version id ends_early",
)
"""Fields of a node besides its `parameters`."""

ANY_NODE = table(
    honoured="settingOnError.switch settingOnError.processType settingOnError.dataOnErr settingOnError.retryTimes",
    no_effect="settingOnError.timeoutMs",
    note={"settingOnError.ext": ("the same model is asked again", lambda v: bool(fields_of(v).get("backupLLMParam")))},
)
"""Parameters that every node may have."""

_LISTED = table(honoured="node_inputs node_outputs")

_MODEL = table(
    honoured="llmParam.systemPrompt llmParam.prompt llmParam.enableChatHistory llmParam.chatHistoryRound visionParam",
    no_effect="llmParam.* fcParam.* batch.*",
    note={"llmParam.modelName": _MODEL_OF_THE_RUN, "llmParam.modleName": _MODEL_OF_THE_RUN},
    lossy={
        "llmParam.spCurrentTime": ("the model is not told the time", unless(False, "false")),
        "fcParam": ("the model has no tools, workflows or knowledge", _has_items),
        "fcParamVar": ("the model has no tools, workflows or knowledge", _has_items),
        "batchMode": ("runs once", unless("single")),
        "batch.batchEnable": "runs once",
    },
)

_INTENT = table(
    honoured="intents.name",
    lossy={
        "chatHistorySetting": (
            "the model sees no earlier turns",
            lambda v: fields_of(v).get("enableChatHistory") is True,
        )
    },
    note={"mode": "the model of the run decides"},
)

NODES: Mapping[str, Table] = {
    "start": table(
        honoured="node_outputs.*.type node_outputs.*.items node_outputs.*.required node_outputs.*.defaultValue",
        no_effect="node_outputs.*.*",
    ),
    "end": _LISTED
    | table(
        no_effect="streamingOutput content",
        lossy={
            "terminatePlan": ("the variables are the result, without a text around them", _in_words),
        },
    ),
    "llm": _LISTED | _MODEL | table(honoured="llmParam.responseFormat"),
    "parameter-extractor": _LISTED | _MODEL | table(honoured="llmParam.responseFormat"),
    "question-classifier": _LISTED | _MODEL | _INTENT,
    "text2image": _LISTED
    | table(
        honoured="prompt.prompt",
        note={"modelSetting": "the model for pictures that you name makes them"},
        lossy={"prompt.negative_prompt": "is not said", "references": "no picture is taken as a model"},
    ),
    "code": _LISTED | table(honoured="code language"),
    "template-transform": _LISTED | table(honoured="method concatParams", no_effect="splitParams"),
    "variable-aggregator": table(honoured="mergeGroups node_outputs", no_effect="node_inputs"),
    "if-else": table(honoured="branches", no_effect="node_inputs"),
    "iteration": _LISTED
    | table(
        honoured="concurrentSize", note={"batchSize": ("every item is worked on", lambda value: str(value) != "1000")}
    ),
    "loop": table(
        honoured="loopType loopCount variableParameters node_inputs node_outputs",
        lossy={
            "loopType": (f"ends after {MOST_PASSES:,} passes, if nothing ends it before", lambda v: v == "infinite"),
        },
    ),
    "http-request": _LISTED
    | table(
        honoured="apiInfo",
        no_effect="auth.* body.*",
        note={"setting": "the time limits of this machine hold, and nothing is tried again"},
        lossy={
            "auth.authOpen": "no authorization is sent",
            "body.bodyType": ("no body is sent", unless("EMPTY")),
            "headers": "none are sent",
            "params": "none are sent",
        },
    ),
}
"""Coze's parameters of each node type of Operad, in addition to `ANY_NODE`."""

_REQUEST = table(
    no_effect="auth.* body.*",
    note={"setting": "the time limits of this machine hold, and nothing is tried again"},
)

FORM_FIELDS: Mapping[tuple[str, str], Table] = {
    ("text", "code"): _LISTED | table(honoured="method splitParams", no_effect="concatParams"),
    ("loop", "iteration"): _LISTED | table(honoured="loopType", no_effect="loopCount variableParameters"),
    ("subflow", "sub-workflow"): _LISTED
    | table(
        honoured="workflowId",
        no_effect="spaceId type inputDefs inputType outputType batch.*",
        note={"workflowVersion": "the workflow that `workflows` of the services names is run"},
        lossy={"batch.batchEnable": "runs once"},
    ),
    ("output", "answer"): _LISTED
    | table(
        no_effect="streamingOutput callTransferVoice chatHistoryWriting",
        note={"content": "the message is the result `answer` of the run, too"},
    ),
    ("end", "answer"): _LISTED | table(honoured="terminatePlan content", no_effect="streamingOutput"),
    ("question", "human-input"): _LISTED
    | table(
        honoured="question option_type options dynamic_option",
        no_effect="llmParam limit extra_output",
        note={
            "answer_type": (
                "an answer is one of the options, or `other`; no model finds the option that is meant",
                lambda value: value == "option",
            )
        },
    ),
    ("plugin", "tool"): _LISTED
    | table(
        no_effect="fcParam batch.*",
        note={"apiParam": "`tools` of the services give the tool with the name of the plugin's"},
        lossy={"batch.batchEnable": "runs once"},
    ),
    ("knowledge", "knowledge-retrieval"): _LISTED
    | table(
        no_effect="chatHistorySetting",
        note={
            "datasetParam": "`knowledge` of the services gives it; a passage has content, source and score, "
            "where Coze has output, documentName and score"
        },
    ),
    ("input", "human-input"): _LISTED | table(no_effect="outputSchema"),
    ("json_stringify", "code"): _LISTED,
    ("json_parse", "code"): _LISTED,
    ("loop_set_variable", "assigner"): _LISTED,
    ("set_variable", "assigner"): _LISTED | table(no_effect="variableTypeMap"),
    ("break", "loop-end"): _LISTED,
    ("continue", "template-transform"): _LISTED,
    ("http", "request"): _LISTED | _REQUEST | table(honoured="apiInfo headers params body.bodyType body.bodyData"),
}
"""Coze's parameters of nodes that are read by `FORMS`, by Coze's type and Operad's."""

PLUGIN = _LISTED | table(honoured="apiParam", no_effect="fcParam")
"""Parameters of a plugin of Coze's store that does the work of a node type of Operad."""


def remarks_of(graph: NodeGraph) -> Iterator[Remark]:
    """Yield the remarks on a workflow that was read from an archive of Coze; none for any other."""
    if any(map(archived_data, graph.nodes)):
        yield from _global_remarks(graph)
    for spec in graph.nodes:
        if (archived := archived_data(spec)) and spec.type in NODE_TYPES:
            yield from _node_remarks(spec, archived)


def _global_remarks(graph: NodeGraph) -> Iterator[Remark]:
    """Yield the remarks on variables of the user, the app and the system, whose values are not in the file."""
    assigned = assigned_in(graph.nodes)
    says = "begins empty, as its value at Coze is not in the file; give it a value in this node"
    for name, given in constants_of(graph.nodes).items():
        if global_name(given):
            yield Owner(CONVERSATION).remark(name, Declared(Use.NOTE if name in assigned else Use.LOSSY, says))


def _node_remarks(spec: NodeSpec, archived: Fields) -> Iterator[Remark]:
    owner = Owner(spec.id, spec.title)
    yield from remarks_on(archived, AROUND, owner, Use.NOTE)
    given = fields_of(archived.get("parameters"))
    fields = FORM_FIELDS.get((str(archived.get("type")), spec.type)) or NODES.get(spec.type)
    if fields and (archived.get("type") != "plugin" or spec.type == "tool"):
        yield from remarks_on(_with_mappings(given, "llmParam", "fcParam"), ANY_NODE | fields, owner)
    elif archived.get("type") == "plugin":
        yield from remarks_on(given, ANY_NODE | PLUGIN, owner)
        yield from _input_remarks(given, owner)


def _input_remarks(given: Fields, owner: Owner) -> Iterator[Remark]:
    """Yield the remarks on inputs of a plugin that its node type in Operad does not have."""
    try:
        plugin = plugin_of(given)
    except MISREAD:
        return
    if plugin is None:
        return
    inputs = {str(given_input.get("name")): given_input for given_input in each_of(given.get("node_inputs"))}
    known = {*plugin.inputs.values(), *plugin.fixed}
    for name, given_input in inputs.items():
        used = any("{{" + name in str(other) for key, other in inputs.items() if key != name)
        if name not in known and not used and _value(given_input.get("input")) not in (None, ""):
            yield owner.remark(f"node_inputs.{name}", Declared(Use.LOSSY, "is not passed on"))


def _with_mappings(given: Fields, *lists: str) -> Fields:
    """Return parameters with the lists of named values under these keys as mappings, and literals as plain values."""
    found = dict(given)
    for key in lists:
        if isinstance(given.get(key), list):
            found[key] = {str(each.get("name")): _value(each.get("input")) for each in each_of(list_of(given[key]))}
        else:
            found[key] = {name: _value(each) for name, each in fields_of(given.get(key)).items()}
        if key not in given:
            del found[key]
    for key in ("batchSize", "concurrentSize", "loopCount"):
        if key in given:
            found[key] = _value(given[key])
    return found


def _value(given: Any) -> Any:
    """Return the plain value of a literal."""
    fields = fields_of(given)
    value = fields.get("value", given)
    return fields_of(value).get("content", value)
