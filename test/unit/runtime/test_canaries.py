"""No key, header or password in what is printed, logged, written or raised: secrets are planted, and looked for everywhere."""

import base64
import json
import logging
import sys
import traceback

import pytest
from pydantic import SecretStr, ValidationError

from operad.cli import main as cli
from operad.operators.mcp import McpTools, SseServer, StdioServer, StreamableHttpServer
from operad.operators.web.fetch import FetchError, Guard, fetch
from operad.operators.web.search import SerpApi, Tavily
from operad.runtime.models.embedding import EmbeddingModel
from operad.runtime.models.messages import Message
from operad.runtime.models.model import Model
from operad.runtime.testing import Fail, Raw, Say, ScriptedModel
from operad.runtime.values.errors import ModelError, OperadError, ToolError

CANARY = "canary-9f8e7d6c5b4a"
HELLO = [Message.user("hello there")]

EXPERT = """
operators:
  - &greet
    instruction: Greet.
    cache: {path: answers.sqlite}
  - &judge
    instruction: Is it friendly?
experts:
  - profile: {name: Greeter}
    workflow: [[*greet]]
    evaluator: *judge
    max_rounds: 2
env: {insights: insights.sqlite}
"""


class Place:
    """Where a flow runs: what it says, logs and writes."""

    def __init__(self, folder, caplog, capsys):
        self.folder, self._caplog, self._capsys = folder, caplog, capsys
        caplog.set_level(logging.DEBUG)
        self.said = ""

    def hold(self, error):
        """Keep an error as a traceback shows it, with all its causes."""
        self.said += "".join(traceback.format_exception(error))

    def leaks(self, *more):
        """The lines with a canary in all that there is, and in these texts."""
        captured = self._capsys.readouterr()
        written = b"".join(path.read_bytes() for path in self.folder.rglob("*") if path.is_file())
        # httpcore logs the headers of answers, in which a server may say what it likes.
        logged = [
            f"{record.getMessage()} {record.exc_text}"
            for record in self._caplog.records
            if not record.name.startswith("httpcore")
        ]
        text = "\n".join([captured.out, captured.err, written.decode(errors="replace"), *logged, self.said, *more])
        assert len(text) > 100
        return [line for line in text.splitlines() if CANARY in line]


@pytest.fixture
def place(tmp_path, monkeypatch, caplog, capsys):
    """An empty folder, with the canary as the key that the environment gives."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    for name in ("OPENAI_BASE_URL", "OPERAD_MODEL", "SERPAPI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return Place(tmp_path, caplog, capsys)


@pytest.fixture
def run(place, monkeypatch):
    """Runs the command: its exit status."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["operad", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        return exit_.value.code

    return run


EVENTS = "text/event-stream"
REPEATING = {
    "refused": Fail(401, f"Incorrect API key provided: {CANARY}."),
    "in a header": Fail(403, "no", headers={"X-Key": CANARY}),
    "deep in a body": Fail(422, "no", error={"detail": [{"input": CANARY}], "code": CANARY, "param": CANARY}),
    "not JSON": Raw(f"data: {CANARY}\n\n".encode(), EVENTS),
    "not text": Raw(f"data: {CANARY}".encode() + b"\xff\n\n", EVENTS),
    "a page": Raw(f"<html>{CANARY}</html>".encode()),
    "in mid-answer": Raw(f'data: {{"error": {{"message": "{CANARY}", "more": ["{CANARY}"]}}}}\n\n'.encode(), EVENTS),
    "for a reason": Raw(
        f'data: {{"choices": [{{"delta": {{}}, "finish_reason": ["{CANARY}"]}}]}}\n\n'.encode(), EVENTS
    ),
    "for a number": Raw(
        f'data: {{"choices": [{{"delta": {{}}, "finish_reason": "stop"}}], "usage": {{"prompt_tokens": "{CANARY}"}}}}\n\n'.encode(),
        EVENTS,
    ),
}


