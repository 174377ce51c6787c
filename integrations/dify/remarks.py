"""Differences between a Dify file's behaviour here and in Dify."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from operad.flows.formats.fields import Declared, Owner, Remark, Use, remarks_on
from operad.flows.formats.shapes import Fields, each_of, fields_of, text_of
from operad.flows.node_graph import NodeGraph
from operad.integrations.dify.fields import ANY_NODE, AROUND, EDGE, FILE, NODES
from operad.integrations.dify.in_workflow import selectors_named
from operad.integrations.dify.nodes.tools import plain_value, tool_type
from operad.integrations.dify.plugins import TOOLS
from operad.integrations.dify.read import is_note
from operad.integrations.dify.write import EXTRA, Writer, read_type, values_of
from operad.operators.variables import Selector
from operad.runtime.policies.policy import ERROR_OUTPUTS


def remarks_of(graph: NodeGraph) -> Iterator[Remark]:
    """Yield the remarks on a workflow that was read from a Dify file; none for any other."""
    if any(EXTRA in each.extra for each in (graph, *graph.nodes, *graph.edges)):
        operad_ids = {dify_id: operad_id for operad_id, dify_id in Writer(graph).ids.items()}
        standing = graph.runnable.left_out
        yield from (Owner(node_id).remark("edges", Declared(Use.NOTE, _NO_PATH)) for node_id in sorted(standing))
        remarks = remarks_on_values(values_of(graph), operad_ids)
        yield from (remark for remark in remarks if remark.node not in standing)
        read = {each for spec in graph.nodes for each in selectors_named(spec.params)}
        for spec in graph.nodes:
            goes_on = fields_of(fields_of(spec.params).get("failure")).get("then", "end") != "end"
            if goes_on and Selector(_ERROR_TYPE, spec.id) in read:
                yield Owner(spec.id).remark(_ERROR_TYPE, Declared(Use.NOTE, _OTHER_NAMES))


_ERROR_TYPE = ERROR_OUTPUTS[1]
_NO_PATH = "no path leads to this node from the start, and it does not run"
_OTHER_NAMES = "is the name of Operad's error, such as CodeError or FetchError, not Dify's; compare error_message"


def remarks_on_values(root: Fields, ours: Mapping[str, str] | None = None) -> Iterator[Remark]:
    """Yield the remarks on the values of a file.

    Args:
        root: The values.
        ours: Operad's ids of nodes by those of the file; only ids that differ.
    """
    ours = ours or {}
    graph = fields_of(fields_of(root.get("workflow")).get("graph"))
    nodes = [node for node in each_of(graph.get("nodes")) if not is_note(node)]
    yield from remarks_on(root, FILE, Owner())
    for node in nodes:
        yield from _node_remarks(node, ours)
    for edge in each_of(graph.get("edges")):
        target = text_of(edge.get("target"))
        yield from remarks_on(edge, EDGE, Owner(ours.get(target, target), "its edge"), Use.NOTE)


def _node_remarks(node: Fields, operad_ids: Mapping[str, str]) -> Iterator[Remark]:
    data = fields_of(node.get("data"))
    owner = _owner(node, operad_ids)
    kind = read_type(data)
    yield from remarks_on(node, AROUND, owner, Use.NOTE)
    if kind in TOOLS:
        yield from _tool_remarks(data, owner)
    elif kind in NODES:  # the check reports other types, which do not run
        yield from remarks_on(data, ANY_NODE | NODES[kind], owner)


def _tool_remarks(data: Fields, owner: Owner) -> Iterator[Remark]:
    """Yield the remarks on a tool that does the work of a node type of Operad."""
    tool = TOOLS[tool_type(data)]
    settings = {key: plain_value(each) for key, each in fields_of(data.get("tool_configurations")).items()}
    is_default = all(value in (None, "") or tool.settings.get(key) == value for key, value in settings.items())
    known = {**data, "tool_configurations": {} if is_default else settings}
    yield from remarks_on(known, ANY_NODE | NODES["tool"], owner)
    for name, given in fields_of(data.get("tool_parameters")).items():
        if name not in tool.parameters and plain_value(given) not in (None, ""):
            yield owner.remark(f"tool_parameters.{name}", Declared(Use.LOSSY, "is not passed on"))


def _owner(node: Fields, operad_ids: Mapping[str, str]) -> Owner:
    node_id = text_of(node.get("id"))
    title = fields_of(node.get("data")).get("title")
    return Owner(operad_ids.get(node_id, node_id), title if isinstance(title, str) else "")
