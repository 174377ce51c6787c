"""Reader of Chat2Workflow's dataset: the tasks with their rounds, answer keys and test cases."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from operad.flows.formats.json_text import MAX_BYTES, read_json, read_text
from operad.runtime.values.errors import InputError, InvalidError, Issue, did_you_mean
from operad.runtime.values.file import read_bytes

QUERIES, PASS_KEYS, RESOLVE_KEYS = "query.json", "check_pass_stage.json", "check_resolve_stage.json"
REFERENCE = "ground_truth"
"""Key of the reference answer among a test case's inputs."""

CATEGORIES = ("Research", "Document", "Enterprise", "Developer", "Education", "AIGC")
"""The domains, in the order of the paper's tables."""


@dataclass(frozen=True, slots=True)
class CaseFile:
    """File among the inputs of a test case.

    Attributes:
        name: Name of the file, which is not part of the dataset's JSON.
        mime_type: Type of the file in the dataset, such as ``document/pdf``.
    """

    name: str
    mime_type: str


@dataclass(frozen=True, slots=True)
class Case:
    """Test case.

    Attributes:
        name: Name of the case, such as ``test1``.
        inputs: Value of each input variable; a file is a `CaseFile`, several files are a tuple.
        reference: Reference answer; None if there is none.
    """

    name: str
    inputs: Mapping[str, Any]
    reference: str | None


@dataclass(frozen=True, slots=True)
class AnswerKey:
    """Requirements for a workflow to pass.

    Attributes:
        inputs: Names of the start node's variables.
        outputs: Names of the outputs of each end; several ends if branches end differently.
        key_nodes: Node types that the workflow must use.
    """

    inputs: tuple[str, ...]
    outputs: tuple[tuple[str, ...], ...]
    key_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Subtask:
    """Round of a task, with its answer key.

    Attributes:
        task: Name of the task.
        round: Number of the round, from 1.
        category: Domain of the task.
        instructions: Instructions of all rounds up to this one.
        inputs: Names of the start node's variables.
        outputs: Names of the outputs of each end; several ends if branches end differently.
        key_nodes: Node types that the workflow must use.
        cases: Test cases.
        files: Extension, such as ``.pdf``, of each output that is a file.
    """

    task: str
    round: int
    category: str
    instructions: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[tuple[str, ...], ...]
    key_nodes: tuple[str, ...]
    cases: tuple[Case, ...]
    files: Mapping[str, str]

    @property
    def key(self) -> str:
        """Name in the dataset: ``Task_round``."""
        return f"{self.task}_{self.round}"

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the outputs of all ends."""
        return tuple(dict.fromkeys(name for names in self.outputs for name in names))


@dataclass(frozen=True, slots=True)
class Dataset:
    """The dataset.

    Attributes:
        subtasks: Rounds of all tasks in order, by ``Task_round``.
    """

    subtasks: Mapping[str, Subtask]

    def subtask(self, task: str, round: int) -> Subtask:
        """Return a round of a task.

        Raises:
            InputError: There is no such round; the message suggests similar names.
        """
        key = f"{task}_{round}"
        if key not in self.subtasks:
            raise InputError(unknown_case(task, round, self))
        return self.subtasks[key]


def subtask_of(said: Mapping[str, Any]) -> Subtask:
    """Return the round of a task that YAML names as ``{dataset: FOLDER, task: NAME, round: NUMBER}``.

    Raises:
        InputError: The value has another form, or there is no such round.
        InvalidError: The dataset cannot be read; all issues are listed.
    """
    match dict(said):
        case {"dataset": str() | Path() as folder, "task": str() as task, "round": int() as round, **rest} if (
            not rest and not isinstance(round, bool)
        ):
            return read_dataset(Path(folder)).subtask(task, round)
        case _:
            raise InputError(f"{dict(said)!r} names no round of a task; write {{dataset: DIR, task: NAME, round: 1}}")


# The dataset


def read_dataset(folder: Path) -> Dataset:
    """Read the dataset's folder.

    Raises:
        InputError: A file cannot be read.
        InvalidError: The content of a file is not valid; all issues are listed.
    """
    files = {name: _json_of(folder / name) for name in (QUERIES, PASS_KEYS, RESOLVE_KEYS)}
    faults: list[Issue] = []
    keys = _objects(files[PASS_KEYS], PASS_KEYS, faults)
    extensions = _objects(files[RESOLVE_KEYS], RESOLVE_KEYS, faults)
    subtasks: dict[str, Subtask] = {}
    for query, where in _queries(files[QUERIES], faults):
        task, category = text_at(query, "task", where, faults), text_at(query, "category", where, faults)
        for number, instructions in _rounds(query, where, faults):
            key = f"{task}_{number}"
            if key in subtasks:
                faults.append(Issue("duplicate", f"the task {task!r} is there twice", where))
            elif key not in keys:
                faults.append(Issue("missing", f"has no key {key!r}{did_you_mean(key, keys)}", PASS_KEYS))
            else:
                subtasks[key] = _subtask(
                    task, number, category, instructions, keys[key], extensions.get(key, {}), faults
                )
    for name, objects in ((PASS_KEYS, keys), (RESOLVE_KEYS, extensions)):
        for key in objects.keys() - subtasks.keys() if subtasks else ():
            what = f"{key!r} has no instruction in {QUERIES}{did_you_mean(key, subtasks)}"
            faults.append(Issue("unknown", what, name))
    if faults:
        raise InvalidError(str(folder), faults)
    return Dataset(subtasks)


def _queries(value: Any, faults: list[Issue]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield the tasks in the JSON, each with its place for faults."""
    if not isinstance(value, list) or not value:
        faults.append(Issue("format", "must be a list of tasks, and not empty", QUERIES))
        return
    for number, query in enumerate(cast("list[Any]", value)):
        where = f"{QUERIES}[{number}]"
        if isinstance(query, dict):
            yield cast("dict[str, Any]", query), where
        else:
            faults.append(Issue("format", "must be an object with task, category, query1 and so on", where))


