"""Prompts of the stages of a design: the files of `texts/` and the node declarations, within a budget per stage."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
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
from operad.flows.generation.plan import Plan, nodes_before
from operad.flows.generation.signatures import EVERYWHERE, NOTATION, inner_types, short, signatures
from operad.flows.node_graph import NodeGraph
from operad.flows.repair.contract import Contract
from operad.runtime.values.schema_check import Schema
from operad.runtime.values.text import cut, fence

CHARACTERS_A_TOKEN = 4
"""Estimated characters per token of English and JSON; budgets are in tokens, texts are measured in characters."""

DRAFT_TOKENS = 5_000
PLAN_TOKENS = 2_400
BUILD_TOKENS = 4_000
FIX_TOKENS = 2_000
"""Maximum number of tokens of a stage's prompt, without the user's instruction, which is never cut. A draft or an edit
takes one call if its whole prompt fits `DRAFT_TOKENS`; otherwise plan and build are separate calls."""

MOST_FINDINGS = 5
"""Maximum number of findings in a prompt."""

LONGEST_FINDING = 600
"""Maximum number of characters of a finding in a prompt; a cut is marked."""

LONGEST_REASONS, LONGEST_NOTES = 1_200, 1_200
"""Maximum number of characters of a plan's reasons, and of notes, in a prompt; a cut is marked."""

LONGEST_NOTE = 300
"""Maximum number of characters of a note in a prompt; a cut is marked."""

NEAR_VARIABLES, FAR_VARIABLES = 12, 4
"""Number of variables to list as readable by a node: the nearest ones, and the farthest, which include the inputs.
The schema of the answer contains all variables."""

STATED = "Names that the job seems to state (found by rules; the job takes precedence)"

ALWAYS_SHOWN = ("llm",)
"""Types to describe for every change, beside the types of the workflow and those that the instruction suggests; other
types are listed in short."""

OTHERS = "Types in short"

NOTED = "Earlier notes"

SERVICES = "Configured services"

FORM = "Form of the answer"

TEXT_FORM = """\
Answer with the tags <reasoning>…</reasoning> and <nodes>…</nodes>; between the latter stands JSON: an object with \
the parameters of each node by its id."""


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


