"""Tools of MCP servers, all of which an action can include by the name of the server.

The connection to a server is opened on first use in a run (`operad.runtime.tools.connections`), never while a
configuration is read. The `mcp` package is an extra, imported when the connection is opened.
"""

from __future__ import annotations

import asyncio
import binascii
import json
import math
import re
import traceback
from base64 import b64decode
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import urlsplit

from pydantic import ConfigDict, JsonValue, PrivateAttr

from operad.operators.mcp_pins import ToolPins, checked_tools, pin_of
from operad.operators.mcp_servers import McpServer, SseServer, StdioServer, StreamableHttpServer
from operad.runtime.events import current_scope
from operad.runtime.events.interrupts import interrupt, model_of_tool_call
from operad.runtime.models.messages import Message, Text
from operad.runtime.models.model import Model
from operad.runtime.models.settings import ModelSettings
from operad.runtime.policies.deadline import Deadline, within
from operad.runtime.policies.policy import Timeout
from operad.runtime.tools.tool import Tool, ToolGroup, ToolSource
from operad.runtime.values.blob import Blob
from operad.runtime.values.errors import InvalidError, MissingExtraError, ToolError, describe
from operad.runtime.values.pip import pip_install
from operad.runtime.values.secret import SecretUse, hide
from operad.runtime.values.text import cut

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine

    from mcp import Client
    from mcp.client import ClientRequestContext
    from mcp_types import (
        BlobResourceContents,
        CallToolResult,
        ContentBlock,
        CreateMessageRequestParams,
        CreateMessageResult,
        ElicitRequestParams,
        ElicitResult,
        ErrorData,
        GetPromptResult,
        Prompt,
        ReadResourceResult,
        SamplingMessage,
        TextResourceContents,
    )
    from mcp_types import Tool as ListedTool


# Content of MCP servers as texts and blobs for a model: results of tools, resources, prompts.

Content = str | list[str | Blob]
"""Text; or texts and blobs, if there is a blob."""

MOST_BLOB = 10 * 2**20
"""Maximum size of a blob for a model, in bytes; larger ones are described."""


def result_content(result: CallToolResult) -> Content:
    """Return a tool's result; structured content is used only if there is no other content."""
    if not result.content and result.structured_content is not None:
        return json.dumps(result.structured_content, ensure_ascii=False)
    return _joined([_block(block) for block in result.content])


def resource_content(result: ReadResourceResult) -> Content:
    """Return the parts of a resource."""
    return _joined([_resource(part) for part in result.contents])


def prompt_content(result: GetPromptResult) -> Content:
    """Return the messages of a prompt; those of the assistant are marked if there are several messages."""
    parts: list[str | Blob] = []
    for message in result.messages:
        part = _block(message.content)
        marked = isinstance(part, str) and message.role == "assistant" and len(result.messages) > 1
        parts.append(f"Assistant: {part}" if marked else part)
    return _joined(parts)


def _block(block: ContentBlock) -> str | Blob:
    if block.type == "text":
        return block.text
    if block.type == "resource_link":
        return f"[{block.name}]({block.uri})"
    if block.type == "resource":
        return _resource(block.resource)
    return _blob(block.data, block.mime_type)


def _resource(part: TextResourceContents | BlobResourceContents) -> str | Blob:
    text: str | None = getattr(part, "text", None)
    data: Any = getattr(part, "blob", "")
    return text if text is not None else _blob(data, part.mime_type or "application/octet-stream", str(part.uri))


def _blob(encoded: str, media_type: str, name: str = "") -> str | Blob:
    """Return binary content; a description if it is larger than `MOST_BLOB`, or not base64."""
    if len(encoded) > MOST_BLOB * 4 // 3 + 4:
        return f"[{media_type}, {len(encoded) * 3 // 4:,} bytes: too large to be shown]"
    try:
        return Blob(data=b64decode(encoded, validate=True), media_type=media_type, name=name)
    except (binascii.Error, ValueError):
        return f"[{media_type}: not valid base64]"


def _joined(parts: Sequence[str | Blob]) -> Content:
    """Return texts as one text, unless blobs are between them."""
    texts = [part for part in parts if isinstance(part, str)]
    return "\n".join(texts) if len(texts) == len(parts) else list(parts)


