"""Internal errors: clients get the type of an exception and the id of the run, the log and the run page its text."""

import asyncio
import json
import re
from contextlib import asynccontextmanager
from itertools import product

import httpx
import pytest
from serving import Code, offered

from operad import Budget, FaultError, InputError, Job, Policy, Retry, RunContext, Workflow, operator, tool
from operad.operators import Operator
from operad.runtime.durable import Ledger
from operad.runtime.policies.policy import ErrorValues
from operad.runtime.testing import CallTools, Say, ScriptedModel
from operad.server import asgi
from operad.server.api.app import Serving
from operad.server.api.experts import Offer
from operad.server.api.redaction import Redaction
from operad.server.http.keys import Key, digest

CANARY = "s3cr3t"
ERROR = f'connect to "postgresql://app:{CANARY}@db/é"\n  as {CANARY}'
ADMIN, WEB = "the-key-of-admin-0123456789", "the-key-of-web-0123456789"
KEYS = (Key.of(ADMIN, "admin"), Key("web", own_runs=True, digest=digest(WEB.encode())))


def connect() -> str:
    raise RuntimeError(ERROR)


@operator
def fails(job: Job) -> str:
    return connect()


@operator(policy=Policy(retry=Retry(2, 0.001, on=RuntimeError)))
def retried(job: Job, context: RunContext) -> str:
    return connect() if context.attempt == 1 else "said"


@operator
def corrected(job: Job, context: RunContext) -> str:
    return f"heard: {context.lesson}" if context.lesson else connect()


@operator
def worse(job: Job, context: RunContext) -> str:
    return connect() if context.lesson else "said"


def judge(worse: str) -> None:
    raise FaultError("It is too short.", lesson="Write more.", blame=["worse"])


@operator(policy=Policy(fallback=ErrorValues()))
def valued(job: Job) -> str:
    return connect()


@operator
def items(job: Job) -> list[int]:
    return [1, 2]


def each(item: int) -> str:
    return connect() if item == 2 else "said"


@tool
def look(topic: str) -> str:
    """Look a topic up."""
    return connect()


def mapped():
    flow = Workflow(items, name="mapped")
    flow.map(each, "items", on_error="keep")
    return flow


def flows(model):
    """Workflows in which an exception is raised, one for each way of its text to the client."""
    quoting = Operator("Look it up.", id="quoting", tools=[look])
    return [
        Workflow(fails, name="failing"),
        Workflow(Workflow(fails, name="inner"), name="nested"),
        Workflow(retried, name="retried"),
        Workflow(corrected, name="corrected", max_rounds=2),
        Workflow(worse, name="worse", evaluator=judge, max_rounds=2),
        Workflow(valued, name="valued"),
        mapped(),
        Workflow(quoting, name="quoting", model=model),
    ]


def reply(request):
    """Call the tool; then repeat its error."""
    if request["messages"][-1]["role"] == "tool":
        return Say(f"I looked. RuntimeError: {ERROR}")
    return CallTools({"look": {"topic": "tea"}}, text="I look.")


# The protocols


async def chat(http, name, **options):
    turns = [{"role": "user", "content": "tea"}]
    return await http.post("/v1/chat/completions", json={"model": name, "messages": turns, **options})


async def chat_stream(http, name):
    return await chat(http, name, stream=True)


async def response(http, name, **options):
    return await http.post("/v1/responses", json={"model": name, "input": "tea", **options})


async def response_stream(http, name):
    return await response(http, name, stream=True)


async def stored_response(http, name):
    run_id = await begun(http, name)
    return await http.get(f"/v1/responses/resp_{run_id}")


async def begun(http, name):
    """Begin a run, wait for its end, and return its id."""
    run_id = (await http.post("/runs", json={"expert": name, "goal": "tea"})).json()["id"]
    await http.get(f"/runs/{run_id}/events")
    return run_id


async def run(http, name):
    return await http.get(f"/runs/{await begun(http, name)}")


async def run_events(http, name):
    return await http.get(f"/runs/{await begun(http, name)}/events")


async def run_list(http, name):
    await begun(http, name)
    return await http.get("/runs")


async def inbox(http, name):
    await begun(http, name)
    return await http.get("/questions")


async def ag_ui(http, name):
    message = {"id": "1", "role": "user", "content": "tea"}
    given = {"threadId": "t", "runId": "r", "state": {}, "tools": [], "context": [], "forwardedProps": {}}
    return await http.post(f"/ag-ui/{name}", json={**given, "messages": [message]})


