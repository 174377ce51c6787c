"""Operations as a batch: read from JSON, and done, all of them or none."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from operad.flows.check import NodeType
from operad.flows.edit.difference import Difference, difference
from operad.flows.edit.edges import AddBranch, Connect, Disconnect, InsertBetween
from operad.flows.edit.ends import MergeEnds, SplitEnd
from operad.flows.edit.nodes import AddNode, RemoveNode, ReplaceText, SetParam
from operad.flows.edit.operation import Operation
from operad.flows.edit.order import edges_in_order, in_order
from operad.flows.edit.variables import AddInput, AddOutput, RemoveInput, RemoveOutput, RenameVariable
from operad.flows.formats.shapes import fields_of, list_of
from operad.flows.node_graph import NodeGraph
from operad.operators.named_params import positional
from operad.operators.node import Fault
from operad.operators.node_params import param_faults
from operad.operators.nodes import NODE_TYPES
from operad.operators.variables import shown
from operad.runtime.values.errors import InvalidError, Issue, did_you_mean, shorten

AnyOperation = Annotated[
    AddNode
    | RemoveNode
    | SetParam
    | ReplaceText
    | Connect
    | Disconnect
    | InsertBetween
    | AddBranch
    | RenameVariable
    | AddInput
    | RemoveInput
    | AddOutput
    | RemoveOutput
    | SplitEnd
    | MergeEnds,
    Field(discriminator="op"),
]


class Batch(BaseModel):
    """Operations on a workflow, done in order: all of them, or none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    operations: list[AnyOperation] = Field(description="The operations, done in order: all of them, or none.")


OPERATIONS: Mapping[str, type[Operation]] = {
    str(each.model_fields["op"].default): each
    for each in (
        AddNode,
        RemoveNode,
        SetParam,
        ReplaceText,
        Connect,
        Disconnect,
        InsertBetween,
        AddBranch,
        RenameVariable,
        AddInput,
        RemoveInput,
        AddOutput,
        RemoveOutput,
        SplitEnd,
        MergeEnds,
    )
}
"""The operations by name."""


class Edited(NamedTuple):
    """A workflow after a batch.

    Attributes:
        graph: The workflow; nodes that were not touched are the same objects.
        changes: What makes it of the one before.
    """

    graph: NodeGraph
    changes: Difference


def apply(
    graph: NodeGraph,
    operations: Sequence[Operation],
    types: Mapping[str, NodeType] = NODE_TYPES,
    *,
    allowed: Collection[str] | None = None,
) -> Edited:
    """Do operations on a workflow, one after another: all of them, or none.

        edited = apply(graph, read_operations([{"op": "set", "node": "2", "path": "user", "value": "Sum up."}]))
        print(edited.graph.by_id["2"].params)

    Ids are never changed, and nodes that are not touched are the same objects. A new node stands behind those that it
    reads and that lead to it; what a changed node reads is moved before it, where it stood behind it. What comes of it
    need not be sound: that is what the check of its format is for.

    Args:
        graph: The workflow; it is not changed.
        operations: The operations.
        types: The node types by name.
        allowed: The ids of the nodes that may be added, changed or removed; all where it is None. An operation on edges
            alone needs one of the two nodes of each.

    Raises:
        InvalidError: Operations make no sense for the workflow as those before them leave it, or touch other nodes; all
            issues are listed, each with the number and the name of its operation.
    """
    issues: list[Issue] = []
    now = graph
    for number, operation in enumerate(operations, 1):
        faults = list(operation.faults(now, types))
        then = _in_lists(now, operation.anyway(now) if faults else operation.done(now, types), types)
        faults += _beyond(difference(now, then), allowed) if allowed is not None else []
        issues += _issues(faults, number, _name(operation))
        now = then
    if issues:
        raise InvalidError(f"workflow {graph.name!r} was not changed", issues)
    done = edges_in_order(graph, in_order(graph, now, types))
    return Edited(done, difference(graph, done))


