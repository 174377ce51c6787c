"""Mappings of node types to Coze: for each type, a function that writes its parameters and one that reads them.

Parameters that Coze has no field for are not written here: `notes` finds the parameters that reading would not give
back, and keeps them in the description of the node.
"""

from __future__ import annotations

from collections.abc import Mapping

from operad.integrations.coze.nodes.containers import CONTAINERS
from operad.integrations.coze.nodes.flow import FLOW
from operad.integrations.coze.nodes.models import MODELS
from operad.integrations.coze.nodes.node_mapping import NodeMapping
from operad.integrations.coze.nodes.values import VALUES

MAPPED: Mapping[str, NodeMapping] = {**FLOW, **MODELS, **VALUES, **CONTAINERS}
"""Mappings of the node types that Coze has, by Operad's type."""
