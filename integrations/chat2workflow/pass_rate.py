"""Chat2Workflow's pass rate (algorithm 1): checks of a response against its answer key, without a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from operad.flows.formats import chat2workflow
from operad.flows.formats.chat2workflow import issues_of, selected_types, type_name
from operad.integrations.chat2workflow.conversion import conversion_faults, too_many
from operad.integrations.chat2workflow.dataset import AnswerKey, Subtask
from operad.integrations.chat2workflow.response import Response, too_long, without_fence
from operad.operators.nodes import NODE_TYPES
from operad.runtime.values.errors import InvalidError, Issue, did_you_mean

STEPS: Mapping[str, str] = {
    "1_1": "format: the tags are there, and the JSON can be read",
    "1_2": "conversion to a platform's file",
    "1_3": "variables: inputs and outputs are those that were asked for",
    "1_4": "nodes: the selection has the key nodes, and the workflow what is selected",
}
"""Steps that need no model, in order, under the names of recorded runs."""

PROSE_ONLY = "not-selected"
"""Code of issues about differences between selection and workflow, which do not affect the workflow."""


@dataclass(frozen=True, slots=True)
class PassVerdict:
    """Verdict on a response.

    Attributes:
        passed: True if the response passed steps 1 to 4.
        fail_step: First step that the response failed, as a key of `STEPS`; None if it passed.
        faults: Faults in that step.
        sound: True if the workflow has no static fault; a separate score, see `soundness`.
        issues: All issues of the static check, also of a sound workflow.
    """

    passed: bool
    fail_step: str | None
    faults: tuple[Issue, ...]
    sound: bool
    issues: tuple[Issue, ...]

    @property
    def reason(self) -> str:
        """Faults of the failed step as text; empty if the response passed."""
        return "; ".join(str(fault) for fault in self.faults)

    @property
    def findings(self) -> list[str]:
        """All faults, those of the failed step first, without issues of the same code and place."""
        reported = dict.fromkeys((issue.code, issue.where) for issue in self.faults)
        others = [issue for issue in self.issues if (issue.code, issue.where) not in reported]
        return [str(issue) for issue in (*self.faults, *others)]


def judge(response: Response, key: AnswerKey | Subtask) -> PassVerdict:
    """Judge a response by the steps that need no model.

    Args:
        response: The response.
        key: Requirements, such as a `Subtask`.
    """
    issues = soundness(response)
    sound = is_sound(issues)
    for step, faults in _steps(response, key):
        if faults:
            return PassVerdict(False, step, tuple(faults), sound, issues)
    return PassVerdict(True, None, (), sound, issues)


def soundness(response: Response) -> tuple[Issue, ...]:
    """Return all static issues of a response: those of the full check of its workflow (types, variables, edges, code,
    templates), wrong order, and differences between workflow and selection.
    """
    if response.workflow is None:
        return (Issue("no-tag", "<workflow>…</workflow> is missing; write it"),)
    if issues := too_long(response.workflow):
        return tuple(issues)
    try:
        graph = chat2workflow.load(without_fence(response.workflow), "workflow")
    except InvalidError as error:
        return error.issues
    if issues := too_many(graph.nodes):
        return tuple(issues)
    if response.node_selection is not None:
        before = f"<node_selection>{response.node_selection}</node_selection>"
        graph = replace(graph, extra={chat2workflow.NAME: {"before": before}})
    return tuple(issues_of(graph, NODE_TYPES))


def is_sound(issues: Sequence[Issue]) -> bool:
    """Return whether no issue affects a run; issues about the selection do not."""
    return all(issue.code == PROSE_ONLY for issue in issues)


def _steps(response: Response, key: AnswerKey | Subtask) -> Iterator[tuple[str, Sequence[Issue]]]:
    """Yield the faults of each step; a step requires that the step before has no faults."""
    try:
        workflow = response.json()
    except InvalidError as error:
        yield "1_1", error.issues
        return
    yield "1_2", conversion_faults(workflow)
    nodes = cast("list[dict[str, Any]]", workflow["nodes_info"])
    yield "1_3", list(_variable_faults(nodes, key))
    yield "1_4", list(_selection_faults(nodes, response.node_selection or "", key))


def _variable_faults(nodes: Sequence[Mapping[str, Any]], key: AnswerKey | Subtask) -> Iterator[Issue]:
    """Yield an issue for each difference of inputs and outputs from the answer key."""
    starts = [node for node in nodes if node["type"] == "start"]
    ends = [node for node in nodes if node["type"] == "end"]
    names = {str(pair[0]) for node in starts for pair in node["param"]["variables"]}
    where = starts[0]["id"] if starts else "start"
    for name in sorted(set(key.inputs) - names):
        yield Issue("missing-input", f"has no input {name!r}{did_you_mean(name, names)}; declare it", where)
    for name in sorted(names - set(key.inputs)):
        hint = did_you_mean(name, key.inputs) or "; leave it out"
        yield Issue("extra-input", f"has the input {name!r}, which was not asked for{hint}", where)
    outputs_by_end = {node["id"]: frozenset(str(pair[0]) for pair in node["param"]["outputs"]) for node in ends}
    wanted = [frozenset(names) for names in key.outputs]
    shown_outputs = " or ".join(f"{{{', '.join(sorted(names))}}}" for names in wanted)
    for node_id, outputs in outputs_by_end.items():
        if outputs not in wanted:
            what = (
                f"gives {{{', '.join(sorted(outputs))}}}, and exactly {shown_outputs} is asked for; name its outputs so"
            )
            yield Issue("wrong-outputs", what, node_id)
    for outputs in wanted:
        if outputs not in outputs_by_end.values() and (len(wanted) > 1 or not outputs_by_end):
            what = f"no end gives exactly {{{', '.join(sorted(outputs))}}}; add one, at the end of its branch"
            yield Issue("missing-end", what)


def _selection_faults(nodes: Sequence[Mapping[str, Any]], selection: str, key: AnswerKey | Subtask) -> Iterator[Issue]:
    """Yield an issue for each missing key node, and each difference between selection and workflow."""
    where = "<node_selection>"
    selected = dict.fromkeys(selected_types(selection))
    used = {type_name(node["type"]): node["id"] for node in reversed(nodes)}
    for name in dict.fromkeys(type_name(key_node) for key_node in key.key_nodes):
        if name not in selected:
            yield Issue("missing-node", f"lacks {name!r}, which this task needs; use it, and name it there", where)
    for name in selected:
        if name not in used:
            yield Issue(PROSE_ONLY, f"names {name!r}, and no node is of that type; add one, or leave it out", where)
    for name, node_id in used.items():
        if name not in selected:
            yield Issue(PROSE_ONLY, f"is of type {name!r}, which <node_selection> does not name; name it", node_id)
