"""Prompts of the stages of a design: the files of `texts/` and the node declarations, within a budget per stage."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import NamedTuple

from operad.flows.catalogue import NodeType
from operad.flows.edit.difference import difference
from operad.flows.generation.cut_texts import CUT
from operad.flows.generation.names import marked_names
from operad.flows.generation.nodes_shown import compact, excerpt, whole
from operad.flows.generation.offer import CHAT2WORKFLOW_OFFER, Offer
from operad.flows.generation.plan import Plan
from operad.flows.node_graph import NodeGraph
from operad.flows.signatures import (
    EVERYWHERE,
    NOTATION,
    ONLY_NAMED,
    OUTSIDE,
    SERVED,
    names_of,
    shared_params,
    signatures,
)
from operad.runtime.values.json_schema import Schema
from operad.runtime.values.text import cut, fence

CHARACTERS_A_TOKEN = 4
"""Estimated characters per token of English and JSON; budgets are in tokens, texts are measured in characters."""

DRAFT_TOKENS = 5_000
FIX_TOKENS = 2_000
"""Maximum number of tokens of a first draft's prompt, of which an example is cut, and of a mending prompt, both without
the user's instruction, which is never cut."""

MOST_FINDINGS = 5
"""Maximum number of findings in a prompt."""

LONGEST_FINDING = 600
"""Maximum number of characters of a finding in a prompt; a cut is marked."""

LONGEST_NOTES = 1_200
"""Maximum number of characters of notes in a prompt; a cut is marked."""

LONGEST_NOTE = 100
"""Maximum number of characters of a note in a prompt; a cut is marked."""

NOTED = "Earlier notes"

KEEP_CUT = " (a text with [… cut] stays whole where you write it as shown)"
"""End of the title of a workflow with cut texts."""

ASKED = "Change the workflow as the job asks, and nothing else."
"""Beginning of the rules of a change."""

SERVICES = "Configured services"

FORM = "Form of the answer"


@cache
def text(name: str) -> str:
    """Return the instructions of a prompt from a file of `texts/`.

    Args:
        name: Name of the file without its suffix.
    """
    return (files("operad.flows.generation") / "texts" / f"{name}.md").read_text(encoding="utf-8").strip()


class Part(NamedTuple):
    """Part of a prompt.

    Attributes:
        title: Title of the part.
        text: Text of the part; empty parts are left out.
        keep: True to keep the part whole whatever the budget; other parts are cut, the last one first.
        data: True to fence the text, as it is untrusted data.
        fixed: True if the text is the same for every job. The part then precedes the job, as endpoints cache the
            beginning of prompts.
    """

    title: str
    text: str
    keep: bool = False
    data: bool = False
    fixed: bool = False


def fit(parts: Sequence[Part], tokens: int) -> list[Part]:
    """Return the parts that fit a budget: parts without `keep` are cut or left out, the last first.

    Args:
        parts: The parts, the most important first.
        tokens: The budget in tokens.
    """
    characters_left = CHARACTERS_A_TOKEN * tokens - sum(len(part.text) for part in parts if part.keep)
    fitted: list[Part] = []
    for part in parts:
        if not part.text:
            continue
        if part.keep:
            fitted.append(part)
            continue
        text = (
            part.text
            if len(part.text) <= characters_left
            else cut(part.text, max(characters_left - 60, 0))
            if characters_left > 300
            else ""
        )
        characters_left -= len(text)
        fitted += [part._replace(text=text)] if text else []
    return fitted


def shown(parts: Iterable[Part]) -> str:
    """Return the parts as one text, each below its title."""
    return "\n\n".join(f"### {part.title}\n{fence(part.text) if part.data else part.text}" for part in parts)


