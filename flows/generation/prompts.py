"""What the stages of a design tell a model: made from the node declarations, and kept to a budget per stage."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from operad.flows.catalogue import NodeType, card, table
from operad.flows.edit.batch import OPERATIONS
from operad.flows.edit.operation import inside_of
from operad.flows.edit.short import usage
from operad.flows.formats.shapes import fields_of
from operad.flows.generation.drafting import drafted
from operad.flows.generation.plan import Plan
from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.flows.repair.contract import Contract
from operad.operators.variables import plain
from operad.runtime.reasoning.prompt import cut, fence
from operad.runtime.values.schema import Schema

CHARACTERS_A_TOKEN = 4
"""Of English and JSON, roughly; budgets are in tokens, texts are measured in characters."""

PLAN_TOKENS = 2_000
BUILD_TOKENS = 4_000
FIX_TOKENS = 1_000
"""What the prompts of a stage may take, without the user's own instruction, which is never cut."""

MOST_FINDINGS = 5
"""How many findings a model is given at once to mend."""

LONGEST_FINDING = 300
"""Characters of a finding that a model is shown."""

NEAR_VARIABLES, FAR_VARIABLES = 12, 4
"""How many variables a node is said to be able to read: the nearest, and the farthest, among which the inputs are. The
schema of the answer has them all."""

EXCERPTS = 3_000
"""Characters that all nodes of a skeleton together show of their parameters, up to 120 each."""

PLAN_RULES = """\
You plan workflows of typed nodes. Say which nodes are needed, what each does and what it follows; parameters are \
written later, by somebody who sees your plan.
- A workflow begins at one start node, which holds all inputs, and ends at end nodes, which name all outputs. Where \
branches end with different outputs, give each its own end.
- A node can read variables of every node that leads to it. What runs for each item of a list runs inside an iteration: \
plan the nodes inside with `inside`; what begins there is added by itself.
- Branches leave an if-else or a question-classifier by ports, counted from 0; the last port of an if-else is ELSE. To \
go on after branches with one value, bring them together by a variable-aggregator.
- A model reads a document only as text: put a document-extractor before it. Take a node for each thing that is asked \
for, and none besides."""

EDIT_RULES = """\
A workflow is there already. Plan the nodes that are new (add), those whose parameters change (update) and only those \
of the others whose edges change (keep); leave all others out, and they stay as they are. Never give a node another id."""

BUILD_RULES = """\
You write the parameters of the nodes of a planned workflow. Write every node completely, for the real work: prompts \
that say what to do, with what and in which form; code that runs; names exactly as they are stated.
- In a text, name a variable as {{#id.variable#}}, and only variables that the node may read. In a template, use only \
the names that its `variables` declare.
- Code has no files, no network and only Python's standard library; main returns a dict with the declared outputs."""

FIX_RULES = """\
You mend a workflow of typed nodes by operations, each the smallest that does it. Mend what is listed, and leave all \
else as it is. A variable is ["name", "node id"]; in a text it is {{#id.variable#}}. A text that ends with "[… cut" goes \
on: change it by replace_text. An operation is an object with its name under "op" and these keys, those in brackets if \
need be:
"""

STATED = "Stated (read by rules; the job itself counts)"

FORM = "Form of the answer"

TEXT_FORM = """\
Answer with the tags <reasoning>…</reasoning> and <nodes>…</nodes>; between the latter stands JSON: an object with \
the parameters of each node by its id."""


