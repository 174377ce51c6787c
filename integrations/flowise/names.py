"""Translation of variables between Flowise and Operad.

Flowise's ``{{…}}`` names the message of the user, a field of the form, a value of the flow's state, the item of an
iteration, or the output of a node; Operad's ``{{#id.variable#}}`` a variable of a node. What names nothing that is known
stays as it is, as it does in Flowise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from operad.flows.check import CONVERSATION
from operad.flows.formats.shapes import each_of
from operad.flows.node_graph import NodeGraph
from operad.integrations.flowise.flow_file import FlowFile, FlowNode
from operad.integrations.flowise.kinds import (
    AGENT,
    EXECUTE,
    FUNCTION,
    HTTP,
    ITERATION,
    LLM,
    LOOP,
    REPLY,
    RETRIEVER,
    START,
    TOOL,
)
from operad.operators.variables import Selector, Text

REFERENCE = re.compile(r"\{\{(.*?)\}\}")

QUESTION, HISTORY, TIME, SESSION = "sys.query", "sys.history", "sys.time", "sys.conversation_id"
"""Inputs of the start node that a run provides."""

_SYSTEM = {
    "question": QUESTION,
    "chat_history": HISTORY,
    "current_date_time": TIME,
    "$flow.sessionId": SESSION,
    "$flow.chatId": SESSION,
    "$flow.chatflowId": "sys.workflow_id",
}

OUTSIDE = ("sys.", "vars.", "webhook.")
"""Beginnings of the names of inputs from outside of a form."""

CONTENTS = {
    LLM: "text",
    AGENT: "text",
    TOOL: "text",
    FUNCTION: "content",
    EXECUTE: "answer",
    REPLY: "answer",
}
"""Output that is the content of a node, by its kind."""

CONTENT_NODES = {HTTP: "data", RETRIEVER: "content", ITERATION: "content"}
"""Suffix of the node behind a node that makes its content, and the name of its output, by kind."""

_USAGE = {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens", "total_tokens": "total_tokens"}


def structured(node: FlowNode) -> bool:
    """Return True if a node asks for an answer in JSON."""
    return node.kind == LLM and bool(each_of(node.inputs.get("llmStructuredOutput")))


def content(node: FlowNode) -> Selector | None:
    """Return the variable that is the content of a node; None if it has none."""
    if (suffix := CONTENT_NODES.get(node.kind)) or structured(node):
        return Selector(suffix or "content", f"{node.id}_{suffix or 'content'}")
    name = CONTENTS.get(node.kind)
    return Selector(name, node.id) if name else None


class Names:
    """Variables of a file.

    Attributes:
        start: The id of the start node.
        inputs: The inputs of the start node that texts name, with their types.
        states: The values of the flow's state that texts name.
    """

    def __init__(self, file: FlowFile) -> None:
        self._file = file
        self.start = next((node.id for node in file.nodes.values() if node.kind == START), "start")
        start_inputs = file.nodes[self.start].inputs if self.start in file.nodes else {}
        self.is_form = start_inputs.get("startInputType") == "formInput"
        self.inputs: dict[str, str] = {}
        if self.is_form:
            for each in each_of(start_inputs.get("formInputTypes")):
                kind = str(each.get("type"))
                if isinstance(name := each.get("name"), str) and name:
                    self.inputs[name] = kind if kind in ("number", "boolean") else "string"
        self.form = list(self.inputs)
        self.states: dict[str, None] = {}

    def input(self, name: str) -> Selector:
        """Return an input of the start node, which it has from now on."""
        self.inputs.setdefault(name, "string")
        return Selector(name, self.start)

    @property
    def message(self) -> str:
        """Message of the user: the question, or the lines of the form."""
        if self.is_form:
            return "\n".join(f"{name}: {Selector(name, self.start).in_text}" for name in self.form)
        return self.input(QUESTION).in_text

    def resolve(self, reference: str, node: FlowNode, messages: int) -> Selector | str | None:
        """Return the variable that a reference of a node names, a text that it stands for, or None if it names nothing.

        Args:
            reference: The reference, without braces.
            node: The node that names it.
            messages: The number of messages of the run before the node.
        """
        path = re.sub(r"\[([0-9]+)\]", r".\1", reference.replace("\\", "").strip(" \t{}"))
        fixed = {"runtime_messages_length": str(messages), "file_attachment": ""} | (
            {"question": ""} if self.is_form else {}
        )
        if path in fixed:
            return fixed[path]
        if path in _SYSTEM:
            return self.input(_SYSTEM[path])
        head, _, rest = path.partition(".")
        if head == "$webhook" and rest:
            return self.input(path[1:])
        if head == "$form" and rest:
            return self.input(rest.partition(".")[0])._replace(variable=rest)
        if head == "$vars" and rest:
            return self.input(f"vars.{rest.partition('.')[0]}")
        if path.startswith("$flow.state.") and (name := path[len("$flow.state.") :]):
            self.states[name.partition(".")[0]] = None
            return Selector(name, CONVERSATION)
        if head == "$iteration" and node.parent:
            return Selector(f"item.{rest}" if rest else "item", node.parent)
        if path == "loop_count":
            loops = [each.id for each in self._file.nodes.values() if each.kind == LOOP and each.parent == node.parent]
            return "0" if not loops else Selector("index", loops[0]) if len(loops) == 1 else None
        return self._output(path)

    def _output(self, path: str) -> Selector | None:
        node_id, of_output, rest = path.partition(".output.")
        source = self._file.nodes.get(node_id)
        if source is None:
            return None
        if not of_output or rest == "content":
            return content(source)
        head, _, inner = rest.partition(".")
        if source.kind == START and rest == "question":
            return self.input(QUESTION)
        if source.kind == START and head == "form" and inner:
            return self.input(inner.partition(".")[0])._replace(variable=inner)
        if source.kind == HTTP and head == "http":
            part, _, inner = inner.partition(".")
            known = {"data": Selector("data", f"{node_id}_data"), "status": Selector("status_code", node_id)}
            found = {**known, "headers": Selector("headers", node_id)}.get(part)
            return found and found._replace(variable=f"{found.variable}.{inner}" if inner else found.variable)
        if source.kind == ITERATION and head == "iterationResults":
            return Selector("output" + (f".{inner}" if inner else ""), node_id)
        if source.kind in (LLM, AGENT) and head == "usageMetadata" and inner in _USAGE:
            return Selector(f"usage.{_USAGE[inner]}", node_id)
        if structured(source):
            keys = [each.get("key") for each in each_of(source.inputs.get("llmStructuredOutput"))]
            return Selector(f"structured_output.{rest}", node_id) if head in keys else None
        return None


class WrittenNames:
    """Names of the variables of a workflow in texts of Flowise.

    Args:
        graph: The workflow.
        start_form: True if its start node asks for a form.
    """

    def __init__(self, graph: NodeGraph, start_form: bool) -> None:
        self._types: Mapping[str, str] = {spec.id: spec.type for spec in graph.nodes}
        self.is_form = start_form

    def text(self, text: str) -> str:
        """Return a text with Flowise's references."""
        return Text(text).renamed(self.reference)

    def reference(self, selector: Selector) -> str:
        """Return Flowise's reference to a variable."""
        return "{{" + self._path(*selector) + "}}"

    def _path(self, variable: str, node: str) -> str:
        head, _, rest = variable.partition(".")
        kind = self._types.get(node, "")
        if kind == "start":
            return self._input(variable)
        if kind == CONVERSATION:
            return f"$flow.state.{variable}"
        for suffix in (*CONTENT_NODES.values(), "content"):
            main = node.removesuffix(f"_{suffix}")
            if main != node and main in self._types and head == suffix:
                return f"{main}.output.http.data.{rest}" if self._types[main] == "request" and rest else main
        usage = next((key for key, name in _USAGE.items() if head == "usage" and rest == name), "")
        known = {
            ("iteration", "item"): "$iteration",
            ("iteration", "output"): f"{node}.output.iterationResults",
            ("loop", "index"): "loop_count",
            ("request", "status_code"): f"{node}.output.http.status",
            ("request", "headers"): f"{node}.output.http.headers",
            ("llm", "structured_output"): f"{node}.output" if rest else node,
        }
        path = known.get((kind.removeprefix("http-"), head))
        return (
            f"{node}.output.usageMetadata.{usage}" if usage else (path or node) + (f".{rest}" if path and rest else "")
        )

    def _input(self, variable: str) -> str:
        head = variable.partition(".")[0]
        system = next((path for path, name in _SYSTEM.items() if name == variable), "")
        return system or (
            f"${variable}" if head in ("vars", "webhook") else f"$form.{variable}" if self.is_form else "question"
        )
