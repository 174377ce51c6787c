"""Reader of code that models write: line by line, so that a faulty line does not affect others. No code is run.

The result has the form of `dump_code`: a line for each node, with its id. Nodes of the existing workflow keep their
ids, whatever ids the model writes.
"""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import Any, NamedTuple

from operad.flows.formats.shapes import fields_of
from operad.flows.node_graph import NodeGraph, NodeSpec, in_order
from operad.flows.repair.containers import rename
from operad.flows.repair.state import Repair
from operad.integrations.comfyui.formats import Definitions, dump_code
from operad.integrations.comfyui.formats.parsing import load_code
from operad.integrations.comfyui.formats.written import NAME
from operad.integrations.comfyui.generation.rules import digits, incoming, near_names, signature
from operad.operators.sandbox.modules import lines_of
from operad.runtime.values.errors import AnswerError, InvalidError

MAX_CODE = 200_000
"""Maximum number of characters of an answer."""

MAX_LINES = 300
"""Maximum number of calls in an answer; the largest workflows that people share have some 200 nodes."""

_LONGEST_LINE = 2_000
"""Maximum number of characters to keep of a line that cannot be read."""

_VARIABLE_CUTOFF = 0.8
"""Minimum similarity, from 0 to 1, of a misspelt variable to the assigned one."""

_MOST_SEARCHED = 50
"""Maximum number of variables for which similar ones are searched."""

_FENCE = re.compile(r"^[ \t]*(`{3,}(?!`)|~{3,}(?!~))[^\n]*\n(.*?)(?:^[ \t]*\1|\Z)", re.DOTALL | re.MULTILINE)
_STATEMENT_START = re.compile(r"[^\W\d]")
_CALL = re.compile(r"(?:[^\W\d]\w*(?:\s*,\s*[^\W\d]\w*)*\s*=\s*)?[^\W\d]\w*\(")
_ASSIGNED = re.compile(r"(\w+(?:, \w+)*) = ")
ID = re.compile(r"\d+(?::\d+)*")


class Unread(NamedTuple):
    """Line that cannot be read.

    Attributes:
        text: The line.
        why: Reason why the line cannot be read.
    """

    text: str
    why: str


@dataclass(frozen=True)
class Draft:
    """Workflow that was read from code.

    Attributes:
        graph: The nodes of the readable lines.
        unread: The other lines.
        definitions: The classes of the server, which name the variables.
        repairs: Repairs of misspelt variables.
    """

    graph: NodeGraph
    unread: Sequence[Unread]
    definitions: Definitions
    repairs: Sequence[Repair] = ()

    @cached_property
    def lines(self) -> Sequence[str]:
        """Lines of code: one for each node, after the lines whose outputs it uses, and then the unreadable lines."""
        return [*self._readable_lines, *(line.text for line in self.unread)]

    @property
    def code(self) -> str:
        """Lines as one text."""
        return "".join(f"{line}\n" for line in self.lines)

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """Number of the line of each node, counted from 1."""
        order = in_order([spec.id for spec in self.graph.nodes], self.graph.edges)
        return {node_id: number for number, node_id in enumerate(order, 1)}

    @cached_property
    def variables(self) -> Mapping[str, Sequence[str]]:
        """Variables that the line of each node assigns."""
        found = {each: _ASSIGNED.match(self._readable_lines[number - 1]) for each, number in self.numbers.items()}
        return {each: match[1].split(", ") if match else [] for each, match in found.items()}

    @cached_property
    def _readable_lines(self) -> Sequence[str]:
        # splitting at line feeds is enough, as repr escapes other line separators such as U+2028
        return dump_code(self.graph, self.definitions).split("\n")[:-1]


