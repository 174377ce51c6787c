"""The rules in their order, and the one loop that applies them: a repair stays if the workflow stands better for it."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

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
"""Maximum number of nodes that are checked over all tries, which bounds the time."""

MOST_NODES = 500
"""Of a workflow with more nodes, only the form is mended."""


class Rule(NamedTuple):
    """A rule.

    Attributes:
        name: Its name.
        level: What it works on: the text, the form of its JSON, the meaning of the workflow, or that and the instruction.
        says: What it mends.
    """

    name: str
    level: Level
    says: str


MEANING_RULES: dict[str, Mending] = {
    "param-names": params.names_of_params,
    "aggregator-groups": aggregators.aggregator_groups,
    "pairs": params.pairs,
    "cases": params.cases,
    "selectors-in-texts": references.selectors_in_texts,
    "texts": params.texts,
    "selectors": references.selectors,
    "references": references.references,
    "bare-references": references.bare_references,
    "variable-types": params.variable_types,
    "escapes": snippets.escapes,
    "same-ids": edges.same_ids,
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
    "template-names": snippets.template_names,
    "nodes": names.nodes,
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
ALIGNED_RULES: dict[str, Mending] = {
    "input-names": align.input_names,
    "input-read": align.input_read,
    "input-unread": align.input_unread,
    "input-types": align.input_types,
    "documents": align.documents,
    "end-missing": ends.end_missing,
    "output-names": ends.output_names,
    "one-end": ends.one_end,
    "output-missing": ends.output_missing,
    "ends-by-branch": ends.ends_by_branch,
    "output-extra": ends.output_extra,
}
TIDY_RULES: dict[str, Mending] = {"order": edges.order, "selection": selection}


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]


def _listed() -> Iterable[Rule]:
    yield from (Rule(name, "text", says) for name, (_, says) in TEXT_RULES.items())
    yield from (Rule(name, "shape", _first_line(rule.__doc__)) for name, (rule, _) in SHAPE_RULES.items())
    yield from (Rule(name, "meaning", _first_line(rule.__doc__)) for name, rule in MEANING_RULES.items())
    yield from (Rule(name, "aligned", _first_line(rule.__doc__)) for name, rule in ALIGNED_RULES.items())
    yield from (Rule(name, "meaning", _first_line(rule.__doc__)) for name, rule in TIDY_RULES.items())


RULES: tuple[Rule, ...] = tuple(_listed())
"""All rules, in the order in which they are tried."""

PAPER = frozenset({"fences", "comments", "brackets", "json", "order", "selection"})
"""Repairs of Chat2Workflow's own checks: code fences, broken JSON, the order of the list, the selection."""

FORMAT = frozenset(rule.name for rule in RULES if rule.level != "aligned")
"""All that needs no instruction."""

ALIGNED = frozenset(rule.name for rule in RULES)
"""All; those that align with the instruction do nothing without one."""

PROFILES: Mapping[str, frozenset[str]] = {"format": FORMAT, "chat2workflow": ALIGNED}
"""Sets of rules by name: without contracts, as for workflows that are generated, and as recorded responses of
Chat2Workflow are scored, with names aligned to the instruction."""


@dataclass(frozen=True)
class Repaired:
    """Result of a repair.

    Attributes:
        text: The response, or the JSON alone where it was given alone.
        graph: The workflow; None where none could be read.
        repairs: What was mended, in order.
        issues: What is still wrong.
        lessons: What to do about what could not be mended, as two things may be meant.
    """

    text: str
    graph: NodeGraph | None = None
    repairs: Sequence[Repair] = ()
    issues: Sequence[Issue] = ()
    lessons: Sequence[str] = field(default_factory=tuple)


_TAGS = ("node_selection", "design_principle", "workflow")
_WORKFLOW = re.compile(r"<workflow>(.*?)(?:</workflow>|\Z)", re.DOTALL)


