"""Branches of a workflow, and made-up values by which a dry run takes them."""

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
"""Types with branches, each with the variable that says which one was taken."""

SAYING = ("start", "llm", "agent", "parameter-extractor", "request", "http-request", *CHOOSING)
"""Types whose variables a dry run makes up."""

ADDRESS = "https://example.org/page"
"""Address that is made up: it stands for texts that begin with, or contain, a part of it."""

FILE = "a file"
"""Stands for a file, of which one is always given."""

LONG = "Some words on the matter. " * 400
"""Text that counts as long."""

MOST_COMBINATIONS = 5_000
"""Combinations of values that are looked at for a branch."""

DEEPEST = 8
"""Nodes between a condition and the made-up value that it depends on."""


class Branch(NamedTuple):
    """A branch: edges that leave a node from one port.

    Attributes:
        node: The id of the node.
        port: The number of the port.
        name: The name of the port.
    """

    node: str
    port: int
    name: str

    def __str__(self) -> str:
        """Return the branch as people are told of it."""
        named = "" if self.name == str(self.port) else f" ({shorten([self.name], 1)})"
        return f"port {self.port}{named} of node {self.node}"


@dataclass(frozen=True)
class Steering:
    """Made-up values that a run takes in the place of others.

    Attributes:
        values: Values by node and variable.
        named: Values of fields of these names, in JSON that a model is asked for.
        derived: Variables that depend on made-up values by way of other nodes, so that they may come to something else.
    """

    values: Mapping[tuple[str, str], Any] = field(default_factory=dict[tuple[str, str], Any])
    named: Mapping[str, Any] = field(default_factory=dict[str, Any])
    derived: Sequence[str] = ()

    def of(self, node: str) -> dict[str, Any]:
        """Return the values of a node's variables."""
        return {name: value for (each, name), value in self.values.items() if each == node}


def branches_of(graph: NodeGraph) -> list[Branch]:
    """Return the branches of a valid workflow, in the order of its nodes; those of failures are not among them.

    Args:
        graph: The workflow.
    """
    found: list[Branch] = []
    for spec in graph.nodes:
        if spec.type in CHOOSING:
            names = NODE_TYPES[spec.type](spec.id, spec.params).ports
            led_on = sorted({edge.port for edge in graph.edges if edge.source == spec.id})
            wanted = led_on if spec.type != "human-input" else [each for each in led_on if each < len(names) - 1]
            found += [Branch(spec.id, each, names[each]) for each in wanted if each < len(names) and len(names) > 1]
    return found


def steering(graph: NodeGraph, branch: Branch) -> Steering | str:
    """Return values by which a run takes a branch; or why there are none.

    Args:
        graph: The workflow.
        branch: The branch.
    """
    way = {each.node: each for each in (*_way(graph, branch.node), branch)}
    chosen = {
        Selector(CHOOSING[graph.by_id[each.node].type], each.node): each.name
        for each in way.values()
        if CHOOSING[graph.by_id[each.node].type]
    }
    checks = {each.node: each for each in way.values() if not CHOOSING[graph.by_id[each.node].type]}
    found = _values(graph, checks, chosen)
    if found is None:
        told = f", with {', '.join(str(each) for each in way.values() if each != branch)}" if len(way) > 1 else ""
        return f"no made-up value of {_listed(_read(graph, checks))} makes it hold{told}"
    lowered = _Lowered(graph)
    for selector, value in {**found, **chosen}.items():
        if why := lowered.put(selector, value):
            return why
    return Steering(lowered.values, lowered.named, tuple(dict.fromkeys(lowered.derived)))


def variants(graph: NodeGraph, steered: Steering) -> Iterator[Steering]:
    """Yield the same values with other inputs: large numbers, zeros, and long texts, which code may go by.

    Args:
        graph: The workflow.
        steered: The values by which a run did not take a branch.
    """
    start = next(spec for spec in graph.nodes if spec.type == "start")
    inputs = StartParams.model_validate(start.params).variables
    for kind, value in ((VariableType.NUMBER, 1e6), (VariableType.NUMBER, 0), (VariableType.STRING, LONG)):
        if names := [each.name for each in inputs if each.type is kind]:
            yield replace(steered, values={**steered.values, **{(start.id, name): value for name in names}})


def after(graph: NodeGraph, branch: Branch) -> set[str]:
    """Return the nodes that a branch leads to, with those inside them.

    Args:
        graph: The workflow.
        branch: The branch.
    """
    open_ = [edge.target for edge in graph.edges if (edge.source, edge.port) == (branch.node, branch.port)]
    found = set[str]()
    while open_:
        here = open_.pop()
        if here not in found:
            found.add(here)
            open_ += [edge.target for edge in graph.edges if edge.source == here]
            open_ += [spec.id for spec in graph.nodes if spec.parent == here]
    return found


