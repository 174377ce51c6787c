"""Inputs, and what is read of them, as the instruction states them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from operad.flows.formats.shapes import list_of, pairs_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.flows.repair.aggregators import free_id
from operad.flows.repair.contract import declared
from operad.flows.repair.spelling import around
from operad.flows.repair.state import Proposal, State, params_of, with_edges, with_params
from operad.flows.repair.walk import renamed
from operad.operators.variables import Selector, VariableType

T = VariableType


def input_names(state: State) -> Iterator[Proposal]:
    """Inputs that are called otherwise than stated, and others in the place of one that is stated."""
    stated = state.contract.input_names
    for start in of_type(state.graph, "start") if stated else ():
        given = declared(start.params, "variables")
        missing = [name for name in stated if name not in given]
        extra = [name for name in given if name not in stated and name not in state.contract.open]
        for name in missing:
            near = get_close_matches(name, extra, n=1, cutoff=0.6)
            near = near or [each for each in extra if set(words_of(each)) & set(words_of(name))]
            for other in near[:1] or (extra if len(extra) == len(missing) == 1 else []):
                variables = [[name, *each[1:]] if list_of(each)[:1] == [other] else each for each in _variables(start)]
                graph = with_params(state.graph, start, {**params_of(start), "variables": variables})
                graph = _renamed(graph, Selector(other, start.id), Selector(name, start.id))
                why = f"the instruction states the input {name!r}, and not {other!r}"
                yield Proposal(start.id, f"input {other!r} is called {name!r}", why, graph)


def input_read(state: State) -> Iterator[Proposal]:
    """Inputs that are stated and read, and that the start does not declare."""
    for start in of_type(state.graph, "start"):
        given = declared(start.params, "variables")
        for each in state.contract.inputs:
            if each.name in given or not _is_read(state.graph, Selector(each.name, start.id)):
                continue
            kind = each.kind or T.STRING
            variables = [*_variables(start), [each.name, kind.value]]
            graph = with_params(state.graph, start, {**params_of(start), "variables": variables})
            why = "the instruction states it, and it is read"
            yield Proposal(start.id, f"input {each.name!r} ({kind.value}) is added", why, graph)


def input_unread(state: State) -> Iterator[Proposal]:
    """Inputs that are not stated and that nothing reads."""
    stated = state.contract.input_names
    for start in of_type(state.graph, "start") if stated else ():
        for name in declared(start.params, "variables"):
            if name not in (*stated, *state.contract.open) and not _is_read(state.graph, Selector(name, start.id)):
                variables = [each for each in _variables(start) if list_of(each)[:1] != [name]]
                graph = with_params(state.graph, start, {**params_of(start), "variables": variables})
                why = "the instruction does not state it, and nothing reads it"
                yield Proposal(start.id, f"input {name!r} is left out", why, graph)


def input_types(state: State) -> Iterator[Proposal]:
    """Inputs that are stated to be files, and declared as something else."""
    for start in of_type(state.graph, "start"):
        for name, kind in pairs_of(_variables(start)):
            wanted = next((each.kind for each in state.contract.inputs if each.name == name), None)
            if wanted is None or wanted.value == kind:
                continue
            variables = [[name, wanted.value] if list_of(each)[:1] == [name] else each for each in _variables(start)]
            graph = with_params(state.graph, start, {**params_of(start), "variables": variables})
            why = f"the instruction says {state.contract.stated(name).what!r}"
            yield Proposal(start.id, f"input {name!r} is {wanted.value}", why, graph)


def documents(state: State) -> Iterator[Proposal]:
    """Documents that are put into a text as files: the text that an extractor makes of them."""
    raw = list(state.contract.raw_documents(state.graph))
    stated = {each.name for each in state.contract.inputs if each.is_document}
    for node_id, known in state.checker.nodes.items():
        for each in known.references:
            kind = state.type_of(each.selector)
            if kind is not None and kind.is_file and not any(kind.may_be(wanted) for wanted in each.accepts):
                holder = state.graph.by_id[each.selector.node]
                if (holder.type == "start" and each.selector.variable in stated) or _extractor(
                    state.graph, each.selector
                ):
                    raw.append((node_id, each.selector))
    for node_id, selector in dict.fromkeys(raw):
        graph, node = state.graph, state.graph.by_id[node_id]
        made = _extractor(graph, selector)
        added = made is None
        if made is None:
            level = selector.node if selector.node in around(graph, node_id) else graph.by_id[selector.node].parent
            made = NodeSpec(
                free_id(set(graph.by_id), level), "document-extractor", {"variable_selector": list(selector)}, level
            )
            graph = _inserted(graph, made, selector.node)
        to = Selector("text", made.id)
        graph = with_params(graph, node, renamed(node, lambda each: to if each == selector else each))  # noqa: B023 - called at once
        outer = next(
            (each for each in (node_id, *around(graph, node_id)) if graph.by_id[each].parent == made.parent), ""
        )
        if outer and outer != made.id and (added or not state.checker.comes_before(made.id, outer)):
            graph = with_edges(graph, [*graph.edges, Edge(made.id, outer)])
        what = f"{selector} is {to}" + (f", a document-extractor that is added as {made.id!r}" if added else "")
        yield Proposal(node_id, what, "a model is asked about a document's text", graph)


def _extractor(graph: NodeGraph, selector: Selector) -> NodeSpec | None:
    return next((node for node in of_type(graph, "document-extractor")
                 if params_of(node).get("variable_selector") == list(selector)), None)  # fmt: skip


def _inserted(graph: NodeGraph, made: NodeSpec, source: str) -> NodeGraph:
    """The workflow with a node right after the one that it reads, or after the start of the container that it is in."""
    if made.parent == source:
        source = next(
            (node.id for node in graph.nodes if node.parent == source and node.type.endswith("-start")), source
        )
    place = next(number for number, node in enumerate(graph.nodes) if node.id == source)
    nodes = [*graph.nodes[: place + 1], made, *graph.nodes[place + 1 :]]
    return with_edges(replace(graph, nodes=nodes), [*graph.edges, Edge(source, made.id)])


def of_type(graph: NodeGraph, name: str) -> Iterator[NodeSpec]:
    """The nodes of a type whose parameters are an object."""
    return (node for node in graph.nodes if node.type == name and isinstance(node.params, Mapping))


def _variables(start: NodeSpec) -> list[Any]:
    return list_of(params_of(start).get("variables"))


def _is_read(graph: NodeGraph, selector: Selector) -> bool:
    seen: list[Selector] = []

    def note(each: Selector) -> Selector:
        seen.append(each)
        return each

    for node in graph.nodes:
        renamed(node, note)
    return any(
        each == selector or (each.node == selector.node and each.variable.startswith(f"{selector.variable}."))
        for each in seen
    )


def _renamed(graph: NodeGraph, old: Selector, new: Selector) -> NodeGraph:
    def name(each: Selector) -> Selector:
        if each == old:
            return new
        whole = each.node == old.node and each.variable.startswith(f"{old.variable}.")
        return Selector(new.variable + each.variable[len(old.variable) :], new.node) if whole else each

    return replace(graph, nodes=[replace(node, params=renamed(node, name)) for node in graph.nodes])


def words_of(name: str) -> list[str]:
    """The words of a name that say something of what it names."""
    return [
        each.removesuffix("s")
        for each in name.lower().split("_")
        if len(each) > 2 and each not in ("file", "text", "the")
    ]
