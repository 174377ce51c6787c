"""Differences between an archive's behaviour here and at Coze."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from operad.flows.formats.fields import Declared, Owner, Remark, Table, Use, remarks_on, table, unless
from operad.flows.formats.shapes import Fields, each_of, fields_of, list_of
from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.integrations.coze.nodes.containers import MOST_PASSES
from operad.integrations.coze.nodes.plugins import plugin_of
from operad.integrations.coze.notes import archived_data
from operad.integrations.coze.translation import MISREAD
from operad.operators.nodes import NODE_TYPES

# Effect of each field of a node in an archive of Coze.

_MODEL_OF_THE_RUN = "the model of the run is asked, with its own parameters: --model, OPERAD_MODEL"


def _handles_errors(setting: Any) -> bool:
    """Return True if a node takes a default value or runs again after an error."""
    fields = fields_of(setting)
    return fields.get("switch") is True or fields.get("retryTimes", 0) not in (0, None)


AROUND = table(
    honoured="type parameters nodes edges",
    no_effect="title icon description position canvas_position version id",
)
"""Fields of a node besides its `parameters`."""

ANY_NODE = table(
    lossy={
        "settingOnError": ("an error ends the run; nothing is tried again, no default value is taken", _handles_errors)
    }
)
"""Parameters that every node may have."""

_LISTED = table(honoured="node_inputs node_outputs")

_MODEL = table(
    honoured="llmParam.systemPrompt llmParam.prompt",
    no_effect="llmParam.* fcParam.* batch.*",
    note={"llmParam.modelName": _MODEL_OF_THE_RUN, "llmParam.modleName": _MODEL_OF_THE_RUN},
    lossy={
        "llmParam.enableChatHistory": ("the model sees no earlier turns of the conversation", unless(False, "false")),
        "llmParam.spCurrentTime": ("the model is not told the time", unless(False, "false")),
        "fcParam": "the model has no tools, workflows or knowledge",
        "fcParamVar": "the model has no tools, workflows or knowledge",
        "visionParam": "the model is shown no files",
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
        honoured="node_outputs.*.type node_outputs.*.items",
        no_effect="node_outputs.*.*",
        note={
            "node_outputs.*.required": ("the run asks for every input", lambda value: value is False),
            "node_outputs.*.defaultValue": "the run asks for the input",
        },
    ),
    "end": _LISTED
    | table(
        no_effect="streamingOutput",
        lossy={
            "terminatePlan": ("the variables are the result, without a text around them", unless("returnVariables")),
            "content": "the variables are the result, without a text around them",
        },
    ),
    "llm": _LISTED
    | _MODEL
    | table(lossy={"llmParam.responseFormat": ("the model answers in words", lambda value: str(value) == "2")}),
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
        honoured="loopType loopCount variableParameters",
        lossy={
            "loopType": (f"ends after {MOST_PASSES:,} passes, if nothing ends it before", lambda v: v == "infinite"),
            "node_inputs": "the loop runs over no list",
            "node_outputs": "only variables of the loop are its outputs, by their names",
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
    ("question", "human-input"): _LISTED
    | table(
        honoured="question answer_type", no_effect="llmParam limit option_type options dynamic_option extra_output"
    ),
    ("input", "human-input"): _LISTED | table(no_effect="outputSchema"),
    ("json_stringify", "code"): _LISTED,
    ("json_parse", "code"): _LISTED,
    ("loop_set_variable", "assigner"): _LISTED,
    ("break", "loop-end"): _LISTED,
    ("http", "request"): _LISTED | _REQUEST | table(honoured="apiInfo headers params body.bodyType body.bodyData"),
}
"""Coze's parameters of nodes that are read by `FORMS`, by Coze's type and Operad's."""

PLUGIN = _LISTED | table(honoured="apiParam", no_effect="fcParam")
"""Parameters of a plugin of Coze's store that does the work of a node type of Operad."""


def remarks_of(graph: NodeGraph) -> Iterator[Remark]:
    """Yield the remarks on a workflow that was read from an archive of Coze; none for any other."""
    for spec in graph.nodes:
        if (archived := archived_data(spec)) and spec.type in NODE_TYPES:
            yield from _node_remarks(spec, archived)


def _node_remarks(spec: NodeSpec, archived: Fields) -> Iterator[Remark]:
    title = archived.get("title")
    owner = Owner(spec.id, title if isinstance(title, str) else "")
    yield from remarks_on(archived, AROUND, owner, Use.NOTE)
    given = fields_of(archived.get("parameters"))
    if spec.type == "loop":
        given = {**given, "node_outputs": _other_outputs(given, spec.id)}
    fields = FORM_FIELDS.get((str(archived.get("type")), spec.type)) or NODES.get(spec.type)
    if fields and archived.get("type") != "plugin":
        yield from remarks_on(_with_mappings(given, "llmParam", "fcParam"), ANY_NODE | fields, owner)
    elif archived.get("type") == "plugin":
        yield from remarks_on(given, ANY_NODE | PLUGIN, owner)
        yield from _input_remarks(given, owner)


def _other_outputs(given: Fields, loop: str) -> Fields:
    """Return the outputs of a loop that are not its variables of the same names."""
    variables = {str(each.get("name")) for each in each_of(given.get("variableParameters"))}
    return {
        name: each
        for name, each in fields_of(given.get("node_outputs")).items()
        if name not in variables or _value(fields_of(each).get("value")) != {"path": name, "ref_node": loop}
    }


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
