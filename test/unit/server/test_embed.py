"""Python workflows as an application to mount: users of the host, paths, proxies, the run page and the lifespan."""

import asyncio
import json
import logging
import socket
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from typing import Any

import httpx2
import pytest
import uvicorn
from fastapi import FastAPI, HTTPException
from local_http import NO_AUTHORITIES
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from openai import AsyncOpenAI
from serving import opened

from operad import InputError, Job, RunContext, Workflow, load_workflow, operator
from operad.runtime.durable import Ledger
from operad.server import User, asgi
from operad.server.http.keys import Key


def greet(job: Job) -> str:
    """Greet someone."""
    return f"Hello {job.goal}"


@operator
async def pay(job: Job, context: RunContext) -> str:
    return "paid" if await context.ask(f"Pay {job.goal}?", bool) else "not paid"


def user_of(request):
    return request.headers.get("x-user")


@asynccontextmanager
async def hosted(*apps, prefix="", lifespan=True, **options):
    """Serve applications under /ai in a FastAPI application; yield its address, below a prefix that a proxy strips."""
    stack = AsyncExitStack()

    @asynccontextmanager
    async def lifespans(app):
        async with AsyncExitStack() as entered:
            for each in apps if lifespan else ():
                await entered.enter_async_context(each.lifespan(app))
            yield

    host = FastAPI(lifespan=lifespans)
    for number, each in enumerate(apps):
        host.mount(f"/ai{number or ''}", each)

    async def proxied(scope, receive, send):
        if prefix and scope["type"] == "http":
            path = scope["path"].removeprefix(prefix)
            scope = {**scope, "path": path, "raw_path": path.encode()}
        await host(scope, receive, send)

    config = uvicorn.Config(proxied, log_level="critical", **options)
    server: Any = uvicorn.Server(config)
    server.capture_signals = nullcontext
    async with stack:
        listening = stack.enter_context(socket.socket())
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        task = asyncio.ensure_future(server.serve(sockets=[listening]))
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}{prefix}/ai"
        finally:
            for each in apps:
                await each.drain(0)
            server.should_exit = True
            await task


def client(url="", user="ada", **options):
    headers = {"x-user": user} if user else {}
    return httpx2.AsyncClient(base_url=url, headers=headers, timeout=30, verify=NO_AUTHORITIES, **options)


async def until(http, run_id, state):
    while (run := (await http.get(f"/runs/{run_id}")).json())["state"] != state:
        await asyncio.sleep(0.02)
    return run


async def test_a_function_is_a_model_of_the_openai_client_and_a_tool_of_mcp():
    async with hosted(asgi(greet, auth=user_of)) as url:
        async with AsyncOpenAI(base_url=f"{url}/v1", api_key="any", default_headers={"x-user": "ada"}) as openai:
            said: Any = [{"role": "user", "content": "Ada"}]
            answer = await openai.chat.completions.create(model="greet", messages=said)
            response = await openai.responses.create(model="greet", input="Bob")
        async with (
            client() as http,
            streamable_http_client(f"{url}/mcp", http_client=http) as streams,
            ClientSession(*streams[:2]) as session,
        ):
            await session.initialize()
            tools = (await session.list_tools()).tools
            result: Any = await session.call_tool("greet", {"goal": "Eve"})
    assert answer.choices[0].message.content == "Hello Ada"
    assert response.output_text == "Hello Bob"
    assert next((tool.name, tool.description) for tool in tools) == ("greet", "Greet someone.")
    assert result.content[0].text == "Hello Eve"


@pytest.mark.parametrize("path", ["/", "/experts", "/runs", "/view/", "/view/data/runs", "/openapi.json", "/v1/models"])
async def test_without_a_user_of_the_host_nothing_is_answered(path):
    async with hosted(asgi(greet, auth=user_of)) as url, client(url, user="") as http:
        assert (await http.get(path)).status_code == 401
        assert (await http.get("/healthz")).status_code == 200
        assert (await http.get(path, headers={"x-user": "ada"})).status_code == 200


