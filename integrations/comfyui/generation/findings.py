"""Findings on drafted code, each with its line and a remedy, as a diagnosis alone does not help a model."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from operad.flows.node_graph import NodeGraph
from operad.integrations.comfyui.formats import check
from operad.integrations.comfyui.formats.definitions import InputDefinition, accepts
from operad.integrations.comfyui.generation.classes import givers
from operad.integrations.comfyui.generation.drafts import Draft
from operad.runtime.values.errors import Issue, shorten

MOST_WITH_WAY_OUT = 20
"""Maximum number of findings with a remedy, as a model is shown only the first few."""

MISSING_FILE = "missing-file"
"""Code of issues about files, such as models, that this server lacks and others may have: not a finding."""


def known(base: NodeGraph, draft: Draft) -> frozenset[Issue]:
    """Return the issues of the existing workflow, which need no correction."""
    return frozenset([*check(base, draft.definitions), *_unused_parts(base, draft)]) if base.nodes else frozenset()


def findings(draft: Draft, before: Collection[Issue] = ()) -> list[str]:
    """Return the findings as instructions for a model: unreadable lines first, then issues of nodes.

    Args:
        draft: The code.
        before: Issues of the existing workflow, which are ignored.
    """
    first = len(draft.lines) - len(draft.unread) + 1
    found = [
        f"[unreadable] line {number}: {line.why}. Do: write it as X = Class(input=value), or leave it out"
        for number, line in enumerate(draft.unread, first)
    ]
    issues = [*check(draft.graph, draft.definitions), *_unused_parts(draft.graph, draft)]
    for issue in dict.fromkeys(issues):
        if issue.code != MISSING_FILE and issue not in before:
            remedy = _remedy(issue, draft) if len(found) < MOST_WITH_WAY_OUT else ""
            found.append(f"[{issue.code}] {_place(issue, draft)}{issue.message}{remedy}")
    return found


def missing_files(draft: Draft) -> list[str]:
    """Return a message for each file that the server does not have."""
    return [issue.message for issue in check(draft.graph, draft.definitions) if issue.code == MISSING_FILE]


def lines_in(found: Sequence[str]) -> list[int]:
    """Return the numbers of the lines that findings name."""
    numbers = [finding.partition("] line ")[2].partition(":")[0].partition(" ")[0] for finding in found]
    return [int(number) for number in numbers if number.isdecimal()]


def _unused_parts(graph: NodeGraph, draft: Draft) -> Iterator[Issue]:
    """Yield an issue for each connected part of the workflow without an output node, as its results are not used."""
    parents = {each: each for each in graph.by_id}

    def root(node_id: str) -> str:
        while parents[node_id] != node_id:
            parents[node_id] = parents[parents[node_id]]
            node_id = parents[node_id]
        return node_id

    for edge in graph.edges:
        if edge.source in parents and edge.target in parents:
            parents[root(edge.source)] = root(edge.target)
    classes = [(spec, draft.definitions.get(spec.type)) for spec in graph.nodes]
    if not any(each is not None and each.output_node for _, each in classes):
        return  # the check reports a workflow without any output
    ends = {root(spec.id) for spec, each in classes if each is None or each.output_node}
    unused: dict[str, list[str]] = {}
    for spec in graph.nodes:
        if root(spec.id) not in ends:
            unused.setdefault(root(spec.id), []).append(spec.id)
    for ids in unused.values():
        yield Issue("unconnected", f"nothing that is saved or shown comes of it ({shorten(ids)})", ids[0])


def _place(issue: Issue, draft: Draft) -> str:
    """Return the line and the class that an issue is about, as the beginning of a finding."""
    node_id = issue.where.rpartition(" → ")[2]
    number = draft.numbers.get(node_id)
    return (
        f"line {number} ({draft.graph.by_id[node_id].type}): " if number else f"{issue.where}: " if issue.where else ""
    )


def _remedy(issue: Issue, draft: Draft) -> str:
    """Return the remedy of an issue, as the end of a finding; empty if none is known."""
    node_id = issue.where.rpartition(" → ")[2]
    spec = draft.graph.by_id.get(node_id)
    definition = draft.definitions.get(spec.type) if spec else None
    match issue.code:
        case "missing-param" | "undefined-variable" | "wrong-type":
            inputs = definition.inputs.values() if definition else ()
            input_definition = next(
                (
                    candidate
                    for candidate in inputs
                    if issue.message.startswith((repr(candidate.name), f"{candidate.name}:"))
                ),
                None,
            )
            return (
                _input_remedy(input_definition, node_id, draft)
                if input_definition
                else ". Do: assign it in a line before, or use another"
            )
        case "unknown-type" if "did you mean" not in issue.message:
            return ". Do: take one of the classes that you were told of, or leave the line out"
        case "illegal-param":
            return ". Do: leave it out, or give what it has instead"
        case "no-output":
            output_classes = [name for name, each in draft.definitions.classes.items() if each.output_node]
            available_types = {kind for other in draft.graph.by_id.values() for kind in _outputs(other.type, draft)}
            fitting = [
                name for name in output_classes if _required_types(name, draft) & available_types
            ] or output_classes
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


def _input_remedy(input_definition: InputDefinition, node_id: str, draft: Draft) -> str:
    """Return the remedy for an input without a link or value: variables to use, or classes to add."""
    if input_definition.is_widget:
        return ". Do: give it a value"
    variables = [
        variable
        for other, names in draft.variables.items()
        for variable, kind in zip(names, _outputs(draft.graph.by_id[other].type, draft), strict=False)
        if other != node_id and accepts(input_definition.type, kind)
    ]
    if variables:
        return f". Do: {input_definition.name}=one of {shorten(variables)}"
    classes = draft.definitions.classes
    sources = givers(input_definition.type, classes, classes, 4)
    return (
        f". Do: add a line with one of {', '.join(sources)}, and {input_definition.name}=what it gives"
        if sources
        else ""
    )


def _outputs(type_name: str, draft: Draft) -> Sequence[str]:
    definition = draft.definitions.get(type_name)
    return definition.outputs if definition else ()


def _required_types(type_name: str, draft: Draft) -> set[str]:
    definition = draft.definitions.get(type_name)
    return (
        {input_definition.type for input_definition in definition.inputs.values() if input_definition.required}
        if definition
        else set()
    )
