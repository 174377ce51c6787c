"""Forms of Coze's nodes that are read as node types which are written in another form.

A node that is not changed is written back as it was; a changed one is written as its own type is (`MAPPED`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from keyword import iskeyword
from typing import Any, NamedTuple, cast

from operad.flows.formats.shapes import Fields, fields_of, list_of
from operad.integrations.coze.constants import GLOBAL_IN_TEXT, global_input, literal_value
from operad.integrations.coze.inputs import by_name, operad_type
from operad.integrations.coze.names import Names
from operad.integrations.coze.nodes.node_mapping import Read
from operad.integrations.coze.nodes.plugins import OWN_PLUGIN
from operad.operators.variables import Selector

_REFERENCE = re.compile(
    r"\{\{\s*(?:block_output_(?P<node>[^.{}\s]+)\.(?P<path>[^{}\s]+)|" + GLOBAL_IN_TEXT.pattern + r")\s*\}\}"
)
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
        "iterator_selector": names.variable(iterated["input"]),
        "output_selector": names.variable(output["value"]),
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


OTHER = ["other", "another answer"]
"""Answer to a question with options that is none of them; Coze's port ``default``."""


def _read_question(given: Any, names: Names) -> Fields:
    """Return a question whose answer is a text, from which no fields are extracted, or one of several options."""
    question = names.text(given["question"], given.get("node_inputs"))
    if given["answer_type"] == "option" and given.get("option_type") == "dynamic":
        options = Selector(*names.variable(given["dynamic_option"])).in_text
        actions = [["option", "the option in optionContent"], OTHER]
        return {"question": f"{question}\n{options}", "actions": actions, "inputs": ["optionContent"]}
    if given["answer_type"] == "option":
        options = [each["name"] for each in given["options"]]
        if not _are_texts(options) or "{{" in "".join(options) or len({*options, OTHER[0]}) <= len(options):
            raise ValueError(options)
        return {"question": question, "actions": [*([each, each] for each in options), OTHER]}
    if given["answer_type"] != "text" or given.get("extra_output") or list(given["node_outputs"]) != ["USER_RESPONSE"]:
        raise ValueError(given["answer_type"])
    return {"question": question, "inputs": ["USER_RESPONSE"]}


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
    """Return new values of variables of the loop around, or of the user and the app."""
    return {
        "assignments": [
            [
                names.variable(each["left"]),
                "set",
                _new_value(each["right"] if "right" in each else each["input"], names),
            ]
            for each in given["node_inputs"]
        ]
    }


def _new_value(given: Any, names: Names) -> Any:
    value = given["value"]
    if not isinstance(value, Mapping) or cast("Fields", value).get("type") == "literal":
        return literal_value(given)
    return names.variable(given)


def _read_break(given: Any, names: Names) -> Fields:
    return {}


def _read_continue(given: Any, names: Names) -> Fields:
    """Return a node that does nothing: the rest of a pass is on other branches."""
    return {"variables": [], "template": ""}


def _read_output(given: Any, names: Names) -> Fields:
    """Return a message to the user; its text is literal, or a value on a canvas."""
    content = given["content"]
    value = fields_of(content).get("value", content)
    return {"answer": names.text(fields_of(value).get("content", value), given.get("node_inputs"))}


def _read_tool(given: Any, names: Names) -> Fields:
    """Return the call of a plugin as that of a tool with the same name, which the services give."""
    arguments = {each["name"]: _new_value(each["input"], names) for each in given.get("node_inputs") or ()}
    api = by_name(given["apiParam"])
    if not isinstance(api["apiName"], str) or not api["apiName"] or api.get("pluginName") == OWN_PLUGIN:
        raise ValueError(api)
    return {"tool": api["apiName"], "arguments": arguments}


def _read_knowledge(given: Any, names: Names) -> Fields:
    """Return a search in the knowledge that has the ids of the datasets as its name."""
    (query,) = given["node_inputs"]
    ids = by_name(given["datasetParam"])["datasetList"]
    return {"query": names.variable(query["input"]), "knowledge": ",".join(str(each) for each in ids)}


