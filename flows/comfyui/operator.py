"""An operator that runs a ComfyUI workflow on a server."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import JsonValue

from operad.flows.comfyui.run import outputs_of, run
from operad.flows.comfyui.server import ComfyUIError, ComfyUIServer, Output
from operad.flows.formats.comfyui import check, executable, load
from operad.flows.formats.comfyui.api import dump_nodes
from operad.flows.formats.comfyui.definitions import Definitions
from operad.flows.formats.comfyui.reading import mapping_of
from operad.flows.formats.comfyui.written import ui_of
from operad.flows.formats.json_text import MAX_BYTES
from operad.flows.node_graph import NodeGraph
from operad.operators.operator import Operator, OperatorConfig
from operad.operators.services import Services
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.knowledge.knowledge import KnowledgeBase
from operad.runtime.tools.toolkit import Toolkit
from operad.runtime.values.errors import FetchError, InputError, InvalidError, Issue, did_you_mean, shorten
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.fingerprint import fingerprint
from operad.runtime.values.message import Job, WorkflowMessage

MAX_FILES = 1_000
"""The most files that are taken of one run."""

_SUFFIX = re.compile(r"\.\w{1,10}", re.ASCII)


class ComfyUI(Operator):
    """Runs a ComfyUI workflow on a server, and fetches the files that it makes.

    What the job's inputs, and the outputs of the operators before it, call ``node.input`` takes the place of that
    input of that node: ``{"6.text": "a lighthouse"}``. A file goes to the server first: one that is such an output,
    or one of the job's that such an input names. Names without a dot are for others.

    Args:
        config: What it is.
        server: The address of the server, such as ``http://127.0.0.1:8188``. It is trusted, and may be local.
        workflow: A file in any of ComfyUI's three forms, or a graph that was loaded from one.
        folder: Where the files go; a fresh temporary folder where none is given.
        timeout: Seconds for all of it, the wait in the server's queue among it.
        max_bytes: The most that the files of a run may have together.
        toolkit: As of every operator; not used.
        knowledge_base: As of every operator; not used.

    Raises:
        InputError: `server` is no address, or there is no such file.
        InvalidError: The file is no ComfyUI workflow.
    """

    def __init__(
        self,
        config: OperatorConfig,
        *,
        server: str,
        workflow: str | Path | NodeGraph,
        folder: str | Path | None = None,
        timeout: float = 3600.0,
        max_bytes: int = 512 * 2**20,
        toolkit: Toolkit | None = None,
        knowledge_base: KnowledgeBase | None = None,
    ) -> None:
        super().__init__(config, toolkit=toolkit, knowledge_base=knowledge_base)
        if not (timeout > 0 and max_bytes > 0):
            raise InputError(f"timeout and max_bytes must be more than 0, not {timeout!r} and {max_bytes!r}")
        self._server = ComfyUIServer(server)
        self._workflow = workflow if isinstance(workflow, NodeGraph) else _loaded(workflow)
        self._services = Services(folder=Path(folder).expanduser() if folder is not None else None)
        self._timeout = timeout
        self._max_bytes = max_bytes

    def check(self, before: Mapping[str, BaseOperator]) -> list[Issue]:
        """What is wrong with the workflow, as far as it shows without a server."""
        found = check(self._workflow, Definitions())
        inside = [Issue(each.code, f"workflow: {each.where}: {each.message}", self.get_id()) for each in found]
        return [*super().check(before), *inside]

    def fingerprint(self) -> dict[str, JsonValue]:
        """What makes two of these make alike: besides what an operator has, the server and the workflow."""
        nodes = [[node.id, node.type, node.params, node.extra] for node in self._workflow.nodes]
        edges = [[edge.source, edge.port, edge.target, edge.input] for edge in self._workflow.edges]
        made = [nodes, edges, self._workflow.extra]
        return {**super().fingerprint(), "server": self._server.url, "workflow": fingerprint(made)}

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Run the workflow; only the job and the messages of the operators before it count.

        Returns:
            A message with the outputs ``files``, described, and ``texts``; its text is these texts, or else where
            the files are.

        Raises:
            InvalidError: An input is not one of the workflow, or the server refuses the workflow.
            ComfyUIError: The run failed, was interrupted at the server, got lost, took too long or made too much.
            FetchError: The server cannot be reached, or answers what it should not.
            InputError: A file cannot be read or written.
            MissingExtraError: A package is not installed.
        """
        import anyio

        given = _given(call.job, call.messages)
        try:
            with anyio.fail_after(self._timeout):
                files, texts = await self._made(given, call.job.files)
        except TimeoutError as error:
            raise ComfyUIError(
                f"operator {self.get_id()!r}: the run on {self._server.url} took longer than its `timeout` of "
                f"{self._timeout:g} s, and was withdrawn there"
            ) from error
        return WorkflowMessage(
            scratchpad="\n".join(texts or [str(file.path) for file in files]),
            outputs={"files": files, "texts": texts},
            job_id=call.job.id,
            operator_id=self.get_id(),
        )

    async def _made(
        self, given: Mapping[str, Any], files: Sequence[FileDescriptor]
    ) -> tuple[list[FileDescriptor], list[str]]:
        graph = self._workflow
        if self._is_of_the_page:
            graph = executable(graph, await self._server.definitions())
        chosen, issues = _chosen(graph, given, files)
        if issues:
            raise InvalidError(f"operator {self.get_id()!r}: the inputs do not fit the workflow", issues)
        values = {
            place: await self._server.upload(value) if isinstance(value, FileDescriptor) else value
            for place, value in chosen.items()
        }
        outputs, texts = outputs_of(await run(self._server, dump_nodes(_with(graph, values))))
        return await self._fetched(outputs), texts

    @cached_property
    def _is_of_the_page(self) -> bool:
        return any(ui_of(node) is not None for node in self._workflow.nodes)

    async def _fetched(self, outputs: Sequence[Output]) -> list[FileDescriptor]:
        if len(outputs) > MAX_FILES:
            raise ComfyUIError(
                f"operator {self.get_id()!r}: the run made {len(outputs):,} files, more than the {MAX_FILES:,} that are taken"
            )
        files: list[FileDescriptor] = []
        room = self._max_bytes
        for output in outputs:
            try:
                data = await self._server.view(output, room, self._timeout)
            except FetchError as error:
                raise FetchError(
                    f"operator {self.get_id()!r}: file {output.filename[:200]!r} of node {output.node[:100]!r} cannot be "
                    f"fetched: {error}; {len(files)} of {len(outputs)} files were, and `max_bytes` allows "
                    f"{self._max_bytes:,} bytes in all{f'; they are in {self._services.made}' if files else ''}",
                    transient=error.transient,
                ) from error
            room -= len(data)
            stem, suffix = _safe(output.filename)
            files.append(await asyncio.to_thread(self._services.write, stem, suffix, data))
        return files


