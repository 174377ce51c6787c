from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from amounts import sample
from forked import ForkServer
from mcp.server.mcpserver import MCPServer
from mcp_servers import served
from pydantic import TypeAdapter, ValidationError

from operad.configs import load
from operad.operators.mcp import McpServer, McpTools, SseServer, StdioServer, StreamableHttpServer
from operad.runtime.tools.connections import Connections
from operad.runtime.tools.toolkit import Action, Toolkit
from operad.runtime.values.blob import Blob
from operad.runtime.values.errors import MissingExtraError, ToolError
from operad.runtime.values.pip import pip_install

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from operad.runtime.tools.tool import ToolGroup

SERVER = r'''
import os, sys
import anyio
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, ImageContent, ToolAnnotations

server = MCPServer("demo", log_level="CRITICAL")

@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b

@server.tool(name="facts/list", structured_output=False)
def facts() -> list[str]:
    return [str(os.getpid()), os.getcwd(), os.environ["GREETING"], str("SECRET" in os.environ)]

@server.tool(structured_output=False)
def picture() -> ImageContent:
    return ImageContent(type="image", data="AAAA", mime_type="image/png")

@server.tool(structured_output=False)
def figures() -> CallToolResult:
    return CallToolResult(content=[], structured_content={"sum": 1})

@server.tool()
def refuse() -> str:
    raise ToolError("not on Sundays")

@server.tool()
async def hang(port: int) -> str:
    async with await anyio.connect_tcp("127.0.0.1", port) as bell:
        await bell.send(b"began\n")
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await bell.send(b"ended\n")

@server.tool()
def die() -> str:
    os._exit(3)

print("demo is up", file=sys.stderr, flush=True)
server.run()
'''


@pytest.fixture
def demo(tmp_path: Path, forked: ForkServer) -> McpTools:
    script = tmp_path / "demo.py"
    script.write_text(SERVER)
    server = StdioServer(
        command=f"{forked.commands}/python", args=(str(script),), env={"GREETING": "hello"}, cwd=tmp_path
    )
    return McpTools(name="Demo", server=server)


@asynccontextmanager
async def heard() -> AsyncGenerator[tuple[int, asyncio.Queue[str]], None]:
    """A port, and the lines that other processes send to it."""
    lines: asyncio.Queue[str] = asyncio.Queue()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async for line in reader:
            lines.put_nowait(line.decode().strip())
        writer.close()

    async with await asyncio.start_server(listen, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1], lines


def called(group: ToolGroup, name: str) -> Any:
    return next(tool for tool in group.tools if tool.name == name).call


def python(code: str, **options: Any) -> McpTools:
    return McpTools(name="Demo", server=StdioServer(command=sys.executable, args=("-c", code), **options))


async def test_what_a_server_writes_in_another_encoding_is_read_with_signs_of_replacement():
    code = """
import json, sys
answers = {
    "initialize": {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}},
    "tools/list": {"tools": [{"name": "say", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": "caf\\u00e9"}]},
}
for line in sys.stdin:
    asked = json.loads(line)
    found = answers.get(asked["method"])
    outcome = {"result": found} if found else {"error": {"code": -32601, "message": "no such method"}}
    if "id" in asked:
        reply = json.dumps({"jsonrpc": "2.0", "id": asked["id"], **outcome}, ensure_ascii=False)
        sys.stdout.buffer.write(reply.encode("latin-1") + b"\\n")
        sys.stdout.buffer.flush()
"""
    async with python(code).open() as group:
        assert await called(group, "say")({}) == "caf\N{REPLACEMENT CHARACTER}"


