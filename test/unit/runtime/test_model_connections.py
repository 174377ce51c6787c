"""Connections of models: closed with their event loop, or when the model is gone before it."""

import asyncio
import gc
import json
import warnings

from operad.runtime.models.messages import Message
from operad.runtime.models.model import Model

HELLO = [Message.user("Hello.")]


async def answer(reader, writer):
    """Answer the requests of a connection, which stays open until the client closes it."""
    said = {"choices": [{"index": 0, "delta": {"content": "Hi."}, "finish_reason": "stop"}]}
    body = f"data: {json.dumps(said)}\n\ndata: [DONE]\n\n".encode()
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            await reader.readexactly(int(head.partition("content-length:")[2].split()[0]))
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n")
            writer.write(b"content-length: %d\r\n\r\n%s" % (len(body), body))
    except asyncio.IncompleteReadError:
        writer.close()


async def test_a_model_that_is_gone_before_its_event_loop_leaves_no_connection_open():
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    model = Model(name="x", base_url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        assert (await model.complete(HELLO)).text == "Hi."
        await asyncio.sleep(0.05)  # until nothing but the model refers to the connection
        del model
        gc.collect()
        await asyncio.sleep(0.05)
        gc.collect()
    assert [str(each.message) for each in caught if "unclosed" in str(each.message)] == []
    server.close()
    await server.wait_closed()
