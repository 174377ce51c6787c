"""Conversion of a simplified workflow to a platform's file: step 2 of Chat2Workflow's pass rate (Algorithm 1).

The paper does not state what its converter checks. These rules are inferred from the workflows that it accepted and
refused in recorded runs; test/benchmark/bench_pass.py prints the counts. The converter reads the list of nodes once, from
first to last:

- A node needs an id, a known type and the parameters of that type; other keys are ignored.
- A reference, also in a text, names a node that is listed before; only an iteration's ``output_selector`` points
  forward, to a node inside the iteration.
- The variable of a reference must exist only if the platform's file contains its type, and only if its node declares
  its variables (start, code) or has none (end, if-else, iteration-start); other nodes accept any name.
- An edge has three parts, and both its nodes exist; its port is checked only if the source has branches.
- Each node has an edge, as the layout of nodes follows the edges.

Not checked are values (types of variables, comparisons, code, templates), edges across the border of an iteration or to
its start, cycles, nodes that cannot be reached, and a missing end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, cast

from operad.flows.formats.chat2workflow import parent_of
from operad.runtime.values.errors import Issue, did_you_mean


class _Node(NamedTuple):
    """Node as far as it can be read, with its index in the list."""

    id: str
    type: str
    params: Mapping[str, Any]
    place: int


class _Reference(NamedTuple):
    """Reference of a parameter to a variable; `typed` if the platform's file contains the type of the variable."""

    variable: str
    node: str
    typed: bool = False


class _MisshapenError(ValueError):
    """A parameter does not have the form that its node type requires."""


_Reader = Callable[[Any], Iterator[_Reference]]
"""Function that yields the references of a parameter.

Raises:
    _MisshapenError: The parameter has another form.
"""

MOST_NODES = 500
"""Maximum number of nodes of a workflow, to limit the time."""

MOST_FAULTS = 100
"""Maximum number of faults of a workflow to return."""


def conversion_faults(workflow: Any) -> list[Issue]:
    """Return the faults that prevent the conversion of a workflow to a platform's file.

    Args:
        workflow: The value of the workflow's JSON.
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
    """Return an issue if a workflow has more than `MOST_NODES` nodes; else an empty list."""
    if len(nodes) <= MOST_NODES:
        return []
    return [Issue("size", f"has {len(nodes):,} nodes; the maximum is {MOST_NODES}", "nodes_info")]


def _faults(raw_nodes: Sequence[Any], raw_edges: Sequence[Any]) -> Iterator[Issue]:
    """Yield the faults of nodes, then those of edges."""
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
    edge_faults = [
        fault
        for number, edge in enumerate(raw_edges)
        if (fault := _edge_fault(edge, f"edges[{number}]", by_id)) is not None
    ]
    yield from edge_faults
    if edge_faults:
        return  # without valid edges, isolated nodes are unknown
    connected = {end for edge in raw_edges for end in (edge[0], edge[2])}
    for node_id in by_id:
        if node_id not in connected:
            yield Issue("isolated", "no edge leads to it or from it, so that it has no place in a layout", node_id)


# Nodes


def _node_faults(node: _Node, by_id: Mapping[str, _Node]) -> Iterator[Issue]:
    """Yield the faults of a node: its type, its parent, its parameters and their references."""
    if node.type not in _PARAMS:
        yield Issue("unknown-type", f"{node.type!r} is not a node type{did_you_mean(node.type, _PARAMS)}", node.id)
        return
    if parent := parent_of(node.id):
        yield from _reference_faults(_Reference("", parent), node, by_id, "its id")
    for name, read_references in _PARAMS[node.type].items():
        if name not in node.params:
            yield Issue("missing-param", f"{name}: is missing", node.id)
            continue
        try:
            references = list(read_references(node.params[name]))
        except _MisshapenError as error:
            yield Issue("param", f"{name}: {error}", node.id)
            continue
        for reference in references:
            if name == "output_selector":
                yield from _result_faults(reference, node, by_id)
            else:
                yield from _reference_faults(reference, node, by_id, name)


def _reference_faults(reference: _Reference, node: _Node, by_id: Mapping[str, _Node], where: str) -> Iterator[Issue]:
    """Yield the fault of a reference to a node that is missing, listed later, or without the variable."""
    target = by_id.get(reference.node)
    if target is None:
        name = reference.node[:80]
        what = f"{where}: names the node {name!r}, which is not there{did_you_mean(name, by_id)}"
        yield Issue("undefined-node", what, node.id)
    elif target.place >= node.place:
        yield Issue(
            "order", f"{where}: names {reference.node!r}, which stands after it in the list; put it before", node.id
        )
    elif reference.typed and not _has_typed_variable(target, reference.variable):
        what = f"{where}: {target.id!r} ({target.type}) has no variable {reference.variable!r}"
        yield Issue("undefined-variable", what, node.id)


def _result_faults(reference: _Reference, node: _Node, by_id: Mapping[str, _Node]) -> Iterator[Issue]:
    """Yield the faults of an iteration's ``output_selector``, the only reference that may point forward."""
    target = by_id.get(reference.node)
    if target is None or parent_of(target.id) != node.id:
        yield Issue(
            "outside-body", f"output_selector: names {reference.node[:80]!r}, which is not inside of it", node.id
        )
    elif not _has_typed_variable(target, reference.variable):
        what = f"output_selector: {target.id!r} ({target.type}) has no variable {reference.variable!r}"
        yield Issue("undefined-variable", what, node.id)


