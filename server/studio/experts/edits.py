"""Operations on a YAML file of experts, as minimal changes of its text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from operad.configs.expert_file import (
    EVALUATOR,
    Chains,
    ExpertFile,
    Item,
    connected,
    disconnected,
    inserted,
)
from operad.configs.loader import preview_text
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
from operad.flows.edit.paths import PathError, steps_of
from operad.flows.formats.shapes import fields_of, list_of
from operad.runtime.values.errors import InputError, did_you_mean
from operad.server.studio.experts.graph import EXPERT, LEADER, OPERATOR, Part, file_of, ports_of, read_parts


def edited(data: bytes, operations: Sequence[Operation], path: Path) -> bytes:
    """Return the file after operations on its operators, experts and leader.

    Raises:
        InputError: An operation does not apply to a file of experts.
        InvalidError: The resulting file is not valid; every issue is listed.
    """
    file, remaining = file_of(data, path), list(operations)
    while remaining:
        operation, following = remaining.pop(0), remaining[0] if remaining else None
        then = following if isinstance(following, Connect) and isinstance(operation, AddNode) else None
        if isinstance(operation, AddNode) and then and then.target == operation.id:
            file = _Edit(file, path).added(operation, then)
            del remaining[0]
        else:
            file = _Edit(file, path).applied(operation)
    preview_text(file.text, path.name, path.parent)
    return file.text.encode()


class _Edit:
    """Edit of a file by an operation."""

    def __init__(self, file: ExpertFile, path: Path) -> None:
        self._file = file
        self._parts = {part.spec.id: part for part in read_parts(file, path)[1]}

    def applied(self, operation: Operation) -> ExpertFile:
        match operation:
            case SetParam(path="workflow") if self._type_of(operation.node) == EXPERT:
                return self._file.with_chains(self._parts[operation.node].expert, _chains_in(operation.value))
            case SetParam(path="evaluator") if self._type_of(operation.node) == EXPERT:
                return self._with_evaluators(self._parts[operation.node].expert, operation.value)
            case SetParam(path="name") if self._type_of(operation.node) in (OPERATOR, EVALUATOR):
                return self._renamed(self._parts[operation.node], operation.value)
            case SetParam() | ReplaceText():
                return self._with_field(operation)
            case AddNode():
                return self.added(operation)
            case RemoveNode():
                return self._removed(operation)
            case Connect():
                source, target = self._ends(operation)
                chains = self._file.chains(target.expert)
                return self._file.with_chains(target.expert, connected(chains, source, target.name))
            case Disconnect():
                return self._without_edge(*self._ends(operation))
            case InsertBetween():
                return self._inserted(operation)
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

    def _ends(self, edge: Connect | Disconnect | InsertBetween) -> tuple[Item, Part]:
        source, target = self._part_of(edge.source, OPERATOR), self._part_of(edge.target, OPERATOR)
        if source.expert != target.expert:
            raise InputError(f"{edge.source!r} and {edge.target!r} belong to two experts; edges stay within one")
        return self._end(source, edge.port), target

    def _end(self, part: Part, port: int | str | None) -> Item:
        ports = list(ports_of(part.spec.params))
        if ports and isinstance(port, int) and not 0 <= port < len(ports):
            raise InputError(f"{part.name!r} has the ports {', '.join(ports)}; give 0 to {len(ports) - 1}")
        return Item(part.name, ports[port] if ports and isinstance(port, int) else None)

    def _is_edge(self, source: Item, target: Part) -> bool:
        edges = [edge for chain in self._file.chains(target.expert) for edge in pairwise(chain)]
        return any(before == source and after.name == target.name for before, after in edges)

    # Fields

    def _with_field(self, operation: SetParam | ReplaceText) -> ExpertFile:
        part = self._part_of(operation.node)
        if part.path is None:
            raise InputError(f"{operation.node!r} has no fields here; edit it in the file")
        try:
            steps = steps_of(operation.path)
        except PathError as error:
            raise InputError(str(error)) from error
        value = _new_value(operation, part.spec.params)
        if steps == ["check"] and not value:
            return self._file.without_field(part.path, "check")
        return self._file.with_value((*part.path, *steps), value)

    def _renamed(self, part: Part, name: Any) -> ExpertFile:
        if not isinstance(name, str) or not name.strip() or name in self._file.definitions() or part.path is None:
            raise InputError(f"name: expected a name that no operator of the file has, got {name!r}")
        return self._file.renamed(part.path, part.name, name)

    # Experts and the leader

    def _with_expert(self, operation: AddNode) -> ExpertFile:
        """Return the file with another expert at the end, whose chain has one operator.

        The parameters are ``operator``, the name of that operator; ``desc``, the description; and the ``instruction`` of
        an operator that the file does not define, which is written in the chain.
        """
        name, params, data = operation.id, operation.params, self._file.data
        names = {fields_of(fields_of(expert).get("profile")).get("name") for expert in list_of(data["experts"])}
        if not name.strip() or name in names:
            raise InputError(f"id: expected a name that no expert of the file has, got {name!r}")
        operator, desc = params.get("operator"), params.get("desc")
        if not isinstance(operator, str) or not operator.strip():
            raise InputError("operator: name the first operator of the expert")
        defined = [fields_of(fields).get("name") for fields in list_of(data.get("operators"))]
        step = operator if operator in defined else {"name": operator, "instruction": params.get("instruction", "")}
        profile = {"name": name, **({"desc": desc} if isinstance(desc, str) and desc else {})}
        values = self._file.values
        experts = [*list_of(values.get("experts")), {"profile": profile, "workflow": [[step]]}]
        return self._file.with_values({**values, "experts": experts})

    def _with_leader(self) -> ExpertFile:
        if LEADER in self._file.values:
            raise InputError("the file has a leader already")
        return self._file.with_values({**self._file.values, LEADER: {"profile": {"name": "Leader"}}})

    def _without_expert(self, part: Part) -> ExpertFile:
        values = self._file.values
        experts = list_of(values.get("experts"))
        if len(experts) == 1:
            raise InputError("a file has at least one expert; add another one first")
        kept = [expert for number, expert in enumerate(experts) if number != part.expert]
        file = self._file.with_values({**values, "experts": kept})
        for other in self._parts.values():
            if other.expert == part.expert and other is not part:
                file = file.without_unused(other.name)
        return file

    # Operators and evaluators

    def added(self, operation: AddNode, then: Connect | None = None) -> ExpertFile:
        """Return the file with an added part; `then` is the edge that leads to an added operator."""
        if operation.type == EXPERT:
            return self._with_expert(operation)
        if operation.type == LEADER:
            return self._with_leader()
        expert = self._part_of(operation.inside or "")
        if expert.spec.type != EXPERT:
            raise InputError(f"inside: {operation.inside!r} is not an expert; operators belong to experts")
        if operation.type not in (OPERATOR, EVALUATOR):
            raise InputError(
                f"type: {operation.type!r} cannot be added here; add an operator, an evaluator, an expert or a leader"
            )
        if any(part.expert == expert.expert and part.name == operation.id for part in self._parts.values()):
            raise InputError(f"{operation.inside!r} has {operation.id!r} already; give another name")
        file = self._defined(operation)
        if operation.type == EVALUATOR:
            return file.with_evaluators(
                expert.expert, [*file.evaluators(expert.expert), operation.id], operation.params
            )
        chains = [*file.chains(expert.expert), [Item(operation.id)]]
        if then:
            chains = connected(chains, self._end(self._part_of(then.source, OPERATOR), then.port), operation.id)
        return file.with_chains(expert.expert, chains, operation.params)

    def _inserted(self, operation: InsertBetween) -> ExpertFile:
        source, target = self._ends(operation)
        chains = self._file.chains(target.expert)
        longer = inserted(chains, operation.id, source, target.name)
        if longer == chains:
            raise _no_edge_error(source, target)
        return self._defined(operation).with_chains(target.expert, longer, operation.params)

    def _defined(self, operation: AddNode | InsertBetween) -> ExpertFile:
        """Return the file with the definition of a new operator; an existing operator is used as it is."""
        exists = operation.id in self._file.definitions()
        if exists and operation.params:
            raise InputError(f"there is an operator {operation.id!r} already; give another name")
        return self._file if exists else self._file.with_operator(operation.id, operation.params)

    def _with_evaluators(self, expert: int, value: Any) -> ExpertFile:
        """Return the file with the evaluators of a form: a list of names, one name, or nothing."""
        names: list[Any] = list_of(value) if isinstance(value, list) else [] if value is None else [value]
        if not all(isinstance(name, str) and name.strip() for name in names) or len(set(names)) < len(names):
            raise InputError(f"evaluator: expected names of operators, each once, got {names!r:.60}")
        known = self._file.definitions()
        if unknown := next((name for name in names if name not in known), None):
            raise InputError(f"evaluator: there is no operator {unknown!r}{did_you_mean(unknown, known)}")
        return self._file.with_evaluators(expert, names)

    def _removed(self, operation: RemoveNode) -> ExpertFile:
        part = self._part_of(operation.node)
        if part.spec.type == LEADER:
            return self._file.with_values({key: value for key, value in self._file.values.items() if key != LEADER})
        if part.spec.type == EXPERT:
            return self._without_expert(part)
        if part.spec.type == EVALUATOR:
            names = [name for name in self._file.evaluators(part.expert) if name != part.name]
            return self._file.with_evaluators(part.expert, names).without_unused(part.name)
        return self._file.without_operator(part.expert, part.name, rewire=operation.edges == "rewire")

    def _without_edge(self, source: Item, target: Part) -> ExpertFile:
        file = self._file.without_input(target.expert, source.name, target.name)
        source = source if self._is_edge(source, target) else Item(source.name)
        if self._is_edge(source, target):
            return file.with_chains(target.expert, disconnected(file.chains(target.expert), source, target.name))
        if file == self._file:
            raise _no_edge_error(source, target)
        return file


def _no_edge_error(source: Item, target: Part) -> InputError:
    return InputError(f"no chain leads from {source.name!r} to {target.name!r} by that port; edit the file")


def _chains_in(value: Any) -> Chains:
    """Return the chains in a form's value: lists of names, and of ``{operator, port}``."""
    chains = [[_item_in(item) for item in list_of(chain)] for chain in list_of(value)]
    if not chains or not all(chains):
        raise InputError("workflow: give at least one chain, and at least one operator in each")
    return chains


def _item_in(value: Any) -> Item:
    fields = fields_of(value)
    name, port = (fields.get("operator"), fields.get("port")) if fields else (value, None)
    if not isinstance(name, str) or not (port is None or isinstance(port, str)):
        raise InputError(
            f"workflow: expected the name of an operator, or {{operator, port}}, got {json.dumps(value)[:60]}"
        )
    return Item(name, port)


def _new_value(operation: SetParam | ReplaceText, params: Mapping[str, Any]) -> Any:
    if isinstance(operation, SetParam):
        return operation.value
    old = params.get(operation.path)
    if not isinstance(old, str) or old.count(operation.old) != 1:
        raise InputError(f"{operation.path}: {operation.old[:60]!r} does not occur exactly once")
    return old.replace(operation.old, operation.new)
