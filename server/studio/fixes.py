"""Fixes of issues: the proposal of a repair rule, where there is exactly one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from operad.flows.edit import difference
from operad.flows.node_graph import NodeGraph
from operad.flows.repair.engine import MEANING_RULES, MOST_NODES
from operad.flows.repair.state import State
from operad.runtime.values.errors import InputError
from operad.server.studio.files.open_file import Content

WORK = 8_000
"""Nodes that are checked at most to find fixes: what bounds the time."""

MOST_PROPOSALS = 8
"""Proposals of a rule that are tried."""


class Fix(NamedTuple):
    """A fix.

    Attributes:
        what: Description of the change.
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
            key = str(difference(content.graph, proposal.graph))
            where = f"{proposal.where}: " if proposal.where else ""
            for number, issue in enumerate(issues):
                left[issue] -= 1
                if left[issue] < 0:
                    candidates[number].setdefault(key, Fix(f"{where}{proposal.what}", proposal.graph))
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