@pytest.mark.parametrize("step", REPEATING.values(), ids=REPEATING)
def test_a_key_that_an_endpoint_repeats_is_nowhere(place, run, step):
    (place.folder / "expert.yaml").write_text(EXPERT)
    with ScriptedModel(lambda _: step) as endpoint:  # some of the failures are retried
        status = run(
            "run", "expert.yaml", "--job", "Go.", "--base-url", endpoint.base_url, "--events", "run.jsonl", "--json"
        )
    assert status == 2
    assert "RunFailed" in (place.folder / "run.jsonl").read_text()
    assert place.leaks() == []


@pytest.mark.parametrize("step", REPEATING.values(), ids=REPEATING)
async def test_a_key_that_an_endpoint_repeats_is_in_no_traceback(place, step):
    async with ScriptedModel([step]) as endpoint:
        model = endpoint.model.model_copy(update={"api_key": SecretStr(CANARY)})
        with pytest.raises(ModelError) as raised:
            await model.complete(HELLO)
    place.hold(raised.value)
    assert place.leaks(repr(model), model.model_dump_json(), json.dumps(model.fingerprint())) == []


def test_a_key_that_works_is_in_no_result_event_cache_or_insight(place, run):
    (place.folder / "expert.yaml").write_text(EXPERT)
    bad = {"evaluation": "cold", "status": "EXECUTION_ERROR", "lesson": "be warm", "blame": ["greet"], "score": 3}
    good = {**bad, "status": "SUCCESS", "lesson": "", "blame": [], "score": 9}
    script = [Say("Hm."), Say(json.dumps(bad)), Say("Hello!"), Say(json.dumps(good))]
    with ScriptedModel(script, wants_key=CANARY) as endpoint:
        status = run(
            "run", "expert.yaml", "--job", "Go.", "--base-url", endpoint.base_url, "--events", "run.jsonl", "--json"
        )
    assert status == 0
    written = {path.name for path in place.folder.iterdir()}
    assert {"answers.sqlite", "insights.sqlite", "run.jsonl"} <= written
    assert place.leaks() == []


def test_a_key_is_in_no_workflow_that_is_made(place, run, stages, conversation):
    [first, *_] = conversation("paper")
    with ScriptedModel(stages(first), wants_key=CANARY) as endpoint:
        status = run("generate", first["says"], "-o", "flow.operad.yaml", "--explain", "--base-url", endpoint.base_url)
    assert status == 0
    assert (place.folder / "flow.operad.yaml").stat().st_size
    assert place.leaks() == []


def test_a_password_in_an_endpoints_address_reaches_the_endpoint_and_nothing_else(place, run, monkeypatch):
    (place.folder / "expert.yaml").write_text(EXPERT)
    seen = []
    choose = ScriptedModel._choose
    monkeypatch.setattr(
        ScriptedModel,
        "_choose",
        lambda self, wire, turn, key, request: (seen.append(key), choose(self, wire, turn, key, request))[1],
    )
    good = {"evaluation": "warm", "status": "SUCCESS", "lesson": "", "blame": [], "score": 9}
    with ScriptedModel([Say("Hello!"), Say(json.dumps(good))]) as endpoint:
        address = endpoint.base_url.replace("http://", f"http://ada:{CANARY}%2F@")
        status = run("run", "expert.yaml", "--job", "Go.", "--base-url", address, "--events", "run.jsonl", "--json")
    assert status == 0
    assert set(seen) == {"Basic " + base64.b64encode(f"ada:{CANARY}/".encode()).decode()}
    assert place.leaks() == []


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"base_url": f"http://ada:{CANARY}@127.0.0.1:9/v1"}, "m at http://127.0.0.1:9/v1: cannot connect"),
        (
            {"base_url": f"http://ada:{CANARY}/x@127.0.0.1:9/v1"},
            "m at http://127.0.0.1:9/v1: this address cannot be used",
        ),
        (
            {"base_url": f"http://ada:{CANARY}@127.0.0.1:99999/v1"},
            "m at http://127.0.0.1:99999/v1: this address cannot",
        ),
        (
            {"base_url": f"http://127.0.0.1:9/v1?key={CANARY}"},
            "m at http://127.0.0.1:9/v1: this address cannot be used",
        ),
        ({"base_url": f"ada:{CANARY}@127.0.0.1"}, "m at 127.0.0.1: this address cannot be used"),
        ({"base_url": f"http://[{CANARY}"}, None),
        ({"api_key": SecretStr(f"{CANARY}\n")}, "the API key contains invalid characters, perhaps a line break"),
        ({"api_key": SecretStr(f"{CANARY}\N{EN DASH}")}, "the API key contains invalid characters"),
    ],
)
async def test_an_address_or_a_key_that_cannot_be_used_is_not_shown(place, changes, why):
    model = Model(**{"name": "m", "base_url": "http://127.0.0.1:9/v1", "max_retries": 0, **changes})
    with pytest.raises(ModelError) as raised:
        await model.complete(HELLO)
    if why is None:  # nothing in it says where a password ends
        assert "this address cannot be used" in str(raised.value)
        return
    assert why in str(raised.value)
    place.hold(raised.value)
    assert place.leaks(repr(model)) == []


