"""OAuth logins at MCP servers: kept with the user's secrets, renewed when they expire.

A person logs in by ``operad secrets login URL``. A run does not ask for a login: the tokens are sent to the server of this
address only, and renewed at the token endpoint that it had at the login. Other requests of the login are refused.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from hashlib import sha256
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from operad.operators.secrets import check_secret, secret_store
from operad.runtime.models.addresses import without_login
from operad.runtime.values.errors import InputError, MissingExtraError, ToolError, describe
from operad.runtime.values.pip import pip_install

if TYPE_CHECKING:
    from httpx2 import Request
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthToken

LOGIN_SECONDS = 600.0
"""Maximum duration of a login, in seconds."""

_MOST_REQUEST = 16 * 2**10


class Login(BaseModel):
    """A kept login: tokens, their end, and what is needed to renew them; its JSON is a secret."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    tokens: dict[str, JsonValue] = Field(repr=False)
    client: dict[str, JsonValue] = Field(repr=False)
    expires: float | None = None
    metadata: dict[str, JsonValue] | None = None
    resource: dict[str, JsonValue] | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that must not be shown."""
        named = ("access_token", "refresh_token", "id_token")
        found = [self.tokens.get(name) for name in named] + [self.client.get("client_secret")]
        return tuple(value for value in found if isinstance(value, str) and value)


def check_address(url: str) -> str:
    """Return the address of a server to log in at.

    Raises:
        InputError: It is not one, or tokens would be sent to it without encryption.
    """
    parts = urlsplit(url)
    local = parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1")
    if not parts.hostname or not (parts.scheme == "https" or local):
        raise InputError("the tokens of a login are sent by https only; write an address that begins with https://")
    return url


def login_name(url: str) -> str:
    """Return the name of the secret that holds the login at a server."""
    place = without_login(url)
    host = re.sub(r"[^A-Za-z0-9]", "_", urlsplit(place).hostname or "")[:60]
    return f"MCP_LOGIN_{host}_{sha256(place.encode()).hexdigest()[:12]}"


def find_login(url: str) -> Login | None:
    """Return the kept login at a server; None if there is none.

    Raises:
        InputError: The store of secrets cannot be read, or holds something else under the name.
    """
    text = secret_store().get(login_name(url))
    if not text:
        return None
    try:
        return Login.model_validate_json(text)
    except ValidationError:
        raise InputError(f"the secret {login_name(url)} is not a login; {_how(url)}") from None


def keep_login(url: str, login: Login) -> None:
    """Keep a login with the user's secrets.

    Raises:
        InputError: The store of secrets cannot be written.
    """
    text = json.dumps(login.model_dump(mode="json", exclude_none=True), ensure_ascii=True)
    secret_store().set(login_name(url), check_secret(login_name(url), text))


def _login_needed(url: str, why: str) -> ToolError:
    return ToolError(f"{why}; {_how(url)}")


def authenticator(url: str, login: Login | None, changed: Callable[[Login], None]) -> OAuthClientProvider:
    """Return the authentication of requests to a server by a kept login.

    Args:
        url: Address of the server.
        changed: Called with each renewed login, after it is kept.

    Raises:
        ToolError: There is no login.
    """
    if login is None:
        raise _login_needed(url, "it needs a login")

    async def refuse(_: str) -> None:
        raise _login_needed(url, "its login has ended")

    return _provider(url, _Storage(url, login, changed), "http://127.0.0.1/callback", refuse, None)


def check_request(url: str, login: Login) -> Callable[[Request], Awaitable[None]]:
    """Return a hook that refuses requests other than those to the server, and to the endpoint that renews its tokens.

    After tokens that cannot be renewed, the package would look for a place to log in at addresses that the server names.
    """
    renews = (login.metadata or {}).get("token_endpoint")

    async def check(request: Request) -> None:
        asked = str(request.url)
        if asked != renews and (_origin(asked) != _origin(url) or request.url.path.startswith("/.well-known/")):
            raise _login_needed(url, "its login has ended")

    return check


async def log_in(
    url: str,
    show: Callable[[str], None],
    pasted: Callable[[], Awaitable[str | None]],
    *,
    client_id: str = "",
    client_secret: str = "",
    seconds: float = LOGIN_SECONDS,
) -> None:
    """Log in at a server, and keep the login.

    Args:
        url: Address of the server.
        show: Shows a person the address to open in a browser.
        pasted: Returns the address to which the browser was sent, if a person gives it; None at the end of the input.
        client_id: Id of a client that is registered at the server; by default, one is registered.
        seconds: Maximum duration.

    Raises:
        InputError: The server cannot be reached, needs no login, or refuses it; or there is no login in time.
        MissingExtraError: The package mcp is not installed.
    """
    try:
        from httpx2 import AsyncClient, Timeout
        from mcp import Client
        from mcp.client.streamable_http import streamable_http_client
        from mcp.shared.auth import OAuthClientInformationFull
    except ImportError as error:
        raise MissingExtraError(f"MCP servers need the mcp package ({error}): {pip_install('mcp')}") from error

    kept: list[Login] = []
    storage = _Storage(url, None, kept.append)
    if client_id:
        how = "client_secret_post" if client_secret else "none"
        storage.client = OAuthClientInformationFull(
            client_id=client_id, client_secret=client_secret or None, token_endpoint_auth_method=how, redirect_uris=None
        )

    async def connect() -> None:
        async with AsyncExitStack() as stack:
            answers = _Answers(pasted)
            port = await answers.listen(stack)
            provider = _provider(
                url, storage, f"http://127.0.0.1:{port}/callback", answers.opened(show), answers.answer
            )
            client = AsyncClient(auth=provider, timeout=Timeout(30.0, read=60.0))
            await stack.enter_async_context(client)
            await stack.enter_async_context(Client(streamable_http_client(url, http_client=client)))

    try:
        await asyncio.wait_for(connect(), seconds)
    except TimeoutError:
        raise InputError(f"{without_login(url)}: there was no login within {seconds:g} s") from None
    except Exception as error:
        inner: Any = error
        while getattr(inner, "exceptions", ()):
            inner = inner.exceptions[0]
        if not kept:
            raise InputError(f"{without_login(url)}: the login failed: {describe(inner)}") from error
    if not kept:
        raise InputError(f"{without_login(url)}: needs no login")


class _Storage:
    """Tokens of a login, in the form in which the package mcp stores them."""

    def __init__(self, url: str, login: Login | None, changed: Callable[[Login], None]) -> None:
        self._url = url
        self._login = login
        self._changed = changed
        self.context: Any = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        from mcp.shared.auth import OAuthMetadata, OAuthToken, ProtectedResourceMetadata

        if (login := self._login) is None:
            return None
        # The package stores neither the end of the tokens nor where to renew them.
        self.context.token_expiry_time = login.expires
        if login.metadata:
            self.context.oauth_metadata = OAuthMetadata.model_validate(login.metadata)
        if login.resource:
            self.context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(login.resource)
        return OAuthToken.model_validate(login.tokens)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        context = self.context
        self._login = Login(
            tokens=_dump(tokens) or {},
            client=_dump(context.client_info) or {},
            expires=context.token_expiry_time,
            metadata=_dump(context.oauth_metadata),
            resource=_dump(context.protected_resource_metadata),
        )
        await asyncio.to_thread(keep_login, self._url, self._login)  # a keyring may wait for its user
        self._changed(self._login)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        from mcp.shared.auth import OAuthClientInformationFull

        return OAuthClientInformationFull.model_validate(self._login.client) if self._login else self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class _Answers:
    """The answer to a login: the browser sends it to a port of this machine, or a person pastes its address."""

    def __init__(self, pasted: Callable[[], Awaitable[str | None]]) -> None:
        self._pasted = pasted
        self._state = ""
        self._open: set[asyncio.StreamWriter] = set()
        self._found: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()

    async def listen(self, stack: AsyncExitStack) -> int:
        """Listen on a free port, and return it."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_MOST_REQUEST)
        stack.callback(server.close)
        stack.callback(self._close)  # browsers keep connections that they do not use
        return server.sockets[0].getsockname()[1]

    def opened(self, show: Callable[[str], None]) -> Callable[[str], Awaitable[None]]:
        """Return the function that shows the address of the login."""

        async def open_(address: str) -> None:
            self._state = _first(address, "state")
            show(address)

        return open_

    async def answer(self) -> AuthorizationCodeResult:
        """Return the answer, from whichever side it comes."""
        pasting = asyncio.ensure_future(self._read_pasted())
        try:
            return await self._found
        finally:
            pasting.cancel()

    async def _read_pasted(self) -> None:
        while (address := await self._pasted()) is not None:
            self._take(address.strip())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            line = await reader.readline()
            parts = line.decode("latin-1").split(" ")
            taken = len(parts) == 3 and parts[0] == "GET" and parts[1].startswith("/callback?") and self._take(parts[1])
        except ValueError:  # a line beyond the limit
            taken = False
        self._open.discard(writer)
        status = HTTPStatus.OK if taken else HTTPStatus.BAD_REQUEST
        text = "You are logged in. Close this page.\n" if taken else "This is not the answer to a login.\n"
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\n"
        writer.write(f"{head}Connection: close\r\n\r\n{text}".encode())
        writer.close()

    def _close(self) -> None:
        for writer in self._open:
            writer.close()

    def _take(self, address: str) -> bool:
        """Take the answer in an address; return False if it does not belong to this login."""
        from mcp.shared.auth import AuthorizationCodeResult

        if not self._state or _first(address, "state") != self._state or self._found.done():
            return False
        if error := _first(address, "error"):
            text = _first(address, "error_description") or error
            self._found.set_exception(InputError(f"the server refuses: {text[:500]!r}"))
            return False
        iss = _first(address, "iss") or None
        self._found.set_result(AuthorizationCodeResult(code=_first(address, "code"), state=self._state, iss=iss))
        return True


def _provider(url: str, storage: _Storage, redirect: str, opened: Any, answer: Any) -> OAuthClientProvider:
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import OAuthClientMetadata

    client: dict[str, Any] = {
        "client_name": "Operad",
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
    }
    provider = OAuthClientProvider(url, OAuthClientMetadata.model_validate(client), storage, opened, answer)
    storage.context = provider.context
    return provider


def _dump(value: BaseModel | None) -> dict[str, JsonValue] | None:
    return None if value is None else value.model_dump(mode="json", exclude_none=True)


def _first(address: str, name: str) -> str:
    return next(iter(parse_qs(urlsplit(address).query).get(name, ())), "")


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _how(url: str) -> str:
    return f"log in: operad secrets login {without_login(url)}"
