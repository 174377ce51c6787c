"""Reader of the workflow in the values of a Dify file."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

from operad.flows.check import CONVERSATION
from operad.flows.formats.overlay import apply_difference, change
from operad.flows.formats.shapes import Fields, each_of, fields_of, is_selector, list_of, text_of, texts_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.integrations.dify.apps import CONFIG_MODES, config_faults, config_of, graph_of_config, has_config
from operad.integrations.dify.in_workflow import in_workflow, read_value_type, selectors_named
from operad.integrations.dify.nodes import handles
from operad.integrations.dify.nodes.flow import TRIGGERS
from operad.integrations.dify.notes import is_note, read_notes
from operad.integrations.dify.typed_fields import with_variable_types
from operad.integrations.dify.write import (
    ABSENT,
    EXTRA,
    INSTRUCTIONS,
    NOTES,
    OWN,
    Writer,
    kept,
    read_params,
    read_type,
)
from operad.operators.request_secrets import change_keys
from operad.operators.variables import Selector, Text
from operad.runtime.values.document import YamlValues
from operad.runtime.values.errors import InvalidError, Issue
from operad.runtime.values.keys_in_text import KeyNames
from operad.runtime.values.secret import Secret, is_secret_name, secrets_in, with_literal_key

# Secrets of Dify files: secret environment variables, and keys that are written in requests.
#
# Requests name both as secrets, so that no run stores them. Keys that the file contains are the values of these secrets,
# and stay in the file: they are kept in ``extra``, as the file is.

_ENV = "env."


def _variables(workflow: Fields) -> dict[str, Fields]:
    """Return the environment variables of a file that can be secrets, by name."""
    named = [(each.get("name"), each) for each in each_of(workflow.get("environment_variables"))]
    return {name: each for name, each in named if isinstance(name, str) and is_secret_name(name)}


def secret_variables(workflow: Fields) -> set[str]:
    """Return the names of the environment variables that a file declares as secrets."""
    return {name for name, each in _variables(workflow).items() if each.get("value_type") == "secret"}


def with_secrets(graph: NodeGraph, workflow: Fields) -> tuple[NodeGraph, dict[str, str]]:
    """Return the nodes with the keys of requests as secrets, and the values of secrets that the file contains.

    Args:
        graph: The nodes.
        workflow: The workflow of the file.
    """
    reader = _Reader(graph, workflow)
    nodes = [reader.read(spec) if spec.type in ("request", "http-request") else spec for spec in graph.nodes]
    read = {selector.variable for spec in nodes if spec.type != "start" for selector in selectors_named(spec.params)}
    nodes = [_without_inputs(spec, reader.named - read) if spec.type == "start" else spec for spec in nodes]
    return replace(graph, nodes=nodes), reader.values


class _Reader:
    """Reader of the requests of a file.

    Attributes:
        names: The names of secrets for keys that are written in nodes.
        named: Inputs of environment variables that requests name as secrets.
    """

    def __init__(self, graph: NodeGraph, workflow: Fields) -> None:
        self._variables = _variables(workflow)
        self._secret = secret_variables(workflow)
        self._start = next((spec.id for spec in graph.nodes if spec.type == "start"), "")
        self.names = KeyNames(self._variables)
        self._of_environment: dict[str, str] = {}
        self.named: set[str] = set()
        for name in self._secret:
            self._keep(name)

    @property
    def values(self) -> dict[str, str]:
        """Values of secrets that the file contains, by name."""
        return {**self._of_environment, **self.names.values}

    def read(self, spec: NodeSpec) -> NodeSpec:
        """Return a request whose keys are secrets."""
        params = fields_of(spec.params)
        url = params.get("url")
        if is_selector(url) and (secret := self._secret_of(Selector(*list_of(url)), self._secret)):
            params = {**params, "url": secret.in_text}
        if isinstance(params.get("url"), str) and secrets_in(params["url"]):
            spec = replace(spec, type="request")  # the address of http-request is a variable

        def change(where: str, name: str, value: str) -> str:
            text = Text(value).renamed(self._renamed)
            return with_literal_key(text, lambda key: Secret(self.names.name_at(key, spec.id, name)).in_text)

        return replace(spec, params=change_keys(params, change)) if params else spec

    def _renamed(self, selector: Selector) -> str:
        """Return the reference to a variable in the place of a key: to a secret, if it is of the environment."""
        secret = self._secret_of(selector, self._variables)
        return secret.in_text if secret else selector.in_text

    def _secret_of(self, selector: Selector, among: Mapping[str, Any] | set[str]) -> Secret | None:
        """Return the secret for an input that is an environment variable; None for others."""
        name = selector.variable.removeprefix(_ENV)
        if selector.node != self._start or name == selector.variable or name not in among:
            return None
        self.named.add(selector.variable)
        self._keep(name)
        return Secret(name)

    def _keep(self, name: str) -> None:
        """Keep the value of an environment variable, if the file contains it."""
        value = self._variables[name].get("value")
        if isinstance(value, str) and value:
            self._of_environment[name] = value


def _without_inputs(spec: NodeSpec, names: set[str]) -> NodeSpec:
    """Return a start node without inputs that are secrets now."""
    params = fields_of(spec.params)
    inputs = list_of(params.get("variables"))
    remaining = [each for each in inputs if not {str(part) for part in list_of(each)[:1]} & names]
    defaults = {name: value for name, value in fields_of(params.get("defaults")).items() if name not in names}
    others = {name: value for name, value in params.items() if name != "defaults"}
    new: Fields = {**others, "variables": remaining} | ({"defaults": defaults} if defaults else {})
    return spec if len(remaining) == len(inputs) else replace(spec, params=new)


# Other forms of Dify files: exports without `kind`, bare graphs, and apps with a configuration instead of a graph.


def as_app(root: Fields) -> Fields:
    """Return the values of a file as those of an app with a graph; values of unknown form are returned unchanged."""
    if has_config(root):
        return graph_of_config(root)
    if "app" in root:
        return root
    found = _bare_graph(root)
    if found is None:
        return root
    workflow, graph = found
    types = [fields_of(node.get("data")).get("type") for node in each_of(graph.get("nodes"))]  # of any form
    app = {"mode": "advanced-chat" if "answer" in types and "end" not in types else "workflow"}
    kept = {key: value for key, value in root.items() if key in ("version", "dependencies", "operad")}
    return {**kept, "app": app, "kind": "app", "workflow": {**workflow, "graph": graph}}


def _bare_graph(root: Fields) -> tuple[Fields, Fields] | None:
    """Return the workflow and the graph of a file without an app; None if it has no graph."""
    workflow = fields_of(root.get("workflow"))
    for holder, more in ((workflow, workflow), (root, {})):
        for key in ("graph", "graph_config"):
            if "nodes" in fields_of(holder.get(key)):
                return more, fields_of(holder[key])
    return ({}, root) if "nodes" in root and "edges" in root else None


def as_bare(app: Fields, old: Fields) -> Fields:
    """Return the values of an app in the form that a file without an app has; the inverse of `as_app`.

    Args:
        app: The values of the app, which may be changed. Of what is not in its graph, the form may have no place for all.
        old: The values of the file; those of an app have only one form.
    """
    found = None if "app" in old else _bare_graph(old)
    if found is None:
        return app
    graph = app["workflow"]["graph"]
    more = {key: app[key] for key in ("dependencies", "operad") if key in app}
    if found[1] is old:
        return {**graph, **more}
    [key] = [
        key for key in ("graph", "graph_config") if found[1] in (fields_of(old.get("workflow")).get(key), old.get(key))
    ][:1]
    if "nodes" not in fields_of(fields_of(old.get("workflow")).get(key)):
        return {**old, **more, key: graph}
    others = {name: value for name, value in app["workflow"].items() if name != "graph"}
    return {**old, **more, "workflow": {**others, key: graph}}


_Owner = TypeVar("_Owner", NodeSpec, Edge)

MODES = ("workflow", "advanced-chat")
"""Modes of apps that have a graph."""


_PIPELINE = (
    "rag_pipeline fills a knowledge base of Dify, which Operad does not run; give its documents as a folder: "
    "`knowledge: {NAME: {folder: DOCUMENTS}}` of the services, which knowledge-retrieval nodes search"
)


def faults(text: YamlValues) -> Iterator[Issue]:
    """Yield the issues because of which the values of a file are not a Dify workflow."""
    root = text.value
    if not isinstance(root, dict):
        yield Issue("format", "must be a mapping with kind, app and workflow", "line 1")
        return
    if root.keys() == {"data"}:
        yield Issue("format", "data: is the answer of Dify's API; save the text in it as the file", "line 1")
        return
    fields = as_app(cast("Fields", root))
    if has_config(text.value):
        yield from (Issue("format", message) for message in config_faults(text.value))
    if fields.get("kind") not in (None, "app"):
        pipeline = fields["kind"] == "rag_pipeline"
        yield _issue(text, fields, "kind", _PIPELINE if pipeline else f"must be app, not {fields['kind']!r}")
        if pipeline:
            return
    app = fields.get("app")
    mode = fields_of(app).get("mode", "workflow")
    if not isinstance(app, dict):
        yield _issue(text, fields, "app", "must be a mapping with name and mode")
    elif mode not in MODES:
        known = ", ".join((*MODES, *CONFIG_MODES))
        message = f"must be one of {known}, not {mode!r}: apps of this mode have neither a graph nor a model_config"
        yield _issue(text, cast("Fields", app), "mode", message)
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
    seen_ids: set[str] = set()
    nodes = graph.get("nodes")
    for number, node in enumerate(list_of(nodes)):
        if not isinstance(node, dict):
            yield _issue(text, nodes, number, "must be a mapping with id and data", "misshapen-node")
        elif not is_note(node):
            yield from _node_faults(text, cast("Fields", node), seen_ids)
    edges = graph.get("edges")
    for number, edge in enumerate(list_of(edges)):
        fields = fields_of(edge)
        if not all(isinstance(fields.get(end), str) for end in ("source", "target")):
            yield _issue(text, edges, number, "must be a mapping with source and target, as texts", "misshapen-edge")


def _node_faults(text: YamlValues, node: Fields, seen_ids: set[str]) -> Iterator[Issue]:
    node_id, data = node.get("id"), node.get("data")
    if not isinstance(node_id, str) or not node_id:
        yield _issue(text, node, "id", "must be a text", "misshapen-node")
    elif node_id in seen_ids:
        yield _issue(text, node, "id", f"{node_id!r} is the id of another node, too", "duplicate-id")
    else:
        seen_ids.add(node_id)
    node_type = fields_of(data).get("type")
    if not isinstance(data, dict):
        yield _issue(text, node, "data", "must be a mapping with type", "misshapen-node")
    elif not isinstance(node_type, str) or not node_type or node_type == CONVERSATION:
        yield _issue(
            text, cast("Fields", data), "type", f"must be the name of a node type, not {node_type!r}", "misshapen-node"
        )


def _issue(text: YamlValues, holder: Any, key: str | int, what: str, code: str = "format") -> Issue:
    line = text.line(holder, key)
    is_missing = isinstance(holder, dict) and key not in holder
    return Issue(code, f"{key}: {'is missing; it ' if is_missing else ''}{what}", f"line {line}" if line else "")


def app_name(text: YamlValues) -> str:
    """Return the name of the workflow in a file; empty if there is none."""
    name = fields_of(as_app(fields_of(text.value)).get("app")).get("name")
    return name if isinstance(name, str) else ""


def _valid_app(text: YamlValues, name: str) -> Fields:
    """Return the values of a file as those of an app with a graph; errors name the file, or else the app."""
    if issues := list(faults(text)):
        raise InvalidError(name if name != "workflow" else app_name(text) or name, issues)
    return dict(as_app(text.value))


def read(text: YamlValues, name: str) -> NodeGraph:
    """Return the workflow of a file.

    Args:
        text: The values of the file.
        name: The name of a workflow whose file has none.

    Raises:
        InvalidError: The values are not a Dify workflow; every issue is listed.
    """
    root = _valid_app(text, name)
    workflow: Fields = dict(root["workflow"])
    graph: Fields = dict(workflow["graph"])
    entries: list[Fields] = graph.pop("nodes")
    links: list[Fields] = graph.pop("edges")
    dependencies = [root.pop("dependencies")] if "dependencies" in root else []
    instructions, notes = _take_texts(root, INSTRUCTIONS), _take_texts(root, NOTES)
    rest = {**root, "workflow": {**workflow, "graph": graph}}
    nodes = [entry for entry in entries if not is_note(entry)]
    typed = with_variable_types(workflow)
    graph_of_nodes = _with_params(_without_params(nodes), nodes, secret_variables(typed))
    conversation_nodes = _conversation_nodes(typed)
    graph_of_nodes = in_workflow(graph_of_nodes, typed, conversation_nodes)
    graph_of_nodes, secrets = with_secrets(graph_of_nodes, typed)
    whole_graph = NodeGraph(
        nodes=[*conversation_nodes, *graph_of_nodes.nodes],
        edges=[*graph_of_nodes.edges, *_edges(nodes, links, graph_of_nodes)],
        name=app_name(text) or name,
        instructions=instructions,
        notes=notes,
        sticky_notes=read_notes(entries),
    )
    rest_of_file: Fields = {"rest": rest, "dependencies": dependencies, "secrets": secrets}
    rest_of_file["config"] = config_of(text.value) if has_config(text.value) else None
    return _with_extra(whole_graph, nodes, links, rest_of_file)


def _take_texts(root: Fields, key: str) -> tuple[str, ...]:
    """Remove the texts under a key of Operad's data, such as the instructions, from the root of a file; return them."""
    operad_data = dict(fields_of(root.get(OWN)))
    texts = texts_of(operad_data.pop(key, None))
    if texts:
        root.pop(OWN)
        root |= {OWN: operad_data} if operad_data else {}
    return texts


