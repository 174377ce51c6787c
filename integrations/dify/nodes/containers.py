"""Mappings of containers: iteration, loop."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from operad.flows.formats.shapes import Fields, each_of, is_selector, json_or_text, list_of
from operad.integrations.dify.nodes.conditions import read_condition, write_condition
from operad.integrations.dify.nodes.node_mapping import NodeContext, NodeMapping, convert_fields, unchanged


def _write_loop(params: Fields, node_context: NodeContext) -> Fields:
    variables: list[Fields] = []
    for number, item in enumerate(list_of(params.get("variables"))):
        name, variable_type, value = [*list_of(item), None, None, None][:3]
        is_variable = is_selector(value)
        constant = (
            value if isinstance(value, str) or value is None else json.dumps(value, ensure_ascii=False, sort_keys=True)
        )
        variables.append(
            {
                "id": node_context.uuid("variable", number),
                "label": name,
                "value": node_context.names.write(value) if is_variable else constant,
                "value_type": "variable" if is_variable else "constant",
                "var_type": variable_type,
            }
        )
    return {
        "break_conditions": [
            write_condition(condition, node_context, "break", number)
            for number, condition in enumerate(map(list_of, list_of(params.get("break_conditions"))))
        ],
        "error_handle_mode": "terminated",
        "logical_operator": params.get("logic", "and"),
        "loop_count": params.get("loop_count"),
        "loop_variables": variables,
        "start_node_id": node_context.start_id,
    }


def _read_loop(data: Fields, node_context: NodeContext) -> Fields:
    params: Fields = {
        **convert_fields(data, loop_count=unchanged),
        "variables": [
            [item.get("label"), item.get("var_type"), _first_value(item, node_context)]
            for item in each_of(data.get("loop_variables"))
        ],
        "break_conditions": [read_condition(item, node_context) for item in each_of(data.get("break_conditions"))],
    }
    logic = data.get("logical_operator", "and")
    return params if logic == "and" else {**params, "logic": logic}


def _first_value(variable: Fields, node_context: NodeContext) -> Any:
    value = variable.get("value")
    if variable.get("value_type") == "variable":
        return node_context.names.read(value)
    if variable.get("var_type") == "string" or not isinstance(value, str):
        return value
    return None if value == "" else json_or_text(value)


_ERROR_MODES = {"fail": "terminated", "keep": "continue-on-error", "skip": "remove-abnormal-output"}

_DEFAULT_CONCURRENCY = 10


def _write_iteration(params: Fields, node_context: NodeContext) -> Fields:
    list_type, result_type = (
        node_context.kind(params.get("iterator_selector")),
        node_context.kind(params.get("output_selector")),
    )
    concurrency = params.get("concurrency", _DEFAULT_CONCURRENCY)
    return {
        "error_handle_mode": _ERROR_MODES.get(str(params.get("on_error", "fail")), "terminated"),
        "flatten_output": params.get("flatten_output", True),
        "is_parallel": concurrency != 1,
        "iterator_input_type": list_type,
        "iterator_selector": node_context.names.write(params.get("iterator_selector")),
        "output_selector": node_context.names.write(params.get("output_selector")),
        "output_type": result_type if result_type.startswith("array[") else f"array[{result_type}]",
        "parallel_nums": concurrency if concurrency != 1 else _DEFAULT_CONCURRENCY,
        "start_node_id": node_context.start_id,
    }


def _read_iteration(data: Fields, node_context: NodeContext) -> Fields:
    params = convert_fields(data, iterator_selector=node_context.names.read, output_selector=node_context.names.read)
    concurrency = data.get("parallel_nums", _DEFAULT_CONCURRENCY) if data.get("is_parallel") is True else 1
    if concurrency != _DEFAULT_CONCURRENCY:
        params["concurrency"] = concurrency
    mode = data.get("error_handle_mode", "terminated")
    on_error = {"remove-abnormally": "skip"} | {
        dify_mode: operad_mode for operad_mode, dify_mode in _ERROR_MODES.items()
    }
    if mode != "terminated":
        params["on_error"] = on_error.get(str(mode), mode)
    return {**params, "flatten_output": False} if data.get("flatten_output") is False else params


def _no_fields(_params: Fields, _context: NodeContext) -> Fields:
    return {}


CONTAINERS: Mapping[str, NodeMapping] = {
    "iteration": NodeMapping("Iteration", _write_iteration, _read_iteration),
    "iteration-start": NodeMapping("", _no_fields, _no_fields),
    "loop": NodeMapping("Loop", _write_loop, _read_loop),
    "loop-start": NodeMapping("", _no_fields, _no_fields),
    "loop-end": NodeMapping("Exit Loop", _no_fields, _no_fields),
}