def _read_request(given: Any, names: Names) -> Fields:
    api, body = given["apiInfo"], fields_of(given.get("body"))
    kind, data = body.get("bodyType", "EMPTY"), fields_of(body.get("bodyData"))
    headers = "\n".join(filter(None, [_lines(given.get("headers"), names), _key(fields_of(given.get("auth")), names)]))
    parts: list[list[Any]] = []
    if kind in _BODIES:
        parts = [["", _text(data["json" if kind == "JSON" else "rawText"], names)]]
        headers = "\n".join(filter(None, [headers, f"Content-Type: {_BODIES[kind]}"]))
    elif kind == "FORM_URLENCODED":
        parts = [[each["name"], _value(each["input"], names)] for each in data["formURLEncoded"]]
    elif kind == "FORM_DATA":
        parts = [
            [each["name"], names.variable(each["input"]) if _is_file(each["input"]) else _value(each["input"], names)]
            for each in data["formData"]["data"]
        ]
    elif kind == "BINARY":
        parts = [["", names.variable(data["binary"]["fileURL"])]]
    elif kind != "EMPTY":
        raise ValueError(kind)
    read: Fields = {"url": _text(api["url"], names), "method": api["method"].lower(), "failure": {"then": "end"}}
    read |= {"headers": headers} if headers else {}
    read |= {"params": params} if (params := _lines(given.get("params"), names)) else {}
    written = "raw-text" if kind in _BODIES else _FORMS.get(kind, "x-www-form-urlencoded")
    return read | ({"body": [written, parts]} if parts else {})


_FORMS = {"FORM_DATA": "form-data", "BINARY": "binary"}


def _is_file(given: Any) -> bool:
    return "type" in given and operad_type(given) == "file"


def _key(auth: Fields, names: Names) -> str:
    """Return the header with the key of a request, which must be a variable: a key is not written in a workflow."""
    if not auth.get("authOpen"):
        return ""
    data = fields_of(auth["authData"])
    if auth["authType"] == "BEARER_AUTH":
        (token,) = (each["input"] for each in data["bearerTokenData"])
        name, value = "Authorization", f"Bearer {_value(token, names)}"
    else:
        custom = fields_of(data["customData"])
        pair = {each["name"]: each["input"] for each in custom["data"]}
        token, name = pair["Value"], literal_value(pair["Key"])
        value = _value(token, names)
        if custom.get("addTo") != "header":
            raise ValueError(custom)
    if not isinstance(token["value"], Mapping) or not isinstance(name, str) or not re.fullmatch(r"[\w-]+", name):
        raise ValueError("a key in the file")
    return f"{name}: {value}"


def _text(text: str, names: Names) -> str:
    """Return a text with the references of an http node as Operad's; other braces would be a template at Coze."""

    def referred(found: re.Match[str]) -> str:
        if found["source"]:
            return Selector(*names.variable(global_input(found["source"], found["name"]))).in_text
        return Selector(*names.selector({"path": found["path"], "ref_node": found["node"]})).in_text

    if re.search(r"\{[{%#]", _REFERENCE.sub("", text)):
        raise ValueError("a template")
    return _REFERENCE.sub(referred, text)


def read_text(mark: str, given: Any, names: Names) -> str:
    """Return a reference in a text of a node as Operad's; unchanged if it names nothing."""
    inputs = [*list_of(given.get("node_inputs")), *list_of(given.get("visionParam"))]
    try:
        return _text(mark, names) if _REFERENCE.fullmatch(mark) else names.text(mark, inputs)
    except (KeyError, TypeError, ValueError):
        return mark


def _lines(params: Any, names: Names) -> str:
    return "\n".join(f"{each['name']}: {_value(each['input'], names)}" for each in params or ())


def _value(given: Any, names: Names) -> str:
    """Return the value of a header, a query or a field of a form as a text of one line."""
    value = given["value"]
    if isinstance(value, Mapping):
        return Selector(*names.variable(given)).in_text
    if not isinstance(value, str) or "\n" in value or "{{" in value:
        raise ValueError(value)
    return value


FORMS: Mapping[str, Sequence[Form]] = {
    "text": (Form("code", _read_split),),
    "loop": (Form("iteration", _read_array_loop),),
    "subflow": (Form("sub-workflow", _read_subflow),),
    "output": (Form("answer", _read_output),),
    "end": (Form("answer", _read_output),),
    "plugin": (Form("tool", _read_tool),),
    "knowledge": (Form("knowledge-retrieval", _read_knowledge),),
    "question": (Form("human-input", _read_question),),
    "http": (Form("request", _read_request),),
    "input": (Form("human-input", _read_input),),
    "json_stringify": (Form("code", _read_json("json.dumps({}, ensure_ascii=False)")),),
    "json_parse": (Form("code", _read_json("json.loads({})")),),
    "loop_set_variable": (Form("assigner", _read_assigner),),
    "set_variable": (Form("assigner", _read_assigner),),
    "break": (Form("loop-end", _read_break),),
    "continue": (Form("template-transform", _read_continue),),
}
"""Forms by Coze's types, which are tried after those of `MAPPED`."""