# Requests of an MCP server while one of its tools is called: a question to a person, or a prompt to a model.
#
# A question becomes one of the run's questions (`operad.runtime.events.interrupts`), so it may be answered days later. A
# durable run that continues in another process calls the tool again; the server asks again, and gets the kept answer.

T = TypeVar("T")

REFUSALS = ("decline", "cancel")
"""Answers to a question of a server that give no data."""

MOST_QUESTION = 4_000
"""Maximum length of the text of a question, in characters."""

MOST_FORM = 64 * 2**10
"""Maximum length of the JSON Schema of a question, in characters."""

MOST_PROMPTS = 10
"""Maximum number of prompts of a server in one call of a tool."""

_INVALID_REQUEST = -32600
_INVALID_PARAMS = -32602


@dataclass(eq=False)
class _Call:
    """A tool call in progress.

    Attributes:
        shown: The call, for people.
        context: Context of the operator that calls, in which its requests are answered.
        requests: Requests that are being answered.
        prompts: Number of prompts so far.
    """

    shown: str
    context: Context
    requests: set[asyncio.Task[Any]] = field(default_factory=set["asyncio.Task[Any]"])
    prompts: int = 0


class _Refused(Exception):  # noqa: N818 - it is an answer to the server
    """A request is refused, with the reason as text."""


