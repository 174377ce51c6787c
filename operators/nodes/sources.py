"""Nodes that query external sources: google-search, knowledge-retrieval, tool."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field, JsonValue

from operad.operators.node import NodeCall, NodeOperator, NodeParams, NodeResult, TypeOf
from operad.operators.nodes.containers import run_workflow
from operad.operators.secrets import secret_uses_of
from operad.operators.variables import (
    DIFY,
    WITHOUT_FILES,
    Accepts,
    Selector,
    Text,
    Values,
    VariableType,
    as_text,
    files_in,
    plain,
)
from operad.operators.web.search import as_outputs
from operad.runtime.tools.connections import connections
from operad.runtime.tools.tool import Tool
from operad.runtime.values.blob import Blob, is_mixed
from operad.runtime.values.errors import InputError
from operad.runtime.values.function_threads import in_function_thread
from operad.runtime.values.secret import SecretUse
from operad.runtime.values.text import whole
from operad.runtime.workflow.workflow import Workflow

T = VariableType


class SearchParams(NodeParams):
    """Query of a search."""

    query: Text = Field(description="What to search the web for; variables as {{#id.variable#}}.")


class GoogleSearch(NodeOperator[SearchParams]):
    """Searches the web."""

    type = "google-search"
    params_type = SearchParams
    hint = "Searches the web."
    gives = "json (object): organic_results [{title, link, snippet}], search_results [{title, url, content, site_name, date}]"
    example = {"query": "news about {{#1.topic#}}"}

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """Return the types of its outputs."""
        return {"json": T.OBJECT}

    async def compute(self, call: NodeCall) -> Values:
        """Search the web."""
        if self.services.search is None:
            raise InputError(
                f"{self._who}: no search provider is set; for operad run, set SERPAPI_API_KEY, "
                "or services: search: in YAML; in Python, give Services(search=…)"
            )
        return {"json": as_outputs(await self.services.search.search(call.text(self.params.query)))}


class KnowledgeParams(NodeParams):
    """Query and knowledge base."""

    query: Annotated[Selector, Accepts(WITHOUT_FILES)] = Field(description="What to look up.")
    knowledge: str = Field(description="The name of the knowledge base.")


class KnowledgeRetrieval(NodeOperator[KnowledgeParams]):
    """Looks something up in a knowledge base."""

    type = "knowledge-retrieval"
    params_type = KnowledgeParams
    gives = "result (array[object]): passages, the best first, [{content, source, score}]"
    example = {"query": ["question", "1"], "knowledge": "handbook"}

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """Return the type of the passages."""
        return {"result": T.ARRAY_OBJECT}

    async def compute(self, call: NodeCall) -> Values:
        """Search the knowledge base, in a thread."""
        base = self._service("knowledge base", self.params.knowledge, self.services.knowledge, "knowledge")
        knowledge = await in_function_thread(self._who, base.retrieve, as_text(call.get(self.params.query)))
        return {"result": [{"content": p.text, "source": p.source, "score": p.score} for p in knowledge.passages]}


class ToolParams(NodeParams):
    """A tool and what to call it with."""

    tool: str = Field(description="The tool's name.")
    arguments: dict[str, Annotated[Selector | Text | JsonValue, Field(union_mode="left_to_right")]] = Field(
        default_factory=dict[str, Any],
        description="Its arguments by name: [variable, node id], a text with {{#id.variable#}}, or a value itself.",
    )


class ToolNode(NodeOperator[ToolParams]):
    """Calls a tool: a function, one of an MCP server, or a workflow."""

    type = "tool"
    params_type = ToolParams
    gives = "text (string): the result, or the answer of a workflow; json (object or list): the result if it is one, or the outputs of a workflow; files (array[file]): the files in it"
    example = {"tool": "weather", "arguments": {"city": ["city", "1"]}}

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """Return the types of its outputs."""
        return {"text": T.STRING, "json": T.ANY, "files": T.ARRAY_FILE}

    @property
    def unknown_outputs(self) -> Sequence[str]:
        """Outputs with the result of the tool."""
        return ("text", "json", "files")

    @property
    def secret_uses(self) -> Sequence[SecretUse]:
        """Secrets that the servers of the tools get."""
        return () if self.params.tool in self.services.workflows else secret_uses_of(self.services.known_tools)

    async def compute(self, call: NodeCall) -> NodeResult:
        """Call the tool, or run the workflow of this name."""
        name, workflows = self.params.tool, self.services.workflows
        if name in workflows:
            return await self._run_workflow(workflows[name], call)
        async with connections() as opened:
            tools = {tool.name: tool for tool in await opened.tools(self.services.known_tools)}
            known: Mapping[str, Any] = {**tools, **workflows}
            tool: Tool = self._service("tool", name, known, "tools")
            result = await tool.call(
                {name: self._argument_value(call, given) for name, given in self.params.arguments.items()}
            )
        files = self.services.kept_files(result, f"{self.type}-{self.get_id()}")
        if isinstance(result, Blob) or is_mixed(result):
            parts: list[str | Blob] = [result] if isinstance(result, Blob) else result
            if self._writing is DIFY:  # there, the text excludes files
                parts = [each for each in parts if isinstance(each, str)]
            result = "\n".join(map(str, parts))
        value = result
        if isinstance(result, str):
            try:
                value = whole(json.loads(result))
            except (ValueError, RecursionError):
                value = None
        text = whole(as_text(plain(result)))
        outputs: dict[str, Any] = {"text": text, "json": None, "files": files}
        if isinstance(value, dict | list):  # in Dify, tools give lists of objects
            outputs["json"] = [value] if self._writing is DIFY and isinstance(value, dict) else value
        return NodeResult(outputs)

    @property
    def runs_workflows(self) -> Sequence[Workflow]:
        """The workflow with the name of the tool, if there is one."""
        return [workflow for name, workflow in self.services.workflows.items() if name == self.params.tool]

    async def _run_workflow(self, workflow: Workflow, call: NodeCall) -> NodeResult:
        """Run a workflow as a tool: its answer becomes ``text``, its outputs become ``json``."""
        arguments = {
            name: call.get(given) if isinstance(given, Selector) else self._argument_value(call, given)
            for name, given in self.params.arguments.items()
        }
        message = await run_workflow(workflow, call, arguments)
        files = list(files_in(dict(message.outputs)))
        values = plain(dict(message.outputs))
        single = next(iter(values.values())) if len(values) == 1 else values
        text = message.scratchpad or as_text(single)  # only answer nodes write a text
        outputs = {"text": whole(text), "json": values, "files": files}
        if self._writing is DIFY:  # there, the text is that of all outputs
            outputs |= {"text": json.dumps(whole(values), ensure_ascii=False), "json": [values]}
        return NodeResult(outputs, text=text, status=message.status, parts=(message,))

    def _argument_value(self, call: NodeCall, declared: Any) -> Any:
        if isinstance(declared, Selector):
            return plain(call.get(declared))
        return call.text(declared) if isinstance(declared, Text) else declared
