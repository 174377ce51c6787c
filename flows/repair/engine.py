"""Engine of the repair: the rules in order, and the loop that applies each proposal that improves the workflow."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from operad.flows.formats import chat2workflow
from operad.flows.formats.json_text import MAX_BYTES, read_json, read_text
from operad.flows.node_graph import NodeGraph
from operad.flows.repair import aggregators, align, containers, edges, ends, names, params, references, snippets
from operad.flows.repair.contract import Contract, read_contract
from operad.flows.repair.lessons import lessons_of
from operad.flows.repair.selection import selection
from operad.flows.repair.shape import SHAPE_RULES
from operad.flows.repair.state import Check, Level, Mending, Repair, State
from operad.flows.repair.text import TEXT_RULES
from operad.runtime.values.errors import InvalidError, Issue

WORK = 20_000
"""Maximum number of nodes to check, summed over all proposals that are tried, which bounds the time."""

MOST_NODES = 500
"""Maximum number of nodes; of a larger workflow, only the text and the JSON form are repaired."""


class Rule(NamedTuple):
    """Description of a repair rule.

    Attributes:
        name: Name of the rule.
        level: Input of the rule: the text, the form of its JSON, the workflow, or the workflow and the instructions.
        description: Faults that the rule repairs; for rules on workflows, the first line of their docstring.
    """

    name: str
    level: Level
    description: str


MEANING_RULES: dict[str, Mending] = {
    "aggregator-groups": aggregators.aggregator_groups,
    "pairs": params.pairs,
    "swapped-selectors": params.swapped_selectors,
    "cases": params.cases,
    "selectors-in-texts": references.selectors_in_texts,
    "texts": params.texts,
    "references": references.references,
    "bare-references": references.bare_references,
    "named-inputs": references.named_inputs,
    "escapes": snippets.escapes,
    "one-start": edges.one_start,
    "bodies": containers.bodies,
    "missing-starts": containers.missing_starts,
    "hyphens": containers.hyphens,
    "dangling": edges.dangling,
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
"""Rules on workflows that need no instructions, by name, in order."""

ALIGNED_RULES: dict[str, Mending] = {
    "input-names": align.input_names,
    "documents": align.documents,
    "end-missing": ends.end_missing,
    "output-names": ends.output_names,
    "one-end": ends.one_end,
    "output-missing": ends.output_missing,
    "ends-by-branch": ends.ends_by_branch,
    "output-extra": ends.output_extra,
}
"""Rules that align inputs and outputs with the instructions, by name, in order."""

TIDY_RULES: dict[str, Mending] = {"order": edges.order, "selection": selection}
"""Rules on how a workflow is written, which are applied last."""


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]


def _all_rules() -> Iterable[Rule]:
    """Yield the rules of all tables in order."""
    yield from (Rule(name, "text", description) for name, (_, description) in TEXT_RULES.items())
    yield from (Rule(name, "shape", _first_line(rule.__doc__)) for name, (rule, _) in SHAPE_RULES.items())
    yield from (Rule(name, "meaning", _first_line(rule.__doc__)) for name, rule in MEANING_RULES.items())
    yield from (Rule(name, "aligned", _first_line(rule.__doc__)) for name, rule in ALIGNED_RULES.items())
    yield from (Rule(name, "meaning", _first_line(rule.__doc__)) for name, rule in TIDY_RULES.items())


RULES: tuple[Rule, ...] = tuple(_all_rules())
"""All rules, in the order in which the engine tries them."""

PAPER = frozenset({"fences", "json", "order", "selection"})
"""Rules for the faults that Chat2Workflow checks: code fences, broken JSON, order of nodes, selection."""

FORMAT = frozenset(rule.name for rule in RULES if rule.level != "aligned")
"""Rules that need no instructions."""

ALIGNED = frozenset(rule.name for rule in RULES)
"""All rules; those of the level "aligned" propose nothing without instructions."""

PROFILES: Mapping[str, frozenset[str]] = {"format": FORMAT, "chat2workflow": ALIGNED}
"""Sets of rules by name: ``format`` for generated workflows, without a contract; ``chat2workflow`` for scoring recorded
responses of Chat2Workflow, with names aligned to the instructions."""


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


_WORKFLOW = re.compile(r"<workflow>(.*?)(?:</workflow>|\Z)", re.DOTALL)


def repair(response: str | bytes, instructions: Iterable[str] = (), rules: Collection[str] = ALIGNED) -> Repaired:
    """Repair a model's response where only one correction is possible; a correct response is returned unchanged.

        mended = repair('{"nodes_info": [], "edges": [],}', ["Sum up a text (variable text)."])
        print(mended.text, mended.repairs, mended.lessons)

    Args:
        response: The whole response with its tags, or the JSON of the workflow alone.
        instructions: The user's instructions of all rounds so far, the latest last.
        rules: Names of the rules to apply.

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
    section = _WORKFLOW.search(text)
    before, workflow_text, after = (
        (text[: section.start()], section[1], text[section.end() :]) if section else ("", text, "")
    )
    json_text, text_repairs = _repair_text(workflow_text, rules)
    repairs = list(text_repairs)
    try:
        value = _repair_shape(read_json(json_text, "workflow"), rules, repairs)
        loaded = chat2workflow.load(json.dumps(value))
    except (InvalidError, RecursionError) as error:
        issues = error.issues if isinstance(error, InvalidError) else [Issue("depth", "is nested too deep")]
        whole = f"{before}<workflow>\n{json_text}\n</workflow>{after}" if section else json_text
        lessons = [f"{issue.where}: {issue.message}".lstrip(": ") for issue in issues]
        # repairs of the JSON value are dropped, as the value itself is not returned
        return Repaired(whole if text_repairs else text, None, text_repairs, issues, lessons)
    extra = {chat2workflow.NAME: {"before": before, "after": after}} if section else {}
    result = repair_graph(replace(loaded, extra=extra), read_contract(instructions), rules)
    repairs += result.repairs
    assert result.graph is not None  # noqa: S101 - a graph was given
    written = chat2workflow.dump(result.graph).decode() if repairs else text
    return Repaired(written, result.graph, repairs, result.issues, result.lessons)


