"""Apps of the modes chat, completion and agent-chat, which have a configuration instead of a graph.

Such an app is read as the graph that does the same. It is written back as what it is, with the changes of the graph, as
long as its configuration has a place for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from operad.flows.formats.shapes import Fields, each_of, fields_of, text_of
from operad.integrations.dify.nodes.flow import INPUT_TYPES
from operad.runtime.values.errors import did_you_mean

CONFIG_MODES = ("chat", "completion", "agent-chat")
"""Modes of apps that have a configuration instead of a graph."""

_REFERENCE = re.compile(r"\{\{#start\.([a-zA-Z_][a-zA-Z0-9_]{0,29})#\}\}")
_INPUT = re.compile(r"\{\{\s*([a-zA-Z_][a-zA-Z0-9_]{0,29})\s*\}\}")


def has_config(root: Mapping[str, Any]) -> bool:
    """Return True if a file is an app that has a configuration instead of a graph."""
    return fields_of(root.get("app")).get("mode") in CONFIG_MODES and isinstance(root.get("model_config"), dict)


def config_faults(root: Mapping[str, Any]) -> Iterator[str]:
    """Yield the features of such an app that its graph in Operad would lack, as error messages."""
    config = fields_of(root.get("model_config"))
    datasets = each_of(fields_of(fields_of(config.get("dataset_configs")).get("datasets")).get("datasets"))
    tools = each_of(fields_of(config.get("agent_mode")).get("tools"))  # older files list knowledge among the tools
    for place, listed in (("dataset_configs", datasets), ("agent_mode.tools", tools)):
        if not any(fields_of(each.get("dataset")).get("enabled") for each in listed):
            continue
        yield (
            f"model_config.{place}: the app searches knowledge before it answers, which only a graph does here; "
            "build a workflow in Dify with a knowledge-retrieval node, and export that"
        )
    for number, given in enumerate(each_of(config.get("user_input_form"))):
        if (kind := next(iter(given), "text-input")) not in INPUT_TYPES:
            hint = did_you_mean(kind, INPUT_TYPES)
            yield f"model_config.user_input_form[{number}]: {kind!r} is not a kind of input here{hint}; Dify leaves it out"
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
    model_data = _agent_data(config) if _is_agent(root) else _model_data(config, is_chat)
    inputs = [_start_input(each) for each in each_of(config.get("user_input_form"))]
    answer_data = {"type": "answer", "title": "Answer", "answer": "{{#model.text#}}"}
    nodes = [
        ("start", {"type": "start", "title": "Start", "variables": inputs}),
        ("model", model_data),
        ("answer", answer_data),
    ]
    listed = [{"id": name, "type": "custom", "data": data} for name, data in nodes]
    edges = [{"source": "start", "target": "model"}, {"source": "model", "target": "answer"}]
    kept = {key: value for key, value in root.items() if key not in _OF_CONFIG and key != "app"}
    return {
        **kept,
        "app": {**app, "mode": "advanced-chat"},
        "kind": "app",
        "workflow": {
            "features": {key: config[key] for key in _FEATURES if key in config},
            "graph": {"nodes": listed, "edges": edges},
        },
    }


_FEATURES = (
    "file_upload",
    "opening_statement",
    "retriever_resource",
    "speech_to_text",
    "suggested_questions",
    "suggested_questions_after_answer",
    "text_to_speech",
)
"""Keys of a configuration that apps with a graph have as features."""


_OF_CONFIG = ("model_config", "kind", "workflow")
"""Keys of the file of such an app that its graph replaces."""


def config_of(root: Mapping[str, Any]) -> Fields:
    """Return what the graph of such an app replaces: its mode and its configuration."""
    return {"mode": root["app"]["mode"], "root": {key: root[key] for key in _OF_CONFIG if key in root}}


def app_of_graph(root: Fields, config: Fields) -> Fields:
    """Return the values of the app whose graph was changed; parts that a configuration has no place for are left out.

    Args:
        root: The values of the file with the graph.
        config: What the graph replaced, of `config_of`.
    """
    kept = fields_of(config.get("root"))
    others = {key: value for key, value in root.items() if key not in _OF_CONFIG}
    app: Fields = {**others, "app": {**fields_of(root.get("app")), "mode": config.get("mode")}, **kept}
    old = _data_of(graph_of_config(app))
    new = _data_of(root)
    changed = dict(fields_of(kept.get("model_config")))
    if new["start"].get("variables") != old["start"].get("variables"):
        changed["user_input_form"] = _input_form(each_of(new["start"].get("variables")), changed)
    change = _changed_agent if _is_agent(app) else _changed_model
    return {**app, "model_config": change(changed, old["model"], new["model"])}


def _data_of(root: Fields) -> dict[str, Fields]:
    nodes = each_of(fields_of(fields_of(root.get("workflow")).get("graph")).get("nodes"))
    found = {str(node.get("id")): fields_of(node.get("data")) for node in nodes}
    return {name: found.get(name, {}) for name in ("start", "model")}


def _input_form(variables: list[Fields], config: Fields) -> list[Fields]:
    """Return the form of the inputs; those of the same name and type keep what the graph does not know."""
    known = {_start_input(each).get("variable"): each for each in each_of(config.get("user_input_form"))}
    form: list[Fields] = []
    for variable in variables:
        kind = text_of(variable.get("type"))
        item = known.get(variable.get("variable"), {})
        old_kind = next(iter(item), kind)
        others = {key: value for key, value in variable.items() if key != "type"}
        if INPUT_TYPES.get(old_kind) != INPUT_TYPES.get(kind) or not item:
            form.append({kind: others})
            continue
        old = fields_of(item[old_kind])
        changed = {
            key: others[key] for key in ("required", "default") if others.get(key) != old.get(key) and key in others
        }
        form.append({old_kind: {**old, **changed}})
    return form


def _changed_model(config: Fields, old: Fields, new: Fields) -> Fields:
    if new.get("model") != old.get("model"):
        config = {**config, "model": new.get("model")}
    prompt = each_of(new.get("prompt_template"))
    if prompt == old.get("prompt_template"):
        return config
    messages = [{"role": each.get("role"), "text": _with_placeholders(each.get("text"))} for each in prompt]
    if _completion_prompt(config):
        text = {"text": messages[0]["text"] if messages else ""}
        return {
            **config,
            "completion_prompt_config": {**fields_of(config["completion_prompt_config"]), "prompt": text},
        }
    if config.get("prompt_type") == "advanced":
        return {**config, "chat_prompt_config": {**fields_of(config.get("chat_prompt_config")), "prompt": messages}}
    return {**config, "pre_prompt": messages[0]["text"] if messages else ""}


def _changed_agent(config: Fields, old: Fields, new: Fields) -> Fields:
    mode = fields_of(config.get("agent_mode"))
    before, now = (fields_of(each.get("agent_parameters")) for each in (old, new))
    values = {name: fields_of(each).get("value") for name, each in now.items() if each != before.get(name)}
    if "model" in values:
        config = {**config, "model": values["model"]}
    if "instruction" in values:
        config = {**config, "pre_prompt": _with_placeholders(values["instruction"])}
    if "maximum_iterations" in values:
        mode = {**mode, "max_iteration": values["maximum_iterations"]}
    if "tools" in values:
        known = {each.get("tool_name"): each for each in each_of(mode.get("tools"))}
        names = [text_of(each.get("tool_name")) for each in each_of(values["tools"])]
        off = [each for each in each_of(mode.get("tools")) if not _is_on(each)]
        mode = {**mode, "tools": [*(known.get(name) or _new_tool(name) for name in names), *off]}
    if old.get("agent_strategy_name") != new.get("agent_strategy_name"):
        is_react = "react" in text_of(new.get("agent_strategy_name")).lower()
        mode = {**mode, "strategy": "react" if is_react else "function_call"}
    return {**config, "agent_mode": mode} if mode != fields_of(config.get("agent_mode")) else config


def _is_on(tool: Fields) -> bool:
    """Return True for a tool that the agent has; Dify takes an entry with fewer than four keys for no tool."""
    return bool(tool.get("enabled")) and len(tool) > 3


def _new_tool(name: str) -> Fields:
    return {"enabled": True, "provider_id": name, "provider_type": "builtin", "tool_name": name, "tool_parameters": {}}


def _is_agent(root: Fields) -> bool:
    """Return True for an app that runs as an agent: its mode or, in older files, its strategy says so."""
    mode = fields_of(fields_of(root.get("model_config")).get("agent_mode"))
    is_older = mode.get("enabled") is True and mode.get("strategy") in ("function_call", "react")
    app_mode = fields_of(root.get("app")).get("mode")
    return app_mode == "agent-chat" or (app_mode == "chat" and is_older)


def _start_input(given: Fields) -> Fields:
    kind = next(iter(given), "text-input")
    return {**fields_of(given.get(kind)), "type": kind}


def _with_references(text: Any) -> str:
    """Return a prompt with its placeholders replaced by references to inputs of the start node."""
    written = _INPUT.sub(r"{{#start.\1#}}", text_of(text or ""))
    return written.replace("{{#query#}}", "{{#sys.query#}}").replace("{{#histories#}}", "").replace("{{#context#}}", "")


def _with_placeholders(text: Any) -> str:
    """Return a prompt with references to inputs replaced by placeholders; the inverse of `_with_references`."""
    written = _REFERENCE.sub(r"{{\1}}", text_of(text or ""))
    return written.replace("{{#sys.query#}}", "{{#query#}}")


def _completion_prompt(config: Fields) -> str:
    """Return the whole prompt of a model that completes texts; empty if messages or a simple prompt are there."""
    if config.get("prompt_type") != "advanced" or fields_of(config.get("chat_prompt_config")).get("prompt"):
        return ""
    return text_of(fields_of(fields_of(config.get("completion_prompt_config")).get("prompt")).get("text") or "")


def takes_files(config: Fields) -> bool:
    """Return True if users give files to the app, which its model is shown."""
    upload = fields_of(config.get("file_upload"))
    return upload.get("enabled") is True or fields_of(upload.get("image")).get("enabled") is True


def _model_data(config: Fields, is_chat: bool) -> Fields:
    is_advanced = config.get("prompt_type") == "advanced"
    prompt: list[Fields] = [
        {"role": message.get("role"), "text": _with_references(message.get("text"))}
        for message in each_of(fields_of(config.get("chat_prompt_config")).get("prompt"))
        if is_advanced
    ]
    if not prompt and (text := _completion_prompt(config) or config.get("pre_prompt")):
        role = "system" if is_chat and not _completion_prompt(config) else "user"
        prompt = [{"role": role, "text": _with_references(text)}]
    if not is_chat and not prompt:
        prompt = [{"role": "user", "text": "{{#sys.query#}}"}]
    shows_files = takes_files(config)
    data: Fields = {
        "type": "llm",
        "title": "LLM",
        "model": config.get("model"),
        "prompt_template": prompt,
        "context": {"enabled": False, "variable_selector": []},
        "vision": {"enabled": shows_files, "configs": {"variable_selector": ["sys", "files"]}}
        if shows_files
        else {"enabled": False},
    }
    if not is_chat:
        return data
    mentions_query = any("{{#sys.query#}}" in message["text"] for message in prompt)
    memory = {"query_prompt_template": "" if mentions_query else "{{#sys.query#}}", "window": {"enabled": False}}
    return {**data, "memory": memory}


def _agent_data(config: Fields) -> Fields:
    mode = fields_of(config.get("agent_mode"))
    tools = [each for each in each_of(mode.get("tools")) if _is_on(each)]
    strategy = _strategy(config)
    params = {
        "model": {"type": "constant", "value": config.get("model")},
        "tools": {
            "type": "constant",
            "value": [{"tool_name": each.get("tool_name"), "enabled": True} for each in tools],
        },
        "instruction": {"type": "mixed", "value": _with_references(config.get("pre_prompt"))},
        "query": {"type": "mixed", "value": "{{#sys.query#}}"},
        "maximum_iterations": {"type": "constant", "value": mode.get("max_iteration") or 10},
    }
    memory = {"window": {"enabled": False}, "query_prompt_template": ""}
    return {
        "type": "agent",
        "title": "Agent",
        "agent_strategy_name": strategy,
        "agent_parameters": params,
        "memory": memory,
    }


def _strategy(config: Fields) -> str:
    """Return the strategy of an agent; where older files name none, the provider of the model decides, as in Dify."""
    named = fields_of(config.get("agent_mode")).get("strategy")
    calls = named == "function_call" or (
        named not in ("react", "cot") and "openai" in text_of(fields_of(config.get("model")).get("provider"))
    )
    return "function_calling" if calls else "ReAct"