def to_draft(
    base: NodeGraph,
    rounds: Sequence[str],
    offer: Offer,
    example: Part,
    notes: Sequence[str] = (),
    titles: Mapping[str, str] = MappingProxyType({}),
) -> Sequence[Part] | None:
    """Return the prompt for a plan with all parameters, in one call; None if it does not fit the budget.

    Args:
        base: The existing workflow.
        rounds: The instructions, the latest last.
        offer: Node types, parameters and services that may be used.
        example: Part with a workflow made from another instruction; an empty part for none.
        notes: Earlier notes to the user.
        titles: Titles that people gave to nodes, by id.
    """
    used_types = {spec.type for spec in base.nodes}
    described = {*used_types, *ALWAYS_SHOWN, *likely(rounds[-1], offer.types)}
    shown_types = [name for name in offer.types if not used_types or name in described]
    others = [name for name in offer.types if name not in (*shown_types, *inner_types(offer.types))]
    uses_everywhere = any(EVERYWHERE in fields_of(spec.params) for spec in base.nodes)
    params = (
        offer.params
        if not used_types or uses_everywhere or likely(rounds[-1], [EVERYWHERE])
        else offer.params - {EVERYWHERE}
    )
    rules = [text("change" if used_types else "draft"), text("inside") if "iteration" in shown_types else ""]
    parts = [
        Part("Rules", "\n".join(filter(None, rules)), keep=True),
        Part(NOTATION, signatures(offer.types, shown_types, params), keep=True, fixed=True),
        Part(OTHERS, "\n".join(short(offer.types[name]) for name in others), keep=True, fixed=True),
        Part(SERVICES, offer.services(), keep=True, data=True),
        Part("The workflow", whole(base, offer.types, titles), keep=True, data=True),
        Part("Earlier requests", listed(rounds[:-1]), keep=True, data=True),
        Part(NOTED, numbered(notes), keep=True, data=True),
        example,
    ]
    filled_parts = [part for part in parts if part.text]
    return filled_parts if sum(len(part.text) for part in filled_parts) <= CHARACTERS_A_TOKEN * DRAFT_TOKENS else None


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
        base: The existing workflow.
        rounds: The instructions, the latest last.
        contract: Inputs and outputs that the instructions state.
        offer: Node types, parameters and services that may be used.
        notes: Earlier notes to the user.
        titles: Titles that people gave to nodes, by id.
    """
    return fit(
        [
            Part("Rules", text("plan") + ("\n\n" + text("edit") if base.nodes else ""), keep=True),
            Part(STATED, stated(contract), keep=True),
            Part("Node types", types_in_short(offer.types), keep=True, fixed=True),
            Part(SERVICES, offer.services(), keep=True, data=True),
            Part("The workflow", skeleton(base, offer.types, titles=titles), data=True),
            Part("Earlier requests", listed(rounds[:-1]), data=True),
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
    """Return the prompt for parameters. Current parameters are never cut, as the model rewrites them.

    Args:
        plan: The plan.
        base: The existing workflow.
        contract: Inputs and outputs that the instructions state.
        offer: Node types, parameters and services that may be used.
        variables: Variables that each planned node may read.
        example: Part with an example workflow.
        kinds: Types of variables, by ``id.variable``.
        ids: Ids of the nodes to write; None for all new and updated nodes of the plan.
        rounds: The instructions, the latest last.
    """
    wanted = plan.to_write if ids is None else ids
    names = [node.type for node in plan.nodes if node.id in wanted]
    return fit(
        [
            Part("Rules", f"{text('build')}\n\n{text('params')}", keep=True),
            Part(STATED, stated(contract), keep=True),
            Part("The plan", planned(plan), keep=True),
            Part("Reasons of the plan", cut(plan.reasoning, LONGEST_REASONS)),
            Part("Notes to the user", cut(listed(plan.notes), LONGEST_NOTES), keep=True),
            Part("Parameters already written", written(plan), data=True),
            Part("Readable variables of each node", may_read(variables, wanted, kinds or {}), keep=True),
            Part("Current parameters", nodes_now(base, wanted, offer.types), keep=True),
            Part("Nodes before them", concerned(base, nodes_before(plan, base, wanted), types=offer.types)),
            Part("Earlier requests", listed(rounds[:-1]), data=True),
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
    allowed: AbstractSet[str] | None = None,
    titles: Mapping[str, str] = MappingProxyType({}),
) -> Sequence[Part]:
    """Return the prompt for operations that mend findings.

    Args:
        graph: The workflow.
        findings: Findings to mend.
        ids: Ids of the nodes that the findings concern.
        offer: Node types, parameters and services that may be used.
        allowed: Ids of the nodes that may be changed; None for all.
        titles: Titles that people gave to nodes, by id.
    """
    rules, shown_findings = f"{text('mend')}\n{operations_in_short()}", findings_in_short(findings)
    characters_left = CHARACTERS_A_TOKEN * FIX_TOKENS - len(rules) - len(shown_findings)
    names = [graph.by_id[node_id].type for node_id in ids if node_id in graph.by_id]
    names += [name for name in offer.types if re.search(rf"\b{re.escape(name)}\b", shown_findings)]
    ids_to_change = ", ".join(sorted((allowed or set()) & graph.by_id.keys()))
    changeable = "" if allowed is None else f"{ids_to_change}, and nodes that you add".removeprefix(", and ")
    return fit(
        [
            Part("Rules", rules, keep=True),
            Part("Findings", shown_findings, keep=True),
            Part("Nodes that you may change", changeable, keep=True),
            Part("Nodes concerned", concerned(graph, ids, characters_left, offer.types), keep=True),
            Part("Node types concerned", cards(offer.types, names, offer.params)),
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
    """Return the prompt for a verdict on a workflow.

    Args:
        graph: The workflow.
        base: The workflow before the change; without nodes if the workflow is new.
        rounds: The instructions, the latest last.
        offer: Node types, parameters and services that may be used.
        criteria: Criteria of the verdict.
        notes: Notes to the user on assumptions and on requests that cannot be met.
        contested: Findings that a model contested before, with the reasons.
        titles: Titles that people gave to nodes, by id.
    """
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


def operations_in_short() -> str:
    """Return a line for each operation with its name and its keys."""
    return "\n".join(f"- {usage(name)}" for name in OPERATIONS)


def stated(contract: Contract) -> str:
    """Return a line for each input and for the outputs that the instructions state."""
    lines = [
        f"input {declared.name}" + (f" ({declared.kind.value})" if declared.kind else "")
        for declared in contract.inputs
    ]
    for end in contract.outputs:
        which = "outputs" if len(contract.outputs) == 1 else "outputs of one end"
        lines += [f"{which}: {', '.join(sorted(end.needed))}"] if end.needed else []
    if contract.undirected:
        lines.append(f"input or output, or both: {', '.join(sorted(contract.undirected))}")
    return "\n".join(f"- {line}" for line in lines)


def types_in_short(types: Mapping[str, NodeType]) -> str:
    """Return a line for each node type, except the starts of containers, which are added by code."""
    return table(types[name] for name in types if name not in inner_types(types))


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
        gives = ", ".join(f"{variable.name} ({variable.type})" for variable in node.declares)
        line = f"{node.id} {node.type} [{node.change}]" + (f": {node.purpose}" if node.purpose else "")
        line += f"; inside {node.inside}" if node.inside else ""
        line += f"; after {after}" if after else ""
        line += f"; gives {gives}" if gives else ""
        lines.append(line)
    return "\n".join(lines)


def written(plan: Plan) -> str:
    """Return the parameters that a plan contains, in a line for each node that has some."""
    return "\n".join(f"{node.id}: {compact(node.params)}" for node in plan.nodes if node.params)


def may_read(
    variables: Mapping[str, Sequence[str]], ids: Iterable[str], kinds: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Return a line for each node with the variables that it may read, and their types other than string."""
    return "\n".join(
        f"{node_id}: {', '.join(_near_and_far(variables.get(node_id, ()), kinds)) or 'none'}" for node_id in ids
    )


def _near_and_far(names: Sequence[str], kinds: Mapping[str, str]) -> Sequence[str]:
    """Return variables with their types; of many, the nearest and the farthest."""
    shown_names = [f"{name} ({kinds[name]})" if kinds.get(name, "string") != "string" else name for name in names]
    if len(shown_names) <= NEAR_VARIABLES + FAR_VARIABLES:
        return shown_names
    omitted = len(shown_names) - NEAR_VARIABLES - FAR_VARIABLES
    return [
        *shown_names[:NEAR_VARIABLES],
        f"… {omitted} more in the form of the answer …",
        *shown_names[-FAR_VARIABLES:],
    ]
