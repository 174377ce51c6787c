"""Memory across runs: by key and by meaning, in namespaces that a model cannot leave."""

import asyncio
import sqlite3
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from operad import Job, Operator, PausedError, Workflow, events, tool
from operad.configs.capabilities import UntrustedError
from operad.configs.loader import load_text
from operad.runtime import Memory
from operad.runtime.durable import memory as memory_module
from operad.runtime.durable.ledger import DurableWorkflow
from operad.runtime.policies.cache import cache_key
from operad.runtime.values.errors import InputError, InvalidError
from operad.testing import CallTools, Say, ScriptedModel

MEANINGS = (("train", "travel"), ("cat", "pet"), ("tea", "drink"))


class Meanings:
    """Embeddings whose numbers say which of some subjects a text is about."""

    identity = "meanings"

    def __init__(self):
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]):
        self.asked += texts
        return [[float(any(word in text.lower() for word in words)) for words in MEANINGS] + [0.1] for text in texts]


@pytest.fixture
def store(tmp_path):
    return tmp_path / "runs.sqlite"


@pytest.fixture
def memory(store):
    memory = Memory(store, namespace="user-42")
    yield memory
    memory.close()


def run(operator, *calls, job: str | Job = "How does she travel?"):
    """Return the requests of a model that calls tools, the results that it is told, and the events of the run."""
    heard = []
    with ScriptedModel([*[CallTools([call]) for call in calls], Say("done")]) as endpoint:
        flow = Workflow(operator, model=endpoint.model)

        async def play():
            async for event in flow.stream(job):
                heard.append(event)

        asyncio.run(play())
        requests = endpoint.requests
    told = [message["content"] for message in requests[-1]["messages"] if message["role"] == "tool"]
    return requests, told, heard


def test_a_text_is_recalled_by_key_and_by_words_until_it_is_forgotten(memory, store):
    assert memory.remember("Ada travels by train.", key="travel") == "travel"
    given = memory.remember("Her cat is called Tom.")
    assert memory.remember("Her cat is called Tom.") == given
    again = Memory(store, namespace="user-42")
    assert (found := again.get("travel"))
    assert found.text == "Ada travels by train."
    assert [each.key for each in again.recall("Which cat?")] == [given]
    memory.remember("Ada flies.", key="travel")
    assert [each.text for each in again.recall("How does Ada travel?")] == ["Ada flies."]
    memory.forget("travel")
    assert again.get("travel") is None
    assert again.recall("travel") == []
    assert [each.key for each in again.entries()] == [given]
    again.close()


def test_with_embeddings_a_text_is_recalled_by_meaning_and_embedded_once(store):
    first, second = Meanings(), Meanings()
    memory = Memory(store, namespace="n", embeddings=first)
    memory.remember("Her cat is called Tom.", key="a")
    memory.remember("She takes the train.", key="b")
    assert [each.key for each in memory.recall("pet", 1)] == ["a"]
    assert Memory(store, namespace="n", embeddings=second).recall("pet", 1)[0].key == "a"
    assert first.asked == ["Her cat is called Tom.", "She takes the train.", "pet"]
    assert second.asked == ["pet"]


def test_namespaces_do_not_see_each_other(memory, store):
    other = Memory(store, namespace="user-4")
    memory.remember("mine", key="a")
    other.remember("other", key="a")
    other.remember("other", key="b")
    assert [each.text for each in memory.entries()] == ["mine"]
    assert memory.recall("other") == []
    assert memory.get("b") is None
    with pytest.raises(InputError):
        memory.forget("b")
    memory.forget("a")
    assert len(other.entries()) == 2


def test_the_namespace_has_inputs_of_the_job_and_no_two_combinations_are_equal(store):
    memory = Memory(store, namespace="{org}-{user}")
    memory.of(org="a-b", user="c").remember("Ada travels by train.")
    assert memory.of(org="a", user="b-c").entries() == []
    operator = Operator("Answer.", long_term_memory=memory)
    for org, user, shown in (("a-b", "c", True), ("a", "b-c", False)):
        requests, _, _ = run(operator, job=Job("How does she travel?", inputs={"org": org, "user": user}))
        assert ("by train" in str(requests[0])) is shown
    for inputs in (
        {},
        {"org": "a"},
        {"org": "a", "user": " "},
        {"org": "a", "user": True},
        {"org": "a", "user": 10**5_000},
    ):
        with pytest.raises(InputError):
            memory.of(**inputs)
    with pytest.raises(InputError):
        memory.entries()


def test_what_fits_the_job_is_in_the_prompt_and_an_event(memory):
    memory.remember("Ada travels by train.", key="travel")
    memory.remember("Her cat is called Tom.", key="cat")
    requests, _, heard = run(Operator("Answer.", long_term_memory=memory))
    assert "## Memory\n```\n[memory: travel]\nAda travels by train.\n```" in requests[0]["messages"][1]["content"]
    assert "Tom" not in str(requests[0]["messages"])
    [event] = [event for event in heard if isinstance(event, events.KnowledgeRetrieved)]
    assert (event.sources, event.texts) == (("memory: travel",), ("Ada travels by train.",))
    [task] = [event.task for event in heard if isinstance(event, events.TaskBuilt)]
    assert task["memories"] == ["Ada travels by train."]


