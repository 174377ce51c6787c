"""Tools and actions in a configuration file."""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
)

from operad.configs.schema.base import Seconds, Spec, kind
from operad.operators.mcp import McpServer


def _tool_kind(value: Any) -> str:
    if isinstance(value, str):
        return "name"
    if isinstance(value, dict):
        return str(cast("dict[str, Any]", value).get("type", "LOCAL_TOOL"))
    return str(getattr(value, "type", "LOCAL_TOOL"))


_APPROVE = "Ask a person before each call, and show the arguments."


class LocalToolSpec(Spec):
    """A tool that is a Python function, or a class whose instances can be called."""

    name: str = Field(description="The function's or class's name in the module.")
    type: Literal["LOCAL_TOOL"] = "LOCAL_TOOL"
    desc: str = Field(default="", description="What it does; by default its docstring.")
    module_path: str = Field(description="The module, as Python imports it. Its folder may be that of this file.")
    timeout: Seconds | None = Field(default=None, description="Seconds that a call may take.")
    approve: bool = Field(default=False, description=_APPROVE)


class McpToolSpec(Spec):
    """All tools of an MCP server."""

    name: str = Field(description="What actions call these tools by.")
    type: Literal["MCP"]
    desc: str = Field(default="", description="What they are for.")
    mcp_transport_config: McpServer = Field(description="How the server is reached.")
    approve: bool = Field(default=False, description=_APPROVE)


ToolSpec = LocalToolSpec | McpToolSpec


def _with_module(name: str) -> str:
    if not all(name.rpartition(".")):
        raise ValueError(f"{name!r} names no module: write module.function")
    return name


Dotted = Annotated[str, AfterValidator(_with_module), WithJsonSchema({"type": "string", "pattern": r"\."})]
"""A function or class, as module.name."""


def dotted_tool(name: str) -> dict[str, str]:
    """Return the local tool that a dotted name such as ``my_module.search`` stands for.

    Raises:
        ValueError: It names no module.
    """
    module, _, function = name.rpartition(".")
    if not (module and function):
        raise ValueError(f"{name!r} names no tool: define it by name and module_path, or write module.function")
    return {"name": function, "module_path": module}


def _defined(value: Any) -> Any:
    return dotted_tool(value) if isinstance(value, str) else value


_Tool = Annotated[
    Annotated[LocalToolSpec, Tag("LOCAL_TOOL")] | Annotated[McpToolSpec, Tag("MCP")], Discriminator(_tool_kind)
]

AnyTool = Annotated[_Tool, BeforeValidator(_defined, json_schema_input_type=Dotted | LocalToolSpec | McpToolSpec)]
"""A tool, or the function that it is of."""

ToolRef = Annotated[
    Annotated[str, Tag("name")] | Annotated[LocalToolSpec, Tag("LOCAL_TOOL")] | Annotated[McpToolSpec, Tag("MCP")],
    Discriminator(_tool_kind),
]


class ActionSpec(Spec):
    """Something an operator may do, and the tools for it."""

    name: str = Field(description="What operators call it by.")
    desc: str = Field(default="", description="What it does, for the model that chooses.")
    tools: list[ToolRef] = Field(default=[], description="What it is done with.")


ActionRef = Annotated[Annotated[str, Tag("name")] | Annotated[ActionSpec, Tag("definition")], Discriminator(kind)]
