"""Walk through a node's parameters along with their declared types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin, get_type_hints

from operad.flows.formats import shapes
from operad.flows.node_graph import NodeSpec
from operad.operators.node import NodeOperator, NodeParams
from operad.operators.nodes import NODE_TYPES
from operad.operators.variables import Selector, Text

Change = Callable[[Any, Any], Any]
"""Function of the declared type of a value and the value as given. It returns the new value, or the same."""


def params_type_of(node: NodeSpec) -> type[NodeParams] | None:
    """Return the declared type of a node's parameters; None for an unknown node type."""
    node_type: type[NodeOperator[Any]] | None = NODE_TYPES.get(node.type)
    return node_type.params_type if node_type else None


def declared(params: Any, key: str) -> list[str]:
    """Return the names that parameters declare as ``[[name, …], …]``."""
    pairs = map(shapes.list_of, shapes.list_of(shapes.fields_of(params).get(key)))
    return [pair[0] for pair in pairs if pair and isinstance(pair[0], str)]


fields_of: Callable[[type], Mapping[str, Any]] = cache(get_type_hints)
"""Declared types of the fields of a parameters class or of a named tuple, by name."""


def is_record(wanted: Any) -> bool:
    """Return whether a type is a named tuple other than a selector: ``[name, value]`` and such."""
    return isinstance(wanted, type) and issubclass(wanted, tuple) and wanted is not Selector


def changed(node: NodeSpec, change: Change) -> Any:
    """Return a node's parameters with every value passed through a change, outer values before the values in them."""
    params_type = params_type_of(node)
    given = shapes.fields_of(node.params)
    if params_type is None or not given:
        return node.params
    fields = fields_of(params_type)
    return {name: walk(fields[name], value, change) if name in fields else value for name, value in given.items()}


def walk(wanted: Any, given: Any, change: Change) -> Any:
    """Return a value passed through a change, then do the same with the items of the result."""
    wanted = plain(wanted)
    given = change(wanted, given)
    if get_origin(wanted) in (Union, UnionType):
        return given
    if get_origin(wanted) is list and isinstance(given, list):
        (item,) = get_args(wanted)
        return [walk(item, element, change) for element in cast("list[Any]", given)]
    if get_origin(wanted) in (dict, Mapping) and isinstance(given, Mapping):
        _, item = get_args(wanted)
        return {name: walk(item, each, change) for name, each in cast("Mapping[str, Any]", given).items()}
    if is_record(wanted) and isinstance(given, list | tuple):
        types = list(fields_of(wanted).values())
        values = list(cast("Sequence[Any]", given))
        return [
            walk(types[number], value, change) if number < len(types) else value for number, value in enumerate(values)
        ]
    return given


def plain(wanted: Any) -> Any:
    """Return a type without annotations; for a union, its only type other than None, or else `Text` or `Selector`."""
    if get_origin(wanted) is Annotated:
        return plain(get_args(wanted)[0])
    if get_origin(wanted) in (Union, UnionType):
        branches = [plain(branch) for branch in get_args(wanted) if branch is not type(None)]
        if len(branches) == 1:
            return branches[0]
        if Text in branches:
            return Text
        if Selector in branches:
            return Selector
    return wanted


def renamed(node: NodeSpec, name: Callable[[Selector], Selector]) -> Any:
    """Return a node's parameters with every variable that they name replaced by the result of a function."""

    def change(wanted: Any, given: Any) -> Any:
        if wanted in (Selector, Text) and isinstance(given, list):  # many texts can also be a variable
            match cast("list[Any]", given):
                case [str() as variable, str() as node_id]:
                    return list(name(Selector(variable, node_id)))
                case _:
                    return cast("Any", given)
        if wanted is Text and isinstance(given, str):
            text = Text(given)
            is_changed = any(name(selector) != selector for selector in text.selectors)
            return text.renamed(lambda selector: name(selector).in_text) if is_changed else given
        return given

    return changed(node, change)


def selectors_of(node: NodeSpec) -> list[Selector]:
    """Return the variables that a node's parameters name, even if these are not valid."""
    found: list[Selector] = []

    def note(selector: Selector) -> Selector:
        found.append(selector)
        return selector

    renamed(node, note)
    return found