def read_answer(answer: str, definitions: Definitions, base: NodeGraph) -> Draft:
    """Read the code in an answer: the longest fenced block, or without fences the lines that look like calls.

    Args:
        answer: Answer of a model.
        definitions: The classes of the server.
        base: The existing workflow, whose nodes keep their ids.

    Raises:
        AnswerError: The answer contains no readable code, or too much.
    """
    if len(answer) > MAX_CODE:
        raise AnswerError(f"the answer has {len(answer):,} characters; at most {MAX_CODE:,} are allowed")
    fenced = max((match[2] for match in _FENCE.finditer(answer)), key=len, default="")
    draft = read_lines(fenced if fenced.strip() else answer, definitions, base, all_lines=bool(fenced.strip()))
    if not draft.graph.nodes:
        why = f": {draft.unread[0].why}" if draft.unread else ""
        words = f"; it says: {' '.join(answer.split())[:300]}" if not fenced else ""
        raise AnswerError(
            f"the answer holds no code that can be read{why}; write one call a line: X = Class(input=1){words}"
        )
    return draft


def read_lines(text: str, definitions: Definitions, base: NodeGraph, *, all_lines: bool = True) -> Draft:
    """Read code, statement by statement if it is not valid as a whole.

    Args:
        text: The code.
        definitions: The classes of the server.
        base: The existing workflow, whose nodes keep their ids.
        all_lines: True if every line is code; otherwise lines that do not look like a call are prose.

    Raises:
        AnswerError: The code has too many lines or calls.
    """
    text = textwrap.dedent(text.replace("\r\n", "\n").replace("\r", "\n")).strip("\n")
    if text.count("\n") > 20 * MAX_LINES:
        raise AnswerError(f"the code has {text.count(chr(10)):,} lines; at most {20 * MAX_LINES:,} are allowed")
    loaded = _load(text)
    if isinstance(loaded, NodeGraph):
        readable, unread = text, []
    else:
        statements = list(_statements(text, all_lines=all_lines))
        reasons = {
            number: why
            for number, statement in enumerate(statements[: MAX_LINES + 1])
            if isinstance(why := _load(statement), str)
        }
        readable = "\n".join(statement for number, statement in enumerate(statements) if number not in reasons)
        unread = [Unread(" ".join(statements[number].split())[:_LONGEST_LINE], why) for number, why in reasons.items()]
        loaded = _load(readable)
    graph = loaded if isinstance(loaded, NodeGraph) else NodeGraph(name=base.name)
    if len(graph.nodes) + len(unread) > MAX_LINES:
        raise AnswerError(f"the code has {len(graph.nodes) + len(unread):,} calls; at most {MAX_LINES} are allowed")
    graph, repairs = _with_variables_corrected(replace(graph, name=base.name))
    return Draft(aligned(graph, base), unread, definitions, repairs)


def aligned(graph: NodeGraph, base: NodeGraph) -> NodeGraph:
    """Return the workflow with the ids of the existing one.

    A node gets the id of the node of the base with the same class, values and links; else with the same id and class;
    else the only one of its class that is left on both sides. Other nodes get ids that the base does not have.

    Args:
        graph: The workflow that was read.
        base: The existing workflow.
    """
    links, links_in_base = incoming(graph), incoming(base)
    base_ids: dict[str, str] = {}
    unmatched = dict.fromkeys(base.by_id)
    base_by_signature: dict[Any, list[str]] = {}
    for spec in base.nodes:
        base_by_signature.setdefault(signature(spec, links_in_base.get(spec.id, ())), []).append(spec.id)

    def take(spec: NodeSpec, base_id: str) -> None:
        base_ids[spec.id] = base_id
        del unmatched[base_id]

    order = [graph.by_id[node_id] for node_id in in_order(list(graph.by_id), graph.edges)]
    for spec in order if unmatched else ():
        equal = base_by_signature.get(signature(spec, links.get(spec.id, ()), base_ids), ())
        same = [item for item in equal if item in unmatched]
        if same:
            take(spec, spec.id if spec.id in same else same[0])
    for spec in order:
        if spec.id not in base_ids and spec.id in unmatched and base.by_id[spec.id].type == spec.type:
            take(spec, spec.id)
    for kind in {base.by_id[node_id].type for node_id in unmatched}:
        unmatched_of_class = [node_id for node_id in unmatched if base.by_id[node_id].type == kind]
        new_nodes = [spec for spec in order if spec.type == kind and spec.id not in base_ids]
        if len(unmatched_of_class) == len(new_nodes) == 1:
            take(new_nodes[0], unmatched_of_class[0])
    return _renamed(graph, base_ids, set(base.by_id))


