"""Findings on drafted code, each with its line and a remedy: a diagnosis alone helps no model."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from operad.flows.formats.comfyui import check
from operad.flows.formats.comfyui.definitions import InputDefinition, accepts
from operad.flows.generation.comfyui.classes import givers
from operad.flows.generation.comfyui.drafts import Draft
from operad.flows.node_graph import NodeGraph
from operad.runtime.values.errors import Issue, shorten

MOST_WITH_WAY_OUT = 20
"""Number of findings that are told with a remedy; a model is told the first few."""

MISSING_FILE = "missing-file"
"""Code of an issue that is not a fault of the workflow: this server lacks the model, and others may have it."""


def known(base: NodeGraph, draft: Draft) -> frozenset[Issue]:
    """Return the issues that were there before the change, which need no correction."""
    return frozenset([*check(base, draft.definitions), *_apart(base, draft)]) if base.nodes else frozenset()


def findings(draft: Draft, before: Collection[Issue] = ()) -> list[str]:
    """Return the findings in words that a model can act on: unreadable code first, then node by node.

    Args:
        draft: The code.
        before: What was wrong before.
    """
    first = len(draft.lines) - len(draft.unread) + 1
    found = [
        f"[unreadable] line {number}: {each.why}. Do: write it as X = Class(input=value), or leave it out"
        for number, each in enumerate(draft.unread, first)
    ]
    issues = [*check(draft.graph, draft.definitions), *_apart(draft.graph, draft)]
    for each in dict.fromkeys(issues):
        if each.code != MISSING_FILE and each not in before:
            way_out = _way_out(each, draft) if len(found) < MOST_WITH_WAY_OUT else ""
            found.append(f"[{each.code}] {_place(each, draft)}{each.message}{way_out}")
    return found


def missing_files(draft: Draft) -> list[str]:
    """The files that the server does not have, in words."""
    return [each.message for each in check(draft.graph, draft.definitions) if each.code == MISSING_FILE]


def lines_in(found: Sequence[str]) -> list[int]:
    """The numbers of the lines that findings name."""
    numbers = [each.partition("] line ")[2].partition(":")[0].partition(" ")[0] for each in found]
    return [int(each) for each in numbers if each.isdecimal()]


def _apart(graph: NodeGraph, draft: Draft) -> Iterator[Issue]:
    """Parts that hang together with no output, and so do nothing."""
    part = {each: each for each in graph.by_id}

    def root(node_id: str) -> str:
        while part[node_id] != node_id:
            part[node_id] = part[part[node_id]]
            node_id = part[node_id]
        return node_id

    for edge in graph.edges:
        if edge.source in part and edge.target in part:
            part[root(edge.source)] = root(edge.target)
    classes = [(spec, draft.definitions.get(spec.type)) for spec in graph.nodes]
    if not any(each is not None and each.output_node for _, each in classes):
        return  # which is a finding of its own
    ends = {root(spec.id) for spec, each in classes if each is None or each.output_node}
    apart: dict[str, list[str]] = {}
    for spec in graph.nodes:
        if root(spec.id) not in ends:
            apart.setdefault(root(spec.id), []).append(spec.id)
    for ids in apart.values():
        yield Issue("unconnected", f"nothing that is saved or shown comes of it ({shorten(ids)})", ids[0])


def _place(issue: Issue, draft: Draft) -> str:
    node_id = issue.where.rpartition(" → ")[2]
    number = draft.numbers.get(node_id)
    return (
        f"line {number} ({draft.graph.by_id[node_id].type}): " if number else f"{issue.where}: " if issue.where else ""
    )


def _way_out(issue: Issue, draft: Draft) -> str:
    node_id = issue.where.rpartition(" → ")[2]
    spec = draft.graph.by_id.get(node_id)
    definition = draft.definitions.get(spec.type) if spec else None
    match issue.code:
        case "missing-param" | "undefined-variable" | "wrong-type":
            inputs = definition.inputs.values() if definition else ()
            fills = next(
                (each for each in inputs if issue.message.startswith((repr(each.name), f"{each.name}:"))), None
            )
            return _for_input(fills, node_id, draft) if fills else ". Do: assign it in a line before, or use another"
        case "unknown-type" if "did you mean" not in issue.message:
            return ". Do: take one of the classes that you were told of, or leave the line out"
        case "illegal-param":
            return ". Do: leave it out, or give what it has instead"
        case "no-output":
            ends = [name for name, each in draft.definitions.classes.items() if each.output_node]
            gives = {kind for ids in draft.graph.by_id.values() for kind in _gives(ids.type, draft)}
            fitting = [name for name in ends if _needs(name, draft) & gives] or ends
            fitting.sort(key=lambda name: not name.startswith(("Save", "Preview")))
            return f". Do: add a last line with one of {shorten(fitting, 5)}"
        case "unconnected":
            return ". Do: use what it gives, or leave its lines out"
        case "port-out-of-range":
            return ". Do: use another variable"
        case "cycle":
            return ". Do: have one of them take something else"
        case _:
            return ""


def _for_input(fills: InputDefinition, node_id: str, draft: Draft) -> str:
    if fills.is_widget:
        return ". Do: give it a value"
    variables = [
        variable
        for other, names in draft.variables.items()
        for variable, kind in zip(names, _gives(draft.graph.by_id[other].type, draft), strict=False)
        if other != node_id and accepts(fills.type, kind)
    ]
    if variables:
        return f". Do: {fills.name}=one of {shorten(variables)}"
    classes = draft.definitions.classes
    makers = givers(fills.type, classes, classes, 4)
    return f". Do: add a line with one of {', '.join(makers)}, and {fills.name}=what it gives" if makers else ""


def _gives(type_name: str, draft: Draft) -> Sequence[str]:
    definition = draft.definitions.get(type_name)
    return definition.outputs if definition else ()


def _needs(type_name: str, draft: Draft) -> set[str]:
    definition = draft.definitions.get(type_name)
    return {each.type for each in definition.inputs.values() if each.required} if definition else set()
