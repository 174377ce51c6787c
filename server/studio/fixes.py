"""Fixes of issues: the proposal of a repair rule, if there is exactly one."""

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
from operad.operators.variables import short_json
from operad.runtime.values.errors import InputError
from operad.server.studio.files.open_file import Content

MOST_CHANGES = 3
"""Maximum number of changes of a fix that are named; the others are counted."""

WORK = 8_000
"""Maximum number of nodes that are checked to find fixes, which limits the time."""

MOST_PROPOSALS = 8
"""Maximum number of proposals of a rule that are tried."""


class Fix(NamedTuple):
    """A fix.

    Attributes:
        what: The change in words, such as "connect 2 to 3".
        graph: The workflow after the fix.
    """

    what: str
    graph: NodeGraph


def fixes(content: Content) -> list[Fix | None]:
    """Return the fix of each issue of a workflow, in order; None if an issue has none or several."""
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
            new_state = replace(state, graph=proposal.graph)
            keeps_nodes = (
                proposal.graph.by_id.keys() >= content.graph.by_id.keys()
            )  # no fix removes a node: a new node is unfinished, not superfluous
            if not keeps_nodes or not new_state.standing.improves_on(state.standing):
                continue
            remaining = Counter(new_state.issues)
            changes = difference(content.graph, proposal.graph)
            key = str(changes)
            for number, issue in enumerate(issues):
                remaining[issue] -= 1
                if remaining[issue] < 0:
                    candidates[number].setdefault(
                        key, Fix(changes_in_words(changes, content.graph) or proposal.what, proposal.graph)
                    )
    return [next(iter(options.values())) if len(options) == 1 else None for options in candidates]


def fix_of(content: Content, issue: int) -> Fix:
    """Return the fix of one issue.

    Args:
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
    """Return the changes of a workflow as a phrase with verbs, such as "connect 2 to 3"."""
    phrases = [
        *(f"remove {spec.type} {spec.id}" for spec in changes.removed),
        *(f"add {spec.type} {spec.id}" for spec in changes.added),
        *(_changed(change, before) for change in changes.changed),
        *(f"disconnect {edge.source}{_port(edge)} from {edge.target}" for edge in changes.edges_removed),
        *(f"connect {edge.source}{_port(edge)} to {edge.target}" for edge in changes.edges_added),
    ]
    more = len(phrases) - MOST_CHANGES
    return ", ".join([*phrases[:MOST_CHANGES], *([f"and {more} more"] if more > 0 else [])])


def _changed(change: ParamChange, before: NodeGraph) -> str:
    old, new = [_readable(value, before) for value in change.old], [_readable(value, before) for value in change.new]
    where = f"{change.path} of {change.node}" if change.path else change.node
    if not old:
        return f"set {where} to {_shown(new[0])}"
    if not new:
        return f"remove {where}, {_shown(old[0])}"
    if isinstance(old[0], _Variable) or isinstance(new[0], _Variable):
        return f"change {where} from {_shown(old[0])} to {_shown(new[0])}"
    return "change {} from {} to {}".format(where, *side_by_side(old[0], new[0]))


class _Variable(str):
    """A variable of a node in the form used in prompts."""


def _readable(value: Any, graph: NodeGraph) -> Any:
    if is_selector(value) and value[1] in graph.by_id:
        return _Variable(f"{{{{#{value[1]}.{value[0]}#}}}}")
    return value


def _shown(value: Any) -> str:
    return value if isinstance(value, _Variable) else short_json(value)


def _port(edge: Edge) -> str:
    return f" port {edge.port}" if edge.port else ""
