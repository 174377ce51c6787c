"""What texts come from: document-extractor, http-request, knowledge-retrieval."""

from __future__ import annotations

import re
from collections.abc import Mapping

from operad.flows.formats.dify.nodes.mapped import Mapped, Side, picked, reference, same
from operad.flows.formats.shapes import Fields, fields_of, list_of, text_of
from operad.operators.variables import Text


def _write_document(params: Fields, side: Side) -> Fields:
    selector = params.get("variable_selector")
    several = side.kind(selector).startswith("array")
    return {"is_array_file": several, "variable_selector": side.names.write(selector)}


def _read_document(data: Fields, side: Side) -> Fields:
    return picked(data, variable_selector=side.names.read)


_ONE_REFERENCE = re.compile(r"\s*(\{\{#[^#{}]+#\}\})\s*")

_REQUEST: Fields = {
    "authorization": {"config": None, "type": "no-auth"},
    "body": {"data": [], "type": "none"},
    "headers": "",
    "method": "get",
    "params": "",
}


def _write_http(params: Fields, side: Side) -> Fields:
    url = params.get("url")
    address = reference(side.names.write(url)) if isinstance(url, list) else side.names.write_text(url)
    timeout = {"max_connect_timeout": 0, "max_read_timeout": 0, "max_write_timeout": 0}
    retry = {"max_retries": 3, "retry_enabled": False, "retry_interval": 100}
    return {**_REQUEST, **picked(params, **dict.fromkeys(_REQUEST, same)), "retry_config": retry} | {
        "timeout": timeout,
        "url": address,
        "variables": [],
    }


def _read_http(data: Fields, side: Side) -> Fields:
    url = side.names.read_text(data.get("url", ""))
    if isinstance(url, str) and _ONE_REFERENCE.fullmatch(url) and (found := Text(url).selectors):
        url = list(found[0])
    more = {
        "method": str(data.get("method", "get")).lower() != "get",
        "authorization": fields_of(data.get("authorization")).get("type", "no-auth") != "no-auth",
        "body": fields_of(data.get("body")).get("type", "none") != "none",
        "headers": bool(data.get("headers")),
        "params": bool(data.get("params")),
    }
    return {"url": url, **{key: data[key] for key, there in more.items() if there and key in data}}


def _write_knowledge(params: Fields, side: Side) -> Fields:
    name = params.get("knowledge")
    return {
        "dataset_ids": name.split(",") if isinstance(name, str) else [],
        "multiple_retrieval_config": {"reranking_enable": False, "top_k": 4},
        "query_variable_selector": side.names.write(params.get("query")),
        "retrieval_mode": "multiple",
    }


def _read_knowledge(data: Fields, side: Side) -> Fields:
    params = {"knowledge": ",".join(map(text_of, list_of(data.get("dataset_ids"))))}
    if "query_variable_selector" in data:
        params["query"] = side.names.read(data["query_variable_selector"])
    return params


SOURCES: Mapping[str, Mapped] = {
    "document-extractor": Mapped("Doc Extractor", _write_document, _read_document),
    "http-request": Mapped("HTTP Request", _write_http, _read_http),
    "knowledge-retrieval": Mapped("Knowledge Retrieval", _write_knowledge, _read_knowledge),
}
