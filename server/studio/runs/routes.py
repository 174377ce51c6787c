"""The runs of a studio over HTTP."""

from __future__ import annotations

import asyncio
import json
import shlex
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import Receive, Scope, Send

from operad.configs.capabilities import Trust, UntrustedError, told
from operad.configs.loader import load_text
from operad.configs.read_capabilities import require_trust
from operad.flows.assemble import assemble
from operad.flows.edit import difference
from operad.flows.formats.shapes import fields_of, list_of, texts_of
from operad.flows.node_graph import NodeGraph
from operad.operators.nodes import NODE_TYPES
from operad.operators.nodes.flow import StartParams
from operad.operators.services import Services
from operad.runtime.agents.agent import Agent, Expert, Profile
from operad.runtime.durable.description import NO_GRAPH, changes, describe_workflow, unreadable
from operad.runtime.durable.tables import FAILED, FINISHED
from operad.runtime.events import Event
from operad.runtime.models.model import Model
from operad.runtime.models.resolve import resolve_model
from operad.runtime.reasoning.reasoner import MonoModelReasoner
from operad.runtime.values.errors import InputError, OperadError
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.message import Job, new_id
from operad.runtime.values.valid_json import to_json
from operad.server.http.streams import EventStream
from operad.server.studio.experts.graph import goal_of
from operad.server.studio.file_json import titles_of
from operad.server.studio.files.folder import Folder
from operad.server.studio.files.open_file import Content, OpenFile
from operad.server.studio.requests import mapping, optional_text, text
from operad.server.studio.runs.breakpoints import Breakpoints
from operad.server.studio.runs.kept import KeptRuns, Origin, inputs_in_short, with_files
from operad.server.studio.runs.pin_routes import PinRoutes, given_messages
from operad.server.studio.runs.pins import Pins
from operad.server.studio.runs.reuse import (
    RunValues,
    give,
    node_alone,
    part_of_expert,
    read_values,
    with_given,
    workflow_from,
)
from operad.server.studio.runs.run import StudioRun, job_of, row
from operad.server.studio.runs.uploads import Uploads
from operad.server.studio.runs.values import file_response
from operad.server.view.http import json_body, json_response, whole_number
from operad.server.view.run_page import KEEP_ALIVE

if TYPE_CHECKING:
    from operad.runtime.durable.ledger import Ledger

MOST_RUNS = 20
"""Maximum number of runs in memory; if there are more, those are dropped that have ended and were asked for longest ago."""

MOST_AT_WORK = 8
"""Maximum number of runs in progress."""

MAX_UPLOAD = 48 * 2**20
"""Maximum size of a request with files, in bytes: base64 is a third larger than the files."""

MAX_FILES = 32 * 2**20
"""Maximum size of all files of a request, in bytes."""

MOST_OF_CHANGES = 300
"""Maximum number of characters about changes that keep a run from going on."""

PACE = 0.1
"""Seconds between messages to a browser."""


