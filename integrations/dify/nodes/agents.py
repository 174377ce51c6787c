"""Mappings of agents and of questions to people: agent, human-input."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from operad.flows.formats.shapes import Fields, each_of, fields_of, list_of, pairs_of, text_of
from operad.integrations.dify.nodes.node_mapping import NodeContext, NodeMapping
from operad.operators.nodes.models import SAMPLING

_INPUT_FIELD = re.compile(r"\{\{#\$output\.([a-zA-Z_][a-zA-Z0-9_]*)#\}\}")
"""Field of a form for a text that people enter."""


def _param_value(params: Fields, name: str) -> Any:
    """Return the value of an agent's parameter, which may be written as ``{type, value}``."""
    given = fields_of(params.get(name))
    return given["value"] if "value" in given else params.get(name)


def _write_agent(params: Fields, node_context: NodeContext) -> Fields:
    tools = [{"enabled": True, "tool_name": name} for name in list_of(params.get("tools"))]
    react = params.get("strategy") == "react"
    model: Fields = {"completion_params": fields_of(params.get("sampling")), "mode": "chat", "provider": ""}
    values: Fields = {
        "instruction": ("mixed", node_context.names.write_text(params.get("instruction", ""))),
        "maximum_iterations": ("constant", params.get("rounds", 5)),
        "model": ("constant", {**model, "name": params.get("model_name", "")}),
        "query": ("mixed", node_context.names.write_text(params.get("query", ""))),
        "tools": ("constant", tools),
    }
    data: Fields = {
        "agent_parameters": {name: {"type": kind, "value": value} for name, (kind, value) in values.items()},
        "agent_strategy_name": "ReAct" if react else "function_calling",
        "agent_strategy_provider_name": "langgenius/agent/agent",
    }
    if memory := list_of(params.get("memory")):
        window = {"enabled": memory[0] is not None, "size": memory[0] if memory[0] is not None else 50}
        data["memory"] = {"query_prompt_template": "", "window": window}
    return data


def _read_agent(data: Fields, node_context: NodeContext) -> Fields:
    given = fields_of(data.get("agent_parameters"))
    params: Fields = {
        name: node_context.names.read_text(_param_value(given, name) if _param_value(given, name) is not None else "")
        for name in ("instruction", "query")
    }
    tools = [each for each in each_of(_param_value(given, "tools")) if each.get("enabled")]
    params["tools"] = [each.get("tool_name") or each.get("name") for each in tools]
    if "react" in text_of(data.get("agent_strategy_name")).lower():
        params["strategy"] = "react"
    if (rounds := _param_value(given, "maximum_iterations")) is not None:
        params["rounds"] = rounds
    model = fields_of(_param_value(given, "model"))
    name = model.get("name") or model.get("model")
    sampling = {key: value for key, value in fields_of(model.get("completion_params")).items() if key in SAMPLING}
    params |= ({"model_name": name} if name else {}) | ({"sampling": sampling} if sampling else {})
    if isinstance(memory := data.get("memory"), dict):
        window = fields_of(fields_of(memory).get("window"))
        params["memory"] = [window.get("size") if window.get("enabled") is True else None]
    return params


def _write_human(params: Fields, node_context: NodeContext) -> Fields:
    return {
        "delivery_methods": [],
        "form_content": node_context.names.write_text(params.get("question", "")),
        "inputs": [{"output_variable_name": name, "type": "paragraph"} for name in list_of(params.get("inputs"))],
        "timeout": 3,
        "timeout_unit": "day",
        "user_actions": [{"id": name, "title": title} for name, title in pairs_of(params.get("actions"))],
    }


def _read_human(data: Fields, node_context: NodeContext) -> Fields:
    content = data.get("form_content", "")
    text = _INPUT_FIELD.sub(r"[\1]", content) if isinstance(content, str) else content
    params: Fields = {
        "question": node_context.names.read_text(text),
        "actions": [[each.get("id"), each.get("title", "")] for each in each_of(data.get("user_actions"))],
    }
    inputs = [each.get("output_variable_name") or each.get("name") for each in each_of(data.get("inputs"))]
    return {**params, "inputs": inputs} if inputs else params


AGENTS: Mapping[str, NodeMapping] = {
    "agent": NodeMapping("Agent", _write_agent, _read_agent),
    "human-input": NodeMapping("Human Input", _write_human, _read_human),
}
