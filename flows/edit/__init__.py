"""Operations that change a workflow of typed nodes: atomic, with stable ids, and without other changes.

edited = apply(graph, [Connect(source="3", target="4", port=1)])
print(edited.changes)
"""

from operad.flows.edit.batch import OPERATIONS, Batch, EditResult, apply, in_json, new_issues, read_operations, schema
from operad.flows.edit.difference import Difference, ParamChange, difference, side_by_side
from operad.flows.edit.edges import AddBranch, Connect, Disconnect, InsertBetween
from operad.flows.edit.nodes import AddNode, RemoveNode, RenameNode, ReplaceText, SetParam
from operad.flows.edit.notes import RemoveNote, SetNote
from operad.flows.edit.operation import Operation
from operad.flows.edit.short import parse
from operad.flows.edit.variables import AddInput, AddOutput, RemoveInput, RemoveOutput, RenameVariable

__all__ = [
    "OPERATIONS",
    "AddBranch",
    "AddInput",
    "AddNode",
    "AddOutput",
    "Batch",
    "Connect",
    "Difference",
    "Disconnect",
    "EditResult",
    "InsertBetween",
    "Operation",
    "ParamChange",
    "RemoveInput",
    "RemoveNode",
    "RemoveNote",
    "RemoveOutput",
    "RenameNode",
    "RenameVariable",
    "ReplaceText",
    "SetNote",
    "SetParam",
    "apply",
    "difference",
    "in_json",
    "new_issues",
    "parse",
    "read_operations",
    "schema",
    "side_by_side",
]