def _way(graph: NodeGraph, node: str) -> Iterator[Branch]:
    """The branches on a shortest way to a node, and to the nodes around it."""
    known = {(each.node, each.port): each for each in branches_of(graph)}
    while node in graph.by_id:
        ways: dict[str, tuple[Branch, ...]] = {node: ()}
        open_ = [node]
        for here in open_:
            for edge in graph.edges:
                if edge.target == here and edge.source not in ways:
                    step = known.get((edge.source, edge.port))
                    ways[edge.source] = (*ways[here], *([step] if step else ()))
                    open_.append(edge.source)
        led_to = {edge.target for edge in graph.edges}
        yield from next((way for each, way in ways.items() if each not in led_to), ())
        node = graph.by_id[node].parent


def _read(graph: NodeGraph, checks: Collection[str]) -> list[Selector]:
    """The variables that conditions read."""
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


def _values(
    graph: NodeGraph, checks: Mapping[str, Branch], chosen: Mapping[Selector, str]
) -> dict[Selector, Any] | None:
    """Values of all variables that conditions read, with which the branches are taken; None where there are none."""
    kinds = Checker(graph, NODE_TYPES)
    read = _read(graph, checks)
    offered = [_candidates(each, graph, checks, kinds, chosen) for each in read]
    for values in islice(product(*offered), MOST_COMBINATIONS):
        said = dict(zip(read, values, strict=True))
        if all(_port(_cases(graph.by_id[node]), said) == branch.name for node, branch in checks.items()):
            return said
    return None


def _candidates(
    selector: Selector, graph: NodeGraph, checks: Collection[str], kinds: Checker, chosen: Mapping[Selector, str]
) -> list[Any]:
    """Values that a variable may have: those that conditions compare it with, and others."""
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
            texts += [part for each in listed for part in (str(each), *(one.strip() for one in str(each).split(",")))]
    numbers = [number for text in texts if (number := as_number(text)) is not None]
    near = [each for number in numbers for each in (number, number + 1, number - 1)]
    known = {**kinds.outputs.get(selector.node, {}), **kinds.inner.get(selector.node, {})}
    match known.get(selector.variable, VariableType.ANY):
        case VariableType.NUMBER:
            found: list[Any] = [1, *near, 0]
        case VariableType.BOOLEAN:
            found = [True, False]
        case VariableType.FILE:
            found = [FILE]
        case kind if kind.item is not None:
            found = [["text"], *([each] for each in texts), []]
        case VariableType.OBJECT:
            found = [{"text": "text"}, {}]
        case _:
            whole = [ADDRESS] if any(each in ADDRESS for each in texts if each) else []
            found = ["text", *whole, *texts, "1", *(str(each) for each in near), ""]
    return list({repr(each): each for each in found}.values())


def _port(cases: Sequence[Case], said: Mapping[Selector, Any]) -> str:
    """The port that conditions take with some values; empty where they cannot be compared."""
    outputs: dict[str, dict[str, Any]] = {}
    for selector, value in said.items():
        outputs.setdefault(selector.node, {})[selector.variable] = value
    variables = Variables([WorkflowMessage(operator_id=node, outputs=each) for node, each in outputs.items()])
    try:
        return next((str(number) for number, case in enumerate(cases) if case.holds(variables)), ELSE)
    except OperadError:
        return ""


class _Lowered:
    """Values of variables, put where a run makes them up: at inputs, and in answers of models, people and the web."""

    def __init__(self, graph: NodeGraph) -> None:
        self._graph = graph
        self.values: dict[tuple[str, str], Any] = {}
        self.named: dict[str, Any] = {}
        self.derived: list[str] = []

    def put(self, selector: Selector, value: Any, depth: int = 0) -> str:
        """Have a variable come to a value; return why it cannot, or nothing."""
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
            return "".join(self.put(each, value, depth + 1) for each in _sources(spec))
        if spec.type == "iteration" and selector.variable == "item":
            return self.put(_sources(spec)[0], [value], depth + 1)
        if spec.type not in ("code", "template-transform", "list-operator", "document-extractor"):
            return f"{selector} comes from a node of type {spec.type}, whose result is not made up"
        self.derived.append(f"{selector} ({spec.type})")
        self.named[selector.variable] = value
        for each in _sources(spec):
            if self._graph.by_id[each.node].type not in ("start", "document-extractor") or isinstance(value, str):
                self.put(each, value, depth + 1)
        return ""


def _sources(spec: NodeSpec) -> list[Selector]:
    """The variables that a node reads."""
    declared = NODE_TYPES[spec.type].params_type
    return [each.selector for each in references_in(declared, readable(declared, spec.params))]


def _listed(selectors: Sequence[Selector]) -> str:
    return ", ".join(map(str, selectors)) or "anything"
