"""Files of experts as values that can be changed: operators, chains and evaluators; the rest of the text stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import Any, NamedTuple, cast

from operad.configs.reading import name_functions, name_operators, places
from operad.flows.edit.paths import Step, path_of
from operad.flows.formats.kept_text import edited
from operad.flows.formats.shapes import fields_of, list_of
from operad.flows.formats.yaml_edit import NotKeptError, anchored, values_of
from operad.flows.formats.yaml_text import Alias
from operad.runtime.values.document import parse_document
from operad.runtime.values.errors import InputError

EVALUATOR = "evaluator"


class Item(NamedTuple):
    """An operator in a chain.

    Attributes:
        port: Port from which the chain continues; None for any.
    """

    name: str
    port: str | None = None


Chains = Sequence[Sequence[Item]]


@dataclass(frozen=True, slots=True)
class ExpertFile:
    """A file of experts. Each change returns another one, whose text differs only where the change requires it.

    Attributes:
        name: Name of the file, for errors.
        data: The values; all operators have names, and an alias is the same object as its anchor.
    """

    text: str
    name: str = ""
    data: dict[str, Any] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        document = parse_document(self.text, self.name)
        name_operators(document)
        name_functions(document)
        object.__setattr__(self, "data", document.data)

    @property
    def values(self) -> dict[str, Any]:
        """The values as written, in which each alias is an `Alias`; a copy, which may be modified.

        Raises:
            NotKeptError: The text cannot be changed, for example as it has keys that begin with a question mark.
        """
        return values_of(self.text)

    # Reading

    def chains(self, expert: int) -> list[list[Item]]:
        """Return the chains of an expert, given its index."""
        workflow = fields_of(list_of(self.data["experts"])[expert]).get("workflow")
        return [[_item(item) for item in list_of(chain)] for chain in list_of(workflow)]

    def evaluators(self, expert: int) -> list[str]:
        """Return the names of an expert's evaluators, in order."""
        value = fields_of(list_of(self.data["experts"])[expert]).get(EVALUATOR)
        return [_item(evaluator).name for evaluator in _as_list(value)]

    def definitions(self) -> dict[str, tuple[tuple[Step, ...], dict[str, Any]]]:
        """Return the path and the data of each operator and evaluator, by name."""
        found: dict[str, tuple[tuple[Step, ...], dict[str, Any]]] = {}
        for _, path, value in places(self.data):
            if isinstance(value, dict):
                fields = cast("dict[str, Any]", value)
                found.setdefault(str(fields["name"]), (path, fields))
        return found

    # Values

    def with_values(self, values: Any) -> ExpertFile:
        """Return the file with other values.

        Raises:
            NotKeptError: The text cannot get these values.
        """
        return ExpertFile(edited(self.text, values), self.name)

    def with_value(self, path: Sequence[Step], value: Any) -> ExpertFile:
        """Return the file with another value at a path; a new key is the first of its mapping.

        Raises:
            InputError: The path does not exist, or leads to a part that is shared by an anchor.
        """
        values = self.values
        holder, last = _at(values, path[:-1]), path[-1]
        if isinstance(holder, dict) and isinstance(last, str):
            fields = cast("dict[str, Any]", holder)
            old = {} if last in fields else dict(fields)
            for key in old:
                del fields[key]
            fields |= {last: value, **old}
        elif isinstance(holder, list) and isinstance(last, int) and last < len(cast("list[Any]", holder)):
            holder[last] = value
        else:
            raise InputError(f"{path_of(path)}: is not in the file; edit the list as a whole")
        return self.with_values(values)

    def without_field(self, path: Sequence[Step], name: str) -> ExpertFile:
        """Return the file without a key of the mapping at a path.

        Raises:
            InputError: The path does not exist, or leads to a part that is shared by an anchor.
        """
        values = self.values
        fields_of(_at(values, path)).pop(name, None)
        return self.with_values(values)

    def with_fields(self, path: Sequence[Step], fields: Mapping[str, Any]) -> ExpertFile:
        """Return the file with keys of a mapping added or replaced; a key that has another spelling keeps it.

        Raises:
            InputError: The path does not exist, or leads to a part that is shared by an anchor.
        """
        values = self.values
        holder = _at(values, path)
        if not isinstance(holder, dict):
            raise InputError(f"{path_of(path)}: must be a mapping; edit it in the file")
        for key, value in fields.items():
            other = {"output": "output_schema", "desc": "description"}.get(key, key)
            holder[other if other in holder else key] = value
        return self.with_values(values)

    # Operators

    def with_operator(self, name: str, params: Mapping[str, Any]) -> ExpertFile:
        """Return the file with another operator at the end of `operators`, if it has that list."""
        values = self.values
        if not isinstance(values.get("operators"), list) or not values["operators"]:
            return self
        values["operators"].append(_operator(name, params))
        return self.with_values(values)

    def without_operator(self, expert: int, name: str, *, rewire: bool) -> ExpertFile:
        """Return the file without an operator of an expert, and without its definition if nothing else refers to it.

        Args:
            expert: Index of the expert.
            rewire: True if its successors follow its predecessors.

        Raises:
            InputError: It is the only operator.
        """
        chains = without(self.chains(expert), name, rewire=rewire)
        if not chains:
            raise InputError(f"{name!r} is the only operator of its expert; add another one first")
        return self.without_input(expert, name).with_chains(expert, chains).without_unused(name)

    def without_input(self, expert: int, name: str, of: str | None = None) -> ExpertFile:
        """Return the file without an operator in the `inputs` of another of its expert, or of all others."""
        values = self.values
        names = {item.name for chain in self.chains(expert) for item in chain}
        for other, (path, fields) in self.definitions().items():
            if other in names and of in (None, other) and name in list_of(fields.get("inputs")):
                _at(values, (*path, "inputs")).remove(name)
                if not _at(values, (*path, "inputs")):
                    del _at(values, path)["inputs"]
        return self.with_values(values)

    def without_unused(self, name: str) -> ExpertFile:
        """Return the file without the definition of an operator in `operators`, if nothing refers to it."""
        listed = list_of(self.data.get("operators"))
        index = next((n for n, operator in enumerate(listed) if fields_of(operator).get("name") == name), None)
        if index is None or sum(_item(value).name == name for _, _, value in places(self.data) if value) > 1:
            return self
        values = self.values
        del values["operators"][index]
        if not values["operators"]:
            del values["operators"]
        return self.with_values(values)

    def renamed(self, path: Sequence[Step], old: str, new: str) -> ExpertFile:
        """Return the file with another name for the operator at a path, also where it is referred to."""
        values = self.values
        for _, place, value in places(self.data):
            try:
                holder = _at(values, place[:-1])
            except InputError:  # an alias; its anchor is another place
                continue
            if value is None:
                continue
            if value == old and holder[place[-1]] == old:
                holder[place[-1]] = new
            fields = fields_of(holder[place[-1]])
            if isinstance(fields.get("inputs"), list):
                fields["inputs"] = [new if each == old else each for each in fields["inputs"]]
            source, dot, output = str(fields_of(fields.get("map")).get("over") or "").partition(".")
            if source == old and dot:
                fields["map"] = {**fields["map"], "over": f"{new}.{output}"}
        return ExpertFile(edited(self.text, values), self.name).with_value((*path, "name"), new)

    # Chains and evaluators

    def with_chains(self, expert: int, chains: Chains, params: Mapping[str, Any] | None = None) -> ExpertFile:
        """Return the file with other chains for an expert; items that stay are not touched.

        Args:
            expert: Index of the expert.
            chains: The new chains.
            params: Fields of a new operator, which is defined in its chain if `operators` does not define it.

        Raises:
            InputError: The file would lose an operator that is defined in a chain and used elsewhere.
        """
        chain_writer = _ChainWriter(self, expert, chains, params or {})
        values = self.values
        values["experts"][expert]["workflow"] = [[chain_writer.value(item) for item in chain] for chain in chains]
        try:
            return ExpertFile(edited(chain_writer.text, values), self.name)
        except NotKeptError as error:
            raise InputError(
                "the chains cannot be changed here without losing an operator that is written in one of them; define "
                "that operator under `operators`, or edit the chains in the file"
            ) from error

    def with_evaluators(self, expert: int, names: Sequence[str], params: Mapping[str, Any] | None = None) -> ExpertFile:
        """Return the file with other evaluators for an expert; those that stay are not touched.

        Args:
            expert: Index of the expert.
            names: Names of the evaluators; empty for none.
            params: Fields of a new evaluator, which is defined in its place if the file does not define it.
        """
        values = self.values
        fields: dict[str, Any] = _at(values, ("experts", expert))
        old = fields.get(EVALUATOR)
        new = {name: _operator(name, params) for name in names if params and name not in self.definitions()}
        written = new | dict(zip(self.evaluators(expert), _as_list(old), strict=False))
        listed = [written.get(name, name) for name in names]
        value = listed[0] if len(listed) == 1 and not isinstance(old, list) else listed
        if not listed:
            fields.pop(EVALUATOR, None)
        elif old is not None:
            fields[EVALUATOR] = value
        else:
            place = list(fields).index("workflow") + 1
            entries = list(fields.items())
            values["experts"][expert] = dict([*entries[:place], (EVALUATOR, value), *entries[place:]])
        return self.with_values(values)


