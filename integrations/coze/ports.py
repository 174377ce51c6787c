"""Ports of a node: Operad's numbers and Coze's names."""

from __future__ import annotations

import re
from typing import Any

from operad.integrations.coze.nodes.containers import STARTS
from operad.integrations.coze.nodes.models import DEFAULT_CLASS
from operad.integrations.coze.translation import Translated


def port_name(node: Translated | None, number: int) -> str:
    """Return Coze's name of a port; empty for the only port of a node.

    Args:
        node: The node in Coze's form; None for a node of a type that Coze does not have.
        number: Operad's number of the port.
    """
    if node and node.type == "condition":
        if number == len(node.parameters["branches"]):
            return "false"
        return f"true_{number}" if number else "true"
    if node and node.type == "intent" and number >= 0:
        return f"branch_{number}" if number < len(node.parameters["intents"]) else DEFAULT_CLASS
    return f"port_{number}" if number else ""


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
    else:
        numbers = {"port": number if digits else None}
    return numbers.get(word)
