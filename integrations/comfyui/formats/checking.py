"""Static check of a ComfyUI workflow.

Without definitions, only the structure is checked: ``duplicate-id``, ``dangling-edge``, ``port-out-of-range``,
``undefined-variable``, ``cycle``. With definitions, the check also reports ``unknown-type``, ``illegal-param`` (which
the server ignores), ``missing-param``, ``wrong-type``, ``no-output``, and values that the server refuses:
``wrong-value``, ``value-out-of-range``, ``value-not-in-options``. A file that the server lacks has a code of its own,
``missing-file``, because it is not a fault of the workflow.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from operad.flows.formats.shapes import fields_of, list_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec, cycle_issues
from operad.integrations.comfyui.formats.definitions import (
    COMBO,
    Definitions,
    InputDefinition,
    NodeDefinition,
    accepts,
)
from operad.integrations.comfyui.formats.flattening import executable
from operad.integrations.comfyui.formats.ui import subgraphs
from operad.integrations.comfyui.formats.written import (
    INLET,
    NAME,
    OUTLET,
    group_fault,
    is_group,
    link_parts,
    node_of,
    ui_of,
)
from operad.runtime.values.errors import InvalidError, Issue, shorten
from operad.runtime.values.near_names import Hints
from operad.runtime.values.text import shortened

_FILE_SUFFIX = re.compile(r"\.[A-Za-z]\w{1,11}$")
"""Extension of a file name, such as that of a model."""

_INSTALL = "install the custom node that has it on the server, or replace the node"

_UPLOAD = "upload"
"""Input that the page adds to classes that take files."""


def check(graph: NodeGraph, definitions: Definitions) -> list[Issue]:
    """Return all issues of a workflow.

    Args:
        graph: The workflow in any of the forms; one saved by the page is checked in the form that the server runs.
        definitions: The node classes of the server; if empty, only the structure is checked.

    Returns:
        The issues, each with the id of its node: ``outer:inner`` inside a subgraph.
    """
    issues = list(_structure_issues(graph, "", definitions))
    for inner in subgraphs(graph).values():
        issues += _structure_issues(inner, f"{inner.name}: ", definitions)
    try:
        flat = executable(graph, definitions)
    except InvalidError as error:
        return [*issues, *error.issues]
    issues += _cycle_issues(flat)
    issues += (Issue("unknown-type", group_fault(spec), spec.id) for spec in flat.nodes if is_group(spec))
    if definitions:
        issues += _ClassCheck(flat, definitions).issues()
    return issues


# Structure


def _structure_issues(graph: NodeGraph, path: str, definitions: Definitions) -> Iterator[Issue]:
    """Yield duplicate ids, unassigned variables, edges with missing ends and unknown slots."""
    for node_id, count in Counter(spec.id for spec in graph.nodes).items():
        if count > 1:
            yield Issue("duplicate-id", f"{count} nodes have this id; each needs its own id", path + node_id)
    hints = Hints()
    known = graph.by_id
    for edge in graph.edges:
        undefined = fields_of(edge.extra.get(NAME)).get("undefined")
        if isinstance(undefined, str):
            message = "is assigned only later"
            if edge.source not in known:
                hint = hints.near(undefined, fields_of(graph.extra.get(NAME)).get("variables", ()))
                message = f"is not assigned anywhere{hint}"
            yield Issue("undefined-variable", f"{edge.input}: {undefined!r} {message}", path + edge.target)
            continue
        where = f"{path}{edge.source} → {edge.target}"
        missing = [
            end
            for end, boundary in ((edge.source, INLET), (edge.target, OUTLET))
            if end not in known and not (path and end == boundary)
        ]
        for end in missing:
            yield Issue("dangling-edge", f"there is no node {end!r}{hints.near(end, known)}", where)
        if not missing:
            yield from _slot_issues(graph, edge, where, definitions)


def _slot_issues(graph: NodeGraph, edge: Edge, where: str, definitions: Definitions) -> Iterator[Issue]:
    """Yield slots that nodes saved by the page do not have; `_ClassCheck` checks outputs of nodes of known classes."""
    source, target = graph.by_id.get(edge.source), graph.by_id.get(edge.target)
    if source is not None and ui_of(source) is not None and definitions.get(source.type) is None:
        count = len(list_of(node_of(source).get("outputs")))
        if not 0 <= edge.port < count:
            yield _port_issue(source, edge.port, count, where)
    if target is not None and ui_of(edge) is not None and not edge.input:
        slot = link_parts(ui_of(edge))[4]
        yield Issue("port-out-of-range", f"{target.id!r} ({target.type}) has no input at slot {slot}", where)


def _port_issue(spec: NodeSpec, port: int, count: int, where: str) -> Issue:
    ports = f"they are 0 to {count - 1}" if count else "it has none"
    return Issue("port-out-of-range", f"{spec.id!r} ({spec.type}) has no output {port}; {ports}", where)


def _cycle_issues(graph: NodeGraph) -> Iterator[Issue]:
    predecessors: dict[str, list[str]] = {spec.id: [] for spec in graph.nodes}
    for edge in graph.edges:
        if edge.source in predecessors and edge.target in predecessors:
            predecessors[edge.target].append(edge.source)
    return cycle_issues(predecessors)


# Classes


class _ClassCheck:
    """Check of an executable graph against the node classes of the server."""

    def __init__(self, graph: NodeGraph, definitions: Definitions) -> None:
        self._graph = graph
        self._definitions = definitions
        self._hints = Hints()

    def issues(self) -> Iterator[Issue]:
        edges_into: dict[str, dict[str, Edge]] = {}
        for edge in self._graph.edges:
            if edge.input:
                edges_into.setdefault(edge.target, {})[edge.input] = edge
        known: list[NodeDefinition] = []
        for spec in self._graph.nodes:
            definition = self._definitions.get(spec.type)
            if is_group(spec):
                continue
            if definition is None:
                hint = self._definitions.near(spec.type, self._hints) or f"; {_INSTALL}"
                yield Issue("unknown-type", f"{spec.type!r} is not a class of the server{hint}", spec.id)
            else:
                known.append(definition)
                yield from self._node_issues(spec, definition, edges_into.get(spec.id, {}))
        if len(known) == len(self._graph.nodes) and not any(each.output_node for each in known):
            yield Issue("no-output", "no node is an output, such as SaveImage, and so nothing would run")

    def _node_issues(self, spec: NodeSpec, definition: NodeDefinition, edges: dict[str, Edge]) -> Iterator[Issue]:
        params = fields_of(spec.params)
        given = {**params, **edges}
        for name in given:
            if definition.input(name) is None and name != _UPLOAD:
                hint = self._hints.near(name, definition.inputs) or f"; it has {shorten(list(definition.inputs))}"
                yield Issue("illegal-param", f"{name!r} is not an input of {spec.type}{hint}", spec.id)
        dynamic = {name.partition(".")[0] for name in given}
        for name, declared in definition.inputs.items():
            if declared.required and name not in given and not (declared.is_dynamic and name in dynamic):
                yield Issue("missing-param", f"{name!r} ({declared.type}) is required by {spec.type}", spec.id)
        for name, edge in edges.items():
            yield from self._edge_issues(edge, definition.inputs.get(name))
        for name, value in params.items():
            if name in definition.inputs and name not in edges:
                yield from _value_issues(value, definition.inputs[name], spec.id)

    def _edge_issues(self, edge: Edge, target_input: InputDefinition | None) -> Iterator[Issue]:
        source = self._graph.by_id.get(edge.source)
        definition = self._definitions.get(source.type) if source else None
        if source is None or definition is None:
            return
        where = f"{edge.source} → {edge.target}"
        if not 0 <= edge.port < len(definition.outputs):
            yield _port_issue(source, edge.port, len(definition.outputs), where)
        elif (
            target_input is not None
            and not target_input.is_dynamic
            and not accepts(target_input.type, definition.outputs[edge.port])
        ):
            output_type = definition.outputs[edge.port]
            yield Issue(
                "wrong-type", f"{edge.input!r} takes {target_input.type}, and {source.type} gives {output_type}", where
            )


def _value_issues(value: Any, definition: InputDefinition, node_id: str) -> Iterator[Issue]:
    """Yield the faults of a value by the server's rules: numbers are converted, others are compared with options."""
    name = definition.name
    if definition.type in ("INT", "FLOAT"):
        try:
            number: float = int(value) if definition.type == "INT" else float(value)
        except (TypeError, ValueError, OverflowError):
            yield Issue("wrong-value", f"{name}: must be a number, not {_shown(value)}", node_id)
            return
        if definition.min is not None and number < definition.min:
            yield Issue("value-out-of-range", f"{name}: must be at least {definition.min}, not {number}", node_id)
        if definition.max is not None and number > definition.max:
            yield Issue("value-out-of-range", f"{name}: must be at most {definition.max}, not {number}", node_id)
    elif definition.type == COMBO and definition.options and not definition.upload:
        chosen = list_of(value) if isinstance(value, list) else [value]
        unknown = [each for each in chosen if each not in definition.options]
        if unknown and isinstance(unknown[0], str) and _FILE_SUFFIX.search(unknown[0]):
            yield Issue("missing-file", f"{name}: the server has no file {_shown(unknown[0])}", node_id)
        elif unknown:
            options = shorten([str(each) for each in definition.options])
            yield Issue("value-not-in-options", f"{name}: {_shown(unknown[0])} is none of: {options}", node_id)


def _shown(value: Any) -> str:
    return shortened(repr(value), 80)
