"""Nodes that ask models or people: llm, agent, condition agent, human input."""

from __future__ import annotations

import json
from math import ceil
from typing import Any

from operad.flows.formats.shapes import Fields, each_of, fields_of, json_or_text, list_of, pairs_of
from operad.integrations.flowise.names import WrittenNames, content, structured
from operad.integrations.flowise.nodes.reading import Message, Reading

_SAMPLING = {
    "temperature": "temperature",
    "maxTokens": "max_tokens",
    "topP": "top_p",
    "topK": "top_k",
    "frequencyPenalty": "frequency_penalty",
    "presencePenalty": "presence_penalty",
}
"""Operad's names of parameters of models."""

_TYPES = {"stringArray": {"type": "array", "items": {"type": "string"}}, "number": {"type": "number"},
          "boolean": {"type": "boolean"}}  # fmt: skip


def _model(reading: Reading, field: str) -> Fields:
    """Return the name and the sampling parameters of a model."""
    config = fields_of(reading.inputs.get(f"{field}Config"))
    name = next((each for key in ("modelName", "model") if isinstance(each := config.get(key), str) and each), "")
    if model := reading.inputs.get(field):
        says = "the model of the run is asked, unless `models` of the services has its name"
        reading.remark(field, f"{name or model}: {says}; no credential of Flowise is used", lossy=False)
    sampling: Fields = {}
    for key, operad_name in _SAMPLING.items():
        value = json_or_text(config[key]) if isinstance(config.get(key), str) else config.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            sampling[operad_name] = value
    return ({"model_name": name} if name else {}) | ({"sampling": sampling} if sampling else {})


def _schema(reading: Reading, field: str) -> Fields | None:
    """Return the JSON Schema of an answer; None for an answer in words."""
    properties: Fields = {}
    for number, each in enumerate(each_of(reading.inputs.get(field))):
        kind, described = each.get("type"), {"description": each["description"]} if each.get("description") else {}
        schema: Fields = {"type": "string"}
        if kind == "enum":
            schema = {
                "type": "string",
                "enum": [v.strip() for v in str(each.get("enumValues") or "default").split(",")],
            }
        elif kind == "jsonArray":
            inner = json_or_text(each["jsonSchema"]) if isinstance(each.get("jsonSchema"), str) else None
            schema = {"type": "array", "items": _object(inner) if isinstance(inner, dict) else {"type": "object"}}
        elif isinstance(kind, str) and kind in _TYPES:
            schema = dict(_TYPES[kind])
        elif kind != "string":
            reading.remark(f"{field}[{number}].type", f"the type {kind!r} is unknown; a text is asked for")
        properties[str(each.get("key"))] = {**schema, **described}
    if not properties:
        return None
    return {"type": "object", "properties": properties, "required": list(properties)}


def _object(fields: Any, depth: int = 0) -> Fields:
    """Return the JSON Schema of an object whose fields Flowise describes by name."""
    properties: Fields = {}
    required: list[str] = []
    for name, each in fields_of(fields).items():
        given = fields_of(each)
        kind = given.get("type")
        schema: Fields = {"type": kind} if kind in ("string", "number", "boolean", "array", "object") else {}
        if depth < 10 and kind == "array" and isinstance(given.get("items"), dict):
            items = given["items"]
            schema["items"] = _object(
                items.get("properties", items) if items.get("type") == "object" else items, depth + 1
            )
        if depth < 10 and kind == "object" and isinstance(given.get("properties"), dict):
            schema = _object(given["properties"], depth + 1)
        properties[name] = schema | ({"description": given["description"]} if given.get("description") else {})
        required += [] if given.get("optional") is True else [name]
    return {"type": "object", "properties": properties, "required": required}


def _conversation(reading: Reading, prefix: str) -> tuple[list[Message], list[Any] | None]:
    """Return the messages of a prompt, and the memory as Operad's parameter; None without memory."""
    field = f"{prefix}Messages"
    messages: list[Message] = []
    for number, each in enumerate(each_of(reading.inputs.get(field))):
        text = reading.text(f"{field}[{number}].content", each.get("content", ""), of=field)
        if (role := str(each.get("role"))) and text:
            message = Message("system" if role == "developer" else role, text)
            messages.insert(0, message) if role == "system" else messages.append(message)
    own_question = not reading.history
    question = Message("user", reading.names.message)
    asks = [each for each in messages if each.role == "user"]
    if reading.inputs.get(f"{prefix}EnableMemory") is not True:
        if own_question and not asks:
            messages.append(question)
        if own_question:
            reading.told += asks or [question]
        return messages, None
    if own_question:
        reading.told.append(question)
    now = [*reading.history, *([question] if own_question else [])]
    turns: int | None = None if reading.past else 0
    kind = reading.inputs.get(f"{prefix}MemoryType") or "allMessages"
    if kind == "windowSize" and reading.past:
        size = json_or_text(str(reading.inputs.get(f"{prefix}MemoryWindowSize") or 20))
        window = int(size) if isinstance(size, int | float) else 20
        turns = max(0, ceil((2 * window - len(now) - 1) / 2))
        now = now[-2 * window :] if window else now
        reading.remark(
            f"{prefix}MemoryWindowSize", "whole exchanges are shown: a question with its answer", lossy=False
        )
    elif kind != "allMessages":
        reading.remark(f"{prefix}MemoryType", "the earlier messages themselves are shown, not a summary of them")
    reading.remark_changed(f"{prefix}EnableMemory", now)
    query = reading.text(f"{prefix}UserMessage")
    if not query and now[-1:] and now[-1].role == "user":
        query = now.pop().text
    memory: list[Any] = [turns, query]
    return messages, [*memory, [list(each) for each in now]] if now else memory


