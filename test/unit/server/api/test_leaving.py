"""Clients that leave a server, at any moment and in any way: what they asked for ends, or goes on as documented."""

import asyncio
import json
import socket
import struct
from contextlib import asynccontextmanager

import pytest
from amounts import sample
from serving import HELLO, Code, offered, served

from operad.runtime import events
from operad.server.http.bounds import Bounds
from operad.server.http.streams import EventStream

CHAT = {"model": "Expert", "messages": [HELLO]}
RESPONSE = {"model": "Expert", "input": "a"}
GONE = "was cancelled, because the client disconnected"


class Hang:
    """Work of an operator that reports progress, and waits for ever."""

    def __init__(self):
        self.began, self.ended = asyncio.Event(), asyncio.Event()

    async def __call__(self, job):
        self.began.set()
        try:
            for done in range(1_000):  # events that arrive while the client leaves
                events.emit(events.Progress(done=done, total=1_000))
                await asyncio.sleep(0)
            await asyncio.Event().wait()
        finally:
            self.ended.set()


@asynccontextmanager
async def kept(work, **options):
    """A server of an operator; at the end, it has no run, task and connection more than at the beginning."""
    async with served(offered(Code(work)), **options) as here:
        await here.http.get("/healthz")  # the server has started
        before = asyncio.all_tasks()
        yield here
        await here.http.aclose()
        await asyncio.wait_for(until(lambda: not here.server.server_state.connections), 30)
        while more := asyncio.all_tasks() - before:
            _, pending = await asyncio.wait(more, timeout=30)
            assert not pending
        assert here.serving.runs.open == []


async def until(holds):
    while not holds():
        await asyncio.sleep(0)


def request(path, body, headers=""):
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{headers}"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


async def connected(here):
    return await asyncio.open_connection("127.0.0.1", int(here.url.rpartition(":")[2]))


async def leave(reader, writer, how):
    if how == "half-close":
        writer.write_eof()
        assert b"[DONE]" not in await asyncio.wait_for(reader.read(), 30)
    elif how == "reset":
        option = struct.pack("ii", 1, 0)  # the kernel sends RST instead of FIN
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, option)
    writer.close()


async def run_of(here):
    """The only run, as soon as there is one."""
    await asyncio.wait_for(until(here.serving.runs.listed), 30)
    return here.serving.runs.listed()[0]


@pytest.mark.parametrize(
    ("how", "path", "body", "stream", "moment"),
    sample(
        [
            (how, *asked, *at)
            for how in ("close", "reset", "half-close")
            for asked in (
                ("/v1/chat/completions", CHAT),
                ("/v1/responses", RESPONSE),
                ("/v1/responses", {**RESPONSE, "store": False}),
            )
            for at in ((False, "begun"), (False, "working"), (True, "begun"), (True, "first bytes"), (True, "working"))
        ],
        4,
    ),
)
async def test_a_client_that_leaves_at_any_moment_ends_its_run(stream, path, body, moment, how):
    hang = Hang()
    async with kept(hang) as here:
        reader, writer = await connected(here)
        writer.write(request(path, {**body, "stream": stream}))
        run = await run_of(here)
        if moment == "first bytes":
            await reader.read(1)
        elif moment == "working":
            await asyncio.wait_for(hang.began.wait(), 30)
        await leave(reader, writer, how)
        await asyncio.wait([run.task], timeout=30)
    assert (run.state, run.error) == ("cancelled", GONE)
    assert hang.ended.is_set() == hang.began.is_set()
    assert here.serving.runs.listed() == ([] if body.get("store") is False else [run])


@pytest.mark.parametrize(
    ("path", "body", "last"),
    [("/v1/chat/completions", CHAT, b"[DONE]"), ("/v1/responses", RESPONSE, b"event: response.completed")],
)
async def test_a_client_that_leaves_after_its_answer_leaves_a_finished_run(path, body, last):
    async def say(job):
        return "said"

    async with kept(say) as here:
        reader, writer = await connected(here)
        writer.write(request(path, {**body, "stream": True}))
        await asyncio.wait_for(reader.readuntil(last), 30)
        await leave(reader, writer, "reset")
    assert [run.state for run in here.serving.runs.listed()] == ["finished"]


async def test_a_client_that_sent_its_next_request_early_is_seen_to_leave():
    hang = Hang()
    async with kept(hang) as here:
        reader, writer = await connected(here)
        writer.write(request("/v1/chat/completions", CHAT))
        await asyncio.wait_for(hang.began.wait(), 30)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await asyncio.wait_for((await run_of(here)).log.follow(20).__anext__(), 30)  # the server has read it by then
        await leave(reader, writer, "close")
        await asyncio.wait_for(hang.ended.wait(), 30)