def test_a_model_remembers_recalls_and_forgets_in_its_namespace_alone(memory, store):
    Memory(store, namespace="other").remember("Bob flies.", key="plane")
    calls = [
        ("remember", {"text": "Ada likes tea.", "key": "drink"}),
        ("recall", {"query": "drink"}),
        ("recall", {"query": "plane"}),
        ("forget", {"key": "plane"}),
        ("remember", {"text": "x", "namespace": "other"}),
        ("forget", {"key": "drink"}),
    ]
    _, told, _ = run(Operator("Answer.", long_term_memory=memory), *calls)
    assert told[0] == "remembered under drink"
    assert told[1] == '[{"key": "drink", "text": "Ada likes tea."}]'
    assert told[2] == "[]"
    assert told[3].startswith("InputError: ")
    assert told[4].startswith("ToolError: ")
    assert told[5] == "forgot drink"
    assert memory.entries() == []
    assert len(Memory(store, namespace="other").entries()) == 1


def test_the_tools_alone_can_be_given(memory):
    memory.remember("Ada travels by train.")
    requests, [told], _ = run(Operator("Answer.", tools=memory.tools), ("recall", {"query": "train"}))
    assert "train" not in str(requests[0]["messages"])
    assert "by train" in told


@pytest.mark.parametrize(
    "text", ["the password is hunter2x9", "ghp_" + "a1" * 18, "postgresql://ada:s3cretpw@host/db", "", " ", "a" * 2_001]
)
def test_keys_and_texts_out_of_bounds_are_not_remembered(memory, text):
    with pytest.raises(InputError) as caught:
        memory.remember(text)
    assert memory.entries() == []
    assert not text.strip() or text not in str(caught.value)


def test_memories_expire(memory, monkeypatch):
    memory.remember("today", key="a", max_age=timedelta(hours=1))
    memory.remember("always", key="b")
    now = memory_module.time.time()
    monkeypatch.setattr(memory_module.time, "time", lambda: now + 3_601)
    assert memory.get("a") is None
    assert memory.recall("today") == []
    assert [each.key for each in memory.entries()] == ["b"]
    memory.remember("again", key="a")
    assert memory.get("a").text == "again"


def test_expired_memories_of_all_namespaces_are_deleted(memory, store, monkeypatch):
    Memory(store, namespace="gone").remember("today", max_age=3_600)
    now = memory_module.time.time()
    monkeypatch.setattr(memory_module.time, "time", lambda: now + 3_601)
    memory.remember("new")
    with sqlite3.connect(store) as connection:
        assert connection.execute("SELECT text FROM operad_memories").fetchall() == [("new",)]


def test_a_namespace_has_a_maximum(memory, monkeypatch):
    monkeypatch.setattr(memory_module, "MAX_MEMORIES", 2)
    memory.remember("a", key="a")
    memory.remember("b", key="b")
    memory.remember("b2", key="b")
    with pytest.raises(InputError):
        memory.remember("c", key="c")


@pytest.mark.parametrize("namespace", ["user-{user.id}", "user-{user-id}", "user-{}", "user-{{user}}", "user-{user"])
def test_braces_that_name_no_input_are_refused_because_all_users_would_share_the_namespace(store, namespace):
    with pytest.raises(InputError):
        Memory(store, namespace=namespace)


@pytest.mark.parametrize("key", ["a  b", " a\nb ", "a\0b", "a\ud800b"])
def test_a_memory_is_found_under_the_key_that_it_was_given(memory, key):
    memory.remember("Ada travels by train.\0\ud800", key=key)
    assert memory.get(key)
    assert len(memory.recall("train\0\ud800")) == 1
    memory.forget(key)
    assert memory.entries() == []


def test_a_durable_run_goes_on_after_memories_have_changed_but_not_after_its_instruction_has(store, tmp_path):
    @tool(approve=True)
    def pay(amount: int) -> str:
        return f"paid {amount}"

    for run_id, namespace in (("r", "n"), ("s", "user-{user}")):
        memory = Memory(store, namespace=namespace)

        def flow(instruction="Work.", memory=memory):
            workflow = DurableWorkflow(tmp_path / "runs.sqlite", name="w")
            workflow.add_operator(Operator(instruction, id="a", tools=[pay], long_term_memory=memory))
            return workflow

        job = Job("go", inputs={"user": "7"})
        calls = [{"remember": {"text": "Ada likes tea."}}, {"pay": {"amount": 1}}]
        with ScriptedModel([*map(CallTools, calls), Say("done")]) as endpoint:
            with pytest.raises(PausedError) as paused:
                asyncio.run(flow().arun(job, endpoint.model, run_id=run_id))
            answers = {question.id: "yes" for question in paused.value.questions}
            with pytest.raises(InputError):
                asyncio.run(flow("Rest.").aresume(run_id, answers, endpoint.model))
            assert asyncio.run(flow().aresume(run_id, answers, endpoint.model)).text == "done"