async def test_the_host_redirects_to_its_login_and_its_check_may_be_a_coroutine():
    async def signed_in(request):
        await asyncio.sleep(0)
        if "x-user" not in request.headers:
            raise HTTPException(303, headers={"Location": "/login"})
        return User(request.headers["x-user"], own_runs=True)

    async with hosted(asgi(greet, auth=signed_in)) as url, client(url) as http:
        refused = await http.get("/view/", headers={"x-user": ""}, follow_redirects=False)
        begun = await http.post("/runs", json={"expert": "greet", "goal": "Ada", "id": "a"})
        foreign = await http.get("/runs/a", headers={"x-user": "bob"})
        page_of_bob = await http.get("/view/data/runs", headers={"x-user": "bob"})
        drawn_for_bob = await http.get("/view/runs/a/data/picture", headers={"x-user": "bob"})
        anonymous = await httpx2.AsyncClient(verify=NO_AUTHORITIES).get(f"{url}/view/", follow_redirects=False)
    assert refused.status_code == 401 or refused.status_code == 500
    assert (anonymous.status_code, anonymous.headers["location"]) == (303, "/login")
    assert (begun.status_code, begun.json()["user"]) == (202, "ada")
    assert (foreign.status_code, page_of_bob.json(), drawn_for_bob.status_code) == (404, [], 404)


@pytest.mark.parametrize("found", [7, "", "a" * 201, "a\nb", User("")])
async def test_what_is_no_name_of_a_user_admits_nobody(found, caplog):
    async with hosted(asgi(greet, auth=lambda request: found)) as url, client(url) as http:
        reply = await http.get("/runs")
    assert reply.status_code == 500
    assert reply.json()["error"]["code"] == "internal_error"
    assert "expected the name of a user" in caplog.text


@pytest.mark.parametrize(
    ("prefix", "options"),
    [("", {}), ("/shop", {}), ("", {"root_path": "/outer"})],
    ids=["plain", "stripped", "root_path"],
)
async def test_the_pages_work_behind_a_path_and_a_proxy(prefix, options):
    data: Any = None
    async with (
        hosted(asgi(greet, auth=user_of), prefix=prefix, **options) as url,
        client(follow_redirects=True) as http,
    ):
        await http.post(f"{url}/runs", json={"expert": "greet", "goal": "Ada", "id": "a"})
        chat, listed = await http.get(f"{url}/"), await http.get(f"{url}/view")
        drawn = await http.get(f"{url}/view/runs/a/")
        async with http.stream("GET", f"{url}/view/runs/a/data/changes") as stream:
            async for line in stream.aiter_lines():
                if line.startswith("data: ") and (data := json.loads(line[6:]))["ended"]:
                    break
    assert [reply.status_code for reply in (chat, listed, drawn)] == [200, 200, 200]
    assert str(listed.url) == f"{url}/view/"
    assert listed.headers["x-frame-options"] == "DENY"
    assert listed.headers["cache-control"] == "no-store"
    assert (data["run_id"], data["can"]) == ("a", ["answer", "cancel"])


async def test_a_page_of_another_origin_answers_nothing():
    async with hosted(asgi(pay, auth=user_of, origins=["https://ops.example.com"])) as url, client(url) as http:
        await http.post("/runs", json={"expert": "pay", "goal": "9", "id": "p"})
        await until(http, "p", "asks")
        answers = [
            await http.post("/view/runs/p/data/answer", json={"interrupt_id": "pay", "value": True}, headers=headers)
            for headers in (
                {"origin": "https://evil.example"},
                {"origin": "null"},
                {"origin": "https://ops.example.com"},
            )
        ]
    assert [reply.status_code for reply in answers[:2]] == [403, 403]
    assert answers[2].status_code in (200, 409)  # 409 until the page has read the question


