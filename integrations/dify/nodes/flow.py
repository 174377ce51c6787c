"""Mappings of flow nodes: start, end, answer, if-else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from operad.flows.formats.shapes import Fields, each_of, fields_of, list_of, pairs_of, text_of
from operad.integrations.dify.names import OUTSIDE, outside_type
from operad.integrations.dify.nodes.conditions import read_condition, write_condition
from operad.integrations.dify.nodes.node_mapping import NodeContext, NodeMapping, convert_fields
from operad.operators.nodes.flow import WEBHOOK_RAW

INPUTS: Mapping[str, str] = {
    "string": "paragraph",
    "number": "number",
    "boolean": "checkbox",
    "object": "json_object",
    "file": "file",
    "array[file]": "file-list",
}
"""Dify's types of inputs by Operad's types of variables."""

INPUT_TYPES = {
    **{dify_type: operad_type for operad_type, dify_type in INPUTS.items()},
    "text-input": "string",
    "select": "string",
    "external_data_tool": "string",
    "url": "string",
    "files": "array[file]",
}
"""Operad's types of variables by Dify's types of inputs."""

_OUTSIDE_PREFIXES = tuple(f"{each}." for each in OUTSIDE)


TRIGGERS: Mapping[str, str] = {
    "trigger-webhook": "webhook",
    "trigger-schedule": "schedule",
    "trigger-plugin": "event",
}
"""Kinds of triggers by Dify's types of nodes."""

_WEBHOOK_PARTS = {"header": "headers", "query": "params", "body": "body"}


def _write_trigger(trigger: list[Any], params: Fields) -> Fields:
    """Return the data of a trigger; `trigger` has the values of `Trigger`, in order."""
    kind, method, content_type, inputs, status, response = [*trigger, *_TRIGGER_DEFAULTS[len(trigger) :]][:6]
    data: Fields = {"type": next((each for each, name in TRIGGERS.items() if name == kind), "trigger-plugin")}
    if kind == "schedule" and (cron := trigger[_CRON:]):
        times = {"mode": "cron", "frequency": None, "visual_config": None} | _visual(text_of(cron[0]))
        return {**data, **times, "cron_expression": cron[0], "timezone": [*cron, "UTC"][1]}
    if kind != "webhook":
        return data
    kinds, defaults = dict(pairs_of(params.get("variables"))), fields_of(params.get("defaults"))
    data |= {"method": method, "content_type": content_type, "status_code": status, "response_body": response}
    for part, key in _WEBHOOK_PARTS.items():
        named = [list_of(each) for each in list_of(inputs)]
        data[key] = [
            {"name": field, "required": name not in defaults, "type": kinds.get(name, "string")}
            for name, each, field in (each for each in named if len(each) == 3)
            if each == part
        ]
    return data


_TRIGGER_DEFAULTS: list[Any] = ["webhook", "get", "application/json", [], 200, "", "", 0]
_CRON = len(_TRIGGER_DEFAULTS)


def cron_of(data: Fields) -> str:
    """Return the times of a schedule as a cron expression; empty if the file has none."""
    if data.get("mode") == "cron":
        return " ".join(text_of(data.get("cron_expression") or "").split())
    visual = fields_of(data.get("visual_config"))
    minute, hour = visual.get("on_minute", 0), "*"
    if data.get("frequency") != "hourly":
        at = re.fullmatch(r"\s*(\d{1,2}):(\d{2})\s*([AaPp])[Mm]\s*", text_of(visual.get("time") or "12:00 AM"))
        if at is None:
            return ""
        minute, hour = int(at[2]), str(int(at[1]) % 12 + (12 if at[3] in "Pp" else 0))
    days = ["L" if each == "last" else text_of(each) for each in list_of(visual.get("monthly_days"))]
    weekdays = [text_of(each) for each in list_of(visual.get("weekdays"))]
    day = ",".join(days) or "1" if data.get("frequency") == "monthly" else "*"
    weekday = ",".join(weekdays) or "*" if data.get("frequency") == "weekly" else "*"
    return f"{minute} {hour} {day} * {weekday}"


def _visual(cron: str) -> Fields:
    """Return the fields of a schedule that Dify's form can show; none for any other."""
    found = re.fullmatch(r"(\d+) (\*|\d+) (\*|[\dL,]+) \* (\*|[a-z,]+)", cron)
    if found is None or (found[3] != "*" and found[4] != "*"):
        return {}
    minute, hour, days, weekdays = found.groups()
    if hour == "*":
        config: Fields = {"on_minute": int(minute)}
        frequency = "hourly" if days == weekdays == "*" else ""
    else:
        config = {"time": f"{(int(hour) - 1) % 12 + 1}:{minute:0>2} {'PM' if int(hour) >= 12 else 'AM'}"}
        frequency = "monthly" if days != "*" else "weekly" if weekdays != "*" else "daily"
    if days != "*":
        config["monthly_days"] = ["last" if each == "L" else int(each) for each in days.split(",") if each]
    if weekdays != "*":
        config["weekdays"] = weekdays.split(",")
    return {"mode": "visual", "frequency": frequency, "visual_config": config} if frequency else {}


