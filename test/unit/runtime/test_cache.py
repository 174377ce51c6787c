import asyncio
import functools
import json
import os
import sqlite3
import subprocess
import sys
import threading
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from pydantic import BaseModel, SecretStr

from operad import Map, Policy, Workflow
from operad.operators import Operator, OperatorConfig
from operad.operators.mcp import McpTools, StdioServer, StreamableHttpServer
from operad.runtime import (
    Action,
    DualModelReasoner,
    Example,
    Job,
    Limits,
    Model,
    MonoModelReasoner,
    Task,
    Tool,
    ToolGroup,
)
from operad.runtime import WorkflowMessage as Message
from operad.runtime.knowledge.knowledge import Knowledge
from operad.runtime.models.embedded import EmbeddedModel
from operad.runtime.policies.cache import Cache, cache_key
from operad.runtime.testing import ScriptedReasoner
from operad.runtime.tools.toolkit import Toolkit
from operad.runtime.values.errors import InputError, InvalidError
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.fingerprint import fingerprint
from operad.runtime.values.message import SubJob, Usage, WorkflowStatus

FULL = Message(
    scratchpad="said",
    status=WorkflowStatus.INPUT_DATA_ERROR,
    outputs={"a": [1, 1.0, True, None, "ü", {"b": []}]},
    blame=("x",),
    usage=Usage(calls=1, seconds=0.1),
    parts=(Message(scratchpad="part"),),
)


@pytest.fixture
def clock(monkeypatch):
    """The clock on the wall, which stands at the seconds that it holds."""
    clock = [1_000_000.0]
    monkeypatch.setattr("operad.runtime.policies.cache.time.time", lambda: clock[0])
    return clock


@pytest.fixture(params=["memory", "file"])
def make(request, tmp_path):
    made = []

    def make(**options):
        made.append(Cache(None if request.param == "memory" else tmp_path / "cache.sqlite", **options))
        return made[-1]

    yield make
    for cache in made:
        cache.close()


async def test_what_was_put_is_found_and_nothing_else(make):
    cache = make()
    assert await cache.get("a") is None
    assert await cache.put("a", FULL)
    assert repr(await cache.get("a")) == repr(FULL)
    assert await cache.get("b") is None


async def test_a_message_replaces_the_one_before_it(make):
    cache = make()
    await cache.put("a", Message(scratchpad="old"))
    await cache.put("a", Message(scratchpad="new"))
    assert (await cache.get("a")).scratchpad == "new"


async def test_a_cleared_cache_is_empty_and_can_be_used_again(make):
    cache = make()
    await cache.put("k", Message(scratchpad="one"))
    cache.clear()
    assert await cache.get("k") is None
    await cache.put("k", Message(scratchpad="two"))
    found = await cache.get("k")
    assert found
    assert found.scratchpad == "two"


async def test_memory_gives_back_values_that_json_lacks_as_copies():
    cache, message = Cache(), Message(outputs={"any": {1, 2}})
    assert await cache.put("a", message)
    message.outputs["any"].add(3)
    found = await cache.get("a")
    assert found is not None
    assert found.outputs == {"any": {1, 2}}
    found.outputs["any"].add(3)
    assert await cache.get("a") == Message(outputs={"any": {1, 2}})


async def test_a_message_is_forgotten_when_it_is_too_old(make, clock):
    cache = make(max_age=timedelta(minutes=1))
    await cache.put("a", FULL)
    clock[0] += 60
    assert await cache.get("a") == FULL
    clock[0] += 1
    assert await cache.get("a") is None
    await cache.put("a", FULL)
    assert await cache.get("a") == FULL


async def test_a_file_is_rid_of_messages_that_are_too_old(tmp_path, clock):
    cache = Cache(tmp_path / "c", max_age=60, max_entries=16)
    await cache.put("old", FULL)
    clock[0] += 61
    await cache.put("new", FULL)
    cache.close()
    assert rows(tmp_path / "c") == ["new"]


async def test_memory_forgets_what_was_not_used_for_the_longest_time():
    cache = Cache(max_entries=2)
    await cache.put("a", FULL)
    await cache.put("b", FULL)
    await cache.get("a")
    await cache.put("c", FULL)
    assert [await cache.get(key) is not None for key in "abc"] == [True, False, True]


async def test_a_file_forgets_the_oldest(tmp_path, clock):
    cache = Cache(tmp_path / "c", max_entries=2)
    for key in "abcad":
        clock[0] += 1
        await cache.put(key, FULL)
    cache.close()
    assert rows(tmp_path / "c") == ["a", "d"]


