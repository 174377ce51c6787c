"""Client of a ComfyUI server.

Size and time of each answer are limited. A token of requests is removed from all texts of the server.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from operad.flows.formats.shapes import fields_of, list_of
from operad.operators.web.fetch import Fetched, Guard, fetch
from operad.runtime.values.errors import (
    FetchError,
    InputError,
    InvalidError,
    Issue,
    MissingExtraError,
    OperadError,
    describe,
)
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.pip import pip_install
from operad.runtime.values.text import short_line

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

ANSWER_SECONDS = 60.0
"""Maximum time for an answer, in seconds; files may take as long as the whole run."""

MAX_JSON_BYTES = 64 * 2**20
"""Maximum size of a JSON answer; the definitions of a server with hundreds of custom nodes have some 20 MiB."""

MAX_UPLOAD_BYTES = 100 * 2**20
"""Maximum size of an uploaded file, which is the default limit of servers."""

_MAX_MESSAGE_BYTES = 16 * 2**20
"""Maximum size of a message of the websocket, which may be a preview image."""

_MAX_ISSUES = 50
_MAX_TEXT = 1_000
"""Maximum length of a server's text in an error, in characters."""

_SHORTEST_TOKEN = 6
"""Minimum length of a token that is removed from texts, in characters; a shorter one may occur by chance."""

_SILENT_LOGGER = logging.Logger(__name__, logging.CRITICAL)
"""Logger that discards the messages of the websocket, which would include headers with the token."""

_logger = logging.getLogger(__name__)


class ComfyUIError(OperadError):
    """A run on a ComfyUI server failed there, was interrupted, got lost, or took too long."""


@dataclass(frozen=True, slots=True)
class Output:
    """Output file of a run on the server.

    Attributes:
        node: Id of the node that made the file.
        filename: Name of the file.
        subfolder: Folder of the file, inside the folder of its type.
        type: ``output``, or ``temp`` for a preview.
    """

    node: str
    filename: str
    subfolder: str = ""
    type: str = "output"


