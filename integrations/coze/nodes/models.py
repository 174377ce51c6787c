"""Mappings of nodes that ask models: llm, parameter-extractor, question-classifier, text2image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from operad.flows.formats.shapes import Fields, fields_of, list_of
from operad.integrations.coze.inputs import by_name, coze_type, declared, literal, operad_type
from operad.integrations.coze.names import Names
from operad.integrations.coze.nodes.node_mapping import NodeMapping
from operad.operators.nodes.extractor import ExtractorParams
from operad.operators.nodes.files import ImageParams
from operad.operators.nodes.models import ClassifierParams, LLMParams
from operad.operators.variables import Selector, VariableType

T = VariableType

DEFAULT_CLASS = "default"
"""Name of the port of an intent node that is taken if no intent fits."""


def _model_params(response_format: str, system: str, prompt: str) -> list[Fields]:
    return [
        {"name": "temperature", "input": {"type": "float", "value": "0.7"}},
        {"name": "responseFormat", "input": {"type": "integer", "value": response_format}},
        {"name": "systemPrompt", "input": {"type": "string", "value": system}},
        {"name": "prompt", "input": {"type": "string", "value": prompt}},
    ]


def _read_model_params(given: Any) -> Mapping[str, Any]:
    return by_name(given["llmParam"])


def _write_llm(params: LLMParams, names: Names) -> Fields:
    (system, user), inputs = names.texts(params.system, params.user)
    return {
        "llmParam": _model_params("0", system, user),
        "node_inputs": inputs,
        "node_outputs": declared([("text", T.STRING)]),
    }


def _read_llm(given: Any, names: Names) -> Fields:
    if _is_extractor(given):
        raise ValueError("a parameter-extractor")
    model = _read_model_params(given)
    shown = list_of(given.get("visionParam"))
    inputs = [*list_of(given.get("node_inputs")), *shown]
    user = names.text(model.get("prompt", ""), inputs)
    read: Fields = {"system": names.text(model.get("systemPrompt", ""), inputs), "user": user}
    if str(model.get("enableChatHistory")).lower() == "true":
        turns = model.get("chatHistoryRound")
        read |= {"user": "", "memory": [None if turns is None else int(turns), user]}
    if files := [each for _, each in names.arguments(shown) if Selector(*each).in_text not in user]:
        read["files"] = files
    outputs = fields_of(given["node_outputs"])
    read |= {"separate_thoughts": True} if THOUGHTS in outputs and len(outputs) > 1 else {}
    fields = {name: kind for name, kind in outputs.items() if name != THOUGHTS}
    if str(model.get("responseFormat")) == "2" or len(fields) > 1:
        read["output_schema"] = _schema({"type": "object", "properties": fields})
    return read


THOUGHTS = "reasoning_content"
"""Output of an llm node with what the model thought, by the same name as in Operad."""


def _schema(kind: Fields) -> Fields:
    """Return the JSON Schema of a type in Coze's form."""
    made: Fields = {"description": kind["description"]} if kind.get("description") else {}
    match kind["type"]:
        case "list":
            return {**made, "type": "array", "items": _schema(kind["items"])}
        case "object" if properties := fields_of(kind.get("properties")):
            inner = {name: _schema(each) for name, each in properties.items()}
            return {**made, "type": "object", "properties": inner, "required": list(inner)}
        case str() as name:
            return {**made, "type": {"float": "number"}.get(name, name if name in _JSON_TYPES else "string")}
        case _:
            raise ValueError(kind)


_JSON_TYPES = ("integer", "number", "boolean", "object")


def _write_extractor(params: ExtractorParams, names: Names) -> Fields:
    (instruction,), inputs = names.texts(params.instruction)
    outputs = {
        name: {**coze_type(kind), "value": None, "description": description}
        for description, name, kind in params.parameters
    }
    return {
        "llmParam": _model_params("2", instruction, "{{query}}"),
        "node_inputs": [names.input("query", params.query), *inputs],
        "node_outputs": outputs,
    }


def _is_extractor(given: Any) -> bool:
    """Return True if an llm node of Coze has the form that Operad writes for a parameter-extractor."""
    model = _read_model_params(given)
    inputs = by_name(given.get("node_inputs"))
    return model.get("responseFormat") == "2" and model.get("prompt") == "{{query}}" and "query" in inputs


def _read_extractor(given: Any, names: Names) -> Fields:
    if not _is_extractor(given):
        raise ValueError("no query")
    query = next(each["input"] for each in given["node_inputs"] if each["name"] == "query")
    inputs = [each for each in given["node_inputs"] if each["name"] != "query"]
    return {
        "query": names.variable(query),
        "parameters": [
            [kind.get("description", ""), name, operad_type(kind)] for name, kind in given["node_outputs"].items()
        ],
        "instruction": names.text(_read_model_params(given).get("systemPrompt", ""), inputs),
    }


def _write_classifier(params: ClassifierParams, names: Names) -> Fields:
    (instruction,), inputs = names.texts(params.instruction)
    classes = params.classes[:-1] if params.classes[-1] == DEFAULT_CLASS else params.classes
    return {
        "intents": [{"name": name} for name in classes],
        "llmParam": {"prompt": literal("{{query}}"), "systemPrompt": literal(instruction)},
        "node_inputs": [names.input("query", params.query_variable_selector), *inputs],
        "node_outputs": declared([("classificationId", T.NUMBER)]),
    }


def _read_classifier(given: Any, names: Names) -> Fields:
    first, *inputs = given["node_inputs"]
    system = given.get("llmParam", {}).get("systemPrompt", literal(""))["value"]["content"]
    instruction = names.text(system, inputs)
    return {
        "query_variable_selector": names.variable(first["input"]),
        "classes": [each["name"] for each in given["intents"]],
        **({"instruction": instruction} if instruction else {}),
    }


def _write_image(params: ImageParams, names: Names) -> Fields:
    (prompt,), inputs = names.texts(params.prompt)
    size = {"height": 1024, "ratio_type": "fixed", "width": 1024}
    return {
        "modelSetting": {"custom_ratio": size, "ddim_steps": 25, "model": 8, "ratio": 0},
        "prompt": {"negative_prompt": "", "prompt": prompt},
        "node_inputs": inputs,
        "node_outputs": {"data": {"type": "image", "value": None}},
    }


def _read_image(given: Any, names: Names) -> Fields:
    return {"prompt": names.text(given["prompt"]["prompt"], given.get("node_inputs"))}


MODELS: Mapping[str, NodeMapping] = {
    "llm": NodeMapping("llm", "icon-LLM-v2.jpg", _write_llm, _read_llm),
    "parameter-extractor": NodeMapping("llm", "icon-LLM-v2.jpg", _write_extractor, _read_extractor),
    "question-classifier": NodeMapping("intent", "icon-Intent-v2.jpg", _write_classifier, _read_classifier),
    "text2image": NodeMapping("image_generate", "icon-ImageGeneration-v2.jpg", _write_image, _read_image),
}
