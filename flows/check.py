"""Static check of a workflow of typed nodes; all issues are reported at once, and nothing is run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.flows.secrets import written_keys
from operad.operators.integration import integrations
from operad.operators.named_params import named_place
from operad.operators.node import Fault, NodeOperator, Reference, references_in
from operad.operators.node_params import readable
from operad.operators.services import Services
from operad.operators.variables import (
    FILE_PARTS,
    WITHOUT_FILES,
    Selector,
    VariableType,
    no_file_part,
    part_type,
    whole,
)
from operad.runtime.graph.graph import END
from operad.runtime.graph.schedule import reachable
from operad.runtime.values.errors import InvalidError, Issue, shorten
from operad.runtime.values.near_names import Hints

T = VariableType
NodeType = type[NodeOperator[Any]]
MOST_LEVELS = 16
"""Maximum depth of nodes inside other nodes."""

_MAX_LISTED = 50
"""Maximum number of variables that an error message lists."""

OUTCOME = "<outcome>"
"""Id of the operator that gathers the results of a workflow of typed nodes, or of the nodes inside a container."""

FILE_PART = "file-part"
"""Code of the issue that code or a template reads a part that files do not have."""

CONVERSATION = "conversation"
"""Id and type of the node that holds the variables of a conversation; it has no edges."""


def check(graph: NodeGraph, types: Mapping[str, NodeType], services: Services | None = None) -> list[Issue]:
    """Return all issues of a workflow of typed nodes.

        for issue in check(graph, NODE_TYPES):
            print(issue.where, issue.message)

    Args:
        graph: The workflow; it need not be valid.
        types: The node types by name.
        services: The services of the nodes, which may allow more, such as packages of code.

    Returns:
        The issues, each with the id of its node.
    """
    return Checker(graph, types, services).issues


class Checker:
    """Static check of one workflow; the constructor runs it.

    A level is the workflow itself, or the nodes inside one container, such as an iteration.

    Args:
        graph: The workflow; it need not be valid.
        types: The node types by name.
        services: The services of the nodes, which may allow more, such as packages of code.

    Attributes:
        issues: The issues found.
        nodes: The nodes with valid parameters, by id.
        outputs: The variables that each node gives to the nodes after it, with their types, by node id.
        inner: The variables that each container gives to the nodes inside it, with their types, by node id.
    """

    def __init__(self, graph: NodeGraph, types: Mapping[str, NodeType], services: Services | None = None) -> None:
        self.graph = graph
        self.types = types
        self._services = services
        self.issues: list[Issue] = []
        self._hints = Hints()
        self.nodes: dict[str, NodeOperator[Any]] = {}
        self.outputs: dict[str, Mapping[str, VariableType]] = {}
        self.inner: dict[str, Mapping[str, VariableType]] = {}
        self._positions: dict[str, int] = {}
        self._predecessors: dict[str, int] = {}  # bit masks over `_positions`: sets would take quadratic memory
        self._partial_references: dict[str, list[Reference]] = {}  # of nodes with invalid parameters
        self._by_id = graph.by_id
        self._children: dict[str, list[NodeSpec]] = {}
        for spec in graph.nodes:
            self._children.setdefault(spec.parent, []).append(spec)
        self._edges = [edge for edge in graph.edges if self._check_edge(edge)]
        self._read_nodes()
        self._check_ports()
        if not graph.nodes:
            self._report("no-nodes", "the workflow has no nodes")
        elif self._check_nesting():
            self._check_level("")
        self.issues += [Issue(each.code, f"{each.where}: {each.what}", key) for key, each in written_keys(self.nodes)]

    def comes_before(self, earlier: str, node_id: str) -> bool:
        """Return True if a path of edges leads from the node `earlier` to the node `node_id`, on one level."""
        return earlier in self._positions and bool(self._predecessors.get(node_id, 0) >> self._positions[earlier] & 1)

    def count_before(self, node_id: str) -> int:
        """Return the number of nodes of the same level from which a path leads to a node."""
        return self._predecessors[node_id].bit_count()

    def _report(self, code: str, message: str, where: str = "") -> None:
        self.issues.append(Issue(code, message, where))

    # Single nodes

    def _read_nodes(self) -> None:
        """Read the parameters of all nodes; report unknown types and invalid parameters."""
        for node_id, count in Counter(spec.id for spec in self.graph.nodes).items():
            if count > 1:
                self._report("duplicate-id", f"{count} nodes have this id; each needs its own id", node_id)
        for spec in self.graph.nodes:
            if not self._check_id(spec):
                continue
            if spec.type == CONVERSATION and spec.parent:
                self._report("crosses-border", f"a node of type {CONVERSATION!r} runs inside no other", spec.id)
            node_type = self.types.get(spec.type)
            if node_type is None:
                instead = next((each.advice[spec.type] for each in integrations() if spec.type in each.advice), None)
                hint = f"; {instead}" if instead else self._hints.near(spec.type, self.types)
                known = "" if hint else f"; there are: {', '.join(self.types)}"
                self._report("unknown-type", f"{spec.type!r} is not a node type{hint}{known}", spec.id)
                continue
            try:
                node = node_type(spec.id, spec.params, services=self._services)
            except InvalidError as error:
                self.issues += error.issues
                if not node_type.body_starts_with:  # a container also refers to nodes inside it
                    found = readable(node_type.params_type, spec.params)
                    self._partial_references[spec.id] = list(references_in(node_type.params_type, found))
                continue
            self.nodes.setdefault(spec.id, node)
            for misshapen in (each for text in node.texts for each in text.misshapen):
                self._report(
                    "misshapen-reference", f"{misshapen} names no variable; write {{{{#id.variable#}}}}", spec.id
                )

    def _check_id(self, spec: NodeSpec) -> bool:
        """Report a reserved or malformed id; return False if the node cannot be checked because of it."""
        if spec.id in (OUTCOME, END) or (spec.id == CONVERSATION and spec.type != CONVERSATION):
            self._report("duplicate-id", "this id is taken; give it another", spec.id)
        if not spec.id or whole(spec.id) != spec.id:
            self._report(
                "misshapen-id", "the id is empty, or half of a surrogate pair; write letters or digits", spec.id
            )
            return False
        return True

    def _check_nesting(self) -> bool:
        """Report wrong parents; return False if a node runs inside itself or too deep, so that checks cannot go on."""
        valid = True
        for spec in self.graph.nodes:
            around = [spec.parent, *self.graph.around(spec.parent)] if spec.parent in self._by_id else []
            chain = [spec.id, *around]  # not graph.around(spec.id): an id may occur twice
            if spec.parent and spec.parent not in self._by_id:
                hint = self._hints.near(spec.parent, self._by_id)
                self._report("undefined-node", f"belongs inside {spec.parent!r}, which is not there{hint}", spec.id)
            elif spec.id in chain[1:]:
                self._report("cycle", f"runs inside itself: {shorten(chain[: chain.index(spec.id, 1) + 1])}", spec.id)
                valid = False
            elif len(chain) == MOST_LEVELS + 2:
                self._report("too-deep", f"runs inside more than {MOST_LEVELS} nodes", spec.id)
                valid = False
        return valid

    def _missing(self, node_id: str) -> str:
        if node_id in self.graph.left_out:
            return f"no path leads to node {node_id!r} from the start"
        near = self._hints.near(node_id, self._by_id)
        named = [spec.id for spec in self.graph.nodes if node_id.casefold() in (spec.title.casefold(), spec.type)]
        hint = f" (did you mean {named[0]!r}?)" if len(named) == 1 else near  # a title or type in the place of the id
        return f"there is no node {node_id!r}{hint}"

    # Edges

    def _check_edge(self, edge: Edge) -> bool:
        """Report an edge with a missing end or across levels; return True if the edge can be checked further."""
        where = f"{edge.source} → {edge.target}"
        missing = [end for end in (edge.source, edge.target) if end not in self._by_id]
        for end in missing:
            self._report("dangling-edge", self._missing(end), where)
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
        """Report edges from ports that their source does not have."""
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

    # Levels: the workflow, and the nodes inside each container

    def _check_level(self, parent: str) -> None:
        """Check the nodes of a level in topological order, and the levels inside them."""
        specs = self._children.get(parent, [])
        edges = [edge for edge in self._edges if self._by_id[edge.source].parent == parent]
        starts = self._find_starts(parent, specs)
        successors: dict[str, list[str]] = {spec.id: [] for spec in specs}
        predecessors: dict[str, list[str]] = {spec.id: [] for spec in specs}
        for edge in edges:
            successors[edge.source].append(edge.target)
            predecessors[edge.target].append(edge.source)
        self._check_reachable(specs, starts, successors, predecessors)
        try:
            order = list(TopologicalSorter(predecessors).static_order())
        except CycleError as error:
            cycle = " → ".join(error.args[1])
            self._report("cycle", f"each of these leads to the next: {cycle}", error.args[1][0])
            order = [spec.id for spec in specs]
        has_conversation = any(spec.id == spec.type == CONVERSATION for spec in specs)
        for node_id in order:
            self._positions[node_id] = len(self._positions)
        for node_id in order:
            sees_conversation = not parent and node_id != CONVERSATION and has_conversation
            mask = 1 << self._positions[CONVERSATION] if sees_conversation else 0
            for earlier in predecessors[node_id]:
                mask |= 1 << self._positions[earlier] | self._predecessors.get(earlier, 0)
            self._predecessors[node_id] = mask
        for node_id in order:
            self._check_node(node_id)

    def _find_starts(self, parent: str, specs: Sequence[NodeSpec]) -> list[str]:
        """Return the ids of a level's start nodes; report a missing or second start, and a workflow without an end."""
        container_type = self.types.get(self._by_id[parent].type) if parent else None
        start_type = container_type.body_starts_with if container_type else "" if parent else "start"
        starts = [spec.id for spec in specs if spec.type == start_type]
        if parent and not start_type:
            pass  # the parent has an unknown type, or one that holds no nodes; both are reported elsewhere
        elif not starts:
            message = (
                f"what runs inside it begins with one of type {start_type!r}, and there is none"
                if parent
                else ("there is no node of type 'start'")
            )
            self._report("no-start", message, parent)
        elif len(starts) > 1:
            self._report("several-starts", f"there can be one of type {start_type!r}, not {shorten(starts)}", parent)
        if not parent and not any(self.nodes[spec.id].ends for spec in specs if spec.id in self.nodes):
            invalid_end = any(spec.type in self.types and self.types[spec.type].ends for spec in specs)
            if not invalid_end and "dify" not in self.graph.extra:  # whose workflows may end without a result
                self._report("no-end", "there is no node of type 'end' or 'answer', and so no result")
        return starts

    def _check_reachable(
        self,
        specs: Sequence[NodeSpec],
        starts: Sequence[str],
        successors: Mapping[str, Sequence[str]],
        predecessors: Mapping[str, Sequence[str]],
    ) -> None:
        """Report nodes without edges, and nodes that no path from the start node reaches."""
        reached = reachable(starts, successors.__getitem__)
        for spec in specs:
            if not starts or spec.id in reached or spec.type == CONVERSATION:
                continue
            if not (successors[spec.id] or predecessors[spec.id]):
                self._report("isolated", "no edge leads to it or from it", spec.id)
            else:
                self._report("unreachable", f"no path leads to it from {starts[0]!r}", spec.id)

    def _check_node(self, node_id: str) -> None:
        """Check the references of a node, its place and the nodes inside it; record its variables."""
        node = self.nodes.get(node_id)
        children = self._children.get(node_id, [])
        for reference in node.references if node else self._partial_references.get(node_id, ()):
            if node is None or not self._is_result(node, reference.where, reference.selector):
                self._check_reference(node_id, reference)
        if node is None:
            if children:
                self._check_level(node_id)
            return
        self._check_place(node)
        type_of = self._type_of
        if node.body_starts_with:
            self.inner[node_id] = node.inside(type_of)
            self._check_level(node_id)
            referred = {
                (each.where, each.selector) for each in node.references
            }  # checked above, unless they are inside
            for where, selector in node.results:
                if self._is_result(node, where, selector) or (where, selector) not in referred:
                    self._check_result(node_id, where, selector)
        elif children:
            names = shorten([spec.id for spec in children])
            self._report("crosses-border", f"nothing can run inside a node of type {node.type!r}: {names}", node_id)
        found = node.issues(type_of)
        if "dify" in self.graph.extra:  # files have other parts there, which are empty here
            found = [issue for issue in found if issue.code != FILE_PART]
        self.issues += found
        self.outputs[node_id] = node.variables(type_of)

    def _check_place(self, node: NodeOperator[Any]) -> None:
        """Report outputs and assignments that have no effect on the level of the node."""
        node_id = node.get_id()
        level = self._by_id[node_id].parent
        if level and node.ends and not node.answers:
            message = f"names results of the workflow, which would be lost inside {level!r}; put it after {level!r}"
            self._report("crosses-border", message, node_id)
        for target in node.assigns:
            if target.node in self._by_id and target.node not in (level, CONVERSATION):
                scope = f"{level!r}, which it runs inside of, and of the conversation" if level else "the conversation"
                self._report(
                    "crosses-border",
                    f"{_describe_variable(target)}: here only variables of {scope} can be set",
                    node_id,
                )

    # References

    def _check_reference(self, node_id: str, reference: Reference) -> None:
        """Report a reference to a node that is missing, on another level or not before, or to a wrong variable."""
        selector, where = reference.selector, self._param_path(node_id, reference.where)
        if selector.node not in self._by_id:
            reversed_selector = Selector(selector.node, selector.variable)
            if reversed_selector.node in self._by_id:
                hint = f" (did you mean {_describe_variable(reversed_selector)}?)"
                missing = f"there is no node {selector.node!r}{hint}"
            else:
                missing = self._missing(selector.node)
            self._report("undefined-node", f"{where}: {_describe_variable(selector)}: {missing}", node_id)
            return
        containers = self.graph.around(node_id)
        if selector.node in containers:
            outputs: Mapping[str, VariableType] | None = self.inner.get(selector.node)
        else:
            level = self._by_id[selector.node].parent
            # The node itself, or the container around it, that is on the level of the other node:
            peer = next((inner for inner in (node_id, *containers) if self._by_id[inner].parent == level), None)
            if peer is None:
                self._report(
                    "crosses-border",
                    f"{where}: {_describe_variable(selector)}: {selector.node!r} runs inside {level!r}, and only what "
                    f"{level!r} gives can be read outside",
                    node_id,
                )
                return
            if not self.comes_before(selector.node, peer):
                source = "itself" if selector.node == node_id else f"{selector.node!r}, which does not run before it"
                self._report("not-before", f"{where}: {_describe_variable(selector)}: reads {source}", node_id)
                return
            outputs = self.outputs.get(selector.node)
        if outputs is not None:
            self._check_variable(node_id, reference, outputs)

    def _param_path(self, node_id: str, where: str) -> str:
        """Return the path of a parameter with field names in the place of list positions."""
        node_type = self.types.get(self._by_id[node_id].type)  # None if another node with this id has an unknown type
        return named_place(node_type.params_type, where) if node_type else where

    def _check_variable(self, node_id: str, reference: Reference, outputs: Mapping[str, VariableType]) -> None:
        if "dify" in self.graph.extra and reference.accepts == WITHOUT_FILES:  # a file in a text is empty there
            reference = reference._replace(accepts=tuple(T))
        who = f"node {reference.selector.node!r} ({self._by_id[reference.selector.node].type})"
        if fault := reference_fault(reference, outputs, who, self._hints):
            self._report(fault.code, f"{self._param_path(node_id, fault.where)}: {fault.what}", node_id)

    def _is_result(self, node: NodeOperator[Any], where: str, selector: Selector) -> bool:
        """Return True if a container takes a result from this variable of a node directly inside it."""
        inside = selector.node in self._by_id and self._by_id[selector.node].parent == node.get_id()
        return inside and (where, selector) in node.results

    def _check_result(self, node_id: str, where: str, selector: Selector) -> None:
        """Check a variable that a container takes its results from: of a node inside the container, or its own inside."""
        spec = self._by_id.get(selector.node)
        if spec is None:
            self._report("undefined-node", f"{where}: {self._missing(selector.node)}", node_id)
        elif selector.node == node_id:
            self._check_variable(node_id, Reference(where, selector, tuple(VariableType)), self.inner[node_id])
        elif spec.parent != node_id:
            self._report("outside-body", f"{where}: {selector.node!r} does not run inside {node_id!r}", node_id)
        elif (outputs := self.outputs.get(selector.node)) is not None:
            self._check_variable(node_id, Reference(where, selector, tuple(VariableType)), outputs)

    def _type_of(self, selector: Selector) -> VariableType:
        """Return the type of a variable; `ANY` if it is unknown."""
        for variables in (self.outputs, self.inner):
            kind = lookup(variables.get(selector.node, {}), selector.variable)
            if kind is not None:
                return kind
        return T.ANY


