"""Tools of MCP servers, all of which an action can include by the name of the server.

The connection to a server is opened on first use in a run (`operad.runtime.tools.connections`), never while a
configuration is read. The `mcp` package is an extra, imported when the connection is opened.
"""

from __future__ import annotations

import json
import math
import re
import traceback
from collections import deque
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from pydantic import ConfigDict

from operad.operators.mcp_servers import McpServer, SseServer, StdioServer, StreamableHttpServer
from operad.runtime.reasoning.prompt import cut
from operad.runtime.tools.tool import Tool, ToolGroup, ToolSource
from operad.runtime.values.errors import MissingExtraError, ToolError, describe
from operad.runtime.values.secret import SecretUse, hide

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from mcp import Client
    from mcp_types import CallToolResult, ContentBlock
    from mcp_types import Tool as ListedTool

__all__ = ["McpServer", "McpTools", "SseServer", "StdioServer", "StreamableHttpServer"]

_STDERR_LINES = 10
"""Number of the last lines of a server's stderr that an error shows."""

MOST_TOOLS = 1_000
"""Maximum number of tools of a server."""

MOST_SCHEMA = 64 * 2**10
"""Maximum length of the schema of a tool's arguments, in characters; it is sent to the model with each request."""

MOST_DESCRIPTION = 8_000
"""Maximum length of a tool's description for a model, in characters."""


class McpTools(ToolSource):
    """All the tools of an MCP server.

    Attributes:
        server: The server.
        prefix: Prefix of the tools' names, for servers with equal tool names.
        approve: True if a person is asked before each call of its tools, and shown the arguments.
    """

    model_config = ConfigDict(hide_input_in_errors=True)  # the server may hold tokens

    server: McpServer
    prefix: str = ""
    approve: bool = False

    _indifferent = ToolSource._indifferent | {"approve"}

    @property
    def secret_uses(self) -> list[SecretUse]:
        """Secrets that the server gets."""
        return self.server.secret_uses

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[ToolGroup, None]:
        """Connect to the server and yield its tools, which can be called until the context exits.

        A call returns the text of the result. The context must be entered and left in the same task.

        Raises:
            MissingExtraError: The `mcp` package is not installed.
            ToolError: The server does not start, does not answer in time, or breaks off.
            InputError: A secret of the server has no value.
        """
        anyio, client_of = _import_mcp()
        live = self.model_copy(update={"server": self.server.with_values()})
        stderr: deque[str] = deque(maxlen=_STDERR_LINES)
        group: ToolGroup | None = None
        try:
            with anyio.CancelScope(deadline=anyio.current_time() + self.server.timeout) as connecting:
                async with AsyncExitStack() as stack:
                    transport = await live.server.transport(stack, stderr)
                    client = await stack.enter_async_context(client_of(transport))
                    # Validation by the server's own schemas could take forever.
                    cast("Any", client.session).validate_tool_result = _accept
                    tools = [live._tool(client, listed) for listed in await _list_tools(client)]
                    group = ToolGroup(name=self.name, description=self.description, tools=tuple(tools), id=self.id)
                    connecting.deadline = math.inf
                    yield group
        except Exception as error:  # noqa: BLE001 - errors that repeat a secret must be hidden
            inner = _innermost(error)
            if group is not None:
                raise inner from inner.__cause__
            raise live._error(f"cannot be used: {describe(inner)}", stderr) from live._as_cause(error)
        if connecting.cancelled_caught:
            raise live._error(f"did not answer within {self.server.timeout:g} s", stderr)

    def _tool(self, client: Client, listed: ListedTool) -> Tool:
        """Return the tool for a tool that the server lists.

        Raises:
            ToolError: The tool has no name, or its schema is too large.
        """

        async def call(**arguments: Any) -> str:
            try:
                result = await client.call_tool(listed.name, arguments, self.server.call_timeout)
            except Exception as error:  # noqa: BLE001 - as above
                problem = f"broke off the call of tool {listed.name!r}: {describe(error)}"
                raise self._error(problem) from self._as_cause(error)
            text = self._without_secrets(_result_text(result))
            if result.is_error:
                raise ToolError(text or f"tool {listed.name!r} failed and does not say why")
            return text

        name = re.sub(r"[^A-Za-z0-9_-]", "_", self.prefix + listed.name)[:64]
        if not name:
            raise ToolError("it lists a tool without a name; give the tools of this server a prefix")
        if (size := len(json.dumps(listed.input_schema))) > MOST_SCHEMA:
            raise ToolError(f"its tool {name!r} has a schema of {size:,} characters; at most {MOST_SCHEMA:,} are taken")
        return Tool(
            name=name,
            description=cut(listed.description or listed.title or "", MOST_DESCRIPTION),
            parameters=listed.input_schema,
            function=call,
            id=f"{self.id}/{listed.name}",
            approve=self.approve,
        )

    def _error(self, problem: str, stderr: deque[str] | None = None) -> ToolError:
        """Return an error about the server, with the last lines of its stderr and without secrets."""
        last_lines = "; its last words:\n  " + "\n  ".join(stderr) if stderr else ""
        return ToolError(self._without_secrets(f"MCP server {self.name!r} ({self.server.where}) {problem}{last_lines}"))

    def _without_secrets(self, text: str) -> str:
        return hide(text, self.server.secrets)

    def _as_cause(self, error: Exception) -> Exception | None:
        """Return the error, to be chained as the cause; None if its traceback contains a secret."""
        text = "".join(traceback.format_exception(error))
        return error if self._without_secrets(text) == text else None


def _import_mcp() -> tuple[Any, Callable[..., Client]]:
    try:
        import anyio
        from mcp import Client
    except ImportError as error:
        raise MissingExtraError(f'MCP servers need the mcp package ({error}): pip install "operad[mcp]"') from error
    return anyio, Client


async def _list_tools(client: Client) -> list[ListedTool]:
    """Return all tools of a server.

    Raises:
        ToolError: There are more than `MOST_TOOLS`.
    """
    page = await client.list_tools()
    tools = list(page.tools)
    while page.next_cursor and len(tools) <= MOST_TOOLS:
        page = await client.list_tools(cursor=page.next_cursor)
        tools += page.tools
    if len(tools) > MOST_TOOLS:
        raise ToolError(f"it lists more than {MOST_TOOLS:,} tools, which no model can choose from")
    return tools


async def _accept(name: str, result: CallToolResult) -> None:
    """Accept a result without validation."""


def _result_text(result: CallToolResult) -> str:
    """Return a result as text for a model; structured content is used only if there is no other content."""
    if not result.content and result.structured_content is not None:
        return json.dumps(result.structured_content, ensure_ascii=False)
    return "\n".join(map(_block_text, result.content))


def _block_text(block: ContentBlock) -> str:
    """Return a block of a tool's result as text; binary content is replaced by a description."""
    if block.type == "text":
        return block.text
    if block.type == "resource_link":
        return f"[{block.name}]({block.uri})"
    if block.type == "resource":
        text = getattr(block.resource, "text", None)
        return text if text is not None else f"[{block.resource.mime_type or 'binary'} resource {block.resource.uri}]"
    return f"[{block.mime_type} {block.type}, {len(block.data) * 3 // 4} bytes]"


def _innermost(error: Exception) -> Exception:
    """Return the error inside exception groups of task groups."""
    inner: tuple[Exception, ...] = getattr(error, "exceptions", ())
    return _innermost(inner[0]) if inner else error
