"""Changes of a workflow, as operations on the data of its configuration file: all of them or none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import yaml
from pydantic import AfterValidator, Field

from operad.configs.names import name_operators, places
from operad.flows.formats.yaml_text import TextDumper
from operad.runtime.values.document import Document
from operad.runtime.values.errors import InputError, did_you_mean
from operad.runtime.values.message import Value

MAX_INSTRUCTION = 4_000
"""Characters of an instruction."""

MAX_OPERATORS = 20
"""Number of operators a workflow may grow to."""

MAX_ROUNDS = 10

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")
_HOMES = ("tools", "actions", "operators")
"""The keys at the top of a file under which things are defined."""

_REFERENCES = {"workflow", "operator", "evaluator", "actions", "tools", "toolkit"}
"""The keys under which the name of something stands for it."""

_MODULES = {"module_path", "class", "type"}
_PATHS = {"path", "paths", "index", "folder", "insights", "workflows"}

Data = dict[str, Any]
Item = Any
"""Element of a chain: a name, an operator, or an operator with its port."""


def _instruction(text: str) -> str:
    if len(text) > MAX_INSTRUCTION:
        raise ValueError(f"has {len(text):,} characters; at most {MAX_INSTRUCTION:,} are allowed")
    if "\0" in text or text != text.encode("utf-8", "replace").decode("utf-8"):
        raise ValueError("holds characters that cannot be encoded")
    return text


def _name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r:.60} is not a valid name: a letter, then letters, digits, - and _, 40 at most")
    return name


Words = Annotated[str, AfterValidator(_instruction)]


class SetInstruction(Value):
    """Give an operator another instruction."""

    op: Literal["set_instruction"]
    operator: str
    instruction: Words


class AddOperator(Value):
    """Add an operator. What followed `after` follows the new one; only `before` does, if that is named as well."""

    op: Literal["add_operator"]
    name: Annotated[str, AfterValidator(_name)] = Field(description="A new name: letters, digits, - and _.")
    instruction: Words
    after: str = Field(
        description="The operator that it comes after; empty to name only the one before which it comes."
    )
    before: str = Field(description="The operator that it comes before; empty for all that follow `after`.")


class RemoveOperator(Value):
    """Remove an operator; those after it follow those before it."""

    op: Literal["remove_operator"]
    operator: str


class SetEvaluator(Value):
    """Have the result judged by these criteria, and done again with a lesson if it fails; empty for no judge."""

    op: Literal["set_evaluator"]
    instruction: Words


class SetMaxRounds(Value):
    """Say how often the operators run at most until the evaluator is content: 1 to 10."""

    op: Literal["set_max_rounds"]
    rounds: int


Operation = SetInstruction | AddOperator | RemoveOperator | SetEvaluator | SetMaxRounds


def told(operation: Operation) -> str:
    """An operation in two words, for people."""
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
    """The data of a file that loads: operators have names, and what is defined at the top stands elsewhere by name."""
    name_operators(document)
    data = document.data
    defined = [cast("Data", each) for key in _HOMES for each in _list(data.get(key)) if isinstance(each, dict)]
    copy = _Copy({id(each): str(each["name"]) for each in defined})
    return {
        key: [copy.inside(item, key) for item in _list(value)] if key in _HOMES else copy.of(value, key)
        for key, value in data.items()
    }


class _Copy:
    """Copies data, each value once; what is defined at the top becomes its name where a name may stand for it."""

    def __init__(self, defined: Mapping[int, str]) -> None:
        self._defined = defined
        self._made: dict[int, Any] = {}

    def of(self, value: Any, key: str) -> Any:
        """The copy of a value under that key."""
        name = self._defined.get(id(value)) if key in _REFERENCES else None
        return self.inside(value, key) if name is None else name

    def inside(self, value: Any, key: str) -> Any:
        """The copy of a value, which itself stands where it is defined."""
        identity = id(value)
        if identity in self._made:
            return self._made[identity]
        if isinstance(value, dict):
            fields = cast("Data", value)
            mapping: Data = {}
            self._made[identity] = mapping
            first = {"name": fields["name"]} if "name" in fields else {}
            mapping |= {field: self.of(part, field) for field, part in {**first, **fields}.items()}
            return mapping
        if isinstance(value, list):
            items: list[Any] = []
            self._made[identity] = items
            items += [self.of(item, key) for item in cast("list[Any]", value)]
            return items
        return value


def dump(data: Data) -> str:
    """The data as YAML; equal data is equal text."""
    return yaml.dump(data, Dumper=TextDumper, sort_keys=False, allow_unicode=True, width=110)


def beside(data: Data, folder: Path) -> list[str]:
    """Return the modules and paths in a file's own folder that it names."""
    found: list[str] = []

    def look(value: Any, key: str) -> None:
        if isinstance(value, dict):
            for name, part in cast("Data", value).items():
                look(part, "workflows" if key == "workflows" else name)
        elif isinstance(value, list):
            for part in cast("list[Any]", value):
                look(part, key)
        elif isinstance(value, str) and key in _MODULES:
            top = value.partition(".")[0]
            if (folder / top).exists() or (folder / f"{top}.py").exists():
                found.append(value)
        elif (isinstance(value, str) and key in _PATHS and not Path(value).is_absolute()) or (
            key == "insights" and value is True
        ):
            found.append(str(value) if value is not True else "insights")

    look(data, "")
    return found