def _has_typed_variable(node: _Node, variable: str) -> bool:
    """Return whether the converter finds a type for a variable of a node."""
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
    """Return the fault of an edge; None if it has none."""
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
    count = len(cast("list[Any]", listed)) + (node.type == "if-else")  # one more port for ELSE
    if not isinstance(port, int) or not 0 <= port < count:
        return Issue("port-out-of-range", f"{source!r} ({node.type}) has the ports 0 to {count - 1}, not {port}", where)
    return None


# Parameters


def _text(value: Any) -> Iterator[_Reference]:
    """Yield the references in a text."""
    if not isinstance(value, str):
        raise _MisshapenError("must be a text")
    for node, variable in _references(value):
        yield _Reference(variable, node.strip().strip("'\""))


def _references(text: str) -> Iterator[tuple[str, str]]:
    """Yield the nodes and variables of references in a text: between ``{{#``, the next dot, and ``#}}`` on one line.

    Like the converter, this reads ``{{#item#}} and {{#2.text#}}`` as a single reference to ``item#}} and {{#2``.
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
            end_of_line = text.find("\n", dot) % (len(text) + 1)  # -1, in the last line, becomes the end of the text
        if close < end_of_line:
            yield text[start + 3 : dot], text[dot + 1 : close]
        start = text.find("{{#", close if close < end_of_line else start + 3)


def _selector(value: Any) -> Iterator[_Reference]:
    """Yield the reference of a selector."""
    match value:
        case [str(variable), str(node)]:
            yield _Reference(variable, node)
        case _:
            raise _MisshapenError("must be [variable, node id]")


def _typed_selector(value: Any) -> Iterator[_Reference]:
    """Yield the reference of a selector for which the platform's file contains the type."""
    for reference in _selector(value):
        yield reference._replace(typed=True)


def _list_of(read_item: _Reader) -> _Reader:
    """Return the function that yields the references of a list's items."""

    def each(value: Any) -> Iterator[_Reference]:
        if not isinstance(value, list):
            raise _MisshapenError("must be a list")
        for item in cast("list[Any]", value):
            yield from read_item(item)

    return each


def _argument(value: Any) -> Iterator[_Reference]:
    """Yield the reference of an argument, ``[name, selector]``."""
    match value:
        case [str(), selector]:
            yield from _typed_selector(selector)
        case _:
            raise _MisshapenError("must be a list of [name, [variable, node id]]")


def _declaration(value: Any) -> Iterator[_Reference]:
    """Yield nothing, after a check of the form ``[name, type]``."""
    match value:
        case [str(), str(), *_]:
            yield from ()
        case _:
            raise _MisshapenError("must be a list of [name, type]")


def _case(value: Any) -> Iterator[_Reference]:
    """Yield the references of a case of an if-else."""
    match value:
        case [str() | None, [*_] as conditions]:
            for condition in conditions:
                yield from _condition(condition)
        case _:
            raise _MisshapenError('must be a list of [null or "and" or "or", [condition, …]]')


def _condition(value: Any) -> Iterator[_Reference]:
    """Yield the references of a condition."""
    match value:
        case [selector, str(), *expected]:
            yield from _typed_selector(selector)
            for text in expected:
                yield from _text(text)
        case _:
            raise _MisshapenError("must have conditions [[variable, node id], operator, value?]")


def _operation(value: Any) -> Iterator[_Reference]:
    """Yield nothing, after a check of the form of a list operation."""
    match value:
        case ["filter_by", _]:
            raise _MisshapenError("filter_by needs a comparison and a value")
        case [str(), _, *_]:
            yield from ()
        case _:
            raise _MisshapenError("must be [extract_by or limit or order_by, value] or [filter_by, comparison, value]")


def _no_references(value: Any) -> Iterator[_Reference]:
    """Yield nothing, as the parameter contains no references."""
    yield from ()


_PARAMS: Mapping[str, Mapping[str, _Reader]] = {
    "start": {"variables": _list_of(_declaration)},
    "end": {"outputs": _list_of(_argument)},
    "llm": {"system": _text, "user": _text},
    "question-classifier": {"query_variable_selector": _selector, "classes": _list_of(_no_references)},
    "code": {"variables": _list_of(_argument), "outputs": _list_of(_declaration), "code": _no_references},
    "document-extractor": {"variable_selector": _typed_selector},
    "http-request": {"url": _selector},
    "if-else": {"cases": _list_of(_case)},
    "list-operator": {"variable": _typed_selector, "operator": _operation},
    "parameter-extractor": {"query": _selector, "parameters": _list_of(_no_references), "instruction": _text},
    "template-transform": {"variables": _list_of(_argument), "template": _no_references},
    "variable-aggregator": {"variables": _list_of(_typed_selector)},
    "iteration": {"iterator_selector": _typed_selector, "output_selector": _typed_selector},
    "iteration-start": {},
    "tts": {"text": _text},
    "text2image": {"prompt": _text},
    "mermaid-converter": {"mermaid_code": _text},
    "markdown-exporter": {"target_type": _no_references, "md_text": _text},
    "google-search": {"query": _text},
    "echarts": {"chart_type": _no_references, "chart_title": _text, "data": _text, "x_axisORcategories": _text},
}
"""Required parameters of each node type, with functions that yield their references."""
