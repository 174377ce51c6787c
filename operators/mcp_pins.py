"""Pins: hashes of what MCP servers say of their tools, kept with the approval of a person.

A server can change the description of a tool after it was approved, and the description is part of the prompt. Of a
changed tool, a model sees the name and the bare form of the arguments; a person is shown the new description, and asked
before the first call.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Protocol, cast

from operad.runtime.tools.approval import approve, people
from operad.runtime.tools.tool import Tool
from operad.runtime.values.errors import InputError
from operad.runtime.values.model_text import with_note

log = logging.getLogger("operad.operators.mcp")

_WORDS = frozenset({"title", "description", "examples", "default", "$comment"})
"""Keywords of a JSON Schema that hold words for a model, and check nothing."""

_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose values are schemas by name."""

_SCHEMAS = frozenset(
    {"items", "prefixItems", "additionalProperties", "anyOf", "oneOf", "allOf", "not", "if", "then", "else", "contains"}
)
"""Keywords whose values are schemas, or lists of them."""

WITHHELD = "The description is withheld, because it has changed; a person is asked before the tool is called."


class ToolPins(Protocol):
    """Hashes of the tools that a person has approved, by server."""

    def known(self, server: str) -> Mapping[str, str] | None:
        """Return the hashes of a server's tools by name; None if the server was not connected since the approval."""
        ...

    def keep(self, server: str, tools: Mapping[str, str]) -> None:
        """Keep the hashes of tools of a server."""
        ...


def pin_of(name: str, description: str, parameters: Mapping[str, Any]) -> str:
    """Return the hash of what a server says of a tool."""
    text = json.dumps([name, description, parameters], sort_keys=True)
    return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def checked_tools(tools: list[Tool], server: str, pins: ToolPins) -> list[Tool]:
    """Return the tools of a server, with those guarded that have changed since a person approved them.

    All tools of a server without pins are approved: the person has just trusted the server.

    Args:
        pins: The kept pins.
    """
    known = pins.known(server)
    if known is None:
        try:
            pins.keep(server, {tool.name: tool.pin for tool in tools})
        except InputError as error:
            log.warning("the tools of MCP server %r cannot be pinned: %s", server, error)
        return tools
    return [
        tool if known.get(tool.name, "") == tool.pin or not tool.pin else _guarded(tool, server, pins, known)
        for tool in tools
    ]


def _guarded(tool: Tool, server: str, pins: ToolPins, known: Mapping[str, str]) -> Tool:
    """Return a tool that a person approves before it is called, and that withholds its description until then."""
    how = "changed the tool" if tool.name in known else "has the new tool"
    note = (
        f"The MCP server {server!r} {how} {tool.name} since it was trusted. It now says: "
        f"{tool.description or '(no description)'}"
    )

    accepted = False

    async def call(**arguments: Any) -> Any:
        nonlocal accepted
        if accepted and not tool.approve:
            return await tool.function(**arguments)
        by = people(tool.approve)
        allowed = await approve(
            tool.name, tool.parameters, arguments, pin=tool.pin, note="" if accepted else note, answer_by=by
        )
        accepted = True
        pins.keep(server, {tool.name: tool.pin})
        result = await tool.function(**allowed)
        return result if allowed == arguments else with_note("(a person changed the arguments)", result)

    return tool.model_copy(
        update={
            "description": WITHHELD,
            "parameters": _without_words(tool.parameters),
            "function": call,
            "approve": False,  # asked above
        }
    )


def _without_words(schema: Any) -> Any:
    """Return a JSON Schema without titles and descriptions, which may hold instructions for a model."""
    if isinstance(schema, list):
        return [_without_words(each) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    found: dict[str, Any] = {}
    for key, value in cast("dict[str, Any]", schema).items():
        if key in _NAMED and isinstance(value, dict):
            found[key] = {name: _without_words(each) for name, each in cast("dict[str, Any]", value).items()}
        elif key not in _WORDS:
            found[key] = _without_words(value) if key in _SCHEMAS else value
    return found
