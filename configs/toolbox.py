"""The tools and actions of a configuration file."""

from __future__ import annotations

from pathlib import Path

from operad.configs.faults import Faults
from operad.configs.imports import Modules
from operad.configs.schema import ActionSpec, ConfigSpec, McpToolSpec, ReadyToolSpec, ToolSpec
from operad.operators import Services
from operad.operators.builtin_tools import current_time, web_reader, web_search, wikipedia
from operad.operators.mcp import McpTools, StdioServer
from operad.runtime.tools.tool import Tool
from operad.runtime.tools.toolkit import Action, Toolkit
from operad.runtime.values.document import Path_
from operad.runtime.values.errors import ToolError, did_you_mean
from operad.runtime.values.secret import Secret, secret_name


class Toolbox:
    """Tools and actions of a file by name, and the graph of them.

    Args:
        spec: Content of the file.
        folder: Folder of the file.
        faults: Collected faults.
        modules: Source of the functions and classes that the file names.
        services: Web access for the tools that come with operad.

    Attributes:
        toolkit: The graph of the file's actions and tools.
    """

    def __init__(self, spec: ConfigSpec, folder: Path, faults: Faults, modules: Modules, services: Services) -> None:
        self._folder = folder
        self._modules = modules
        self._faults = faults
        self._services = services
        self._tools: dict[str, Tool | McpTools | None] = {}
        self._specs: dict[str, ToolSpec] = {}
        self._actions: dict[str, Action] = {}
        self.toolkit = Toolkit()
        for number, tool in enumerate(spec.tools):
            self._define_tool(tool, ("tools", number))
        for number, action in enumerate(spec.actions):
            self._define_action(action, ("actions", number))
        for number, chain in enumerate(spec.toolkit):
            actions = [self.action(ref, ("toolkit", number, i)) for i, ref in enumerate(chain)]
            self.toolkit.add_chain([action for action in actions if action])

    def tool(self, ref: str | ToolSpec, path: Path_) -> Tool | McpTools | None:
        """Return the tool that is named or defined at `path`; None after reporting a fault."""
        if not isinstance(ref, str):
            return self._define_tool(ref, path)
        if ref not in self._tools:
            hint = did_you_mean(ref, self._tools) or "; define it under `tools`, or write module.function"
            self._faults.report(path, "unknown-tool", f"no tool is called {ref!r}{hint}")
        return self._tools.get(ref)

    @property
    def tools(self) -> list[Tool | McpTools]:
        """All tools of the file."""
        return [tool for tool in self._tools.values() if tool is not None]

    def action(self, ref: str | ActionSpec, path: Path_) -> Action | None:
        """Return the action that is named or defined at `path`; None after reporting a fault."""
        if not isinstance(ref, str):
            return self._define_action(ref, path)
        if ref not in self._actions:
            hint = did_you_mean(ref, self._actions)
            self._faults.report(path, "unknown-action", f"no action is called {ref!r}{hint}")
        return self._actions.get(ref)

    def _define_tool(self, spec: ToolSpec, path: Path_) -> Tool | McpTools | None:
        if self._specs.setdefault(spec.name, spec) != spec:
            self._faults.report(path, "duplicate-name", f"another tool is called {spec.name!r} too")
        if spec.name not in self._tools:
            self._tools[spec.name] = None
            self._report_keys(spec, path)
            try:
                self._tools[spec.name] = self._load(spec)
            except ToolError as error:
                self._faults.report(path, "tool-module", str(error))
        return self._tools[spec.name]

    def _report_keys(self, spec: ToolSpec, path: Path_) -> None:
        """Report the keys that are written in the definition of an MCP server."""
        for field, name in spec.mcp_transport_config.keys() if isinstance(spec, McpToolSpec) else ():
            secret = Secret(secret_name(spec.name, name.strip("-=… ")))
            how = f"{{secret: {secret.name}}}" if field in ("env", "headers") else secret.in_text
            if field == "url":
                how = f"an entry of headers, {{X-Api-Key: {{secret: {secret.name}}}}}"
            self._faults.report(
                (*path, "mcp_transport_config", field),
                "literal-key",
                f"a key is written in {name!r}; write {how} in its place, and give its value by operad secrets set "
                f"{secret.name}, or as an environment variable",
            )

    def _load(self, spec: ToolSpec) -> Tool | McpTools:
        if isinstance(spec, McpToolSpec):
            server = spec.mcp_transport_config
            resolved = server.seen_from(self._folder) if isinstance(server, StdioServer) else server
            source = McpTools(
                name=spec.name,
                description=spec.desc,
                server=resolved,
                approve=spec.approve,
                sampling=spec.sampling,
                resources=spec.resources,
                prompts=spec.prompts,
            )
            return source.pinned_by(self._modules.pins)
        if isinstance(spec, ReadyToolSpec):
            return _ready_tool(spec, self._services)
        tool = self._modules.tool(spec)
        if spec.timeout:
            tool = tool.model_copy(update={"timeout": spec.timeout})
        return tool.model_copy(update={"approve": True}) if spec.approve else tool

    def _define_action(self, spec: ActionSpec, path: Path_) -> Action:
        if spec.name not in self._actions:
            found = [self.tool(ref, (*path, "tools", i)) for i, ref in enumerate(spec.tools)]
            action = Action(
                name=spec.name,
                description=spec.desc,
                tools=tuple(tool for tool in found if tool is not None),
                id=spec.name,
            )
            self._actions[spec.name] = action
            self.toolkit.add_action(action)
        return self._actions[spec.name]


def _ready_tool(spec: ReadyToolSpec, services: Services) -> Tool:
    """Return a tool that comes with operad."""
    tool = {
        "WEB_READER": lambda: web_reader(services),
        "WEB_SEARCH": lambda: web_search(services),
        "WIKIPEDIA": lambda: wikipedia(services),
        "TIME": current_time,
    }[spec.type]()
    return tool.model_copy(update={"name": spec.name, "approve": spec.approve})
