"""Fixes of issues: the proposal of a repair rule, where there is exactly one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from operad.flows.edit import Difference, ParamChange, difference, side_by_side
from operad.flows.formats.shapes import is_selector
from operad.flows.node_graph import Edge, NodeGraph
from operad.flows.repair.engine import MEANING_RULES, MOST_NODES
from operad.flows.repair.state import State
from operad.operators.variables import shown
from operad.runtime.values.errors import InputError
from operad.server.studio.files.open_file import Content

MOST_CHANGES = 3
"""Changes of a fix that are named; of more, the number is."""

WORK = 8_000
"""Nodes that are checked at most to find fixes: what bounds the time."""

MOST_PROPOSALS = 8
"""Proposals of a rule that are tried."""


class Fix(NamedTuple):
    """A fix.

    Attributes:
        what: The change in words, such as "connect 2 to 3".
        graph: The workflow with it.
    """

    what: str
    graph: NodeGraph


def fixes(content: Content) -> list[Fix | None]:
    """Return the fix of each issue of a workflow, in the order of the issues; None where there is none, or several."""
    found = content.format
    if found is None or not found.runs:
        return []
    state = State(content.graph, check=found.check)
    issues = state.issues
    if not issues or len(content.graph.nodes) > MOST_NODES:
        return [None] * len(issues)
    candidates: list[dict[str, Fix]] = [{} for _ in issues]
    work = WORK
    for rule in MEANING_RULES.values():
        for proposal in islice(rule(state), MOST_PROPOSALS):
            work -= len(proposal.graph.nodes) + 1
            if work <= 0:
                break
            tried = replace(state, graph=proposal.graph)
            kept = (
                proposal.graph.by_id.keys() >= content.graph.by_id.keys()
            )  # a new node is not finished, not superfluous
            if not kept or not tried.standing.betters(state.standing):
                continue
            left = Counter(tried.issues)
            changes = difference(content.graph, proposal.graph)
            key = str(changes)
            for number, issue in enumerate(issues):
                left[issue] -= 1
                if left[issue] < 0:
                    candidates[number].setdefault(
                        key, Fix(changes_in_words(changes, content.graph) or proposal.what, proposal.graph)
                    )
    return [next(iter(each.values())) if len(each) == 1 else None for each in candidates]


def fix_of(content: Content, issue: int) -> Fix:
    """Return the fix of one issue.

    Args:
        content: The content of the file.
        issue: Index of the issue.

    Raises:
        InputError: There is no such issue, or it has no fix.
    """
    found = fixes(content)
    if not 0 <= issue < len(found):
        raise InputError(f"there is no issue {issue}; there are {len(found)}")
    fix = found[issue]
    if fix is None:
        raise InputError("no rule has exactly one proposal for this issue; edit the node by hand")
    return fix


def changes_in_words(changes: Difference, before: NodeGraph) -> str:
    """Return the changes of a workflow as a phrase with verbs, such as "connect 2 to 3".

    Args:
        changes: The changes.
        before: The workflow before them.
    """
    said = [
        *(f"remove {spec.type} {spec.id}" for spec in changes.removed),
        *(f"add {spec.type} {spec.id}" for spec in changes.added),
        *(_changed(each, before) for each in changes.changed),
        *(f"disconnect {edge.source}{_port(edge)} from {edge.target}" for edge in changes.edges_removed),
        *(f"connect {edge.source}{_port(edge)} to {edge.target}" for edge in changes.edges_added),
    ]
    more = len(said) - MOST_CHANGES
    return ", ".join([*said[:MOST_CHANGES], *([f"and {more} more"] if more > 0 else [])])


def _changed(change: ParamChange, before: NodeGraph) -> str:
    old, new = [_readable(each, before) for each in change.old], [_readable(each, before) for each in change.new]
    where = f"{change.path} of {change.node}" if change.path else change.node
    if not old:
        return f"set {where} to {_shown(new[0])}"
    if not new:
        return f"remove {where}, {_shown(old[0])}"
    if isinstance(old[0], _Variable) or isinstance(new[0], _Variable):
        return f"change {where} from {_shown(old[0])} to {_shown(new[0])}"
    return "change {} from {} to {}".format(where, *side_by_side(old[0], new[0]))


class _Variable(str):
    """A variable of a node as prompts name it."""


def _readable(value: Any, graph: NodeGraph) -> Any:
    if is_selector(value) and value[1] in graph.by_id:
        return _Variable(f"{{{{#{value[1]}.{value[0]}#}}}}")
    return value


def _shown(value: Any) -> str:
    return value if isinstance(value, _Variable) else shown(value)


def _port(edge: Edge) -> str:
    return f" port {edge.port}" if edge.port else ""
