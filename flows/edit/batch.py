"""Batches of operations: read from JSON, and applied all or none."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, NamedTuple, get_args

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from operad.flows.check import NodeType
from operad.flows.edit.difference import Difference, difference, surplus
from operad.flows.edit.edges import AddBranch, Connect, Disconnect, InsertBetween
from operad.flows.edit.nodes import AddNode, RemoveNode, RenameNode, ReplaceText, SetParam
from operad.flows.edit.notes import RemoveNote, SetNote
from operad.flows.edit.operation import Operation
from operad.flows.edit.order import edges_in_order, in_order
from operad.flows.edit.variables import AddInput, AddOutput, RemoveInput, RemoveOutput, RenameVariable
from operad.flows.formats.shapes import fields_of, list_of
from operad.flows.node_graph import NodeGraph
from operad.operators.named_params import positional
from operad.operators.node import Fault
from operad.operators.node_params import param_faults
from operad.operators.nodes import NODE_TYPES
from operad.operators.variables import short_json
from operad.runtime.values.errors import InvalidError, Issue, did_you_mean, shorten

AnyOperation = Annotated[
    AddNode
    | RemoveNode
    | RenameNode
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
    | SetNote
    | RemoveNote,
    Field(discriminator="op"),
]


class Batch(BaseModel):
    """Operations on a workflow, done in order: all of them, or none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    operations: list[AnyOperation] = Field(description="The operations, done in order: all of them, or none.")


OPERATIONS: Mapping[str, type[Operation]] = {
    str(each.model_fields["op"].default): each for each in get_args(get_args(AnyOperation)[0])
}
"""Classes of operations by name."""


class EditResult(NamedTuple):
    """Workflow after a batch of operations.

    Attributes:
        graph: The workflow; unchanged nodes are the same objects as before.
        changes: Difference from the workflow before.
    """

    graph: NodeGraph
    changes: Difference


def apply(
    graph: NodeGraph,
    operations: Sequence[Operation],
    types: Mapping[str, NodeType] = NODE_TYPES,
) -> EditResult:
    """Apply operations to a workflow in order: all of them, or none.

        edited = apply(graph, read_operations([{"op": "set", "node": "2", "path": "user", "value": "Sum up."}]))
        print(edited.graph.by_id["2"].params)

    Ids never change, and unchanged nodes stay the same objects. In the list, a new node comes after the nodes that it
    reads and its predecessors, and nodes that a changed node reads are moved before it. The result may have issues,
    which the check of its format finds.

    Args:
        graph: The workflow, which is not modified.
        operations: The operations.
        types: Node types by name.

    Raises:
        InvalidError: An operation cannot be applied after the operations before it; all issues are listed, each with
            the number and the name of its operation.
    """
    issues: list[Issue] = []
    current = graph
    for number, operation in enumerate(operations, 1):
        faults = list(operation.faults(current, types))
        changed = _with_positional_params(
            current, operation.apply_if_faulty(current) if faults else operation.apply(current, types), types
        )
        issues += _issues(faults, number, _op_name(operation))
        current = changed
    if issues:
        raise InvalidError(f"workflow {graph.name!r} was not changed", issues)
    ordered = edges_in_order(graph, in_order(graph, current, types))
    return EditResult(ordered, difference(graph, ordered))


def read_operations(given: JsonValue) -> list[Operation]:
    """Read operations from JSON: ``{"operations": […]}``, a list, or a single operation.

        operations = read_operations([{"op": "remove_output", "name": "summary"}])

    Raises:
        InvalidError: The value has another form; all issues are listed, with the number and name of the operation.
    """
    root = fields_of(given)
    if "operations" in root and len(root) > 1:
        other_keys = shorten([key for key in root if key != "operations"])
        raise InvalidError("operations", [Issue("format", f"{other_keys}: beside operations there are no other keys")])
    value: Any = root.get("operations", given)
    listed = list_of(value) if isinstance(value, list) else [value]
    operations: list[Operation] = []
    issues: list[Issue] = []
    for number, item in enumerate(listed, 1):
        operation, faults = _read(item)
        operations += [operation] if operation else []
        issues += _issues(faults, number, str(fields_of(item).get("op", "")))
    if issues:
        raise InvalidError("operations", issues)
    return operations


def schema() -> dict[str, JsonValue]:
    """Return the JSON Schema of a batch, to constrain a model's answer."""
    return Batch.model_json_schema()


def new_issues(before: Sequence[Issue], after: Sequence[Issue]) -> list[Issue]:
    """Return the issues of a workflow after a change that it did not have before."""
    return surplus(after, before, lambda issue: issue)


def _read(given: Any) -> tuple[Operation | None, list[Fault]]:
    """Return the operation that a JSON value describes, or None and the faults."""
    if not isinstance(given, dict):
        return None, [Fault("", f'must be an object with "op", not {short_json(given)}', "format")]
    fields = fields_of(given)
    name = str(fields.get("op"))
    if name not in OPERATIONS:
        hint = did_you_mean(name, OPERATIONS) or f"; there are: {', '.join(OPERATIONS)}"
        what = (
            f"{name!r} is not an operation{hint}"
            if "op" in fields
            else f"is missing; it is one of: {', '.join(OPERATIONS)}"
        )
        return None, [Fault("op", what, "unknown-operation")]
    operation_type = OPERATIONS[name]
    try:
        return operation_type.model_validate(fields), []
    except ValidationError as error:
        return None, param_faults(error, operation_type)


def _with_positional_params(before: NodeGraph, graph: NodeGraph, types: Mapping[str, NodeType]) -> NodeGraph:
    """Return the workflow with parameters of changed nodes as lists, as they may be given as objects with names."""
    old = {id(spec) for spec in before.nodes}
    nodes = [
        replace(spec, params=positional(types[spec.type].params_type, spec.params))
        if id(spec) not in old and spec.type in types
        else spec
        for spec in graph.nodes
    ]
    return replace(graph, nodes=nodes)


def _issues(faults: Sequence[Fault], number: int, name: str) -> Iterator[Issue]:
    """Yield the faults of an operation as issues that name it."""
    where = f"operation {number}{f' ({name})' if name else ''}"
    for fault in faults:
        yield Issue(fault.code, f"{fault.where}: {fault.what}" if fault.where else fault.what, where)


def _op_name(operation: Operation) -> str:
    return str(type(operation).model_fields["op"].default)


def in_json(operations: Sequence[Operation]) -> str:
    """Return operations as JSON, without fields that have their default."""
    listed = [
        {"op": _op_name(operation), **operation.model_dump(mode="json", exclude_defaults=True)}
        for operation in operations
    ]
    return json.dumps({"operations": listed}, ensure_ascii=False, indent=2)