def _rounds(query: Mapping[str, Any], where: str, faults: list[Issue]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the rounds of a task: the number, and the instructions up to that round."""
    numbers = sorted(int(key[5:]) for key in query if re.fullmatch(r"query[0-9]{1,3}", key))
    if not numbers or numbers != list(range(1, len(numbers) + 1)):
        faults.append(Issue("missing", f"must have query1, query2, …, without a gap; it has {numbers}", where))
        return
    instructions = tuple(text_at(query, f"query{number}", where, faults) for number in numbers)
    for number in numbers:
        yield number, instructions[:number]


def _subtask(
    task: str,
    number: int,
    category: str,
    instructions: tuple[str, ...],
    key: Mapping[str, Any],
    extensions: Mapping[str, Any],
    faults: list[Issue],
) -> Subtask:
    """Return a round of a task from its answer key and the extensions of its files; add the faults found."""
    where = f"{PASS_KEYS}: {task}_{number}"
    outputs = _outputs(key, where, faults)
    names = {name for end in outputs for name in end}
    inputs = _texts(key, "input_var", where, faults)
    cases = tuple(_cases(key, inputs, where, faults))
    if not cases:
        faults.append(Issue("missing", "has no test1, test2, …", where))
    for name, extension in extensions.items():
        place = f"{RESOLVE_KEYS}: {task}_{number}"
        if name not in names:
            faults.append(Issue("unknown", f"{name!r} is not an output{did_you_mean(name, names)}", place))
        if not (isinstance(extension, str) and re.fullmatch(r"\.\w+", extension)):
            faults.append(Issue("format", f"{name}: must be an extension such as .pdf", place))
    files = {name: str(extension) for name, extension in extensions.items()}
    key_nodes = _texts(key, "related_nodes", where, faults)
    return Subtask(task, number, category, instructions, inputs, outputs, key_nodes, cases, files)


def _outputs(key: Mapping[str, Any], where: str, faults: list[Issue]) -> tuple[tuple[str, ...], ...]:
    """Return the names of the outputs of each end, which the JSON lists for a single end, or for each of several."""
    given = key.get("output_var")
    if isinstance(given, list) and given and all(isinstance(value, list) for value in cast("list[Any]", given)):
        ends = cast("list[Any]", given)
        return tuple(_texts({"output_var": end}, "output_var", where, faults) for end in ends)
    return (_texts(key, "output_var", where, faults),)


def _cases(key: Mapping[str, Any], inputs: Sequence[str], where: str, faults: list[Issue]) -> Iterator[Case]:
    """Yield the test cases of a round."""
    for name in sorted(name for name in key if re.fullmatch(r"test[0-9]{1,3}", name)):
        place = f"{where}.{name}"
        given = key[name]
        if not isinstance(given, dict):
            faults.append(Issue("format", "must be an object with a value for each input", place))
            continue
        values = dict(cast("dict[str, Any]", given))
        reference = values.pop(REFERENCE, None)
        if not isinstance(reference, str | None):
            faults.append(Issue("format", f"{REFERENCE}: must be a text", place))
            reference = None
        for missing in [variable for variable in inputs if variable not in values]:
            faults.append(Issue("missing", f"has no value for the input {missing!r}", place))
        for unknown in [each for each in values if each not in inputs]:
            faults.append(Issue("unknown", f"{unknown!r} is not an input{did_you_mean(unknown, inputs)}", place))
        yield Case(name, {each: _value(value, f"{place}.{each}", faults) for each, value in values.items()}, reference)


def _value(value: Any, where: str, faults: list[Issue]) -> Any:
    """Return the value of an input; add a fault and return None if its form is unknown."""
    match value:
        case {"mime_type": str(mime_type), "value": str(name)}:
            return CaseFile(name, mime_type)
        case list():
            return tuple(_value(each, where, faults) for each in cast("list[Any]", value))
        case str() | int() | float() if not isinstance(value, bool):
            return value
        case _:
            faults.append(Issue("format", "must be a text, a number, or files with mime_type and value", where))
            return None


# Values in JSON


def text_under(path: Path) -> str:
    """Return the text of a file.

    Raises:
        InputError: The file is unreadable, or larger than `MAX_BYTES`.
        InvalidError: The file is not UTF-8.
    """
    return read_text(read_bytes(path, MAX_BYTES), str(path))


def _json_of(path: Path) -> Any:
    return read_json(text_under(path), str(path))


def _objects(value: Any, name: str, faults: list[Issue]) -> dict[str, dict[str, Any]]:
    """Return the objects in a JSON object; add a fault for each value that is not an object."""
    if not isinstance(value, dict):
        faults.append(Issue("format", 'must be an object {"Task_round": {…}, …}', name))
        return {}
    objects: dict[str, dict[str, Any]] = {}
    for key, each in cast("dict[str, Any]", value).items():
        if isinstance(each, dict):
            objects[key] = cast("dict[str, Any]", each)
        else:
            faults.append(Issue("format", "must be an object", f"{name}: {key}"))
    return objects


def text_at(value: Mapping[str, Any], name: str, where: str, faults: list[Issue]) -> str:
    """Return the text under a key; if there is none, add a fault and return an empty text."""
    given = value.get(name)
    if isinstance(given, str) and given:
        return given
    faults.append(Issue("format" if name in value else "missing", f"{name}: must be a text, and not empty", where))
    return ""


def _texts(value: Mapping[str, Any], name: str, where: str, faults: list[Issue]) -> tuple[str, ...]:
    """Return the list of texts under a key; if there is none, add a fault and return an empty tuple."""
    given = value.get(name)
    if isinstance(given, list) and all(isinstance(each, str) and each for each in cast("list[Any]", given)):
        return tuple(cast("list[str]", given))
    faults.append(Issue("format" if name in value else "missing", f"{name}: must be a list of texts", where))
    return ()


def optional_text(value: Mapping[str, Any], name: str, kind: type[Any], where: str, faults: list[Issue]) -> Any:
    """Return the text or boolean under a key, or None; add a fault if the value has another type."""
    given = value.get(name)
    if given is None or isinstance(given, kind):
        return given
    faults.append(Issue("format", f"{name}: must be a {'text' if kind is str else 'boolean'} or null", where))
    return None


def unknown_case(task: str, number: int, dataset: Dataset) -> str:
    """Return the error message for a task or round that the dataset does not have."""
    rounds = [subtask.round for subtask in dataset.subtasks.values() if subtask.task == task]
    if rounds:
        return f"the task {task!r} has the rounds 1 to {max(rounds)}, and no {number}"
    tasks = list(dict.fromkeys(subtask.task for subtask in dataset.subtasks.values()))
    return f"the dataset has no task {task!r}{did_you_mean(task, tasks)}"
