"""Changes by instructions: the stream of a designer's run, and its draft, accepted or dropped, whole or in parts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from operad.configs.expert_generation import ExpertDesign, ExpertDesigner, expert_offer
from operad.configs.generation import NOTHING, Design, Designer
from operad.evaluators.design import REVIEWED
from operad.flows.edit import difference
from operad.flows.formats.shapes import fields_of, list_of
from operad.flows.generation.asking import WorkflowPlan, in_words
from operad.flows.generation.graph_json import workflow_of
from operad.flows.generation.offer import offer_of
from operad.flows.generation.plan import read_plan
from operad.flows.node_graph import Edge, NodeGraph
from operad.operators.services import Services
from operad.runtime import events
from operad.runtime.models.addresses import without_key
from operad.runtime.models.embedded import EmbeddedModel
from operad.runtime.models.model import Model
from operad.runtime.reasoning.reasoner import MonoModelReasoner
from operad.runtime.values.errors import BudgetError, InputError, OperadError, OperatorError, describe
from operad.runtime.values.message import WorkflowMessage, WorkflowStatus
from operad.runtime.values.valid_json import to_json
from operad.server.http.streams import EventStream
from operad.server.studio.experts.graph import graph_of
from operad.server.studio.file_json import changes_json, document
from operad.server.studio.files.new_files import is_new_expert
from operad.server.studio.files.open_file import OpenFile, ReadonlyError, StaleError
from operad.server.studio.requests import number, optional_text, text
from operad.server.view.http import json_body, json_response
from operad.server.view.run_page import KEEP_ALIVE

MAX_WORDS = 50_000
"""Maximum number of characters of an instruction."""

MISSING = (
    "no model is configured: set OPENAI_API_KEY, or OPENAI_BASE_URL and OPERAD_MODEL, in the environment, and start "
    "operad studio again"
)
TOO_SMALL = "the embedded model is too small to plan workflows"

_STAGES = {
    "plan": "Planning the nodes",
    "mend": "Looking over the draft",
}

_OF_PLANNING = events.OperatorStarted | events.ModelRetried
"""Events to report while only a plan is made, which is shown as a whole."""


@dataclass(frozen=True)
class Draft:
    """A generated workflow that is not accepted yet.

    Attributes:
        version: Version of the file that it changes.
        words: The instruction.
        data: Of experts, the text of the file.
    """

    version: int
    graph: NodeGraph
    words: str
    data: bytes | None = None


@dataclass(frozen=True)
class Shown:
    """A plan that is shown, and not built yet.

    Attributes:
        version: Version of the file that it changes.
        draft: The draft that it changes; None for the file.
        words: The instruction.
    """

    version: int
    draft: Draft | None
    words: str
    plan: WorkflowPlan


def model_state(model: Model | None) -> dict[str, Any]:
    """Return the model, whether it can generate workflows, and what is missing."""
    try:
        reasoner = MonoModelReasoner(model)
        reasoner.check_model()
        if isinstance(reasoner.model, EmbeddedModel):
            return {"configured": False, "name": reasoner.describe(), "missing": f"{TOO_SMALL}; {MISSING}"}
        return {"configured": True, "name": reasoner.describe(), "missing": ""}
    except OperadError:
        return {"configured": False, "name": "", "missing": MISSING}


class Chats:
    """Changes of files by instructions in words.

    Args:
        find: Function that returns the open file of a request.
        tell: Function to call with a changed file.
        model: The model; None for that of the environment.
        services: Function that returns the services that workflows may use.

    Attributes:
        routes: The routes.
    """

    def __init__(
        self,
        find: Callable[[dict[str, Any]], OpenFile],
        tell: Callable[[OpenFile], None],
        model: Model | None,
        services: Callable[[], Services],
    ) -> None:
        self._find = find
        self._tell = tell
        self._model = model
        self._services = services
        self._drafts: dict[str, Draft] = {}
        self._plans: dict[str, Shown] = {}
        self.routes = (
            Route("/data/chat", self._chat, methods=["POST"]),
            Route("/data/chat", self._shown_draft),
            Route("/data/chat/accept", self._accept, methods=["POST"]),
            Route("/data/chat/part", self._part, methods=["POST"]),
            Route("/data/chat/undo", self._undo, methods=["POST"]),
        )

    async def _chat(self, request: Request) -> Response:
        body = await json_body(request)
        file = await asyncio.to_thread(self._find, body)
        version, builds = number(body, "version"), "answers" in body
        shown = self._plans.get(file.name) if body.get("seen") is True else None
        shown = shown if shown and shown.version == version else None
        if builds and shown is None:
            raise InputError("there is no plan of this version of the file: plan it again")
        answers = [str(answer) for answer in list_of(body.get("answers"))]
        words = shown.words if builds and shown else text(body, "text").strip()
        if not words:
            raise InputError("describe the workflow, or the change")
        if (length := len("".join([words, *answers]))) > MAX_WORDS:
            raise InputError(f"the instruction has {length:,} characters; the maximum is {MAX_WORDS:,}")
        file.refresh()
        if version != file.version:
            raise StaleError(file, version)
        if file.readonly:
            raise ReadonlyError(f"{file.name} {file.readonly}")
        state = model_state(self._model)
        if not state["configured"]:
            raise InputError(state["missing"])
        draft = self._drafts.get(file.name) if body.get("draft") is True else None
        if file.content.format is None:
            return EventStream(_lines_of(self._design_expert(file, version, words, draft)), KEEP_ALIVE)
        if builds and shown:
            plan = shown.plan.answered(*answers)
            return EventStream(_lines_of(self._design(file, version, words, shown.draft, plan)), KEEP_ALIVE)
        if body.get("plan") is True:
            return EventStream(_lines_of(self._plan(file, version, words, draft, shown)), KEEP_ALIVE)
        return EventStream(_lines_of(self._design(file, version, words, draft)), KEEP_ALIVE)

    async def _designer(self, file: OpenFile) -> Designer:
        format_name = file.content.format.name if file.content.format else "operad"
        offer = await offer_of(await asyncio.to_thread(self._services), format_name)
        return await asyncio.to_thread(partial(Designer, self._model, offer=offer))

    async def _plan(
        self, file: OpenFile, version: int, words: str, draft: Draft | None, shown: Shown | None
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Plan an instruction, or change the plan that is shown, and yield messages, the last with the plan."""
        if shown:
            words, draft = "\n".join([shown.words, *shown.plan.decisions, words]), shown.draft
        base = _base(draft.graph if draft else file.content.graph)
        plan = WorkflowPlan()
        try:
            designer = await self._designer(file)
            job = designer.job_of_plan(words, base, shown.plan if shown else None)
            async with aclosing(designer.planner.stream(job)) as stream:
                async for event in stream:
                    for message in _messages_for(event) if isinstance(event, _OF_PLANNING) else ():
                        yield message
                    if isinstance(event, events.RunFinished) and not event.path:
                        plan = await asyncio.to_thread(designer.plan_in, event.message, job, base)
        except OperadError as error:
            yield {"kind": "error", "text": describe(error)}
            return
        if not plan.steps:
            yield {"kind": "error", "text": "; ".join(plan.lines)}
            return
        self._plans[file.name] = Shown(version, draft, words, plan)
        questions = [{"text": question.text, "default": question.default} for question in plan.questions]
        yield {"kind": "plan", "lines": plan.lines, "questions": questions}

    async def _design(
        self, file: OpenFile, version: int, words: str, draft: Draft | None, plan: WorkflowPlan | None = None
    ) -> AsyncGenerator[dict[str, Any], None]:
        original = file.content.graph
        base = _base(draft.graph if draft else original)
        try:
            designer = await self._designer(file)
            job = designer.job(words, base) if plan is None else designer.job_with_plan(words, base, plan)
            design: Design | None = None
            try:
                async with aclosing(designer.expert.stream(job)) as stream:
                    said = set[str]()  # several stages check the draft, and report it again
                    async for event in stream:
                        for message in _messages_for(event):
                            if message["text"] not in said:
                                yield message
                            said.add(message["text"])
                        if isinstance(event, events.RunFinished) and not event.path:
                            design = designer.result(event.message, job, base)
            except (BudgetError, OperatorError) as error:
                design = designer.best_so_far(error, job, base)
        except OperadError as error:
            yield {"kind": "error", "text": describe(error)}
            return
        if design is None or not design.made:
            said = design.findings if design else ()
            yield {
                "kind": "error",
                "text": "; ".join(said) or "the model returned no workflow; rephrase the instruction",
            }
            return
        graph = replace(design.graph, name=original.name if base is NOTHING else design.graph.name)
        said = graph.instructions[-1]  # without keys
        self._drafts[file.name] = Draft(version, graph, f"{draft.words} {said}" if draft else said)
        self._plans.pop(file.name, None)
        for message in _remarks(design):
            yield message
        yield await asyncio.to_thread(_draft_message, file, graph)

    async def _design_expert(
        self, file: OpenFile, version: int, words: str, draft: Draft | None
    ) -> AsyncGenerator[dict[str, Any], None]:
        data = (draft.data if draft else None) or file.content.data
        services = await asyncio.to_thread(self._services)
        async with aclosing(_design_expert(file, data, words, self._model, services)) as messages:
            async for message in messages:
                if isinstance(message, dict):
                    yield message
                    continue
                graph = await asyncio.to_thread(graph_of, message, file.path)
                said = f"{draft.words} {words}" if draft else words
                self._drafts[file.name] = Draft(version, graph, without_key(said, ""), message)
                yield await asyncio.to_thread(_draft_message, file, graph, message)

    async def _shown_draft(self, request: Request) -> Response:
        """Return the draft that waits to be accepted, for a page that was reloaded."""

        def found() -> dict[str, Any]:
            file = self._find(dict(request.query_params))
            draft = self._drafts.get(file.name)
            return _draft_message(file, draft.graph, draft.data) if draft and draft.version == file.version else {}

        return json_response(await asyncio.to_thread(found))

    async def _accept(self, request: Request) -> Response:
        body = await json_body(request)

        def accept() -> tuple[OpenFile, dict[str, Any]]:
            file = self._find(body)
            draft = self._drafts.get(file.name)
            if draft is None:
                raise InputError("there is no draft to accept")
            file.replace(draft.version, draft.data or draft.graph, draft.words, "chat")
            del self._drafts[file.name]
            return file, document(file)

        file, result = await asyncio.to_thread(accept)
        self._tell(file)
        return json_response(result)

    async def _part(self, request: Request) -> Response:
        """Accept or refuse one change of the draft: that of a node, or of an edge; return the file and what is left of the draft."""
        body = await json_body(request)
        accepted, node, edge = body.get("accept") is True, optional_text(body, "node"), list_of(body.get("edge"))

        def with_part(graph: NodeGraph, other: NodeGraph) -> NodeGraph:
            if node:
                return with_node_of(graph, other, node)
            match edge:
                case [str(source), int(port), str(target)]:
                    return with_edge_of(graph, other, source, port, target)
                case _:
                    raise InputError("node or edge: is missing")

        def decide() -> tuple[OpenFile, dict[str, Any]]:
            file = self._find(body)
            draft = self._drafts.get(file.name)
            if draft is None:
                raise InputError("there is no draft")
            if draft.data is not None:
                raise InputError("changes of experts are accepted as a whole")
            graph = file.content.graph
            if accepted:
                file.replace(draft.version, with_part(graph, draft.graph), draft.words, "chat")
                draft = replace(draft, version=file.version)
            else:
                draft = replace(draft, graph=with_part(draft.graph, graph))
            self._drafts[file.name] = draft
            if not difference(file.content.graph, draft.graph):
                del self._drafts[file.name]
            left = _draft_message(file, draft.graph) if file.name in self._drafts else None
            return file, {"document": document(file), "draft": left}

        file, result = await asyncio.to_thread(decide)
        if accepted:
            self._tell(file)
        return json_response(result)

    async def _undo(self, request: Request) -> Response:
        """Drop the draft; without a draft, undo the last step if it came from the chat."""
        body = await json_body(request)

        def undo() -> tuple[OpenFile, dict[str, Any]]:
            file = self._find(body)
            self._plans.pop(file.name, None)
            if self._drafts.pop(file.name, None) is None:
                if file.history.step is None or file.history.step.kind != "chat":
                    raise InputError("there is no draft, and the last step is not one of the chat")
                file.undo(file.version)
            return file, document(file)

        file, result = await asyncio.to_thread(undo)
        self._tell(file)
        return json_response(result)