class ServerRequests:
    """Requests of a connected server, each of which belongs to a call of one of its tools.

    Args:
        hidden: Function that hides the secrets that the server gets in a text.
    """

    def __init__(self, server: str, hidden: Callable[[str], str]) -> None:
        self._server = server
        self._hidden = hidden
        self._calls: list[_Call] = []
        self._current: ContextVar[_Call | None] = ContextVar("operad_mcp_call", default=None)

    @contextmanager
    def call(self, tool: str, arguments: Mapping[str, Any]) -> Generator[None, None, None]:
        """Register a tool call in this context manager; requests that are open at its end are cancelled."""
        shown = f"{tool}({json.dumps(dict(arguments), ensure_ascii=False, default=str)})"
        call = _Call(shown, copy_context())
        token = self._current.set(call)
        self._calls.append(call)
        try:
            yield
        finally:
            self._calls.remove(call)
            self._current.reset(token)
            for request in call.requests:
                request.cancel()

    async def elicit(self, _: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        """Ask a person, and return the answer."""
        return await self._answered(partial(self._ask, params))

    async def sample(
        self, _: ClientRequestContext, params: CreateMessageRequestParams
    ) -> CreateMessageResult | ErrorData:
        """Ask the model that calls the tool, and return its answer."""
        return await self._answered(partial(self._complete, params))

    async def _answered(self, answer: Callable[[_Call], Coroutine[Any, Any, T]]) -> T | ErrorData:
        """Answer a request in the context of its tool call; a refusal is told to the server."""
        from mcp_types import ErrorData

        try:
            call = self._requesting()
            # The context of the connection is that of the operator that opened it.
            request = call.context.copy().run(asyncio.ensure_future, answer(call))
            call.requests.add(request)
            try:
                return await request
            except asyncio.CancelledError:
                if call in self._calls:
                    raise
                return ErrorData(code=_INVALID_REQUEST, message="the call of the tool has ended")
            finally:
                call.requests.discard(request)
        except _Refused as refused:
            return ErrorData(code=_INVALID_REQUEST, message=str(refused))
        except InvalidError as error:
            return ErrorData(code=_INVALID_PARAMS, message=cut(str(error), MOST_QUESTION))
        except Exception as error:  # noqa: BLE001 - an error in a callback would end the connection
            return ErrorData(code=_INVALID_REQUEST, message=cut(self._hidden(describe(error)), MOST_QUESTION))

    def _requesting(self) -> _Call:
        """Return the call to which the current request belongs.

        HTTP answers a call in the call's own stream. Over stdin and stdout, the protocol before 2026 does not say which
        of several calls asks.
        """
        current = self._current.get()
        if current in self._calls:
            return current
        if len(self._calls) == 1:
            return self._calls[0]
        if not self._calls:
            raise _Refused("no tool is being called, so no person is asked")
        raise _Refused(
            f"{len(self._calls)} calls are in progress, and the request does not say to which it belongs; call the tools "
            "of this server one at a time"
        )

    async def _ask(self, params: ElicitRequestParams, call: _Call) -> ElicitResult:
        from mcp_types import ElicitResult

        if current_scope() is None:
            raise _Refused("no run is in progress, so no person can be asked")
        asks = f"The MCP server {self._server!r} asks, in the call {cut(call.shown, 1_000)}:"
        message = self._hidden(cut(params.message, MOST_QUESTION))
        if params.mode == "url":
            if urlsplit(params.url).scheme not in ("http", "https") or not params.url.isprintable():
                raise _Refused("the address of a question must begin with https:// or http://")
            opens = f"Open {self._hidden(params.url)} if you trust it, then answer accept; or answer decline or cancel."
            answer = await interrupt(f"{asks} {message}\n{opens}", {"enum": ["accept", *REFUSALS]})
            return ElicitResult(action=answer)
        question = f"{asks} {message} (Answer decline or cancel to give no data.)"
        answer = await interrupt(question, _form(params.requested_schema))
        if isinstance(answer, str):
            return ElicitResult(action=cast("Any", answer))
        return ElicitResult(action="accept", content=answer)

    async def _complete(self, params: CreateMessageRequestParams, call: _Call) -> CreateMessageResult:
        from mcp_types import CreateMessageResult, TextContent

        model = model_of_tool_call()
        if not isinstance(model, Model):
            raise _Refused("the tool is not called by a model, so no model can be asked")
        call.prompts += 1
        if call.prompts > MOST_PROMPTS:
            raise _Refused(f"a call of a tool may send at most {MOST_PROMPTS} prompts")
        messages = [Message.system(params.system_prompt)] if params.system_prompt else []
        for message in params.messages:
            messages.append(Message(role=message.role, parts=(Text(text=_text_of(message)),)))
        completion = await model.complete(
            messages,
            settings=ModelSettings(
                temperature=params.temperature, max_tokens=min(params.max_tokens, model.max_tokens or params.max_tokens)
            ),
        )
        text, reason = completion.text, "maxTokens" if completion.finish_reason == "length" else "endTurn"
        for stop in params.stop_sequences or ():
            if stop and stop in text:
                text, reason = text.partition(stop)[0], "stopSequence"
        return CreateMessageResult(
            role="assistant", content=TextContent(type="text", text=text), model=model.name, stop_reason=reason
        )


def _form(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of the answers: the object that the server wants, or a word that refuses it."""
    if len(json.dumps(schema)) > MOST_FORM:
        raise _Refused(f"the form of a question may have at most {MOST_FORM:,} characters")
    words = {"if": {"type": "string"}, "then": {"enum": list(REFUSALS)}}
    return {**schema, "type": ["object", "string"], **words}


def _text_of(message: SamplingMessage) -> str:
    """Return the text of a message for a model."""
    texts = [block.text if block.type == "text" else None for block in message.content_as_list]
    if None in texts:
        raise _Refused("prompts may hold text only")
    return "\n".join(text for text in texts if text is not None)


__all__ = ["McpServer", "McpTools", "SseServer", "StdioServer", "StreamableHttpServer"]

_STDERR_LINES = 10
"""Number of the last lines of a server's stderr that an error shows."""

MOST_TOOLS = 1_000
"""Maximum number of tools of a server, and of its resources and prompts."""

MOST_SCHEMA = 64 * 2**10
"""Maximum length of the schema of a tool's arguments, in characters; it is sent to the model with each request."""

MOST_DESCRIPTION = 8_000
"""Maximum length of a tool's description for a model, in characters."""

_NO_HANDSHAKE = (-32601, -32600, -32022)
"""Codes of errors of servers that know only the protocol of 2026 or later, whose connections begin otherwise."""

_INPUTS: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "string"}}