async def test_a_servers_tools_are_listed_called_and_closed(
    demo: McpTools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setenv("SECRET", "s")
    caplog.set_level(logging.INFO, "operad.operators.mcp")
    action = Action(name="calculate", tools=(demo,))
    async with Connections() as connections:
        tools = await connections.tools(Toolkit.of([action]).recommend([action]).tools)
        by_name = {tool.name: tool for tool in tools}

        assert list(by_name) == ["add", "facts_list", "picture", "figures", "refuse", "hang", "die"]
        assert by_name["add"].description == "Add two numbers."
        assert by_name["add"].parameters["required"] == ["a"]
        assert by_name["add"].id == f"{demo.id}/add"
        assert [tool.name for tool in tools if tool.read_only] == ["add"]
        assert await by_name["add"].call({"a": 1}) == "2"
        assert await by_name["picture"].call({}) == [Blob(data=b"\0\0\0", media_type="image/png")]
        assert await by_name["figures"].call({}) == '{"sum": 1}'
        with pytest.raises(ToolError, match="not on Sundays"):
            await by_name["refuse"].call({})
        pid, folder, greeting, inherited = (await by_name["facts_list"].call({})).splitlines()
        assert (folder, greeting, inherited) == (str(tmp_path), "hello", "False")
        with pytest.raises(ToolError, match=r"tool 'add' was called with wrong arguments: 'a': 'x' is not of type"):
            await by_name["add"].call({"a": "x"})

    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)
    assert f"{cast(StdioServer, demo.server).command}: demo is up" in caplog.messages


async def test_a_cancelled_call_is_cancelled_in_the_server_too(demo: McpTools):
    async with heard() as (port, lines), demo.open() as group:
        calling = asyncio.create_task(called(group, "hang")({"port": port}))
        assert await lines.get() == "began"
        calling.cancel()
        assert await lines.get() == "ended"
        assert await called(group, "add")({"a": 2, "b": 2}) == "4"
    assert calling.cancelled()


async def test_a_call_that_takes_too_long_is_given_up(demo: McpTools):
    server = demo.server.model_copy(update={"call_timeout": 0.1})
    async with heard() as (port, _), demo.model_copy(update={"server": server}).open() as group:
        with pytest.raises(ToolError, match=r"MCP server 'Demo' \(.*demo.py\) broke off .* 'hang': .*timed out"):
            await called(group, "hang")({"port": port})


async def test_a_server_that_dies_in_mid_call_is_an_error_then_and_later(demo: McpTools):
    async with demo.open() as group:
        for name in ("die", "add"):
            with pytest.raises(ToolError, match=rf"'Demo' .* broke off the call of tool '{name}': .*Connection closed"):
                await called(group, name)({"a": 1} if name == "add" else {})


async def test_an_error_of_whoever_uses_the_tools_comes_through_as_it_is(demo: McpTools):
    error = ValueError("mine")
    with pytest.raises(ValueError, match="mine") as raised:
        async with demo.open():
            raise error
    assert raised.value is error


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        (
            McpTools(name="Demo", server=StdioServer(command="no-such-command", args=("-y", "a b"))),
            r"MCP server 'Demo' \(no-such-command -y 'a b'\) cannot be used: FileNotFoundError: .*'no-such-command'",
        ),
        (
            python("import sys; print('no licence', file=sys.stderr); sys.exit(1)"),
            r"(?s)MCP server 'Demo' \(.*\) cannot be used: .*Connection closed; its last words:\n  no licence$",
        ),
        (
            McpTools(name="Demo", server=StdioServer(command="sh", args=("-c", "echo wait >&2; cat >&2"), timeout=0.5)),
            r"(?s)MCP server 'Demo' \(.*\) did not answer within 0.5 s; its last words:\n  wait\n",
        ),
        (
            McpTools(name="Demo", server=StreamableHttpServer(url="http://ada:pw@127.0.0.1:9/mcp?key=k")),
            r"MCP server 'Demo' \(http://127.0.0.1:9/mcp\) cannot be used: ConnectError: ",
        ),
        (
            McpTools(name="Demo", server=SseServer(url="http://127.0.0.1:9/sse")),
            r"MCP server 'Demo' \(http://127.0.0.1:9/sse\) cannot be used: ConnectError: ",
        ),
    ],
    ids=["missing", "exits", "silent", "http-refused", "sse-refused"],
)
async def test_a_server_that_cannot_be_used_says_which_and_why(tools: McpTools, message: str):
    with pytest.raises(ToolError, match=message):
        async with tools.open():
            pass