async def vercel_ai(http, name):
    message = {"role": "user", "parts": [{"type": "text", "text": "tea"}]}
    return await http.post(f"/vercel-ai/{name}", json={"messages": [message]})


async def a2a(http, name, method="SendMessage", **params):
    params = params or {"message": {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "tea"}]}}
    call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return await http.post(f"/a2a/{name}", json=call, headers={"A2A-Version": "1.0"})


async def a2a_stream(http, name):
    return await a2a(http, name, "SendStreamingMessage")


async def a2a_task(http, name):
    return await a2a(http, name, "GetTask", id=await begun(http, name))


async def a2a_tasks(http, name):
    await begun(http, name)
    return await a2a(http, name, "ListTasks", pageSize=10)


async def mcp(http, name):
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    accept = {"Accept": "application/json, text/event-stream"}
    session = (await http.post("/mcp", json=begin, headers=accept)).headers["mcp-session-id"]
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": name, "arguments": {"goal": "tea"}}}
    return await http.post("/mcp", json=call, headers={**accept, "Mcp-Session-Id": session})


async def page(http, name):
    return await shown_on_page(http, await begun(http, name))


async def shown_on_page(http, run_id):
    """Return the data of a run's page once it shows the end of the run."""
    while not (await http.get(f"/view/runs/{run_id}/data/picture")).json()["ended"]:
        await asyncio.sleep(0.01)
    return await http.get(f"/view/runs/{run_id}/data/details")


async def page_list(http, name):
    await begun(http, name)
    return await http.get("/view/")


PROTOCOLS = (
    chat, chat_stream, response, response_stream, stored_response, run, run_events, run_list, inbox, ag_ui, vercel_ai,
    a2a, a2a_stream, a2a_task, a2a_tasks, mcp, page, page_list,
)  # fmt: skip


@asynccontextmanager
async def client(app, key=WEB):
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers, timeout=60) as http:
        yield http


async def test_no_protocol_tells_the_text_of_an_exception_and_the_log_has_it_under_the_id_of_the_run(caplog):
    with ScriptedModel(reply) as model:
        served = asgi(flows(model.model), keys=KEYS)
        async with served.lifespan(), client(served) as http:
            for protocol, name in product(PROTOCOLS, served.runs.offers):
                caplog.clear()
                before = {each.id for each in served.runs.listed()}
                said = await protocol(http, name)
                case = f"{protocol.__name__} {name}: {said.text[-3000:]}"
                assert said.status_code in (200, 202, 502), case
                assert CANARY not in said.text, case
                (run_id,) = {each.id for each in served.runs.listed()} - before
                logged = [each.getMessage() for each in caplog.records if CANARY in each.getMessage()]
                assert [run_id in text for text in logged] == [True] * len(logged) != [], case


@pytest.mark.parametrize(("key", "shown"), [(ADMIN, True), (WEB, False)])
@pytest.mark.parametrize("stored", [False, True])
async def test_the_run_page_shows_the_text_to_those_who_may_see_all_runs(key, shown, stored, tmp_path):
    served = asgi(Workflow(fails, name="failing"), keys=KEYS, db=tmp_path / "runs.db" if stored else None)
    async with served.lifespan(), client(served) as http, client(served, key) as reader:
        run_id = await begun(http, "failing")
        told = (await shown_on_page(reader, run_id)).text
    assert (CANARY in told, "internal error" in told) == (shown, not shown)


async def test_another_server_tells_no_text_of_a_stored_run_and_the_database_has_it(tmp_path):
    def server():
        return asgi([Workflow(fails, name="failing"), mapped()], keys=KEYS, db=tmp_path / "runs.db")

    async with (served := server()).lifespan(), client(served) as http:
        ids = [await begun(http, name) for name in served.runs.offers]
    async with (other := server()).lifespan(), client(other) as http:
        told = [(await http.get(f"/runs/{run_id}")).text for run_id in ids]
        lists = [(await http.get(path)).text for path in ("/runs", "/view/", "/view/data/runs")]
    assert [CANARY in text for text in (*told, *lists)] == [False] * 5
    assert [
        f"internal error, described in the log of the server under run {each}" in told[n] for n, each in enumerate(ids)
    ] == [True, True]
    with Ledger(tmp_path / "runs.db") as ledger:
        assert CANARY in ledger.run(ids[0]).error
        assert CANARY in str(ledger.result(ids[1]))


