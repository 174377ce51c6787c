"""Mappings of tools: any tool, and the tools that do the work of node types of Operad."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from operad.flows.formats.shapes import Fields, fields_of, is_selector, text_of
from operad.integrations.dify.nodes.node_mapping import NodeContext, NodeMapping, unchanged
from operad.integrations.dify.plugins import TOOLS, Tool
from operad.operators.variables import Selector


def _tool_data(provider: str, name: str, label: str, settings: Mapping[str, Any], arguments: Fields) -> Fields:
    return {
        "provider_id": provider,
        "provider_name": provider,
        "provider_type": "builtin",
        "tool_configurations": {key: {"type": "constant", "value": value} for key, value in settings.items()},
        "tool_label": label,
        "tool_name": name,
        "tool_node_version": "2",
        "tool_parameters": arguments,
    }


def _write_tool(params: Fields, node_context: NodeContext) -> Fields:
    arguments: Fields = {}
    for name, value in fields_of(params.get("arguments")).items():
        kind = "variable" if is_selector(value) else "mixed" if isinstance(value, str) else "constant"
        convert = {"variable": node_context.names.write, "mixed": node_context.names.write_text}.get(kind, unchanged)
        arguments[name] = {"type": kind, "value": convert(value)}
    name = text_of(params.get("tool", ""))
    return _tool_data(name, name, name, {}, arguments)


def _read_tool(data: Fields, node_context: NodeContext) -> Fields:
    arguments = {name: _argument(given, node_context) for name, given in fields_of(data.get("tool_parameters")).items()}
    return {"tool": data.get("tool_name"), "arguments": arguments}


def _argument(given: Any, node_context: NodeContext) -> Any:
    value = plain_value(given)
    return node_context.names.read(value) if isinstance(value, list) else node_context.names.read_text(value)


def plain_value(given: Any) -> Any:
    """Return the value of an argument or a setting, which may be written as ``{type, value}``."""
    return fields_of(given).get("value") if isinstance(given, dict) else given


def _of_tool(kind: str, tool: Tool) -> NodeMapping:
    """Return the mapping of a node type to a tool."""
    choice_param = next(iter(re.findall(r"\{(\w+)\}", tool.name)), "")

    def write(params: Fields, node_context: NodeContext) -> Fields:
        left_out = {"echarts": "x_axis" if params.get("chart_type") == "pie" else "categories"}.get(kind)
        arguments = {
            dify_name: {"type": "mixed", "value": node_context.names.write_text(params[operad_name])}
            for dify_name, operad_name in tool.parameters.items()
            if operad_name in params and dify_name != left_out
        }
        name = tool.name.replace(f"{{{choice_param}}}", text_of(params.get(choice_param, "")))
        return _tool_data(tool.provider, name, tool.label, tool.settings, arguments)

    def read(data: Fields, node_context: NodeContext) -> Fields:
        prefix, _, suffix = tool.name.partition(f"{{{choice_param}}}") if choice_param else (tool.name, "", "")
        name = text_of(data.get("tool_name"))
        params: Fields = {choice_param: name[len(prefix) : len(name) - len(suffix)]} if choice_param else {}
        given = fields_of(data.get("tool_parameters"))
        for dify_name, operad_name in tool.parameters.items():
            if dify_name in given:
                value = _argument(given[dify_name], node_context)
                params[operad_name] = Selector(*value).in_text if is_selector(value) else value
        return params

    return NodeMapping(tool.label, write, read, "tool")


def tool_type(data: Fields) -> str:
    """Return the node type whose work a tool does; ``tool`` for any other tool."""
    provider = text_of(data.get("provider_id") or data.get("provider_name")).rpartition("/")[2]
    name = text_of(data.get("tool_name"))
    for kind, tool in TOOLS.items():
        pattern = re.sub(r"\\\{\w+\\\}", "[a-z]+", re.escape(tool.name))
        if provider == tool.provider.rpartition("/")[2] and re.fullmatch(pattern, name):
            return kind
    return "tool"


TOOL_NODES: Mapping[str, NodeMapping] = {
    "tool": NodeMapping("Tool", _write_tool, _read_tool),
    **{kind: _of_tool(kind, tool) for kind, tool in TOOLS.items()},
}