async def test_a_run_that_ends_while_a_server_starts_ends_the_server():
    async with heard() as (port, lines):
        code = "import os, socket, sys; bell = socket.create_connection(('127.0.0.1', {})); {}; sys.stdin.read()"
        silent = python(code.format(port, r"bell.sendall(b'%d\n' % os.getpid())"))
        async with Connections() as connections:
            asking = asyncio.create_task(connections.tools([silent]))
            pid = int(await lines.get())
        with pytest.raises(asyncio.CancelledError):
            await asking
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize("kind", ["STREAMABLE_HTTP", "SSE"])
async def test_servers_are_reached_by_http(kind: str):
    demo = MCPServer("demo", log_level="CRITICAL")
    demo.add_tool(lambda word: str(word).upper(), name="shout")
    app, path = (demo.sse_app(), "/sse") if kind == "SSE" else (demo.streamable_http_app(), "/mcp")
    async with served(app) as address:
        server: Any = TypeAdapter[Any](McpServer).validate_python({"transport_type": kind, "url": address + path})
        async with McpTools(name="Demo", server=server, prefix="demo_").open() as group:
            assert await called(group, "demo_shout")({"word": "hi"}) == "HI"


def read(config: dict[str, Any]) -> Any:
    return TypeAdapter[Any](McpServer).validate_python(config)


@pytest.mark.parametrize(("cwd", "seen"), sample([("inner", "inner"), (None, "")], 2))
async def test_in_a_yaml_file_the_program_and_its_folder_are_seen_from_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cwd: str | None, seen: str
):
    (tmp_path / "files" / "inner").mkdir(parents=True)
    (tmp_path / "files" / "server").write_text(f"#!{sys.executable}{SERVER}")
    (tmp_path / "files" / "server").chmod(0o700)
    transport = {
        "transport_type": "STDIO",
        "command": "./server",
        "env": {"GREETING": "hi"},
        **({"cwd": cwd} if cwd else {}),
    }
    config = {"operators": [], "tools": [{"name": "Demo", "type": "MCP", "mcp_transport_config": transport}]}
    (tmp_path / "files" / "tools.yaml").write_text(json.dumps(config))
    monkeypatch.chdir(tmp_path)
    [demo] = load("files/tools.yaml", trust=True).services.known_tools
    async with Connections() as connections:
        tools = await connections.tools([demo])
        facts = next(tool for tool in tools if tool.name == "facts_list")
        assert (await facts.call({})).splitlines()[1] == str(tmp_path / "files" / seen).rstrip("/")


def test_a_server_counts_as_the_same_wherever_its_file_lies(tmp_path: Path):
    server = StdioServer(command="bin/server", args=("a.json",), cwd=Path("data"))
    one, other = server.seen_from(tmp_path / "one"), server.seen_from(tmp_path / "other")
    assert one.fingerprint() == other.fingerprint() == server.fingerprint()
    assert one.fingerprint() != StdioServer(command="lib/server", args=("a.json",), cwd=Path("data")).fingerprint()


def test_chat2graphs_transport_configurations_are_read():
    assert read({"transport_type": "SSE", "url": "http://localhost:8931/sse", "sse_read_timeout": 60}) == SseServer(
        url="http://localhost:8931/sse", call_timeout=60
    )
    assert read(
        {
            "transport_type": "STDIO",
            "command": "uvx",
            "args": ["browser-use", "--mcp"],
            "env": {"ANONYMIZED_TELEMETRY": "false"},
        }
    ) == StdioServer(command="uvx", args=("browser-use", "--mcp"), env={"ANONYMIZED_TELEMETRY": "false"})


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"transport_type": "STDIO", "command": "x", "url": "http://h"}, "STDIO.url\n  Extra inputs are not permitted"),
        ({"transport_type": "STDIO"}, "STDIO.command\n  Field required"),
        ({"transport_type": "SSE", "url": "localhost"}, "SSE.url\n  String should match pattern"),
        ({"transport_type": "WEBSOCKET", "url": "ws://h"}, "expected tags: 'STDIO', 'SSE', 'STREAMABLE_HTTP'"),
    ],
)
def test_a_wrong_transport_configuration_is_an_error(config: dict[str, Any], message: str):
    with pytest.raises(ValidationError) as raised:
        read(config)
    assert message in str(raised.value)


def test_secrets_stay_out_of_the_repr():
    http = StreamableHttpServer(url="http://h/mcp", headers={"Authorization": "Bearer s3cret"})
    stdio = StdioServer(command="x", env={"TOKEN": "s3cret"})
    assert "s3cret" not in repr((http, stdio))


async def test_without_the_extra_the_error_says_what_to_install(demo: McpTools, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(MissingExtraError, match=re.escape(pip_install("mcp"))):
        async with demo.open():
            pass
