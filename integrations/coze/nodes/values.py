"""Mappings of nodes that compute values: code, template-transform, variable-aggregator, http-request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from operad.flows.formats.shapes import Fields
from operad.integrations.coze.inputs import declared, input_of, operad_type
from operad.integrations.coze.names import Names
from operad.integrations.coze.nodes.node_mapping import NodeMapping
from operad.operators.nodes.http import HttpParams
from operad.operators.nodes.values import AggregatorParams, CodeParams, TemplateParams
from operad.operators.variables import VariableType

T = VariableType

CODE_END = """


async def main(args, ours=main):
    global main
    coze, main = main, ours
    try:
        return ours(**args.params)
    finally:
        main = coze
"""
"""Code that lets Coze call a ``main`` written for Operad. Meanwhile ``main`` is that function again, for recursion."""


def _write_code(params: CodeParams, names: Names) -> Fields:
    return {
        "code": params.code + CODE_END,
        "language": 3,
        "node_inputs": [input_of(name, names.reference(selector)) for name, selector in params.variables],
        "node_outputs": declared(params.outputs),
    }


def _read_code(given: Any, names: Names) -> Fields:
    if given["language"] != 3 or not isinstance(given["code"], str):
        raise ValueError("no Python")
    code = given["code"].removesuffix(CODE_END)
    if re.search(r"^async def main\b", code, re.MULTILINE):
        raise ValueError("main gets its inputs in one object")
    return {
        "variables": names.arguments(given.get("node_inputs")),
        "outputs": [[name, operad_type(kind)] for name, kind in given["node_outputs"].items()],
        "code": code,
    }


def _write_template(params: TemplateParams, names: Names) -> Fields:
    return {
        "concatParams": [{"name": "concatResult", "input": {"type": "string", "value": params.template}}],
        "method": "concat",
        "node_inputs": [input_of(name, names.reference(selector)) for name, selector in params.variables],
        "node_outputs": declared([("output", T.STRING)]),
    }


def _read_template(given: Any, names: Names) -> Fields:
    if given["method"] != "concat":
        raise ValueError(given["method"])
    result = next(each["input"]["value"] for each in given["concatParams"] if each["name"] == "concatResult")
    return {"variables": names.arguments(given.get("node_inputs")), "template": names.text(result, [])}


def _write_aggregator(params: AggregatorParams, names: Names) -> Fields:
    group = {"name": "output", "variables": [names.merged(selector) for selector in params.variables]}
    return {"mergeGroups": [group], "node_outputs": {"output": {"value": None}}}


def _read_aggregator(given: Any, names: Names) -> Fields:
    (group,) = given["mergeGroups"]
    return {"variables": [names.read_merged(each) for each in group["variables"]]}


def _write_http(params: HttpParams, names: Names) -> Fields:
    reference = names.reference(params.url)
    url = f"{{{{block_output_{reference['ref_node']}.{reference['path']}}}}}"
    return {
        "apiInfo": {"method": "GET", "url": url},
        "auth": {"authOpen": False},
        "body": {"bodyType": "EMPTY"},
        "node_outputs": declared([("body", T.STRING), ("statusCode", T.NUMBER), ("headers", T.STRING)]),
    }


def _read_http(given: Any, names: Names) -> Fields:
    found = re.fullmatch(r"\{\{block_output_([^.{}]+)\.([^{}]+)\}\}", given["apiInfo"]["url"])
    if found is None or given["apiInfo"]["method"] != "GET":
        raise ValueError("more than an address")
    return {"url": names.selector({"path": found[2], "ref_node": found[1]})}


VALUES: Mapping[str, NodeMapping] = {
    "code": NodeMapping("code", "icon-Code-v2.jpg", _write_code, _read_code),
    "template-transform": NodeMapping("text", "icon-StrConcat-v2.jpg", _write_template, _read_template),
    "variable-aggregator": NodeMapping("variable_merge", "VariableMerge-icon.jpg", _write_aggregator, _read_aggregator),
    "http-request": NodeMapping("http", "icon-HTTP.png", _write_http, _read_http),
}
