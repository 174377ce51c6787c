"""Operations on the workflow in a configuration file; all of them are applied, or none."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import count, pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, Field

from operad.configs.expert_file import ExpertFile, Item, inserted
from operad.flows.formats.shapes import list_of
from operad.runtime.values.errors import InputError, did_you_mean
from operad.runtime.values.value import Value

MAX_INSTRUCTION = 4_000
"""Maximum number of characters of an instruction."""

MAX_OPERATORS = 20
"""Maximum number of operators of a workflow."""

MAX_ROUNDS = 10
"""Maximum value that the operation ``set_max_rounds`` may set."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")
_MODULE_KEYS = {"module_path", "class", "type", "function"}
_PATH_KEYS = {"path", "paths", "index", "folder", "insights", "workflows"}

Data = dict[str, Any]


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


def outline(file: ExpertFile, expert: str) -> Data:
    """Return the parts of an expert that can be changed, as shown to a model."""
    number = _number(file, expert)
    chains, definitions = file.chains(number), file.definitions()
    predecessors: dict[str, list[str]] = {item.name: [] for chain in chains for item in chain}
    for chain in chains:
        for first, second in pairwise(chain):
            predecessors[second.name].append(first.name + (f" (port {first.port})" if first.port else ""))
    operators: list[Data] = []
    for name, names_before in predecessors.items():
        definition = definitions[name][1]
        shown = {"name": name, "instruction": _shown_instruction(definition)}
        shown |= {key: definition[key] for key in ("output", "output_schema", "ports", "map") if definition.get(key)}
        operators.append({**shown, "after": list(dict.fromkeys([*names_before, *list_of(definition.get("inputs"))]))})
    criteria = [_shown_instruction(definitions[name][1], judges=True) for name in file.evaluators(number)]
    rounds = file.data["experts"][number].get("max_rounds", 3)
    return {"operators": operators, "evaluator": "\n".join(criteria), "max_rounds": rounds}


def _shown_instruction(definition: Data, *, judges: bool = False) -> str:
    """Return the instruction of an operator or an evaluator; for one without, what it is instead."""
    if "function" in definition:
        return f"(a function: {definition['function']})"
    if "written_by" in definition:
        return f"(written by a function: {definition['written_by']})"
    if "workflow" in definition:
        return "(a workflow; stays as it is)"
    shown = definition.get("instruction") or f"(a typed node: {definition.get('type')})"
    return f"{shown} (judges in code)" if judges and "class" in definition else shown


def edited(file: ExpertFile, expert: str, operations: Sequence[Operation]) -> ExpertFile:
    """Return the file after these operations on an expert; it may not be loadable.

    Raises:
        InputError: An operation is impossible: the message names it, the reason, and the alternatives.
    """
    number = _number(file, expert)
    for place, operation in enumerate(operations, 1):
        try:
            file = _applied(file, number, operation)
        except InputError as error:
            raise InputError(f"operation {place}, {told(operation)}: {error}") from error
    return file


def _number(file: ExpertFile, name: str) -> int:
    return next(number for number, each in enumerate(file.data["experts"]) if each["profile"]["name"] == name)


def _applied(file: ExpertFile, expert: int, operation: Operation) -> ExpertFile:
    match operation:
        case SetInstruction():
            _check_operator(file, expert, operation.operator)
            path, definition = file.definitions()[operation.operator]
            if "instruction" not in definition:
                raise InputError("this one has no instruction: it stays as it is")
            _check_not_empty(operation.instruction)
            return file.with_value((*path, "instruction"), operation.instruction)
        case AddOperator():
            return _with_operator(file, expert, operation)
        case RemoveOperator():
            _check_operator(file, expert, operation.operator)
            if any(item.name == operation.operator and item.port for chain in file.chains(expert) for item in chain):
                raise InputError("it chooses which way to go on; without it, all ways would be taken")
            return file.without_operator(expert, operation.operator, rewire=True)
        case SetEvaluator():
            return _with_evaluator(file, expert, operation.instruction)
        case SetMaxRounds():
            if not 1 <= operation.rounds <= MAX_ROUNDS:
                raise InputError(f"rounds are 1 to {MAX_ROUNDS}")
            return file.with_value(("experts", expert, "max_rounds"), operation.rounds)


def _with_evaluator(file: ExpertFile, expert: int, instruction: str) -> ExpertFile:
    old = file.evaluators(expert)
    file = file.with_evaluators(expert, [])
    for name in old:
        file = file.without_unused(name)
    if not instruction.strip():
        return file
    known = file.definitions()
    name = next(name for n in count(1) if (name := "evaluator" if n == 1 else f"evaluator-{n}") not in known)
    return file.with_evaluators(expert, [name], {"instruction": instruction})


def _with_operator(file: ExpertFile, expert: int, operation: AddOperator) -> ExpertFile:
    name, after, before = operation.name, operation.after, operation.before
    if name in file.definitions():
        raise InputError(f"there is something called {name!r} already; give it another name")
    if not (after or before):
        raise InputError("say which operator it comes after, or before, or both")
    for neighbour in filter(None, (after, before)):
        _check_operator(file, expert, neighbour)
    chains = file.chains(expert)
    if len({item.name for chain in chains for item in chain}) >= MAX_OPERATORS:
        raise InputError(f"there are {MAX_OPERATORS} operators already; remove one first")
    _check_not_empty(operation.instruction)
    chooses = any(item.name == after and item.port for chain in chains for item in chain)
    if chooses and not before:
        raise InputError(f"{after!r} chooses which way to go on; name in `before` what the new one comes before")
    changed = inserted(chains, name, after or None, before or None)
    if changed == chains:  # `before` does not directly follow `after` in any chain
        if chooses:
            raise InputError(f"{after!r} chooses which way to go on, and {before!r} does not follow it")
        changed.append([Item(after), Item(name), Item(before)])
    params = {"instruction": operation.instruction}
    return file.with_operator(name, params).with_chains(expert, changed, params)


def _check_operator(file: ExpertFile, expert: int, name: str) -> None:
    known = list(dict.fromkeys(item.name for chain in file.chains(expert) for item in chain))
    if name not in known:
        raise InputError(
            f"no operator of the workflow is called {name!r:.60}{did_you_mean(name[:60], known)}; "
            f"there are: {', '.join(known)}"
        )


def _check_not_empty(instruction: str) -> None:
    if not instruction.strip():
        raise InputError("the instruction is empty: say what the operator is to do")
