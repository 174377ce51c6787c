"""Prompts of the stages of a design: the files of `texts/` and the node declarations, within a budget per stage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import NamedTuple

from operad.flows.catalogue import NodeType, table
from operad.flows.edit.batch import OPERATIONS
from operad.flows.edit.difference import difference
from operad.flows.edit.short import usage
from operad.flows.formats.shapes import fields_of
from operad.flows.generation.cards import cards
from operad.flows.generation.likely import likely
from operad.flows.generation.nodes_shown import compact, concerned, nodes_now, skeleton, whole
from operad.flows.generation.offer import CHAT2WORKFLOW_OFFER, Offer
from operad.flows.generation.plan import Plan
from operad.flows.generation.signatures import EVERYWHERE, NOTATION, inner_types, short, signatures
from operad.flows.node_graph import NodeGraph
from operad.flows.repair.contract import Contract
from operad.runtime.reasoning.prompt import cut, fence
from operad.runtime.values.schema import Schema

CHARACTERS_A_TOKEN = 4
"""Of English and JSON, roughly; budgets are in tokens, texts are measured in characters."""

DRAFT_TOKENS = 5_000
PLAN_TOKENS = 2_400
BUILD_TOKENS = 4_000
FIX_TOKENS = 2_000
"""Tokens of a stage's prompt at most, without the user's instruction, which is never cut. A first draft or an edit
takes one call if its whole prompt fits `DRAFT_TOKENS`; otherwise plan and build are separate calls."""

MOST_FINDINGS = 5
"""Findings that a model is given at once to mend."""

LONGEST_FINDING = 600
"""Characters of a finding that a model is shown; what is cut is marked."""

LONGEST_REASONS, LONGEST_NOTES = 1_200, 1_200
"""Characters of a plan's reasons, and of notes, that a model is shown; what is cut is marked."""

LONGEST_NOTE = 300
"""Characters of a note that is kept."""

NEAR_VARIABLES, FAR_VARIABLES = 12, 4
"""Variables that are listed as readable by a node: the nearest, and the farthest, among which the inputs are. The
schema of the answer has them all."""

STATED = "Names that the job seems to state (found by rules; the job itself counts)"

ALWAYS_SHOWN = ("llm",)
"""Types that are described for every change, beside those of the workflow and those that its words suggest; others are
listed in short."""

OTHERS = "Types in short"

NOTED = "Notes so far (`outdated`: numbers of those that no longer hold)"

SERVICES = "Configured services"

FORM = "Form of the answer"

TEXT_FORM = """\
Answer with the tags <reasoning>…</reasoning> and <nodes>…</nodes>; between the latter stands JSON: an object with \
the parameters of each node by its id."""


@cache
def text(name: str) -> str:
    """Return a prompt's instructions: a file of `texts/`.

    Args:
        name: Its name, without the suffix.
    """
    return (files("operad.flows.generation") / "texts" / f"{name}.md").read_text(encoding="utf-8").strip()


class Part(NamedTuple):
    """A part of a prompt.

    Attributes:
        title: What it tells.
        text: What it says; empty for nothing.
        keep: Whether it stays whole whatever the budget; others are cut, the last one first.
        data: Whether others wrote it, so that it is fenced.
        fixed: Whether it is the same for every job, so that it stands in the instruction, before the job: endpoints keep
            the beginning of prompts that they read before.
    """

    title: str
    text: str
    keep: bool = False
    data: bool = False
    fixed: bool = False


def fit(parts: Sequence[Part], tokens: int) -> list[Part]:
    """The parts within a budget: what need not be kept whole is cut or left out, the last first.

    Args:
        parts: The parts, the most important first.
        tokens: The budget.
    """
    room = CHARACTERS_A_TOKEN * tokens - sum(len(part.text) for part in parts if part.keep)
    fitted: list[Part] = []
    for part in parts:
        if not part.text:
            continue
        if part.keep:
            fitted.append(part)
            continue
        text = part.text if len(part.text) <= room else cut(part.text, max(room - 60, 0)) if room > 300 else ""
        room -= len(text)
        fitted += [part._replace(text=text)] if text else []
    return fitted


