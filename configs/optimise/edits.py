"""Operations on the workflow in a configuration file; all of them are applied, or none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import yaml
from pydantic import AfterValidator, Field

from operad.configs.reading import name_operators, places
from operad.flows.formats.yaml_text import TextDumper
from operad.runtime.values.document import Document
from operad.runtime.values.errors import InputError, did_you_mean
from operad.runtime.values.value import Value

MAX_INSTRUCTION = 4_000
"""Maximum number of characters of an instruction."""

MAX_OPERATORS = 20
"""Maximum number of operators of a workflow."""

MAX_ROUNDS = 10
"""Maximum value that the operation ``set_max_rounds`` may set."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")
_DEFINITION_KEYS = ("tools", "actions", "operators")
"""Top-level keys of a file that define things."""

_REFERENCE_KEYS = {"workflow", "operator", "evaluator", "actions", "tools", "toolkit"}
"""Keys under which a name refers to a definition."""

_MODULE_KEYS = {"module_path", "class", "type", "function"}
_PATH_KEYS = {"path", "paths", "index", "folder", "insights", "workflows"}

Data = dict[str, Any]
Item = Any
"""Element of a chain: a name, an operator, or an operator with its port."""


def _check_instruction(text: str) -> str:
    if len(text) > MAX_INSTRUCTION:
        raise ValueError(f"has {len(text):,} characters; at most {MAX_INSTRUCTION:,} are allowed")
    if "\0" in text or text != text.encode("utf-8", "replace").decode("utf-8"):
        raise ValueError("holds characters that cannot be encoded")
    return text


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r:.60} is not a valid name: a letter, then letters, digits, - and _, 40 at most")
    return name


Words = Annotated[str, AfterValidator(_check_instruction)]


class SetInstruction(Value):
    """Give an operator another instruction."""

    op: Literal["set_instruction"]
    operator: str
    instruction: Words


class AddOperator(Value):
    """Add an operator. The operators that followed `after` then follow the new one; with `before`, only that one does."""

    op: Literal["add_operator"]
    name: Annotated[str, AfterValidator(_check_name)] = Field(description="New name: letters, digits, - and _.")
    instruction: Words
    after: str = Field(description="The operator that the new one follows; empty if only `before` is given.")
    before: str = Field(description="The operator that follows the new one; empty for all that follow `after`.")


class RemoveOperator(Value):
    """Remove an operator. Its successors then follow its predecessors."""

    op: Literal["remove_operator"]
    operator: str


class SetEvaluator(Value):
    """Set the criteria of the evaluator, which has operators run again with feedback if the result fails; empty for no evaluator."""

    op: Literal["set_evaluator"]
    instruction: Words


class SetMaxRounds(Value):
    """Set the maximum number of rounds until the evaluator accepts the result, from 1 to 10."""

    op: Literal["set_max_rounds"]
    rounds: int


Operation = SetInstruction | AddOperator | RemoveOperator | SetEvaluator | SetMaxRounds


def told(operation: Operation) -> str:
    """Return an operation in two words, for people."""
    match operation:
        case AddOperator():
            return f"{operation.op} {operation.name}"
        case SetInstruction() | RemoveOperator():
            return f"{operation.op} {operation.operator}"
        case SetMaxRounds():
            return f"{operation.op} {operation.rounds}"
        case SetEvaluator():
            return operation.op if operation.instruction else f"{operation.op} none"


def normalised(document: Document) -> Data:
    """Return the data of a valid file: operators have names, and top-level definitions are referred to by name."""
    name_operators(document)
    data = document.data
    defined = [
        cast("Data", definition)
        for key in _DEFINITION_KEYS
        for definition in _list_or_empty(data.get(key))
        if isinstance(definition, dict)
    ]
    copy = _Copier({id(definition): str(definition["name"]) for definition in defined})
    return {
        key: [copy.copy_definition(item, key) for item in _list_or_empty(value)]
        if key in _DEFINITION_KEYS
        else copy.copy_reference(value, key)
        for key, value in data.items()
    }


