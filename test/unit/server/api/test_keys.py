"""Keys limited to experts and to their own runs, at every door; a foreign run is like an unknown one."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import httpx2
import pytest
from mcp import Client as McpClient
from mcp.client.streamable_http import streamable_http_client
from serving import HELLO, Code, echo, offered, order, served

from operad.runtime.durable.ledger import Ledger
from operad.runtime.values.errors import InputError, InvalidError
from operad.server.http.bounds import Bounds
from operad.server.http.keys import Key, digest, read_key_file

Client: Any = McpClient
TEXTS = {name: f"the-key-of-{name}-0123456789" for name in ("admin", "web", "app", "shop")}
KEYS = (
    Key.of(TEXTS["admin"], "admin"),
    Key("web", own_runs=True, digest=digest(TEXTS["web"].encode())),
    Key("app", own_runs=True, digest=digest(TEXTS["app"].encode())),
    Key("shop", experts=frozenset({"Shop"}), digest=digest(TEXTS["shop"].encode())),
)


def bearer(name):
    return {"Authorization": f"Bearer {TEXTS[name]}"}


def two():
    return offered(Code(echo)), offered(Code(order), name="Shop")


class Doors:
    """The requests of the holder of a key."""

    def __init__(self, here, name):
        self._here, self._headers = here, bearer(name)

    async def ask(self, method, path, body=None) -> Any:
        said = await self._here.http.request(method, path, json=body, headers=self._headers)
        return said.status_code, said.json() if said.content and "json" in said.headers["content-type"] else None

    async def begin(self, run_id, expert="Expert", goal="g") -> Any:
        return await self.ask("POST", "/runs", {"expert": expert, "goal": goal, "id": run_id})

    async def until(self, run_id, *states):
        while (run := (await self.ask("GET", f"/runs/{run_id}"))[1])["state"] not in states:
            await asyncio.sleep(0)
        return run


async def test_a_key_of_own_runs_finds_foreign_runs_at_no_door():
    async with served(*two(), keys=KEYS) as here:
        web, app, admin = Doors(here, "web"), Doors(here, "app"), Doors(here, "admin")
        assert (await web.begin("webs", "Shop"))[0] == 202
        await web.until("webs", "asks")
        question = (await web.ask("GET", "/runs/webs"))[1]["questions"][0]["id"]
        unknown = (await app.ask("GET", "/runs/unknown"))[1]["error"]["message"]
        turns = [
            HELLO,
            {"role": "assistant", "content": f"Order?\n\n(run webs asks under {question}; say the answer)"},
            {"role": "user", "content": "yes"},
        ]
        refused = [
            await app.ask("GET", "/runs/webs"),
            await app.ask("GET", "/runs/webs/events"),
            await app.ask("POST", f"/runs/webs/answers/{question.replace('#', '%23')}", {"answer": True}),
            await app.ask("POST", "/runs/webs/cancel"),
            await app.ask("DELETE", "/runs/webs"),
            await app.ask("GET", "/v1/responses/resp_webs"),
            await app.ask("DELETE", "/v1/responses/resp_webs"),
            await app.ask(
                "POST", "/v1/responses", {"model": "Shop", "input": "yes", "previous_response_id": "resp_webs"}
            ),
            await app.ask("POST", "/v1/chat/completions", {"model": "Shop", "messages": turns}),
            await app.ask(
                "POST", "/v1/responses", {"model": "Shop", "input": [{"type": "message", **t} for t in turns]}
            ),
        ]
        assert [status for status, _ in refused] == [404] * len(refused)
        assert refused[0][1]["error"]["message"] == unknown.replace("unknown", "webs")
        assert "webs" not in (await app.ask("GET", "/runs/web"))[1]["error"]["message"]
        assert (await app.ask("GET", "/runs"))[1] == {"runs": []}
        taken = await app.begin("webs", "Shop")
        assert (taken[0], taken[1]["error"]["message"]) == (409, "the id 'webs' is taken; give another, or none")
        assert [run["id"] for run in (await web.ask("GET", "/runs"))[1]["runs"]] == ["webs"]
        assert [run["id"] for run in (await admin.ask("GET", "/runs"))[1]["runs"]] == ["webs"]
        assert (await web.begin("webs", "Shop"))[0] == 200
        assert (await admin.ask("POST", f"/runs/webs/answers/{question.replace('#', '%23')}", {"answer": True}))[
            0
        ] == 200
        assert (await web.until("webs", "finished"))["result"] == "g: ordered"
        assert (await admin.ask("DELETE", "/runs/webs"))[0] == 204


async def test_requests_at_once_with_the_same_id_give_no_key_the_run_of_another():
    async with served(*two(), keys=KEYS) as here:
        web, app = Doors(here, "web"), Doors(here, "app")
        said = await asyncio.gather(*(each.begin("same") for each in (web, app, web, app)))
        assert sorted(status for status, _ in said) in ([200, 202, 409, 409],)


async def test_a_key_of_an_expert_knows_no_other():
    async with served(*two(), keys=KEYS, bounds=Bounds(beat=0.01)) as here:
        shop, admin = Doors(here, "shop"), Doors(here, "admin")
        await admin.begin("secret")
        await admin.begin("open", "Shop")
        assert [each["name"] for each in (await shop.ask("GET", "/experts"))[1]["experts"]] == ["Shop"]
        assert [each["id"] for each in (await shop.ask("GET", "/v1/models"))[1]["data"]] == ["Shop"]
        assert [run["id"] for run in (await shop.ask("GET", "/runs"))[1]["runs"]] == ["open"]
        refused = [
            await shop.begin("mine"),
            await shop.ask("GET", "/v1/models/Expert"),
            await shop.ask("POST", "/v1/chat/completions", {"model": "Expert", "messages": [HELLO]}),
            await shop.ask("POST", "/v1/responses", {"model": "Expert", "input": "Hello"}),
            await shop.ask("GET", "/runs/secret"),
            await shop.ask("DELETE", "/runs/secret"),
        ]
        assert [status for status, _ in refused] == [404] * len(refused)
        assert "there are: Shop" in refused[0][1]["error"]["message"]
        for caller, names in ((shop, ["Shop"]), (admin, ["Expert", "Shop"])):
            schemas = (await caller.ask("GET", "/openapi.json"))[1]["components"]["schemas"]
            named = [schemas[name]["properties"] for name in ("RunRequest", "ChatRequest", "ResponseRequest")]
            assert [(each.get("expert") or each["model"])["enum"] for each in named] == [names] * 3
        assert (await shop.ask("GET", "/runs/open"))[0] == 200


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_tools_are_those_of_the_key_and_answer_its_own_runs_alone(mode):
    async with served(*two(), keys=KEYS) as here, AsyncExitStack() as stack:
        mcp = {}
        for name in ("shop", "web", "app"):
            http = await stack.enter_async_context(httpx2.AsyncClient(headers=bearer(name)))
            transport = streamable_http_client(f"{here.url}/mcp", http_client=http)
            mcp[name] = await stack.enter_async_context(Client(transport, mode=mode))
        assert [each.name for each in (await mcp["shop"].list_tools()).tools] == ["Shop", "answer_question"]
        refused = await mcp["shop"].call_tool("Expert", {"goal": "g"})
        assert (refused.is_error, refused.content[0].text) == (
            True,
            "no tool is called 'Expert'; there are: Shop",
        )
        asked = (await mcp["web"].call_tool("Shop", {"goal": "tea"})).content[0].text
        run = (await Doors(here, "web").ask("GET", "/runs"))[1]["runs"][0]
        question = (await Doors(here, "web").ask("GET", f"/runs/{run['id']}"))[1]["questions"][0]["id"]
        given = {"run_id": run["id"], "question_id": question, "answer": True}
        assert run["id"] in asked
        foreign = await mcp["app"].call_tool("answer_question", given)
        assert (foreign.is_error, "no run has the id" in foreign.content[0].text) == (True, True)
        assert (await mcp["web"].call_tool("answer_question", given)).content[0].text == "tea: ordered"


async def test_an_mcp_session_is_of_no_use_with_another_key():
    async with served(*two(), keys=KEYS) as here:
        accepts = {"Accept": "application/json, text/event-stream"}
        hello = {
            "jsonrpc": "2.0", "id": 1, "method": "initialize",
            "params": {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
        }  # fmt: skip
        opened = await here.http.post("/mcp", json=hello, headers={**accepts, **bearer("web")})
        session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        statuses = [
            (await here.http.post("/mcp", json=ping, headers={**accepts, **session, **bearer(name)})).status_code
            for name in ("app", "admin", "web")
        ]
    assert statuses == [404, 404, 200]


async def test_a_conversation_that_another_key_continues_belongs_to_that_key():
    async with served(*two(), keys=KEYS) as here:
        web, admin = Doors(here, "web"), Doors(here, "admin")
        first = (await web.ask("POST", "/v1/responses", {"model": "Expert", "input": "Hello"}))[1]["id"]
        body = {"model": "Expert", "input": "Again", "previous_response_id": first}
        status, second = await admin.ask("POST", "/v1/responses", body)
        assert (status, (await web.ask("GET", f"/v1/responses/{second['id']}"))[0]) == (200, 404)
        mine = (await web.ask("POST", "/v1/responses", body))[1]["id"]
        assert (await web.ask("GET", f"/v1/responses/{mine}"))[0] == 200


async def test_the_owner_of_a_run_is_stored_with_it(tmp_path):
    url = tmp_path / "runs.sqlite"

    def kept():
        return [offer.kept_in(Ledger(url, source={"expert": offer.name})) for offer in two()]

    for start in ("first", "after a restart"):
        offers = kept()
        async with served(*offers, keys=KEYS) as here:
            web, app, admin = Doors(here, "web"), Doors(here, "app"), Doors(here, "admin")
            if start == "first":
                await web.begin("done")
                await web.until("done", "finished")
                await web.begin("asks", "Shop")
                await web.until("asks", "asks")
            assert [(await app.ask("GET", f"/runs/{each}"))[0] for each in ("done", "asks")] == [404, 404]
            assert (await app.ask("DELETE", "/runs/done"))[0] == 404
            assert (await app.begin("done"))[0] == 409
            assert [(await each.ask("GET", "/runs/done"))[1]["result"] for each in (web, admin)] == ["g||{}"] * 2
            assert (await web.until("asks", "asks"))["expert"] == "Shop"
        for offer in offers:
            if offer.ledger is not None:
                offer.ledger.close()


async def test_the_run_of_a_request_is_in_the_access_log(caplog):
    caplog.set_level("INFO", "operad.access")
    async with served(*two(), keys=KEYS) as here:
        web = Doors(here, "web")
        await web.begin("r")
        await web.until("r", "finished")
        await web.ask("DELETE", "/runs/r")
    lines = [each.getMessage() for each in caplog.records if each.name == "operad.access"]
    assert lines[0].startswith("127.0.0.1 web POST /runs 202 ")
    assert {line.rpartition(" s ")[2] for line in lines} == {"run r"}


# The file


def written(tmp_path, text):
    file = tmp_path / "keys.yaml"
    file.write_text(text)
    return file


def test_a_file_of_keys_names_them_with_their_limits(tmp_path):
    hashes = [digest(name.encode()) for name in ("a", "b")]
    file = written(
        tmp_path,
        f"admin: {{sha256: {hashes[0]}}}\nweb:\n  sha256: {hashes[1].upper()}\n  experts: [Shop]\n  own_runs: true\n",
    )
    assert read_key_file(file, ["Expert", "Shop"]) == (
        Key("admin", digest=hashes[0]),
        Key("web", experts=frozenset({"Shop"}), own_runs=True, digest=hashes[1]),
    )


def test_all_issues_of_a_file_of_keys_are_reported_at_once_and_no_key_is_shown(tmp_path):
    plain = "a-plain-key-0123456789"
    good = digest(b"a")
    text = (
        f"one: {{sha256: {good}, expert: [Shop]}}\n"
        f"two: {{sha256: {plain}}}\n"
        f"three: {plain}\n"
        f"four: {{key: {plain}, sha256: {digest(b'b')}}}\n"
        f"five: {{sha256: {digest(b'c')}, experts: [Shp, Expert]}}\n"
        f"six: {{sha256: {digest(b'd')}, experts: [], own_runs: 3}}\n"
        f"'a b': {{sha256: {digest(b'e')}}}\n"
        f"seven: {{sha256: {digest(b'c')}}}\n"
        f"eight: {{sha256: 1234567890123456}}\n"
    )
    with pytest.raises(InvalidError) as raised:
        read_key_file(written(tmp_path, text), ["Expert", "Shop"])
    assert plain not in str(raised.value)
    assert "1234567890123456" not in str(raised.value)
    found = [
        (each.where.rpartition("keys.yaml:")[2], each.message.partition(";")[0].partition(" (did")[0])
        for each in raised.value.issues
    ]
    assert found == [
        ("1 one.expert", "unknown key"),
        ("2 two.sha256", "expected the SHA-256 of a key, 64 hexadecimal digits"),
        ("3 three", "expected a mapping: sha256, experts, own_runs"),
        ("4 four.key", "a file of keys holds their hashes: sha256"),
        ("5 five.experts[0]", "no expert has the name 'Shp'"),
        ("6 six.experts", "must not be empty"),
        ("6 six.own_runs", "must be true or false, not 3"),
        ("7 a b", "'a b' cannot name a key: a name begins with a letter, and has up to 64 letters, digits, `.`, `_` and `-`"),
        ("8 seven", "has the name or the hash of the key 'five'"),
        ("9 eight.sha256", "expected the SHA-256 of a key, 64 hexadecimal digits"),
    ]  # fmt: skip


def test_an_empty_file_of_keys_is_refused(tmp_path):
    with pytest.raises(InputError):
        read_key_file(written(tmp_path, ""), ["Expert"])
    with pytest.raises(InputError, match="holds no key"):
        read_key_file(written(tmp_path, "{}"), ["Expert"])
