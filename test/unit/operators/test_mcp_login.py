"""Logins at MCP servers by OAuth: made by a person, kept with the secrets, renewed in runs."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from mcp.server.mcpserver import MCPServer
from mcp_servers import Logins, served, served_by

from operad.operators.mcp import McpTools, SseServer, StreamableHttpServer
from operad.operators.mcp_login import Login, check_address, find_login, keep_login, log_in, login_name
from operad.runtime import InputError, ToolError
from operad.runtime.values.arguments import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of secrets."""
    monkeypatch.setenv("OPERAD_SECRETS", str(tmp_path / "secrets.yaml"))
    return tmp_path / "secrets.yaml"


async def nothing_pasted() -> str | None:
    return None


@contextmanager
def listening() -> Generator[tuple[socket.socket, str], None, None]:
    """A socket to which others can connect, and its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening, f"http://127.0.0.1:{listening.getsockname()[1]}"


def nobody_came(listening: socket.socket) -> None:
    listening.setblocking(False)
    with pytest.raises(BlockingIOError):
        listening.accept()


class Browser:
    """A browser that opens the address that it is shown, and follows it to the end."""

    def __init__(self) -> None:
        self.opening: list[asyncio.Task[httpx2.Response]] = []
        self.addresses: list[str] = []

    def show(self, address: str) -> None:
        self.addresses.append(address)
        self.opening.append(asyncio.ensure_future(self._open(address)))

    async def _open(self, address: str) -> httpx2.Response:
        async with httpx2.AsyncClient(follow_redirects=True) as client:
            return await client.get(address)


async def logged_in(url: str) -> None:
    browser = Browser()
    await log_in(url, browser.show, nothing_pasted)
    response = await browser.opening[0]
    assert (response.status_code, response.text) == (200, "You are logged in. Close this page.\n")


async def whoami(url: str, **options: Any) -> str:
    source = McpTools(name="Shop", server=StreamableHttpServer(url=url, oauth=True, **options))
    async with source.open() as group:
        [tool] = group.tools
        return await tool.call({})


async def test_a_login_is_kept_for_its_owner_alone_and_used_by_servers_with_that_address(kept: Path):
    logins = Logins()
    async with served_by(logins.shop) as address:
        url = f"{address}/mcp"
        await logged_in(url)
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert login_name(url) in kept.read_text()
        login = find_login(url)
        assert login is not None
        assert login.tokens["access_token"] in logins.issued
        assert await whoami(url) == "you sent Bearer [hidden]"
        with pytest.raises(ToolError, match="needs a login"):
            await whoami(f"{address}/other")


async def test_expired_tokens_are_renewed_where_the_server_said_at_the_login_and_kept():
    logins = Logins(seconds=1)
    async with served_by(logins.shop) as address:
        url = f"{address}/mcp"
        await logged_in(url)
        before = find_login(url)
        assert before is not None
        keep_login(url, before.model_copy(update={"expires": 1.0}))
        logins.seconds = 3600
        assert await whoami(url) == "you sent Bearer [hidden]"
        after = find_login(url)
        assert after is not None
        assert logins.renewed == 1
        assert (after.tokens["access_token"], after.client) != (before.tokens["access_token"], before.client)
        assert await whoami(url) == "you sent Bearer [hidden]"
        assert logins.renewed == 1


async def test_a_login_that_has_ended_is_an_error_that_names_the_command(caplog: pytest.LogCaptureFixture):
    logins = Logins()
    async with served_by(logins.shop) as address:
        url = f"{address}/mcp"
        await logged_in(url)
        logins.issued.clear()
        with pytest.raises(ToolError) as raised:
            await whoami(url)
        assert f"its login has ended; log in: operad secrets login {url}" in str(raised.value)
        clients = len(logins.registered)
        login = find_login(url)
        assert login is not None
        keep_login(url, login.model_copy(update={"expires": 1.0}))
        logins.renewals.clear()
        with pytest.raises(ToolError, match="its login has ended; log in: operad secrets login"):
            await whoami(url)
        assert len(logins.registered) == clients  # nobody has registered anew
    assert [each for each in caplog.records if each.exc_info] == []


async def test_without_a_login_the_server_is_not_reached():
    with listening() as (socket_, address):
        with pytest.raises(ToolError) as raised:
            await whoami(f"{address}/mcp?key=k")
        expected = f"cannot be used: it needs a login; log in: operad secrets login {address}/mcp"
        assert str(raised.value).endswith(expected)
        nobody_came(socket_)


async def test_a_login_does_not_ask_elsewhere_in_a_run():
    with listening() as (socket_, other):

        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                where = f'Bearer resource_metadata="{other}/.well-known/oauth-protected-resource"'.encode()
                await send({"type": "http.response.start", "status": 401, "headers": [(b"www-authenticate", where)]})
                await send({"type": "http.response.body", "body": b""})

        async with served(app) as address:
            url = f"{address}/mcp"
            client = {"client_id": "c", "redirect_uris": ["http://127.0.0.1/callback"]}
            keep_login(url, Login(tokens={"access_token": "t-123456789", "token_type": "Bearer"}, client=client))
            with pytest.raises(ToolError, match="its login has ended"):
                await whoami(url)
        nobody_came(socket_)


async def test_the_last_address_of_the_browser_can_be_pasted():
    async with served_by(Logins().shop) as address:
        shown: asyncio.Queue[str] = asyncio.Queue()
        pastes = 0

        async def pasted() -> str | None:
            nonlocal pastes
            pastes += 1
            if pastes == 1:
                return "what do you want?"
            async with httpx2.AsyncClient() as client:
                return (await client.get(await shown.get())).headers["location"]

        await log_in(f"{address}/mcp", shown.put_nowait, pasted)
        assert await whoami(f"{address}/mcp") == "you sent Bearer [hidden]"


async def test_answers_that_do_not_belong_to_the_login_are_refused():
    async with served_by(Logins().shop) as address:
        statuses: list[int] = []

        async def browse(opened: str) -> None:
            back = parse_qs(urlsplit(opened).query)["redirect_uri"][0]
            async with httpx2.AsyncClient(follow_redirects=True) as client:
                for wrong in (f"{back}?code=c&state=guessed", f"{back}?code=c", f"{back}/x", back + "?" + "x" * 20_000):
                    statuses.append((await client.get(wrong)).status_code)
                statuses.append((await client.get(opened)).status_code)

        browsing: list[asyncio.Task[None]] = []
        await log_in(
            f"{address}/mcp", lambda opened: browsing.append(asyncio.ensure_future(browse(opened))), nothing_pasted
        )
        await browsing[0]
        assert statuses == [400, 400, 400, 400, 200]


async def test_connections_of_a_browser_that_it_does_not_use_do_not_hold_up_the_login():
    async with served_by(Logins().shop) as address:

        async def browse(opened: str) -> bytes:
            port = urlsplit(parse_qs(urlsplit(opened).query)["redirect_uri"][0]).port
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            async with httpx2.AsyncClient(follow_redirects=True) as client:
                await client.get(opened)
            rest = await reader.read()
            writer.close()
            return rest

        browsing: list[asyncio.Task[bytes]] = []
        await log_in(
            f"{address}/mcp", lambda opened: browsing.append(asyncio.ensure_future(browse(opened))), nothing_pasted
        )
        assert await browsing[0] == b""


async def test_a_server_that_refuses_the_login_is_an_error():
    async with served_by(Logins().shop) as address:

        async def refuse(opened: str) -> None:
            query = parse_qs(urlsplit(opened).query)
            back = (
                f"{query['redirect_uri'][0]}?error=access_denied&error_description=Not+you.&state={query['state'][0]}"
            )
            async with httpx2.AsyncClient() as client:
                await client.get(back)

        refusing: list[asyncio.Task[None]] = []
        with pytest.raises(InputError, match=r"/mcp: the login failed: .*the server refuses: 'Not you.'"):
            await log_in(
                f"{address}/mcp", lambda opened: refusing.append(asyncio.ensure_future(refuse(opened))), nothing_pasted
            )
        await refusing[0]
        assert find_login(f"{address}/mcp") is None


async def test_a_login_that_nobody_makes_ends():
    async with served_by(Logins().shop) as address:
        with pytest.raises(InputError, match=r"/mcp: there was no login within 0.5 s"):
            await log_in(f"{address}/mcp", lambda _: None, nothing_pasted, seconds=0.5)


async def test_a_server_without_a_login_says_so():
    async with served(MCPServer("open", log_level="CRITICAL").streamable_http_app()) as address:
        with pytest.raises(InputError, match="needs no login"):
            await log_in(f"{address}/mcp", lambda _: None, nothing_pasted)


async def test_tokens_are_in_no_log_and_no_error(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    logins = Logins()
    async with served_by(logins.shop) as address:
        await logged_in(f"{address}/mcp")
        await whoami(f"{address}/mcp")
        login = find_login(f"{address}/mcp")
        assert login is not None
        assert "client_secret" in login.client
        # What a server says is in the DEBUG logs of the package mcp, and so a token that it repeats.
        logs = [each for each in caplog.records if not each.name.startswith(("sse_starlette", "mcp.client.streamable"))]
        own = [each.getMessage() for each in logs]
        for secret in login.secrets:
            assert secret not in repr(login)
            assert [line for line in own if secret in line] == []


@pytest.mark.parametrize("kind", [StreamableHttpServer, SseServer])
def test_a_login_is_sent_by_https_only(kind: Any):
    with pytest.raises(ArgumentError, match="oauth: the tokens of a login are sent by https only"):
        kind(url="http://shop.example/mcp", oauth=True)
    assert kind(url="https://shop.example/mcp", oauth=True).oauth
    for url in ("http://shop.example/mcp", "ftp://shop.example", "https://", "shop"):
        with pytest.raises(InputError, match="https"):
            check_address(url)


def test_a_secret_that_is_not_a_login_is_an_error(kept: Path):
    name = login_name("https://shop.example/mcp")
    kept.write_text(json.dumps({name: "12345678"}))
    kept.chmod(0o600)
    with pytest.raises(InputError, match=rf"the secret {name} is not a login; log in: operad secrets login"):
        find_login("https://shop.example/mcp")
