"""Code as models write it: read line by line, so that one line that is wrong loses no other; nothing of it is run.

What is read becomes the form of `dump_code`: a line for each node, with its id. Nodes of the workflow that was there
keep their ids, whatever a model calls them.
"""

from __future__ import annotations

import ast
import json
import re
import textwrap
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import Any, NamedTuple

from operad.flows.formats.comfyui import Definitions, dump_code
from operad.flows.formats.comfyui.order import in_order
from operad.flows.formats.comfyui.parsing import load_code
from operad.flows.formats.comfyui.written import NAME
from operad.flows.generation.comfyui.rules import digits, near_names
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.flows.repair.state import Repair
from operad.operators.comfyui.reading import mapping_of
from operad.runtime.values.errors import AnswerError, InvalidError

MAX_CODE = 200_000
"""The longest code that is read of an answer, in characters."""

MAX_LINES = 300
"""The most calls that are read of an answer; the largest workflows that people share have some 200 nodes."""

_LONGEST = 2_000
"""Characters that are kept of a line that cannot be read."""

_OTHER = "_missing"
"""Suffix of an unassigned variable where the code assigns another of the same name later."""

_VARIABLE = 0.8
"""Minimum similarity, from 0 to 1, of variables that are taken for one another."""

_MOST_MEANT = 50
"""For how many variables near ones are looked for."""

_FENCE = re.compile(r"^[ \t]*(`{3,}(?!`)|~{3,}(?!~))[^\n]*\n(.*?)(?:^[ \t]*\1|\Z)", re.DOTALL | re.MULTILINE)
_BEGINS = re.compile(r"[^\W\d]")
_CALL = re.compile(r"(?:[^\W\d]\w*(?:\s*,\s*[^\W\d]\w*)*\s*=\s*)?[^\W\d]\w*\(")
_TARGETS = re.compile(r"(\w+(?:, \w+)*) = ")
_ID = re.compile(r"\d+(?::\d+)*")


class Unread(NamedTuple):
    """A line that cannot be read.

    Attributes:
        text: The line.
        why: What is wrong with it.
    """

    text: str
    why: str


@dataclass(frozen=True)
class Draft:
    """Result of reading code.

    Attributes:
        graph: The nodes of the lines that can be read.
        unread: The other lines.
        definitions: The classes, which name the variables.
        repairs: What was mended of how it is written: variables that are misspelt.
    """

    graph: NodeGraph
    unread: Sequence[Unread]
    definitions: Definitions
    repairs: Sequence[Repair] = ()

    @cached_property
    def lines(self) -> Sequence[str]:
        """The code: a line for each node, each after those that it takes from, and then what cannot be read."""
        others = re.compile(rf"\b({'|'.join(map(re.escape, self._others))})\b") if self._others else None
        unread = [others.sub(rf"\1{_OTHER}", each.text) if others else each.text for each in self.unread]
        return [*self._read, *unread]

    @property
    def code(self) -> str:
        """The lines as one text."""
        return "".join(f"{line}\n" for line in self.lines)

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """The number of the line of each node, counted from 1."""
        order = in_order([spec.id for spec in self.graph.nodes], self.graph.edges)
        return {node_id: number for number, node_id in enumerate(order, 1)}

    @cached_property
    def variables(self) -> Mapping[str, Sequence[str]]:
        """The variables that the line of each node assigns."""
        found = {each: _TARGETS.match(self._read[number - 1]) for each, number in self.numbers.items()}
        return {each: match[1].split(", ") if match else [] for each, match in found.items()}

    @cached_property
    def _others(self) -> Collection[str]:
        return _mistakable(self.graph, self.definitions)

    @cached_property
    def _read(self) -> Sequence[str]:
        edges = [
            replace(edge, extra={NAME: {"undefined": _undefined(edge) + _OTHER}})
            if _undefined(edge) in self._others
            else edge
            for edge in self.graph.edges
        ]
        # repr leaves separators of lines such as U+2028 escaped, and so there are none but line feeds
        return dump_code(replace(self.graph, edges=edges), self.definitions).split("\n")[:-1]


