"""A server's connections: no more than it can bear, and none that takes for ever to ask."""

import asyncio
import logging
import resource
from contextlib import asynccontextmanager, suppress

import pytest

uvicorn = pytest.importorskip("uvicorn")
from operad.server import connections  # noqa: E402 - it needs the extra
from operad.server.connections import BoundedHttp, most_connections, quiet_about_accept  # noqa: E402

ASKS = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n"
LATE = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


async def app(scope, receive, send):
    """Says how long the body was, once all of it is there."""
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"3")]})
    await send({"type": "http.response.body", "body": b"%03d" % size})


@asynccontextmanager
async def serving():
    config = uvicorn.Config(app, http=BoundedHttp, lifespan="off", log_config=None, log_level="critical", port=0)
    server = uvicorn.Server(config)
    server.capture_signals = nothing
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        await server.shutdown()


def nothing():
    raise AssertionError("it is not run as a program")


async def connected(port):
    return await asyncio.open_connection("127.0.0.1", port)


@pytest.mark.parametrize("head", [b"", b"GET / HTTP/1.1\r\nhost:"])
async def test_a_head_that_does_not_arrive_in_time_is_answered_408(monkeypatch, head):
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.05)
    async with serving() as port:
        reader, writer = await connected(port)
        writer.write(head)
        assert await reader.read() == LATE
        writer.close()


async def test_a_head_that_drips_has_no_more_time_than_one_that_does_not(monkeypatch):
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.1)
    async with serving() as port:
        reader, writer = await connected(port)
        answered = asyncio.ensure_future(reader.read())
        writer.write(b"GET / HTTP/1.1\r\nx: ")
        while not answered.done():
            writer.write(b"y")
            await asyncio.wait([answered], timeout=0.01)
        with suppress(ConnectionResetError):  # what drips in after the end resets the connection
            assert await answered == LATE
        writer.close()


async def test_a_body_that_does_not_arrive_in_time_is_answered_408(monkeypatch):
    monkeypatch.setattr(connections, "BODY_SECONDS", 0.05)
    async with serving() as port:
        reader, writer = await connected(port)
        writer.write(b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 9\r\n\r\nabc")
        assert await reader.read() == LATE
        writer.close()


async def test_requests_that_arrive_in_time_are_answered_one_after_the_other_on_one_connection(monkeypatch):
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.2)
    async with serving() as port:
        reader, writer = await connected(port)
        for _ in range(3):
            writer.write(ASKS)
            assert (await reader.readuntil(b"000")).startswith(b"HTTP/1.1 200 OK")
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(reader.read(1), 0.1)
        writer.close()


async def test_connections_past_the_bound_are_answered_503_and_those_within_go_on(monkeypatch):
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 2)
    async with serving() as port:
        first, second, third = [await connected(port) for _ in range(3)]
        assert (await third[0].read()).startswith(b"HTTP/1.1 503 Service Unavailable")
        first[1].write(ASKS)
        assert (await first[0].readuntil(b"000")).startswith(b"HTTP/1.1 200 OK")
        first[1].close()
        await first[0].read()
        fourth = await connected(port)
        fourth[1].write(ASKS)
        assert (await fourth[0].readuntil(b"000")).startswith(b"HTTP/1.1 200 OK")
        for _, writer in (second, third, fourth):
            writer.close()


def test_a_process_with_few_descriptors_takes_half_as_many_connections(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, 64))
    assert most_connections() == 32
    monkeypatch.setattr(resource, "getrlimit", lambda _: (2**20, 2**20))
    assert most_connections() == 256


async def test_connections_that_cannot_be_accepted_are_logged_once_a_minute(caplog):
    loop = asyncio.get_running_loop()
    quiet_about_accept(loop)
    with caplog.at_level(logging.ERROR):
        for _ in range(1_000):
            loop.call_exception_handler(
                {"message": "socket.accept() out of system resource", "exception": OSError(24, "Too many open files")}
            )
        assert [record.getMessage() for record in caplog.records] == [
            "cannot accept connections: [Errno 24] Too many open files"
        ]
        loop.call_exception_handler({"message": "something else"})
    assert caplog.records[-1].getMessage() == "something else"
