"""A graph as lines of Python, for people and models to read and write; it is never run.

    MODEL_1, CLIP_1, VAE_1 = CheckpointLoaderSimple(ckpt_name='sd15.safetensors')  # 4 Load Checkpoint
    CONDITIONING_1 = CLIPTextEncode(text='a lake', clip=CLIP_1)  # 6 CLIPTextEncode

One call a line, each after those that it takes from. A variable is the type of an output and a number; values are
literals. Other names than plain ones go as text: ``**{'a.b': 1}`` for an input, ``Video_Slice('Video Slice', …)`` for a
class, ``IMAGE_1[7]`` for an output that the class does not have. The comment holds the id and the title.
"""

from __future__ import annotations

import json
import keyword
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from operad.flows.formats.comfyui.definitions import Definitions, NodeDefinition, type_of
from operad.flows.formats.comfyui.order import in_order
from operad.flows.formats.comfyui.widgets import values_of
from operad.flows.formats.comfyui.written import NAME, slots, title_of, ui_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators.comfyui.reading import mapping_of

MAX_OUTPUTS = 64
"""The most variables that one line assigns; outputs beyond are written by their number."""

_LONGEST = 60
"""The most characters of a variable's name before its number."""

_PLAIN_ID = re.compile(r"[\w:.\-]+", re.ASCII)


def dump_code(graph: NodeGraph, definitions: Definitions) -> str:
    """The code of a graph: of all that the page saved, or, of what `executable` made of it, what a server runs.

    Args:
        graph: The graph.
        definitions: The classes, which name the variables and the widgets of a file that does not tell.
    """
    into: dict[str, dict[str, Edge]] = {}
    ports: dict[str, int] = {}
    for edge in graph.edges:
        if edge.input:
            into.setdefault(edge.target, {})[edge.input] = edge
            ports[edge.source] = max(ports.get(edge.source, 1), edge.port + 1)
    taken: Counter[str] = Counter()
    lines: list[str] = []
    by_id = graph.by_id
    variables: dict[str, list[str]] = {}
    order = in_order([spec.id for spec in graph.nodes], graph.edges)
    for node_id in order:
        kinds = _outputs(by_id[node_id], definitions.get(by_id[node_id].type), ports.get(node_id, 0))
        variables[node_id] = [_variable(kind, taken) for kind in kinds]
    for node_id in order:
        spec = by_id[node_id]
        inputs = {name: repr(value) for name, value in values_of(spec, definitions.get(spec.type)).items()}
        inputs |= {name: _reference(edge, variables) for name, edge in into.get(node_id, {}).items()}
        targets = f"{', '.join(variables[node_id])} = " if variables[node_id] else ""
        lines.append(f"{targets}{_call(spec.type, inputs)}  # {_comment(spec)}\n")
    return "".join(lines)


def callee_of(type_name: str) -> str:
    """The name that a class is called by: its own, or a similar one where its own is not a plain name."""
    return type_name if _is_plain(type_name) else _name(type_name, "Node")


def _outputs(spec: NodeSpec, definition: NodeDefinition | None, ports: int) -> Sequence[str]:
    if definition is not None:
        kinds = list(definition.outputs)
    else:
        kinds = [type_of(each.get("type")) for each in slots(spec, "outputs")]
        kinds += ["*"] * (min(ports, MAX_OUTPUTS) - len(kinds))
    return kinds[:MAX_OUTPUTS] or ["*"] * min(ports, 1)


def _variable(kind: str, taken: Counter[str]) -> str:
    base = _name(kind, "VALUE")
    taken[base] += 1
    return f"{base}_{taken[base]}"


def _reference(edge: Edge, variables: Mapping[str, Sequence[str]]) -> str:
    names = variables.get(edge.source)
    if not names:
        undefined = mapping_of(edge.extra.get(NAME)).get("undefined")
        return undefined if isinstance(undefined, str) else f"UNDEFINED_{_name(edge.source, '0')}"
    return names[edge.port] if 0 <= edge.port < len(names) else f"{names[0]}[{edge.port}]"


def _call(type_name: str, inputs: Mapping[str, str]) -> str:
    callee = callee_of(type_name)
    parts = [] if callee == type_name else [repr(type_name)]
    parts += [f"{name}={value}" for name, value in inputs.items() if _is_plain(name)]
    odd = [f"{name!r}: {value}" for name, value in inputs.items() if not _is_plain(name)]
    parts += [f"**{{{', '.join(odd)}}}"] if odd else []
    return f"{callee}({', '.join(parts)})"


def _comment(spec: NodeSpec) -> str:
    plain_id = _PLAIN_ID.fullmatch(spec.id) and spec.id != spec.type
    written = spec.id if plain_id else json.dumps(spec.id)
    said = mapping_of(mapping_of(spec.extra.get(NAME)).get("api"))
    title = title_of(spec)
    if ui_of(spec) is None and said != {"_meta": {"title": title}}:
        return written
    plain_title = title.isprintable() and title == title.strip() and title and not title.startswith('"')
    return f"{written} {title if plain_title else json.dumps(title)}"


def _is_plain(name: str) -> bool:
    return name.isascii() and name.isidentifier() and not keyword.iskeyword(name)


def _name(text: str, otherwise: str) -> str:
    found = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_")
    found = f"_{found}" if found[:1].isdigit() else found
    return found[:_LONGEST] if found and not keyword.iskeyword(found) else otherwise


def restored(graph: NodeGraph, sidecar: NodeGraph) -> NodeGraph:
    """A graph read from code, with what code cannot hold taken from the graph that the code was made of.

    Args:
        graph: The graph that was read. Its classes, links and values count.
        sidecar: The other. Nodes and links that are in both take the rest from it, and its order.
    """
    before = sidecar.by_id
    place = {spec.id: number for number, spec in reversed(list(enumerate(sidecar.nodes)))}
    nodes = [
        NodeSpec(spec.id, spec.type, spec.params, extra=before[spec.id].extra if _same(spec, before) else spec.extra)
        for spec in graph.nodes
    ]
    nodes.sort(key=lambda spec: place.get(spec.id, len(place)))
    left = {_key(edge): edge for edge in graph.edges}
    here = graph.by_id
    edges: list[Edge] = []
    for edge in sidecar.edges:
        if _key(edge) in left:
            edges.append(left.pop(_key(edge)) if ui_of(edge) is None else _with(left.pop(_key(edge)), edge))
        elif not (edge.input and edge.source in before and edge.target in before) and _stays(edge, before, here):
            edges.append(edge)
    return NodeGraph(nodes, [*edges, *left.values()], graph.name, sidecar.extra, sidecar.instructions)


def _same(spec: NodeSpec, before: Mapping[str, NodeSpec]) -> bool:
    return spec.id in before and before[spec.id].type == spec.type


def _with(edge: Edge, before: Edge) -> Edge:
    return Edge(edge.source, edge.target, edge.port, edge.input, {**edge.extra, **before.extra})


def _key(edge: Edge) -> tuple[str, int, str, str]:
    return edge.source, edge.port, edge.target, edge.input


def _stays(edge: Edge, before: Iterable[str], here: Iterable[str]) -> bool:
    """Return whether an edge that code cannot hold remains, as its former ends are still there."""
    return all(end in here for end in (edge.source, edge.target) if end in before)
