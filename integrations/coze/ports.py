"""Ports of a node: Operad's numbers and Coze's names."""

from __future__ import annotations

import re
from typing import Any

from operad.flows.formats.shapes import fields_of, list_of
from operad.integrations.coze.nodes.containers import STARTS
from operad.integrations.coze.nodes.forms import OTHER
from operad.integrations.coze.nodes.models import DEFAULT_CLASS


def port_name(coze_type: str, params: Any, number: int) -> str:
    """Return Coze's name of a port; empty for the only port of a node.

    Args:
        coze_type: Coze's type of the node.
        params: Operad's parameters of the node.
        number: Operad's number of the port.
    """
    fields = fields_of(params)
    if coze_type == "condition":
        if number == len(list_of(fields.get("cases"))):
            return "false"
        return f"true_{number}" if number else "true"
    if coze_type in ("intent", "question") and number >= 0:
        choices = list_of(fields.get("classes" if coze_type == "intent" else "actions"))
        own = [each for each in choices if each not in (DEFAULT_CLASS, OTHER)]
        return f"branch_{number}" if number < len(own) else DEFAULT_CLASS if choices else ""
    if number == 1 and fields_of(fields.get("failure")).get("then") == "branch":
        return FAILED
    return f"port_{number}" if number else ""


FAILED = "branch_error"
"""Name of the port that is taken after an error."""


def port_number(kind: str, params: Any, name: Any) -> int | None:
    """Return Operad's number of a port; None if the node does not have the port in Operad.

    Args:
        kind: Operad's type of the node.
        params: Operad's parameters of the node.
        name: Coze's name of the port.
    """
    if name is None or (kind in STARTS and str(name).endswith("-output")):
        return 0
    word, _, digits = str(name).partition("_")
    number = int(digits) if re.fullmatch("[0-9]{1,6}", digits) else 0 if not digits else None
    if kind == "if-else":
        numbers = {"true": number, "false": len(params["cases"])}
    elif kind == "question-classifier":
        numbers = {"branch": number if digits else None, DEFAULT_CLASS: len(params["classes"])}
    elif kind == "human-input" and params.get("actions"):
        numbers = {"branch": number if digits else None, DEFAULT_CLASS: len(params["actions"]) - 1}
    else:
        numbers = {"port": number if digits else None, DEFAULT_CLASS: 0, "branch": 1 if name == FAILED else None}
    return numbers.get(word)
