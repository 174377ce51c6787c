"""Operations on a YAML file of experts, as minimal changes of its text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from operad.configs.loader import preview_text
from operad.configs.reading import places
from operad.flows.edit import (
    AddNode,
    Connect,
    Disconnect,
    InsertBetween,
    Operation,
    RemoveNode,
    ReplaceText,
    SetParam,
)
from operad.flows.edit.paths import PathError, Step, steps_of
from operad.flows.formats.shapes import fields_of, list_of
from operad.runtime.values.document import parse_document
from operad.runtime.values.errors import InputError, OperadError, did_you_mean
from operad.server.studio.experts.chains import (
    Item,
    chains_of,
    connected,
    disconnected,
    in_place,
    items_in,
    named,
    put_between,
    value_at,
    with_chains,
    without,
)
from operad.server.studio.experts.graph import EVALUATOR, EXPERT, LEADER, OPERATOR, Part, ports_of, read_parts
from operad.server.studio.experts.judges import FIELD, judges_in, judges_of, with_judges
from operad.server.studio.experts.team import with_expert, with_leader, without_expert, without_leader
from operad.server.studio.experts.yaml_items import part_at, scalar, with_item, with_part, without_item
from operad.server.studio.experts.yaml_values import with_value, written


def edited(data: bytes, operations: Sequence[Operation], path: Path) -> bytes:
    """Return the file after operations on its operators, experts and leader.

    Raises:
        InputError: An operation does not apply to a file of experts.
        InvalidError: The resulting file is not valid; every issue is listed.
    """
    text, remaining = data.decode("utf-8-sig"), list(operations)
    while remaining:
        operation, following = remaining.pop(0), remaining[0] if remaining else None
        if isinstance(operation, AddNode) and isinstance(following, Connect) and following.target == operation.id:
            text = _EditedText(text, path).with_added(operation, remaining.pop(0))
        else:
            text = _EditedText(text, path).applied(operation)
    preview_text(text, path.name, path.parent)
    return text.encode()


class _EditedText:
    """Text of a file to which an operation is applied."""

    def __init__(self, text: str, path: Path) -> None:
        self._text = text
        self._path = path
        self._parts = {part.spec.id: part for part in read_parts(text.encode(), path)[1]}

    def applied(self, operation: Operation) -> str:
        match operation:
            case SetParam(path="workflow") if self._type_of(operation.node) == EXPERT:
                return self._with_chains(self._parts[operation.node].expert, items_in(operation.value))
            case SetParam(path="evaluator") if self._type_of(operation.node) == EXPERT:
                return self._with_evaluators(self._parts[operation.node].expert, judges_in(operation.value))
            case SetParam(path="name") if self._type_of(operation.node) in (OPERATOR, EVALUATOR):
                return self._with_renamed(self._parts[operation.node], operation.value)
            case SetParam() | ReplaceText():
                return self._with_field(operation)
            case AddNode():
                return self.with_added(operation)
            case RemoveNode():
                return self._with_removed(operation)
            case Connect():
                source, target = self._ends(operation.source, operation.target, operation.port)
                return self._with_chains(target.expert, connected(self._chains(target), source, target.name))
            case Disconnect():
                return self._without_edge(*self._ends(operation.source, operation.target, operation.port))
            case InsertBetween():
                return self._with_inserted(operation)
            case _:
                raise InputError(f"{type(operation).__name__}: is for workflows of typed nodes; experts have operators")

    # Parts

    def _type_of(self, node: str) -> str:
        return self._parts[node].spec.type if node in self._parts else ""

    def _part_of(self, node: str, *kinds: str) -> Part:
        part = self._parts.get(node)
        if part is None:
            raise InputError(f"there is no {node!r}{did_you_mean(node, self._parts)}")
        if kinds and part.spec.type not in kinds:
            raise InputError(
                f"{node!r} is an expert; edges lead between operators"
                if part.spec.type == EXPERT
                else f"{node!r} is not an operator but the {part.spec.type}; edges lead between operators"
            )
        return part

    def _ends(self, source: str, target: str, port: int | str | None) -> tuple[Item, Part]:
        source_part, target_part = self._part_of(source, OPERATOR), self._part_of(target, OPERATOR)
        if source_part.expert != target_part.expert:
            raise InputError(f"{source!r} and {target!r} belong to two experts; edges stay within one")
        return self._end(source_part, port), target_part

    def _end(self, part: Part, port: int | str | None) -> Item:
        ports = list(ports_of(part.spec.params))
        if ports and isinstance(port, int) and not 0 <= port < len(ports):
            raise InputError(f"{part.name!r} has the ports {', '.join(ports)}; give 0 to {len(ports) - 1}")
        return Item(part.name, ports[port] if ports and isinstance(port, int) else None)

    def _chains(self, part: Part) -> list[list[Item]]:
        return chains_of(named(self._text), part.expert)

    def _is_edge(self, source: Item, target: Part) -> bool:
        edges = [edge for chain in self._chains(target) for edge in pairwise(chain)]
        return any(before == source and after.name == target.name for before, after in edges)

    # Fields

    def _with_field(self, operation: SetParam | ReplaceText) -> str:
        part = self._part_of(operation.node)
        if part.path is None:
            raise InputError(f"{operation.node!r} has no fields here; edit it in the file")
        try:
            steps = steps_of(operation.path)
        except PathError as error:
            raise InputError(str(error)) from error
        place, value = (*part.path, *steps), _new_value(operation, part.spec.params)
        changed = with_value(self._text, place, value)
        if not _changes_only(self._text, changed, place, value, self._path.name):
            raise InputError(f"{operation.path}: cannot be set without touching other parts; edit it in the file")
        return changed

    def _with_renamed(self, part: Part, name: Any) -> str:
        """Return the text with another name for an operator, also where it is referred to."""
        known = {str(each.get("name")) for _, _, value in places(named(self._text)) if (each := fields_of(value))}
        if not isinstance(name, str) or not name.strip() or name in known or part.path is None:
            raise InputError(f"name: expected a name that no operator of the file has, got {name!r}")
        text = with_value(self._text, (*part.path, "name"), name)
        for _, place, value in places(parse_document(self._text, self._path.name).data):
            at = part_at(text, place)
            if value == part.name and at is not None and at.kind == "scalar":
                text = with_part(text, place, scalar(name))
            fields = fields_of(value)
            for number, each in enumerate(list_of(fields.get("inputs"))):
                at = part_at(text, (*place, "inputs", number))
                if each == part.name and at is not None:
                    text = with_part(text, (*place, "inputs", number), scalar(name))
            source, dot, output = str(fields_of(fields.get("map")).get("over") or "").partition(".")
            if source == part.name and dot and part_at(text, (*place, "map", "over")) is not None:
                text = with_value(text, (*place, "map", "over"), f"{name}.{output}")
        return text

    # Operators

    def with_added(self, operation: AddNode, then: Operation | None = None) -> str:
        """Return the text with an added part; `then` is the edge that leads to an added operator."""
        if operation.type == EXPERT:
            return with_expert(self._text, operation.id, operation.params)
        if operation.type == LEADER:
            return with_leader(self._text)
        expert = self._part_of(operation.inside or "")
        if expert.spec.type != EXPERT:
            raise InputError(f"inside: {operation.inside!r} is not an expert; operators belong to experts")
        if operation.type not in (OPERATOR, EVALUATOR):
            raise InputError(
                f"type: {operation.type!r} cannot be added here; add an operator, an evaluator, an expert or a leader"
            )
        if any(part.expert == expert.expert and part.name == operation.id for part in self._parts.values()):
            raise InputError(f"{operation.inside!r} has {operation.id!r} already; give another name")
        source = None
        if isinstance(then, Connect) and operation.type == OPERATOR:
            source = self._end(self._part_of(then.source, OPERATOR), then.port)
        self._define(operation.id, operation.params)
        if operation.type == EVALUATOR:
            return self._with_added_evaluator(expert.expert, operation)
        chains = [*self._chains(expert), [Item(operation.id)]]
        chains = connected(chains, source, operation.id) if source else chains
        return self._with_chains(expert.expert, chains, operation.params)

    def _with_inserted(self, operation: InsertBetween) -> str:
        source, target = self._ends(operation.source, operation.target, operation.port)
        chains = self._chains(target)
        longer = put_between(chains, source, target.name, operation.id)
        if longer == chains:
            raise _no_edge_error(source, target)
        self._define(operation.id, operation.params)
        return self._with_chains(target.expert, longer, operation.params)

    def _define(self, name: str, params: Mapping[str, Any]) -> None:
        """Add the definition of a new operator at the end of the list; an existing operator is used as it is."""
        data = named(self._text)
        exists = any(fields_of(operator).get("name") == name for _, _, operator in places(data))
        listed = list_of(data.get("operators"))
        if exists and params:
            raise InputError(f"there is an operator {name!r} already; give another name")
        if exists or not listed:
            return
        fields = {"name": name, "instruction": "", **params}
        operators_part = part_at(self._text, ("operators",))
        in_flow = operators_part is not None and operators_part.flow
        lines = [f"{key}: {_field_value(key, value, in_flow=in_flow)}" for key, value in fields.items()]
        self._text = with_item(
            self._text, ("operators",), len(listed), f"{{{', '.join(lines)}}}" if in_flow else "\n".join(lines)
        )

    def _with_chains(self, expert: int, chains: list[list[Item]], params: Mapping[str, Any] | None = None) -> str:
        """Return the text with other chains; an operator that no list of the file defines is written in its chain."""
        text = with_chains(self._text, expert, chains, params or {})
        try:
            is_expected = chains_of(named(text), expert) == chains and _is_same_except(
                self._text, text, expert, "workflow", self._path.name
            )
        except OperadError:  # an alias precedes its anchor, or lost it
            is_expected = False
        if not is_expected:
            raise InputError(
                "the chains cannot be changed here without losing an operator that is written in one of them; define "
                "that operator under `operators`, or edit the chains in the file"
            )
        return text

    def _with_evaluators(self, expert: int, names: list[str]) -> str:
        """Return the text with other evaluators for an expert."""
        text = with_judges(self._text, expert, names)
        known = {str(fields_of(value).get("name")) for _, _, value in places(named(self._text))}
        if unknown := next((name for name in names if name not in known), None):
            raise InputError(f"evaluator: there is no operator {unknown!r}{did_you_mean(unknown, known)}")
        if judges_of(named(text), expert) != names or not _is_same_except(
            self._text, text, expert, FIELD, self._path.name
        ):
            raise InputError("the evaluators cannot be changed here without touching other parts; edit the file")
        return text

    def _with_added_evaluator(self, expert: int, operation: AddNode) -> str:
        data = named(self._text)
        known = {str(fields_of(operator).get("name")) for operator in list_of(data.get("operators"))}
        definitions = {} if operation.id in known else {operation.id: in_place(operation.id, operation.params)}
        return with_judges(self._text, expert, [*judges_of(data, expert), operation.id], definitions)

    def _with_removed(self, operation: RemoveNode) -> str:
        part = self._part_of(operation.node)
        if part.spec.type == LEADER:
            return without_leader(self._text)
        if part.spec.type == EXPERT:
            names = [each.name for each in self._parts.values() if each.expert == part.expert and each is not part]
            text = without_expert(self._text, part.expert)
            for name in names:
                text = _without_unused(text, name)
            return text
        if part.spec.type == EVALUATOR:
            judges = judges_of(named(self._text), part.expert)
            self._text = with_judges(self._text, part.expert, [each for each in judges if each != part.name])
        else:
            chains = without(self._chains(part), part.name, rewire=operation.edges == "rewire")
            if not chains:
                raise InputError(f"{part.name!r} is the only operator of its expert; add another one first")
            self._remove_from_inputs(part)
            self._text = self._with_chains(part.expert, chains)
        return _without_unused(self._text, part.name)

    def _remove_from_inputs(self, part: Part, by: str | None = None) -> bool:
        """Remove an operator from the `inputs` of others of its expert; return True if it was there."""
        found = False
        for other in self._parts.values():
            inputs = list_of(other.spec.params.get("inputs"))
            if (
                other.expert != part.expert
                or other.path is None
                or part.name not in inputs
                or by not in (None, other.name)
            ):
                continue
            found = True
            if len(inputs) == 1:
                holder = part_at(self._text, other.path)
                keys = [key.text for key in holder.keys] if holder else []
                self._text = without_item(self._text, other.path, keys.index("inputs"))
            else:
                self._text = without_item(self._text, (*other.path, "inputs"), inputs.index(part.name))
        return found

    def _without_edge(self, source: Item, target: Part) -> str:
        source_part = next(
            part for part in self._parts.values() if part.expert == target.expert and part.name == source.name
        )
        was_input = self._remove_from_inputs(source_part, target.name)
        source = source if self._is_edge(source, target) else Item(source.name)
        is_edge = self._is_edge(source, target)
        if not (was_input or is_edge):
            raise _no_edge_error(source, target)
        chains = self._chains(target)
        return self._with_chains(target.expert, disconnected(chains, source, target.name)) if is_edge else self._text


def _no_edge_error(source: Item, target: Part) -> InputError:
    return InputError(f"no chain leads from {source.name!r} to {target.name!r} by that port; edit the file")


def _field_value(key: str, value: Any, *, in_flow: bool) -> str:
    return scalar(value) if key == "name" else written(value, 2, in_flow=in_flow).rstrip("\n")


def _without_unused(text: str, name: str) -> str:
    """Return the text without the definition of an operator that nothing refers to any more."""
    data = named(text)
    listed = list_of(data.get("operators"))
    index = next((index for index, operator in enumerate(listed) if fields_of(operator).get("name") == name), None)
    if index is None:
        return text
    uses = sum(value is listed[index] or value == name for _, _, value in places(data))
    return text if uses > 1 else without_item(text, ("operators",), index)


def _is_same_except(before: str, after: str, expert: int, field: str, name: str) -> bool:
    """Return True if two texts have the same data, apart from one field of an expert."""
    return _data_except(before, expert, field, name) == _data_except(after, expert, field, name)


def _data_except(text: str, expert: int, field: str, name: str) -> Any:
    data = parse_document(text, name).data
    experts = [fields_of(each) for each in list_of(data["experts"])]
    experts[expert] = {key: value for key, value in experts[expert].items() if key != field}
    return {**data, "experts": experts}


def _changes_only(text: str, changed: str, place: Sequence[Step], value: Any, name: str) -> bool:
    """Return True if a change of a text sets one value and no other; an operator may appear in several places."""
    before, after = parse_document(text, name).data, parse_document(changed, name).data
    old, new = value_at(before, place[:-1]), value_at(after, place[:-1])
    if new[place[-1]] != value:
        return False
    old[place[-1]] = new[place[-1]] = None
    return before == after


def _new_value(operation: SetParam | ReplaceText, params: Mapping[str, Any]) -> Any:
    if isinstance(operation, SetParam):
        return operation.value
    old = params.get(operation.path)
    if not isinstance(old, str) or old.count(operation.old) != 1:
        raise InputError(f"{operation.path}: {operation.old[:60]!r} does not occur exactly once")
    return old.replace(operation.old, operation.new)