def _tell(reading: Reading, prefix: str) -> None:
    """Add the answer of the node to the messages of the run."""
    role = "assistant" if reading.inputs.get(f"{prefix}ReturnResponseAs") == "assistantMessage" else "user"
    answer = content(reading.node)
    reading.told += [Message(role, answer.in_text)] if answer else []


def read_llm(reading: Reading) -> None:
    """Add the nodes for an llm node."""
    messages, memory = _conversation(reading, "llm")
    roles = [each.role for each in messages]
    params: Fields = {"system": "", "user": ""}
    if roles in (["system"], ["user"], ["system", "user"], []):
        params |= {each.role: each.text for each in messages}
    else:
        params["messages"] = [list(each) for each in messages]
    params |= {"memory": memory} if memory else {}
    if schema := _schema(reading, "llmStructuredOutput"):
        params["output_schema"] = schema
    node_id = reading.add("llm", params | _model(reading, "llmModel"))
    if structured(reading.node) and (answer := content(reading.node)):
        whole = type(answer)("structured_output", node_id)
        reading.compute("content", "content", "string", "json.dumps(a, indent=2, ensure_ascii=False)", whole)
    _tell(reading, "llm")
    reading.update_state("llmUpdateState")


def read_agent(reading: Reading) -> None:
    """Add the nodes for an agent node."""
    messages, memory = _conversation(reading, "agent")
    systems = [each.text for each in messages if each.role == "system"]
    others = [list(each) for each in messages if each.role != "system"]
    if memory is not None and others:
        reading.remark("agentMessages", "those of the user and the assistant follow the earlier turns", lossy=False)
    turns, query, *rest = memory or [0, ""]
    now: list[Any] = [*others, *list_of(rest[0] if rest else [])]
    if not query and now and now[-1][0] == "user":
        query = now.pop()[1]
    tools: list[str] = []
    for number, each in enumerate(each_of(reading.inputs.get("agentTools"))):
        if tool := str(each.get("agentSelectedTool") or ""):
            tools.append(tool)
            tool_remarks(reading, f"agentTools[{number}].agentSelectedTool", tool, each)
            if each.get("agentSelectedToolRequiresHumanInput") is True:
                says = "the tool is called without asking a person; add a human-input node before"
                reading.remark(f"agentTools[{number}].agentSelectedToolRequiresHumanInput", says)
    params: Fields = {
        "instruction": "\n\n".join(systems),
        "query": query or reading.names.message,
        "tools": list(dict.fromkeys(tools)),
    }
    if memory is not None or now:
        params["memory"] = [turns, "", now] if now else [turns]
    reading.add("agent", params | _model(reading, "agentModel"))
    _tell(reading, "agent")
    reading.update_state("agentUpdateState")


def tool_remarks(reading: Reading, field: str, tool: str, given: Fields) -> None:
    """Add the remarks on a tool, which Flowise has and the services name here; `given` has its settings."""
    reading.remark(field, f"name a tool {tool!r} by `tools` of the services", lossy=False)
    config = fields_of(given.get(f"{field.rpartition('.')[2]}Config"))
    settings = [key for key, value in config.items() if value not in ("", None) and key != field.rpartition(".")[2]]
    if settings:
        says = f"settings of Flowise's tool, which the tool here does not get: {', '.join(settings)}"
        reading.remark(f"{field}Config", says, lossy=False)


def read_classifier(reading: Reading) -> None:
    """Add the nodes for a condition agent."""
    text = reading.text("conditionAgentInput") or reading.names.message
    query = reading.value(text, "input")
    params: Fields = {
        "query_variable_selector": query,
        "classes": [str(each.get("scenario", "")) for each in each_of(reading.inputs.get("conditionAgentScenarios"))],
    }
    if instruction := reading.text("conditionAgentInstructions"):
        params["instruction"] = instruction
    reading.add("question-classifier", params | _model(reading, "conditionAgentModel"))
    if not reading.history:
        reading.told.append(Message("user", reading.names.message))