async def test_a_file_is_never_more_than_a_sixteenth_too_long(tmp_path, clock):
    cache = Cache(tmp_path / "c", max_entries=32)
    for number in range(100):
        clock[0] += 1
        await cache.put(f"{number:02}", FULL)
    cache.close()
    assert rows(tmp_path / "c")[-1] == "99"
    assert 32 <= len(rows(tmp_path / "c")) <= 34


async def test_a_file_outlives_the_cache_and_the_cache_its_closing(tmp_path):
    cache = Cache(tmp_path / "c")
    await cache.put("a", FULL)
    cache.close()
    assert await cache.get("a") == FULL
    cache.close()
    other = Cache(str(tmp_path / "c"))
    assert await other.get("a") == FULL
    other.close()


@pytest.mark.parametrize(
    "value",
    [
        object(),
        (1, 2),
        {1: "a"},
        {"a"},
        b"bytes",
        float("nan"),
        datetime(2024, 1, 1),
        Path("a"),
        WorkflowStatus.SUCCESS,
        "\ud800",
        functools.reduce(lambda inner, _: [inner], range(1000), []),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_a_file_does_not_keep_what_it_could_not_give_back(tmp_path, value):
    cache = Cache(tmp_path / "c")
    assert not await cache.put("a", Message(outputs={"value": value}))
    assert not await cache.put("a", Message(parts=(Message(outputs={"value": value}),)))
    assert await cache.get("a") is None
    cache.close()


async def test_an_entry_that_is_no_message_any_more_is_absent_until_it_is_replaced(tmp_path):
    cache = Cache(tmp_path / "c")
    await cache.put("a", FULL)
    cache.close()
    with_connection(tmp_path / "c", "UPDATE answers SET message = '{\"unknown\": 1}'")
    assert await cache.get("a") is None
    await cache.put("a", FULL)
    assert await cache.get("a") == FULL
    cache.close()


@pytest.mark.skipif(sys.platform == "win32", reason="there an open file cannot be taken away")
async def test_a_file_that_is_deleted_or_replaced_while_it_is_open_is_noticed(tmp_path):
    cache, other = Cache(tmp_path / "c"), Cache(tmp_path / "other")
    await cache.put("k", FULL)
    await other.put("theirs", FULL)
    other.close()
    (tmp_path / "c").unlink()
    assert await cache.get("k") is None
    await cache.put("later", FULL)
    again = Cache(tmp_path / "c")
    assert await again.get("later") == FULL
    again.close()
    os.replace(tmp_path / "other", tmp_path / "c")
    assert [await cache.get(key) for key in ("later", "theirs")] == [None, FULL]
    cache.close()


def other_sqlite(path):
    with_connection(path, "CREATE TABLE theirs (x)")


def other_version(path):
    asyncio.run(Cache(path).put("a", FULL))
    with_connection(path, "PRAGMA user_version = 99")


def damaged(path):
    async def fill():
        cache = Cache(path)
        for number in range(50):
            await cache.put(f"{number}", Message(scratchpad="x" * 1000))
        cache.close()

    asyncio.run(fill())
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda path: path.write_text("not a database, but a long text " * 100), "not a database; the file was not"),
        (lambda path: path.write_text("short"), "not a database; the file was not changed: move it away, or name an"),
        (other_sqlite, "is an SQLite file, but not a cache of operad; name another file"),
        (other_version, r"a cache of another version of operad \(format 99, not 1\); delete it"),
        (damaged, "malformed; the file was not changed"),
        (Path.mkdir, "unable to open database file; check that its folder exists"),
    ],
    ids=["text", "short", "other", "version", "damaged", "folder"],
)
def test_a_file_that_cannot_be_used_is_an_error_and_is_left_as_it_is(tmp_path, spoil, said):
    path = tmp_path / "c"
    spoil(path)
    before = path.read_bytes() if path.is_file() else None
    cache = Cache(path)

    async def use():
        await cache.put("25", FULL)
        await cache.get("25")

    with pytest.raises(InputError, match=said) as error:
        asyncio.run(use())
    assert str(path) in str(error.value)
    cache.close()
    assert (path.read_bytes() if path.is_file() else None) == before


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(InputError, match="check that its folder exists"):
        asyncio.run(Cache(tmp_path / "no" / "c").get("a"))