def shown(parts: Iterable[Part]) -> str:
    """Parts as one text, each below its title."""
    return "\n\n".join(f"### {part.title}\n{fence(part.text) if part.data else part.text}" for part in parts)


def sizes(parts: Iterable[Part], schema: Schema | None = None) -> dict[str, int]:
    """Estimate the tokens of each part, and of the JSON Schema of the answer, which budgets do not count."""
    texts = {part.title: part.text for part in parts} | ({FORM: compact(schema)} if schema else {})
    return {title: -(-len(text) // CHARACTERS_A_TOKEN) for title, text in texts.items()}


def to_draft(
    base: NodeGraph,
    rounds: Sequence[str],
    offer: Offer,
    example: Part,
    notes: Sequence[str] = (),
    titles: Mapping[str, str] = MappingProxyType({}),
) -> Sequence[Part] | None:
    """Return the prompt for a plan with all parameters, in one call; None where it does not fit the budget.

    Args:
        base: The workflow that is there.
        rounds: What is asked for, the latest last.
        offer: The node types, parameters and services that may be used.
        example: A workflow to go by, made for other words; an empty one for none.
        notes: Notes to the user that are kept.
        titles: The titles of nodes that people gave them, by id.
    """
    there = {spec.type for spec in base.nodes}
    described = {*there, *ALWAYS_SHOWN, *likely(rounds[-1], offer.types)}
    shown_types = [name for name in offer.types if not there or name in described]
    others = [name for name in offer.types if name not in (*shown_types, *inner_types(offer.types))]
    used = any(EVERYWHERE in fields_of(spec.params) for spec in base.nodes)
    params = offer.params if not there or used or likely(rounds[-1], [EVERYWHERE]) else offer.params - {EVERYWHERE}
    rules = [text("change" if there else "draft"), text("inside") if "iteration" in shown_types else ""]
    parts = [
        Part("Rules", "\n".join(filter(None, rules)), keep=True),
        Part(NOTATION, signatures(offer.types, shown_types, params), keep=True, fixed=True),
        Part(OTHERS, "\n".join(short(offer.types[name]) for name in others), keep=True, fixed=True),
        Part(SERVICES, offer.services(), keep=True, data=True),
        Part("The workflow", whole(base, offer.types, titles), keep=True, data=True),
        Part("Asked for before", listed(rounds[:-1]), keep=True, data=True),
        Part(NOTED, numbered(notes), keep=True, data=True),
        example,
    ]
    told = [part for part in parts if part.text]
    return told if sum(len(part.text) for part in told) <= CHARACTERS_A_TOKEN * DRAFT_TOKENS else None


def to_plan(
    base: NodeGraph,
    rounds: Sequence[str],
    contract: Contract,
    offer: Offer,
    notes: Sequence[str] = (),
    titles: Mapping[str, str] = MappingProxyType({}),
) -> Sequence[Part]:
    """Return the prompt for a plan without parameters.

    Args:
        base: The workflow that is there.
        rounds: What is asked for, the latest last.
        contract: What is stated.
        offer: The node types, parameters and services that may be used.
        notes: What was noted before.
        titles: The titles of nodes that people gave them, by id.
    """
    return fit(
        [
            Part("Rules", text("plan") + ("\n\n" + text("edit") if base.nodes else ""), keep=True),
            Part(STATED, stated(contract), keep=True),
            Part("Node types", types_in_short(offer.types), keep=True, fixed=True),
            Part(SERVICES, offer.services(), keep=True, data=True),
            Part("The workflow that is there", skeleton(base, offer.types, titles=titles), data=True),
            Part("Asked for before", listed(rounds[:-1]), data=True),
            Part(NOTED, numbered(notes), data=True),
        ],
        PLAN_TOKENS,
    )


def to_build(
    plan: Plan,
    base: NodeGraph,
    contract: Contract,
    offer: Offer,
    variables: Mapping[str, Sequence[str]],
    example: Part,
    *,
    kinds: Mapping[str, str] | None = None,
    ids: Sequence[str] | None = None,
    rounds: Sequence[str] = (),
) -> Sequence[Part]:
    """Return the prompt for parameters. Those that a node has now are never cut, as they are written anew.

    Args:
        plan: The plan.
        base: The workflow that is there.
        contract: What is stated.
        offer: The node types, parameters and services that may be used.
        variables: What each planned node may read.
        example: A workflow to go by.
        kinds: The types of variables, by ``id.variable``.
        ids: The nodes that are to be written; None for all that the plan opens.
        rounds: What was asked for before, and then the job.
    """
    wanted = plan.open if ids is None else ids
    names = [node.type for node in plan.nodes if node.id in wanted]
    return fit(
        [
            Part("Rules", f"{text('build')}\n\n{text('params')}", keep=True),
            Part(STATED, stated(contract), keep=True),
            Part("The plan", planned(plan), keep=True),
            Part("Reasons of the plan", cut(plan.reasoning, LONGEST_REASONS)),
            Part("Told to the user", cut(listed(plan.notes), LONGEST_NOTES), keep=True),
            Part("Parameters that are written already", written(plan), data=True),
            Part("What each may read", may_read(variables, wanted, kinds or {}), keep=True),
            Part("The parameters that they have now", nodes_now(base, wanted, offer.types), keep=True),
            Part("Asked for before", listed(rounds[:-1]), data=True),
            Part("Node types", cards(offer.types, names, offer.params)),
            Part(SERVICES, offer.services(), data=True),
            example,
        ],
        BUILD_TOKENS,
    )


def to_mend(
    graph: NodeGraph,
    findings: Sequence[str],
    ids: Sequence[str],
    offer: Offer = CHAT2WORKFLOW_OFFER,
    *,
    titles: Mapping[str, str] = MappingProxyType({}),
) -> Sequence[Part]:
    """Return the prompt for operations.

    Args:
        graph: The workflow.
        findings: What is to be mended.
        ids: The nodes concerned.
        offer: The node types, parameters and services that may be used.
        titles: The titles of nodes that people gave them, by id.
    """
    rules, found = f"{text('mend')}\n{operations_in_short()}", findings_in_short(findings)
    room = CHARACTERS_A_TOKEN * FIX_TOKENS - len(rules) - len(found)
    names = [graph.by_id[each].type for each in ids if each in graph.by_id]
    return fit(
        [
            Part("Rules", rules, keep=True),
            Part("Findings", found, keep=True),
            Part("The nodes concerned", concerned(graph, ids, room, offer.types), keep=True),
            Part("Their types", cards(offer.types, names, offer.params)),
            Part("All nodes", skeleton(graph, offer.types, titles=titles), data=True),
            Part("All types", ", ".join(offer.types)),
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
    titles: Mapping[str, str] = MappingProxyType({}),
) -> Sequence[Part]:
    """Return the prompt for a verdict; of a changed workflow, the new parts are shown whole.

    Args:
        graph: The workflow.
        base: The workflow that was there before.
        rounds: What is asked for, the latest last.
        offer: The node types, parameters and services that may be used.
        criteria: What counts.
        notes: What was said of what cannot be done.
        contested: Findings that were contested before, with the reasons.
        titles: The titles of nodes that people gave them, by id.
    """
    return [
        part
        for part in (
            Part("Rules", f"{text('judge')}\n{criteria}", keep=True),
            Part("The workflow", whole(graph, offer.types, titles), keep=True, data=True),
            Part("Changed just now", changed(base, graph), keep=True),
            Part("Asked for before, and still to be kept", listed(rounds[:-1]), keep=True, data=True),
            Part("Notes to the user", listed(notes), keep=True, data=True),
            Part("Contested findings, not to be raised again", listed(contested), keep=True, data=True),
            Part("Node types", ", ".join(offer.types), keep=True),
            Part(SERVICES, offer.services(), keep=True, data=True),
        )
        if part.text
    ]


def changed(base: NodeGraph, graph: NodeGraph) -> str:
    """The ids of nodes that are new, changed or gone; empty for a first draft."""
    if not base.nodes:
        return ""
    made = difference(base, graph)
    told = {
        "new": [spec.id for spec in made.added],
        "changed": list(dict.fromkeys(change.node for change in made.changed)),
        "gone": [spec.id for spec in made.removed],
    }
    return "\n".join(f"{what}: {', '.join(ids)}" for what, ids in told.items() if ids)


def listed(texts: Iterable[str]) -> str:
    """A line with a dash for each text."""
    return "\n".join(f"- {each}" for each in texts)


def numbered(notes: Sequence[str]) -> str:
    """A numbered line for each note; of many, the latest, and of a long one, the beginning."""
    room, lines = LONGEST_NOTES, list[str]()
    for number, note in reversed(list(enumerate(notes, 1))):
        line = f"{number}. {note if len(note) <= LONGEST_NOTE else note[:LONGEST_NOTE] + '[… cut]'}"
        room -= len(line)
        if room < 0:
            break
        lines.append(line)
    return "\n".join(reversed(lines))


def operations_in_short() -> str:
    """A line for each operation: its name, and the keys that it takes."""
    return "\n".join(f"- {usage(name)}" for name in OPERATIONS)


def stated(contract: Contract) -> str:
    """Return the names that the instructions state, in words."""
    lines = [f"input {each.name}" + (f" ({each.kind.value})" if each.kind else "") for each in contract.inputs]
    for end in contract.outputs:
        which = "outputs" if len(contract.outputs) == 1 else "outputs of one end"
        lines += [f"{which}: {', '.join(sorted(end.needed))}"] if end.needed else []
    if contract.open:
        lines.append(f"input or output, or both: {', '.join(sorted(contract.open))}")
    return "\n".join(f"- {line}" for line in lines)


def types_in_short(types: Mapping[str, NodeType]) -> str:
    """A line for each type."""
    return table(types.values())


def findings_in_short(findings: Iterable[str]) -> str:
    """A numbered line for each finding."""
    return "\n".join(f"{number}. {cut(each, LONGEST_FINDING)}" for number, each in enumerate(findings, 1))


def planned(plan: Plan) -> str:
    """A plan, a line for each node."""
    lines: list[str] = []
    for node in plan.nodes:
        after = ", ".join(each.node + (f":{each.port}" if each.port else "") for each in node.after)
        gives = ", ".join(f"{each.name} ({each.type})" for each in node.gives)
        line = f"{node.id} {node.type} [{node.change}]" + (f": {node.does}" if node.does else "")
        line += f"; inside {node.inside}" if node.inside else ""
        line += f"; after {after}" if after else ""
        line += f"; gives {gives}" if gives else ""
        lines.append(line)
    return "\n".join(lines)


def written(plan: Plan) -> str:
    """The parameters that a plan says, a line for each of these nodes."""
    return "\n".join(f"{node.id}: {compact(node.params)}" for node in plan.nodes if node.params)


def may_read(
    variables: Mapping[str, Sequence[str]], ids: Iterable[str], kinds: Mapping[str, str] = MappingProxyType({})
) -> str:
    """The variables that each of some nodes may read; with their types, where these are other than string."""
    return "\n".join(f"{each}: {', '.join(_near_and_far(variables.get(each, ()), kinds)) or 'none'}" for each in ids)


def _near_and_far(names: Sequence[str], kinds: Mapping[str, str]) -> Sequence[str]:
    told = [f"{name} ({kinds[name]})" if kinds.get(name, "string") != "string" else name for name in names]
    if len(told) <= NEAR_VARIABLES + FAR_VARIABLES:
        return told
    left = len(told) - NEAR_VARIABLES - FAR_VARIABLES
    return [*told[:NEAR_VARIABLES], f"… {left} more in the form of the answer …", *told[-FAR_VARIABLES:]]
