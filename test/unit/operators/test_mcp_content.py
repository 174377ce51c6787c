"""Images and documents in results of MCP servers, their resources and their prompts."""

from __future__ import annotations

import json
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from mcp.server.mcpserver import MCPServer
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from mcp_servers import served

from operad.operators.mcp import MOST_BLOB, McpTools, StdioServer, StreamableHttpServer, result_content
from operad.runtime import ToolError
from operad.runtime.tools.connections import Connections
from operad.runtime.values.blob import Blob, is_mixed
from operad.runtime.values.model_text import as_text

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


def library() -> MCPServer:
    server = MCPServer("library", log_level="CRITICAL")

    @server.resource("books://moon", description="The book of the Moon.")
    def moon() -> str:
        return "The Moon has no air."

    @server.resource("books://cover", mime_type="image/png")
    def cover() -> bytes:
        return b"\x89PNG"

    @server.resource("books://pages/{number}")
    def page(number: str) -> str:
        return f"This is page {number}."

    @server.prompt(description="Review a text.")
    def review(text: str, tone: str = "kind") -> str:
        return f"Review {text} in a {tone} tone."

    @server.tool()
    def read_resource(uri: str) -> str:
        return f"the server's own: {uri}"

    return server


@asynccontextmanager
async def shelf(server: MCPServer | None = None, **options: Any) -> AsyncGenerator[McpTools, None]:
    async with served((server or library()).streamable_http_app()) as address:
        yield McpTools(name="Library", server=StreamableHttpServer(url=f"{address}/mcp"), **options)


def without_tools() -> MCPServer:
    server = library()
    server.remove_tool("read_resource")
    return server


async def test_a_model_can_list_and_read_resources_if_it_may():
    async with shelf(without_tools(), resources=True) as source, source.open() as group:
        tools = {tool.name: tool for tool in group.tools}
        assert list(tools) == ["list_resources", "read_resource"]
        listed = json.loads(await tools["list_resources"].call({}))
        assert {each.get("uri") or each["uri_template"] for each in listed} == {
            "books://moon",
            "books://cover",
            "books://pages/{number}",
        }
        assert {each["description"] for each in listed if each.get("uri") == "books://moon"} == {
            "The book of the Moon."
        }
        read = tools["read_resource"]
        assert await read.call({"uri": "books://moon"}) == "The Moon has no air."
        assert await read.call({"uri": "books://pages/7"}) == "This is page 7."
        assert await read.call({"uri": "books://cover"}) == [
            Blob(data=b"\x89PNG", media_type="image/png", name="books://cover")
        ]
        with pytest.raises(ToolError, match=r"broke off the resource 'books://sun': MCPError: .*books://sun"):
            await read.call({"uri": "books://sun"})


async def test_a_model_can_get_prompts_if_it_may():
    async with shelf(without_tools(), prompts=True, prefix="lib_") as source, source.open() as group:
        [tool] = group.tools
        assert tool.name == "lib_get_prompt"
        assert tool.description == "Get a prompt of the MCP server 'Library':\n- review(text, tone?): Review a text."
        assert await tool.call({"name": "review", "arguments": {"text": "x"}}) == "Review x in a kind tone."
        with pytest.raises(ToolError, match="'name': 'reviw' is not one of"):
            await tool.call({"name": "reviw"})


async def test_resources_and_prompts_are_not_offered_unless_they_are_wanted():
    async with shelf() as source, source.open() as group:
        assert [tool.name for tool in group.tools] == ["read_resource"]


async def test_a_tool_of_the_server_keeps_its_name():
    async with shelf(resources=True) as source, source.open() as group:
        assert sorted(tool.name for tool in group.tools) == ["list_resources", "read_resource"]
        read = next(tool for tool in group.tools if tool.name == "read_resource")
        assert await read.call({"uri": "books://moon"}) == "the server's own: books://moon"


