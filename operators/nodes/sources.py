"""Nodes that look things up outside: http-request, google-search, knowledge-retrieval, tool."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, JsonValue

from operad.operators.node import NodeCall, NodeError, NodeOperator, NodeParams, NodeResult, TypeOf
from operad.operators.variables import (
    WITHOUT_FILES,
    Accepts,
    Selector,
    Text,
    Values,
    VariableType,
    as_text,
    plain,
    shown,
    type_of,
    whole,
)
from operad.operators.web.search import as_outputs
from operad.runtime.tools.connections import connections
from operad.runtime.values.errors import InputError, did_you_mean
from operad.runtime.values.file import suffix_of

T = VariableType


class HttpParams(NodeParams):
    """An address."""

    url: Annotated[Selector, Accepts((T.STRING,))] = Field(
        description="The address: [variable, node id]; it is fetched by GET."
    )


class HttpRequest(NodeOperator[HttpParams]):
    """Fetches an address of the web."""

    type = "http-request"
    params_type = HttpParams
    gives = "body (string), status_code (number), headers (object), files (array[file]: what is no text)"
    example = {"url": ["link", "1"]}

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """The answer."""
        return {"body": T.STRING, "status_code": T.NUMBER, "headers": T.OBJECT, "files": T.ARRAY_FILE}

    async def compute(self, call: NodeCall) -> Values:
        """Fetch it."""
        url = call.get(self.params.url)
        if not isinstance(url, str) or not url.strip():
            raise NodeError(
                f"node {self.get_id()!r} (http-request): variable {str(self.params.url)!r} is {type_of(url)}, "
                f"and an address is needed: {shown(url)}"
            )
        fetched = await self.services.fetch(url, self.services.guard)
        made: dict[str, Any] = {"status_code": fetched.status, "headers": dict(fetched.headers), "files": []}
        if _is_text(fetched.content_type):
            return {"body": fetched.text(), **made}
        file = self.services.write(f"{self.type}-{self.get_id()}", suffix_of(fetched.content_type), fetched.body)
        return {"body": "", **made, "files": [file]}


def _is_text(content_type: str) -> bool:
    main, _, sub = content_type.partition("/")
    return main in ("", "text") or any(word in sub for word in ("json", "xml", "javascript", "yaml", "urlencoded"))


class SearchParams(NodeParams):
    """What to search."""

    query: Text = Field(description="What to search the web for; variables as {{#id.variable#}}.")


class GoogleSearch(NodeOperator[SearchParams]):
    """Searches the web."""

    type = "google-search"
    params_type = SearchParams
    gives = "json (object): organic_results [{title, link, snippet}], search_results [{title, url, content, site_name, date}]"
    example = {"query": "news about {{#1.topic#}}"}

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """What was found."""
        return {"json": T.OBJECT}

    async def compute(self, call: NodeCall) -> Values:
        """Search."""
        if self.services.search is None:
            raise InputError(
                f"node {self.get_id()!r} (google-search): nobody searches the web; for operad run, set SERPAPI_API_KEY, "
                "or services: search: in YAML; in Python, give Services(search=…)"
            )
        return {"json": as_outputs(await self.services.search.search(call.text(self.params.query)))}


class KnowledgeParams(NodeParams):
    """What to look up, and where."""

    query: Annotated[Selector, Accepts(WITHOUT_FILES)] = Field(description="What to look up: [variable, node id].")
    knowledge: str = Field(description="The name of the knowledge base.")


class KnowledgeRetrieval(NodeOperator[KnowledgeParams]):
    """Looks something up in a knowledge base."""

    type = "knowledge-retrieval"
    params_type = KnowledgeParams
    gives = "result (array[object]): passages, the best first, [{content, source, score}]"
    example = {"query": ["question", "1"], "knowledge": "handbook"}

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """The passages."""
        return {"result": T.ARRAY_OBJECT}

    async def compute(self, call: NodeCall) -> Values:
        """Look it up."""
        name, known = self.params.knowledge, self.services.knowledge
        if name not in known:
            raise InputError(
                f"node {self.get_id()!r} (knowledge-retrieval): no knowledge base is called {name!r}"
                f"{did_you_mean(name, known)}; there are: {', '.join(known) or 'none; name them in Services(knowledge=…)'}"
            )
        found = await asyncio.to_thread(known[name].retrieve, as_text(call.get(self.params.query)))
        return {"result": [{"content": p.text, "source": p.source, "score": p.score} for p in found.passages]}


class ToolParams(NodeParams):
    """A tool and what to call it with."""

    tool: str = Field(description="The tool's name.")
    arguments: dict[str, Annotated[Selector | Text | JsonValue, Field(union_mode="left_to_right")]] = Field(
        default_factory=dict[str, Any],
        description="Its arguments by name: [variable, node id], a text with {{#id.variable#}}, or a value itself.",
    )


class ToolNode(NodeOperator[ToolParams]):
    """Calls a tool, of this machine or of an MCP server."""

    type = "tool"
    params_type = ToolParams
    gives = "text (string): what the tool gave; json (object or list, where it is that)"
    example = {"tool": "weather", "arguments": {"city": ["city", "1"]}}

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """What the tool gave."""
        return {"text": T.STRING, "json": T.ANY}

    async def compute(self, call: NodeCall) -> NodeResult:
        """Call it."""
        async with connections() as opened:
            tools = {tool.name: tool for tool in await opened.tools(self.services.tools)}
            tool = tools.get(self.params.tool)
            if tool is None:
                name = self.params.tool
                raise InputError(
                    f"node {self.get_id()!r} (tool): no tool is called {name!r}{did_you_mean(name, tools)}; "
                    f"there are: {', '.join(tools) or 'none; name them in Services(tools=…)'}"
                )
            said = await tool.call({name: self._value(call, given) for name, given in self.params.arguments.items()})
        value = said
        if isinstance(said, str):
            try:
                value = whole(json.loads(said))
            except (ValueError, RecursionError):
                value = None
        text = whole(as_text(plain(said)))
        return NodeResult({"text": text, "json": value if isinstance(value, dict | list) else None})

    def _value(self, call: NodeCall, given: Any) -> Any:
        if isinstance(given, Selector):
            return plain(call.get(given))
        return call.text(given) if isinstance(given, Text) else given
