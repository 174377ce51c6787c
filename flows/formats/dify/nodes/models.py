"""What asks a model: llm, question-classifier, parameter-extractor."""

from __future__ import annotations

from collections.abc import Mapping

from operad.flows.formats.dify.nodes.mapped import Mapped, Side, picked, reference
from operad.flows.formats.shapes import Fields, each_of, fields_of, list_of, pairs_of, text_of


def _model(kind: str, side: Side) -> Fields:
    model = side.plugins.models.get(kind)
    return {
        "completion_params": dict(model.params) if model else {},
        "mode": "chat",
        "name": model.name if model else "",
        "provider": model.provider if model else "",
    }


def _write_llm(params: Fields, side: Side) -> Fields:
    said = [("system", params.get("system")), ("user", params.get("user"))]
    return {
        "context": {"enabled": False, "variable_selector": []},
        "model": _model("llm", side),
        "prompt_template": [{"role": role, "text": side.names.write_text(text)} for role, text in said if text],
        "vision": {"enabled": False},
    }


def _read_llm(data: Fields, side: Side) -> Fields:
    template = data.get("prompt_template")
    messages = each_of(template) or ([fields_of(template)] if isinstance(template, dict) else [])
    context = fields_of(data.get("context"))
    shown = [reference(context.get("variable_selector"))] if context.get("enabled") is True else []
    texts: dict[str, list[str]] = {"system": [], "user": []}
    jinja = False
    for message in messages:
        jinja = jinja or message.get("edition_type") == "jinja2"
        text = text_of(message.get("jinja2_text" if message.get("edition_type") == "jinja2" else "text") or "")
        for each in shown:
            text = text.replace("{{#context#}}", each)
        texts["system" if message.get("role") == "system" else "user"].append(text)
    vision = fields_of(data.get("vision"))
    files = reference(fields_of(vision.get("configs")).get("variable_selector"))
    if vision.get("enabled") is True and files and not any(files in text for text in texts["user"]):
        texts["user"].append(files)
    params: Fields = {role: side.names.read_text("\n\n".join(each)) for role, each in texts.items()}
    return {**params, "edition_type": "jinja2"} if jinja else params


def _write_classifier(params: Fields, side: Side) -> Fields:
    return {
        "classes": [{"id": str(n), "name": name} for n, name in enumerate(list_of(params.get("classes")), 1)],
        "instruction": side.names.write_text(params.get("instruction", "")),
        "model": _model("question-classifier", side),
        "query_variable_selector": side.names.write(params.get("query_variable_selector")),
        "topics": [],
        "vision": {"enabled": False},
    }


def _read_classifier(data: Fields, side: Side) -> Fields:
    instruction = data.get("instruction") or data.get("instructions") or ""
    params = picked(data, query_variable_selector=side.names.read)
    params["classes"] = [each.get("name") for each in each_of(data.get("classes"))]
    return {**params, "instruction": side.names.read_text(instruction)} if instruction else params


def _write_extractor(params: Fields, side: Side) -> Fields:
    return {
        "instruction": side.names.write_text(params.get("instruction", "")),
        "model": _model("parameter-extractor", side),
        "parameters": [
            {"description": description, "name": name, "required": True, "type": kind}
            for description, name, kind in pairs_of(params.get("parameters"), 3)
        ],
        "query": side.names.write(params.get("query")),
        "reasoning_mode": "prompt",
        "variables": [],
        "vision": {"enabled": False},
    }


def _read_extractor(data: Fields, side: Side) -> Fields:
    older = {"bool": "boolean", "select": "string"}
    parameters = [
        [each.get("description", ""), each.get("name"), older.get(str(each.get("type")), each.get("type"))]
        for each in each_of(data.get("parameters"))
    ]
    instruction = side.names.read_text(data.get("instruction") or "")
    return {**picked(data, query=side.names.read), "parameters": parameters, "instruction": instruction}


MODELS: Mapping[str, Mapped] = {
    "llm": Mapped("LLM", _write_llm, _read_llm),
    "question-classifier": Mapped("Question Classifier", _write_classifier, _read_classifier),
    "parameter-extractor": Mapped("Parameter Extractor", _write_extractor, _read_extractor),
}