def line_of_nodes(text: YamlValues) -> dict[str, int]:
    """Return the line of each node of a workflow, by Operad's id and by the id in the file.

    Raises:
        InvalidError: The values are not a Dify workflow; every issue is listed.
    """
    lines: dict[str, int] = {}
    for node in _valid_app(text, "the file")["workflow"]["graph"]["nodes"]:
        if not is_note(node):
            for node_id in filter(None, (_text_or_empty(_operad_data(node).get("id")), node["id"])):
                lines.setdefault(node_id, text.line(node, "id"))
    return lines


def _operad_data(node: Fields) -> Fields:
    return fields_of(node["data"].get(OWN))


def _text_or_empty(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _without_params(nodes: Sequence[Fields]) -> NodeGraph:
    """Return the nodes without parameters, with Operad's ids; containers without a start node in the file get one."""
    dify_ids = [node["id"] for node in nodes]
    taken = set(dify_ids)
    operad_ids: dict[str, str] = {}
    for node in nodes:
        wanted = _text_or_empty(_operad_data(node).get("id"))
        operad_ids[node["id"]] = wanted if wanted and wanted not in taken else node["id"]
        taken.add(operad_ids[node["id"]])
    specs = [
        NodeSpec(
            id=operad_ids[node["id"]],
            type=_text_or_empty(_operad_data(node).get("type")) or read_type(node["data"]),
            parent=operad_ids.get(_parent(node), _parent(node)),
        )
        for node in nodes
    ]
    specs = _with_one_start(specs, nodes)
    with_start = {spec.parent for spec in specs if spec.type in ("iteration-start", "loop-start")}
    edges: list[Edge] = []
    absent_mark = {EXTRA: {ABSENT: True}}
    for spec, node in zip(list(specs), nodes, strict=True):
        first_id = operad_ids.get(_text_or_empty(node["data"].get("start_node_id")))
        if spec.type in ("iteration", "loop") and spec.id not in with_start and first_id:
            start_id = f"{spec.id}start"
            while start_id in taken:
                start_id += "_"
            taken.add(start_id)
            specs.append(NodeSpec(id=start_id, type=f"{spec.type}-start", parent=spec.id, extra=absent_mark))
            edges.append(Edge(start_id, first_id, extra=absent_mark))
    return _keep_ids(NodeGraph(nodes=specs, edges=edges), dify_ids)


def _with_one_start(specs: list[NodeSpec], nodes: Sequence[Fields]) -> list[NodeSpec]:
    """Return the nodes with one start: the start node, or else the first webhook or the first other trigger."""
    kinds = {spec.id: text_of(node["data"].get("type")) for spec, node in zip(specs, nodes, strict=True)}
    order = ["start", *TRIGGERS]
    starts = sorted((each.id for each in specs if kinds[each.id] in order), key=lambda each: order.index(kinds[each]))
    others = {each for each in starts[1:] if kinds[each] in TRIGGERS}
    return [replace(spec, type=kinds[spec.id]) if spec.id in others else spec for spec in specs]


def _parent(node: Fields) -> str:
    data: Fields = node["data"]
    return (
        _text_or_empty(node.get("parentId"))
        or _text_or_empty(data.get("iteration_id"))
        or _text_or_empty(data.get("loop_id"))
    )


def _keep_ids(graph: NodeGraph, dify_ids: Sequence[str]) -> NodeGraph:
    """Keep the ids of the file in `extra` where `Writer` would give others."""
    for keep_all in (False, False, True):  # a kept id may change the others, so that all are kept in the end
        ids = Writer(graph).ids
        to_keep = {
            spec.id: dify_id
            for spec, dify_id in zip(graph.nodes, dify_ids, strict=False)
            if ids[spec.id] != dify_id or keep_all
        }
        if not to_keep and not keep_all:
            break
        graph = replace(
            graph,
            nodes=[
                replace(spec, extra={EXTRA: {"id": to_keep[spec.id]}}) if spec.id in to_keep else spec
                for spec in graph.nodes
            ],
        )
    return graph


def _with_params(graph: NodeGraph, nodes: Sequence[Fields], secrets: Collection[str]) -> NodeGraph:
    """Return a graph with the parameters of its nodes, read from their data."""
    datas = {spec.id: node["data"] for spec, node in zip(graph.nodes, nodes, strict=False)}
    params = read_params(datas, Writer(graph, secrets))
    kept_params = {spec.id: _operad_data(node).get("params") for spec, node in zip(graph.nodes, nodes, strict=False)}
    specs = [
        replace(spec, params=apply_difference(params[spec.id][1], kept_params[spec.id])) if spec.id in params else spec
        for spec in graph.nodes
    ]
    return replace(graph, nodes=specs)


def _conversation_nodes(workflow: Fields) -> list[NodeSpec]:
    variables: list[Any] = []
    for item in list_of(workflow.get("conversation_variables")):
        match item:
            case {"name": str() as name, **more}:
                variables.append([name, read_value_type(more.get("value_type")), more.get("value")])
            case _:
                pass
    return [NodeSpec(CONVERSATION, CONVERSATION, {"variables": variables})] if variables else []


def _edges(nodes: Sequence[Fields], links: Sequence[Fields], graph: NodeGraph) -> list[Edge]:
    """Return the edges of a file, with Operad's ids and numbers of ports."""
    operad_ids: dict[str, str] = {node["id"]: spec.id for spec, node in zip(graph.nodes, nodes, strict=False)}
    ports: dict[str, Mapping[str, int]] = {}
    for node in nodes:
        node_handles = handles(node["data"])
        ports[node["id"]] = {handle: port for port, handle in reversed(list(enumerate(node_handles)))}
    edges: list[Edge] = []
    for link in links:
        source: str = link["source"]
        target: str = link["target"]
        port = _port(link.get("sourceHandle"), ports.get(source, {}))
        edges.append(Edge(operad_ids.get(source, source), operad_ids.get(target, target), port))
    return edges


def _port(handle: Any, ports: Mapping[str, int]) -> int:
    """Return the port of a handle; for an unknown handle of a branch, a port that the node lacks, which the check reports.

    Dify follows all edges of a node that has no branches, whatever their handles.
    """
    if handle in (None, "source", "success-branch") or set(ports) == {"source"}:
        return ports.get("source", 0)
    handle = text_of(handle)
    number = int(handle) if re.fullmatch(r"-?[0-9]{1,6}", handle) else len(ports)
    return ports.get(handle, number)


def _with_extra(graph: NodeGraph, nodes: Sequence[Fields], links: Sequence[Fields], rest_of_file: Fields) -> NodeGraph:
    """Keep the values of the file that `Writer` would not write by itself, as titles and as differences in `extra`."""
    graph = _with_titles(graph, nodes)
    writer = Writer(graph)
    data_of = {written.spec.id: node["data"] for written, node in zip(writer.nodes, nodes, strict=False)}
    extras: dict[str, Fields] = {}
    for written, node in zip(writer.nodes, nodes, strict=False):
        envelope = {key: value for key, value in node.items() if key != "data"}
        changes = {
            "data": change(written.data, node["data"]),
            "envelope": change(written.envelope, envelope),
        }
        extras[written.spec.id] = {key: value for key, value in changes.items() if value is not None}
    specs = [_with_data(spec, extras.get(spec.id, {})) for spec in graph.nodes]
    absent_count = len(graph.edges) - len(links)
    no_links: list[Any] = [None] * absent_count
    edges = [
        edge if link is None else _with_data(edge, {"edge": edge_change} if (edge_change := change(made, link)) else {})
        for edge, made, link in zip(graph.edges, writer.edges(data_of), [*no_links, *links], strict=True)
    ]
    changes = {
        "rest": change(writer.rest, rest_of_file["rest"]),
        "config": rest_of_file["config"],
        "secrets": rest_of_file["secrets"] or None,
        "dependencies": _dependency_change(writer.dependencies, rest_of_file["dependencies"]),
    }
    extra = {key: value for key, value in changes.items() if value is not None}
    return replace(graph, nodes=specs, edges=edges, extra={EXTRA: extra} if extra else {})


def _with_titles(graph: NodeGraph, nodes: Sequence[Fields]) -> NodeGraph:
    """Return the workflow with the titles of its nodes that `Writer` would not give to them."""
    titles = {
        id(written.spec): title
        for written, node in zip(Writer(graph).nodes, nodes, strict=False)
        if isinstance(title := node["data"].get("title"), str) and title != written.data["title"]
    }
    specs = [replace(spec, title=titles[id(spec)]) if id(spec) in titles else spec for spec in graph.nodes]
    return replace(graph, nodes=specs)


def _dependency_change(needed: list[Fields], given: list[Any]) -> Fields | None:
    """Return the plugins that the nodes need and the field of a file, if it has one; None if they are the same."""
    if given and change(needed, given[0]) is None:
        return None
    return {"was": needed, "is": given[0]} if given else {"was": needed}


def _with_data(owner: _Owner, added: Fields) -> _Owner:
    """Return a node or an edge with more data of the file in `extra`."""
    data = {**kept(owner.extra), **added}
    return replace(owner, extra={EXTRA: data}) if data else owner
