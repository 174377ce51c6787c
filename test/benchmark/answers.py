"""An endpoint in its own process that answers chat completions after a set time.

It shares two cores with the measured process, so it does as little as possible: it finds the end of each request, and
sends every client the same answer.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import random
import socket
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from multiprocessing.connection import Connection
from typing import Any

SAID = "Nothing of note was found here."


@dataclass(frozen=True)
class Endpoint:
    """Behaviour of an endpoint.

    Attributes:
        seconds: The delay of each answer and error.
        errors: The share of requests that get HTTP 500 or 503.
        hangs: The share of requests that get no answer.
        seed: The seed that selects these requests.
    """

    seconds: float = 0.1
    errors: float = 0.01
    hangs: float = 0.01
    seed: int = 0


@dataclass(frozen=True)
class Served:
    """Counters of an endpoint.

    Attributes:
        answers: Requests answered.
        errors: Requests refused.
        hangs: Requests left without an answer.
        connections: Connections opened to it.
        taken: Seconds that all answers and errors really took, which is more than `seconds` on a busy machine.
        cpu: CPU seconds.
    """

    answers: int = 0
    errors: int = 0
    hangs: int = 0
    connections: int = 0
    taken: float = 0.0
    cpu: float = 0.0

    @property
    def requests(self) -> int:
        return self.answers + self.errors + self.hangs


class Serving:
    """Running endpoint, whose counters are read through a pipe."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.base_url = f"http://127.0.0.1:{connection.recv()}/v1"

    def served(self) -> Served:
        self._connection.send(None)
        return self._connection.recv()


@contextmanager
def serving(endpoint: Endpoint) -> Generator[Serving]:
    """Serve the endpoint on this machine until the block ends."""
    spawning = multiprocessing.get_context("spawn")
    ours, theirs = spawning.Pipe()
    process = spawning.Process(target=_serve, args=(endpoint, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        yield Serving(ours)
    finally:
        process.kill()
        process.join()
        ours.close()


# In the process of the endpoint


def _serve(endpoint: Endpoint, connection: Connection) -> None:
    asyncio.run(_answer(endpoint, connection))


async def _answer(endpoint: Endpoint, connection: Connection) -> None:
    loop = asyncio.get_running_loop()
    counts: dict[str, Any] = dict.fromkeys((field.name for field in fields(Served)), 0)
    fates = _fates(endpoint)
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    server = await loop.create_server(lambda: _Exchange(endpoint.seconds, fates, counts), sock=listening)

    def tell() -> None:
        connection.recv()
        connection.send(replace(Served(**counts), cpu=time.process_time()))

    loop.add_reader(connection.fileno(), tell)
    connection.send(listening.getsockname()[1])
    await server.serve_forever()


def _fates(endpoint: Endpoint) -> Iterator[str]:
    chance = random.Random(endpoint.seed)  # noqa: S311
    while True:
        drawn = chance.random()
        yield (
            "errors" if drawn < endpoint.errors else "hangs" if drawn < endpoint.errors + endpoint.hangs else "answers"
        )


class _Exchange(asyncio.Protocol):
    """Connection that carries one request after another."""

    def __init__(self, seconds: float, fates: Iterator[str], counts: dict[str, Any]) -> None:
        self._seconds, self._fates, self._counts = seconds, fates, counts
        self._transport: Any = None
        self._read = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._counts["connections"] += 1

    def data_received(self, data: bytes) -> None:
        self._read += data
        head, found, body = self._read.partition(b"\r\n\r\n")
        if not found or len(body) < _length(head):
            return
        self._read = b""
        fate = next(self._fates)
        self._counts[fate] += 1
        if fate != "hangs":
            answer = _ANSWER if fate == "answers" else _ERRORS[self._counts[fate] % 2]
            loop = asyncio.get_running_loop()
            loop.call_later(self._seconds, self._send, answer, loop.time())

    def _send(self, answer: bytes, received: float) -> None:
        self._transport.write(answer)
        self._counts["taken"] += asyncio.get_running_loop().time() - received


def _length(head: bytes) -> int:
    _, _, after = head.lower().partition(b"\r\ncontent-length:")
    return int(after.partition(b"\r\n")[0])


def _streamed() -> bytes:
    """Return the whole streamed answer: a chunk for each word, the end, the usage."""
    start = {"id": "load", "object": "chat.completion.chunk", "created": 0, "model": "load"}
    deltas: list[dict[str, str]] = [{"content": f"{word} "} for word in SAID.split()]
    choices = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas]
    choices += [[{"index": 0, "delta": {}, "finish_reason": "stop"}], []]
    usage = {"prompt_tokens": 100, "completion_tokens": len(deltas), "total_tokens": 100 + len(deltas)}
    chunks = [{**start, "choices": choice, "usage": None if choice else usage} for choice in choices]
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    return f"{head}{len(body):x}\r\n{body}\r\n0\r\n\r\n".encode()


def _refusal(status: str) -> bytes:
    body = json.dumps({"error": {"message": f"{status}, for the sake of the test"}})
    return f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


_ANSWER = _streamed()
_ERRORS = (_refusal("500 Internal Server Error"), _refusal("503 Service Unavailable"))
