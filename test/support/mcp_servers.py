"""Servers of MCP for tests."""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken


def served(app: Any) -> AbstractAsyncContextManager[str]:
    """The address of an app that is served in this loop; the listening socket queues whoever comes early."""
    return served_by(lambda _: app)


@asynccontextmanager
async def served_by(make: Callable[[str], Any]) -> AsyncGenerator[str, None]:
    """The address of an app that is made for its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        server = uvicorn.Server(uvicorn.Config(make(address), log_config=None, ws="none"))
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield address
        finally:
            server.should_exit = True
            await serving


class Logins:
    """Logins at a server, in memory; whoever opens the address of a login is logged in.

    Attributes:
        issued: Tokens that the server accepts.
        renewed: Number of renewals.
        seconds: Time for which a token is valid.
        registered: Clients that have registered.
    """

    def __init__(self, seconds: int = 3600) -> None:
        self.issued: dict[str, AccessToken] = {}
        self.renewed = 0
        self.seconds = seconds
        self.registered: dict[str, OAuthClientInformationFull] = {}
        self._codes: dict[str, AuthorizationCode] = {}
        self.renewals: dict[str, RefreshToken] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.registered.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.registered[str(client_info.client_id)] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        code = secrets.token_urlsafe(20)
        self._codes[code] = AuthorizationCode(
            code=code,
            client_id=str(client.client_id),
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self._codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        return self._issue(str(client.client_id))

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        return self.renewals.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        self.renewed += 1
        del self.renewals[refresh_token.token]
        return self._issue(str(client.client_id))

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.issued.get(token)

    async def revoke_token(self, token: Any) -> None: ...

    def _issue(self, client_id: str) -> OAuthToken:
        token, renewal = secrets.token_urlsafe(20), secrets.token_urlsafe(20)
        self.issued[token] = AccessToken(token=token, client_id=client_id, scopes=[])
        self.renewals[renewal] = RefreshToken(token=renewal, client_id=client_id, scopes=[])
        return OAuthToken(access_token=token, refresh_token=renewal, expires_in=self.seconds)

    def shop(self, address: str) -> Any:
        """An app whose tools need a login."""
        auth = AuthSettings(
            issuer_url=address,  # pyright: ignore[reportArgumentType]
            resource_server_url=f"{address}/mcp",  # pyright: ignore[reportArgumentType]
            client_registration_options=ClientRegistrationOptions(enabled=True),
            validate_token_resource=False,
        )
        provider: Any = self  # without grants that it does not offer
        server = MCPServer("shop", log_level="CRITICAL", auth=auth, auth_server_provider=provider)

        @server.tool()
        async def whoami(ctx: Context) -> str:
            request: Any = ctx.request_context.request
            return f"you sent {request.headers['authorization']}"

        return server.streamable_http_app()