def read_human(reading: Reading) -> None:
    """Add the nodes for a human input: a model writes the question first if it is dynamic."""
    last = reading.history[-1].text if reading.history else reading.names.message
    if reading.inputs.get("humanInputDescriptionType") == "dynamic":
        reading.remark_changed("humanInputModelPrompt", reading.history)
        now = [list(each) for each in reading.history] or [["user", reading.names.message]]
        prompt = reading.text("humanInputModelPrompt") or "Summarize the conversation, and ask whether to proceed."
        params: Fields = {"system": "", "user": "", "memory": [None if reading.past else 0, prompt, now]}
        asking = reading.add("llm", params | _model(reading, "humanInputModel"), "question")
        question = f"{{{{#{asking}.text#}}}}"
    else:
        reading.remark_changed("humanInputDescription", reading.history[-1:])
        question = f"{last}\n\n{reading.text('humanInputDescription') or 'Do you want to proceed?'}"
    feedback = reading.inputs.get("humanInputEnableFeedback") is True
    inputs: Fields = {"inputs": ["feedback"]} if feedback else {}
    node_id = reading.add(
        "human-input", {"question": question, "actions": [["proceed", "Proceed"], ["reject", "Reject"]], **inputs}
    )
    reading.restarts = True  # Flowise goes on in a new run, which knows what was said as earlier turns
    reading.told = [Message("user", reading.names.message), Message("assistant", question)]
    reading.told += [Message("user", f"{{{{#{node_id}.feedback#}}}}")] if feedback else []


# From Operad


def _write_model(params: Fields, prefix: str) -> Fields:
    sampling = fields_of(params.get("sampling"))
    config: Fields = {"modelName": params["model_name"]} if params.get("model_name") else {}
    config |= {key: sampling[name] for key, name in _SAMPLING.items() if name in sampling}
    return {f"{prefix}Model": "chatOpenAI", f"{prefix}ModelConfig": {"llmModel": "chatOpenAI", **config}}


def _write_memory(params: Fields, prefix: str, names: WrittenNames) -> Fields:
    turns, query, *_ = [*list_of(params.get("memory")), None, ""]
    if not isinstance(params.get("memory"), list):
        return {f"{prefix}EnableMemory": False}
    window: Fields = {f"{prefix}MemoryType": "allMessages"}
    if isinstance(turns, int):
        window = {f"{prefix}MemoryType": "windowSize", f"{prefix}MemoryWindowSize": str(turns)}
    said = names.text(query) if isinstance(query, str) else ""
    return {f"{prefix}EnableMemory": True, **window, f"{prefix}UserMessage": "" if said == "{{question}}" else said}


def _message(role: str, text: Any, names: WrittenNames) -> Fields:
    return {"role": role, "content": names.text(text) if isinstance(text, str) else text}


def write_llm(params: Fields, names: WrittenNames) -> Fields:
    """Return the dialog of an llm node."""
    listed = pairs_of(params.get("messages"))
    messages = listed or [["system", params.get("system", "")], ["user", params.get("user", "")]]
    written: Fields = {
        **_write_model(params, "llm"),
        "llmMessages": [_message(role, text, names) for role, text in messages if text],
        **_write_memory(params, "llm", names),
        "llmReturnResponseAs": "userMessage",
    }
    if schema := fields_of(params.get("output_schema")):
        written["llmStructuredOutput"] = [
            _write_property(*each) for each in fields_of(schema.get("properties")).items()
        ]
    return written


def _write_property(name: str, schema: Any) -> Fields:
    given = fields_of(schema)
    written: Fields = {"key": name, "type": "string", "description": given.get("description", "")}
    items = fields_of(given.get("items"))
    if "enum" in given:
        return written | {"type": "enum", "enumValues": ", ".join(map(str, list_of(given["enum"])))}
    if given.get("type") == "array":
        if items.get("type") == "string":
            return written | {"type": "stringArray"}
        return written | {"type": "jsonArray", "jsonSchema": json.dumps(fields_of(items.get("properties")), indent=4)}
    return written | ({"type": given["type"]} if given.get("type") in ("number", "boolean") else {})


def write_agent(params: Fields, names: WrittenNames) -> Fields:
    """Return the dialog of an agent node."""
    messages = [["system", params.get("instruction", "")], ["user", params.get("query", "")]]
    return {
        **_write_model(params, "agent"),
        "agentMessages": [_message(role, text, names) for role, text in messages if text],
        "agentTools": [
            {"agentSelectedTool": each, "agentSelectedToolConfig": {}} for each in list_of(params.get("tools"))
        ],
        **_write_memory(params, "agent", names),
        "agentReturnResponseAs": "userMessage",
    }


def write_classifier(params: Fields, names: WrittenNames) -> Fields:
    """Return the dialog of a condition agent."""
    return {
        **_write_model(params, "conditionAgent"),
        "conditionAgentInstructions": names.text(str(params.get("instruction", ""))),
        "conditionAgentInput": of_variable(params.get("query_variable_selector"), names),
        "conditionAgentScenarios": [{"scenario": each} for each in list_of(params.get("classes"))],
    }


def of_variable(selector: Any, names: WrittenNames) -> str:
    """Return Flowise's reference to a variable, ``[variable, id]``; empty for other values."""
    match selector:
        case [str() as variable, str() as node]:
            return names.text(f"{{{{#{node}.{variable}#}}}}")
        case _:
            return ""


def write_human(params: Fields, names: WrittenNames) -> Fields:
    """Return the dialog of a human input."""
    return {
        "humanInputDescriptionType": "fixed",
        "humanInputDescription": names.text(str(params.get("question", ""))),
        "humanInputEnableFeedback": params.get("inputs") == ["feedback"],
    }
