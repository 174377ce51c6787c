"""Operator that runs a ComfyUI workflow on a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from operad.flows.formats.json_text import MAX_BYTES
from operad.flows.node_graph import NodeGraph
from operad.integrations.comfyui.definitions import definitions_of
from operad.integrations.comfyui.formats import check, executable, load
from operad.integrations.comfyui.formats.api import dump_nodes
from operad.integrations.comfyui.formats.definitions import Definitions
from operad.integrations.comfyui.formats.written import ui_of
from operad.integrations.comfyui.prompt import assign_values
from operad.integrations.comfyui.server import ComfyUIServer
from operad.integrations.comfyui.work import MAX_BYTES as MAX_MADE
from operad.integrations.comfyui.work import ComfyUIWork, Made, run_comfyui, time_limit
from operad.operators.config import OperatorConfig
from operad.operators.operator import Operator
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

    Inputs of the job, and outputs of preceding operators, with a name such as ``node.input`` replace that input of
    that node: ``{"6.text": "a lighthouse"}``. Files are uploaded to the server first: file outputs, and files of the
    job that such an input names. Names without a dot are ignored.

    Args:
        config: Id and other settings of the operator.
        server: Address of the server, such as ``http://127.0.0.1:8188``. It is trusted, and may be local.
        workflow: A file in any of ComfyUI's three forms, or a graph that was loaded from one.
        folder: Folder for the fetched files; by default a new temporary folder.
        timeout: Time limit in seconds, which includes the wait in the server's queue.
        max_bytes: Maximum total size of the files of a run.
        toolkit: Parameter of every operator; not used.
        knowledge_base: Parameter of every operator; not used.

    Raises:
        InputError: `server` is not an address, or the file does not exist.
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
        self._workflow = workflow if isinstance(workflow, NodeGraph) else _load_file(workflow)
        self._services = Services(folder=Path(folder).expanduser() if folder is not None else None)
        self._timeout = timeout
        self._max_bytes = max_bytes

    def check(self, before: Mapping[str, BaseOperator]) -> list[Issue]:
        """Return the issues of the workflow that can be found without a server."""
        issues = check(self._workflow, Definitions())
        own_issues = [Issue(issue.code, f"workflow: {issue.where}: {issue.message}", self.get_id()) for issue in issues]
        return [*super().check(before), *own_issues]

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return the values that identify what the operator does: those of every operator, the server, the workflow."""
        nodes = [[node.id, node.type, node.params, node.extra] for node in self._workflow.nodes]
        edges = [[edge.source, edge.port, edge.target, edge.input] for edge in self._workflow.edges]
        content = [nodes, edges, self._workflow.extra]
        return {**super().fingerprint(), "server": self._server.url, "workflow": fingerprint(content)}

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Run the workflow on the server, with the job and the messages of preceding operators as input.

        Returns:
            A message with the outputs ``files`` and ``texts``. Its text is the texts, or, without texts, the paths of
            the files.

        Raises:
            InvalidError: The workflow has no such input, or the server refuses the workflow.
            ComfyUIError: The run failed, was interrupted or lost at the server, or exceeded the time or size limit.
            FetchError: The server cannot be reached, or its answer is not valid.
            InputError: A file cannot be read or written.
            MissingExtraError: A package is not installed.
        """
        given = _node_values(call.job, call.messages)
        with time_limit(self._server, f"operator {self.get_id()!r}", self._timeout):
            files, texts = await self._run_on_server(given, call.job.files)
        return WorkflowMessage(
            scratchpad="\n".join(texts or [str(file.path) for file in files]),
            outputs={"files": files, "texts": texts},
            job_id=call.job.id,
            operator_id=self.get_id(),
        )

    async def _run_on_server(self, given: Mapping[str, Any], files: Sequence[FileDescriptor]) -> Made:
        """Run the workflow with given values of inputs; return its files and texts."""
        graph = self._workflow
        if self._is_ui_form:
            graph = executable(graph, await definitions_of(self._server))
        nodes = dump_nodes(graph)
        values, issues = assign_values(nodes, given, files)
        if issues:
            raise InvalidError(f"operator {self.get_id()!r}: the inputs do not fit the workflow", issues)
        operator_name = f"operator {self.get_id()!r}"
        work = ComfyUIWork(nodes, values, self._services.write, operator_name, self._timeout, self._max_bytes)
        return await run_comfyui(self._server, work)

    @cached_property
    def _is_ui_form(self) -> bool:
        return any(ui_of(node) is not None for node in self._workflow.nodes)


def _load_file(path: str | Path) -> NodeGraph:
    """Read a workflow from a file.

    Raises:
        InputError: The file cannot be read, or is too large.
        InvalidError: The file is not a ComfyUI workflow.
    """
    file = FileDescriptor.of(path)
    if file.size > MAX_BYTES:
        raise InputError(f"{path}: has {file.size:,} bytes; the maximum is {MAX_BYTES:,}")
    try:
        content = file.path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    return load(content, file.name)


def _node_values(job: Job, messages: Sequence[WorkflowMessage]) -> dict[str, Any]:
    """Return the values for inputs of nodes; outputs of operators override inputs of the job."""
    given: dict[str, Any] = dict(job.inputs)
    for message in messages:
        given |= message.outputs
    return {name: value for name, value in given.items() if "." in name}
