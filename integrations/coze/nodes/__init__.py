"""Mappings of node types to Coze: for each type, a function that writes its parameters and one that reads them.

Parameters that Coze has no field for are not written here: `notes` finds the parameters that reading would not give
back, and keeps them in the description of the node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from operad.flows.formats.shapes import Fields
from operad.integrations.coze.inputs import declared, operad_type
from operad.integrations.coze.names import Names
from operad.integrations.coze.nodes.conditions import read_condition, write_condition
from operad.integrations.coze.nodes.containers import CONTAINERS
from operad.integrations.coze.nodes.models import MODELS
from operad.integrations.coze.nodes.node_mapping import NodeMapping
from operad.integrations.coze.nodes.values import VALUES
from operad.operators.nodes.flow import EndParams, IfElseParams, StartParams

# Mappings of flow nodes: start, end, if-else.


def _write_start(params: StartParams, names: Names) -> Fields:
    outputs = declared(params.variables)
    for name, value in params.defaults.items():
        outputs[name] |= {"required": False, **({} if value is None else {"defaultValue": value})}
    return {"node_outputs": outputs}


def _read_start(given: Any, names: Names) -> Fields:
    variables = given.get("node_outputs", {})
    defaults = {
        name: each.get("defaultValue")
        for name, each in variables.items()
        if each.get("required") is False or each.get("defaultValue") not in (None, "")
    }
    read: Fields = {"variables": [[name, operad_type(kind)] for name, kind in variables.items()]}
    return {**read, "defaults": defaults} if defaults else read


def _write_end(params: EndParams, names: Names) -> Fields:
    inputs = [names.input(name, selector) for name, selector in params.outputs]
    return {"node_inputs": inputs, "terminatePlan": "returnVariables"}


def _read_end(given: Any, names: Names) -> Fields:
    if given.get("terminatePlan") == "useAnswerContent":
        raise ValueError("an answer in words")
    return {"outputs": names.arguments(given.get("node_inputs"))}


def _write_if_else(params: IfElseParams, names: Names) -> Fields:
    return {
        "branches": [
            {
                "condition": {
                    "conditions": [write_condition(each, names) for each in case.conditions],
                    "logic": 1 if case.logic == "or" else 2,
                }
            }
            for case in params.cases
        ]
    }


def _read_if_else(given: Any, names: Names) -> Fields:
    cases: list[Any] = []
    for branch in given["branches"]:
        conditions = [read_condition(each, names) for each in branch["condition"]["conditions"]]
        default_logic = "and" if len(conditions) > 1 else None
        cases.append(["or" if branch["condition"].get("logic") == 1 else default_logic, conditions])
    return {"cases": cases}


FLOW: Mapping[str, NodeMapping] = {
    "start": NodeMapping("start", "icon-Start-v2.jpg", _write_start, _read_start),
    "end": NodeMapping("end", "icon-End-v2.jpg", _write_end, _read_end),
    "if-else": NodeMapping("condition", "icon-Condition-v2.jpg", _write_if_else, _read_if_else),
}


MAPPED: Mapping[str, NodeMapping] = {**FLOW, **MODELS, **VALUES, **CONTAINERS}
"""Mappings of the node types that Coze has, by Operad's type."""