# MCP servers

PRINTS_ALL = "import os, sys; print(*sys.argv, *os.environ.values(), sep='\\n', file=sys.stderr); sys.exit(1)"

SPEAKS = """
import json, os, sys
secret = os.environ["A_TOKEN"]
def answer(line):
    asked = json.loads(line)
    if asked.get("method") == "initialize":
        version = asked["params"]["protocolVersion"]
        return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}}
    if asked.get("method") == "tools/list" and sys.argv[1] == "list":
        return {"error": {"code": 1, "message": "bad token " + secret}}
    if asked.get("method") == "tools/list":
        return {"result": {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}}
    if sys.argv[1] == "error":
        return {"error": {"code": 1, "message": "bad token " + secret}}
    if sys.argv[1] == "wrong":
        return {"result": {"content": [{"type": "film", "text": secret}]}}
    return {"result": {"content": [{"type": "text", "text": secret}], "isError": sys.argv[1] == "failed"}}
for line in sys.stdin:
    if "id" in json.loads(line):
        print(json.dumps({"jsonrpc": "2.0", "id": json.loads(line)["id"], **answer(line)}), flush=True)
"""


async def test_secrets_on_a_servers_command_line_and_in_its_environment_are_nowhere(place):
    args = (
        "-c", PRINTS_ALL, f"postgresql://ada:{CANARY}@db/x", "--api-key", CANARY, f"--token={CANARY}",
        "--header", f"Authorization: Bearer {CANARY}", f"https://h/sse?api_key={CANARY}&page=1", "-e", f"DB_PASSWORD={CANARY}",
    )  # fmt: skip
    env = {"A_TOKEN": CANARY, "DATABASE": f"postgres://ada:{CANARY}@db/x"}
    tools = McpTools(name="Demo", server=StdioServer(command=sys.executable, args=args, env=env))
    with pytest.raises(ToolError) as raised:
        async with tools.open():
            pass
    shown = str(raised.value)
    assert (
        "'postgresql://[hidden]@db/x' --api-key '[hidden]' '--token=[hidden]' --header 'Authorization: [hidden]'"
        in shown
    )
    assert "'https://h/sse?api_key=[hidden]&page=1' -e 'DB_PASSWORD=[hidden]'" in shown
    place.hold(raised.value)
    assert place.leaks(repr(tools)) == []


@pytest.mark.parametrize("how", ["list", "error", "wrong", "failed"])
async def test_a_secret_that_a_server_repeats_in_an_error_is_nowhere(place, how):
    server = StdioServer(command=sys.executable, args=("-c", SPEAKS, how), env={"A_TOKEN": CANARY})
    with pytest.raises(ToolError) as raised:
        async with McpTools(name="Demo", server=server).open() as group:
            await group.tools[0].call({})
    place.hold(raised.value)
    assert place.leaks() == []


async def test_a_secret_that_a_server_repeats_in_a_result_is_hidden():
    server = StdioServer(command=sys.executable, args=("-c", SPEAKS, "result"), env={"A_TOKEN": CANARY})
    async with McpTools(name="Demo", server=server).open() as group:
        assert await group.tools[0].call({}) == "[hidden]"


