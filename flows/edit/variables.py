"""Operations on variables of nodes, and on inputs and outputs of the workflow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from operad.flows.edit.operation import Name, NodeId, Operation, Types, following, free_id, undefined, with_params
from operad.flows.formats.shapes import Fields, fields_of, list_of, pairs_of
from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.operators.named_params import in_lists
from operad.operators.node import Fault
from operad.operators.sandbox.renames import RenameError, argument_renamed, result_renamed
from operad.operators.sandbox.template import name_changed
from operad.operators.variables import Selector, VariableType
from operad.runtime.values.errors import OperadError, did_you_mean, shorten

_NAMING_PARAMS: Mapping[str, Sequence[tuple[str, int]]] = {
    "start": [("variables", 0)],
    "end": [("outputs", 0)],
    "code": [("outputs", 0), ("variables", 0)],
    "template-transform": [("variables", 0)],
    "parameter-extractor": [("parameters", 1)],
    "loop": [("variables", 0)],
    "conversation": [("variables", 0)],
}
"""Parameters that name variables, by node type, each with the index of the name in its items."""

_ARGUMENT_PARAMS = (("code", "variables"), ("template-transform", "variables"))
"""Types and parameters whose names are arguments of the node itself; other nodes do not refer to them."""


_BY_VARIABLE: Mapping[str, Sequence[str]] = {"start": ["defaults"], "parameter-extractor": ["optional", "options"]}
"""Parameters that say more on variables by their names, by node type."""


def _with_name(value: Any, old: str, new: str) -> Any:
    """Return a mapping by name or a list of names in which a name is replaced."""
    if isinstance(value, list):
        return [new if name == old else name for name in list_of(value)]
    return {new if name == old else name: item for name, item in fields_of(value).items()}


class RenameVariable(Operation):
    """Renames a variable of a node; what refers to it follows, and the node's own code or template.

    Variables are the inputs of a start, the outputs of an end and of code, the parameters of a parameter-extractor,
    what a loop or the conversation holds; and, for the node itself, the arguments of code and of a template. A code
    node that has an output and an argument of that name has its output renamed.
    """

    op: Literal["rename_variable"] = "rename_variable"
    node: NodeId
    old: str = Field(min_length=1, description="Its name.")
    new: Name

    def faults(self, graph: NodeGraph, types: Types) -> Iterator[Fault]:
        """Yield faults: a variable that is missing or cannot be renamed, a taken name, code that cannot be changed."""
        missing = list(undefined(graph, "node", self.node))
        yield from missing
        if missing:
            return
        spec = graph.by_id[self.node]
        place = self._place(spec)
        if place is None:
            yield Fault("old", _why_not_renamed(spec, self.old), "undefined-variable")
            return
        if self.new in _names(spec, *place):
            what = f"{self.node!r} has a variable {self.new!r} already; choose another name, or rename that one first"
            yield Fault("new", what, "duplicate-name")
            return
        try:
            self._renamed_params(spec, place[0])
        except OperadError as error:
            yield Fault("old", f"{self.old!r} of {self.node!r}: {error}", "param")

    def apply(self, graph: NodeGraph, types: Types) -> NodeGraph:
        """Return the workflow with the variable renamed in its node and in all references."""
        spec = graph.by_id[self.node]
        place = self._place(spec)
        assert place is not None  # noqa: S101 - there are no faults
        graph = with_params(graph, self.node, self._renamed_params(spec, place[0]))
        if (spec.type, place[0]) in _ARGUMENT_PARAMS or spec.type == "end":
            return graph
        owner_ids = {self.node} | {other.id for other in graph.nodes if self._assigns(other)}
        other_variables = {node_id: set(_variables(graph.by_id[node_id])) - {self.old} for node_id in owner_ids}

        def change(selector: Selector) -> Selector:
            name, dot, attribute = selector.variable.partition(".")
            if selector.node not in owner_ids or selector.variable in other_variables[selector.node]:
                return selector
            if selector.variable == self.old:
                return Selector(self.new, selector.node)
            return Selector(f"{self.new}{dot}{attribute}", selector.node) if name == self.old else selector

        return following(graph, types, change)

    def _place(self, spec: NodeSpec) -> tuple[str, int] | None:
        """Return the parameter that names the variable, with the index of the name in its items; None if none does."""
        return next((place for place in _NAMING_PARAMS.get(spec.type, ()) if self.old in _names(spec, *place)), None)

    def _renamed_params(self, spec: NodeSpec, param: str) -> Fields:
        """Return the parameters of the node with the new name.

        Raises:
            RenameError: The name cannot be replaced in the code.
            TemplateError: The template is not valid.
        """
        params = fields_of(spec.params)
        index = dict(_NAMING_PARAMS[spec.type])[param]
        items = [
            [*item[:index], self.new, *item[index + 1 :]] if _name(item, index) == self.old else item
            for item in list_of(params.get(param))
        ]
        renamed = {**params, param: items}
        if (spec.type, param) not in _ARGUMENT_PARAMS:
            renamed |= {
                name: _with_name(params[name], self.old, self.new)
                for name in _BY_VARIABLE.get(spec.type, ())
                if name in params
            }
            if (failure := fields_of(params.get("failure"))).get("values"):
                renamed["failure"] = {**failure, "values": _with_name(failure["values"], self.old, self.new)}
        if spec.type == "code":
            rename = result_renamed if param == "outputs" else argument_renamed
            renamed["code"] = rename(_text(params.get("code")), self.old, self.new)
        elif spec.type == "template-transform":
            renamed["template"] = name_changed(_text(params.get("template")), self.old, self.new)
        return renamed

    def _assigns(self, spec: NodeSpec) -> bool:
        """Return whether a node is an assigner of the variable, which then is also a variable of that node."""
        targets = [list_of(assignment)[:1] for assignment in list_of(fields_of(spec.params).get("assignments"))]
        return spec.type == "assigner" and [[self.old, self.node]] in targets


def _names(spec: NodeSpec, param: str, index: int) -> list[str]:
    return [name for item in list_of(fields_of(spec.params).get(param)) if (name := _name(item, index)) is not None]


def _name(item: Any, index: int) -> str | None:
    parts = list_of(item)
    return parts[index] if index < len(parts) and isinstance(parts[index], str) else None


def _variables(spec: NodeSpec) -> list[str]:
    """Return the names of a node's variables that other nodes can refer to."""
    return [
        name
        for param, index in _NAMING_PARAMS.get(spec.type, ())
        if (spec.type, param) not in _ARGUMENT_PARAMS
        for name in _names(spec, param, index)
    ]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise RenameError("the parameter is not a text; set it to a text first")
    return value


