"""An open file as JSON for the browser: nodes, edges, issues, steps."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from operad.flows.check import OUTCOME, Checker
from operad.flows.edit import Difference
from operad.flows.formats.format import Format, check_nodes, foreign
from operad.flows.formats.shapes import fields_of, is_selector, list_of, pairs_of
from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.operators.nodes import NODE_TYPES
from operad.operators.nodes.flow import SYSTEM
from operad.operators.variables import Text, plain
from operad.runtime.values.errors import Issue
from operad.server.studio.experts import graph as experts
from operad.server.studio.files.open_file import Content, OpenFile
from operad.server.studio.palette import title_of_type
from operad.server.studio.unfinished import Outputs, outputs_of

MAX_SUMMARY = 90
MOST_ISSUES = 500

_JOB = [
    {"name": "job", "title": "Job", "type": "string", "required": True, "default": None, "options": None, "multiline": True},
    {"name": "files", "title": "Files", "type": "array[file]", "required": False, "default": None, "options": None,
     "multiline": False},
]  # fmt: skip
"""The form of a run of experts."""

_WARNINGS = frozenset({"lossy", "loss", "note", "unread", "order", "not-selected"})
_FIELD = re.compile(r"([A-Za-z_]\w*)([\w.\[\]]*): ")


def document(file: OpenFile, draft: Content | None = None) -> dict[str, Any]:
    """Return an open file as the browser draws it.

    Args:
        file: The file.
        draft: A content to draw instead of that of the file.
    """
    content, history = draft or file.content, file.history
    checked = Checked(content)
    return {
        "path": file.name,
        "kind": "workflow" if content.format else "experts",
        "schemas": None if content.format else experts.schemas(content.data, file.path),
        "format": content.format_name,
        "version": file.version,
        "name": content.graph.name,
        "instructions": list(content.graph.instructions),
        "notes": list(content.graph.notes),
        "nodes": checked.nodes(),
        "edges": [{"source": each.source, "port": each.port, "target": each.target} for each in content.graph.edges],
        "inputs": inputs_of(content.graph) if content.format else _JOB,
        "issues": checked.issues(),
        "undo": history.back is not None,
        "redo": history.forth is not None,
        "steps": [
            {"number": each.number, "title": each.title, "at": each.at, "kind": each.kind, "before": each.before}
            for each in history.steps
        ],
        "step": history.current,
        "disk": file.disk,
        "fault": file.fault,
        "lossy": losses_json(content.graph, content.format) if content.format else [],
        "readonly": file.readonly or None,
    }


class Checked:
    """The static check of a content, and what it tells of each node."""

    def __init__(self, content: Content) -> None:
        self._graph = content.graph
        self._runs = content.format is not None and content.format.runs
        self._checker = Checker(content.graph, NODE_TYPES) if self._runs else None
        found: Sequence[Issue] = ()
        if content.format is not None:
            own = content.format.check
            found = self._checker.issues if self._checker and own is check_nodes else own(content.graph)
        self._issues = found

    def issues(self) -> list[dict[str, Any]]:
        """Return the issues, each with its node and its parameter."""
        return [issue_json(each, self._graph) for each in self._issues[:MOST_ISSUES]]

    def nodes(self) -> list[dict[str, Any]]:
        """Return the nodes."""
        return [self._node(spec) for spec in self._graph.nodes]

    def _node(self, spec: NodeSpec) -> dict[str, Any]:
        checker = self._checker
        known = checker.nodes.get(spec.id) if checker else None
        outputs: Outputs = outputs_of(checker, spec) if checker else {}
        inner: Outputs = checker.inner.get(spec.id, {}) if checker else {}
        return {
            "id": spec.id,
            "type": spec.type,
            "title": title_of_node(spec),
            "parent": spec.parent or None,
            "params": plain(fields_of(spec.params)),
            "ports": _port_labels(spec, list(known.ports) if known else []),
            "outputs": _variables(outputs),
            "inner": _variables(inner),
            "summary": summary_of(spec),
            "position": position_of(spec),
        }


def _variables(outputs: Outputs) -> list[dict[str, str]]:
    return [{"name": name, "type": kind.value} for name, kind in outputs.items()]


def issue_json(issue: Issue, graph: NodeGraph) -> dict[str, Any]:
    """Return an issue with its node, its edge and its parameter."""
    source, arrow, target = issue.where.partition(" → ")
    node = issue.where if issue.where in graph.by_id else target if target in graph.by_id else None
    found = _FIELD.match(issue.message)
    field, what = None, issue.message
    if found and node and not arrow:
        kind = NODE_TYPES.get(graph.by_id[node].type)
        if kind is None or found[1] in kind.params_type.model_fields:
            field, what = found[1] + found[2], issue.message[found.end() :]
    return {
        "code": issue.code,
        "what": what,
        "where": issue.where,
        "node": node,
        "edge": [source, target] if arrow else None,
        "field": field,
        "fix": None,
        "severity": "warning" if issue.code in _WARNINGS else "error",
    }


def changes_json(changes: Difference) -> dict[str, Any]:
    """Return a difference: the nodes and edges that are new or gone, and the parameters that changed."""
    fields: dict[str, list[dict[str, Any]]] = {}
    for each in changes.changed:
        change = {"field": each.path, "before": _given(each.old), "after": _given(each.new)}
        fields.setdefault(each.node, []).append(change)
    return {
        "added": [spec.id for spec in changes.added],
        "removed": [spec.id for spec in changes.removed],
        "removed_nodes": [
            {"id": spec.id, "type": spec.type, "title": title_of_node(spec), "parent": spec.parent or None}
            for spec in changes.removed
        ],
        "changed": [{"node": node, "fields": found} for node, found in fields.items()],
        "edges_added": [[edge.source, edge.port, edge.target] for edge in changes.edges_added],
        "edges_removed": [[edge.source, edge.port, edge.target] for edge in changes.edges_removed],
        "lines": str(changes).splitlines(),
    }


def _given(value: tuple[Any, ...]) -> Any:
    return plain(value[0]) if value else None


def losses_json(graph: NodeGraph, target: Format) -> list[dict[str, Any]]:
    """Return the parts of a workflow that a format cannot hold, each with the title of its node or edge.

    ``foreign`` marks settings that only the platform has which the workflow comes from; they come last.
    """
    of_others = set(foreign(graph, target.name))
    titles = {spec.id: f"{title_of_node(spec)} ({spec.id})" for spec in graph.nodes}
    rows = [
        {
            "where": " → ".join(titles.get(each, each) for each in issue.where.split(" → ")),
            "what": issue.message,
            "foreign": issue in of_others,
        }
        for issue in target.losses(graph)
    ]
    return sorted(rows, key=lambda each: each["foreign"])


def inputs_of(graph: NodeGraph) -> list[dict[str, Any]]:
    """Return the inputs of a workflow for the form of a run."""
    start = next((each for each in graph.nodes if each.type == "start" and not each.parent), None)
    params = fields_of(start.params) if start else {}
    defaults = fields_of(params.get("defaults"))
    return [
        {
            "name": name,
            "title": name.replace("_", " "),
            "type": kind,
            "required": name not in defaults and name not in SYSTEM,
            "default": plain(defaults.get(name)),
            "options": None,
            "multiline": kind == "string",
        }
        for name, kind in pairs_of(params.get("variables"))
        if isinstance(name, str) and isinstance(kind, str)
    ]


def title_of_node(spec: NodeSpec) -> str:
    """Return the title of a node: the one that its format keeps, or that of its type; of an operator, its name."""
    if spec.type in (experts.OPERATOR, experts.EVALUATOR, experts.EXPERT):
        return spec.id.rpartition("/")[2]
    for said in spec.extra.values():
        title = _found(said, "title")
        if isinstance(title, str) and title.strip():
            return title.strip()[:MAX_SUMMARY]
    return title_of_type(spec.type)


def titles_of(content: Content) -> dict[str, str]:
    """Return titles of nodes by their ids, for the run page; with the id where several nodes share a title."""
    if content.format is None:
        return {}
    titles = {spec.id: title_of_node(spec) for spec in content.graph.nodes}
    times = Counter(titles.values())
    shown = {id_: title if times[title] == 1 else f"{title} #{id_}" for id_, title in titles.items()}
    return {**shown, OUTCOME: "Result"}


def position_of(spec: NodeSpec) -> dict[str, float] | None:
    """Return the place of a node, as far as its format keeps one."""
    for said in spec.extra.values():
        place = fields_of(_found(said, "position"))
        x, y = place.get("x"), place.get("y")
        if isinstance(x, int | float) and isinstance(y, int | float) and abs(x) + abs(y) < 1e7:
            return {"x": float(x), "y": float(y)}
    return None


def _given_there(value: Any) -> Any:
    """A value, or the one in a difference of Dify."""
    fields = fields_of(value)
    if "at" in fields:
        return {name: _given_there(each) for name, each in fields_of(fields["at"]).items()}
    return fields["is"] if fields.keys() <= {"was", "is"} and "is" in fields else value


def _found(said: Any, key: str, deep: int = 3) -> Any:
    """A value in nested mappings, nearest first."""
    fields = fields_of(said)
    fields = fields_of(fields.get("at")) or fields  # Dify keeps what differs from what is written by default
    if key in fields:
        return _given_there(fields[key])
    for value in fields.values() if deep else ():
        if isinstance(value, Mapping) and (found := _found(value, key, deep - 1)) is not None:
            return found
    return None


def summary_of(spec: NodeSpec) -> str:
    """Return the content of a node in one line, for its card."""
    params = fields_of(spec.params)
    match spec.type:
        case "start":
            text = ", ".join(str(each[0]) for each in pairs_of(params.get("variables"))) or "no inputs"
        case "end":
            text = ", ".join(str(each[0]) for each in pairs_of(params.get("outputs"))) or "no outputs"
        case "if-else":
            text = _counted(len(list_of(params.get("cases"))), "case")
        case experts.EXPERT | experts.LEADER:
            text = str(fields_of(params.get("profile")).get("desc") or "")
        case _:
            text = _first_text(params)
    return " ".join(text.split())[:MAX_SUMMARY]


def _counted(count: int, what: str) -> str:
    return f"1 {what}" if count == 1 else f"{count} {what}s"


_TELLING = ("user", "query", "instruction", "system", "template", "code", "url", "name", "text")


def _first_text(params: Mapping[str, Any]) -> str:
    for name in (*_TELLING, *params):
        value = params.get(name)
        if isinstance(value, str) and value.strip():
            return Text(value).renamed(lambda found: f"{found.node}.{found.variable}")
    read = [f"{node}.{name}" for value in params.values() for name, node in _selectors(value)]
    return f"reads {', '.join(dict.fromkeys(read))}" if read else ""


def _selectors(value: Any) -> Iterator[list[str]]:
    """The variables in a parameter as it is written: ``[name, node id]``."""
    if is_selector(value):
        yield value
    else:
        for each in list_of(value):
            yield from _selectors(each)


def _port_labels(spec: NodeSpec, ports: Sequence[str]) -> list[str]:
    """The labels of ports: classes and answers by their titles, cases by their first condition."""
    params = fields_of(spec.params)
    if spec.type == experts.OPERATOR:
        return list(experts.ports_of(params))
    classes = list_of(params.get("classes")) if spec.type == "question-classifier" else []
    if classes:
        return [str(each)[:60] for each in classes]
    if spec.type == "human-input" and ports:
        titles = [str(title)[:60] for _, title in pairs_of(params.get("actions"))]
        return [*titles, *(port.strip("_") for port in ports[len(titles) :])]
    if spec.type == "if-else":
        cases = list_of(params.get("cases"))
        return [*(_case(each, number) for number, each in enumerate(cases)), "else"]
    return [str(each) for each in ports]


def _case(case: Any, number: int) -> str:
    conditions = list_of(list_of(case)[1]) if len(list_of(case)) == 2 else []
    first = list_of(conditions[0]) if conditions else []
    if len(first) < 2:
        return f"case {number}"
    name = str(list_of(first[0])[0]) if list_of(first[0]) else ""
    value = f" {first[2]}" if len(first) > 2 and first[2] is not None else ""
    more = " …" if len(conditions) > 1 else ""
    return f"{name} {first[1]}{value}"[:40] + more