class _ChainWriter:
    """Values of items of changed chains: those that the file has, as far as possible.

    Args:
        expert: Index of the expert.
        chains: The new chains.
        params: Fields of a new operator; empty if there is none.

    Attributes:
        text: The text of the file, with anchors for aliases that the values have.
    """

    def __init__(self, file: ExpertFile, expert: int, chains: Chains, params: Mapping[str, Any]) -> None:
        self.text = file.text
        self._path: tuple[Step, ...] = ("experts", expert, "workflow")
        self._params = params
        self._listed = {str(fields_of(operator).get("name")) for operator in list_of(file.data.get("operators"))}
        self._places: dict[str, tuple[Step, ...]] = {}
        self._used: set[str] = set()
        self._kept: dict[Item, list[Any]] = {}
        self._spare: dict[str, Any] = {}
        wanted = {item for chain in chains for item in chain}
        for number, chain in enumerate(file.chains(expert)):
            written = _at(file.values, (*self._path, number))
            for index, (item, value) in enumerate(zip(chain, written, strict=True)):
                self._kept.setdefault(item, []).append(value)
                inner = fields_of(value).get("operator", value)
                if isinstance(inner, dict):
                    step = () if inner is value else ("operator",)
                    self._places[item.name] = (*self._path, number, index, *step)
                if isinstance(inner, dict) or item not in wanted:
                    self._spare[item.name] = inner

    def value(self, item: Item) -> Any:
        """Return the value of the next item."""
        kept = self._kept.get(item, [])
        value = kept.pop(0) if kept else self._operator(item.name)
        if isinstance(fields_of(value).get("operator", value), dict):
            self._used.add(item.name)
        if item.port is not None and "port" not in fields_of(value):
            value = {"operator": value, "port": item.port}
        return value

    def _operator(self, name: str) -> Any:
        """Return an operator: the one that another item named or defined, its name, an alias, or a new definition."""
        if name in self._places and name in self._used:
            self.text, anchor = anchored(self.text, self._places[name], name)
            return Alias(anchor)
        new = _operator(name, self._params) if self._params and name not in self._listed else name
        return self._spare.get(name, new)