async def test_a_server_without_keys_tells_its_machine_all():
    served = asgi(Workflow(fails, name="failing"))
    async with served.lifespan(), client(served, "") as http:
        assert CANARY in (await chat(http, "failing")).text
        assert CANARY in (await run_events(http, "failing")).text


async def bad_input(job):
    raise InputError("give a number") from KeyError(CANARY)


async def too_slow(job):
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("flow", "told"),
    [
        (Workflow(operator(bad_input), name="own"), "give a number"),
        (Workflow(operator(too_slow, policy=Policy(timeout=0.01)), name="own"), "0.01 s"),
        (Workflow(worse, name="own", evaluator=judge, max_rounds=1), "Write more."),
        (Workflow(operator(too_slow), name="own", budget=Budget(seconds=0.01)), "budget"),
    ],
)
async def test_errors_that_operad_words_reach_clients(flow, told):
    served = asgi(flow, keys=KEYS)
    async with served.lifespan(), client(served) as http:
        for protocol in (chat, response, run, run_events, ag_ui, vercel_ai, a2a, mcp):
            said = (await protocol(http, "own")).text
            assert told in said
            assert CANARY not in said


class Broken(Offer):
    """Offer that fails before a run starts."""

    def job(self, *args, **options):
        raise RuntimeError(ERROR)


@pytest.mark.parametrize("protocol", [chat, response, ag_ui, vercel_ai, a2a, a2a_stream, mcp])
async def test_an_error_outside_of_runs_is_told_by_an_id_of_the_log(protocol, caplog):
    whole = offered(Code(bad_input), name="own")
    served = Serving({"own": Broken(whole.agent, whole.source)}, keys=KEYS)
    async with served.lifespan(), client(served) as http:
        said = (await protocol(http, "own")).text
    assert "RuntimeError: internal error" in said
    assert CANARY not in said
    (error_id,) = re.findall(r"under error ([\w-]+)", said)
    assert any(error_id in each.getMessage() and each.exc_info for each in caplog.records)


LONG = "RuntimeError: " + "a" * 100


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x failed: RuntimeError: no\nand more", "x failed: NOTE\nand more"),
        (f"{LONG}one, {LONG}two", "NOTE, NOTE"),
        (LONG[:90] + "…", "NOTE…"),
        (json.dumps({"error": 'RuntimeError: a "b"\né'}), '{"error": "NOTE"}'),
        (repr('RuntimeError: a "b"\né'), "'NOTE'"),
        ("RuntimeError: of others", "RuntimeError: of others"),
        ("KeyError: no", "KeyError: no"),
        (LONG[:70], LONG[:70]),
    ],
)
def test_an_internal_text_is_found_where_it_is_cut_or_escaped(text, expected):
    redaction = Redaction("7", redacts=True)
    for internal in ("RuntimeError: no", f"{LONG}one", f"{LONG}two", 'RuntimeError: a "b"\né'):
        redaction.learn(internal)
    note = "RuntimeError: internal error, described in the log of the server under run 7"
    assert redaction.of({"a": [(text,)]}) == {"a": [(expected.replace("NOTE", note),)]}


@operator
async def asking(job: Job, context: RunContext) -> str:
    if not context.lesson:
        return connect()
    await context.ask("Go on?", bool)
    return f"heard: {context.lesson}"


async def test_a_run_that_continues_in_another_server_tells_no_text_of_its_earlier_rounds(tmp_path):
    def server():
        return asgi(Workflow(asking, name="asking", max_rounds=2), keys=KEYS, db=tmp_path / "runs.db")

    async def until(http, state):
        while (run := (await http.get("/runs/monday")).json())["state"] != state:
            await asyncio.sleep(0.05)
        return run

    async with (served := server()).lifespan(), client(served) as http:
        await http.post("/runs", json={"expert": "asking", "goal": "tea", "id": "monday"})
        (question,) = (await until(http, "asks"))["questions"]
    async with (served := server()).lifespan(), client(served) as http:
        await until(http, "asks")
        await http.post(f"/runs/monday/answers/{question['id'].replace('#', '%23')}", json={"answer": True})
        told = [json.dumps(await until(http, "finished")), (await http.get("/runs/monday/events")).text]
    assert "heard: asking failed: RuntimeError: internal error" in told[0]
    assert [CANARY in text for text in told] == [False, False]
