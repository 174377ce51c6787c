"""Mappings of node types to Dify: for each type, a function that writes its ``data`` and one that reads it.

Both directions accept invalid values and translate what they can. A feature that Operad's type lacks becomes a
parameter that the type does not have, so that the check refuses it.
"""

from __future__ import annotations

from collections.abc import Mapping

from operad.flows.formats.shapes import Fields, each_of, text_of
from operad.integrations.dify.nodes.agents import AGENTS
from operad.integrations.dify.nodes.containers import CONTAINERS
from operad.integrations.dify.nodes.failure import FAIL_BRANCH, branches
from operad.integrations.dify.nodes.flow import FLOW
from operad.integrations.dify.nodes.models import MODELS
from operad.integrations.dify.nodes.node_mapping import NodeMapping
from operad.integrations.dify.nodes.sources import SOURCES
from operad.integrations.dify.nodes.tools import TOOL_NODES
from operad.integrations.dify.nodes.values import VALUES

MAPPED: Mapping[str, NodeMapping] = {**FLOW, **AGENTS, **MODELS, **VALUES, **CONTAINERS, **SOURCES, **TOOL_NODES}
"""Mappings of the node types that Dify has, too, some of them as tools."""


def handles(data: Fields) -> list[str]:
    """Return the handles of the edges that leave a node, in the order of its ports."""
    match data.get("type"):
        case "if-else":
            cases = (
                [text_of(case.get("case_id")) for case in each_of(data.get("cases"))] if "cases" in data else ["true"]
            )
            return [*cases, "false"]
        case "question-classifier":
            return [text_of(each.get("id")) for each in each_of(data.get("classes"))]
        case "human-input":
            return [*(text_of(each.get("id")) for each in each_of(data.get("user_actions"))), "__timeout"]
        case _:
            return ["source", FAIL_BRANCH] if branches(data) else ["source"]
