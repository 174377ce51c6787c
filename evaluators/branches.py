"""Branches of a workflow, and made-up values with which a dry run takes them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product
from typing import Any, NamedTuple, cast

from json_repair import loads

from operad.flows.check import Checker
from operad.flows.edit.operation import variables_read
from operad.flows.formats.shapes import fields_of
from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.operators.conditions import Case, Condition, as_number
from operad.operators.nodes import NODE_TYPES
from operad.operators.nodes.flow import ELSE, IfElseParams, StartParams
from operad.operators.variables import Selector, Text, Variables, VariableType, as_text, fits
from operad.runtime.values.errors import OperadError, shorten
from operad.runtime.values.message import WorkflowMessage
from operad.runtime.values.text import cut

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
    """Branch of a workflow: the edges that leave a node from one port."""

    node: str
    port: int
    name: str

    @property
    def key(self) -> tuple[str, str]:
        """The port in the messages of the node, as (node id, name of the port)."""
        return self.node, self.name

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
        is_derived: True if other nodes compute wanted values from made-up ones, so that they may differ in the run.
    """

    values: Mapping[tuple[str, str], Any] = field(default_factory=dict[tuple[str, str], Any])
    named: Mapping[str, Any] = field(default_factory=dict[str, Any])
    is_derived: bool = False

    def of(self, node: str) -> dict[str, Any]:
        """Return the values of a node's variables."""
        return {name: value for (each, name), value in self.values.items() if each == node}


@dataclass
class Reached:
    """A run, as far as branches depend on it.

    Attributes:
        ports: Ports that it took, as (node id, name of the port).
        values: Values of variables; of nodes that ran repeatedly, the last ones.
    """

    made_up: MadeUpValues = field(default_factory=MadeUpValues)
    ports: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    values: dict[Selector, Any] = field(default_factory=dict[Selector, Any])


def branches_of(graph: NodeGraph) -> list[Branch]:
    """Return the branches of a valid workflow in the order of its nodes, also those that lead to no node.

    Branches for failures and timeouts are left out.
    """
    found: list[Branch] = []
    for spec in graph.nodes:
        if spec.type in CHOOSING:
            names = NODE_TYPES[spec.type](spec.id, spec.params).ports
            count = len(names) - (spec.type == "human-input") if len(names) > 1 else 0
            found += [Branch(spec.id, port, name) for port, name in enumerate(names[:count])]
    return found


def values_for_branch(graph: NodeGraph, branch: Branch, reached: Reached) -> list[MadeUpValues] | str:
    """Return values with which runs may take a branch, the likeliest first, or the reason why there are none.

    Only the conditions of the branch need other values than a run had that reached its node. If these share variables
    with the branches before them, the values fit both. The last values returned are made up for these branches, too.

    Args:
        reached: A run that reached the node of the branch.
    """
    path = {step.node: step for step in (*_branches_to(graph, branch.node, reached.ports), branch)}
    checks = {node: step for node, step in path.items() if not CHOOSING[graph.by_id[node].type]}
    chosen = {_choice(graph, node): step.name for node, step in path.items() if node not in checks}
    own = set(_variables_read(graph, checks.keys() & {branch.node}))
    own_choice = {_choice(graph, branch.node): branch.name} if branch.node not in checks else {}
    found: list[MadeUpValues] = []
    reasons: list[str] = []
    for seen, choices in ((reached.values, own_choice), ({}, chosen)):
        values = _find_values(graph, checks, chosen, seen, own)
        if values is None:
            continue
        collector = _ValueCollector(graph, reached)
        wanted = {
            selector: value for selector, value in values.items() if selector not in seen or seen[selector] != value
        }
        puts = sorted({**wanted, **choices}.items(), key=lambda each: graph.by_id[each[0].node].type not in SAYING)
        if reason := next(filter(None, (collector.put(*each) for each in puts)), ""):
            reasons.append(reason)
        elif (made_up := collector.made_up()) not in found:
            found.append(made_up)
    before = [str(step) for step in path.values() if step != branch]
    condition = f", with {', '.join(before)}" if before else ""
    none = f"no made-up value of {_listed(_variables_read(graph, checks))} makes it hold{condition}"
    return found or next(iter(reasons), none)


