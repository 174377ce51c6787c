"""Mappings of nodes that get texts: document-extractor, http-request, knowledge-retrieval."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from operad.flows.formats.shapes import Fields, each_of, fields_of, is_selector, list_of, pairs_of, text_of
from operad.integrations.dify.nodes.node_mapping import NodeContext, NodeMapping, convert_fields, reference
from operad.operators.variables import Text
from operad.runtime.values.secret import Secret


def _write_document(params: Fields, node_context: NodeContext) -> Fields:
    selector = params.get("variable_selector")
    several = node_context.kind(selector).startswith("array")
    return {"is_array_file": several, "variable_selector": node_context.names.write(selector)}


def _read_document(data: Fields, node_context: NodeContext) -> Fields:
    return convert_fields(data, variable_selector=node_context.names.read)


_ONE_REFERENCE = re.compile(r"\s*(\{\{#[^#{}]+#\}\})\s*")


def _write_http(params: Fields, node_context: NodeContext) -> Fields:
    url = params.get("url")
    address = (
        reference(node_context.names.write(url))
        if isinstance(url, list)
        else node_context.names.write_request_text(url)
    )
    timeout = {"max_connect_timeout": 0, "max_read_timeout": 0, "max_write_timeout": 0}
    if params.get("timeout"):
        timeout |= {"connect": params["timeout"], "read": params["timeout"]}
    retry = {"max_retries": 3, "retry_enabled": False, "retry_interval": 100}
    return {
        "authorization": _write_authorization(list_of(params.get("authorization")), node_context),
        "body": _write_body(list_of(params.get("body")), node_context),
        "headers": node_context.names.write_request_text(params.get("headers", "")),
        "method": params.get("method", "get"),
        "params": node_context.names.write_request_text(params.get("params", "")),
        "retry_config": retry,
        "timeout": timeout,
        "url": address,
        "variables": [],
    }


def http_type(data: Fields) -> str:
    """Return Operad's type of a request: ``http-request`` if it only gets a URL from one variable, else ``request``."""
    only_gets = str(data.get("method", "get")).lower() == "get" and not (data.get("headers") or data.get("params"))
    has_no_key = fields_of(data.get("authorization")).get("type", "no-auth") == "no-auth"
    has_no_body = fields_of(data.get("body")).get("type", "none") in ("none", "", None)
    limits = fields_of(data.get("timeout"))
    has_no_limits = not any(limits.get(name) for name in ("connect", "read", "write"))
    url = data.get("url")
    is_variable = isinstance(url, str) and _ONE_REFERENCE.fullmatch(url) is not None
    return "http-request" if only_gets and has_no_key and has_no_body and has_no_limits and is_variable else "request"


def _write_authorization(key: list[Any], node_context: NodeContext) -> Fields:
    if not key:
        return {"config": None, "type": "no-auth"}
    kind, text, header = [*key, "", "Authorization"][:3] if len(key) < 3 else key[:3]
    if len(key) > 3 and isinstance(key[3], str) and key[3]:
        text = Secret(key[3]).in_text
    text = node_context.names.write_request_text(text)
    return {"config": {"api_key": text, "header": header, "type": kind}, "type": "api-key"}


def _write_body(body: list[Any], node_context: NodeContext) -> Fields:
    if len(body) < 2:
        return {"data": [], "type": "none"}
    parts: list[Fields] = []
    for name, value in pairs_of(body[1]):
        if is_selector(value):
            parts.append({"file": node_context.names.write(value), "key": name, "type": "file", "value": ""})
        else:
            parts.append({"key": name, "type": "text", "value": node_context.names.write_request_text(value)})
    return {"data": parts, "type": body[0]}


def _read_http(data: Fields, node_context: NodeContext) -> Fields:
    url = node_context.names.read_request_text(data.get("url", ""))
    if isinstance(url, str) and _ONE_REFERENCE.fullmatch(url) and (found := Text(url).selectors):
        url = list(found[0])
    params: Fields = {"url": url}
    if (method := str(data.get("method", "get")).lower()) != "get":
        params["method"] = method
    params |= {
        name: node_context.names.read_request_text(data[name]) for name in ("headers", "params") if data.get(name)
    }
    authorization = fields_of(data.get("authorization"))
    if authorization.get("type", "no-auth") != "no-auth":
        config = fields_of(authorization.get("config"))
        key = [config.get("type"), node_context.names.read_request_text(config.get("api_key", ""))]
        params["authorization"] = [*key, config["header"]] if config.get("header") else key
    body = fields_of(data.get("body"))
    if body.get("type", "none") not in ("none", "", None):
        params["body"] = [body.get("type"), _read_parts(body.get("data"), node_context)]
    limits = fields_of(data.get("timeout"))
    seconds = [value for name in ("connect", "read", "write") if isinstance(value := limits.get(name), int | float)]
    return {**params, "timeout": sum(seconds)} if sum(seconds) > 0 else params


def _read_parts(data: Any, node_context: NodeContext) -> list[list[Any]]:
    """Return the parts of a body as ``[name, value]``; older files write the body as one text."""
    if isinstance(data, str):
        return [["", node_context.names.read_request_text(data)]]
    parts: list[list[Any]] = []
    for part in each_of(data):
        file = list_of(part.get("file"))
        is_file = part.get("type") == "file" or (file and not part.get("value"))
        value = (
            node_context.names.read(file) if is_file else node_context.names.read_request_text(part.get("value", ""))
        )
        parts.append([node_context.names.read_request_text(part.get("key", "")), value])
    return parts


def _write_knowledge(params: Fields, node_context: NodeContext) -> Fields:
    name = params.get("knowledge")
    return {
        "dataset_ids": name.split(",") if isinstance(name, str) else [],
        "multiple_retrieval_config": {"reranking_enable": False, "top_k": 4},
        "query_variable_selector": node_context.names.write(params.get("query")),
        "retrieval_mode": "multiple",
    }


def _read_knowledge(data: Fields, node_context: NodeContext) -> Fields:
    params = {"knowledge": ",".join(map(text_of, list_of(data.get("dataset_ids"))))}
    if "query_variable_selector" in data:
        params["query"] = node_context.names.read(data["query_variable_selector"])
    return params


SOURCES: Mapping[str, NodeMapping] = {
    "document-extractor": NodeMapping("Doc Extractor", _write_document, _read_document),
    "http-request": NodeMapping("HTTP Request", _write_http, _read_http),
    "request": NodeMapping("HTTP Request", _write_http, _read_http, "http-request"),
    "knowledge-retrieval": NodeMapping("Knowledge Retrieval", _write_knowledge, _read_knowledge),
}