def repair(response: str | bytes, instructions: Iterable[str] = (), rules: Collection[str] = ALIGNED) -> Repaired:
    """Mend a response of a model, as far as only one thing can be meant; what is right already stays as it is.

        mended = repair('{"nodes_info": [], "edges": [],}', ["Sum up a text (variable text)."])
        print(mended.text, mended.repairs, mended.lessons)

    Args:
        response: The whole response with its tags, or the JSON of the workflow alone.
        instructions: What the user asked for in each round so far, the latest last.
        rules: The names of the rules to apply.

    Returns:
        The response, mended. Where no workflow can be read from it, its graph is None and the issues say why.
    """
    try:
        text = read_text(response, "response") if isinstance(response, bytes) else response
        if len(text) > MAX_BYTES:
            raise InvalidError("response", [Issue("size", f"has {len(text):,} characters; {MAX_BYTES:,} are the most")])
    except InvalidError as error:
        return Repaired("", issues=error.issues)
    tag = _WORKFLOW.search(text)
    before, inner, after = (text[: tag.start()], tag[1], text[tag.end() :]) if tag else ("", text, "")
    mended, in_text = _text_mended(inner, rules)
    repairs = list(in_text)
    try:
        value = _read(mended, rules, repairs)
        value = _shaped(value, rules, repairs)
        loaded = chat2workflow.load(json.dumps(value))
    except (InvalidError, RecursionError) as error:
        issues = error.issues if isinstance(error, InvalidError) else [Issue("depth", "is nested too deep")]
        whole = f"{before}<workflow>\n{mended}\n</workflow>{after}" if tag else mended
        lessons = [f"{each.where}: {each.message}".lstrip(": ") for each in issues]
        # what was mended in the value is lost with it
        return Repaired(whole if in_text else text, None, in_text, issues, lessons)
    around = {chat2workflow.NAME: {"before": before, "after": after}} if tag else {}
    result = repair_graph(replace(loaded, extra=around), read_contract(instructions), rules)
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
    """Mend a workflow of typed nodes in any format.

        mended = repair_graph(graph)
        print(mended.repairs, mended.lessons)

    Args:
        graph: The workflow.
        contract: What the instructions state.
        rules: The names of the rules to apply; those on texts and their form do nothing here.
        check: What is wrong with a workflow of its format.
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
    work, moved = WORK, True
    while moved and work > 0:
        moved = False
        for name, rule in chosen:
            better, work = _better(state, rule, work)
            while better is not None:
                state, (where, what, why) = better
                repairs.append(Repair(name, where, what, why))
                moved = True
                better, work = _better(state, rule, work)
    return Repaired("", state.graph, repairs, state.issues, lessons_of(state))


def _better(state: State, rule: Mending, work: int) -> tuple[tuple[State, tuple[str, str, str]] | None, int]:
    """The first proposal of a rule after which the workflow stands better, and how much work is left."""
    for proposal in rule(state):
        if work <= 0:
            break
        work -= len(proposal.graph.nodes) + 1
        tried = replace(state, graph=proposal.graph)
        if tried.standing.betters(state.standing):
            return (tried, proposal[:3]), work
    return None, work


def _text_mended(text: str, rules: Collection[str]) -> tuple[str, list[Repair]]:
    repairs: list[Repair] = []
    for name, (rule, says) in TEXT_RULES.items():
        if name in rules and (mended := rule(text)) != text:
            repairs.append(Repair(name, "", says, "JSON is needed, and nothing else"))
            text = mended
    return text, repairs


def _read(text: str, rules: Collection[str], repairs: list[Repair]) -> Any:
    """Return the value of the JSON; two lists under one key become one list.

    Raises:
        InvalidError: It is not JSON, or has a key twice whose values are not lists.
    """
    try:
        return read_json(text, "workflow")
    except InvalidError as error:
        if "root" not in rules or any(issue.code != "duplicate-key" for issue in error.issues):
            raise

    def merged(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            both = isinstance(found.get(key), list) and isinstance(value, list)
            found[key] = [*found[key], *cast("list[Any]", value)] if both else value
        return found

    repairs.append(Repair("root", "", "what stands twice under one key is taken together", "both are of the workflow"))
    return json.loads(text, object_pairs_hook=merged)


def _shaped(value: Any, rules: Collection[str], repairs: list[Repair]) -> Any:
    for name, (rule, why) in SHAPE_RULES.items():
        if name in rules:
            value, notes = rule(value)
            repairs += [Repair(name, where, what, why) for where, what in notes]
    return value
