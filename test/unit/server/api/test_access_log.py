"""The access log: a line per request, also of those that are refused, with names and never keys."""

import asyncio
import json
import logging
import os
import sys

import pytest
from serving import Code, echo, offered, served

from operad.cli.logs import ServerLog, set_up
from operad.runtime.observe.logs import JsonFormatter
from operad.server.http import guard
from operad.server.http.keys import Key

KEY = "a-key-of-many-characters"
WRONG = "a-wrong-key-that-nobody-has"


@pytest.fixture
def lines(caplog):
    """What was logged of requests."""
    caplog.set_level(logging.INFO, "operad.access")
    return lambda: [each.getMessage() for each in caplog.records if each.name == "operad.access"]


async def until(lines, number):
    """Wait until there are as many lines: the line of a request follows its answer."""
    while len(lines()) < number:
        await asyncio.sleep(0)
    return lines()


def without_seconds(line):
    return " ".join(part for part in line.split() if part != "s" and not part.startswith("0."))


async def test_a_request_is_logged_with_the_name_of_its_key_and_without_its_query(lines, caplog):
    async with served(offered(Code(echo)), keys=[Key.of(KEY, "web")]) as here:
        headers = {"Authorization": f"Bearer {KEY}"}
        await here.http.get("/runs?limit=3&token=secret", headers=headers)
        await here.http.get("/healthz")
        await here.http.get("/nowhere%0a%1b[31m%C2%85", headers=headers)
        logged = [without_seconds(line) for line in await until(lines, 3)]
    assert logged == [
        "127.0.0.1 web GET /runs 200",
        "127.0.0.1 - GET /healthz 200",
        "127.0.0.1 web GET /nowhere%0a%1b[31m%C2%85 404",
    ]
    record = next(each for each in caplog.records if each.name == "operad.access")
    line = json.loads(JsonFormatter().format(record))
    assert line["seconds"] >= 0
    assert {name: line[name] for name in ("address", "key", "method", "path", "status")} == {
        "address": "127.0.0.1",
        "key": "web",
        "method": "GET",
        "path": "/runs",
        "status": 200,
    }


async def test_wrong_keys_are_logged_and_answered_429_after_some(lines, monkeypatch):
    monkeypatch.setattr(guard, "WRONG_KEYS", 3)
    async with served(offered(Code(echo)), keys=[KEY]) as here:
        *_, last = [await here.http.get("/runs", headers={"Authorization": f"Bearer {WRONG}"}) for _ in range(5)]
        right = await here.http.get("/runs", headers={"Authorization": f"Bearer {KEY}"})
        missing = await here.http.get("/runs")
        logged = [without_seconds(line) for line in await until(lines, 7)]
    assert 0 < int(last.headers["retry-after"]) <= 61
    assert (right.status_code, missing.status_code) == (200, 401)
    assert logged[:5] == [f"127.0.0.1 - GET /runs {status}" for status in (401, 401, 401, 429, 429)]
    assert not any(WRONG in line or KEY in line for line in lines())


async def test_refusals_for_host_and_origin_are_logged(lines):
    async with served(offered(Code(echo))) as here:
        await here.http.get("/runs", headers={"Host": "evil.example"})
        await here.http.get("/runs", headers={"Origin": "https://evil.example"})
        assert [without_seconds(line) for line in await until(lines, 2)] == ["127.0.0.1 - GET /runs 403"] * 2


async def test_what_is_no_http_is_logged(lines):
    async with served(offered(Code(echo))) as here:
        reader, writer = await asyncio.open_connection(*here.url.removeprefix("http://").split(":"))
        writer.write(b"no http\x1b[31m\r\n\r\n")
        await reader.read()
        writer.close()
        assert await until(lines, 1) == ["127.0.0.1 400 Invalid HTTP request received"]


@pytest.mark.parametrize(
    ("proxies", "address"),
    [((), "127.0.0.1"), (("10.0.0.0/8",), "127.0.0.1"), (("127.0.0.1",), "203.0.113.7"), (("127.0.0.0/8",), "203.0.113.7")],
)  # fmt: skip
async def test_the_client_is_the_one_that_a_named_proxy_names(lines, proxies, address):
    async with served(offered(Code(echo)), proxies=proxies) as here:
        await here.http.get("/runs", headers={"X-Forwarded-For": "198.51.100.1, 203.0.113.7"})
        assert without_seconds((await until(lines, 1))[0]) == f"{address} - GET /runs 200"


async def test_wrong_keys_are_counted_for_each_client_of_a_proxy(monkeypatch):
    monkeypatch.setattr(guard, "WRONG_KEYS", 1)
    async with served(offered(Code(echo)), keys=[KEY], proxies=["127.0.0.1"]) as here:
        statuses = [
            (
                await here.http.get("/runs", headers={"Authorization": f"Bearer {WRONG}", "X-Forwarded-For": client})
            ).status_code
            for client in ("203.0.113.7", "203.0.113.7", "203.0.113.8", "no address\x7f", "2001:db8::1", "2001:db8::2")
        ]
    assert statuses == [401, 429, 401, 401, 401, 429]


async def test_a_client_that_leaves_before_the_answer_is_logged_as_499(lines):
    begun = asyncio.Event()

    async def hang(job):
        begun.set()
        await asyncio.Event().wait()

    async with served(offered(Code(hang))) as here:
        body = {"model": "Expert", "messages": [{"role": "user", "content": "Hello"}]}
        asking = asyncio.ensure_future(here.http.post("/v1/chat/completions", json=body))
        await begun.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert without_seconds((await until(lines, 1))[0]).startswith("127.0.0.1 - POST /v1/chat/completions 499")


def test_a_stderr_that_nobody_reads_holds_up_nobody(monkeypatch):
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as reader, os.fdopen(writing, "w") as writer:
        monkeypatch.setattr(sys, "stderr", writer)
        with ServerLog() as log:
            for number in range(50_000):
                log.put(f"line {number}")
            text = b""
            while b"lines of the log were dropped" not in text and b"\nlast\n" not in text:
                log.put("last")
                text += reader.read1(2**16)
    assert text.startswith(b"line 0\nline 1\n")
    assert b"\nline 49999\n" not in text


def test_it_has_requests_unless_another_level_is_asked_for(monkeypatch, capfd):
    root, log, access = logging.getLogger(), logging.getLogger("operad"), logging.getLogger("operad.access")
    before = root.handlers[:], root.level, log.level
    try:
        for level in (None, "INFO", "ERROR"):
            if level is not None:
                set_up(level, as_json=True)
            with ServerLog():
                access.info("at %s", level)
    finally:
        root.handlers[:], level, log_level = before[0], before[1], before[2]
        root.setLevel(level)
        log.setLevel(log_level)
    shown = capfd.readouterr().err.splitlines()
    assert [line.rpartition(": ")[2] if "{" not in line else json.loads(line)["message"] for line in shown] == [
        "at None",
        "at INFO",
    ]
