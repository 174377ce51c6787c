"""The archive of Coze: ``Workflow-<name>-draft.zip`` with ``MANIFEST.yml`` and ``workflow/<name>-draft.yaml``.

What an archive looks like is from Coze's own page on it, from Chat2Workflow's converter and from archives that others
have published; the bytes are those of Go's ``archive/zip``, without dates, which Coze was seen to take.

Out and back, ``load(dump(graph))`` is the graph in this normal form:

- references in texts are ``{{#id.variable#}}``, and the logic of an if-else case is null for up to one condition;
- nodes inside another stand right behind it, what begins inside of it first; edges inside a node come after those
  outside;
- Coze has one end: several become one behind a variable_merge with a group for each output, and come back as several,
  last in the list; edges to them come back in the order of the archive;
- a question-classifier's last class is the way where none fits, too (Coze's port default).

What Coze has no place for (our ids, parameters that it has no field for, which ends there were) stands behind ``operad``
in a node's description, which nobody need heed. It holds as long as the node is not edited there. What an archive says
beyond our parameters is kept in ``extra`` and written back; where the parameters were changed, beneath them.
`losses` says what Coze will not do.
"""

from __future__ import annotations

import io
import json
import lzma
import posixpath
import re
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, cast

import yaml
from pydantic import ValidationError

from operad.operators.formats import coze_nodes as nodes
from operad.operators.formats.coze_nodes import DEFAULT_CLASS, KINDS, STARTS, Fields, Names
from operad.operators.formats.format import Format
from operad.operators.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators.nodes import NODE_TYPES
from operad.runtime.document import MAX_BYTES, Document, Path_, parse_document
from operad.runtime.errors import InputError, InvalidError, Issue, describe

NAME = "coze"
START_ID, END_ID = "100001", "900001"

MAX_ARCHIVE = 16 * 2**20
"""The largest archive, in bytes."""

MAX_FILES = 200
"""How many files an archive may have."""

_ICONS = "https://lf3-static.bytednsdoc.com/obj/eden-cn/dvsmryvd_avi_dvsm/ljhwZthlaukjlkulzlp/icon/"
_NOTE = "operad "
_MISREAD = (KeyError, TypeError, ValueError, AttributeError, IndexError, StopIteration, RecursionError)
"""What reading parameters raises that are not of the form that is written."""

_BAD_ZIP = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError),
    *(RuntimeError, MemoryError, OverflowError),
    *_MISREAD,
)
"""What a broken zip raises."""


# The archive


def load(data: bytes, name: str = "workflow") -> NodeGraph:
    """Read a workflow.

    Args:
        data: The archive. Nothing of it is written to a disk.
        name: What to call the workflow where it does not say.

    Raises:
        InvalidError: It is no such archive; every issue is listed, those of a file in it with their lines.
    """
    files = _unpacked(data, name)
    documents = {path: _parsed(text, path) for path, text in files.items()}
    manifest = next((path for path in files if posixpath.basename(path) == "MANIFEST.yml"), None)
    about: Any = documents[manifest].data if manifest else {}
    called = _mapping(about.get("main")).get("name")
    flows = [path for path in files if posixpath.basename(posixpath.dirname(path)) == "workflow"]
    of_name = [path for path in flows if posixpath.basename(path) == f"{called}-draft.yaml"]
    if len(of_name or flows) != 1:
        there = f"there are {', '.join(flows)}" if flows else "there is none"
        raise InvalidError(name, [Issue("format", f"must have one workflow/<name>-draft.yaml; {there}")])
    flow = (of_name or flows)[0]
    return _Reading(documents[flow], name).graph(
        about, {path: text for path, text in files.items() if path in flows and path != flow}
    )


def dump(graph: NodeGraph) -> bytes:
    """Write a workflow. The same one gives the same bytes."""
    flow, about, others = _Writing(graph).archive()
    name = _file_name(graph)
    folder = f"Workflow-{name}-draft"
    return _packed(
        {
            f"{folder}/MANIFEST.yml": _yaml(about),
            f"{folder}/workflow/{name}-draft.yaml": _yaml(flow),
            **{f"{folder}/workflow/{posixpath.basename(path)}": text.encode() for path, text in others.items()},
        }
    )


def is_it(data: bytes) -> bool:
    """Whether it is an archive with a ``MANIFEST.yml``."""
    return data[:4] == b"PK\x03\x04" and b"MANIFEST.yml" in data[:MAX_ARCHIVE]


def losses(graph: NodeGraph) -> list[Issue]:
    """What Coze will not do, or has no place for; most of it comes back all the same, from descriptions."""
    return list(_losses(graph))


