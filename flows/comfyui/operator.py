"""An operator that runs a ComfyUI workflow on a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from operad.flows.comfyui.definitions import definitions_of
from operad.flows.formats.comfyui import check, executable, load
from operad.flows.formats.comfyui.api import dump_nodes
from operad.flows.formats.comfyui.definitions import Definitions
from operad.flows.formats.comfyui.written import ui_of
from operad.flows.formats.json_text import MAX_BYTES
from operad.flows.node_graph import NodeGraph
from operad.operators.comfyui.prompt import chosen
from operad.operators.comfyui.server import ComfyUIServer
from operad.operators.comfyui.work import MAX_BYTES as MAX_MADE
from operad.operators.comfyui.work import ComfyUIWork, Made, run_comfyui, time_limit
from operad.operators.operator import Operator, OperatorConfig
from operad.operators.services import Services
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.knowledge.knowledge import KnowledgeBase
from operad.runtime.tools.toolkit import Toolkit
from operad.runtime.values.errors import InputError, InvalidError, Issue
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.fingerprint import fingerprint
from operad.runtime.values.message import Job, WorkflowMessage


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
        InputError: `server` is not an address, or there is no such file.
        InvalidError: The file is not a ComfyUI workflow.
    """

    paths = ("workflow", "folder")

    def __init__(
        self,
        config: OperatorConfig,
        *,
        server: str,
        workflow: str | Path | NodeGraph,
        folder: str | Path | None = None,
        timeout: float = 3600.0,
        max_bytes: int = MAX_MADE,
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
        """Return the issues of the workflow that can be found without a server."""
        found = check(self._workflow, Definitions())
        inside = [Issue(each.code, f"workflow: {each.where}: {each.message}", self.get_id()) for each in found]
        return [*super().check(before), *inside]

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return the values that make two of these equal: those of an operator, the server and the workflow."""
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
        given = _given(call.job, call.messages)
        with time_limit(self._server, f"operator {self.get_id()!r}", self._timeout):
            files, texts = await self._made(given, call.job.files)
        return WorkflowMessage(
            scratchpad="\n".join(texts or [str(file.path) for file in files]),
            outputs={"files": files, "texts": texts},
            job_id=call.job.id,
            operator_id=self.get_id(),
        )

    async def _made(self, given: Mapping[str, Any], files: Sequence[FileDescriptor]) -> Made:
        graph = self._workflow
        if self._is_of_the_page:
            graph = executable(graph, await definitions_of(self._server))
        nodes = dump_nodes(graph)
        values, issues = chosen(nodes, given, files)
        if issues:
            raise InvalidError(f"operator {self.get_id()!r}: the inputs do not fit the workflow", issues)
        who = f"operator {self.get_id()!r}"
        work = ComfyUIWork(nodes, values, self._services.write, who, self._timeout, self._max_bytes)
        return await run_comfyui(self._server, work)

    @cached_property
    def _is_of_the_page(self) -> bool:
        return any(ui_of(node) is not None for node in self._workflow.nodes)


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
    """Return the values for nodes; those of operators count more than those of the job."""
    given: dict[str, Any] = dict(job.inputs)
    for message in messages:
        given |= message.outputs
    return {name: value for name, value in given.items() if "." in name}
