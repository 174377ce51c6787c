"""Tools of MCP servers, all of which an action can include by the name of the server.

The connection to a server is opened on first use in a run (`operad.runtime.tools.connections`), never while a
configuration is read. The `mcp` package is an extra, imported when the connection is opened.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import shlex
import traceback
from collections import deque
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from itertools import pairwise
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, cast

from pydantic import AliasChoices, BeforeValidator, ConfigDict, Field, JsonValue, PrivateAttr

from operad.runtime.models.endpoint import MIN_KEY, split_login, without_login
from operad.runtime.reasoning.prompt import cut
from operad.runtime.tools.tool import Tool, ToolGroup, ToolSource
from operad.runtime.values.errors import InputError, MissingExtraError, ToolError, describe
from operad.runtime.values.value import Value

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator
    from typing import TextIO

    from mcp import Client
    from mcp.client import Transport
    from mcp_types import CallToolResult, ContentBlock
    from mcp_types import Tool as ListedTool

log = logging.getLogger(__name__)

_STDERR_LINES = 10
"""Number of the last lines of a server's stderr that an error shows."""

MOST_TOOLS = 1_000
"""Maximum number of tools of a server."""

MOST_SCHEMA = 64 * 2**10
"""Maximum length of the schema of a tool's arguments, in characters; it is sent to the model with each request."""

MOST_DESCRIPTION = 8_000
"""Maximum length of a tool's description for a model, in characters."""

_SECRETS = "key|token|secret|passw|pwd|auth|credential|cookie"
_SECRET = re.compile(f"(?i){_SECRETS}")
_SECRET_OPTION = re.compile(rf"(?i)-+[\w-]*(?:{_SECRETS})[\w-]*")
_SECRET_PART = re.compile(rf"(?i)(://(?=\S*@)|(?:^-*|[?&])[\w.-]*(?:{_SECRETS})[\w.-]*\s*[:=]\s*)(\S*(?=@)|[^&]+)")
_HIDDEN = "[hidden]"


class _Server(Value):
    """Base class of servers.

    Attributes:
        timeout: Maximum seconds to start, connect and list the tools.
        call_timeout: Maximum seconds of a call; also called `sse_read_timeout`, as in Chat2Graph.
    """

    model_config = ConfigDict(hide_input_in_errors=True)

    timeout: float = Field(default=60.0, gt=0)
    call_timeout: float = Field(default=300.0, gt=0, validation_alias=AliasChoices("call_timeout", "sse_read_timeout"))

    _indifferent: ClassVar[frozenset[str]] = frozenset({"timeout", "call_timeout", "env", "headers"})

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, getattr(self, "shown", {}).get(name, value)


def _listed(args: Any) -> Any:
    """Return arguments, unless they are one text."""
    if isinstance(args, str):
        raise InputError('args: expected a list, got a text: write args=["server.py", "--port", "8000"]')
    return args


class StdioServer(_Server):
    """MCP server that runs as a process and is reached over its stdin and stdout.

    Attributes:
        command: The program.
        args: Its arguments.
        env: Environment variables besides PATH, HOME and similar ones; no others are inherited.
        cwd: Working directory.
    """

    transport_type: Literal["STDIO"] = "STDIO"
    command: str = Field(min_length=1)
    args: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ()
    env: dict[str, str] = Field(default_factory=dict, repr=False)
    cwd: Path | None = None
    _folder: Path | None = PrivateAttr(default=None)

    def seen_from(self, folder: Path) -> StdioServer:
        """Return the server with `cwd`, and a `command` with a slash, relative to a folder.

        Caches and durable runs treat it as the same server, so that a project may be moved.
        """
        server = self.model_copy()
        server._folder = folder
        return server

    def _program_and_folder(self) -> tuple[str, Path | None]:
        """Return the program and the working directory for the process."""
        if self._folder is None:
            return self.command, self.cwd
        is_path = os.sep in self.command  # other names are searched on PATH
        program = str(self._folder / Path(self.command).expanduser()) if is_path else self.command
        return program, self._folder / (self.cwd.expanduser() if self.cwd else "")

    @property
    def where(self) -> str:
        """Command line for display, without keys and passwords."""
        return shlex.join([self.command, *self.shown["args"]])

    @property
    def shown(self) -> dict[str, Any]:
        """Fields whose displayed values hide secrets."""
        before = ("", *self.args)
        return {
            "args": tuple(
                _HIDDEN if _is_option(last) and not text.startswith("-") else _SECRET_PART.sub(rf"\1{_HIDDEN}", text)
                for last, text in zip(before, self.args, strict=False)
            )
        }

    @property
    def secrets(self) -> list[str]:
        """Secrets that must not appear in errors and logs."""
        named = [value for name, value in self.env.items() if _SECRET.search(name)]
        after = [text for last, text in pairwise(self.args) if _is_option(last)]
        within = [match[2] for text in (*self.args, *self.env.values()) for match in _SECRET_PART.finditer(text)]
        return _with_parts([*named, *after, *within])

    async def transport(self, stack: AsyncExitStack, stderr: deque[str]) -> Transport:
        """Return the transport of messages; its resources are closed by `stack`, and stderr is added to `stderr`."""
        from mcp.client.stdio import StdioServerParameters, stdio_client

        program, cwd = self._program_and_folder()
        parameters = StdioServerParameters(
            command=program,
            args=list(self.args),
            env=self.env,
            cwd=cwd,
            encoding_error_handler="replace",  # an error in decoding would be reported only when the process ends
        )
        return stdio_client(parameters, errlog=stack.enter_context(_logged_stderr(self.command, stderr, self.secrets)))