def _unpacked(data: bytes, name: str) -> dict[str, str]:
    """The YAML files of an archive as texts, by their paths in it."""
    issues: list[Issue] = []
    texts: dict[str, str] = {}
    if len(data) > MAX_ARCHIVE:
        raise InvalidError(name, [Issue("size", f"has {len(data):,} bytes, and {MAX_ARCHIVE:,} are the most")])
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            files = archive.infolist()
            if len(files) > MAX_FILES:
                raise InvalidError(name, [Issue("size", f"has {len(files):,} files, and {MAX_FILES} are the most")])
            issues += (Issue("path", "leads out of the archive", each.filename) for each in files if _leads_out(each))
            total = 0
            for file in files:
                if issues or file.is_dir() or not file.filename.endswith((".yml", ".yaml")):
                    continue
                with archive.open(file) as opened:
                    content = opened.read(MAX_BYTES + 1)
                total += len(content)
                if len(content) > MAX_BYTES or total > MAX_ARCHIVE:
                    issues.append(Issue("size", f"is larger than {MAX_BYTES:,} bytes, unpacked", file.filename))
                else:
                    texts[file.filename] = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        issues.append(Issue("format", f"a file in it is no text in UTF-8: {error.reason}"))
    except _BAD_ZIP as error:
        issues.append(Issue("format", f"is no zip archive that can be read: {describe(error)}"))
    if issues:
        raise InvalidError(name, issues)
    return texts


def _leads_out(file: zipfile.ZipInfo) -> bool:
    path = file.filename
    return path.startswith("/") or "\\" in path or ":" in path.split("/")[0] or ".." in path.split("/")


def _parsed(text: str, path: str) -> Document:
    try:
        return parse_document(text, path)
    except InputError as error:
        raise InvalidError(path, [Issue("format", "is empty", path)]) from error


class _Stream(io.RawIOBase):
    """What a zip is written to as Go writes it: front to back."""

    def __init__(self) -> None:
        super().__init__()
        self.content = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self.content += bytes(data)
        return len(data)


def _packed(files: Mapping[str, bytes]) -> bytes:
    stream = _Stream()
    with zipfile.ZipFile(cast("Any", stream), "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            info = zipfile.ZipInfo(path, (1980, 0, 0, 0, 0, 0))  # no date at all
            info.compress_type, info.create_system = zipfile.ZIP_DEFLATED, 0
            archive.writestr(info, content)
            info.external_attr = 0
    return bytes(stream.content)


class _Dumper(yaml.SafeDumper):
    """Writes YAML as Coze does: lists indented, texts of several lines as blocks, nothing by reference."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        return super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text_node(dumper: Any, text: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text_node)


def _yaml(value: Any) -> bytes:
    made: Any = yaml.dump(value, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=10**9, line_break="\n")
    return cast("str", made).encode("utf-8", errors="replace")


def _file_name(graph: NodeGraph) -> str:
    """What Coze takes as a name: a letter, then letters, digits and underscores."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", graph.name)[:60]
    return name if re.match("[A-Za-z]", name) else f"w_{name}"


# Both ways


@dataclass(frozen=True, slots=True)
class _Raw:
    """A node as an archive has it."""

    node: Mapping[str, Any]
    parent: str
    path: Path_

    @property
    def id(self) -> str:
        return str(self.node["id"])


def _read(node: Mapping[str, Any], names: Names) -> tuple[str, Any]:
    """Our type and parameters of a node of Coze; its own, where it is not of the form that is written."""
    kind, given = str(node["type"]), node.get("parameters")
    try:
        ours = _type_of(kind, given)
        if ours in KINDS:
            return ours, KINDS[ours].read(given, names)
        if plugin := nodes.plugin_of(given):
            return ours, nodes.read_plugin(plugin, given, names)
        if own := nodes.read_own(given):
            return own
    except _MISREAD:
        pass
    return kind, given if given is not None else {}


def _type_of(kind: str, given: Any) -> str:
    if kind == "llm" and nodes.is_extractor(given):
        return "parameter-extractor"
    if kind == "plugin":
        plugin = nodes.plugin_of(given)
        return plugin.type if plugin else ""
    return next((ours for ours, each in KINDS.items() if each.type == kind), "")


def _outputs(ours: str, params: Any, given: Any) -> Mapping[str, str]:
    """Coze's names of a node's outputs by ours; `given` is what Coze says of it, if it does."""
    if ours in ("llm", "variable-aggregator"):
        try:
            (name,) = given["node_outputs"] if ours == "llm" else [group["name"] for group in given["mergeGroups"]]
        except _MISREAD:
            return {}
        return {"text" if ours == "llm" else "output": str(name)}
    if plugin := nodes.plugin_for(ours, _mapping(params)):
        return dict([plugin.output])
    return _OUTPUTS.get(ours, {})


_OUTPUTS: Mapping[str, Mapping[str, str]] = {
    "http-request": {"status_code": "statusCode"},
    "question-classifier": {"class_name": "classificationId"},
    "text2image": {"files": "data"},
}


def _normal(node_type: str, params: Any) -> Any:
    """Parameters with references in texts, and the logic of cases, as they come back."""
    made = _normal_texts(params)
    cases: Any = _mapping(made).get("cases") if node_type == "if-else" else None
    for case in cast("list[Any]", cases) if isinstance(cases, list) else []:
        if isinstance(case, list) and len(case := cast("list[Any]", case)) == 2 and case[0] in ("and", None):
            case[0] = "and" if isinstance(case[1], list) and len(cast("list[Any]", case[1])) > 1 else None
    return made