@pytest.mark.parametrize("durable", [False, True])
async def test_who_answers_is_recorded_with_the_run(durable, tmp_path):
    db = f"sqlite:///{tmp_path}/runs.db" if durable else None
    async with hosted(asgi(pay, auth=user_of, db=db)) as url, client(url) as ada, client(url, "bob") as bob:
        await ada.post("/runs", json={"expert": "pay", "goal": "9", "id": "p"})
        await until(ada, "p", "asks")
        assert (await bob.post("/runs/p/answers/pay", json={"answer": True})).status_code == 200
        run = await until(ada, "p", "finished")
        events = (await ada.get("/runs/p/events")).text
    resumed = [json.loads(line[6:]) for line in events.splitlines() if line.startswith("data: ") and "Resumed" in line]
    assert (run["user"], run["result"]) == ("ada", "paid")
    assert [event["by"] for event in resumed] == ["bob"]


async def test_an_answer_of_another_process_keeps_its_user(tmp_path):
    flow = Workflow([pay], name="bill", durable=f"sqlite:///{tmp_path}/runs.db")
    async with hosted(asgi(flow, auth=user_of)) as url, client(url) as http:
        await http.post("/runs", json={"expert": "bill", "goal": "9", "id": "p"})
        await until(http, "p", "asks")
    async with hosted(asgi(flow, auth=user_of)) as url, client(url, "bob") as http:
        await until(http, "p", "asks")
        await http.post("/runs/p/answers/pay", json={"answer": False})
        assert (await until(http, "p", "finished"))["result"] == "not paid"
    ledger: Any = flow.ledger
    assert [question.by for question in ledger.store.questions("p")] == ["bob"]
    ledger.close()


async def test_without_its_lifespan_the_application_starts_at_the_first_request_and_says_so(caplog):
    with caplog.at_level(logging.WARNING):
        async with hosted(asgi(greet, auth=user_of), lifespan=False) as url, client(url) as http:
            assert (await http.get("/experts")).status_code == 200
            assert (await http.get("/experts")).status_code == 200
    said = [record.message for record in caplog.records if "FastAPI(lifespan=served.lifespan)" in record.message]
    assert len(said) == 1


async def test_a_start_that_fails_at_the_first_request_is_tried_again_by_the_next(monkeypatch):
    served, taken_up = asgi(greet, auth=user_of), []

    async def take_up():
        taken_up.append(True)
        if len(taken_up) == 1:
            raise OSError("no database")
        return []

    monkeypatch.setattr(served.runs, "take_up", take_up)
    async with hosted(served, lifespan=False) as url, client(url) as http:
        replies = [await http.get("/experts") for _ in range(3)]
    assert [reply.status_code for reply in replies] == [503, 200, 200]
    assert len(taken_up) == 2


@pytest.mark.parametrize(("keys", "said"), [([""], "needs keys"), (["short"], "16 or more"), ([" "], "needs keys")])
def test_a_key_that_is_empty_or_could_be_guessed_is_refused(keys, said):
    with pytest.raises(InputError, match=said):
        asgi(greet, keys=keys)


async def test_a_lifespan_can_be_entered_again():
    served = asgi(greet, auth=user_of)
    for number in range(2):
        async with hosted(served) as url, client(url) as http:
            reply = await http.post("/runs", json={"expert": "greet", "goal": "Ada", "id": f"a{number}"})
            assert reply.status_code == 202


async def test_without_users_and_keys_only_names_of_this_machine_are_answered():
    async with hosted(asgi(greet)) as url, client(url) as http:
        assert (await http.get("/experts")).status_code == 200
        refused = await http.get("/experts", headers={"host": "shop.example.com"})
    assert refused.status_code == 403
    assert "auth=" in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    ("flows", "options", "said"),
    [
        (3, {}, "expected a Workflow, an Expert, an operator or a function"),
        ([greet, greet], {}, "2 experts are called 'greet'"),
        (greet, {"auth": user_of, "keys": [Key("a", digest="0" * 64)]}, "auth and keys are both given"),
        (greet, {"origins": ["https://a.example/path"]}, "expected an origin in lower case"),
    ],
)
def test_what_cannot_be_served_is_an_error(flows, options, said):
    with pytest.raises(InputError, match=said):
        asgi(flows, **options)


def test_workflows_in_different_databases_are_refused(tmp_path):
    flows = [Workflow([greet], name=name, durable=f"sqlite:///{tmp_path}/{name}.db") for name in ("a", "b")]
    with pytest.raises(InputError, match="different databases"):
        asgi(flows)