class McpTools(ToolSource):
    """All the tools of an MCP server.

    Attributes:
        prefix: Prefix of the tools' names, for servers with equal tool names.
        approve: True if a person is asked before each call of its tools, and shown the arguments.
        sampling: True if the server may send prompts to the model that calls its tools, within the budget of the run.
        resources: True if a model may list and read the server's resources, by the tools ``list_resources`` and
            ``read_resource``.
        prompts: True if a model may read the server's prompts, by the tool ``get_prompt``.
    """

    model_config = ConfigDict(hide_input_in_errors=True)  # the server may hold tokens

    server: McpServer
    prefix: str = ""
    approve: bool | list[str] = False
    sampling: bool = False
    resources: bool = False
    prompts: bool = False

    _indifferent = ToolSource._indifferent | {"approve", "sampling"}
    _pins: ToolPins | None = PrivateAttr(default=None)

    def pinned_by(self, pins: ToolPins | None) -> McpTools:
        """Return the source with pins: a person is asked about tools that change after they were approved."""
        source = self.model_copy()
        source._pins = pins
        return source

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return values that are equal for sources that behave alike; without what is off, as in earlier versions."""
        values = super().fingerprint()
        return {name: value for name, value in values.items() if name not in ("resources", "prompts") or value}

    @property
    def secret_uses(self) -> list[SecretUse]:
        """Secrets that the server gets."""
        return self.server.secret_uses

    async def read_resource(self, uri: str) -> Content:
        """Return a resource of the server: a text, or a list of texts and blobs.

        Args:
            uri: Address of the resource, such as ``file:///logo.png``.

        Raises:
            ToolError: The server cannot be used, or has no such resource.
        """
        async with self._connected() as connection:
            return await connection.read_resource(uri)

    async def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> Content:
        """Return a prompt of the server, with arguments filled in: a text, or a list of texts and blobs.

        Raises:
            ToolError: The server cannot be used, or has no such prompt.
        """
        async with self._connected() as connection:
            return await connection.get_prompt(name, arguments or {})

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[ToolGroup, None]:
        """Connect to the server and yield its tools, which can be called until the context exits.

        A call returns the text of the result; or a list of texts and blobs, if there are images or documents. The
        context must be entered and left in the same task.

        Raises:
            MissingExtraError: The `mcp` package is not installed.
            ToolError: The server does not start, does not answer in time, or breaks off.
            InputError: A secret of the server has no value.
        """
        async with self._connected(lists=True) as connection:
            tools = connection.tools
            if self._pins is not None:
                tools = checked_tools(tools, self.name, self._pins)
            yield ToolGroup(name=self.name, description=self.description, tools=tuple(tools), id=self.id)

    @asynccontextmanager
    async def _connected(self, *, lists: bool = False) -> AsyncGenerator[_Connection, None]:
        """Connect to the server, and list its tools if `lists`."""
        anyio, client_of = _import_mcp()
        live = self.model_copy(update={"server": self.server.with_values()})
        stderr: deque[str] = deque(maxlen=_STDERR_LINES)
        requests = ServerRequests(self.name, live.without_secrets)
        connection: _Connection | None = None
        try:
            with anyio.CancelScope(deadline=anyio.current_time() + self.server.timeout) as connecting:
                async with AsyncExitStack() as stack:
                    callbacks: dict[str, Any] = {"elicitation_callback": requests.elicit}
                    if self.sampling:
                        callbacks["sampling_callback"] = requests.sample
                    client = await _entered(partial(client_of, **callbacks), live.server, stack, stderr)
                    # Validation by the server's own schemas could take forever.
                    cast("Any", client.session).validate_tool_result = _accept
                    made = _Connection(live, client, requests)
                    if lists:
                        await made.list_tools()
                    connection = made
                    connecting.deadline = math.inf
                    yield connection
        except Exception as error:  # noqa: BLE001 - errors that repeat a secret must be hidden
            inner = _innermost(error)
            if connection is not None:
                raise inner from inner.__cause__
            raise live.error(f"cannot be used: {describe(inner)}", stderr) from live.as_cause(error)
        if connecting.cancelled_caught:
            raise live.error(f"did not answer within {self.server.timeout:g} s", stderr)

    def error(self, problem: str, stderr: deque[str] | None = None) -> ToolError:
        """Return an error about the server, with the last lines of its stderr and without secrets."""
        last_lines = "; its last words:\n  " + "\n  ".join(stderr) if stderr else ""
        return ToolError(self.without_secrets(f"MCP server {self.name!r} ({self.server.where}) {problem}{last_lines}"))

    def without_secrets(self, text: str) -> str:
        """Return a text with the server's secrets hidden."""
        return hide(text, self.server.secrets)

    def as_cause(self, error: Exception) -> Exception | None:
        """Return the error, to be chained as the cause; None if its traceback contains a secret."""
        text = "".join(traceback.format_exception(error))
        return error if self.without_secrets(text) == text else None