def _normal_texts(value: Any) -> Any:
    if isinstance(value, str):
        return nodes.normal_text(value)
    if isinstance(value, Mapping):
        return {key: _normal_texts(item) for key, item in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_normal_texts(item) for item in cast("Sequence[Any]", value)]
    return value


def _written(spec: NodeSpec, names: Names) -> tuple[str, str, Fields]:
    """The type, the icon and the parameters of a node of ours at Coze."""
    try:
        made = _translated(spec, names)
    except _MISREAD:
        made = None
    return made or ("plugin", "icon-Plugin-v2.jpg", nodes.write_own(spec.type, spec.params))


def _translated(spec: NodeSpec, names: Names) -> tuple[str, str, Fields] | None:
    kind = KINDS.get(spec.type)
    plugin = nodes.plugin_for(spec.type, _mapping(spec.params))
    if spec.type not in NODE_TYPES or not (kind or plugin) or (spec.type in ("start", "end") and spec.parent):
        return None
    try:
        params = NODE_TYPES[spec.type].params_type.model_validate(spec.params)
    except ValidationError:
        return None
    if kind:
        return kind.type, kind.icon, kind.write(params, names)
    return ("plugin", "icon-Plugin-v2.jpg", nodes.write_plugin(plugin, params, names)) if plugin else None


def _kept(spec: NodeSpec, kind: str, written: Fields, names: Names) -> Fields:
    """What of a node's parameters does not come back from what was written, for its description."""
    back_type, back = _read({"id": "", "type": kind, "parameters": written}, names)
    mine, back = _normal(spec.type, spec.params), _normal(spec.type, back)
    if back_type != spec.type:
        return {"type": spec.type, "params": mine}
    if not (isinstance(mine, dict) and isinstance(back, dict)):
        return {} if mine == back else {"params": mine}
    mine, back = cast("Fields", mine), cast("Fields", back)
    kept: Fields = {}
    if differing := {key: value for key, value in mine.items() if key not in back or back[key] != value}:
        kept["params"] = differing
    if without := [key for key in back if key not in mine]:
        kept["without"] = without
    return kept


def _restored(spec: NodeSpec, note: Mapping[str, Any]) -> NodeSpec:
    """A node with what its description keeps."""
    params, kept = spec.params, note.get("params", {})
    if isinstance(params, dict) and isinstance(kept, dict):
        without: Any = note.get("without", [])
        params = {**cast("Fields", params), **cast("Fields", kept)}
        params = {key: value for key, value in params.items() if key not in without}
    elif "params" in note:
        params = kept
    return replace(spec, type=str(note.get("type", spec.type)), params=params)


# Writing


