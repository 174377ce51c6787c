"""Prompts of the stages of a design: the files of `texts/` and the node declarations, within a budget per stage."""

from __future__ import annotations

import re
import types as python_types
import typing
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache, partial
from importlib.resources import files
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from pydantic.fields import FieldInfo

from operad.flows.catalogue import NodeType, fields_for_generation
from operad.flows.edit.difference import difference
from operad.flows.generation.cut_texts import CUT
from operad.flows.generation.drafting import places, value_of_pairs
from operad.flows.generation.names import marked_names
from operad.flows.generation.nodes_shown import compact, excerpt, whole
from operad.flows.generation.offer import CHAT2WORKFLOW_OFFER, Offer
from operad.flows.generation.plan import Plan
from operad.flows.node_graph import NodeGraph
from operad.operators.conditions import OPERATORS, Condition
from operad.operators.node import ADVANCED, summary
from operad.operators.variables import Selector, Text, VariableType
from operad.runtime.values.schema_check import Schema
from operad.runtime.values.text import cut, fence

# Signatures of node types for models: one line for each type, from its declaration.

NOTATION = "Node types: name(parameters) → outputs; ports. Hints"
"""Title of a list of signatures."""

EVERYWHERE = "failure"
"""Parameter that every type has."""

SHARED = (EVERYWHERE, "model_name")
"""Advanced parameters of several types, which are described once, after all types."""

SHORT: Mapping[Any, str] = {Selector: "var", Text: "text", bool: "bool", int: "number", float: "number"}
"""Names of types in signatures; other types, such as plain texts, have no name."""


def signatures(types: Mapping[str, NodeType], names: Iterable[str], params: Collection[str] = ()) -> str:
    """Return the signatures of node types in the given order, each once.

        print(signatures(NODE_TYPES, ["llm", "end"]))

    Args:
        types: Node types by name.
        names: Names of the types to show; unknown names and the starts of containers are ignored.
        params: Advanced parameters to show, as ``type.parameter``, or ``parameter`` for all types.
    """
    shown = [types[name] for name in dict.fromkeys(names) if name in plannable(types)]
    return "\n".join([*(signature(node_type, params) for node_type in shown), *_shared_params(shown, params)])


def signature(node_type: NodeType, params: Collection[str] = ()) -> str:
    """Return a node type in one line: its parameters with their types, outputs, ports, and its hint.

    Args:
        node_type: The type.
        params: Advanced parameters to show, as ``type.parameter``.
    """
    fields = {name: each for name, each in fields_for_generation(node_type, params).items() if name != EVERYWHERE}
    outputs = "" if node_type.gives.startswith("nothing") else f" → {node_type.gives}"
    ports = f"; {node_type.ports_text}" if node_type.ports_text else ""
    hint = _hint(node_type)
    advanced = [
        f"{name}: {field.description}"
        for name, field in fields.items()
        if ADVANCED in field.metadata
        and name not in SHARED
        and not re.search(rf"\b{name}\b", hint)  # unless the hint describes the parameter
    ]
    notes = " ".join(filter(None, [hint, *advanced]))
    return f"{node_type.type}({_params(node_type, fields)}){outputs}{ports}" + (f". {notes}" if notes else "")


def names_of(types: Mapping[str, NodeType], used: Collection[str] = ()) -> str:
    """Return the types that a change may add, in a few lines, with their parameters; of `ONLY_NAMED`, the names.

    Args:
        types: Node types by name.
        used: Types whose parameters the workflow shows.
    """
    lines = {
        name: _without_hints(types[name], is_used=name in used)
        for name in plannable(types)
        if name not in ("start", "end")
    }
    others = [name for name in lines if name in ONLY_NAMED]
    by_output: dict[str, list[str]] = {}
    for shown, _, output in (lines[name].partition(" → ") for name in lines if name not in others):
        by_output.setdefault(output, []).append(shown)
    brief = [", ".join(shown) + f" → {output}" * bool(output) for output, shown in by_output.items()]
    return "\n".join([*brief, ", ".join([*others, f"{EVERYWHERE} {{retries, wait, then: end|branch}} of any"])])


def _without_hints(node_type: NodeType, *, is_used: bool) -> str:
    """Return a node type with its required parameters and optional lists, and its output if there is one.

    A type that is used has only its optional parameters that are lists or choices.
    """
    given = _OUTPUT_DETAILS.sub("", node_type.gives).split()
    output = f" → {given[0]}" if len(given) in (1, 2) and given[0] != "nothing" else ""
    inside = _INSIDE.search(node_type.gives)
    hints = get_type_hints(node_type.params_type, include_extras=True)
    fields = fields_for_generation(node_type)
    required = [name for name, field in fields.items() if field.is_required()]
    kinds = {name: _type_name(hints[name]) for name in fields if name not in required}
    optional = [name for name, kind in kinds.items() if kind.startswith("[") or (is_used and "|" in kind)]
    names = [*required * (not is_used), *optional * (node_type.type != "code")]
    params = _params(node_type, {name: fields[name] for name in names}, brief=True)
    shown = "; ".join(filter(None, [params, f"inside: {inside[1]}" if inside and not is_used else ""]))
    return f"{node_type.type}{f'({shown})' if shown else ''}{output}"


_INSIDE = re.compile(r"; inside only: (\w+)")
"""Pattern of the variable of a container for the nodes inside, in the description of its outputs."""