def _why_not_renamed(spec: NodeSpec, name: str) -> str:
    """Return the reason why the variable cannot be renamed."""
    known = [variable for place in _NAMING_PARAMS.get(spec.type, ()) for variable in _names(spec, *place)]
    if spec.type == "assigner":
        return "variables of an assigner have the names of those that it sets; rename these at the conversation or the loop"
    if spec.type not in _NAMING_PARAMS:
        return f"the variables of {spec.id!r} have their names from its type, {spec.type!r}"
    return f"{spec.id!r} ({spec.type}) has no variable {name!r}{did_you_mean(name, known)}; it has: {shorten(known) or 'none'}"


# Inputs and outputs of the workflow: variables of its start, and of its ends

_LISTS: Mapping[str, tuple[str, str]] = {"start": ("variables", "input"), "end": ("outputs", "output")}
"""Parameter that lists them, and what they are called, by node type."""


def _start(graph: NodeGraph) -> NodeSpec | Fault:
    """Return the start of a workflow; a fault if there is none."""
    what = f"there is no start node to have inputs; add_node {free_id(graph.by_id)} start first"
    starts = (spec for spec in graph.nodes if spec.type == "start" and not spec.parent)
    return next(starts, None) or Fault("name", what, "no-start")


def _end(graph: NodeGraph, node_id: str) -> NodeSpec | Fault:
    """Return the end with an id, or, with an empty id, the only end; a fault if there is none, or several."""
    ends = [spec for spec in graph.nodes if spec.type == "end"]
    ids = [spec.id for spec in ends]
    if node_id and node_id not in ids:
        kind = graph.by_id[node_id].type if node_id in graph.by_id else ""
        what = f"{node_id!r} is of type {kind!r}, and outputs are of ends; these are: {shorten(ids) or 'none'}"
        return next(undefined(graph, "node", node_id), Fault("node", what, "no-end"))
    if not ends:
        return Fault("node", f"there is no end to have outputs; add_node {free_id(graph.by_id)} end first", "no-end")
    if not node_id and len(ends) > 1:
        return Fault("node", f"say which end: {shorten(ids)}", "no-end")
    return ends[ids.index(node_id) if node_id else 0]


def _taken(owner: NodeSpec | Fault, name: str, advice: str) -> Iterator[Fault]:
    """Yield a fault if a start or an end cannot be given a name, as it has it already or is not there."""
    if isinstance(owner, Fault):
        yield owner
    elif name in _names(owner, (listed := _LISTS[owner.type])[0], 0):
        yield Fault("name", f"{owner.id!r} has the {listed[1]} {name!r} already; {advice}", "duplicate-name")