async def test_a_program_reads_resources_and_prompts():
    async with shelf() as source:
        assert await source.read_resource("books://moon") == "The Moon has no air."
        assert await source.get_prompt("review", {"text": "x", "tone": "dry"}) == "Review x in a dry tone."
        with pytest.raises(ToolError, match=r"broke off the prompt 'revue': MCPError: .*revue"):
            await source.get_prompt("revue")


async def test_a_server_without_resources_offers_none():
    empty = MCPServer("empty", log_level="CRITICAL")
    async with shelf(empty, resources=True, prompts=True) as source, source.open() as group:
        tools = {tool.name: tool for tool in group.tools}
        assert await tools["list_resources"].call({}) == "[]"
    code = """
import json, sys
answers = {
    "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}},
    "tools/list": {"tools": []},
}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answers[asked["method"]]}), flush=True)
"""
    server = StdioServer(command=sys.executable, args=("-c", code))
    async with McpTools(name="Bare", server=server, resources=True, prompts=True).open() as group:
        assert group.tools == ()


async def test_a_server_that_knows_only_the_protocol_of_2026_is_reached():
    code = """
import json, sys
answers = {
    "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "public", "resultType": "complete"},
    "tools/list": {"tools": [{"name": "say", "inputSchema": {"type": "object"}}], "ttlMs": 0, "cacheScope": "public", "resultType": "complete"},
    "tools/call": {"content": [{"type": "text", "text": "hello"}], "resultType": "complete"},
}
for line in sys.stdin:
    asked = json.loads(line)
    found = answers.get(asked["method"])
    outcome = {"result": found} if found else {"error": {"code": -32601, "message": "Method not found"}}
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **outcome}), flush=True)
"""
    source = McpTools(name="New", server=StdioServer(command=sys.executable, args=("-c", code)))
    async with Connections() as connections:
        [tool] = await connections.tools([source])
        assert await tool.call({}) == "hello"


def result(*content: Any, **fields: Any) -> Any:
    return result_content(CallToolResult(content=[*content], **fields))


def test_a_result_with_images_and_documents_holds_them_in_their_order():
    pdf = BlobResourceContents(uri="file:///a.pdf", blob="JVBERg==", mime_type="application/pdf")
    assert result(
        TextContent(type="text", text="Sales:"),
        ImageContent(type="image", data="iVBORw==", mime_type="image/png"),
        AudioContent(type="audio", data="AAAA", mime_type="audio/wav"),
        EmbeddedResource(type="resource", resource=pdf),
        EmbeddedResource(type="resource", resource=TextResourceContents(uri="file:///a.txt", text="a text")),
        ResourceLink(type="resource_link", name="more", uri="https://a.example/"),
    ) == [
        "Sales:",
        Blob(data=b"\x89PNG", media_type="image/png"),
        Blob(data=b"\0\0\0", media_type="audio/wav"),
        Blob(data=b"%PDF", media_type="application/pdf", name="file:///a.pdf"),
        "a text",
        "[more](https://a.example/)",
    ]


def test_binary_content_that_cannot_be_used_is_described():
    assert result(ImageContent(type="image", data="?", mime_type="image/png")) == "[image/png: not valid base64]"
    large = "A" * (MOST_BLOB * 4 // 3 + 8)
    assert result(ImageContent(type="image", data=large, mime_type="image/png")) == (
        "[image/png, 10,485,765 bytes: too large to be shown]"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Blob(data=b"abc", media_type="image/png"), "[image/png, 3 bytes]"),
        (
            ["A chart:", Blob(data=b"abc", media_type="image/png", name="a.png")],
            "A chart:\n[a.png, image/png, 3 bytes]",
        ),
        (["a", "b"], '["a", "b"]'),
    ],
)
def test_blobs_are_told_to_models_that_read_text_only(value: Any, text: str):
    assert as_text(value) == text


def test_only_texts_with_blobs_are_parts():
    blob = Blob(data=b"", media_type="image/png")
    assert is_mixed(["a", blob])
    assert not any(map(is_mixed, (blob, ["a", "b"], "a", [1, blob], {"a": blob})))
