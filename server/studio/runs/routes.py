"""The runs of a studio over HTTP."""

from __future__ import annotations

import asyncio
import shlex
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.types import Receive, Scope, Send

from operad.configs.capabilities import Trust, UntrustedError, told
from operad.configs.loader import load
from operad.configs.read_capabilities import require_trust
from operad.flows.assemble import assemble
from operad.flows.formats.shapes import fields_of, list_of
from operad.flows.node_graph import NodeGraph
from operad.operators.nodes import NODE_TYPES
from operad.operators.nodes.flow import StartParams
from operad.operators.services import Services
from operad.runtime.agents.agent import Agent, Expert, Profile
from operad.runtime.models.model import Model
from operad.runtime.reasoning.reasoner import MonoModelReasoner
from operad.runtime.values.errors import InputError
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.message import Job
from operad.runtime.values.valid_json import to_json
from operad.server.streams import EventStream
from operad.server.studio.file_json import titles_of
from operad.server.studio.files.folder import Folder
from operad.server.studio.files.open_file import OpenFile
from operad.server.studio.requests import mapping, optional_text, text
from operad.server.studio.runs.reuse import LastRun, node_alone, read_values, workflow_from
from operad.server.studio.runs.run import StudioRun, job_of
from operad.server.studio.runs.uploads import Uploads
from operad.server.studio.runs.values import Embedded, is_inline
from operad.server.view.http import json_body, json_response, whole_number
from operad.server.view.run_page import KEEP_ALIVE

MOST_RUNS = 20
"""Maximum number of stored runs; if there are more, the oldest ended one is removed."""

MOST_AT_WORK = 8
"""Maximum number of runs in progress."""

MAX_UPLOAD = 48 * 2**20
"""Maximum size of a request with files, in bytes: base64 is a third larger than the files."""

MAX_FILES = 32 * 2**20
"""Maximum size of all files of a request, in bytes."""

PACE = 0.1
"""Seconds between messages to a browser."""

_FILE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"


