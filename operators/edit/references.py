"""What nodes read, and how references follow what is renamed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from operad.operators.check import NodeType
from operad.operators.node import NodeOperator, readable, references_in
from operad.operators.node_graph import NodeGraph, NodeSpec
from operad.operators.variables import Selector, Text
from operad.runtime.errors import InvalidError

Change = Callable[[Selector], Selector]
"""What takes the place of a variable."""


def node_of(spec: NodeSpec, types: Mapping[str, NodeType]) -> NodeOperator[Any] | None:
    """The node; None where its type is not known, or its parameters cannot be read."""
    try:
        return types[spec.type](spec.id, spec.params) if spec.type in types else None
    except InvalidError:
        return None


def reads(spec: NodeSpec, types: Mapping[str, NodeType]) -> list[str]:
    """The nodes whose variables a node reads, as far as its parameters can be read; those inside of it are left out."""
    node = node_of(spec, types)
    if node is not None:
        references = list(node.references)
    elif spec.type in types and not types[spec.type].body_starts_with:
        params_type = types[spec.type].params_type
        references = list(references_in(params_type, readable(params_type, spec.params)))
    else:
        references = []
    return list(dict.fromkeys(reference.selector.node for reference in references))


def following(graph: NodeGraph, types: Mapping[str, NodeType], change: Change) -> NodeGraph:
    """The workflow with other variables in the place of those that its nodes read.

    Nodes that read none of these are the same objects. Nodes of types that are not known are left as they are, and
    so are parameters that cannot be read.
    """
    nodes = [_changed(spec, types, change) for spec in graph.nodes]
    return replace(graph, nodes=nodes)


def _changed(spec: NodeSpec, types: Mapping[str, NodeType], change: Change) -> NodeSpec:
    if spec.type not in types:
        return spec
    params = _rewritten(readable(types[spec.type].params_type, spec.params), spec.params, change)
    return spec if params is spec.params else replace(spec, params=params)


def _rewritten(read: Any, written: Any, change: Change) -> Any:
    """What was written, with other variables in the place of those that were read; the same object where none is."""
    match read, written:
        case Selector(), [_, _]:
            new = change(read)
            return written if new == read else [new.variable, new.node]
        case Selector(), Mapping():
            new = change(read)
            given = cast("Mapping[str, Any]", written)
            return given if new == read else {**given, **new._asdict()}
        case Text(), str():
            text = Text(written).reselected(change)
            return written if text == written else text
        case (list() | tuple(), list() | tuple()):  # a tuple with names may be written without its last ones
            known, raws = cast("Sequence[Any]", read), cast("Sequence[Any]", written)
            inner = [_rewritten(one, raw, change) for one, raw in zip(known, raws, strict=False)]
            same = all(new is raw for new, raw in zip(inner, raws, strict=False))
            return raws if same else [*inner, *raws[len(inner) :]]
        case _, Mapping() if isinstance(read, Mapping) or hasattr(read, "_asdict"):
            fields = cast("Mapping[str, Any]", read if isinstance(read, Mapping) else read._asdict())
            given = cast("Mapping[str, Any]", written)
            made = {key: _rewritten(fields.get(key), raw, change) for key, raw in given.items()}
            return given if all(made[key] is raw for key, raw in given.items()) else made
        case _:
            return written