def reference_fault(reference: Reference, outputs: Mapping[str, VariableType], who: str, hints: Hints) -> Fault | None:
    """Return the fault of a reference: an unknown variable, or a variable of the wrong type; None if it is valid.

    Args:
        reference: The reference.
        outputs: The variables of the node that it reads, with their types.
        who: Description of that node, for the message.
        hints: Source of suggestions of similar names.
    """
    name = reference.selector.variable
    kind = lookup(outputs, name)
    if kind is None:
        root, _, path = name.partition(".")
        if outputs.get(root) is T.FILE:
            problem = no_file_part(repr(root), path, FILE_PARTS)
            return Fault(reference.where, f"{_describe_variable(reference.selector)}: {problem}", "undefined-variable")
        known = list(outputs)
        has = f"it has: {shorten(known, _MAX_LISTED)}" if known else "it has none"
        message = f"{who} has no variable {name!r}{hints.near(name, known)}; {has}"
        return Fault(reference.where, f"{_describe_variable(reference.selector)}: {message}", "undefined-variable")
    if not any(kind.may_be(wanted) for wanted in reference.accepts):
        wanted = ", ".join(each.value for each in reference.accepts)
        message = f"is {kind.value}, and what is needed is {wanted}"
        return Fault(reference.where, f"{_describe_variable(reference.selector)} {message}", "wrong-type")
    return None


def lookup(outputs: Mapping[str, VariableType], variable: str) -> VariableType | None:
    """Return the type of a variable, or of a part of it such as ``user.name``; None if it does not exist."""
    if variable in outputs:
        return outputs[variable]
    name, _, path = variable.partition(".")
    return part_type(outputs[name], path) if name in outputs and path else None


def _describe_variable(selector: Selector) -> str:
    return f"{selector.variable!r} of {selector.node!r}"


def raise_issues(subject: str, issues: Iterable[Issue]) -> None:
    """Raise the issues, if there are any.

    Args:
        subject: Description of the checked object, for the error.
        issues: The issues found.

    Raises:
        InvalidError: There are issues.
    """
    if found := list(issues):
        raise InvalidError(subject, found)
