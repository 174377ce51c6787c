"""Assembly: a workflow of typed nodes, checked, as a workflow that runs."""

from operad.flows.assemble.assembly import assemble

__all__ = ["assemble"]
