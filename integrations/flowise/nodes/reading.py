"""Context of reading one node of Flowise, which becomes one or several nodes of Operad, one after another."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from operad.flows.check import CONVERSATION
from operad.flows.formats.fields import Remark
from operad.flows.formats.shapes import Fields, each_of
from operad.flows.node_graph import NodeSpec
from operad.integrations.flowise.flow_file import FlowFile, FlowNode
from operad.integrations.flowise.names import REFERENCE, Names, content
from operad.integrations.flowise.writing import plain_text
from operad.operators.variables import Selector, Text

HELPERS = """\
import json
import re


def text(value):
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def number(value):
    found = re.match(r"\\s*[+-]?([0-9]+\\.?[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?", text(value))
    return float(found[0]) if found else 0.0


def items(value):
    found = json.loads(value) if isinstance(value, str) else value
    if not isinstance(found, list):
        raise ValueError("expected a list, got " + text(value)[:80])
    return found


def data(body):
    try:
        return json.loads(body)
    except ValueError:
        return body


def part(value, path, otherwise):
    value = data(text(value))
    for key in path:
        if isinstance(value, list):
            value = value[int(key)] if key.isdigit() and int(key) < len(value) else None
        else:
            value = value.get(key) if isinstance(value, dict) else None
    return otherwise if value is None else value


"""
"""Functions of the code of nodes that compute what Flowise computes inside of one node."""


_PART = re.compile(r"\{\{\s*output\.([\w.]+)\s*\}\}")
"""Reference of an update of the state to a part of the node's own answer."""


_OUTPUT = re.compile(r"\{\{\s*output\b")


class Message(NamedTuple):
    """Message of the conversation during a run.

    Attributes:
        role: ``user`` or ``assistant``.
        text: The text.
    """

    role: str
    text: str


