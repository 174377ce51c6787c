"""Parameters of nodes at Coze: a pair of functions for each type, to write and to read them.

A parameter that Coze has no field for is not written here; `notes` sees what does not come back, and keeps it in the
description of the node.
"""

from __future__ import annotations

from collections.abc import Mapping

from operad.flows.formats.coze.nodes.containers import CONTAINERS
from operad.flows.formats.coze.nodes.flow import FLOW
from operad.flows.formats.coze.nodes.kind import Kind
from operad.flows.formats.coze.nodes.models import MODELS
from operad.flows.formats.coze.nodes.values import VALUES

KINDS: Mapping[str, Kind] = {**FLOW, **MODELS, **VALUES, **CONTAINERS}
"""The types that Coze has, by our names."""
