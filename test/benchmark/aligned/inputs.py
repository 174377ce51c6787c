"""Rules that align inputs, and references to them, with the instructions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from aligned.contract import Contract
from operad.flows.edit.operation import free_id
from operad.flows.formats.shapes import list_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.flows.repair.state import Proposal, State, params_of, with_edges, with_params
from operad.flows.repair.walk import declared, renamed
from operad.operators.variables import Selector


def input_names(contract: Contract, state: State) -> Iterator[Proposal]:
    """Rename an input to a stated name that is missing, if the names are similar or no others are possible."""
    stated = contract.input_names
    for start in of_type(state.graph, "start") if stated else ():
        given = declared(start.params, "variables")
        missing = [name for name in stated if name not in given]
        extra = [name for name in given if name not in stated and name not in contract.undirected]
        for name in missing:
            near = get_close_matches(name, extra, n=1, cutoff=0.6)
            near = near or [candidate for candidate in extra if set(words_of(candidate)) & set(words_of(name))]
            for other in near[:1] or (extra if len(extra) == len(missing) == 1 else []):
                variables = [
                    [name, *variable[1:]] if list_of(variable)[:1] == [other] else variable
                    for variable in _variables(start)
                ]
                graph = with_params(state.graph, start, {**params_of(start), "variables": variables})
                graph = _with_variable_renamed(graph, Selector(other, start.id), Selector(name, start.id))
                why = f"the instruction states the input {name!r}, and not {other!r}"
                yield Proposal(start.id, f"input {other!r} is called {name!r}", why, graph)


def documents(contract: Contract, state: State) -> Iterator[Proposal]:
    """Replace documents in prompts by their text, from a document-extractor."""
    raw_documents = list(contract.raw_documents(state.graph))
    stated = {statement.name for statement in contract.inputs if statement.is_document}
    for node_id, operator in state.checker.nodes.items():
        for reference in operator.references:
            kind = state.type_of(reference.selector)
            if kind is not None and kind.is_file and not any(kind.may_be(wanted) for wanted in reference.accepts):
                holder = state.graph.by_id[reference.selector.node]
                if (holder.type == "start" and reference.selector.variable in stated) or _extractor_of(
                    state.graph, reference.selector
                ):
                    raw_documents.append((node_id, reference.selector))
    for node_id, selector in dict.fromkeys(raw_documents):
        graph, node = state.graph, state.graph.by_id[node_id]
        extractor = _extractor_of(graph, selector)
        added = extractor is None
        if extractor is None:
            level = selector.node if selector.node in graph.around(node_id) else graph.by_id[selector.node].parent
            extractor = NodeSpec(
                free_id(set(graph.by_id), level), "document-extractor", {"variable_selector": list(selector)}, level
            )
            graph = _with_node(graph, extractor, selector.node)
        text_selector = Selector("text", extractor.id)
        graph = with_params(graph, node, renamed(node, lambda read: text_selector if read == selector else read))  # noqa: B023 - called at once
        target = next(
            (each for each in (node_id, *graph.around(node_id)) if graph.by_id[each].parent == extractor.parent), ""
        )
        if target and target != extractor.id and (added or not state.checker.comes_before(extractor.id, target)):
            graph = with_edges(graph, [*graph.edges, Edge(extractor.id, target)])
        what = f"{selector} is {text_selector}" + (
            f", a document-extractor that is added as {extractor.id!r}" if added else ""
        )
        yield Proposal(node_id, what, "a model is asked about a document's text", graph)


def _extractor_of(graph: NodeGraph, selector: Selector) -> NodeSpec | None:
    """Return the document-extractor that reads a variable; None if there is none."""
    return next((node for node in of_type(graph, "document-extractor")
                 if params_of(node).get("variable_selector") == list(selector)), None)  # fmt: skip


def _with_node(graph: NodeGraph, made: NodeSpec, source: str) -> NodeGraph:
    """Return the workflow with a new node after its source node; inside a container, after the container's start."""
    if made.parent == source:
        source = next(
            (node.id for node in graph.nodes if node.parent == source and node.type.endswith("-start")), source
        )
    place = next(number for number, node in enumerate(graph.nodes) if node.id == source)
    nodes = [*graph.nodes[: place + 1], made, *graph.nodes[place + 1 :]]
    return with_edges(replace(graph, nodes=nodes), [*graph.edges, Edge(source, made.id)])


def of_type(graph: NodeGraph, name: str) -> Iterator[NodeSpec]:
    """Return the nodes of a type whose parameters are an object."""
    return (node for node in graph.nodes if node.type == name and isinstance(node.params, Mapping))


def _variables(start: NodeSpec) -> list[Any]:
    return list_of(params_of(start).get("variables"))


def _with_variable_renamed(graph: NodeGraph, old: Selector, new: Selector) -> NodeGraph:
    """Return the workflow with a variable and its parts renamed in all parameters."""

    def rename(selector: Selector) -> Selector:
        if selector == old:
            return new
        is_part = selector.node == old.node and selector.variable.startswith(f"{old.variable}.")
        return Selector(new.variable + selector.variable[len(old.variable) :], new.node) if is_part else selector

    return replace(graph, nodes=[replace(node, params=renamed(node, rename)) for node in graph.nodes])


def words_of(name: str) -> list[str]:
    """Return the words of a name in the singular, without short and generic words."""
    return [
        word.removesuffix("s")
        for word in name.lower().split("_")
        if len(word) > 2 and word not in ("file", "text", "the")
    ]
