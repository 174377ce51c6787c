"""The chains of an expert in a YAML file: their edges, and changes of them that touch nothing else in the text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any, NamedTuple, cast

from operad.configs.names import name_functions, name_operators
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
        port: The port from which the chain goes on; None for any.
    """

    name: str
    port: str | None = None


Chains = Sequence[Sequence[Item]]


def named(text: str) -> dict[str, Any]:
    """Return the data of a file, in which each operator has its name."""
    document = parse_document(text, "")
    name_operators(document)
    name_functions(document)
    return document.data


def chains_of(data: Mapping[str, Any], number: int) -> list[list[Item]]:
    """Return the chains of an expert.

    Args:
        data: Data of the file, with names.
        number: Place of the expert.
    """
    expert = fields_of(list_of(data["experts"])[number])
    return [[_item(each) for each in list_of(chain)] for chain in list_of(expert.get("workflow"))]


def _item(value: Any) -> Item:
    fields = fields_of(value)
    if "operator" in fields:
        return Item(_item(fields["operator"]).name, fields.get("port"))
    return Item(str(fields["name"]) if fields else str(value))


def items_in(value: Any) -> list[list[Item]]:
    """Return chains that a form gives: lists of names, and of ``{operator, port}``.

    Raises:
        InputError: The value has another form.
    """
    chains = [[_read(each) for each in list_of(chain)] for chain in list_of(value)]
    if not chains or not all(chains):
        raise InputError("workflow: give at least one chain, and at least one operator in each")
    return chains


def _read(value: Any) -> Item:
    fields = fields_of(value)
    name, port = (fields.get("operator"), fields.get("port")) if fields else (value, None)
    if not isinstance(name, str) or not (port is None or isinstance(port, str)):
        raise InputError(
            f"workflow: expected the name of an operator, or {{operator, port}}, got {json.dumps(value)[:60]}"
        )
    return Item(name, port)


# Edges


def connected(chains: Chains, source: Item, target: str) -> list[list[Item]]:
    """Return the chains with an edge more: a chain goes on, begins earlier, or is added."""
    made = [list(chain) for chain in chains]
    for chain in made:
        if chain[-1].name == source.name and (source.port is None or len(chain) == 1):
            chain[-1:] = [source, Item(target)]
            return _without_single(made)
    for chain in made:
        if chain[0].name == target:
            chain.insert(0, source)
            return _without_single(made)
    return _without_single([*made, [source, Item(target)]])


def disconnected(chains: Chains, source: Item, target: str) -> list[list[Item]]:
    """Return the chains without an edge: those that hold it are cut in two."""
    made: list[list[Item]] = []
    for chain in chains:
        rest: list[Item] = []
        for item, following in zip(chain, [*chain[1:], None], strict=True):
            cut = item == source and following is not None and following.name == target
            rest.append(Item(item.name) if cut else item)
            if cut:
                made.append(rest)
                rest = []
        made.append(rest)
    return _without_single(made)


def put_between(chains: Chains, source: Item, target: str, name: str) -> list[list[Item]]:
    """Return the chains with an operator in an edge."""
    made: list[list[Item]] = []
    for chain in chains:
        longer: list[Item] = []
        for item, following in zip(chain, [*chain[1:], None], strict=True):
            split = item == source and following is not None and following.name == target
            longer += [item, Item(name)] if split else [item]
        made.append(longer)
    return made


def without(chains: Chains, name: str, *, rewire: bool) -> list[list[Item]]:
    """Return the chains without an operator; with ``rewire``, those after it follow those before it."""
    edges = [edge for chain in chains for edge in pairwise(chain)]
    before = [first for first, second in edges if second.name == name]
    after = [second for first, second in edges if first.name == name]
    made = [list(chain) for chain in chains]
    if rewire:
        left = [[item for item in chain if item.name != name] for chain in made]
        left = [_without_last_port(chain) for chain in left if chain]
        for first in before:
            for second in after:
                if not any((first, second.name) == (one, two.name) for chain in left for one, two in pairwise(chain)):
                    left = connected(left, first, second.name)
        return _without_single(left)
    for first in before:
        made = disconnected(made, first, name)
    for second in after:
        for source in [first for first, then in edges if first.name == name and then.name == second.name]:
            made = disconnected(made, source, second.name)
    return [kept for chain in made if (kept := [item for item in chain if item.name != name])]


def _without_last_port(chain: Sequence[Item]) -> list[Item]:
    return [*chain[:-1], Item(chain[-1].name)]


def _without_single(chains: Chains) -> list[list[Item]]:
    """Without chains of one operator that stands in another one, too."""
    kept: list[list[Item]] = []
    for at, chain in enumerate(chains):
        others = [*kept, *chains[at + 1 :]]
        if len(chain) > 1 or not any(chain[0].name == item.name for other in others for item in other):
            kept.append(list(chain))
    return kept


# The text


