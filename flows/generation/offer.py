"""Offer of a design: the node types, parameters and configured services that a generated workflow may use."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from pydantic import JsonValue, TypeAdapter

from operad.flows.catalogue import NodeType
from operad.flows.formats.shapes import fields_of, list_of, text_of, texts_of
from operad.flows.node_graph import NodeGraph
from operad.operators.node_params import advanced
from operad.operators.nodes import CHAT2WORKFLOW_TYPES, NODE_TYPES
from operad.operators.nodes.flow import Start
from operad.operators.services import Services
from operad.runtime.tools.connections import connections
from operad.runtime.values.errors import did_you_mean

RICH_FORMATS = frozenset({"operad", "dify"})
"""Formats that hold requests with method and body, questions to people, optional inputs and rules for failures."""

RICH_TYPES = ("request", "human-input", "loop", "loop-start", "assigner")
RICH_PARAMS = frozenset({"start.defaults", "request.body", "request.authorization", "failure"})

SERVICES_CHARACTERS = 2_400
"""Maximum number of characters of the list of services; a longer list omits descriptions, then arguments."""


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool that nodes may call.

    Attributes:
        description: Description for the model.
        arguments: Types of the arguments by name.
        writes: True if it may change something, and asks no person before.
    """

    description: str = ""
    arguments: Mapping[str, str] = field(default_factory=dict[str, str])
    writes: bool = False


_TOOLS = TypeAdapter(dict[str, OfferedTool])


@dataclass(frozen=True, slots=True)
class Offer:
    """The node types, parameters and services that a generated workflow may use.

        offer = offer_for("operad")
        assert "human-input" in offer.types

    Attributes:
        types: Node types by name.
        params: Advanced parameters that prompts describe, as ``type.parameter``, or ``parameter`` for all types.
        tools: Tools by name.
        models: Names of models that nodes may use.
        knowledge: Names of knowledge bases.
    """

    types: Mapping[str, NodeType]
    params: frozenset[str] = frozenset()
    tools: Mapping[str, OfferedTool] = field(default_factory=dict[str, OfferedTool])
    models: tuple[str, ...] = ()
    knowledge: tuple[str, ...] = ()

    def with_used(self, graph: NodeGraph) -> Offer:
        """Return the offer with the node types and advanced parameters that a workflow already uses.

        Args:
            graph: The workflow.
        """
        known = [spec for spec in graph.nodes if spec.type in NODE_TYPES]
        used = frozenset(
            f"{spec.type}.{name}" for spec in known for name in advanced(NODE_TYPES[spec.type].params_type, spec.params)
        )
        types = {**self.types, **{spec.type: NODE_TYPES[spec.type] for spec in known}}
        return replace(self, types=types, params=self.params | used)

    def services(self) -> str:
        """Return the description of the configured services for a prompt; empty if there are none."""
        text = ""
        for arguments, descriptions in ((True, True), (True, False), (False, False)):
            text = "\n".join(self._services(arguments=arguments, descriptions=descriptions))
            if len(text) <= SERVICES_CHARACTERS:
                return text
        return text[:SERVICES_CHARACTERS] + "[… cut]"

    def faults(self, graph: NodeGraph) -> Iterator[str]:
        """Yield the names in a workflow of tools, models and knowledge bases that are not configured.

        Args:
            graph: The workflow.
        """
        for spec in graph.nodes:
            params = fields_of(spec.params)
            if spec.type in ("tool", "agent"):
                named = [params.get("tool")] if spec.type == "tool" else list_of(params.get("tools"))
                for name in named:
                    yield from _unknown(spec.id, "tool", name, self.tools)
                if spec.type == "tool" and (tool := self.tools.get(text_of(params.get("tool")))) and tool.arguments:
                    for name in fields_of(params.get("arguments")):
                        what = f"argument of {params['tool']!r}"
                        yield from _unknown(spec.id, what, name, tool.arguments)
            elif spec.type == "knowledge-retrieval":
                yield from _unknown(spec.id, "knowledge base", params.get("knowledge"), self.knowledge)
            if self.models and params.get("model_name"):
                yield from _unknown(spec.id, "model", params["model_name"], self.models)

    def as_json(self) -> dict[str, JsonValue]:
        """Return the offer as JSON, which `read_offer` reads."""
        return {
            "types": list(self.types),
            "params": list[JsonValue](sorted(self.params)),
            "tools": _TOOLS.dump_python(dict(self.tools)),
            "models": list(self.models),
            "knowledge": list(self.knowledge),
        }

    def _services(self, *, arguments: bool, descriptions: bool) -> Iterator[str]:
        """Yield a line for each tool, and lines with the models and knowledge bases."""
        if self.tools:
            users = [node_type for node_type in ("tool", "agent") if node_type in self.types]
            yield f"Tools for nodes of type {' and '.join(users)}:"
        for name, tool in self.tools.items():
            shown_arguments = (
                f" {json.dumps(dict(tool.arguments), ensure_ascii=False)}" if arguments and tool.arguments else ""
            )
            description = " ".join(tool.description.split())[:200] if descriptions else ""
            yield f"- {name}{shown_arguments}" + (f": {description}" if description else "")
        if self.models:
            yield f"Models for model_name: {', '.join(self.models)}"
        if self.knowledge:
            yield f"Knowledge bases: {', '.join(self.knowledge)}"


