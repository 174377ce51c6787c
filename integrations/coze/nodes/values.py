"""Mappings of nodes that compute values: code, template-transform, variable-aggregator, http-request."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from keyword import iskeyword
from typing import Any

from operad.flows.formats.shapes import Fields
from operad.integrations.coze.inputs import declared, operad_type
from operad.integrations.coze.names import Names
from operad.integrations.coze.nodes.node_mapping import NodeMapping
from operad.operators.nodes.http import HttpParams
from operad.operators.nodes.values import AggregatorParams, CodeParams, Group, TemplateParams
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


CODE_START = """class Args:
    def __init__(self, params):
        self.params = params


Output = dict

"""
"""Names that Coze gives to code, before code that was written for Coze."""

_OF_COZE = re.compile(r"^(?P<is_async>async )?def main\(\s*(?P<name>\w+)\s*(?::[^,()=]*)?\)", re.MULTILINE)
"""A ``main`` that takes its inputs in one object, as Coze calls it."""


def _code_end(inputs: Sequence[str], *, is_async: bool) -> str:
    """Return the code that calls a ``main`` which was written for Coze with the inputs in one object."""
    prefix, call = ("async ", "await coze") if is_async else ("", "coze")
    given = ", ".join(f"{name!r}: {name}" for name in inputs)
    return f"\n\n{prefix}def main({', '.join([*inputs, 'coze=main'])}):\n    return {call}(Args({{{given}}}))\n"


def _code_of_coze(params: CodeParams) -> str | None:
    """Return code that was written for Coze, from what `_read_code` made of it; None for other code."""
    inputs = [name for name, _ in params.variables]
    for is_async in (True, False):
        end = _code_end(inputs, is_async=is_async)
        if params.code.startswith(CODE_START) and params.code.endswith(end):
            return params.code[len(CODE_START) : -len(end)]
    return None


_PYTHON, _JAVASCRIPT = 3, 5
"""Coze's numbers of languages."""

_JAVASCRIPT_MAIN = re.compile(
    r"^(?:export default )?(?P<head>(?:async )?function main\(\s*(?:\{[^{}]*\}|\w+))\s*(?::\s*\w+)?\s*\)(?:\s*:[^{}\n]*)?(?=\s*\{)",
    re.MULTILINE,
)
"""A ``main`` of Coze, whose types QuickJS does not read."""

_FOR_COZE = "async function main({ params }) {\n", "\nreturn await main(params);\n}\n"
_FOR_OPERAD = "async function main(params) {\n", "\nreturn await main({ params });\n}\n"
"""Functions around a ``main``, which call it as the other one does; its own name stays inside."""


def _between(code: str, ends: tuple[str, str]) -> str | None:
    """Return the code between two texts; None if it is not between them."""
    return code[len(ends[0]) : -len(ends[1])] if code.startswith(ends[0]) and code.endswith(ends[1]) else None


def _read_javascript(code: str) -> str:
    own = _between(code, _FOR_COZE)
    return own if own is not None else _JAVASCRIPT_MAIN.sub(r"\g<head>)", code).join(_FOR_OPERAD)


def _write_javascript(code: str) -> str:
    own = _between(code, _FOR_OPERAD)
    return own if own is not None else code.join(_FOR_COZE)


def _write_code(params: CodeParams, names: Names) -> Fields:
    is_python = params.language == "python"
    python = _code_of_coze(params) or params.code + CODE_END
    return {
        "code": python if is_python else _write_javascript(params.code),
        "language": _PYTHON if is_python else _JAVASCRIPT,
        "node_inputs": [names.input(name, selector) for name, selector in params.variables],
        "node_outputs": declared(params.outputs),
    }


def _read_code(given: Any, names: Names) -> Fields:
    if given["language"] not in (_PYTHON, _JAVASCRIPT) or not isinstance(given["code"], str):
        raise ValueError(given["language"])
    variables = names.arguments(given.get("node_inputs"))
    read: Fields = {
        "variables": variables,
        "outputs": [[name, operad_type(kind)] for name, kind in given["node_outputs"].items()],
    }
    if given["language"] == _JAVASCRIPT:
        return {**read, "code": _read_javascript(given["code"]), "language": "javascript"}
    code = given["code"].removesuffix(CODE_END)
    inputs = [name for name, _ in variables]
    main = _OF_COZE.search(code)
    if code == given["code"] and main and (main["is_async"] or main["name"] not in inputs):
        if not all(name.isidentifier() and not iskeyword(name) and name != "coze" for name in inputs):
            raise ValueError("an input whose name is not one of Python")
        code = CODE_START + code + _code_end(inputs, is_async=bool(main["is_async"]))
    return {**read, "code": code}


def _write_template(params: TemplateParams, names: Names) -> Fields:
    return {
        "concatParams": [{"name": "concatResult", "input": {"type": "string", "value": params.template}}],
        "method": "concat",
        "node_inputs": [names.input(name, selector) for name, selector in params.variables],
        "node_outputs": declared([("output", T.STRING)]),
    }


def _read_template(given: Any, names: Names) -> Fields:
    if given["method"] != "concat":
        raise ValueError(given["method"])
    result = next(each["input"]["value"] for each in given["concatParams"] if each["name"] == "concatResult")
    return {"variables": names.arguments(given.get("node_inputs")), "template": names.text(result, [])}


def _write_aggregator(params: AggregatorParams, names: Names) -> Fields:
    groups = params.groups or [Group("output", params.variables)]
    merged = [{"name": each.name, "variables": list(map(names.merged, each.variables))} for each in groups]
    return {"mergeGroups": merged, "node_outputs": {each.name: {"value": None} for each in groups}}


def _read_aggregator(given: Any, names: Names) -> Fields:
    groups = [(group["name"], [names.variable(each) for each in group["variables"]]) for group in given["mergeGroups"]]
    return (
        {"variables": groups[0][1]} if len(groups) == 1 else {"variables": [], "groups": [[*each] for each in groups]}
    )


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