class Runs:
    """Runs of a studio's files.

    Args:
        find: Function that returns the open file of a request.
        model: Model of the runs; None for that of the environment.
        trust: True if files may do what they can, or a function that decides.
        services: Function that returns the services of a run of a workflow.
        kept: Database of the runs.
        notify: Function that tells the open pages that the runs, or the pinned values, of a file have changed.
        histories: Folder of the pinned values; None for the user's.

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
        kept: KeptRuns,
        notify: Callable[[str], None],
        histories: Path | None = None,
    ) -> None:
        self._folder = folder
        self._uploads = Uploads(folder)
        self._find = find
        self._model = model
        self._trust = trust
        self._services = services
        self._kept = kept
        self._notify = notify
        self._runs = OrderedDict[str, StudioRun]()
        self._reading = asyncio.Lock()
        self._closing = False
        self._last: dict[str, tuple[str, RunValues | None]] = {}
        self._pins = Pins(histories)
        self.routes = (
            Route("/data/run", self._start_run, methods=["POST"]),
            Route("/data/runs", self._list),
            Route("/data/runs/{run}", self._picture),
            Route("/data/runs/{run}/changes", self._changes),
            Route("/data/runs/{run}/answer", self._answer, methods=["POST"]),
            Route("/data/runs/{run}/cancel", self._cancel, methods=["POST"]),
            Route("/data/runs/{run}/resume", self._resume, methods=["POST"]),
            Route("/data/runs/{run}/delete", self._delete, methods=["POST"]),
            Route("/data/runs/{run}/files/{number}", self._file),
            Route("/data/last/{node:path}", self._last_values),
            Mount("/runs/{run}", app=self._run_page),
            *PinRoutes(find, self._pins, self._uploads, self._values, MAX_UPLOAD, notify).routes,
        )

    async def close(self) -> None:
        """End the streams, and stop all runs; those that are kept can go on later."""
        self._closing = True  # before the runs stop: to those who follow them, they have not ended
        for run in self._runs.values():
            await run.close()
        await asyncio.to_thread(self._kept.close)
        await asyncio.to_thread(self._uploads.close)

    # Starting

    async def _start_run(self, request: Request) -> Response:
        body = await json_body(request, MAX_UPLOAD)
        file = await asyncio.to_thread(self._find, body)
        agent, job, values, origin = await asyncio.to_thread(self._prepare, file, body)
        run = StudioRun(new_id(), file.name, origin, values, titles_of(file.content), time.time())
        if busy := await self._start(run, file, agent, job):
            return busy
        return json_response({"run": run.id})

    async def _start(self, run: StudioRun, file: OpenFile, agent: Agent, job: Job) -> Response | None:
        """Start or continue a run; return a refusal with the runs in progress if there are too many."""
        ledger = await asyncio.to_thread(self._kept.ledger_of, run.origin)
        if len(busy := [other for other in self._runs.values() if other.driven_here]) >= MOST_AT_WORK:
            if ledger is not None:
                await asyncio.to_thread(ledger.close)
            names = ", ".join(f"{other.file} ({other.origin.inputs or 'no inputs'})" for other in busy)
            error = f"{MOST_AT_WORK} runs are in progress already: {names}; wait, or cancel one"
            return JSONResponse({"error": error, "busy": [other.row() for other in busy]}, 409)
        self._runs[run.id] = run
        run.start(agent, job, ledger, partial(self._ended, run, file))
        self._notify(file.name)
        await self._drop_old()
        return None

    async def _ended(self, run: StudioRun, file: OpenFile) -> None:
        """Let the values of a run be those of the last one, unless it was cancelled or nothing came of it."""
        alone = run.origin.only and (await asyncio.to_thread(self._last_of, file))[1] is None
        if run.came_to_something and not alone:  # a node that ran alone: the workflow did not run
            self._last[file.name] = run.id, run.values
        with suppress(OperadError):  # the next run tries again
            deleted = await asyncio.to_thread(self._kept.retire, file.path)
            for each in set(deleted) - {run.id}:
                await self._forget(each, file.name)
        asyncio.get_running_loop().call_soon(self._notify, file.name)  # once the run counts as done

    async def _forget(self, run_id: str, file: str) -> None:
        """Close a run that was deleted from the database."""
        if file in self._last and self._last[file][0] == run_id:
            del self._last[file]
        if (run := self._runs.pop(run_id, None)) is not None:
            await run.close()

    async def _drop_old(self) -> None:
        """Close the runs that were looked at longest ago; the database keeps them."""
        for old in [other for other in self._runs.values() if other.done][: max(0, len(self._runs) - MOST_RUNS)]:
            del self._runs[old.id]
            await old.close()

    def _prepare(
        self, file: OpenFile, body: dict[str, Any], job: Job | None = None, content: Content | None = None
    ) -> tuple[Agent, Job, RunValues, Origin]:
        """Return the agent and job of a run, the store of its messages, and what it is of.

        Args:
            job: The job of a run that goes on; by default, it is made of the inputs.
            content: Content to run in place of that of the file.
        """
        file.refresh()
        content = content or file.content
        inputs, only_node, from_node = mapping(body, "inputs"), optional_text(body, "only"), optional_text(body, "from")
        model_name, graph, reused = optional_text(body, "model"), content.graph, frozenset[str]()
        pinned_nodes: tuple[str, ...] = ()
        model = resolve_model(model_name) if model_name else self._model
        last = self._last_of(file)[1] if only_node or from_node else None
        values = last.copy(graph) if last else RunValues(graph)
        if content.format is None:
            agent = self.agent_of(file, model, content)
            if only_node or from_node:
                if not isinstance(agent, Expert):
                    raise InputError("the leader gives each expert its part of the job; run the whole")
                reused = part_of_expert(agent.workflow, graph, only_node or from_node, last, alone=bool(only_node))
                job = job or values.job
            job = job or self._job_of_experts(file, inputs)
            values.job = job
        else:
            self._require_trust(file, content)
            services = self._services()
            pinned = self._pins.of(file.path, graph).messages
            pinned_nodes = tuple(pinned)
            if only_node:
                given = given_messages(graph, only_node, mapping(body, "given"), self._uploads)
                known = with_given(graph, only_node, last, {**pinned, **given})
                workflow = node_alone(graph, only_node, known, services)
                reused = frozenset(each for each in graph.by_id if only_node not in (each, *graph.around(each)))
            elif from_node:
                workflow, reused = workflow_from(graph, from_node, last, services, pinned)
            else:
                workflow = assemble(graph, NODE_TYPES, services=services, lossy=True)
                give(workflow, graph, pinned)
            stops = frozenset(texts_of(body.get("breakpoints"))) & graph.by_id.keys()
            if stops or body.get("step") is True:
                Breakpoints(graph, stops, self._uploads, step=body.get("step") is True).set_in(workflow)
            if only_node or from_node:
                job = job or Job(goal=graph.name, inputs=values.inputs)
            else:
                job = job or self._job(graph, inputs)
                values = RunValues(graph, inputs=dict(job.inputs))
            agent = Expert(Profile(name=graph.name), workflow, MonoModelReasoner(model))
        agent.check_model()
        origin = Origin(
            file=str(file.path),
            step=file.history.current,
            only=only_node,
            start=from_node,
            reused=tuple(sorted(reused)),
            inputs=inputs_in_short(inputs or job.inputs or {"job": job.goal}),
            model=model_name,
            pinned=pinned_nodes,
        )
        return agent, job, values, origin

    def prepare_part(self, file: OpenFile, node: str, model: str, content: Content) -> tuple[Agent, Job]:
        """Return the agent and the job of a node of a content alone, with the values of the last run of the file.

        Args:
            model: Name of the model; empty for that of the studio.

        Raises:
            InputError, InvalidError: The node cannot run.
        """
        return self._prepare(file, {"only": node, "model": model}, None, content)[:2]

    def agent_of(self, file: OpenFile, model: Model | None = None, content: Content | None = None) -> Agent:
        """Return the agent that runs the whole of a file.

        Raises:
            InputError: The file cannot run, or needs trust.
        """
        model, content = model or self._model, content or file.content
        if content.format is not None:
            self._require_trust(file, content)
            workflow = assemble(content.graph, NODE_TYPES, services=self._services(), lossy=True)
            return Expert(Profile(name=content.graph.name), workflow, MonoModelReasoner(model))
        try:
            configuration = load_text(
                content.data.decode("utf-8-sig"), str(file.path), file.path.parent, trust=self._trust
            )
        except UntrustedError as error:
            raise _untrusted(file, error) from error
        return configuration.agent(None, model=model) if model else configuration.agent(None)

    def _require_trust(self, file: OpenFile, content: Content) -> None:
        """Raise InputError if a workflow cannot run here, or needs trust."""
        if content.format is None or not content.format.runs:
            raise InputError(f"{file.name}: {content.readonly}")
        try:
            require_trust(str(file.path), content.graph, self._trust)
        except UntrustedError as error:
            raise _untrusted(file, error) from error

    def _job(self, graph: NodeGraph, inputs: dict[str, Any]) -> Job:
        start = next(node for node in graph.nodes if node.type == "start" and not node.parent)
        params = StartParams.model_validate(fields_of(start.params))
        return job_of(inputs, params.variables, params.defaults, self._uploads, graph.name)

    def _job_of_experts(self, file: OpenFile, inputs: dict[str, Any]) -> Job:
        goal = str(inputs.get("job") or "").strip() or goal_of(file.content.data, file.path)
        if not goal:
            raise InputError("fill in the input `job`: the task")
        paths = [self._uploads.path(upload, "files") for upload in list_of(inputs.get("files"))]
        return Job(goal, files=tuple(map(FileDescriptor.of, paths)))

    def last_of(self, file: OpenFile) -> RunValues | None:
        """Return the values of the last run of a file; None if there was none."""
        return self._last_of(file)[1]

    # Kept runs

    async def _list(self, request: Request) -> Response:
        """Return the runs of a file: those in progress first, then the newest."""
        file = await asyncio.to_thread(self._find, dict(request.query_params))
        here = {run.id: run.row() for run in self._runs.values() if run.file == file.name}

        def stored() -> list[dict[str, Any]]:
            return [
                {
                    "id": run.run_id,
                    "file": file.name,
                    **row(origin, self._kept.state(run), run.created, run.updated - run.created, run.used),
                }
                for run, origin in self._kept.listed(file.path)
                if run.run_id not in here
            ]

        rows = [*here.values(), *await asyncio.to_thread(stored)]
        rows.sort(key=lambda each: (each["state"] not in ("running", "asking"), -each["started"]))
        return json_response({"runs": rows, "note": self._kept.fault})

    async def _run(self, request: HTTPConnection) -> StudioRun:
        """Return the run that a request names."""
        return await self.find_run(request.path_params["run"])

    def recorded(self, run: StudioRun) -> tuple[Job, list[Event]] | None:
        """Return the job and the events of a run; None if it is not kept."""
        ledger = self._kept.ledger()
        if ledger is None or self._kept.run(run.id) is None:
            return None
        return ledger.job(run.id), list(ledger.events(run.id))

    async def find_run(self, run_id: str) -> StudioRun:
        """Return a run; it is read from the database if necessary."""
        async with self._reading:  # two requests may arrive at once
            if run_id not in self._runs:
                run, ledger = await asyncio.to_thread(self._read, run_id)
                await run.read(ledger)
                self._runs[run_id] = run
                await self._drop_old()
        self._runs.move_to_end(run_id)
        return self._runs[run_id]

    def _read(self, run_id: str) -> tuple[StudioRun, Ledger]:
        ledger, found = self._kept.ledger(), self._kept.run(run_id)
        if ledger is None or found is None:
            raise HTTPException(404, "there is no such run; it was deleted")
        stored, origin = found
        try:
            file = self._find({"path": Path(origin.file).relative_to(self._folder.root).as_posix()})
        except ValueError as error:
            raise HTTPException(404, "that is a run of a file in another folder") from error
        job = ledger.job(run_id)
        values = RunValues(_graph_of(file, origin), inputs=dict(job.inputs), job=job)
        titles, messages = titles_of(file.content), self._kept.messages(run_id)
        return StudioRun(run_id, file.name, origin, values, titles, stored.created, messages), ledger

    def _last_of(self, file: OpenFile) -> tuple[str, RunValues | None]:
        """Return the last run of a file of which something came: its id, and its values with those of parts run since."""
        if file.name not in self._last:
            parts: list[tuple[str, Origin]] = []
            found = None
            for stored, origin in self._kept.listed(file.path):
                if stored.state not in (FINISHED, FAILED):
                    continue
                parts.append((stored.run_id, origin))
                if not origin.only and not origin.start:
                    found = self._values_of(file, parts)
                    if found.has_results:
                        break
                    parts.pop()
            self._last[file.name] = (parts[0][0], found) if parts and found and found.has_results else ("", None)
        return self._last[file.name]

    def _values_of(self, file: OpenFile, parts: list[tuple[str, Origin]]) -> RunValues:
        """Return the values of a run, and of parts that ran after it, in the order from the newest to the run."""
        ledger = self._kept.ledger()
        assert ledger is not None  # noqa: S101 - the runs are kept
        job = ledger.job(parts[-1][0])
        values = RunValues(file.content.graph, inputs=dict(job.inputs), job=job)
        for run_id, origin in reversed(parts):
            values.graph, kept = _graph_of(file, origin), self._kept.messages(run_id)
            for event in ledger.events(run_id):
                values.apply(with_files(event, kept), origin.reused)
        return values

    async def _resume(self, request: Request) -> Response:
        run = await self._run(request)
        await json_body(request)
        return await self._go_on(run) or json_response({})

    async def _go_on(self, run: StudioRun) -> Response | None:
        """Continue a kept run that nothing drives, with the file as it is now.

        Raises:
            InputError: It has ended, a process drives it, or the workflow was changed since.
        """
        file = await asyncio.to_thread(self._find, {"path": run.file})
        if run.driven_here or run.state not in ("interrupted", "asking"):
            raise InputError(f"the run is {run.state}, and cannot go on")

        def prepared() -> tuple[Agent, Job]:
            ledger = self._kept.ledger()
            assert ledger is not None  # noqa: S101 - the run was read from there
            job = ledger.job(run.id)
            agent = self._prepare(
                file, {"only": run.origin.only, "from": run.origin.start, "model": run.origin.model}, job
            )[0]
            stored = ledger.run(run.id)
            if ledger.is_driven(stored):
                raise InputError("another process drives the run")
            try:
                differing = changes(json.loads(stored.graph), describe_workflow(agent.workflow))
            except NO_GRAPH as error:
                raise unreadable(stored) from error
            if differing:
                what = "; ".join(f"{place} {text}" for place, texts in differing.items() for text in texts)
                raise InputError(
                    f"the workflow was changed since: {what[:MOST_OF_CHANGES]}; go back to step {run.origin.step} in the "
                    "history, or run the workflow anew"
                )
            return agent, job

        return await self._start(run, file, *await asyncio.to_thread(prepared))

    async def _delete(self, request: Request) -> Response:
        run = await self._run(request)
        await json_body(request)
        if run.driven_here:
            raise InputError("the run is in progress; cancel it first")
        await asyncio.to_thread(self._kept.delete, run.id)
        await self._forget(run.id, run.file)
        self._notify(run.file)
        return json_response({})

    # Following

    async def _picture(self, request: Request) -> Response:
        return json_response((await self._run(request)).told(0))

    async def _changes(self, request: Request) -> Response:
        run = await self._run(request)
        since = whole_number(request.headers.get("last-event-id") or request.query_params.get("since", "0"))
        return EventStream(self._messages(run, since), KEEP_ALIVE)

    async def _messages(self, run: StudioRun, since: int) -> AsyncGenerator[bytes, None]:
        sent = None
        while not self._closing:
            current = run.version
            if current != sent:
                data = run.told(since)
                if sent is None:
                    data["changed"] = await asyncio.to_thread(self._changed_since, run)
                yield f"id: {data['version']}\ndata: {to_json(data)}\n\n".encode()
                since, sent = data["version"], current
                if current[1]:
                    return
            await asyncio.sleep(PACE)

    def _changed_since(self, run: StudioRun) -> list[str]:
        """Return the nodes of a run that have changed in the file since."""
        changes = difference(run.values.graph, self._find({"path": run.file}).content.graph)
        ends = [edge.target for edge in (*changes.edges_added, *changes.edges_removed)]
        return sorted({*(change.node for change in changes.changed), *ends})

    async def _answer(self, request: Request) -> Response:
        run, body = await self._run(request), await json_body(request)
        if "value" not in body:
            raise InputError("value: is missing")
        question = text(body, "interrupt_id")
        if run.driven_here:
            await run.answer(question, body["value"])
            return json_response({})

        def answered() -> bool:
            ledger = self._kept.ledger()
            if ledger is None:
                raise InputError(f"the run is {run.state}, and asks nothing")
            ledger.answer(run.id, {question: body["value"]})
            return ledger.is_driven(ledger.run(run.id))

        if await asyncio.to_thread(answered):
            return json_response({})
        try:
            return await self._go_on(run) or json_response({})
        except OperadError as error:
            raise InputError(f"the answer is kept, but the run does not go on: {error}") from error

    async def _cancel(self, request: Request) -> Response:
        run = await self._run(request)
        await json_body(request)
        was_here = run.driven_here
        await run.stop()
        if (ledger := await asyncio.to_thread(self._kept.ledger)) is not None:
            with suppress(OperadError):  # it had ended already
                await asyncio.to_thread(ledger.cancel, run.id)
            if not was_here:
                await run.read(ledger)
                self._notify(run.file)
        return json_response({})

    async def _file(self, request: Request) -> Response:
        run = await self._run(request)
        found = run.files[whole_number(request.path_params["number"])]
        if found is None:
            raise HTTPException(404, "there is no such file, or it is gone")
        return await file_response(found)

    async def _run_page(self, scope: Scope, receive: Receive, send: Send) -> None:
        run = await self._run(HTTPConnection(scope))
        await run.page.app(scope, receive, send)

    async def _values(self, file: OpenFile, run_id: str) -> RunValues | None:
        """Return the values of a run, or of the last one for an empty id; None if there is none."""
        if run_id:
            return (await self.find_run(run_id)).values
        return (await asyncio.to_thread(self._last_of, file))[1]

    async def _last_values(self, request: Request) -> Response:
        """Return what a node read and gave in the run that the request names, or in the last one; for one item if it names one."""
        file = await asyncio.to_thread(self._find, {"path": request.query_params.get("path", "")})
        node, named = request.path_params["node"], request.query_params.get("run", "")
        run_id, last = await asyncio.to_thread(self._last_of, file)
        if last is None and not named:
            return json_response({"ran": False, "inputs": {}, "outputs": None, "error": None})
        run = await self.find_run(named or run_id)
        last, shown = run.values if named or last is None else last, run.files.shown
        message = last.messages.get(node)
        outputs = None if message is None else shown(message.outputs or {"text": message.scratchpad})
        inputs = shown(read_values(last.graph, node, last.messages))
        ran = message is not None or node in last.errors
        current = last.is_current(file.content.graph, node) if message else False
        answer = {"ran": ran, "current": current, "inputs": inputs, "outputs": outputs, "error": last.errors.get(node)}
        if label := request.query_params.get("item"):
            result, around = run.items.result(node, label), last.graph.around(node)
            given = {"item": shown(run.items.given(around[0], label))} if around else {}
            failed = isinstance(result, str)
            answer |= {
                "inputs": given,
                "outputs": None if failed else shown(result),
                "error": result if failed else None,
            }
        return json_response(answer | {"items": run.items.labels(node), "more_items": run.items.is_full(node)})


def _graph_of(file: OpenFile, origin: Origin) -> NodeGraph:
    """Return the workflow as it was when a run started; as it is now if the history does not hold that step."""
    try:
        return file.at(origin.step)
    except OperadError:
        return file.content.graph


def _untrusted(file: OpenFile, error: UntrustedError) -> InputError:
    """Return the error for a file that is not trusted, with the command that trusts it."""
    return InputError(f"{told(error.capabilities)}\nread the file, then: operad trust {shlex.quote(str(file.path))}")
