"""Rules that align outputs and end nodes with the instructions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from aligned.contract import Contract
from aligned.ends import can_be_merged, with_merged_ends
from aligned.inputs import of_type, words_of
from operad.flows.edit.operation import free_id
from operad.flows.formats.shapes import is_selector, list_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.flows.repair.edges import reads_of
from operad.flows.repair.state import Proposal, State, params_of, with_edges, with_params
from operad.flows.repair.walk import declared
from operad.operators.variables import Selector, Text, VariableType
from operad.runtime.graph.schedule import reachable


def _ends_compared(contract: Contract, state: State) -> Iterator[tuple[NodeSpec, list[Any], list[str], list[str]]]:
    """Yield each end with its outputs, and the names that are missing and surplus in the nearest stated outputs."""
    if not contract.outputs:
        return
    for end in of_type(state.graph, "end"):
        outputs = list_of(params_of(end).get("outputs"))
        if not all(map(_is_pair, outputs)):
            continue
        names = frozenset(declared(end.params, "outputs"))
        wanted = min(contract.outputs, key=lambda each: each.mismatches(names))
        missing = sorted(wanted.needed - names)
        extra = [output[0] for output in outputs if output[0] not in wanted.needed | wanted.allowed]
        yield end, outputs, missing, extra


def output_names(contract: Contract, state: State) -> Iterator[Proposal]:
    """Rename an output to a stated name that is missing, if the names are similar or no others are possible."""
    for end, outputs, missing, extra in _ends_compared(contract, state):
        for name in missing:
            near = get_close_matches(name, extra, n=1, cutoff=0.6)
            near = near or [candidate for candidate in extra if set(words_of(candidate)) & set(words_of(name))]
            fitting = [
                candidate
                for candidate in (near[:1] or extra)
                if _may_be(contract, state, name, dict(outputs)[candidate])
            ]
            for other in fitting if near or (len(extra) == len(missing) == 1) else fitting if len(fitting) == 1 else []:
                changed = [[name if output[0] == other else output[0], output[1]] for output in outputs]
                why = f"the instruction states the output {name!r}, and not {other!r}"
                graph = with_params(state.graph, end, {**end.params, "outputs": changed})
                yield Proposal(end.id, f"output {other!r} is called {name!r}", why, graph)


def _may_be(contract: Contract, state: State, name: str, selector: Any) -> bool:
    """Return whether a variable may be the stated output: a file if and only if a file is stated."""
    stated = contract.stated(name)
    kind = state.type_of(Selector(*selector))
    if kind is None or stated.kind is None:
        return True
    return kind.is_file == stated.kind.is_file or kind is VariableType.ANY


def output_missing(contract: Contract, state: State) -> Iterator[Proposal]:
    """Add a stated output that is missing, if it can be only one variable."""
    for end, outputs, missing, _ in _ends_compared(contract, state):
        for name in missing:
            for selector, why in _sources(contract, state, name, outputs):
                graph = with_params(state.graph, end, {**end.params, "outputs": [*outputs, [name, list(selector)]]})
                if not state.checker.comes_before(selector.node, end.id):
                    graph = with_edges(graph, [*graph.edges, Edge(selector.node, end.id)])
                yield Proposal(end.id, f"output {name!r} is added: {list(selector)}", why, graph)


def _sources(contract: Contract, state: State, name: str, outputs: Sequence[Any]) -> Iterator[tuple[Selector, str]]:
    """Yield the variables that an output may take its value from, each with the reason; the likeliest first."""
    given = {tuple(output[1]) for output in outputs}
    top_level = {node.id: node for node in state.graph.nodes if not node.parent and node.type not in ("start", "end")}
    stated = contract.stated(name)
    same_name = [Selector(name, node_id) for node_id in top_level if name in state.checker.outputs.get(node_id, {})]
    if len(same_name) == 1:
        yield same_name[0], "only one variable has that name"
    if stated.kind is not None and stated.kind.is_file:
        makers = [
            node for node in top_level.values() if _makes_file(node, stated.suffixes, f"{name} {stated.description}")
        ]
        makers = [node for node in makers if ("files", node.id) not in given] or makers
        if len(makers) == 1:
            yield Selector("files", makers[0].id), "it is the only node that makes such a file"
        return
    if "chart" in name or "chart" in stated.description:
        charts = [
            node for node in of_type(state.graph, "echarts") if ("text", node.id) not in given and not node.parent
        ]
        if len(charts) == 1:
            yield Selector("text", charts[0].id), "it is the only chart without an output"
    for _, selector in outputs:  # the text from which a file among the outputs is made
        maker = top_level.get(selector[1])
        texts = _texts_of(maker) if maker is not None else []
        if len(texts) == 1 and tuple(texts[0]) not in given:
            yield texts[0], f"{selector[1]!r} makes the file of it"
    read_nodes = {other for others in reads_of(state.graph).values() for other in others}
    tails = [node_id for node_id in top_level if node_id not in read_nodes]
    if len(tails) == 1:
        variables = [variable for variable, kind in state.checker.outputs.get(tails[0], {}).items() if not kind.is_file]
        if len(variables) == 1:
            yield Selector(variables[0], tails[0]), "it is the only node that nothing reads"


def _texts_of(node: NodeSpec) -> list[Selector]:
    """Return the variables in the text that a node makes a file from."""
    params = params_of(node)
    text = next(
        (params[key] for key in ("md_text", "text", "mermaid_code", "prompt") if isinstance(params.get(key), str)), ""
    )
    return list(dict.fromkeys(Text(text).selectors))


def _makes_file(node: NodeSpec, suffixes: Sequence[str], what: str) -> bool:
    """Return whether a node makes a file with one of some extensions, or as words describe it."""
    params = params_of(node)
    match node.type:
        case "markdown-exporter":
            known = [suffix for suffix in suffixes if suffix != "png"] or suffixes
            return params.get("target_type") in known or not suffixes
        case "text2image":
            return "png" in suffixes or "pic" in what
        case "tts":
            return any(word in what for word in ("audio", "podcast", "speech", "voice", "mp3"))
        case "mermaid-converter":
            return any(word in what for word in ("mermaid", "diagram", "mind map", "chart", "pic"))
        case _:
            return False


def output_extra(contract: Contract, state: State) -> Iterator[Proposal]:
    """Remove outputs that are not stated, if all stated outputs exist."""
    for end, outputs, missing, extra in _ends_compared(contract, state):
        if missing or not extra:
            continue
        kept = [output for output in outputs if output[0] not in extra]
        if kept:
            graph = with_params(state.graph, end, {**end.params, "outputs": kept})
            what = f"{', '.join(map(repr, extra))}: left out"
            yield Proposal(end.id, what, "the instruction asks for the others only", graph)


def end_missing(contract: Contract, state: State) -> Iterator[Proposal]:
    """Add a missing end with the stated outputs, if each can be only one variable."""
    if len(contract.outputs) != 1 or any(node.type == "end" for node in state.graph.nodes):
        return
    outputs: list[Any] = []
    for name in sorted(contract.outputs[0].needed, key=lambda each: contract.stated(each).kind is None):
        found = next(iter(_sources(contract, state, name, outputs)), None)
        if found is None:
            return
        outputs.append([name, list(found[0])])
    end = NodeSpec(free_id(set(state.graph.by_id)), "end", {"outputs": outputs})
    edges = [*state.graph.edges, *(Edge(node, end.id) for node in dict.fromkeys(output[1][1] for output in outputs))]
    graph = with_edges(replace(state.graph, nodes=[*state.graph.nodes, end]), edges)
    yield Proposal(
        end.id,
        "an end is added: " + ", ".join(output[0] for output in outputs),
        "the instruction states its outputs",
        graph,
    )


def one_end(contract: Contract, state: State) -> Iterator[Proposal]:
    """Join several ends into one if a single set of outputs is stated, with aggregators for exclusive branches."""
    ends = list(of_type(state.graph, "end"))
    if len(contract.outputs) != 1 or len(ends) < 2 or any(end.parent for end in ends):
        return
    ids = [end.id for end in ends]
    if can_be_merged(state.graph, ids):
        merged = with_merged_ends(state.graph, ids)
        yield Proposal(ids[0], f"{len(ends)} ends are one", "the instruction states these outputs together", merged)


def ends_by_branch(contract: Contract, state: State) -> Iterator[Proposal]:
    """Split an end into one for each branch, if the stated outputs differ by branch."""
    ends = list(of_type(state.graph, "end"))
    if len(contract.outputs) < 2 or len(ends) != 1 or ends[0].parent:
        return
    end, graph = ends[0], state.graph
    outputs = [(item[0], Selector(*item[1])) for item in list_of(params_of(end).get("outputs")) if _is_pair(item)]
    for node in graph.nodes:
        operator = state.known(node)
        if operator is None or node.parent or len(operator.ports) < 2:
            continue
        ports_by_outputs: dict[frozenset[str], list[int]] = {}
        for port in range(len(operator.ports)):
            running = _running_nodes(graph, node.id, port)
            ports_by_outputs.setdefault(
                frozenset(name for name, selector in outputs if _has_value(state, selector, running)), []
            ).append(port)
        ports_by_outputs.pop(frozenset(), None)
        if len(ports_by_outputs) > 1 and all(
            any(stated.mismatches(names) == 0 for stated in contract.outputs) for names in ports_by_outputs
        ):
            split = _with_end_for_each_branch(state, end, outputs, node, ports_by_outputs)
            if split is not None:
                what = f"is {len(ports_by_outputs)} ends: " + "; ".join(
                    ", ".join(sorted(names)) for names in ports_by_outputs
                )
                yield Proposal(end.id, what, f"the branches of {node.id!r} give different outputs, as is stated", split)


def _is_pair(each: Any) -> bool:
    """Return whether a value is ``[name, [variable, node id]]``."""
    pair = list_of(each)
    return len(pair) == 2 and isinstance(pair[0], str) and is_selector(pair[1])


def _running_nodes(graph: NodeGraph, branching: str, port: int) -> set[str]:
    """Return the ids of nodes that run if a branching node chooses a port; other branching nodes take all ports."""
    starts = [node.id for node in graph.nodes if node.type == "start"]

    def targets(source: str) -> list[str]:
        return [
            edge.target for edge in graph.edges if edge.source == source and (source != branching or edge.port == port)
        ]

    return reachable(starts, targets)


def _candidates_of(state: State, selector: Selector) -> list[Selector]:
    """Return the variables that an aggregator chooses from; for any other variable, the variable itself."""
    node = state.graph.by_id.get(selector.node)
    if node is None or node.type != "variable-aggregator":
        return [selector]
    return [Selector(*item) for item in list_of(params_of(node).get("variables")) if is_selector(item)]


def _has_value(state: State, selector: Selector, running: set[str]) -> bool:
    """Return whether a variable gets a value: its node runs; for an aggregator, a node of one of its variables."""
    if selector.node not in running:
        return False
    candidates = _candidates_of(state, selector)
    if candidates == [selector]:
        node = state.graph.by_id[selector.node]
        sources = [
            each for each in reads_of(state.graph)[node.id] if state.graph.by_id[each].type == "variable-aggregator"
        ]
        return all(_has_value(state, Selector("output", source), running) for source in sources)
    return any(candidate.node in running for candidate in candidates)


def _with_end_for_each_branch(
    state: State,
    end: NodeSpec,
    outputs: Sequence[tuple[str, Selector]],
    branching: NodeSpec,
    ports_by_outputs: Mapping[frozenset[str], list[int]],
) -> NodeGraph | None:
    """Return the workflow with an end for each set of outputs; None if an output has no value on its branch.

    Args:
        state: The workflow under repair.
        end: The only end.
        outputs: Names and variables of its outputs.
        branching: Node whose ports lead to different outputs.
        ports_by_outputs: Ports of that node by the names of the outputs that get a value.
    """
    graph, taken = state.graph, set(state.graph.by_id)
    running = {port: _running_nodes(graph, branching.id, port) for ports in ports_by_outputs.values() for port in ports}
    nodes: list[NodeSpec] = []
    edges = [edge for edge in graph.edges if edge.target != end.id]
    for names, ports in ports_by_outputs.items():
        other_nodes = set[str]().union(
            *(
                running[port]
                for branch_nodes in ports_by_outputs.values()
                if branch_nodes is not ports
                for port in branch_nodes
            )
        )
        branch_nodes = set[str]().union(*(running[port] for port in ports))
        branch_outputs: list[Any] = []
        for name, selector in outputs:
            if name in names:
                members = [
                    candidate
                    for candidate in _candidates_of(state, selector)
                    if candidate.node in branch_nodes and candidate.node not in other_nodes
                ]
                shared = selector.node in other_nodes
                if not shared:
                    branch_outputs.append([name, list(selector)])
                elif len(members) == 1:
                    branch_outputs.append([name, list(members[0])])
                elif len(members) > 1:
                    aggregator = NodeSpec(
                        free_id(taken), "variable-aggregator", {"variables": [list(member) for member in members]}
                    )
                    taken.add(aggregator.id)
                    nodes.append(aggregator)
                    edges += [Edge(member.node, aggregator.id) for member in members]
                    branch_outputs.append([name, ["output", aggregator.id]])
                else:
                    return None
        end_id = end.id if not any(node.type == "end" for node in nodes) else free_id(taken)
        taken.add(end_id)
        nodes.append(NodeSpec(end_id, "end", {"outputs": branch_outputs}))
        edges += [Edge(node, end_id) for node in dict.fromkeys(output[1][1] for output in branch_outputs)]
    return with_edges(
        replace(graph, nodes=[other for node in graph.nodes for other in (nodes if node is end else [node])]), edges
    )
