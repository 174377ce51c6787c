"""A server's connections: no more than it can bear, and none that takes for ever to ask or to listen."""

import asyncio
import logging
import resource
import socket
from contextlib import asynccontextmanager, suppress

import pytest

uvicorn = pytest.importorskip("uvicorn")
from operad.server.http import connections  # noqa: E402 - it needs the extra
from operad.server.http.addresses import address_group, is_in  # noqa: E402
from operad.server.http.connections import http_config, most_connections, quiet_about_accept  # noqa: E402

ASKS = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n"
LARGE = 2**24
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


class Large:
    """Answers with more than the system takes at once.

    Attributes:
        gone: Set once the client has.
    """

    def __init__(self):
        self.gone = asyncio.Event()

    async def __call__(self, scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % LARGE)]})
        await send({"type": "http.response.body", "body": b"x" * LARGE})
        while (await receive())["type"] != "http.disconnect":
            pass
        self.gone.set()


@asynccontextmanager
async def serving(app=app, **options):
    config = http_config(app, lifespan="off", log_level="critical", port=0, **options)
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


async def connected(port, address="127.0.0.1"):
    return await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))


async def status_of(connection, path="/"):
    """The status with which a request is answered; 0 if it is not answered."""
    reader, writer = connection
    writer.write(f"GET {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return int(answer.split()[1]) if answer else 0


def reads_little(port):
    """A connection of a client that takes little at once."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    client.connect(("127.0.0.1", port))
    client.setblocking(False)
    return client


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


async def test_a_connection_is_kept_longer_between_requests_than_a_head_may_take(monkeypatch):
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.05)
    async with serving() as port:
        reader, writer = await connected(port)
        for head in (ASKS, ASKS):
            writer.write(head)
            assert (await reader.readuntil(b"000")).startswith(b"HTTP/1.1 200 OK")
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(reader.read(1), 0.15)
        writer.write(ASKS[:9])  # but the next head has no more time than the first
        assert await reader.read() == LATE
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


@pytest.mark.parametrize("head", [b"", b"connection: close\r\n"])
async def test_a_client_that_takes_nothing_of_its_answer_is_disconnected(monkeypatch, head):
    monkeypatch.setattr(connections, "SEND_SECONDS", 0.05)
    large = Large()
    async with serving(large) as port:
        with reads_little(port) as client:
            client.send(b"GET / HTTP/1.1\r\nhost: here\r\n" + head + b"\r\n")
            await asyncio.wait_for(large.gone.wait(), 30)


async def test_a_client_that_takes_a_byte_at_a_time_is_disconnected(monkeypatch):
    monkeypatch.setattr(connections, "SEND_SECONDS", 0.1)
    large = Large()
    async with serving(large) as port:
        with reads_little(port) as client:
            client.send(ASKS)
            gone = asyncio.ensure_future(large.gone.wait())
            for _ in range(3_000):
                with suppress(BlockingIOError, ConnectionResetError):
                    client.recv(1)
                if (await asyncio.wait([gone], timeout=0.01))[0]:
                    break
            assert gone.done()


async def test_a_client_that_takes_its_answer_slowly_gets_all_of_it(monkeypatch):
    monkeypatch.setattr(connections, "SEND_SECONDS", 0.5)
    monkeypatch.setattr(connections, "SEND_BYTES", 1)
    async with serving(Large()) as port:
        reader, writer = await connected(port)
        writer.write(ASKS)
        await reader.readuntil(b"\r\n\r\n")
        never, size = asyncio.Event(), 0
        while size < LARGE:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(never.wait(), 0.002)
            size += len(await reader.read(2**15))
        assert size == LARGE
        writer.close()


async def test_requests_whose_answers_nobody_takes_do_not_pile_up(monkeypatch):
    monkeypatch.setattr(connections, "SEND_SECONDS", 0.05)
    begun = 0

    async def counting(scope, receive, send):
        nonlocal begun
        begun += 1
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % 2**20)]})
        await send({"type": "http.response.body", "body": b"x" * 2**20})

    async with serving(counting) as port:
        with reads_little(port) as client:
            client.send(ASKS * 400)
            ended = asyncio.ensure_future(asyncio.get_running_loop().sock_sendall(client, b"G" * 2**24))
            with pytest.raises(ConnectionError):
                await asyncio.wait_for(ended, 30)
    assert begun < 20


async def test_a_body_of_a_request_sent_ahead_that_does_not_arrive_in_time_is_answered_408(monkeypatch):
    monkeypatch.setattr(connections, "BODY_SECONDS", 0.05)
    async with serving() as port:
        reader, writer = await connected(port)
        writer.write(ASKS + b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 9\r\n\r\nabc")
        assert (await reader.readuntil(b"000")).startswith(b"HTTP/1.1 200 OK")
        assert await reader.read() == LATE
        writer.close()


async def test_a_new_connection_takes_the_place_of_the_one_that_waited_longest_for_its_client(monkeypatch):
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 3)
    monkeypatch.setattr(connections, "PATIENCE", 0.0)
    async with serving() as port:
        first, second, third = [await connected(port) for _ in range(3)]
        second[1].write(b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 9\r\n\r\nabc")
        third[1].write(ASKS)
        assert (await third[0].readuntil(b"000")).startswith(b"HTTP/1.1 200 OK")
        assert await status_of(await connected(port)) == 200
        assert await first[0].read() == b""
        assert [await status_of(third)] == [200]
        for _, writer in (first, second, third):
            writer.close()


async def test_clients_that_take_no_answers_give_their_places_to_others(monkeypatch):
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 2)
    monkeypatch.setattr(connections, "PATIENCE", 0.0)
    large = Large()

    async def both(scope, receive, send):
        await (large if scope["path"] == "/large" else app)(scope, receive, send)

    async with serving(both) as port:
        with reads_little(port) as one, reads_little(port) as other:
            for client in (one, other):
                client.send(ASKS.replace(b"/", b"/large", 1))
                assert (await asyncio.get_running_loop().sock_recv(client, 8)) == b"HTTP/1.1"
            assert await status_of(await connected(port)) == 200
            await asyncio.wait_for(large.gone.wait(), 30)


async def test_a_client_that_asks_ahead_gives_its_place_to_another_while_it_is_answered(monkeypatch):
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 3)
    began, go_on = asyncio.Semaphore(0), asyncio.Event()

    async def slow(scope, receive, send):
        if scope["path"] == "/slow":
            began.release()
            await go_on.wait()
        await app(scope, receive, send)

    async with serving(slow) as port:
        try:
            asks, ahead, late = [await connected(port) for _ in range(3)]
            for connection, times in ((asks, 1), (ahead, 2), (late, 1)):
                connection[1].write(ASKS.replace(b"/", b"/slow", 1) * times)
                await began.acquire()
            new = await connected(port)
            new[1].write(ASKS.replace(b"/", b"/slow", 1))
            assert await status_of(await connected(port)) == 503
            assert await asyncio.wait_for(ahead[0].read(), 30) == b""
        finally:
            go_on.set()
        ahead[1].close()
        for reader, writer in (asks, late, new):
            assert (await reader.readuntil(b"000")).startswith(b"HTTP/1.1 200 OK")
            writer.close()


async def test_health_is_answered_however_many_connections_there_are(monkeypatch):
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 2)
    async with serving() as port:
        held = [await connected(port) for _ in range(2)]
        for _ in range(3):
            assert await status_of(await connected(port), "/healthz") == 200
            assert await status_of(await connected(port), "/other") == 503
        for _, writer in held:
            writer.close()


async def test_connections_past_the_bound_that_ask_nothing_keep_nobody_from_asking_for_health(monkeypatch):
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 1)
    monkeypatch.setattr(connections, "SPARE", 2)
    async with serving() as port:
        held = [await connected(port) for _ in range(20)]
        assert await status_of(await connected(port), "/healthz") == 200
        for _, writer in held:
            writer.close()


@pytest.mark.parametrize(("proxies", "statuses"), [((), [200, 503]), (("127.0.0.0/8",), [200, 200])])
async def test_an_address_has_a_part_of_the_connections_unless_it_is_a_proxy(monkeypatch, proxies, statuses):
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 8)
    monkeypatch.setattr(connections, "LOOPBACK_NETWORKS", ())
    async with serving(proxies=proxies) as port:
        held = [await connected(port) for _ in range(2)]
        assert [await status_of(await connected(port, each)) for each in ("127.0.0.2", "127.0.0.1")] == statuses
        for _, writer in held:
            writer.close()


@pytest.mark.parametrize(
    ("address", "group"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("no address", "no address"),
    ],
)
def test_clients_are_counted_by_address_and_for_ipv6_by_network(address, group):
    assert address_group(address) == group


def test_an_address_in_the_form_of_ipv6_is_in_its_network():
    assert is_in("::ffff:10.1.2.3", "10.0.0.0/8")
    assert not is_in("11.1.2.3", "10.0.0.0/8")
    assert not is_in("", "10.0.0.0/8")


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
