"""Forms of Coze's nodes that are read as node types which are written in another form.

A node that is not changed is written back as it was; a changed one is written as its own type is (`MAPPED`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from keyword import iskeyword
from typing import Any, NamedTuple

from operad.flows.formats.shapes import Fields, fields_of, list_of
from operad.integrations.coze.inputs import by_name, operad_type
from operad.integrations.coze.names import Names
from operad.integrations.coze.nodes.node_mapping import Read
from operad.operators.variables import Selector

_REFERENCE = re.compile(r"\{\{\s*block_output_(?P<node>[^.{}\s]+)\.(?P<path>[^{}\s]+)\s*\}\}")
"""Reference to a variable in an address or a body of an http node."""

_BODIES = {"JSON": "application/json", "RAW_TEXT": "text/plain"}
"""Types of bodies that are one text, with their content types; variables are put in as they are."""


class Form(NamedTuple):
    """Form of a node at Coze.

    Attributes:
        type: Operad's type.
        read: Function that turns Coze's parameters into Operad's; raises if they have another form.
    """

    type: str
    read: Read


def _read_split(given: Any, names: Names) -> Fields:
    """Return a text node that splits a text as code: by one delimiter after the other."""
    marks = by_name(given["splitParams"])["delimiters"]
    ((name, selector),) = names.arguments(given["node_inputs"])
    if given["method"] != "split" or name != "String" or not _are_texts(marks):
        raise ValueError(given["method"])
    code = (
        f"def main(String):\n    parts = [String]\n    for mark in {marks!r}:\n"
        "        parts = [each for part in parts for each in part.split(mark)]\n    return {'output': parts}\n"
    )
    return {"variables": [["String", selector]], "outputs": [["output", "array[string]"]], "code": code}


def _are_texts(values: Any) -> bool:
    return bool(list_of(values)) and all(isinstance(each, str) and each for each in list_of(values))


def _read_array_loop(given: Any, names: Names) -> Fields:
    """Return a loop over one list that shares no variables: the items are worked on one after the other."""
    (iterated,) = given["node_inputs"]
    ((_, output),) = given["node_outputs"].items()
    if given["loopType"] != "array" or given.get("variableParameters"):
        raise ValueError(given["loopType"])
    return {
        "iterator_selector": names.selector(iterated["input"]["value"]),
        "output_selector": names.selector(output["value"]["value"]),
        "concurrency": 1,
    }


def _read_subflow(given: Any, names: Names) -> Fields:
    workflow = given["workflowId"]
    if not isinstance(workflow, str) or not workflow:
        raise ValueError(workflow)
    return {
        "workflow": workflow,
        "inputs": names.arguments(given.get("node_inputs")),
        "outputs": [[name, operad_type(kind)] for name, kind in given["node_outputs"].items()],
    }


def _read_question(given: Any, names: Names) -> Fields:
    """Return a question whose answer is a text, from which no fields are extracted."""
    if given["answer_type"] != "text" or given.get("extra_output") or list(given["node_outputs"]) != ["USER_RESPONSE"]:
        raise ValueError(given["answer_type"])
    return {"question": names.text(given["question"], given.get("node_inputs")), "inputs": ["USER_RESPONSE"]}


def _read_input(given: Any, names: Names) -> Fields:
    """Return a node that asks for texts."""
    if any(operad_type(kind) != "string" for kind in given["node_outputs"].values()):
        raise ValueError(given["node_outputs"])
    wanted = list(given["node_outputs"])
    return {"question": f"Please enter: {', '.join(wanted)}", "inputs": wanted}


def _read_json(expression: str) -> Read:
    """Return the reader of a node that turns its only input into its only output by an expression in Python."""

    def read(given: Any, names: Names) -> Fields:
        ((name, selector),) = names.arguments(given["node_inputs"])
        ((output, kind),) = given["node_outputs"].items()
        code = f"import json\n\n\ndef main({name}):\n    return {{{output!r}: {expression.format(name)}}}\n"
        if not name.isidentifier() or iskeyword(name) or name == "json":
            raise ValueError(name)
        return {"variables": [[name, selector]], "outputs": [[output, operad_type(kind)]], "code": code}

    return read


def _read_assigner(given: Any, names: Names) -> Fields:
    """Return new values of the variables of the loop around."""
    assignments: list[Any] = []
    for each in given["node_inputs"]:
        value = _side(each["right"], names)
        assignments.append([_side(each["left"], names), "set", value])
    return {"assignments": assignments}


def _side(given: Any, names: Names) -> Any:
    """Return a side of a new value, which is not under a key ``input`` and has the form of a canvas."""
    value = given["value"]
    content = value["content"]
    if value["type"] == "literal":
        return content
    if value["type"] != "ref" or content.get("source", "block-output") != "block-output":
        raise ValueError(value)
    return names.selector({"path": content["name"], "ref_node": content["blockID"]})


def _read_break(given: Any, names: Names) -> Fields:
    return {}


def _read_output(given: Any, names: Names) -> Fields:
    """Return a message to the user; its text is literal, or a value on a canvas."""
    content = given["content"]
    value = fields_of(content).get("value", content)
    return {"answer": names.text(fields_of(value).get("content", value), given.get("node_inputs"))}


def _read_request(given: Any, names: Names) -> Fields:
    api, body = given["apiInfo"], fields_of(given.get("body"))
    kind, data = body.get("bodyType", "EMPTY"), fields_of(body.get("bodyData"))
    headers = "\n".join(filter(None, [_lines(given.get("headers"), names), _key(fields_of(given.get("auth")), names)]))
    parts: list[list[str]] = []
    if kind in _BODIES:
        parts = [["", _text(data["json" if kind == "JSON" else "rawText"], names)]]
        headers = "\n".join(filter(None, [headers, f"Content-Type: {_BODIES[kind]}"]))
    elif kind == "FORM_URLENCODED":
        parts = [[name, _value(value, names)] for name, value in by_name(data["formURLEncoded"]).items()]
    elif kind == "FORM_DATA":
        fields = data["formData"]["data"]
        if any(operad_type(each["input"]) == "file" for each in fields):
            raise ValueError("a file")
        parts = [[name, _value(value, names)] for name, value in by_name(fields).items()]
    elif kind != "EMPTY":
        raise ValueError(kind)
    read: Fields = {"url": _text(api["url"], names), "method": api["method"].lower(), "failure": {"then": "end"}}
    read |= {"headers": headers} if headers else {}
    read |= {"params": params} if (params := _lines(given.get("params"), names)) else {}
    written = "raw-text" if kind in _BODIES else "form-data" if kind == "FORM_DATA" else "x-www-form-urlencoded"
    return read | ({"body": [written, parts]} if parts else {})


def _key(auth: Fields, names: Names) -> str:
    """Return the header with the key of a request, which must be a variable: a key is not written in a workflow."""
    if not auth.get("authOpen"):
        return ""
    data = fields_of(auth["authData"])
    if auth["authType"] == "BEARER_AUTH":
        token = by_name(data["bearerTokenData"])["token"]
        name, value = "Authorization", f"Bearer {_value(token, names)}"
    else:
        custom = fields_of(data["customData"])
        pair = by_name(custom["data"])
        token, name = pair["Value"], pair["Key"]
        value = _value(token, names)
        if custom.get("addTo") != "header":
            raise ValueError(custom)
    if not isinstance(token, Mapping) or not isinstance(name, str) or not re.fullmatch(r"[\w-]+", name):
        raise ValueError("a key in the file")
    return f"{name}: {value}"


def _text(text: str, names: Names) -> str:
    """Return a text with the references of an http node as Operad's; other braces would be a template at Coze."""

    def referred(found: re.Match[str]) -> str:
        variable, node = names.selector({"path": found["path"], "ref_node": found["node"]})
        return Selector(variable, node).in_text

    if re.search(r"\{[{%#]", _REFERENCE.sub("", text)):
        raise ValueError("a template")
    return _REFERENCE.sub(referred, text)


def _lines(params: Any, names: Names) -> str:
    return "\n".join(f"{name}: {_value(value, names)}" for name, value in by_name(params).items())


def _value(value: Any, names: Names) -> str:
    """Return the value of a header, a query or a field of a form as a text of one line."""
    if isinstance(value, Mapping):
        variable, node = names.selector(value)
        return Selector(variable, node).in_text
    if not isinstance(value, str) or "\n" in value or "{{" in value:
        raise ValueError(value)
    return value


FORMS: Mapping[str, Sequence[Form]] = {
    "text": (Form("code", _read_split),),
    "loop": (Form("iteration", _read_array_loop),),
    "subflow": (Form("sub-workflow", _read_subflow),),
    "output": (Form("answer", _read_output),),
    "question": (Form("human-input", _read_question),),
    "http": (Form("request", _read_request),),
    "input": (Form("human-input", _read_input),),
    "json_stringify": (Form("code", _read_json("json.dumps({}, ensure_ascii=False)")),),
    "json_parse": (Form("code", _read_json("json.loads({})")),),
    "loop_set_variable": (Form("assigner", _read_assigner),),
    "break": (Form("loop-end", _read_break),),
}
"""Forms by Coze's types, which are tried after those of `MAPPED`."""
