"""Rules on references to missing variables and nodes, where only one correction is possible."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Any, NamedTuple

from operad.flows.check import lookup
from operad.flows.node_graph import NodeSpec
from operad.flows.repair.spelling import STARTS, is_container, with_items
from operad.flows.repair.state import Proposal, State, params_of, with_each, with_params
from operad.flows.repair.walk import changed, renamed
from operad.operators.named_params import named_place
from operad.operators.nodes import NODE_TYPES
from operad.operators.variables import Selector, VariableType

T = VariableType
_MAIN_OUTPUT: Mapping[str, str] = {
    "http-request": "body",
    "list-operator": "result",
    "google-search": "json",
    "llm": "text",
    "agent": "text",
    "question-classifier": "class_name",
}
"""Main output of each node type with several variables, which a wrong name is taken to mean."""

_GENERIC = re.compile(r"(out(put)?s?|results?|text|content|response|answer|value|data|input)_?\d*", re.IGNORECASE)
"""Generic names of variables, which say nothing about the value."""

_INDEX = re.compile(r"(current_?)?(index|idx|i|position|number)\d*", re.IGNORECASE)


class Reading(NamedTuple):
    """Reference of a node to a variable that does not exist.

    Attributes:
        node: Node with the reference.
        where: Path of the parameter.
        selector: Variable as named.
        accepts: Types that the parameter accepts.
        outputs: Variables of the node that the reference names; None if there is no such node.
    """

    node: NodeSpec
    where: str
    selector: Selector
    accepts: Sequence[VariableType]
    outputs: Mapping[str, VariableType] | None


def unreadable(state: State) -> Iterator[Reading]:
    """Yield the references to variables that do not exist, including the results of containers."""
    graph, checker = state.graph, state.checker
    for spec in graph.nodes:
        node = state.known(spec)
        if node is None:
            continue
        containers = graph.around(spec.id)
        readings = [(reference.where, reference.selector, reference.accepts) for reference in node.references]
        readings += [(where, selector, tuple(T)) for where, selector in node.results]
        for where, selector, accepts in readings:
            if selector.node not in graph.by_id:
                yield Reading(spec, where, selector, accepts, None)
                continue
            known = checker.inner if selector.node in containers else checker.outputs
            outputs = known.get(selector.node)
            if outputs is not None and lookup(outputs, selector.variable) is None:
                yield Reading(spec, where, selector, accepts, outputs)


def _redirect(state: State, reading: Reading, new_selector: Selector, why: str) -> Proposal:
    """Return the proposal to replace a reference by another variable."""
    params = renamed(reading.node, lambda selector: new_selector if selector == reading.selector else selector)
    where = named_place(NODE_TYPES[reading.node.type].params_type, reading.where)
    what = f"{where}: {reading.selector} is {new_selector}"
    return Proposal(reading.node.id, what, why, with_params(state.graph, reading.node, params))


def items(state: State) -> Iterator[Proposal]:
    """Correct references to the item and the index of a container that are misspelt or name another node."""
    # references without a node in texts: {{#item#}}
    what = "the item is named with its iteration"
    yield from with_each(state, partial(with_items, state.graph), what, "it runs inside of one")
    for reading in unreadable(state):
        variable, named = reading.selector
        outer = [container for container in state.graph.around(reading.node.id) if is_container(state.graph, container)]
        holder = state.graph.by_id.get(named)
        if reading.where == "output_selector" or not outer:
            continue
        if holder is None and named in ("item", "index"):
            yield _redirect(state, reading, Selector(f"{named}.{variable}", outer[0]), f"it runs inside {outer[0]!r}")
            continue
        is_inside = holder is not None and (holder.type in STARTS or holder.id in outer)
        if not (is_inside or variable.partition(".")[0] in ("item", "index")):
            continue
        owner = outer[0]
        if holder is not None and holder.id in outer:
            owner = holder.id
        elif holder is not None and holder.parent in outer:
            owner = holder.parent
        name, _, path = variable.partition(".")
        name = "index" if _INDEX.fullmatch(name) else "item"
        item_selector = Selector(f"{name}.{path}" if path else name, owner)
        yield _redirect(state, reading, item_selector, f"inside {owner!r}, the item and the index are its own")


def variables(state: State) -> Iterator[Proposal]:
    """Correct references to missing variables: by similar name, only fitting output, or only node that has it."""
    for reading in unreadable(state):
        yield from corrections(state, reading)


def corrections(state: State, reading: Reading) -> Iterator[Proposal]:
    """Yield the proposals for a reference to a missing variable."""
    if reading.outputs is not None:
        for variable, why in _possible(state, reading):
            yield _redirect(state, reading, Selector(variable, reading.selector.node), why)
        if holder := _only_holder(state, reading):
            yield _redirect(state, reading, holder, "no other node before it has a variable of that name")


def _possible(state: State, reading: Reading) -> Iterator[tuple[str, str]]:
    """Yield the variables of the same node that the reference may mean, each with the reason; the likeliest first."""
    name, _, path = reading.selector.variable.partition(".")
    outputs = reading.outputs or {}
    fitting = [output for output, kind in outputs.items() if any(kind.may_be(wanted) for wanted in reading.accepts)]
    holder = state.graph.by_id[reading.selector.node]
    given = rf"['\"]{re.escape(name)}['\"](?:\s*:|\]\s*=(?!=))"
    if holder.type == "code" and re.search(given, str(params_of(holder).get("code"))):
        return  # the code seems to give it, and only its declaration is missing
    if near := get_close_matches(name, fitting, n=2, cutoff=0.75):
        yield near[0], "its name is the nearest"
    elif len(fitting) == 1 and (holder.type != "start" or _GENERIC.fullmatch(name)):
        yield fitting[0], f"it is the only variable of {holder.id!r} that fits"
        if path:
            yield f"{fitting[0]}.{path}", f"it is the only variable of {holder.id!r} that fits"
    elif _MAIN_OUTPUT.get(holder.type) in fitting:
        yield _MAIN_OUTPUT[holder.type], f"it is what a node of type {holder.type} gives"
    elif near := get_close_matches(name, fitting, n=2, cutoff=0.6):
        yield near[0], "its name is the nearest"


def _only_holder(state: State, reading: Reading) -> Selector | None:
    """Return the variable of that name of the only other node that has one and that the reader can see."""
    name = reading.selector.variable
    visible_levels = (
        reading.node.parent,
        *[state.graph.by_id[container].parent for container in state.graph.around(reading.node.id)],
    )
    holders = [
        Selector(name, node_id)
        for node_id, outputs in state.checker.outputs.items()
        if name in outputs and node_id != reading.node.id and state.graph.by_id[node_id].parent in visible_levels
        and any(outputs[name].may_be(wanted) for wanted in reading.accepts)
        and (state.checker.comes_before(node_id, reading.node.id) or state.graph.by_id[node_id].type == "start")
    ]  # fmt: skip
    return holders[0] if len(holders) == 1 and not _GENERIC.fullmatch(name) else None


def inside_read_outside(state: State) -> Iterator[Proposal]:
    """Redirect references to a node inside a container, from outside, to the output of the container."""
    for node in state.graph.nodes:
        here = [node.id, *state.graph.around(node.id)]
        known = state.known(node)
        if known is None:
            continue
        results = {each for _, each in known.results}
        for selector in dict.fromkeys(reference.selector for reference in known.references):
            holder = state.graph.by_id.get(selector.node)
            if holder is None or not holder.parent or holder.parent in here or selector in results:
                continue
            if not is_container(state.graph, holder.parent):
                continue
            to = Selector("output", holder.parent)
            params = renamed(node, lambda old: to if old == selector else old)  # noqa: B023 - called at once
            what = f"{selector} is {to}"
            why = f"{holder.id!r} runs inside {holder.parent!r}, and only what that gives can be read outside"
            yield Proposal(node.id, what, why, with_params(state.graph, node, params))


def results(state: State) -> Iterator[Proposal]:
    """Set the result of an iteration, if it is missing or from outside, to a variable of a node inside."""
    for node in state.graph.nodes:
        if node.type != "iteration" or not params_of(node):
            continue
        params = params_of(node)
        match params.get("output_selector"):
            case [str() as variable, str() as other]:
                holder = state.graph.by_id.get(other)
                if holder is not None and holder.parent == node.id and holder.type not in STARTS:
                    continue
            case _:
                variable = ""
        inside = [inner for inner in state.graph.nodes if inner.parent == node.id and inner.type not in STARTS]
        leaving = {edge.source for edge in state.graph.edges if edge.target in {inner.id for inner in inside}}
        named = [inner for inner in inside if variable and lookup(state.checker.outputs.get(inner.id, {}), variable)]
        last = [inner for inner in inside if inner.id not in leaving and inner.type != "end"]
        for result_node in named if len(named) == 1 else last if len(last) == 1 else last[-1:]:
            outputs = state.checker.outputs.get(result_node.id) or _declared_outputs(state, result_node)
            name = variable if variable in outputs else _MAIN_OUTPUT.get(result_node.type) or next(iter(outputs), "")
            if not name or (len(outputs) > 1 and name != variable and result_node.type not in _MAIN_OUTPUT):
                continue
            mended = {**params, "output_selector": [name, result_node.id]}
            what = f"output_selector: {[name, result_node.id]}"
            why = f"{result_node.id!r} is the last inside" if result_node in last else "only it has that variable"
            yield Proposal(node.id, what, why, with_params(state.graph, node, mended))


def _declared_outputs(state: State, spec: NodeSpec) -> Mapping[str, VariableType]:
    node = state.known(spec)
    return node.outputs(lambda selector: T.ANY) if node else {}


def empty_names(state: State) -> Iterator[Proposal]:
    """Add the missing name to a selector of a node with a single output."""

    def change(wanted: Any, given: Any) -> Any:
        match given:
            case ["", str() as node] if wanted is Selector and node in state.graph.by_id:
                outputs = _declared_outputs(state, state.graph.by_id[node])
                return [next(iter(outputs)), node] if len(outputs) == 1 else given
            case _:
                return given

    what = "selectors without a name have one"
    return with_each(state, partial(changed, change=change), what, "it is the only variable of that node")
