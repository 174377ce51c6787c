"""An open file as JSON for the browser: nodes, edges, issues, steps."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from operad.flows.check import OUTCOME, Checker
from operad.flows.edit import Difference
from operad.flows.formats.format import Format, check_nodes, foreign
from operad.flows.formats.remarks import remarks_of
from operad.flows.formats.shapes import fields_of, list_of, pairs_of
from operad.flows.node_graph import NodeGraph, NodeSpec, name_of, names_of
from operad.flows.oversights import oversights_of
from operad.operators.node import NodeOperator
from operad.operators.node_params import readable, references_in
from operad.operators.nodes import NODE_TYPES
from operad.operators.nodes.flow import SYSTEM
from operad.operators.variables import Selector, Text, plain
from operad.runtime.values.errors import Issue
from operad.server.studio.experts import graph as experts
from operad.server.studio.files.open_file import Content, OpenFile
from operad.server.studio.unfinished import Outputs, outputs_of

MAX_SUMMARY = 90
"""Maximum number of characters of a node's summary."""

MOST_ISSUES = 500
"""Maximum number of issues sent to the browser."""

MOST_PORTS = 64
"""Maximum number of ports of a card whose type is unknown; files may name larger ones."""

_JOB = [
    {"name": "job", "title": "Job", "type": "string", "required": True, "default": None},
    {"name": "files", "title": "Files", "type": "array[file]", "required": False, "default": None},
]
"""Inputs in the form for a run of experts."""

_WARNINGS = frozenset({"lossy", "loss", "note", "unread", "order", "not-selected"})
_FIELD = re.compile(r"([A-Za-z_]\w*)([\w.\[\]]*): ")


def document(file: OpenFile, draft: Content | None = None) -> dict[str, Any]:
    """Return an open file as JSON values for the browser.

    Args:
        draft: Content to show instead of the file's.
    """
    content, history = draft or file.content, file.history
    checked = Checked(content)
    return {
        "path": file.name,
        "kind": "workflow" if content.format else "experts",
        "schemas": None if content.format else experts.schemas(content.data, file.path),
        "format": content.format_name,
        "runs": content.format is None or content.format.runs,
        "version": file.version,
        "name": content.graph.name,
        "instructions": list(content.graph.instructions),
        "notes": list(content.graph.notes),
        "nodes": checked.nodes(),
        "edges": [{"source": each.source, "port": each.port, "target": each.target} for each in content.graph.edges],
        "sticky_notes": [
            {"id": each.id, "text": each.text, "color": each.color, "at": each.at, "size": each.size}
            for each in content.graph.sticky_notes
        ],
        "inputs": inputs_of(content.graph) if content.format else _JOB,
        "issues": checked.issues(),
        "undo": history.back is not None,
        "redo": history.forth is not None,
        "steps": [
            {
                "number": each.number,
                "title": each.title,
                "at": each.at,
                "kind": each.kind,
                "before": each.before,
                "name": each.name,
            }
            for each in history.steps
        ],
        "step": history.current,
        "disk": file.disk,
        "fault": file.fault,
        "lossy": losses_json(content.graph, content.format) if content.format else [],
        "readonly": file.readonly or None,
    }


class Checked:
    """Static check of a content, and its results for each node.

    The notes follow the issues of the check: what an imported file does differently here, and texts that are empty.
    """

    def __init__(self, content: Content) -> None:
        self._graph = content.graph
        self._names = names_of(content.graph)
        self._runs = content.format is not None and content.format.runs
        self._checker = Checker(content.graph, NODE_TYPES) if self._runs else None
        issues: Sequence[Issue] = ()
        if content.format is not None:
            found = self._checker if content.format.issues is check_nodes else None  # it would check the same again
            issues = found.issues if found else content.format.check(content.graph)
        remarks = [each.issue for each in remarks_of(content.graph)]
        self._issues = [*issues, *remarks, *(oversights_of(self._checker) if self._checker else ())]
        self._used_ports: dict[str, dict[int, str]] = {}
        for edge in content.graph.edges:
            self._used_ports.setdefault(edge.source, {}).setdefault(edge.port, edge.input or str(edge.port))

    def issues(self) -> list[dict[str, Any]]:
        """Return the issues, each with its node and its parameter."""
        return [issue_json(issue, self._graph) for issue in self._issues[:MOST_ISSUES]]

    def nodes(self) -> list[dict[str, Any]]:
        """Return the nodes."""
        return [self._node(spec) for spec in self._graph.nodes]

    def _node(self, spec: NodeSpec) -> dict[str, Any]:
        checker = self._checker
        known = checker.nodes.get(spec.id) if checker else None
        outputs: Outputs = outputs_of(checker, spec) if checker else {}
        return {
            "id": spec.id,
            "type": spec.type,
            "title": name_of(spec),
            "given_title": spec.title,
            "name": self._names[spec.id],
            "parent": spec.parent or None,
            "params": plain(fields_of(spec.params)),
            "ports": self._ports(spec, list(known.ports) if known else []),
            "outputs": [{"name": name, "type": kind.value} for name, kind in outputs.items()],
            "summary": summary_of(spec, self._names, known),
            "position": position_of(spec),
        }

    def _ports(self, spec: NodeSpec, declared: Sequence[str]) -> list[str]:
        """Return the labels of ports, also of those that only edges name, so that each edge can be drawn."""
        used = self._used_ports.get(spec.id, {})
        labels = _port_labels(spec, declared, max(used, default=0))
        most = min(max(used, default=0), MOST_PORTS - 1)
        return [*labels, *(used.get(port, str(port)) for port in range(len(labels), most + 1 if most else 0))]


