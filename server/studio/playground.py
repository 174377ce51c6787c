"""Trials of prompts: a node runs alone on the values of its last run, with other prompts and models; nothing is written."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from operad.flows.edit import SetParam, apply
from operad.flows.formats.shapes import fields_of, list_of
from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.operators.nodes import NODE_TYPES
from operad.runtime.models.resolve import resolve_model
from operad.runtime.reasoning.reasoner import SoleReasoner
from operad.runtime.values.errors import InputError, InvalidError, describe, did_you_mean
from operad.runtime.values.message import NO_USAGE
from operad.server.studio.experts.edits import edited
from operad.server.studio.experts.graph import EVALUATOR, OPERATOR, graph_of
from operad.server.studio.files.open_file import Content, OpenFile
from operad.server.studio.palette import catalogue
from operad.server.studio.requests import mapping, text
from operad.server.studio.runs.reuse import read_values
from operad.server.studio.runs.routes import Runs
from operad.server.studio.runs.run import usage_json
from operad.server.studio.runs.values import Files
from operad.server.view.http import json_body, json_response

MOST_MODELS = 2
"""Maximum number of models that are asked at once."""


class Playground:
    """Trials of the nodes of files.

    Args:
        find: Function that returns the open file of a request.
        runs: Runs of the studio, whose last values the trials read.

    Attributes:
        routes: The routes.
    """

    def __init__(self, find: Callable[[dict[str, Any]], OpenFile], runs: Runs) -> None:
        self._find = find
        self._runs = runs
        self.routes = (Route("/data/try", self._offer), Route("/data/try", self._try, methods=["POST"]))

    async def _offer(self, request: Request) -> Response:
        """Return the prompts of a node, and what it read in the last run."""
        named = dict(request.query_params)

        def offered() -> dict[str, Any]:
            file, node = self._find(named), text(named, "node")
            graph, last = file.content.graph, self._runs.last_of(self._find(named))
            fields = [{"name": name, "value": value} for name, value in _prompts(graph, node)]
            read = {} if last is None else read_values(last.graph, node, last.messages)
            job = last.job.goal if last and last.job and file.content.format is None else ""
            return {"fields": fields, "read": Files("").shown(read), "job": job, "ran": last is not None}

        return json_response(await asyncio.to_thread(offered))

    async def _try(self, request: Request) -> Response:
        body = await json_body(request)
        models = [str(each).strip() for each in list_of(body.get("models"))]
        if not 1 <= len(models) <= MOST_MODELS:
            raise InputError(f"models: name one or {MOST_MODELS}")
        file = await asyncio.to_thread(self._find, body)
        node, values = text(body, "node"), mapping(body, "values")
        content = await asyncio.to_thread(_with_prompts, file, node, values)
        tried = await asyncio.gather(*(self._tried(file, node, content, model) for model in models))
        return json_response({"tried": tried})

    async def _tried(self, file: OpenFile, node: str, content: Content, model: str) -> dict[str, Any]:
        """Return what a node gave with a model, and what that took; a failure is a result like others."""
        began, output, error, usage, name = time.monotonic(), None, "", NO_USAGE, model
        try:
            agent, job = await asyncio.to_thread(self._runs.prepare_part, file, node, "", content)
            reasoner = SoleReasoner(resolve_model(model)) if model else agent.reasoner
            describe_model = getattr(reasoner, "describe", None)
            name = model or (describe_model() if callable(describe_model) else "")
            message = await agent.workflow.aexecute(job, reasoner)
            output, usage = message.outputs or {"text": message.evaluation or message.scratchpad}, message.usage
        except InvalidError as fault:
            error = "; ".join(f"{issue.where}: {issue.message}" for issue in fault.issues)
        except Exception as fault:  # noqa: BLE001 - the error is shown in the browser
            error = describe(fault)
        return {
            "model": name,
            "output": None if output is None else Files("").shown(output),
            "error": error,
            "seconds": time.monotonic() - began,
            "usage": usage_json(usage),
        }


def _spec(graph: NodeGraph, node: str) -> NodeSpec:
    if node not in graph.by_id:
        raise InputError(f"there is no node {node!r}{did_you_mean(node, graph.by_id)}")
    return graph.by_id[node]


def _prompts(graph: NodeGraph, node: str) -> Iterator[tuple[str, str]]:
    """Yield the prompts of a node that asks a model: their paths and texts.

    Raises:
        InputError: The node does not exist, or asks no model.
    """
    spec = _spec(graph, node)
    params = fields_of(spec.params)
    if spec.type in (OPERATOR, EVALUATOR):
        if not isinstance(params.get("instruction"), str):
            raise InputError(f"{node!r} has no instruction; it is a function, or defined elsewhere")
        yield "instruction", params["instruction"]
        return
    entry = next((each for each in catalogue() if each["type"] == spec.type), dict[str, Any]())
    schema = fields_of(fields_of(entry.get("schema")).get("properties"))
    if "model_name" not in schema:
        raise InputError(f"node {node!r} asks no model; try a node that has a prompt")
    if messages := list_of(params.get("messages")):
        for number, message in enumerate(messages):
            if isinstance(message, dict):
                yield f"messages[{number}].text", str(fields_of(message).get("text", ""))
            else:  # role, text
                yield f"messages[{number}][1]", str(list_of(message)[1])
        return
    for name, part in schema.items():
        if fields_of(part).get("x-editor") == "prompt":
            yield name, str(params.get(name) or "")


def _with_prompts(file: OpenFile, node: str, values: dict[str, Any]) -> Content:
    """Return the content of a file with other prompts of a node, which is not written."""
    known = dict(_prompts(file.content.graph, node))
    for name, value in values.items():
        if name not in known:
            raise InputError(f"values: {node!r} has no prompt {name!r}{did_you_mean(name, known)}")
        if not isinstance(value, str):
            raise InputError(f"values: {name}: expected a text")
    changes = [SetParam(node=node, path=name, value=value) for name, value in values.items() if value != known[name]]
    if not changes:
        return file.content
    if file.content.format is not None:
        return replace(file.content, graph=apply(file.content.graph, changes, NODE_TYPES).graph)
    data = edited(file.content.data, changes, file.path)
    return replace(file.content, data=data, graph=graph_of(data, file.path))