def _loaded(path: str | Path) -> NodeGraph:
    file = FileDescriptor.of(path)
    if file.size > MAX_BYTES:
        raise InputError(f"{path}: has {file.size:,} bytes, and a workflow at most {MAX_BYTES:,}")
    try:
        content = file.path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    return load(content, file.name)


def _given(job: Job, messages: Sequence[WorkflowMessage]) -> dict[str, Any]:
    """What is meant for nodes; what an operator says counts more than the job."""
    given: dict[str, Any] = dict(job.inputs)
    for message in messages:
        given |= message.outputs
    return {name: value for name, value in given.items() if "." in name}


def _chosen(
    graph: NodeGraph, given: Mapping[str, Any], files: Sequence[FileDescriptor]
) -> tuple[dict[tuple[str, str], Any], list[Issue]]:
    """The values by node and input, names of files replaced by these; and what does not fit the graph."""
    inputs = {node.id: dict.fromkeys(mapping_of(node.params)) for node in graph.nodes}
    for edge in graph.edges:
        if edge.input and edge.target in inputs:
            inputs[edge.target][edge.input] = None
    chosen: dict[tuple[str, str], Any] = {}
    issues: list[Issue] = []
    for place, value in given.items():
        node_id, _, name = place.partition(".")
        if node_id not in inputs:
            hint = did_you_mean(place, [f"{each}.{known}" for each in inputs for known in inputs[each]])
            there = shorten([f"{node.id} ({node.type})" for node in graph.nodes])
            issues.append(Issue("unknown-node", f"there is no node {node_id!r}{hint}; there are: {there}", place))
        elif name not in inputs[node_id]:
            known = list(inputs[node_id])
            kind = graph.by_id[node_id].type
            what = f"{name!r} is no input of {kind}{did_you_mean(name, known)}; it has: {shorten(known) or 'none'}"
            issues.append(Issue("unknown-input", what, place))
        elif not isinstance(value, FileDescriptor) and not _is_json(value):
            issues.append(Issue("wrong-value", f"must be a file or JSON, not {type(value).__name__}", place))
        elif len(named := [file for file in files if file.name == value]) > 1:
            issues.append(Issue("ambiguous-file", f"the job has {len(named)} files of the name {value!r}", place))
        else:
            chosen[node_id, name] = named[0] if named else value
    return chosen, issues


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _with(graph: NodeGraph, values: Mapping[tuple[str, str], Any]) -> NodeGraph:
    """A graph with values in the place of inputs, and of the links that filled them."""
    nodes = [
        replace(
            node,
            params={
                **mapping_of(node.params),
                **{name: value for (node_id, name), value in values.items() if node_id == node.id},
            },
        )
        for node in graph.nodes
    ]
    edges = [edge for edge in graph.edges if (edge.target, edge.input) not in values]
    return replace(graph, nodes=nodes, edges=edges)


def _safe(filename: str) -> tuple[str, str]:
    """The stem and suffix of a name that a server gave, without folders."""
    path = PurePosixPath(filename.replace("\\", "/").replace("\0", "_"))
    if _SUFFIX.fullmatch(path.suffix):
        return path.stem, path.suffix
    return path.name, ".bin"
