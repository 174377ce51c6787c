"""A small ComfyUI server for tests."""

from __future__ import annotations

import base64
import hashlib
import json
import queue
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from operad.runtime.values.errors import OperadError

if TYPE_CHECKING:
    from typing import Self

_WEBSOCKET_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""Text that a websocket server appends to the client's key (RFC 6455, section 1.3)."""


class FakeComfyUI:
    """ComfyUI server on this machine, every run of which produces the same files and texts.

        from urllib.request import urlopen

        with FakeComfyUI({"cat.png": b"a cat"}) as server:
            print(urlopen(f"{server.url}/view?filename=cat.png").read())  # b'a cat'
        print(server.prompts)  # the workflows that were run: []

    Args:
        files: Contents of the files that each run produces, by name.
        texts: Texts that each run produces.
        wants_token: The only token that the server accepts; None to accept all requests.

    Attributes:
        prompts: The workflows that were run, in ComfyUI's API format.
        uploads: Contents of the files that clients uploaded, by name.
        headers: The headers of the last request, by name in lower case.
    """

    def __init__(
        self, files: Mapping[str, bytes] | None = None, texts: Sequence[str] = (), *, wants_token: str | None = None
    ) -> None:
        self.prompts: list[dict[str, Any]] = []
        self.uploads: dict[str, bytes] = {}
        self.headers: dict[str, str] = {}
        self._files = dict(files or {})
        self._texts = list(texts)
        self._wants_token = wants_token
        self._ended: dict[str, queue.SimpleQueue[str]] = {}
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        """Address of the server, while the context is open."""
        return f"http://{self.host}"

    @property
    def host(self) -> str:
        """Host and port of the server, in the form of a list of allowed hosts."""
        if self._server is None:
            raise OperadError("the fake ComfyUI server is not running: use it in a with block")
        return f"127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Exchange", (_Exchange,), {"comfyui": self}))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for ended in self._ended.values():
            ended.put("")
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def lets_in(self, authorization: str) -> bool:
        """Return True if a request has the token, or needs none."""
        return self._wants_token is None or authorization == f"Bearer {self._wants_token}"

    def ended(self, client: str) -> queue.SimpleQueue[str]:
        """Return the queue of the ids of a client's runs that have ended."""
        return self._ended.setdefault(client, queue.SimpleQueue())

    def answer(self, path: str, query: Mapping[str, str], body: bytes, content_type: str) -> tuple[int, bytes]:
        """Return the HTTP status and the body of the response to a request."""
        response: Any = {}
        if path == "/prompt":
            request = json.loads(body)
            self.prompts.append(request["prompt"])
            response = {"prompt_id": f"run-{len(self.prompts)}", "number": 1, "node_errors": {}}
            self.ended(request["client_id"]).put(response["prompt_id"])
        elif path == "/upload/image":
            part: Any = message_from_bytes(f"Content-Type: {content_type}\r\n\r\n".encode() + body).get_payload(0)
            name = str(part.get_filename() or "file")
            self.uploads[name] = part.get_payload(decode=True)
            response = {"name": name, "subfolder": "", "type": "input"}
        elif path == "/queue":
            response = {"queue_running": [], "queue_pending": []}
        elif path.startswith("/history/"):
            images = [{"filename": name, "subfolder": "", "type": "output"} for name in self._files]
            outputs = {"1": {"images": images, "text": self._texts}}
            response = {path.removeprefix("/history/"): {"outputs": outputs, "status": {"status_str": "success"}}}
        elif path == "/view" and query.get("filename") in self._files:
            return 200, self._files[query["filename"]]
        else:
            return 404, b""
        return 200, json.dumps(response).encode()


class _Exchange(BaseHTTPRequestHandler):
    """Handler of one HTTP request."""

    comfyui: FakeComfyUI
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        """Answer a request without a body."""
        self._answer(b"")

    def do_POST(self) -> None:
        """Answer a request with a body."""
        self._answer(self.rfile.read(int(self.headers["Content-Length"])))

    def _answer(self, body: bytes) -> None:
        self.comfyui.headers = {name.lower(): value for name, value in self.headers.items()}
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        with suppress(ConnectionError):  # the client has gone
            if not self.comfyui.lets_in(self.headers.get("Authorization", "")):
                self._send(401, b"a token is needed")
            elif url.path == "/ws":
                self._report_end(query.get("clientId", ""))
            else:
                self._send(*self.comfyui.answer(url.path, query, body, self.headers.get("Content-Type", "")))

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def _report_end(self, client: str) -> None:
        """Open a websocket, and send the client a message when its run ends."""
        key = self.headers["Sec-WebSocket-Key"].encode()
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(_websocket_accept(key)).decode())
        self.end_headers()
        run = self.comfyui.ended(client).get()
        message = json.dumps({"type": "executing", "data": {"node": None, "prompt_id": run}}).encode()
        self.wfile.write(bytes([0x81, len(message)]) + message)
        self.close_connection = True


def _websocket_accept(key: bytes) -> bytes:
    """Return the digest with which a server accepts the key of a websocket client."""
    return hashlib.sha1(key + _WEBSOCKET_GUID, usedforsecurity=False).digest()
