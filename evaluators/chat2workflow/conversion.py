"""Conversion of a simplified workflow to a platform's file: step 2 of Chat2Workflow's pass rate (Algorithm 1).

The paper does not say what its converter checks. These rules are inferred from what it took and what it refused in
recorded runs; docs/chat2workflow_pass.md has the counts. It goes through the list of nodes once, from first to last:

- a node needs an id, a type that is known and the parameters of that type; what is more than these is not looked at;
- a reference names a node that stands before, in texts too; only an iteration's ``output_selector`` points forward, to
  a node inside of it;
- whether the variable exists is asked only where the file holds its type, and only of nodes that declare their
  variables (start, code) or have none (end, if-else, iteration-start): any name will do for the others;
- an edge has three parts, and both its nodes are there; its port counts only where nodes branch;
- each node has an edge, for nodes are laid out by their edges.

Not checked: whether values fit (types of variables, comparisons, code, templates), whether an edge crosses the
border of an iteration or leads to its start, whether edges lead in a circle, whether a node can be reached, whether
there is an end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, cast

from operad.flows.formats.chat2workflow import parent_of
from operad.runtime.values.errors import Issue, did_you_mean


class _Node(NamedTuple):
    """A node as far as it can be read, and its place in the list."""

    id: str
    type: str
    params: Mapping[str, Any]
    place: int


class _Read(NamedTuple):
    """A variable that a parameter names; `typed` where the file holds its type."""

    variable: str
    node: str
    typed: bool = False


class _MisshapenError(ValueError):
    """A parameter is not of the form that its type has."""


_Reads = Callable[[Any], Iterator[_Read]]
"""Function that yields the references of a parameter.

Raises:
    _MisshapenError: It is not of its form.