class Runs:
    """Runs of a studio's files.

    Args:
        find: Function that returns the open file of a request.
        model: Model of the runs; None for that of the environment.
        trust: True if files may do what they can, or a function that decides.
        services: Function that returns the services of a run of a workflow.

    Attributes:
        routes: The routes.
    """

    def __init__(
        self,
        folder: Folder,
        find: Callable[[dict[str, Any]], OpenFile],
        model: Model | None,
        trust: Trust,
        services: Callable[[], Services],
    ) -> None:
        self._uploads = Uploads(folder)
        self._find = find
        self._model = model
        self._trust = trust
        self._services = services
        self._runs = OrderedDict[str, StudioRun]()
        self._last_runs: dict[str, LastRun] = {}
        self.routes = (
            Route("/data/run", self._start_run, methods=["POST"]),
            Route("/data/runs/{run}/changes", self._changes),
            Route("/data/runs/{run}/answer", self._answer, methods=["POST"]),
            Route("/data/runs/{run}/cancel", self._cancel, methods=["POST"]),
            Route("/data/runs/{run}/files/{number}", self._file),
            Route("/data/last/{node:path}", self._last_values),
            Mount("/runs/{run}", app=self._run_page),
        )

    async def close(self) -> None:
        """End all runs."""
        for run in self._runs.values():
            await run.close()
        await asyncio.to_thread(self._uploads.close)

    # Starting

    async def _start_run(self, request: Request) -> Response:
        body = await json_body(request, MAX_UPLOAD)
        if sum(not other.done for other in self._runs.values()) >= MOST_AT_WORK:
            raise HTTPException(503, f"{MOST_AT_WORK} runs are in progress already; wait, or cancel one")
        file, agent, job, last, reused = await asyncio.to_thread(self._prepare, body)
        run = StudioRun(file.name, agent, job, last, reused, titles_of(file.content))
        self._runs[run.id] = run
        for old in [other for other in self._runs.values() if other.done][: max(0, len(self._runs) - MOST_RUNS)]:
            del self._runs[old.id]
            await old.close()
        return json_response({"run": run.id})

    def _prepare(self, body: dict[str, Any]) -> tuple[OpenFile, Agent, Job, LastRun, frozenset[str]]:
        """Return the file, agent and job of a run, the store of its messages, and the nodes that do not run again."""
        file = self._find(body)
        file.refresh()
        inputs, only_node, from_node = mapping(body, "inputs"), optional_text(body, "only"), optional_text(body, "from")
        if file.content.format is None:
            return self._prepare_experts(file, inputs)
        graph = file.content.graph
        if not file.content.format.runs:
            raise InputError(f"{file.name}: {file.readonly}")
        try:
            require_trust(str(file.path), graph, self._trust)
        except UntrustedError as error:
            raise _untrusted(file, error) from error
        services = self._services()
        last = self._last_runs.get(file.name)
        if only_node:
            workflow = node_alone(graph, only_node, last, services)
            last, reused = last or LastRun(graph), frozenset(node for node in graph.by_id if node != only_node)
            job = Job(goal=graph.name, inputs=last.inputs)
        elif from_node:
            workflow, reused = workflow_from(graph, from_node, last, services)
            assert last is not None  # noqa: S101 - `workflow_from` raises without a last run
            job = Job(goal=graph.name, inputs=last.inputs)
        else:
            workflow, reused = assemble(graph, NODE_TYPES, services=services, lossy=True), frozenset[str]()
            job = self._job(graph, inputs)
            last = self._last_runs[file.name] = LastRun(graph, inputs=dict(job.inputs))
        last.graph = graph
        self._last_runs[file.name] = last
        agent = Expert(Profile(name=graph.name), workflow, MonoModelReasoner(self._model))
        agent.check_model()
        return file, agent, job, last, reused

    def _job(self, graph: NodeGraph, inputs: dict[str, Any]) -> Job:
        start = next(node for node in graph.nodes if node.type == "start" and not node.parent)
        params = StartParams.model_validate(fields_of(start.params))
        return job_of(inputs, params.variables, params.defaults, self._uploads, graph.name)

    def _prepare_experts(
        self, file: OpenFile, inputs: dict[str, Any]
    ) -> tuple[OpenFile, Agent, Job, LastRun, frozenset[str]]:
        try:
            configuration = load(file.path, trust=self._trust)
        except UntrustedError as error:
            raise _untrusted(file, error) from error
        agent = configuration.agent(None, model=self._model) if self._model else configuration.agent(None)
        agent.check_model()
        goal = str(inputs.get("job") or "").strip() or configuration.spec.app.desc
        if not goal:
            raise InputError("fill in the input `job`: the task")
        paths = [self._uploads.path(upload, "files") for upload in list_of(inputs.get("files"))]
        last = self._last_runs[file.name] = LastRun(file.content.graph)
        return file, agent, Job(goal, files=tuple(map(FileDescriptor.of, paths))), last, frozenset()

    # Following

    def _run(self, request: HTTPConnection) -> StudioRun:
        run = self._runs.get(request.path_params["run"])
        if run is None:
            raise HTTPException(404, "there is no such run; the last are kept while the studio is open")
        return run

    async def _changes(self, request: Request) -> Response:
        run = self._run(request)
        since = whole_number(request.headers.get("last-event-id") or request.query_params.get("since", "0"))
        return EventStream(self._messages(run, since), KEEP_ALIVE)

    async def _messages(self, run: StudioRun, since: int) -> AsyncGenerator[bytes, None]:
        sent = None
        while True:
            current = run.version
            if current != sent:
                data = run.told(since)
                yield f"id: {data['version']}\ndata: {to_json(data)}\n\n".encode()
                since, sent = data["version"], current
                if current[1]:
                    return
            await asyncio.sleep(PACE)

    async def _answer(self, request: Request) -> Response:
        run, body = self._run(request), await json_body(request)
        if "value" not in body:
            raise InputError("value: is missing")
        await run.answer(text(body, "interrupt_id"), body["value"])
        return json_response({})

    async def _cancel(self, request: Request) -> Response:
        run = self._run(request)
        await json_body(request)
        await run.cancel()
        return json_response({})

    async def _file(self, request: Request) -> Response:
        run = self._run(request)
        found = run.files[whole_number(request.path_params["number"])]
        headers = {"content-security-policy": _FILE_POLICY}
        if isinstance(found, Embedded):
            return Response(found.data, media_type=found.mime_type, headers=headers)
        if found is None or not await asyncio.to_thread(found.path.is_file):
            raise HTTPException(404, "there is no such file, or it is gone")
        return FileResponse(
            found.path,
            media_type=found.mime_type if is_inline(found) else "application/octet-stream",
            filename=found.name,
            content_disposition_type="inline" if is_inline(found) else "attachment",
            headers=headers,
        )

    async def _run_page(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._run(HTTPConnection(scope)).page.app(scope, receive, send)

    async def _last_values(self, request: Request) -> Response:
        file = await asyncio.to_thread(self._find, {"path": request.query_params.get("path", "")})
        node, last = request.path_params["node"], self._last_runs.get(file.name)
        if last is None or all(run.file != file.name for run in self._runs.values()):
            return json_response({"ran": False, "inputs": {}, "outputs": None, "error": None})
        shown = next(run.files for run in reversed(self._runs.values()) if run.file == file.name).shown
        message = last.messages.get(node)
        outputs = None if message is None else shown(message.outputs or {"text": message.scratchpad})
        inputs = shown(read_values(last.graph, node, last.messages))
        ran = message is not None or node in last.errors
        current = last.is_current(file.content.graph, node) if message else False
        error = last.errors.get(node)
        return json_response({"ran": ran, "current": current, "inputs": inputs, "outputs": outputs, "error": error})


def _untrusted(file: OpenFile, error: UntrustedError) -> InputError:
    """Return the error for a file that is not trusted, with the command that trusts it."""
    return InputError(f"{told(error.capabilities)}\nread the file, then: operad trust {shlex.quote(str(file.path))}")