class _Connection:
    """Connection to a server, and the tools that it lists.

    Args:
        source: The source, whose server has the values of its secrets.
        client: The connected client.
    """

    def __init__(self, source: McpTools, client: Client, requests: ServerRequests) -> None:
        self._source = source
        self._client = client
        self._requests = requests
        self.tools: list[Tool] = []

    async def list_tools(self) -> None:
        """List the tools of the server; those that read resources and prompts are added if they are wanted.

        Raises:
            ToolError: There are more than `MOST_TOOLS`, or one cannot be used.
        """
        tools = [self._listed_tool(each) for each in await self._all(self._client.list_tools, "tools")]
        more: list[Tool] = []
        if self._source.resources and self._client.server_capabilities.resources:
            more += self._resource_tools()
        if self._source.prompts and self._client.server_capabilities.prompts:
            more.append(self._prompt_tool(await self._all(self._client.list_prompts, "prompts")))
        taken = {tool.name for tool in tools}
        self.tools = [*tools, *(tool for tool in more if tool.name not in taken)]

    async def read_resource(self, uri: str) -> Content:
        """Read a resource."""
        reading = self._client.read_resource(uri)
        return self._shown(resource_content(await self._within(f"the resource {uri!r}", reading)))

    async def get_prompt(self, name: str, arguments: Mapping[str, str]) -> Content:
        """Get a prompt."""
        getting = self._client.get_prompt(name, dict(arguments))
        return self._shown(prompt_content(await self._within(f"the prompt {name!r}", getting)))

    async def _call(self, name: str, arguments: Mapping[str, Any]) -> Content:
        """Call a tool of the server."""
        with self._requests.call(name, arguments):
            calling = self._client.call_tool(name, dict(arguments))
            result = await self._within(f"the call of tool {name!r}", calling)
        content = self._shown(result_content(result))
        if result.is_error:
            text = content if isinstance(content, str) else "\n".join(map(str, content))
            raise ToolError(text or f"tool {name!r} failed and does not say why")
        return content

    async def _within(self, what: str, work: Any) -> Any:
        """Await an answer of the server within its time limit, which is paused while a person is asked."""
        scope, limit = current_scope(), self._source.server.call_timeout
        try:
            result = await within(Timeout(run=limit), work, scope.deadlines if scope else [])
        except Exception as error:  # noqa: BLE001 - errors that repeat a secret must be hidden
            inner = _innermost(error)
            raise self._source.error(f"broke off {what}: {describe(inner)}") from self._source.as_cause(inner)
        if isinstance(result, Deadline):
            raise self._source.error(f"broke off {what}: it timed out after {limit:g} s")
        return result

    def _shown(self, content: Content) -> Content:
        """Return content without the server's secrets."""
        hidden = self._source.without_secrets
        if isinstance(content, str):
            return hidden(content)
        return [part if isinstance(part, Blob) else hidden(part) for part in content]

    async def _all(self, list_page: Callable[..., Awaitable[Any]], items: str) -> list[Any]:
        """Return all items of a paged list."""
        page = await list_page()
        found: list[Any] = list(getattr(page, items))
        while page.next_cursor and len(found) <= MOST_TOOLS:
            page = await list_page(cursor=page.next_cursor)
            found += getattr(page, items)
        if len(found) > MOST_TOOLS:
            raise ToolError(f"it lists more than {MOST_TOOLS:,} {items}, which no model can choose from")
        return found

    def _listed_tool(self, listed: ListedTool) -> Tool:
        """Return the tool for a tool that the server lists."""

        async def call(**arguments: Any) -> Content:
            return await self._call(listed.name, arguments)

        description = cut(listed.description or listed.title or "", MOST_DESCRIPTION)
        tool = self._tool(listed.name, description, listed.input_schema, call, f"{self._source.id}/{listed.name}")
        if listed.annotations is not None and listed.annotations.read_only_hint:
            tool = tool.model_copy(update={"read_only": True})
        if (size := len(json.dumps(tool.parameters))) > MOST_SCHEMA:
            raise ToolError(
                f"its tool {tool.name!r} has a schema of {size:,} characters; at most {MOST_SCHEMA:,} are taken"
            )
        return tool

    def _resource_tools(self) -> list[Tool]:
        async def list_resources() -> str:
            """List the resources of the server: their addresses, names and descriptions."""
            listing = self._all(self._client.list_resources, "resources")
            resources = await self._within("the list of resources", listing)
            listing = self._all(self._client.list_resource_templates, "resource_templates")
            templates = await self._within("the list of resources", listing)
            wanted = {"uri", "uri_template", "name", "description", "mime_type", "size"}
            shown = [each.model_dump(include=wanted, exclude_none=True, mode="json") for each in resources + templates]
            return self._source.without_secrets(json.dumps(shown, ensure_ascii=False))

        async def read_resource(uri: str) -> Content:
            return await self.read_resource(uri)

        return [
            self._own_tool("list_resources", "List the resources of {}.", {}, list_resources),
            self._own_tool("read_resource", "Read a resource of {}.", {"uri": {"type": "string"}}, read_resource),
        ]

    def _prompt_tool(self, prompts: list[Prompt]) -> Tool:
        async def get_prompt(name: str, arguments: dict[str, str] | None = None) -> Content:
            return await self.get_prompt(name, arguments or {})

        lines = [f"- {each.name}({', '.join(_inputs(each))}): {each.description or ''}" for each in prompts]
        properties = {"name": {"type": "string", "enum": [each.name for each in prompts]}, "arguments": _INPUTS}
        return self._own_tool("get_prompt", "\n".join(["Get a prompt of {}:", *lines]), properties, get_prompt)

    def _own_tool(self, name: str, description: str, properties: Mapping[str, Any], function: Any) -> Tool:
        """Return a tool that is not one of the server's tools."""
        required = [each for each in properties if each != "arguments"]
        parameters = {"type": "object", "properties": dict(properties), "required": required}
        shown = cut(description.replace("{}", f"the MCP server {self._source.name!r}", 1), MOST_DESCRIPTION)
        return self._tool(name, shown, parameters, function, f"{self._source.id}//{name}")

    def _tool(self, name: str, description: str, parameters: dict[str, Any], function: Any, id: str) -> Tool:
        name = re.sub(r"[^A-Za-z0-9_-]", "_", self._source.prefix + name)[:64]
        if not name:
            raise ToolError("it lists a tool without a name; give the tools of this server a prefix")
        return Tool(
            name=name,
            description=description,
            parameters=parameters,
            function=function,
            id=id,
            approve=self._source.approve,
            pin=pin_of(name, description, parameters),
        )


