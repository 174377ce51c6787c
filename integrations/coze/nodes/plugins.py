"""Mappings of node types to plugins of Coze, and a plugin that only keeps a node of a type that Coze lacks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from operad.flows.formats.shapes import Fields
from operad.integrations.coze.inputs import by_name
from operad.integrations.coze.names import Names
from operad.operators.variables import Text


class Plugin(NamedTuple):
    """Plugin of Coze's store that does the work of a node type of Operad.

    Attributes:
        type: The node type of Operad.
        when: The parameter and the value that the plugin is for; None if it is for all nodes of the type.
        name: The name of the plugin.
        id: The id of the plugin.
        tool: The name of the tool in the plugin.
        tool_id: The id of the tool.
        inputs: The plugin's inputs by Operad's parameters.
        output: Operad's name of the output, and the plugin's.
        fixed: The inputs that always have the same value.
    """

    type: str
    when: tuple[str, str] | None
    name: str
    id: str
    tool: str
    tool_id: str
    inputs: Mapping[str, str]
    output: tuple[str, str]
    fixed: Mapping[str, str] = {}


def _documents(target: str, coze_format: str) -> Plugin:
    fixed = {"title": "Document", "to_format": coze_format}
    inputs = {"md_text": "formatted_markdown"}
    return Plugin(
        "markdown-exporter", ("target_type", target), "Doc Maker", "7365715035999649829", "create_document",
        "7365715035999666213", inputs, ("files", "data"), fixed,
    )  # fmt: skip


PLUGINS: Sequence[Plugin] = (
    Plugin("document-extractor", None, "文件读取", "7405805158996918299", "read", "7405805158996934683",
           {"variable_selector": "url"}, ("text", "data")),
    Plugin("google-search", None, "联网问答（免费版）", "7380279400157265954", "search_url", "7387323807385829402",
           {"query": "query"}, ("json", "data")),
    Plugin("tts", None, "语音合成", "7426655854067351562", "speech_synthesis", "7426655854067367946",
           {"text": "text"}, ("files", "data.link")),
    Plugin("mermaid-converter", None, "Mermaid图表生成器", "7479445382888603682", "Mermaid", "7479445382888620066",
           {"mermaid_code": "mermaidCode"}, ("files", "editUrl")),
    Plugin("markdown-exporter", ("target_type", "png"), "MD2Image", "7589192736172130350", "generatePosterImage",
           "7589192736172146734", {"md_text": "markdown"}, ("files", "url")),
    Plugin("markdown-exporter", ("target_type", "pptx"), "Doc Maker", "7365715035999649829", "create_pptx",
           "7365715035999682597", {"md_text": "formatted_markdown"}, ("files", "data"), {"title": "Document"}),
    *(_documents(target, {"md": "markdown"}.get(target, target)) for target in ("docx", "pdf", "html", "md")),
)  # fmt: skip
"""Plugins with the names and ids that Chat2Workflow's own converter uses."""

OWN_PLUGIN = "operad"
"""Name of a plugin that does not exist, for nodes of types that Coze does not have."""


def plugin_for(node_type: str, params: Mapping[str, Any]) -> Plugin | None:
    """Return the plugin for a node of Operad; None if there is none."""
    fitting = (each for each in PLUGINS if each.type == node_type)
    return next((each for each in fitting if each.when is None or params.get(each.when[0]) == each.when[1]), None)


def plugin_of(given: Any) -> Plugin | None:
    """Return the plugin that a node of Coze calls; None for other plugins."""
    api, inputs = by_name(given["apiParam"]), by_name(given.get("node_inputs"))
    return next(
        (
            plugin
            for plugin in PLUGINS
            if (api.get("pluginID"), api.get("apiName")) == (plugin.id, plugin.tool)
            and all(inputs.get(name) == value for name, value in plugin.fixed.items() if name != "title")
        ),
        None,
    )


def _api(name: str, plugin_id: str, tool: str, tool_id: str) -> list[Fields]:
    values = {"apiID": tool_id, "apiName": tool, "pluginID": plugin_id, "pluginName": name}
    return [{"name": key, "input": {"type": "string", "value": value}} for key, value in values.items()]


def write_plugin(plugin: Plugin, params: Any, names: Names) -> Fields:
    """Return the parameters of a plugin node for Operad's parameters."""
    inputs: list[Fields] = []
    text_inputs: list[Fields] = []
    for operad_param, coze_input in plugin.inputs.items():
        value = getattr(params, operad_param)
        if isinstance(value, Text):
            given, used = names.value(value)
            text_inputs += (each for each in used if each not in text_inputs)
        else:
            given = names.given(value)
        inputs.append({"name": coze_input, "input": given})
    inputs += ({"name": key, "input": {"type": "string", "value": value}} for key, value in plugin.fixed.items())
    return {
        "apiParam": _api(plugin.name, plugin.id, plugin.tool, plugin.tool_id),
        "node_inputs": [*inputs, *text_inputs],
        "node_outputs": {plugin.output[1].partition(".")[0]: {"type": "string", "value": None}},
    }


def read_plugin(plugin: Plugin, given: Any, names: Names) -> Fields:
    """Return Operad's parameters for those of a plugin node; the inverse of `write_plugin`."""
    inputs = {each["name"]: each["input"] for each in given["node_inputs"]}
    params: Fields = dict([plugin.when]) if plugin.when else {}
    for operad_param, coze_input in plugin.inputs.items():
        if operad_param == "variable_selector":
            params[operad_param] = names.variable(inputs[coze_input])
        else:
            params[operad_param] = names.read_value(inputs[coze_input], given["node_inputs"])
    return params


def write_own(node_type: str, params: Any) -> Fields:
    """Return the parameters of a plugin node that only keeps the type and parameters of a node that Coze lacks."""
    text = json.dumps(params, ensure_ascii=False, default=str)
    return {
        "apiParam": _api(OWN_PLUGIN, "0", node_type, "0"),
        "node_inputs": [{"name": "params", "input": {"type": "string", "value": text}}],
        "node_outputs": {},
    }


def read_own(given: Any) -> tuple[str, Any] | None:
    """Return the type and parameters that `write_own` kept; None for other plugin nodes."""
    api = by_name(given["apiParam"])
    if api.get("pluginName") != OWN_PLUGIN or not isinstance(api.get("apiName"), str):
        return None
    (params,) = given["node_inputs"]
    return api["apiName"], json.loads(params["input"]["value"])