def in_place(name: str, params: Mapping[str, Any]) -> str:
    """Return a new operator as YAML in one line."""
    fields = {"instruction": "", **params}
    said = [f"{scalar(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in fields.items()]
    return f"{{{', '.join([f'name: {scalar(name)}', *said])}}}"


def with_chains(text: str, number: int, chains: Chains, params: Mapping[str, Any]) -> str:
    """Return the text of a file in which an expert has other chains; items and chains that stay are not touched.

    Args:
        text: The text.
        number: Place of the expert.
        chains: Its chains.
        params: Fields of a new operator, which is written in the chain where the file does not define it.
    """
    path: tuple[Step, ...] = ("experts", number, "workflow")
    data = named(text)
    before = chains_of(data, number)
    written = _Written(data, text, path, params)
    matcher = SequenceMatcher(None, [tuple(chain) for chain in before], [tuple(chain) for chain in chains], False)
    for kind, begin, end, first, last in reversed(matcher.get_opcodes()):
        if kind == "equal":
            continue
        paired = min(end - begin, last - first)
        for at in range(first + paired, last):
            written.add(path, begin + at - first, f"[{', '.join(map(written.item, chains[at]))}]")
        for at in range(end - 1, begin + paired - 1, -1):
            written.drop(path, at)
        for at in range(paired - 1, -1, -1):
            written.change((*path, begin + at), before[begin + at], chains[first + at])
    return written.text


class _Written:
    """A text, in which items of chains are added and dropped one after the other."""

    def __init__(self, data: Mapping[str, Any], text: str, path: tuple[Step, ...], params: Mapping[str, Any]) -> None:
        self.text = text
        self._params = params
        self._path = path
        self._defined = {str(fields_of(each).get("name")) for each in list_of(data.get("operators"))}

    def item(self, item: Item) -> str:
        """An operator in a chain as YAML: its name, or the alias of the one that is written in place."""
        name = scalar(item.name) if item.name in self._defined else self._alias(item.name)
        return name if item.port is None else f"{{operator: {name}, port: {json.dumps(item.port, ensure_ascii=False)}}}"

    def _alias(self, name: str) -> str:
        for place in self._in_place(name):
            self.text, anchor = anchored(self.text, place, name)
            return f"*{anchor}"
        return in_place(name, self._params) if self._params else scalar(name)

    def _in_place(self, name: str) -> list[tuple[Step, ...]]:
        """The places of the chains in which an operator is written."""
        chains = list_of(_at(named(self.text), self._path))
        found: list[tuple[Step, ...]] = []
        for number, chain in enumerate(chains):
            for at, value in enumerate(list_of(chain)):
                inner = fields_of(value).get("operator", value)
                place = (*self._path, number, at, *(("operator",) if inner is not value else ()))
                part = part_at(self.text, place)
                if fields_of(inner).get("name") == name and part is not None and part.kind == "map":
                    found.append(place)
        return found

    def add(self, path: tuple[Step, ...], at: int, written: str) -> None:
        self.text = with_item(self.text, path, at, written)

    def drop(self, path: tuple[Step, ...], at: int) -> None:
        self.text = without_item(self.text, path, at)

    def change(self, path: tuple[Step, ...], old: Sequence[Item], new: Sequence[Item]) -> None:
        for kind, begin, end, first, last in reversed(SequenceMatcher(None, old, new, False).get_opcodes()):
            if kind == "equal":
                continue
            paired = min(end - begin, last - first)
            for at in range(first + paired, last):
                self.add(path, begin + at - first, self.item(new[at]))
            for at in range(end - 1, begin + paired - 1, -1):
                self.drop(path, at)
            for at in range(paired - 1, -1, -1):
                self._replace((*path, begin + at), old[begin + at], new[first + at])

    def _replace(self, path: tuple[Step, ...], old: Item, new: Item) -> None:
        """Another item in the place of one; of the same operator, the port alone is another."""
        part = part_at(self.text, path)
        if part is not None and old.name == new.name and old.port is None and part.flow and part.kind == "map":
            inner = self.text[part.begin : part.end]
            self.text = with_part(self.text, path, f"{{operator: {inner}, port: {json.dumps(new.port)}}}")
        elif part is not None and old.name == new.name and new.port is not None and old.port is not None:
            self.text = with_value(self.text, (*path, "port"), new.port)
        elif part is not None and old.name == new.name and (inner := part.child("operator")):
            self.text = with_part(self.text, path, self.text[inner.begin : inner.end])
        elif part is not None and old.name == new.name and part.kind in ("alias", "scalar"):
            said = self.text[part.begin : part.end]
            step = f"{{operator: {said}, port: {json.dumps(new.port, ensure_ascii=False)}}}"
            self.text = with_part(self.text, path, step)
        else:
            self.add(path[:-1], cast("int", path[-1]) + 1, self.item(new))
            self.drop(path[:-1], cast("int", path[-1]))


def _at(data: Any, path: Iterable[Step]) -> Any:
    for step in path:
        data = data[step]
    return data
