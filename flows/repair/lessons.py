"""Lessons on issues that could not be repaired, each with possible corrections."""

from __future__ import annotations

from collections.abc import Iterator

from operad.flows.repair.contract import declared, ends_of
from operad.flows.repair.names import unreadable
from operad.flows.repair.state import State
from operad.operators.named_params import named_place
from operad.operators.nodes import NODE_TYPES


def lessons_of(state: State) -> list[str]:
    """Return a lesson for each issue and each name that differs from the instructions, with possible corrections."""
    return list(dict.fromkeys([*_lessons_on_names(state), *_lessons_on_issues(state)]))


def _lessons_on_issues(state: State) -> Iterator[str]:
    """Yield a lesson for each issue; for a variable that does not exist, it lists the variables to name instead."""
    suggestions: dict[str, str] = {}
    for reading in unreadable(state):
        options = [f"{output} of {reading.selector.node!r}" for output in reading.outputs or {}]
        options = options or [
            f"{output} of {node!r}" for node, outputs in state.checker.outputs.items() for output in outputs
        ]
        if options:
            place = named_place(NODE_TYPES[reading.node.type].params_type, reading.where)
            suggestions[reading.node.id, place] = f"; name one of: {' | '.join(options[:8])}"  # pyright: ignore[reportArgumentType]
    for issue in state.issues:
        where = issue.message.partition(":")[0]
        yield f"[{issue.code}] {issue.where}: {issue.message}{suggestions.get((issue.where, where), '')}"  # pyright: ignore[reportCallIssue, reportArgumentType]


def _lessons_on_names(state: State) -> Iterator[str]:
    """Yield the lessons on inputs and outputs that differ from the contract."""
    contract = state.contract
    starts = [node for node in state.graph.nodes if node.type == "start"]
    given = {name for node in starts for name in declared(node.params, "variables")}
    for name in contract.input_names:
        if name not in given:
            yield f"[input] the instruction states the input {name!r}; declare it in the start, and read it where it is needed"
    if contract.inputs:
        for name in sorted(given - set(contract.input_names) - contract.undirected):
            yield f"[input] the instruction states no input {name!r}; leave it out, or read one of: {', '.join(contract.input_names)}"
    ends = ends_of(state.graph)
    for wanted in contract.outputs:
        if ends and min(wanted.mismatches(end) for end in ends):
            yield f"[output] the instruction asks for an end with: {', '.join(sorted(wanted.needed))}; give it these outputs"
