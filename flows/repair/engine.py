"""Engine of the repair: the rules in order, and the loop that applies each proposal that improves the workflow."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from operad.flows.formats import chat2workflow
from operad.flows.formats.chat2workflow import NAME
from operad.flows.formats.chat2workflow_slips import SHAPE_RULES, TEXT_RULES, Shaped
from operad.flows.formats.json_text import MAX_BYTES, read_json, read_text
from operad.flows.formats.shapes import fields_of
from operad.flows.node_graph import NodeGraph
from operad.flows.repair import containers, edges, names, params, references, snippets
from operad.flows.repair.names import unreadable
from operad.flows.repair.state import Check, Mending, Proposal, Repair, Standing, State, standing_of
from operad.operators.named_params import named_place
from operad.operators.nodes import NODE_TYPES
from operad.runtime.values.errors import InvalidError, Issue

# Lessons on issues that could not be repaired, each with possible corrections.


def lessons_of(state: State) -> list[str]:
    """Return a lesson for each issue; for a variable that does not exist, it lists the variables to name instead."""
    suggestions: dict[tuple[str, str], str] = {}
    for reading in unreadable(state):
        options = [f"{output} of {reading.selector.node!r}" for output in reading.outputs or {}]
        options = options or [
            f"{output} of {node!r}"
            for node, outputs in state.checker.outputs.items()
            if node != reading.node.id
            for output in outputs
        ]
        if options:
            place = named_place(NODE_TYPES[reading.node.type].params_type, reading.where)
            holder = state.graph.by_id.get(reading.selector.node)
            declare = "declare it there, or " if holder is not None and holder.type == "code" else ""
            suggestions[reading.node.id, place] = f"; {declare}name one of: {' | '.join(options[:8])}"
    lessons: list[str] = []
    for issue in state.issues:
        suggestion = suggestions.get((issue.where, issue.message.partition(":")[0]), "")
        lessons.append(f"[{issue.code}] {issue.where}: {issue.message}{suggestion}")
    return list(dict.fromkeys(lessons))


def selection(state: State) -> Iterator[Proposal]:
    """Write the selection of the response around the workflow anew, with the node types of the workflow."""
    graph = state.graph
    around = fields_of(graph.extra.get(NAME))
    before, listed = str(around.get("before", "")), chat2workflow.selection_of(node.type for node in graph.nodes)
    mended = chat2workflow.with_selection(before, listed)
    if mended != before and any(issue.code == "not-selected" for issue in state.issues):
        with_mended = replace(graph, extra={**graph.extra, NAME: {**around, "before": mended}})
        yield Proposal("<node_selection>", f"is {listed}", "these are the types of the workflow", with_mended)


WORK = 20_000
"""Maximum number of nodes to check, summed over all proposals that are tried, which bounds the time."""

MOST_NODES = 500
"""Maximum number of nodes; of a larger workflow, only the text and the JSON form are repaired."""


class Rules(NamedTuple):
    """Rules of a repair by name. Each table is in the order in which the rules are tried.

    Attributes:
        text: Rules on the text around and in the JSON, each with a description of its repair.
        shape: Rules on the form of the JSON, each with the reason of its repairs.
        graph: Rules on the workflow.
    """

    text: Mapping[str, tuple[Callable[[str], str], str]] = MappingProxyType({})
    shape: Mapping[str, tuple[Callable[[Any], Shaped], str]] = MappingProxyType({})
    graph: Mapping[str, Mending] = MappingProxyType({})


MEANING_RULES: dict[str, Mending] = {
    "aggregator-groups": params.aggregator_groups,
    "pairs": params.pairs,
    "cases": params.cases,
    "selectors-in-texts": references.selectors_in_texts,
    "references": references.references,
    "bare-references": references.bare_references,
    "named-inputs": references.named_inputs,
    "escapes": snippets.escapes,
    "one-start": edges.one_start,
    "bodies": containers.bodies,
    "hyphens": containers.hyphens,
    "borders": containers.borders,
    "ports": edges.ports,
    "cycles": edges.cycles,
    "items": names.items,
    "results": names.results,
    "inside-read-outside": names.inside_read_outside,
    "template-references": snippets.template_references,
    "variables": names.variables,
    "empty-names": names.empty_names,
    "whole-extracts": snippets.whole_extracts,
    "comparisons": params.comparisons,
    "walked-lists": snippets.walked_lists,
    "unknown-names": snippets.unknown_names,
    "unconnected": edges.unconnected,
    "late-reads": edges.late_reads,
    "isolated": edges.unread_isolated,
}
"""Rules on what a workflow means."""

TIDY_RULES: dict[str, Mending] = {"order": edges.order, "selection": selection}
"""Rules on how a workflow is written, which are applied last."""


PAPER = Rules(text=TEXT_RULES, graph=TIDY_RULES)
"""Rules for the errors that Chat2Workflow checks: broken JSON and code fences around it, order of nodes, selection."""

FORMAT = Rules(TEXT_RULES, SHAPE_RULES, {**MEANING_RULES, **TIDY_RULES})
"""All rules."""


@dataclass(frozen=True)
class Repaired:
    """Result of a repair.

    Attributes:
        text: The repaired response, or the repaired JSON if the input was JSON without tags.
        graph: The workflow, or None if the response could not be read as one.
        repairs: The repairs, in the order in which they were made.
        issues: The issues that remain.
        lessons: How to fix the remaining issues by hand, as more than one repair is possible.
    """

    text: str
    graph: NodeGraph | None = None
    repairs: Sequence[Repair] = ()
    issues: Sequence[Issue] = ()
    lessons: Sequence[str] = field(default_factory=tuple)


def repair(
    response: str | bytes, rules: Rules = FORMAT, measure: Callable[[State], Standing] = standing_of
) -> Repaired:
    """Repair a model's response where only one correction is possible; a correct response is returned unchanged.

        mended = repair('{"nodes_info": [], "edges": [],}')
        print(mended.text, mended.repairs, mended.lessons)

    Args:
        response: The whole response with its tags, or the JSON of the workflow alone.
        rules: The rules to apply.
        measure: Function that returns the standing of a workflow, which each rule on workflows has to improve.

    Returns:
        The repaired response. If no workflow can be read from it, the graph is None and the issues give the reason.
    """
    try:
        text = read_text(response, "response") if isinstance(response, bytes) else response
        if len(text) > MAX_BYTES:
            raise InvalidError(
                "response", [Issue("size", f"has {len(text):,} characters; the maximum is {MAX_BYTES:,}")]
            )
    except InvalidError as error:
        return Repaired("", issues=error.issues)
    section = chat2workflow.tagged(text)
    before, workflow_text, after = (
        (text[: section.start()], section[1], text[section.end() :]) if section else ("", text, "")
    )
    json_text, text_repairs = _repair_text(workflow_text, rules.text)
    repairs = list(text_repairs)
    try:
        value = _repair_shape(read_json(json_text, "workflow"), rules.shape, repairs)
        loaded = chat2workflow.load(json.dumps(value))
    except (InvalidError, RecursionError) as error:
        issues = error.issues if isinstance(error, InvalidError) else [Issue("depth", "is nested too deep")]
        whole = f"{before}<workflow>\n{json_text}\n</workflow>{after}" if section else json_text
        lessons = [f"{issue.where}: {issue.message}".lstrip(": ") for issue in issues]
        # repairs of the JSON value are dropped, as the value itself is not returned
        return Repaired(whole if text_repairs else text, None, text_repairs, issues, lessons)
    extra = {chat2workflow.NAME: {"before": before, "after": after}} if section else {}
    result = repair_graph(replace(loaded, extra=extra), rules.graph, measure=measure)
    repairs += result.repairs
    assert result.graph is not None  # noqa: S101 - a graph was given
    written = chat2workflow.dump(result.graph).decode() if repairs else text
    return Repaired(written, result.graph, repairs, result.issues, result.lessons)


def repair_graph(
    graph: NodeGraph,
    rules: Mapping[str, Mending] = FORMAT.graph,
    check: Check = chat2workflow.CHAT2WORKFLOW.check,
    measure: Callable[[State], Standing] = standing_of,
) -> Repaired:
    """Repair a workflow of typed nodes in any format.

        mended = repair_graph(graph)
        print(mended.repairs, mended.lessons)

    Args:
        graph: The workflow.
        rules: The rules to apply, by name.
        check: Function that returns the issues of a workflow in its format.
        measure: Function that returns the standing of a workflow, which each rule has to improve.
    """
    state = State(graph, check, measure)
    if len(graph.nodes) > MOST_NODES:
        rules = {}
    repairs: list[Repair] = []
    checks_left, repairs_before = WORK, -1
    while len(repairs) > repairs_before:
        repairs_before = len(repairs)
        for name, rule in rules.items():
            is_improved = True
            while is_improved:
                is_improved = False
                for proposal in rule(state):
                    if checks_left <= 0:
                        break
                    checks_left -= len(proposal.graph.nodes) + 1
                    candidate: State = replace(state, graph=proposal.graph)
                    if candidate.standing.improves_on(state.standing):
                        state, is_improved = candidate, True
                        repairs.append(Repair(name, *proposal[:3]))
                        break
    return Repaired("", state.graph, repairs, state.issues, lessons_of(state))


def _repair_text(text: str, rules: Mapping[str, tuple[Callable[[str], str], str]]) -> tuple[str, list[Repair]]:
    repairs: list[Repair] = []
    for name, (rule, description) in rules.items():
        if (mended := rule(text)) != text:
            repairs.append(Repair(name, "", description, "JSON is needed, and nothing else"))
            text = mended
    return text, repairs


def _repair_shape(value: Any, rules: Mapping[str, tuple[Callable[[Any], Shaped], str]], repairs: list[Repair]) -> Any:
    """Return the JSON value after the rules on its form, and append the repairs to `repairs`."""
    for name, (rule, why) in rules.items():
        value, notes = rule(value)
        repairs += [Repair(name, where, what, why) for where, what in notes]
    return value