def sizes(parts: Iterable[Part], schema: Schema | None = None) -> dict[str, int]:
    """Estimate the tokens of each part, and of the JSON Schema of the answer, which budgets do not count."""
    texts = {part.title: part.text for part in parts} | ({FORM: compact(schema)} if schema else {})
    return {title: -(-len(text) // CHARACTERS_A_TOKEN) for title, text in texts.items()}


def to_draft(rounds: Sequence[str], offer: Offer, example: Part) -> Sequence[Part]:
    """Return the prompt for the plan of a new workflow.

    Args:
        rounds: The instructions, the latest last.
        offer: Node types, parameters and services that may be used.
        example: Part with a workflow made from another instruction, which may be cut; an empty part for none.
    """
    parts = [
        Part("Rules", "\n".join([text("draft"), *_rules_of(offer.types)]), keep=True),
        Part(NOTATION, signatures(offer.types, offer.types, offer.params), keep=True, fixed=True),
        Part(SERVICES, offer.services(), keep=True, data=True),
        Part("Earlier requests", listed(rounds[:-1]), keep=True, data=True),
        example,
    ]
    return fit(parts, DRAFT_TOKENS)


def to_change(
    base: NodeGraph,
    rounds: Sequence[str],
    offer: Offer,
    notes: Sequence[str] = (),
    titles: Mapping[str, str] = MappingProxyType({}),
    look: Collection[str] = (),
) -> Sequence[Part]:
    """Return the prompt for a change of a workflow.

    Args:
        base: The existing workflow.
        rounds: The instructions, the latest last.
        offer: Node types, parameters and services that may be used.
        notes: Earlier notes to the user.
        titles: Titles that people gave to nodes, by id.
        look: Ids of nodes, names of node types, and ``requests`` for earlier ones, that the model asked to see whole.
    """
    wanted = {name: offer.types[name] for name in offer.types if name in look}
    params = offer.params if EVERYWHERE in look else offer.params - {EVERYWHERE}
    shared = list(shared_params([offer.types["llm"]], params)) if EVERYWHERE in look and not wanted else []
    workflow = excerpt(base, offer.types, titles, look, offer.types.keys() - ONLY_NAMED, rounds[-1])
    to_see = ["types", *["ids of cut nodes"] * (CUT in workflow), *['"requests" (earlier)'] * bool(rounds[:-1])]
    parts = [
        Part("Rules", f"{ASKED} {text('change')}{text('neither') if marked_names(rounds[-1]) else ''}", keep=True),
        Part(
            "Node types",
            "" if wanted else names_of(offer.types, {spec.type for spec in base.nodes}),
            keep=True,
            fixed=True,
        ),
        Part(f"The workflow{KEEP_CUT if CUT in workflow else ''}", workflow, keep=True, data=True),
        Part("Earlier requests", listed(rounds[:-1]) if "requests" in look else "", keep=True, data=True),
        Part(
            f"{NOTED} (`outdated`: numbers of those that no longer hold)",
            numbered(notes),
            keep=True,
            data=True,
        ),
        Part(
            NOTATION,
            "\n".join(filter(None, [signatures(wanted, wanted, params), *shared, *_rules_of(wanted)])),
            keep=True,
        ),
        Part(SERVICES, offer.services() if SERVED & wanted.keys() else "", keep=True, data=True),
        Part("Or ask once to see more", "" if look else f'{{"look": [{", ".join(to_see)}]}}', keep=True),
    ]
    return [part for part in parts if part.text]


def _rules_of(types: Mapping[str, NodeType]) -> Iterator[str]:
    if any(node_type.body_starts_with for node_type in types.values()):
        yield text("inside")
    if OUTSIDE & types.keys():
        yield text("outside")


def to_mend(
    graph: NodeGraph,
    findings: Sequence[str],
    ids: Sequence[str],
    offer: Offer = CHAT2WORKFLOW_OFFER,
    *,
    allowed: AbstractSet[str] | None = None,
    titles: Mapping[str, str] = MappingProxyType({}),
) -> Sequence[Part]:
    """Return the prompt for changes that mend findings.

    Args:
        graph: The workflow.
        findings: Findings to mend.
        ids: Ids of the nodes that the findings concern.
        offer: Node types, parameters and services that may be used.
        allowed: Ids of the nodes that may be changed; None for all.
        titles: Titles that people gave to nodes, by id.
    """
    rules, shown_findings = f"{text('mend')} {text('change')}", findings_in_short(findings)
    names = [graph.by_id[node_id].type for node_id in ids if node_id in graph.by_id]
    # findings on unknown types list all types, and those on names speak of the request
    about_types = "\n".join(
        each for each in findings if not each.startswith(("[unknown-type]", "[variable]", "[name]"))
    )
    names += [name for name in offer.types if re.search(rf"\b{re.escape(name)}\b", about_types)]
    ids_to_change = ", ".join(sorted((allowed or set()) & graph.by_id.keys()))
    changeable = "" if allowed is None else f"{ids_to_change}, and nodes that you add".removeprefix(", and ")
    characters_left = CHARACTERS_A_TOKEN * FIX_TOKENS - len(rules) - len(shown_findings) - len(changeable)
    workflow = excerpt(graph, offer.types, titles, ids, most=characters_left)
    return fit(
        [
            Part("Rules", rules, keep=True),
            Part("Findings", shown_findings, keep=True),
            Part("Nodes that you may change", changeable, keep=True),
            Part(f"The workflow{KEEP_CUT if CUT in workflow else ''}", workflow, keep=True, data=True),
            Part("Node types concerned", signatures(offer.types, names, offer.params)),
            Part("Other types, in short", names_of(offer.types, set(names))),
            Part(SERVICES, offer.services(), data=True),
        ],
        FIX_TOKENS,
    )


def to_judge(
    graph: NodeGraph,
    base: NodeGraph,
    rounds: Sequence[str],
    offer: Offer,
    *,
    criteria: str,
    notes: Sequence[str] = (),
    contested: Sequence[str] = (),
    not_tried: Sequence[str] = (),
    titles: Mapping[str, str] = MappingProxyType({}),
) -> Sequence[Part]:
    """Return the prompt for a verdict on a workflow.

    Args:
        graph: The workflow.
        base: The workflow before the change; without nodes if the workflow is new.
        rounds: The instructions, the latest last.
        offer: Node types, parameters and services that may be used.
        criteria: Criteria of the verdict.
        notes: Notes to the user on assumptions and on requests that cannot be met.
        contested: Findings that a model contested before, with the reasons.
        not_tried: Nodes and branches that the dry run could not try, each with the reason.
        titles: Titles that people gave to nodes, by id.
    """
    samples = [f"{node}: {cut(compact(answer), LONGEST_FINDING)}" for node, answer in graph.samples.items()]
    return [
        part
        for part in (
            Part("Rules", f"{text('judge')}\n{criteria}", keep=True),
            Part("The workflow", whole(graph, offer.types, titles), keep=True, data=True),
            Part("Last change", changed(base, graph), keep=True),
            Part("Earlier requests", listed(rounds[:-1]), keep=True, data=True),
            Part(
                "Notes to the user", "\n".join(f"{n}. {note}" for n, note in enumerate(notes, 1)), keep=True, data=True
            ),
            Part("Contested findings, not to be raised again", listed(contested), keep=True, data=True),
            Part("Not tried in the dry run", findings_in_short(not_tried), keep=True, data=True),
            Part("Sample answers used in the dry run, not real ones", listed(samples), keep=True, data=True),
            Part("Node types", ", ".join(offer.types), keep=True),
            Part(SERVICES, offer.services(), keep=True, data=True),
        )
        if part.text
    ]


def changed(base: NodeGraph, graph: NodeGraph) -> str:
    """Return the ids of new, changed and removed nodes in lines; empty for a first draft."""
    if not base.nodes:
        return ""
    changes = difference(base, graph)
    ids_by_change = {
        "new": [spec.id for spec in changes.added],
        "changed": list(dict.fromkeys(change.node for change in changes.changed)),
        "gone": [spec.id for spec in changes.removed],
    }
    return "\n".join(f"{change}: {', '.join(ids)}" for change, ids in ids_by_change.items() if ids)


def listed(texts: Iterable[str]) -> str:
    """Return a line with a dash for each text."""
    return "\n".join(f"- {each}" for each in texts)


def numbered(notes: Sequence[str]) -> str:
    """Return a numbered line for each note; only the latest notes that fit, and only the beginning of long notes."""
    characters_left, lines = LONGEST_NOTES, list[str]()
    for number, note in reversed(list(enumerate(notes, 1))):
        line = f"{number}. {note if len(note) <= LONGEST_NOTE else note[:LONGEST_NOTE] + '[… cut]'}"
        characters_left -= len(line)
        if characters_left < 0:
            break
        lines.append(line)
    return "\n".join(reversed(lines))


def findings_in_short(findings: Iterable[str]) -> str:
    """Return a numbered line for each finding."""
    return "\n".join(f"{number}. {cut(finding, LONGEST_FINDING)}" for number, finding in enumerate(findings, 1))


def planned(plan: Plan) -> str:
    """Return a line for each node of a plan."""
    lines: list[str] = []
    branching = {predecessor.node for node in plan.nodes for predecessor in node.predecessors if predecessor.port}
    for node in plan.nodes:
        after = ", ".join(
            f"{predecessor.node}:{predecessor.port}" if predecessor.node in branching else predecessor.node
            for predecessor in node.predecessors
        )
        line = f"{node.id} {node.type} [{node.change}]" + (f": {node.purpose}" if node.purpose else "")
        line += f"; inside {node.inside}" if node.inside else ""
        line += f"; after {after}" if after else ""
        lines.append(line)
    lines += [f"{variable} [update]: renamed {new}" for variable, new in plan.rename.items()]
    return "\n".join(lines)
