"""Branches of a workflow, and made-up values with which a dry run takes them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product
from typing import Any, NamedTuple, cast

from operad.flows.check import Checker
from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.operators.conditions import Case, Condition, as_number
from operad.operators.node_params import readable, references_in
from operad.operators.nodes import NODE_TYPES
from operad.operators.nodes.flow import ELSE, IfElseParams, StartParams
from operad.operators.variables import Selector, Text, Variables, VariableType
from operad.runtime.values.errors import OperadError, shorten
from operad.runtime.values.message import WorkflowMessage

CHOOSING = {"question-classifier": "class_name", "human-input": "action", "if-else": ""}
"""Types with branches, each with the output that names the branch taken; if-else has none."""

SAYING = ("start", "llm", "agent", "parameter-extractor", "request", "http-request", *CHOOSING)
"""Types whose outputs a dry run makes up."""

ADDRESS = "https://example.org/page"
"""Made-up address, for conditions on texts that begin with, or contain, a part of an address."""

FILE = "a file"
"""Placeholder for a file, as a run always has one."""

LONG = "Some words on the matter. " * 400
"""Text that counts as long."""

MOST_COMBINATIONS = 5_000
"""Maximum number of combinations of values to try for a branch."""

DEEPEST = 8
"""Maximum number of nodes between a condition and the made-up value that it depends on."""


class Branch(NamedTuple):
    """Branch of a workflow: the edges that leave a node from one port.

    Attributes:
        node: Id of the node.
        port: Number of the port.
        name: Name of the port.
    """

    node: str
    port: int
    name: str

    def __str__(self) -> str:
        """Return the branch in words, for people."""
        named = "" if self.name == str(self.port) else f" ({shorten([self.name], 1)})"
        return f"port {self.port}{named} of node {self.node}"


@dataclass(frozen=True)
class MadeUpValues:
    """Made-up values that lead a run to a branch.

    Attributes:
        values: Values by node id and variable.
        named: Values by the names of fields, for JSON that a model is asked for.
        derived: Variables that other nodes compute from made-up values, and which may therefore differ in the run.
    """

    values: Mapping[tuple[str, str], Any] = field(default_factory=dict[tuple[str, str], Any])
    named: Mapping[str, Any] = field(default_factory=dict[str, Any])
    derived: Sequence[str] = ()

    def of(self, node: str) -> dict[str, Any]:
        """Return the values of a node's variables."""
        return {name: value for (each, name), value in self.values.items() if each == node}


def branches_of(graph: NodeGraph) -> list[Branch]:
    """Return the branches of a valid workflow in the order of its nodes, without branches for failures.

    Args:
        graph: The workflow.
    """
    found: list[Branch] = []
    for spec in graph.nodes:
        if spec.type in CHOOSING:
            names = NODE_TYPES[spec.type](spec.id, spec.params).ports
            used_ports = sorted({edge.port for edge in graph.edges if edge.source == spec.id})
            ports = used_ports if spec.type != "human-input" else [port for port in used_ports if port < len(names) - 1]
            found += [Branch(spec.id, port, names[port]) for port in ports if port < len(names) and len(names) > 1]
    return found


def values_for_branch(graph: NodeGraph, branch: Branch) -> MadeUpValues | str:
    """Return values with which a run takes a branch, or the reason why there are none.

    Args:
        graph: The workflow.
        branch: The branch.
    """
    path_branches = {step.node: step for step in (*_branches_to(graph, branch.node), branch)}
    chosen = {
        Selector(CHOOSING[graph.by_id[step.node].type], step.node): step.name
        for step in path_branches.values()
        if CHOOSING[graph.by_id[step.node].type]
    }
    checks = {step.node: step for step in path_branches.values() if not CHOOSING[graph.by_id[step.node].type]}
    found = _find_values(graph, checks, chosen)
    if found is None:
        condition = (
            f", with {', '.join(str(step) for step in path_branches.values() if step != branch)}"
            if len(path_branches) > 1
            else ""
        )
        return f"no made-up value of {_listed(_variables_read(graph, checks))} makes it hold{condition}"
    collector = _ValueCollector(graph)
    for selector, value in {**found, **chosen}.items():
        if reason := collector.put(selector, value):
            return reason
    return MadeUpValues(collector.values, collector.named, tuple(dict.fromkeys(collector.derived)))


