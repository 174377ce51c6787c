"""Code of a ComfyUI workflow: lines of Python for people and models to read and write, which are never run.

    MODEL_1, CLIP_1, VAE_1 = CheckpointLoaderSimple(ckpt_name='sd15.safetensors')  # 4 Load Checkpoint
    CONDITIONING_1 = CLIPTextEncode(text='a lake', clip=CLIP_1)  # 6 CLIPTextEncode

Each line is one call and comes after the lines whose variables it uses. The name of a variable is the type of the
output and a number; values are literals. Names that are not identifiers are written as texts: ``**{'a.b': 1}`` for an
input, ``Video_Slice('Video Slice', …)`` for a class. ``IMAGE_1[7]`` is an output that the class does not have. The
comment holds the id and the title of the node, or ``{"_meta": …, "is_changed": …}``, all data of the server's form
besides class and inputs.
"""

from __future__ import annotations

import ast
import json
import keyword
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, takewhile

from operad.flows.formats.shapes import fields_of
from operad.flows.formats.yaml_edit import pairs
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec, in_order
from operad.integrations.comfyui.formats.definitions import Definitions, NodeDefinition, type_of
from operad.integrations.comfyui.formats.widgets import values_of
from operad.integrations.comfyui.formats.written import NAME, VIRTUAL, slots, title_of, ui_of

MAX_OUTPUTS = 64
"""Maximum number of variables that one line assigns; further outputs are written as ``IMAGE_1[70]``."""

_MAX_NAME = 60
"""Maximum length of a variable's name without its number."""

_PLAIN_ID = re.compile(r"[\w:.\-]+", re.ASCII)


def dump_code(graph: NodeGraph, definitions: Definitions) -> str:
    """Return the code of a graph.

    Args:
        graph: The graph as the page saved it, or only the part that a server runs, as `executable` returns it.
        definitions: The node classes, which name variables and values that the file does not name.
    """
    edges_into: dict[str, dict[str, Edge]] = {}
    ports: dict[str, int] = {}
    for edge in graph.edges:
        if edge.input:
            edges_into.setdefault(edge.target, {})[edge.input] = edge
            ports[edge.source] = max(ports.get(edge.source, 1), edge.port + 1)
    taken: Counter[str] = Counter()
    lines: list[str] = []
    by_id = graph.by_id
    # a variable that no line assigns stays so: its name is given to no output
    unassigned = {undefined_in(edge) for edge in graph.edges if edge.source not in by_id}
    variables: dict[str, list[str]] = {}
    order = in_order([spec.id for spec in graph.nodes], graph.edges)
    for node_id in order:
        output_types = _output_types(by_id[node_id], definitions.get(by_id[node_id].type), ports.get(node_id, 0))
        variables[node_id] = [_new_variable(output_type, taken, unassigned) for output_type in output_types]
    for node_id in order:
        spec = by_id[node_id]
        inputs = {name: repr(value) for name, value in values_of(spec, definitions.get(spec.type)).items()}
        inputs |= {name: _reference(edge, variables) for name, edge in edges_into.get(node_id, {}).items()}
        targets = f"{', '.join(variables[node_id])} = " if variables[node_id] else ""
        lines.append(f"{targets}{_call(spec.type, inputs)}  # {_comment(spec)}\n")
    return "".join(lines)


def keep_code(old: str, was: str, new: str) -> str:
    """Return changed code, in which unchanged lines keep the text and the comments before them that they had.

    Args:
        old: The code as a person wrote it.
        was: That code as `dump_code` writes it, one line for each call of the old one; otherwise `new` is returned.
        new: The changed code as `dump_code` writes it.
    """
    lines, before, after = (text.splitlines(keepends=True) for text in (old, was, new))
    ends = [call.end_lineno or 0 for call in ast.parse(old).body]
    if len(ends) != len(before) or len(set(ends)) < len(ends):
        return new
    calls = ["".join(lines[begin:end]) for begin, end in pairwise([0, *ends])]
    made: list[str] = []
    for begin, end, first, last in pairs(before, after):
        kept = end - begin == last - first and before[begin:end] == after[first:last]
        made += calls[begin:end] if kept else _replaced(calls[begin:end], after[first:last])
    return "".join([*made, *lines[ends[-1] if ends else 0 :]])


def _replaced(calls: Sequence[str], lines: Sequence[str]) -> Iterator[str]:
    """Yield new lines, each after the comments before the call in whose place it is."""
    for number, line in enumerate(lines):
        old = calls[number].splitlines(keepends=True) if number < len(calls) else []
        comments = takewhile(lambda text: not text.strip() or text.lstrip().startswith("#"), old)
        yield "".join([*comments, line])


def callee_of(type_name: str) -> str:
    """Return the function name for a class: its own name, or a similar one if that is not an identifier."""
    return type_name if _is_plain(type_name) else _identifier(type_name, "Node")


