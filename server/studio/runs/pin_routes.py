"""Pinned values, and the variables that a node reads, over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from operad.flows.check import CONVERSATION, Checker
from operad.flows.node_graph import NodeGraph, names_of
from operad.operators.nodes import NODE_TYPES
from operad.operators.variables import Selector, Variables, VariableType
from operad.runtime.values.errors import InputError, did_you_mean
from operad.runtime.values.message import WorkflowMessage
from operad.server.studio.files.open_file import OpenFile
from operad.server.studio.requests import mapping, optional_text, text
from operad.server.studio.runs.pins import PinnedValues, Pins, given_outputs, pinnable
from operad.server.studio.runs.reuse import RunValues, selectors_of, with_given
from operad.server.studio.runs.uploads import Uploads
from operad.server.studio.runs.values import Files, file_response
from operad.server.studio.unfinished import outputs_of
from operad.server.view.http import json_body, json_response, whole_number


class PinRoutes:
    """Routes of pinned values.

    Args:
        find: Function that returns the open file of a request.
        values: Function that returns the values of a run of a file, by its id, or of the last one for an empty id.
        most: Maximum size of a request with files, in bytes.
        notify: Function that tells the open pages that the values of a file have changed.

    Attributes:
        routes: The routes.
    """

    def __init__(
        self,
        find: Callable[[dict[str, Any]], OpenFile],
        pins: Pins,
        uploads: Uploads,
        values: Callable[[OpenFile, str], Awaitable[RunValues | None]],
        most: int,
        notify: Callable[[str], None],
    ) -> None:
        self._find = find
        self._pins = pins
        self._uploads = uploads
        self._values = values
        self._most = most
        self._notify = notify
        self._files: dict[str, Files] = {}
        self.routes = (
            Route("/data/pins", self._list),
            Route("/data/pins", self._pin, methods=["POST"]),
            Route("/data/pins/{path:path}/{number:int}", self._file),
            Route("/data/reads/{node:path}", self._reads),
        )

    async def _list(self, request: Request) -> Response:
        """Return the pinned values of a file, with those that are not used and the nodes whose values were dropped."""
        file = await asyncio.to_thread(self._find, dict(request.query_params))
        return json_response(await asyncio.to_thread(self._shown, file))

    def _shown(self, file: OpenFile) -> dict[str, Any]:
        found = self._pins.of(file.path, file.content.graph) if file.content.format else PinnedValues({}, {}, ())
        files = self._files[file.name] = Files(f"data/pins/{quote(file.name)}/")
        return {
            "pins": {node: files.shown(message.outputs) for node, message in found.messages.items()},
            "faults": found.faults,
            "dropped": found.dropped,
        }

    async def _pin(self, request: Request) -> Response:
        """Pin the values of a node: those given, over those that it has or had in a run; or unpin it."""
        body = await json_body(request, self._most)
        file, node = await asyncio.to_thread(self._find, body), text(body, "node")
        values = await self._values(file, optional_text(body, "run"))

        def changed() -> dict[str, Any]:
            graph = file.content.graph
            if body.get("unpin") is True:
                self._pins.put(file.path, node, None)
            else:
                message = self._pins.of(file.path, graph).messages.get(node) if body.get("outputs") else None
                message = message or (values.messages.get(node) if values else None)
                self._pins.pin(file.path, graph, node, self._edited(graph, node, message, mapping(body, "outputs")))
            return self._shown(file)

        told = await asyncio.to_thread(changed)
        self._notify(file.name)
        return json_response(told)

    def _edited(
        self, graph: NodeGraph, node: str, message: WorkflowMessage | None, given: Mapping[str, Any]
    ) -> WorkflowMessage:
        spec = pinnable(graph, node)
        if message is None and not given:
            raise InputError(f"{names_of(graph)[node]} has not run yet; give its values, or run it first")
        declared = outputs_of(Checker(graph, NODE_TYPES), spec)
        outputs = {**(message.outputs if message else {}), **given_outputs(given, declared, self._uploads)}
        kept = {name: value for name, value in outputs.items() if name in declared}
        answer = message.answer if message else None
        said = kept.get("text", kept.get(answer or ""))
        written = {"scratchpad": said} if given and isinstance(said, str) else {}
        before = message or WorkflowMessage(operator_id=node)
        return before.model_copy(update={"outputs": kept, **written})

    async def _file(self, request: Request) -> Response:
        files = self._files.get(request.path_params["path"])
        found = files[whole_number(str(request.path_params["number"]))] if files else None
        if found is None:
            raise HTTPException(404, "there is no such file, or it is gone")
        return await file_response(found)

    async def _reads(self, request: Request) -> Response:
        """Return the variables that a node reads, with their types and their pinned or last values."""
        file = await asyncio.to_thread(self._find, dict(request.query_params))
        node, run = request.path_params["node"], request.query_params.get("run", "")
        values = await self._values(file, run)

        def found() -> list[dict[str, Any]]:
            graph = file.content.graph
            pinned = self._pins.of(file.path, graph).messages
            known = with_given(graph, node, values, pinned)
            messages = {
                **known.messages,
                **{each: known.items[each] for each in graph.around(node) if each in known.items},
            }
            return list(_rows(graph, node, messages))

        return json_response({"variables": await asyncio.to_thread(found)})


def _rows(graph: NodeGraph, node: str, messages: Mapping[str, WorkflowMessage]) -> Iterator[dict[str, Any]]:
    checker, names = Checker(graph, NODE_TYPES), names_of(graph)
    variables = Variables(message.model_copy(update={"operator_id": known}) for known, message in messages.items())
    for selector in selectors_of(graph, node):
        if selector.node not in graph.by_id or selector.node in (CONVERSATION, node):
            continue
        value = variables.get(selector)
        yield {
            "reference": str(selector),
            "name": selector.variable,
            "title": names[selector.node],
            "type": _type_of(graph, checker, node, selector).value,
            "value": None if Files.has_file(value) else Files("").shown(value),
            "has_file": Files.has_file(value),
        }


def _type_of(graph: NodeGraph, checker: Checker, node: str, selector: Selector) -> VariableType:
    """Return the type of a variable that a node reads; of a part of an object, any."""
    around = selector.node in graph.around(node)
    spec = graph.by_id[selector.node]
    declared = checker.inner.get(selector.node, {}) if around else outputs_of(checker, spec)
    return declared.get(selector.variable, VariableType.ANY)


def given_messages(
    graph: NodeGraph, node: str, given: Mapping[str, Any], uploads: Uploads
) -> dict[str, WorkflowMessage]:
    """Return messages for the variables of a node that a browser gives, by the nodes that they are of.

    Args:
        given: Values by the variables, such as ``{"1.letter": "…"}``.

    Raises:
        InputError: The node does not read a variable, or a value is of another type; all are named.
    """
    selectors = {str(selector): selector for selector in selectors_of(graph, node)}
    unknown = [name for name in given if name not in selectors]
    if unknown:
        raise InputError(
            f"{names_of(graph).get(node, node)} reads no {unknown[0]!r}{did_you_mean(unknown[0], selectors)}"
        )
    checker = Checker(graph, NODE_TYPES)
    types = {name: _type_of(graph, checker, node, selectors[name]) for name in given}
    outputs: dict[str, dict[str, Any]] = {}
    for name, value in given_outputs(given, types, uploads).items():
        outputs.setdefault(selectors[name].node, {})[selectors[name].variable] = value
    return {each: WorkflowMessage(outputs=values, operator_id=each) for each, values in outputs.items()}