def _read_trigger(kind: str, data: Fields, node_context: NodeContext) -> Fields:
    """Return the inputs that a trigger gives, and its place in the request if it is a webhook."""
    outside = [[name, outside_type(name)] for name in node_context.names.outside]
    read = list(node_context.names.of_start)
    if kind == "schedule":
        zone = text_of(data.get("timezone") or "UTC")
        return {"variables": outside, "trigger": [kind, *_TRIGGER_DEFAULTS[1:], cron_of(data), zone]}
    if kind != "webhook":
        own = [[name, "any"] for name in read if _is_own_input(name)]
        defaults = {"defaults": dict.fromkeys(name for name, _ in own)} if own else {}
        return {"variables": [*own, *outside], "trigger": [kind], **defaults}
    content_type = text_of(data.get("content_type") or "application/json")
    whole = {"text/plain": "string", "application/octet-stream": "file"}.get(content_type)
    kinds: dict[str, str] = {}
    optional: dict[str, None] = {}
    places: list[list[str]] = []
    for part, key in _WEBHOOK_PARTS.items():
        for each in each_of(data.get(key)):
            field = text_of(each.get("name"))
            name = field.replace("-", "_") if part == "header" else field
            kinds[name] = whole if whole and part == "body" else text_of(each.get("type") or "string")
            if each.get("required") is not True:
                optional[name] = None
            places.append([name, part, field])
    if WEBHOOK_RAW in read:
        kinds[WEBHOOK_RAW], optional[WEBHOOK_RAW] = "object", None
    method, status = text_of(data.get("method") or "get").lower(), data.get("status_code", 200)
    trigger = [kind, method, content_type, places, status, text_of(data.get("response_body") or "")]
    params: Fields = {"variables": [*map(list, kinds.items()), *outside], "trigger": trigger}
    return {**params, "defaults": optional} if optional else params


def _write_start(params: Fields, node_context: NodeContext) -> Fields:
    if trigger := list_of(params.get("trigger")):
        return _write_trigger(trigger, params)
    defaults = fields_of(params.get("defaults"))
    return {
        "variables": [
            _input(name, kind)
            | (
                {"required": False} | ({} if defaults[name] is None else {"default": defaults[name]})
                if name in defaults
                else {}
            )
            for name, kind in pairs_of(params.get("variables"))
            if _is_own_input(name)
        ]
    }


def _is_own_input(name: Any) -> bool:
    return isinstance(name, str) and not name.startswith(_OUTSIDE_PREFIXES)


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


def _read_start(data: Fields, node_context: NodeContext) -> Fields:
    if kind := TRIGGERS.get(text_of(data.get("type"))):
        return _read_trigger(kind, data, node_context)
    variables = [
        [variable.get("variable"), INPUT_TYPES.get(str(variable.get("type")), variable.get("type"))]
        for variable in each_of(data.get("variables"))
    ]
    file_types = dict.fromkeys(("file", "array[file]"))
    defaults = {
        variable["variable"]: None if kind in file_types else _default(variable, str(kind))
        for variable, (_, kind) in zip(each_of(data.get("variables")), variables, strict=True)
        if isinstance(variable.get("variable"), str) and (variable.get("required") is False or _has_default(variable))
    }
    params: Fields = {"variables": [*variables, *([name, outside_type(name)] for name in node_context.names.outside)]}
    return {**params, "defaults": defaults} if defaults else params


def _has_default(variable: Fields) -> bool:
    return variable.get("default") not in (None, "")


def _default(variable: Fields, kind: str) -> Any:
    """Return the value of an input that the user does not give: its default, or an empty text for a text, or None."""
    if _has_default(variable):
        return variable["default"]
    return "" if kind == "string" else None


def _write_end(params: Fields, node_context: NodeContext) -> Fields:
    return {
        "outputs": [
            {
                "value_selector": node_context.names.write(value),
                "value_type": node_context.kind(value),
                "variable": name,
            }
            for name, value in pairs_of(params.get("outputs"))
        ]
    }


def _read_end(data: Fields, node_context: NodeContext) -> Fields:
    return {
        "outputs": [
            [each.get("variable"), node_context.names.read(each.get("value_selector"))]
            for each in each_of(data.get("outputs"))
        ]
    }


def _write_answer(params: Fields, node_context: NodeContext) -> Fields:
    return {"answer": node_context.names.write_text(params.get("answer", "")), "variables": []}


def _read_answer(data: Fields, node_context: NodeContext) -> Fields:
    return convert_fields(data, answer=node_context.names.read_text)


def _write_if(params: Fields, node_context: NodeContext) -> Fields:
    cases: list[Fields] = []
    for number, (logic, conditions) in enumerate(pairs_of(params.get("cases"))):
        case_id = node_context.uuid(number)
        cases.append(
            {
                "case_id": case_id,
                "conditions": [
                    write_condition(condition, node_context, number, place)
                    for place, condition in enumerate(map(list_of, list_of(conditions)))
                ],
                "id": case_id,
                "logical_operator": logic or "and",
            }
        )
    return {"cases": cases}


def _read_if(data: Fields, node_context: NodeContext) -> Fields:
    cases = each_of(data.get("cases")) if "cases" in data else [data]
    return {
        "cases": [
            [
                case.get("logical_operator", "and"),
                [read_condition(each, node_context) for each in each_of(case.get("conditions"))],
            ]
            for case in cases
        ]
    }


FLOW: Mapping[str, NodeMapping] = {
    "start": NodeMapping("Start", _write_start, _read_start),
    "end": NodeMapping("End", _write_end, _read_end),
    "answer": NodeMapping("Answer", _write_answer, _read_answer),
    "if-else": NodeMapping("IF/ELSE", _write_if, _read_if),
}