def _renamed(graph: NodeGraph, base_ids: Mapping[str, str], taken: set[str]) -> NodeGraph:
    """Return the workflow with ids of the base, and free ids for nodes whose ids are taken or not numbers."""
    new_ids = dict(base_ids)
    used = {*taken, *(spec.id for spec in graph.nodes if spec.id not in base_ids)}
    free = (number for number in map(str, count(1)) if number not in used)
    for spec in graph.nodes:
        if spec.id not in new_ids and (spec.id in taken or not ID.fullmatch(spec.id)):
            new_ids[spec.id] = next(free)
    nodes = [
        spec if spec.id in base_ids or ID.fullmatch(spec.id) else replace(spec, extra=_with_id_in_title(spec))
        for spec in graph.nodes
    ]
    return rename(replace(graph, nodes=nodes), new_ids)


def _with_id_in_title(spec: NodeSpec) -> Mapping[str, Any]:
    """Return the extra data of a node whose id is in words: the id becomes the beginning of its title."""
    said = fields_of(fields_of(spec.extra.get(NAME)).get("api"))
    title = fields_of(said.get("_meta")).get("title", "")
    return {NAME: {"api": {"_meta": {"title": f"{spec.id} {title}".strip()}}}}


def _with_variables_corrected(graph: NodeGraph) -> tuple[NodeGraph, list[Repair]]:
    """Return the workflow with unassigned variables replaced by similar ones with the same digits, and the repairs."""
    if all(edge.source in graph.by_id for edge in graph.edges):
        return graph, []
    assigned: dict[str, tuple[str, int]] = fields_of(graph.extra.get(NAME)).get("variables", {})
    similar: dict[str, str] = {}
    edges, repairs = list(graph.edges), list[Repair]()
    for index, edge in enumerate(edges):
        if edge.source in graph.by_id or edge.port:
            continue
        name = edge.source
        if name not in similar and len(similar) < _MOST_SEARCHED:
            same_digits = [assigned_name for assigned_name in assigned if digits(assigned_name) == digits(name)]
            similar[name] = next(iter(near_names(name, same_digits, _VARIABLE_CUTOFF)), "")
        if variable := similar.get(name):
            source, port = assigned[variable]
            edges[index] = replace(edge, source=source, port=port, extra={})
            repairs.append(Repair("variable", edge.target, f"{edge.input}: {name} → {variable}", "the nearest"))
    return replace(graph, edges=edges), repairs


def _load(text: str) -> NodeGraph | str:
    try:
        return load_code(text)
    except InvalidError as error:
        return error.issues[0].message


def _statements(text: str, *, all_lines: bool) -> Iterator[str]:
    """Yield the statements of code; in invalid Python, the text from each line that may begin one to the next."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about unknown escapes
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    else:
        lines = lines_of(text)
        end = 0
        for node in tree.body:
            if node.lineno > end:  # of several statements in a line, the first yields the whole line
                end = node.end_lineno or node.lineno
                yield "\n".join(lines[node.lineno - 1 : end])
        return
    statement: list[str] = []
    for line in text.split("\n"):
        if _STATEMENT_START.match(line):
            if statement:
                yield "\n".join(statement)
            statement = [line] if all_lines or _CALL.match(line) else []
        elif statement:
            statement.append(line)
    if statement:
        yield "\n".join(statement)