async def test_a_client_that_sends_too_much_before_its_answer_is_disconnected():
    hang = Hang()
    async with kept(hang) as here:
        _, writer = await connected(here)
        writer.write(request("/v1/chat/completions", CHAT))
        await asyncio.wait_for(hang.began.wait(), 30)
        writer.write(b"GET / HTTP/1.1\r\nX: " + b"x" * 200_000)
        await asyncio.wait_for(hang.ended.wait(), 30)
        writer.close()
    assert (await run_of(here)).error == GONE


@pytest.mark.parametrize("how", ["close", "reset", "half-close"])
@pytest.mark.parametrize("moment", ["begun", "first bytes"])
async def test_a_run_of_the_run_api_goes_on_without_those_who_follow_it(moment, how):
    hang = Hang()
    async with kept(hang, bounds=Bounds(followers=1)) as here:
        await here.http.post("/runs", json={"expert": "Expert", "goal": "", "id": "r"})
        run = await here.serving.runs.find("r")
        follow = b"GET /runs/r/events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        reader, writer = await connected(here)
        writer.write(follow)
        if moment == "first bytes":
            await reader.read(1)
        await leave(reader, writer, how)
        status = b"429"
        while status == b"429":  # until the place is free again
            reader, writer = await connected(here)
            writer.write(follow)
            status = (await asyncio.wait_for(reader.readline(), 30)).split()[1]
        state = run.state
        await here.http.post("/runs/r/cancel")
        ended = await asyncio.wait_for(reader.read(), 30)
        writer.close()
    assert (status, state, run.state) == (b"200", "running", "cancelled")
    assert b"event: ended" in ended


async def test_work_that_is_cancelled_before_it_has_begun_has_an_end():
    async with kept(Hang()) as here:
        offer = here.serving.runs.offers["Expert"]
        run, _ = await here.serving.runs.begin(offer, offer.job("g", "", {}))
        await here.serving.runs.cancel(run)
    assert (run.state, run.error, run.ended is not None) == ("cancelled", "was cancelled", True)


async def test_a_call_of_a_tool_whose_connection_breaks_ends_with_its_session():
    hang = Hang()
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    accept = {"accept": "application/json, text/event-stream"}

    def message(**fields):
        return {"jsonrpc": "2.0", **fields}

    async with served(offered(Code(hang)), bounds=Bounds(session_seconds=0.5)) as here:
        opened = await here.http.post("/mcp", json=message(id=1, method="initialize", params=hello), headers=accept)
        headers = {**accept, "mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": "2025-06-18"}
        await here.http.post("/mcp", json=message(method="notifications/initialized"), headers=headers)
        reader, writer = await connected(here)
        call = message(id=2, method="tools/call", params={"name": "Expert", "arguments": {"goal": "g"}})
        writer.write(request("/mcp", call, "".join(f"{name}: {value}\r\n" for name, value in headers.items())))
        await asyncio.wait_for(hang.began.wait(), 30)
        await leave(reader, writer, "reset")
        await asyncio.wait_for(hang.ended.wait(), 30)
    assert (await run_of(here)).error == "was cancelled, because the caller of the tool has disconnected"


# The response itself


async def sent(stream, *received):
    """The messages of a response to a client from which these messages come, and then none."""
    messages, given = [], list(received)

    async def receive():
        if not given:
            await asyncio.Event().wait()
        return given.pop(0)

    async def send(message):
        messages.append(message)

    await asyncio.wait_for(stream({"type": "http"}, receive, send), 30)
    return messages


async def test_work_of_a_stream_ends_also_if_its_source_never_began():
    told, began = [], []

    async def parts():
        began.append(True)
        yield b"a"

    async def ended(complete):
        told.append(complete)

    async def receive():
        return {"type": "http.disconnect"}

    async def send(message):
        await asyncio.Event().wait()

    await asyncio.wait_for(EventStream(parts(), 15, ended)({"type": "http"}, receive, send), 30)
    assert (told, began) == ([False], [])


async def test_work_of_a_stream_ends_before_its_source_which_may_swallow_a_cancellation():
    told, over = [], asyncio.Event()

    async def parts():
        yield b"a"
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await over.wait()
        yield b"b"

    async def ended(complete):
        told.append(complete)
        over.set()

    messages = await sent(EventStream(parts(), 15, ended), {"type": "http.request"}, {"type": "http.disconnect"})
    assert told == [False]
    assert messages[0]["type"] == "http.response.start"


async def test_a_source_that_fails_is_an_error_and_ends_its_work():
    told = []

    async def parts():
        yield b"a"
        raise ValueError("no more")

    async def ended(complete):
        told.append(complete)

    with pytest.raises(ValueError, match="no more"):
        await sent(EventStream(parts(), 15, ended))
    assert told == [False]