_OUTPUT_DETAILS = re.compile(r"; inside.*| \((?!(?:array\[\w+\]|object)\))[^()]*\)|: .*")
"""Pattern of details in descriptions of outputs, except the types of lists and objects."""


def _params(node_type: NodeType, fields: Mapping[str, FieldInfo], *, brief: bool = False) -> str:
    """Return the parameters with their types; ? marks optional ones. In brief, named values are mappings."""
    hints = get_type_hints(node_type.params_type, include_extras=True)
    return ", ".join(
        _with_type(name if field.is_required() else f"{name}?", _type_name(hints[name], brief=brief), brief=brief)
        for name, field in fields.items()
    )


def plannable(types: Mapping[str, NodeType]) -> list[str]:
    """Return the names of the types that models plan: all except those that begin the body of a container."""
    starts = {node_type.body_starts_with for node_type in types.values()}
    return [name for name in types if name not in starts]


def _hint(node_type: NodeType) -> str:
    """Return the hint of a node type, by default its summary; for if-else, the operators of conditions."""
    if node_type.type == "if-else":
        return "".join(_signatures_operators_by_type())
    return summary(node_type) if node_type.hint is None else node_type.hint


def _signatures_operators_by_type() -> Iterator[str]:
    """Yield the operators of conditions by the type of the variable, and last those of all types."""
    kinds = (VariableType.STRING, VariableType.NUMBER, VariableType.BOOLEAN, VariableType.ARRAY_STRING)
    common = [operator for operator in OPERATORS[kinds[0]] if all(operator in OPERATORS[kind] for kind in kinds)]
    yield "Operators: "
    for kind in kinds:
        specific = [operator for operator in OPERATORS[kind] if operator not in common]
        yield f"{kind.value.partition('[')[0]}: {', '.join(specific)}; "
    yield f"all: {', '.join(common)}"


def _with_type(name: str, kind: str, *, brief: bool = False) -> str:
    """Return a name with its type; in brief, without those that are texts, and variables that are called so."""
    is_plain = brief and (kind == "text" or (kind == "var" and re.search("variable$|selector$", name)))
    return name if is_plain or not kind else f"{name}: {kind}"


def _type_name(annotation: Any, *, brief: bool = False) -> str:
    """Return the type of a parameter in short; empty for a plain text."""
    name = partial(_type_name, brief=brief)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return name(arguments[0])
    if annotation in SHORT:
        return SHORT[annotation]
    if places(annotation):
        return f"{{{', '.join(_fields_in_short(annotation, brief=brief))}}}"
    if origin in (Union, python_types.UnionType):
        if len(_without_none(arguments)) == 1:
            return name(_without_none(arguments)[0])
        names = dict.fromkeys(name(argument) or "text" for argument in _without_none(arguments))
        return "|".join(each for each in names if each != "var" or "text" not in names)  # a text can be a variable
    if origin is Literal:
        return "|".join(map(str, arguments))
    if origin in (list, Sequence, typing.Sequence):
        if brief and (value := value_of_pairs(arguments[0])):
            return f"{{name: {name(places(arguments[0])[value]) or value}}}"
        return f"[{name(arguments[0]) or 'text'}]"
    if origin in (dict, Mapping, typing.Mapping):
        return "{name: value}"
    return ""


def _fields_in_short(annotation: Any, *, brief: bool) -> Iterator[str]:
    """Yield the fields of a named tuple with their types; in brief, without advanced ones, and with some operators."""
    for name, hint in places(annotation, choices=False).items():
        if brief and (annotation, name) == (Condition, "operator"):
            yield f"operator: {_SOME_OPERATORS}"
        elif not (brief and ADVANCED in get_args(hint)):
            optional = name in annotation._field_defaults
            kind = "" if brief and optional else _type_name(hint, brief=brief)
            yield _with_type(f"{name}?" if optional else name, kind, brief=brief)


_SOME_OPERATORS = "is|contains|empty|≥…"
"""Operators of conditions in the list of types for changes, as examples."""


def _without_none(kinds: Sequence[Any]) -> Sequence[Any]:
    return [kind for kind in kinds if kind is not type(None)]


def _shared_params(shown: Sequence[NodeType], params: Collection[str]) -> Iterator[str]:
    """Yield a line for each parameter of `SHARED` that the shown types have."""
    for name in SHARED:
        types_with_param = [
            node_type
            for node_type in shown
            if name in node_type.params_type.model_fields and {name, f"{node_type.type}.{name}"} & set(params)
        ]
        if types_with_param:
            owners = "every type" if name in params else ", ".join(node_type.type for node_type in types_with_param)
            yield f"{name}?, a parameter of {owners}: {types_with_param[0].params_type.model_fields[name].description}"


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

OUTSIDE = frozenset({"request", "tool"})
"""Types that reach other systems, whose plans say what they may change there and how these answer."""

SERVED = frozenset({"tool", "agent", "knowledge-retrieval", "sub-workflow"})
"""Types that name configured services."""

ONLY_NAMED = frozenset({"list-operator", "echarts", *SERVED, *OUTSIDE, "loop", "assigner"})
"""Types of which the list for changes has the name only, as few changes add them, and they need rules of their own."""

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
    shared = list(_shared_params([offer.types["llm"]], params)) if EVERYWHERE in look and not wanted else []
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