@dataclass(frozen=True, slots=True)
class ComfyUIServer:
    """A ComfyUI server.

    Attributes:
        url: URL of the server, such as ``http://127.0.0.1:8188``.
        headers: Headers of each request.
        token: Token that is sent as ``Authorization: Bearer``; none by default.
        guard: Allowed hosts; None allows the host of `url` only, at any address.

    Raises:
        InputError: The URL is invalid.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    token: str = field(default="", repr=False)
    guard: Guard | None = None

    def __post_init__(self) -> None:
        url = self.url.strip()
        try:
            parts = urlsplit(url)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            usable = False
        if not usable:
            hint = f"; did you mean http://{url}?" if url and "://" not in url else ""
            raise InputError(f"{url!r} is not an address of a ComfyUI server, such as http://127.0.0.1:8188{hint}")
        object.__setattr__(self, "url", url.rstrip("/"))

    @property
    def place(self) -> tuple[str, int]:
        """Host and port of the server."""
        parts = urlsplit(self.url)
        return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)

    async def object_info(self) -> Any:
        """Return the node classes of the server, as parsed JSON.

        Raises:
            FetchError: The server cannot be reached, or gives another answer.
        """
        return await self._get("/object_info")

    async def submit(self, nodes: Mapping[str, Any], client_id: str) -> str:
        """Put a workflow into the queue, and return the id of its run.

        Raises:
            InvalidError: The server refuses the workflow or parts of it; all errors of the nodes are listed.
            FetchError: The server cannot be reached, or gives another answer.
        """
        request = {"prompt": nodes, "client_id": client_id}
        answer = await self._ask("/prompt", json.dumps(request).encode(), "application/json", accepted=(200, 400))
        answer_body = fields_of(self._json("/prompt", answer))
        issues = _refusals(answer_body)
        if issues:
            raise InvalidError(f"ComfyUI server {self.url} refuses the workflow", issues)
        prompt_id = answer_body.get("prompt_id")
        if answer.status == 400 or not isinstance(prompt_id, str):
            raise self.unlike("/prompt", "it contains neither a prompt_id nor an error")
        return prompt_id

    @asynccontextmanager
    async def listen(self, client_id: str) -> AsyncGenerator[ClientConnection | None, None]:
        """Yield the websocket on which the server reports the progress of a client's runs; None if unavailable.

        A websocket is used only if the guard allows the host at any address, because it resolves the host by itself.

        Raises:
            MissingExtraError: `websockets` is not installed.
        """
        try:
            from websockets.asyncio.client import connect
            from websockets.exceptions import WebSocketException
        except ImportError as error:
            raise MissingExtraError(
                f"following a run needs the websockets package ({error}): {pip_install('comfyui')}"
            ) from error
        host, port = self.place
        if self.guard is not None and not self.guard.allows(host, port):
            yield None
            return
        url = f"ws{self.url.removeprefix('http')}/ws?{urlencode({'clientId': client_id})}"
        async with AsyncExitStack() as stack:
            socket = None
            try:
                socket = await stack.enter_async_context(
                    connect(
                        url,
                        host=host,  # given explicitly, so that redirects cannot lead elsewhere
                        port=port,
                        additional_headers=self._request_headers(),
                        logger=_SILENT_LOGGER,
                        proxy=None,
                        max_size=_MAX_MESSAGE_BYTES,
                        close_timeout=1,
                        ping_timeout=ANSWER_SECONDS,
                    )
                )
            except (OSError, EOFError, ValueError, WebSocketException) as error:
                _logger.warning("%s/ws tells no progress: %s", self.url, self.hidden(describe(error)))
            yield socket

    async def history(self, prompt_id: str) -> Mapping[str, Any] | None:
        """Return the server's record of a run; None until the run has ended."""
        answer = await self._get(f"/history/{quote(prompt_id, safe='')}")
        if not isinstance(answer, dict):
            raise self.unlike("/history", "it is not an object")
        record = fields_of(answer).get(prompt_id)
        if record is not None and not isinstance(record, dict):
            raise self.unlike("/history", "the run is not an object")
        return fields_of(record) if record is not None else None

    async def has_queued(self, prompt_id: str) -> bool:
        """Return True if a run is waiting or in progress."""
        running, pending = await self._queue()
        return any(_run_and_client(each)[0] == prompt_id for each in (*running, *pending))

    async def withdraw(self, client_id: str) -> None:
        """Remove the waiting runs of a client from the queue, and interrupt those in progress."""
        running, pending = await self._queue()
        if ids := [_run_and_client(each)[0] for each in pending if _run_and_client(each)[1] == client_id]:
            await self._post("/queue", {"delete": ids})
            running, _ = await self._queue()  # a waiting run may have begun meanwhile
        for each in running:
            prompt_id, owner = _run_and_client(each)
            if owner == client_id:
                await self._post("/interrupt", {"prompt_id": prompt_id})

    async def upload(self, file: FileDescriptor) -> str:
        """Upload a file, and return its name for workflows.

        Raises:
            InputError: The file cannot be read, or is too large.
            FetchError: The server cannot be reached, refuses the file, or gives another answer.
        """
        import httpx

        data = await asyncio.to_thread(file.read_bytes, MAX_UPLOAD_BYTES)
        form = httpx.Request("POST", self.url, files={"image": (file.name, data, file.mime_type)})
        answer = await self._ask("/upload/image", form.read(), form.headers["content-type"])
        answer_body = fields_of(self._json("/upload/image", answer))
        name, folder = answer_body.get("name"), answer_body.get("subfolder")
        if not isinstance(name, str):
            raise self.unlike("/upload/image", "it contains no name")
        return f"{folder}/{name}" if isinstance(folder, str) and folder else name

    async def view(self, output: Output, max_bytes: int, timeout: float) -> bytes:
        """Return the content of an output file of a run.

        Raises:
            FetchError: The file does not exist, is too large, or takes too long.
        """
        where = {"filename": output.filename, "subfolder": output.subfolder, "type": output.type}
        return (await self._ask(f"/view?{urlencode(where)}", guard=self._guard(timeout, max_bytes))).body

    async def _queue(self) -> tuple[list[Any], list[Any]]:
        queue = fields_of(await self._get("/queue"))
        return [*list_of(queue.get("queue_running"))], [*list_of(queue.get("queue_pending"))]

    async def _get(self, path: str) -> Any:
        return self._json(path, await self._ask(path))

    async def _post(self, path: str, value: Mapping[str, Any]) -> None:
        await self._ask(path, json.dumps(value).encode(), "application/json")

    async def _ask(
        self,
        path: str,
        body: bytes | None = None,
        content_type: str = "",
        guard: Guard | None = None,
        accepted: Sequence[int] = (200,),
    ) -> Fetched:
        """Send a request to the server, and return its response.

        Raises:
            FetchError: The server cannot be reached, or answers with a status that is not accepted.
        """
        try:
            answer = await fetch(
                self.url + path,
                method="GET" if body is None else "POST",
                headers={**self._request_headers(), **({"content-type": content_type} if content_type else {})},
                body=body,
                guard=guard or self._guard(ANSWER_SECONDS, MAX_JSON_BYTES),
            )
        except FetchError as error:
            hint = "; check that it runs there, and that `server` is its address" if error.transient else ""
            raise FetchError(f"ComfyUI server: {error}{hint}", transient=error.transient) from error
        if answer.status not in accepted:
            raise self._status_error(path, answer)
        return answer

    def hidden(self, text: str) -> str:
        """Return a text of the server with the token replaced by ``[hidden]``."""
        return text.replace(self.token, "[hidden]") if len(self.token) >= _SHORTEST_TOKEN else text

    def _request_headers(self) -> dict[str, str]:
        return {**self.headers, **({"authorization": f"Bearer {self.token}"} if self.token else {})}

    def _guard(self, timeout: float, max_bytes: int) -> Guard:
        if self.guard is not None:
            return replace(self.guard, timeout=timeout, max_bytes=max_bytes)
        host, port = self.place
        return Guard((f"[{host}]:{port}" if ":" in host else f"{host}:{port}",), timeout, max_bytes)

    def _json(self, path: str, answer: Fetched) -> Any:
        try:
            return parsed(self.hidden(answer.body.decode()))
        except UnicodeDecodeError as error:
            raise self.unlike(path, "it is not UTF-8") from error
        except ValueError as error:
            raise self.unlike(path, str(error)) from error

    def _error_text(self, answer: Fetched) -> str:
        text = "" if "html" in answer.content_type else self.hidden(answer.body.decode(errors="replace"))
        return f": {line}" if (line := short(text)) else ""

    def unlike(self, path: str, why: str) -> FetchError:
        """Return the error for an answer that does not come from a ComfyUI server."""
        return FetchError(
            f"{self.url}{path}: the response is not that of a ComfyUI server: {why}; check that one runs at this address"
        )

    def _status_error(self, path: str, answer: Fetched) -> FetchError:
        other = "; check that a ComfyUI server runs at this address" if answer.status in (404, 405) else ""
        return FetchError(
            f"{self.url}{path.partition('?')[0]}: answers with status {answer.status}{self._error_text(answer)}{other}",
            transient=answer.status in (408, 429) or answer.status >= 500,
        )


