"""The full static check of a workflow of typed nodes: all issues at once, and nothing is run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

from operad.flows.elsewhere import INSTEAD
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators.named_params import named_place
from operad.operators.node import Fault, NodeOperator, Reference, references_in
from operad.operators.node_params import readable
from operad.operators.variables import Selector, VariableType, part_type, whole
from operad.runtime.graph.graph import END
from operad.runtime.values.errors import Hints, InvalidError, Issue, shorten

T = VariableType
NodeType = type[NodeOperator[Any]]
MOST_LEVELS = 16
"""Maximum depth of nodes inside others."""

_MOST_NAMED = 50
"""Of how many variables of a node a message gives the names."""

OUTCOME = "<outcome>"
"""The id of what gathers the results, at the end of a workflow of typed nodes and of what runs inside one."""

CONVERSATION = "conversation"
"""The id and the type of the node that holds the variables of a conversation; it has no edges."""


def check(graph: NodeGraph, types: Mapping[str, NodeType]) -> list[Issue]:
    """Return all issues of a workflow of typed nodes.

        for issue in check(graph, NODE_TYPES):
            print(issue.where, issue.message)

    Args:
        graph: The workflow as it is written.
        types: The node types by name.

    Returns:
        The issues, each with the id of its node.
    """
    return Checker(graph, types).issues


class Checker:
    """One check of a graph.

    Args:
        graph: The workflow as it is written.
        types: The node types by name.

    Attributes:
        issues: What is wrong.
        nodes: The nodes whose parameters could be read, by id.
        outputs: The types of their variables, by id; those that they have for nodes inside them in `inner`.
    """

    def __init__(self, graph: NodeGraph, types: Mapping[str, NodeType]) -> None:
        self.graph = graph
        self.types = types
        self.issues: list[Issue] = []
        self._hints = Hints()
        self.nodes: dict[str, NodeOperator[Any]] = {}
        self.outputs: dict[str, Mapping[str, VariableType]] = {}
        self.inner: dict[str, Mapping[str, VariableType]] = {}
        self._place: dict[str, int] = {}
        self._before: dict[str, int] = {}  # a bit at the place of each: sets of them would grow with the square
        self._half_read: dict[str, list[Reference]] = {}
        self._by_id = graph.by_id
        self._inside: dict[str, list[NodeSpec]] = {}
        for spec in graph.nodes:
            self._inside.setdefault(spec.parent, []).append(spec)
        self._edges = [edge for edge in graph.edges if self._check_edge(edge)]
        self._read_nodes()
        self._check_ports()
        if not graph.nodes:
            self._report("no-nodes", "the workflow has no nodes")
        elif self._is_nested_well():
            self._check_level("")

    def comes_before(self, earlier: str, node_id: str) -> bool:
        """Return whether a path of any length leads from one node to another of its level."""
        return earlier in self._place and bool(self._before.get(node_id, 0) >> self._place[earlier] & 1)

    def count_before(self, node_id: str) -> int:
        """Return the number of nodes of its level that come before a node."""
        return self._before[node_id].bit_count()

    def _report(self, code: str, message: str, where: str = "") -> None:
        self.issues.append(Issue(code, message, where))

    # Nodes by themselves

    def _read_nodes(self) -> None:
        for node_id, count in Counter(spec.id for spec in self.graph.nodes).items():
            if count > 1:
                self._report("duplicate-id", f"{count} nodes have this id; give each its own", node_id)
        for spec in self.graph.nodes:
            if not self._has_an_id(spec):
                continue
            if spec.type == CONVERSATION and spec.parent:
                self._report("crosses-border", f"a node of type {CONVERSATION!r} runs inside no other", spec.id)
            node_type = self.types.get(spec.type)
            if node_type is None:
                instead = INSTEAD.get(spec.type)
                hint = f"; {instead}" if instead else self._hints.near(spec.type, self.types)
                known = "" if hint else f"; there are: {', '.join(self.types)}"
                self._report("unknown-type", f"{spec.type!r} is not a node type{hint}{known}", spec.id)
                continue
            try:
                node = node_type(spec.id, spec.params)
            except InvalidError as error:
                self.issues += error.issues
                if not node_type.body_starts_with:  # whose parameters also name what is inside
                    found = readable(node_type.params_type, spec.params)
                    self._half_read[spec.id] = list(references_in(node_type.params_type, found))
                continue
            self.nodes.setdefault(spec.id, node)
            for misshapen in (each for text in node.texts for each in text.misshapen):
                self._report(
                    "misshapen-reference", f"{misshapen} names no variable; write {{{{#id.variable#}}}}", spec.id
                )

    def _has_an_id(self, spec: NodeSpec) -> bool:
        """Report an id that no operator can have, or that is taken."""
        if spec.id in (OUTCOME, END) or (spec.id == CONVERSATION and spec.type != CONVERSATION):
            self._report("duplicate-id", "this id is taken; give it another", spec.id)
        if not spec.id or whole(spec.id) != spec.id:
            self._report(
                "misshapen-id", "the id is empty, or half of a surrogate pair; write letters or digits", spec.id
            )
            return False
        return True

    def _is_nested_well(self) -> bool:
        """Return whether the levels can be checked: no node runs inside itself, and none too deep."""
        well = True
        for spec in self.graph.nodes:
            around = [spec.id, *self._around(spec.parent)]  # of two with one id, `_by_id` has another parent
            if spec.parent and spec.parent not in self._by_id:
                hint = self._hints.near(spec.parent, self._by_id)
                self._report("undefined-node", f"belongs inside {spec.parent!r}, which is not there{hint}", spec.id)
            elif spec.id in around[1:]:
                self._report("cycle", f"runs inside itself: {shorten(around[: around.index(spec.id, 1) + 1])}", spec.id)
                well = False
            elif len(around) == MOST_LEVELS + 2:
                self._report("too-deep", f"runs inside more than {MOST_LEVELS} nodes", spec.id)
                well = False
        return well

    # Edges

    def _check_edge(self, edge: Edge) -> bool:
        where = f"{edge.source} → {edge.target}"
        missing = [end for end in (edge.source, edge.target) if end not in self._by_id]
        for end in missing:
            self._report("dangling-edge", f"there is no node {end!r}{self._hints.near(end, self._by_id)}", where)
        if missing:
            return False
        source, target = self._by_id[edge.source], self._by_id[edge.target]
        if CONVERSATION in (source.type, target.type):
            self._report("crosses-border", f"a node of type {CONVERSATION!r} has no edges; leave this one out", where)
            return False
        if target.parent == source.id:
            self._report(
                "edge-to-own-start",
                f"what runs inside {source.id!r} begins by itself; leave this edge out",
                where,
            )
        elif source.parent != target.parent:
            inner = source if source.parent else target
            self._report(
                "crosses-border",
                f"{inner.id!r} runs inside {inner.parent!r}; edges from outside end, and edges to outside begin, "
                f"at {inner.parent!r} itself",
                where,
            )
        else:
            return True
        return False

    def _check_ports(self) -> None:
        for edge in self._edges:
            node = self.nodes.get(edge.source)
            if node is None:
                continue
            count = len(node.ports) or 1
            if not 0 <= edge.port < count:
                ports = f"0 to {count - 1}: {shorten(list(node.ports))}" if node.ports else "only port 0"
                self._report(
                    "port-out-of-range",
                    f"{edge.source!r} ({node.type}) has no port {edge.port}; it has {ports}",
                    f"{edge.source} → {edge.target}",
                )

    # Levels: the workflow, and what runs inside a node

    def _check_level(self, parent: str) -> None:
        specs = self._inside.get(parent, [])
        edges = [edge for edge in self._edges if self._by_id[edge.source].parent == parent]
        starts = self._starts(parent, specs)
        followers: dict[str, list[str]] = {spec.id: [] for spec in specs}
        parents: dict[str, list[str]] = {spec.id: [] for spec in specs}
        for edge in edges:
            followers[edge.source].append(edge.target)
            parents[edge.target].append(edge.source)
        self._check_reachable(specs, starts, followers, parents)
        try:
            order = list(TopologicalSorter(parents).static_order())
        except CycleError as error:
            cycle = " → ".join(error.args[1])
            self._report("cycle", f"each of these leads to the next: {cycle}", error.args[1][0])
            order = [spec.id for spec in specs]
        talks = any(spec.id == spec.type == CONVERSATION for spec in specs)
        for node_id in order:
            self._place[node_id] = len(self._place)
        for node_id in order:
            heard = not parent and node_id != CONVERSATION and talks
            before = 1 << self._place[CONVERSATION] if heard else 0
            for earlier in parents[node_id]:
                before |= 1 << self._place[earlier] | self._before.get(earlier, 0)
            self._before[node_id] = before
        for node_id in order:
            self._check_node(node_id)

    def _starts(self, parent: str, specs: Sequence[NodeSpec]) -> list[str]:
        holder = self.types.get(self._by_id[parent].type) if parent else None
        wanted = holder.body_starts_with if holder else "" if parent else "start"
        starts = [spec.id for spec in specs if spec.type == wanted]
        if parent and not wanted:
            pass  # of a type that is not known, or that nothing can run inside of
        elif not starts:
            what = (
                f"what runs inside it begins with one of type {wanted!r}, and there is none"
                if parent
                else ("there is no node of type 'start'")
            )
            self._report("no-start", what, parent)
        elif len(starts) > 1:
            self._report("several-starts", f"there can be one of type {wanted!r}, not {shorten(starts)}", parent)
        if not parent and not any(self.nodes[spec.id].ends for spec in specs if spec.id in self.nodes):
            unread = any(spec.type in self.types and self.types[spec.type].ends for spec in specs)
            if not unread:
                self._report("no-end", "there is no node of type 'end', and so no result")
        return starts

    def _check_reachable(
        self,
        specs: Sequence[NodeSpec],
        starts: Sequence[str],
        followers: Mapping[str, Sequence[str]],
        parents: Mapping[str, Sequence[str]],
    ) -> None:
        reached, open_ = set(starts), list(starts)
        while open_:
            for following in followers[open_.pop()]:
                if following not in reached:
                    reached.add(following)
                    open_.append(following)
        for spec in specs:
            if not starts or spec.id in reached or spec.type == CONVERSATION:
                continue
            if not (followers[spec.id] or parents[spec.id]):
                self._report("isolated", "no edge leads to it or from it", spec.id)
            else:
                self._report("unreachable", f"no way leads to it from {starts[0]!r}", spec.id)

    def _check_node(self, node_id: str) -> None:
        node = self.nodes.get(node_id)
        inside = self._inside.get(node_id, [])
        for reference in node.references if node else self._half_read.get(node_id, ()):
            self._check_reference(node_id, reference)
        if node is None:
            if inside:
                self._check_level(node_id)
            return
        self._check_place(node)
        type_of = self._type_of
        self.issues += node.issues(type_of)
        if node.body_starts_with:
            self.inner[node_id] = node.inside(type_of)
            self._check_level(node_id)
            for where, selector in node.results:
                self._check_result(node_id, where, selector)
        elif inside:
            names = shorten([spec.id for spec in inside])
            self._report("crosses-border", f"nothing can run inside a node of type {node.type!r}: {names}", node_id)
        self.outputs[node_id] = node.variables(type_of)

    def _check_place(self, node: NodeOperator[Any]) -> None:
        """Report outputs and assignments that have no effect where the node stands."""
        node_id = node.get_id()
        level = self._by_id[node_id].parent
        if level and node.ends and not node.answers:
            what = f"names results of the workflow, which would be lost inside {level!r}; put it after {level!r}"
            self._report("crosses-border", what, node_id)
        for target in node.assigns:
            if target.node in self._by_id and target.node not in (level, CONVERSATION):
                there = f"{level!r}, which it runs inside of, and of the conversation" if level else "the conversation"
                self._report("crosses-border", f"{_named(target)}: here only variables of {there} can be set", node_id)

    # References

    def _check_reference(self, node_id: str, reference: Reference) -> None:
        selector, where = reference.selector, self._param(node_id, reference.where)
        if selector.node not in self._by_id:
            hint = self._hints.near(selector.node, self._by_id)
            self._report(
                "undefined-node",
                f"{where}: {_named(selector)}: there is no node {selector.node!r}{hint}",
                node_id,
            )
            return
        around = list(self._around(node_id))
        if selector.node in around[1:]:
            outputs: Mapping[str, VariableType] | None = self.inner.get(selector.node)
        else:
            level = self._by_id[selector.node].parent
            here = next((inner for inner in around if self._by_id[inner].parent == level), None)
            if here is None:
                self._report(
                    "crosses-border",
                    f"{where}: {_named(selector)}: {selector.node!r} runs inside {level!r}, and only what "
                    f"{level!r} gives can be read outside",
                    node_id,
                )
                return
            if not self.comes_before(selector.node, here):
                what = "itself" if selector.node == node_id else f"{selector.node!r}, which does not come before it"
                self._report("not-before", f"{where}: {_named(selector)}: reads {what}", node_id)
                return
            outputs = self.outputs.get(selector.node)
        if outputs is not None:
            self._check_variable(node_id, reference, outputs)

    def _param(self, node_id: str, where: str) -> str:
        """The path of a parameter, with names."""
        return named_place(self.types[self._by_id[node_id].type].params_type, where)

    def _check_variable(self, node_id: str, reference: Reference, outputs: Mapping[str, VariableType]) -> None:
        who = f"node {reference.selector.node!r} ({self._by_id[reference.selector.node].type})"
        if fault := misread(reference, outputs, who, self._hints):
            self._report(fault.code, f"{self._param(node_id, fault.where)}: {fault.what}", node_id)

    def _check_result(self, node_id: str, where: str, selector: Selector) -> None:
        spec = self._by_id.get(selector.node)
        if spec is None:
            hint = self._hints.near(selector.node, self._by_id)
            self._report("undefined-node", f"{where}: there is no node {selector.node!r}{hint}", node_id)
        elif spec.parent != node_id:
            self._report("outside-body", f"{where}: {selector.node!r} does not run inside {node_id!r}", node_id)
        elif (outputs := self.outputs.get(selector.node)) is not None:
            self._check_variable(node_id, Reference(where, selector, tuple(VariableType)), outputs)

    def _around(self, node_id: str) -> Iterator[str]:
        """A node, and those that it runs inside of, outwards."""
        seen: set[str] = set()
        while node_id in self._by_id and node_id not in seen:
            seen.add(node_id)
            yield node_id
            node_id = self._by_id[node_id].parent

    def _type_of(self, selector: Selector) -> VariableType:
        for known in (self.outputs, self.inner):
            kind = lookup(known.get(selector.node, {}), selector.variable)
            if kind is not None:
                return kind
        return T.ANY


def misread(reference: Reference, outputs: Mapping[str, VariableType], who: str, hints: Hints) -> Fault | None:
    """Return the fault of reading one of these outputs of a node; None if it can be read."""
    name = reference.selector.variable
    kind = lookup(outputs, name)
    if kind is None:
        known = list(outputs)
        has = f"it has: {shorten(known, _MOST_NAMED)}" if known else "it has none"
        what = f"{who} has no variable {name!r}{hints.near(name, known)}; {has}"
        return Fault(reference.where, f"{_named(reference.selector)}: {what}", "undefined-variable")
    if not any(kind.may_be(wanted) for wanted in reference.accepts):
        wanted = ", ".join(each.value for each in reference.accepts)
        what = f"is {kind.value}, and what is needed is {wanted}"
        return Fault(reference.where, f"{_named(reference.selector)} {what}", "wrong-type")
    return None


def lookup(outputs: Mapping[str, VariableType], variable: str) -> VariableType | None:
    """The type of a variable, or of a part of one; None where there is no such thing."""
    if variable in outputs:
        return outputs[variable]
    name, _, path = variable.partition(".")
    return part_type(outputs[name], path) if name in outputs and path else None


def _named(selector: Selector) -> str:
    return f"{selector.variable!r} of {selector.node!r}"


def refuse(subject: str, issues: Iterable[Issue]) -> None:
    """Raise what was found, if anything was.

    Raises:
        InvalidError: There are issues.
    """
    if found := list(issues):
        raise InvalidError(subject, found)