def outline(data: Data, expert: str) -> Data:
    """Return the parts of an expert that can be changed, as shown to a model."""
    workflow = _expert(data, expert)
    before: dict[str, list[str]] = {}
    for chain in _chains(workflow):
        for item in chain:
            before.setdefault(_called(item), [])
        for first, second in pairwise(chain):
            port = f" (port {first['port']})" if isinstance(first, dict) and "port" in first else ""
            before[_called(second)].append(_called(first) + port)
    operators: list[Data] = []
    for name, earlier in before.items():
        definition = _definition(data, workflow, name)
        what = definition.get("instruction") or (
            "(a workflow; stays as it is)" if "workflow" in definition else f"(a typed node: {definition.get('type')})"
        )
        operators.append({"name": name, "instruction": what, "after": list(dict.fromkeys(earlier))})
    judges = [_judge(data, judge) for judge in _listed(workflow.get("evaluator"))]
    return {"operators": operators, "evaluator": "\n".join(judges), "max_rounds": workflow.get("max_rounds", 3)}


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
            _do(changed, _expert(changed, expert), operation)
        except InputError as error:
            raise InputError(f"operation {number}, {told(operation)}: {error}") from error
    return changed


def _do(data: Data, workflow: Data, operation: Operation) -> None:
    match operation:
        case SetInstruction():
            _reword(data, workflow, operation)
        case AddOperator():
            _add(data, workflow, operation)
        case RemoveOperator():
            _remove(data, workflow, operation.operator)
        case SetEvaluator():
            _drop_unused(data, *map(_called, _listed(workflow.pop("evaluator", None))))
            if operation.instruction.strip():
                name = next(each for each in _evaluator_names() if each not in _names(data))
                workflow["evaluator"] = {"name": name, "instruction": operation.instruction}
        case SetMaxRounds():
            if not 1 <= operation.rounds <= MAX_ROUNDS:
                raise InputError(f"rounds are 1 to {MAX_ROUNDS}")
            workflow["max_rounds"] = operation.rounds


def _reword(data: Data, workflow: Data, operation: SetInstruction) -> None:
    _require(workflow, operation.operator)
    definition = _definition(data, workflow, operation.operator)
    if "instruction" not in definition:
        raise InputError("this one has no instruction: it stays as it is")
    if not operation.instruction.strip():
        raise InputError("the instruction is empty: say what the operator is to do")
    definition["instruction"] = operation.instruction


def _add(data: Data, workflow: Data, operation: AddOperator) -> None:
    name, after, before = operation.name, operation.after, operation.before
    if name in _names(data):
        raise InputError(f"there is something called {name!r} already; give it another name")
    if not (after or before):
        raise InputError("say which operator it comes after, or before, or both")
    for each in filter(None, (after, before)):
        _require(workflow, each)
    if len(_order(workflow)) >= MAX_OPERATORS:
        raise InputError(f"there are {MAX_OPERATORS} operators already; remove one first")
    if not operation.instruction.strip():
        raise InputError("the instruction is empty: say what the operator is to do")
    data["operators"] = [*_list(data.get("operators")), {"name": name, "instruction": operation.instruction}]
    chains = _chains(workflow)
    if after and not before and any(_called(item) == after and _has_port(item) for chain in chains for item in chain):
        raise InputError(f"{after!r} chooses which way to go on; name in `before` what the new one comes before")
    done = [_inserted(chain, name, after, before) for chain in chains]
    if done == chains:  # both are named, and neither follows the other
        ends = {_called(item): item for chain in chains for item in chain}
        if _has_port(ends[after]):
            raise InputError(f"{after!r} chooses which way to go on, and {before!r} does not follow it")
        done.append([ends[after], name, _without_port(ends[before])])
    workflow["workflow"] = done


