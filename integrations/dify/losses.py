"""Parts of a workflow that a Dify file cannot hold or Dify cannot run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from operad.flows.check import CONVERSATION
from operad.flows.formats.format import foreign
from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.integrations.dify.names import OUTSIDE, fits_text
from operad.integrations.dify.nodes import MAPPED
from operad.integrations.dify.nodes.flow import INPUTS
from operad.integrations.dify.write import EXTRA, kept
from operad.operators.node import NodeOperator
from operad.operators.nodes import NODE_TYPES
from operad.operators.nodes.extractor import ExtractorParams
from operad.operators.nodes.flow import StartParams
from operad.operators.nodes.values import AssignerParams, CodeParams
from operad.operators.variables import Selector, Text, VariableType
from operad.runtime.values.errors import InvalidError, Issue

T = VariableType


def losses_of(graph: NodeGraph) -> Iterator[Issue]:
    """Yield the parts of a workflow that a file cannot hold."""
    for spec in graph.nodes:
        yield from (Issue("loss", message, spec.id) for message in _node_losses(spec))
    for edge in graph.edges:
        where = f"{edge.source} → {edge.target}"
        if edge.input:
            yield Issue("loss", f"that the edge fills the input {edge.input!r} is left out", where)
    yield from foreign(graph, EXTRA)


def _node_losses(spec: NodeSpec) -> Iterator[str]:
    if spec.type not in MAPPED and spec.type != CONVERSATION:
        if not kept(spec.extra):
            yield f"Dify has no node of type {spec.type!r}; it is written with that name, and cannot run there"
        return
    node_type = NODE_TYPES.get(spec.type)
    try:
        node = node_type(spec.id, spec.params) if node_type else None
    except InvalidError:
        return
    if node is not None:
        yield from _name_losses(node)
        yield from _param_losses(node.params)


def _name_losses(node: NodeOperator[Any]) -> Iterator[str]:
    for selector in dict.fromkeys(each for text in node.texts for each in text.selectors):
        if not fits_text(selector.variable):
            yield (
                f"{selector.variable!r} cannot be named in a text there: names are at most 30 letters, digits and "
                "underscores of ASCII"
            )


def _param_losses(params: Any) -> Iterator[str]:
    match params:
        case StartParams():
            yield from _input_losses(params)
        case CodeParams():
            for output in params.outputs:
                if output.type.is_file or output.type in (T.ANY, T.ARRAY):
                    yield f"the output {output.name!r} is {output.type.value}, which code does not give there"
        case ExtractorParams() if any(parameter.type is T.OBJECT for parameter in params.parameters):
            yield "a parameter is an object, which is not read out of texts there"
        case AssignerParams():
            yield from _assignment_losses(params)
        case _:
            pass


def _input_losses(params: StartParams) -> Iterator[str]:
    for name, kind in params.variables:
        if kind.value not in INPUTS and name.partition(".")[0] not in OUTSIDE:
            yield f"the input {name!r} is {kind.value}, and becomes a text there"


def _assignment_losses(params: AssignerParams) -> Iterator[str]:
    for number, (_, operation, value) in enumerate(params.assignments):
        if operation in ("append", "extend") and not isinstance(value, Selector):
            yield f"assignments[{number}]: {operation} takes a variable there, and not a value itself"
        elif isinstance(value, Text) and value.selectors:
            yield f"assignments[{number}]: what a text names is not put in there"
