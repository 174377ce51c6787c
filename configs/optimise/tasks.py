"""Tasks that score a workflow, read from a file; all its faults are reported together."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

from pydantic import Field, JsonValue, ValidationError

from operad.configs.capabilities import Capabilities, Trust, UntrustedError, is_trusted
from operad.configs.faults import Faults
from operad.configs.imports import LoadedModules, Modules, StandIns
from operad.configs.optimise.verify import Verifier, VerifySpec, make_verifier
from operad.configs.read_capabilities import Part, Place, class_parts, parts_capabilities
from operad.configs.schema import Spec
from operad.runtime.values.document import Document, Path_
from operad.runtime.values.errors import InputError
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.json_lines import read_list
from operad.runtime.values.message import Job


class TaskSpec(Spec):
    """A task: a job, and what its answer must be."""

    id: Annotated[str, Field(min_length=1, max_length=100)] = Field(description="What results call it.")
    job: Annotated[str, Field(min_length=1)] = Field(description="What is to be done, in words.")
    context: str = Field(default="", description="What one needs to know for it.")
    inputs: dict[str, JsonValue] = Field(default={}, description="Named values that it is about.")
    files: list[Annotated[str, Field(min_length=1)]] = Field(
        default=[], description="Files that it is about, seen from this file's folder."
    )
    verify: VerifySpec


class TasksSpec(Spec):
    """A file of tasks."""

    tasks: list[TaskSpec] = Field(min_length=1)


class Case(NamedTuple):
    """A task to be run.

    Attributes:
        id: Id of the task in results.
        verifier: Verifier of the answer.
    """

    id: str
    job: Job
    verifier: Verifier


class Cases(NamedTuple):
    """The tasks of a file.

    Attributes:
        every: All tasks, in the order of the file.
        print: Hash of the file and the files it names.
    """

    every: tuple[Case, ...]
    print: str


def read_tasks(path: str | Path, *, trust: Trust = False) -> Cases:
    """Read a file of tasks: JSON lines, or YAML, a list of tasks.

    Args:
        trust: True if the file may do what it can; see `load`.

    Raises:
        InputError: The file does not exist, is too large, empty or not text.
        InvalidError: The file is not valid; every issue has its line.
        UntrustedError: The file needs trust; nothing of what it can do was done.
    """
    document, tasks, can = _read(path)
    if is_trusted(trust, can):
        return _build_cases(document, tasks, can.folder, LoadedModules(can))
    _build_cases(document, tasks, can.folder, StandIns(can))  # faults of the file are reported before missing trust
    raise UntrustedError(can)


def capabilities_of_tasks(path: str | Path) -> Capabilities:
    """Return what a file of tasks can do, without doing it.

    Raises:
        InputError, InvalidError: As `read_tasks`.
    """
    document, tasks, can = _read(path)
    _build_cases(document, tasks, can.folder, StandIns(can))
    return can


def _read(path: str | Path) -> tuple[Document, Mapping[int, TaskSpec], Capabilities]:
    """Return the file, its tasks by their numbers, and what it can do.

    Raises:
        InputError, InvalidError: As `read_tasks`.
    """
    file = FileDescriptor.of(path)
    name = str(path)
    unread: dict[Path_, str] = {}
    document = read_list(path, "tasks", unread)
    faults = Faults(document, TasksSpec)
    for place, message in unread.items():
        faults.report(place, "json", message)
    faults.leave_out(list(unread))
    tasks, faulty = _valid_tasks(document, faults)
    folder = file.path.resolve().parent
    can = parts_capabilities(name, document.data, folder, _parts(tasks.values(), Place(folder, os.environ)))
    if faults:  # the valid tasks, and the valid parts of the others, are built to report their faults as well
        for number, task in enumerate(document.data["tasks"]):
            fields = cast("dict[str, Any]", task) if isinstance(task, dict) and number not in tasks else {}
            valid = {key: value for key, value in fields.items() if (number, key) not in faulty}
            _build_parts(valid, ("tasks", number), can, faults)
        _build_cases(document, tasks, folder, StandIns(can), faults)
    return document, tasks, can


def _parts(tasks: Iterable[TaskSpec], place: Place) -> Iterator[Part]:
    """Yield what tasks can do: read files outside of the folder, and run classes of verifiers."""
    for task in tasks:
        for file in task.files:
            yield from place.outside("reads", file, "file of a task")
        if task.verify.class_:
            yield from class_parts(task.verify.class_, task.verify.params, place, Path.cwd())


def _valid_tasks(document: Document, faults: Faults) -> tuple[Mapping[int, TaskSpec], Collection[tuple[Any, ...]]]:
    """Return the valid tasks by their numbers, and number and key of the faults of others, which are reported.

    Raises:
        InvalidError: The file has another form.
    """
    try:
        return dict(enumerate(TasksSpec.model_validate(document.data).tasks)), ()
    except ValidationError as error:
        faults.report_validation((), error)
        places = [problem["loc"] for problem in error.errors()]
        if any(len(place) < 2 for place in places):  # not a list of tasks
            raise faults.error() from error
    numbers = {place[1] for place in places}
    tasks: list[Any] = document.data["tasks"]
    valid = {number: TaskSpec.model_validate(task) for number, task in enumerate(tasks) if number not in numbers}
    return valid, {place[1:3] for place in places}


def _build_cases(
    document: Document, tasks: Mapping[int, TaskSpec], folder: Path, modules: Modules, faults: Faults | None = None
) -> Cases:
    faults = faults or Faults(document, TasksSpec)
    cases = tuple(_build_case(task, number, folder, modules, faults) for number, task in tasks.items())
    first: dict[str, int] = {}
    for number, task in enumerate(document.data["tasks"]):
        name = cast("dict[str, Any]", task).get("id") if isinstance(task, dict) else None
        if isinstance(name, str) and first.setdefault(name, number) != number:
            faults.report(("tasks", number, "id"), "duplicate-id", f"another task is called {name!r} too")
    if faults:
        raise faults.error()
    files = [file.fingerprint() for case in cases for file in case.job.files]
    return Cases(cases, sha256(json.dumps([document.data, files], sort_keys=True, default=str).encode()).hexdigest())


def _build_parts(fields: Mapping[str, Any], path: Path_, can: Capabilities, faults: Faults) -> None:
    """Report the faults of the valid parts of a task that is not valid as a whole."""
    modules = StandIns(can)
    _files(fields.get("files") or (), can.folder, path, modules, faults)
    if fields.get("verify"):
        make_verifier(VerifySpec.model_validate(fields["verify"]), modules, faults, (*path, "verify"))


def _build_case(task: TaskSpec, number: int, folder: Path, modules: Modules, faults: Faults) -> Case:
    path: Path_ = ("tasks", number)
    files = _files(task.files, folder, path, modules, faults)
    verifier = make_verifier(task.verify, modules, faults, (*path, "verify"))
    job = Job(goal=task.job, context=task.context, inputs=task.inputs, files=files, id=task.id)
    return Case(task.id, job, verifier)


def _files(
    names: Sequence[str], folder: Path, path: Path_, modules: Modules, faults: Faults
) -> tuple[FileDescriptor, ...]:
    """Return the files of a task that may be opened; missing ones are reported and left out."""
    files: list[FileDescriptor] = []
    for number, name in enumerate(names):
        try:
            if modules.opens(file := folder / Path(name).expanduser()):
                files.append(FileDescriptor.of(file))
        except (InputError, RuntimeError) as error:
            faults.report((*path, "files", number), "file", str(error))
    return tuple(files)