def _at(values: Any, path: Sequence[Step]) -> Any:
    """Return the value at a path."""
    for number, step in enumerate(path):
        try:
            values = values[step]
        except (KeyError, IndexError, TypeError) as error:
            raise InputError(f"{path_of(path[: number + 1])}: is not in the file; write it there first") from error
        if isinstance(values, Alias):
            raise InputError(
                f"{path_of(path[: number + 1])}: others share it by an anchor (& and *); edit it in the file"
            )
    return values


def _item(value: Any) -> Item:
    fields = fields_of(value)
    if "operator" in fields:
        return Item(_item(fields["operator"]).name, fields.get("port"))
    return Item(str(fields["name"]) if fields else str(value))


def _operator(name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, "instruction": "", **params}


def _as_list(value: Any) -> list[Any]:
    return list_of(value) if isinstance(value, list) else [] if value is None else [value]


# Changes of chains


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


def inserted(chains: Chains, name: str, after: Item | str | None, before: str | None) -> list[list[Item]]:
    """Return the chains with an operator between two others.

    Args:
        name: Name of the new operator.
        after: The operator before it, or only its name, for any port; None for the beginning.
        before: Name of the operator after it; None for any, and for the end.
    """
    result: list[list[Item]] = []
    for chain in chains:
        longer: list[Item] = []
        for item, following in zip([None, *chain], [*chain, None], strict=True):
            longer += [] if item is None else [item]
            fits_after = after is None or (item is not None and after in (item, item.name))
            fits_before = before is None or (following is not None and following.name == before)
            longer += [Item(name)] if fits_after and fits_before else []
        result.append(longer)
    return result


def without(chains: Chains, name: str, *, rewire: bool) -> list[list[Item]]:
    """Return the chains without an operator; with ``rewire``, its successors follow its predecessors."""
    edges = [edge for chain in chains for edge in pairwise(chain)]
    result: list[list[Item]] = []
    for chain in chains:
        part: list[Item] = []
        for item in chain:
            if item.name == name and not rewire:
                result.append(part)
                part = []
            part += [item] if item.name != name else []
        result.append(part)
    result = [[*part[:-1], Item(part[-1].name)] for part in result if part]
    if rewire:
        successors = [second for first, second in edges if first.name == name]
        for source, target in product([first for first, second in edges if second.name == name], successors):
            if not any((source, target.name) == (a, b.name) for chain in result for a, b in pairwise(chain)):
                result = connected(result, source, target.name)
    return _without_redundant(result)


def _without_redundant(chains: Chains) -> list[list[Item]]:
    """Return the chains without those that are a part of another one."""
    kept: list[list[Item]] = []
    for index, chain in enumerate(chains):
        if not any(_contains(other, chain) for other in (*kept, *chains[index + 1 :])):
            kept.append(list(chain))
    return kept


def _contains(chain: Sequence[Item], part: Sequence[Item]) -> bool:
    """Return True if a chain has the edges of another one, or, if that has none, its operator."""
    if len(part) == 1:
        return any(item.name == part[0].name for item in chain)
    edges = [(first, second.name) for first, second in pairwise(part)]
    found = [(first, second.name) for first, second in pairwise(chain)]
    return any(found[start : start + len(edges)] == edges for start in range(len(found) - len(edges) + 1))