def variants(graph: NodeGraph, made_up: MadeUpValues) -> Iterator[MadeUpValues]:
    """Yield the same values with other inputs, on which code may depend: large numbers, zeros, and long texts.

    Args:
        graph: The workflow.
        made_up: Values with which a run did not take the branch.
    """
    start = next(spec for spec in graph.nodes if spec.type == "start")
    inputs = StartParams.model_validate(start.params).variables
    for kind, value in ((VariableType.NUMBER, 1e6), (VariableType.NUMBER, 0), (VariableType.STRING, LONG)):
        if names := [variable.name for variable in inputs if variable.type is kind]:
            yield replace(made_up, values={**made_up.values, **{(start.id, name): value for name in names}})


def after(graph: NodeGraph, branch: Branch) -> set[str]:
    """Return the ids of the nodes that a branch leads to, and of the nodes inside them.

    Args:
        graph: The workflow.
        branch: The branch.
    """
    to_visit = [edge.target for edge in graph.edges if (edge.source, edge.port) == (branch.node, branch.port)]
    found = set[str]()
    while to_visit:
        current = to_visit.pop()
        if current not in found:
            found.add(current)
            to_visit += [edge.target for edge in graph.edges if edge.source == current]
            to_visit += [spec.id for spec in graph.nodes if spec.parent == current]
    return found


def _branches_to(graph: NodeGraph, node: str) -> Iterator[Branch]:
    """Yield the branches on a shortest path to a node, and to each container around it."""
    known = {(choice.node, choice.port): choice for choice in branches_of(graph)}
    while node in graph.by_id:
        paths: dict[str, tuple[Branch, ...]] = {node: ()}
        to_visit = [node]
        for current in to_visit:
            for edge in graph.edges:
                if edge.target == current and edge.source not in paths:
                    branch = known.get((edge.source, edge.port))
                    paths[edge.source] = (*paths[current], *([branch] if branch else ()))
                    to_visit.append(edge.source)
        targets = {edge.target for edge in graph.edges}
        yield from next((path for each, path in paths.items() if each not in targets), ())
        node = graph.by_id[node].parent


def _variables_read(graph: NodeGraph, checks: Collection[str]) -> list[Selector]:
    """Return the variables that the conditions of if-else nodes read."""
    found: list[Selector] = []
    for node in checks:
        for condition in _conditions(_cases(graph.by_id[node])):
            found.append(condition.variable)
            found += condition.value.selectors if isinstance(condition.value, Text) else []
    return list(dict.fromkeys(found))


def _cases(spec: NodeSpec) -> Sequence[Case]:
    return IfElseParams.model_validate(spec.params).cases


def _conditions(cases: Sequence[Case]) -> Iterator[Condition]:
    for case in cases:
        yield from case.conditions


def _find_values(
    graph: NodeGraph, checks: Mapping[str, Branch], chosen: Mapping[Selector, str]
) -> dict[Selector, Any] | None:
    """Return values of all variables in conditions with which a run takes the branches; None if none are found."""
    checker = Checker(graph, NODE_TYPES)
    variables = _variables_read(graph, checks)
    candidates = [_candidates(variable, graph, checks, checker, chosen) for variable in variables]
    for values in islice(product(*candidates), MOST_COMBINATIONS):
        assignment = dict(zip(variables, values, strict=True))
        if all(_port_taken(_cases(graph.by_id[node]), assignment) == branch.name for node, branch in checks.items()):
            return assignment
    return None


