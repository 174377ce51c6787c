import asyncio
import gc
import json
import os
from contextlib import aclosing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from amounts import use_amounts

from operad.runtime import BuiltinWorkflow, Job, OperatorError, events
from operad.runtime.testing import Say, ScriptedReasoner

SHARED = Path(__file__).parents[3] / "shared" / "data"


def pytest_configure(config):
    use_amounts(every="not slow" not in config.option.markexpr)


@pytest.fixture(scope="session")
def shared_data():
    """Real data that is not part of this repository: a machine without it skips, CI fails."""
    if not SHARED.is_dir():
        if os.environ.get("CI"):
            pytest.fail(f"{SHARED} is missing")
        pytest.skip(f"{SHARED} is not on this machine")
    return SHARED


@pytest.fixture
def nothing_configured(monkeypatch):
    """The environment names no model."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPERAD_MODEL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def without_gc():
    """What a test makes is freed by the count of its references, or not at all."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def engine():
    """The class of workflows that a test runs. One schedule drives both engines: test_engines.py and
    test_joins_properties.py try both."""
    return BuiltinWorkflow


class _Code:
    """Code as an operator."""

    def __init__(self, operator_id, work):
        self._id = operator_id
        self._work = work
        self.result = None

    def get_id(self):
        return self._id

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        self.result = await self._work()
        return ""


@pytest.fixture
def in_a_run():
    """Runs code as an operator of a real workflow: ``result, heard = await in_a_run(work)``.

    `work` is awaited in the operator; what it raises is raised here. `heard` holds the events that
    it emitted, without those by which the workflow says that it runs.
    """
    own = (events.OperatorStarted, events.OperatorFinished)

    async def in_a_run(work, operator_id="op", run_id="run"):
        heard = []
        code, workflow = _Code(operator_id, work), BuiltinWorkflow(listeners=[heard.append])
        workflow.add_operator(code)
        try:
            await workflow.aexecute(Job(goal="goal"), ScriptedReasoner([]), run_id=run_id)
        except OperatorError as error:
            raise (error.__cause__ or error) from None
        return code.result, [event for event in heard if event.operator_id and not isinstance(event, own)]

    return in_a_run


class _Web:
    """Hosts on this machine that answer as a test says.

    Attributes:
        requests: What they were asked: ``method``, ``path``, ``headers`` by lower case, ``body``.
    """

    def __init__(self):
        self.requests = []
        self._servers, self._tasks = [], set()

    async def serve(self, answer: Any):
        """The address of a new host.

        `answer` is what it answers, as the bytes that go over the wire; or makes that of a request; or yields it.
        """

        async def exchange(reader, writer):
            self._tasks.add(asyncio.current_task())
            try:
                method, path, _ = (await reader.readline()).decode().split()
                lines = [
                    line.decode().partition(":") for line in iter((await reader.readuntil(b"\r\n\r\n")).splitlines())
                ]
                headers = {name.lower(): value.strip() for name, _, value in lines if name}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                request = SimpleNamespace(method=method, path=path, headers=headers, body=body)
                self.requests.append(request)
                said = answer if isinstance(answer, bytes) else answer(request)
                if isinstance(said, bytes):
                    writer.write(said)
                else:
                    async with aclosing(said):
                        async for part in said:
                            writer.write(part)
                            await writer.drain()
                await writer.drain()
            except (ConnectionError, asyncio.CancelledError):
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(exchange, "127.0.0.1", 0)
        self._servers.append(server)
        return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    @staticmethod
    def reply(body=b"", status=200, **headers):
        """An answer; names of headers have underscores for dashes."""
        said = {"content_length": len(body), "connection": "close", **headers}
        head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in said.items() if value is not None)
        return f"HTTP/1.1 {status} So\r\n{head}\r\n".encode() + body

    async def aclose(self):
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@pytest.fixture
async def web():
    """Hosts on this machine that answer as a test says."""
    web = _Web()
    yield web
    await web.aclose()


CONVERSATIONS = Path(__file__).parent / "data" / "conversations"
CONTENT = {"evaluation": "right", "findings": []}


STAGES = {"wrong": "mend", "findings": "judge", "nodes": "plan"}
"""By a key of the answer that only this one asks for, or the later ones."""


def stage_of(form):
    """Return the stage that asks for an answer with these properties; empty for a node of a workflow."""
    return next((stage for key, stage in STAGES.items() if key in form), "")


class Stages:
    """A model that makes a design as a conversation's file says, and answers what the workflow's own nodes ask.

    Attributes:
        asked: The stages that it was asked for, and what they said.
    """

    def __init__(self, *rounds, **answers):
        self.asked = []
        self._answers = {
            stage: [*answers.get(stage, ()), *(said for each in rounds for said in each.get(stage, ()))]
            for stage in STAGES.values()
        }
        self._says = {word: said for each in rounds for word, said in each["run"]["says"].items()}

    def __call__(self, request):
        told = "\n".join(str(message["content"]) for message in request["messages"])
        form = (request.get("response_format") or {}).get("json_schema", {}).get("schema", {}).get("properties", {})
        stage = stage_of(form)
        if not stage:
            return self._of_a_node(told, form)
        self.asked.append((stage, told))
        left = self._answers[stage]
        answer = (left.pop(0) if len(left) > 1 else left[0]) if left else CONTENT
        return answer if isinstance(answer, Say) else Say(answer if isinstance(answer, str) else json.dumps(answer))

    def _of_a_node(self, told, form):
        if "port" in form:
            return Say(json.dumps({"port": self._says["classes"]}))
        said = next(said for word, said in reversed(self._says.items()) if word in told)
        return Say(said if isinstance(said, str) else json.dumps(said))

    @property
    def stages(self):
        """The stages that it was asked for."""
        return [stage for stage, _ in self.asked]


@pytest.fixture(scope="session")
def stages():
    """A scripted model for designs: ``stages(*rounds)``, and ``stages(plan=[…], mend=[…])`` for what comes before."""
    return Stages


@pytest.fixture(scope="session")
def conversation():
    """The rounds of a conversation, by its name."""
    return lambda name: json.loads((CONVERSATIONS / f"{name}.json").read_text(encoding="utf-8"))["rounds"]