def _output_types(spec: NodeSpec, definition: NodeDefinition | None, ports: int) -> Sequence[str]:
    if definition is not None:
        types = list(definition.outputs)
    else:
        types = [type_of(each.get("type")) for each in slots(spec, "outputs")]
        types += ["*"] * (min(ports, MAX_OUTPUTS) - len(types))
    return types[:MAX_OUTPUTS] or ["*"] * min(ports, 1)


def _new_variable(output_type: str, taken: Counter[str], reserved: Collection[str]) -> str:
    base = _identifier(output_type, "VALUE")
    taken[base] += 1
    while f"{base}_{taken[base]}" in reserved:
        taken[base] += 1
    return f"{base}_{taken[base]}"


def _reference(edge: Edge, variables: Mapping[str, Sequence[str]]) -> str:
    names = variables.get(edge.source)
    if not names:
        return undefined_in(edge) or f"UNDEFINED_{_identifier(edge.source, '0')}"
    return names[edge.port] if 0 <= edge.port < len(names) else f"{names[0]}[{edge.port}]"


def undefined_in(edge: Edge) -> str:
    """Return the unassigned variable that the code of a link names; empty if it is assigned."""
    name = fields_of(edge.extra.get(NAME)).get("undefined")
    return name if isinstance(name, str) else ""


def _call(type_name: str, inputs: Mapping[str, str]) -> str:
    callee = callee_of(type_name)
    parts = [] if callee == type_name else [repr(type_name)]
    parts += [f"{name}={value}" for name, value in inputs.items() if _is_plain(name)]
    other = [f"{name!r}: {value}" for name, value in inputs.items() if not _is_plain(name)]
    parts += [f"**{{{', '.join(other)}}}"] if other else []
    return f"{callee}({', '.join(parts)})"


def _comment(spec: NodeSpec) -> str:
    """Return the comment of a line: the id and, if the node has one, the title."""
    plain_id = _PLAIN_ID.fullmatch(spec.id) and spec.id != spec.type
    shown_id = spec.id if plain_id else json.dumps(spec.id)
    extra = fields_of(spec.extra.get(NAME))
    title = title_of(spec)
    has_title = extra.get("api") == {"_meta": {"title": title}}
    if "api" in extra and (spec.type in VIRTUAL or not (has_title or extra["api"] == {})):
        return f"{shown_id} {json.dumps(extra['api'])}"
    if ui_of(spec) is None and "title" not in extra and not has_title:
        return shown_id
    plain_title = title.isprintable() and title == title.strip() and title and title[0] not in '"{'
    return f"{shown_id} {title if plain_title else json.dumps(title)}"


def _is_plain(name: str) -> bool:
    return name.isascii() and name.isidentifier() and not keyword.iskeyword(name)


def _identifier(text: str, default: str) -> str:
    """Return a text as an identifier, or the default if nothing of it can be kept."""
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_")
    name = f"_{name}" if name[:1].isdigit() else name
    return name[:_MAX_NAME] if name and not keyword.iskeyword(name) else default


def restored(graph: NodeGraph, sidecar: NodeGraph) -> NodeGraph:
    """Return a graph read from code, with the data that code cannot hold taken from the graph of which it is the code.

    Args:
        graph: The graph that was read from code; its classes, links and values count.
        sidecar: The graph whose code was changed. Nodes and links in both keep their other data and their order.
    """
    before = sidecar.by_id
    positions = {spec.id: number for number, spec in reversed(list(enumerate(sidecar.nodes)))}
    nodes = [
        replace(spec, extra=before[spec.id].extra) if spec.id in before and before[spec.id].type == spec.type else spec
        for spec in graph.nodes
    ]
    nodes.sort(key=lambda spec: positions.get(spec.id, len(positions)))
    unmatched = {_edge_key(edge): edge for edge in graph.edges}
    current = graph.by_id
    edges: list[Edge] = []
    for edge in sidecar.edges:
        found = unmatched.pop(_edge_key(edge), None)
        if found is not None:
            edges.append(found if ui_of(edge) is None else replace(found, extra={**found.extra, **edge.extra}))
        elif not (edge.input and edge.source in before and edge.target in before) and _remains(edge, before, current):
            edges.append(edge)
    return replace(sidecar, nodes=nodes, edges=[*edges, *unmatched.values()], name=graph.name)


def _edge_key(edge: Edge) -> tuple[str, int, str, str]:
    return edge.source, edge.port, edge.target, edge.input


def _remains(edge: Edge, before: Iterable[str], current: Iterable[str]) -> bool:
    """Return True if an edge that code cannot hold remains: the nodes that it had at its ends still exist."""
    return all(end in current for end in (edge.source, edge.target) if end in before)