class _Writing:
    """One graph on its way out."""

    def __init__(self, graph: NodeGraph) -> None:
        by_id = graph.by_id
        graph = replace(graph, nodes=[spec for spec in graph.nodes if by_id[spec.id] is spec])
        self._graph = graph
        inside = {spec.id for spec in graph.nodes if _can_hold(spec)}
        nested = [spec for spec in graph.nodes if _is_inside(graph, spec, inside)]
        self._children: dict[str, list[NodeSpec]] = {}
        for spec in nested:
            self._children.setdefault(spec.parent, []).append(spec)
        deep = {id(spec) for spec in nested}
        self._top = [spec for spec in graph.nodes if id(spec) not in deep]
        names = Names({}, {})
        ends = [spec for spec in self._top if spec.type == "end" and _translated(spec, names)]
        self._ends = ends if len({spec.id for spec in ends}) == len(ends) > 1 else []
        self._begins = {
            parent: next((spec for spec in self._children.get(parent, ()) if _only_begins(graph, spec)), None)
            for parent in inside
        }
        begins = [spec for spec in self._begins.values() if spec]
        self._placeless = {spec.id for spec in (*self._ends, *begins)}
        self._ids, self._merge = self._numbered(ends)
        self._names = Names(
            self._ids,
            {spec.id: _outputs(spec.type, spec.params, _said(spec).get("parameters")) for spec in graph.nodes},
        )

    def _numbered(self, ends: Sequence[NodeSpec]) -> tuple[dict[str, str], str]:
        """Coze's ids by ours, and that of what merges several ends."""
        ids: dict[str, str] = {}
        if start := next((spec for spec in self._top if spec.type == "start"), None):
            ids[start.id] = START_ID
        if len(ends) == 1:
            ids.setdefault(ends[0].id, END_ID)
        written = list(self._in_order(self._top))
        own = [spec.id for spec in (*written, *self._graph.nodes)]  # those without a place there last
        for each in own:
            if re.fullmatch(r"[1-9][0-9]{4,15}", each) and each not in (START_ID, END_ID):
                ids.setdefault(each, each)
        taken = {*ids.values(), START_ID, END_ID}
        free = (str(number) for number in count(110001) if str(number) not in taken)
        for each in own:
            if each not in ids:
                ids[each] = next(free)
        return ids, next(free)

    def _in_order(self, specs: Sequence[NodeSpec]) -> Iterator[NodeSpec]:
        for spec in specs:
            if spec.id not in self._placeless:
                yield spec
            yield from self._in_order(self._children.get(spec.id, ()))

    def lost(self, spec: NodeSpec) -> Iterator[str]:
        """What of a node Coze will not do."""
        if spec.id in self._placeless:
            return
        kind, _, written = _written(spec, self._names)
        said = _said(spec)
        if said and (_says(said, spec, self._names) or spec.type == said.get("type")):
            return
        kept = _kept(spec, kind, written, self._names)
        if kind == "plugin" and _translated(spec, self._names) is None:
            yield f"Coze has no {spec.type!r} with these parameters; it is written as a plugin that it cannot run"
        elif kept:
            names = ", ".join([*_mapping(kept.get("params")), *kept.get("without", ())])
            yield f"Coze has no field for {names}, or not for all of it; it is kept in the description"
        params = _mapping(spec.params)
        if kind == "text" and re.search(r"\{%|\{#|\{\{[^{}]*[|(]", str(params.get("template"))):
            yield "template: Coze only puts variables in, and knows nothing else of Jinja"
        for name, text in params.items() if kind == "plugin" else ():
            if isinstance(text, str) and nodes.is_mixed(text):
                yield f"{name}: Coze takes a text or a variable for a plugin, not both; make it in a template before"
        if spec.parent and spec not in self._children.get(spec.parent, ()):
            yield f"that it runs inside {spec.parent!r}"

    def is_written(self, edge: Edge) -> bool:
        """Whether an edge has a place."""
        by_id = self._graph.by_id
        if edge.source not in by_id or edge.target not in by_id:
            return False
        return by_id[edge.source].parent == by_id[edge.target].parent

    def archive(self) -> tuple[Fields, Fields, Mapping[str, str]]:
        """The workflow's file, the manifest, and the files of other workflows in it."""
        said: Any = self._graph.extra.get(NAME, {})
        said = cast("Mapping[str, Any]", said) if isinstance(said, Mapping) else {}
        name = _file_name(self._graph)
        note = {"name": self._graph.name} if name != self._graph.name else {}
        flow: Fields = {
            "schema_version": "1.0.0",
            "name": name,
            "id": 1,
            "description": _note(note),
            "mode": "workflow",
            "icon": "plugin_icon/workflow.png",
        }
        main = {"id": 1, "name": name, "desc": "", "icon": "plugin_icon/workflow.png"}
        main |= {"version": "", "flowMode": 0, "commitId": ""}
        about: Fields = {"type": "Workflow", "version": "1.0.0", "main": main, "sub": []}
        if kept := _mapping(said.get("flow")):
            words = [_without_note(kept.get("description", "")), _note(note)]
            flow = {**kept, "name": name, "description": "\n".join(filter(None, words))}
        if kept := _mapping(said.get("manifest")):
            about = {**kept, "main": {**_mapping(kept.get("main")), "name": name}}
        flow |= {"nodes": [], "edges": []}
        flow["nodes"], flow["edges"] = self._level("", self._top)
        others = {str(path): str(text) for path, text in _mapping(said.get("files")).items()}
        return flow, about, others

    def _level(self, parent: str, specs: Sequence[NodeSpec]) -> tuple[list[Fields], list[Fields]]:
        here = [spec for spec in specs if spec.id not in self._placeless]
        edges = list(self._edges(parent, specs))
        made: list[Fields] = []
        places = _places([self._ids[spec.id] for spec in here], edges)
        for spec in here:
            made.append(self._node(spec, places[self._ids[spec.id]]))
        if self._ends and not parent:
            made += self._merged(max((place[0] for place in places.values()), default=0))
        return made, edges

    def _node(self, spec: NodeSpec, place: tuple[int, int]) -> Fields:
        kind, icon, parameters = _written(spec, self._names)
        note: Fields = {"id": spec.id} if self._ids[spec.id] != spec.id else {}
        said = _said(spec)
        if said and _says(said, spec, self._names):
            kind, parameters = str(said["type"]), said.get("parameters")
        elif said and spec.type == said.get("type") and not _translated(spec, self._names):
            kind, parameters = spec.type, spec.params
        else:
            note |= _kept(spec, kind, parameters, self._names)
            parameters = _beneath(_mapping(said.get("parameters")), parameters)
        begins = self._begins.get(spec.id)
        if spec.id in self._begins and (begins.id if begins else "") != f"{spec.id}-1":
            note["start"] = begins.id if begins else ""
        made: Fields = {"id": self._ids[spec.id], "type": kind}
        if said:
            made |= {key: value for key, value in said.items() if key not in ("parameters", "type")}
        else:
            made["title"] = {"start": "Start", "end": "End"}.get(spec.type, f"{spec.type} {spec.id}")
            made |= {"icon": _ICONS + icon, "description": "", "position": {"x": place[0], "y": place[1]}}
            made |= {"version": "v2"} if kind == "code" else {}
            around = {"canvas_position": {"x": place[0] - 100, "y": place[1] - 400}}
            made |= around if spec.id in self._begins else {}
        if note:
            made["description"] = "\n".join(filter(None, [_without_note(made.get("description", "")), _note(note)]))
        if parameters is not None:
            made["parameters"] = parameters
        if spec.id in self._begins:
            made["nodes"], made["edges"] = self._level(spec.id, self._children.get(spec.id, []))
        return made

    def _edges(self, parent: str, specs: Sequence[NodeSpec]) -> Iterator[Fields]:
        here = {spec.id for spec in specs}
        inline = f"{KINDS[self._graph.by_id[parent].type].type}-function-inline" if parent else ""
        leaving: set[str] = set()
        merged: list[Fields] = []
        for edge in self._graph.edges:
            if edge.source in here and self._has_place(edge):
                leaving.add(edge.source)
                made = self._edge(edge, parent, inline)
                if made["target_node"] != self._merge or made not in merged:
                    merged.append(made)
                    yield made
                    if made.get("source_port", "").startswith("branch_") and self._is_last_class(edge):
                        yield {**made, "source_port": DEFAULT_CLASS}
        if self._ends and not parent:
            yield {"source_node": self._merge, "target_node": END_ID}
        for spec in specs if parent else ():
            if spec.id not in leaving and spec.id not in self._placeless:
                target = {"target_node": self._ids[parent], "target_port": f"{inline}-input"}
                yield {"source_node": self._ids[spec.id], **target}

    def _has_place(self, edge: Edge) -> bool:
        return edge.target in self._ids and (edge.target not in self._placeless or self._is_end(edge.target))

    def _is_end(self, node_id: str) -> bool:
        return any(spec.id == node_id for spec in self._ends)

    def _edge(self, edge: Edge, parent: str, inline: str) -> Fields:
        source, target, port = self._ids[edge.source], self._ids[edge.target], self._port(edge)
        begins = self._begins.get(parent) if parent else None
        if begins and edge.source == begins.id:
            source, port = self._ids[parent], f"{inline}-output"
        made: Fields = {"source_node": source, "target_node": self._merge if self._is_end(edge.target) else target}
        return {**made, "source_port": port} if port else made

    def _port(self, edge: Edge) -> str:
        said: Any = edge.extra.get(NAME)
        if isinstance(said, str):
            return said
        spec = self._graph.by_id[edge.source]
        kind = _translated(spec, self._names)
        if spec.id in self._begins:
            return f"{kind[0] if kind else 'batch'}-output"
        if kind and kind[0] == "condition":
            return _condition_port(edge.port, len(kind[2]["branches"]))
        if kind and kind[0] == "intent" and edge.port >= 0:
            return f"branch_{edge.port}" if edge.port < len(kind[2]["intents"]) else DEFAULT_CLASS
        return f"port_{edge.port}" if edge.port else ""

    def _is_last_class(self, edge: Edge) -> bool:
        params = _mapping(self._graph.by_id[edge.source].params)
        return edge.port == len(params.get("classes", ())) - 1

    def _merged(self, x: int) -> list[Fields]:
        """One end for several, and what merges them."""
        groups: dict[str, list[Fields]] = {}
        notes: list[Fields] = []
        for spec in self._ends:
            params: Any = NODE_TYPES["end"].params_type.model_validate(spec.params)
            for name, selector in params.outputs:
                groups.setdefault(name, []).append(self._names.merged(selector))
            led = [[edge.source, edge.port] for edge in self._graph.edges if edge.target == spec.id]
            notes.append({"id": spec.id, "outputs": [name for name, _ in params.outputs], "from": led})
        merge: Fields = {
            "id": self._merge,
            "type": "variable_merge",
            "title": "variable-aggregator of the ends",
            "icon": _ICONS + "VariableMerge-icon.jpg",
            "description": _note({"ends": notes}),
            "position": {"x": x + 460, "y": 0},
            "parameters": {
                "mergeGroups": [{"name": name, "variables": variables} for name, variables in groups.items()],
                "node_outputs": {name: {"value": None} for name in groups},
            },
        }
        inputs = [{"name": name, "input": {"value": {"path": name, "ref_node": self._merge}}} for name in groups]
        end: Fields = {
            "id": END_ID,
            "type": "end",
            "title": "End",
            "icon": _ICONS + "icon-End-v2.jpg",
            "description": "",
            "position": {"x": x + 920, "y": 0},
            "parameters": {"node_inputs": inputs, "terminatePlan": "returnVariables"},
        }
        return [merge, end]


