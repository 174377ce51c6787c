"""Workflows of typed nodes as data: graph, check, assembly, formats, editing, repair, generation."""

from operad.flows.node_graph import NodeGraph

__all__ = ["NodeGraph"]