def _inserted(chain: list[Item], name: str, after: str, before: str) -> list[Item]:
    """The chain with the name wherever the one that it comes after, and the one that it comes before, stand there."""
    made: list[Item] = []
    for item, following in zip(chain, [*chain[1:], None], strict=True):
        first = not made
        fits_head = first and not after and _called(item) == before
        made += [name, item] if fits_head else [item]
        at_end = following is None
        fits_after = not after or _called(item) == after
        fits_before = not before or (not at_end and _called(following) == before)
        if fits_after and fits_before:
            made.append(name)
    return made


def _remove(data: Data, workflow: Data, name: str) -> None:
    _require(workflow, name)
    chains = _chains(workflow)
    if any(_called(item) == name and _has_port(item) for chain in chains for item in chain):
        raise InputError("it chooses which way to go on; without it, all ways would be taken")
    if len(_order(workflow)) == 1:
        raise InputError("it is the only operator")
    edges = [edge for chain in chains for edge in pairwise(chain)]
    into = [first for first, second in edges if _called(second) == name]
    out_of = [second for first, second in edges if _called(first) == name]
    left = [[item for item in chain if _called(item) != name] for chain in chains]
    left += [[first, second] for first in into for second in out_of]  # those before it stood in other chains, perhaps
    kept: list[list[Item]] = []
    for chain in sorted(left, key=len, reverse=True):
        if chain and not any(_holds(other, chain) for other in kept):
            kept.append(chain)
    workflow["workflow"] = [chain for chain in left if any(chain is each for each in kept)]
    _drop_unused(data, name)


def _holds(chain: list[Item], part: list[Item]) -> bool:
    """Return True if all that a chain says is said by a part of another one."""
    return any(chain[at : at + len(part)] == part for at in range(len(chain) - len(part) + 1))


def _drop_unused(data: Data, *names: str) -> None:
    """Remove the definitions of those that nothing names any more."""
    used = {value for _, _, value in places(data) if isinstance(value, str)}
    unused = set(names) - used
    if unused & _names(data):
        data["operators"] = [each for each in _list(data.get("operators")) if _called(each) not in unused]


def _names(data: Data) -> set[str]:
    return {str(cast("Data", value)["name"]) for _, _, value in places(data) if isinstance(value, dict)}


def _evaluator_names() -> Iterator[str]:
    yield "evaluator"
    for number in range(2, 1_000):
        yield f"evaluator-{number}"


def _expert(data: Data, name: str) -> Data:
    return next(expert for expert in data["experts"] if expert["profile"]["name"] == name)


def _chains(workflow: Data) -> list[list[Item]]:
    return cast("list[list[Item]]", workflow["workflow"])


def _order(workflow: Data) -> list[str]:
    return list(dict.fromkeys(_called(item) for chain in _chains(workflow) for item in chain))


def _called(item: Item) -> str:
    if not isinstance(item, dict):
        return str(item)
    mapping = cast("Data", item)
    return _called(mapping["operator"]) if "operator" in mapping else str(mapping["name"])


def _has_port(item: Item) -> bool:
    return isinstance(item, dict) and "port" in item


def _without_port(item: Item) -> Item:
    return cast("Data", item)["operator"] if _has_port(item) else item


def _definition(data: Data, workflow: Data, name: str) -> Data:
    for item in (_without_port(item) for chain in _chains(workflow) for item in chain):
        if isinstance(item, dict) and _called(item) == name:
            return cast("Data", item)
    return next(cast("Data", each) for each in _list(data["operators"]) if cast("Data", each)["name"] == name)


def _judge(data: Data, judge: Any) -> str:
    definition = judge
    if isinstance(judge, str):
        definition = next(each for each in _list(data["operators"]) if cast("Data", each)["name"] == judge)
    in_code = " (judges in code)" if "class" in definition else ""
    return f"{definition['instruction']}{in_code}"


def _require(workflow: Data, name: str) -> None:
    known = _order(workflow)
    if name not in known:
        raise InputError(
            f"no operator of the workflow is called {name!r:.60}{did_you_mean(name[:60], known)}; "
            f"there are: {', '.join(known)}"
        )


def _listed(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [] if value is None else [value]


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
