"""Each node type's parameters as Dify's ``data``, and back.

Both ways read what they can of what is there: nothing of it need be right. What a node does there and cannot do here
(a POST, groups of an aggregator) becomes a parameter that our type does not have, so that the check refuses it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast
from uuid import NAMESPACE_URL, uuid5

from operad.operators.conditions import normal
from operad.operators.formats.dify.names import OUTSIDE, Names, outside_type, references
from operad.operators.formats.dify.plugins import Plugins
from operad.operators.variables import Selector, VariableType

T = VariableType
Fields = dict[str, Any]


@dataclass(frozen=True)
class Side:
    """What it takes to write or read a node.

    Attributes:
        id: Its id there.
        names: References.
        type_of: The type of a variable.
        plugins: What stands behind node types.
        begins: The id there of what begins the nodes inside of it.
    """

    id: str
    names: Names
    type_of: Callable[[Selector], VariableType]
    plugins: Plugins
    begins: str = ""

    def kind(self, selector: Any) -> str:
        """The type of a variable, as it is called there; that of texts where nothing is known."""
        match selector:
            case [str() as variable, str() as node]:
                kind = self.type_of(Selector(variable, node))
                return {T.ANY: T.STRING, T.ARRAY: T.ARRAY_STRING}.get(kind, kind).value
            case _:
                return "string"

    def uuid(self, *parts: object) -> str:
        """An id for a part of the node: always the same for it."""
        return str(uuid5(NAMESPACE_URL, "/".join(map(str, ("operad:dify", self.id, *parts)))))


@dataclass(frozen=True)
class Mapped:
    """How a node type is written.

    Attributes:
        title: What people see.
        write: Makes data of parameters.
        read: Makes parameters of data.
        type: What it is called there.
    """

    title: str
    write: Callable[[Fields, Side], Fields]
    read: Callable[[Fields, Side], Fields]
    type: str = ""


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _fields(value: Any) -> Fields:
    return cast("Fields", value) if isinstance(value, dict) else {}


def _each(value: Any) -> list[Fields]:
    return [_fields(item) for item in _list(value) if isinstance(item, dict)]


def text_of(value: Any) -> str:
    """A value as text; of what is none, the same one for every order of its keys."""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=repr)


def _pairs(value: Any, size: int = 2) -> list[list[Any]]:
    return [item for item in map(_list, _list(value)) if len(item) == size]


def _picked(fields: Fields, **ways: Callable[[Any], Any]) -> Fields:
    """Those of the fields that are there, each changed."""
    return {key: way(fields[key]) for key, way in ways.items() if key in fields}


def _same(value: Any) -> Any:
    return value


# start, end, answer

INPUTS: Mapping[str, str] = {
    "string": "paragraph",
    "number": "number",
    "boolean": "checkbox",
    "object": "json_object",
    "file": "file",
    "array[file]": "file-list",
}
"""What inputs of our types are called there."""

_OF_INPUTS = {
    **{theirs: ours for ours, theirs in INPUTS.items()},
    "text-input": "string",
    "select": "string",
    "external_data_tool": "string",
    "url": "string",
    "files": "array[file]",
}
_FROM_OUTSIDE = tuple(f"{each}." for each in OUTSIDE)


def _write_start(params: Fields, side: Side) -> Fields:
    return {"variables": [_input(name, kind) for name, kind in _pairs(params.get("variables")) if _is_inner(name)]}


def _is_inner(name: Any) -> bool:
    return isinstance(name, str) and not name.startswith(_FROM_OUTSIDE)


def _input(name: str, kind: Any) -> Fields:
    data: Fields = {
        "label": name,
        "max_length": None,
        "options": [],
        "required": True,
        "type": INPUTS.get(str(kind), "paragraph"),
        "variable": name,
    }
    if data["type"].startswith("file"):
        data["allowed_file_extensions"] = []
        data["allowed_file_types"] = ["image", "document", "audio", "video"]
        data["allowed_file_upload_methods"] = ["local_file", "remote_url"]
        data["max_length"] = 10 if data["type"] == "file-list" else None
    return data


def _read_start(data: Fields, side: Side) -> Fields:
    own = [
        [variable.get("variable"), _OF_INPUTS.get(str(variable.get("type")), variable.get("type"))]
        for variable in _each(data.get("variables"))
    ]
    return {"variables": [*own, *([name, outside_type(name)] for name in side.names.outside)]}


def _write_end(params: Fields, side: Side) -> Fields:
    return {
        "outputs": [
            {"value_selector": side.names.write(value), "value_type": side.kind(value), "variable": name}
            for name, value in _pairs(params.get("outputs"))
        ]
    }


def _read_end(data: Fields, side: Side) -> Fields:
    return {
        "outputs": [
            [each.get("variable"), side.names.read(each.get("value_selector"))] for each in _each(data.get("outputs"))
        ]
    }


def _write_answer(params: Fields, side: Side) -> Fields:
    return {"answer": side.names.write_text(params.get("answer", "")), "variables": []}


def _read_answer(data: Fields, side: Side) -> Fields:
    return _picked(data, answer=side.names.read_text)


# llm, question-classifier, parameter-extractor


def _model(kind: str, side: Side) -> Fields:
    model = side.plugins.models.get(kind)
    return {
        "completion_params": dict(model.params) if model else {},
        "mode": "chat",
        "name": model.name if model else "",
        "provider": model.provider if model else "",
    }


def _write_llm(params: Fields, side: Side) -> Fields:
    said = [("system", params.get("system")), ("user", params.get("user"))]
    return {
        "context": {"enabled": False, "variable_selector": []},
        "model": _model("llm", side),
        "prompt_template": [{"role": role, "text": side.names.write_text(text)} for role, text in said if text],
        "vision": {"enabled": False},
    }


def _read_llm(data: Fields, side: Side) -> Fields:
    template = data.get("prompt_template")
    messages = _each(template) or ([_fields(template)] if isinstance(template, dict) else [])
    context = _fields(data.get("context"))
    shown = [_reference(context.get("variable_selector"))] if context.get("enabled") is True else []
    texts: dict[str, list[str]] = {"system": [], "user": []}
    jinja = False
    for message in messages:
        jinja = jinja or message.get("edition_type") == "jinja2"
        text = text_of(message.get("jinja2_text" if message.get("edition_type") == "jinja2" else "text") or "")
        for each in shown:
            text = text.replace("{{#context#}}", each)
        texts["system" if message.get("role") == "system" else "user"].append(text)
    vision = _fields(data.get("vision"))
    files = _reference(_fields(vision.get("configs")).get("variable_selector"))
    if vision.get("enabled") is True and files and not any(files in text for text in texts["user"]):
        texts["user"].append(files)
    params: Fields = {role: side.names.read_text("\n\n".join(each)) for role, each in texts.items()}
    return {**params, "edition_type": "jinja2"} if jinja else params


def _reference(selector: Any) -> str:
    parts = [part for part in _list(selector) if isinstance(part, str)]
    return "{{#" + ".".join(parts) + "#}}" if len(parts) > 1 else ""


def _write_classifier(params: Fields, side: Side) -> Fields:
    return {
        "classes": [{"id": str(n), "name": name} for n, name in enumerate(_list(params.get("classes")), 1)],
        "instruction": side.names.write_text(params.get("instruction", "")),
        "model": _model("question-classifier", side),
        "query_variable_selector": side.names.write(params.get("query_variable_selector")),
        "topics": [],
        "vision": {"enabled": False},
    }


def _read_classifier(data: Fields, side: Side) -> Fields:
    instruction = data.get("instruction") or data.get("instructions") or ""
    params = _picked(data, query_variable_selector=side.names.read)
    params["classes"] = [each.get("name") for each in _each(data.get("classes"))]
    return {**params, "instruction": side.names.read_text(instruction)} if instruction else params


def _write_extractor(params: Fields, side: Side) -> Fields:
    return {
        "instruction": side.names.write_text(params.get("instruction", "")),
        "model": _model("parameter-extractor", side),
        "parameters": [
            {"description": description, "name": name, "required": True, "type": kind}
            for description, name, kind in _pairs(params.get("parameters"), 3)
        ],
        "query": side.names.write(params.get("query")),
        "reasoning_mode": "prompt",
        "variables": [],
        "vision": {"enabled": False},
    }


def _read_extractor(data: Fields, side: Side) -> Fields:
    older = {"bool": "boolean", "select": "string"}
    parameters = [
        [each.get("description", ""), each.get("name"), older.get(str(each.get("type")), each.get("type"))]
        for each in _each(data.get("parameters"))
    ]
    instruction = side.names.read_text(data.get("instruction") or "")
    return {**_picked(data, query=side.names.read), "parameters": parameters, "instruction": instruction}


# code, template-transform, document-extractor


def _write_arguments(params: Fields, side: Side, *, typed: bool) -> list[Fields]:
    return [
        {"value_selector": side.names.write(value), "variable": name}
        | ({"value_type": side.kind(value)} if typed else {})
        for name, value in _pairs(params.get("variables"))
    ]


def _read_arguments(data: Fields, side: Side) -> list[Any]:
    return [
        [each.get("variable"), side.names.read(each.get("value_selector"))] for each in _each(data.get("variables"))
    ]


def _write_code(params: Fields, side: Side) -> Fields:
    outputs = [(name, kind) for name, kind in _pairs(params.get("outputs")) if isinstance(name, str)]
    return {
        "code": params.get("code", ""),
        "code_language": "python3",
        "outputs": {name: {"children": None, "type": kind} for name, kind in outputs},
        "variables": _write_arguments(params, side, typed=True),
    }


def _read_code(data: Fields, side: Side) -> Fields:
    outputs = [[name, _fields(output).get("type")] for name, output in sorted(_fields(data.get("outputs")).items())]
    language = data.get("code_language", "python3")
    other = {} if language in ("python3", "python") else {"code_language": language}
    code = _picked(data, code=_same)
    return {"variables": _read_arguments(data, side), "outputs": outputs, **code, **other}


def _write_template(params: Fields, side: Side) -> Fields:
    return {"template": params.get("template", ""), "variables": _write_arguments(params, side, typed=True)}


def _read_template(data: Fields, side: Side) -> Fields:
    return {"variables": _read_arguments(data, side), **_picked(data, template=_same)}


def _write_document(params: Fields, side: Side) -> Fields:
    selector = params.get("variable_selector")
    several = side.kind(selector).startswith("array")
    return {"is_array_file": several, "variable_selector": side.names.write(selector)}


def _read_document(data: Fields, side: Side) -> Fields:
    return _picked(data, variable_selector=side.names.read)


# http-request

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
    address = _reference(side.names.write(url)) if isinstance(url, list) else side.names.write_text(url)
    timeout = {"max_connect_timeout": 0, "max_read_timeout": 0, "max_write_timeout": 0}
    retry = {"max_retries": 3, "retry_enabled": True, "retry_interval": 100}
    return {**_REQUEST, **_picked(params, **dict.fromkeys(_REQUEST, _same)), "retry_config": retry} | {
        "timeout": timeout,
        "url": address,
        "variables": [],
    }


def _read_http(data: Fields, side: Side) -> Fields:
    url = side.names.read_text(data.get("url", ""))
    if isinstance(url, str) and _ONE_REFERENCE.fullmatch(url) and (found := references(url)):
        url = list(found[0])
    more = {
        "method": str(data.get("method", "get")).lower() != "get",
        "authorization": _fields(data.get("authorization")).get("type", "no-auth") != "no-auth",
        "body": _fields(data.get("body")).get("type", "none") != "none",
        "headers": bool(data.get("headers")),
        "params": bool(data.get("params")),
    }
    return {"url": url, **{key: data[key] for key, there in more.items() if there and key in data}}


# if-else, list-operator, loop

_UNARY = ("empty", "not empty", "exists", "not exists", "null", "not null")
_OF_FILES = ("contains", "not contains", "all of")


def _write_condition(condition: list[Any], side: Side, *place: object) -> Fields:
    selector, operator, *rest = [*condition, None, None][: max(len(condition), 2)]
    value = side.names.write_text(rest[0]) if rest else None
    kind = side.kind(selector)
    data: Fields = {
        "comparison_operator": normal(operator) if isinstance(operator, str) else operator,
        "id": side.uuid(*place),
        "value": "" if value is None else value,
        "varType": kind,
        "variable_selector": side.names.write(selector),
    }
    of_file = text_of((_list(selector) or [""])[0]).endswith(".type")
    if kind == "boolean" and value in ("true", "false"):
        data["value"] = value == "true"
    elif kind == "number" and "{{#" in text_of(value):
        data["numberVarType"] = "variable"
    elif kind == "array[file]" and operator in _OF_FILES:
        wanted: list[Any] = _list(value) or [value]
        inner = {"comparison_operator": "in", "id": side.uuid(*place, "type"), "key": "type", "varType": "string"}
        data["sub_variable_condition"] = {
            "case_id": side.uuid(*place, "case"),
            "conditions": [{**inner, "value": wanted}],
            "logical_operator": "and",
        }
        data["value"] = ""
    elif of_file and operator in ("in", "not in") and isinstance(value, str):
        data["value"] = [value]
    return data


def _read_condition(data: Fields, side: Side) -> list[Any]:
    selector, operator = side.names.read(data.get("variable_selector")), data.get("comparison_operator")
    value = data.get("value")
    inner = _fields(data.get("sub_variable_condition"))
    if inner.get("conditions"):
        value = _of_files(_each(inner.get("conditions")))
    if operator in _UNARY and not value:
        return [selector, operator]
    if isinstance(value, bool):
        value = "true" if value else "false"
    elif isinstance(value, int | float):
        value = str(value)
    of_one = _list(value)
    value = of_one[0] if len(of_one) == 1 else value
    return [selector, operator, side.names.read_text(value)]


def _of_files(conditions: list[Fields]) -> Any:
    """The kinds of files that a condition on each of them names; None for a condition of another form."""
    match conditions:
        case [{"key": "type", "comparison_operator": "in", "value": value}]:
            return value
        case _:
            return None


def _write_if(params: Fields, side: Side) -> Fields:
    cases: list[Fields] = []
    for number, (logic, conditions) in enumerate(_pairs(params.get("cases"))):
        case_id = side.uuid(number)
        cases.append(
            {
                "case_id": case_id,
                "conditions": [
                    _write_condition(condition, side, number, place)
                    for place, condition in enumerate(map(_list, _list(conditions)))
                ],
                "id": case_id,
                "logical_operator": logic or "and",
            }
        )
    return {"cases": cases}


def _read_if(data: Fields, side: Side) -> Fields:
    cases = _each(data.get("cases")) if "cases" in data else [data]
    return {
        "cases": [
            [
                case.get("logical_operator", "and"),
                [_read_condition(each, side) for each in _each(case.get("conditions"))],
            ]
            for case in cases
        ]
    }


def _write_list(params: Fields, side: Side) -> Fields:
    kind = side.kind(params.get("variable"))
    item = kind[6:-1] if kind.startswith("array[") else "string"
    what, first, *rest = [*_list(params.get("operator")), None, None][:3]
    operator, value = (first, rest[0]) if what == "filter_by" else ("contains", "")
    condition: Fields = {"comparison_operator": operator, "key": "", "value": "" if value is None else value}
    condition["value"] = side.names.write_text(condition["value"])
    if what == "filter_by" and item == "file":
        condition |= {"key": "type", "value": [value]}
    elif item == "boolean":
        condition["comparison_operator"] = "is not" if operator == "not is" else operator
        condition["value"] = value == "true" if value in ("true", "false") else value
    elif isinstance(operator, str):
        condition["comparison_operator"] = normal(operator)
    order = {"enabled": what == "order_by", "key": "name" if what == "order_by" and item == "file" else ""}
    return {
        "extract_by": {"enabled": what == "extract_by", "serial": text_of(first) if what == "extract_by" else "1"},
        "filter_by": {"conditions": [condition], "enabled": what == "filter_by"},
        "item_var_type": item,
        "limit": {"enabled": what == "limit", "size": first if what == "limit" else 10},
        "order_by": {**order, "value": first if what == "order_by" else "asc"},
        "var_type": kind,
        "variable": side.names.write(params.get("variable")),
    }


def _read_list(data: Fields, side: Side) -> Fields:
    parts = {name: _fields(data.get(name)) for name in ("filter_by", "extract_by", "order_by", "limit")}
    on = [name for name, part in parts.items() if part.get("enabled") is True]
    operator: list[Any] = []
    if len(on) == 1:
        name, part = on[0], parts[on[0]]
        conditions = _each(part.get("conditions"))
        if name == "limit":
            operator = [name, part.get("size")]
        elif name == "extract_by":
            serial = part.get("serial")
            whole = isinstance(serial, str) and serial.isdecimal() and len(serial) < 10
            operator = [name, int(cast("str", serial)) if whole else side.names.read_text(serial)]
        elif name == "order_by" and part.get("key") in (None, "", "name"):
            operator = [name, part.get("value")]
        elif name == "filter_by" and len(conditions) == 1 and conditions[0].get("key") in (None, "", "type"):
            _, *operator = [name, *_read_condition(conditions[0], side)]
            operator[0] = name
    return {**_picked(data, variable=side.names.read), "operator": operator}


def _write_loop(params: Fields, side: Side) -> Fields:
    variables: list[Fields] = []
    for number, item in enumerate(_list(params.get("variables"))):
        name, kind, value = [*_list(item), None, None, None][:3]
        is_selector = _is_selector(value)
        constant = (
            value if isinstance(value, str) or value is None else json.dumps(value, ensure_ascii=False, sort_keys=True)
        )
        variables.append(
            {
                "id": side.uuid("variable", number),
                "label": name,
                "value": side.names.write(value) if is_selector else constant,
                "value_type": "variable" if is_selector else "constant",
                "var_type": kind,
            }
        )
    return {
        "break_conditions": [
            _write_condition(condition, side, "break", number)
            for number, condition in enumerate(map(_list, _list(params.get("break_conditions"))))
        ],
        "error_handle_mode": "terminated",
        "logical_operator": params.get("logic", "and"),
        "loop_count": params.get("loop_count"),
        "loop_variables": variables,
        "start_node_id": side.begins,
    }


def _is_selector(value: Any) -> bool:
    return isinstance(value, list) and len(_list(value)) == 2 and all(isinstance(each, str) for each in _list(value))


def _read_loop(data: Fields, side: Side) -> Fields:
    params: Fields = {
        **_picked(data, loop_count=_same),
        "variables": [
            [each.get("label"), each.get("var_type"), _first_value(each, side)]
            for each in _each(data.get("loop_variables"))
        ],
        "break_conditions": [_read_condition(each, side) for each in _each(data.get("break_conditions"))],
    }
    logic = data.get("logical_operator", "and")
    return params if logic == "and" else {**params, "logic": logic}


def _first_value(variable: Fields, side: Side) -> Any:
    value = variable.get("value")
    if variable.get("value_type") == "variable":
        return side.names.read(value)
    if variable.get("var_type") == "string" or not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None if value == "" else value


# iteration

_ON_ERROR = {"fail": "terminated", "keep": "continue-on-error", "skip": "remove-abnormal-output"}
_AT_ONCE = 10


def _write_iteration(params: Fields, side: Side) -> Fields:
    kind, result = side.kind(params.get("iterator_selector")), side.kind(params.get("output_selector"))
    at_once = params.get("concurrency", _AT_ONCE)
    return {
        "error_handle_mode": _ON_ERROR.get(str(params.get("on_error", "fail")), "terminated"),
        "flatten_output": params.get("flatten_output", True),
        "is_parallel": at_once != 1,
        "iterator_input_type": kind,
        "iterator_selector": side.names.write(params.get("iterator_selector")),
        "output_selector": side.names.write(params.get("output_selector")),
        "output_type": result if result.startswith("array[") else f"array[{result}]",
        "parallel_nums": at_once if at_once != 1 else _AT_ONCE,
        "start_node_id": side.begins,
    }


def _read_iteration(data: Fields, side: Side) -> Fields:
    params = _picked(data, iterator_selector=side.names.read, output_selector=side.names.read)
    at_once = data.get("parallel_nums", _AT_ONCE) if data.get("is_parallel") is True else 1
    if at_once != _AT_ONCE:
        params["concurrency"] = at_once
    mode = data.get("error_handle_mode", "terminated")
    on_error = {"remove-abnormally": "skip"} | {theirs: ours for ours, theirs in _ON_ERROR.items()}
    if mode != "terminated":
        params["on_error"] = on_error.get(str(mode), mode)
    return {**params, "flatten_output": False} if data.get("flatten_output") is False else params


# variable-aggregator, assigner


def _write_aggregator(params: Fields, side: Side) -> Fields:
    variables = _list(params.get("variables"))
    kinds = [side.kind(selector) for selector in variables]
    return {
        **_picked(params, advanced_settings=_same),
        "output_type": kinds[0] if kinds else "string",
        "variables": [side.names.write(selector) for selector in variables],
    }


def _read_aggregator(data: Fields, side: Side) -> Fields:
    params: Fields = {"variables": [side.names.read(selector) for selector in _list(data.get("variables"))]}
    settings = data.get("advanced_settings")
    return {**params, "advanced_settings": settings} if _fields(settings).get("group_enabled") is True else params


_OPERATIONS = {
    "append": "append",
    "extend": "extend",
    "clear": "clear",
    "add": "+=",
    "subtract": "-=",
    "multiply": "*=",
    "divide": "/=",
    "remove_first": "remove-first",
    "remove_last": "remove-last",
}
_OF_OPERATIONS = {theirs: ours for ours, theirs in _OPERATIONS.items()} | {"over-write": "set", "set": "set"}


def _write_assigner(params: Fields, side: Side) -> Fields:
    items: list[Fields] = []
    for assignment in map(_list, _list(params.get("assignments"))):
        target, operation, value = [*assignment, *[None, "set", None][len(assignment) :]][:3]
        is_selector = _is_selector(value)
        set_to = "over-write" if is_selector else "set"
        items.append(
            {
                "input_type": "variable" if is_selector else "constant",
                "operation": set_to if operation == "set" else _OPERATIONS.get(str(operation), operation),
                "value": side.names.write(value) if is_selector else side.names.write_text(value),
                "variable_selector": side.names.write(target),
                "write_mode": "over-write",
            }
        )
    return {"items": items, "version": "2"}


def _read_assigner(data: Fields, side: Side) -> Fields:
    if "items" not in data and "assigned_variable_selector" in data:  # version 1
        target = side.names.read(data["assigned_variable_selector"])
        operation = _OF_OPERATIONS.get(str(data.get("write_mode")), data.get("write_mode"))
        given = [] if operation == "clear" else [side.names.read(data.get("input_variable_selector"))]
        return {"assignments": [[target, operation, *given]]}
    assignments: list[list[Any]] = []
    for item in _each(data.get("items")):
        operation = _OF_OPERATIONS.get(str(item.get("operation")), item.get("operation"))
        value = item.get("value")
        given = side.names.read(value) if item.get("input_type") == "variable" else side.names.read_text(value)
        target = side.names.read(item.get("variable_selector"))
        assignments.append([target, operation] if given is None or operation == "clear" else [target, operation, given])
    return {"assignments": assignments}


# knowledge-retrieval, tool


def _write_knowledge(params: Fields, side: Side) -> Fields:
    name = params.get("knowledge")
    return {
        "dataset_ids": name.split(",") if isinstance(name, str) else [],
        "multiple_retrieval_config": {"reranking_enable": False, "top_k": 4},
        "query_variable_selector": side.names.write(params.get("query")),
        "retrieval_mode": "multiple",
    }


def _read_knowledge(data: Fields, side: Side) -> Fields:
    params = {"knowledge": ",".join(map(text_of, _list(data.get("dataset_ids"))))}
    if "query_variable_selector" in data:
        params["query"] = side.names.read(data["query_variable_selector"])
    return params


def _tool_data(provider: str, name: str, label: str, settings: Mapping[str, Any], arguments: Fields) -> Fields:
    return {
        "provider_id": provider,
        "provider_name": provider,
        "provider_type": "builtin",
        "tool_configurations": {key: {"type": "constant", "value": value} for key, value in settings.items()},
        "tool_label": label,
        "tool_name": name,
        "tool_node_version": "2",
        "tool_parameters": arguments,
    }


def _write_tool(params: Fields, side: Side) -> Fields:
    arguments: Fields = {}
    for name, value in _fields(params.get("arguments")).items():
        kind = "variable" if _is_selector(value) else "mixed" if isinstance(value, str) else "constant"
        way = {"variable": side.names.write, "mixed": side.names.write_text}.get(kind, _same)
        arguments[name] = {"type": kind, "value": way(value)}
    name = text_of(params.get("tool", ""))
    return _tool_data(name, name, name, {}, arguments)


def _read_tool(data: Fields, side: Side) -> Fields:
    arguments = {name: _argument(given, side) for name, given in _fields(data.get("tool_parameters")).items()}
    return {"tool": data.get("tool_name"), "arguments": arguments}


def _argument(given: Any, side: Side) -> Any:
    value = _fields(given).get("value") if isinstance(given, dict) else given
    return side.names.read(value) if isinstance(value, list) else side.names.read_text(value)


def of_tool(kind: str, plugins: Plugins) -> Mapped:
    """How a node type is written that a tool stands behind."""
    tool = plugins.tools[kind]
    choice = next(iter(re.findall(r"\{(\w+)\}", tool.name)), "")

    def write(params: Fields, side: Side) -> Fields:
        left_out = {"echarts": "x_axis" if params.get("chart_type") == "pie" else "categories"}.get(kind)
        arguments = {
            theirs: {"type": "mixed", "value": side.names.write_text(params[ours])}
            for theirs, ours in tool.parameters.items()
            if ours in params and theirs != left_out
        }
        name = tool.name.replace(f"{{{choice}}}", text_of(params.get(choice, "")))
        return _tool_data(tool.provider, name, tool.label, tool.settings, arguments)

    def read(data: Fields, side: Side) -> Fields:
        before, _, after = tool.name.partition(f"{{{choice}}}") if choice else (tool.name, "", "")
        name = text_of(data.get("tool_name"))
        params: Fields = {choice: name[len(before) : len(name) - len(after)]} if choice else {}
        given = _fields(data.get("tool_parameters"))
        for theirs, ours in tool.parameters.items():
            if theirs in given:
                value = _argument(given[theirs], side)
                params[ours] = "{{#" + f"{value[1]}.{value[0]}" + "#}}" if _is_selector(value) else value
        return params

    return Mapped(tool.label, write, read, "tool")


def tool_type(data: Fields, plugins: Plugins) -> str:
    """The node type that a tool stands behind; ``tool`` for any other."""
    provider = text_of(data.get("provider_id") or data.get("provider_name")).rpartition("/")[2]
    name = text_of(data.get("tool_name"))
    for kind, tool in plugins.tools.items():
        pattern = re.sub(r"\\\{\w+\\\}", "[a-z]+", re.escape(tool.name))
        if provider == tool.provider.rpartition("/")[2] and re.fullmatch(pattern, name):
            return kind
    return "tool"


def _nothing(_params: Fields, _side: Side) -> Fields:
    return {}


MAPPED: Mapping[str, Mapped] = {
    "start": Mapped("Start", _write_start, _read_start),
    "end": Mapped("End", _write_end, _read_end),
    "answer": Mapped("Answer", _write_answer, _read_answer),
    "llm": Mapped("LLM", _write_llm, _read_llm),
    "question-classifier": Mapped("Question Classifier", _write_classifier, _read_classifier),
    "parameter-extractor": Mapped("Parameter Extractor", _write_extractor, _read_extractor),
    "code": Mapped("Code", _write_code, _read_code),
    "template-transform": Mapped("Template", _write_template, _read_template),
    "document-extractor": Mapped("Doc Extractor", _write_document, _read_document),
    "http-request": Mapped("HTTP Request", _write_http, _read_http),
    "if-else": Mapped("IF/ELSE", _write_if, _read_if),
    "list-operator": Mapped("List Operator", _write_list, _read_list),
    "variable-aggregator": Mapped("Variable Aggregator", _write_aggregator, _read_aggregator),
    "assigner": Mapped("Variable Assigner", _write_assigner, _read_assigner),
    "iteration": Mapped("Iteration", _write_iteration, _read_iteration),
    "iteration-start": Mapped("", _nothing, _nothing),
    "loop": Mapped("Loop", _write_loop, _read_loop),
    "loop-start": Mapped("", _nothing, _nothing),
    "loop-end": Mapped("Exit Loop", _nothing, _nothing),
    "knowledge-retrieval": Mapped("Knowledge Retrieval", _write_knowledge, _read_knowledge),
    "tool": Mapped("Tool", _write_tool, _read_tool),
}
"""The node types that are the same on both sides, but for those that `Plugins.tools` stand behind."""


def handles(data: Fields) -> list[str]:
    """What edges that leave a node are marked by, in the order of its ports."""
    match data.get("type"):
        case "if-else":
            cases = [text_of(case.get("case_id")) for case in _each(data.get("cases"))] if "cases" in data else ["true"]
            return [*cases, "false"]
        case "question-classifier":
            return [text_of(each.get("id")) for each in _each(data.get("classes"))]
        case _:
            return ["source"]
