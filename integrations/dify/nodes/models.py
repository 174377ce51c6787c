"""Mappings of nodes that ask models: llm, question-classifier, parameter-extractor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from operad.flows.formats.shapes import Fields, each_of, fields_of, is_selector, list_of, pairs_of, text_of, texts_of
from operad.integrations.dify.nodes.node_mapping import NodeContext, NodeMapping, convert_fields
from operad.integrations.dify.plugins import DEFAULT_MODELS
from operad.operators.nodes.models import CONTEXT, SAMPLING
from operad.operators.variables import Selector


def _model(kind: str, params: Fields, node_context: NodeContext) -> Fields:
    model = DEFAULT_MODELS.get(kind)
    name, sampling = params.get("model_name"), params.get("sampling")
    default_sampling = dict(model.params) if model and not name else {}
    return {
        "completion_params": sampling if isinstance(sampling, dict) else default_sampling,
        "mode": "chat",
        "name": name or (model.name if model else ""),
        "provider": model.provider if model else "",
    }


def _read_model(kind: str, data: Fields, node_context: NodeContext) -> Fields:
    """Return the parameters for the model of a node; empty if it is the default model with its default settings."""
    model, default = fields_of(data.get("model")), DEFAULT_MODELS.get(kind)
    name, params = model.get("name"), fields_of(model.get("completion_params"))
    if default and name == default.name and params == dict(default.params):
        return {}
    fields: Fields = {"model_name": name} if isinstance(name, str) and name else {}
    sampling = {key: value for key, value in params.items() if key in SAMPLING and value is not None}
    return {**fields, "sampling": sampling} if sampling else fields


_SIMPLE_ROLES: tuple[list[str], ...] = ([], ["system"], ["user"], ["system", "user"])
"""Roles of prompts that fit into the parameters `system` and `user`."""


def _write_llm(params: Fields, node_context: NodeContext) -> Fields:
    messages = list_of(params.get("messages"))
    prompt = [(*list_of(each), False)[:3] for each in messages] or [
        (role, params.get(role), False) for role in ("system", "user") if params.get(role)
    ]
    context, files = params.get("context"), list_of(params.get("files"))
    data: Fields = {
        "context": {
            "enabled": context is not None,
            "variable_selector": node_context.names.write(context) if context else [],
        },
        "model": _model("llm", params, node_context),
        "prompt_template": [_write_message(each, node_context) for each in prompt],
        "vision": {"enabled": False},
    }
    if files:
        configs = {"detail": "high", "variable_selector": node_context.names.write(files[0])}
        data["vision"] = {"enabled": True, "configs": configs}
    if variables := pairs_of(params.get("variables")):
        listed = [{"variable": name, "value_selector": node_context.names.write(value)} for name, value in variables]
        data["prompt_config"] = {"jinja2_variables": listed}
    if memory := list_of(params.get("memory")):
        turns, query = [*memory, ""][:2]
        window = {"enabled": turns is not None, "size": turns if turns is not None else 50}
        query = node_context.names.write_text(query)
        data["memory"] = {"query_prompt_template": query, "window": window}
    if isinstance(schema := params.get("output_schema"), dict):
        data |= {"structured_output_enabled": True, "structured_output": {"schema": schema}}
    return {**data, "reasoning_format": "separated"} if params.get("separate_thoughts") is True else data


def _write_message(message: tuple[Any, ...], node_context: NodeContext) -> Fields:
    role, text, jinja = message
    if jinja is True:
        return {"role": role, "text": text, "jinja2_text": text, "edition_type": "jinja2"}
    return {"role": role, "text": node_context.names.write_text(text_of(text).replace(CONTEXT, _CONTEXT))}


_CONTEXT = "{{#context#}}"


def _read_llm(data: Fields, node_context: NodeContext) -> Fields:
    template = data.get("prompt_template")
    messages = each_of(template) or ([{"role": "user", **fields_of(template)}] if isinstance(template, dict) else [])
    prompt = [_read_message(each, node_context) for each in messages]
    params: Fields = {"system": "", "user": ""}
    if [role for role, *_ in prompt] in _SIMPLE_ROLES and all(len(each) < 3 for each in prompt):
        params |= dict(prompt)
    else:
        params["messages"] = prompt
    params |= _read_model("llm", data, node_context)
    context = fields_of(data.get("context"))
    if context.get("enabled") is True and context.get("variable_selector"):
        params["context"] = node_context.names.read(context["variable_selector"])
    variables = each_of(fields_of(data.get("prompt_config")).get("jinja2_variables"))
    if variables and any(len(each) > 2 for each in prompt):
        params["variables"] = [
            [each.get("variable"), node_context.names.read(each.get("value_selector"))] for each in variables
        ]
    if files := _read_vision(data, node_context):
        reference = Selector(*files).in_text if is_selector(files) else ""
        if not any(reference in text for _, text, *_ in prompt if isinstance(text, str)):
            params["files"] = [files]
    if isinstance(memory := data.get("memory"), dict):
        params["memory"] = _read_memory(fields_of(memory), node_context)
    is_enabled = data.get("structured_output_switch_on", data.get("structured_output_enabled"))
    schema = fields_of(data.get("structured_output")).get("schema")
    if is_enabled is True and isinstance(schema, dict):
        params["output_schema"] = schema
    return {**params, "separate_thoughts": True} if data.get("reasoning_format") == "separated" else params


def _read_message(message: Fields, node_context: NodeContext) -> list[Any]:
    role = message.get("role")
    if message.get("edition_type") == "jinja2":
        return [role, message.get("jinja2_text") or message.get("text") or "", True]
    text = message.get("text")
    return [role, node_context.names.read_text(text.replace(_CONTEXT, CONTEXT)) if isinstance(text, str) else ""]


def _read_vision(data: Fields, node_context: NodeContext) -> Any:
    """Return the variable with the files that the model is shown; None if it is shown none."""
    vision = fields_of(data.get("vision"))
    configs = fields_of(vision.get("configs"))
    selector = configs.get("variable_selector") or ["sys", "files"]
    return node_context.names.read(selector) if vision.get("enabled") is True else None


def _read_memory(memory: Fields, node_context: NodeContext) -> list[Any]:
    window = fields_of(memory.get("window"))
    query = memory.get("query_prompt_template") or "{{#sys.query#}}"
    return [window.get("size") if window.get("enabled") is True else None, node_context.names.read_text(query)]


def _write_classifier(params: Fields, node_context: NodeContext) -> Fields:
    names, ids = list_of(params.get("classes")), texts_of(params.get("class_ids"))
    ids = ids if len(ids) == len(names) else _numbers(names)
    return {
        "classes": [{"id": class_id, "name": name} for class_id, name in zip(ids, names, strict=True)],
        "instruction": node_context.names.write_text(params.get("instruction", "")),
        "model": _model("question-classifier", params, node_context),
        "query_variable_selector": node_context.names.write(params.get("query_variable_selector")),
        "topics": [],
        "vision": {"enabled": False},
    }


def _read_classifier(data: Fields, node_context: NodeContext) -> Fields:
    instruction = data.get("instruction") or data.get("instructions") or ""
    params = convert_fields(data, query_variable_selector=node_context.names.read)
    params["classes"] = [each.get("name") for each in each_of(data.get("classes"))]
    ids = [text_of(each.get("id")) for each in each_of(data.get("classes"))]
    if ids != _numbers(ids):
        params["class_ids"] = ids
    params |= _read_model("question-classifier", data, node_context)
    return {**params, "instruction": node_context.names.read_text(instruction)} if instruction else params


def _numbers(classes: Sequence[Any]) -> list[str]:
    """Return the ids of classes for which none are given: 1, 2, …"""
    return [str(number) for number in range(1, len(classes) + 1)]


def _write_extractor(params: Fields, node_context: NodeContext) -> Fields:
    optional, options = list_of(params.get("optional")), fields_of(params.get("options"))
    parameters: list[Fields] = [
        {"description": description, "name": name, "required": name not in optional, "type": kind}
        | ({"type": "select", "options": options[name]} if isinstance(name, str) and name in options else {})
        for description, name, kind in pairs_of(params.get("parameters"), 3)
    ]
    return {
        "instruction": node_context.names.write_text(params.get("instruction", "")),
        "model": _model("parameter-extractor", params, node_context),
        "parameters": parameters,
        "query": node_context.names.write(params.get("query")),
        "reasoning_mode": "prompt",
        "variables": [],
        "vision": {"enabled": False},
    }


def _read_extractor(data: Fields, node_context: NodeContext) -> Fields:
    older = {"bool": "boolean", "select": "string"}
    given = each_of(data.get("parameters"))
    params: Fields = {
        **convert_fields(data, query=node_context.names.read),
        "parameters": [
            [each.get("description", ""), each.get("name"), older.get(str(each.get("type")), each.get("type"))]
            for each in given
        ],
        "instruction": node_context.names.read_text(data.get("instruction") or ""),
        "on_mismatch": "empty",  # Dify has no other way
        **_read_model("parameter-extractor", data, node_context),
    }
    named = [each for each in given if isinstance(each.get("name"), str)]
    if optional := [each["name"] for each in named if each.get("required") is False]:
        params["optional"] = optional
    texts = [each for each in named if each.get("type") in TYPES_WITH_OPTIONS]
    options = {each["name"]: [text_of(option) for option in list_of(each.get("options"))] for each in texts}
    if options := {name: given for name, given in options.items() if given}:
        params["options"] = options
    return params


TYPES_WITH_OPTIONS = ("string", "select")
"""Types of parameters of an extractor whose options count; Dify's editor may leave options behind on others."""

MODELS: Mapping[str, NodeMapping] = {
    "llm": NodeMapping("LLM", _write_llm, _read_llm),
    "question-classifier": NodeMapping("Question Classifier", _write_classifier, _read_classifier),
    "parameter-extractor": NodeMapping("Parameter Extractor", _write_extractor, _read_extractor),
}
