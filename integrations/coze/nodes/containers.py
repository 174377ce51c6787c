"""Mappings of containers: iteration, loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from operad.flows.formats.shapes import Fields, each_of
from operad.integrations.coze.constants import literal_value
from operad.integrations.coze.inputs import coze_type, literal, operad_type
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
        "node_inputs": [names.input("item", params.iterator_selector)],
        "node_outputs": {"output": {"value": result}},
    }


def _read_iteration(given: Any, names: Names) -> Fields:
    (iterated_input,) = given["node_inputs"]
    ((_, output),) = given["node_outputs"].items()
    concurrency = int(given.get("concurrentSize", literal("10"))["value"]["content"])
    return {
        "iterator_selector": names.variable(iterated_input["input"]),
        "output_selector": names.variable(output["value"]),
        **({"concurrency": concurrency} if concurrency != 10 else {}),
    }


def _write_loop(params: LoopParams, names: Names) -> Fields:
    outputs = {name: {"value": {"type": "list", **names.given(selector)}} for name, selector in params.collected}
    return {
        "loopType": "array" if params.lists else "count",
        "loopCount": literal(str(params.loop_count), "integer"),
        "variableParameters": [_write_variable(each, names) for each in params.variables],
        "node_inputs": [names.input(name, selector) for name, selector in params.lists],
        "node_outputs": outputs,
    }


def _write_variable(variable: LoopVariable, names: Names) -> Fields:
    if isinstance(variable.value, Selector):
        return {"name": variable.name, "input": {**coze_type(variable.type), "value": names.reference(variable.value)}}
    return {"name": variable.name, "input": {**coze_type(variable.type), "value": variable.value}}


MOST_PASSES = 1000
"""Maximum number of passes of a loop that Coze does not end by itself."""


ENDS_EARLY = "ends_early"
"""Key of a loop with a break inside; one over a list without a break and variables is read as an iteration."""


def _read_loop(given: Any, names: Names) -> Fields:
    kind, lists = given["loopType"], names.arguments(given.get("node_inputs"))
    if kind not in ("array", "count", "infinite") or (kind == "array" and not lists):
        raise ValueError(kind)
    variables = [
        [each["name"], *_read_variable(each["input"], names)] for each in each_of(given.get("variableParameters"))
    ]
    collected = [[name, names.variable(output["value"])] for name, output in given["node_outputs"].items()]
    if kind == "array" and len(lists) == len(collected) == 1 and not (variables or given.get(ENDS_EARLY)):
        raise ValueError("an iteration")
    count = int(literal_value(given["loopCount"])) if kind == "count" else MOST_PASSES
    read: Fields = {"loop_count": count}
    read |= {"variables": variables} if variables else {}
    read |= {"lists": lists} if kind == "array" else {}
    return {**read, "collected": collected} if collected else read


def _read_variable(given: Any, names: Names) -> list[Any]:
    """Return the type and the first value of a variable of a loop."""
    is_literal = not isinstance(given["value"], Mapping)
    return [operad_type(given), literal_value(given) if is_literal else names.variable(given)]


CONTAINERS: Mapping[str, NodeMapping] = {
    "iteration": NodeMapping("batch", "icon-Batch-v2.jpg", _write_iteration, _read_iteration),
    "loop": NodeMapping("loop", "icon-Loop-v2.jpg", _write_loop, _read_loop),
}