class _Copier:
    """Copier of data that copies each value once and replaces top-level definitions by names where these may stand."""

    def __init__(self, defined: Mapping[int, str]) -> None:
        self._defined = defined
        self._copies: dict[int, Any] = {}

    def copy_reference(self, value: Any, key: str) -> Any:
        """Return the copy of a value under a key: its name, if it is a definition and the key refers to definitions."""
        name = self._defined.get(id(value)) if key in _REFERENCE_KEYS else None
        return self.copy_definition(value, key) if name is None else name

    def copy_definition(self, value: Any, key: str) -> Any:
        """Return the copy of a value at the place of its definition."""
        value_id = id(value)
        if value_id in self._copies:
            return self._copies[value_id]
        if isinstance(value, dict):
            fields = cast("Data", value)
            mapping: Data = {}
            self._copies[value_id] = mapping
            first = {"name": fields["name"]} if "name" in fields else {}
            mapping |= {field: self.copy_reference(part, field) for field, part in {**first, **fields}.items()}
            return mapping
        if isinstance(value, list):
            items: list[Any] = []
            self._copies[value_id] = items
            items += [self.copy_reference(item, key) for item in cast("list[Any]", value)]
            return items
        return value


def dump(data: Data) -> str:
    """Return the data as YAML; equal data gives equal text."""
    return yaml.dump(data, Dumper=TextDumper, sort_keys=False, allow_unicode=True, width=110)


def beside(data: Data, folder: Path) -> list[str]:
    """Return the modules and paths that a file names in its own folder."""
    found: list[str] = []

    def search(value: Any, key: str) -> None:
        if isinstance(value, dict):
            for name, item in cast("Data", value).items():
                search(item, "workflows" if key == "workflows" else name)
        elif isinstance(value, list):
            for item in cast("list[Any]", value):
                search(item, key)
        elif isinstance(value, str) and key in _MODULE_KEYS:
            top = value.partition(".")[0]
            if (folder / top).exists() or (folder / f"{top}.py").exists():
                found.append(value)
        elif (isinstance(value, str) and key in _PATH_KEYS and not Path(value).is_absolute()) or (
            key == "insights" and value is True
        ):
            found.append(str(value) if value is not True else "insights")

    search(data, "")
    return found


def outline(data: Data, expert: str) -> Data:
    """Return the parts of an expert that can be changed, as shown to a model."""
    workflow = _expert(data, expert)
    predecessors: dict[str, list[str]] = {}
    for chain in _chains(workflow):
        for item in chain:
            predecessors.setdefault(_item_name(item), [])
        for first, second in pairwise(chain):
            port = f" (port {first['port']})" if isinstance(first, dict) and "port" in first else ""
            predecessors[_item_name(second)].append(_item_name(first) + port)
    operators: list[Data] = []
    for name, names_before in predecessors.items():
        definition = _definition(data, workflow, name)
        shown = {"name": name, "instruction": _shown_instruction(definition)}
        shown |= {key: definition[key] for key in ("output", "output_schema", "ports", "map") if definition.get(key)}
        inputs = _list_or_empty(definition.get("inputs"))
        operators.append({**shown, "after": list(dict.fromkeys([*names_before, *inputs]))})
    criteria = [_evaluator_text(data, evaluator) for evaluator in _as_list(workflow.get("evaluator"))]
    return {"operators": operators, "evaluator": "\n".join(criteria), "max_rounds": workflow.get("max_rounds", 3)}


def edited(data: Data, expert: str, operations: Sequence[Operation]) -> Data:
    """Return the data after these operations; it may not be loadable.

    Args:
        data: Data as returned by `normalised`; it is not modified.
        expert: Name of the expert whose workflow is changed.
        operations: The operations, in order.

    Raises:
        InputError: An operation is impossible: the message names it, the reason, and the alternatives.
    """
    changed = deepcopy(data)
    for number, operation in enumerate(operations, 1):
        try:
            _apply(changed, _expert(changed, expert), operation)
        except InputError as error:
            raise InputError(f"operation {number}, {told(operation)}: {error}") from error
    return changed