def repair_graph(
    graph: NodeGraph,
    contract: Contract | None = None,
    rules: Collection[str] = ALIGNED,
    check: Check = chat2workflow.CHAT2WORKFLOW.check,
) -> Repaired:
    """Repair a workflow of typed nodes in any format.

        mended = repair_graph(graph)
        print(mended.repairs, mended.lessons)

    Args:
        graph: The workflow.
        contract: Inputs and outputs that the instructions state.
        rules: Names of the rules to apply; rules on text and on the form of JSON have no effect here.
        check: Function that returns the issues of a workflow in its format.
    """
    state = State(graph, contract or Contract(), check)
    chosen = [
        (name, rule)
        for table in (MEANING_RULES, ALIGNED_RULES, TIDY_RULES)
        for name, rule in table.items()
        if name in rules
    ]
    if len(graph.nodes) > MOST_NODES:
        chosen = []
    repairs: list[Repair] = []
    checks_left, is_improved = WORK, True
    while is_improved and checks_left > 0:
        is_improved = False
        for name, rule in chosen:
            improvement, checks_left = _first_improvement(state, rule, checks_left)
            while improvement is not None:
                state, (where, what, why) = improvement
                repairs.append(Repair(name, where, what, why))
                is_improved = True
                improvement, checks_left = _first_improvement(state, rule, checks_left)
    return Repaired("", state.graph, repairs, state.issues, lessons_of(state))


def _first_improvement(
    state: State, rule: Mending, checks_left: int
) -> tuple[tuple[State, tuple[str, str, str]] | None, int]:
    """Return the first proposal of a rule that improves the workflow, or None, and the checks that are left."""
    for proposal in rule(state):
        if checks_left <= 0:
            break
        checks_left -= len(proposal.graph.nodes) + 1
        candidate = replace(state, graph=proposal.graph)
        if candidate.standing.improves_on(state.standing):
            return (candidate, proposal[:3]), checks_left
    return None, checks_left


def _repair_text(text: str, rules: Collection[str]) -> tuple[str, list[Repair]]:
    """Return the text after the text rules, and the repairs."""
    repairs: list[Repair] = []
    for name, (rule, description) in TEXT_RULES.items():
        if name in rules and (mended := rule(text)) != text:
            repairs.append(Repair(name, "", description, "JSON is needed, and nothing else"))
            text = mended
    return text, repairs


def _repair_shape(value: Any, rules: Collection[str], repairs: list[Repair]) -> Any:
    """Return the JSON value after the rules on its form, and append the repairs to `repairs`."""
    for name, (rule, why) in SHAPE_RULES.items():
        if name in rules:
            value, notes = rule(value)
            repairs += [Repair(name, where, what, why) for where, what in notes]
    return value
