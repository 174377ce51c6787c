"""Containers: iteration and loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from operad.flows.formats.coze.inputs import input_of, literal
from operad.flows.formats.coze.names import Names
from operad.flows.formats.coze.nodes.kind import Kind
from operad.flows.formats.shapes import Fields
from operad.operators.nodes.containers import IterationParams, LoopParams

STARTS: Mapping[str, str] = {"iteration": "iteration-start", "loop": "loop-start"}
"""Types of the start nodes inside containers, for which Coze has no nodes, by container type."""


def _iteration(params: IterationParams, names: Names) -> Fields:
    result = {"type": "list", "items": {"type": "string"}, "value": names.reference(params.output_selector)}
    return {
        "batchSize": literal("1000", "integer"),
        "concurrentSize": literal(str(params.concurrency), "integer"),
        "node_inputs": [input_of("item", names.reference(params.iterator_selector))],
        "node_outputs": {"output": {"value": result}},
    }


def _read_iteration(given: Any, names: Names) -> Fields:
    (iterated,) = given["node_inputs"]
    ((_, result),) = given["node_outputs"].items()
    at_once = int(given.get("concurrentSize", literal("10"))["value"]["content"])
    return {
        "iterator_selector": names.selector(iterated["input"]["value"]),
        "output_selector": names.selector(result["value"]["value"]),
        **({"concurrency": at_once} if at_once != 10 else {}),
    }


def _loop(params: LoopParams, names: Names) -> Fields:
    count = literal(str(params.loop_count), "integer")
    return {"loopType": "count", "loopCount": count, "variableParameters": [], "node_inputs": [], "node_outputs": {}}


def _read_loop(given: Any, names: Names) -> Fields:
    if given["loopType"] != "count":
        raise ValueError(given["loopType"])
    return {"loop_count": int(given["loopCount"]["value"]["content"])}


CONTAINERS: Mapping[str, Kind] = {
    "iteration": Kind("batch", "icon-Batch-v2.jpg", _iteration, _read_iteration),
    "loop": Kind("loop", "icon-Loop-v2.jpg", _loop, _read_loop),
}