def _apply(data: Data, workflow: Data, operation: Operation) -> None:
    match operation:
        case SetInstruction():
            _set_instruction(data, workflow, operation)
        case AddOperator():
            _add_operator(data, workflow, operation)
        case RemoveOperator():
            _remove_operator(data, workflow, operation.operator)
        case SetEvaluator():
            _drop_unused(data, *map(_item_name, _as_list(workflow.pop("evaluator", None))))
            if operation.instruction.strip():
                name = next(candidate for candidate in _evaluator_names() if candidate not in _defined_names(data))
                workflow["evaluator"] = {"name": name, "instruction": operation.instruction}
        case SetMaxRounds():
            if not 1 <= operation.rounds <= MAX_ROUNDS:
                raise InputError(f"rounds are 1 to {MAX_ROUNDS}")
            workflow["max_rounds"] = operation.rounds


def _set_instruction(data: Data, workflow: Data, operation: SetInstruction) -> None:
    _check_operator(workflow, operation.operator)
    definition = _definition(data, workflow, operation.operator)
    if "instruction" not in definition:
        raise InputError("this one has no instruction: it stays as it is")
    if not operation.instruction.strip():
        raise InputError("the instruction is empty: say what the operator is to do")
    definition["instruction"] = operation.instruction


def _add_operator(data: Data, workflow: Data, operation: AddOperator) -> None:
    name, after, before = operation.name, operation.after, operation.before
    if name in _defined_names(data):
        raise InputError(f"there is something called {name!r} already; give it another name")
    if not (after or before):
        raise InputError("say which operator it comes after, or before, or both")
    for neighbour in filter(None, (after, before)):
        _check_operator(workflow, neighbour)
    if len(_operator_names(workflow)) >= MAX_OPERATORS:
        raise InputError(f"there are {MAX_OPERATORS} operators already; remove one first")
    if not operation.instruction.strip():
        raise InputError("the instruction is empty: say what the operator is to do")
    data["operators"] = [*_list_or_empty(data.get("operators")), {"name": name, "instruction": operation.instruction}]
    chains = _chains(workflow)
    if (
        after
        and not before
        and any(_item_name(item) == after and _has_port(item) for chain in chains for item in chain)
    ):
        raise InputError(f"{after!r} chooses which way to go on; name in `before` what the new one comes before")
    changed = [_with_inserted(chain, name, after, before) for chain in chains]
    if changed == chains:  # `before` does not directly follow `after` in any chain
        items = {_item_name(item): item for chain in chains for item in chain}
        if _has_port(items[after]):
            raise InputError(f"{after!r} chooses which way to go on, and {before!r} does not follow it")
        changed.append([items[after], name, _without_port(items[before])])
    workflow["workflow"] = changed


def _with_inserted(chain: list[Item], name: str, after: str, before: str) -> list[Item]:
    """Return the chain with the name inserted between `after` and `before`; an empty text allows any neighbour."""
    result: list[Item] = []
    for item, following in zip(chain, [*chain[1:], None], strict=True):
        at_start = not result
        fits_head = at_start and not after and _item_name(item) == before
        result += [name, item] if fits_head else [item]
        at_end = following is None
        fits_after = not after or _item_name(item) == after
        fits_before = not before or (not at_end and _item_name(following) == before)
        if fits_after and fits_before:
            result.append(name)
    return result