def short(said: Any) -> str:
    """Return a text of a server on one line, cut to `_MAX_TEXT` characters; empty for other values."""
    return short_line(said[: 4 * _MAX_TEXT], _MAX_TEXT) if isinstance(said, str) else ""


def _run_and_client(written: Any) -> tuple[str, str]:
    """Return the id of the run and the id of the client of an item of the queue; empty if missing."""
    match list_of(written):
        case [_, str() as prompt_id, _, extra, *_]:
            owner = fields_of(extra).get("client_id")
            return prompt_id, owner if isinstance(owner, str) else ""
        case [_, str() as prompt_id, *_]:
            return prompt_id, ""
        case _:
            return "", ""


def _refusals(answer: Mapping[str, Any]) -> list[Issue]:
    """Return the errors of a refused workflow: of each node with its class and input, or else of the whole workflow."""
    issues: list[Issue] = []
    for node_id, written in fields_of(answer.get("node_errors")).items():
        node = fields_of(written)
        for each in map(fields_of, list_of(node.get("errors"))):
            name = short(fields_of(each.get("extra_info")).get("input_name"))
            place = f"{name} of {short(node.get('class_type'))}" if name else short(node.get("class_type"))
            issues.append(_refusal(each, f"{place}: ", node_id))
    if not issues and isinstance(whole := answer.get("error"), dict | str):
        error = fields_of(whole) if isinstance(whole, dict) else {"message": whole}
        issues.append(_refusal(error, "", short(fields_of(error.get("extra_info")).get("node_id"))))
    left_out = len(issues) - _MAX_ISSUES
    more = [Issue("refused", f"and {left_out} more")] if left_out > 0 else []
    return issues[:_MAX_ISSUES] + more


def _refusal(error: Mapping[str, Any], place: str, where: str) -> Issue:
    reason = ": ".join(filter(None, (short(error.get("message")), short(error.get("details")))))
    code = short(error.get("type")).replace("_", "-") or "refused"
    return Issue(code, f"{place}{reason or 'the server does not say why'}", where[:100])


def parsed(text: str | bytes) -> Any:
    """Return the value of a JSON text in UTF-8; NaN and Infinity become None.

    Raises:
        ValueError: The text is not JSON, or is nested too deep.
    """
    try:
        return json.loads(text, parse_constant=lambda _: None)
    except UnicodeDecodeError as error:
        raise ValueError("it is not UTF-8") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON: {error.msg}") from error
    except RecursionError as error:
        raise ValueError("is not JSON that can be read: it is nested too deep") from error