def _inputs(prompt: Prompt) -> list[str]:
    """Return the arguments of a prompt; optional ones end in a question mark."""
    return [each.name + ("" if each.required else "?") for each in prompt.arguments or ()]


def _import_mcp() -> tuple[Any, Callable[..., Client]]:
    try:
        import anyio
        from mcp import Client
    except ImportError as error:
        raise MissingExtraError(f"MCP servers need the mcp package ({error}): {pip_install('mcp')}") from error
    return anyio, Client


async def _entered(
    client_of: Callable[..., Client], server: McpServer, stack: AsyncExitStack, stderr: deque[str]
) -> Client:
    """Return a connected client, which `stack` closes.

    The protocol before 2026 is tried first: under the later one, servers written for the earlier one cannot ask. Servers
    by HTTP that keep no session can ask under the later one only.
    """
    async with AsyncExitStack() as attempt:
        try:
            transport = await server.transport(attempt, stderr)
            client = await attempt.enter_async_context(client_of(transport, mode="legacy"))
        except Exception as error:
            if getattr(_innermost(error), "code", None) not in _NO_HANDSHAKE:
                raise
        else:
            if server.keeps_session:
                stack.push_async_exit(attempt.pop_all())
                return client
    return await stack.enter_async_context(client_of(await server.transport(stack, stderr), mode="auto"))


async def _accept(name: str, result: CallToolResult) -> None:
    """Accept a result without validation."""


def _innermost(error: Exception) -> Exception:
    """Return the error inside exception groups of task groups."""
    inner: tuple[Exception, ...] = getattr(error, "exceptions", ())
    return _innermost(inner[0]) if inner else error
