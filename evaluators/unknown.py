"""Unknown values of a workflow: answers of other systems, and all that nodes compute from them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from operad.evaluators.branches import CHOOSING, SAYING
from operad.flows.check import Checker
from operad.flows.formats.shapes import fields_of
from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.operators.node import NodeOperator
from operad.operators.nodes import NODE_TYPES
from operad.operators.variables import Selector
from operad.runtime.testing import plausible

ANSWERS: tuple[Any, ...] = (None, {"text": "text"}, ["text"], "Some words.")
"""Made-up answers of other systems, of different forms; None is the usual one of a node.

A failure behind such an answer depends on it, unless it is the same with each of them.
"""

_MADE_UP = {*SAYING, "google-search", "knowledge-retrieval", "text2image", "tts"}
"""Types whose outputs a dry run makes up in their declared form, whatever the nodes read."""


class UnknownValues:
    """Variables of a workflow whose content depends on what other systems answer.

    Args:
        graph: The workflow; it need not be valid.

    Attributes:
        asking: Ids of the nodes that ask other systems.
        sampled: Ids of these nodes and of agents, whose answers samples replace.
    """

    def __init__(self, graph: NodeGraph) -> None:
        self._graph = graph
        self._checker = Checker(graph, NODE_TYPES)
        self.asking = frozenset(key for key, node in self._checker.nodes.items() if node.unknown_outputs)
        self.sampled = self.asking | {spec.id for spec in graph.nodes if spec.type == "agent"}

    def unused_samples(self) -> Mapping[str, str]:
        """Return the reasons why samples are not used, by node id; of nodes that cannot be read, nothing is known."""
        nodes = self._graph.by_id
        known = self.sampled | (nodes.keys() - self._checker.nodes.keys())
        return {node: _why_unused(nodes.get(node)) for node in self._graph.samples if node not in known}

    def readers(self, asked: Collection[str]) -> Mapping[str, frozenset[str]]:
        """Return the nodes that read answers to some nodes, each with the nodes that the answers came through.

        Args:
            asked: Ids of nodes that ask other systems.
        """
        unknown: _Unknown = {}
        for node_id in asked:
            _mark(unknown, node_id, self._checker.nodes[node_id].unknown_outputs, frozenset({node_id}))
        readers: dict[str, frozenset[str]] = {}
        size = -1
        while size < sum(map(len, unknown.values())):  # until no variable is added
            size = sum(map(len, unknown.values()))
            for node_id, node in self._checker.nodes.items():
                if came_through := self._pass_on(node_id, node, unknown):
                    readers[node_id] = came_through
        return readers

    def _pass_on(self, node_id: str, node: NodeOperator[Any], unknown: _Unknown) -> frozenset[str]:
        """Add the variables that a node computes from unknown ones; return the nodes that these came through."""
        read = frozenset[str]().union(*(_through(unknown, each.selector) for each in node.references))
        given = read.union(*(_through(unknown, selector) for _, selector in node.results))
        if read:
            _mark(unknown, node_id, self._checker.inner.get(node_id, {}), read | {node_id})
        if given and node.type not in _MADE_UP and not node.unknown_outputs:
            _mark(unknown, node_id, self._checker.outputs.get(node_id, {}), given | {node_id})
            for target in node.assigns:
                _mark(unknown, target.node, [target.variable], given | {node_id})
        return given

    def going_on(self, readers: Collection[str]) -> NodeGraph:
        """Return the workflow with nodes that do not end a run when they fail: it goes on with made-up values."""
        nodes = [self._going_on(spec) if spec.id in readers else spec for spec in self._graph.nodes]
        return replace(self._graph, nodes=nodes)

    def _going_on(self, spec: NodeSpec) -> NodeSpec:
        params, node_type = fields_of(spec.params), NODE_TYPES[spec.type]
        has_own = fields_of(params.get("failure")).get("then", "end") != "end"
        if has_own or spec.type in CHOOSING or node_type.ends or node_type.answers:
            return spec
        outputs = self._checker.outputs.get(spec.id, {})
        values = {name: plausible(kind.json_schema()) for name, kind in outputs.items() if not kind.is_file}
        return replace(spec, params={**params, "failure": {"retries": 0, "then": "values", "values": values}})


_Unknown = dict[Selector, frozenset[str]]
"""Unknown variables, each with the nodes that its value came through."""


def _why_unused(spec: NodeSpec | None) -> str:
    """Return the reason why a node gets no sample of an answer."""
    if spec is None:
        return "there is no such node"
    return (
        f"{spec.type} gives values of a known form, which are made up"
        if spec.type in _MADE_UP
        else "it asks no other system"
    )


def _through(unknown: _Unknown, selector: Selector) -> frozenset[str]:
    """Return the nodes that the value of a variable, or of the variable that it is a part of, came through."""
    variable = selector._replace(variable=selector.variable.partition(".")[0])
    return unknown.get(selector, frozenset()) | unknown.get(variable, frozenset())


def _mark(unknown: _Unknown, node: str, names: Iterable[str], came_through: frozenset[str]) -> None:
    """Add variables of a node to the unknown ones."""
    for name in names:
        unknown[Selector(name, node)] = unknown.get(Selector(name, node), frozenset()) | came_through