def read_operations(given: JsonValue) -> list[Operation]:
    """Read operations from JSON: ``{"operations": […]}``, the list, or one of them.

        operations = read_operations([{"op": "remove_output", "name": "summary"}])

    Raises:
        InvalidError: They are not of that form; all issues are listed, each with the number and the name of its operation.
    """
    root = fields_of(given)
    if "operations" in root and len(root) > 1:
        more = shorten([key for key in root if key != "operations"])
        raise InvalidError("operations", [Issue("format", f"{more}: beside operations there are no other keys")])
    value: Any = root.get("operations", given)
    listed = list_of(value) if isinstance(value, list) else [value]
    operations: list[Operation] = []
    issues: list[Issue] = []
    for number, one in enumerate(listed, 1):
        made, faults = _read(one)
        operations += [made] if made else []
        issues += _issues(faults, number, str(fields_of(one).get("op", "")))
    if issues:
        raise InvalidError("operations", issues)
    return operations


def schema() -> dict[str, JsonValue]:
    """The JSON Schema of a batch, by which a model's answer can be constrained."""
    return Batch.model_json_schema()


def new_issues(before: Sequence[Issue], after: Sequence[Issue]) -> list[Issue]:
    """The issues that a workflow has after a change, and did not have before."""
    known = Counter(before)
    new: list[Issue] = []
    for issue in after:
        known[issue] -= 1
        if known[issue] < 0:
            new.append(issue)
    return new


def _read(one: Any) -> tuple[Operation | None, list[Fault]]:
    if not isinstance(one, dict):
        return None, [Fault("", f'must be an object with "op", not {shown(one)}', "format")]
    fields = fields_of(one)
    name = str(fields.get("op"))
    if name not in OPERATIONS:
        hint = did_you_mean(name, OPERATIONS) or f"; there are: {', '.join(OPERATIONS)}"
        what = (
            f"{name!r} is not an operation{hint}"
            if "op" in fields
            else f"is missing; it is one of: {', '.join(OPERATIONS)}"
        )
        return None, [Fault("op", what, "unknown-operation")]
    kind = OPERATIONS[name]
    try:
        return kind.model_validate(fields), []
    except ValidationError as error:
        return None, param_faults(error, kind)


def _in_lists(before: NodeGraph, graph: NodeGraph, types: Mapping[str, NodeType]) -> NodeGraph:
    """The workflow with the parameters of changed nodes in lists, which may be given with names."""
    old = {id(spec) for spec in before.nodes}
    nodes = [
        replace(spec, params=positional(types[spec.type].params_type, spec.params))
        if id(spec) not in old and spec.type in types
        else spec
        for spec in graph.nodes
    ]
    return replace(graph, nodes=nodes)


def _issues(faults: Sequence[Fault], number: int, name: str) -> Iterator[Issue]:
    where = f"operation {number}{f' ({name})' if name else ''}"
    for fault in faults:
        yield Issue(fault.code, f"{fault.where}: {fault.what}" if fault.where else fault.what, where)


def _name(operation: Operation) -> str:
    return str(type(operation).model_fields["op"].default)


def _beyond(changes: Difference, allowed: Collection[str]) -> list[Fault]:
    """Nodes that were touched, and may not be."""
    nodes = [spec.id for spec in (*changes.added, *changes.removed)] + [change.node for change in changes.changed]
    edges = [(edge.source, edge.target) for edge in (*changes.edges_added, *changes.edges_removed)]
    touched = nodes or [source for source, target in edges if not {source, target} & set(allowed)]
    may = shorten(sorted(allowed)) or "none"
    return [
        Fault("", f"node {node_id!r} may not be changed here; these may: {may}", "not-allowed")
        for node_id in dict.fromkeys(touched)
        if node_id not in allowed
    ]


def in_json(operations: Sequence[Operation]) -> str:
    """Operations as JSON, without what is left at its default."""
    said = [{"op": _name(each), **each.model_dump(mode="json", exclude_defaults=True)} for each in operations]
    return json.dumps({"operations": said}, ensure_ascii=False, indent=2)