def decided_by(graph: NodeGraph, branch: Branch, runs: Sequence[Reached], asked: Mapping[str, Collection[str]]) -> str:
    """Return the values that the conditions of a node had in runs that did not take a branch; empty if it has none.

    Args:
        asked: Nodes that read samples of answers, each with the nodes that these came through.
    """
    if CHOOSING[graph.by_id[branch.node].type]:
        return ""
    told: list[str] = []
    for selector in _variables_read(graph, [branch.node]):
        values: dict[str, None] = {}
        for run in runs:
            if selector in run.values:
                sampled = sorted({*asked.get(selector.node, ()), selector.node} & graph.samples.keys())
                kept = [node for node in sampled if not run.made_up.of(node)]
                of_sample = f" with the sample for node {', '.join(kept)}" if kept else ""
                values[f"{cut(repr(run.values[selector]), 60)}{of_sample}"] = None
        if values:
            told.append(f"{selector} ({graph.by_id[selector.node].type}) was {', then '.join([*values][:3])}")
    return f"no run took it: {'; '.join(told)}" if told else ""


def why_not_reached(graph: NodeGraph, node: str, taken: Collection[tuple[str, str]]) -> str:
    """Return the reason why no run reached a node: ports before it that none took."""
    known = {(choice.node, choice.port): choice for choice in branches_of(graph)}
    closed: list[str] = []
    to_visit = [node]
    for current in to_visit:
        edges = [edge for edge in graph.edges if edge.target == current]
        for edge in edges:
            branch = known.get((edge.source, edge.port))
            if branch and branch.key in taken:
                return "no run reached the node"
            if branch or edge.port:
                closed.append(str(branch) if branch else f"port {edge.port} of node {edge.source}, for failures")
            elif edge.source not in to_visit:
                to_visit.append(edge.source)
        if not edges and (parent := graph.by_id[current].parent) in graph.by_id:
            to_visit.append(parent)
    ports = " or ".join(dict.fromkeys(closed))
    return f"no run reached the node{f', as none took {ports}' if ports else ''}"


def variants(graph: NodeGraph, made_up: MadeUpValues) -> Iterator[MadeUpValues]:
    """Yield the same values with other inputs, on which code may depend: large numbers, zeros, and long texts.

    Args:
        made_up: Values with which a run did not take the branch.
    """
    start = next(spec for spec in graph.nodes if spec.type == "start")
    inputs = StartParams.model_validate(start.params).variables
    for kind, value in ((VariableType.NUMBER, 1e6), (VariableType.NUMBER, 0), (VariableType.STRING, LONG)):
        if names := [variable.name for variable in inputs if variable.type is kind]:
            yield replace(made_up, values={**made_up.values, **{(start.id, name): value for name in names}})


def after(graph: NodeGraph, branch: Branch) -> set[str]:
    """Return the ids of the nodes that a branch leads to, and of the nodes inside them."""
    to_visit = [edge.target for edge in graph.edges if (edge.source, edge.port) == (branch.node, branch.port)]
    found = set[str]()
    while to_visit:
        current = to_visit.pop()
        if current not in found:
            found.add(current)
            to_visit += [edge.target for edge in graph.edges if edge.source == current]
            to_visit += [spec.id for spec in graph.nodes if spec.parent == current]
    return found


def _choice(graph: NodeGraph, node: str) -> Selector:
    """Return the output of a node that names the branch taken."""
    return Selector(CHOOSING[graph.by_id[node].type], node)


def _branches_to(graph: NodeGraph, node: str, taken: Collection[tuple[str, str]]) -> Iterator[Branch]:
    """Yield the branches on a shortest path of taken ports to a node, and to each container around it."""
    known = {(choice.node, choice.port): choice for choice in branches_of(graph)}
    while node in graph.by_id:
        paths: dict[str, tuple[Branch, ...]] = {node: ()}
        to_visit = [node]
        for current in to_visit:
            for edge in graph.edges:
                branch = known.get((edge.source, edge.port))
                is_open = branch.key in taken if branch else not edge.port
                if edge.target == current and edge.source not in paths and is_open:
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
    graph: NodeGraph,
    checks: Mapping[str, Branch],
    chosen: Mapping[Selector, str],
    seen: Mapping[Selector, Any],
    free: Collection[Selector],
) -> dict[Selector, Any] | None:
    """Return values of all variables in conditions with which a run takes the branches; None if none are found.

    Values seen in a run are tried first; of variables that are not free, no others.
    """
    checker = Checker(graph, NODE_TYPES)
    variables = _variables_read(graph, checks)
    candidates: list[list[Any]] = []
    for variable in variables:
        first = [seen[variable]] if variable in seen else []
        others = _candidates(variable, graph, checks, checker, chosen) if variable in free or not first else []
        candidates.append([*first, *others])
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
    match _kind(checker, selector):
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


