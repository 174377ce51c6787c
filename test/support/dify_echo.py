"""A server that answers with the request that it was sent."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

BASE = "ECHO"
"""Placeholder in the inputs of a run for the address of the server."""

SHOWN = ("authorization", "content-type", "x-key", "x-one", "x-two")


def _parts(content_type: str, body: bytes) -> Any:
    """Return the parts of a multipart form: names, file names and texts, without the boundary."""
    message = BytesParser().parsebytes(b"Content-Type: " + content_type.encode() + b"\r\n\r\n" + body)
    parts = [part for part in message.get_payload() if not isinstance(part, str)] if message.is_multipart() else []
    return [
        [
            part.get_param("name", header="content-disposition"),
            part.get_filename(),
            bytes(part.get_payload(decode=True)).decode(),
        ]
        for part in parts
        if part.get_param("name", header="content-disposition") != "__multipart_placeholder__"
    ]


class _Echo(BaseHTTPRequestHandler):
    calls: Counter[str]

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _answer(self) -> None:
        at = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name: self.headers[name] for name in SHOWN if name in self.headers}
        kind = headers.get("content-type", "")
        content: Any = body.decode("utf-8", "replace")
        if kind.startswith("multipart/"):
            headers["content-type"], content = "multipart/form-data", _parts(kind, body)
        elif kind.startswith("application/x-www-form-urlencoded"):
            content = parse_qsl(content)
        elif kind.startswith("application/json"):
            content = json.loads(content or "null")
        echoed = {
            "method": self.command,
            "path": at.path,
            "query": parse_qsl(at.query),
            "headers": headers,
            "body": content,
        }
        status = int(at.path.rpartition("/")[2]) if at.path.startswith("/status/") else 200
        text = json.dumps(echoed, sort_keys=True).encode()
        if at.path.startswith("/text"):
            text = "plain wörds".encode()
        self.send_response(status)
        self.send_header(
            "Content-Type", "text/plain; charset=utf-8" if at.path.startswith("/text") else "application/json"
        )
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = _answer  # noqa: N815


@contextmanager
def echo_server() -> Generator[str]:
    """Run a server and yield its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