def read_answer(said: str, definitions: Definitions, base: NodeGraph) -> Draft:
    """The code of an answer: between fences, or the lines that look like calls.

    Args:
        said: What a model said.
        definitions: The classes.
        base: The workflow that was there, whose nodes keep their ids.

    Raises:
        AnswerError: It holds no code, or too much.
    """
    if len(said) > MAX_CODE:
        raise AnswerError(f"the answer has {len(said):,} characters; {MAX_CODE:,} are the most")
    fenced = max((match[2] for match in _FENCE.finditer(said)), key=len, default="")
    draft = read_lines(fenced if fenced.strip() else said, definitions, base, all_lines=bool(fenced.strip()))
    if not draft.graph.nodes:
        why = f": {draft.unread[0].why}" if draft.unread else ""
        raise AnswerError(f"the answer holds no code that can be read{why}; write one call a line: X = Class(input=1)")
    return draft


def read_lines(text: str, definitions: Definitions, base: NodeGraph, *, all_lines: bool = True) -> Draft:
    """Result of reading code.

    Args:
        text: The code.
        definitions: The classes.
        base: The workflow that was there, whose nodes keep their ids.
        all_lines: Whether each line is one of code; otherwise those that do not look like a call are prose.

    Raises:
        AnswerError: There is too much of it.
    """
    text = textwrap.dedent(text.replace("\r\n", "\n").replace("\r", "\n")).strip("\n")
    if text.count("\n") > 20 * MAX_LINES:
        raise AnswerError(f"the code has {text.count(chr(10)):,} lines; {MAX_LINES} calls are the most")
    whole = _loaded(text)
    if isinstance(whole, NodeGraph):
        good, unread = text, []
    else:
        parts = list(_parts(text, all_lines=all_lines))
        wrong = {
            place: why for place, part in enumerate(parts[: MAX_LINES + 1]) if isinstance(why := _loaded(part), str)
        }
        good = "\n".join(part for place, part in enumerate(parts) if place not in wrong)
        unread = [Unread(" ".join(parts[place].split())[:_LONGEST], why) for place, why in wrong.items()]
        whole = _loaded(good)
    graph = whole if isinstance(whole, NodeGraph) else NodeGraph(name=base.name)
    if len(graph.nodes) + len(unread) > MAX_LINES:
        raise AnswerError(f"the code has {len(graph.nodes) + len(unread):,} calls; {MAX_LINES} are the most")
    graph, repairs = _respelt(replace(graph, name=base.name), good)
    return Draft(aligned(graph, base), unread, definitions, repairs)


def aligned(graph: NodeGraph, base: NodeGraph) -> NodeGraph:
    """The workflow with the ids of the one that was there.

    A node is the one of the base that has its class, its values and its links; or else its id and its class; or else
    the only one of its class that is left on both sides. Others have ids that the base does not have.

    Args:
        graph: The workflow as it was read.
        base: The workflow that was there.
    """
    into, into_base = _into(graph), _into(base)
    was: dict[str, str] = {}
    left = dict.fromkeys(base.by_id)
    alike: dict[Any, list[str]] = {}
    for spec in base.nodes:
        alike.setdefault(_signature(spec, into_base.get(spec.id, ()), None), []).append(spec.id)

    def take(spec: NodeSpec, found: str) -> None:
        was[spec.id] = found
        del left[found]

    order = [graph.by_id[each] for each in in_order(list(graph.by_id), graph.edges)]
    for spec in order if left else ():
        same = [each for each in alike.get(_signature(spec, into.get(spec.id, ()), was), ()) if each in left]
        if same:
            take(spec, spec.id if spec.id in same else same[0])
    for spec in order:
        if spec.id not in was and spec.id in left and base.by_id[spec.id].type == spec.type:
            take(spec, spec.id)
    for kind in {base.by_id[each].type for each in left}:
        here = [each for each in left if base.by_id[each].type == kind]
        new = [spec for spec in order if spec.type == kind and spec.id not in was]
        if len(here) == len(new) == 1:
            take(new[0], here[0])
    return _renamed(graph, was, set(base.by_id))