def test_threads_and_tasks_share_a_memory(memory):
    threads = [
        threading.Thread(target=lambda n=n: memory.remember(f"thread {n}", key=f"t{n}") and memory.recall("thread"))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    async def tasks():
        await asyncio.gather(*(memory.aremember(f"task {n}", f"k{n}") for n in range(8)))
        assert (await memory.aget("k3")).text == "task 3"
        assert len(await memory.arecall("task", 50)) == 8
        await memory.aforget("k3", "t3")

    asyncio.run(tasks())
    assert len(memory.entries()) == 14


def test_the_fingerprint_of_an_operator_changes_with_its_memories(memory):
    def key():
        return cache_key(Operator("Answer.", long_term_memory=memory).fingerprint())

    before = key()
    assert key() == before
    memory.remember("a")
    assert key() != before
    assert "long_term_memory" not in Operator("Answer.").fingerprint()


def test_wrong_arguments_are_errors(store):
    for wrong in ({"namespace": " "}, {"namespace": "a" * 301}, {"namespace": "n", "recalled": 0}):
        with pytest.raises(InputError):
            Memory(store, **wrong)  # pyright: ignore
    with pytest.raises(InputError):
        Memory(store, namespace="n", max_age=-1)
    with pytest.raises(InputError):
        Memory("mysql://host/db", namespace="n")
    with pytest.raises(InputError):
        Operator("Answer.", long_term_memory=True)  # pyright: ignore


def test_memories_lie_in_postgresql(postgresql):
    url = postgresql.new()
    memory = Memory(url, namespace="n", embeddings=Meanings())
    memory.remember("Her cat is called Tom.", key="a")
    memory.remember("Her cat is called Tim.", key="a")
    memory.remember("She takes the train.\0", key="b\0")
    assert memory.get("b\0")
    assert [each.text for each in memory.recall("pet\0", 1)] == ["Her cat is called Tim."]
    other = Memory(url, namespace="n", embeddings=Meanings())
    assert [each.key for each in other.recall("pet", 1)] == ["a"]
    assert Memory(url, namespace="n").recall("pet") == []
    memory.forget("a", "b\0")
    assert other.entries() == []
    with ThreadPoolExecutor(8) as threads:  # other connections write under the same key
        list(threads.map(lambda number: (memory, other)[number % 2].remember(f"text {number}", key="c"), range(40)))
    assert [each.key for each in other.entries()] == ["c"]
    for each in (memory, other):
        each.close()


YAML = "experts: [{{profile: {{name: G}}, workflow: [[{{name: a, instruction: Answer., long_term_memory: {}}}]]}}]\n"


def test_an_expert_in_yaml_has_a_memory_beside_its_file(tmp_path):
    expert = load_text(YAML.format("{namespace: 'user-{user}'}"), "e.yaml", tmp_path).expert()
    Memory(tmp_path / "e.memory.sqlite", namespace="user-7").remember("Ada travels by train.")
    with ScriptedModel([Say("by train")]) as endpoint:
        expert.workflow.run(Job("How does Ada travel?", inputs={"user": 7}), endpoint.model)
        assert "Ada travels by train." in str(endpoint.requests[0]["messages"])


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("{namespace: n, store: ../runs.sqlite}", "writes {parent}/runs.sqlite (long-term memory)"),
        ("{namespace: n, store: $MEMORY_URL}", "sends what operators remember to the database in $MEMORY_URL"),
    ],
)
def test_a_store_outside_of_the_folder_needs_trust(tmp_path, monkeypatch, said, line):
    monkeypatch.setenv("MEMORY_URL", "postgresql://nobody@localhost/none")
    folder = tmp_path / "mine"
    folder.mkdir()
    with pytest.raises(UntrustedError) as caught:
        load_text(YAML.format(said), "e.yaml", folder)
    assert caught.value.capabilities.lines == (line.format(parent=tmp_path.resolve()),)
    assert not (tmp_path / "runs.sqlite").exists()


def test_wrong_memories_in_yaml_are_issues_at_their_places(tmp_path):
    for said, place in {
        "{namespace: n, store: 'postgresql://ada:pw@host/db'}": "store",
        "{namespace: n, store: nowhere/runs.sqlite}": "store",
        "{namespace: n, store: $NO_SUCH_VARIABLE}": "store",
        "{store: a.sqlite}": "namespace",
    }.items():
        with pytest.raises(InvalidError) as caught:
            load_text(YAML.format(said), "e.yaml", tmp_path, trust=True)
        [issue] = caught.value.issues
        assert issue.where.endswith(place)
        assert "pw" not in issue.message
