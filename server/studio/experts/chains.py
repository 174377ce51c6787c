"""Chains of an expert in a YAML file: their edges, and minimal changes of the text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any, NamedTuple, cast

from operad.configs.reading import name_functions, name_operators
from operad.flows.edit.paths import Step
from operad.flows.formats.shapes import fields_of, list_of
from operad.runtime.values.document import parse_document
from operad.runtime.values.errors import InputError
from operad.server.studio.experts.yaml_items import anchored, part_at, scalar, with_item, with_part, without_item
from operad.server.studio.experts.yaml_values import with_value


class Item(NamedTuple):
    """An operator in a chain.

    Attributes:
        name: Name of the operator.
        port: Port from which the chain continues; None for any.
    """

    name: str
    port: str | None = None


Chains = Sequence[Sequence[Item]]


def named(text: str) -> dict[str, Any]:
    """Return the data of a file in which all operators have names."""
    document = parse_document(text, "")
    name_operators(document)
    name_functions(document)
    return document.data


def chains_of(data: Mapping[str, Any], number: int) -> list[list[Item]]:
    """Return the chains of an expert.

    Args:
        data: Data of the file, with names.
        number: Index of the expert.
    """
    expert = fields_of(list_of(data["experts"])[number])
    return [[_item(item) for item in list_of(chain)] for chain in list_of(expert.get("workflow"))]


def _item(value: Any) -> Item:
    fields = fields_of(value)
    if "operator" in fields:
        return Item(_item(fields["operator"]).name, fields.get("port"))
    return Item(str(fields["name"]) if fields else str(value))


def items_in(value: Any) -> list[list[Item]]:
    """Return the chains in a form's value: lists of names, and of ``{operator, port}``.

    Raises:
        InputError: The value has another form.
    """
    chains = [[_item_in_form(item) for item in list_of(chain)] for chain in list_of(value)]
    if not chains or not all(chains):
        raise InputError("workflow: give at least one chain, and at least one operator in each")
    return chains


def _item_in_form(value: Any) -> Item:
    fields = fields_of(value)
    name, port = (fields.get("operator"), fields.get("port")) if fields else (value, None)
    if not isinstance(name, str) or not (port is None or isinstance(port, str)):
        raise InputError(
            f"workflow: expected the name of an operator, or {{operator, port}}, got {json.dumps(value)[:60]}"
        )
    return Item(name, port)


# Edges


def connected(chains: Chains, source: Item, target: str) -> list[list[Item]]:
    """Return the chains with another edge: a chain is extended at its end or start, or added."""
    result = [list(chain) for chain in chains]
    for chain in result:
        if chain[-1].name == source.name and (source.port is None or len(chain) == 1):
            chain[-1:] = [source, Item(target)]
            return _without_redundant(result)
    for chain in result:
        if chain[0].name == target:
            chain.insert(0, source)
            return _without_redundant(result)
    return _without_redundant([*result, [source, Item(target)]])


def disconnected(chains: Chains, source: Item, target: str) -> list[list[Item]]:
    """Return the chains without an edge; chains that contain it are split."""
    result: list[list[Item]] = []
    for chain in chains:
        rest: list[Item] = []
        for item, following in zip(chain, [*chain[1:], None], strict=True):
            is_cut = item == source and following is not None and following.name == target
            rest.append(Item(item.name) if is_cut else item)
            if is_cut:
                result.append(rest)
                rest = []
        result.append(rest)
    return _without_redundant(result)


def put_between(chains: Chains, source: Item, target: str, name: str) -> list[list[Item]]:
    """Return the chains with an operator inserted into an edge."""
    result: list[list[Item]] = []
    for chain in chains:
        longer: list[Item] = []
        for item, following in zip(chain, [*chain[1:], None], strict=True):
            is_split = item == source and following is not None and following.name == target
            longer += [item, Item(name)] if is_split else [item]
        result.append(longer)
    return result


def without(chains: Chains, name: str, *, rewire: bool) -> list[list[Item]]:
    """Return the chains without an operator; with ``rewire``, its successors follow its predecessors."""
    edges = [edge for chain in chains for edge in pairwise(chain)]
    predecessors = [first for first, second in edges if second.name == name]
    successors = [second for first, second in edges if first.name == name]
    result = [list(chain) for chain in chains]
    if rewire:
        remaining = [[item for item in chain if item.name != name] for chain in result]
        remaining = [_without_last_port(chain) for chain in remaining if chain]
        for first in predecessors:
            for second in successors:
                if not any(
                    (first, second.name) == (source_item, target_item.name)
                    for chain in remaining
                    for source_item, target_item in pairwise(chain)
                ):
                    remaining = connected(remaining, first, second.name)
        return _without_redundant(remaining)
    for first in predecessors:
        result = disconnected(result, first, name)
    for second in successors:
        for source in [first for first, following in edges if first.name == name and following.name == second.name]:
            result = disconnected(result, source, second.name)
    return [kept for chain in result if (kept := [item for item in chain if item.name != name])]


def _without_last_port(chain: Sequence[Item]) -> list[Item]:
    return [*chain[:-1], Item(chain[-1].name)]


def _without_redundant(chains: Chains) -> list[list[Item]]:
    """Return the chains without those of a single operator that is in another chain, too."""
    kept: list[list[Item]] = []
    for index, chain in enumerate(chains):
        others = [*kept, *chains[index + 1 :]]
        if len(chain) > 1 or not any(chain[0].name == item.name for other in others for item in other):
            kept.append(list(chain))
    return kept


# The text


def in_place(name: str, params: Mapping[str, Any]) -> str:
    """Return the definition of a new operator as YAML in one line."""
    fields = {"instruction": "", **params}
    entries = [f"{scalar(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in fields.items()]
    return f"{{{', '.join([f'name: {scalar(name)}', *entries])}}}"


def with_chains(text: str, number: int, chains: Chains, params: Mapping[str, Any]) -> str:
    """Return the text of a file with other chains for an expert; items and chains that stay are not touched.

    Args:
        text: The text.
        number: Index of the expert.
        chains: The new chains.
        params: Fields of a new operator, which is defined in its chain if the file does not define it.
    """
    path: tuple[Step, ...] = ("experts", number, "workflow")
    data = named(text)
    before = chains_of(data, number)
    chain_text = _ChainText(data, text, path, params)
    matcher = SequenceMatcher(None, [tuple(chain) for chain in before], [tuple(chain) for chain in chains], False)
    for kind, begin, end, first, last in reversed(matcher.get_opcodes()):
        if kind == "equal":
            continue
        paired = min(end - begin, last - first)
        for index in range(first + paired, last):
            chain_text.add(path, begin + index - first, f"[{', '.join(map(chain_text.item, chains[index]))}]")
        for index in range(end - 1, begin + paired - 1, -1):
            chain_text.remove(path, index)
        for index in range(paired - 1, -1, -1):
            chain_text.change_chain((*path, begin + index), before[begin + index], chains[first + index])
    return chain_text.text


class _ChainText:
    """Text of a file in which items of chains are added and removed one after the other."""

    def __init__(self, data: Mapping[str, Any], text: str, path: tuple[Step, ...], params: Mapping[str, Any]) -> None:
        self.text = text
        self._params = params
        self._path = path
        self._defined = {str(fields_of(operator).get("name")) for operator in list_of(data.get("operators"))}

    def item(self, item: Item) -> str:
        """Return an operator of a chain as YAML: its name, or an alias of its definition in place."""
        name = scalar(item.name) if item.name in self._defined else self._alias(item.name)
        return name if item.port is None else f"{{operator: {name}, port: {json.dumps(item.port, ensure_ascii=False)}}}"

    def _alias(self, name: str) -> str:
        for place in self._definition_paths(name):
            self.text, anchor = anchored(self.text, place, name)
            return f"*{anchor}"
        return in_place(name, self._params) if self._params else scalar(name)

    def _definition_paths(self, name: str) -> list[tuple[Step, ...]]:
        """Return the paths of the chain items that define an operator in place."""
        chains = list_of(value_at(named(self.text), self._path))
        found: list[tuple[Step, ...]] = []
        for number, chain in enumerate(chains):
            for index, value in enumerate(list_of(chain)):
                inner = fields_of(value).get("operator", value)
                item_path = (*self._path, number, index, *(("operator",) if inner is not value else ()))
                part = part_at(self.text, item_path)
                if fields_of(inner).get("name") == name and part is not None and part.kind == "map":
                    found.append(item_path)
        return found

    def add(self, path: tuple[Step, ...], at: int, written: str) -> None:
        self.text = with_item(self.text, path, at, written)

    def remove(self, path: tuple[Step, ...], at: int) -> None:
        self.text = without_item(self.text, path, at)

    def change_chain(self, path: tuple[Step, ...], old: Sequence[Item], new: Sequence[Item]) -> None:
        for kind, begin, end, first, last in reversed(SequenceMatcher(None, old, new, False).get_opcodes()):
            if kind == "equal":
                continue
            paired = min(end - begin, last - first)
            for index in range(first + paired, last):
                self.add(path, begin + index - first, self.item(new[index]))
            for index in range(end - 1, begin + paired - 1, -1):
                self.remove(path, index)
            for index in range(paired - 1, -1, -1):
                self._replace((*path, begin + index), old[begin + index], new[first + index])

    def _replace(self, path: tuple[Step, ...], old: Item, new: Item) -> None:
        """Replace an item; if the operator is the same, change only the port."""
        part = part_at(self.text, path)
        if part is not None and old.name == new.name and old.port is None and part.flow and part.kind == "map":
            inner = self.text[part.begin : part.end]
            step = f"{{operator: {inner}, port: {json.dumps(new.port, ensure_ascii=False)}}}"
            self.text = with_part(self.text, path, step)
        elif part is not None and old.name == new.name and new.port is not None and old.port is not None:
            self.text = with_value(self.text, (*path, "port"), new.port)
        elif part is not None and old.name == new.name and (inner := part.child("operator")):
            self.text = with_part(self.text, path, self.text[inner.begin : inner.end])
        elif part is not None and old.name == new.name and part.kind in ("alias", "scalar"):
            operator_yaml = self.text[part.begin : part.end]
            step = f"{{operator: {operator_yaml}, port: {json.dumps(new.port, ensure_ascii=False)}}}"
            self.text = with_part(self.text, path, step)
        else:
            self.add(path[:-1], cast("int", path[-1]) + 1, self.item(new))
            self.remove(path[:-1], cast("int", path[-1]))


def value_at(data: Any, path: Iterable[Step]) -> Any:
    """Return the value at a path."""
    for step in path:
        data = data[step]
    return data
