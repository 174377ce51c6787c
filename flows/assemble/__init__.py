"""Assembly of a graph of typed nodes into a workflow that runs."""

from operad.flows.assemble.assembly import assemble

__all__ = ["assemble"]
