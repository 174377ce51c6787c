"""Servers of MCP: processes and addresses, with the secrets that they get."""

from __future__ import annotations

import logging
import os
import re
import shlex
from collections import deque
from collections.abc import Mapping
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, cast

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PrivateAttr,
    model_validator,
)

from operad.operators.mcp_login import Login, authenticator, check_address, check_request, find_login
from operad.operators.secrets import FindSecret, find_secret, secret_value
from operad.runtime.models.addresses import MIN_KEY, split_login, without_login
from operad.runtime.values.errors import InputError
from operad.runtime.values.secret import (
    HIDDEN,
    Secret,
    SecretUse,
    change_keys_in_lines,
    change_keys_in_url,
    fill_secrets,
    hide,
    holds_key,
    is_secret_name,
    literal_key,
    secrets_in,
)
from operad.runtime.values.value import Value

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator
    from typing import TextIO

    import httpx2
    from mcp.client import Transport

log = logging.getLogger("operad.operators.mcp")

_SECRETS = "key|token|secret|passw|pwd|auth|credential|cookie"
_SECRET = re.compile(f"(?i){_SECRETS}")
_SECRET_OPTION = re.compile(rf"(?i)-+[\w-]*(?:{_SECRETS})[\w-]*")
_SECRET_PART = re.compile(rf"(?i)(://(?=\S*@)|(?:^-*|[?&])[\w.-]*(?:{_SECRETS})[\w.-]*\s*[:=]\s*)(\S*(?=@)|[^&]+)")


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
    _values: tuple[str, ...] = PrivateAttr(default=())
    """Values of the secrets of a server that is connected."""
    _keeps_session: bool = PrivateAttr(default=True)

    @property
    def keeps_session(self) -> bool:
        """True if a connected server can send requests, under the protocol before 2026."""
        return self._keeps_session

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, getattr(self, "shown", {}).get(name, value)

    @property
    def texts(self) -> Mapping[str, Mapping[str, str]]:
        """Texts that may name secrets: by field, and by name or position in the field."""
        return {}

    @property
    def receiver(self) -> str:
        """The host, or the command, that gets the secrets."""
        return ""

    @property
    def secret_uses(self) -> list[SecretUse]:
        """Secrets that the server gets."""
        named = [secret for texts in self.texts.values() for text in texts.values() for secret in secrets_in(text)]
        return [SecretUse(secret, self.receiver) for secret in dict.fromkeys(named)]

    def keys(self) -> list[tuple[str, str]]:
        """Return the places of keys that are written in the server's fields, each as the field and the name in it."""
        return []

    def with_values(self, find: FindSecret = find_secret) -> Self:
        """Return the server with the values of its secrets, for a connection.

        Raises:
            InputError: A secret has no value.
        """
        values: dict[Secret, str] = {}

        def value_of(secret: Secret) -> str:
            return values.setdefault(secret, secret_value(secret, find))

        filled = {
            field: {name: fill_secrets(text, value_of) for name, text in texts.items()}
            for field, texts in self.texts.items()
        }
        server = self.model_copy(update=self._fields_of(filled))
        server._values = tuple(values.values())
        return server

    def _fields_of(self, texts: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
        """Return the fields that hold texts in the form of `texts`."""
        return {field: dict(named) for field, named in texts.items()}


def _listed(args: Any) -> Any:
    """Return arguments, unless they are one text."""
    if isinstance(args, str):
        raise InputError('args: expected a list, got a text: write args=["server.py", "--port", "8000"]')
    return args


def _without_references(url: str) -> str:
    if secrets_in(url):
        raise ValueError("must not name a secret, because HTTP libraries log addresses; name it in headers")
    return url


def _with_references(texts: Any) -> Any:
    """Return texts by name, with ``{secret: NAME}`` written as a text."""
    if not isinstance(texts, Mapping):
        return texts
    return {name: _reference(text) for name, text in cast("Mapping[Any, Any]", texts).items()}


def _reference(text: Any) -> Any:
    match text:
        case {"secret": str() as name, **more} if not more and is_secret_name(name):
            return Secret(name).in_text
        case _:
            return text


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
    env: Annotated[dict[str, str], BeforeValidator(_with_references)] = Field(default_factory=dict, repr=False)
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

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return values that are equal for equal servers: the fields, with arguments without secrets."""
        values = super().fingerprint()
        values["args"] = list(self.shown["args"])
        return values

    @property
    def texts(self) -> Mapping[str, Mapping[str, str]]:
        """Texts that may name secrets: the arguments and the environment."""
        return {"args": {str(number): text for number, text in enumerate(self.args)}, "env": self.env}

    @property
    def receiver(self) -> str:
        """The command, which gets the secrets."""
        return self.command

    def keys(self) -> list[tuple[str, str]]:
        """Return the places of keys that are written in the arguments and the environment."""
        before = ("", *self.args)
        found = [
            ("args", last if _is_option(last) else text)
            for last, text in zip(before, self.args, strict=False)
            for key in [text if _is_option(last) and not text.startswith("-") else _part_of(text)]
            if key and literal_key(key)
        ]
        named = [("args", _SECRET_PART.sub(r"\1…", name)) for _, name in found]
        return named + [("env", name) for name, text in self.env.items() if holds_key(name) and literal_key(text)]

    def _fields_of(self, texts: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
        return super()._fields_of(texts) | {"args": tuple(texts["args"].values())}

    @property
    def shown(self) -> dict[str, Any]:
        """Fields whose displayed values hide secrets."""
        before = ("", *self.args)
        return {
            "args": tuple(
                HIDDEN if _is_option(last) and not text.startswith("-") else _SECRET_PART.sub(rf"\1{HIDDEN}", text)
                for last, text in zip(before, self.args, strict=False)
            )
        }

    @property
    def secrets(self) -> list[str]:
        """Secrets that must not appear in errors and logs."""
        named = [value for name, value in self.env.items() if _SECRET.search(name)]
        after = [text for last, text in pairwise(self.args) if _is_option(last)]
        within = [match[2] for text in (*self.args, *self.env.values()) for match in _SECRET_PART.finditer(text)]
        return _with_parts([*self._values, *named, *after, *within])

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
        oauth: True if the server needs a login by OAuth, which ``operad secrets login URL`` makes and keeps.
    """

    url: Annotated[str, AfterValidator(_without_references)] = Field(pattern=r"^https?://")
    headers: Annotated[dict[str, str], BeforeValidator(_with_references)] = Field(default_factory=dict, repr=False)
    oauth: bool = False

    _indifferent: ClassVar[frozenset[str]] = _Server._indifferent | {"oauth"}

    @model_validator(mode="after")
    def _check_oauth(self) -> Self:
        if self.oauth:
            try:
                check_address(self.url)
            except InputError as error:
                raise ValueError(f"oauth: {error}") from error
        return self

    def with_values(self, find: FindSecret = find_secret) -> Self:
        """Return the server with the values of its secrets, for a connection.

        Raises:
            InputError: A secret has no value.
        """
        server = super().with_values(find)
        if self.oauth and (login := find_login(self.url)):
            server._values += login.secrets
        return server

    def _client(
        self, headers: dict[str, str] | None = None, timeout: Any = None, auth: httpx2.Auth | None = None
    ) -> httpx2.AsyncClient:
        """Return a client for the server. Calls have time limits of their own, which pause while a person is asked."""
        from httpx2 import AsyncClient, Timeout

        hooks = [_unlimited]
        if self.oauth:
            url, login = split_login(self.url)[0], find_login(self.url)
            auth = authenticator(url, login, self._note_login)
            hooks += [check_request(url, login)] if login else []
        timeout = Timeout(self.timeout, read=self.call_timeout)
        return AsyncClient(headers=headers, auth=auth, timeout=timeout, event_hooks={"request": hooks})

    def _note_login(self, login: Login) -> None:
        self._values += login.secrets

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
        return _with_parts([*self._values, *named, *within])

    @property
    def texts(self) -> Mapping[str, Mapping[str, str]]:
        """Texts that may name secrets: the headers."""
        return {"headers": self.headers}

    @property
    def receiver(self) -> str:
        """The host, which gets the secrets."""
        return without_login(self.url).partition("://")[2].partition("/")[0].lower()

    def keys(self) -> list[tuple[str, str]]:
        """Return the places of keys that are written in the address and the headers."""
        found: list[tuple[str, str]] = []

        def note(field: str, name: str, value: str) -> str:
            found.extend([(field, name)] if literal_key(value) else [])
            return value

        change_keys_in_url(self.url, partial(note, "url"))
        for name, text in self.headers.items():
            change_keys_in_lines(f"{name}: {text}", partial(note, "headers"))
        return found

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return values that are equal for equal servers: the fields, with a URL without secrets."""
        return super().fingerprint() | {"url": self.where}


class StreamableHttpServer(_HttpServer):
    """MCP server with streamable HTTP."""

    transport_type: Literal["STREAMABLE_HTTP"] = "STREAMABLE_HTTP"

    async def transport(self, stack: AsyncExitStack, stderr: deque[str]) -> Transport:
        """Return the transport of messages; its resources are closed by `stack`."""
        from mcp.client.streamable_http import streamable_http_client

        url, login = split_login(self.url)
        self._keeps_session = False
        client = self._client(login | self.headers)
        client.event_hooks = {**client.event_hooks, "response": [self._note_session]}
        await stack.enter_async_context(client)
        return streamable_http_client(url, http_client=client)

    async def _note_session(self, response: httpx2.Response) -> None:
        self._keeps_session |= "mcp-session-id" in response.headers


class SseServer(_HttpServer):
    """MCP server with the older HTTP transport, server-sent events."""

    transport_type: Literal["SSE"] = "SSE"

    async def transport(self, stack: AsyncExitStack, stderr: deque[str]) -> Transport:
        """Return the transport of messages."""
        from mcp.client.sse import sse_client

        url, login = split_login(self.url)
        return sse_client(url, login | self.headers, httpx_client_factory=self._client)


async def _unlimited(request: httpx2.Request) -> None:
    """Remove the limit for reading an answer, except from the request that ends a session, which nothing else limits."""
    limits = request.extensions.get("timeout")
    if limits and request.method != "DELETE":
        request.extensions = {**request.extensions, "timeout": {**limits, "read": None}}


McpServer = Annotated[StdioServer | SseServer | StreamableHttpServer, Field(discriminator="transport_type")]
"""Server, in the form of YAML under `mcp_transport_config`."""


@contextmanager
def _logged_stderr(name: str, tail: deque[str], secrets: list[str]) -> Generator[TextIO, None, None]:
    """Yield a stream for a process's stderr. Lines are logged and added to `tail`, without secrets."""
    reader, writer = os.pipe()

    def pump() -> None:
        with open(reader, encoding="utf-8", errors="replace") as lines:
            for line in iter(lambda: lines.readline(8192), ""):
                text = hide(line.rstrip(), secrets)
                tail.append(text)
                log.info("%s: %s", name, text)

    thread = Thread(target=pump, name=f"stderr of {name}", daemon=True)
    thread.start()
    try:
        with open(writer, "w", encoding="utf-8") as stream:
            yield stream
    finally:
        thread.join(timeout=0.5)  # the process has ended, but a child of it may still hold the pipe


def _part_of(text: str) -> str:
    """Return the key within a command line argument, such as that of ``--token=KEY``; empty if there is none."""
    match = _SECRET_PART.search(text)
    return match[2] if match else ""


def _is_option(text: str) -> bool:
    """Return True if a command line argument is an option whose value is a secret."""
    return bool(_SECRET_OPTION.fullmatch(text))


def _with_parts(secrets: Iterable[str]) -> list[str]:
    """Return secrets and their parts, which a server may repeat, longest first; short parts are left out."""
    parts = {part for secret in secrets for part in (secret, *re.split(r"[\s:]+", secret))}
    return sorted((part for part in parts if len(part) >= MIN_KEY and part != "Bearer"), key=len, reverse=True)