class Part(NamedTuple):
    """A part of a prompt.

    Attributes:
        title: What it tells.
        text: What it says; empty for nothing.
        keep: Whether it stays whole whatever the budget; others are cut, the last one first.
        data: Whether others wrote it, so that it is fenced.
    """

    title: str
    text: str
    keep: bool = False
    data: bool = False


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
    """How many tokens each part takes, roughly, and the JSON Schema of the answer, which budgets do not count."""
    texts = {part.title: part.text for part in parts} | ({FORM: _json(schema)} if schema else {})
    return {title: -(-len(text) // CHARACTERS_A_TOKEN) for title, text in texts.items()}


def to_plan(
    base: NodeGraph, rounds: Sequence[str], contract: Contract, types: Mapping[str, NodeType]
) -> Sequence[Part]:
    """What a plan is asked for with.

    Args:
        base: The workflow that is there.
        rounds: What is asked for, the latest last.
        contract: What is stated.
        types: The node types by name.
    """
    return fit(
        [
            Part("Rules", PLAN_RULES + ("\n" + EDIT_RULES if base.nodes else ""), keep=True),
            Part(STATED, stated(contract), keep=True),
            Part("Node types", types_in_short(types), keep=True),
            Part("The workflow that is there", skeleton(base), data=True),
            Part("Asked for before", "\n".join(f"- {each}" for each in rounds[:-1]), data=True),
        ],
        PLAN_TOKENS,
    )


def to_build(
    plan: Plan,
    base: NodeGraph,
    contract: Contract,
    types: Mapping[str, NodeType],
    variables: Mapping[str, Sequence[str]],
    example: Part,
) -> Sequence[Part]:
    """What parameters are asked for with. Those that a node has now are never cut, as they are written anew.

    Args:
        plan: The plan.
        base: The workflow that is there.
        contract: What is stated.
        types: The node types by name.
        variables: What each planned node may read.
        example: A workflow to go by.
    """
    kinds = [node.type for node in plan.nodes if node.change != "keep"]
    return fit(
        [
            Part("Rules", BUILD_RULES, keep=True),
            Part(STATED, stated(contract), keep=True),
            Part("The plan", planned(plan), keep=True),
            Part("What each may read", may_read(variables, plan.open), keep=True),
            Part("The parameters that they have now", nodes_now(base, plan.open, types), keep=True),
            Part("Node types", docs(types, kinds)),
            example,
        ],
        BUILD_TOKENS,
    )


def to_mend(graph: NodeGraph, findings: Sequence[str], ids: Sequence[str]) -> Sequence[Part]:
    """What operations are asked for with.

    Args:
        graph: The workflow.
        findings: What is to be mended.
        ids: The nodes concerned.
    """
    rules, found = FIX_RULES + operations_in_short(), findings_in_short(findings)
    room = CHARACTERS_A_TOKEN * FIX_TOKENS - len(rules) - len(found)
    return fit(
        [
            Part("Rules", rules, keep=True),
            Part("Findings", found, keep=True),
            Part("The nodes concerned", concerned(graph, ids, room), keep=True),
            Part("All nodes", skeleton(graph), data=True),
        ],
        FIX_TOKENS,
    )


def operations_in_short() -> str:
    """A line for each operation: its name, and the keys that it takes."""
    return "\n".join(f"- {usage(name)}" for name in OPERATIONS)


def stated(contract: Contract) -> str:
    """What the instructions state, in words."""
    lines = [f"input {each.name}" + (f" ({each.kind.value})" if each.kind else "") for each in contract.inputs]
    for end in contract.outputs:
        which = "outputs" if len(contract.outputs) == 1 else "outputs of one end"
        also = f"; besides, it may give {', '.join(sorted(end.allowed))}" if end.allowed else ""
        lines.append(f"{which}: {', '.join(sorted(end.needed))}{also}" if end.needed else f"{which}: {also}")
    return "\n".join(f"- {line}" for line in lines)


def types_in_short(types: Mapping[str, NodeType]) -> str:
    """A line for each type."""
    return table(types.values())


def docs(types: Mapping[str, NodeType], names: Iterable[str]) -> str:
    """The cards of some types."""
    return "\n\n".join(card(types[name]) for name in dict.fromkeys(names) if name in types)


def findings_in_short(findings: Iterable[str]) -> str:
    """A line for each finding."""
    return "\n".join(f"- {cut(each, LONGEST_FINDING)}" for each in findings)


def skeleton(graph: NodeGraph) -> str:
    """The nodes that are there, a line each: id, type, what it follows, and how its parameters begin."""
    most = min(120, EXCERPTS // max(len(graph.nodes), 1))
    before: dict[str, list[str]] = {}
    for edge in graph.edges:
        before.setdefault(edge.target, []).append(edge.source + (f" port {edge.port}" if edge.port else ""))
    return "\n".join(_line(node, before.get(node.id, []), most) for node in graph.nodes)


def _line(node: NodeSpec, before: Sequence[str], most: int) -> str:
    after = f" after {', '.join(before)}" if before else ""
    inside = f" inside {node.parent}" if node.parent else ""
    return f"{node.id} {node.type}{inside}{after}: {_json(node.params)[:most]}"


def planned(plan: Plan) -> str:
    """A plan, a line for each node."""
    lines: list[str] = []
    for node in plan.nodes:
        after = ", ".join(each.node + (f" port {each.port}" if each.port else "") for each in node.after)
        gives = ", ".join(f"{each.name} ({each.type})" for each in node.gives)
        line = f"{node.id} {node.type} [{node.change}]: {node.does}"
        line += f"; inside {node.inside}" if node.inside else ""
        line += f"; after {after}" if after else ""
        line += f"; gives {gives}" if gives else ""
        lines.append(line)
    return "\n".join(lines)


def may_read(variables: Mapping[str, Sequence[str]], ids: Iterable[str]) -> str:
    """The variables that each of some nodes may read."""
    return "\n".join(f"{each}: {', '.join(_near_and_far(variables.get(each, ()))) or 'none'}" for each in ids)


def _near_and_far(names: Sequence[str]) -> Sequence[str]:
    if len(names) <= NEAR_VARIABLES + FAR_VARIABLES:
        return names
    return [*names[:NEAR_VARIABLES], "…", *names[-FAR_VARIABLES:]]


def nodes_now(graph: NodeGraph, ids: Iterable[str], types: Mapping[str, NodeType]) -> str:
    """The parameters that some nodes have, in the form in which they are drafted."""
    params = {
        each: drafted(types[spec.type], fields_of(spec.params))
        for each in ids
        if (spec := graph.by_id.get(each)) is not None and spec.type in types
    }
    return fence(_json(params)) if params else ""


def concerned(graph: NodeGraph, ids: Iterable[str], most: int | None = None) -> str:
    """Some nodes as they are written, with those inside them and their edges.

    Args:
        graph: The workflow.
        ids: The ids of the nodes.
        most: Characters that it may take; to keep to it, long texts are cut, the more the less room there is.
    """
    wanted = {each for one in ids for each in (one, *inside_of(graph, one)) if each in graph.by_id}
    if not wanted:
        return ""
    nodes = [
        {"id": spec.id, "type": spec.type, "inside": spec.parent, "params": spec.params}
        for spec in graph.nodes
        if spec.id in wanted
    ]
    edges = [
        [edge.source, edge.port, edge.target] for edge in graph.edges if wanted.intersection((edge.source, edge.target))
    ]
    text = _json({"nodes": nodes, "edges": edges})
    if most is None:
        return fence(text)
    for longest in (1_600, 800, 400, 200, 100):
        if len(fence(text)) > most:
            text = _json({"nodes": _with_short_texts(plain(nodes), longest), "edges": edges})
    return fence(text if len(fence(text)) <= most else cut(text, max(most - _AROUND, 0)))


_AROUND = 60
"""Characters that the fences take and the mark of a text that is cut."""


def _with_short_texts(value: Any, longest: int) -> Any:
    match value:
        case str():
            return cut(value, longest)
        case list():
            return [_with_short_texts(each, longest) for each in cast("list[Any]", value)]
        case dict():
            return {key: _with_short_texts(each, longest) for key, each in cast("dict[str, Any]", value).items()}
        case _:
            return value


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