def _can_hold(spec: NodeSpec) -> bool:
    return spec.type in STARTS and _translated(spec, Names({}, {})) is not None


def _is_inside(graph: NodeGraph, spec: NodeSpec, holders: set[str]) -> bool:
    """Whether a node runs inside of one that can hold it, and that one in turn, up to the workflow."""
    around: set[str] = {spec.id}
    parent = spec.parent
    while parent in holders and parent not in around:
        around.add(parent)
        parent = graph.by_id[parent].parent
    return bool(spec.parent) and not parent


def _only_begins(graph: NodeGraph, spec: NodeSpec) -> bool:
    """Whether a node only says where what is inside another begins, so that Coze needs none for it."""
    around = graph.by_id.get(spec.parent)
    return (
        around is not None
        and spec.type == STARTS.get(around.type)
        and not spec.params
        and not any(edge.target == spec.id for edge in graph.edges)
        and not any(edge.source == spec.id and (edge.port or edge.extra) for edge in graph.edges)
    )


def _said(spec: NodeSpec) -> Mapping[str, Any]:
    """What an archive said of a node beyond what we write."""
    said = _mapping(spec.extra.get(NAME))
    return said if isinstance(said.get("type"), str) else {}


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _says(said: Mapping[str, Any], spec: NodeSpec, names: Names) -> bool:
    """Whether a node is still what an archive said of it."""
    kind, params = _read(said, names)
    classes: Any = _mapping(spec.params).get("classes")
    if kind == "question-classifier" and isinstance(classes, list) and classes[-1:] == [DEFAULT_CLASS]:
        params = {**params, "classes": [*params["classes"], DEFAULT_CLASS]}
    return (kind, params) == (spec.type, spec.params)