async def test_who_cannot_write_in_time_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("operad.runtime.values.sqlite_file.BUSY_SECONDS", 0.01)
    cache = Cache(tmp_path / "c")
    await cache.put("a", FULL)
    other = sqlite3.connect(tmp_path / "c", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(InputError, match=r"database is locked; .*other programs that use it"):
        await cache.put("b", FULL)
    assert await cache.get("a") == FULL
    other.close()
    assert await cache.put("b", FULL)
    cache.close()


def test_threads_with_loops_of_their_own_share_a_cache(make):
    cache = make()

    async def work(name):
        for number in range(20):
            await cache.put(f"{name}{number}", Message(scratchpad=f"{name}{number}"))

    threads = [threading.Thread(target=asyncio.run, args=(work(name),)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [asyncio.run(cache.get(f"{name}{number}")) for name in "ab" for number in range(20)]
    assert [message.scratchpad for message in found if message] == [f"{n}{i}" for n in "ab" for i in range(20)]


PROCESS = """
import asyncio, sys
from operad.runtime.policies.cache import Cache
from operad.runtime.values.message import WorkflowMessage

async def main(path, name):
    cache = Cache(path)
    for number in range(50):
        await cache.put(f"{name}{number}", WorkflowMessage(scratchpad=name))
    cache.close()

input()
asyncio.run(main(*sys.argv[1:]))
"""


def python(code, *arguments, **environment):
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **environment},
        text=True,
    )


def test_processes_share_a_file_also_when_they_make_it_at_once(tmp_path, forked):
    command = [sys.executable, "-c", PROCESS, tmp_path / "c"]
    processes = [forked.begin([*command, name], stdin=subprocess.PIPE, text=True) for name in "ab"]
    for process in processes:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        process.communicate()
    assert [process.returncode for process in processes] == [0, 0]
    assert len(rows(tmp_path / "c")) == 100


@pytest.mark.parametrize("options", [{"max_age": 0}, {"max_age": -1.0}, {"max_age": float("nan")}])
def test_an_age_must_be_above_zero(options):
    with pytest.raises(InvalidError, match=r"\[cache\] Cache.max_age: must be above 0 seconds"):
        Cache(**options)


def test_all_that_is_wrong_is_said_at_once():
    with pytest.raises(InvalidError, match="2 issues"):
        Cache(max_age=0, max_entries=0)


def test_a_file_is_not_made_before_it_is_needed(tmp_path):
    Cache(tmp_path / "c").close()
    assert list(tmp_path.iterdir()) == []


def rows(path):
    return [key for (key,) in with_connection(path, "SELECT key FROM answers ORDER BY key")]


def with_connection(path, statement):
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


# Keys


def look(claim: str) -> str:
    return claim


def listen(claim: str) -> str:
    return claim


class Deaf:
    def __call__(self, claim: str) -> str:
        return claim


def operator(tool=look, toolkit=None, **changes):
    config = {
        "instruction": "Check.",
        "examples": [Example(input="a", output="b")],
        "output_schema": "{a: string}",
        "actions": [Action(name="look up", tools=(Tool.of(tool, name="look"),))],
        **changes,
    }
    return Operator(OperatorConfig(**config), toolkit=toolkit)


def job(**changes):
    return Job(**{"goal": "goal", "context": "context", "inputs": {"a": 1, "b": [2]}, **changes})


KEY = """
import sys
sys.path.insert(0, sys.argv[1])
from test_cache import *
print(cache_key(operator(), job(), MonoModelReasoner(Model(name="m")), FULL, {"z": 1, "a": {"y": 2, "b": 3}}))
"""


@pytest.mark.slow
def test_the_same_content_has_the_same_key_in_every_process():
    processes = [python(KEY, str(Path(__file__).parent), PYTHONHASHSEED=seed) for seed in ("0", "1")]
    one, other = (process.communicate()[0] for process in processes)
    assert one == other
    assert len(one.strip()) == 64


def test_the_order_of_fields_does_not_count_and_that_of_parts_does():
    assert cache_key({"a": 1, "b": 2}) == cache_key({"b": 2, "a": 1})
    assert cache_key(1, 2) != cache_key(2, 1)
    assert cache_key("a", "b") != cache_key("ab") != cache_key(["a", "b"])
    assert len({cache_key(value) for value in (1, 1.0, True, "1", None, "", [], {})}) == 8


@pytest.mark.parametrize("value", [object(), {1: 2}, b"bytes", float("inf"), {"deep": [{1, 2}]}])
def test_what_has_no_json_form_has_no_key(value):
    with pytest.raises(InputError, match="has no JSON form"):
        cache_key(Message(outputs={"value": value}))


def bound(factor, claim):
    return factor, claim


OPERATORS = [
    operator(),
    operator(instruction="Check well."),
    operator(examples=[]),
    operator(output_schema="{a: int}"),
    operator(threshold=0.6),
    operator(hops=1),
    operator(actions=[]),
    operator(tool=listen),
    operator(tool=Deaf()),
    operator(tool=functools.partial(bound, factor=1)),
    operator(tool=functools.partial(bound, factor=2)),
    operator(actions=[Action(name="look up", description="else", tools=(Tool.of(look),))]),
    operator(actions=[Action(name="look up", tools=(Tool.of(look, description="else"),))]),
    operator(actions=[Action(name="look up", tools=(ToolGroup(name="group", tools=(Tool.of(look),)),))]),
    operator(toolkit=Toolkit()),
    type("Other", (Operator,), {})(OperatorConfig(instruction="Check.")),
]


def test_whatever_an_operator_asks_by_makes_another_key():
    assert len({cache_key(each) for each in OPERATORS}) == len(OPERATORS) - 1
    assert cache_key(OPERATORS[0]) == cache_key(operator()) == cache_key(operator(toolkit=Toolkit()))


def test_what_the_toolkit_recommends_makes_another_key():
    action, toolkit = Action(name="look up"), Toolkit()
    toolkit.add_action(action)
    before = cache_key(operator(actions=[action], toolkit=toolkit))
    toolkit.add_tool(Tool.of(look), [(action, 0.4)])
    assert cache_key(operator(actions=[action], toolkit=toolkit)) == before
    toolkit.add_tool(Tool.of(listen), [(action, 0.6)])
    assert cache_key(operator(actions=[action], toolkit=toolkit)) != before


class Books:
    def __init__(self, edition):
        self.edition = edition

    def retrieve(self, query):
        return Knowledge()

    def fingerprint(self):
        return {"type": "books", "edition": self.edition}


class Rumours:
    def retrieve(self, query):
        return Knowledge()


def test_what_an_operator_knows_makes_another_key():
    def knowing(base):
        return Operator(OperatorConfig(instruction="Check."), knowledge_base=base)

    assert cache_key(knowing(Books(1))) == cache_key(knowing(Books(1)))
    assert cache_key(knowing(Books(1))) != cache_key(knowing(Books(2))) != cache_key(knowing(None))
    with pytest.raises(InputError, match=r"Rumours has no JSON form and no fingerprint\(\)"):
        cache_key(knowing(Rumours()))


MODELS = [
    Model(name="m"),
    Model(name="n"),
    Model(name="m", base_url="https://other.example/v1"),
    Model(name="m", temperature=0),
    Model(name="m", max_tokens=5),
    Model(name="m", tools="constrained"),
    Model(name="m", structured=False),
    EmbeddedModel(),
    EmbeddedModel(context_tokens=512),
]


def test_whatever_a_model_answers_by_makes_another_key_and_a_secret_does_not():
    assert len({cache_key(model) for model in MODELS}) == len(MODELS)
    secret = Model(name="m", base_url="https://user:pass@one.example/v1", api_key=SecretStr("sk-secret"), timeout=1)
    plain = Model(name="m", base_url="https://one.example/v1", max_retries=0, limits=Limits(concurrency=3))
    assert secret.fingerprint() == plain.fingerprint()
    assert "secret" not in json.dumps(secret.fingerprint())
    assert "pass" not in json.dumps(secret.fingerprint())


def test_weights_that_change_make_another_key(tmp_path):
    weights = tmp_path / "w.gguf"
    weights.write_bytes(b"one")
    before = cache_key(EmbeddedModel.of(weights))
    weights.write_bytes(b"three")
    assert cache_key(EmbeddedModel.of(weights)) != before
    weights.unlink()
    with pytest.raises(InputError, match="No such file"):
        cache_key(EmbeddedModel.of(weights))


REASONERS = [
    *(MonoModelReasoner(model) for model in MODELS[:2]),
    MonoModelReasoner(MODELS[0], max_rounds=1),
    MonoModelReasoner(MODELS[0], max_repairs=1),
    DualModelReasoner(MODELS[0]),
    DualModelReasoner(MODELS[0], MODELS[1]),
    DualModelReasoner(MODELS[1], MODELS[0]),
    DualModelReasoner(MODELS[0], max_rounds=1),
    DualModelReasoner(MODELS[0], max_tool_rounds=1),
    DualModelReasoner(MODELS[0], max_repairs=1),
]


def test_whatever_a_reasoner_thinks_by_makes_another_key():
    assert len({cache_key(reasoner) for reasoner in REASONERS}) == len(REASONERS)


def test_a_scripted_reasoner_has_no_key():
    with pytest.raises(InputError, match="ScriptedReasoner has no JSON form"):
        cache_key(ScriptedReasoner("a"))


def test_what_a_job_asks_makes_another_key_and_its_ids_do_not():
    jobs = [job(), job(goal="else"), job(context="else"), job(inputs={}), SubJob(goal="goal")]
    assert len({cache_key(each) for each in jobs}) == len(jobs)
    assert cache_key(job(session_id="a")) == cache_key(job(session_id="b"))


def test_a_file_counts_by_name_and_content_not_by_place(tmp_path):
    def key(folder, name, text):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_text(text)
        return cache_key(job(files=[FileDescriptor.of(tmp_path / folder / name)]))

    assert key("one", "a.txt", "text") == key("two", "a.txt", "text")
    assert key("one", "a.txt", "text") != key("one", "a.txt", "else")
    assert key("one", "a.txt", "text") != key("one", "b.txt", "text")


def test_a_file_that_is_gone_has_no_key(tmp_path):
    (tmp_path / "a").write_text("text")
    file = FileDescriptor.of(tmp_path / "a")
    (tmp_path / "a").unlink()
    with pytest.raises(InputError, match="cannot be read: No such file"):
        cache_key(file)


def test_what_a_message_says_makes_another_key_and_what_it_cost_does_not():
    messages = [
        Message(),
        Message(scratchpad="a"),
        Message(lesson="a"),
        Message(evaluation="a"),
        Message(outputs={"a": 1}),
        Message(status=WorkflowStatus.INPUT_DATA_ERROR),
        Message(parts=(Message(),)),
    ]
    assert len({cache_key(message) for message in messages}) == len(messages)
    costly = Message(usage=Usage(calls=3, seconds=1.5), job_id="a", operator_id="b")
    assert cache_key(costly) == cache_key(Message())


def test_a_task_has_a_key_by_all_that_a_reasoner_may_see():
    def task(**changes):
        return Task(**{"job": job(), "instruction": "Check.", "tools": [Tool.of(look)], **changes})

    assert cache_key(task()) == cache_key(task())
    assert cache_key(task(lesson="Better.")) != cache_key(task()) != cache_key(task(tools=[]))


def test_a_server_counts_without_what_may_be_secret():
    def stdio(**changes):
        return McpTools(name="files", server=StdioServer(**{"command": "serve", **changes}))

    def http(url, **changes):
        return McpTools(name="web", server=StreamableHttpServer(url=url, **changes))

    assert cache_key(stdio(env={"KEY": "a"}, timeout=1)) == cache_key(stdio())
    assert cache_key(stdio(args=["--all"])) != cache_key(stdio()) != cache_key(stdio(cwd=Path("/")))
    secret = http("https://me:pass@one.example/mcp?key=secret", headers={"Authorization": "secret"})
    assert secret.fingerprint() == {**http("https://one.example/mcp").fingerprint(), "name": "web"}
    assert "secret" not in json.dumps(secret.fingerprint())
    assert "pass" not in json.dumps(secret.fingerprint())


class Ticket(BaseModel):
    text: str


@dataclass
class Parcel:
    text: str


@pytest.mark.parametrize("kind", [Ticket, Parcel])
def test_items_that_are_models_or_dataclasses_hit_the_cache(kind):
    asked = []

    async def read(ticket: kind) -> str:  # type: ignore[valid-type]
        asked.append(ticket.text)
        return ticket.text

    reads = Workflow(read, policy=Policy(cache=Cache()))
    flow = Workflow(Map("each", reads, over=lambda job: (kind(text=text) for text in "ab"), concurrency=1))
    assert flow.run("x").output == flow.run("x").output == ["a", "b"]
    assert asked == ["a", "b"]


@dataclass
class Reminder:
    type: str


@dataclass
class Invoice:
    type: str


def test_values_of_different_classes_with_a_field_called_type_have_different_fingerprints():
    assert fingerprint(Reminder("urgent")) != fingerprint(Invoice("urgent"))
