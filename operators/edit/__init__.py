"""Operations that change a workflow of typed nodes: atomic, with ids that stay, and nothing else touched.

edited = apply(graph, [Connect(source="3", target="4", port=1)])
print(edited.changes)
"""

from operad.operators.edit.batch import OPERATIONS, Batch, Edited, apply, in_json, new_issues, read_operations, schema
from operad.operators.edit.difference import Difference, ParamChange, difference
from operad.operators.edit.edges import AddBranch, Connect, Disconnect, InsertBetween
from operad.operators.edit.ends import MergeEnds, SplitEnd
from operad.operators.edit.nodes import AddNode, RemoveNode, ReplaceText, SetParam
from operad.operators.edit.operation import Operation
from operad.operators.edit.short import parse
from operad.operators.edit.variables import AddInput, AddOutput, RemoveInput, RemoveOutput, RenameVariable

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
    "Edited",
    "InsertBetween",
    "MergeEnds",
    "Operation",
    "ParamChange",
    "RemoveInput",
    "RemoveNode",
    "RemoveOutput",
    "RenameVariable",
    "ReplaceText",
    "SetParam",
    "SplitEnd",
    "apply",
    "difference",
    "in_json",
    "new_issues",
    "parse",
    "read_operations",
    "schema",
]