def _candidates(
    selector: Selector, graph: NodeGraph, checks: Collection[str], checker: Checker, chosen: Mapping[Selector, str]
) -> list[Any]:
    """Return values to try for a variable: those that conditions compare it with, values near these, and others."""
    if selector in chosen:
        return [chosen[selector]]
    spec = graph.by_id[selector.node]
    if CHOOSING.get(spec.type) == selector.variable:
        return list(NODE_TYPES[spec.type](spec.id, spec.params).ports)
    texts: list[str] = []
    for condition in _conditions([case for node in checks for case in _cases(graph.by_id[node])]):
        value: Any = condition.value
        if condition.variable == selector and value is not None:
            listed: list[Any] = cast("list[Any]", value) if isinstance(value, list) else [value]
            texts += [part for each in listed for part in (str(each), *(item.strip() for item in str(each).split(",")))]
    numbers = [number for text in texts if (number := as_number(text)) is not None]
    near_numbers = [near_number for number in numbers for near_number in (number, number + 1, number - 1)]
    known = {**checker.outputs.get(selector.node, {}), **checker.inner.get(selector.node, {})}
    match known.get(selector.variable, VariableType.ANY):
        case VariableType.NUMBER:
            found: list[Any] = [1, *near_numbers, 0]
        case VariableType.BOOLEAN:
            found = [True, False]
        case VariableType.FILE:
            found = [FILE]
        case kind if kind.item is not None:
            found = [["text"], *([each] for each in texts), []]
        case VariableType.OBJECT:
            found = [{"text": "text"}, {}]
        case _:
            address = [ADDRESS] if any(each in ADDRESS for each in texts if each) else []
            found = ["text", *address, *texts, "1", *(str(near_number) for near_number in near_numbers), ""]
    return list({repr(each): each for each in found}.values())


def _port_taken(cases: Sequence[Case], values_by_variable: Mapping[Selector, Any]) -> str:
    """Return the port that an if-else takes with some values; empty if the values cannot be compared."""
    outputs: dict[str, dict[str, Any]] = {}
    for selector, value in values_by_variable.items():
        outputs.setdefault(selector.node, {})[selector.variable] = value
    variables = Variables([WorkflowMessage(operator_id=node, outputs=each) for node, each in outputs.items()])
    try:
        return next((str(number) for number, case in enumerate(cases) if case.holds(variables)), ELSE)
    except OperadError:
        return ""


class _ValueCollector:
    """Made-up inputs and answers of models, people and the web, from which wanted values of variables follow."""

    def __init__(self, graph: NodeGraph) -> None:
        self._graph = graph
        self.values: dict[tuple[str, str], Any] = {}
        self.named: dict[str, Any] = {}
        self.derived: list[str] = []

    def put(self, selector: Selector, value: Any, depth: int = 0) -> str:
        """Add made-up values that give a variable a value; return the reason if that is impossible, else empty."""
        spec = self._graph.by_id[selector.node]
        if depth > DEEPEST:
            return f"{selector} depends on too many nodes"
        if value is FILE:
            return ""
        if spec.type in SAYING:
            if (old := self.values.get((spec.id, selector.variable), value)) != value:
                return f"{selector} would have to be {old!r} and {value!r}"
            self.values[spec.id, selector.variable] = value
            return ""
        if spec.type == "variable-aggregator":
            return "".join(self.put(source, value, depth + 1) for source in _sources(spec))
        if spec.type == "iteration" and selector.variable == "item":
            return self.put(_sources(spec)[0], [value], depth + 1)
        if spec.type not in ("code", "template-transform", "list-operator", "document-extractor"):
            return f"{selector} comes from a node of type {spec.type}, whose result is not made up"
        self.derived.append(f"{selector} ({spec.type})")
        self.named[selector.variable] = value
        for source in _sources(spec):
            if self._graph.by_id[source.node].type not in ("start", "document-extractor") or isinstance(value, str):
                self.put(source, value, depth + 1)
        return ""


def _sources(spec: NodeSpec) -> list[Selector]:
    """Return the variables that a node reads."""
    declared = NODE_TYPES[spec.type].params_type
    return [reference.selector for reference in references_in(declared, readable(declared, spec.params))]


def _listed(selectors: Sequence[Selector]) -> str:
    return ", ".join(map(str, selectors)) or "anything"