async def test_the_run_page_continues_a_copy_with_another_output(tmp_path):
    @operator
    def fetch(job: Job) -> list[int]:
        return [1, 2]

    @operator
    def total(fetch: list[int]) -> str:
        return str(sum(fetch))

    flow = Workflow(fetch >> total, name="sum")
    async with hosted(asgi(flow, auth=user_of, db=f"sqlite:///{tmp_path}/runs.db")) as url, client(url) as http:
        await http.post("/runs", json={"expert": "sum", "goal": "x", "id": "s"})
        assert (await until(http, "s", "finished"))["result"] == "3"
        picture = (await http.get("/view/runs/s/data/picture")).json()
        page = "/view/runs/s/data/restart"
        made = await http.post(page, json={"operator": "fetch", "round": 1, "output": [5, 6]})
        again = await until(http, made.json()["run_id"], "finished")
        refused = [
            await http.post(page, json=body)
            for body in ({"operator": "fetch", "output": ["x"]}, {"operator": "ftch"}, {"operator": 3}, {"round": "1"})
        ]
        copies = (await http.get("/view/data/runs")).json()
        followed = f"/view/runs/{made.json()['run_id']}/data/picture"
        while not (note := (await http.get(followed)).json()["note"]):
            await asyncio.sleep(0.02)
    assert picture["can"] == ["answer", "cancel", "restart"]
    assert again["result"] == "11"
    assert [reply.status_code for reply in refused] == [409, 409, 400, 400]
    assert {run["id"] for run in copies} == {"s", "s-2"}
    assert "changed by ada: the output of fetch" in note


async def test_a_run_is_in_the_database_when_its_start_is_answered(tmp_path):
    @operator
    async def wait(job: Job) -> str:
        await asyncio.Event().wait()
        return ""

    app = asgi(Workflow([wait], name="wait"), auth=user_of, db=f"sqlite:///{tmp_path}/runs.db")
    async with hosted(app) as url, client(url) as http:
        with Ledger(f"{tmp_path}/runs.db") as ledger:
            for number in range(5):
                made = await http.post("/runs", json={"expert": "wait", "goal": "x", "id": f"w{number}"})
                assert (made.status_code, ledger.run(f"w{number}").state) == (202, "running")


@operator
async def sign(job: Job, context: RunContext) -> str:
    return "signed" if await context.ask(f"Sign {job.goal}?", bool, answer_by=["ada"]) else "left"


@pytest.mark.parametrize("durable", [False, True])
async def test_on_the_run_page_only_the_people_that_a_question_names_may_answer_it(durable, tmp_path):
    db = f"sqlite:///{tmp_path}/runs.db" if durable else None
    async with hosted(asgi(sign, auth=user_of, db=db)) as url, client(url) as ada, client(url, "bob") as bob:
        await ada.post("/runs", json={"expert": "sign", "goal": "it", "id": "s"})
        await until(ada, "s", "asks")
        page, answer = "/view/runs/s/data/answer", {"interrupt_id": "sign", "value": True}
        refused = await bob.post(page, json=answer)
        unknown = await ada.post(page, json=answer | {"interrupt_id": "sgn"})
        accepted = await ada.post(page, json=answer)
        assert (await until(ada, "s", "finished"))["result"] == "signed"
    assert (refused.status_code, "ada" in refused.json()["error"]) == (403, True)
    assert (unknown.status_code, accepted.status_code) == (404, 200)


async def test_values_that_people_were_asked_about_are_changed_only_by_them(tmp_path):
    @operator
    def close(sign: str) -> str:
        return f"{sign} and closed"

    flow = Workflow(sign >> close, name="lease")
    served = asgi(flow, auth=user_of, db=f"sqlite:///{tmp_path}/runs.db")
    async with hosted(served) as url, client(url) as ada, client(url, "bob") as bob:
        await ada.post("/runs", json={"expert": "lease", "goal": "it", "id": "s"})
        await until(ada, "s", "asks")
        await ada.post("/runs/s/answers/sign", json={"answer": False})
        await until(ada, "s", "finished")
        page = "/view/runs/s/data/restart"
        changes = [{"operator": "sign", "output": "signed"}, {"operator": "close", "output": "x"}]
        refused = [await bob.post(page, json=change) for change in changes]
        again = (await bob.post(page, json={"operator": "sign"})).json()["run_id"]
        assert (await until(bob, again, "asks"))["questions"]
        changed = (await ada.post(page, json=changes[0])).json()["run_id"]
        assert (await until(ada, changed, "finished"))["result"] == "signed and closed"
    assert [reply.status_code for reply in refused] == [403, 403]


