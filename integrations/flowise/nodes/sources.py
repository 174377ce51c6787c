"""Nodes that ask other systems: HTTP, tool, retriever, execute flow."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

from operad.flows.formats.shapes import Fields, each_of, fields_of, is_selector, json_or_text, list_of, pairs_of
from operad.integrations.flowise.names import QUESTION, WrittenNames, content
from operad.integrations.flowise.nodes.models import of_variable, tool_remarks
from operad.integrations.flowise.nodes.reading import Message, Reading, only_variable
from operad.operators.variables import Selector, Text

_BODIES = {"json": "json", "raw": "raw-text", "formData": "form-data", "xWwwFormUrlencoded": "x-www-form-urlencoded"}
"""Operad's types of bodies by Flowise's."""


def read_http(reading: Reading) -> None:
    """Add the nodes for an HTTP node: the request, and the value of its JSON if it is needed."""
    inputs = reading.inputs
    method = str(inputs.get("method") or "GET")
    url, query = reading.text("url"), _pairs(reading, "queryParams")
    if "?" in url and query:  # Operad's query takes the place of the address's own
        address, _, own = url.partition("?")
        url, query = address, [*map(list, parse_qsl(own, keep_blank_values=True)), *query]
    params: Fields = {"url": url, "method": method.lower(), "failure": {"then": "end"}}
    for field, pairs in (("headers", _pairs(reading, "headers")), ("params", query)):
        if pairs:
            params[field] = "\n".join(f"{name}: {value}" for name, value in pairs)
    kind = _BODIES.get(str(inputs.get("bodyType") or ""))
    if kind and method != "GET" and inputs.get("body"):
        pairs = isinstance(inputs["body"], list)
        parts = _pairs(reading, "body") if pairs else [["", reading.text("body")]]
        params["body"] = [kind, parts]
    if reading.node.fields["data"].get("credential"):
        reading.remark("credential", "is not sent; name the key as authorization: secret of the request node")
    if (given := inputs.get("responseType")) in ("arraybuffer", "base64"):
        reading.remark("responseType", f"{given}: an answer other than text is a file here")
    node_id = reading.add("request", params)
    if reading.file.mentions(node_id):
        expression = "a" if inputs.get("responseType") == "text" else "data(a)"
        reading.compute("data", "data", "any", expression, Selector("body", node_id))


def _pairs(reading: Reading, field: str) -> list[list[str]]:
    found: list[list[str]] = []
    for number, each in enumerate(each_of(reading.inputs.get(field))):
        value = reading.text(f"{field}[{number}].value", each.get("value", ""), of=field)
        if (key := str(each.get("key") or "")) and value:
            found.append([key, value])
    return found


def write_http(params: Fields, names: WrittenNames) -> Fields:
    """Return the dialog of an HTTP node."""
    url = params.get("url")
    written: Fields = {
        "method": str(params.get("method", "get")).upper(),
        "url": of_variable(url, names) if is_selector(url) else names.text(str(url or "")),
    }
    for field, name in (("headers", "headers"), ("queryParams", "params")):
        lines = [line.partition(":") for line in str(params.get(name) or "").splitlines() if line.strip()]
        written[field] = [{"key": key.strip(), "value": names.text(value.strip())} for key, _, value in lines]
    match params.get("body"):
        case [str() as kind, list()]:
            pairs = pairs_of(list_of(params["body"])[1])
            written["bodyType"] = {ours: theirs for theirs, ours in _BODIES.items()}.get(kind, "raw")
            alone = kind in ("json", "raw-text", "binary")
            listed = [{"key": name, "value": _written_value(value, names)} for name, value in pairs]
            written["body"] = "".join(each["value"] for each in listed) if alone else listed
        case _:
            pass
    return written


def _written_value(value: Any, names: WrittenNames) -> str:
    return of_variable(value, names) if is_selector(value) else names.text(str(value))


def read_tool(reading: Reading) -> None:
    """Add the nodes for a tool node."""
    tool = str(reading.inputs.get("toolAgentflowSelectedTool") or "")
    arguments: Fields = {}
    for number, each in enumerate(each_of(reading.inputs.get("toolInputArgs"))):
        name, place = str(each.get("inputArgName") or ""), f"toolInputArgs[{number}].inputArgValue"
        text = reading.text(place, each.get("inputArgValue", ""), of="toolInputArgs")
        if named := only_variable(text):
            arguments[name] = list(named)
        else:
            value = json_or_text(text) if not Text(text).selectors and text[:1] in ("[", "{") else text
            arguments[name] = reading.value(text, f"input{number}") if is_selector(value) else value
    tool_remarks(reading, "toolAgentflowSelectedTool", tool, reading.inputs)
    reading.add("tool", {"tool": tool, "arguments": {name: value for name, value in arguments.items() if name}})
    reading.update_state("toolUpdateState")


def write_tool(params: Fields, names: WrittenNames) -> Fields:
    """Return the dialog of a tool node."""
    return {
        "toolAgentflowSelectedTool": params.get("tool", ""),
        "toolAgentflowSelectedToolConfig": {},
        "toolInputArgs": [
            {"inputArgName": name, "inputArgValue": _written_value(value, names)}
            for name, value in fields_of(params.get("arguments")).items()
        ],
    }


def read_retriever(reading: Reading) -> None:
    """Add the nodes for a retriever: the passages, and their text."""
    stores = [
        str(each.get("documentStore") or "") for each in each_of(reading.inputs.get("retrieverKnowledgeDocumentStores"))
    ]
    name = (stores or [""])[-1].rpartition(":")[2]
    field = "retrieverKnowledgeDocumentStores"
    reading.remark(field, f"name a folder of documents {name!r} by `knowledge` of the services", lossy=False)
    if len(stores) > 1:
        reading.remark(field, "as in Flowise, the passages are those of the last store", lossy=False)
    query = reading.value(reading.text("retrieverQuery") or reading.names.message, "query")
    node_id = reading.add("knowledge-retrieval", {"query": query, "knowledge": name})
    with_metadata = reading.inputs.get("outputFormat") == "textWithMetadata"
    if with_metadata:
        reading.remark("outputFormat", "the metadata of a passage are its source and score")
    text = (
        "json.dumps(a, indent=2, ensure_ascii=False)" if with_metadata else "'\\n'.join(each['content'] for each in a)"
    )
    reading.compute("content", "content", "string", text, Selector("result", node_id))
    reading.update_state("retrieverUpdateState")


def write_retriever(params: Fields, names: WrittenNames) -> Fields:
    """Return the dialog of a retriever."""
    return {
        "retrieverKnowledgeDocumentStores": [{"documentStore": params.get("knowledge", "")}],
        "retrieverQuery": of_variable(params.get("query"), names),
        "outputFormat": "text",
    }


def read_execute(reading: Reading) -> None:
    """Add the nodes for an execute flow node."""
    flow = str(reading.inputs.get("executeFlowSelectedFlow") or "")
    reading.remark("executeFlowSelectedFlow", f"name the flow {flow!r} by `workflows` of the services", lossy=False)
    text = reading.text("executeFlowInput")
    for field in ("executeFlowOverrideConfig", "executeFlowBaseURL"):
        if reading.inputs.get(field) not in (None, "", {}):
            reading.remark(field, "is not passed on: the workflow runs here, as its file is")
    inputs = [[QUESTION, reading.value(text, "input")]] if text else []
    reading.add("sub-workflow", {"workflow": flow, "inputs": inputs, "outputs": [["answer", "string"]]})
    if not reading.history:
        reading.told.append(Message("user", text))
    role = "assistant" if reading.inputs.get("executeFlowReturnResponseAs") == "assistantMessage" else "user"
    answer = content(reading.node)
    reading.told += [Message(role, answer.in_text)] if answer else []
    reading.update_state("executeFlowUpdateState")


def write_execute(params: Fields, names: WrittenNames) -> Fields:
    """Return the dialog of an execute flow node."""
    inputs = pairs_of(params.get("inputs"))
    return {
        "executeFlowSelectedFlow": params.get("workflow", ""),
        "executeFlowInput": "\n".join(of_variable(value, names) for _, value in inputs),
        "executeFlowReturnResponseAs": "userMessage",
    }