def _kind(checker: Checker, selector: Selector) -> VariableType:
    """Return the type of a variable."""
    known = {**checker.outputs.get(selector.node, {}), **checker.inner.get(selector.node, {})}
    return known.get(selector.variable, VariableType.ANY)


def _as_kind(value: Any, kind: VariableType) -> Any:
    """Return a value as one of a type, an empty value as the empty one of the type; None if that is impossible."""
    if fits(value, kind):
        return value
    empty: Any = {VariableType.STRING: "", VariableType.NUMBER: 0, VariableType.BOOLEAN: False}.get(kind)
    if not value:
        return [] if kind.item is not None else empty
    return as_text(value) if kind is VariableType.STRING else as_number(value) if kind is VariableType.NUMBER else None


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

    def __init__(self, graph: NodeGraph, reached: Reached) -> None:
        self._graph = graph
        self._checker = Checker(graph, NODE_TYPES)
        self._reached = reached
        self._replaced: list[tuple[Any, Any]] = []
        self._values: dict[tuple[str, str], Any] = {}
        self._named: dict[str, Any] = {}
        self._is_derived = False

    def made_up(self) -> MadeUpValues:
        """Return the values added, and those made up before for other variables."""
        before = self._reached.made_up
        return MadeUpValues({**before.values, **self._values}, {**before.named, **self._named}, self._is_derived)

    def put(self, selector: Selector, value: Any, depth: int = 0) -> str:
        """Add made-up values that give a variable a value; return the reason if that is impossible, else empty."""
        spec = self._graph.by_id[selector.node]
        if depth > DEEPEST:
            return f"{selector} depends on too many nodes"
        if value is FILE:
            return ""
        if spec.type in SAYING:
            return self._say(selector, value, depth > 0)
        if spec.type == "variable-aggregator":
            return "".join(self.put(source, value, depth + 1) for source in variables_read(spec, NODE_TYPES))
        if spec.type == "iteration" and selector.variable == "item":
            return self.put(variables_read(spec, NODE_TYPES)[0], [value], depth + 1)
        if spec.type not in ("code", "template-transform", "list-operator", "document-extractor"):
            return f"{selector} comes from a node of type {spec.type}, whose result is not made up"
        self._is_derived = True
        self._named[selector.variable] = value
        self._replaced.append((self._reached.values.get(selector), value))
        for source in variables_read(spec, NODE_TYPES):
            fitting = _as_kind(value, _kind(self._checker, source))
            said = self._graph.by_id[source.node].type not in ("start", "document-extractor") or isinstance(value, str)
            if said and fitting is not None:
                self.put(source, fitting, depth + 1)
        return ""

    def _say(self, selector: Selector, value: Any, is_derived: bool) -> str:
        """Add a made-up value itself; return the reason if there is another already, else empty."""
        key = selector.node, selector.variable
        if is_derived and selector.node in self._graph.samples:
            value = self._sample(selector, value)
        elif (old := self._values.get(key, value)) != value:
            return f"{selector} would have to be {old!r} and {value!r}"
        self._values[key] = value
        return ""

    def _sample(self, selector: Selector, value: Any) -> Any:
        """Return the sample of an answer with other values in the fields that wanted values come from.

        These are fields with the name, or the value, of a variable that another node computes. Without such fields, the
        result is the wanted value.
        """
        sample = self._graph.samples[selector.node]
        sample = fields_of(sample).get(selector.variable, sample)
        sample = self._values.get(
            (selector.node, selector.variable), loads(sample) if isinstance(sample, str) else sample
        )
        changed = self._with_wanted(sample)
        return value if changed == sample else changed

    def _with_wanted(self, value: Any, name: str = "") -> Any:
        """Return a part of a sample with wanted values."""
        if name in self._named:
            return self._named[name]
        if isinstance(value, dict):
            return {key: self._with_wanted(each, key) for key, each in cast("dict[str, Any]", value).items()}
        if isinstance(value, list):
            return [self._with_wanted(each) for each in cast("list[Any]", value)]
        is_telling = isinstance(value, str | int | float) and not isinstance(value, bool) and value != ""
        return next((new for old, new in self._replaced if is_telling and old == value), value)


def _listed(selectors: Sequence[Selector]) -> str:
    return ", ".join(map(str, selectors)) or "anything"
