"""Functions that read each kind of node of Flowise, and that write the dialog of each type of node of Operad."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from operad.flows.formats.shapes import Fields
from operad.integrations.flowise import kinds
from operad.integrations.flowise.names import WrittenNames
from operad.integrations.flowise.nodes import models, sources, values
from operad.integrations.flowise.nodes.reading import Reading

READERS: Mapping[str, Callable[[Reading], None]] = {
    kinds.LLM: models.read_llm,
    kinds.AGENT: models.read_agent,
    kinds.CLASSIFIER: models.read_classifier,
    kinds.HUMAN: models.read_human,
    kinds.CONDITION: values.read_condition,
    kinds.FUNCTION: values.read_function,
    kinds.REPLY: values.read_reply,
    kinds.HTTP: sources.read_http,
    kinds.TOOL: sources.read_tool,
    kinds.RETRIEVER: sources.read_retriever,
    kinds.EXECUTE: sources.read_execute,
}
"""Functions that add Operad's nodes for a node, by its kind; start, iteration and loop depend on other nodes."""

WRITERS: Mapping[str, tuple[str, Callable[[Fields, WrittenNames], Fields]]] = {
    "start": (kinds.START, values.write_start),
    "llm": (kinds.LLM, models.write_llm),
    "agent": (kinds.AGENT, models.write_agent),
    "question-classifier": (kinds.CLASSIFIER, models.write_classifier),
    "human-input": (kinds.HUMAN, models.write_human),
    "if-else": (kinds.CONDITION, values.write_condition),
    "code": (kinds.FUNCTION, values.write_function),
    "assigner": (kinds.FUNCTION, values.write_assigner),
    "template-transform": (kinds.FUNCTION, values.write_template),
    "variable-aggregator": (kinds.FUNCTION, values.write_aggregator),
    "answer": (kinds.REPLY, values.write_reply),
    "end": (kinds.REPLY, values.write_reply),
    "iteration": (kinds.ITERATION, values.write_iteration),
    "request": (kinds.HTTP, sources.write_http),
    "http-request": (kinds.HTTP, sources.write_http),
    "tool": (kinds.TOOL, sources.write_tool),
    "knowledge-retrieval": (kinds.RETRIEVER, sources.write_retriever),
    "sub-workflow": (kinds.EXECUTE, sources.write_execute),
}
"""Kind and function that writes the dialog of a node, by Operad's type."""
