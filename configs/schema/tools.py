"""Tools and actions in a configuration file."""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, WithJsonSchema, model_validator

from operad.configs.schema.base import Seconds, Spec, kind
from operad.operators.mcp import McpServer

READY = {"WEB_READER": "web_reader", "WEB_SEARCH": "web_search", "WIKIPEDIA": "wikipedia", "TIME": "current_time"}
"""Names of the tools that come with operad, by their types."""

_READY = ", ".join(READY)  # errors list the tags


def _tool_kind(value: Any) -> str:
    if isinstance(value, str):
        return "name"
    given = cast("dict[str, Any]", value).get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return _READY if isinstance(given, str) and given in READY else str(given or "LOCAL_TOOL")


_APPROVE = "Ask a person before each call, and show the arguments."


class LocalToolSpec(Spec):
    """A tool that is a Python function, or a class whose instances can be called."""

    name: str = Field(description="Name of the function or class in the module.")
    type: Literal["LOCAL_TOOL"] = "LOCAL_TOOL"
    desc: str = Field(default="", description="Description for the model; by default the docstring.")
    module_path: str = Field(description="Module, as Python imports it; it may lie beside this file.")
    timeout: Seconds | None = Field(default=None, description="Maximum seconds of a call.")
    approve: bool = Field(default=False, description=_APPROVE)


class McpToolSpec(Spec):
    """All tools of an MCP server."""

    name: str = Field(description="Name by which actions and operators refer to the tools.")
    type: Literal["MCP"]
    desc: str = Field(default="", description="Description.")
    mcp_transport_config: McpServer = Field(description="Transport, and address or command of the server.")
    approve: bool = Field(default=False, description=_APPROVE)
    sampling: bool = Field(
        default=False, description="Let the server send prompts to the model that calls its tools, within the budget."
    )
    resources: bool = Field(
        default=False, description="Let the model list and read the server's resources: list_resources, read_resource."
    )
    prompts: bool = Field(default=False, description="Let the model read the server's prompts: get_prompt.")


class ReadyToolSpec(Spec):
    """A tool that comes with operad."""

    type: Literal["WEB_READER", "WEB_SEARCH", "WIKIPEDIA", "TIME"] = Field(
        description="web_reader(url), web_search(query, limit), wikipedia(query, language) or current_time(zone)."
    )
    name: str = Field(
        default="", description="By default web_reader, web_search, wikipedia or current_time, by its type."
    )
    approve: bool = Field(default=False, description=_APPROVE)

    @model_validator(mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        own = READY.get(str(fields.get("type")))
        return {**fields, "name": own} if own and not fields.get("name") else cast("Any", value)


ToolSpec = LocalToolSpec | McpToolSpec | ReadyToolSpec


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


_Tool = (
    Annotated[LocalToolSpec, Tag("LOCAL_TOOL")]
    | Annotated[McpToolSpec, Tag("MCP")]
    | Annotated[ReadyToolSpec, Tag(_READY)]
)

AnyTool = Annotated[
    Annotated[_Tool, Discriminator(_tool_kind)],
    BeforeValidator(_defined, json_schema_input_type=Dotted | LocalToolSpec | McpToolSpec | ReadyToolSpec),
]
"""A tool, or the function that it is of."""

ToolRef = Annotated[Annotated[str, Tag("name")] | _Tool, Discriminator(_tool_kind)]


class ActionSpec(Spec):
    """Named group of tools for one activity."""

    name: str = Field(description="Name by which operators refer to it.")
    desc: str = Field(default="", description="Description for the model.")
    tools: list[ToolRef] = Field(default=[], description="Tools of the action.")


ActionRef = Annotated[Annotated[str, Tag("name")] | Annotated[ActionSpec, Tag("definition")], Discriminator(kind)]