async def _lines_of(messages: AsyncGenerator[dict[str, Any], None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(messages):
        async for message in messages:
            yield f"data: {to_json(message)}\n\n".encode()
    yield f"data: {to_json({'kind': 'done'})}\n\n".encode()


def _draft_message(file: OpenFile, graph: NodeGraph, data: bytes | None = None) -> dict[str, Any]:
    drawn = document(file, replace(file.content, graph=graph, data=data or file.content.data))
    return {"kind": "draft", "document": drawn, "changes": changes_json(difference(file.content.graph, graph))}


def _base(graph: NodeGraph) -> NodeGraph:
    """Return the workflow to change; `NOTHING` if it has only a start without inputs, as in a new file."""
    is_empty = all(node.type == "start" and not fields_of(node.params).get("variables") for node in graph.nodes)
    return NOTHING if is_empty else graph


def _messages_for(event: events.Event) -> Iterator[dict[str, Any]]:
    """Yield the messages for an event of the design."""
    if len(event.path) > 1:
        return
    match event:
        case events.OperatorStarted():
            stage = next(
                (title for prefix, title in _STAGES.items() if event.operator_id.startswith(prefix)), "Checking"
            )
            round_text = f", round {event.round}" if event.round > 1 else ""
            yield {"kind": "stage", "text": f"{stage}{round_text}"}
        case events.OperatorFinished() if event.operator_id.startswith("plan"):
            plan = fields_of(event.message.outputs.get("plan"))
            words = "\n".join(in_words(read_plan(plan))) if plan else event.message.scratchpad
            yield {"kind": "note", "text": words[:4_000]}
        case events.OperatorFinished() if "stage" in event.message.outputs:
            yield _verdict_message(event.message)
        case events.OperatorFinished():
            graph = workflow_of(event.message.outputs)
            if graph is not None:
                yield {"kind": "size", "text": f"A draft of {len(graph.nodes)} nodes"}
        case events.ModelRetried():
            yield {"kind": "note", "text": f"the model's endpoint: {event.error[:200]}; asked again"}
        case _:
            pass


def _verdict_message(verdict: WorkflowMessage) -> dict[str, Any]:
    """Return the message for a verdict on a draft: its findings, or the checks that found nothing."""
    if verdict.status is not WorkflowStatus.SUCCESS:
        # The lesson is an instruction to the model; a person reads what was found.
        text = (
            "\n".join(map(str, list_of(verdict.outputs.get("findings")))) or verdict.lesson or verdict.evaluation or ""
        )
        return {"kind": "check", "text": text[:4_000], "ok": False}
    checks = list_of(verdict.outputs.get("checks"))
    text = f"No issues found ({', '.join(checks)})"
    if REVIEWED not in checks:
        text += ". The draft was not reviewed against your request"
    return {"kind": "check", "text": text, "ok": True}


def _remarks(design: Design) -> Iterator[dict[str, Any]]:
    yield from ({"kind": "note", "text": f"Mended: {each}"} for each in design.repairs)
    yield from ({"kind": "note", "text": each} for each in design.notes)
    yield from ({"kind": "note", "text": f"dropped: {each}"} for each in design.dropped_notes)
    yield from ({"kind": "note", "text": f"Warning: {each}"} for each in design.warnings)
    yield from ({"kind": "note", "text": f"Unread: {each}"} for each in design.unread)
    yield from ({"kind": "note", "text": f"Not tried: {each}"} for each in design.not_tried)
    yield from ({"kind": "check", "text": f"Left to mend: {each}", "ok": False} for each in design.findings)


def with_node_of(graph: NodeGraph, other: NodeGraph, node: str) -> NodeGraph:
    """Return a workflow in which a node, all that is inside it, and its edges are as in another workflow.

    Containers that it needs come with it. Edges between its neighbours are those of the other workflow, too: one that
    the node was put into, or that closes the gap that it leaves. Edges to nodes that are missing are left out.
    """
    inside = {each.id for one in (graph, other) for each in one.nodes if node in (each.id, *one.around(each.id))}
    inside |= {each for each in other.around(node) if each not in graph.by_id}
    nodes = [other.by_id.get(each.id) if each.id in inside else each for each in graph.nodes]
    nodes += [each for each in other.nodes if each.id in inside and each.id not in graph.by_id]
    kept = [each for each in nodes if each is not None]
    ids = {each.id for each in kept}
    around = {
        end
        for edge in (*graph.edges, *other.edges)
        if inside & {edge.source, edge.target}
        for end in (edge.source, edge.target)
    }
    edges = [each for each in graph.edges if not {each.source, each.target} <= around]
    edges += [each for each in other.edges if {each.source, each.target} <= around & ids]
    return replace(graph, nodes=kept, edges=edges)


def with_edge_of(graph: NodeGraph, other: NodeGraph, source: str, port: int, target: str) -> NodeGraph:
    """Return a workflow that has an edge if another workflow has it and both of its nodes are there."""

    def is_it(edge: Edge) -> bool:
        return (edge.source, edge.port, edge.target) == (source, port, target)

    edges = [each for each in graph.edges if not is_it(each)]
    if {source, target} <= set(graph.by_id):
        edges += [each for each in other.edges if is_it(each)]
    return replace(graph, edges=edges)


async def _design_expert(
    file: OpenFile, data: bytes, words: str, model: Model | None, services: Services
) -> AsyncGenerator[dict[str, Any] | bytes]:
    """Write or change a file of experts, and yield messages; at the end the new file, if there is one.

    Args:
        data: The file, or the draft that is changed.
    """
    base = "" if is_new_expert(data) else data.decode("utf-8-sig")
    design: ExpertDesign | None = None
    try:
        designer = ExpertDesigner(model, offer=await expert_offer(services), file=str(file.path))
        job = await designer.job(words, base)
        async with aclosing(designer.expert.stream(job)) as stream:
            async for event in stream:
                for text in _expert_stages(event):
                    yield {"kind": "stage", "text": text}
                if isinstance(event, events.RunFinished) and not event.path:
                    design = designer.result(event.message, base)
    except OperadError as error:
        yield {"kind": "error", "text": describe(error)}
        return
    if design is None or not design.text:
        said = [*design.findings, *design.left_out] if design else []
        yield {"kind": "error", "text": "; ".join(said) or "the model returned no expert; rephrase the instruction"}
        return
    for message in _expert_remarks(design):
        yield message
    yield design.text.encode()


def _expert_stages(event: events.Event) -> Iterator[str]:
    if isinstance(event, events.OperatorStarted) and len(event.path) == 1:
        yield f"Writing the expert{f', round {event.round}' if event.round > 1 else ''}"
    elif isinstance(event, events.ModelRetried):
        yield f"the model's endpoint: {event.error[:200]}; asked again"


def _expert_remarks(design: ExpertDesign) -> Iterator[dict[str, Any]]:
    yield from ({"kind": "note", "text": f"Corrected: {each}"} for each in design.corrected)
    yield from ({"kind": "note", "text": each} for each in design.notes)
    yield from ({"kind": "note", "text": f"Neither input nor output: {each}"} for each in design.neither)
    yield from ({"kind": "note", "text": f"No longer an input or output: {each}"} for each in design.gone)
    yield from ({"kind": "check", "text": f"Left out: {each}", "ok": False} for each in design.left_out)
    yield from ({"kind": "check", "text": f"Left to mend: {each}", "ok": False} for each in design.findings)
