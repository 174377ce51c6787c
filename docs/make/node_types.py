"""`docs/reference/nodes.md`: the node types, from their declarations."""

from __future__ import annotations

import inspect
import json
import re
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from hooks import slug

from operad.flows.catalogue import NodeType, outputs_text
from operad.flows.formats.operad import dump
from operad.flows.formats.table import FORMATS
from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.operators.named_params import form
from operad.operators.nodes import CHAT2WORKFLOW_TYPES, NODE_TYPES
from operad.operators.variables import Accepts, Selector, Text, VariableType

DOCS = Path(__file__).parents[1]
CARRIERS = ("operad", "dify", "coze", "chat2workflow")
STARTS = {each.body_starts_with: name for name, each in NODE_TYPES.items() if each.body_starts_with}

_WORDS = {
    Text: "text",
    str: "text",
    int: "whole number",
    float: "number",
    bool: "`true` or `false`",
}

HEAD = """\
# Node types

<!-- Written by docs/make/reference.py from operators/nodes. -->

This page lists all node types with their parameters, outputs and ports, as printed by `operad nodes TYPE`.
[Typed nodes](../nodes.md) describes how nodes are written and connected; each section links to the details of its type.

The column *type* shows how a parameter is written; `?` marks fields that can be left out. `id.variable` is a variable of
another node; a *text* may contain variables as `{{#id.variable#}}`. The columns of formats show whether the format can store
the example of the type; `operad convert` lists the losses of other parameters. Types marked 20 are those of the
Chat2Workflow paper.
"""


def page() -> str:
    """Return the page."""
    rows = [
        f"| [`{name}`](#{name}) | {'20' if name in CHAT2WORKFLOW_TYPES else ''} | {_summary(each)} | "
        + " | ".join("yes" if not _losses(each, carrier) else "in part" for carrier in CARRIERS)
        + " |"
        for name, each in NODE_TYPES.items()
    ]
    table = [f"| type | | purpose | {' | '.join(CARRIERS)} |", "|---|---|---|" + "---|" * len(CARRIERS), *rows, ""]
    return "\n".join([HEAD, *table, *map(_section, NODE_TYPES.values())])


def _section(node_type: NodeType) -> str:
    _, _, more = inspect.cleandoc(node_type.__doc__ or "").partition("\n\n")
    lines = [f"## {node_type.type}", "", _summary(node_type), *(["", more] if more else []), ""]
    fields = node_type.params_type.model_fields
    if fields:
        lines += ["| parameter | type | default | meaning |", "|---|---|---|---|"]
    for name, field in fields.items():
        default = "required" if field.is_required() else f"`{json.dumps(field.get_default(call_default_factory=True))}`"
        cells = [f"`{name}`", _type(field), default, str(field.description)]
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    lines += ["" if fields else "No parameters.\n", f"Outputs: {outputs_text(node_type)}.", ""]
    lines += [f"Ports: {node_type.ports_text}.", ""] if node_type.ports_text else []
    lines += [f"Contains other nodes, which begin with [`{s}`](#{s}).", ""] if (s := node_type.body_starts_with) else []
    lost = {carrier: _losses(node_type, carrier) for carrier in CARRIERS}
    carried = ", ".join(carrier for carrier, losses in lost.items() if not losses)
    lines += [
        f"Stored without loss by: {carried}.",
        *(f"In {name}: {losses}." for name, losses in lost.items() if losses),
        "",
    ]
    if node_type.example:
        lines += ["```yaml", _example(node_type), "```", ""]
    return "\n".join([*lines, f"More: {_prose(node_type)}.", ""])


def _example(node_type: NodeType) -> str:
    """Return the node with the parameters of its example, as in a file."""
    nodes = [NodeSpec("4", node_type.type, dict(node_type.example))]
    return (
        dump(NodeGraph(nodes, [])).decode().partition("nodes:\n")[2].rstrip().replace("\n  ", "\n").removeprefix("  ")
    )


def _summary(node_type: NodeType) -> str:
    return " ".join(inspect.cleandoc(node_type.__doc__ or "").partition("\n\n")[0].split())


def _type(field: Any) -> str:
    """Return the form of a parameter in words, with the accepted types of variables."""
    accepts = next((each.types for each in field.metadata if isinstance(each, Accepts)), None)
    named = [f"`{kind.value}`" for kind in accepts or () if kind is not VariableType.ANY]
    written = form(field.rebuild_annotation())
    words = f"`{written}`" if written else _words(field.annotation)
    return words + (f", of {' or '.join(named)}" if 0 < len(named) <= 8 else "")


def _words(kind: Any) -> str:
    if kind is Selector:
        return "variable `[variable, id]`"  # if texts are accepted as well, id.variable is a text
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " or ".join(f"`{each}`" for each in arguments)
    if origin is Annotated:
        return _words(arguments[0])
    if origin is list:
        return f"list of: {_words(arguments[0])}"
    if origin is dict:
        return f"mapping of names to: {_words(arguments[1])}"
    if arguments:
        return " or ".join(dict.fromkeys(map(_words, arguments)))
    return _WORDS.get(kind, "any value")


def _losses(node_type: NodeType, carrier: str) -> str:
    """Return the losses of a format for a type with the parameters of its example; empty if there are none."""
    node = NodeSpec("1", node_type.type, dict(node_type.example))
    nodes = [node]
    if around := STARTS.get(node_type.type):
        holder = NODE_TYPES[around]
        nodes = [NodeSpec("1", around, dict(holder.example)), NodeSpec("1-1", node_type.type, node.params, parent="1")]
    mine = nodes[-1].id
    losses = FORMATS[carrier].losses(NodeGraph(nodes, []))
    return "; ".join(issue.message for issue in losses if issue.where == mine)


def _prose(node_type: NodeType) -> str:
    """Return a link to the section on a type, or on the container that the type is a part of.

    Raises:
        ValueError: No page has a section on the type.
    """
    name = node_type.type
    for wanted in (name, name.rpartition("-")[0]):
        for page, headings in _headings().items():
            if heading := next((each for each in headings if wanted in each.split()), ""):
                return f"[{heading}](../{page}#{slug(heading)})"
    raise ValueError(f"no page describes the node type {name!r}: add a section '## {name}' to one of docs/nodes_*.md")


@cache
def _headings() -> dict[str, list[str]]:
    return {
        page.name: re.findall(r"^## (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        for page in sorted(DOCS.glob("nodes_*.md"))
    }