def _renamed(graph: NodeGraph, was: Mapping[str, str], taken: set[str]) -> NodeGraph:
    ids = dict(was)
    used = {*taken, *(spec.id for spec in graph.nodes if spec.id not in was)}
    free = (number for number in map(str, count(1)) if number not in used)
    nodes: list[NodeSpec] = []
    for spec in graph.nodes:
        if spec.id not in ids:
            odd = spec.id in taken or not _ID.fullmatch(spec.id)
            ids[spec.id] = next(free) if odd else spec.id
        nodes.append(
            replace(
                spec, id=ids[spec.id], extra=spec.extra if spec.id in was or _ID.fullmatch(spec.id) else _titled(spec)
            )
        )
    edges = [replace(e, source=ids.get(e.source, e.source), target=ids[e.target]) for e in graph.edges]
    return replace(graph, nodes=nodes, edges=edges)


def _titled(spec: NodeSpec) -> Mapping[str, Any]:
    """Return the data of a node whose comment is in words: its id becomes the beginning of the title."""
    said = mapping_of(mapping_of(spec.extra.get(NAME)).get("api"))
    title = mapping_of(said.get("_meta")).get("title", "")
    return {NAME: {"api": {"_meta": {"title": f"{spec.id} {title}".strip()}}}}


def _into(graph: NodeGraph) -> Mapping[str, list[Edge]]:
    found: dict[str, list[Edge]] = {}
    for edge in graph.edges:
        found.setdefault(edge.target, []).append(edge)
    return found


def _signature(spec: NodeSpec, into: Sequence[Edge], was: Mapping[str, str] | None) -> Any:
    """Return the key by which two nodes are the same; `was` has the ids of those before it."""
    links = sorted((each.input, each.source if was is None else was.get(each.source, ""), each.port) for each in into)
    return spec.type, json.dumps(spec.params, sort_keys=True, default=repr), tuple(links)


def _mistakable(graph: NodeGraph, definitions: Definitions) -> Collection[str]:
    """Return the unassigned variables with the name of one that the code assigns later."""
    undefined = {_undefined(edge) for edge in graph.edges if edge.source not in graph.by_id} - {""}
    if not undefined:
        return ()
    code = dump_code(replace(graph, edges=[]), definitions)
    return undefined & {name for match in re.finditer(_TARGETS, code) for name in match[1].split(", ")}


def _undefined(edge: Edge) -> str:
    return str(mapping_of(edge.extra.get(NAME)).get("undefined") or "")


def _respelt(graph: NodeGraph, code: str) -> tuple[NodeGraph, list[Repair]]:
    """Return the graph in which unassigned variables are replaced by the one with near letters and the same digits."""
    if all(edge.source in graph.by_id for edge in graph.edges):
        return graph, []
    assigned: dict[str, tuple[str, int]] = {}
    for spec, statement in zip(graph.nodes, ast.parse(code).body, strict=True):
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        for target in targets:
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            assigned |= {each.id: (spec.id, port) for port, each in enumerate(names) if isinstance(each, ast.Name)}
    meant: dict[str, str] = {}
    edges, repairs = list(graph.edges), list[Repair]()
    for place, edge in enumerate(edges):
        if edge.source in graph.by_id or edge.port:
            continue
        name = edge.source
        if name not in meant and len(meant) < _MOST_MEANT:
            same = [each for each in assigned if digits(each) == digits(name)]
            meant[name] = next(iter(near_names(name, same, _VARIABLE)), "")
        if found := meant.get(name):
            source, port = assigned[found]
            edges[place] = replace(edge, source=source, port=port, extra={})
            repairs.append(Repair("variable", edge.target, f"{edge.input}: {name} → {found}", "the nearest"))
    return replace(graph, edges=edges), repairs


def _loaded(text: str) -> NodeGraph | str:
    """The graph of code, or why there is none."""
    try:
        return load_code(text)
    except InvalidError as error:
        return error.issues[0].message


def _parts(text: str, *, all_lines: bool) -> Iterator[str]:
    """Yield the statements of code; in text that is not valid Python, from the beginning of one to that of the next."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes that Python does not know
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    else:
        lines = text.split("\n")
        end = 0
        for each in tree.body:
            if each.lineno > end:  # of several statements in a line the first brings all
                end = each.end_lineno or each.lineno
                yield "\n".join(lines[each.lineno - 1 : end])
        return
    part: list[str] = []
    for line in text.split("\n"):
        if _BEGINS.match(line):
            if part:
                yield "\n".join(part)
            part = [line] if all_lines or _CALL.match(line) else []
        elif part:
            part.append(line)
    if part:
        yield "\n".join(part)
