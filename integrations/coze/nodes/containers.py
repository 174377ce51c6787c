"""Mappings of containers: iteration, loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from operad.flows.formats.shapes import Fields, each_of
from operad.integrations.coze.inputs import coze_type, input_of, literal, operad_type
from operad.integrations.coze.names import Names
from operad.integrations.coze.nodes.node_mapping import NodeMapping
from operad.operators.nodes.containers import IterationParams, LoopParams, LoopVariable
from operad.operators.variables import Selector

STARTS: Mapping[str, str] = {"iteration": "iteration-start", "loop": "loop-start"}
"""Types of the start nodes inside containers, for which Coze has no nodes, by container type."""


def _write_iteration(params: IterationParams, names: Names) -> Fields:
    result = {"type": "list", "items": {"type": "string"}, "value": names.reference(params.output_selector)}
    return {
        "batchSize": literal("1000", "integer"),
        "concurrentSize": literal(str(params.concurrency), "integer"),
        "node_inputs": [input_of("item", names.reference(params.iterator_selector))],
        "node_outputs": {"output": {"value": result}},
    }


def _read_iteration(given: Any, names: Names) -> Fields:
    (iterated_input,) = given["node_inputs"]
    ((_, output),) = given["node_outputs"].items()
    concurrency = int(given.get("concurrentSize", literal("10"))["value"]["content"])
    return {
        "iterator_selector": names.selector(iterated_input["input"]["value"]),
        "output_selector": names.selector(output["value"]["value"]),
        **({"concurrency": concurrency} if concurrency != 10 else {}),
    }


def _write_loop(params: LoopParams, names: Names) -> Fields:
    count = literal(str(params.loop_count), "integer")
    variables = [_write_variable(each, names) for each in params.variables]
    return {
        "loopType": "count", "loopCount": count, "variableParameters": variables, "node_inputs": [], "node_outputs": {}
    }  # fmt: skip


def _write_variable(variable: LoopVariable, names: Names) -> Fields:
    if isinstance(variable.value, Selector):
        return {"name": variable.name, "input": {**coze_type(variable.type), "value": names.reference(variable.value)}}
    return {"name": variable.name, "input": {**coze_type(variable.type), "value": variable.value}}


MOST_PASSES = 1000
"""Maximum number of passes of a loop that Coze does not end by itself."""


def _read_loop(given: Any, names: Names) -> Fields:
    if given["loopType"] not in ("count", "infinite"):
        raise ValueError(given["loopType"])
    variables: list[Any] = []
    for each in each_of(given.get("variableParameters")):
        value: Any = each["input"]["value"]
        is_reference = isinstance(value, Mapping)
        variables.append([each["name"], operad_type(each["input"]), names.selector(value) if is_reference else value])
    count = int(given["loopCount"]["value"]["content"]) if given["loopType"] == "count" else MOST_PASSES
    return {"loop_count": count, **({"variables": variables} if variables else {})}


CONTAINERS: Mapping[str, NodeMapping] = {
    "iteration": NodeMapping("batch", "icon-Batch-v2.jpg", _write_iteration, _read_iteration),
    "loop": NodeMapping("loop", "icon-Loop-v2.jpg", _write_loop, _read_loop),
}