CHAT2WORKFLOW_OFFER = Offer({name: NODE_TYPES[name] for name in CHAT2WORKFLOW_TYPES})
"""Offer of the node types of Chat2Workflow only, which all platforms have: for benchmarks and for other formats."""


def offer_for(
    format_name: str = "operad",
    *,
    tools: Mapping[str, OfferedTool] = MappingProxyType({}),
    models: Collection[str] = (),
    knowledge: Collection[str] = (),
) -> Offer:
    """Return the offer of a format, with services.

        offer = offer_for("operad", models=["small", "large"])
        assert "llm.model_name" in offer.params

    Args:
        format_name: Name of the format that the workflow is written in.
        tools: Tools by name.
        models: Names of models.
        knowledge: Names of knowledge bases.
    """
    if format_name not in RICH_FORMATS:
        return CHAT2WORKFLOW_OFFER
    names = [*(name for name in CHAT2WORKFLOW_TYPES if name != "http-request"), *RICH_TYPES]
    names += ["tool", "agent"] if tools else []
    names += ["knowledge-retrieval"] if knowledge else []
    types = {name: NODE_TYPES[name] for name in names}
    asking = frozenset(
        f"{name}.model_name" for name, each in types.items() if models and "model_name" in each.params_type.model_fields
    )
    return Offer(types, RICH_PARAMS | asking, tools, tuple(models), tuple(knowledge))


async def offer_of(services: Services, format_name: str = "operad") -> Offer:
    """Return the offer of a format with the tools, models and knowledge bases of services.

        offer = await offer_of(Services(tools=[search]))
        designer = Designer(offer=offer)

    Args:
        services: The services; MCP servers are asked for their tools.
        format_name: Name of the format that the workflow is written in.
    """
    if format_name not in RICH_FORMATS:
        return CHAT2WORKFLOW_OFFER
    async with connections() as opened:
        tools = {
            tool.name: OfferedTool(
                tool.description,
                _types_of(tool.parameters),
                writes=not (tool.read_only or tool.approve is True),
            )
            for tool in await opened.tools(services.known_tools)
        }
    for name, workflow in services.workflows.items():
        start = next((each for each in workflow.graph().operators.values() if isinstance(each, Start)), None)
        given = {variable.name: variable.type.value for variable in start.params.variables} if start is not None else {}
        tools[name] = OfferedTool("A workflow.", given)
    return offer_for(format_name, tools=tools, models=list(services.models), knowledge=list(services.knowledge))


def read_offer(value: Any) -> Offer:
    """Return the offer that the JSON of `Offer.as_json` describes; without JSON, `CHAT2WORKFLOW_OFFER`.

        assert read_offer(offer_for("operad").as_json()) == offer_for("operad")

    Args:
        value: The JSON.
    """
    fields = fields_of(value)
    if not fields:
        return CHAT2WORKFLOW_OFFER
    return Offer(
        {name: NODE_TYPES[name] for name in texts_of(fields.get("types")) if name in NODE_TYPES},
        frozenset(texts_of(fields.get("params"))),
        _TOOLS.validate_python(fields_of(fields.get("tools"))),
        texts_of(fields.get("models")),
        texts_of(fields.get("knowledge")),
    )


def _types_of(schema: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the types of a tool's arguments from its JSON Schema; ? marks optional arguments."""
    properties = fields_of(schema.get("properties"))
    required = list_of(schema.get("required"))
    return {
        name: text_of(fields_of(each).get("type") or "any") + ("" if name in required else "?")
        for name, each in properties.items()
    }


def _unknown(node: str, what: str, name: Any, known: Collection[str]) -> Iterator[str]:
    """Yield a finding if a name is not among the known ones."""
    if isinstance(name, str) and name in known:
        return
    listed = ", ".join(known) or "none"
    yield f"[unknown-service] {node}: no {what} is called {name!r:.80}{did_you_mean(str(name), known)}; there are: {listed:.600}"
