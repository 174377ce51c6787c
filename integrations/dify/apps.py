"""Graphs for apps of the modes chat, completion and agent-chat, which have a configuration instead of a graph."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from operad.flows.formats.shapes import Fields, each_of, fields_of, text_of

CONFIG_MODES = ("chat", "completion", "agent-chat")
"""Modes of apps that have a configuration instead of a graph."""

_INPUT = re.compile(r"\{\{\s*([a-zA-Z_][a-zA-Z0-9_]{0,29})\s*\}\}")


def has_config(root: Mapping[str, Any]) -> bool:
    """Return True if a file is an app that has a configuration instead of a graph."""
    return fields_of(root.get("app")).get("mode") in CONFIG_MODES and isinstance(root.get("model_config"), dict)


def config_faults(root: Mapping[str, Any]) -> Iterator[str]:
    """Yield the features of such an app that its graph in Operad would lack, as error messages."""
    config = fields_of(root.get("model_config"))
    datasets = each_of(fields_of(fields_of(config.get("dataset_configs")).get("datasets")).get("datasets"))
    if any(fields_of(each.get("dataset")).get("enabled") for each in datasets):
        yield (
            "model_config.dataset_configs: the app searches knowledge before it answers, which only a graph does here; "
            "build a workflow in Dify with a knowledge-retrieval node, and export that"
        )
    if config.get("external_data_tools"):
        yield (
            "model_config.external_data_tools: the app fetches inputs from an API of its own; call it by an http-request "
            "node of a workflow"
        )
    if fields_of(config.get("sensitive_word_avoidance")).get("enabled") is True:
        yield (
            "model_config.sensitive_word_avoidance: the app holds words back, which nothing does here; switch it off in "
            "the file where that may be"
        )


def graph_of_config(root: Fields) -> Fields:
    """Return the values of an app with a graph that does the same: start, a model or an agent, and an answer."""
    config, app = fields_of(root.get("model_config")), fields_of(root.get("app"))
    is_chat = app.get("mode") != "completion"
    is_agent = app.get("mode") == "agent-chat" or fields_of(config.get("agent_mode")).get("enabled") is True
    model_data = _agent_data(config) if is_agent else _model_data(config, is_chat)
    inputs = [_start_input(each) for each in each_of(config.get("user_input_form"))]
    answer_data = {"type": "answer", "title": "Answer", "answer": "{{#model.text#}}"}
    nodes = [
        ("start", {"type": "start", "title": "Start", "variables": inputs}),
        ("model", model_data),
        ("answer", answer_data),
    ]
    listed = [{"id": name, "type": "custom", "data": data} for name, data in nodes]
    edges = [{"source": "start", "target": "model"}, {"source": "model", "target": "answer"}]
    kept = {key: value for key, value in root.items() if key not in ("model_config", "app", "kind", "workflow")}
    return {
        **kept,
        "app": {**app, "mode": "advanced-chat"},
        "kind": "app",
        "workflow": {"graph": {"nodes": listed, "edges": edges}},
    }


def _start_input(given: Fields) -> Fields:
    kind = next(iter(given), "text-input")
    return {**fields_of(given.get(kind)), "type": kind}


def _with_references(text: Any) -> str:
    """Return a prompt with its placeholders replaced by references to inputs of the start node."""
    written = _INPUT.sub(r"{{#start.\1#}}", text_of(text or ""))
    return written.replace("{{#query#}}", "{{#sys.query#}}").replace("{{#histories#}}", "")


def _model_data(config: Fields, is_chat: bool) -> Fields:
    prompt: list[Fields] = [
        {"role": message.get("role"), "text": _with_references(message.get("text"))}
        for message in each_of(fields_of(config.get("chat_prompt_config")).get("prompt"))
    ]
    if config.get("prompt_type") != "advanced" or not prompt:
        role = "system" if is_chat else "user"
        prompt = (
            [{"role": role, "text": _with_references(config.get("pre_prompt"))}] if config.get("pre_prompt") else []
        )
    if not is_chat and not prompt:
        prompt = [{"role": "user", "text": "{{#sys.query#}}"}]
    data: Fields = {
        "type": "llm",
        "title": "LLM",
        "model": config.get("model"),
        "prompt_template": prompt,
        "context": {"enabled": False, "variable_selector": []},
        "vision": {"enabled": False},
    }
    if not is_chat:
        return data
    mentions_query = any("{{#sys.query#}}" in message["text"] for message in prompt)
    memory = {"query_prompt_template": "" if mentions_query else "{{#sys.query#}}", "window": {"enabled": False}}
    return {**data, "memory": memory}


def _agent_data(config: Fields) -> Fields:
    mode = fields_of(config.get("agent_mode"))
    tools = [each for each in each_of(mode.get("tools")) if each.get("enabled", True) is True]
    strategy = "ReAct" if mode.get("strategy") in ("react", "cot") else "function_calling"
    params = {
        "model": {"type": "constant", "value": config.get("model")},
        "tools": {
            "type": "constant",
            "value": [{"tool_name": each.get("tool_name"), "enabled": True} for each in tools],
        },
        "instruction": {"type": "mixed", "value": _with_references(config.get("pre_prompt"))},
        "query": {"type": "mixed", "value": "{{#sys.query#}}"},
        "maximum_iterations": {"type": "constant", "value": mode.get("max_iteration") or 5},
    }
    memory = {"window": {"enabled": False}, "query_prompt_template": ""}
    return {
        "type": "agent",
        "title": "Agent",
        "agent_strategy_name": strategy,
        "agent_parameters": params,
        "memory": memory,
    }