class Reading:
    """Context of reading one node.

    Args:
        node: The node.
        names: The variables of the file.
        file: The file.
        history: The messages of the run before the node.
        past: True if models see the earlier turns of the conversation.
        changed: The values of the flow's state that are set after a message of `history` that names them, by its text.

    Attributes:
        specs: The nodes of Operad, in the order in which they run.
        told: The messages that the node adds to the run.
        restarts: True if later nodes see only these messages.
        remarks: Differences of the node here.
        taken: The variables of `specs` that stand for texts, by the text.
    """

    def __init__(
        self,
        node: FlowNode,
        names: Names,
        file: FlowFile,
        history: Sequence[Message] = (),
        past: bool = True,
        changed: Mapping[str, str] | None = None,
    ) -> None:
        self._changed = changed or {}
        self.node, self.names, self.file, self.history, self.past = node, names, file, history, past
        self.inputs = node.inputs
        self.specs: list[NodeSpec] = []
        self.told: list[Message] = []
        self.restarts = False
        self.remarks: list[Remark] = []

    def remark(self, field: str, says: str, *, lossy: bool = True) -> None:
        """Add a remark on a field of the node."""
        self.remarks.append(Remark(self.node.id, self.node.label, field, says, lossy))

    def remark_changed(self, field: str, shown: Sequence[Message]) -> None:
        """Add the remarks on earlier messages whose texts get later values of the flow's state here."""
        for name in dict.fromkeys(self._changed[each.text] for each in shown if each.text in self._changed):
            says = f"an earlier message names $flow.state.{name}, which is set after it: the message has the new value"
            self.remark(field, says)

    def add(self, node_type: str, params: Fields, suffix: str = "") -> str:
        """Add a node that runs after those added before; return its id."""
        node_id = f"{self.node.id}_{suffix}" if suffix else self.node.id
        self.specs.append(NodeSpec(node_id, node_type, params, self.node.parent))
        return node_id

    def compute(self, suffix: str, output: str, kind: str, expression: str, *arguments: Selector) -> list[str]:
        """Add a code node that computes an output from variables, which the expression names a, b, …"""
        names = [chr(ord("a") + number) for number in range(len(arguments))]
        code = f"{HELPERS}def main({', '.join(names)}):\n    return {{{output!r}: {expression}}}\n"
        variables = [[name, list(each)] for name, each in zip(names, arguments, strict=True)]
        node_id = self.add("code", {"variables": variables, "outputs": [[output, kind]], "code": code}, suffix)
        return [output, node_id]

    # Texts and variables

    def text(self, field: str, value: Any = None, *, of: str = "") -> str:
        """Return a text of a field, by default its whole value, with Operad's variables.

        Args:
            field: The field, for remarks.
            value: The value; None for that of the field.
            of: The field of the dialog that the value stands in; by default the same one.
        """
        given = self.inputs.get(field) if value is None else value
        if not isinstance(given, str):
            return "" if given is None else json.dumps(given)
        if (of or field) not in self.node.accepting:
            return given
        return REFERENCE.sub(lambda found: self._reference(found[1], found[0], field), plain_text(given))

    def _reference(self, reference: str, written: str, field: str) -> str:
        found = self.names.resolve(reference, self.node, len(self.history))
        if found is None:
            if reference.strip().split(".")[0] != "output":
                self.remark(field, f"{written} names nothing that is known here, and stays as it is")
            return written
        if found == "" and "file_attachment" in written:
            self.remark(field, f"{written} is empty: files of the run are not written into texts", lossy=False)
        return found if isinstance(found, str) else found.in_text

    def value(self, text: str, suffix: str) -> list[str]:
        """Return the variable of a text that Operad takes as a variable, which a code node makes if it is more than one."""
        if named := only_variable(text):
            return list(named)
        return self.compute(suffix, "value", "string", *expression_of(text))

    def update_state(self, field: str) -> None:
        """Add the assignments of the flow's state after the node."""
        assignments: list[Any] = []
        for number, each in enumerate(each_of(self.inputs.get(field))):
            if isinstance(key := each.get("key"), str) and key:
                self.names.states[key] = None
                assignments.append(
                    [[key, CONVERSATION], "set", self._new_value(f"{field}[{number}].value", field, each)]
                )
        last = {each[0][0]: each for each in assignments}  # of several with one key, the last
        if last:
            self.add("assigner", {"assignments": list(last.values())}, "state")

    def _new_value(self, place: str, field: str, update: Fields) -> Any:
        text = self.text(place, update.get("value", ""), of=field)
        own = content(self.node)
        inner = _PART.search(text)
        if own and inner:  # the part of an answer in JSON is the whole value, even among words
            suffix = place.replace("[", "_").replace("].", "_")
            expression = f"part(a, {inner[1].split('.')!r}, {text!r})"
            return self.compute(suffix, "value", "any", expression, own)

        if own and re.fullmatch(r"\{\{\s*output\s*\}\}", text.strip()):
            return list(own)
        if "{{" in text and _OUTPUT.search(text):
            self.remark(place, "{{output}} among words stays as it is, as in Flowise; write it alone", lossy=False)
        named = only_variable(text)
        return list(named) if named else text


def only_variable(text: str) -> Selector | None:
    """Return the variable that a text consists of; None for other texts."""
    named = Text(text).selectors
    return named[0] if len(named) == 1 and not Text(text).renamed(lambda _: "").strip() else None


def expression_of(text: str) -> tuple[Any, ...]:
    """Return the expression in Python that makes a text, and the variables that it names a, b, …, for `compute`."""
    named = list(dict.fromkeys(Text(text).selectors))
    parts: list[str] = []
    end = 0
    for selector in Text(text).selectors:
        begin = Text(text).find("{{#", end)
        close = text.index("#}}", begin) + 3
        parts += [repr(text[end:begin])] if text[end:begin] else []
        parts.append(f"text({chr(ord('a') + named.index(selector))})")
        end = close
    parts += [repr(text[end:])] if text[end:] or not parts else []
    return (" + ".join(parts), *named)
