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
    import networkx as nx  # not at import: only designs need it

    classes = {spec.id: draft.definitions.get(spec.type) for spec in graph.nodes}
    if not any(each is not None and each.output_node for each in classes.values()):
        return  # the check reports a workflow without any output
    links: nx.Graph[str] = nx.Graph()
    links.add_nodes_from(classes)
    links.add_edges_from((edge.source, edge.target) for edge in graph.edges if {edge.source, edge.target} <= {*classes})
    for part in nx.connected_components(links):
        if all(each is not None and not each.output_node for each in map(classes.__getitem__, part)):
            ids = [node_id for node_id in classes if node_id in part]
            yield Issue("unconnected", f"nothing that is saved or shown comes of it ({shorten(ids)})", ids[0])


def _place(issue: Issue, draft: Draft) -> str:
    """Return the line and the class that an issue is about, as the beginning of a finding."""
    node_id = issue.where.rpartition(" → ")[2]
    number = draft.numbers.get(node_id)
    if number:
        return f"line {number} ({draft.graph.by_id[node_id].type}): "
    return f"{issue.where}: " if issue.where else ""


def _remedy(issue: Issue, draft: Draft) -> str:
    """Return the remedy of an issue, as the end of a finding; empty if none is known."""
    node_id = issue.where.rpartition(" → ")[2]
    spec = draft.graph.by_id.get(node_id)
    definition = draft.definitions.get(spec.type) if spec else None
    match issue.code:
        case "missing-param" | "undefined-variable" | "wrong-type":
            inputs = definition.inputs.values() if definition else ()
            said = next((each for each in inputs if issue.message.startswith((repr(each.name), f"{each.name}:"))), None)
            return _input_remedy(said, node_id, draft) if said else ". Do: assign it in a line before, or use another"
        case "unknown-type" if "did you mean" not in issue.message:
            return ". Do: take one of the classes that you were told of, or leave the line out"
        case "no-output":
            classes = [name for name, each in draft.definitions.classes.items() if each.output_node]
            there = {kind for other in draft.graph.by_id.values() for kind in _outputs(other.type, draft)}
            fitting = [name for name in classes if _required_types(name, draft) & there] or classes
            fitting.sort(key=lambda name: not name.startswith(("Save", "Preview")))
            return f". Do: add a last line with one of {shorten(fitting, 5)}"
        case code:
            return _REMEDIES.get(code, "")


_REMEDIES = {
    "illegal-param": ". Do: leave it out, or give what it has instead",
    "unconnected": ". Do: use what it gives, or leave its lines out",
    "port-out-of-range": ". Do: use another variable",
    "cycle": ". Do: have one of them take something else",
}


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
    sources = ", ".join(givers(input_definition.type, classes, classes, 4))
    return f". Do: add a line with one of {sources}, and {input_definition.name}=what it gives" if sources else ""


def _outputs(type_name: str, draft: Draft) -> Sequence[str]:
    definition = draft.definitions.get(type_name)
    return definition.outputs if definition else ()


def _required_types(type_name: str, draft: Draft) -> set[str]:
    definition = draft.definitions.get(type_name)
    return {each.type for each in definition.inputs.values() if each.required} if definition else set()
