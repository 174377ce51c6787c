import asyncio
import os
from contextlib import aclosing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from operad.runtime import BuiltinWorkflow, Job, OperatorError, events
from operad.runtime.testing import ScriptedReasoner

SHARED = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture
def shared_data():
    """Real data that is not part of this repository: a machine without it skips, CI fails."""
    if not SHARED.is_dir():
        if os.environ.get("CI"):
            pytest.fail(f"{SHARED} is missing")
        pytest.skip(f"{SHARED} is not on this machine")
    return SHARED


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