async def test_the_run_page_continues_no_copy_with_a_file_of_the_server(tmp_path):
    (tmp_path / "secret.txt").write_text("a file of the server")
    (tmp_path / "flow.yaml").write_text(
        "workflow: papers\nnodes:\n"
        "  1: {type: start, variables: {paper: file, title: string}, defaults: {paper: null}}\n"
        "  2: {type: end, after: 1, outputs: {paper: 1.paper, title: 1.title}}\n"
    )
    served = asgi(load_workflow(tmp_path / "flow.yaml"), auth=user_of, db=f"sqlite:///{tmp_path}/runs.db")
    async with hosted(served) as url, client(url) as http:
        inputs = {"paper": None, "title": "a"}
        await http.post("/runs", json={"expert": "papers", "inputs": inputs, "id": "s"})
        await until(http, "s", "finished")
        page, changed = "/view/runs/s/data/restart", [{"paper": str(tmp_path / "secret.txt")}, {"titel": "b"}]
        refused = [await http.post(page, json={"operator": "2", "inputs": inputs | each}) for each in changed]
        runs = (await http.get("/runs")).json()["runs"]
        made = await http.post(page, json={"operator": "2", "inputs": inputs | {"title": "b"}})
        assert (await until(http, made.json()["run_id"], "finished"))["outputs"] == {"paper": None, "title": "b"}
    assert [reply.status_code for reply in refused] == [400, 409]
    assert [run["id"] for run in runs] == ["s"]


async def test_a_run_in_memory_cannot_be_restarted():
    async with hosted(asgi(greet, auth=user_of)) as url, client(url) as http:
        await http.post("/runs", json={"expert": "greet", "goal": "x", "id": "s"})
        await until(http, "s", "finished")
        assert (await http.post("/view/runs/s/data/restart", json={"operator": "greet"})).status_code == 409


@pytest.mark.slow
async def test_a_run_continues_on_its_page_with_another_output_or_with_other_inputs(tmp_path, chromium):
    @operator
    def fetch(numbers: list[int], more: int) -> list[int]:
        return [*numbers, more]

    @operator
    def total(fetch: list[int]) -> str:
        return f"The sum is {sum(fetch)}."

    served = asgi(Workflow(fetch >> total, name="sum"), db=f"sqlite:///{tmp_path}/runs.db")
    async with hosted(served) as url, client(url) as http, opened(f"{url}/view/", chromium) as tab:
        await http.post("/runs", json={"expert": "sum", "inputs": {"numbers": [1, 2], "more": 3}, "id": "s"})
        await until(http, "s", "finished")

        async def restarted(label, text):
            """The shown value of a field of the form at the first operator, and the result of the copy with another."""
            await tab.goto(f"{url}/view/runs/s/")
            await tab.locator(".card").filter(has_text="fetch").first.click()
            form = tab.locator("#panel .section").filter(has=tab.locator("summary:text-is('Restart from here')"))
            await form.locator("summary").click()
            shown = await form.get_by_label(label).input_value()
            await form.get_by_label(label).fill(text)
            async with tab.expect_navigation():
                await form.get_by_role("button").click()
            copy = tab.url.rstrip("/").rpartition("/")[2]
            return json.loads(shown), (await until(http, copy, "finished"))["result"]

        assert await restarted("Output", "[4, 5]") == ([1, 2, 3], "The sum is 9.")
        inputs = {"numbers": [1, 2], "more": 3}
        assert await restarted("Inputs", json.dumps(inputs | {"more": 30})) == (inputs, "The sum is 33.")