def _without_note(description: Any) -> str:
    lines = str(description).split("\n")
    return "\n".join(line for line in lines if not line.startswith(_NOTE + "{"))


def _noted(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """What we wrote into a description."""
    for line in str(node.get("description", "")).split("\n"):
        if line.startswith(_NOTE + "{"):
            try:
                return _mapping(json.loads(line.removeprefix(_NOTE)))
            except (ValueError, RecursionError):
                return {}
    return {}


def _holds(node: Mapping[str, Any]) -> bool:
    """Whether a node of Coze holds others in a way that we read."""
    kind = next((each for ours, each in KINDS.items() if ours in STARTS and each.type == node["type"]), None)
    if kind is None or "nodes" not in node:
        return False
    try:
        kind.read(node.get("parameters"), Names({}, {}))
    except _MISREAD:
        return False
    return True


def _plain(value: Any) -> Any:
    """A value of YAML as one of JSON."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list):
        return [_plain(item) for item in cast("list[Any]", value)]
    return value if isinstance(value, str | int | float | None) else str(value)


def _losses(graph: NodeGraph) -> Iterator[Issue]:
    writing = _Writing(graph)
    for name in graph.extra:
        if name != NAME:
            yield Issue("loss", f"what {name} says of the workflow")
    for spec in graph.nodes:
        if graph.by_id[spec.id] is not spec:
            yield Issue("loss", "a second node with this id", spec.id)
            continue
        yield from (Issue("loss", what, spec.id) for what in writing.lost(spec))
        yield from (Issue("loss", f"what {name} says of it", spec.id) for name in spec.extra if name != NAME)
    for edge in graph.edges:
        where = f"{edge.source} → {edge.target}"
        if not writing.is_written(edge):
            yield Issue("loss", "an edge that leads nowhere, or across the border of a node", where)
        elif edge.input or edge.extra.keys() - {NAME}:
            yield Issue("loss", "the input that it fills, and what other formats say of it", where)


def _note(note: Mapping[str, Any]) -> str:
    return _NOTE + json.dumps(note, ensure_ascii=False, default=str) if note else ""


def _beneath(kept: Mapping[str, Any], made: Any) -> Any:
    """What is written, over what an archive said."""
    if not kept or not isinstance(made, dict):
        return made
    fields = cast("Fields", made)
    over = {key: _beneath(_mapping(kept.get(key)), value) for key, value in fields.items()}
    if isinstance(kept.get("llmParam"), list) and isinstance(fields.get("llmParam"), list):
        ours = {each["name"] for each in fields["llmParam"]}
        others = [each for each in kept["llmParam"] if _mapping(each).get("name") not in ours]
        over["llmParam"] = [*fields["llmParam"], *others]
    return {**kept, **over}


def _condition_port(port: int, cases: int) -> str:
    if port == cases:
        return "false"
    return f"true_{port}" if port else "true"


def _places(ids: Sequence[str], edges: Iterable[Fields]) -> dict[str, tuple[int, int]]:
    """Where nodes stand: by the longest way to them, and one below the other."""
    before: dict[str, set[str]] = {each: set() for each in ids}
    for edge in edges:
        if edge["target_node"] in before and edge["source_node"] in before:
            before[edge["target_node"]].add(edge["source_node"])
    column = dict.fromkeys(ids, 0)
    for _ in range(min(len(ids), 60)):
        deeper = {each: max((column[other] + 1 for other in before[each]), default=0) for each in ids}
        if deeper == column:
            break
        column = deeper
    rows: dict[int, int] = {}
    places: dict[str, tuple[int, int]] = {}
    for each in ids:
        row = rows.setdefault(column[each], 0)
        rows[column[each]] += 1
        places[each] = (460 * column[each], 260 * row)
    return places


# Reading


class _Reading:
    """One file on its way in."""

    def __init__(self, document: Document, name: str) -> None:
        self._document = document
        self._name = name
        self._issues: list[Issue] = []
        self._nodes: list[_Raw] = []
        self._edges: list[tuple[Mapping[str, Any], str]] = []
        self._level(document.data, "", ())
        if self._issues:
            raise InvalidError(name, self._issues)
        self._notes = {raw.id: _noted(raw.node) for raw in reversed(self._nodes)}
        noted = {raw.id: self._notes[raw.id].get("id") for raw in self._nodes}
        ids: dict[str, str] = {}
        for theirs, said in noted.items():
            if isinstance(said, str):
                ids.setdefault(said, theirs)
        ours = {theirs: each for each, theirs in ids.items()}
        for theirs in noted:
            if theirs not in ours:
                own = theirs
                while own in ids:
                    own += "_"
                ids[own], ours[theirs] = theirs, own
        plain = Names(ids, {})
        outputs = {ours[raw.id]: _outputs(*_read(raw.node, plain), raw.node.get("parameters")) for raw in self._nodes}
        self._names = Names(ids, outputs)
        self._ours = ours

    def _level(self, given: Mapping[str, Any], parent: str, path: Path_) -> None:
        for number, edge in enumerate(self._list(given, "edges", path)):
            match edge:
                case {"source_node": str() | int(), "target_node": str() | int()}:
                    self._edges.append((cast("Mapping[str, Any]", edge), parent))
                case _:
                    self._report(
                        "misshapen-edge", "must have a source_node and a target_node", (*path, "edges", number)
                    )
        for number, node in enumerate(self._list(given, "nodes", path)):
            at = (*path, "nodes", number)
            match node:
                case {"id": str() | int(), "type": str()}:
                    raw = _Raw(cast("Mapping[str, Any]", _plain(node)), parent, at)
                    self._nodes.append(raw)
                    if _holds(raw.node):
                        self._level(cast("Mapping[str, Any]", node), raw.id, at)
                case _:
                    self._report("misshapen-node", "must have an id and a type", at)

    def _list(self, given: Mapping[str, Any], key: str, path: Path_) -> list[Any]:
        value = given.get(key)
        if isinstance(value, list):
            return cast("list[Any]", value)
        if value is not None or key == "nodes":
            self._report("format", f"{key}: must be a list", (*path, key))
        return []

    def _report(self, code: str, message: str, path: Path_) -> None:
        self._issues.append(Issue(code, message, self._document.where(path)))

    def graph(self, about: Mapping[str, Any], files: Mapping[str, str]) -> NodeGraph:
        """The workflow."""
        edges = self._read_edges()
        ends = self._ends()
        specs: list[NodeSpec] = []
        for raw in self._nodes:
            if ends and raw.id in (ends[0], END_ID):
                continue
            specs.append(self._spec(raw, edges))
            specs += self._begins(raw)
        if ends:
            specs += ends[1]
            edges = self._to_ends(edges, self._ours[ends[0]], ends[1], ends[2])
        note = _noted(self._document.data)
        called = note.get("name") or self._document.data.get("name")
        graph = NodeGraph(specs, edges, called if isinstance(called, str) else self._name)
        return self._with_rest(graph, about, files)

    def _spec(self, raw: _Raw, edges: Sequence[Edge]) -> NodeSpec:
        ours = self._ours[raw.id]
        parent = self._ours.get(raw.parent, "") if raw.parent else ""
        kind, params = _read(raw.node, self._names)
        spec = NodeSpec(ours, kind, params, parent)
        if kind == "question-classifier" and raw.id in self._own_default:
            spec = replace(spec, params={**params, "classes": [*params["classes"], DEFAULT_CLASS]})
        note = self._notes[raw.id]
        for candidate in (_restored(spec, note), spec):
            written = _written(candidate, self._names)
            if (written[0], written[2]) == (raw.node["type"], raw.node.get("parameters")):
                return candidate
        return spec

    def _begins(self, raw: _Raw) -> list[NodeSpec]:
        """What begins inside of a node, which the archive does not have."""
        ours = self._ours[raw.id]
        begin = STARTS.get(_read(raw.node, self._names)[0])
        start = self._start(raw.id)
        return [NodeSpec(start, begin, {}, ours)] if begin and _holds(raw.node) and start else []

    def _start(self, holder: str) -> str:
        start = self._notes[holder].get("start", f"{self._ours[holder]}-1")
        return start if isinstance(start, str) else f"{self._ours[holder]}-1"

    # Edges

    def _read_edges(self) -> list[Edge]:
        kinds: dict[str, tuple[str, Any]] = {
            raw.id: ("", {}) if raw.node["type"] == "plugin" else _read(raw.node, self._names) for raw in self._nodes
        }
        default: dict[str, set[str]] = {}
        last: dict[str, set[str]] = {}
        for edge, _ in self._edges:
            source, target, port = str(edge["source_node"]), str(edge["target_node"]), edge.get("source_port")
            if kinds.get(source, ("",))[0] == "question-classifier":
                count = len(kinds[source][1]["classes"])
                kept = default if port == DEFAULT_CLASS else last if port == f"branch_{count - 1}" else {}
                kept.setdefault(source, set()).add(target)
        self._own_default = {source for source, targets in default.items() if targets - last.get(source, set())}
        edges: list[Edge] = []
        for edge, parent in self._edges:
            source, target = str(edge["source_node"]), str(edge["target_node"])
            if parent and target == parent:
                continue
            port = edge.get("source_port")
            ours = self._ours.get(source, source), self._ours.get(target, target)
            if parent and source == parent:
                edges.append(Edge(self._start(parent), ours[1]))
            elif port != DEFAULT_CLASS or source in self._own_default or source not in default:
                kind, params = kinds.get(source, ("", {}))
                number = _port(kind, params, port)
                edges.append(Edge(*ours, number) if number is not None else Edge(*ours, extra={NAME: port}))
        return edges

    # Several ends

    def _ends(self) -> tuple[str, list[NodeSpec], list[Any]] | None:
        """What merges several ends, these, and where the edges to each come from; None where there are none."""
        merge = next((raw for raw in self._nodes if "ends" in self._notes[raw.id] and not raw.parent), None)
        end = next((raw for raw in self._nodes if raw.id == END_ID), None)
        if merge is None or end is None:
            return None
        try:
            groups = {group["name"]: list(group["variables"]) for group in merge.node["parameters"]["mergeGroups"]}
            given = {each["name"]: each["input"]["value"] for each in end.node["parameters"]["node_inputs"]}
            if given != {name: {"path": name, "ref_node": merge.id} for name in groups}:
                return None
            ends: list[NodeSpec] = []
            froms: list[Any] = []
            for each in self._notes[merge.id]["ends"]:
                outputs = [[name, self._names.of_merged(groups[name].pop(0))] for name in each["outputs"]]
                ends.append(NodeSpec(str(each["id"]), "end", {"outputs": outputs}))
                froms.append([[str(source), int(port)] for source, port in each["from"]])
        except _MISREAD:
            return None
        return None if any(groups.values()) or not ends else (merge.id, ends, froms)

    @staticmethod
    def _to_ends(edges: list[Edge], merge: str, ends: Sequence[NodeSpec], froms: Sequence[Any]) -> list[Edge]:
        made: list[Edge] = []
        for edge in edges:
            led = [end.id for end, each in zip(ends, froms, strict=True) if [edge.source, edge.port] in each]
            if edge.target != merge:
                made.append(edge)
            else:
                made += (replace(edge, target=end) for end in led or [ends[0].id])
        return [edge for edge in made if edge.source != merge]

    # What else the archive says

    def _with_rest(self, graph: NodeGraph, about: Mapping[str, Any], files: Mapping[str, str]) -> NodeGraph:
        """The workflow, with what we would not write ourselves."""
        flow, manifest, _ = _Writing(graph).archive()
        made: dict[str, Mapping[str, Any]] = {}
        open_: list[Any] = list(flow["nodes"])
        while open_:
            node = open_.pop()
            made[node["id"]] = node
            open_ += node.get("nodes", ())
        there = {self._ours[raw.id]: raw for raw in self._nodes}
        specs: list[NodeSpec] = []
        for spec in graph.nodes:
            raw = there.get(spec.id)
            extra: Mapping[str, Any] = {}
            if raw is not None and spec.type not in STARTS.values():
                ours = {"id", "nodes", "edges"} if _holds(raw.node) else {"id"}
                said = {key: value for key, value in raw.node.items() if key not in ours}
                if said != {key: value for key, value in made.get(raw.id, {}).items() if key not in ours}:
                    words = {"description": _without_note(raw.node["description"])} if _noted(raw.node) else {}
                    extra = {NAME: {**said, **words}}
            specs.append(replace(spec, extra=extra))
        rest: Fields = {}
        said = {key: _plain(value) for key, value in self._document.data.items() if key not in ("nodes", "edges")}
        if said != {key: value for key, value in flow.items() if key not in ("nodes", "edges")}:
            rest["flow"] = said
        if (said := _plain(about)) != manifest:
            rest["manifest"] = said
        if files:
            rest["files"] = dict(files)
        return replace(graph, nodes=specs, extra={NAME: rest} if rest else {})


def _port(kind: str, params: Any, port: Any) -> int | None:
    """The number of a port; None where ours has no number for it."""
    if port is None or (kind in STARTS and str(port).endswith("-output")):
        return 0
    name, _, digits = str(port).partition("_")
    number = int(digits) if re.fullmatch("[0-9]{1,6}", digits) else 0 if not digits else None
    if kind == "if-else":
        numbers = {"true": number, "false": len(params["cases"])}
    elif kind == "question-classifier":
        numbers = {"branch": number if digits else None, DEFAULT_CLASS: len(params["classes"])}
    else:
        numbers = {"port": number if digits else None}
    return numbers.get(name)


COZE = Format(NAME, ".coze.zip", is_it, load, dump, losses)
"""The archive of Coze."""
