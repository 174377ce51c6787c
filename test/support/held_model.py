"""Model that writes the beginning of an answer, and the rest when the test allows it."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from operad.runtime.models.model import Model


@contextmanager
def held_model(begin, rest):
    """Yield the model, and an event that releases the rest of its answer."""
    release = threading.Event()

    class Exchange(BaseHTTPRequestHandler):
        def log_message(self, format, *args):
            pass

        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self._write({"content": begin})
            release.wait(30)
            self._write({"content": rest})
            self._write({}, "stop")
            self.wfile.write(b"data: [DONE]\n\n")

        def _write(self, delta, reason=None):
            choice = {"index": 0, "delta": delta, "finish_reason": reason}
            chunk = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "held", "choices": [choice]}
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())

    with ThreadingHTTPServer(("127.0.0.1", 0), Exchange) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        try:
            yield Model(name="held", base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key="key"), release
        finally:
            release.set()
            server.shutdown()