def issue_json(issue: Issue, graph: NodeGraph) -> dict[str, Any]:
    """Return an issue with its node and its parameter."""
    _, arrow, target = issue.where.partition(" → ")
    node = issue.where if issue.where in graph.by_id else target if target in graph.by_id else None
    found = _FIELD.match(issue.message)
    field, message = None, issue.message
    if found and node and not arrow:
        kind = NODE_TYPES.get(graph.by_id[node].type)
        if kind is None or found[1] in kind.params_type.model_fields:
            field, message = found[1] + found[2], issue.message[found.end() :]
    return {
        "code": issue.code,
        "what": message,
        "where": issue.where,
        "node": node,
        "field": field,
        "severity": "warning" if issue.code in _WARNINGS else "error",
    }


def changes_json(changes: Difference) -> dict[str, Any]:
    """Return a difference as JSON values: added and removed nodes and edges, and changed parameters."""
    fields: dict[str, list[dict[str, Any]]] = {}
    for each in changes.changed:
        change = {"field": each.path, "before": _value_of(each.old), "after": _value_of(each.new)}
        fields.setdefault(each.node, []).append(change)
    return {
        "added": [spec.id for spec in changes.added],
        "removed": [spec.id for spec in changes.removed],
        "removed_nodes": [
            {"id": spec.id, "type": spec.type, "title": name_of(spec), "parent": spec.parent or None}
            for spec in changes.removed
        ],
        "changed": [{"node": node, "fields": found} for node, found in fields.items()],
        "edges_added": [[edge.source, edge.port, edge.target] for edge in changes.edges_added],
        "edges_removed": [[edge.source, edge.port, edge.target] for edge in changes.edges_removed],
    }


def _value_of(value: tuple[Any, ...]) -> Any:
    return plain(value[0]) if value else None


def losses_json(graph: NodeGraph, target: Format) -> list[dict[str, Any]]:
    """Return the parts of a workflow that a format cannot hold, each with the title of its node or edge.

    ``foreign`` marks settings that exist only on the platform that the workflow comes from; they are listed last.
    """
    of_others = set(foreign(graph, target.name))
    rows = [{**_placed(issue, graph), "foreign": issue in of_others} for issue in target.losses(graph)]
    return sorted(rows, key=lambda each: each["foreign"])


def models_json(graph: NodeGraph, target: Format) -> list[dict[str, str]]:
    """Return the models that a file of a format names for nodes that name none."""
    return [_placed(issue, graph) for issue in target.models(graph)]


def _placed(issue: Issue, graph: NodeGraph) -> dict[str, str]:
    """Return what an issue says, with the title of its node, or of both ends of its edge."""
    ends = issue.where.split(" → ")
    titled = [f"{name_of(graph.by_id[each])} ({each})" if each in graph.by_id else each for each in ends]
    return {"where": " → ".join(titled), "what": issue.message}


def inputs_of(graph: NodeGraph) -> list[dict[str, Any]]:
    """Return the inputs of a workflow for the form of a run."""
    start = next((spec for spec in graph.nodes if spec.type == "start" and not spec.parent), None)
    params = fields_of(start.params) if start else {}
    defaults = fields_of(params.get("defaults"))
    return [
        {
            "name": name,
            "title": name.replace("_", " "),
            "type": kind,
            "required": name not in defaults and name not in SYSTEM,
            "default": plain(defaults.get(name)),
        }
        for name, kind in pairs_of(params.get("variables"))
        if isinstance(name, str) and isinstance(kind, str)
    ]


def titles_of(content: Content) -> dict[str, str]:
    """Return names of nodes by their ids, for the run page."""
    return {} if content.format is None else {**names_of(content.graph), OUTCOME: "Result"}


def position_of(spec: NodeSpec) -> dict[str, float] | None:
    """Return the position of a node; None if its format keeps none."""
    for extra in spec.extra.values():
        position = fields_of(_nested_value(extra, "position"))
        x, y = position.get("x"), position.get("y")
        if isinstance(x, int | float) and isinstance(y, int | float) and abs(x) + abs(y) < 1e7:
            return {"x": float(x), "y": float(y)}
    return None