def _remove_operator(data: Data, workflow: Data, name: str) -> None:
    _check_operator(workflow, name)
    chains = _chains(workflow)
    if any(_item_name(item) == name and _has_port(item) for chain in chains for item in chain):
        raise InputError("it chooses which way to go on; without it, all ways would be taken")
    if len(_operator_names(workflow)) == 1:
        raise InputError("it is the only operator")
    edges = [edge for chain in chains for edge in pairwise(chain)]
    predecessors = [first for first, second in edges if _item_name(second) == name]
    successors = [second for first, second in edges if _item_name(first) == name]
    remaining = [[item for item in chain if _item_name(item) != name] for chain in chains]
    remaining += [
        [first, second] for first in predecessors for second in successors
    ]  # its neighbours may be in different chains
    kept: list[list[Item]] = []
    for chain in sorted(remaining, key=len, reverse=True):
        if chain and not any(_contains(other, chain) for other in kept):
            kept.append(chain)
    workflow["workflow"] = [chain for chain in remaining if any(chain is other for other in kept)]
    _drop_unused(data, name)


def _contains(chain: list[Item], part: list[Item]) -> bool:
    """Return True if a chain contains another one as a part."""
    return any(chain[start : start + len(part)] == part for start in range(len(chain) - len(part) + 1))


def _drop_unused(data: Data, *names: str) -> None:
    """Remove the definitions of operators that nothing refers to."""
    used = {value for _, _, value in places(data) if isinstance(value, str)}
    unused = set(names) - used
    if unused & _defined_names(data):
        data["operators"] = [
            definition for definition in _list_or_empty(data.get("operators")) if _item_name(definition) not in unused
        ]


def _defined_names(data: Data) -> set[str]:
    return {str(cast("Data", value)["name"]) for _, _, value in places(data) if isinstance(value, dict)}


def _evaluator_names() -> Iterator[str]:
    yield "evaluator"
    for number in range(2, 1_000):
        yield f"evaluator-{number}"


def _expert(data: Data, name: str) -> Data:
    return next(expert for expert in data["experts"] if expert["profile"]["name"] == name)


def _chains(workflow: Data) -> list[list[Item]]:
    return cast("list[list[Item]]", workflow["workflow"])


def _operator_names(workflow: Data) -> list[str]:
    return list(dict.fromkeys(_item_name(item) for chain in _chains(workflow) for item in chain))


def _item_name(item: Item) -> str:
    if not isinstance(item, dict):
        return str(item)
    mapping = cast("Data", item)
    return _item_name(mapping["operator"]) if "operator" in mapping else str(mapping["name"])


def _has_port(item: Item) -> bool:
    return isinstance(item, dict) and "port" in item


def _without_port(item: Item) -> Item:
    return cast("Data", item)["operator"] if _has_port(item) else item


def _definition(data: Data, workflow: Data, name: str) -> Data:
    for item in (_without_port(item) for chain in _chains(workflow) for item in chain):
        if isinstance(item, dict) and _item_name(item) == name:
            return cast("Data", item)
    return next(
        cast("Data", definition)
        for definition in _list_or_empty(data["operators"])
        if cast("Data", definition)["name"] == name
    )


def _evaluator_text(data: Data, evaluator: Any) -> str:
    definition = evaluator
    if isinstance(evaluator, str):
        definition = next(
            operator for operator in _list_or_empty(data["operators"]) if cast("Data", operator)["name"] == evaluator
        )
    in_code = " (judges in code)" if "class" in definition else ""
    return f"{_shown_instruction(definition)}{in_code}"


def _shown_instruction(definition: Data) -> str:
    """Return the instruction of an operator or an evaluator; for one without, what it is instead."""
    if "function" in definition:
        return f"(a function: {definition['function']})"
    if "written_by" in definition:
        return f"(written by a function: {definition['written_by']})"
    if "workflow" in definition:
        return "(a workflow; stays as it is)"
    return definition.get("instruction") or f"(a typed node: {definition.get('type')})"


def _check_operator(workflow: Data, name: str) -> None:
    known = _operator_names(workflow)
    if name not in known:
        raise InputError(
            f"no operator of the workflow is called {name!r:.60}{did_you_mean(name[:60], known)}; "
            f"there are: {', '.join(known)}"
        )


def _as_list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [] if value is None else [value]


def _list_or_empty(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
