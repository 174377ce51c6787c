"""The values of a Dify file → a workflow."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from operad.flows.check import CONVERSATION
from operad.flows.formats.dify.apps import CONFIG_MODES, config_faults, has_config
from operad.flows.formats.dify.forms import whole
from operad.flows.formats.dify.nodes import handles
from operad.flows.formats.dify.overlay import change, changed
from operad.flows.formats.dify.plugins import Plugins
from operad.flows.formats.dify.write import ABSENT, EXTRA, INSTRUCTIONS, NOTES, OWN, Writer, read_params, read_type
from operad.flows.formats.shapes import Fields, each_of, fields_of, list_of, text_of, texts_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.runtime.values.document import YamlValues
from operad.runtime.values.errors import InvalidError, Issue

MODES = ("workflow", "advanced-chat")


def is_note(node: Any) -> bool:
    """Return whether it is a note on the canvas instead of a node."""
    return fields_of(node).get("type") == "custom-note"


def faults(text: YamlValues) -> Iterator[Issue]:
    """Issues that keep values from being a Dify workflow."""
    root = text.value
    if not isinstance(root, dict):
        yield Issue("format", "must be a mapping with kind, app and workflow", "line 1")
        return
    fields = whole(cast("Fields", root))
    if has_config(text.value):
        yield from (Issue("format", what) for what in config_faults(text.value))
    if fields.get("kind", "app") != "app":
        yield _issue(text, fields, "kind", f"must be app, not {fields['kind']!r}")
    app = fields.get("app")
    mode = fields_of(app).get("mode", "workflow")
    if not isinstance(app, dict):
        yield _issue(text, fields, "app", "must be a mapping with name and mode")
    elif mode not in MODES:
        known = ", ".join((*MODES, *CONFIG_MODES))
        what = f"must be one of {known}, not {mode!r}: apps of this mode have neither a graph nor a model_config"
        yield _issue(text, cast("Fields", app), "mode", what)
    workflow = fields.get("workflow")
    graph = fields_of(workflow).get("graph")
    if not isinstance(workflow, dict):
        yield _issue(text, fields, "workflow", "must be a mapping with graph")
    elif not isinstance(graph, dict):
        yield _issue(text, cast("Fields", workflow), "graph", "must be a mapping with nodes and edges")
    else:
        yield from _graph_faults(text, cast("Fields", graph))


def _graph_faults(text: YamlValues, graph: Fields) -> Iterator[Issue]:
    for key in ("nodes", "edges"):
        if not isinstance(graph.get(key), list):
            yield _issue(text, graph, key, "must be a list")
    seen: set[str] = set()
    nodes = graph.get("nodes")
    for number, node in enumerate(list_of(nodes)):
        if not isinstance(node, dict):
            yield _issue(text, nodes, number, "must be a mapping with id and data", "misshapen-node")
        elif not is_note(node):
            yield from _node_faults(text, cast("Fields", node), seen)
    edges = graph.get("edges")
    for number, edge in enumerate(list_of(edges)):
        fields = fields_of(edge)
        if not all(isinstance(fields.get(end), str) for end in ("source", "target")):
            yield _issue(text, edges, number, "must be a mapping with source and target, as texts", "misshapen-edge")


def _node_faults(text: YamlValues, node: Fields, seen: set[str]) -> Iterator[Issue]:
    node_id, data = node.get("id"), node.get("data")
    if not isinstance(node_id, str) or not node_id:
        yield _issue(text, node, "id", "must be a text", "misshapen-node")
    elif node_id in seen:
        yield _issue(text, node, "id", f"{node_id!r} is the id of another node, too", "duplicate-id")
    else:
        seen.add(node_id)
    kind = fields_of(data).get("type")
    if not isinstance(data, dict):
        yield _issue(text, node, "data", "must be a mapping with type", "misshapen-node")
    elif not isinstance(kind, str) or not kind or kind == CONVERSATION:
        yield _issue(
            text, cast("Fields", data), "type", f"must be the name of a node type, not {kind!r}", "misshapen-node"
        )


def _issue(text: YamlValues, holder: Any, key: str | int, what: str, code: str = "format") -> Issue:
    line = text.line(holder, key)
    known = isinstance(holder, dict) and key not in holder
    return Issue(code, f"{key}: {'is missing; it ' if known else ''}{what}", f"line {line}" if line else "")


def app_name(text: YamlValues) -> str:
    """The name that a file gives its workflow; empty where it gives none."""
    name = fields_of(whole(fields_of(text.value)).get("app")).get("name")
    return name if isinstance(name, str) else ""


def read(text: YamlValues, name: str, plugins: Plugins) -> NodeGraph:
    """The workflow of a file.

    Raises:
        InvalidError: It is not of the form.
    """
    issues = list(faults(text))
    if issues:
        raise InvalidError(name, issues)
    root: Fields = dict(whole(text.value))
    workflow: Fields = dict(root["workflow"])
    graph: Fields = dict(workflow["graph"])
    entries: list[Fields] = graph.pop("nodes")
    links: list[Fields] = graph.pop("edges")
    dependencies = root.pop("dependencies", None)
    instructions, notes = _texts(root, INSTRUCTIONS), _texts(root, NOTES)
    rest = {**root, "workflow": {**workflow, "graph": graph}}
    nodes = [entry for entry in entries if not is_note(entry)]
    bare = _with_environment(_with_params(_skeleton(nodes, plugins), nodes, plugins), workflow)
    conversation = _conversation(workflow)
    made = NodeGraph(
        nodes=[*conversation, *bare.nodes],
        edges=[*bare.edges, *_edges(nodes, links, bare)],
        name=name or app_name(text) or "workflow",
        instructions=instructions,
        notes=notes,
    )
    notes = [{"at": place, "note": entry} for place, entry in enumerate(entries) if is_note(entry)]
    return _with_extra(made, nodes, links, {"rest": rest, "notes": notes, "dependencies": dependencies}, plugins)


def _texts(root: Fields, key: str) -> tuple[str, ...]:
    """Take the instructions of the workflow, or the notes on it, out of the root of a file."""
    ours = dict(fields_of(root.get(OWN)))
    texts = texts_of(ours.pop(key, None))
    if texts:
        root.pop(OWN)
        root |= {OWN: ours} if ours else {}
    return texts


def line_of_nodes(text: YamlValues) -> dict[str, int]:
    """The line of each node of a workflow, by our ids and by those of the file."""
    lines: dict[str, int] = {}
    for node in whole(text.value)["workflow"]["graph"]["nodes"]:
        if not is_note(node):
            for node_id in filter(None, (_text(_own(node).get("id")), node["id"])):
                lines.setdefault(node_id, text.line(node, "id"))
    return lines


def _own(node: Fields) -> Fields:
    return fields_of(node["data"].get(OWN))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _skeleton(nodes: Sequence[Fields], plugins: Plugins) -> NodeGraph:
    """The nodes without their parameters, under our ids, and what begins those inside others, where a file has none."""
    theirs = [node["id"] for node in nodes]
    taken = set(theirs)
    ours: dict[str, str] = {}
    for node in nodes:
        wanted = _text(_own(node).get("id"))
        ours[node["id"]] = wanted if wanted and wanted not in taken else node["id"]
        taken.add(ours[node["id"]])
    specs = [
        NodeSpec(
            id=ours[node["id"]],
            type=_text(_own(node).get("type")) or read_type(node["data"], plugins),
            parent=ours.get(_parent(node), _parent(node)),
        )
        for node in nodes
    ]
    begun = {spec.parent for spec in specs if spec.type in ("iteration-start", "loop-start")}
    edges: list[Edge] = []
    absent = {EXTRA: {ABSENT: True}}
    for spec, node in zip(list(specs), nodes, strict=True):
        first = ours.get(_text(node["data"].get("start_node_id")))
        if spec.type in ("iteration", "loop") and spec.id not in begun and first:
            begin = f"{spec.id}start"
            while begin in taken:
                begin += "_"
            taken.add(begin)
            specs.append(NodeSpec(id=begin, type=f"{spec.type}-start", parent=spec.id, extra=absent))
            edges.append(Edge(begin, first, extra=absent))
    return _with_ids(NodeGraph(nodes=specs, edges=edges), theirs, plugins)


def _parent(node: Fields) -> str:
    data: Fields = node["data"]
    return _text(node.get("parentId")) or _text(data.get("iteration_id")) or _text(data.get("loop_id"))


def _with_ids(graph: NodeGraph, theirs: Sequence[str], plugins: Plugins) -> NodeGraph:
    """Keep the ids of the file, where we would not give the same."""
    for everywhere in (False, False, True):
        ids = Writer(graph, plugins).ids
        wrong = {
            spec.id: wanted
            for spec, wanted in zip(graph.nodes, theirs, strict=False)
            if ids[spec.id] != wanted or everywhere
        }
        if not wrong and not everywhere:
            break
        graph = replace(
            graph,
            nodes=[
                replace(spec, extra={EXTRA: {"id": wrong[spec.id]}}) if spec.id in wrong else spec
                for spec in graph.nodes
            ],
        )
    return graph


def _with_params(graph: NodeGraph, nodes: Sequence[Fields], plugins: Plugins) -> NodeGraph:
    datas = {spec.id: node["data"] for spec, node in zip(graph.nodes, nodes, strict=False)}
    params = read_params(datas, Writer(graph, plugins))
    own = {spec.id: _own(node).get("params") for spec, node in zip(graph.nodes, nodes, strict=False)}
    specs = [
        replace(spec, params=changed(params[spec.id][1], own[spec.id])) if spec.id in params else spec
        for spec in graph.nodes
    ]
    return replace(graph, nodes=specs)


def _with_environment(graph: NodeGraph, workflow: Fields) -> NodeGraph:
    """The values of environment variables as defaults of the inputs that they are; secrets, which files lack, are given."""
    known = {
        f"env.{each['name']}": each.get("value")
        for each in each_of(workflow.get("environment_variables"))
        if isinstance(each.get("name"), str) and (each.get("value") or each.get("value_type") != "secret")
    }
    specs = [_with_defaults(spec, known) if spec.type == "start" else spec for spec in graph.nodes]
    return replace(graph, nodes=specs)


def _with_defaults(spec: NodeSpec, known: Mapping[str, Any]) -> NodeSpec:
    params = fields_of(spec.params)
    names = [each[0] for each in map(list_of, list_of(params.get("variables"))) if each]
    more = {name: known[name] for name in names if isinstance(name, str) and name in known}
    return replace(spec, params={**params, "defaults": {**fields_of(params.get("defaults")), **more}}) if more else spec


def _conversation(workflow: Fields) -> list[NodeSpec]:
    variables: list[Any] = []
    for item in list_of(workflow.get("conversation_variables")):
        match item:
            case {"name": str() as name, **more}:
                variables.append([name, more.get("value_type"), more.get("value")])
            case _:
                pass
    return [NodeSpec(CONVERSATION, CONVERSATION, {"variables": variables})] if variables else []


def _edges(nodes: Sequence[Fields], links: Sequence[Fields], graph: NodeGraph) -> list[Edge]:
    ours: dict[str, str] = {node["id"]: spec.id for spec, node in zip(graph.nodes, nodes, strict=False)}
    ports: dict[str, Mapping[str, int]] = {}
    for node in nodes:
        known = handles(node["data"])
        ports[node["id"]] = {handle: port for port, handle in reversed(list(enumerate(known)))}
    found: list[Edge] = []
    for link in links:
        source: str = link["source"]
        target: str = link["target"]
        port = _port(link.get("sourceHandle"), ports.get(source, {}))
        found.append(Edge(ours.get(source, source), ours.get(target, target), port))
    return found


def _port(handle: Any, known: Mapping[str, int]) -> int:
    """The port of a handle; of one that the node does not have, one that it does not have either."""
    if handle in (None, "source", "success-branch"):
        return known.get("source", 0)
    handle = text_of(handle)
    number = int(handle) if re.fullmatch(r"-?[0-9]{1,6}", handle) else len(known)
    return known.get(handle, number)


def _with_extra(
    graph: NodeGraph, nodes: Sequence[Fields], links: Sequence[Fields], more: Fields, plugins: Plugins
) -> NodeGraph:
    """Keep what the file says beyond what would be written anyway."""
    writer = Writer(graph, plugins)
    datas = {written.spec.id: node["data"] for written, node in zip(writer.nodes, nodes, strict=False)}
    extras: dict[str, Fields] = {}
    for written, node in zip(writer.nodes, nodes, strict=False):
        envelope = {key: value for key, value in node.items() if key != "data"}
        known = {
            "data": change(written.data, node["data"]),
            "envelope": change(written.envelope, envelope),
        }
        extras[written.spec.id] = {key: value for key, value in known.items() if value is not None}
    specs = [_keeping(spec, extras.get(spec.id, {})) for spec in graph.nodes]
    absent = len(graph.edges) - len(links)
    given: list[Any] = [None] * absent
    edges = [
        _edge_keeping(edge, None if link is None else change(made, link))
        for edge, made, link in zip(graph.edges, writer.edges(datas), [*given, *links], strict=True)
    ]
    known = {
        "rest": change(writer.rest, more["rest"]),
        "notes": more["notes"] or None,
        "dependencies": _other_dependencies(writer.dependencies, more["dependencies"]),
    }
    extra = {key: value for key, value in known.items() if value is not None}
    return replace(graph, nodes=specs, edges=edges, extra={EXTRA: extra} if extra else {})


def _other_dependencies(needed: list[Fields], given: Any) -> Fields | None:
    if change(needed, given) is None:
        return None
    return {"was": needed, "is": given} if given is not None else {"was": needed}


def _keeping(spec: NodeSpec, more: Fields) -> NodeSpec:
    mine = {**spec.extra.get(EXTRA, {}), **more}
    return replace(spec, extra={EXTRA: mine}) if mine else spec


def _edge_keeping(edge: Edge, what: Any) -> Edge:
    return edge if what is None else replace(edge, extra={EXTRA: {"edge": what}})