def _current_value(value: Any) -> Any:
    """Return a value of a node's extra fields; of a difference from Dify's default, the changed value."""
    fields = fields_of(value)
    if "at" in fields:
        return {name: _current_value(each) for name, each in fields_of(fields["at"]).items()}
    return fields["is"] if fields.keys() <= {"was", "is"} and "is" in fields else value


def _nested_value(extra: Any, key: str, depth: int = 3) -> Any:
    """Return the value of a key in nested mappings, the outermost first; None if there is none."""
    fields = fields_of(extra)
    fields = fields_of(fields.get("at")) or fields  # Dify's fields are kept as differences from the default
    if key in fields:
        return _current_value(fields[key])
    for value in fields.values() if depth else ():
        if isinstance(value, Mapping) and (found := _nested_value(value, key, depth - 1)) is not None:
            return found
    return None


def summary_of(spec: NodeSpec, names: Mapping[str, str], node: NodeOperator[Any] | None = None) -> str:
    """Return the content of a node in one line, for its card.

    Args:
        names: Names of nodes by their ids, for the variables that the node reads.
        node: The operator of the node; None if it has faults, or its type is unknown.
    """
    params = fields_of(spec.params)
    match spec.type:
        case "start":
            text = ", ".join(str(variable[0]) for variable in pairs_of(params.get("variables"))) or "no inputs"
        case "end":
            text = ", ".join(str(variable[0]) for variable in pairs_of(params.get("outputs"))) or "no outputs"
        case "if-else":
            text = _count_text(len(list_of(params.get("cases"))), "case")
        case experts.EXPERT | experts.LEADER:
            text = str(fields_of(params.get("profile")).get("desc") or "")
        case _:
            text = _first_text(params, names) or _reads_text(spec, names, node) or _scalars_text(params)
    return " ".join(text.split())[:MAX_SUMMARY]


def _count_text(count: int, what: str) -> str:
    return f"1 {what}" if count == 1 else f"{count} {what}s"


_SUMMARY_FIELDS = ("user", "query", "instruction", "system", "template", "code", "url", "name", "text")


def _first_text(params: Mapping[str, Any], names: Mapping[str, str]) -> str:
    for name in (*_SUMMARY_FIELDS, *params):
        value = params.get(name)
        if isinstance(value, str) and value.strip():
            return Text(value).renamed(lambda found: _named(found, names))
    return ""


def _scalars_text(params: Mapping[str, Any]) -> str:
    """Return the numbers and switches among the parameters of a node."""
    return ", ".join(f"{name}: {value}" for name, value in params.items() if isinstance(value, int | float))


def _named(found: Selector, names: Mapping[str, str]) -> str:
    return f"{found.variable} · {names.get(found.node, found.node)}"


def _reads_text(spec: NodeSpec, names: Mapping[str, str], node: NodeOperator[Any] | None) -> str:
    """Return the variables that a node reads; of one with faults, those of the parameters that are valid."""
    kind = NODE_TYPES.get(spec.type)
    if node is not None:
        found = node.references
    elif kind is not None:
        found = references_in(kind.params_type, readable(kind.params_type, spec.params))
    else:
        return ""
    read = dict.fromkeys(_named(each.selector, names) for each in found)
    return f"reads {', '.join(read)}" if read else ""


def _port_labels(spec: NodeSpec, ports: Sequence[str], left: int) -> list[str]:
    """Return the labels of declared ports: titles of classes and answers, first conditions of cases.

    Args:
        left: Largest port of an edge. The port for a timeout of a question, which is never taken, has a label only if an
            edge of the file leaves it.
    """
    params = fields_of(spec.params)
    if spec.type == experts.OPERATOR:
        return list(experts.ports_of(params))
    classes = list_of(params.get("classes")) if spec.type == "question-classifier" else []
    if classes:
        return [str(each)[:60] for each in classes]
    if spec.type == "human-input" and ports:
        titles = [str(title)[:60] for _, title in pairs_of(params.get("actions"))]
        return [*titles, *(port.strip("_") for port in ports[len(titles) : left + 1])]
    if spec.type == "if-else":
        cases = list_of(params.get("cases"))
        return [*(_case_label(each, number) for number, each in enumerate(cases)), "else"]
    return [str(each) for each in ports]


def _case_label(case: Any, number: int) -> str:
    conditions = list_of(list_of(case)[1]) if len(list_of(case)) == 2 else []
    first = list_of(conditions[0]) if conditions else []
    if len(first) < 2:
        return f"case {number}"
    name = str(list_of(first[0])[0]) if list_of(first[0]) else ""
    value = f" {first[2]}" if len(first) > 2 and first[2] is not None else ""
    more = " …" if len(conditions) > 1 else ""
    return f"{name} {first[1]}{value}"[:40] + more