def _missing(owner: NodeSpec | Fault, name: str) -> Iterator[Fault]:
    """Yield a fault if a start or an end does not have a name, or is not there."""
    if isinstance(owner, Fault):
        yield owner
    elif name not in (known := _names(owner, (listed := _LISTS[owner.type])[0], 0)):
        what = (
            f"{owner.id!r} has no {listed[1]} {name!r}{did_you_mean(name, known)}; it has: {shorten(known) or 'none'}"
        )
        yield Fault("name", what, "undefined-variable")


def _with(graph: NodeGraph, owner: NodeSpec | Fault, item: Sequence[Any]) -> NodeGraph:
    """Return the workflow with a new last input or output."""
    assert isinstance(owner, NodeSpec)  # noqa: S101 - there are no faults
    params, param = fields_of(owner.params), _LISTS[owner.type][0]
    return with_params(graph, owner.id, {**params, param: [*list_of(params.get(param)), list(item)]})


def _without(graph: NodeGraph, owner: NodeSpec | Fault, name: str) -> NodeGraph:
    """Return the workflow without an input or an output."""
    assert isinstance(owner, NodeSpec)  # noqa: S101 - there are no faults
    params, param = fields_of(owner.params), _LISTS[owner.type][0]
    kept: Fields = {param: [item for item in list_of(params.get(param)) if _name(item, 0) != name]}
    for about in _BY_VARIABLE.get(owner.type, ()):
        if name in (given := fields_of(params.get(about))):
            kept[about] = {other: value for other, value in given.items() if other != name}
    return with_params(graph, owner.id, {**params, **kept})


class AddInput(Operation):
    """Adds an input of the workflow, a variable of its start node."""

    op: Literal["add_input"] = "add_input"
    name: Name
    type: VariableType = Field(default=VariableType.STRING, description="Its type.")

    def faults(self, graph: NodeGraph, types: Types) -> Iterator[Fault]:
        """Yield faults: no start node, or a taken name."""
        return _taken(_start(graph), self.name, "leave this out")

    def apply(self, graph: NodeGraph, types: Types) -> NodeGraph:
        """Return the workflow with the new input as the last input."""
        return _with(graph, _start(graph), [self.name, self.type.value])


class RemoveInput(Operation):
    """Removes an input of the workflow, with its default; what reads it is not changed."""

    op: Literal["remove_input"] = "remove_input"
    name: str = Field(min_length=1, description="Its name.")

    def faults(self, graph: NodeGraph, types: Types) -> Iterator[Fault]:
        """Yield faults: no start node, or no such input."""
        return _missing(_start(graph), self.name)

    def apply(self, graph: NodeGraph, types: Types) -> NodeGraph:
        """Return the workflow without the input."""
        return _without(graph, _start(graph), self.name)


class AddOutput(Operation):
    """Adds an output of the workflow to an end."""

    op: Literal["add_output"] = "add_output"
    name: Name
    value: Annotated[Selector, BeforeValidator(lambda given: in_lists(Selector, given))] = Field(
        description="The variable that it is: id.variable."
    )
    node: str = Field(default="", description="The end; may be left out where there is one.")

    def faults(self, graph: NodeGraph, types: Types) -> Iterator[Fault]:
        """Yield faults: no end or several, a taken name, a missing node."""
        yield from _taken(_end(graph, self.node), self.name, "set its outputs to change it")
        yield from undefined(graph, "value", self.value.node)

    def apply(self, graph: NodeGraph, types: Types) -> NodeGraph:
        """Return the workflow with the new output as the last output of the end."""
        return _with(graph, _end(graph, self.node), [self.name, list(self.value)])


class RemoveOutput(Operation):
    """Removes an output of the workflow from an end."""

    op: Literal["remove_output"] = "remove_output"
    name: str = Field(min_length=1, description="Its name.")
    node: str = Field(default="", description="The end; may be left out where there is one.")

    def faults(self, graph: NodeGraph, types: Types) -> Iterator[Fault]:
        """Yield faults: no end or several, or no such output."""
        return _missing(_end(graph, self.node), self.name)

    def apply(self, graph: NodeGraph, types: Types) -> NodeGraph:
        """Return the workflow without the output."""
        return _without(graph, _end(graph, self.node), self.name)


def named_outputs(end: NodeSpec) -> list[tuple[str, Any]]:
    """Return the names and variables of the outputs of an end that have both."""
    outputs = pairs_of(fields_of(end.params).get("outputs"))
    return [(name, value) for name, value in outputs if isinstance(name, str)]
