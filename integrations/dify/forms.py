"""Other forms of Dify files: exports without `kind`, bare graphs, and apps with a configuration instead of a graph."""

from __future__ import annotations

from operad.flows.formats.shapes import Fields, each_of, fields_of
from operad.integrations.dify.apps import graph_of_config, has_config


def as_app(root: Fields) -> Fields:
    """Return the values of a file as those of an app with a graph; values of unknown form are returned unchanged."""
    if has_config(root):
        return graph_of_config(root)
    if "app" in root:
        return root
    found = _bare_graph(root)
    if found is None:
        return root
    workflow, graph = found
    types = [fields_of(node.get("data")).get("type") for node in each_of(graph.get("nodes"))]  # of any form
    app = {"mode": "advanced-chat" if "answer" in types and "end" not in types else "workflow"}
    kept = {key: value for key, value in root.items() if key in ("version", "dependencies", "operad")}
    return {**kept, "app": app, "kind": "app", "workflow": {**workflow, "graph": graph}}


def _bare_graph(root: Fields) -> tuple[Fields, Fields] | None:
    """Return the workflow and the graph of a file without an app; None if it has no graph."""
    workflow = fields_of(root.get("workflow"))
    for holder, more in ((workflow, workflow), (root, {})):
        for key in ("graph", "graph_config"):
            if "nodes" in fields_of(holder.get(key)):
                return more, fields_of(holder[key])
    return ({}, root) if "nodes" in root and "edges" in root else None