"""

MOST_NODES = 500
"""Maximum number of nodes of a workflow, to limit the time."""

MOST_FAULTS = 100
"""Number of faults that are told of a workflow."""


def conversion_faults(workflow: Any) -> list[Issue]:
    """Return the faults that prevent the conversion of a workflow to a platform's file.

    Args:
        workflow: The value of its JSON.
    """
    root: Mapping[str, Any] = cast("Mapping[str, Any]", workflow) if isinstance(workflow, dict) else {}
    nodes, edges = root.get("nodes_info"), root.get("edges")
    if not isinstance(nodes, list) or not isinstance(edges, list):
        return [Issue("format", 'must be an object with the lists "nodes_info" and "edges"')]
    found = cast("list[Any]", nodes)
    if issues := too_many(found):
        return issues
    return list(islice(_faults(found, cast("list[Any]", edges)), MOST_FAULTS))


def too_many(nodes: Sequence[Any]) -> list[Issue]:
    """A fault, if a workflow has more than `MOST_NODES` nodes."""
    if len(nodes) <= MOST_NODES:
        return []
    return [Issue("size", f"has {len(nodes):,} nodes; {MOST_NODES} are the most", "nodes_info")]


def _faults(raw_nodes: Sequence[Any], raw_edges: Sequence[Any]) -> Iterator[Issue]:
    nodes: list[_Node] = []
    for place, raw in enumerate(raw_nodes):
        match raw:
            case {"id": str(node_id), "type": str(kind)}:
                params = cast("Mapping[str, Any]", raw).get("param")
                nodes.append(_Node(node_id, kind, params if isinstance(params, dict) else {}, place))
            case _:
                yield Issue("misshapen-node", "must have the texts id and type", f"nodes_info[{place}]")
    by_id: dict[str, _Node] = {}
    for node in nodes:
        by_id.setdefault(node.id, node)
    for node in nodes:
        yield from _node_faults(node, by_id)
    wrong = [
        fault
        for number, edge in enumerate(raw_edges)
        if (fault := _edge_fault(edge, f"edges[{number}]", by_id)) is not None
    ]
    yield from wrong
    if wrong:
        return  # the joined nodes are unknown
    joined = {end for edge in raw_edges for end in (edge[0], edge[2])}
    for node_id in by_id:
        if node_id not in joined:
            yield Issue("isolated", "no edge leads to it or from it, so that it has no place in a layout", node_id)


# Nodes


def _node_faults(node: _Node, by_id: Mapping[str, _Node]) -> Iterator[Issue]:
    if node.type not in _PARAMS:
        yield Issue("unknown-type", f"{node.type!r} is not a node type{did_you_mean(node.type, _PARAMS)}", node.id)
        return
    if parent := parent_of(node.id):
        yield from _named(_Read("", parent), node, by_id, "its id")
    for name, reads in _PARAMS[node.type].items():
        if name not in node.params:
            yield Issue("missing-param", f"{name}: is missing", node.id)
            continue
        try:
            found = list(reads(node.params[name]))
        except _MisshapenError as error:
            yield Issue("param", f"{name}: {error}", node.id)
            continue
        for read in found:
            if name == "output_selector":
                yield from _result_faults(read, node, by_id)
            else:
                yield from _named(read, node, by_id, name)


def _named(read: _Read, node: _Node, by_id: Mapping[str, _Node], where: str) -> Iterator[Issue]:
    other = by_id.get(read.node)
    if other is None:
        what = f"{where}: names the node {read.node[:80]!r}, which is not there{did_you_mean(read.node[:80], by_id)}"
        yield Issue("undefined-node", what, node.id)
    elif other.place >= node.place:
        yield Issue("order", f"{where}: names {read.node!r}, which stands after it in the list; put it before", node.id)
    elif read.typed and not _has(other, read.variable):
        what = f"{where}: {other.id!r} ({other.type}) has no variable {read.variable!r}"
        yield Issue("undefined-variable", what, node.id)


def _result_faults(read: _Read, node: _Node, by_id: Mapping[str, _Node]) -> Iterator[Issue]:
    """Yield faults in the output of an iteration: the only reference that may point forward."""
    other = by_id.get(read.node)
    if other is None or parent_of(other.id) != node.id:
        yield Issue("outside-body", f"output_selector: names {read.node[:80]!r}, which is not inside of it", node.id)
    elif not _has(other, read.variable):
        what = f"output_selector: {other.id!r} ({other.type}) has no variable {read.variable!r}"
        yield Issue("undefined-variable", what, node.id)


def _has(node: _Node, variable: str) -> bool:
    """Return True if a type is found for a variable of a node."""
    if node.type in ("end", "if-else", "iteration-start"):
        return False
    declared = {"start": "variables", "code": "outputs"}.get(node.type)
    if declared is None:
        return True
    listed: Any = node.params.get(declared)
    pairs = cast("list[Any]", listed) if isinstance(listed, list) else []
    return variable.partition(".")[0] in [pair[0] for pair in pairs if isinstance(pair, list) and pair]


# Edges


def _edge_fault(edge: Any, where: str, by_id: Mapping[str, _Node]) -> Issue | None:
    if not isinstance(edge, list) or len(cast("list[Any]", edge)) != 3:
        return Issue("misshapen-edge", "must be [source, port, target]", where)
    source, port, target = cast("list[Any]", edge)
    for end in (source, target):
        if not isinstance(end, str) or end not in by_id:
            return Issue("dangling-edge", f"there is no node {str(end)[:80]!r}", where)
    node = by_id[source]
    listed: Any = node.params.get({"if-else": "cases", "question-classifier": "classes"}.get(node.type, ""))
    if not isinstance(listed, list):
        return None
    count = len(cast("list[Any]", listed)) + (node.type == "if-else")  # ELSE
    if not isinstance(port, int) or not 0 <= port < count:
        return Issue("port-out-of-range", f"{source!r} ({node.type}) has the ports 0 to {count - 1}, not {port}", where)
    return None


# Parameters


def _text(value: Any) -> Iterator[_Read]:
    if not isinstance(value, str):
        raise _MisshapenError("must be a text")
    for node, variable in _references(value):
        yield _Read(variable, node.strip().strip("'\""))


def _references(text: str) -> Iterator[tuple[str, str]]:
    """Yield the nodes and variables that a text names: between ``{{#``, the next dot, and ``#}}`` on one line.

    That is as wide as the converter reads: ``{{#item#}} and {{#2.text#}}`` is one reference, to ``item#}} and {{#2``.
    """
    dot = close = end_of_line = -1
    start = text.find("{{#")
    while start >= 0:
        if dot < start + 3:
            dot = text.find(".", start + 3)
        if dot >= 0 and close < dot:
            close = text.find("#}}", dot)
        if dot < 0 or close < 0:
            return
        if end_of_line < dot:
            end_of_line = text.find("\n", dot) % (len(text) + 1)  # -1, of the last line, is the end of the text
        if close < end_of_line:
            yield text[start + 3 : dot], text[dot + 1 : close]
        start = text.find("{{#", close if close < end_of_line else start + 3)


def _selector(value: Any) -> Iterator[_Read]:
    match value:
        case [str(variable), str(node)]:
            yield _Read(variable, node)
        case _:
            raise _MisshapenError("must be [variable, node id]")


def _typed(value: Any) -> Iterator[_Read]:
    for read in _selector(value):
        yield read._replace(typed=True)


def _list_of(reads: _Reads) -> _Reads:
    def each(value: Any) -> Iterator[_Read]:
        if not isinstance(value, list):
            raise _MisshapenError("must be a list")
        for item in cast("list[Any]", value):
            yield from reads(item)

    return each


def _argument(value: Any) -> Iterator[_Read]:
    match value:
        case [str(), selector]:
            yield from _typed(selector)
        case _:
            raise _MisshapenError("must be a list of [name, [variable, node id]]")


def _declaration(value: Any) -> Iterator[_Read]:
    match value:
        case [str(), str(), *_]:
            yield from ()
        case _:
            raise _MisshapenError("must be a list of [name, type]")


def _case(value: Any) -> Iterator[_Read]:
    match value:
        case [str() | None, [*_] as conditions]:
            for condition in conditions:
                yield from _condition(condition)
        case _:
            raise _MisshapenError('must be a list of [null or "and" or "or", [condition, …]]')


def _condition(value: Any) -> Iterator[_Read]:
    match value:
        case [selector, str(), *expected]:
            yield from _typed(selector)
            for text in expected:
                yield from _text(text)
        case _:
            raise _MisshapenError("must have conditions [[variable, node id], operator, value?]")


def _operation(value: Any) -> Iterator[_Read]:
    match value:
        case ["filter_by", _]:
            raise _MisshapenError("filter_by needs a comparison and a value")
        case [str(), _, *_]:
            yield from ()
        case _:
            raise _MisshapenError("must be [extract_by or limit or order_by, value] or [filter_by, comparison, value]")


def _plain(value: Any) -> Iterator[_Read]:
    yield from ()


_PARAMS: Mapping[str, Mapping[str, _Reads]] = {
    "start": {"variables": _list_of(_declaration)},
    "end": {"outputs": _list_of(_argument)},
    "llm": {"system": _text, "user": _text},
    "question-classifier": {"query_variable_selector": _selector, "classes": _list_of(_plain)},
    "code": {"variables": _list_of(_argument), "outputs": _list_of(_declaration), "code": _plain},
    "document-extractor": {"variable_selector": _typed},
    "http-request": {"url": _selector},
    "if-else": {"cases": _list_of(_case)},
    "list-operator": {"variable": _typed, "operator": _operation},
    "parameter-extractor": {"query": _selector, "parameters": _list_of(_plain), "instruction": _text},
    "template-transform": {"variables": _list_of(_argument), "template": _plain},
    "variable-aggregator": {"variables": _list_of(_typed)},
    "iteration": {"iterator_selector": _typed, "output_selector": _typed},
    "iteration-start": {},
    "tts": {"text": _text},
    "text2image": {"prompt": _text},
    "mermaid-converter": {"mermaid_code": _text},
    "markdown-exporter": {"target_type": _plain, "md_text": _text},
    "google-search": {"query": _text},
    "echarts": {"chart_type": _plain, "chart_title": _text, "data": _text, "x_axisORcategories": _text},
}
"""Required parameters of each type, and functions that read their references."""