class _HttpServer(_Server):
    """A server that is reached by HTTP.

    Attributes:
        url: Its address.
        headers: Headers of every request.
    """

    url: str = Field(pattern=r"^https?://")
    headers: dict[str, str] = Field(default_factory=dict, repr=False)

    @property
    def where(self) -> str:
        """URL for display, without name, password and query."""
        return without_login(self.url)

    @property
    def shown(self) -> dict[str, Any]:
        """Fields whose displayed values hide secrets."""
        return {"url": self.where}

    @property
    def secrets(self) -> list[str]:
        """Secrets that must not appear in errors and logs."""
        named = [value for name, value in self.headers.items() if _SECRET.search(name)]
        within = [match[2] for match in _SECRET_PART.finditer(self.url)]
        return _with_parts([*named, *within])

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return values that are equal for equal servers: the fields, with a URL without secrets."""
        return super().fingerprint() | {"url": self.where}


class StreamableHttpServer(_HttpServer):
    """MCP server with streamable HTTP."""

    transport_type: Literal["STREAMABLE_HTTP"] = "STREAMABLE_HTTP"

    async def transport(self, stack: AsyncExitStack, stderr: deque[str]) -> Transport:
        """Return the transport of messages; its resources are closed by `stack`."""
        from httpx2 import AsyncClient, Timeout
        from mcp.client.streamable_http import streamable_http_client

        url, login = split_login(self.url)
        client = AsyncClient(headers=login | self.headers, timeout=Timeout(self.timeout, read=self.call_timeout))
        await stack.enter_async_context(client)
        return streamable_http_client(url, http_client=client)


class SseServer(_HttpServer):
    """MCP server with the older HTTP transport, server-sent events."""

    transport_type: Literal["SSE"] = "SSE"

    async def transport(self, stack: AsyncExitStack, stderr: deque[str]) -> Transport:
        """Return the transport of messages."""
        from mcp.client.sse import sse_client

        url, login = split_login(self.url)
        return sse_client(url, login | self.headers, timeout=self.timeout, sse_read_timeout=self.call_timeout)


McpServer = Annotated[StdioServer | SseServer | StreamableHttpServer, Field(discriminator="transport_type")]
"""Server, in the form of YAML under `mcp_transport_config`."""


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

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[ToolGroup, None]:
        """Connect to the server and yield its tools, which can be called until the context exits.

        A call returns the text of the result. The context must be entered and left in the same task.

        Raises:
            MissingExtraError: The `mcp` package is not installed.
            ToolError: The server does not start, does not answer in time, or breaks off.
        """
        anyio, client_of = _import_mcp()
        stderr: deque[str] = deque(maxlen=_STDERR_LINES)
        group: ToolGroup | None = None
        try:
            with anyio.CancelScope(deadline=anyio.current_time() + self.server.timeout) as connecting:
                async with AsyncExitStack() as stack:
                    transport = await self.server.transport(stack, stderr)
                    client = await stack.enter_async_context(client_of(transport))
                    # Validation by the server's own schemas could take forever.
                    cast("Any", client.session).validate_tool_result = _accept
                    tools = [self._tool(client, listed) for listed in await _list_tools(client)]
                    group = ToolGroup(name=self.name, description=self.description, tools=tuple(tools), id=self.id)
                    connecting.deadline = math.inf
                    yield group
        except Exception as error:  # noqa: BLE001 - errors that repeat a secret must be hidden
            inner = _innermost(error)
            if group is not None:
                raise inner from inner.__cause__
            raise self._error(f"cannot be used: {describe(inner)}", stderr) from self._as_cause(error)
        if connecting.cancelled_caught:
            raise self._error(f"did not answer within {self.server.timeout:g} s", stderr)

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
        return _hide(self.server.secrets, text)

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


@contextmanager
def _logged_stderr(name: str, tail: deque[str], secrets: list[str]) -> Generator[TextIO, None, None]:
    """Yield a stream for a process's stderr. Lines are logged and added to `tail`, without secrets."""
    reader, writer = os.pipe()

    def pump() -> None:
        with open(reader, encoding="utf-8", errors="replace") as lines:
            for line in iter(lambda: lines.readline(8192), ""):
                text = _hide(secrets, line.rstrip())
                tail.append(text)
                log.info("%s: %s", name, text)

    thread = Thread(target=pump, name=f"stderr of {name}", daemon=True)
    thread.start()
    try:
        with open(writer, "w", encoding="utf-8") as stream:
            yield stream
    finally:
        thread.join(timeout=0.5)  # the process has ended, but a child of it may still hold the pipe


def _is_option(text: str) -> bool:
    """Return True if a command line argument is an option whose value is a secret."""
    return bool(_SECRET_OPTION.fullmatch(text))


def _with_parts(secrets: Iterable[str]) -> list[str]:
    """Return secrets and their parts, which a server may repeat, longest first; short parts are left out."""
    parts = {part for secret in secrets for part in (secret, *re.split(r"[\s:]+", secret))}
    return sorted((part for part in parts if len(part) >= MIN_KEY and part != "Bearer"), key=len, reverse=True)


def _hide(secrets: Iterable[str], text: str) -> str:
    for secret in secrets:
        text = text.replace(secret, _HIDDEN)
    return text


def _innermost(error: Exception) -> Exception:
    """Return the error inside exception groups of task groups."""
    inner: tuple[Exception, ...] = getattr(error, "exceptions", ())
    return _innermost(inner[0]) if inner else error
