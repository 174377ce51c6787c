"""Plugins and models of node types in Dify: those of Chat2Workflow's platform."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Tool:
    """Tool of Dify that does the work of a node type.

    Attributes:
        provider: The provider.
        name: The name; ``{chart_type}`` and the like stand for parameters of the node.
        label: The name for people.
        parameters: The node's parameters by the parameters of the tool.
        settings: The values of the settings.
        plugin: The plugin with the tool, ``author/name:version@checksum``; empty for tools of Dify itself.
    """

    provider: str
    name: str
    label: str
    parameters: Mapping[str, str]
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    plugin: str = ""


@dataclass(frozen=True)
class Model:
    """Language model of a node type in Dify.

    Attributes:
        provider: The provider.
        name: The name.
        plugin: The plugin with the model.
        params: The parameters of its calls, such as the temperature.
    """

    provider: str
    name: str
    plugin: str
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])


_TONGYI = "langgenius/tongyi:0.1.13@10cbfe851fdf27f3c50ca2ca86293eb0c27da51ee74e58acebafd92b71c8d518"
_ECHARTS = "langgenius/echarts:0.0.1@e390de4320a5ab32ef24899983f84c31aa39e4690c7b294be11f2c10268c3a68"

DEFAULT_MODELS: Mapping[str, Model] = {
    "llm": Model("langgenius/tongyi/tongyi", "qwen3-vl-plus", _TONGYI, {"max_tokens": 32768, "temperature": 0.7}),
    "question-classifier": Model("langgenius/tongyi/tongyi", "qwen3-max", _TONGYI, {"temperature": 0.7}),
    "parameter-extractor": Model("langgenius/tongyi/tongyi", "qwen3-max", _TONGYI, {"temperature": 0.7}),
}

TOOLS: Mapping[str, Tool] = {
    "tts": Tool(
        "audio", "tts", "Text To Speech", {"text": "text"}, {"model": "langgenius/openai/openai#gpt-4o-mini-tts"}
    ),
    "text2image": Tool(
        "sawyer-shi/tongyi_aigc/tongyi_aigc",
        "z_image_text_2_image",
        "Text to Image",
        {"prompt": "prompt"},
        {"model": "z-image-turbo", "prompt_extend": False, "size": "1024*1024"},
        "sawyer-shi/tongyi_aigc:0.0.1@01f2e5f8c3226e1bab678eed70baef4503d46aabf96c767ba58eaa48a6a8e290",
    ),
    "mermaid-converter": Tool(
        "hjlarry/mermaid_converter/mermaid_converter",
        "mermaid_converter",
        "Mermaid Converter",
        {"mermaid_code": "mermaid_code"},
        {"output_format": "png", "theme": "default"},
        "hjlarry/mermaid_converter:0.0.1@46e755f0d92566a1f7a6e85086eac02a735afaa41479e7a2277b150abda70b18",
    ),
    "markdown-exporter": Tool(
        "bowenliang123/md_exporter/md_exporter",
        "md_to_{target_type}",
        "Markdown Exporter",
        {"md_text": "md_text"},
        {},
        "bowenliang123/md_exporter:2.2.0@9f39c2c2c1cd09180e2cc053090adc9886019483f502727467f136712b8b9639",
    ),
    "google-search": Tool(
        "langgenius/google/google",
        "google_search",
        "Google Search",
        {"query": "query"},
        {"as_agent_tool": False},
        "langgenius/google:0.1.0@c73cdc3dda5de500974ece93ce38eb6fc6bbf1399d38f1dbbbd70745ce154d0e",
    ),
    "echarts": Tool(
        "langgenius/echarts/echarts",
        "{chart_type}_chart",
        "Chart",
        {"title": "chart_title", "data": "data", "x_axis": "x_axisORcategories", "categories": "x_axisORcategories"},
        {},
        _ECHARTS,
    ),
}


def needed_plugin(kind: str) -> str:
    """Return the plugin that a node type needs; empty for none."""
    implementation = TOOLS.get(kind) or DEFAULT_MODELS.get(kind)
    return implementation.plugin if implementation else ""


def model_named(kind: str) -> str:
    """Return the model that files name for a node of a type that names none, with its provider; empty for none."""
    if kind in DEFAULT_MODELS:
        return f"{DEFAULT_MODELS[kind].name} of {DEFAULT_MODELS[kind].provider}"
    return str(TOOLS[kind].settings.get("model", "")) if kind in TOOLS else ""