@pytest.mark.parametrize("kind", [StreamableHttpServer, SseServer])
async def test_headers_and_passwords_for_a_server_reach_it_and_nothing_else(place, web, kind):
    address = await web.serve(lambda request: web.reply(json.dumps(request.headers).encode(), 401))
    url = address.replace("http://", f"http://ada:{CANARY}@")
    tools = McpTools(name="Demo", server=kind(url=url, headers={"X-Api-Key": CANARY}))
    with pytest.raises(ToolError) as raised:
        async with tools.open():
            pass
    basic = "Basic " + base64.b64encode(f"ada:{CANARY}".encode()).decode()
    assert {(r.headers["authorization"], r.headers["x-api-key"]) for r in web.requests} == {(basic, CANARY)}
    place.hold(raised.value)
    assert place.leaks(repr(tools)) == []


@pytest.mark.parametrize(
    "server",
    [
        {"transport_type": "SSE", "url": "http://h", "headers": [CANARY]},
        {"transport_type": "SSE", "url": f"h:{CANARY}@"},
        {"transport_type": "STDIO", "command": "x", "env": CANARY},
        {"transport_type": "STDIO", "command": "x", "env": {"A": [CANARY]}},
    ],
)
def test_a_faulty_server_in_a_file_is_said_without_its_secrets(place, run, server):
    tool = {"name": "T", "type": "MCP", "mcp_transport_config": server}
    expert = {"tools": [tool], "operators": [{"instruction": "x", "name": "o"}]}
    file = place.folder / "expert.yaml"
    file.write_text(json.dumps({**expert, "experts": [{"profile": {"name": "E"}, "workflow": [["o"]]}]}))
    assert run("run", "expert.yaml", "--job", "Go.") == 2
    file.unlink()
    with pytest.raises(ValidationError) as raised:
        (SseServer if "url" in server else StdioServer).model_validate(server)
    place.hold(raised.value)
    assert place.leaks("." * 100) == []


@pytest.mark.parametrize(
    "section",
    [
        {"model": {"api_key_env": CANARY}},
        {"services": {"search": {"api_key_env": CANARY}}},
        {"model": {"base_url": [CANARY]}},
    ],
)
def test_a_key_where_the_name_of_a_variable_belongs_is_not_shown(place, run, section):
    expert = {
        "operators": [{"instruction": "x", "name": "o"}],
        "experts": [{"profile": {"name": "E"}, "workflow": [["o"]]}],
    }
    file = place.folder / "expert.yaml"
    file.write_text(json.dumps({**expert, **section}))
    assert run("run", "expert.yaml", "--job", "Go.") == 2
    file.unlink()
    assert place.leaks("." * 100) == []


# The web


@pytest.mark.parametrize("said", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 So\r\ncontent-encoding: gzip\r\n\r\nx"])
async def test_a_header_for_a_page_that_cannot_be_fetched_is_nowhere(place, web, said):
    address = await web.serve(said)
    guard = Guard(allowed_hosts=(address.partition("://")[2],), timeout=20)
    with pytest.raises(FetchError) as raised:
        await fetch(f"{address}/x?key={CANARY}", headers={"Authorization": f"Bearer {CANARY}"}, guard=guard)
    assert web.requests[0].headers["authorization"] == f"Bearer {CANARY}"
    place.hold(raised.value)
    assert place.leaks() == []


@pytest.mark.parametrize(
    "kind", [EmbeddingModel, McpTools, Model, SerpApi, SseServer, StdioServer, StreamableHttpServer, Tavily]
)
def test_a_key_in_a_wrong_argument_is_in_no_error(kind):
    told: list[str] = []
    for field in kind.model_fields:
        for value in (CANARY, [CANARY], {"key": [CANARY]}):
            try:
                kind(**{field: value})
            except OperadError as error:
                told.append(str(error))
    assert len(told) > 5
    assert [text for text in told if CANARY in text] == []
